"""Gymnasium environments with `Box` observations, which a learner sees by features."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import shown
from lowswitch.envs.gymnasium.bridge import environment, reset_seed
from lowswitch.envs.gymnasium.spaces import Numbering, gymnasium
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.maps import Features
from lowswitch.features.problem import FeatureProblem, PlayedEpisodes
from lowswitch.learners.ridge import Deployment
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape
from lowswitch.show.progress import Progress

_REDRAW_SECONDS = 0.1


class Environment(FeatureProblem):
    """An environment whose learner sees features of its observations, for H steps an episode.

    features: a function of `ls.features`. Actions must be discrete. Episode k of a seed is reset
    with a number of its own, so that it is the same whoever plays it. An episode that ends early
    is over: nothing is paid after it. An environment that truncates before the horizon is an error.
    Regret is not known, and NaN.
    """

    knows_regret = False

    def __init__(
        self, env: gymnasium.Env[Any, Any] | str, features: Features, *, horizon: int
    ) -> None:
        self.env = environment(env)
        if not isinstance(features, Features):
            raise ValueError(
                "features must be made by lowswitch.features, such as standardised, or own for a"
                f" function of yours, not {shown(features)}"
            )
        self.features = features
        self._numbers = Numbering(self.env.action_space, "actions")
        self.shape = Shape.of(horizon, features.size, self._numbers.size, True)
        limit = self.env.spec.max_episode_steps if self.env.spec is not None else None
        if limit is not None and limit < self.shape.horizon:
            raise ValueError(
                f"the environment truncates after {limit} steps, before the horizon {horizon}; ask"
                f" for horizon={limit} or less, or make it with max_episode_steps={horizon}"
            )
        self.name = str(self.env.spec.id if self.env.spec is not None else self.env)
        self._playing = threading.Lock()  # there is one environment, whoever plays it

    def facts(self) -> dict[str, Any]:
        """What tells it apart; of features of one's own only their size is known."""
        options = self.env.spec.kwargs if self.env.spec is not None else {}
        return super().facts() | {"features": repr(self.features), "options": repr(options)}

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        with self._playing:
            return self._play(policy, seed, first, last)

    def _play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        n, H = last - first, self.shape.horizon
        x = np.zeros((n, H, 1, self.shape.features))
        actions, rewards = np.full((n, H), -1, dtype=np.int64), np.zeros((n, H))
        for i, k in enumerate(range(first, last)):
            observation, _ = self.env.reset(seed=reset_seed(seed, k))
            for h in range(H):
                x[i, h, 0] = self.features(np.ravel(observation))
                actions[i, h] = policy.act(x[i, h, 0], k, h).action
                action = self._numbers.element(int(actions[i, h]))
                observation, reward, terminated, truncated, _ = self.env.step(action)
                rewards[i, h] = reward
                if terminated:
                    break
                if truncated and h + 1 < H:
                    raise ValueError(
                        f"the environment truncated the episode after {h + 1} steps; ask for"
                        f" horizon={h + 1} or less"
                    )
        return PlayedEpisodes(x, actions, rewards, np.full(n, np.nan))


class PlayedFeatures(NamedTuple):
    """What came out of `learn_features`."""

    learner: FeatureLearner
    returns: np.ndarray  # [K]  sums of rewards
    deployed: tuple[Deployment, ...]


def learn_features(
    env: gymnasium.Env[Any, Any] | str,
    algorithm: Algorithm,
    *,
    features: Features,
    horizon: int,
    episodes: int,
    seed: int = 0,
    progress: bool | None = None,
) -> PlayedFeatures:
    """Let a new learner play `episodes` episodes of an environment that it sees by features.

    It is for few steps; for many see `examples/cartpole.py`.
    """
    problem = Environment(env, features, horizon=horizon)
    shape: Any = problem.shape._asdict()
    learner = FeatureLearner(algorithm, **shape, episodes=episodes, seed=seed)
    episodes = learner.episodes
    returns, drawn = np.zeros(episodes), 0.0
    deployed: list[Deployment] = []
    with Progress(episodes, unit="episodes", show=progress, label=str(algorithm)) as bar:
        for k in range(episodes):
            played = problem.play(learner.policy, seed, k, k + 1)
            returns[k] = played.rewards.sum()
            made = learner.tell(played.x[:, :, 0], played.actions, played.rewards)
            deployed += made or ()
            if time.perf_counter() - drawn > _REDRAW_SECONDS or k + 1 == episodes:
                drawn = time.perf_counter()
                bar.update(k + 1)
    return PlayedFeatures(learner, returns, tuple(deployed))
