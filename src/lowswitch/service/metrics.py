"""Metrics for a monitor, in the text format of Prometheus, each with a line of help."""

from __future__ import annotations

import bisect
import itertools
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from lowswitch.io.setting import with_commit
from lowswitch.ledger import Status, TicketView
from lowswitch.service.access import ANCHORED, BACKED_UP

if TYPE_CHECKING:
    from lowswitch.service.app import Service

_TICKETS = ("learned", "waiting", "open", "missing", "refused", "frozen_out")
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, object]


class Meter:
    """Counts the requests of a server, by address and status, and their durations."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()  # method, path, status
        self.slow: dict[str, list[int]] = {}  # how many took up to each bound, and longer
        self.seconds: dict[str, float] = {}  # in all, by path
        self.logins = self.failed_logins = 0
        self.outages = 0
        self.is_out = False  # whether the database could not be used when it was last tried
        self.failed_at = 0.0  # when it last could not, by the monotonic clock

    def saw(self, address: tuple[str, str], status: int, seconds: float) -> None:
        """Count a request; address: a method and a path of the table, or "other" for both."""
        self.requests[*address, status] += 1
        _, path = address
        counts = self.slow.setdefault(path, [0] * (len(_BOUNDS) + 1))
        counts[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self.seconds[path] = self.seconds.get(path, 0.0) + seconds


class _Series(NamedTuple):
    """One metric: its meaning, and its values by label."""

    name: str
    kind: str
    help: str
    values: Iterable[tuple[Labels, float]]


def metrics_text(service: Service, found: tuple[Status, list[TicketView]] | None) -> str:
    """All metrics.

    found: the status of the run and its oldest open ticket; None if the ledger does not answer.
    """
    from lowswitch import __version__

    build = {"version": with_commit(__version__), "python": platform.python_version()}
    series = [
        _Series("build_info", "gauge", "The version that runs; always 1.", [(build, 1)]),
        *(() if found is None else _of_run(service, *found)),
        *_of_record(service),
        *_of_access(service),
        *_of_server(service, None if found is None else found[0]),
    ]
    lines = [line for one in series for line in _lines(one)]
    return "\n".join([*lines, *_histogram(service.meter)]) + "\n"


def _of_run(service: Service, status: Status, oldest: list[TicketView]) -> Iterator[_Series]:
    """Metrics that only the ledger can provide."""
    tickets = [({"status": name}, getattr(status, name)) for name in _TICKETS]
    yield _Series("tickets", "gauge", "Tickets by where they are.", tickets)
    age = service.now().timestamp() - _seconds(oldest[0].asked) if oldest else 0.0
    age = max(0.0, age)  # a clock that was set back
    left: list[tuple[Labels, float]] = (
        [] if status.budget_left is None else [({}, status.budget_left)]
    )
    for name, kind, words, value in (
        ("tickets_issued_total", "counter", "Tickets that were ever issued.", status.issued),
        ("events_total", "counter", "Events on record.", status.events),
        ("version", "gauge", "The number of the deployed version.", status.version),
        ("proposal_pending", "gauge", "1 while a proposal waits.", status.pending is not None),
        ("balanced", "gauge", "1 if all tickets are accounted for.", status.balanced),
        ("oldest_open_ticket_seconds", "gauge", "Age of the oldest open ticket; 0: none.", age),
    ):
        yield _Series(name, kind, words, [({}, float(value))])
    yield _Series("budget_left", "gauge", "Proposals that the budget has left.", left)


def _of_record(service: Service) -> Iterator[_Series]:
    """Metrics from memory, available even if the database is not."""
    verdict = service.access.last_verdict()
    when: list[tuple[Labels, float]] = [] if verdict is None else [({}, _seconds(verdict["time"]))]
    whole = -1.0 if verdict is None else float(verdict["whole"])
    says = "1: the last verify found everything whole; 0: not; -1: never."
    yield _Series("verified", "gauge", says, [({}, whole)])
    yield _Series("last_verify_timestamp_seconds", "gauge", "When verify last ended.", when)
    for kind, name, words in (
        (BACKED_UP, "backup", "When a backup was last whole."),
        (ANCHORED, "anchor", "When the head was last signed for somebody."),
    ):
        done = service.access.last_copied(kind)
        at: list[tuple[Labels, float]] = [] if done is None else [({}, _seconds(done))]
        yield _Series(f"last_{name}_timestamp_seconds", "gauge", words, at)
    ended = float(service.journal.ended)
    yield _Series("ended", "gauge", "1 once the run has ended.", [({}, ended)])
    reports = [({"site": name}, _seconds(site.last)) for name, site in service.journal.reported()]
    yield _Series(
        "last_report_timestamp_seconds", "gauge", "When each site last reported.", reports
    )


def _of_access(service: Service) -> Iterator[_Series]:
    now, meter = service.now(), service.meter
    watched = [
        ({"id": token.id, "name": token.name, "role": token.role}, _seconds(token.expires))
        for token in service.access.tokens()
        if token.is_watched(now)
    ]
    says = "When each token expires; not of revoked or rotated ones, nor 30 days after its expiry."
    yield _Series("token_expiry_timestamp_seconds", "gauge", says, watched)
    yield _Series("logins_total", "counter", "Logins to the pages.", [({}, meter.logins)])
    says = "Requests and logins with a token that does not work."
    yield _Series("failed_logins_total", "counter", says, [({}, meter.failed_logins)])


def _of_server(service: Service, status: Status | None) -> Iterator[_Series]:
    """Metrics of the server itself."""
    meter, engine = service.meter, service.engine
    frozen = bool(engine.stopped) or (status or service.journal).frozen
    unrecorded = service.emergency.pending is not None
    requests = [
        ({"method": method, "path": path, "status": status}, count)
        for (method, path, status), count in sorted(meter.requests.items())
    ]
    yield _Series("requests_total", "counter", "Requests by address and answer.", requests)
    for name, kind, words, value in (
        ("frozen", "gauge", "1 while the run is frozen.", frozen),
        ("freeze_unrecorded", "gauge", "1 while a FREEZE is not on record yet.", unrecorded),
        ("outage", "gauge", "1 while the database cannot be used.", meter.is_out),
        ("outages_total", "counter", "How often the database became unusable.", meter.outages),
        (
            "group_commits_total",
            "counter",
            "Transactions that requests shared.",
            engine.transactions,
        ),
        ("requests_waiting", "gauge", "Requests that wait for the ledger.", engine.waiting),
        ("busy_seconds", "gauge", "How long the ledger has been at its work.", engine.busy_seconds),
        ("log_lines_dropped_total", "counter", "Log lines not written.", service.log.dropped),
        ("memory_bytes", "gauge", "Memory of the server's process.", memory()),
    ):
        yield _Series(name, kind, words, [({}, float(value))])


def _lines(series: _Series) -> Iterator[str]:
    name = f"lowswitch_{series.name}"
    yield f"# HELP {name} {series.help}"
    yield f"# TYPE {name} {series.kind}"
    for labels, value in series.values:
        yield f"{name}{_labelled(labels)} {_number(value)}"


def _histogram(meter: Meter) -> Iterator[str]:
    """The durations of requests, by address."""
    name = "lowswitch_request_seconds"
    yield f"# HELP {name} How long requests took, by address."
    yield f"# TYPE {name} histogram"
    for path, counts in sorted(meter.slow.items()):
        bounds = [*map(_number, _BOUNDS), "+Inf"]
        for bound, total in zip(bounds, itertools.accumulate(counts), strict=True):
            yield f"{name}_bucket{_labelled({'path': path, 'le': bound})} {total}"
        yield f"{name}_sum{_labelled({'path': path})} {meter.seconds[path]:.6f}"
        yield f"{name}_count{_labelled({'path': path})} {sum(counts)}"


def _labelled(labels: Labels) -> str:
    pairs = (f'{key}="{str(value).translate(_ESCAPED)}"' for key, value in labels.items())
    return f"{{{','.join(pairs)}}}" if labels else ""


def _number(value: float) -> str:
    return re.sub(r"\.0$", "", f"{float(value)}")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def memory() -> int:
    """The memory of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
