"""Drawn problems of other kinds: outcomes at the end, needles, catastrophes, tiny ones."""

import numpy as np
from problems import changing, garnet, slippery_grid

from lowswitch import TabularMDP, envs


def _size(generator: np.random.Generator, **ranges: tuple[int, int]) -> dict[str, int]:
    return {name: int(generator.integers(low, high + 1)) for name, (low, high) in ranges.items()}


def _laws(generator: np.random.Generator, S: int, A: int, spread: float) -> np.ndarray:
    return generator.dirichlet(np.full(S, spread), (S, A))


def needle(seed: int) -> TabularMDP:
    """One arm of 20 to 40 that pays often, among others that seldom do; one step."""
    generator = np.random.default_rng([seed, 11])
    arms = int(generator.integers(20, 41))
    rewards = generator.uniform(0.0, 0.3, (1, arms))
    rewards[0, generator.integers(arms)] = generator.uniform(0.6, 0.9)
    return TabularMDP(np.ones((1, arms, 1)), rewards, horizon=1, reward_law="bernoulli")


def contextual(seed: int) -> TabularMDP:
    """A bandit with 5 to 15 contexts and 3 to 6 arms; one step."""
    generator = np.random.default_rng([seed, 12])
    S, A = (_size(generator, S=(5, 15), A=(3, 6))[name] for name in "SA")
    transitions = np.full((S, A, S), 1.0 / S)
    rewards, start = generator.random((S, A)), generator.dirichlet(np.ones(S))
    return TabularMDP(transitions, rewards, start=start, horizon=1, reward_law="bernoulli")


def catastrophe(seed: int) -> TabularMDP:
    """A walk through 4 to 8 states; one action of each ends it for good, with no further reward."""
    generator = np.random.default_rng([seed, 13])
    S, A, H = (_size(generator, S=(4, 8), A=(3, 4), H=(6, 12))[name] for name in "SAH")
    transitions, rewards = np.zeros((S + 1, A, S + 1)), np.zeros((S + 1, A))
    transitions[:S, :, :S] = _laws(generator, S, A, 0.5)
    rewards[:S] = generator.uniform(0.3, 0.7, (S, A))
    deadly = generator.integers(0, A, S)
    rewards[np.arange(S), deadly] = 1.0
    transitions[np.arange(S), deadly] = 0.0
    transitions[np.arange(S), deadly, S] = 1.0
    transitions[S, :, S] = 1.0
    return TabularMDP(transitions, rewards, start=0, horizon=H, reward_law="bernoulli")


def tiny(seed: int) -> TabularMDP:
    """Two to four states, two or three actions, two to four steps."""
    generator = np.random.default_rng([seed, 14])
    S, A, H = (_size(generator, S=(2, 4), A=(2, 3), H=(2, 4))[name] for name in "SAH")
    laws, rewards = _laws(generator, S, A, 0.7), generator.random((S, A))
    return TabularMDP(laws, rewards, start=0, horizon=H, reward_law="bernoulli")


def six_arms(seed: int) -> TabularMDP:
    """SixArms (Strehl, Littman 2008): the rarer an arm is reached, the more it pays; one at most.

    The order of the arms and the number of steps are drawn.
    """
    generator = np.random.default_rng([seed, 15])
    chance = np.array([1.0, 0.15, 0.1, 0.05, 0.03, 0.01])
    paid = np.array([50.0, 133.0, 300.0, 800.0, 1660.0, 6000.0]) / 6000.0
    order, stays = generator.permutation(6), generator.permutation(6)
    transitions, rewards = np.zeros((7, 6, 7)), np.zeros((7, 6))
    for a in range(6):
        arm = order[a]
        transitions[0, a, [0, arm + 1]] = 1 - chance[arm], chance[arm]
        transitions[a + 1, :, 0] = 1.0
        transitions[a + 1, stays[a]] = np.eye(7)[a + 1]
        rewards[a + 1, stays[a]] = paid[a]
    return TabularMDP(transitions, rewards, start=0, horizon=int(generator.integers(10, 21)))


def outcome(seed: int) -> TabularMDP:
    """5 to 10 states, 2 to 4 actions, 3 to 6 steps, and one outcome of 0 or 1 at the last step."""
    generator = np.random.default_rng([seed, 16])
    S, A, H = (_size(generator, S=(5, 10), A=(2, 4), H=(3, 6))[name] for name in "SAH")
    rewards = np.zeros((H, S, A))
    rewards[-1] = generator.random((S, 1)) * 0.8 + 0.2 * generator.random((S, A))
    laws, start = _laws(generator, S, A, 0.4), generator.dirichlet(np.ones(S))
    return TabularMDP(laws, rewards, start=start, horizon=H, reward_law="bernoulli")


def near_one(seed: int) -> TabularMDP:
    """A Garnet whose rewards lie between 0.85 and 1."""
    generator = np.random.default_rng([seed, 17])
    S, A, H = (_size(generator, S=(6, 12), A=(2, 4), H=(4, 8))[name] for name in "SAH")
    rewards = 0.85 + 0.15 * generator.random((S, A))
    laws = _laws(generator, S, A, 0.2)
    return TabularMDP(laws, rewards, start=0, horizon=H, reward_law="bernoulli")


def deep(seed: int) -> TabularMDP:
    """DeepSea of 5 to 8 rows, or a chain of 6 to 12 states: one reward, far away."""
    size = int(np.random.default_rng([seed, 18]).integers(5, 9))
    if seed % 2:
        return envs.chain(states=size + 3, horizon=size + 3)
    return envs.deep_sea(size=size, stochastic=False, seed=seed)


FAMILIES = {
    "needle": (needle, 1_000),
    "contextual": (contextual, 1_000),
    "catastrophe": (catastrophe, 1_000),
    "tiny": (tiny, 200),
    "tiny-long": (tiny, 2_000),
    "six-arms": (six_arms, 3_000),
    "outcome": (outcome, 2_000),
    "near-one": (near_one, 1_000),
    "deep": (deep, 1_000),
    "garnet": (lambda seed: garnet("bernoulli", seed), 1_000),
    "garnet-sure": (lambda seed: garnet("deterministic", seed), 1_000),
    "grid": (lambda seed: slippery_grid("deterministic", seed), 2_000),
    "changing": (lambda seed: changing("bernoulli", seed), 2_000),
}
