"""Plans on models that are drawn from a posterior whose prior was learned from the data."""

import math

import numpy as np

from lowswitch.kernels.arrays import Belief, Drawn
from lowswitch.kernels.compile import allocating, allocating_part, inline, part
from lowswitch.kernels.evidence import (
    lifted,
    others_reward,
    pulled_mass,
    reward_spread,
    row_prior,
    size_at,
    typical_reward,
    was_usual,
)
from lowswitch.kernels.noise import next_uniform, noise, uniform
from lowswitch.kernels.posterior import gamma
from lowswitch.kernels.qlearning import best_action
from lowswitch.kernels.sums import mean_of

_CURIOUS_MASS = 0.5
_ATOMS = 24  # successors that a law draws in addition to the seen ones
_ALL = 32  # with at most this many states, a law draws a weight for each
_REWARD_STREAM = np.uint64(2**63)
_COMPARING = np.uint64(2**62)
_STATE_STREAM = np.uint64(2**58)
_DOUBT_STREAM = np.uint64(2**57)


# ---- draws ---------------------------------------------------------------------------------------


@allocating_part
def room_for(spec, laws, rows):
    """Memory for `rows` rows of a model: the rows of one state, of one step, or of every step."""
    sizes = np.zeros(rows, dtype=np.int64)
    for row in range(len(laws.n)):
        group = row // spec.A
        size = laws.all_offsets[group + 1] - laws.all_offsets[group]
        sizes[row % rows] = max(sizes[row % rows], size)
    starts = np.zeros(rows + 1, dtype=np.int64)
    for row in range(rows):
        room = spec.S if spec.S <= _ALL else sizes[row] + _ATOMS
        starts[row + 1] = starts[row] + room
        sizes[row] = 0
    states = np.zeros(starts[rows], dtype=np.int64)
    rewards = np.zeros(max(rows, spec.S * spec.A))
    return Drawn(starts, sizes, states, np.zeros(len(states)), np.zeros(rows), rewards)


@allocating_part
def fresh_drawn(spec, laws):
    """Memory for the rows of one step of a model."""
    return room_for(spec, laws, spec.S * spec.A)


@allocating_part
def briefly_drawn(spec, laws):
    """Memory for the rows of one state, if each step has laws of its own; else of one step.

    Laws that no other step needs are forgotten with their state: those of a whole step would not
    fit into a cache.
    """
    return room_for(spec, laws, spec.A if laws.stride > 0 else spec.S * spec.A)


@inline
def put_weight(drawn, row, y, weight):
    """Add one successor to a drawn law."""
    place = drawn.starts[row] + drawn.sizes[row]
    drawn.states[place], drawn.weights[place] = y, weight
    drawn.sizes[row] += 1
    return weight


@part
def draw_seen(spec, laws, row, prior, drawn, key, counter, seen):
    """Draw the weights of a row's seen successors, or also of those seen in its state.

    `prior` comes from `row_prior`. Return the sum of the weights. `seen` receives how often the row
    had each successor, or -1 if only other rows had it.
    """
    mine, group, total = row % len(drawn.sizes), row // spec.A, 0.0
    each, share = prior
    for j in range(laws.offsets[row], laws.offsets[row + 1]):
        seen[laws.states[j]] = laws.counts[j]
        if share == 0.0:
            weight = gamma(each + laws.counts[j], key, counter)
            total += put_weight(drawn, mine, laws.states[j], weight)
    if share > 0.0:
        for j in range(laws.all_offsets[group], laws.all_offsets[group + 1]):
            y = laws.all_states[j]
            others = each + share * (laws.all_counts[j] - seen[y])
            total += put_weight(drawn, mine, y, gamma(others + seen[y], key, counter))
            if seen[y] == 0.0:
                seen[y] = -1.0
    return total


