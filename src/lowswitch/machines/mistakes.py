"""Mistakes: how many actions of a run were not near-optimal, by either of two counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.checks import require_eps
from lowswitch.history import History
from lowswitch.problems.mdp import TabularMDP
from lowswitch.regret import deployment_gaps


def mistakes(mdp: TabularMDP, history: History, initial: Any, played_under: Any, eps: float) -> int:
    """H actions for every episode whose policy is more than eps below the optimum under the start
    law.

    This is the count for which the mistake bound of Bai et al. 2019, appendix "Concurrent algorithm
    with mistake bound", follows from its argument: that counts whole episodes. played_under:
    [deployments + 1], the episodes that all machines played under the policy `initial` [H, S] and
    under the one after each deployment. eps is in the user's reward units.
    """
    require_eps(eps)
    gaps = deployment_gaps(mdp, history, initial=initial)
    episodes = np.asarray(played_under)
    if episodes.shape != gaps.shape or not np.issubdtype(episodes.dtype, np.integer):
        raise ValueError(
            f"played_under must be integers [deployments + 1] = ({len(gaps)},), not"
            f" {episodes.dtype} of {episodes.shape}; give the episodes of the first policy too"
        )
    return mdp.horizon * int(episodes[gaps > eps].sum())


def suboptimal_actions(mdp: TabularMDP, plays: Any, eps: float) -> int:
    """The plays [H, S, A] of actions that are worse than eps by themselves: V*_h(x) - Q*_h(x, a) >
    eps.

    An action may be counted here though its policy is within eps, for a state that the policy
    hardly meets; and not counted though its policy is poor, if every single action is poor by less.
    eps is in the user's reward units.
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
