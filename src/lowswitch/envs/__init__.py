"""Named problems, each a documented function of its sizes; the bridge to Gymnasium is `lowswitch.envs.gymnasium`."""

from __future__ import annotations

from collections.abc import Callable

from lowswitch import naming
from lowswitch.envs.problems import (
    chain,
    chain_bootdqn,
    chain_rlberry,
    combination_lock,
    deep_sea,
    garnet,
    homogeneous_lock,
    random_mdp,
    riverswim,
    riverswim_strehl,
    stochastic_chain,
    switching_lower_bound,
)
from lowswitch.mdp import TabularMDP

__all__ = [
    "PROBLEMS",
    "chain",
    "chain_bootdqn",
    "chain_rlberry",
    "combination_lock",
    "deep_sea",
    "garnet",
    "homogeneous_lock",
    "make",
    "random_mdp",
    "riverswim",
    "riverswim_strehl",
    "stochastic_chain",
    "switching_lower_bound",
]

PROBLEMS: dict[str, Callable[..., TabularMDP]] = {
    "riverswim": riverswim,
    "riverswim-strehl": riverswim_strehl,
    "deep-sea": deep_sea,
    "combination-lock": combination_lock,
    "homogeneous-lock": homogeneous_lock,
    "chain": chain,
    "stochastic-chain": stochastic_chain,
    "chain-rlberry": chain_rlberry,
    "chain-bootdqn": chain_bootdqn,
    "garnet": garnet,
    "random-mdp": random_mdp,
    "switching-lower-bound": switching_lower_bound,
}


def make(text: str) -> TabularMDP:
    """The problem that a text like `riverswim:states=6,horizon=20` names."""
    problem: TabularMDP = naming.build(text, PROBLEMS, "problem")
    return problem
