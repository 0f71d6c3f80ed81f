"""The bridge to Gymnasium under its public name.

`gymnasium.make("lowswitch.envs.gymnasium:lowswitch/...")` imports it.
"""

from typing import Any

from lowswitch.envs.gymnasium.bridge import from_gymnasium, learner_for
from lowswitch.envs.gymnasium.callbacks import (
    Callback,
    Checkpoint,
    CsvLogger,
    EpisodeEnd,
    TensorBoardLogger,
    WandbLogger,
)
from lowswitch.envs.gymnasium.environment_run import EnvironmentRun, FeatureHistory
from lowswitch.envs.gymnasium.feature_env import Environment
from lowswitch.envs.gymnasium.learning import learn, learn_features
from lowswitch.envs.gymnasium.playing import Episode, play_episode
from lowswitch.envs.gymnasium.rollouts import Rollouts, evaluate_policy, record
from lowswitch.envs.gymnasium.spaces import spaces_of
from lowswitch.envs.gymnasium.tabular_env import TabularEnv, problem_env

__all__ = [
    "Callback",
    "Checkpoint",
    "CsvLogger",
    "Environment",
    "EnvironmentRun",
    "Episode",
    "EpisodeEnd",
    "FeatureHistory",
    "Rollouts",
    "TabularEnv",
    "TensorBoardLogger",
    "WandbLogger",
    "evaluate_policy",
    "from_gymnasium",
    "learn",
    "learn_features",
    "learner_for",
    "play_episode",
    "problem_env",
    "record",
    "spaces_of",
]


def __getattr__(name: str) -> Any:
    """The former name of a class, for one release."""
    if name == "Played":
        return EnvironmentRun
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
