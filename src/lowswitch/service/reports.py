"""The pages of reports: which ones are open, which came, and which will never come."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response

from lowswitch.ledger import Ledger, LedgerError, UnknownTicketError
from lowswitch.ledger.exports import cells, harmless
from lowswitch.ledger.responses import TicketView
from lowswitch.ledger.state import MISSING, OPEN, REFUSED, STATUSES
from lowswitch.ledger.store import StoredTicket
from lowswitch.service import display
from lowswitch.service.api import download
from lowswitch.service.app import Call, as_refusal, now
from lowswitch.service.bodies import RefusedError, count, query
from lowswitch.service.render import catch_up, filled_in, is_by_enter, show
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import two_steps
from lowswitch.show.text import age, counted

LOST = (MISSING, REFUSED)
_TABS = {one: one for one in STATUSES} | {REFUSED: "came too late"}
_LISTED = 200  # tickets on the page
_MOST_NAMED = 10  # names that nobody has, in one message
_VIEW = ("status", "site", "days", "select", "after", "search")  # which of them the page shows


# ---- lists ---------------------------------------------------------------------------------------


async def tickets(call: Call) -> Response:
    """The tickets of a status, to filter, to select and to settle; or those that are looked for."""
    return await list_page(call, query(call.request, *_VIEW))


async def list_page(
    call: Call, asked: dict[str, str], wrong: str = "", status: int = 200
) -> Response:
    """The page with the current selection."""
    service, ledger, search = call.service, call.service.ledger, asked.get("search", "")
    chosen, site = asked.get("status", OPEN), asked.get("site")
    if chosen not in STATUSES:
        raise RefusedError(400, f"status must be one of {', '.join(STATUSES)}, not {chosen!r}")
    days, start = count(asked, "days", 0, 10**5), count(asked, "after", 0, 10**15)

    await catch_up(call)
    is_first = chosen == OPEN and not search
    contradicted = dict(service.journal.contradicted) if is_first else {}

    def read() -> dict[str, Any]:
        which = None if search else chosen
        found = ledger.list_tickets(which, site=site, most=_LISTED + 1, after=start, part=search)
        listed = _older(found, days)
        settled = ledger.settled_by([one.ticket for one in listed if one.status in LOST])
        return {
            "run": ledger.status(),
            "tickets": listed[:_LISTED],
            "more": len(listed) > _LISTED,
            "settled": settled,
            "owing": ledger.open_by_site() if which == OPEN else [],
            "unfit": service.refusals.waiting(ledger) if is_first else [],
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
    """The tickets that were asked for at least `days` days ago."""
    before = (now() - timedelta(days=days)).isoformat()
    return [one for one in found if not days or one.asked <= before]


def _ticked(call: Call, listed: list[TicketView], select: str) -> list[str]:
    """The selected tickets: the current selection, all listed ones too, or none."""
    if select == "none":
        return []
    more = [one.ticket for one in listed if one.status in (OPEN, REFUSED)] * (select == "all")
    return list(dict.fromkeys([value for name, value in call.fields if name == "ticket"] + more))


async def ticket_list(call: Call) -> Response:
    """All of these tickets as a table for a spreadsheet."""
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
            settled = reader.settled_by([one.ticket for one in found if one.status in LOST])
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
    if asks_for_view(call):
        return await list_page(call, view_of(call))
    if call.field("confirming"):
        return await _missing(call)
    try:
        return await _missing(call)
    except (RefusedError, LedgerError) as error:
        refusal = as_refusal(error)
        return await list_page(call, view_of(call), refusal.says, refusal.status)


def asks_for_view(call: Call) -> bool:
    """Whether a form asks for the list again, with the same selection, and for nothing else."""
    return bool(call.field("show")) or (not call.field("confirming") and is_by_enter(call))


def view_of(call: Call) -> dict[str, str]:
    """Which part of the list a form was on, or asks for."""
    wanted = dict(call.fields) | dict(parse_qsl(call.field("show"), keep_blank_values=True))
    return {name: wanted[name] for name in _VIEW if wanted.get(name)}


async def _missing(call: Call) -> Response:
    """Show which reports would be declared missing, or confirm it."""
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
    """The first cell of each line of a table, without the heading of our own list."""
    names = list[str]()
    for line in text.splitlines():
        mark = next((one for one in "\t;" if one in line), ",")
        names += [row[0].strip() for row in csv.reader([line], delimiter=mark) if row]
    return list(dict.fromkeys(name for name in names if name and name != "ticket"))


def _one_each(called: dict[str, list[StoredTicket]], case: str) -> list[str]:
    """The tickets that somebody named; each name must match one open ticket."""
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
    """Tickets grouped by site, one line each."""
    sites = dict.fromkeys(one.site for one in found)
    return [
        f"{site}: {', '.join(one.request for one in found if one.site == site)}." for site in sites
    ]
