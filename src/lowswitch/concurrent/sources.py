"""What is played: a source knows the size of the problem and makes players of its episodes."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from lowswitch.checks import checked_batch, checked_mask, require_count, shown
from lowswitch.envs.mdp import Scale, TabularMDP
from lowswitch.envs.simulator import Simulator
from lowswitch.features.problem import FeatureProblem
from lowswitch.kernels.streams import stream_key


class Trajectories(NamedTuple):
    """Episodes as they were played; the actions are those of the policy."""

    states: np.ndarray  # [B, H]  int32
    rewards: np.ndarray  # [B, H]  in [0, 1]

    @classmethod
    def empty(cls, episodes: int, horizon: int) -> Trajectories:
        """Room for so many episodes, to be filled."""
        return cls(np.empty((episodes, horizon), dtype=np.int32), np.empty((episodes, horizon)))


class PlayError(RuntimeError):
    """The environment failed while it was played.

    Once it is mended, the run can go on from its checkpoint.
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
        """The same error with the machine that played the episode."""
        return PlayError(self.message, self.episode, self.step, machine)


class Player(Protocol):
    """Plays episodes of a source; every worker has a player of its own."""

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """Play these episodes [B] by a policy [H, S]."""

    def close(self) -> None: ...


class Source(Protocol):
    """A problem as the runner sees it. It is sent to the workers, so it can be pickled."""

    horizon: int
    states: int
    actions: int
    actions_allowed: np.ndarray  # [H, S, A]
    scale: Scale  # the user's reward units
    # Whether an episode is a function of its number and the policy, whoever plays it.
    replayable: bool

    def player(self, seed: int) -> Player: ...

    def facts(self) -> dict[str, Any]:
        """What distinguishes it from other sources, in values that JSON can hold."""


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
        return self.mdp.facts()


class TabularPlayer:
    """Plays the same episodes as `simulate`, with the noise of a seed."""

    def __init__(self, mdp: TabularMDP, seed: int) -> None:
        self.mdp, self.key = mdp, stream_key(seed)
        # Playing nothing compiles the kernel while the worker is still starting.
        self.play(mdp.actions_allowed.argmax(axis=-1), np.zeros(0, dtype=np.int64))

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        from lowswitch.kernels.rounds import play_out

        mdp, played = self.mdp, Trajectories.empty(len(episodes), self.mdp.horizon)
        play_out(mdp.model, policy, mdp.actions, self.key, episodes, *played)
        return played

    def close(self) -> None:
        pass


# ---- environments --------------------------------------------------------------------------------


class Gymnasium:
    """A Gymnasium environment with discrete states and actions.

    Every worker makes one of its own and seeds it anew for every episode. What an episode brings
    must depend on its seed and the actions alone, as Gymnasium asks of `reset(seed=...)`; only then
    can it be replayed. A policy is [H, S + 1]; see `lowswitch.envs.gymnasium`.

    environment: a registered name, which `gymnasium.make` gets with the options; or a function that
    makes an environment and that workers can import.
    reward_range: the least and the largest reward that it can pay; 0 must lie between them.
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
        from lowswitch.envs.gymnasium import bridge
        from lowswitch.envs.gymnasium.factory import read_name

        if isinstance(environment, str):
            environment, options = read_name(environment, options)
        self.environment, self.options = environment, options
        self.horizon = require_count("horizon", horizon)
        self.scale = bridge.reward_scale(reward_range)
        env = self.make()
        try:
            self.states, self.actions, self.actions_allowed = bridge.spaces_of(env, self.horizon)
        finally:
            env.close()

    def make(self) -> Any:
        """Make the environment."""
        import gymnasium

        if not (isinstance(self.environment, str) or callable(self.environment)):
            raise ValueError(
                "an environment is a registered name or a function that makes one, not"
                f" {shown(self.environment)}"
            )
        try:
            if isinstance(self.environment, str):
                made = gymnasium.make(self.environment, **self.options)
            else:
                made = self.environment(**self.options)
        except Exception as error:  # An environment may raise anything while it is made.
            raise ValueError(
                f"cannot make the environment {name_of(self.environment)} with options"
                f" {self.options} ({type(error).__name__}: {error})"
            ) from error
        if not isinstance(made, gymnasium.Env):
            raise ValueError(
                f"{name_of(self.environment)} made {shown(made)}, which is no Gymnasium environment"
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
        played = Trajectories.empty(len(episodes), len(policy))
        for i, k in enumerate(episodes):
            played.states[i], played.rewards[i] = self._episode(policy, int(k))
        return played

    def _episode(self, policy: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        from lowswitch.envs.gymnasium import bridge

        steps = bridge.StepCounter(self.env)
        try:
            states, _, rewards = bridge.play_episode(steps, policy, seed=episode_seed(self.key, k))
        except Exception as error:
            raise PlayError(f"{type(error).__name__}: {error}", k, steps.count) from error
        outside = np.flatnonzero(~((rewards >= self.scale.low) & (rewards <= self.scale.high)))
        if len(outside):
            raise PlayError(self._outside(rewards[outside[0]]), k, int(outside[0]))
        return states, self.scale.to_unit(rewards)

    def _outside(self, reward: float) -> str:
        """What is wrong with a reward, and which range would at least have it."""
        low, high = self.scale.low, self.scale.high
        if math.isnan(reward):
            return f"the reward nan lies outside of reward_range ({low:g}, {high:g}): no number"
        wider = f"{min(low, reward):g},{max(high, reward):g}"
        return (
            f"the reward {reward:g} lies outside of reward_range ({low:g}, {high:g}); give the"
            " least and the largest that a step can pay, 0 included, at least"
            f" reward_range=({wider.replace(',', ', ')}), on the command line"
            f" --reward-range={wider}"
        )

    def close(self) -> None:
        self.env.close()


def episode_seed(key: np.uint64, k: int) -> int:
    """The seed with which episode k of a noise stream resets its environment."""
    return int(stream_key(int(key) + k)) >> 1


# ---- anything else -------------------------------------------------------------------------------

Play = Callable[[np.ndarray, np.ndarray], tuple[Any, Any, Any]]


class System:
    """Any system behind a function `play(policy, episodes)`, which returns states, actions and
    rewards, each [len(episodes), H].

    The policy is [H, S]; row i of the answer is episode episodes[i], played by this policy. A real
    system cannot be replayed. A simulator can, if an episode is a function of its number and the
    policy alone; then say so with replayable=True.
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
                f" {shown(play)}"
            )
        self.play, self.replayable, self.scale = play, replayable, Scale.of(reward_range)
        self.horizon = require_count("horizon", horizon)
        self.states = require_count("states", states)
        self.actions = require_count("actions", actions)
        size = self.horizon, self.states, self.actions
        self.actions_allowed = checked_mask(actions_allowed, *size)

    def player(self, seed: int) -> SystemPlayer:
        return SystemPlayer(self)

    def facts(self) -> dict[str, Any]:
        return {
            "system": name_of(self.play),
            "allowed": hashlib.sha256(self.actions_allowed.tobytes()).hexdigest(),
            "rewards": [self.scale.low, self.scale.high],
        }


