"""The gate between what a learner wants and what is deployed, for all kinds of learners.

Where the gate is in review, rows that are due become a proposal. Nothing is deployed before it is
approved, whole or row by row. There is one proposal at a time: rows that become due meanwhile wait,
and are looked at again once it is decided. A row that is rejected for now is held at what it plays,
and its value is that of what it plays. An action that is rejected for ever leaves the mask, and
values are maxima over what is left.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowswitch.checks import require_count
from lowswitch.history import History
from lowswitch.kernels.arrays import REVIEW, WAITING
from lowswitch.learners.knowledge import Knowledge
from lowswitch.review.decisions import require_budget, require_pending, require_thawed

Row = tuple[int, int]  # step and state


@dataclass(frozen=True)
class ProposedRow:
    """One row of a proposal: what each member of the policy plays now, and would play."""

    step: int
    state: int
    now: tuple[int, ...]
    proposed: tuple[int, ...]

    @property
    def row(self) -> Row:
        return self.step, self.state

    @property
    def law_now(self) -> dict[int, float]:
        """How often each action is played now; of one policy it is one action with share 1."""
        return _law(self.now)

    @property
    def law_proposed(self) -> dict[int, float]:
        """How often each action would be played."""
        return _law(self.proposed)

    @property
    def new_actions(self) -> tuple[int, ...]:
        """The actions that the row would play and does not play now."""
        return tuple(sorted({*self.proposed} - {*self.now}))

    @property
    def is_switch(self) -> bool:
        """Whether how often each action is played would change."""
        return sorted(self.now) != sorted(self.proposed)


@dataclass(frozen=True)
class Proposal:
    """Rows that a learner would change, made for one deployed policy after so many episodes."""

    number: int  # from 1
    told: int  # episodes
    base: str  # the identity of the policy that was deployed
    rows: tuple[ProposedRow, ...]

    @functools.cached_property
    def hash(self) -> str:
        """What a decision is bound to: a digest of everything above."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Proposal({self.number}, {len(self.rows)} rows, {self.hash[:12]})"


