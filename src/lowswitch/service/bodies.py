"""Requests: bodies read completely within limits, and strict JSON.

`json.loads` accepts NaN, infinities, numbers that overflow to them, duplicate keys and lone
surrogates. Here each of them is refused, as is every unexpected field, before anything is looked up
or changed. The types of the bodies define the expected fields, and the OpenAPI description is made
from them too.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import date
from typing import Annotated, Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request

from lowswitch.ledger.connection import CONTROL, MOST_TEXT, why_no_text
from lowswitch.ledger.terms import ENDED

MOST_BYTES = 1 << 20  # of a body
_MOST_DROPPED = 8 << 20  # bytes that are read only to say that they are too many
MOST_SECONDS = 10.0  # for a body to come
MOST_DIGITS = 18  # of a whole number
_WHOLE = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")
_MOST_FIELDS = 5000  # of a form
_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")


class RefusedError(Exception):
    """A refused request, with its status code and the reason."""

    def __init__(self, status: int, says: str, kind: str = "Refused", wait: int = 0) -> None:
        super().__init__(says)
        self.status, self.says, self.kind = status, says, kind
        self.typed = ""  # a reason that somebody typed in vain, to be copied
        self.wait = wait  # seconds before it may be sent again; 0 if that is not said


async def body_of(request: Request) -> bytes:
    """The whole body, if it is small, plain and arrives soon."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError(415, "compressed bodies are not accepted; send it uncompressed")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > _MOST_DROPPED:
        raise _too_large()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            return await _read(request)
    except TimeoutError:
        raise RefusedError(408, f"the body took longer than {MOST_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise RefusedError(400, "the connection broke before the body was there") from None


async def _read(request: Request) -> bytes:
    """The body. One that is a bit too large is read and dropped, so that its sender learns why."""
    pieces, size = list[bytes](), 0
    async for piece in request.stream():
        size += len(piece)
        if size > _MOST_DROPPED:
            raise _too_large()
        if size <= MOST_BYTES:
            pieces.append(piece)
        else:
            pieces.clear()
    if size > MOST_BYTES:
        raise _too_large()
    return b"".join(pieces)


def _too_large() -> RefusedError:
    return RefusedError(413, f"a body may have {MOST_BYTES:,} bytes; send fewer reports at once")


# ---- JSON ----------------------------------------------------------------------------------------


def parsed(body: bytes) -> Any:
    """The value of an unambiguous JSON text."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except RecursionError:
        raise RefusedError(400, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is no JSON that is taken here: {error}") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def text(name: str, value: Any) -> str:
    """A non-empty text that can be shown."""
    if (why := why_no_text(name, value)) is not None:
        raise RefusedError(400, why)
    found: str = value
    return found


# ---- what each body has --------------------------------------------------------------------------

_SHOWN = rf"^(?!\s*$)(?![\s\S]*{CONTROL.pattern})"
_LARGE = 10**MOST_DIGITS
MOST_AT_ONCE = 512  # tickets or reports in one request

Text = Annotated[str, Meta(pattern=_SHOWN, max_length=MOST_TEXT)]
Whole = Annotated[int, Meta(gt=-_LARGE, lt=_LARGE)]
Number = Whole | Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, lt=2**31)]
_LABEL = "a label as text, or a position from 0 on that is no label of another one"
Label = Annotated[Whole | Text, Meta(description=_LABEL)]
_VECTOR = "features: a number each, or a list of numbers for each action"
Vector = Annotated[list[Number | list[Number]], Meta(description=_VECTOR)]
# a label, or with features the context of a step. Its text is checked apart, because msgspec frees
# a pattern twice that shares a union with a list
State = Whole | Annotated[str, Meta(min_length=1, max_length=MOST_TEXT)] | Vector
Some = Meta(min_length=1, max_length=MOST_AT_ONCE)


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of a request, with their types; one with a default may be left out."""


class Seen(Body):
    """The steps of an episode, among other fields."""

    states: list[State]

    def __post_init__(self) -> None:
        for one in self.states:
            if isinstance(one, str) and (why := why_no_text("a state", one)) is not None:
                raise ValueError(why)


class Tickets(Body):
    requests: Annotated[list[Text], Some]


class Act(Body):
    ticket: Text
    context: Vector
    step: Label = 0


class Report(Seen, kw_only=True):
    ticket: Text
    actions: list[Label] | None
    rewards: list[Number]
    ended: Annotated[Text, Meta(extra_json_schema={"enum": ENDED})] = "whole"
    propensities: list[Share] | None = None


class Reports(Body):
    reports: Annotated[list[Report], Some]


class Named(Body):
    """A command with a name: sent several times, it is carried out once."""

    request: Text | None = None


class Amendment(Report, kw_only=True):
    reason: Text
    request: Text | None = None


class Amendments(Named, kw_only=True):
    reports: Annotated[list[Report], Some]
    reason: Text


class Reason(Named, kw_only=True):
    reason: Text


class Loss(Seen, kw_only=True):
    ticket: Text
    reason: Text
    request: Text | None = None
    states: list[State] = []
    actions: list[Label] = []
    rewards: list[Number] = []


class Decision(Reason, kw_only=True):
    proposal: Text
    rows: list[tuple[Label, Label]] | None = None


class Rows(Body):
    rows: list[tuple[Label, Label]]


class Approval(Decision, kw_only=True):
    part: Text | None = None
    share: Share | None = None


class Rejection(Decision, kw_only=True):
    forever: bool = False
    visits: Count | None = None
    actions: list[Label] | None = None


class Lift(Reason, kw_only=True):
    rows: list[tuple[Label, Label]] | None = None
    actions: list[Label]


class Veto(Lift, kw_only=True):
    instead: Label | None = None
    base: Whole | None = None


class Answer(Reason, kw_only=True):
    motion: Whole


class Agreement(Answer, kw_only=True):
    base: Whole | None = None


class Quorum(Reason, kw_only=True):
    quorum: Count


class Meeting(Named):
    early: bool = False
    held: bool = False
    reason: Text | None = None


class Rollback(Reason, kw_only=True):
    version: Whole


class Losses(Reason, kw_only=True):
    tickets: Annotated[list[Text], Meta(max_length=MOST_AT_ONCE)]
    still_open: bool = False


class Dismissal(Reason, kw_only=True):
    ticket: Text
    unlikely: bool = False


class Cap(Reason, kw_only=True):
    share: Share


class Revocation(Body):
    id: Text


BODIES: dict[str, type[Body]] = {
    "ask": Tickets,
    "act": Act,
    "tell": Reports,
    "approve": Approval,
    "reject": Rejection,
    "forbid": Veto,
    "lift": Lift,
    "confirm": Agreement,
    "decline": Answer,
    "set_quorum": Quorum,
    "propose": Meeting,
    "freeze": Reason,
    "thaw": Reason,
    "rollback": Rollback,
    "cap_trial": Cap,
    "missing": Loss,
    "missing_many": Losses,
    "dismiss": Dismissal,
    "amend": Amendment,
    "amend_many": Amendments,
    "revoke": Revocation,
    "rows": Rows,
}
_WORDS = {  # of msgspec, and ours
    f"matching regex {_SHOWN!r}": "that is not empty and has no control characters",
    "Object missing required field": "lacks the field",
    "Object contains unknown field": "has a field that is not in /api/openapi.json:",
    "Expected": "must be",
    ", got": ", not",
    "`int | str | array`": "a text or a whole number (with features a list)",
    "`int | float | array`": "a number or a list",
    "`int | float`": "a number",
    "`int | str`": "a text or a whole number",
    "`str`": "a text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "an object",
}


def checked(value: Any, action: str) -> dict[str, Any]:
    """The fields of a body, after checking that they are the fields of an action."""
    try:
        found = msgspec.structs.asdict(msgspec.convert(value, BODIES[action]))
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        for theirs, ours in _WORDS.items():
            what = what.replace(theirs, ours)
        raise RefusedError(400, f"{where.strip('`.') or 'the body'} {what[:300]}") from None
    except UnicodeEncodeError:
        raise RefusedError(400, "the name of a field has a character that is not text") from None
    if "reports" in found:
        found["reports"] = [msgspec.structs.asdict(report) for report in found["reports"]]
    return found


# ---- forms and addresses -------------------------------------------------------------------------


def form(body: bytes, content_type: str) -> list[tuple[str, str]]:
    """The fields of a form as a browser sends it."""
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise RefusedError(415, "a form is sent as application/x-www-form-urlencoded")
    return _fields(body, 400)


def query(request: Request, *names: str) -> dict[str, str]:
    """The fields of an address: each once, and no unknown ones."""
    pairs = _fields(request.scope["query_string"], 400)
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError(400, "a field of the address is there twice")
    for name in found.keys() - set(names):
        known = f"; there are {', '.join(names)}" if names else ""
        raise RefusedError(400, f"there is no field {name[:80]!r} of this address{known}")
    return {name: text(name, value) for name, value in found.items() if value}


def _fields(data: bytes, status: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(data),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise RefusedError(status, "the fields cannot be read") from None


def rows_of(given: str) -> list[Any]:
    """Rows in an address: step:state by label, or a JSON list of pairs, also by position."""
    if given.startswith("["):
        return [tuple(row) for row in checked({"rows": parsed(given.encode())}, "rows")["rows"]]
    pairs = [part.split(":") for part in given.split(",") if part]
    if any(len(pair) != 2 for pair in pairs):
        raise RefusedError(400, f"rows are step:state with commas between them, not {given!r}")
    return pairs


def whole(value: str) -> int | str:
    """The whole number in a field of a form; anything else is returned unchanged, to be refused."""
    return int(value) if _WHOLE.fullmatch(value) else value


def numbers(fields: dict[str, str]) -> dict[str, float]:
    """The numeric fields of an address."""
    try:
        return {name: float(value) for name, value in fields.items()}
    except ValueError:
        raise RefusedError(400, f"{', '.join(fields)} must be numbers, such as 0.1") from None


def day(what: str, text: str) -> str:
    """A day that somebody typed, as 2026-05-03; empty if nothing was typed.

    what: the name of the field on its page.
    """
    if not text.strip():
        return ""
    found = _DAY.fullmatch(text.strip())
    try:
        year, month, of_month = (int(one) for one in found.groups()) if found else (0, 0, 0)
        return date(year, month, of_month).isoformat()
    except ValueError:
        raise RefusedError(
            422, f"{what}: {text!r} is not a day; write year, month and day, such as 2026-05-03"
        ) from None


def count(fields: dict[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 0 on in the fields of an address."""
    value = fields.get(name, str(default))
    if not (value.isascii() and value.isdecimal() and len(value) <= MOST_DIGITS):
        raise RefusedError(400, f"{name} must be a whole number")
    if int(value) > most:
        raise RefusedError(400, f"{name} may be at most {most:,}")
    return int(value)
