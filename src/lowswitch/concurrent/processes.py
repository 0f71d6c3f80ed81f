"""Workers that are processes on this machine, each connected by a pipe."""

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
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import numpy as np

from lowswitch.concurrent.fleets import FleetError
from lowswitch.concurrent.scheduler import (
    CLOSING_SECONDS,
    Scheduler,
    Worker,
    WorkerLostError,
    checked_settings,
)
from lowswitch.concurrent.sources import Source
from lowswitch.concurrent.worker import Assignment, PiecePlayer, Reply, pickled
from lowswitch.show.progress import cores

_REAPING_SECONDS = 1.0  # from a signal to the exit code
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NAME = "lowswitch worker"  # of the process
_MOST_FILES = 2**16  # that a process may have open
_CLOSED = -1  # no file any longer
_UNGUARDED = 77  # exit code of a worker whose script opens a fleet on import
_HELLO, _READY, _UNABLE = b"hello", b"ready", b"unable: "  # a worker's messages while it starts


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Processes on this machine play.

    Every worker imports the main script, so a script must open its fleets under `if __name__ ==
    "__main__":`. Workers are daemonic and end with the driver, so an environment cannot start
    `multiprocessing` children. Other processes that it starts end with their worker, unless they
    leave its session. There are never more workers than machines.

    Parameters
    ----------
    workers
        How many processes; by default one per core.
    patience
        A worker that does not answer within this many seconds counts as hung: it is killed, and
        other workers play its episodes.
    """

    workers: int | None = None
    patience: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", checked_settings(self.workers, self.patience))

    def at_most(self, machines: int) -> Processes:
        """The same fleet with no more workers than machines."""
        return replace(self, workers=min(self.workers or cores(), machines))

    def open(self, source: Source, seed: int, policy: np.ndarray) -> OpenProcesses:
        this = multiprocessing.current_process()
        if this.name == _NAME and getattr(this, "_inheriting", False):
            os._exit(_UNGUARDED)  # A worker is importing a script without a guard: tell the driver.
        packed = pickled(source, seed, pickle.dumps, "process")
        size = self.workers or cores()
        return OpenProcesses(packed, policy, size=size, patience=self.patience).start()


class ProcessWorker(Worker):
    """The driver's end of the pipe to a worker process."""

    def __init__(self, source: bytes, patience: float) -> None:
        super().__init__()
        # Fork would copy locks that other threads hold, and nobody would release the copies.
        context = multiprocessing.get_context("spawn")
        self.source = source
        self.connection, theirs = context.Pipe()
        _limit(self.connection, patience)
        self.process = context.Process(target=serve, args=(theirs,), name=_NAME, daemon=True)
        with theirs, _interrupts_held_back():
            self.process.start()
        self.end = _end_of(self.process)

    def send(self, asked: Assignment) -> int:
        return self._send(pickle.dumps(asked, protocol=5))

    def receive(self) -> tuple[Reply | None, int]:
        try:
            if not (self.connection.poll(0) or self.process.is_alive()):
                raise EOFError  # One of its children still holds the pipe open.
            message = self.connection.recv_bytes()
        except (EOFError, OSError, MemoryError) as error:
            raise WorkerLostError(self._how_it_ended()) from error
        if self.up:  # Nothing but replies may come: an environment can write "hello" as well.
            return _read_reply(message), len(message)
        if message == _HELLO:
            self._send(self.source)  # only once it listens: a large source would block the driver
        elif message == _READY:
            self.up = True
        elif message.startswith(_UNABLE):
            raise WorkerLostError(message.removeprefix(_UNABLE).decode(errors="replace"))
        else:
            raise WorkerLostError(f"it sent {message[:40]!r} before it was ready")
        return None, len(message)

    def kill(self) -> None:
        self.connection.close()
        self.kill_at_once()
        if self.end not in (self.process.sentinel, _CLOSED):
            os.close(self.end)
            self.end = _CLOSED
        if self.process.is_alive():
            self.process.join(_REAPING_SECONDS)

    def kill_at_once(self) -> None:
        """End the worker and all processes that it started, without waiting for them."""
        with suppress(OSError, AttributeError):  # It is gone, or does not lead a group yet.
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()

    def _send(self, message: bytes) -> int:
        try:
            self.connection.send_bytes(message)
        except OSError as error:
            raise WorkerLostError(self._how_it_ended()) from error
        return len(message)

    def _how_it_ended(self) -> str:
        self.process.join(_REAPING_SECONDS)
        code = self.process.exitcode
        if code == _UNGUARDED:
            raise FleetError(
                "every worker imports the main script, and this script opens its fleet "
                'on import; put its code under `if __name__ == "__main__":`'
            ) from None
        if code is None:
            return "it is alive, but its pipe is broken or takes too long"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class OpenProcesses(Scheduler[ProcessWorker]):
    """The open fleet of worker processes, each at the end of a pipe."""

    advice = (
        "its own message is on stderr, if it had any; every worker imports the main "
        "script, so that must be a file and open the fleet under `if __name__ == "
        '"__main__":`'
    )

    def _start_worker(self) -> ProcessWorker:
        try:
            return ProcessWorker(self.source, self.patience)
        except OSError as error:
            raise WorkerLostError(f"the system cannot start another process ({error})") from error

    def _wait(self, workers: Sequence[ProcessWorker], seconds: float) -> list[ProcessWorker]:
        # The pipe of a dead worker is at its end, which counts as ready, unless a child holds it
        # open.
        ends = [end for one in workers for end in (one.connection, one.end)]
        ready = set(wait(ends, seconds))
        return [one for one in workers if ready & {one.connection, one.end}]

    def _end_workers(self) -> None:
        deadline = time.monotonic() + CLOSING_SECONDS
        try:
            for worker in self.workers:
                worker.connection.close()  # which tells the worker to end
            for worker in self.workers:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        finally:  # also when a second Ctrl-C interrupts the wait
            for worker in self.workers:
                worker.kill_at_once()  # all of them, before waiting for any of them
            for worker in self.workers:
                worker.kill()


