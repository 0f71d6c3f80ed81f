"""Every compiled function: flat arrays in and out, no allocation in a loop, nothing called but
arithmetic and each other.

They live in one file because numba's cache does not notice an edit in a callee of another file.
What the arrays hold is in `arrays.py`.
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from lowswitch.kernels.arrays import NEVER, PYTHONS_TURN, Evaluation, PlanRule, Rule

entry = njit(
    cache=True, nogil=True, error_model="numpy"
)  # called from Python, or too rare to inline
inline = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)  # part of a hot loop
_INLINED: Any = {
    "nogil": True,
    "error_model": "numpy",
    "forceinline": True,
}  # the same of a function that depends on the kind of rule

HOEFFDING, BERNSTEIN = 0, 1
QUIET, TRIGGERED, SWITCHED = 0, 1, 2  # what a transition did to its row
AT_TRIGGER, AT_SWITCH, AT_MISMATCH = 0, 1, 2  # where a round of many machines is cut

# ---- noise ---------------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_0, _1, _2, _3, _4, _6, _11, _27, _30, _31, _63 = (
    np.uint64(i) for i in (0, 1, 2, 3, 4, 6, 11, 27, 30, 31, 63)
)
_UNIT = 2.0**-53


@inline
def noise(key, address):
    """Number `address` of the stream `key`: SplitMix64 (Steele, Lea, Flood 2014), whose state is a
    counter.
    """
    z = key + address * _GOLDEN
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@inline
def uniform(bits):
    """A float in [0, 1) from 64 random bits."""
    return np.int64(bits >> _11) * _UNIT


@inline
def episode_address(k, H):
    """Address of the start draw of episode k; step h draws its successor at + 1 + 2 h and its
    reward at + 2 + 2 h.
    """
    return np.uint64(k) * np.uint64(2 * H + 1)


@inline
def draw(heads, columns, row, bits):
    """A successor from the alias table of a row: Walker 1977, with a power of two of columns so
    that bits need no division.
    """
    head = np.uint64(heads[row])
    log_columns = head & _63
    column = columns[np.int64((head >> _6) + ((bits >> _1) >> (_63 - log_columns)))]
    inside = np.int64((bits << log_columns) >> _1) < column["threshold"]
    return np.int64(column["own"]) if inside else np.int64(column["other"])


@entry
def fill_alias(probabilities, successors, columns, scratch, stack):
    """Write the alias table of one row (Vose 1991); columns without a successor of their own are
    all alias.
    """
    small, large, n = 0, len(columns), len(probabilities)
    for i in range(len(columns)):
        scratch[i] = probabilities[i] * len(columns) if i < n else 0.0
        columns[i]["own"] = columns[i]["other"] = successors[min(i, n - 1)]
        columns[i]["threshold"] = np.int64(2**63 - 1)
        if scratch[i] < 1:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < len(columns):
        small -= 1
        i, j = stack[small], stack[large]
        columns[i]["threshold"] = np.int64(scratch[i] * 2.0**63)
        columns[i]["other"] = columns[j]["own"]
        scratch[j] -= 1 - scratch[i]
        if scratch[j] < 1:
            large += 1
            stack[small] = j
            small += 1


@entry
def fill_aliases(offsets, successors, probabilities, heads, columns, scratch, stack):
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        first, size = heads[row] >> 6, 1 << (heads[row] & 63)
        fill_alias(
            probabilities[begin:end],
            successors[begin:end],
            columns[first : first + size],
            scratch,
            stack,
        )


# ---- one update ----------------------------------------------------------------------------------


@inline
def learning_rate(n, H):
    """alpha_n = (H + 1) / (H + n): Jin et al. 2018, Algorithm 1."""
    return (H + 1) / (H + n)


@inline
def hoeffding_width(share, c, hoeffding_scale):
    """c sqrt(H^3 iota / n), with share = 1 / n: Bai et al. 2019, Algorithm 2; Jin et al. 2018,
    Algorithm 1.
    """
    return c * math.sqrt(hoeffding_scale * share)


@inline
def variance(total, squares, share):
    """W_n = squares / n - (total / n)^2: Jin et al. 2018, eq. (C.1); the printed Algorithm 2 of
    appendix C is an erratum.
    """
    mean = total * share
    return max(0.0, squares * share - mean * mean)


@inline
def bernstein_width(rule, share, variance):
    """beta_n = min{c1 (sqrt(H/n (W + H) iota) + sqrt(H^7 S A) iota / n), c2 sqrt(H^3 iota / n)}:
    Bai et al. 2019, Algorithm UCB2B.
    """
    spread = math.sqrt(rule.variance_scale * share * (variance + rule.H)) + rule.lower_order * share
    return min(rule.c1 * spread, hoeffding_width(share, rule.c2, rule.hoeffding_scale))


@inline
def weighted_bonus(rule, tables, i, n, alpha, next_value):
    """alpha_n b_n. Bernstein: b_n = (beta_n - (1 - alpha_n) beta_{n-1}) / (2 alpha_n), beta_0 = 0:
    Jin et al. 2018, Algorithm 2.
    """
    share = 1.0 / n
    if rule.bonus == HOEFFDING:
        return alpha * hoeffding_width(share, rule.c2, rule.hoeffding_scale)
    moments = tables.moments[i]
    total = moments["total"] + next_value
    squares = moments["squares"] + next_value * next_value
    width = bernstein_width(rule, share, variance(total, squares, share))
    bonus = 0.5 * (width - (1 - alpha) * moments["width"])
    moments["total"] = total
    moments["squares"] = squares
    moments["width"] = width
    return bonus


@entry
def next_trigger(rule, n):
    """The smallest trigger above n."""
    if n < rule.every_until:
        return n + 1
    low, high = 0, len(rule.later) - 1
    while low < high:
        middle = (low + high) // 2
        if rule.later[middle] > n:
            high = middle
        else:
            low = middle + 1
    return rule.later[low]


@entry
def best_rival(rule, tables, here, action):
    best = -np.inf
    for a in range(rule.A):
        q = tables.cells[here * rule.A + a]["q"]
        best = max(best, -np.inf if a == action else q)
    return best


@entry
def deploy(rule, tables, here):
    """Deploy the best action of a row whose incumbent is beaten, the lowest index among equals."""
    action, best, rival = 0, -np.inf, -np.inf
    for a in range(rule.A):
        q = tables.cells[here * rule.A + a]["q"]
        rival = max(rival, min(q, best))
        action = a if q > best else action
        best = max(best, q)
    tables.rows[here]["action"] = action
    tables.rows[here]["rival"] = rival


@inline
def digest_visit(rule, tables, scale, base, h, x, a, action, reward, y):
    """Learn one transition with the bonus times `scale`, in the rows from `base` on; return what it
    did to row (h, x).

    Bai et al. 2019, Algorithms 2 and UCB2B. The deployed copy of Q is needed only through its
    argmax, and between two triggers only the estimate of the deployed `action` moves. So a row
    keeps the best of its other estimates, and the maximum over all actions is looked for only when
    the action changes.
    """
    here = base + h * rule.S + x
    i = here * rule.A + a
    row, cell = tables.rows[here], tables.cells[i]
    n = cell["visits"] + 1
    alpha = learning_rate(n, rule.H)
    next_value = tables.rows[here - x + rule.S + y]["value"]
    bonus = scale * weighted_bonus(rule, tables, i, n, alpha, next_value)
    if base == 0 and bonus > alpha * rule.H:
        tables.loud[0] += 1
    q = (1 - alpha) * cell["q"] + alpha * (reward + next_value) + bonus
    cell["q"] = q
    cell["visits"] = n
    if a == action:
        rival = row["rival"]
    else:  # told off-policy
        q = tables.cells[here * rule.A + action]["q"]
        rival = best_rival(rule, tables, here, action)
        row["rival"] = rival
    row["value"] = min(rule.caps[h], max(q, rival))
    if n == cell["due"]:
        cell["due"] = next_trigger(rule, n)
        if q < rival:
            deploy(rule, tables, here)
            return SWITCHED
        return TRIGGERED
    return QUIET


# ---- stages --------------------------------------------------------------------------------------
#
# Numba drops the reference counts of a loop only while few paths lead through it: about a thousand,
# those of unrolled loops included. So
# what is rare here has as few branches as possible, and so have `best_rival` and `deploy`: with the
# counts a step takes 3 times as long.


@inline
def stage_bonus(H, iota, count):
    """2 sqrt(H^2 iota / n) of a stage of n visits: Zhang, Zhou, Ji 2020, eq. (6)."""
    return 2.0 * math.sqrt(H * H * iota / count)


@inline
def advantage_bonus(H, iota, n, count, reference_spread, advantage_spread):
    """2 sqrt(nu_ref i/n) + 2 sqrt(nu i/m) + 5 H (i/n + i/m + (i/n)^(3/4) + (i/m)^(3/4)), i = iota:
    Zhang, Zhou, Ji 2020, eq. (5).

    n visits in all, m in the stage.
    """
    widths = 2.0 * math.sqrt(reference_spread * iota / n) + 2.0 * math.sqrt(
        advantage_spread * iota / count
    )
    all_share, stage_share = iota / n, iota / count
    return widths + 5.0 * H * (all_share + stage_share + all_share**0.75 + stage_share**0.75)


@inline
def fix_reference(rule, tables, here):
    """Fix the reference value of a row at its visit `reference`; without a branch, which would cost
    more than the assignment.
    """
    row = tables.rows[here]
    row["reference"] = row["value"] if row["visits"] == rule.reference else row["reference"]


@inline
def note_reference(rule, tables, here, i, there, reward, next_value):
    """Add a visit to the sums that the second estimate of UCB-Advantage is made of, and to its row,
    whose reference may come to be fixed.

    Zhang, Zhou, Ji 2020, Algorithm 1, lines 7, 8 and 17 to 19.
    """
    cell, reference = tables.cells[i], tables.rows[there]["reference"]
    advantage = next_value - reference
    cell["reward"] = cell["reward"] + reward
    cell["reference"] = cell["reference"] + reference
    cell["reference_squares"] = cell["reference_squares"] + reference * reference
    cell["advantage"] = cell["advantage"] + advantage
    cell["advantage_squares"] = cell["advantage_squares"] + advantage * advantage
    tables.rows[here]["visits"] = tables.rows[here]["visits"] + 1
    fix_reference(rule, tables, here)


@entry
def advantage_estimate(
    c, H, iota, n, count, reward, reference, reference_squares, advantage, advantage_squares
):
    """The second estimate, from references and advantages, and its bonus: Zhang, Zhou, Ji 2020,
    Algorithm 1, lines 11 to 15.
    """
    reference_spread = variance(reference, reference_squares, 1.0 / n)
    advantage_spread = variance(advantage, advantage_squares, 1.0 / count)
    bonus = c * advantage_bonus(H, iota, n, count, reference_spread, advantage_spread)
    return reward / n + reference / n + advantage / count + bonus, bonus


@inline
def end_stage(rule, tables, scale, base, i, n):
    """Estimate cell i, never higher than before, at the last visit n of its stage: Zhang, Zhou, Ji
    2020, Algorithm 1, lines 11 to 15.
    """
    cell = tables.cells[i]
    count = n - cell["begin"]
    bonus = scale * rule.c * stage_bonus(rule.H, rule.iota, count)
    q = min(cell["q"], cell["total"] / count + bonus)
    if rule.reference > 0:
        second, second_bonus = advantage_estimate(
            scale * rule.c,
            rule.H,
            rule.iota,
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
    tables.loud[0] += count * (base == 0 and bonus > rule.H)
    cell["q"] = q
    cell["total"] = cell["advantage"] = cell["advantage_squares"] = 0.0
    cell["begin"] = n


@inline
def digest_stage(rule, tables, scale, base, h, x, a, action, reward, y):
    """Learn one transition with the bonus times `scale`, in the rows from `base` on; return what it
    did to row (h, x).

    Zhang, Zhou, Ji 2020, Algorithm 1, with or without its reference part. `action` is the one
    deployed in the row.
    """
    here = base + h * rule.S + x
    i, there = here * rule.A + a, here - x + rule.S + y
    cell = tables.cells[i]
    n = cell["visits"] + 1
    cell["visits"] = n
    next_value = tables.rows[there]["value"]
    cell["total"] = cell["total"] + (reward + next_value)
    if rule.reference > 0:
        note_reference(rule, tables, here, i, there, reward, next_value)
    if n != cell["due"]:
        return QUIET
    return turn_over(rule, tables, scale, base, h, here, a, action)


@entry
def turn_over(rule, tables, scale, base, h, here, a, action):
    """End the stage of an (h, x, a); return what that did to its row `here`."""
    row, cell = tables.rows[here], tables.cells[here * rule.A + a]
    n = cell["visits"]
    end_stage(rule, tables, scale, base, here * rule.A + a, n)
    cell["due"] = next_trigger(rule, n)
    if a != action:  # told off-policy
        row["rival"] = best_rival(rule, tables, here, action)
    q = tables.cells[here * rule.A + action]["q"]
    row["value"] = min(rule.caps[h], max(q, row["rival"]))
    fix_reference(rule, tables, here)
    if q < row["rival"]:
        deploy(rule, tables, here)
        return SWITCHED
    return TRIGGERED


# ---- one update of either kind -------------------------------------------------------------------
#
# Drivers are the same for all kinds of rules. What differs is chosen by the kind, once when a
# driver is compiled: a function such as the
# next says in Python what it does, and its overload says the same to the compiler.


def digest(rule, tables, scale, base, h, x, a, action, reward, y):
    """Learn one transition with the bonus times `scale`, in the rows from `base` on; return what it
    did to row (h, x).

    `action` is the one deployed in the row, a the one that was played.
    """
    return (digest_visit if isinstance(rule, Rule) else digest_stage)(
        rule, tables, scale, base, h, x, a, action, reward, y
    )


@overload(digest, jit_options=_INLINED)
def _digest(rule, tables, scale, base, h, x, a, action, reward, y):
    return (digest_visit if rule.instance_class is Rule else digest_stage).py_func


# ---- all rows at once, and budgets ---------------------------------------------------------------


@inline
def next_growth(pace, n):
    """The visit count at which all rows may change again, for a count that was n when they last
    might.
    """
    return max(n + pace.least, np.int64(math.ceil(pace.factor * n)))


@entry
def freeze(pace, cells, clock):
    """The budget is spent: no trigger any more."""
    for i in range(len(cells)):
        cells[i]["due"] = NEVER
    clock[2] = len(pace.grid) - 1


@entry
def spend_switch(pace, cells, clock):
    """Count a local switch; the last of a budget freezes the policy at once."""
    clock[1] += 1
    if clock[1] == pace.switches:
        freeze(pace, cells, clock)


@entry
def spend_deployment(pace, cells, clock):
    """Count a deployment; the last of a budget freezes the policy."""
    clock[0] += 1
    if clock[0] == pace.deployments:
        freeze(pace, cells, clock)


@inline
def refresh_is_due(pace, clock, triggered, k):
    """Whether all rows may change after episode k; moves the grid on."""
    on_grid = pace.grid[clock[2]] == k + 1
    if on_grid:
        clock[2] += 1
    return on_grid or (triggered and pace.factor > 0)


@inline
def budget_left(pace, clock):
    return clock[0] < pace.deployments and clock[1] < pace.switches


@entry
def is_last(pace, clock):
    """Whether the next deployment is the last one that the budget or the grid allow."""
    return clock[0] + 1 == pace.deployments or (len(pace.grid) > 1 and pace.grid[clock[2]] == NEVER)


@entry
def refresh(rule, tables, changes, logged, k):
    """Deploy the best action of every row whose incumbent is beaten, as far as the budget goes;
    return how many rows switched.
    """
    switches = 0
    tables.clock[3] += 1
    for here in range(rule.H * rule.S):
        row = tables.rows[here]
        if (
            budget_left(rule.pace, tables.clock)
            and tables.cells[here * rule.A + row["action"]]["q"] < row["rival"]
        ):
            deploy(rule, tables, here)
            log_switch(changes, logged + switches, k, here // rule.S, here % rule.S, row["action"])
            switches += 1
            spend_switch(rule.pace, tables.cells, tables.clock)
    if rule.pace.factor > 0 and budget_left(rule.pace, tables.clock):
        for i in range(len(tables.cells)):
            tables.cells[i]["due"] = next_growth(rule.pace, tables.cells[i]["visits"])
    return switches


@inline
def end_episode(rule, tables, changes, logged, k, switches, triggered):
    """Do what schedule and budget say after episode k, whose switches are the last in the log;
    return how many it has now.
    """
    if refresh_is_due(rule.pace, tables.clock, triggered, k):
        switches += refresh(rule, tables, changes, logged, k)
    if switches > 0:
        spend_deployment(rule.pace, tables.cells, tables.clock)
    return switches


# ---- exact values --------------------------------------------------------------------------------


@inline
def lookahead(model, h, x, a, A, values, following):
    """r_h(x, a) + sum_y P_h(y | x, a) V(y), where V(y) is values[following + y]."""
    row = h * model.stride + x * A + a
    value = model.rewards[h * model.reward_stride + x * A + a]
    for j in range(model.offsets[row], model.offsets[row + 1]):
        value += model.probabilities[j] * values[following + model.successors[j]]
    return value


@entry
def optimal_values(model, allowed, values, policy):
    """Backward induction; fills values [(H + 1) * S] and policy [H, S], the lowest index among
    equals.
    """
    H, S, A = allowed.shape
    for h in range(H - 1, -1, -1):
        for x in range(S):
            best = -np.inf
            for a in range(A):
                if allowed[h, x, a]:
                    value = lookahead(model, h, x, a, A, values, (h + 1) * S)
                    if value > best:
                        best = value
                        policy[h, x] = a
            values[h * S + x] = best


@entry
def policy_values(model, policy, A, values):
    """Fills values [(H + 1) * S] with those of a policy [H, S]."""
    H, S = policy.shape
    for h in range(H - 1, -1, -1):
        for x in range(S):
            values[h * S + x] = lookahead(model, h, x, policy[h, x], A, values, (h + 1) * S)


@inline
def put(model, evaluation, m, h, x, a):
    """Let row (h, x) of member m play action a."""
    here = (m * evaluation.H + h) * evaluation.S + x
    evaluation.policy[here] = a
    evaluation.origins[here] = (h * model.stride + x * evaluation.A + a) * model.width


@entry
def put_policies(model, evaluation, policies):
    """Let every row play its action of the policies [L, H, S]."""
    for m in range(evaluation.members):
        for h in range(evaluation.H):
            for x in range(evaluation.S):
                put(model, evaluation, m, h, x, policies[m, h, x])


@inline
def flow_step_dense(model, evaluation, h):
    """Push the state law of step h through the deployed policy: all successors side by side, four
    states a pass.

    The sum of four is written as two sums of two because the additions of one lane wait for each
    other. The indices are unsigned because numba's test for negative ones would keep the inner
    loops from being vectorised.
    """
    mass, outflow, origins = evaluation.mass, model.outflow, evaluation.origins
    width, S = np.uint64(model.width), np.uint64(evaluation.S)
    here, row = np.uint64(h) * width, np.uint64(h) * S
    there = here + width
    for y in range(width):
        mass[there + y] = -0.0  # the neutral element of addition, and no call of memset
    x = _0
    while x + _4 <= S:
        m0, m1, m2, m3 = (
            mass[here + x],
            mass[here + x + _1],
            mass[here + x + _2],
            mass[here + x + _3],
        )
        p0, p1, p2, p3 = (
            origins[row + x],
            origins[row + x + _1],
            origins[row + x + _2],
            origins[row + x + _3],
        )
        for y in range(width):
            four = (m0 * outflow[p0 + y] + m1 * outflow[p1 + y]) + (
                m2 * outflow[p2 + y] + m3 * outflow[p3 + y]
            )
            mass[there + y] += four
        x += _4
    while x < S:
        m0, p0 = mass[here + x], origins[row + x]
        for y in range(width):
            mass[there + y] += m0 * outflow[p0 + y]
        x += _1
    mass[there + S] += mass[here + S]


@inline
def flow_step_listed(model, evaluation, h):
    """The same from the lists of nonzeros, for tables that are mostly zero."""
    mass, here, there = evaluation.mass, h * model.width, (h + 1) * model.width
    for y in range(evaluation.S):
        mass[there + y] = 0.0
    mass[there + evaluation.S] = mass[here + evaluation.S]
    for x in range(evaluation.S):
        m = mass[here + x]
        if m > 0:
            sa = x * evaluation.A + evaluation.policy[h * evaluation.S + x]
            row = h * model.stride + sa
            for j in range(model.offsets[row], model.offsets[row + 1]):
                mass[there + model.successors[j]] += m * model.probabilities[j]
            mass[there + evaluation.S] += m * model.rewards[h * model.reward_stride + sa]


@inline
def total_reward_dense(model, evaluation):
    """The mean reward of all steps, once the state law of the last one is known; the sums in the
    order of `flow_step_dense`.
    """
    mass, outflow, origins = evaluation.mass, model.outflow, evaluation.origins
    width, S = np.uint64(model.width), np.uint64(evaluation.S)
    here, row = np.uint64(evaluation.H - 1) * width, np.uint64(evaluation.H - 1) * S
    value = -0.0
    x = _0
    while x + _4 <= S:
        m0, m1, m2, m3 = (
            mass[here + x],
            mass[here + x + _1],
            mass[here + x + _2],
            mass[here + x + _3],
        )
        p0, p1, p2, p3 = (
            origins[row + x],
            origins[row + x + _1],
            origins[row + x + _2],
            origins[row + x + _3],
        )
        value += (m0 * outflow[p0 + S] + m1 * outflow[p1 + S]) + (
            m2 * outflow[p2 + S] + m3 * outflow[p3 + S]
        )
        x += _4
    while x < S:
        value += mass[here + x] * outflow[origins[row + x] + S]
        x += _1
    return value + mass[here + S]


@inline
def total_reward_listed(model, evaluation):
    """The same from the table of rewards."""
    h, S = evaluation.H - 1, evaluation.S
    value = evaluation.mass[h * model.width + S]
    for x in range(S):
        reward = model.rewards[
            h * model.reward_stride + x * evaluation.A + evaluation.policy[h * S + x]
        ]
        value += evaluation.mass[h * model.width + x] * reward
    return value


@inline
def flow(model, evaluation, first):
    """The value of the deployed policy, where the state laws up to step `first` are still right."""
    for h in range(first, evaluation.H - 1):
        if len(model.outflow) > 0:
            flow_step_dense(model, evaluation, h)
        else:
            flow_step_listed(model, evaluation, h)
    return (
        total_reward_dense(model, evaluation)
        if len(model.outflow) > 0
        else total_reward_listed(model, evaluation)
    )


@inline
def member_of(model, evaluation, m):
    """The evaluation of one member of a mixture."""
    rows, width = evaluation.H * evaluation.S, evaluation.H * model.width
    return Evaluation(
        evaluation.wanted,
        evaluation.H,
        evaluation.S,
        evaluation.A,
        1,
        evaluation.best,
        evaluation.optimal,
        evaluation.policy[m * rows : (m + 1) * rows],
        evaluation.origins[m * rows : (m + 1) * rows],
        evaluation.mass[m * width : (m + 1) * width],
    )


@entry
def mixture_flow(model, evaluation, first):
    """The mean of the members' values."""
    value = 0.0
    for m in range(evaluation.members):
        value += flow(model, member_of(model, evaluation, m), first)
    return value / evaluation.members


