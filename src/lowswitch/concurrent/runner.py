"""A run on M machines, which all play the same policy in a round.

What they play is learned in the order of the machines, so the run equals the sequential one to the
bit.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, overload

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.meetings import require_dates
from lowswitch.checks import (
    has_integers,
    is_number,
    numbers,
    require_count,
    require_indices,
    require_seed,
    require_truth,
    require_within,
    require_word,
    shown,
)
from lowswitch.concurrent.checkpoints import load_state, save_state
from lowswitch.concurrent.fleets import Fleet, InProcess, OpenFleet
from lowswitch.concurrent.gather import gather
from lowswitch.concurrent.mixtures import MixturePlay
from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.sources import Tabular, Trajectories, source_of
from lowswitch.concurrent.state import Setting, State, Stop, fresh_state
from lowswitch.features.problem import FeatureProblem
from lowswitch.features.rounds import LinearRounds, run_rounds
from lowswitch.history import require_starts
from lowswitch.io import storage
from lowswitch.io.files import owning
from lowswitch.kernels.streams import stream_key
from lowswitch.show.progress import LOADING, PieceSize, Progress, needs_loading
from lowswitch.table_learner import warn_if_drowned

RoundRule = Literal["trigger", "switch", "speculate"]
PlayRound = Callable[[np.ndarray, np.ndarray], Trajectories]  # of an open fleet or a MixturePlay
_REDRAW_SECONDS = 0.1


@overload
def run(
    source: FeatureProblem,
    algorithm: Algorithm,
    episodes: int,
    *,
    machines: int,
    rule: RoundRule = "switch",
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: float = 60.0,
    progress: bool | None = None,
) -> LinearRounds: ...


@overload
def run(
    source: Any,
    algorithm: Algorithm,
    episodes: int,
    *,
    machines: int,
    rule: RoundRule = "switch",
    fleet: Fleet | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: float = 60.0,
    regret: bool = True,
    progress: bool | None = None,
) -> ConcurrentRun: ...


def run(
    source: Any,
    algorithm: Algorithm,
    episodes: int,
    *,
    machines: int,
    rule: RoundRule = "switch",
    fleet: Fleet | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: float = 60.0,
    regret: bool = True,
    progress: bool | None = None,
) -> ConcurrentRun | LinearRounds:
    """Run an algorithm for `episodes` episodes; in each round M machines play one episode each, all
    by the same policy.

    source: what is played: a TabularMDP, a `Gymnasium` or a `System`; or a problem with features
    (`lowswitch.features.problems`, or `Environment` of `lowswitch.envs.gymnasium`), which this
    process plays to its last episode, by the rules "trigger" and "switch".
    machines: M, the number of episodes in a round. It may exceed the number of the fleet's workers.
    rule: where a round is cut. The episodes after the cut are thrown away and played again.
    "trigger" cuts after the first episode with a trigger, as in the paper; a planner's triggers are
    the episodes after which it plans. "switch" cuts after the first episode that changed the
    policy. "speculate" throws away only those episodes that the new policy would have played
    otherwise; it needs a source that can be replayed.
    fleet: who plays; by default this process.
    stop: when to end before the last episode.
    checkpoint: a file that is written every `save_every` seconds, at the end, and when something
    goes wrong. Where it exists, the run goes on from it. One run owns it at a time: a second one is
    refused with the process of the first.
    regret: False leaves the regret out where it could be known.

    For a simulated source the policy history is that of the sequential run, whatever the machines,
    the rule and the fleet are.
    """
    if isinstance(source, FeatureProblem):
        if not (fleet is None and stop is None and regret):
            raise ValueError(
                "rounds with features are played in this process to their end; leave fleet, stop"
                " and regret out"
            )
        options: dict[str, Any] = {"machines": machines, "rule": rule, "seed": seed}
        options |= {"checkpoint": checkpoint, "save_every": save_every, "progress": progress}
        return run_rounds(source, algorithm, episodes, **options)
    setting = _checked_setting(source, algorithm, episodes, machines, rule, seed, regret)
    stop = _checked_stop(stop, setting)
    fleet = InProcess() if fleet is None else fleet
    if isinstance(fleet, type) or not hasattr(fleet, "open"):
        raise ValueError(
            "fleet must be InProcess(), Processes(workers=...) or Ray(...) of"
            f" lowswitch.concurrent, not {shown(fleet)}"
        )
    if not (is_number(save_every) and save_every >= 0):
        raise ValueError(
            f"save_every must be a number of seconds, 0 or more, not {shown(save_every)}"
        )
    if checkpoint is not None:
        storage.require_writable(checkpoint)
        setting.facts()  # which fails here, and not after hours, if it cannot be saved
    label = f"{setting.algorithm}  {setting.machines} machines"
    with (
        owning(checkpoint),
        Progress(setting.episodes, unit="episodes", show=progress, label=label) as bar,
    ):
        from lowswitch.kernels.rounds import advance, next_episodes

        if needs_loading(advance) and needs_loading(next_episodes):
            bar.note(LOADING)
        if checkpoint is not None and Path(checkpoint).exists():
            state = load_state(checkpoint, setting, stop)
        else:
            state = fresh_state(setting, stop)
        reason = _Driver(setting, stop, state, checkpoint, save_every, bar).drive(fleet)
    result = gather(setting, state, reason)
    warn_if_drowned(float(result.drowned_share.mean()), algorithm)
    return result


def _checked_setting(
    source: Any,
    algorithm: Algorithm,
    episodes: int,
    machines: int,
    rule: str,
    seed: int,
    regret: bool,
) -> Setting:
    given = source_of(source)
    require_word("rule", rule, get_args(RoundRule))
    require_dates(require_algorithm(algorithm).schedule)
    if rule == "speculate" and not given.replayable:
        raise ValueError(
            'rule "speculate" needs a source that can be replayed: to keep only those episodes of a'
            " real system that avoid the changed rows would condition the data on where they went;"
            ' use rule "switch", or System(..., replayable=True) if an episode is a function of its'
            " number and the policy"
        )
    setting = Setting(
        source=given,
        algorithm=require_algorithm(algorithm),
        episodes=require_count("episodes", episodes),
        machines=require_count("machines", machines),
        rule=rule,
        seed=require_seed(seed),
        regret=require_truth("regret", regret),
    )
    if isinstance(given, Tabular):
        require_starts(given.mdp, setting.episodes)
    return setting


def _checked_stop(stop: Stop | None, setting: Setting) -> Stop:
    if stop is None:
        return Stop()
    if not isinstance(stop, Stop):
        raise ValueError(
            f"stop must be a lowswitch.concurrent.Stop such as Stop(policy=0.1), not {shown(stop)}"
        )
    source = setting.source
    if stop.looks_at_values and not (
        isinstance(source, Tabular) and setting.regret and not len(source.mdp.start_sequence)
    ):
        raise ValueError(
            "stop: policy and mixture need exact values: a TabularMDP with a start law, and"
            " regret=True"
        )
    return stop


class _Driver:
    """Plays rounds until the run ends, and saves what was reached."""

    def __init__(
        self,
        setting: Setting,
        stop: Stop,
        state: State,
        checkpoint: str | os.PathLike[str] | None,
        save_every: float,
        bar: Progress,
    ) -> None:
        self.setting, self.stop, self.state, self.bar = setting, stop, state, bar
        self.checkpoint, self.save_every = checkpoint, save_every
        self.begin = self.saved = self.drawn = time.perf_counter()
        self.saved_at = -1  # the round after which the checkpoint was last written

    def drive(self, fleet: Fleet) -> str:
        """Play to the end, and return what ended the run."""
        source, here = self.setting.source, isinstance(fleet, InProcess)
        try:
            if here and isinstance(source, Tabular):
                self._play_here()
            else:
                self._play_with(fleet)
        except BaseException as error:
            self._keep(error)
            raise
        self._save_at_the_end()
        return self._reason()

    def _keep(self, error: BaseException) -> None:
        """Save what was reached before an error or an interrupt, and note in it what was saved."""
        if self.checkpoint is None:
            return
        try:
            self._save()
        except Exception as failure:
            error.add_note(f"what was reached since the last checkpoint is lost: {failure}")
        if Path(self.checkpoint).exists():
            error.add_note(
                f"the checkpoint {str(self.checkpoint)!r} is kept; the same call goes on from there"
            )

    def _save_at_the_end(self) -> None:
        """Write the checkpoint; a full disk must not cost the result, so it is only a warning."""
        try:
            self._save()
        except Exception as failure:
            warnings.warn(
                f"the last checkpoint was not written: {failure}", RuntimeWarning, stacklevel=4
            )

    def _play_here(self) -> None:
        """Tables in this process: whole stretches of rounds are compiled."""
        setting, state = self.setting, self.state
        stretch = PieceSize(10**5 // (setting.machines * setting.source.horizon))
        key, episodes = stream_key(setting.seed), self._room_for_a_round()
        one_by_one = self.checkpoint is not None and self.save_every == 0
        with self._timed("start"):
            state.play(key, episodes, 0)  # compiles
        self.bar.start(state.learned)
        while not self._ended():
            most, before = 1 if one_by_one else stretch.size, state.played_rounds
            if self.stop.rounds is not None:
                most = min(most, self.stop.rounds - before)
            with self._timed("play"), stretch:
                state.play(key, episodes, most)
            played = state.played_rounds - before
            if played < most:  # its time says nothing of how long a longer stretch takes
                stretch.size = max(1, played)
            self._look_up()

    def _play_with(self, fleet: Fleet) -> None:
        """Call the fleet once in every round."""
        if self._ended():
            return
        state, deployed = self.state, self.state.knowledge.policy()
        narrowed = getattr(type(fleet), "at_most", None)  # which fleets of one's own need not have
        if narrowed is not None:
            fleet = narrowed(fleet, self.setting.machines)
        with self._timed("start"):
            _compile(self.setting, self.stop)
            if not isinstance(fleet, InProcess):
                self.bar.note("starting the workers ...")
            opened = fleet.open(self.setting.source, self.setting.seed, deployed.actions[0])
        self.bar.start(state.learned)
        try:
            mixed = deployed.members > 1
            self._play_rounds(opened, MixturePlay(opened, deployed).play if mixed else opened.play)
        finally:
            _close(opened)

    def _play_rounds(self, opened: OpenFleet, play: PlayRound) -> None:
        state, before = self.state, dict(self.state.network)
        known = len(state.changes)  # the number of row changes that the workers know
        while not self._ended():
            fresh, known = state.changes[known:, 1:], len(state.changes)
            self._round(play, fresh)
            state.network = {name: old + getattr(opened, name) for name, old in before.items()}
            self._look_up()

    def _round(self, play: PlayRound, changes: np.ndarray) -> None:
        from lowswitch.kernels.rounds import next_episodes

        state = self.state
        with self._timed("learn"):
            episodes = self._room_for_a_round()
            episodes = episodes[: next_episodes(state.window, state.rounds, episodes)]
        with self._timed("play"):
            played = play(changes, episodes)
        with self._timed("learn"):
            state.learn(episodes, _checked_round(played, len(episodes), self.setting))

    def _room_for_a_round(self) -> np.ndarray:
        return np.zeros(min(self.setting.machines, len(self.state.window.ready)), dtype=np.int64)

    def _ended(self) -> bool:
        return self._reason() != ""

    def _reason(self) -> str:
        """What ends the run now; empty if it goes on."""
        state, stop = self.state, self.stop
        if state.learned >= state.last:
            if state.learned == self.setting.episodes:
                return "episodes"
            gap = state.account.balance[0]["gap"]
            return "policy" if gap <= state.rounds.policy_gap else "mixture"
        if stop.rounds is not None and state.played_rounds >= stop.rounds:
            return "rounds"
        if stop.seconds is not None and time.perf_counter() - self.begin >= stop.seconds:
            return "seconds"
        return ""

    def _look_up(self) -> None:
        """Draw the progress and write the checkpoint if it is time to."""
        now, state = time.perf_counter(), self.state
        if now - self.drawn > _REDRAW_SECONDS:
            self.drawn, rounds = now, state.played_rounds
            note = f"  {rounds:,} rounds  speed-up {state.learned / rounds:.1f}"
            self.bar.update(state.learned, note)
        if self.checkpoint is not None and now - self.saved >= self.save_every:
            self._save()

    def _save(self) -> None:
        if self.checkpoint is not None and self.saved_at != self.state.played_rounds:
            self.bar.note("saving the checkpoint ...")
            with self._timed("save"):
                save_state(self.checkpoint, self.setting, self.stop, self.state)
            self.saved, self.saved_at = time.perf_counter(), self.state.played_rounds

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.state.seconds[part] += time.perf_counter() - begin


def _close(opened: OpenFleet) -> None:
    """Close a fleet; an environment whose close() fails must not cost the result."""
    try:
        opened.close()
    except Exception as failure:
        warnings.warn(f"closing the fleet failed: {failure!r}", RuntimeWarning, stacklevel=5)


def _checked_round(played: Any, episodes: int, setting: Setting) -> Trajectories:
    """What a fleet played, in range: compiled code trusts it, and a fleet may be anybody's."""
    source, shape = setting.source, (episodes, setting.source.horizon)
    try:
        states, rewards = (np.asarray(part) for part in played)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the fleet must return states and rewards ({error})") from error
    if states.shape != shape or rewards.shape != shape or not has_integers(states):
        raise ValueError(
            f"the fleet must return whole states and rewards of [episodes, H] = {shape}, not"
            f" {states.dtype} of {states.shape} and {rewards.dtype} of {rewards.shape}"
        )
    require_indices("the states that the fleet returns", states, source.states)
    rewards = numbers("the rewards that the fleet returns", rewards)
    require_within("the rewards that the fleet returns", rewards, 0, 1, "map them to [0, 1]")
    return Trajectories(np.ascontiguousarray(states, dtype=np.int32), np.ascontiguousarray(rewards))


def _compile(setting: Setting, stop: Stop) -> None:
    """Load the kernels of a round, with a small state that is thrown away."""
    from lowswitch.kernels.rounds import next_episodes

    state = fresh_state(replace(setting, episodes=1, machines=1), stop)
    nobody = np.zeros(0, dtype=np.int64)
    next_episodes(state.window, state.rounds, nobody)
    state.learn(nobody, Trajectories.empty(0, setting.source.horizon))
