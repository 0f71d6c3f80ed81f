"""The paper's pseudo-code in plain Python, and an environment played from outside: what the kernels are held against."""

import math

import numpy as np

from lowswitch import kernels
from lowswitch.algorithms import Bernstein
from lowswitch.simulate import stream_key


class PlainLearner:
    """Bai et al. 2019, Algorithms 2 and UCB2B, line by line: two tables of Q and no cleverness.

    `copy` is what a trigger at (h, x, a) refreshes: "row" the deployed Q_h(x, .), "entry" only Q_h(x, a).
    """

    def __init__(self, algorithm, mdp, episodes, copy="row"):
        self.H, self.S, self.A = H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.copy, self.bonus, self.allowed = copy, algorithm.bonus, mdp.actions_allowed
        self.iota = algorithm.iota(horizon=H, states=S, actions=A, episodes=episodes)
        triggers = algorithm.schedule.triggers(horizon=H, limit=episodes)
        self.triggers = set(range(1, triggers.every_until + 1)) | set(triggers.later)
        self.caps = algorithm.estimator.caps(H)
        self.running = np.where(self.allowed, self.caps[:, None, None], -np.inf)
        self.deployed = self.running.copy()
        self.V = np.vstack([np.repeat(self.caps[:, None], S, axis=1), np.zeros(S)])
        self.N = np.zeros((H, S, A), dtype=int)
        self.mu, self.sigma, self.beta = np.zeros((3, H, S, A))
        self.policy = self.allowed.argmax(axis=-1)
        self.bonuses = {}  # (h, x, a) -> every b_t

    def digest(self, h, x, a, r, y):
        H, here = self.H, (h, x, a)
        self.N[here] += 1
        t = int(self.N[here])
        alpha = (H + 1) / (H + t)
        following = self.V[h + 1, y]
        weighted = self.weighted_bonus(here, t, alpha, following)
        self.bonuses.setdefault(here, []).append(weighted / alpha)
        self.running[here] = (1 - alpha) * self.running[here] + alpha * (r + following) + weighted
        self.V[h, x] = min(self.caps[h], self.running[h, x].max())
        if t in self.triggers:
            if self.copy == "row":
                self.deployed[h, x] = self.running[h, x]
            else:
                self.deployed[here] = self.running[here]
            self.refresh(h, x)

    def weighted_bonus(self, here, t, alpha, following):
        H, S, A, share = self.H, self.S, self.A, 1.0 / t
        if not isinstance(self.bonus, Bernstein):
            return alpha * (self.bonus.c * math.sqrt(H**3 * self.iota * share))
        self.mu[here] += following
        self.sigma[here] += following * following
        W = max(0.0, self.sigma[here] * share - (self.mu[here] * share) ** 2)
        spread = math.sqrt(H * self.iota * share * (W + H)) + float(H**7 * S * A) ** 0.5 * self.iota * share
        beta = min(self.bonus.c1 * spread, self.bonus.c2 * math.sqrt(H**3 * self.iota * share))
        before, self.beta[here] = self.beta[here], beta
        return 0.5 * (beta - (1 - alpha) * before)

    def refresh(self, h, x):
        row = self.deployed[h, x]
        if row[self.policy[h, x]] < row.max():
            self.policy[h, x] = row.argmax()


def noise(seed, address):
    return np.uint64(kernels.noise(stream_key(seed), np.uint64(address)))


def sample(mdp, seed, k, h, x, a):
    """Reward and successor of (seed, episode, step), the noise addressed as the simulator does."""
    model, address = mdp.model, kernels.episode_address(k, mdp.horizon) + 1 + 2 * h
    row = x * mdp.actions + a
    y = kernels.draw(model.heads, model.columns, h * model.stride + row, noise(seed, address))
    reward = model.rewards[h * model.reward_stride + row]
    if model.bernoulli:
        reward = float(kernels.uniform(noise(seed, address + 1)) < reward)
    return reward, int(y)


def start(mdp, seed, k):
    if len(mdp.start_sequence):
        return int(mdp.start_sequence[k])
    bits = noise(seed, kernels.episode_address(k, mdp.horizon))
    return int(kernels.draw(mdp.model.heads, mdp.model.columns, len(mdp.model.heads) - 1, bits))


def play_episode(mdp, policy, seed, k):
    """States, actions and rewards [H] of one episode."""
    x, states, actions, rewards = start(mdp, seed, k), [], [], []
    for h in range(mdp.horizon):
        a = int(policy[h, x])
        reward, y = sample(mdp, seed, k, h, x, a)
        states.append(x)
        actions.append(a)
        rewards.append(reward)
        x = y
    return states, actions, rewards


def play_plain(mdp, algorithm, episodes, seed, copy="row"):
    """The learner after its episodes, and its row changes as (episode, step, state, action)."""
    learner, changes = PlainLearner(algorithm, mdp, episodes, copy), []
    for k in range(episodes):
        before = learner.policy.copy()
        states, actions, rewards = play_episode(mdp, before, seed, k)
        for h in range(mdp.horizon):
            assert learner.policy[h, states[h]] == actions[h], "the policy changed inside an episode"
            y = states[h + 1] if h + 1 < mdp.horizon else 0
            learner.digest(h, states[h], actions[h], rewards[h], y)
        changes += [(k, h, x, learner.policy[h, x]) for h, x in np.argwhere(learner.policy != before)]
    return learner, np.array(changes).reshape(-1, 4)
