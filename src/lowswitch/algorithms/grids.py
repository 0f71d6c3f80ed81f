"""When the batches of a bandit algorithm end: a grid is an increasing tuple of pull counts, the
last of them all pulls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_EVEN, Context
from fractions import Fraction
from typing import Any

import numpy as np

from lowswitch.algorithms.text import nearest

Ends = tuple[int, ...]

_CONTEXT = Context(prec=60)


def floor_power(base: int, exponent: Fraction) -> int:
    """floor(base^exponent), right also where the power is whole: 128^(4/7) is 16, in doubles a
    little less.

    For an exponent p/q in lowest terms the power is whole only if base is a q-th power, hence q at
    most log2(base): then it is compared in integers. Else it is irrational, and 60 digits tell it
    from any integer.
    """
    p, q = exponent.numerator, exponent.denominator
    power = _CONTEXT.power(base, _CONTEXT.divide(p, q))
    close = int(power.to_integral_value(ROUND_HALF_EVEN))
    whole = q <= base.bit_length() and close**q == base**p
    return close if whole else math.floor(power)


def minimax_grid(pulls: int, batches: int) -> Ends:
    """t_m = floor(u_m), u_1 = a, u_m = a sqrt(u_{m-1}), a = T^(1 / (2 - 2^(1-M))): Gao et al. 2019,
    section 2.

    So u_m = T^((2^M - 2^(M-m)) / (2^M - 1)) and u_M = T. The paper leaves a constant in a free; it
    is 1, as in the authors' program.
    """
    exponents = (
        Fraction(2**batches - 2 ** (batches - m), 2**batches - 1) for m in range(1, batches + 1)
    )
    return _increasing(
        "minimax", pulls, batches, (floor_power(pulls, exponent) for exponent in exponents)
    )


def geometric_grid(pulls: int, batches: int) -> Ends:
    """t_m = floor(u_m), u_1 = b, u_m = b u_{m-1}, b = T^(1/M): Gao et al. 2019, section 2, with the
    constant in b equal to 1.
    """
    return _increasing(
        "geometric",
        pulls,
        batches,
        (floor_power(pulls, Fraction(m, batches)) for m in range(1, batches + 1)),
    )


def log_log_grid(pulls: int) -> Ends:
    """Phases of floor(T^(1 - 2^-i)) pulls, i = 1, 2, ..., the last one cut: Cesa-Bianchi, Dekel,
    Shamir 2013.

    From i = log2 log2 T on a phase is half of T, so there are at most ceil(log2 log2 T) + 1 of
    them.
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
    """The grid of a name, or one given in full, for so many pulls."""
    if batches > pulls:
        raise ValueError(
            f"batches must be at most the number of pulls, {pulls:,}, not {batches!r}; take fewer"
            " batches or more pulls"
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
    if isinstance(batches, bool) or not isinstance(batches, int | np.integer) or batches < 2:
        raise ValueError(
            f"batches must be a whole number from 2 on, not {batches!r}; what is seen in one batch"
            " has no use but in a next"
        )
    if isinstance(grid, str):
        if grid not in GRIDS:
            raise ValueError(
                f"unknown grid {grid!r}; give the pull counts at which batches end, or a name:"
                f" {nearest(grid, GRIDS)}"
            )
        return grid
    ends = tuple(grid) if isinstance(grid, list | tuple | np.ndarray) else ()
    if not ends or any(
        isinstance(end, bool) or not isinstance(end, int | np.integer) for end in ends
    ):
        raise ValueError(
            f"grid must be one of {', '.join(GRIDS)} or whole pull counts at which batches end, not"
            f" {grid!r}"
        )
    if any(last <= first for first, last in itertools.pairwise((0, *ends))):
        raise ValueError(
            f"a grid must increase from 1 on, not {ends!r}; sort it and leave out what is there"
            " twice"
        )
    if len(ends) != batches:
        raise ValueError(
            f"the grid has {len(ends)} batches, not {batches!r}; give batches={len(ends)}"
        )
    return tuple(map(int, ends))


def _increasing(name: str, pulls: int, batches: int, ends: Iterable[int]) -> Ends:
    """The ends, if no batch is empty."""
    found = [0]
    for end in ends:
        if end <= found[-1]:
            raise ValueError(
                f"{batches!r} batches are too many for {pulls:,} pulls: batches {len(found) - 1}"
                f" and {len(found)} of the {name} grid would both end at {end}; take fewer batches,"
                " more pulls or a grid of your own"
            )
        found.append(end)
    return tuple(found[1:])
