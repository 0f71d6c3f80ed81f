"""From observations to features: standardised, random Fourier, polynomial, one-hot, or one's own.

Each is made once, from examples or from a size, and then is a fixed function of an observation.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.fingerprints import fingerprint_of
from lowswitch.checks import (
    has_integers,
    numbers,
    require_count,
    require_positive,
    require_seed,
    require_word,
    shown,
)

__all__ = ["Features", "fourier", "one_hot", "own", "polynomial", "standardised"]


class Features:
    """A function from an observation to `size` features, or from observations [n, D] to [n, size].

    Parameters
    ----------
    function
        The function.
    size
        The number of features.
    name
        A description in words.
    inputs
        D, the number of numbers in an observation.
    recipe
        The facts from which `features_from_dict` makes them again, as plain JSON values.
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        size: int,
        name: str,
        inputs: int | None,
        recipe: dict[str, Any],
    ) -> None:
        self.size, self.name, self.inputs = size, name, inputs
        self._function, self._recipe = function, recipe

    def __call__(self, observations: Any) -> np.ndarray:  # [size] or [n, size]
        given = np.asarray(observations)
        single = given.ndim == (0 if self.inputs is None else 1)
        rows = given[None] if single else given
        if self.inputs is not None:
            rows = numbers("observations", rows)
            if rows.ndim != 2 or rows.shape[1] != self.inputs:
                raise ValueError(
                    f"{self.name} are of observations with {self.inputs} numbers, not of"
                    f" {np.shape(observations)}"
                )
            if not np.isfinite(rows).all():
                raise ValueError("observations must be finite numbers; fill in missing values")
        made = numbers("features", self._function(rows))
        if made.shape != (len(rows), self.size):
            raise ValueError(
                f"{self.name} must be [n, {self.size}] for n observations, not {made.shape}"
            )
        return made[0] if single else made

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an observation."""
        return () if self.inputs is None else (self.inputs,)

    def context(self, observation: Any) -> np.ndarray:  # [size]
        """The features of one observation, whose numbers may stand in any array."""
        if isinstance(observation, dict):
            raise ValueError(
                f"{self.name} are of arrays of numbers, not of {shown(observation)}; wrap the"
                " environment in gymnasium.wrappers.FlattenObservation"
            )
        return self(observation if self.inputs is None else np.ravel(observation))

    def to_dict(self) -> dict[str, Any]:
        """The features as JSON can hold them; a function of your own by its name and source."""
        return self._recipe | ({"source": _source(self._function)} if self.is_own else {})

    @property
    def is_own(self) -> bool:
        """Whether a function of the user's makes them."""
        return self._recipe["kind"] == "own" and "source" not in self._recipe

    def __repr__(self) -> str:
        return f"Features({self.name}, {self.size})"


def features_from_dict(data: dict[str, Any]) -> Features:
    """The features that `to_dict` wrote.

    Your own features are found by module and name, once the module is imported, if the source is
    still the same. If they are not found, every use of them says which ones are missing.
    """
    options = {name: value for name, value in data.items() if name != "kind"}
    require_word("the kind of features", data["kind"], tuple(_MAKERS))
    return _MAKERS[data["kind"]](**options)


def standardised(examples: Any, *, constant: bool = True) -> Features:
    """Observations minus their mean, divided by their standard deviation.

    Parameters
    ----------
    examples
        Observations [n, D], for the mean and the deviation.
    constant
        Whether a feature that is always 1 comes first, the intercept.
    """
    return _standardised(*_moments(examples), constant)


def _standardised(mean: Any, deviation: Any, constant: bool) -> Features:
    scale = _Standard.of(mean, deviation)

    def made(rows: np.ndarray) -> np.ndarray:
        scaled = scale(rows)
        return np.column_stack([np.ones(len(rows)), scaled]) if constant else scaled

    recipe = {"kind": "standardised", **scale.to_dict(), "constant": bool(constant)}
    return Features(made, scale.size + constant, "standardised features", scale.size, recipe)


def polynomial(examples: Any, *, degree: int = 2) -> Features:
    """All products of at most `degree` standardised numbers, the constant included.

    Parameters
    ----------
    examples
        Observations [n, D].
    degree
        The largest degree.
    """
    return _polynomial(*_moments(examples), require_count("degree", degree, most=10))


def _polynomial(mean: Any, deviation: Any, degree: int) -> Features:
    scale = _Standard.of(mean, deviation)
    powers = [
        term
        for power in range(degree + 1)
        for term in itertools.combinations_with_replacement(range(scale.size), power)
    ]

    def made(rows: np.ndarray) -> np.ndarray:
        scaled = scale(rows)
        columns = [scaled[:, list(term)].prod(axis=1) for term in powers]
        return np.column_stack(columns)

    recipe = {"kind": "polynomial", **scale.to_dict(), "degree": degree}
    return Features(made, len(powers), f"polynomials of degree {degree}", scale.size, recipe)


def fourier(examples: Any, *, size: int = 100, scale: float = 1.0, seed: int = 0) -> Features:
    """A constant, the standardised numbers, and `size` random Fourier features of them.

    cos(w.z + b) sqrt(2 / size) with w normal of deviation 1 / scale and b uniform: Rahimi, Recht
    2007.

    Parameters
    ----------
    examples
        Observations [n, D].
    size
        The number of random features.
    scale
        How far apart, in standard deviations, observations must be to be different.
    seed
        The seed of the random features.
    """
    size = require_count("size", size)
    scale = require_positive("scale", scale, "1 is a standard deviation")
    mean, deviation = _moments(examples)
    generator = np.random.default_rng(require_seed(seed))
    waves = generator.normal(size=(len(mean), size)) / scale
    return _fourier(mean, deviation, waves, generator.uniform(0, 2 * math.pi, size))


