"""The console: pages for people, made by the server, without any script."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import HTMLResponse, RedirectResponse, Response

from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import KINDS
from lowswitch.ledger.responses import Status, TicketView
from lowswitch.ledger.text import WORDS, false_share, reports, worth_lines
from lowswitch.service import actions, api, display, figures
from lowswitch.service import roles as table
from lowswitch.service.app import Call, Service, address_of, failed_login, now
from lowswitch.service.bodies import RefusedError, count, query, whole
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Mark
from lowswitch.service.render import HERE, after, catch_up, filled_in, is_by_enter, show, templates
from lowswitch.show.text import counted

_EVENTS = 50  # on a page of the audit
_OPEN_TICKETS = 200  # that an operator chooses from


# ---- logging in ----------------------------------------------------------------------------------


async def style(call: Call) -> Response:
    """The one style sheet."""
    css = (HERE / "static" / "style.css").read_text(encoding="utf-8")
    headers = {"Cache-Control": "public, max-age=300"}
    return Response(css, media_type="text/css; charset=utf-8", headers=headers)


async def login_form(call: Call) -> Response:
    """The form to log in."""
    if call.token is not None:
        return RedirectResponse("/", 303)
    html = templates().get_template("login.html").render(note=call.service.note, wrong="")
    return HTMLResponse(html)


async def login(call: Call) -> Response:
    """Log in with a token."""
    service, page = call.service, templates().get_template("login.html")
    shown, address = call.field("token").strip(), address_of(call.service, call.request)
    if wait := service.failed_logins.wait(address):
        says = f"Too many tokens that do not work came from here. Wait {wait} seconds."
        headers = {"Retry-After": str(wait)}
        return HTMLResponse(page.render(note=service.note, wrong=says), 429, headers)
    token = service.access.check(shown)
    if token is None or token.role == table.SITE:
        wrong = "A site has no pages; it uses the client."
        if token is None:
            error = failed_login(service, service.failed_logins, address, shown)
            wrong = f"{display.sentence(error.says)}."
        return HTMLResponse(page.render(note=service.note, wrong=wrong), 403 if token else 401)
    await asyncio.to_thread(service.access.note_login, token)
    service.meter.logins += 1
    service.log.write("info", "login", who=token.name, role=token.role, address=address)
    response = RedirectResponse("/", 303)
    response.set_cookie(
        service.cookie,
        service.sessions.begin(token.id),
        secure=service.behind_tls,
        httponly=True,
        samesite="strict",
        path="/",
    )
    return response


async def logout(call: Call) -> Response:
    """Log out."""
    service = call.service
    service.sessions.end(call.request.cookies.get(service.cookie, ""))
    response = RedirectResponse("/login", 303)
    response.delete_cookie(service.cookie, secure=service.behind_tls, httponly=True, path="/")
    return response


# ---- 1: status -----------------------------------------------------------------------------------


async def status(call: Call) -> Response:
    """Where the run stands, on one page."""
    service = call.service
    query(call.request)
    await catch_up(call)
    run, view = await _standing(service)
    tickets = list[TicketView]()
    if call.token is not None and call.token.role == table.OPERATOR:  # who may settle them
        ledger = service.ledger
        tickets = await service.engine.call(lambda: ledger.list_tickets(most=_OPEN_TICKETS))
    names = ("learned", "waiting", "open", "missing", "refused", "frozen_out")
    parts = [(name.replace("_", " "), getattr(run, name)) for name in names]
    return await show(
        call,
        "status.html",
        "status",
        run=run,
        proposal=view,
        improve=sum(row["verdict"] == "IMPROVE" for row in view.rows) if view else 0,
        open_tickets=tickets,
        parts=parts,
        bar=figures.shares(parts),
        most=service.ledger.terms.most_proposals,
        gauge=_gauge(service, run.budget_left),
        version=_mark_of(service, run.version),
        sites=sorted(service.journal.sites.items()),
        verdict=service.access.last_verdict(),
        verifying=service.verifying is not None and not service.verifying.done(),
    )


async def _standing(service: Service) -> tuple[Status, ProposalView | None]:
    """Where the run stands and what waits, read together: nobody decides in between."""
    ledger = service.ledger
    return await service.engine.call(lambda: (ledger.status(), ledger.proposal()))


def _mark_of(service: Service, version: int) -> Mark | None:
    """The event that made a version, if the journal has come to it."""
    marks = service.journal.versions()
    return marks[version - 1] if version <= len(marks) else None


def _gauge(service: Service, left: int | None) -> Any:
    most = service.ledger.terms.most_proposals
    return figures.gauge(left, most) if most and left is not None else ""


async def freeze(call: Call) -> Response:
    """Stop the run."""
    if is_by_enter(call):
        return await status(call)
    said = "The run is frozen: no ticket is issued, nothing is decided."
    if not await actions.act(call, "freeze", filled_in(call, "reason")):
        said += " The database cannot record it yet, so do not restart the server before it can."
    return after(call, "/", said)


async def thaw(call: Call) -> Response:
    """Let the run go on."""
    if is_by_enter(call):
        return await status(call)
    await actions.act(call, "thaw", filled_in(call, "reason"))
    return after(call, "/", "The run goes on.")


async def missing(call: Call) -> Response:
    """Declare that no report will come."""
    if is_by_enter(call):
        return await status(call)
    given = filled_in(call, "reason", "ticket")
    await actions.act(call, "missing", given)
    return after(call, "/", f"Ticket {given['ticket']} is declared missing.")


async def verify(call: Call) -> Response:
    """Replay everything from the start."""
    await call.service.verify(call.who)
    task = call.service.verifying
    assert task is not None
    await asyncio.wait([task], timeout=2.0)  # a small ledger is verified at once
    verdict = call.service.access.last_verdict()
    if task.done() and verdict is not None:
        task.result()  # or why nothing was found
        if not verdict["whole"]:  # and its events can perhaps not be read
            return after(call, "/", f"The ledger is not whole: {verdict['what']}.")
        return after(call, "/audit", f"Verified: {verdict['what']}.")
    return after(call, "/audit", "Everything is being replayed; look again in a while.")


# ---- 2: proposal ---------------------------------------------------------------------------------


async def proposal(call: Call) -> Response:
    """What waits for a decision, a line for each row."""
    service = call.service
    query(call.request)
    await catch_up(call)
    run, view = await _standing(service)
    rows = display.proposal_rows(service.ledger.terms, view) if view else []
    return await show(
        call,
        "proposal.html",
        "proposal",
        run=run,
        view=view,
        rows=rows,
        news=list(dict.fromkeys(name for row in rows for name in row["new_actions"])),
        why=display.why_now(service.journal, view) if view else "",
        worth=worth_lines(view.worth) if view else [],
        words=WORDS,
        false_share=false_share(view) if view else "",
        reports=reports(view) if view else "",
        most=service.ledger.terms.most_proposals,
    )


async def propose(call: Call) -> Response:
    """Let the learner propose what it would change now."""
    said = "Here is what it would change."
    if await actions.act(call, "propose", {}) is None:
        run, _ = await _standing(call.service)
        why = run.nothing_because  # None if somebody else has asked since
        said = f"The learner would change nothing{f': {why}' if why else ''}."
    return after(call, "/proposal", said)


async def decide(call: Call) -> Response:
    """Approve or reject the rows that are ticked; bound to the hash that was on the page."""
    if is_by_enter(call):
        return await proposal(call)
    how, given = call.field("decision"), filled_in(call, "reason", "proposal")
    rows = [_row_labels(call, value) for name, value in call.fields if name == "row"]
    if how == "approve all":
        version = await actions.act(call, "approve", given)
        said = f"Version {version} is deployed: all rows approved."
    elif how == "approve":
        version = await actions.act(call, "approve", given | {"rows": rows})
        said = f"Version {version} is deployed: {counted(len(rows), 'row')} approved."
    elif how in ("not now", "never"):
        forever = how == "never"
        await actions.act(call, "reject", given | {"rows": rows, "forever": forever})
        time = "for ever" if forever else "for now"
        said = f"{counted(len(rows), 'row')} rejected {time}."
    else:
        raise RefusedError(400, "a decision is approve all, approve, not now or never")
    return after(call, "/proposal", said)


def _row_labels(call: Call, value: str) -> list[int | str]:
    """The labels of a row of the form, where it stands by its positions."""
    labels, found = call.service.ledger.terms.labels, list[int | str]()
    for kind, place in zip(("step", "state"), value.partition(":")[::2], strict=True):
        position = whole(place)
        is_one = isinstance(position, int) and 0 <= position < len(labels[kind])
        found.append(labels[kind][int(position)] if is_one else position)
    return found


# ---- 3: policy map -------------------------------------------------------------------------------


async def policy_map(call: Call) -> Response:
    """Steps by states: what is played, how well it is known, how often it changed."""
    service, terms = call.service, call.service.ledger.tables()
    asked = query(call.request, "view", "page", "search")
    view, words = asked.get("view", "action"), asked.get("search", "")
    if view not in display.VIEWS:
        raise RefusedError(400, f"view must be one of {', '.join(display.VIEWS)}")
    names = terms.labels["state"]
    found = [x for x in range(terms.states) if words.lower() in names[x].lower()]
    pages = max(1, -(-len(found) // display.PER_PAGE))
    page = min(max(count(asked, "page", 1, 10**9), 1), pages)
    states = found[(page - 1) * display.PER_PAGE : page * display.PER_PAGE]
    chart = await service.engine.call(service.ledger.chart)
    signs = display.codes(terms.labels["action"])
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
        rows=display.map_rows(terms, chart, view, states),
        legend=list(zip(signs, terms.labels["action"], strict=True)),
        version=chart.version,
    )


async def row(call: Call) -> Response:
    """One row: what is known of each action, and its history."""
    service, terms = call.service, call.service.ledger.tables()
    asked = query(call.request, "step", "state")
    h = count(asked, "step", 0, terms.horizon - 1)
    x = count(asked, "state", 0, terms.states - 1)
    await catch_up(call)
    step, state = terms.labels["step"][h], terms.labels["state"][x]
    view = await service.engine.call(lambda: service.ledger.row(step, state))
    left = terms.horizon - h
    rows = [
        Interval(one["action"], one["estimate"], one["width"], one["visits"] > 0)
        for one in view.actions
    ]
    marks = service.journal.versions()
    names = terms.labels["action"]
    history = [
        {
            "number": number,
            "plays": ", ".join(sorted({names[a] for a in plays})),
            "mark": marks[number - 1] if number <= len(marks) else None,
        }
        for number, plays in view.versions
    ]
    return await show(
        call,
        "row.html",
        "map",
        view=view,
        step=step,
        state=state,
        bars=[
            figures.intervals(terms.rewards[0] * left, terms.rewards[1] * left, [r]) for r in rows
        ],
        history=history,
    )


# ---- 4: timeline ---------------------------------------------------------------------------------


async def timeline(call: Call) -> Response:
    """Versions, what came of them, decisions, and the budget."""
    service = call.service
    query(call.request)
    await catch_up(call)
    run, policies = await service.engine.call(lambda: (service.ledger.status(), _policies(service)))
    lines = display.version_lines(service.journal, policies)
    return await show(
        call,
        "timeline.html",
        "timeline",
        run=run,
        lines=lines[::-1],
        figure=display.returns_figure(lines),
        gauge=_gauge(service, run.budget_left),
        most=service.ledger.terms.most_proposals,
        decisions=display.decision_lines(service.ledger.terms, service.journal.decisions())[:200],
    )


def _policies(service: Service) -> list[Any]:
    return [service.ledger.policy_of(n + 1) for n in range(service.ledger.version)]


async def rollback(call: Call) -> Response:
    """Deploy an earlier version again."""
    if is_by_enter(call):
        return await timeline(call)
    given = filled_in(call, "reason", "version")
    if "version" in given:
        given["version"] = whole(given["version"])
    new, old = await actions.act(call, "rollback", given), given["version"]
    return after(call, "/timeline", f"Version {new} is deployed; it plays what version {old} did.")


# ---- 5: audit ------------------------------------------------------------------------------------


async def audit(call: Call) -> Response:
    """Events to filter, verify, export, and the difference of any two versions."""
    service = call.service
    asked = query(call.request, "kind", "search", "before")
    kind, words = asked.get("kind", ""), asked.get("search", "")
    before = count(asked, "before", 0, 10**17) or None
    if kind and kind not in KINDS:
        raise RefusedError(400, f"there is no such kind of event; there are {', '.join(KINDS)}")

    def read() -> list[Any]:
        with service.reading() as reader:
            return reader.newest(_EVENTS, before=before, kind=kind or None, containing=words)

    events = await asyncio.to_thread(read)
    more = events[-1].seq if len(events) == _EVENTS else None
    return await show(
        call,
        "audit.html",
        "audit",
        events=events,
        kinds=KINDS,
        kind=kind,
        search=words,
        before=before,
        more=more,
        verdict=service.access.last_verdict(),
        verifying=service.verifying is not None and not service.verifying.done(),
    )


async def difference(call: Call) -> Response:
    """What differs between two versions."""
    ledger, asked = call.service.ledger, query(call.request, "from", "to")
    old, new = count(asked, "from", 1, 10**9), count(asked, "to", 1, 10**9)
    before, after = await call.service.engine.call(
        lambda: (ledger.policy_of(old), ledger.policy_of(new))
    )
    rows = display.difference(ledger.terms, before, after)
    return await show(call, "difference.html", "audit", old=old, new=new, rows=rows)


async def export(call: Call) -> Response:
    """Download all events."""
    return await api.export(call)


# ---- who may what --------------------------------------------------------------------------------


async def roles(call: Call) -> Response:
    """The table of roles."""
    return await show(
        call,
        "roles.html",
        "roles",
        roles=table.ROLES,
        duties=table.DUTIES,
        endpoints=table.ENDPOINTS,
    )


async def tokens(call: Call) -> Response:
    """All tokens, without their secrets."""
    time = now()
    known = [token.shown(time) for token in call.service.access.tokens()]
    return await show(call, "tokens.html", "tokens", known=known)


async def revoke(call: Call) -> Response:
    """Let a token work no more."""
    gone = await actions.revoke(call, filled_in(call, "id"))
    return after(call, "/tokens", f"The token of {gone.name} works no more.")
