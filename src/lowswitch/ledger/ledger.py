"""Ledger: a learner behind a board. Nothing is lost, and nothing changes without a decision."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count, require_share, require_word
from lowswitch.ledger import errors, views
from lowswitch.ledger.address import printable, store_at
from lowswitch.ledger.dates import why_early, why_refused
from lowswitch.ledger.deciding import Deciding, MovedOnError, planned_first
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.events import (
    GENESIS,
    NEWEST,
    OPERATOR,
    REVIEWER,
    SEMANTICS,
    event,
    read_event,
)
from lowswitch.ledger.feature import Feature
from lowswitch.ledger.requests import Request
from lowswitch.ledger.responses import Issued, ProposalView, Told
from lowswitch.ledger.snapshot import is_worth_it
from lowswitch.ledger.state import MISSING, OPEN, REFUSED
from lowswitch.ledger.store import Store, StoredTicket
from lowswitch.ledger.terms import Terms, declared, read_terms
from lowswitch.ledger.writer import Writer, text

_MOST_RECENT = 100_000  # tickets


class Ledger(Deciding):
    """A run of one learner, stored in a database as the list of all its events.

    Create one with `Ledger.create` and open it with `Ledger.open`. Every method that changes
    something returns only after the change is on the disk. Several threads may share one object.
    Several processes may write to one PostgreSQL database; with a file, let one process write while
    others read. `Reading` has the methods that read.

    Parameters
    ----------
    store
        The database.
    terms
        The declaration of the run.
    read_only
        Whether writing is refused.

    See Also
    --------
    Client : the same methods for a ledger behind a URL.
    """

    def __init__(self, store: Store, terms: Terms, *, read_only: bool = False) -> None:
        super().__init__(store, terms, read_only=read_only)
        self.clock: Callable[[int], str] = _now  # the time of an event, by its number
        self.new_ticket: Callable[[int], str] = _random_ticket  # by its number
        self._hold = True  # whether a transaction is begun before anything is worked out
        self._recent = dict[str, StoredTicket]()  # see `Writer`
        self.most_open: int | None = None  # tickets that a site may have open, in `ask_each`

    # ---- making and opening ----------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        address: str | Path,
        algorithm: Algorithm,
        *,
        horizon: int,
        states: int | Sequence[str] | None = None,
        features: int | Sequence[str | Feature] | None = None,
        actions: int | Sequence[str],
        episodes: int,
        shared: bool = True,
        steps: Sequence[str] | None = None,
        rewards: tuple[float, float] = (0.0, 1.0),
        actions_allowed: Any = None,
        policy: Any = None,
        missing: str = "drop",
        gate: str = "review",
        patience: int | None = None,
        patience_days: float | None = None,
        absorbing: int | str | None = None,
        seed: int = 0,
        thresholds: dict[str, float] | None = None,
        name: str = "",
        words: dict[str, str] | None = None,
        quorum: int = 1,
        forecast: Any = None,
        by: str = "operator",
        clock: Callable[[int], str] | None = None,
        initial: Any = None,  # refused with the way out: a `Learner` calls policy= so
    ) -> Ledger:
        """Create a ledger, in a file or at postgresql://...#name.

        `missing="optimistic"`, `missing="hold"` and `absorbing` need `states`.

        Parameters
        ----------
        address
            The path of a new file, or the address of a PostgreSQL database.
        algorithm
            The algorithm, such as `ls.few(deployments=10)`.
        horizon
            H, the number of steps per episode.
        states
            The number of states, or their labels.
        features
            In place of `states`: a context is d numbers. Give d, their names, or a `Feature` for
            each, with its range and unit; a value outside its range is refused.
        actions
            The number of actions, or their labels.
        episodes
            K, the number of episodes that the learner is set up for.
        shared
            As in `FeatureLearner`.
        steps
            The labels of the steps, by default their numbers.
        rewards
            The smallest and the largest reward of a step.
        actions_allowed
            A mask [H, S, A] of the actions that may ever be deployed.
        policy
            The initial policy, [H, S] or a LinearPolicy.
        missing
            How to treat a report that never comes. "drop" ignores the episode; use it if reports
            are lost regardless of their content. "optimistic" learns the best outcome for the step
            that was not seen. "hold" learns nothing later until the report is settled.
        gate
            "review" makes every change a proposal; "open" deploys changes as the schedule allows.
        patience
            Declare an open ticket missing after `patience` later tickets were issued.
        patience_days
            Declare an open ticket missing after this many days, not counting days before the run
            was last resumed.
        absorbing
            The state in which a terminated episode stays, without reward.
        seed
            The seed of posterior samples and of draws from a mixture.
        thresholds
            When a row of a proposal is called IMPROVE, LIKELY or WORSE; by default {"improve":
            0.05, "likely": 0.8, "worse": 0.2}.
        name
            The name of the run.
        words
            What people call an "episode", "step", "state", "action" and "reward", such as
            {"episode": "patient"}.
        quorum
            How many reviewers must agree before something is approved, forbidden, allowed again,
            rolled back or resumed.
        forecast
            A `Plan`, or lines (episodes, low, middle, high) in the units of the rewards, which the
            console shows beside the results.
        by
            Who creates the ledger.
        clock
            A function that returns the current time, for tests.
        initial
            Refused; the initial policy of a ledger is `policy`.

        Returns
        -------
        Ledger
            The new ledger.

        Raises
        ------
        ValueError
            If a declaration is invalid; the message names the value.

        See Also
        --------
        Ledger.open
        """
        from lowswitch import __version__

        if initial is not None:
            raise LedgerError(
                "give the initial policy of a ledger as policy=, a table of actions [H, S];"
                " initial= is for Learner, simulate and plan"
            )
        terms = declared(
            algorithm,
            {"states": states, "actions_allowed": actions_allowed, "absorbing": absorbing},
            {"features": features, "shared": shared},
            horizon=horizon,
            actions=actions,
            episodes=episodes,
            steps=steps,
            rewards=rewards,
            policy=policy,
            missing=missing,
            gate=gate,
            patience=patience,
            patience_days=patience_days,
            seed=seed,
            thresholds=thresholds,
            name=name,
            words=words,
            quorum=quorum,
            forecast=forecast,
        )
        now = clock or _now
        facts = {
            "format": NEWEST,
            "semantics": SEMANTICS,
            "lowswitch": __version__,
            "terms": terms.to_payload(),
        }
        first = event(1, now(1), text("by", by), OPERATOR, "created", facts, GENESIS)
        made = cls(store_at(address, create=[first]), terms)
        made.clock = now
        return made

    @classmethod
    def open(cls, address: str | Path, *, read_only: bool = False) -> Ledger:
        """Open the ledger at an address.

        Parameters
        ----------
        address
            The path of the file, or the address of a PostgreSQL database.
        read_only
            Open it for reading only. Others may write meanwhile.

        Raises
        ------
        NotALedgerError
            If the address holds no ledger, or one of a newer format.
        """
        store = store_at(address, read_only=read_only)
        try:
            try:
                row = store.event(1)
            except errors.BrokenError:
                raise errors.NotALedgerError(
                    f"{printable(address)!r} holds no event, so it is not a ledger"
                ) from None
            facts = read_event(*row, 1, GENESIS).payload
        except BaseException:
            store.close()
            raise
        if facts["format"] > NEWEST or facts["semantics"] > SEMANTICS:
            store.close()
            raise errors.NotALedgerError(
                f"{printable(address)!r} was written by lowswitch {facts['lowswitch']}, whose"
                " events this version does not know; use that version, or a newer one"
            )
        return cls(store, read_terms(facts["terms"]), read_only=read_only)

    # ---- sites -----------------------------------------------------------------------------------

    def ask(self, site: str, request: str) -> Issued:
        """Issue a ticket to play one episode.

        The same site and request always get the same ticket.

        Parameters
        ----------
        site
            The name of the site.
        request
            The site's own name for the episode, such as a patient number.

        Returns
        -------
        Issued
            The ticket, with the policy to follow.

        Raises
        ------
        FrozenError
            If the run is paused.
        EndedError
            If the run has ended.
        """
        return self.ask_many(site, [request])[0]

    def ask_many(self, site: str, requests: Sequence[str]) -> list[Issued]:
        """Issue a ticket for each of these requests, in one transaction.

        Parameters
        ----------
        site
            The name of the site.
        requests
            The site's own names for the episodes.
        """
        text("site", site)
        for request in requests:
            text("request", request)
        if len(set(requests)) < len(requests):
            raise LedgerError("every request needs a name of its own")
        with self._writing() as writer:
            found = [self.store.request(site, request) for request in requests]
            tickets = [
                known or writer.ask(site, request)
                for known, request in zip(found, requests, strict=True)
            ]
            state = writer.state
        return [views.issued(ticket, state) for ticket in tickets]

    def ask_each(
        self, pairs: Sequence[tuple[str, str]], *, whole: bool = True
    ) -> list[Issued | LedgerError]:
        """Issue a ticket for each (site, request) in one transaction, or return why it is refused.

        Parameters
        ----------
        pairs
            Pairs of a site and a request.
        whole
            Whether the tickets include their policies.
        """
        found = list[StoredTicket | LedgerError]()
        with self._writing() as writer:
            tickets: dict[tuple[str, str], StoredTicket] = {}
            for site, request in pairs:
                try:
                    key = text("site", site), text("request", request)
                    known = tickets.get(key) or self.store.request(*key)
                    tickets[key] = known or writer.ask(*key, most_open=self.most_open)
                    found.append(tickets[key])
                except LedgerError as error:
                    if writer.broken or isinstance(error, errors.StorageError):
                        raise
                    found.append(error)
            state = writer.state
        return [
            one if isinstance(one, LedgerError) else views.issued(one, state, whole=whole)
            for one in found
        ]

    def tell(
        self,
        ticket: str,
        states: Sequence[Any],
        actions: Sequence[Any] | None,
        rewards: Sequence[Any],
        *,
        ended: str = "whole",
        site: str | None = None,
        propensities: Any = None,
    ) -> Told:
        """Report the outcome of a ticket; the same report again gets the same answer.

        States and actions are labels (text) or positions (whole numbers from 0 on). A number that
        is also the label of another position is refused.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        states
            One state per step. With features, the vectors of the steps, as in `Learner.tell`; in a
            one-step run, a vector, an action and a reward may come without lists.
        actions
            One action per step. If this is None, the actions of the ticket's policy are filled in.
        rewards
            One reward per step, in the run's units.
        ended
            "whole"; "truncated" if the end was not observed; "terminated" if the episode ended
            early in the absorbing state.
        site
            Refuse the report if the ticket belongs to another site.
        propensities
            With features, the probability of each action if another policy chose it. By default it
            is the probability under the ticket's policy.

        Returns
        -------
        Told
            The receipt, with the number of the event.

        Raises
        ------
        UnknownTicketError
            If no such ticket was issued.
        ConflictError
            If a different report of this ticket is on record.
        ExpiredError
            If the ticket was declared missing before.
        """
        answer = self.tell_many(
            [
                {
                    "ticket": ticket,
                    "states": states,
                    "actions": actions,
                    "rewards": rewards,
                    "ended": ended,
                    "site": site,
                    "propensities": propensities,
                }
            ]
        )[0]
        if isinstance(answer, LedgerError):
            raise answer
        return answer

    @planned_first
    def tell_many(self, reports: Sequence[dict[str, Any]]) -> list[Told | LedgerError]:
        """Report on many tickets in one transaction.

        Parameters
        ----------
        reports
            For each ticket, the arguments of `tell` by name.

        Returns
        -------
        list
            For each report its receipt, or the error that refused it.
        """
        with self._writing() as writer:
            writer.fetch([report["ticket"] for report in reports])
            return writer.tell_many(reports)

    # ---- operators -------------------------------------------------------------------------------

    @planned_first
    def missing(
        self,
        ticket: str,
        reason: str,
        *,
        by: str,
        states: Sequence[Any] = (),
        actions: Sequence[Any] = (),
        rewards: Sequence[Any] = (),
        request: str | None = None,
    ) -> None:
        """Declare that no report will come.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        reason
            The reason, for the record.
        by
            Who declares it.
        states, actions, rewards
            The steps that were observed before the rest was lost.
        request
            Your own name for this command. Sent again under the same name, it is carried out once;
            this holds for every command of operators and reviewers.
        """
        text("reason", reason)
        asked = {"ticket": ticket, "reason": reason, "seen": [states, actions, rewards]}
        with self._writing(self._named("missing", by, request, asked)) as writer:
            if writer.done is None:
                writer.missing(ticket, (states, actions, rewards), reason, by)

    def missing_many(
        self,
        tickets: Sequence[str],
        reason: str,
        *,
        by: str,
        still_open: bool = False,
        request: str | None = None,
    ) -> list[str]:
        """Declare that no report will come for any of these tickets, in one transaction.

        Parameters
        ----------
        tickets
            The tickets, or their names.
        reason
            The reason, for the record.
        by
            Who declares it.
        still_open
            Leave out tickets that are not open any more, for example because their reports came
            meanwhile. By default one such ticket refuses all.
        request
            Your own name for this command; see `missing`.

        Returns
        -------
        list of str
            The tickets that were left out.
        """
        text("reason", reason)
        if not tickets:
            raise LedgerError("no ticket is selected; select those whose reports will never come")
        asked = {"tickets": list(tickets), "reason": reason}
        with self._writing(self._named("missing", by, request, asked)) as writer:
            writer.fetch(tickets)
            state = {one: writer.ticket(one).status for one in dict.fromkeys(tickets)}
            wanted = (OPEN,) if writer.done is None else (MISSING, REFUSED)
            left_out = [one for one, status in state.items() if status not in wanted]
            if not still_open or len(left_out) == len(state):
                left_out = []
            for ticket in state if writer.done is None else ():
                if ticket not in left_out:
                    writer.missing(ticket, ((), (), ()), reason, by)
        return left_out

    @planned_first
    def amend(
        self,
        ticket: str,
        states: Sequence[Any],
        actions: Sequence[Any] | None,
        rewards: Sequence[Any],
        *,
        by: str,
        reason: str,
        ended: str = "whole",
        propensities: Any = None,
        request: str | None = None,
    ) -> Told:
        """Correct the report of a ticket, or enter one that came too late.

        The learner becomes what it would be if the right report had come first, which takes a
        replay. Past decisions stay. A report that is already on record changes nothing.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        states, actions, rewards, ended, propensities
            The right report, as in `tell`.
        by
            Who corrects it.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `missing`.
        """
        asked = {"ticket": ticket, "reason": reason, "report": [states, actions, rewards, ended]}
        asked |= {} if propensities is None else {"propensities": propensities}
        one = {"ticket": ticket, "states": states, "actions": actions, "rewards": rewards}
        one |= {"ended": ended, "propensities": propensities}
        with self._writing(self._named("amended", by, request, asked)) as writer:
            return writer.amend([one], text("reason", reason), by)[0]

    @planned_first
    def amend_many(
        self,
        reports: Sequence[dict[str, Any]],
        *,
        by: str,
        reason: str,
        request: str | None = None,
    ) -> list[Told]:
        """Correct many reports in one transaction: all of them, or none if one is refused.

        Together they take one replay and lead to at most one proposal.

        Parameters
        ----------
        reports
            For each ticket, the arguments of `tell` by name.
        by
            Who corrects them.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `missing`.
        """
        asked = {"reports": list(reports), "reason": reason}
        with self._writing(self._named("amended", by, request, asked)) as writer:
            writer.fetch([report["ticket"] for report in reports])
            return writer.amend(reports, text("reason", reason), by)

    def dismiss(
        self,
        ticket: str,
        reason: str,
        *,
        by: str,
        unlikely: bool = False,
        request: str | None = None,
    ) -> None:
        """Leave the report of a ticket as it is, although its site sent a contradicting one.

        The other report stays on record. If the site sends yet another one, that waits again. With
        `unlikely`, record instead that a report is right although a server listed it as unlikely.
        """
        asked: dict[str, Any] = {"ticket": ticket, "reason": text("reason", reason)}
        if unlikely:
            asked["unlikely"] = True
        with self._writing(self._named("dismissed", by, request, asked)) as writer:
            if writer.done is None:
                writer.dismiss(ticket, reason, by, unlikely=unlikely)

    @planned_first
    def propose(
        self,
        *,
        by: str,
        early: bool = False,
        held: bool = False,
        reason: str | None = None,
        request: str | None = None,
        role: str = OPERATOR,
    ) -> ProposalView | None:
        """Ask the learner for a proposal now, for example because the board meets.

        A learner with scheduled dates proposes by itself on them. If its budget has no proposal to
        spare before the next date, the request is refused unless `early` is set.

        If nothing was reported, corrected or decided since the pending proposal was made, this
        returns the pending one and records nothing. Otherwise the learner proposes anew, and draws
        the alternatives of a trial anew. Rows that were postponed or rolled back stay out of it
        until their hold ends; `holds()` says when.

        Parameters
        ----------
        by
            Who asks.
        early
            Propose even if a later date then goes without a proposal. This is recorded.
        held
            End all holds first, so that postponed and rolled-back rows can be proposed again. This
            is recorded, with how many holds it ended.
        reason
            The reason, for the record. The console requires one with `held`.
        request
            Your own name for this command; see `missing`.
        role
            "operator" or "reviewer", for the record.

        Returns
        -------
        ProposalView or None
            The proposal. None if there is nothing to change; `status().nothing_because` says why.
        """
        require_word("role", role, (OPERATOR, REVIEWER))
        asked = {"early": early} | ({"held": True} if held else {})
        why_asked = {} if reason is None else {"reason": text("reason", reason)}
        with self._writing(self._named("met", by, request, asked | why_asked)) as writer:
            if writer.done is None:
                writer.require_thawed()
                writer.require_going_on()
                if (why := why_refused(writer.state, early=early)) is not None:
                    raise LedgerError(why)
                ends = {"held": True, "holds": len(self.holds())} if held and self.holds() else {}
                if self.is_current() and not ends:
                    return self.proposal()
                payload = {"early": True} if why_early(writer.state) is not None else {}
                writer.add(by, role, "met", payload | ends | why_asked)
        return self.proposal()

    def freeze(
        self, *, by: str, reason: str, request: str | None = None, role: str = OPERATOR
    ) -> None:
        """Pause the run: no tickets, no learning and no decisions until `thaw`.

        Parameters
        ----------
        by
            Who pauses it.
        reason
            The reason, shown to everybody who is refused.
        request
            Your own name for this command; see `missing`.
        role
            "operator" or "reviewer", for the record; either can pause the run alone.
        """
        with self._writing(self._named("frozen", by, request, {"reason": reason})) as writer:
            if writer.done is not None:
                return
            writer.require_going_on()
            if writer.state.frozen:
                raise LedgerError("the run is paused already")
            writer.add(by, _stopping(role), "frozen", {"reason": text("reason", reason)})

    def extend(self, more: int, *, by: str, reason: str, request: str | None = None) -> None:
        """Allow more tickets than were declared.

        They follow the deployed policy. Their reports are recorded but not learned from, because
        bonus, schedule and budget were computed for the declared number.

        Parameters
        ----------
        more
            How many additional tickets.
        by
            Who extends the run.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `missing`.
        """
        payload = {"more": require_count("more", more), "reason": text("reason", reason)}
        with self._writing(self._named("extended", by, request, payload)) as writer:
            if writer.done is None:
                writer.require_going_on()
                writer.add(text("by", by), OPERATOR, "extended", payload)

    @planned_first
    def end(self, *, by: str, reason: str, request: str | None = None) -> None:
        """End the run permanently: no more tickets, proposals or decisions.

        Open tickets can still be reported, declared missing or amended.

        Parameters
        ----------
        by
            Who ends it.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `missing`.
        """
        payload = {"reason": text("reason", reason)}
        with self._writing(self._named("ended", by, request, payload)) as writer:
            if writer.done is None:
                writer.require_thawed()
                writer.require_going_on()
                writer.add(text("by", by), OPERATOR, "ended", payload)

    @planned_first
    def cap_trial(
        self,
        share: float,
        *,
        by: str,
        reason: str,
        request: str | None = None,
        role: str = OPERATOR,
    ) -> int:
        """Let at most this share of the cases enter the trial from now on; return the version.

        This is allowed at any time, even if the budget is spent. A pending proposal is withdrawn
        and made again.

        Parameters
        ----------
        share
            The largest share; 0 ends the trial.
        by
            Who limits it.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `missing`.
        role
            "operator" or "reviewer", for the record.
        """
        text("reason", reason)
        asked = {"share": share, "reason": reason}
        with self._writing(self._named("capped", by, request, asked)) as writer:
            if writer.done is not None:
                return int(writer.done.payload["version"])
            state = writer.state
            if self.terms.gate != "review":
                raise LedgerError(
                    "this ledger has an open gate; only one in review has its trial capped"
                )
            now = self.terms.share(state.versions[-1])
            if now is None or require_share("share", share, "it is a share of the cases") >= now:
                smaller = "there is no trial" if now is None else f"it is {now:.3g} now"
                raise LedgerError(
                    f"the share of the trial can only become smaller, and {smaller}; leave it as it"
                    " is, or stop the run with freeze"
                )
            payload = {"share": float(share), "version": state.version + 1, "reason": reason}
            writer.add(by, _stopping(role), "capped", payload)
            return state.version

    @planned_first
    def add_history(
        self,
        states: Sequence[Sequence[Any]],
        actions: Sequence[Sequence[Any]],
        rewards: Sequence[Sequence[Any]],
        *,
        source: str,
        most: int,
        by: str,
        attested: str,
    ) -> ProposalView | None:
        """Learn complete episodes of the old protocol, before the first ticket.

        The old protocol must have chosen actions by the state alone, which `by` attests. The same
        episodes are not learned twice.

        Parameters
        ----------
        states, actions, rewards
            The episodes, [B, H] each, as labels or positions.
        source
            Where the data come from, for the record.
        most
            How many visits of each (step, state, action) count at most.
        by
            Who adds them.
        attested
            The attestation, in words.

        Returns
        -------
        ProposalView or None
            The first proposal. None if the budget has no proposal to spare before the first date.
        """
        with self._writing() as writer:
            episodes = self.terms.history(states, actions, rewards)
            if writer.has_history(episodes, require_count("most", most)):
                return self.proposal()
            if writer.state.issued or self.terms.gate != "review":
                raise LedgerError(
                    "history comes before the first ticket, and needs a gate in review"
                )
            payload = episodes | {
                "source": text("source", source),
                "most": most,
                "attested": text("attested", attested),
            }
            if why_early(writer.state) is not None:
                payload["propose"] = False
            writer.add(text("by", by), OPERATOR, "history", payload)
        return self.proposal()

    # ---- writing ---------------------------------------------------------------------------------

    def save_snapshot(self) -> None:
        """Store the state, so that the ledger opens quickly. This also happens automatically.

        An event records the snapshot's hash; without that event the snapshot is not used.
        """
        with self._writing() as writer:
            self.store.add_snapshot(writer.bind_snapshot())

    def close(self) -> None:
        """Close the database, after a snapshot if opening would be slow without one."""
        with self._lock:
            state = self._state
            if not self.read_only and state is not None and is_worth_it(state):
                with suppress(LedgerError):  # if there is room: nothing needs it
                    self.save_snapshot()
            super().close()

    @contextmanager
    def _writing(self, request: Request | None = None) -> Iterator[Writer]:
        """One transaction: the given events, and the events that follow from them."""
        if self.read_only:
            raise errors.ReadOnlyError(
                "this ledger was opened for reading; open it without read_only"
            )
        with self._lock:
            held = self._hold
            writer: Writer | None = None
            try:
                with self.store.transaction() if held else nullcontext():
                    made = self._catch_up(), self._corrections, self.clock, self.new_ticket
                    writer = Writer(self.store, *made, request, recent=self._recent)
                    base = writer.state.seq, writer.state.head
                    yield writer
                    writer.follow()
                    if held:
                        writer.store_all()
                if not held:
                    self._commit(writer, base)
                self.store.seen = writer.state.seq, writer.state.head
            except BaseException:
                if writer is None or writer.events:
                    self._state = None  # what was applied is not on record
                raise
            if len(self._recent) > _MOST_RECENT:
                self._recent.clear()
            self._recent.update((ticket.ticket, ticket) for ticket in writer.issued.values())
            if writer.snapshot is not None:
                with suppress(errors.StorageError), self.store.transaction():
                    self.store.add_snapshot(writer.snapshot)  # if there is room: nothing needs it

    def _commit(self, writer: Writer, base: tuple[int, str]) -> None:
        """Store the result computed before the transaction, unless others have written since."""
        if writer.events:
            with self.store.transaction():
                if self.store.head() != base:
                    raise MovedOnError
                writer.store_all()


def _stopping(role: str) -> str:
    """The role of the person who stops something."""
    if role not in (REVIEWER, OPERATOR):
        raise LedgerError(f"role must be {REVIEWER!r} or {OPERATOR!r}, not {role!r}")
    return role


def _now(seq: int) -> str:
    """The time in the form of `datetime.isoformat`, which takes seven times as long."""
    second, micros = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{_second(second)}.{micros:06}+00:00"


@functools.lru_cache(maxsize=1)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[: len("2026-01-01T00:00:00")]


def _random_ticket(number: int) -> str:
    return secrets.token_hex(16)
