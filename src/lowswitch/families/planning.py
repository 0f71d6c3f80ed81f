"""Planners: counts of everything seen, and backward induction on them, optimistic or on samples of a posterior."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from lowswitch.arrays import PLANNED, RECORD, SUCCESSOR, PlanRule, PlanTables
from lowswitch.families import Size, take_over
from lowswitch.families.pace import compile_pace, compile_triggers, first_due
from lowswitch.parts import (
    Algorithm,
    BernsteinFreedman,
    ChernoffHoeffding,
    L1Ball,
    MonotonicBernstein,
    NoBonus,
    Planning,
    Posterior,
    Unknown,
)
from lowswitch.streams import MEMBERS, SAMPLES, learner_stream


class Planner:
    """The learners of `note_visit` and `plan_and_deploy`."""

    tables: PlanTables

    def __init__(self, rule: PlanRule, allowed: np.ndarray) -> None:
        self.rule, self.allowed, self.members = rule, allowed, rule.members

    @classmethod
    def of(cls, algorithm: Algorithm, size: Size, allowed: np.ndarray) -> Planner:
        return cls(compile_plan_rule(algorithm, size, allowed), allowed)

    def fresh(self, seed: int) -> Planner:
        other = type(self)(self.rule, self.allowed)
        other.tables = fresh_plan_tables(self.rule, self.allowed, seed)
        return other

    def kernel(self) -> Any:
        from lowswitch import kernels

        return kernels.simulate_planned

    def play(self, model: Any, evaluation: Any, log: Any, account: Any, key: np.uint64, first: int, last: int) -> int:
        done = first
        while done < last:
            self._make_room(self.rule.spare)
            done = int(self.kernel()(self.rule, self.tables, model, evaluation, log, account, key, done, last))
            if log.keep:
                break
        return done

    def learn(
        self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, off_policy: bool, cut: int, first: int, changes: np.ndarray
    ) -> tuple[int, int, int]:
        from lowswitch import kernels

        used = done = 0
        while True:
            self._make_room(self.rule.spare)
            rest, plans = (states[done:], actions[done:], rewards[done:]), int(self.tables.clock[3])
            logged, learned, step = kernels.note_batch(self.rule, self.tables, *rest, off_policy, cut, first + done, changes[used:])
            used, done = used + logged, done + learned
            if step >= 0 or done == len(states) or kernels.is_cut(cut, self.tables.clock[3] > plans, logged):
                return used, done, step

    def _make_room(self, entries: int) -> None:
        """Let the pool grow by half where it might not hold so many entries more."""
        pool, used = self.tables.pool, int(self.tables.clock[4])
        if used + entries > len(pool):
            larger = max(used + entries, len(pool) * 3 // 2)
            require_memory(larger * SUCCESSOR.itemsize, f"the {used:,} successors counted so far and those of the next episodes")
            grown = np.zeros(larger, dtype=SUCCESSOR)
            grown[:used] = pool[:used]
            self.tables = self.tables._replace(pool=grown)

    def undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        before = PlanTables(*(array.copy() for array in self.tables))

        def put_back() -> None:
            self.tables = before

        return put_back

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        pool = arrays["pool"]
        if pool.ndim == 1 and pool.dtype == SUCCESSOR:
            self.tables = self.tables._replace(pool=pool.copy())
        take_over(self.tables, arrays)
        records = np.concatenate([self.tables.records, self.tables.fresh])
        if not (0 <= self.tables.clock[4] <= len(pool) and (records["start"] + records["room"] <= len(pool)).all()):
            raise ValueError("its successors lie outside their pool")

    def policies(self) -> np.ndarray:
        return self.tables.policy.reshape(self.members, self.rule.H, self.rule.S).copy()

    def drawn(self, episodes: np.ndarray) -> np.ndarray:
        from lowswitch import kernels

        members = np.zeros(len(episodes), dtype=np.int64)
        if self.members > 1:
            kernels.fill_members(self.rule, self.tables, episodes, members)
        return members

    def q(self) -> np.ndarray:
        return self.tables.q.reshape(self.rule.H, self.rule.S, self.rule.A).copy()

    def values(self) -> np.ndarray:
        return self.tables.values.reshape(self.rule.H + 1, self.rule.S).copy()

    def visits(self) -> np.ndarray:
        return self.tables.visits.reshape(self.rule.H, self.rule.S, self.rule.A).copy()

    def triggers(self) -> int:
        """How many plans were made."""
        return int(self.tables.clock[3])


def compile_plan_rule(algorithm: Algorithm, size: Size, allowed: np.ndarray) -> PlanRule:
    """The algorithm's numbers for one problem size."""
    from lowswitch import kernels

    H, S, A, K = size
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not isinstance(estimator, Planning | Posterior):
        raise ValueError(f"{algorithm} is no planner")
    if estimator.pooled and K * H >= 2**31:
        raise ValueError(
            f"pooled counts hold fewer than {2**31:,} steps, not {K:,} episodes of {H}; leave pooled out or play fewer episodes"
        )
    kinds = {
        ChernoffHoeffding: (kernels.CHERNOFF, math.log(5 * S * A * K * H / algorithm.p)),
        BernsteinFreedman: (kernels.FREEDMAN, math.log(5 * S * A * K * H / algorithm.p)),
        MonotonicBernstein: (kernels.MONOTONIC, math.log(200 * S * A * H**2 * K**2 / algorithm.p)),
        L1Ball: (kernels.L1_BALL, math.log(2 * S * A * K * H / algorithm.p)),
        Unknown: (kernels.UNKNOWN, 0.0),
        NoBonus: (kernels.SAMPLED, 0.0),
    }
    kind, log = kinds[type(bonus)]
    planning = estimator if isinstance(estimator, Planning) else Planning(clip="remaining", pooled=estimator.pooled)
    every_until, later = compile_triggers(algorithm.schedule, horizon=H, limit=K * H if estimator.pooled else K)
    return PlanRule(
        H=H,
        S=S,
        A=A,
        stride=0 if estimator.pooled else S * A,
        allowed=allowed.reshape(-1),
        caps=planning.caps(H),
        kind=kind,
        data={"current": kernels.CURRENT, "all": kernels.ALL, "newest": kernels.NEWEST}[planning.data],
        monotone=planning.monotone,
        c=float(getattr(bonus, "c", 1.0)),
        log=log,
        law_log=math.log(2 * A * K * H / algorithm.p),
        known=bonus.known if isinstance(bonus, Unknown) else 0,
        prior=estimator.prior if isinstance(estimator, Posterior) else 0.0,
        told=isinstance(estimator, Posterior) and estimator.rewards == "mean",
        members=estimator.members if isinstance(estimator, Posterior) else 1,
        spare=H * S if planning.data == "current" else 2 * H * S,
        every_until=every_until,
        later=later,
        pace=compile_pace(algorithm.schedule, horizon=H, states=S, episodes=K, replans=True),
    )


