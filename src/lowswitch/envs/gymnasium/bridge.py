"""The bridge to Gymnasium.

It makes exact tables of an environment, and plays episodes of any discrete environment.

A Gymnasium episode may end early, an episode here has H steps. So a problem of S states has one
more here, number S, where a terminated episode stays and is paid 0 for the steps that are left.
Only action 0 is allowed there: a choice would only add switches that mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import checked_mask, require_count, require_seed, shown
from lowswitch.envs.gymnasium.factory import environment as environment
from lowswitch.envs.gymnasium.spaces import Numbering, gymnasium
from lowswitch.envs.mdp import Scale, TabularMDP, rescale
from lowswitch.kernels.streams import CONTEXTS, bits, purpose_key
from lowswitch.table_learner import TableLearner

_PLAY_IT = (
    "let a learner play it instead, with lowswitch.envs.gymnasium.learn or, on the command line,"
    " lowswitch concurrent; a step function of your own is for lowswitch.envs.Simulator, and whole"
    " episodes are for lowswitch.concurrent.System"
)


# ---- tables of an environment --------------------------------------------------------------------


def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str, *, horizon: int | None = None, **options: Any
) -> TabularMDP:
    """The exact tables of an environment that publishes them as `env.unwrapped.P`.

    FrozenLake, CliffWalking, Taxi and their like do. A name is made by `gymnasium.make` with the
    options, which may also be written behind it: "FrozenLake-v1:is_slippery=false". The result has
    S + 1 states (see above). Rewards are the expected ones; if any lies outside [0, 1] they are
    rescaled, and values and regret come out in the environment's own units. The environment's
    TimeLimit is not part of its tables: `horizon` takes its place.
    """
    from scipy.sparse import coo_matrix

    given, env = env, environment(env, **options)
    require_single(env)
    horizon = checked_horizon(
        env, horizon, "the environment itself ends an episode after {} steps, its tables do not"
    )
    S, A, *_ = _tabled(env)
    rows, probabilities, successors, paid = outcomes_of(env)
    absorbing = np.arange(S * A, (S + 1) * A)
    places = np.append(rows, absorbing), np.append(successors, np.full(A, S))
    # a successor that is listed several times is added up
    transitions = coo_matrix(
        (np.append(probabilities, np.ones(A)), places), shape=((S + 1) * A, S + 1)
    )
    low, high = min(0.0, float(paid.min())), max(0.0, float(paid.max()))
    rewards = np.bincount(rows, probabilities * paid, minlength=(S + 1) * A).reshape(S + 1, A)
    rewards = np.clip(rewards, low, high)  # a mean may be rounded out of its range
    return TabularMDP(
        transitions,
        rewards if low == 0 and high <= 1 else rescale(rewards, low=low, high=high),
        start=np.append(_published(env, "initial_state_distrib"), 0.0),
        horizon=horizon,
        actions_allowed=_allowed(S, A),
        name=env_name(given, options),
    )


def checked_horizon(env: gymnasium.Env[Any, Any], horizon: int | None, limited: str) -> int:
    """The horizon, or an error that says how to choose it; `limited` is said of a TimeLimit."""
    if horizon is not None:
        return require_count("horizon", horizon)
    limit = env.spec.max_episode_steps if env.spec is not None else None
    longest = "the environment has no limit of its own" if limit is None else limited.format(limit)
    raise ValueError(
        f"horizon is missing: say how many steps an episode has, as in horizon={limit or 20};"
        f" {longest}. Take the least number of steps in which the task can be done, because every"
        " step has rows of its own to be learned"
    )


def env_name(env: gymnasium.Env[Any, Any] | str, options: Mapping[str, Any]) -> str:
    """What results call the problem: the name of the environment with its options."""
    if not isinstance(env, str):
        spec = getattr(env, "spec", None)
        return str(spec.id) if spec is not None else type(env.unwrapped).__name__
    words = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{env}:{words}".rstrip(":")


def outcomes_of(env: gymnasium.Env[Any, Any]) -> tuple[np.ndarray, ...]:
    """What P lists, as four columns.

    They are the row x A + a, the probability, the successor (S where the episode ends), the reward.
    """
    S, A, first_state, first_action = _tabled(env)
    table = _published(env, "P")
    try:
        listed = [
            (x * A + a, chance, S if ends else successor - first_state, reward, ends)
            for x in range(S)
            for a in range(A)
            for chance, successor, reward, ends in table[first_state + x][first_action + a]
            if chance != 0
        ]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"{env.unwrapped}.P is no table of (probability, successor, reward, terminated) lists"
            f" ({error!r})"
        ) from error
    rows, probabilities, successors, paid, ends = (
        np.array(column) for column in zip(*listed, strict=True)
    )
    if not ((successors >= 0) & ((successors < S) | ends)).all():
        raise ValueError(f"{env.unwrapped}.P leads to a state outside of its {S}; correct it")
    return rows, probabilities, successors, paid


class _Tabled(NamedTuple):
    """How the tables of an environment are numbered: as its states and actions are."""

    S: int
    A: int
    first_state: int  # mostly 0
    first_action: int


def _tabled(env: gymnasium.Env[Any, Any]) -> _Tabled:
    """How the tables of an environment are numbered, or why it has none."""
    numbers = numbers_of(env)
    for numbering in numbers:
        if len(numbering.digits) > 1:
            raise ValueError(
                f"{env.unwrapped} has {numbering.what} of several parts, which tables P do not"
                f" have; {_PLAY_IT}"
            )
    [state], [action] = (numbering.digits for numbering in numbers)
    return _Tabled(state.size, action.size, state.first, action.first)


def _published(env: gymnasium.Env[Any, Any], name: str) -> Any:
    """`P` or `initial_state_distrib` of the innermost environment."""
    ways_out = {
        "P": f"has no tables P; {_PLAY_IT}",
        "initial_state_distrib": (
            "does not say where it starts; set env.unwrapped.initial_state_distrib to the law of"
            " its first state"
        ),
    }
    if not hasattr(env.unwrapped, name):
        raise ValueError(f"{env.unwrapped} {ways_out[name]}")
    return getattr(env.unwrapped, name)


# ---- a learner on an environment -----------------------------------------------------------------


class Episode(NamedTuple):
    """One episode as `Learner.tell` takes it, but with rewards in the environment's units."""

    states: np.ndarray  # [H]
    actions: np.ndarray  # [H]
    rewards: np.ndarray  # [H]


