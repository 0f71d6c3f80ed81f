"""Many machines, one policy a round: in this process, in processes, on a Ray cluster."""

from lowswitch.machines import (
    FLEETS,
    ConcurrentRun,
    FleetError,
    Gymnasium,
    InProcess,
    PlayError,
    Processes,
    Ray,
    Stop,
    System,
    load,
    run,
)

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
    "run",
]
