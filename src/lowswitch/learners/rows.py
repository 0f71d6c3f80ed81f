"""Q-learning: each row changes by itself, and only the row just visited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowswitch.algorithms.parts import Algorithm, Bernstein, Hoeffding, QLearning
from lowswitch.kernels.arrays import CELL, MOMENTS, ROW, Rule, Tables
from lowswitch.learners import Size, take_over
from lowswitch.learners.schedule import compile_pace, compile_triggers, first_due


class Rows:
    """The learners of `digest_visit`."""

    members = 1
    tables: Any

    def __init__(self, rule: Any, allowed: np.ndarray) -> None:
        self.rule, self.allowed = rule, allowed

    @classmethod
    def of(cls, algorithm: Algorithm, size: Size, allowed: np.ndarray) -> Rows:
        return cls(compile_rule(algorithm, **size._asdict()), allowed)

    def fresh(self, seed: int) -> Rows:
        other = type(self)(self.rule, self.allowed)
        other.tables = self._fresh_tables()
        return other

    def _fresh_tables(self) -> Any:
        return fresh_tables(self.rule, self.allowed)

    def kernel(self) -> Any:
        from lowswitch.kernels import core as kernels

        return kernels.simulate

    def play(
        self,
        model: Any,
        evaluation: Any,
        log: Any,
        account: Any,
        key: np.uint64,
        first: int,
        last: int,
    ) -> int:
        return int(
            self.kernel()(self.rule, self.tables, model, evaluation, log, account, key, first, last)
        )

    def learn(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        off_policy: bool,
        cut: int,
        first: int,
        changes: np.ndarray,
    ) -> tuple[int, int, int]:
        from lowswitch.kernels import core as kernels

        answer: tuple[int, int, int] = kernels.digest_batch(
            self.rule, self.tables, states, actions, rewards, off_policy, cut, first, changes
        )
        return answer

    def undo(self, states: np.ndarray, actions: np.ndarray) -> Callable[[], None]:
        tables, pace = self.tables, self.rule.pace
        visited = np.arange(self.rule.H) * self.rule.S + states
        rows, cells = np.unique(visited), np.unique(visited * self.rule.A + actions)
        all_of = slice(None)
        touched: tuple[Any, Any] = (rows, cells)
        if pace.room > self.rule.H or tables.clock[:2].max() + states.size >= min(
            pace.deployments, pace.switches
        ):
            touched = (
                slice(None),
                slice(None),
            )  # a refresh, or the end of a budget, reaches everywhere
        parts = [
            touched[0]
            if name == "rows"
            else touched[1]
            if len(array) == len(tables.cells)
            else all_of
            for name, array in tables._asdict().items()
        ]
        before = [array[part].copy() for array, part in zip(tables, parts, strict=True)]

        def put_back() -> None:
            for array, part, old in zip(tables, parts, before, strict=True):
                array[part] = old

        return put_back

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        take_over(self.tables, arrays)

    def policies(self) -> np.ndarray:
        H, S = self.rule.H, self.rule.S
        actions: np.ndarray = self.tables.rows["action"][: H * S].reshape(1, H, S).copy()
        return actions

    def drawn(self, episodes: np.ndarray) -> np.ndarray:
        return np.zeros(len(episodes), dtype=np.int64)

    def q(self) -> np.ndarray:
        return self._by_cell("q")

    def visits(self) -> np.ndarray:
        return self._by_cell("visits")

    def _by_cell(self, name: str) -> np.ndarray:
        table: np.ndarray = (
            self.tables.cells[name].reshape(self.rule.H, self.rule.S, self.rule.A).copy()
        )
        return table

    def values(self) -> np.ndarray:
        table: np.ndarray = self.tables.rows["value"].reshape(self.rule.H + 1, self.rule.S).copy()
        return table

    def triggers(self) -> int:
        """How many visits were triggers, and how often all rows were refreshed."""
        return count_triggers(self.rule, self.tables.cells["visits"]) + int(self.tables.clock[3])


def count_triggers(rule: Any, visits: np.ndarray) -> int:
    """How many visits to each (h, x, a) are triggers of the schedule, summed."""
    return int(
        np.minimum(visits, rule.every_until).sum()
        + np.searchsorted(rule.later, visits, side="right").sum()
    )


def compile_rule(
    algorithm: Algorithm, *, horizon: int, states: int, actions: int, episodes: int
) -> Rule:
    """The algorithm's numbers for one problem size."""
    from lowswitch.kernels import core as kernels

    bonus, estimator = algorithm.bonus, algorithm.estimator
    if not (isinstance(bonus, Hoeffding | Bernstein) and isinstance(estimator, QLearning)):
        raise ValueError(f"{algorithm} is no Q-learner")
    iota = algorithm.iota(horizon=horizon, states=states, actions=actions, episodes=episodes)
    every_until, later = compile_triggers(algorithm.schedule, horizon=horizon, limit=episodes)
    return Rule(
        H=horizon,
        S=states,
        A=actions,
        caps=estimator.caps(horizon),
        bonus=kernels.BERNSTEIN if isinstance(bonus, Bernstein) else kernels.HOEFFDING,
        c1=float(bonus.c1) if isinstance(bonus, Bernstein) else 0.0,
        c2=float(bonus.c2) if isinstance(bonus, Bernstein) else float(bonus.c),
        variance_scale=horizon * iota,
        lower_order=float(horizon**7 * states * actions) ** 0.5 * iota,
        hoeffding_scale=horizon**3 * iota,
        every_until=every_until,
        later=later,
        pace=compile_pace(
            algorithm.schedule, horizon=horizon, states=states, episodes=episodes, replans=False
        ),
    )


def fresh_tables(rule: Rule, allowed: np.ndarray) -> Tables:
    """Optimism everywhere, and the lowest allowed action deployed."""
    from lowswitch.kernels import core as kernels

    rows, cells = fresh_rows(rule, allowed, ROW, CELL)
    moments = np.zeros(len(cells) if rule.bonus == kernels.BERNSTEIN else 0, dtype=MOMENTS)
    return Tables(
        rows, cells, moments, loud=np.zeros(1, dtype=np.int64), clock=np.zeros(4, dtype=np.int64)
    )


def fresh_rows(
    rule: Any, allowed: np.ndarray, row: np.dtype, cell: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and cells of a learner that knows nothing."""
    H, S, A = allowed.shape
    caps = np.broadcast_to(rule.caps[:, None, None], (H, S, A))
    cells = np.zeros(H * S * A, dtype=cell)
    cells["q"] = np.where(allowed, caps, -np.inf).reshape(-1)
    cells["due"] = first_due(rule.every_until, rule.later, rule.pace)
    rows = np.zeros((H + 1) * S, dtype=row)
    deployed = rows[: H * S]
    deployed["value"] = caps[..., 0].reshape(-1)
    deployed["rival"] = np.where(allowed.sum(axis=-1) > 1, caps[..., 0], -np.inf).reshape(-1)
    deployed["action"] = allowed.argmax(axis=-1).reshape(-1)
    return rows, cells
