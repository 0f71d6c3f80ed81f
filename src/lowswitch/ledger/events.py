"""Events and their chain: each carries the hash of the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lowswitch.ledger.errors import BrokenError

# of what is stored: 2 has events of the kind "snapshot" and a column of kinds, 3 a chain of access
FORMAT = 3
NEWEST = 4  # of the first event: 3 may declare features, and from 4 on no time goes backwards
SEMANTICS = 1  # of what the learner makes of them
GENESIS = "0" * 64
LEDGER, SITE, REVIEWER, OPERATOR = "ledger", "site", "reviewer", "operator"  # roles

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


class Kind(NamedTuple):
    """The properties that all events of a kind share."""

    verb: str = ""  # what the actor did, in words; the pages keep the events that have one
    learn_later: bool = False  # no report before it needs to be learned by then
    of_ticket: bool = False  # its payload names one by its number
    has_report: bool = False  # of a ticket
    is_decision: bool = False  # of people, about the run
    makes_version: bool = False  # if it says which; the first event makes version 1
    needs_quorum: bool = False  # where the run asks for several reviewers
    sign: str = ""  # the letter that marks it in a figure
    is_idle: bool = False  # nothing is learned by it once amended reports are in their places
    word: str = ""  # what the pages call it
    ends_proposal: bool = False  # a pending one is decided, or made again
    of_version: bool = False  # a request for it is about what it replaces in one version
    alone: bool = False  # two requests for it contradict each other
    uncounted: bool = False  # it has a report that is not learned from
    is_request: bool = False  # of people, for a decision that needs several of them
    is_neutral: bool = False  # no proposal depends on it: asking again after it finds nothing new


KINDS = {
    "asked": Kind(word="enrolled", learn_later=True, of_ticket=True, is_neutral=True),
    "told": Kind(word="reported", learn_later=True, of_ticket=True, has_report=True),
    "missing": Kind(word="declared missing", learn_later=True, of_ticket=True, has_report=True),
    "refused": Kind(
        word="report came too late",
        learn_later=True,
        of_ticket=True,
        uncounted=True,
        is_neutral=True,
    ),
    "conflict": Kind(
        word="contradicting report",
        learn_later=True,
        of_ticket=True,
        uncounted=True,
        is_neutral=True,
    ),
    "dismissed": Kind(
        word="report left as it is", learn_later=True, of_ticket=True, is_neutral=True
    ),
    "amended": Kind(
        "corrected a report", word="report corrected", of_ticket=True, has_report=True, is_idle=True
    ),
    "met": Kind(
        "asked for a proposal", word="proposal asked for", ends_proposal=True, is_neutral=True
    ),
    "proposed": Kind("was proposed", word="proposal"),
    "approved": Kind(
        "approved",
        word="approved",
        is_decision=True,
        makes_version=True,
        needs_quorum=True,
        sign="A",
        ends_proposal=True,
    ),
    "capped": Kind(
        "capped the trial",
        word="trial limited",
        is_decision=True,
        makes_version=True,
        sign="E",
        ends_proposal=True,
    ),
    "rejected": Kind(
        "rejected", word="postponed", is_decision=True, needs_quorum=True, ends_proposal=True
    ),
    "vetoed": Kind(
        "forbade actions",
        word="forbidden",
        is_decision=True,
        makes_version=True,
        needs_quorum=True,
        sign="V",
        ends_proposal=True,
        of_version=True,
    ),
    "lifted": Kind(
        "lifted a veto", word="allowed again", is_decision=True, needs_quorum=True, sign="L"
    ),
    "rolled_back": Kind(
        "rolled back",
        word="rolled back",
        is_decision=True,
        makes_version=True,
        needs_quorum=True,
        sign="R",
        ends_proposal=True,
        of_version=True,
        alone=True,
    ),
    "deployed": Kind("was deployed by itself", word="deployed by itself", makes_version=True),
    "frozen": Kind("paused the run", word="paused", is_decision=True, sign="P", is_neutral=True),
    "thawed": Kind(
        "resumed the run",
        word="resumed",
        is_decision=True,
        needs_quorum=True,
        alone=True,
        is_neutral=True,
    ),
    "extended": Kind("extended the run", word="run extended", learn_later=True, is_decision=True),
    "ended": Kind("ended the run", word="run ended", is_decision=True, ends_proposal=True),
    "quorum": Kind(
        "changed the quorum",
        word="number of reviewers",
        is_decision=True,
        needs_quorum=True,
        alone=True,
    ),
    "requested": Kind("asked for a decision", word="request", is_request=True, is_neutral=True),
    "seconded": Kind("agreed to a request", word="agreement", is_request=True, is_neutral=True),
    "declined": Kind(
        "declined a request",
        word="request turned down or withdrawn",
        is_decision=True,
        is_neutral=True,
    ),
    "history": Kind("imported history", word="history imported"),
    "created": Kind("began the run", word="run begun", makes_version=True),
    "snapshot": Kind(word="copy of the state", learn_later=True, is_idle=True, is_neutral=True),
}
OF_TICKETS = [name for name, kind in KINDS.items() if kind.of_ticket]
NEUTRAL = [name for name, kind in KINDS.items() if kind.is_neutral]


def makes_version(kind: str, payload: dict[str, Any]) -> bool:
    """Whether an event, given its payload or the short part of it, creates a version."""
    known = KINDS.get(kind, Kind())
    return known.makes_version and (kind == "created" or "version" in payload)


def needs_quorum(kind: str, payload: dict[str, Any]) -> bool:
    """Whether an event is a decision that several reviewers may have to agree on.

    One reviewer alone can postpone a row.
    """
    return KINDS[kind].needs_quorum and bool(payload.get("forever", True))


class Event(NamedTuple):
    """One thing that happened."""

    seq: int  # from 1, without gaps
    time: str  # of the server, UTC
    actor: str
    role: str
    kind: str
    payload: dict[str, Any]
    previous: str  # the hash of the event before it
    body: str  # all of the above as it is hashed
    hash: str


def canonical(value: Any) -> str:
    """The one JSON text of a value."""
    return _ENCODER.encode(value)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def event(
    seq: int, time: str, actor: str, role: str, kind: str, payload: dict[str, Any], previous: str
) -> Event:
    """An event with its hash."""
    body = canonical([seq, time, actor, role, kind, payload, previous])
    return Event(seq, time, actor, role, kind, payload, previous, body, digest(body))


_LINK = ',""],['  # between two events whose previous hashes are left empty


def events(rows: Sequence[list[Any]], previous: str) -> list[Event]:
    """Several events in a row, written as text in one go.

    rows: their parts up to the hash of the event before, which is empty. No payload has an empty
    text in a list.
    """
    made, texts = list[Event](), canonical(rows)[2:-5].split(_LINK)
    for (*parts, _), text in zip(rows, texts, strict=True):
        body = f'[{text},"{previous}"]'
        made.append(Event._make([*parts, previous, body, digest(body)]))
        previous = made[-1].hash
    return made


def later(now: str, before: str) -> str:
    """The time of the next event: now, or the time of the last event if the clock went back."""
    return max(now, before)


def read_time(body: str) -> str:
    """The time in an event's text; empty if the text is not an event."""
    try:
        time = json.loads(body)[1]
    except (ValueError, IndexError, TypeError, KeyError):
        return ""
    return time if isinstance(time, str) else ""


