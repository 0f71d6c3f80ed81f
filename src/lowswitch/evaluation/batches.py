"""Which of two arms is better, from all batches of a run whose later batches learned from earlier.

The plain interval of a difference of means is too short there: a batch gives more cases to the arm
that was lucky before. Both intervals here undo this, each in its own way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowswitch.checks import (
    has_integers,
    numbers,
    require_count,
    require_fraction,
    require_indices,
    require_within,
)
from lowswitch.evaluation.estimates import Estimate, normal_quantile


@dataclass(frozen=True, eq=False)
class Batches:
    """Cases of one step, in their order, and the law by which each batch drew its arms."""

    actions: Any  # [n]
    rewards: Any  # [n]
    batches: Any  # [n]  the number of each case's batch, from 0, never falling
    laws: Any  # [T, A], or [T, S, A] with states: the probability of each arm in each batch
    states: Any = None  # [n], or None where all cases are alike


@dataclass(frozen=True)
class Contrast:
    """How much more one arm pays than another in a state, on average per case.

    Attributes
    ----------
    state
        The state.
    first, second
        The two arms.
    bols
        Batched least squares (Zhang, Janson, Murphy 2020).
    adaptive
        Adaptively weighted doubly robust (Hadad et al. 2021).
    plain
        The difference of means, whose interval is too short after adaptive batches.
    batches
        The number of batches in which both arms were played at least twice.
    """

    state: int
    first: int
    second: int
    bols: Estimate
    adaptive: Estimate
    plain: Estimate
    batches: int

    def __str__(self) -> str:
        where = f"state {self.state}: arm {self.first} less arm {self.second}"
        return f"{where}: batched {self.bols}, adaptive {self.adaptive}"


def compare_arms(data: Batches, *, confidence: float = 0.95) -> list[Contrast]:
    """Intervals for the difference of each pair of arms, valid although batches learned.

    `bols` also holds if the mean of all arms moves from batch to batch; `adaptive` does not need
    many cases in each batch. A pair that was never played gets an infinite interval.

    Parameters
    ----------
    data
        The `Batches`.
    confidence
        Each interval holds at this confidence for its own pair. For all pairs of a run together,
        divide 1 - `confidence` by their number.

    See Also
    --------
    logged_batches
    """
    z = normal_quantile(require_fraction("confidence", confidence, "0.95 is usual"))
    actions, rewards, batches, states, laws = _checked(data)
    found = []
    for state in range(laws.shape[1]):
        here = states == state
        case = actions[here], rewards[here], batches[here]
        own = laws[batches[here], state]  # [m, A]
        scores, evaluation = adaptive_scores(*case[:2], own), np.sqrt(own)
        for first, second in itertools.combinations(range(laws.shape[2]), 2):
            moments = list(_moments(*case, first, second))
            found.append(
                Contrast(
                    state=state,
                    first=first,
                    second=second,
                    bols=batched_difference(moments, _spreads(*case, first, second), z),
                    adaptive=weighted_difference(
                        scores[:, [first, second]], evaluation[:, [first, second]], z
                    ),
                    plain=_plain(*case[:2], first, second, z),
                    batches=len(moments),
                )
            )
    return found


def batched_difference(
    moments: list[tuple[float, int, int]], spreads: tuple[float, float], z: float
) -> Estimate:
    """BOLS: the mean of studentised differences by batch is normal (Zhang et al. 2020, Theorem 3).

    Each batch gives a difference d of means and the two counts. With s its standard error, from the
    variance of each arm within batches, sum (d - D) / s over the root of their number is normal
    with variance 1, so D is estimated by sum (d / s) / sum (1 / s).
    """
    if not moments or not all(map(math.isfinite, spreads)):
        return Estimate(math.nan, -math.inf, math.inf)
    errors = [math.sqrt(spreads[0] / n + spreads[1] / m) for _, n, m in moments]
    if not min(errors) > 0:  # all rewards of an arm are the same
        return Estimate(math.nan, -math.inf, math.inf)
    total = sum(1 / error for error in errors)
    pairs = zip(moments, errors, strict=True)
    value = sum(difference / error for (difference, _, _), error in pairs) / total
    half = z * math.sqrt(len(moments)) / total
    return Estimate(value, value - half, value + half)


def adaptive_scores(
    actions: np.ndarray, rewards: np.ndarray, laws: np.ndarray
) -> np.ndarray:  # [n, A]
    """The unbiased score of each arm in each case: Hadad et al. 2021, eq. 5.

    It is the mean m of the arm's earlier rewards, plus (reward - m) / propensity if it was played.
    An arm without earlier rewards has the mean of all of them, and the first case has 0.
    """
    played = np.eye(laws.shape[1])[actions]  # [n, A]
    sums = np.cumsum(played * rewards[:, None], axis=0) - played * rewards[:, None]
    counts = np.cumsum(played, axis=0) - played
    every = (np.cumsum(rewards) - rewards) / np.maximum(np.arange(len(rewards)), 1)
    before = np.where(counts > 0, sums / np.maximum(counts, 1), every[:, None])
    inverse = np.divide(played, laws, out=np.zeros_like(laws), where=played > 0)
    scores: np.ndarray = before + inverse * (rewards[:, None] - before)
    return scores


def weighted_difference(scores: np.ndarray, weights: np.ndarray, z: float) -> Estimate:
    """The difference of two means of scores [n, 2], by weights [n, 2] that even out the variance.

    With weights sqrt(propensity), the constant allocation rate of Hadad et al. 2021, eq. 12, the
    studentised estimate is normal although the propensities were learned: their Theorem 2.
    """
    total = weights.sum(axis=0)
    if not (total > 0).all():
        return Estimate(math.nan, -math.inf, math.inf)
    shares = weights / total
    means = (shares * scores).sum(axis=0)
    moved = shares * (scores - means)
    half = z * math.sqrt(float(((moved[:, 0] - moved[:, 1]) ** 2).sum()))
    value = float(means[0] - means[1])
    return Estimate(value, value - half, value + half)


def _moments(
    actions: np.ndarray, rewards: np.ndarray, batches: np.ndarray, first: int, second: int
) -> Iterator[tuple[float, int, int]]:
    """The difference of means and the two counts, of each batch that has both arms twice."""
    for batch in np.unique(batches):
        ours = [rewards[(batches == batch) & (actions == arm)] for arm in (first, second)]
        if min(map(len, ours)) >= 2:
            yield float(ours[0].mean() - ours[1].mean()), len(ours[0]), len(ours[1])


def _spreads(
    actions: np.ndarray, rewards: np.ndarray, batches: np.ndarray, first: int, second: int
) -> tuple[float, float]:
    """The variance of each arm's rewards around the means of its batches."""

    def spread(arm: int) -> float:
        mine = actions == arm
        groups, place, n = np.unique(batches[mine], return_inverse=True, return_counts=True)
        means = np.bincount(place, rewards[mine]) / n if len(n) else np.zeros(0)
        free = int(n.sum()) - len(groups)
        return float(((rewards[mine] - means[place]) ** 2).sum()) / free if free > 0 else math.nan

    return spread(first), spread(second)


