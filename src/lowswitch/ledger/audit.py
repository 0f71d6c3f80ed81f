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
from lowswitch.ledger.events import KINDS, Event, canonical
from lowswitch.ledger.responses import Verdict
from lowswitch.ledger.snapshot import compared, is_whole, state_of
from lowswitch.ledger.state import Replay, State
from lowswitch.ledger.store import Snapshot, StoredTicket
from lowswitch.ledger.terms import read_terms
from lowswitch.show.progress import Progress

if TYPE_CHECKING:
    from lowswitch.ledger.reading import Reading


# how cells begin that spreadsheets run, also in the wide characters of East Asian keyboards
_RUNS = (*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_PIECE = 1000  # events that are read at once for an export


def verify(ledger: Reading, *, progress: bool | None) -> Verdict:
    """Replay everything from the first event on, and compare with it all else that is stored."""
    walk, (total, head) = _Walk(ledger), ledger.store.head()
    try:
        snapshots = ledger.store.snapshots()
        total, head = ledger.store.head()  # again, so that no snapshot is ahead of it
        bound = {snapshot.seq: ledger.is_bound(snapshot) for snapshot in snapshots}
        with Progress(max(1, total), unit="events", show=progress, label="verify") as bar:
            for event in _up_to(ledger, total):
                walk.take(event, bound)
                if event.seq % 1000 == 0:
                    bar.update(event.seq)
        walk.end(total)
        unused = _compare_snapshots(ledger, snapshots, walk)
        _compare_tickets(ledger, walk)
    except (BrokenError, StorageError) as error:
        bad = error.seq if isinstance(error, BrokenError) else walk.seq + 1
        return Verdict(False, bad - 1, bad, str(error), head)
    return Verdict(
        True, total, None, f"all {total:,} events are whole and lead to this state{unused}", head
    )


class _Walk:
    """A replay, and what it says of everything that is stored beside the events."""

    def __init__(self, ledger: Reading) -> None:
        self.replay = Replay(ledger.events)
        self.state: State | None = None
        self.issued: list[tuple[Any, ...]] = []  # ticket, site, request, version, event; by number
        self.status: dict[int, str] = {}
        self.reports: dict[int, int] = {}
        self.snapshots: dict[int, str] = {}  # the hash of the state after an event

    @property
    def seq(self) -> int:
        """The last event that was taken in."""
        return 0 if self.state is None else self.state.seq

    def take(self, event: Event, bound: dict[int, bool]) -> None:
        """Take in the next event; bound: which events have a snapshot, and whether it is bound."""
        if self.state is None:
            self.state = _first(event)
        else:
            self.state.apply(event, self.replay)
            self._note(event)
        if event.seq % 1000 == 0:
            self.state.learn()
        if event.seq in bound:
            self.snapshots[event.seq] = compared(self.state, bound=bound[event.seq])
        self.status |= self.state.changed
        self.state.changed.clear()

    def _note(self, event: Event) -> None:
        payload = event.payload
        if event.kind == "asked":
            names = ("ticket", "site", "request", "version")
            self.issued.append((*map(payload.get, names), event.seq))
        elif KINDS[event.kind].has_report:
            self.reports[payload["number"]] = event.seq

    def end(self, total: int) -> None:
        """Say what is missing after the last of so many events."""
        if self.state is None:
            raise BrokenError(1, "it is not there")
        if self.state.expected() is not None:
            raise BrokenError(total + 1, "what the events before it led to is missing")
        self.status |= self.state.changed
        if self.state.seq != total:
            raise BrokenError(self.state.seq + 1, "it is not there")

    def ticket(self, number: int) -> StoredTicket:
        """A ticket as it must be stored."""
        ticket, site, request, version, asked = self.issued[number - 1]
        status, report = self.status[number], self.reports.get(number)
        return StoredTicket(number, ticket, site, request, version, status, asked, report)


def _first(event: Event) -> State:
    if event.kind != "created":
        raise BrokenError(1, "it does not declare a run")
    try:
        return State.of(read_terms(event.payload["terms"]), event.hash)
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenError(1, f"it does not declare a run ({error})") from error


def _up_to(ledger: Reading, last: int) -> Iterator[Event]:
    """The events as they were when the walk began."""
    for event in ledger.events():
        if event.seq > last:
            return
        yield event


# ---- what is stored beside the events ------------------------------------------------------------


def _compare_snapshots(ledger: Reading, snapshots: list[Snapshot], walk: _Walk) -> str:
    """Each snapshot holds the state that the events lead to; say which ones are not used.

    That is no error: another version wrote them, or one that did not bind them to the chain.
    """
    unused = ""
    for snapshot in snapshots:
        if snapshot.seq not in walk.snapshots:
            raise BrokenError(
                walk.seq, f"a snapshot is stored for event {snapshot.seq!r}, which does not exist"
            )
        if not is_whole(snapshot):
            raise BrokenError(
                snapshot.seq, "the snapshot after it is damaged; the events are whole"
            )
        bound = ledger.is_bound(snapshot)
        found = _read_again(ledger, snapshot, bound)
        if found not in (None, walk.snapshots[snapshot.seq]):
            opening = "uses it" if bound else "replays them"
            raise BrokenError(
                snapshot.seq,
                "the snapshot after it differs from the state that the events lead to; the events"
                f" are whole, and opening the ledger {opening}",
            )
        if found is None or not bound:
            why = "is of another version" if found is None else "is not bound to the chain"
            what = f"the snapshot after event {snapshot.seq:,} {why}"
            unused = unused or f"; {what}, and the events are replayed instead of it"
    return unused


def _read_again(ledger: Reading, snapshot: Snapshot, bound: bool) -> str | None:
    """What a snapshot is compared by, or None if this version cannot read it."""
    state = state_of(snapshot, ledger.terms)
    try:
        return None if state is None else compared(state, bound=bound)
    except Exception:  # The facts of an unbound snapshot may be anything.
        return None


def _compare_tickets(ledger: Reading, walk: _Walk) -> None:
    """Every column of every ticket is what the events say.

    What can change, which is the status, the report and new rows, is compared unless somebody has
    gone on since.
    """
    number, changed = 0, None
    for stored in ledger.store.all_tickets():
        if not (isinstance(stored.number, int) and 1 <= stored.number <= len(walk.issued)):
            name = f"ticket {stored.number!r} ({stored.ticket!r})"
            what = f"the table of tickets has {name}, which no event issued"
            changed = changed or BrokenError(walk.seq, what)
            continue
        number += 1
        wanted = walk.ticket(number)
        if stored.number != number:
            raise _not_stored(wanted)
        for column, found, said in zip(StoredTicket._fields, stored, wanted, strict=True):
            if found != said:
                what = f"ticket {number} ({wanted.ticket!r}) is stored with the {column} {found!r}"
                error = BrokenError(wanted.asked, f"{what}, but the events say {said!r}")
                if column not in ("status", "report"):
                    raise error
                changed = changed or error
    if number < len(walk.issued):
        raise _not_stored(walk.ticket(number + 1))
    if changed and ledger.store.head()[0] == walk.seq:
        raise changed


def _not_stored(ticket: StoredTicket) -> BrokenError:
    name = f"ticket {ticket.number} ({ticket.ticket!r})"
    return BrokenError(ticket.asked, f"{name} is missing from the table of tickets")


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
    return f"'{text}" if text.startswith(_RUNS) else text
