"""The part of a learner that faces a board: proposals and decisions, for every kind of policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, get_args

import numpy as np

from lowswitch.checks import require_count, require_share, require_truth, require_word
from lowswitch.policy.members import Part
from lowswitch.review.decisions import require_review
from lowswitch.review.gate import Gate, Hold
from lowswitch.review.proposals import Key
from lowswitch.show.text import counted

Result = TypeVar("Result")


class Reviewed:
    """The proposals of a learner, and the decisions on them."""

    gate: str
    told: int
    _gate: Gate
    _knowledge: Any
    _deployed: Any
    _plain: bool  # whether it knows only whole episodes, and only its schedule deployed

    def _alone(self, what: str) -> AbstractContextManager[None]:
        """Refuse a second thread meanwhile."""
        raise NotImplementedError

    # ---- proposals -------------------------------------------------------------------------------

    def proposal(self) -> Any:
        """The pending proposal, or None."""
        return self._gate.pending

    def propose(self, *, held: bool = False) -> Any:
        """Propose everything that the learner would change now; return the proposal, or None.

        The schedule "asked" waits for this call; with any other schedule the proposal is
        additional. A pending proposal is replaced, and the budget counts both as one. If the gate
        is open, the proposal is deployed immediately. If the result is None, `why_nothing` says
        why.

        Parameters
        ----------
        held
            End all holds first, so that held rows can be proposed, too.
        """
        require_truth("held", held)

        def propose(gate: Gate, knowledge: Any) -> Any:
            made = gate.propose(knowledge, self.told, held=held)
            if made is not None and self.gate == "open":
                gate.approve(knowledge, made.parts, self.told)
            return made

        made = self._decide(propose)
        self._plain = False
        return made

    def make_up(self) -> Any:
        """Propose the changes wanted now, for a date that passed while another proposal was
        pending.

        Like `propose`, except that held rows stay held: they may change on the next date.
        """
        require_review(self.gate)
        return self._decide(
            lambda gate, knowledge: gate.propose(knowledge, self.told, keep_holds=True)
        )

    @property
    def dates(self) -> np.ndarray:
        """The future dates: numbers of episodes after which the whole policy may change.

        The list is empty if the budget is spent, or if rows change one by one.
        """
        dates: np.ndarray = self._knowledge.dates
        dates = dates[dates > self.told]
        dates.flags.writeable = False
        return dates

    def dates_passed(self, since: int) -> np.ndarray:
        """The dates that have passed since `since` episodes were told.

        Parameters
        ----------
        since
            The number of episodes.
        """
        passed: np.ndarray = self._knowledge.dates_between(since, self.told)
        return passed

    @property
    def nothing_wanted_at(self) -> int | None:
        """After how many episodes the learner could last propose, if it wanted nothing then."""
        return None if self._gate.pending is not None else self._gate.nothing_wanted_at

    @property
    def next_is_free(self) -> bool:
        """Whether the next proposal uses up none of the budget: it replaces one that is pending or
        was withdrawn.
        """
        return self._gate.pending is not None or self._gate.replaces

    def why_nothing(self) -> str | None:
        """Why no proposal is pending, in words, or None if one is."""
        if self.gate == "open":
            return "the gate is open, so every change is deployed at once"
        if self.proposal() is not None:
            return None
        if self.paused:
            return "the learner is frozen"
        if self._knowledge.frozen and not self._gate.replaces:
            return "the budget is spent, and the deployed policy stays"
        held, asked = _held_rows(len(self.held)), self._gate.nothing_wanted_at
        if asked is None:
            return "nothing is due, and nobody has asked" + held
        after = f"after {counted(asked, 'episode')}"
        if self._knowledge.exploits_next:
            return (
                "the next deployment is the last one, which plays the best known policy, "
                f"and {after} no policy was known to be better than the deployed one" + held
            )
        return f"{after} the learner did not want to change the deployed policy" + held

    # ---- decisions -------------------------------------------------------------------------------

    def approve(
        self,
        proposal: Any = None,
        *,
        rows: Iterable[Key] | None = None,
        part: Part | None = None,
        share: float | None = None,
    ) -> Any:
        """Deploy the pending proposal, or some of its rows (step, state); return the change.

        A policy on features can only be approved as a whole. If what is approved would earn less
        than the `floor` of the algorithm allows, nothing is deployed, and the error says what would
        keep it.

        Parameters
        ----------
        proposal
            The proposal that was examined, or its hash. If another one is pending by now, nothing
            is deployed.
        rows
            The rows to deploy; by default all.
        part
            With a protocol and a trial, change only the named one; the other stays as deployed.
        share
            At most this share of the cases enters the trial.
        """
        require_review(self.gate)
        limits = _checked_limits(part, share)
        chosen = self._gate.chosen(proposal, rows)

        def approve(gate: Gate, knowledge: Any) -> Any:
            gate.require_floor(knowledge, chosen, self.told, **limits)
            return gate.approve(knowledge, chosen, self.told, **limits)

        return self._decide(approve)

    def cap_trial(self, share: float) -> Any:
        """Let at most `share` of the cases enter the trial from now on; return the change.

        This is allowed at any time, even when the budget is spent. It counts as a deployment but
        not as a switch of a row. A pending proposal is withdrawn and made again. Returns None if
        the trial is not larger than `share`.

        Parameters
        ----------
        share
            The largest share; 0 ends the trial.
        """
        require_review(self.gate)
        limits = _checked_limits(None, share)
        return self._decide(
            lambda gate, knowledge: gate.cap_trial(knowledge, limits["share"], self.told)
        )

    def reject(
        self,
        proposal: Any = None,
        *,
        rows: Iterable[Key] | None = None,
        forever: bool = False,
        visits: int | None = None,
        actions: Iterable[int] | None = None,
        until: int | None = None,
    ) -> None:
        """Keep the deployed policy, or some rows (step, state) of it.

        Without `forever`, a row is held until its next trigger. If it has none, it is held until
        `until` episodes are told, or else until the next date or the next `propose()`. A policy on
        features is proposed again when the schedule says so; changes that became due meanwhile are
        proposed at once.

        Parameters
        ----------
        proposal
            The proposal that was examined, or its hash.
        rows
            The rows to keep; by default all.
        forever
            Never deploy the newly proposed actions there; the learner no longer hopes for anything
            from them. With features, named actions are forbidden at all steps; the deployed policy
            stays as it is.
        visits
            Hold the rows for this many more visits instead.
        actions
            With `forever`, which of the new actions to forbid.
        until
            The number of episodes at which the hold of a row without a trigger ends.
        """
        require_review(self.gate)
        require_truth("forever", forever)
        if actions is not None and not forever:
            raise ValueError(
                "actions names the actions to forbid: add forever=True, or leave it out"
            )
        chosen = self._gate.chosen(proposal, rows)
        self._decide(
            lambda gate, knowledge: gate.reject(
                *(knowledge, chosen, self.told),
                forever=forever,
                visits=visits,
                actions=actions,
                until=_checked_until(until),
            )
        )

    def forbid(
        self, rows: Iterable[Key], actions: Iterable[int], *, instead: int | None = None
    ) -> Any:
        """Never deploy these actions in rows (step, state) again.

        Returns the changes, or None if none of the actions was deployed there. A pending proposal
        is withdrawn and made again without the actions, at no cost to the budget.

        Parameters
        ----------
        rows
            The rows (step, state).
        actions
            The actions to forbid, whether or not they are deployed now.
        instead
            The new action of a row whose action is one of them.
        """
        require_review(self.gate)
        keys, named = self._checked_veto(rows, actions, [] if instead is None else [instead])
        return self._decide(
            lambda gate, knowledge: gate.forbid(knowledge, keys, named, instead, self.told)
        )

    def lift(self, rows: Iterable[Key], actions: Iterable[int]) -> None:
        """Allow actions again that a board forbade in rows (step, state).

        The learner may propose them from its next plan on. Actions that were never allowed stay
        forbidden.

        Parameters
        ----------
        rows
            The rows (step, state).
        actions
            The actions to allow.
        """
        require_review(self.gate)
        keys, named = self._checked_veto(rows, actions, [])
        for h, x in keys:
            if self._allowed_in(h, x)[named].all():
                raise ValueError(f"row {(h, x)} forbids none of the actions {named}")
        self._decide(lambda gate, knowledge: gate.lift(knowledge, keys, named))

    def _checked_veto(
        self, rows: Iterable[Key], actions: Iterable[int], more: Sequence[int]
    ) -> tuple[list[Key], list[int]]:
        """Check the rows and actions that a veto names; more: other actions to check."""
        raise NotImplementedError

    def _allowed_in(self, step: int, state: int) -> np.ndarray:  # [A]
        """Which actions are allowed in a row."""
        return np.asarray(self._knowledge.allowed[step, state])

    def freeze(self) -> None:
        """Propose and approve nothing until `thaw`; the learner still learns from told episodes."""
        require_review(self.gate)
        self._decide(lambda gate, knowledge: gate.freeze(knowledge))

    def thaw(self) -> None:
        """Resume after `freeze`, and propose changes that became due meanwhile."""
        require_review(self.gate)
        self._decide(lambda gate, knowledge: gate.thaw(knowledge, self.told))

    @property
    def paused(self) -> bool:
        """Whether the learner is frozen."""
        return self._gate.paused

    @property
    def held(self) -> list[Key]:
        """The rows (step, state) that are held at their current action."""
        return sorted(self._gate.holds)

    @property
    def holds(self) -> dict[Key, Hold]:
        """When the hold of each held row ends."""
        gate, visits = self._gate, self._knowledge.row_visits
        return {
            row: Hold(
                None if (end := gate.holds[row]) is None else end - visits(*row),
                gate.until.get(row),
            )
            for row in self.held
        }

    def next_trigger(self, row: Key) -> int | None:
        """After how many more visits a row (step, state) may change by itself, if it may.

        Parameters
        ----------
        row
            The row.
        """
        visits: int | None = self._knowledge.next_trigger(*row)
        return visits

    def install(self, policy: Any, *, hold: bool = True, until: int | None = None) -> Any:
        """Deploy a policy by hand, as a rollback does; None if it is deployed already.

        The learner's knowledge does not change. A pending proposal is withdrawn.

        Parameters
        ----------
        policy
            [H, S] or [members, H, S], or with features a LinearPolicy.
        hold
            Hold the rows that change, because otherwise the learner might propose the opposite
            change at once.
        until
            The number of episodes at which the hold of a row without a trigger ends.
        """
        require_review(self.gate)
        checked = self._checked_policy(policy)
        return self._decide(
            lambda gate, knowledge: gate.install(
                knowledge, checked, self.told, hold=hold, until=_checked_until(until)
            )
        )

    def floor_warning(self, policy: Any = None) -> str | None:
        """What today's data say against the `floor` of the algorithm; None if it is kept.

        Approvals below the floor are refused. A rollback, a veto and a policy installed by hand are
        not, because they must always be possible; ask this before or after them. With
        features, a policy without a trial is not checked.

        Parameters
        ----------
        policy
            A policy that might be deployed, by default the deployed one.
        """
        checked = None if policy is None else self._checked_policy(policy)
        return self._gate.floor_warning(self._knowledge, checked, self.told)

    def _checked_policy(self, policy: Any) -> Any:
        """Check that a policy may be deployed."""
        raise NotImplementedError

    # ---- for a ledger, which replays decisions ---------------------------------------------------

    @property
    def acts_by_itself(self) -> bool:
        """Whether telling episodes may end a hold, or raise a waiting proposal."""
        return bool(self._gate.holds or self._gate.waiting)

    @property
    def spent(self) -> tuple[int, int]:
        """How many deployments and switches were proposed to the board, which a budget counts."""
        spent: tuple[int, int] = self._knowledge.spent
        return spent

    def resume_from(self, spent: tuple[int, int], *, had_pending: bool, paused: bool) -> None:
        """Take over the budget and the gate of the learner that this one replaces, and look
        again.
        """

        def adopt(gate: Gate, knowledge: Any) -> None:
            knowledge.spent = spent
            gate.withdraw()
            gate.replaces, gate.paused = had_pending, paused
            gate.look_again(knowledge, self.told)

        self._decide(adopt)

    def require_floor(
        self, rows: Iterable[Key] | None, *, part: Part | None = None, share: float | None = None
    ) -> None:
        """Raise a ValueError if approving these rows would break the `floor` of the algorithm."""
        chosen, limits = self._gate.chosen(None, rows), _checked_limits(part, share)
        self._gate.require_floor(self._knowledge, chosen, self.told, **limits)

    def approve_again(
        self, rows: Iterable[Key] | None, *, part: Part | None = None, share: float | None = None
    ) -> Any:
        """Deploy rows that a board approved before, whatever a floor says by now."""
        chosen, limits = self._gate.chosen(None, rows), _checked_limits(part, share)
        return self._decide(
            lambda gate, knowledge: gate.approve(knowledge, chosen, self.told, **limits)
        )

    def force_proposal(self, proposal: Any, spent: tuple[int, int]) -> None:
        """Restore a pending proposal, and the spent budget, as a board saw them."""
        if self._gate.pending == proposal:
            return

        def force(gate: Gate, knowledge: Any) -> None:
            gate.pending, gate.raised, gate.replaces = proposal, proposal.number, False
            gate.nothing_wanted_at = None
            knowledge.spent = spent

        self._decide(force)

    # ---- all or nothing --------------------------------------------------------------------------

    def _decide(self, decide: Callable[[Gate, Any], Result]) -> Result:
        """Carry out a decision; if it fails, nothing changes."""
        with self._alone("decision"):
            knowledge, gate = self._knowledge, self._gate
            undo, undo_gate = knowledge.undo_all(), gate.undo(knowledge)
            try:
                result = decide(gate, knowledge)
                if self.gate == "review":
                    gate.set_mode(knowledge)
                else:
                    knowledge.open_gate()
                self._deployed = knowledge.policy()
            except BaseException:
                undo()
                undo_gate()
                raise
            return result


def _checked_until(until: int | None) -> int | None:
    return None if until is None else require_count("until", until)


def _checked_limits(part: Part | None, share: float | None) -> dict[str, Any]:
    """Check the part and the share of an approval."""
    if part is not None:
        require_word("part", part, get_args(Part))
    if share is not None:
        share = require_share("share", share, "it is a share of the cases, such as 0.05")
    return {"part": part, "share": share}


def _held_rows(count: int) -> str:
    """The end of a sentence about held rows; people count changes, not rows."""
    if not count:
        return ""
    return "; nothing is proposed where a change was postponed or rolled back, until that hold ends"
