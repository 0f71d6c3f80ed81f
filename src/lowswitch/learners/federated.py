"""FedQ: all estimates learn at the end of a round what all machines saw in it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import FederatedQ
from lowswitch.algorithms.schedules import Rounds, plain_schedule
from lowswitch.kernels.arrays import (
    CLOCK,
    FEDERATED_CELL,
    MOMENTS,
    NEVER,
    ROW,
    TURN,
    FederatedSpec,
    FederatedTables,
)
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import Knowledge, ProblemSize, fresh_clock
from lowswitch.learners.rows import RowKnowledge, bonus_numbers, fresh_rows
from lowswitch.learners.schedule import timing_of


class FederatedKnowledge(RowKnowledge):
    """The learners of `note_round_visit`."""

    undo = Knowledge.undo  # the end of a round reaches everywhere

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        return cls(federated_spec(algorithm, size), allowed)

    def _fresh_tables(self) -> FederatedTables:
        """Optimism everywhere, and the lowest allowed action deployed."""
        rows, cells = fresh_rows(self.spec, self.allowed, ROW, FEDERATED_CELL, due=1)
        cells["kept"] = 1.0
        sizes = {name: np.zeros(size, dtype=kind) for name, (size, kind) in self.layout().items()}
        return FederatedTables(**sizes | {"rows": rows, "cells": cells, "clock": fresh_clock()})

    def layout(self) -> dict[str, tuple[int, Any]]:
        from lowswitch.kernels.qlearning import BERNSTEIN

        H, S, A = self.allowed.shape
        cells = H * S * A
        return {
            "rows": ((H + 1) * S, ROW),
            "cells": (cells, FEDERATED_CELL),
            "moments": (cells if self.spec.bonus == BERNSTEIN else 0, MOMENTS),
            "seen": (cells * self.spec.machines, np.int32),
            "turn": (1, TURN),
            "clock": (1, CLOCK),
        }

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables = FederatedTables(**arrays)
        return other

    @property
    def _seen(self) -> np.ndarray:  # [H * S * A, M]
        seen: np.ndarray = self.tables.seen.reshape(-1, self.spec.machines)
        return seen

    def next_trigger(self, step: int, state: int) -> int | None:
        here = step * self.spec.S + state
        i = here * self.spec.A + int(self.tables.rows[here]["action"])
        due = int(self.tables.cells[i]["due"])
        return None if due == NEVER else max(1, due - int(self._seen[i].max()))

    def triggers(self) -> int:
        """How many rounds have ended."""
        return int(self.tables.clock[0]["refreshes"])

    def _require_due(self, cells: np.ndarray, frozen: bool) -> None:
        H, M = self.spec.H, self.spec.machines
        quota = np.maximum(1, cells["begin"] // (M * H * (H + 1)))
        fits = cells["due"] == (NEVER if frozen else quota)
        integrity.require(fits, "quotas do not match the schedule")

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        integrity.require_moments(self.tables.moments)
        turn, seen = self.tables.turn[0], self._seen.reshape(*cells.shape, -1)
        integrity.require(
            (turn["machine"] >= 0) & (turn["machine"] < self.spec.machines),
            f"the next machine is {turn['machine']}, of {self.spec.machines}",
        )
        count = cells["visits"] - cells["begin"]
        sums = (cells["begin"] >= 0) & (count >= 0) & (seen >= 0).all(axis=-1)
        integrity.require(
            sums & (seen.sum(axis=-1) == count), "visits of machines do not match the round"
        )
        names = ("kept", "total", "weighted", "bonus")
        integrity.require_finite("sums", *(cells[name] for name in names))


def federated_spec(algorithm: Algorithm, size: ProblemSize) -> FederatedSpec:
    """The algorithm's numbers for one problem size."""
    estimator, rounds = algorithm.estimator, plain_schedule(algorithm.schedule)
    if not (isinstance(estimator, FederatedQ) and isinstance(rounds, Rounds)):
        raise ValueError(f"{algorithm} does not learn by rounds")
    H, S, A, _ = size
    M, iota = rounds.machines, algorithm.iota(**size._asdict())
    bonus, c1, c2 = bonus_numbers(algorithm.bonus)
    return FederatedSpec(
        H=H,
        S=S,
        A=A,
        machines=M,
        caps=estimator.caps(H),
        bonus=bonus,
        c1=c1,
        c2=c2,
        variance_scale=H * iota,
        lower_order=(float(H**7 * S * A) ** 0.5 + float(M * H**6 * S * A) ** 0.5) * iota,
        hoeffding_scale=H**3 * iota,
        timing=timing_of(algorithm.schedule, size, replans=False),
    )