def _plain(actions: np.ndarray, rewards: np.ndarray, first: int, second: int, z: float) -> Estimate:
    """The difference of means over all batches, as if nobody had learned from any."""
    ours = [rewards[actions == arm] for arm in (first, second)]
    if min(map(len, ours)) < 2:
        return Estimate(math.nan, -math.inf, math.inf)
    value = float(ours[0].mean() - ours[1].mean())
    half = z * math.sqrt(sum(float(one.var(ddof=1)) / len(one) for one in ours))
    return Estimate(value, value - half, value + half)


def _checked(data: Batches) -> tuple[np.ndarray, ...]:
    """Actions, rewards, batches, states [n] and laws [T, S, A] that fit each other."""
    actions, batches = np.asarray(data.actions), np.asarray(data.batches)
    rewards, laws = numbers("rewards", data.rewards), numbers("laws", data.laws)
    states = (
        np.zeros(actions.shape, dtype=np.int64) if data.states is None else np.asarray(data.states)
    )
    laws = laws[:, None] if data.states is None and laws.ndim == 2 else laws
    if actions.ndim != 1 or not actions.shape == rewards.shape == batches.shape == states.shape:
        raise ValueError(
            "actions, rewards, batches and states have one entry for each case, not shapes"
            f" {actions.shape}, {rewards.shape}, {batches.shape} and {states.shape}"
        )
    if laws.ndim != 3:
        raise ValueError(
            "laws are [batches, arms], or [batches, states, arms] with states, not of shape"
            f" {np.shape(data.laws)}"
        )
    require_count("the number of cases", len(actions), least=2)
    columns = (("batches", batches), ("states", states), ("actions", actions))
    for (name, column), size in zip(columns, laws.shape, strict=True):
        if not has_integers(column):
            raise ValueError(f"{name} must be integers, not {column.dtype}")
        require_indices(name, column, size)
    if not np.isfinite(rewards).all():
        raise ValueError("rewards must be finite numbers; leave cases without one out")
    if (np.diff(batches) < 0).any():
        raise ValueError("batches must not decrease: give the cases in the order of their batches")
    require_within("laws", laws, 0, 1, "they are probabilities")
    impossible = np.flatnonzero(laws[batches, states, actions] == 0)
    if len(impossible):
        raise ValueError(
            f"case {impossible[0]} has an arm whose probability in its batch is 0; give the law by"
            " which the arms of each batch were really drawn"
        )
    return actions, rewards, batches, states, laws
