"""Q-learning: Jin et al. 2018 at every visit, Bai et al. 2019 with a delayed policy.

In hot loops, here and in other kernels, indices are unsigned: numba tests signed indices for
negative values, which takes a tenth of the time of a step.
"""

import math

import numpy as np

from lowswitch.kernels.arrays import RowSpec
from lowswitch.kernels.compile import entry, inline, pasted
from lowswitch.kernels.kinds import by_kind
from lowswitch.kernels.schedule import next_trigger

HOEFFDING, BERNSTEIN = 0, 1
# what a transition means for its row; DUE: another action is better
QUIET, TRIGGERED, DUE = 0, 1, 2


@inline
def learning_rate(n, H):
    """alpha_n = (H + 1) / (H + n): Jin et al. 2018, Algorithm 1."""
    return (H + 1) / (H + n)


@inline
def hoeffding_width(share, c, hoeffding_scale):
    """c sqrt(H^3 iota / n), with share = 1 / n: Bai et al. 2019, Algorithm 2; Jin et al. 2018."""
    return c * math.sqrt(hoeffding_scale * share)


@inline
def variance(total, squares, share):
    """W_n = squares / n - (total / n)^2: Jin et al. 2018, eq. (C.1).

    Algorithm 2 of their appendix C prints something else, which is an erratum.
    """
    mean = total * share
    return max(0.0, squares * share - mean * mean)


@inline
def bernstein_width(spec, share, variance):
    """beta_n = min{c1 (sqrt(H/n (W + H) iota) + sqrt(H^7 S A) iota / n), c2 sqrt(H^3 iota / n)}:
    Bai et al. 2019, Algorithm UCB2B.
    """
    spread = math.sqrt(spec.variance_scale * share * (variance + spec.H)) + spec.lower_order * share
    return min(spec.c1 * spread, hoeffding_width(share, spec.c2, spec.hoeffding_scale))


@inline
def weighted_bonus(spec, tables, i, n, alpha, next_value):
    """alpha_n b_n.

    Bernstein: b_n = (beta_n - (1 - alpha_n) beta_{n-1}) / (2 alpha_n), beta_0 = 0: Jin et al. 2018,
    Algorithm 2.
    """
    share = 1.0 / n
    if spec.bonus == HOEFFDING:
        return alpha * hoeffding_width(share, spec.c2, spec.hoeffding_scale)
    moments = tables.moments[np.uint64(i)]
    total = moments["total"] + next_value
    squares = moments["squares"] + next_value * next_value
    width = bernstein_width(spec, share, variance(total, squares, share))
    bonus = 0.5 * (width - (1 - alpha) * moments["width"])
    moments["total"] = total
    moments["squares"] = squares
    moments["width"] = width
    return bonus


@inline
def plain_bonus(spec, tables, i, n, alpha, next_value):
    """b_n, for updates that weight it differently."""
    if spec.bonus == HOEFFDING:
        return hoeffding_width(1.0 / n, spec.c2, spec.hoeffding_scale)
    return weighted_bonus(spec, tables, i, n, alpha, next_value) / alpha


@inline
def mixed(alpha, q, reward, next_value, bonus):
    """The weighted mean of the estimate and the new target, plus a bonus: Jin et al. 2018,
    Algorithm 1.
    """
    return (1 - alpha) * q + alpha * (reward + next_value) + bonus


@inline
def mixed_with_bonus(spec, tables, scale, base, h, i, n, reward, next_value, y):
    """Jin et al. 2018, Algorithms 1 and 2."""
    alpha = learning_rate(n, spec.H)
    bonus = scale * weighted_bonus(spec, tables, i, n, alpha, next_value)
    if base == 0 and bonus > alpha * spec.H:
        tables.clock[0]["drowned"] += 1
    return mixed(alpha, tables.cells[np.uint64(i)]["q"], reward, next_value, bonus)


# the estimate of cell i after visit n; a user's functions replace it in `own.py`
updated = by_kind("updated", {RowSpec: mixed_with_bonus})


@inline
def best_of_others(spec, tables, here, action):
    """The best estimate of a row without `action`; the second best if `action` is the best."""
    best, second = -np.inf, -np.inf
    for a in range(spec.A):
        q = tables.cells[np.uint64(here * spec.A + a)]["q"]
        second = max(second, min(q, best))
        best = max(best, q)
    own = tables.cells[np.uint64(here * spec.A + action)]["q"]
    return best if own < best else second


@inline
def is_beaten(spec, tables, here):
    """Whether another action of the row has a better estimate than the row's own action."""
    row = tables.rows[here]
    return tables.cells[here * spec.A + row["action"]]["q"] < row["best_other"]


@pasted
def best_action(q, first, A, own):
    """The best of the A estimates from `first` on; ties go to `own`, then to the lowest.

    Every learner breaks ties this way, because a change without a gain is not worth its cost.
    """
    action, best = own, q[np.uint64(first + own)]
    for a in range(A):
        other = q[np.uint64(first + a)]
        action = a if other > best else action
        best = max(best, other)
    return action


@entry
def take_best_actions(q, A, actions):
    """Replace the incumbents `actions` [n] by the best actions for estimates [n A]."""
    for i in range(len(actions)):
        actions[i] = best_action(q, i * A, A, actions[i])


@inline
def own_best(spec, tables, here):
    """The best action of a row."""
    own = tables.rows[np.uint64(here)]["action"]
    return best_action(tables.cells["q"], here * spec.A, spec.A, own)


@inline
def set_own(spec, tables, here, action):
    """Set a row's own action: a Q-learner plays it, a member of a mixture would play it."""
    row = tables.rows[np.uint64(here)]
    row["action"], row["best_other"] = action, best_of_others(spec, tables, here, action)


@inline
def digest_visit(spec, tables, scale, base, h, x, a, action, reward, y):
    """Learn one transition with the bonus times `scale`, in the rows from `base` on.

    Return what it means for row (h, x), whose own action is `action`: Bai et al. 2019, Algorithms 2
    and UCB2B. Only the argmax of the deployed copy of Q is needed, and between two triggers only
    the estimate of the deployed action moves. So a row stores the best of its other estimates, and
    the maximum over all actions is computed only when the action changes.
    """
    here = base + h * spec.S + x
    i = here * spec.A + a
    row, cell = tables.rows[np.uint64(here)], tables.cells[np.uint64(i)]
    n = cell["visits"] + 1
    next_value = tables.rows[np.uint64(here - x + spec.S + y)]["value"]
    q = updated(spec, tables, scale, base, h, i, n, reward, next_value, y)
    cell["q"] = q
    cell["visits"] = n
    if a == action:
        best_other = row["best_other"]
    else:  # told off-policy
        q = tables.cells[here * spec.A + action]["q"]
        best_other = best_of_others(spec, tables, here, action)
        row["best_other"] = best_other
    row["value"] = min(spec.caps[np.uint64(h)], max(q, best_other))
    if n == cell["due"]:
        cell["due"] = next_trigger(spec, n)
        return DUE if q < best_other else TRIGGERED
    return QUIET
