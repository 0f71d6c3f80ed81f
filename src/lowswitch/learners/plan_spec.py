"""A planner's numbers for one problem size, its tables before anything is counted, and whether they
fit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.custom import FromCounts
from lowswitch.algorithms.estimators import (
    BernsteinFreedman,
    Certificates,
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
from lowswitch.algorithms.meetings import between_dates
from lowswitch.algorithms.schedules import Growth
from lowswitch.checks import require_memory
from lowswitch.kernels.arrays import NEVER, PLANNED, RECORD, SUCCESSOR, PlanSpec, PlanTables
from lowswitch.learners.knowledge import ProblemSize, fresh_clock, learner_keys
from lowswitch.learners.schedule import first_due, timing_of, triggers_of

_MOST_DRAWS = 10**10  # of gamma variates, about two minutes
SMALLER = (
    "use a smaller problem or a Q-learner, or of the library's planners pooled=True where all steps"
    " are alike"
)


def plan_spec(algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> PlanSpec:
    """The algorithm's numbers for one problem size."""
    from lowswitch.kernels import counts

    H, S, A, K = size
    estimator, bonus = algorithm.estimator, algorithm.bonus
    if not isinstance(estimator, Planning | Posterior | LearnedPosterior | FromCounts):
        raise ValueError(f"{algorithm} is not a planner")
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
        waits_for_law=pooled,
        allowed=allowed.reshape(-1).copy(),  # of one type, whether or not a gate may change it
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
        "rule": given.rule,
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
    if isinstance(bonus, Certificates):
        pooled = getattr(algorithm.estimator, "pooled", False)
        return planning.CERTIFIED, certified_log(H, S, A, p, pooled=pooled), 0.0
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


def certified_log(H: int, S: int, A: int, p: float, *, pooled: bool) -> float:
    """ln(26 S A (H + 1 + S) / p): Dann et al. 2019, ORLC, of pooled counts.

    Each state and action has one mean reward, H next values and S successors. Of counts for each
    step it is one next value, H times.
    """
    events = S * A * (H + 1 + S) if pooled else H * S * A * (2 + S)
    return math.log(26 * events / p)


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

    entries, cells, late = plan_sizes(spec)
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
        chosen=np.zeros(1, dtype=bool),
        earlier=np.zeros(1, dtype=np.int64),
        wanted=policy.copy(),
        q=np.tile(np.where(allowed, hope, -np.inf).reshape(-1), estimating),
        values=np.append(np.tile(values, estimating), np.zeros(lower_values(spec))),
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


def lower_values(spec: PlanSpec) -> int:
    """How many lower values follow the upper ones."""
    from lowswitch.kernels.planning import CERTIFIED

    return spec.members * (spec.H + 1) * spec.S if spec.kind == CERTIFIED else 0


def plan_sizes(spec: PlanSpec) -> tuple[int, int, int]:
    """How many (h, x, a) there are, how many cells, and how many of these have fresh data."""
    from lowswitch.kernels.counts import CURRENT

    entries = spec.H * spec.S * spec.A
    cells = entries if spec.stride else spec.S * spec.A
    return entries, cells, cells if spec.data != CURRENT else 0


def require_feasible(spec: PlanSpec) -> None:
    """Say before it begins that a plan would not fit, or take minutes that nothing interrupts."""
    from lowswitch.kernels.planning import OWN, SAMPLED

    H, S, A = spec.H, spec.S, spec.A
    if spec.kind == OWN:
        what = f"the transitions of H = {H}, S = {S}, A = {A} in one table, which plan is given,"
        require_memory(H * S * A * S * 8, what, SMALLER)
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
