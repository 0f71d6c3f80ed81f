"""The pages of reports: which ones are open, which came, and which will never come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.responses import Response

from lowswitch.ledger import Ledger, LedgerError, UnknownTicketError
from lowswitch.ledger.exports import cells, harmless
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.responses import TicketView
from lowswitch.ledger.state import MISSING, OPEN, REFUSED, STATUSES
from lowswitch.ledger.store import StoredTicket
from lowswitch.service import display
from lowswitch.service.api import download
from lowswitch.service.app import Call, as_refusal, now
from lowswitch.service.bodies import MOST_AT_ONCE, RefusedError, count, query
from lowswitch.service.pasting import Found, names_among, names_in
from lowswitch.service.phrases import several
from lowswitch.service.refusals import Refusal, sent_words
from lowswitch.service.render import after, catch_up, filled_in, is_by_enter, show
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import two_steps
from lowswitch.show.text import age, counted, plural

LOST = (MISSING, REFUSED)
_TABS = {one: one for one in STATUSES} | {REFUSED: "came too late"}
_LISTED = 200  # tickets on the page
_MOST_NAMED = 10  # names that nobody has, in one message
_MEANS = {  # what the learner does about missing reports
    "drop": "The learner goes on without {them}.",
    "optimistic": "The learner assumes the best outcome for {them}.",
    "hold": "Later reports wait until each of them is settled.",
}
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
    doubted = dict(service.journal.doubted) if is_first else {}

    def read() -> dict[str, Any]:
        which = None if search else chosen
        found, several = looked_for(ledger, which, site, _LISTED + 1, start, search)
        listed = _older(found, days)
        settled = ledger.settled_by([one.ticket for one in listed if one.status in LOST])
        return {
            "run": ledger.status(),
            "tickets": listed[:_LISTED],
            "more": len(listed) > _LISTED,
            "settled": settled,
            "owing": ledger.open_by_site() if which == OPEN else [],
            "unfit": [
                (one, refusal, sent_words(ledger.terms, refusal.sent))
                for one, refusal in (service.refusals.waiting(ledger) if is_first else [])
            ],
            "several": several,
            "unlikely": [
                (one, *doubted[one.number])
                for one in reversed(ledger.tickets_numbered([*doubted][-_LISTED:]))
            ],
            "contradicted": [
                (one, contradicted[one.number])
                for one in ledger.tickets_numbered([*contradicted][-_LISTED:])
            ],
        }

    facts = await service.engine.call(read)
    facts["alike"] = await _look_alikes(call, facts["run"].issued) if is_first else []
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


async def _look_alikes(call: Call, issued: int) -> list[list[StoredTicket]]:
    """Tickets whose names are nearly the same; looked for again once there are new tickets."""
    service = call.service

    def read() -> list[list[StoredTicket]]:
        with service.reading() as reader:
            return reader.look_alikes()

    if service.alike[0] != issued:
        service.alike = issued, await asyncio.to_thread(read)
    return service.alike[1]


def looked_for(
    ledger: Reading, which: str | None, site: str | None, most: int, after: int, search: str
) -> tuple[list[TicketView], Found | None]:
    """The tickets of a status and a site, or those that fit a search, or a pasted list of names.

    Returns them, and what the list named if it was one.
    """
    found = ledger.list_tickets(which, site=site, most=most, after=after, part=search)
    if found or not search or ledger.list_tickets(None, most=1, part=search):
        return found, None
    named = names_in(ledger, search)
    if len(named.called) < 2:
        named = names_among(ledger, search)
    if not named.called:
        return found, None
    return ledger.list_tickets(None, most=most, after=after, among=named.numbers), named


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
        named = ["ticket", "number", "site", harmless(case), "enrolled", "status"]
        yield cells([*named, *declared, "version"])
        last, which = 0, None if search else status
        while found := looked_for(reader, which, site, _LISTED, last, search)[0]:
            last = found[-1].number
            settled = reader.settled_by([one.ticket for one in found if one.status in LOST])
            for one in _older(found, days):
                named, event = [harmless(one.site), harmless(one.request)], settled.get(one.ticket)
                why = [""] * 3
                if event is not None:
                    reason = harmless(event.payload.get("reason", ""))
                    why = [event.time, harmless(event.actor), reason]
                facts = [one.asked, _TABS[one.status], *why, one.version]
                yield cells([one.ticket, one.number, *named, *facts])

    name = "found" if search else _TABS[status].replace(" ", "-")
    return download(call, f"reports-{name}.csv", lines)


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
    """Show which reports would be declared missing, or confirm it.

    A report that comes meanwhile is left out. It does not stop the others.
    """
    ledger, case = call.service.ledger, call.service.ledger.terms.word("episode")
    chosen = [value for name, value in call.fields if name == "ticket"]
    said = list[str]()
    if pasted := call.field("pasted").strip():
        named = await call.service.engine.call(lambda: names_in(ledger, pasted))
        chosen += one_each(named, case)
        said = list_words(named, case)
    chosen = list(dict.fromkeys(chosen))
    if len(chosen) > MOST_AT_ONCE:
        raise RefusedError(
            422,
            f"{len(chosen):,} reports are selected, and at most {MOST_AT_ONCE} can be declared"
            " missing at once; begin with a part of them",
        )
    given = filled_in(call, "reason") | {"tickets": chosen, "still_open": True}
    found = await call.service.engine.call(lambda: _declarable(ledger, chosen))
    try:
        _require_some_open(found)
    except LedgerError as error:
        if not call.field("confirming"):
            raise
        run = await call.service.engine.call(ledger.status)
        if not (run.frozen or call.service.engine.stopped):  # or that is the reason
            return after(call, "/tickets", f"Nothing was done: {error}.", heed=True)
    _keep_selection(call, chosen)

    async def sheet() -> Sheet:
        sheet = await call.service.engine.call(lambda: _missing_sheet(call, found))
        return sheet._replace(
            lines=[*said[:1], *sheet.lines], warnings=[*said[1:], *sheet.warnings]
        )

    def done(left_out: list[str], _: Sheet) -> tuple[str, str]:
        what = counted(len(chosen) - len(left_out), "report", "is", "are")
        names = {one.ticket: f"{one.site}, {one.request}" for one in found}
        said = f"{what} recorded as missing."
        if left_out:
            gone = counted(len(left_out), "other", "was", "were")
            said += f" {gone} settled before, and left out: {few([names[i] for i in left_out])}."
        site = call.field("site")
        return (f"/tickets?{urlencode({'site': site})}" if site else "/tickets"), said

    return await two_steps(call, "missing_many", given, sheet, done)


def _keep_selection(call: Call, chosen: Sequence[str]) -> None:
    """Go on with the tickets that a list named, so that its names are looked up once."""
    others = [(name, value) for name, value in call.fields if name not in ("ticket", "pasted")]
    call.fields = [*others, *(("ticket", ticket) for ticket in chosen)]


def _declarable(ledger: Reading, chosen: list[str]) -> list[StoredTicket]:
    """The selected tickets, if each was issued."""
    if not chosen:
        raise LedgerError("no ticket is selected; select those whose reports will never come")
    found = ledger.tickets_named(chosen)
    if unknown := {*chosen} - {one.ticket for one in found}:
        ticket = next(one for one in chosen if one in unknown)
        raise UnknownTicketError(f"no ticket {ticket!r} was issued by this ledger")
    return found


def _require_some_open(found: Sequence[StoredTicket]) -> None:
    """Refuse a selection of which nothing is open."""
    if all(one.status != OPEN for one in found):
        first = found[0]
        more = f", and no other of these {len(found)} is open" * (len(found) > 1)
        where = f"{first.site}, {first.request}"
        raise LedgerError(f"the report of {where} is not open, but {_TABS[first.status]}{more}")


def _missing_sheet(call: Call, chosen: Sequence[StoredTicket]) -> Sheet:
    """What declaring these reports missing does, as they are now."""
    ledger = call.service.ledger
    now_found = ledger.tickets_named([one.ticket for one in chosen])
    found = [one for one in now_found if one.status == OPEN]
    case, what = ledger.terms.word("episode"), counted(len(found), "report")
    shown = ledger.list_tickets(OPEN, among=[one.number for one in found])
    lines = [
        f"{what} will be recorded as missing.",
        *_by_site(found),
        *(
            f"{'It' if len(found) == 1 else 'The newest of them'} was enrolled {age(one.asked)}, on"
            f" {display.clock(one.asked)}."
            for one in shown[-1:]
        ),
        _MEANS[ledger.terms.missing].format(them="it" if len(found) == 1 else "them"),
        f"If a report comes later after all, an operator can enter it for its {case}.",
    ]
    refused = {one.ticket: refusal for one, refusal in call.service.refusals.waiting(ledger)}
    sent = [_sent_words(ledger, one, refused[one.ticket]) for one in found if one.ticket in refused]
    return Sheet(
        f"Declare {what} missing?",
        f"Declare {what} missing",
        lines,
        warnings=[*_doubts(shown, now_found), *sent],
        back="/tickets",
        css="stop",
        hint="for example: lost to follow-up",
        bound=sent,
        may_shrink=True,
    )


def _doubts(shown: Sequence[TicketView], chosen: Sequence[StoredTicket]) -> list[str]:
    """Which of the chosen tickets are new, and which are settled already."""
    yesterday, doubts = (now() - timedelta(days=1)).isoformat(), list[str]()
    if fresh := sum(one.asked > yesterday for one in shown):
        which = f"{fresh:,} of them {'was' if fresh == 1 else 'were'}"
        which = "It was" if len(shown) == fresh == 1 else which
        doubts.append(f"{which} enrolled within the last day, so a report may still come.")
    if settled := [one for one in chosen if one.status != OPEN]:
        names = [f"{one.site}, {one.request} ({_TABS[one.status]})" for one in settled]
        gone = counted(len(settled), "selected report", "is", "are")
        doubts.append(f"{gone} settled already, and left out: {few(names)}.")
    return doubts


def _sent_words(ledger: Reading, ticket: StoredTicket, refusal: Refusal) -> str:
    """That a site sent a report of an open ticket which was refused, and what it said."""
    said = [
        f"{ticket.site} did send a report of {ticket.request}, on {display.clock(refusal.time)}. It"
        f" cannot be right: {display.whole_sentence(refusal.says)}"
    ]
    if shown := sent_words(ledger.terms, refusal.sent):
        said.append(f"That report said: {shown}.")
    said.append("Ask the site for the right report before you declare this one missing.")
    return " ".join(said)


def one_each(named: Found, case: str) -> list[str]:
    """The tickets that a list names; each name must be of one ticket."""
    if named.wrong:
        raise LedgerError(f"{few(named.wrong)}; nothing was selected from your list")
    if named.unknown:
        shown, rest = named.unknown[:_MOST_NAMED], len(named.unknown) - _MOST_NAMED
        names = several([*map(repr, shown), *[f"{rest:,} more names"] * (rest > 0)], "or")
        raise UnknownTicketError(
            f"no {case} and no ticket is called {names}; nothing was selected from your list"
        )
    for name, found in named.called.items():
        if len(found) > 1:
            fits = few([f"{one.site}, {one.request}: number {one.number:,}" for one in found])
            raise LedgerError(
                f"{name!r} fits several {plural(case)} ({fits}); add a column “site”, or give"
                " the ticket"
            )
    return [found[0].ticket for found in named.called.values()]


def list_words(named: Found, case: str) -> list[str]:
    """How many entries a pasted list has and whom they mean, and what in it was not read."""
    whole, distinct = counted(named.entries, "entry"), len(named.numbers)
    double = counted(named.entries - distinct, "entry", "is", "are")
    said = f"Your list has {whole} and names {counted(distinct, case)}"
    said += f"; {double} double." if distinct < named.entries else "."
    other = [repr(one) for one in dict.fromkeys(named.ignored)]
    beside = f"Not read, because it stands beside the {plural(case)}: {few(other)}."
    return [said, *[beside] * bool(other)]


def few(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - _MOST_NAMED
    return "; ".join(names[:_MOST_NAMED]) + (f"; and {rest:,} more" if rest > 0 else "")


def _by_site(found: Sequence[StoredTicket]) -> list[str]:
    """Tickets grouped by site, one line each."""
    sites = dict.fromkeys(one.site for one in found)
    return [
        f"{site}: {', '.join(_quoted(one.request) for one in found if one.site == site)}."
        for site in sites
    ]


def _quoted(name: str) -> str:
    """A name within a list, in quotes if it has a comma or another mark of lists."""
    return f"“{name}”" if re.search(r"[,;]|^ | $", name) else name
