"""One scheduler for all remote workers: it hands out the pieces of a round and plays again what
dead or hung workers leave undone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Generic, Protocol, TypeVar

import numpy as np

from lowswitch.machines.fleets import FleetError, machine_of
from lowswitch.machines.sources import PlayError, Trajectories
from lowswitch.machines.station import Answer, Failure, Order

START_SECONDS = 30.0  # a worker may take so long to come up, however small the patience
SHORTEST_PIECE, LONGEST_PIECE = (
    0.002,
    0.05,
)  # seconds: hides a round trip; keeps the workers evenly busy
LIVES = 3  # workers that an episode may take with it, or that may die in a row while starting


class WorkerLostError(Exception):
    """A worker has died; says how as far as is known."""


class RemoteError(Exception):
    """The cause of a PlayError: the worker's own traceback, as text."""

    def __str__(self) -> str:
        return f"in the worker:\n{self.args[0]}"


# ---- what the scheduler needs to know of a worker ------------------------------------------------


class Worker(Protocol):
    """A station somewhere else, or on its way there; every method may raise WorkerLostError, `kill`
    excepted.
    """

    up: bool

    def hand(self, order: Order) -> int:
        """Send an order without waiting for its answer, and say how many bytes that took."""

    def take(self) -> tuple[Answer | Failure | None, int]:
        """What has arrived, and its bytes; None where it is a step towards coming up."""

    def kill(self) -> None:
        """End it at once, in whatever state it is."""


W = TypeVar("W", bound=Worker)


class Engine(Protocol[W]):
    """Starts workers and listens to them."""

    advice: str  # what to look at when none comes up

    def start(self) -> tuple[W, int]:
        """Begin to start a worker, and say how many bytes will have been sent when it is up."""

    def wait(self, workers: Sequence[W], seconds: float) -> Sequence[W]:
        """Those that have something to take, or are lost; empty-handed after so many seconds."""

    def close(self, workers: Sequence[W]) -> None:
        """End all workers, those that are up in good order as far as they let it happen."""


# ---- a round -------------------------------------------------------------------------------------


@dataclass(eq=False)
class Piece:
    key: tuple[int, int]
    low: int  # episodes[low:high] of the round
    high: int
    losses: int = 0


class Round:
    """The episodes of a round: which are handed out, which are in."""

    def __init__(self, number: int, episodes: np.ndarray, horizon: int) -> None:
        self.number, self.episodes = number, episodes
        shape = len(episodes), horizon
        self.played = Trajectories(np.empty(shape, dtype=np.int32), np.empty(shape))
        self.left = (
            [self._piece(0, len(episodes))] if len(episodes) else []
        )  # to be handed out, from the end
        self.failure: tuple[int, Failure] | None = (
            None  # and the machine; the first one if there are several
        )

    def next_piece(self, workers: int, seconds: float | None) -> Piece:
        remaining = sum(piece.high - piece.low for piece in self.left)
        piece = self.left.pop()
        middle = piece.low + piece_size(remaining, len(self.episodes), workers, seconds)
        if middle >= piece.high:
            return piece
        self.left.append(self._piece(middle, piece.high, piece.losses))
        return self._piece(piece.low, middle, piece.losses)

    @property
    def open(self) -> bool:
        """Whether there is something to hand out."""
        return self.failure is None and bool(self.left)

    def take(self, piece: Piece, answer: Answer | Failure) -> None:
        if isinstance(answer, Answer):
            self.played.states[piece.low : piece.high] = answer.states
            self.played.rewards[piece.low : piece.high] = answer.rewards
            return
        machine = machine_of(answer.episode, self.episodes, piece.low)
        if self.failure is None or machine < self.failure[0]:
            self.failure = machine, answer

    def replay(self, piece: Piece, reason: str) -> None:
        """Hand it out again, in halves: they take less time, and in the end the one episode that is
        to blame is alone.
        """
        low, high, losses = piece.low, piece.high, piece.losses + 1
        if high - low > 1:
            middle = (low + high) // 2
            self.left += [self._piece(middle, high, losses), self._piece(low, middle, losses)]
        elif losses < LIVES:
            self.left.append(self._piece(low, high, losses))
        else:
            raise FleetError(
                f"episode {self.episodes[low]} took {losses} workers with it, the last one:"
                f" {reason}; raise the fleet's patience if it is slow, or play it with InProcess()"
                " to see what it does"
            )

    def _piece(self, low: int, high: int, losses: int = 0) -> Piece:
        return Piece((self.number, low), low, high, losses)

    def result(self) -> Trajectories:
        if self.failure is None:
            return self.played
        machine, (_, message, episode, step, text) = self.failure
        raise PlayError(message, episode, step, machine) from RemoteError(text)


