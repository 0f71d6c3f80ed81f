"""The bridge to Gymnasium.

It makes exact tables of an environment, and lets a learner play any discrete environment.

A Gymnasium episode may end early, an episode here has H steps. So a problem of S states has one
more here, number S, where a terminated episode stays and is paid 0 for the steps that are left.
Only action 0 is allowed there: a choice would only add switches that mean nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import checked_mask, require_count, shown
from lowswitch.envs.gymnasium.factory import environment as environment
from lowswitch.envs.gymnasium.spaces import Numbering, gymnasium
from lowswitch.envs.mdp import Scale, TabularMDP, rescale
from lowswitch.history import History
from lowswitch.runs.simulate import warn_if_no_better
from lowswitch.show.progress import Progress
from lowswitch.table_learner import TableLearner, warn_if_drowned

_REDRAW_SECONDS = 0.1
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
    horizon = _checked_horizon(
        env, horizon, "the environment itself ends an episode after {} steps, its tables do not"
    )
    S, A, *_ = _tabled(env)
    rows, probabilities, successors, paid = _outcomes(env)
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
        name=_name(given, options),
    )


def _checked_horizon(env: gymnasium.Env[Any, Any], horizon: int | None, limited: str) -> int:
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


def _name(env: gymnasium.Env[Any, Any] | str, options: Mapping[str, Any]) -> str:
    """What results call the problem: the name of the environment with its options."""
    if not isinstance(env, str):
        spec = getattr(env, "spec", None)
        return str(spec.id) if spec is not None else type(env.unwrapped).__name__
    words = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{env}:{words}".rstrip(":")


def _outcomes(env: gymnasium.Env[Any, Any]) -> tuple[np.ndarray, ...]:
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
    numbers = _numbers(env)
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


class EnvironmentRun(NamedTuple):
    """What came out of `learn`."""

    learner: TableLearner
    returns: np.ndarray  # [K]  sums of rewards in the environment's units
    history: History

    def __repr__(self) -> str:
        returns = f"{len(self.returns):,} returns from {self.returns.min():g} to"
        mean = f"{self.returns.max():g} with mean {self.returns.mean():.4g}"
        return f"EnvironmentRun({self.learner!r}, {returns} {mean}, {self.history!r})"


def learn(
    env: gymnasium.Env[Any, Any] | str,
    algorithm: Algorithm,
    *,
    horizon: int | None = None,
    episodes: int,
    seed: int = 0,
    reward_range: tuple[float, float] = (0.0, 1.0),
    progress: bool | None = None,
    **options: Any,
) -> EnvironmentRun:
    """Let a new learner play `episodes` episodes of an environment whose tables are unknown.

    Its states and actions must be discrete, or made of discrete parts; a name is made by
    `gymnasium.make` with the options, such as is_slippery=False. `reward_range` is the least and
    the largest reward the environment can pay, 0 included. The learner and the first reset get the
    seed. The policy has the shape [H, S + 1] and fits the tables of `from_gymnasium`. An
    environment that truncates before the horizon is an error: whether it would have gone on is not
    known.
    """
    scale = reward_scale(reward_range)
    episodes, env = require_count("episodes", episodes), environment(env, **options)
    horizon = _checked_horizon(
        env,
        horizon,
        "the environment ends an episode after {0} steps, and the horizon is {0} at most",
    )
    learner = learner_for(env, algorithm, horizon=horizon, episodes=episodes, seed=seed)
    initial = learner.mixture.copy()
    returns, parts = np.zeros(episodes), [np.zeros((0, 3 + len(learner.mixture)), dtype=np.int64)]
    drawn = time.perf_counter()
    with Progress(episodes * horizon, unit="steps", show=progress, label=str(algorithm)) as bar:
        for k in range(episodes):
            episode = play_episode(env, learner.policy, seed=seed if k == 0 else None)
            rewards = _unit_rewards(env, episode, scale)
            switch = learner.tell(episode.states, episode.actions, rewards)
            returns[k] = episode.rewards.sum()
            if switch is not None:
                parts.append(switch.changes)
            if not k or time.perf_counter() - drawn > _REDRAW_SECONDS or k + 1 == episodes:
                drawn = time.perf_counter()
                bar.update((k + 1) * horizon)
    warn_if_drowned(learner.drowned_share, algorithm)
    if _plays_its_tables(env):
        mdp = from_gymnasium(env, horizon=horizon)
        first, last = mdp.evaluate(initial), mdp.evaluate(learner.mixture)
        warn_if_no_better("the last policy", first, last, mdp.optimal_value(), algorithm)
    return EnvironmentRun(learner, returns, History(np.concatenate(parts)))


def _plays_its_tables(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether it publishes tables, and no wrapper pays or moves in another way than they say."""
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, _HARMLESS):
            return False
        env = env.env
    return hasattr(env, "P") and hasattr(env, "initial_state_distrib")


