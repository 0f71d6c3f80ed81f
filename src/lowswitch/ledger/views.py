"""Answers made from the state and the events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.learners.judgement import Judgement
from lowswitch.ledger.dates import next_date, why_refused
from lowswitch.ledger.events import Event, makes_version
from lowswitch.ledger.evidence import BY_INTERVAL, BY_WORTH, action_values, width
from lowswitch.ledger.responses import (
    MOST_DATES,
    Chart,
    Issued,
    ProposalView,
    RowView,
    Status,
    Version,
)
from lowswitch.ledger.state import (
    LEARNED,
    MISSING,
    OPEN,
    REFUSED,
    WAITING,
    State,
    proposal_hash,
    replayed,
)
from lowswitch.ledger.store import StoredTicket
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.ledger.terms import Terms

if TYPE_CHECKING:
    from lowswitch.ledger.reading import Reading

_MOST_PROPOSALS = 200  # among which one is looked for by its hash


def issued(ticket: StoredTicket, state: State, *, whole: bool = True) -> Issued:
    """The ticket that a site receives; whole: include its policy, however large."""
    return state.terms.issued(ticket, state.versions[ticket.version - 1], whole=whole)


def status(state: State, counts: dict[str, int]) -> Status:
    """The state of a run, with the counts from the table of tickets."""
    pending, learner, most = state.pending, state.learner, state.terms.most_proposals
    pending = None if state.ended else pending
    still_open = counts.get(OPEN, 0)
    return Status(
        version=state.version,
        events=state.seq,
        head=state.head,
        issued=sum(counts.values()),
        learned=counts.get(LEARNED, 0),
        waiting=counts.get(WAITING, 0),
        open=0 if state.frozen else still_open,
        missing=counts.get(MISSING, 0),
        refused=counts.get(REFUSED, 0),
        frozen_out=still_open if state.frozen else 0,
        episodes=state.terms.episodes + state.extra,
        proposed=learner.proposed,
        deployments=learner.deployments,
        pending=None if pending is None else proposal_hash(pending),
        budget_left=None if most is None else max(0, most - learner.proposed),
        frozen=state.frozen,
        quorum=state.quorum,
        motions=sum(not state.lapsed(one) for one in state.motions.values()),
        told=learner.told,
        dates=learner.dates[:MOST_DATES].tolist(),
        more_dates=max(0, len(learner.dates) - MOST_DATES),
        next_date=next_date(state),
        nothing_because=_nothing_because(state),
        may_ask=why_refused(state) is None,
        nothing_at=learner.nothing_wanted_at,
        next_is_free=learner.next_is_free,
    )


def why_paused(event: Event, terms: Terms) -> str:
    """Who paused a run, when and why, for anybody who is refused because of it."""
    when = datetime.fromisoformat(event.time).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{event.actor} paused this run on {when} ({event.payload['reason']!r}). Until the run"
        f" resumes, {while_paused(terms)}"
    )


def while_paused(terms: Terms) -> str:
    """What cannot be done while a run is paused."""
    return (
        f"no {terms.word('episode')} can be enrolled, no report can be sent, settled or corrected,"
        " and no change can be approved, postponed or allowed again"
    )


def _nothing_because(state: State) -> str | None:
    """Why no proposal is pending, or None if one is."""
    if state.ended:
        return "the run has ended"
    if state.pending is not None:
        return None
    return "the run is paused" if state.frozen else state.learner.why_nothing()


def proposals(
    ledger: Reading, *, newest: bool = False, name: str | None = None
) -> Iterator[ProposalView]:
    """The recorded proposals; `newest` selects the last one, `name` the one with this hash.

    With either option, the decisions on the proposal are left out.
    """
    pending = ledger._ready().pending
    pending_hash = None if pending is None else proposal_hash(pending)
    made: dict[str, tuple[Event, list[dict[str, Any]]]] = {}
    some = _newest(ledger) if newest else ledger.events() if name is None else _named(ledger, name)
    for event in some:
        if event.kind == "proposed":
            made[proposal_hash(event.payload)] = event, []
        elif event.payload.get("proposal") in made:  # a decision on it
            words = {"event": event.seq, "time": event.time, "by": event.actor, "kind": event.kind}
            made[event.payload["proposal"]][1].append(words | event.payload)
    for key, (event, decisions) in made.items():
        yield _view(ledger.terms, event, key, key == pending_hash, decisions)


def _named(ledger: Reading, name: str) -> Iterator[Event]:
    """The event of the proposal with this hash."""
    for event in ledger.newest(_MOST_PROPOSALS, kind="proposed"):
        if proposal_hash(event.payload) == name:
            yield event
            return


def _newest(ledger: Reading) -> Iterator[Event]:
    """The event of the last proposal."""
    yield from ledger.newest(1, kind="proposed")


def _view(
    terms: Terms, event: Event, key: str, pending: bool, decisions: list[dict[str, Any]]
) -> ProposalView:
    payload = event.payload
    rows = [terms.proposals.labelled(row) for row in payload["rows"]]
    if len(rows) > 1 and payload.get("rule", BY_INTERVAL) >= BY_WORTH:
        rows.sort(key=lambda row: -row["gain"]["mean"] if row["gain"] else 0.0)
    return ProposalView(
        hash=key,
        event=event.seq,
        time=event.time,
        version=payload["version"],
        told=payload["told"],
        through=payload["through"],
        open=payload["open"],
        unsettled=payload["unsettled"],
        rows=rows,
        pending=pending,
        decisions=decisions,
        learned=payload.get("learned"),
        rule=payload.get("rule", BY_INTERVAL),
        missing=payload.get("missing", 0),
        worth=terms.proposals.in_units(payload.get("worth")),
        expected_false=payload.get("expected_false"),
        models=payload.get("models", 0),
    )


def judgement(ledger: Reading, state: State, *, wait: bool = True) -> Judgement | None:
    """The posterior on the pending proposal, as it was when the proposal became due.

    If it is not in memory, the events before the proposal are replayed if `wait` is true; otherwise
    the result is empty.
    """
    made = state.learner.proposal()
    assert made is not None
    assert state.pending is not None
    known, rule = state.lessons.found, state.pending.get("rule", BY_INTERVAL)
    if known is not None and known.proposal == made.hash:
        return known.judgement
    if known is not None and known.told == made.told:  # the same beliefs, of what is left
        left: Judgement | None = state.learner.evidence(made, known.judgement.posterior, rule=rule)
        return left
    if not wait:
        return None

    def comes_before(event: Event) -> bool:
        return event.kind != "proposed" or event.payload["told"] != made.told

    before = replayed(itertools.takewhile(comes_before, ledger.events()), ledger._corrections)
    first = before.learner.proposal()
    posterior = None if first is None else before.lessons.posterior_of(first)
    if posterior is None:
        return None
    found: Judgement | None = state.learner.evidence(made, posterior, rule=rule)
    return found


def compared_with(ledger: Reading, state: State) -> int:
    """The version that the recorded numbers of the pending proposal compare with.

    What a decision leaves of a proposal keeps its recorded numbers. If a part was approved, they
    compare with the version before.
    """
    version, later, proposals = state.version, state.pending, ledger.terms.proposals
    some = ledger.newest(1, kind="proposed")
    while some and later is not None:
        before = ledger.newest(1, before=some[0].seq, kind="proposed")
        if not before or proposals.left(before[0].payload, proposals.read(later)) is None:
            break
        some, later = before, before[0].payload
        version = later["version"]
    return version


def rest(ledger: Reading, state: State, view: ProposalView) -> ProposalView:
    """The pending proposal, with numbers that compare with the version in use.

    Those of a rest are computed again by the beliefs of the time when it became due. If that takes
    a long replay, they are withdrawn.
    """
    is_left = view.rule >= BY_WORTH and view.worth is None
    if not is_left or not any(row.get("gain") for row in view.rows):
        return view
    if compared_with(ledger, state) == state.version:
        return view
    judgement = ledger._judgement_of(state, wait=False)
    return ledger.tables().proposals.again(state, view, judgement)


def versions(ledger: Reading) -> list[Version]:
    """The versions on record."""
    state, found = ledger._ready(), list[Version]()
    for event in ledger.events():
        if event.seq > state.seq:
            break  # written meanwhile
        if makes_version(event.kind, event.payload):
            number = len(found) + 1
            changed = 0
            if number > 1:
                before, after = state.versions[number - 2], state.versions[number - 1]
                changed = ledger.terms.changed_rows(before, after)
            found.append(Version(number, event.seq, event.time, event.actor, event.kind, changed))
    return found


def chart(state: State) -> Chart:
    """The facts about every row of tables."""
    learner: Any = state.learner
    tables = [version.actions for version in state.versions]
    changes = np.zeros(tables[0].shape[1:], dtype=np.int64)
    protocol = state.terms.share(state.versions[-1]) is not None
    judged = slice(0, 1) if protocol else slice(None)  # a change of the trial alone does not count
    for before, after in itertools.pairwise(tables):
        changes += (before[judged] != after[judged]).any(axis=0)
    return Chart(
        version=state.version,
        policy=tables[-1].copy(),
        visits=learner.visits,
        waiting=_waiting(state, learner.visits.shape),
        allowed=learner.actions_allowed,
        changes=changes,
        held=learner.held,
        pending=_pending_rows(state),
        protocol=protocol,
    )


def _waiting(state: State, shape: tuple[int, ...]) -> np.ndarray:  # [H, S, A]
    """How often each action was given in the reports that wait behind an open one."""
    found = np.zeros(shape, dtype=np.int64)
    given = [
        (h, x, a)
        for one in state.settled.values()
        if one.ended != "missing"
        for h, (x, a) in enumerate(zip(one.states, one.actions, strict=False))
    ]
    if given:
        np.add.at(found, tuple(np.array(given).T), 1)
    return found


def _pending_rows(state: State) -> list[tuple[int, int]]:
    pending = state.pending
    return [] if pending is None else [(row["step"], row["state"]) for row in pending["rows"]]


def row(state: State, terms: TableTerms, h: int, x: int) -> RowView:
    """The facts about one row of tables."""
    model = state.tally.model()
    waiting = _waiting(state, model.visits.shape)[h, x]
    values = action_values(model, state.learner.deployed.actions)[h, x]
    now = state.versions[-1].actions[:, h, x].tolist()
    low, allowed = terms.rewards[0] * (terms.horizon - h), state.learner.actions_allowed
    actions = [
        {
            "action": terms.labels["action"][a],
            "share": now.count(a) / len(now),
            "allowed": bool(allowed[h, x, a]),
            "visits": int(model.visits[h, x, a]),
            "waiting": int(waiting[a]),
            "estimate": low + terms.amount(float(values[a])),
            "width": terms.amount(width(int(model.visits[h, x, a]), terms.horizon - h)),
        }
        for a in range(terms.actions)
    ]
    played = [version.actions[:, h, x].tolist() for version in state.versions]
    changed = [i for i in range(len(played)) if i == 0 or played[i] != played[i - 1]]
    return RowView(
        step=h,
        state=x,
        actions=actions,
        versions=[(i + 1, played[i]) for i in changed],
        decisions=list(state.decisions.get((h, x), [])),
        held=(h, x) in state.learner.held,
        pending=(h, x) in _pending_rows(state),
    )


def event_of(seq: int, body: str, stored: str, column: str) -> Event:
    """A stored event, as it is."""
    number, time, actor, role, kind, payload, previous = json.loads(body)
    return Event(number, time, actor, role, kind, payload, previous, body, stored)


def payload_of(seq: int, body: str, *_: str) -> dict[str, Any]:
    """The payload of a stored event."""
    payload: dict[str, Any] = json.loads(body)[5]
    return payload
