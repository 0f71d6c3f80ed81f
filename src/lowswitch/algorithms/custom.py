"""The data that an estimator of your own receives, and the interface it implements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lowswitch.algorithms.fingerprints import remember


class Counts(NamedTuple):
    """The data so far, as your own planner reads them."""

    visits: np.ndarray  # [H, S, A]  number of visits to each (h, x, a)
    rewards: np.ndarray  # [H, S, A]  sum of its rewards
    squares: np.ndarray  # [H, S, A]  sum of its squared rewards
    successors: np.ndarray  # [H, S, A, S]  how often each state followed; zero at the last step
    allowed: np.ndarray  # [H, S, A]
    deployed: np.ndarray  # [members, H, S]
    episodes: int  # number learned from so far
    last: bool  # whether no later deployment is possible
    generator: np.random.Generator  # depends only on the seed and the plan's number

    def greedy(self, q: np.ndarray, member: int = 0) -> np.ndarray:  # [H, S]
        """The best allowed actions for estimates [H, S, A].

        Ties go to the deployed action, so that nothing switches without a reason, and otherwise to
        the lowest index.
        """
        shape = self.allowed.shape
        if np.shape(q) != shape or np.isnan(q).any():
            what = "some are NaN" if np.shape(q) == shape else f"they are {np.shape(q)}"
            raise ValueError(f"estimates must be numbers of shape {shape}, but {what}")
        return best_actions(np.where(self.allowed, q, -np.inf), self.deployed[member])


def best_actions(q: np.ndarray, own: np.ndarray) -> np.ndarray:  # [...]
    """The best actions for estimates [..., A]; ties go to `own` [...], then to the lowest index."""
    from lowswitch.kernels.qlearning import take_best_actions

    actions = own.astype(np.int64).reshape(-1)
    take_best_actions(np.asarray(q, dtype=np.float64).reshape(-1), q.shape[-1], actions)
    return actions.reshape(own.shape)


@dataclass(frozen=True)
class FromCounts:
    """Base class for an estimator of your own that plans from counts.

    Define `plan`, and also `members` if it deploys a mixture. The library does the rest.
    """

    members = 1

    def __init_subclass__(cls) -> None:
        remember(cls)

    def plan(self, counts: Counts) -> np.ndarray:  # [H, S], or [members, H, S]
        """Return the policies to deploy now."""
        raise NotImplementedError(f"{type(self).__name__} must define plan(self, counts)")
