"""Sources: a source knows the size of a problem and makes players for its episodes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from lowswitch.checks import checked_batch, checked_mask, require_count, shown
from lowswitch.envs.mdp import Scale, TabularMDP
from lowswitch.envs.simulator import Simulator
from lowswitch.features.problem import FeatureProblem
from lowswitch.kernels.streams import stream_key


class Trajectories(NamedTuple):
    """Episodes as they were played; the actions follow from the policy."""

    states: np.ndarray  # [B, H]  int32
    rewards: np.ndarray  # [B, H]  in [0, 1]

    @classmethod
    def empty(cls, episodes: int, horizon: int) -> Trajectories:
        """Empty arrays for `episodes` episodes."""
        return cls(np.empty((episodes, horizon), dtype=np.int32), np.empty((episodes, horizon)))


class PlayError(RuntimeError):
    """The environment failed while it was played.

    After you fix it, the run can resume from its checkpoint.
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
        """The same error, naming the machine that played the episode."""
        return PlayError(self.message, self.episode, self.step, machine)


class Player(Protocol):
    """Plays episodes of a source; every worker has its own player."""

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """Play these episodes [B] by a policy [H, S]."""

    def close(self) -> None: ...


class Source(Protocol):
    """A problem as the runner sees it. It is sent to the workers, so it must be picklable."""

    horizon: int
    states: int
    actions: int
    actions_allowed: np.ndarray  # [H, S, A]
    scale: Scale  # the user's reward units
    # Whether an episode depends only on its number and the policy, not on who plays it.
    replayable: bool

    def player(self, seed: int) -> Player: ...

    def facts(self) -> dict[str, Any]:
        """The facts that distinguish it from other sources, as values that JSON can store."""


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
        # Playing zero episodes compiles the kernel while the worker is still starting.
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

    Every worker makes its own environment and reseeds it for every episode. An episode must depend
    only on its seed and the actions, as Gymnasium requires of `reset(seed=...)`; only then can it
    be replayed. A policy is [H, S + 1]; see `lowswitch.envs.gymnasium`.

    Parameters
    ----------
    environment
        A registered name, which is passed to `gymnasium.make` together with the options; or a
        function that makes an environment and that workers can import.
    horizon
        H, the number of steps per episode.
    reward_range
        The smallest and the largest reward of a step; 0 must lie between them.
    **options
        Options for `gymnasium.make`.
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
        from lowswitch.envs.gymnasium import bridge, playing, spaces
        from lowswitch.envs.gymnasium.factory import read_name

        if isinstance(environment, str):
            environment, options = read_name(environment, options)
        self.environment, self.options = environment, options
        self.horizon = require_count("horizon", horizon)
        self.scale = spaces.reward_scale(reward_range)
        env = self.make()
        try:
            playing.require_limit(env, self.horizon)
            sizes = bridge.sizes_of(spaces.spaces_of(env), self.horizon)
            self.states, self.actions, self.actions_allowed = sizes
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
                f"{name_of(self.environment)} made {shown(made)}, which is not a "
                "Gymnasium environment"
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
    """Plays its own environment, one episode after the other."""

    def __init__(self, source: Gymnasium, seed: int) -> None:
        self.env, self.scale, self.key = source.make(), source.scale, stream_key(seed)

    def play(self, policy: np.ndarray, episodes: np.ndarray) -> Trajectories:
        played = Trajectories.empty(len(episodes), len(policy))
        for i, k in enumerate(episodes):
            played.states[i], played.rewards[i] = self._episode(policy, int(k))
        return played

    def _episode(self, policy: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        from lowswitch.envs.gymnasium import playing

        steps = playing.StepCounter(self.env)
        try:
            episode = playing.play_episode(steps, policy, seed=episode_seed(self.key, k))
        except playing.RewardError as error:
            raise PlayError(str(error), k, error.step) from error
        except Exception as error:
            raise PlayError(f"{type(error).__name__}: {error}", k, steps.count) from error
        rewards = episode.rewards
        outside = np.flatnonzero(~((rewards >= self.scale.low) & (rewards <= self.scale.high)))
        if len(outside):
            raise PlayError(self._outside(rewards, int(outside[0])), k, int(outside[0]))
        return episode.states, self.scale.to_unit(rewards)

    def _outside(self, rewards: np.ndarray, step: int) -> str:
        """What is wrong with a reward, and which range would at least have it."""
        from lowswitch.envs.gymnasium.bridge import paid_range

        low, high = self.scale.low, self.scale.high
        paid = paid_range(self.env, self.scale, float(rewards.min()), float(rewards.max()))
        return (
            f"the reward {rewards[step]:g} lies outside reward_range ({low:g}, {high:g}); give"
            " the smallest and the largest reward of a step, 0 included,"
            f" {'which is' if paid.published else 'at least'} reward_range=({paid.low:g},"
            f" {paid.high:g}), on the command line --reward-range={paid.low:g},{paid.high:g}"
        )

    def close(self) -> None:
        self.env.close()


def episode_seed(key: np.uint64, k: int) -> int:
    """The seed with which episode k of a noise stream resets its environment."""
    return int(stream_key(int(key) + k)) >> 1


# ---- anything else -------------------------------------------------------------------------------

Play = Callable[[np.ndarray, np.ndarray], tuple[Any, Any, Any]]


class System:
    """Any system behind a function.

    Parameters
    ----------
    play
        A function `play(policy, episodes)` that returns states, actions and rewards, each
        [len(episodes), H]. The policy is [H, S]; row i of the answer is the episode `episodes[i]`,
        played by this policy.
    horizon, states, actions
        H, S and A.
    actions_allowed
        A mask [S, A] or [H, S, A].
    reward_range
        The smallest and the largest reward of a step.
    replayable
        Whether an episode depends only on its number and the policy. A simulator may be replayable;
        a real system is not.
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
    """Plays by calling the user's function, and checks the result."""

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
            message = f"play took action {a} in state {x}, but the policy takes {policy[h, x]}"
            raise PlayError(message, int(episodes[i]), int(h))
        return Trajectories(states.astype(np.int32), rewards)

    def close(self) -> None:
        pass


def name_of(thing: Any) -> str:
    """A name that distinguishes functions and options, and is the same in the next process.

    So it contains no memory address.
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
    """The source for `given`: a source itself, a TabularMDP, or a problem with features."""
    raise ValueError(
        "a source is a TabularMDP, lowswitch.envs.Simulator(step, ...), a problem with features,"
        " lowswitch.concurrent.Gymnasium(name, horizon=H) or"
        f" lowswitch.concurrent.System(play, ...), not {shown(given)}"
    )


source_of.register(TabularMDP, Tabular)
source_of.register(Simulator, Steps)
for _kind in (Tabular, Steps, Gymnasium, System, FeatureProblem):
    source_of.register(_kind, lambda given: given)
