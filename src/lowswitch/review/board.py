"""The part of a learner that faces a board: proposals and decisions, for every kind of policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, get_args

import numpy as np

from lowswitch.checks import require_share, require_truth, require_word
from lowswitch.policy.tables import Part
from lowswitch.review.decisions import require_review
from lowswitch.review.gate import Gate
from lowswitch.review.proposals import Key
from lowswitch.show.text import counted

Result = TypeVar("Result")


class Reviewed:
    """What a learner proposes, and what is decided on it."""

    gate: str
    told: int
    _gate: Gate
    _knowledge: Any
    _deployed: Any
    _plain: bool  # whether all it knows are whole episodes, and its schedule alone deployed

    def _alone(self, what: str) -> AbstractContextManager[None]:
        """Refuse a second thread meanwhile."""
        raise NotImplementedError

    # ---- proposals -------------------------------------------------------------------------------

    def proposal(self) -> Any:
        """The proposal that waits for a decision, or None."""
        return self._gate.pending

    def propose(self) -> Any:
        """Propose everything that the learner would change now, and return the proposal, or None.

        This is what the schedule "asked" waits for; with any other schedule it comes on top. A
        pending proposal is replaced, and the budget counts the two as one. Where the gate is open,
        the proposal is deployed at once. `why_nothing` says why it is None.
        """

        def propose(gate: Gate, knowledge: Any) -> Any:
            made = gate.propose(knowledge, self.told)
            if made is not None and self.gate == "open":
                gate.approve(knowledge, made.parts, self.told)
            return made

        made = self._decide(propose)
        self._plain = False
        return made

    def make_up(self) -> Any:
        """Propose what is wanted now for a date that passed while another proposal waited.

        As `propose`, but rows that are held stay so: the date on which they may change is the next.
        """
        require_review(self.gate)
        return self._decide(
            lambda gate, knowledge: gate.propose(knowledge, self.told, keep_holds=True)
        )

    @property
    def dates(self) -> np.ndarray:
        """The dates to come: numbers of episodes after which the whole policy may change.

        There are none if the budget is spent, or if rows change one by one.
        """
        dates: np.ndarray = self._knowledge.dates
        dates = dates[dates > self.told]
        dates.flags.writeable = False
        return dates

    def dates_passed(self, since: int) -> np.ndarray:
        """The dates that have passed since `since` episodes were told."""
        passed: np.ndarray = self._knowledge.dates_between(since, self.told)
        return passed

    def why_nothing(self) -> str | None:
        """Why nothing waits for a decision, in words, or None if something does."""
        if self.gate == "open":
            return "the gate is open, so that what the learner wants is deployed at once"
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
                f"the next deployment is the last one, which plays what is known to be best, and"
                f" {after} nothing was known to be better than the deployed policy" + held
            )
        return f"{after} the learner wanted no other policy than the deployed one" + held

    # ---- decisions -------------------------------------------------------------------------------

    def approve(
        self,
        proposal: Any = None,
        *,
        rows: Iterable[Key] | None = None,
        part: Part | None = None,
        share: float | None = None,
    ) -> Any:
        """Deploy the pending proposal, or some of its rows (step, state).

        proposal: the one that was looked at, or its hash; if another one is pending by now, nothing
        is deployed. part: of a protocol and a trial only the one that is named changes, and the
        other one stays as it is deployed. share: at most this share of the cases enters the trial.
        Return what changed. A policy on features is approved whole.
        """
        require_review(self.gate)
        limits = _checked_limits(part, share)
        chosen = self._gate.chosen(proposal, rows)
        return self._decide(
            lambda gate, knowledge: gate.approve(knowledge, chosen, self.told, **limits)
        )

    def cap_trial(self, share: float) -> Any:
        """Let at most this share of the cases enter the trial from now on, and return what changed.

        It is allowed at any time, also when the budget is spent; 0 ends the trial. It counts as a
        deployment and is no switch of a row. A pending proposal is withdrawn, and made again. None
        if the trial is not larger.
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
    ) -> None:
        """Let the deployed policy stay, or some rows (step, state) of it.

        Not now: a row is held until its next trigger, or for `visits` more visits. A policy on
        features is proposed again when the schedule says so; what became due meanwhile is proposed
        at once.

        forever: the actions that it would newly play, or those of them that `actions` names, are
        never deployed there, and nothing is hoped for from them any more. With features they are
        forbidden at all steps if they are named; the deployed policy stays as it is.
        """
        require_review(self.gate)
        require_truth("forever", forever)
        if actions is not None and not forever:
            raise ValueError("actions are those to forbid: say forever=True, or leave them out")
        chosen = self._gate.chosen(proposal, rows)
        self._decide(
            lambda gate, knowledge: gate.reject(
                knowledge, chosen, self.told, forever=forever, visits=visits, actions=actions
            )
        )

    def forbid(
        self, rows: Iterable[Key], actions: Iterable[int], *, instead: int | None = None
    ) -> Any:
        """Never deploy these actions in rows (step, state) again, deployed now or not.

        instead: what a row plays from now on if its action is one of them. Return what changed, or
        None if none of the actions was deployed there. A pending proposal is withdrawn and made
        anew without the actions; that costs no budget.
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
        """Rows and actions that a veto names, or an error; more: other actions to check."""
        raise NotImplementedError

    def _allowed_in(self, step: int, state: int) -> np.ndarray:  # [A]
        """Which actions are allowed in a row."""
        return np.asarray(self._knowledge.allowed[step, state])

    def freeze(self) -> None:
        """Let nothing be proposed or approved until `thaw`; what is told is still learned."""
        require_review(self.gate)
        self._decide(lambda gate, knowledge: gate.freeze(knowledge))

    def thaw(self) -> None:
        """Go on after `freeze`: what became due meanwhile is proposed."""
        require_review(self.gate)
        self._decide(lambda gate, knowledge: gate.thaw(knowledge, self.told))

    @property
    def paused(self) -> bool:
        """Whether `freeze` was called, and `thaw` not yet."""
        return self._gate.paused

    @property
    def held(self) -> list[Key]:
        """The rows (step, state) that are held at the action they play."""
        return sorted(self._gate.holds)

    def install(self, policy: Any, *, hold: bool = True) -> Any:
        """Deploy a policy by hand, as a rollback does; None if it is deployed already.

        policy: [H, S] or [members, H, S], or with features a LinearPolicy. Nothing that was learned
        changes. A pending proposal is withdrawn. hold: the rows that change are held, because
        otherwise the learner might propose the same change back at once.
        """
        require_review(self.gate)
        checked = self._checked_policy(policy)
        return self._decide(
            lambda gate, knowledge: gate.install(knowledge, checked, self.told, hold=hold)
        )

    def _checked_policy(self, policy: Any) -> Any:
        """A policy that may be deployed, or an error."""
        raise NotImplementedError

    # ---- for a ledger, which replays what was decided --------------------------------------------

    @property
    def acts_by_itself(self) -> bool:
        """Whether a hold may end, or something that waits be proposed, when episodes are told."""
        return bool(self._gate.holds or self._gate.waiting)

    @property
    def spent(self) -> tuple[int, int]:
        """How many deployments and switches were put to the board, which a budget counts."""
        spent: tuple[int, int] = self._knowledge.spent
        return spent

    def resume_from(self, spent: tuple[int, int], *, had_pending: bool, paused: bool) -> None:
        """Take over the budget and the gate of a learner that this one replaces, and look again."""

        def adopt(gate: Gate, knowledge: Any) -> None:
            knowledge.spent = spent
            gate.withdraw()
            gate.replaces, gate.paused = had_pending, paused
            gate.look_again(knowledge, self.told)

        self._decide(adopt)

    def force_proposal(self, proposal: Any, spent: tuple[int, int]) -> None:
        """Let this be pending, with a budget of which this was spent, as a board saw it once."""
        if self._gate.pending == proposal:
            return

        def force(gate: Gate, knowledge: Any) -> None:
            gate.pending, gate.raised, gate.replaces = proposal, proposal.number, False
            gate.nothing_wanted_at = None
            knowledge.spent = spent

        self._decide(force)

    # ---- all or nothing --------------------------------------------------------------------------

    def _decide(self, decide: Callable[[Gate, Any], Result]) -> Result:
        """Carry out a decision; one that fails changes nothing."""
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


def _checked_limits(part: Part | None, share: float | None) -> dict[str, Any]:
    """What an approval leaves out, or an error."""
    if part is not None:
        require_word("part", part, get_args(Part))
    if share is not None:
        share = require_share("share", share, "it is a share of the cases, such as 0.05")
    return {"part": part, "share": share}


def _held_rows(count: int) -> str:
    """That rows are held, as the end of a sentence; people count changes, and not rows."""
    if not count:
        return ""
    return "; what was postponed or rolled back stays as it is for now"
