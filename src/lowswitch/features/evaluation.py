"""What a policy would earn, from data that another policy has logged with its propensities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import (
    has_integers,
    numbers,
    require_count,
    require_fraction,
    require_indices,
    require_positive,
)
from lowswitch.policy.linear import LinearPolicy

_FOLDS = 5
_FEW_EFFECTIVE = 30  # below so many effective samples an interval by the normal law means little
_ROUNDING = 1e-9  # of the mean weight, which is 1 in theory


@dataclass(frozen=True, eq=False)
class Log:
    """Contexts, actions, rewards, and how probable each logged action was when it was chosen."""

    contexts: Any  # [n, d], or [n, A, d] with features of each action
    actions: Any  # [n]
    rewards: Any  # [n]
    propensities: Any  # [n]  in (0, 1]


class Estimate(NamedTuple):
    """An estimated value with its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Evaluation:
    """What a policy would earn in a context of the log, in the mean, estimated in three ways.

    ips: inverse propensity, unbiased. snips: the same with weights that sum to 1, which varies less
    and has a bias that vanishes. dr: doubly robust, unbiased, with a ridge model of the rewards
    that is fitted on other folds of the log. logged: what the log itself earned. share: the mean
    weight, which is 1 where the log could have played all that the policy plays, and less where the
    policy plays what was never logged.
    """

    ips: Estimate
    snips: Estimate
    dr: Estimate
    logged: Estimate
    share: Estimate  # of what the policy plays, how much the log could have played
    samples: int
    effective: float  # how many samples of equal weight would say as much
    confidence: float

    @property
    def reliable(self) -> bool:
        """Whether enough of the log looks like the policy for the intervals to mean something, and
        whether nothing says that the policy plays what the log never does.
        """
        return self.effective >= _FEW_EFFECTIVE and self.covered

    @property
    def covered(self) -> bool:
        """Whether the mean weight may be 1, as it is if the log could play all of the policy."""
        return self.share.high >= 1 - _ROUNDING

    def __str__(self) -> str:
        lines = [
            f"inverse propensity   {self.ips}",
            f"self-normalised      {self.snips}",
            f"doubly robust        {self.dr}",
            f"the log itself       {self.logged}",
            f"{self.samples:,} samples, worth {self.effective:,.0f} of equal weight",
        ]
        if not self.covered:
            lines.append(
                f"the log could have played only {self.share} of what this policy plays: nothing is"
                " known of the rest"
            )
        elif not self.reliable:
            lines.append("too little of the log looks like this policy for these intervals")
        return "\n".join(lines)


def evaluate(
    policy: LinearPolicy, log: Log, *, confidence: float = 0.95, ridge: float = 1.0
) -> Evaluation:
    """What a policy of one step would earn, from a log of any other policy.

    The policy must not have been learned from this log: of a proposal, use the episodes after
    `proposal.told`. Then, and if the log has propensities above 0 wherever this policy plays, `ips`
    and `dr` are without bias; a policy that was deployed gives propensities as
    `act(x, episode).propensity`. Intervals are those of the normal law. ridge: the penalty of the
    model of rewards that only the doubly robust estimate uses.
    """
    if not isinstance(policy, LinearPolicy) or policy.shape.horizon != 1:
        raise ValueError(
            "evaluate is for a LinearPolicy of one step; values of longer episodes need the"
            " propensity of whole episodes"
        )
    level = require_fraction("confidence", confidence, "0.95 is usual")
    ridge = require_positive("ridge", ridge, "1 is usual")
    x, actions, rewards, logged = _checked(policy, log)
    laws = policy.propensities(x)
    chosen = laws[np.arange(len(x)), actions]
    weights = chosen / logged
    z = _normal_quantile(0.5 + level / 2)
    predicted = _cross_fitted(policy, x, actions, rewards, ridge)  # [n, A]
    model = (laws * predicted).sum(axis=1)
    residual = rewards - predicted[np.arange(len(x)), actions]
    total = float(weights.sum())
    effective = total**2 / float((weights**2).sum()) if total > 0 else 0.0
    return Evaluation(
        ips=_mean(weights * rewards, z),
        snips=_ratio(weights, rewards, z),
        dr=_mean(model + weights * residual, z),
        logged=_mean(rewards, z),
        share=_mean(weights, z),
        samples=len(x),
        effective=effective,
        confidence=level,
    )


