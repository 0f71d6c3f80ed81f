"""The pages of reports: which ones are open, which will never come, and which were wrong."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.responses import Response

from lowswitch.ledger import Ledger, LedgerError, UnknownTicketError
from lowswitch.ledger.events import Event
from lowswitch.ledger.exports import cells, harmless
from lowswitch.ledger.responses import TicketView
from lowswitch.ledger.state import MISSING, OPEN, REFUSED, STATUSES
from lowswitch.ledger.store import StoredTicket
from lowswitch.ledger.terms import Terms
from lowswitch.service import display, standing
from lowswitch.service.api import download
from lowswitch.service.app import Call, as_refusal, now
from lowswitch.service.bodies import RefusedError, count, query
from lowswitch.service.render import catch_up, filled_in, is_by_enter, show
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import known_of, two_steps
from lowswitch.show.text import age, counted

_COLUMNS = ("state", "action", "reward")  # of a report
_LOST = (MISSING, REFUSED)
_TABS = {one: one for one in STATUSES} | {REFUSED: "came too late"}
_DONE = {"Correct": "corrected", "Enter": "entered"}
_LISTED = 200  # tickets on the page
_MOST_NAMED = 10  # names that nobody has, in one message
_VIEW = ("status", "site", "days", "select", "after", "search")  # which of them the page shows


# ---- lists ---------------------------------------------------------------------------------------


async def tickets(call: Call) -> Response:
    """The tickets of a status, to filter, to select and to settle; or those that are looked for."""
    return await _tickets(call, query(call.request, *_VIEW))


async def _tickets(
    call: Call, asked: dict[str, str], wrong: str = "", status: int = 200
) -> Response:
    """The page, with what is selected on it so far."""
    service, ledger, search = call.service, call.service.ledger, asked.get("search", "")
    chosen, site = asked.get("status", OPEN), asked.get("site")
    if chosen not in STATUSES:
        raise RefusedError(400, f"status must be one of {', '.join(STATUSES)}, not {chosen!r}")
    days, start = count(asked, "days", 0, 10**5), count(asked, "after", 0, 10**15)

    await catch_up(call)
    contradicted = dict(service.journal.contradicted) if chosen == OPEN and not search else {}

    def read() -> dict[str, Any]:
        which = None if search else chosen
        found = ledger.list_tickets(which, site=site, most=_LISTED + 1, after=start, part=search)
        listed = _older(found, days)
        settled = ledger.settled_by([one.ticket for one in listed if one.status in _LOST])
        return {
            "run": ledger.status(),
            "tickets": listed[:_LISTED],
            "more": len(listed) > _LISTED,
            "settled": settled,
            "owing": ledger.open_by_site() if which == OPEN else [],
            "contradicted": [
                (one, contradicted[one.number])
                for one in ledger.tickets_numbered([*contradicted][-_LISTED:])
            ],
        }

    facts = await service.engine.call(read)
    run, listed = facts["run"], facts["tickets"]
    ticked = _ticked(call, listed, asked.get("select", ""))
    here = {one.ticket for one in listed}
    counts = {"open": run.open + run.frozen_out}
    return await show(
        call,
        "tickets.html",
        "tickets",
        status,
        **facts,
        status_now=chosen,
        statuses=[(one, _TABS[one], counts.get(one, getattr(run, one))) for one in STATUSES],
        tabs=_TABS,
        site=site or "",
        sites=sorted(service.journal.sites),
        days=days,
        search=search,
        start=start,
        ticked=ticked,
        elsewhere=[one for one in ticked if one not in here],
        wrong=wrong,
    )


def _older(found: list[TicketView], days: int) -> list[TicketView]:
    """The tickets that were asked for so many days ago or earlier."""
    before = (now() - timedelta(days=days)).isoformat()
    return [one for one in found if not days or one.asked <= before]


def _ticked(call: Call, listed: list[TicketView], select: str) -> list[str]:
    """The tickets that are selected: those so far, all that are listed too, or none."""
    if select == "none":
        return []
    more = [one.ticket for one in listed] if select == "all" else []
    return list(dict.fromkeys([value for name, value in call.fields if name == "ticket"] + more))


async def ticket_list(call: Call) -> Response:
    """The same tickets as a table for a spreadsheet, all of them."""
    asked = query(call.request, "status", "site", "days", "search")
    search = asked.get("search", "")
    status, days = asked.get("status", OPEN), count(asked, "days", 0, 10**5)
    if status not in STATUSES:
        raise RefusedError(400, f"status must be one of {', '.join(STATUSES)}, not {status!r}")

    case, site = call.service.ledger.terms.word("episode"), asked.get("site")

    def lines(reader: Ledger) -> Iterator[str]:
        declared = ["declared missing", "by", "reason"]
        yield cells(["ticket", "number", "site", harmless(case), "enrolled", "status", *declared])
        last, which = 0, None if search else status
        while found := reader.list_tickets(which, site=site, most=_LISTED, after=last, part=search):
            last = found[-1].number
            settled = reader.settled_by([one.ticket for one in found if one.status in _LOST])
            for one in _older(found, days):
                named, event = [harmless(one.site), harmless(one.request)], settled.get(one.ticket)
                why = [""] * 3
                if event is not None:
                    reason = harmless(event.payload.get("reason", ""))
                    why = [event.time, harmless(event.actor), reason]
                yield cells([one.ticket, one.number, *named, one.asked, one.status, *why])

    return download(call, f"reports-{'found' if search else status}.csv", lines)


# ---- reports that will never come ----------------------------------------------------------------


async def missing(call: Call) -> Response:
    """Declare that reports will never come: select tickets or paste them, then confirm."""
    if _asks_for_view(call):
        return await _tickets(call, _view(call))
    if call.field("confirming"):
        return await _missing(call)
    try:
        return await _missing(call)
    except (RefusedError, LedgerError) as error:
        refusal = as_refusal(error)
        return await _tickets(call, _view(call), refusal.says, refusal.status)


def _asks_for_view(call: Call) -> bool:
    """Whether a form asks for the list again, with the same selection, and for nothing else."""
    return bool(call.field("show")) or (not call.field("confirming") and is_by_enter(call))


def _view(call: Call) -> dict[str, str]:
    """Which part of the list a form was on, or asks for."""
    wanted = dict(call.fields) | dict(parse_qsl(call.field("show"), keep_blank_values=True))
    return {name: wanted[name] for name in _VIEW if wanted.get(name)}


async def _missing(call: Call) -> Response:
    """See which reports are declared missing, or confirm it."""
    ledger = call.service.ledger
    chosen = [value for name, value in call.fields if name == "ticket"]
    pasted = pasted_names(call.field("pasted"))
    called = await call.service.engine.call(lambda: ledger.tickets_called(pasted))
    chosen += _one_each(called, ledger.terms.word("episode"))
    given = filled_in(call, "reason") | {"tickets": list(dict.fromkeys(chosen))}

    async def sheet() -> Sheet:
        found = await call.service.engine.call(lambda: ledger.tickets_named(given["tickets"]))
        if not given["tickets"]:
            raise LedgerError("no ticket is selected; select those whose reports will never come")
        if unknown := {*given["tickets"]} - {one.ticket for one in found}:
            ticket = next(one for one in given["tickets"] if one in unknown)
            raise UnknownTicketError(f"no ticket {ticket!r} was issued by this ledger")
        means = {
            "drop": "The learner goes on without them.",
            "optimistic": "The learner assumes the best outcome for them.",
            "hold": "Later reports wait until each of them is settled.",
        }[ledger.terms.missing]
        case, what = ledger.terms.word("episode"), counted(len(found), "report")
        (last,) = await call.service.engine.call(
            lambda: ledger.list_tickets(None, after=found[-1].number - 1, most=1)
        )
        lines = [
            f"{what} will be recorded as missing.",
            *_by_site(found),
            f"The newest of them was enrolled {age(last.asked)}, on {display.clock(last.asked)}.",
            means,
            f"If a report comes later after all, an operator can enter it for its {case}.",
        ]
        return Sheet(
            f"Declare {what} missing?",
            f"Declare {what} missing",
            lines,
            back="/tickets",
            css="stop",
            hint="for example: lost to follow-up",
        )

    def done(*_: Any) -> tuple[str, str]:
        what = counted(len(given["tickets"]), "report", "is", "are")
        return "/tickets", f"{what} recorded as missing."

    return await two_steps(call, "missing_many", given, sheet, done)


def pasted_names(text: str) -> list[str]:
    """The first cell of each line of a table, without the heading that our own list has."""
    names = list[str]()
    for line in text.splitlines():
        mark = next((one for one in "\t;" if one in line), ",")
        names += [row[0].strip() for row in csv.reader([line], delimiter=mark) if row]
    return list(dict.fromkeys(name for name in names if name and name != "ticket"))


def _one_each(called: dict[str, list[StoredTicket]], case: str) -> list[str]:
    """The tickets that somebody named, each of which must be one and be open."""
    unknown = [name for name, found in called.items() if not found]
    if unknown:
        shown = ", ".join(map(repr, unknown[:_MOST_NAMED]))
        rest = len(unknown) - _MOST_NAMED
        more = f" and {rest:,} more" if rest > 0 else ""
        raise UnknownTicketError(
            f"no {case} and no ticket is called {shown}{more}; nothing was selected from your list"
        )
    for name, found in called.items():
        if len(found) > 1:
            sites = ", ".join(one.site for one in found[:_MOST_NAMED])
            raise LedgerError(f"{name!r} is a {case} of several sites ({sites}); give the ticket")
        if found[0].status != OPEN:
            where = f"{found[0].site}, {found[0].request}"
            raise LedgerError(f"the report of {where} is not open, but {_TABS[found[0].status]}")
    return [found[0].ticket for found in called.values()]


def _by_site(found: Sequence[StoredTicket]) -> list[str]:
    """All of some tickets, a line for each site."""
    sites = dict.fromkeys(one.site for one in found)
    return [
        f"{site}: {', '.join(one.request for one in found if one.site == site)}." for site in sites
    ]


# ---- corrections ---------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A report as a form shows it and as somebody fills it in: a text for each step, or none."""

    states: list[str]
    actions: list[str]
    rewards: list[str]
    ended: str

    @classmethod
    def of(cls, report: dict[str, Any], steps: int) -> Entry:
        """The report with these labels and rewards."""
        rewards = [f"{one:.15g}" for one in report["rewards"]]
        ended = report["ended"] if report["ended"] in display.ENDINGS else "whole"
        states, actions, paid = (
            [*values, *[""] * (steps - len(values))]
            for values in (report["states"], report["actions"], rewards)
        )
        return cls(states, actions, paid, ended)

    @classmethod
    def typed(cls, call: Call) -> Entry:
        """What the fields of a form say."""
        states, actions, rewards = (
            [value.strip() for key, value in call.fields if key == one] for one in _COLUMNS
        )
        return cls(states, actions, rewards, call.field("ended") or "whole")

    def lines(self, steps: Sequence[str]) -> list[dict[str, str]]:
        """A line of the form for each step, and one for a state that was seen after the last."""
        names = [*steps, f"after {steps[-1]}"]
        shown = max(len(steps), len(self.states))
        return [
            {"step": name} | {one: _at(self[i], h) for i, one in enumerate(_COLUMNS)}
            for h, name in enumerate(names[:shown])
        ]

    def said(self, steps: Sequence[str]) -> str:
        """The report in one line, step by step, and how it ended if not as usual."""
        shown = [
            f"{line['step']} {', '.join(line[one] for one in _COLUMNS if line[one])}"
            for line in self.lines(steps)
            if line["state"]
        ]
        return "; ".join([*shown, *[display.ENDINGS[self.ended]] * (self.ended != "whole")])

    def given(self, terms: Terms) -> dict[str, Any]:
        """The arguments of `amend`; refused in the words of the form if it is no report."""
        if wrong := self._wrong(terms):
            raise RefusedError(422, wrong)
        return {
            "states": [terms.read_state(one) for one in self.states if one],
            "actions": [one for one in self.actions if one],
            "rewards": [float(one) for one in self.rewards if one],
            "ended": self.ended,
        }

    def _wrong(self, terms: Terms) -> str:
        """What is wrong with the fields, at the first step where something is."""
        steps, words = terms.labels["step"], [terms.word(name) for name in _COLUMNS]
        lines, is_over = self.lines(steps), False
        for h, line in enumerate(lines):
            filled = [bool(line[name]) for name in _COLUMNS]
            if is_over and any(filled):
                before = lines[h - 1]["step"]
                return f"{line['step']} is filled in, but {before} is not complete before it"
            if any(filled[1:]) and not all(filled):
                lacks = words[filled.index(False)]
                return f"{line['step']} has no {lacks}; fill in the whole line, or none of it"
            is_over = not all(filled)
            if filled[2] and not _is_number(line["reward"]):
                return (
                    f"{line['step']}: {line['reward']!r} is no number; write a point before"
                    " decimals, such as 1.5"
                )
        if self.ended not in display.ENDINGS:
            return f"choose how it ended: {', '.join(display.ENDINGS)}"
        seen = sum(map(bool, self.rewards))
        if seen < len(steps) and self.ended == "whole":
            case, visits = terms.word("episode"), counted(len(steps), terms.word("step"))
            return (
                f"only {seen} of {visits} are filled in; if this {case} was not seen to the end,"
                " say so below"
            )
        return ""

    def differences(self, old: Entry, terms: Terms) -> list[str]:
        """What this report changes in another one, step by step, in the words of the run."""
        steps, found = terms.labels["step"], list[str]()
        for h, step in enumerate([*steps, f"after {steps[-1]}"]):
            for name, values, olds in zip(_COLUMNS, self[:3], old[:3], strict=True):
                new, before = _at(values, h), _at(olds, h)
                if new != before and not _same_number(new, before):
                    found.append(
                        f"{step}, {terms.word(name)}: {before or 'nothing'} → {new or 'nothing'}."
                    )
        if self.ended != old.ended:
            found.append(
                f"How it ended: {display.ENDINGS[old.ended]} → {display.ENDINGS[self.ended]}."
            )
        return found


