"""Stage-based Q-learning and UCB-Advantage: Zhang, Zhou, Ji 2020, Algorithm 1.

Numba drops the reference counts of a loop only if few paths lead through it: about a thousand,
including unrolled loops. So rare code here has as few branches as possible, and so have
`best_of_others` and `own_best`: with the counts a step takes 3 times as long.
"""

import math

import numpy as np

from lowswitch.kernels.arrays import FederatedStageSpec, RowSpec, SettlingStageSpec
from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.kinds import by_kind
from lowswitch.kernels.qlearning import DUE, QUIET, TRIGGERED, best_of_others, variance
from lowswitch.kernels.schedule import next_trigger
from lowswitch.kernels.settled import settle_reference


@inline
def stage_bonus(H, iota, count):
    """2 sqrt(H^2 iota / n) for a stage of n visits: Zhang, Zhou, Ji 2020, eq. (6)."""
    return 2.0 * math.sqrt(H * H * iota / count)


@inline
def advantage_bonus(H, iota, n, count, reference_spread, advantage_spread):
    """2 sqrt(nu_ref i/n) + 2 sqrt(nu i/m) + 5 H (i/n + i/m + (i/n)^(3/4) + (i/m)^(3/4)), i = iota,
    for n visits in total and m in the stage: Zhang, Zhou, Ji 2020, eq. (5).
    """
    width = 2.0 * math.sqrt(reference_spread * iota / n)
    widths = width + 2.0 * math.sqrt(advantage_spread * iota / count)
    all_share, stage_share = iota / n, iota / count
    return widths + 5.0 * H * (all_share + stage_share + all_share**0.75 + stage_share**0.75)


# ---- lower estimates, for references that settle -------------------------------------------------


@inline
def note_no_lower(spec, tables, i, there, reward):
    """Without lower estimates there is nothing to add."""


@inline
def note_lower(spec, tables, i, there, reward):
    cell = tables.cells[i]
    cell["lower_total"] = cell["lower_total"] + (reward + tables.rows[there]["lower"])


@inline
def end_no_lower(spec, tables, i, count, bonus):
    """Without lower estimates there is nothing to end."""


@inline
def end_lower(spec, tables, i, count, bonus):
    cell = tables.cells[i]
    cell["lower"] = max(cell["lower"], cell["lower_total"] / count - bonus)
    cell["lower_total"] = 0.0


@inline
def settle_no_row(spec, tables, here, a):
    """A reference that visits fix does not settle."""


@inline
def settle_row(spec, tables, here, a):
    row = tables.rows[here]
    row["lower"] = max(row["lower"], tables.cells[here * spec.A + a]["lower"])
    settle_reference(row, spec.settle)


# add a visit to the lower estimate of cell i
note_lower_of = by_kind(
    "note_lower_of",
    {RowSpec: note_no_lower, SettlingStageSpec: note_lower, FederatedStageSpec: note_lower},
)
# end its stage of `count` visits
end_lower_of = by_kind(
    "end_lower_of",
    {RowSpec: end_no_lower, SettlingStageSpec: end_lower, FederatedStageSpec: end_lower},
)
# let a row settle after the stage of its action a
settle_row_of = by_kind("settle_row_of", {RowSpec: settle_no_row, SettlingStageSpec: settle_row})


# ---- upper estimates -----------------------------------------------------------------------------


@inline
def fix_reference(spec, tables, here):
    """Fix the reference value of a row at its visit `reference`, if visits fix it.

    There is no branch, because a branch would cost more than the assignment.
    """
    row = tables.rows[here]
    row["reference"] = row["value"] if row["visits"] == spec.reference else row["reference"]


@inline
def note_advantage(spec, tables, i, there, reward, next_value):
    """Add a visit to the sums behind the second estimate of UCB-Advantage and the lower estimate.

    Zhang, Zhou, Ji 2020, Algorithm 1, lines 7 and 8.
    """
    cell, reference = tables.cells[i], tables.rows[there]["reference"]
    advantage = next_value - reference
    cell["reward"] = cell["reward"] + reward
    note_lower_of(spec, tables, i, there, reward)
    cell["reference"] = cell["reference"] + reference
    cell["reference_squares"] = cell["reference_squares"] + reference * reference
    cell["advantage"] = cell["advantage"] + advantage
    cell["advantage_squares"] = cell["advantage_squares"] + advantage * advantage


