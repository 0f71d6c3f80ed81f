"""The scheduler of an open fleet whose workers are elsewhere, in processes or on a cluster.

It hands out the pieces of a round, and hands out again the work that dead or hung workers leave
undone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np

from lowswitch.checks import is_number, require_count, shown
from lowswitch.concurrent.fleets import FleetError, machine_of
from lowswitch.concurrent.sources import PlayError, Trajectories
from lowswitch.concurrent.sums import SummedPiece, Turns
from lowswitch.concurrent.worker import Assignment, FailedPiece, PlayedPiece, Reply
from lowswitch.policy.tables import change_rows

START_SECONDS = 30.0  # A worker may take this long to start, even if patience is shorter.
CLOSING_SECONDS = 3.0  # When a fleet closes, its players have this long to clean up.
SHORTEST_PIECE = 0.002  # seconds; a shorter piece would take less time than its messages
LONGEST_PIECE = 0.05  # seconds; with longer ones, workers would wait for the last of a round
LIVES = 3  # workers that an episode may kill, and that may fail to start in a row
_LONGEST_PATIENCE = 10**6  # seconds, eleven days, which fits the time limit of a socket


def checked_settings(workers: int | None, patience: float) -> int | None:
    """Check the two settings of all fleets with remote workers; return the number of workers."""
    if not (is_number(patience) and 0 < patience <= _LONGEST_PATIENCE):
        raise ValueError(
            f"patience must be a positive number of seconds, at most {_LONGEST_PATIENCE}, not"
            f" {shown(patience)}"
        )
    return None if workers is None else require_count("workers", workers)


class WorkerLostError(Exception):
    """A worker has died; the message says how, if that is known."""


class RemoteError(Exception):
    """The cause of a PlayError from a worker: the worker's own traceback, as text."""

    def __str__(self) -> str:
        return f"in the worker:\n{self.args[0]}"


# ---- a round -------------------------------------------------------------------------------------


@dataclass(eq=False)
class Piece:
    """The episodes [low:high] of a round, played by one worker."""

    key: tuple[int, int]  # the round, and low
    low: int
    high: int
    losses: int = 0  # workers that were lost while they played these episodes


class Round:
    """The episodes of a round: the pieces still to hand out, and the results of the others."""

    def __init__(
        self, number: int, episodes: np.ndarray, horizon: int, turns: Turns | None = None
    ) -> None:
        self.number, self.episodes, self.turns = number, episodes, turns
        self.summed: dict[int, SummedPiece] = {}  # by the first machine of the piece
        self.played = Trajectories.empty(len(episodes), horizon)
        # Pieces to hand out, the next one at the end.
        self.left = [self._piece(0, len(episodes))] if len(episodes) else []
        self.failure: tuple[int, FailedPiece] | None = None  # of the first machine that failed

    @property
    def has_pieces(self) -> bool:
        """Whether there is something to hand out; after a failure there is nothing more."""
        return self.failure is None and bool(self.left)

    def next_piece(self, workers: int, seconds: float | None) -> Piece:
        """Cut off the next piece; an episode takes about `seconds` seconds, if that is known."""
        remaining = sum(piece.high - piece.low for piece in self.left)
        piece = self.left.pop()
        if self.turns is None:
            size = piece_size(remaining, len(self.episodes), workers, seconds)
        else:  # A worker remembers what its machines played, so it gets the same ones every time.
            size = ceil(len(self.episodes) / workers)
        middle = piece.low + size
        if middle >= piece.high:
            return piece
        self.left.append(self._piece(middle, piece.high, piece.losses))
        return self._piece(piece.low, middle, piece.losses)

    def take(self, piece: Piece, reply: Reply) -> None:
        if isinstance(reply, SummedPiece):
            self.summed[piece.low] = reply
            return
        if isinstance(reply, PlayedPiece):
            shape = (piece.high - piece.low, self.played.states.shape[1])
            if np.shape(reply.states) != shape or np.shape(reply.rewards) != shape:
                raise FleetError(f"a worker answered with other episodes than {shape}")
            self.played.states[piece.low : piece.high] = reply.states
            self.played.rewards[piece.low : piece.high] = reply.rewards
            return
        episode = reply.episode if self.turns is None else reply.episode % self.turns.machines
        machine = machine_of(episode, self.episodes, otherwise=piece.low)
        if self.failure is None or machine < self.failure[0]:
            self.failure = machine, reply

    def replay(self, piece: Piece, reason: str) -> None:
        """Hand out again a piece that was lost with its worker.

        It is handed out in halves. They take less time, and if one episode is to blame, the halving
        isolates it.
        """
        low, high, losses = piece.low, piece.high, piece.losses + 1
        if high - low > 1:
            middle = (low + high) // 2
            self.left += [self._piece(middle, high, losses), self._piece(low, middle, losses)]
        elif losses < LIVES:
            self.left.append(self._piece(low, high, losses))
        else:
            raise FleetError(
                f"episode {self.episodes[low]} killed {losses} workers, the last one: "
                f"{reason}; raise the fleet's patience if it is slow, or play it with "
                "InProcess() to see what it does"
            )

    def result(self) -> Trajectories:
        self._require_success()
        return self.played

    def sums(self) -> list[SummedPiece]:
        """What the machines sent, in their order."""
        self._require_success()
        return [self.summed[low] for low in sorted(self.summed)]

    def _require_success(self) -> None:
        if self.failure is None:
            return
        machine, failed = self.failure
        error = PlayError(failed.message, failed.episode, failed.step, machine)
        raise error from RemoteError(failed.traceback)

    def _piece(self, low: int, high: int, losses: int = 0) -> Piece:
        return Piece((self.number, low), low, high, losses)


