"""The state of a run on many machines between two rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_memory
from lowswitch.concurrent.round_driver import fresh_seconds
from lowswitch.concurrent.sources import Tabular, Trajectories
from lowswitch.envs.mdp import TabularMDP
from lowswitch.history import evaluation_of, first_of, fresh_account
from lowswitch.kernels.arrays import (
    ROUND_TOTALS,
    STAMP,
    Account,
    ChangeLog,
    ManyValueTables,
    Model,
    Rounds,
    ValueTables,
    Window,
)
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of
from lowswitch.runs.results import curve_points
from lowswitch.runs.stopping import Stop

AHEAD = 2  # rounds of M episodes that "speculate" may play ahead of the learner
GROWING = {"log_changes", "rounds_stamps"}
_GIVEN = {"window_delays"}  # by the setting
_IN_FILES = {"curve_points": "checkpoints"}  # names of arrays in files, as in older files
_CHANGES = 2**12
_NETWORK = ("lost", "bytes_sent", "bytes_received")


@dataclass(frozen=True, kw_only=True)
class RoundSetting:
    """The setting of a run: equal settings give equal results, whatever their fleets."""

    source: Any  # a Source, or a problem with features
    algorithm: Algorithm
    episodes: int
    machines: int
    rule: str
    seed: int
    regret: bool
    delay: tuple[int, ...] = (0,)  # how late outcomes arrive: all alike, or machine by machine
    send: str = "episodes"  # or "sums"

    def facts(self) -> dict[str, Any]:
        """The setting as JSON returns it, without tuples."""
        source = self.source
        facts = {
            "source": source.facts(),
            "size": [source.horizon, source.states, source.actions],
            "algorithm": self.algorithm.facts(),
            **{
                name: getattr(self, name)
                for name in (
                    *("episodes", "machines", "rule", "seed"),
                    *("regret", "delay", "send"),
                )
            },
        }
        return dict(json.loads(json.dumps(facts)))


@dataclass
class RoundState:
    """The state of a run between two rounds. The kernels write into its arrays."""

    knowledge: Knowledge  # what learns
    model: Model
    evaluation: ValueTables | ManyValueTables
    log: ChangeLog
    account: Account
    window: Window
    rounds: Rounds
    initial: np.ndarray  # [H, S]
    seconds: dict[str, float] = field(default_factory=fresh_seconds)
    network: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_NETWORK, 0))

    @property
    def learned(self) -> int:
        """The number of episodes learned from."""
        return int(self.rounds.totals[0]["learned"])

    @property
    def played_rounds(self) -> int:
        return int(self.rounds.totals[0]["rounds"])

    @property
    def last(self) -> int:
        """The number of episodes after which the run ends, as known so far."""
        return int(self.rounds.totals[0]["last"])

    @property
    def run(self) -> tuple[Any, ...]:
        """The input of the round kernels."""
        knowledge = self.knowledge
        costs = self.evaluation, self.log, self.account
        return knowledge.spec, knowledge.tables, self.model, *costs, self.window, self.rounds

    def play(self, key: np.uint64, episodes: np.ndarray, most: int) -> None:
        """Play and learn up to `most` rounds of a known problem; `episodes` is work space."""
        self._advance(key, episodes, self._nothing(), most)

    def learn(self, episodes: np.ndarray, played: Trajectories) -> None:
        """Take in the episodes of a round, and learn as many as its rule keeps."""
        self._advance(np.uint64(0), episodes, played, 0)

    def _advance(
        self, key: np.uint64, episodes: np.ndarray, played: Trajectories, most: int
    ) -> None:
        """Run the kernel, and handle its stops until the round is learned."""
        from lowswitch.kernels.rounds import advance

        self.make_room()
        with self._whole():
            status = advance(*self.run, key, episodes, *played, most)
            while self.knowledge.attend(status, self.learned + 1):
                self.make_room()
                status = advance(*self.run, key, episodes, *self._nothing(), 0)

    def _nothing(self) -> Trajectories:
        return Trajectories.empty(0, self.window.states.shape[1])

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Restore the tables and counts if a planner in Python fails, or an interrupt comes.

        A learner that never stops midway needs no copy, because nothing interrupts a single kernel.
        Entries of the log beyond its end are free.
        """
        if not self.knowledge.stops_midway:
            yield
            return
        tables = type(self.knowledge.tables)(*(array.copy() for array in self.knowledge.tables))
        before = {name: array.copy() for name, array in self._arrays().items()}
        try:
            yield
        except BaseException:
            self.knowledge.tables = tables
            for name, array in self._arrays().items():
                array[...] = before[name]
            raise

    @property
    def changes(self) -> np.ndarray:  # [n, 3 + members]
        return self.log.changes[: self.log.logged[0]]

    def make_room(self) -> None:
        """Make room in the log for the changes of one more round."""
        size, used = len(self.log.changes), int(self.log.logged[0])
        if used + self.rounds.room > size:
            more = size + max(size, self.rounds.room)
            self.rounds = self.rounds._replace(stamps=longer(self.rounds.stamps[:used], more))
            self.log = self.log._replace(changes=longer(self.log.changes[:used], more))

    def go_on_until(self, episodes: int) -> None:
        """Let the run end after `episodes` episodes, or earlier if the values say so."""
        from lowswitch.kernels.rounds import last_episode

        self.rounds = self.rounds._replace(episodes=episodes)
        last = last_episode(self.account, self.rounds) if self.rounds.pause else episodes
        self.rounds.totals[0]["last"] = max(last, self.learned)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that change during the run, by name; growing ones only as far as used."""
        used, tables = int(self.log.logged[0]), self.knowledge.tables._asdict()
        grown = {"log_changes": self.log.changes[:used], "rounds_stamps": self.rounds.stamps[:used]}
        return self._arrays() | grown | {f"tables_{name}": table for name, table in tables.items()}

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays that change and do not grow."""
        parts = ("log", "account", "window", "rounds")
        return {
            f"{part}_{_IN_FILES.get(name, name)}": value
            for part in parts
            for name, value in getattr(self, part)._asdict().items()
            if isinstance(value, np.ndarray) and f"{part}_{name}" not in GROWING | _GIVEN
        }


