"""`learn`: let a learner play an environment, with callbacks, one by one or as a vector."""

from __future__ import annotations

import sys
import time
import warnings
from types import FrameType
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import require_count, require_seed, require_truth
from lowswitch.envs.gymnasium.bridge import (
    checked_horizon,
    env_name,
    fresh_learner,
    from_gymnasium,
    paid_range,
    plays_its_tables,
)
from lowswitch.envs.gymnasium.callbacks import Callbacks, EpisodeEnd
from lowswitch.envs.gymnasium.environment_run import EnvironmentRun, history_of
from lowswitch.envs.gymnasium.factory import environment
from lowswitch.envs.gymnasium.playing import (
    Player,
    Playing,
    features_of,
    is_vector,
    player_of,
    require_limit,
)
from lowswitch.envs.gymnasium.spaces import gymnasium, spaces_of
from lowswitch.envs.mdp import Scale, TabularMDP
from lowswitch.learner import Learner
from lowswitch.policy.spaces import Numbering, Spaces
from lowswitch.runs.results import origin
from lowswitch.runs.simulate import NothingLearnedWarning, warn_if_poor, what_may_help
from lowswitch.show.progress import Progress
from lowswitch.table_learner import TableLearner, warn_if_drowned

_REDRAW_SECONDS = 0.1
_FEWEST = 20  # returns that are judged; fewer are too noisy
_CLEARLY = 4.0  # standard errors between the first and the last tenth
_UNIT = Scale()  # the range of rewards that tables have by default


def learn(
    env: gymnasium.Env[Any, Any] | str,
    algorithm: Algorithm | Learner | EnvironmentRun,
    *,
    features: Any = None,
    horizon: int | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    reward_range: tuple[float, float] | None = None,
    reseed: bool = False,
    callbacks: Any = (),
    progress: bool | None = None,
    **options: Any,
) -> EnvironmentRun:
    """Let a learner play `episodes` episodes of an environment whose tables are unknown.

    Its actions must be discrete, or made of discrete parts, and so must its observations unless
    there are features. A table has the shape [H, S + 1] and fits the tables of `from_gymnasium`. An
    environment that truncates before the horizon is an error, because nobody knows whether it would
    have gone on.

    `few` deploys a mixture and draws a policy for each episode, so `learner.policy` may change from
    one episode to the next without a deployment. `few(deployments=N, members=1)` deploys one policy
    at a time.

    Parameters
    ----------
    env
        The environment, or a name for `gymnasium.make`, which also gets the `options`, such as
        is_slippery=False.
    algorithm
        The algorithm of a new learner; or a learner, or the result of an earlier call, which
        continues and must have room for the episodes.
    features
        A map of `ls.features` for observations that are vectors. It is for episodes of few
        steps; for many see `examples/cartpole.py`.
    horizon
        The number of steps per episode.
    episodes
        The number of episodes to play; it has no default.
    seed
        The seed of a new learner and of the first reset, 0 by default. A learner without data
        uses its own seed. A learner that continues resets without a seed unless one is given,
        because the environment continues, too.
    reward_range
        The smallest and largest reward the environment can pay, including 0; [0, 1] by default,
        and with features any numbers. A learner that continues keeps its range.
    reseed
        Reset every episode with its own number, made of the seed and the number of the episode,
        so that the episode is the same wherever and whenever it is played. A vector environment
        always does so. It plays several episodes at once and replays those that a deployment
        has outdated, so its results equal one environment with reseed=True.
    callbacks
        Functions or `Callback` objects that are called for each episode.
    progress
        Whether to show progress, as in `simulate`.
    options
        Options for `gymnasium.make`.
    """
    called, named = Callbacks(callbacks), env
    env = environment(env, learn, **options)
    if seed is not None:
        require_seed(seed)
    given = algorithm.learner if isinstance(algorithm, EnvironmentRun) else algorithm
    if not isinstance(given, Learner):
        given = require_algorithm(given)
    episodes = _checked_episodes(episodes, given)
    spaces = spaces_of(env, features_of(given, features), reward_range)
    learner = _learner(env, spaces, given, horizon, episodes, seed)
    own = learner.seed if seed is None else seed
    player = player_of(
        env,
        learner.spaces,
        first_seed=seed if learner.told else own,
        episode_seed=own if require_truth("reseed", reseed) or is_vector(env) else None,
    )
    tables = _tables(env, learner)
    try:
        called.on_start(learner)
        name = env_name(named, options)
        run = _play(env, learner, episodes, player, called, progress, name)
        _warn(tables, run)
        called.on_end(run)
    finally:
        called.close()
    return run


