"""The effect of a decision on the deployed policy: one computation for all pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.learners.trials import capped_share, limited_law
from lowswitch.ledger import ProposalView
from lowswitch.ledger.responses import MotionView, Status
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import law
from lowswitch.policy.tables import without_actions
from lowswitch.review.gate import Hold
from lowswitch.service import phrases
from lowswitch.service.phrases import place
from lowswitch.service.precedents import Precedents
from lowswitch.show.text import counted, plural


class Known(NamedTuple):
    """The facts about the run that a page uses to describe a decision."""

    terms: Terms
    run: Status
    view: ProposalView | None
    policies: Any  # deployed: tables [members, H, S], or a LinearPolicy
    protocol: bool  # whether the first of them is a protocol, and the others a trial
    visits: Any  # [H, S, A]  how often each action was given; None with features
    waits: Any = None  # [H, S, A]  the same, of the reports that wait behind an open one
    worth: dict[str, Any] | None = None  # of the rows that the decision is about
    running: dict[str, Any] | None = None  # the gain of the present trial over its protocol
    earlier: Any = None  # the version that a rollback deploys again
    motions: Sequence[MotionView] = ()  # that wait for reviewers
    others: Mapping[tuple[int, int], dict[str, Any]] = {}  # evidence of changes not proposed
    precedents: Precedents = Precedents()  # what people decided before
    me: str = ""  # who decides
    effect: Mapping[str, Any] | None = None  # of the decision, with features; see `Reading.effect`
    holds: Mapping[tuple[int, int], Hold] = {}  # rows that are not proposed for now, and until when
    hold: Hold | None = None  # what a decision to postpone or to roll back would begin

    @property
    def has_rows(self) -> bool:
        """Whether the policy is a table; a policy on features is decided on as a whole."""
        return isinstance(self.policies, np.ndarray)

    def plays(self, row: tuple[int, int], action: int) -> bool:
        """Whether the protocol plays an action in a row, or a policy on features may."""
        if self.has_rows:
            return bool(self.policies[(0, *row)] == action)
        return bool(self.policies.allowed[:, action].any())

    def place(self, h: int, x: int) -> str:
        """A row by its labels."""
        return place(self.terms, h, x)

    @property
    def members(self) -> int:
        """How many policies are deployed together, each for an equal share of the cases."""
        return len(self.policies) if self.has_rows else int(self.policies.members)

    @property
    def case(self) -> str:
        """The run's word for an episode."""
        return self.terms.word("episode")

    @property
    def cases(self) -> str:
        """Several of them."""
        return plural(self.case)


def is_of_protocol(known: Known, row: dict[str, Any]) -> bool:
    """Whether a row changes the protocol; without a trial every row does."""
    return not known.protocol or bool(row["from"][0] != row["to"][0])


def sides(known: Known, row: dict[str, Any]) -> tuple[str, str]:
    """The current and the proposed action of a row of the protocol."""
    names = known.terms.labels["action"]
    if known.protocol:
        return names[row["from"][0]], names[row["to"][0]]
    return law(row["now"]["law"]), law(row["proposed"]["law"])


def is_untried(row: dict[str, Any]) -> bool:
    """Whether a row would get an action that nobody learned so far received there."""
    return bool(row.get("untried") or row.get("never_tried"))


def given_unlearned(known: Known, row: dict[str, Any]) -> str:
    """Who was given an untried action of a row of tables by now; empty if no report says so."""
    if not is_untried(row) or known.visits is None:
        return ""
    h, x, names = row["step"], row["state"], known.terms.labels["action"]
    untried = [names.index(name) for name in row.get("untried") or ()]
    untried = untried or sorted({*row["to"]} - {*row["from"]})
    since = int(known.visits[h, x, untried].sum())
    wait = 0 if known.waits is None else int(known.waits[h, x, untried].sum())
    reports = "reports wait" if wait > 1 else "report waits"
    said = [f"{counted(wait, known.case)} whose {reports}"] * (wait > 0)
    said += [f"{counted(since, known.case)} learned since"] * (since > 0)
    return f"given to {phrases.several(said)}" if said else ""


