"""The answers of a ledger: plain values that `dataclasses.asdict` turns into JSON."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowswitch.policy.choice import Choice
from lowswitch.policy.linear import LinearPolicy
from lowswitch.review.proposals import WHOLE
from lowswitch.show.text import counted

MOST_DATES = 20  # that a status names
RECORDED, AGAIN, WITHDRAWN = "recorded", "again", "withdrawn"  # the numbers of a proposal
SHOWN = 12  # characters of a hash or of a ticket, where people read them


@dataclass(frozen=True)
class Issued:
    """A ticket: the permission to play one episode with this policy."""

    ticket: str
    number: int  # from 1; it decides the order in which reports are learned
    site: str
    request: str
    version: int
    policy: Any  # [H][S]; with features a LinearPolicy; None of a table that is fetched by itself
    part: str | None = None  # "protocol" or "trial", where a deployment has both
    member: int = 0  # which table of its version the policy is

    def facts(self) -> dict[str, Any]:
        """The ticket as JSON can hold it."""
        return dict(vars(self))


@dataclass(frozen=True)
class FeatureIssued(Issued):
    """A ticket whose policy is a function of features."""

    def act(self, context: Any, step: int = 0) -> Choice:
        """The action to play in a context at a step of the episode, and its exact propensity."""
        choice: Choice = self.policy.act(context, self._episode, step)
        return choice

    @property
    def _episode(self) -> int:
        """The number by which a member of the policy is drawn.

        Before the ticket is issued, it is a number that nobody chooses.
        """
        if self.number:
            return self.number - 1
        return int.from_bytes(hashlib.sha256(self.request.encode()).digest()[:8], "big")

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"policy": self.policy and self.policy.to_dict()}


def issued_of(facts: dict[str, Any]) -> Issued:
    """The ticket that `facts` wrote."""
    if not isinstance(facts["policy"], dict):
        return Issued(**facts)
    return FeatureIssued(**facts | {"policy": LinearPolicy.from_dict(facts["policy"])})


@dataclass(frozen=True)
class Told:
    """A report that is on the disk."""

    ticket: str
    number: int
    event: int
    hash: str = ""  # of that event: `verify` says later whether it is still on record
    # what a server finds unlikely in it, by what was reported before; it is learned all the same
    doubts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubts", tuple(self.doubts))  # JSON has a list


@dataclass(frozen=True)
class ProposalView:
    """A proposal with its evidence and the decisions on it.

    A decision is bound to the proposal's hash and to the version it was made for.
    """

    hash: str
    event: int
    time: str
    version: int
    told: int  # episodes learned when it became due
    through: int  # tickets up to this number were settled then
    open: list[int]  # the numbers of those after it that were open, or the first 1,000 of them
    unsettled: int  # how many were open or missing
    rows: list[dict[str, Any]]  # see `evidence`, with labels
    pending: bool
    decisions: list[dict[str, Any]]
    learned: int | None = None  # episodes that its evidence is of; None in some older ledgers
    rule: int = 1  # the version of the rule that gave its verdicts
    missing: int = 0  # reports that were declared missing, which count as decided
    worth: dict[str, Any] | None = None  # see `Worth`, in the run's units of reward
    expected_false: float | None = None  # the share of its IMPROVE rows, by the learner's model
    models: int = 0  # that judged its rows
    # which numbers these are: those on record, or of what is left after an approval those computed
    # again for the version in use, or none, if that would take a long replay
    numbers: str = RECORDED

    @property
    def is_whole(self) -> bool:
        """Whether this is a policy on features, which is decided on as a whole."""
        return all("steps" in row for row in self.rows)

    @property
    def by_model(self) -> bool:
        """Whether the verdicts come from the learner's model rather than the oldest rule."""
        return self.rule > 1

    @property
    def basis(self) -> str:
        """How many episodes the proposal and its evidence are based on, in words."""
        made = counted(self.told, "learned episode")
        if self.numbers != RECORDED:
            again = "computed again" if self.numbers == AGAIN else "withdrawn, so propose again"
            return f"{made}; a part of it was approved since, so its numbers were {again}"
        if self.learned == self.told:
            return made
        shown = "all" if self.learned is None else f"all {self.learned:,}"
        return (
            f"{made} when it became due, with evidence of {shown} that were learned when it was put"
            " on record"
        )


@dataclass(frozen=True)
class MotionView:
    """A decision that is carried out when enough reviewers agree."""

    number: int  # of the event that asks for it
    time: str
    by: str
    role: str
    kind: str  # of the event that carries it out
    decision: dict[str, Any]  # its payload
    confirmed: list[str]  # the reviewers who agree so far
    needed: int  # how many are still missing
    lapsed: str | None = None  # why it cannot be carried out any more, in words


def decided_on(rows: list[list[int]]) -> str:
    """The subject of a decision, in words."""
    return "the policy" if rows == [list(WHOLE)] else counted(len(rows), "row")


