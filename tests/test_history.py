"""Histories: switching costs, exact regret, and the mixture of all policies of a run."""

from itertools import pairwise

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PAIRS, PROBLEMS, random_tables
from lowswitch import history as histories
from lowswitch.history import all_members, deployment_gaps
from lowswitch.kernels import values

# ---- exact regret, and the mixture of all policies -----------------------------------------------


EPISODES, SEED = 400, 7


def policies_of(history, initial, episodes):
    """The policies [members, H, S] of each episode, from the history."""
    mixture, i = all_members(initial, history.members), 0
    for k in range(episodes):
        yield mixture.copy()
        while i < len(history) and history.episode[i] == k:
            mixture[:, history.step[i], history.state[i]] = history.action[i]
            i += 1


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def played(request):
    """A run, the policies of each of its episodes, and what they are worth from each state."""
    mdp, algorithm = PROBLEMS[request.param[0]](), ALGORITHMS[request.param[1]]
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[4, SEED], history=True)
    policies = list(policies_of(runs.history[1], runs.initial, EPISODES))
    known = {mixture.tobytes(): mixture for mixture in policies}
    worth = {
        key: np.mean([mdp.policy_values(policy)[0] for policy in mixture], axis=0)
        for key, mixture in known.items()
    }
    return mdp, runs, policies, np.array([worth[mixture.tobytes()] for mixture in policies])


def test_regret_is_that_of_every_episode(played):
    mdp, runs, _, worth = played
    gaps = mdp.optimal_values[0] - worth
    starts = mdp.start_sequence[:EPISODES]
    lost = gaps[np.arange(EPISODES), starts] if len(starts) else gaps @ mdp.start_law
    np.testing.assert_allclose(
        runs.curves.regret[1], np.cumsum(lost)[runs.curves.episodes - 1], rtol=1e-9, atol=1e-11
    )
    for i in range(2):
        exact = ls.exact_regret(mdp, runs.history[i], episodes=EPISODES, initial=runs.initial)
        assert exact == pytest.approx(runs.regret[i], rel=1e-12)


def test_the_mixture_is_worth_the_average_of_its_policies(played):
    mdp, runs, policies, worth = played
    mixture = runs.pac_policy(SEED)
    assert all((mixture.policy(k) == policies[k]).all() for k in (0, 1, 17, EPISODES - 1))
    assert mixture.weights.sum() == pytest.approx(1)
    assert len(mixture.weights) == runs.deployments[1] + 1
    assert mixture.evaluate(mdp) == pytest.approx(np.mean(worth @ mdp.start_law), rel=1e-10)
    if not len(mdp.start_sequence):
        gap = mdp.optimal_value() - mixture.evaluate(mdp)
        assert gap == pytest.approx(runs.regret[1] / EPISODES, rel=1e-9)


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


def some_changes(mdp, deployments):
    """The row changes of some deployments, after one episode each, of one row or of several."""
    generator = np.random.default_rng(5)
    policy, found = np.zeros((mdp.horizon, mdp.states), dtype=np.int64), []
    for k in range(deployments):
        rows = generator.choice(policy.size, generator.integers(1, 5), replace=False)
        for h, x in zip(*np.divmod(np.sort(rows), mdp.states), strict=True):
            policy[h, x] = (policy[h, x] + 1) % mdp.actions
            found.append((k, h, x, policy[h, x]))
    return np.array(found)


@pytest.mark.parametrize("stationary", [True, False])
def test_policies_valued_side_by_side_have_the_same_bits(stationary, monkeypatch):
    transitions, rewards = random_tables(29, 3, 3)  # 29 states: three times 8, 4 and 1
    if not stationary:
        transitions, rewards = np.stack([transitions] * 5), np.stack([rewards] * 5)
        transitions[2], rewards[3] = random_tables(29, 3, 4)
    mdp = ls.TabularMDP(transitions, rewards, horizon=5)
    changes, first = some_changes(mdp, 203), np.zeros((1, 5, 29), dtype=np.int64)
    points = np.array([1, 7, 8, 50, 203, 900])
    curves, laws, kinds = [], [], set()
    for cache in (0, 2**30):
        monkeypatch.setattr(histories, "_CACHE", cache)
        evaluation, gap = histories.evaluation_of(mdp, first)
        account = histories.fresh_account(gap, points)
        for begin, end in pairwise((0, 20, 20, 21, 90, 203)):  # no deployment, one, and many
            piece = changes[(begin <= changes[:, 0]) & (changes[:, 0] < end)]
            values.settle(mdp.model, evaluation, account, piece, len(piece), 0)
        values.settle(mdp.model, evaluation, account, changes[:0], 0, 900)
        curves.append(account.curve)
        laws.append(evaluation.mass)
        kinds.add(type(evaluation))
    assert len(kinds) == 2
    assert curves[0].tobytes() == curves[1].tobytes()
    assert laws[0].tobytes() == laws[1].tobytes()


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


# ---- the PAC policy ------------------------------------------------------------------------------


def test_samples_are_drawn_uniformly_over_episodes():
    """10^4 draws, generator seed 0: the share of the first policy is 0.3, within 5 standard
    deviations (false alarms 6e-7).
    """
    history = ls.History(np.array([[2, 0, 0, 1], [9, 0, 0, 0]]))
    mixture = ls.PacPolicy(initial=np.zeros((1, 1), dtype=np.int64), history=history, episodes=10)
    assert mixture.weights.tolist() == [0.3, 0.7, 0.0]
    generator = np.random.default_rng(0)
    share = np.mean([mixture.sample(generator)[0, 0] == 0 for _ in range(10**4)])
    assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 10**4)


def test_save_and_load_a_pac_policy(tmp_path):
    mdp = ls.TabularMDP(*random_tables(3, 2, 0), horizon=3)
    mixture = ls.simulate(
        mdp, ls.ucb2_hoeffding(c=0.1), episodes=100, seeds=1, history=True
    ).pac_policy(0)
    mixture.save(tmp_path / "mixture.npz")
    loaded = ls.PacPolicy.load(tmp_path / "mixture.npz")
    assert loaded.evaluate(mdp) == mixture.evaluate(mdp)
    assert repr(loaded) == repr(mixture)
    with pytest.raises(ValueError, match="is of the kind 'pac policy', not 'runs'"):
        ls.load(tmp_path / "mixture.npz")


def test_bad_input_of_a_pac_policy():
    mdp = ls.TabularMDP(*random_tables(3, 2, 0), horizon=3)
    runs = ls.simulate(mdp, ls.ucb2_hoeffding(c=0.1), episodes=100, seeds=2, history=True)
    with pytest.raises(ValueError, match=r"no run with seed 5; the seeds are \[0, 1\]"):
        runs.pac_policy(5)
    with pytest.raises(ValueError, match="episode must be a whole number from 0 to 99, not 100"):
        runs.pac_policy(0).policy(100)
    with pytest.raises(ValueError, match="run simulate with history=True"):
        ls.simulate(mdp, ls.ucb2_hoeffding(c=0.1), episodes=100, seeds=1).pac_policy(0)
