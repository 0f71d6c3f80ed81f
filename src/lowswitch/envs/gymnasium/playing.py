"""Episodes of an environment for a learner: one, one after the other, or several together.

A Gymnasium episode may end early, but an episode here has H steps. So a problem of S states has one
more here, number S, where a terminated episode stays and earns 0 in the remaining steps. With
features such steps have the action -1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import require_seed, shown
from lowswitch.envs.gymnasium.factory import environment
from lowswitch.envs.gymnasium.spaces import gymnasium, spaces_of
from lowswitch.feature_learner import FeatureLearner
from lowswitch.kernels.streams import CONTEXTS, bits, purpose_key
from lowswitch.learner import Learner
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.scripts import Script, TableScript
from lowswitch.policy.spaces import Spaces

_CHECK = "; gymnasium.utils.env_checker.check_env(env) finds the problem"


class Episode(NamedTuple):
    """One episode for `Learner.tell`, with rewards in the environment's units."""

    states: np.ndarray  # [H], or features [H, d]
    actions: np.ndarray  # [H]
    rewards: np.ndarray  # [H]


class RewardError(ValueError):
    """An environment paid a reward that is not a finite number."""

    def __init__(self, reward: Any, step: int) -> None:
        super().__init__(
            f"the environment paid {shown(reward)} at step {step}; a reward is a finite number"
        )
        self.step = step


class Playing:
    """One episode while it is played."""

    def __init__(self, spaces: Spaces, script: Script) -> None:
        self.spaces, self.script = spaces, script
        self.contexts, self.actions = script.after_end()
        self.rewards = np.zeros(script.horizon)
        self.length, self.terminated = 0, False

    def act(self, observation: Any) -> Any:
        """The action of the environment for the current observation."""
        h = self.length
        try:
            context = self.spaces.context(observation)
        except ValueError as error:
            raise ValueError(
                f"the environment observes {shown(observation)} at step {h}: {error}"
            ) from error
        self.contexts[h] = context
        self.actions[h] = self.script.action(context, h)
        return self.spaces.action(int(self.actions[h]))

    def take(self, reward: Any, terminated: Any, truncated: Any, env: Any) -> bool:
        """Note the outcome of a step; return whether the episode continues."""
        self.rewards[self.length] = _paid(reward, self.length)
        self.length += 1
        self.terminated = bool(terminated)
        H = self.script.horizon
        if truncated and not terminated and self.length < H:
            raise ValueError(
                f"the environment truncated the episode after {self.length} steps,"
                f" {way_out(env, self.length, H)}"
            )
        return not terminated and self.length < H

    @property
    def cut(self) -> bool:
        """Whether the horizon ended it."""
        return not self.terminated

    @property
    def episode(self) -> Episode:
        """The episode as the learner is told it."""
        return Episode(self.contexts, self.actions, self.rewards)


def _paid(reward: Any, step: int) -> float:
    """A reward, or an error that names it."""
    try:
        value = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise RewardError(reward, step)
    return value


def way_out(env: Any, limit: int, horizon: int) -> str:
    """What to do if an environment ends an episode before the horizon."""
    timed = time_limit(env) is not None
    longer = f"make it with max_episode_steps={horizon}" if timed else "let it go on for longer"
    return f"before the horizon {horizon}; ask for horizon={limit} or less, or {longer}"


def time_limit(env: Any) -> int | None:
    """The steps of the TimeLimit that an environment was made with; None without a TimeLimit."""
    spec = getattr(env, "spec", None)
    limit: int | None = None if spec is None else spec.max_episode_steps
    return limit


def require_limit(env: Any, horizon: int) -> None:
    """Refuse a horizon beyond the TimeLimit of an environment."""
    limit = time_limit(env)
    if limit is not None and limit < horizon:
        raise ValueError(
            f"the environment truncates after {limit} steps, {way_out(env, limit, horizon)}"
        )


# ---- one episode ---------------------------------------------------------------------------------


