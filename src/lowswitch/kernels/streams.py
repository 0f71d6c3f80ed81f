"""The noise streams of a seed: one for the problem, and those of a learner's own draws."""

from __future__ import annotations

import numpy as np

_MASK = 2**64 - 1
SAMPLES, MEMBERS = 1, 2  # posterior samples; which member of a mixture plays


def stream_key(seed: int) -> np.uint64:
    """The noise stream of a seed's episodes: SplitMix64's output function, so that neighbouring
    seeds start far apart.
    """
    return np.uint64(_mix(seed))


def learner_stream(seed: int, purpose: int) -> np.uint64:
    """The noise stream of a learner's own draws, far from that of the episodes of any seed."""
    return np.uint64(_mix(_mix(seed) ^ _mix(purpose + 2**63)))


def _mix(number: int) -> int:
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
