"""`learn` with features: the same driver, results, callbacks and files as with tables."""

from __future__ import annotations

import csv
import importlib
import sys

import gymnasium
import numpy as np
import pytest

import lowswitch as ls
from lowswitch import features
from lowswitch.envs.gymnasium import (
    CsvLogger,
    EnvironmentRun,
    evaluate_policy,
    learn,
    learn_features,
    learner_for,
    play_episode,
    record,
)

FEW, H = ls.few(deployments=3), 10
EXAMPLES = np.random.default_rng(0).normal(size=(50, 4)) * [1, 1, 0.1, 1]
MAP = features.polynomial(EXAMPLES, degree=2)


def scaled(rows):
    """Features of one's own that a module defines."""
    return rows * 2.0


def cart(**options):
    return gymnasium.make("CartPole-v1", **options)


def carts(size):
    return gymnasium.make_vec("CartPole-v1", num_envs=size, vectorization_mode="sync")


@pytest.fixture(scope="module")
def played():
    return learn("CartPole-v1", FEW, features=MAP, horizon=H, episodes=30, seed=2, reseed=True)


def test_learn_features_is_a_name_of_learn(played):
    again = learn_features("CartPole-v1", FEW, features=MAP, horizon=H, episodes=30, seed=2)
    assert again.learner.digest() == played.learner.digest()
    assert again.returns.tolist() == played.returns.tolist()
    assert len(repr(again)) < 400


def test_a_vector_of_environments_learns_the_same(played):
    vector = carts(4)
    together = learn(vector, FEW, features=MAP, horizon=H, episodes=30, seed=2)
    assert together.learner.digest() == played.learner.digest()
    np.testing.assert_array_equal(together.returns, played.returns)
    assert [one.episode for one in together.deployed] == [one.episode for one in played.deployed]
    vector.close()


def test_two_parts_are_the_whole_through_a_file(played, tmp_path):
    learner = learner_for("CartPole-v1", FEW, features=MAP, horizon=H, episodes=30, seed=2)
    first = learn("CartPole-v1", learner, episodes=12, reseed=True)
    first.save(tmp_path / "first.npz")
    again = EnvironmentRun.load(tmp_path / "first.npz")
    second = learn("CartPole-v1", again, episodes=18, reseed=True)
    assert second.learner.digest() == played.learner.digest()
    joined = np.append(first.returns, second.returns)
    np.testing.assert_array_equal(joined, played.returns)
    assert [one.policy.identity for one in (*first.deployed, *second.deployed)] == [
        one.policy.identity for one in played.deployed
    ]


def test_a_run_is_a_frame_a_table_a_figure_and_a_file(played, tmp_path):
    frame = played.to_dataframe("pandas")
    assert frame["return"].tolist() == played.returns.tolist()
    assert frame["deployments"].iloc[-1] == played.history.deployments == 3
    text = str(played.summary())
    assert f"CartPole-v1: d = {MAP.size}, A = 2, H = 10" in text
    assert "deployments=3" in played.to_latex()
    played.to_csv(tmp_path / "run.csv")
    assert len(played.plot(tmp_path / "run.png").axes) == 2
    played.save(tmp_path / "run.npz")
    found = EnvironmentRun.load(tmp_path / "run.npz")
    assert str(found.summary()) == text
    assert found.learner.digest() == played.learner.digest()
    assert found.deployed[-1].policy.identity == played.deployed[-1].policy.identity


def test_callbacks_hear_of_episodes_and_deployments(tmp_path):
    seen = []
    run = learn(
        cart(),
        FEW,
        features=MAP,
        horizon=H,
        episodes=20,
        callbacks=[seen.append, CsvLogger(tmp_path / "log.csv")],
    )
    assert [end.earned for end in seen] == run.returns.tolist()
    assert sum(end.switch is not None for end in seen) == run.history.deployments
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert int(rows[-1]["deployments"]) == run.learner.deployments


