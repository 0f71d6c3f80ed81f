"""FedQ: all estimates learn at the end of a round what all machines saw in it."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import (
    AdvantageBonus,
    EarlySettledBonus,
    FederatedAdvantage,
    FederatedQ,
    FederatedSettled,
)
from lowswitch.algorithms.schedules import StageRounds, VisitRounds, plain_schedule
from lowswitch.kernels.arrays import (
    CLOCK,
    FEDERATED_CELL,
    FEDERATED_SETTLED_CELL,
    FEDERATED_STAGE_CELL,
    MOMENTS,
    NEVER,
    ROW,
    SETTLED_ROW,
    SETTLING_STAGE_ROW,
    TURN,
    FederatedReferenceTables,
    FederatedSettledSpec,
    FederatedSpec,
    FederatedStageSpec,
    FederatedTables,
)
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import Knowledge, ProblemSize, fresh_clock
from lowswitch.learners.rows import RowKnowledge, bonus_numbers, fresh_rows
from lowswitch.learners.schedule import timing_of


class FederatedKnowledge(RowKnowledge):
    """The learners of `note_round_visit`, and what all learners of rounds share."""

    row: ClassVar[np.dtype] = ROW
    cell: ClassVar[np.dtype] = FEDERATED_CELL
    tables_kind: ClassVar[type] = FederatedTables
    undo = Knowledge.undo  # the end of a round reaches everywhere

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        estimator, (H, S, A, _) = algorithm.estimator, size
        if not isinstance(estimator, FederatedQ):
            raise ValueError(f"{algorithm} is no FedQ-Hoeffding or FedQ-Bernstein")
        shared, iota = _shared(algorithm, size), algorithm.iota(**size._asdict())
        bonus, c1, c2 = bonus_numbers(algorithm.bonus)
        lower_order = float(H**7 * S * A) ** 0.5 + float(shared["machines"] * H**6 * S * A) ** 0.5
        spec = FederatedSpec(
            **shared,
            bonus=bonus,
            c1=c1,
            c2=c2,
            variance_scale=H * iota,
            lower_order=lower_order * iota,
            hoeffding_scale=H**3 * iota,
        )
        return cls(spec, allowed)

    def _fresh_tables(self) -> Any:
        """Optimism everywhere, and the lowest allowed action deployed."""
        rows, cells = fresh_rows(self.spec, self.allowed, self.row, self.cell, due=1)
        self._hope(rows, cells)
        empty = {name: np.zeros(size, dtype=kind) for name, (size, kind) in self.layout().items()}
        return self.tables_kind(**empty | {"rows": rows, "cells": cells, "clock": fresh_clock()})

    def _hope(self, rows: np.ndarray, cells: np.ndarray) -> None:
        """Set what the kind has beside values and estimates."""
        cells["kept"] = 1.0

    def layout(self) -> dict[str, tuple[int, Any]]:
        H, S, A = self.allowed.shape
        cells = H * S * A
        layout = {
            "rows": ((H + 1) * S, self.row),
            "cells": (cells, self.cell),
            "moments": (cells if self._keeps_moments else 0, MOMENTS),
            "seen": (cells * self.spec.machines, np.int32),
            "turn": (1, TURN),
            "clock": (1, CLOCK),
        }
        return {name: layout[name] for name in self.tables_kind._fields}  # type: ignore[attr-defined]

    @property
    def _keeps_moments(self) -> bool:
        from lowswitch.kernels.qlearning import BERNSTEIN

        return bool(self.spec.bonus == BERNSTEIN)

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables = self.tables_kind(**arrays)
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
        due = cells["due"]
        fits = due == NEVER if frozen else (due >= 1) & (due <= np.maximum(1, cells["round"]))
        integrity.require(fits, "rounds do not end as the schedule says")

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        turn, seen = self.tables.turn[0], self._seen.reshape(*cells.shape, -1)
        machines = self.spec.machines
        is_one = (turn["machine"] >= 0) & (turn["machine"] < machines)
        integrity.require(is_one, f"the next machine is {turn['machine']}, of {machines}")
        count = cells["visits"] - cells["round"]
        fits = (cells["round"] >= 0) & (seen >= 0).all(axis=-1) & (seen.sum(axis=-1) == count)
        integrity.require(fits, "visits of machines do not match the round")
        for table, names in ((rows, self.row.names), (cells, self.cell.names)):
            own = [table[name] for name in names or () if name not in ("q", "best_other")]
            integrity.require_finite("sums", *own)
        if "moments" in self.tables._fields:
            integrity.require_moments(self.tables.moments)


class FederatedStageKnowledge(FederatedKnowledge):
    """The learners of `note_stage_visit`."""

    row, cell, tables_kind = SETTLING_STAGE_ROW, FEDERATED_STAGE_CELL, FederatedReferenceTables
    _keeps_moments = False

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        estimator, bonus = algorithm.estimator, algorithm.bonus
        if not (isinstance(estimator, FederatedAdvantage) and isinstance(bonus, AdvantageBonus)):
            raise ValueError(f"{algorithm} is no FedQ-Advantage")
        spec = FederatedStageSpec(
            **_shared(algorithm, size),
            c=bonus.c,
            iota=algorithm.iota(**size._asdict()),
            reference=estimator.fixed_at,
            settle=estimator.settle,
        )
        return cls(spec, allowed)

    def _hope(self, rows: np.ndarray, cells: np.ndarray) -> None:
        follows = self.spec.reference == 0
        rows["reference"] = rows["value"] if follows else np.sign(rows["value"]) * self.spec.H

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        super()._require_more(rows, cells)
        integrity.require(
            (cells["begin"] >= 0) & (cells["begin"] <= cells["visits"]) & (cells["before"] >= 0),
            "stages begin outside of their visits",
        )


class FederatedSettledKnowledge(FederatedKnowledge):
    """The learners of `note_settled_visit`."""

    row, cell, tables_kind = SETTLED_ROW, FEDERATED_SETTLED_CELL, FederatedReferenceTables
    _keeps_moments = False

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        estimator, bonus = algorithm.estimator, algorithm.bonus
        if not (isinstance(estimator, FederatedSettled) and isinstance(bonus, EarlySettledBonus)):
            raise ValueError(f"{algorithm} settles no references in rounds")
        iota = algorithm.iota(**size._asdict())
        spec = FederatedSettledSpec(
            **_shared(algorithm, size),
            c=bonus.c,
            iota=iota,
            hoeffding_scale=size.horizon**3 * iota,
            settle=estimator.settle,
        )
        return cls(spec, allowed)

    def _hope(self, rows: np.ndarray, cells: np.ndarray) -> None:
        super()._hope(rows, cells)
        rows["reference"] = rows["value"]
        caps = np.repeat(self.spec.caps, self.spec.S * self.spec.A)
        cells["upper"] = cells["by_reference"] = caps


KINDS: dict[type, type[FederatedKnowledge]] = {
    FederatedQ: FederatedKnowledge,
    FederatedAdvantage: FederatedStageKnowledge,
    FederatedSettled: FederatedSettledKnowledge,
}


def _shared(algorithm: Algorithm, size: ProblemSize) -> dict[str, Any]:
    """The numbers that all learners of rounds have."""
    rounds, estimator, (H, S, A, _) = plain_schedule(algorithm.schedule), algorithm.estimator, size
    assert isinstance(rounds, VisitRounds | StageRounds)
    assert isinstance(estimator, FederatedQ | FederatedAdvantage | FederatedSettled)
    timing = timing_of(algorithm.schedule, size, replans=False)
    caps = estimator.caps(H)
    return {"H": H, "S": S, "A": A, "machines": rounds.machines, "caps": caps, "timing": timing}
