"""Reinforcement learning for when changing the policy is what costs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lowswitch import algorithms, envs, evaluation, features, theory
from lowswitch.algorithms import parts
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import few
from lowswitch.envs.mdp import TabularMDP, rescale
from lowswitch.evaluation import compare_arms, evaluate, vi_lcb
from lowswitch.features import LinearPolicy
from lowswitch.forecast import Plan, plan
from lowswitch.history import History, PacPolicy, deployment_gaps, exact_regret
from lowswitch.learner import Learner
from lowswitch.races import Frontier, frontier
from lowswitch.runs.results import Runs, load
from lowswitch.runs.simulate import NothingLearnedWarning, simulate
from lowswitch.runs.stopping import Stop
from lowswitch.runs.sweep import Sweep, sweep
from lowswitch.show.plotting import plot, summary
from lowswitch.table_learner import BonusWarning

if TYPE_CHECKING:
    import gymnasium

    from lowswitch import bandits, concurrent, exact, ledger
    from lowswitch.envs.gymnasium import EnvironmentRun
    from lowswitch.exact import price
    from lowswitch.features import LinearLearner as LinearLearner
else:

    def __getattr__(name: str) -> Any:
        """Packages that are imported when they are first used; recipes and parts by their names."""
        if name in ("bandits", "concurrent", "exact", "ledger"):
            return importlib.import_module(f"lowswitch.{name}")
        if name == "LinearLearner":  # the former name of Learner with features
            return features.FeatureLearner
        if name == "price":
            return importlib.import_module("lowswitch.exact").price
        for module in (algorithms, parts):
            if name in module.__all__:
                return getattr(module, name)
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
    "LinearPolicy",
    "NothingLearnedWarning",
    "PacPolicy",
    "Plan",
    "Runs",
    "Stop",
    "Sweep",
    "TabularMDP",
    "algorithms",
    "bandits",
    "compare_arms",
    "concurrent",
    "deployment_gaps",
    "envs",
    "evaluate",
    "evaluation",
    "exact",
    "exact_regret",
    "features",
    "few",
    "from_gymnasium",
    "frontier",
    "learn",
    "ledger",
    "load",
    "parts",
    "plan",
    "plot",
    "price",
    "rescale",
    "simulate",
    "summary",
    "sweep",
    "theory",
    "vi_lcb",
]


def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str, *, horizon: int | None = None, **options: Any
) -> TabularMDP:
    """The exact tables of a Gymnasium environment that publishes them as P.

    See `lowswitch.envs.gymnasium`.
    """
    from lowswitch.envs import gymnasium

    return gymnasium.from_gymnasium(env, horizon=horizon, **options)


def learn(
    env: gymnasium.Env[Any, Any] | str,
    algorithm: Algorithm | Learner | EnvironmentRun,
    *,
    episodes: int,
    horizon: int | None = None,
    **options: Any,
) -> EnvironmentRun:
    """Let a learner play a Gymnasium environment; the options are those of `learn` there.

    See `lowswitch.envs.gymnasium`.
    """
    from lowswitch.envs import gymnasium

    return gymnasium.learn(env, algorithm, episodes=episodes, horizon=horizon, **options)
