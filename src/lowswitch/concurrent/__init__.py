"""Many machines play the same policy in each round: in this process, in processes, or on Ray."""

from __future__ import annotations

from collections.abc import Callable

from lowswitch.concurrent.cluster import Ray
from lowswitch.concurrent.cmbie import mbie
from lowswitch.concurrent.fleets import Fleet, FleetError, InProcess
from lowswitch.concurrent.processes import Processes
from lowswitch.concurrent.results import ConcurrentRun, load
from lowswitch.concurrent.runner import run
from lowswitch.concurrent.sources import Gymnasium, PlayError, System
from lowswitch.runs.stopping import Stop

__all__ = [
    "FLEETS",
    "ConcurrentRun",
    "FleetError",
    "Gymnasium",
    "InProcess",
    "PlayError",
    "Processes",
    "Ray",
    "Stop",
    "System",
    "load",
    "mbie",
    "run",
]

FLEETS: dict[str, Callable[..., Fleet]] = {
    "in-process": InProcess,
    "processes": Processes,
    "ray": Ray,
}
