"""Bounds of values that need no prior, and hold at all times and for all policies at once.

**Theorem.** Let rewards lie in [0, 1], let the reward and the successor of a visit depend on the
past through the step, the state and the action alone (through the latter two if counts are pooled),
and let first states be drawn from one law. Then, with probability 1 - p, at all times at once: the
value of every policy, however it was chosen, lies between its lower and its upper value, and the
value of an optimal policy is at most its upper value.

**Proof.** (1) Let X_1, X_2, ... be what one function with values in [0, 1] gave at the visits of a
cell, and m its mean. The wealth of a gambler who stakes a share b on X / m and the rest on
(1 - X) / (1 - m) is a martingale that begins with 1, and so is its mean over b ~ Beta(1/2, 1/2). By
Ville's inequality it ever reaches 1 / d with probability d at most. The best fixed share would earn
no more than sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2) times as much (`function_cost`). So at all times
n mean ln(1 + l (X - m)) <= ln(1 / d) + function_cost(n), for all l that are allowed. With
l = -1 / (v - m) this is m <= v - exp(mean ln(v - X) - budget): see `top_mean`; two other lower
bounds of the left side give `top_reward`. (2) For the law P of a successor, the mixture over
supports, and over laws ~ Dirichlet(1/2, ...) on each, has a likelihood ratio to P that is such a
martingale too. So n KL(frequencies, P) <= ln(1 / d) + `law_cost` at all times, and then
mean ln(v - V) <= ln(v - P V) + KL for every V <= v: the bound of `top_mean` for all V at once. (3)
A union over one reward and one law for each cell, one function V*_{h+1} for each (h, x, a), and the
law of the first state: d = p / their number. (4) Backward induction. `top_mean` grows with V and
with `top`, so that upper next values give upper values. For V*, which is one function, the smaller
budget of (1) suffices; what a policy that was chosen from the data earns is bounded by (2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lowswitch.checks import numbers, require_fraction
from lowswitch.kernels.arrays import SUCCESSOR, PlanSpec, PlanTables

_SUM = 1e-9  # by which the sum of a start law may be off


class Bounds(NamedTuple):
    """Values that hold with probability 1 - `probability`, at all times and for all policies."""

    value: tuple[float, float]  # of the deployed policy, of a mixture the mean of its members
    proposed: tuple[float, float] | None  # of what waits for a decision
    best: float  # an optimal policy is worth at most this
    gap: float  # and at most so much more than the deployed policy
    probability: float


class CellBounds:
    """The confidence sets of all cells, from which every policy's values are bounded."""

    def __init__(
        self, spec: PlanSpec, tables: PlanTables, probability: float, starts: np.ndarray | None
    ) -> None:
        from lowswitch.kernels.bounds import bound_cells

        self.spec, self.tables, self.starts = spec, tables, starts
        self.log = math.log(statements(spec) / probability)
        cells = len(tables.records)
        self.rewards, self.budgets = np.zeros((cells, 2)), np.zeros((cells, 2))
        bound_cells(spec, tables, self.log, self.rewards, self.budgets)

    def best(self, allowed: np.ndarray, *, chosen: bool) -> np.ndarray:  # [S]
        """Upper values of an optimal policy among the allowed ones [H, S, A].

        chosen: the data chose which actions are allowed, so V* is not one fixed function.
        """
        from lowswitch.kernels.bounds import sweep_best

        spec, values = self.spec, self._zeros()
        budgets = np.ascontiguousarray(self.budgets[:, int(chosen)])
        mask = np.ascontiguousarray(allowed).reshape(-1)
        sweep_best(spec, self.tables, mask, self.rewards, budgets, values)
        return values[: spec.S]

    def policy(self, policies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # [S] each
        """Lower and upper values of policies [L, H, S] in equal shares."""
        from lowswitch.kernels.bounds import sweep_policy

        spec, budgets = self.spec, np.ascontiguousarray(self.budgets[:, 1])
        ends = np.zeros((2, spec.S))
        for end, sign in enumerate((-1.0, 1.0)):
            for policy in np.ascontiguousarray(policies, dtype=np.int64):
                values, rows = self._zeros(), policy.reshape(-1)
                sweep_policy(spec, self.tables, rows, self.rewards, budgets, sign, values)
                ends[end] += values[: spec.S] / len(policies)
        return ends[0], ends[1]

    def at_start(self, values: np.ndarray) -> float:
        """The largest mean of values [S] over the first states."""
        from lowswitch.kernels.bounds import bound_start

        if self.starts is not None:
            return float(self.starts @ values)
        spec = self.spec
        counts = self.tables.visits.reshape(spec.H, spec.S, spec.A)[0].sum(axis=-1)
        began = np.flatnonzero(counts)
        pool = np.zeros(len(began), dtype=SUCCESSOR)
        pool["state"], pool["count"] = began, counts[began]
        return float(bound_start(pool, int(counts.sum()), spec.S, self.log, values))

    def interval(self, policies: np.ndarray) -> tuple[float, float]:
        """Lower and upper value of policies [L, H, S] in equal shares, over the first states."""
        low, high = self.policy(policies)
        return -self.at_start(-low), self.at_start(high)

    def gap(self, policies: np.ndarray, best: np.ndarray) -> float:
        """By how much upper values `best` [S] may exceed the value of policies [L, H, S]."""
        return self.at_start(best - self.policy(policies)[0])

    def _zeros(self) -> np.ndarray:
        return np.zeros((self.spec.H + 1) * self.spec.S)


def statements(spec: PlanSpec) -> int:
    """How many confidence sets must hold: see the proof above, part (3)."""
    cells = spec.S * spec.A * (spec.H if spec.stride else 1)
    functions = (spec.H - 1) * spec.S * spec.A
    return 1 + cells * (2 if spec.H > 1 else 1) + functions


def checked_probability(probability: float) -> float:
    return require_fraction("probability", probability, "0.05 is one in twenty")


def checked_starts(starts: object, states: int) -> np.ndarray | None:
    """A law [S] of the first state, or None where it is not known."""
    if starts is None:
        return None
    law = numbers("starts", starts)
    if law.shape != (states,) or not (law >= 0).all() or abs(law.sum() - 1) > _SUM:
        raise ValueError(
            f"starts must be the probabilities of {states} first states, not {starts!r}; leave it"
            " out if they are not known"
        )
    return law
