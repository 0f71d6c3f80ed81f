"""The gate between a learner and the deployed policy.

In review, changes that are due become a proposal, and nothing is deployed until the board approves
it. There is one proposal at a time. Changes that become due meanwhile wait, and are computed again
from all data once the first proposal is decided. The gate works with any kind of knowledge: the
parts of a proposal are rows of a table, or a whole policy on features.

A row that is rejected for now is held: its value is the value of its current action, and it is not
due until the hold ends: after a number of visits, or of episodes, or else when all rows may change.
An action that is rejected for ever leaves the mask, so values are maxima over the remaining
actions.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lowswitch.checks import require_count
from lowswitch.policy.members import Part
from lowswitch.review.decisions import require_budget, require_pending, require_thawed
from lowswitch.review.proposals import WHOLE, Key

Parts = Mapping[Key, Any]


class Hold(NamedTuple):
    """When a held row may be proposed again; if neither is known, on the next request or date."""

    visits: int | None  # after so many more visits of this row
    told: int | None  # once so many episodes are told


class Knowledge(Protocol):
    """The interface of a learner's knowledge that the gate needs.

    Changes are the wishes of the learner before they become a proposal: an array or a list, empty
    if it wants nothing.
    """

    @property
    def frozen(self) -> bool:
        """Whether a budget is spent."""

    @property
    def has_put(self) -> bool:
        """Whether learning has already counted due changes as proposed."""

    @property
    def learns_forbidden(self) -> bool:
        """Whether steps with an action that was forbidden later may be learned."""

    @property
    def holds_rows(self) -> bool:
        """Whether rows can be held."""

    def policy(self) -> Any:
        """A copy of the deployed policy."""

    def set_review(self, free: bool) -> None:
        """Set whether due changes may be proposed, or must wait."""

    def undo_review(self) -> Callable[[], None]:
        """Remember what `set_review` and holds change; calling the result restores it."""

    def on_grid(self, episodes: int) -> bool:
        """Whether all rows may change after this number of episodes."""

    def keys(self, changes: Any) -> list[Key]:
        """The keys of the changes, in order."""

    def wanted(self, told: int, *, free: bool) -> Any:
        """The changes wanted after `told` episodes; nothing is deployed or counted.

        free: whether they replace a proposal that the budget has already counted.
        """

    def recheck(self, rows: Sequence[Any], told: int, *, free: bool) -> Any:
        """The changes wanted now, if these keys became due earlier."""

    def put(self, changes: Any) -> Any:
        """Count a proposal to the board; return the changes that the budget allows."""

    def proposal(self, number: int, told: int, changes: Any) -> Any:
        """The proposal of these changes."""

    def parts_to(self, policy: Any) -> Parts:
        """The parts in which a policy differs from the deployed one."""

    def limited(self, parts: Parts, *, part: Part | None, share: float | None) -> Parts:
        """The parts to deploy if only part of a proposal, or a smaller trial, is approved."""

    @property
    def floor(self) -> float | None:
        """The share of the initial policy's value that every deployment must keep, if any."""

    def at_floor(self, parts: Parts, floor: float, told: int) -> Any:
        """Whether the policy that these parts lead to keeps to a floor: an `AtFloor`, or None if it
        has no protocol.
        """

    def deploy(self, parts: Iterable[Any], told: int) -> tuple[Any, int]:
        """Deploy parts of a proposal; return the change as the learner reports it.

        Also return the number of switches, which the budget already counted when they were
        proposed.
        """

    def forbid_new(self, parts: Iterable[Any], actions: Iterable[int] | None) -> None:
        """Forbid the actions that these parts would newly play, or the named ones."""

    def rows_without(
        self, rows: Iterable[Key], actions: Iterable[int], instead: int | None
    ) -> Parts:
        """The parts that must change so that none of these actions is deployed in these rows."""

    def forbid(self, step: int, state: int, action: int) -> None:
        """Remove an action that is not deployed from the mask."""

    def permit(self, step: int, state: int, action: int) -> None:
        """Put a forbidden action back on the mask."""

    def hold(self, step: int, state: int) -> None:
        """Keep the action of a row: its value becomes the value of that action, and it is not
        due.
        """

    def release(self, step: int, state: int) -> None:
        """End a hold."""

    def next_trigger(self, step: int, state: int) -> int | None:
        """After how many more visits a row has a trigger, if it has one."""

    def row_visits(self, step: int, state: int) -> int:
        """The number of visits to a row."""


