"""A schedule as the kernels read it."""

from __future__ import annotations

import itertools

import numpy as np

from lowswitch.algorithms.schedules import Budget, Schedule, Triggers, WholePolicy
from lowswitch.checks import increasing
from lowswitch.kernels.arrays import NEVER, Pace


def compile_pace(
    schedule: Schedule, *, horizon: int, states: int, episodes: int, replans: bool
) -> Pace:
    """What the schedule says about all rows at once; a family that `replans` changes all rows at
    any trigger.
    """
    plain: Schedule = schedule.schedule if isinstance(schedule, Budget) else schedule
    whole = plain if isinstance(plain, WholePolicy) else None
    budgets = (
        (schedule.deployments, schedule.switches) if isinstance(schedule, Budget) else (None, None)
    )
    grid = plain.grid(episodes)
    if len(grid):
        increasing(f"the grid of {plain!r}", grid)
    deployments, switches = (NEVER * NEVER if budget is None else budget for budget in budgets)
    return Pace(
        factor=whole.factor if whole else 0.0,
        least=whole.least if whole else 1,
        grid=np.array([*grid, NEVER], dtype=np.int64),
        deployments=deployments,
        switches=switches,
        room=horizon if plain.by_row and not replans else horizon * states,
        watched=not plain.by_row or isinstance(schedule, Budget),
        greedy_last=isinstance(schedule, Budget) and schedule.last == "greedy",
    )


def compile_triggers(schedule: Schedule, *, horizon: int, limit: int) -> tuple[int, np.ndarray]:
    """Each visit count up to the first result is a trigger, and then those of the second; its last
    is NEVER.
    """
    triggers = schedule.triggers(horizon=horizon, limit=limit)
    if not (
        isinstance(triggers, Triggers)
        and all(isinstance(count, int | np.integer) for count in triggers.later)
    ):
        raise ValueError(
            "a schedule gives its triggers as Triggers(every_until, later), all whole numbers, not"
            f" {triggers!r}"
        )
    if any(
        after <= before
        for before, after in itertools.pairwise([triggers.every_until, *triggers.later])
    ):
        raise ValueError(
            f"the triggers of a schedule must increase, not {triggers.first(20)} as those of"
            f" {schedule!r}"
        )
    return triggers.every_until, np.array([*triggers.later, NEVER], dtype=np.int64)


def first_due(every_until: int, later: np.ndarray, pace: Pace) -> int:
    """The visit count of a new (h, x, a) that is its first trigger."""
    if pace.factor > 0:
        return pace.least
    return 1 if every_until else int(later[0])
