"""Stage-based Q-learning: an estimate changes at the end of a stage of its (h, x, a) only, and so
does its row.
"""

from __future__ import annotations

import numpy as np

from lowswitch.algorithms.parts import (
    Advantage,
    AdvantageBonus,
    Algorithm,
    Hoeffding,
    StageQLearning,
)
from lowswitch.kernels.arrays import STAGE_CELL, STAGE_ROW, StageRule, StageTables
from lowswitch.learners import Size
from lowswitch.learners.rows import Rows, fresh_rows
from lowswitch.learners.schedule import compile_pace, compile_triggers


class StagedRows(Rows):
    """The learners of `digest_stage`."""

    @classmethod
    def of(cls, algorithm: Algorithm, size: Size, allowed: np.ndarray) -> StagedRows:
        return cls(compile_stage_rule(algorithm, size), allowed)

    def _fresh_tables(self) -> StageTables:
        return fresh_stage_tables(self.rule, self.allowed)


def compile_stage_rule(algorithm: Algorithm, size: Size) -> StageRule:
    """The algorithm's numbers for one problem size."""
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not (
        isinstance(estimator, StageQLearning | Advantage)
        and isinstance(bonus, Hoeffding | AdvantageBonus)
    ):
        raise ValueError(f"{algorithm} is no stage-based learner")
    H, S, A, K = size
    every_until, later = compile_triggers(algorithm.schedule, horizon=H, limit=K)
    return StageRule(
        H=H,
        S=S,
        A=A,
        caps=estimator.caps(H),
        c=bonus.c,
        iota=algorithm.iota(**size._asdict()),
        reference=estimator.reference if isinstance(estimator, Advantage) else -1,
        every_until=every_until,
        later=later,
        pace=compile_pace(algorithm.schedule, horizon=H, states=S, episodes=K, replans=False),
    )


def fresh_stage_tables(rule: StageRule, allowed: np.ndarray) -> StageTables:
    """Optimism everywhere, the lowest allowed action deployed, and H for reference."""
    rows, cells = fresh_rows(rule, allowed, STAGE_ROW, STAGE_CELL)
    rows["reference"][: rule.H * rule.S] = rule.H
    return StageTables(
        rows, cells, loud=np.zeros(1, dtype=np.int64), clock=np.zeros(4, dtype=np.int64)
    )
