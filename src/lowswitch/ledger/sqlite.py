"""A ledger in a file: SQLite with a write-ahead log, every commit flushed to the disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lowswitch.io.files import create_private, sync_file, sync_folder, write_new
from lowswitch.ledger.errors import NotALedgerError, StorageError, UnreadableError
from lowswitch.ledger.events import FORMAT, Event
from lowswitch.ledger.store import COMPANIONS, Store

_KIND = 0x4C535764  # "LSWd", in the header of the file
_OBJECTS = "SELECT type, name, sql FROM sqlite_master"
_EARLIER = {  # of ledgers that an earlier version made
    ("index", "tickets_by_status", "CREATE INDEX tickets_by_status ON tickets (status)")
}
_BUSY_MS = 30_000
_DAMAGED = ("not a database", "malformed")  # in the errors of SQLite
# A damaged text is read as another one, so that `verify` names its row by the hash.
_TEXT = partial(str, encoding="utf-8", errors="replace")
_HALF_MADE = 1 << 16  # bytes that such a file has at most


class SqliteStore(Store):
    """One connection to the file of a ledger; only a writer checkpoints."""

    kind_in_body = "CASE WHEN json_valid(body) THEN json_extract(body, '$[4]') END"
    column, bytes = "VIRTUAL", "BLOB"

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection
        self._errors = _Errors(path)
        self._place = path.absolute()  # whatever folder the process works in later
        self._file: tuple[int, int] | None = None  # what a writer opened

    @classmethod
    def create(cls, path: Path, events: Iterable[Event]) -> SqliteStore:
        """Create a file with the first events; it appears complete or not at all."""
        exists = NotALedgerError(f"{str(path)!r} exists already; open it, or choose another name")
        if path.exists():
            if not _is_half_made(path):
                raise exists
            path.unlink()
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise StorageError(
                f"cannot write {str(path)!r}; choose a file in a folder that exists and is writable"
            )
        with cls._in_memory(path) as made, made._errors:
            made.append(events)
            try:
                write_new(path, made.connection.serialize())
            except FileExistsError:
                raise exists from None
        return cls.open(path, read_only=False)

    @classmethod
    @contextmanager
    def _in_memory(cls, path: Path, up_to: int = FORMAT) -> Iterator[SqliteStore]:
        """The tables of a format without a row, in memory."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            made = cls(path, connection)
            connection.execute(f"PRAGMA application_id = {_KIND}")
            made.create_tables(up_to)
            yield made

    @classmethod
    def open(cls, path: Path, *, read_only: bool) -> SqliteStore:
        """Open the file of an existing ledger."""
        is_closed = _is_closed(path)
        if not is_closed and not path.is_file():
            raise NotALedgerError(
                f"there is no ledger {str(path)!r}; check the name, or create it with"
                " 'lowswitch ledger create' (in Python: Ledger.create)"
            )
        if is_closed or not os.access(path, os.R_OK if read_only else os.R_OK | os.W_OK):
            what = "read" if read_only else "write"
            way_out = "" if read_only else " (in Python, read_only=True reads it)"
            raise StorageError(
                f"no permission to {what} {str(path)!r}; do this as a user who may{way_out}"
            )
        store = cls(path, _connect_to_read(path) if read_only else _connect(path, "rw"))
        with store._errors:
            kind = store.execute("PRAGMA application_id")[0][0]
            if kind != _KIND:
                raise _unreadable(path, "another kind of database")
            if not read_only:
                store._prepare()
                store._file = _identity(store._place)
            store.adopt(repr(str(path)), read_only=read_only)
        return store

    def _prepare(self) -> None:
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")

    def format(self) -> int:
        return int(self.execute("PRAGMA user_version")[0][0])

    def set_format(self) -> None:
        self.execute(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._errors:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._require_in_place()
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _require_in_place(self) -> None:
        """Refuse to write to a file that has lost its name: nobody would find it again."""
        if self._file is not None and _identity(self._place) != self._file:
            raise StorageError(
                f"{str(self.path)!r} was removed or replaced while it was in use; nothing was"
                " saved. Put it back, or stop this process, restore it and start again"
            )

    def execute(self, sql: str, *values: Any) -> list[Any]:
        with self._errors:
            return self.connection.execute(sql, values).fetchall()

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._errors:
            self.connection.executemany(sql, rows)

    def stream(self, sql: str, *values: Any) -> Generator[Any, None, None]:
        with self._errors:
            yield from self.connection.execute(sql, values)

    def oddities(self) -> list[str]:
        """The findings of SQLite's own check, and differences from the expected schema."""
        found = [text for (text,) in self.execute("PRAGMA integrity_check(3)") if text != "ok"]
        with self._in_memory(self.path, self.found) as made:
            wanted = set(made.execute(_OBJECTS))
        there = set(self.execute(_OBJECTS))
        odd = [f"a changed or foreign {one[0]} {one[1]!r}" for one in there - wanted - _EARLIER]
        lost = [f"no {kind} {name!r}" for kind, name, _ in wanted - there if kind == "table"]
        schema = [f"its schema has {what}" for what in sorted(odd + lost)]
        return [f"SQLite's own check says: {text}" for text in found] + schema

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        with self._errors:
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    def remove(self) -> None:
        self.close()
        for end in ("", *COMPANIONS):
            Path(f"{self.path}{end}").unlink(missing_ok=True)

    def take_place(self, address: str | Path, kept: str) -> bool:
        self.close()
        was_there = Path(address).exists()
        rename(Path(address), Path(kept))
        rename(self.path, Path(address))
        return was_there

    def backup(self, path: Path) -> None:
        if path.exists():
            raise StorageError(f"{str(path)!r} exists already; choose another name")
        temporary = path.with_name(f".{path.name}.part")
        try:
            with _Errors(path):
                create_private(temporary)
                source = _connect(self.path, "ro")
                target = sqlite3.connect(temporary)
                try:
                    source.backup(target)
                    target.execute("PRAGMA journal_mode = DELETE")  # for media that are read-only
                finally:
                    target.close()
                    source.close()
                sync_file(temporary)
                os.replace(temporary, path)
                sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)

    def in_use(self) -> bool:
        return super().in_use() and self.execute("PRAGMA journal_mode") == [("wal",)]

    def finish(self) -> None:
        """Move everything from the log into the file, flush it to the disk, and close it."""
        with self._errors:
            self.connection.execute("PRAGMA busy_timeout = 0")
            (mode,) = self.connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            self.close()
            if mode != "delete" or Path(f"{self.path}-wal").exists():
                raise StorageError(
                    f"{str(self.path)!r} is incomplete: a part of it stayed in its log; try again"
                    " when the disk has room"
                )
            sync_file(self.path)

    def close(self) -> None:
        self.connection.close()


