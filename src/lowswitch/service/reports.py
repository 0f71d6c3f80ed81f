"""The pages of reports: which ones are open, which will never come, and which were wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from starlette.responses import Response

from lowswitch.ledger import LedgerError, UnknownTicketError
from lowswitch.ledger.responses import TicketView
from lowswitch.ledger.state import STATUSES
from lowswitch.service.app import Call, now
from lowswitch.service.bodies import RefusedError, count, query
from lowswitch.service.render import filled_in, is_by_enter, show
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import known_of, two_steps
from lowswitch.show.text import counted

_LISTED = 200  # tickets on the page
_LOOKED_AT = 2000  # tickets among which those of an age are found
_VIEW = ("status", "site", "days", "select")  # which of them the page shows


async def tickets(call: Call) -> Response:
    """The tickets of a status, to filter, to select and to settle."""
    return await _tickets(call, query(call.request, *_VIEW))


async def _tickets(call: Call, asked: dict[str, str]) -> Response:
    """The page, with what is selected on it so far."""
    service, ledger = call.service, call.service.ledger
    status, site = asked.get("status", "open"), asked.get("site")
    if status not in STATUSES:
        raise RefusedError(400, f"status must be one of {', '.join(STATUSES)}, not {status!r}")
    days = count(asked, "days", 0, 10**5)
    before = (now() - timedelta(days=days)).isoformat()

    def read() -> tuple[Any, list[TicketView]]:
        found = ledger.list_tickets(status, site=site, most=_LOOKED_AT)
        return ledger.status(), [one for one in found if not days or one.asked <= before]

    run, found = await service.engine.call(read)
    listed, ticked = found[:_LISTED], _ticked(call, found[:_LISTED], asked.get("select", ""))
    here = {one.ticket for one in listed}
    counts = {"open": run.open + run.frozen_out}
    return await show(
        call,
        "tickets.html",
        "tickets",
        run=run,
        tickets=listed,
        found=len(found),
        status_now=status,
        statuses=[(one, counts.get(one, getattr(run, one))) for one in STATUSES],
        site=site or "",
        sites=sorted(service.journal.sites),
        days=days,
        ticked=ticked,
        elsewhere=[one for one in ticked if one not in here],
    )


def _ticked(call: Call, listed: list[TicketView], select: str) -> list[str]:
    """The tickets that are selected: those so far, all that are listed too, or none."""
    if select == "none":
        return []
    more = [one.ticket for one in listed] if select == "all" else []
    return list(dict.fromkeys([value for name, value in call.fields if name == "ticket"] + more))


async def missing(call: Call) -> Response:
    """Declare that reports will never come: select tickets or paste them, then confirm."""
    asked = {name: call.field(name) for name in _VIEW if call.field(name)}
    if call.field("show"):  # another view of the page, with the same selection
        return await _tickets(call, asked | {"select": call.field("show")})
    if not call.field("confirming") and is_by_enter(call):
        return await _tickets(call, asked)
    chosen = [value for name, value in call.fields if name == "ticket"]
    lines = call.field("pasted").replace(",", " ").replace(";", " ").splitlines()
    chosen += [line.split()[0] for line in lines if line.split()]
    given = filled_in(call, "reason") | {"tickets": list(dict.fromkeys(chosen))}

    async def sheet() -> Sheet:
        ledger, known = call.service.ledger, await known_of(call)
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
        }[known.terms.missing]
        case = known.terms.word("episode")
        what = counted(len(found), "report")
        named = "; ".join(f"{one.site}, {one.request}" for one in found[:40])
        lines = [
            f"{what.capitalize()} will be recorded as missing: {named}"
            + (f" and {len(found) - 40:,} more." if len(found) > 40 else "."),
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


async def amend_form(call: Call) -> Response:
    """The report of a ticket, to correct it."""
    return await _amend_form(call, query(call.request, "ticket").get("ticket", ""))


async def _amend_form(call: Call, ticket: str) -> Response:
    ledger = call.service.ledger
    known, report = await call.service.engine.call(lambda: ledger.report_of(ticket))
    steps, typed = ledger.terms.labels["step"], dict[str, list[str]]()
    for name in ("state", "action", "reward"):
        given = [value for key, value in call.fields if key == name]
        typed[name] = given or [str(one) for one in report[f"{name}s"]]
    lines = [
        {
            "step": step,
            **{name: values[h] if h < len(values) else "" for name, values in typed.items()},
        }
        for h, step in enumerate(steps)
    ]
    return await show(
        call, "amend.html", "tickets", ticket=known, lines=lines, ended=report["ended"]
    )


async def amend(call: Call) -> Response:
    """Correct a report: see old and new, then confirm."""
    ticket = call.field("ticket")
    if not call.field("confirming") and is_by_enter(call):
        return await _amend_form(call, ticket)
    columns = {
        f"{name}s": [value.strip() for key, value in call.fields if key == name and value.strip()]
        for name in ("state", "action", "reward")
    }
    given: dict[str, Any] = filled_in(call, "reason", "ticket", "ended") | columns
    terms = call.service.ledger.terms
    given["states"] = [terms.read_state(one) for one in columns["states"]]
    given["rewards"] = [_number(one) for one in columns["rewards"]]

    async def sheet() -> Sheet:
        ledger = call.service.ledger
        known, report = await call.service.engine.call(lambda: ledger.report_of(ticket))
        lines = [f"The report of {known.site}, {known.request}, is replaced."]
        for name, new in columns.items():
            old = [str(one) for one in report[name]]
            if old != new:
                lines.append(f"{name.capitalize()}: {', '.join(old) or 'none'} → {', '.join(new)}.")
        lines.append("The learner learns everything again as if this report had come first.")
        return Sheet(
            "Correct this report?",
            "Correct the report",
            lines,
            back="/tickets",
            hint="for example: typing error at the site",
        )

    return await two_steps(
        call, "amend", given, sheet, lambda *_: ("/tickets", "The report is corrected.")
    )


def _number(text: str) -> float | str:
    """The number that a field says; anything else stays as it is, to be refused."""
    try:
        return float(text)
    except ValueError:
        return text