def test_a_learner_with_features_is_evaluated_recorded_and_predicts(played, tmp_path):
    played.learner.save(tmp_path / "learner.npz")
    loaded = ls.Learner.load(tmp_path / "learner.npz")
    found = evaluate_policy(cart(), loaded, episodes=5, seed=1)
    assert (
        found.returns.tolist()
        == evaluate_policy(carts(3), played, episodes=5, seed=1).returns.tolist()
    )
    policy = played.learner.policy
    direct = evaluate_policy(cart(), policy, episodes=5, seed=1, features=MAP)
    assert direct.lengths.max() <= H
    with pytest.raises(ValueError, match="a LinearPolicy plays by features; give features="):
        evaluate_policy(cart(), policy)
    observation, _ = cart().reset(seed=3)
    assert loaded.predict(observation, 4) == played.learner.act(MAP(observation), 4).action
    several = np.stack([observation, -observation])
    assert loaded.predict(several, 0).tolist() == [loaded.predict(one, 0) for one in several]


class Drawn(gymnasium.Env):
    """A place on a line, which the action moves, drawn as a grey pixel."""

    observation_space = gymnasium.spaces.Box(-5, 5, (1,))
    action_space = gymnasium.spaces.Discrete(2, start=1)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.place = np.zeros(1, dtype=np.float32)
        return self.place, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.place = self.place + 2 * action - 3
        return self.place, float(action), False, False, {}

    def render(self):
        return np.full((2, 2, 3), int(10 * self.place[0] + 100), dtype=np.uint8)


def test_a_learner_with_features_is_recorded(tmp_path):
    line = features.polynomial([[-1.0], [0.0], [1.0]], degree=1)
    run = learn(Drawn(), FEW, features=line, horizon=4, episodes=9)
    episode = record(Drawn(), run, tmp_path / "line.gif")
    assert episode.states.shape == (4, 2)
    assert (tmp_path / "line.gif").stat().st_size > 0
    assert run.learner.predict(np.zeros(1), 0) == episode.actions[0] + 1


def test_an_episode_of_a_learner_with_features_can_be_told():
    learner = learner_for(cart(), FEW, features=MAP, horizon=40, episodes=5)
    episode = play_episode(cart(), learner, seed=3)
    over = int(episode.rewards.sum())
    assert over < 40
    assert (episode.actions[over:] == -1).all()
    learner.tell(*episode)
    assert learner.told == 1


@pytest.mark.parametrize(
    "made",
    [
        features.standardised(EXAMPLES),
        features.standardised(EXAMPLES, constant=False),
        features.polynomial(EXAMPLES, degree=3),
        features.fourier(EXAMPLES, size=7, scale=2.0, seed=4),
        features.own(scaled, size=4, inputs=4),
    ],
    ids=str,
)
def test_the_features_are_in_the_file_to_the_bit(made, tmp_path):
    learner = learner_for(cart(), FEW, features=made, horizon=3, episodes=9)
    learner.save(tmp_path / "learner.npz")
    found = ls.Learner.load(tmp_path / "learner.npz").spaces.observations
    assert (found(EXAMPLES) == made(EXAMPLES)).all()
    assert found.to_dict() == made.to_dict()


def test_one_hot_features_see_a_discrete_environment():
    lake = gymnasium.make("FrozenLake-v1")
    run = learn(lake, FEW, features=features.one_hot(16), horizon=4, episodes=9)
    assert run.learner.shape.features == 16
    assert run.learner.predict(3, 0) == run.learner.act(np.eye(16)[3], 0).action