def _at(values: Sequence[str], h: int) -> str:
    return values[h] if h < len(values) else ""


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _same_number(first: str, second: str) -> bool:
    """Whether two texts say the same number, such as 4 and 4.0."""
    return _is_number(first) and _is_number(second) and float(first) == float(second)


async def amend_form(call: Call) -> Response:
    """The report of a ticket, to correct it, or to enter one that came too late."""
    asked = query(call.request, "ticket", "event")
    return await _amend_form(call, asked.get("ticket", ""), count(asked, "event", 0, 10**15))


async def _amend_form(
    call: Call, ticket: str, event: int = 0, wrong: str = "", status: int = 200
) -> Response:
    """The form, with what was typed, with a report that is not counted, or with the one that is.

    event: the one that has the report to fill in.
    """
    ledger = call.service.ledger

    def read() -> tuple[Any, Any, list[tuple[Event, dict[str, Any]]]]:
        known, report = ledger.report_of(ticket)
        return known, report, ledger.uncounted(known.number)

    known, report, others = await call.service.engine.call(read)
    steps = ledger.terms.labels["step"]
    if not (event or call.fields) and known.status == REFUSED and others:
        event = others[0][0].seq
    shown = next((one for made, one in others if made.seq == event), report)
    entry = Entry.of(shown, len(steps)) if not call.fields else Entry.typed(call)
    return await show(
        call,
        "amend.html",
        "tickets",
        status,
        ticket=known,
        lines=entry.lines(steps),
        ended=entry.ended,
        endings=display.ENDINGS,
        event=event,
        others=[(made, Entry.of(one, len(steps)).lines(steps)) for made, one in others],
        is_new=known.status in _LOST,
        wrong=wrong,
    )


