"""The policies of `few` before its first change, where nobody chose one: they explore."""

from __future__ import annotations

import numpy as np

from lowswitch.kernels.streams import START, learner_stream, uniforms


def exploring_policies(allowed: np.ndarray, members: int) -> np.ndarray:  # [members, H, S]
    """Policies that together play every allowed action of a row about equally often.

    Half of them choose by step and state, a quarter by the state alone, and a quarter do the same
    everywhere, as far as the mask [H, S, A] allows it: some things are reached only by doing the
    same again and again. They are the same policies in every run.
    """
    H, S, A = allowed.shape
    same = 0 if H * S == 1 else members // 4
    policies = _dealt(allowed.reshape(-1, A), members - 2 * same, 0).reshape(-1, H, S)
    by_state: np.ndarray = np.min(allowed, axis=0)
    for purpose, mask in enumerate((by_state, np.min(by_state, axis=0, keepdims=True)), 1):
        alike = _dealt(mask, same, purpose)[:, None]
        others = _dealt(allowed.reshape(-1, A), same, purpose + 2).reshape(-1, H, S)
        policies = np.concatenate([policies, np.where(mask.any(axis=1), alike, others)])
    return policies


def _dealt(allowed: np.ndarray, members: int, purpose: int) -> np.ndarray:  # [members, R]
    """The actions of each row of a mask [R, A], each for about as many members, at random."""
    R, A = allowed.shape
    draws = uniforms(learner_stream(purpose, START), 0, R * (A + members)).reshape(R, A + members)
    order = np.argsort(np.where(allowed, draws[:, :A], 1.0), axis=1)
    turns = np.arange(members) % np.maximum(1, allowed.sum(axis=1))[:, None]
    dealt = np.take_along_axis(order, turns, axis=1)
    return np.take_along_axis(dealt, np.argsort(draws[:, A:], axis=1), axis=1).T