def _checked(policy: LinearPolicy, log: Log) -> tuple[np.ndarray, ...]:
    """The log as arrays that fit the policy and each other."""
    if not isinstance(log, Log):
        raise ValueError(
            "log must be a lowswitch.features.Log of contexts, actions, rewards and propensities"
        )
    x, actions = policy.shape.contexts(log.contexts), np.asarray(log.actions)
    rewards = numbers("rewards", log.rewards)
    if not actions.shape == rewards.shape == (len(x),):
        raise ValueError(
            f"a log has an action and a reward for each of {len(x)} contexts, not actions of shape"
            f" {actions.shape} and rewards of {rewards.shape}"
        )
    require_count("the number of samples", len(actions), least=2)
    if not has_integers(actions):
        raise ValueError(f"actions must be integers, not {actions.dtype}")
    require_indices("actions", actions, policy.shape.actions)
    if not np.isfinite(rewards).all():
        raise ValueError("rewards must be finite numbers; leave samples without one out")
    given = numbers("propensities", log.propensities)
    if given.shape != actions.shape:
        raise ValueError(
            f"there must be a propensity for each of {len(actions)} actions, not {given.shape}"
        )
    wrong = np.flatnonzero(~((given > 0) & (given <= 1)))
    if len(wrong):
        raise ValueError(
            f"propensities must lie in (0, 1], not {given[wrong[0]]:g} (sample {wrong[0]}): an"
            " action that was played had a chance; log the propensity of the action that was played"
        )
    return x, actions, rewards, given


def _mean(samples: np.ndarray, z: float) -> Estimate:
    """The mean of independent samples with its interval by the central limit theorem."""
    value = float(samples.mean())
    half = z * float(samples.std(ddof=1)) / math.sqrt(len(samples))
    return Estimate(value, value - half, value + half)


def _ratio(weights: np.ndarray, rewards: np.ndarray, z: float) -> Estimate:
    """sum w r / sum w with the interval of the delta method: Swaminathan, Joachims 2015."""
    total = float(weights.sum())
    if total == 0:
        return Estimate(math.nan, -math.inf, math.inf)
    value = float((weights * rewards).sum()) / total
    half = z * math.sqrt(float((weights**2 * (rewards - value) ** 2).sum())) / total
    return Estimate(value, value - half, value + half)


def _cross_fitted(
    policy: LinearPolicy, x: np.ndarray, actions: np.ndarray, rewards: np.ndarray, ridge: float
) -> np.ndarray:  # [n, A]
    """Rewards predicted for every action by ridge models that have not seen the sample, as the mean
    reward and what the features say of the difference to it.

    Dudik, Langford, Li 2011; on folds, so that the estimate stays unbiased.
    """
    shape, predicted = policy.shape, np.zeros((len(x), policy.shape.actions))
    folds = np.arange(len(x)) % _FOLDS
    for fold in range(_FOLDS):
        inside = folds == fold
        middle = rewards[~inside].mean()
        weights = np.zeros((shape.blocks, shape.features))
        for block in range(shape.blocks):
            mine = ~inside & (actions == block) if shape.shared else ~inside
            rows = x[mine, 0] if shape.shared else x[mine, actions[mine]]
            precision = rows.T @ rows + ridge * np.eye(shape.features)
            weights[block] = np.linalg.solve(precision, rows.T @ (rewards[mine] - middle))
        if shape.shared:
            predicted[inside] = middle + x[inside, 0] @ weights.T
        else:
            predicted[inside] = middle + x[inside] @ weights[0]
    return predicted


def _normal_quantile(share: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)
