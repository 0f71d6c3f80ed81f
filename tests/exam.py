"""What every run on many machines is held to, whoever plays it."""

import numpy as np

import lowswitch as ls
from conftest import ALGORITHMS
from lowswitch.concurrent import InProcess, System
from lowswitch.concurrent.sources import Tabular

MACHINES = (1, 2, 7, 64, 1000)
RULES = ("trigger", "switch", "speculate")
EPISODES = 1500
OTHER_LEARNERS = {
    name: algorithm
    for name, algorithm in ALGORITHMS.items()
    if algorithm.members > 1 or not isinstance(algorithm.estimator, ls.QLearning)
}


def in_turn(values, *others):
    """Each of the values once, and the others in turn: all of them are met, but not all pairs."""
    lists = [list(other) for other in others]
    return [(value, *(one[i % len(one)] for one in lists)) for i, value in enumerate(values)]


# ---- what plays ----------------------------------------------------------------------------------


class RoundByRound:
    """In this process, but with a call for each round, as every other fleet has it."""

    def open(self, source, seed, policy):
        return InProcess().open(source, seed, policy)


class StaysOpen:
    """A fleet whose workers stay for the next run of the same source and seed."""

    bytes_sent = bytes_received = lost = 0

    def __init__(self, fleet, source, seed=0):
        self.opened = fleet.open(source, seed, source.actions_allowed.argmax(axis=-1))

    def open(self, source, seed, policy):
        steps, states = np.indices(policy.shape)
        self.everything = np.stack([steps, states, policy], axis=-1).reshape(-1, 3)
        return self

    def play(self, changes, episodes):
        changes, self.everything = np.concatenate([self.everything, changes]), self.everything[:0]
        return self.opened.play(changes, episodes)

    def close(self):
        """Not yet."""


def system_of(mdp, **options):
    """A TabularMDP behind a function."""
    player = Tabular(mdp).player(0)

    def play(policy, episodes):
        played = player.play(policy, episodes)
        return played.states, policy[np.arange(mdp.horizon), played.states], played.rewards

    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    return System(play, **size, actions_allowed=mdp.actions_allowed, **options)


def overwrites(policy, episodes):
    """The play of a system with H = 3 that spoils its arguments."""
    states = np.zeros((len(episodes), 3), dtype=int)
    actions = policy[np.arange(3), states]
    policy[:], episodes[:] = 9, -1
    return states, actions, np.zeros((len(episodes), 3))


# ---- what comes out ------------------------------------------------------------------------------


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