def script_of(policy: Any, ahead: int = 0) -> Script:
    """The script of a policy for an episode; for a learner, `ahead` episodes after the next."""
    policy = getattr(policy, "learner", policy)  # the result of learn has one
    if isinstance(policy, Learner):
        script: Script = policy.deployed.script(policy.told + ahead)
        return script
    if isinstance(policy, LinearPolicy):
        return policy.script(ahead)
    table = np.asarray(policy)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise ValueError(
            "policy must be a learner, the result of learn, a table [H, S + 1] of actions, or a"
            f" LinearPolicy, not {shown(policy)}"
        )
    return TableScript(table)


def features_of(policy: Any, features: Any) -> Any:
    """The feature map that a policy needs: the one given, or the one that its learner carries."""
    learner = getattr(policy, "learner", policy)
    if features is None and isinstance(learner, FeatureLearner):
        if learner.spaces is None:
            raise ValueError(
                "this learner sees features, but has no map that makes them; give features=, the"
                " map of ls.features that it learned with"
            )
        return learner.spaces.observations
    if features is None and isinstance(policy, LinearPolicy):
        raise ValueError("a LinearPolicy plays by features; give features=, a map of ls.features")
    return features


def require_script(spaces: Spaces, script: Script) -> None:
    """Refuse a policy that was made for other observations."""
    if isinstance(script, TableScript):
        S, shape = getattr(spaces.observations, "size", 0), script.table.shape
        if shape[1] != S + 1:
            raise ValueError(
                f"a policy for this environment has the shape [H, S + 1] = [H, {S + 1}], not"
                f" {shape}; make it with learner_for"
            )


def play_episode(
    env: gymnasium.Env[Any, Any] | str,
    policy: Any,
    *,
    seed: int | None = None,
    features: Any = None,
    **options: Any,
) -> Episode:
    """Play one episode by a policy.

    With a table, the state after termination is S and the reward 0; with features the action is -1.

    Parameters
    ----------
    env
        The environment.
    policy
        As in `evaluate_policy`.
    seed
        The seed of `reset`.
    features
        A map of `ls.features`, with a LinearPolicy.
    **options
        As in `evaluate_policy`.
    """
    env = environment(env, play_episode, **options)
    require_single(env)
    spaces = spaces_of(env, features_of(policy, features))
    return play(env, spaces, script_of(policy), seed).episode


def play(env: Any, spaces: Spaces, script: Script, seed: int | None) -> Playing:
    """Play one episode of an environment."""
    require_script(spaces, script)
    playing, going = Playing(spaces, script), True
    observation = _reset(env, seed)
    while going:
        answer = env.step(playing.act(observation))
        if not (isinstance(answer, tuple) and len(answer) == 5):
            size = len(answer) if isinstance(answer, tuple) else shown(answer)
            raise ValueError(
                "step of the environment must return five values (observation, reward, terminated,"
                f" truncated, info), not {size}{_CHECK}"
            )
        observation, reward, terminated, truncated, _ = answer
        going = playing.take(reward, terminated, truncated, env)
    return playing


def _reset(env: Any, seed: int | None) -> Any:
    """The first observation."""
    try:
        answer = env.reset(seed=seed)
    except TypeError as error:
        if "seed" not in str(error):
            raise
        raise ValueError(
            f"reset of the environment must take seed= and options= ({error}){_CHECK}"
        ) from error
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        raise ValueError(
            "reset of the environment must return two values (observation, info), not"
            f" {shown(answer)}{_CHECK}"
        )
    return answer[0]


def require_single(env: Any) -> None:
    """Refuse a vector environment."""
    if is_vector(env):
        raise ValueError(
            "a vector environment plays several episodes at once, and this needs one; learn and"
            " evaluate_policy play them, here pass a single environment"
        )


def is_vector(env: Any) -> bool:
    """Whether it is a vector of environments."""
    return isinstance(env, gymnasium.vector.VectorEnv)


