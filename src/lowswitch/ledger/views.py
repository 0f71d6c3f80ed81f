"""Answers made from the state and the events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.checks import require_count
from lowswitch.learners.judgement import Judgement
from lowswitch.ledger.dates import next_date, why_refused
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.events import KINDS, Event
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
    Replay,
    State,
    proposal_hash,
    replayed,
)
from lowswitch.ledger.store import StoredTicket
from lowswitch.ledger.terms import Terms

if TYPE_CHECKING:
    from lowswitch.ledger.reading import Reading


def issued(ticket: StoredTicket, state: State) -> Issued:
    """What a site is given."""
    policy = state.policy_for(ticket.number, ticket.version).tolist()
    return Issued(ticket.ticket, ticket.number, ticket.site, ticket.request, ticket.version, policy)


def status(state: State, counts: dict[str, int]) -> Status:
    """Where a run stands, with the counts of the tickets table."""
    pending, learner, most = state.pending, state.learner, state.terms.most_proposals
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
        episodes=state.terms.episodes,
        proposed=learner.proposed,
        deployments=learner.deployments,
        pending=None if pending is None else proposal_hash(pending),
        budget_left=None if most is None else max(0, most - learner.proposed),
        frozen=state.frozen,
        told=learner.told,
        dates=learner.dates[:MOST_DATES].tolist(),
        more_dates=max(0, len(learner.dates) - MOST_DATES),
        next_date=next_date(state),
        nothing_because=_nothing_because(state),
        may_ask=why_refused(state) is None,
    )


def _nothing_because(state: State) -> str | None:
    """Why nothing waits for a decision, or None if something does."""
    if state.pending is not None:
        return None
    return "the run is frozen" if state.frozen else state.learner.why_nothing()


def proposals(ledger: Reading, *, newest: bool = False) -> Iterator[ProposalView]:
    """The proposals on record; `newest` gives the last one alone."""
    pending = ledger._ready().pending
    pending_hash = None if pending is None else proposal_hash(pending)
    made: dict[str, tuple[Event, list[dict[str, Any]]]] = {}
    for event in _newest(ledger) if newest else ledger.events():
        if event.kind == "proposed":
            made[proposal_hash(event.payload)] = event, []
        elif event.payload.get("proposal") in made:  # a decision on it
            words = {"event": event.seq, "time": event.time, "by": event.actor, "kind": event.kind}
            made[event.payload["proposal"]][1].append(words | event.payload)
    for key, (event, decisions) in made.items():
        yield _view(ledger.terms, event, key, key == pending_hash, decisions)


def _newest(ledger: Reading) -> Iterator[Event]:
    """The last event that proposed something."""
    yield from ledger.newest(1, kind="proposed")


def _view(
    terms: Terms, event: Event, key: str, pending: bool, decisions: list[dict[str, Any]]
) -> ProposalView:
    payload = event.payload
    rows = [_labelled(terms, row) for row in payload["rows"]]
    if payload.get("rule") == BY_WORTH:
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
        worth=in_units(terms, payload.get("worth")),
        expected_false=payload.get("expected_false"),
        models=payload.get("models", 0),
    )


def in_units(terms: Terms, worth: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a proposal is worth, in the run's units of reward."""
    return worth and {name: _amounts(terms, gain) for name, gain in worth.items()}


def _amounts(terms: Terms, gain: dict[str, Any] | None) -> dict[str, Any] | None:
    """A gain in the run's units of reward."""
    if gain is None:
        return None
    ends = {name: [terms.amount(end) for end in gain[name]] for name in ("within_80", "within_95")}
    return gain | {"mean": terms.amount(gain["mean"])} | ends


def _labelled(terms: Terms, row: dict[str, Any]) -> dict[str, Any]:
    """A row of a proposal with the names of things, and in the run's units of reward."""
    names = terms.labels["action"]

    def side(known: dict[str, Any]) -> dict[str, Any]:
        law = {names[int(action)]: share for action, share in known["law"].items()}
        low = terms.rewards[0] * (terms.horizon - row["step"])
        bounds = known["bounds"]
        if not known["visits"] + known["unsettled"]:  # it may be worth anything
            bounds = [0.0, terms.horizon - row["step"]]
        amounts = {
            "estimate": low + terms.amount(known["estimate"]),
            "width": terms.amount(known["width"]),
            "bounds": [low + terms.amount(bound) for bound in bounds],
        }
        return known | {"law": law} | amounts

    labelled = row | {
        "step_label": terms.labels["step"][row["step"]],
        "state_label": terms.labels["state"][row["state"]],
        "now": side(row["now"]),
        "proposed": side(row["proposed"]),
    }
    if "untried" in row:  # which an older rule did not record
        labelled["untried"] = [names[action] for action in row["untried"]]
    if "tries" in row:
        labelled["tries"] = {names[int(action)]: tries for action, tries in row["tries"].items()}
        labelled |= {name: _amounts(terms, row[name]) for name in ("gain", "removal")}
        labelled["needed_with"] = [
            f"{terms.labels['step'][h]}, {terms.labels['state'][x]}" for h, x in row["needed_with"]
        ]
    return labelled


