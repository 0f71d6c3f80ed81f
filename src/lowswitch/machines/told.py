"""Rounds of any family: what the machines played is told to it in machine order, up to where the
rule cuts.

Q-learning has kernels for whole rounds, with which this agrees; the other families need a call of
`learn` a round and one more for each deployment that "speculate" learns past.
"""

from __future__ import annotations

import numpy as np

from lowswitch.machines.sources import Trajectories
from lowswitch.machines.state import State


def learn_round(
    state: State, policy: np.ndarray, episodes: np.ndarray, played: Trajectories
) -> None:
    """Take in the episodes [B] that a policy [H, S], or a mixture [members, H, S], has played, and
    learn as many as the rule keeps.
    """
    from lowswitch.kernels import core as kernels

    window, speculates, deployments = (
        state.window,
        state.rounds.cut == kernels.AT_MISMATCH,
        state.log.counts[1],
    )
    _receive(state, policy, episodes, played)
    while _learn_some(state) and speculates:
        pass
    if not speculates:
        window.ready[:] = False
    elif state.log.counts[1] > deployments:
        ready = np.flatnonzero(window.ready)
        k = state.told + (ready - state.told) % len(window.ready)
        window.ready[ready] = (
            window.actions[ready] == _actions(state, state.policy(), k, window.states[ready])
        ).all(axis=1)


def _actions(
    state: State, policy: np.ndarray, episodes: np.ndarray, states: np.ndarray
) -> np.ndarray:  # [B, H]
    """What the policy or mixture plays in these episodes [B] and states [B, H]."""
    H, S = policy.shape[-2:]
    actions: np.ndarray = policy.reshape(-1, H, S)[
        state.family.drawn(episodes)[:, None], np.arange(H), states
    ]
    return actions


def _receive(state: State, policy: np.ndarray, episodes: np.ndarray, played: Trajectories) -> None:
    window, rounds, (H, S) = state.window, state.rounds, policy.shape[-2:]
    slots, actions = episodes % len(window.ready), _actions(state, policy, episodes, played.states)
    window.states[slots], window.actions[slots], window.rewards[slots] = (
        played.states,
        actions,
        played.rewards,
    )
    window.ready[slots] = True
    np.add.at(rounds.plays, (np.arange(H) * S + played.states) * state.rule.A + actions, 1)
    rounds.counts[:2] += 1, len(episodes)


def _learn_some(state: State) -> bool:
    """Learn in order what lies in the window, to the cut or to the first deployment; return whether
    there was one.
    """
    from lowswitch.kernels import core as kernels

    state.make_room()
    window, rounds, log, told = state.window, state.rounds, state.log, state.told
    slots = np.arange(told, min(state.last, told + len(window.ready))) % len(window.ready)
    slots = slots[: np.append(window.ready[slots], False).argmin()]
    cut = kernels.AT_TRIGGER if rounds.cut == kernels.AT_TRIGGER else kernels.AT_SWITCH
    batch = (
        window.states[slots].astype(np.int64),
        window.actions[slots].astype(np.int64),
        window.rewards[slots],
    )
    changes = log.changes[log.counts[2] :]
    logged, learned, _ = state.family.learn(*batch, False, cut, told, changes)
    window.ready[slots[:learned]] = False
    _note(state, logged, batch[2][:learned])
    if state.evaluation.wanted:
        kernels.settle(state.model, state.evaluation, state.account, changes, logged, state.told)
    if rounds.pause and logged:
        rounds.counts[3] = kernels.last_episode(state.account, rounds)
    return logged > 0


def _note(state: State, logged: int, rewards: np.ndarray) -> None:
    """Count the episodes learned, whose rewards [b, H] are given, and the row changes that the last
    of them logged.
    """
    log, rounds, told, (learned, H) = state.log, state.rounds, state.told, rewards.shape
    used = log.counts[2]
    rounds.stamps[used : used + logged] = rounds.counts[:2]
    log.counts[1:] += logged > 0, logged
    rounds.counts[2] += learned
    earned = np.cumsum(
        np.append(rounds.earned, rewards)
    )  # one by one: the same sum however a run is cut
    marks = slice(*np.searchsorted(log.checkpoints, [told, told + learned], side="right"))
    rounds.curve[marks] = rounds.counts[0]
    rounds.earned_curve[marks] = earned[(log.checkpoints[marks] - told) * H]
    rounds.earned[0] = earned[-1]
