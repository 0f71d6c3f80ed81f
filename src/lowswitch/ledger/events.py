"""Events and their chain: each carries the hash of the one before it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from lowswitch.ledger.errors import BrokenError

FORMAT = 2  # of the events: 2 has events of the kind "snapshot"
SEMANTICS = 1  # of what the learner makes of them
GENESIS = "0" * 64
LEDGER, SITE, REVIEWER, OPERATOR = "ledger", "site", "reviewer", "operator"  # roles

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


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


def read_event(seq: int, body: str, stored: str, expected: int, previous: str) -> Event:
    """The event of a stored row, once it is known to be whole and to follow the one before it."""
    if seq != expected:
        raise BrokenError(expected, f"it is not there; the next one on record is {seq}")
    if digest(body) != stored:
        raise BrokenError(seq, "its hash is not that of its text")
    try:
        number, time, actor, role, kind, payload, before = json.loads(body)
    except ValueError as error:
        raise BrokenError(seq, f"its text is no event ({error})") from None
    if number != seq:
        raise BrokenError(seq, f"its text says that it is event {number}")
    if before != previous:
        raise BrokenError(seq, "it does not follow the event before it")
    return Event(seq, time, actor, role, kind, payload, before, body, stored)
