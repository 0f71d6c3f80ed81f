"""Write events to a text file that an auditor can take along, and read them back."""

from __future__ import annotations

import csv
import io
import itertools
import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.checks import require_word
from lowswitch.io.storage import replacing
from lowswitch.ledger.errors import BrokenError, NotALedgerError
from lowswitch.ledger.events import GENESIS, Event, canonical, read_event

if TYPE_CHECKING:
    from lowswitch.ledger.reading import Reading

# how cells begin that spreadsheets run, also in the wide characters of East Asian keyboards
_RUNS = (*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_PIECE = 1000  # events that are read at once
_HASHED = ("seq", "time", "actor", "role", "kind", "payload", "previous")
_COLUMNS = (*_HASHED, "hash")


def export(ledger: Reading, path: Path, kind: str) -> None:
    """Write the events to a file, completely or not at all."""
    with replacing(path, private=True) as file:
        for line in exported(ledger, kind):
            file.write(line.encode())


def exported(ledger: Reading, kind: str) -> Iterator[str]:
    """The events as lines of text, read in pieces, so that a slow reader blocks nobody."""
    require_word("kind", kind, ("jsonl", "csv"))
    total, _ = ledger.store.head()
    if kind == "csv":
        yield cells(list(_COLUMNS))
    for first in range(1, total + 1, _PIECE):
        piece = list(itertools.islice(ledger.events(first), min(_PIECE, total + 1 - first)))
        for event in piece:
            yield _line(event) if kind == "jsonl" else _row(event)


def _row(event: Event) -> str:
    values = [event.time, event.actor, event.role, event.kind, canonical(event.payload)]
    return cells([event.seq, *map(harmless, values), event.previous, event.hash])


def cells(values: list[Any]) -> str:
    """A line of a table, with commas between its cells."""
    line = io.StringIO(newline="")
    csv.writer(line).writerow(values)
    return line.getvalue()


def _line(event: Event) -> str:
    facts = {name: getattr(event, name) for name in _COLUMNS}
    return json.dumps(facts, ensure_ascii=False, allow_nan=False) + "\n"


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_RUNS) else text


# ---- reading -------------------------------------------------------------------------------------


def is_export(address: str | Path) -> bool:
    """Whether an address is a file of exported events rather than a database."""
    try:
        with open(address, "rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


class Exported:
    """The events in a file of JSON lines."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._places = array("q", [0])  # where each line begins, and where the last one ends
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    self._places.append(self._places[-1] + len(line))
        except OSError as error:
            raise NotALedgerError(f"cannot read {str(path)!r}: {error.strerror}") from None
        self.total = len(self._places) - 1

    def events(self, first: int = 1) -> Iterator[Event]:
        """The events from a number on, each checked to follow the one before it."""
        previous = GENESIS
        with open(self.path, "rb") as file:
            if first > 1:
                file.seek(self._places[first - 2])
                previous = _row_of(file.readline(), first - 1)[2]
            file.seek(self._places[first - 1])
            for expected, line in enumerate(file, start=first):
                read = read_event(*_row_of(line, expected), expected, previous)
                previous = read.hash
                yield read


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no field occurs twice, since programs disagree on which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a field twice")
    return found


def _row_of(line: bytes, expected: int) -> tuple[int, str, str, str]:
    """An exported event as it was stored."""
    try:
        facts = json.loads(line, object_pairs_hook=_once)
        body = canonical([facts[name] for name in _HASHED])
        if len(facts) != len(_COLUMNS) or not isinstance(facts["hash"], str):
            raise ValueError("it has other fields than an event")
        return facts["seq"], body, facts["hash"], facts["kind"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BrokenError(expected, f"its line is not an exported event ({error})") from None
