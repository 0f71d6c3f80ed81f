"""The posterior of a learner with features at one moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RidgePosterior(NamedTuple):
    """The estimates of a learner, and the newest contexts that it had learned from."""

    weights: np.ndarray  # [H, B, d]
    offsets: np.ndarray  # [H]
    contexts: list[np.ndarray]  # of each step [n, R, d]
    intercepts: np.ndarray  # [H, B]  the weights of the constant; 0 where there is none
    odds: bool = False  # whether all of this is log-odds of a reward of 1

    def means(self, step: int) -> np.ndarray:  # [n, A]
        """The expected value of each action in these contexts, from this step on.

        theta.x, plus the common part of all actions of a step and the intercept of each.
        """
        products = self.contexts[step] * self.weights[step]  # [n, A, d]: R or B is A
        means: np.ndarray = products.sum(axis=-1) + self.intercepts[step] + self.offsets[step]
        return 1.0 / (1.0 + np.exp(-means)) if self.odds else means
