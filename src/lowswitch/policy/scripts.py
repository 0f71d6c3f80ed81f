"""How a deployed policy plays one episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from lowswitch.policy.linear import LinearPolicy


class TableScript(NamedTuple):
    """An episode that is played by one table."""

    table: np.ndarray  # [H, S], whose last state is of an episode that is over

    @property
    def horizon(self) -> int:
        return len(self.table)

    def action(self, context: int, step: int) -> int:
        """The action in a state."""
        return int(self.table[step, context])

    def after_end(self) -> tuple[np.ndarray, np.ndarray]:  # [H] and [H]
        """What the steps after the end of an episode are told as: states and actions."""
        over = self.table.shape[1] - 1
        return np.full(self.horizon, over), self.table[:, over].astype(np.int64)

    def plays_as(self, other: TableScript) -> bool:
        """Whether another script plays the same."""
        return np.array_equal(self.table, other.table)


class LinearScript(NamedTuple):
    """An episode that is played by a policy on features."""

    policy: LinearPolicy
    episode: int  # which draws one of its members

    @property
    def horizon(self) -> int:
        return self.policy.shape.horizon

    def action(self, context: Any, step: int) -> int:
        """The action for features."""
        return self.policy.act(context, self.episode, step).action

    def after_end(self) -> tuple[np.ndarray, np.ndarray]:  # [H, d] and [H]
        """What the steps after the end of an episode are told as: features and actions."""
        shape = self.policy.shape
        return np.zeros((shape.horizon, shape.features)), np.full(shape.horizon, -1)

    def plays_as(self, other: LinearScript) -> bool:
        """Whether another script plays the same."""
        return self.policy is other.policy and self.episode == other.episode


Script = TableScript | LinearScript
