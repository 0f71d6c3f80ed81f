"""The problems that `few` was chosen on and validated on, and some of other kinds."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from kinds import KINDS

from lowswitch import TabularMDP, envs

LAWS = ("deterministic", "bernoulli")


# ---- made problems -------------------------------------------------------------------------------


def inventory(law: str, capacity: int = 9, horizon: int = 12) -> TabularMDP:
    """Order stock for Poisson demand: 0.6 a unit sold, 0.25 a unit ordered, 0.05 a unit held."""
    states = actions = capacity + 1
    transitions, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    demand = np.array([math.exp(-4) * 4.0**d / math.factorial(d) for d in range(40)])
    for x in range(states):
        for a in range(actions):
            stock = min(capacity, x + a)
            for d, chance in enumerate(demand):
                sold = min(stock, d)
                transitions[x, a, stock - sold] += chance
                profit = 0.6 * sold - 0.25 * (stock - x) - 0.05 * (stock - sold)
                rewards[x, a] += chance * (profit + 2.7) / 8.1
    transitions /= transitions.sum(axis=-1, keepdims=True)
    return TabularMDP(transitions, rewards, horizon=horizon, reward_law=law)


def windy_grid(law: str, size: int = 5, horizon: int = 15) -> TabularMDP:
    """Walk to a far corner under a wind that pushes up in the middle columns half of the time."""
    S = size * size
    transitions, rewards = np.zeros((S, 4, S)), np.zeros((S, 4))
    for x in range(S):
        row, column = divmod(x, size)
        for a, (down, right) in enumerate(((0, -1), (0, 1), (-1, 0), (1, 0))):
            for wind, chance in ((0, 0.5), (1, 0.5)) if 0 < column < size - 1 else ((0, 1.0),):
                new_row = min(size - 1, max(0, row + down - wind))
                new_column = min(size - 1, max(0, column + right))
                transitions[x, a, new_row * size + new_column] += chance
    rewards[S - 1] = 1.0
    return TabularMDP(transitions, rewards, start=0, horizon=horizon, reward_law=law)


def queue(law: str, length: int = 24, horizon: int = 12) -> TabularMDP:
    """Choose the speed of a server; a faster one costs, and so does every customer who waits."""
    S, serve, cost = length + 1, (0.2, 0.5, 0.8), (0.0, 0.1, 0.3)
    transitions, rewards = np.zeros((S, 3, S)), np.zeros((S, 3))
    for x in range(S):
        for a in range(3):
            for arrives, p in ((1, 0.5), (0, 0.5)):
                for served, q in ((1, serve[a]), (0, 1 - serve[a])):
                    y = min(length, max(0, x + arrives - served))
                    transitions[x, a, y] += p * q
            rewards[x, a] = max(0.0, 1.0 - cost[a] - 0.06 * x)
    return TabularMDP(transitions, rewards, start=length // 3, horizon=horizon, reward_law=law)


def replacement(law: str, ages: int = 10, horizon: int = 20) -> TabularMDP:
    """Run a machine that wears out, repair it or replace it (after Rust 1987)."""
    transitions, rewards = np.zeros((ages, 3, ages)), np.zeros((ages, 3))
    for x in range(ages):
        for step, chance in ((0, 0.3), (1, 0.5), (2, 0.2)):
            transitions[x, 0, min(ages - 1, x + step)] += chance
        transitions[x, 1, max(0, x - 2)] = 1.0
        transitions[x, 2, 0] = 1.0
        rewards[x] = 1.0 - 0.09 * x, 0.6 - 0.06 * x, 0.1
    return TabularMDP(transitions, rewards, start=0, horizon=horizon, reward_law=law)


def gambler(law: str, goal: int = 15, horizon: int = 10) -> TabularMDP:
    """Stake one, three or all on a biased coin to have the goal at the end."""
    S = goal + 1
    transitions = np.zeros((S, 3, S))
    rewards = np.zeros((horizon, S, 3))
    for x in range(S):
        for a, stake in enumerate((1, 3, S)):
            bet = min(stake, x, goal - x)
            transitions[x, a, x + bet] += 0.45
            transitions[x, a, x - bet] += 0.55
    rewards[-1, goal] = 1.0
    return TabularMDP(transitions, rewards, start=goal // 3, horizon=horizon, reward_law=law)


def clinic(law: str) -> TabularMDP:
    """Twelve states of health, four treatments, six visits: each helps in some of the states."""
    generator = np.random.default_rng(12)
    transitions, rewards = np.zeros((12, 4, 12)), np.zeros((12, 4))
    helps = generator.random((12, 4))
    for x in range(12):
        for a in range(4):
            up, down = 0.1 + 0.6 * helps[x, a], 0.5 - 0.4 * helps[x, a]
            for move, chance in ((1, up), (-1, down * (1 - up)), (0, (1 - down) * (1 - up))):
                transitions[x, a, min(11, max(0, x + move))] += chance
    rewards[:] = (np.arange(12) / 11)[:, None]
    start = np.zeros(12)
    start[2:6] = 0.25
    return TabularMDP(transitions, rewards, start=start, horizon=6, reward_law=law)


# ---- drawn problems ------------------------------------------------------------------------------


def slippery_grid(law: str, seed: int) -> TabularMDP:
    """A grid of 4 to 6 by 4 to 6 with holes, a goal and slips, all drawn; it ends in both.

    A grid whose goal cannot be reached is drawn again.
    """
    for again in itertools.count():
        mdp = _drawn_grid(law, np.random.default_rng([seed, 1, again] if again else [seed, 1]))
        if mdp.optimal_value() > 0:
            return mdp
    raise AssertionError("a grid is drawn until its goal can be reached")


def _drawn_grid(law: str, generator: np.random.Generator) -> TabularMDP:
    rows, columns = generator.integers(4, 7, 2)
    S, slip = int(rows * columns), generator.uniform(0.0, 0.5)
    holes = generator.random(S) < 0.15
    holes[0], goal = False, S - 1
    holes[goal] = False
    transitions, rewards = np.zeros((S, 4, S)), np.zeros((S, 4))
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))
    for x in range(S):
        row, column = divmod(x, int(columns))
        for a in range(4):
            if holes[x] or x == goal:
                transitions[x, a, x] = 1.0
                continue
            for turn, chance in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
                down, right = moves[(a + turn) % 4]
                y_row, y_column = (
                    min(rows - 1, max(0, row + down)),
                    min(columns - 1, max(0, column + right)),
                )
                transitions[x, a, int(y_row * columns + y_column)] += chance
    rewards[goal] = 1.0
    return TabularMDP(transitions, rewards, start=0, horizon=20, reward_law=law)


def garnet(law: str, seed: int) -> TabularMDP:
    """Garnet of 10 to 40 states, 2 to 5 actions, 1 to 6 successors, 5 to 15 steps, all drawn."""
    generator = np.random.default_rng([seed, 2])
    size = {
        "states": int(generator.integers(10, 41)),
        "actions": int(generator.integers(2, 6)),
        "branching": int(generator.integers(1, 7)),
        "horizon": int(generator.integers(5, 16)),
    }
    return envs.garnet(**size, seed=seed, reward_law=law)


def changing(law: str, seed: int) -> TabularMDP:
    """Laws and rewards that differ by step: 4 to 8 states, 2 to 4 actions, 3 to 6 steps."""
    generator = np.random.default_rng([seed, 3])
    size = {
        "states": int(generator.integers(4, 9)),
        "actions": int(generator.integers(2, 5)),
        "horizon": int(generator.integers(3, 7)),
    }
    return envs.random_mdp(**size, seed=seed, per_step=True, reward_law=law)


# ---- which is which ------------------------------------------------------------------------------

Make = Callable[[str], TabularMDP]

DRAWN = range(100, 108)  # instances of each drawn family
# the three problems of the project, and those on which the rules of `few` were chosen
CHOSEN: dict[str, tuple[Make, int]] = {
    "riverswim": (lambda law: envs.riverswim(states=6, horizon=10, reward_law=law), 100_000),
    "random-5": (
        lambda law: envs.random_mdp(states=5, actions=3, horizon=5, reward_law=law),
        100_000,
    ),
    "random-20": (
        lambda law: envs.random_mdp(states=20, actions=4, horizon=10, reward_law=law),
        30_000,
    ),
    "chain-12": (lambda law: _with_law(envs.chain(states=12, horizon=12), law), 10_000),
    "windy-grid": (windy_grid, 10_000),
    "inventory": (inventory, 10_000),
    **{f"garnet-{i}": ((lambda law, i=i: garnet(law, i)), 3_000) for i in range(4)},
    **{f"changing-{i}": ((lambda law, i=i: changing(law, i)), 3_000) for i in range(2)},
}
# never looked at before the rules were fixed
VALIDATED: dict[str, tuple[Make, int]] = {
    "queue": (queue, 10_000),
    "replacement": (replacement, 10_000),
    "gambler": (gambler, 10_000),
    "clinic": (clinic, 3_000),
    "riverswim-strehl": (lambda law: envs.riverswim_strehl(reward_law=law), 10_000),
    **{f"grid-{i}": ((lambda law, i=i: slippery_grid(law, i)), 3_000) for i in DRAWN},
    **{f"garnet-{i}": ((lambda law, i=i: garnet(law, i)), 3_000) for i in DRAWN},
    **{f"changing-{i}": ((lambda law, i=i: changing(law, i)), 3_000) for i in DRAWN},
}
# problems of other kinds, each with one law of rewards
OTHER: dict[str, tuple[Make, int]] = {
    **{name: ((lambda _, make=make: make()), episodes) for name, (make, episodes) in KINDS.items()},
    "changing-short": (lambda _: changing("bernoulli", 901), 300),
    "tiny-clinic": (lambda _: clinic("bernoulli"), 60),
}
PROBLEMS = CHOSEN | VALIDATED | OTHER


def _with_law(mdp: TabularMDP, law: str) -> TabularMDP:
    tables = mdp.transitions, mdp.rewards
    return TabularMDP(*tables, start=mdp.start_law, horizon=mdp.horizon, reward_law=law)


def family_of(name: str) -> str:
    """A family of drawn problems is one family, and so are those of other kinds."""
    if name in OTHER:
        return "other"
    stem, _, number = name.rpartition("-")
    return stem if stem in ("garnet", "changing", "grid") and number.isdigit() else name


def laws_of(name: str) -> tuple[str, ...]:
    """The laws of rewards that make a difference: rewards of 0 and 1 are the same under both."""
    mdp = PROBLEMS[name][0](LAWS[0])
    if name in OTHER:
        return (mdp.reward_law,)
    rewards = mdp.rewards
    return LAWS if bool(np.any((rewards > 0) & (rewards < 1))) else LAWS[:1]
