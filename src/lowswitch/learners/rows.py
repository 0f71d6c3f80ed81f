"""Q-learning: each row changes by itself, and only the row just visited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.custom import best_actions
from lowswitch.algorithms.estimators import Bernstein, Bonus, Hoeffding, OwnUpdate, QLearning
from lowswitch.kernels.arrays import CELL, CLOCK, MOMENTS, NEVER, ROW, RowSpec, RowTables
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import Knowledge, ProblemSize, fresh_clock
from lowswitch.learners.schedule import first_due, timing_of, triggers_of
from lowswitch.policy.tables import TablePolicy


class RowKnowledge(Knowledge):
    """The learners of `digest_visit`."""

    def __init__(self, spec: Any, allowed: np.ndarray) -> None:
        self.spec, self.allowed = spec, allowed

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        return cls(row_spec(algorithm, size), allowed)

    def fresh(self, seed: int) -> Self:
        self.require_room()
        other = type(self)(self.spec, self.allowed)
        other.tables = self._fresh_tables()
        return other

    def begin_with(self, policy: np.ndarray) -> None:
        self.tables.rows["action"][: policy.size] = policy.reshape(-1)

    def _fresh_tables(self) -> Any:
        return fresh_row_tables(self.spec, self.allowed)

    def undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        tables, parts = self.tables, self.undo_parts(*self._touched(states, actions))
        before = {name: getattr(tables, name)[part].copy() for name, part in parts.items()}

        def put_back() -> None:
            for name, part in parts.items():
                getattr(tables, name)[part] = before[name]

        return put_back

    def undo_parts(self, rows: Any, cells: Any) -> dict[str, Any]:
        """The part of each table that belongs to these rows and cells."""
        parts = {"rows": rows, "cells": cells, "clock": slice(None)}
        return parts | ({"moments": cells} if len(getattr(self.tables, "moments", ())) else {})

    def first_estimate(self, step: int) -> float:
        """The expected value of an action that was never tried."""
        return float(self.spec_of_one.caps[step])

    def _touched(self, states: np.ndarray, actions: np.ndarray) -> tuple[Any, Any]:
        """The rows and cells that learning these episodes can touch."""
        spec, timing = self.spec, self.spec.timing
        spent = max(self.deployments, self.local_switches) + states.size
        if timing.room > spec.H or spent >= min(timing.deployments, timing.switches):
            return slice(None), slice(None)  # a refresh, or the end of a budget, reaches everywhere
        visited = np.arange(spec.H) * spec.S + states
        return np.unique(visited), np.unique(visited * spec.A + actions)

    # ---- the gate --------------------------------------------------------------------------------

    def _places(self, step: int, state: int) -> list[int]:
        """Where the row of each member lies."""
        return [step * self.spec.S + state]

    def _own(self, step: int, state: int) -> np.ndarray:  # [members]
        """The action in the row of each member."""
        actions: np.ndarray = self.tables.rows["action"][self._places(step, state)]
        return actions

    def _deployed(self, step: int, state: int) -> np.ndarray:  # [members]
        """The deployed action of each member in a row."""
        return self._own(step, state)

    def _estimates(self, step: int, state: int) -> np.ndarray:  # [members, A]
        estimates: np.ndarray = self.tables.cells["q"].reshape(-1, self.spec.A)
        return estimates[self._places(step, state)]

    def _appraise(self, step: int, state: int, *, held: bool = False) -> None:
        """Compute the value of a row, and the best of the actions to which it may change."""
        places, own = self._places(step, state), self._own(step, state)[:, None]
        estimates = self._estimates(step, state)
        mine = np.take_along_axis(estimates, own, axis=1)[:, 0]
        np.put_along_axis(estimates, own, -np.inf, axis=1)
        others = np.full(len(own), -np.inf) if held else estimates.max(axis=1)
        best = np.minimum(self.spec_of_one.caps[step], np.maximum(mine, others))
        self.tables.rows["best_other"][places], self.tables.rows["value"][places] = others, best

    def want(self, step: int, state: int, actions: Sequence[int]) -> None:
        self._appraise(step, state)  # the change itself names the wanted actions

    def forbid(self, step: int, state: int, action: int) -> None:
        self.allowed[step, state, action] = False
        cells = [here * self.spec.A + action for here in self._places(step, state)]
        self.tables.cells["q"][cells] = -np.inf
        self.release(step, state)

    def permit(self, step: int, state: int, action: int) -> None:
        if self.allowed[step, state, action]:
            return  # its estimate stays
        self.allowed[step, state, action] = True
        cells = [here * self.spec.A + action for here in self._places(step, state)]
        self.tables.cells["q"][cells] = self.first_estimate(step)
        self.release(step, state)

    def hold(self, step: int, state: int) -> None:
        self._appraise(step, state, held=True)

    def release(self, step: int, state: int) -> None:
        self.want(step, state, self._deployed(step, state).tolist())

    def next_trigger(self, step: int, state: int) -> int | None:
        if self.spec.timing.asked:
            return None
        places = zip(self._places(step, state), self._deployed(step, state), strict=True)
        cells = self.tables.cells[[here * self.spec.A + own for here, own in places]]
        due = cells["due"] != NEVER
        return int((cells["due"] - cells["visits"])[due].min()) if due.any() else None

    def recheck(
        self, rows: Sequence[tuple[int, int]], told: int, *, free: bool = False
    ) -> np.ndarray:
        if not self._by_row:
            return self.wanted(told)
        changes = []
        for h, x in rows:
            wanted = best_actions(self._estimates(h, x), self._own(h, x))
            if (wanted != self._deployed(h, x)).any():
                changes.append((told - 1, h, x, *wanted.tolist()))
        return np.array(changes, dtype=np.int64).reshape(-1, 3 + self.members)

    @property
    def _by_row(self) -> bool:
        """Whether rows change one by one."""
        return bool(self.spec.timing.room == self.spec.H)

    @property
    def spec_of_one(self) -> Any:
        """The spec of a learner that is not mixed."""
        return self.spec

    def row_visits(self, step: int, state: int) -> int:
        A, here = self.spec.A, step * self.spec.S + state
        return int(self.tables.cells["visits"][here * A : (here + 1) * A].sum())

    # ---- knowledge -------------------------------------------------------------------------------

    def policy(self) -> TablePolicy:
        H, S = self.spec.H, self.spec.S
        actions = self.tables.rows["action"][: H * S].reshape(1, H, S)
        return TablePolicy(actions.copy(), np.uint64(0))

    def q(self) -> np.ndarray:
        return self._by_cell("q")

    def visits(self) -> np.ndarray:
        return self._by_cell("visits")

    def _by_cell(self, name: str) -> np.ndarray:
        H, S, A = self.allowed.shape
        table: np.ndarray = self.tables.cells[name][: H * S * A].reshape(H, S, A).copy()
        return table

    def values(self) -> np.ndarray:
        H, S, _ = self.allowed.shape
        table: np.ndarray = self.tables.rows["value"][: (H + 1) * S].reshape(H + 1, S).copy()
        return table

    def triggers(self) -> int:
        """How many visits were triggers, and how often all rows were refreshed."""
        return count_triggers(self.spec, self.visits()) + int(self.tables.clock[0]["refreshes"])

    def layout(self) -> dict[str, tuple[int, Any]]:
        from lowswitch.kernels.qlearning import BERNSTEIN

        H, S, A = self.allowed.shape
        moments = H * S * A if self.spec.bonus == BERNSTEIN else 0
        rows, cells = ((H + 1) * S, ROW), (H * S * A, CELL)
        return {"rows": rows, "cells": cells, "moments": (moments, MOMENTS), "clock": (1, CLOCK)}

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables = RowTables(**arrays)
        return other

    def require_whole(self, told: int | None) -> None:
        (H, S, A), tables = self.allowed.shape, self.tables
        frozen = integrity.is_frozen(self.spec, tables.clock)
        rows, cells = tables.rows.reshape(H + 1, S), tables.cells.reshape(H, S, A)
        integrity.require_clock(self.spec, tables.clock, told, self.members)
        integrity.require_rows(self.spec, rows, cells, self.allowed, told)
        if told is not None:
            self._require_due(cells, frozen)
        self._require_more(rows, cells)

    def _require_due(self, cells: np.ndarray, frozen: bool) -> None:
        integrity.require_due(self.spec, cells, frozen)

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        integrity.require_moments(self.tables.moments)


def count_triggers(spec: Any, visits: np.ndarray) -> int:
    """How many visits to each (h, x, a) are triggers of the schedule, summed."""
    later = np.searchsorted(spec.later, visits, side="right")
    return int(np.minimum(visits, spec.every_until).sum() + later.sum())


def bonus_numbers(bonus: Bonus) -> tuple[int, float, float]:
    """Which bonus a Q-learner has, and the scales of its variance part and its Hoeffding part."""
    from lowswitch.kernels.qlearning import BERNSTEIN, HOEFFDING

    if isinstance(bonus, Bernstein):
        return BERNSTEIN, float(bonus.c1), float(bonus.c2)
    return HOEFFDING, 0.0, float(bonus.c) if isinstance(bonus, Hoeffding) else 0.0  # or your own


def row_spec(algorithm: Algorithm, size: ProblemSize) -> RowSpec:
    """The algorithm's numbers for one problem size."""
    bonus, estimator = algorithm.bonus, algorithm.estimator
    if not isinstance(estimator, QLearning | OwnUpdate):
        raise ValueError(f"{algorithm} is no Q-learner")
    H, S, A, K = size
    kind, c1, c2 = bonus_numbers(bonus)
    iota = algorithm.iota(**size._asdict())
    every_until, later = triggers_of(algorithm.schedule, horizon=H, limit=K)
    return RowSpec(
        H=H,
        S=S,
        A=A,
        caps=estimator.caps(H),
        bonus=kind,
        c1=c1,
        c2=c2,
        variance_scale=H * iota,
        lower_order=float(H**7 * S * A) ** 0.5 * iota,
        hoeffding_scale=H**3 * iota,
        every_until=every_until,
        later=later,
        timing=timing_of(algorithm.schedule, size, replans=False),
    )