@inline
def deployed_value(model, evaluation, first):
    """The value of what is deployed, where the state laws up to step `first` are still right."""
    if evaluation.members == 1:
        return flow(model, evaluation, first)
    return mixture_flow(model, evaluation, first)


@entry
def policy_value(model, evaluation):
    """The value of what is deployed from scratch."""
    return deployed_value(model, evaluation, 0)


@inline
def sequence_regret(model, evaluation, first, last):
    """Regret of episodes first .. last - 1 of a start sequence, all played by the deployed
    policy.
    """
    for x in range(evaluation.S):
        evaluation.mass[x] = 0.0
    for k in range(first, last):
        evaluation.mass[model.starts[k]] += 1.0
    best = 0.0
    for x in range(evaluation.S):
        best += evaluation.mass[x] * evaluation.optimal[x]
    for m in range(1, evaluation.members):
        for x in range(evaluation.S):
            evaluation.mass[m * evaluation.H * model.width + x] = evaluation.mass[x]
    return best - deployed_value(model, evaluation, 0)


@inline
def charge(model, evaluation, account, last):
    """Charge the deployed policy for the episodes before `last`, and fill in the checkpoints on the
    way.
    """
    regret, position = account.regret, account.position
    while position[0] < last:
        stop = last
        if position[1] < len(account.checkpoints):
            stop = min(last, account.checkpoints[position[1]])
        if len(model.starts) == 0:
            regret[0] += regret[1] * (stop - position[0])
        else:
            regret[0] += sequence_regret(model, evaluation, position[0], stop)
        position[0] = stop
        if position[1] < len(account.checkpoints) and stop == account.checkpoints[position[1]]:
            account.curve[position[1]] = regret[0]
            position[1] += 1


