"""What the proof of Theorems 2 and 3 adds up, taken from runs of the library's learner.

A run is recorded step by step through ask and tell. The tables of the problem are known, so each
term of the proof is an exact number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.envs.mdp import TabularMDP
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.table_learner import TableLearner


class Trail(NamedTuple):
    """A run, step by step. A table has a row per episode and a column per step: [K, H]."""

    state: np.ndarray
    action: np.ndarray
    estimate: np.ndarray  # Q~ of the pair that is visited, before the visit
    value: np.ndarray  # V~ of the state, before the visit
    following: np.ndarray  # V~ of the next state, as the update uses it
    weighted: np.ndarray  # alpha_t b_t, as it entered the update
    luck: np.ndarray  # how far the reward is above its mean
    deployed: np.ndarray  # [K]  which of the policies is deployed
    policies: np.ndarray  # [P, H, S]


def record(mdp: TabularMDP, algorithm: Algorithm, episodes: int, seed: int) -> Trail:
    """Play a learner with the noise of a seed, and write down what the proof asks for."""
    H = mdp.horizon
    learner = TableLearner(
        algorithm, horizon=H, states=mdp.states, actions=mdp.actions, episodes=episodes
    )
    policies = [learner.policy]
    trail = _blank(episodes, H)
    steps = np.arange(H)
    means = np.broadcast_to(mdp.rewards, (H, mdp.states, mdp.actions))
    for k in range(episodes):
        trail.deployed[k] = len(policies) - 1
        states, actions, rewards = play_episode(mdp, policies[-1], seed, k)
        here, values = (steps, states, actions), learner.values
        before, t = learner.q[here], learner.visits[here] + 1
        following = np.append(values[steps[1:], states[1:]], 0.0)
        learner.tell(states, actions, rewards)
        alpha = (H + 1) / (H + t)
        trail.state[k], trail.action[k], trail.estimate[k] = states, actions, before
        trail.value[k], trail.following[k] = values[steps, states], following
        trail.luck[k] = rewards - means[here]
        trail.weighted[k] = learner.q[here] - (1 - alpha) * before - alpha * (rewards + following)
        if learner.deployments >= len(policies):
            policies.append(learner.policy)
    return trail._replace(policies=np.array(policies))


def _blank(episodes: int, H: int) -> Trail:
    shape = episodes, H
    return Trail(
        state=np.zeros(shape, dtype=int),
        action=np.zeros(shape, dtype=int),
        estimate=np.zeros(shape),
        value=np.zeros(shape),
        following=np.zeros(shape),
        weighted=np.zeros(shape),
        luck=np.zeros(shape),
        deployed=np.zeros(episodes, dtype=int),
        policies=np.zeros((0, H, 0), dtype=int),
    )


class Terms(NamedTuple):
    """The terms of the proof at each step of a run, before its visit: [K, H].

    t is the number of earlier visits, s = tau_last(t) the last trigger up to t. A sum weighs the
    i-th visit by alpha_t^i.
    """

    t: np.ndarray
    last: np.ndarray  # s
    excess: np.ndarray  # Q~ - Q*
    rise: np.ndarray  # [Q~ now - Q~ after s visits]_+
    beta: np.ndarray  # beta_t
    last_beta: np.ndarray  # beta_s
    errors: np.ndarray  # the sum of phi~_{h+1} over i = 1 .. t
    last_errors: np.ndarray  # the same over i = 1 .. s, weighed by alpha_s^i
    late_errors: np.ndarray  # the part of `errors` from s + 1 on
    noise: np.ndarray  # the sum of (P^ - P) V*, and of luck, over i = 1 .. t
    late_noise: np.ndarray  # the part from s + 1 on
    variance: np.ndarray  # W_t, of the values that the updates used


def terms_of(trail: Trail, mdp: TabularMDP, algorithm: Algorithm) -> Terms:
    """Add up the terms of the proof along a run, one cell (h, x, a) after the other."""
    episodes, H = trail.state.shape
    terms = Terms(
        *np.zeros((2, episodes, H), int), *np.zeros((len(Terms._fields) - 2, episodes, H))
    )
    triggers = algorithm.schedule.triggers(horizon=H, limit=episodes)
    marks = np.array([0, *range(1, triggers.every_until + 1), *triggers.later])
    errors, noise = next_errors(trail, mdp), next_noise(trail, mdp)
    for h in range(H):
        cells = trail.state[:, h] * mdp.actions + trail.action[:, h]
        for cell in np.unique(cells):
            here = np.flatnonzero(cells == cell), h
            found = _terms_of_cell(
                marks,
                trail.estimate[here],
                trail.following[here],
                errors[here],
                noise[here],
                trail.weighted[here],
                H,
            )
            optimum = mdp.optimal_q[h, cell // mdp.actions, cell % mdp.actions]
            found = found._replace(excess=found.excess - optimum)
            for column, values in zip(terms, found, strict=True):
                column[here] = values
    return terms


def _terms_of_cell(
    marks: np.ndarray,  # 0 and all triggers
    estimates: np.ndarray,
    following: np.ndarray,
    errors: np.ndarray,
    noise: np.ndarray,
    weighted: np.ndarray,
    H: int,
) -> Terms:
    """The terms at the visits of one cell, in order; all arrays are [n]."""
    t = np.arange(len(estimates))
    last = marks[np.searchsorted(marks, t, side="right") - 1]
    alpha = (H + 1) / (H + t + 1)  # of the visit itself
    error, chance, beta = (
        running(added, alpha) for added in (alpha * errors, alpha * noise, 2 * weighted)
    )
    kept = np.append(1.0, np.cumprod(1 - alpha[1:]))[t - (t > 0)]  # from the first visit to t
    share = kept / kept[last]
    seen = np.maximum(t, 1)
    means = [np.append(0.0, np.cumsum(values)[:-1]) / seen for values in (following, following**2)]
    return Terms(
        t=t,
        last=last,
        excess=estimates,
        rise=np.maximum(0.0, estimates - estimates[last]),
        beta=beta,
        last_beta=beta[last],
        errors=error,
        last_errors=error[last],
        late_errors=error - share * error[last],
        noise=chance,
        late_noise=chance - share * chance[last],
        variance=np.maximum(0.0, means[1] - means[0] ** 2),
    )


def running(added: np.ndarray, alpha: np.ndarray) -> np.ndarray:  # [n]
    """X_0 = 0 and X_t = (1 - alpha_t) X_{t-1} + added_t, up to the last but one."""
    sums = np.zeros(len(added))
    for t in range(1, len(added)):
        sums[t] = (1 - alpha[t - 1]) * sums[t - 1] + added[t - 1]
    return sums


# ---- what the tables of the problem say of each step ---------------------------------------------


def laws(trail: Trail, mdp: TabularMDP) -> np.ndarray:  # [K, H, S]
    """The law of the next state at each step."""
    every = np.broadcast_to(mdp.transitions, (mdp.horizon, mdp.states, mdp.actions, mdp.states))
    return np.asarray(every[np.arange(mdp.horizon), trail.state, trail.action])


def at_next(trail: Trail, values: np.ndarray) -> np.ndarray:  # [K, H]
    """What values [K or 1, H + 1, S] say of the state after each step; 0 after the last one."""
    found = np.zeros(trail.following.shape)
    for h in range(len(found[0]) - 1):
        rows = np.arange(len(found)) if len(values) > 1 else 0
        found[:, h] = values[rows, h + 1, trail.state[:, h + 1]]
    return found


def next_errors(trail: Trail, mdp: TabularMDP) -> np.ndarray:  # [K, H]
    """phi~_{h+1}: how far V~ of the next state is above V*."""
    errors: np.ndarray = trail.following - at_next(trail, mdp.optimal_values[None])
    return errors


def next_noise(trail: Trail, mdp: TabularMDP) -> np.ndarray:  # [K, H]
    """zeta = (P^ - P) V*_{h+1}: the surprise of the next state, and of a drawn reward.

    The paper has fixed rewards. With drawn ones r_h - E r_h joins zeta, which stays in a range of
    H - h + 1.
    """
    expected = (laws(trail, mdp) * mdp.optimal_values[1:]).sum(axis=-1)
    surprise: np.ndarray = at_next(trail, mdp.optimal_values[None]) - expected
    surprise[:, -1] = 0.0
    surprise += trail.luck
    return surprise


class Values(NamedTuple):
    """What the deployed policy is worth at each step: [K, H]."""

    delta: np.ndarray  # V~_h - V_h of the deployed policy
    next_delta: np.ndarray  # the same at the next step and state
    xi: np.ndarray  # (P - P^)(V* - V of the deployed policy)
    variance: np.ndarray  # of V of the deployed policy over the next state


def values_of(trail: Trail, mdp: TabularMDP) -> Values:
    """Compare the estimates along a run with the exact values of what was deployed."""
    each = np.array([mdp.policy_values(policy) for policy in trail.policies])[trail.deployed]
    steps = np.arange(mdp.horizon)
    worth = np.take_along_axis(each[:, steps], trail.state[:, :, None], axis=-1)[..., 0]
    law, lost = laws(trail, mdp), mdp.optimal_values - each
    mean = (law * each[:, 1:]).sum(axis=-1)
    xi = (law * lost[:, 1:]).sum(axis=-1) - at_next(trail, lost)
    return Values(
        delta=trail.value - worth,
        next_delta=trail.following - at_next(trail, each),
        xi=xi,
        variance=(law * (each[:, 1:] - mean[..., None]) ** 2).sum(axis=-1),
    )
