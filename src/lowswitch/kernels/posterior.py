"""Posterior sampling: plans on models drawn from the posterior, or on its mean."""

import math

import numpy as np

from lowswitch.kernels.compile import allocating_part, inline, part
from lowswitch.kernels.noise import gamma_trial, next_uniform, noise, normal
from lowswitch.kernels.planning import best_value


@inline
def exponential(key, counter):
    """-log(u): a draw from the gamma law of shape 1."""
    return -math.log(next_uniform(key, counter))


@part
def gamma_of_one_or_more(shape, key, counter):
    """A draw from the gamma law, for a shape of at least 1."""
    while True:
        first = next_uniform(key, counter)
        x = normal(first, next_uniform(key, counter))
        sample = gamma_trial(shape, x, next_uniform(key, counter))
        if sample >= 0.0:
            return sample


@inline
def gamma(shape, key, counter):
    """A draw from the gamma law of any shape; below 1 it is a draw for shape + 1 times u^(1 /
    shape): Marsaglia, Tsang 2000, section 6.
    """
    if shape == 1.0:
        return exponential(key, counter)
    if shape > 1.0:
        return gamma_of_one_or_more(shape, key, counter)
    power = math.exp(-exponential(key, counter) / shape)
    return power * gamma_of_one_or_more(shape + 1.0, key, counter)


@inline
def random_share(record):
    """The share of the rewards that vary as rewards of 0 and 1 with this mean do.

    The others count as constant.
    """
    mean = record["total"] / record["n"]
    spread = record["squares"] / record["n"] - mean * mean
    most = mean * (1.0 - mean)
    if spread < 1e-12 or most <= 0.0:  # equal rewards may leave a rounding error
        return 0.0
    return min(1.0, spread / most)


@inline
def known_mean(record):
    """The mean reward of a record that has visits."""
    return record["total"] / record["n"]


@part
def sampled_reward(record, key, counter):
    """A mean reward from the Bayesian bootstrap: Rubin 1981.

    Its prior is one reward of 0 and one of 1; its data are rewards with the record's mean and
    variance. For rewards 0 and 1 this is the posterior Beta(1 + ones, 1 + zeros); for equal rewards
    the spread falls like 1 / n.
    """
    n = float(record["n"])
    mean, share = (record["total"] / n, random_share(record)) if n > 0 else (0.0, 0.0)
    one = gamma(1.0 + share * n * mean, key, counter)
    zero = gamma(1.0 + share * n * (1.0 - mean), key, counter)
    sure = gamma((1.0 - share) * n, key, counter) if share < 1.0 and n > 0 else 0.0
    return (one + mean * sure) / (one + zero + sure)


@part
def draw_weights(spec, tables, record, key, counter, weights):
    """Write an unnormalised law from the posterior Dirichlet(prior + counts) into `weights`.

    Return the sum. If all weights underflow because the prior is tiny, its limit puts all mass on
    one state.
    """
    counts, total = tables.scratch, 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        counts[tables.pool[j]["state"]] = tables.pool[j]["count"]
    for y in range(spec.S):
        weights[y] = gamma(spec.prior + counts[y], key, counter)
        total += weights[y]
        counts[y] = 0.0
    if total == 0.0:
        weights[np.int64(next_uniform(key, counter) * spec.S)] = total = 1.0
    return total


@part
def sampled_mean(spec, tables, record, following, key, counter):
    """The mean of the next value under a law from the posterior Dirichlet(prior + counts)."""
    counts, total, mean = tables.scratch, 0.0, 0.0
    for j in range(record["start"], record["start"] + record["size"]):
        counts[tables.pool[j]["state"]] = tables.pool[j]["count"]
    for y in range(spec.S):
        weight = gamma(spec.prior + counts[y], key, counter)
        total += weight
        mean += weight * tables.values[following + y]
        counts[y] = 0.0
    if total == 0.0:  # all underflow if the prior is tiny: its limit is one state
        return tables.values[following + np.int64(next_uniform(key, counter) * spec.S)]
    return mean / total


