"""Noise is addressed, not consumed: a random number is a pure function of its stream and place."""

import math

import numpy as np

from lowswitch.kernels.compile import entry, inline, part
from lowswitch.kernels.streams import splitmix

_1, _6, _11, _63 = (np.uint64(i) for i in (1, 6, 11, 63))
_UNIT = 2.0**-53

noise = inline(splitmix)


@inline
def uniform(bits):
    """A float in [0, 1) from 64 random bits."""
    return np.int64(bits >> _11) * _UNIT


@inline
def episode_address(k, H):
    """Where the noise of episode k begins: its start, then successor and reward of each step."""
    return np.uint64(k) * np.uint64(2 * H + 1)


@inline
def next_uniform(key, counter):
    """A float in (0, 1) from a stream; advances its counter."""
    counter[0] += _1
    return uniform(noise(key, counter[0])) + 0.5 * _UNIT


# ---- laws ----------------------------------------------------------------------------------------


@inline
def draw(heads, columns, row, bits):
    """A successor from the alias table of a row: Walker 1977.

    The number of columns is a power of two, so no division is needed.
    """
    head = np.uint64(heads[np.uint64(row)])
    log_columns = head & _63
    column = columns[(head >> _6) + ((bits >> _1) >> (_63 - log_columns))]
    inside = np.int64((bits << log_columns) >> _1) < column["threshold"]
    return np.int64(column["own"]) if inside else np.int64(column["other"])


@part
def fill_alias(probabilities, successors, columns, scratch, stack):
    """Write the alias table of one row (Vose 1991).

    Columns without their own successor are all alias.
    """
    small, large, n = 0, len(columns), len(probabilities)
    for i in range(len(columns)):
        scratch[i] = probabilities[i] * len(columns) if i < n else 0.0
        columns[i]["own"] = columns[i]["other"] = successors[min(i, n - 1)]
        columns[i]["threshold"] = np.int64(2**63 - 1)
        if scratch[i] < 1:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < len(columns):
        small -= 1
        i, j = stack[small], stack[large]
        columns[i]["threshold"] = np.int64(scratch[i] * 2.0**63)
        columns[i]["other"] = columns[j]["own"]
        scratch[j] -= 1 - scratch[i]
        if scratch[j] < 1:
            large += 1
            stack[small] = j
            small += 1


@entry
def fill_aliases(offsets, successors, probabilities, heads, columns, scratch, stack):
    """Write the alias tables of all rows."""
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        first, size = heads[row] >> 6, 1 << (heads[row] & 63)
        table = columns[first : first + size]
        fill_alias(probabilities[begin:end], successors[begin:end], table, scratch, stack)


@inline
def normal(first, second):
    """A standard normal number from two uniform ones: Box, Muller 1958."""
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@inline
def gamma_trial(shape, x, accept):
    """A Gamma(shape, 1) number, or -1 if it is rejected: Marsaglia, Tsang 2000.

    `shape` is at least 1, `x` a standard normal number, `accept` a uniform one.
    """
    d = shape - 1.0 / 3.0
    scale = 1.0 / math.sqrt(9.0 * d)
    root = 1.0 + scale * x
    v = root * root * root
    if root > 0.0 and math.log(accept) < 0.5 * x * x + d - d * v + d * math.log(v):
        return d * v
    return -1.0
