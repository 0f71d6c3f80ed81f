"""Choose how much better an action must look before the final policy leaves the user's initial
policy.

Half of the data chooses, the other half judges.
"""

import math

import numpy as np

from lowswitch.kernels.arrays import Belief
from lowswitch.kernels.compile import allocating, allocating_part, inline
from lowswitch.kernels.evidence import listed_laws, listed_rewards, reward_spread
from lowswitch.kernels.noise import next_uniform, noise, normal
from lowswitch.kernels.posterior_mean import plan_on_mean, value_on_mean
from lowswitch.kernels.sums import mean_and_spread

CAUTIONS = (0.0, 0.5, 1.0, 2.0, 3.0)  # standard errors in a row
_CAREFUL = 2.0  # if no gain is clear
_SPLITS = 4  # of the data into two halves
_SPLITTING = np.uint64(2**61)
_WORD = 64
_TINY = 1e-9


@inline
def ones_among(bits):
    """The number of ones among 64 bits."""
    found = 0
    while bits != np.uint64(0):
        bits &= bits - np.uint64(1)
        found += 1
    return found


@inline
def half_of(count, key, address):
    """How many of `count` things fall into the first half, if a coin is tossed for each."""
    left, found = np.int64(count), 0
    while left > 0:
        address[0] += np.uint64(1)
        bits = noise(key, address[0])
        found += ones_among(bits >> np.uint64(max(0, _WORD - left)))
        left -= _WORD
    return found


@inline
def half_rewards(rewards, row, key, address):
    """How many of a row's visits fall into the first half, and the sum of their rewards.

    A coin is tossed for each reward of 0 or 1. For other rewards only sums are known: a drawn sum
    has the mean and variance of a random choice of that many, from a normal law cut to the possible
    range.
    """
    n, total = rewards.n[row], rewards.total[row]
    if abs(total - rewards.squares[row]) < 1e-9:
        ones = float(half_of(total + 0.5, key, address))
        return ones + half_of(n - total + 0.5, key, address), ones
    first = float(half_of(n, key, address))
    variance = reward_spread(rewards, row) * first * (n - first) / max(1.0, n - 1.0)
    more = math.sqrt(variance) * normal(next_uniform(key, address), next_uniform(key, address))
    least, most = max(0.0, total - (n - first)), min(first, total)
    return first, min(most, max(least, total * first / n + more))


@allocating_part
def half_belief(spec, belief, counts, n, paid, total):
    """The belief with other counts and the same prior."""
    laws, rewards = belief.laws, belief.rewards
    return Belief(
        listed_laws(spec, laws.stride, laws.offsets, laws.states, counts, n),
        listed_rewards(spec, rewards.stride, paid, total, rewards.squares),
        belief.mass,
        belief.alike,
        belief.noisy,
        belief.share,
        belief.reward_mass,
        belief.by_state,
        belief.hopeful,
        belief.sizes,
        belief.each,
        belief.doubts,
        belief.lift,
        belief.chosen,
        belief.pull,
        belief.led,
    )


@allocating_part
def halves(spec, belief, number, key):
    """Two beliefs, each from one half of the data, split at random.

    The successors of a row are independent draws from one law, so the halves are independent. Both
    halves know rewards that never vary.
    """
    laws, rewards, stream = belief.laws, belief.rewards, noise(key, _SPLITTING + np.uint64(number))
    address = np.zeros(1, dtype=np.uint64)
    counts, n = np.zeros((2, len(laws.counts))), np.zeros((2, len(laws.n)))
    for row in range(len(laws.n)):
        for j in range(laws.offsets[row], laws.offsets[row + 1]):
            counts[0, j] = half_of(laws.counts[j], stream, address)
            counts[1, j] = laws.counts[j] - counts[0, j]
            for half in range(2):
                n[half, row] += counts[half, j]
    paid, total = np.zeros((2, len(rewards.n))), np.zeros((2, len(rewards.n)))
    for half in range(2):
        paid[half], total[half] = rewards.n, rewards.total
    for row in range(len(rewards.n)):
        if belief.noisy and rewards.n[row] > 0.0:
            paid[0, row], total[0, row] = half_rewards(rewards, row, stream, address)
            paid[1, row] = rewards.n[row] - paid[0, row]
            total[1, row] = rewards.total[row] - total[0, row]
    return (
        half_belief(spec, belief, counts[0], n[0], paid[0], total[0]),
        half_belief(spec, belief, counts[1], n[1], paid[1], total[1]),
    )


@allocating
def learned_caution(spec, tables, belief, clear):
    """The caution with the largest gain over the initial policy, judged by halves of the data; else
    2.

    A policy planned on one half is compared with the initial policy on the other half, which did
    not choose it. This exposes a posterior that promises too much (Stone 1974). A gain counts if it
    exceeds `clear` times its standard deviation from half to half.

    Return the caution; the largest mean gain, or 0; and the largest ratio of a mean gain to its
    standard deviation, or 0.
    """
    rows, gains = spec.H * spec.S, np.zeros((len(CAUTIONS), _SPLITS, 2))
    last, first = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    for split in range(_SPLITS):
        one, other = halves(spec, belief, split, tables.keys[0]["samples"])
        for turn in range(2):
            planned, tried = (one, other) if turn == 0 else (other, one)
            for level in range(len(CAUTIONS)):
                plan_on_mean(spec, tables, planned, CAUTIONS[level], last, first)
                gains[level, split, turn] = value_on_mean(spec, tables, tried, last)
                gains[level, split, turn] -= value_on_mean(spec, tables, tried, first)
    best, most, largest, ratio = _CAREFUL, 0.0, 0.0, 0.0
    for level in range(len(CAUTIONS)):
        gain, spread = mean_and_spread(gains[level])
        largest, ratio = max(largest, gain), max(ratio, gain / max(_TINY, spread))
        if gain > max(most, clear * spread):
            best, most = CAUTIONS[level], gain
    return best, largest, ratio