def _end_of(process: BaseProcess) -> int:
    """A file that becomes ready when a process has ended; its children cannot delay this.

    If the system has no such file, it is the pipe of `multiprocessing`, which children can delay.
    """
    if process.pid is not None and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(process.pid)
    return process.sentinel


def _read_reply(message: bytes) -> Reply:
    """Decode a worker's message, or refuse bytes that an environment wrote into the pipe."""
    try:
        reply = pickle.loads(message)
    except Exception as error:  # Foreign bytes make it raise almost anything.
        raise WorkerLostError(f"it sent {message[:40]!r} instead of a reply") from error
    if not isinstance(reply, Reply):
        raise WorkerLostError(f"it sent a {type(reply).__name__} instead of a reply")
    return reply


def _limit(connection: Connection, seconds: float) -> None:
    """Make a read or write fail if it takes longer than `seconds` once it has begun.

    The other side may have stopped in the middle of a message.
    """
    if os.name != "posix":
        return  # A pipe is not a socket there, and has no time limit.
    interval = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) or 1)
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes that start inside this context never see Ctrl-C; it is for the driver."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # The first spawn would start the tracker, which would let interrupts through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the worker -------------------------------------------------------------------------------


def serve(connection: Connection) -> None:
    """Play the assignments that arrive through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _lead_a_session()
    _die_with_the_driver()
    threading.Thread(target=_follow_the_driver, daemon=True).start()
    with suppress(EOFError, OSError):  # The driver closes the pipe when the worker should end.
        connection.send_bytes(_HELLO)
        try:
            player = PiecePlayer(connection.recv_bytes())
        except Exception:
            connection.send_bytes(_UNABLE + traceback.format_exc().encode())
            return
        try:
            connection.send_bytes(_READY)
            while True:
                reply = player.play(pickle.loads(connection.recv_bytes()))
                connection.send_bytes(pickle.dumps(reply, protocol=5))
        finally:
            _close(player)


def _close(player: PiecePlayer) -> None:
    """Close the player; an environment whose close() fails does no harm here."""
    try:
        player.close()
    except BaseException as error:
        with suppress(OSError, ValueError):
            print(f"lowswitch worker: close() raised {error!r}", file=sys.stderr, flush=True)


def _lead_a_session() -> None:
    """Put this process and all processes that it starts into one group, which ends with the driver.

    A second process watches the driver. It can end the group even if a player hangs here and holds
    the GIL. It is forked now, while there is only one thread.
    """
    driver = multiprocessing.parent_process()
    if driver is None or not (hasattr(os, "setsid") and hasattr(os, "fork")):
        return
    os.setsid()
    sentinel = driver.sentinel
    if os.fork():
        return
    for low, high in ((0, sentinel), (sentinel + 1, _MOST_FILES)):
        os.closerange(low, high)  # above all the pipe, which must end with the worker
    wait([sentinel])
    os.killpg(0, signal.SIGKILL)


def _die_with_the_driver() -> None:
    """Let the operating system end this process together with the thread that started it.

    A player that hangs may hold the GIL, and then no thread here could do it. A fleet is open
    within one call, so the thread that started it lives at least as long as the fleet.
    """
    driver = multiprocessing.parent_process()
    if sys.platform != "linux" or driver is None:
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != driver.pid:  # The driver ended before that call.
        os._exit(1)


def _follow_the_driver() -> None:
    """End this process when the driver is gone, on systems that do not do so themselves."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
