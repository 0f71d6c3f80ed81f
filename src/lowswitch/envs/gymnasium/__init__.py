"""The bridge to Gymnasium under its public name.

`gymnasium.make("lowswitch.envs.gymnasium:lowswitch/...")` imports it.
"""

from typing import Any

from lowswitch.envs.gymnasium.bridge import (
    EnvironmentRun,
    Episode,
    from_gymnasium,
    learn,
    learner_for,
    play_episode,
)
from lowswitch.envs.gymnasium.feature_env import Environment, learn_features
from lowswitch.envs.gymnasium.tabular_env import TabularEnv, problem_env

__all__ = [
    "Environment",
    "EnvironmentRun",
    "Episode",
    "TabularEnv",
    "from_gymnasium",
    "learn",
    "learn_features",
    "learner_for",
    "play_episode",
    "problem_env",
]


def __getattr__(name: str) -> Any:
    """The former name of a class, for one release."""
    if name == "Played":
        return EnvironmentRun
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
