"""Whether a run may stop: bounds on the deployed policy, and the gain of one more deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowswitch.checks import require_positive
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.responses import Certificate
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from lowswitch.ledger.table_terms import TableTerms


def certificate(
    learner: Any, terms: TableTerms, within: float | None, probability: float, cost: float | None
) -> Certificate:
    """The facts about a `TableLearner` that a board needs before it continues."""
    if terms.missing == "optimistic":
        raise LedgerError(
            'this ledger learns the best outcome for a missing report (missing="optimistic"), so'
            ' bounds would not hold; only a ledger with missing="drop" or "hold" has a certificate'
        )
    try:
        if within is not None:
            within = require_positive("within", within, "leave it out to see the bounds alone")
        if cost is not None:
            cost = require_positive("cost", cost, "leave it out if a deployment is free")
        found, more = learner.bounds(probability=probability), learner.one_more()
    except ValueError as error:  # a service tells the errors of a ledger alone
        raise LedgerError(str(error)) from None
    low, high = (terms.value(end) for end in found.value)
    gap, gain = terms.amount(found.gap), terms.amount(more.value - more.other)
    left = max(0, terms.episodes - learner.told)
    least, most = (terms.amount(end) for end in more.difference)
    may_stop = None if within is None else gap <= within
    pays = None if cost is None else gain * left > cost
    words = [
        _bounds(low, high, terms.value(found.best), gap, 1 - found.probability),
        *([] if within is None else [_stop(within, gap, 1 - found.probability)]),
        _gain(gain, (least, most), left, cost),
    ]
    return Certificate(
        learned=learner.told,
        probability=found.probability,
        value=(low, high),
        best=terms.value(found.best),
        gap=gap,
        within=within,
        may_stop=may_stop,
        gain=gain,
        gain_interval=(least, most),
        left=left,
        cost=cost,
        pays=pays,
        words="\n".join(words),
    )


def _bounds(low: float, high: float, best: float, gap: float, sure: float) -> str:
    return (
        f"With {100 * sure:.4g} % confidence the deployed policy earns {low:.4g} to {high:.4g} per"
        f" episode, the best policy at most {best:.4g} and {gap:.4g} more than the deployed one."
    )


def _stop(within: float, gap: float, sure: float) -> str:
    if gap <= within:
        return (
            f"You may stop: the deployed policy is within {within:g} of the best with"
            f" {100 * sure:.4g} % confidence."
        )
    return f"It is not certain that the deployed policy is within {within:g} of the best; go on."


def _gain(gain: float, interval: tuple[float, float], left: int, cost: float | None) -> str:
    """The gain of one more deployment, next to its cost."""
    words = (
        f"By the learner's posterior, one more deployment now would gain {gain:.4g} per episode"
        f" (80 %: {interval[0]:.4g} to {interval[1]:.4g}), {gain * left:.4g} over the"
        f" {counted(left, 'episode')} left"
    )
    if cost is None:
        return f"{words}."
    return f"{words}; it costs {cost:g}, so it {'pays' if gain * left > cost else 'does not pay'}."
