import numpy as np
import pytest

import lowswitch as ls
from conftest import random_tables
from test_regret import policies_of

EPISODES = 300


def test_the_mixture_is_worth_the_average_of_its_policies(mdp, algorithm):
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[4, 7], history=True)
    mixture = runs.pac_policy(7)
    played = [policies.copy() for policies in policies_of(runs.history[1], runs.initial, EPISODES)]
    assert mixture.evaluate(mdp) == pytest.approx(
        np.mean([mdp.evaluate(policy) for policies in played for policy in policies]), rel=1e-10
    )
    assert all((mixture.policy(k) == played[k]).all() for k in (0, 1, 17, EPISODES - 1))
    assert mixture.weights.sum() == pytest.approx(1)
    assert len(mixture.weights) == runs.deployments[1] + 1
    if not len(mdp.start_sequence):
        assert mdp.optimal_value() - mixture.evaluate(mdp) == pytest.approx(
            runs.regret[1] / EPISODES, rel=1e-9
        )


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


def test_save_and_load(tmp_path):
    mdp = ls.TabularMDP(*random_tables(3, 2, 0), horizon=3)
    mixture = ls.simulate(
        mdp, ls.ucb2_hoeffding(c=0.1), episodes=100, seeds=1, history=True
    ).pac_policy(0)
    mixture.save(tmp_path / "mixture.npz")
    loaded = ls.PacPolicy.load(tmp_path / "mixture.npz")
    assert loaded.evaluate(mdp) == mixture.evaluate(mdp)
    assert repr(loaded) == repr(mixture)
    with pytest.raises(ValueError, match="holds a 'pac policy', not a 'runs'"):
        ls.load(tmp_path / "mixture.npz")


def test_bad_input():
    mdp = ls.TabularMDP(*random_tables(3, 2, 0), horizon=3)
    runs = ls.simulate(mdp, ls.ucb2_hoeffding(c=0.1), episodes=100, seeds=2, history=True)
    with pytest.raises(ValueError, match=r"no run with seed 5; the seeds are \[0, 1\]"):
        runs.pac_policy(5)
    with pytest.raises(ValueError, match="episode must be 0 to 99, not 100"):
        runs.pac_policy(0).policy(100)
    with pytest.raises(ValueError, match="run simulate with history=True"):
        ls.simulate(mdp, ls.ucb2_hoeffding(c=0.1), episodes=100, seeds=1).pac_policy(0)
