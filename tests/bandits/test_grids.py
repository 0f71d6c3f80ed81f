"""Grids, written out."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowswitch.algorithms.powers import floor_power
from lowswitch.bandits.grids import (
    checked_grid,
    geometric_grid,
    grid_ends,
    log_log_grid,
    minimax_grid,
)


def test_the_minimax_grid_by_hand():
    assert minimax_grid(1000, 2) == (100, 1000)  # a = T^(2/3)
    assert minimax_grid(2**7, 3) == (16, 64, 128)  # a = 2^4, then 16 sqrt(16) and 16 sqrt(64)
    assert minimax_grid(2**15, 4) == (2**8, 2**12, 2**14, 2**15)
    assert minimax_grid(10**6, 3) == (2682, 138_949, 10**6)  # 10^(24/7), 10^(36/7)


def test_the_geometric_grid_by_hand():
    assert geometric_grid(1000, 3) == (10, 100, 1000)  # in doubles 1000^(1/3) is below 10
    assert geometric_grid(10**9, 9) == tuple(10**i for i in range(1, 10))
    assert geometric_grid(1000, 4) == (5, 31, 177, 1000)  # 5.62, 31.6, 177.8


def test_the_log_log_grid_by_hand():
    assert log_log_grid(256) == (16, 80, 208, 256)  # 2^4, 2^6 and 2^7 pulls, and what is left
    # 10^3, 10^4.5, 10^5.25, 10^5.625
    assert log_log_grid(10**6) == (1000, 32_622, 210_449, 632_145, 10**6)
    assert log_log_grid(2) == (1, 2)
    assert log_log_grid(1) == (1,)


@pytest.mark.parametrize("pulls", [4, 5, 16, 17, 1000, 10**6, 2**31 - 2, 10**15])
def test_the_phases_are_as_few_as_log_log_t(pulls):
    assert len(log_log_grid(pulls)) <= math.ceil(math.log2(math.log2(pulls))) + 1


@given(st.integers(1, 10**9), st.integers(1, 40), st.integers(1, 40))
def test_powers_are_rounded_down_exactly(base, p, q):
    floor = floor_power(base, Fraction(min(p, q), max(p, q)))
    assert floor ** max(p, q) <= base ** min(p, q) < (floor + 1) ** max(p, q)


@pytest.mark.parametrize("name", ["minimax", "geometric"])
@pytest.mark.parametrize("pulls", [2**9, 10**4, 10**6, 2**31 - 2])
def test_a_grid_increases_to_all_pulls(name, pulls):
    for batches in range(2, 10):
        ends = grid_ends(name, pulls, batches)
        assert len(ends) == batches
        assert ends[0] >= 1
        assert ends[-1] == pulls
        assert (np.diff(ends) > 0).all()


def test_a_grid_of_ones_own():
    assert checked_grid([10, np.int64(20), 50], 3) == (10, 20, 50)
    assert grid_ends((10, 20, 50), 50, 3) == (10, 20, 50)


@pytest.mark.parametrize(
    ("grid", "batches", "message"),
    [
        (
            "minimax",
            1,
            (
                "batches must be a whole number from 2 to .*, not 1; the data of one batch are"
                " useful only in a later batch"
            ),
        ),
        ("minimax", 2.5, "batches must be a whole number from 2 to .*, not 2.5"),
        ("minimax", True, "batches must be a whole number from 2 to .*, not True"),
        (
            "minmax",
            3,
            (
                "unknown grid 'minmax'; give the pull counts at which batches end, or a name: did"
                " you mean 'minimax'?"
            ),
        ),
        ((10, 10, 20), 3, r"a grid must increase from 1 on, not \(10, 10, 20\); sort it"),
        ((0, 10), 2, r"a grid must increase from 1 on, not \(0, 10\)"),
        (
            (10, 20.5),
            2,
            (
                r"grid must be one of minimax, geometric or whole pull counts at which batches end,"
                r" not \(10, 20.5\)"
            ),
        ),
        (
            7,
            2,
            (
                "grid must be one of minimax, geometric or whole pull counts at which batches end,"
                " not 7"
            ),
        ),
        ((), 2, r"grid must be one of .*, not \(\)"),
        ((10, 20, 30), 2, "the grid has 3 batches, not 2; give batches=3"),
    ],
)
def test_what_is_no_grid_is_refused(grid, batches, message):
    with pytest.raises(ValueError, match=message):
        checked_grid(grid, batches)


def test_a_grid_that_does_not_fit_the_pulls_is_refused():
    with pytest.raises(
        ValueError, match="the grid ends at 90, not at 100, the number of pulls; end it there"
    ):
        grid_ends((10, 90), 100, 2)
    with pytest.raises(
        ValueError,
        match=(
            "batches must be at most the number of pulls, 10, not 11; use fewer batches or more"
            " pulls"
        ),
    ):
        grid_ends("minimax", 10, 11)
    with pytest.raises(
        ValueError,
        match=(
            "20 batches are too many for 1,000 pulls: batches 1 and 2 of the geometric grid would"
            " both end at 1"
        ),
    ):
        grid_ends("geometric", 1000, 20)
