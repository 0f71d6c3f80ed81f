"""Which database an address means."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lowswitch.ledger.errors import StorageError
from lowswitch.ledger.store import Store


def store_at(address: str | Path, *, create: bool, read_only: bool = False) -> Store:
    """The database at an address: PostgreSQL, or SQLite in a file."""
    where = str(address)
    if where.startswith(("postgresql://", "postgres://")):
        if importlib.util.find_spec("psycopg") is None:
            raise StorageError("a ledger in PostgreSQL needs psycopg; install lowswitch[postgres]")
        from lowswitch.ledger.postgres import PostgresStore

        if create:
            return PostgresStore.create(where)
        return PostgresStore.open(where, read_only=read_only)
    from lowswitch.ledger.sqlite import SqliteStore

    if create:
        return SqliteStore.create(Path(address))
    return SqliteStore.open(Path(address), read_only=read_only)