@dataclass
class Gate:
    """The pending proposal and the decisions of one learner in review."""

    pending: Any = None  # a Proposal or a LinearProposal
    waiting: set[Key] = field(default_factory=set)  # became due while something was pending
    holds: dict[Key, int | None] = field(default_factory=dict)  # the visits at which a hold ends
    until: dict[Key, int] = field(default_factory=dict)  # episodes at which a hold ends instead
    raised: int = 0  # proposals so far, including replacements
    replaces: bool = False  # the next proposal replaces an undecided one, so it is free
    paused: bool = False
    applied: int = 0  # deployments
    applied_rows: int = 0  # local switches
    # the number of episodes at which the learner could last propose, and wanted nothing
    nothing_wanted_at: int | None = None
    # whether the next proposal stays free even if nothing was wanted when the last one was
    # withdrawn; ledgers of earlier versions counted it then
    stays_free: bool = True

    # ---- what happens while episodes are told ----------------------------------------------------

    def set_mode(self, knowledge: Knowledge) -> None:
        """Tell the knowledge whether due changes are proposed, or wait."""
        free = self.pending is None and not (self.paused or self.replaces or self.holds)
        knowledge.set_review(free)

    def at_once(self, episodes: int) -> int:
        """How many episodes may be learned at once: one at a time if rows are held."""
        return min(1, episodes) if self.holds else episodes

    def before_episode(self, knowledge: Knowledge, told: int) -> None:
        """End the holds that are over after this episode, because of its number or of a date."""
        for row in [row for row, end in self.until.items() if end <= told + 1]:
            self._release(knowledge, row)
        if any(end is None for end in self.holds.values()) and knowledge.on_grid(told + 1):
            self.release_dateless(knowledge)

    def after_episode(self, knowledge: Knowledge, changes: Any, told: int) -> None:
        """Take in the changes that became due, and end the holds that are over."""
        if len(changes) and knowledge.has_put:
            self._raise(knowledge, changes, told)
        else:
            self.waiting.update(key for key in knowledge.keys(changes) if key not in self.holds)
        for row, end in list(self.holds.items()):
            if end is not None and knowledge.row_visits(*row) >= end:
                self._release(knowledge, row)
                self.waiting.add(row)
            elif not knowledge.learns_forbidden:
                knowledge.hold(*row)  # off-policy episodes may have released it
        self.look_again(knowledge, told)

    def after_date(self, date: int) -> None:
        """Note a date on which the learner wanted nothing."""
        wanted = self.pending is not None or self.waiting
        self.nothing_wanted_at = None if wanted else date

    def look_again(self, knowledge: Knowledge, told: int) -> None:
        """Propose the waiting changes, if nothing is pending."""
        if self.pending is not None or self.paused or not self.waiting:
            self.set_mode(knowledge)
            return
        rows, self.waiting = self.waiting, set()
        free = self.replaces
        self.replaces = False
        if free or not knowledge.frozen:
            knowledge.set_review(False)
            self._put(knowledge, knowledge.recheck(sorted(rows), told, free=free), told, free=free)
            self.replaces = free and self.pending is None and self.stays_free
        self.set_mode(knowledge)

    # ---- proposals -------------------------------------------------------------------------------

    def propose(
        self, knowledge: Knowledge, told: int, *, keep_holds: bool = False, held: bool = False
    ) -> Any:
        """Propose everything that the learner would change now; a pending proposal is replaced.

        Holds that last until all rows may change end here, unless `keep_holds`. If `held`, all
        holds end.
        """
        require_thawed(self.paused, "proposed")
        free = self.pending is not None or self.replaces
        require_budget(knowledge.frozen and not free)
        self.pending, self.replaces = None, False
        self.waiting.clear()
        if held:
            for row in list(self.holds):
                self._release(knowledge, row)
        elif not keep_holds:
            self.release_dateless(knowledge)
        knowledge.set_review(False)
        self.nothing_wanted_at = told  # until there is a proposal
        self._put(knowledge, knowledge.wanted(told, free=free), told, free=free)
        self.replaces = free and self.pending is None
        self.set_mode(knowledge)
        return self.pending

    def _put(self, knowledge: Knowledge, changes: Any, told: int, *, free: bool) -> None:
        """Propose changes as far as the budget allows, and count them."""
        if self.holds:
            changes = changes[[key not in self.holds for key in knowledge.keys(changes)]]
        if len(changes) and not free:
            changes = knowledge.put(changes)
        if len(changes):
            self._raise(knowledge, changes, told)

    def _raise(self, knowledge: Knowledge, changes: Any, told: int) -> None:
        self.raised += 1
        self.pending = knowledge.proposal(self.raised, told, changes)
        self.nothing_wanted_at = None
        knowledge.set_review(False)

    def withdraw(self) -> None:
        """Withdraw the pending proposal; its parts wait, and proposing them again is free."""
        if self.pending is not None:
            self.waiting.update(self.pending.parts)
            self.pending, self.replaces = None, True

    # ---- decisions -------------------------------------------------------------------------------

    def chosen(self, proposal: Any, keys: Iterable[Key] | None) -> Parts:
        """The parts of the pending proposal that a decision refers to."""
        parts: Parts = require_pending(self.pending, proposal).parts
        if keys is None:
            return parts
        if WHOLE in parts:
            raise ValueError(
                "a policy on features can only be decided on as a whole; leave rows out"
            )
        named = [(step, state) for step, state in keys]
        for key in named:
            if key not in parts:
                raise ValueError(f"row {key} is not proposed; the rows are {sorted(parts)}")
        if not named or len(set(named)) < len(named):
            raise ValueError(f"name each row once, and at least one, not {named}")
        return {key: parts[key] for key in named}

    def approve(
        self,
        knowledge: Knowledge,
        parts: Parts,
        told: int,
        *,
        part: Part | None = None,
        share: float | None = None,
    ) -> Any:
        """Deploy parts of the pending proposal: of its protocol, of its trial, or of both."""
        require_thawed(self.paused, "deployed")
        made = self._deploy(knowledge, _approved(knowledge, parts, part, share), told)
        self._settle(knowledge, parts, told)
        return made

    def require_floor(
        self,
        knowledge: Knowledge,
        parts: Parts,
        told: int,
        *,
        part: Part | None = None,
        share: float | None = None,
    ) -> None:
        """Raise a ValueError if an approval would deploy something below the floor.

        A proposal of rows may lack some that were rejected or held, so it is always checked. A
        policy without rows was checked when it was proposed, with its trial.
        """
        if knowledge.floor is None or not (knowledge.holds_rows or part is not None):
            return
        deployed = _approved(knowledge, parts, part, share)
        knowledge.at_floor(deployed, knowledge.floor, told).require()

    def floor_warning(self, knowledge: Knowledge, policy: Any, told: int) -> str | None:
        """What today's data say against a policy, by default the deployed one, if it lies below
        the floor.
        """
        if knowledge.floor is None:
            return None
        parts: Parts = {} if policy is None else knowledge.parts_to(policy)
        law = knowledge.at_floor(parts, knowledge.floor, told)
        found: str | None = law.warning("another version may keep it") if law else None
        return found

    def _deploy(self, knowledge: Knowledge, parts: Parts, told: int) -> Any:
        """Deploy parts, and count the deployment."""
        made, switches = knowledge.deploy(parts.values(), told)
        self.applied += 1
        self.applied_rows += switches
        return made

    def reject(
        self,
        knowledge: Knowledge,
        parts: Parts,
        told: int,
        *,
        forever: bool,
        visits: int | None,
        actions: Iterable[int] | None,
        until: int | None = None,
    ) -> None:
        """Keep parts of the pending proposal as deployed: for now, or by forbidding the new
        actions.
        """
        if visits is not None and (forever or not knowledge.holds_rows):
            what = "a forbidden action" if forever else "a policy on features"
            raise ValueError(
                f"visits sets how long a row is held, and {what} is not held; leave it out"
            )
        if forever:
            knowledge.forbid_new(parts.values(), actions)
        elif knowledge.holds_rows:
            for key in parts:
                self.hold(knowledge, key, visits, until)
        self._settle(knowledge, parts, told)

    def _settle(self, knowledge: Knowledge, parts: Parts, told: int) -> None:
        """Remove decided parts from the pending proposal; the rest becomes a new proposal."""
        if self.pending is None:
            return
        if knowledge.holds_rows:  # a policy without rows became due again as another one
            self.waiting -= parts.keys()
        left = self.pending.without(parts, self.raised + 1, knowledge.policy().identity)
        self.raised += left is not None
        self.pending = left
        self.look_again(knowledge, told)

    # ---- holds and freezing ----------------------------------------------------------------------

    def hold(
        self, knowledge: Knowledge, row: Key, visits: int | None, until: int | None = None
    ) -> None:
        """Keep a row as it is until its next trigger, or for `visits` more visits.

        until: the number of episodes at which the hold of a row without a trigger ends.
        """
        given = None if visits is None else require_count("visits", visits)
        more = knowledge.next_trigger(*row) if given is None else given
        self.holds[row] = None if more is None else knowledge.row_visits(*row) + more
        self.until.pop(row, None)
        if more is None and until is not None:
            self.until[row] = until
        knowledge.hold(*row)

    def _release(self, knowledge: Knowledge, row: Key) -> None:
        del self.holds[row]
        self.until.pop(row, None)
        knowledge.release(*row)

    def release_dateless(self, knowledge: Knowledge) -> None:
        """End the holds that last until all rows may change."""
        for row in [row for row, end in self.holds.items() if end is None]:
            if row not in self.until:
                self._release(knowledge, row)

    def freeze(self, knowledge: Knowledge) -> None:
        """Propose and approve nothing; learning continues."""
        self.paused = True
        self.set_mode(knowledge)

    def thaw(self, knowledge: Knowledge, told: int) -> None:
        """Resume, with the changes that became due meanwhile."""
        self.paused = False
        self.look_again(knowledge, told)

    def install(
        self, knowledge: Knowledge, policy: Any, told: int, *, hold: bool, until: int | None = None
    ) -> Any:
        """Deploy another policy by hand, and hold the rows that change."""
        parts: Parts = knowledge.parts_to(policy)
        if not parts:
            return None
        self.withdraw()
        self.nothing_wanted_at = None  # it referred to another policy
        made = self._deploy(knowledge, parts, told)
        if hold and knowledge.holds_rows:
            for row in parts:
                self.hold(knowledge, row, None, until)
        self.waiting -= parts.keys()
        self.look_again(knowledge, told)
        return made

    def cap_trial(self, knowledge: Knowledge, share: float, told: int) -> Any:
        """Let a smaller share of the cases enter the trial; this switches no row."""
        parts = knowledge.limited({}, part=None, share=share)
        if not parts:
            return None
        self.withdraw()
        switches = self.applied_rows
        made = self._deploy(knowledge, parts, told)
        self.applied_rows = switches
        for row in parts:
            if row in self.holds:
                knowledge.hold(*row)  # at its current action, as a restored learner has it
        self.look_again(knowledge, told)
        return made

    def forbid(
        self,
        knowledge: Knowledge,
        rows: Sequence[Key],
        actions: Sequence[int],
        instead: int | None,
        told: int,
    ) -> Any:
        """Forbid actions in rows, even deployed ones; a pending proposal is made again."""
        parts = knowledge.rows_without(rows, actions, instead)
        self.withdraw()
        made = self._deploy(knowledge, parts, told) if parts else None
        for row in rows:
            for action in actions:
                knowledge.forbid(*row, action)
            if row in self.holds:
                knowledge.hold(*row)
        self.look_again(knowledge, told)
        return made

    def lift(self, knowledge: Knowledge, rows: Sequence[Key], actions: Sequence[int]) -> None:
        """Allow forbidden actions again; the learner may propose them from its next plan on."""
        for row in rows:
            for action in actions:
                knowledge.permit(*row, action)
            if row in self.holds:
                knowledge.hold(*row)

    # ---- saving ----------------------------------------------------------------------------------

    def undo(self, knowledge: Knowledge) -> Callable[[], None]:
        """Remember everything except the tables; calling the result restores it."""
        before, put_back_spec = copy.copy(self), knowledge.undo_review()
        before.waiting, before.holds = set(self.waiting), dict(self.holds)
        before.until = dict(self.until)

        def put_back() -> None:
            self.__dict__.update(before.__dict__)
            put_back_spec()

        return put_back

    def to_dict(self) -> dict[str, Any]:
        """The gate as JSON can store it; fields with nothing to note are left out, so old digests
        stay valid.
        """
        facts = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        if self.nothing_wanted_at is None:
            del facts["nothing_wanted_at"]
        if self.stays_free:
            del facts["stays_free"]
        facts["pending"] = None if self.pending is None else self.pending.facts()
        facts["waiting"] = sorted(self.waiting)
        facts["holds"] = sorted([*row, end] for row, end in self.holds.items())
        facts["until"] = sorted([*row, end] for row, end in self.until.items())
        if not self.until:
            del facts["until"]
        return facts

    @classmethod
    def from_dict(cls, facts: dict[str, Any], pending: Any) -> Gate:
        """Read a gate that `to_dict` wrote, with its pending proposal."""
        return cls(
            **facts
            | {
                "pending": pending,
                "waiting": {(h, x) for h, x in facts["waiting"]},
                "holds": {(h, x): end for h, x, end in facts["holds"]},
                "until": {(h, x): end for h, x, end in facts.get("until", [])},
            }
        )


def _approved(knowledge: Knowledge, parts: Parts, part: Part | None, share: float | None) -> Parts:
    """The policy to deploy if only some of these parts, or a smaller trial, are approved."""
    if part is None and share is None:
        return parts
    deployed = knowledge.limited(parts, part=part, share=share)
    if not deployed:
        raise ValueError(
            "that would not change the deployed policy; approve more of the proposal, or reject it"
        )
    return deployed
