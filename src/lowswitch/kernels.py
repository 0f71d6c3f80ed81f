"""Every compiled function: flat arrays in and out, no allocation in a loop, nothing called but arithmetic and each other.

They live in one file because numba's cache does not notice an edit in a callee of another file. What the arrays hold is in `arrays.py`.
"""

import math

import numpy as np
from numba import njit

entry = njit(cache=True, nogil=True, error_model="numpy")  # called from Python, or too rare to inline
inline = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)  # part of a hot loop

HOEFFDING, BERNSTEIN = 0, 1
QUIET, TRIGGERED, SWITCHED = 0, 1, 2  # what a transition did to its row
AT_TRIGGER, AT_SWITCH, AT_MISMATCH = 0, 1, 2  # where a round of many machines is cut

# ---- noise ---------------------------------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_0, _1, _2, _3, _4, _6, _11, _27, _30, _31, _63 = (np.uint64(i) for i in (0, 1, 2, 3, 4, 6, 11, 27, 30, 31, 63))
_UNIT = 2.0**-53


@inline
def noise(key, address):
    """Number `address` of the stream `key`: SplitMix64 (Steele, Lea, Flood 2014), whose state is a counter."""
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
    """Address of the start draw of episode k; step h draws its successor at + 1 + 2 h and its reward at + 2 + 2 h."""
    return np.uint64(k) * np.uint64(2 * H + 1)


@inline
def draw(heads, columns, row, bits):
    """A successor from the alias table of a row: Walker 1977, with a power of two of columns so that bits need no division."""
    head = np.uint64(heads[row])
    log_columns = head & _63
    column = columns[np.int64((head >> _6) + ((bits >> _1) >> (_63 - log_columns)))]
    inside = np.int64((bits << log_columns) >> _1) < column["threshold"]
    return np.int64(column["own"]) if inside else np.int64(column["other"])


@entry
def fill_alias(probabilities, successors, columns, scratch, stack):
    """Write the alias table of one row (Vose 1991); columns without a successor of their own are all alias."""
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
        fill_alias(probabilities[begin:end], successors[begin:end], columns[first : first + size], scratch, stack)


# ---- one update ----------------------------------------------------------------------------------------------------


@inline
def learning_rate(n, H):
    """alpha_n = (H + 1) / (H + n): Jin et al. 2018, Algorithm 1."""
    return (H + 1) / (H + n)


@inline
def hoeffding_width(share, c, hoeffding_scale):
    """c sqrt(H^3 iota / n), with share = 1 / n: Bai et al. 2019, Algorithm 2; Jin et al. 2018, Algorithm 1."""
    return c * math.sqrt(hoeffding_scale * share)


@inline
def variance(total, squares, share):
    """W_n = squares / n - (total / n)^2: Jin et al. 2018, eq. (C.1); the printed Algorithm 2 of appendix C is an erratum."""
    mean = total * share
    return max(0.0, squares * share - mean * mean)


@inline
def bernstein_width(rule, share, variance):
    """beta_n = min{c1 (sqrt(H/n (W + H) iota) + sqrt(H^7 S A) iota / n), c2 sqrt(H^3 iota / n)}: Bai et al. 2019, Algorithm UCB2B."""
    spread = math.sqrt(rule.variance_scale * share * (variance + rule.H)) + rule.lower_order * share
    return min(rule.c1 * spread, hoeffding_width(share, rule.c2, rule.hoeffding_scale))


@inline
def weighted_bonus(rule, tables, i, n, alpha, next_value):
    """alpha_n b_n. Bernstein: b_n = (beta_n - (1 - alpha_n) beta_{n-1}) / (2 alpha_n), beta_0 = 0: Jin et al. 2018, Algorithm 2."""
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
        if a != action:
            best = max(best, tables.cells[here * rule.A + a]["q"])
    return best


@entry
def deploy(rule, tables, here):
    """Deploy the best action of a row whose incumbent is beaten, the lowest index among equals."""
    action, best, rival = 0, -np.inf, -np.inf
    for a in range(rule.A):
        q = tables.cells[here * rule.A + a]["q"]
        if q > best:
            action, best, rival = a, q, best
        elif q > rival:
            rival = q
    tables.rows[here]["action"] = action
    tables.rows[here]["rival"] = rival


