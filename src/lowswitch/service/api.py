"""The ledger as JSON, for sites and programs.

An answer is the ledger's own, field by field. What is refused has a status code, the name of the
ledger's error in `error`, and in `says` the reason and the way out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec.structs import asdict
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.audit import exported
from lowswitch.ledger.responses import RequestView
from lowswitch.service import actions
from lowswitch.service import openapi as description
from lowswitch.service.app import Call, now
from lowswitch.service.bodies import RefusedError, checked, count, parsed, query
from lowswitch.service.metrics import metrics_text

_MOST_LISTED = 1000  # tickets or events in one answer


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


def facts(answer: Any) -> Any:
    """An answer of the ledger as JSON can hold it."""
    if isinstance(answer, LedgerError):
        return {"error": type(answer).__name__, "says": str(answer)}
    if isinstance(answer, list):
        return [facts(one) for one in answer]
    is_record = dataclasses.is_dataclass(answer) and not isinstance(answer, type)
    return dict(vars(answer)) if is_record else answer


# ---- everybody -----------------------------------------------------------------------------------


async def health(call: Call) -> Response:
    """Whether the thread of the ledger answers."""
    try:
        seq, _ = await asyncio.wait_for(
            call.service.engine.call(call.service.ledger.store.head), timeout=5
        )
    except (TimeoutError, LedgerError):
        raise RefusedError(503, "the ledger does not answer", "Busy") from None
    return _json({"works": True, "events": seq})


async def metrics(call: Call) -> Response:
    """Counts for Prometheus."""
    service = call.service
    status = await service.engine.call(service.ledger.status)
    return PlainTextResponse(metrics_text(service, status), media_type="text/plain; version=0.0.4")


async def openapi(call: Call) -> Response:
    """The description of this interface."""
    return JSONResponse(description.description())


async def terms(call: Call) -> Response:
    """What the run declared."""
    payload = call.service.ledger.terms.to_payload()
    names = (
        *("horizon", "states", "actions", "episodes", "labels", "rewards", "missing", "gate"),
        *("patience", "absorbing", "policy", "name", "words"),
    )
    return _json({name: payload[name] for name in names if name in payload})


async def policy(call: Call) -> Response:
    """What is deployed, or was."""
    ledger, asked = call.service.ledger, query(call.request, "version")
    wanted = count(asked, "version", 0, 10**9)

    def read() -> dict[str, Any]:
        version = wanted or ledger.version
        return {"version": version, "policy": ledger.policy_of(version).tolist()}

    return _json(await call.service.engine.call(read))


# ---- sites ---------------------------------------------------------------------------------------


async def ask(call: Call) -> Response:
    """Tickets for the site that asks."""
    requests = checked(parsed(call.body), "ask")["requests"]
    answers = await call.service.engine.ask([(call.who, request) for request in requests])
    return _json({"answers": facts(answers)})


async def tell(call: Call) -> Response:
    """Reports of the site that tells them."""
    reports = checked(parsed(call.body), "tell")["reports"]
    own = [asdict(report) | {"site": call.who} for report in reports]
    answers = await call.service.engine.tell(own)
    return _json({"answers": facts(answers)})


# ---- readers -------------------------------------------------------------------------------------


async def status(call: Call) -> Response:
    """Where the run stands."""
    return _json(facts(await call.service.engine.call(call.service.ledger.status)))


async def proposal(call: Call) -> Response:
    """What waits for a decision, or null."""
    return _json(facts(await call.service.engine.call(call.service.ledger.proposal)))


async def worth(call: Call) -> Response:
    """What rows of the pending proposal are worth, by default all; null if nothing waits."""
    given = query(call.request, "rows").get("rows")
    pairs = None if given is None else [part.split(":") for part in given.split(",") if part]
    if pairs is not None and any(len(pair) != 2 for pair in pairs):
        raise RefusedError(400, f"rows are step:state with commas between them, not {given!r}")
    ledger = call.service.ledger
    return _json(await call.service.engine.call(lambda: ledger.worth(pairs)))


async def proposals(call: Call) -> Response:
    """All proposals, which takes a walk through all events."""
    return _json(facts(await asyncio.to_thread(_read, call, lambda reader: reader.proposals())))


async def versions(call: Call) -> Response:
    """All versions, which takes a walk through all events."""
    return _json(facts(await asyncio.to_thread(_read, call, lambda reader: reader.versions())))


def _read(call: Call, function: Callable[[Ledger], Any]) -> Any:
    """Something that takes a while to read, with a connection of its own."""
    with call.service.reading() as reader:
        return function(reader)


async def tickets(call: Call) -> Response:
    """The tickets of a status, from a number on."""
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
    name = f'attachment; filename="events.{kind}"'
    media = "text/csv; charset=utf-8" if kind == "csv" else "application/jsonl"
    pieces = _pieces(call, kind)
    return StreamingResponse(pieces, media_type=media, headers={"Content-Disposition": name})


async def _pieces(call: Call, kind: str) -> AsyncIterator[bytes]:
    """Lines in pieces, each read in a thread when the one before it is sent."""
    with call.service.reading() as reader:
        lines = exported(reader, kind)

        def some() -> bytes:
            return "".join(itertools.islice(lines, 1000)).encode()

        while piece := await asyncio.to_thread(some):
            yield piece


async def verify(call: Call) -> Response:
    """Begin to verify; the verdict is kept when it is there."""
    await call.service.verify(call.who)
    return _json({"verifying": True}, 202)


async def verdict(call: Call) -> Response:
    """What the last verify found."""
    task = call.service.verifying
    running = task is not None and not task.done()
    return _json({"verifying": running, "last": call.service.access.last_verdict()})


# ---- reviewers and operators ---------------------------------------------------------------------


async def _act(call: Call) -> Any:
    return await actions.act(call, call.endpoint.handler, parsed(call.body))


def _decided(name: str, answer: Any) -> Response:
    """What a decision led to, or the request that waits for other reviewers."""
    if isinstance(answer, RequestView):
        return _json({"request": facts(answer)})
    return _json({name: True if answer is None else answer})


async def approve(call: Call) -> Response:
    """Deploy rows of the pending proposal."""
    return _decided("version", await _act(call))


async def reject(call: Call) -> Response:
    """Let rows of the pending proposal stay as they are."""
    return _decided("rejected", await _act(call))


async def forbid(call: Call) -> Response:
    """Never deploy actions in rows again."""
    return _decided("version", await _act(call))


async def lift(call: Call) -> Response:
    """Allow forbidden actions again."""
    return _decided("lifted", await _act(call))


async def requests(call: Call) -> Response:
    """The decisions that wait until enough reviewers agree."""
    return _json(facts(await call.service.engine.call(call.service.ledger.requests)))


async def confirm(call: Call) -> Response:
    """Agree to a request."""
    return _decided("version", await _act(call))


async def decline(call: Call) -> Response:
    """Turn a request down."""
    return _decided("declined", await _act(call))


async def set_quorum(call: Call) -> Response:
    """Change how many reviewers must agree."""
    return _decided("changed", await _act(call))


async def propose(call: Call) -> Response:
    """Let the learner propose what it would change now."""
    return _json(facts(await _act(call)))


async def freeze(call: Call) -> Response:
    """Stop the run."""
    await _act(call)
    return await status(call)


async def thaw(call: Call) -> Response:
    """Let the run go on."""
    answer = await _act(call)
    return await status(call) if answer is None else _decided("version", answer)


async def rollback(call: Call) -> Response:
    """Deploy an earlier version again."""
    return _decided("version", await _act(call))


async def cap_trial(call: Call) -> Response:
    """Let a smaller share of the cases enter the trial."""
    return _json({"version": await _act(call)})


async def missing(call: Call) -> Response:
    """Declare that no report will come."""
    await _act(call)
    return _json({"missing": parsed(call.body)["ticket"]})


async def missing_many(call: Call) -> Response:
    """Declare that several reports will not come."""
    await _act(call)
    return _json({"missing": parsed(call.body)["tickets"]})


async def amend(call: Call) -> Response:
    """Correct a report, which takes a replay of the run."""
    return _json(facts(await _act(call)))


async def tokens(call: Call) -> Response:
    """All tokens, without their secrets."""
    time = now()
    return _json([token.shown(time) for token in call.service.access.tokens()])


async def revoke(call: Call) -> Response:
    """Let a token work no more."""
    return _json(actions.revoke(call, parsed(call.body)).shown(now()))
