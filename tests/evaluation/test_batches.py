"""Pairs of arms after batches that learned: by hand, by a plain twin, and beside a bound for ever.

`confseq` 0.0.11 has confidence sequences that hold for all times. It is no test dependency: it has
no wheel, and its source does not build with Python 3.11. So `lower_sequence` is written out here
from the paper, and held to numbers that confseq's own function has given.
"""

import math

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.evaluation import Batches
from lowswitch.evaluation.batches import (
    adaptive_scores,
    batched_difference,
    weighted_difference,
)


def test_batched_least_squares_by_hand():
    """Two batches: differences 1 and 3, with standard errors sqrt(1/4 + 1/4) and sqrt(1/1 + 1/1).

    (1 / 0.7071 + 3 / 1.4142) / (1 / 0.7071 + 1 / 1.4142) = 3.5355 / 2.1213 = 5/3; the standard
    error is sqrt(2) / 2.1213 = 2/3.
    """
    found = batched_difference([(1.0, 4, 4), (3.0, 1, 1)], (1.0, 1.0), 1.5)
    assert found == pytest.approx((5 / 3, 2 / 3, 8 / 3))
    assert math.isnan(batched_difference([], (1.0, 1.0), 1.5).value)
    assert math.isinf(batched_difference([(1.0, 4, 4)], (0.0, 0.0), 1.5).high)


def test_scores_by_hand():
    """Arm 0 pays 2, arm 1 pays 4, arm 0 pays 5; the propensities of arm 0 are 1/2, 1/4, 4/5.

    Before the first case nothing is known: 0. Before the second, arm 0 has the mean 2, and arm 1,
    without a reward, the mean of all, 2 as well. Before the third they have 2 and 4.
    """
    laws = np.array([[1 / 2, 1 / 2], [1 / 4, 3 / 4], [4 / 5, 1 / 5]])
    found = adaptive_scores(np.array([0, 1, 0]), np.array([2.0, 4, 5]), laws)
    expected = [[2 / 0.5, 0], [2, 2 + (4 - 2) / 0.75], [2 + (5 - 2) / 0.8, 4]]
    assert found == pytest.approx(np.array(expected))


def test_weighted_difference_by_hand():
    """Weights 1 and 3 for the first arm, 2 and 2 for the second.

    The means are (4 + 3 * 0) / 4 = 1 and (1 + 3) / 2 = 2. The cases move the difference by
    (1 * 3 - 2 * -1) / 4 = 5/4 and (3 * -1 - 2 * 1) / 4 = -5/4.
    """
    found = weighted_difference(np.array([[4.0, 1], [0, 3]]), np.array([[1.0, 2], [3, 2]]), 2.0)
    half = 2 * math.sqrt(2) * 5 / 4
    assert found == pytest.approx((-1, -1 - half, -1 + half))
    assert math.isinf(weighted_difference(np.ones((3, 2)), np.eye(2)[[0, 0, 0]], 2.0).high)


def run_of(generator, means=(0.5, 0.5), batches=10, size=100, floor=0.05):
    """Ten batches of coins, of which each prefers the arm with the better mean so far."""
    law, data, laws = np.full(2, 0.5), [], []
    for _ in range(batches):
        actions = (generator.random(size) < law[1]).astype(int)
        data.append((actions, (generator.random(size) < np.array(means)[actions]).astype(float)))
        laws.append(law)
        played, paid = (np.concatenate(part) for part in zip(*data, strict=True))
        better = int(paid[played == 1].mean() > paid[played == 0].mean())
        law = floor + (1 - 2 * floor) * np.eye(2)[better]
    return Batches(played, paid, np.repeat(np.arange(batches), size), laws)


def twin(data, z):
    """Both differences with loops, as the papers write them."""
    A = len(data.laws[0])
    scores, weights = [], []
    for t, (arm, reward, batch) in enumerate(
        zip(data.actions, data.rewards, data.batches, strict=True)
    ):
        past = list(zip(data.actions[:t], data.rewards[:t], strict=True))
        row = []
        for a in range(A):
            mine = [paid for played, paid in past if played == a] or [paid for _, paid in past]
            middle = np.mean(mine) if mine else 0.0
            chance = data.laws[batch][a]
            row.append(middle + (arm == a) / chance * (reward - middle))
        scores.append(row)
        weights.append([math.sqrt(data.laws[batch][a]) for a in range(A)])
    scores, weights = np.array(scores), np.array(weights)
    values = (weights * scores).sum(axis=0) / weights.sum(axis=0)
    adaptive = values[0] - values[1]
    statistic, total = 0.0, 0.0
    spread = [[], []]
    for arm in (0, 1):
        for batch in range(len(data.laws)):
            mine = data.rewards[(data.batches == batch) & (data.actions == arm)]
            spread[arm].append((((mine - mine.mean()) ** 2).sum(), len(mine) - 1))
    variances = [sum(s for s, _ in one) / sum(n for _, n in one) for one in spread]
    for batch in range(len(data.laws)):
        ours = [data.rewards[(data.batches == batch) & (data.actions == arm)] for arm in (0, 1)]
        error = math.sqrt(sum(v / len(one) for v, one in zip(variances, ours, strict=True)))
        statistic, total = statistic + (ours[0].mean() - ours[1].mean()) / error, total + 1 / error
    return adaptive, statistic / total, z * math.sqrt(len(data.laws)) / total


