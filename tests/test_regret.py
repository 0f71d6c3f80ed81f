"""Exact regret against evaluating the policy of every single episode."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import random_tables
from lowswitch.history import deployment_gaps


def policies_of(history, initial, episodes):
    """The policies [members, H, S] of each episode, from the history."""
    mixture, i = np.repeat(initial[None], history.members, axis=0), 0
    for k in range(episodes):
        yield mixture
        while i < len(history) and history.episode[i] == k:
            mixture[:, history.step[i], history.state[i]] = history.action[i]
            i += 1


def regret_episode_by_episode(mdp, history, initial, episodes):
    """sum_k V*(x_k) - V^{pi_k}(x_k), or under the start law, by full backward induction each
    time.
    """
    total = np.zeros(episodes)
    for k, mixture in enumerate(policies_of(history, initial, episodes)):
        if len(mdp.start_sequence):
            x = mdp.start_sequence[k]
            total[k] = mdp.optimal_values[0, x] - np.mean(
                [mdp.policy_values(policy)[0, x] for policy in mixture]
            )
        else:
            total[k] = mdp.optimal_value() - np.mean([mdp.evaluate(policy) for policy in mixture])
    return np.cumsum(total)


def test_regret_is_that_of_every_episode(mdp, algorithm):
    episodes, initial = 400, mdp.actions_allowed.argmax(axis=-1)
    runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=2, history=True)
    for i in range(2):
        expected = regret_episode_by_episode(mdp, runs.history[i], initial, episodes)
        np.testing.assert_allclose(
            runs.curves.regret[i], expected[runs.curves.episodes - 1], rtol=1e-9, atol=1e-11
        )
        assert ls.exact_regret(
            mdp, runs.history[i], episodes=episodes, initial=initial
        ) == pytest.approx(runs.regret[i], rel=1e-12)


def test_an_optimal_policy_has_no_regret_at_all():
    mdp = ls.TabularMDP(*random_tables(6, 3, 0), horizon=7)
    nothing = ls.History(np.zeros((0, 4), dtype=np.int64))
    assert ls.exact_regret(mdp, nothing, episodes=10**9, initial=mdp.optimal_policy) == 0.0


def test_regret_is_in_the_users_units():
    """Actions that pay -5 and 15: each of the four episodes up to the switch after episode 3 costs
    20.
    """
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), ls.rescale([[-5.0, 15.0]]), horizon=1)
    history, initial = ls.History(np.array([[3, 0, 0, 1]])), np.zeros((1, 1), dtype=int)
    assert ls.exact_regret(mdp, history, episodes=10, initial=initial) == 80
    assert deployment_gaps(mdp, history, initial=initial).tolist() == [20, 0]


def test_dense_and_listed_successors_agree():
    transitions, rewards = random_tables(11, 2, 3)
    dense = ls.TabularMDP(transitions, rewards, horizon=6)
    listed = ls.TabularMDP(transitions, np.broadcast_to(rewards, (6, 11, 2)), horizon=6)
    assert dense.model.outflow.size > 0
    assert listed.model.outflow.size == 0
    runs = [
        ls.simulate(mdp, ls.ucb_hoeffding(c=0.05), episodes=500, seeds=3) for mdp in (dense, listed)
    ]
    assert (runs[0].local_switches == runs[1].local_switches).all()
    np.testing.assert_allclose(runs[0].regret, runs[1].regret, rtol=1e-12)


def test_switching_costs_of_a_history():
    history = ls.History(np.array([[0, 0, 1, 1], [0, 1, 2, 1], [5, 0, 1, 0], [9, 2, 0, 1]]))
    assert (history.local_switches, history.deployments, len(history)) == (4, 3, 4)
    assert repr(history) == "History(4 switches, 3 deployments)"
    assert ls.History(np.zeros((0, 4), dtype=np.int64)).deployments == 0


def test_bad_input():
    mdp = ls.TabularMDP(*random_tables(3, 2, 0), horizon=2, start=[0, 1, 2])
    history = ls.History(np.array([[7, 0, 1, 1]]))
    policy = np.zeros((2, 3), dtype=int)
    with pytest.raises(
        ValueError, match="changes the policy after episode 7, beyond the 3 episodes"
    ):
        ls.exact_regret(mdp, history, episodes=3, initial=policy)
    with pytest.raises(
        ValueError, match="the start sequence has 3 states for 8 episodes; lengthen it"
    ):
        ls.exact_regret(mdp, history, episodes=8, initial=policy)
    with pytest.raises(ValueError, match="episodes must be a whole number from 1"):
        ls.exact_regret(mdp, history, episodes=0, initial=policy)
