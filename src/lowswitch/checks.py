"""Checks of input that several modules share: once, at the door, so that it is trusted inside.

Each check returns the value in the form that the library uses, or raises a ValueError that says the
value and the way out. Comparisons are phrased so that NaN fails them.
"""

from __future__ import annotations

import difflib
import itertools
import math
import os
from collections.abc import Sequence
from numbers import Real
from types import FunctionType
from typing import Any, cast

import numpy as np

MOST = 2**31 - 2  # what the counters of the kernels hold
LARGEST, LEAST = 1e100, 1e-100  # of numbers that enter formulas, so that no power of them overflows
_SHOWN = 200  # characters of a value in a message


def shown(value: Any) -> str:
    """A value as a message shows it: its beginning where it is long."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length():,} bits"
    try:
        text = repr(value)
    except Exception:  # An object may raise anything here.
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


# ---- numbers -------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether this is a finite real number of Python or numpy, and no truth value or time."""
    if isinstance(value, bool | np.bool | np.timedelta64) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def is_integer(value: Any) -> bool:
    """Whether this is an integer of Python or numpy, and no truth value or time."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_whole(value: Any) -> bool:
    """Whether this is an integer, or a float without a fraction such as 1e5."""
    return is_integer(value) or (is_number(value) and value % 1 == 0)


def require_count(
    name: str, value: Any, *, least: int = 1, most: int = MOST, way_out: str = ""
) -> int:
    """A whole number from `least` to what the counters hold; 1e5 and 100_000 are such numbers."""
    if not (is_whole(value) and least <= value <= most):
        raise ValueError(
            f"{name} must be a whole number from {least} to {most:,}, not {shown(value)}"
            f"{_then(way_out)}"
        )
    return int(value)


def require_seed(seed: Any, *, name: str = "seed", bits: int = 63) -> int:
    """The number of a random stream."""
    if not (is_integer(seed) and 0 <= seed < 2**bits):
        raise ValueError(f"{name} must be a whole number from 0 to 2^{bits} - 1, not {shown(seed)}")
    return int(seed)


def checked_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds 0, 1, ... where their number is given, or those given."""
    if is_whole(seeds):
        count = require_count("seeds", seeds)
        require_memory(count * 1000, f"{count:,} seeds", "give fewer of them")
        return list(range(count))
    try:
        given = list(cast(Sequence[int], seeds))
    except TypeError:
        given = []
    whole = all(is_integer(seed) and 0 <= seed < 2**63 for seed in given)
    if not (whole and given) or len(set(given)) < len(given):
        raise ValueError(
            f"seeds must be a number of seeds or distinct whole numbers from 0, not {shown(seeds)}"
        )
    return [int(seed) for seed in given]