def piece_size(remaining: int, batch: int, workers: int, seconds: float | None) -> int:
    """The number of episodes in the next piece of a round of `batch` episodes.

    This is guided self-scheduling (Polychronopoulos and Kuck 1987): each piece is half of a
    worker's share of the remaining episodes, within bounds on the time that it takes. An episode
    takes `seconds` seconds; until that is known, a piece is one episode.
    """
    if seconds is None:
        return 1
    seconds = max(seconds, 1e-9)
    shortest, longest = SHORTEST_PIECE / seconds, LONGEST_PIECE / seconds
    half_share = ceil(max(remaining / (2 * workers), shortest))
    return max(1, min(half_share, int(longest), ceil(batch / workers)))


# ---- the policy ----------------------------------------------------------------------------------


class Deployed:
    """The deployed policy, and its latest changes as long as they are shorter than the policy."""

    def __init__(self, policy: np.ndarray) -> None:
        self.policy = policy.copy()
        self.version = 0
        self.log: deque[np.ndarray] = deque()
        self.logged = 0

    def change(self, changes: np.ndarray) -> None:
        if not len(changes):
            return
        change_rows(self.policy, changes)
        self.version += 1
        self.log.append(changes.copy())
        self.logged += changes.size
        while self.logged > self.policy.size:
            self.logged -= self.log.popleft().size

    def since(self, version: int | None) -> tuple[np.ndarray | None, np.ndarray]:
        """What to send to a worker that knows `version`: the whole policy, or changes [n, 3]."""
        none = np.empty((0, 3), dtype=int)
        missed = inf if version is None else self.version - version
        if missed > len(self.log):
            return self.policy, none
        return None, np.concatenate([none, *list(self.log)[len(self.log) - int(missed) :]])


# ---- the workers ---------------------------------------------------------------------------------


class Worker(ABC):
    """The driver's handle on a remote worker, with the methods that the scheduler expects.

    Every method except `kill` may raise a WorkerLostError.
    """

    def __init__(self) -> None:
        self.up = False  # It has started and can play.
        self.piece: Piece | None = None  # the piece that it plays now
        self.version: int | None = None  # of the policy that it knows
        self.deadline = inf  # It must have started, or played its piece, by then.

    @property
    def awaited(self) -> bool:
        return self.piece is not None or not self.up

    @abstractmethod
    def send(self, asked: Assignment) -> int:
        """Send a piece to play without waiting for it; return the number of bytes sent."""

    @abstractmethod
    def receive(self) -> tuple[Reply | None, int]:
        """The message that has arrived, and its bytes; None is a step of starting up."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once, whatever its state."""


W = TypeVar("W", bound=Worker)


