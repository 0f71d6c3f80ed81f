"""Optimistic planning: bonuses from counts, and backward induction."""

import math

import numpy as np

from lowswitch.kernels.compile import inline, part

# how a planner explores; SAMPLED and LEARNED by the posterior, OWN by a planner in Python
CHERNOFF, FREEDMAN, MONOTONIC, L1_BALL, INTERVALS, UNKNOWN, SAMPLED, OWN, LEARNED = range(9)
CERTIFIED = 9  # optimistic, with lower values in addition to the upper ones

# ---- bonuses -------------------------------------------------------------------------------------


@inline
def chernoff_bonus(H, log, n):
    """7 H L / sqrt(n), L = ln(5 S A T / p): Azar, Osband, Munos 2017, Algorithm 3."""
    return 7.0 * H * log / math.sqrt(n)


@inline
def freedman_bonus(H, log, n, spread, doubt):
    """sqrt(8 L Var / n) + 14 H L / (3 n) + sqrt(8 doubt / n): Azar et al. 2017, Algorithm 4."""
    return (
        math.sqrt(8.0 * log * spread / n) + 14.0 * H * log / (3.0 * n) + math.sqrt(8.0 * doubt / n)
    )


@inline
def next_doubt(spec, log, visits):
    """min{100^2 H^3 S^2 A L^2 / N'(y), H^2}, what a next value may be off, squared: Azar et al.
    2017, Algorithm 4.
    """
    H = float(spec.H)
    if visits == 0:
        return H * H
    return min(1e4 * H * H * H * spec.S * spec.S * spec.A * log * log / visits, H * H)


@inline
def monotonic_bonus(H, log, n, spread, reward_spread):
    """460/9 sqrt(Var l / n) + 2 sqrt(2) sqrt(Var_r l / n) + 544/9 H l / n, l = log(1/delta'):
    Zhang, Chen, Lee, Du 2024, Algorithm 1.
    """
    return (
        460.0 / 9.0 * math.sqrt(spread * log / n)
        + math.sqrt(8.0 * reward_spread * log / n)
        + 544.0 / 9.0 * H * log / n
    )


@inline
def certified_width(log, n):
    """min{1, sqrt(0.52 / n (1.4 ln ln max(e, n) + ln(26 S A (H + 1 + S) / p)))}: Dann, Li, Wei,
    Brunskill 2019, ORLC.

    It holds for all numbers of visits simultaneously.
    """
    loglog = math.log(math.log(max(math.e, n)))
    return min(1.0, math.sqrt(0.52 / n * (1.4 * loglog + log)))


@inline
def certified_bonus(H, S, width, spread, doubt):
    """(1 + sqrt(12 Var)) phi + 45 S H^2 phi^2 + doubt / H: Dann, Li, Wei, Brunskill 2019, ORLC.

    The doubt is the mean of the next upper values minus the lower ones.
    """
    return (1.0 + math.sqrt(12.0 * spread)) * width + 45.0 * S * H * H * width * width + doubt / H


@inline
def l1_reward_width(log, n):
    """sqrt(7 ln(2 S A T / p) / (2 n)): Jaksch, Ortner, Auer 2010, eq. (3), with T for t_k."""
    return math.sqrt(3.5 * log / n)


@inline
def l1_width(S, log, n):
    """sqrt(14 S ln(2 A T / p) / n): Jaksch, Ortner, Auer 2010, eq. (4), with T for t_k."""
    return math.sqrt(14.0 * S * log / n)


@inline
def interval_reward_width(log, n):
    """sqrt(ln(2 / delta_R) / (2 n)), by Hoeffding's inequality: Strehl and Littman 2008, sec. 3."""
    return math.sqrt(log / (2 * n))


@inline
def interval_width(log, n):
    """sqrt(2 (ln(2^S - 2) - ln delta_T) / n) in the L1 norm, from Weissman et al. 2003.

    Strehl and Littman 2008, section 3.
    """
    return math.sqrt(2 * log / n)


@inline
def l1_optimum(spec, reward, scale, n, followed):
    """The largest mean reward within its width after n visits, and the L1 width of a law after
    `followed`.
    """
    if spec.kind == INTERVALS:
        optimum = reward + scale * interval_reward_width(spec.log, n)
        return optimum, scale * interval_width(spec.law_log, followed)
    optimum = min(1.0, reward + scale * l1_reward_width(spec.log, n))
    return optimum, scale * l1_width(spec.S, spec.law_log, followed)


# ---- backward induction --------------------------------------------------------------------------


@inline
def expectation(tables, record, following):
    """The mean and variance of the next value under the frequencies of a record.

    The next value of state y is values[following + y].
    """
    mean, squares = 0.0, 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        value = tables.values[following + tables.pool[j]["state"]]
        mean += tables.pool[j]["count"] * value
        squares += tables.pool[j]["count"] * value * value
    mean /= record["followed"]
    return mean, max(0.0, squares / record["followed"] - mean * mean)


