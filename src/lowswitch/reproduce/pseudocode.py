"""The paper's pseudo-code in plain Python, and an environment that is played from outside: the
kernels are compared with these.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.estimators import Bernstein, Hoeffding, QLearning
from lowswitch.envs.mdp import TabularMDP
from lowswitch.kernels.streams import stream_key


class PlainLearner:
    """Bai et al. 2019, Algorithms 2 and UCB2B, line by line: two tables of Q and no cleverness.

    copy: what a trigger at (h, x, a) refreshes; "row" is Q_h(x, .), "entry" is Q_h(x, a) alone,
    "step" all of Q_h, as in the paper's concurrent algorithm. ties: "incumbent" as in `refresh`;
    "random" draws among the best after every episode.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        mdp: TabularMDP,
        episodes: int,
        copy: str = "row",
        ties: str = "incumbent",
    ) -> None:
        if not (
            isinstance(algorithm.estimator, QLearning)
            and isinstance(algorithm.bonus, Hoeffding | Bernstein)
        ):
            raise ValueError(f"{algorithm} is not one of the paper's")
        self.H, self.S, self.A = H, S, A = mdp.horizon, mdp.states, mdp.actions
        self.copy, self.ties = copy, ties
        self.bonus, self.allowed = algorithm.bonus, mdp.actions_allowed
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
        self.bonuses: dict[tuple[int, int, int], list[float]] = {}  # (h, x, a) -> every b_t
        self.generator = np.random.default_rng(0)

    def digest(self, h: int, x: int, a: int, r: float, y: int) -> None:
        """Learn from one transition, and refresh at a trigger."""
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
            refreshed: tuple[int, ...] = {"row": (h, x), "entry": here, "step": (h,)}[self.copy]
            self.deployed[refreshed] = self.running[refreshed]
            for state in range(self.S) if self.copy == "step" else (x,):
                self.refresh(h, state)

    def weighted_bonus(
        self, here: tuple[int, int, int], t: int, alpha: float, following: float
    ) -> float:
        """alpha_t b_t, the bonus as it enters the update of a visit."""
        H, S, A, share = self.H, self.S, self.A, 1.0 / t
        if not isinstance(self.bonus, Bernstein):
            return alpha * (self.bonus.c * math.sqrt(H**3 * self.iota * share))
        self.mu[here] += following
        self.sigma[here] += following * following
        W = max(0.0, self.sigma[here] * share - (self.mu[here] * share) ** 2)
        spread = (
            math.sqrt(H * self.iota * share * (W + H))
            + float(H**7 * S * A) ** 0.5 * self.iota * share
        )
        beta = min(self.bonus.c1 * spread, self.bonus.c2 * math.sqrt(H**3 * self.iota * share))
        before, self.beta[here] = self.beta[here], beta
        return float(0.5 * (beta - (1 - alpha) * before))

    def refresh(self, h: int, x: int) -> None:
        """Deploy the best action of a row: the incumbent if it is among the best, else the lowest
        index.
        """
        row = self.deployed[h, x]
        if row[self.policy[h, x]] < row.max():
            self.policy[h, x] = row.argmax()

    def redraw(self) -> None:
        """Draw each row's action anew among its best ones."""
        best = self.deployed == self.deployed.max(axis=-1, keepdims=True)
        self.policy = np.where(best, self.generator.random(best.shape), -1.0).argmax(axis=-1)


_key = functools.lru_cache(maxsize=1)(stream_key)  # asked for at every draw


def noise(seed: int, address: int) -> np.uint64:
    """The 64 random bits of an address."""
    from lowswitch.kernels.noise import noise

    return np.uint64(noise(_key(seed), np.uint64(address)))


def sample(mdp: TabularMDP, seed: int, k: int, h: int, x: int, a: int) -> tuple[float, int]:
    """The reward and the successor at (seed, episode, step), from the simulator's own noise."""
    from lowswitch.kernels.noise import draw, episode_address, uniform

    model, address = mdp.model, episode_address(k, mdp.horizon) + 1 + 2 * h
    row = x * mdp.actions + a
    y = draw(model.heads, model.columns, h * model.stride + row, noise(seed, address))
    reward = model.rewards[h * model.reward_stride + row]
    if model.bernoulli:
        reward = float(uniform(noise(seed, address + 1)) < reward)
    return reward, int(y)


def start(mdp: TabularMDP, seed: int, k: int) -> int:
    """The first state of an episode."""
    if len(mdp.start_sequence):
        return int(mdp.start_sequence[k])
    from lowswitch.kernels.noise import draw, episode_address

    bits = noise(seed, episode_address(k, mdp.horizon))
    return int(draw(mdp.model.heads, mdp.model.columns, len(mdp.model.heads) - 1, bits))


def play_episode(
    mdp: TabularMDP, policy: np.ndarray, seed: int, k: int, first: int | None = None
) -> tuple[list[int], list[int], list[float]]:
    """States, actions and rewards [H] of one episode, which may have to begin in `first`."""
    x = start(mdp, seed, k) if first is None else first
    states: list[int] = []
    actions: list[int] = []
    rewards: list[float] = []
    for h in range(mdp.horizon):
        a = int(policy[h, x])
        reward, y = sample(mdp, seed, k, h, x, a)
        states.append(x)
        actions.append(a)
        rewards.append(reward)
        x = y
    return states, actions, rewards


def play_plain(
    mdp: TabularMDP,
    algorithm: Algorithm,
    episodes: int,
    seed: int,
    copy: str = "row",
    ties: str = "incumbent",
) -> tuple[PlainLearner, np.ndarray]:
    """The learner after its episodes, and its row changes as (episode, step, state, action)."""
    learner = PlainLearner(algorithm, mdp, episodes, copy, ties)
    changes: list[tuple[int, int, int, int]] = []
    for k in range(episodes):
        before = learner.policy.copy()
        states, actions, rewards = play_episode(mdp, before, seed, k)
        for h in range(mdp.horizon):
            if learner.policy[h, states[h]] != actions[h]:
                raise RuntimeError(f"the policy changed inside episode {k}, before its step {h}")
            y = states[h + 1] if h + 1 < mdp.horizon else 0
            learner.digest(h, states[h], actions[h], rewards[h], y)
        if learner.ties == "random":
            learner.redraw()
        changes += [
            (k, h, x, learner.policy[h, x]) for h, x in np.argwhere(learner.policy != before)
        ]
    return learner, np.array(changes, dtype=np.int64).reshape(-1, 4)