@inline
def digest(rule, tables, h, x, a, reward, y):
    """Learn one transition; return what it did to row (h, x). Bai et al. 2019, Algorithms 2 and UCB2B.

    The deployed copy of Q is needed only through its argmax, and between two triggers only the deployed action's estimate moves. So a
    row keeps the best of its other estimates, and the maximum over all actions is looked for only when the action changes.
    """
    here = h * rule.S + x
    i = here * rule.A + a
    row, cell = tables.rows[here], tables.cells[i]
    n = cell["visits"] + 1
    alpha = learning_rate(n, rule.H)
    next_value = tables.rows[here - x + rule.S + y]["value"]
    bonus = weighted_bonus(rule, tables, i, n, alpha, next_value)
    if bonus > alpha * rule.H:
        tables.loud[0] += 1
    q = (1 - alpha) * cell["q"] + alpha * (reward + next_value) + bonus
    cell["q"] = q
    cell["visits"] = n
    if a == row["action"]:
        rival = row["rival"]
    else:  # told off-policy
        q = tables.cells[here * rule.A + row["action"]]["q"]
        rival = best_rival(rule, tables, here, row["action"])
        row["rival"] = rival
    row["value"] = min(rule.caps[h], max(q, rival))
    if n == cell["due"]:
        cell["due"] = next_trigger(rule, n)
        if q < rival:
            deploy(rule, tables, here)
            return SWITCHED
        return TRIGGERED
    return QUIET


# ---- exact values --------------------------------------------------------------------------------------------------


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
    """Backward induction; fills values [(H + 1) * S] and policy [H, S], the lowest index among equals."""
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
def put(model, evaluation, h, x, a):
    """Let row (h, x) play action a."""
    evaluation.policy[h * evaluation.S + x] = a
    evaluation.origins[h * evaluation.S + x] = (h * model.stride + x * evaluation.A + a) * model.width


@entry
def put_policy(model, evaluation, policy):
    """Let every row play its action of a policy [H, S]."""
    for h in range(evaluation.H):
        for x in range(evaluation.S):
            put(model, evaluation, h, x, policy[h, x])


@inline
def flow_step_dense(model, evaluation, h):
    """Push the state law of step h through the deployed policy: all successors side by side, four states a pass.

    The sum of four is written as two sums of two because the additions of one lane wait for each other. The indices are unsigned because
    numba's test for negative ones would keep the inner loops from being vectorised.
    """
    mass, outflow, origins = evaluation.mass, model.outflow, evaluation.origins
    width, S = np.uint64(model.width), np.uint64(evaluation.S)
    here, row = np.uint64(h) * width, np.uint64(h) * S
    there = here + width
    for y in range(width):
        mass[there + y] = -0.0  # the neutral element of addition, and no call of memset
    x = _0
    while x + _4 <= S:
        m0, m1, m2, m3 = mass[here + x], mass[here + x + _1], mass[here + x + _2], mass[here + x + _3]
        p0, p1, p2, p3 = origins[row + x], origins[row + x + _1], origins[row + x + _2], origins[row + x + _3]
        for y in range(width):
            four = (m0 * outflow[p0 + y] + m1 * outflow[p1 + y]) + (m2 * outflow[p2 + y] + m3 * outflow[p3 + y])
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
    """The mean reward of all steps, once the state law of the last one is known; the sums in the order of `flow_step_dense`."""
    mass, outflow, origins = evaluation.mass, model.outflow, evaluation.origins
    width, S = np.uint64(model.width), np.uint64(evaluation.S)
    here, row = np.uint64(evaluation.H - 1) * width, np.uint64(evaluation.H - 1) * S
    value = -0.0
    x = _0
    while x + _4 <= S:
        m0, m1, m2, m3 = mass[here + x], mass[here + x + _1], mass[here + x + _2], mass[here + x + _3]
        p0, p1, p2, p3 = origins[row + x], origins[row + x + _1], origins[row + x + _2], origins[row + x + _3]
        value += (m0 * outflow[p0 + S] + m1 * outflow[p1 + S]) + (m2 * outflow[p2 + S] + m3 * outflow[p3 + S])
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
        reward = model.rewards[h * model.reward_stride + x * evaluation.A + evaluation.policy[h * S + x]]
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
    return total_reward_dense(model, evaluation) if len(model.outflow) > 0 else total_reward_listed(model, evaluation)


@entry
def policy_value(model, evaluation):
    """The value of the deployed policy from scratch."""
    return flow(model, evaluation, 0)


