"""Checks on the state of a run before it resumes; the learner checks its own knowledge itself."""

from __future__ import annotations

import numpy as np

from lowswitch.checks import require_indices
from lowswitch.concurrent.state import RoundSetting, RoundState
from lowswitch.history import History, all_members
from lowswitch.learners.integrity import require, require_finite
from lowswitch.policy.tables import change_rows
from lowswitch.runs.results import curve_points


def require_whole(state: RoundState, setting: RoundSetting) -> None:
    """Raise a ValueError if rounds cannot have left the state like this."""
    _require_totals(state, setting)
    _require_history(state)
    _require_window(state)
    _require_account(state, setting)


def _require_totals(state: RoundState, setting: RoundSetting) -> None:
    totals, rounds = state.rounds.totals[0], state.rounds
    learned, last, played = (int(totals[name]) for name in ("learned", "last", "played"))
    require(0 <= learned <= last <= setting.episodes, f"it learned {learned} of {last} episodes")
    most = int(totals["rounds"]) * setting.machines
    ready = int(np.count_nonzero(state.window.ready))
    counts = learned + ready <= played <= most
    require(counts, f"it played {played} episodes in {totals['rounds']} rounds")
    passed = int(np.searchsorted(state.log.curve_points, learned, side="right"))
    require(totals["passed"] == passed, f"it passed {totals['passed']} points of its curves")
    require_finite("rewards", totals["earned"], rounds.earned_curve)
    require((rounds.plays >= 0) & (rounds.plays <= played), "its plays are not counts")
    steps = rounds.plays.reshape(state.knowledge.spec.H, -1).sum(axis=1)
    require(steps == played, f"its plays do not add up to {played} episodes")
    curve = rounds.curve[:passed]
    require((curve >= 0) & (curve <= totals["rounds"]), "its curve has rounds that were not played")


def _require_history(state: RoundState) -> None:
    """Check that the changes lead from the initial policy to the deployed one."""
    H, S, A = state.knowledge.allowed.shape
    changes, stamps = state.changes, state.rounds.stamps[: len(state.changes)]
    episodes = np.concatenate(([0], changes[:, 0], [max(0, state.learned - 1)]))
    require(np.diff(episodes) >= 0, "its changes are not in the order of episodes")
    for i, (name, size) in enumerate((("steps", H), ("states", S))):
        require_indices(f"{name} of its changes", changes[:, 1 + i], size)
    require_indices("actions of its changes", changes[:, 3:], A)
    for name in ("rounds", "played"):
        order = np.concatenate(([0], stamps[name], [state.rounds.totals[0][name]]))
        require(np.diff(order) >= 0, f"the {name} of its changes do not increase")
    deployed = state.knowledge.policy().actions
    policies = all_members(state.initial, len(deployed))
    before = None if state.initial.ndim == 2 else policies.copy()
    change_rows(policies, changes[:, 1:])
    require(policies == deployed, "its changes do not lead to its policy")
    history, knowledge = History(changes, before=before), state.knowledge
    counted = history.deployments, history.local_switches
    clock = knowledge.deployments, knowledge.local_switches
    require(counted == clock, "the number of its changes differs from its learner's count")


def _require_window(state: RoundState) -> None:
    """Check that the deployed policy played the stored episodes, so that they will be learned."""
    (H, S, A), window, learned = state.knowledge.allowed.shape, state.window, state.learned
    require_indices("states of episodes played ahead", window.states, S)
    require_indices("actions of episodes played ahead", window.actions, A)
    rewards = window.rewards
    require((rewards >= 0) & (rewards <= 1), "rewards of episodes played ahead lie outside [0, 1]")
    width = len(window.ready)
    episodes = np.arange(learned, learned + width)
    ready = window.ready[episodes % width]
    policy = state.knowledge.policy()
    for k in episodes[ready]:
        slot = k % width
        played = policy.table(int(k))[np.arange(H), window.states[slot]]
        require(played == window.actions[slot], "its policy did not play the episodes played ahead")


def _require_account(state: RoundState, setting: RoundSetting) -> None:
    balance, passed = state.account.balance[0], int(state.account.balance[0]["passed"])
    require_finite("regret", balance["regret"], balance["gap"])
    points = np.array_equal(state.account.curve_points, curve_points(setting.episodes))
    require(points, "the points of its curve do not belong to its run")
    if not state.evaluation.wanted:
        return
    require(0 <= balance["charged"] <= state.learned, "it charged episodes that were not learned")
    expected = np.searchsorted(state.account.curve_points, balance["charged"], side="right")
    require(passed == expected, f"it charged {passed} points of its curve, not {expected}")
    require_finite("regret", state.account.curve[:passed])