def piece_size(remaining: int, batch: int, workers: int, seconds: float | None) -> int:
    """Guided self-scheduling (Polychronopoulos and Kuck 1987) by half shares, within bounds on the
    time a piece takes.

    `seconds` an episode takes is None as long as nothing is known: then one at a time.
    """
    if seconds is None:
        return 1
    seconds = max(seconds, 1e-9)
    shortest, longest = SHORTEST_PIECE / seconds, LONGEST_PIECE / seconds
    return max(
        1, min(ceil(max(remaining / (2 * workers), shortest)), int(longest), ceil(batch / workers))
    )


# ---- the policy ----------------------------------------------------------------------------------


class Deployed:
    """The deployed policy, and its latest changes as long as they are shorter than itself."""

    def __init__(self, policy: np.ndarray) -> None:
        self.policy = policy.copy()
        self.version = 0
        self.log: deque[np.ndarray] = deque()
        self.logged = 0

    def change(self, changes: np.ndarray) -> None:
        if not len(changes):
            return
        steps, states, actions = changes.T
        self.policy[steps, states] = actions
        self.version += 1
        self.log.append(changes.copy())
        self.logged += changes.size
        while self.logged > self.policy.size:
            self.logged -= self.log.popleft().size

    def since(self, version: int | None) -> tuple[np.ndarray | None, np.ndarray]:
        """What to tell one who knows a version: the whole policy, or changes [n, 3]."""
        missed = len(self.log) + 1 if version is None else self.version - version
        none = np.empty((0, 3), dtype=int)
        if missed > len(self.log):
            return self.policy, none
        return None, (
            np.concatenate([self.log[-back] for back in range(missed, 0, -1)]) if missed else none
        )


# ---- the crew ------------------------------------------------------------------------------------


@dataclass(eq=False)
class Seat(Generic[W]):
    """A worker and what is expected of it."""

    worker: W
    deadline: float  # of its piece, or to come up
    version: int | None = None  # of the policy it knows
    piece: Piece | None = None

    @property
    def awaited(self) -> bool:
        return self.piece is not None or not self.worker.up