def _fourier(mean: Any, deviation: Any, waves: Any, phases: Any) -> Features:
    scale, waves, phases = _Standard.of(mean, deviation), np.array(waves), np.array(phases)

    def made(rows: np.ndarray) -> np.ndarray:
        scaled = scale(rows)
        waved = np.cos(scaled @ waves + phases) * math.sqrt(2 / len(phases))
        return np.column_stack([np.ones(len(rows)), scaled, waved])

    size = 1 + scale.size + len(phases)
    recipe = {
        "kind": "fourier",
        **scale.to_dict(),
        "waves": waves.tolist(),
        "phases": phases.tolist(),
    }
    return Features(made, size, "random Fourier features", scale.size, recipe)


def one_hot(states: int) -> Features:
    """A single 1 at the number of a state.

    Parameters
    ----------
    states
        The number of states.
    """
    states = require_count("states", states)

    def made(rows: np.ndarray) -> np.ndarray:
        if not has_integers(rows) or rows.ndim != 1 or not ((rows >= 0) & (rows < states)).all():
            raise ValueError(f"states must be whole numbers from 0 to {states - 1}, not {rows!r}")
        hot: np.ndarray = np.eye(states)[rows]
        return hot

    recipe = {"kind": "one_hot", "states": states}
    return Features(made, states, "one-hot features", None, recipe)


# ---- functions of one's own ----------------------------------------------------------------------


def own(function: Callable[[np.ndarray], Any], *, size: int, inputs: int) -> Features:
    """Your own function from observations to features.

    A file stores it by module, name and a hash of its source.

    Parameters
    ----------
    function
        A function from [n, inputs] to [n, size].
    size
        The number of features.
    inputs
        The number of numbers in an observation.
    """
    if not callable(function):
        raise ValueError("function must take observations [n, D] and return features [n, size]")
    size, inputs = require_count("size", size), require_count("inputs", inputs)
    module = getattr(function, "__module__", "") or ""
    name = getattr(function, "__qualname__", type(function).__name__)
    recipe = {"kind": "own", "module": module, "name": name, "size": size, "inputs": inputs}
    return Features(_Own(function), size, "features of one's own", inputs, recipe)


class _Own:
    """A function of the user's, whose mistakes are explained."""

    def __init__(self, function: Callable[[np.ndarray], Any]) -> None:
        self.function = function

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(self.function(rows))
        except Exception as error:  # A function of the user's may raise anything.
            raise ValueError(
                "the function of ls.features.own takes observations [n, D] and returns features"
                f" [n, size]; for observations {rows.shape} it raised {type(error).__name__}:"
                f" {error}. If it takes one observation, write own(lambda rows:"
                " numpy.array([function(row) for row in rows]), ...)"
            ) from error


def _source(function: Any) -> str:
    """A hash of the source of a function of the user's; empty if it reads more than numbers."""
    try:
        return fingerprint_of(function.function)
    except (TypeError, ValueError, AttributeError):
        return ""


class _Named:
    """A function of the user's that a file names, looked up when it is first used.

    Nothing is imported for it: a file must not decide which code runs.
    """

    def __init__(self, module: str, name: str, source: str) -> None:
        self.module, self.name, self.source = module, name, source
        self._own: _Own | None = None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if self._own is None:
            self._own = self._found()
        return self._own(rows)

    def _found(self) -> _Own:
        """The function, if its source is still the same, or an error that names it."""
        found: Any = sys.modules.get(self.module)
        why = f"import {self.module} first" if found is None else "there is no such function"
        for part in self.name.split(".") if found is not None else ():
            found = getattr(found, part, None)
        if callable(found):
            if self.source and _source(_Own(found)) == self.source:
                return _Own(found)
            why = "its source has changed" if self.source else "its source could not be compared"
        raise ValueError(
            f"this learner needs the feature function {self.name} of the module {self.module},"
            f" which is not found: {why}; or give it with learner.spaces ="
            " learner.spaces.use(ls.features.own(function, ...))"
        )


def _found(module: str, name: str, size: int, inputs: int, source: str) -> Features:
    """The user's features that a file names."""
    recipe = {"kind": "own", "module": module, "name": name, "size": size, "inputs": inputs}
    recipe |= {"source": source}
    return Features(_Named(module, name, source), size, "features of one's own", inputs, recipe)


_MAKERS: dict[str, Callable[..., Features]] = {
    "standardised": _standardised,
    "polynomial": _polynomial,
    "fourier": _fourier,
    "one_hot": one_hot,
    "own": _found,
}


# ---- standardised numbers ------------------------------------------------------------------------


class _Standard(NamedTuple):
    """Numbers less their mean, by their standard deviation."""

    mean: np.ndarray  # [D]
    deviation: np.ndarray  # [D]

    @classmethod
    def of(cls, mean: Any, deviation: Any) -> _Standard:
        return cls(np.array(mean, dtype=float), np.array(deviation, dtype=float))

    @property
    def size(self) -> int:
        return len(self.mean)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = (rows - self.mean) / self.deviation
        return scaled

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}


def _moments(examples: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the columns of examples [n, D]; none may be constant."""
    given = numbers("examples", examples)
    if given.ndim != 2 or len(given) < 2:
        raise ValueError(f"examples must be observations [n, D], at least two, not {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError("examples must be finite numbers; fill in missing values")
    deviation = given.std(axis=0)
    constant = np.flatnonzero(~(deviation > 1e-12 * (1 + np.abs(given).max(axis=0))))
    if len(constant):
        raise ValueError(
            f"column {constant[0]} of the examples is always {given[0, constant[0]]:g}, so it"
            " carries no information; leave it out, or give examples in which it varies"
        )
    return given.mean(axis=0), deviation
