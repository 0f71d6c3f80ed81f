"""The bridge to Gymnasium: exact tables of an environment, and learners of the right size.

A Gymnasium episode may end early, an episode here has H steps. So a problem of S states has one
more here, number S, where a terminated episode stays and is paid 0 for the steps that are left.
Only action 0 is allowed there: a choice would only add switches that mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import checked_mask, require_count, require_memory
from lowswitch.envs.gymnasium.factory import environment
from lowswitch.envs.gymnasium.playing import require_limit, require_single, time_limit
from lowswitch.envs.gymnasium.spaces import gymnasium, spaces_of
from lowswitch.envs.mdp import Scale, TabularMDP, rescale
from lowswitch.feature_learner import FeatureLearner
from lowswitch.learner import Learner
from lowswitch.policy.spaces import Digit, Numbering, Spaces
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

    FrozenLake, CliffWalking, Taxi and similar environments do. The result has S + 1 states (see
    above). Rewards are the expected ones; if any lies outside [0, 1] they are rescaled, and values
    and regret are in the environment's own units. A wrapper that may move, observe or pay
    differently from the tables is refused.

    Parameters
    ----------
    env
        An environment, or a name for `gymnasium.make`. Options may follow the name:
        "FrozenLake-v1:is_slippery=false".
    horizon
        H. It replaces the environment's TimeLimit, which is not part of its tables.
    **options
        Options for `gymnasium.make`.
    """
    from scipy.sparse import coo_matrix

    given, env = env, environment(env, **options)
    require_single(env)
    require_unwrapped(env)
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
    """The horizon, or an error that says how to choose it; `limited` describes a TimeLimit."""
    if horizon is not None:
        return require_count("horizon", horizon)
    limit = time_limit(env)
    longest = "the environment has no TimeLimit" if limit is None else limited.format(limit)
    raise ValueError(
        f"horizon is missing: say how many steps an episode has, as in horizon={limit or 20};"
        f" {longest}. Take at least as many steps as the task needs. With more of them few"
        " explores better where a goal is hard to find; algorithms that do not pool steps have more"
        " to learn"
    )


# wrappers that change no observation, action or reward before the horizon
_HARMLESS = (
    *("OrderEnforcing", "PassiveEnvChecker", "TimeLimit", "RecordEpisodeStatistics"),
    *("RecordVideo", "RenderCollection", "HumanRendering"),
)


def changing_wrapper(env: Any) -> str:
    """The name of a wrapper whose moves, observations or rewards may differ from the tables."""
    harmless = {getattr(gymnasium.wrappers, name) for name in _HARMLESS}
    while isinstance(env, gymnasium.Wrapper):
        if type(env) not in harmless:
            return type(env).__name__
        env = env.env
    return ""


def require_unwrapped(env: Any) -> None:
    """Refuse an environment whose wrappers may differ from its tables."""
    if wrapper := changing_wrapper(env):
        raise ValueError(
            f"the wrapper {wrapper} may change observations, moves or rewards, so the tables P of"
            " the environment inside it may describe another problem; pass env.unwrapped for the"
            " environment without its wrappers, or let a learner play the wrapped one with"
            " lowswitch.envs.gymnasium.learn"
        )


def plays_its_tables(env: Any) -> bool:
    """Whether it publishes tables, and no wrapper may differ from them."""
    has_tables = hasattr(_inner(env), "P") and hasattr(_inner(env), "initial_state_distrib")
    return has_tables and not changing_wrapper(env)


def _inner(env: Any) -> Any:
    """The environment inside of all wrappers; itself if it does not derive from Gymnasium's."""
    return getattr(env, "unwrapped", env)


def env_name(env: gymnasium.Env[Any, Any] | str, options: Mapping[str, Any]) -> str:
    """What results call the problem: the name of the environment with its options."""
    if not isinstance(env, str):
        spec = getattr(env, "spec", None)
        return str(spec.id) if spec is not None else type(_inner(env)).__name__
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
            f"{_inner(env)}.P is not a table of (probability, successor, reward, terminated) lists"
            f" ({error!r})"
        ) from error
    rows, probabilities, successors, paid, ends = (
        np.array(column) for column in zip(*listed, strict=True)
    )
    if not ((successors >= 0) & ((successors < S) | ends)).all():
        raise ValueError(f"{_inner(env)}.P leads to a state outside of its {S}; correct it")
    return rows, probabilities, successors, paid


