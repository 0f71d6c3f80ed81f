"""Environments that a learner sees by features, and rounds of machines."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import learner_for
from lowswitch import features
from lowswitch.features import problems
from lowswitch.io import storage

gymnasium = pytest.importorskip("gymnasium", reason="the extra gymnasium installs it")
from lowswitch.envs.gymnasium import Environment, learn_features  # noqa: E402


def cart_pole():
    examples = np.random.default_rng(0).normal(size=(50, 4)) * [1, 1, 0.1, 1]
    return Environment("CartPole-v1", features.standardised(examples), horizon=12)


def test_a_learner_plays_an_environment_by_features():
    problem = cart_pole()
    found = learn_features(
        "CartPole-v1",
        ls.few(deployments=3),
        features=problem.features,
        horizon=12,
        episodes=2e1,  # a whole number, however it is written
        progress=False,
    )
    assert len(found.returns) == found.learner.episodes == 20
    assert len(found.deployed) == found.learner.deployments == 3
    assert ((found.returns >= 8) & (found.returns <= 12)).all()
    runs = ls.simulate(problem, ls.few(deployments=3), episodes=20, seeds=[0], progress=False)
    assert runs.earned[0] == found.returns.sum()
    assert np.isnan(runs.regret).all()


@pytest.mark.parametrize("rule", ["trigger", "switch"])
@pytest.mark.parametrize("machines", [1, 7, 64])
@pytest.mark.parametrize(
    "algorithm",
    [ls.linear(members=4, deployments=5), ls.linucb(schedule="determinant/1.5")],
    ids=str,
)
def test_machines_are_the_sequential_run_to_the_bit(algorithm, machines, rule):
    problem = problems.linear_mdp(features=3, states=4, actions=2, horizon=3)
    run = ls.concurrent.run(
        problem, algorithm, 100, machines=machines, rule=rule, seed=2, progress=False
    )
    learner = learner_for(problem, algorithm, 100, 2)
    for k in range(100):
        played = problem.play(learner.policy, 2, k, k + 1)
        learner.tell(played.x, played.actions, played.rewards)
    assert run.learner.digest() == learner.digest()
    assert run.rounds >= 100 / machines
    if machines == 1:
        assert (run.thrown_away, run.rounds) == (0, 100)
    sequential = ls.simulate(problem, algorithm, episodes=100, seeds=[2], progress=False)
    assert run.regret == pytest.approx(sequential.regret[0], rel=1e-12)


def test_rounds_with_features_are_a_concurrent_run(tmp_path):
    problem = problems.linear_mdp(features=3, states=4, actions=2, horizon=3)
    run = ls.concurrent.run(problem, ls.few(deployments=3), 60, machines=7, seed=2, progress=False)
    assert run.learner.told == run.kept == 60
    assert "problem    d = 3, A = 2, H = 3" in str(run.summary())
    assert f"{run.thrown_away} of {run.played} played were thrown away" in str(run.summary())
    run.save(tmp_path / "run.npz")
    back = ls.concurrent.load(tmp_path / "run.npz")
    assert (back.to_dict(), back.learner) == (run.to_dict(), None)
    sequential = ls.simulate(problem, ls.few(deployments=3), episodes=60, seeds=[2], progress=False)
    assert (back.curves.deployments == sequential.curves.deployments).all()
    assert back.fingerprint == sequential.fingerprint


def test_rounds_on_an_environment_and_their_doors():
    run = ls.concurrent.run(
        cart_pole(), ls.few(deployments=3), 20, machines=4, seed=0, progress=False
    )
    runs = ls.simulate(cart_pole(), ls.few(deployments=3), episodes=20, seeds=[0], progress=False)
    assert run.earned == runs.earned[0]
    with pytest.raises(ValueError, match="the regret of an episode of .* is unknown"):
        ls.frontier(cart_pole(), episodes=9)
    with pytest.raises(ValueError, match='rule must be "trigger" or "switch"'):
        ls.concurrent.run(cart_pole(), ls.linear(), 20, machines=4, rule="speculate")
    with pytest.raises(ValueError, match="rounds with features run in this process"):
        ls.concurrent.run(cart_pole(), ls.linear(), 20, machines=4, regret=False)
    with pytest.raises(ValueError, match="save_every must be a number of seconds"):
        ls.concurrent.run(cart_pole(), ls.linear(), 20, machines=4, save_every=-1)


class Failing(problems.LinearBandit):
    """A problem whose power goes off at an episode, as often as it is asked to."""

    fails = 0

    def play(self, policy, seed, first, last):
        if first >= 40 and self.fails:
            self.fails -= 1
            raise RuntimeError("the power is off")
        return super().play(policy, seed, first, last)


def failing(fails):
    weights = np.array([[1.0, 0.5]])
    made = Failing(weights, actions=3, shared=False, noise=0.5)
    type(made).fails = fails
    return made


@pytest.mark.parametrize("rule", ["trigger", "switch"])
def test_rounds_go_on_from_a_checkpoint_to_the_bit(rule, tmp_path):
    algorithm, path = ls.linear(members=4, deployments=6), tmp_path / "run.npz"
    options = {"machines": 7, "rule": rule, "seed": 3, "progress": False}
    straight = ls.concurrent.run(failing(0), algorithm, 100, **options)
    problem = failing(1)
    with pytest.raises(RuntimeError, match="the power is off"):
        ls.concurrent.run(problem, algorithm, 100, **options, checkpoint=path)
    resumed = ls.concurrent.run(problem, algorithm, 100, **options, checkpoint=path)
    again = ls.concurrent.run(problem, algorithm, 100, **options, checkpoint=path)  # nothing left
    for run in (resumed, again):
        assert run.learner.digest() == straight.learner.digest()
        assert (run.curves.regret == straight.curves.regret).all()
        for name in ("rounds", "thrown_away", "regret", "earned", "deployments"):
            assert getattr(run, name) == getattr(straight, name)
    with pytest.raises(ValueError, match="to a run with another machines and seed"):
        ls.concurrent.run(
            problem, algorithm, 100, **options | {"machines": 8, "seed": 4}, checkpoint=path
        )
    with pytest.raises(ValueError, match="to a run with another problem"):
        ls.concurrent.run(problems.fixed_arms(), algorithm, 100, **options, checkpoint=path)
    with pytest.raises(ValueError, match="no complete linear rounds checkpoint"):
        facts, arrays = storage.read(path, "linear rounds checkpoint")
        storage.write(path, "linear rounds checkpoint", facts, arrays | {"regret": np.zeros(3)})
        ls.concurrent.run(problem, algorithm, 100, **options, checkpoint=path)


def test_environments_are_told_apart_by_their_features():
    other = Environment("CartPole-v1", features.fourier(np.eye(4), size=4), horizon=12)
    assert cart_pole().facts() == cart_pole().facts() != other.facts()


@pytest.mark.parametrize(
    ("chosen", "horizon", "message"),
    [
        (3, 9, "made by lowswitch.features, such as standardised, or own .* not 3"),
        (features.one_hot(3), 501, "truncates after 500 steps, before the horizon 501"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused(chosen, horizon, message):
    with pytest.raises(ValueError, match=message):
        Environment("CartPole-v1", chosen, horizon=horizon)
