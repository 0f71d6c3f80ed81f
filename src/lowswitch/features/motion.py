"""A learned model on a grid, for control in up to four dimensions, with very few deployments.

The next state is learned by ridge regression. Reward, termination and bounds are the user's: this
is for problems where one knows what one wants and where it ends, and not how things move.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowswitch.checks import (
    numbers,
    require_count,
    require_fraction,
    require_positive,
    require_seed,
    shown,
)
from lowswitch.features.grid import Axes, interpolation, iterate
from lowswitch.io import storage
from lowswitch.policy.linear import Choice

_KIND = "grid policy"  # of its files
_PENALTIES = 10.0 ** np.arange(-9, 3)
_FREE = 10.0  # the constant and the linear part are penalised a hundredth of the waves
_SWEEPS = 2000
_ROUNDING = 1e-3  # of the range: a smaller error of the model does not matter to a plan


@dataclass(frozen=True)
class Dynamics:
    """What is known of a control problem, and how its motion is to be learned; see `dynamics`."""

    reward: Callable[[np.ndarray, int, np.ndarray], Any]
    ends: Callable[[np.ndarray], Any]
    axes: Axes
    actions: int
    features: int
    scale: float
    discount: float
    seed: int

    def rows(self, states: np.ndarray, action: int) -> np.ndarray:  # [n, p]
        """The regressors of states for one action: a constant, the state, and random waves.

        A periodic number enters by its sine and cosine. Each action has a model of its own.
        """
        unit = self.axes.unit(states)
        columns = []
        for i, wraps in enumerate(self.axes.periodic):
            if wraps:
                columns += [np.cos(math.pi * unit[:, i]), np.sin(math.pi * unit[:, i])]
            else:
                columns.append(unit[:, i])
        z = np.column_stack(columns)
        generator = np.random.default_rng([self.seed, action])
        waves = generator.normal(size=(z.shape[1], self.features)) / self.scale
        phases = generator.uniform(0.0, 2.0 * math.pi, self.features)
        waved = np.cos(z @ waves + phases) * math.sqrt(2.0 / max(1, self.features))
        return np.column_stack([np.full(len(z), _FREE), _FREE * z, waved])

    def fit(self, states: np.ndarray, actions: np.ndarray, nexts: np.ndarray) -> Motion:
        """Ridge regressions of the change of state, for each action and number of the state.

        The penalty of each is that with the least squared error of predicting every transition from
        all others (leave one out).
        """
        D = states.shape[1]
        weights, errors = np.zeros((self.actions, 0, D)), np.zeros((self.actions, D))
        for a in range(self.actions):
            mine = actions == a
            moved = self._moved(states[mine], nexts[mine])
            found, errors[a] = leave_one_out(self.rows(states[mine], a), moved)
            if a == 0:
                weights = np.zeros((self.actions, *found.shape))
            weights[a] = found
        return Motion(self, weights, errors)

    def _moved(self, states: np.ndarray, nexts: np.ndarray) -> np.ndarray:  # [n, D]
        """The change of state, the short way round where a number is periodic."""
        moved: np.ndarray = nexts - states
        for i, wraps in enumerate(self.axes.periodic):
            if wraps:
                width = self.axes.high[i] - self.axes.low[i]
                moved[:, i] -= width * np.round(moved[:, i] / width)
        return moved


@dataclass(frozen=True, eq=False)
class Motion:
    """What was learned of the motion: weights [A, p, D], and leave-one-out errors [A, D]."""

    dynamics: Dynamics
    weights: np.ndarray
    errors: np.ndarray

    def predict(self, states: np.ndarray, action: int) -> np.ndarray:  # [n, D]
        """The next states."""
        moved = self.dynamics.rows(states, action) @ self.weights[action]
        return np.asarray(states + moved)

    def plan(self) -> GridPolicy:
        """The greedy policy for the learned motion, by value iteration on the grid.

        What a transition leads to is the mean over `spread_states`, so that the plan keeps away
        from edges that noise would push it over.
        """
        known, nodes = self.dynamics, self.dynamics.axes.nodes()
        A, n = known.actions, len(nodes)
        nexts = [self.spread_states(nodes, a) for a in range(A)]  # of [P, n, D]
        P = len(nexts[0])
        alive = [~_truths("ends", known.ends(some.reshape(P * n, -1)), P * n) for some in nexts]
        rewards = np.zeros((A, n))
        for a in range(A):
            for some in nexts[a]:
                rewards[a] += _rewards(known.reward(nodes, a, some), n) / P
        ahead = sum(
            interpolation(
                known.axes,
                np.concatenate([nexts[a][i] for a in range(A)]),
                np.concatenate([alive[a].reshape(P, n)[i] for a in range(A)]),
            )
            for i in range(P)
        )
        tolerance = 1e-4 * max(1e-12, float(np.abs(rewards).max()))
        q = iterate(
            rewards, ahead / P, discount=known.discount, sweeps=_SWEEPS, tolerance=tolerance
        )
        return GridPolicy(known.axes, q)

    def spread_states(self, states: np.ndarray, action: int) -> np.ndarray:  # [P, n, D]
        """The next states, and where the leave-one-out error is no rounding, points around them.

        Two points sqrt(D) errors away in each dimension have the mean and the variance of the noise
        (a cubature rule: Arasaratnam, Haykin 2009). If one action is noisy, all have such points,
        so that their plans have the same shape.
        """
        mean, D = self.predict(states, action), states.shape[1]
        noise = self.errors / (self.dynamics.axes.high - self.dynamics.axes.low)  # [A, D]
        if not (noise > _ROUNDING).any():
            return mean[None]
        away = math.sqrt(D) * np.diag(self.errors[action])
        return np.concatenate([mean + away[:, None], mean - away[:, None]])


class GridPolicy:
    """Values of actions at the points of a grid; in between they are interpolated.

    It plays the action with the largest value, the lowest index among equals. It is saved without
    the model, and served with numpy alone.
    """

    def __init__(self, axes: Axes, q: np.ndarray) -> None:
        self.axes = axes
        self.q = np.array(q, dtype=float, order="C")  # [A, size]
        self.q.flags.writeable = False
        if self.q.ndim != 2 or self.q.shape[1] != axes.size or not np.isfinite(self.q).all():
            raise ValueError(f"values must be finite numbers [A, {axes.size}], not {self.q.shape}")

    def act(self, state: Any, episode: int = 0) -> Choice:
        """The action in a state; the policy is one function, so that its propensity is 1."""
        given = numbers("a state", state)
        if given.shape != self.axes.low.shape or not np.isfinite(given).all():
            raise ValueError(
                f"a state must be {len(self.axes.low)} finite numbers, not {shown(state)}"
            )
        return Choice(int(self.actions(given[None])[0]), 1.0)

    def actions(self, states: np.ndarray) -> np.ndarray:  # [n]
        """The actions in states [n, D]."""
        index, weight = self.axes.corners(states)
        chosen: np.ndarray = (self.q[:, index] * weight).sum(axis=-1).argmax(axis=0)
        return chosen

    def difference(self, other: GridPolicy, states: Any) -> float:
        """The share of these states [n, D] whose action changes."""
        given = numbers("states", states)
        return float((self.actions(given) != other.actions(given)).mean())

    @property
    def identity(self) -> str:
        """A digest that two policies share only if they are the same."""
        total = hashlib.sha256(repr(self.axes.points + self.axes.periodic).encode())
        for array in (self.axes.low, self.axes.high, self.q):
            total.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return total.hexdigest()

    def __repr__(self) -> str:
        points = " x ".join(map(str, self.axes.points))
        return f"GridPolicy({len(self.q)} actions, {points} points, {self.identity[:12]})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy alone."""
        facts = {"points": list(self.axes.points), "periodic": list(self.axes.periodic)}
        bounds = np.column_stack([self.axes.low, self.axes.high])
        storage.write(path, _KIND, facts, {"bounds": bounds, "q": self.q})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GridPolicy:
        """The policy that `save` wrote."""
        with storage.reading(path, _KIND) as (facts, arrays):
            axes = Axes.of(arrays["bounds"], facts["points"], facts["periodic"])
            return cls(axes, arrays["q"])


