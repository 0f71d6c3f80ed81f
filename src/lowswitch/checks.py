"""Checks of input that several modules share: once, at the door, so that it is trusted inside.

Each check returns the value in the form that the library uses, or raises a ValueError that says the
value and the way out. Comparisons are phrased so that NaN fails them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

MOST = 2**31 - 2  # what the counters of the kernels hold
ROW_SUM_TOLERANCE = 1e-8


# ---- numbers -------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether this is a finite real number of Python or numpy, and no truth value."""
    return (
        not isinstance(value, bool | np.bool) and isinstance(value, Real) and math.isfinite(value)
    )


def is_integer(value: Any) -> bool:
    """Whether this is an integer of Python or numpy, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def require_count(
    name: str, value: Any, *, least: int = 1, most: int = MOST, way_out: str = ""
) -> int:
    """An integer from `least` to what the counters hold."""
    if not (is_integer(value) and least <= value <= most):
        raise ValueError(
            f"{name} must be a whole number from {least} to {most:,}, not {value!r}{_then(way_out)}"
        )
    return int(value)


def whole_number(name: str, value: Any) -> int:
    """A count that may be written as 1e3, which a text and JSON read as a float."""
    return require_count(name, int(value) if is_number(value) and value % 1 == 0 else value)


def require_seed(seed: Any, *, name: str = "seed", bits: int = 63) -> int:
    """The number of a random stream."""
    if not (is_integer(seed) and 0 <= seed < 2**bits):
        raise ValueError(f"{name} must be a whole number from 0 to 2^{bits} - 1, not {seed!r}")
    return int(seed)


def checked_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds 0, 1, ... where their number is given, or those given."""
    if isinstance(seeds, int | np.integer):
        return list(range(require_count("seeds", seeds)))
    whole = all(is_integer(seed) and 0 <= seed < 2**63 for seed in seeds)
    if not whole or len(seeds) == 0 or len(set(seeds)) < len(seeds):
        raise ValueError(
            f"seeds must be a number of seeds or distinct whole numbers from 0, not {seeds!r}"
        )
    return [int(seed) for seed in seeds]