def learn_features(env: Any, algorithm: Any, *, features: Any = None, **options: Any) -> Any:
    """`learn` with features and `reseed=True`, so that an episode is the one of `Environment`.

    Parameters
    ----------
    env, algorithm, features
        As in `learn`.
    **options
        Further options of `learn`.
    """
    return learn(env, algorithm, features=features, reseed=True, **options)


def _checked_episodes(episodes: int | None, given: Algorithm | Learner) -> int:
    """The number of episodes to play, or an error that says how to choose it."""
    if episodes is not None:
        return require_count("episodes", episodes)
    room = given.episodes - given.told if isinstance(given, Learner) else 0
    example = f"{room}; this learner has room for {room:,} more" if room else "1_000"
    raise ValueError(f"episodes is missing: say how many to play, as in episodes={example}")


def _learner(
    env: Any,
    spaces: Spaces,
    given: Algorithm | Learner,
    horizon: int | None,
    episodes: int,
    seed: int | None,
) -> Any:
    """The learner that plays: a new one, or the given one, which continues."""
    if isinstance(given, Learner):
        _require_fitting(env, spaces, given, horizon, episodes)
        learner, known = given, given.spaces
        rewards = spaces.rewards or (None if known is None else known.rewards)
    else:
        horizon = checked_horizon(
            env,
            horizon,
            "the environment ends an episode after {0} steps, and the horizon is {0} at most",
        )
        learner = fresh_learner(env, spaces, given, horizon, episodes, seed or 0)
        rewards = spaces.rewards
    if rewards is None and isinstance(learner, TableLearner):
        rewards = _UNIT
    learner.spaces = spaces.with_rewards(rewards)
    return learner


def _require_fitting(
    env: Any, spaces: Spaces, learner: Learner, horizon: int | None, episodes: int
) -> None:
    """Refuse a learner that was made for something else, or has no room for this many episodes."""
    if horizon is not None and horizon != learner.horizon:
        raise ValueError(
            f"this learner was made for horizon={learner.horizon}, not {horizon}; leave horizon out"
        )
    require_limit(env, learner.horizon)
    _require_sizes(spaces, learner)
    if learner.spaces is not None:
        _require_same(spaces, learner.spaces)
    room = learner.episodes - learner.told
    if episodes > room:
        raise ValueError(
            f"this learner has room for {room:,} more episodes, not {episodes:,}: it was made for"
            f" {learner.episodes:,}, because their number enters bonuses and dates; make one for"
            " all of them with learner_for(..., episodes=...), and let it play in parts"
        )
    if learner.gate == "review":
        raise ValueError(
            "this learner is in review, but learn cannot approve proposals; play it with"
            " play_episode and tell"
        )


def _require_sizes(spaces: Spaces, learner: Any) -> None:
    """Refuse a learner of another size."""
    seen, A = spaces.observations, spaces.actions.size
    if isinstance(learner, TableLearner):
        fits, states = isinstance(seen, Numbering), getattr(seen, "size", 0) + 1
        if not fits or (states, A) != (learner.states, learner.actions):
            raise ValueError(
                f"this learner has {learner.states} states and {learner.actions} actions, and the"
                f" environment {states} (one for episodes that are over) and {A}; make it with"
                " learner_for"
            )
    elif (seen.size, A) != (learner.shape.features, learner.actions):
        raise ValueError(
            f"this learner has {learner.shape.features} features and {learner.actions} actions, and"
            f" the environment {seen.size} and {A}; make it with learner_for"
        )


