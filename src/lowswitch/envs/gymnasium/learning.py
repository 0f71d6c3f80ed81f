"""`learn`: let a learner play an environment, with callbacks, one by one or as a vector."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import require_count, require_seed, require_truth
from lowswitch.envs.gymnasium.bridge import (
    Episode,
    checked_horizon,
    env_name,
    environment,
    from_gymnasium,
    learner_for,
    outcomes_of,
    reward_scale,
    spaces_of,
)
from lowswitch.envs.gymnasium.callbacks import Callbacks, EpisodeEnd
from lowswitch.envs.gymnasium.environment_run import EnvironmentRun
from lowswitch.envs.gymnasium.spaces import gymnasium
from lowswitch.envs.gymnasium.vectors import Player, is_vector, player_of
from lowswitch.envs.mdp import Scale
from lowswitch.history import History
from lowswitch.runs.results import origin
from lowswitch.runs.simulate import warn_if_no_better
from lowswitch.show.progress import Progress
from lowswitch.table_learner import TableLearner, warn_if_drowned

_REDRAW_SECONDS = 0.1


def learn(
    env: gymnasium.Env[Any, Any] | str,
    algorithm: Algorithm | TableLearner,
    *,
    horizon: int | None = None,
    episodes: int,
    seed: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    reseed: bool = False,
    callbacks: Any = (),
    progress: bool | None = None,
    **options: Any,
) -> EnvironmentRun:
    """Let a learner play `episodes` episodes of an environment whose tables are unknown.

    Its states and actions must be discrete, or made of discrete parts; a name is made by
    `gymnasium.make` with the options, such as is_slippery=False. algorithm: what a new learner
    runs, or a learner, such as one of `learner_for`, which goes on and must have room for the
    episodes. `few` deploys a mixture and draws a policy for each episode, so `learner.policy` may
    change from one episode to the next without a deployment; `few(deployments=N, members=1)`
    deploys one policy at a time.

    `reward_range` is the least and the largest reward the environment can pay, 0 included. seed: of
    a new learner and of the first reset, 0 by default; a learner that goes on resets without a seed
    unless one is given. reseed: reset every episode with a number of its own, made of the seed and
    the number of the episode, so that an episode is the same whoever plays it. A vector environment
    always does so; it plays several episodes at once, and plays again what a deployment between
    them has outdated, so the results are those of one environment with reseed=True. callbacks:
    functions or `Callback` objects, which are told of each episode.

    The policy has the shape [H, S + 1] and fits the tables of `from_gymnasium`. An environment that
    truncates before the horizon is an error: whether it would have gone on is not known.
    """
    scale, called = reward_scale(reward_range), Callbacks(callbacks)
    name = env_name(env, options)
    episodes, env = require_count("episodes", episodes), environment(env, **options)
    if seed is not None:
        require_seed(seed)
    learner = _learner(env, algorithm, horizon, episodes, seed)
    own = learner.seed if seed is None else seed
    player = player_of(
        env,
        first_seed=seed if learner is algorithm else own,
        episode_seed=own if require_truth("reseed", reseed) or is_vector(env) else None,
    )
    initial = learner.mixture.copy()
    try:
        called.on_start(learner)
        run = _play(env, learner, episodes, player, scale, called, progress, name)
        _warn(env, run, initial)
        called.on_end(run)
    finally:
        called.close()
    return run


def _learner(
    env: Any, given: Algorithm | TableLearner, horizon: int | None, episodes: int, seed: int | None
) -> TableLearner:
    """The learner that plays: a new one, or the one that was given and goes on."""
    if isinstance(given, TableLearner):
        _require_fitting(env, given, horizon, episodes)
        return given
    horizon = checked_horizon(
        env,
        horizon,
        "the environment ends an episode after {0} steps, and the horizon is {0} at most",
    )
    algorithm = require_algorithm(given)
    return learner_for(env, algorithm, horizon=horizon, episodes=episodes, seed=seed or 0)


def _require_fitting(env: Any, learner: TableLearner, horizon: int | None, episodes: int) -> None:
    """Refuse a learner that was made for something else, or has no room for so many episodes."""
    if horizon is not None and horizon != learner.horizon:
        raise ValueError(
            f"this learner was made for horizon={learner.horizon}, not {horizon}; leave horizon out"
        )
    states, actions, _ = spaces_of(env, learner.horizon)
    if (states, actions) != (learner.states, learner.actions):
        raise ValueError(
            f"this learner has {learner.states} states and {learner.actions} actions, and the"
            f" environment {states} (one for episodes that are over) and {actions}; make it with"
            " learner_for"
        )
    room = learner.episodes - learner.told
    if episodes > room:
        raise ValueError(
            f"this learner has room for {room:,} more episodes, not {episodes:,}: it was made for"
            f" {learner.episodes:,}, because their number enters bonuses and dates; make one for"
            " all of them with learner_for(..., episodes=...), and let it play in parts"
        )
    if learner.gate == "review":
        raise ValueError(
            "this learner is in review, and learn has nobody who approves; play it with"
            " play_episode and tell"
        )


class _Log:
    """What a run is made of while it goes on."""

    def __init__(self, learner: TableLearner, episodes: int) -> None:
        self.first, self.begun, self.thrown_away = learner.told, time.perf_counter(), 0
        self.returns, self.lengths = np.zeros(episodes), np.zeros(episodes, dtype=np.int64)
        self.before = learner.mixture.copy()
        self.changes = [np.zeros((0, 3 + len(self.before)), dtype=np.int64)]
        self.played = 0

    def add(self, episode: Episode, switch: History | None, over: int) -> None:
        """Note an episode; `over` is the state of an episode that is over."""
        k = self.played
        self.returns[k] = episode.rewards.sum()
        self.lengths[k] = np.count_nonzero(episode.states != over)
        self.played += 1
        if switch is not None:
            self.changes.append(switch.changes)

    def run(self, learner: TableLearner, name: str) -> EnvironmentRun:
        """The results so far."""
        alike = (self.before == self.before[0]).all()
        return EnvironmentRun(
            learner=learner,
            returns=self.returns[: self.played],
            lengths=self.lengths[: self.played],
            history=History(np.concatenate(self.changes), None if alike else self.before),
            first=self.first,
            seconds=time.perf_counter() - self.begun,
            thrown_away=self.thrown_away,
            **origin(None, name),
        )


def _play(
    env: Any,
    learner: TableLearner,
    episodes: int,
    player: Player,
    scale: Scale,
    called: Callbacks,
    progress: bool | None,
    name: str,
) -> EnvironmentRun:
    log, H, drawn, going = _Log(learner, episodes), learner.horizon, 0.0, True
    label = str(learner.algorithm)
    with Progress(episodes * H, unit="steps", show=progress, label=label) as bar:
        while going and log.played < episodes:
            size = min(player.size, episodes - log.played)
            policies = [learner.policy_for(learner.told + i) for i in range(size)]
            batch = player.play(policies, learner.told)
            for i, episode in enumerate(batch):
                if not np.array_equal(policies[i], learner.policy):
                    log.thrown_away += size - i  # a deployment came in between
                    break
                going = _tell(env, learner, episode, scale, log, called)
                if not going:
                    break
            if not drawn or time.perf_counter() - drawn > _REDRAW_SECONDS:
                drawn = time.perf_counter()
                bar.update(log.played * H)
        bar.update(log.played * H)
    return log.run(learner, name)


def _tell(
    env: Any, learner: TableLearner, episode: Episode, scale: Scale, log: _Log, called: Callbacks
) -> bool:
    """Tell the learner an episode, and the callbacks; return whether to go on."""
    rewards = _unit_rewards(env, episode, scale)
    switch = learner.tell(episode.states, episode.actions, rewards)
    log.add(episode, switch, learner.states - 1)
    k = log.played - 1
    earned, length = float(log.returns[k]), int(log.lengths[k])
    return called.on_episode(EpisodeEnd(learner, log.first + k, earned, length, switch))


def _warn(env: Any, run: EnvironmentRun, initial: np.ndarray) -> None:
    """Say what a run shows that learned nothing."""
    learner = run.learner
    warn_if_drowned(learner.drowned_share, learner.algorithm, stacklevel=4)
    if _plays_its_tables(env):
        mdp = from_gymnasium(env, horizon=learner.horizon)
        first, last = mdp.evaluate(initial), mdp.evaluate(learner.mixture)
        best, who = mdp.optimal_value(), "the last policy"
        warn_if_no_better(who, first, last, best, learner.algorithm, stacklevel=4)


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
        paid = outcomes_of(env)[3]
        least, most = min(0.0, float(paid.min())), max(0.0, float(paid.max()))
        if least <= low <= high <= most:  # a wrapper may pay otherwise
            return f"by the tables of the environment it is reward_range=({least:g}, {most:g})"
    return (
        f"it is at least reward_range=({min(low, scale.low):g}, {max(high, scale.high):g}), and the"
        " page of the environment says what else it pays; a range that is too wide is no mistake,"
        " but learns more slowly"
    )
