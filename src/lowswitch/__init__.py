"""Reinforcement learning for policies that are expensive to change."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium

    from lowswitch import (
        algorithms,
        bandits,
        concurrent,
        envs,
        evaluation,
        exact,
        features,
        ledger,
        theory,
    )
    from lowswitch.algorithms import parts
    from lowswitch.algorithms.algorithm import Algorithm
    from lowswitch.algorithms.recipes import few
    from lowswitch.envs.gymnasium import EnvironmentRun
    from lowswitch.envs.mdp import TabularMDP, rescale
    from lowswitch.evaluation import compare_arms, evaluate, vi_lcb
    from lowswitch.exact import price
    from lowswitch.features import LinearLearner as LinearLearner
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
else:
    # Everything is imported when it is first used, so that `import lowswitch` costs nothing.
    _HOMES = {
        "algorithms.algorithm": ("Algorithm",),
        "algorithms.recipes": ("few",),
        "envs.mdp": ("TabularMDP", "rescale"),
        "evaluation": ("compare_arms", "evaluate", "vi_lcb"),
        "exact": ("price",),
        "features": ("LinearPolicy",),
        "forecast": ("Plan", "plan"),
        "history": ("History", "PacPolicy", "deployment_gaps", "exact_regret"),
        "learner": ("Learner",),
        "races": ("Frontier", "frontier"),
        "runs.results": ("Runs", "load"),
        "runs.simulate": ("NothingLearnedWarning", "simulate"),
        "runs.stopping": ("Stop",),
        "runs.sweep": ("Sweep", "sweep"),
        "show.plotting": ("plot", "summary"),
        "table_learner": ("BonusWarning",),
    }
    _HOME = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> Any:
        """A public name or package on its first use; recipes and parts by their names."""
        if name in _HOME:
            found = getattr(importlib.import_module(f"lowswitch.{_HOME[name]}"), name)
        elif name == "parts":
            found = importlib.import_module("lowswitch.algorithms.parts")
        elif name in __all__:
            found = importlib.import_module(f"lowswitch.{name}")
        elif name == "LinearLearner":  # the former name of Learner with features
            found = importlib.import_module("lowswitch.features").FeatureLearner
        else:
            found = _recipe_or_part(name)
        globals()[name] = found
        return found

    def _recipe_or_part(name: str) -> Any:
        if not name.startswith("_"):
            for home in ("algorithms", "algorithms.parts"):
                module = importlib.import_module(f"lowswitch.{home}")
                if name in module.__all__:
                    return getattr(module, name)
        raise AttributeError(f"module 'lowswitch' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__version__ = "1.0.0"

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

    Parameters
    ----------
    env
        An environment, or a name for `gymnasium.make`.
    horizon
        H, the number of steps per episode.
    **options
        Options for `gymnasium.make`.

    See Also
    --------
    lowswitch.envs.gymnasium.from_gymnasium
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
    """Let a learner play a Gymnasium environment.

    Parameters
    ----------
    env
        An environment, a vector of them, or a name for `gymnasium.make`.
    algorithm
        An algorithm; or a learner or an earlier run, to continue.
    episodes
        How many episodes to play.
    horizon
        H, the number of steps per episode.
    **options
        The options of `lowswitch.envs.gymnasium.learn`.

    Returns
    -------
    EnvironmentRun
        Returns, switching costs and the learner.

    See Also
    --------
    lowswitch.envs.gymnasium.learn
    """
    from lowswitch.envs import gymnasium

    return gymnasium.learn(env, algorithm, episodes=episodes, horizon=horizon, **options)
