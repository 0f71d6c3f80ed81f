"""Long work: pieces short enough to look up between them, threads, and a line that says how far it
is, or that kernels are being compiled.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from lowswitch.show.text import duration, short

LOADING = "loading the kernels"
COMPILING = "compiling the kernels (once, they are cached)"
_BAR = 24
_TICK_SECONDS = 1.0
_LINE_SECONDS = 30.0
_SILENT_SECONDS = 5.0  # after which what is waited for is said where nothing is redrawn
_PIECE_SECONDS = 0.1


# ---- pieces and threads --------------------------------------------------------------------------


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PieceSize:
    """How large the next piece of some work should be.

    Each piece runs inside `with piece_size`; the size doubles until a piece takes about a tenth of
    a second.
    """

    def __init__(self, size: int) -> None:
        self.size = max(1, size)

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if time.perf_counter() - self._begin < _PIECE_SECONDS / 2:
            self.size *= 2


def run_all(
    works: Sequence[Callable[[threading.Event], None]], *, workers: int, look_up: Callable[[], None]
) -> None:
    """Run all works on this many threads and call `look_up` now and then.

    An interrupt or an error sets the event that every work is given, and which must stop it.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(min(workers, len(works))) as pool:
        pending = {pool.submit(work, stop) for work in works}
        try:
            while pending:
                done, pending = wait(pending, timeout=_PIECE_SECONDS)
                for future in done:
                    future.result()
                look_up()
        except BaseException:
            stop.set()
            for future in pending:
                future.cancel()
            raise


@contextmanager
def looking_up(look_up: Callable[[], None]) -> Iterator[None]:
    """Call `look_up` now and then while the block works, and once after it."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(_PIECE_SECONDS):
            look_up()

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    look_up()


class Pace:
    """How far the plans of a run are, and what they take: `with pace` around each.

    Whoever plans may say which share of a plan is finished.
    """

    def __init__(self) -> None:
        self.played = 0.0  # seconds of finished pieces of the run, with their plans
        self.whole, self.seconds = 0, 0.0  # finished plans
        self.share, self._begin = 0.0, 0.0  # of the present plan

    def __enter__(self) -> None:
        self.share, self._begin = 0.0, time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._begin
        self.whole, self.share, self._begin = self.whole + 1, 0.0, 0.0

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Count the seconds of a piece of the run."""
        begin = time.perf_counter()
        yield
        self.played += time.perf_counter() - begin

    @property
    def made(self) -> float:
        """How many plans are finished, with the share of the present one."""
        return self.whole + self.share

    @property
    def spent(self) -> float:
        """The seconds of all plans up to now."""
        begin = self._begin
        return self.seconds + (time.perf_counter() - begin if begin else 0.0)


def seconds_left(
    workers: int, share: float, plans: int, paces: Sequence[Pace], guess: float
) -> float:
    """How long runs with plans still take, of which a share of the steps is played.

    Plans are made on a few dates, so steps alone would say nothing of them. `guess` is what a plan
    takes, before there was one.
    """
    made, spent = sum(pace.made for pace in paces), sum(pace.spent for pace in paces)
    playing = sum(max(0.0, pace.played - pace.seconds) for pace in paces)
    each = spent / made if made else max(guess, spent)
    rest = playing * (1 - share) / share if share else 0.0
    return (rest + max(0.0, plans - made) * each) / workers


# ---- the line on a terminal ----------------------------------------------------------------------


def needs_loading(kernel: Any) -> bool:
    """Whether a compiled function was not called in this process yet."""
    return not getattr(kernel, "overloads", True)


