"""The pages on which a report is corrected, entered late, taken in, or kept as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from lowswitch.ledger import LedgerError, UnknownTicketError
from lowswitch.ledger.events import KINDS, Event
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.state import MISSING, REFUSED
from lowswitch.ledger.store import StoredTicket
from lowswitch.policy.linear import LinearPolicy
from lowswitch.service import display, doubts, standing
from lowswitch.service.app import Call, as_refusal
from lowswitch.service.bodies import MOST_DIGITS, RefusedError, count, query
from lowswitch.service.entries import Entry
from lowswitch.service.phrases import several
from lowswitch.service.render import catch_up, filled_in, is_by_enter, show
from lowswitch.service.reports import LOST, asks_for_view, few, list_page, view_of
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import known_of, two_steps
from lowswitch.show.text import counted

_NOTHING: dict[str, Any] = {"states": [], "actions": [], "rewards": [], "ended": "whole"}
_STALE = (
    "nothing was done, because somebody changed this report after you opened the form. Your entries"
    " are kept. Where they differ from the record, the value on record stands below them. Make them"
    " right, then go on"
)
_PARTS = ("states", "actions", "rewards")
_DONE = {"Correct": "corrected", "Enter": "entered"}


async def amend_form(call: Call) -> Response:
    """The report of a ticket, to correct it or to enter a late one."""
    asked = query(call.request, "ticket", "event")
    return await _amend_form(call, asked.get("ticket", ""), count(asked, "event", 0, 10**15))


async def _amend_form(
    call: Call, ticket: str, event: int = 0, wrong: str = "", status: int = 200
) -> Response:
    """The form with the typed fields, with an uncounted report, or with the counted one.

    event: the event with the report to fill in.
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
        unlikely=call.service.journal.doubted.get(known.number, ("", []))[1],
        ticket=known,
        filled=next((made for made, _ in others if made.seq == event), None),
        meanwhile=await _meanwhile(call, ticket),
        lines=entry.lines(steps),
        on_record=Entry.of(report, len(steps)).lines([*steps]),
        ended=entry.ended,
        endings=display.endings_of(ledger.terms),
        event=event,
        others=[
            {
                "made": made,
                "lines": sent.lines(steps),
                "ended": display.ENDINGS[sent.ended],
                "differs": sent.differences(
                    Entry.of(report, len(steps)), ledger.terms, is_new=False
                )
                if known.status not in LOST
                else [],
            }
            for made, one in others
            for sent in [Entry.of(one, len(steps))]
        ],
        now_ended=display.ENDINGS[Entry.of(report, len(steps)).ended],
        is_new=known.status in LOST,
        wrong=wrong,
    )


async def amend(call: Call) -> Response:
    """Correct a report: compare old and new, then confirm."""
    ticket = call.field("ticket")
    if call.field("confirming"):
        return await _amend(call, ticket, Entry.typed(call))
    if is_by_enter(call):
        return await _amend_form(call, ticket)
    if await _meanwhile(call, ticket):
        return await _amend_form(call, ticket, wrong=_STALE, status=409)
    try:
        return await _amend(call, ticket, Entry.typed(call))
    except (RefusedError, LedgerError) as error:
        if isinstance(error, UnknownTicketError):
            raise
        refusal = as_refusal(error)
        return await _amend_form(call, ticket, wrong=refusal.says, status=refusal.status)


async def _meanwhile(call: Call, ticket: str) -> list[str]:
    """Who changed the report after somebody opened the form to correct it, and what."""
    seen = call.field("seen")
    if not (seen.isdecimal() and len(seen) <= MOST_DIGITS):
        return []
    ledger = call.service.ledger
    return await call.service.engine.call(lambda: changed_since(ledger, ticket, int(seen)))


