"""One line on a terminal that says how far long work is; silence elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOADING = "loading the kernels; the very first run compiles them for some seconds ..."
_BAR = 24
_TICK_SECONDS = 1.0


def needs_loading(kernel: Any) -> bool:
    """Whether a compiled function was not called in this process yet."""
    return not getattr(kernel, "signatures", True)


class Progress:
    """A bar with a rate and the time left, redrawn in place; a context manager that clears its
    line.
    """

    def __init__(self, total: int, *, unit: str, show: bool | None = None, label: str = "") -> None:
        self.total, self.unit, self.label = total, unit, label
        self.show = sys.stderr.isatty() if show is None else show
        self.begin, self.before = time.perf_counter(), 0
        self.width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._draw("")

    def note(self, text: str) -> None:
        """Say what is being waited for."""
        self._draw(f"{self.label}  {text}")

    def start(self, done: int = 0) -> None:
        """All is loaded: the clock starts, with so much done by an earlier call."""
        self.begin, self.before = time.perf_counter(), done
        self.update(done)

    def update(self, done: int, also: str = "") -> None:
        """Say how much is done, and what else."""
        if not self.show:
            return
        elapsed, new = time.perf_counter() - self.begin, done - self.before
        filled = _BAR * done // self.total
        bar = "#" * filled + "." * (_BAR - filled)
        pace = (
            f"{short(new / elapsed)} {self.unit}/s  {duration(elapsed * (self.total - done) / new)}"
            " left"
            if new
            else duration(elapsed)
        )
        body = f"[{bar}] {done / self.total:4.0%}  {pace}{also}"
        wide = len(self.label) + 2 + len(body) >= shutil.get_terminal_size().columns
        self._draw(body if wide else f"{self.label}  {body}")

    def _draw(self, text: str) -> None:
        if self.show:
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self.width) + ("" if text else "\r"))
            sys.stderr.flush()
            self.width = len(text)


@contextmanager
def waiting(label: str, *, show: bool | None = None) -> Iterator[None]:
    """The seconds so far, for work that has no measure of its own."""
    done = threading.Event()
    with Progress(1, unit="", show=show, label=label) as bar:
        clock = threading.Thread(target=_count_seconds, args=(bar, done), daemon=True)
        clock.start()
        try:
            yield
        finally:
            done.set()
            clock.join()


def _count_seconds(bar: Progress, done: threading.Event) -> None:
    while bar.show and not done.wait(_TICK_SECONDS):
        bar.note(duration(time.perf_counter() - bar.begin))


def short(rate: float) -> str:
    """A rate to two or three digits."""
    if rate < 100:
        return f"{rate:.1f}"
    return f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1e3:.1f} k"


def duration(seconds: float) -> str:
    """A time in its natural unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
