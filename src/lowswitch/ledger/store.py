"""Where a ledger lives: a few methods, the same for every database.

Events are only ever appended. Everything else here follows from them: the tickets, so that one can
be found without a replay, and snapshots of the state, so that opening takes seconds.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from lowswitch.ledger.events import Event

SCHEMA = (
    "CREATE TABLE events (seq BIGINT PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE tickets (number BIGINT PRIMARY KEY, ticket TEXT NOT NULL UNIQUE,"
    " site TEXT NOT NULL, request TEXT NOT NULL, version BIGINT NOT NULL, status TEXT NOT NULL,"
    " asked BIGINT NOT NULL, report BIGINT, UNIQUE (site, request))",
    "CREATE INDEX tickets_not_learned ON tickets (status, number) WHERE status <> 'learned'",
    "CREATE TABLE snapshots (seq BIGINT PRIMARY KEY, hash TEXT NOT NULL, facts TEXT NOT NULL,"
    " learner {bytes} NOT NULL, tally {bytes} NOT NULL)",
)
_LIKE = re.compile(r"([%_~])")  # what LIKE takes for more than itself
_AT_ONCE = 500  # names in one query
_TICKET = "number, ticket, site, request, version, status, asked, report"


class StoredTicket(NamedTuple):
    """A ticket as it is stored."""

    number: int
    ticket: str
    site: str
    request: str
    version: int
    status: str
    asked: int  # the event that issued it
    report: int | None  # the event with its report, or that declared it missing


class Snapshot(NamedTuple):
    """The state after an event, and a hash of all that."""

    seq: int
    hash: str
    facts: str
    learner: bytes
    tally: bytes


class Store(ABC):
    """A database that holds one ledger."""

    # ---- what each database gives ----------------------------------------------------------------

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing, with no other writer meanwhile; on the disk when it is left."""

    @abstractmethod
    def create_tables(self) -> None:
        """Make the tables, inside of the first transaction."""

    @abstractmethod
    def set_format(self) -> None:
        """Say that the events are of the present format, so that an older version refuses them."""

    @abstractmethod
    def execute(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement with ? for values; return its rows."""

    @abstractmethod
    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each of the rows."""

    def together(self) -> AbstractContextManager[object]:
        """Send the statements inside at once, where that is faster; none of them gives rows."""
        return nullcontext()

    @abstractmethod
    def stream(self, sql: str, *values: Any) -> Iterator[Any]:
        """Run one query, and hand its rows out one by one."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy everything into a file while the ledger runs."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    # ---- events ----------------------------------------------------------------------------------

    def append(self, events: Iterable[Event]) -> None:
        """Write the next events."""
        rows = [(event.seq, event.body, event.hash) for event in events]
        self.execute_many("INSERT INTO events (seq, body, hash) VALUES (?, ?, ?)", rows)

    def head(self) -> tuple[int, str]:
        """The number and the hash of the last event; (0, "") if there is none."""
        rows = self.execute("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
        return (rows[0][0], rows[0][1]) if rows else (0, "")

    def read(self, first: int) -> Iterator[tuple[int, str, str]]:
        """The numbers, texts and hashes of the events from a number on."""
        yield from self.stream(
            "SELECT seq, body, hash FROM events WHERE seq >= ? ORDER BY seq", first
        )

    def event(self, seq: int) -> tuple[int, str, str]:
        """One event."""
        number, body, stored = self.execute(
            "SELECT seq, body, hash FROM events WHERE seq = ?", seq
        )[0]
        return number, body, stored

    def newest(
        self, count: int, before: int | None, parts: Sequence[str]
    ) -> list[tuple[int, str, str]]:
        """So many events whose texts contain all of these parts, the newest first."""
        where, values = "WHERE 1 = 1", list[Any]()
        if before is not None:
            where, values = "WHERE seq < ?", [before]
        for part in parts:
            where += " AND body LIKE ? ESCAPE '~'"
            quoted = _LIKE.sub(r"~\1", part)
            values.append(f"%{quoted}%")
        return self.execute(
            f"SELECT seq, body, hash FROM events {where} ORDER BY seq DESC LIMIT ?", *values, count
        )

    # ---- tickets ---------------------------------------------------------------------------------

    def add_tickets(self, tickets: Sequence[StoredTicket]) -> None:
        """Write new tickets."""
        marks = ", ".join("?" * len(StoredTicket._fields))
        self.execute_many(f"INSERT INTO tickets ({_TICKET}) VALUES ({marks})", tickets)

    def set_tickets(self, rows: Sequence[tuple[str, int | None, int]]) -> None:
        """Write the status, the event of the report (None: as before) and the number of each."""
        self.execute_many(
            "UPDATE tickets SET status = ?, report = COALESCE(?, report) WHERE number = ?", rows
        )

    def tickets_named(self, names: Sequence[str]) -> Iterator[StoredTicket]:
        """The tickets of these names, as far as there are such."""
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT {_TICKET} FROM tickets WHERE ticket IN ({marks})"
            yield from (StoredTicket(*row) for row in self.execute(sql, *some))

    def request(self, site: str, request: str) -> StoredTicket | None:
        """The ticket that a site got for a request."""
        sql = f"SELECT {_TICKET} FROM tickets WHERE site = ? AND request = ?"
        rows = self.execute(sql, site, request)
        return StoredTicket(*rows[0]) if rows else None

    def ticket_numbered(self, number: int) -> StoredTicket:
        """A ticket that was issued, by its number."""
        sql = f"SELECT {_TICKET} FROM tickets WHERE number = ?"
        return StoredTicket(*self.execute(sql, number)[0])

    def tickets(
        self, status: str, *, site: str | None = None, most: int | None = None
    ) -> Iterator[StoredTicket]:
        """The first tickets of a status, and of a site, in their order; by default all."""
        sql, values = f"SELECT {_TICKET} FROM tickets WHERE status = ?", list[Any]([status])
        if site is not None:
            sql, values = f"{sql} AND site = ?", [*values, site]
        sql += " ORDER BY number"
        if most is not None:
            sql, values = f"{sql} LIMIT ?", [*values, most]
        yield from (StoredTicket(*row) for row in self.stream(sql, *values))

    def all_tickets(self) -> Iterator[StoredTicket]:
        yield from map(
            StoredTicket._make, self.stream(f"SELECT {_TICKET} FROM tickets ORDER BY number")
        )

    def counts(self) -> dict[str, int]:
        """How many tickets there are of each status."""
        rows = self.execute("SELECT status, COUNT(*) FROM tickets GROUP BY status")
        return {status: int(count) for status, count in rows}

    # ---- snapshots -------------------------------------------------------------------------------

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and the one before it, but none of events that are not there."""
        self.execute(
            "DELETE FROM snapshots WHERE seq = ? OR seq > (SELECT MAX(seq) FROM events)",
            snapshot.seq,
        )
        self.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", *snapshot)
        self.execute(
            "DELETE FROM snapshots WHERE seq NOT IN"
            " (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2)"
        )

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, the newest first."""
        rows = self.execute(
            "SELECT seq, hash, facts, learner, tally FROM snapshots ORDER BY seq DESC"
        )
        return [Snapshot(*row) for row in rows]
