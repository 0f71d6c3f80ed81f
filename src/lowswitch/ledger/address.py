"""Find the database behind an address, and hide secrets when an address is shown."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from lowswitch.ledger.errors import LedgerError, NotALedgerError
from lowswitch.ledger.events import Event
from lowswitch.ledger.store import Store

_WRITTEN = (
    "postgresql://user:password@host:port/database#name; in a password, write @ as %40, / as %2F,"
    " # as %23 and % as %25"
)
_HIDDEN = "***"
_HOST = r"(?:\[[^]@/?#\s]*\]|[^]\[:,@/?#=&\s]*)(?::[0-9]*)?"
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://"
    r"(?:(?P<user>[^:@/?#=&\s]*)(?P<secret>:[^@/#]*)?@)?"
    rf"(?P<host>{_HOST}(?:,{_HOST})*)"
    r"(?P<path>/[^@?#=&\s]*)?"
    r"(?P<query>\?(?(path)[^#]*|[^@#]*))?"  # before a slash, libpq takes all up to @ for the user
    r"(?P<name>#[a-z0-9_]*)?",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"[a-z][a-z0-9+.-]*://(?:.*@)?[^\s'\"]*", re.IGNORECASE)
# scheme:/..., user:password@... and password=...: meant for a database, and no name of a file
_NO_FILE = re.compile(r"[a-z][\w+.-]+:/|[^/@]+:[^/@]*@|(?![./]).*\bpassword\s*=", re.IGNORECASE)


def store_at(
    address: str | Path, *, create: Sequence[Event] | None = None, read_only: bool = False
) -> Store:
    """Open the database at an address: PostgreSQL, or SQLite in a file.

    create: the first events of a new ledger. The database is created with all of them, or not at
    all.
    """
    if is_postgres(address):
        if importlib.util.find_spec("psycopg") is None:
            raise LedgerError("a ledger in PostgreSQL needs psycopg; install lowswitch[postgres]")
        from lowswitch.ledger.postgres import PostgresStore

        if create is not None:
            return PostgresStore.create(str(address), create)
        return PostgresStore.open(str(address), read_only=read_only)
    from lowswitch.ledger.sqlite import SqliteStore

    if create is not None:
        return SqliteStore.create(file_of(address), create)
    return SqliteStore.open(file_of(address), read_only=read_only)


def is_postgres(address: str | Path) -> bool:
    """Whether the address names a PostgreSQL database."""
    return str(address).startswith(("postgresql://", "postgres://"))


def has_password(address: str | Path) -> bool:
    """Whether the address contains a password, where others can read it."""
    found = _URL.fullmatch(str(address)) if is_postgres(address) else None
    return found is not None and bool(found["secret"] or "password" in (found["query"] or ""))


def file_of(address: str | Path) -> Path:
    """The file named by an address.

    An address of a database is refused and not repeated in the message, because it may contain a
    password.
    """
    if _NO_FILE.match(str(address)):
        raise NotALedgerError(
            f"this is not the name of a file, and a database of PostgreSQL is written {_WRITTEN};"
            " if it is a file, write ./ before its name"
        )
    return Path(address)


def printable(address: str | Path) -> str:
    """The address without its password and without options that may contain one.

    If the address cannot be parsed, every part that may belong to a password is left out.
    """
    text = str(address)
    found = _URL.fullmatch(text)
    if found is None:
        scheme, mark, _ = text.partition("://")
        if mark:
            return f"{scheme}://{_HIDDEN}"
        return _HIDDEN if _NO_FILE.match(text) else text
    shown = f"{found['scheme']}://"
    if found["user"] is not None:
        shown += found["user"] + (f":{_HIDDEN}" if found["secret"] else "") + "@"
    shown += found["host"] + (found["path"] or "")
    return shown + (f"?{_HIDDEN}" if found["query"] else "") + (found["name"] or "")


def printable_text(text: str) -> str:
    """Replace every address in a text by its printable form."""
    return _IN_TEXT.sub(lambda found: printable(found[0]), text)


def is_readable(address: str) -> bool:
    """Whether an address with a scheme is well formed.

    libpq takes part of the password in a malformed address for a host, a port or a database, and
    names it in its error.
    """
    return _URL.fullmatch(address) is not None


def unreadable(address: str) -> NotALedgerError:
    """The error for an address of PostgreSQL that is malformed."""
    return NotALedgerError(f"the address {printable(address)} cannot be read; write {_WRITTEN}")
