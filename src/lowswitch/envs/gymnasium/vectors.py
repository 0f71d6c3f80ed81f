"""Players of episodes: one environment, or a vector of them with the same results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowswitch.envs.gymnasium.bridge import (
    Episode,
    numbers_of,
    play_episode,
    require_last_step,
    reset_seed,
)
from lowswitch.envs.gymnasium.spaces import gymnasium


class SinglePlayer:
    """Plays one episode after the other in one environment."""

    size = 1  # episodes that are played at once

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, first_seed: int | None, episode_seed: int | None
    ) -> None:
        """first_seed: of the first reset alone. episode_seed: every episode gets its own number."""
        self.env, self._next, self._seed = env, first_seed, episode_seed

    def play(self, policies: Sequence[np.ndarray], first: int) -> list[Episode]:
        """Play the episodes from number `first` on, each by its policy."""
        played = []
        for k, policy in enumerate(policies, first):
            seed = self._next if self._seed is None else reset_seed(self._seed, k)
            self._next = None
            played.append(play_episode(self.env, policy, seed=seed))
        return played


class VectorPlayer:
    """Plays as many episodes at once as a vector environment has parts.

    All parts are reset together, each with the number of its episode. So an episode is the same as
    in a single environment that is reset with that number. What a part does after its episode is
    over, a reset among it, is no data.
    """

    def __init__(self, env: Any, *, episode_seed: int) -> None:
        self.env, self.size, self._seed = env, int(env.num_envs), episode_seed
        if env.metadata.get("autoreset_mode") is gymnasium.vector.AutoresetMode.DISABLED:
            raise ValueError(
                "this vector environment does not reset its parts, so that none can play on while"
                " another one is over; make it with autoreset_mode=AutoresetMode.NEXT_STEP"
            )

    def play(self, policies: Sequence[np.ndarray], first: int) -> list[Episode]:
        """Play the episodes from number `first` on, each by its policy; at most `size` of them."""
        numbers, n = numbers_of(self.env), self.size
        for policy in policies:
            numbers.require_policy(policy)
        tables = np.stack([policies[min(i, len(policies) - 1)] for i in range(n)])
        S, H = numbers.states.size, tables.shape[1]
        states, rewards = np.full((n, H), S), np.zeros((n, H))
        over = np.arange(n) >= len(policies)  # a part without an episode has nothing to say
        observations, _ = self.env.reset(seed=[reset_seed(self._seed, first + i) for i in range(n)])
        for h in range(H):
            seen = gymnasium.vector.utils.iterate(self.env.observation_space, observations)
            for i, observation in enumerate(seen):
                if not over[i]:
                    states[i, h] = numbers.state(observation, h)
            chosen = tables[np.arange(n), h, states[:, h]]
            observations, paid, terminated, truncated, _ = self.env.step(self._batch(chosen))
            rewards[~over, h] = paid[~over]
            if (truncated & ~terminated & ~over).any():
                require_last_step(h, H)
            over = over | terminated
            if over.all():
                break
        steps = np.arange(H)
        return [
            Episode(states[i], tables[i, steps, states[i]], rewards[i])
            for i in range(len(policies))
        ]

    def _batch(self, actions: np.ndarray) -> Any:
        """The actions of all parts, as the vector environment takes them."""
        space, numbering = self.env.single_action_space, numbers_of(self.env).actions
        elements = [numbering.element(int(action)) for action in actions]
        empty: Any = gymnasium.vector.utils.create_empty_array(space, n=self.size)
        return gymnasium.vector.utils.concatenate(space, elements, empty)


Player = SinglePlayer | VectorPlayer


def is_vector(env: Any) -> bool:
    """Whether it is a vector of environments."""
    return isinstance(env, gymnasium.vector.VectorEnv)


def player_of(env: Any, *, first_seed: int | None, episode_seed: int | None) -> Player:
    """The player for an environment; a vector environment has a seed for each episode."""
    if not is_vector(env):
        return SinglePlayer(env, first_seed=first_seed, episode_seed=episode_seed)
    assert episode_seed is not None
    return VectorPlayer(env, episode_seed=episode_seed)