def longer(array: np.ndarray, size: int) -> np.ndarray:
    """Copy the array into the beginning of a longer one; untouched pages cost nothing."""
    longer = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def fresh_state(setting: RoundSetting, stop: Stop) -> RoundState:
    """The state before the first round."""
    from lowswitch.kernels.rounds import last_episode

    source = setting.source
    H, S, A = source.horizon, source.states, source.actions
    held = _slots(setting) + max(setting.delay)
    ahead = f"{held:,} episodes of {H} steps that machines play at once or wait for"
    require_memory(64 * held * H, ahead, "use fewer machines or a shorter delay")
    size = ProblemSize(H, S, A, setting.episodes)
    knowledge = knowledge_of(setting.algorithm, size, source.actions_allowed).fresh(setting.seed)
    knowledge.learn_at_once(len(setting.delay))
    knowledge.begin(None)
    mdp = source.mdp if isinstance(source, Tabular) else _no_tables()
    wanted = setting.regret and isinstance(source, Tabular)
    evaluation, gap = evaluation_of(mdp, knowledge.policy().actions, wanted=wanted)
    marks = curve_points(setting.episodes)
    account, rounds = fresh_account(gap, marks), _fresh_rounds(setting, stop, knowledge, mdp, marks)
    log = ChangeLog(
        keep=True,
        logged=np.zeros(1, dtype=np.int64),
        changes=np.zeros((len(rounds.stamps), 3 + knowledge.members), dtype=np.int64),
        curve_points=marks,
        switches=np.zeros(0, dtype=np.int64),  # the changes contain them
        deployments=np.zeros(0, dtype=np.int64),
    )
    shape = held, H
    window = Window(
        ahead=_slots(setting),
        delays=np.array(setting.delay, dtype=np.int64),
        ready=np.zeros(shape[0], dtype=np.bool_),
        states=np.zeros(shape, dtype=np.int32),
        actions=np.zeros(shape, dtype=np.int32),
        rewards=np.zeros(shape),
    )
    if rounds.pause:
        rounds.totals[0]["last"] = last_episode(account, rounds)
    if stop.within is not None:
        knowledge.require_bounds()
    initial = first_of(knowledge.policy().actions)
    return RoundState(knowledge, mdp.model, evaluation, log, account, window, rounds, initial)


def _slots(setting: RoundSetting) -> int:
    """The number of episodes that may be played ahead of the learner."""
    ahead = AHEAD if setting.rule == "speculate" else 1
    return min(setting.episodes, setting.machines * ahead)


def _fresh_rounds(
    setting: RoundSetting, stop: Stop, knowledge: Knowledge, mdp: TabularMDP, marks: np.ndarray
) -> Rounds:
    from lowswitch.kernels.rounds import AT_MISMATCH, AT_SWITCH, AT_TRIGGER

    spec = knowledge.spec
    cuts = {"trigger": AT_TRIGGER, "switch": AT_SWITCH, "speculate": AT_MISMATCH}
    several = setting.rule == "speculate" and not knowledge.stops_midway
    room = spec.timing.room * (_slots(setting) if several else 1)
    until = stop.next_look(1, setting.episodes)
    return Rounds(
        episodes=until,
        cut=cuts[setting.rule],
        pause=stop.looks_at_values,
        policy_gap=_unit_gap(mdp, stop.policy),
        mixture_gap=_unit_gap(mdp, stop.mixture),
        room=room,
        totals=np.array([(0, 0, 0, until, 0, 0.0)], dtype=ROUND_TOTALS),
        plays=np.zeros(spec.H * spec.S * spec.A, dtype=np.int64),
        stamps=np.zeros(max(_CHANGES, room), dtype=STAMP),
        curve=np.zeros(len(marks), dtype=np.int64),
        earned_curve=np.zeros(len(marks)),
    )


def _no_tables() -> TabularMDP:
    """A placeholder for an unknown problem; nobody plays it."""
    return TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), horizon=1)


def _unit_gap(mdp: TabularMDP, eps: float | None) -> float:
    """A gap in the user's reward units as the kernels see it; -1 means no gap."""
    return -1.0 if eps is None else eps / float(mdp.scale.to_regret(1.0))
