"""A schedule as the kernels read it."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from lowswitch.algorithms.fingerprints import is_own, unchanged
from lowswitch.algorithms.meetings import asks
from lowswitch.algorithms.powers import MOST_POINTS
from lowswitch.algorithms.schedules import (
    Budget,
    Schedule,
    Triggers,
    WholePolicy,
    plain_schedule,
)
from lowswitch.algorithms.steadiness import FROM_ARGUMENTS
from lowswitch.checks import increasing
from lowswitch.kernels.arrays import NEVER, OPEN, UNLIMITED, Timing
from lowswitch.learners.knowledge import ProblemSize


def timing_of(schedule: Schedule, size: ProblemSize, *, replans: bool) -> Timing:
    """When all rows may change together; if it `replans`, every trigger changes all rows."""
    plain = plain_schedule(schedule)
    whole = plain if isinstance(plain, WholePolicy) else None
    budget = schedule if isinstance(schedule, Budget) else None
    with _kept(plain):
        grid = plain.grid_for(**size._asdict())
    if len(grid) > MOST_POINTS:
        raise ValueError(
            f"{plain!r} has {len(grid):,} points in {size.episodes:,} episodes, more than"
            f" {MOST_POINTS:,}; let the policy change less often"
        )
    if len(grid) and not isinstance(grid, range):
        increasing(f"the grid of {plain!r}", grid)
        _require_bound(plain, size, sum(date <= size.episodes for date in grid))
    return Timing(
        factor=whole.factor if whole else 0.0,
        least=whole.least if whole else 1,
        grid=np.append(np.array(grid, dtype=np.int64), NEVER),
        deployments=(budget and budget.deployments) or UNLIMITED,
        switches=(budget and budget.switches) or UNLIMITED,
        room=size.horizon * (1 if plain.by_row and not replans else size.states),
        greedy_last=budget is not None and budget.last == "greedy",
        exploit_last=budget is not None and budget.last == "exploit",
        asked=asks(plain) is not None,
        episodes=size.episodes,
        gate=OPEN,
    )


def _kept(schedule: Schedule) -> AbstractContextManager[None]:
    """Refuse a user's schedule that changes what it reads."""
    if not is_own(type(schedule)):
        return nullcontext()
    return unchanged(schedule, FROM_ARGUMENTS)


def _require_bound(schedule: Schedule, size: ProblemSize, dates: int) -> None:
    """Refuse a user's schedule that promises fewer deployments than it has dates."""
    promised = schedule.refresh_bound(**size._asdict())
    if promised < dates:
        raise ValueError(
            f"{schedule!r} says by refresh_bound that there are at most {promised:g} deployments in"
            f" {size.episodes:,} episodes, but its grid has {dates:,} dates; let it return"
            " len(self.grid(episodes))"
        )


def triggers_of(schedule: Schedule, *, horizon: int, limit: int) -> tuple[int, np.ndarray]:
    """Return `(every_until, later)`.

    Every visit count up to `every_until` is a trigger, and so is each count in `later`, which ends
    with NEVER.
    """
    with _kept(plain_schedule(schedule)):
        triggers = schedule.triggers(horizon=horizon, limit=limit)
    if not (
        isinstance(triggers, Triggers)
        and all(isinstance(count, int | np.integer) for count in triggers.later)
    ):
        raise ValueError(
            "a schedule gives its triggers as Triggers(every_until, later), all whole numbers, "
            f"not {triggers!r}"
        )
    counts = [triggers.every_until, *triggers.later]
    if any(after <= before for before, after in itertools.pairwise(counts)):
        raise ValueError(
            f"the triggers of a schedule must increase, but {schedule!r} has {triggers.first(20)}"
        )
    return triggers.every_until, np.array([*triggers.later, NEVER], dtype=np.int64)


def first_due(every_until: int, later: np.ndarray, timing: Timing) -> int:
    """The visit count of a new (h, x, a) that is its first trigger."""
    if timing.factor > 0:
        return timing.least
    return 1 if every_until else int(later[0])
