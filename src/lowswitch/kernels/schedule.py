"""When a row or all rows may change, and what is left of a budget."""

import math

import numpy as np

from lowswitch.kernels.arrays import NEVER
from lowswitch.kernels.compile import entry, inline


@entry
def next_trigger(spec, n):
    """The smallest trigger above n."""
    if n < spec.every_until:
        return n + 1
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
    """The visit count at which all rows may change again, if it was n when they last might."""
    return max(n + timing.least, np.int64(math.ceil(timing.factor * n)))


@inline
def refresh_is_due(timing, clock, triggered, k):
    """Whether all rows may change after episode k; moves the grid on."""
    now = clock[0]
    on_grid = timing.grid[now["batch"]] == k + 1
    if on_grid:
        now["batch"] += 1
    return on_grid or (triggered and timing.factor > 0)


@entry
def is_last(timing, clock):
    """Whether the next deployment is the last one that the budget or the grid allow."""
    at_the_end_of_the_grid = len(timing.grid) > 1 and timing.grid[clock[0]["batch"]] == NEVER
    return clock[0]["deployments"] + 1 == timing.deployments or at_the_end_of_the_grid


@inline
def budget_is_left(timing, clock):
    """Whether the policy may still change."""
    now = clock[0]
    return now["deployments"] < timing.deployments and now["switches"] < timing.switches


@entry
def freeze(timing, cells, clock):
    """The budget is spent: there is no trigger any more."""
    for i in range(len(cells)):
        cells[i]["due"] = NEVER
    clock[0]["batch"] = len(timing.grid) - 1


@entry
def spend_switch(timing, cells, clock):
    """Count a local switch; the last of a budget freezes the policy at once."""
    clock[0]["switches"] += 1
    if clock[0]["switches"] == timing.switches:
        freeze(timing, cells, clock)


@entry
def spend_deployment(timing, cells, clock):
    """Count a deployment; the last of a budget freezes the policy."""
    clock[0]["deployments"] += 1
    if clock[0]["deployments"] == timing.deployments:
        freeze(timing, cells, clock)
