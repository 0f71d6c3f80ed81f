"""Q-EarlySettled-Advantage: Q-learning with upper and lower values, and references between them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import EarlySettled, EarlySettledBonus
from lowswitch.kernels.arrays import CLOCK, SETTLED_CELL, SETTLED_ROW, SettledSpec, SettledTables
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import ProblemSize, fresh_clock
from lowswitch.learners.rows import RowKnowledge, fresh_rows
from lowswitch.learners.schedule import timing_of, triggers_of


class SettledKnowledge(RowKnowledge):
    """The learners of `digest_settled`."""

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        return cls(settled_spec(algorithm, size), allowed)

    def _fresh_tables(self) -> SettledTables:
        """Optimism everywhere, the lowest allowed action deployed, and lower values of 0."""
        rows, cells = fresh_rows(self.spec, self.allowed, SETTLED_ROW, SETTLED_CELL)
        rows["reference"] = rows["value"]
        caps = np.repeat(self.spec.caps, self.spec.S * self.spec.A)
        cells["upper"] = cells["by_reference"] = caps
        return SettledTables(rows, cells, fresh_clock())

    def layout(self) -> dict[str, tuple[int, Any]]:
        H, S, A = self.allowed.shape
        rows, cells = ((H + 1) * S, SETTLED_ROW), (H * S * A, SETTLED_CELL)
        return {"rows": rows, "cells": cells, "clock": (1, CLOCK)}

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables = SettledTables(**arrays)
        return other

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        names = [name for name in SETTLED_CELL.names or () if name != "q"]
        integrity.require_finite("estimates", *(cells[name] for name in names))
        integrity.require_finite("values", rows["reference"], rows["lower"])
        ends = (rows["lower"][-1] == 0) & (rows["reference"][-1] == 0)
        integrity.require(ends, "values after the last step are not zero")


def settled_spec(algorithm: Algorithm, size: ProblemSize) -> SettledSpec:
    """The algorithm's numbers for one problem size."""
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not (isinstance(estimator, EarlySettled) and isinstance(bonus, EarlySettledBonus)):
        raise ValueError(f"{algorithm} settles no references")
    H, S, A, K = size
    iota = algorithm.iota(**size._asdict())
    every_until, later = triggers_of(algorithm.schedule, horizon=H, limit=K)
    return SettledSpec(
        H=H,
        S=S,
        A=A,
        caps=estimator.caps(H),
        c=bonus.c,
        iota=iota,
        hoeffding_scale=H**3 * iota,
        settle=estimator.settle,
        every_until=every_until,
        later=later,
        timing=timing_of(algorithm.schedule, size, replans=False),
    )
