"""Copies of a whole ledger: from one database into another, and every night into a folder."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lowswitch.checks import require_count
from lowswitch.io.files import owning
from lowswitch.ledger.address import file_of, is_postgres, printable, store_at
from lowswitch.ledger.errors import LedgerError, StorageError
from lowswitch.ledger.events import GENESIS, read_event
from lowswitch.ledger.sqlite import rename
from lowswitch.ledger.store import COMPANIONS, DERIVED, SCHEMA, UPGRADES, Store, StoredTicket

_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*)\)", re.DOTALL)
_NO_COLUMN = ("UNIQUE", "PRIMARY", "CHECK")
_AT_ONCE = 1000  # rows that are written together


def tables(up_to: int) -> Iterator[tuple[str, list[str]]]:
    """The tables of a format, each with its columns; computed ones are left out."""
    later = (one for step, lines in sorted(UPGRADES.items()) if step <= up_to for one in lines)
    for statement in (*SCHEMA, *later):
        found = _TABLE.match(statement)
        if found:
            parts = re.split(r",\s*(?![^()]*\))", found[2])
            names = [part.split()[0] for part in parts]
            yield found[1], [name for name in names if name not in _NO_COLUMN]


def copy(
    source: Store,
    address: str | Path,
    tickets: Callable[[], Sequence[StoredTicket]] | None = None,
) -> None:
    """Copy a ledger, as it is at one moment, into a new ledger at an address.

    tickets: computes the tickets from the events. They replace the source's own tickets, and its
    snapshots are left out, so the copy contains only what the events lead to.
    """
    first = read_event(*source.event(1), 1, GENESIS)
    with closing(store_at(address, create=[first])) as target, source.unchanging():
        try:
            with target.transaction():
                for name, columns in tables(source.found):
                    if tickets is None or name not in DERIVED:
                        _copy_table(source, target, name, columns)
                if tickets is not None:
                    target.add_tickets(tickets())
            target.finish()
        except BaseException:
            target.remove()
            raise


@contextmanager
def moving(address: str | Path) -> Iterator[Callable[[], str]]:
    """Own the file of a ledger; the yielded function renames it, so that nobody continues it."""
    if is_postgres(address):
        raise LedgerError(
            f"--move renames a file, and {printable(address)} is a schema in PostgreSQL; copy it"
            " without --move, and rename the schema"
        )
    path = file_of(address)
    moved = path.with_name(f"{path.name}.moved")
    if moved.exists():
        raise LedgerError(f"{str(moved)!r} exists already; move it away first")
    with owning(path):
        yield lambda: rename(path, moved)


def _copy_table(source: Store, target: Store, name: str, columns: list[str]) -> None:
    given, marks = ", ".join(columns), ", ".join("?" * len(columns))
    rows = source.stream(f"SELECT {given} FROM {name}")
    if name == "events":
        rows = (row for row in rows if row[0] > 1)
    while some := list(itertools.islice(rows, _AT_ONCE)):
        target.execute_many(f"INSERT INTO {name} ({given}) VALUES ({marks})", some)


def backup_path(address: str | Path, out: str, keep: int | None) -> Path:
    """The file to write a backup to: `out`, or a dated name in it if it is a folder.

    keep: how many backups to keep in the folder; refused if `out` is not a folder.
    """
    if keep is not None:
        require_count("--keep", keep, least=1)
    folder = Path(out)
    if folder.is_dir():
        return _dated(address, folder)
    if keep is not None or out.endswith(os.sep):
        raise LedgerError(f"there is no folder {out!r}; create it or mount it, and try again")
    return folder


def _dated(address: str | Path, folder: Path) -> Path:
    """Today's backup file, named after the ledger and the time."""
    name = printable(address).rpartition("#")[2] or "ledger"
    stem = name if is_postgres(address) else Path(address).stem
    return folder / f"{stem}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.db"


def prune(kept: Path, most: int) -> list[str]:
    """Remove the oldest backups of the same run beside one, until `most` are left.

    Files that SQLite left beside a backup are removed with it.
    """
    stem = kept.name.rpartition("-")[0]
    alike = re.compile(rf"{re.escape(stem)}-\d{{8}}T\d{{6}}Z\.db({'|'.join(COMPANIONS)})?")
    run = _run_of(kept)
    named = {path for path in kept.parent.iterdir() if alike.fullmatch(path.name)}
    whole = {path for path in named if path.suffix == ".db"}
    found = sorted(path for path in whole if _run_of(path) == run)
    old = set(found[: max(0, len(found) - most)])
    beside = {path: path.with_name(path.name.rpartition("-")[0]) for path in named - whole}
    left = {path for path, backup in beside.items() if backup in old or backup not in whole}
    gone = sorted(old | left)
    try:
        for path in gone:
            path.unlink()
    except OSError as error:
        raise StorageError(f"cannot remove {str(path)!r}: {error.strerror}") from error
    return [str(path) for path in gone]


def _run_of(path: Path) -> str | None:
    """The hash of a ledger's first event, which names its run; None if it cannot be read."""
    try:
        with closing(store_at(path, read_only=True)) as store:
            return str(store.event(1)[2])
    except LedgerError:
        return None
