"""The console: pages for people, made by the server, without scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lowswitch.ledger import Ledger
from lowswitch.ledger.events import KINDS, Event, makes_version
from lowswitch.ledger.exports import cells, harmless
from lowswitch.ledger.feature_terms import FeatureTerms
from lowswitch.ledger.reading import version_named
from lowswitch.ledger.responses import RowView
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.service import (
    access_log,
    actions,
    api,
    display,
    effects,
    figures,
    holds,
    people,
    phrases,
    proposals,
    sheets,
    vectors,
)
from lowswitch.service import roles as table
from lowswitch.service.amendments import amend as amend
from lowswitch.service.amendments import amend_form as amend_form
from lowswitch.service.amendments import dismiss as dismiss
from lowswitch.service.amendments import late as late
from lowswitch.service.api import unrecorded_words
from lowswitch.service.app import Call, Service, address_of, failed_login, now
from lowswitch.service.batches import corrections as corrections
from lowswitch.service.batches import corrections_form as corrections_form
from lowswitch.service.batches import report_table as report_table
from lowswitch.service.bodies import RefusedError, count, day, query
from lowswitch.service.effects import Known
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Mark
from lowswitch.service.meeting import cap as cap
from lowswitch.service.meeting import confirm as confirm
from lowswitch.service.meeting import decide as decide
from lowswitch.service.meeting import decline as decline
from lowswitch.service.meeting import forbid as forbid
from lowswitch.service.meeting import forbid_form as forbid_form
from lowswitch.service.meeting import lift as lift
from lowswitch.service.meeting import proposal as proposal
from lowswitch.service.meeting import propose as propose
from lowswitch.service.meeting import quorum as quorum
from lowswitch.service.meeting import requests_of
from lowswitch.service.meeting import rollback as rollback
from lowswitch.service.meeting import thaw as thaw
from lowswitch.service.render import HERE, after, catch_up, filled_in, is_by_enter, show, templates
from lowswitch.service.reports import missing as missing
from lowswitch.service.reports import ticket_list as ticket_list
from lowswitch.service.reports import tickets as tickets
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import known_of, two_steps
from lowswitch.show.text import counted

_ENDED = (
    "You are logged out: you were away for long, the server was started again, or your token"
    " expired or was revoked. Log in again, or ask your administrator for a new token"
)
_MOST_ACCESS = 10**6  # events of access in a table
_DAYS = (("From day", "since"), ("To day", "until"))  # in the filter of the audit

# ---- logging in ----------------------------------------------------------------------------------


async def style(call: Call) -> Response:
    """The style sheet."""
    css = (HERE / "static" / "style.css").read_text(encoding="utf-8")
    headers = {"Cache-Control": "public, max-age=300"}
    return Response(css, media_type="text/css; charset=utf-8", headers=headers)


async def login_form(call: Call) -> Response:
    """The form to log in."""
    if call.token is not None:
        return RedirectResponse("/", 303)
    wrong = _ENDED if query(call.request, "ended") else ""
    html = (
        templates()
        .get_template("login.html")
        .render(note=call.service.note, wrong=wrong, terms=call.service.ledger.terms)
    )
    return HTMLResponse(html)


async def login(call: Call) -> Response:
    """Log in with a token."""
    service, page = call.service, templates().get_template("login.html")
    shown, address = call.field("token").strip(), address_of(call.service, call.request)
    token = service.access.check(shown)
    if token is None or token.role == table.SITE:
        says = "this is the token of a site, which its program uses; log in with your own"
        error = RefusedError(403, says)
        if token is None:
            error = failed_login(service, service.failed_logins, address, shown)
        return HTMLResponse(
            page.render(note=service.note, wrong=error.says, terms=service.ledger.terms),
            error.status,
            {"Retry-After": str(error.wait)} if error.wait else {},
        )
    service.access.note_login(token)
    await service.record_access()
    service.meter.logins += 1
    service.log.write("info", "login", who=token.name, role=token.role, address=address)
    pauses = service.meter.is_out and token.role in table.STOPPING
    response = RedirectResponse("/freeze" if pauses else "/", 303)
    response.set_cookie(
        service.cookie,
        service.sessions.begin(token.id),
        secure=service.behind_tls,
        httponly=True,
        samesite="strict",
        path="/",
    )
    return response


async def shown(call: Call) -> Response:
    """The page that a form led to."""
    assert call.session is not None
    found = call.session.kept(query(call.request, "page").get("page", ""))
    if found is None:
        return after(call, "/", "That page is no longer kept. Open it again from here.", heed=True)
    return HTMLResponse(*found)


async def logout(call: Call) -> Response:
    """Log out."""
    service = call.service
    service.sessions.end(call.request.cookies.get(service.cookie, ""))
    response = RedirectResponse("/login", 303)
    response.delete_cookie(service.cookie, secure=service.behind_tls, httponly=True, path="/")
    return response


# ---- 1: status -----------------------------------------------------------------------------------


async def status(call: Call) -> Response:
    """The current state of the run on one page."""
    query(call.request)
    return await _status(call)


async def _status(call: Call, wrong: str = "", code: int = 200) -> Response:
    """The page, with the errors in the typed fields."""
    service = call.service
    await catch_up(call)
    known = await known_of(call)
    terms, run, view = known.terms, known.run, known.view
    names = ("learned", "waiting", "open", "missing", "refused")
    said = {"waiting": "waiting behind an open one", "refused": "came too late"}
    late = {"open": run.frozen_out}  # open, and cannot be settled while the run is paused
    parts = [(said.get(name, name), getattr(run, name) + late.get(name, 0)) for name in names]
    unfit, owing = await service.engine.call(
        lambda: (service.refusals.waiting(service.ledger), service.ledger.open_by_site())
    )
    return await show(
        call,
        "status.html",
        "status",
        code,
        wrong=wrong,
        run=run,
        **await requests_of(call, known),
        share=phrases.share_of(known.policies) if known.protocol else None,
        story=display.story(terms, service.journal, run),
        forecast=display.forecast_lines(terms, service.journal, run.issued),
        proposal=view,
        offer=proposals.headline(known, view) if view else None,
        held=holds.facts(known),
        short=people.stuck(service.access, now(), run.quorum),
        nothing=holds.nothing_words(known),
        todo=[*_todo(call, known, len(unfit)), *_cut_off(call, owing)],
        parts=parts,
        bar=figures.shares(parts),
        most=service.ledger.terms.most_proposals,
        gauge=_gauge(service, run.budget_left),
        version=_mark_of(service, run.version),
        sites=display.site_lines(service.journal),
        operator=service.journal.last_operator,
        contradicted=len(service.journal.contradicted),
        unlikely=len(service.journal.doubted),
        verdict=service.access.last_verdict(),
        verifying=service.verifying is not None and not service.verifying.done(),
    )


def _todo(call: Call, known: Known, unfit: int) -> list[tuple[str, str, str]]:
    """What the person who is logged in can do next: a sentence, a page and the words of a link.

    unfit: how many reports that cannot be right wait for a right one.
    """
    assert call.token is not None
    role, found = call.token.role, list[tuple[str, str, str]]()
    if role == table.REVIEWER:
        found += _todo_of_reviewer(call.token.name, known)
    if role == table.OPERATOR:
        found += _todo_of_operator(call, known, unfit)
    few = people.too_few(people.reviewers(call.service.access, now()), known.run.quorum)
    if few and known.terms.gate == "review" and role != table.AUDITOR:
        link = ("/tokens", "See the tokens") if role == table.OPERATOR else ("/roles", "See roles")
        found.insert(0, (f"{display.sentence(few)}, so nothing can be decided.", *link))
    if role == table.AUDITOR:
        found.append(("Check that nothing was altered.", "/audit", "Go to the audit"))
    return found


def _cut_off(call: Call, owing: Sequence[tuple[str, int, str]]) -> list[tuple[str, str, str]]:
    """Sites that owe reports and have no working token to send them with, for an operator."""
    assert call.token is not None
    if call.token.role != table.OPERATOR:
        return []
    known, time = call.service.access.tokens(), now()
    able = {one.name for one in known if one.role == table.SITE and one.works(time)}
    cut_off = {name: n for name, n, _ in owing if name not in able}
    if not cut_off:
        return []
    total, one = sum(cut_off.values()), len(cut_off) == 1
    said = (
        f"{phrases.several([*cut_off])} {'owes' if one else 'owe'} {counted(total, 'report')} and"
        f" {'has' if one else 'have'} no working token to send {'it' if total == 1 else 'them'}"
        " with."
    )
    return [(said, "/tokens", "See the tokens")]


def _todo_of_operator(call: Call, known: Known, unfit: int) -> list[tuple[str, str, str]]:
    """What waits for an operator: a paused run, reports to settle, and the next proposal."""
    run, found = known.run, list[tuple[str, str, str]]()
    asked = next((one for one in known.motions if one.kind == "thawed"), None)
    if run.frozen and asked is None:
        found.append(("The run is paused.", "#resume", "Resume it"))
    elif run.frozen and asked is not None:
        who = "You" if asked.by == known.me else asked.by
        more = counted(asked.needed, "reviewer")
        said = f"The run is paused. {who} asked to resume it, and {more} must agree."
        found.append((said, "#requests", "See the request"))
    if run.frozen and (owed := run.frozen_out + run.refused):
        found.append(
            (f"{counted(owed, 'report')} can be settled when it resumes.", "/tickets", "See them")
        )
    if run.open:
        held = f", and {counted(run.waiting, 'other')} wait behind them" if run.waiting else ""
        said = f"{counted(run.open, 'report', 'is', 'are')} open{held}."
        found.append((said, "/tickets", "Settle them"))
    if run.refused and not run.frozen:
        said = f"{counted(run.refused, 'report')} came after being declared missing."
        found.append((said, "/tickets?status=refused", "Look at what came, and take it in"))
    if contradicted := len(call.service.journal.contradicted):
        said = f"{counted(contradicted, 'report', 'was', 'were')} contradicted by a later one."
        found.append((said, "/tickets#contradicting", "Compare them"))
    if doubted := len(call.service.journal.doubted):
        said = f"{counted(doubted, 'report', 'is', 'are')} unlikely or not as planned."
        found.append((said, "/tickets#unlikely", "Ask the site"))
    if unfit:
        said = f"{counted(unfit, 'report')} cannot be right, and no other came since."
        found.append((said, "/tickets#unfit", "See why"))
    if known.view is None and run.may_ask:
        found.append(("No proposal is pending.", "/proposal", "Ask for one when the board meets"))
    return found


def _todo_of_reviewer(name: str, known: Known) -> list[tuple[str, str, str]]:
    """A reviewer's tasks: requests of others, and a proposal she has not decided on."""
    mine = [one for one in known.motions if name == one.by or name in one.confirmed]
    others = len(known.motions) - len(mine)
    found = list[tuple[str, str, str]]()
    if others:
        needs = counted(others, "request", "needs", "need")
        found.append((f"{needs} your agreement.", "#requests", "Read and agree, or turn down"))
    if known.view is None or known.run.frozen:
        return found
    if any("proposal" in one.decision for one in mine):
        more = max(one.needed for one in mine if "proposal" in one.decision)
        said = f"You decided on the pending proposal; {counted(more, 'more reviewer')} must agree."
        return [*found, (said, "/proposal", "Read it again")]
    return [*found, ("A proposal waits for the board.", "/proposal", "Read it and decide")]