@inline
def follow(model, evaluation, changes, i, used):
    """Take over the row changes of one episode, from change i on; return the next change and the
    first step that changed.
    """
    k, first = changes[i, 0], evaluation.H
    while i < used and changes[i, 0] == k:
        for m in range(evaluation.members):
            put(model, evaluation, m, changes[i, 1], changes[i, 2], changes[i, 3 + m])
        first = min(first, changes[i, 1])
        i += 1
    return i, first


@entry
def settle(model, evaluation, account, changes, used, episodes):
    """Follow the first `used` row changes of a deployment history; charge deployed policies, and
    all episodes up to each checkpoint.

    A policy is charged when it is replaced or at a checkpoint, and not where a piece of the run
    happens to end: the sums are the same bits however a run is cut into pieces.
    """
    i = 0
    while i < used:
        charge(model, evaluation, account, changes[i, 0] + 1)
        i, first = follow(model, evaluation, changes, i, used)
        if len(model.starts) == 0:
            account.regret[1] = evaluation.best - deployed_value(model, evaluation, first)
    mark = account.position[1]
    while mark < len(account.checkpoints) and account.checkpoints[mark] <= episodes:
        charge(model, evaluation, account, account.checkpoints[mark])
        mark += 1


@entry
def fill_gaps(model, evaluation, changes, gaps):
    """The gap under the start law of the policy in `evaluation`, and of the one after each
    deployment of a history.
    """
    gaps[0] = evaluation.best - deployed_value(model, evaluation, 0)
    i, deployment = 0, 0
    while i < len(changes):
        i, first = follow(model, evaluation, changes, i, len(changes))
        deployment += 1
        gaps[deployment] = evaluation.best - deployed_value(model, evaluation, first)


# ---- drivers -------------------------------------------------------------------------------------


@inline
def log_switch(changes, i, k, h, x, a):
    changes[i, 0], changes[i, 1], changes[i, 2], changes[i, 3] = k, h, x, a


@inline
def close_episode(log, k, switches, mark):
    """Count the row changes that episode k logged, and fill in the checkpoint `mark` if this is it;
    return the next one.
    """
    counts = log.counts
    counts[0] += switches
    counts[1] += switches > 0
    counts[2] += switches
    if log.checkpoints[mark] == k + 1:
        log.switches[mark] = counts[0]
        log.deployments[mark] = counts[1]
        mark += 1
    return mark


@inline
def start_state(model, H, key, k):
    """Where episode k begins: in its state of the start sequence, or drawn from the start law."""
    if len(model.starts) > 0:
        x = np.int64(model.starts[k])
    else:
        x = draw(
            model.heads, model.columns, len(model.heads) - 1, noise(key, episode_address(k, H))
        )
    return x


@inline
def outcome_of(model, key, k, H, A, h, x, a):
    """The reward and the successor of action a at step h of episode k in state x."""
    sa = x * A + a
    step = episode_address(k, H) + np.uint64(1 + 2 * h)
    y = draw(model.heads, model.columns, h * model.stride + sa, noise(key, step))
    reward = model.rewards[h * model.reward_stride + sa]
    if model.bernoulli:
        reward = 1.0 if uniform(noise(key, step + _1)) < reward else 0.0
    return reward, y


@inline
def play_episode(rule, tables, model, log, key, k, x):
    """Play and learn episode k from state x; return how many rows switched."""
    switches = 0
    for h in range(rule.H):
        a = tables.rows[h * rule.S + x]["action"]
        reward, y = outcome_of(model, key, k, rule.H, rule.A, h, x, a)
        if digest(rule, tables, 1.0, 0, h, x, a, a, reward, y) == SWITCHED:
            log_switch(
                log.changes,
                log.counts[2] + switches,
                k,
                h,
                x,
                tables.rows[h * rule.S + x]["action"],
            )
            switches += 1
        x = y
    return switches


@entry
def play(rule, tables, model, log, key, first, last):
    """Play episodes first .. last - 1, or as many as the log has room for; return the next
    episode.
    """
    mark = np.searchsorted(log.checkpoints, first, side="right")
    for k in range(first, last):
        if log.counts[2] + rule.H > len(log.changes):
            return k
        switches = play_episode(
            rule, tables, model, log, key, k, start_state(model, rule.H, key, k)
        )
        log.counts[0] += switches
        log.counts[1] += switches > 0
        log.counts[2] += switches
        if log.checkpoints[mark] == k + 1:
            log.switches[mark] = log.counts[0]
            log.deployments[mark] = log.counts[1]
            mark += 1
    return last


@entry
def play_watched(rule, tables, model, log, key, first, last):
    """As `play`, where a schedule changes all rows at once or a budget is to be kept; apart from it
    because the watching takes time.
    """
    mark = np.searchsorted(log.checkpoints, first, side="right")
    for k in range(first, last):
        if log.counts[2] + rule.pace.room > len(log.changes):
            return k
        x, switches, triggered = start_state(model, rule.H, key, k), 0, False
        for h in range(rule.H):
            a = tables.rows[h * rule.S + x]["action"]
            reward, y = outcome_of(model, key, k, rule.H, rule.A, h, x, a)
            outcome = digest(rule, tables, 1.0, 0, h, x, a, a, reward, y)
            triggered |= outcome != QUIET
            if outcome == SWITCHED:
                log_switch(
                    log.changes,
                    log.counts[2] + switches,
                    k,
                    h,
                    x,
                    tables.rows[h * rule.S + x]["action"],
                )
                switches += 1
                spend_switch(rule.pace, tables.cells, tables.clock)
            x = y
        switches = end_episode(
            rule, tables, log.changes, log.counts[2] + switches, k, switches, triggered
        )
        mark = close_episode(log, k, switches, mark)
    return last


@entry
def simulate(rule, tables, model, evaluation, log, account, key, first, last):
    """Play episodes first .. last - 1 and charge them; return the next episode, before `last` where
    a kept log is full.
    """
    while first < last:
        if rule.pace.watched:
            first = play_watched(rule, tables, model, log, key, first, last)
        else:
            first = play(rule, tables, model, log, key, first, last)
        if evaluation.wanted:
            settle(model, evaluation, account, log.changes, log.counts[2], first)
        if log.keep:
            break
        log.counts[2] = 0
    return first


@inline
def is_cut(cut, triggered, switches):
    """Whether what follows an episode waits for the next round."""
    return (cut == AT_TRIGGER and triggered) or (cut == AT_SWITCH and switches > 0)


@entry
def digest_batch(rule, tables, states, actions, rewards, off_policy, cut, first, changes):
    """Learn episodes [B, H] in order up to the cut; return row changes, episodes learned, and the
    step of an off-policy action or -1.

    With AT_MISMATCH only an episode that the deployed policy would play otherwise ends it.
    """
    logged = 0
    for b in range(states.shape[0]):
        for h in range(rule.H):
            if not off_policy and actions[b, h] != tables.rows[h * rule.S + states[b, h]]["action"]:
                return logged, b, h
        switches, triggered = 0, False
        for h in range(rule.H):
            y = states[b, h + 1] if h + 1 < rule.H else 0
            x, a = states[b, h], actions[b, h]
            outcome = digest(
                rule,
                tables,
                1.0,
                0,
                h,
                x,
                a,
                tables.rows[h * rule.S + x]["action"],
                rewards[b, h],
                y,
            )
            triggered |= outcome != QUIET
            if outcome == SWITCHED:
                log_switch(
                    changes,
                    logged + switches,
                    first + b,
                    h,
                    x,
                    tables.rows[h * rule.S + x]["action"],
                )
                switches += 1
                spend_switch(rule.pace, tables.cells, tables.clock)
        switches = end_episode(
            rule, tables, changes, logged + switches, first + b, switches, triggered
        )
        logged += switches
        if is_cut(cut, triggered or switches > 0, switches):
            return logged, b + 1, -1
    return logged, states.shape[0], -1


