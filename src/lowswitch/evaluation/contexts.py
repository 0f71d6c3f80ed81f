"""Logs of contexts with features: estimates of the value of a policy of one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowswitch.checks import has_integers, numbers, require_count, require_indices
from lowswitch.evaluation.estimates import Samples
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Log:
    """Contexts, actions, rewards, and how probable each logged action was when it was chosen."""

    contexts: Any  # [n, d], or [n, A, d] with features of each action
    actions: Any  # [n]
    rewards: Any  # [n]
    propensities: Any  # [n]  in (0, 1]
    left_out: int = 0  # reports that could not be used


def samples_of(policy: LinearPolicy, log: Log, ridge: float) -> Samples:
    """The ingredients of the estimates of a policy of one step."""
    if policy.shape.horizon != 1:
        raise ValueError(
            f"a log of contexts has one step, and this policy has {policy.shape.horizon}; values of"
            " longer episodes need their states as a table, see lowswitch.evaluation.Episodes"
        )
    x, actions, rewards, logged = checked_log(policy.shape, log)
    every = np.arange(len(x))
    laws = policy.propensities(x)
    weights = laws[every, actions] / logged
    x = _with_intercept(x)
    predicted = _cross_fitted(policy, x, actions, rewards, ridge)  # [n, A]
    residual = rewards - predicted[every, actions]
    modelled, influence = _direct(policy, laws, x, actions, rewards, ridge)
    return Samples(
        weights[:, None],
        rewards[:, None],
        (laws * predicted).sum(axis=1) + weights * residual,
        modelled,
        influence,
    )


def checked_log(shape: Shape, log: Log) -> tuple[np.ndarray, ...]:
    """The log as arrays that fit the shape and each other."""
    if not isinstance(log, Log):
        raise ValueError(
            "log must be a lowswitch.features.Log of contexts, actions, rewards and propensities"
        )
    x, actions = shape.contexts(log.contexts), np.asarray(log.actions)
    rewards = numbers("rewards", log.rewards)
    if not actions.shape == rewards.shape == (len(x),):
        raise ValueError(
            f"a log has an action and a reward for each of {len(x)} contexts, not actions of shape"
            f" {actions.shape} and rewards of {rewards.shape}"
        )
    require_count("the number of samples", len(actions), least=2)
    if not has_integers(actions):
        raise ValueError(f"actions must be integers, not {actions.dtype}")
    require_indices("actions", actions, shape.actions)
    if not np.isfinite(rewards).all():
        raise ValueError("rewards must be finite numbers; leave samples without one out")
    return x, actions, rewards, checked_propensities(log.propensities, actions.shape)


def checked_propensities(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A propensity in (0, 1] for each of the actions."""
    given = numbers("propensities", values)
    if given.shape != shape:
        raise ValueError(
            f"there must be a propensity for each of {shape[0]} actions, not {given.shape}"
        )
    wrong = np.argwhere(~((given > 0) & (given <= 1)))
    if len(wrong):
        first = ", step ".join(map(str, wrong[0]))
        raise ValueError(
            f"propensities must lie in (0, 1], not {given[tuple(wrong[0])]:g} (sample {first}): an"
            " action that was played has a probability above 0; log the propensity of that action"
        )
    return given


def _with_intercept(x: np.ndarray) -> np.ndarray:  # [n, R, d] or [n, R, d + 1]
    """Contexts with a constant feature, added if it is missing.

    Without it the model would add the mean reward to every prediction and could not take it back.
    """
    flat = x.reshape(-1, x.shape[-1])
    if ((flat == flat[0]).all(axis=0) & (flat[0] != 0)).any():
        return x
    return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)


def _cross_fitted(
    policy: LinearPolicy, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, ridge: float
) -> np.ndarray:  # [n, A]
    """Rewards predicted for every action by ridge models that have not seen the sample.

    Dudik, Langford, Li 2011; on folds, so that the estimate stays unbiased.
    """
    predicted = np.zeros((len(x), policy.shape.actions))
    folds = np.arange(len(x)) % _FOLDS
    for fold in range(_FOLDS):
        inside = folds == fold
        model = _Ridge.fitted(policy, x[~inside], actions[~inside], rewards[~inside], ridge)
        predicted[inside] = model.predicted(x[inside])
    return predicted


def _direct(
    policy: LinearPolicy,
    laws: np.ndarray,
    x: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    ridge: float,
) -> tuple[float, np.ndarray]:
    """The value that a model of all samples gives, and the influence of each sample on it.

    A sample has influence through its context, and through the effect of its reward on the weights:
    the sandwich.
    """
    model = _Ridge.fitted(policy, x, actions, rewards, ridge)
    predicted = model.predicted(x)
    values = (laws * predicted).sum(axis=1)
    residual = rewards - predicted[np.arange(len(x)), actions]
    shared, moved = policy.shape.shared, np.zeros(len(x))
    for block in range(policy.shape.blocks):
        mine, rows = model.rows(block, x, actions)
        aim = laws[:, block] @ x[:, 0] if shared else np.einsum("na,nad->d", laws, x)
        moved[mine] = rows @ np.linalg.solve(model.precisions[block], aim) * residual[mine]
    return float(values.mean()), values + moved


@dataclass(frozen=True, eq=False)
class _Ridge:
    """The mean reward, and the difference from it that the features explain."""

    shared: bool
    middle: float
    weights: np.ndarray  # [B, d]
    precisions: np.ndarray  # [B, d, d]

    @classmethod
    def fitted(
        cls,
        policy: LinearPolicy,
        x: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        ridge: float,
    ) -> _Ridge:
        shape, middle, d = policy.shape, float(rewards.mean()), x.shape[-1]
        weights, precisions = np.zeros((shape.blocks, d)), np.zeros((shape.blocks, d, d))
        model = cls(shape.shared, middle, weights, precisions)
        for block in range(shape.blocks):
            mine, rows = model.rows(block, x, actions)
            precisions[block] = rows.T @ rows + ridge * np.eye(d)
            weights[block] = np.linalg.solve(precisions[block], rows.T @ (rewards[mine] - middle))
        return model

    def rows(self, block: int, x: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which samples a weight vector is fitted to, and their features."""
        mine = np.flatnonzero(actions == block) if self.shared else np.arange(len(x))
        return mine, (x[mine, 0] if self.shared else x[mine, actions[mine]])

    def predicted(self, x: np.ndarray) -> np.ndarray:  # [n, A]
        """The reward of each action in contexts [n, R, d]."""
        found: np.ndarray = x[:, 0] @ self.weights.T if self.shared else x @ self.weights[0]
        return self.middle + found
