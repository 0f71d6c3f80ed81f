"""Many machines, one policy a round: in this process, in processes, on a Ray cluster."""

from lowswitch.machines import (
    FLEETS,
    ConcurrentRun,
    FleetError,
    Gymnasium,
    InProcess,
    MbieRun,
    PlayError,
    Processes,
    Ray,
    Stop,
    System,
    load,
    mbie,
    run,
)

__all__ = [
    "FLEETS",
    "ConcurrentRun",
    "FleetError",
    "Gymnasium",
    "InProcess",
    "MbieRun",
    "PlayError",
    "Processes",
    "Ray",
    "Stop",
    "System",
    "load",
    "mbie",
    "run",
]
