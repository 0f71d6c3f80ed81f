"""The interface of a fleet: a frozen value such as `Processes(workers=4)` that says who plays.

Opening it gives an open fleet, whose workers play the episodes of a round by one policy. The fleet
in this process is defined here; fleets with workers elsewhere are in `processes` and `cluster`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lowswitch.concurrent.sources import Player, PlayError, Source, Trajectories
from lowswitch.concurrent.sums import SummedPiece, Summing, Turns
from lowswitch.policy.tables import change_rows


class FleetError(RuntimeError):
    """The workers cannot play: they do not start, do not answer, or die repeatedly."""


class OpenFleet(Protocol):
    """Workers that know the deployed policy."""

    @property
    def bytes_sent(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def lost(self) -> int:
        """The number of workers that died or hung and were replaced."""

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """Change rows [n, 3] (step, state, action) of the policy, then play these episodes [B].

        The workers play in any order; row i of the result is the episode `episodes[i]`.
        """

    def close(self) -> None:
        """End every worker and leave nothing behind."""


class Fleet(Protocol):
    """Says who plays; it can be opened any number of times."""

    def open(self, source: Source, seed: int, policy: np.ndarray) -> OpenFleet:
        """Start workers that know a policy [H, S]."""


def machine_of(episode: int, episodes: np.ndarray, otherwise: int = 0) -> int:
    """The machine that plays an episode: the episode's place in the round.

    Returns `otherwise` if an error names no episode, or one outside the round.
    """
    places = np.flatnonzero(episodes == episode)
    return int(places[0]) if len(places) else otherwise


@dataclass(frozen=True)
class InProcess:
    """Play in this process alone, one episode after the other."""

    def open(self, source: Source, seed: int, policy: np.ndarray) -> OpenInProcess:
        return OpenInProcess(source.player(seed), policy)


class OpenInProcess:
    """The open fleet of this process: one player, to which nothing has to be sent."""

    bytes_sent = bytes_received = lost = 0

    def __init__(self, player: Player, policy: np.ndarray) -> None:
        self.player, self.policy = player, policy.copy()
        self.summing = Summing(len(policy))

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        change_rows(self.policy, changes)
        try:
            return self.player.play(self.policy, episodes)
        except PlayError as error:
            raise error.on(machine_of(error.episode, episodes)) from error.__cause__

    def sum_turns(
        self, changes: np.ndarray, machines: np.ndarray, turns: Turns
    ) -> list[SummedPiece]:
        change_rows(self.policy, changes)
        try:
            return [self.summing.reply((0, 0), self.player, self.policy, machines, turns)]
        except PlayError as error:
            raise error.on(error.episode % turns.machines) from error.__cause__

    def close(self) -> None:
        self.player.close()
