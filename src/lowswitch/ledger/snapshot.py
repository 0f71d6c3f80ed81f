"""Turn a state into a snapshot and back.

A snapshot is used only if it is bound to the chain: the event after the last one it contains has
the kind "snapshot" and states its hash. So it cannot be changed without changing the chain.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from lowswitch.ledger.events import Event, canonical
from lowswitch.ledger.intake import Lessons
from lowswitch.ledger.state import Motion, State, Ticket
from lowswitch.ledger.store import Snapshot
from lowswitch.ledger.terms import Report, Terms

_EVERY = 5000  # events; more where many tickets are open, because a snapshot holds them all
_MOST_SINCE = 50_000  # events that an opening may have to replay
_AT_CLOSE = 500  # events, or one amendment, for which a ledger that is closed takes a snapshot


def is_due(state: State) -> bool:
    """Whether the next snapshot is due, which depends on the events alone."""
    every = min(max(_EVERY, len(state.tickets)), _MOST_SINCE)
    return state.seq - state.snapshot_at >= every


def is_worth_it(state: State) -> bool:
    """Whether enough has happened since the last snapshot to write one when the ledger closes."""
    since = state.seq - state.snapshot_at
    return since >= _AT_CLOSE or state.amended_at > state.snapshot_at


def snapshot_of(state: State) -> Snapshot:
    """Everything needed to continue after the last event."""
    state.learn()
    facts = canonical(
        {
            "seq": state.seq,
            "head": state.head,
            "versions": [state.terms.to_facts(version) for version in state.versions],
            "issued": state.issued,
            "through": state.through,
            "tickets": [t if t.asked else t[:3] for t in state.tickets.values()],
            "settled": [report.to_payload() for report in state.settled.values()],
            "unsettled": sorted([v, n] for v, n in state.unsettled.items() if n),
            "frozen": state.frozen,
            "proposal": state.proposal,
            "decisions": sorted([*row, made] for row, made in state.decisions.items()),
        }
        | _board(state)
        | ({"extra": state.extra} if state.extra else {})  # which older snapshots do not have
        | ({"ended": True} if state.ended else {})
        | ({"resumed": state.resumed} if state.resumed else {})
    )
    learner, tally = state.learner.to_bytes(), state.tally.to_bytes()
    return Snapshot(state.seq, _hash(facts, learner, tally), facts, learner, tally)


def _board(state: State) -> dict[str, Any]:
    """The quorum and the motions that wait for it, if there is anything to store."""
    motions = [vars(one) for one in state.motions.values()]
    if not motions and state.quorum == state.terms.quorum:
        return {}
    return {"board": {"quorum": state.quorum, "motions": motions}}


def state_of(snapshot: Snapshot, terms: Terms) -> State | None:
    """The state in a snapshot, or None if it cannot be used; the events are then replayed.

    It may be damaged (`is_whole` says so), or another version of the library may have written it.
    """
    if not is_whole(snapshot):
        return None
    try:
        return _read(snapshot, terms)
    except Exception:  # Bytes that nobody vouches for make zipfile and numpy raise almost anything.
        return None


def compared(state: State, *, bound: bool) -> str:
    """The hash by which `verify` compares a snapshot with the replay.

    Versions that did not bind snapshots to the chain stored the decisions on a proposal among the
    earlier decisions; these are left out.
    """
    taken = snapshot_of(state)
    if bound:
        return taken.hash
    facts = json.loads(taken.facts)
    for row in (facts["proposal"] or {"rows": []})["rows"]:
        del row["before"]
    return _hash(canonical(facts), taken.learner, taken.tally)


def is_whole(snapshot: Snapshot) -> bool:
    """Whether the hash of a snapshot matches its contents. Anybody can recompute that hash."""
    _, stored, *parts = snapshot
    typed = tuple(map(type, parts)) == (str, bytes, bytes)  # columns of SQLite hold anything
    return typed and stored == _hash(snapshot.facts, snapshot.learner, snapshot.tally)


def binds(event: Event, snapshot: Snapshot) -> bool:
    """Whether an event vouches for a snapshot."""
    return event.kind == "snapshot" and event.payload == {"hash": snapshot.hash}


def _read(snapshot: Snapshot, terms: Terms) -> State:
    facts: dict[str, Any] = json.loads(snapshot.facts)
    board = facts.get("board", {"quorum": 0, "motions": []})
    learner = terms.restored(snapshot.learner)
    tally = terms.tally(snapshot.tally)
    return State(
        terms=terms,
        lessons=Lessons(terms, learner, tally),
        versions=[terms.from_facts(version, learner) for version in facts["versions"]],
        seq=facts["seq"],
        head=facts["head"],
        issued=facts["issued"],
        through=facts["through"],
        tickets={one[0]: Ticket(*one) for one in facts["tickets"]},
        settled={one["number"]: Report.from_payload(one) for one in facts["settled"]},
        unsettled=Counter(dict(facts["unsettled"])),
        frozen=facts["frozen"],
        extra=facts.get("extra", 0),
        ended=facts.get("ended", False),
        resumed=facts.get("resumed", ""),
        proposal=facts["proposal"],
        decisions={(step, row): made for step, row, made in facts["decisions"]},
        quorum=board["quorum"],
        motions={one["event"]: Motion(**one) for one in board["motions"]},
    )


def _hash(facts: str, learner: bytes, tally: bytes) -> str:
    total = hashlib.sha256(facts.encode())
    for part in (learner, tally):
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()
