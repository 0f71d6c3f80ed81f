"""Lists and tables that somebody pastes: which cells of them name cases."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from lowswitch.ledger import LedgerError
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.store import StoredTicket

_MOST = 100_000  # characters, fewer than a cell of the csv module may have
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_NUMBER = re.compile(r"[\d,]+")
_SPACED = re.compile(r"\d[\d,]*(?:,?\s+\d[\d,]*)+")  # such as 1,153, 1,154
_PAIRS = re.compile(r"\d{1,3},\d{3}(?:,\d{1,3},\d{3})+")


class Found(NamedTuple):
    """The tickets that a list names."""

    called: dict[str, list[StoredTicket]]  # by each name; empty where nobody is called so
    ignored: int = 0  # cells of a table that are not in the column of names

    @property
    def unknown(self) -> list[str]:
        """The names that nobody has."""
        return [name for name, found in self.called.items() if not found]

    @property
    def numbers(self) -> list[int]:
        """The numbers of all tickets, in order."""
        return sorted({one.number for found in self.called.values() for one in found})


def lines_of(text: str) -> list[list[str]]:
    """The cells of each line, which tabs, semicolons or commas separate; without blank lines."""
    if len(text) > _MOST:
        raise LedgerError(
            f"what you pasted has {len(text):,} characters, and {_MOST:,} are taken at once; send"
            " it in parts"
        )
    found = list[list[str]]()
    for line in text.splitlines():
        whole = line.strip().rstrip(",")
        if _THOUSANDS.fullmatch(whole) or _SPACED.fullmatch(whole):
            found.append([one.rstrip(",") for one in whole.split()])
            continue
        mark = next((one for one in "\t;" if one in line), ",")
        cells = [cell.strip() for row in csv.reader([line], delimiter=mark) for cell in row]
        if any(cells):
            found.append(cells)
    return found


def names_in(ledger: Reading, text: str) -> Found:
    """The cases that a pasted text names, by ticket, name or number.

    Names may stand in lines, or beside each other with commas, semicolons, tabs or spaces between
    them. Of a table one column counts: by its heading, or the first.
    """
    rows, columns = _without_heading(lines_of(text), ledger.terms.word("episode"))
    every = [cell for row in rows for cell in row if cell]
    words = [word for cell in every for word in re.split(r"[\s,]+", cell) if word]
    called = ledger.tickets_called(list(dict.fromkeys([*every, *words])))
    _require_clear(ledger, text, called)

    def of(names: Sequence[str], ignored: int = 0) -> Found:
        return Found({name: called[name] for name in names}, ignored)

    tables = list[Found]()
    for column in columns or [0]:
        names = [row[column] for row in rows if len(row) > column and row[column]]
        tables.append(of(names, len(every) - len(names)))
    table = next((one for one in tables if one.called and not one.unknown), tables[0])
    if columns:
        return table
    if table.ignored:
        return of(every) if _is_list(rows, called) else table
    return of(words) if table.unknown and _one_kind(words, called) else table


def names_among(ledger: Reading, line: str) -> Found:
    """The same of one line that is no table: whatever in it names a case counts, and the rest is
    unknown. Nothing is found if nothing in it does.
    """
    parts = re.split(r"[\t;]|,(?!\d)", line)  # a comma may stand in a number
    cells = [part.strip() for part in parts if part.strip()]
    words = [word for cell in cells for word in cell.split()]
    called = ledger.tickets_called(list(dict.fromkeys([*cells, *words])))
    names = list[str]()
    for cell in cells:
        inside = cell.split()
        names += [cell] if called[cell] or not any(called[one] for one in inside) else inside
    some = any(called[name] for name in names)
    return Found({name: called[name] for name in names} if some else {})


def _require_clear(ledger: Reading, text: str, called: dict[str, list[StoredTicket]]) -> None:
    """Refuse numbers such as 1,153,1,154, which could be two or four of them."""
    for line in text.split():
        if _PAIRS.fullmatch(line) and all(called.get(one) for one in line.split(",")):
            pairs = re.findall(r"\d+,\d+", line)
            if all(ledger.tickets_called(pairs).values()):
                several = f"{len(pairs)} or {2 * len(pairs)} numbers"
                raise LedgerError(f"{line} can be {several}; write one number in each line")


def _without_heading(lines: list[list[str]], case: str) -> tuple[list[list[str]], list[int]]:
    """The lines below a heading, if there is one, and the columns that name cases.

    Without a heading, empty columns at the left are dropped.
    """
    head = [cell.lower() for cell in lines[0]] if lines else []
    named = [name for name in ("ticket", case.lower(), "number") if name in head]
    if named:
        return lines[1:], [head.index(name) for name in named]
    begin = min((next(i for i, cell in enumerate(row) if cell) for row in lines), default=0)
    return [row[begin:] for row in lines], []


def _is_list(rows: list[list[str]], called: dict[str, list[StoredTicket]]) -> bool:
    """Whether cells beside each other are names, and not facts about the first one.

    Numbers beside each other in several lines of one length are taken for facts, such as an age.
    """
    beside = [cell for row in rows for cell in row[1:] if cell]
    if _NUMBER.fullmatch(rows[0][0]):
        is_table = len(rows) > 1 and len({len(row) for row in rows}) == 1
        return not is_table and all(map(_NUMBER.fullmatch, beside))
    known = sum(bool(called[cell]) and not _NUMBER.fullmatch(cell) for cell in beside)
    return known > len(beside) / 3


def _one_kind(names: Sequence[str], called: dict[str, list[StoredTicket]]) -> bool:
    """Whether somebody is called by each of these names, and all or none of them are numbers."""
    kinds = {_NUMBER.fullmatch(name) is not None for name in names}
    return len(kinds) == 1 and all(called[name] for name in names)
