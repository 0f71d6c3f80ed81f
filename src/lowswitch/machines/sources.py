"""What is played: a source says how large the problem is and makes the players that play its
episodes, wherever they are.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from lowswitch.kernels.streams import stream_key
from lowswitch.learner import checked_batch
from lowswitch.problems.mdp import Scale, TabularMDP, checked_mask, require_count


class Trajectories(NamedTuple):
    """Episodes as they were played; the actions are those of the policy."""

    states: np.ndarray  # [B, H]  int32
    rewards: np.ndarray  # [B, H]  in [0, 1]


class PlayError(RuntimeError):
    """An environment failed while it was played; the run can go on from its checkpoint once that is
    mended.
    """

    def __init__(
        self, message: str, episode: int, step: int | None = None, machine: int | None = None
    ) -> None:
        super().__init__(message, episode, step, machine)
        self.message, self.episode, self.step, self.machine = message, episode, step, machine

    def __str__(self) -> str:
        places = {"episode": self.episode, "step": self.step, "machine": self.machine}
        where = ", ".join(f"{name} {value}" for name, value in places.items() if value is not None)
        return f"{where}: {self.message}"

    def on(self, machine: int) -> PlayError:
        """The same with the machine that played the episode."""
        return PlayError(self.message, self.episode, self.step, machine)


class Player(Protocol):
    """Plays episodes where it is; a worker has one of its own."""

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """Play these episodes [B] by a policy [H, S]."""

    def close(self) -> None: ...


class Source(Protocol):
    """A problem as the runner sees it; it travels to the workers, so it can be pickled."""

    horizon: int
    states: int
    actions: int
    actions_allowed: np.ndarray  # [H, S, A]
    scale: Scale  # the user's reward units
    # an episode is a function of its number and the policy, whoever plays it and however often
    replayable: bool

    def player(self, seed: int) -> Player: ...

    def facts(self) -> dict[str, Any]:
        """What tells it from other sources, as JSON can hold it."""


# ---- tables --------------------------------------------------------------------------------------


class Tabular:
    """A TabularMDP as a source."""

    replayable = True

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        self.horizon, self.states, self.actions = mdp.horizon, mdp.states, mdp.actions
        self.actions_allowed, self.scale = mdp.actions_allowed, mdp.scale

    def player(self, seed: int) -> TabularPlayer:
        return TabularPlayer(self.mdp, seed)

    def facts(self) -> dict[str, Any]:
        mdp, digest = self.mdp, hashlib.sha256()
        for array in (
            mdp.offsets,
            mdp.successors,
            mdp.probabilities,
            mdp.rewards,
            mdp.start_law,
            mdp.start_sequence,
            mdp.actions_allowed,
        ):
            digest.update(
                f"{array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
            )
        return {
            "tables": digest.hexdigest(),
            "reward law": mdp.reward_law,
            "rewards": [mdp.scale.low, mdp.scale.high],
        }


class TabularPlayer:
    """Plays with the noise of a seed: the same episodes as `simulate`."""

    def __init__(self, mdp: TabularMDP, seed: int) -> None:
        self.mdp, self.key = mdp, stream_key(seed)
        self.play(
            mdp.actions_allowed.argmax(axis=-1), np.zeros(0, dtype=np.int64)
        )  # compiles while the worker is still starting

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        from lowswitch.kernels.rounds import play_out

        shape = len(episodes), self.mdp.horizon
        played = Trajectories(np.empty(shape, dtype=np.int32), np.empty(shape))
        play_out(
            self.mdp.model,
            policy,
            self.mdp.actions,
            self.key,
            episodes,
            played.states,
            played.rewards,
        )
        return played

    def close(self) -> None:
        pass


# ---- environments --------------------------------------------------------------------------------


class Gymnasium:
    """Any Gymnasium environment with discrete states and actions, made anew on every worker and
    seeded anew for every episode.

    environment: a registered name, for `gymnasium.make` with the options given; or a function that
    makes one, which workers can import. What an episode brings must depend on its seed and the
    actions alone, as Gymnasium asks of `reset(seed=...)`: then it can be replayed. reward_range:
    the least and the largest reward it can pay, 0 included. A policy is [H, S + 1]; see
    `lowswitch.envs.gymnasium`.
    """

    replayable = True

    def __init__(
        self,
        environment: str | Callable[..., Any],
        *,
        horizon: int,
        reward_range: tuple[float, float] = (0.0, 1.0),
        **options: Any,
    ) -> None:
        from lowswitch.problems import gymnasium as bridge

        self.environment, self.options = environment, options
        self.horizon, self.scale = (
            require_count("horizon", horizon),
            bridge.reward_scale(reward_range),
        )
        env = self.make()
        try:
            self.states, self.actions, self.actions_allowed = bridge.sizes(env, self.horizon)
        finally:
            env.close()

    def make(self) -> Any:
        """The environment."""
        import gymnasium

        if not isinstance(self.environment, str) and not callable(self.environment):
            raise ValueError(
                "an environment is a registered name or a function that makes one, not"
                f" {self.environment!r}"
            )
        try:
            made = (
                gymnasium.make(self.environment, **self.options)
                if isinstance(self.environment, str)
                else self.environment(**self.options)
            )
        except Exception as error:  # whatever its constructor raises
            raise ValueError(
                f"cannot make the environment {name_of(self.environment)} with options"
                f" {self.options} ({type(error).__name__}: {error})"
            ) from error
        if not isinstance(made, gymnasium.Env):
            raise ValueError(
                f"{name_of(self.environment)} made {made!r}, which is no Gymnasium environment"
            )
        return made

    def player(self, seed: int) -> GymnasiumPlayer:
        return GymnasiumPlayer(self, seed)

    def facts(self) -> dict[str, Any]:
        options = {key: name_of(value) for key, value in self.options.items()}
        return {
            "environment": name_of(self.environment),
            "options": options,
            "rewards": [self.scale.low, self.scale.high],
        }


class GymnasiumPlayer:
    """Plays an environment of its own, one episode after the other."""

    def __init__(self, source: Gymnasium, seed: int) -> None:
        self.env, self.scale, self.key = source.make(), source.scale, stream_key(seed)

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        shape = len(episodes), len(policy)
        played = Trajectories(np.empty(shape, dtype=np.int32), np.empty(shape))
        for i, k in enumerate(episodes):
            played.states[i], played.rewards[i] = self._episode(policy, int(k))
        return played

    def _episode(self, policy: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        from lowswitch.problems import gymnasium as bridge

        steps = bridge.StepCounter(self.env)
        try:
            states, _, rewards = bridge.play_episode(steps, policy, seed=episode_seed(self.key, k))
        except Exception as error:
            raise PlayError(f"{type(error).__name__}: {error}", k, steps.count) from error
        outside = np.flatnonzero(~((rewards >= self.scale.low) & (rewards <= self.scale.high)))
        if len(outside):
            allowed = f"reward_range ({self.scale.low:g}, {self.scale.high:g})"
            raise PlayError(
                f"the reward {rewards[outside[0]]:g} lies outside of {allowed}; give the true"
                " range",
                k,
                int(outside[0]),
            )
        return states, self.scale.to_unit(rewards)

    def close(self) -> None:
        self.env.close()


def episode_seed(key: np.uint64, k: int) -> int:
    """What episode k of a noise stream resets its environment with."""
    return int(stream_key(int(key) + k)) >> 1


# ---- anything else -------------------------------------------------------------------------------

Play = Callable[[np.ndarray, np.ndarray], tuple[Any, Any, Any]]


class System:
    """A system behind a function of the user's: `play(policy, episodes)` returns states, actions
    and rewards, each [len(episodes), H].

    The policy is [H, S], and row i of the answer is episode episodes[i], played by it. A real
    system cannot be replayed; a simulator whose episode is a function of its number and the policy
    alone can, and says so with replayable=True.
    """

    def __init__(
        self,
        play: Play,
        *,
        horizon: int,
        states: int,
        actions: int,
        actions_allowed: Any = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        replayable: bool = False,
    ) -> None:
        if not callable(play):
            raise ValueError(
                "play must be a function play(policy, episodes) -> (states, actions, rewards), not"
                f" {play!r}"
            )
        if not (isinstance(reward_range, tuple | list) and len(reward_range) == 2):
            raise ValueError(f"reward_range must be two numbers (low, high), not {reward_range!r}")
        self.play, self.replayable, self.scale = play, replayable, Scale(*reward_range)
        self.horizon, self.states = (
            require_count("horizon", horizon),
            require_count("states", states),
        )
        self.actions = require_count("actions", actions)
        self.actions_allowed = checked_mask(
            actions_allowed, self.horizon, self.states, self.actions
        )

    def player(self, seed: int) -> SystemPlayer:
        return SystemPlayer(self)

    def facts(self) -> dict[str, Any]:
        return {
            "system": name_of(self.play),
            "allowed": hashlib.sha256(self.actions_allowed.tobytes()).hexdigest(),
            "rewards": [self.scale.low, self.scale.high],
        }


class SystemPlayer:
    """Plays by calling the user's function, and looks at what comes back."""

    def __init__(self, source: System) -> None:
        self.source = source

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        source, first = self.source, int(episodes[0])
        try:
            answer = source.play(policy.copy(), episodes.copy())
        except PlayError:
            raise
        except Exception as error:
            raise PlayError(f"play raised {type(error).__name__}: {error}", first) from error
        if not isinstance(answer, tuple | list) or len(answer) != 3:
            raise PlayError(
                f"play must return (states, actions, rewards), not {type(answer).__name__}", first
            )
        try:
            states, actions, rewards = checked_batch(
                answer[0], answer[1], source.scale.to_unit(answer[2]), source.actions_allowed
            )
        except (TypeError, ValueError) as error:
            raise PlayError(f"play returned malformed trajectories: {error}", first) from error
        if len(states) != len(episodes):
            raise PlayError(
                f"play returned {len(states)} trajectories for {len(episodes)} episodes; return one"
                " for each",
                first,
            )
        others = np.argwhere(actions != policy[np.arange(source.horizon), states])
        if len(others):
            i, h = others[0]
            planned = policy[h, states[i, h]]
            raise PlayError(
                f"play took action {actions[i, h]} in state {states[i, h]}, the policy takes"
                f" {planned}",
                int(episodes[i]),
                int(h),
            )
        return Trajectories(states.astype(np.int32), rewards)

    def close(self) -> None:
        pass


def name_of(thing: Any) -> str:
    """What tells functions and options apart and is the same in the next process: no address in
    memory.
    """
    if isinstance(thing, functools.partial):
        given = [name_of(value) for value in thing.args] + [
            f"{key}={name_of(value)}" for key, value in thing.keywords.items()
        ]
        return f"{name_of(thing.func)}({', '.join(given)})"
    if isinstance(thing, str | int | float | bool | None | tuple | list | dict):
        return repr(thing)
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def source_of(given: Any) -> Source:
    """A source as it is, or made of a TabularMDP."""
    if isinstance(given, TabularMDP):
        return Tabular(given)
    if not isinstance(given, Tabular | Gymnasium | System):
        raise ValueError(
            "a source is a TabularMDP, lowswitch.concurrent.Gymnasium(name, horizon=H) or"
            f" lowswitch.concurrent.System(play, ...), not {given!r}"
        )
    return given
