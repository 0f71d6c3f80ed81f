"""The declaration of a run, and how it reads states, reports and policies.

`TableTerms` describe a run with a finite set of states, `FeatureTerms` a run whose states are
vectors. State, intake, snapshots and views use this interface and never ask which of the two they
have.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.schedules import Budget
from lowswitch.checks import (
    LARGEST,
    is_integer,
    is_number,
    require_count,
    require_seed,
    require_word,
)
from lowswitch.learner import Batch, Learner
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.responses import Issued
from lowswitch.ledger.tally import Tally
from lowswitch.show.text import plural

if TYPE_CHECKING:
    from lowswitch.ledger.feature_terms import FeatureTerms
    from lowswitch.ledger.state import State
    from lowswitch.ledger.store import StoredTicket
    from lowswitch.ledger.table_terms import TableTerms

MISSING = ("drop", "optimistic", "hold")
ENDED = ("whole", "truncated", "terminated")
# when a row of a proposal is IMPROVE, LIKELY and WORSE, see `evidence`
THRESHOLDS = {"improve": 0.05, "likely": 0.8, "worse": 0.2}
# what people call things, unless the run says otherwise
WORDS = {name: name for name in ("step", "state", "action", "reward")} | {"episode": "case"}
_USUAL: dict[str, Any] = {  # not recorded
    "name": "",
    "words": {},
    "quorum": 1,
    "patience_days": None,
    "forecast": (),
}
_MOST_NAME = 60  # characters
_MOST_DAYS = 36_500
_MOST_DIGITS = 100  # of a number; a longer label is no position of anything
# H states or contexts, actions and rewards
Steps = tuple[Sequence[Any], Sequence[int], Sequence[float]]


class Report(NamedTuple):
    """The report of one ticket in numbers: states, actions and rewards in the run's own units."""

    number: int  # of the ticket
    states: tuple[Any, ...]  # positions; with features the vector of each step, or its vectors
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    ended: str  # one of ENDED, or "missing"
    # with features: how probable each action was, by the policy that chose it; older ones lack it
    propensities: tuple[float, ...] | None = None

    def to_payload(self) -> dict[str, Any]:
        known = self.propensities
        return ({} if known is None else {"propensities": known}) | {
            "number": self.number,
            "states": self.states,
            "actions": self.actions,
            "rewards": self.rewards,
            "ended": self.ended,
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Report:
        states, actions = tuple(payload["states"]), tuple(payload["actions"])
        known = payload.get("propensities")
        paid, ended = tuple(payload["rewards"]), payload["ended"]
        chances = None if known is None else tuple(known)
        return cls(payload["number"], states, actions, paid, ended, chances)


class Expected(NamedTuple):
    """A plan's expectation per episode after some episodes: the median and its interval."""

    after: int  # episodes
    low: float  # 10 % of the problems lie below it
    middle: float
    high: float


class Known(NamedTuple):
    """The facts behind the evidence of a proposal, beside the learner's beliefs."""

    tally: Tally
    learned: int  # episodes
    unsettled: Counter[int]  # tickets that are open or missing, of each version


class Proposals(Protocol):
    """How the proposals of a run are recorded, read, decided on and shown."""

    rules: tuple[int, ...]  # versions of the rule that judges rows; the last one is in use

    def judged(self, state: State, made: Any, known: Known, rule: int) -> dict[str, Any]:
        """The record of a proposal by a rule: its "rows" with their evidence, and more."""

    def left(self, last: dict[str, Any] | None, made: Any) -> dict[str, Any] | None:
        """The evidence of a proposal that is the remainder of the last one, or None."""

    def read(self, payload: dict[str, Any]) -> Any:
        """The recorded proposal in the learner's form."""

    def keys(self, rows: list[list[int]]) -> list[tuple[int, int]] | None:
        """The recorded rows of a decision in the learner's form."""

    def chosen(self, pending: dict[str, Any], rows: Sequence[Any] | None) -> list[list[int]]:
        """The rows that a decision is about, by default all; an unknown row is an error."""

    def require_rejection(
        self,
        pending: dict[str, Any],
        rows: list[list[int]],
        forever: bool,
        visits: Any,
        actions: list[int] | None,
    ) -> None:
        """Check that these rows can be rejected permanently, or held for `visits` visits.

        actions: the actions to forbid, if they are named.
        """

    def veto(self, rows: Sequence[tuple[Any, Any]] | None, actions: list[int]) -> dict[str, Any]:
        """The rows and actions of a veto, after the rows are checked."""

    def require_vetoable(self, state: State, payload: dict[str, Any]) -> None:
        """Check that every row keeps an allowed action and has a replacement for a deployed one."""

    def allowed_in(self, allowed: np.ndarray, row: list[int]) -> np.ndarray:  # [A]
        """Which actions are allowed in a row, by the learner's mask."""

    def row_name(self, row: list[int]) -> str:
        """A recorded row in words."""

    def plays(self, policy: Any, payload: dict[str, Any]) -> bool:
        """Whether a policy may play an action of a veto in one of its rows."""

    def replaced(self, policy: Any, payload: dict[str, Any]) -> list[Any]:
        """The part of a policy that a veto would replace at once, to compare two versions."""

    def others(
        self, state: State, changes: Sequence[tuple[int, int, int]]
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """The evidence of changes (step, state, action) that nobody proposed, as in `labelled`, and
        their joint worth.
        """

    def labelled(self, row: dict[str, Any]) -> dict[str, Any]:
        """A recorded row with labels, in the run's units of reward."""

    def in_units(self, worth: dict[str, Any] | None) -> dict[str, Any] | None:
        """The worth of a proposal in the run's units of reward."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms(ABC):
    """The declaration of a run, as its first event contains it."""

    has_rows: ClassVar[bool] = False  # whether a policy is a table, whose rows change one by one
    algorithm: Algorithm
    horizon: int
    actions: int
    episodes: int
    labels: dict[str, tuple[str, ...]]  # of "step", "action", and "state" or "feature"
    rewards: tuple[float, float]  # the range
    missing: str  # what a report that never comes means: one of MISSING
    gate: str
    patience: int | None  # a ticket expires after this many later ones were issued
    seed: int
    thresholds: dict[str, float]  # by the names of THRESHOLDS
    name: str = ""  # of the run, for people
    words: dict[str, str] = dataclasses.field(default_factory=dict)  # see WORDS
    quorum: int = 1  # how many reviewers agree on a decision, at the beginning
    patience_days: float | None = None  # a ticket expires after this many days
    forecast: tuple[Expected, ...] = ()  # what a plan expected, in the run's units

    def word(self, kind: str) -> str:
        """The run's word for an episode, a step, a state, an action or a reward."""
        return self.words.get(kind, WORDS[kind])

    def named(self, kind: str, position: int) -> str:
        """A label after the run's word for its kind, unless it begins with that: visit 1."""
        word, label = self.word(kind), self.labels[kind][position]
        return label if label.lower().startswith(word.lower()) else f"{word} {label}"

    @property
    @abstractmethod
    def sizes(self) -> str:
        """The size of the run, in its own words."""

    @property
    def budget(self) -> Budget | None:
        """The budget for proposals, if there is one."""
        schedule = self.algorithm.schedule
        return schedule if isinstance(schedule, Budget) else None

    @property
    def most_proposals(self) -> int | None:
        """The largest number of proposals to the board, if it is limited."""
        return None if self.budget is None else self.budget.deployments

    @property
    def gap(self) -> int:
        """The smallest number of episodes between two dates of the schedule."""
        schedule = self.algorithm.schedule if self.budget is None else self.budget.schedule
        return int(getattr(schedule, "gap", 1))

    # ---- the learner -----------------------------------------------------------------------------

    @abstractmethod
    def learner(self) -> Learner:
        """A new learner."""

    @abstractmethod
    def restored(self, data: bytes) -> Learner:
        """The learner of a snapshot."""

    @abstractmethod
    def tally(self, data: bytes | None = None) -> Tally:
        """The counts of the learned steps: empty, or from a snapshot."""

    @property
    @abstractmethod
    def proposals(self) -> Proposals:
        """How proposals are recorded and shown."""

    # ---- reports ---------------------------------------------------------------------------------

    @abstractmethod
    def report(
        self,
        number: int,
        policy: Any,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str,
        propensities: Any = None,
    ) -> Report:
        """A report after it is checked; if `actions` is None, the ticket's policy fills them in.

        propensities: with features, the probability of each action if another policy chose it.
        """

    def reports(
        self, tickets: Sequence[StoredTicket], policies: Sequence[Any], told: Sequence[Any]
    ) -> list[Report] | None:
        """Several reports after they are checked; None if one is refused.

        policies: those of the tickets. told: the arguments of `Ledger.tell` by name.
        """
        found = list[Report]()
        try:
            for ticket, policy, one in zip(tickets, policies, told, strict=True):
                seen = one["states"], one["actions"], one["rewards"], one.get("ended", "whole")
                found.append(self.report(ticket.number, policy, *seen, one.get("propensities")))
                self.require_learnable(found[-1])
        except ValueError:
            return None
        return found

    @abstractmethod
    def steps(self, report: Report, learner: Callable[[], Any], policy: Any) -> Steps | None:
        """The H steps learned from a report, with action -1 where nothing is learned.

        None if nothing at all is learned. learner: before this report. policy: the ticket's.
        """

    @abstractmethod
    def batch(self, steps: Sequence[Steps]) -> Batch:
        """Episodes as arrays for the learner."""

    @abstractmethod
    def places(self, batch: Batch) -> np.ndarray:  # [B, H]
        """The states of each episode, for a tally."""

    @abstractmethod
    def require_learnable(self, report: Report) -> None:
        """Refuse a recorded report that no learner can take, before it is queued with others."""

    def read_state(self, text: str) -> Any:
        """A state as typed by a person: its label, or with features the numbers of a context."""
        return text

    def states_shown(self, states: Sequence[Any]) -> str:
        """The states of a recorded report in words."""
        return ", ".join(self.state_names(states))

    @abstractmethod
    def state_names(self, states: Sequence[Any]) -> list[str]:
        """The states of a recorded report as text that can be reported again."""

    def act(self, policy: Any, number: int, context: Any, step: Any = 0) -> dict[str, Any]:
        """The action of a ticket in a context, and its exact propensity."""
        raise LedgerError(
            "a ticket of a run with states carries its table; look the action up there"
        )

    def history(self, states: Any, actions: Any, rewards: Any) -> dict[str, Any]:
        """Complete episodes of an earlier protocol, checked, as an event stores them."""
        raise LedgerError(
            "records of an earlier protocol can be learned by tables only so far; create this"
            " ledger without them, and with policy= as the protocol in use"
        )

    def learn_history(self, learner: Any, payload: dict[str, Any]) -> Batch:
        """Learn the episodes of `history`; return them with action -1 where nothing was learned."""
        raise ValueError("a run with features learns no history")

    # ---- policies --------------------------------------------------------------------------------

    @abstractmethod
    def to_facts(self, policy: Any) -> Any:
        """A version as plain JSON values."""

    @abstractmethod
    def from_facts(self, facts: Any, learner: Learner) -> Any:
        """The version that `to_facts` wrote."""

    @abstractmethod
    def issued(self, ticket: StoredTicket, policy: Any, *, whole: bool = True) -> Issued:
        """The ticket that a site receives."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """Roughly how many numbers the policy of a ticket has."""

    @abstractmethod
    def to_json(self, policy: Any, member: int | None) -> dict[str, Any]:
        """A version for a program: its number of members, and all or one of them."""

    @abstractmethod
    def usual_batch(self) -> Batch:
        """An episode to warm up with."""

    @abstractmethod
    def shown(self, policy: Any) -> Any:
        """A version for a reader of the ledger, read-only."""

    def share(self, policy: Any) -> float | None:
        """The share of cases in the trial of a version; None if it has no trial."""
        return None

    @abstractmethod
    def changed_rows(self, before: Any, after: Any) -> int:
        """In how many rows two versions differ; a policy on features counts as one row."""

    @abstractmethod
    def is_forbidden(self, policy: Any, learner: Learner) -> bool:
        """Whether a version plays an action that was forbidden since."""

    def without_forbidden(
        self, policy: Any, now: Any, learner: Learner
    ) -> tuple[Any, list[list[int]]]:
        """A version without the actions that were forbidden since, and the rows that differ.

        now: the deployed policy, which gives what is allowed there.
        """
        return policy, []

    def forbidden_words(self, policy: Any, learner: Learner) -> str:
        """Which forbidden actions a version plays, and where, as the end of a sentence."""
        return ""

    @abstractmethod
    def deployed(self, switch: Any) -> list[Any]:
        """The record of a deployment by an open gate."""

    @abstractmethod
    def difference(self, before: Any, after: Any, told: int) -> list[Any]:
        """The same record for a policy that replaces another one; empty if both play alike."""

    # ---- labels and rewards ----------------------------------------------------------------------

    def index(self, kind: str, value: Any) -> int:
        """The position of a step, state or action.

        A text is always a label. A whole number is a position from 0 on; it is refused if it is
        also the label of another position.
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
        word = self.word(kind)
        raise LedgerError(
            f"there is no {word} {value!r}; the {plural(word)} are {shown}{positions}"
        )

    @functools.cached_property
    def _ambiguous(self) -> dict[str, dict[int, str]]:
        """For each kind, the labels that are numbers but not the numbers of their positions."""
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
        """Several positions; values that already are positions are checked all at once."""
        are_whole = set(map(type, values)) == {int}
        if (
            are_whole
            and 0 <= min(values) <= max(values) < self.size(kind)
            and self._ambiguous[kind].keys().isdisjoint(values)
        ):
            return tuple(values)
        return tuple(self.index(kind, value) for value in values)

    def size(self, kind: str) -> int:
        """How many steps, states or actions there are."""
        return len(self.labels[kind])

    def paid(self, values: list[Any]) -> tuple[float, ...]:
        """Several rewards; floats within the range are checked all at once."""
        low, high = self.rewards
        if [value for value in values if not (type(value) is float and low <= value <= high)]:
            return tuple(self.reward(value) for value in values)
        return tuple(values)

    def reward(self, value: Any) -> float:
        """A reward within the declared range."""
        low, high = self.rewards
        if not (is_number(value) and low <= value <= high):
            name = f"{self.words['reward']}:" if "reward" in self.words else "the reward"
            raise LedgerError(
                f"{name} {value!r} is outside of the declared range [{low:g}, {high:g}], so"
                " the report was not recorded; correct it, and send it again"
            )
        return float(value)

    # ---- the first event -------------------------------------------------------------------------

    def to_payload(self) -> dict[str, Any]:
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        usual = {name for name, value in _USUAL.items() if fields[name] == value}
        declared = {name: value for name, value in fields.items() if name not in usual}
        return declared | {
            "algorithm": self.algorithm.to_dict(),
            "labels": {name: list(labels) for name, labels in self.labels.items()},
            "rewards": list(self.rewards),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """The terms that `to_payload` wrote."""
        payload = {"thresholds": THRESHOLDS, **_USUAL} | payload  # older ledgers declare neither
        fields = {one.name: payload[one.name] for one in dataclasses.fields(cls)}
        return cls(
            **fields
            | {
                "algorithm": Algorithm.from_dict(payload["algorithm"]),
                "labels": {name: tuple(labels) for name, labels in payload["labels"].items()},
                "rewards": tuple(payload["rewards"]),
                "forecast": tuple(Expected(*line) for line in payload["forecast"]),
            }
        )


def declared(
    algorithm: Algorithm, tables: dict[str, Any], features: dict[str, Any], **others: Any
) -> Terms:
    """The terms of a run with states or with features; options of the other kind are refused."""
    if (tables["states"] is None) == (features["features"] is None):
        raise LedgerError("give states=S for tables, or features=d for contexts of d numbers")
    of_tables, of_features = families()
    if features["features"] is None:
        if not features["shared"]:
            raise LedgerError(
                f"shared={features['shared']!r} applies to features, not to tables; leave it out"
            )
        return of_tables.declared(algorithm, **tables, **others)
    for name, given in tables.items():
        if given is not None:
            raise LedgerError(f"{name}= applies to tables, not to features; leave it out")
    return of_features.declared(algorithm, **features, **others)


def read_terms(payload: dict[str, Any]) -> Terms:
    """The terms of a first event."""
    tables, features = families()
    return (features if "features" in payload else tables).from_payload(payload)


def families() -> tuple[type[TableTerms], type[FeatureTerms]]:
    """The two classes of terms: with states and with features."""
    from lowswitch.ledger.feature_terms import FeatureTerms
    from lowswitch.ledger.table_terms import TableTerms

    return TableTerms, FeatureTerms


# ---- checks --------------------------------------------------------------------------------------


def checked_parts(
    *,
    horizon: int,
    actions: int | Sequence[str],
    steps: Sequence[str] | None,
    episodes: int,
    rewards: tuple[float, float],
    missing: str,
    gate: str,
    patience: int | None,
    seed: int,
    thresholds: dict[str, float] | None = None,
    name: str = "",
    words: dict[str, str] | None = None,
    quorum: int = 1,
    patience_days: float | None = None,
    forecast: Any = (),
) -> dict[str, Any]:
    """The declarations that all terms share, by name, after they are checked."""
    H = require_count("horizon", horizon)
    labels = {
        "step": checked_labels("steps", H if steps is None else steps, H),
        "action": checked_labels("actions", actions),
    }
    require_word("missing", missing, MISSING)
    require_word("gate", gate, ("review", "open"))
    return {
        "horizon": H,
        "actions": len(labels["action"]),
        "episodes": require_count("episodes", episodes),
        "labels": labels,
        "rewards": _checked_range(rewards),
        "missing": missing,
        "gate": gate,
        "patience": None if patience is None else require_count("patience", patience),
        "seed": require_seed(seed),
        "thresholds": _checked_thresholds(thresholds or {}),
        "name": _checked_name("name", name),
        "words": _checked_words(words or {}),
        "quorum": require_count("quorum", quorum),
        "patience_days": _checked_days(patience_days),
        "forecast": _checked_forecast(forecast, H, rewards),
    }


def _checked_days(days: Any) -> float | None:
    """After how many days a ticket expires, if it does."""
    if days is None:
        return None
    if not (is_number(days) and 0 < days <= _MOST_DAYS):
        raise LedgerError(
            f"patience_days must be a number of days above 0, at most {_MOST_DAYS:,}, not {days!r}"
        )
    return float(days)


def _checked_forecast(given: Any, H: int, rewards: tuple[float, float]) -> tuple[Expected, ...]:
    """A plan's forecast in the run's units: the lines of a `Plan`, or the given lines."""
    low, high = rewards
    lines = [] if given is None else given
    if hasattr(given, "expected"):  # a plan, whose rewards are between 0 and 1
        plain = [Expected(*line) for line in given.expected()]
        scaled = [[H * low + (high - low) * end for end in one[1:]] for one in plain]
        lines = [(one.after, *ends) for one, ends in zip(plain, scaled, strict=True)]
    try:
        found = tuple(Expected(int(after), *map(float, ends)) for after, *ends in lines)
    except (TypeError, ValueError):
        found = None
    if found is None or not all(one.low <= one.middle <= one.high for one in found):
        raise LedgerError(
            "forecast must be a Plan, or lines (episodes, low, middle, high) in the units of the"
            f" rewards, not {given!r}"
        )
    return found


def _checked_name(what: str, value: Any) -> str:
    """A name that fits in one line."""
    if not (isinstance(value, str) and len(value) <= _MOST_NAME and value.strip() == value):
        raise LedgerError(f"{what} must be at most {_MOST_NAME} characters of text, not {value!r}")
    return value


def _checked_words(given: dict[str, str]) -> dict[str, str]:
    """The words that people use for an episode, a step, a state, an action and a reward."""
    for kind, word in given.items():
        require_word("a word", kind, tuple(WORDS))
        if not _checked_name(f"the word for {kind}", word):
            raise LedgerError(f"the word for {kind} is empty; leave it out")
    return dict(given)


def _checked_thresholds(given: dict[str, float]) -> dict[str, float]:
    """All thresholds: the given ones and the defaults."""
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
    """The smallest and the largest reward; their sums and squares must be finite."""
    low, high = rewards
    if not (is_number(low) and is_number(high) and low < high):
        raise LedgerError(f"rewards must be a range such as (0, 1), not {rewards!r}")
    if not (low >= -LARGEST and high <= LARGEST):
        raise LedgerError(
            f"rewards must lie between {-LARGEST:g} and {LARGEST:g}, not {rewards!r}: the sum of"
            " larger ones is infinite; give the range in a larger unit"
        )
    return float(low), float(high)


def count_of(name: str, given: Any) -> int:
    """How many labels are given or will be made."""
    if is_integer(given):
        return require_count(name, given)
    return len(given) if isinstance(given, Sequence) else 1  # which `checked_labels` refuses


def checked_labels(
    name: str, given: int | Sequence[str], size: int | None = None
) -> tuple[str, ...]:
    """The given labels, or the numbers from 0 on."""
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
    """Whether a label is a whole number that somebody may enter as a number."""
    return label.strip().isdecimal() and len(label) < _MOST_DIGITS


def items(name: str, values: Any) -> list[Any]:
    """The steps of a report as a list; anything else is an error."""
    if type(values) is list:
        return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise LedgerError(f"{name} must be a list, one for each step, not {values!r}")
    return list(values)
