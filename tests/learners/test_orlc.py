"""ORLC against a plain twin that plans everything anew after every episode."""

import math

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS, learner_for
from lowswitch.reproduce.pseudocode import play_episode


class Plain:
    """Counts, and the equations of Dann, Li, Wei, Brunskill 2019, ORLC, as they stand."""

    def __init__(self, mdp, c, p=0.05, *, pooled=False):
        self.H, self.S, self.A = mdp.horizon, mdp.states, mdp.actions
        self.allowed, self.c, self.pooled = mdp.actions_allowed, c, pooled
        events = self.H + 1 + self.S if pooled else self.H * (2 + self.S)
        self.log = math.log(26 * self.S * self.A * events / p)
        shape = (1 if pooled else self.H, self.S, self.A)
        self.n, self.followed, self.rewards = (np.zeros(shape) for _ in range(3))
        self.next = np.zeros((*shape, self.S))
        self.policy = self.allowed.argmax(axis=-1)

    def learn(self, states, actions, rewards):
        for h in range(self.H):
            cell = (0 if self.pooled else h, states[h], actions[h])
            self.n[cell] += 1
            self.rewards[cell] += rewards[h]
            if h + 1 < self.H:
                self.followed[cell] += 1
                self.next[(*cell, states[h + 1])] += 1
        self.plan()

    def plan(self):
        H, S = self.H, self.S
        self.upper, self.lower = np.zeros((H + 1, S)), np.zeros((H + 1, S))
        for h in range(H - 1, -1, -1):
            for x in range(S):
                found = {a: self.estimates(h, x, a) for a in np.flatnonzero(self.allowed[h, x])}
                best = max(found, key=lambda a: found[a][0])  # the lowest one of equals
                self.upper[h, x], self.lower[h, x] = found[best]
                if found[self.policy[h, x]][0] < found[best][0]:
                    self.policy[h, x] = best

    def estimates(self, h, x, a):
        cell, most = (0 if self.pooled else h, x, a), self.H - h
        n = self.n[cell] if h + 1 == self.H else self.followed[cell]
        if n == 0:
            return most, 0.0
        law = self.next[cell] / n if h + 1 < self.H else np.zeros(self.S)
        upper, lower = self.upper[h + 1], self.lower[h + 1]
        loglog = math.log(math.log(max(math.e, n)))
        phi = self.c * min(1, math.sqrt(0.52 / n * (1.4 * loglog + self.log)))
        deviation = math.sqrt(max(0, law @ upper**2 - (law @ upper) ** 2))
        psi = (1 + math.sqrt(12) * deviation) * phi + 45 * self.S * self.H**2 * phi**2
        psi += law @ (upper - lower) / self.H
        reward = self.rewards[cell] / self.n[cell]
        ends = reward + law @ upper + psi, reward + law @ lower - psi
        return tuple(min(most, max(0, end)) for end in ends)


@pytest.mark.parametrize(("problem", "pooled"), [("dense", True), ("per-step", False)])
def test_orlc_is_its_plain_twin(problem, pooled):
    mdp = PROBLEMS[problem]()
    learner = learner_for(mdp, ls.orlc(c=0.03, pooled=pooled), 2000)
    plain = Plain(mdp, 0.03, pooled=pooled)
    for k in range(2000):
        assert (learner.policy == plain.policy).all(), k
        episode = play_episode(mdp, learner.policy, 0, k)
        learner.tell(*episode)
        plain.learn(*episode)
    H, S = mdp.horizon, mdp.states
    upper, lower = learner._knowledge.tables.values.reshape(2, H + 1, S)
    assert upper == pytest.approx(plain.upper, abs=1e-9)
    assert lower == pytest.approx(plain.lower, abs=1e-9)
    assert learner.deployments > 3
    assert lower.max() > 0


def test_values_lie_between_at_the_provable_scale():
    """Upper and lower values hold with 95 % at c = 1, and are far apart after 300 episodes."""
    mdp = PROBLEMS["dense"]()
    learner = learner_for(mdp, ls.orlc(pooled=True), 300)
    for k in range(300):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    upper, lower = learner._knowledge.tables.values.reshape(2, 4, 4)
    assert (lower <= mdp.optimal_values + 1e-9).all()
    assert (mdp.optimal_values <= upper + 1e-9).all()
    bounds = learner.bounds()
    assert bounds.gap < (upper - lower)[0].max()  # which `bounds` narrows


def test_an_action_that_is_forbidden_leaves_the_lower_values_whole():
    mdp = PROBLEMS["dense"]()
    learner = ls.Learner(
        ls.orlc(c=0.003, schedule="growth/2.0"), **mdp.size, episodes=100, gate="review"
    )
    for k in range(100):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
        if learner.proposal() is not None:
            break
    row = next(row for row in learner.proposal().rows if row.new_actions)
    learner.reject(rows=[row.row], forever=True)
    again = ls.Learner.from_bytes(learner.to_bytes())
    for k in range(learner.told, 100):
        episode = play_episode(mdp, learner.policy, 0, k)
        learner.tell(*episode)
        again.tell(*episode)
    assert again.digest() == learner.digest()