def law_after(known: Known, decision: dict[str, Any]) -> np.ndarray:  # [members, H, S]
    """The deployed law after rows of the pending proposal are approved, in both parts or one."""
    assert known.view is not None
    keys, after = {tuple(row) for row in decision["rows"]}, known.policies.copy()
    for row in known.view.rows:
        if (row["step"], row["state"]) in keys:
            after[:, row["step"], row["state"]] = row["to"]
    limits = decision.get("part"), decision.get("share")
    return limited_law(known.policies, after, *limits) if known.protocol else after


def whole(view: ProposalView) -> dict[str, Any]:
    """The decision to approve all of a proposal."""
    return {"rows": [[row["step"], row["state"]] for row in view.rows]}


def law_of(known: Known, kind: str, decision: dict[str, Any]) -> Any:
    """The deployed policies after a decision takes effect, by the kind of its event."""
    now = known.policies
    if not known.has_rows:
        return now
    if kind == "approved":
        return law_after(known, decision)
    if kind == "vetoed":
        return without_actions(now, decision["rows"], decision["actions"], decision.get("instead"))
    if kind == "rolled_back" and known.earlier is not None:
        return known.earlier
    if kind == "capped":
        return limited_law(now, now, None, decision["share"])
    return now


def lines_of(known: Known, kind: str, decision: dict[str, Any]) -> list[str]:
    """The changes that a decision makes, in few lines; empty with features or without changes."""
    if not known.has_rows:
        return []
    laws = known.policies, law_of(known, kind, decision)
    return phrases.law_lines(known.terms, *laws, protocol=known.protocol)


def changed_rows(known: Known, after: np.ndarray) -> list[tuple[int, int, int]]:
    """The rows whose protocol changes, each with its step, state and new action."""
    found = np.argwhere(known.policies[0] != after[0]).tolist()
    return [(h, x, int(after[0, h, x])) for h, x in found]


def changed_anywhere(known: Known) -> list[list[int]]:
    """The rows [step, state] in which an earlier version differs, in the protocol or the trial."""
    found: list[list[int]] = np.argwhere((known.policies != known.earlier).any(axis=0)).tolist()
    return found


def share_after(known: Known, decision: dict[str, Any]) -> float:
    """The share of cases in the trial after this decision on the pending proposal."""
    if known.has_rows:
        return phrases.share_of(law_after(known, decision))
    assert known.view is not None
    trial, share = known.view.rows[0]["trial"], decision.get("share")
    full: float = trial["now" if decision.get("part") == "protocol" else "proposed"]
    return full if share is None else min(full, capped_share(share, trial["members"]))


def unlimited(decision: dict[str, Any]) -> dict[str, Any]:
    """The same decision without a limit on its trial."""
    return {name: value for name, value in decision.items() if name != "share"}


def stopped(before: np.ndarray, after: np.ndarray) -> set[phrases.Place]:
    """What the trial of one law gives and nobody receives under the other law."""
    gone = phrases.given_in_trial(before) - phrases.given_in_trial(after)
    return {(h, x, a) for h, x, a in gone if after[0, h, x] != a}


def unread(known: Known, view: ProposalView) -> dict[str, int]:
    """Whose reports are not included: open ones, those waiting behind them, and later ones."""
    run = known.run
    counted_in = run.told if view.learned is None else view.learned
    total = max(0, run.issued - run.missing - run.refused - counted_in)
    still_open = run.open + run.frozen_out
    return {
        "total": total,
        "open": still_open,
        "waiting": run.waiting,
        "later": max(0, total - still_open - run.waiting),
    }


def proposal_title(known: Known, row: dict[str, Any]) -> str:
    """A proposal in a few words: a policy, or a protocol and the effect on the trial."""
    if not known.protocol:
        return "A new policy"
    new = row.get("usual_changes", 1)
    if not (trial := row.get("trial", {})).get("proposed"):
        return "A new protocol" if new or not trial else "The end of the trial"
    return "A new protocol and a trial" if new else "A trial"
