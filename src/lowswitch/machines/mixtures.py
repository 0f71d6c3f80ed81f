"""Mixtures of policies on a fleet: each episode is played by its own member, and the machines with
the same policy play together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowswitch.machines.fleets import Crew, Fleet
from lowswitch.machines.sources import PlayError, Source, Trajectories
from lowswitch.policy import TablePolicy


@dataclass(frozen=True)
class Mixed:
    """A fleet that plays the mixtures of a family; the workers know of one policy at a time as
    ever.
    """

    fleet: Fleet
    deployed: TablePolicy  # draws the members

    def open(self, source: Source, seed: int, policy: np.ndarray) -> MixedCrew:
        """Start workers for a mixture [members, H, S]."""
        return MixedCrew(self.fleet.open(source, seed, policy[0]), self.deployed, policy)


class MixedCrew:
    """Calls a crew once for each policy that plays in a round, with the rows in which it differs
    from the one before.
    """

    def __init__(self, crew: Crew, deployed: TablePolicy, mixture: np.ndarray) -> None:
        self.crew, self.deployed = crew, deployed
        self.mixture, self.known = (
            mixture.copy(),
            mixture[0].copy(),
        )  # [members, H, S], and what the crew has [H, S]
        self.alike = _alike(self.mixture)

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """As any crew; the changes [n, 2 + members] have an action for each member."""
        if len(changes):
            steps, states, *actions = changes.T
            self.mixture[:, steps, states] = actions
            self.alike = _alike(self.mixture)
        shape, members = (
            (len(episodes), self.mixture.shape[1]),
            self.alike[self.deployed.member_for(episodes)],
        )
        played = Trajectories(np.empty(shape, dtype=np.int32), np.empty(shape))
        for member in np.unique(members):
            places = np.flatnonzero(members == member)
            played.states[places], played.rewards[places] = self._play_by(
                self.mixture[member], episodes, places
            )
        return played

    def _play_by(
        self, policy: np.ndarray, episodes: np.ndarray, places: np.ndarray
    ) -> Trajectories:
        steps, states = np.nonzero(policy != self.known)
        self.known = policy.copy()
        try:
            return self.crew.play(
                np.column_stack([steps, states, policy[steps, states]]), episodes[places]
            )
        except PlayError as error:
            raise error.on(int(np.searchsorted(episodes, error.episode))) from error.__cause__

    @property
    def bytes_sent(self) -> int:
        return self.crew.bytes_sent

    @property
    def bytes_received(self) -> int:
        return self.crew.bytes_received

    @property
    def lost(self) -> int:
        return self.crew.lost

    def close(self) -> None:
        self.crew.close()


def _alike(mixture: np.ndarray) -> np.ndarray:  # [members]
    """For each member the first that has the same policy."""
    _, first, which = np.unique(
        mixture.reshape(len(mixture), -1), axis=0, return_index=True, return_inverse=True
    )
    return first[which.reshape(-1)]
