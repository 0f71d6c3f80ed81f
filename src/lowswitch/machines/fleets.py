"""Who plays: a fleet is a frozen value that opens a crew, and a crew plays the episodes of a round
by one policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lowswitch.machines.sources import Player, PlayError, Source, Trajectories


class FleetError(RuntimeError):
    """The workers cannot play: they do not start, do not answer, or die again and again."""


class Crew(Protocol):
    """Workers that know the deployed policy; whoever plays an episode, it comes back at its
    place.
    """

    @property
    def bytes_sent(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def lost(self) -> int:
        """Workers that died or hung and were replaced."""

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        """Take over row changes [n, 3] (step, state, action) of the policy, then play these
        episodes [B], in any order and place.
        """

    def close(self) -> None:
        """End every worker; nothing is left behind."""


class Fleet(Protocol):
    def open(self, source: Source, seed: int, policy: np.ndarray) -> Crew:
        """Start workers that know a policy [H, S]."""


def machine_of(episode: int, episodes: np.ndarray, low: int = 0) -> int:
    """The place of an episode in its round; `low`, where the piece began, if a player names none or
    one that is not there.
    """
    places = np.flatnonzero(episodes == episode)
    return int(places[0]) if len(places) else low


@dataclass(frozen=True)
class InProcess:
    """Everything in this process, one episode after the other."""

    def open(self, source: Source, seed: int, policy: np.ndarray) -> Solo:
        return Solo(source.player(seed), policy)


class Solo:
    """A crew of one, here; nothing is sent."""

    bytes_sent = bytes_received = lost = 0

    def __init__(self, player: Player, policy: np.ndarray) -> None:
        self.player, self.policy = player, policy.copy()

    def play(self, changes: np.ndarray, episodes: np.ndarray) -> Trajectories:
        steps, states, actions = changes.T
        self.policy[steps, states] = actions
        try:
            return self.player.play(self.policy, episodes)
        except PlayError as error:
            raise error.on(machine_of(error.episode, episodes)) from error.__cause__

    def close(self) -> None:
        self.player.close()
