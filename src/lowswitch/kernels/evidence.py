"""What the data say of a prior: how far laws spread, whether rewards vary, how alike the actions of
a state are, and whether the steps of an episode are alike, each by its evidence.

A plan is made a few times in a run, so that these functions allocate what they need.
"""

import math

import numpy as np

from lowswitch.kernels.arrays import Belief, Laws, Rewards
from lowswitch.kernels.compile import allocating, allocating_part, inline, part
from lowswitch.kernels.sums import sum_of

AS_COUNTED, TESTED = 0, 1  # whether the steps of an episode are alike: as is said, or as is seen
BOOTSTRAP, MEAN, SEEN = 0, 1, 2  # rewards vary; they do not; as is seen

ODDS = 3.0  # nats of evidence from which on something is held for recognised: about 20 to 1
# rows apart by step, or steps together; no literals, which numba would compile twice for
APART, TOGETHER = np.bool_(False), np.bool_(True)
_LEAST_MASS, _STEP = 0.1, math.sqrt(10.0)  # the masses that are tried: 0.1, 0.3, 1, 3, ...

# ---- what was seen -------------------------------------------------------------------------------


@inline
def add_count(y, count, states, counts, place, used):
    """Count a successor at its place in a list, or as a new one; return how long the list is."""
    if place[y] < 0:
        place[y] = used
        states[used] = y
        used += 1
    counts[place[y]] += count
    return used


@allocating_part
def gather_laws(spec, tables, together):
    """The successors counted, of each row on record, or of all steps of an (x, a) together."""
    rows = spec.S * spec.A if together else len(tables.records)
    offsets, n = np.zeros(rows + 1, dtype=np.int64), np.zeros(rows)
    states = np.zeros(tables.clock[0]["pool"], dtype=np.int64)
    counts, place, used = np.zeros(len(states)), np.zeros(spec.S, dtype=np.int64), 0
    place[:] = -1  # where a successor stands in the list of its row
    for row in range(rows):
        for i in range(row, len(tables.records), rows):
            record = tables.records[i]
            for j in range(record["start"], record["start"] + record["size"]):
                y, count = tables.pool[j]["state"], tables.pool[j]["count"]
                used = add_count(y, count, states, counts, place, used)
            n[row] += record["followed"]
        offsets[row + 1] = used
        place[states[offsets[row] : used]] = -1
    stride = 0 if together or spec.stride == 0 else spec.S * spec.A
    return listed_laws(spec, stride, offsets, states[:used].copy(), counts[:used].copy(), n)


@allocating_part
def listed_laws(spec, stride, offsets, states, counts, n):
    """Laws whose rows have these successors, and the laws of all actions of a state together."""
    groups, place = len(n) // spec.A, np.full(spec.S, -1, dtype=np.int64)
    all_offsets, all_n = np.zeros(groups + 1, dtype=np.int64), np.zeros(groups)
    all_states, all_counts, found = np.zeros(len(states), dtype=np.int64), np.zeros(len(states)), 0
    for group in range(groups):
        for j in range(offsets[group * spec.A], offsets[(group + 1) * spec.A]):
            found = add_count(states[j], counts[j], all_states, all_counts, place, found)
        all_offsets[group + 1] = found
        all_n[group] = sum_of(n[group * spec.A : (group + 1) * spec.A])
        place[all_states[all_offsets[group] : found]] = -1
    return Laws(
        stride,
        offsets,
        states,
        counts,
        n,
        all_offsets,
        all_states[:found].copy(),
        all_counts[:found].copy(),
        all_n,
    )


@allocating_part
def gather_rewards(spec, tables, together):
    """The rewards seen, of each row on record, or of all steps of an (x, a) together."""
    rows = spec.S * spec.A if together else len(tables.records)
    n, total, squares = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for i in range(len(tables.records)):
        record = tables.records[i]
        n[i % rows] += record["n"]
        total[i % rows] += record["total"]
        squares[i % rows] += record["squares"]
    stride = 0 if together or spec.stride == 0 else spec.S * spec.A
    return listed_rewards(spec, stride, n, total, squares)


