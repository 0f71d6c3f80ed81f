"""What a learner with features believed at one moment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RidgePosterior(NamedTuple):
    """The estimates of a learner, and the newest contexts that it had learned from."""

    weights: np.ndarray  # [H, B, d]
    offsets: np.ndarray  # [H]
    contexts: list[np.ndarray]  # of each step [n, R, d]

    def means(self, step: int) -> np.ndarray:  # [n, A]
        """What each action is expected to be worth in these contexts, from this step on.

        theta.x, plus what all actions of a step have in common.
        """
        products = self.contexts[step] * self.weights[step]  # [n, A, d]: R or B is A
        means: np.ndarray = products.sum(axis=-1) + self.offsets[step]
        return means