@inline
def note_reference(spec, tables, here, i, there, reward, next_value):
    """Add a visit to the sums of its cell and to its row, whose reference it may fix.

    Zhang, Zhou, Ji 2020, Algorithm 1, lines 7, 8 and 17 to 19.
    """
    note_advantage(spec, tables, i, there, reward, next_value)
    tables.rows[here]["visits"] = tables.rows[here]["visits"] + 1
    fix_reference(spec, tables, here)


@part
def advantage_estimate(
    c, H, iota, n, count, reward, reference, reference_squares, advantage, squares
):
    """The second estimate, from references and advantages, and its bonus.

    Zhang, Zhou, Ji 2020, Algorithm 1, lines 11 to 15.
    """
    reference_spread = variance(reference, reference_squares, 1.0 / n)
    advantage_spread = variance(advantage, squares, 1.0 / count)
    bonus = c * advantage_bonus(H, iota, n, count, reference_spread, advantage_spread)
    return reward / n + reference / n + advantage / count + bonus, bonus


@inline
def end_stage(spec, tables, scale, base, i, n):
    """Estimate cell i, never higher than before, at the last visit n of its stage.

    Zhang, Zhou, Ji 2020, Algorithm 1, lines 11 to 15.
    """
    cell = tables.cells[i]
    count = n - cell["begin"]
    bonus = scale * spec.c * stage_bonus(spec.H, spec.iota, count)
    q = min(cell["q"], cell["total"] / count + bonus)
    if spec.reference >= 0:
        end_lower_of(spec, tables, i, count, bonus)
        second, second_bonus = advantage_estimate(
            scale * spec.c,
            spec.H,
            spec.iota,
            n,
            count,
            cell["reward"],
            cell["reference"],
            cell["reference_squares"],
            cell["advantage"],
            cell["advantage_squares"],
        )
        q = min(q, second)
        bonus = min(bonus, second_bonus)
    tables.clock[0]["drowned"] += count * (base == 0 and bonus > spec.H)
    cell["q"] = q
    cell["total"] = cell["advantage"] = cell["advantage_squares"] = 0.0
    cell["begin"] = n


@inline
def digest_stage(spec, tables, scale, base, h, x, a, action, reward, y):
    """Learn one transition with the bonus times `scale`, in the rows from `base` on.

    Return what it means for row (h, x), whose own action is `action`.
    """
    here = base + h * spec.S + x
    i, there = here * spec.A + a, here - x + spec.S + y
    cell = tables.cells[np.uint64(i)]
    n = cell["visits"] + 1
    cell["visits"] = n
    next_value = tables.rows[np.uint64(there)]["value"]
    cell["total"] = cell["total"] + (reward + next_value)
    if spec.reference >= 0:
        note_reference(spec, tables, here, i, there, reward, next_value)
    if n != cell["due"]:
        return QUIET
    return turn_over(spec, tables, scale, base, h, here, a, action)


@part
def turn_over(spec, tables, scale, base, h, here, a, action):
    """End the stage of an (h, x, a); return what that means for its row `here`."""
    row, cell = tables.rows[here], tables.cells[here * spec.A + a]
    n = cell["visits"]
    end_stage(spec, tables, scale, base, here * spec.A + a, n)
    cell["due"] = next_trigger(spec, n)
    if a != action:  # told off-policy
        row["best_other"] = best_of_others(spec, tables, here, action)
    q = tables.cells[here * spec.A + action]["q"]
    row["value"] = min(spec.caps[h], max(q, row["best_other"]))
    settle_row_of(spec, tables, here, a)
    fix_reference(spec, tables, here)
    return DUE if q < row["best_other"] and not spec.timing.asked else TRIGGERED
