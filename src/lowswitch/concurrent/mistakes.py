"""Mistakes: what M machines do that is more than eps worse than the best, by two measures."""

from __future__ import annotations

import numpy as np

from lowswitch.history import History
from lowswitch.mdp import TabularMDP
from lowswitch.regret import deployment_gaps


def mistakes(mdp: TabularMDP, history: History, initial: np.ndarray, played_under: np.ndarray, eps: float) -> int:
    gaps = deployment_gaps(mdp, history, initial=initial)
    return int(mdp.horizon * played_under[gaps > eps].sum())


def suboptimal_actions(mdp: TabularMDP, plays: np.ndarray, eps: float) -> int:
    lost = mdp.optimal_values[:-1, :, None] - mdp.optimal_q
    return int(plays[lost > eps].sum())
