"""Reinforcement learning for when changing the policy is what costs."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from lowswitch import envs, parts, theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import (
    few,
    mbie,
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
from lowswitch.frontier import Frontier, frontier
from lowswitch.history import History, PacPolicy, deployment_gaps, exact_regret
from lowswitch.learner import BonusWarning, Learner
from lowswitch.linear import (
    LinearLearner,
    LinearPolicy,
    dynamics,
    evaluate,
    features,
    linear,
    linucb,
)
from lowswitch.planner import Plan, plan
from lowswitch.plotting import plot, summary
from lowswitch.problems.mdp import TabularMDP, rescale
from lowswitch.runs import Runs, load
from lowswitch.simulate import NothingLearnedWarning, simulate
from lowswitch.sweep import Sweep, sweep

if TYPE_CHECKING:
    import gymnasium

    from lowswitch import bandits, concurrent, ledger
else:
    _MOVED = {  # where scripts once found a module, and where it is now
        "mdp": "problems.mdp",
        "orders": "theory.orders",
        "pac": "history",
        "portfolio": "frontier.portfolio",
        "regret": "history",
        "schedules": "algorithms.schedules",
    }
    for _old, _new in _MOVED.items():
        sys.modules[f"lowswitch.{_old}"] = importlib.import_module(f"lowswitch.{_new}")

    def __getattr__(name: str) -> Any:
        """Modules that are imported when they are first used, and what scripts once found here."""
        if name in ("bandits", "concurrent", "ledger", *_MOVED):
            return importlib.import_module(f"lowswitch.{name}")
        if name in parts.__all__:
            return getattr(parts, name)
        raise AttributeError(f"module 'lowswitch' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "BonusWarning",
    "Frontier",
    "History",
    "Learner",
    "LinearLearner",
    "LinearPolicy",
    "NothingLearnedWarning",
    "PacPolicy",
    "Plan",
    "Runs",
    "Sweep",
    "TabularMDP",
    "bandits",
    "concurrent",
    "deployment_gaps",
    "dynamics",
    "envs",
    "evaluate",
    "exact_regret",
    "features",
    "few",
    "from_gymnasium",
    "frontier",
    "ledger",
    "linear",
    "linucb",
    "load",
    "mbie",
    "mvp",
    "parts",
    "plan",
    "plot",
    "psrl",
    "q_bernstein",
    "q_hoeffding",
    "rescale",
    "rmax",
    "simulate",
    "stage_q",
    "summary",
    "sweep",
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


def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str, *, horizon: int | None = None, **options: Any
) -> TabularMDP:
    """The exact tables of a Gymnasium environment that publishes them as P.

    See `lowswitch.envs.gymnasium`.
    """
    from lowswitch.envs import gymnasium

    return gymnasium.from_gymnasium(env, horizon=horizon, **options)
