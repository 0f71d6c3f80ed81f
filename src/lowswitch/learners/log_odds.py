"""Log-odds of rewards that are 0 or 1, fitted by logistic regression on features."""

from __future__ import annotations

import math

import numpy as np

HALF = 0.5  # of the posterior's spread, which lost less than the whole where this was chosen


def binary(rewards: np.ndarray) -> bool:
    """Whether all rewards are 0 or 1."""
    return bool(((rewards == 0) | (rewards == 1)).all())


def fitted_log_odds(
    x: np.ndarray, blocks: np.ndarray, rewards: np.ndarray, ridge: float, count: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """The offset, weights [B, d], and factors [B, d, d] of their precision, of samples x [n, d].

    The log-odds of a reward are theta.x + offset. The offset is the log-odds of all rewards, with
    one success and one failure more, and `blocks` [n] says whose weights a sample is about.
    """
    from lowswitch.kernels.logistic import fit_log_odds

    share = (1.0 + float(np.add.reduce(rewards))) / (2.0 + len(rewards))
    offset, d = math.log(share / (1.0 - share)), x.shape[1]
    weights, factor, scratch = np.zeros((count, d)), np.zeros((count, d, d)), np.zeros((3, d))
    samples = np.ascontiguousarray(x), blocks.astype(np.int64), np.ascontiguousarray(rewards)
    fit_log_odds(*samples, offset, ridge, weights, factor, scratch)
    return offset, weights, factor
