"""Count how many actions of a run were not near-optimal, in two ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.checks import require_eps
from lowswitch.envs.mdp import TabularMDP
from lowswitch.history import History, deployment_gaps


def mistakes(mdp: TabularMDP, history: History, initial: Any, played_under: Any, eps: float) -> int:
    """Count the H actions of every episode whose policy is more than `eps` below the optimum.

    Values are under the start distribution. The argument of Bai et al. 2019, appendix "Concurrent
    algorithm with mistake bound", counts whole episodes, so its bound applies to this count.

    played_under: [deployments + 1], the number of episodes that all machines played under the
    policy `initial` [H, S], and under the policy after each deployment.
    eps: in the user's reward units.
    """
    require_eps(eps)
    gaps = deployment_gaps(mdp, history, initial=initial)
    episodes = np.asarray(played_under)
    if episodes.shape != gaps.shape or not np.issubdtype(episodes.dtype, np.integer):
        raise ValueError(
            f"played_under must be integers [deployments + 1] = ({len(gaps)},), not "
            f"{episodes.dtype} of {episodes.shape}; include the episodes of the initial "
            "policy"
        )
    return mdp.horizon * int(episodes[gaps > eps].sum())


def suboptimal_actions(mdp: TabularMDP, plays: Any, eps: float) -> int:
    """Count the plays [H, S, A] of actions that lose more than `eps` by themselves, V*_h(x) -
    Q*_h(x, a) > eps.

    A policy within `eps` of the optimum may take such actions in states that it hardly visits. A
    poor policy may take none, if each of its actions loses less. `eps` is in the user's reward
    units.
    """
    require_eps(eps)
    counts = np.asarray(plays)
    shape = (mdp.horizon, mdp.states, mdp.actions)
    if counts.shape != shape or not np.issubdtype(counts.dtype, np.integer):
        raise ValueError(
            f"plays must be integers [H, S, A] = {shape}, not {counts.dtype} of {counts.shape};"
            " give the run's own problem"
        )
    gaps = mdp.optimal_values[:-1, :, None] - mdp.optimal_q
    return int(counts[gaps > eps].sum())