def increasing(name: str, values: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on, each larger than the one before."""
    try:
        numbers = tuple(require_count(name, value) for value in values)
    except TypeError:
        raise ValueError(
            f"{name} must be whole numbers in increasing order, not {shown(values)}"
        ) from None
    if not numbers or any(after <= before for before, after in itertools.pairwise(numbers)):
        raise ValueError(
            f"{name} must increase, and there must be at least one, not {shown(values)}"
        )
    return numbers


def require_positive(name: str, value: Any, way_out: str) -> float:
    if not (is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {shown(value)}{_then(way_out)}")
    if not float(value) <= LARGEST:
        raise ValueError(
            f"{name} must be at most {LARGEST:g}, not {shown(value)}: results would"
            f" be infinite{_then(way_out)}"
        )
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
    return require_positive(
        "eps", eps, "at 0 rounding errors would decide which actions are optimal"
    )


def require_growth(value: Any) -> float:
    """The factor by which a count must grow."""
    if not (is_number(value) and value > 1):
        raise ValueError(
            f"a growth factor must be a number above 1, not {shown(value)}; 2 is doubling"
        )
    if not 1 < float(value) <= 2**31:
        raise ValueError(
            "a growth factor must be a float above 1 and at most 2^31, by which no count grows, not"
            f" {shown(value)}; 2 is doubling"
        )
    return float(value)


def require_fraction(name: str, value: Any, way_out: str) -> float:
    if not (is_number(value) and 0 < value < 1):
        raise ValueError(
            f"{name} must lie strictly between 0 and 1, not {shown(value)}{_then(way_out)}"
        )
    if not LEAST <= float(value) < 1:
        raise ValueError(
            f"{name} must be at least {LEAST:g} and less than 1 as a float, not {shown(value)}:"
            f" results would be infinite{_then(way_out)}"
        )
    return float(value)


def require_share(name: str, value: Any, way_out: str) -> float:
    if not (is_number(value) and 0 <= value <= 1):
        raise ValueError(f"{name} must lie from 0 to 1, not {shown(value)}{_then(way_out)}")
    return float(value)


def require_memory(need: int, what: str, way_out: str) -> None:
    """Say before it is allocated that something does not fit."""
    have = free_memory()
    if need > have:
        raise ValueError(
            f"{what} need {need / 2**30:,.1f} GiB, and this machine has {have / 2**30:,.1f} free;"
            f" {way_out}"
        )


def free_memory() -> int:
    """How many bytes this process can still allocate, as far as the system tells."""
    have = 2**62
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            rows = dict(line.split(":", 1) for line in lines)
        have = int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        if hasattr(os, "sysconf"):
            have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:  # the limit of a container
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            have = min(have, int(limit.read()))
    except (OSError, ValueError):
        pass
    return have


# ---- words ---------------------------------------------------------------------------------------


def require_truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool):
        raise ValueError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def require_word(name: str, value: Any, words: Sequence[str]) -> None:
    """One of a few words."""
    if not (isinstance(value, str) and value in words):
        *others, last = (f'"{word}"' for word in words)
        close = difflib.get_close_matches(value, words, n=1) if isinstance(value, str) else []
        hint = f'; did you mean "{close[0]}"?' if close else ""
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, not {shown(value)}{hint}")


# ---- arrays --------------------------------------------------------------------------------------


def numbers(name: str, given: Any) -> np.ndarray:
    """An array of floats, of real numbers only: a cast would drop imaginary parts in silence."""
    array = np.asarray(given)
    if array.dtype == np.float64:
        return array
    if array.dtype.kind == "O":  # such as fractions
        try:
            array = array.astype(float)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} must be real numbers ({error})") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be real numbers, not {array.dtype}; convert them to float")
    return np.asarray(array, dtype=float)


def has_integers(array: np.ndarray) -> bool:
    """Whether an array holds whole numbers, and no times, which numpy counts among them."""
    return array.dtype.kind in "iu"


def require_within(name: str, array: np.ndarray, low: float, high: float, way_out: str) -> None:
    """All numbers of an array lie in a range."""
    if array.size and not (array.min() >= low and array.max() <= high):
        missing = np.argwhere(np.isnan(array))
        if len(missing):
            first = ", ".join(map(str, missing[0]))
            raise ValueError(
                f"{name} must lie in [{low:g}, {high:g}], but {len(missing):,} of"
                f" {array.size:,} are NaN (not a number), the first one at [{first}]"
            )
        # all digits, because 1 + 2e-16 is not 1
        found = f"[{_digits(array.min())}, {_digits(array.max())}]"
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], not {found}; {way_out}")


def _digits(number: Any) -> str:
    """A number with all its digits, without a needless .0."""
    return repr(float(number)).removesuffix(".0")


def require_indices(name: str, array: np.ndarray, size: int) -> None:
    """All integers of an array are from 0 to `size` - 1."""
    if array.size and not (array.min() >= 0 and array.max() < size):
        raise ValueError(f"{name} must be 0 to {size - 1}, not {array.min()} to {array.max()}")


def checked_mask(mask: Any, horizon: int, states: int, actions: int) -> np.ndarray:
    """A mask [H, S, A] in which every row allows something."""
    what = f"problems of H = {horizon}, S = {states}, A = {actions}"
    require_memory(horizon * states * (actions + 24), what, "use a smaller problem")
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
    if policy.shape != (horizon, states) or not has_integers(policy):
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
    rewards = numbers("rewards", rewards)
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
        if not has_integers(array):
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


def call_it(given: Any) -> str:
    """The way out where a class or a function stands in the place of what it makes, else
    nothing.
    """
    return f"; write {given.__name__}(...)" if isinstance(given, type | FunctionType) else ""


def _then(way_out: str) -> str:
    return f"; {way_out}" if way_out else ""
