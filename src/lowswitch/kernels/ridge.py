"""Ridge regression by Cholesky factors: V = U'U with U upper triangular, one episode at a time.

A learner has R feature vectors per context and B weight vectors. If all actions share the features
of a context, R = 1 and each action has its own weights, B = A. If each action has its own features,
R = A and B = 1.
"""

import math

import numpy as np

from lowswitch.kernels.compile import entry, part

ROUNDING = 1e-9  # a determinant that grew by exactly the factor does not exceed it


@part
def add_to_factor(U, w):
    """Turn U with V = U'U into the factor of V + w w', by rotations; overwrites w.

    Gill, Golub, Murray, Saunders 1974, method C1.
    """
    d = len(w)
    for k in range(d):
        if w[k] != 0.0:
            radius = math.sqrt(U[k, k] * U[k, k] + w[k] * w[k])
            cosine = U[k, k] / radius
            sine = w[k] / radius
            U[k, k] = radius
            for i in range(k + 1, d):
                above = U[k, i]
                U[k, i] = cosine * above + sine * w[i]
                w[i] = cosine * w[i] - sine * above


@part
def log_determinant(U):
    """ln det V = 2 sum ln U_kk."""
    total = 0.0
    for k in range(len(U)):
        total += math.log(U[k, k])
    return 2.0 * total


@entry
def learn(x, actions, rewards, first, sums, base, log_factor, scratch):
    """Learn the episodes from `first` on, in order, until the determinant of a step has grown by
    more than the factor since the policy was made.

    Return how many episodes are learned by then, and whether the determinant was the reason to
    stop.

    x is [n, H, R, d]. An action of -1 means that the episode ended before this step.
    """
    n, H = actions.shape
    R, d = x.shape[2:]
    B = sums.factor.shape[1]
    watched = log_factor < np.inf
    for t in range(first, n):
        grown = False
        for h in range(H):
            a = actions[t, h]
            if a >= 0:
                row, block = min(a, R - 1), min(a, B - 1)
                for i in range(d):
                    scratch[i] = x[t, h, row, i]
                    sums.moment[h, block, i] += rewards[t, h] * x[t, h, row, i]
                add_to_factor(sums.factor[h, block], scratch)
                sums.counts[h] += 1
                sums.squares[h] += rewards[t, h] * rewards[t, h]
                if watched:
                    total = 0.0
                    for b in range(B):
                        total += log_determinant(sums.factor[h, b])
                    grown = grown or total - base[h] > log_factor + ROUNDING
        if grown:
            return t + 1, True
    return n, False


@entry
def add_targets(x, actions, targets, moment):
    """Add target times features of each played step, in order.

    x is [n, R, d], actions [n], targets [n, C], moment [B, d, C].
    """
    R, d = x.shape[1:]
    B, C = len(moment), targets.shape[1]
    for t in range(len(actions)):
        a = actions[t]
        if a >= 0:
            row, block = min(a, R - 1), min(a, B - 1)
            for i in range(d):
                for c in range(C):
                    moment[block, i, c] += x[t, row, i] * targets[t, c]


@entry
def forward(U, b):
    """Solve U' q = b in place, for all columns of b [d, C]."""
    d, C = b.shape
    for k in range(d):
        for c in range(C):
            b[k, c] /= U[k, k]
        for i in range(k + 1, d):
            for c in range(C):
                b[i, c] -= U[k, i] * b[k, c]


@entry
def backward(U, q):
    """Solve U theta = q in place, for all columns of q [d, C]."""
    d, C = q.shape
    for k in range(d - 1, -1, -1):
        for i in range(k + 1, d):
            for c in range(C):
                q[k, c] -= U[k, i] * q[i, c]
        for c in range(C):
            q[k, c] /= U[k, k]