class Scheduler(ABC, Generic[W]):
    """An open fleet of remote workers. A subclass defines how they start and end."""

    advice: ClassVar[str]  # what to check if no worker starts

    def __init__(self, source: bytes, policy: np.ndarray, *, size: int, patience: float) -> None:
        self.source, self.size, self.patience = source, size, patience
        self.deployed = Deployed(policy)
        self.workers: list[W] = []
        self.bytes_sent = self.bytes_received = self.lost = 0
        self.round = Round(0, np.empty(0, dtype=int), len(policy))
        self.seconds: float | None = None  # per episode, as far as known
        self.failed_starts, self.last_failure = 0, ""  # how many in a row, and why the last failed
        self.closed = False

    @abstractmethod
    def _start_worker(self) -> W:
        """Begin to start a worker, without waiting until it is up."""

    @abstractmethod
    def _wait(self, workers: Sequence[W], seconds: float) -> Sequence[W]:
        """The workers that have a message or are lost; none after `seconds` seconds."""

    @abstractmethod
    def _end_workers(self) -> None:
        """Let all workers close their resources if they can, then end them."""

    def start(self) -> Self:
        """Start the workers; return when the first one is up."""
        try:
            while not self._somebody_is_up():
                self._attend()
        except BaseException:
            self.close()
            raise
        return self

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        return self._played(changes, episodes).result()

    def sum_turns(
        self, changes: np.ndarray, machines: np.ndarray, turns: Turns
    ) -> list[SummedPiece]:
        """Change rows of the policy, let all machines play these turns, and return their sums."""
        return self._played(changes, machines, turns).sums()

    def _played(
        self, changes: np.ndarray, episodes: np.ndarray, turns: Turns | None = None
    ) -> Round:
        if self.closed:
            raise FleetError("the fleet is closed; open another one")
        self.deployed.change(changes)
        for worker in [worker for worker in self.workers if worker.piece is not None]:
            self._dismiss(worker)  # An interrupt left it, perhaps in the middle of a reply.
        self.round = Round(self.round.number + 1, episodes, len(self.deployed.policy), turns)
        while self._hand_out():
            self._attend()
        return self.round

    def close(self) -> None:
        self.closed = True
        self._end_workers()
        self.workers = []  # only now, so that after an interrupt the fleet can be closed again

    def _hand_out(self) -> bool:
        """Give work to the idle workers; return whether there is a reply to wait for."""
        for worker in [worker for worker in self.workers if not worker.awaited]:
            if not self.round.has_pieces:
                break
            self._assign(worker, self.round.next_piece(len(self.workers), self.seconds))
        return self.round.has_pieces or any(worker.piece for worker in self.workers)

    def _assign(self, worker: W, piece: Piece) -> None:
        policy, changes = self.deployed.since(worker.version)
        has_played = worker.version is not None
        worker.piece, worker.version = piece, self.deployed.version
        episodes, turns = self.round.episodes[piece.low : piece.high], self.round.turns
        usual = 0.0 if turns is None else (self.seconds or 0.0) * turns.turns * len(episodes)
        worker.deadline = time.monotonic() + self.patience + 10 * usual
        try:
            self.bytes_sent += worker.send(Assignment(piece.key, policy, changes, episodes, turns))
        except WorkerLostError as loss:
            if has_played:  # It died while idle, so this piece is not to blame.
                worker.piece = None
                self.round.left.append(piece)
            self._lose(worker, str(loss))

    def _attend(self) -> None:
        """Wait until a worker replies, dies or is overdue, and handle it."""
        self._replace_the_lost()
        # The time is taken before `_wait`, so a reply that has arrived by then is never late,
        # however late the driver looks.
        before = time.monotonic()
        awaited = [worker for worker in self.workers if worker.awaited]
        rest = max(0.0, min(worker.deadline for worker in awaited) - before)
        ready = set(self._wait(awaited, rest))
        for worker in awaited:
            if worker in ready:
                self._receive(worker)
            elif worker.deadline <= before:
                self._overdue(worker)

    def _receive(self, worker: W) -> None:
        try:
            reply, size = worker.receive()
        except WorkerLostError as loss:
            self._lose(worker, str(loss))
            return
        self.bytes_received += size
        piece = worker.piece
        if reply is None or piece is None:
            worker.deadline = self._start_deadline()
            self.failed_starts = 0 if worker.up else self.failed_starts
        elif reply.key == piece.key:  # Any other reply is late or repeated.
            worker.piece = None
            self.round.take(piece, reply)
            if isinstance(reply, PlayedPiece):
                self._learn_seconds(reply.seconds / (piece.high - piece.low))

    def _learn_seconds(self, seconds: float) -> None:
        """Accept a shorter time at once, and move halfway towards a longer one.

        The first piece of a worker takes longer than the others, because it includes imports and
        compilation.
        """
        known = self.seconds
        self.seconds = seconds if known is None or seconds < known else (known + seconds) / 2

    def _overdue(self, worker: W) -> None:
        if worker.up:
            self.seconds = None  # The episodes of this round are slower than the earlier ones.
            self._lose(worker, f"no answer within patience = {self.patience:g} s")
        elif self._somebody_is_up():
            self._dismiss(worker)  # The others play on, and its successor may find a place.
        else:
            raise FleetError(
                f"no worker became available within {self._start_seconds():g} s; {self.advice}"
            )

    def _lose(self, worker: W, reason: str) -> None:
        self._dismiss(worker)
        if not worker.up:
            self.failed_starts, self.last_failure = self.failed_starts + 1, reason
            return
        self.lost += 1
        for other in self.workers:
            if not other.up:  # It may be the only hope now, so its time starts again.
                other.deadline = self._start_deadline()
        if worker.piece is not None:
            self.round.replay(worker.piece, reason)

    def _dismiss(self, worker: W) -> None:
        self.workers.remove(worker)
        worker.kill()

    def _replace_the_lost(self) -> None:
        """Start as many workers as are missing, unless too many in a row have failed to start."""
        while len(self.workers) < self.size and self.failed_starts < LIVES:
            try:
                worker = self._start_worker()
            except WorkerLostError as loss:
                self.failed_starts, self.last_failure = self.failed_starts + 1, str(loss)
                continue
            worker.deadline = self._start_deadline()
            self.workers.append(worker)
            self.bytes_sent += len(self.source)
        if self.failed_starts >= LIVES and not self._somebody_is_up():
            raise FleetError(
                f"{LIVES} workers in a row died while starting, the last one: {self.last_failure};"
                f" {self.advice}"
            )

    def _somebody_is_up(self) -> bool:
        return any(worker.up for worker in self.workers)

    def _start_seconds(self) -> float:
        return max(self.patience, START_SECONDS)

    def _start_deadline(self) -> float:
        return time.monotonic() + self._start_seconds()
