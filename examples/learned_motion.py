"""Control with a learned motion: few episodes, and very few deployments.

The reward, the end of an episode and the bounds of a state must be known. Ridge regression learns
how the state moves, and value iteration on a grid finds the policy. A grid limits a state to about
four numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from lowswitch.features import fourier

Act = Callable[[np.ndarray], int]  # from a state [D] to an action

_WAVES, _LENGTH = 150, 1.5  # random waves of a regression, and their length in a box from -1 to 1
_FREE = 10.0  # the penalty of the constant and the linear part is a hundredth of that of the waves
_PENALTIES = 10.0 ** np.arange(-9, 3)
_ROUNDING = 1e-3  # of the bounds: a plan ignores smaller errors of the model
_SWEEPS = 2000


# ---- the grid ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A box with equally spaced points in each dimension; angles end where they begin."""

    bounds: np.ndarray  # [D, 2]  low and high
    points: tuple[int, ...]  # in each dimension
    angles: tuple[int, ...] = ()  # which numbers of a state are angles

    @property
    def size(self) -> int:
        """The number of points."""
        return math.prod(self.points)

    def nodes(self) -> np.ndarray:  # [size, D]
        """All points; the last dimension changes fastest."""
        lines = [
            np.linspace(low, high, n, endpoint=i not in self.angles)
            for i, ((low, high), n) in enumerate(zip(self.bounds, self.points, strict=True))
        ]
        mesh = np.meshgrid(*lines, indexing="ij")
        return np.stack([axis.reshape(-1) for axis in mesh], axis=1)

    def unit(self, states: np.ndarray) -> np.ndarray:  # [n, D]
        """States on the scale where the box is [-1, 1] in each dimension."""
        low, high = self.bounds.T
        scaled: np.ndarray = 2.0 * (states - low) / (high - low) - 1.0
        return scaled

    def corners(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points around each state [n, 2^D] and their weights, which sum to 1.

        A state outside the box is moved to its edge.
        """
        count = len(states)
        index, weight = np.zeros((count, 1), dtype=np.int64), np.ones((count, 1))
        for i, ((low, high), n) in enumerate(zip(self.bounds, self.points, strict=True)):
            place, wraps = (states[:, i] - low) / (high - low), i in self.angles
            place = place * n if wraps else np.clip(place, 0.0, 1.0) * (n - 1)
            floor = np.floor(place) if wraps else np.minimum(np.floor(place), n - 2)
            sides = (floor.astype(np.int64)[:, None] + [0, 1]) % n  # [count, 2]
            shares = np.stack([1.0 - (place - floor), place - floor], axis=1)
            index = (index[:, :, None] * n + sides[:, None]).reshape(count, -1)
            weight = (weight[:, :, None] * shares[:, None]).reshape(count, -1)
        return index, weight


def interpolation(grid: Grid, states: np.ndarray, alive: np.ndarray) -> Any:
    """The sparse matrix [n, size] from values at the points to values at states [n, D].

    A state that is not alive has no value. The matrix averages, so value iteration converges
    (Gordon 1995).
    """
    index, weight = grid.corners(states)
    weight = weight * alive[:, None]
    offsets = np.arange(len(states) + 1) * index.shape[1]
    shape = (len(states), grid.size)
    return csr_array((weight.reshape(-1), index.reshape(-1), offsets), shape=shape)


def iterate_values(
    rewards: np.ndarray, ahead: Any, *, discount: float, tolerance: float
) -> np.ndarray:  # [A, size]
    """Q at the points, from rewards [A, size] and the matrix `ahead` [A * size, size].

    It ends when no value changes by more than the tolerance.
    """
    value, q = np.zeros(rewards.shape[1]), rewards
    for _ in range(_SWEEPS):
        q = rewards + discount * (ahead @ value).reshape(rewards.shape)
        better = q.max(axis=0)
        change = np.abs(better - value).max()
        value = better
        if change <= tolerance:
            break
    return q


@dataclass(frozen=True, eq=False)
class GridPolicy:
    """Plays the action with the largest value, interpolated between the points of a grid."""

    grid: Grid
    q: np.ndarray  # [A, size]

    def act(self, state: np.ndarray) -> int:
        """The action in a state [D]; the lowest index among equals."""
        index, weight = self.grid.corners(state[None])
        return int((self.q[:, index] * weight).sum(axis=-1).argmax(axis=0)[0])


# ---- the motion ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Everything that is known about a control problem; the motion is not.

    `reward(states, action, nexts)` and `ends(nexts)` take arrays [n, D] and return an entry for
    each of n transitions. A plan looks about 1 / (1 - discount) steps ahead.
    """

    reward: Callable[[np.ndarray, int, np.ndarray], np.ndarray]
    ends: Callable[[np.ndarray], np.ndarray]
    grid: Grid
    actions: int
    discount: float = 0.99


class Episode(NamedTuple):
    """One episode to its end."""

    states: np.ndarray  # [T + 1, D]
    actions: np.ndarray  # [T]
    paid: float


@dataclass(frozen=True, eq=False)
class Motion:
    """The learned motion: regression weights [A, p, D], and leave-one-out errors [A, D]."""

    problem: Problem
    weights: np.ndarray
    errors: np.ndarray

    def predict(self, states: np.ndarray, action: int) -> np.ndarray:  # [n, D]
        """The next states."""
        moved = regressors(self.problem.grid, states, action) @ self.weights[action]
        return np.asarray(states + moved)

    def spread(self, states: np.ndarray, action: int) -> np.ndarray:  # [P, n, D]
        """The next states; points around them if some error is more than rounding.

        Two points sqrt(D) errors away in each dimension have the mean and the variance of the noise
        (a cubature rule: Arasaratnam, Haykin 2009).
        """
        mean, (low, high) = self.predict(states, action), self.problem.grid.bounds.T
        if not (self.errors / (high - low) > _ROUNDING).any():
            return mean[None]
        away = math.sqrt(states.shape[1]) * np.diag(self.errors[action])
        return np.concatenate([mean + away[:, None], mean - away[:, None]])

    def plan(self) -> GridPolicy:
        """The greedy policy for the learned motion, by value iteration on the grid.

        Rewards and values are averages over `spread`, so the plan avoids edges that noise would
        push it over.
        """
        problem, nodes = self.problem, self.problem.grid.nodes()
        nexts = np.stack([self.spread(nodes, a) for a in range(problem.actions)], axis=1)
        P, A, n, D = nexts.shape
        rewards, ahead = np.zeros((A, n)), 0
        for some in nexts:
            for a in range(A):
                rewards[a] += problem.reward(nodes, a, some[a]) / P
            flat = some.reshape(A * n, D)
            ahead += interpolation(problem.grid, flat, ~problem.ends(flat))
        tolerance = 1e-4 * np.abs(rewards).max()
        q = iterate_values(rewards, ahead / P, discount=problem.discount, tolerance=tolerance)
        return GridPolicy(problem.grid, q)


def regressors(grid: Grid, states: np.ndarray, action: int) -> np.ndarray:  # [n, p]
    """A constant, the state, and random waves, which differ by action.

    An angle enters by its cosine and sine.
    """
    columns = []
    for i, column in enumerate(grid.unit(states).T):
        wraps = i in grid.angles
        columns += [np.cos(math.pi * column), np.sin(math.pi * column)] if wraps else [column]
    z = np.column_stack(columns)
    box = np.outer([-1.0, 1.0], np.ones(z.shape[1]))  # has mean 0 and deviation 1
    waves = fourier(box, size=_WAVES, scale=_LENGTH, seed=action << 32)  # as [0, action] of numpy
    rows = waves(z)
    rows[:, : 1 + z.shape[1]] *= _FREE
    return rows


def fit(problem: Problem, told: Sequence[Episode]) -> Motion:
    """A ridge regression of the change of state for each action."""
    states = np.concatenate([episode.states[:-1] for episode in told])
    moved = np.concatenate([np.diff(episode.states, axis=0) for episode in told])
    for i in problem.grid.angles:  # the short way round
        width = np.ptp(problem.grid.bounds[i])
        moved[:, i] -= width * np.round(moved[:, i] / width)
    actions = np.concatenate([episode.actions for episode in told])
    fits = [
        leave_one_out(regressors(problem.grid, states[mine], a), moved[mine])
        for a in range(problem.actions)
        for mine in [actions == a]
    ]
    weights, errors = zip(*fits, strict=True)
    return Motion(problem, np.stack(weights), np.stack(errors))


def leave_one_out(rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ridge weights [p, D] with the penalties that predict each target best from the others, and
    the roots of these mean squared errors [D].

    The error of leaving sample i out is (y_i - yhat_i) / (1 - h_ii) with the hat matrix h: Allen
    1974 (PRESS). One decomposition serves all penalties.
    """
    if len(rows) < 2:
        raise ValueError(
            f"an action was tried {len(rows)} times, too rarely to learn its effect; explore in"
            " more episodes before the first deployment"
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


# ---- learning ------------------------------------------------------------------------------------


def play(env: Any, act: Act, reset: int) -> Episode:
    """One episode of a Gymnasium environment that was reset with this seed."""
    observation, _ = env.reset(seed=reset)
    states, actions, paid, over = [np.asarray(observation, dtype=float)], [], 0.0, False
    while not over:
        actions.append(act(states[-1]))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        states.append(np.asarray(observation, dtype=float))
        paid += float(reward)
        over = terminated or truncated
    return Episode(np.stack(states), np.array(actions), paid)


def learn(
    env: Any,
    problem: Problem,
    *,
    resets: Iterable[int],
    deployments_at: Collection[int],
    explore: Callable[[int], Act],
) -> tuple[GridPolicy | None, list[Episode]]:
    """Play an episode for each seed in `resets`, and plan anew after those in `deployments_at`.

    Until the first deployment, episode k is played by `explore(k)`.
    """
    policy, told = None, []
    for k, reset in enumerate(resets):
        told.append(play(env, explore(k) if policy is None else policy.act, reset))
        if len(told) in deployments_at:
            policy = fit(problem, told).plan()
    return policy, told
