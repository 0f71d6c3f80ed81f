"""What a policy within eps of the optimum goes on doing: an erratum of the mistake bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.envs.mdp import TabularMDP
from lowswitch.history import deployment_gaps
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import history_of, sequential_runs
from lowswitch.reproduce.qlearning import SCALE
from lowswitch.reproduce.section import PageTable


class NearOptimal(NamedTuple):
    """The first deployed policy within eps of the optimum, and what it does if it is played on."""

    eps: float
    gap: float  # V* - V
    actions: float  # an episode, in the mean, that lose more than eps by themselves


def near_optimal(lab: Lab, problem: str, eps_share: float) -> NearOptimal | None:
    """What the first policy within so much of V* goes on doing on a problem, if there is one."""
    mdp = lab.make(problem)
    runs = sequential_runs(lab, problem, ucb2_hoeffding(c=SCALE))
    eps = eps_share * mdp.optimal_value()
    history = history_of(runs, 0)
    gaps = deployment_gaps(mdp, history, initial=runs.initial)
    if gaps.min() > eps:
        return None
    first = int(np.argmax(gaps <= eps))
    policy = runs.initial.copy()
    early = history.changes[history.episode <= np.append(-1, np.unique(history.episode))[first]]
    for _, h, x, a in early:
        policy[h, x] = a
    return NearOptimal(eps, float(gaps[first]), losing_actions(mdp, policy, eps))


def losing_actions(mdp: TabularMDP, policy: np.ndarray, eps: float) -> float:
    """The average number of actions per episode that lose more than eps by themselves.

    It is the value of the policy in a problem that pays 1 for each of them.
    """
    from scipy.sparse import csr_matrix

    laws = csr_matrix(
        (mdp.probabilities, mdp.successors, mdp.offsets), shape=(len(mdp.offsets) - 1, mdp.states)
    )
    losing = mdp.optimal_values[:-1, :, None] - mdp.optimal_q > eps
    return TabularMDP(
        laws, losing.astype(float), start=mdp.start_law, horizon=mdp.horizon
    ).evaluate(policy)


def near_optimal_finding(
    kept_on: Mapping[str, NearOptimal], eps_share: float, episodes: int
) -> Finding:
    """Whether such a policy takes actions that lose more than eps by themselves."""
    worst = max(kept_on, key=lambda problem: kept_on[problem].actions)
    return Finding(
        says=r"an $\eps$-optimal policy makes no mistake (appendix)",
        scale=f"c = {SCALE}",
        length=f"K = {episodes:,}",
        problems=", ".join(kept_on),
        proved=True,
        found=(f"true by episodes; by actions, {kept_on[worst].actions:.3f} an episode on {worst}"),
        checks=[
            Check(
                rf"the first policy within $\eps$ = {eps_share} V* takes no action that loses"
                r" more than $\eps$ by itself",
                ", ".join(
                    f"{problem} {found.actions:.3f} an episode"
                    for problem, found in kept_on.items()
                ),
                all(found.actions == 0 for found in kept_on.values()),
                always=True,
            ),
            Check(
                r"it takes at most $(V^* - V) / \eps$ of them an episode, in the mean",
                ", ".join(
                    f"{problem} {found.gap / found.eps:.3f}" for problem, found in kept_on.items()
                ),
                all(found.actions <= found.gap / found.eps for found in kept_on.values()),
                always=True,
                consistency=True,
            ),
        ],
    )


def near_optimal_table(kept_on: Mapping[str, NearOptimal], eps_share: float) -> PageTable:
    """What these policies do, problem by problem."""
    rows = [
        {
            "problem": problem,
            "eps": f"{found.eps:.4f}",
            "V* - V": f"{found.gap:.4f}",
            "actions an episode that lose more than eps": f"{found.actions:.4f}",
            "(V* - V) / eps": f"{found.gap / found.eps:.4f}",
        }
        for problem, found in kept_on.items()
    ]
    title = f"The first policy of UCB2-H within eps = {eps_share} V*: what it goes on doing"
    return PageTable.of(title, rows)
