"""Verify and export: what an auditor asks of a ledger."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.checks import require_word
from lowswitch.io.storage import replacing
from lowswitch.ledger.errors import BrokenError, StorageError
from lowswitch.ledger.events import Event, canonical
from lowswitch.ledger.responses import Verdict
from lowswitch.ledger.snapshot import is_whole, state_of
from lowswitch.ledger.state import Replay, State
from lowswitch.ledger.terms import Terms
from lowswitch.show.progress import Progress

if TYPE_CHECKING:
    from lowswitch.ledger.reading import Reading


_PIECE = 1000  # events that are read at once for an export


def verify(ledger: Reading, *, progress: bool | None) -> Verdict:
    """Replay everything from the first event on, without any snapshot."""
    total, head = ledger.store.head()
    state: State | None = None
    replay, status = Replay(ledger.events), dict[int, str]()
    reports: dict[int, int] = {}
    try:
        with Progress(max(1, total), unit="events", show=progress, label="verify") as bar:
            for event in _up_to(ledger, total):
                if state is None:
                    state = _first(event)
                else:
                    state.apply(event, replay)
                    if event.kind in ("told", "missing", "amended"):
                        reports[event.payload["number"]] = event.seq
                if event.seq % 1000 == 0:
                    state.learn()
                    bar.update(event.seq)
                status |= state.changed
                state.changed.clear()
        if state is None:
            raise BrokenError(1, "it is not there")
        if state.expected() is not None:
            raise BrokenError(total + 1, "what the events before it led to is missing")
        status |= state.changed
        if state.seq != total:
            raise BrokenError(state.seq + 1, "it is not there")
        unused = _unused_snapshots(ledger)
        _compare(ledger, state, status, reports)
    except (BrokenError, StorageError) as error:
        bad = error.seq if isinstance(error, BrokenError) else (state.seq + 1 if state else 1)
        return Verdict(False, bad - 1, bad, str(error), head)
    return Verdict(
        True, total, None, f"all {total:,} events are whole and lead to this state{unused}", head
    )


def _first(event: Event) -> State:
    if event.kind != "created":
        raise BrokenError(1, "it does not declare a run")
    try:
        return State.of(Terms.from_payload(event.payload["terms"]), event.hash)
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenError(1, f"it does not declare a run ({error})") from error


def _up_to(ledger: Reading, last: int) -> Iterator[Event]:
    """The events as they were when the walk began."""
    for event in ledger.events():
        if event.seq > last:
            return
        yield event


def _unused_snapshots(ledger: Reading) -> str:
    """That another version wrote snapshots which this one cannot read; a damaged one is an error.

    Nothing is lost with either: they only make opening faster.
    """
    unread = list[int]()
    for snapshot in ledger.store.snapshots():
        if not is_whole(snapshot):
            raise BrokenError(
                snapshot.seq, "the snapshot after it is damaged; the events are whole"
            )
        if state_of(snapshot, ledger.terms) is None:
            unread.append(snapshot.seq)
    if not unread:
        return ""
    what = f"the snapshot after event {unread[0]:,} is of another version"
    return f"; {what}, and the events are replayed instead of it"


def _compare(
    ledger: Reading, state: State, status: dict[int, str], reports: dict[int, int]
) -> None:
    """What is stored beside the events is what they lead to, unless somebody has gone on since."""
    if ledger.store.head()[0] != state.seq:
        return
    count = 0
    for ticket in ledger.store.all_tickets():
        count += 1
        wanted = status.get(ticket.number), reports.get(ticket.number)
        if wanted != (ticket.status, ticket.report):
            raise BrokenError(
                ticket.asked,
                f"its ticket {ticket.number} is stored as {ticket.status} (report"
                f" {ticket.report}), and the events say {wanted[0]} (report {wanted[1]})",
            )
    if count != state.issued:
        raise BrokenError(state.seq, f"{count} tickets are stored, and {state.issued} were issued")


# ---- export --------------------------------------------------------------------------------------


def export(ledger: Reading, path: Path, kind: str) -> None:
    """Write the events, whole or not at all."""
    with replacing(path) as file:
        for line in exported(ledger, kind):
            file.write(line.encode())


def exported(ledger: Reading, kind: str) -> Iterator[str]:
    """The events as lines of text, read in pieces, so that a slow reader holds nothing up."""
    require_word("kind", kind, ("jsonl", "csv"))
    total, _ = ledger.store.head()
    if kind == "csv":
        yield _cells(["seq", "time", "actor", "role", "kind", "payload", "previous", "hash"])
    for first in range(1, total + 1, _PIECE):
        piece = list(itertools.islice(ledger.events(first), min(_PIECE, total + 1 - first)))
        for event in piece:
            yield _line(event) if kind == "jsonl" else _row(event)


def _row(event: Event) -> str:
    values = [event.time, event.actor, event.role, event.kind, canonical(event.payload)]
    return _cells([event.seq, *map(harmless, values), event.previous, event.hash])


def _cells(values: list[Any]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(values)
    return line.getvalue()


def _line(event: Event) -> str:
    facts = {
        name: getattr(event, name)
        for name in ("seq", "time", "actor", "role", "kind", "payload", "previous", "hash")
    }
    return json.dumps(facts, ensure_ascii=False, allow_nan=False) + "\n"


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
