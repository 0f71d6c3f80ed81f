"""Play a mixture of policies with a fleet whose workers know one policy at a time."""

from __future__ import annotations

import numpy as np

from lowswitch.concurrent.fleets import OpenFleet, machine_of
from lowswitch.concurrent.sources import PlayError, Trajectories
from lowswitch.policy.tables import TablePolicy, change_rows


class MixturePlay:
    """Play each episode of a round by the member that is drawn for it.

    Machines with the same policy play together. Each policy that plays in a round takes one call of
    the fleet, with the rows in which it differs from the policy of the previous call.
    """

    def __init__(self, fleet: OpenFleet, deployed: TablePolicy) -> None:
        """Take a fleet that was opened with the first member of the deployed mixture."""
        self.fleet, self.deployed = fleet, deployed
        self.mixture = deployed.actions.copy()  # [members, H, S]
        self.known = self.mixture[0].copy()  # [H, S]  the policy that the fleet has
        self.alike = _alike(self.mixture)

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """Play a round as a fleet does; a change [2 + members] has an action for each member."""
        if len(changes):
            change_rows(self.mixture, changes)
            self.alike = _alike(self.mixture)
        members = self.alike[self.deployed.member_for(episodes)]
        played = Trajectories.empty(len(episodes), self.mixture.shape[1])
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
        changes = np.column_stack([steps, states, policy[steps, states]])
        try:
            return self.fleet.play(changes, episodes[places])
        except PlayError as error:
            raise error.on(machine_of(error.episode, episodes)) from error.__cause__


def _alike(mixture: np.ndarray) -> np.ndarray:  # [members]
    """For each member, the first member with the same policy."""
    _, first, which = np.unique(
        mixture.reshape(len(mixture), -1), axis=0, return_index=True, return_inverse=True
    )
    return first[which.reshape(-1)]