async def amend(call: Call) -> Response:
    """Correct a report: see old and new, then confirm."""
    ticket = call.field("ticket")
    if call.field("confirming"):
        return await _amend(call, ticket, Entry.typed(call))
    if is_by_enter(call):
        return await _amend_form(call, ticket)
    try:
        return await _amend(call, ticket, Entry.typed(call))
    except (RefusedError, LedgerError) as error:
        if isinstance(error, UnknownTicketError):
            raise
        refusal = as_refusal(error)
        return await _amend_form(call, ticket, wrong=refusal.says, status=refusal.status)


async def _amend(call: Call, ticket: str, entry: Entry) -> Response:
    """See what a correction changes, or confirm it."""
    ledger = call.service.ledger
    terms, given = ledger.terms, filled_in(call, "reason", "ticket")
    given |= entry.given(terms)

    async def sheet() -> Sheet:
        def read() -> tuple[StoredTicket, dict[str, Any], bool]:
            known, report = ledger.report_of(ticket)
            seen = (given[name] for name in ("states", "actions", "rewards", "ended"))
            return known, report, ledger.require_correction(ticket, *seen)

        found, report, relearns = await call.service.engine.call(read)
        changes = entry.differences(Entry.of(report, terms.size("step")), terms)
        whose, is_new = f"{found.site}, {found.request}", found.status in _LOST
        if not changes:
            raise RefusedError(422, f"this is the report of {whose} as it is on record")
        verb = "Enter" if is_new else "Correct"
        return Sheet(
            f"{verb} the report of {whose}?",
            f"{verb} the report of {whose}",
            [*changes, *(await _consequences(call, relearns))],
            back="/tickets",
            hint="for example: typing error at the site",
            bound=changes,
        )

    def done(_: Any, made: Sheet) -> tuple[str, str]:
        verb, _, rest = made.button.partition(" ")
        return "/tickets", f"{rest[:1].upper()}{rest[1:]} is {_DONE[verb]}."

    return await two_steps(call, "amend", given, sheet, done)