# ---- many machines, one policy a round -----------------------------------------------------------


@inline
def roll_out(model, policy, A, key, k, states, rewards, i):
    """Play episode k by a policy [H, S] into row i of states and rewards [n, H]."""
    H = len(policy)
    x = start_state(model, H, key, k)
    for h in range(H):
        states[i, h] = x
        rewards[i, h], x = outcome_of(model, key, k, H, A, h, x, policy[h, x])


@entry
def play_out(model, policy, A, key, episodes, states, rewards):
    """Play these episodes [n] by a policy [H, S]."""
    for i in range(len(episodes)):
        roll_out(model, policy, A, key, episodes[i], states, rewards, i)


@entry
def plan_round(window, rounds, episodes):
    """Write down the episodes of the next round, one for each machine: the first that are not
    played yet; return how many.
    """
    told, limit = rounds.counts[2], rounds.counts[3]
    planned = 0
    for k in range(told, min(limit, told + len(window.ready))):
        if not window.ready[k % len(window.ready)]:
            if planned == len(episodes):
                break
            episodes[planned] = k
            planned += 1
    return planned


@inline
def receive(window, rounds, policy, A, slot):
    """Take an episode that lies in a slot of the window as played by this policy."""
    H, S = policy.shape
    for h in range(H):
        x = np.int64(window.states[slot, h])
        a = policy[h, x]
        window.actions[slot, h] = a
        rounds.plays[(h * S + x) * A + a] += 1
    window.ready[slot] = True


@inline
def receive_round(window, rounds, policy, A, episodes, states, rewards):
    """Take the episodes [n] of a round as machines played them, states and rewards [n, H]."""
    for i in range(len(episodes)):
        slot = episodes[i] % len(window.ready)
        for h in range(len(policy)):
            window.states[slot, h] = states[i, h]
            window.rewards[slot, h] = rewards[i, h]
        receive(window, rounds, policy, A, slot)
    rounds.counts[0] += 1
    rounds.counts[1] += len(episodes)


@inline
def follows_policy(rule, tables, window, slot):
    """Whether the deployed policy plays the actions of this episode; then the episode is what it
    would have played.
    """
    same = True
    for h in range(rule.H):
        same &= (
            window.actions[slot, h] == tables.rows[h * rule.S + window.states[slot, h]]["action"]
        )
    return same


@inline
def learn_episode(rule, tables, log, rounds, window, slot, k):
    """Learn the episode in a slot; return how many rows switched, and whether any might have."""
    switches, triggered = 0, False
    for h in range(rule.H):
        x = np.int64(window.states[slot, h])
        y = np.int64(window.states[slot, h + 1]) if h + 1 < rule.H else 0
        a, reward = np.int64(window.actions[slot, h]), window.rewards[slot, h]
        outcome = digest(rule, tables, 1.0, 0, h, x, a, a, reward, y)
        rounds.earned[0] += reward
        triggered |= outcome != QUIET
        if outcome == SWITCHED:
            log_switch(
                log.changes,
                log.counts[2] + switches,
                k,
                h,
                x,
                tables.rows[h * rule.S + x]["action"],
            )
            switches += 1
            spend_switch(rule.pace, tables.cells, tables.clock)
    switches = end_episode(
        rule, tables, log.changes, log.counts[2] + switches, k, switches, triggered
    )
    for i in range(log.counts[2], log.counts[2] + switches):
        rounds.stamps[i, 0], rounds.stamps[i, 1] = rounds.counts[0], rounds.counts[1]
    return switches, triggered or switches > 0


@entry
def learn_played(rule, tables, log, window, rounds):
    """Learn in order what lies in the window, up to where the round is cut or, if asked to pause,
    to a deployment; return if it paused.
    """
    counts, mark = rounds.counts, np.searchsorted(log.checkpoints, rounds.counts[2], side="right")
    paused = False
    while not paused and counts[2] < counts[3]:
        k = counts[2]
        slot = k % len(window.ready)
        if not window.ready[slot] or not follows_policy(rule, tables, window, slot):
            break
        window.ready[slot] = False
        switches, triggered = learn_episode(rule, tables, log, rounds, window, slot, k)
        log.counts[1] += switches > 0
        log.counts[2] += switches
        if log.checkpoints[mark] == k + 1:
            rounds.curve[mark], rounds.earned_curve[mark] = counts[0], rounds.earned[0]
            mark += 1
        counts[2] = k + 1
        if (rounds.cut == AT_TRIGGER and triggered) or (rounds.cut == AT_SWITCH and switches > 0):
            window.ready[:] = False
        paused = rounds.pause and switches > 0
    return paused


@entry
def forget_stale(rule, tables, window):
    """Drop the episodes that the deployed policy would play otherwise."""
    for slot in range(len(window.ready)):
        if window.ready[slot]:
            window.ready[slot] = follows_policy(rule, tables, window, slot)


@entry
def last_episode(account, rounds):
    """How many episodes there will be under the deployed policy: all, or fewer where it or the
    mixture so far is good enough.

    The mixture's gap after t episodes is regret(t) / t, and regret grows by the policy's gap an
    episode. To be asked at a deployment, when every episode so far is charged: then the answer does
    not depend on rounds.
    """
    regret, gap, told = account.regret[0], account.regret[1], account.position[0]
    last = rounds.episodes
    if gap <= rounds.policy_gap or (told > 0 and regret <= rounds.mixture_gap * told):
        last = told
    elif gap < rounds.mixture_gap:
        more = (regret - rounds.mixture_gap * told) / (rounds.mixture_gap - gap)
        if more < last - told:  # else it may be more than integers hold
            last = told + max(1, np.int64(math.ceil(more)))
    return last


@entry
def learn_round(rule, tables, model, evaluation, log, account, window, rounds):
    """Learn the episodes of a round, charge them, and see whether enough is known."""
    settled, deployments = log.counts[2], log.counts[1]
    paused = True
    while paused:
        paused = learn_played(rule, tables, log, window, rounds)
        if evaluation.wanted:
            used = log.counts[2]
            settle(
                model,
                evaluation,
                account,
                log.changes[settled:used],
                used - settled,
                rounds.counts[2],
            )
            settled = used
        if paused:
            rounds.counts[3] = last_episode(account, rounds)
    if rounds.cut == AT_MISMATCH and log.counts[1] > deployments:
        forget_stale(rule, tables, window)


@entry
def end_round(
    rule, tables, model, evaluation, log, account, window, rounds, policy, episodes, states, rewards
):
    """Take and learn what machines played in a round by a policy [H, S]: one call, so that no
    interrupt falls between the two.
    """
    receive_round(window, rounds, policy, rule.A, episodes, states, rewards)
    learn_round(rule, tables, model, evaluation, log, account, window, rounds)


@entry
def play_rounds(
    rule, tables, model, evaluation, log, account, window, rounds, policy, key, episodes, most
):
    """Play and learn up to `most` rounds, or as many as the log has room for.

    `policy` [H, S] is the deployed one, and stays so; `episodes` is room to work in.
    """
    counts, played = rounds.counts, 0
    while (
        played < most and counts[2] < counts[3] and log.counts[2] + rounds.room <= len(log.changes)
    ):
        known = log.counts[2]
        planned = plan_round(window, rounds, episodes)
        for i in range(planned):
            slot = episodes[i] % len(window.ready)
            roll_out(model, policy, rule.A, key, episodes[i], window.states, window.rewards, slot)
            receive(window, rounds, policy, rule.A, slot)
        counts[0] += 1
        counts[1] += planned
        learn_round(rule, tables, model, evaluation, log, account, window, rounds)
        for i in range(known, log.counts[2]):
            policy[log.changes[i, 1], log.changes[i, 2]] = log.changes[i, 3]
        played += 1


# ---- bandits -------------------------------------------------------------------------------------

UCB1, UCB2, BASE, EXPLORE_THEN_COMMIT, LOG_LOG, BATCHED_THOMPSON = range(6)
PATIENCE = (
    32  # pulls for which a bound on the other arms is kept; any number gives the same results
)


@inline
def ucb1_width(n, pulls):
    """sqrt(2 ln n / n_j): Auer, Cesa-Bianchi, Fischer 2002, Figure 1."""
    return math.sqrt(2.0 * math.log(n) / pulls)


@inline
def ucb2_width(n, tau, alpha):
    """a_{n,r} = sqrt((1 + alpha) ln(e n / tau(r)) / (2 tau(r))): Auer, Cesa-Bianchi, Fischer 2002,
    eq. (3).
    """
    return math.sqrt((1.0 + alpha) * math.log(math.e * n / tau) / (2.0 * tau))


@inline
def arm_index(bandit, n, pulls, wins):
    """Mean plus width after n pulls of all arms; when the next arm is chosen, the pulls of each are
    its tau(r).
    """
    width = ucb1_width(n, pulls) if bandit.kind == UCB1 else ucb2_width(n, pulls, bandit.constant)
    return wins / pulls + width


@inline
def best_arm(bandit, n, pulls, wins, incumbent):
    """The arm with the largest index: the incumbent if it is among the best, else the lowest."""
    arm, best = incumbent, arm_index(bandit, n, pulls[incumbent], wins[incumbent])
    for a in range(len(pulls)):
        index = arm_index(bandit, n, pulls[a], wins[a])
        if index > best:
            arm, best = a, index
    return arm


@inline
def rival_index(bandit, n, pulls, wins, arm):
    """The largest index of the other arms after n pulls in all; while they are not played it grows
    with n.
    """
    best = -np.inf
    for a in range(len(pulls)):
        if a != arm:
            best = max(best, arm_index(bandit, n, pulls[a], wins[a]))
    return best


@inline
def pull_arm(key, first, last, mean):
    """The rewards of 1 among pulls first .. last - 1 of an arm; the noise of pull t is number t of
    the run's stream.
    """
    wins = 0
    for t in range(first, last):
        wins += uniform(noise(key, np.uint64(t))) < mean
    return wins


@inline
def total_gap(gaps, pulls):
    """sum_j n_j (mu* - mu_j), the regret of these pulls: Auer, Cesa-Bianchi, Fischer 2002, section
    1.
    """
    regret = 0.0
    for a in range(len(gaps)):
        regret += gaps[a] * pulls[a]
    return regret


@entry
def next_mark(bandit, t):
    """The first checkpoint after t pulls."""
    mark = 0
    while mark < len(bandit.checkpoints) and bandit.checkpoints[mark] <= t:
        mark += 1
    return mark


@inline
def write_costs(bandit, tables, run, mark, switched, begun):
    """The point of each curve at a checkpoint."""
    tables.regret[run, mark] = total_gap(bandit.gaps, tables.pulls[run])
    tables.switches[run, mark] = switched
    tables.batches[run, mark] = begun


