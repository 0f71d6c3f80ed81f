"""The code in a worker: it plays pieces of rounds, however messages reach it."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from lowswitch.concurrent.sources import PlayError, Source, Trajectories
from lowswitch.concurrent.sums import SummedPiece, Summing, Turns, whole
from lowswitch.policy.tables import change_rows


class Assignment(NamedTuple):
    """A piece of a round for a worker to play. A worker that gets it twice plays the same twice."""

    key: tuple[int, int]  # the round, and the place of the piece's first episode in it
    policy: np.ndarray | None  # [H, S]  for a worker without a policy, or with too old a one
    changes: np.ndarray  # [n, 3]  for the others: the row changes that they do not know yet
    episodes: np.ndarray  # [b]; with turns, the machines
    turns: Turns | None = None  # if sums are wanted


class PlayedPiece(NamedTuple):
    """The trajectories of a piece, and how long they took."""

    key: tuple[int, int]
    seconds: float
    states: np.ndarray  # [b, H]  int32
    rewards: np.ndarray  # [b, H]


class FailedPiece(NamedTuple):
    """A PlayError as text and numbers, because an exception cannot always be pickled."""

    key: tuple[int, int]
    message: str
    episode: int
    step: int | None
    traceback: str


Reply = PlayedPiece | FailedPiece | SummedPiece


def pickled(source: Source, seed: int, dumps: Callable[..., bytes], place: str) -> bytes:
    """The pickled source and seed for a `PiecePlayer`; errors name `place` as the destination."""
    try:
        return dumps((source, seed), protocol=5)
    except Exception as error:  # Pickling raises whatever the object's methods raise.
        raise ValueError(
            f"{type(source).__name__} cannot be sent to another {place} ({error}); build it from"
            " functions and classes at the top level of a module, or play with InProcess()"
        ) from error


class PiecePlayer:
    """A player of the source, and the policy as far as its worker knows it."""

    def __init__(self, packed: bytes) -> None:
        source, seed = cast(tuple[Source, int], pickle.loads(packed))
        self.horizon, self.player = source.horizon, source.player(seed)
        self.policy, self.summing = np.empty((0, 0), dtype=int), Summing(source.horizon)

    def play(self, asked: Assignment) -> Reply:
        begin = time.perf_counter()
        try:
            self._follow(asked)
            if asked.turns is not None:
                machines = asked.episodes.copy()
                return self.summing.reply(
                    asked.key, self.player, self.policy, machines, asked.turns
                )
            played = self._play(asked)
        except PlayError as error:
            where = error.episode, error.step
            return FailedPiece(asked.key, str(error.message), *where, traceback.format_exc())
        except BaseException as error:
            # Even an environment that calls exit() must not end the worker: the driver must be
            # told.
            first = int(asked.episodes[0]) + (asked.turns.first if asked.turns else 0)
            return FailedPiece(asked.key, repr(error), first, None, traceback.format_exc())
        return PlayedPiece(asked.key, time.perf_counter() - begin, *played)

    def _follow(self, asked: Assignment) -> None:
        """Bring the policy up to date."""
        if asked.policy is not None:
            self.policy = asked.policy.copy()
        change_rows(self.policy, asked.changes)

    def _play(self, asked: Assignment) -> Trajectories:
        # Ray delivers arrays read-only, and a kernel would be recompiled for such an array.
        played = self.player.play(self.policy, asked.episodes.copy())
        return whole(played, (len(asked.episodes), self.horizon))

    def close(self) -> None:
        self.player.close()
