"""The formulas of the bounds by hand, their sweeps against a plain twin, and what they promise."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import lowswitch as ls
from conftest import PROBLEMS, learner_for
from lowswitch.kernels import bounds
from lowswitch.kernels.arrays import SUCCESSOR
from lowswitch.learners.bounds import statements
from lowswitch.reproduce.pseudocode import play_episode


def pool_of(counts):
    pool = np.zeros(len(counts), dtype=SUCCESSOR)
    pool["state"], pool["count"] = np.arange(len(counts)), counts
    return pool


def top_mean(counts, values, top, budget, sign=1.0):
    n, values = int(sum(counts)), np.array(values, dtype=float)
    return bounds.top_mean(pool_of(counts), 0, len(counts), n, values, 0, sign, top, budget)


# ---- formulas ------------------------------------------------------------------------------------


def test_costs_by_hand():
    # Gamma(3/2) = sqrt(pi) / 2 and Gamma(5/2) = 3 sqrt(pi) / 4
    assert bounds.function_cost(1.0) == pytest.approx(math.log(2))
    assert bounds.function_cost(2.0) == pytest.approx(math.log(8 / 3))
    assert bounds.support_cost(4, 2) == pytest.approx(math.log(4 * 6))
    # two successors once each: likelihood 1/4, and of the mixture 1/2 1/4 = 1/8
    assert bounds.law_cost(4, pool_of([1, 1]), 0, 2, 2.0) == pytest.approx(math.log(24 * 2))
    # one successor alone costs as much after any number of visits
    assert bounds.law_cost(4, pool_of([99]), 0, 1, 99.0) == pytest.approx(math.log(4 * 4))


def test_no_sequence_costs_more_than_the_same_outcome_each_time():
    """Part (1) of the proof: the ratio of the likelihoods is largest at the ends."""
    for n in (1, 2, 7, 40):
        wins = np.arange(n + 1)
        largest = np.array([(k / n) ** k * (1 - k / n) ** (n - k) for k in wins])
        mixed = [math.gamma(k + 0.5) * math.gamma(n - k + 0.5) / math.pi for k in wins]
        ratios = np.log(largest / np.array(mixed) * math.gamma(n + 1))
        assert ratios.max() == pytest.approx(bounds.function_cost(float(n)))


def test_divergences_by_hand():
    assert bounds.bernoulli_divergence(0.5, 0.75) == pytest.approx(0.5 * math.log(4 / 3))
    assert bounds.bernoulli_divergence(0.0, 0.5) == pytest.approx(math.log(2))
    # a = 1/4 + 1/4
    assert bounds.variance_divergence(0.5, 0.25) == pytest.approx(0.5 - 0.5 * math.log(2))


def test_the_variance_divergence_is_below_the_true_one():
    generator = np.random.default_rng(0)
    for _ in range(50):
        rewards, gap = generator.beta(0.5, 1.0, 20), generator.uniform(0.01, 0.3)
        mean = rewards.mean() + gap
        best = minimize_scalar(
            lambda stake, lost=mean - rewards: -np.log1p(stake * lost).mean(),
            bounds=(0, 1),
            method="bounded",
        )
        assert bounds.variance_divergence(gap, rewards.var()) <= -best.fun + 1e-9


def test_the_largest_reward_by_hand():
    assert bounds.top_reward(0.0, 0.0, math.log(2)) == pytest.approx(0.5)  # -ln(1 - u) = ln 2
    assert bounds.top_reward(0.5, 0.25, 0.5 * math.log(4 / 3)) == pytest.approx(0.75)
    assert bounds.top_reward(1.0, 0.0, 0.1) == 1.0
    # g - g^2 ln(1 + 1 / g) at g = 0.1: rewards that never vary are known much sooner
    assert bounds.top_reward(0.5, 0.0, 0.1 - 0.01 * math.log(11)) == pytest.approx(0.6)


def test_the_largest_mean_by_hand():
    assert top_mean([3], [0.0], 1.0, math.log(2)) == pytest.approx(0.5)  # half may go to the top
    assert top_mean([2, 2], [0.0, 1.0], 1.0, 0.5 * math.log(4 / 3)) == pytest.approx(0.75)
    assert top_mean([2, 2], [0.0, 1.0], 0.0, 0.5 * math.log(4 / 3), -1.0) == pytest.approx(-0.25)
    assert top_mean([5, 1], [2.0, 2.0], 2.0, 0.3) == 2.0  # nothing is better
    assert top_mean([1, 1], [0.0, 1.0], 3.0, 1e4) == 3.0  # nothing is known


def test_the_largest_mean_is_the_largest_in_its_ball():
    """Laws in the ball never exceed it, and the law p / (v - V) at the least bound attains it."""
    generator = np.random.default_rng(1)
    for _ in range(30):
        counts, values = generator.integers(1, 30, 5), generator.random(5)
        shares, budget = counts / counts.sum(), generator.uniform(0.01, 1.0)
        found = top_mean(counts, values, values.max(), budget)
        for law in generator.dirichlet(counts, 200):
            if (shares * np.log(shares / law)).sum() <= budget:
                assert law @ values <= found + 1e-9
        distances = np.geomspace(1e-7, 100, 20_000)[:, None] + values.max() - values
        laws = shares / distances
        laws /= laws.sum(axis=1, keepdims=True)
        within = (shares * np.log(shares / laws)).sum(axis=1) <= budget
        assert (laws[within] @ values).max() == pytest.approx(found, abs=2e-3)


def test_the_largest_mean_grows_with_values_and_their_top():
    generator = np.random.default_rng(2)
    for _ in range(50):
        counts, values = generator.integers(1, 9, 4), generator.random(4)
        larger = values + generator.random(4) * generator.integers(0, 2, 4)
        budget = generator.uniform(0.01, 2.0)
        found = top_mean(counts, values, 2.0, budget)
        assert top_mean(counts, larger, 2.0, budget) >= found - 1e-12
        assert top_mean(counts, values, 2.5, budget) >= found - 1e-12


# ---- sweeps --------------------------------------------------------------------------------------


def plain_top(counts, values, top, budget):
    """The largest mean of values [S], by a search over the dual."""
    if not counts.any() or top - values[counts > 0].min() <= 0:
        return top
    shares, seen = counts[counts > 0] / counts.sum(), values[counts > 0]

    def dual(logarithm):
        limit = top + math.exp(logarithm)
        return limit - math.exp(shares @ np.log(limit - seen) - budget)

    return min(top, minimize_scalar(dual, bounds=(-20, 20), method="bounded").fun)


def plain_bounds(learner, p):
    """Upper values of an optimal policy, and lower values of the deployed one, for each state."""
    counts = learner._knowledge._counts(learner.told)
    H, S, _ = counts.visits.shape
    log = math.log(statements(learner._knowledge.spec) / p)
    best, low = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h, x in [(h, x) for h in range(H - 1, -1, -1) for x in range(S)]:
        for a in np.flatnonzero(counts.allowed[h, x]):
            n, seen = int(counts.visits[h, x, a]), counts.successors[h, x, a]
            reward = least = law = one = math.inf
            if n:
                mean = counts.rewards[h, x, a] / n
                spread = max(0.0, counts.squares[h, x, a] / n - mean**2)
                one = (log + bounds.function_cost(float(n))) / n
                reward = bounds.top_reward(mean, spread, one)
                least = 1 - bounds.top_reward(1 - mean, spread, one)
                cost = bounds.law_cost(S, pool_of(seen[seen > 0]), 0, (seen > 0).sum(), float(n))
                law = (log + (cost if h + 1 < H else 0)) / n
            up = plain_top(seen, best[h + 1], best[h + 1].max(), min(one, law))
            best[h, x] = max(best[h, x], min(1, reward) + up)
            if a == learner.policy[h, x]:
                down = -plain_top(seen, -low[h + 1], -low[h + 1].min(), law)
                low[h, x] = (least if n else 0) + down
    return best[0], low[0]


@pytest.mark.parametrize("name", ["per-step", "sparse-bernoulli"])
def test_sweeps_are_those_of_the_plain_twin(name):
    mdp = PROBLEMS[name]()
    learner = learner_for(mdp, ls.ucbvi(c=0.01), 1500)
    for k in range(1500):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    cells = learner._knowledge.cell_bounds(0.05)
    best, low = plain_bounds(learner, 0.05)
    assert cells.best(learner.actions_allowed, chosen=False) == pytest.approx(best, abs=1e-5)
    assert cells.policy(learner.mixture)[0] == pytest.approx(low, abs=1e-5)


# ---- what they promise ---------------------------------------------------------------------------


def test_one_mean_is_covered_at_all_times():
    """2,001 sequences of 400 rewards with p = 0.2; about 8 % fail at some time, 20 % may.

    The seed is fixed. If 20 % did fail, 300 or fewer of 2,000 would have a probability below 1e-8.
    """
    generator, failed = np.random.default_rng(3), 0
    for mean in (0.5, 0.05, 0.99):
        sums = np.cumsum(generator.random((667, 400)) < mean, axis=1)
        n = np.arange(1, 401)
        budgets = np.array([(math.log(5) + bounds.function_cost(float(k))) / k for k in n])
        shares = sums / n
        with np.errstate(divide="ignore", invalid="ignore"):
            divergence = np.nan_to_num(shares * np.log(shares / mean))
            divergence += np.nan_to_num((1 - shares) * np.log((1 - shares) / (1 - mean)))
        failed += int((divergence > budgets).any(axis=1).sum())
    assert 10 < failed <= 300
