"""Mixtures of Q-learners: all learn from every episode, each with its own scale of the bonus."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.parts import QLearning
from lowswitch.kernels.arrays import KEYS, MOMENTS, STEP_PLAYED, MixtureSpec, MixtureTables
from lowswitch.kernels.streams import MEMBERS, SAMPLES, learner_stream
from lowswitch.learners.knowledge import Knowledge, ProblemSize, fresh_clock
from lowswitch.learners.rows import RowKnowledge, count_triggers
from lowswitch.learners.stages import StageKnowledge
from lowswitch.policy import TablePolicy


class MixtureKnowledge(RowKnowledge):
    """The learners of `learn_together`; estimates, values and visits are those of the first."""

    tables: MixtureTables
    undo = Knowledge.undo

    def __init__(self, spec: MixtureSpec, one: RowKnowledge) -> None:
        super().__init__(spec, one.allowed)
        self.members, self.one = spec.members, one  # one: a learner that is not mixed

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        by_visits = isinstance(algorithm.estimator, QLearning)
        one = (RowKnowledge if by_visits else StageKnowledge).of(algorithm, size, allowed)
        spec = MixtureSpec(
            H=size.horizon,
            S=size.states,
            A=size.actions,
            members=algorithm.members,
            scales=np.array(algorithm.scales),
            whole=not algorithm.schedule.by_row,
            each=one.spec,
            timing=one.spec.timing,
        )
        return cls(spec, one)

    def fresh(self, seed: int) -> Self:
        other = type(self)(self.spec, self.one)
        other.tables = fresh_mixture_tables(self.spec, self.one.fresh(seed), seed)
        return other

    def begin_with(self, policy: np.ndarray) -> None:
        members, unused = self.spec.members, self.spec.S
        rows = self.tables.rows["action"].reshape(members, policy.size + unused)
        rows[:, : policy.size] = policy.reshape(-1)
        for deployed in (self.tables.policy, self.tables.wanted):
            deployed[:] = np.tile(policy.reshape(-1), members)

    @property
    def stops_midway(self) -> bool:
        """Where all rows may change, a log for all episodes of a round would be too large."""
        return bool(self.spec.whole)

    def policy(self) -> TablePolicy:
        return deployed_mixture(self)

    def triggers(self) -> int:
        if self.spec.whole:
            return int(self.tables.clock[0]["refreshes"])
        return count_triggers(self.spec.each, self.visits())


def fresh_mixture_tables(spec: MixtureSpec, one: RowKnowledge, seed: int) -> MixtureTables:
    """Each member as optimistic as one alone, and the lowest allowed action deployed by all."""
    L, unused, tables = spec.members, spec.S * spec.A, one.tables
    policy = np.tile(one.policy().actions.reshape(-1), L)
    moments: Any = getattr(tables, "moments", np.zeros(0, dtype=MOMENTS))
    padding = np.zeros(unused if len(moments) else 0, dtype=MOMENTS)
    return MixtureTables(
        policy=policy,
        wanted=policy.copy(),
        rows=np.tile(tables.rows, L),
        cells=np.tile(np.append(tables.cells, np.zeros(unused, dtype=tables.cells.dtype)), L),
        moments=np.tile(np.append(moments, padding), L),
        path=np.zeros(spec.H, dtype=STEP_PLAYED),
        clock=fresh_clock(),
        keys=learner_keys(seed),
        tally=np.zeros(spec.A, dtype=np.int64),
    )


def learner_keys(seed: int) -> np.ndarray:
    """The noise streams of a learner's own draws."""
    return np.array([(learner_stream(seed, SAMPLES), learner_stream(seed, MEMBERS))], dtype=KEYS)


def deployed_mixture(knowledge: Knowledge) -> TablePolicy:
    """What is deployed, of a learner that keeps its policies apart from its estimates."""
    spec, tables = knowledge.spec, knowledge.tables
    actions = tables.policy.reshape(spec.members, spec.H, spec.S).copy()
    return TablePolicy(actions, tables.keys[0]["members"])
