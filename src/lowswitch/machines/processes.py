"""Workers that are processes on this machine, each at the end of a pipe."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import cast

import numpy as np

from lowswitch.checks import require_count
from lowswitch.machines.crew import Team, WorkerLostError
from lowswitch.machines.fleets import FleetError
from lowswitch.machines.sources import Source
from lowswitch.machines.station import Answer, Failure, Order, Station
from lowswitch.progress import cores

_CLOSING_SECONDS = 3.0  # for players to close what they have open
_REAPING_SECONDS = 1.0  # from a signal to the exit code
_LONGEST_PATIENCE = 10**6  # seconds, eleven days: a socket's time limit and a wait can hold it
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NAME, _UNGUARDED = (
    "lowswitch worker",
    77,
)  # of a worker; its exit code where the script has no guard
_HELLO, _READY, _UNABLE = b"hello", b"ready", b"unable: "


def require_patience(patience: float) -> float:
    """A positive number of seconds."""
    if (
        isinstance(patience, bool)
        or not isinstance(patience, int | float)
        or not 0 < patience <= _LONGEST_PATIENCE
    ):
        raise ValueError(
            f"patience must be a positive number of seconds, at most {_LONGEST_PATIENCE}, not"
            f" {patience!r}"
        )
    return float(patience)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Processes of this machine, one player in each; `workers` is the number of cores unless given.

    A worker that does not answer within `patience` seconds counts as hung: it is killed and its
    episodes are played elsewhere. Every worker imports the main script, so a script opens its
    fleets under `if __name__ == "__main__":`. Workers are daemonic and end with the driver, so an
    environment cannot start `multiprocessing` children of its own.
    """

    workers: int | None = None
    patience: float = 60.0

    def __post_init__(self) -> None:
        if self.workers is not None:
            require_count("workers", self.workers)
        require_patience(self.patience)

    def open(self, source: Source, seed: int, policy: np.ndarray) -> Team[ProcessWorker]:
        this = multiprocessing.current_process()
        if this.name == _NAME and getattr(
            this, "_inheriting", False
        ):  # a worker that imports a script without a guard: tell the driver
            os._exit(_UNGUARDED)
        try:
            pickled = pickle.dumps((source, seed), protocol=5)
        except Exception as error:  # pickle raises what the object's own methods raise
            raise ValueError(
                f"{type(source).__name__} cannot be sent to another process ({error}); build it"
                " from functions and classes at the top level of a module, or play with"
                " InProcess()"
            ) from error
        team = Team(
            ProcessEngine(pickled, self.patience),
            policy,
            workers=self.workers or cores(),
            patience=self.patience,
        )
        team.muster()
        return team


class ProcessEngine:
    """Starts processes by spawn: fork would copy locks that other threads hold."""

    advice = (
        "its own message is on stderr, if it had any; every worker imports the script that is run, "
        'so that must be a file, and open the fleet under `if __name__ == "__main__":`'
    )

    def __init__(self, source: bytes, patience: float) -> None:
        self.source, self.patience = source, patience

    def start(self) -> tuple[ProcessWorker, int]:
        try:
            return ProcessWorker(self.source, self.patience), len(self.source)
        except OSError as error:
            raise WorkerLostError(
                f"the system has no room for another process ({error})"
            ) from error

    def wait(self, workers: Sequence[ProcessWorker], seconds: float) -> list[ProcessWorker]:
        ready = wait(
            [worker.connection for worker in workers], seconds
        )  # the pipe of a dead worker is at its end, which counts as ready
        return [worker for worker in workers if worker.connection in ready]

    def close(self, workers: Sequence[ProcessWorker]) -> None:
        deadline = time.monotonic() + _CLOSING_SECONDS
        try:
            for worker in workers:
                worker.connection.close()  # that is its signal to end
            for worker in workers:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        finally:  # also when a second Ctrl-C cuts the waiting short
            for worker in workers:
                worker.process.kill()  # all of them, before any is waited for
            for worker in workers:
                worker.kill()


class ProcessWorker:
    """The driver's end of a worker process."""

    def __init__(self, source: bytes, patience: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.source, self.up = source, False
        self.connection, theirs = context.Pipe()
        _limit(self.connection, patience)
        self.process = context.Process(target=serve, args=(theirs,), name=_NAME, daemon=True)
        with theirs, _interrupts_held_back():
            self.process.start()

    def hand(self, order: Order) -> int:
        return self._send(pickle.dumps(order, protocol=5))

    def take(self) -> tuple[Answer | Failure | None, int]:
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise WorkerLostError(self._exit()) from error
        if message == _HELLO:
            self._send(
                self.source
            )  # not before it can listen: a large source would block the driver
        elif message == _READY:
            self.up = True
        elif message.startswith(_UNABLE):
            raise WorkerLostError(message.removeprefix(_UNABLE).decode())
        else:
            return cast(Answer | Failure, pickle.loads(message)), len(message)
        return None, len(message)

    def kill(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
            self.process.join(_REAPING_SECONDS)

    def _send(self, message: bytes) -> int:
        try:
            self.connection.send_bytes(message)
        except OSError as error:
            raise WorkerLostError(self._exit()) from error
        return len(message)

    def _exit(self) -> str:
        self.process.join(_REAPING_SECONDS)
        code = self.process.exitcode
        if code == _UNGUARDED:
            raise FleetError(
                "every worker imports the script that is run, and this one opens its fleet as soon"
                ' as it is imported; put what it does under `if __name__ == "__main__":`'
            ) from None
        if code is None:
            return "it lives, but its pipe is broken"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _limit(connection: Connection, seconds: float) -> None:
    """Let a read or write that has begun fail after some seconds: the other side may be stopped in
    the middle of a message.
    """
    if os.name != "posix":
        return  # a pipe is no socket there
    interval = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) or 1)
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C is the driver's business: a process started meanwhile never sees it, not even while it
    imports.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # before: the first spawn starts it, which would let interrupts through again
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the worker -------------------------------------------------------------------------------


def serve(connection: Connection) -> None:
    """Play what comes through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_the_driver()
    threading.Thread(target=_follow_the_driver, daemon=True).start()
    with suppress(EOFError, OSError):  # the driver has closed the pipe: time to go
        connection.send_bytes(_HELLO)
        try:
            station = Station(connection.recv_bytes())
        except Exception:
            connection.send_bytes(_UNABLE + traceback.format_exc().encode())
            return
        try:
            connection.send_bytes(_READY)
            while True:
                connection.send_bytes(
                    pickle.dumps(station.play(pickle.loads(connection.recv_bytes())), protocol=5)
                )
        finally:
            station.close()


def _die_with_the_driver() -> None:
    """Let the kernel end this process with the thread that started it: a player that hangs may hold
    the GIL, and then no thread here runs.

    A crew lives within one call, so that thread does not end before the crew does.
    """
    driver = multiprocessing.parent_process()
    if sys.platform != "linux" or driver is None:
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != driver.pid:  # it was gone before that
        os._exit(1)


def _follow_the_driver() -> None:
    """End this process when the driver is gone, wherever the system does not: nobody else would."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)