def dynamics(
    *,
    reward: Callable[[np.ndarray, int, np.ndarray], Any],
    ends: Callable[[np.ndarray], Any],
    bounds: Any,
    actions: int,
    points: Any = 15,
    periodic: Any = None,
    features: int = 150,
    scale: float = 1.5,
    discount: float = 0.99,
    seed: int = 0,
) -> Dynamics:
    """A control problem of which everything is known but the motion.

    reward(states [n, D], action, next_states [n, D]) and ends(next_states [n, D]) give an entry for
    each of n transitions. bounds: (low, high) for each of at most four numbers of a state; outside
    of them a state is taken at the edge. periodic: which of these numbers are angles. points: of
    the grid, in each dimension. features: how many random waves a regression has beside the state
    itself, and scale how long they are when the bounds are from -1 to 1. What lies further ahead
    than 1 / (1 - discount) steps hardly counts.
    """
    if not (callable(reward) and callable(ends)):
        raise ValueError("reward and ends must be functions of arrays of states; see the docstring")
    axes, actions = Axes.of(bounds, points, periodic), require_count("actions", actions)
    axes.require_room(actions)  # now, and not when the first episodes have been played
    return Dynamics(
        reward=reward,
        ends=ends,
        axes=axes,
        actions=actions,
        features=require_count("features", features, least=0),
        scale=require_positive("scale", scale, "1.5 is usual"),
        discount=require_fraction("discount", discount, "0.99 looks a hundred steps ahead"),
        seed=require_seed(seed),
    )


def leave_one_out(rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ridge weights [p, D] with the penalty that predicts each target best from the others, and the
    root of that mean squared error [D].

    The error of leaving sample i out is (y_i - yhat_i) / (1 - h_ii) with the hat matrix h: Allen
    1974 (PRESS). One decomposition serves all penalties.
    """
    if len(rows) < 2:
        raise ValueError(
            f"an action was tried {len(rows)} times, too rarely to learn what it does; let the"
            " first policy try all actions, or play more episodes before the first deployment"
        )
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    turned = left.T @ targets  # [r, D]
    best = np.full(targets.shape[1], np.inf)
    weights = np.zeros((rows.shape[1], targets.shape[1]))
    for penalty in _PENALTIES * len(rows):
        shrunk = values**2 / (values**2 + penalty)
        hat = (left**2 * shrunk).sum(axis=1)
        residual = (targets - left @ (shrunk[:, None] * turned)) / (1.0 - hat)[:, None]
        error = (residual**2).mean(axis=0)
        better = error < best
        scaled = (values / (values**2 + penalty))[:, None] * turned
        weights[:, better] = (right.T @ scaled)[:, better]
        best[better] = error[better]
    return weights, np.sqrt(best)


def _rewards(given: Any, n: int) -> np.ndarray:
    rewards = np.broadcast_to(numbers("reward", given), (n,))
    if not np.isfinite(rewards).all():
        raise ValueError("reward must give finite numbers")
    return rewards


def _truths(name: str, given: Any, n: int) -> np.ndarray:
    truths = np.asarray(given)
    if truths.shape != (n,) or truths.dtype != bool:
        raise ValueError(
            f"{name} must give True or False for each of {n} states, not {truths.dtype} of"
            f" {truths.shape}"
        )
    return truths
