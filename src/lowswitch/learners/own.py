"""Q-learners with a bonus or an update of the user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import NoBonus, OwnBonus, OwnUpdate, own_options
from lowswitch.algorithms.own import initial_estimates, require_unchanged
from lowswitch.kernels.arrays import CELL, MOMENTS, ROW, OwnSpec, OwnTables
from lowswitch.learners import integrity
from lowswitch.learners.knowledge import ProblemSize, fresh_clock
from lowswitch.learners.rows import RowKnowledge, fresh_rows, row_spec


class OwnKnowledge(RowKnowledge):
    """The learners of `kernels.own`."""

    spec: Any
    names: str  # of the functions, for errors

    @classmethod
    def of(cls, algorithm: Algorithm, size: ProblemSize, allowed: np.ndarray) -> Self:
        made = cls(own_spec(algorithm, size), allowed)
        made.names = " and ".join(type(part).__name__ for part in _functions(algorithm))
        return made

    def fresh(self, seed: int) -> Self:
        other = super().fresh(seed)
        other.names = self.names
        return other

    def _fresh_tables(self) -> OwnTables:
        """The first estimates, the lowest allowed actions deployed, and nothing remembered."""
        rows, cells = fresh_rows(self.spec, self.allowed, ROW, CELL, first=self.spec.initial)
        moments, _ = self.layout()["moments"]
        memory = np.full(len(cells) * self.spec.width, np.nan)
        faults = np.zeros(1, dtype=np.int64)
        return OwnTables(
            rows, cells, np.zeros(moments, dtype=MOMENTS), memory, faults, fresh_clock()
        )

    def undo_parts(self, rows: Any, cells: Any) -> dict[str, Any]:
        width, all_cells = self.spec.width, isinstance(cells, slice)
        memory = cells if all_cells else (cells[:, None] * width + np.arange(width)).reshape(-1)
        return super().undo_parts(rows, cells) | {"memory": memory, "faults": slice(None)}

    def first_estimate(self, step: int) -> float:
        return float(self.spec.initial[step])

    def layout(self) -> dict[str, tuple[int, Any]]:
        remembered = self.allowed.size * self.spec.width
        more = {"memory": (remembered, np.float64), "faults": (1, np.int64)}
        return super().layout() | more

    def _with(self, arrays: dict[str, np.ndarray]) -> Self:
        other = type(self)(self.spec, self.allowed)
        other.tables, other.names = OwnTables(**arrays), self.names
        return other

    def _require_more(self, rows: np.ndarray, cells: np.ndarray) -> None:
        super()._require_more(rows, cells)
        integrity.require(self.tables.faults == 0, "an estimate is not a finite number")

    # ---- learning --------------------------------------------------------------------------------

    def play(self, *given: Any) -> int:
        with self._named_index_errors():
            done = super().play(*given)
        self._require_numbers()
        return done

    def learn(self, *given: Any) -> tuple[int, int, int]:
        with self._named_index_errors():
            return super().learn(*given)

    @contextmanager
    def _named_index_errors(self) -> Iterator[None]:
        """Say whose index does not exist, which compiled code does not."""
        try:
            yield
        except IndexError as error:
            raise IndexError(
                f"in {self.names}: {error}; values has {self.spec.S} entries, and memory as many as"
                " its decorator says"
            ) from None

    def attend(self, status: int, episodes: int) -> bool:
        self._require_numbers()
        return super().attend(status, episodes)

    def _require_numbers(self) -> None:
        """Say where a function of the user's did not return a finite number."""
        if self.tables.faults[0]:
            code, i = divmod(int(self.tables.faults[0]) - 1, self.allowed.size)
            h, x, a = np.unravel_index(i, self.allowed.shape)
            n, by_bonus = divmod(code, 2)
            what = f"the {'bonus' if by_bonus else 'estimate'} by {self.names}"
            raise ValueError(
                f"{what} is not a finite number at step {h}, state {x}, action {a}, at its visit"
                f" n = {n:,}; let it return one for every n from 1 on"
            )


def _functions(algorithm: Algorithm) -> list[OwnBonus | OwnUpdate]:
    given = algorithm.bonus, algorithm.estimator
    return [part for part in given if isinstance(part, OwnBonus | OwnUpdate)]


def has_functions(algorithm: Algorithm) -> bool:
    """Whether its bonus or its update is a function of the user's."""
    return bool(_functions(algorithm))


def own_spec(algorithm: Algorithm, size: ProblemSize) -> OwnSpec:
    """The algorithm's numbers for one problem size."""
    from lowswitch.kernels.own import own_kind

    for part in _functions(algorithm):
        require_unchanged(part)
    bonus, update = algorithm.bonus, algorithm.estimator
    own_bonus = bonus if isinstance(bonus, OwnBonus) else None
    own_update = update if isinstance(update, OwnUpdate) else None
    usual, iota = row_spec(algorithm, size), algorithm.iota(**size._asdict())
    widths = [_width(part, size.states) for part in (own_bonus, own_update)]
    digest = hashlib.sha256(
        "\0".join(
            [type(bonus).__name__, type(update).__name__]
            + [part.source for part in _functions(algorithm)]
        ).encode()
    )
    kind = own_kind(
        digest.hexdigest(),
        (own_bonus and own_bonus.function, own_update and own_update.function),
        usual=not isinstance(bonus, NoBonus),
    )
    given = dict(zip("HSAK", size, strict=True)) | {"iota": iota}
    first = own_update and initial_estimates(own_update, given)
    spec: OwnSpec = kind(
        H=usual.H,
        S=usual.S,
        A=usual.A,
        caps=usual.caps,
        initial=usual.caps if first is None else np.array(first),
        iota=iota,
        bonus=usual.bonus,
        bonus_options=np.array([] if own_bonus is None else own_options(own_bonus)),
        update_options=np.array([] if own_update is None else own_options(own_update)),
        width=sum(widths),
        bonus_width=widths[0],
        usual=usual,
        every_until=usual.every_until,
        later=usual.later,
        timing=usual.timing,
    )
    return spec


def _width(part: OwnBonus | OwnUpdate | None, states: int) -> int:
    """How many numbers a function remembers for each (h, x, a)."""
    if part is None:
        return 0
    return states if part.memory == "states" else part.memory