def increasing(name: str, values: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on, each larger than the one before."""
    try:
        numbers = tuple(whole_number(name, value) for value in values)
    except TypeError:
        raise ValueError(
            f"{name} must be whole numbers in increasing order, not {values!r}"
        ) from None
    if not numbers or any(after <= before for before, after in itertools.pairwise(numbers)):
        raise ValueError(f"{name} must increase, and there must be at least one, not {values!r}")
    return numbers


def require_positive(name: str, value: Any, way_out: str) -> float:
    if not (is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}{_then(way_out)}")
    return float(value)


def require_scale(name: str, value: Any) -> float:
    """The factor of a bonus."""
    return require_positive(
        name,
        value,
        "1 is the provable scale, 0.01 to 0.1 are practical for Q-learners, and 0.001 for planners",
    )


def require_eps(eps: Any) -> float:
    """How far from optimal still counts as good."""
    return require_positive("eps", eps, "at 0 rounding would decide what is optimal")


def require_growth(value: Any) -> float:
    """The factor by which a count must grow."""
    if not (is_number(value) and value > 1):
        raise ValueError(f"a growth factor must be a number above 1, not {value!r}; 2 is doubling")
    return float(value)


def require_fraction(name: str, value: Any, way_out: str) -> float:
    if not (is_number(value) and 0 < value < 1):
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}{_then(way_out)}")
    return float(value)


# ---- words ---------------------------------------------------------------------------------------


def require_truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return value


def require_word(name: str, value: Any, words: Sequence[str]) -> None:
    """One of a few words."""
    if not (isinstance(value, str) and value in words):
        *others, last = (f'"{word}"' for word in words)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, not {value!r}")


# ---- arrays --------------------------------------------------------------------------------------


def require_within(name: str, array: np.ndarray, low: float, high: float, way_out: str) -> None:
    """All numbers of an array lie in a range."""
    if array.size and not (array.min() >= low and array.max() <= high):
        raise ValueError(
            f"{name} must lie in [{low:g}, {high:g}], not [{array.min():g}, {array.max():g}];"
            f" {way_out}"
        )


def require_indices(name: str, array: np.ndarray, size: int) -> None:
    """All integers of an array count one of so many things from 0."""
    if array.size and not (array.min() >= 0 and array.max() < size):
        raise ValueError(f"{name} must be 0 to {size - 1}, not {array.min()} to {array.max()}")


def checked_mask(mask: Any, horizon: int, states: int, actions: int) -> np.ndarray:
    """A mask [H, S, A] in which every row allows something."""
    if mask is None:
        mask = np.ones((states, actions), dtype=bool)
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape not in ((states, actions), (horizon, states, actions)):
        raise ValueError(
            f"actions_allowed must be booleans of shape [S, A] = ({states}, {actions}) or [H, S, A]"
            f" = ({horizon}, {states}, {actions}), not {mask.dtype} of {mask.shape}"
        )
    empty = np.argwhere(~mask.any(axis=-1))
    if len(empty):
        raise ValueError(
            f"no action is allowed in (step, state) or (state,) = {tuple(map(int, empty[0]))};"
            " allow at least one"
        )
    return np.array(np.broadcast_to(mask, (horizon, states, actions)), order="C")


def checked_policy(policy: Any, allowed: np.ndarray) -> np.ndarray:
    """A policy [H, S] whose actions a mask [H, S, A] allows."""
    horizon, states, actions = allowed.shape
    policy = np.asarray(policy)
    if policy.shape != (horizon, states) or not np.issubdtype(policy.dtype, np.integer):
        raise ValueError(
            f"a policy must be integers of shape [H, S] = ({horizon}, {states}), not"
            f" {policy.dtype} of {policy.shape}"
        )
    require_indices("a policy's actions", policy, actions)
    forbidden = np.argwhere(~np.take_along_axis(allowed, policy[..., None], axis=-1)[..., 0])
    if len(forbidden):
        h, x = forbidden[0]
        raise ValueError(
            f"the policy plays action {policy[h, x]} at step {h} in state {x}, where it is not"
            " allowed"
        )
    return np.ascontiguousarray(policy, dtype=np.int64)


def checked_batch(
    states: Any, actions: Any, rewards: Any, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode or a batch of them, as [B, H] arrays in range of a mask [H, S, A]."""
    horizon, *sizes = allowed.shape
    states, actions = np.asarray(states), np.asarray(actions)
    rewards = np.asarray(rewards, dtype=float)
    if states.ndim in (1, 2) and states.shape[-1] == horizon + 1:
        states = states[..., :-1]  # the state after the last step, which nothing is learned from
    same = states.shape == actions.shape == rewards.shape
    if not same or states.ndim not in (1, 2) or states.shape[-1] != horizon:
        raise ValueError(
            f"an episode is {horizon} states, actions and rewards (or a batch of such rows),"
            f" not arrays of shapes {states.shape}, {actions.shape} and {rewards.shape}"
        )
    states, actions, rewards = (np.atleast_2d(array) for array in (states, actions, rewards))
    for name, array, size in zip(("states", "actions"), (states, actions), sizes, strict=True):
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{name} must be integers, not {array.dtype}")
        require_indices(name, array, size)
    require_within("rewards", rewards, 0, 1, "map them with ls.rescale's scale")
    forbidden = np.argwhere(~allowed[np.arange(horizon), states, actions])
    if len(forbidden):
        episode, step = forbidden[0]
        raise ValueError(
            f"action {actions[episode, step]} is not allowed at step {step} in state"
            f" {states[episode, step]}"
        )
    return (
        np.array(states, np.int64, order="C"),
        np.array(actions, np.int64, order="C"),
        np.array(rewards, order="C"),
    )


# ---- tables of a problem -------------------------------------------------------------------------


def checked_rewards(rewards: Any, horizon: int) -> np.ndarray:
    """Mean rewards [S, A] or [H, S, A]."""
    table: np.ndarray = np.array(rewards, dtype=float, order="C")
    if table.ndim not in (2, 3) or 0 in table.shape or (table.ndim == 3 and len(table) != horizon):
        raise ValueError(
            f"rewards must have shape [S, A] or [H, S, A] with H = {horizon}, not {table.shape}"
        )
    require_within("rewards", table, 0, 1, "rescale them with ls.rescale")
    return table


def checked_transitions(
    transitions: Any, horizon: int, states: int, actions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nonzeros row by row: offsets [rows + 1], successors and probabilities [nonzeros]."""
    if hasattr(transitions, "tocsr"):
        matrix = transitions.tocsr(copy=True)
        if matrix.shape not in ((states * actions, states), (horizon * states * actions, states)):
            raise ValueError(
                f"sparse transitions must have one row for each (x, a) or (h, x, a), {states}"
                f" columns, not {matrix.shape}"
            )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        offsets, successors = matrix.indptr, matrix.indices
        probabilities = np.asarray(matrix.data, dtype=float)
    else:
        table = np.asarray(transitions, dtype=float)
        if table.shape not in ((states, actions, states), (horizon, states, actions, states)):
            raise ValueError(
                f"transitions must have shape [S, A, S] = ({states}, {actions}, {states}) or"
                f" [H, S, A, S] = ({horizon}, {states}, {actions}, {states}) to agree with the"
                f" rewards, not {table.shape}"
            )
        rows, successors = np.nonzero(table.reshape(-1, states))
        probabilities = table.reshape(-1, states)[rows, successors]
        offsets = np.searchsorted(rows, np.arange(table.size // states + 1))
    _require_laws(offsets, probabilities, states, actions)
    return offsets.astype(np.int64), successors.astype(np.int32), probabilities


def _require_laws(
    offsets: np.ndarray, probabilities: np.ndarray, states: int, actions: int
) -> None:
    """Each row of nonzeros is a probability law."""
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
            " normalise that row"
        )


def checked_start(start: Any, states: int) -> tuple[np.ndarray, np.ndarray]:
    """The start law [S], and the start sequence [n], which is empty where the law decides."""
    start = np.asarray(start)
    if np.issubdtype(start.dtype, np.integer) and start.ndim <= 1 and start.size > 0:
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


def _then(way_out: str) -> str:
    return f"; {way_out}" if way_out else ""
