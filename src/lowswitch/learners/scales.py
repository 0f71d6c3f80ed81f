"""The means and deviations of features, so that a penalty does not depend on their units.

A penalty of |theta|^2 for standardised features and a constant is theta' M^-1 M^-T theta for the
features themselves, where M turns them into standardised ones. Both follow from sums over the
episodes, so a replay finds the same ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

LEAST_CONTEXTS = 10  # from which deviations are known well enough
_ORDINARY = 4.0  # the deviation of a scaled feature is from 1/4 to 4, and its mean as small
_ROUNDING = 1e-9
_CONSTANT = 1e-8  # a feature whose variance is a smaller share of its mean square is constant


class Scales(NamedTuple):
    """The numbers subtracted from each feature [d], and the divisors [d]."""

    middle: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, squares: np.ndarray, n: int) -> Scales | None:
        """The scales of n contexts, from sum x x' [d + 1, d + 1] with the constant feature last.

        None if no feature needs any. A feature that does not vary has no scale, and one of zeros
        and ones has no unit (Gelman 2008). One whose mean and deviation are of the order of 1 was
        scaled before, perhaps with more knowledge. These stay as they are.
        """
        means, mean_squares = squares[-1, :-1] / n, np.diagonal(squares)[:-1] / n
        variances = mean_squares - means**2
        varies = variances > _CONSTANT * mean_squares
        deviations = np.sqrt(np.where(varies, variances, 1.0))
        binary = np.abs(mean_squares - means) <= _ROUNDING * mean_squares
        ordinary = np.abs(np.log(deviations)) <= math.log(_ORDINARY)
        ordinary &= np.abs(means) <= _ORDINARY * deviations
        scaled = varies & ~binary & ~ordinary
        if not scaled.any():
            return None
        return cls(np.where(scaled, means, 0.0), np.where(scaled, deviations, 1.0))

    @property
    def penalty(self) -> np.ndarray:  # [d + 1, d + 1]
        """M^-1 M^-T."""
        return np.asarray(self._back @ self._back.T)

    @property
    def _back(self) -> np.ndarray:  # [d + 1, d + 1]
        """M^-1, which turns standardised features and a constant into the features themselves."""
        back = np.diag(np.append(self.deviation, 1.0))
        back[:-1, -1] = self.middle
        return back

    def standardised(self, x: np.ndarray) -> np.ndarray:  # [n, d]
        """The features of these contexts [n, d] in units of their deviations."""
        return np.asarray((x - self.middle) / self.deviation)

    def weights(self, standardised: np.ndarray) -> np.ndarray:  # [B, d + 1]
        """The weights of features, from weights [B, d + 1] of standardised ones."""
        slopes = standardised[:, :-1] / self.deviation
        constant = standardised[:, -1:] - (slopes * self.middle).sum(axis=1, keepdims=True)
        return np.concatenate([slopes, constant], axis=1)

    def factors(self, standardised: np.ndarray) -> np.ndarray:  # [B, d + 1, d + 1]
        """U of each precision, from U [B, d + 1, d + 1] of weights of standardised features."""
        turned = standardised @ self._back.T
        return upper_factors(turned.transpose(0, 2, 1) @ turned)


def upper_factors(positive: np.ndarray) -> np.ndarray:  # [B, D, D]
    """U, upper triangular, with U'U each of these matrices [B, D, D]."""
    return np.ascontiguousarray(np.linalg.cholesky(positive).transpose(0, 2, 1))
