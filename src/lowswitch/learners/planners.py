"""Planners: counts of everything seen, and backward induction on them or on posterior samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.asked import between_dates
from lowswitch.algorithms.own import Counts, FromCounts
from lowswitch.algorithms.parts import (
    BernsteinFreedman,
    ChernoffHoeffding,
    ConfidenceIntervals,
    Estimator,
    L1Ball,
    MonotonicBernstein,
    Planning,
    Posterior,
    Unknown,
)
from lowswitch.algorithms.schedules import Growth
from lowswitch.checks import has_integers, require_memory
from lowswitch.kernels.arrays import (
    CLOCK,
    KEYS,
    NEVER,
    PLANNED,
    RECORD,
    SUCCESSOR,
    PlanSpec,
    PlanTables,
)
from lowswitch.learners import whole
from lowswitch.learners.knowledge import Knowledge, ProblemSize, fresh_clock, learner_keys
from lowswitch.learners.mixtures import deployed_mixture
from lowswitch.learners.schedule import first_due, timing_of, triggers_of
from lowswitch.policy import TablePolicy

_MOST_DRAWS = 10**10  # of gamma variates, about two minutes
_SMALLER = (
    "use a smaller problem or a Q-learner, or of the library's planners pooled=True where all steps"
    " are alike"
)


class PlannerKnowledge(Knowledge):
    """The learners of `note_visit` and `plan_all`, and those that plan in Python."""

    tables: PlanTables

    def __init__(self, estimator: Estimator, spec: PlanSpec, allowed: np.ndarray) -> None:
        self.estimator, self.spec, self.allowed = estimator, spec, allowed
        self.members = spec.members

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        spec = plan_spec(algorithm, size, allowed)
        require_feasible(spec)
        return cls(algorithm.estimator, spec, allowed)

    def fresh(self, seed: int) -> Self:
        self.require_room()
        other = type(self)(self.estimator, self.spec, self.allowed)
        other.tables = fresh_plan_tables(self.spec, self.allowed, seed)
        return other

    def make_room(self) -> None:
        """Let the pool grow by half where it might not hold the successors of an episode more."""
        pool, used = self.tables.pool, int(self.tables.clock[0]["pool"])
        need = used + self.spec.spare
        if need > len(pool):
            larger = max(need, len(pool) * 3 // 2)
            what = f"the {used:,} successors counted so far and those of the next episodes"
            require_memory(larger * SUCCESSOR.itemsize, what, _SMALLER)
            grown = np.zeros(larger, dtype=SUCCESSOR)
            grown[:used] = pool[:used]
            self.tables = self.tables._replace(pool=grown)

    @property
    def stops_midway(self) -> bool:
        return True

    def plan(self, episodes: int) -> None:
        if not isinstance(self.estimator, FromCounts):
            raise TypeError(f"{self.estimator!r} plans in compiled code")
        policies = self.estimator.plan(self._counts(episodes))
        wanted = checked_policies(policies, self.members, self._planned_from)
        self.tables.wanted[:] = wanted.reshape(-1)

    @property
    def _planned_from(self) -> np.ndarray:  # [H, S, A]
        """The mask less what rows that are held may not change to."""
        mask: np.ndarray = self.spec.allowed.reshape(self.allowed.shape)
        return mask

    def _counts(self, episodes: int) -> Counts:
        """What was seen, for a planner of the user's own."""
        from lowswitch.kernels.counts import spread_successors
        from lowswitch.kernels.schedule import is_last

        H, S, A = self.allowed.shape
        records, clock = self.tables.records.reshape(H, S, A), self.tables.clock
        successors = np.zeros((H * S * A, S), dtype=np.int64)
        spread_successors(self.spec, self.tables, successors)
        stream = int(self.tables.keys[0]["samples"])
        return Counts(
            visits=records["n"].copy(),
            rewards=records["total"].copy(),
            squares=records["squares"].copy(),
            successors=successors.reshape(H, S, A, S),
            allowed=_read_only(self._planned_from),
            deployed=self.policy().actions,
            episodes=episodes,
            last=bool(is_last(self.spec, self.tables)),
            generator=np.random.default_rng([stream, int(clock[0]["refreshes"])]),
        )

    def layout(self) -> dict[str, tuple[int, Any]]:
        spec, L = self.spec, self.spec.members
        entries, cells, late = _sizes(spec)
        rows = spec.H * spec.S
        return {
            **dict.fromkeys(("policy", "wanted"), (L * rows, np.int64)),
            "q": (L * entries, float),
            "values": (L * (rows + spec.S), float),
            "visits": (entries, np.int64),
            "drowned": (entries, bool),
            "cells": (cells, PLANNED),
            "records": (cells, RECORD),
            "fresh": (late, RECORD),
            "dirty": (cells, bool),
            "pool": (spec.spare, SUCCESSOR),
            "clock": (1, CLOCK),
            "keys": (1, KEYS),
            "counter": (1, np.uint64),
            "order": (spec.S, np.int64),
            "scratch": (spec.S, float),
            "tally": (spec.A, np.int64),
        }

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.estimator, self.spec, self.allowed)
        other.tables = PlanTables(**arrays)
        return other

    def require_whole(self, told: int | None) -> None:
        (H, S, A), L, tables = self.allowed.shape, self.members, self.tables
        whole.require_clock(self.spec, tables.clock, told, L)
        for name in ("policy", "wanted"):
            policies = getattr(tables, name).reshape(L, H, S)
            whole.require_actions(name, policies, self.allowed, told)
        visits = tables.visits.reshape(H, S, A)
        whole.require_visits(visits, self.allowed, told)
        if not isinstance(self.estimator, FromCounts):
            q, values = tables.q.reshape(L, H, S, A), tables.values.reshape(L, H + 1, S)
            whole.require_estimates(q, values, self.spec.caps, self.allowed, told)
        counted = visits.reshape(-1) if self.spec.stride else visits.sum(axis=0).reshape(-1)
        whole.require(tables.cells["visits"] == counted, "visits of cells are not those counted")
        if told is not None:
            frozen = whole.is_frozen(self.spec, tables.clock)
            whole.require_due(self.spec, tables.cells, frozen)
        self._require_records(np.minimum(counted, self.spec.most_visits))
        whole.require(np.sort(tables.order) == np.arange(S), "its order of states is none")
        scratch = (tables.scratch == 0).all() and (tables.tally == 0).all()
        whole.require(scratch, "what is zero between two calls is not")

    def _require_records(self, most: np.ndarray) -> None:
        tables = self.tables
        records = np.concatenate([tables.records, tables.fresh])
        limits = np.tile(most, 2)[: len(records)]
        used = int(tables.clock[0]["pool"])
        whole.require_blocks(records, tables.pool, used, self.spec.S, limits)

    # ---- the gate --------------------------------------------------------------------------------

    def install(self, step: int, state: int, actions: tuple[int, ...]) -> None:
        for table in (self.tables.policy, self.tables.wanted):
            table.reshape(self.members, self.spec.H, self.spec.S)[:, step, state] = actions

    def forbid(self, step: int, state: int, action: int) -> None:
        self.allowed[step, state, action] = False
        self._allow(step, state, self.spec.allowed.reshape(self.allowed.shape)[step, state])

    def hold(self, step: int, state: int) -> None:
        played = np.zeros(self.spec.A, dtype=bool)
        played[self.policy().actions[:, step, state]] = True
        self._allow(step, state, played)

    def release(self, step: int, state: int) -> None:
        self._allow(step, state, np.ones(self.spec.A, dtype=bool))

    def _allow(self, step: int, state: int, allowed: np.ndarray) -> None:
        """Plan from now on with this mask [A] of a row, as far as nothing in it is forbidden."""
        spec, L = self.spec, self.members
        mask = spec.allowed.reshape(self.allowed.shape)[step, state]
        wanted = allowed & self.allowed[step, state]
        estimates = self.tables.q.reshape(L, spec.H, spec.S, spec.A)[:, step, state]
        if (mask == wanted).all() and (estimates[:, ~wanted] == -np.inf).all():
            return
        hope = np.nan if np.isnan(self.tables.values[0]) else spec.caps[step]
        estimates[:, wanted & ~mask] = hope
        estimates[:, ~wanted] = -np.inf
        mask[:] = wanted
        best = np.minimum(spec.caps[step], estimates.max(axis=-1))
        self.tables.values.reshape(L, spec.H + 1, spec.S)[:, step, state] = best
        self.tables.dirty[:] = True

    def restore_mask(self, held: Iterable[tuple[int, int]]) -> None:
        mask = self.spec.allowed.reshape(self.allowed.shape)
        mask[...] = self.allowed
        for step, state in held:
            mask[step, state] = False
            mask[step, state, self.policy().actions[:, step, state]] = True

    def next_trigger(self, step: int, state: int) -> int | None:
        if self.spec.timing.asked:
            return None
        own = self.policy().actions[:, step, state]
        cells = self.tables.cells[step * self.spec.stride + state * self.spec.A + own]
        due = cells["due"] != NEVER
        return int((cells["due"] - cells["visits"])[due].min()) if due.any() else None

    def recheck(self, rows: Sequence[tuple[int, int]], told: int) -> np.ndarray:
        return self.wanted_rows(told)

    def copied_spec(self) -> Any:
        return self.spec._replace(allowed=self.spec.allowed.copy())

    @property
    def learns_forbidden(self) -> bool:
        return True

    def row_visits(self, step: int, state: int) -> int:
        return int(self.tables.visits.reshape(self.allowed.shape)[step, state].sum())

    # ---- what is known ---------------------------------------------------------------------------

    def policy(self) -> TablePolicy:
        return deployed_mixture(self)

    def q(self) -> np.ndarray:
        H, S, A = self.allowed.shape
        return self.tables.q[: H * S * A].reshape(H, S, A).copy()

    def values(self) -> np.ndarray:
        H, S, _ = self.allowed.shape
        return self.tables.values[: (H + 1) * S].reshape(H + 1, S).copy()

    def visits(self) -> np.ndarray:
        return self.tables.visits.reshape(self.allowed.shape).copy()

    def triggers(self) -> int:
        """How many plans were made."""
        return int(self.tables.clock[0]["refreshes"])


