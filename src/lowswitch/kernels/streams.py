"""Noise streams without a compiler: a random number is a pure function of its stream and place.

`splitmix` is the only source text of the generator. The kernels compile it (`kernels/noise.py`),
and numpy runs it on arrays.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

# purposes of a learner's own draws, and of problems with features
SAMPLES, MEMBERS, DRAWS, START, CONTEXTS, REWARDS, JUDGED = 1, 2, 3, 4, 5, 6, 7
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = (np.uint64(i) for i in (11, 27, 30, 31))


def splitmix(key: Any, address: Any) -> Any:
    """Number `address` of the stream `key`: SplitMix64 (Steele, Lea, Flood 2014) as a counter."""
    z = key + address * _GOLDEN
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


def stream_key(seed: int) -> np.uint64:
    """The noise stream of a seed's episodes; the streams of neighbouring seeds start far apart."""
    return _mixed(seed)


def learner_stream(seed: int, purpose: int) -> np.uint64:
    """The noise stream of a learner's own draws, far from the episode streams of all seeds."""
    return _mixed(int(_mixed(seed) ^ _mixed(purpose + 2**63)))


def purpose_key(seed: int, purpose: int) -> np.uint64:
    """The stream of a seed for one purpose; 0 is the stream of its episodes."""
    return learner_stream(seed, purpose) if purpose else stream_key(seed)


def _mixed(number: int) -> np.uint64:
    one = np.array([number % 2**64], dtype=np.uint64)  # arrays wrap around without a warning
    return np.uint64(splitmix(one, np.uint64(1))[0])


def bits(key: np.uint64, first: int, count: int) -> np.ndarray:  # [count] uint64
    """The numbers `first`, `first` + 1, ... of a stream."""
    places = np.arange(count, dtype=np.uint64) + np.uint64(first % 2**64)
    numbers: np.ndarray = splitmix(key, places)
    return numbers


def uniforms(key: np.uint64, first: int, count: int) -> np.ndarray:  # [count]
    """Floats in (0, 1)."""
    return _shares(bits(key, first, count)) + 2.0**-54


def normals(key: np.uint64, first: int, count: int) -> np.ndarray:  # [count]
    """Standard normal numbers, each from the uniform numbers 2 i and 2 i + 1: Box, Muller 1958."""
    pairs = uniforms(key, 2 * first, 2 * count).reshape(count, 2)
    normal: np.ndarray = np.sqrt(-2.0 * np.log(pairs[:, 0])) * np.cos(2.0 * np.pi * pairs[:, 1])
    return normal


def drawn_members(key: np.uint64, members: int, episodes: np.ndarray) -> np.ndarray:  # [B]
    """The member of a mixture that plays each of these episodes [B]: `drawn_member` of
    `deploy.py`.
    """
    if members == 1:
        return np.zeros(len(episodes), dtype=np.int64)
    numbers = splitmix(key, np.asarray(episodes).astype(np.uint64))
    return (_shares(numbers) * members).astype(np.int64)


def drawn_member(key: np.uint64, members: int, episode: Any) -> int:
    """The member of a mixture that plays one episode."""
    try:
        number = operator.index(episode)
    except TypeError:
        raise ValueError(
            f"episode must be a whole number, not {episode!r}: it decides which member plays"
        ) from None
    return int(drawn_members(key, members, np.array([number % 2**64], dtype=np.uint64))[0])


def _shares(numbers: np.ndarray) -> np.ndarray:
    """Floats in [0, 1) from random bits."""
    return (numbers >> _11).astype(float) * 2.0**-53