class StepCounter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Knows how many steps the current episode has had, and nothing before its reset."""

    count: int | None = None

    def reset(self, **options: Any) -> Any:
        self.count = None
        answer = self.env.reset(**options)
        self.count = 0
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self.count = (self.count or 0) + 1
        return answer


# ---- many episodes -------------------------------------------------------------------------------


def reset_seed(seed: int, episode: int) -> int:
    """The number that an episode is reset with."""
    return int(bits(purpose_key(require_seed(seed), CONTEXTS), episode, 1)[0] >> np.uint64(33))


class SinglePlayer:
    """Plays one episode after the other in one environment."""

    size = 1  # episodes that are played at once

    def __init__(
        self, env: Any, spaces: Spaces, *, first_seed: int | None, episode_seed: int | None
    ) -> None:
        """first_seed: of the first reset alone. episode_seed: every episode gets its own number."""
        self.env, self.spaces, self._next, self._seed = env, spaces, first_seed, episode_seed

    def play(self, scripts: Sequence[Script], first: int) -> list[Playing]:
        """Play the episodes from number `first` on, each by its script."""
        played = []
        for k, script in enumerate(scripts, first):
            seed = self._next if self._seed is None else reset_seed(self._seed, k)
            self._next = None
            played.append(play(self.env, self.spaces, script, seed))
        return played


class VectorPlayer:
    """Plays as many episodes together as a vector environment has parts.

    All parts are reset together, each with the number of its episode. So an episode is the same as
    in a single environment that is reset with that number. Everything that a part does after its
    episode is over, such as a reset, is ignored.
    """

    def __init__(self, env: Any, spaces: Spaces, *, episode_seed: int) -> None:
        self.env, self.spaces = env, spaces
        self.size, self._seed = int(env.num_envs), episode_seed
        if env.metadata.get("autoreset_mode") is gymnasium.vector.AutoresetMode.DISABLED:
            raise ValueError(
                "this vector environment does not reset its parts, so no episode can go on while"
                " another one is over; make it with autoreset_mode=AutoresetMode.NEXT_STEP"
            )

    def play(self, scripts: Sequence[Script], first: int) -> list[Playing]:
        """Play the episodes from number `first` on, each by its script; at most `size` of them."""
        for script in scripts:
            require_script(self.spaces, script)
        playing = [Playing(self.spaces, script) for script in scripts]
        going = [True] * len(playing)
        idle = self.spaces.action(0)  # of a part that has nothing to say any more
        seeds = [reset_seed(self._seed, first + i) for i in range(self.size)]
        observations, _ = self.env.reset(seed=seeds)
        while any(going):
            seen = gymnasium.vector.utils.iterate(self.env.observation_space, observations)
            actions = [idle] * self.size
            for i, observation in enumerate(seen):
                if i < len(playing) and going[i]:
                    actions[i] = playing[i].act(observation)
            observations, paid, terminated, truncated, _ = self.env.step(self._batch(actions))
            for i, one in enumerate(playing):
                if going[i]:
                    going[i] = one.take(paid[i], terminated[i], truncated[i], self.env)
        return playing

    def _batch(self, actions: list[Any]) -> Any:
        """The actions of all parts, as the vector environment takes them."""
        space = self.env.single_action_space
        empty: Any = gymnasium.vector.utils.create_empty_array(space, n=self.size)
        return gymnasium.vector.utils.concatenate(space, actions, empty)


Player = SinglePlayer | VectorPlayer


def player_of(
    env: Any, spaces: Spaces, *, first_seed: int | None, episode_seed: int | None
) -> Player:
    """The player for an environment; a vector environment has a seed for each episode."""
    if not is_vector(env):
        return SinglePlayer(env, spaces, first_seed=first_seed, episode_seed=episode_seed)
    assert episode_seed is not None
    return VectorPlayer(env, spaces, episode_seed=episode_seed)