def _require_same(spaces: Spaces, known: Spaces) -> None:
    """Refuse spaces or rewards that mean something else than those the learner knows."""
    pairs = [(known.actions, spaces.actions)]
    if isinstance(known.observations, Numbering):
        pairs.append((known.observations, spaces.observations))
    for mine, other in pairs:
        if mine != other:
            raise ValueError(
                f"this learner knows the {mine.what} {mine}, and the environment has {other}; play"
                " an environment of the same spaces"
            )
    before, now = known.rewards, spaces.rewards
    if before is not None and now is not None and before != now:
        raise ValueError(
            f"this learner learned with reward_range=({before.low:g}, {before.high:g}), and what it"
            f" knows would mean something else with ({now.low:g}, {now.high:g}); leave reward_range"
            " out, or make a new learner"
        )


class _Log:
    """The data of a run in progress."""

    def __init__(self, learner: Any, episodes: int) -> None:
        self.first, self.thrown_away = learner.told, 0
        self.returns, self.lengths = np.zeros(episodes), np.zeros(episodes, dtype=np.int64)
        self.cut = np.zeros(episodes, dtype=bool)
        self.began, self.switches = learner.deployed, list[Any]()
        self.played = 0

    def add(self, playing: Playing, switch: Any) -> None:
        """Note an episode and the deployment after it."""
        k = self.played
        self.returns[k] = playing.rewards.sum()
        self.lengths[k], self.cut[k] = playing.length, playing.cut
        self.played += 1
        if switch is not None:
            self.switches.append(switch)

    def run(self, learner: Any, name: str, seconds: float) -> EnvironmentRun:
        """The results so far."""
        return EnvironmentRun(
            learner=learner,
            returns=self.returns[: self.played],
            lengths=self.lengths[: self.played],
            cut=self.cut[: self.played],
            history=history_of(self.began, self.switches),
            first=self.first,
            seconds=seconds,
            thrown_away=self.thrown_away,
            **origin(None, name),
        )


def _play(
    env: Any,
    learner: Any,
    episodes: int,
    player: Player,
    called: Callbacks,
    progress: bool | None,
    name: str,
) -> EnvironmentRun:
    log, H, drawn, going = _Log(learner, episodes), learner.horizon, 0.0, True
    label = str(learner.algorithm)
    with Progress(episodes * H, unit="steps", show=progress, label=label) as bar:
        while going and log.played < episodes:
            size = min(player.size, episodes - log.played)
            scripts = [learner.deployed.script(learner.told + i) for i in range(size)]
            batch = player.play(scripts, learner.told)
            for i, playing in enumerate(batch):
                if not scripts[i].plays_as(learner.deployed.script(learner.told)):
                    log.thrown_away += size - i  # a deployment came in between
                    break
                going = _tell(env, learner, playing, log, called)
                if not going:
                    break
            if not drawn or time.perf_counter() - drawn > _REDRAW_SECONDS:
                drawn = time.perf_counter()
                bar.update(log.played * H)
        bar.update(log.played * H)
        seconds = time.perf_counter() - bar.begin  # without what kernels took to compile
    return log.run(learner, name, seconds)


def _tell(env: Any, learner: Any, playing: Playing, log: _Log, called: Callbacks) -> bool:
    """Tell the learner an episode, and the callbacks; return whether to continue."""
    episode, scale = playing.episode, learner.spaces.rewards
    if scale is not None:
        _require_inside(env, episode.rewards[: playing.length], scale)
    tabular = isinstance(learner, TableLearner)
    rewards = scale.to_unit(episode.rewards) if tabular else episode.rewards
    switch = learner.tell(episode.states, episode.actions, rewards)
    log.add(playing, switch)
    k = log.played - 1
    earned, length = float(log.returns[k]), int(log.lengths[k])
    return called.on_episode(EpisodeEnd(learner, log.first + k, earned, length, switch))


