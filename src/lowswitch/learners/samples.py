"""Models that are drawn from a posterior with a learned prior, as lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowswitch.kernels.arrays import Belief, PlanSpec


class DrawnModel(NamedTuple):
    """A model that was drawn from a posterior; steps that are alike are listed once."""

    steps: int  # of which laws are listed: 1 or H
    rows: np.ndarray  # [n]  (h, x, a) or (x, a), counted
    successors: np.ndarray  # [n]
    weights: np.ndarray  # [n]
    rewards: np.ndarray  # [1, S, A] or [H, S, A]
    noisy: bool  # whether rewards vary


def drawn_model(spec: PlanSpec, belief: Belief, stream: np.uint64, number: int) -> DrawnModel:
    """Model `number` of a belief: always the same for the same data and stream of samples.

    The law of the last step, which nothing follows, leads back to its state.
    """
    from lowswitch.kernels.model_draws import draw_step, fresh_drawn
    from lowswitch.kernels.noise import noise

    H, S, A = spec.H, spec.S, spec.A
    drawn, counter = fresh_drawn(spec, belief.laws), np.zeros(1, dtype=np.uint64)
    key, seen = np.uint64(noise(stream, np.uint64(number))), np.zeros(S)
    laws, rewards = [], []
    for h in range(H - 1, -1, -1):
        draw_step(spec, belief, h, key, drawn, counter, seen)
        rewards.append(drawn.rewards.reshape(S, A).copy())
        laws.append(_listed(drawn, S, A) if h + 1 < H else _staying(S, A))
    laws, rewards = laws[::-1], rewards[::-1]
    if belief.laws.stride == 0:
        laws = laws[:1]
    if belief.rewards.stride == 0:
        rewards = rewards[:1]
    rows = np.concatenate([h * S * A + step[0] for h, step in enumerate(laws)])
    successors, weights = (np.concatenate([step[i] for step in laws]) for i in (1, 2))
    paid = np.clip(np.stack(rewards), 0, 1)
    return DrawnModel(len(laws), rows, successors, weights, paid, bool(belief.noisy))


def _listed(drawn: Any, S: int, A: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows, successors and weights of a drawn step, with the mass spread over all states."""
    rows, before = np.repeat(np.arange(S * A), drawn.sizes), np.cumsum(drawn.sizes) - drawn.sizes
    places = np.arange(len(rows)) - before[rows] + drawn.starts[rows]
    spread = np.flatnonzero(drawn.rest > 0)
    return (
        np.append(rows, np.repeat(spread, S)),
        np.append(drawn.states[places], np.tile(np.arange(S), len(spread))),
        np.append(drawn.weights[places], np.repeat(drawn.rest[spread] / S, S)),
    )


def _staying(S: int, A: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row leads back to its state."""
    return np.arange(S * A), np.repeat(np.arange(S), A), np.ones(S * A)
