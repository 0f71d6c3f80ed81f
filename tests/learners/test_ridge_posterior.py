"""What a learner with features expects of the actions in a context."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.learners.ridge_posterior import RidgePosterior


def test_the_expected_values_by_hand():
    weights, offsets = np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([0.5])
    contexts = [np.array([[[1.0, -1.0]], [[2.0, 1.0]]])]
    shared = RidgePosterior(weights, offsets, contexts, np.zeros((1, 2)))
    assert shared.means(0).tolist() == [
        [-0.5, -0.5],  # 1 - 2 + 0.5 and 3 - 4 + 0.5
        [4.5, 10.5],  # 2 + 2 + 0.5 and 6 + 4 + 0.5
    ]
    constant = shared._replace(intercepts=np.array([[0.0, 2.0]]))
    assert constant.means(0).tolist() == [[-0.5, 1.5], [4.5, 12.5]]  # 2 more for the second action
    own_contexts = [np.array([[[1.0, 1.0], [0.0, 1.0]]])]
    own = RidgePosterior(weights[:, :1], offsets, own_contexts, np.zeros((1, 1)))
    assert own.means(0).tolist() == [[3.5, 2.5]]  # 1 + 2 + 0.5 and 2 + 0.5
    odds = own._replace(offsets=np.array([-3.0]), odds=True)
    assert odds.means(0) == pytest.approx(np.array([[0.5, 1 / (1 + np.e)]]))  # of 0 and of -1


def test_it_stays_as_it_was_whatever_is_learned_later():
    learner = ls.Learner(ls.linear(), features=2, actions=2, episodes=9)
    learner.tell([1.0, 0.0], 0, 1.0, off_policy=True)
    before = learner.posterior()
    means = before.means(0).copy()
    assert means == pytest.approx(np.array([[0.5, 0.0]]))  # ridge 1: 1 / (1 + 1); never tried
    learner.tell([1.0, 0.0], 1, 1.0, off_policy=True)
    assert before.means(0).tolist() == means.tolist()
    assert learner.posterior().means(0) == pytest.approx(np.full((2, 2), 0.5))
