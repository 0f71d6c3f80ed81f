"""The bridge to Gymnasium under its public name.

`gymnasium.make("lowswitch.envs.gymnasium:lowswitch/...")` imports it.
"""

from lowswitch.envs.gymnasium.features import Environment, learn_features
from lowswitch.envs.gymnasium.tables import (
    Episode,
    Played,
    from_gymnasium,
    learn,
    learner_for,
    play_episode,
)
from lowswitch.envs.gymnasium.tabular_env import TabularEnv, problem_env

__all__ = [
    "Environment",
    "Episode",
    "Played",
    "TabularEnv",
    "from_gymnasium",
    "learn",
    "learn_features",
    "learner_for",
    "play_episode",
    "problem_env",
]
