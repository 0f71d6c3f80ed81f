"""A ledger behind a URL: the methods of a `Ledger` that read, decide and operate."""

from __future__ import annotations

import json
import math
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.ledger.connection import Connection
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.responses import (
    Certificate,
    MotionView,
    ProposalView,
    Status,
    Told,
    Version,
)
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.members import Part

_MOST_TABLES = 256  # that a client keeps


class Remote:
    """The methods of a served ledger for a token with the right role.

    Parameters
    ----------
    connection
        The connection to the server.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.RLock()
        self._tables: dict[tuple[int, int | None], Any] = {}  # of versions, by member

    def _get(self, path: str, **query: Any) -> Any:
        with self._lock:
            return self._connection.get(path, **query)

    def _post(self, path: str, **body: Any) -> Any:
        with self._lock:
            return self._connection.post(path, **body)

    def _do(self, path: str, request: str | None, **body: Any) -> Any:
        """Let the server do something once, even if its answer is lost and the request is repeated.

        request: the name of the request, by default a unique one.
        """
        return self._post(path, **body, request=request or secrets.token_hex(16))

    @property
    def version(self) -> int:
        """The number of the deployed version."""
        return int(self._get("/api/policy")["version"])

    @property
    def policy(self) -> Any:
        """The deployed policy: tables [members, H, S], or a LinearPolicy."""
        return self.policy_of(self.version)

    def policy_of(self, version: int) -> Any:
        """The policy of a version; a large one is fetched table by table.

        Parameters
        ----------
        version
            The number of the version.
        """
        found = self._get("/api/policy", version=version)
        if isinstance(found["policy"], dict):
            return LinearPolicy.from_dict(found["policy"])
        if found["policy"] is None:
            return np.array([self._table(version, i) for i in range(found["members"])])
        return np.array(found["policy"])

    def _table(self, version: int, member: int | None) -> Any:
        """One table of a version, or None for all of it; recent ones are cached."""
        with self._lock:
            known = self._tables.pop((version, member), None)
            if known is None:
                which = {} if member is None else {"member": member}
                known = self._connection.get("/api/policy", version=version, **which)["policy"]
            self._tables[version, member] = known  # the newest at the end
            while len(self._tables) > _MOST_TABLES:
                del self._tables[next(iter(self._tables))]
            return known

    def status(self) -> Status:
        """The current state of the run."""
        return Status(**self._get("/api/status"))

    def proposal(self) -> ProposalView | None:
        """The pending proposal, or None."""
        while (found := self._get("/api/proposal")) is not None:
            rows, total, same = list(found["rows"]), found.pop("rows_in_all"), True
            while same and len(rows) < total:
                more = self._get("/api/proposal", first=len(rows))
                same = more is not None and more["hash"] == found["hash"]
                rows += more["rows"] if same else []
            if same:  # and was not decided meanwhile
                return ProposalView(**found | {"rows": rows})
        return None

    def proposals(self) -> list[ProposalView]:
        """All proposals in order, with the decisions on them."""
        return [self._whole(one) for one in self._pages("/api/proposals")]

    def _whole(self, found: dict[str, Any]) -> ProposalView:
        """A proposal on record with all its rows, given an answer with some of them."""
        rows, total = list(found["rows"]), found.pop("rows_in_all")
        while len(rows) < total:
            more = self._get("/api/proposal", hash=found["hash"], first=len(rows))
            rows += more["rows"]
        return ProposalView(**found | {"rows": rows})

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        """A complete list that arrives in pieces."""
        first = 0
        while some := self._get(path, first=first):
            yield from some
            first += len(some)

    def worth(self, rows: Sequence[tuple[Any, Any]] | None = None) -> dict[str, Any] | None:
        """The worth of the pending proposal if only these rows change.

        Parameters
        ----------
        rows
            Rows (step, state), by default all.
        """
        given = {} if rows is None else {"rows": json.dumps([list(row) for row in rows])}
        found: dict[str, Any] | None = self._get("/api/worth", **given)
        return found

    def certificate(
        self,
        within: float | None = None,
        *,
        probability: float = 0.05,
        cost: float | None = None,
    ) -> Certificate:
        """Whether the run may stop, and what one more deployment would gain.

        Parameters
        ----------
        within, probability, cost
            As in `Ledger.certificate`.
        """
        asked = {"within": within, "probability": probability, "cost": cost}
        found = self._get("/api/certificate", **asked)
        pairs = {name: tuple(found[name]) for name in ("value", "gain_interval")}
        return Certificate(**found | pairs)

    def versions(self) -> list[Version]:
        """All versions, in order."""
        return [Version(**one) for one in self._pages("/api/versions")]

    def tickets(self, status: str) -> Iterator[dict[str, Any]]:
        """The tickets with a status.

        Parameters
        ----------
        status
            "open", "waiting", "learned", "missing" or "refused".
        """
        first = 1
        while some := self._get("/api/tickets", status=status, first=first):
            yield from some
            first = some[-1]["number"] + 1

    def events(self, first: int = 1) -> Iterator[dict[str, Any]]:
        """The events in order.

        Parameters
        ----------
        first
            The number of the first event.
        """
        while some := self._get("/api/events", first=first, count=1000):
            yield from some
            first = some[-1]["seq"] + 1

    def approve(
        self,
        proposal: ProposalView | str,
        *,
        rows: Sequence[tuple[Any, Any]] | None = None,
        part: Part | None = None,
        share: float | None = None,
        reason: str,
        request: str | None = None,
    ) -> int | MotionView:
        """Deploy the pending proposal, or some of its rows; return the version or the motion.

        Parameters
        ----------
        proposal
            The proposal that was examined, or its hash.
        rows
            The rows (step, state) to deploy, by default all.
        part
            "protocol" or "trial" to change only that part.
        share
            The largest share of cases in the trial.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        chosen = _listed(rows)
        body = {"proposal": _hash(proposal), "rows": chosen, "part": part, "share": share}
        return _version(self._do("/api/approve", request, **body, reason=reason))

    def reject(
        self,
        proposal: ProposalView | str,
        *,
        rows: Sequence[tuple[Any, Any]] | None = None,
        reason: str,
        forever: bool = False,
        visits: int | None = None,
        actions: Sequence[Any] | None = None,
        request: str | None = None,
    ) -> MotionView | None:
        """Leave the rows of the pending proposal as they are, by default all of them.

        Parameters
        ----------
        proposal, rows, forever, visits, actions
            As in `Ledger.reject`.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        chosen = _listed(rows)
        named = None if actions is None else list(actions)
        body = {"proposal": _hash(proposal), "rows": chosen, "reason": reason, "actions": named}
        return _motion(self._do("/api/reject", request, **body, forever=forever, visits=visits))

    def forbid(
        self,
        rows: Sequence[tuple[Any, Any]] | None,
        actions: Sequence[Any],
        *,
        instead: Any = None,
        base: int | None = None,
        reason: str,
        request: str | None = None,
    ) -> int | MotionView:
        """Forbid actions in rows permanently; return the deployed version.

        Parameters
        ----------
        rows, actions, instead, base
            As in `Ledger.forbid`.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        body = {"rows": _listed(rows), "actions": list(actions), "instead": instead}
        body |= {} if base is None else {"base": base}
        return _version(self._do("/api/forbid", request, **body, reason=reason))

    def lift(
        self,
        rows: Sequence[tuple[Any, Any]] | None,
        actions: Sequence[Any],
        *,
        reason: str,
        request: str | None = None,
    ) -> MotionView | None:
        """Allow forbidden actions again.

        Parameters
        ----------
        rows
            The rows (step, state), or None with features.
        actions
            The actions to allow.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        body = {"rows": _listed(rows), "actions": list(actions)}
        return _motion(self._do("/api/lift", request, **body, reason=reason))

    def motions(self) -> list[MotionView]:
        """The motions that wait until enough reviewers agree."""
        return [MotionView(**one) for one in self._get("/api/motions")]

    def confirm(
        self, motion: int, *, base: int | None = None, reason: str, request: str | None = None
    ) -> int | MotionView:
        """Agree to the motion of another person; the last agreement needed carries it out.

        Parameters
        ----------
        motion
            The number of the motion.
        base
            The version that was examined. If another one is deployed by now, nothing is decided.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        body = {"motion": motion} | ({} if base is None else {"base": base})
        return _version(self._do("/api/confirm", request, **body, reason=reason))

    def decline(self, motion: int, *, reason: str, request: str | None = None) -> None:
        """Decline a motion.

        Parameters
        ----------
        motion
            The number of the motion.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        self._do("/api/decline", request, motion=motion, reason=reason)

    def set_quorum(
        self, quorum: int, *, reason: str, request: str | None = None
    ) -> MotionView | None:
        """Change how many reviewers must agree on a decision.

        Parameters
        ----------
        quorum
            The new number.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        return _motion(self._do("/api/quorum", request, quorum=quorum, reason=reason))

    def propose(
        self,
        *,
        early: bool = False,
        held: bool = False,
        reason: str | None = None,
        request: str | None = None,
    ) -> ProposalView | None:
        """Ask the learner for a proposal now; None if there is nothing to change.

        Parameters
        ----------
        early
            Propose even if a later date then goes without a proposal.
        held
            Let postponed and rolled-back rows be proposed again now.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        given: dict[str, Any] = {
            name: value
            for name, value in (("early", early), ("held", held), ("reason", reason))
            if value not in (False, None)
        }
        found = self._do("/api/propose", request, **given)
        return None if found is None else self._whole(found)

    def freeze(self, *, reason: str, request: str | None = None) -> None:
        """Pause the run.

        Parameters
        ----------
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        self._do("/api/freeze", request, reason=reason)

    def thaw(self, *, reason: str, request: str | None = None) -> MotionView | None:
        """Resume the run.

        Parameters
        ----------
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        return _motion(self._do("/api/thaw", request, reason=reason))

    def rollback(
        self, version: int, *, reason: str, request: str | None = None
    ) -> int | MotionView:
        """Deploy an earlier version again, as a new version; return its number.

        Parameters
        ----------
        version
            The number of the earlier version.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        body = {"version": version, "reason": reason}
        return _version(self._do("/api/rollback", request, **body))

    def cap_trial(self, share: float, *, reason: str, request: str | None = None) -> int:
        """Let at most this share of the cases enter the trial from now on; return the version.

        Parameters
        ----------
        share
            The largest share; 0 ends the trial.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        return int(self._do("/api/cap", request, share=share, reason=reason)["version"])

    def missing(
        self, ticket: str, reason: str, request: str | None = None, **seen: Sequence[Any]
    ) -> None:
        """Declare that no report will come.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        **seen
            The `states`, `actions` and `rewards` that were observed before the rest was lost.
        """
        self._do("/api/missing", request, ticket=ticket, reason=reason, **plain(seen))

    def missing_many(
        self,
        tickets: Sequence[str],
        reason: str,
        request: str | None = None,
        *,
        still_open: bool = False,
    ) -> list[str]:
        """Declare that no report will come for any of these tickets.

        Parameters
        ----------
        tickets
            The tickets, or their names.
        reason
            The reason, for the record.
        still_open
            Leave out tickets that are not open any more, and return them.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        more = {"still_open": True} if still_open else {}
        done = self._do("/api/lost", request, tickets=list(tickets), reason=reason, **more)
        return list(done.get("left_out", ()))

    def dismiss(
        self, ticket: str, reason: str, *, unlikely: bool = False, request: str | None = None
    ) -> None:
        """Leave the report of a ticket as it is, although its site sent a contradicting one, or
        although it is unlikely.
        """
        more = {"unlikely": True} if unlikely else {}
        self._do("/api/dismiss", request, ticket=ticket, reason=reason, **more)

    def amend(
        self,
        ticket: str,
        states: Sequence[Any],
        actions: Sequence[Any] | None,
        rewards: Sequence[Any],
        *,
        reason: str,
        ended: str = "whole",
        propensities: Any = None,
        request: str | None = None,
    ) -> Told:
        """Correct the report of a ticket, or enter one that came too late.

        Parameters
        ----------
        ticket
            The ticket, or its name.
        states, actions, rewards, ended, propensities
            The right report, as in `Ledger.tell`.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        given = {"states": states, "actions": actions, "rewards": rewards}
        seen = plain(given | {"propensities": propensities})
        body = {"ticket": ticket, "ended": ended, "reason": reason}
        return Told(**self._do("/api/amend", request, **body, **seen))

    def amend_many(
        self, reports: Sequence[dict[str, Any]], *, reason: str, request: str | None = None
    ) -> list[Told]:
        """Correct many reports at once: all of them, or none if one is refused.

        Parameters
        ----------
        reports
            For each ticket, the arguments of `tell` by name.
        reason
            The reason, for the record.
        request
            Your own name for this command; see `Ledger.missing`.
        """
        given = [plain(one) for one in reports]
        done = self._do("/api/corrections", request, reports=given, reason=reason)
        return [Told(**one) for one in done]

    def verify(self) -> dict[str, Any]:
        """Let the server replay everything from the start, and wait for the result."""
        before = self._get("/api/verdict")["last"]
        self._post("/api/verify")
        while True:
            found = self._get("/api/verdict")
            if not found["verifying"] and found["last"] is not None:
                if found["last"] == before:
                    raise LedgerError("the server could not verify; look at its log")
                last: dict[str, Any] = found["last"]
                return last
            time.sleep(0.05)

    def anchor(self) -> dict[str, Any]:
        """The signed head of the ledger, to store as a line of a file; see `anchors.trusted`."""
        found: dict[str, Any] = self._get("/api/anchor")
        return found

    def export(self, path: str | Path, *, kind: str = "jsonl") -> None:
        """Write all events to a file.

        Parameters
        ----------
        path
            The file.
        kind
            "jsonl" for JSON lines, "csv" for a table.
        """
        from lowswitch.io.storage import replacing

        with self._lock, replacing(path) as file:
            answer = self._connection.read("/api/export", kind=kind)
            while piece := answer.read(1 << 16):
                file.write(piece)


def _motion(answer: dict[str, Any]) -> MotionView | None:
    """The motion in an answer, if others must agree."""
    return MotionView(**answer["motion"]) if "motion" in answer else None


def _version(answer: dict[str, Any]) -> int | MotionView:
    return _motion(answer) or int(answer["version"])


def _hash(proposal: ProposalView | str | None) -> str:
    if proposal is None:
        raise LedgerError(
            "there is no proposal to decide on (None); status().nothing_because says why nothing"
            " waits for a decision"
        )
    return proposal.hash if isinstance(proposal, ProposalView) else proposal


def _listed(rows: Sequence[tuple[Any, Any]] | None) -> list[list[Any]] | None:
    return None if rows is None else [list(row) for row in rows]


_LISTS = ("states", "actions", "rewards", "propensities")


def plain(report: dict[str, Any]) -> dict[str, Any]:
    """A report as plain JSON values: lists and Python numbers.

    In a one-step run with features, a context, an action and a reward may come without lists.
    """
    found = dict(report)
    for name in _LISTS:
        if isinstance(found.get(name), np.ndarray | np.generic):
            found[name] = found[name].tolist()
    if isinstance(found.get("rewards"), int | float):
        found |= {name: [found[name]] for name in _LISTS if found.get(name) is not None}
    for name in _LISTS:
        if found.get(name) is not None:
            if isinstance(found[name], str | bytes):
                raise LedgerError(f"{name} must be a list, one for each step, not {found[name]!r}")
            found[name] = [_plain_number(name, one) for one in found[name]]
    return found


def _plain_number(name: str, one: Any) -> Any:
    """A number, a label, or a list of them."""
    if isinstance(one, np.ndarray | np.generic):
        one = one.tolist()
    if isinstance(one, list | tuple):
        return [_plain_number(name, part) for part in one]
    if isinstance(one, float) and not math.isfinite(one):
        raise LedgerError(f"{name} must be finite numbers, not {one!r}")
    return one
