"""Multilinear interpolation on a grid, and value iteration on it."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import numbers, require_count, require_memory

MOST_DIMENSIONS = 4


class Axes(NamedTuple):
    """A box with equally spaced points in each dimension; a periodic one ends where it began."""

    low: np.ndarray  # [D]
    high: np.ndarray  # [D]
    points: tuple[int, ...]
    periodic: tuple[bool, ...]

    @classmethod
    def of(cls, bounds: Any, points: Any, periodic: Any = None) -> Axes:
        """The box of bounds [D, 2]; points: in each dimension, or a number for each of them."""
        box = numbers("bounds", bounds)
        if box.ndim != 2 or box.shape[1] != 2 or not 1 <= len(box) <= MOST_DIMENSIONS:
            raise ValueError(
                f"bounds must be (low, high) for each of one to {MOST_DIMENSIONS} numbers of a"
                f" state, not of shape {box.shape}; a grid in more dimensions would be too large"
            )
        bad = np.flatnonzero(~(np.isfinite(box).all(axis=1) & (box[:, 0] < box[:, 1])))
        if len(bad):
            low, high = box[bad[0]]
            raise ValueError(
                f"bounds must be finite with low < high, and those of number {bad[0]} are"
                f" ({low:g}, {high:g}); for a speed that an environment leaves open, give the"
                " largest one that is plausible"
            )
        given = [points] * len(box) if np.ndim(points) == 0 else list(points)
        sizes = tuple(require_count("points", size, least=2) for size in given)
        wrapped = (False,) * len(box) if periodic is None else tuple(map(bool, periodic))
        if len(sizes) != len(box) or len(wrapped) != len(box):
            raise ValueError(f"points and periodic must have {len(box)} entries, as bounds have")
        return cls(box[:, 0].copy(), box[:, 1].copy(), sizes, wrapped)

    @property
    def size(self) -> int:
        """How many points there are."""
        return math.prod(self.points)

    def require_room(self, actions: int) -> None:
        """A plan for so many actions fits into memory: its interpolation, twice in between."""
        need = 2 * 24 * actions * self.size * 2 ** len(self.points)
        require_memory(need, f"plans on a grid of {self.size:,} points", "use fewer points")

    def nodes(self) -> np.ndarray:  # [size, D]
        """All points, the last dimension counting fastest."""
        lines = [
            np.linspace(low, high, n, endpoint=not wraps)
            for low, high, n, wraps in zip(*self, strict=True)
        ]
        mesh = np.meshgrid(*lines, indexing="ij")
        return np.stack([axis.reshape(-1) for axis in mesh], axis=1)

    def unit(self, states: np.ndarray) -> np.ndarray:  # [n, D]
        """States with the box as [-1, 1] in each dimension."""
        scaled: np.ndarray = 2.0 * (states - self.low) / (self.high - self.low) - 1.0
        return scaled

    def corners(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points around each state [n, 2^D] and their weights, which sum to 1.

        A state outside of the box is taken at its edge.
        """
        below, share = [], []
        for i, (n, wraps) in enumerate(zip(self.points, self.periodic, strict=True)):
            place = (states[:, i] - self.low[i]) / (self.high[i] - self.low[i])
            place = place * n if wraps else np.clip(place, 0.0, 1.0) * (n - 1)
            floor = np.floor(place) if wraps else np.minimum(np.floor(place), n - 2)
            below.append(floor.astype(np.int64))
            share.append(place - floor)
        index = np.zeros((len(states), 2 ** len(self.points)), dtype=np.int64)
        weight = np.ones(index.shape)
        for c, corner in enumerate(itertools.product((0, 1), repeat=len(self.points))):
            for i, up in enumerate(corner):
                at = below[i] + up
                at = at % self.points[i] if self.periodic[i] else at
                index[:, c] = index[:, c] * self.points[i] + at
                weight[:, c] *= share[i] if up else 1.0 - share[i]
        return index, weight


def interpolation(axes: Axes, states: np.ndarray, alive: np.ndarray) -> Any:
    """The sparse matrix [n, size] that takes values at the points to values at states [n, D].

    Where nothing is alive there is no value. It is an averager, so that value iteration with it
    converges (Gordon 1995).
    """
    from scipy.sparse import csr_array

    n, corners = len(states), 2 ** len(axes.points)
    index, weight = axes.corners(states)
    weight = weight * alive[:, None]
    offsets = np.arange(n + 1) * corners
    return csr_array((weight.reshape(-1), index.reshape(-1), offsets), shape=(n, axes.size))


def iterate(
    rewards: np.ndarray, ahead: Any, *, discount: float, sweeps: int, tolerance: float
) -> np.ndarray:  # [A, size]
    """Q on the points after value iteration; rewards [A, size], `ahead` as many rows by columns.

    It ends when no value has changed by more than the tolerance, or after so many sweeps.
    """
    A, size = rewards.shape
    value = np.zeros(size)
    q = rewards.copy()
    for _ in range(sweeps):
        q = rewards + discount * (ahead @ value).reshape(A, size)
        better = q.max(axis=0)
        change = float(np.abs(better - value).max())
        value = better
        if change <= tolerance:
            break
    return q
