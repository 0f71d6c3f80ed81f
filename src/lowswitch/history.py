"""The deployment history: the list of row changes that says everything about a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class History:
    """Row changes in order: after `episode` (counted from 0), row (`step`, `state`) plays `action`."""

    changes: np.ndarray  # [n, 4]  episode, step, state, action

    @property
    def episode(self) -> np.ndarray:
        return self.changes[:, 0]

    @property
    def step(self) -> np.ndarray:
        return self.changes[:, 1]

    @property
    def state(self) -> np.ndarray:
        return self.changes[:, 2]

    @property
    def action(self) -> np.ndarray:
        return self.changes[:, 3]

    @property
    def local_switches(self) -> int:
        """N_sw: the number of row changes."""
        return len(self.changes)

    @property
    def deployments(self) -> int:
        """N_gl: the number of episodes after which the policy changed."""
        return int(np.count_nonzero(np.diff(self.episode, prepend=-1)))

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"History({self.local_switches} switches, {self.deployments} deployments)"
