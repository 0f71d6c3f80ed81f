"""Many machines play one policy a round: in this process, in processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable

from lowswitch.machines.cluster import Ray
from lowswitch.machines.fleets import Fleet, FleetError, InProcess
from lowswitch.machines.mbie import mbie
from lowswitch.machines.processes import Processes
from lowswitch.machines.results import ConcurrentRun, load
from lowswitch.machines.runner import run
from lowswitch.machines.sources import Gymnasium, PlayError, System
from lowswitch.machines.state import Stop

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
