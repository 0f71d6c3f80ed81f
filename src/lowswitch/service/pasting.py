"""Lists and tables that somebody pastes: which cells of them name cases."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from lowswitch.ledger import LedgerError
from lowswitch.ledger.exports import harmless
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.store import StoredTicket
from lowswitch.show.text import counted

MOST_PASTED = 100_000  # characters, fewer than a cell of the csv module may have
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_NUMBER = re.compile(r"[\d,]+")
_SPACED = re.compile(r"\d[\d,]*(?:,?\s+\d[\d,]*)+")  # such as 1,153, 1,154
_QUOTED = re.compile(r'"[^"]*"')
_PAIRS = re.compile(r"\d{1,3},\d{3}(?:,\d{1,3},\d{3})+")


Called = Mapping[str, Sequence[StoredTicket]]  # the tickets that people call by each name


class Found(NamedTuple):
    """The tickets that a list names."""

    called: Called  # by each name; empty where nobody is called so
    ignored: Sequence[str] = ()  # cells that were not read, because they are no names
    entries: int = 0  # names in the list, doubled ones too
    wrong: Sequence[str] = ()  # why the list cannot be taken

    @property
    def unknown(self) -> list[str]:
        """The names that nobody has."""
        return [name for name, found in self.called.items() if not found]

    @property
    def numbers(self) -> list[int]:
        """The numbers of all tickets, in order."""
        return sorted({one.number for found in self.called.values() for one in found})


# ---- lines and cells -----------------------------------------------------------------------------


class Row(NamedTuple):
    """The cells of a line."""

    number: int  # of the line, from 1
    cells: list[str]


def rows_in(text: str, *, lists: bool = False) -> list[Row]:
    """The cells of each line, which tabs, semicolons or commas separate; without blank lines.

    What separates the cells of the first line does so in all lines that have it. lists: a line can
    be a list of numbers, which may have commas in them.
    """
    if len(text) > MOST_PASTED:
        raise LedgerError(
            f"what you pasted has {len(text):,} characters, and {MOST_PASTED:,} are taken at once;"
            " send it in parts, each with the line of headings, or leave out lines that you did"
            " not change"
        )
    found, first = list[Row](), ""
    for number, line in enumerate(text.splitlines(), start=1):
        whole = line.strip().rstrip(",")
        if lists and (_THOUSANDS.fullmatch(whole) or _SPACED.fullmatch(whole)):
            found.append(Row(number, [one.rstrip(",") for one in whole.split()]))
            continue
        plain = _QUOTED.sub("", line)
        mark = next((one for one in (first, "\t", ";") if one and one in plain), ",")
        cells = [_clean(cell.strip()) for row in csv.reader([line], delimiter=mark) for cell in row]
        if any(cells):
            first = first or (mark if mark in plain and not found else "")
            found.append(Row(number, cells))
    return found


def _clean(cell: str) -> str:
    """A cell without the mark that keeps spreadsheets from reading it as a formula."""
    return cell[1:] if len(cell) > 1 and harmless(cell[1:]) == cell else cell


Lines = list[tuple[int, dict[str, str]]]  # the number of each, and its cells by their headings


def headed(rows: Sequence[Row], known: Collection[str]) -> tuple[list[str], Lines]:
    """The headings of a table, and the lines below them.

    known: the headings that are read. A cell without a heading, and a heading that is there twice,
    are refused: somebody meant something by them.
    """
    head = [cell.lower() for cell in rows[0].cells]
    while not head[-1]:
        head.pop()
    if twice := [one for one in head if one in known and head.count(one) > 1]:
        raise LedgerError(f"the heading “{twice[0]}” is there twice; leave one of the columns out")
    for number, cells in rows[1:]:
        if more := [cell for cell in cells[len(head) :] if cell]:
            raise LedgerError(
                f"line {number} has {counted(len(cells), 'cell')}, and only"
                f" {counted(len(head), 'heading')} {'is' if len(head) == 1 else 'are'} above it:"
                f" {more[0]!r} is too much. If a comma belongs to a number or a name, separate the"
                " cells with tabs or semicolons; decimals have a point, such as 1.5"
            )
    return head, [(number, dict(zip(head, cells, strict=False))) for number, cells in rows[1:]]


# ---- who is meant --------------------------------------------------------------------------------


def which(
    names: Sequence[str], site: str, called: Called, case: str
) -> tuple[list[StoredTicket], str]:
    """The tickets that fit all names of one line, and its site if it has one; or why none does."""
    fits, first = list(called[names[0]]), names[0]
    for name in names:
        both = [one for one in fits if one in called[name] or _is_named(one, name)]
        if not (called[name] or both):
            return [], f"{name!r} is no {case} of this run"
        if not both:
            return [], f"{first!r} is {_shown(fits)}, and not {name!r}"
        fits = both
    at = [one for one in fits if one.site == site]
    here = at or [one for one in fits if not site or one.site.lower() == site.lower()]
    return (here, "") if here else ([], f"{first!r} is {_shown(fits)}, and not of the site {site}")


def _is_named(ticket: StoredTicket, name: str) -> bool:
    """Whether a cell, which has no blanks at its ends, has the name of a ticket's case."""
    return ticket.request.strip().lower() == name.lower()


