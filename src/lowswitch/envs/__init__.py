"""Named problems, each a documented function of its sizes.

The bridge to Gymnasium is `lowswitch.envs.gymnasium`.
"""

from lowswitch.envs.catalogue import (
    PROBLEMS,
    chain,
    chain_bootdqn,
    chain_rlberry,
    combination_lock,
    deep_sea,
    garnet,
    homogeneous_lock,
    make,
    random_mdp,
    riverswim,
    riverswim_strehl,
    stochastic_chain,
    switching_lower_bound,
)
from lowswitch.envs.files import from_file
from lowswitch.envs.simulator import Simulator

__all__ = [
    "PROBLEMS",
    "Simulator",
    "chain",
    "chain_bootdqn",
    "chain_rlberry",
    "combination_lock",
    "deep_sea",
    "from_file",
    "garnet",
    "homogeneous_lock",
    "make",
    "random_mdp",
    "riverswim",
    "riverswim_strehl",
    "stochastic_chain",
    "switching_lower_bound",
]
