"""The dates of a run on which its learner proposes by itself, and who may ask it before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowswitch.algorithms.meetings import asks
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from lowswitch.ledger.state import State

FROZEN = "the run is paused, and nothing is changed until an operator resumes it"


def next_date(state: State) -> str | None:
    """When the policy may change next, in words; None where there are no dates to come.

    Reports are learned in the order of their tickets, so that one report may bring many episodes.
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
    """The date that is to be made up for: the last one since the last proposal was made.

    While a proposal waits the learner makes no other one, so that a date passes without. It is not
    made up for where the next date is nearer than the gap that the schedule promises.
    """
    learner = state.learner
    if state.proposal is None or learner.proposal() is not None or learner.budget_spent:
        return None
    passed, to_come = learner.dates_passed(state.proposal["told"]), learner.dates
    is_near = len(to_come) > 0 and to_come[0] - learner.told < state.terms.gap
    return None if is_near or not len(passed) else int(passed[-1])


def why_refused(state: State, *, early: bool = False) -> str | None:
    """Why the learner may not be asked for a proposal now, or None if it may.

    early: a proposal before the next date is meant.
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
    """Why a proposal that is asked for now would take what a date needs, or None if not.

    A learner with a budget and with dates makes one proposal on each date. Another one in between
    is harmless only if more proposals are left than dates are to come.
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