def fresh_row_tables(spec: RowSpec, allowed: np.ndarray) -> RowTables:
    """Optimism everywhere, and the lowest allowed action deployed."""
    from lowswitch.kernels.qlearning import BERNSTEIN

    rows, cells = fresh_rows(spec, allowed, ROW, CELL)
    moments = np.zeros(len(cells) if spec.bonus == BERNSTEIN else 0, dtype=MOMENTS)
    return RowTables(rows, cells, moments, fresh_clock())


def fresh_rows(
    spec: Any,
    allowed: np.ndarray,
    row: np.dtype,
    cell: np.dtype,
    *,
    first: np.ndarray | None = None,
    due: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and cells of a learner that knows nothing.

    first [H]: its estimates, or the caps. due: its first trigger, or the one of its schedule.
    """
    H, S, A = allowed.shape
    estimates = spec.caps if first is None else first
    values = np.broadcast_to(np.minimum(spec.caps, estimates)[:, None], (H, S))
    hoped = np.broadcast_to(estimates[:, None, None], (H, S, A))
    cells = np.zeros(H * S * A, dtype=cell)
    cells["q"] = np.where(allowed, hoped, -np.inf).reshape(-1)
    by_schedule = due is None
    cells["due"] = first_due(spec.every_until, spec.later, spec.timing) if by_schedule else due
    rows = np.zeros((H + 1) * S, dtype=row)
    deployed = rows[: H * S]
    deployed["value"] = values.reshape(-1)
    several = allowed.sum(axis=-1) > 1
    deployed["best_other"] = np.where(several, hoped[..., 0], -np.inf).reshape(-1)
    deployed["action"] = allowed.argmax(axis=-1).reshape(-1)
    return rows, cells
