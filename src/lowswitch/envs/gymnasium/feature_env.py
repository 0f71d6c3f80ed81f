"""Gymnasium environments with `Box` observations as problems, which a learner sees by features."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from lowswitch.envs.gymnasium.factory import environment
from lowswitch.envs.gymnasium.playing import play, require_limit, require_single, reset_seed
from lowswitch.envs.gymnasium.spaces import gymnasium, spaces_of
from lowswitch.features.maps import Features
from lowswitch.features.problem import FeatureProblem, PlayedEpisodes
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape


class Environment(FeatureProblem):
    """An environment whose learner sees features of its observations, for H steps per episode.

    Actions must be discrete. Episode k of a seed is reset with its own number, so every driver
    plays the same episode. An episode that ends early earns nothing more. An environment that
    truncates before the horizon is an error. Regret is unknown, and NaN.

    Parameters
    ----------
    env
        The environment.
    features
        A map of `ls.features`.
    horizon
        H.
    """

    knows_regret = False

    def __init__(
        self, env: gymnasium.Env[Any, Any] | str, features: Features, *, horizon: int
    ) -> None:
        self.env = environment(env)
        require_single(self.env)
        self.spaces, self.features = spaces_of(self.env, features), features
        self.shape = Shape.of(horizon, features.size, self.spaces.actions.size, True)
        require_limit(self.env, self.shape.horizon)
        self.name = str(self.env.spec.id if self.env.spec is not None else self.env)
        self._playing = threading.Lock()  # there is one environment, whoever plays it

    def facts(self) -> dict[str, Any]:
        """The facts that identify it; of your own features only the size is known."""
        options = self.env.spec.kwargs if self.env.spec is not None else {}
        return super().facts() | {"features": repr(self.features), "options": repr(options)}

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        with self._playing:
            return self._play(policy, seed, first, last)

    def _play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        episodes = [
            play(self.env, self.spaces, policy.script(k), reset_seed(seed, k)).episode
            for k in range(first, last)
        ]
        n, H, d = last - first, self.shape.horizon, self.shape.features
        x, actions, rewards = (np.array(column) for column in zip(*episodes, strict=True))
        return PlayedEpisodes(x.reshape(n, H, 1, d), actions, rewards, np.full(n, np.nan))