def changed_since(ledger: Reading, ticket: str, seen: int) -> list[str]:
    """Who changed the report of a ticket since an event, what and why."""
    lines, terms = list[str](), ledger.terms
    for event, report, before in ledger.corrected_since(ticket, seen):
        new = Entry.of(report, terms.size("step"))
        old = Entry.of(before or _NOTHING, terms.size("step"))
        is_new = before is None or before["ended"] == MISSING
        what = new.differences(old, terms, is_new=is_new) if event.kind != MISSING else []
        why = f" (“{event.payload['reason']}”)" if "reason" in event.payload else ""
        did = f"{KINDS[event.kind].word} by {event.actor}{why}"
        said = f": {'; '.join(one.rstrip('.') for one in what)}" if what else ""
        lines.append(f"{did} on {display.clock(event.time)}{said}.")
    return lines


async def _amend(call: Call, ticket: str, entry: Entry) -> Response:
    """Show what a correction changes, or confirm it."""
    ledger = call.service.ledger
    terms, given = ledger.terms, filled_in(call, "reason", "ticket")
    given |= entry.given(terms)

    async def sheet() -> Sheet:
        def read() -> tuple[StoredTicket, dict[str, Any], int, bool, list[str]]:
            known, report = ledger.report_of(ticket)
            sent = len(ledger.uncounted(known.number))
            seen = (given[name] for name in ("states", "actions", "rewards", "ended"))
            relearns = ledger.require_correction(ticket, *seen)
            old = Entry.of(report, terms.size("step"))
            return known, report, sent, relearns, not_planned(call, known, entry, old)

        found, report, sent, relearns, unplanned = await call.service.engine.call(read)
        whose, is_new = f"{found.site}, {found.request}", found.status in LOST
        old = Entry.of(report, terms.size("step"))
        changes = entry.differences(old, terms, is_new=is_new)
        if not changes:
            raise RefusedError(422, f"this is the report of {whose} as it is on record")
        verb = "Enter" if is_new else "Correct"
        meanwhile = await _meanwhile(call, ticket)
        several = f"{found.site} sent {sent} different reports. This one counts, the others do not."
        return Sheet(
            f"{verb} the report of {whose}?",
            f"{verb} the report of {whose}",
            [
                *changes,
                *([several] if is_new and sent > 1 else []),
                *(await still_open(call, [(found, entry)])),
                *(await consequences(call, relearns)),
            ],
            warnings=[*[f"After you opened the form: {line}" for line in meanwhile], *unplanned],
            back="/tickets",
            hint="for example: typing error at the site",
            bound=changes,
        )

    def done(_: Any, made: Sheet) -> tuple[str, str]:
        verb, _, rest = made.button.partition(" ")
        still = [line for line in made.lines if "stays in the list" in line]
        return "/tickets", " ".join([f"{display.sentence(rest)} is {_DONE[verb]}.", *still])

    return await two_steps(call, "amend", given, sheet, done)


def not_planned(call: Call, ticket: StoredTicket, entry: Entry, old: Entry) -> list[str]:
    """What is new and unlikely in a correction: by what was reported, or by what was planned."""
    ledger, seen = call.service.ledger, call.service.journal.seen
    terms, policy = ledger.terms, ledger.policy_of(ticket.version)
    now, before = (
        doubts.of_site(
            seen,
            terms,
            {
                name: [*filter(None, getattr(one, name))]
                for name in ("states", "actions", "rewards")
            },
            None,
        )
        for one in (entry, old)
    )
    found = [f"{line}. Is it a typing error?" for line in now if line not in before]
    if isinstance(policy, LinearPolicy):
        return found
    steps, names = terms.labels["step"], terms.labels["action"]
    for h, (state, action) in enumerate(zip(entry.states, entry.actions, strict=False)):
        same = ([state], [action]) == (old.states[h : h + 1], old.actions[h : h + 1])
        if not (state and action) or same:
            continue
        x, a = terms.index("state", terms.read_state(state)), terms.index("action", action)
        planned = sorted({*policy[:, h, x].tolist()})
        if a not in planned:
            given = several([names[one] for one in planned], "or")
            gone = ", which is forbidden there" * ((h, x, a) in call.service.journal.forbidden)
            found.append(
                f"{steps[h]}: version {ticket.version} gives {given} for {state}, and you filled"
                f" in {action}{gone}. Is it a typing error?"
            )
    return found


