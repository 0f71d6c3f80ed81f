"""How far curves of several seeds lie apart: the bands of figures, and what they are called."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

Band = Literal["quantiles", "interval", "bootstrap", "none"]
# what a figure says of its band
WORDS: dict[str, str] = {
    "quantiles": "10 % to 90 % of the seeds",
    "interval": "95 % interval of the mean",
    "bootstrap": "95 % bootstrap interval of the mean",
}
QUANTILES = (0.1, 0.9)  # over the seeds
_TAILS = (0.025, 0.975)
_RESAMPLES = 1_000


def band_of(curves: np.ndarray, kind: Band) -> tuple[np.ndarray, np.ndarray]:  # [C], [C]
    """The lower and the upper end of the band of curves [seeds, C]; NaN if there is no band.

    "quantiles" says where single seeds lie, and does not shrink with their number. The other two
    say how well the mean is known: by Student's t, or by resampling the seeds.
    """
    seeds, size = curves.shape
    if kind == "none" or seeds < 2:
        return np.full(size, math.nan), np.full(size, math.nan)
    if kind == "quantiles":
        low, high = np.quantile(curves, QUANTILES, axis=0)
        return low, high
    if kind == "bootstrap":
        return bootstrap_band(curves)
    from scipy.special import stdtrit

    half = stdtrit(seeds - 1, _TAILS[1]) * curves.std(axis=0, ddof=1) / math.sqrt(seeds)
    return curves.mean(axis=0) - half, curves.mean(axis=0) + half


def bootstrap_band(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # [C], [C]
    """The percentile bootstrap of the mean of curves [seeds, C]: whole curves are resampled."""
    low, high = np.quantile(_resampled(curves), _TAILS, axis=0)
    return low, high


def paired_band(above: np.ndarray, below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The percentile bootstrap of the ratio of two means of curves [seeds, C], each [C].

    A resampled seed brings both of its curves. NaN where a mean is not above 0, or without a second
    seed.
    """
    if len(above) < 2:
        return np.full(above.shape[1], math.nan), np.full(above.shape[1], math.nan)
    means = [np.where(drawn > 0, drawn, np.nan) for drawn in map(_resampled, (above, below))]
    low, high = np.quantile(means[0] / means[1], _TAILS, axis=0)
    return low, high


def _resampled(curves: np.ndarray) -> np.ndarray:  # [resamples, C]
    """The means of curves [seeds, C] whose seeds are resampled, always in the same way."""
    seeds = len(curves)
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), _RESAMPLES)
    means: np.ndarray = drawn @ curves / seeds
    return means
