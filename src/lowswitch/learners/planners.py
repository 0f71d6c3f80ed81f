"""Planners: counts of everything seen, and backward induction on them, optimistic or on samples of
a posterior.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from lowswitch.algorithms.parts import (
    Algorithm,
    BernsteinFreedman,
    ChernoffHoeffding,
    Counts,
    Estimator,
    FromCounts,
    L1Ball,
    MonotonicBernstein,
    NoBonus,
    Planning,
    Posterior,
    Unknown,
)
from lowswitch.kernels.arrays import PLANNED, RECORD, SUCCESSOR, PlanRule, PlanTables
from lowswitch.kernels.streams import MEMBERS, SAMPLES, learner_stream
from lowswitch.learners import Size
from lowswitch.learners.proposing import Proposing
from lowswitch.learners.schedule import compile_pace, compile_triggers, first_due

_MOST_DRAWS = 10**10  # of gamma variates, about two minutes


class Planner(Proposing):
    """The learners of `note_visit` and `plan_proposal`, and those that plan in Python."""

    tables: PlanTables

    def __init__(self, estimator: Estimator, rule: PlanRule, allowed: np.ndarray) -> None:
        self.estimator, self.rule, self.allowed, self.members = (
            estimator,
            rule,
            allowed,
            rule.members,
        )

    @classmethod
    def of(cls, algorithm: Algorithm, size: Size, allowed: np.ndarray) -> Planner:
        rule = compile_plan_rule(algorithm, size, allowed)
        require_feasible(rule)
        return cls(algorithm.estimator, rule, allowed)

    def fresh(self, seed: int) -> Planner:
        other = type(self)(self.estimator, self.rule, self.allowed)
        other.tables = fresh_plan_tables(self.rule, self.allowed, seed)
        return other

    def _make_room(self) -> None:
        """Let the pool grow by half where it might not hold the successors of an episode more."""
        pool, used, spare = self.tables.pool, int(self.tables.clock[4]), self.rule.spare
        if used + spare > len(pool):
            larger = max(used + spare, len(pool) * 3 // 2)
            require_memory(
                larger * SUCCESSOR.itemsize,
                f"the {used:,} successors counted so far and those of the next episodes",
            )
            grown = np.zeros(larger, dtype=SUCCESSOR)
            grown[:used] = pool[:used]
            self.tables = self.tables._replace(pool=grown)

    def _propose(self, episodes: int) -> None:
        if not isinstance(self.estimator, FromCounts):
            raise TypeError(f"{self.estimator!r} plans in compiled code")
        policies = self.estimator.plan(self._counts(episodes))
        self.tables.proposal[:] = checked_policies(policies, self.members, self.allowed).reshape(-1)

    def _counts(self, episodes: int) -> Counts:
        """What was seen, for a planner of one's own."""
        from lowswitch.kernels import core as kernels

        H, S, A = self.allowed.shape
        records, clock = self.tables.records.reshape(H, S, A), self.tables.clock
        successors = np.zeros((H * S * A, S), dtype=np.int64)
        kernels.spread_successors(self.rule, self.tables, successors)
        return Counts(
            visits=records["n"].copy(),
            rewards=records["total"].copy(),
            squares=records["squares"].copy(),
            successors=successors.reshape(H, S, A, S),
            allowed=_read_only(self.allowed),
            deployed=self.policies(),
            episodes=episodes,
            last=bool(kernels.is_last(self.rule.pace, clock)),
            generator=np.random.default_rng([int(self.tables.keys[0]), int(clock[3])]),
        )

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        pool = arrays["pool"]
        if pool.ndim == 1 and pool.dtype == SUCCESSOR:
            self.tables = self.tables._replace(pool=pool.copy())
        super().restore(arrays)
        records = np.concatenate([self.tables.records, self.tables.fresh])
        if not (
            0 <= self.tables.clock[4] <= len(pool)
            and (records["start"] + records["room"] <= len(pool)).all()
        ):
            raise ValueError("its successors lie outside their pool")

    def q(self) -> np.ndarray:
        H, S, A = self.allowed.shape
        return self.tables.q[: H * S * A].reshape(H, S, A).copy()

    def values(self) -> np.ndarray:
        H, S, _ = self.allowed.shape
        return self.tables.values[: (H + 1) * S].reshape(H + 1, S).copy()

    def visits(self) -> np.ndarray:
        return self.tables.visits.reshape(self.rule.H, self.rule.S, self.rule.A).copy()

    def triggers(self) -> int:
        """How many plans were made."""
        return int(self.tables.clock[3])


