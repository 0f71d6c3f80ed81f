"""Rounds in which machines send sums in place of their episodes, for the learners by rounds.

A round of FedQ is a number of turns, in which every machine plays one episode. A task names its
first episode. A worker remembers the episodes of its machines as long as the round lasts, so it
plays none of them twice; a worker that knows nothing plays them again.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from lowswitch.concurrent.sources import Player, Trajectories

MOST_STEPS = 2**22  # that the machines of a worker remember


class Turns(NamedTuple):
    """A number of turns for all machines; with `wanted`, a request for their sums."""

    first: int  # the first episode of the round
    turns: int
    machines: int
    due: np.ndarray | None  # [H, S]  visits of one machine to a row that end the round
    wanted: Wanted | None = None


class Wanted(NamedTuple):
    """The sums that the learner needs."""

    columns: np.ndarray  # [c]
    values: np.ndarray  # [1 or 3, H, S]  values, and lower values and references
    marks: np.ndarray  # numbers of episodes until which rewards are asked for


class SummedPiece(NamedTuple):
    """What machines saw, or how long it takes until one of them has seen enough."""

    key: tuple[int, int]
    seconds: float
    full: int  # after which turn a machine filled a quota, or 0
    played: int  # turns so far
    starts: np.ndarray  # [b + 1]  where the rows of each machine begin
    rows: np.ndarray  # [n]  step * S + state
    counts: np.ndarray  # [n]
    sums: np.ndarray  # [n, c]
    earned: np.ndarray  # [b, marks + 1]  rewards until each mark, and in total
    surplus: np.ndarray  # [H, S]  visits in turns that are not asked for, or nothing


class Summing:
    """The machines of one worker: what they played in the present round."""

    def __init__(self, horizon: int) -> None:
        self.horizon, self.of = horizon, ()
        self.states = np.zeros((0, 0, horizon), dtype=np.int32)
        self.rewards = np.zeros((0, 0, horizon))

    def reply(
        self,
        key: tuple[int, int],
        player: Player,
        policy: np.ndarray,
        machines: np.ndarray,
        task: Turns,
    ) -> SummedPiece:
        begin = time.perf_counter()
        self._play(player, policy, machines, task)
        full, nothing = 0, np.zeros(0, dtype=np.uint8)
        parts: tuple[np.ndarray, ...] = (nothing,) * 6
        if task.wanted is None:
            full = self._full_turn(task)
        else:
            full, parts = task.turns, self._sums(machines, task, task.wanted)
        return SummedPiece(key, time.perf_counter() - begin, full, len(self.states), *parts)

    def _play(self, player: Player, policy: np.ndarray, machines: np.ndarray, task: Turns) -> None:
        """Play the turns that are missing."""
        of = task.first, *machines.tolist()
        if of != self.of:
            shape = 0, len(machines), self.horizon
            self.of, self.states = of, np.zeros(shape, dtype=np.int32)
            self.rewards = np.zeros(shape)
        turns = np.arange(len(self.states), task.turns)[:, None]
        if len(turns):
            episodes = (task.first + turns * task.machines + machines).reshape(-1)
            played = whole(player.play(policy, episodes), (len(episodes), self.horizon))
            shape = len(turns), len(machines), self.horizon
            self.states = np.concatenate([self.states, played.states.reshape(shape)])
            self.rewards = np.concatenate([self.rewards, played.rewards.reshape(shape)])

    def _full_turn(self, task: Turns) -> int:
        from lowswitch.kernels.turns import first_full_turn

        assert task.due is not None
        seen = np.zeros((self.states.shape[1], *task.due.shape), dtype=np.int64)
        return int(first_full_turn(self.states[: task.turns], task.due.astype(np.int64), seen))

    def _sums(self, machines: np.ndarray, task: Turns, wanted: Wanted) -> tuple[np.ndarray, ...]:
        """Starts, rows, counts, sums and rewards of each machine, and the visits of later turns."""
        from lowswitch.kernels.turns import SUMS, sum_turns

        b, (kinds, H, S) = self.states.shape[1], wanted.values.shape
        tables = np.zeros((3, H, S))
        tables[:kinds] = wanted.values
        counts, sums = np.zeros((b, H, S), dtype=np.int64), np.zeros((b, H, S, SUMS))
        played = self.states, self.rewards
        sum_turns(*played, *tables, 0, task.turns, counts, sums)
        later, unused = np.zeros_like(counts), np.zeros_like(sums)
        sum_turns(*played, *tables, task.turns, len(self.states), later, unused)
        seen = counts.reshape(b, -1) > 0
        starts = np.concatenate([[0], np.cumsum(seen.sum(axis=1))])
        rows = narrow(np.nonzero(seen)[1])
        returns = self.rewards[: task.turns].sum(axis=2)
        turns = np.arange(task.turns)[:, None]
        episodes = task.first + turns * task.machines + machines
        until = [*wanted.marks.tolist(), task.first + task.turns * task.machines]
        earned = np.array([np.where(episodes < mark, returns, 0).sum(axis=0) for mark in until]).T
        return (
            narrow(starts),
            rows,
            narrow(counts.reshape(b, -1)[seen]),
            sums.reshape(b, -1, SUMS)[seen][:, wanted.columns],
            earned,
            narrow(later.sum(axis=0)) if later.any() else np.zeros(0, dtype=np.uint8),
        )


def whole(played: Any, shape: tuple[int, int]) -> Trajectories:
    """Trajectories of a shape, as kernels read them; players may be a user's own."""
    if np.shape(played.states) != shape or np.shape(played.rewards) != shape:
        raise ValueError(
            f"the player returned states {np.shape(played.states)} and rewards"
            f" {np.shape(played.rewards)}, not [b, H] = {shape}"
        )
    return Trajectories(
        np.ascontiguousarray(played.states, dtype=np.int32),
        np.ascontiguousarray(played.rewards, dtype=float),
    )


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as the largest one needs."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
