"""What a run declares before its first episode, and how a report is read by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.schedules import Budget
from lowswitch.checks import (
    LARGEST,
    checked_mask,
    checked_policy,
    is_integer,
    is_number,
    require_count,
    require_memory,
    require_seed,
    require_word,
)
from lowswitch.ledger.errors import LedgerError
from lowswitch.table_learner import TableLearner

MISSING = ("drop", "optimistic", "hold")
ENDED = ("whole", "truncated", "terminated")
# when a row of a proposal is IMPROVE, LIKELY and WORSE, see `evidence`
THRESHOLDS = {"improve": 0.05, "likely": 0.8, "worse": 0.2}
_MOST_DIGITS = 100  # of a number; a longer label is no position of anything
_LONGEST = 10**9  # bytes of an event that SQLite and PostgreSQL can hold
Steps = tuple[list[int], list[int], list[float]]  # H states, actions and rewards in [0, 1]


class Report(NamedTuple):
    """What came of one ticket, in numbers: states, actions and rewards in the run's own units."""

    number: int  # of the ticket
    states: tuple[int, ...]
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    ended: str  # one of ENDED, or "missing"

    def to_payload(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "states": list(self.states),
            "actions": list(self.actions),
            "rewards": list(self.rewards),
            "ended": self.ended,
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Report:
        states, actions = tuple(payload["states"]), tuple(payload["actions"])
        return cls(payload["number"], states, actions, tuple(payload["rewards"]), payload["ended"])


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The declaration of a run, as its first event holds it."""

    algorithm: Algorithm
    horizon: int
    states: int
    actions: int
    episodes: int
    labels: dict[str, tuple[str, ...]]  # of "step", "state" and "action"
    rewards: tuple[float, float]  # the range
    allowed: np.ndarray  # [H, S, A]
    policy: np.ndarray  # [H, S]  deployed first
    missing: str  # what a report that never comes means: one of MISSING
    gate: str
    patience: int | None  # a ticket expires when so many later ones were issued
    absorbing: int | None  # the state in which a terminated episode stays
    seed: int
    numbers: dict[str, Any]  # of the algorithm, worked out for this size
    thresholds: dict[str, float]  # by the names of THRESHOLDS

    def learner(self) -> TableLearner:
        """A learner that knows nothing."""
        return TableLearner(
            self.algorithm,
            horizon=self.horizon,
            states=self.states,
            actions=self.actions,
            episodes=self.episodes,
            actions_allowed=self.allowed,
            seed=self.seed,
            gate=self.gate,
            initial=self.policy,
            numbers=self.numbers or None,
        )

    @property
    def budget(self) -> Budget | None:
        """How much may be proposed, if that is limited."""
        schedule = self.algorithm.schedule
        return schedule if isinstance(schedule, Budget) else None

    @property
    def most_proposals(self) -> int | None:
        """How many proposals may be put to the board, if their number is limited."""
        return None if self.budget is None else self.budget.deployments

    @property
    def gap(self) -> int:
        """The least number of episodes that the schedule leaves between two of its dates."""
        schedule = self.algorithm.schedule if self.budget is None else self.budget.schedule
        return int(getattr(schedule, "gap", 1))

    @functools.cached_property
    def _forbidden(self) -> frozenset[tuple[int, int, int]]:
        """What may never be played, as (step, state, action)."""
        return frozenset((h, x, a) for h, x, a in np.argwhere(~self.allowed).tolist())

    # ---- labels and rewards ----------------------------------------------------------------------

    def index(self, kind: str, value: Any) -> int:
        """The position of a step, state or action.

        A text is always a label. A whole number is a position from 0 on, and is refused where it
        could also mean the label of another one.
        """
        names = self.labels[kind]
        if isinstance(value, str) and value in names:
            return names.index(value)
        if is_integer(value) and value in self._ambiguous[kind]:
            raise LedgerError(self._says_twice(kind, int(value)))
        if is_integer(value) and 0 <= value < len(names):
            return int(value)
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        positions = "" if isinstance(value, str) else f", or 0 to {len(names) - 1}"
        raise LedgerError(f"there is no {kind} {value!r}; the {kind}s are {shown}{positions}")

    @functools.cached_property
    def _ambiguous(self) -> dict[str, dict[int, str]]:
        """For each kind the labels that are numbers, but not the numbers of their positions."""
        return {
            kind: {
                int(label): label
                for position, label in enumerate(names)
                if _is_number(label) and int(label) != position
            }
            for kind, names in self.labels.items()
        }

    def _says_twice(self, kind: str, value: int) -> str:
        """Why a number that is also a label is refused."""
        names, label = self.labels[kind], self._ambiguous[kind][value]
        if value >= len(names):
            return f"{kind} {value} is a label, and labels are text; give it as {label!r}"
        return (
            f"{kind} {value} could mean the label {label!r}, or position {value} counted from 0,"
            f" which is {names[value]!r}; give the label as text"
        )

    def indices(self, kind: str, values: list[Any]) -> tuple[int, ...]:
        """The positions of several; those that are positions already are checked all at once."""
        are_whole = set(map(type, values)) == {int}
        if (
            are_whole
            and 0 <= min(values) <= max(values) < self.size(kind)
            and self._ambiguous[kind].keys().isdisjoint(values)
        ):
            return tuple(values)
        return tuple(self.index(kind, value) for value in values)

    def row_name(self, h: int, x: int) -> str:
        """A row by its labels, as the command line takes it."""
        return f"{self.labels['step'][h]}:{self.labels['state'][x]}"

    def size(self, kind: str) -> int:
        """How many steps, states or actions there are."""
        return len(self.labels[kind])

    def _rewards(self, values: list[Any]) -> tuple[float, ...]:
        """Several rewards; those that are floats of the range already are seen at one glance."""
        low, high = self.rewards
        if [value for value in values if not (type(value) is float and low <= value <= high)]:
            return tuple(self.reward(value) for value in values)
        return tuple(values)

    def reward(self, value: Any) -> float:
        """A reward within the declared range."""
        low, high = self.rewards
        if not (is_number(value) and low <= value <= high):
            raise LedgerError(
                f"the reward {value!r} is outside of the declared range [{low:g}, {high:g}], so the"
                " report is refused and its ticket stays open; correct it, and tell it again"
            )
        return float(value)

    def unit(self, reward: float) -> float:
        """A reward in [0, 1], as learners have it."""
        low, high = self.rewards
        return (reward - low) / (high - low)

    def amount(self, value: float) -> float:
        """A difference in [0, 1] in the units of the run."""
        low, high = self.rewards
        return value * (high - low)

    # ---- reports ---------------------------------------------------------------------------------

    def report(
        self,
        number: int,
        policy: Callable[[], np.ndarray],
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str,
    ) -> Report:
        """A report once it is checked; actions that are None are those of the policy [H, S]."""
        places = self.indices("state", _items("states", states))
        paid = self._rewards(_items("rewards", rewards))
        if actions is None:
            table = policy()
            played = tuple(int(table[h, x]) for h, x in enumerate(places[: len(paid)]))
        else:
            played = self.indices("action", _items("actions", actions))
        self._require_lengths(places, played, paid, ended)
        if self._forbidden:
            self._require_allowed(places, played)
        return Report(number, places, played, paid, ended)

    def _require_allowed(self, states: Sequence[int], actions: Sequence[int]) -> None:
        for h, x, a in zip(range(self.horizon), states, actions, strict=False):
            if (h, x, a) in self._forbidden:
                raise LedgerError(
                    f"action {self.labels['action'][a]} is not allowed at step"
                    f" {self.labels['step'][h]} in state {self.labels['state'][x]}"
                )

    def _require_lengths(
        self, states: Sequence[int], actions: Sequence[int], rewards: Sequence[float], ended: str
    ) -> None:
        n, H = len(actions), self.horizon
        fits = len(rewards) == n and len(states) in (n, n + 1) and n <= H and len(states) <= H + 1
        if ended == "whole":
            fits = fits and n == H
        if ended == "terminated" and self.absorbing is None:
            raise LedgerError(
                "this run has no absorbing state, so no episode of it can be terminated; report it"
                " as truncated, or create the ledger with absorbing=, which is --absorbing on the"
                " command line"
            )
        if not fits:
            raise LedgerError(
                f"{len(states)} states, {n} actions and {len(rewards)} rewards are no {ended}"
                f" episode of {H} steps: there is one action and one reward for each state, and the"
                " state after the last step may follow; say ended='truncated', or --ended truncated"
                " on the command line, for one that was not seen to its end"
            )

    def steps(self, report: Report, values: np.ndarray, policy: np.ndarray) -> Steps | None:
        """The H states, actions (-1 where nothing is learned) and rewards in [0, 1] of a report.

        None if nothing at all is to be learned. `values` [H + 1, S] are those that the learner
        hopes for, and `policy` [H, S] is what the ticket was to play.
        """
        H, n = self.horizon, len(report.actions)
        states = [*report.states[:H], *[0] * (H - len(report.states))]
        actions = [*report.actions, *[-1] * (H - n)]
        low, high = self.rewards
        width = high - low
        rewards = [*[(reward - low) / width for reward in report.rewards], *[0.0] * (H - n)]
        if report.ended in ("truncated", "missing") and 0 < n < H and len(report.states) == n:
            actions[n - 1] = -1  # what came of it was not seen
        if report.ended == "terminated":
            end = self.absorbing or 0
            for h in range(n, H):
                states[h], rewards[h] = end, self.unit(0.0)
                actions[h] = int(self.allowed[h, end].argmax())
        if report.ended == "missing" and self.missing == "optimistic":
            self._hope(report, states, actions, rewards, values, policy)
        return (states, actions, rewards) if max(actions) >= 0 else None

    def _hope(
        self,
        report: Report,
        states: list[int],
        actions: list[int],
        rewards: list[float],
        values: np.ndarray,
        policy: np.ndarray,
    ) -> None:
        """Fill in the step whose outcome is missing: the largest reward and the largest value."""
        h = len(report.states) - 1
        if not 0 <= h < self.horizon:
            return
        known = h < len(report.actions)
        actions[h] = report.actions[h] if known else int(policy[h, states[h]])
        rewards[h] = 1.0
        if h + 1 < self.horizon:
            states[h + 1] = int(values[h + 1].argmax())

    # ---- the first event -------------------------------------------------------------------------

    def to_payload(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm.to_dict(),
            "horizon": self.horizon,
            "states": self.states,
            "actions": self.actions,
            "episodes": self.episodes,
            "labels": {name: list(labels) for name, labels in self.labels.items()},
            "rewards": list(self.rewards),
            "allowed": self.allowed.astype(int).tolist(),
            "policy": self.policy.tolist(),
            "missing": self.missing,
            "gate": self.gate,
            "patience": self.patience,
            "absorbing": self.absorbing,
            "seed": self.seed,
            "numbers": self.numbers,
            "thresholds": self.thresholds,
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Terms:
        payload = {"thresholds": THRESHOLDS} | payload  # which older ledgers do not declare
        fields = {name: payload[name] for name in cls.__dataclass_fields__}
        return cls(
            **fields
            | {
                "algorithm": Algorithm.from_dict(payload["algorithm"]),
                "labels": {name: tuple(labels) for name, labels in payload["labels"].items()},
                "rewards": tuple(payload["rewards"]),
                "allowed": np.array(payload["allowed"], dtype=bool),
                "policy": np.array(payload["policy"], dtype=np.int64),
            }
        )


def checked_terms(
    algorithm: Algorithm,
    *,
    horizon: int,
    states: int | Sequence[str],
    actions: int | Sequence[str],
    episodes: int,
    steps: Sequence[str] | None,
    rewards: tuple[float, float],
    actions_allowed: Any,
    policy: Any,
    missing: str,
    gate: str,
    patience: int | None,
    absorbing: int | str | None,
    seed: int,
    thresholds: dict[str, float] | None = None,
) -> Terms:
    """The terms of a run, or an error that names what does not fit."""
    require_algorithm(algorithm)
    H = require_count("horizon", horizon)
    _require_size(H, _count("states", states), _count("actions", actions))
    labels = {
        "step": _labels("steps", H if steps is None else steps, H),
        "state": _labels("states", states, None),
        "action": _labels("actions", actions, None),
    }
    S, A = len(labels["state"]), len(labels["action"])
    low, high = _checked_range(rewards)
    require_word("missing", missing, MISSING)
    require_word("gate", gate, ("review", "open"))
    allowed = checked_mask(actions_allowed, H, S, A)
    terms = Terms(
        algorithm=algorithm,
        horizon=H,
        states=S,
        actions=A,
        episodes=require_count("episodes", episodes),
        labels=labels,
        rewards=(low, high),
        allowed=allowed,
        policy=allowed.argmax(axis=-1) if policy is None else checked_policy(policy, allowed),
        missing=missing,
        gate=gate,
        patience=None if patience is None else require_count("patience", patience),
        absorbing=None,
        seed=require_seed(seed),
        numbers={},
        thresholds=_checked_thresholds(thresholds or {}),
    )
    facts = terms.to_payload() | {"numbers": terms.learner().numbers()}
    if absorbing is not None:
        if not low <= 0 <= high:
            raise LedgerError(
                f"an absorbing state pays 0, which is outside of the rewards [{low:g}, {high:g}]"
            )
        facts["absorbing"] = terms.index("state", absorbing)
    return Terms.from_payload(facts)


def _checked_thresholds(given: dict[str, float]) -> dict[str, float]:
    """All thresholds, those that were given and the usual ones."""
    for name, value in given.items():
        require_word("a threshold", name, tuple(THRESHOLDS))
        if not (is_number(value) and 0 < value < 1):
            raise LedgerError(f"the threshold {name} must lie between 0 and 1, not {value!r}")
    found = THRESHOLDS | {name: float(value) for name, value in given.items()}
    if not found["worse"] < found["likely"] <= 1 - found["improve"]:
        raise LedgerError(
            f"thresholds must rise from worse ({found['worse']:g}) to likely"
            f" ({found['likely']:g}) and to 1 - improve ({1 - found['improve']:g})"
        )
    return found


def _checked_range(rewards: tuple[float, float]) -> tuple[float, float]:
    """The least and the largest reward, of which sums and squares are finite."""
    low, high = rewards
    if not (is_number(low) and is_number(high) and low < high):
        raise LedgerError(f"rewards must be a range such as (0, 1), not {rewards!r}")
    if not (low >= -LARGEST and high <= LARGEST):
        raise LedgerError(
            f"rewards must lie between {-LARGEST:g} and {LARGEST:g}, not {rewards!r}: the sum of"
            " larger ones is infinite; give the range in a larger unit"
        )
    return float(low), float(high)


def _count(name: str, given: Any) -> int:
    """How many labels there are, or are to be made."""
    if is_integer(given):
        return require_count(name, given)
    return len(given) if isinstance(given, Sequence) else 1  # which `_labels` refuses


def _require_size(H: int, S: int, A: int) -> None:
    """Say before anything is built that a run of this size cannot be held.

    Its first event has a number for each cell and each row, and a label for each step, state and
    action. In memory it is a list and a text, twice.
    """
    what = f"a ledger with horizon {H:,}, {S:,} states and {A:,} actions"
    way_out = "declare fewer steps, states or actions"
    text = 2 * H * S * (A + 1) + 4 * (H + S + A)
    if text > _LONGEST:
        raise LedgerError(
            f"{what} begins with an event of {text / 1e9:,.1f} GB, and a database holds at most"
            f" {_LONGEST / 1e9:g} GB in one; {way_out}"
        )
    labels = H + S + A
    require_memory(H * S * (40 * A + 100) + 250 * labels, f"the terms of {what}", way_out)


def _labels(name: str, given: int | Sequence[str], size: int | None) -> tuple[str, ...]:
    if is_integer(given):
        assert isinstance(given, int)
        return tuple(str(i) for i in range(require_count(name, given)))
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise LedgerError(f"{name} must be a number or a list of labels, not {given!r}")
    labels = tuple(given)
    bad = [label for label in labels if not (isinstance(label, str) and label.strip())]
    if bad or len(set(labels)) < len(labels) or not labels or len(labels) != (size or len(labels)):
        count = f"{size} " if size else ""
        raise LedgerError(
            f"{name} must be {count}different texts that are not empty, not {given!r}"
        )
    return labels


def _is_number(label: str) -> bool:
    """Whether a label is a whole number that somebody may give as such."""
    return label.strip().isdecimal() and len(label) < _MOST_DIGITS


def _items(name: str, values: Any) -> list[Any]:
    if type(values) is list:
        return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise LedgerError(f"{name} must be a list, one for each step, not {values!r}")
    return list(values)
