"""The terms of a run with a finite set of states: reports are positions, policies are tables."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import checked_mask, checked_policy, require_count, require_memory
from lowswitch.history import History
from lowswitch.learner import Batch, Learner
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.responses import Issued
from lowswitch.ledger.table_proposals import TableProposals
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import (
    Report,
    Steps,
    Terms,
    checked_labels,
    checked_parts,
    count_of,
    items,
)
from lowswitch.policy.tables import TablePolicy
from lowswitch.show.text import counted
from lowswitch.table_learner import TableLearner

if TYPE_CHECKING:
    from lowswitch.ledger.store import StoredTicket

_MOST_CELLS = 1 << 20  # rows of policies in one answer; larger ones are fetched table by table
_LONGEST = 10**8  # bytes of the first event, which every opening reads
_COLUMNS = "states", "actions", "rewards"
_MOST_NAMED = 6  # forbidden actions that an error names


@dataclass(frozen=True, kw_only=True, eq=False)
class TableTerms(Terms):
    """The declaration of a run with a finite number of states."""

    has_rows: ClassVar[bool] = True
    states: int
    allowed: np.ndarray  # [H, S, A]
    policy: np.ndarray  # [H, S]  deployed first
    absorbing: int | None  # the state in which a terminated episode stays
    numbers: dict[str, Any]  # of the algorithm, worked out for this size

    @classmethod
    def declared(
        cls,
        algorithm: Algorithm,
        *,
        states: int | Sequence[str],
        actions_allowed: Any,
        policy: Any,
        absorbing: int | str | None,
        **others: Any,
    ) -> Self:
        """The terms of a run; the error names what does not fit. Other options: `checked_parts`."""
        require_algorithm(algorithm)
        H = require_count("horizon", others["horizon"])
        _require_size(H, count_of("states", states), count_of("actions", others["actions"]))
        parts = checked_parts(**others)
        parts["labels"]["state"] = checked_labels("states", states)
        S, A = len(parts["labels"]["state"]), parts["actions"]
        allowed = checked_mask(actions_allowed, H, S, A)
        terms = cls(
            algorithm=algorithm,
            states=S,
            allowed=allowed,
            policy=allowed.argmax(axis=-1) if policy is None else checked_policy(policy, allowed),
            absorbing=None,
            numbers={},
            **parts,
        )
        numbers = terms.learner().numbers()  # which refuses what would take too long
        facts = terms.to_payload() | {"numbers": numbers}
        if absorbing is not None:
            low, high = terms.rewards
            if not low <= 0 <= high:
                raise LedgerError(
                    "an absorbing state pays 0, which is outside of the rewards"
                    f" [{low:g}, {high:g}]"
                )
            facts["absorbing"] = terms.index("state", absorbing)
        return cls.from_payload(facts)

    # ---- the learner -----------------------------------------------------------------------------

    def learner(self) -> TableLearner:
        """A new learner."""
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

    def restored(self, data: bytes) -> TableLearner:
        return TableLearner.from_bytes(data, numbers=self.numbers)

    def tally(self, data: bytes | None = None) -> Tally:
        shape = self.horizon, self.states, self.actions
        return Tally(shape) if data is None else Tally.from_bytes(shape, data)

    @functools.cached_property
    def proposals(self) -> TableProposals:
        return TableProposals(self)

    # ---- labels and rewards ----------------------------------------------------------------------

    @property
    def sizes(self) -> str:
        states, actions, steps = (
            counted(self.size(kind), self.word(kind)) for kind in ("state", "action", "step")
        )
        return f"{states}, {actions} and {steps} per {self.word('episode')}"

    def row_name(self, h: int, x: int) -> str:
        """A row by its labels, in the notation of the command line."""
        return f"{self.labels['step'][h]}:{self.labels['state'][x]}"

    def unit(self, reward: float) -> float:
        """A reward mapped to [0, 1], as learners expect."""
        low, high = self.rewards
        return (reward - low) / (high - low)

    def amount(self, value: float) -> float:
        """A difference in [0, 1], in the units of the run."""
        low, high = self.rewards
        return value * (high - low)

    def value(self, value: float) -> float:
        """The value of an episode with rewards in [0, 1] in the units of the run."""
        return self.amount(value) + self.horizon * self.rewards[0]

    def state_names(self, states: Sequence[int]) -> list[str]:
        return [self.labels["state"][x] for x in states]

    # ---- reports ---------------------------------------------------------------------------------

    @functools.cached_property
    def _forbidden(self) -> frozenset[tuple[int, int, int]]:
        """The actions that may never be played, as (step, state, action)."""
        return frozenset((h, x, a) for h, x, a in np.argwhere(~self.allowed).tolist())

    def report(
        self,
        number: int,
        policy: TablePolicy,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str,
        propensities: Any = None,
    ) -> Report:
        if propensities is not None:
            raise LedgerError("propensities are for features; with states, leave them out")
        places = self.indices("state", items("states", states))
        paid = self.paid(items("rewards", rewards))
        if actions is None:
            table = policy.table(number - 1)
            played = tuple(int(table[h, x]) for h, x in enumerate(places[: len(paid)]))
        else:
            played = self.indices("action", items("actions", actions))
        self._require_lengths(places, played, paid, ended)
        if self._forbidden:
            self._require_allowed(places, played)
        return Report(number, places, played, paid, ended)

    def reports(
        self, tickets: Sequence[StoredTicket], policies: Sequence[Any], told: Sequence[Any]
    ) -> list[Report] | None:
        """Whole episodes in positions are checked column by column."""
        states, actions, rewards = ([one[name] for one in told] for name in _COLUMNS)
        if (
            any(one.get("ended", "whole") != "whole" for one in told)
            or any(one.get("propensities") is not None for one in told)
            or self._forbidden
            or not self._are_positions("state", states)
            or not self._are_positions("action", actions)
            or not self._are_paid(rewards)
        ):
            return super().reports(tickets, policies, told)
        return [
            Report(ticket.number, tuple(seen), tuple(played), tuple(paid), "whole")
            for ticket, seen, played, paid in zip(tickets, states, actions, rewards, strict=True)
        ]

    def _are_positions(self, kind: str, lists: list[Any]) -> bool:
        """Whether these are lists of H positions each."""
        if not self._are_lists(lists):
            return False
        values = list(itertools.chain.from_iterable(lists))
        return (
            set(map(type, values)) == {int}
            and 0 <= min(values) <= max(values) < self.size(kind)
            and self._ambiguous[kind].keys().isdisjoint(values)
        )

    def _are_paid(self, lists: list[Any]) -> bool:
        """Whether these are lists of H rewards each, all of them floats within the range."""
        if not self._are_lists(lists):
            return False
        values, (low, high) = list(itertools.chain.from_iterable(lists)), self.rewards
        if set(map(type, values)) != {float}:
            return False
        paid = np.array(values)
        return bool(((low <= paid) & (paid <= high)).all())

    def _are_lists(self, lists: list[Any]) -> bool:
        return set(map(type, lists)) == {list} and set(map(len, lists)) == {self.horizon}

    def _require_allowed(self, states: Sequence[int], actions: Sequence[int]) -> None:
        for h, x, a in zip(range(self.horizon), states, actions, strict=False):
            if (h, x, a) in self._forbidden:
                raise LedgerError(
                    f"{self.named('action', a)} is not allowed at {self.named('step', h)} in"
                    f" {self.named('state', x)}"
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

    def steps(
        self, report: Report, learner: Callable[[], TableLearner], policy: TablePolicy
    ) -> Steps | None:
        H, n = self.horizon, len(report.actions)
        low, high = self.rewards
        width = high - low
        paid = [(reward - low) / width for reward in report.rewards]
        if report.ended == "whole" and n == H <= len(report.states):
            return report.states[:H], report.actions, paid
        states = [*report.states[:H], *[0] * (H - len(report.states))]
        actions = [*report.actions, *[-1] * (H - n)]
        rewards = [*paid, *[0.0] * (H - n)]
        if report.ended in ("truncated", "missing") and 0 < n < H and len(report.states) == n:
            actions[n - 1] = -1  # what came of it was not seen
        if report.ended == "terminated":
            end = self.absorbing or 0
            for h in range(n, H):
                states[h], rewards[h] = end, self.unit(0.0)
                actions[h] = int(self.allowed[h, end].argmax())
        if report.ended == "missing" and self.missing == "optimistic":
            table = policy.table(report.number - 1)
            self._hope(report, states, actions, rewards, learner().values, table)
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

    def batch(self, steps: Sequence[Steps]) -> Batch:
        states, actions, rewards = zip(*steps, strict=True)
        return (
            np.array(states, dtype=np.int64),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float64),
        )

    def require_learnable(self, report: Report) -> None:
        for name, found in (("state", report.states), ("action", report.actions)):
            if found and not 0 <= min(found) <= max(found) < self.size(name):
                raise ValueError(
                    f"its {name}s are {min(found)} to {max(found)}, and there are {self.size(name)}"
                )

    def places(self, batch: Batch) -> np.ndarray:  # [B, H]
        return batch[0]

    def history(
        self,
        states: Sequence[Sequence[Any]],
        actions: Sequence[Sequence[Any]],
        rewards: Sequence[Sequence[Any]],
    ) -> dict[str, Any]:
        if not len(states) == len(actions) == len(rewards) or len(states) == 0:
            raise LedgerError(
                "history has as many lists of states as of actions and rewards, and some"
            )
        first = TablePolicy(self.policy[None], np.uint64(0))
        found = [
            self.report(0, first, *episode, "whole")
            for episode in zip(states, actions, rewards, strict=True)
        ]
        return {
            "states": [list(report.states[: self.horizon]) for report in found],
            "actions": [list(report.actions) for report in found],
            "rewards": [list(report.rewards) for report in found],
        }

    def learn_history(self, learner: TableLearner, payload: dict[str, Any]) -> Batch:
        states, actions = np.array(payload["states"]), np.array(payload["actions"])
        rewards = np.vectorize(self.unit, otypes=[float])(np.array(payload["rewards"]))
        kept = learner.learn_history(states, actions, rewards, most=payload["most"])
        return states, kept, rewards

    # ---- policies --------------------------------------------------------------------------------

    def to_facts(self, policy: TablePolicy) -> Any:
        return policy.actions.tolist()

    def from_facts(self, facts: Any, learner: Learner) -> TablePolicy:
        deployed: TablePolicy = learner.deployed
        actions = np.array(facts, dtype=np.int64)
        return TablePolicy(actions, deployed.key, has_protocol=deployed.has_protocol)

    def issued(self, ticket: StoredTicket, policy: TablePolicy, *, whole: bool = True) -> Issued:
        number, name, site, request, version = ticket[:5]
        member = int(policy.member_for(np.array([number - 1]))[0])
        table = policy.actions[member].tolist() if whole else None
        part = policy.part(number - 1)
        return Issued(name, number, site, request, version, table, part, member)

    @property
    def cells(self) -> int:
        return self.horizon * self.states

    def to_json(self, policy: TablePolicy, member: int | None) -> dict[str, Any]:
        tables = policy.actions
        found: dict[str, Any] = {"members": len(tables)}
        if member is None:
            return found | {"policy": tables.tolist() if tables.size <= _MOST_CELLS else None}
        if member >= len(tables):
            raise LedgerError(f"this version has {len(tables)} tables, from 0 on")
        return found | {"member": member, "policy": tables[member].tolist()}

    def usual_batch(self) -> Batch:
        first = self.allowed[:, 0].argmax(axis=-1)[None].astype(np.int64)
        return np.zeros((1, self.horizon), dtype=np.int64), first, np.zeros((1, self.horizon))

    def shown(self, policy: TablePolicy) -> np.ndarray:  # [members, H, S]
        return policy.actions

    def share(self, policy: TablePolicy) -> float | None:
        return policy.share

    def changed_rows(self, before: TablePolicy, after: TablePolicy) -> int:
        return len(before.difference(after))

    def is_forbidden(self, policy: TablePolicy, learner: Learner) -> bool:
        allowed = learner.actions_allowed[None]
        return not np.take_along_axis(allowed, policy.actions[..., None], axis=-1).all()

    def without_forbidden(
        self, policy: TablePolicy, now: TablePolicy, learner: Learner
    ) -> tuple[TablePolicy, list[list[int]]]:
        law, present = policy.actions, now.actions
        allowed = np.take_along_axis(learner.actions_allowed[None], law[..., None], axis=-1)
        gone = ~allowed[..., 0]
        if not gone.any():
            return policy, []
        if policy.has_protocol:  # its trial follows it, and it the present one
            present = np.where(gone[0], present[0], law[0])[None]
        rows: list[list[int]] = np.argwhere(gone.any(axis=0)).tolist()
        law = np.where(gone, present, law)
        return TablePolicy(law, policy.key, has_protocol=policy.has_protocol), rows

    def forbidden_words(self, policy: TablePolicy, learner: Learner) -> str:
        played = np.zeros(learner.actions_allowed.shape, dtype=bool)
        for table in policy.actions:
            np.put_along_axis(played, table[..., None], True, axis=-1)
        labels = self.labels
        found = [
            f"{labels['action'][a]} for {labels['state'][x]}, {labels['step'][h]}"
            for h, x, a in np.argwhere(played & ~learner.actions_allowed).tolist()
        ]
        more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return f": {'; '.join(found[:_MOST_NAMED])}{more}"

    def deployed(self, switch: History) -> list[Any]:
        changes: list[Any] = switch.changes.tolist()
        return changes

    def difference(self, before: TablePolicy, after: TablePolicy, told: int) -> list[Any]:
        rows, now = before.difference(after).tolist(), after.actions
        return [[told - 1, h, x, *now[:, h, x].tolist()] for h, x in rows]

    # ---- the first event -------------------------------------------------------------------------

    def to_payload(self) -> dict[str, Any]:
        tables = {"allowed": self.allowed.astype(int).tolist(), "policy": self.policy.tolist()}
        return super().to_payload() | tables

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        allowed = np.array(payload["allowed"], dtype=bool)
        policy = np.array(payload["policy"], dtype=np.int64)
        return super().from_payload(payload | {"allowed": allowed, "policy": policy})


def _require_size(H: int, S: int, A: int) -> None:
    """Refuse a run too large to hold, before anything is built.

    Its first event has a number for each cell and each row, and a label for each step, state and
    action. In memory it exists as a list and as a text, twice.
    """
    what = f"a ledger with horizon {H:,}, {S:,} states and {A:,} actions"
    way_out = "declare fewer steps, states or actions"
    text = 2 * H * S * (A + 1) + 4 * (H + S + A)
    if text > _LONGEST:
        raise LedgerError(
            f"{what} begins with an event of {text / 1e6:,.0f} MB, which every opening reads, and"
            f" it may have {_LONGEST / 1e6:g} MB; {way_out}"
        )
    labels = H + S + A
    require_memory(H * S * (40 * A + 100) + 250 * labels, f"the terms of {what}", way_out)