@inline
def mean_doubt(spec, tables, record, h):
    """The mean of `next_doubt` under the record's frequencies."""
    doubt = 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        visits, begin = 0, ((h + 1) * spec.S + tables.pool[j]["state"]) * spec.A
        for a in range(spec.A):
            visits += tables.visits[begin + a]
        doubt += tables.pool[j]["count"] * next_doubt(spec, spec.log, visits)
    return doubt / record["followed"]


@part
def order_by_value(spec, tables, following):
    """Write the states in ascending order of their next values into `order`.

    It is an insertion sort, since few states move. Ties are in ascending order of index; for MBIE
    in descending order, so that its best state is the lowest among equals.
    """
    for i in range(spec.S):
        y, j = tables.order[i], i
        value = tables.values[following + y]
        while j > 0:
            before = tables.order[j - 1]
            other = tables.values[following + before]
            first = before < y if spec.kind == L1_BALL else before > y
            if other < value or (other == value and first):
                break
            tables.order[j] = before
            j -= 1
        tables.order[j] = y


@part
def favourable(spec, tables, record, following, width):
    """The largest mean of the next value over laws within an L1 distance of the frequencies:
    Jaksch, Ortner, Auer 2010, Figure 2.

    If all mass goes to the best state, the result is exactly that state's value: a sum could have a
    rounding error and break a tie.
    """
    law, best = tables.scratch, tables.order[spec.S - 1]
    for j in range(record["start"], record["start"] + record["size"]):
        law[tables.pool[j]["state"]] = tables.pool[j]["count"] / record["followed"]
    added = min(1.0 - law[best], width / 2.0)
    all_moved = added == 1.0 - law[best]
    mean = added * tables.values[following + best]
    for j in range(record["start"], record["start"] + record["size"]):
        y = tables.pool[j]["state"]
        mean += law[y] * tables.values[following + y]
    i = 0
    while added > 0.0 and i < spec.S - 1:
        y = tables.order[i]
        taken = min(law[y], added)
        mean -= taken * tables.values[following + y]
        added -= taken
        i += 1
    for j in range(record["start"], record["start"] + record["size"]):
        law[tables.pool[j]["state"]] = 0.0
    return tables.values[following + best] if all_moved else mean


@part
def add_optimistic_law(spec, tables, record, following, width, value):
    """Add the largest mean of the next value within an L1 distance: Strehl and Littman 2008.

    The best state receives half of the width, or as much as there is, and the worst states give it.
    """
    law, best, i = tables.scratch, tables.order[spec.S - 1], 0
    for j in range(record["start"], record["start"] + record["size"]):
        law[tables.pool[j]["state"]] = tables.pool[j]["count"] / record["followed"]
    moved = min(0.5 * width, 1.0 - law[best])
    law[best] += moved
    while moved > 0 and i < spec.S - 1:
        taken = min(moved, law[tables.order[i]])
        law[tables.order[i]] -= taken
        moved -= taken
        i += 1
    for y in range(spec.S):
        value += law[y] * tables.values[following + y]
        law[y] = 0.0
    return value


@part
def l1_estimate(spec, tables, scale, i, n, last, following):
    """The most favourable estimate of a cell with n visits, and its width; 0 for MBIE."""
    record = tables.records[i]
    reward = record["total"] / record["n"]
    value, width = l1_optimum(spec, reward, scale, record["n"], n)
    if spec.kind == INTERVALS:
        if not last:
            value = add_optimistic_law(spec, tables, record, following, width, value)
        return value, 0.0
    if not last:
        value += favourable(spec, tables, record, following, width)
    return value, width


@inline
def known_reward(record):
    """The mean reward of a record, or 0 if it has no visits."""
    return record["total"] / max(1, record["n"])


@inline
def lower_mean(spec, tables, record, following):
    """The mean of the next lower value; lower values are stored after the upper values of all
    members.
    """
    mean, behind = 0.0, spec.members * (spec.H + 1) * spec.S + following
    for j in range(record["start"], record["start"] + record["size"]):
        mean += tables.pool[j]["count"] * tables.values[behind + tables.pool[j]["state"]]
    return mean / record["followed"]


@part
def certified_estimate(spec, tables, scale, greedy, h, i, n, following):
    """The upper estimate, lower estimate and bonus of a cell with n visits, before clipping.

    If `greedy`, there is no bonus, and both estimates are the mean.
    """
    record = tables.records[i]
    reward = record["total"] / record["n"]
    mean, spread, low = 0.0, 0.0, 0.0
    if h + 1 < spec.H:
        mean, spread = expectation(tables, record, following)
        low = lower_mean(spec, tables, record, following)
    bonus = 0.0
    if not greedy:
        width = scale * spec.c * certified_width(spec.log, float(n))
        bonus = certified_bonus(float(spec.H), spec.S, width, spread, max(0.0, mean - low))
    return reward + mean + bonus, reward + low - bonus, bonus


