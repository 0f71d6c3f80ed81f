"""Estimated values with intervals, and what says whether these intervals mean something."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

FEW_EFFECTIVE = 30  # fewer samples of equal weight than this say little
HEAVY_TAIL = 0.8  # the Pareto k above which the largest weights decide everything
FEW_RARE = 4  # of heavy samples, for each unit of the squared skewness of the rewards
_ROUNDING = 1e-9  # of the mean weight, which is 1 in theory
_FEW_IN_TAIL = 5  # exceedances that a Pareto law needs: Vehtari et al. 2024


class Estimate(NamedTuple):
    """An estimated value with its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Samples(NamedTuple):
    """Everything that the estimates of one policy are made of, for n episodes of H steps."""

    weights: np.ndarray  # [n, H]  probability of the actions so far, policy over log
    rewards: np.ndarray  # [n, H]
    corrected: np.ndarray  # [n]     doubly robust values; their mean is the estimate
    modelled: float  # the value of the policy in the fitted model
    influence: np.ndarray  # [n]     by how much each episode moves the modelled value, times n


@dataclass(frozen=True)
class Evaluation:
    """The value of a policy per episode, estimated in four ways from a log of other policies.

    Attributes
    ----------
    ips
        Inverse propensity, unbiased; with several steps each reward has the weight of the actions
        up to its own step.
    snips
        The same with weights that sum to 1 at each step, which varies less and has a bias that
        vanishes.
    dr
        Doubly robust, unbiased, with a model that is fitted on other folds of the log.
    model
        The fitted model alone, which needs no propensities; it is right only if the model is, and
        for tables that means that the states tell all that matters.
    logged
        The rewards of the log itself.
    share
        The mean weight of whole episodes, which is 1 if the log could have played everything that
        the policy plays.
    samples
        The number of samples.
    effective
        How many samples of equal weight would say as much.
    tail
        Pareto k of the weights: above 0.8 a few of them decide.
    confidence
        The confidence of the intervals.
    behaviour
        Where the propensities come from: "logged", or "estimated".
    rare
        Heavy samples over the squared skewness of the rewards; see `rarity`.
    """

    ips: Estimate
    snips: Estimate
    dr: Estimate
    model: Estimate
    logged: Estimate
    share: Estimate
    samples: int
    effective: float
    tail: float
    confidence: float
    behaviour: str = "logged"
    rare: float = math.inf

    @classmethod
    def of(cls, samples: Samples, confidence: float, behaviour: str = "logged") -> Evaluation:
        """The four estimates, with intervals of this confidence."""
        z = normal_quantile(confidence)
        weights, rewards = samples.weights, samples.rewards
        spread = mean(samples.influence, z)
        return cls(
            ips=skewed_mean((weights * rewards).sum(axis=1), z),
            snips=ratio(weights, rewards, z),
            dr=mean(samples.corrected, z),
            model=Estimate(
                samples.modelled,
                samples.modelled + spread.low - spread.value,
                samples.modelled + spread.high - spread.value,
            ),
            logged=mean(rewards.sum(axis=1), z),
            share=mean(weights[:, -1], z),
            samples=len(weights),
            effective=min(map(effective_size, weights.T)),
            tail=pareto_k(weights[:, -1]),
            rare=min(rarity(one, rewards.sum(axis=1)) for one in weights.T),
            confidence=confidence,
            behaviour=behaviour,
        )

    @property
    def reliable(self) -> bool:
        """Whether the intervals of ips, snips and dr can be trusted.

        There are at least 30 samples of equal weight, no few weights decide everything, rare
        rewards are frequent enough among the heavy samples, and nothing says that the policy plays
        actions that the log never does.
        """
        enough = self.effective >= FEW_EFFECTIVE and self.rare >= FEW_RARE
        return self.covered and enough and self.tail <= HEAVY_TAIL

    @property
    def covered(self) -> bool:
        """Whether the mean weight may be 1, as it is if the log could play all of the policy."""
        return self.share.high >= 1 - _ROUNDING

    @property
    def verdict(self) -> str:
        """The verdict of the diagnostics, in a sentence."""
        if not self.covered:
            return (
                f"the log could have played only {self.share} of what this policy plays: nothing is"
                " known of the rest, so do not rely on these intervals"
            )
        if self.effective < FEW_EFFECTIVE:
            return "too little of the log looks like this policy for these intervals"
        if self.tail > HEAVY_TAIL:
            return (
                f"a few samples decide these estimates (Pareto k {self.tail:.2f}, above"
                f" {HEAVY_TAIL}): do not rely on their intervals"
            )
        if self.rare == 0:
            return "all rewards of the log are the same, which says nothing of how far they spread"
        if self.rare < FEW_RARE:
            return (
                "rewards of this kind are too rare among the samples that decide these estimates:"
                " the intervals may be far too short"
            )
        return "enough of the log looks like this policy: the intervals can be relied on"

    def __str__(self) -> str:
        lines = [
            f"inverse propensity   {self.ips}",
            f"self-normalised      {self.snips}",
            f"doubly robust        {self.dr}",
            f"the model alone      {self.model}",
            f"the log itself       {self.logged}",
            f"{self.samples:,} samples, worth {self.effective:,.0f} of equal weight",
        ]
        if self.behaviour == "estimated":
            lines.append("the propensities are estimated from the log's own counts")
        return "\n".join([*lines, self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """All numbers as JSON can hold them; None stands for one that does not exist."""
        facts = dataclasses.asdict(self)
        for name, value in facts.items():
            if isinstance(value, Estimate):
                facts[name] = {key: _finite(one) for key, one in value._asdict().items()}
        facts |= {"tail": _finite(self.tail), "rare": _finite(self.rare)}
        return facts | {"reliable": self.reliable, "verdict": self.verdict}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


# ---- intervals -----------------------------------------------------------------------------------


def normal_quantile(confidence: float) -> float:
    """How many standard errors an interval reaches to both sides."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + confidence / 2)


def mean(samples: np.ndarray, z: float) -> Estimate:
    """The mean of independent samples with its interval by the central limit theorem."""
    value = float(samples.mean())
    half = z * float(samples.std(ddof=1)) / math.sqrt(len(samples))
    return Estimate(value, value - half, value + half)


def skewed_mean(samples: np.ndarray, z: float) -> Estimate:
    """The mean with an interval that reaches further to the side of the long tail.

    Hall 1992, "On the removal of skewness by transformation": with a = skewness / sqrt(n),
    t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 is normal to a higher order than t is.
    """
    value, spread = float(samples.mean()), float(samples.std())
    skewness = float(((samples - value) ** 3).mean()) / spread**3 if spread > 0 else 0.0
    a = skewness / math.sqrt(len(samples))
    if abs(a) < _ROUNDING:
        return mean(samples, z)
    scale = float(samples.std(ddof=1)) / math.sqrt(len(samples))
    low, high = (3 / a * (math.cbrt(1 + a * (y - a / 6)) - 1) for y in (z, -z))
    return Estimate(value, value - scale * low, value - scale * high)


def ratio(weights: np.ndarray, rewards: np.ndarray, z: float) -> Estimate:
    """The sum over steps of sum w r / sum w, for arrays [n, H].

    Swaminathan, Joachims 2015 for one step, Thomas 2015 (consistent weighted per-decision
    importance sampling) for several. The interval comes from the delta method, with each residual
    measured from the estimate without its own sample.
    """
    total = weights.sum(axis=0)
    if not (total > 0).all():
        return Estimate(math.nan, -math.inf, math.inf)
    shares = weights / total  # [n, H]
    means = (shares * rewards).sum(axis=0)  # [H]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = shares * (rewards - means) / (1 - shares)
    half = z * math.sqrt(float((moved.sum(axis=1) ** 2).sum()))
    value = float(means.sum())
    if not math.isfinite(half):  # one sample has all the weight
        return Estimate(value, -math.inf, math.inf)
    return Estimate(value, value - half, value + half)


# ---- diagnostics ---------------------------------------------------------------------------------


def rarity(weights: np.ndarray, rewards: np.ndarray) -> float:
    """How many samples make up the variance, for each unit of the squared skewness of rewards [n].

    (sum w^2)^2 / sum w^4 is that number for weights [n]. Of rewards that are 1 with a small
    probability p, the squared skewness is about 1 / p, so that this is how many rewards of 1 are to
    be expected among these samples. With few of them a log may have none, and look certain.
    """
    squares = weights.astype(float) ** 2
    spread = float(rewards.std())
    if not (spread > 0 and squares.any()):
        return 0.0  # rewards that are all the same say nothing of how far they spread
    skewness = float(((rewards - rewards.mean()) ** 3).mean()) / spread**3
    squares /= squares.max()
    deciding = float(squares.sum()) ** 2 / float((squares**2).sum())
    return deciding / skewness**2 if skewness else math.inf


def effective_size(weights: np.ndarray) -> float:
    """(sum w)^2 / sum w^2: how many samples of equal weight say as much (Kish 1965)."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def pareto_k(weights: np.ndarray) -> float:
    """The shape of a generalised Pareto law of the largest weights: Vehtari et al. 2024.

    The tail is the min(n / 5, 3 sqrt(n)) largest weights. If weights have few values, it has no
    shape, and -inf is returned: the largest one occurs five times, or fewer than five weights are
    above the others. Then the effective size says enough.
    """
    n = len(weights)
    largest = np.sort(weights)[-math.ceil(min(n / 5, 3 * math.sqrt(n))) - 1 :]
    above = largest[1:] - largest[0]
    above = above[above > _ROUNDING * largest[-1]]  # equal weights may differ by rounding
    top = int((largest >= (1 - _ROUNDING) * largest[-1]).sum())
    return -math.inf if top >= _FEW_IN_TAIL or len(above) < _FEW_IN_TAIL else _shape(above)


def _shape(above: np.ndarray) -> float:
    """Zhang, Stephens 2009, with the prior of Vehtari et al. 2024, appendix C: 10 samples at 1/2.

    above: sorted exceedances. `theta` has candidates for -k / sigma, which are weighted by their
    profile likelihoods.
    """
    n, grid = len(above), 30 + math.isqrt(len(above))
    quartile = above[int(n / 4 + 0.5) - 1]
    steps = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = 1 / above[-1] + steps / (3 * quartile)
    theta = theta[theta != 0]
    shapes = np.log1p(-theta[:, None] * above).mean(axis=1)
    likelihood = n * (np.log(-theta / shapes) - shapes - 1)
    trust = np.exp(likelihood - likelihood.max())
    middle = float((theta * trust).sum() / trust.sum())
    k = float(np.log1p(-middle * above).mean())
    return (n * k + 10 * 0.5) / (n + 10)