def test_a_function_that_is_not_found_again_is_named_and_can_be_given(tmp_path):
    made = features.own(lambda rows: rows + 1.0, size=4, inputs=4)
    learner = learner_for(cart(), FEW, features=made, horizon=3, episodes=9)
    learner.save(tmp_path / "learner.npz")
    loaded = ls.Learner.load(tmp_path / "learner.npz")
    with pytest.raises(
        ValueError, match=r"needs the feature function .*lambda.* learner.spaces.use"
    ):
        loaded.predict(EXAMPLES[0], 0)
    with pytest.raises(ValueError, match="restore the function as it was"):
        loaded.spaces.use(features.own(scaled, size=4, inputs=4))
    with pytest.raises(ValueError, match="this learner sees"):
        loaded.spaces.use(MAP)
    loaded.spaces = loaded.spaces.use(made)
    assert loaded.predict(EXAMPLES[0], 0) == learner.predict(EXAMPLES[0], 0)


def test_a_function_whose_source_has_changed_is_not_taken_for_it(tmp_path, monkeypatch):
    learner = learner_for(
        cart(), FEW, features=features.own(scaled, size=4, inputs=4), horizon=3, episodes=9
    )
    learner.save(tmp_path / "learner.npz")
    monkeypatch.setitem(globals(), "scaled", test_one_hot_features_see_a_discrete_environment)
    with pytest.raises(ValueError, match="scaled of the module .*: its source has changed"):
        ls.Learner.load(tmp_path / "learner.npz").predict(EXAMPLES[0], 0)


def test_a_file_decides_of_no_code_that_is_run(tmp_path, monkeypatch):
    """A module is not imported because a file names it, and is found once it was imported."""
    (tmp_path / "mine_of_the_test.py").write_text("def double(rows):\n    return rows * 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("mine_of_the_test")
    made = features.own(mine.double, size=4, inputs=4)
    learner = learner_for(cart(), FEW, features=made, horizon=3, episodes=9)
    learner.save(tmp_path / "learner.npz")
    monkeypatch.delitem(sys.modules, "mine_of_the_test")
    loaded = ls.Learner.load(tmp_path / "learner.npz")
    with pytest.raises(ValueError, match="which is not found: import mine_of_the_test first"):
        loaded.predict(EXAMPLES[0], 0)
    assert "mine_of_the_test" not in sys.modules
    monkeypatch.setitem(sys.modules, "mine_of_the_test", mine)
    assert loaded.predict(EXAMPLES[0], 0) == learner.predict(EXAMPLES[0], 0)


def test_rewards_may_be_any_numbers_unless_a_range_is_given():
    dear = gymnasium.wrappers.TransformReward(cart(), lambda reward: 50 * reward)
    run = learn(dear, FEW, features=MAP, horizon=3, episodes=4)
    assert run.returns.max() == 150
    with pytest.raises(ValueError, match=r"paid 50 at step 0, outside of reward_range=\(0, 1\)"):
        learn(dear, FEW, features=MAP, horizon=3, episodes=4, reward_range=(0, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 3}, "made by lowswitch.features, such as standardised, or own"),
        (
            {"features": features.standardised(EXAMPLES[:, :3])},
            "standardised features are of 3 numbers, and the environment observes 4",
        ),
    ],
)
def test_what_cannot_be_seen_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        learn(cart(), FEW, horizon=3, episodes=4, **options)


def test_a_learner_of_another_map_is_refused(played):
    learner = learner_for(cart(), FEW, features=MAP, horizon=H, episodes=9)
    with pytest.raises(ValueError, match=r"has 15 features and 2 actions, and the environment 5"):
        learn(cart(), learner, features=features.standardised(EXAMPLES), episodes=2)
    plain = ls.Learner(FEW, features=15, actions=2, horizon=H, episodes=9)
    with pytest.raises(
        ValueError, match="sees features, but has no map that makes them; give features"
    ):
        learn(cart(), plain, episodes=2)
    learn(cart(), plain, features=MAP, episodes=2)
    assert plain.predict(np.zeros(4), 0) in (0, 1)


def test_a_function_of_one_observation_is_explained():
    made = features.own(lambda row: np.array([row[0], row[3]]), size=2, inputs=4)
    with pytest.raises(ValueError, match=r"takes observations \[n, D\].*raised IndexError"):
        made(np.zeros((2, 4)))