@inline
def sequence_regret(model, evaluation, first, last):
    """Regret of episodes first .. last - 1 of a start sequence, all played by the deployed policy."""
    for x in range(evaluation.S):
        evaluation.mass[x] = 0.0
    for k in range(first, last):
        evaluation.mass[model.starts[k]] += 1.0
    best = 0.0
    for x in range(evaluation.S):
        best += evaluation.mass[x] * evaluation.optimal[x]
    return best - flow(model, evaluation, 0)


@inline
def charge(model, evaluation, account, last):
    """Charge the deployed policy for the episodes before `last`, and fill in the checkpoints on the way."""
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
    """Take over the row changes of one episode, from change i on; return the next change and the first step that changed."""
    k, first = changes[i, 0], evaluation.H
    while i < used and changes[i, 0] == k:
        put(model, evaluation, changes[i, 1], changes[i, 2], changes[i, 3])
        first = min(first, changes[i, 1])
        i += 1
    return i, first


@entry
def settle(model, evaluation, account, changes, used, episodes):
    """Follow the first `used` row changes of a deployment history; charge deployed policies, and all episodes up to each checkpoint.

    A policy is charged when it is replaced or at a checkpoint, and not where a piece of the run happens to end: the sums are the same bits
    however a run is cut into pieces.
    """
    i = 0
    while i < used:
        charge(model, evaluation, account, changes[i, 0] + 1)
        i, first = follow(model, evaluation, changes, i, used)
        if len(model.starts) == 0:
            account.regret[1] = evaluation.best - flow(model, evaluation, first)
    mark = account.position[1]
    while mark < len(account.checkpoints) and account.checkpoints[mark] <= episodes:
        charge(model, evaluation, account, account.checkpoints[mark])
        mark += 1


@entry
def fill_gaps(model, evaluation, changes, gaps):
    """The gap under the start law of the policy in `evaluation`, and of the one after each deployment of a history."""
    gaps[0] = evaluation.best - flow(model, evaluation, 0)
    i, deployment = 0, 0
    while i < len(changes):
        i, first = follow(model, evaluation, changes, i, len(changes))
        deployment += 1
        gaps[deployment] = evaluation.best - flow(model, evaluation, first)


# ---- drivers -------------------------------------------------------------------------------------------------------


@inline
def log_switch(changes, i, k, h, x, a):
    changes[i, 0], changes[i, 1], changes[i, 2], changes[i, 3] = k, h, x, a


@inline
def start_state(model, H, key, k):
    """Where episode k begins: in its state of the start sequence, or drawn from the start law."""
    if len(model.starts) > 0:
        x = np.int64(model.starts[k])
    else:
        x = draw(model.heads, model.columns, len(model.heads) - 1, noise(key, episode_address(k, H)))
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
        if digest(rule, tables, h, x, a, reward, y) == SWITCHED:
            log_switch(log.changes, log.counts[2] + switches, k, h, x, tables.rows[h * rule.S + x]["action"])
            switches += 1
        x = y
    return switches


@entry
def play(rule, tables, model, log, key, first, last):
    """Play episodes first .. last - 1, or as many as the log has room for; return the next episode."""
    mark = np.searchsorted(log.checkpoints, first, side="right")
    for k in range(first, last):
        if log.counts[2] + rule.H > len(log.changes):
            return k
        switches = play_episode(rule, tables, model, log, key, k, start_state(model, rule.H, key, k))
        log.counts[0] += switches
        log.counts[1] += switches > 0
        log.counts[2] += switches
        if log.checkpoints[mark] == k + 1:
            log.switches[mark] = log.counts[0]
            log.deployments[mark] = log.counts[1]
            mark += 1
    return last


@entry
def simulate(rule, tables, model, evaluation, log, account, key, first, last):
    """Play episodes first .. last - 1 and charge them; return the next episode, before `last` where a kept log is full."""
    while first < last:
        first = play(rule, tables, model, log, key, first, last)
        if evaluation.wanted:
            settle(model, evaluation, account, log.changes, log.counts[2], first)
        if log.keep:
            break
        log.counts[2] = 0
    return first


