"""Problems without tables: a function plays one step, and returns are sampled."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.fingerprints import fingerprint_of, require_repeatable
from lowswitch.checks import (
    checked_mask,
    checked_policy,
    is_integer,
    is_number,
    require_count,
    require_truth,
    shown,
)
from lowswitch.envs.mdp import Scale
from lowswitch.io.archive import UnknownPartError
from lowswitch.kernels.streams import stream_key

Step = Callable[[int, int, int, np.random.Generator], tuple[Any, Any]]
LOSS = "Monte-Carlo loss"  # what results call it where nobody knows the optimal value
_ROUNDING = 1e-9  # of an episode's range: an optimal value was computed in floating point
Start = int | Callable[[np.random.Generator], Any]


class PlayedSteps(NamedTuple):
    """Some episodes as a policy plays them, with rewards in [0, 1]."""

    states: np.ndarray  # [n, H]
    actions: np.ndarray  # [n, H]
    rewards: np.ndarray  # [n, H]


class Simulator:
    """A problem known by a function that plays one step, such as a simulator or a generative model.

    Nobody knows its values, so nothing is exact. The loss of a run is `reference` per episode minus
    the sampled rewards, and results call it Monte-Carlo regret. If you do not know the optimal
    value, `reference` is the largest possible return, and results call it Monte-Carlo loss. It may
    be negative if the sampled rewards are lucky.

    Parameters
    ----------
    step
        `step(state, action, h, random)` returns the next state and the reward. `random` is a numpy
        generator that depends only on the seed and the episode; a step that uses no other noise
        gives the same history in every driver. The state after the last step is not used.
    horizon, states, actions
        H, S and A.
    start
        The first state, or a function start(random).
    actions_allowed
        A mask [S, A] or [H, S, A].
    reward_range
        The smallest and the largest reward of a step.
    optimal_value
        The value of an optimal policy per episode, if you know it.
    steps_alike
        Whether `step` ignores h.
    name
        The name of the problem.
    """

    knows_regret = True

    def __init__(
        self,
        step: Step,
        *,
        horizon: int,
        states: int,
        actions: int,
        start: Start = 0,
        actions_allowed: Any = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        optimal_value: float | None = None,
        steps_alike: bool = False,
        name: str = "",
    ) -> None:
        for what, given in (("step", step), ("start", start)):
            if not (callable(given) or (what == "start" and is_integer(given))):
                raise ValueError(
                    "step must be a function step(state, action, h, random) -> (state, reward) and"
                    f" start a state or a function start(random), not {what}={shown(given)}"
                )
        self.step, self.start, self.scale = step, start, Scale.of(reward_range)
        self.horizon = require_count("horizon", horizon)
        self.states, self.actions = (
            require_count("states", states),
            require_count("actions", actions),
        )
        size = self.horizon, self.states, self.actions
        self.actions_allowed = checked_mask(actions_allowed, *size)
        self.steps_alike = require_truth("steps_alike", steps_alike)
        if not (optimal_value is None or is_number(optimal_value)):
            raise ValueError(f"optimal_value must be a number, not {shown(optimal_value)}")
        self.known = math.nan if optimal_value is None else float(optimal_value)
        least, most = self.horizon * self.scale.low, self.horizon * self.scale.high
        slack = _ROUNDING * (most - least)
        if self.known < least - slack or self.known > most + slack:
            raise ValueError(
                f"an episode of {self.horizon} steps can earn {least:g} to {most:g}, so"
                f" optimal_value cannot be {self.known:g}; give the value of a whole episode, and"
                " reward_range= if rewards may lie outside of [0, 1]"
            )
        # now, because an object may change its own state while it plays
        self.code = tuple(fingerprint_of(given, strict=False) for given in (step, start))
        try:
            require_repeatable(step, "take noise from its argument random")
        except UnknownPartError as error:
            warnings.warn(str(error), stacklevel=2)
        self.name = name or getattr(step, "__name__", type(step).__name__)

    @property
    def size(self) -> dict[str, int]:
        return {"horizon": self.horizon, "states": self.states, "actions": self.actions}

    @property
    def measure(self) -> str:
        """The name of the loss in results."""
        return LOSS if math.isnan(self.known) else "Monte-Carlo regret"

    @property
    def reference(self) -> float:
        """The value per episode that the sampled rewards are compared with."""
        return self.horizon * self.scale.high if math.isnan(self.known) else self.known

    def optimal_value(self, episodes: int = 0) -> float:
        """What you said; else NaN."""
        return self.known

    def checked_policy(self, policy: Any) -> np.ndarray:
        """A policy [H, S] of this problem, or an error."""
        return checked_policy(policy, self.actions_allowed)

    def facts(self) -> dict[str, Any]:
        """The facts that identify it.

        Its functions enter by a hash of their text and of everything they read: numbers, arrays,
        other functions, and the state of your own objects. Other objects enter only by their type.
        """
        return {
            "sampled": [self.name, *self.code],
            "size": self.size,
            "allowed": hashlib.sha256(self.actions_allowed.tobytes()).hexdigest(),
            "rewards": [self.scale.low, self.scale.high],
            "reference": self.reference,
        }

    def __repr__(self) -> str:
        size = ", ".join(f"{name}={number}" for name, number in self.size.items())
        return f"Simulator({self.name}, {size})"

    # ---- play ------------------------------------------------------------------------------------

    def play(
        self, tables: np.ndarray, members: np.ndarray, seed: int, episodes: np.ndarray
    ) -> PlayedSteps:
        """These episodes [B], each by its member of the tables [members, H, S]."""
        shape = len(episodes), self.horizon
        played = PlayedSteps(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape))
        for i, k in enumerate(episodes):
            self._play_one(tables[members[i]].tolist(), seed, int(k), *(part[i] for part in played))
        unit = self.scale.to_unit(played.rewards)
        return played._replace(rewards=unit)

    def _play_one(
        self,
        table: list[list[int]],
        seed: int,
        k: int,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
    ) -> None:
        """One episode, whose noise is a function of the seed and its number."""
        key = np.array([stream_key(seed), k], dtype=np.uint64)
        random = np.random.Generator(np.random.Philox(key=key))
        x = self._state(self.start(random) if callable(self.start) else self.start, k, -1)
        for h in range(self.horizon):
            a = table[h][x]
            try:
                y, reward = self.step(x, a, h, random)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"episode {k}, step {h}: step({x}, {a}, {h}, random) must return the next"
                    f" state and the reward ({type(error).__name__}: {error})"
                ) from error
            states[h], actions[h], rewards[h] = x, a, reward
            x = self._state(y, k, h) if h + 1 < self.horizon else x

    def _state(self, given: Any, k: int, h: int) -> int:
        if is_integer(given) and 0 <= given < self.states:
            return int(given)
        where = f"step {h}" if h >= 0 else "the start"
        raise ValueError(
            f"episode {k}: after {where} comes the state {shown(given)}; states are whole numbers"
            f" from 0 to {self.states - 1}"
        )
