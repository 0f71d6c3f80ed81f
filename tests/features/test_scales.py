"""Units of features: which of them are scaled, and that a learner does not depend on the others."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.learners.scales import Scales

SIZE = {"features": 2, "actions": 3, "episodes": 400}
MIDDLE, SPREAD = np.array([230.0, 0.02]), np.array([5.0, 0.003])


def squares(x):
    whole = np.column_stack([x, np.ones(len(x))])
    return whole.T @ whole


def test_scales_by_hand():
    x = np.array([[10.0, 1.0, 7.0, 0.5], [30.0, 0.0, 7.0, -0.5]])
    found = Scales.of(squares(x), 2)  # of zeros and ones, constant, and scaled before: as they are
    assert found.middle.tolist() == [20.0, 0.0, 0.0, 0.0]
    assert found.deviation.tolist() == [10.0, 1.0, 1.0, 1.0]
    assert found.standardised(x)[:, 0].tolist() == [-1.0, 1.0]
    assert Scales.of(squares(x[:, 1:]), 2) is None


def test_a_penalty_and_weights_by_hand():
    scales = Scales(np.array([20.0]), np.array([10.0]))
    # x = 10 z + 20, so a z + b = a / 10 x + (b - 2 a)
    assert scales.weights(np.array([[3.0, 1.0]])).tolist() == [[0.3, -5.0]]
    theta = np.array([0.3, -5.0])
    assert theta @ scales.penalty @ theta == pytest.approx(3.0**2 + 1.0**2)
    (factor,) = scales.factors(np.eye(2)[None])
    assert factor.T @ factor == pytest.approx(scales.penalty)
    assert factor[1, 0] == 0


def told(algorithm, x, *, odds):
    """A learner that was told contexts, whatever it would have played."""
    generator = np.random.default_rng(4)
    learner = ls.Learner(algorithm, **SIZE, seed=1)
    actions = generator.integers(3, size=len(x))
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    means = z[:, 0] * (actions == 1) - z[:, 1] * (actions == 2)
    noise = generator.normal(size=len(x))
    rewards = (means + noise > 0).astype(float) if odds else means + noise
    learner.tell(x, actions, rewards, off_policy=True)
    return learner


@pytest.mark.parametrize("odds", [False, True])
def test_raw_units_learn_what_standardised_ones_learn(odds):
    z = np.random.default_rng(3).normal(size=(300, 2))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    raw, scaled = (told(ls.few(deployments=5), x, odds=odds) for x in (z * SPREAD + MIDDLE, z))
    assert raw.weights * SPREAD == pytest.approx(scaled.weights, abs=1e-6)
    levels = raw.intercepts + raw.weights @ MIDDLE
    assert levels == pytest.approx(scaled.intercepts, abs=1e-6)
    # and the estimates are uncertain in the same directions, so that they explore alike
    fresh = np.random.default_rng(5).normal(size=(500, 2))
    played = raw.policy.propensities(fresh * SPREAD + MIDDLE), scaled.policy.propensities(fresh)
    assert np.abs(played[0] - played[1]).mean() < 0.15
    earlier = told(ls.linear(deployments=5, intercept=True), z * SPREAD + MIDDLE, odds=odds)
    assert np.abs(earlier.weights * SPREAD - scaled.weights).max() > 0.3


def test_features_that_are_scaled_are_learned_as_before():
    x = np.random.default_rng(3).normal(size=(300, 2))
    options = {"intercept": True, "link": "auto", "drift": "watch", "deployments": 5}
    now, before = (told(ls.linear(**options, rule=rule), x, odds=False) for rule in (2, 1))
    assert now.policy.identity == before.policy.identity


def test_a_learner_in_raw_units_goes_on_to_the_bit(tmp_path):
    x = np.random.default_rng(3).normal(size=(300, 2)) * SPREAD + MIDDLE
    whole = told(ls.few(deployments=5), x, odds=False)
    whole.save(tmp_path / "learner.npz")
    assert ls.Learner.load(tmp_path / "learner.npz").policy.identity == whole.policy.identity
