"""When the batches of a bandit algorithm end.

A grid is an increasing tuple of pull counts; the last one is the total number of pulls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from lowswitch.algorithms.powers import GridKind, batch_ends, floor_power
from lowswitch.algorithms.text import nearest
from lowswitch.checks import is_integer, require_count, shown

Ends = tuple[int, ...]


def minimax_grid(pulls: int, batches: int) -> Ends:
    """The minimax grid of Gao et al. 2019, for the worst problem; see `powers.batch_ends`.

    Parameters
    ----------
    pulls
        T, the number of pulls.
    batches
        M, the number of batches.
    """
    return _increasing("minimax", pulls, batches)


def geometric_grid(pulls: int, batches: int) -> Ends:
    """The geometric grid of Gao et al. 2019, for fixed gaps; see `powers.batch_ends`.

    Parameters
    ----------
    pulls
        T, the number of pulls.
    batches
        M, the number of batches.
    """
    return _increasing("geometric", pulls, batches)


def log_log_grid(pulls: int) -> Ends:
    """Phases of floor(T^(1 - 2^-i)) pulls, i = 1, 2, ...: Cesa-Bianchi, Dekel, Shamir 2013.

    The last phase is cut short. From i = log2 log2 T on, a phase is half of T, so there are at most
    ceil(log2 log2 T) + 1 phases.

    Parameters
    ----------
    pulls
        T, the number of pulls.
    """
    ends = [0]
    while ends[-1] < pulls:
        ends.append(min(pulls, ends[-1] + floor_power(pulls, 1 - Fraction(1, 2 ** len(ends)))))
    return tuple(ends[1:])


GRIDS: dict[str, Callable[[int, int], Ends]] = {
    "minimax": minimax_grid,
    "geometric": geometric_grid,
}


def grid_ends(grid: str | Ends, pulls: int, batches: int) -> Ends:
    """The grid of a name, or a given grid, for `pulls` pulls."""
    if batches > pulls:
        raise ValueError(
            f"batches must be at most the number of pulls, {pulls:,}, not "
            f"{shown(batches)}; use fewer batches or more pulls"
        )
    if isinstance(grid, str):
        return GRIDS[grid](pulls, batches)
    if grid[-1] != pulls:
        raise ValueError(
            f"the grid ends at {grid[-1]:,}, not at {pulls:,}, the number of pulls; end it there"
        )
    return grid


def checked_grid(grid: Any, batches: Any) -> str | Ends:
    """The name of a grid, or an increasing tuple with an end for each batch."""
    way_out = "the data of one batch are useful only in a later batch"
    require_count("batches", batches, least=2, way_out=way_out)
    if isinstance(grid, str):
        if grid not in GRIDS:
            raise ValueError(
                f"unknown grid {shown(grid)}; give the pull counts at which batches end, or a name:"
                f" {nearest(grid, GRIDS)}"
            )
        return grid
    ends = tuple(grid) if isinstance(grid, list | tuple | np.ndarray) else ()
    if not (ends and all(map(is_integer, ends))):
        raise ValueError(
            f"grid must be one of {', '.join(GRIDS)} or whole pull counts at which batches end, not"
            f" {shown(grid)}"
        )
    if any(last <= first for first, last in itertools.pairwise((0, *ends))):
        raise ValueError(
            f"a grid must increase from 1 on, not {shown(ends)}; sort it and remove repeated counts"
        )
    if len(ends) != batches:
        raise ValueError(
            f"the grid has {len(ends)} batches, not {shown(batches)}; give batches={len(ends)}"
        )
    return tuple(map(int, ends))


def _increasing(kind: GridKind, pulls: int, batches: int) -> Ends:
    """The ends of a named grid without empty batches."""
    ends = batch_ends(kind, pulls, batches)
    for m, (before, end) in enumerate(itertools.pairwise((0, *ends))):
        if end <= before:
            raise ValueError(
                f"{batches} batches are too many for {pulls:,} pulls: batches {m} and "
                f"{m + 1} of the {kind} grid would both end at {end}; use fewer batches, "
                "more pulls or a grid of your own"
            )
    return ends
