"""The bridge to Gymnasium under its public name.

`gymnasium.make("lowswitch.envs.gymnasium:lowswitch/...")` imports it.
"""

from lowswitch.problems.gymnasium import Played, from_gymnasium, learn, learner_for
from lowswitch.problems.tabular_env import TabularEnv, problem_env

__all__ = ["Played", "TabularEnv", "from_gymnasium", "learn", "learner_for", "problem_env"]