@entry
def digest_batch(rule, tables, states, actions, rewards, off_policy, first, changes):
    """Learn episodes [B, H] in order; return (row changes logged, episode and step of the first off-policy action or -1, -1)."""
    logged = 0
    for b in range(states.shape[0]):
        for h in range(rule.H):
            if not off_policy and actions[b, h] != tables.rows[h * rule.S + states[b, h]]["action"]:
                return logged, b, h
        for h in range(rule.H):
            y = states[b, h + 1] if h + 1 < rule.H else 0
            x, a = states[b, h], actions[b, h]
            if digest(rule, tables, h, x, a, rewards[b, h], y) == SWITCHED:
                log_switch(changes, logged, first + b, h, x, tables.rows[h * rule.S + x]["action"])
                logged += 1
    return logged, -1, -1


# ---- many machines, one policy a round -------------------------------------------------------------------------------


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
    """Write down the episodes of the next round, one for each machine: the first that are not played yet; return how many."""
    told, limit = rounds.counts[2], rounds.counts[3]
    planned = 0
    for k in range(told, min(limit, told + len(window.ready))):
        if not window.ready[k % len(window.ready)]:
            episodes[planned] = k
            planned += 1
            if planned == len(episodes):
                break
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


@entry
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
    """Whether the deployed policy plays the actions of this episode; then the episode is what it would have played."""
    same = True
    for h in range(rule.H):
        same &= window.actions[slot, h] == tables.rows[h * rule.S + window.states[slot, h]]["action"]
    return same


@inline
def learn_episode(rule, tables, log, rounds, window, slot, k):
    """Learn the episode in a slot; return how many rows switched, and whether a trigger fired anywhere."""
    switches, triggered = 0, False
    for h in range(rule.H):
        x = np.int64(window.states[slot, h])
        y = np.int64(window.states[slot, h + 1]) if h + 1 < rule.H else 0
        reward = window.rewards[slot, h]
        outcome = digest(rule, tables, h, x, np.int64(window.actions[slot, h]), reward, y)
        rounds.earned[0] += reward
        triggered |= outcome != QUIET
        if outcome == SWITCHED:
            i = log.counts[2] + switches
            log_switch(log.changes, i, k, h, x, tables.rows[h * rule.S + x]["action"])
            rounds.stamps[i, 0], rounds.stamps[i, 1] = rounds.counts[0], rounds.counts[1]
            switches += 1
    return switches, triggered


@entry
def learn_played(rule, tables, log, window, rounds):
    """Learn in order what lies in the window, up to where the round is cut or, if asked to pause, to a deployment; return if it paused."""
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
    """How many episodes there will be under the deployed policy: all, or fewer where it or the mixture so far is good enough.

    The mixture's gap after t episodes is regret(t) / t, and regret grows by the policy's gap an episode. To be asked at a deployment,
    when every episode so far is charged: then the answer does not depend on rounds.
    """
    regret, gap, told = account.regret[0], account.regret[1], account.position[0]
    last = rounds.episodes
    if gap <= rounds.policy_gap or (told > 0 and regret <= rounds.mixture_gap * told):
        last = told
    elif gap < rounds.mixture_gap:
        more = math.ceil((regret - rounds.mixture_gap * told) / (rounds.mixture_gap - gap))
        last = min(last, told + max(1, np.int64(more)))
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
            settle(model, evaluation, account, log.changes[settled:used], used - settled, rounds.counts[2])
            settled = used
        if paused:
            rounds.counts[3] = last_episode(account, rounds)
    if rounds.cut == AT_MISMATCH and log.counts[1] > deployments:
        forget_stale(rule, tables, window)


@entry
def play_rounds(rule, tables, model, evaluation, log, account, window, rounds, policy, key, episodes, most):
    """Play and learn up to `most` rounds, or as many as the log has room for; `policy` and `episodes` are room to work in."""
    counts, played = rounds.counts, 0
    while played < most and counts[2] < counts[3] and log.counts[2] + rounds.room <= len(log.changes):
        for h in range(rule.H):
            for x in range(rule.S):
                policy[h, x] = tables.rows[h * rule.S + x]["action"]
        planned = plan_round(window, rounds, episodes)
        for i in range(planned):
            slot = episodes[i] % len(window.ready)
            roll_out(model, policy, rule.A, key, episodes[i], window.states, window.rewards, slot)
            receive(window, rounds, policy, rule.A, slot)
        counts[0] += 1
        counts[1] += planned
        learn_round(rule, tables, model, evaluation, log, account, window, rounds)
        played += 1


