"""How the cases of a run with features judge another policy: a regression that doubts itself.

The reward of an action is linear in standardised features, with an intercept. If all actions share
the features, each has its own intercept and slopes. The data decide how far these differ from
common ones: this distance and the variance of the noise are drawn with the weights, so equal
actions are recognised as equal. The law of the cases is drawn, too: each model reweights the cases
(Rubin 1981, the Bayesian bootstrap). The learner's own prior plays no part: a policy and its judge
share only the data.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from lowswitch.kernels.streams import normals, uniforms
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape

MODELS = 400
MOST_WEIGHTS = 600  # of a model; more take too long
_SIZES = (0.003, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6)  # of what differs, in deviations of the noise
_FORESEEN, _ON = 96, 200  # models and contexts by which the worth of further cases is foreseen
_ALL = 1e12  # cases, by which everything becomes known
_CLEAR = 2.0  # standard deviations by which a foreseen gain must exceed 0 to be used
_WIDE = 5.0  # the same of what all actions have in common
_EVER = 1 << 22  # numbers that each kind of draw may need
_COMMON, _LEVELS, _SLOPES = 0, 1, 2  # kinds of weights


class Foreseen(NamedTuple):
    """What further cases, each given any of the actions, would teach about a policy."""

    gains: np.ndarray  # [n]  that become clear by these numbers of cases, on average over models
    most: float  # the gain if everything became known
    lost: float  # by such a case, compared with the policy


class _Fit(NamedTuple):
    """A regression for one size of the differences."""

    evidence: float  # the logarithm of the marginal likelihood
    scatter: float  # of the variance of the noise: its inverse gamma law
    prior: np.ndarray  # [p]  deviations of the weights before any case
    factor: np.ndarray  # [p, p]  of 1 + prior G prior, lower triangular
    half: np.ndarray  # [p]  of the mean

    @property
    def mean(self) -> np.ndarray:  # [p]
        """The expected weights."""
        return self.turned(self.half)

    def turned(self, z: np.ndarray) -> np.ndarray:  # [p], or [p, n]
        """Turn standard normal numbers into deviations of the weights, in units of the noise."""
        return np.asarray((_solved(self.factor, z, transposed=True).T * self.prior).T)


def _solved(factor: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """Solve `factor @ x = right`, or `factor.T @ x = right`, for a lower triangular factor.

    LAPACK, which `scipy.linalg.solve_triangular` calls, wakes all threads even for three equations
    with ten right sides, and then takes up to a thousand times as long. These functions of BLAS
    return the same bits.
    """
    from scipy.linalg import blas

    upper = factor.T  # by columns, as BLAS reads it
    if right.size == len(right):  # one right side
        return np.asarray(blas.dtrsv(upper, right, trans=not transposed)).reshape(right.shape)
    return np.asarray(blas.dtrsm(1.0, upper, right, trans_a=not transposed))


class CasePosterior:
    """A posterior over the rewards of actions, of `MODELS` draws."""

    def __init__(
        self,
        shape: Shape,
        contexts: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        *,
        key: np.uint64,
        told: int,
    ) -> None:
        self.shape, self.contexts = shape, contexts
        values = contexts.reshape(-1, shape.features)
        spread = values.std(axis=0)
        self._middle, self._scale = values.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self._kinds = _kinds(shape)
        played = np.zeros((len(actions), shape.actions))
        played[np.arange(len(actions)), actions] = 1.0
        self._design = self.combined(played)
        self._level = float(rewards.mean())
        self._paid = rewards - self._level
        self._key, self._first = key, told * 4 * _EVER
        self._fits = self._fitted()

    def values(self, newest: int) -> np.ndarray:  # [n, A, MODELS]
        """The value of each action in at most the `newest` last cases, in each model."""
        weights = self.weights()
        found = [self._given(a)[-newest:] @ weights.T for a in range(self.shape.actions)]
        return np.stack(found, axis=1) + self._level

    def _given(self, action: int) -> np.ndarray:  # [n, p]
        """The combined vectors if all cases were given one action."""
        one = np.eye(self.shape.actions)[action]
        return self.combined(np.broadcast_to(one, (len(self.contexts), len(one))))

    @staticmethod
    def can(shape: Shape, rewards: np.ndarray) -> bool:
        """Whether there is enough to learn from, and not too much to compute."""
        return len(rewards) > 1 and rewards.std() > 0 and len(_kinds(shape)) <= MOST_WEIGHTS

    def combined(self, shares: np.ndarray) -> np.ndarray:  # [n, p]
        """The vectors by which weights give the sum of rewards in these shares [n, A]."""
        z = (self.contexts - self._middle) / self._scale  # [n, R, d]
        if not self.shape.shared:
            slopes = np.einsum("na,nad->nd", shares, z)
            return np.concatenate([shares.sum(axis=1, keepdims=True), slopes], axis=1)
        one = np.concatenate([np.ones((len(z), 1)), z[:, 0]], axis=1)  # [n, 1 + d]
        own = (shares[:, :, None] * one[:, None]).reshape(len(z), -1)
        return np.concatenate([shares.sum(axis=1, keepdims=True) * one, own], axis=1)

    # ---- fitting ---------------------------------------------------------------------------------

    def _fitted(self) -> list[_Fit]:
        """A fit for each size of the differences."""
        design, paid = self._design, self._paid
        gram, moment = design.T @ design, design.T @ paid
        total, n = float(paid @ paid), len(paid)
        levels = _SIZES if (self._kinds == _LEVELS).any() else _SIZES[:1]
        return [
            self._fit(gram, moment, total, n, level, slope) for level in levels for slope in _SIZES
        ]

    def _fit(
        self, gram: np.ndarray, moment: np.ndarray, total: float, n: int, level: float, slope: float
    ) -> _Fit:
        """Fit weights whose prior deviations are _WIDE, `level` and `slope`, in units of the noise.

        The prior of the noise counts as one case with half of the variance of all rewards.
        """
        prior = np.array([_WIDE, level, slope])[self._kinds]
        factor = np.linalg.cholesky(prior[:, None] * gram * prior + np.eye(len(prior)))
        half = _solved(factor, prior * moment)
        scatter = 0.25 * total / n + 0.5 * max(0.0, total - float(half @ half))
        logarithms = float(np.log(np.diagonal(factor)).sum())
        evidence = -logarithms - 0.5 * (1 + n) * float(np.log(scatter))
        return _Fit(evidence, scatter, prior, factor, half)

    # ---- foreseeing ------------------------------------------------------------------------------

    def foreseen(self, policy: LinearPolicy, cases: np.ndarray) -> Foreseen:
        """What these numbers of further cases [n] would teach about a policy.

        In each model, cases move the expected weights part of the way to the drawn ones, and what
        is not known by then stays as a deviation of the gain. A gain that is not clear is not
        used, and counts as 0.
        """
        contexts, A = self.contexts[-_ON:], self.shape.actions
        each = np.stack([self._given(a)[-_ON:] for a in range(A)], axis=1)  # [n, A, p]
        shares = policy.propensities(contexts)  # [n, A]
        information = np.einsum("nap,naq->pq", each, each) / (A * len(each))
        middles = (np.arange(_FORESEEN) + 0.5) / _FORESEEN
        cells, p = self._cells(middles), len(self._kinds)
        z = normals(self._key, self._first // 2 + _EVER // 2, _FORESEEN * p).reshape(-1, p)
        gains = np.zeros((_FORESEEN, len(cases) + 1))
        lost = np.zeros(_FORESEEN)
        for cell in np.unique(cells):
            fit, of_cell = self._fits[cell], np.flatnonzero(cells == cell)
            noise = float(np.sqrt(2.0 * fit.scatter / (1 + len(self._paid))))
            turned = fit.turned(np.eye(p))
            sizes, ways = np.linalg.eigh(turned.T @ information @ turned)
            known = np.append(cases, _ALL)[:, None] * np.maximum(sizes, 0.0)  # [n + 1, p]
            left = 1.0 / (1.0 + known)
            usual, own = each @ fit.mean, noise * (each @ turned @ ways)  # [n, A], [n, A, p]
            for model in of_cell:
                moved = np.sqrt(1.0 - left) * z[model]  # [n + 1, p]
                values = usual[..., None] + own @ moved.T  # [n, A, n + 1]
                gains[model] = _clear_gains(values, own, shares, left)
                drawn = values[..., -1]
                lost[model] = (shares * drawn).sum(axis=1).mean() - drawn.mean()
        means = gains.mean(axis=0)
        return Foreseen(means[:-1], float(means[-1]), float(lost.mean()))

    # ---- drawing ---------------------------------------------------------------------------------

    def _cells(self, uniform: np.ndarray) -> np.ndarray:  # [n]
        """The fit of each model, by numbers from 0 to 1 [n]."""
        evidence = np.array([fit.evidence for fit in self._fits])
        chances = np.exp(evidence - evidence.max()).cumsum()
        return np.asarray(np.searchsorted(chances, uniform * chances[-1]))

    def weights(self) -> np.ndarray:  # [MODELS, p]
        """Weights of each model."""
        from scipy.special import gammaincinv

        uniform = uniforms(self._key, self._first, 2 * MODELS).reshape(2, MODELS)
        cells = self._cells(uniform[0])
        scatter = np.array([self._fits[cell].scatter for cell in cells])
        noise = np.sqrt(scatter / gammaincinv(0.5 * (1 + len(self._paid)), uniform[1]))
        p = len(self._kinds)
        z = normals(self._key, self._first // 2 + _EVER // 2, MODELS * p).reshape(MODELS, p)
        draws = np.zeros((MODELS, p))
        for cell in np.unique(cells):
            fit, of_cell = self._fits[cell], cells == cell
            draws[of_cell] = fit.mean + noise[of_cell, None] * fit.turned(z[of_cell].T).T
        return draws

    @functools.cached_property
    def _shares(self) -> np.ndarray:  # [MODELS, n]
        """How probable each case is in each model."""
        n = len(self.contexts)
        drawn = -np.log(uniforms(self._key, self._first + 2 * _EVER, MODELS * n))
        weights = drawn.reshape(MODELS, n)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def gains(
        self, weights: np.ndarray, combined: np.ndarray, part: np.ndarray, whole: np.ndarray
    ) -> np.ndarray:  # [MODELS]
        """The mean of combined vectors [n, p] over the cases `whole`, of which those outside of
        `part` count as 0, in each model of these weights.

        The bootstrap of a mean of k cases is narrower than Student's t with k - 1 degrees of
        freedom, which is the law of such a mean if nothing else is known of the cases; so it is
        stretched to that. Cases that hardly count do not count: k is Kish's effective number.
        """
        from scipy.special import gammaincinv

        shares = self._shares[:, part] / self._shares[:, whole].sum(axis=1, keepdims=True)
        sizes = np.abs(combined[part] @ weights.mean(axis=0))
        k = max(3.0, float(sizes.sum() ** 2 / max(float(sizes @ sizes), 1e-300)))
        uniform = uniforms(self._key, self._first + 2 * MODELS, MODELS)
        narrow = (k - 1) / (k + 1) * 2.0 * gammaincinv(0.5 * (k - 1), uniform) / (k - 1)
        usual = combined[part].sum(axis=0) / len(whole)
        means = usual + (shares @ combined[part] - usual) / np.sqrt(narrow)[:, None]
        return np.asarray((means * weights).sum(axis=1))

    def expected(self, chosen: np.ndarray) -> np.ndarray:  # [p]
        """The expected weights by some of the cases alone, with the likeliest size of all cases."""
        likeliest = max(self._fits, key=lambda fit: fit.evidence).prior
        level, slope = (
            float(likeliest[self._kinds == kind][0]) if (self._kinds == kind).any() else _SIZES[0]
            for kind in (_LEVELS, _SLOPES)
        )
        design, paid = self._design[chosen], self._paid[chosen]
        sums = design.T @ design, design.T @ paid, float(paid @ paid), len(paid)
        return self._fit(*sums, level, slope).mean


def _clear_gains(
    values: np.ndarray, own: np.ndarray, shares: np.ndarray, left: np.ndarray
) -> np.ndarray:  # [k]
    """The average gain of the best actions over a policy, where it is clear.

    values: of each action in contexts [n, A, k], for k states of knowledge. own: by how much each
    of p directions moves them [n, A, p]. shares: how often the policy plays each action [n, A].
    left: the variance of each direction that is left [k, p].
    """
    n, A, k = values.shape
    chosen = np.eye(A)[values.argmax(axis=1)].transpose(1, 0, 2) - shares  # [k, n, A]
    gains = np.einsum("kna,nak->k", chosen, values) / n
    ways = chosen.reshape(k, -1) @ own.reshape(n * A, -1) / n  # [k, p]
    deviations = np.sqrt((ways**2 * left).sum(axis=1))
    return np.where(gains > _CLEAR * deviations, gains, 0.0)


def _kinds(shape: Shape) -> np.ndarray:  # [p]
    """The kind of each weight: common to all actions, a level, or a slope."""
    slopes = [_SLOPES] * shape.features
    if not shape.shared:
        return np.array([_COMMON, *slopes])
    common = [_COMMON] * (1 + shape.features)
    return np.array(common + [_LEVELS, *slopes] * shape.actions)
