"""Q-EarlySettled-Advantage: Li, Shi, Chen, Gu, Chi 2021, Algorithm 1 and its subroutines."""

import math

import numpy as np

from lowswitch.kernels.compile import inline
from lowswitch.kernels.qlearning import (
    DUE,
    QUIET,
    TRIGGERED,
    best_of_others,
    hoeffding_width,
    learning_rate,
    mixed,
)
from lowswitch.kernels.schedule import next_trigger


@inline
def spread(mean, squares):
    """sqrt(sigma - mu^2), from a weighted mean and a weighted mean of squares."""
    return math.sqrt(max(0.0, squares - mean * mean))


@inline
def settled_width(H, iota, n, reference_spread, advantage_spread):
    """B_n / c = sqrt(iota / n) (sqrt(Var ref) + sqrt(H) sqrt(Var adv)): Li et al. 2021,
    `update-bonus`.
    """
    return math.sqrt(iota / n) * (reference_spread + math.sqrt(H) * advantage_spread)


@inline
def settled_bonus(H, iota, c, n, alpha, width, before):
    """b_n = B_n + (1 - alpha) (B_n - B_{n-1}) / alpha + c H^2 iota / n^(3/4), so that the weighted
    sum of all b is B_n and a rest: Li et al. 2021, `update-ucb-q-advantage`.
    """
    return width + (1 - alpha) / alpha * (width - before) + c * H * H * iota / n**0.75


@inline
def settle_reference(row, settle):
    """The reference follows the value until upper and lower values are at most `settle` apart:
    Li et al. 2021, Algorithm 1, lines 15 to 18.
    """
    if row["settled"] == 0:
        row["reference"] = row["value"]
        row["settled"] = row["value"] - row["lower"] <= settle


@inline
def advantage_target(spec, cell, n, alpha, reward, value, reference):
    """The target of the estimate by references and advantages, and its bonus; updates the moments:
    Li et al. 2021, `update-moments` and `update-ucb-q-advantage`.
    """
    share, advantage = 1.0 / n, value - reference
    cell["reference"] = (1 - share) * cell["reference"] + share * reference
    squares = (1 - share) * cell["reference_squares"] + share * reference * reference
    cell["reference_squares"] = squares
    cell["advantage"] = (1 - alpha) * cell["advantage"] + alpha * advantage
    advantage_squares = (1 - alpha) * cell["advantage_squares"] + alpha * advantage * advantage
    cell["advantage_squares"] = advantage_squares
    of_reference = spread(cell["reference"], squares)
    of_advantage = spread(cell["advantage"], advantage_squares)
    width = spec.c * settled_width(spec.H, spec.iota, n, of_reference, of_advantage)
    bonus = settled_bonus(spec.H, spec.iota, spec.c, n, alpha, width, cell["width"])
    cell["width"] = width
    return reward + advantage + cell["reference"], bonus


@inline
def digest_settled(spec, tables, h, x, a, action, reward, y):
    """Learn one transition; return what it means for row (h, x), whose own action is `action`.

    The best lower estimate of a row is a maximum over time too, so only the newest one is compared.
    """
    here = h * spec.S + x
    i = here * spec.A + a
    row, cell = tables.rows[np.uint64(here)], tables.cells[np.uint64(i)]
    following = tables.rows[np.uint64(here - x + spec.S + y)]
    n = cell["visits"] + 1
    alpha, value = learning_rate(n, spec.H), following["value"]
    plain = hoeffding_width(1.0 / n, spec.c, spec.hoeffding_scale)
    cell["visits"] = n
    cell["upper"] = mixed(alpha, cell["upper"], reward, value, alpha * plain)
    cell["lower"] = mixed(alpha, cell["lower"], reward, following["lower"], -alpha * plain)
    target, bonus = advantage_target(spec, cell, n, alpha, reward, value, following["reference"])
    cell["by_reference"] = (1 - alpha) * cell["by_reference"] + alpha * (target + bonus)
    q = min(cell["q"], min(cell["upper"], cell["by_reference"]))
    cell["q"] = q
    tables.clock[0]["drowned"] += min(plain, bonus) > spec.H
    if a == action:
        best_other = row["best_other"]
    else:  # told off-policy
        q = tables.cells[here * spec.A + action]["q"]
        best_other = best_of_others(spec, tables, here, action)
        row["best_other"] = best_other
    row["value"] = min(spec.caps[np.uint64(h)], max(q, best_other))
    row["lower"] = max(row["lower"], cell["lower"])
    settle_reference(row, spec.settle)
    if n == cell["due"]:
        cell["due"] = next_trigger(spec, n)
        return DUE if q < best_other else TRIGGERED
    return QUIET
