"""M machines play one policy a round; what they play is learned in machine order, so the run is the
sequential one to the bit.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from lowswitch import storage
from lowswitch.algorithms.parts import Algorithm
from lowswitch.algorithms.schedules import is_number
from lowswitch.history import History
from lowswitch.kernels.arrays import Account
from lowswitch.kernels.streams import stream_key
from lowswitch.learner import require_algorithm, warn_if_loud
from lowswitch.machines.checkpoints import load_state, save_state
from lowswitch.machines.fleets import Crew, Fleet, InProcess
from lowswitch.machines.mixtures import Mixed
from lowswitch.machines.results import ConcurrentRun
from lowswitch.machines.sources import Tabular, Trajectories, source_of
from lowswitch.machines.state import Setting, State, Stop, fresh_state
from lowswitch.problems.mdp import require_count
from lowswitch.progress import LOADING, Progress, needs_loading
from lowswitch.regret import require_starts
from lowswitch.simulate import Curves, checked_seeds, optimal_value_of
from lowswitch.threads import Pace

RoundRule = Literal["trigger", "switch", "speculate"]
_REDRAW_SECONDS = 0.1


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
) -> ConcurrentRun:
    """Run an algorithm for `episodes` episodes, of which M machines play one each in every round,
    all by the same policy.

    source: a TabularMDP, a `Gymnasium` or a `System`. fleet: who plays, by default this process; M
    may exceed its workers. rule: where a round is cut and the rest of it thrown away. "trigger":
    after the first episode with a trigger, as in the paper; of a planner, after which it plans.
    "switch": after the first episode that changed the policy. "speculate": only what the new policy
    would have played otherwise is thrown away, which needs a source that can be replayed. For a
    simulated source the policy history is that of the sequential run whatever the machines, rule
    and fleet are. stop: when to end before the last episode. checkpoint: a file that is written
    every `save_every` seconds, at the end, and when something goes wrong; where it exists, the run
    goes on from it. regret: False leaves it out where it could be known.
    """
    setting = _checked_setting(source, algorithm, episodes, machines, rule, seed, regret)
    stop = _checked_stop(stop, setting)
    crew_of = InProcess() if fleet is None else fleet
    if isinstance(crew_of, type) or not hasattr(crew_of, "open"):
        raise ValueError(
            "fleet must be InProcess(), Processes(workers=...) or Ray(...) of"
            f" lowswitch.concurrent, not {fleet!r}"
        )
    if not (is_number(save_every) and save_every >= 0):
        raise ValueError(f"save_every must be a number of seconds, 0 or more, not {save_every!r}")
    resumed = checkpoint is not None and Path(checkpoint).exists()
    if checkpoint is not None:
        storage.require_writable(checkpoint)
        setting.facts()  # fails here where something of it cannot be saved
    label = f"{setting.algorithm}  {setting.machines} machines"
    with Progress(setting.episodes, unit="episodes", show=progress, label=label) as bar:
        from lowswitch.kernels.rounds import next_episodes, play_rounds

        if needs_loading(play_rounds) and needs_loading(next_episodes):
            bar.note(LOADING)
        state = (
            load_state(checkpoint, setting, stop)
            if checkpoint is not None and resumed
            else fresh_state(setting, stop)
        )
        reason = _Driver(setting, stop, state, checkpoint, save_every, bar).drive(crew_of)
    result = _gather(setting, state, reason)
    warn_if_loud(float(result.loud_share.mean()), algorithm)
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
    if rule not in get_args(RoundRule):
        raise ValueError(f'rule must be "trigger", "switch" or "speculate", not {rule!r}')
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
        seed=checked_seeds([seed])[0],
        regret=bool(regret),
    )
    if isinstance(given, Tabular):
        require_starts(given.mdp, setting.episodes)
    return setting


def _checked_stop(stop: Stop | None, setting: Setting) -> Stop:
    if stop is None:
        return Stop()
    if not isinstance(stop, Stop):
        raise ValueError(
            f"stop must be a lowswitch.concurrent.Stop such as Stop(policy=0.1), not {stop!r}"
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
    """Plays rounds until the run ends, and keeps what was reached."""

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
        self.saved_at = -1  # rounds

    def drive(self, fleet: Fleet) -> str:
        """Play to the end; return what ended the run."""
        try:
            if isinstance(fleet, InProcess) and isinstance(self.setting.source, Tabular):
                self._play_here()
            else:
                self._play_with(fleet)
        except BaseException as error:
            self._keep(error)
            raise
        self._save_at_the_end()
        return self._reason()

    def _keep(self, error: BaseException) -> None:
        """Save what was reached before an error or an interrupt, and let its traceback end with
        what that is worth.
        """
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
        """Write the checkpoint; a disk that is full must not cost a result."""
        try:
            self._save()
        except Exception as failure:
            warnings.warn(
                f"the last checkpoint was not written: {failure}", RuntimeWarning, stacklevel=4
            )

    def _play_here(self) -> None:
        """Tables in this process: whole stretches of rounds are compiled."""
        setting, state = self.setting, self.state
        pace = Pace(10**5 // (setting.machines * setting.source.horizon))
        key, episodes = stream_key(setting.seed), self._room_for_a_round()
        one_by_one = self.checkpoint is not None and self.save_every == 0
        with self._timed("start"):
            state.play(key, episodes, 0)  # compiles
        self.bar.start(state.learned)
        while not self._ended():
            most = 1 if one_by_one else pace.size
            if self.stop.rounds is not None:
                most = min(most, self.stop.rounds - int(state.rounds.totals[0]["rounds"]))
            before = int(state.rounds.totals[0]["rounds"])
            with self._timed("play"), pace:
                state.play(key, episodes, most)
            played = int(state.rounds.totals[0]["rounds"]) - before
            if played < most:  # its time says nothing of how long a longer stretch takes
                pace.size = max(1, played)
            self._look_up()

    def _play_with(self, fleet: Fleet) -> None:
        """One call of the crew a round."""
        state, source = self.state, self.setting.source
        deployed = state.knowledge.policy()
        policies = deployed.actions.copy()
        policy = policies if deployed.members > 1 else policies[0]
        if self._ended():
            return
        with self._timed("start"):
            _compile(self.setting, self.stop)
            if not isinstance(fleet, InProcess):
                self.bar.note("starting the workers ...")
            mixing: Fleet = Mixed(fleet, deployed) if deployed.members > 1 else fleet
            crew = mixing.open(source, self.setting.seed, policy)
        self.bar.start(state.learned)
        network = dict(state.network)
        try:
            known = len(state.changes)  # row changes that the crew has
            while not self._ended():
                fresh, known = state.changes[known:, 1:], len(state.changes)
                policy[..., fresh[:, 0], fresh[:, 1]] = fresh[:, 2:].T
                self._round(crew, policy, fresh)
                state.network = {
                    name: before + getattr(crew, name) for name, before in network.items()
                }
                self._look_up()
        finally:
            crew.close()

    def _round(self, crew: Crew, policy: np.ndarray, changes: np.ndarray) -> None:
        from lowswitch.kernels.rounds import next_episodes

        state = self.state
        state.make_room()
        with self._timed("learn"):
            episodes = self._room_for_a_round()
            episodes = episodes[: next_episodes(state.window, state.rounds, episodes)]
        with self._timed("play"):
            played = crew.play(changes, episodes)
        with self._timed("learn"):
            state.learn(episodes, played)

    def _room_for_a_round(self) -> np.ndarray:
        return np.zeros(min(self.setting.machines, len(self.state.window.ready)), dtype=np.int64)

    def _ended(self) -> bool:
        return self._reason() != ""

    def _reason(self) -> str:
        """What ends the run now, or nothing."""
        state, stop = self.state, self.stop
        if state.learned >= state.last:
            if state.learned == self.setting.episodes:
                return "episodes"
            gap = state.account.balance[0]["gap"]
            return "policy" if gap <= state.rounds.policy_gap else "mixture"
        if stop.rounds is not None and state.rounds.totals[0]["rounds"] >= stop.rounds:
            return "rounds"
        if stop.seconds is not None and time.perf_counter() - self.begin >= stop.seconds:
            return "seconds"
        return ""

    def _look_up(self) -> None:
        """Draw the progress and write the checkpoint, where it is time."""
        now, totals = time.perf_counter(), self.state.rounds.totals[0]
        if now - self.drawn > _REDRAW_SECONDS:
            self.drawn = now
            self.bar.update(
                int(totals["learned"]),
                f"  {totals['rounds']:,} rounds  speed-up {totals['learned'] / totals['rounds']:.1f}",
            )
        if self.checkpoint is not None and now - self.saved >= self.save_every:
            self._save()

    def _save(self) -> None:
        if self.checkpoint is not None and self.saved_at != self.state.rounds.totals[0]["rounds"]:
            self.bar.note("saving the checkpoint ...")
            with self._timed("save"):
                save_state(self.checkpoint, self.setting, self.stop, self.state)
            self.saved, self.saved_at = (
                time.perf_counter(),
                int(self.state.rounds.totals[0]["rounds"]),
            )

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.state.seconds[part] += time.perf_counter() - begin


def _compile(setting: Setting, stop: Stop) -> None:
    """Load the kernels of a round, with a small state that is thrown away."""
    from lowswitch.kernels.rounds import next_episodes

    state, shape = (
        fresh_state(replace(setting, episodes=1, machines=1), stop),
        (0, setting.source.horizon),
    )
    nobody = np.zeros(0, dtype=np.int64)
    next_episodes(state.window, state.rounds, nobody)
    state.learn(nobody, Trajectories(np.zeros(shape, dtype=np.int32), np.zeros(shape)))


# ---- the result ----------------------------------------------------------------------------------


def _gather(setting: Setting, state: State, reason: str) -> ConcurrentRun:
    source, told = setting.source, state.learned
    H, S, A = source.horizon, source.states, source.actions
    history = History(state.changes.copy())
    first = np.flatnonzero(np.diff(history.episode, prepend=-1))  # of each deployment
    stamps = state.rounds.stamps[first]
    curves, rounds_curve, earned_curve = _curves(setting, state, history)
    steps, policies = told * H, state.knowledge.policy().actions
    return ConcurrentRun(
        algorithm=setting.algorithm,
        horizon=H,
        states=S,
        actions=A,
        episodes=told,
        seeds=np.array([setting.seed], dtype=np.int64),
        optimal_value=optimal_value_of(source.mdp, told) if isinstance(source, Tabular) else np.nan,
        regret=(
            curves.regret[:, -1] if told else np.where(state.evaluation.wanted, np.zeros(1), np.nan)
        ),
        local_switches=np.array([history.local_switches]),
        deployments=np.array([state.knowledge.deployments]),
        triggers=np.array([state.knowledge.triggers()]),
        loud_share=np.array([state.knowledge.drowned / max(1, steps)]),
        curves=curves,
        initial=state.initial,
        policy=policies[None] if state.knowledge.members > 1 else policies,
        history=(history,),
        seconds=max(sum(state.seconds.values()), 1e-9),
        machines=setting.machines,
        rule=setting.rule,
        planned=setting.episodes,
        stopped=reason,
        rounds=int(state.rounds.totals[0]["rounds"]),
        played=int(state.rounds.totals[0]["played"]),
        earned=float(source.scale.to_value(state.rounds.totals[0]["earned"], steps)),
        parts=dict(state.seconds),
        plays=state.rounds.plays.reshape(H, S, A).copy(),
        rounds_at=stamps["rounds"],
        played_at=stamps["played"],
        rounds_curve=rounds_curve,
        earned_curve=earned_curve,
        **state.network,
    )


def _curves(
    setting: Setting, state: State, history: History
) -> tuple[Curves, np.ndarray, np.ndarray]:
    """The curves as far as the run came, with a last point where it ended; and those of rounds and
    rewards.
    """
    told, source, log, rounds = state.learned, setting.source, state.log, state.rounds
    reached = log.checkpoints <= told
    ended = (
        np.array([told]) if told and told not in log.checkpoints else np.zeros(0, dtype=np.int64)
    )
    here = slice(0, len(ended))
    marks = np.append(log.checkpoints[reached], ended)
    regret = np.append(state.account.curve[reached], _final_regret(state, ended))
    deployed = history.episode[np.diff(history.episode, prepend=-1) > 0]
    curves = Curves(
        marks,
        source.scale.to_regret(regret)[None],
        np.searchsorted(history.episode[history.switched], marks)[None],
        np.searchsorted(deployed, marks)[None],
    )
    earned = np.append(rounds.earned_curve[reached], rounds.totals["earned"][here])
    return (
        curves,
        np.append(rounds.curve[reached], rounds.totals["rounds"][here]),
        source.scale.to_value(earned, marks * source.horizon),
    )


def _final_regret(state: State, ended: np.ndarray) -> np.ndarray:
    """The regret at an episode that is no checkpoint."""
    from lowswitch.kernels.values import settle

    account = state.account
    final = Account(
        account.balance.copy(), ended, np.full(len(ended), account.balance[0]["regret"])
    )
    final.balance[0]["passed"] = 0
    if not state.evaluation.wanted:
        final.curve[:] = np.nan
    elif len(ended):
        settle(state.model, state.evaluation, final, state.changes[:0], 0, int(ended[0]))
    return final.curve
