"""The storage of a ledger: a few methods, the same for every database.

Events are only appended. Everything else follows from them: tickets, so that one can be found
without a replay, and snapshots of the state, so that opening takes seconds.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from lowswitch.ledger.errors import BrokenError, NotALedgerError, StorageError
from lowswitch.ledger.events import FORMAT, KINDS, OF_TICKETS, Event

SCHEMA = (
    "CREATE TABLE events (seq BIGINT PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE tickets (number BIGINT PRIMARY KEY, ticket TEXT NOT NULL UNIQUE,"
    " site TEXT NOT NULL, request TEXT NOT NULL, version BIGINT NOT NULL, status TEXT NOT NULL,"
    " asked BIGINT NOT NULL, report BIGINT, UNIQUE (site, request))",
    "CREATE INDEX tickets_not_learned ON tickets (status, number) WHERE status <> 'learned'",
    "CREATE TABLE snapshots (seq BIGINT PRIMARY KEY, hash TEXT NOT NULL, facts TEXT NOT NULL,"
    " learner {bytes} NOT NULL, tally {bytes} NOT NULL)",
)
DERIVED = ("tickets", "snapshots")  # tables that follow from the events
COMPANIONS = ("-wal", "-shm", "-journal")  # of a file that SQLite has open
UPGRADES = {  # what a format adds to the one before it; 2 is `add_kinds`
    3: (
        "CREATE TABLE access_events (seq BIGINT PRIMARY KEY, body TEXT NOT NULL,"
        " hash TEXT NOT NULL)",
        "CREATE TABLE token_uses (id TEXT PRIMARY KEY, used TEXT NOT NULL)",
        "CREATE INDEX tickets_open_by_site ON tickets (site) WHERE status = 'open'",
    ),
}
_EVENT = "seq, body, hash, kind"
_LIKE = re.compile(r"([%_~])")  # what LIKE takes for more than itself
_AT_ONCE = 500  # names in one query
_MOST_DIGITS = 15  # of the number of a ticket
_BEGIN = 6  # characters of a ticket by which it is found
_TICKET = "number, ticket, site, request, version, status, asked, report"


Row = tuple[int, str, str, str]  # an event: its number, text, hash and kind


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

    kind_in_body: str  # the kind of an event, from its text, in SQL
    column: str  # how the database computes a column of a table that exists
    bytes: str  # its type for them
    found = FORMAT  # the format that it has
    events = "events"  # the table, or what stands in its place
    seen = 0, ""  # the last event that this process saw on record

    # ---- what each database gives ----------------------------------------------------------------

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing, without another writer meanwhile; on the disk at the end."""

    @abstractmethod
    def format(self) -> int:
        """The format of the stored data."""

    @abstractmethod
    def set_format(self) -> None:
        """Mark the data as having the present format, so that older versions refuse it."""

    @abstractmethod
    def execute(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement with ? for values; return its rows."""

    @abstractmethod
    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each of the rows."""

    def together(self) -> AbstractContextManager[object]:
        """Send the statements inside at once, if that is faster; none of them may return rows."""
        return nullcontext()

    @abstractmethod
    def stream(self, sql: str, *values: Any) -> Generator[Any, None, None]:
        """Run one query, and hand its rows out one by one."""

    @abstractmethod
    def oddities(self) -> list[str]:
        """Faults in the database itself, by its own check and by its schema."""

    @abstractmethod
    def unchanging(self) -> AbstractContextManager[None]:
        """Read everything as of one moment, whatever others write meanwhile."""

    @abstractmethod
    def remove(self) -> None:
        """Remove an unfinished ledger."""

    @abstractmethod
    def take_place(self, address: str | Path, kept: str) -> bool:
        """Close, and move to an address; what is there moves to `kept`. Whether there was any."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy everything into a file while the ledger runs."""

    @abstractmethod
    def close(self) -> None:
        """Close the database."""

    # ---- formats ---------------------------------------------------------------------------------

    def adopt(self, name: str, *, read_only: bool) -> None:
        """Refuse a newer format; upgrade an older one, or read it as if it were upgraded."""
        found = self.found = self.format()
        if found > FORMAT:
            raise NotALedgerError(
                f"{name} has format {found}, and this version of lowswitch reads {FORMAT}; use the"
                " version that wrote it, or a newer one"
            )
        if found < 2 and read_only:
            kind = f"{self.kind_in_body} AS kind"
            self.events = f"(SELECT seq, body, hash, {kind} FROM events) AS events"
        elif found < FORMAT and not read_only:
            with self.transaction():
                self.upgrade(self.format())  # unless somebody else was faster
            self.found = FORMAT

    def in_use(self) -> bool:
        """Whether this is a live ledger of this format, rather than a copy to keep."""
        return self.found == FORMAT

    def finish(self) -> None:
        """Leave a copy in its final form, and close it."""
        self.close()

    def write_nothing(self) -> None:
        """Commit a write that changes nothing, or raise the error of a database that takes none."""
        with self.transaction():
            self.set_format()

    def create_tables(self, up_to: int = FORMAT) -> None:
        """Create the tables of a format, inside a transaction."""
        for statement in SCHEMA:
            self.execute(statement.format(bytes=self.bytes))
        self.upgrade(1, up_to)

    def upgrade(self, found: int, up_to: int = FORMAT) -> None:
        """Upgrade the tables from one format to a later one, inside a transaction."""
        for step in range(found + 1, up_to + 1):
            if step == 2:
                self.add_kinds()
            for statement in UPGRADES.get(step, ()):
                self.execute(statement.format(bytes=self.bytes))
        if found < up_to:
            self.set_format()

    def add_kinds(self) -> None:
        """Let the database find events by their kind."""
        how = f"GENERATED ALWAYS AS ({self.kind_in_body}) {self.column}"
        self.execute(f"ALTER TABLE events ADD COLUMN kind TEXT {how}")
        self.execute("CREATE INDEX events_kind ON events (kind, seq)")

    # ---- events ----------------------------------------------------------------------------------

    def append(self, events: Iterable[Event], table: str = "events") -> None:
        """Write the next events."""
        rows = [(event.seq, event.body, event.hash) for event in events]
        self.execute_many(f"INSERT INTO {table} (seq, body, hash) VALUES (?, ?, ?)", rows)

    def head(self, table: str = "events") -> tuple[int, str]:
        """The number and the hash of the last event; (0, "") before the first event."""
        rows = self.execute(f"SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1")
        if not rows:
            return 0, ""
        seq, stored = rows[0]
        if not isinstance(seq, int):  # SQLite takes anything in any column
            raise BrokenError(1, f"an event is stored under {seq!r}, which is not a number")
        return seq, stored

    def grown_head(self) -> tuple[int, str]:
        """The number and the hash of the last event, after a check that nothing was taken back.

        Events are only ever added. So if an event that was seen is gone, somebody has put back an
        older state of the database, and nobody should build on it unawares.
        """
        number, stored = self.seen  # first: another thread may see more meanwhile
        last = self.head()
        if number and last != (number, stored):
            there = self.event(number)[2] if number < last[0] else ""
            if there != stored:
                raise StorageError(
                    f"this record was replaced by an older or different one: it has {last[0]:,}"
                    f" events, and event {number:,} is gone. Nothing was saved. Stop all servers,"
                    " and put the newer record back; if it is lost, find out what it contained"
                    " before you start them again"
                )
        self.seen = last
        return last

    def beside(self, table: str = "events") -> int:
        """How many rows of events have no number that an event can have: 0, NULL or less."""
        return int(self.execute(f"SELECT COUNT(*) - COALESCE(MAX(seq), 0) FROM {table}")[0][0])

    def read(self, first: int) -> Iterator[Row]:
        """The events from a number on."""
        yield from self.stream(
            f"SELECT {_EVENT} FROM {self.events} WHERE seq >= ? ORDER BY seq", first
        )

    def event(self, seq: int) -> Row:
        """One event."""
        rows: list[Row] = self.execute(f"SELECT {_EVENT} FROM {self.events} WHERE seq = ?", seq)
        if not rows:
            raise BrokenError(seq, "it is not there")
        return rows[0]

    def newest(
        self,
        count: int,
        *,
        before: int | None = None,
        kind: str | None = None,
        part: str = "",
        numbers: Sequence[int] = (),
        version: int = 0,
    ) -> list[Row]:
        """Some events, the newest first: those before a number, of a kind, with a part of text.

        numbers: of tickets, whose events have the part of text, too. version: the same, of a
        version that events propose, make or put back; 0 for none.
        """
        quoted = _LIKE.sub(r"~\1", part)
        kinds = ", ".join(f"'{one}'" for one in OF_TICKETS)
        parts = ["body LIKE ? ESCAPE '~'", *[f"kind IN ({kinds}) AND body LIKE ?"] * len(numbers)]
        concerned = _about_version(version) if version else []
        parts += [test for test, _ in concerned]
        asked: dict[str, list[Any] | None] = {
            "seq > ?": [0],
            "seq < ?": None if before is None else [before],
            "kind = ?": None if kind is None else [kind],
            f"({' OR '.join(parts)})": [
                f"%{quoted}%",
                *map(_about, numbers),
                *[pattern for _, pattern in concerned],
            ]
            if part
            else None,
        }
        given = {test: values for test, values in asked.items() if values}
        return self.execute(
            f"SELECT {_EVENT} FROM {self.events} WHERE {' AND '.join(given)}"
            " ORDER BY seq DESC LIMIT ?",
            *[value for some in given.values() for value in some],
            count,
        )

    def has_after(self, seq: int, others: Sequence[str]) -> bool:
        """Whether an event after a number is of none of these other kinds."""
        marks = ", ".join("?" * len(others))
        sql = f"SELECT 1 FROM {self.events} WHERE seq > ? AND kind NOT IN ({marks}) LIMIT 1"
        return bool(self.execute(sql, seq, *others))

    def of_kind(self, kind: str, before: int) -> list[Row]:
        """All events of a kind before a number."""
        sql = f"SELECT {_EVENT} FROM {self.events} WHERE kind = ? AND seq > 0 AND seq < ?"
        return self.execute(f"{sql} ORDER BY seq", kind, before)

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
        """The tickets with these names, if they exist."""
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT {_TICKET} FROM tickets WHERE ticket IN ({marks})"
            yield from map(StoredTicket._make, self.execute(sql, *some))

    def request(self, site: str, request: str) -> StoredTicket | None:
        """The ticket that a site got for a request."""
        sql = f"SELECT {_TICKET} FROM tickets WHERE site = ? AND request = ?"
        rows = self.execute(sql, site, request)
        return StoredTicket(*rows[0]) if rows else None

    def tickets_numbered(self, numbers: Sequence[int]) -> list[StoredTicket]:
        """The tickets with these numbers, if they exist."""
        found = list[StoredTicket]()
        for first in range(0, len(numbers), _AT_ONCE):
            some = numbers[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT {_TICKET} FROM tickets WHERE number IN ({marks})"
            found += [StoredTicket(*row) for row in self.execute(sql, *some)]
        return found

    def ticket_numbered(self, number: int) -> StoredTicket:
        """A ticket that was issued, by its number."""
        rows = self.execute(f"SELECT {_TICKET} FROM tickets WHERE number = ?", number)
        if not rows:
            raise StorageError(f"ticket {number} is missing from its table; verify says more")
        return StoredTicket(*rows[0])

    def tickets(
        self,
        status: str | None,
        *,
        site: str | None = None,
        most: int | None = None,
        after: int = 0,
        part: str = "",
    ) -> Iterator[StoredTicket]:
        """The first tickets with a status and of a site, in order; by default all.

        status: None for every status. after: only tickets with a larger number. part: only tickets
        whose request contains it, which begin with it, or whose number it is, such as 1,153. A
        beginning has at least six characters.
        """
        asked: dict[str, list[Any] | None] = {
            "number > ?": [after],
            "status = ?": None if status is None else [status],
            "site = ?": None if site is None else [site],
        }
        quoted = _LIKE.sub(r"~\1", part.lower())
        begins = quoted if len(part) >= _BEGIN else "-"  # a short number is no ticket's beginning
        found = "(LOWER(request) LIKE ? ESCAPE '~' OR ticket LIKE ? ESCAPE '~' OR number = ?)"
        digits = part.replace(",", "")
        number = int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0
        asked[found] = [f"%{quoted}%", f"{begins}%", number] if part else None
        given = {test: values for test, values in asked.items() if values}
        sql = f"SELECT {_TICKET} FROM tickets WHERE {' AND '.join(given)} ORDER BY number"
        values = [value for some in given.values() for value in some]
        if most is not None:
            sql, values = f"{sql} LIMIT ?", [*values, most]
        yield from (StoredTicket(*row) for row in self.stream(sql, *values))

    def tickets_called(self, names: Sequence[str], begin: int) -> Iterator[StoredTicket]:
        """The tickets that people call by these names: the name, its beginning, or the request.

        Capital and small letters are the same, so that several may fit one name.
        begin: how many characters of a ticket people are shown.
        """
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            columns = (f"SUBSTR(ticket, 1, {begin})", "request", "LOWER(request)")
            tests = (f"{one} IN ({marks})" for one in columns)
            sql = f"SELECT {_TICKET} FROM tickets WHERE {' OR '.join(tests)}"
            begins, small = [name[:begin].lower() for name in some], [one.lower() for one in some]
            rows = self.execute(sql, *begins, *some, *small)
            yield from (StoredTicket(*row) for row in rows)

    def look_alikes(self, most: int) -> list[StoredTicket]:
        """The tickets of a site whose names differ in blanks at their ends or in capitals alone.

        most: so many such names.
        """
        name = "LOWER(TRIM(request))"
        groups = f"SELECT site AS place, {name} AS name FROM tickets GROUP BY site, {name}"
        alike = f"{groups} HAVING COUNT(*) > 1 ORDER BY 1, 2 LIMIT ?"
        both = f"site = alike.place AND {name} = alike.name"
        sql = f"SELECT {_TICKET} FROM tickets JOIN ({alike}) AS alike ON {both} ORDER BY number"
        return [StoredTicket(*row) for row in self.execute(sql, most)]

    def open_by_site(self) -> list[tuple[str, int, int]]:
        """Each site with open tickets: how many, and the event that asked for the first one."""
        sql = "SELECT site, COUNT(*), MIN(asked) FROM tickets WHERE status = 'open' GROUP BY site"
        return [(site, int(n), int(asked)) for site, n, asked in self.execute(f"{sql} ORDER BY 1")]

    def all_tickets(self) -> Iterator[StoredTicket]:
        yield from map(
            StoredTicket._make, self.stream(f"SELECT {_TICKET} FROM tickets ORDER BY number")
        )

    def open_tickets(self, site: str, most: int) -> int:
        """How many open tickets a site has, counting up to `most`."""
        some = "SELECT 1 FROM tickets WHERE status = 'open' AND site = ? LIMIT ?"
        return int(self.execute(f"SELECT COUNT(*) FROM ({some}) AS found", site, most)[0][0])

    def sent(self, kind: str, number: int, most: int) -> list[Row]:
        """The first events of a kind in which a site reported on a ticket."""
        return self.execute(
            f"SELECT {_EVENT} FROM {self.events} WHERE kind = ? AND seq > 0"
            " AND body LIKE ? ORDER BY seq LIMIT ?",
            kind,
            _about(number),
            most,
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


def _about(number: int) -> str:
    """A pattern for the body of an event about the ticket with this number."""
    return f'%"number":{number},%'


def _about_version(number: int) -> list[tuple[str, str]]:
    """Tests of events, each with a pattern, that propose a version, make it or put it back."""
    makers = ", ".join(f"'{name}'" for name, kind in KINDS.items() if kind.makes_version)
    named = [(makers, "version", number), ("'proposed'", "version", number - 1)]
    named.append(("'rolled_back', 'requested'", "to", number))
    return [
        (f"kind IN ({kinds}) AND body LIKE ?", f'%"{name}":{at}{end}%')
        for kinds, name, at in named
        for end in ",}"
    ]