@inline
def sampled_estimate(spec, tables, h, i, key, following):
    """The value of a cell in a model drawn from the posterior."""
    record = tables.records[i]
    tables.counter[0] = 0
    known = spec.rewards_known and record["n"] > 0
    q = known_mean(record) if known else sampled_reward(record, key, tables.counter)
    if h + 1 < spec.H:
        q += sampled_mean(spec, tables, record, following, key, tables.counter)
    return q


@inline
def expected_estimate(spec, tables, h, i, following):
    """The value of a cell in the posterior mean.

    Rewards are (1 + total) / (2 + n), or total / n if the observed mean counts as the true one;
    laws are (prior + count) / (prior S + n).
    """
    record = tables.records[i]
    known = spec.rewards_known and record["n"] > 0
    q = known_mean(record) if known else (1.0 + record["total"]) / (2.0 + record["n"])
    if h + 1 < spec.H:
        mean = 0.0
        for y in range(spec.S):
            mean += spec.prior * tables.values[following + y]
        for j in range(record["start"], record["start"] + record["size"]):
            mean += tables.pool[j]["count"] * tables.values[following + tables.pool[j]["state"]]
        q += mean / (spec.prior * spec.S + record["followed"])
    return q


@allocating_part
def sample_pooled_plan(spec, tables, m, key):
    """Backward induction on a model drawn from the posterior, whose steps are alike.

    Each row is drawn once, and equals what `sampled_estimate` draws at every step.
    """
    rows = spec.S * spec.A
    weights, totals, rewards = np.zeros((rows, spec.S)), np.zeros(rows), np.zeros(rows)
    for i in range(rows):
        record, stream = tables.records[i], noise(key, np.uint64(i))
        tables.counter[0] = 0
        known = spec.rewards_known and record["n"] > 0
        rewards[i] = known_mean(record) if known else sampled_reward(record, stream, tables.counter)
        totals[i] = draw_weights(spec, tables, record, stream, tables.counter, weights[i])
    for h in range(spec.H - 1, -1, -1):
        row, following = (m * (spec.H + 1) + h) * spec.S, (m * (spec.H + 1) + h + 1) * spec.S
        for x in range(spec.S):
            for a in range(spec.A):
                i, place = x * spec.A + a, (h * spec.S + x) * spec.A + a
                if spec.allowed[place]:
                    q = rewards[i]
                    if h + 1 < spec.H:
                        mean = 0.0
                        for y in range(spec.S):
                            mean += weights[i, y] * tables.values[following + y]
                        q += mean / totals[i]
                    tables.q[m * spec.H * spec.S * spec.A + place] = q
            tables.values[row + x] = best_value(spec, tables, m, h, x)


@part
def sample_plan(spec, tables, m, greedy):
    """Backward induction on a model drawn from the posterior, or on its mean: Osband, Russo, Van
    Roy 2013, Algorithm 1.

    Sample m of refresh number i of a run draws its row j, counted (h, x, a), from the stream
    noise(noise(stream of samples, i L + m), j). With pooled counts a row is counted (x, a), so that
    each step draws the same.
    """
    number = np.uint64(tables.clock[0]["refreshes"] * spec.members + m)
    key = noise(tables.keys[0]["samples"], number)
    if spec.stride == 0 and not greedy:
        sample_pooled_plan(spec, tables, m, key)
        return
    for h in range(spec.H - 1, -1, -1):
        row, following = (m * (spec.H + 1) + h) * spec.S, (m * (spec.H + 1) + h + 1) * spec.S
        for x in range(spec.S):
            for a in range(spec.A):
                i, place = h * spec.stride + x * spec.A + a, (h * spec.S + x) * spec.A + a
                if spec.allowed[place]:
                    if greedy:
                        q = expected_estimate(spec, tables, h, i, following)
                    else:
                        stream = noise(key, np.uint64(i))
                        q = sampled_estimate(spec, tables, h, i, stream, following)
                    tables.q[m * spec.H * spec.S * spec.A + place] = q
            tables.values[row + x] = best_value(spec, tables, m, h, x)
