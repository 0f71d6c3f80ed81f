"""What is deployed, as an object: how it acts, how it differs from another one, and its identity.

A table of actions is the first kind of policy.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np

from lowswitch.kernels.streams import drawn_members
from lowswitch.policy.choice import Choice

Part = Literal["protocol", "trial"]


class TablePolicy:
    """One or more tables of actions [members, H, S], of which each episode plays one.

    Which member plays an episode is drawn from the noise stream `key` and the episode's number.

    has_protocol: the first table is the protocol, which most cases follow. The members that differ
    from it anywhere are the trial.
    """

    def __init__(self, actions: np.ndarray, key: np.uint64, *, has_protocol: bool = False) -> None:
        self.actions, self.key, self.has_protocol = actions.view(), key, has_protocol
        self.actions.flags.writeable = False

    @property
    def members(self) -> int:
        """How many tables there are; most algorithms deploy one."""
        return len(self.actions)

    @property
    def in_trial(self) -> np.ndarray:  # [members]
        """Which members differ from the protocol; none where there is no protocol."""
        if not self.has_protocol:
            return np.zeros(self.members, dtype=bool)
        return departing(self.actions)

    @property
    def share(self) -> float | None:
        """The share of the cases that enter the trial; None where there is no protocol."""
        return float(self.in_trial.mean()) if self.has_protocol else None

    def part(self, episode: int) -> Part | None:
        """Whether an episode is in the trial or follows the protocol; None if there is neither."""
        if not self.has_protocol:
            return None
        return "trial" if self.in_trial[self.member_for(np.array([episode]))[0]] else "protocol"

    def table(self, episode: int) -> np.ndarray:  # [H, S]
        """The table that plays an episode, read-only."""
        table: np.ndarray = self.actions[self.member_for(np.array([episode]))[0]]
        return table

    def act(self, state: int, episode: int, step: int = 0) -> Choice:
        """The action in a state at a step of an episode, and the share of members that play it."""
        _, H, S = self.actions.shape
        if not (0 <= step < H and 0 <= state < S):
            raise ValueError(
                f"there is no step {step} with state {state}: steps are 0 to {H - 1}, states 0 to "
                f"{S - 1}"
            )
        action = int(self.table(episode)[step, state])
        return Choice(action, float((self.actions[:, step, state] == action).mean()))

    def member_for(self, episodes: np.ndarray) -> np.ndarray:  # [B]
        """Which member plays each of these episodes [B]."""
        return drawn_members(self.key, self.members, episodes)

    def difference(self, other: TablePolicy) -> np.ndarray:  # [n, 2]
        """The rows (step, state) in which any member of the two plays another action."""
        if self.actions.shape != other.actions.shape:
            shapes = f"{self.actions.shape} and {other.actions.shape}"
            raise ValueError(f"policies of shapes {shapes} have no rows in common to compare")
        return np.argwhere((self.actions != other.actions).any(axis=0))

    @property
    def identity(self) -> str:
        """A digest that two policies share only if they play the same."""
        facts = f"table {self.actions.shape} {int(self.key) if self.members > 1 else 0}"
        actions = np.ascontiguousarray(self.actions, dtype="<i8").tobytes()
        return hashlib.sha256(facts.encode() + actions).hexdigest()

    def __repr__(self) -> str:
        members, H, S = self.actions.shape
        return f"TablePolicy({members} x {H} steps x {S} states, {self.identity[:12]})"


def departing(policies: np.ndarray) -> np.ndarray:  # [members]
    """Which of the policies [members, H, S] differ from the first one."""
    others: np.ndarray = (policies != policies[:1]).any(axis=(1, 2))
    return others


def change_rows(policies: np.ndarray, changes: np.ndarray) -> None:
    """Change rows of policies [H, S] or [members, H, S]: [n, 2 + members] step, state, actions.

    Of several changes of a row the last one stays.
    """
    steps, states, *actions = changes.T
    policies[..., steps, states] = actions