def compile_plan_rule(algorithm: Algorithm, size: Size, allowed: np.ndarray) -> PlanRule:
    """The algorithm's numbers for one problem size."""
    from lowswitch.kernels import core as kernels

    H, S, A, K = size
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not isinstance(estimator, Planning | Posterior | FromCounts):
        raise ValueError(f"{algorithm} is no planner")
    pooled = not isinstance(estimator, FromCounts) and estimator.pooled
    if pooled and K * H >= 2**31:
        raise ValueError(
            f"pooled counts hold fewer than {2**31:,} steps, not {K:,} episodes of {H}; leave"
            " pooled out or play fewer episodes"
        )
    kinds = {
        ChernoffHoeffding: (kernels.CHERNOFF, math.log(5 * S * A * K * H / algorithm.p)),
        BernsteinFreedman: (kernels.FREEDMAN, math.log(5 * S * A * K * H / algorithm.p)),
        MonotonicBernstein: (kernels.MONOTONIC, math.log(200 * S * A * H**2 * K**2 / algorithm.p)),
        L1Ball: (kernels.L1_BALL, math.log(2 * S * A * K * H / algorithm.p)),
        Unknown: (kernels.UNKNOWN, 0.0),
        NoBonus: (kernels.SAMPLED if isinstance(estimator, Posterior) else kernels.OWN, 0.0),
    }
    kind, log = next(values for part, values in kinds.items() if isinstance(bonus, part))
    planning = estimator if isinstance(estimator, Planning) else Planning(clip="remaining")
    every_until, later = compile_triggers(
        algorithm.schedule, horizon=H, limit=K * H if pooled else K
    )
    return PlanRule(
        H=H,
        S=S,
        A=A,
        stride=0 if pooled else S * A,
        allowed=allowed.reshape(-1),
        caps=planning.caps(H),
        kind=kind,
        data={"current": kernels.CURRENT, "all": kernels.ALL, "newest": kernels.NEWEST}[
            planning.data
        ],
        monotone=planning.monotone,
        c=float(getattr(bonus, "c", 1.0)),
        log=log,
        law_log=math.log(2 * A * K * H / algorithm.p),
        known=bonus.known if isinstance(bonus, Unknown) else 0,
        prior=estimator.prior if isinstance(estimator, Posterior) else 0.0,
        told=isinstance(estimator, Posterior) and estimator.rewards == "mean",
        members=algorithm.members,
        scales=np.array(algorithm.scales),
        spare=H * S if planning.data == "current" else 2 * H * S,
        every_until=every_until,
        later=later,
        pace=compile_pace(algorithm.schedule, horizon=H, states=S, episodes=K, replans=True),
    )


