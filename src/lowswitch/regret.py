"""Exact regret: of a run while it is simulated, or of a deployment history from anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.history import History
from lowswitch.kernels.arrays import BALANCE, Account, Evaluation
from lowswitch.problems.mdp import TabularMDP, aligned_zeros, require_count


def evaluation_of(
    mdp: TabularMDP, policies: np.ndarray, *, wanted: bool = True
) -> tuple[Evaluation, float]:
    """Exact values of the policies [L, H, S] of a mixture, ready to follow their changes, and its
    gap under the start law.
    """
    from lowswitch.kernels.values import policy_value, put_policies

    members, H, S = policies.shape
    width = H * mdp.model.width
    mass = aligned_zeros(members * width if wanted else 0)
    for m in range(members if wanted else 0):
        mass[m * width : m * width + S] = mdp.start_law
    evaluation = Evaluation(
        wanted=wanted,
        H=H,
        S=S,
        A=mdp.actions,
        members=members,
        best=0.0,
        optimal=mdp.unit_optimal_values[0] if wanted else np.zeros(0),
        policy=np.zeros(policies.size if wanted else 0, dtype=np.int64),
        origins=np.zeros(policies.size if wanted else 0, dtype=np.uint64),
        mass=mass,
    )
    if not wanted:
        return evaluation, 0.0
    put_policies(mdp.model, evaluation, np.repeat(mdp.optimal_policy[None], members, axis=0))
    evaluation = evaluation._replace(best=policy_value(mdp.model, evaluation))
    put_policies(mdp.model, evaluation, np.ascontiguousarray(policies, dtype=np.int64))
    return evaluation, evaluation.best - policy_value(mdp.model, evaluation)


def exact_regret(mdp: TabularMDP, history: History, *, episodes: int, initial: Any) -> float:
    """Regret of `episodes` episodes that began with the policy `initial` [H, S] and changed it as
    the history says.
    """
    from lowswitch.kernels.values import settle

    require_count("episodes", episodes)
    changes = checked_changes(mdp, history)
    if len(changes) and changes[-1, 0] >= episodes:
        raise ValueError(
            f"the history changes the policy after episode {changes[-1, 0]}, beyond the {episodes}"
            " episodes given"
        )
    require_starts(mdp, episodes)
    evaluation, gap = evaluation_of(
        mdp, np.repeat(mdp.checked_policy(initial)[None], history.members, axis=0)
    )
    account = fresh_account(gap, np.array([episodes]))
    settle(mdp.model, evaluation, account, changes, len(changes), episodes)
    return float(mdp.scale.to_regret(account.balance[0]["regret"]))


def deployment_gaps(
    mdp: TabularMDP, history: History, *, initial: Any
) -> np.ndarray:  # [deployments + 1]
    """How far below the optimum, under the start law, the policy `initial` [H, S] is and the policy
    after each deployment.
    """
    from lowswitch.kernels.values import fill_gaps

    changes = checked_changes(mdp, history)
    evaluation, _ = evaluation_of(
        mdp, np.repeat(mdp.checked_policy(initial)[None], history.members, axis=0)
    )
    gaps = np.zeros(history.deployments + 1)
    fill_gaps(mdp.model, evaluation, changes, gaps)
    return np.asarray(mdp.scale.to_regret(gaps))


def fresh_account(gap: float, checkpoints: np.ndarray) -> Account:
    """An account of no episodes, for a first policy with this gap."""
    return Account(
        balance=np.array([(0.0, gap, 0, 0)], dtype=BALANCE),
        checkpoints=checkpoints,
        curve=np.full(len(checkpoints), np.nan),
    )


def checked_changes(mdp: TabularMDP, history: History) -> np.ndarray:  # [n, 3 + members]
    """The row changes of a history, in order and in range of the problem."""
    changes = np.asarray(history.changes)
    if changes.ndim != 2 or changes.shape[1] < 4 or not np.issubdtype(changes.dtype, np.integer):
        raise ValueError(
            "a history is integers [n, 4] (episode, step, state, action), or one action more for"
            f" each further member of a mixture, not {changes.dtype} of {changes.shape}"
        )
    if len(changes) and (changes[0, 0] < 0 or (np.diff(changes[:, 0]) < 0).any()):
        raise ValueError("the episodes of a history must not decrease, from 0 on; sort its changes")
    columns = {
        "step": (changes[:, 1], mdp.horizon),
        "state": (changes[:, 2], mdp.states),
        "action": (changes[:, 3:], mdp.actions),
    }
    for name, (values, size) in columns.items():
        if len(values) and not (values.min() >= 0 and values.max() < size):
            raise ValueError(
                f"the {name}s of a history must be 0 to {size - 1}, not {values.min()} to"
                f" {values.max()}"
            )
    return np.array(changes, dtype=np.int64, order="C")


def require_starts(mdp: TabularMDP, episodes: int) -> None:
    """A start sequence must reach to the last episode."""
    if 0 < len(mdp.start_sequence) < episodes:
        raise ValueError(
            f"the start sequence has {len(mdp.start_sequence)} states for {episodes} episodes; "
            "lengthen it, for instance with numpy.resize, or play fewer episodes"
        )