@dataclass
class Gate:
    """What waits for a decision, and what was decided, of one learner in review."""

    pending: Proposal | None = None
    waiting: set[Row] = field(default_factory=set)  # became due while something was pending
    holds: dict[Row, int | None] = field(default_factory=dict)  # ends at so many visits of the row
    raised: int = 0  # proposals so far, those that replaced another one included
    replaces: bool = False  # the next proposal replaces one that nobody decided on, so it is free
    paused: bool = False
    applied: int = 0  # deployments
    applied_rows: int = 0  # local switches
    # the number of episodes after which the learner last might propose, and wanted nothing
    nothing_wanted_at: int | None = None

    # ---- what happens while episodes are told ----------------------------------------------------

    def set_mode(self, knowledge: Knowledge) -> None:
        """Tell the kernels whether rows that are due are put to the board, or wait."""
        free = self.pending is None and not (self.paused or self.replaces or self.holds)
        knowledge.set_gate(REVIEW if free else WAITING)

    def at_once(self, episodes: int) -> int:
        """How many episodes may be learned in one go: where rows are held, each is looked at."""
        return min(1, episodes) if self.holds else episodes

    def before_episode(self, knowledge: Knowledge, told: int) -> None:
        """End the holds that last until all rows may change, if they may after this episode."""
        if any(end is None for end in self.holds.values()) and knowledge.on_grid(told + 1):
            self.release_dateless(knowledge)

    def after_episode(self, knowledge: Knowledge, changes: np.ndarray, told: int) -> None:
        """Take in the rows that were logged, and see which holds are over."""
        if len(changes) and knowledge.spec.timing.gate == REVIEW:  # the kernel has counted it
            self._raise(knowledge, changes, told)
        else:
            self.waiting.update(row for row in proposed_rows(changes) if row not in self.holds)
        for row, end in list(self.holds.items()):
            if end is not None and knowledge.row_visits(*row) >= end:
                self._release(knowledge, row)
                self.waiting.add(row)
            elif not knowledge.learns_forbidden:
                knowledge.hold(*row)  # what was told off-policy may have loosened it
        self.look_again(knowledge, told)

    def after_date(self, date: int) -> None:
        """Note whether a date has passed on which nothing was wanted."""
        wanted = self.pending is not None or self.waiting
        self.nothing_wanted_at = None if wanted else date

    def look_again(self, knowledge: Knowledge, told: int) -> None:
        """Propose what waited, once nothing is pending."""
        if self.pending is not None or self.paused or not self.waiting:
            self.set_mode(knowledge)
            return
        rows, self.waiting = self.waiting, set()
        free = self.replaces
        self.replaces = False
        if free or not knowledge.frozen:
            knowledge.set_gate(WAITING)
            changes = knowledge.recheck(sorted(rows), told)
            self._put(knowledge, changes, told, free=free)
        self.set_mode(knowledge)

    # ---- proposals -------------------------------------------------------------------------------

    def propose(
        self, knowledge: Knowledge, told: int, *, keep_holds: bool = False
    ) -> Proposal | None:
        """Propose every row that the learner would change now; what was pending is replaced.

        Holds that last until all rows may change end here, unless they are kept.
        """
        require_thawed(self.paused, "proposed")
        free = self.pending is not None or self.replaces
        require_budget(knowledge.frozen and not free)
        self.pending, self.replaces = None, False
        self.waiting.clear()
        if not keep_holds:
            self.release_dateless(knowledge)
        knowledge.set_gate(WAITING)
        self.nothing_wanted_at = told  # until something is raised
        self._put(knowledge, knowledge.wanted_rows(told), told, free=free)
        self.replaces = free and self.pending is None
        self.set_mode(knowledge)
        return self.pending

    def _put(self, knowledge: Knowledge, changes: np.ndarray, told: int, *, free: bool) -> None:
        """Put rows to the board as far as the budget goes, and count that."""
        changes = changes[[row not in self.holds for row in proposed_rows(changes)]]
        if not free:
            changes = knowledge.put(changes)
        if len(changes):
            self._raise(knowledge, changes, told)

    def _raise(self, knowledge: Knowledge, changes: np.ndarray, told: int) -> None:
        deployed = knowledge.policy()
        rows = tuple(
            ProposedRow(h, x, tuple(deployed.actions[:, h, x].tolist()), tuple(wanted))
            for _, h, x, *wanted in changes.tolist()
        )
        self.raised += 1
        self.pending = Proposal(self.raised, told, deployed.identity, rows)
        self.nothing_wanted_at = None
        knowledge.set_gate(WAITING)

    def withdraw(self) -> None:
        """Take back what is pending; its rows wait, and proposing them again costs nothing."""
        if self.pending is not None:
            self.waiting.update(row.row for row in self.pending.rows)
            self.pending, self.replaces = None, True

    # ---- decisions -------------------------------------------------------------------------------

    def chosen(
        self, proposal: Proposal | str | None, rows: Iterable[Row] | None
    ) -> tuple[Proposal, list[ProposedRow]]:
        """The pending proposal and those of its rows that a decision is about."""
        pending = require_pending(self.pending, proposal)
        by_row = {row.row: row for row in pending.rows}
        if rows is None:
            return pending, list(by_row.values())
        pairs = [(step, state) for step, state in rows]
        for pair in pairs:
            if pair not in by_row:
                raise ValueError(f"row {pair} is not proposed; the rows are {sorted(by_row)}")
        if not pairs or len(set(pairs)) < len(pairs):
            raise ValueError(f"name each row once, and at least one, not {pairs}")
        return pending, [by_row[pair] for pair in pairs]

    def approve(self, knowledge: Knowledge, rows: Sequence[ProposedRow], told: int) -> History:
        """Deploy rows of the pending proposal."""
        require_thawed(self.paused, "deployed")
        changes = [(told - 1, row.step, row.state, *row.proposed) for row in rows]
        for row in rows:
            knowledge.install(row.step, row.state, row.proposed)
        self.applied += 1
        self.applied_rows += sum(row.is_switch for row in rows)
        self._settle(knowledge, rows, told)
        return History(np.array(changes, dtype=np.int64))

    def reject(
        self,
        knowledge: Knowledge,
        rows: Sequence[ProposedRow],
        told: int,
        *,
        forever: bool,
        visits: int | None,
    ) -> None:
        """Let rows of the pending proposal stay as they are: for now, or the new actions never."""
        for row in rows:
            if forever and not row.new_actions:
                raise ValueError(
                    f"row {row.row} would play the same actions in other shares, so there is no"
                    " action to forbid; reject it for now"
                )
        for row in rows:
            if forever:
                for action in row.new_actions:
                    knowledge.forbid(row.step, row.state, action)
                knowledge.install(row.step, row.state, row.now)
            else:
                self.hold(knowledge, row.row, visits)
        self._settle(knowledge, rows, told)

    def _settle(self, knowledge: Knowledge, rows: Sequence[ProposedRow], told: int) -> None:
        """Take decided rows off the pending proposal; those left are proposed as a new one."""
        if self.pending is None:
            return
        decided = {row.row for row in rows}
        left = tuple(row for row in self.pending.rows if row.row not in decided)
        self.waiting -= decided
        if left:
            self.raised += 1
            self.pending = Proposal(
                self.raised, self.pending.told, knowledge.policy().identity, left
            )
        else:
            self.pending = None
        self.look_again(knowledge, told)

    # ---- holds and freezing ----------------------------------------------------------------------

    def hold(self, knowledge: Knowledge, row: Row, visits: int | None) -> None:
        """Keep a row as it is until its next trigger, or for so many visits."""
        given = None if visits is None else require_count("visits", visits)
        more = knowledge.next_trigger(*row) if given is None else given
        self.holds[row] = None if more is None else knowledge.row_visits(*row) + more
        knowledge.hold(*row)

    def _release(self, knowledge: Knowledge, row: Row) -> None:
        del self.holds[row]
        knowledge.release(*row)

    def release_dateless(self, knowledge: Knowledge) -> None:
        """End the holds that last until all rows may change."""
        for row in [row for row, end in self.holds.items() if end is None]:
            self._release(knowledge, row)

    def freeze(self, knowledge: Knowledge) -> None:
        """Let nothing be proposed or approved; learning goes on."""
        self.paused = True
        self.set_mode(knowledge)

    def thaw(self, knowledge: Knowledge, told: int) -> None:
        """Go on, with what became due meanwhile."""
        self.paused = False
        self.look_again(knowledge, told)

    def install(
        self, knowledge: Knowledge, policies: np.ndarray, told: int, *, hold: bool
    ) -> History | None:
        """Deploy other policies [members, H, S] by hand; hold the rows that this changes."""
        before = knowledge.policy().actions
        rows = [(int(h), int(x)) for h, x in np.argwhere((before != policies).any(axis=0))]
        if not rows:
            return None
        self.withdraw()
        self.nothing_wanted_at = None  # what it wanted or not was about another policy
        for h, x in rows:
            knowledge.install(h, x, tuple(policies[:, h, x].tolist()))
        if hold:
            for row in rows:
                self.hold(knowledge, row, None)
        self.waiting -= set(rows)
        self.applied += 1
        changes = [(told - 1, h, x, *policies[:, h, x].tolist()) for h, x in rows]
        self.applied_rows += sum(
            sorted(before[:, h, x].tolist()) != sorted(policies[:, h, x].tolist()) for h, x in rows
        )
        self.look_again(knowledge, told)
        return History(np.array(changes, dtype=np.int64))

    # ---- keeping ---------------------------------------------------------------------------------

    def undo(self, knowledge: Knowledge) -> Callable[[], None]:
        """Remember everything but the tables; the result puts it back."""
        before, spec = copy.copy(self), knowledge.copied_spec()
        before.waiting, before.holds = set(self.waiting), dict(self.holds)

        def put_back() -> None:
            self.__dict__.update(before.__dict__)
            knowledge.spec = spec

        return put_back

    def to_dict(self) -> dict[str, Any]:
        """The gate as JSON can hold it; digests of learners stay where nothing is to be noted."""
        facts = dataclasses.asdict(self)
        if self.nothing_wanted_at is None:
            del facts["nothing_wanted_at"]
        facts["waiting"] = sorted(self.waiting)
        facts["holds"] = sorted([*row, end] for row, end in self.holds.items())
        return facts

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Gate:
        """The gate that `to_dict` wrote."""
        pending = facts["pending"]
        if pending is not None:
            rows = tuple(
                ProposedRow(row["step"], row["state"], tuple(row["now"]), tuple(row["proposed"]))
                for row in pending["rows"]
            )
            pending = Proposal(pending["number"], pending["told"], pending["base"], rows)
        return cls(
            **facts
            | {
                "pending": pending,
                "waiting": {(h, x) for h, x in facts["waiting"]},
                "holds": {(h, x): end for h, x, end in facts["holds"]},
            }
        )


def proposed_rows(changes: np.ndarray) -> list[Row]:
    """The rows of logged changes, in order."""
    return [(int(h), int(x)) for h, x in changes[:, 1:3]]


def _law(actions: tuple[int, ...]) -> dict[int, float]:
    return {action: n / len(actions) for action, n in sorted(Counter(actions).items())}
