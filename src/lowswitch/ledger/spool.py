"""What a site keeps on its own disk: reports that are not acknowledged, and the last policy.

The file is the site's memory. A report is in it before it is sent, and leaves it when the server
has it on the disk, so that neither a crash here nor one there loses it.
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
        """Let go of the file; a second time it does nothing."""
        if not self._closed:
            with self._writing():
                pass
            self._db.close()
            self._owned.close()
            self._closed = True

    # ---- reports ---------------------------------------------------------------------------------

    def add(self, reports: Sequence[dict[str, Any]], **facts: Any) -> list[int | None]:
        """Keep reports, and facts with them; return their numbers. On the disk when it returns.

        None stands for a report that is not kept, because another one of its ticket waits.
        """
        with self._writing() as database:
            numbers = [_keep(database, report) for report in reports]
            for name, value in facts.items():
                _put(database, name, value)
            return numbers

    def done(self, numbers: Sequence[int]) -> None:
        """Reports that the server has; they are taken out soon."""
        with self._lock:
            self._done += numbers

    def refuse(self, number: int, why: str) -> None:
        """A report that the server will not have; it is kept for somebody to look at."""
        with self._writing() as database:
            database.execute("UPDATE reports SET refused = ? WHERE id = ?", (why, number))

    def rename(self, number: int, ticket: str) -> None:
        """The report of an episode that was played without a ticket gets its ticket.

        If another report of this ticket waits, both stay, and the server says which one it takes.
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
        """Drop the reports that the server will not have; return how many these were."""
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
        """An episode begins without a ticket; its ticket is asked for later, in this order.

        This is on the disk before anything of the episode is seen, so that what came of it decides
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
        """A promised request has its ticket, and its report the ticket's name."""
        with self._writing() as database:
            database.execute("DELETE FROM requests WHERE request = ?", (request,))

    # ---- facts -----------------------------------------------------------------------------------

    def put(self, **facts: Any) -> None:
        """Keep some facts."""
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
        """One transaction, in which what the server has is taken out as well."""
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
    """Keep a report, also in the place of one that the server refused; return its number.

    The first report of a ticket stays as long as it waits: the same one again has its number, and
    None is returned for another one.
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