@inline
def play_by_index(bandit, tables, run, first, last):
    """Play pulls first .. last - 1 of one run: Auer, Cesa-Bianchi, Fischer 2002, Figures 1 and 2.

    An epoch of UCB2 that ends where it begins, tau(r + 1) = tau(r), leaves every index as it was,
    so the same arm is chosen again: only the distinct values of tau matter, and they are the
    triggers of the arm's pulls. All arms are looked at only when the one played falls below what
    the others can reach by pull `bound_until`, or at that pull.
    """
    pulls, wins = tables.pulls[run], tables.wins[run]
    arm, due, switched, begun, t = (
        tables.arm[run],
        tables.due[run],
        tables.switched[run],
        tables.begun[run],
        first,
    )
    mark = next_mark(bandit, first)
    bound, bound_until = np.inf, first
    while t < last:
        if pulls[arm] == due:
            begun += t == 0 or t >= len(pulls)  # the first round is one batch
            if t >= bound_until or arm_index(bandit, t, pulls[arm], wins[arm]) < bound:
                incumbent = arm
                if t < len(pulls):
                    arm = t
                else:
                    arm = best_arm(bandit, t, pulls, wins, incumbent)
                    bound_until = t + PATIENCE
                    bound = rival_index(bandit, bound_until, pulls, wins, arm)
                switched += arm != incumbent
            due = next_trigger(bandit, pulls[arm])
        stop = min(last, bandit.checkpoints[mark], t + due - pulls[arm])
        wins[arm] += pull_arm(tables.keys[run], t, stop, bandit.means[arm])
        pulls[arm] += stop - t
        t = stop
        if t == bandit.checkpoints[mark]:
            write_costs(bandit, tables, run, mark, switched, begun)
            mark += 1
    tables.arm[run], tables.due[run], tables.switched[run], tables.begun[run] = (
        arm,
        due,
        switched,
        begun,
    )


@inline
def base_width(tau, T, A, gamma):
    """sqrt(gamma ln(T A) / tau), the distance from the best at which an arm is dropped: Gao et al.
    2019, Algorithm 1.
    """
    return math.sqrt(gamma * math.log(T * A) / tau)


@inline
def commit_width(s, T, c):
    """B_s = 2 sqrt(2 ln(2 T / s) / s), scaled by c: Perchet et al. 2016, section 3."""
    return c * 2.0 * math.sqrt(2.0 * math.log(2.0 * T / s) / s)


@inline
def phase_width(n, A, phases, p):
    """sqrt(ln(2 A I / p) / (2 n)): Hoeffding 1963, for A arms in I phases at once."""
    return math.sqrt(math.log(2.0 * A * phases / p) / (2.0 * n))


@inline
def falls_behind(bandit, gap, n):
    """Whether an arm whose mean is this far below the best is given up, n being the fewest pulls of
    any arm that is left.
    """
    T, A = bandit.grid[-1], len(bandit.means)
    if bandit.kind == BASE:
        return gap >= base_width(n, T, A, bandit.constant)
    if bandit.kind == EXPLORE_THEN_COMMIT:
        return gap > 2.0 * commit_width(n, T, bandit.constant)
    return gap > 2.0 * phase_width(n, A, len(bandit.grid), bandit.constant)


@inline
def seen_mean(tables, run, a):
    """The mean reward of an arm, in LOG_LOG of this phase alone."""
    return (tables.wins[run, a] - tables.old_wins[run, a]) / (
        tables.pulls[run, a] - tables.old_pulls[run, a]
    )


@inline
def leading_arm(tables, run):
    """The active arm with the largest mean: the incumbent if it is among the best, else the
    lowest.
    """
    arm = tables.arm[run]
    best = seen_mean(tables, run, arm) if tables.active[run, arm] else -np.inf
    for a in range(tables.active.shape[1]):
        if tables.active[run, a] and seen_mean(tables, run, a) > best:
            arm, best = a, seen_mean(tables, run, a)
    return arm


@entry
def eliminate(bandit, tables, run):
    """Give up the arms that fall behind, unless one that is left has not been seen at all; return
    how many are left.
    """
    active, fewest, count = tables.active[run], bandit.grid[-1], 0
    for a in range(len(active)):
        if active[a]:
            fewest = min(fewest, tables.pulls[run, a] - tables.old_pulls[run, a])
            count += 1
    if fewest > 0:
        best = seen_mean(tables, run, leading_arm(tables, run))
        for a in range(len(active)):
            if active[a] and falls_behind(bandit, best - seen_mean(tables, run, a), fewest):
                active[a] = False
                count -= 1
    return count


@entry
def share(tables, run, size):
    """Share a batch so that after it the active arms have equally many pulls, those of lower index
    one more if need be.

    The counts differ by one at most before it too, as all active arms have always been active.
    """
    left, total, count = tables.left[run], size, 0
    for a in range(len(left)):
        if tables.active[run, a]:
            total += tables.pulls[run, a] - tables.old_pulls[run, a]
            count += 1
    for a in range(len(left)):
        if tables.active[run, a]:
            left[a] = max(0, total // count - (tables.pulls[run, a] - tables.old_pulls[run, a]))
            size -= left[a]
    for a in range(len(left)):
        level = tables.pulls[run, a] - tables.old_pulls[run, a] + left[a] == total // count
        if tables.active[run, a] and level and size > 0:
            left[a] += 1
            size -= 1


@entry
def plan_by_elimination(bandit, tables, run, t):
    """What the batch that begins after t pulls plays: Gao et al. 2019, Algorithm 1, Perchet et al.
    2016, Cesa-Bianchi et al. 2013.

    One arm that is left is played to the end. The last batch of a grid plays the best; LOG_LOG has
    no such batch and shares its last phase, and begins each phase with new estimates.
    """
    begun, T = tables.begun[run], bandit.grid[-1]
    count = eliminate(bandit, tables, run) if begun > 0 else len(bandit.means)
    last = bandit.kind != LOG_LOG and begun == len(bandit.grid) - 1
    if count == 1 or last:
        tables.left[run, leading_arm(tables, run)] = T - t
        return
    if bandit.kind == LOG_LOG:
        for a in range(len(bandit.means)):
            tables.old_pulls[run, a] = tables.pulls[run, a]
            tables.old_wins[run, a] = tables.wins[run, a]
    share(tables, run, bandit.grid[begun] - t)


@inline
def normal_draw(key, first):
    """A standard normal number from numbers first and first + 1 of a stream: Box, Muller 1958."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(noise(key, first))))
    return radius * math.cos(2.0 * math.pi * uniform(noise(key, first + _1)))


@inline
def gamma_draw(key, shape):
    """A Gamma(shape, 1) number, shape at least 1, from a stream of its own: Marsaglia, Tsang
    2000.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    address = _0
    while True:
        x = normal_draw(key, address)
        v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x)
        u = 1.0 - uniform(noise(key, address + _2))
        if v > 0.0 and (
            u < 1.0 - 0.0331 * x * x * x * x
            or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v))
        ):
            return d * v
        address += _3


@inline
def beta_draw(key, x, y):
    """A Beta(x, y) number as Gamma(x) / (Gamma(x) + Gamma(y)), whose streams are named by numbers 0
    and 1 of the given one.
    """
    first = gamma_draw(noise(key, _0), x)
    return first / (first + gamma_draw(noise(key, _1), y))


@inline
def sampled_arm(key, t, pulls, wins):
    """The arm with the largest draw from Beta(1 + wins, 1 + losses): Thompson 1933, with uniform
    priors.

    Arm a at pull t draws from a stream of its own, whose key is number t A + a of the run's
    posterior stream.
    """
    arm, best = 0, -1.0
    for a in range(len(pulls)):
        stream = noise(key, np.uint64(t * len(pulls) + a))
        sample = beta_draw(stream, 1.0 + wins[a], 1.0 + pulls[a] - wins[a])
        if sample > best:
            arm, best = a, sample
    return arm


@entry
def plan_by_sampling(bandit, tables, run, t):
    """The pulls up to the first after which an arm's count is a power of two: Karbasi, Mirrokni,
    Shadravan 2021, Algorithm 1.

    No reward is seen before the batch ends, so which arms are pulled, and how often, is known when
    it begins; their order is free.
    """
    pulls, left = tables.pulls[run], tables.left[run]
    for i in range(t, bandit.grid[-1]):
        arm = sampled_arm(tables.posterior_keys[run], i, pulls, tables.wins[run])
        left[arm] += 1
        if next_trigger(bandit, pulls[arm] + left[arm] - 1) == pulls[arm] + left[arm]:
            break


@inline
def lowest_left(left):
    """The lowest arm that has pulls left in this batch, or -1."""
    for a in range(len(left)):
        if left[a] > 0:
            return a
    return -1


@entry
def play_in_batches(bandit, tables, run, first, last):
    """Play pulls first .. last - 1 of one run: each arm of a batch in one block, first the one
    played last, then by index.
    """
    pulls, wins, left, switched, t = (
        tables.pulls[run],
        tables.wins[run],
        tables.left[run],
        tables.switched[run],
        first,
    )
    mark = next_mark(bandit, first)
    while t < last:
        arm = tables.arm[run]
        if left[arm] == 0:
            if lowest_left(left) < 0:
                if bandit.kind == BATCHED_THOMPSON:
                    plan_by_sampling(bandit, tables, run, t)
                else:
                    plan_by_elimination(bandit, tables, run, t)
                tables.begun[run] += 1
            if left[arm] == 0:
                switched += t > 0
                arm = lowest_left(left)
        stop = min(last, bandit.checkpoints[mark], t + left[arm])
        wins[arm] += pull_arm(tables.keys[run], t, stop, bandit.means[arm])
        pulls[arm] += stop - t
        left[arm] -= stop - t
        tables.arm[run] = arm
        t = stop
        if t == bandit.checkpoints[mark]:
            write_costs(bandit, tables, run, mark, switched, tables.begun[run])
            mark += 1
    tables.switched[run] = switched


@entry
def play_bandits(bandit, tables, first_run, last_run, first, last):
    """Play pulls first .. last - 1 of each of these runs."""
    for run in range(first_run, last_run):
        if bandit.kind == UCB1 or bandit.kind == UCB2:
            play_by_index(bandit, tables, run, first, last)
        else:
            play_in_batches(bandit, tables, run, first, last)


# ---- MBIE ----------------------------------------------------------------------------------------


@inline
def reward_width(intervals, n):
    """c sqrt(ln(2 / delta_R) / (2 n)), from Hoeffding's inequality: Strehl and Littman 2008,
    section 3.
    """
    return intervals.c * math.sqrt(intervals.reward_log / (2 * n))


@inline
def transition_width(intervals, n):
    """c sqrt(2 (ln(2^S - 2) - ln delta_T) / n) in the L1 norm, from Weissman et al. 2003: Strehl
    and Littman 2008, section 3.
    """
    return intervals.c * math.sqrt(2 * intervals.transition_log / n)