@allocating_part
def listed_rewards(spec, stride, n, total, squares):
    """Rewards of these rows, and the rewards of all actions of a state together."""
    all_n, all_total = np.zeros(len(n) // spec.A), np.zeros(len(n) // spec.A)
    for row in range(len(n)):
        all_n[row // spec.A] += n[row]
        all_total[row // spec.A] += total[row]
    return Rewards(stride, n, total, squares, all_n, all_total)


# ---- evidence ------------------------------------------------------------------------------------


@inline
def log_rising(start, n):
    """The logarithm of start (start + 1) ... (start + n - 1)."""
    return math.lgamma(start + n) - math.lgamma(start)


@part
def law_evidence(S, laws, mass):
    """The log probability of the successors seen, if all laws are Dirichlet(mass / S, ...).

    Of a row with n successors, n_y of them y: prod_y rising(mass / S, n_y) / rising(mass, n), the
    law of Polya's urn; rows with fewer than two say nothing of the mass.
    """
    evidence, each = 0.0, mass / S
    for row in range(len(laws.n)):
        if laws.n[row] > 0.0:
            evidence -= log_rising(mass, laws.n[row])
            for j in range(laws.offsets[row], laws.offsets[row + 1]):
                evidence += log_rising(each, laws.counts[j])
    return evidence


@inline
def size_at(S, i):
    """The i-th size of a support that is tried: 1, 2, 3, 4, 6, 8, 12, ..., at most S."""
    power = 1 << ((i + 1) // 2)
    return min(S, power if i % 2 == 1 or i == 0 else 3 * power // 2)


@inline
def size_evidence(S, size, each, listed, n):
    """The log probability of n successors, if a law has any `size` of S states. It leaves out the
    factor rising(each, n_y) of each of the `listed` states y that were seen.

    The law is Dirichlet(each, ...) on them: Friedman, Singer 1999, "Efficient Bayesian parameter
    estimation in large discrete domains". Of all supports of this size a share has the states that
    were seen: size! / (size - listed)! times (S - listed)! / S!.
    """
    if listed > size:
        return -np.inf
    share = math.lgamma(size + 1.0) - math.lgamma(size - listed + 1.0)
    share += math.lgamma(S - listed + 1.0) - math.lgamma(S + 1.0)
    return share - log_rising(each * size, n)


@inline
def row_prior(spec, laws, row, mass, alike):
    """The prior of a row: what each successor has, and what it has for each time that another
    action of the state led there.

    Alone a row has mass / S for each. Among alike actions its prior has the mass `alike`, and the
    mean that the others of its state have: (their counts + mass / S) / (their sum + mass). So an
    action that was tried rarely is expected to be like the others, and not like all states.
    """
    others = laws.all_n[row // spec.A] - laws.n[row]
    if alike == 0.0 or others == 0.0:
        return mass / spec.S, 0.0
    share = alike / (others + mass)
    return share * mass / spec.S, share


@inline
def pulled_mass(spec, laws, row, each, share, pull):
    """The sum of a row's prior, as `row_prior` has it, if successors count by their pull [S]."""
    total, group = each * pull.sum(), row // spec.A
    for j in range(laws.all_offsets[group], laws.all_offsets[group + 1]):
        total += share * laws.all_counts[j] * pull[laws.all_states[j]]
    for j in range(laws.offsets[row], laws.offsets[row + 1]):
        total -= share * laws.counts[j] * pull[laws.states[j]]
    return total


@allocating_part
def alike_evidence(spec, laws, mass, alike):
    """The evidence if the actions of a state are alike: each row is predicted from the others.

    It is a pseudo-likelihood (Besag 1975), since the others are predicted from this row too.
    """
    evidence, counted = 0.0, np.zeros(spec.S)
    for group in range(len(laws.all_n)):
        begin, end = laws.all_offsets[group], laws.all_offsets[group + 1]
        for j in range(begin, end):
            counted[laws.all_states[j]] = laws.all_counts[j]
        for row in range(group * spec.A, (group + 1) * spec.A):
            each, share = row_prior(spec, laws, row, mass, alike)
            if laws.n[row] > 0.0:
                others = laws.all_n[group] - laws.n[row]
                evidence -= log_rising(each * spec.S + share * others, laws.n[row])
            for j in range(laws.offsets[row], laws.offsets[row + 1]):
                prior = each + share * (counted[laws.states[j]] - laws.counts[j])
                evidence += log_rising(prior, laws.counts[j])
    return evidence


@part
def learned_alike(spec, laws, mass):
    """How alike the actions of a state are, by the most evidence; 0 unless it is clear."""
    best, most = 0.0, alike_evidence(spec, laws, mass, 0.0) + ODDS
    for alike in (1.0, 3.0, 10.0, 30.0, 100.0):
        evidence = alike_evidence(spec, laws, mass, alike)
        if evidence > most:
            best, most = alike, evidence
    return best


@part
def learned_mass(spec, laws):
    """The mass with the most evidence, and that evidence; with no data it is 1.

    A mass costs half the square of its number of powers of ten.
    """
    best, most, mass = 1.0, -np.inf, _LEAST_MASS
    while mass <= max(1.01, 3.2 * spec.S):
        evidence = law_evidence(spec.S, laws, mass) - 0.5 * math.log10(mass) ** 2
        if evidence > most:
            best, most = mass, evidence
        mass *= _STEP
    return best, most


@inline
def reward_spread(rewards, row):
    """The variance of the rewards of a row."""
    mean = rewards.total[row] / rewards.n[row]
    return max(0.0, rewards.squares[row] / rewards.n[row] - mean * mean)


@part
def recognise_rewards(rewards, weight):
    """Whether rewards vary, and how much: the ratio of their variance to that of rewards 0 and 1.

    They do if they vary in any row. If they vary in none, rewards that are neither 0 nor 1 and come
    twice are taken for proof that they never do; rewards 0 and 1 may still vary, and
    are held for constant once the odds say so, against Beta(weight, weight) in every row.
    """
    spread, most, constant = 0.0, 0.0, 0.0
    for row in range(len(rewards.n)):
        n = rewards.n[row]
        if n >= 2.0:
            mean, own = rewards.total[row] / n, reward_spread(rewards, row)
            if own > 1e-9:
                spread += n * n / (n - 1.0) * own
                most += n * mean * (1.0 - mean) + own * n / (n - 1.0)
            elif 1e-9 < mean < 1.0 - 1e-9:
                most += n * mean * (1.0 - mean)
                constant += ODDS
            else:
                constant += log_rising(2.0 * weight + 1.0, n - 1.0)
                constant -= log_rising(weight + 1.0, n - 1.0)
    if spread > 0.0:
        return True, min(1.0, spread / most)
    return constant < ODDS, 1.0


@inline
def beta_evidence(mass, mean, ones, zeros):
    """The log probability of rewards 0 and 1 in this order, by a Beta law of this mass and mean."""
    evidence = log_rising(mass * mean, ones) + log_rising(mass * (1.0 - mean), zeros)
    return evidence - log_rising(mass, ones + zeros)


@inline
def others_reward(rewards, row, A, typical):
    """The mean reward of the other actions of a row's state, with one reward that is typical."""
    group = row // A
    others = rewards.all_n[group] - rewards.n[row]
    mean = (rewards.all_total[group] - rewards.total[row] + typical) / (others + 1.0)
    return min(0.999, max(0.001, mean))


@part
def is_usual(rewards, row, A):
    """Whether an action is the usual one of its state: tried most often, the first among equals."""
    first = row - row % A
    for other in range(first, first + A):
        n = rewards.n[other]
        if n > rewards.n[row] or (n == rewards.n[row] and other < row):
            return False
    return rewards.n[row] > 0.0


@part
def was_usual(belief, row, A):
    """Whether an action is a usual one of its state: one that somebody chose, if that is known."""
    if len(belief.chosen) > 0:
        return belief.chosen[row]
    return is_usual(belief.rewards, row, A)


@inline
def lifted(mean, lift):
    """A mean reward with its odds multiplied by exp(lift)."""
    odds = math.exp(lift)
    return mean * odds / (1.0 - mean + mean * odds)


@inline
def typical_reward(rewards):
    """The mean of all rewards; 1/2 if there are none."""
    n = sum_of(rewards.n)
    return sum_of(rewards.total) / n if n > 0.0 else 0.5


@part
def noisy_reward_evidence(rewards, A, mass, share, symmetric):
    """The log probability of rewards that vary, each counted as `share` rewards of 0 or 1.

    Their prior is Beta with this mass. Its mean is 1/2 if it is symmetric, and otherwise the mean
    of the state's other actions.
    """
    evidence, typical = 0.0, typical_reward(rewards)
    for row in range(len(rewards.n)):
        n = rewards.n[row]
        if n > 0.0:
            seen = min(1.0, max(0.0, rewards.total[row] / n))
            mean = 0.5 if symmetric else others_reward(rewards, row, A, typical)
            evidence += beta_evidence(mass, mean, share * n * seen, share * n * (1.0 - seen))
    return evidence


@inline
def add_step(apart, first, last, n, total):
    """Add the rewards of rows [first, last) to sums over the steps."""
    for i in range(first, last):
        n[i % len(n)] += apart.n[i]
        total[i % len(n)] += apart.total[i]


@allocating_part
def split_reward_evidence(spec, apart, weight, share):
    """The most evidence of rewards that vary, if one step differs from all others, or all steps
    from some step on differ from those before it.

    Within the two groups of steps the rewards of an (x, a) are alike. There are 2 H such groups,
    all of them as likely beforehand.
    """
    rows, best = spec.S * spec.A, -np.inf
    all_n, all_total = np.zeros(rows), np.zeros(rows)
    before_n, before_total = np.zeros(rows), np.zeros(rows)
    add_step(apart, 0, len(apart.n), all_n, all_total)
    for h in range(spec.H):
        for alone in range(2):
            n, total = np.zeros(rows), np.zeros(rows)
            rest_n, rest_total = np.zeros(rows), np.zeros(rows)
            for i in range(rows):
                n[i] = apart.n[h * rows + i] if alone == 1 else before_n[i]
                total[i] = apart.total[h * rows + i] if alone == 1 else before_total[i]
                rest_n[i], rest_total[i] = all_n[i] - n[i], all_total[i] - total[i]
            one = listed_rewards(spec, 0, n, total, total)
            rest = listed_rewards(spec, 0, rest_n, rest_total, total)
            evidence = noisy_reward_evidence(one, spec.A, weight, share, True)
            evidence += noisy_reward_evidence(rest, spec.A, weight, share, True)
            best = max(best, evidence)
        add_step(apart, h * rows, (h + 1) * rows, before_n, before_total)
    return best - math.log(2.0 * spec.H)


@part
def learned_reward_mass(rewards, A, share):
    """The mass of the prior of a mean reward, on the mean of its state, with the most evidence."""
    best, most = 0.3, -np.inf
    for mass in (0.3, 1.0, 3.0, 10.0, 30.0, 100.0):
        evidence = noisy_reward_evidence(rewards, A, mass, share, False)
        if evidence > most:
            best, most = mass, evidence
    return best


@part
def constant_reward_evidence(spec, apart):
    """How much the rewards of different steps agree, in nats, if none of them varies; -inf if not.

    Two rewards of other rows are equal with some probability, which is counted; each agreement of
    two steps is worth minus its logarithm.
    """
    rows, agreements, pairs, equal, before = spec.S * spec.A, 0, 0, 0, -1.0
    for row in range(rows):
        first = -1.0
        for i in range(row, len(apart.n), rows):
            if apart.n[i] > 0.0:
                mean = apart.total[i] / apart.n[i]
                if first < 0.0:
                    first = mean
                elif abs(mean - first) > 1e-9:
                    return -np.inf
                else:
                    agreements += 1
        if first >= 0.0:
            if before >= 0.0:
                pairs += 1
                equal += abs(first - before) <= 1e-9
            before = first
    return agreements * math.log((pairs + 2.0) / (equal + 1.0))


@allocating
def believe(spec, tables):
    """What the data say of the prior, and the rows that models are drawn from.

    The steps of an episode are taken to be alike, in laws or in rewards, if the evidence of all
    steps together exceeds that of each step apart by `ODDS`.
    """
    laws, rewards = gather_laws(spec, tables, APART), gather_rewards(spec, tables, APART)
    mass, evidence = learned_mass(spec, laws)
    noisy, share = recognise_rewards(rewards, spec.reward_weight)
    if spec.reward_mode != SEEN:
        noisy = spec.reward_mode == BOOTSTRAP
    if spec.pooling == TESTED and spec.stride > 0:
        together = gather_laws(spec, tables, TOGETHER)
        mass_of_all, evidence_of_all = learned_mass(spec, together)
        if evidence_of_all - evidence > ODDS:
            laws, mass = together, mass_of_all
        paid = gather_rewards(spec, tables, TOGETHER)
        if noisy:
            weight = 2.0 * spec.reward_weight
            alike_steps = noisy_reward_evidence(paid, spec.A, weight, share, True)
            gain = alike_steps - noisy_reward_evidence(rewards, spec.A, weight, share, True)
            if spec.rule > 1 and gain > ODDS:
                split = split_reward_evidence(spec, rewards, weight, share)
                gain = -np.inf if split - alike_steps > ODDS else gain
        else:
            gain = constant_reward_evidence(spec, rewards)
        if gain > ODDS:
            rewards = paid
    alike, reward_mass = 0.0, 2.0 * spec.reward_weight
    if spec.mass > 0.0:
        mass = spec.mass
    else:
        alike = learned_alike(spec, laws, mass)
        if noisy:
            reward_mass = learned_reward_mass(rewards, spec.A, share)
    by_state = spec.mass == 0.0
    return Belief(
        laws,
        rewards,
        mass,
        alike,
        noisy,
        share,
        reward_mass,
        by_state,
        True,
        np.zeros((0, 0)),
        0.0,
        np.zeros(0),
        0.0,
        np.zeros(0, dtype=np.bool_),
        np.zeros((0, 0)),
        np.zeros(0, dtype=np.bool_),
    )
