"""Batches, whose contents are chosen when they begin; their lengths adapt, or dates are fixed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from lowswitch.show.progress import Progress


class BatchProblem(Protocol):
    """A problem whose batches can be valued."""

    episodes: int

    def none_left(self, level: int) -> np.ndarray: ...

    def batches(
        self, values: np.ndarray, end: int, until: int
    ) -> Iterator[tuple[int, np.ndarray]]: ...


def adaptive(problem: BatchProblem, changes: int, bar: Progress) -> np.ndarray:  # [N + 1]
    """Values for each number of changes if the length of a batch is chosen when it begins."""
    T = problem.episodes
    values = {T: problem.none_left(T)}
    best = []
    for left in range(changes + 1):
        new = {T: values[T]} if left else {T: problem.none_left(T)}
        for end in range(T, 0, -1) if left else [T]:
            for begin, found in problem.batches(values[end], end, 0):
                new[begin] = np.maximum(new.get(begin, found), found)
            bar.update(left * T + T - end + 1)
        values = new
        best.append(values[0][0])
    return np.array(best)


class FixedDates:
    """Values of dates fixed in advance; values after a date are computed once."""

    def __init__(self, problem: BatchProblem) -> None:
        self._problem = problem
        self._after: dict[tuple[int, ...], np.ndarray] = {}

    def value(self, dates: Sequence[int]) -> float:
        """The value if a batch ends on each of these dates, and the last one with the run."""
        end = self._problem.episodes
        values = self._problem.none_left(end)
        ends = [0, *dates]
        for i in reversed(range(len(ends))):
            known = tuple(ends[i:])
            if known not in self._after:
                self._after[known] = dict(self._problem.batches(values, end, ends[i]))[ends[i]]
            values, end = self._after[known], ends[i]
        return float(values[0])

    def best(self, changes: int) -> tuple[tuple[int, ...], float]:
        """Good dates: start from geometric ones, and move one date at a time while that helps."""
        dates = _geometric(self._problem.episodes, changes)
        value, improved = self.value(dates), True
        while improved:
            improved = False
            for tried in _moved(dates, self._problem.episodes):
                if (found := self.value(tried)) > value + 1e-12:
                    dates, value, improved = tried, found, True
                    break
        return dates, value


def _moved(dates: tuple[int, ...], last: int) -> Iterator[tuple[int, ...]]:
    """The dates with one of them moved anywhere else."""
    for i in range(len(dates)):
        low = dates[i - 1] + 1 if i else 1
        high = dates[i + 1] if i + 1 < len(dates) else last
        for date in range(low, high):
            yield (*dates[:i], date, *dates[i + 1 :])


def _geometric(episodes: int, changes: int) -> tuple[int, ...]:
    """Dates that grow by a constant factor, as far as whole numbers allow."""
    dates: list[int] = []
    for i in range(1, changes + 1):
        wanted = math.floor(episodes ** (i / (changes + 1)))
        least = dates[-1] + 1 if dates else 1
        dates.append(min(max(wanted, least), episodes - 1 - changes + i))
    return tuple(dates)
