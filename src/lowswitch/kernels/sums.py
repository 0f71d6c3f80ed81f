"""Sums and means of arrays as short loops.

Each method of an array that numba offers, such as `sum`, compiles up to thirty functions of numba's
own, for axes and messages that no kernel needs. The order of the additions is the same.
"""

from lowswitch.kernels.compile import inline


@inline
def sum_of(values):
    """The sum of numbers [n]."""
    found = 0.0
    for i in range(len(values)):
        found += values[i]
    return found


@inline
def mean_of(values):
    """The mean of numbers [n]."""
    return sum_of(values) / len(values)


@inline
def weighted_sum(weights, values):
    """The sum of numbers [n], each times its weight."""
    found = 0.0
    for i in range(len(values)):
        found += weights[i] * values[i]
    return found


@inline
def mean_and_spread(table):
    """The mean and the standard deviation of numbers [n, m]."""
    found, squares = 0.0, 0.0
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            found += table[i, j]
    found /= table.size
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            squares += (table[i, j] - found) * (table[i, j] - found)
    return found, (squares / table.size) ** 0.5