async def still_open(call: Call, some: Sequence[tuple[StoredTicket, Entry]]) -> list[str]:
    """Which lists of reports to settle the corrected ones stay in, or leave."""
    await catch_up(call)
    return await call.service.engine.call(lambda: _still_open(call, some))


def _still_open(call: Call, some: Sequence[tuple[StoredTicket, Entry]]) -> list[str]:
    journal, ledger, found = call.service.journal, call.service.ledger, list[str]()
    terms = ledger.terms
    for ticket, entry in some:
        name = f"{ticket.site}, {ticket.request}"
        if ticket.number in journal.contradicted:
            sent = [Entry.of(one, terms.size("step")) for _, one in ledger.uncounted(ticket.number)]
            if any(not entry.differences(one, terms, is_new=False) for one in sent):
                found.append(f"This is what {ticket.site} sent later, so nothing contradicts it.")
            else:
                found.append(
                    f"The report of {name} stays in the list of contradicting reports: the other"
                    f" one that {ticket.site} sent says something else still. If that is settled,"
                    " dismiss it there."
                )
        if ticket.number in journal.doubted and _is_doubtful(call, ticket, entry):
            found.append(f"The report of {name} stays in the list of unlikely reports.")
    return found


def _is_doubtful(call: Call, ticket: StoredTicket, entry: Entry) -> bool:
    """Whether something in a corrected report is unlikely still."""
    journal, terms = call.service.journal, call.service.ledger.terms
    report = entry.given(terms)
    return bool(doubts.of_site(journal.seen, terms, report, journal.plan(ticket.number)))


async def late(call: Call) -> Response:
    """Accept reports that came after they were declared missing: select, then confirm."""
    if asks_for_view(call):
        return await list_page(call, view_of(call))
    chosen = list(dict.fromkeys(value for name, value in call.fields if name == "ticket"))
    if not chosen:
        return await list_page(call, view_of(call), "Select the reports to take in first.", 422)
    ledger, steps = call.service.ledger, call.service.ledger.terms.labels["step"]
    await catch_up(call)

    def read() -> _Late:
        said, reports, gone, relearns = list[str](), list[dict[str, Any]](), list[str](), False
        doubtful = list[str]()
        for one in ledger.tickets_named(chosen):
            sent = [report for _, report in ledger.uncounted(one.number) if one.status == REFUSED]
            if not sent:
                gone.append(f"{one.site}, {one.request}")
                continue
            said.append(f"{one.site}, {one.request}: {Entry.of(sent[0], len(steps)).said(steps)}.")
            if len(sent) > 1:
                said.append(
                    _several_sent(one, [Entry.of(old, len(steps)) for old in sent[1:]], steps)
                )
            journal = call.service.journal
            why = doubts.of_site(journal.seen, ledger.terms, sent[0], journal.plan(one.number))
            doubtful.extend(f"Unlikely: {one.site}, {one.request}, {line}." for line in why)
            report = {"ticket": one.ticket} | sent[0]
            report["states"] = [ledger.terms.read_state(state) for state in report["states"]]
            relearns |= ledger.require_correction(**report)
            reports.append(report)
        if not reports:
            raise LedgerError(f"no late report of {few(gone or chosen)} is on record")
        return _Late(said, reports, gone, doubtful, relearns)

    found = await call.service.engine.call(read)
    given = filled_in(call, "reason") | {"reports": found.reports}

    async def sheet() -> Sheet:
        made = await call.service.engine.call(read)
        what = counted(len(made.reports), "report")
        lines = [
            f"{what} will be counted in exactly as sent after being declared missing.",
            *made.said,
            *(await consequences(call, made.relearns, len(made.reports))),
        ]
        gone = [f"No late report waits any more of: {few(made.gone)}."] * bool(made.gone)
        title = f"Take in {counted(len(made.reports), 'late report')}"
        hint = "for example: the site was late, and its report is right"
        back = "/tickets?status=refused"
        bound = lines[1:]
        warnings = [*gone, *made.doubtful]
        return Sheet(f"{title}?", title, lines, (), warnings, back, hint=hint, bound=bound)

    def done(*_: Any) -> tuple[str, str]:
        what = counted(len(found.reports), "late report", "is", "are")
        return "/tickets?status=refused", f"{what} counted in."

    return await two_steps(call, "amend_many", given, sheet, done)


