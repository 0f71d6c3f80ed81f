"""The observations, actions and rewards of an environment, beside the numbers of a learner.

Nothing here needs Gymnasium: a learner carries its spaces, and its file does, so a learner
that is loaded takes observations of the environment and returns its actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from lowswitch.checks import is_integer, require_count, require_word, shown
from lowswitch.envs.mdp import Scale


class Digit(NamedTuple):
    """One whole number of an element: it lies in first .. first + size - 1."""

    first: int
    size: int


# ---- the forms of elements -----------------------------------------------------------------------


@dataclass(frozen=True)
class WholeSpace:
    """An element that is a whole number: `Discrete`."""

    first: int
    size: int

    kind = "whole"
    shape: tuple[int, ...] | None = ()  # of an element; None if it is no array

    @cached_property
    def digits(self) -> list[Digit]:
        return [Digit(self.first, self.size)]

    def flat(self, element: Any) -> list[Any]:
        return list(np.ravel(element)) if isinstance(element, np.ndarray) else [element]

    def shaped(self, values: list[int]) -> Any:
        return values.pop()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "first": self.first, "size": self.size}

    def __str__(self) -> str:
        return f"Discrete({self.size}{f', start={self.first}' * (self.first != 0)})"


@dataclass(frozen=True)
class ArraySpace:
    """An element that is an array of whole numbers: `MultiDiscrete` and `MultiBinary`."""

    first: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...] | None
    dtype: str

    kind = "array"

    @cached_property
    def digits(self) -> list[Digit]:
        return [Digit(*each) for each in zip(self.first, self.sizes, strict=True)]

    def flat(self, element: Any) -> list[Any]:
        return list(np.ravel(element)) if isinstance(element, np.ndarray | list) else [element]

    def shaped(self, values: list[int]) -> Any:
        taken = [values.pop() for _ in self.sizes]
        return np.array(taken, dtype=self.dtype).reshape(self.shape)

    def to_dict(self) -> dict[str, Any]:
        lists = {"first": list(self.first), "sizes": list(self.sizes)}
        return {"kind": self.kind, **lists, "shape": list(self.shape or ()), "dtype": self.dtype}

    def __str__(self) -> str:
        start = f", start={list(self.first)}" if any(self.first) else ""
        return f"MultiDiscrete({list(self.sizes)}{start})"


@dataclass(frozen=True)
class GroupSpace:
    """An element of several parts: `Tuple`, and `Dict`, whose parts have keys."""

    parts: tuple[Form, ...]
    keys: tuple[Any, ...] | None  # of a Dict

    kind = "group"
    shape: tuple[int, ...] | None = None

    @cached_property
    def digits(self) -> list[Digit]:
        return [digit for part in self.parts for digit in part.digits]

    def flat(self, element: Any) -> list[Any]:
        """None stands for a part that is missing, or one too many."""
        wanted: Any = tuple if self.keys is None else dict
        if not isinstance(element, wanted) or len(element) != len(self.parts):
            return [None]
        found = element if self.keys is None else [element.get(key) for key in self.keys]
        pairs = zip(self.parts, found, strict=True)
        return [value for part, value_of in pairs for value in part.flat(value_of)]

    def shaped(self, values: list[int]) -> Any:
        elements = [part.shaped(values) for part in self.parts]
        return tuple(elements) if self.keys is None else dict(zip(self.keys, elements, strict=True))

    def to_dict(self) -> dict[str, Any]:
        keys = None if self.keys is None else list(self.keys)
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts], "keys": keys}

    def __str__(self) -> str:
        if self.keys is None:
            return f"Tuple({', '.join(map(str, self.parts))})"
        named = zip(self.keys, self.parts, strict=True)
        return f"Dict({', '.join(f'{key!r}: {part}' for key, part in named)})"


Form = WholeSpace | ArraySpace | GroupSpace


def _form_of(data: dict[str, Any]) -> Form:
    """The form that `to_dict` wrote."""
    kind = data["kind"]
    require_word("the kind of a space", kind, (WholeSpace.kind, ArraySpace.kind, GroupSpace.kind))
    if kind == WholeSpace.kind:
        return WholeSpace(int(data["first"]), require_count("size", data["size"]))
    if kind == ArraySpace.kind:
        first, sizes, shape = (tuple(map(int, data[key])) for key in ("first", "sizes", "shape"))
        return ArraySpace(first, sizes, shape, str(data["dtype"]))
    keys = data["keys"]
    return GroupSpace(tuple(map(_form_of, data["parts"])), None if keys is None else tuple(keys))


@dataclass(frozen=True)
class Numbering:
    """The elements of a discrete space, numbered from 0; the last digit counts fastest."""

    form: Form
    what: str  # "observations" or "actions"

    @cached_property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(digit.size for digit in self.form.digits)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of an element; None if it is no array."""
        return self.form.shape

    def number(self, element: Any) -> int:
        """The number of an element; one outside of the space is an error."""
        values, digits = self.form.flat(element), self.form.digits
        inside = len(values) == len(digits) and all(
            is_integer(value) and 0 <= value - digit.first < digit.size
            for value, digit in zip(values, digits, strict=True)
        )
        if not inside:
            said = shown(int(element) if is_integer(element) else element)
            raise ValueError(f"{said} is outside of its {self.what}, {self.form}")
        number = 0
        for value, digit in zip(values, digits, strict=True):
            number = number * digit.size + int(value) - digit.first
        return number

    context = number  # what a learner of tables sees of an observation

    def element(self, number: int) -> Any:
        """The element with this number, as the environment takes it."""
        values = []
        for digit in reversed(self.form.digits):
            number, value = divmod(number, digit.size)
            values.append(value + digit.first)
        return self.form.shaped(values)

    def to_dict(self) -> dict[str, Any]:
        """The space as JSON can hold it."""
        return self.form.to_dict() | {"what": self.what}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Numbering:
        """The space that `to_dict` wrote."""
        return cls(_form_of(data), str(data["what"]))

    def __str__(self) -> str:
        return str(self.form)


