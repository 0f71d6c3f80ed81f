"""The best policy that logged episodes alone can vouch for: value iteration with lower bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowswitch.checks import (
    checked_policy,
    require_count,
    require_fraction,
    require_indices,
    require_scale,
    require_within,
)
from lowswitch.evaluation.episodes import Episodes, checked_arrays


@dataclass(frozen=True, eq=False)
class Pessimistic:
    """A policy with a lower bound of its value that holds with probability 1 - p."""

    policy: np.ndarray  # [H, S]
    lower: float  # of its value per episode
    values: np.ndarray  # [H, S]  lower bounds of what it earns from a step on
    tried: np.ndarray  # [H, S]  how often the log has its action there


def vi_lcb(
    log: Episodes,
    *,
    states: int,
    actions: int,
    rewards: tuple[float, float] = (0.0, 1.0),
    initial: Any = None,
    c: float = 1.0,
    p: float = 0.05,
) -> Pessimistic:
    """The policy with the largest lower confidence bound: VI-LCB.

    Backwards from the last step, the value of an action is its mean in the log minus a penalty
    (`lower_mean`), and never below the smallest possible value; the policy plays the best action
    (Rashidinejad et al. 2021, Algorithm 3; the Bernstein penalty of Li et al. 2024, with the
    constants of Maurer and Pontil 2009). If all actions of a row have the smallest possible bound,
    it plays the action that is logged most often. It never plays an untried action in a row where
    others were tried.

    The episodes must be independent, as under a fixed policy. They are divided into H + 1 folds,
    one for each step and one for the first state, so that the values of later steps do not depend
    on the data over which they are averaged (Xie et al. 2021).

    Parameters
    ----------
    log
        The logged episodes.
    states
        The number of states.
    actions
        The number of actions.
    rewards
        The range of a reward.
    initial
        The policy [H, S] for rows that the log never reaches; by default action 0.
    c
        The scale of the penalty. The bound is proved at 1; less trusts small samples more.
    p
        The probability with which `lower` may fail.
    """
    S, A = require_count("states", states), require_count("actions", actions)
    c, p = require_scale("c", c), require_fraction("p", p, "0.05 is usual")
    low, high = rewards
    log = checked_arrays(log)
    H = log.states.shape[1]
    ended = log.actions < 0
    require_indices("states", np.where(ended, 0, log.states), S)
    require_indices("actions", np.where(ended, 0, log.actions), A)
    require_within("rewards", log.rewards, low, high, "give their range as rewards=(low, high)")
    plan = _Plan(log, (H, S, A), low, high - low, c, math.log(2 * (H * S * A + 1) / p))
    fallback = np.zeros((H, S), dtype=np.int64) if initial is None else initial
    table, values = plan.backwards(checked_policy(fallback, np.ones((H, S, A), dtype=bool)))
    first = log.states[H :: H + 1, 0]
    lower, _ = plan.bound(np.zeros(len(first), dtype=np.int64), values[0, first], 1, H)
    return Pessimistic(
        policy=table,
        lower=low * H + (high - low) * float(lower[0]),
        values=low * np.arange(H, 0, -1)[:, None] + (high - low) * values[:H, :S],
        tried=np.take_along_axis(plan.counts(), table[..., None], axis=2)[..., 0],
    )


def lower_mean(mean: Any, variance: Any, n: Any, most: float, log_factor: float, c: float) -> Any:
    """A lower bound of the expectation of numbers in [0, most], from a sample of n of them.

    mean - c (sqrt(2 V L / n) + 7 most L / (3 (n - 1))), at least 0, with the sample variance V and
    L = log(2 / p): Maurer, Pontil 2009, Theorem 4. Fewer than two numbers say nothing.
    """
    many = np.maximum(n, 2)
    penalty = np.sqrt(2 * variance * log_factor / many) + 7 * most * log_factor / (3 * (many - 1))
    return np.where(np.asarray(n) < 2, 0.0, np.maximum(0.0, mean - c * penalty))


@dataclass(frozen=True)
class _Plan:
    """Value iteration on folds of the log, with rewards mapped to [0, 1]."""

    log: Episodes
    sizes: tuple[int, int, int]  # H, S, A
    low: float
    width: float
    c: float
    log_factor: float

    def backwards(self, fallback: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The policy [H, S] and its lower values [H + 1, S + 1]; the last state is the end."""
        H, S, A = self.sizes
        counts, table = self.counts(), fallback.copy()
        values = np.zeros((H + 1, S + 1))
        values[:, S] = np.arange(H, -1, -1) * -self.low / self.width  # an ended episode earns 0
        for h in reversed(range(H)):
            q = self._action_values(h, values[h + 1]).reshape(S, A)
            best = np.where(counts[h] > 0, q, -1.0).max(axis=1, keepdims=True)
            ranked = np.where(q == best, counts[h], 0)  # the most often logged one among equals
            seen = counts[h].any(axis=1)
            table[h, seen] = ranked.argmax(axis=1)[seen]
            values[h, :S] = q[np.arange(S), table[h]]
        return table, values

    def _action_values(self, h: int, after: np.ndarray) -> np.ndarray:  # [S A]
        """The lower bound of each action's value at a step, from the fold of this step."""
        H, S, A = self.sizes
        states, actions = (part[h :: H + 1] for part in (self.log.states, self.log.actions))
        here = actions[:, h] >= 0
        last = h + 1 == H
        following = (
            np.full(len(states), S)
            if last
            else np.where(actions[:, h + 1] < 0, S, states[:, h + 1])
        )
        found = (self.log.rewards[h :: H + 1, h] - self.low) / self.width + after[following]
        cells = states[here, h] * A + actions[here, h]
        return self.bound(cells, found[here], S * A, H - h)[0]

    def bound(
        self, cells: np.ndarray, found: np.ndarray, many: int, most: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower bound of the mean in each cell, and how many samples it has."""
        n = np.bincount(cells, minlength=many)
        mean = np.bincount(cells, found, minlength=many) / np.maximum(n, 1)
        squares = np.bincount(cells, (found - mean[cells]) ** 2, minlength=many)
        variance = squares / np.maximum(n - 1, 1)
        return lower_mean(mean, variance, n, most, self.log_factor, self.c), n

    def counts(self) -> np.ndarray:  # [H, S, A]
        """How often each action was logged in each row, in all folds."""
        H, S, A = self.sizes
        found = np.zeros((H, S, A), dtype=np.int64)
        here = self.log.actions >= 0
        steps = np.broadcast_to(np.arange(H), here.shape)
        np.add.at(found, (steps[here], self.log.states[here], self.log.actions[here]), 1)
        return found