def why_no_time(time: Any, before: str) -> str | None:
    """Why a value cannot be the time of the next event, or None."""
    try:
        moment = datetime.fromisoformat(time)
    except (TypeError, ValueError):
        return f"its time {time!r} is not a time"
    if moment.utcoffset() != timedelta(0):
        return f"its time {time!r} is not in UTC"
    if before and moment < datetime.fromisoformat(before):
        return f"its time {time} is before {before}, the time of the event before it"
    return None


def read_event(
    seq: int, body: str, stored: str, column: str | None, expected: int, previous: str
) -> Event:
    """The event of a stored row, after checking that it is intact and follows the one before it.

    column: the kind as stored in its own column, if it is.
    """
    if seq != expected:
        raise BrokenError(expected, f"it is not there; the next one on record is {seq}")
    if not isinstance(body, str) or digest(body) != stored:
        raise BrokenError(seq, "its hash does not match its text")
    try:
        number, time, actor, role, kind, payload, before = json.loads(body)
    except ValueError as error:
        raise BrokenError(seq, f"its text is not an event ({error})") from None
    if number != seq:
        raise BrokenError(seq, f"its text says that it is event {number}")
    if before != previous:
        raise BrokenError(seq, "it does not follow the event before it")
    if column not in (kind, None):
        raise BrokenError(
            seq, f"it is stored under the kind {column!r}, but its text says {kind!r}"
        )
    return Event(seq, time, actor, role, kind, payload, before, body, stored)