def fresh_plan_tables(rule: PlanRule, allowed: np.ndarray, seed: int) -> PlanTables:
    """Nothing counted, optimism everywhere, and the lowest allowed action deployed by every member.

    Planners in Python have no estimates, and NaN for them.
    """
    from lowswitch.kernels import core as kernels

    entries, cells = rule.H * rule.S * rule.A, (rule.H if rule.stride else 1) * rule.S * rule.A
    late = cells if rule.data != kernels.CURRENT else 0
    policies = rule.members * rule.H * rule.S
    need = (
        entries * (9 + 8 * rule.members)
        + cells * (PLANNED.itemsize + RECORD.itemsize + 1)
        + late * RECORD.itemsize
        + policies * 24
    )
    require_memory(
        need + rule.spare * SUCCESSOR.itemsize,
        f"counts of H = {rule.H}, S = {rule.S}, A = {rule.A}",
    )
    caps = np.broadcast_to(rule.caps[:, None, None], allowed.shape)
    planned = np.zeros(cells, dtype=PLANNED)
    planned["due"] = first_due(rule.every_until, rule.later, rule.pace)
    hope = np.full_like(caps, np.nan) if rule.kind == kernels.OWN else caps
    values = np.append(hope[..., 0].reshape(-1), np.zeros(rule.S))
    policy = np.tile(allowed.argmax(axis=-1).reshape(-1), rule.members)
    return PlanTables(
        policy=policy,
        q=np.tile(np.where(allowed, hope, -np.inf).reshape(-1), rule.members),
        values=np.tile(values, rule.members),
        visits=np.zeros(entries, dtype=np.int64),
        drowned=np.zeros(entries, dtype=bool),
        cells=planned,
        records=np.zeros(cells, dtype=RECORD),
        fresh=np.zeros(late, dtype=RECORD),
        dirty=np.zeros(cells, dtype=bool),
        pool=np.zeros(rule.spare, dtype=SUCCESSOR),
        loud=np.zeros(1, dtype=np.int64),
        clock=np.zeros(6, dtype=np.int64),
        keys=np.array(
            [learner_stream(seed, SAMPLES), learner_stream(seed, MEMBERS)], dtype=np.uint64
        ),
        counter=np.zeros(1, dtype=np.uint64),
        proposal=policy.copy(),
        order=np.arange(rule.S),
        scratch=np.zeros(rule.S),
        tally=np.zeros(rule.A, dtype=np.int64),
    )


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def checked_policies(
    policies: Any, members: int, allowed: np.ndarray
) -> np.ndarray:  # [members, H, S]
    """What a planner of one's own gave, or an error."""
    H, S, _ = allowed.shape
    actions = np.asarray(policies)
    if members == 1 and actions.shape == (H, S):
        actions = actions[None]
    if actions.shape != (members, H, S) or not np.issubdtype(actions.dtype, np.integer):
        kind = f"{actions.dtype} of {np.shape(policies)}"
        raise ValueError(
            "plan must give a whole number for each of"
            f" {(H, S) if members == 1 else (members, H, S)} rows, not {kind}"
        )
    known = (actions >= 0) & (actions < allowed.shape[2])
    wrong = np.argwhere(
        ~known | ~allowed[np.arange(H)[:, None], np.arange(S), np.where(known, actions, 0)]
    )
    if len(wrong):
        m, h, x = wrong[0]
        raise ValueError(
            f"plan gives action {actions[m, h, x]} at step {h} in state {x}, which is not allowed;"
            " see counts.allowed"
        )
    return actions


def require_feasible(rule: PlanRule) -> None:
    """Say before it begins that a plan cannot be made: it would not fit, or take minutes in which
    nothing can interrupt it.
    """
    from lowswitch.kernels import core as kernels

    H, S, A = rule.H, rule.S, rule.A
    if rule.kind == kernels.OWN:
        require_memory(
            H * S * A * S * 8,
            f"the transitions of H = {H}, S = {S}, A = {A} in one table, which plan is given,",
        )
    draws = rule.members * H * S * A * S
    if rule.kind == kernels.SAMPLED and draws > _MOST_DRAWS:
        raise ValueError(
            f"{rule.members} samples of a posterior with H = {H}, S = {S}, A = {A} are {draws:,}"
            f" draws for each deployment, and more than {_MOST_DRAWS:,} take too long; use fewer"
            " members or states, or another planner"
        )


def require_memory(need: int, what: str) -> None:
    """Say before it is allocated that something does not fit."""
    have = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if hasattr(os, "sysconf")
        else 2**63
    )
    if need > have:
        raise ValueError(
            f"{what} need {need / 2**30:,.1f} GiB, and this machine has {have / 2**30:,.1f}; use a"
            " smaller problem or a Q-learner, or of the library's planners pooled=True where all"
            " steps are alike"
        )
