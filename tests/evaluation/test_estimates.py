"""Intervals, and what says whether to trust them."""

import math

import numpy as np
import pytest

from lowswitch.evaluation.estimates import (
    Estimate,
    Evaluation,
    effective_size,
    mean,
    pareto_k,
    ratio,
    skewed_mean,
)


def test_the_interval_of_a_skewed_mean_by_hand():
    """Samples 0, 0, 0, 4: mean 1, variance 3 (4 with n - 1), third moment 6, skewness 2 / sqrt 3.

    With a = skewness / 2 = 1 / sqrt 3 and the scale 2 / 2 = 1, the ends are 1 - t, where
    t + a t^2 / 3 + t^3 / 81 + a / 6 is 1.96 for the lower and -1.96 for the upper end.
    """
    found = skewed_mean(np.array([0.0, 0, 0, 4]), 1.96)
    assert found == pytest.approx((1, -0.43254, 9.16842), abs=1e-5)
    a = 1 / math.sqrt(3)
    for end, y in ((found.low, 1.96), (found.high, -1.96)):
        t = 1 - end
        assert t + a * t**2 / 3 + t**3 / 81 + a / 6 == pytest.approx(y)


def test_without_skewness_it_is_the_normal_interval():
    samples = np.array([1.0, 2, 3])
    assert skewed_mean(samples, 1.96) == mean(samples, 1.96)
    assert mean(samples, 1.96) == pytest.approx(
        (2, 2 - 1.96 / math.sqrt(3), 2 + 1.96 / math.sqrt(3))
    )
    assert skewed_mean(np.ones(5), 1.96) == (1, 1, 1)


def test_self_normalised_weights_by_hand():
    """Two steps, weights (1, 3), (1, 0) and (2, 1): the steps' means are 5 / 4 and 9 / 4.

    Samples move a step's mean by share (reward - mean) / (1 - share).
    """
    weights = np.array([[1.0, 3], [1, 0], [2, 1]])
    rewards = np.array([[1.0, 2], [2, 7], [1, 3]])
    found = ratio(weights, rewards, 2.0)
    moved = np.array([-0.25 / 3 - 0.25 * 3, 0.75 / 3, -0.25 + 0.75 / 3])
    half = 2 * math.sqrt((moved**2).sum())
    assert found == pytest.approx((3.5, 3.5 - half, 3.5 + half))
    assert math.isnan(ratio(np.zeros((3, 1)), np.ones((3, 1)), 2.0).value)
    assert ratio(np.eye(2)[:, :1], np.ones((2, 1)), 2.0) == (1, -math.inf, math.inf)


def test_effective_size_by_hand():
    assert effective_size(np.array([1.0, 1, 1, 1])) == 4
    assert effective_size(np.array([3.0, 1, 0])) == 16 / 10
    assert effective_size(np.zeros(3)) == 0


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9, 1.5])
def test_pareto_k_finds_the_shape_of_a_pareto_law(shape):
    """Quantiles of the law (u^-k - 1) / k at 10,000 even places, so that nothing is random.

    The tail has 300 of them, and the prior at 1/2 has the weight of 10.
    """
    u = (np.arange(10_000) + 0.5) / 10_000
    found = pareto_k((u**-shape - 1) / shape)
    assert found == pytest.approx((300 * shape + 5) / 310, abs=0.06)


def test_pareto_k_where_weights_have_few_values():
    """The largest weight occurs often, or few weights are above the others: there is no shape.

    Rounding makes no difference.
    """
    assert pareto_k(np.repeat([0.0, 16.0], [90, 10])) == -math.inf
    assert pareto_k(np.repeat([0.0, 0.1 + 0.2, 0.3], [90, 5, 5])) == -math.inf
    assert pareto_k(np.repeat([1.0, 50.0], [98, 2])) == -math.inf


def made(**more):
    one = Estimate(1.0, 0.9, 1.1)
    facts = dict.fromkeys(("ips", "snips", "dr", "model", "logged", "share"), one)
    facts |= {"samples": 100, "effective": 80.0, "tail": 0.3, "confidence": 0.95}
    return Evaluation(**facts | more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"effective": 29.0}, "too little of the log looks like this policy"),
        ({"tail": 0.81}, "a few samples decide these estimates (Pareto k 0.81, above 0.8)"),
        ({"share": Estimate(0.5, 0.4, 0.6)}, "could have played only 0.5 [0.4, 0.6] of what this"),
    ],
)
def test_it_says_why_it_cannot_be_relied_on(more, words):
    assert not made(**more).reliable
    assert words in str(made(**more))


def test_it_says_that_it_can_be_relied_on():
    assert made().reliable
    assert "the intervals can be relied on" in str(made())
    assert "estimated from the log's own counts" in str(made(behaviour="estimated"))


def test_json_has_no_infinite_numbers():
    facts = made(tail=-math.inf, snips=Estimate(math.nan, -math.inf, math.inf)).to_dict()
    assert facts["tail"] is None
    assert facts["snips"] == {"value": None, "low": None, "high": None}
    assert facts["dr"] == {"value": 1.0, "low": 0.9, "high": 1.1}
    assert facts["reliable"] is True
