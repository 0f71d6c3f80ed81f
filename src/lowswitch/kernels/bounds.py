"""Bounds of values that hold at all times at once: confidence sets of cells, and sweeps on them.

A set is given by a budget: the largest relative entropy, per visit, of the frequencies seen to the
true law. `top_mean` is the largest mean that a budget allows.
"""

import math

import numpy as np

from lowswitch.kernels.compile import entry, inline, part

_HALVINGS = 48  # of an interval: far below the widths that data can give
_LEAST = 1e-9  # the smallest distance from the best next value, as a share of all there are

# ---- budgets -------------------------------------------------------------------------------------


@inline
def function_cost(n):
    """ln(sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2)): what it costs to bound one mean at all times.

    It is the regret of the universal portfolio of two stocks: Cover, Ordentlich 1996; Orabona, Jun
    2024.
    """
    return 0.5 * math.log(math.pi) + math.lgamma(n + 1.0) - math.lgamma(n + 0.5)


@inline
def support_cost(S, k):
    """ln S + ln binom(S, k): what it costs not to know which k of S states follow."""
    chosen = math.lgamma(S + 1.0) - math.lgamma(k + 1.0) - math.lgamma(S - k + 1.0)
    return math.log(S) + chosen


@part
def law_cost(S, pool, first, size, n):
    """What it costs to bound the means of all functions of a successor at once.

    ln S + ln binom(S, k) for the k states seen, and the logarithm of the ratio of their largest
    likelihood to the likelihood of the mixture with Dirichlet(1/2, ..., 1/2): Krichevsky,
    Trofimov 1981.
    """
    cost = support_cost(S, size) + math.lgamma(n + 0.5 * size) - math.lgamma(0.5 * size)
    for j in range(first, first + size):
        count = float(pool[j]["count"])
        cost += count * math.log(count / n) + 0.5 * math.log(math.pi) - math.lgamma(count + 0.5)
    return cost


# ---- the largest mean that a budget allows -------------------------------------------------------


@inline
def bernoulli_divergence(mean, other):
    """kl(m, u) = m ln(m / u) + (1 - m) ln((1 - m) / (1 - u)), for m < u < 1."""
    found = (1.0 - mean) * math.log((1.0 - mean) / (1.0 - other))
    return found + mean * math.log(mean / other) if mean > 0.0 else found


@inline
def variance_divergence(gap, variance):
    """g - a ln(1 + g / a) with a = v + g^2: less than the relative entropy of any rewards with the
    variance v to a law whose mean is farther off by g.

    From ln(1 + l z) >= l z + z^2 (l + ln(1 - l)) for z >= -1: Fan, Grama, Liu 2015.
    """
    spread = variance + gap * gap
    return gap - spread * math.log1p(gap / spread)


@part
def top_reward(mean, variance, budget):
    """The largest mean that a budget allows rewards in [0, 1] with this mean and variance."""
    low, high = mean, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= mean or middle >= 1.0:
            break
        gap = middle - mean
        divergence = max(bernoulli_divergence(mean, middle), variance_divergence(gap, variance))
        if divergence > budget:
            high = middle
        else:
            low = middle
    return high


@inline
def entropy_means(pool, first, size, n, values, following, sign, limit):
    """The means of ln(limit - V) and 1 / (limit - V), where V(y) is sign values[following + y]."""
    logarithm, inverse = 0.0, 0.0
    for j in range(first, first + size):
        distance = limit - sign * values[following + pool[j]["state"]]
        logarithm += pool[j]["count"] * math.log(distance)
        inverse += pool[j]["count"] / distance
    return logarithm / n, inverse / n


@part
def top_mean(pool, first, size, n, values, following, sign, top, budget):
    """The largest mean of V(y) = sign values[following + y] that a budget allows, V at most `top`.

    min over v >= top of v - exp(mean ln(v - V) - budget): the dual of the largest mean in a ball of
    relative entropy: Honda, Takemura 2010; Filippi, Cappe, Garivier 2010. Every v gives a bound, so
    that the search need not be exact.
    """
    least = top
    for j in range(first, first + size):
        least = min(least, sign * values[following + pool[j]["state"]])
    low = _LEAST * (top - least)
    high = (top - least) / (2.0 * math.sqrt(math.expm1(min(budget, 700.0)))) if budget > 0 else 0.0
    if not (least < top and low < high):
        return top
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        mean, inverse = entropy_means(pool, first, size, n, values, following, sign, top + middle)
        if math.exp(mean - budget) * inverse > 1.0:
            low = middle
        else:
            high = middle
    mean, _ = entropy_means(pool, first, size, n, values, following, sign, top + high)
    return min(top, top + high - math.exp(mean - budget))