def fresh_plan_tables(rule: PlanRule, allowed: np.ndarray, seed: int) -> PlanTables:
    """Nothing counted, optimism everywhere, and the lowest allowed action deployed by every member."""
    from lowswitch import kernels

    entries, cells = rule.H * rule.S * rule.A, (rule.H if rule.stride else 1) * rule.S * rule.A
    late = cells if rule.data != kernels.CURRENT else 0
    policies = rule.members * rule.H * rule.S
    need = entries * 18 + cells * (PLANNED.itemsize + RECORD.itemsize + 1) + late * RECORD.itemsize + policies * 16
    require_memory(need + rule.spare * SUCCESSOR.itemsize, f"counts of H = {rule.H}, S = {rule.S}, A = {rule.A}")
    caps = np.broadcast_to(rule.caps[:, None, None], allowed.shape)
    planned = np.zeros(cells, dtype=PLANNED)
    planned["due"] = first_due(rule.every_until, rule.later, rule.pace)
    values = np.zeros((rule.H + 1) * rule.S)
    values[: rule.H * rule.S] = caps[..., 0].reshape(-1)
    policy = np.tile(allowed.argmax(axis=-1).reshape(-1), rule.members)
    return PlanTables(
        policy=policy,
        q=np.where(allowed, caps, -np.inf).reshape(-1),
        values=values,
        visits=np.zeros(entries, dtype=np.int64),
        drowned=np.zeros(entries, dtype=bool),
        cells=planned,
        records=np.zeros(cells, dtype=RECORD),
        fresh=np.zeros(late, dtype=RECORD),
        dirty=np.zeros(cells, dtype=bool),
        pool=np.zeros(rule.spare, dtype=SUCCESSOR),
        loud=np.zeros(1, dtype=np.int64),
        clock=np.zeros(5, dtype=np.int64),
        keys=np.array([learner_stream(seed, SAMPLES), learner_stream(seed, MEMBERS)], dtype=np.uint64),
        counter=np.zeros(1, dtype=np.uint64),
        proposal=policy.copy(),
        order=np.arange(rule.S),
        scratch=np.zeros(rule.S),
        tally=np.zeros(rule.A, dtype=np.int64),
    )


def require_memory(need: int, what: str) -> None:
    """Say before it is allocated that something does not fit."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    if need > have:
        raise ValueError(
            f"{what} need {need / 2**30:,.1f} GiB, and this machine has {have / 2**30:,.1f}; "
            "use a smaller problem, pooled=True where it is stationary, or a Q-learner"
        )
