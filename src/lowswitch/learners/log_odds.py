"""Log-odds of rewards that are 0 or 1, fitted by logistic regression on features."""

from __future__ import annotations

import math

import numpy as np

HALF = 0.5  # of the posterior's spread, which lost less than the whole where this was chosen
_PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # shares of the ridge
_WORSE = 3.0  # nats by which a smaller penalty explains the rewards worse, so that none is tried


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


def likeliest_log_odds(
    x: np.ndarray, blocks: np.ndarray, rewards: np.ndarray, ridge: float, count: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """As `fitted_log_odds`, with the penalty under which these rewards are likeliest.

    The penalty is at most `ridge`. A strong one keeps log-odds small even where the features decide
    the reward. The marginal likelihood is Laplace's approximation (MacKay 1992), and the logarithm
    of the penalty is normal beforehand, with the mean ln ridge and the deviation 1.
    """
    best, found = -math.inf, None
    for share in _PENALTIES:
        fit = fitted_log_odds(x, blocks, rewards, share * ridge, count)
        evidence = _evidence(fit, x, blocks, rewards, share * ridge) - 0.5 * math.log(share) ** 2
        if evidence < best - _WORSE:
            break
        if evidence > best:
            best, found = evidence, fit
    assert found is not None
    return found


def _evidence(
    fit: tuple[float, np.ndarray, np.ndarray],
    x: np.ndarray,
    blocks: np.ndarray,
    rewards: np.ndarray,
    ridge: float,
) -> float:
    """The logarithm of the marginal likelihood of rewards by Laplace's approximation."""
    offset, weights, factor = fit
    odds = offset + (x * weights[blocks]).sum(axis=1)
    fits = -float(np.add.reduce(np.logaddexp(0.0, np.where(rewards > 0, -odds, odds))))
    prior = 0.5 * weights.size * math.log(ridge) - 0.5 * ridge * float((weights**2).sum())
    return fits + prior - float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
