"""A problem as a Gymnasium environment; importing this module registers every named problem.

`gymnasium.make("lowswitch.envs.gymnasium:lowswitch/DeepSea-v0", size=20)` makes one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.envs.catalogue import PROBLEMS
from lowswitch.envs.gymnasium.spaces import gymnasium
from lowswitch.envs.mdp import TabularMDP


class TabularEnv(gymnasium.Env[Any, Any]):
    """A TabularMDP as an environment, with rewards in the problem's own units.

    An episode is truncated after H steps. `info["step"]` is the step about to be played, from 0:
    where tables differ by step, a policy needs it beside the state. A start sequence is followed
    from its beginning after each `reset(seed=...)`.

    Parameters
    ----------
    mdp
        The problem.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.observation_space = gymnasium.spaces.Discrete(mdp.states)
        self.action_space = gymnasium.spaces.Discrete(mdp.actions)
        self._state, self._step, self._episode = 0, mdp.horizon, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode = 0 if seed is not None else self._episode
        self._state, self._step = self._first_state(), 0
        self._episode += 1
        return self._state, {"step": 0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        mdp, h, x = self.mdp, self._step, self._state
        if h == mdp.horizon:
            raise gymnasium.error.ResetNeeded(
                f"the episode is over after {h} steps or has not begun; call reset first"
            )
        if not (0 <= action < mdp.actions and mdp.actions_allowed[h, x, action]):
            allowed = np.flatnonzero(mdp.actions_allowed[h, x]).tolist()
            raise ValueError(
                f"action {action} is not allowed at step {h} in state {x}; choose among {allowed}"
            )
        rewards = mdp.rewards if mdp.rewards.ndim == 2 else mdp.rewards[h]
        reward = float(rewards[x, action])
        if mdp.reward_law == "bernoulli":
            reward = float(self.np_random.random() < reward)
        row = ((0 if mdp.stationary else h) * mdp.states + x) * mdp.actions + int(action)
        nonzeros = slice(mdp.offsets[row], mdp.offsets[row + 1])
        self._state = int(mdp.successors[nonzeros][self._draw(mdp.probabilities[nonzeros])])
        self._step += 1
        paid, over = float(mdp.scale.to_value(reward, 1)), self._step == mdp.horizon
        return self._state, paid, False, over, {"step": self._step}

    def _first_state(self) -> int:
        starts = self.mdp.start_sequence
        if not len(starts):
            return self._draw(self.mdp.start_law)
        if self._episode == len(starts):
            raise ValueError(
                f"the start sequence ends after {len(starts)} episodes; lengthen it, or begin again"
                " with reset(seed=...)"
            )
        return int(starts[self._episode])

    def _draw(self, law: np.ndarray) -> int:
        cumulated = np.cumsum(law)
        drawn = self.np_random.random() * cumulated[-1]
        return int(np.searchsorted(cumulated, drawn, side="right"))


def problem_env(problem: str, **options: Any) -> TabularEnv:
    """A named problem as an environment; `gymnasium.make` calls this.

    Parameters
    ----------
    problem
        The name.
    **options
        The options of the problem.
    """
    return TabularEnv(PROBLEMS[problem](**options))


def _register() -> None:
    for problem in PROBLEMS:
        name = "".join(word.capitalize() for word in problem.split("-"))
        if f"lowswitch/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                f"lowswitch/{name}-v0",
                entry_point=f"{__name__}:problem_env",
                kwargs={"problem": problem},
            )


_register()