def test_both_intervals_equal_a_plain_twin():
    data = run_of(np.random.default_rng(1), batches=4, size=60, floor=0.2)
    (found,) = ls.compare_arms(data)
    adaptive, batched, half = twin(data, 1.959963985)
    assert found.adaptive.value == pytest.approx(adaptive)
    assert (found.bols.value, found.bols.high) == pytest.approx((batched, batched + half))
    assert found.batches == 4
    assert "state 0: arm 0 less arm 1: batched" in str(found)


def test_states_are_compared_apart():
    """Two states that take turns: each has the numbers of its own cases alone."""
    one, other = (run_of(np.random.default_rng(seed), size=40, floor=0.2) for seed in (2, 3))
    both = Batches(
        np.stack([one.actions, other.actions], axis=1).ravel(),
        np.stack([one.rewards, other.rewards], axis=1).ravel(),
        np.repeat(one.batches, 2),
        np.stack([one.laws, other.laws], axis=1),
        np.tile([0, 1], len(one.actions)),
    )
    found = ls.compare_arms(both)
    assert [contrast.state for contrast in found] == [0, 1]
    for contrast, alone in zip(found, (one, other), strict=True):
        (expected,) = ls.compare_arms(alone)
        assert (contrast.bols, contrast.adaptive) == (expected.bols, expected.adaptive)


def lower_sequence(scores, level):
    """A lower bound of the mean of scores >= 0 that holds at all times with probability 1 - level.

    The predictable mixture of empirical Bernstein bounds: Waudby-Smith, Ramdas 2024.
    """
    t = np.arange(1, len(scores) + 1)
    middle = np.minimum((0.5 + np.cumsum(scores)) / (t + 1), 1)
    spread = (0.25 + np.cumsum((scores - middle) ** 2)) / (t + 1)
    spread = np.append(0.25, spread[:-1])
    bets = np.minimum(0.5, np.sqrt(2 * math.log(1 / level) / (t * np.log(1 + t) * spread)))
    guess = np.append(0, np.cumsum(scores)[:-1] / t[:-1])
    price = (scores - guess) ** 2 * (-np.log(1 - bets) - bets)
    lower = np.cumsum(bets * scores) - math.log(1 / level) - np.cumsum(price)
    return np.maximum(0, lower / np.cumsum(bets))


def test_the_sequence_is_that_of_confseq():
    """Numbers of predmix_empbern_lower_cs of confseq 0.0.11, after 10, 100 and 400 scores."""
    scores = np.where((np.arange(400) * 7919) % 13 < 4, 2.0, 0.0)
    found = lower_sequence(scores, 0.05)[[9, 99, 399]]
    assert found == pytest.approx([0, 0.28344629069074834, 0.4249220256638381])


def test_intervals_lie_within_a_bound_that_holds_for_ever():
    """Scores r / propensity and (1 - r) / propensity bound each arm's mean from both sides.

    With 1/80 for each of four sides the difference is bounded at 95 % and at all times, without any
    approximation. Our intervals must be narrower and within it on 20 runs; seeds 0 to 19.
    """
    for seed in range(20):
        data = run_of(np.random.default_rng(seed))
        laws = np.array(data.laws)[data.batches]
        low, high = [], []
        for arm in (0, 1):
            inverse = (data.actions == arm) / laws[:, arm]
            low.append(lower_sequence(inverse * data.rewards, 1 / 80)[-1])
            high.append(1 - lower_sequence(inverse * (1 - data.rewards), 1 / 80)[-1])
        (found,) = ls.compare_arms(data)
        for interval in (found.bols, found.adaptive):
            assert low[0] - high[1] <= interval.low
            assert interval.high <= high[0] - low[1]


@pytest.mark.slow
def test_intervals_cover_after_batches_that_learned():
    """1,000 runs of equal coins, seed 5; at 95 % each of the two stays above 92.5 % with a new seed
    with a probability above 99.9 %.
    """
    generator = np.random.default_rng(5)
    hits = {"bols": 0, "adaptive": 0}
    for _ in range(1000):
        (found,) = ls.compare_arms(run_of(generator, batches=5, size=80, floor=0.1))
        for name in hits:
            hits[name] += getattr(found, name).low <= 0 <= getattr(found, name).high
    assert min(hits.values()) >= 925


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"laws": [0.5, 0.5]}, r"laws are \[batches, arms\]"),
        ({"laws": [[1.0, 0.0]]}, "case 1 has an arm whose probability in its batch is 0"),
        ({"laws": [[0.5, 1.5]]}, r"laws must lie in \[0, 1\]"),
        ({"batches": [0, 0, 1]}, "batches must be 0 to 0"),
        ({"batches": [0, 0, 0.5]}, "batches must be integers"),
        ({"laws": [[0.5, 0.5]] * 2, "batches": [1, 0, 0]}, "batches must not decrease"),
        ({"rewards": [1.0, 2]}, "one entry for each case"),
        ({"rewards": [1.0, 2, np.inf]}, "must be finite"),
        ({"actions": [0, 1, 2]}, "actions must be 0 to 1"),
    ],
)
def test_batches_that_cannot_be_right_are_refused(change, message):
    facts = {"actions": [0, 1, 0], "rewards": [1.0, 2, 3], "batches": [0] * 3, "laws": [[0.5, 0.5]]}
    with pytest.raises(ValueError, match=message):
        ls.compare_arms(Batches(**facts | change))
