"""The suite: its problems, budgets, episodes and seeds.

A change of any of these is a new version: results of two versions are never compared. What runs on
the suite may change freely.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lowswitch.algorithms.text import build
from lowswitch.envs import PROBLEMS as NAMED
from lowswitch.envs.mdp import Rescaled, TabularMDP

VERSION = 2
EPISODES = 5_000
SEEDS = 4  # 0 to 3
INSTANCES = 4  # of each family, numbered from 1
BUDGETS = (1, 3, 10, 30, 100)  # deployments
FAMILIES = {  # i is the number of the instance
    "riverswim": "riverswim:states={i+4},horizon=20",
    "chain": "stochastic-chain:states={i+4}",
    "deep-sea": "deep-sea:size={i+4}",
    "lock": "homogeneous-lock:length=4,actions=2,horizon=6,seed={i}",
    "random": "random-mdp:states=8,actions=3,horizon=6,seed={i},reward_law=bernoulli",
    "steps-differ": "random-mdp:states=5,actions=3,horizon=5,seed={i+4},per_step=true,"
    "reward_law=bernoulli",
    "garnet": "garnet:states=12,actions=3,branching=3,horizon=6,seed={i},reward_law=bernoulli",
}
PROBLEMS = {
    f"{family}-{i}": text.replace("{i+4}", str(i + 4)).replace("{i}", str(i))
    for family, text in FAMILIES.items()
    for i in range(1, INSTANCES + 1)
}
HARD = 0.75  # of what uniform play loses: every constant action loses at least that much
FLOOR = 0.01  # of what uniform play loses in a run: a smaller regret counts as that
# Every recipe for tables, at one scale for all problems; N is the budget. Planners and q-h, q-b
# spread it over a grid, and the others, whose papers have a schedule, spend it as it comes.
ENTRIES = {
    "few": "few:deployments={N}",
    "psrl": "psrl:members=32,schedule=grid/geometric/{N+1},deployments={N},last=greedy",
    "ucbvi": "ucbvi:c=0.001,schedule=grid/geometric/{N+1},deployments={N},last=greedy",
    "ucbvi-bf": "ucbvi-bf:c=0.005,schedule=grid/geometric/{N+1},deployments={N},last=greedy",
    "ucrl2": "ucrl2:c=0.05,schedule=grid/geometric/{N+1},deployments={N},last=greedy",
    "mbie": "mbie:c=0.05,schedule=grid/geometric/{N+1},deployments={N},last=greedy",
    "orlc": "orlc:c=0.01,schedule=grid/geometric/{N+1},deployments={N},last=greedy",
    "mvp": "mvp:c=0.001,deployments={N},last=greedy",
    "rmax": "rmax:known=3,deployments={N},last=greedy",
    "q-h": "q-h:c=0.05,schedule=grid/geometric/{N+1},deployments={N}",
    "q-b": "q-b:c=0.05,schedule=grid/geometric/{N+1},deployments={N}",
    "stage-q": "stage-q:c=0.05,deployments={N}",
    "ucb-advantage": "ucb-advantage:c=0.01,deployments={N}",
    "early-settled": "early-settled:c=0.005,deployments={N}",
    "fedq-h": "fedq-h:c=0.05,deployments={N}",
    "fedq-b": "fedq-b:c=0.05,deployments={N}",
    "fedq-advantage": "fedq-advantage:c=0.01,deployments={N}",
    "fedq-early-settled": "fedq-early-settled:c=0.005,deployments={N}",
    "staged-randql": "staged-randql:deployments={N}",
    "larfe": "larfe:phase=119,deployments={N}",  # its 2 H + 1 deployments fit for H = 20, just
    "multi-batch": "multi-batch:phase=70,deployments={N}",  # the root of K
    "ucb-h": "ucb-h:c=0.05,deployments={N}",
    "ucb-b": "ucb-b:c=0.05,deployments={N}",
    "ucb2-h": "ucb2-h:c=0.05,deployments={N}",
    "ucb2-b": "ucb2-b:c=0.05,deployments={N}",
}

# What learns nothing, so that the table shows what that is worth.
BASELINES = {"constant": "lowswitch.bench.baselines:Constant"}


@cache
def problem(name: str) -> TabularMDP:
    """A problem of the suite, with the actions of each state in an order of their own.

    The order is the first, of a stream that the name decides, by which no constant action does
    well. Where the steps of a problem differ, the orders differ by step too.
    """
    made: TabularMDP = build(PROBLEMS[name], NAMED, "environment")
    steps = 1 if made.steps_alike else made.horizon
    # numpy promises that this stream never changes
    noise = np.random.RandomState([VERSION, list(PROBLEMS).index(name)])
    while True:
        order = noise.random_sample((steps, made.states, made.actions)).argsort(axis=-1)
        mixed = _reordered(made, order if steps > 1 else order[0], name)
        if best_constant(mixed) >= HARD:
            return mixed


def best_constant(mdp: TabularMDP) -> float:
    """The least that a constant action loses, as a share of what uniform play loses."""
    best = mdp.optimal_value()
    shape = mdp.horizon, mdp.states
    lost = [best - mdp.evaluate(np.full(shape, action)) for action in range(mdp.actions)]
    return min(lost) / (best - mdp.uniform_value())


def floor_of(name: str) -> float:
    """The regret below which all regrets on a problem count as equal."""
    mdp = problem(name)
    return FLOOR * EPISODES * (mdp.optimal_value() - mdp.uniform_value())


def _reordered(mdp: TabularMDP, order: np.ndarray, name: str) -> TabularMDP:
    """A problem whose action a is action order[..., x, a] [(H,) S, A] of another one."""
    from scipy.sparse import csr_matrix

    rows = len(mdp.offsets) - 1
    table = csr_matrix((mdp.probabilities, mdp.successors, mdp.offsets), (rows, mdp.states))
    first = np.arange(rows // mdp.actions)[:, None] * mdp.actions
    rewards = np.take_along_axis(mdp.rewards, order, axis=-1)
    return TabularMDP(
        table[(first + order.reshape(-1, mdp.actions)).reshape(-1)],
        Rescaled(rewards, mdp.scale),
        start=mdp.start_law,
        horizon=mdp.horizon,
        reward_law=mdp.reward_law,
        name=name,
    )