async def late(call: Call) -> Response:
    """Take in reports as they came after they were declared missing: select, then confirm."""
    if _asks_for_view(call):
        return await _tickets(call, _view(call))
    chosen = list(dict.fromkeys(value for name, value in call.fields if name == "ticket"))
    if not chosen:
        return await _tickets(call, _view(call), "Select the reports to take in first.", 422)
    ledger = call.service.ledger

    steps = ledger.terms.labels["step"]

    def read() -> tuple[list[str], list[dict[str, Any]], bool]:
        found, reports, relearns = ledger.tickets_named(chosen), list[dict[str, Any]](), False
        said = list[str]()
        for one in found:
            sent = [report for _, report in ledger.uncounted(one.number) if one.status == REFUSED]
            if not sent:
                raise LedgerError(f"no late report of {one.site}, {one.request} is on record")
            said.append(f"{one.site}, {one.request}: {Entry.of(sent[0], len(steps)).said(steps)}.")
            report = {"ticket": one.ticket} | sent[0]
            report["states"] = [ledger.terms.read_state(state) for state in report["states"]]
            relearns |= ledger.require_correction(**report)
            reports.append(report)
        return said, reports, relearns

    _, reports, _ = await call.service.engine.call(read)
    given = filled_in(call, "reason") | {"reports": reports}

    async def sheet() -> Sheet:
        said, _, relearns = await call.service.engine.call(read)
        what = counted(len(said), "report")
        lines = [
            f"{what} will be counted in exactly as sent after being declared missing.",
            *said,
            *(await _consequences(call, relearns)),
        ]
        title = f"Take in {counted(len(said), 'late report')}"
        return Sheet(f"{title}?", title, lines, back="/tickets?status=refused", bound=lines[1:])

    def done(*_: Any) -> tuple[str, str]:
        what = counted(len(reports), "late report", "is", "are")
        return "/tickets?status=refused", f"{what} counted in."

    return await two_steps(call, "amend_many", given, sheet, done)


async def _consequences(call: Call, relearns: bool) -> list[str]:
    """What corrections do to what was learned, to the pending proposal and to requests."""
    if not relearns:
        return ["It is learned in its turn, when the reports before it are settled."]
    known = await known_of(call)
    lines = [
        "The learner becomes what it would be, had it learned this in the first place. What was"
        " decided stays decided."
    ]
    if known.view is not None:
        lines.append("The pending proposal is made anew, which costs nothing of the budget.")
        lines += standing.falling(known)
    return lines