def learner_for(
    env: gymnasium.Env[Any, Any],
    algorithm: Algorithm,
    *,
    horizon: int,
    episodes: int,
    seed: int = 0,
) -> TableLearner:
    """A learner of the right size for an environment, with S + 1 states.

    Drive it with `play_episode` and `tell`.
    """
    states, actions, allowed = spaces_of(env, require_count("horizon", horizon))
    return TableLearner(
        algorithm,
        horizon=horizon,
        states=states,
        actions=actions,
        episodes=episodes,
        actions_allowed=allowed,
        seed=seed,
    )


class Spaces(NamedTuple):
    """The states and actions of an environment as a learner has them."""

    states: int  # S + 1
    actions: int
    actions_allowed: np.ndarray  # [H, S + 1, A]


def spaces_of(env: gymnasium.Env[Any, Any], horizon: int) -> Spaces:
    """The states and actions of an environment that can be played for so many steps."""
    numbers = numbers_of(env)
    S, A = numbers.states.size, numbers.actions.size
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is not None and limit < horizon:
        raise ValueError(
            f"the environment truncates after {limit} steps, {_way_out(limit, horizon)}"
        )
    return Spaces(S + 1, A, checked_mask(_allowed(S, A), horizon, S + 1, A))


def reward_scale(reward_range: tuple[float, float]) -> Scale:
    """The scale from the least to the largest reward an environment can pay, 0 included."""
    scale = Scale.of(reward_range)
    low, high = scale.low, scale.high
    if not low <= 0 <= high:
        raise ValueError(
            f"reward_range must contain 0, which the steps after termination pay, not [{low:g},"
            f" {high:g}]; widen it"
        )
    return scale


def reset_seed(seed: int, episode: int) -> int:
    """The number that an episode is reset with."""
    return int(bits(purpose_key(require_seed(seed), CONTEXTS), episode, 1)[0] >> np.uint64(33))


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


def play_episode(
    env: gymnasium.Env[Any, Any], policy: np.ndarray, *, seed: int | None = None
) -> Episode:
    """Play one episode by a policy [H, S + 1]; after termination the state is S, the reward 0."""
    require_single(env)
    numbers = numbers_of(env)
    S, H = numbers.states.size, len(policy)
    numbers.require_policy(policy)
    states, rewards = np.full(H, S), np.zeros(H)
    observation, _ = env.reset(seed=seed)
    for h in range(H):
        states[h] = numbers.state(observation, h)
        action = numbers.actions.element(int(policy[h, states[h]]))
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards[h] = reward
        if terminated:
            break
        if truncated:
            require_last_step(h, H)
    return Episode(states, policy[np.arange(H), states], rewards)


def require_last_step(h: int, H: int) -> None:
    """Refuse an episode that was truncated after step h of H, unless that is the last one."""
    if h + 1 < H:
        raise ValueError(
            f"the environment truncated the episode after {h + 1} steps, {_way_out(h + 1, H)}"
        )


class Numbers(NamedTuple):
    """The states and actions of an environment, numbered from 0."""

    states: Numbering
    actions: Numbering

    @classmethod
    def of(cls, observations: Any, actions: Any) -> Numbers:
        """The numbers of two spaces; actions are looked at first, for nothing else helps there."""
        numbered = Numbering(actions, "actions")
        return cls(Numbering(observations, "observations"), numbered)

    def require_policy(self, policy: np.ndarray) -> None:
        """Refuse a policy that is not [H, S + 1]."""
        S = self.states.size
        if policy.ndim != 2 or policy.shape[1] != S + 1:
            raise ValueError(
                f"a policy for this environment has the shape [H, S + 1] = [H, {S + 1}], not"
                f" {policy.shape}; make it with learner_for"
            )

    def state(self, observation: Any, h: int) -> int:
        """The number of what is observed at step h."""
        try:
            return self.states.number(observation)
        except ValueError:
            raise ValueError(
                f"the environment observes {observation!r} at step {h}, outside of its states"
                f" {self.states.space}"
            ) from None


def numbers_of(env: Any) -> Numbers:
    """How the states and actions of an environment are numbered, or why they are not."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        return Numbers.of(env.single_observation_space, env.single_action_space)
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        hint = f"; make it with gymnasium.make({env!r})" if isinstance(env, str) else ""
        raise ValueError(f"env must be a Gymnasium environment, not {shown(env)}{hint}")
    return Numbers.of(env.observation_space, env.action_space)


def require_single(env: Any) -> None:
    """Refuse a vector environment."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ValueError(
            "a vector environment plays several episodes at once, and this needs one; learn and"
            " evaluate_policy play them, here pass a single environment"
        )


def _allowed(S: int, A: int) -> np.ndarray:  # [S + 1, A]
    mask = np.ones((S + 1, A), dtype=bool)
    mask[S, 1:] = False
    return mask


def _way_out(limit: int, horizon: int) -> str:
    return (
        f"before the horizon {horizon}; ask for horizon={limit} or less, or make it with"
        f" max_episode_steps={horizon}"
    )
