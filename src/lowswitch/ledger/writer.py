"""One transaction of a ledger: the events that are written, and those that follow from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from lowswitch.ledger import errors, views
from lowswitch.ledger.corrections import Corrections
from lowswitch.ledger.dates import late_date
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.events import (
    KINDS,
    LEDGER,
    OPERATOR,
    SITE,
    Event,
    event,
    events,
    later,
)
from lowswitch.ledger.reference import is_named, not_pending
from lowswitch.ledger.requests import Request
from lowswitch.ledger.responses import ProposalView, Told
from lowswitch.ledger.snapshot import is_due, snapshot_of
from lowswitch.ledger.state import LEARNED, MISSING, OPEN, REFUSED, WAITING, State, proposal_hash
from lowswitch.ledger.store import Snapshot, Store, StoredTicket
from lowswitch.ledger.terms import ENDED, Report

_MOST_UNCOUNTED = 10  # reports of a ticket that are recorded, too late or contradicting
_FEW = 8  # reports that are looked at one by one if one of them is not plain
_NEEDED = {"ticket", "states", "actions", "rewards"}  # of `tell`
_ARGUMENTS = _NEEDED | {"ended", "site", "propensities"}
_MOST_HISTORY = 1000  # imports before the first ticket


class Writer:
    """The events of one transaction."""

    def __init__(
        self,
        store: Store,
        state: State,
        replay: Corrections,
        clock: Callable[[int], str],
        new_ticket: Callable[[int], str],
        request: Request | None = None,
        *,
        recent: dict[str, StoredTicket],
    ) -> None:
        self.recent = recent  # tickets that this process issued, by name, so that none is looked up
        self.store, self.state, self.terms, self.replay = store, state, state.terms, replay
        self.clock, self.new_ticket = clock, new_ticket
        self.events: list[Event] = []
        replay.unwritten = self.events
        self.issued: dict[int, StoredTicket] = {}
        self.reports: dict[int, int] = {}  # the event of the report of a ticket
        self.broken = False
        self.known: dict[Any, StoredTicket] = {}
        self.open_of: dict[str, int] = {}  # open tickets of a site, where that was counted
        self.snapshot: Snapshot | None = None  # to be stored once the events are
        self.request = request
        # the event that the same request led to before; nothing is then to be done
        self.done = None if request is None else request.done(store)

    def add(self, actor: str, role: str, kind: str, payload: dict[str, Any]) -> Event:
        """Write the next event and apply it."""
        state = self.state
        seq = state.seq + 1
        if self.request is not None and kind == self.request.kind and role != LEDGER:
            payload = payload | self.request.mark
        time = later(self.clock(seq), state.time)
        made = event(seq, time, actor, role, kind, payload, state.head)
        self.events.append(made)
        self.broken = True
        try:
            state.apply(made, self.replay)
        except errors.BrokenError as error:
            if role == LEDGER or type(error.__cause__) is not ValueError:
                raise
            raise LedgerError(str(error.__cause__)) from error  # what is asked for is refused
        self.broken = False
        if KINDS[kind].has_report:
            self.reports[payload["number"]] = seq
        return made

    def follow(self) -> None:
        """Add the events that follow; the learner may plan for this."""
        if not self.events:
            return
        while (next_one := self.state.expected()) is not None:
            self.add("ledger", LEDGER, *next_one)
        if is_due(self.state):
            self.snapshot = self.bind_snapshot()

    def store_all(self) -> None:
        """Store everything, inside a transaction."""
        if not self.events:
            return
        changed = self.state.changed
        new = [
            ticket._replace(status=changed.pop(number), report=self.reports.pop(number, None))
            for number, ticket in self.issued.items()
        ]
        old = [(status, self.reports.get(number), number) for number, status in changed.items()]
        with self.store.together():
            self.store.append(self.events)
            if new:
                self.store.add_tickets(new)
            if old:
                self.store.set_tickets(old)
        changed.clear()

    def bind_snapshot(self) -> Snapshot:
        """A snapshot of the state, which the next event vouches for.

        That event belongs to this transaction, so the same requests always put it in the same
        place. Whether the snapshot itself is stored makes no difference to the chain.
        """
        taken = snapshot_of(self.state)
        self.add("ledger", LEDGER, "snapshot", {"hash": taken.hash})
        return taken

    # ---- tickets ---------------------------------------------------------------------------------

    def require_thawed(self) -> None:
        require_thawed(self.state, self.store)

    def require_going_on(self) -> None:
        """Check that the run has not ended, so that decisions can still be made."""
        if self.state.ended:
            raise errors.EndedError("this run has ended, and its policy stays as it is")

    def ask(self, site: str, request: str, most_open: int | None = None) -> StoredTicket:
        """Issue a ticket, unless the site has too many open ones."""
        self.require_thawed()
        if most_open is not None:
            self._require_quota(site, most_open)
        state = self.state
        number = state.issued + 1
        if state.ended:
            raise errors.EndedError("this run has ended, and no more tickets are issued")
        if number > (most := self.terms.episodes + state.extra):
            raise LedgerError(
                f"this run was declared for {most} episodes, and all tickets are issued; an"
                " operator can extend it, or create a ledger for the next run"
            )
        ticket = self.new_ticket(number)
        payload = {
            "ticket": ticket,
            "number": number,
            "site": site,
            "request": request,
            "version": state.version,
        }
        made = self.add(site, SITE, "asked", payload)
        issued = StoredTicket(number, ticket, site, request, state.version, OPEN, made.seq, None)
        self.issued[number] = issued
        if site in self.open_of:
            self.open_of[site] += 1
        return issued

    def _require_quota(self, site: str, most: int) -> None:
        if site not in self.open_of:
            self.open_of[site] = self.store.open_tickets(site, most)
        if self.open_of[site] >= most:
            raise errors.QuotaError(
                f"{site!r} has {most:,} open tickets, which is as many as a site may have; report"
                " on some of them, or let an operator declare them missing"
            )

    def report(
        self,
        ticket: StoredTicket,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str,
        propensities: Any = None,
    ) -> Report:
        """The report of a ticket, after it is checked."""
        if ticket.version not in range(1, self.state.version + 1):
            raise errors.StorageError(
                f"ticket {ticket.ticket} is stored with version {ticket.version!r}, which does not"
                " exist; verify says more"
            )
        policy, seen = self.state.versions[ticket.version - 1], (states, actions, rewards, ended)
        return self.terms.report(ticket.number, policy, *seen, propensities)

    def fetch(self, tickets: Sequence[Any]) -> None:
        """Look up many tickets at once."""
        state, names = self.state, list[str]()
        for ticket in tickets:
            if isinstance(ticket, str):
                issued = self.recent.pop(ticket, None)
                if issued is None or not state.is_open(issued.number):
                    names.append(ticket)
                else:
                    self.known[ticket] = issued
        self.known |= {ticket.ticket: ticket for ticket in self.store.tickets_named(names)}

    def ticket(self, ticket: str) -> StoredTicket:
        """A ticket that was issued."""
        if isinstance(ticket, str) and ticket not in self.known:
            self.fetch([ticket])
        known = self.known.get(ticket)
        if known is None:
            raise errors.UnknownTicketError(f"no ticket {ticket!r} was issued by this ledger")
        status = self.state.changed.get(known.number, known.status)
        return known._replace(status=status, report=self.reports.get(known.number, known.report))

    def missing(self, ticket: str, seen: tuple[Any, Any, Any], reason: str, by: str) -> None:
        """Declare that no report will come; seen: the states, actions and rewards before that."""
        self.require_thawed()
        known = self.ticket(ticket)
        if known.status != OPEN:
            raise LedgerError(f"ticket {ticket} is {known.status}, and not open; amend it")
        report = self.report(known, *seen, "truncated")
        payload = report.to_payload() | {"ended": "missing", "reason": reason}
        self.add(by, OPERATOR, "missing", payload)

    def tell(
        self,
        ticket: str,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str = "whole",
        site: str | None = None,
        propensities: Any = None,
    ) -> Told:
        """Record a report."""
        self.require_thawed()
        require_ended(ended)
        known = self.ticket(ticket)
        if site is not None and site != known.site:
            raise errors.UnknownTicketError(f"ticket {ticket} does not belong to {site!r}")
        report = self.report(known, states, actions, rewards, ended, propensities)
        if known.status == OPEN:
            made = self.add(known.site, SITE, "told", report.to_payload())
            return Told(ticket, known.number, made.seq, made.hash)
        if known.status in (MISSING, REFUSED):
            if self._is_new("refused", known.number, report):
                self.add(known.site, SITE, "refused", report.to_payload())
            raise errors.ExpiredError(
                f"ticket {ticket} was declared missing before its report came, and the run goes on"
                " without it; the trial office can enter it"
            )
        before = self._told_before(known, report)
        if before is None:
            if self._is_new("conflict", known.number, report):
                self.add(known.site, SITE, "conflict", report.to_payload())
            raise errors.ConflictError(
                f"another report of ticket {ticket} is on record (event {known.report}); if this"
                " one is right, an operator can amend it"
            )
        return Told(ticket, known.number, *before)

    def tell_many(self, reports: Sequence[dict[str, Any]]) -> list[Told | LedgerError]:
        """Record reports, as many at once as need no second look; return receipts or refusals."""
        if not reports:
            return []
        found = self._plain(reports)
        if found is not None:
            return list(self._record(*found))
        if len(reports) > _FEW:
            half = len(reports) // 2
            return self.tell_many(reports[:half]) + self.tell_many(reports[half:])
        answers = list[Told | LedgerError]()
        for report in reports:
            try:
                answers.append(self.tell(**report))
            except LedgerError as error:
                if self.broken or isinstance(error, errors.StorageError):
                    raise
                answers.append(error)
        return answers

    def _plain(
        self, reports: Sequence[dict[str, Any]]
    ) -> tuple[list[StoredTicket], list[Report]] | None:
        """Reports with their tickets, if each is the first one of an open ticket, and is right."""
        state, tickets = self.state, list[StoredTicket]()
        if state.frozen or len({report["ticket"] for report in reports}) < len(reports):
            return None
        for report in reports:
            known = self.known.get(report["ticket"])
            if known is None or report.keys() - _ARGUMENTS or not report.keys() >= _NEEDED:
                return None
            number, site = known.number, report.get("site")
            if (
                (site is not None and site != known.site)
                or report.get("ended", "whole") not in ENDED
                or known.status != OPEN
                or not state.is_open(number)
                or known.version not in range(1, state.version + 1)
            ):
                return None
            tickets.append(known)
        policies = [state.versions[known.version - 1] for known in tickets]
        found = self.terms.reports(tickets, policies, reports)
        return None if found is None else (tickets, found)

    def _record(self, tickets: list[StoredTicket], reports: list[Report]) -> list[Told]:
        """Write and apply the next events, a report of each of these open tickets."""
        state, time, rows = self.state, self.state.time, list[list[Any]]()
        told = zip(itertools.count(state.seq + 1), tickets, reports, strict=False)
        for seq, known, report in told:
            time = later(self.clock(seq), time)
            rows.append([seq, time, known.site, SITE, "told", report.to_payload(), ""])
        made = events(rows, state.head)
        self.events += made
        self.broken = True
        state.told(made, reports)
        self.broken = False
        self.reports |= {known.number: one.seq for known, one in zip(tickets, made, strict=True)}
        return [
            Told(known.ticket, known.number, one.seq, one.hash)
            for known, one in zip(tickets, made, strict=True)
        ]

    def amend(self, reports: Sequence[dict[str, Any]], reason: str, by: str) -> list[Told]:
        """Correct reports, with one replay for all of them."""
        found = [self._amendment(**one, reason=reason) for one in reports]
        numbers = [known.number for known, _, _ in found]
        if len(set(numbers)) < len(numbers):
            raise LedgerError("a ticket is there twice; each can have one right report")
        answers, new = list[Told](), [one for one in found if one[2] is not None]
        for known, before, payload in found:
            if payload is None:
                answers.append(Told(known.ticket, known.number, *before))
                continue
            more = {"more": True} if payload is not new[-1][2] else {}
            made = self.add(by, OPERATOR, "amended", payload | more)
            answers.append(Told(known.ticket, known.number, made.seq, made.hash))
        return answers

    def _amendment(
        self,
        ticket: str,
        states: Any,
        actions: Any,
        rewards: Any,
        ended: str = "whole",
        propensities: Any = None,
        *,
        reason: str,
    ) -> tuple[StoredTicket, tuple[int, str], dict[str, Any] | None]:
        """The ticket and the event that already has this report, or the payload of an amendment."""
        require_ended(ended)
        if self.done is None:
            self.require_thawed()
        known = self.ticket(ticket)
        if known.status == OPEN:
            raise LedgerError(f"ticket {ticket} is open; report on it with tell")
        report = self.report(known, states, actions, rewards, ended, propensities)
        if self.done is not None and (before := self._told_before(known, report)) is not None:
            return known, before, None
        if (same := self.on_record(known, report)) is not None:
            return known, (same.seq, same.hash), None
        payload = report.to_payload() | {
            "reason": reason,
            "version": known.version,
            "was": known.status,
            "instead": known.report,
        }
        return known, (0, ""), payload

    def dismiss(self, ticket: str, reason: str, by: str, *, unlikely: bool) -> None:
        """Leave the report of a ticket as it is, although its site sent another one.

        unlikely: instead, although something in it is unlikely.
        """
        known = self.ticket(ticket)
        if unlikely:
            if known.report is None or known.status not in (WAITING, LEARNED):
                raise LedgerError(f"ticket {ticket} has no report that counts")
            facts = {"number": known.number, "reason": reason, "unlikely": True}
            self.add(by, OPERATOR, "dismissed", facts)
            return
        sent = self._sent("conflict", known.number)
        answered = self._sent("dismissed", known.number)
        last = max([0, *(one.seq for one in answered if not one.payload.get("unlikely"))])
        other = [
            one for one in sent if self.on_record(known, Report.from_payload(one.payload)) is None
        ]
        if not any(one.seq > last for one in other):
            raise LedgerError(f"no report waits that contradicts the one of ticket {ticket}")
        self.add(by, OPERATOR, "dismissed", {"number": known.number, "reason": reason})

    def _is_new(self, kind: str, number: int, report: Report) -> bool:
        """Whether a report that is not counted, because of another one or too late, is recorded.

        The same report is recorded once, and only the first few of each ticket.
        """
        seen = [Report.from_payload(one.payload) for one in self._sent(kind, number)]
        return len(seen) < _MOST_UNCOUNTED and report not in seen

    def _sent(self, kind: str, number: int) -> list[Event]:
        """The first events of a kind about a ticket, including events of this transaction."""
        stored = [views.event_of(*row) for row in self.store.sent(kind, number, _MOST_UNCOUNTED)]
        mine = [one for one in self.events if one.kind == kind and one.payload["number"] == number]
        return [*stored, *mine]

    def _told_before(self, known: StoredTicket, report: Report) -> tuple[int, str] | None:
        """The event with the same report of a ticket, even if it was amended since."""
        seq = known.report
        while seq is not None:
            one = self._event(seq)
            if Report.from_payload(one.payload) == report:
                return seq, one.hash
            seq = one.payload.get("instead")
        return None

    def on_record(self, known: StoredTicket, report: Report) -> Event | None:
        """The event with the report of a ticket, if it is exactly this report."""
        one = None if known.report is None else self._event(known.report)
        return one if one is not None and Report.from_payload(one.payload) == report else None

    def has_history(self, episodes: dict[str, Any], most: int) -> bool:
        """Whether exactly these episodes were learned as history before."""
        for row in self.store.newest(_MOST_HISTORY, kind="history"):
            one = views.event_of(*row)
            if episodes.items() <= one.payload.items():
                if one.payload["most"] != most:
                    raise errors.ConflictError(
                        f"these episodes are on record (event {one.seq:,}) with"
                        f" most={one.payload['most']}, and count once"
                    )
                return True
        return False

    def _event(self, seq: int) -> Event:
        for one in self.events:
            if one.seq == seq:
                return one
        return views.event_of(*self.store.event(seq))

    # ---- decisions -------------------------------------------------------------------------------

    def decision(
        self,
        proposal: ProposalView | str | None,
        rows: Sequence[tuple[Any, Any]] | None,
        reason: str,
    ) -> dict[str, Any]:
        """The common part of approvals and rejections, after it is checked."""
        self.require_thawed()
        self.require_going_on()
        text("reason", reason)
        pending, chosen = chosen_of(self.state, self.store, proposal, rows)
        now = proposal_hash(pending)
        return {"proposal": now, "base": pending["version"], "rows": chosen, "reason": reason}

    def require_rejection(
        self, rows: list[list[int]], forever: bool, visits: Any, actions: list[int] | None
    ) -> None:
        """Rows of the pending proposal can be rejected in this way."""
        assert self.state.pending is not None
        self.terms.proposals.require_rejection(self.state.pending, rows, forever, visits, actions)

    def require_floor(self, payload: dict[str, Any]) -> None:
        """What an approval would deploy keeps to the floor of the algorithm, if there is one."""
        limits = {name: payload[name] for name in ("part", "share") if name in payload}
        try:
            rows = self.terms.proposals.keys(payload["rows"])
            self.state.learner.require_floor(rows, **limits)
        except ValueError as error:
            raise LedgerError(str(error)) from None

    def make_up_for_late_date(self) -> None:
        """Propose now if a date passed while the proposal that was just decided was pending."""
        date = late_date(self.state)
        if date is not None:
            self.add("ledger", LEDGER, "met", {"date": date})


def require_thawed(state: State, store: Store) -> None:
    """Check that the run is not paused; the error says who paused it, when and why."""
    if state.frozen:
        (stopped,) = store.newest(1, kind="frozen")
        raise errors.FrozenError(views.why_paused(views.event_of(*stopped), state.terms))


def chosen_of(
    state: State,
    store: Store,
    proposal: ProposalView | str | None,
    rows: Sequence[tuple[Any, Any]] | None,
) -> tuple[dict[str, Any], list[list[int]]]:
    """The pending proposal, if it is the one named, and the rows chosen from it."""
    pending = state.pending
    if proposal is None:
        raise LedgerError(no_proposal(state.learner.why_nothing()))
    wanted = proposal.hash if isinstance(proposal, ProposalView) else text("proposal", proposal)
    now = None if pending is None else proposal_hash(pending)
    if pending is None or not is_named(now, wanted):
        raise not_pending(store, wanted, now)
    return pending, state.terms.proposals.chosen(pending, rows)


def text(name: str, value: Any) -> str:
    if not (isinstance(value, str) and value.strip()):
        raise LedgerError(f"{name} must be a text that is not empty, not {value!r}")
    return value


def no_proposal(why: str | None) -> str:
    """The error for a decision on None, which `propose` and `proposal` return for "nothing"."""
    waits = f"nothing waits for a decision: {why}"
    if why is None:
        waits = "one waits for a decision; proposal() gives it"
    return f"there is no proposal to decide on (None): {waits}"


def require_ended(ended: Any) -> None:
    if ended not in ENDED:
        raise LedgerError(f"ended must be one of {', '.join(ENDED)}, not {ended!r}")
