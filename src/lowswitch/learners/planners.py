"""Planners: counts of everything seen, and backward induction on them or on posterior samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

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
    LearnedPosterior,
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
from lowswitch.progress import cores

_CAUTION = 3.0  # standard errors by which a chosen first policy must be beaten in a row
_LARGE = 10**5  # cells of a model whose plan is worth a thread
_MOST_DRAWS = 10**10  # of gamma variates, about two minutes
_SMALLER = (
    "use a smaller problem or a Q-learner, or of the library's planners pooled=True where all steps"
    " are alike"
)


class DrawnModel(NamedTuple):
    """A model that was drawn from a posterior; steps that are alike are listed once."""

    steps: int  # of which laws are listed: 1 or H
    rows: np.ndarray  # [n]  (h, x, a) or (x, a), counted
    successors: np.ndarray  # [n]
    weights: np.ndarray  # [n]
    rewards: np.ndarray  # [1, S, A] or [H, S, A]
    noisy: bool  # whether rewards vary


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

    def begin_with(self, policy: np.ndarray) -> None:
        for deployed in (self.tables.policy, self.tables.wanted):
            deployed[:] = np.tile(policy.reshape(-1), self.members)
        self.tables.initial[:] = policy.reshape(-1)
        self.tables.caution[0] = _CAUTION

    def initial(self) -> np.ndarray:
        return self.tables.initial.reshape(self.allowed.shape[:2]).copy()

    def count(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        from lowswitch.kernels.counts import note_batch

        done = 0
        while done < len(states):
            self.make_room()
            done = note_batch(self.spec, self.tables, states, actions, rewards, done)

    def values_on_models(self, policies: np.ndarray, models: int) -> np.ndarray:
        from lowswitch.kernels.evidence import believe
        from lowswitch.kernels.exploit import values_on_draws

        found = np.zeros((len(policies), models))
        rows = np.ascontiguousarray(policies, dtype=np.int64).reshape(len(policies), -1)
        values_on_draws(self.spec, self.tables, believe(self.spec, self.tables), rows, found)
        return found

    def model(self, number: int) -> DrawnModel:
        """Model `number` of the posterior with a learned prior: always the same for the same data.

        The law of the last step, which nothing follows, leads back to its state.
        """
        from lowswitch.kernels.evidence import believe
        from lowswitch.kernels.learned import draw_step, fresh_drawn
        from lowswitch.kernels.noise import noise

        H, S, A = self.allowed.shape
        belief = believe(self.spec, self.tables)
        drawn, counter = fresh_drawn(self.spec, belief.laws), np.zeros(1, dtype=np.uint64)
        stream = self.tables.keys[0]["samples"]
        key, seen = np.uint64(noise(stream, np.uint64(number))), np.zeros(S)
        laws, rewards = [], []
        for h in range(H - 1, -1, -1):
            draw_step(self.spec, belief, h, key, drawn, counter, seen)
            rewards.append(drawn.rewards.reshape(S, A).copy())
            laws.append(_listed(drawn, S, A) if h + 1 < H else _staying(S, A))
        laws, rewards = laws[::-1], rewards[::-1]
        if belief.laws.stride == 0:
            laws = laws[:1]
        if belief.rewards.stride == 0:
            rewards = rewards[:1]
        rows = np.concatenate([h * S * A + step[0] for h, step in enumerate(laws)])
        successors, weights = (np.concatenate([step[i] for step in laws]) for i in (1, 2))
        paid = np.clip(np.stack(rewards), 0, 1)
        return DrawnModel(len(laws), rows, successors, weights, paid, bool(belief.noisy))

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
        from lowswitch.kernels.schedule import is_last

        if isinstance(self.estimator, FromCounts):
            policies = self.estimator.plan(self._counts(episodes))
            wanted = checked_policies(policies, self.members, self._planned_from)
            self.tables.wanted[:] = wanted.reshape(-1)
        elif self.spec.timing.exploit_last and is_last(self.spec, self.tables):
            from lowswitch.kernels.exploit import exploit

            exploit(self.spec, self.tables)
        else:
            self._plan_on_draws()

    def _plan_on_draws(self) -> None:
        """Let every member want the best policy of a model of its own, large ones side by side."""
        from lowswitch.kernels.evidence import believe
        from lowswitch.kernels.learned import curious, plan_on_draw

        belief = curious(self.spec, believe(self.spec, self.tables))
        work = len(belief.laws.n) + self.allowed.size
        at_once = min(self.members, cores()) if work > _LARGE else 1
        with ThreadPoolExecutor(at_once) as threads:
            members = range(self.members)
            list(threads.map(lambda m: plan_on_draw(self.spec, self.tables, belief, m), members))

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
            "initial": (rows, np.int64),
            "caution": (1, float),
            "earlier": (1, np.int64),
            "q": (estimating_members(spec) * entries, float),
            "values": (estimating_members(spec) * (rows + spec.S), float),
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
        whole.require_actions("initial", tables.initial.reshape(1, H, S), self.allowed, told)
        whole.require(np.isfinite(tables.caution) & (tables.caution >= 0), "its caution is none")
        visits = tables.visits.reshape(H, S, A)
        whole.require(tables.earlier >= 0, "its earlier episodes are fewer than none")
        episodes = None if told is None else told + int(tables.earlier[0])
        whole.require_visits(visits, self.allowed, episodes)
        if not isinstance(self.estimator, FromCounts):
            q, values = tables.q.reshape(-1, H, S, A), tables.values.reshape(-1, H + 1, S)
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
        spec = self.spec
        mask = spec.allowed.reshape(self.allowed.shape)[step, state]
        wanted = allowed & self.allowed[step, state]
        # of a learned posterior only the first member has estimates
        estimates = self.tables.q.reshape(-1, spec.H, spec.S, spec.A)[:, step, state]
        if (mask == wanted).all() and (estimates[:, ~wanted] == -np.inf).all():
            return
        hope = np.nan if np.isnan(self.tables.values[0]) else spec.caps[step]
        estimates[:, wanted & ~mask] = hope
        estimates[:, ~wanted] = -np.inf
        mask[:] = wanted
        best = np.minimum(spec.caps[step], estimates.max(axis=-1))
        self.tables.values.reshape(-1, spec.H + 1, spec.S)[:, step, state] = best
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


def _listed(drawn: Any, S: int, A: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows, successors and weights of a drawn step, what is spread over all states included."""
    rows, before = np.repeat(np.arange(S * A), drawn.sizes), np.cumsum(drawn.sizes) - drawn.sizes
    places = np.arange(len(rows)) - before[rows] + drawn.starts[rows]
    spread = np.flatnonzero(drawn.rest > 0)
    return (
        np.append(rows, np.repeat(spread, S)),
        np.append(drawn.states[places], np.tile(np.arange(S), len(spread))),
        np.append(drawn.weights[places], np.repeat(drawn.rest[spread] / S, S)),
    )