class SystemPlayer:
    """Plays by calling the user's function, and checks what it returns."""

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
            message = f"play returned {len(states)} trajectories for {len(episodes)} episodes"
            raise PlayError(f"{message}; return one for each", first)
        others = np.argwhere(actions != policy[np.arange(source.horizon), states])
        if len(others):
            i, h = others[0]
            x, a = states[i, h], actions[i, h]
            message = f"play took action {a} in state {x}, the policy takes {policy[h, x]}"
            raise PlayError(message, int(episodes[i]), int(h))
        return Trajectories(states.astype(np.int32), rewards)

    def close(self) -> None:
        pass


def name_of(thing: Any) -> str:
    """A name that distinguishes functions and options, and is the same in the next process.

    So it contains no address in memory.
    """
    if isinstance(thing, functools.partial):
        given = [name_of(value) for value in thing.args]
        given += [f"{key}={name_of(value)}" for key, value in thing.keywords.items()]
        return f"{name_of(thing.func)}({', '.join(given)})"
    if isinstance(thing, str | int | float | bool | None | tuple | list | dict):
        return repr(thing)
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


class Steps:
    """A step function as a source."""

    replayable = True

    def __init__(self, problem: Simulator) -> None:
        self.problem = problem
        self.horizon, self.states, self.actions = problem.size.values()
        self.actions_allowed, self.scale = problem.actions_allowed, problem.scale

    def player(self, seed: int) -> StepsPlayer:
        return StepsPlayer(self.problem, seed)

    def facts(self) -> dict[str, Any]:
        return self.problem.facts()


class StepsPlayer:
    """Plays the same episodes as `simulate`."""

    def __init__(self, problem: Simulator, seed: int) -> None:
        self.problem, self.seed = problem, seed

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        members = np.zeros(len(episodes), dtype=np.int64)
        try:
            played = self.problem.play(policy[None], members, self.seed, episodes)
        except ValueError as error:
            raise PlayError(str(error), int(episodes[0])) from error
        return Trajectories(played.states.astype(np.int32), played.rewards)

    def close(self) -> None:
        pass


@functools.singledispatch
def source_of(given: Any) -> Any:
    """What is played: a source, the one made of a TabularMDP, or a problem with features."""
    raise ValueError(
        "a source is a TabularMDP, lowswitch.envs.Simulator(step, ...), a problem with features,"
        " lowswitch.concurrent.Gymnasium(name, horizon=H) or"
        f" lowswitch.concurrent.System(play, ...), not {shown(given)}"
    )


source_of.register(TabularMDP, Tabular)
source_of.register(Simulator, Steps)
for _kind in (Tabular, Steps, Gymnasium, System, FeatureProblem):
    source_of.register(_kind, lambda given: given)
