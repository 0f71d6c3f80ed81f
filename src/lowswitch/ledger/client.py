"""The client of a served ledger, for a site or for anybody with a token.

It has the ledger's own methods. With a spool it also bridges the time in which the server is away:
reports wait on this disk, and episodes follow the last policy that came, until that is too old, and
then the fallback.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.ledger.connection import Connection, error_of, why_no_text
from lowswitch.ledger.errors import (
    AccessError,
    ConflictError,
    FrozenError,
    LedgerError,
    QuotaError,
    ReportWarning,
    TokenExpiredError,
    TokenWarning,
    UnreachableError,
)
from lowswitch.ledger.remote import Remote, plain
from lowswitch.ledger.responses import Issued, Told, issued_of
from lowswitch.ledger.spool import Spool, Waiting
from lowswitch.policy.choice import Choice
from lowswitch.policy.linear import LinearPolicy

_AT_ONCE = 64  # reports that are sent in one request
_LATER = "later:"  # begins the name of a ticket that is still to be asked for
_LATER_ON = (FrozenError, UnreachableError, TokenExpiredError)  # answers that condemn no report
_AWAY = (UnreachableError, TokenExpiredError)  # while which a site with a spool goes on
_WARN_EVERY = 24 * 3600.0  # seconds
FALLBACK = 0  # the version of the fallback policy
_GIVE_ACTIONS = (
    "this episode was played without a ticket; give the actions that were played, and with features"
    " their propensities, as act says them"
)


@dataclass(frozen=True)
class Spooled:
    """A report that waits on this disk until the server is back."""

    ticket: str


@dataclass(frozen=True)
class Played:
    """The result of `Client.play`."""

    episodes: int
    told: int  # acknowledged by the server when they ended
    spooled: int  # waiting on this disk when they ended
    total: float  # of all rewards


class Client(Remote):
    """A ledger behind a URL. The token says who you are, so no method takes `by`.

    One process uses a spool at a time; several threads may share one client. While a token is
    expired, a client with a spool continues as if the server were away. A `TokenWarning` comes once
    a day, from 14 days before the expiry on.

    Parameters
    ----------
    url
        The address of the service.
    token
        The token.
    spool
        A local file for reports that cannot be sent and for the last policy. Without it, every call
        raises `UnreachableError` while the server is away.
    most_age
        For how many seconds the last policy may be followed without contact.
    fallback
        The policy [H, S] after that, by default the initial policy.
    timeout
        How many seconds to wait for an answer.

    See Also
    --------
    Ledger
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        spool: str | Path | None = None,
        most_age: float = 24 * 3600.0,
        fallback: Any = None,
        timeout: float = 10.0,
    ) -> None:
        super().__init__(Connection(url.rstrip("/"), token, timeout))
        self._spool = None if spool is None else Spool(spool)
        self._fallback = None if fallback is None else _plain_policy(fallback)
        self._retry_at, self._pause = 0.0, 0.0
        self._knows_terms = False  # whether they are in the spool
        self._declared: dict[str, Any] = {}
        self._warned = -math.inf  # when
        self.trouble: str | None = None  # why the server or the token does not work, in words
        self.most_age = float(most_age)
        self.clock: Callable[[], float] = time.time

    def close(self) -> None:
        """Close the connection and the spool. Waiting reports are sent by the next client that uses
        it.
        """
        with self._lock:
            self._connection.close()
            if self._spool is not None:
                self._spool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- sites -----------------------------------------------------------------------------------

    def ask(self, request: str) -> Issued:
        """A ticket to play one episode; the same request always gets the same ticket.

        While the server is away, the ticket is a promise: its name begins with "later:", and its
        policy is the last one received, or the fallback, which has version 0.

        Parameters
        ----------
        request
            Your own name for the episode.
        """
        return self.ask_many([request])[0]

    def ask_many(self, requests: Sequence[str]) -> list[Issued]:
        """A ticket for each of these requests.

        Parameters
        ----------
        requests
            Your own names for the episodes.
        """
        for request in requests:
            if (why := why_no_text("request", request)) is not None:
                raise LedgerError(why)  # also while the server is away and cannot say so
        with self._lock:
            try:
                if self._spool is not None:
                    self._require_try()
                    if self._spool.promised():
                        self.flush()  # what was played before comes before
                found = [
                    one
                    for first in range(0, len(requests), _AT_ONCE)
                    for one in self._ask(requests[first : first + _AT_ONCE])
                ]
            except _AWAY as error:
                if self._spool is None:
                    raise
                self._away(error)
                return [self._promised(request) for request in requests]
            self._remember(found)
            return found

    def _ask(self, requests: Sequence[str]) -> list[Issued]:
        """The tickets of these requests, or the first error among the answers."""
        found = list[Issued]()
        for answer in self._answers(requests):
            if isinstance(answer, LedgerError):
                raise answer
            found.append(answer)
        return found

    def _answers(self, requests: Sequence[str]) -> list[Issued | LedgerError]:
        """Send requests. An unreadable request is refused alone, the others are answered."""
        try:
            answers = self._posted("/api/ask", requests=list(requests))
        except (AccessError, UnreachableError):
            raise
        except LedgerError as error:
            self._back()
            if len(requests) == 1:
                return [error]
            return [answer for request in requests for answer in self._answers([request])]
        self._back()
        return [
            error_of(one["error"], one["says"]) if "error" in one else self._issued(one)
            for one in answers
        ]

    def _posted(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """The answers to several requests or reports; if no answer came, `trouble` says why."""
        try:
            answers: list[dict[str, Any]] = self._connection.post(path, **body)["answers"]
        except (AccessError, UnreachableError) as error:
            self.trouble = str(error)
            raise
        return answers

    def _issued(self, facts: dict[str, Any]) -> Issued:
        """A ticket. A policy that is too large to come with it is fetched once."""
        if facts["policy"] is None:
            has_rows = "states" in self._known_terms()
            member = facts["member"] if has_rows else None
            facts["policy"] = self._table(facts["version"], member)
        return issued_of(facts)

    def _known_terms(self) -> dict[str, Any]:
        """The declaration of the run, which never changes."""
        if not self._declared:
            self._declared = self.terms()
        return self._declared

    def act(self, ticket: str, context: Any, *, step: Any = 0) -> Choice:
        """The action of a ticket in a context and its propensity, computed by the server.

        A ticket that `ask` returned has its own method `act`, which needs no server.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        context
            The features of the case.
        step
            The step, from 0.
        """
        vector = np.asarray(context).tolist()
        found = self._post("/api/act", ticket=ticket, context=vector, step=step)
        labels = self._known_terms()["labels"]["action"]
        return Choice(labels.index(found["action"]), found["propensity"])

    def tell(
        self,
        ticket: str,
        states: Sequence[Any],
        actions: Sequence[Any] | None,
        rewards: Sequence[Any],
        *,
        ended: str = "whole",
        propensities: Any = None,
    ) -> Told | Spooled:
        """Report the outcome of a ticket. It is on a disk, there or here, when this returns.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        states, actions, rewards, ended
            As in `Ledger.tell`.
        propensities
            With features, the probability of each action; needed if the actions were chosen while
            the server was away.

        Raises
        ------
        ConflictError
            If another report of the ticket still waits here. The first one is kept, as on the
            server.
        """
        report = {"ticket": ticket, "states": states, "actions": actions, "rewards": rewards}
        report |= {} if propensities is None else {"propensities": propensities}
        answer = self.tell_many([report | {"ended": ended}])[0]
        if isinstance(answer, LedgerError):
            raise answer
        return answer

    def tell_many(self, reports: Sequence[dict[str, Any]]) -> list[Told | Spooled | LedgerError]:
        """Report on many tickets.

        The report of an episode without a ticket must contain its actions.

        Parameters
        ----------
        reports
            For each ticket, the arguments of `tell` by name.

        Returns
        -------
        list
            For each report its receipt, or the error that refused it.
        """
        given = [plain(report) for report in reports]
        answers = iter(self._tell([report for report in given if not _lacks_actions(report)]))
        return [
            LedgerError(_GIVE_ACTIONS) if _lacks_actions(report) else next(answers)
            for report in given
        ]

    def _tell(self, reports: list[dict[str, Any]], **facts: Any) -> list[Any]:
        with self._lock:
            if self._spool is None:
                return [
                    answer
                    for first in range(0, len(reports), _AT_ONCE)
                    for answer in self._send(reports[first : first + _AT_ONCE])
                ]
            found = self._keep_and_send(self._spool, reports, **facts)
            others = [report for report, one in zip(reports, found, strict=True) if one is None]
            # by now the server may have the reports that stood against them, and judges itself
            judged = iter(self._keep_and_send(self._spool, others) if others else ())
            found = [next(judged) if one is None else one for one in found]
            return [
                _conflict(report["ticket"]) if one is None else one
                for report, one in zip(reports, found, strict=True)
            ]

    def _keep_and_send(
        self, spool: Spool, reports: list[dict[str, Any]], **facts: Any
    ) -> list[Told | Spooled | LedgerError | None]:
        """Put reports into the spool and send everything that waits.

        The result is None for a report that is not stored because another report of its ticket
        waits.
        """
        numbers = spool.add(reports, **facts)
        answers: dict[int, Told | LedgerError] = {}
        try:
            self._require_try()
            answers = self.flush()
        except _LATER_ON as error:
            self._away(error)
        except AccessError:
            if None not in numbers:  # else a report that is not kept must be told of first
                raise
        return [
            None if number is None else answers.get(number, Spooled(report["ticket"]))
            for number, report in zip(numbers, reports, strict=True)
        ]

    def _send(self, reports: Sequence[dict[str, Any]]) -> list[Told | LedgerError]:
        """Send reports. An unreadable report is refused alone, and the others are still sent."""
        try:
            answers = self._posted("/api/tell", reports=list(reports))
        except (AccessError, UnreachableError):
            raise
        except LedgerError as error:
            self._back()
            if len(reports) == 1:
                return [error]
            return [answer for report in reports for answer in self._send([report])]
        self._back()
        found = [
            error_of(one["error"], one["says"]) if "error" in one else Told(**one)
            for one in answers
        ]
        for one in found:
            if isinstance(one, Told) and one.doubts:
                says = (
                    f"the report of ticket {one.ticket} is stored, and the trial office is told"
                    f" that it is unlikely: {'; '.join(one.doubts)}. If it is wrong, ask the office"
                    " to correct it"
                )
                warnings.warn(says, ReportWarning, stacklevel=2)
        return found

    def flush(self) -> dict[int, Told | LedgerError]:
        """Send the waiting reports; return the answers by their numbers in the spool.

        First, all promised tickets are requested in the order of their episodes, up to the site's
        limit of open tickets; the rest follow once reports are settled. Refused reports are kept:
        see `refused`.
        """
        found: dict[int, Told | LedgerError] = {}
        with self._lock:
            spool = self._require_spool()
            tickets = dict[str, str]()
            while True:
                promised = self._keep_promises(spool, tickets)
                waiting = spool.waiting(-1 if promised else _AT_ONCE)
                some = [one for one in waiting if not _is_promised(one, promised)][:_AT_ONCE]
                found_tickets = [self._with_ticket(spool, one, tickets) for one in some]
                ready = [one for one in found_tickets if one is not None]
                sent = self._send([one.report for one in ready]) if ready else []
                answers = {one.id: answer for one, answer in zip(ready, sent, strict=True)}
                found |= answers
                if self._sort_out(spool, answers) or not some:
                    break
        return {number: one for number, one in found.items() if not isinstance(one, _LATER_ON)}

    def _with_ticket(self, spool: Spool, one: Waiting, tickets: dict[str, str]) -> Waiting | None:
        """A report with its ticket, even if the episode was played without one.

        None if it gets no ticket, for example because all tickets of the run are issued.
        """
        name = one.report["ticket"]
        if not name.startswith(_LATER):
            return one
        if _lacks_actions(one.report):
            spool.refuse(one.id, _GIVE_ACTIONS)
            return None
        request = name.removeprefix(_LATER)
        if request not in tickets:
            (answer,) = self._answers([request])
            if isinstance(answer, _LATER_ON):
                raise answer
            if isinstance(answer, LedgerError):
                spool.refuse(one.id, str(answer))
                return None
            tickets[request] = answer.ticket
        ticket = tickets[request]
        spool.rename(one.id, ticket)
        return one._replace(report=one.report | {"ticket": ticket})

    def _sort_out(self, spool: Spool, answers: dict[int, Told | LedgerError]) -> bool:
        """Remove acknowledged reports and mark refused ones; return whether the rest must wait.

        Reports that a frozen run or a full disk cannot take now stay in the spool and are sent
        later.
        """
        wait = False
        for number, answer in answers.items():
            if isinstance(answer, _LATER_ON):
                wait = True
            elif isinstance(answer, LedgerError):
                spool.refuse(number, str(answer))
            else:
                spool.done([number])
        return wait

    def _keep_promises(self, spool: Spool, tickets: dict[str, str]) -> set[str]:
        """Ask for the tickets that were promised; return the requests that must still wait.

        Requests wait while the site has its maximum of open tickets. A request that is refused for
        another reason is refused with its report.
        """
        while promised := spool.promised():
            some = promised[:_AT_ONCE]
            for request, answer in zip(some, self._answers(some), strict=True):
                if isinstance(answer, QuotaError):
                    return set(spool.promised())
                if isinstance(answer, _LATER_ON):
                    raise answer
                if isinstance(answer, Issued):
                    tickets[request] = answer.ticket
                spool.kept(request)
        return set()

    @property
    def waiting(self) -> int:
        """How many reports wait on this disk."""
        return len(self._require_spool().waiting())

    def refused(self) -> list[tuple[dict[str, Any], str]]:
        """The reports that the server refused, with the reasons."""
        return [(one.report, one.refused or "") for one in self._require_spool().refused()]

    def forget_refused(self) -> int:
        """Delete the refused reports once somebody has read them; return how many there were."""
        with self._lock:
            return self._require_spool().forget_refused()

    # ---- while the server is away ----------------------------------------------------------------

    def _require_spool(self) -> Spool:
        if self._spool is None:
            raise LedgerError("this client has no spool; make it with spool='site.spool'")
        return self._spool

    def _require_try(self) -> None:
        """Pause between attempts after a failure, to spare an unreachable server."""
        if time.monotonic() < self._retry_at:
            raise UnreachableError(self.trouble or "the server was away a moment ago")

    def _away(self, error: LedgerError | None = None) -> None:
        """Wait longer before each further attempt. Calls during the pause do not prolong it."""
        if isinstance(error, TokenExpiredError):
            goes_on = "reports wait in the spool, and the last policy is followed, until you do"
            self._warn(f"{error}; {goes_on}")
        elif isinstance(error, UnreachableError):
            self.trouble = str(error)
        if time.monotonic() < self._retry_at:
            return
        self._pause = min(max(2 * self._pause, 0.05), 5.0)
        self._retry_at = time.monotonic() + self._pause

    def _back(self) -> None:
        self._retry_at, self._pause = 0.0, 0.0
        if self._connection.expires is not None:
            way = "ask the administrator of the service for a new one ('lowswitch token rotate')"
            self._warn(f"the token of this client expires at {self._connection.expires}; {way}")
        else:
            self.trouble = None

    def _warn(self, says: str) -> None:
        """Warn about the token once a day, and keep the reason in `trouble`."""
        self.trouble = says
        if self.clock() - self._warned >= _WARN_EVERY:
            self._warned = self.clock()
            warnings.warn(says, TokenWarning, stacklevel=2)

    def _remember(self, issued: list[Issued]) -> None:
        """Store the newest policy and the fallback, for when the server is away."""
        if self._spool is not None and issued:
            if not self._knows_terms:
                with suppress(*_AWAY):
                    self._knows_terms = self._spool.get("terms") is not None or bool(self.terms())
            last = max(issued, key=lambda one: one.number)
            now, kept = self.clock(), self._spool.get("policy")
            if kept is not None and last.version < kept["version"]:
                return  # an old ticket, which was asked for again
            if kept is None or kept["version"] != last.version or now - kept["time"] > 1.0:
                facts = {"version": last.version, "policy": last.facts()["policy"], "time": now}
                self._spool.put(policy=facts)

    def _promised(self, request: str) -> Issued:
        """Begin an episode without a ticket, after noting it on the disk."""
        spool = self._require_spool()
        kept = spool.get("policy")
        if kept is not None and 0 <= self.clock() - kept["time"] <= self.most_age:
            version, policy = kept["version"], kept["policy"]
        else:
            version, policy = FALLBACK, self._fallback or (spool.get("terms") or {}).get("policy")
        if policy is None:
            raise UnreachableError(
                f"the server is away ({self.trouble}), no policy has come from it yet, and there is"
                " no fallback; give fallback="
            )
        spool.promise(request)
        facts = {"ticket": f"{_LATER}{request}", "number": 0, "site": "", "request": request}
        return issued_of(facts | {"version": version, "policy": policy})

    def terms(self) -> dict[str, Any]:
        """The declaration of the run; the last known one while the server is away."""
        with self._lock:
            try:
                found: dict[str, Any] = self._connection.get("/api/terms")
            except _AWAY:
                kept = None if self._spool is None else self._spool.get("terms")
                if kept is None:
                    raise
                return dict(kept)
            if self._spool is not None and self._spool.get("terms") != found:
                self._spool.put(terms=found)
            return found

    def play(
        self,
        env: Any,
        episodes: int,
        *,
        name: str = "play",
        seed: int | None = None,
        state: Callable[[Any], int] = int,
    ) -> Played:
        """Play a Gymnasium environment with the deployed policy, and report the outcomes.

        Parameters
        ----------
        env
            The environment.
        episodes
            How many episodes.
        name
            The name of this series. With a spool, a second call continues where the first one
            stopped, even after a crash.
        seed
            The seed of the environment.
        state
            A function from an observation to the number of a state.
        """
        from lowswitch.ledger.site import play

        return play(self, env, episodes, name=name, seed=seed, state=state)


def _conflict(ticket: str) -> ConflictError:
    """The refusal of a second report of a ticket while the first one waits."""
    return ConflictError(
        f"another report of ticket {ticket} waits in the spool, and is kept instead of this one; if"
        " this one is right, an operator can amend it when the server has the other"
    )


def _is_promised(one: Waiting, promised: set[str]) -> bool:
    """Whether the ticket of a report is still to be asked for."""
    ticket = one.report["ticket"]
    return ticket.startswith(_LATER) and ticket.removeprefix(_LATER) in promised


def _lacks_actions(report: dict[str, Any]) -> bool:
    """Whether a report leaves its actions to a ticket that was issued after the episode.

    That ticket may have a policy other than the one that was followed. With features, the
    propensities are affected too.
    """
    ticket, states = report.get("ticket"), report.get("states")
    later = isinstance(ticket, str) and ticket.startswith(_LATER)
    vectors = bool(states) and isinstance(states, list) and isinstance(states[0], list)
    no_chances = vectors and report.get("propensities") is None
    return later and (report.get("actions") is None or no_chances)


def _plain_policy(policy: Any) -> Any:
    """A policy as plain JSON values."""
    return policy.to_dict() if isinstance(policy, LinearPolicy) else np.asarray(policy).tolist()