def _staying(S: int, A: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row leads back to its state."""
    return np.arange(S * A), np.repeat(np.arange(S), A), np.ones(S * A)


def plan_spec(algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> PlanSpec:
    """The algorithm's numbers for one problem size."""
    from lowswitch.kernels import counts

    H, S, A, K = size
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not isinstance(estimator, Planning | Posterior | LearnedPosterior | FromCounts):
        raise ValueError(f"{algorithm} is no planner")
    pooled = not isinstance(estimator, FromCounts) and estimator.pooled is True
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
        **_learned_prior(estimator),
        members=algorithm.members,
        scales=np.array(algorithm.scales),
        spare=H * S if planning.data == "current" else 2 * H * S,
        every_until=every_until,
        later=later,
        timing=timing_of(algorithm.schedule, size, replans=True),
    )


def _learned_prior(estimator: Estimator) -> dict[str, Any]:
    """What a posterior with a learned prior takes as given; other planners exploit by its rules."""
    from lowswitch.kernels import evidence

    given = LearnedPosterior() if isinstance(estimator, FromCounts) else estimator
    if isinstance(estimator, Posterior):
        given = LearnedPosterior(rewards=estimator.rewards)
    elif not isinstance(given, LearnedPosterior):
        given = LearnedPosterior()
    return {
        "mass": 0.0 if given.mass == "learned" else given.mass,
        "reward_weight": given.reward_weight,
        "reward_mode": getattr(evidence, given.rewards.upper()),
        "pooling": evidence.TESTED if given.pooled == "tested" else evidence.AS_COUNTED,
    }


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
    if isinstance(algorithm.estimator, LearnedPosterior):
        return planning.LEARNED, 0.0, 0.0
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
    initial = allowed.argmax(axis=-1).reshape(-1)
    policy = np.tile(initial, spec.members)
    estimating = estimating_members(spec)
    return PlanTables(
        policy=policy,
        initial=initial,
        caution=np.zeros(1),
        earlier=np.zeros(1, dtype=np.int64),
        wanted=policy.copy(),
        q=np.tile(np.where(allowed, hope, -np.inf).reshape(-1), estimating),
        values=np.tile(values, estimating),
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


def estimating_members(spec: PlanSpec) -> int:
    """How many members keep their estimates after a plan."""
    from lowswitch.kernels.planning import LEARNED

    return 1 if spec.kind == LEARNED else spec.members


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
    draws = spec.members * (H if spec.stride else 1) * S * A * S
    if spec.kind == SAMPLED and spec.stride == 0:
        what = f"the laws of a model of S = {S}, A = {A} with this prior"
        require_memory(S * A * S * 8, what, "use mass=1 instead of a prior for each successor")
    if spec.kind == SAMPLED and draws > _MOST_DRAWS:
        raise ValueError(
            f"{spec.members} samples of a posterior with H = {H}, S = {S}, A = {A} are {draws:,} "
            f"draws for each deployment, and more than {_MOST_DRAWS:,} take too long; "
            "use fewer members, or mass=1 instead of a prior for each successor, which draws those "
            "only that were seen"
        )
