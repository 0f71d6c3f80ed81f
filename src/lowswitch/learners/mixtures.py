"""Mixtures of Q-learners: all learn from every episode, each with its own scale of the bonus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import QLearning
from lowswitch.kernels.arrays import CLOCK, KEYS, MOMENTS, STEP_PLAYED, MixtureSpec, MixtureTables
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import Knowledge, ProblemSize, fresh_clock, learner_keys
from lowswitch.learners.rows import RowKnowledge, count_triggers
from lowswitch.learners.stages import StageKnowledge
from lowswitch.policy.tables import TablePolicy


class MixtureKnowledge(RowKnowledge):
    """The learners of `learn_together`; the first one gives estimates, values and visits."""

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
        self.require_room()
        other = type(self)(self.spec, self.one)
        other.tables = fresh_mixture_tables(self.spec, self.one.fresh(seed), seed)
        return other

    def set_numbers(self, numbers: dict[str, Any]) -> None:
        super().set_numbers(numbers)
        self.one.spec = self.spec.each

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

    # ---- the gate --------------------------------------------------------------------------------

    def _places(self, step: int, state: int) -> list[int]:
        H, S = self.spec.H, self.spec.S
        return [(m * (H + 1) + step) * S + state for m in range(self.members)]

    def _deployed(self, step: int, state: int) -> np.ndarray:
        """The deployed policies, not the ones that the members would play."""
        return self.policy().actions[:, step, state]

    def want(self, step: int, state: int, actions: Sequence[int]) -> None:
        spec = self.spec
        self.tables.wanted.reshape(spec.members, spec.H, spec.S)[:, step, state] = actions
        self.tables.rows["action"][self._places(step, state)] = actions
        super().want(step, state, actions)

    def hold(self, step: int, state: int) -> None:
        self.tables.rows["action"][self._places(step, state)] = self._deployed(step, state)
        super().hold(step, state)

    @property
    def _by_row(self) -> bool:
        return not self.spec.whole

    @property
    def spec_of_one(self) -> Any:
        return self.spec.each

    @property
    def whole_spec(self) -> Any:
        return self.spec._replace(whole=True)

    # ---- knowledge -------------------------------------------------------------------------------

    def policy(self) -> TablePolicy:
        return deployed_mixture(self)

    def layout(self) -> dict[str, tuple[int, Any]]:
        (H, S, A), L = self.allowed.shape, self.members
        one, none = self.one.layout(), (0, MOMENTS)
        padded = {"rows": 0, "cells": S * A, "moments": S * A}
        members = {}
        for name, more in padded.items():
            size, kind = one.get(name, none)
            members[name] = (L * (size + more) if size else 0), kind
        policies = dict.fromkeys(("policy", "wanted"), (L * H * S, np.int64))
        rest = {"path": (H, STEP_PLAYED), "clock": (1, CLOCK), "keys": (1, KEYS)}
        return policies | members | rest | {"tally": (A, np.int64)}

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.one)
        other.tables = MixtureTables(**arrays)
        return other

    def require_whole(self, told: int | None) -> None:
        (H, S, A), L, tables = self.allowed.shape, self.members, self.tables
        frozen = integrity.is_frozen(self.spec, tables.clock)
        integrity.require_clock(self.spec, tables.clock, told, L)
        for name in ("policy", "wanted"):
            policies = getattr(tables, name).reshape(L, H, S)
            integrity.require_actions(name, policies, self.allowed, told)
        rows = tables.rows.reshape(L, H + 1, S)
        cells = tables.cells.reshape(L, H + 1, S, A)[:, :-1]
        each = self.spec.each._replace(timing=self.spec.timing)
        integrity.require_rows(each, rows, cells, self.allowed, told)
        if told is not None:
            integrity.require_due(each, cells, frozen)
        if isinstance(self.one, StageKnowledge):
            integrity.require_stages(each, rows, cells)
        integrity.require_moments(tables.moments)
        path = tables.path
        integrity.require((path["state"] >= 0) & (path["state"] < S), "its path has no states")
        integrity.require((path["action"] >= 0) & (path["action"] < A), "its path has no actions")
        integrity.require_finite("rewards of its path", path["reward"])
        integrity.require(tables.tally == 0, "its tally is not zero")

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


def deployed_mixture(knowledge: Knowledge) -> TablePolicy:
    """The deployed policies of a learner that stores them apart from its estimates."""
    spec, tables = knowledge.spec, knowledge.tables
    actions = tables.policy.reshape(spec.members, spec.H, spec.S).copy()
    return TablePolicy(actions, tables.keys[0]["members"], has_protocol=knowledge.has_protocol)