class Team(Generic[W]):
    """A crew of remote workers."""

    def __init__(
        self, engine: Engine[W], policy: np.ndarray, *, workers: int, patience: float
    ) -> None:
        self.engine, self.workers, self.patience = engine, workers, patience
        self.deployed = Deployed(policy)
        self.seats: list[Seat[W]] = []
        self.bytes_sent = self.bytes_received = self.lost = 0
        self.rounds = 0
        self.seconds: float | None = None  # an episode takes
        self.failed_starts, self.last_failure = 0, ""  # how many in a row, and why the last one
        self.closed = False

    def muster(self) -> None:
        """Start the workers; return when the first is up."""
        nothing = Round(0, np.empty(0, dtype=int), len(self.deployed.policy))
        try:
            while not self._somebody_is_up():
                self._look_up(nothing)
        except BaseException:
            self.close()
            raise

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        if self.closed:
            raise FleetError("the crew is closed; open another one")
        self.deployed.change(changes)
        for seat in [seat for seat in self.seats if seat.piece is not None]:
            self._dismiss(seat)  # an interrupted round left it, perhaps in the middle of an answer
        self.rounds += 1
        job = Round(self.rounds, episodes, len(self.deployed.policy))
        while self._hand_out(job):
            self._look_up(job)
        return job.result()

    def close(self) -> None:
        self.closed = True
        self.engine.close([seat.worker for seat in self.seats])
        self.seats = []  # not before: who interrupts this can close again

    def _hand_out(self, job: Round) -> bool:
        """Give idle workers something to do; whether there is an answer to wait for."""
        for seat in [seat for seat in self.seats if not seat.awaited]:
            if not job.open:
                break
            self._hand(seat, job.next_piece(len(self.seats), self.seconds), job)
        return job.open or any(seat.piece is not None for seat in self.seats)

    def _hand(self, seat: Seat[W], piece: Piece, job: Round) -> None:
        policy, changes = self.deployed.since(seat.version)
        has_played = seat.version is not None
        seat.piece, seat.version, seat.deadline = (
            piece,
            self.deployed.version,
            time.monotonic() + self.patience,
        )
        try:
            self.bytes_sent += seat.worker.hand(
                Order(piece.key, policy, changes, job.episodes[piece.low : piece.high])
            )
        except WorkerLostError as loss:
            if has_played:  # it died while it was idle, this piece is not to blame
                seat.piece = None
                job.left.append(piece)
            self._lose(seat, str(loss), job)

    def _look_up(self, job: Round) -> None:
        """Wait until a worker answers, dies, or is overdue."""
        self._fill_seats()
        # who is overdue is judged by what `wait` finds after that, so a late look never blames a
        # worker
        before = time.monotonic()
        awaited = [seat for seat in self.seats if seat.awaited]
        rest = max(0.0, min(seat.deadline for seat in awaited) - before)
        ready = set(self.engine.wait([seat.worker for seat in awaited], rest))
        for seat in awaited:
            if seat.worker in ready:
                self._take(seat, job)
            elif seat.deadline <= before:
                self._overdue(seat, job)

    def _take(self, seat: Seat[W], job: Round) -> None:
        try:
            answer, size = seat.worker.take()
        except WorkerLostError as loss:
            self._lose(seat, str(loss), job)
            return
        self.bytes_received += size
        piece = seat.piece
        if answer is None or piece is None:
            seat.deadline = time.monotonic() + self._start_seconds()
            self.failed_starts = 0 if seat.worker.up else self.failed_starts
        elif answer.key == piece.key:  # anything else is a late or repeated answer
            seat.piece = None
            job.take(piece, answer)
            if isinstance(answer, Answer):
                self._learn_the_pace(answer.seconds / (piece.high - piece.low))

    def _learn_the_pace(self, seconds: float) -> None:
        """Believe the good news at once: a first piece pays for imports and compilation, and is no
        measure.
        """
        known = self.seconds
        self.seconds = seconds if known is None or seconds < known else (known + seconds) / 2

    def _overdue(self, seat: Seat[W], job: Round) -> None:
        if seat.worker.up:
            self.seconds = (
                None  # the episodes of this round are slower than those that were measured
            )
            self._lose(seat, f"no answer within patience = {self.patience:g} s", job)
        elif self._somebody_is_up():
            self._dismiss(seat)  # the others go on; another one may find a place
        else:
            raise FleetError(
                f"no worker became available within {self._start_seconds():g} s;"
                f" {self.engine.advice}"
            )

    def _lose(self, seat: Seat[W], reason: str, job: Round) -> None:
        self._dismiss(seat)
        if not seat.worker.up:
            self.failed_starts, self.last_failure = self.failed_starts + 1, reason
            return
        self.lost += 1
        for other in self.seats:
            if not other.worker.up:  # it may be the only hope now
                other.deadline = time.monotonic() + self._start_seconds()
        if seat.piece is not None:
            job.replay(seat.piece, reason)

    def _dismiss(self, seat: Seat[W]) -> None:
        self.seats.remove(seat)
        seat.worker.kill()

    def _fill_seats(self) -> None:
        while len(self.seats) < self.workers and self.failed_starts < LIVES:
            try:
                worker, size = self.engine.start()
            except WorkerLostError as loss:
                self.failed_starts, self.last_failure = self.failed_starts + 1, str(loss)
                continue
            self.seats.append(Seat(worker, time.monotonic() + self._start_seconds()))
            self.bytes_sent += size
        if self.failed_starts >= LIVES and not self._somebody_is_up():
            raise FleetError(
                f"{LIVES} workers in a row died while starting, the last one: {self.last_failure};"
                f" {self.engine.advice}"
            )

    def _somebody_is_up(self) -> bool:
        return any(seat.worker.up for seat in self.seats)

    def _start_seconds(self) -> float:
        return max(self.patience, START_SECONDS)
