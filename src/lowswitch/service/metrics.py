"""Counts in the text form of Prometheus."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lowswitch.ledger import Status

if TYPE_CHECKING:
    from lowswitch.service.app import Service

_TICKETS = ("learned", "waiting", "open", "missing", "refused", "frozen_out")


def metrics_text(service: Service, status: Status) -> str:
    """What a monitor should know."""
    verdict = service.access.last_verdict()
    lines = [
        "# TYPE lowswitch_tickets gauge",
        *(f'lowswitch_tickets{{status="{name}"}} {getattr(status, name)}' for name in _TICKETS),
    ]
    for name, kind, value in (
        ("lowswitch_tickets_issued_total", "counter", status.issued),
        ("lowswitch_events_total", "counter", status.events),
        ("lowswitch_version", "gauge", status.version),
        ("lowswitch_proposal_pending", "gauge", int(status.pending is not None)),
        ("lowswitch_frozen", "gauge", int(status.frozen)),
        ("lowswitch_balanced", "gauge", int(status.balanced)),
        ("lowswitch_verified", "gauge", -1 if verdict is None else int(verdict["whole"])),
        ("lowswitch_group_commits_total", "counter", service.engine.transactions),
        ("lowswitch_requests_waiting", "gauge", service.engine.waiting),
        ("lowswitch_memory_bytes", "gauge", memory()),
    ):
        lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
    return "\n".join(lines) + "\n"


def memory() -> int:
    """The memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
