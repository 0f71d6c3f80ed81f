"""What runs in a worker: orders go in, answers come out, whatever carries them."""

from __future__ import annotations

import pickle
import time
import traceback
from typing import NamedTuple, cast

import numpy as np

from lowswitch.machines.sources import PlayError, Source, Trajectories


class Order(NamedTuple):
    """What a worker is asked to do; asked twice, it does the same."""

    key: tuple[int, int]  # the round, and the place of the first episode in it
    policy: np.ndarray | None  # [H, S]  for a worker that knows none or an old one
    changes: np.ndarray  # [n, 3]  otherwise: the rows it has not heard of
    episodes: np.ndarray  # [b]


class Answer(NamedTuple):
    key: tuple[int, int]
    seconds: float
    states: np.ndarray  # [b, H]  int32
    rewards: np.ndarray  # [b, H]


class Failure(NamedTuple):
    """A PlayError as text and numbers: those can always be sent."""

    key: tuple[int, int]
    message: str
    episode: int
    step: int | None
    traceback: str


class Station:
    """A player with the policy as far as its worker has heard of it."""

    def __init__(self, source: bytes) -> None:
        made, seed = cast(tuple[Source, int], pickle.loads(source))
        self.horizon, self.player = made.horizon, made.player(seed)
        self.policy = np.empty((0, 0), dtype=int)

    def play(self, order: Order) -> Answer | Failure:
        begin = time.perf_counter()
        try:
            states, rewards = self._played(order)
        except PlayError as error:
            return Failure(
                order.key, str(error.message), error.episode, error.step, traceback.format_exc()
            )
        except (
            BaseException
        ) as error:  # also an environment that calls exit(): the driver must hear of it
            return Failure(
                order.key, repr(error), int(order.episodes[0]), None, traceback.format_exc()
            )
        return Answer(order.key, time.perf_counter() - begin, states, rewards)

    def _played(self, order: Order) -> Trajectories:
        if order.policy is not None:
            self.policy = order.policy.copy()
        steps, states, actions = order.changes.T
        self.policy[steps, states] = actions
        played = self.player.play(
            self.policy, order.episodes.copy()
        )  # what arrives is read-only, a kernel would compile anew for it
        shape = len(order.episodes), self.horizon
        if np.shape(played.states) != shape or np.shape(played.rewards) != shape:
            raise ValueError(
                f"the player returned states {np.shape(played.states)} and rewards"
                f" {np.shape(played.rewards)}, not [b, H] = {shape}"
            )
        return Trajectories(
            np.ascontiguousarray(played.states, dtype=np.int32),
            np.ascontiguousarray(played.rewards, dtype=float),
        )

    def close(self) -> None:
        self.player.close()
