"""A ledger in PostgreSQL, for when one machine is not enough.

Each ledger has its own schema. A writer takes the schema's advisory lock before it reads the last
event, so events become visible in the order of their numbers.
"""

from __future__ import annotations

import hashlib
import os
import re
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from lowswitch.ledger.address import is_readable, unreadable
from lowswitch.ledger.copies import copy
from lowswitch.ledger.errors import NotALedgerError, StorageError
from lowswitch.ledger.events import FORMAT, Event
from lowswitch.ledger.store import SCHEMA, UPGRADES, Store

_PIECE = 2000  # rows that a reader fetches at once

_PASSWORD_FILE = "LOWSWITCH_PASSWORD_FILE"  # the variable that names it


def _password() -> str | None:
    """The database password from a file, if there is one; otherwise libpq looks for it."""
    if not (path := os.environ.get(_PASSWORD_FILE)):
        return None
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise StorageError(
            f"the password of the database cannot be read from {path!r}, which {_PASSWORD_FILE}"
            f" names ({getattr(error, 'strerror', None) or 'no text'})"
        ) from None


_UNIQUE = {  # the indexes without which a row could be there twice, and the format that has them
    "events_pkey": 1,
    "tickets_pkey": 1,
    "tickets_ticket_key": 1,
    "tickets_site_request_key": 1,
    "snapshots_pkey": 1,
    "access_events_pkey": 3,
    "token_uses_pkey": 3,
}


def _schema(name: str) -> str:
    """The schema of a ledger, by the name after # in its address."""
    return f"lowswitch_{name or 'ledger'}"


