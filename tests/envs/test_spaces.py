"""A learner carries the spaces of its environment: it predicts the environment's own actions."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import lowswitch as ls
from lowswitch.envs.gymnasium import evaluate_policy, learn, learner_for, spaces_of
from lowswitch.policy.spaces import Numbering, Spaces

S = gymnasium.spaces
ALGORITHM = ls.psrl(members=3, schedule="growth/2")


class Echo(gymnasium.Env):
    """Observes an element of a space at random, and pays 1 if the number of the action is even."""

    def __init__(self, observed, taken):
        self.observation_space, self.action_space = observed, taken

    def _observe(self):
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        even = spaces_of(self).actions.number(action) % 2 == 0
        return self._observe(), float(even), False, False, {}


PARTS = {
    "shifted": (S.Discrete(3, start=1), S.Discrete(3, start=-1)),
    "far": (S.Discrete(5, start=10), S.Discrete(2)),
    "array": (S.MultiDiscrete([2, 3]), S.MultiDiscrete([2, 2], start=[1, 0])),
    "binary": (S.MultiBinary(3), S.MultiBinary(2)),
    "tuple": (S.Tuple((S.Discrete(4), S.Discrete(2, start=1))), S.Discrete(3)),
    "dict": (
        S.Dict({"b": S.Discrete(2), "a": S.MultiDiscrete([2, 2])}),
        S.Dict({"y": S.Discrete(2, start=5), "x": S.Tuple((S.Discrete(2), S.Discrete(2)))}),
    ),
}


@pytest.fixture(params=PARTS)
def env(request):
    return Echo(*PARTS[request.param])


def earned_by_predictions(env, learner, seed):
    """What the loop of the page earns in the next episode."""
    total, (observation, _) = 0.0, env.reset(seed=seed)
    for step in range(learner.horizon):
        action = learner.predict(observation, step)
        observation, reward, terminated, _, _ = env.step(action)
        total += reward
        if terminated:
            break
    return total


def test_predictions_earn_what_learn_earns_and_so_does_a_file(env, tmp_path):
    learner = learner_for(env, ALGORITHM, horizon=4, episodes=30, seed=5)
    learn(env, learner, episodes=20)
    learner.save(tmp_path / "learner.npz")
    loaded = ls.Learner.load(tmp_path / "learner.npz")
    assert loaded.spaces == learner.spaces == spaces_of(env, None, (0, 1))
    assert loaded.digest() == learner.digest()
    for one in (learner, loaded):
        assert earned_by_predictions(env, one, 7) == learn(env, one, episodes=1, seed=7).returns[0]


def test_spaces_are_not_what_learning_goes_on_from(tmp_path):
    env = Echo(*PARTS["shifted"])
    learner = learner_for(env, ALGORITHM, horizon=2, episodes=9)
    digest = learner.digest()
    learner.spaces = None
    assert learner.digest() == digest
    learner.save(tmp_path / "plain.npz")
    assert ls.Learner.load(tmp_path / "plain.npz").spaces is None


def test_an_observation_outside_of_the_space_is_refused():
    learner = learner_for(Echo(*PARTS["tuple"]), ALGORITHM, horizon=2, episodes=9)
    assert learner.predict((3, 2), 0) in range(3)
    for outside in ((40, 1), (3, 0), 3, [3, 2], {"a": 3}):
        with pytest.raises(ValueError, match=r"outside of its observations, Tuple\(Discrete\(4\)"):
            learner.predict(outside, 0)
    named = learner_for(Echo(*PARTS["dict"]), ALGORITHM, horizon=2, episodes=9)
    with pytest.raises(ValueError, match=r"Dict\('a': MultiDiscrete\(\[2, 2\]\), 'b'"):
        named.predict({"b": 0}, 0)


def test_several_observations_are_an_array_with_one_more_axis():
    env = Echo(*PARTS["array"])
    learner = learner_for(env, ALGORITHM, horizon=1, episodes=9)
    several = np.array([[0, 0], [1, 2], [0, 1]])
    one_by_one = [learner.predict(row) for row in several]
    assert all(env.action_space.contains(action) for action in one_by_one)
    np.testing.assert_array_equal(learner.predict(several), one_by_one)


def test_blackjack_is_predicted_for_by_what_it_observes():
    learner = learner_for("Blackjack-v1", ALGORITHM, horizon=4, episodes=9, reward_range=(-1, 1))
    assert learner.predict((11, 10, 0), 0) in (0, 1)
    with pytest.raises(ValueError, match=r"\(40, 1, 0\) is outside of its observations"):
        learner.predict((40, 1, 0), 0)


def test_an_old_learner_gets_its_spaces_from_the_environment():
    env = Echo(*PARTS["shifted"])
    learner = ls.Learner(
        ALGORITHM, horizon=2, states=4, actions=3, episodes=9, actions_allowed=allowed(3, 3)
    )
    assert learner.predict(3, 0) in range(3)  # by its numbers
    learner.spaces = spaces_of(env)
    assert env.action_space.contains(learner.predict(3, 0))
    learner.spaces = None
    learn(env, learner, episodes=2)
    assert learner.spaces.rewards == ls.envs.mdp.Scale(0, 1)


def allowed(states, actions):
    mask = np.ones((states + 1, actions), dtype=bool)
    mask[states, 1:] = False
    return mask


def test_an_environment_of_other_spaces_is_refused_though_its_size_is_the_same():
    env = Echo(*PARTS["shifted"])
    learner = learner_for(env, ALGORITHM, horizon=2, episodes=9)
    other = Echo(S.Discrete(3), S.Discrete(3, start=-1))
    with pytest.raises(ValueError, match=r"knows the observations Discrete\(3, start=1\), and the"):
        learn(other, learner, episodes=2)
    assert learner.told == 0


def test_the_loop_of_the_page_earns_what_an_evaluation_says():
    class Right(Echo):
        """Pays 1 for the action that is one below what is observed."""

        def reset(self, *, seed=None, options=None):
            self.seen = 2
            return 2, {}

        def step(self, action):
            paid, self.seen = float(action == self.seen - 2), 1 + (self.seen % 3)
            return self.seen, paid, False, False, {}

    env = Right(*PARTS["shifted"])
    run = learn(env, ls.ucb2_bernstein(c=0.005), horizon=3, episodes=400)
    assert evaluate_policy(env, run, episodes=3).returns.tolist() == [3, 3, 3]
    assert earned_by_predictions(env, run.learner, None) == 3


def test_spaces_are_json(env):
    spaces = spaces_of(env, None, (-1, 2))
    data = spaces.to_dict()
    assert Spaces.from_dict(data, Numbering.from_dict) == spaces
    assert "rewards -1 to 2" in repr(spaces)


def test_a_missing_space_is_named():
    class Half(gymnasium.Env):
        action_space = S.Discrete(2)

        def step(self, action):
            raise AssertionError

    with pytest.raises(ValueError, match="has no observation_space; set it in its __init__"):
        learn(Half(), ALGORITHM, horizon=2, episodes=2)