_HARMLESS = tuple(
    getattr(gymnasium.wrappers, name)
    for name in ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")
)


def _unit_rewards(env: gymnasium.Env[Any, Any], episode: Episode, scale: Scale) -> np.ndarray:
    """The rewards of an episode in [0, 1]; one outside of the range says how to find the range."""
    low, high = float(episode.rewards.min()), float(episode.rewards.max())
    if not scale.low <= low <= high <= scale.high:
        h = int(np.argmax((episode.rewards < scale.low) | (episode.rewards > scale.high)))
        raise ValueError(
            f"the environment paid {episode.rewards[h]:g} at step {h}, outside of"
            f" reward_range=({scale.low:g}, {scale.high:g}); give the least and the largest reward"
            f" that a step can pay, 0 included: {_how_to_find_range(env, scale, low, high)}"
        )
    return scale.to_unit(episode.rewards)


def _how_to_find_range(env: gymnasium.Env[Any, Any], scale: Scale, low: float, high: float) -> str:
    """The range of rewards if the environment publishes it, else where it is written."""
    if hasattr(env.unwrapped, "P"):
        paid = _outcomes(env)[3]
        least, most = min(0.0, float(paid.min())), max(0.0, float(paid.max()))
        if least <= low <= high <= most:  # a wrapper may pay otherwise
            return f"by the tables of the environment it is reward_range=({least:g}, {most:g})"
    return (
        f"it is at least reward_range=({min(low, scale.low):g}, {max(high, scale.high):g}), and the"
        " page of the environment says what else it pays; a range that is too wide is no mistake,"
        " but learns more slowly"
    )


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
    numbers = _numbers(env)
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
    numbers = _numbers(env)
    S, H = numbers.states.size, len(policy)
    if policy.shape != (H, S + 1):
        raise ValueError(
            f"a policy for this environment has the shape [H, S + 1] = [H, {S + 1}], not"
            f" {policy.shape}; make it with learner_for"
        )
    states, rewards = np.full(H, S), np.zeros(H)
    observation, _ = env.reset(seed=seed)
    for h in range(H):
        try:
            states[h] = numbers.states.number(observation)
        except ValueError:
            raise ValueError(
                f"the environment observes {observation!r} at step {h}, outside of its states"
                f" {numbers.states.space}"
            ) from None
        action = numbers.actions.element(int(policy[h, states[h]]))
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards[h] = reward
        if terminated:
            break
        if truncated and h + 1 < H:
            raise ValueError(
                f"the environment truncated the episode after {h + 1} steps, {_way_out(h + 1, H)}"
            )
    return Episode(states, policy[np.arange(H), states], rewards)


class _Numbers(NamedTuple):
    """The states and actions of an environment, numbered from 0."""

    states: Numbering
    actions: Numbering


def _numbers(env: Any) -> _Numbers:
    """How the states and actions of an environment are numbered, or why they are not."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ValueError(
            "a vector environment mixes episodes and resets itself between them; pass a single"
            " environment"
        )
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        hint = f"; make it with gymnasium.make({env!r})" if isinstance(env, str) else ""
        raise ValueError(f"env must be a Gymnasium environment, not {shown(env)}{hint}")
    return _Numbers(
        Numbering(env.observation_space, "observations"), Numbering(env.action_space, "actions")
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