# ---- bandits -------------------------------------------------------------------------------------------------------

UCB1, UCB2, BASE, EXPLORE_THEN_COMMIT, LOG_LOG, BATCHED_THOMPSON = range(6)
PATIENCE = 32  # pulls for which a bound on the other arms is kept; any number gives the same results


@inline
def ucb1_width(n, pulls):
    """sqrt(2 ln n / n_j): Auer, Cesa-Bianchi, Fischer 2002, Figure 1."""
    return math.sqrt(2.0 * math.log(n) / pulls)


@inline
def ucb2_width(n, tau, alpha):
    """a_{n,r} = sqrt((1 + alpha) ln(e n / tau(r)) / (2 tau(r))): Auer, Cesa-Bianchi, Fischer 2002, eq. (3)."""
    return math.sqrt((1.0 + alpha) * math.log(math.e * n / tau) / (2.0 * tau))


@inline
def arm_index(bandit, n, pulls, wins):
    """Mean plus width after n pulls of all arms; when the next arm is chosen, the pulls of each are its tau(r)."""
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
    """The largest index of the other arms after n pulls in all; while they are not played it grows with n."""
    best = -np.inf
    for a in range(len(pulls)):
        if a != arm:
            best = max(best, arm_index(bandit, n, pulls[a], wins[a]))
    return best


@inline
def pull_arm(key, first, last, mean):
    """The rewards of 1 among pulls first .. last - 1 of an arm; the noise of pull t is number t of the run's stream."""
    wins = 0
    for t in range(first, last):
        wins += uniform(noise(key, np.uint64(t))) < mean
    return wins


@inline
def total_gap(gaps, pulls):
    """sum_j n_j (mu* - mu_j), the regret of these pulls: Auer, Cesa-Bianchi, Fischer 2002, section 1."""
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

    An epoch of UCB2 that ends where it begins, tau(r + 1) = tau(r), leaves every index as it was, so the same arm is chosen again: only the
    distinct values of tau matter, and they are the triggers of the arm's pulls. All arms are looked at only when the one played falls below
    what the others can reach by pull `bound_until`, or at that pull.
    """
    pulls, wins = tables.pulls[run], tables.wins[run]
    arm, due, switched, begun, t = tables.arm[run], tables.due[run], tables.switched[run], tables.begun[run], first
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
    tables.arm[run], tables.due[run], tables.switched[run], tables.begun[run] = arm, due, switched, begun


@inline
def base_width(tau, T, A, gamma):
    """sqrt(gamma ln(T A) / tau), the distance from the best at which an arm is dropped: Gao et al. 2019, Algorithm 1."""
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
    """Whether an arm whose mean is this far below the best is given up, n being the fewest pulls of any arm that is left."""
    T, A = bandit.grid[-1], len(bandit.means)
    if bandit.kind == BASE:
        return gap >= base_width(n, T, A, bandit.constant)
    if bandit.kind == EXPLORE_THEN_COMMIT:
        return gap > 2.0 * commit_width(n, T, bandit.constant)
    return gap > 2.0 * phase_width(n, A, len(bandit.grid), bandit.constant)


@inline
def seen_mean(tables, run, a):
    """The mean reward of an arm, in LOG_LOG of this phase alone."""
    return (tables.wins[run, a] - tables.old_wins[run, a]) / (tables.pulls[run, a] - tables.old_pulls[run, a])


@inline
def leading_arm(tables, run):
    """The active arm with the largest mean: the incumbent if it is among the best, else the lowest."""
    arm = tables.arm[run]
    best = seen_mean(tables, run, arm) if tables.active[run, arm] else -np.inf
    for a in range(tables.active.shape[1]):
        if tables.active[run, a] and seen_mean(tables, run, a) > best:
            arm, best = a, seen_mean(tables, run, a)
    return arm


@entry
def eliminate(bandit, tables, run):
    """Give up the arms that fall behind, unless one that is left has not been seen at all; return how many are left."""
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
    """Share a batch so that after it the active arms have equally many pulls, those of lower index one more if need be.

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
    """What the batch that begins after t pulls plays: Gao et al. 2019, Algorithm 1, Perchet et al. 2016, Cesa-Bianchi et al. 2013.

    One arm that is left is played to the end. The last batch of a grid plays the best; LOG_LOG has no such batch and shares its last phase,
    and begins each phase with new estimates.
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
    """A Gamma(shape, 1) number, shape at least 1, from a stream of its own: Marsaglia, Tsang 2000."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    address = _0
    while True:
        x = normal_draw(key, address)
        v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x)
        u = 1.0 - uniform(noise(key, address + _2))
        if v > 0.0 and (u < 1.0 - 0.0331 * x * x * x * x or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v))):
            return d * v
        address += _3


