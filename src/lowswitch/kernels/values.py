"""Exact values: backward induction, and the regret of a run from its row changes."""

import numpy as np

from lowswitch.kernels.arrays import (
    ACTION,
    EPISODE,
    STATE,
    STEP,
    ManyValueTables,
    ValueTables,
)
from lowswitch.kernels.compile import NOTHING, entry, inline, part
from lowswitch.kernels.kinds import by_kind

_0, _1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(i) for i in range(9))


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
    """Backward induction: fill values [(H + 1) * S] and policy [H, S].

    Ties go to the lowest index.
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
    """Fill values [(H + 1) * S] with the values of a policy [H, S]."""
    H, S = policy.shape
    for h in range(H - 1, -1, -1):
        for x in range(S):
            values[h * S + x] = lookahead(model, h, x, policy[h, x], A, values, (h + 1) * S)


@inline
def put(model, evaluation, m, h, x, a):
    """Set the action of row (h, x) of member m to a."""
    here = (m * evaluation.H + h) * evaluation.S + x
    evaluation.policy[here] = a
    evaluation.origins[here] = (h * model.stride + x * evaluation.A + a) * model.width


@inline
def push_eight(outflow, mass, here, there, origins, row, width):
    """Add what eight states send on to the state law `there`.

    The sum of four is written as two sums of two, because the additions of one lane wait for each
    other. The indices are unsigned, because numba's test for negative indices would prevent
    vectorising the inner loops.
    """
    m0, m1, m2, m3 = mass[here], mass[here + _1], mass[here + _2], mass[here + _3]
    m4, m5, m6, m7 = mass[here + _4], mass[here + _5], mass[here + _6], mass[here + _7]
    p0, p1, p2, p3 = origins[row], origins[row + _1], origins[row + _2], origins[row + _3]
    p4, p5, p6, p7 = origins[row + _4], origins[row + _5], origins[row + _6], origins[row + _7]
    for y in range(width):
        four = (m0 * outflow[p0 + y] + m1 * outflow[p1 + y]) + (
            m2 * outflow[p2 + y] + m3 * outflow[p3 + y]
        )
        more = (m4 * outflow[p4 + y] + m5 * outflow[p5 + y]) + (
            m6 * outflow[p6 + y] + m7 * outflow[p7 + y]
        )
        mass[there + y] = (mass[there + y] + four) + more


@inline
def push_rest(outflow, mass, here, there, origins, row, x, S, width):
    """The same for the states from x on, fewer than eight, and for the reward before."""
    if x + _4 <= S:
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


@part
def flow_step_dense(model, evaluation, mass, origins, policies, h):
    """Push the state laws of step h through policies that lie side by side in `mass` and `origins`.

    Of several policies these are the ones that changed up to step h. All successors are updated
    side by side, eight states per pass. Policies share most rows, which then come from memory once
    for all of them. The sums of a policy do not depend on the others.
    """
    width, S, steps = np.uint64(model.width), np.uint64(evaluation.S), np.uint64(evaluation.H)
    for b in range(policies):
        there = (np.uint64(b) * steps + np.uint64(h) + _1) * width
        for y in range(width):
            mass[there + y] = -0.0  # the neutral element of addition; avoids a call of memset
    x = _0
    while x + _8 <= S:
        for b in range(policies):
            if evaluation.firsts[b] <= h:
                step = np.uint64(b) * steps + np.uint64(h)
                here = step * width
                row = step * S + x
                push_eight(model.outflow, mass, here + x, here + width, origins, row, width)
        x += _8
    for b in range(policies):
        step = np.uint64(b) * steps + np.uint64(h)
        here, row = step * width, step * S
        push_rest(model.outflow, mass, here, here + width, origins, row, x, S, width)


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


@part
def total_reward_dense(model, evaluation):
    """The mean reward of all steps, once the state law of the last step is known.

    The sums are in the order of `flow_step_dense`.
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
    """The value of the deployed policy; the state laws up to step `first` must be up to date."""
    for h in range(first, evaluation.H - 1):
        if len(model.outflow) > 0:
            flow_step_dense(model, evaluation, evaluation.mass, evaluation.origins, 1, h)
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
    return ValueTables(
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
        evaluation.firsts,
    )


@part
def mixture_flow(model, evaluation, first):
    """The average of the members' values."""
    value = 0.0
    for m in range(evaluation.members):
        value += flow(model, member_of(model, evaluation, m), first)
    return value / evaluation.members


@inline
def deployed_value(model, evaluation, first):
    """The value of the deployed policy or mixture; state laws up to `first` must be up to date."""
    if evaluation.members == 1:
        return flow(model, evaluation, first)
    return mixture_flow(model, evaluation, first)


@entry
def value_policies(model, evaluation, policies):
    """Set every row to its action in the policies [L, H, S], and return their value."""
    for m in range(evaluation.members):
        for h in range(evaluation.H):
            for x in range(evaluation.S):
                put(model, evaluation, m, h, x, policies[m, h, x])
    return deployed_value(model, evaluation, NOTHING)


@part
def sequence_regret(model, evaluation, first, last):
    """The regret of the deployed policy in episodes first .. last - 1 of a start sequence."""
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
    return best - deployed_value(model, evaluation, NOTHING)


