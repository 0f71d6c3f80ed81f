"""Scores over many problems: the interquartile mean, performance profiles, and their intervals.

The definitions follow Agarwal, Schwarzer, Castro, Courville, Bellemare 2021 and their library
rliable: scores [problems, seeds] are pooled over problems and seeds, and an interval comes from a
stratified bootstrap, which resamples the seeds of each problem.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_RESAMPLES = 2_000
_TAILS = (0.025, 0.975)
_TRIMMED = 0.25  # of the scores, at either end


def interquartile_mean(scores: np.ndarray) -> np.ndarray:  # [...]
    """The mean of the middle half of scores [..., n]; of n / 4 at either end the whole part is cut.

    Agarwal et al. 2021, Section 4.3; it is `scipy.stats.trim_mean` with a quarter.
    """
    size = scores.shape[-1]
    cut = int(_TRIMMED * size)
    middle: np.ndarray = np.sort(scores, axis=-1)[..., cut : size - cut].mean(axis=-1)
    return middle


def performance_profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:  # [..., T]
    """The share of scores [..., n] above each threshold: Agarwal et al. 2021, Section 4.2."""
    above: np.ndarray = (scores[..., None] > thresholds).mean(axis=-2)
    return above


def stratified_interval(
    scores: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:  # [2, ...]
    """The 95 % percentile interval of a statistic of pooled scores [n], from scores [problems, n].

    Each resample draws as many seeds of each problem as there are, with replacement.
    """
    problems, seeds = scores.shape
    random, found = np.random.default_rng(0), []
    for _ in range(_RESAMPLES):
        drawn = random.integers(seeds, size=(problems, seeds))
        found.append(statistic(np.take_along_axis(scores, drawn, axis=1).ravel()))
    interval: np.ndarray = np.quantile(np.array(found), _TAILS, axis=0)
    return interval
