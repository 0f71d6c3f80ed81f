"""Discrete spaces of Gymnasium whose elements are numbered from 0."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

try:
    import gymnasium as gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'Gymnasium is not installed; install it with: pip install "lowswitch[gymnasium]"'
    ) from error


class Digit(NamedTuple):
    """One whole number of an element: it lies in first .. first + size - 1."""

    first: int
    size: int


class Numbering:
    """The elements of a space, numbered from 0.

    An element of a `Discrete` space is one digit; one of `MultiDiscrete`, `MultiBinary`, `Tuple` or
    `Dict` has several, and the last one counts fastest.
    """

    def __init__(self, space: Any, what: str) -> None:
        self.space, self.what = space, what
        self.digits = _digits(space)
        if not self.digits:
            raise ValueError(_refusal(space, what))
        self.size = math.prod(digit.size for digit in self.digits)

    def number(self, element: Any) -> int:
        """The number of an element; one outside of the space is an error."""
        values = _flat(self.space, element)
        inside = len(values) == len(self.digits) and all(
            isinstance(value, int | np.integer) and 0 <= value - digit.first < digit.size
            for value, digit in zip(values, self.digits, strict=True)
        )
        if not inside:
            raise ValueError(f"{element!r} is outside of its {self.what}, {self.space}")
        number = 0
        for value, digit in zip(values, self.digits, strict=True):
            number = number * digit.size + int(value) - digit.first
        return number

    def element(self, number: int) -> Any:
        """The element with this number, as the environment takes it."""
        values = []
        for digit in reversed(self.digits):
            number, value = divmod(number, digit.size)
            values.append(value + digit.first)
        return _shaped(self.space, values)


def _refusal(space: Any, what: str) -> str:
    """Why the elements of a space have no numbers, and what to do about it."""
    if what == "actions" and isinstance(space, spaces.Box):
        return (
            f"the actions are continuous, {space}, and a learner here chooses among finitely many;"
            " cut them into levels, as gymnasium.wrappers.DiscretizeAction(env, bins=5) does"
        )
    refused = (
        f"{what} must be Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of these, not"
        f" {space}; wrap the environment in one that numbers its {what}"
    )
    if what == "actions":
        return refused
    return (
        f"{refused}, as gymnasium.wrappers.DiscretizeObservation(env, bins=10) does, or play it"
        " with learn_features of lowswitch.envs.gymnasium, which sees features of them; if you know"
        " the reward, examples/cartpole.py in the repository shows another way"
    )


def _digits(space: Any) -> list[Digit]:
    """The digits of a space; none if it is not discrete."""
    if isinstance(space, spaces.Discrete):
        return [Digit(int(space.start), int(space.n))]
    if isinstance(space, spaces.MultiDiscrete):
        sizes = zip(np.ravel(space.start), np.ravel(space.nvec), strict=True)
        return [Digit(int(first), int(size)) for first, size in sizes]
    if isinstance(space, spaces.MultiBinary):
        return [Digit(0, 2)] * math.prod(space.shape)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = [_digits(space[key]) for key in _keys(space)]
        return [digit for part in parts for digit in part] if all(parts) else []
    return []


def _keys(space: Any) -> list[Any]:
    """What the parts of a `Tuple` or `Dict` are called, in the order of the space."""
    return list(space.spaces) if isinstance(space, spaces.Dict) else list(range(len(space)))


def _flat(space: Any, element: Any) -> list[Any]:
    """The whole numbers of an element, in the order of the digits of its space.

    None stands for a part that is missing, or one too many.
    """
    if isinstance(space, spaces.Tuple | spaces.Dict):
        keys = _keys(space)
        if not isinstance(element, tuple | dict) or len(element) != len(keys):
            return [None]
        found = dict(enumerate(element)) if isinstance(element, tuple) else element
        return [value for key in keys for value in _flat(space[key], found.get(key))]
    return list(np.ravel(element)) if isinstance(element, np.ndarray) else [element]


def _shaped(space: Any, values: list[int]) -> Any:
    """The element of a space that has these digits, of which the first is the last of the list.

    It takes what it uses from the end of the list.
    """
    if isinstance(space, spaces.Discrete):
        return values.pop()
    if isinstance(space, spaces.Tuple):
        return tuple(_shaped(part, values) for part in space)
    if isinstance(space, spaces.Dict):
        return {key: _shaped(part, values) for key, part in space.spaces.items()}
    taken = [values.pop() for _ in range(math.prod(space.shape))]
    return np.array(taken, dtype=space.dtype).reshape(space.shape)
