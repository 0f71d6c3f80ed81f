"""What an estimator of your own is told, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Counts(NamedTuple):
    """What was seen so far, as a planner of your own reads it."""

    visits: np.ndarray  # [H, S, A]  how often each (h, x, a) was visited
    rewards: np.ndarray  # [H, S, A]  the sums of its rewards
    squares: np.ndarray  # [H, S, A]  the sums of their squares
    successors: np.ndarray  # [H, S, A, S]  how often each state came next; zero at the last step
    allowed: np.ndarray  # [H, S, A]
    deployed: np.ndarray  # [members, H, S]
    episodes: int  # learned so far
    last: bool  # whether no deployment can follow this one
    generator: np.random.Generator  # depends on the seed and the number of the plan alone

    def greedy(self, q: np.ndarray, member: int = 0) -> np.ndarray:  # [H, S]
        """The best allowed actions for estimates [H, S, A].

        Among equals it is the deployed action, so that nothing switches for nothing, else the
        lowest index.
        """
        shape = self.allowed.shape
        if np.shape(q) != shape or np.isnan(q).any():
            what = "some are NaN" if np.shape(q) == shape else f"they are {np.shape(q)}"
            raise ValueError(f"estimates must be numbers of shape {shape}, but {what}")
        return best_actions(np.where(self.allowed, q, -np.inf), self.deployed[member])


def best_actions(q: np.ndarray, own: np.ndarray) -> np.ndarray:  # [...]
    """The best actions for estimates [..., A]: of equals `own` [...], else the lowest index."""
    from lowswitch.kernels.qlearning import take_best_actions

    actions = own.astype(np.int64).reshape(-1)
    take_best_actions(np.asarray(q, dtype=np.float64).reshape(-1), q.shape[-1], actions)
    return actions.reshape(own.shape)


@dataclass(frozen=True)
class FromCounts:
    """The base of an estimator of your own, which plans from what was counted.

    Define `plan`, and `members` where it deploys a mixture; the library does the rest.
    """

    members = 1

    def plan(self, counts: Counts) -> np.ndarray:  # [H, S], or [members, H, S]
        """The policies to deploy now."""
        raise NotImplementedError(f"{type(self).__name__} must define plan(self, counts)")
