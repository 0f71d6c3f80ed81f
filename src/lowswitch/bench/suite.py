"""The suite: its problems, budgets, episodes and seeds.

A change of anything here is a new version: results of two versions are never compared.
"""

from __future__ import annotations

from functools import cache

from lowswitch.algorithms.text import build
from lowswitch.envs import PROBLEMS as NAMED
from lowswitch.envs.mdp import TabularMDP

VERSION = 1
EPISODES = 5_000
SEEDS = 8  # 0 to 7
BUDGETS = (1, 3, 10, 30, 100)  # deployments
PROBLEMS = {
    "riverswim": "riverswim:states=6,horizon=10",
    "chain": "stochastic-chain:states=6",
    "deep-sea": "deep-sea:size=6",
    "lock": "homogeneous-lock:length=4,actions=2,horizon=6,seed=1",
    "random": "random-mdp:states=8,actions=3,horizon=6,seed=1,reward_law=bernoulli",
    "steps-differ": "random-mdp:states=5,actions=3,horizon=5,seed=2,per_step=true,"
    "reward_law=bernoulli",
    "garnet": "garnet:states=12,actions=3,branching=3,horizon=6,seed=1,reward_law=bernoulli",
}
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
    "ucb-h": "ucb-h:c=0.05,deployments={N}",
    "ucb-b": "ucb-b:c=0.05,deployments={N}",
    "ucb2-h": "ucb2-h:c=0.05,deployments={N}",
    "ucb2-b": "ucb2-b:c=0.05,deployments={N}",
}


@cache
def problem(name: str) -> TabularMDP:
    """A problem of the suite."""
    made: TabularMDP = build(PROBLEMS[name], NAMED, "environment")
    return made
