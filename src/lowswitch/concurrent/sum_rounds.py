"""The driver of rounds in which machines send sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.concurrent.state import RoundSetting, RoundState
from lowswitch.concurrent.sums import MOST_STEPS, SummedPiece, Turns, Wanted, narrow


class SumRound:
    """A round of FedQ whose machines send sums: what to ask for, and what is learned from it."""

    def __init__(self, setting: RoundSetting, state: RoundState) -> None:
        self.setting, self.state, self.machines = setting, state, np.arange(setting.machines)

    @property
    def turns(self) -> int:
        """For how many turns to ask at first; 0 if episodes take fewer bytes than sums."""
        state, spec, tables = self.state, self.state.knowledge.spec, self.state.knowledge.tables
        if (tables.cells["visits"] != tables.cells["round"]).any() or not state.learned:
            return 0  # The round has begun.
        visits = tables.cells["visits"].reshape(-1, spec.A).sum(axis=1)
        due = self._due().reshape(-1)
        seen = visits > 0
        expected = float((due[seen] * (state.learned / visits[seen])).min())
        # Sums take as many bytes as this many turns of episodes: a row has 4 bytes and 8 for each
        # sum, a step of an episode 12, and there are two messages more. A round has about half as
        # many turns as expected, because any of many rows may end it.
        worth = spec.S * (1 + 2 * len(self._columns())) / 3 + 2
        return 0 if expected < 2 * worth else min(self.most, max(1, int(expected / 2)))

    @property
    def most(self) -> int:
        """How many turns are left, and fit into the memory of the machines."""
        left = (self.state.last - self.state.learned) // self.setting.machines
        steps = self.setting.machines * int(self.setting.source.horizon)
        return min(left, max(1, MOST_STEPS // steps))

    def play(self, opened: Any, changes: np.ndarray, turns: int) -> tuple[int, list[SummedPiece]]:
        """Ask until some machine has filled a quota; return after how many turns, and the sums."""
        nothing = changes[:0]
        task = Turns(self.state.learned, turns, self.setting.machines, narrow(self._due()))
        while True:
            replies = opened.sum_turns(changes, self.machines, task._replace(turns=turns))
            full = [reply.full for reply in replies if reply.full]
            if full or turns == self.most:
                turns = min(full, default=turns)
                break
            changes, turns = nothing, min(self.most, turns + turns // 2 + 1)
        points, last = self.state.log.curve_points, task.first + turns * task.machines
        marks = points[(points > task.first) & (points < last)]
        task = task._replace(turns=turns, due=None, wanted=self._wanted(marks))
        return turns, opened.sum_turns(nothing, self.machines, task)

    def learn(self, turns: int, replies: list[SummedPiece]) -> None:
        """Let the learner take in the sums of all machines, in their order."""
        from lowswitch.kernels.turns import SUMS, take_sums

        state, columns = self.state, self._columns()
        state.make_room()
        sent = np.concatenate([reply.sums for reply in replies])
        sums = np.zeros((len(sent), SUMS))
        sums[:, columns] = sent
        sizes = np.concatenate([np.diff(reply.starts.astype(np.int64)) for reply in replies])
        rows = np.concatenate([reply.rows for reply in replies]).astype(np.int64)
        counts = np.concatenate([reply.counts for reply in replies]).astype(np.int64)
        earned = np.concatenate([reply.earned for reply in replies])
        self._count(rows, counts, replies)
        take_sums(
            *state.run,
            turns,
            max(reply.played for reply in replies),
            np.concatenate([[0], np.cumsum(sizes)]),
            rows,
            counts,
            sums,
            np.array([sum(until.tolist()) for until in earned.T]),
        )

    def _count(self, rows: np.ndarray, counts: np.ndarray, replies: list[SummedPiece]) -> None:
        """Count what was played, also after the last turn of the round."""
        spec, totals = self.state.knowledge.spec, self.state.rounds.totals[0]
        plays = np.zeros(spec.H * spec.S, dtype=np.int64)
        np.add.at(plays, rows, counts)
        for reply in replies:
            totals["played"] += reply.played * (len(reply.starts) - 1)
            if reply.surplus.size:
                plays += reply.surplus.astype(np.int64).reshape(-1)
        actions = self.state.knowledge.policy().actions[0].reshape(-1)
        cells = np.arange(spec.H * spec.S) * spec.A + actions
        self.state.rounds.plays[cells] += plays

    def _wanted(self, marks: np.ndarray) -> Wanted:
        spec, tables = self.state.knowledge.spec, self.state.knowledge.tables
        names = ("value",) if "moments" in tables._fields else ("value", "lower", "reference")
        rows = tables.rows[: spec.H * spec.S]
        values = np.array([rows[name] for name in names]).reshape(-1, spec.H, spec.S)
        return Wanted(self._columns(), values, marks)

    def _due(self) -> np.ndarray:  # [H, S]
        """The visits of one machine to each row that end the round, by the deployed policy."""
        spec, tables = self.state.knowledge.spec, self.state.knowledge.tables
        actions = tables.rows["action"][: spec.H * spec.S]
        cells = np.arange(spec.H * spec.S) * spec.A + actions
        due: np.ndarray = tables.cells["due"][cells].astype(np.int64)
        return due.reshape(spec.H, spec.S)

    def _columns(self) -> np.ndarray:
        """The sums that this kind of learner needs."""
        from lowswitch.kernels import turns
        from lowswitch.kernels.qlearning import HOEFFDING

        if "moments" not in self.state.knowledge.tables._fields:
            return np.arange(turns.VALUE)
        bernstein = self.state.knowledge.spec.bonus != HOEFFDING
        more = (turns.VALUE, turns.VALUE_SQUARES) if bernstein else ()
        return np.array([turns.REWARD_AND_VALUE, *more])
