"""DynamicsLearner: control with a learned motion and very few deployments."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.calendars import Calendar
from lowswitch.algorithms.schedules import Grid
from lowswitch.checks import has_integers, numbers, require_count, require_indices, require_seed
from lowswitch.features.motion import Dynamics, GridPolicy
from lowswitch.io import storage
from lowswitch.kernels.streams import DRAWS, bits, purpose_key
from lowswitch.policy.linear import Choice

_KIND = "dynamics learner"  # of its files
_STEPS = 2**20  # more than any episode has, so that steps of two episodes share no noise


class UniformPolicy:
    """All actions equally often, by the noise of a seed, an episode and a step."""

    def __init__(self, actions: int, seed: int) -> None:
        self.number, self.key = actions, purpose_key(seed, DRAWS)

    def act(self, state: Any, episode: int = 0, step: int = 0) -> Choice:
        """An action, whatever the state is."""
        place = operator.index(episode) * _STEPS + operator.index(step)  # numpy's would overflow
        drawn = int(bits(self.key, place, 1)[0]) % self.number
        return Choice(drawn, 1.0 / self.number)

    def __repr__(self) -> str:
        return f"UniformPolicy({self.number} actions)"


class ControlDeployment(NamedTuple):
    """After `episode`, counted from 0, this policy is deployed."""

    episode: int
    policy: GridPolicy


class DynamicsLearner:
    """A learner of the motion of a control problem, which deploys greedy policies on few dates.

    dynamics: what is known, by `ls.dynamics`. deployments: how often the policy may change; the
    dates are then spread equally over the episodes. deployments_at: or after which numbers of
    episodes. The first policy plays all actions equally often, unless another one is `initial`.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        episodes: int,
        deployments: int | None = None,
        deployments_at: Sequence[int] | None = None,
        seed: int = 0,
        initial: GridPolicy | None = None,
    ) -> None:
        if not isinstance(dynamics, Dynamics):
            raise ValueError("dynamics must be made by ls.dynamics(reward=, ends=, bounds=, ...)")
        self.dynamics, self.episodes = dynamics, require_count("episodes", episodes)
        if (deployments is None) == (deployments_at is None):
            raise ValueError("give deployments=N, or the dates as deployments_at=(10, 20)")
        if deployments_at is not None:
            self.dates = Calendar(tuple(deployments_at)).grid(self.episodes)
        else:
            batches = 1 + require_count("deployments", deployments)
            self.dates = Grid("equal", batches).grid(self.episodes)
        self.seed = require_seed(seed)
        self.told, self.deployments = 0, 0
        D = len(dynamics.axes.low)
        self.states, self.nexts = np.zeros((0, D)), np.zeros((0, D))
        self.actions = np.zeros(0, dtype=np.int64)
        self.policy: GridPolicy | UniformPolicy = UniformPolicy(dynamics.actions, self.seed)
        if initial is not None:
            if not isinstance(initial, GridPolicy) or len(initial.q) != dynamics.actions:
                raise ValueError(
                    f"initial must be a GridPolicy of {dynamics.actions} actions, such as the"
                    " policy of an earlier learner"
                )
            if initial.q.shape[1] != dynamics.axes.size or (
                GridPolicy(dynamics.axes, initial.q).identity != initial.identity
            ):
                raise ValueError(
                    "initial must be on the grid of the dynamics: the same bounds,"
                    " points and periodic numbers"
                )
            self.policy = initial

    def act(self, state: Any, step: int = 0) -> Choice:
        """The action that must be played in a state at a step of the next episode."""
        if isinstance(self.policy, UniformPolicy):
            return self.policy.act(state, self.told, step)
        return self.policy.act(state, self.told)

    def tell(self, states: Any, actions: Any) -> ControlDeployment | None:
        """Learn one episode of any length: states [T + 1, D] and actions [T].

        Return what was deployed, or None. A call that fails changes nothing.
        """
        given, played = numbers("states", states), np.asarray(actions)
        D = self.states.shape[1]
        if played.ndim != 1 or not len(played) or given.shape != (len(played) + 1, D):
            raise ValueError(
                f"an episode is T + 1 states of {D} numbers and T actions, not arrays of shapes"
                f" {given.shape} and {played.shape}"
            )
        if not np.isfinite(given).all():
            raise ValueError("states must be finite numbers; fill in what is missing")
        if not has_integers(played):
            raise ValueError(f"actions must be integers, not {played.dtype}")
        require_indices("actions", played, self.dynamics.actions)
        if self.told >= self.episodes:
            raise ValueError(
                f"this learner was made for {self.episodes} episodes; make one with more"
            )
        everything = (
            np.concatenate([self.states, given[:-1]]),
            np.concatenate([self.actions, played.astype(np.int64)]),
            np.concatenate([self.nexts, given[1:]]),
        )
        made = None
        if self.told + 1 in self.dates:
            made = ControlDeployment(self.told, self.dynamics.fit(*everything).plan())
        self.states, self.actions, self.nexts = everything
        self.told += 1
        if made is not None:
            self.policy, self.deployments = made.policy, self.deployments + 1
        return made

    def __repr__(self) -> str:
        return (
            f"DynamicsLearner(told {self.told} of {self.episodes} episodes, {len(self.actions):,}"
            f" steps, {self.deployments} deployments)"
        )

    # ---- keeping ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was told and deployed; `load` is given the functions of `dynamics` again."""
        facts = {
            "episodes": self.episodes,
            "dates": list(self.dates),
            "seed": self.seed,
            "told": self.told,
            "deployments": self.deployments,
        }
        arrays = {"states": self.states, "actions": self.actions, "nexts": self.nexts}
        if isinstance(self.policy, GridPolicy):
            arrays["q"] = self.policy.q
        storage.write(path, _KIND, facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], dynamics: Dynamics) -> DynamicsLearner:
        """A learner that goes on where the saved one stopped, of the same dynamics."""
        with storage.reading(path, _KIND) as (facts, arrays):
            dates = tuple(facts["dates"])
            learner = cls(
                dynamics,
                episodes=facts["episodes"],
                deployments_at=dates or None,
                deployments=None if dates else 1,
                seed=facts["seed"],
            )
            learner.dates = dates
            learner.told = require_count("told", facts["told"], least=0, most=learner.episodes)
            learner.deployments = require_count("deployments", facts["deployments"], least=0)
            states, nexts, actions = (arrays[name] for name in ("states", "nexts", "actions"))
            if states.shape != nexts.shape or states.shape != (
                len(actions),
                len(dynamics.axes.low),
            ):
                raise ValueError(f"its states have the shape {states.shape}")
            learner.states, learner.nexts, learner.actions = states, nexts, actions
            if "q" in arrays:
                learner.policy = GridPolicy(dynamics.axes, arrays["q"])
            return learner
