"""The dates on which the learner of a run proposes by itself, and when it may be asked earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowswitch.algorithms.meetings import asks
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from lowswitch.ledger.state import State

FROZEN = "the run is paused, and nothing is changed until an operator resumes it"


def next_date(state: State) -> str | None:
    """When the policy may change next, in words; None if no date is left.

    Reports are learned in the order of their tickets, so one report may release many episodes.
    """
    learner = state.learner
    if not len(learner.dates):
        return None
    date = int(learner.dates[0])
    more = date - learner.told
    words = f"after episode {date:,}, when {more:,} more {'is' if more == 1 else 'are'} learned"
    waiting = sum(report.ended != "missing" for report in state.settled.values())
    if not waiting:
        return words
    return f"{words} ({counted(waiting, 'report', 'waits', 'wait')} for an earlier ticket)"


def late_date(state: State) -> int | None:
    """The missed date to catch up on: the last one since the last proposal was made.

    While a proposal is pending, the learner makes no other, so a date can pass without one. It is
    not caught up if the next date is nearer than the gap that the schedule promises.
    """
    learner = state.learner
    if state.proposal is None or learner.proposal() is not None or learner.budget_spent:
        return None
    passed, to_come = learner.dates_passed(state.proposal["told"]), learner.dates
    is_near = len(to_come) > 0 and to_come[0] - learner.told < state.terms.gap
    return None if is_near or not len(passed) else int(passed[-1])


def why_refused(state: State, *, early: bool = False) -> str | None:
    """Why the learner may not be asked for a proposal now, or None if it may.

    early: whether a proposal before the next date is wanted.
    """
    learner = state.learner
    if state.frozen:
        return FROZEN
    if state.ended:
        return "the run has ended"
    if state.terms.gate != "review":
        return "this ledger has an open gate, and so nothing is proposed"
    if learner.budget_spent and learner.proposal() is None:
        return "the budget is spent; the deployed policy stays as it is"
    return None if early else why_early(state)


def why_early(state: State) -> str | None:
    """Why a proposal now would use up one that a later date needs, or None if it would not.

    A learner with a budget and dates makes one proposal on each date. An extra proposal is harmless
    only if more proposals are left than dates.
    """
    learner, budget = state.learner, state.terms.budget
    if budget is None or asks(budget) is not None:
        return None
    dates = len(learner.dates)
    if learner.proposal() is not None or not dates:
        return None
    if budget.switches is not None:
        spends = f"some of the {budget.switches:,} switches that all dates share"
    elif (left := (budget.deployments or 0) - learner.proposed) <= dates:
        spends = f"one of the {left:,} proposals that are left for {counted(dates, 'date')}"
    else:
        return None
    return (
        f"the next date is {next_date(state)}, and then the learner proposes by itself; a proposal"
        f" before it would spend {spends}. If that is meant, say early=True, or --early on the"
        " command line"
    )
