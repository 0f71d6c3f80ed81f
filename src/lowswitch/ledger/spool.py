"""The files that a site keeps on its own disk: unacknowledged reports and the last policy.

A report is written to this file before it is sent, and removed when the server has stored it. So a
crash on either side loses nothing.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lowswitch.io.files import create_private, owning
from lowswitch.ledger.errors import StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS reports (id INTEGER PRIMARY KEY AUTOINCREMENT,
 ticket TEXT NOT NULL UNIQUE, body TEXT NOT NULL, refused TEXT);
CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY AUTOINCREMENT,
 request TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class Waiting(NamedTuple):
    """A report that the server has not acknowledged."""

    id: int
    report: dict[str, Any]
    refused: str | None  # why the server will not have it


class Spool:
    """A file of one site; one process uses it at a time, and a second one is refused."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock, self._closed = threading.Lock(), False
        self._done: list[int] = []  # acknowledged, and to be taken out with the next write
        self._owned = ExitStack()
        try:
            self._owned.enter_context(owning(self.path))
            weakref.finalize(self, self._owned.close)  # if nobody closes it before Python ends
        except (ValueError, OSError) as error:
            raise StorageError(str(error)) from error
        try:
            self._open()
        except BaseException:
            self._owned.close()
            raise

    def _open(self) -> None:
        with self._errors():
            create_private(self.path)  # SQLite gives its log and its index the same mode
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=30
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file; calling this twice is harmless."""
        if not self._closed:
            with self._writing():
                pass
            self._db.close()
            self._owned.close()
            self._closed = True

    # ---- reports ---------------------------------------------------------------------------------

    def add(self, reports: Sequence[dict[str, Any]], **facts: Any) -> list[int | None]:
        """Store reports and the given facts, and return their numbers once they are on the disk.

        None stands for a report that is not stored because another report of its ticket waits.
        """
        with self._writing() as database:
            numbers = [_keep(database, report) for report in reports]
            for name, value in facts.items():
                _put(database, name, value)
            return numbers

    def done(self, numbers: Sequence[int]) -> None:
        """Mark reports that the server has stored; they are removed soon."""
        with self._lock:
            self._done += numbers

    def refuse(self, number: int, why: str) -> None:
        """Mark a report that the server refused; it stays until the site has looked at it."""
        with self._writing() as database:
            database.execute("UPDATE reports SET refused = ? WHERE id = ?", (why, number))

    def rename(self, number: int, ticket: str) -> None:
        """Set the ticket of a report whose episode was played without one.

        If another report of this ticket waits, both stay, and the server decides which one it
        accepts.
        """
        with self._writing() as database:
            body = database.execute("SELECT body FROM reports WHERE id = ?", (number,)).fetchone()
            report = json.loads(body[0]) | {"ticket": ticket}
            database.execute(
                "DELETE FROM reports WHERE ticket = ? AND refused IS NOT NULL", (ticket,)
            )
            database.execute(
                "UPDATE OR IGNORE reports SET ticket = ?, body = ? WHERE id = ?",
                (ticket, json.dumps(report), number),
            )

    def waiting(self, most: int = -1) -> list[Waiting]:
        """The reports that are still to be sent, in the order in which they came."""
        return self._reports("refused IS NULL", most)

    def refused(self) -> list[Waiting]:
        """The reports that the server will not have, with the reasons."""
        return self._reports("refused IS NOT NULL", -1)

    def forget_refused(self) -> int:
        """Remove the refused reports; return how many there were."""
        with self._writing() as database:
            return int(database.execute("DELETE FROM reports WHERE refused IS NOT NULL").rowcount)

    def _reports(self, where: str, most: int) -> list[Waiting]:
        with self._writing() as database:
            rows = database.execute(
                f"SELECT id, body, refused FROM reports WHERE {where} ORDER BY id LIMIT ?", (most,)
            ).fetchall()
        return [Waiting(number, json.loads(body), refused) for number, body, refused in rows]

    # ---- requests without a ticket ---------------------------------------------------------------

    def promise(self, request: str) -> None:
        """Note that an episode begins without a ticket; tickets are requested later, in this order.

        The note is on the disk before anything of the episode is seen. So the outcome decides
        neither whether it is reported nor when.
        """
        with self._writing() as database:
            database.execute("INSERT OR IGNORE INTO requests (request) VALUES (?)", (request,))

    def promised(self) -> list[str]:
        """The requests whose tickets are still to be asked for."""
        with self._writing() as database:
            rows = database.execute("SELECT request FROM requests ORDER BY id").fetchall()
        return [request for (request,) in rows]

    def kept(self, request: str) -> None:
        """Note that a promised request has its ticket, and rename its report."""
        with self._writing() as database:
            database.execute("DELETE FROM requests WHERE request = ?", (request,))

    # ---- facts -----------------------------------------------------------------------------------

    def put(self, **facts: Any) -> None:
        """Store facts."""
        with self._writing() as database:
            for name, value in facts.items():
                _put(database, name, value)

    def get(self, name: str) -> Any:
        """A fact, or None."""
        with self._writing() as database:
            row = database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which also removes the reports that the server has stored."""
        with self._errors(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                done, self._done = self._done, []
                self._db.executemany("DELETE FROM reports WHERE id = ?", [(one,) for one in done])
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # else it is committed, or they go out twice
                    self._done += done
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            raise StorageError(
                f"the spool {str(self.path)!r} could not be used: {error}"
            ) from error


def _keep(database: sqlite3.Connection, report: dict[str, Any]) -> int | None:
    """Store a report, replacing one that the server refused; return its number.

    The first report of a ticket stays while it waits. The same report gets the same number again;
    None is returned for a different one.
    """
    new = database.execute(
        "INSERT INTO reports (ticket, body) VALUES (?, ?)"
        " ON CONFLICT (ticket) DO UPDATE SET body = excluded.body, refused = NULL"
        " WHERE refused IS NOT NULL RETURNING id",
        (report["ticket"], json.dumps(report, allow_nan=False)),
    ).fetchone()
    if new is not None:
        return int(new[0])
    number, body = database.execute(
        "SELECT id, body FROM reports WHERE ticket = ?", (report["ticket"],)
    ).fetchone()
    whole = {"ended": "whole"}  # unless it says something else
    return int(number) if whole | json.loads(body) == whole | report else None


def _put(database: sqlite3.Connection, name: str, value: Any) -> None:
    database.execute(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, json.dumps(value, allow_nan=False)),
    )
