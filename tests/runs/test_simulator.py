"""Problems without tables: a step function in every driver, with sampled returns named as such."""

import json
import secrets

import numpy as np
import pytest

import lowswitch as ls

H, S, A, K = 6, 5, 2, 120


def swim(state, action, h, random):
    """A river that can be swum: action 1 mostly goes right, and the end pays."""
    right = random.random() < (0.7 if action else 0.1)
    return min(S - 1, max(0, state + (1 if right else -1))), float(state == S - 1)


def begin(random):
    return int(random.integers(2))


SIZE = {"horizon": H, "states": S, "actions": A}
RIVER = ls.envs.Simulator(swim, start=begin, **SIZE)
ALGORITHMS = [ls.q_hoeffding(c=0.01), ls.few(deployments=4), ls.ucbvi(c=0.01)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_all_drivers_play_the_same_episodes(algorithm):
    runs = ls.simulate(RIVER, algorithm, episodes=K, seeds=[0, 5], history=True)
    learner, earned = ls.Learner(algorithm, **SIZE, episodes=K, seed=5), 0.0
    for k in range(K):
        played = RIVER.play(learner.policy[None], np.zeros(1, dtype=int), 5, np.array([k]))
        learner.tell(*(part[0] for part in played))
        earned += played.rewards.sum()
    assert runs.deployments[1] == learner.deployments > 0
    assert runs.local_switches[1] == learner.local_switches
    assert runs.earned[1] == pytest.approx(earned)
    assert np.array_equal(runs.policy[1].reshape(-1, H, S), learner.mixture)
    run = ls.concurrent.run(RIVER, algorithm, episodes=K, machines=9, rule="switch", seed=5)
    assert run.history[0].changes.tolist() == runs.history[1].changes.tolist()


def test_a_step_with_noise_of_its_own_brings_a_warning():
    def gusts(state, action, h, random):
        return secrets.randbelow(S), 0.0

    message = r"gusts reads secrets\.randbelow, .*; take noise from its argument random"
    with pytest.warns(UserWarning, match=message) as caught:
        ls.envs.Simulator(gusts, **SIZE)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("known", [1.5, None])
def test_rounds_on_machines_have_the_regret_of_the_sequential_run(known, tmp_path):
    river = ls.envs.Simulator(swim, start=begin, **SIZE, optimal_value=known, reward_range=(-1, 2))
    runs = ls.simulate(river, ALGORITHMS[0], episodes=K, seeds=[5])
    run = ls.concurrent.run(river, ALGORITHMS[0], episodes=K, machines=9, seed=5)
    assert run.measure == runs.measure
    assert run.regret == pytest.approx(runs.regret)
    assert run.curves.regret == pytest.approx(runs.curves.regret)
    assert (run.problem, run.fingerprint) == (runs.problem, runs.fingerprint)
    assert run.measure in str(run.summary())
    run.save(tmp_path / "run.npz")
    assert ls.concurrent.load(tmp_path / "run.npz").measure == run.measure
    without = ls.concurrent.run(river, ALGORITHMS[0], episodes=K, machines=9, seed=5, regret=False)
    assert np.isnan(without.regret).all()


def test_losses_are_called_sampled_everywhere(tmp_path):
    algorithm = ALGORITHMS[0]
    runs = ls.simulate(RIVER, algorithm, episodes=K, seeds=2)
    assert runs.regret == pytest.approx(K * H - runs.earned)
    assert runs.curves.regret[:, -1].tolist() == runs.regret.tolist()
    assert runs.earned_per_episode == pytest.approx(runs.earned / K)
    assert np.isnan(runs.optimal_value)
    texts = [repr(runs), str(runs.summary()), json.dumps(runs.to_dict())]
    best = ls.envs.Simulator(swim, start=begin, **SIZE, optimal_value=1.5)
    found = ls.frontier(best, episodes=K, seeds=2, confirm=2, portfolio=ALGORITHMS[:2], threads=1)
    found.save(tmp_path / "found.json")
    texts += [str(found), found.table(), ls.Frontier.load(tmp_path / "found.json").table()]
    for text in texts:
        words = text.replace("_", " ")
        assert "Monte-Carlo" in words
        for place in range(len(words)):
            if words.startswith("regret", place):
                assert words[:place].endswith("Monte-Carlo ")
    runs.save(tmp_path / "runs.npz")
    assert ls.load(tmp_path / "runs.npz").measure == "Monte-Carlo loss"
    assert ls.simulate(best, algorithm, episodes=9, seeds=1).measure == "Monte-Carlo regret"


def test_a_sweep_has_them_beside_tables(tmp_path):
    tables = ls.envs.riverswim(states=S, horizon=H)
    swept = ls.sweep([RIVER, tables], ALGORITHMS[:1], episodes=40, seeds=2, folder=tmp_path)
    alone = ls.simulate(RIVER, ALGORITHMS[0], episodes=40, seeds=2)
    assert swept[0, 0].regret.tolist() == alone.regret.tolist()
    assert [runs.measure for runs in swept] == ["Monte-Carlo loss", "regret"]
    again = ls.sweep([RIVER, tables], ALGORITHMS[:1], episodes=40, seeds=2, folder=tmp_path)
    assert again.regret.tolist() == swept.regret.tolist()


def test_rewards_have_their_range():
    paid = ls.envs.Simulator(
        lambda x, a, h, random: (0, 10.0 * a - 5), reward_range=(-5, 5), **SIZE
    )
    runs = ls.simulate(paid, ls.q_hoeffding(c=0.01), episodes=4, seeds=1)
    assert runs.earned[0] == pytest.approx(4 * H * 5 - runs.regret[0])
    assert paid.reference == 5 * H


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda x, a, h, random: (S, 0.0), "after step 0 comes the state 5; states are whole numb"),
        (lambda x, a, h, random: (0.5, 0.0), "after step 0 comes the state 0.5"),
        (lambda x, a, h, random: 0.0, r"step\(0, 0, 0, random\) must return the next state and"),
        (lambda x, a, h, random: (0, 3.0), "rewards must lie in"),
    ],
)
def test_a_step_that_returns_nonsense_is_named(step, message):
    with pytest.raises(ValueError, match=message):
        ls.simulate(ls.envs.Simulator(step, **SIZE), ALGORITHMS[0], episodes=3, seeds=1)


def test_refusals_name_the_way_out():
    with pytest.raises(
        ValueError, match=r"lowswitch.envs.Simulator\(step.*concurrent.System\(play"
    ):
        ls.simulate(swim, ALGORITHMS[0], episodes=3)
    with pytest.raises(ValueError, match="step must be a function"):
        ls.envs.Simulator(3, **SIZE)
    with pytest.raises(ValueError, match="is played on the CPU"):
        ls.simulate(RIVER, ALGORITHMS[0], episodes=3, device="gpu")


@pytest.mark.parametrize(("known", "rewards"), [(10.0, (0, 1)), (-0.1, (0, 1)), (3.5, (-1, 0.5))])
def test_an_optimal_value_that_no_episode_can_earn_is_refused(known, rewards):
    size = {"horizon": 3, "states": 6, "actions": 2}
    with pytest.raises(ValueError, match=r"can earn .* so optimal_value cannot be"):
        ls.envs.Simulator(swim, **size, optimal_value=known, reward_range=rewards)
    ls.envs.Simulator(swim, **size, optimal_value=3 * rewards[1] + 1e-12, reward_range=rewards)
