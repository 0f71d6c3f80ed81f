"""When a row or all rows may change, and how much of a budget is left."""

import math

import numpy as np

from lowswitch.kernels import arrays
from lowswitch.kernels.arrays import NEVER
from lowswitch.kernels.compile import inline, part

is_spent = inline(arrays.is_spent)


@inline
def next_trigger(spec, n):
    """The smallest trigger above n."""
    return n + 1 if n < spec.every_until else later_trigger(spec, n)


@part
def later_trigger(spec, n):
    """The smallest trigger above n, past the counts that are all triggers."""
    low, high = 0, len(spec.later) - 1
    while low < high:
        middle = (low + high) // 2
        if spec.later[middle] > n:
            high = middle
        else:
            low = middle + 1
    return spec.later[low]


@inline
def next_growth(timing, n):
    """The visit count at which all rows may change again, if it was n at the last such time."""
    return max(n + timing.least, np.int64(math.ceil(timing.factor * n)))


@inline
def is_date(spec, tables, k):
    """Whether the end of episode k is the next date of the grid."""
    return spec.timing.grid[tables.clock[0]["batch"]] == k + 1


@inline
def refresh_is_due(spec, tables, triggered, k):
    """Whether all rows may change after episode k; advances the grid."""
    on_grid = is_date(spec, tables, k)
    if on_grid:
        tables.clock[0]["batch"] += 1
    return on_grid or (triggered and spec.timing.factor > 0)


@part
def is_last(spec, tables):
    """Whether the next deployment is the last one that the budget or the grid allows."""
    clock, timing = tables.clock[0], spec.timing
    grid_ends = len(timing.grid) > 1 and timing.grid[clock["batch"]] == NEVER
    return clock["deployments"] + 1 == timing.deployments or grid_ends


@part
def freeze(spec, tables):
    """Allow no more triggers."""
    for i in range(len(tables.cells)):
        tables.cells[i]["due"] = NEVER
    tables.clock[0]["batch"] = len(spec.timing.grid) - 1


@inline
def freeze_if_spent(spec, tables):
    """Keep the policy as it is once the budget is spent."""
    if is_spent(tables.clock[0], spec.timing):
        freeze(spec, tables)
