"""Beliefs about Bernoulli arms, numbered: the points of a simplex in lexicographic order."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np


class Simplex(NamedTuple):
    """Points with `dimensions` whole-number coordinates whose sum is at most `largest`."""

    leads: np.ndarray  # int32 [L, dimensions - 1]  all coordinates except the last
    bases: np.ndarray  # int64 [L]  the number of the lead's first point
    further: np.ndarray  # int64 [L, dimensions - 1]  the base after one more; -1 outside

    @classmethod
    def of(cls, largest: int, dimensions: int) -> Simplex:
        leads = _points(largest, dimensions - 1)
        rest = largest - leads.sum(axis=1)
        bases = np.cumsum(rest + 1) - (rest + 1)
        order, inside = _ranks(leads, largest), rest > 0
        further = np.full(leads.shape, -1, dtype=np.int64)
        for i in range(dimensions - 1):
            neighbours = leads[inside]
            neighbours[:, i] += 1
            further[inside, i] = bases[np.searchsorted(order, _ranks(neighbours, largest))]
        return cls(leads, bases, further)

    def at(self, level: int) -> Simplex:
        """The leads that have points up to a level."""
        inside = self.leads.sum(axis=1) <= level
        return Simplex(self.leads[inside], self.bases[inside], self.further[inside])

    def pieces(self, number: int) -> list[Simplex]:
        """The leads in several parts."""
        bounds = np.linspace(0, len(self.leads), number + 1).astype(int)
        return [Simplex(*(part[a:b] for part in self)) for a, b in itertools.pairwise(bounds)]


def points(largest: int, dimensions: int) -> int:
    """The number of points."""
    return math.comb(largest + dimensions, dimensions)


def _points(largest: int, dimensions: int) -> np.ndarray:
    """All points, in lexicographic order."""
    found = np.zeros((1, 0), dtype=np.int32)
    for _ in range(dimensions):
        room = largest - found.sum(axis=1) + 1
        before = np.repeat(found, room, axis=0)
        new = np.arange(len(before)) - np.repeat(np.cumsum(room) - room, room)
        found = np.concatenate([before, new[:, None].astype(np.int32)], axis=1)
    return found


def _ranks(leads: np.ndarray, largest: int) -> np.ndarray:
    """A number for each lead that grows in lexicographic order."""
    rank = np.zeros(len(leads), dtype=np.int64)
    for column in leads.T:
        rank = rank * (largest + 2) + column
    return rank
