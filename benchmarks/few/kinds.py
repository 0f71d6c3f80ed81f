"""Problems of other kinds than those that `few` was chosen on: each has one law of rewards."""

from collections.abc import Callable

import numpy as np

from lowswitch import TabularMDP, envs, from_gymnasium


def random_laws(generator: np.random.Generator, *shape: int, branching: int = 3) -> np.ndarray:
    """Laws of some successors each, [*shape, S]; the last number of the shape is S."""
    *rows, S = shape
    laws = np.zeros(shape)
    for place in np.ndindex(*rows):
        reached = generator.choice(S, min(branching, S), replace=False)
        laws[place][reached] = generator.dirichlet(np.ones(len(reached)))
    return laws


# ---- steps that differ, and outcomes at the end --------------------------------------------------


def seasons(seed: int, period: int, horizon: int, states: int = 8) -> TabularMDP:
    """Laws and rewards that recur every `period` steps."""
    generator = np.random.default_rng([seed, 11])
    laws = random_laws(generator, period, states, 3, states)
    rewards = generator.random((period, states, 3)) * (generator.random((period, states, 3)) < 0.5)
    step = np.arange(horizon) % period
    return TabularMDP(laws[step], rewards[step], horizon=horizon, reward_law="bernoulli")


def turning_rewards(horizon: int = 10) -> TabularMDP:
    """Laws that are alike at all steps, and rewards whose best action turns with the step."""
    generator = np.random.default_rng(12)
    laws, rewards = random_laws(generator, 6, 4, 6), np.full((horizon, 6, 4), 0.2)
    for h in range(horizon):
        for x in range(6):
            rewards[h, x, (h + x) % 4] = 0.8
    return TabularMDP(laws, rewards, horizon=horizon)


def outcome_at_the_end(seed: int, states: int, horizon: int, most: float) -> TabularMDP:
    """Nothing is paid until the last step, and then 0 or 1 by a chance that the state decides."""
    generator = np.random.default_rng([seed, 13])
    laws = random_laws(generator, states, 3, states)
    rewards = np.zeros((horizon, states, 3))
    rewards[-1] = most * generator.random((states, 1))
    start = np.full(states, 1 / states)
    return TabularMDP(laws, rewards, start=start, horizon=horizon, reward_law="bernoulli")


# ---- catastrophes and decoys ---------------------------------------------------------------------


def bold(horizon: int = 15) -> TabularMDP:
    """A bold action pays twice as much as a cautious one, and in 4 of 100 cases ends everything."""
    laws, rewards = np.zeros((6, 2, 6)), np.zeros((6, 2))
    for x in range(5):
        laws[x, 0, (x + 1) % 5] = 1.0
        laws[x, 1, [(x + 2) % 5, 5]] = 0.96, 0.04
        rewards[x] = 0.5 - 0.05 * x, 1.0 - 0.1 * x
    laws[5, :, 5] = 1.0
    return TabularMDP(laws, rewards, horizon=horizon)


def trapdoors(states: int = 8, actions: int = 4, horizon: int = 12) -> TabularMDP:
    """One action of each state ends everything for certain; the others pay much alike."""
    generator = np.random.default_rng(14)
    S = states + 1
    laws, rewards = np.zeros((S, actions, S)), np.zeros((S, actions))
    laws[:states, :, :states] = random_laws(generator, states, actions, states)
    rewards[:states] = generator.uniform(0.7, 0.9, (states, actions))
    fatal = generator.integers(0, actions, states)
    laws[np.arange(states), fatal] = np.eye(S)[-1]
    laws[-1, :, -1] = 1.0
    return TabularMDP(laws, rewards, horizon=horizon, reward_law="bernoulli")


def decoy_chain(states: int = 8, horizon: int = 16) -> TabularMDP:
    """Staying pays 0.3 at once; walking on to the far end, a tenth of the time back, pays 1."""
    laws, rewards = np.zeros((states, 2, states)), np.zeros((states, 2))
    for x in range(states):
        laws[x, 0, x] = 1.0
        laws[x, 1, min(x + 1, states - 1)] += 0.9
        laws[x, 1, max(x - 1, 0)] += 0.1
    rewards[:, 0], rewards[-1] = 0.3, 1.0
    return TabularMDP(laws, rewards, horizon=horizon, reward_law="bernoulli")


def decoy_doors(doors: int = 10, horizon: int = 10) -> TabularMDP:
    """Nine doors lead to rooms that pay half; behind the last are two that pay nothing, then 1."""
    S = doors + 3
    laws, rewards = np.zeros((S, doors, S)), np.zeros((S, doors))
    laws[0, np.arange(doors), np.arange(1, doors + 1)] = 1.0
    for x in range(1, S):
        laws[x, :, min(x + 1, S - 1) if x >= doors else x] = 1.0
    rewards[1:doors], rewards[-1] = 0.5, 1.0
    return TabularMDP(laws, rewards, horizon=horizon, reward_law="bernoulli")