@part
def draw_size(spec, belief, row, key, counter):
    """Draw how many successors a law may have, including the seen ones.

    The largest of log p_i - log(-log u_i) is at i with probability p_i: Gumbel 1954.
    """
    found, most = spec.S, -np.inf
    for i in range(belief.sizes.shape[1]):
        score = belief.sizes[row, i] - math.log(-math.log(next_uniform(key, counter)))
        if score > most:
            found, most = size_at(spec.S, i), score
    return found


@part
def draw_unseen(spec, row, each, unseen, drawn, key, counter, seen):
    """Draw the weights of `unseen` random successors that were not seen; return their sum."""
    left, wanted, total = 0, unseen, 0.0
    for y in range(spec.S):
        left += seen[y] == 0.0
    for y in range(spec.S):
        if wanted > 0 and seen[y] == 0.0:
            # Knuth 1997, volume 2, section 3.4.2, algorithm S
            if wanted == left or next_uniform(key, counter) * left < wanted:
                total += put_weight(drawn, row, y, gamma(each, key, counter))
                wanted -= 1
            left -= 1
    return total


@part
def draw_some(spec, row, each, unseen, drawn, key, counter, seen):
    """Like `draw_unseen`, for many states: states that are drawn twice are skipped.

    `seen` receives -1 for each of them.
    """
    total = 0.0
    for _ in range(unseen):
        y = np.int64(next_uniform(key, counter) * spec.S)
        while seen[y] != 0.0:
            y = np.int64(next_uniform(key, counter) * spec.S)
        total += put_weight(drawn, row, y, gamma(each, key, counter))
        seen[y] = -1.0
    return total


@part
def break_stick(spec, row, mass, total, drawn, key, counter):
    """Draw the weights of many unseen successors; return the sum of all weights.

    They share one gamma variate, which breaks like a stick over states drawn at random: Sethuraman
    1994, the limit for many states. The remainder after the last piece is spread over all states.
    """
    rest = gamma(mass, key, counter)
    total += rest
    for _ in range(_ATOMS):
        kept = rest * math.exp(math.log(next_uniform(key, counter)) / mass)
        y = np.int64(next_uniform(key, counter) * spec.S)
        put_weight(drawn, row, y, rest - kept)
        rest = kept
        if rest <= 1e-3 * total:
            break
    drawn.rest[row] = rest
    return total


@part
def draw_pulled(spec, row, each, unseen, pull, drawn, key, counter, seen):
    """Like `draw_some`, but each state is the likelier the more `pull` [S] it has."""
    total, left = 0.0, 0.0
    for y in range(spec.S):
        if seen[y] == 0.0:
            left += pull[y]
    for _ in range(unseen):
        rest, found = next_uniform(key, counter) * left, -1
        for y in range(spec.S):
            if seen[y] == 0.0:
                found = y
                rest -= pull[y]
                if rest <= 0.0:
                    break
        total += put_weight(drawn, row, np.int64(found), gamma(each, key, counter))
        seen[found] = -1.0
        left -= pull[found]
    return total


@part
def draw_pulled_alike(spec, belief, row, prior, pull, drawn, key, counter, seen):
    """Draw the weights of all successors of a row whose prior is that of its state, pulled."""
    laws, mine, group, total = belief.laws, row % len(drawn.sizes), row // spec.A, 0.0
    each, share = prior
    scale = belief.alike / pulled_mass(spec, laws, row, each, share, pull)
    for j in range(laws.offsets[row], laws.offsets[row + 1]):
        seen[laws.states[j]] = laws.counts[j]
    for j in range(laws.all_offsets[group], laws.all_offsets[group + 1]):
        y = laws.all_states[j]
        before = scale * pull[y] * (each + share * (laws.all_counts[j] - seen[y]))
        total += put_weight(drawn, mine, y, gamma(before + seen[y], key, counter))
        if seen[y] == 0.0:
            seen[y] = -1.0
    if spec.S <= _ALL:
        for y in range(spec.S):
            if seen[y] == 0.0:
                total += put_weight(drawn, mine, y, gamma(scale * pull[y] * each, key, counter))
    return total