class _Tabled(NamedTuple):
    """How the tables of an environment are numbered: as its states and actions are."""

    S: int
    A: int
    first_state: int  # mostly 0
    first_action: int


def _tabled(env: gymnasium.Env[Any, Any]) -> _Tabled:
    """How the tables of an environment are numbered, or why it has no tables."""
    spaces, digits = spaces_of(env), list[Digit]()
    for numbering in (spaces.observations, spaces.actions):
        if len(numbering.form.digits) > 1:
            raise ValueError(
                f"{_inner(env)} has {numbering.what} of several parts, which tables P do not"
                f" have; {_PLAY_IT}"
            )
        digits += numbering.form.digits
    state, action = digits
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
    if not hasattr(_inner(env), name):
        raise ValueError(f"{_inner(env)} {ways_out[name]}")
    return getattr(_inner(env), name)


# ---- a learner on an environment -----------------------------------------------------------------


def learner_for(
    env: gymnasium.Env[Any, Any] | str,
    algorithm: Algorithm,
    *,
    horizon: int,
    episodes: int,
    seed: int = 0,
    features: Any = None,
    reward_range: tuple[float, float] | None = None,
    **options: Any,
) -> Any:
    """A learner of the right size for an environment, which knows its spaces.

    Without features it has S + 1 states. Drive it with `learn`, or with `play_episode` and `tell`;
    `learner.spaces.rewards.to_unit` maps rewards to [0, 1], which tables take.

    Parameters
    ----------
    env
        The environment.
    algorithm
        The algorithm.
    horizon
        H.
    episodes
        K, how many episodes the learner can be told.
    seed
        The seed of the learner.
    features
        A map of `ls.features`, if observations are vectors.
    reward_range
        The smallest and the largest reward of a step.
    **options
        Further options of the learner.
    """
    env = environment(env, learner_for, **options)
    spaces = spaces_of(env, features, reward_range)
    return fresh_learner(env, spaces, require_algorithm(algorithm), horizon, episodes, seed)


def fresh_learner(
    env: Any, spaces: Spaces, algorithm: Algorithm, horizon: int, episodes: int, seed: int
) -> Any:
    """A new learner for an environment with these spaces."""
    require_limit(env, require_count("horizon", horizon))
    options: dict[str, Any] = {"horizon": horizon, "episodes": episodes, "seed": seed}
    learner: Learner
    if isinstance(spaces.observations, Numbering):
        sizes = sizes_of(spaces, horizon)
        learner = TableLearner(algorithm, **options, **sizes._asdict())
    else:
        size = {"features": spaces.observations.size, "actions": spaces.actions.size}
        learner = FeatureLearner(algorithm, **options, **size)
    learner.spaces = spaces
    return learner


class Sizes(NamedTuple):
    """The states and actions of an environment as a learner of tables has them."""

    states: int  # S + 1
    actions: int
    actions_allowed: np.ndarray  # [H, S + 1, A]


def sizes_of(spaces: Spaces, horizon: int) -> Sizes:
    """The numbers of states and actions of an environment that is played for this many steps."""
    S, A = spaces.observations.size, spaces.actions.size
    what = f"tables of {S:,} observations and {A:,} actions for {horizon:,} steps"
    way_out = (
        "wrap the environment in one with fewer of them, or see observations that are vectors by"
        " features="
    )
    require_memory(horizon * (S + 1) * (A + 24), what, way_out)
    return Sizes(S + 1, A, checked_mask(_allowed(S, A), horizon, S + 1, A))


def _allowed(S: int, A: int) -> np.ndarray:  # [S + 1, A]
    mask = np.ones((S + 1, A), dtype=bool)
    mask[S, 1:] = False
    return mask


class PaidRange(NamedTuple):
    """The rewards of an environment, as far as known."""

    low: float
    high: float
    published: bool  # whether the tables of the environment say so


def paid_range(env: Any, scale: Scale, low: float, high: float) -> PaidRange:
    """The range of rewards, once `low` to `high` were paid and a range had been given."""
    if hasattr(_inner(env), "P"):
        paid = outcomes_of(env)[3]
        least, most = min(0.0, float(paid.min())), max(0.0, float(paid.max()))
        if least <= low <= high <= most:  # a wrapper may pay otherwise
            return PaidRange(least, most, True)
    return PaidRange(min(low, scale.low), max(high, scale.high), False)
