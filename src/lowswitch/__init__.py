"""Reinforcement learning for when changing the policy is what costs."""

from __future__ import annotations

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
from lowswitch.learner import Learner
from lowswitch.mdp import TabularMDP, rescale
from lowswitch.regret import exact_regret
from lowswitch.schedules import UCB2, EveryVisit
from lowswitch.simulate import BonusWarning, Runs, load, simulate

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
    "QLearning",
    "Runs",
    "TabularMDP",
    "exact_regret",
    "load",
    "rescale",
    "simulate",
    "ucb2_bernstein",
    "ucb2_hoeffding",
    "ucb_bernstein",
    "ucb_hoeffding",
]