@inline
def beta_draw(key, x, y):
    """A Beta(x, y) number as Gamma(x) / (Gamma(x) + Gamma(y)), whose streams are named by numbers 0 and 1 of the given one."""
    first = gamma_draw(noise(key, _0), x)
    return first / (first + gamma_draw(noise(key, _1), y))


@inline
def sampled_arm(key, t, pulls, wins):
    """The arm with the largest draw from Beta(1 + wins, 1 + losses): Thompson 1933, with uniform priors.

    Arm a at pull t draws from a stream of its own, whose key is number t A + a of the run's posterior stream.
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
    """The pulls up to the first after which an arm's count is a power of two: Karbasi, Mirrokni, Shadravan 2021, Algorithm 1.

    No reward is seen before the batch ends, so which arms are pulled, and how often, is known when it begins; their order is free.
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
    """Play pulls first .. last - 1 of one run: each arm of a batch in one block, first the one played last, then by index."""
    pulls, wins, left, switched, t = tables.pulls[run], tables.wins[run], tables.left[run], tables.switched[run], first
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


# ---- MBIE ----------------------------------------------------------------------------------------------------------


@inline
def reward_width(intervals, n):
    """c sqrt(ln(2 / delta_R) / (2 n)), from Hoeffding's inequality: Strehl and Littman 2008, section 3."""
    return intervals.c * math.sqrt(intervals.reward_log / (2 * n))


@inline
def transition_width(intervals, n):
    """c sqrt(2 (ln(2^S - 2) - ln delta_T) / n) in the L1 norm, from Weissman et al. 2003: Strehl and Littman 2008, section 3."""
    return intervals.c * math.sqrt(2 * intervals.transition_log / n)


@inline
def observe(intervals, tables, h, x, a, reward, y):
    """Count one transition; as data only while they are fewer than `most_visits`, the m of Strehl and Littman 2008."""
    tables.plays[h, x, a] += 1
    if tables.visits[h, x, a] < intervals.most_visits:
        tables.visits[h, x, a] += 1
        tables.payments[h, x, a] += reward
        tables.successors[h, x, a, y] += 1
        tables.stale[h, x, a] = True


@inline
def sort_states(order, values):
    """Bring the states into the order of falling value, the lowest index first among equals; fast where they nearly are."""
    for i in range(1, len(order)):
        y, j = order[i], i
        while j > 0 and (values[order[j - 1]] < values[y] or (values[order[j - 1]] == values[y] and order[j - 1] > y)):
            order[j] = order[j - 1]
            j -= 1
        order[j] = y


@inline
def optimistic_law(successors, n, order, width, law):
    """Fill law [S] with what is worth most within the L1 distance `width` of the observed frequencies: Strehl and Littman 2008.

    The best state gets half of the width, or all there is; the worst states give it. The frequencies are worked out into `law` each time:
    in-place changes would bend what was observed.
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
    """Q~_h(x, a) = min{H - h, R^ + its width + max_P sum_y P(y) V~_{h+1}(y)}, h from 0; H - h where nothing was seen."""
    n = tables.visits[h, x, a]
    cap = float(intervals.H - h)
    if n == 0:
        return cap
    law, values = tables.law, tables.v[h + 1]
    optimistic_law(tables.successors[h, x, a], n, tables.order[h], transition_width(intervals, n), law)
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

    An entry of Q~ is a function of its own data and of V~ one step later: it is worked out anew only where one of them has changed.
    """
    changed = False
    for h in range(intervals.H - 1, -1, -1):
        if changed:
            sort_states(tables.order[h], tables.v[h + 1])
        changed = replan_step(intervals, tables, h, changed)


@inline
def deploy_plan(intervals, tables, k, changes, logged):
    """Deploy the best action of every row whose incumbent is beaten, the lowest index among equals; return how many changes are logged."""
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
    """Play episodes first .. last - 1, the policy new after each round of `machines`; return the next episode and the changes logged.

    It stops early, before the last episode of a round, where `changes` might not hold those of a whole policy.
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
