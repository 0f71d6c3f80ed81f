"""Staged-RandQL: Tiapkin et al. 2023, arXiv 2310.18186.

Several samples of each estimate learn with random learning rates. At the end of a stage the largest
sample is the new estimate, so the spread of the samples explores and no bonus is needed.
"""

import math

import numpy as np

from lowswitch.kernels.compile import inline, part
from lowswitch.kernels.noise import next_uniform, noise
from lowswitch.kernels.posterior import exponential, gamma
from lowswitch.kernels.qlearning import DUE, QUIET, TRIGGERED, best_of_others
from lowswitch.kernels.schedule import next_trigger


@part
def beta(one, other, key, counter):
    """A draw from the law Beta(one, other).

    If both gamma draws underflow because the shapes are tiny, the limit is 0 or 1.
    """
    if one == 1.0:
        return 1.0 - math.exp(-exponential(key, counter) / other)
    first = gamma(one, key, counter)
    total = first + gamma(other, key, counter)
    if total > 0.0:
        return first / total
    return 1.0 if next_uniform(key, counter) * (one + other) < one else 0.0


@part
def mix_samples(spec, tables, i, n, target):
    """Move every sample of cell i towards the target of visit n, each by its own random rate.

    The rate is Beta(1 / kappa, (m + n_0) / kappa) after m earlier visits in the stage: Tiapkin et
    al. 2023. It depends only on the learner's stream, the cell and the visit.
    """
    key = noise(noise(tables.keys[0]["samples"], np.uint64(i)), np.uint64(n))
    tables.counter[0] = 0
    earlier = n - 1 - tables.cells[i]["begin"]
    one, other = 1.0 / spec.kappa, (earlier + spec.prior) / spec.kappa
    for j in range(i * spec.samples, (i + 1) * spec.samples):
        rate = beta(one, other, key, tables.counter)
        tables.samples[j] = (1.0 - rate) * tables.samples[j] + rate * target


@inline
def end_random_stage(spec, tables, h, i, n):
    """Take the largest sample as the estimate of cell i, if that is lower, and begin anew."""
    cell, best = tables.cells[i], -np.inf
    for j in range(i * spec.samples, (i + 1) * spec.samples):
        best = max(best, tables.samples[j])
        tables.samples[j] = spec.caps[h]
    cell["q"] = min(cell["q"], best)
    cell["begin"] = n
    cell["due"] = next_trigger(spec, n)


@inline
def digest_randomized(spec, tables, h, x, a, action, reward, y):
    """Learn one transition; return what it means for row (h, x), whose own action is `action`."""
    here = h * spec.S + x
    i, there = here * spec.A + a, here - x + spec.S + y
    cell = tables.cells[i]
    n = cell["visits"] + 1
    cell["visits"] = n
    mix_samples(spec, tables, i, n, reward + tables.rows[there]["value"])
    if n != cell["due"]:
        return QUIET
    end_random_stage(spec, tables, h, i, n)
    row = tables.rows[here]
    if a != action:  # told off-policy
        row["best_other"] = best_of_others(spec, tables, here, action)
    q = tables.cells[here * spec.A + action]["q"]
    row["value"] = min(spec.caps[h], max(q, row["best_other"]))
    return DUE if q < row["best_other"] and not spec.timing.asked else TRIGGERED
