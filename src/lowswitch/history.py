"""The deployment history: the list of row changes that says everything about a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class History:
    """Row changes in order: after `episode` (counted from 0), row (`step`, `state`) plays `action`.

    Where mixtures of policies are deployed a row has an action for each of the `members`, and is
    listed when any of them changed.
    """

    changes: np.ndarray  # [n, 3 + members]  episode, step, state, action of each member

    @property
    def members(self) -> int:
        return int(self.changes.shape[1]) - 3

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
        """The actions [n]; [n, members] of mixtures."""
        return self.changes[:, 3] if self.members == 1 else self.changes[:, 3:]

    @property
    def local_switches(self) -> int:
        """N_sw: the number of row changes; of mixtures those that changed how often each action is
        played.
        """
        return int(np.count_nonzero(self.switched))

    @property
    def switched(self) -> np.ndarray:  # [n]
        """Which row changes are local switches."""
        if self.members == 1:
            return np.ones(len(self.changes), dtype=bool)
        laws = np.sort(
            self.changes[:, 3:], axis=1
        )  # how many members play each action, and not which
        order = np.lexsort((np.arange(len(laws)), self.state, self.step))
        rows, laws = self.changes[order, 1:3], laws[order]
        first = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[
            : len(rows)
        ]  # the first change of a row parts its members
        moved = np.append(True, (laws[1:] != laws[:-1]).any(axis=1))[: len(rows)]
        switched = np.zeros(len(rows), dtype=bool)
        switched[order] = first | moved
        return switched

    @property
    def deployments(self) -> int:
        """N_gl: the number of episodes after which the policy changed."""
        return int(np.count_nonzero(np.diff(self.episode, prepend=-1)))

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"History({self.local_switches} switches, {self.deployments} deployments)"
