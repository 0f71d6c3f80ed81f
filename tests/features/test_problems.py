"""Problems with features: exact values and regret by hand, and what is refused."""

import json

import numpy as np
import pytest
from scipy import integrate

import lowswitch as ls
from conftest import learner_for, random_tables
from lowswitch.features import problems
from lowswitch.features.inventory import MEAN_DEMAND

# ---- exact values --------------------------------------------------------------------------------


def test_the_regret_of_a_bandit_by_hand():
    """Arms (1, 0) and (0, 1) with weights (0.3, 0.5): action 0 loses 0.2 in every round."""
    bandit = problems.LinearBandit(
        np.array([[0.3, 0.5]]), actions=2, shared=False, noise=0.1, arms=np.eye(2)
    )
    weights = np.array([1.0, 0.0]).reshape(1, 2, 1, 1)
    policy = ls.LinearPolicy(bandit.shape, weights, np.uint64(0))
    played = bandit.play(policy, 0, 0, 5)
    assert played.actions.tolist() == [[0]] * 5
    assert played.regret == pytest.approx([0.2] * 5)
    assert played.rewards.std() > 0


def test_a_classifier_loses_one_for_each_wrong_guess():
    problem = problems.classification(np.eye(2), np.array([0, 1]))
    always = ls.LinearPolicy(problem.shape, np.zeros((1, 2, 2, 1)), np.uint64(0))
    played = problem.play(always, 1, 0, 1000)
    assert set(played.actions[:, 0]) == {0}
    assert (played.regret == 1 - played.rewards[:, 0]).all()
    assert 400 < played.regret.sum() < 600  # of 1,000 tosses; beyond with probability 1e-10


def test_the_regret_of_a_linear_mdp_is_that_of_its_table():
    problem = problems.linear_mdp(features=3, states=4, actions=2, horizon=3)
    learner = learner_for(problem, ls.linear(members=5), 10, 0)
    tables = np.stack([learner.policy.choices(problem.table, h) for h in range(3)])
    values = [problem.mdp.evaluate(np.ascontiguousarray(tables[:, :, m])) for m in range(5)]
    played = problem.play(learner.policy, 0, 0, 4)
    loss = problem.mdp.optimal_value() - np.mean(values)
    assert played.regret == pytest.approx([loss] * 4)


def test_a_linear_mdp_plays_by_its_laws():
    """Mean returns of 20,000 episodes are within 4 standard errors of the exact value."""
    problem = problems.linear_mdp(features=3, states=4, actions=2, horizon=3)
    policy = learner_for(problem, ls.linear(members=1), 10, 0).policy
    returns = problem.play(policy, 11, 0, 20_000).rewards.sum(axis=1)
    error = returns.std() / np.sqrt(20_000)
    assert abs(returns.mean() - problem.value(policy)) <= 4 * error


def test_the_expectations_of_an_inventory_are_integrals():
    """E V(max(0, y - D)) for V(s) = s^2 between grid points, by numerical integration."""
    problem = problems.inventory(horizon=1, knots=3)
    values = problem.stocks**2
    for point in (0, 40, 200):
        y = problem.stocks[point]
        law = integrate.quad(
            lambda s, y=y: s**2 * np.exp(-(y - s) / MEAN_DEMAND) / MEAN_DEMAND, 0, y
        )[0]
        assert problem.ahead[point] @ values == pytest.approx(law, abs=1e-3)
        assert problem.ahead[point].sum() == pytest.approx(1)


def test_an_inventory_earns_its_value():
    """Mean returns of 40,000 episodes are within 4 standard errors of the exact value."""
    problem = problems.inventory(horizon=4, knots=6)
    policy = learner_for(problem, ls.linear(members=2), 10, 3).policy
    returns = problem.play(policy, 5, 0, 40_000).rewards.sum(axis=1)
    error = returns.std() / np.sqrt(40_000)
    assert abs(returns.mean() - problem.value(policy)) <= 4 * error + 2e-3  # of the grid
    assert problem.best > problem.value(policy)


# ---- what tells them apart -----------------------------------------------------------------------


def test_problems_are_told_apart_by_everything_that_makes_them():
    laws, rewards = random_tables(3, 2, 1)
    one, two = (ls.TabularMDP(laws, table, horizon=2) for table in (rewards, rewards[::-1]))
    facts = [
        problems.one_hot(one).facts(),
        problems.one_hot(two).facts(),
        problems.linear_bandit(seed=1).facts(),
        problems.linear_bandit(seed=2).facts(),
        problems.linear_bandit(seed=2, noise=0.1).facts(),
        problems.inventory(horizon=2).facts(),
        problems.inventory(horizon=3).facts(),
        problems.LinearBandit(np.ones((1, 2)), actions=3, shared=False, noise=0.5).facts(),
        problems.LinearBandit(np.ones((1, 2)), actions=4, shared=False, noise=0.5).facts(),
    ]
    assert len({json.dumps(some, sort_keys=True) for some in facts}) == len(facts)


def test_a_whole_number_may_be_a_float():
    one, two = (problems.linear_mdp(features=d, states=4, actions=2) for d in (5, 5.0))
    assert (one.facts(), one.shape) == (two.facts(), two.shape)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problems.classification(np.ones((3, 2)), [0, 1]), "a label for each example"),
        (lambda: problems.classification(np.ones((2, 2)), [0, -1]), "labels must be whole numbers"),
        (lambda: problems.linear_bandit(noise=0), "noise must be a positive number"),
        (lambda: problems.linear_bandit(features=0), "features must be a whole number"),
        (lambda: problems.LinearMDP(3, np.eye(2)), "the problem must be a TabularMDP"),
    ],
)
def test_a_problem_that_cannot_be_made_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