# ---- the spaces of an environment ----------------------------------------------------------------


class Observations(Protocol):
    """How a learner sees observations: a `Numbering`, or a feature map."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of an observation; None if it is no array."""

    def context(self, observation: Any) -> Any:
        """The number of a state, or the features."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""


@dataclass(frozen=True)
class Spaces:
    """How an observation becomes what a learner knows, and a number an action of the environment.

    Parameters
    ----------
    observations
        How observations are seen: numbered, or by features.
    actions
        The actions, numbered.
    rewards
        The range that the environment pays in; None if it was not stated.
    """

    observations: Any
    actions: Numbering
    rewards: Scale | None = None

    def context(self, observation: Any) -> Any:
        """What the learner sees of an observation: the number of a state, or features."""
        return self.observations.context(observation)

    def action(self, number: int) -> Any:
        """The action of the environment that has this number."""
        return self.actions.element(number)

    def contexts(self, observations: Any) -> tuple[list[Any], bool]:
        """The learner's view of one observation or of several, and whether it is one."""
        shape = self.observations.shape
        if shape is not None and isinstance(observations, np.ndarray | list):
            axes = np.ndim(observations)
            if axes == len(shape) + 1:
                rows: Iterable[Any] = np.asarray(observations)
                return [self.context(row) for row in rows], False
        return [self.context(observations)], True

    def stacked(self, actions: list[Any]) -> Any:
        """Several actions as one array; a list of them if they are no arrays."""
        return actions if self.actions.shape is None else np.array(actions, dtype=np.int64)

    def with_rewards(self, rewards: Scale | None) -> Spaces:
        """The same spaces with a range of rewards."""
        return replace(self, rewards=rewards)

    def use(self, features: Any) -> Spaces:
        """The same spaces seen by these features, which must be those that the learner was saved
        with; for features of your own that could not be found again.
        """
        known = self.observations
        if getattr(features, "size", None) != getattr(known, "size", None):
            raise ValueError(f"this learner sees {known!r}, not {features!r}")
        saved, given = known.to_dict().get("source"), features.to_dict().get("source")
        if saved and saved != given:
            raise ValueError(
                f"the source of these features has the hash {(given or 'none')[:12]}, and the"
                f" learner was saved with {saved[:12]}; restore the function as it was"
            )
        return replace(self, observations=features)

    def to_dict(self) -> dict[str, Any]:
        """The spaces as JSON can hold them."""
        paid = None if self.rewards is None else [self.rewards.low, self.rewards.high]
        seen, taken = self.observations.to_dict(), self.actions.to_dict()
        return {"observations": seen, "actions": taken, "rewards": paid}

    @classmethod
    def from_dict(cls, data: dict[str, Any], observations: Callable[[Any], Any]) -> Spaces:
        """The spaces that `to_dict` wrote; `observations` reads how observations are seen."""
        paid = data["rewards"]
        return cls(
            observations(data["observations"]),
            Numbering.from_dict(data["actions"]),
            None if paid is None else Scale.of(paid),
        )

    def __repr__(self) -> str:
        paid = "" if self.rewards is None else f", rewards {self.rewards.low:g} to"
        paid += "" if self.rewards is None else f" {self.rewards.high:g}"
        return f"Spaces(observations {self.observations}, actions {self.actions}{paid})"
