"""The page on which many reports are corrected at once, from a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.exports import cells, harmless
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.state import LEARNED, OPEN, STATUSES, WAITING
from lowswitch.ledger.store import StoredTicket
from lowswitch.ledger.terms import Terms
from lowswitch.service import display
from lowswitch.service.amendments import changed_since, consequences, not_planned, still_open
from lowswitch.service.api import download
from lowswitch.service.app import Call, as_refusal
from lowswitch.service.bodies import MOST_AT_ONCE, MOST_DIGITS, RefusedError, query
from lowswitch.service.entries import COLUMNS, Entry, reward_error, spelled
from lowswitch.service.pasting import MOST_PASTED, Lines, headed, rows_in, which
from lowswitch.service.render import filled_in, is_by_enter, show
from lowswitch.service.reports import LOST, few, looked_for
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import two_steps
from lowswitch.show.text import counted, plural

_MOST_VALUES = 1000  # that one page shows
_MOST_STILL = 3  # reports of which it says that something in them is open still
_LINE = 100  # characters that a line of the table has about
_AT_ONCE = 200  # tickets that are read together
_ENDED, _SEEN = "how it ended", "report"  # headings that no run renames


def headings(terms: Terms) -> list[str]:
    """The columns of the table, in the words of the run."""
    words = [terms.word(name) for name in ("episode", "step", *COLUMNS)]
    return ["ticket", "site", *words, _ENDED, _SEEN]


# ---- the table -----------------------------------------------------------------------------------


async def report_table(call: Call) -> Response:
    """The reports of these tickets as a table, one line for each step."""
    asked = query(call.request, "status", "site", "search")
    status, search, site = asked.get("status"), asked.get("search", ""), asked.get("site")
    if status not in (None, *STATUSES):
        raise RefusedError(400, f"status must be one of {', '.join(STATUSES)}, not {status!r}")

    def lines(reader: Ledger) -> Iterator[str]:
        yield cells([harmless(one) for one in headings(reader.terms)])
        last, steps = 0, reader.terms.labels["step"]
        while found := looked_for(reader, status, site, _AT_ONCE, last, search)[0]:
            last = found[-1].number
            for one in found:
                if one.status in (LEARNED, WAITING):
                    known, report = reader.report_of(one.ticket)
                    yield from _lines_of(known, Entry.of(report, len(steps)), steps)

    return download(call, "reports.csv", lines)


def _lines_of(ticket: StoredTicket, entry: Entry, steps: Sequence[str]) -> Iterator[str]:
    """The lines of one report."""
    for line in entry.lines(steps):
        values = [harmless(line[name]) for name in ("step", *COLUMNS)]
        if line["state"]:
            named = [ticket.ticket, harmless(ticket.site), harmless(ticket.request)]
            ended = display.ENDINGS[entry.ended]
            yield cells([*named, *values, ended, ticket.report])


class Line(NamedTuple):
    """A line of a table: which report and step, and the values that are filled in."""

    number: int  # of the line, from 1
    ticket: StoredTicket
    step: int
    values: dict[str, str]


class Row(NamedTuple):
    """The right report of a ticket, by a table."""

    ticket: StoredTicket
    old: Entry
    new: Entry
    seen: int | None  # the event with the report that the table was made from
    line: int  # the first one about it


def read_table(ledger: Reading, text: str) -> list[Row]:
    """The reports in a table with headings. Cells that are empty stay as they are on record."""
    rows, terms = rows_in(text), ledger.terms
    if len(rows) < 2:
        raise RefusedError(422, "paste a table with a line of headings and a line for each value")
    known = {name.lower(): name for name in headings(terms)}
    head, lines = headed(rows, known)
    if unknown := [cell for cell in head if cell not in known]:
        raise RefusedError(
            422, f"there is no column {unknown[0]!r}; the headings are {', '.join(known)}"
        )
    case, step = (terms.word(name).lower() for name in ("episode", "step"))
    if not {"ticket", case} & {*head}:
        raise RefusedError(422, f"the table has no column {case!r}, and none of tickets")
    if step not in head and {*head} - {"ticket", "site", case, _ENDED, _SEEN}:
        raise RefusedError(422, f"the table has no column {step!r}")
    return _merged(ledger, _read_lines(ledger, lines))


def _read_lines(ledger: Reading, rows: Lines) -> list[Line]:
    """The lines of a table; all errors in it are told together."""
    terms, case = ledger.terms, ledger.terms.word("episode").lower()
    names = [[row[one] for one in ("ticket", case) if row.get(one)] for _, row in rows]
    called = ledger.tickets_called(list(dict.fromkeys(itertools.chain(*names))))
    steps = [one.lower() for one in terms.labels["step"]]
    steps.append(f"after {steps[-1]}")
    found, wrong = list[Line](), list[str]()
    for some, (number, row) in zip(names, rows, strict=True):
        site, step = row.get("site", ""), row.get(terms.word("step").lower(), "").lower()
        fits, why = which(some, site, called, case) if some else ([], f"it names no {case}")
        values = {
            part: spelled(terms, part, row.get(terms.word(part).lower(), "")) for part in COLUMNS
        }
        values |= {part: row.get(part, "") for part in (_ENDED, _SEEN)}
        if len(fits) != 1:
            many = f"fits {len(fits)} {plural(case)}; add the site or the ticket"
            wrong.append(f"line {number}: {why or f'{some[0]!r} {many}'}")
        elif fits[0].status == OPEN:
            wrong.append(
                f"line {number}: the report of {some[-1]} is open, and its site can send it"
            )
        elif step and step not in steps:
            wrong.append(f"line {number}: there is no {terms.word('step')} {step!r}")
        elif not step and any(values[part] for part in COLUMNS):
            wrong.append(f"line {number} has no {terms.word('step')}")
        elif why := " and ".join(_errors(terms, values)):
            wrong.append(f"line {number}: {why}")
        else:
            found.append(Line(number, fits[0], steps.index(step) if step else 0, values))
    if wrong := wrong or _twice(terms, found):
        raise RefusedError(422, few(wrong))
    return found


def _errors(terms: Terms, values: dict[str, str]) -> Iterator[str]:
    """What is wrong with the values of one line."""
    for part, read in (("state", terms.read_state), ("action", str)):
        try:
            if values[part] and part in terms.labels:
                terms.index(part, read(values[part]))
        except LedgerError as error:
            yield str(error)
    if values["reward"] and (why := reward_error(terms, values["reward"])):
        yield why


def _twice(terms: Terms, lines: list[Line]) -> list[str]:
    """The lines that give a value which another line gives differently."""
    first, wrong = dict[tuple[int, int, str], tuple[int, str]](), list[str]()
    steps = terms.labels["step"]
    for number, ticket, step, values in lines:
        where = f"{steps[step]} of" if step < len(steps) else "the end of"
        for name, value in values.items():
            at = -1 if name in (_ENDED, _SEEN) else step  # these are of the whole report
            key = ticket.number, at, name
            before, said = first.setdefault(key, (number, value)) if value else (number, value)
            if said != value:
                word = terms.word(name) if name in COLUMNS else name
                whose = ticket.request if at < 0 else f"{where} {ticket.request}"
                wrong.append(
                    f"line {number}: {word} of {whose} is {value!r}, but {said!r} in line {before}"
                )
    return wrong


def _merged(ledger: Reading, lines: list[Line]) -> list[Row]:
    """The report on record of each ticket in a table, and the right one."""
    found, steps = dict[int, Row](), ledger.terms.size("step")
    endings = {said: name for name, said in display.ENDINGS.items()}
    for number, ticket, step, values in lines:
        if ticket.number not in found:
            old = Entry.of(ledger.report_of(ticket.ticket)[1], steps)
            found[ticket.number] = Row(ticket, old, old.copied(), None, number)
        row = found[ticket.number]
        for column, part in zip(row.new[:3], COLUMNS, strict=True):
            column.extend([""] * (step + 1 - len(column)) if values[part] else [])
            if values[part]:
                column[step] = values[part]
        if ended := values[_ENDED]:
            if ended not in (*endings, *display.ENDINGS):
                said = "; ".join(endings)
                raise RefusedError(422, f"line {number}: how it ended must be one of: {said}")
            row = row._replace(new=row.new._replace(ended=endings.get(ended, ended)))
        seen = values[_SEEN]
        if seen and not (seen.isdecimal() and len(seen) <= MOST_DIGITS):
            raise RefusedError(422, f"line {number}: {seen!r} is not the number of a report")
        found[ticket.number] = row._replace(seen=int(seen) if seen else row.seen)
    return [found[number] for number in sorted(found)]


# ---- the page ------------------------------------------------------------------------------------


async def corrections_form(call: Call) -> Response:
    """The form for a table of corrections."""
    query(call.request)
    return await _form(call)


async def _form(call: Call, wrong: str = "", status: int = 200) -> Response:
    terms = call.service.ledger.terms
    endings = list(display.endings_of(terms).values())
    example = [f"{value:g}" for value in terms.rewards[::-1]]
    facts: dict[str, Any] = {"headings": headings(terms), "endings": endings, "example": example}
    facts |= {"most": MOST_PASTED, "lines": MOST_PASTED // _LINE}
    return await show(call, "corrections.html", "tickets", status, wrong=wrong, **facts)


async def corrections(call: Call) -> Response:
    """Correct many reports: compare old and new, then confirm."""
    if call.field("show") or (not call.field("confirming") and is_by_enter(call)):
        return await _form(call)
    if call.field("confirming"):
        return await _corrections(call)
    try:
        return await _corrections(call)
    except (RefusedError, LedgerError) as error:
        refusal = as_refusal(error)
        return await _form(call, refusal.says, refusal.status)


class Changes(NamedTuple):
    """What a table changes."""

    lines: list[str]  # a line for each report
    reports: list[dict[str, Any]]
    right: list[tuple[StoredTicket, Entry]]
    unplanned: list[str]  # actions that their versions give to nobody
    left_out: list[str]  # reports that changed after the table was made
    same: int  # reports that are on record as the table has them
    relearns: bool


async def _corrections(call: Call) -> Response:
    """Show what a table changes, or confirm it."""
    text = call.field("pasted")
    changes = await call.service.engine.call(lambda: _changes(call, text))
    given = filled_in(call, "reason") | {"reports": changes.reports}

    async def sheet() -> Sheet:
        made = await call.service.engine.call(lambda: _changes(call, text))
        what = counted(len(made.reports), "report")
        same = counted(made.same, "other report", "is", "are")
        lines = [
            f"{what} will be corrected:",
            *made.lines,
            *[f"{same} on record as in your table, and stays."] * (made.same == 1),
            *[f"{same} on record as in your table, and stay."] * (made.same > 1),
            *(await still_open(call, made.right)),
            *(await consequences(call, made.relearns, len(made.reports))),
        ]
        return Sheet(
            f"Correct {what}?",
            f"Correct {what}",
            lines,
            warnings=[*made.left_out, *made.unplanned],
            back="/corrections",
            hint="for example: query 17, answered by the sites",
            bound=[*made.lines, *made.left_out],
        )

    def done(_: Any, made: Sheet) -> tuple[str, str]:
        said = f"{counted(len(changes.reports), 'report', 'is', 'are')} corrected."
        gone = [line.partition(" is left out,")[0] for line in changes.left_out]
        if gone:
            what = counted(len(gone), "other", "was", "were")
            said += f" {what} left out, because of a change after your table was made: {few(gone)}."
        still = [line for line in made.lines if "stays in the list" in line]
        return "/tickets", " ".join([said, *still[:_MOST_STILL]])

    return await two_steps(call, "amend_many", given, sheet, done)


def _changes(call: Call, text: str) -> Changes:
    """What a table changes. A report that changed after the table was made is left out."""
    ledger = call.service.ledger
    terms, found = ledger.terms, Changes([], [], [], [], [], 0, relearns=False)
    same, relearns, values, wrong = 0, False, 0, list[str]()
    for one in read_table(ledger, text):
        known, old, new, seen, _ = one
        name = f"{known.site}, {known.request}"
        changes = new.differences(old, terms, is_new=known.status in LOST)
        if not changes:
            same += 1
            continue
        if seen is not None and (meanwhile := changed_since(ledger, known.ticket, seen)):
            if not _is_untouched(ledger, one):
                found.left_out.append(_left_out(name, meanwhile))
            continue
        try:
            report = {"ticket": known.ticket} | new.given(terms)
            relearns |= ledger.require_correction(**report)
        except (RefusedError, LedgerError) as error:
            wrong.append(f"line {one.line}, {name}: {as_refusal(error).says.rstrip('.')}")
            continue
        values += len(changes)
        said = "; ".join(change.rstrip(".") for change in changes)
        found.lines.append(f"{name}: {said}.")
        found.reports.append(report)
        found.right.append((known, new))
        found.unplanned.extend(f"{name}, {one}" for one in not_planned(call, known, new, old))
    if wrong:
        raise RefusedError(422, few(wrong))
    _require_fit(found, values)
    return found._replace(same=same, relearns=relearns)


def _is_untouched(ledger: Reading, row: Row) -> bool:
    """Whether a table has a report exactly as it was when the table was made."""
    assert row.seen is not None
    _, _, before = ledger.corrected_since(row.ticket.ticket, row.seen)[0]
    steps = ledger.terms.size("step")
    then = None if before is None else Entry.of(before, steps)
    return then is not None and not row.new.differences(then, ledger.terms, is_new=False)


def _left_out(name: str, meanwhile: list[str]) -> str:
    return (
        f"{name} is left out, because its report changed after your table was made. Since then:"
        f" {' '.join(meanwhile)} Correct it by itself, or download the table again."
    )


def _require_fit(found: Changes, values: int) -> None:
    """Refuse a table that changes nothing, or more than one page can show."""
    if not found.reports:
        gone = f"; {found.left_out[0]}" if found.left_out else ""
        raise RefusedError(422, f"your table changes no report{gone}")
    if len(found.reports) > MOST_AT_ONCE or values > _MOST_VALUES:
        raise RefusedError(
            422,
            f"your table changes {counted(values, 'value')} in"
            f" {counted(len(found.reports), 'report')}; at once you can correct"
            f" {_MOST_VALUES:,} values in {MOST_AT_ONCE} reports, so send a part of it first",
        )
