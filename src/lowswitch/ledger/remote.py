"""A ledger behind a URL: the methods of a `Ledger` that read, decide and operate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.ledger.connection import Connection
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.responses import ProposalView, RequestView, Status, Told, Version
from lowswitch.policy.tables import Part


class Remote:
    """What a token with the right role may do with a served ledger."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.RLock()

    def _get(self, path: str, **query: Any) -> Any:
        with self._lock:
            return self._connection.get(path, **query)

    def _post(self, path: str, **body: Any) -> Any:
        with self._lock:
            return self._connection.post(path, **body)

    @property
    def version(self) -> int:
        """The number of the deployed version."""
        return int(self._get("/api/policy")["version"])

    @property
    def policy(self) -> np.ndarray:  # [members, H, S]
        """What is deployed."""
        return np.array(self._get("/api/policy")["policy"])

    def policy_of(self, version: int) -> np.ndarray:  # [members, H, S]
        """What a version plays."""
        return np.array(self._get("/api/policy", version=version)["policy"])

    def status(self) -> Status:
        """Where the run stands."""
        return Status(**self._get("/api/status"))

    def proposal(self) -> ProposalView | None:
        """What waits for a decision, or None."""
        found = self._get("/api/proposal")
        return None if found is None else ProposalView(**found)

    def proposals(self) -> list[ProposalView]:
        """All proposals with what was decided on them, in their order."""
        return [ProposalView(**one) for one in self._get("/api/proposals")]

    def worth(self, rows: Sequence[tuple[Any, Any]] | None = None) -> dict[str, Any] | None:
        """What the pending proposal is worth if only these rows (step, state) change."""
        given = {} if rows is None else {"rows": ",".join(f"{h}:{x}" for h, x in rows)}
        found: dict[str, Any] | None = self._get("/api/worth", **given)
        return found

    def versions(self) -> list[Version]:
        """All versions, in their order."""
        return [Version(**one) for one in self._get("/api/versions")]

    def tickets(self, status: str) -> Iterator[dict[str, Any]]:
        """The tickets that are open, waiting, learned, missing or refused."""
        first = 1
        while some := self._get("/api/tickets", status=status, first=first):
            yield from some
            first = some[-1]["number"] + 1

    def events(self, first: int = 1) -> Iterator[dict[str, Any]]:
        """The events from a number on."""
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
    ) -> int | RequestView:
        """Deploy rows (step, state) of the pending proposal, by default all; return the version.

        part: "protocol" or "trial" changes that one alone. share: at most this share of the cases
        enters the trial. Where several reviewers must agree, return the request.
        """
        chosen = None if rows is None else [list(row) for row in rows]
        body = {"proposal": _hash(proposal), "rows": chosen, "part": part, "share": share}
        return _version(self._post("/api/approve", **body, reason=reason))

    def reject(
        self,
        proposal: ProposalView | str,
        *,
        rows: Sequence[tuple[Any, Any]] | None = None,
        reason: str,
        forever: bool = False,
        visits: int | None = None,
        actions: Sequence[Any] | None = None,
    ) -> RequestView | None:
        """Let rows (step, state) of the pending proposal stay as they are, by default all.

        actions: with forever, those of the new actions that are forbidden.
        """
        chosen = None if rows is None else [list(row) for row in rows]
        body = {"proposal": _hash(proposal), "rows": chosen, "reason": reason}
        named = None if actions is None else list(actions)
        answer = self._post("/api/reject", **body, forever=forever, visits=visits, actions=named)
        return _request(answer)

    def forbid(
        self,
        rows: Sequence[tuple[Any, Any]],
        actions: Sequence[Any],
        *,
        instead: Any = None,
        reason: str,
    ) -> int | RequestView:
        """Never deploy these actions in rows (step, state) again; return the deployed version."""
        body = {"rows": [list(row) for row in rows], "actions": list(actions), "instead": instead}
        return _version(self._post("/api/forbid", **body, reason=reason))

    def lift(
        self, rows: Sequence[tuple[Any, Any]], actions: Sequence[Any], *, reason: str
    ) -> RequestView | None:
        """Allow actions again that were forbidden in rows (step, state)."""
        body = {"rows": [list(row) for row in rows], "actions": list(actions)}
        return _request(self._post("/api/lift", **body, reason=reason))

    def requests(self) -> list[RequestView]:
        """The decisions that wait until enough reviewers agree."""
        return [RequestView(**one) for one in self._get("/api/requests")]

    def confirm(self, request: int, *, reason: str) -> int | RequestView:
        """Agree to what another person asks for; the last one needed carries it out."""
        return _version(self._post("/api/confirm", request=request, reason=reason))

    def decline(self, request: int, *, reason: str) -> None:
        """Turn a request down."""
        self._post("/api/decline", request=request, reason=reason)

    def set_quorum(self, quorum: int, *, reason: str) -> RequestView | None:
        """Change how many reviewers must agree on a decision."""
        return _request(self._post("/api/quorum", quorum=quorum, reason=reason))

    def propose(self, *, early: bool = False) -> ProposalView | None:
        """Let the learner propose what it would change now; None if that is nothing.

        early: also where its budget has none to spare for a proposal before its next date.
        """
        found = self._post("/api/propose", **({"early": True} if early else {}))
        return None if found is None else ProposalView(**found)

    def freeze(self, *, reason: str) -> None:
        """Stop the run."""
        self._post("/api/freeze", reason=reason)

    def thaw(self, *, reason: str) -> RequestView | None:
        """Let the run go on."""
        return _request(self._post("/api/thaw", reason=reason))

    def rollback(self, version: int, *, reason: str) -> int | RequestView:
        """Deploy an earlier version again, as a new one; return its number."""
        return _version(self._post("/api/rollback", version=version, reason=reason))

    def cap_trial(self, share: float, *, reason: str) -> int:
        """Let at most this share of the cases enter the trial from now on; return the version."""
        return int(self._post("/api/cap", share=share, reason=reason)["version"])

    def missing(self, ticket: str, reason: str, **seen: Sequence[Any]) -> None:
        """Declare that no report will come; seen: the states, actions and rewards before that."""
        self._post("/api/missing", ticket=ticket, reason=reason, **plain(seen))

    def missing_many(self, tickets: Sequence[str], reason: str) -> None:
        """Declare that no report will come for any of these tickets."""
        self._post("/api/lost", tickets=list(tickets), reason=reason)

    def amend(
        self,
        ticket: str,
        states: Sequence[Any],
        actions: Sequence[Any] | None,
        rewards: Sequence[Any],
        *,
        reason: str,
        ended: str = "whole",
    ) -> Told:
        """Correct the report of a ticket, or enter one that came too late."""
        seen = plain({"states": states, "actions": actions, "rewards": rewards})
        body = {"ticket": ticket, "ended": ended, "reason": reason}
        return Told(**self._post("/api/amend", **body, **seen))

    def verify(self) -> dict[str, Any]:
        """Let the server replay everything from the start; wait for what it finds."""
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

    def export(self, path: str | Path, *, kind: str = "jsonl") -> None:
        """Write all events as JSON lines, or as a table ("csv")."""
        from lowswitch.io.storage import replacing

        with self._lock, replacing(path) as file:
            answer = self._connection.read("/api/export", kind=kind)
            while piece := answer.read(1 << 16):
                file.write(piece)


def _request(answer: dict[str, Any]) -> RequestView | None:
    """The request that an answer speaks of, if others must agree."""
    return RequestView(**answer["request"]) if "request" in answer else None


def _version(answer: dict[str, Any]) -> int | RequestView:
    return _request(answer) or int(answer["version"])


def _hash(proposal: ProposalView | str | None) -> str:
    if proposal is None:
        raise LedgerError(
            "None is no proposal to decide on; status().nothing_because says why nothing waits for"
            " a decision"
        )
    return proposal.hash if isinstance(proposal, ProposalView) else proposal


def plain(report: dict[str, Any]) -> dict[str, Any]:
    """A report as JSON can hold it: lists and Python's own numbers."""
    found = dict[str, Any]()
    for name, value in report.items():
        if name in ("states", "actions", "rewards") and value is not None:
            if isinstance(value, str | bytes):
                raise LedgerError(f"{name} must be a list, one for each step, not {value!r}")
            found[name] = [one.item() if isinstance(one, np.generic) else one for one in value]
            for one in found[name]:
                if isinstance(one, float) and not math.isfinite(one):
                    raise LedgerError(f"{name} must be finite numbers, not {one!r}")
        else:
            found[name] = value
    return found