def _mark_of(service: Service, version: int) -> Mark | None:
    """The event that made a version, if the journal has reached it."""
    marks = service.journal.versions()
    return marks[version - 1] if version <= len(marks) else None


def _gauge(service: Service, left: int | None) -> Any:
    most = service.ledger.terms.most_proposals
    return figures.gauge(left, most) if most and left is not None else ""


async def freeze(call: Call) -> Response:
    """Pause the run at once. One person is enough, and it can be resumed."""
    show_again = _freeze_form if call.service.meter.is_out else _status
    if is_by_enter(call):
        return await show_again(call)
    try:
        recorded = await actions.act(call, "freeze", filled_in(call, "reason"))
    except RefusedError as error:
        return await show_again(call, error.says, error.status)
    if recorded:
        return after(call, "/", "The run is paused.")
    words = unrecorded_words(call.service.emergency.kept)
    return after(call, "/freeze", f"The run is paused. The database cannot record it yet; {words}.")


async def freeze_form(call: Call) -> Response:
    """The form that pauses the run, from memory alone, for when the database is away."""
    query(call.request)
    return await _freeze_form(call)


async def _freeze_form(call: Call, wrong: str = "", code: int = 200) -> Response:
    service, session = call.service, call.session
    assert session is not None
    said, session.said = session.said, ""
    facts = {"terms": service.ledger.terms, "note": service.note, "form": session.form}
    facts |= {"said": said, "wrong": wrong, "kept": call.field("reason")}
    facts |= {"short": people.stuck(service.access, now(), service.journal.quorum)}
    facts |= {"stopped": service.engine.stopped, "frozen": service.journal.frozen}
    html = templates().get_template("freeze.html").render(facts, is_out=service.meter.is_out)
    return HTMLResponse(html, code)


