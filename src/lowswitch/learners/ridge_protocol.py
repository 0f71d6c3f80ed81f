"""The protocol of a run with features: one function that exploits, and its value.

In each context a candidate plays the action with the largest value minus some standard deviations
of its uncertainty. An action that was hardly tried on such cases must look much better. The
candidates differ in this number of deviations. One of them replaces the present protocol if its
gain, minus some deviations of that gain, is above zero.

The same cases cannot both make a policy and judge it, because every policy looks good on the cases
to which it was fitted. So each half of the cases makes a candidate, and the other half judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lowswitch.learners.case_posterior import CasePosterior
from lowswitch.policy.linear import LinearPolicy

MOST_CASES = 2_000  # the newest ones, by which policies are judged
WIDTHS = (0.5, 1.0, 2.0, 4.0)  # standard deviations, of the candidates
_COMPARED = 500  # cases of each half, in which policies are compared
_CLEAR = 1.5  # standard deviations by which a protocol must gain
_TINY = 1e-12  # a smaller deviation is rounding


class Believed(NamedTuple):
    """Models of the value of each action in the newest cases of one half."""

    contexts: np.ndarray  # [n, R, d]
    values: np.ndarray  # [n, A, models]

    @classmethod
    def of(cls, posterior: CasePosterior) -> Believed:
        """The belief of a model of cases about the newest ones."""
        return cls(posterior.contexts[-_COMPARED:], posterior.values(_COMPARED))

    def worth(self, policy: LinearPolicy) -> np.ndarray:  # [models]
        """The average reward of a policy over the contexts, in each model."""
        shares = policy.propensities(self.contexts)
        return np.asarray((shares[..., None] * self.values).sum(axis=1).mean(axis=0))


class Candidate(NamedTuple):
    """A policy, and the same made from each half of the cases, where there are such."""

    policy: LinearPolicy
    halves: Sequence[LinearPolicy]  # the first one is judged by the first half

    @classmethod
    def fixed(cls, policy: LinearPolicy) -> Candidate:
        """A policy that was not made from these cases."""
        return cls(policy, (policy, policy))


def judged(judges: Sequence[Believed], one: Candidate) -> np.ndarray:  # [models]
    """The value of a policy, averaged over both halves."""
    values = [judge.worth(half) for judge, half in zip(judges, one.halves, strict=True)]
    return np.asarray(np.mean(values, axis=0))


def exploiting(
    judges: Sequence[Believed], now: Candidate, candidates: Sequence[Candidate]
) -> Candidate:
    """The candidate that gains most over the present protocol, or that one if none clearly does."""
    before, best, chosen = judged(judges, now), 0.0, now
    for candidate in candidates:
        gains = judged(judges, candidate) - before
        least = float(gains.mean() - _CLEAR * gains.std())
        if least > best + _TINY:
            best, chosen = least, candidate
    return chosen


def gain_and_ratio(gains: np.ndarray) -> tuple[float, float]:
    """The mean of a gain over models, and how many standard deviations that is."""
    mean, spread = float(gains.mean()), float(gains.std())
    return mean, mean / spread if spread > _TINY else 0.0
