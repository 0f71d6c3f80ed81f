"""Reinforcement learning for when changing the policy is what costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowswitch import bandits, concurrent, envs, theory
from lowswitch.algorithms import (
    Algorithm,
    Bernstein,
    Hoeffding,
    QLearning,
    ucb2_bernstein,
    ucb2_hoeffding,
    ucb_bernstein,
    ucb_hoeffding,
)
from lowswitch.history import History
from lowswitch.learner import BonusWarning, Learner
from lowswitch.mdp import TabularMDP, rescale
from lowswitch.pac import PacPolicy
from lowswitch.regret import deployment_gaps, exact_regret
from lowswitch.report import plot
from lowswitch.schedules import UCB2, EveryVisit
from lowswitch.simulate import Runs, load, simulate

if TYPE_CHECKING:
    import gymnasium

__version__ = "0.1.0"

__all__ = [
    "UCB2",
    "Algorithm",
    "Bernstein",
    "BonusWarning",
    "EveryVisit",
    "History",
    "Hoeffding",
    "Learner",
    "PacPolicy",
    "QLearning",
    "Runs",
    "TabularMDP",
    "bandits",
    "concurrent",
    "deployment_gaps",
    "envs",
    "exact_regret",
    "from_gymnasium",
    "load",
    "plot",
    "rescale",
    "simulate",
    "theory",
    "ucb2_bernstein",
    "ucb2_hoeffding",
    "ucb_bernstein",
    "ucb_hoeffding",
]


def from_gymnasium(env: gymnasium.Env[Any, Any], *, horizon: int) -> TabularMDP:
    """The exact tables of a Gymnasium environment that publishes them as P; see `lowswitch.envs.gymnasium`."""
    from lowswitch.envs import gymnasium

    return gymnasium.from_gymnasium(env, horizon=horizon)
