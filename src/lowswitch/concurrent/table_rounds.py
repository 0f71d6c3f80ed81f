"""Rounds on tables, and on other sources whose learner has a table of states."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lowswitch.algorithms.schedules import plain_schedule
from lowswitch.checks import has_integers, numbers, require_indices, require_within, shown
from lowswitch.concurrent.checkpoints import load_state, save_state
from lowswitch.concurrent.cluster import Ray
from lowswitch.concurrent.fleets import Fleet, InProcess, OpenFleet
from lowswitch.concurrent.gather import gather
from lowswitch.concurrent.mixtures import MixturePlay
from lowswitch.concurrent.processes import Processes
from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.round_driver import RoundDriver
from lowswitch.concurrent.sources import Tabular, Trajectories
from lowswitch.concurrent.state import RoundSetting, RoundState, fresh_state
from lowswitch.concurrent.sum_rounds import SumRound
from lowswitch.history import require_starts
from lowswitch.kernels.streams import stream_key
from lowswitch.runs.stopping import Stop, require_start_law
from lowswitch.show.progress import LOADING, PieceSize, needs_loading

_LOOK = "look"  # the bounds were checked and do not end the run
PlayRound = Callable[[np.ndarray, np.ndarray], Trajectories]  # of an open fleet or a MixturePlay


class TableRounds(RoundDriver):
    """A run in rounds whose learner has a table of states."""

    state: RoundState

    def __init__(self, setting: RoundSetting, stop: Stop | None, fleet: Fleet | None) -> None:
        source = setting.source
        if setting.rule == "speculate" and not source.replayable:
            raise ValueError(
                'rule "speculate" needs a source that can be replayed: keeping only the '
                "episodes of a real system that avoid the changed rows would bias the "
                'data; use rule "switch", or System(..., replayable=True) if an episode '
                "depends only on its number and the policy"
            )
        if isinstance(source, Tabular):
            require_starts(source.mdp, setting.episodes)
        self.setting, self.stop = setting, _checked_stop(stop, setting)
        self.fleet = InProcess() if fleet is None else fleet
        if isinstance(self.fleet, type) or not hasattr(self.fleet, "open"):
            raise ValueError(
                "fleet must be InProcess(), Processes(workers=...) or Ray(...) of"
                f" lowswitch.concurrent, not {shown(fleet)}"
            )
        if setting.send == "sums":
            _require_sums(setting, self.fleet)

    def facts(self) -> dict[str, Any]:
        return self.setting.facts()

    def start(self, checkpoint: str | os.PathLike[str] | None) -> None:
        from lowswitch.kernels.rounds import advance, next_episodes

        if needs_loading(advance) and needs_loading(next_episodes):
            self.bar.note(LOADING)
        if checkpoint is None:
            self.state = fresh_state(self.setting, self.stop)
        else:
            self.state = load_state(checkpoint, self.setting, self.stop)

    def write(self, path: str | os.PathLike[str]) -> None:
        save_state(path, self.setting, self.stop, self.state)

    def result(self) -> ConcurrentRun:
        return gather(self.setting, self.state, self._reason())

    def play(self) -> None:
        here = isinstance(self.fleet, InProcess) and isinstance(self.setting.source, Tabular)
        if here and self.setting.send == "episodes":
            self._play_here()
        else:
            self._play_with(self.fleet)

    def _play_here(self) -> None:
        """Play tables in this process: whole stretches of rounds are compiled."""
        setting, state = self.setting, self.state
        stretch = PieceSize(10**5 // (setting.machines * setting.source.horizon))
        key, episodes = stream_key(setting.seed), self._room_for_a_round()
        one_by_one = self.checkpoint is not None and self.save_every == 0
        with self.timed("start"):
            state.play(key, episodes, 0)  # compiles
        self.bar.start(state.learned)
        while not self._ended():
            most, before = 1 if one_by_one else stretch.size, state.played_rounds
            if self.stop.rounds is not None:
                most = min(most, self.stop.rounds - before)
            with self.timed("play"), stretch:
                state.play(key, episodes, most)
            played = state.played_rounds - before
            if played < most:  # its time does not predict how long a longer stretch takes
                stretch.size = max(1, played)
            self.look_up()

    def _play_with(self, fleet: Fleet) -> None:
        """Call the fleet once per round."""
        if self._ended():
            return
        state, deployed = self.state, self.state.knowledge.policy()
        narrowed = getattr(type(fleet), "at_most", None)  # a user's own fleet may lack it
        if narrowed is not None:
            fleet = narrowed(fleet, self.setting.machines)
        with self.timed("start"):
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
        known = len(state.changes)  # how many row changes the workers know
        sends_sums = self.setting.send == "sums"
        while not self._ended():
            fresh, known = state.changes[known:, 1:], len(state.changes)
            by_sums = SumRound(self.setting, state) if sends_sums else None
            if by_sums is not None and (turns := by_sums.turns):
                with self.timed("play"):
                    turns, sums = by_sums.play(opened, fresh, turns)
                with self.timed("learn"):
                    by_sums.learn(turns, sums)
            else:
                self._round(play, fresh)
            state.network = {name: old + getattr(opened, name) for name, old in before.items()}
            self.look_up()

    def _round(self, play: PlayRound, changes: np.ndarray) -> None:
        from lowswitch.kernels.rounds import next_episodes

        state = self.state
        with self.timed("learn"):
            episodes = self._room_for_a_round()
            episodes = episodes[: next_episodes(state.window, state.rounds, episodes)]
        with self.timed("play"):
            played = play(changes, episodes)
        with self.timed("learn"):
            state.learn(episodes, _checked_round(played, len(episodes), self.setting))

    def _room_for_a_round(self) -> np.ndarray:
        return np.zeros(min(self.setting.machines, self.state.window.ahead), dtype=np.int64)

    def _ended(self) -> bool:
        if self._reason() == _LOOK:
            self.state.go_on_until(
                self.stop.next_look(self.state.learned + 1, self.setting.episodes)
            )
        return self._reason() != ""

    def _reason(self) -> str:
        """What ends the run now; empty if it continues."""
        state, stop = self.state, self.stop
        if state.learned >= state.last:
            return self._reason_by_values()
        if stop.rounds is not None and state.played_rounds >= stop.rounds:
            return "rounds"
        if stop.seconds is not None and time.perf_counter() - self.began >= stop.seconds:
            return "seconds"
        return ""

    def _reason_by_values(self) -> str:
        """What ends a run that has reached its last episode, as known so far."""
        state, balance = self.state, self.state.account.balance[0]
        if state.learned == self.setting.episodes:
            return "episodes"
        if state.rounds.pause and balance["gap"] <= state.rounds.policy_gap:
            return "policy"
        if state.learned < state.rounds.episodes:
            return "mixture"
        unit = float(self.setting.source.scale.to_regret(1.0))
        return "within" if self.stop.holds(state.knowledge, unit) else _LOOK


def _checked_stop(stop: Stop | None, setting: RoundSetting) -> Stop:
    if stop is None:
        return Stop()
    if not isinstance(stop, Stop):
        raise ValueError(
            f"stop must be a lowswitch.concurrent.Stop such as Stop(policy=0.1), not {shown(stop)}"
        )
    source = setting.source
    if stop.within is not None and isinstance(source, Tabular):
        require_start_law(source.mdp.start_sequence)
    if stop.looks_at_values and not (
        isinstance(source, Tabular) and setting.regret and not len(source.mdp.start_sequence)
    ):
        raise ValueError(
            "stop: policy and mixture need exact values: a TabularMDP with a start law, and"
            " regret=True"
        )
    return stop


def _require_sums(setting: RoundSetting, fleet: Fleet) -> None:
    """Refuse to send sums that no learner could use, or that no fleet could make."""
    machines = getattr(plain_schedule(setting.algorithm.schedule), "machines", None)
    if machines != setting.machines:
        raise ValueError(
            f'send="sums" is for learners by rounds of as many machines; take'
            f" ls.fedq_hoeffding(machines={setting.machines}) or another one of them, not"
            f" {setting.algorithm}"
        )
    if not setting.source.replayable or any(setting.delay):
        raise ValueError(
            'send="sums" needs a source that can be replayed, because machines may play more'
            ' turns than the round has, and outcomes without delay; take send="episodes"'
        )
    if not isinstance(fleet, InProcess | Processes | Ray):
        raise ValueError(
            f'a {type(fleet).__name__} cannot make sums; take send="episodes", or InProcess(),'
            " Processes() or Ray()"
        )


def _close(opened: OpenFleet) -> None:
    """Close a fleet; an environment whose close() fails must not cost the result."""
    try:
        opened.close()
    except Exception as failure:
        warnings.warn(f"closing the fleet failed: {failure!r}", RuntimeWarning, stacklevel=6)


def _checked_round(played: Any, episodes: int, setting: RoundSetting) -> Trajectories:
    """Check what a fleet played: compiled code trusts it, and the fleet may be a user's own."""
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


def _compile(setting: RoundSetting, stop: Stop) -> None:
    """Load the kernels of a round, with a small state that is discarded."""
    from lowswitch.kernels.rounds import next_episodes

    state = fresh_state(replace(setting, episodes=1, machines=1), stop)
    nobody = np.zeros(0, dtype=np.int64)
    next_episodes(state.window, state.rounds, nobody)
    state.learn(nobody, Trajectories.empty(0, setting.source.horizon))
