"""Mixtures of Q-learners: all learn from every episode, whoever played it, each with its own scale
of the bonus.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.algorithms.parts import Algorithm, QLearning
from lowswitch.kernels.arrays import MOMENTS, STEP, MixtureRule, MixtureTables
from lowswitch.kernels.streams import MEMBERS, SAMPLES, learner_stream
from lowswitch.learners import Size
from lowswitch.learners.proposing import Proposing
from lowswitch.learners.rows import Rows, count_triggers
from lowswitch.learners.stages import StagedRows


class MixedRows(Proposing):
    """The learners of `learn_path`."""

    tables: MixtureTables

    def __init__(self, rule: MixtureRule, one: Rows) -> None:
        self.rule, self.members = rule, rule.members
        self.one = one  # a learner that is not mixed

    @classmethod
    def of(cls, algorithm: Algorithm, size: Size, allowed: np.ndarray) -> MixedRows:
        one = (Rows if isinstance(algorithm.estimator, QLearning) else StagedRows).of(
            algorithm, size, allowed
        )
        rule = MixtureRule(
            H=size.horizon,
            S=size.states,
            A=size.actions,
            members=algorithm.members,
            scales=np.array(algorithm.scales),
            whole=not algorithm.schedule.by_row,
            each=one.rule,
            pace=one.rule.pace,
        )
        return cls(rule, one)

    def fresh(self, seed: int) -> MixedRows:
        other = type(self)(self.rule, self.one)
        other.tables = fresh_mixture_tables(self.rule, self.one.fresh(seed), seed)
        return other

    def q(self) -> np.ndarray:
        return self._by_cell("q")

    def visits(self) -> np.ndarray:
        return self._by_cell("visits")

    def _by_cell(self, name: str) -> np.ndarray:
        H, S, A = self.rule.H, self.rule.S, self.rule.A
        table: np.ndarray = self.tables.cells[name][: H * S * A].reshape(H, S, A).copy()
        return table

    def values(self) -> np.ndarray:
        rows = self.tables.rows[: (self.rule.H + 1) * self.rule.S]
        table: np.ndarray = rows["value"].reshape(self.rule.H + 1, self.rule.S).copy()
        return table

    def triggers(self) -> int:
        if self.rule.whole:
            return int(self.tables.clock[3])
        return count_triggers(self.rule.each, self.visits())


def fresh_mixture_tables(rule: MixtureRule, one: Rows, seed: int) -> MixtureTables:
    """Each member as optimistic as one that is alone, and the lowest allowed action deployed by
    all.
    """
    L, unused, tables = rule.members, rule.S * rule.A, one.tables
    policy = np.tile(one.policies().reshape(-1), L)
    moments: Any = getattr(tables, "moments", np.zeros(0, dtype=MOMENTS))
    return MixtureTables(
        policy=policy,
        proposal=policy.copy(),
        rows=np.tile(tables.rows, L),
        cells=np.tile(np.append(tables.cells, np.zeros(unused, dtype=tables.cells.dtype)), L),
        moments=np.tile(
            np.append(moments, np.zeros(unused if len(moments) else 0, dtype=MOMENTS)), L
        ),
        loud=np.zeros(1, dtype=np.int64),
        path=np.zeros(rule.H, dtype=STEP),
        clock=np.zeros(6, dtype=np.int64),
        keys=np.array(
            [learner_stream(seed, SAMPLES), learner_stream(seed, MEMBERS)], dtype=np.uint64
        ),
        tally=np.zeros(rule.A, dtype=np.int64),
    )