class PostgresStore(Store):
    """A connection to the schema of a ledger; reconnects if it is lost."""

    # No JSON of PostgreSQL, which refuses \u0000. Quotes within a text are escaped.
    kind_in_body = """substring(body from '"[a-z]+","([a-z_]+)",[{]')"""
    column, bytes = "STORED", "BYTEA"

    def __init__(self, address: str, *, read_only: bool) -> None:
        self._connection: Any = None
        self.address, _, name = address.partition("#")
        if not is_readable(self.address) or "@" in name:  # as when a # is part of the password
            raise unreadable(address)
        if not re.fullmatch(r"[a-z0-9_]{0,40}", name):
            raise NotALedgerError(
                "the name of a ledger, after #, may have only small letters, digits and _, not"
                f" {name!r}"
            )
        self.schema, self.read_only = _schema(name), read_only
        self.lock = int.from_bytes(hashlib.sha256(self.schema.encode()).digest()[:8], signed=True)
        self._streams = 0

    @classmethod
    def create(cls, address: str, events: Iterable[Event]) -> PostgresStore:
        """A new schema with the first events, in one transaction."""
        store = cls(address, read_only=False)
        with store.transaction():
            if store._exists():
                raise NotALedgerError(
                    f"{store.schema} exists already; open it, or name another one"
                )
            store.execute(f"CREATE SCHEMA IF NOT EXISTS {store.schema}")
            store.execute(f"CREATE TABLE {store.schema}.format (version INT NOT NULL)")
            store.execute(f"INSERT INTO {store.schema}.format VALUES (1)")
            store.create_tables()
            store.append(events)
        return store

    @classmethod
    def open(cls, address: str, *, read_only: bool) -> PostgresStore:
        store = cls(address, read_only=read_only)
        if not store._exists():
            raise NotALedgerError(
                f"there is no ledger {store.schema}; check the name after # in the address,"
                " or create it with 'lowswitch ledger create' (in Python: Ledger.create)"
            )
        store.adopt(store.schema, read_only=read_only)
        return store

    def _exists(self) -> bool:
        sql = "SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
        return bool(self.execute(sql, self.schema, "format"))

    def format(self) -> int:
        return int(self.execute(f"SELECT version FROM {self.schema}.format")[0][0])

    def set_format(self) -> None:
        self.execute(f"UPDATE {self.schema}.format SET version = ?", FORMAT)

    @property
    def connection(self) -> Any:
        """The connection, opened if it is missing or lost."""
        import psycopg

        if self._connection is None or self._connection.closed:
            with self._errors():
                self._require_options()
                self._connection = psycopg.connect(
                    self.address, autocommit=True, password=_password()
                )
                weakref.finalize(self, self._connection.close)  # if nobody closes the ledger
                self._connection.execute(f"SET search_path TO {self.schema}")
                self._connection.execute("SET synchronous_commit TO on")
                if self.read_only:
                    self._connection.execute("SET default_transaction_read_only TO on")
        return self._connection

    def _require_options(self) -> None:
        """Refuse options that libpq cannot read; its own error would repeat the password."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        try:
            conninfo_to_dict(self.address)
            return
        except psycopg.ProgrammingError:
            pass
        raise unreadable(self.address)  # outside, so that those words are not in its chain

    @contextmanager
    def transaction(self) -> Iterator[None]:
        connection = self.connection
        with self._errors(), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (self.lock,))
            yield

    def execute(self, sql: str, *values: Any) -> list[Any]:
        with self._errors():
            cursor = self.connection.execute(sql.replace("?", "%s"), values)
            return [] if cursor.description is None else list(cursor.fetchall())

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            with self._errors(), self.connection.cursor() as cursor:
                cursor.executemany(sql.replace("?", "%s"), rows)

    def append(self, events: Iterable[Event], table: str = "events") -> None:
        self._in_columns(
            f"INSERT INTO {table} (seq, body, hash)"
            " SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[])",
            [(event.seq, event.body, event.hash) for event in events],
        )

    def set_tickets(self, rows: Sequence[tuple[str, int | None, int]]) -> None:
        self._in_columns(
            "UPDATE tickets SET status = new.status, report = COALESCE(new.report, tickets.report)"
            " FROM unnest(%b::text[], %b::bigint[], %b::bigint[]) AS new (status, report, number)"
            " WHERE tickets.number = new.number",
            rows,
        )

    def _in_columns(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run one statement for all of the rows, which it takes as an array for each column."""
        if rows:
            with self._errors():
                self.connection.execute(sql, [list(column) for column in zip(*rows, strict=True)])

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._errors(), self.connection.pipeline():
            yield

    def stream(self, sql: str, *values: Any) -> Generator[Any, None, None]:
        with self._errors():
            connection = self.connection
            self._streams += 1
            name = f"lowswitch_{self._streams}"
            with connection.transaction(), connection.cursor(name=name) as cursor:
                cursor.itersize = _PIECE
                cursor.execute(sql.replace("?", "%s"), values)
                yield from cursor

    def oddities(self) -> list[str]:
        """Triggers and rules that could change rows unnoticed, and unknown tables."""
        relation = "c.oid IN (SELECT oid FROM pg_class WHERE relnamespace = ?::regnamespace)"
        triggers = self.execute(
            "SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
            f" WHERE NOT tgisinternal AND {relation}",
            self.schema,
        )
        rules = self.execute(
            f"SELECT 'rule', rulename FROM pg_rewrite JOIN pg_class c ON c.oid = ev_class"
            f" WHERE {relation}",
            self.schema,
        )
        there = {
            (name,)
            for (name,) in self.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = ?",
                self.schema,
            )
        }
        odd = [("table", name) for (name,) in there if name not in self._tables()]
        foreign = [f"a foreign {kind} {name!r}" for kind, name in triggers + rules + odd]
        return [f"its schema has {what}" for what in foreign + self._lost(relation)]

    def _lost(self, relation: str) -> list[str]:
        """Missing unique indexes and row security, which would duplicate or hide rows."""
        unique = {
            name
            for (name,) in self.execute(
                "SELECT c.relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
                f" WHERE indisunique AND indisvalid AND {relation}",
                self.schema,
            )
        }
        hidden = self.execute(
            f"SELECT c.relname FROM pg_class c WHERE c.relrowsecurity AND {relation}", self.schema
        )
        wanted = {name for name, since in _UNIQUE.items() if self.found >= since}
        lost = [f"no unique index {name!r}" for name in sorted(wanted - unique)]
        return lost + [f"row security on {name!r}, which hides rows" for (name,) in hidden]

    def _tables(self) -> set[str]:
        """The names of the tables that a ledger has."""
        statements = [*SCHEMA, *(one for step in UPGRADES.values() for one in step)]
        made = (re.match(r"CREATE TABLE (\w+)", one) for one in statements)
        return {"format", *(one[1] for one in made if one)}

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        connection = self.connection
        with self._errors(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def remove(self) -> None:
        self.execute(f"DROP SCHEMA {self.schema} CASCADE")

    def take_place(self, address: str | Path, kept: str) -> bool:
        target, aside = (_schema(str(one).partition("#")[2]) for one in (address, kept))
        with closing(self), self.transaction():
            there = self.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", target)
            if there:
                self.execute(f"ALTER SCHEMA {target} RENAME TO {aside}")
            self.execute(f"ALTER SCHEMA {self.schema} RENAME TO {target}")
        return bool(there)

    def backup(self, path: Path) -> None:
        copy(self, path)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            text = str(error).strip().splitlines()
            raise StorageError(
                f"{self.schema} could not be used ({text[0] if text else error!r}); nothing was"
                " saved. Try again when the database works"
            ) from error
