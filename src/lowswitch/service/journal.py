"""Facts from all events that the pages need, collected once and kept up to date.

A separate reader goes through the events in small pieces, so that neither the writer nor a
checkpoint waits for it. It stores the decisions, and of the reports only sums: their number under
each version, and what they returned.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.events import KINDS, OPERATOR, Kind, canonical, makes_version
from lowswitch.ledger.views import payload_of
from lowswitch.service.doubts import Seen, VersionPlan

_PIECE = 2000  # events that are read at once
_PLANS = 50  # versions whose plans are kept, the newest ones
_PATIENCE = 0.5  # seconds to wait for another thread that reads


@dataclass(frozen=True)
class Mark:
    """A stored event without the long parts of its payload."""

    seq: int
    time: str
    actor: str
    role: str
    kind: str
    facts: dict[str, Any]
    issued: int = 0  # tickets before it

    @property
    def is_veto(self) -> bool:
        """Whether it forbids actions until somebody allows them again."""
        for_good = self.kind == "rejected" and bool(self.facts.get("forever"))
        return for_good or self.kind == "vetoed"


@dataclass
class Returns:
    """The returns of the reports under one version, in the run's units."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Add a return; with times=-1, remove it again."""
        self.count += times
        self.total += times * value
        self.squares += times * value * value

    def with_all(self, other: Returns) -> Returns:
        """These and others together."""
        return Returns(
            self.count + other.count, self.total + other.total, self.squares + other.squares
        )

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the mean by the normal law."""
        if self.count < 2:
            return math.inf
        spread = max(0.0, self.squares - self.total**2 / self.count) / (self.count - 1)
        return 1.96 * math.sqrt(spread / self.count)


@dataclass
class Site:
    """The facts about a site."""

    reports: int = 0
    last: str = ""
    initial: Returns = field(default_factory=Returns)  # under the first version
    later: Returns = field(default_factory=Returns)  # under all others

    def of(self, version: int) -> Returns:
        """The returns of the version that a report belongs to."""
        return self.initial if version == 1 else self.later


@dataclass
class Journal:
    """The story of a run so far."""

    reader: Ledger
    policy_of: Callable[[int], Any] | None = None  # of a version; without it no plan is known
    seq: int = 0  # of the last event that was read
    issued: int = 0  # tickets so far
    marks: list[Mark] = field(default_factory=list)
    returns: dict[int, Returns] = field(default_factory=dict)  # by version
    sites: dict[str, Site] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # events of each kind but asked
    contradicted: dict[int, str] = field(default_factory=dict)  # reports not settled since: when
    doubted: dict[int, tuple[str, list[str]]] = field(default_factory=dict)  # when, and why
    seen: Seen = field(default_factory=Seen)  # in the reports so far
    forbidden: set[tuple[int, int, int]] = field(default_factory=set)  # by vetoes, not lifted
    _sent: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)  # contradicting reports
    _given: dict[int, np.ndarray] = field(
        default_factory=dict
    )  # [H, S, A]  by version; see VersionPlan
    _in_trial: frozenset[tuple[int, int]] = frozenset()  # where the last proposal leaves a protocol
    _proposed: int = 0  # rows of the last proposal
    _version: int = 0  # the last one that was made
    _firsts: list[int] = field(default_factory=lambda: [1])  # first ticket of each version
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(self, pieces: int | None = None) -> bool:
        """Read new events, all or a number of pieces; return whether everything was read.

        It gives up if somebody else reads for long, so that no threads pile up.
        """
        for _ in itertools.count() if pieces is None else range(pieces):
            if not self._lock.acquire(timeout=_PATIENCE):
                return False
            try:
                if not self._read_piece():
                    return True
            finally:
                self._lock.release()
        return False

    def _read_piece(self) -> bool:
        store = self.reader.store
        sql = f"SELECT seq, kind, body FROM {store.events} WHERE seq > ? ORDER BY seq LIMIT ?"
        rows = store.execute(sql, self.seq, _PIECE)
        for seq, kind, body in rows:
            if kind == "asked":
                self.issued += 1
            if kind != "asked":
                _, time, actor, role, _, payload, _ = json.loads(body)
                self._take(seq, time, actor, role, kind, payload)
            elif len(self._firsts) < self._version:
                self._begin(json.loads(body)[5])
            self.seq = seq
        return bool(rows)

    def _begin(self, asked: dict[str, Any]) -> None:
        """Note the first ticket of a version, also for earlier versions that issued none."""
        while len(self._firsts) < asked["version"]:
            self._firsts.append(asked["number"])

    def _take(
        self, seq: int, time: str, actor: str, role: str, kind: str, payload: dict[str, Any]
    ) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "told":
            site, version = (
                self.sites.setdefault(actor, Site()),
                self._version_of(payload["number"]),
            )
            for returns in (self.returns.setdefault(version, Returns()), site.of(version)):
                returns.add(_return(payload))
            site.reports, site.last = site.reports + 1, time
            self._doubt(payload, time)
        elif kind == "amended":
            self._amend(payload, time)
            if self.doubted.pop(payload["number"], None) is not None:
                self._doubt(payload, time)  # perhaps something else was corrected
            else:
                self.seen.add(payload, self.reader.terms, ())
            if _report(payload) in self._sent.get(payload["number"], ()):
                self._agree(payload["number"])
        elif kind == "dismissed" and payload.get("unlikely"):
            if self.doubted.pop(payload["number"], None) is not None:
                report = self.reader.store.ticket_numbered(payload["number"]).report
                assert report is not None  # or nothing in it was doubted
                self._look_up_plan(payload["number"])
                right = payload_of(*self.reader.store.event(report))
                self.seen.vouch(right, self.reader.terms, self.plan(payload["number"]))
        elif kind == "dismissed":
            self._agree(payload["number"])
        elif kind == "conflict":
            self.contradicted[payload["number"]] = time
            self._sent.setdefault(payload["number"], []).append(_report(payload))
        self._veto(kind, payload)
        known = KINDS.get(kind, Kind())  # whether there is such a kind is for `verify` to say
        self._version += makes_version(kind, payload)
        if known.verb:
            facts = _facts(kind, payload)
            if kind == "proposed":
                self._in_trial = _in_trial(payload["rows"])
                self._proposed = len(payload["rows"])
            elif kind == "rejected":
                facts["in_trial"] = self._trial_rows(payload)
            elif kind == "requested" and "proposal" in payload["decision"]:
                facts["in_trial"] = self._trial_rows(payload["decision"])
                facts["whole"] = len(payload["decision"]["rows"]) == self._proposed
            self.marks.append(Mark(seq, time, actor, role, kind, facts, self.issued))

    def _doubt(self, report: dict[str, Any], time: str) -> None:
        """Note what is unlikely in a report, and count the rest as seen."""
        self._look_up_plan(report["number"])
        terms, plan = self.reader.terms, self.plan(report["number"])
        if unlikely := self.seen.unlikely(report, terms, plan):
            self.doubted[report["number"]] = time, self.seen.words(report, terms, plan)
        self.seen.add(report, terms, unlikely, plan)

    def _agree(self, number: int) -> None:
        """Note that no report contradicts the one of a ticket any more."""
        self.contradicted.pop(number, None)
        self._sent.pop(number, None)

    def _veto(self, kind: str, payload: dict[str, Any]) -> None:
        """Note which actions are forbidden, or allowed again."""
        if not (payload.get("rows") and payload.get("actions")):
            return
        places = {(h, x, a) for h, x in payload["rows"] for a in payload["actions"]}
        if kind == "lifted":
            self.forbidden -= places
        elif kind == "vetoed" or payload.get("forever"):
            self.forbidden |= places

    def has_plan(self, number: int) -> bool:
        """Whether the plan of a ticket is known, if there is one."""
        no_plans = self.policy_of is None or not self.reader.terms.has_rows
        return no_plans or (number <= self.issued and self._version_of(number) in self._given)

    def plan(self, number: int) -> VersionPlan | None:
        """What the version of a ticket gives; None with features, or where it is not known."""
        version = self._version_of(number)
        given = self._given.get(version) if number <= self.issued else None
        return None if given is None else VersionPlan(version, given, self.forbidden)

    def _look_up_plan(self, number: int) -> None:
        """Look up what the version of a ticket gives in each row, unless the ledger fails."""
        version, terms = self._version_of(number), self.reader.terms
        if self.policy_of is None or self.has_plan(number):
            return
        with suppress(LedgerError):
            policy = self.policy_of(version)
            H, S = policy.shape[1:]
            given = np.zeros((H, S, terms.actions), dtype=bool)
            for table in policy:
                given[np.arange(H)[:, None], np.arange(S)[None], table] = True
            self._given[version] = given
        if len(self._given) > _PLANS:
            del self._given[min(self._given)]

    def _trial_rows(self, decision: dict[str, Any]) -> list[list[int]]:
        """The rows of a decision in which only the trial of the last proposal differs."""
        return [row for row in decision["rows"] if tuple(row) in self._in_trial]

    def _version_of(self, number: int) -> int:
        """The version of a ticket."""
        return bisect.bisect_right(self._firsts, number)

    def _amend(self, payload: dict[str, Any], time: str) -> None:
        """Remove the corrected report and add the right one."""
        version, instead = self._version_of(payload["number"]), payload.get("instead")
        site, is_new = self.reader.store.ticket_numbered(payload["number"]).site, True
        kept = self.returns.setdefault(version, Returns())
        its = self.sites.setdefault(site, Site())
        both = (kept, its.of(version))
        if instead is not None:
            before = payload_of(*self.reader.store.event(instead))
            is_new = before["ended"] == "missing"
            if not is_new:
                for returns in both:
                    returns.add(_return(before), -1)
        its.reports += is_new  # late, or entered by the office
        its.last = its.last or time
        for returns in both:
            returns.add(_return(payload))

    # ---- what the pages ask ----------------------------------------------------------------------

    def versions(self) -> list[Mark]:
        """The events that made the versions, in their order."""
        return [mark for mark in self.marks if makes_version(mark.kind, mark.facts)]

    def decisions(self) -> list[Mark]:
        """The decisions of people, in order."""
        return [mark for mark in self.marks if KINDS[mark.kind].is_decision]

    def listed(self) -> list[Mark]:
        """The decisions of people, and who ended the holds of held places, in order."""
        return [
            mark for mark in self.marks if KINDS[mark.kind].is_decision or mark.facts.get("held")
        ]

    @property
    def last_operator(self) -> str:
        """The operator who last decided or requested something; empty if none has."""
        names = (mark.actor for mark in reversed(self.marks) if mark.role == OPERATOR)
        return next(names, "")

    @property
    def quorum(self) -> int:
        """How many reviewers must agree, when the last event was read."""
        changed = (mark.facts["quorum"] for mark in reversed(self.marks) if mark.kind == "quorum")
        return next(changed, self.reader.terms.quorum)

    @property
    def frozen(self) -> bool:
        """Whether the run was paused when the last event was read."""
        for mark in reversed(self.marks):
            if mark.kind == "frozen":
                return True
            if mark.kind == "thawed":
                return False
        return False

    @property
    def ended(self) -> bool:
        """Whether the run had ended when the last event was read."""
        return any(mark.kind == "ended" for mark in reversed(self.marks))

    def spans(self, issued: int) -> list[tuple[int, int]]:
        """The first and the last ticket of each version."""
        ends = [first - 1 for first in self._firsts[1:]] + [issued]
        return list(zip(self._firsts, ends, strict=True))

    def reported(self) -> list[tuple[str, Site]]:
        """The sites that have reported, by their names."""
        return sorted(self.sites.items())

    def proposals(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == "proposed"]

    def origin(self, proposed: int) -> int:
        """The event of the proposal that another one (by its event) is the rest of, or its own."""
        found = proposed
        while (mark := self.before(found)) is not None and mark.seq == found - 1:
            earlier, made = self.before(found, "proposed"), self.before(found + 1)
            if "proposal" not in mark.facts or earlier is None or made is None:
                break
            if earlier.facts["told"] != made.facts.get("told"):
                break
            found = earlier.seq
        return found

    def before(self, seq: int, kind: str | None = None) -> Mark | None:
        """The last mark before an event, of any kind or of one."""
        at = bisect.bisect_left(self.marks, seq, key=lambda mark: mark.seq)
        earlier = (self.marks[i] for i in range(at - 1, -1, -1))
        return next((mark for mark in earlier if kind in (None, mark.kind)), None)

    def in_a_row(self, mark: Mark) -> int:
        """How many events like this one the same person caused one after another, up to it."""
        at, count = bisect.bisect_left(self.marks, mark.seq, key=lambda one: one.seq), 0
        while at - count >= 0:
            one = self.marks[at - count]
            if (one.seq, one.kind, one.actor) != (mark.seq - count, mark.kind, mark.actor):
                break
            count += 1
        return count

    def after(self, seq: int) -> Mark | None:
        """The first mark after an event."""
        at = bisect.bisect_right(self.marks, seq, key=lambda mark: mark.seq)
        return self.marks[at] if at < len(self.marks) else None


def _in_trial(rows: list[dict[str, Any]]) -> frozenset[tuple[int, int]]:
    """The proposed rows whose first policy, which may be a protocol, does not change."""
    tables = [row for row in rows if "from" in row]
    return frozenset((r["step"], r["state"]) for r in tables if r["from"][0] == r["to"][0])


def _report(payload: dict[str, Any]) -> tuple[Any, ...]:
    """What a report says, without the probabilities of its actions."""
    return tuple(canonical(payload[name]) for name in ("states", "actions", "rewards", "ended"))


def _return(payload: dict[str, Any]) -> float:
    return float(sum(payload["rewards"]))


def _facts(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The short parts of a payload."""
    if kind == "proposed":
        return {"rows": len(payload["rows"])} | {
            name: payload[name] for name in ("version", "told")
        }
    if kind == "deployed":
        return {"changes": len(payload["changes"]), "version": payload["version"]}
    names = (
        *("reason", "rows", "version", "forever", "visits", "to", "number", "proposal", "source"),
        *("date", "early", "part", "share", "actions", "instead", "quorum", "motion", "kind"),
        *("confirmed", "decision", "was", "until", "kept", "held", "holds"),
    )
    return {name: payload[name] for name in names if name in payload}