# ---- sweeps --------------------------------------------------------------------------------------


@entry
def bound_cells(spec, tables, log, rewards, budgets):
    """Fill in the ends of the mean reward of each cell, [cells, 2], and its budgets, [cells, 2].

    The first budget is for one function of the successor, the second for all of them. log: ln of
    the number of statements over the probability that one of them fails.
    """
    for i in range(len(tables.records)):
        record = tables.records[i]
        n = record["n"]
        rewards[i, 0], rewards[i, 1] = 0.0, 1.0
        budgets[i, :] = np.inf
        if n > 0:
            mean = min(1.0, max(0.0, record["total"] / n))
            variance = max(0.0, record["squares"] / n - mean * mean)
            budget = (log + function_cost(float(n))) / n
            rewards[i, 0] = 1.0 - top_reward(1.0 - mean, variance, budget)
            rewards[i, 1] = top_reward(mean, variance, budget)
        n = record["followed"]
        if n > 0:
            law = law_cost(spec.S, tables.pool, record["start"], record["size"], float(n))
            budgets[i, 1] = (log + law) / n
            budgets[i, 0] = min(budgets[i, 1], (log + function_cost(float(n))) / n)


@part
def bound_next(spec, tables, i, values, following, sign, top, budget):
    """The largest mean of sign V after cell i."""
    record = tables.records[i]
    if record["followed"] == 0:
        return top
    return top_mean(
        tables.pool,
        record["start"],
        record["size"],
        record["followed"],
        values,
        following,
        sign,
        top,
        budget,
    )


@inline
def extreme(values, following, S, sign):
    """The largest sign V."""
    top = -np.inf
    for y in range(S):
        top = max(top, sign * values[following + y])
    return top


@entry
def sweep_best(spec, tables, allowed, rewards, budgets, values):
    """Fill values [(H + 1) * S] with upper values of an optimal policy; budgets: [cells]."""
    for h in range(spec.H - 1, -1, -1):
        following = (h + 1) * spec.S
        top = extreme(values, following, spec.S, 1.0)
        for x in range(spec.S):
            best = 0.0
            for a in range(spec.A):
                if allowed[(h * spec.S + x) * spec.A + a]:
                    i = h * spec.stride + x * spec.A + a
                    value = rewards[i, 1]
                    if h + 1 < spec.H:
                        budget = budgets[i]
                        value += bound_next(spec, tables, i, values, following, 1.0, top, budget)
                    best = max(best, value)
            values[h * spec.S + x] = best


@entry
def sweep_policy(spec, tables, policy, rewards, budgets, sign, values):
    """Fill values [(H + 1) * S] with the upper values of a policy [H * S], with sign -1 its lower
    ones; budgets: [cells].
    """
    end = 1 if sign > 0 else 0
    for h in range(spec.H - 1, -1, -1):
        following = (h + 1) * spec.S
        top = extreme(values, following, spec.S, sign)
        for x in range(spec.S):
            i = h * spec.stride + x * spec.A + policy[h * spec.S + x]
            value = rewards[i, end]
            if h + 1 < spec.H:
                budget = budgets[i]
                value += sign * bound_next(spec, tables, i, values, following, sign, top, budget)
            values[h * spec.S + x] = value


@entry
def bound_start(pool, n, S, log, values):
    """The largest mean of values [S] over the states in which n episodes began, as counted in the
    pool.
    """
    top = extreme(values, 0, S, 1.0)
    if n == 0:
        return top
    budget = (log + law_cost(S, pool, 0, len(pool), float(n))) / n
    return top_mean(pool, 0, len(pool), n, values, 0, 1.0, top, budget)