def six_arms(horizon: int = 20) -> TabularMDP:
    """SixArms of Strehl, Littman 2004: the rarer an arm works, the more its state pays.

    Rewards are divided by 6,000; in a state, the action that led there stays and pays.
    """
    chance = (1.0, 0.15, 0.1, 0.05, 0.03, 0.01)
    paid = (50, 133, 300, 800, 1660, 6000)
    laws, rewards = np.zeros((7, 6, 7)), np.zeros((7, 6))
    laws[1:, :, 0] = 1.0
    for a in range(6):
        laws[0, a, a + 1], laws[0, a, 0] = chance[a], 1.0 - chance[a]
        laws[a + 1, a] = np.eye(7)[a + 1]
        rewards[a + 1, a] = paid[a] / 6000
    return TabularMDP(laws, rewards, horizon=horizon)


# ---- starts, sizes, rewards and masks ------------------------------------------------------------


def drifting(mdp: TabularMDP, episodes: int) -> TabularMDP:
    """A stationary problem whose episodes begin in one state after the other."""
    start = np.arange(episodes) * mdp.states // episodes
    return rebuilt(mdp, start=start)


def rebuilt(mdp: TabularMDP, **other: object) -> TabularMDP:
    """A stationary problem with some of its parts replaced."""
    parts = {
        "transitions": mdp.transitions,
        "rewards": mdp.rewards,
        "start": mdp.start_law,
        "horizon": mdp.horizon,
        "reward_law": mdp.reward_law,
    }
    return TabularMDP(**parts | other)


def paying(low: float, high: float) -> TabularMDP:
    """A Garnet whose rewards lie between two numbers."""
    mdp = garnet(15)
    return rebuilt(mdp, rewards=low + (high - low) * mdp.rewards)


def garnet(seed: int, **size: int) -> TabularMDP:
    wanted = {"states": 15, "actions": 3, "branching": 3, "horizon": 8} | size
    return envs.garnet(**wanted, seed=seed, reward_law="bernoulli")


def arms(means: np.ndarray) -> TabularMDP:
    """One state and one step."""
    return TabularMDP(np.ones((1, len(means), 1)), means[None], horizon=1, reward_law="bernoulli")


def masked(by_step: bool) -> TabularMDP:
    """A Garnet in which about half of the actions are forbidden, in a state or at a step."""
    mdp, generator = garnet(16, actions=6), np.random.default_rng(16)
    shape = (mdp.horizon, mdp.states, mdp.actions) if by_step else (mdp.states, mdp.actions)
    allowed = generator.random(shape) < 0.5
    chosen = generator.integers(0, mdp.actions, shape[:-1])
    np.put_along_axis(allowed, chosen[..., None], True, axis=-1)
    return rebuilt(mdp, actions_allowed=allowed)


# a problem and its episodes
KINDS: dict[str, tuple[Callable[[], TabularMDP], int]] = {
    "seasons-3": (lambda: seasons(1, 3, 12), 3_000),
    "seasons-2": (lambda: seasons(2, 2, 8), 1_000),
    "turning-rewards": (turning_rewards, 2_000),
    "outcome-6": (lambda: outcome_at_the_end(1, 10, 6, 1.0), 2_000),
    "outcome-4": (lambda: outcome_at_the_end(2, 5, 4, 1.0), 500),
    "outcome-rare": (lambda: outcome_at_the_end(3, 10, 6, 0.1), 3_000),
    "bold": (bold, 2_000),
    "trapdoors": (trapdoors, 1_000),
    "decoy-chain": (decoy_chain, 3_000),
    "decoy-doors": (decoy_doors, 2_000),
    "six-arms": (six_arms, 5_000),
    "drifting-garnet": (lambda: drifting(garnet(17, states=20), 3_000), 3_000),
    "drifting-river": (
        lambda: drifting(envs.riverswim(states=6, horizon=12, reward_law="bernoulli"), 3_000),
        3_000,
    ),
    "tiny-garnet": (lambda: garnet(18, states=10, horizon=5), 100),
    "tiny-river": (lambda: envs.riverswim(states=4, horizon=8), 150),
    "needle": (lambda: arms(np.where(np.arange(30) == 19, 0.6, 0.4)), 3_000),
    "arms-20": (lambda: arms(np.random.default_rng(19).random(20)), 1_000),
    "many-actions": (
        lambda: envs.random_mdp(states=5, actions=25, horizon=4, seed=20, reward_law="bernoulli"),
        3_000,
    ),
    "near-0": (lambda: paying(0.0, 0.02), 3_000),
    "near-1": (lambda: paying(0.95, 1.0), 3_000),
    "masked": (lambda: masked(False), 2_000),
    "masked-by-step": (lambda: masked(True), 2_000),
    "frozen-lake": (lambda: from_gymnasium("FrozenLake-v1", horizon=30), 3_000),
    "frozen-lake-8": (
        lambda: from_gymnasium("FrozenLake-v1:map_name=8x8,is_slippery=false", horizon=25),
        1_000,
    ),
    "cliff-walking": (lambda: from_gymnasium("CliffWalking-v1", horizon=20), 2_000),
    "frozen-lake-4": (
        lambda: from_gymnasium("FrozenLake-v1:is_slippery=false", horizon=10),
        500,
    ),
    "deep-sea": (lambda: envs.deep_sea(size=8), 3_000),
    "lock": (lambda: envs.homogeneous_lock(length=5, actions=3, horizon=12), 3_000),
    "combination-lock": (lambda: envs.combination_lock(states=4, actions=3, horizon=6), 3_000),
    "lower-bound": (
        lambda: envs.switching_lower_bound(states=5, actions=4, horizon=4, seed=21),
        2_000,
    ),
}