def _shown(fits: Sequence[StoredTicket]) -> str:
    """The first of some cases, by site and name."""
    names = [f"{one.site}, {one.request}" for one in fits[:3]]
    return " or ".join(names) + (" or another" if len(fits) > len(names) else "")


def names_in(ledger: Reading, text: str) -> Found:
    """The cases that a pasted text names, by ticket, name or number.

    Names may stand in lines, or beside each other with commas, semicolons, tabs or spaces between
    them. Of a table with headings the columns of tickets, names, numbers and sites count, and must
    agree; of a table without them the first column. What can be read in two ways is refused.
    """
    rows, case = rows_in(text, lists=True), ledger.terms.word("episode")
    if rows and {"ticket", case.lower(), "number"} & {cell.lower() for cell in rows[0].cells}:
        return _by_heading(ledger, rows, case)
    return _by_place(ledger, rows, text)


def _by_heading(ledger: Reading, rows: Sequence[Row], case: str) -> Found:
    """The cases in a table with headings, one in each line."""
    columns = [case.lower(), "ticket", "number"]
    _, lines = headed(rows, (*columns, "site"))
    named = [
        (number, [line[one] for one in columns if line.get(one)], line.get("site", ""))
        for number, line in lines
    ]
    called = ledger.tickets_called(list(dict.fromkeys(one for _, some, _ in named for one in some)))
    found, wrong, read = dict[str, list[StoredTicket]](), list[str](), set[str]()
    for number, some, site in named:
        names = [one for one in some if called[one]] or some[:1]  # not “history 12ab”
        if not names:
            wrong.append(f"line {number} names no {case}")
            continue
        read |= {*names, site}
        fits, why = which(names, site, called, case)
        if why and called[names[0]]:
            wrong.append(f"line {number}: {why}")
        else:
            found[f"{site}, {names[0]}" if site and fits else names[0]] = fits
    ignored = [cell for _, line in lines for cell in line.values() if cell and cell not in read]
    return Found(found, ignored, len(named), wrong)


def _by_place(ledger: Reading, rows: Sequence[Row], text: str) -> Found:
    """The cases in a list, or in the first column of a table without headings."""
    begin = min((next(i for i, one in enumerate(row.cells) if one) for row in rows), default=0)
    lines = [row.cells[begin:] for row in rows]
    every = [cell for cells in lines for cell in cells if cell]
    words = [word for cell in every for word in re.split(r"[\s,]+", cell) if word]
    called = ledger.tickets_called(list(dict.fromkeys([*every, *words])))
    _require_clear(ledger, text, called)

    def of(names: Sequence[str]) -> Found:
        return Found({name: called[name] for name in names}, entries=len(names))

    first = of([cells[0] for cells in lines if cells[0]])
    if first.entries == len(every):
        return of(words) if first.unknown and _one_kind(words, called) else first
    if _is_list(lines, called):
        return of(every)
    beside = [(cells[0], cell) for cells in lines for cell in cells[1:] if cell]
    case = ledger.terms.word("episode")
    wrong = [
        f"{cell!r} stands beside {name!r}, and is a {case}, too ({_shown(called[cell])}). If you"
        f" mean both, write one {case} in each line. If not, put a line of headings above, such as"
        f" “{case}, age”"
        for name, cell in beside
        if called[cell] and not {*called[cell]} & {*called.get(name, ())}
    ]
    return first._replace(ignored=[cell for _, cell in beside], wrong=wrong[:1])


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


def _require_clear(ledger: Reading, text: str, called: Called) -> None:
    """Refuse numbers such as 1,153,1,154, which could be two or four of them."""
    for line in text.split():
        if _PAIRS.fullmatch(line) and all(called.get(one) for one in line.split(",")):
            pairs = re.findall(r"\d+,\d+", line)
            if all(ledger.tickets_called(pairs).values()):
                several = f"{len(pairs)} or {2 * len(pairs)} numbers"
                raise LedgerError(f"{line} can be {several}; write one number in each line")


def _is_list(lines: list[list[str]], called: Called) -> bool:
    """Whether cells beside each other are names, and not facts about the first one.

    Numbers beside each other in several lines of one length are taken for facts, such as an age.
    """
    beside = [cell for cells in lines for cell in cells[1:] if cell]
    if _NUMBER.fullmatch(lines[0][0]):
        is_table = len(lines) > 1 and len({len(cells) for cells in lines}) == 1
        return not is_table and all(map(_NUMBER.fullmatch, beside))
    known = sum(bool(called[cell]) and not _NUMBER.fullmatch(cell) for cell in beside)
    return known > len(beside) / 3


def _one_kind(names: Sequence[str], called: Called) -> bool:
    """Whether somebody is called by each of these names, and all or none of them are numbers."""
    kinds = {_NUMBER.fullmatch(name) is not None for name in names}
    return len(kinds) == 1 and all(called[name] for name in names)
