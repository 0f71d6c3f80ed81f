"""Stage-based Q-learning: an estimate, and so its row, changes only when a stage of it ends."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import Advantage, AdvantageBonus, Hoeffding, StageQLearning
from lowswitch.algorithms.meetings import between_dates
from lowswitch.algorithms.schedules import Stages
from lowswitch.kernels.arrays import (
    CLOCK,
    SETTLING_STAGE_CELL,
    SETTLING_STAGE_ROW,
    STAGE_CELL,
    STAGE_ROW,
    SettlingStageSpec,
    StageSpec,
    StageTables,
)
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import ProblemSize, fresh_clock
from lowswitch.learners.rows import RowKnowledge, fresh_rows
from lowswitch.learners.schedule import timing_of, triggers_of


class StageKnowledge(RowKnowledge):
    """The learners of `digest_stage`."""

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        return cls(stage_spec(algorithm, size), allowed)

    def _fresh_tables(self) -> StageTables:
        """Optimism everywhere, the lowest allowed action deployed, and H for reference, or the
        first value if it settles.
        """
        rows, cells = fresh_rows(self.spec, self.allowed, *self._kinds)
        settles = self.spec.reference == 0
        rows["reference"] = (
            rows["value"] if settles else np.where(rows["value"] > 0, self.spec.H, 0)
        )
        return StageTables(rows, cells, fresh_clock())

    @property
    def _kinds(self) -> tuple[np.dtype, np.dtype]:
        """Of its rows and its cells."""
        settles = self.spec.reference == 0
        return (SETTLING_STAGE_ROW, SETTLING_STAGE_CELL) if settles else (STAGE_ROW, STAGE_CELL)

    def layout(self) -> dict[str, tuple[int, Any]]:
        (H, S, A), (row, cell) = self.allowed.shape, self._kinds
        return {"rows": ((H + 1) * S, row), "cells": (H * S * A, cell), "clock": (1, CLOCK)}

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables = StageTables(**arrays)
        return other

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        integrity.require_stages(self.spec, rows, cells)


def stage_spec(algorithm: Algorithm, size: ProblemSize) -> StageSpec | SettlingStageSpec:
    """The algorithm's numbers for one problem size."""
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not (
        isinstance(estimator, StageQLearning | Advantage)
        and isinstance(bonus, Hoeffding | AdvantageBonus)
    ):
        raise ValueError(f"{algorithm} is not a stage-based learner")
    H, S, A, K = size
    stages = between_dates(algorithm.schedule, Stages())
    every_until, later = triggers_of(stages, horizon=H, limit=K)
    numbers: dict[str, Any] = {
        "H": H,
        "S": S,
        "A": A,
        "caps": estimator.caps(H),
        "c": bonus.c,
        "iota": algorithm.iota(**size._asdict()),
        "reference": estimator.fixed_at if isinstance(estimator, Advantage) else -1,
        "every_until": every_until,
        "later": later,
        "timing": timing_of(algorithm.schedule, size, replans=False),
    }
    if isinstance(estimator, Advantage) and estimator.fixed_at == 0:
        return SettlingStageSpec(**numbers, settle=estimator.settle)
    return StageSpec(**numbers)
