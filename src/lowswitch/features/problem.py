"""Simulated problems for policies on features, with the loss of each episode."""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

import numpy as np

from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape


class PlayedEpisodes(NamedTuple):
    """Some episodes as a policy plays them."""

    x: np.ndarray  # [n, H, R, d]
    actions: np.ndarray  # [n, H]
    rewards: np.ndarray  # [n, H]
    regret: np.ndarray  # [n]  expected loss of each episode against the best policy


class FeatureProblem:
    """A simulated problem whose states are known by features.

    Derive your own from it: give it a `name` and a `shape`, and define `play`, which several
    threads may call at once. The noise of an episode must depend only on the seed and its number,
    so that every driver plays the same episode; `lowswitch.kernels.streams` helps with that.
    """

    name: str = ""
    shape: Shape
    knows_regret = True  # whether `play` knows what each episode loses
    steps_alike = False
    measure = "regret"  # what results call it

    @property
    def size(self) -> dict[str, int]:
        """Its horizon, features and actions, by these names."""
        H, d, A, _ = self.shape
        return {"horizon": H, "features": d, "actions": A}

    def optimal_value(self, episodes: int = 0) -> float:
        """Not known."""
        return math.nan

    def play(self, policy: LinearPolicy, seed: int, first: int, last: int) -> PlayedEpisodes:
        """The episodes `first` to `last` - 1 of a seed, played by a policy."""
        raise NotImplementedError(
            f"{type(self).__name__} must define play(self, policy, seed, first, last)"
        )

    def facts(self) -> dict[str, Any]:
        """What tells it from every other problem, as JSON can hold it."""
        arrays = {
            name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        digest = hashlib.sha256()
        for name in sorted(arrays):
            digest.update(f"{name} {arrays[name].shape}".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        plain = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, str | int | float)
        }
        kind, shape = type(self).__name__, self.shape._asdict()
        return {"kind": kind, "shape": shape, "arrays": digest.hexdigest(), **plain}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.shape})"