@part
def draw_law(spec, belief, row, drawn, key, counter, seen):
    """Draw the law of a row from the Dirichlet posterior.

    Each seen successor has its own gamma variate; with many states, the others share one. `seen` is
    all zero before and after.
    """
    mine = row % len(drawn.sizes)
    each, share = row_prior(spec, belief.laws, row, belief.mass, belief.alike)
    size, sized = spec.S, share == 0.0 and len(belief.sizes) > 0
    pulled = len(belief.pull) > 0 and not belief.led[row]
    if sized:
        each, size = belief.each, draw_size(spec, belief, row, key, counter)
    drawn.sizes[mine], drawn.rest[mine] = 0, 0.0
    if pulled and not sized:
        pull = belief.pull[row // (spec.S * spec.A)]
        total = draw_pulled_alike(spec, belief, row, (each, share), pull, drawn, key, counter, seen)
    else:
        total = draw_seen(spec, belief.laws, row, (each, share), drawn, key, counter, seen)
    listed, begin = drawn.sizes[mine], drawn.starts[mine]
    if pulled and sized and (spec.S <= _ALL or size - listed <= _ATOMS):
        pull = belief.pull[row // (spec.S * spec.A)]
        total += draw_pulled(spec, mine, each, size - listed, pull, drawn, key, counter, seen)
    elif sized and spec.S > _ALL and size - listed <= _ATOMS:
        total += draw_some(spec, mine, each, size - listed, drawn, key, counter, seen)
    elif spec.S <= _ALL:
        total += draw_unseen(spec, mine, each, size - listed, drawn, key, counter, seen)
    elif listed < size:
        total = break_stick(spec, mine, each * (size - listed), total, drawn, key, counter)
    for j in range(begin, begin + drawn.sizes[mine]):
        seen[drawn.states[j]] = 0.0
    if total <= 0.0:  # all underflow if the mass is tiny: its limit is one state
        drawn.sizes[mine] = 0
        total = put_weight(drawn, mine, np.int64(next_uniform(key, counter) * spec.S), 1.0)
    for j in range(drawn.starts[mine], drawn.starts[mine] + drawn.sizes[mine]):
        drawn.weights[j] /= total
    drawn.rest[mine] /= total


@part
def draw_reward(spec, belief, row, typical, key, counter):
    """Draw the mean reward of a row; for rewards 0 and 1 from a Beta law.

    Its prior may have a learned mass, centred on the mean reward of the state's other actions or,
    for a belief that is not hopeful, on `typical`, which `draw_state_reward` returned. Before the
    first visit a hopeful belief has a symmetric prior, so that unknown actions are tried. Rewards
    that vary less count in part: their share counts as rewards of 0 and 1, and the rest as constant
    (the Bayesian bootstrap, Rubin 1981). A row with many visits uses its own share. Rewards that do
    not vary are known from the first visit on.
    """
    rewards, n = belief.rewards, belief.rewards.n[row]
    if n == 0.0 and belief.hopeful:
        weight = spec.reward_weight if belief.noisy else 1.0
        one = gamma(weight, key, counter)
        return one / (one + gamma(weight, key, counter) + 1e-300)
    mean = min(1.0, max(0.0, rewards.total[row] / max(1.0, n)))
    if n > 0.0 and not belief.noisy:
        return mean
    most, share, mass = mean * (1.0 - mean), belief.share, belief.reward_mass
    if most > 1e-9:
        own = reward_spread(rewards, row)
        share = (2.0 * share + n * min(1.0, own / most)) / (2.0 + n)
    prior = 0.5
    if belief.by_state:
        prior = others_reward(rewards, row, spec.A, typical) if belief.hopeful else typical
    one = gamma(mass * prior + share * n * mean, key, counter)
    zero = gamma(mass * (1.0 - prior) + share * n * (1.0 - mean), key, counter)
    sure = gamma((1.0 - share) * n, key, counter) if share < 1.0 and n > 0.0 else 0.0
    return (one + mean * sure) / (one + zero + sure + 1e-300)


@part
def draw_state_reward(spec, belief, group, typical, key, counter):
    """Draw the mean around which the rewards of a state's actions lie, with one typical reward.

    It is the same for all actions of the state, apart from the `lift` of unusual ones. The n
    rewards of an action are worth n mass / (n + mass) rewards of the mean itself, since the action
    lies around it with this mass. But if chosen actions are better or worse than the others, it is
    by comparison with what they pay themselves, so that each reward counts in full.
    """
    rewards, one, total = belief.rewards, typical, 1.0
    for row in range(group * spec.A, (group + 1) * spec.A):
        n = belief.share * rewards.n[row]
        if n > 0.0:
            worth = n * belief.reward_mass / (n + belief.reward_mass)
            if belief.lift != 0.0 and len(belief.chosen) > 0 and belief.chosen[row]:
                worth = n
            mean = min(1.0, max(0.0, rewards.total[row] / rewards.n[row]))
            if belief.lift != 0.0 and not was_usual(belief, row, spec.A):
                mean = lifted(mean, -belief.lift)
            one += worth * mean
            total += worth
    ones = gamma(max(1e-3, one), key, counter)
    mean = ones / (ones + gamma(max(1e-3, total - one), key, counter) + 1e-300)
    return min(0.999, max(0.001, mean))


@inline
def model_key(stream, number):
    """The noise of a model, by its number among the models on which policies are compared."""
    return noise(noise(stream, _COMPARING), np.uint64(number))


@inline
def draw_cell_law(spec, belief, h, i, key, drawn, counter, seen):
    """Draw the law of cell i = x A + a at step h.

    Each cell has its own stream, so the result does not depend on the order of the draws.
    """
    row, counter[0] = h * belief.laws.stride + i, 0
    draw_law(spec, belief, row, drawn, noise(key, np.uint64(row)), counter, seen)


@inline
def doubted(spec, belief, row, key, reward):
    """A reward that nobody saw, off by as much as the other unseen rewards of its action, and, if
    there are doubts for that, by as much as those of all actions.
    """
    step, stream = row // (spec.S * spec.A), noise(key, _DOUBT_STREAM)
    places = step * spec.A + row % spec.A, len(belief.rewards.n) // spec.S + step
    for which in places:
        if which < len(belief.doubts):
            share = uniform(noise(stream, np.uint64(which)))
            reward += (2.0 * share - 1.0) * belief.doubts[which]
    return min(1.0, max(0.0, reward))


@inline
def draw_cell_reward(spec, belief, h, i, key, drawn, counter, typical):
    """Draw the mean reward of cell i at step h, in the same way."""
    row, counter[0] = h * belief.rewards.stride + i, 0
    if not belief.hopeful:
        group = row // spec.A
        stream = noise(noise(key, _STATE_STREAM), np.uint64(group))
        typical = draw_state_reward(spec, belief, group, typical, stream, counter)
        if belief.lift != 0.0 and not was_usual(belief, row, spec.A):
            typical = lifted(typical, belief.lift)
        counter[0] = 0
    stream = noise(noise(key, _REWARD_STREAM), np.uint64(row))
    drawn.rewards[i] = draw_reward(spec, belief, row, typical, stream, counter)
    if len(belief.doubts) > 0 and belief.rewards.n[row] == 0.0:
        drawn.rewards[i] = doubted(spec, belief, row, key, drawn.rewards[i])


@inline
def draws_laws(spec, belief, h):
    """Whether the laws of step h are drawn; steps that are alike are drawn once."""
    return h + 2 == spec.H or (h + 2 < spec.H and belief.laws.stride > 0)


@inline
def draws_rewards(spec, belief, h):
    """Whether the rewards of step h are drawn; steps that are alike are drawn once."""
    return h + 1 == spec.H or belief.rewards.stride > 0


@inline
def draws_cells(spec, belief, h):
    """Whether anything of step h is drawn."""
    return draws_laws(spec, belief, h) or draws_rewards(spec, belief, h)


@part
def draw_cell(spec, belief, h, i, key, drawn, counter, seen, typical):
    """Draw cell i at step h of a model, unless another step did; see `typical_reward`."""
    if draws_laws(spec, belief, h):
        draw_cell_law(spec, belief, h, i, key, drawn, counter, seen)
    if draws_rewards(spec, belief, h):
        draw_cell_reward(spec, belief, h, i, key, drawn, counter, typical)


@part
def draw_step(spec, belief, h, key, drawn, counter, seen):
    """Draw the rows of step h of a model; steps that are alike are drawn once, at the last step."""
    typical = typical_reward(belief.rewards)
    for i in range(spec.S * spec.A if draws_cells(spec, belief, h) else 0):
        draw_cell(spec, belief, h, i, key, drawn, counter, seen, typical)


@inline
def drawn_estimate(drawn, last, i, values, mean):
    """The value of cell i of a drawn model, for next values `values` with mean `mean`."""
    q, rows = drawn.rewards[i], len(drawn.sizes)
    if not last:
        row = i if i < rows else i % rows
        q += drawn.rest[row] * mean
        for j in range(drawn.starts[row], drawn.starts[row] + drawn.sizes[row]):
            q += drawn.weights[j] * values[drawn.states[j]]
    return q


# ---- plans ---------------------------------------------------------------------------------------


@allocating
def plan_on_draw(spec, tables, belief, m):
    """Make member m want the best policy of a model drawn from the posterior: Osband, Russo, Van
    Roy 2013, Algorithm 1.

    Members share no data, so several threads can plan at once.
    """
    number = np.uint64(tables.clock[0]["refreshes"] * spec.members + m)
    key = noise(tables.keys[0]["samples"], number)
    drawn, values = briefly_drawn(spec, belief.laws), np.zeros(spec.S)
    counter, seen, q = np.zeros(1, dtype=np.uint64), np.zeros(spec.S), np.zeros(spec.A)
    typical = typical_reward(belief.rewards)
    for h in range(spec.H - 1, -1, -1):
        mean, new = mean_of(values), np.zeros(spec.S)
        draws = draws_cells(spec, belief, h)
        for x in range(spec.S):
            here, first = (m * spec.H + h) * spec.S + x, (h * spec.S + x) * spec.A
            for a in range(spec.A):
                i, q[a] = x * spec.A + a, -np.inf
                if draws:
                    draw_cell(spec, belief, h, i, key, drawn, counter, seen, typical)
                if spec.allowed[first + a]:
                    q[a] = drawn_estimate(drawn, h + 1 == spec.H, i, values, mean)
                if m == 0:
                    tables.q[first + a] = q[a]
            action = best_action(q, 0, spec.A, tables.policy[here])
            tables.wanted[here], new[x] = action, min(q[action], spec.caps[h])
            if m == 0:
                tables.values[h * spec.S + x] = new[x]
        values = new


@allocating
def curious(spec, belief):
    """The belief that exploration draws from: it does not treat untried actions as known.

    It does not assume that the actions of a state are alike. A learned mass is at least the mass
    with which every successor seen once is still doubted.
    """
    mass = max(belief.mass, _CURIOUS_MASS) if spec.mass == 0.0 else belief.mass
    weight = 2.0 * spec.reward_weight
    return Belief(
        belief.laws,
        belief.rewards,
        mass,
        0.0,
        belief.noisy,
        belief.share,
        weight,
        False,
        True,
        belief.sizes,
        belief.each,
        belief.doubts,
        belief.lift,
        belief.chosen,
        belief.pull,
        belief.led,
    )
