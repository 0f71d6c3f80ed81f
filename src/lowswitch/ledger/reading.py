"""Everything that can be read from a ledger: its state, its events, and answers made from them."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lowswitch.checks import require_word
from lowswitch.ledger import views
from lowswitch.ledger.address import file_of
from lowswitch.ledger.certificates import certificate
from lowswitch.ledger.corrections import Corrections
from lowswitch.ledger.errors import BrokenError, LedgerError, StorageError, UnknownTicketError
from lowswitch.ledger.events import (
    GENESIS,
    KINDS,
    NEUTRAL,
    OF_TICKETS,
    Event,
    canonical,
    read_event,
    read_time,
)
from lowswitch.ledger.feature_terms import FeatureTerms
from lowswitch.ledger.responses import (
    SHOWN,
    WITHDRAWN,
    Certificate,
    Chart,
    ProposalView,
    RowView,
    Status,
    TicketView,
    Verdict,
    Version,
)
from lowswitch.ledger.snapshot import binds, is_whole, state_of
from lowswitch.ledger.state import OPEN, STATUSES, State, proposal_hash
from lowswitch.ledger.store import Snapshot, Store, StoredTicket
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.ledger.terms import Report, Terms
from lowswitch.policy.members import Part
from lowswitch.review.gate import Hold
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from lowswitch.learners.judgement import Judgement
    from lowswitch.ledger.anchors import Known

_UNCOUNTED = [name for name, kind in KINDS.items() if kind.uncounted]
_MOST_UNCOUNTED = 10  # of a ticket
_QUICK = 5000  # events that are replayed while somebody waits for a page


class Reading:
    """The read-only part of a ledger.

    Parameters
    ----------
    store
        The database.
    terms
        The declaration of the run.
    read_only
        Whether writing is refused.
    """

    def __init__(self, store: Store, terms: Terms, *, read_only: bool = False) -> None:
        self.store, self.terms, self.read_only = store, terms, read_only
        self._lock = threading.RLock()
        self._state: State | None = None
        self._judged: tuple[tuple[str, int], Judgement] | None = None  # see `_judgement_of`
        self._rest: ProposalView | None = None  # the pending one, if it may be a rest
        self._corrections = Corrections(self.events, self._amended, self._bound_snapshots)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is known ---------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of the deployed version."""
        return self._ready().version

    @property
    def policy(self) -> Any:
        """The deployed policy, read-only: tables [members, H, S], or a LinearPolicy."""
        return self.policy_of(self.version)

    def policy_of(self, version: int) -> Any:
        """The policy of a version, read-only: tables [members, H, S], or a LinearPolicy.

        Parameters
        ----------
        version
            The number of the version.
        """
        versions = self._ready().versions
        if not (isinstance(version, int) and 1 <= version <= len(versions)):
            raise LedgerError(f"there is no version {version!r}; they are 1 to {len(versions)}")
        return self.terms.shown(versions[version - 1])

    def restored(self, version: int) -> Any:
        """A version as a rollback would deploy it now: without what was forbidden since.

        Parameters
        ----------
        version
            The number of the version.
        """
        self.policy_of(version)
        policy, _ = self._ready().restored(version)
        return self.terms.shown(policy)

    def holds(self) -> dict[tuple[int, int], Hold]:
        """The rows (step, state) that are postponed or rolled back, and when each hold ends."""
        with self._lock:
            learner = self._ready().learner
            return learner.holds if self.terms.has_rows else {}

    def hold_of(self, rows: Sequence[Sequence[int]]) -> Hold:
        """When rows [step, state] that are postponed now may be proposed again.

        If they differ, this is the last of them.

        Parameters
        ----------
        rows
            The rows.
        """
        with self._lock:
            state, keys = self._ready(), [(h, x) for h, x in rows]
            told = state.held_until(keys).get("until")
            more = [one for key in keys if (one := state.learner.next_trigger(key)) is not None]
            return Hold(max(more, default=None) if told is None else None, told)

    def policy_json(self, version: int | None = None, member: int | None = None) -> dict[str, Any]:
        """A version as plain JSON values: all of it, or one table.

        Parameters
        ----------
        version
            The number of the version, by default the deployed one.
        member
            The number of a table; by default all.
        """
        number = self.version if version is None else version
        self.policy_of(number)  # or an error
        return {"version": number} | self.terms.to_json(self._ready().versions[number - 1], member)

    def act(
        self, ticket: str, context: Any, *, step: Any = 0, site: str | None = None
    ) -> dict[str, Any]:
        """The action of a ticket in a context, by its label, and its exact propensity.

        A site can compute the same from the ticket of `Ledger.ask`. Nothing is recorded.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        context
            The features of the case.
        step
            The step, from 0.
        site
            Refuse a ticket of another site.
        """
        found = self.tickets_named([ticket])
        if not found or site not in (None, found[0].site):
            raise UnknownTicketError(f"no ticket {ticket!r} was issued to you by this ledger")
        policy = self._ready().versions[found[0].version - 1]
        return self.terms.act(policy, found[0].number, context, step)

    def law(self, context: Any, *, step: Any = 0) -> dict[str, float]:
        """The probability of each action in a context under the deployed policy; features only.

        Parameters
        ----------
        context
            The features of the case.
        step
            The step, from 0.
        """
        return self.vectors().law(self._ready().versions[-1], context, step)

    def kinds(self, before: int | None = None, after: int | None = None) -> dict[str, Any]:
        """What the deployed policy gives to which kinds of cases; features only.

        Parameters
        ----------
        before, after
            Two versions, to see in which kinds of cases they differ.
        """
        terms = self.vectors()
        with self._lock:
            state = self._ready()
            for version in (before, after):
                if version is not None:
                    self.policy_of(version)  # or an error
            pair = [state.versions[-1 if n is None else n - 1] for n in (before, after)]
            return terms.kinds(state, None if before is None else pair[0], pair[1])

    def vectors(self) -> FeatureTerms:
        """The terms of a run with features."""
        if isinstance(self.terms, FeatureTerms):
            return self.terms
        raise LedgerError("this ledger is of a run with states; its map shows every row")

    def tables(self) -> TableTerms:
        """The terms of a run with states, for what cannot be done with features yet."""
        if isinstance(self.terms, TableTerms):
            return self.terms
        raise LedgerError(
            "this ledger is of a run with features, and this needs a table of states; kinds and law"
            " say what its policy does"
        )

    @property
    def actions_allowed(self) -> np.ndarray:  # [H, S, A], or [H, A] with features
        """The actions that may be deployed, [H, S, A]: the declared ones without the forbidden
        ones.
        """
        with self._lock:
            return self._ready().learner.actions_allowed

    def proposal(self) -> ProposalView | None:
        """The pending proposal, or None.

        If it is what is left after a part was approved, its numbers are computed again for the
        version in use; see `ProposalView.numbers`.
        """
        pending = self._ready().pending
        if pending is None:
            return None
        wanted = proposal_hash(pending)
        if self._rest is not None and self._rest.hash == wanted:
            return self._rest
        for one in views.proposals(self, newest=True):
            if one.hash == wanted:
                found = views.rest(self, self._ready(), one)
                kept = one.worth is None and found.numbers != WITHDRAWN
                self._rest = found if kept else None
                return found
        raise StorageError("the pending proposal is not found among the events; verify says why")

    def is_current(self) -> bool:
        """Whether a proposal is pending, and nothing that it depends on was recorded since.

        The rest of a proposal that was decided in part does not count: a new one may be another.
        """
        with self._lock:
            if self._ready().pending is None:
                return False
            (made,) = self.newest(1, kind="proposed")
            before = views.event_of(*self.store.event(made.seq - 1))
            is_rest = "proposal" in before.payload
            return not is_rest and not self.store.has_after(made.seq, NEUTRAL)

    def proposals(self) -> list[ProposalView]:
        """All proposals in order, with the decisions on them."""
        return list(views.proposals(self))

    def deployed(self) -> tuple[Any, bool]:
        """The deployed policy, and whether it is a protocol with a trial."""
        policy = self._ready().versions[-1]
        return self.terms.shown(policy), self.terms.share(policy) is not None

    def worth(
        self,
        rows: Any = None,
        *,
        part: Part | None = None,
        share: float | None = None,
        wait: bool = True,
    ) -> dict[str, Any] | None:
        """The worth of the pending proposal if only these rows change, in the run's units of
        reward.

        It uses the learner's beliefs when the proposal became due. None if no proposal is pending,
        or if the learner keeps no model.

        Parameters
        ----------
        rows
            Rows (step, state), by default all.
        part
            "protocol" or "trial" if only that part is deployed.
        share
            The largest share of cases in the trial.
        wait
            Whether to wait for a long replay; otherwise the result is None if one is needed.
        """
        with self._lock:
            state = self._ready()
            if state.pending is None:
                return None
            judgement, proposals = self._judgement_of(state, wait), self.terms.proposals
            if judgement is None:  # it may have recorded what the whole is worth all the same
                whole = rows is None and part is None and share is None
                return proposals.in_units(state.pending.get("worth")) if whole else None
            chosen = [] if rows is not None and not rows else proposals.chosen(state.pending, rows)
            found = judgement.worth(proposals.keys(chosen), part=part, share=share)
            return proposals.in_units(found.facts())

    def proposal_of(self, name: str) -> ProposalView | None:
        """The proposal with this hash, pending or not; None if it does not exist.

        Parameters
        ----------
        name
            The hash, or its first 8 characters.
        """
        with self._lock:
            return next((one for one in views.proposals(self, name=name)), None)

    def other_changes(
        self, changes: Sequence[tuple[int, int, int]]
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """The evidence for changes of the protocol that nobody proposed, such as a veto, and their
        joint worth.

        The rows look like the rows of a proposal, without a verdict. Gains use the learner's
        current beliefs; they are None if it keeps no model or a very large one.

        Parameters
        ----------
        changes
            Step, state and new action of each, as positions.
        """
        with self._lock:
            return self.terms.proposals.others(self._ready(), changes)

    def effect(self, kind: str, decision: dict[str, Any]) -> dict[str, Any]:
        """The changes that a decision would make by kinds of cases, in the form of a proposal's
        row.

        Parameters
        ----------
        kind
            approved, vetoed, rolled_back or capped.
        decision
            The payload of its event.
        """
        proposals = self.vectors().proposals
        with self._lock:
            return proposals.effect(self._ready(), kind, decision)

    def _judgement_of(self, state: State, wait: bool) -> Judgement | None:
        """The posterior on the pending proposal, cached until there is another one."""
        made = state.learner.proposal()
        assert made is not None
        key = made.hash, state.amended_at
        if self._judged is None or self._judged[0] != key:
            found = views.judgement(self, state, wait=wait or state.seq <= _QUICK)
            self._judged = None if found is None else (key, found)
        return None if self._judged is None else self._judged[1]

    def versions(self) -> list[Version]:
        """All versions, in order."""
        return views.versions(self)

    def status(self) -> Status:
        """The current state of the run; counting the tickets takes one query."""
        with self._lock:
            state = self._ready()
            found = views.status(state, self.store.counts())
            behind = self._behind(state, found.waiting)
            return dataclasses.replace(found, behind=behind, paused=self._paused(state))

    def _paused(self, state: State) -> dict[str, str] | None:
        """Who paused the run, when and why."""
        if not state.frozen:
            return None
        (event,) = self.newest(1, kind="frozen")
        return {"by": event.actor, "time": event.time, "reason": event.payload["reason"]}

    def _behind(self, state: State, waiting: int) -> str | None:
        """Which ticket the waiting reports are waiting for, in words."""
        if not waiting:
            return None
        blocking = self.store.ticket_numbered(state.through + 1)
        reports = counted(waiting, "report", "waits", "wait")
        why = "" if blocking.status == OPEN else f", which is {blocking.status}"
        return f"{reports} behind ticket {self._shown(blocking).name}{why}"

    def _shown(self, ticket: StoredTicket) -> TicketView:
        asked = views.event_of(*self.store.event(ticket.asked)).time
        return TicketView(*ticket[:6], asked)

    def list_tickets(
        self,
        status: str | None = OPEN,
        *,
        site: str | None = None,
        most: int | None = None,
        after: int = 0,
        part: str = "",
        among: Sequence[int] | None = None,
    ) -> list[TicketView]:
        """The first tickets with a status and of a site, with the time when they were issued.

        Parameters
        ----------
        status
            The status, or None for every one.
        site
            Only tickets of this site.
        most
            At most this many.
        after
            Only tickets with a larger number.
        part
            Only tickets whose request contains these characters, which begin with them, or whose
            number they are.
        among
            Only tickets with one of these numbers.
        """
        if status is not None:
            require_word("status", status, STATUSES)
        with self._lock:
            if among is None:
                found = list(
                    self.store.tickets(status, site=site, most=most, after=after, part=part)
                )
            else:
                some = self.tickets_numbered([one for one in among if one > after])
                fit = [one for one in some if status in (None, one.status)]
                found = [one for one in fit if site in (None, one.site)][:most]
            return [self._shown(one) for one in found]

    def tickets_called(self, names: Sequence[str]) -> dict[str, list[StoredTicket]]:
        """The tickets that people call so: by a ticket, its beginning, a request or a number.

        Capital letters count only between requests that differ in nothing else. A number may follow
        the run's word for an episode, and have commas: patient 1,153.
        """
        numbers = {name: self._number_in(name) for name in names}
        with self._lock:
            found = {*self.store.tickets_called(names, SHOWN)}
            numbered = {
                one.number: one for one in self.store.tickets_numbered([*set(numbers.values())])
            }
        found |= {*numbered.values()}
        ordered = sorted(found)
        return {name: _called(name, numbered.get(numbers[name]), ordered) for name in names}

    def _number_in(self, name: str) -> int:
        """The number in a name such as 1,153 or patient 1,153; 0 without a number."""
        word = re.escape(self.terms.word("episode"))
        digits = r"(\d{1,9}|\d{1,3}(?:,\d{3}){1,2})"
        found = re.fullmatch(rf"(?i:{word} )?{digits}", name.strip())
        return int(found[1].replace(",", "")) if found else 0

    def open_by_site(self) -> list[tuple[str, int, str]]:
        """Each site with open tickets: how many, and when the oldest one was asked for."""
        with self._lock:
            return [
                (site, count, views.event_of(*self.store.event(asked)).time)
                for site, count, asked in self.store.open_by_site()
            ]

    def look_alikes(self, most: int = 50) -> list[list[StoredTicket]]:
        """Tickets of one site whose requests differ in blanks or capital letters alone.

        They may be one case that was enrolled twice.

        Parameters
        ----------
        most
            At most so many such requests.
        """
        found = dict[tuple[str, str], list[StoredTicket]]()
        with self._lock:
            for one in self.store.look_alikes(most):
                found.setdefault((one.site, one.request.strip().lower()), []).append(one)
        return [*found.values()]

    def tickets_named(self, names: Sequence[str]) -> list[StoredTicket]:
        """The tickets of these names, in the order in which they were issued."""
        with self._lock:
            return sorted(self.store.tickets_named(names))

    def tickets_numbered(self, numbers: Sequence[int]) -> list[StoredTicket]:
        """The tickets with these numbers, in order; at most one page.

        Parameters
        ----------
        numbers
            The numbers.
        """
        with self._lock:
            return sorted(self.store.tickets_numbered(numbers))

    def report_of(self, ticket: str) -> tuple[StoredTicket, dict[str, Any]]:
        """A ticket with the labels and rewards of its report; empty lists without a report.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        """
        found = self.tickets_named([ticket])
        if not found:
            raise UnknownTicketError(f"no ticket {ticket!r} was issued by this ledger")
        (known,) = found
        empty: dict[str, Any] = {"states": [], "actions": [], "rewards": [], "ended": "whole"}
        if known.report is None:
            return known, empty
        return known, self._labelled(views.payload_of(*self.store.event(known.report)))

    def corrected_since(
        self, ticket: str, event: int
    ) -> list[tuple[Event, dict[str, Any], dict[str, Any] | None]]:
        """The events that changed the report of a ticket since another one, newest last.

        Each comes with the labels of its report, and of the report that it replaced, if any.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        event
            The number of the event with the report that the user read; 0 without a report.
        """
        known, _ = self.report_of(ticket)
        found, seq = list[Event](), known.report
        with self._lock:
            while seq is not None:
                found.append(views.event_of(*self.store.event(seq)))
                seq = None if seq == event else found[-1].payload.get("instead")
        reports = [(one, self._labelled(one.payload)) for one in reversed(found)]
        before = [None, *(report for _, report in reports)]
        pairs = zip(reports, before, strict=False)
        return [(one, report, old) for (one, report), old in pairs if one.seq != event]

    def _labelled(self, payload: dict[str, Any]) -> dict[str, Any]:
        """A recorded report with its labels."""
        return {
            "states": self.terms.state_names(payload["states"]),
            "actions": [self.terms.labels["action"][a] for a in payload["actions"]],
            "rewards": payload["rewards"],
            "ended": payload["ended"],
            "propensities": payload.get("propensities"),
        }

    def uncounted(self, number: int) -> list[tuple[Event, dict[str, Any]]]:
        """A site's reports on a ticket that are not counted, with labels, newest first.

        They came after the ticket was declared missing, or contradict an earlier report.

        Parameters
        ----------
        number
            The number of the ticket.
        """
        with self._lock:
            known = self.store.ticket_numbered(number)
            rows = [
                row for kind in _UNCOUNTED for row in self.store.sent(kind, number, _MOST_UNCOUNTED)
            ]
            used = None if known.report is None else self.store.event(known.report)
        taken = None if used is None else Report.from_payload(views.payload_of(*used))
        found = sorted((views.event_of(*row) for row in rows), key=lambda one: -one.seq)
        return [
            (one, self._labelled(one.payload))
            for one in found
            if Report.from_payload(one.payload) != taken
        ]

    def settled_by(self, tickets: Sequence[str]) -> dict[str, Event]:
        """The events with the reports of tickets, or that declared them missing."""
        found = [one for one in self.tickets_named(tickets) if one.report is not None]
        return {one.ticket: views.event_of(*self.store.event(one.report or 0)) for one in found}

    def require_correction(
        self,
        ticket: str,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str,
        propensities: Any = None,
    ) -> bool:
        """Refuse an invalid correction; return whether it changes what the learner knows.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        states, actions, rewards, ended, propensities
            The right report, as in `Ledger.tell`.
        """
        known, _ = self.report_of(ticket)
        if known.status == OPEN:
            raise LedgerError(f"ticket {ticket} is open; report on it with tell")
        state = self._ready()
        policy = state.versions[known.version - 1]
        self.terms.report(known.number, policy, states, actions, rewards, ended, propensities)
        return known.number <= state.through

    def tickets(self, status: str) -> Iterator[StoredTicket]:
        """The tickets with a status.

        Parameters
        ----------
        status
            "open", "waiting", "learned", "missing" or "refused".
        """
        return self.store.tickets(status)

    def events(self, first: int = 1) -> Iterator[Event]:
        """The events in order, each checked to follow the one before it.

        Parameters
        ----------
        first
            The number of the first event.
        """
        previous = GENESIS if first == 1 else self.store.event(first - 1)[2]
        for expected, row in enumerate(self.store.read(first), start=first):
            read = read_event(*row, expected, previous)
            previous = read.hash
            yield read

    def newest(
        self,
        count: int,
        *,
        before: int | None = None,
        kind: str | None = None,
        containing: str = "",
    ) -> list[Event]:
        """Some events, newest first, for paging.

        This does not check the chain; `verify` does.

        Parameters
        ----------
        count
            How many events.
        before
            Only events with a smaller number.
        kind
            Only events of this kind.
        containing
            Only events that contain this text, or that concern the episode with this name: its
            ticket, its request or its number. For "version 9" also what proposed this version, made
            it or put it back.
        """
        part, numbers = canonical(containing)[1:-1], self._numbers_called(containing)
        rows = self.store.newest(
            count,
            before=before,
            kind=kind,
            part=part,
            numbers=numbers,
            version=version_named(containing),
        )
        return [views.event_of(*row) for row in rows]

    def _numbers_called(self, name: str) -> list[int]:
        """The numbers of the tickets with a name, such as p17, or with a number: patient 1,153."""
        return [one.number for one in self.tickets_called([name.strip()])[name.strip()]]

    def about(self, events: Sequence[Event]) -> tuple[dict[int, StoredTicket], dict[int, Event]]:
        """The tickets of events by their numbers, and the events whose reports others corrected."""
        numbers = {one.payload["number"] for one in events if one.kind in OF_TICKETS}
        corrected = {one.payload.get("instead") or 0 for one in events if one.kind == "amended"}
        known = {one.number: one for one in self.tickets_numbered([*numbers])}
        with self._lock:
            before = [views.event_of(*self.store.event(seq)) for seq in corrected - {0}]
        return known, {one.seq: one for one in before}

    def certificate(
        self,
        within: float | None = None,
        *,
        probability: float = 0.05,
        cost: float | None = None,
    ) -> Certificate:
        """How good the deployed policy is for certain, and what one more deployment would gain.

        Parameters
        ----------
        within
            The run may stop once the policy is this close to the best one, per episode and in the
            run's units.
        probability
            The probability with which the bounds may fail.
        cost
            The cost of a deployment, in the same units.

        See Also
        --------
        Learner.bounds
        """
        with self._lock:
            terms = self.tables()
            return certificate(self._ready().learner, terms, within, probability, cost)

    def chart(self) -> Chart:
        """The facts about every row of the policy, as of now."""
        with self._lock:
            self.tables()
            return views.chart(self._ready())

    def row(self, step: Any, state: Any) -> RowView:
        """The facts about one row: its actions with their evidence, and its past.

        Parameters
        ----------
        step, state
            The row, as labels or positions.
        """
        terms = self.tables()
        h, x = terms.index("step", step), terms.index("state", state)
        with self._lock:
            return views.row(self._ready(), terms, h, x)

    def verify(self, *, known: Sequence[Known] = (), progress: bool | None = None) -> Verdict:
        """Check the chain of events and replay it from the start; name the first bad event.

        Parameters
        ----------
        known
            Facts that were noted outside, from `anchors.trusted` or `anchors.expected`.
            Without them, a record that was rewritten as a whole is not detected.
        progress
            A function that is told how far the replay is.

        Returns
        -------
        Verdict
            Whether everything is intact, and otherwise the first fault.
        """
        from lowswitch.ledger.audit import verify

        return verify(self, known=known, progress=progress)

    def export(self, path: str | Path, *, kind: str = "jsonl") -> None:
        """Write all events to a file.

        Parameters
        ----------
        path
            The file.
        kind
            "jsonl" for JSON lines, "csv" for a table.
        """
        from lowswitch.ledger.exports import export

        export(self, file_of(path), kind)

    def backup(self, path: str | Path) -> None:
        """Copy the ledger into a file, even while it is in use.

        Parameters
        ----------
        path
            The new file.
        """
        self.store.backup(file_of(path))

    # ---- the state -------------------------------------------------------------------------------

    def _amended(self, before: int) -> list[Event]:
        """The amendments before an event, in order."""
        return [views.event_of(*row) for row in self.store.of_kind("amended", before)]

    def _bound_snapshots(self) -> list[Snapshot]:
        return [one for one in self._snapshots() if self.is_bound(one)]

    def _ready(self) -> State:
        """The state after the last event on record."""
        with self._lock:
            return self._catch_up()

    def _catch_up(self) -> State:
        """Apply the events that others have written since."""
        seq, head = self.store.grown_head()
        state, self._corrections.unwritten = self._state, []
        if state is None or seq < state.seq or (seq == state.seq and head != state.head):
            self._corrections.forget()
            state = self._loaded()
        if state.seq < seq:
            self._state = None  # until every event was taken in
            for one in self.events(state.seq + 1):
                state.apply(one, self._corrections)
            state.learn()
        state.changed.clear()
        self._state = state
        return state

    def _loaded(self) -> State:
        """The state of the newest usable snapshot, or the state after the first event."""
        for snapshot in self._snapshots():
            state = state_of(snapshot, self.terms) if self.is_bound(snapshot) else None
            if state is not None:
                seq, body, stored, _ = self.store.event(snapshot.seq)
                if (state.seq, state.head) == (seq, stored):
                    state.time = read_time(body)
                    return state
        return State.of(self.terms, views.event_of(*self.store.event(1)))

    def _snapshots(self) -> list[Snapshot]:
        """The snapshots; none if the database cannot read them, since the events are enough."""
        try:
            return self.store.snapshots()
        except StorageError:
            return []

    def is_bound(self, snapshot: Snapshot) -> bool:
        """Whether the event after a snapshot vouches for it."""
        seq, last = snapshot.seq, self.store.head()[0]
        if not (isinstance(seq, int) and 1 <= seq < last and is_whole(snapshot)):
            return False
        try:
            before = self.store.event(seq)[2]
            return binds(read_event(*self.store.event(seq + 1), seq + 1, before), snapshot)
        except BrokenError:
            return False  # what is wrong with that event is for the replay to say


def version_named(words: str) -> int:
    """The version in a search such as version 9; 0 if the search is for something else."""
    found = re.fullmatch(r"(?i)version (\d{1,9})", words.strip())
    return int(found[1]) if found else 0


def _called(
    name: str, numbered: StoredTicket | None, tickets: Sequence[StoredTicket]
) -> list[StoredTicket]:
    """The tickets among these that people call by a name; numbered: the one with this number.

    A bare number that is also a name may mean either ticket.
    """
    small = name.lower()
    found = [
        one
        for one in tickets
        if small == one.request.lower() or (len(name) >= SHOWN and one.ticket.startswith(small))
    ]
    found = [one for one in found if one.request == name] or found
    is_name = bool(found) and not name[:1].isdigit()
    return found if numbered is None or numbered in found or is_name else [*found, numbered]