def _require_inside(env: Any, rewards: np.ndarray, scale: Scale) -> None:
    """Refuse a reward outside of the range, and say how to find the range."""
    low, high = float(rewards.min()), float(rewards.max())
    if scale.low <= low <= high <= scale.high:
        return
    h = int(np.argmax((rewards < scale.low) | (rewards > scale.high)))
    paid = paid_range(env, scale, low, high)
    found = f"reward_range=({paid.low:g}, {paid.high:g})"
    way_out = (
        f"by the tables of the environment it is {found}"
        if paid.published
        else f"it is at least {found}, and the page of the environment says what else it pays; a"
        " range that is too wide is no mistake, but learns more slowly"
    )
    raise ValueError(
        f"the environment paid {rewards[h]:g} at step {h}, outside of"
        f" reward_range=({scale.low:g}, {scale.high:g}); give the least and the largest reward that"
        f" a step can pay, 0 included: {way_out}"
    )


# ---- what the tables say -------------------------------------------------------------------------


def _tables(env: Any, learner: Any) -> TabularMDP | None:
    """The tables that are played, if the environment publishes them; a horizon in which nothing
    can be learned is said.
    """
    if not (isinstance(learner, TableLearner) and plays_its_tables(env)):
        return None
    mdp = from_gymnasium(env, horizon=learner.horizon)
    best, uniform = mdp.optimal_value(), mdp.uniform_value()
    if best - uniform <= 1e-12 * max(1.0, abs(best)):
        warnings.warn(
            f"no policy earns more than another in {learner.horizon} steps, all earn {best:.4g}, so"
            " there is nothing to learn; give a longer horizon",
            NothingLearnedWarning,
            stacklevel=_inside() + 1,
        )
    return mdp


def _warn(mdp: TabularMDP | None, run: EnvironmentRun) -> None:
    """Warn about a run that learned little, by its tables or, without tables, its returns."""
    learner, level = run.learner, _inside() + 2
    if isinstance(learner, TableLearner):
        warn_if_drowned(learner.drowned_share, learner.algorithm, stacklevel=level)
    if mdp is None:
        if seen := _seen_in_returns(run):
            help_ = what_may_help(learner.algorithm, learner.horizon, learner.told)
            warnings.warn(f"{seen}; {help_}", NothingLearnedWarning, stacklevel=level - 1)
    else:
        first, last = learner.first_mixture, _value(mdp, learner.mixture)
        began = -np.inf if first is None else _value(mdp, first)
        warn_if_poor(
            *("the final policy", began, last, mdp, learner.algorithm, learner.told),
            stacklevel=level,
        )


def _value(mdp: TabularMDP, mixture: np.ndarray) -> float:
    """The exact value of a mixture [members, H, S + 1].

    The tables allow only action 0 in the extra state, where a learner made by hand may play any.
    """
    played = mixture.copy()
    played[..., -1] = 0
    return mdp.evaluate(played)


def _seen_in_returns(run: EnvironmentRun) -> str:
    """A warning from the returns alone: all are equal, or the run ended clearly below its start.

    It is empty if neither is the case. A learner that continues may have finished learning, so
    equal returns mean something only in a run from the beginning.
    """
    returns = run.returns
    if run.first == 0 and len(returns) >= _FEWEST and (returns == returns[0]).all():
        return (
            f"nothing was learned: all {len(returns):,} episodes earned {returns[0]:.4g}, so they"
            " do not show which actions are better"
        )
    first, last = run.tenths
    size, lost = len(first), float(first.mean() - last.mean())
    error = np.sqrt((first.var() + last.var()) / size)
    if size < _FEWEST or lost <= 0 or lost < _CLEARLY * error:
        return ""
    return (
        f"the run ended below where it began: the last {size:,} episodes earned"
        f" {last.mean():.4g} on average, the first {size:,} {first.mean():.4g}"
    )


def _inside() -> int:
    """How many calls of this library lead to the caller, whatever name `learn` was called by."""
    frame: FrameType | None = sys._getframe(1)
    calls = 0
    while frame is not None and frame.f_globals["__name__"].partition(".")[0] == "lowswitch":
        frame, calls = frame.f_back, calls + 1
    return calls
