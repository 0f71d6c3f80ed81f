"""Long compiled work on threads, in pieces short enough to look up between them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

_PIECE_SECONDS = 0.1


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pace:
    """A piece size that grows until a piece takes about a tenth of a second; each piece runs inside
    `with pace`.
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
    """Run all works on so many threads, calling `look_up` now and then; an interrupt or an error
    sets the event that stops them.
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
