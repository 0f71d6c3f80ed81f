"""Policies that learn nothing, by which the entries of the suite are judged."""

from __future__ import annotations

from typing import Any

import numpy as np


class Constant:
    """Takes action 0 everywhere, and never changes."""

    def __init__(self, *, horizon: int, states: int, **rest: Any) -> None:
        self.policy = np.zeros((horizon, states), dtype=np.int64)

    def tell(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Learn nothing."""
