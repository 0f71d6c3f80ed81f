"""Logistic regression with a ridge penalty by Newton's method, one weight vector at a time."""

import math

from lowswitch.kernels.compile import entry, part

_STEPS = 50  # of Newton's method, which needs about eight
_SMALL = 1e-10  # of the decrease of the loss that a step promises
_SHORTEST = 1e-6  # of the share of a step that is tried


@part
def _loss(x, blocks, y, block, offset, ridge, theta, gradient, V):
    """The penalised loss of a weight vector; fills in its negative gradient and its curvature.

    -sum ln P(y | x) + ridge |theta|^2 / 2, with log-odds theta.x + offset. V is upper triangular.
    """
    d, total = len(theta), 0.0
    for i in range(d):
        total += 0.5 * ridge * theta[i] * theta[i]
        gradient[i] = -ridge * theta[i]
        for j in range(i, d):
            V[i, j] = ridge if i == j else 0.0
    for t in range(len(y)):
        if blocks[t] == block:
            odds = offset
            for i in range(d):
                odds += x[t, i] * theta[i]
            small = math.exp(-abs(odds))
            p = 1.0 / (1.0 + small) if odds >= 0.0 else small / (1.0 + small)
            total += max(odds, 0.0) + math.log1p(small) - y[t] * odds
            for i in range(d):
                gradient[i] += (y[t] - p) * x[t, i]
                scaled = p * (1.0 - p) * x[t, i]
                for j in range(i, d):
                    V[i, j] += scaled * x[t, j]
    return total


@part
def _factorise(V):
    """Turn the upper triangle of V into U with V = U'U, in place."""
    d = len(V)
    for k in range(d):
        for m in range(k):
            for i in range(k, d):
                V[k, i] -= V[m, k] * V[m, i]
        root = math.sqrt(V[k, k])
        for i in range(k, d):
            V[k, i] /= root


@part
def _newton_step(U, gradient, step):
    """Solve U'U step = gradient; return twice the promised decrease of the loss."""
    d, promised = len(step), 0.0
    for k in range(d):
        step[k] = gradient[k]
        for m in range(k):
            step[k] -= U[m, k] * step[m]
        step[k] /= U[k, k]
        promised += step[k] * step[k]
    for k in range(d - 1, -1, -1):
        for i in range(k + 1, d):
            step[k] -= U[k, i] * step[i]
        step[k] /= U[k, k]
    return promised


@entry
def fit_log_odds(x, blocks, y, offset, ridge, theta, factor, scratch):
    """Fit the log-odds of y = 1 to the samples of each block; theta starts at 0.

    x is [n, d], theta [B, d]. factor [B, d, d] becomes U with U'U the curvature at theta, so that
    N(theta, (U'U)^-1) is Laplace's approximation of the posterior. scratch is [3, d].
    """
    gradient, step, trial = scratch[0], scratch[1], scratch[2]
    d = len(gradient)
    for block in range(len(theta)):
        known, U = theta[block], factor[block]
        loss = _loss(x, blocks, y, block, offset, ridge, known, gradient, U)
        for _ in range(_STEPS):
            _factorise(U)
            if _newton_step(U, gradient, step) < _SMALL:
                break
            share, lower = 1.0, False
            while not lower and share > _SHORTEST:
                for i in range(d):
                    trial[i] = known[i] + share * step[i]
                new = _loss(x, blocks, y, block, offset, ridge, trial, gradient, U)
                lower = new <= loss
                share *= 0.5
            if not lower:
                _loss(x, blocks, y, block, offset, ridge, known, gradient, U)
                _factorise(U)
                break
            loss = new
            for i in range(d):
                known[i] = trial[i]