@inline
def observe(intervals, tables, h, x, a, reward, y):
    """Count one transition; as data only while they are fewer than `most_visits`, the m of Strehl
    and Littman 2008.
    """
    tables.plays[h, x, a] += 1
    if tables.visits[h, x, a] < intervals.most_visits:
        tables.visits[h, x, a] += 1
        tables.payments[h, x, a] += reward
        tables.successors[h, x, a, y] += 1
        tables.stale[h, x, a] = True


@inline
def sort_states(order, values):
    """Bring the states into the order of falling value, the lowest index first among equals; fast
    where they nearly are.
    """
    for i in range(1, len(order)):
        y, j = order[i], i
        while j > 0 and (
            values[order[j - 1]] < values[y]
            or (values[order[j - 1]] == values[y] and order[j - 1] > y)
        ):
            order[j] = order[j - 1]
            j -= 1
        order[j] = y


@inline
def optimistic_law(successors, n, order, width, law):
    """Fill law [S] with what is worth most within the L1 distance `width` of the observed
    frequencies: Strehl and Littman 2008.

    The best state gets half of the width, or all there is; the worst states give it. The
    frequencies are worked out into `law` each time: in-place changes would bend what was observed.
    """
    for y in range(len(law)):
        law[y] = successors[y] / n
    best, j = order[0], len(order) - 1
    moved = min(0.5 * width, 1.0 - law[best])
    law[best] += moved
    while moved > 0 and j > 0:
        taken = min(moved, law[order[j]])
        law[order[j]] -= taken
        moved -= taken
        j -= 1


@inline
def optimistic_q(intervals, tables, h, x, a):
    """Q~_h(x, a) = min{H - h, R^ + its width + max_P sum_y P(y) V~_{h+1}(y)}, h from 0; H - h where
    nothing was seen.
    """
    n = tables.visits[h, x, a]
    cap = float(intervals.H - h)
    if n == 0:
        return cap
    law, values = tables.law, tables.v[h + 1]
    optimistic_law(
        tables.successors[h, x, a], n, tables.order[h], transition_width(intervals, n), law
    )
    value = tables.payments[h, x, a] / n + reward_width(intervals, n)
    for y in range(intervals.S):
        value += law[y] * values[y]
    return min(cap, value)


@inline
def replan_step(intervals, tables, h, following_changed):
    """Bring Q~ and V~ of one step up to date; return whether V~ changed."""
    changed = False
    for x in range(intervals.S):
        best = -np.inf
        for a in range(intervals.A):
            if intervals.allowed[h, x, a]:
                if following_changed or tables.stale[h, x, a]:
                    tables.q[h, x, a] = optimistic_q(intervals, tables, h, x, a)
                    tables.stale[h, x, a] = False
                best = max(best, tables.q[h, x, a])
        changed |= best != tables.v[h, x]
        tables.v[h, x] = best
    return changed


@entry
def replan(intervals, tables):
    """Extended value iteration from the last step to the first; with a horizon one sweep is exact.

    An entry of Q~ is a function of its own data and of V~ one step later: it is worked out anew
    only where one of them has changed.
    """
    changed = False
    for h in range(intervals.H - 1, -1, -1):
        if changed:
            sort_states(tables.order[h], tables.v[h + 1])
        changed = replan_step(intervals, tables, h, changed)


@inline
def deploy_plan(intervals, tables, k, changes, logged):
    """Deploy the best action of every row whose incumbent is beaten, the lowest index among equals;
    return how many changes are logged.
    """
    for h in range(intervals.H):
        for x in range(intervals.S):
            best = tables.v[h, x]
            if tables.q[h, x, tables.policy[h, x]] < best:
                a = 0
                while tables.q[h, x, a] < best:
                    a += 1
                tables.policy[h, x] = a
                log_switch(changes, logged, k, h, x, a)
                logged += 1
    return logged


@inline
def explore_episode(intervals, tables, model, key, k):
    """Play episode k by the deployed policy and count what happens."""
    x = start_state(model, intervals.H, key, k)
    for h in range(intervals.H):
        a = tables.policy[h, x]
        reward, y = outcome_of(model, key, k, intervals.H, intervals.A, h, x, a)
        observe(intervals, tables, h, x, a, reward, y)
        x = y


@entry
def explore(intervals, tables, model, changes, key, machines, first, last):
    """Play episodes first .. last - 1, the policy new after each round of `machines`; return the
    next episode and the changes logged.

    It stops early, before the last episode of a round, where `changes` might not hold those of a
    whole policy.
    """
    logged = 0
    for k in range(first, last):
        ends_round = (k + 1) % machines == 0
        if ends_round and logged + intervals.H * intervals.S > len(changes):
            return k, logged
        explore_episode(intervals, tables, model, key, k)
        if ends_round:
            replan(intervals, tables)
            logged = deploy_plan(intervals, tables, k, changes, logged)
    return last, logged


# ---- planning: counts ----------------------------------------------------------------------------

CHERNOFF, FREEDMAN, MONOTONIC, L1_BALL, UNKNOWN, SAMPLED, OWN = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
)  # how a planner is made to explore
CURRENT, ALL, NEWEST = 0, 1, 2  # when the data of an (h, x, a) are taken over


@entry
def move_block(tables, record, room):
    """Give a record a larger block at the end of the pool."""
    start = tables.clock[4]
    for j in range(record["size"]):
        tables.pool[start + j] = tables.pool[record["start"] + j]
    tables.clock[4] = start + room
    record["start"] = start
    record["room"] = room


@inline
def block_is_lacking(rule, tables):
    """Whether the pool might not hold the successors of an episode more."""
    return tables.clock[4] + rule.spare > len(tables.pool)


@inline
def count_successor(rule, tables, record, y, count):
    """Add so many transitions to state y; the pool has room for them."""
    size = record["size"]
    found = False
    for j in range(record["start"], record["start"] + size):
        if tables.pool[j]["state"] == y:
            tables.pool[j]["count"] += count
            found = True
            break
    if not found:
        if size == record["room"]:
            move_block(tables, record, min(rule.S, max(2, 2 * size)))
        tables.pool[record["start"] + size]["state"] = y
        tables.pool[record["start"] + size]["count"] = count
        record["size"] = size + 1
    record["followed"] += count


@entry
def take_over(rule, tables, i):
    """Move the fresh data of a cell into those it is planned from: MVP, at its triggers."""
    fresh, record = tables.fresh[i], tables.records[i]
    if rule.data == NEWEST:
        record["n"] = record["followed"] = record["size"] = 0
        record["total"] = record["squares"] = 0.0
    for j in range(fresh["start"], fresh["start"] + fresh["size"]):
        count_successor(rule, tables, record, tables.pool[j]["state"], tables.pool[j]["count"])
    record["n"] += fresh["n"]
    record["total"] += fresh["total"]
    record["squares"] += fresh["squares"]
    fresh["n"] = fresh["followed"] = fresh["size"] = 0
    fresh["total"] = fresh["squares"] = 0.0
    tables.dirty[i] = True


@inline
def note_visit(rule, tables, h, x, a, reward, y):
    """Count one transition, of which the last step has no successor; return whether it was a
    trigger.
    """
    i = h * rule.stride + x * rule.A + a
    place = (h * rule.S + x) * rule.A + a
    cell = tables.cells[i]
    tables.visits[place] += 1
    tables.loud[0] += tables.drowned[place]
    n = cell["visits"] + 1
    cell["visits"] = n
    record = tables.records[i] if rule.data == CURRENT else tables.fresh[i]
    record["n"] += 1
    record["total"] += reward
    record["squares"] += reward * reward
    if h + 1 < rule.H:
        count_successor(rule, tables, record, y, 1)
    if rule.data == CURRENT:
        tables.dirty[i] = True
    if n != cell["due"]:
        return False
    cell["due"] = next_trigger(rule, n)
    if rule.data != CURRENT:
        take_over(rule, tables, i)
    return True


# ---- planning: bonuses ---------------------------------------------------------------------------


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
def next_doubt(rule, log, visits):
    """min{100^2 H^3 S^2 A L^2 / N'(y), H^2}, what a next value may be off, squared: Azar et al.
    2017, Algorithm 4.
    """
    H = float(rule.H)
    if visits == 0:
        return H * H
    return min(1e4 * H * H * H * rule.S * rule.S * rule.A * log * log / visits, H * H)


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
def l1_reward_width(log, n):
    """sqrt(7 ln(2 S A T / p) / (2 n)): Jaksch, Ortner, Auer 2010, eq. (3), with T for t_k."""
    return math.sqrt(3.5 * log / n)


@inline
def l1_width(S, log, n):
    """sqrt(14 S ln(2 A T / p) / n): Jaksch, Ortner, Auer 2010, eq. (4), with T for t_k."""
    return math.sqrt(14.0 * S * log / n)


# ---- planning: backward induction ----------------------------------------------------------------


@inline
def expectation(tables, record, following):
    """Mean and variance of the next value under the record's frequencies, where V(y) is
    values[following + y].
    """
    mean, squares = 0.0, 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        value = tables.values[following + tables.pool[j]["state"]]
        mean += tables.pool[j]["count"] * value
        squares += tables.pool[j]["count"] * value * value
    mean /= record["followed"]
    return mean, max(0.0, squares / record["followed"] - mean * mean)


@inline
def mean_doubt(rule, tables, record, h):
    """The mean of `next_doubt` under the record's frequencies."""
    doubt = 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        visits, begin = 0, ((h + 1) * rule.S + tables.pool[j]["state"]) * rule.A
        for a in range(rule.A):
            visits += tables.visits[begin + a]
        doubt += tables.pool[j]["count"] * next_doubt(rule, rule.log, visits)
    return doubt / record["followed"]


@entry
def order_by_value(rule, tables, following):
    """Write the states in ascending order of their next values, equal ones by index, into `order`:
    insertion sort, since little moves.
    """
    for i in range(rule.S):
        y, j = tables.order[i], i
        value = tables.values[following + y]
        while j > 0:
            before = tables.order[j - 1]
            other = tables.values[following + before]
            if other < value or (other == value and before < y):
                break
            tables.order[j] = before
            j -= 1
        tables.order[j] = y


@entry
def favourable(rule, tables, record, following, width):
    """The largest mean of the next value over laws within an L1 distance of the frequencies:
    Jaksch, Ortner, Auer 2010, Figure 2.
    """
    law, best = tables.scratch, tables.order[rule.S - 1]
    for j in range(record["start"], record["start"] + record["size"]):
        law[tables.pool[j]["state"]] = tables.pool[j]["count"] / record["followed"]
    added = min(1.0 - law[best], width / 2.0)
    mean = added * tables.values[following + best]
    for j in range(record["start"], record["start"] + record["size"]):
        y = tables.pool[j]["state"]
        mean += law[y] * tables.values[following + y]
    i = 0
    while added > 0.0 and i < rule.S - 1:
        y = tables.order[i]
        taken = min(law[y], added)
        mean -= taken * tables.values[following + y]
        added -= taken
        i += 1
    for j in range(record["start"], record["start"] + record["size"]):
        law[tables.pool[j]["state"]] = 0.0
    return mean