@part
def charge(model, evaluation, account, last):
    """Charge the deployed policy for the episodes before `last`, and fill in its curve."""
    balance, marks = account.balance[0], account.curve_points
    while balance["charged"] < last:
        mark, stop = balance["passed"], last
        if mark < len(marks):
            stop = min(last, marks[mark])
        if len(model.starts) == 0:
            balance["regret"] += balance["gap"] * (stop - balance["charged"])
        else:
            balance["regret"] += sequence_regret(model, evaluation, balance["charged"], stop)
        balance["charged"] = stop
        if mark < len(marks) and stop == marks[mark]:
            account.curve[mark] = balance["regret"]
            balance["passed"] = mark + 1


@part
def follow(model, evaluation, changes, i, used):
    """Apply the row changes of one episode, from change i on.

    Return the next change, and the first step that changed.
    """
    k, first = changes[i, EPISODE], evaluation.H
    while i < used and changes[i, EPISODE] == k:
        h, x = changes[i, STEP], changes[i, STATE]
        for m in range(evaluation.members):
            put(model, evaluation, m, h, x, changes[i, ACTION + m])
        first = min(first, h)
        i += 1
    return i, first


# ---- several policies side by side ---------------------------------------------------------------


@inline
def next_of(model, evaluation, b):
    """The evaluation of the policy after b + 1 deployments."""
    rows, width = evaluation.H * evaluation.S, evaluation.H * model.width
    return ValueTables(
        evaluation.wanted,
        evaluation.H,
        evaluation.S,
        evaluation.A,
        1,
        evaluation.best,
        evaluation.optimal,
        evaluation.policy,
        evaluation.next_origins[b * rows : (b + 1) * rows],
        evaluation.next_mass[b * width : (b + 1) * width],
        evaluation.firsts,
    )


@inline
def copy_run(source, first, target, place, size):
    """Copy a run of numbers; the indices are unsigned, as in `push_eight`."""
    begin, end = np.uint64(first), np.uint64(place)
    for j in range(np.uint64(size)):
        target[end + j] = source[begin + j]


@inline
def copy_law(model, evaluation, policies, h, target, place):
    """Copy the state law of step h of the last of these policies that changed up to there."""
    b = policies - 1
    while b >= 0 and evaluation.firsts[b] > h:
        b -= 1
    source = evaluation.next_mass if b >= 0 else evaluation.mass
    copy_run(source, (max(b, 0) * evaluation.H + h) * model.width, target, place, model.width)


@part
def settle_many(evaluation, model, account, changes, i, used):
    """Apply the changes of the next deployments, and charge the policies that they replace.

    The new policies are valued side by side, each from the first step that changed on. Return the
    next change.
    """
    H, S, width, policies, lowest = evaluation.H, evaluation.S, model.width, 0, evaluation.H
    while i < used and policies < len(evaluation.firsts):
        evaluation.begins[policies] = i
        i, first = follow(model, evaluation, changes, i, used)
        evaluation.firsts[policies], lowest = first, min(lowest, first)
        place = (policies * H + first) * S
        copy_run(evaluation.origins, first * S, evaluation.next_origins, place, (H - first) * S)
        policies += 1
    mass, origins = evaluation.next_mass, evaluation.next_origins
    for h in range(lowest, H):
        for b in range(policies):
            if evaluation.firsts[b] == h:
                copy_law(model, evaluation, b, h, mass, (b * H + h) * width)
        if h + 1 < H:
            flow_step_dense(model, evaluation, mass, origins, policies, h)
    for h in range(lowest + 1, H):
        copy_law(model, evaluation, policies, h, evaluation.mass, h * width)
    for b in range(policies):
        charge(model, evaluation, account, changes[evaluation.begins[b], EPISODE] + 1)
        value = total_reward_dense(model, next_of(model, evaluation, b))
        account.balance[0]["gap"] = evaluation.best - value
    evaluation.firsts[0] = 0
    return i


@inline
def settle_one(evaluation, model, account, changes, i, used):
    """Apply the changes of one deployment, and charge the policy that it replaces.

    Return the next change.
    """
    charge(model, evaluation, account, changes[i, EPISODE] + 1)
    i, first = follow(model, evaluation, changes, i, used)
    if len(model.starts) == 0:
        account.balance[0]["gap"] = evaluation.best - deployed_value(model, evaluation, first)
    return i


settle_next = by_kind("settle_next", {ValueTables: settle_one, ManyValueTables: settle_many})


@part
def settle(model, evaluation, account, changes, used, episodes):
    """Apply the first `used` row changes of a history, and charge the policies deployed meanwhile.

    All episodes up to the last checkpoint within `episodes` are charged too. A policy is charged
    when it is replaced or at a checkpoint, not where a piece of the run happens to end: so the sums
    are the same bits however a run is divided.
    """
    i = NOTHING
    while i < used:
        i = settle_next(evaluation, model, account, changes, i, used)
    mark = account.balance[0]["passed"]
    while mark < len(account.curve_points) and account.curve_points[mark] <= episodes:
        charge(model, evaluation, account, account.curve_points[mark])
        mark += 1


@entry
def fill_gaps(model, evaluation, changes, gaps):
    """Fill in how far each policy of a history is below the optimum under the start law.

    The first policy is the one in `evaluation`, and the others follow the deployments.
    """
    gaps[0] = evaluation.best - deployed_value(model, evaluation, NOTHING)
    i, deployment = NOTHING, 0
    while i < len(changes):
        i, first = follow(model, evaluation, changes, i, len(changes))
        deployment += 1
        gaps[deployment] = evaluation.best - deployed_value(model, evaluation, first)