class _Late(NamedTuple):
    """Late reports as they came."""

    said: list[str]
    reports: list[dict[str, Any]]
    gone: list[str]  # chosen reports that are settled by now
    doubtful: list[str]  # what is unlikely in them
    relearns: bool


def _several_sent(ticket: StoredTicket, others: Sequence[Entry], steps: Sequence[str]) -> str:
    """That a site sent different late reports, of which the newest is taken in."""
    earlier = " / ".join(one.said(steps) for one in others)
    return (
        f"This is the newest of {len(others) + 1} different reports that {ticket.site} sent of"
        f" {ticket.request}. Before it came: {earlier}."
    )


async def dismiss(call: Call) -> Response:
    """Keep a report although its site sent another one: see both, then confirm."""
    ledger, given = call.service.ledger, filled_in(call, "reason", "ticket")
    steps, unlikely = ledger.terms.labels["step"], bool(call.field("unlikely"))
    given |= {"unlikely": True} if unlikely else {}
    await catch_up(call)

    def read() -> tuple[StoredTicket, str, list[str]]:
        known, report = ledger.report_of(given.get("ticket", ""))
        sent = [
            f"{known.site} sent on {display.clock(event.time)}:"
            f" {Entry.of(other, len(steps)).said(steps)}."
            for event, other in ledger.uncounted(known.number)
        ]
        return known, Entry.of(report, len(steps)).said(steps), sent

    async def sheet() -> Sheet:
        known, counted_in, sent = await call.service.engine.call(read)
        lines = [f"The report that is counted in stays: {counted_in}.", *sent]
        hint = "for example: the site confirmed the first report by telephone"
        if unlikely:
            _, why = call.service.journal.doubted.get(known.number, ("", []))
            lines += [f"Unlikely in it: {one}." for one in why]
            lines.append("If you confirm that it is right, the same is not called unlikely again.")
            hint = "for example: the site looked it up in the file"
        else:
            lines.append(
                "What was sent stays on record. If yet another report comes, it is listed."
            )
        title = f"Keep the report of {known.site}, {known.request} as it is"
        return Sheet(f"{title}?", title, lines, back="/tickets", hint=hint, bound=lines)

    def done(_: Any, made: Sheet) -> tuple[str, str]:
        kept = made.button.removeprefix("Keep ").removesuffix(" as it is")
        return "/tickets", f"{display.sentence(kept)} stays as it is."

    return await two_steps(call, "dismiss", given, sheet, done)


async def consequences(call: Call, relearns: bool, reports: int = 1) -> list[str]:
    """The effects of corrections on the learner, the pending proposal and requests."""
    if not relearns and reports > 1:
        return ["They are learned in their turn, when the reports before them are settled."]
    if not relearns:
        return ["It is learned in its turn, when the reports before it are settled."]
    known = await known_of(call)
    lines = [
        "The learner becomes what it would be if it had learned this in the first place. Past"
        " decisions stay."
    ]
    if known.view is not None:
        lines.append("The pending proposal is computed again, which uses nothing of the budget.")
        lines += standing.falling(known)
    return lines