def judgement(ledger: Reading, state: State) -> Judgement | None:
    """The posterior on the pending proposal, as it was when the proposal became due.

    If it is not in memory, the events before the proposal are replayed.
    """
    made = state.learner.proposal()
    assert made is not None
    known = state.lessons.found
    if known is not None and known.proposal == made.hash:
        return known.judgement

    def comes_before(event: Event) -> bool:
        return event.kind != "proposed" or event.payload["told"] != made.told

    before = replayed(itertools.takewhile(comes_before, ledger.events()), Replay(ledger.events))
    first = before.learner.proposal()
    posterior = None if first is None else before.lessons.posterior_of(first)
    return None if posterior is None else state.learner.evidence(made, posterior)


def chosen_rows(terms: Terms, pending: dict[str, Any], rows: Any) -> list[tuple[int, int]]:
    """Rows of the pending proposal by their numbers or labels, by default all."""
    proposed = [(row["step"], row["state"]) for row in pending["rows"]]
    if rows is None:
        return proposed
    chosen = [(terms.index("step", h), terms.index("state", x)) for h, x in rows]
    for row in chosen:
        if row not in proposed:
            raise LedgerError(f"row {row[0]}:{row[1]} is not proposed; choose among the rows shown")
    return chosen


def versions(ledger: Reading) -> list[Version]:
    """The versions on record."""
    state, found = ledger._ready(), list[Version]()
    for event in ledger.events():
        if event.seq > state.seq:
            break  # written meanwhile
        if KINDS[event.kind].makes_version:
            number = len(found) + 1
            changed = 0
            if number > 1:
                before, after = state.versions[number - 2], state.versions[number - 1]
                changed = int((before != after).any(axis=0).sum())
            found.append(Version(number, event.seq, event.time, event.actor, event.kind, changed))
    return found


def chart(state: State) -> Chart:
    """What is known of every row."""
    changes = np.zeros(state.versions[0].shape[1:], dtype=np.int64)
    for before, after in itertools.pairwise(state.versions):
        changes += (before != after).any(axis=0)
    return Chart(
        version=state.version,
        policy=state.versions[-1].copy(),
        visits=state.learner.visits,
        allowed=state.learner.actions_allowed,
        changes=changes,
        held=state.learner.held,
        pending=_pending_rows(state),
    )


def _pending_rows(state: State) -> list[tuple[int, int]]:
    pending = state.pending
    return [] if pending is None else [(row["step"], row["state"]) for row in pending["rows"]]


def row(state: State, h: int, x: int) -> RowView:
    """What is known of one row."""
    terms, model = state.terms, state.tally.model()
    values = action_values(model, state.learner.mixture)[h, x]
    now = state.versions[-1][:, h, x].tolist()
    low, allowed = terms.rewards[0] * (terms.horizon - h), state.learner.actions_allowed
    actions = [
        {
            "action": terms.labels["action"][a],
            "share": now.count(a) / len(now),
            "allowed": bool(allowed[h, x, a]),
            "visits": int(model.visits[h, x, a]),
            "estimate": low + terms.amount(float(values[a])),
            "width": terms.amount(width(int(model.visits[h, x, a]), terms.horizon - h)),
        }
        for a in range(terms.actions)
    ]
    played = [version[:, h, x].tolist() for version in state.versions]
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


def checked_history(
    terms: Terms,
    states: Sequence[Sequence[Any]],
    actions: Sequence[Sequence[Any]],
    rewards: Sequence[Sequence[Any]],
) -> tuple[list[list[int]], list[list[int]], list[list[float]]]:
    """Whole episodes in numbers."""
    if not len(states) == len(actions) == len(rewards) or len(states) == 0:
        raise LedgerError("history has as many lists of states as of actions and rewards, and some")
    found = [
        terms.report(0, lambda: terms.policy, *episode, "whole")
        for episode in zip(states, actions, rewards, strict=True)
    ]
    return (
        [list(report.states[: terms.horizon]) for report in found],
        [list(report.actions) for report in found],
        [list(report.rewards) for report in found],
    )


def checked_most(most: Any) -> int:
    return require_count("most", most)


def require_hold(forever: bool, visits: Any) -> None:
    """How long a row is held is for a rejection that is not for ever."""
    if visits is not None:
        require_count("visits", visits)
        if forever:
            raise LedgerError(
                "what is rejected for ever is not held for so many visits; leave one out"
            )
