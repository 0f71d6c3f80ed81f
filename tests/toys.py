"""Sources whose episodes are simple arithmetic, and what may happen to their workers."""

import contextlib
import ctypes
import os
import pathlib
import signal
import sys
import time

import numpy as np

from lowswitch.concurrent.fleets import InProcess
from lowswitch.concurrent.sources import PlayError, Trajectories
from lowswitch.envs.mdp import Scale

H, S, A = 10, 20, 4


NONE = np.empty((0, 3), dtype=int)  # changes


DEADLINE = 20.0  # seconds, for what takes far less


class Toy:
    """States and rewards are arithmetic in episode, step, seed and policy."""

    horizon, states, actions, replayable = H, S, A, True
    actions_allowed = np.ones((H, S, A), dtype=bool)
    scale = Scale(0.0, 1.0)

    def player(self, seed):
        return ToyPlayer(seed, self)

    def facts(self):
        return {"toy": type(self).__name__}

    def befall(self, episodes):
        """What happens to the worker before it plays."""


class ToyPlayer:
    def __init__(self, seed, source):
        self.seed, self.source = seed, source

    def play(self, policy, episodes):
        self.source.befall(episodes)
        x = (episodes[:, None] * 7 + np.arange(H) * 3 + self.seed) % S
        return Trajectories(x.astype(np.int32), (policy[np.arange(H), x] + x % 7) / 10)

    def close(self):
        pass


class Trouble(Toy):
    """Something happens whenever an episode is played.

    With a file it happens only once, and the file keeps the pid of the worker to which it happened.
    """

    def __init__(self, trouble, episode, once_in=None):
        self.trouble, self.episode, self.once_in = trouble, episode, once_in

    def befall(self, episodes):
        if self.episode in episodes and self.first_time():
            self.trouble(self.episode)

    def first_time(self):
        if self.once_in is None:
            return True
        with contextlib.suppress(FileExistsError), open(self.once_in, "x") as file:
            file.write(str(os.getpid()))
            return True
        return False


def die(episode):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(episode):
    time.sleep(1000)


def hang_with_the_gil(episode):
    ctypes.PyDLL(None).sleep(1000)


def raise_error(episode):
    raise PlayError("the valve is stuck", episode, 3) from OSError("no contact")


def raise_error_nowhere(episode):
    raise PlayError("the valve is stuck", None)


def raise_error_elsewhere(episode):
    raise PlayError("the valve is stuck", 999)


class LocalError(Exception):
    def __init__(self):
        super().__init__(lambda: None)  # cannot be pickled


def raise_unpicklable(episode):
    raise LocalError


def leave(episode):
    sys.exit(7)


class DiesAtStart(Toy):
    def player(self, seed):
        os._exit(9)


class FailsAtStart(Toy):
    def player(self, seed):
        raise OSError("no licence for the simulator")


class Misshapen(Toy):
    def player(self, seed):
        return self

    def play(self, policy, episodes):
        return Trajectories(
            np.zeros((len(episodes), 1), dtype=np.int32), np.zeros((len(episodes), 1))
        )

    def close(self):
        pass


# ---- small helpers -------------------------------------------------------------------------------


def some_changes(generator, n=5):
    return np.stack([generator.integers(0, top, n) for top in (H, S, A)], axis=1)


def zeros():
    return np.zeros((H, S), dtype=int)


def same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)


def plays_right(opened, episodes):
    """The open fleet of seed 5 plays what this process plays."""
    same(opened.play(NONE, episodes), InProcess().open(Toy(), 5, zeros()).play(NONE, episodes))


def pids(opened):
    return [worker.process.pid for worker in opened.workers]


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    return [
        int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]


def until(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def everybody_up(opened):
    """Play until the last worker is there, so that none of them is idle by being late."""
    until(lambda: opened.play(NONE, np.arange(9)) and all(worker.up for worker in opened.workers))
    return opened