def rename(path: Path, moved: Path) -> str:
    """Rename a ledger with its log; return the new name."""
    try:
        for end in ("", *COMPANIONS):
            if Path(f"{path}{end}").exists():
                os.rename(f"{path}{end}", f"{moved}{end}")
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot rename {str(path)!r}: {error.strerror}") from error
    return str(moved)


def _is_closed(path: Path) -> bool:
    """Whether this user may not enter a folder above the file."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name, or None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_half_made(path: Path) -> bool:
    """Whether an earlier version left this file when it was killed while creating a ledger."""
    try:
        with closing(_connect(path, "ro")) as connection:
            (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            return not tables and path.stat().st_size <= _HALF_MADE
    except (NotALedgerError, StorageError, sqlite3.DatabaseError, OSError):
        return False


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A read-only connection, even on a medium on which SQLite cannot write its index.

    Nobody writes there, so the file is read as it is, unless a log lies beside it.
    """
    connection = _connect(path, "ro")
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if "unable to open" not in str(error) or Path(f"{path}-wal").exists():
            with _Errors(path):
                raise
        return _connect(path, "ro&immutable=1")
    except sqlite3.DatabaseError:  # which the caller finds, too, and names
        pass
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    with _Errors(path):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,  # the ledger has a lock of its own
            timeout=_BUSY_MS / 1000,
        )
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.text_factory = _TEXT
        return connection


def _unreadable(path: Path, why: object) -> UnreadableError:
    """The error of a file that is a damaged ledger, or none."""
    return UnreadableError(
        f"{str(path)!r} cannot be read as a ledger ({why}). If it was one, 'lowswitch ledger"
        " restore' mends it; give --backup FILE if its events cannot be read"
    )


class _Errors:
    """Translates SQLite's errors into messages that name the file and the remedy.

    A report passes through it several times, and a class costs a third of a generator.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        """Nothing needs to be done before something fails."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            if any(word in str(error) for word in _DAMAGED):
                raise _unreadable(self.path, error) from error
            raise StorageError(
                f"{str(self.path)!r} could not be used ({error}); nothing was saved. Try again when"
                " the disk works and has room"
            ) from error
        if isinstance(error, OSError):
            raise StorageError(f"cannot write {str(self.path)!r}: {error.strerror}") from error
