"""The noise streams of a seed: that of its episodes, and those of a learner's own draws."""

from __future__ import annotations

import numpy as np

_MASK = 2**64 - 1
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SAMPLES, MEMBERS = 1, 2  # posterior samples; which member of a mixture plays


def stream_key(seed: int) -> np.uint64:
    """The noise stream of a seed's episodes.

    It is SplitMix64's output function, so that neighbouring seeds start far apart.
    """
    return np.uint64(_mix(seed))


def learner_stream(seed: int, purpose: int) -> np.uint64:
    """The noise stream of a learner's own draws, far from that of the episodes of any seed."""
    return np.uint64(_mix(_mix(seed) ^ _mix(purpose + 2**63)))


def _mix(number: int) -> int:
    z = (number + _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * _MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & _MASK
    return z ^ (z >> 31)


def drawn_members(key: np.uint64, members: int, episodes: np.ndarray) -> np.ndarray:  # [B]
    """Which member of a mixture plays each of these episodes [B]: `drawn_member` of `deploy.py`."""
    if members == 1:
        return np.zeros(len(episodes), dtype=np.int64)
    z = key + np.asarray(episodes).astype(np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX_2)
    share = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(float) * 2.0**-53
    return (share * members).astype(np.int64)
