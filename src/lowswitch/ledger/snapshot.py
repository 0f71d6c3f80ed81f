"""A state as a snapshot and back."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import numpy as np

from lowswitch.ledger.events import canonical
from lowswitch.ledger.intake import Lessons
from lowswitch.ledger.state import State, Ticket
from lowswitch.ledger.store import Snapshot
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Report, Terms
from lowswitch.table_learner import TableLearner


def snapshot_of(state: State) -> Snapshot:
    """Everything that is needed to go on after the last event."""
    state.learn()
    facts = canonical(
        {
            "seq": state.seq,
            "head": state.head,
            "versions": [version.tolist() for version in state.versions],
            "issued": state.issued,
            "through": state.through,
            "tickets": [[t.number, t.site, t.version] for t in state.tickets.values()],
            "settled": [report.to_payload() for report in state.settled.values()],
            "unsettled": sorted([v, n] for v, n in state.unsettled.items() if n),
            "frozen": state.frozen,
            "proposal": state.proposal,
            "decisions": sorted([*row, made] for row, made in state.decisions.items()),
        }
    )
    learner, tally = state.learner.to_bytes(), state.tally.to_bytes()
    return Snapshot(state.seq, _hash(facts, learner, tally), facts, learner, tally)


def state_of(snapshot: Snapshot, terms: Terms) -> State | None:
    """The state of a snapshot, or None if it cannot be used: the events are then replayed.

    It may be damaged (`is_whole` says so), or another version of the library may have written it.
    """
    if not is_whole(snapshot):
        return None
    try:
        return _read(snapshot, terms)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def is_whole(snapshot: Snapshot) -> bool:
    """Whether a snapshot is as it was written."""
    return snapshot.hash == _hash(snapshot.facts, bytes(snapshot.learner), bytes(snapshot.tally))


def _read(snapshot: Snapshot, terms: Terms) -> State:
    facts: dict[str, Any] = json.loads(snapshot.facts)
    shape = (terms.horizon, terms.states, terms.actions)
    learner = TableLearner.from_bytes(bytes(snapshot.learner), numbers=terms.numbers)
    return State(
        terms=terms,
        lessons=Lessons(learner, Tally.from_bytes(shape, bytes(snapshot.tally))),
        versions=[np.array(version, dtype=np.int64) for version in facts["versions"]],
        seq=facts["seq"],
        head=facts["head"],
        issued=facts["issued"],
        through=facts["through"],
        tickets={number: Ticket(number, site, v) for number, site, v in facts["tickets"]},
        settled={one["number"]: Report.from_payload(one) for one in facts["settled"]},
        unsettled=Counter(dict(facts["unsettled"])),
        frozen=facts["frozen"],
        proposal=facts["proposal"],
        decisions={(step, row): made for step, row, made in facts["decisions"]},
    )


def _hash(facts: str, learner: bytes, tally: bytes) -> str:
    total = hashlib.sha256(facts.encode())
    for part in (learner, tally):
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()