async def verify(call: Call) -> Response:
    """Replay everything from the start."""
    assert call.token is not None
    await call.service.verify(call.token)
    task = call.service.verifying
    assert task is not None
    await asyncio.wait([task], timeout=2.0)  # a small ledger is verified at once
    verdict = call.service.access.last_verdict()
    if task.done() and verdict is not None:
        task.result()  # or why nothing was found
        if not verdict["whole"]:  # and its events can perhaps not be read
            return after(call, "/", f"The ledger is damaged: {verdict['what']}.")
        return after(call, "/audit", f"Checked: {verdict['what']}.")
    return after(call, "/audit", "The integrity check is running; look again in a while.")


# ---- 2: policy map -------------------------------------------------------------------------------


async def policy_map(call: Call) -> Response:
    """Steps by states: the current action, how well it is known, how often it changed."""
    service = call.service
    if isinstance(service.ledger.terms, FeatureTerms):
        return await vectors.policy_page(call, service.ledger.terms)
    terms = service.ledger.tables()
    asked = query(call.request, "view", "page", "search")
    view, words = asked.get("view", "action"), asked.get("search", "")
    if view not in display.VIEWS:
        raise RefusedError(400, f"view must be one of {', '.join(display.VIEWS)}")
    names = terms.labels["state"]
    found = [x for x in range(terms.states) if words.lower() in names[x].lower()]
    pages = max(1, -(-len(found) // display.PER_PAGE))
    page = min(max(count(asked, "page", 1, 10**9), 1), pages)
    states = found[(page - 1) * display.PER_PAGE : page * display.PER_PAGE]
    chart, known = await service.engine.call(service.ledger.chart), await known_of(call)
    proposed = known.view.rows if known.view else []
    pending = {(r["step"], r["state"]) for r in proposed if effects.is_of_protocol(known, r)}
    signs = display.codes(terms.labels["action"])
    await catch_up(call)
    return await show(
        call,
        "map.html",
        "map",
        view=view,
        views=display.VIEWS,
        search=words,
        page=page,
        pages=pages,
        found=len(found),
        rows=display.map_rows(terms, chart, view, states, pending),
        meaning=display.legend(view, terms, known.run.told, known.run.waiting),
        legend=list(zip(signs, terms.labels["action"], strict=True)),
        version=chart.version,
        protocol=chart.protocol,
        most_forbidden=display.MOST_FORBIDDEN,
        **display.forbidden(terms, chart, service.journal),
    )


async def row(call: Call) -> Response:
    """One row: the evidence for each action, and its history."""
    service, terms = call.service, call.service.ledger.tables()
    asked = query(call.request, "step", "state")
    h = count(asked, "step", 0, terms.horizon - 1)
    x = count(asked, "state", 0, terms.states - 1)
    await catch_up(call)
    step, state = terms.labels["step"][h], terms.labels["state"][x]
    view, known = (
        await service.engine.call(lambda: service.ledger.row(step, state)),
        await known_of(call),
    )
    left = terms.horizon - h
    rows = [
        Interval(one["action"], one["estimate"], one["width"], one["visits"] > 0)
        for one in view.actions
    ]
    marks, names = service.journal.versions(), terms.labels["action"]
    decided = {mark.seq: mark for mark in service.journal.decisions()}
    history = [
        {
            "number": number,
            "plays": phrases.plays_words([names[a] for a in plays], protocol=known.protocol),
            "mark": marks[number - 1] if number <= len(marks) else None,
        }
        for number, plays in view.versions
    ]
    return await show(
        call,
        "row.html",
        "map",
        counted_in=_counted_in(known),
        view=view,
        step=step,
        state=state,
        bars=[
            figures.intervals(terms.rewards[0] * left, terms.rewards[1] * left, [r]) for r in rows
        ],
        history=history,
        proposed=[
            sheets.change(known, one)
            for one in (known.view.rows if known.view else ())
            if (one["step"], one["state"]) == (h, x) and effects.is_of_protocol(known, one)
        ],
        held=holds.end_words(known, known.holds[h, x]) if (h, x) in known.holds else "",
        declared=np.flatnonzero(~terms.allowed[h, x]).tolist(),
        decisions=[
            one
            | {"said": _said_here(terms, one, decided.get(one["event"]), view, known)}
            | ({"by": display.who(decided[one["event"]])} if one["event"] in decided else {})
            for one in _decisions_here(view, marks)
        ],
    )


def _counted_in(known: Known) -> str:
    """Whose reports the numbers of a place come from, and whose they lack."""
    learned = f"Counted are the {counted(known.run.told, known.case)} learned so far."
    if not known.run.waiting:
        return learned
    return f"{learned} {display.more_wait(known.run.waiting)}, except where the table says so."


def _decisions_here(view: RowView, marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """The decisions on a row and those whose version changed it, newest first."""
    named = {one["event"] for one in view.decisions}
    others = [
        {"event": mark.seq, "kind": mark.kind, "time": mark.time, "by": mark.actor}
        | {"reason": mark.facts.get("reason", "")}
        for mark in (marks[number - 1] for number, _ in view.versions if 1 < number <= len(marks))
        if mark.seq not in named
    ]
    return sorted([*view.decisions, *others], key=lambda one: -one["event"])


def _said_here(
    terms: TableTerms, one: dict[str, Any], mark: Mark | None, view: RowView, known: Known
) -> str:
    """A decision on a row, and what the version that it made changed there."""
    if mark is None:
        return display.decision_words(terms, one["kind"], one)
    what, made = "approved", mark.facts.get("version")
    if mark.kind != "approved":
        what = display.decision_words(terms, mark.kind, mark.facts)
    if made is None or not makes_version(mark.kind, mark.facts):
        return what
    names = terms.labels["action"]
    sides = [
        [plays for number, plays in view.versions if number <= last][-1]
        for last in (made - 1, made)
    ]
    old, new = (
        phrases.plays_words([names[a] for a in plays], protocol=known.protocol) for plays in sides
    )
    if old == new:
        return f"{what}; what is given here stays the same"
    return f"{what}: {old} → {new}"


# ---- 3: timeline ---------------------------------------------------------------------------------


async def timeline(call: Call) -> Response:
    """Versions and their results, decisions, and the budget."""
    service = call.service
    query(call.request)
    await catch_up(call)
    run, laws = await service.engine.call(
        lambda: (service.ledger.status(), display.laws_of(service.ledger))
    )
    terms = service.ledger.terms
    lines = display.version_lines(terms, service.journal, laws)
    return await show(
        call,
        "timeline.html",
        "timeline",
        run=run,
        lines=lines[::-1],
        story=display.story(terms, service.journal, run),
        forecast=display.forecast_lines(terms, service.journal, run.issued),
        gauge=_gauge(service, run.budget_left),
        most=service.ledger.terms.most_proposals,
        decisions=display.decision_lines(
            terms, service.journal.listed()[-200:], laws, service.journal.marks
        ),
    )


# ---- 4: audit ------------------------------------------------------------------------------------


_FILTER = ("kind", "search", "before", "person", "since", "until")  # of the audit


async def audit(call: Call) -> Response:
    """Events to filter, verify and export, and the difference between any two versions."""
    service = call.service
    asked = query(call.request, *_FILTER)
    kind, words = asked.get("kind", ""), asked.get("search", "")
    before = count(asked, "before", 0, 10**17) or None
    sees_access = _require_kind(call, kind)
    wanted, wrong = _wanted(asked)
    await catch_up(call)
    said_of = await _words_of_events(call)

    def read() -> tuple[list[Any], int | None, list[Any]]:
        entries = list[Any]()
        if wrong:
            return [], None, entries
        if sees_access and kind in ("", display.ACCESS):
            entries = access_log.lines(service.access, wanted, words, whole=bool(kind))
        if kind == display.ACCESS:
            return [], None, entries
        with service.reading() as reader:
            found, rest = _page_of(reader, wanted, kind, words, before)
            return said_of(reader, found), rest, entries

    events, more, entries = await asyncio.to_thread(read)
    return await show(
        call,
        "audit.html",
        "audit",
        422 if wrong else 200,
        wrong=wrong,
        events=events,
        kinds=KINDS,
        entries=entries,
        sees_access=sees_access,
        asked=asked,
        filters=[] if wrong else display.filter_words(asked | wanted._asdict()),
        version=version_named(words),
        more=more,
        verdict=service.access.last_verdict(),
        verifying=service.verifying is not None and not service.verifying.done(),
    )


def _require_kind(call: Call, kind: str) -> bool:
    """Refuse a kind of events that does not exist; return whether the person sees access."""
    assert call.token is not None
    sees_access = call.token.role in (table.OPERATOR, table.AUDITOR)
    groups = (display.DECISIONS, *[display.ACCESS] * sees_access)
    if kind not in ("", *groups, *KINDS):
        raise RefusedError(400, f"there is no such kind of event; there are {', '.join(KINDS)}")
    return sees_access


def _page_of(
    reader: Ledger, wanted: display.Wanted, kind: str, words: str, before: int | None
) -> tuple[list[Event], int | None]:
    """The newest events that fit a filter, and the event before which to go on."""

    def read(some: int, end: int | None) -> list[Event]:
        found = [
            reader.newest(some, before=end, kind=one, containing=words)
            for one in display.kinds_of(kind)
        ]
        return display.newest_of(found, some)

    return wanted.of(read, before)


async def _words_of_events(
    call: Call,
) -> Callable[[Ledger, list[Event]], list[tuple[Event, str, list[str]]]]:
    """A function that tells events with the pages' words for them, and what they say."""
    ledger, journal = call.service.ledger, call.service.journal
    laws = await call.service.engine.call(lambda: display.laws_of(ledger))
    asked_for = display.wishes(ledger.terms, journal.marks)
    who_asked = {mark.seq: mark.actor for mark in journal.marks if mark.kind == "requested"}
    in_trial = {mark.seq: mark.facts.get("in_trial", ()) for mark in journal.decisions()}

    def said_of(reader: Ledger, found: list[Event]) -> list[tuple[Event, str, list[str]]]:
        about, terms = reader.about(found), ledger.terms
        return [
            (
                one,
                display.event_word(one, who_asked),
                display.event_words(terms, laws, one, in_trial.get(one.seq, ()), asked_for, about),
            )
            for one in found
        ]

    return said_of


async def audit_list(call: Call) -> Response:
    """All events that fit the filter of the audit, in its words, as a table for a spreadsheet."""
    asked = query(call.request, *_FILTER)
    kind, words, access = asked.get("kind", ""), asked.get("search", ""), call.service.access
    _require_kind(call, kind)
    wanted, wrong = _wanted(asked)
    if wrong:
        raise RefusedError(422, wrong)
    await catch_up(call)
    said_of = await _words_of_events(call)

    def lines(reader: Ledger) -> Iterator[str]:
        yield cells(["number", "time (UTC)", "who", "role", "kind", "what", "hash"])
        if kind == display.ACCESS:
            for one in access_log.lines(access, wanted, words, whole=True, most=_MOST_ACCESS):
                yield _audit_line(one.event, one.word, [one.said])
            return
        rest = count(asked, "before", 0, 10**17) or None
        while True:
            found, rest = _page_of(reader, wanted, kind, words, rest)
            for event, word, said in said_of(reader, found):
                yield _audit_line(event, word, said)
            if rest is None:
                return

    return api.download(call, f"audit{'-' if kind else ''}{kind}.csv", lines)


def _audit_line(event: Event, word: str, said: list[str]) -> str:
    """An event as a line of a table."""
    time, who = event.time[:19].replace("T", " "), harmless(event.actor)
    return cells([event.seq, time, who, event.role, word, harmless("; ".join(said)), event.hash])


def _wanted(asked: dict[str, str]) -> tuple[display.Wanted, str]:
    """The person and the days that a filter asks for, and the error in it, if there is one."""
    person = asked.get("person", "")
    try:
        since, until = (day(name, asked.get(key, "")) for name, key in _DAYS)
        if since and until < since and until:
            raise RefusedError(422, f"From day: {since} is after {until}, the day in “To day”")
    except RefusedError as error:
        return display.Wanted(person, "", ""), error.says
    return display.Wanted(person, since, until), ""


async def difference(call: Call) -> Response:
    """What differs between two versions."""
    ledger, asked = call.service.ledger, query(call.request, "from", "to", "page")
    old, new = count(asked, "from", 1, 10**9), count(asked, "to", 1, 10**9)
    if isinstance(ledger.terms, FeatureTerms):
        return await vectors.difference(call, old, new)
    before, after, (_, protocol) = await call.service.engine.call(
        lambda: (ledger.policy_of(old), ledger.policy_of(new), ledger.deployed())
    )
    rows = display.difference(ledger.tables(), before, after)
    pages = max(1, -(-len(rows) // display.DIFFERENCES))
    page = min(max(count(asked, "page", 1, 10**6), 1), pages)
    return await show(
        call,
        "difference.html",
        "timeline",
        old=old,
        new=new,
        shown=rows[(page - 1) * display.DIFFERENCES : page * display.DIFFERENCES],
        found=len(rows),
        changes=int(phrases.changed(before, after, protocol=protocol).sum()),
        protocol=protocol,
        page=page,
        pages=pages,
    )


async def export(call: Call) -> Response:
    """Download all events."""
    return await api.export(call)


# ---- who may what --------------------------------------------------------------------------------


async def roles(call: Call) -> Response:
    """The table of roles."""
    words = display.words_of(call.service.ledger.terms)
    return await show(
        call,
        "roles.html",
        "roles",
        roles=table.ROLES,
        duties={role: [one.format(**words) for one in said] for role, said in table.DUTIES.items()},
        endpoints=table.ENDPOINTS,
    )


async def tokens(call: Call) -> Response:
    """All tokens, without their secrets."""
    time = now()
    known = [token.shown(time) for token in call.service.access.tokens()]
    return await show(call, "tokens.html", "tokens", known=known)


async def revoke(call: Call) -> Response:
    """Revoke a token after confirmation."""
    given = filled_in(call, "id")

    async def sheet() -> Sheet:
        known, time = call.service.access.tokens(), now()
        identity = call.service.access.revocable(given.get("id", "")).id
        found = next(one for one in known if one.id == identity)
        same = [one for one in known if (one.name, one.role) == (found.name, found.role)]
        left = sum(one.works(time) for one in same if one.id != identity)
        used = f"last used on {display.clock(found.used)}" if found.used else "never used"
        lines = [
            f"It was made on {display.clock(found.created)}, and {used}.",
            "It stops working at once, and so does every session that began with it.",
        ]
        warnings = list[str]()
        if left:
            lines.append(f"{found.name} has {counted(left, 'other token')} that works.")
        else:
            then = (
                "It can neither enrol nor report until it has a new token"
                if found.role == table.SITE
                else f"This person can no longer act as {found.role}"
            )
            warnings.append(f"{found.name} has no other token that works. {then}.")
        consent, run = "", await call.service.engine.call(call.service.ledger.status)
        remaining = people.reviewers(call.service.access, time, without=identity)
        if found.role == table.REVIEWER and (few := people.too_few(remaining, run.quorum)):
            case = call.service.ledger.terms.word("episode")
            warnings += [f"After this, {few}.", people.stuck_words(case)]
            warnings.append(
                "To avoid that, make a token for another reviewer first, with lowswitch token"
                " create."
            )
            lines.append(f"What {found.name} agreed to before still counts.")
            consent = f"I know that after this, {few}."
        title = f"Revoke the token {found.id} of {found.name} ({found.role})"
        return Sheet(
            f"{title}?",
            title,
            lines,
            (),
            warnings,
            back="/tokens",
            css="stop",
            has_reason=False,
            consent=consent,
        )

    return await two_steps(
        call,
        "revoke",
        given,
        sheet,
        lambda gone, _: ("/tokens", f"The token of {gone.name} is revoked."),
    )
