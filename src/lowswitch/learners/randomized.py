"""Staged-RandQL: samples of each estimate learn with random rates; a stage ends with the best."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import RandomizedStages
from lowswitch.algorithms.meetings import between_dates
from lowswitch.algorithms.schedules import Stages
from lowswitch.kernels.arrays import (
    CLOCK,
    KEYS,
    RANDOMIZED_CELL,
    ROW,
    RandomizedSpec,
    RandomizedTables,
)
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import ProblemSize, fresh_clock, learner_keys
from lowswitch.learners.rows import RowKnowledge, fresh_rows
from lowswitch.learners.schedule import timing_of, triggers_of


class RandomizedKnowledge(RowKnowledge):
    """The learners of `digest_randomized`."""

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        return cls(randomized_spec(algorithm, size), allowed)

    def fresh(self, seed: int) -> Self:
        other = super().fresh(seed)
        other.tables.keys[:] = learner_keys(seed)
        return other

    def _fresh_tables(self) -> RandomizedTables:
        """Optimism everywhere, in all samples too, and the lowest allowed action deployed."""
        spec = self.spec
        rows, cells = fresh_rows(spec, self.allowed, ROW, RANDOMIZED_CELL)
        samples = np.repeat(spec.caps, spec.S * spec.A * spec.samples)
        counter = np.zeros(1, dtype=np.uint64)
        return RandomizedTables(rows, cells, samples, np.zeros(1, KEYS), counter, fresh_clock())

    def undo_parts(self, rows: Any, cells: Any) -> dict[str, Any]:
        parts = super().undo_parts(rows, cells)
        if isinstance(cells, slice):
            return parts | {"samples": cells}
        J = self.spec.samples
        return parts | {"samples": (cells[:, None] * J + np.arange(J)).ravel()}

    def layout(self) -> dict[str, tuple[int, Any]]:
        H, S, A = self.allowed.shape
        return {
            "rows": ((H + 1) * S, ROW),
            "cells": (H * S * A, RANDOMIZED_CELL),
            "samples": (H * S * A * self.spec.samples, np.float64),
            "keys": (1, KEYS),
            "counter": (1, np.uint64),
            "clock": (1, CLOCK),
        }

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables = RandomizedTables(**arrays)
        return other

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        integrity.require_begins(cells)
        integrity.require_finite("samples", self.tables.samples)


def randomized_spec(algorithm: Algorithm, size: ProblemSize) -> RandomizedSpec:
    """The algorithm's numbers for one problem size."""
    estimator = algorithm.estimator
    if not isinstance(estimator, RandomizedStages):
        raise ValueError(f"{algorithm} has no random learning rates")
    H, S, A, K = size
    stages = between_dates(algorithm.schedule, Stages())
    every_until, later = triggers_of(stages, horizon=H, limit=K)
    return RandomizedSpec(
        H=H,
        S=S,
        A=A,
        caps=estimator.caps(H),
        samples=estimator.samples,
        kappa=estimator.kappa,
        prior=1.0 / S if estimator.prior == "states" else estimator.prior,
        every_until=every_until,
        later=later,
        timing=timing_of(algorithm.schedule, size, replans=False),
    )
