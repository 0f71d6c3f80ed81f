"""The state of a run, which is a replay of its events through the learner's own update.

Reports are learned in the order of their tickets, and not in that of their arrival: a report waits
until all tickets before its own are settled. An amended report makes the learner what it would be,
had the right report come in the first place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lowswitch.learners.posterior import models_for
from lowswitch.ledger.dates import late_date
from lowswitch.ledger.errors import BrokenError
from lowswitch.ledger.events import KINDS, LEDGER, Event, canonical, digest
from lowswitch.ledger.evidence import (
    BY_INTERVAL,
    BY_WORTH,
    RULES,
    TRIAL,
    UNSURE,
    UNTRIED,
    Evidence,
    expected_false,
    improved,
    what_is_left,
    words,
)
from lowswitch.ledger.intake import Lessons
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Report, Terms
from lowswitch.review.proposals import Proposal, ProposedRow
from lowswitch.table_learner import TableLearner

OPEN, WAITING, LEARNED, MISSING, REFUSED = "open", "waiting", "learned", "missing", "refused"
STATUSES = OPEN, WAITING, LEARNED, MISSING, REFUSED  # of tickets
_MOST_NAMED = 1000  # open tickets that a proposal names one by one


class Ticket(NamedTuple):
    """What is known of a ticket that is not learned yet."""

    number: int
    site: str
    version: int


@dataclass
class State:
    """Everything that follows from the events so far."""

    terms: Terms
    lessons: Lessons
    versions: list[np.ndarray]  # [members, H, S] each; the first has number 1
    seq: int = 1
    head: str = ""
    issued: int = 0
    through: int = 0  # all tickets up to this number are learned, or never will be
    tickets: dict[int, Ticket] = field(default_factory=dict)  # those after it
    settled: dict[int, Report] = field(default_factory=dict)  # of these, those with a report
    unsettled: Counter[int] = field(default_factory=Counter)  # open or missing, of each version
    frozen: bool = False
    proposal: dict[str, Any] | None = None  # the payload of the one that was recorded last
    decisions: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)
    changed: dict[int, str] = field(default_factory=dict)  # new status of tickets, to be stored
    snapshot_at: int = 0  # the last event that says the hash of a snapshot

    @classmethod
    def of(cls, terms: Terms, head: str) -> State:
        """The state after the first event."""
        learner = terms.learner()
        shape = (terms.horizon, terms.states, terms.actions)
        return cls(terms, Lessons(learner, Tally(shape)), [learner.mixture.copy()], head=head)

    @property
    def learner(self) -> TableLearner:
        """The learner, which has learned all that has its turn."""
        self.lessons.learn()
        return self.lessons.learner

    @property
    def tally(self) -> Tally:
        """What was learned from, counted."""
        self.lessons.learn()
        return self.lessons.tally

    @property
    def version(self) -> int:
        return len(self.versions)

    def policy_for(self, number: int, version: int) -> np.ndarray:  # [H, S]
        """What ticket `number` of a version has to play."""
        policies = self.versions[version - 1]
        member = self.lessons.learner.deployed.member_for(np.array([number - 1]))[0]
        table: np.ndarray = policies[member]
        return table

    @property
    def pending(self) -> dict[str, Any] | None:
        """The recorded proposal, as long as it waits for a decision."""
        made = self.lessons.learner.proposal()
        if made is None or self.proposal is None or self.proposal["learner"] != made.hash:
            return None
        return self.proposal

    # ---- events ----------------------------------------------------------------------------------

    def apply(self, event: Event, replay: Replay) -> None:
        """Take in the next event."""
        known = KINDS.get(event.kind)
        handler: Callable[[Event, Replay], None] | None = getattr(self, f"_{event.kind}", None)
        if known is None or handler is None:
            raise BrokenError(event.seq, f"its kind {event.kind!r} is unknown")
        try:
            if not known.learn_later:
                self.learn()
                if event.role != LEDGER and self.expected() and not replay.forced:
                    raise BrokenError(event.seq, "what the events before it led to is missing")
            handler(event, replay)
        except BrokenError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BrokenError(event.seq, f"it contradicts those before it ({error})") from error
        self.seq, self.head = event.seq, event.hash

    def _asked(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        if payload["number"] != self.issued + 1 or payload["version"] != self.version:
            raise ValueError(f"ticket {self.issued + 1} of version {self.version} is next")
        self.issued += 1
        self.tickets[self.issued] = Ticket(self.issued, payload["site"], self.version)
        self.unsettled[self.version] += 1
        self.changed[self.issued] = OPEN

    def _told(self, event: Event, replay: Replay) -> None:
        report = replay.report(event)
        ticket = self.tickets[report.number]
        if report.number in self.settled:
            raise ValueError(f"ticket {report.number} has a report already")
        self.settled[report.number] = report
        self.unsettled[ticket.version] -= 1
        self.changed[report.number] = WAITING

    def _missing(self, event: Event, replay: Replay) -> None:
        report = replay.report(event)
        ticket = self.tickets[report.number]
        if report.number in self.settled:
            raise ValueError(f"ticket {report.number} has a report already")
        self.settled[report.number] = report
        if report.ended != "missing":  # it was amended later
            self.unsettled[ticket.version] -= 1
        self.changed[report.number] = MISSING if report.ended == "missing" else WAITING

    def _refused(self, event: Event, replay: Replay) -> None:
        self.changed[event.payload["number"]] = REFUSED

    def _conflict(self, event: Event, replay: Replay) -> None:
        """It is on record, and changes nothing."""

    def _amended(self, event: Event, replay: Replay) -> None:
        if replay.forced:
            return  # the report is in its place already
        report = Report.from_payload(event.payload)
        version = event.payload["version"]
        was_missing = event.payload["was"] in (MISSING, REFUSED)
        if was_missing:
            self.unsettled[version] -= 1
        if report.number > self.through:
            self.settled[report.number] = report
            self.changed[report.number] = WAITING
            return
        other = replay.rebuilt(event)
        before = self.learner
        self.lessons = other.lessons
        if self.terms.gate == "review":
            self.learner.resume_from(
                before.spent, had_pending=before.proposal() is not None, paused=before.paused
            )
        if self.terms.gate == "open":  # it deployed as it went, and may be elsewhere now
            now, told = self.learner.mixture, self.learner.told
            rows = np.argwhere((now != self.versions[-1]).any(axis=0)).tolist()
            self.lessons.deployed = [[told - 1, h, x, *now[:, h, x].tolist()] for h, x in rows]
        self.changed[report.number] = LEARNED

    def _met(self, event: Event, replay: Replay) -> None:
        if event.role != LEDGER:
            self.learner.propose()
            return
        date = event.payload["date"]
        if not replay.forced and date != late_date(self):
            raise ValueError(f"no date after episode {date} was to be made up for")
        self.learner.make_up()

    def _history(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        states, actions = np.array(payload["states"]), np.array(payload["actions"])
        rewards = np.vectorize(self.terms.unit, otypes=[float])(np.array(payload["rewards"]))
        kept = self.learner.learn_history(states, actions, rewards, most=payload["most"])
        self.tally.add([f"history {payload['source']}"] * len(states), states, kept, rewards)
        if payload.get("propose", True):
            self.learner.propose()

    def _proposed(self, event: Event, replay: Replay) -> None:
        if replay.forced:
            self._force(event.payload)
        elif self.pending is not None or self.learner.proposal() is None:
            raise ValueError("nothing was to be proposed")
        elif event.payload != self._proposal_like(event.payload):
            raise ValueError("another proposal was to be recorded")
        self.proposal, self.lessons.due = event.payload, None

    def _proposal_like(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The pending proposal as the version of the library records it that wrote a payload."""
        rule = payload.get("rule", BY_INTERVAL)
        if rule not in RULES:
            raise ValueError(f"it follows rule {rule}, which this version of lowswitch lacks")
        return self.proposal_payload(as_due="learned" in payload, rule=rule)

    def _force(self, payload: dict[str, Any]) -> None:
        """Let the learner have proposed what the board saw."""
        rows = tuple(
            ProposedRow(row["step"], row["state"], tuple(row["from"]), tuple(row["to"]))
            for row in payload["rows"]
        )
        made = Proposal(payload["raised"], payload["told"], payload["base"], rows)
        self.learner.force_proposal(made, tuple(payload["put"]))

    def _approved(self, event: Event, replay: Replay) -> None:
        self._decided(event)
        self.learner.approve(rows=[tuple(row) for row in event.payload["rows"]])
        self._new_version(event.payload["version"])

    def _rejected(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        self._decided(event)
        self.learner.reject(
            rows=[tuple(row) for row in payload["rows"]],
            forever=payload["forever"],
            visits=payload["visits"],
        )

    def _decided(self, event: Event) -> None:
        """Note a decision for the rows it is about."""
        payload, pending = event.payload, self.pending
        if pending is None or proposal_hash(pending) != payload["proposal"]:
            raise ValueError("it decides on something that is not pending")
        words = {"event": event.seq, "time": event.time, "by": event.actor, "kind": event.kind}
        for step, state in payload["rows"]:
            self.decisions.setdefault((step, state), []).append(
                words | {"reason": payload["reason"], "forever": payload.get("forever", False)}
            )

    def _frozen(self, event: Event, replay: Replay) -> None:
        self.frozen = True
        if self.terms.gate == "review":
            self.learner.freeze()

    def _thawed(self, event: Event, replay: Replay) -> None:
        self.frozen = False
        if self.terms.gate == "review":
            self.learner.thaw()

    def _rolled_back(self, event: Event, replay: Replay) -> None:
        self.learner.install(self.versions[event.payload["to"] - 1])
        self._new_version(event.payload["version"])

    def _deployed(self, event: Event, replay: Replay) -> None:
        if not replay.forced and event.payload["changes"] != self.lessons.deployed:
            raise ValueError("the learner deployed something else")
        self.lessons.deployed = []
        self._new_version(event.payload["version"])

    def _snapshot(self, event: Event, replay: Replay) -> None:
        """It vouches for a snapshot of the state before it, and changes nothing else."""
        self.snapshot_at = event.seq

    def _new_version(self, number: int) -> None:
        if number != self.version + 1:
            raise ValueError(f"version {self.version + 1} is next, not {number}")
        self.versions.append(self.learner.mixture.copy())

    # ---- learning --------------------------------------------------------------------------------

    def learn(self) -> None:
        """Learn in the order of the tickets whatever has its turn."""
        self._take_turns()
        self.lessons.learn()

    def _take_turns(self) -> None:
        """Let the reports be learned next that wait for no ticket before them."""
        terms = self.terms
        while (report := self.settled.get(self.through + 1)) is not None:
            is_missing = report.ended == "missing"
            if is_missing and terms.missing == "hold":
                break
            self.through += 1
            ticket = self.tickets.pop(self.through)
            del self.settled[self.through]
            values, policy = _NONE, _NONE
            if is_missing and terms.missing == "optimistic":
                values = self.learner.values  # what is hoped for depends on all that came before
                policy = self.policy_for(ticket.number, ticket.version)
            steps = terms.steps(report, values, policy)
            if steps is not None:
                self.lessons.add(ticket.number, ticket.site, steps)
            if not is_missing:
                self.changed[self.through] = LEARNED

    # ---- what follows ----------------------------------------------------------------------------

    def expected(self) -> tuple[str, dict[str, Any]] | None:
        """The event that must be recorded next because of those before it, if there is one."""
        self._take_turns()
        lessons = self.lessons
        if not lessons.quiet:
            lessons.learn()
        if lessons.deployed:
            return "deployed", {"version": self.version + 1, "changes": lessons.deployed}
        if lessons.learner.proposal() is not None and self.pending is None:
            return "proposed", self.proposal_payload()
        if self.terms.patience is not None and self.tickets:
            for number in self.tickets:
                if number > self.issued - self.terms.patience:
                    break
                if number not in self.settled:
                    reason = f"{self.terms.patience} later tickets were issued"
                    payload = Report(number, (), (), (), "missing").to_payload()
                    return "missing", payload | {"reason": reason}
        return None

    def proposal_payload(self, *, as_due: bool = True, rule: int = BY_WORTH) -> dict[str, Any]:
        """The pending proposal with its evidence.

        as_due: the evidence is that of the reports that were learned when the proposal became due,
        and what is left of a proposal keeps its own. Otherwise it is that of all that were learned
        when it was put on record, as in events that do not say how many these are. rule: the
        version of the rule that decides what rows are called.
        """
        made = self.learner.proposal()
        assert made is not None
        left = what_is_left(self.proposal, made) if as_due else None
        return {
            "learner": made.hash,
            "raised": made.number,
            "told": made.told,
            "base": made.base,
            "put": list(self.learner.spent),
            "version": self.version,
        } | (left or self._evidence(made, as_due, rule))

    def _evidence(self, made: Proposal, as_due: bool, rule: int) -> dict[str, Any]:
        """What is known of the rows of a proposal, and of how many reports that is."""
        learned, through, tally = self.learner.told, self.through, self.tally
        due = self.lessons.due
        if as_due and due is not None and due.proposal == made.hash:
            learned, through, tally = made.told, due.through, due.tally
        evidence = Evidence(tally, self.learner.mixture, learned)
        if rule == BY_WORTH:
            return self._worth(made, evidence, through) | {"learned": learned}
        unsettled = Counter({v: n for v, n in self.unsettled.items() if n > 0})
        waiting = [number for number in self.tickets if number not in self.settled]
        return {
            "through": through,
            "open": waiting[:_MOST_NAMED],
            "unsettled": sum(unsettled.values()),
            "rows": self._judged(made, evidence, unsettled, rule),
            **({"learned": learned} if as_due else {}),
            **({} if rule == BY_INTERVAL else {"rule": rule}),
        }

    def _facts(
        self, made: Proposal, evidence: Evidence, unsettled: Counter[int]
    ) -> list[tuple[ProposedRow, dict[str, Any]]]:
        """The rows of a proposal with what is known of them, but for the verdicts."""
        found = list[tuple[ProposedRow, dict[str, Any]]]()
        for row in made.rows:
            before = list(self.decisions.get(row.row, []))  # which goes on growing
            change = {"from": list(row.now), "to": list(row.proposed), "before": before}
            found.append((row, evidence.row(row, unsettled, self.versions) | change))
        return found

    def _judged(
        self, made: Proposal, evidence: Evidence, unsettled: Counter[int], rule: int
    ) -> list[dict[str, Any]]:
        """What is known of the rows of a proposal, with the verdicts of an older rule."""
        rows = self._facts(made, evidence, unsettled)
        if rule == BY_INTERVAL:
            return [facts | evidence.by_interval(row, facts) for row, facts in rows]
        tried = [row for row in made.rows if not evidence.untried(row)]
        chances = self.lessons.probabilities(made, tried)
        better = improved(chances, models_for(self.lessons.learner.mixture, len(tried)))
        return [
            facts | evidence.by_model(row, facts, chances.get(row.row), improves=row.row in better)
            for row, facts in rows
        ]

    def _open(self) -> Counter[int]:
        """How many reports of each version may still come.

        A report that was declared missing may not, unless the learner waits until it is settled.
        """
        held = self.terms.missing == "hold"
        return Counter(
            ticket.version
            for number, ticket in self.tickets.items()
            if number not in self.settled or (held and self.settled[number].ended == "missing")
        )

    def _worth(self, made: Proposal, evidence: Evidence, through: int) -> dict[str, Any]:
        """What a proposal is worth, and its rows, by the newest rule."""
        still_open, thresholds = self._open(), self.terms.thresholds
        tried = {row.row for row in made.rows if not evidence.untried(row)}
        found = self.lessons.worth(made, len(tried), thresholds["worse"])
        worths = {} if found is None else found.rows
        models = 0 if found is None else found.judgement.models(len(tried))
        known = words([one for row, one in worths.items() if row in tried], models, thresholds)
        rows = list[dict[str, Any]]()
        for row, facts in self._facts(made, evidence, still_open):
            word = known.get(row.row, UNSURE) if row.row in tried else UNTRIED
            if evidence.protocol and row.now[0] == row.proposed[0]:
                word = TRIAL
            rows.append(facts | evidence.by_worth(row, facts, worths.get(row.row), word))
        return {
            "through": through,
            "open": [n for n in self.tickets if n not in self.settled][:_MOST_NAMED],
            "unsettled": sum(still_open.values()),
            "missing": sum(n for n in self.unsettled.values() if n > 0) - sum(still_open.values()),
            "worth": None if found is None else found.worth.facts(),
            "expected_false": expected_false(rows),
            "models": models,
            "rows": rows,
            "rule": BY_WORTH,
        }


class Replay:
    """How events are taken in.

    forced: the learner is made to have proposed what was recorded, as after an amendment. reports:
    those that stand in the place of the ones that first came, by the number of the ticket.
    """

    def __init__(
        self, read: Callable[[int], Iterable[Event]], reports: dict[int, Report] | None = None
    ) -> None:
        self.read, self.reports, self.forced = read, reports or {}, reports is not None

    def report(self, event: Event) -> Report:
        """The report of an event, or the one that stands in its place."""
        report = Report.from_payload(event.payload)
        return self.reports.get(report.number, report)

    def rebuilt(self, event: Event) -> State:
        """The state before an amendment, as if all amended reports had come in the first place."""
        reports = {}
        for other in self._before(event):
            if other.kind == "amended":
                reports[other.payload["number"]] = Report.from_payload(other.payload)
        reports[event.payload["number"]] = Report.from_payload(event.payload)
        return replayed(self._before(event), Replay(self.read, reports))

    def _before(self, event: Event) -> Iterator[Event]:
        for other in self.read(1):
            if other.seq == event.seq:
                return
            yield other


def replayed(events: Iterable[Event], replay: Replay) -> State:
    """The state that events from the first one on lead to."""
    state: State | None = None
    for event in events:
        if state is None:
            state = State.of(Terms.from_payload(event.payload["terms"]), event.hash)
        else:
            state.apply(event, replay)
            state.changed.clear()
    if state is None:
        raise BrokenError(1, "it is not there")
    state.learn()
    return state


def proposal_hash(payload: dict[str, Any]) -> str:
    """What a decision on a proposal is bound to."""
    return digest(canonical(payload))


_NONE = np.zeros((0, 0))
