"""What every run on many machines is held to, whoever plays it."""

import numpy as np

import lowswitch as ls

MACHINES = (1, 2, 7, 64, 1000)
RULES = ("trigger", "switch", "speculate")


class Kept:
    """A fleet whose crew stays for the next run of the same source and seed."""

    bytes_sent = bytes_received = lost = 0

    def __init__(self, fleet, source, seed=0):
        self.crew = fleet.open(source, seed, source.actions_allowed.argmax(axis=-1))

    def open(self, source, seed, policy):
        steps, states = np.indices(policy.shape)
        self.everything = np.stack([steps, states, policy], axis=-1).reshape(-1, 3)
        return self

    def play(self, changes, episodes):
        changes, self.everything = np.concatenate([self.everything, changes]), self.everything[:0]
        return self.crew.play(changes, episodes)

    def close(self):
        """Not yet."""


def sequential(mdp, algorithm, episodes, seed=0):
    return ls.simulate(mdp, algorithm, episodes=episodes, seeds=[seed], history=True)


def same_run(run, sequential):
    """The costs of a sequential run, bit for bit."""
    assert run.history[0].changes.tolist() == sequential.history[0].changes.tolist()
    for name in ("regret", "local_switches", "deployments", "triggers", "policy", "loud_share"):
        assert getattr(run, name).tobytes() == getattr(sequential, name).tobytes(), name
    for one, other in zip(run.curves, sequential.curves, strict=True):
        assert one.tobytes() == other.tobytes()


def same_rounds(one, other):
    """The same rounds, too."""
    for name in ("rounds", "played", "earned", "episodes", "stopped"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("plays", "rounds_at", "played_at", "rounds_curve", "earned_curve"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
