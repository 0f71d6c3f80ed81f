"""Put a damaged or lost ledger right, from its own events and from a backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from lowswitch.io.files import owning
from lowswitch.ledger.address import file_of, is_postgres, printable, store_at
from lowswitch.ledger.audit import issued
from lowswitch.ledger.chain import ACCESS, RESTORED, Chain
from lowswitch.ledger.copies import copy
from lowswitch.ledger.errors import (
    BrokenError,
    DamagedError,
    EndedError,
    LedgerError,
    NotALedgerError,
    StorageError,
)
from lowswitch.ledger.events import GENESIS, KINDS, OPERATOR, Event, Kind, read_event, read_time
from lowswitch.ledger.ledger import Ledger
from lowswitch.ledger.responses import Restored
from lowswitch.ledger.store import Store, StoredTicket
from lowswitch.ledger.views import event_of
from lowswitch.ledger.writer import text
from lowswitch.show.text import counted

_GIVE = "give a backup with --backup"
_UNKNOWN = "perhaps others, which nobody can read any more; ask the people who decide"
_MOST_NAME = 17  # characters of a ledger's name in PostgreSQL that fit before the time


@dataclass(frozen=True)
class _Chain:
    """A chain of events of a backup, and what a damaged ledger adds to it."""

    known: int  # how many events the backup has
    more: list[Event]  # events of the damaged ledger that follow them, up to the first bad one
    is_all: bool  # whether the damaged ledger has no others
    time: str  # of the last event

    @property
    def total(self) -> int:
        return self.known + len(self.more)


def restore(address: str | Path, backup: str | Path | None = None, *, by: str) -> Restored:
    """Make a ledger anew in the place of a damaged or lost one, which is kept under another name.

    It begins with the events of the backup. The events of the damaged ledger that follow them come
    next, up to the first bad one; without a backup they are all it has. The record of access
    (and so the tokens) is joined in the same way. Everything else is made anew from the events. If
    events may be lost, the run is paused: whether it was paused, and which version was deployed,
    may be among them.
    """
    text("by", by)
    with owning(None if is_postgres(address) else file_of(address)):
        made = _cleared(address)
        with (
            Ledger.open(backup or address, read_only=True) as source,
            _opened(address) as damaged,
        ):
            if backup is None and source.store.found >= 3:
                Chain(source.store).require_whole(_GIVE)  # the events are looked at when replayed
            if backup is not None:
                _require_backup(source, damaged, backup)
            access = _joined(source.store, damaged, ACCESS)
            events, tickets = _led_to(source, _joined(source.store, damaged, "events"))
            lost, decisions = _lost(events, damaged)
            copy(source.store, made, lambda: tickets)
        try:
            paused = _complete(made, events, access, lost, by)
            with Ledger.open(made, read_only=True) as ledger:
                verdict = ledger.verify(progress=False)
            if not verdict.whole:
                raise DamagedError(f"what can be restored is incomplete: {verdict.what}")
        except BaseException:
            _remove(made)
            raise
        kept = _beside(address, f"damaged_{datetime.now(UTC):%Y%m%d%H%M%S}")
        is_kept = store_at(made).take_place(address, kept)
    return Restored(
        whole=True,
        verdict=verdict.what,
        head=verdict.head,
        recovered=len(events.more),
        lost=lost or "nothing",
        decisions_lost=decisions,
        tokens="as they were" if access.is_all else _tokens(access),
        paused=paused,
        damaged=printable(kept) if is_kept else None,
    )


# ---- what is there -------------------------------------------------------------------------------


@contextmanager
def _opened(address: str | Path) -> Iterator[Store | None]:
    """The database of a damaged ledger, if it can be opened."""
    try:
        store = store_at(address, read_only=True)
    except (NotALedgerError, StorageError):
        yield None
        return
    with closing(store):
        yield store


def _require_backup(source: Ledger, damaged: Store | None, backup: str | Path) -> None:
    """A backup is whole, and of the same run."""
    verdict = source.verify(progress=False)
    if not verdict.whole:
        raise DamagedError(f"the backup {printable(backup)!r} is damaged: {verdict.what}")
    first = None
    with suppress(BrokenError, StorageError):  # then nobody can say whose events these were
        first = None if damaged is None else read_event(*damaged.event(1), 1, GENESIS)
    if first is not None and first.hash != source.store.event(1)[2]:
        raise LedgerError(f"{printable(backup)!r} is a backup of another run")


def _joined(source: Store, damaged: Store | None, table: str) -> _Chain:
    """A chain of a backup, and the events that follow it in a damaged ledger."""
    has_access = table != ACCESS or source.found >= 3
    known, head = source.head(table) if has_access else (0, "")
    more, is_all = list[Event](), False
    if damaged is not None:
        with suppress(BrokenError, StorageError):
            for event in Chain(damaged, table).events(known + 1, head or GENESIS):
                more.append(event)
            is_all = damaged.head(table)[0] == known + len(more)
    rows = source.execute(f"SELECT body FROM {table} WHERE seq = ?", known) if known else []
    time = more[-1].time if more else read_time(rows[0][0]) if rows else ""
    return _Chain(known, more, is_all, time)


def _led_to(source: Ledger, events: _Chain) -> tuple[_Chain, list[StoredTicket]]:
    """The events up to the last one that needs no other after it, and the tickets they issued.

    A bad event may have stood between a report and the proposal that it led to.
    """

    def read(first: int) -> Iterator[Event]:
        return chain(source.events(first), (one for one in events.more if one.seq >= first))

    try:
        return events, issued(read, events.total)
    except BrokenError as error:
        if error.seq <= events.total or not events.more:
            raise DamagedError(f"{error}; {_GIVE}") from error
    time = events.more[-2].time if len(events.more) > 1 else events.time
    return _led_to(source, replace(events, more=events.more[:-1], is_all=False, time=time))


def _lost(events: _Chain, damaged: Store | None) -> tuple[str, list[str]]:
    """Which events are lost, in words, and the decisions among them that can still be read."""
    if events.is_all:
        return "", []
    after = f"after event {events.total:,} of {events.time[:16]} UTC"
    decisions, head, all_read = list[str](), 0, True
    try:
        if damaged is not None:
            head = damaged.head()[0]
            for row in damaged.read(events.total + 1):
                try:
                    decisions += _decision(event_of(*row))
                except (TypeError, ValueError):
                    all_read = False
    except LedgerError:
        all_read = False
    count = head - events.total
    if not all_read or count <= 0:
        decisions.append(_UNKNOWN)
    return (f"{counted(count, 'event')} {after}" if count > 0 else f"everything {after}"), decisions


def _decision(event: Event) -> list[str]:
    """A decision of people in words, or nothing if it is another event."""
    kind = KINDS.get(event.kind, Kind())
    reason = event.payload.get("reason", "")
    return [f"{event.time[:16]} {event.actor} {kind.verb}: {reason}"] if kind.is_decision else []


def _tokens(access: _Chain) -> str:
    return f"as of {access.time[:16]} UTC; create, rotate and revoke again what changed since"


# ---- what is made --------------------------------------------------------------------------------


def _beside(address: str | Path, end: str) -> str:
    """The address of a ledger beside another one."""
    if not is_postgres(address):
        return f"{file_of(address)}.{end}"
    database, _, name = str(address).partition("#")
    return f"{database}#{(name or 'ledger')[:_MOST_NAME]}_{end}"


def _cleared(address: str | Path) -> str:
    """Where the ledger is made; what a restore that was interrupted left there is removed."""
    made = _beside(address, "restored")
    if not is_postgres(address) and Path(made).exists() and not file_of(address).exists():
        raise LedgerError(
            f"a restore was interrupted when it was nearly done; rename {made!r} to"
            f" {str(address)!r}, and verify it"
        )
    with suppress(NotALedgerError):
        _remove(made)
    return made


def _remove(address: str) -> None:
    with closing(store_at(address)) as left:
        left.remove()


def _complete(address: str, events: _Chain, access: _Chain, lost: str, by: str) -> bool:
    """Add the events that the backup lacks; whether the run is paused then."""
    with closing(store_at(address)) as store, store.transaction():
        store.append(events.more)
        store.append(access.more, ACCESS)
        facts = {"events": events.total, "from_backup": events.known, "lost": lost}
        Chain(store).record(by, OPERATOR, RESTORED, facts)
    with Ledger.open(address) as ledger:
        if lost and not ledger.status().frozen:
            with suppress(EndedError):
                ledger.freeze(by=by, reason=f"restored from a backup; lost: {lost}")
        return ledger.status().frozen
