"""The deployed policy as an object: how it acts, how it differs from another one, and its identity.

A table of actions is the first kind of policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from lowswitch.policy.choice import Choice
from lowswitch.policy.members import Members
from lowswitch.policy.scripts import TableScript


class TablePolicy(Members):
    """One or more tables of actions; each episode plays one of them.

    The noise stream and the episode's number determine which member plays an episode.

    Parameters
    ----------
    actions
        [members, H, S].
    key
        The noise stream.
    has_protocol
        Whether the first table is the protocol, which most cases follow. The members that differ
        from it anywhere are the trial.
    """

    def __init__(self, actions: np.ndarray, key: np.uint64, *, has_protocol: bool = False) -> None:
        self.actions, self.key, self.has_protocol = actions.view(), key, has_protocol
        self.actions.flags.writeable = False
        self.members = len(actions)  # most algorithms deploy one

    @property
    def in_trial(self) -> np.ndarray:  # [members]
        """Which members differ from the protocol; none if there is no protocol."""
        if not self.has_protocol:
            return np.zeros(self.members, dtype=bool)
        return departing(self.actions)

    def table(self, episode: int) -> np.ndarray:  # [H, S]
        """The table that plays an episode, read-only."""
        table: np.ndarray = self.actions[self.member_for(np.array([episode]))[0]]
        return table

    def script(self, episode: int) -> TableScript:
        """How an episode is played."""
        return TableScript(self.table(episode))

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

    def difference(self, other: TablePolicy) -> np.ndarray:  # [n, 2]
        """The rows (step, state) in which some member of the two plays another action."""
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

    If a row changes several times, the last change stays.
    """
    steps, states, *actions = changes.T
    policies[..., steps, states] = actions


def played_first(
    policies: np.ndarray, rows: Iterable[Sequence[int]], actions: Sequence[int]
) -> list[tuple[int, int, int]]:
    """The rows in which the first policy plays one of these actions, each with that action."""
    found = ((h, x, int(policies[0, h, x])) for h, x in rows)
    return [one for one in found if one[2] in actions]


def without_actions(
    policies: np.ndarray, rows: Iterable[Sequence[int]], actions: Sequence[int], instead: int | None
) -> np.ndarray:  # [members, H, S]
    """The policies [members, H, S] that play none of these actions in these rows.

    Where the first one plays one of them, it plays `instead`, and others follow it.
    """
    law = policies.copy()
    for h, x in rows:
        gone = np.isin(law[:, h, x], actions)
        law[0, h, x] = instead if gone[0] and instead is not None else law[0, h, x]
        law[gone, h, x] = law[0, h, x]
    return law
