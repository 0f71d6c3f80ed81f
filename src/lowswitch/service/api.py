"""The ledger as JSON, for sites and programs.

An answer has the fields of the ledger's own answer. A refusal has a status code, the name of the
ledger's error in `error`, and the reason and the remedy in `says`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from lowswitch.ledger import (
    Issued,
    Ledger,
    LedgerError,
    ProposalView,
    Status,
    StorageError,
    TicketView,
    anchors,
)
from lowswitch.ledger.address import is_postgres
from lowswitch.ledger.exports import exported
from lowswitch.ledger.responses import MotionView, Told
from lowswitch.service import actions, doubts
from lowswitch.service import openapi as description
from lowswitch.service.access import ANCHORED
from lowswitch.service.app import RECORD_SECONDS, Call, as_refusal, attempt, now
from lowswitch.service.bodies import (
    RefusedError,
    checked,
    count,
    numbers,
    parsed,
    query,
    rows_of,
)
from lowswitch.service.engine import MOST_INLINE
from lowswitch.service.metrics import metrics_text

_MOST_LISTED = 1000  # tickets, events, versions or rows of a proposal in one answer
_MOST_PROPOSALS = 20  # in one answer
_METRICS_SECONDS = 5.0  # that a monitor waits for the ledger; then it gets what is in memory
_ANCHORED_ANEW = timedelta(hours=1)  # after which another anchor is put on record
_CATCH_UP = 0.5  # seconds that a site waits for the journal
_UNFIT = 422  # the status of what the ledger understands and will not have
MOST_CELLS = 1 << 20  # rows of policies in one answer


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


def facts(answer: Any) -> Any:
    """An answer of the ledger as plain JSON values."""
    if isinstance(answer, LedgerError):
        return {"error": type(answer).__name__, "says": str(answer)}
    if isinstance(answer, Issued):
        return answer.facts()
    if isinstance(answer, list):
        return [facts(one) for one in answer]
    is_record = dataclasses.is_dataclass(answer) and not isinstance(answer, type)
    return dict(vars(answer)) if is_record else answer


# ---- everybody -----------------------------------------------------------------------------------


async def health(call: Call) -> Response:
    """Whether the process answers; it does even while the ledger is busy."""
    return _json({"works": True})


async def ready(call: Call) -> Response:
    """Whether the ledger and its database answer."""
    service = call.service
    try:
        async with asyncio.timeout(5):
            seq, _ = await service.engine.call(service.ledger.store.head, "say that it works")
    except (TimeoutError, LedgerError):
        raise RefusedError(503, "the ledger does not answer", "Busy") from None
    return _json({"ready": True, "events": seq})


async def metrics(call: Call) -> Response:
    """Counts for Prometheus."""
    service = call.service
    ledger = service.ledger

    def read() -> tuple[Status, list[TicketView]]:
        return ledger.status(), ledger.list_tickets(most=1)

    found: tuple[Status, list[TicketView]] | None = None
    with suppress(TimeoutError, LedgerError, RefusedError):  # then the rest says so
        async with asyncio.timeout(_METRICS_SECONDS):
            found = await service.engine.call(read)
    text = metrics_text(service, found)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def openapi(call: Call) -> Response:
    """The description of this interface."""
    return JSONResponse(description.description())


async def terms(call: Call) -> Response:
    """The declaration of the run."""
    ledger = call.service.ledger
    payload = ledger.terms.to_payload()
    if payload["policy"] is None:  # as the algorithm begins, which a site may have to fall back on
        payload["policy"] = (await call.service.engine.call(lambda: ledger.policy_json(1)))[
            "policy"
        ]
    names = (
        *("horizon", "states", "features", "shared", "about", "actions", "episodes", "labels"),
        *("rewards", "missing", "gate", "patience", "absorbing", "policy", "name", "words"),
    )
    return _json({name: payload[name] for name in names if name in payload})


async def policy(call: Call) -> Response:
    """The deployed or an earlier policy: a whole version, or one of its tables."""
    ledger, asked = call.service.ledger, query(call.request, "version", "member")
    wanted = count(asked, "version", 0, 10**9) or None
    member = None if "member" not in asked else count(asked, "member", 0, 10**6)
    return _json(await call.service.engine.call(lambda: ledger.policy_json(wanted, member)))


# ---- sites ---------------------------------------------------------------------------------------


async def ask(call: Call) -> Response:
    """Tickets for the calling site."""
    requests, size = checked(parsed(call.body), "ask")["requests"], call.service.ledger.terms.cells
    if size <= MOST_INLINE and size * len(requests) > MOST_CELLS:
        most = MOST_CELLS // size
        raise RefusedError(413, f"ask for at most {most} tickets at once, not {len(requests)}")
    answers = await call.service.engine.ask([(call.who, request) for request in requests])
    return _json({"answers": facts(answers)})


async def act(call: Call) -> Response:
    """The action of a ticket in a context, and its propensity; nothing is recorded."""
    given, ledger = checked(parsed(call.body), "act"), call.service.ledger
    return _json(await call.service.engine.call(lambda: ledger.act(**given, site=call.who)))


async def tell(call: Call) -> Response:
    """Reports of the calling site."""
    reports = checked(parsed(call.body), "tell")["reports"]
    own = [report | {"site": call.who} for report in reports]
    answers = await call.service.engine.tell(own)
    for report, answer in zip(own, answers, strict=True):
        if isinstance(answer, LedgerError) and as_refusal(answer).status == _UNFIT:
            _note_refusal(call, report, str(answer))
    return _json({"answers": facts(await _doubted(call, own, answers))})


async def _doubted(call: Call, reports: list[dict[str, Any]], answers: list[Any]) -> list[Any]:
    """The answers, with what is unlikely in the reports that were stored."""
    journal, terms = call.service.journal, call.service.ledger.terms
    stored = [answer for answer in answers if isinstance(answer, Told)]
    if not all(journal.has_plan(told.number) for told in stored):
        await attempt(lambda: journal.catch_up(1), _CATCH_UP)  # which looks it up

    def why(report: dict[str, Any], told: Told) -> list[str]:
        if journal.seq >= told.event:
            return journal.doubted.get(told.number, ("", []))[1]
        return doubts.of_site(journal.seen, terms, report, journal.plan(told.number))

    return [
        dataclasses.replace(answer, doubts=tuple(why(report, answer)))
        if isinstance(answer, Told)
        else answer
        for report, answer in zip(reports, answers, strict=True)
    ]


def _note_refusal(call: Call, report: dict[str, Any], says: str) -> None:
    """Let the trial office know of an invalid report."""
    call.service.refusals.add(report, now().isoformat(), says)
    facts = {"site": call.who, "ticket": report["ticket"], "says": says}
    call.service.log.write("warning", "report refused", **facts)


# ---- readers -------------------------------------------------------------------------------------


async def status(call: Call) -> Response:
    """The current state of the run."""
    found = facts(await call.service.engine.call(call.service.ledger.status))
    return _json(found | {"frozen": found["frozen"] or bool(call.service.engine.stopped)})


async def proposal(call: Call) -> Response:
    """The pending proposal, or one by its hash, with some of its rows; null if there is none."""
    asked, ledger = query(call.request, "hash", "first", "count"), call.service.ledger
    first, most = count(asked, "first", 0, 10**9), count(asked, "count", _MOST_LISTED, _MOST_LISTED)
    wanted = asked.get("hash")
    if wanted is None:
        found = await call.service.engine.call(ledger.proposal)
    else:
        some = await asyncio.to_thread(_read, call, lambda reader: reader.proposals())
        found = next((one for one in some if one.hash == wanted), None)
    return _json(None if found is None else _page(found, first, most))


def _page(view: ProposalView, first: int, most: int) -> dict[str, Any]:
    """A proposal with some of its rows, and how many it has in all."""
    found: dict[str, Any] = facts(view)
    return found | {"rows": view.rows[first : first + most], "rows_in_all": len(view.rows)}


async def worth(call: Call) -> Response:
    """The worth of rows of the pending proposal, by default all; null if none is pending."""
    given = query(call.request, "rows").get("rows")
    pairs = None if given is None else rows_of(given)
    ledger = call.service.ledger
    return _json(await call.service.engine.call(lambda: ledger.worth(pairs)))


async def certificate(call: Call) -> Response:
    """How good the deployed policy is for certain, and the gain of one more deployment."""
    given: dict[str, Any] = numbers(query(call.request, "within", "probability", "cost"))
    ledger = call.service.ledger
    return _json(facts(await call.service.engine.call(lambda: ledger.certificate(**given))))


async def proposals(call: Call) -> Response:
    """Some proposals, each with its first rows. This walks through all events."""
    asked = query(call.request, "first", "count")
    first, most = count(asked, "first", 0, 10**9), count(asked, "count", 20, _MOST_PROPOSALS)
    found = await asyncio.to_thread(_read, call, lambda reader: reader.proposals())
    each = _MOST_LISTED // _MOST_PROPOSALS
    return _json([_page(one, 0, each) for one in found[first : first + most]])


async def versions(call: Call) -> Response:
    """Some versions. This walks through all events."""
    asked = query(call.request, "first", "count")
    first, most = count(asked, "first", 0, 10**9), count(asked, "count", _MOST_LISTED, _MOST_LISTED)
    found = await asyncio.to_thread(_read, call, lambda reader: reader.versions())
    return _json(facts(found[first : first + most]))


def _read(call: Call, function: Callable[[Ledger], Any]) -> Any:
    """Read something that takes a while, over a separate connection."""
    with call.service.reading() as reader:
        return function(reader)


async def tickets(call: Call) -> Response:
    """The tickets with a status, from a number on."""
    asked = query(call.request, "status", "first")
    kind, first = asked.get("status", "open"), count(asked, "first", 1, 10**17)
    known = ("open", "waiting", "learned", "missing", "refused")
    if kind not in known:
        raise RefusedError(400, f"status must be one of {', '.join(known)}, not {kind!r}")

    def read(reader: Ledger) -> list[dict[str, Any]]:
        found = list[dict[str, Any]]()
        for ticket in reader.tickets(kind):
            if ticket.number >= first:
                found.append(ticket._asdict())
            if len(found) == _MOST_LISTED:
                break
        return found

    return _json(await asyncio.to_thread(_read, call, read))


async def events(call: Call) -> Response:
    """Events from a number on."""
    asked = query(call.request, "first", "count")
    first, most = count(asked, "first", 1, 10**17), count(asked, "count", 100, _MOST_LISTED)

    def read(reader: Ledger) -> list[dict[str, Any]]:
        if not 1 <= first <= reader.store.head()[0]:
            return []
        found = list[dict[str, Any]]()
        for event in reader.events(first):
            if len(found) == most:
                break
            found.append({name: value for name, value in event._asdict().items() if name != "body"})
        return found

    return _json(await asyncio.to_thread(_read, call, read))


async def export(call: Call) -> Response:
    """All events as a file."""
    kind = query(call.request, "kind").get("kind", "jsonl")
    if kind not in ("jsonl", "csv"):
        raise RefusedError(400, f"kind must be jsonl or csv, not {kind!r}")
    return download(call, f"events.{kind}", lambda reader: exported(reader, kind))


def download(call: Call, name: str, lines_of: Callable[[Ledger], Iterator[str]]) -> Response:
    """Lines that are read from the ledger, as a file."""
    media = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/jsonl"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_pieces(call, lines_of), media_type=media, headers=headers)


async def _pieces(call: Call, lines_of: Callable[[Ledger], Iterator[str]]) -> AsyncIterator[bytes]:
    """Lines in pieces, each read in a thread once the one before it is sent."""
    with call.service.reading() as reader:
        lines = lines_of(reader)

        def some() -> bytes:
            return "".join(itertools.islice(lines, 1000)).encode()

        while piece := await asyncio.to_thread(some):
            yield piece


async def verify(call: Call) -> Response:
    """Start to verify; the verdict is recorded at the end."""
    assert call.token is not None
    await call.service.verify(call.token)
    return _json({"verifying": True}, 202)


async def verdict(call: Call) -> Response:
    """The result of the last verify."""
    task = call.service.verifying
    running = task is not None and not task.done()
    return _json({"verifying": running, "last": call.service.access.last_verdict()})


async def anchor(call: Call) -> Response:
    """The current heads of the ledger, signed, for somebody who stores them elsewhere."""
    service, who = call.service, call.token
    assert who is not None
    if service.key_file is None and is_postgres(service.address):
        says = "this server has no signing key; its administrator starts it with --key-file FILE"
        raise LedgerError(says)
    verdict = service.access.last_verdict()
    if verdict is not None and not verdict["whole"]:
        raise LedgerError(f"nothing is signed: the last check found damage: {verdict['what']}")

    def sign() -> dict[str, Any]:
        key = anchors.signing_key(service.key_file or anchors.key_beside(service.address))
        return anchors.anchored(service.ledger.store, key)._asdict()

    made = await service.engine.call(sign)
    last = service.access.last_copied(ANCHORED)
    if last is None or now() - datetime.fromisoformat(last) > _ANCHORED_ANEW:
        note = functools.partial(
            service.access.copied, ANCHORED, by=who.name, role=who.role, events=made["seq"]
        )
        await attempt(note, RECORD_SECONDS)
    return _json(made)


# ---- reviewers and operators ---------------------------------------------------------------------


async def _act(call: Call) -> Any:
    return await actions.act(call, call.endpoint.handler, parsed(call.body))


def _decided(name: str, answer: Any) -> Response:
    """The result of a decision, or the motion that waits for other reviewers."""
    if isinstance(answer, MotionView):
        return _json({"motion": facts(answer)})
    return _json({name: True if answer is None else answer})


async def approve(call: Call) -> Response:
    """Deploy rows of the pending proposal."""
    return _decided("version", await _act(call))


async def reject(call: Call) -> Response:
    """Leave rows of the pending proposal as they are."""
    return _decided("rejected", await _act(call))


async def forbid(call: Call) -> Response:
    """Forbid actions in rows permanently."""
    return _decided("version", await _act(call))


async def lift(call: Call) -> Response:
    """Allow forbidden actions again."""
    return _decided("lifted", await _act(call))


async def motions(call: Call) -> Response:
    """The motions that wait until enough reviewers agree."""
    return _json(facts(await call.service.engine.call(call.service.ledger.motions)))


async def confirm(call: Call) -> Response:
    """Agree to a motion."""
    return _decided("version", await _act(call))


async def decline(call: Call) -> Response:
    """Turn a motion down."""
    return _decided("declined", await _act(call))


async def set_quorum(call: Call) -> Response:
    """Change how many reviewers must agree."""
    return _decided("changed", await _act(call))


async def propose(call: Call) -> Response:
    """Ask the learner for a proposal now."""
    found = await _act(call)
    return _json(None if found is None else _page(found, 0, _MOST_LISTED))


async def freeze(call: Call) -> Response:
    """Pause the run, even if the database cannot record it now."""
    if await _act(call):
        return await status(call)
    kept = call.service.emergency.kept
    says = (
        "this server has stopped the run, but the pause is not recorded yet: the database cannot"
        f" be used now. The server tries again every second; {unrecorded_words(kept)}"
    )
    return _json({"frozen": True, "recorded": False, "kept": kept, "says": says}, 202)


def unrecorded_words(kept: bool) -> str:
    """What a restart would do to a pause that is not recorded."""
    return "a restart does not forget it" if kept else "do not restart it until then"


async def thaw(call: Call) -> Response:
    """Resume the run."""
    answer = await _act(call)
    if answer is not None:
        return _decided("version", answer)
    try:
        return await status(call)
    except StorageError:  # so only a pause that was not recorded can have been taken back
        says = "the pause that was not recorded yet is withdrawn; the database cannot be used now"
        return _json({"recorded": False, "says": says}, 202)


async def rollback(call: Call) -> Response:
    """Deploy an earlier version again."""
    return _decided("version", await _act(call))


async def cap_trial(call: Call) -> Response:
    """Reduce the share of cases in the trial."""
    return _json({"version": await _act(call)})


async def missing(call: Call) -> Response:
    """Declare that no report will come."""
    await _act(call)
    return _json({"missing": parsed(call.body)["ticket"]})


async def missing_many(call: Call) -> Response:
    """Declare that several reports will not come."""
    left_out: list[str] = await _act(call)
    chosen = dict.fromkeys(parsed(call.body)["tickets"])
    return _json({"missing": [one for one in chosen if one not in left_out], "left_out": left_out})


async def dismiss(call: Call) -> Response:
    """Leave a report as it is, although another one contradicts it."""
    await _act(call)
    return _json({"dismissed": parsed(call.body)["ticket"]})


async def amend(call: Call) -> Response:
    """Correct a report, which replays the run."""
    return _json(facts(await _act(call)))


async def amend_many(call: Call) -> Response:
    """Correct several reports, all or none, which replays the run once."""
    return _json([facts(one) for one in await _act(call)])


async def tokens(call: Call) -> Response:
    """All tokens, without their secrets."""
    time = now()
    return _json([token.shown(time) for token in call.service.access.tokens()])


async def revoke(call: Call) -> Response:
    """Revoke a token."""
    gone = await actions.revoke(call, parsed(call.body))
    return _json(gone.shown(now()))
