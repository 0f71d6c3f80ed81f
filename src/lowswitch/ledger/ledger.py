"""Ledger: a learner behind a board. Nothing is lost, and nothing changes without a decision."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count, require_share
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
from lowswitch.ledger.store import Store, StoredTicket
from lowswitch.ledger.terms import Terms, declared, read_terms
from lowswitch.ledger.writer import Writer, text


class Ledger(Deciding):
    """A run of one learner, kept in a database as the list of everything that happened.

    Make one with `Ledger.create`, and open it with `Ledger.open`. Every method that changes
    something returns only when that is on the disk. Several threads may use one object. Several
    processes may write to one PostgreSQL; to a file, let one process write while others read. What
    can be read of it is in `Reading`, and what happens within one transaction in `Writer`.
    """

    def __init__(self, store: Store, terms: Terms, *, read_only: bool = False) -> None:
        super().__init__(store, terms, read_only=read_only)
        self.clock: Callable[[int], str] = _now  # the time of an event, by its number
        self.new_ticket: Callable[[int], str] = _random_ticket  # by its number
        self._hold = True  # whether a transaction is begun before anything is worked out
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
        """A new ledger, in a file or at postgresql://...#name.

        states, actions, steps: how many there are, or their labels. In the place of states,
        features=d says that a context is d numbers: as many as there are, their names, or a
        `Feature` each, with range and unit; a value outside of its range is refused. See
        `FeatureLearner` for `shared`. rewards: their range. policy: what is deployed first, [H, S],
        or a LinearPolicy. missing: what a report that never comes means. "drop" is for reports that
        are lost whatever they would have said, "optimistic" learns the best from the step that was
        not seen, and "hold" learns nothing that came later until it is settled. patience: an open
        ticket is declared missing when so many later ones were issued. patience_days: and when it
        is so many days old, not counting days before the run was last resumed. absorbing: the state
        in which an episode that was terminated stays, unpaid. "optimistic", "hold" and absorbing
        need states. thresholds: when a row of a proposal is called IMPROVE, LIKELY or WORSE; by
        default {"improve": 0.05, "likely": 0.8, "worse": 0.2}. actions_allowed: a mask [H, S, A]
        of the actions that may ever be deployed. name, words: what people call the run, and its
        "episode", "step", "state", "action" and "reward", such as {"episode": "patient"}. quorum:
        how many reviewers must agree before something is approved, forbidden, allowed again, rolled
        back or resumed. forecast: a `Plan`, or lines (episodes, low, middle, high) in the units of
        the rewards, which the console shows beside what happens.
        """
        from lowswitch import __version__

        if initial is not None:
            raise LedgerError(
                "what a ledger deploys first is given as policy=, a table of actions [H, S]; it is"
                " initial= of a Learner, of simulate and of plan"
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
        """The ledger at an address; one that is only read may be written by others meanwhile."""
        store = store_at(address, read_only=read_only)
        try:
            try:
                row = store.event(1)
            except errors.BrokenError:
                raise errors.NotALedgerError(
                    f"{printable(address)!r} holds no event; it is no ledger"
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
        """A ticket to play one episode; the same site and request always get the same one."""
        return self.ask_many(site, [request])[0]

    def ask_many(self, site: str, requests: Sequence[str]) -> list[Issued]:
        """A ticket for each of these requests, in one transaction."""
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
        """A ticket for each (site, request) in one transaction, or why it is refused.

        whole: with their policies.
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
        """Report what came of a ticket; the same report again gets the same answer.

        With features, the states are the vectors of each step, as `Learner.tell` takes them; of one
        step, a vector, an action and a reward may come without lists around them. The propensity of
        each action is recorded with it: by the ticket's policy, unless propensities= says how
        probable the actions were by another policy that chose them.

        States and actions are labels, which are text, or positions, which are whole numbers from 0
        on. A number that is also the label of another position is refused. Actions that are None
        are those of the policy that the ticket was issued with. ended: "whole"; "truncated", if it
        was not seen to its end; or "terminated", if it ended early in the absorbing state. site:
        refuse a ticket of another one.
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
        """Report on many tickets in one transaction: for each the answer, or why it is refused.

        A report is the arguments of `tell` by their names.
        """
        answers: list[Told | LedgerError] = []
        with self._writing() as writer:
            writer.fetch([report["ticket"] for report in reports])
            for report in reports:
                try:
                    answers.append(writer.tell(**report))
                except LedgerError as error:
                    if writer.broken or isinstance(error, errors.StorageError):
                        raise
                    answers.append(error)
        return answers

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
        """Declare that no report will come; what was seen before it was lost may be given.

        request: a name of your own for this. Sent again under its name, it is done once: so it is
        with everything that operators and reviewers do.
        """
        text("reason", reason)
        asked = {"ticket": ticket, "reason": reason, "seen": [states, actions, rewards]}
        with self._writing(self._named("missing", by, request, asked)) as writer:
            if writer.done is None:
                writer.missing(ticket, (states, actions, rewards), reason, by)

    def missing_many(
        self, tickets: Sequence[str], reason: str, *, by: str, request: str | None = None
    ) -> None:
        """Declare that no report will come for any of these tickets, in one transaction."""
        text("reason", reason)
        if not tickets:
            raise LedgerError("no ticket is selected; select those whose reports will never come")
        asked = {"tickets": list(tickets), "reason": reason}
        with self._writing(self._named("missing", by, request, asked)) as writer:
            if writer.done is None:
                writer.fetch(tickets)
                for ticket in dict.fromkeys(tickets):
                    writer.missing(ticket, ((), (), ()), reason, by)

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

        What was learned becomes what it would be with the right report from the start, which takes
        a replay. What was decided stays decided. A report that is on record as it is changes
        nothing.
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

        A report is the arguments of `tell` by their names. All of them together take one replay,
        and lead to at most one proposal.
        """
        asked = {"reports": list(reports), "reason": reason}
        with self._writing(self._named("amended", by, request, asked)) as writer:
            writer.fetch([report["ticket"] for report in reports])
            return writer.amend(reports, text("reason", reason), by)

    def dismiss(self, ticket: str, reason: str, *, by: str, request: str | None = None) -> None:
        """Leave the report of a ticket as it is, although its site sent a contradicting one.

        The other report stays on record. If the site sends yet another one, that waits again.
        """
        asked = {"ticket": ticket, "reason": text("reason", reason)}
        with self._writing(self._named("dismissed", by, request, asked)) as writer:
            if writer.done is None:
                writer.dismiss(ticket, reason, by)

    @planned_first
    def propose(
        self, *, by: str, early: bool = False, request: str | None = None
    ) -> ProposalView | None:
        """Let the learner propose what it would change now, for a board that meets.

        None if that is nothing; `status().nothing_because` says why. A learner with dates to come
        proposes by itself on these. Where its budget has none to spare for a proposal before them,
        that is refused. early: let it propose all the same, which is on record.
        """
        with self._writing(self._named("met", by, request, {"early": early})) as writer:
            if writer.done is None:
                writer.require_thawed()
                writer.require_going_on()
                if (why := why_refused(writer.state, early=early)) is not None:
                    raise LedgerError(why)
                payload = {"early": True} if why_early(writer.state) is not None else {}
                writer.add(by, OPERATOR, "met", payload)
        return self.proposal()

    def freeze(
        self, *, by: str, reason: str, request: str | None = None, role: str = OPERATOR
    ) -> None:
        """Stop the run: no ticket is issued, nothing is learned or decided until `thaw`.

        role: "operator" or "reviewer", as it is recorded; either can stop the run alone.
        """
        with self._writing(self._named("frozen", by, request, {"reason": reason})) as writer:
            if writer.done is not None:
                return
            writer.require_going_on()
            if writer.state.frozen:
                raise LedgerError("the run is paused already")
            writer.add(by, _stopping(role), "frozen", {"reason": text("reason", reason)})

    def extend(self, more: int, *, by: str, reason: str, request: str | None = None) -> None:
        """Let more tickets be issued than were declared.

        They follow the deployed policy, and their reports are on record. They are not learned from:
        bonus, schedule and budget of the learner were worked out for the declared number.
        """
        payload = {"more": require_count("more", more), "reason": text("reason", reason)}
        with self._writing(self._named("extended", by, request, payload)) as writer:
            if writer.done is None:
                writer.require_going_on()
                writer.add(text("by", by), OPERATOR, "extended", payload)

    @planned_first
    def end(self, *, by: str, reason: str, request: str | None = None) -> None:
        """End the run for good: no more tickets, proposals and decisions.

        What is open can still be told, declared missing or amended.
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

        It is allowed at any time, also with the budget spent. 0 ends the trial. A pending proposal
        is withdrawn and made again. role: see `freeze`.
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
        """Learn whole episodes that the old protocol played, before the first ticket.

        They must come from a policy that looked at the state alone, which `by` attests in words.
        most: how many visits of each (step, state, action) count. Return the first proposal, or
        None: where the budget has none to spare for one before the first date, it comes then. The
        same episodes again are not learned twice.
        """
        with self._writing() as writer:
            episodes = self.terms.history(states, actions, rewards)
            if writer.has_history(episodes, require_count("most", most)):
                return self.proposal()
            if writer.state.issued or self.terms.gate != "review":
                raise LedgerError(
                    "history comes before the first ticket, and behind a gate in review"
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
        """Keep the state, so that opening is fast; this happens by itself now and then.

        An event says its hash, without which it is not used.
        """
        with self._writing() as writer:
            self.store.add_snapshot(writer.bind_snapshot())

    def close(self) -> None:
        """Let go of the database, after a snapshot if opening would take a while without it."""
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
                    writer = Writer(self.store, *made, request)
                    base = writer.state.seq, writer.state.head
                    yield writer
                    writer.follow()
                    if held:
                        writer.store_all()
                if not held:
                    self._commit(writer, base)
            except BaseException:
                if writer is None or writer.events:
                    self._state = None  # what was applied is not on record
                raise
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
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _random_ticket(number: int) -> str:
    return secrets.token_hex(16)