class Progress:
    """A bar with a rate and the time left.

    On a terminal it is redrawn in place. Elsewhere, as in a log file, it is a line every 30 s, and
    the reason for a wait is printed after 5 s. It is a context manager, which clears its line on a
    terminal at the end.
    """

    opened: ClassVar[list[Progress]] = []  # those that have begun and not ended, outermost first

    def __init__(self, total: int, *, unit: str, show: bool | None = None, label: str = "") -> None:
        self.total, self.unit, self.label = total, unit, label
        self.show = _is_open() if show is None else show
        self.in_place = _is_terminal() if show is None else show
        self.begin, self.before = time.perf_counter(), 0
        self.width = 0
        self.due = self.begin + _LINE_SECONDS  # when a line is written, where nothing is redrawn
        self.later = self.due  # the same without what is waited for
        self._drawing, self._noted = threading.Lock(), threading.Event()
        self._noted.set()  # when a note has ended
        self.noting = ""  # the last one

    def __enter__(self) -> Progress:
        self.opened.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.remove(self)
        self.end_note()

    @property
    def is_noting(self) -> bool:
        """Whether it says what the user is waiting for."""
        return self.show and not self._noted.is_set()

    def note(self, text: str) -> None:
        """Say what the user is waiting for, with the seconds so far, until the next update."""
        self._stop_counting()
        self.noting = text
        self.later, self.due = self.due, min(self.due, time.perf_counter() + _SILENT_SECONDS)
        if text:
            self._draw(f"{self.label}  {text} ...")
        if self.show:
            done = self._noted = threading.Event()
            clock = (text, done, time.perf_counter())
            threading.Thread(target=self._count_seconds, args=clock, daemon=True).start()

    def _count_seconds(self, text: str, done: threading.Event, begin: float) -> None:
        while self.show and not done.wait(_TICK_SECONDS):
            with self._drawing:
                if not done.is_set():
                    words = f"{text}  {duration(time.perf_counter() - begin)}".lstrip()
                    self._draw(words if self._is_wide(words) else f"{self.label}  {words}")

    def end_note(self) -> None:
        """End the wait, and clear its line."""
        self._stop_counting()
        self._draw("")

    def _stop_counting(self) -> None:
        with self._drawing:
            self._noted.set()
            self.due = max(self.due, self.later)

    def start(self, done: int = 0) -> None:
        """Start the clock once all is loaded; an earlier call may have done some of the work."""
        self.begin, self.before = time.perf_counter(), done
        self.update(done)

    def update(self, done: int, also: str = "", left: float | None = None) -> None:
        """Say how much is done, and add a text of one's own, unless kernels are being compiled.

        `left` are the seconds that are left, where the rate so far does not say so.
        """
        if not self.show or _compiler.busy:
            return
        self._stop_counting()
        elapsed, new = time.perf_counter() - self.begin, done - self.before
        share, speed = done / self.total, duration(elapsed)
        if left is not None:
            share = elapsed / (elapsed + left) if left > 0 else share
        elif new:
            left = elapsed * (self.total - done) / new
        filled = int(_BAR * share)
        bar = "#" * filled + "." * (_BAR - filled)
        if left is not None:
            speed = f"{short(new / elapsed)} {self.unit}/s  {duration(left)} left"
        body = f"[{bar}] {share:4.0%}  {speed}{also}"
        self._draw(body if self._is_wide(body) else f"{self.label}  {body}")

    def _is_wide(self, text: str) -> bool:
        """Whether there is no room for the label before a text."""
        columns = shutil.get_terminal_size().columns
        return self.in_place and bool(text) and len(self.label) + 2 + len(text) >= columns

    def _draw(self, text: str) -> None:
        if not self.show:
            return
        if self.in_place:
            text = text[: shutil.get_terminal_size().columns - 1]
            self._write("\r" + text.ljust(self.width) + ("" if text else "\r"))
            self.width = len(text)
        elif text and time.perf_counter() >= self.due:
            self.due = time.perf_counter() + _LINE_SECONDS
            self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            self.show = False  # the stream is closed or full: nobody looks


def _is_open() -> bool:
    """Whether there is a stderr to write to."""
    return sys.stderr is not None and not sys.stderr.closed


def _is_terminal() -> bool:
    """Whether stderr is a terminal; it may be closed or missing."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def say(text: str, *, show: bool | None = None) -> None:
    """Write a line, if there is something to say."""
    if text and (_is_terminal() if show is None else show):
        with suppress(AttributeError, OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


@contextmanager
def waiting(label: str, *, show: bool | None = None) -> Iterator[None]:
    """Show the seconds so far, for work that cannot say how much of it is done."""
    with Progress(1, unit="", show=show, label=label) as bar:
        bar.note("")
        yield


# ---- compilation ---------------------------------------------------------------------------------


class _Compiler:
    """Says that kernels are being compiled, by the bar that there is or by one of its own."""

    def __init__(self) -> None:
        self.depth = 0  # one kernel is compiled inside of another; numba has one thread do it all
        self.bar: Progress | None = None  # which says so

    @property
    def busy(self) -> bool:
        return self.depth > 0

    def begin(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.begun = time.perf_counter()
            bar = Progress.opened[0] if Progress.opened else Progress(1, unit="", label="lowswitch")
            if not bar.is_noting:
                bar.note(COMPILING)
                self.bar = bar
            elif bar.noting == LOADING:  # the code that noted it also ends it
                bar.note(COMPILING)

    def end(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            if self.bar is not None:
                self.bar.end_note()
                self.bar = None
            for bar in Progress.opened:
                bar.begin += time.perf_counter() - self.begun  # says nothing of its rate


_compiler = _Compiler()


@functools.cache
def say_when_compiling() -> None:
    """From now on say on stderr that kernels are being compiled, wherever that takes a while."""
    from numba.core import event

    register: Any = event.register
    methods = {"on_start": lambda *_: _compiler.begin(), "on_end": lambda *_: _compiler.end()}
    register("numba:compile", type("Listener", (event.Listener,), methods)())