def plan_spec(algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> PlanSpec:
    """The algorithm's numbers for one problem size."""
    from lowswitch.kernels import counts

    H, S, A, K = size
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not isinstance(estimator, Planning | Posterior | FromCounts):
        raise ValueError(f"{algorithm} is no planner")
    pooled = not isinstance(estimator, FromCounts) and estimator.pooled
    if pooled and K * H >= 2**31:
        raise ValueError(
            f"pooled counts hold fewer than {2**31:,} steps, not {K:,} episodes of {H}; "
            "leave pooled out or play fewer episodes"
        )
    limit = K * H if pooled else K  # of the visits to an (h, x, a)
    kind, log, law_log = _kind_and_logs(algorithm, size, limit)
    intervals = bonus if isinstance(bonus, ConfidenceIntervals) else None
    planning = estimator if isinstance(estimator, Planning) else Planning(clip="remaining")
    taking_over = Growth(2) if planning.data != "current" else algorithm.schedule
    stages = between_dates(algorithm.schedule, taking_over)
    every_until, later = triggers_of(stages, horizon=H, limit=limit)
    return PlanSpec(
        H=H,
        S=S,
        A=A,
        stride=0 if pooled else S * A,
        allowed=allowed.reshape(-1),
        caps=planning.caps(H),
        kind=kind,
        data=getattr(counts, planning.data.upper()),
        monotone=planning.monotone,
        c=float(getattr(bonus, "c", 1.0)),
        log=log,
        law_log=law_log,
        known=bonus.known if isinstance(bonus, Unknown) else 0,
        most_visits=intervals.data_visits(limit) if intervals else NEVER,
        prior=estimator.prior if isinstance(estimator, Posterior) else 0.0,
        rewards_known=isinstance(estimator, Posterior) and estimator.rewards == "mean",
        members=algorithm.members,
        scales=np.array(algorithm.scales),
        spare=H * S if planning.data == "current" else 2 * H * S,
        every_until=every_until,
        later=later,
        timing=timing_of(algorithm.schedule, size, replans=True),
    )


def _kind_and_logs(algorithm: Algorithm, size: ProblemSize, limit: int) -> tuple[int, float, float]:
    """How a planner explores, and the logarithms in its widths: of the reward, and of the law."""
    from lowswitch.kernels import planning

    H, S, A, K = size
    bonus, p = algorithm.bonus, algorithm.p
    kinds: dict[type, tuple[int, float]] = {
        ChernoffHoeffding: (planning.CHERNOFF, 5 * S * A * K * H),
        BernsteinFreedman: (planning.FREEDMAN, 5 * S * A * K * H),
        MonotonicBernstein: (planning.MONOTONIC, 200 * S * A * H**2 * K**2),
        L1Ball: (planning.L1_BALL, 2 * S * A * K * H),
    }
    for part, (kind, events) in kinds.items():
        if isinstance(bonus, part):
            return kind, math.log(events / p), math.log(2 * A * K * H / p)
    if isinstance(bonus, ConfidenceIntervals):
        delta = bonus.delta(H=H, S=S, A=A, limit=limit, p=p)
        return planning.INTERVALS, math.log(2 / delta), interval_log(S, delta)
    if isinstance(bonus, Unknown):
        return planning.UNKNOWN, 0.0, 0.0
    sampled = isinstance(algorithm.estimator, Posterior)
    return planning.SAMPLED if sampled else planning.OWN, 0.0, 0.0


def interval_log(S: int, delta: float) -> float:
    """ln(2^S - 2) - ln delta_T: Strehl and Littman 2008, section 3; 0 if there is one state."""
    if S == 1:
        return 0.0
    return S * math.log(2) + math.log1p(-(2.0 ** (1 - S))) - math.log(delta)


def fresh_plan_tables(spec: PlanSpec, allowed: np.ndarray, seed: int) -> PlanTables:
    """Nothing counted, optimism everywhere, and the lowest allowed action deployed by every member.

    Planners in Python have no estimates, and NaN for them.
    """
    from lowswitch.kernels.planning import OWN

    entries, cells, late = _sizes(spec)
    caps = np.broadcast_to(spec.caps[:, None, None], allowed.shape)
    planned = np.zeros(cells, dtype=PLANNED)
    planned["due"] = first_due(spec.every_until, spec.later, spec.timing)
    hope = np.full_like(caps, np.nan) if spec.kind == OWN else caps
    values = np.append(hope[..., 0].reshape(-1), np.zeros(spec.S))
    policy = np.tile(allowed.argmax(axis=-1).reshape(-1), spec.members)
    return PlanTables(
        policy=policy,
        wanted=policy.copy(),
        q=np.tile(np.where(allowed, hope, -np.inf).reshape(-1), spec.members),
        values=np.tile(values, spec.members),
        visits=np.zeros(entries, dtype=np.int64),
        drowned=np.zeros(entries, dtype=bool),
        cells=planned,
        records=np.zeros(cells, dtype=RECORD),
        fresh=np.zeros(late, dtype=RECORD),
        dirty=np.zeros(cells, dtype=bool),
        pool=np.zeros(spec.spare, dtype=SUCCESSOR),
        clock=fresh_clock(),
        keys=learner_keys(seed),
        counter=np.zeros(1, dtype=np.uint64),
        order=np.arange(spec.S),
        scratch=np.zeros(spec.S),
        tally=np.zeros(spec.A, dtype=np.int64),
    )


def _sizes(spec: PlanSpec) -> tuple[int, int, int]:
    """How many (h, x, a) there are, how many cells, and how many of these have fresh data."""
    from lowswitch.kernels.counts import CURRENT

    entries = spec.H * spec.S * spec.A
    cells = entries if spec.stride else spec.S * spec.A
    return entries, cells, cells if spec.data != CURRENT else 0


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def checked_policies(policies: Any, members: int, allowed: np.ndarray) -> np.ndarray:
    """What a planner of the user's own gave, [members, H, S], or an error."""
    H, S, _ = allowed.shape
    actions = np.asarray(policies)
    if members == 1 and actions.shape == (H, S):
        actions = actions[None]
    if actions.shape != (members, H, S) or not has_integers(actions):
        kind = f"{actions.dtype} of {np.shape(policies)}"
        shape = (H, S) if members == 1 else (members, H, S)
        raise ValueError(f"plan must give a whole number for each of {shape} rows, not {kind}")
    known = (actions >= 0) & (actions < allowed.shape[2])
    within = np.where(known, actions, 0)
    wrong = np.argwhere(~known | ~allowed[np.arange(H)[:, None], np.arange(S), within])
    if len(wrong):
        m, h, x = wrong[0]
        raise ValueError(
            f"plan gives action {actions[m, h, x]} at step {h} in state {x}, which is not allowed; "
            "see counts.allowed"
        )
    return actions


def require_feasible(spec: PlanSpec) -> None:
    """Say before it begins that a plan would not fit, or take minutes that nothing interrupts."""
    from lowswitch.kernels.planning import OWN, SAMPLED

    H, S, A = spec.H, spec.S, spec.A
    if spec.kind == OWN:
        what = f"the transitions of H = {H}, S = {S}, A = {A} in one table, which plan is given,"
        require_memory(H * S * A * S * 8, what, _SMALLER)
    draws = spec.members * H * S * A * S
    if spec.kind == SAMPLED and draws > _MOST_DRAWS:
        raise ValueError(
            f"{spec.members} samples of a posterior with H = {H}, S = {S}, A = {A} are {draws:,} "
            f"draws for each deployment, and more than {_MOST_DRAWS:,} take too long; "
            "use fewer members or states, or another planner"
        )