@dataclass(frozen=True)
class Version:
    """A policy that was or is deployed."""

    number: int
    event: int
    time: str
    by: str
    kind: str  # of the event: created, approved, rolled_back or deployed
    changed: int  # rows


@dataclass(frozen=True)
class TicketView:
    """A ticket and its status."""

    number: int
    ticket: str
    site: str
    request: str
    version: int
    status: str
    asked: str  # when, UTC

    @property
    def name(self) -> str:
        """The ticket in a few words."""
        return (
            f"{self.ticket[:SHOWN]}{'…' * (len(self.ticket) > SHOWN)} ({self.site}, {self.request})"
        )


@dataclass(frozen=True)
class Status:
    """The current state of a run."""

    version: int
    events: int
    head: str
    issued: int
    learned: int
    waiting: int  # reported, and learned as soon as the tickets before it are settled
    open: int
    missing: int
    refused: int
    frozen_out: int  # open tickets while the run is frozen
    episodes: int
    proposed: int  # proposals put to the board
    deployments: int
    pending: str | None  # the hash of the proposal that waits for a decision
    budget_left: int | None  # proposals
    frozen: bool
    told: int = 0  # episodes that the learner has learned, by which dates are counted
    dates: list[int] = field(default_factory=list)  # the next ones, at most `MOST_DATES`
    more_dates: int = 0  # how many follow those
    next_date: str | None = None  # when the policy may change next, in words
    nothing_because: str | None = None  # why nothing waits for a decision, in words
    may_ask: bool = True  # whether `propose` is allowed now
    quorum: int = 1  # how many reviewers must agree on a decision
    motions: int = 0  # how many decisions wait for them
    paused: dict[str, str] | None = None  # who paused the run, when and why
    behind: str | None = None  # which ticket the reports that wait are waiting for, in words
    nothing_at: int | None = None  # learned episodes when the learner last wanted to change nothing
    next_is_free: bool = False  # whether the next proposal uses up none of the budget

    @property
    def balanced(self) -> bool:
        """Whether every ticket is counted exactly once."""
        settled = self.learned + self.waiting + self.missing + self.refused
        return self.issued == settled + self.open + self.frozen_out


@dataclass(frozen=True)
class Certificate:
    """How good the deployed policy is, in the units of the run, and whether to continue.

    The bounds need no prior and hold at all times at once, with probability 1 - `probability`. The
    gain of one more deployment is estimated by the learner's posterior.
    """

    learned: int  # episodes
    probability: float  # that any of the bounds ever fails
    value: tuple[float, float]  # of the deployed policy
    best: float  # the best policy is worth at most this
    gap: float  # and at most so much more than the deployed one
    within: float | None  # how near is near enough
    may_stop: bool | None  # whether the gap is at most `within`
    gain: float  # per episode, of one more deployment now
    gain_interval: tuple[float, float]  # 80 % of it
    left: int  # episodes that are still to come
    cost: float | None  # of a deployment
    pays: bool | None  # whether the gain over all episodes that are left exceeds the cost
    words: str


@dataclass(frozen=True)
class Verdict:
    """The result of `verify`."""

    whole: bool
    events: int  # that were found to be right
    first_bad: int | None
    what: str  # in words
    head: str
    anchored: str = ""  # what from outside it was compared with, in words
    remedy: str | None = None  # what to do if it is not whole


@dataclass(frozen=True)
class Restored:
    """What a restore did, and what you still have to do."""

    whole: bool
    verdict: str
    head: str
    recovered: int  # events since the backup that came from the damaged ledger
    lost: str  # in words
    decisions_lost: list[str]  # as far as the damaged ledger still says
    tokens: str  # in words
    paused: bool
    damaged: str | None  # where the damaged ledger is now


@dataclass(frozen=True, eq=False)
class Chart:
    """Every row of the policy at once, for a map of it."""

    version: int
    policy: np.ndarray  # [members, H, S]
    visits: np.ndarray  # [H, S, A]  of everything learned
    waiting: np.ndarray  # [H, S, A]  of the reports that wait behind an open one
    allowed: np.ndarray  # [H, S, A]  what may be deployed
    changes: np.ndarray  # [H, S]  in how many versions the row changed
    held: list[tuple[int, int]]  # rows that stay as they are for a while
    pending: list[tuple[int, int]]  # rows that are proposed
    protocol: bool = False  # whether the first policy is a protocol, and the others a trial


@dataclass(frozen=True)
class RowView:
    """One row of the policy: the evidence for each action there, and past decisions."""

    step: int
    state: int
    actions: list[dict[str, Any]]  # share, allowed, visits, waiting, estimate, width of each
    versions: list[tuple[int, list[int]]]  # the versions that changed it, with what they play
    decisions: list[dict[str, Any]]
    held: bool
    pending: bool
