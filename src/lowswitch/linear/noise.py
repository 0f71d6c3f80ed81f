"""Addressed noise for arrays: a number is a pure function of its stream and its place.

It is the same stream as that of `kernels/noise.py`, in numpy alone.
"""

from __future__ import annotations

import operator

import numpy as np

from lowswitch.checks import shown
from lowswitch.kernels.streams import (
    _GOLDEN,
    _MASK,
    _MIX_1,
    _MIX_2,
    _mix,
    learner_stream,
    stream_key,
)

DRAWS, START, CONTEXTS, REWARDS = 3, 4, 5, 6  # purposes, beside those of `kernels/streams.py`
__all__ = [
    "CONTEXTS",
    "DRAWS",
    "REWARDS",
    "START",
    "bits",
    "drawn_member",
    "normals",
    "purpose_key",
    "uniforms",
]


def purpose_key(seed: int, purpose: int) -> np.uint64:
    """The stream of a seed for one purpose."""
    return learner_stream(seed, purpose) if purpose else stream_key(seed)


def bits(key: np.uint64, first: int, count: int) -> np.ndarray:  # [count] uint64
    """The numbers `first`, `first` + 1, ... of a stream: SplitMix64 as a counter."""
    places = np.arange(count, dtype=np.uint64) + np.uint64(first % 2**64)
    z = key + places * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX_2)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def uniforms(key: np.uint64, first: int, count: int) -> np.ndarray:  # [count]
    """Floats in (0, 1)."""
    whole = (bits(key, first, count) >> np.uint64(11)).astype(float)
    return whole * 2.0**-53 + 2.0**-54


def normals(key: np.uint64, first: int, count: int) -> np.ndarray:  # [count]
    """Standard normal numbers, each from the uniform ones 2 i and 2 i + 1: Box, Muller 1958."""
    pairs = uniforms(key, 2 * first, 2 * count).reshape(count, 2)
    normal: np.ndarray = np.sqrt(-2.0 * np.log(pairs[:, 0])) * np.cos(2.0 * np.pi * pairs[:, 1])
    return normal


def drawn_member(key: int, members: int, episode: int) -> int:
    """Which member of a mixture plays an episode: `drawn_members` of one, in whole numbers."""
    try:
        number = operator.index(episode)  # those of numpy would overflow
    except TypeError:
        raise ValueError(
            f"episode must be a whole number, not {shown(episode)}: it says which member plays"
        ) from None
    bits_of_episode = _mix((key + (number - 1) * _GOLDEN) & _MASK)
    return int((bits_of_episode >> 11) * 2.0**-53 * members)
