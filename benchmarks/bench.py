"""What benchmarks share: options, the clock, the setting in words, and files of results."""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from multiprocessing import context, get_context
from pathlib import Path
from typing import Any

import numpy as np

import lowswitch as ls


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options of a benchmark, which says what it is; --json is there."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", metavar="FILE", type=Path, help="write all numbers to a file")
    return made


def described(*more: str) -> str:
    """When and with what something was measured."""
    machine = f"on {os.cpu_count()} cores, {platform.machine()}"
    with_ = f"lowswitch {ls.__version__} with Python {platform.python_version()}"
    return ", ".join((f"{date.today():%-d %B %Y}", *more, f"{with_} {machine}"))


def load_before() -> str:
    """How busy the machine was, in words."""
    return f"a load of {os.getloadavg()[0]:.1f} before it"


# ---- the clock -----------------------------------------------------------------------------------


def seconds(work: Callable[[], Any]) -> float:
    """How long some work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleaved(rounds: int, *works: Callable[[], Any]) -> np.ndarray:  # [works, rounds]
    """Seconds of each, all once a round, after a round that does not count."""
    return np.array([[seconds(work) for work in works] for _ in range(rounds + 1)])[1:].T


# ---- results -------------------------------------------------------------------------------------


def read(path: Path | None) -> Any:
    """The results that a file has; none without a file."""
    known = path is not None and path.exists()
    return json.loads(path.read_text(encoding="utf-8")) if known else {}


def write(path: Path | None, results: Any) -> None:
    """Write results to a file, if one is named."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


class Results:
    """Results by their names, beside those that a file has; written as soon as one is known."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.found = path, read(path)

    def keep(self, name: str, found: Any) -> None:
        self.found[name] = found
        print(name, found, flush=True)
        write(self.path, self.found)


# ---- work in processes ---------------------------------------------------------------------------


def finish(
    path: Path, work: Callable[[str], Any], units: Sequence[str], minutes: float, workers: int
) -> dict[str, Any]:
    """What `work` finds for each unit, by name; the file keeps it, and the same call resumes.

    Units that are not finished in time are missing.
    """
    until, known = time.monotonic() + 60 * minutes, read(path)
    left = [unit for unit in units if unit not in known]
    with get_context("fork").Pool(workers) as pool:
        coming = pool.imap_unordered(partial(_named, work), left)
        try:
            for done in range(len(left)):
                name, known[name] = coming.next(max(0.0, until - time.monotonic()))
                if done % 20 == 0:
                    path.write_text(json.dumps(known) + "\n", encoding="utf-8")
        except context.TimeoutError:
            pass
    path.write_text(json.dumps(known) + "\n", encoding="utf-8")
    print(f"{sum(unit in known for unit in units)} of {len(units)} are finished", flush=True)
    return known


def _named(work: Callable[[str], Any], unit: str) -> tuple[str, Any]:
    return unit, work(unit)
