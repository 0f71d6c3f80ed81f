"""The state of a run, which is a replay of its events through the learner's own update.

Reports are learned in the order of their tickets, not in the order of arrival: a report waits until
all earlier tickets are settled. After an amendment, the learner is what it would be if the right
report had come in the first place.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lowswitch.learner import Learner
from lowswitch.ledger.dates import late_date
from lowswitch.ledger.errors import BrokenError
from lowswitch.ledger.events import (
    KINDS,
    LEDGER,
    OPERATOR,
    REVIEWER,
    Event,
    canonical,
    digest,
    needs_quorum,
)
from lowswitch.ledger.intake import Lessons
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Known, Report, Terms, read_terms

OPEN, WAITING, LEARNED, MISSING, REFUSED = "open", "waiting", "learned", "missing", "refused"
STATUSES = OPEN, WAITING, LEARNED, MISSING, REFUSED  # of tickets
_USUAL_PROPOSALS = 10  # of a run without a limit, to set when a hold ends
_MOST_NAMED = 1000  # open tickets that a proposal names one by one


class Ticket(NamedTuple):
    """The facts about a ticket that is not learned yet."""

    number: int
    site: str
    version: int
    asked: str = ""  # when, where tickets expire by their age


@dataclass
class Motion:
    """A decision that waits until enough reviewers agree."""

    event: int  # that asks for it
    time: str
    by: str
    role: str
    kind: str  # of the event that carries it out
    decision: dict[str, Any]  # its payload
    confirmed: list[str]  # reviewers, each once

    def agrees(self, person: str) -> bool:
        """Whether this person has already asked for it or agreed, and so cannot count again."""
        return person == self.by or person in self.confirmed


@dataclass
class State:
    """Everything that follows from the events so far."""

    terms: Terms
    lessons: Lessons
    versions: list[Any]  # a policy each; the first has number 1
    seq: int = 1
    head: str = ""
    time: str = ""  # of the last event
    issued: int = 0
    through: int = 0  # all tickets up to this number are learned, or never will be
    tickets: dict[int, Ticket] = field(default_factory=dict)  # those after it
    settled: dict[int, Report] = field(default_factory=dict)  # of these, those with a report
    unsettled: Counter[int] = field(default_factory=Counter)  # open or missing, of each version
    frozen: bool = False
    extra: int = 0  # tickets beyond those that were declared
    ended: bool = False  # for good
    proposal: dict[str, Any] | None = None  # the payload of the last recorded proposal
    decisions: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)
    changed: dict[int, str] = field(default_factory=dict)  # new status of tickets, to be stored
    motions: dict[int, Motion] = field(default_factory=dict)  # by the event that asks
    quorum: int = 0  # reviewers who must agree; 0 until the terms say it
    snapshot_at: int = 0  # the last event that says the hash of a snapshot
    amended_at: int = 0  # the last amendment that took a replay
    resumed: str = ""  # when the run was last resumed, where tickets expire by their age

    def __post_init__(self) -> None:
        self.quorum = self.quorum or self.terms.quorum

    @classmethod
    def of(cls, terms: Terms, first: Event) -> State:
        """The state after the first event."""
        learner = terms.learner()
        lessons = Lessons(terms, learner, terms.tally())
        return cls(terms, lessons, [learner.deployed], head=first.hash, time=first.time)

    def copy(self) -> State:
        """A copy to continue from while this state stays unchanged."""
        self.learn()
        return dataclasses.replace(
            self,
            lessons=self.lessons.copy(),
            versions=list(self.versions),
            tickets=dict(self.tickets),
            settled=dict(self.settled),
            unsettled=Counter(self.unsettled),
            decisions={row: list(made) for row, made in self.decisions.items()},
            changed={},
            motions={
                number: dataclasses.replace(one, confirmed=list(one.confirmed))
                for number, one in self.motions.items()
            },
        )

    @property
    def learner(self) -> Learner:
        """The learner, after learning every report whose turn has come."""
        self.lessons.learn()
        return self.lessons.learner

    @property
    def tally(self) -> Tally:
        """The counts of everything learned so far."""
        self.lessons.learn()
        return self.lessons.tally

    @property
    def version(self) -> int:
        return len(self.versions)

    @property
    def pending(self) -> dict[str, Any] | None:
        """The recorded proposal, as long as it waits for a decision."""
        made = self.lessons.learner.proposal()
        if made is None or self.proposal is None or self.proposal["learner"] != made.hash:
            return None
        return self.proposal

    # ---- events ----------------------------------------------------------------------------------

    def apply(self, event: Event, replay: Replay) -> None:
        """Apply the next event."""
        known = KINDS.get(event.kind)
        handler: Callable[[Event, Replay], None] | None = getattr(self, f"_{event.kind}", None)
        if known is None or handler is None:
            raise BrokenError(event.seq, f"its kind {event.kind!r} is unknown")
        try:
            if event.kind == "amended" and self.lessons.correction is not None:
                self._take_turns()  # what was amended before it can be corrected together
            elif not known.learn_later:
                self.learn()
                if event.role != LEDGER and not replay.forced and self.expected():
                    raise BrokenError(
                        event.seq, "the event that must follow from the events before it is missing"
                    )
            if needs_quorum(event.kind, event.payload):
                self._require_quorum(event)
            handler(event, replay)
        except BrokenError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BrokenError(event.seq, f"it contradicts those before it ({error})") from error
        self.seq, self.head, self.time = event.seq, event.hash, event.time

    def _require_quorum(self, event: Event) -> None:
        """Check that enough reviewers agree with a decision, and that it is the motion they saw."""
        payload = event.payload
        motion = self.motions.pop(payload.get("motion", 0), None)
        if len(motion.confirmed if motion else [""]) < self.quorum:
            raise ValueError(f"{self.quorum} reviewers must agree to it")
        if motion is not None:
            carried = {"motion": motion.event, "confirmed": motion.confirmed}
            wanted = dict(motion.decision) | carried | {"version": payload.get("version")}
            said = dict(payload) | {"version": payload.get("version")}
            who = motion.kind, motion.by, motion.role
            if (event.kind, event.actor, event.role) != who or said != wanted:
                raise ValueError(f"motion {motion.event} asks for something else")

    def _asked(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        if payload["number"] != self.issued + 1 or payload["version"] != self.version:
            raise ValueError(f"ticket {self.issued + 1} of version {self.version} is next")
        self.issued += 1
        asked = "" if self.terms.patience_days is None else event.time
        self.tickets[self.issued] = Ticket(self.issued, payload["site"], self.version, asked)
        self.unsettled[self.version] += 1
        self.changed[self.issued] = OPEN

    def is_open(self, number: int) -> bool:
        """Whether a ticket was issued and has no report yet, nor was declared missing."""
        return number in self.tickets and number not in self.settled

    def told(self, events: Sequence[Event], reports: Sequence[Report]) -> None:
        """Apply the next events, which are these reports of open tickets, checked before."""
        for report in reports:
            self._settle(report)
        self.seq, self.head, self.time = events[-1].seq, events[-1].hash, events[-1].time

    def _told(self, event: Event, replay: Replay) -> None:
        report = Report.from_payload(event.payload)
        if report.number in self.settled:
            raise ValueError(f"ticket {report.number} has a report already")
        self.terms.require_learnable(report)
        self._settle(report)

    def _settle(self, report: Report) -> None:
        ticket = self.tickets[report.number]
        self.settled[report.number] = report
        if report.ended == "missing":
            self.changed[report.number] = MISSING
            return
        self.unsettled[ticket.version] -= 1
        self.changed[report.number] = WAITING

    _missing = _told  # whose report may have come later, by an amendment

    def _refused(self, event: Event, replay: Replay) -> None:
        self.changed[event.payload["number"]] = REFUSED

    def _conflict(self, event: Event, replay: Replay) -> None:
        """Recorded only; changes nothing."""

    _dismissed = _conflict

    def _amended(self, event: Event, replay: Replay) -> None:
        report = Report.from_payload(event.payload)
        self.terms.require_learnable(report)
        version = event.payload["version"]
        was_missing = event.payload["was"] in (MISSING, REFUSED)
        if was_missing:
            self.unsettled[version] -= 1
        if report.number > self.through:
            self.settled[report.number] = report
            self.changed[report.number] = WAITING
            return
        self.amended_at = event.seq
        before, now = self.lessons.learner, self.versions[-1]

        def corrected() -> Lessons:
            lessons = replay.rebuilt(event, self.terms)
            if self.terms.gate == "review":
                had_pending = before.proposal() is not None
                lessons.learner.resume_from(
                    before.spent, had_pending=had_pending, paused=before.paused
                )
            else:  # it deployed as it went, and may be elsewhere now
                deployed, told = lessons.learner.deployed, lessons.learner.told
                lessons.deployed = self.terms.difference(now, deployed, told)
            return lessons

        self.lessons.correct(corrected, at_once=not event.payload.get("more", False))
        self.changed[report.number] = LEARNED

    def _met(self, event: Event, replay: Replay) -> None:
        if event.role != LEDGER:
            self.learner.propose(held=event.payload.get("held", False))
            return
        date = event.payload["date"]
        if not replay.forced and date != late_date(self):
            raise ValueError(f"no proposal was due for a missed date after episode {date}")
        self.learner.make_up()

    def _history(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        states, kept, rewards = self.terms.learn_history(self.learner, payload)
        self.tally.add([f"history {payload['source']}"] * len(states), states, kept, rewards)
        if payload.get("propose", True):
            self.learner.propose()

    def _proposed(self, event: Event, replay: Replay) -> None:
        if self.pending is not None or self.learner.proposal() is None:
            raise ValueError("nothing was to be proposed")
        if event.payload != self._proposal_like(event.payload):
            raise ValueError("another proposal was to be recorded")
        self.proposal, self.lessons.due = event.payload, None

    def _proposal_like(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The pending proposal in the form of the library version that wrote a payload."""
        rules = self.terms.proposals.rules
        rule = payload.get("rule", rules[0])
        if rule not in rules:
            raise ValueError(f"it follows rule {rule}, which this version of lowswitch lacks")
        return self.proposal_payload(as_due="learned" in payload, rule=rule)

    def _approved(self, event: Event, replay: Replay) -> None:
        self._decided(event, replay)
        payload = event.payload
        rows = self.terms.proposals.keys(payload["rows"])
        limits = {name: payload[name] for name in ("part", "share") if name in payload}
        self.learner.approve_again(rows, **limits)
        self._new_version(payload["version"])

    def _capped(self, event: Event, replay: Replay) -> None:
        self.learner.cap_trial(event.payload["share"])
        self._new_version(event.payload["version"])

    def _rejected(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        self._decided(event, replay)
        self.learner.reject(
            rows=self.terms.proposals.keys(payload["rows"]),
            forever=payload["forever"],
            visits=payload["visits"],
            actions=payload.get("actions"),
            until=payload.get("until"),
        )

    def _vetoed(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        self._note(event)
        rows = [(step, state) for step, state in payload["rows"]]
        made = self.learner.forbid(rows, payload["actions"], instead=payload["instead"])
        if (made is not None) != ("version" in payload):
            raise ValueError("it makes a version if and only if one of the actions was deployed")
        if made is not None:
            self._new_version(payload["version"])

    def _lifted(self, event: Event, replay: Replay) -> None:
        self._note(event)
        rows = [(step, state) for step, state in event.payload["rows"]]
        self.learner.lift(rows, event.payload["actions"])

    # ---- several reviewers -----------------------------------------------------------------------

    def _requested(self, event: Event, replay: Replay) -> None:
        payload, own = event.payload, [event.actor] if event.role == REVIEWER else []
        asked = Motion(event.seq, event.time, event.actor, event.role, payload["kind"], {}, own)
        asked.decision = payload["decision"]
        self.motions[event.seq] = asked

    def _seconded(self, event: Event, replay: Replay) -> None:
        motion = self.motions[event.payload["motion"]]
        if motion.agrees(event.actor) or event.role != REVIEWER:
            raise ValueError(f"{event.actor} cannot count for it")
        motion.confirmed.append(event.actor)

    def _declined(self, event: Event, replay: Replay) -> None:
        motion = self.motions.pop(event.payload["motion"])
        if event.role == OPERATOR and (motion.by, motion.role) != (event.actor, event.role):
            raise ValueError(f"{event.actor} can withdraw only their own requests")

    def _quorum(self, event: Event, replay: Replay) -> None:
        self.quorum = event.payload["quorum"]

    def lapsed(self, motion: Motion) -> bool:
        """Whether a motion can no longer be carried out, because the run has moved on."""
        return self.why_lapsed(motion) is not None

    def why_lapsed(self, motion: Motion) -> str | None:
        """Why a motion can no longer be carried out; None if it can."""
        decision, pending = motion.decision, self.pending
        if self.ended and motion.kind != "quorum":
            return "the run has ended"
        if "proposal" in decision:
            if pending is None:
                return "its proposal was decided or withdrawn"
            if proposal_hash(pending) != decision["proposal"]:
                return "another proposal took the place of the one it is about"
        elif motion.kind == "rolled_back" and decision["base"] != self.version:
            return f"version {self.version} replaced version {decision['base']} meanwhile"
        elif motion.kind == "thawed" and not self.frozen:
            return "the run was resumed"
        elif motion.kind == "vetoed" and self._replaces_otherwise(decision):
            return f"version {self.version} changed what it would replace in the protocol"
        return None

    def _replaces_otherwise(self, veto: dict[str, Any]) -> bool:
        """Whether a veto would now replace something else than in the version it was made for."""
        base = veto.get("base", self.version)  # which older requests do not say
        then, now = (
            self.terms.proposals.replaced(policy, veto)
            for policy in (self.versions[base - 1], self.versions[-1])
        )
        return then != now

    def _decided(self, event: Event, replay: Replay) -> None:
        """Apply a decision and note it for its rows."""
        if not replay.forced:
            pending = self.pending
            if pending is None or proposal_hash(pending) != event.payload["proposal"]:
                raise ValueError("it decides on something that is not pending")
        self._note(event)

    def _note(self, event: Event) -> None:
        """Note a decision for its rows."""
        payload = event.payload
        more = {"actions": payload["actions"]} if "actions" in payload else {}
        words = {"event": event.seq, "time": event.time, "by": event.actor, "kind": event.kind}
        for step, state in payload["rows"]:
            self.decisions.setdefault((step, state), []).append(
                words
                | {"reason": payload["reason"], "forever": payload.get("forever", False)}
                | more
            )

    def _frozen(self, event: Event, replay: Replay) -> None:
        self.frozen = True
        if self.terms.gate == "review":
            self.learner.freeze()

    def _thawed(self, event: Event, replay: Replay) -> None:
        self.frozen = False
        if self.terms.patience_days is not None:
            self.resumed = event.time
        # who agreed to end this pause has not agreed to end the next one
        self.motions = {n: one for n, one in self.motions.items() if one.kind != "thawed"}
        if self.terms.gate == "review":
            self.learner.thaw()

    def _extended(self, event: Event, replay: Replay) -> None:
        self.extra += event.payload["more"]

    def _ended(self, event: Event, replay: Replay) -> None:
        self.ended = True
        if self.terms.gate == "review" and not self.frozen:
            self.learner.freeze()

    def _rolled_back(self, event: Event, replay: Replay) -> None:
        payload = event.payload
        policy, kept = self.restored(payload["to"])
        if kept != payload.get("kept", []):
            raise ValueError("it keeps other places than those with a forbidden action")
        self.learner.install(policy, until=payload.get("until"))
        self._new_version(event.payload["version"])

    def restored(self, version: int) -> tuple[Any, list[list[int]]]:
        """A version as a rollback deploys it, and the rows [step, state] that a veto changed."""
        return self.terms.without_forbidden(
            self.versions[version - 1], self.versions[-1], self.learner
        )

    def held_until(self, rows: Iterable[tuple[int, int]]) -> dict[str, int]:
        """When rows that are held from now on may be proposed again, for the event's payload.

        That is the next date. Without one, it is half of the average distance between two
        proposals, counted in episodes. A row with a trigger of its own is held until that.
        """
        learner, terms = self.learner, self.terms
        if not terms.has_rows or all(learner.next_trigger(row) for row in rows):
            return {}
        if len(learner.dates):
            return {"until": int(learner.dates[0])}
        proposals = terms.most_proposals or _USUAL_PROPOSALS
        return {"until": learner.told + max(1, round(terms.episodes / (2 * proposals)))}

    def _deployed(self, event: Event, replay: Replay) -> None:
        if not replay.forced and event.payload["changes"] != self.lessons.deployed:
            raise ValueError("the learner deployed something else")
        self.lessons.deployed = []
        self._new_version(event.payload["version"])

    def _snapshot(self, event: Event, replay: Replay) -> None:
        """Vouches for a snapshot of the state before it; changes nothing else."""
        self.snapshot_at = event.seq

    def _new_version(self, number: int) -> None:
        if number != self.version + 1:
            raise ValueError(f"version {self.version + 1} is next, not {number}")
        self.versions.append(self.learner.deployed)

    # ---- learning --------------------------------------------------------------------------------

    def learn(self) -> None:
        """Learn all reports whose turn has come, in the order of their tickets."""
        self._take_turns()
        self.lessons.learn()

    def _take_turns(self) -> None:
        """Queue the reports that wait for no earlier ticket."""
        terms = self.terms
        while (report := self.settled.get(self.through + 1)) is not None:
            is_missing = report.ended == "missing"
            if is_missing and terms.missing == "hold":
                break
            self.through += 1
            ticket = self.tickets.pop(self.through)
            del self.settled[self.through]
            policy = self.versions[ticket.version - 1]
            steps = terms.steps(report, lambda: self.learner, policy)
            if steps is not None and ticket.number <= terms.episodes:
                self.lessons.add(ticket.number, ticket.site, steps)
            if not is_missing:
                self.changed[self.through] = LEARNED

    # ---- what follows ----------------------------------------------------------------------------

    def expected(self) -> tuple[str, dict[str, Any]] | None:
        """The event that must be recorded next because of the events so far, if any."""
        self._take_turns()
        lessons = self.lessons
        if lessons.correction is not None or not lessons.quiet:
            lessons.learn()
        if lessons.deployed:
            return "deployed", {"version": self.version + 1, "changes": lessons.deployed}
        if lessons.learner.proposal() is not None and self.pending is None:
            return "proposed", self.proposal_payload()
        for number, ticket in self.tickets.items():
            reason = self._why_expired(ticket)
            if reason is None:
                break  # nor does any later one expire
            if number not in self.settled:
                payload = Report(number, (), (), (), "missing").to_payload()
                return "missing", payload | {"reason": reason}
        return None

    def _why_expired(self, ticket: Ticket) -> str | None:
        """Why an open ticket counts as missing: too many came later, or it is too old."""
        terms = self.terms
        if terms.patience is not None and ticket.number <= self.issued - terms.patience:
            return f"{terms.patience} later tickets were issued"
        if terms.patience_days is None or self.frozen or not self.time:
            return None
        since = datetime.fromisoformat(max(ticket.asked, self.resumed))
        if datetime.fromisoformat(self.time) - since < timedelta(days=terms.patience_days):
            return None
        return f"no report came within {terms.patience_days:g} days"

    def proposal_payload(self, *, as_due: bool = True, rule: int | None = None) -> dict[str, Any]:
        """The pending proposal with its evidence.

        as_due: use the reports that were learned when the proposal became due; a proposal that
        remains after a decision keeps its own evidence. Otherwise use all reports that were learned
        when it was recorded, as in events that do not state their number. rule: the version of the
        rule that judges the rows, by default the current one.
        """
        made, proposals = self.learner.proposal(), self.terms.proposals
        assert made is not None
        left = proposals.left(self.proposal, made) if as_due else None
        rule = proposals.rules[-1] if rule is None else rule
        return {
            "learner": made.hash,
            "raised": made.number,
            "told": made.told,
            "base": made.base,
            "put": list(self.learner.spent),
            "version": self.version,
        } | (left or self._evidence(made, as_due, rule))

    def open_reports(self) -> Counter[int]:
        """How many reports of each version may still come.

        A report that was declared missing cannot, unless the learner waits until it is settled.
        """
        held = self.terms.missing == "hold"
        return Counter(
            ticket.version
            for number, ticket in self.tickets.items()
            if number not in self.settled or (held and self.settled[number].ended == "missing")
        )

    def _evidence(self, made: Any, as_due: bool, rule: int) -> dict[str, Any]:
        """The facts about the rows of a proposal, and the number of reports they are based on."""
        learned, through, tally = self.learner.told, self.through, self.tally
        due = self.lessons.due
        if as_due and due is not None and due.proposal == made.hash:
            learned, through, tally = made.told, due.through, due.tally
        unsettled = Counter({v: n for v, n in self.unsettled.items() if n > 0})
        proposals = self.terms.proposals
        waiting = [number for number in self.tickets if number not in self.settled]
        return {
            "through": through,
            "open": waiting[:_MOST_NAMED],
            "unsettled": sum(unsettled.values()),
            **({"learned": learned} if as_due else {}),
            **({} if rule == proposals.rules[0] else {"rule": rule}),
        } | proposals.judged(self, made, Known(tally, learned, unsettled), rule)


class Replay:
    """How events are applied.

    forced: the learner adopts the recorded proposal as its own, as after an amendment.
    """

    def __init__(self, *, forced: bool = False) -> None:
        self.forced = forced

    def rebuilt(self, event: Event, terms: Terms) -> Lessons:
        """The lessons before an amendment, as if all amended reports had been right at first."""
        raise NotImplementedError


def replayed(events: Iterable[Event], replay: Replay) -> State:
    """The state that events from the first one on lead to."""
    state: State | None = None
    for event in events:
        if state is None:
            state = State.of(read_terms(event.payload["terms"]), event)
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
