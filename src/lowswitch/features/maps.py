"""From observations to features: standardised, random Fourier, polynomial, one-hot, or one's own.

Each is made once, from examples or from a size, and then is a fixed function of an observation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lowswitch.checks import has_integers, numbers, require_count, require_positive, require_seed

__all__ = ["Features", "fourier", "one_hot", "own", "polynomial", "standardised"]


class Features:
    """A function from an observation to `size` features, or from observations [n, D] to [n, size].

    name: what they are, in words.
    """

    def __init__(
        self, function: Callable[[np.ndarray], np.ndarray], size: int, name: str, inputs: int | None
    ) -> None:
        self.size, self.name, self.inputs = size, name, inputs
        self._function = function

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
                raise ValueError("observations must be finite numbers; fill in what is missing")
        made = numbers("features", self._function(rows))
        if made.shape != (len(rows), self.size):
            raise ValueError(
                f"{self.name} must be [n, {self.size}] for n observations, not {made.shape}"
            )
        return made[0] if single else made

    def __repr__(self) -> str:
        return f"Features({self.name}, {self.size})"


def standardised(examples: Any, *, constant: bool = True) -> Features:
    """Observations less their mean over examples [n, D], by their standard deviation.

    constant: whether a feature that is always 1 comes first, the intercept.
    """
    mean, deviation = _moments(examples)

    def made(rows: np.ndarray) -> np.ndarray:
        scaled = (rows - mean) / deviation
        return np.column_stack([np.ones(len(rows)), scaled]) if constant else scaled

    return Features(made, len(mean) + constant, "standardised features", len(mean))


def polynomial(examples: Any, *, degree: int = 2) -> Features:
    """All products of at most `degree` standardised numbers, the constant included."""
    degree = require_count("degree", degree, most=10)
    mean, deviation = _moments(examples)
    powers = [
        term
        for power in range(degree + 1)
        for term in itertools.combinations_with_replacement(range(len(mean)), power)
    ]

    def made(rows: np.ndarray) -> np.ndarray:
        scaled = (rows - mean) / deviation
        columns = [scaled[:, list(term)].prod(axis=1) for term in powers]
        return np.column_stack(columns)

    return Features(made, len(powers), f"polynomials of degree {degree}", len(mean))


def fourier(examples: Any, *, size: int = 100, scale: float = 1.0, seed: int = 0) -> Features:
    """A constant, the standardised numbers, and `size` random Fourier features of them.

    cos(w.z + b) sqrt(2 / size) with w normal of deviation 1 / scale and b uniform: Rahimi, Recht
    2007. `scale` is how far apart, in standard deviations, observations must be to be different.
    """
    size = require_count("size", size)
    scale = require_positive("scale", scale, "1 is a standard deviation")
    mean, deviation = _moments(examples)
    generator = np.random.default_rng(require_seed(seed))
    waves = generator.normal(size=(len(mean), size)) / scale
    phases = generator.uniform(0, 2 * math.pi, size)

    def made(rows: np.ndarray) -> np.ndarray:
        scaled = (rows - mean) / deviation
        waved = np.cos(scaled @ waves + phases) * math.sqrt(2 / size)
        return np.column_stack([np.ones(len(rows)), scaled, waved])

    return Features(made, 1 + len(mean) + size, "random Fourier features", len(mean))


def one_hot(states: int) -> Features:
    """A single 1 at the number of a state."""
    states = require_count("states", states)

    def made(rows: np.ndarray) -> np.ndarray:
        if not has_integers(rows) or rows.ndim != 1 or not ((rows >= 0) & (rows < states)).all():
            raise ValueError(f"states must be whole numbers from 0 to {states - 1}, not {rows!r}")
        hot: np.ndarray = np.eye(states)[rows]
        return hot

    return Features(made, states, "one-hot features", None)


def own(function: Callable[[np.ndarray], Any], *, size: int, inputs: int) -> Features:
    """A function of one's own from observations [n, inputs] to features [n, size]."""
    if not callable(function):
        raise ValueError("function must take observations [n, D] and return features [n, size]")
    return Features(
        lambda rows: np.asarray(function(rows)),
        require_count("size", size),
        "features of one's own",
        require_count("inputs", inputs),
    )


def _moments(examples: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the columns of examples [n, D]; none may be constant."""
    given = numbers("examples", examples)
    if given.ndim != 2 or len(given) < 2:
        raise ValueError(f"examples must be observations [n, D], at least two, not {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError("examples must be finite numbers; fill in what is missing")
    deviation = given.std(axis=0)
    constant = np.flatnonzero(~(deviation > 1e-12 * (1 + np.abs(given).max(axis=0))))
    if len(constant):
        raise ValueError(
            f"column {constant[0]} of the examples is always {given[0, constant[0]]:g}, so that it"
            " says nothing; leave it out, or give examples in which it varies"
        )
    return given.mean(axis=0), deviation
