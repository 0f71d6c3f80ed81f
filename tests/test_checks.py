"""What each check lets in, in which form, and what it says of the rest."""

import math

import numpy as np
import pytest

from lowswitch import checks


def test_a_number_is_real_finite_and_no_truth_value():
    for value in (0, -1.5, np.float32(2), np.int8(3)):
        assert checks.is_number(value)
    for value in (True, np.True_, math.nan, math.inf, "1", None, 1j, [1]):
        assert not checks.is_number(value)


def test_a_count_is_a_whole_number_which_may_be_written_as_a_float():
    assert checks.require_count("runs", np.int16(7)) == checks.require_count("runs", 7.0) == 7
    for value in (np.int16(7), 1e5, np.float64(7)):
        assert type(checks.require_count("runs", value)) is int
    for value in (0, 2**31 - 1, None, 7.5, -2.5, 1e10, True, math.inf, math.nan, "7"):
        with pytest.raises(ValueError, match=f"runs must be a whole number .*, not {value!r}"):
            checks.require_count("runs", value)
    with pytest.raises(ValueError, match=r"from 2 to 9, not 1; take two$"):
        checks.require_count("arms", 1, least=2, most=9, way_out="take two")


def test_seeds():
    assert checks.require_seed(2**63 - 1) == 2**63 - 1
    assert checks.checked_seeds(3) == [0, 1, 2]
    assert checks.checked_seeds(np.array([5, 2])) == [5, 2]
    for seed in (-1, 2**63, 1.0, True):
        with pytest.raises(ValueError, match=r"seed must be a whole number from 0 to 2\^63 - 1"):
            checks.require_seed(seed)
    with pytest.raises(ValueError, match=r"first_seed must be .* 0 to 2\^32 - 1, not 4294967296"):
        checks.require_seed(2**32, name="first_seed", bits=32)


@pytest.mark.parametrize("value", [0, 1, -0.5, math.nan, "half", True])
def test_a_fraction_lies_strictly_between_0_and_1(value):
    assert checks.require_fraction("p", np.float32(0.5), "") == 0.5
    with pytest.raises(ValueError, match=f"p must lie strictly between 0 and 1, not {value!r}; so"):
        checks.require_fraction("p", value, "so")


def test_words_are_listed():
    checks.require_word("clip", "horizon", ("horizon", "remaining"))
    with pytest.raises(ValueError, match='^data must be "a", "b" or "c", not \'d\'$'):
        checks.require_word("data", "d", ("a", "b", "c"))
    with pytest.raises(ValueError, match=r'^data must be "a" or "b", not \[\'a\'\]$'):
        checks.require_word("data", ["a"], ("a", "b"))
    with pytest.raises(ValueError, match="not 'greeedy'; did you mean \"greedy\"\\?$"):
        checks.require_word("last", "greeedy", ("usual", "greedy"))


def test_ranges_of_arrays_name_what_is_in_them():
    checks.require_within("rewards", np.array([]), 0, 1, "")
    checks.require_indices("states", np.array([0, 2]), 3)
    with pytest.raises(ValueError, match=r"rewards must lie in \[0, 1\], not \[-0.5, 1\]; rescale"):
        checks.require_within("rewards", np.array([-0.5, 1]), 0, 1, "rescale")
    with pytest.raises(ValueError, match=r"rewards must lie in \[0, 1\], but 1 of 1 are NaN"):
        checks.require_within("rewards", np.array([math.nan]), 0, 1, "")
    with pytest.raises(ValueError, match="states must be 0 to 2, not 1 to 3"):
        checks.require_indices("states", np.array([1, 3]), 3)