@inline
def known_reward(record):
    """The mean reward of a record, 0 if it has none."""
    return record["total"] / max(1, record["n"])


@inline
def optimistic(rule, tables, scale, greedy, h, i, following):
    """The estimate of a cell at step h with the bonus times `scale`, and this bonus; greedy: what
    was never seen is worth nothing.

    Of pooled counts, all visits of a cell may have been at the last step: then its reward is known,
    and what follows is not.
    """
    record, cap = tables.records[i], rule.caps[h]
    last = h + 1 == rule.H
    n = record["n"] if last else record["followed"]
    if n == 0 or (
        rule.kind == UNKNOWN and not greedy and tables.cells[i]["visits"] < scale * rule.known
    ):
        return known_reward(record) if greedy else cap, 0.0
    reward = record["total"] / record["n"]
    mean, spread, bonus = 0.0, 0.0, 0.0
    if rule.kind == L1_BALL:
        optimum = min(1.0, reward + scale * rule.c * l1_reward_width(rule.log, record["n"]))
        width = scale * rule.c * l1_width(rule.S, rule.law_log, n)
        ahead = 0.0 if last else favourable(rule, tables, record, following, width)
        return min(cap, optimum + ahead), width
    if not last:
        mean, spread = expectation(tables, record, following)
    if rule.kind == CHERNOFF:
        bonus = chernoff_bonus(rule.H, rule.log, n)
    elif rule.kind == FREEDMAN:
        bonus = freedman_bonus(
            rule.H, rule.log, n, spread, 0.0 if last else mean_doubt(rule, tables, record, h)
        )
    elif rule.kind == MONOTONIC:
        reward_spread = max(0.0, record["squares"] / record["n"] - reward * reward)
        bonus = monotonic_bonus(rule.H, rule.log, n, spread, reward_spread)
    bonus *= scale * rule.c
    return min(cap, reward + mean + bonus), bonus


@inline
def best_value(rule, tables, m, h, x):
    """The value of a state for member m: the best estimate of its row, capped."""
    best = -np.inf
    for a in range(rule.A):
        best = max(best, tables.q[((m * rule.H + h) * rule.S + x) * rule.A + a])
    return min(rule.caps[h], best)


@entry
def plan(rule, tables, m, scale, greedy):
    """Backward induction for member m, its bonus times `scale`; a cell is worked out again only if
    its data or a next value changed.

    A greedy plan may lower what is unseen, and so is not monotone.
    """
    moved = False  # whether any value of the next step changed
    for h in range(rule.H - 1, -1, -1):
        row, following = (m * (rule.H + 1) + h) * rule.S, (m * (rule.H + 1) + h + 1) * rule.S
        if rule.kind == L1_BALL and h + 1 < rule.H:
            order_by_value(rule, tables, following)
        moving = False
        for x in range(rule.S):
            changed = False
            for a in range(rule.A):
                i, place = h * rule.stride + x * rule.A + a, (h * rule.S + x) * rule.A + a
                if rule.allowed[place] and (
                    tables.dirty[i] or (moved and tables.records[i]["n"] > 0)
                ):
                    mine = m * rule.H * rule.S * rule.A + place
                    q, bonus = optimistic(rule, tables, scale, greedy, h, i, following)
                    if m == 0:
                        tables.drowned[place] = bonus > rule.H
                    if rule.monotone and not greedy:
                        q = min(q, tables.q[mine])
                    changed = changed or q != tables.q[mine]
                    tables.q[mine] = q
            if changed:
                value = best_value(rule, tables, m, h, x)
                moving = moving or value != tables.values[row + x]
                tables.values[row + x] = value
        moved = (
            moving or rule.kind == FREEDMAN
        )  # whose bonus also depends on the visits to the successors


# ---- planning: posterior samples -----------------------------------------------------------------


@inline
def next_uniform(key, counter):
    """A float in (0, 1) from a stream whose counter moves on."""
    counter[0] += _1
    return uniform(noise(key, counter[0])) + 0.5 * _UNIT


@inline
def exponential(key, counter):
    """-log(u): the gamma law of shape 1."""
    return -math.log(next_uniform(key, counter))


@entry
def gamma_of_one_or_more(shape, key, counter):
    """Marsaglia, Tsang 2000, with normals by Box and Muller 1958."""
    d = shape - 1.0 / 3.0
    scale = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(2.0 * exponential(key, counter))
        normal = radius * math.cos(2.0 * math.pi * next_uniform(key, counter))
        root = 1.0 + scale * normal
        accept = math.log(next_uniform(key, counter))
        if root > 0.0:
            v = root * root * root
            if accept < 0.5 * normal * normal + d - d * v + d * math.log(v):
                return d * v


@inline
def gamma(shape, key, counter):
    """The gamma law of any shape; below 1 that of shape + 1 times u^(1 / shape): Marsaglia, Tsang
    2000, section 6.
    """
    if shape == 1.0:
        return exponential(key, counter)
    if shape > 1.0:
        return gamma_of_one_or_more(shape, key, counter)
    power = math.exp(-exponential(key, counter) / shape)
    return power * gamma_of_one_or_more(shape + 1.0, key, counter)


@inline
def random_share(record):
    """The share of the rewards that were as uncertain as 0 or 1 with their mean; the rest is as
    good as always the same.
    """
    mean = record["total"] / record["n"]
    spread = record["squares"] / record["n"] - mean * mean
    most = mean * (1.0 - mean)
    if spread < 1e-12 or most <= 0.0:  # of equal rewards there may be rounding left
        return 0.0
    return min(1.0, spread / most)


@entry
def sampled_reward(record, key, counter):
    """A mean reward from the Bayesian bootstrap (Rubin 1981) with a 0 and a 1 for prior, on rewards
    of the record's mean and variance.

    Of rewards 0 and 1 this is the posterior Beta(1 + ones, 1 + zeros); of equal rewards its spread
    falls like 1 / n.
    """
    n = float(record["n"])
    mean, share = (record["total"] / n, random_share(record)) if n > 0 else (0.0, 0.0)
    one = gamma(1.0 + share * n * mean, key, counter)
    zero = gamma(1.0 + share * n * (1.0 - mean), key, counter)
    sure = gamma((1.0 - share) * n, key, counter) if share < 1.0 and n > 0 else 0.0
    return (one + mean * sure) / (one + zero + sure)


@entry
def sampled_mean(rule, tables, record, following, key, counter):
    """The mean of the next value under a law from the posterior Dirichlet(prior + counts)."""
    counts, total, mean = tables.scratch, 0.0, 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        counts[tables.pool[j]["state"]] = tables.pool[j]["count"]
    for y in range(rule.S):
        weight = gamma(rule.prior + counts[y], key, counter)
        total += weight
        mean += weight * tables.values[following + y]
        counts[y] = 0.0
    if total == 0.0:  # all underflow where the prior is tiny: its limit puts all mass on one state
        return tables.values[following + np.int64(next_uniform(key, counter) * rule.S)]
    return mean / total


@inline
def sampled_estimate(rule, tables, h, i, key, following):
    """The value of a cell in a model drawn from the posterior."""
    record = tables.records[i]
    tables.counter[0] = _0
    known = rule.told and record["n"] > 0
    q = record["total"] / record["n"] if known else sampled_reward(record, key, tables.counter)
    if h + 1 < rule.H:
        q += sampled_mean(rule, tables, record, following, key, tables.counter)
    return q


@inline
def expected_estimate(rule, tables, h, i, following):
    """The value of a cell in the mean of the posterior: rewards (1 + total) / (2 + n), laws (prior
    + count) / (prior S + n).
    """
    record = tables.records[i]
    known = rule.told and record["n"] > 0
    q = record["total"] / record["n"] if known else (1.0 + record["total"]) / (2.0 + record["n"])
    if h + 1 < rule.H:
        mean = 0.0
        for y in range(rule.S):
            mean += rule.prior * tables.values[following + y]
        for j in range(record["start"], record["start"] + record["size"]):
            mean += tables.pool[j]["count"] * tables.values[following + tables.pool[j]["state"]]
        q += mean / (rule.prior * rule.S + record["followed"])
    return q


@entry
def sample_plan(rule, tables, m, greedy):
    """Backward induction on a model drawn from the posterior, or on its mean: Osband, Russo, Van
    Roy 2013, Algorithm 1.

    Sample m of refresh number i of a run draws its row j, counted (h, x, a), from the stream
    noise(noise(stream of samples, i L + m), j); a row of pooled counts is counted (x, a), so that
    each step draws the same.
    """
    refresh_key = noise(tables.keys[0], np.uint64(tables.clock[3] * rule.members + m))
    for h in range(rule.H - 1, -1, -1):
        row, following = (m * (rule.H + 1) + h) * rule.S, (m * (rule.H + 1) + h + 1) * rule.S
        for x in range(rule.S):
            for a in range(rule.A):
                i, place = h * rule.stride + x * rule.A + a, (h * rule.S + x) * rule.A + a
                if rule.allowed[place]:
                    if greedy:
                        q = expected_estimate(rule, tables, h, i, following)
                    else:
                        q = sampled_estimate(
                            rule, tables, h, i, noise(refresh_key, np.uint64(i)), following
                        )
                    tables.q[m * rule.H * rule.S * rule.A + place] = q
            tables.values[row + x] = best_value(rule, tables, m, h, x)


@entry
def propose(rule, tables, m):
    """Write down the best actions as member m of the next deployment: the incumbent if it is among
    the best, else the lowest index.
    """
    for here in range(rule.H * rule.S):
        place = m * rule.H * rule.S + here
        action = tables.policy[place]
        best = tables.q[place * rule.A + action]
        for a in range(rule.A):
            if tables.q[place * rule.A + a] > best:
                action, best = a, tables.q[place * rule.A + a]
        tables.proposal[place] = action


@entry
def plan_proposal(rule, tables):
    """Plan for every member, with neither bonus nor sample where the last deployment is to be
    greedy; return whether it is done here.
    """
    if rule.kind == OWN:
        return False
    greedy = rule.pace.greedy_last and is_last(rule.pace, tables.clock)
    if greedy:
        tables.dirty[:] = True
    for m in range(rule.members):
        if rule.kind == SAMPLED:
            sample_plan(rule, tables, m, greedy)
        else:
            plan(rule, tables, m, 0.0 if greedy else rule.scales[m], greedy)
        propose(rule, tables, m)
    tables.dirty[:] = False
    return True


# ---- mixtures of Q-learners ----------------------------------------------------------------------


@inline
def note_step(rule, tables, h, x, a, reward, y):
    """Write one transition down; return False, since nothing is learned before the episode is
    over.
    """
    step = tables.path[h]
    step["state"], step["action"], step["reward"] = x, a, reward
    return False