@part
def lower_value(spec, tables, m, scale, h, x, following):
    """The lower value of a state for member m: the lower value of its best action; ties go to the
    lowest.

    Nothing is known about an action that was never tried.
    """
    best, action = -np.inf, 0
    for a in range(spec.A):
        q = tables.q[((m * spec.H + h) * spec.S + x) * spec.A + a]
        if q > best:
            best, action = q, a
    i = h * spec.stride + x * spec.A + action
    n = tables.records[i]["n"] if h + 1 == spec.H else tables.records[i]["followed"]
    if n == 0:
        return 0.0
    _, low, _ = certified_estimate(spec, tables, scale, False, h, i, n, following)
    return max(0.0, min(spec.caps[h], low))


@inline
def optimistic(spec, tables, scale, greedy, h, i, following):
    """The estimate of a cell at step h with the bonus times `scale`, and this bonus.

    For an L1 ball the second result is its width; for MBIE's intervals it is 0. If `greedy`, an
    unseen cell is worth nothing. With pooled counts, all visits of a cell may have been at the last
    step: then its reward is known, but its successors are not.
    """
    record, cap = tables.records[i], spec.caps[h]
    last = h + 1 == spec.H
    n = record["n"] if last else record["followed"]
    unknown = spec.kind == UNKNOWN and tables.cells[i]["visits"] < scale * spec.known
    if n == 0 or (unknown and not greedy):
        return known_reward(record) if greedy else cap, 0.0
    reward = record["total"] / record["n"]
    mean, spread, bonus = 0.0, 0.0, 0.0
    if spec.kind == L1_BALL or spec.kind == INTERVALS:
        value, width = l1_estimate(spec, tables, scale * spec.c, i, n, last, following)
        return min(cap, value), width
    if spec.kind == CERTIFIED:
        value, _, bonus = certified_estimate(spec, tables, scale, greedy, h, i, n, following)
        return min(cap, value), bonus
    if not last:
        mean, spread = expectation(tables, record, following)
    if spec.kind == CHERNOFF:
        bonus = chernoff_bonus(spec.H, spec.log, n)
    elif spec.kind == FREEDMAN:
        doubt = 0.0 if last else mean_doubt(spec, tables, record, h)
        bonus = freedman_bonus(spec.H, spec.log, n, spread, doubt)
    elif spec.kind == MONOTONIC:
        reward_spread = max(0.0, record["squares"] / record["n"] - reward * reward)
        bonus = monotonic_bonus(spec.H, spec.log, n, spread, reward_spread)
    bonus *= scale * spec.c
    return min(cap, reward + mean + bonus), bonus


@inline
def best_value(spec, tables, m, h, x):
    """The value of a state for member m: the best estimate of its row, capped."""
    best = -np.inf
    for a in range(spec.A):
        best = max(best, tables.q[((m * spec.H + h) * spec.S + x) * spec.A + a])
    return min(spec.caps[h], best)


@part
def plan(spec, tables, m, scale, greedy):
    """Backward induction for member m, with its bonus times `scale`.

    A cell is computed again only if its data or a next value changed. A greedy plan may lower
    unseen cells, and so is not monotone.
    """
    moved = False  # whether any value of the next step changed
    for h in range(spec.H - 1, -1, -1):
        row, following = (m * (spec.H + 1) + h) * spec.S, (m * (spec.H + 1) + h + 1) * spec.S
        if (spec.kind == L1_BALL or spec.kind == INTERVALS) and h + 1 < spec.H:
            order_by_value(spec, tables, following)
        moving = False
        for x in range(spec.S):
            changed, seen = False, False
            for a in range(spec.A):
                i, place = h * spec.stride + x * spec.A + a, (h * spec.S + x) * spec.A + a
                stale = tables.dirty[i] or (moved and tables.records[i]["n"] > 0)
                if spec.allowed[place] and stale:
                    seen = True
                    mine = m * spec.H * spec.S * spec.A + place
                    q, bonus = optimistic(spec, tables, scale, greedy, h, i, following)
                    if m == 0:
                        tables.drowned[place] = bonus > spec.H
                    if spec.monotone and not greedy:
                        q = min(q, tables.q[mine])
                    changed = changed or q != tables.q[mine]
                    tables.q[mine] = q
            if changed:
                value = best_value(spec, tables, m, h, x)
                moving = moving or value != tables.values[row + x]
                tables.values[row + x] = value
            if spec.kind == CERTIFIED and seen and not greedy:
                behind = spec.members * (spec.H + 1) * spec.S + row + x
                value = lower_value(spec, tables, m, scale, h, x, following)
                moving = moving or value != tables.values[behind]
                tables.values[behind] = value
        # the bonus of FREEDMAN also depends on the visits to the successors
        moved = moving or spec.kind == FREEDMAN
