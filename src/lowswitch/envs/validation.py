"""Checks of the tables of a problem: transitions, rewards and where episodes start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lowswitch.checks import has_integers, numbers, require_indices, require_within

ROW_SUM_TOLERANCE = 1e-8


def checked_rewards(rewards: Any, horizon: int) -> np.ndarray:
    """Mean rewards [S, A] or [H, S, A]."""
    table: np.ndarray = np.array(numbers("rewards", rewards), order="C")
    if table.ndim not in (2, 3) or 0 in table.shape or (table.ndim == 3 and len(table) != horizon):
        raise ValueError(
            f"rewards must have shape [S, A] or [H, S, A] with H = {horizon}, or [S, A, S] or"
            f" [H, S, A, S] where they depend on the next state, not {table.shape}"
        )
    require_within("rewards", table, 0, 1, "rescale them with ls.rescale")
    return table


def depends_on_successor(rewards: Any, transitions: Any, horizon: int) -> bool:
    """Whether rewards are [S, A, S] or [H, S, A, S].

    The transitions determine S; three axes of one size H = S = A are [H, S, A].
    """
    try:
        shape, S = np.shape(rewards), np.shape(transitions)[-1]
    except (IndexError, ValueError):  # the checks of both name the problem
        return False
    if len(shape) == 4:
        return bool(shape[0] == horizon and shape[1] == shape[3] == S)
    return bool(len(shape) == 3 and shape[0] == shape[2] == S and shape[:2] != (horizon, S))


def warn_if_ambiguous(rewards: Any, transitions: Any, horizon: Any, stacklevel: int) -> None:
    """Warn of rewards of shape (H, H, H) that could as well depend on the next state."""
    shape, laws, S = np.shape(rewards), np.shape(transitions), horizon
    if S > 1 and shape == (S, S, S) and laws in ((S, S, S), (S * S, S)):
        warnings.warn(
            f"rewards of shape {shape} are read as [H, S, A]; if they are [S, A, S] and depend on"
            f" the next state, give np.broadcast_to(rewards, {(S,) * 4})",
            stacklevel=stacklevel + 1,
        )


def mean_rewards(rewards: Any, transitions: Any, horizon: int) -> np.ndarray:
    """The means of rewards [S, A, S] or [H, S, A, S] under the transitions, as [S, A] or [H, S, A].

    They lie in the range of the rewards, out of which a sum might be rounded.
    """
    rewards = numbers("rewards", rewards)
    S, A = rewards.shape[-1], rewards.shape[-2]
    offsets, successors, probabilities = checked_transitions(transitions, horizon, S, A)
    laws = len(offsets) - 1
    by_row = rewards.reshape(-1, S)
    copies = max(1, len(by_row) // laws)  # of the laws, where rewards differ by step alone
    if laws > len(by_row):  # and of the rewards, where the laws do
        by_row = np.tile(by_row, (laws // len(by_row), 1))
    rows = np.repeat(np.arange(laws), np.diff(offsets))
    paid = [
        np.bincount(rows, probabilities * step[rows, successors], minlength=laws)
        for step in by_row.reshape(copies, laws, S)
    ]
    means = np.clip(np.concatenate(paid), rewards.min(), rewards.max()).reshape(-1, S, A)
    return means[0] if len(means) == 1 else means


def checked_transitions(
    transitions: Any, horizon: int, states: int, actions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nonzeros row by row: offsets [rows + 1], successors and probabilities [nonzeros]."""
    given: np.ndarray
    if hasattr(transitions, "tocsr"):
        cells = states * actions
        matrix = _checked_sparse(transitions, ((cells, states), (horizon * cells, states)))
        given, offsets, successors = matrix.data, matrix.indptr, matrix.indices
        probabilities = numbers("transition probabilities", given)
    else:
        given = np.asarray(transitions)
        table = numbers("transition probabilities", given)
        if table.shape not in ((states, actions, states), (horizon, states, actions, states)):
            raise ValueError(
                f"transitions must have shape [S, A, S] = ({states}, {actions}, {states}) or"
                f" [H, S, A, S] = ({horizon}, {states}, {actions}, {states}) to agree with the"
                f" rewards, not {table.shape}"
            )
        rows, successors = np.nonzero(table.reshape(-1, states))
        probabilities = table.reshape(-1, states)[rows, successors]
        offsets = np.searchsorted(rows, np.arange(table.size // states + 1))
    _require_laws(offsets, probabilities, states, actions, given.dtype)
    return offsets.astype(np.int64), successors.astype(np.int32), probabilities


def _checked_sparse(given: Any, shapes: tuple[tuple[int, int], ...]) -> Any:
    """A sparse matrix by rows, of one of these shapes; scipy trusts indices, and would crash."""
    if getattr(given, "shape", None) not in shapes:
        raise ValueError(
            f"sparse transitions must have one row for each (x, a) or (h, x, a), {shapes[0][1]}"
            f" columns, not {getattr(given, 'shape', None)}"
        )
    try:
        if given.format == "coo":
            for name, indices, size in zip(
                ("row", "column"), given.coords, given.shape, strict=True
            ):
                if len(indices) != len(given.data) or not has_integers(indices):
                    raise ValueError(f"there is not one {name} for each of its entries")
                require_indices(f"{name}s", indices, size)
        elif given.format in ("csr", "csc", "bsr"):
            given.check_format(full_check=True)
        matrix = given.tocsr(copy=True)
        matrix.check_format(full_check=True)
        numbers("transition probabilities", matrix.data)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"sparse transitions are inconsistent ({error}); build them again"
        ) from error
    return matrix


def _require_laws(
    offsets: np.ndarray, probabilities: np.ndarray, states: int, actions: int, kind: np.dtype
) -> None:
    """Each row of nonzeros is a probability law; `kind` is the type of the numbers as given."""
    rows = len(offsets) - 1

    def place(row: int) -> str:
        step, rest = divmod(int(row), states * actions)
        where = f"state {rest // actions}, action {rest % actions}"
        return where if rows == states * actions else f"step {step}, {where}"

    bad = np.flatnonzero(~(probabilities >= 0))
    if len(bad):
        row = np.searchsorted(offsets, bad[0], side="right") - 1
        raise ValueError(
            f"transition probabilities must be at least 0, not {probabilities[bad[0]]:g}"
            f" ({place(row)})"
        )
    row_of = np.repeat(np.arange(rows), np.diff(offsets))
    sums = np.bincount(row_of, probabilities, minlength=rows)
    off = np.flatnonzero(~(np.abs(sums - 1) <= ROW_SUM_TOLERANCE))
    if len(off):
        raise ValueError(
            f"transition probabilities must sum to 1, not {sums[off[0]]:.10g} ({place(off[0])});"
            f" {_TO_FLOAT64.format(kind) if kind in _COARSE else 'normalise that row'}"
        )


_COARSE = (np.float16, np.float32)
_TO_FLOAT64 = (
    "{} is too coarse for that, so convert the table with astype(float) and divide it by its sums"
    " over the last axis"
)


def checked_start(start: Any, states: int) -> tuple[np.ndarray, np.ndarray]:
    """The start law [S], and the start sequence [n], which is empty where the law decides."""
    start = np.asarray(start)
    if has_integers(start) and start.ndim <= 1 and start.size > 0:
        require_indices("start states", start, states)
        law = np.bincount(start.reshape(-1), minlength=states) / start.size
        return law, (start if start.ndim else start[None][:0]).astype(np.int32)
    if not (np.issubdtype(start.dtype, np.floating) and start.shape == (states,)):
        raise ValueError(
            f"start must be a state, {states} probabilities, or a sequence of states, not"
            f" {start.dtype} of {start.shape}"
        )
    if not ((start >= 0).all() and abs(start.sum() - 1) <= ROW_SUM_TOLERANCE):
        raise ValueError(
            f"a start law must be at least 0 and sum to 1, not from {start.min():g} with sum"
            f" {start.sum():.10g}"
        )
    return start.astype(float), np.zeros(0, dtype=np.int32)