@entry
def learn_path(rule, tables, scale, base):
    """Let the member whose rows begin at `base` learn the episode that was written down; return
    whether it had a trigger.
    """
    triggered = False
    for h in range(rule.H):
        x, a, reward = tables.path[h]["state"], tables.path[h]["action"], tables.path[h]["reward"]
        y = tables.path[h + 1]["state"] if h + 1 < rule.H else 0
        action = tables.rows[base + h * rule.S + x]["action"]
        triggered |= digest(rule, tables, scale, base, h, x, a, action, reward, y) != QUIET
    return triggered


@entry
def learn_together(rule, tables):
    """Let every member learn the episode, whoever played it; return whether it had a trigger. All
    have the same counts.
    """
    triggered = False
    for m in range(rule.members):
        triggered |= learn_path(rule.each, tables, rule.scales[m], m * (rule.H + 1) * rule.S)
    return triggered


def rows_at_stake(rule):
    """How many rows a proposal may change: all, or of a mixture whose rows change at their own
    triggers those of the episode.
    """
    return rule.H * rule.S if isinstance(rule, PlanRule) or rule.whole else rule.H


@overload(rows_at_stake, jit_options=_INLINED)
def _rows_at_stake(rule):
    if rule.instance_class is PlanRule:
        return lambda rule: rule.H * rule.S
    return lambda rule: rule.H * rule.S if rule.whole else rule.H


def row_at_stake(rule, tables, i):
    """The i-th of these rows, in the order of step and state."""
    return i if isinstance(rule, PlanRule) or rule.whole else i * rule.S + tables.path[i]["state"]


@overload(row_at_stake, jit_options=_INLINED)
def _row_at_stake(rule, tables, i):
    if rule.instance_class is PlanRule:
        return lambda rule, tables, i: i
    return lambda rule, tables, i: i if rule.whole else i * rule.S + tables.path[i]["state"]


@entry
def gather_proposal(rule, tables):
    """Write down the action of every member in the rows at stake, the best one where all rows may
    change; return True.
    """
    rows = rule.H * rule.S
    for i in range(rows_at_stake(rule)):
        here = row_at_stake(rule, tables, i)
        for m in range(rule.members):
            mine = m * (rows + rule.S) + here
            row = tables.rows[mine]
            if rule.whole and tables.cells[mine * rule.A + row["action"]]["q"] < row["rival"]:
                deploy(rule, tables, mine)
            tables.proposal[m * rows + here] = row["action"]
    return True


# ---- learners that propose L policies ------------------------------------------------------------
#
# Planners and mixtures of Q-learners have the same drivers; what differs is chosen as with
# `digest`.


def take_in(rule, tables, h, x, a, reward, y):
    """Take in one transition; return whether it was a trigger."""
    return (note_visit if isinstance(rule, PlanRule) else note_step)(
        rule, tables, h, x, a, reward, y
    )


@overload(take_in, jit_options=_INLINED)
def _take_in(rule, tables, h, x, a, reward, y):
    return (note_visit if rule.instance_class is PlanRule else note_step).py_func


def conclude(rule, tables):
    """Learn what is learned only after an episode; return whether there was a trigger in it."""
    return not isinstance(rule, PlanRule) and learn_together(rule, tables)


@overload(conclude, jit_options=_INLINED)
def _conclude(rule, tables):
    if rule.instance_class is PlanRule:
        return lambda rule, tables: False
    return lambda rule, tables: learn_together(rule, tables)


def make_proposal(rule, tables):
    """Write down the policies to deploy next; return whether that could be done here, and not by a
    planner of one's own.
    """
    return (plan_proposal if isinstance(rule, PlanRule) else gather_proposal)(rule, tables)


@overload(make_proposal, jit_options=_INLINED)
def _make_proposal(rule, tables):
    return (plan_proposal if rule.instance_class is PlanRule else gather_proposal).py_func


def pool_is_full(rule, tables):
    """Whether an episode might not find room for its successors."""
    return isinstance(rule, PlanRule) and block_is_lacking(rule, tables)


@overload(pool_is_full, jit_options=_INLINED)
def _pool_is_full(rule, tables):
    if rule.instance_class is PlanRule:
        return lambda rule, tables: block_is_lacking(rule, tables)
    return lambda rule, tables: False


@inline
def same_law(rule, tables, here):
    """Whether the members of a row play each action as often in the proposal as deployed."""
    rows = rule.H * rule.S
    for m in range(rule.members):
        tables.tally[tables.policy[m * rows + here]] += 1
        tables.tally[tables.proposal[m * rows + here]] -= 1
    same = True
    for a in range(rule.A):
        same = same and tables.tally[a] == 0
        tables.tally[a] = 0
    return same


@entry
def deploy_proposal(rule, tables, changes, logged, k):
    """Deploy the proposal row by row, as far as the budget goes; return the rows that changed, and
    in how many the law of actions did.
    """
    rows, changed, switches = rule.H * rule.S, 0, 0
    for i in range(rows_at_stake(rule)):
        here = row_at_stake(rule, tables, i)
        differs = False
        for m in range(rule.members):
            differs = differs or tables.policy[m * rows + here] != tables.proposal[m * rows + here]
        if differs:
            switched = not same_law(rule, tables, here)
            if switched and tables.clock[1] >= rule.pace.switches:
                continue
            row = changes[logged + changed]
            row[0], row[1], row[2] = k, here // rule.S, here % rule.S
            for m in range(rule.members):
                tables.policy[m * rows + here] = tables.proposal[m * rows + here]
                row[3 + m] = tables.policy[m * rows + here]
            changed += 1
            if switched:
                switches += 1
                tables.clock[1] += 1
    return changed, switches


@entry
def carry_out(rule, tables, changes, logged, k):
    """Deploy the proposal after episode k and do what schedule and budget say; return what
    `deploy_proposal` does.
    """
    tables.clock[3] += 1
    changed, switches = deploy_proposal(rule, tables, changes, logged, k)
    if rule.pace.factor > 0:
        for i in range(len(tables.cells)):
            tables.cells[i]["due"] = next_growth(rule.pace, tables.cells[i]["visits"])
    if changed > 0:
        tables.clock[0] += 1
    if not budget_left(rule.pace, tables.clock):
        freeze(rule.pace, tables.cells, tables.clock)
    return changed, switches


@inline
def end_proposing_episode(rule, tables, changes, logged, k, triggered):
    """Propose and deploy after episode k if it is time; return the rows that changed, and in how
    many the law of actions did.

    Where Python makes the proposal, its turn is marked in the clock, and the caller stops.
    """
    triggered |= conclude(rule, tables)
    if refresh_is_due(rule.pace, tables.clock, triggered, k) or triggered:
        if make_proposal(rule, tables):
            return carry_out(rule, tables, changes, logged, k)
        tables.clock[PYTHONS_TURN] = 1
    return 0, 0


@inline
def member_for(rule, tables, k):
    """Which of the deployed policies plays episode k: number k of the stream of members."""
    if rule.members == 1:
        return 0
    return np.int64(uniform(noise(tables.keys[1], np.uint64(k))) * rule.members)


@entry
def fill_members(rule, tables, episodes, members):
    """Which of the deployed policies play these episodes [B]."""
    for i in range(len(episodes)):
        members[i] = member_for(rule, tables, episodes[i])


@inline
def close_proposing_episode(log, k, changed, switches, mark):
    """As `close_episode`; rows whose members traded places have changed and not switched."""
    log.counts[0] += switches - changed
    return close_episode(log, k, changed, mark)


@entry
def play_proposed(rule, tables, model, log, key, first, last):
    """Play episodes first .. last - 1, or as many as log and pool have room for; return the next
    episode.
    """
    mark = np.searchsorted(log.checkpoints, first, side="right")
    for k in range(first, last):
        if log.counts[2] + rule.pace.room > len(log.changes) or pool_is_full(rule, tables):
            return k
        x, triggered = start_state(model, rule.H, key, k), False
        policy = member_for(rule, tables, k) * rule.H * rule.S
        for h in range(rule.H):
            a = tables.policy[policy + h * rule.S + x]
            reward, y = outcome_of(model, key, k, rule.H, rule.A, h, x, a)
            triggered |= take_in(rule, tables, h, x, a, reward, y)
            x = y
        changed, switches = end_proposing_episode(
            rule, tables, log.changes, log.counts[2], k, triggered
        )
        if tables.clock[PYTHONS_TURN] > 0:
            return k + 1
        mark = close_proposing_episode(log, k, changed, switches, mark)
    return last


@entry
def simulate_proposed(rule, tables, model, evaluation, log, account, key, first, last):
    """As `simulate`, for learners that propose; returns early also where the pool is full, and
    where it is Python's turn.
    """
    while first < last:
        first = play_proposed(rule, tables, model, log, key, first, last)
        if evaluation.wanted:
            settle(model, evaluation, account, log.changes, log.counts[2], first)
        if log.keep:
            break
        log.counts[2] = 0
        if pool_is_full(rule, tables) or tables.clock[PYTHONS_TURN] > 0:
            break
    return first


@entry
def carry_out_simulated(rule, tables, model, evaluation, log, account, k):
    """Deploy the proposal that Python made after episode k, with which `simulate_proposed` stopped,
    and close the episode.
    """
    tables.clock[PYTHONS_TURN], logged = 0, log.counts[2]
    changed, switches = carry_out(rule, tables, log.changes, logged, k)
    close_proposing_episode(
        log, k, changed, switches, np.searchsorted(log.checkpoints, k, side="right")
    )
    if evaluation.wanted:
        settle(model, evaluation, account, log.changes[logged:], changed, k + 1)
    if not log.keep:
        log.counts[2] = 0


@entry
def propose_batch(rule, tables, states, actions, rewards, off_policy, cut, first, changes):
    """As `digest_batch`, for learners that propose; ends early also where the pool is full, and
    where it is Python's turn.

    Their triggers are the episodes after which they propose.
    """
    logged = 0
    for b in range(states.shape[0]):
        if pool_is_full(rule, tables):
            return logged, b, -1
        proposals = tables.clock[3]
        policy = member_for(rule, tables, first + b) * rule.H * rule.S
        for h in range(rule.H):
            if (
                not off_policy
                and actions[b, h] != tables.policy[policy + h * rule.S + states[b, h]]
            ):
                return logged, b, h
        triggered = False
        for h in range(rule.H):
            y = states[b, h + 1] if h + 1 < rule.H else 0
            triggered |= take_in(rule, tables, h, states[b, h], actions[b, h], rewards[b, h], y)
        changed = end_proposing_episode(rule, tables, changes, logged, first + b, triggered)[0]
        logged += changed
        if tables.clock[PYTHONS_TURN] > 0 or is_cut(cut, tables.clock[3] > proposals, changed):
            return logged, b + 1, -1
    return logged, states.shape[0], -1


# ---- counts for planners of one's own ------------------------------------------------------------


@entry
def spread_successors(rule, tables, successors):
    """Write how often each state came next into successors [cells, S]."""
    for i in range(len(tables.records)):
        record = tables.records[i]
        for j in range(record["start"], record["start"] + record["size"]):
            successors[i, tables.pool[j]["state"]] = tables.pool[j]["count"]
