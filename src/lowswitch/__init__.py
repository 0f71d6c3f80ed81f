"""Reinforcement learning for when changing the policy is what costs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lowswitch import envs, theory
from lowswitch.algorithms.parts import (
    Advantage,
    AdvantageBonus,
    Algorithm,
    Bernstein,
    BernsteinFreedman,
    ChernoffHoeffding,
    Hoeffding,
    L1Ball,
    MonotonicBernstein,
    NoBonus,
    Planning,
    Posterior,
    QLearning,
    StageQLearning,
    Unknown,
)
from lowswitch.algorithms.recipes import (
    mvp,
    psrl,
    q_bernstein,
    q_hoeffding,
    rmax,
    stage_q,
    ucb2_bernstein,
    ucb2_hoeffding,
    ucb_advantage,
    ucb_bernstein,
    ucb_hoeffding,
    ucbvi,
    ucbvi_bernstein,
    ucrl2,
)
from lowswitch.algorithms.schedules import (
    UCB2,
    Budget,
    EveryVisit,
    Grid,
    Growth,
    Stages,
    Visits,
    WholePolicy,
)
from lowswitch.frontier import Frontier, frontier
from lowswitch.history import History, PacPolicy, deployment_gaps, exact_regret
from lowswitch.learner import BonusWarning, Learner
from lowswitch.problems.mdp import TabularMDP, rescale
from lowswitch.report import plot
from lowswitch.simulate import Runs, load, simulate

if TYPE_CHECKING:
    import gymnasium

    from lowswitch import bandits, concurrent
else:  # both when they are first used: that keeps the import light

    def __getattr__(name: str) -> Any:
        if name in ("bandits", "concurrent"):
            return importlib.import_module(f"lowswitch.{name}")
        raise AttributeError(f"module 'lowswitch' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__version__ = "0.1.0"

__all__ = [
    "UCB2",
    "Advantage",
    "AdvantageBonus",
    "Algorithm",
    "Bernstein",
    "BernsteinFreedman",
    "BonusWarning",
    "Budget",
    "ChernoffHoeffding",
    "EveryVisit",
    "Frontier",
    "Grid",
    "Growth",
    "History",
    "Hoeffding",
    "L1Ball",
    "Learner",
    "MonotonicBernstein",
    "NoBonus",
    "PacPolicy",
    "Planning",
    "Posterior",
    "QLearning",
    "Runs",
    "StageQLearning",
    "Stages",
    "TabularMDP",
    "Unknown",
    "Visits",
    "WholePolicy",
    "bandits",
    "concurrent",
    "deployment_gaps",
    "envs",
    "exact_regret",
    "from_gymnasium",
    "frontier",
    "load",
    "mvp",
    "plot",
    "psrl",
    "q_bernstein",
    "q_hoeffding",
    "rescale",
    "rmax",
    "simulate",
    "stage_q",
    "theory",
    "ucb2_bernstein",
    "ucb2_hoeffding",
    "ucb_advantage",
    "ucb_bernstein",
    "ucb_hoeffding",
    "ucbvi",
    "ucbvi_bernstein",
    "ucrl2",
]


def from_gymnasium(env: gymnasium.Env[Any, Any], *, horizon: int) -> TabularMDP:
    """The exact tables of a Gymnasium environment that publishes them as P; see
    `lowswitch.envs.gymnasium`.
    """
    from lowswitch.envs import gymnasium

    return gymnasium.from_gymnasium(env, horizon=horizon)
