"""The part of a learner that faces a board: proposals and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from lowswitch.checks import checked_batch, checked_policy, require_count, require_truth
from lowswitch.history import History
from lowswitch.kernels.arrays import OPEN, WAITING
from lowswitch.learners.knowledge import Knowledge
from lowswitch.policy.tables import TablePolicy
from lowswitch.review.decisions import require_review
from lowswitch.review.gate import Gate, Proposal
from lowswitch.show.text import counted

_BEFORE = -(10**9)  # the number of an episode of history: no grid has it

Result = TypeVar("Result")


class Gated:
    """What a learner proposes, and what is decided on it."""

    gate: str
    horizon: int
    told: int
    _allowed: np.ndarray
    _deployed: TablePolicy
    _gate: Gate
    _knowledge: Knowledge
    _plain: bool  # whether all it knows are whole episodes, and its schedule alone deployed

    @property
    def mixture(self) -> np.ndarray:
        """All deployed policies [members, H, S], read-only."""
        return self._deployed.actions

    def _alone(self, what: str) -> AbstractContextManager[None]:
        """Refuse a second thread meanwhile."""
        raise NotImplementedError

    def proposal(self) -> Proposal | None:
        """What waits for a decision, or None."""
        return self._gate.pending

    def propose(self) -> Proposal | None:
        """Propose every row that the learner would change now, and return that, or None.

        This is what the schedule "asked" waits for; with any other one it comes on top. What was
        pending is replaced, and the budget counts the two as one. Where the gate is open, what is
        wanted is deployed at once. `why_nothing` says why it is None.
        """
        self._plain = False
        made = self._decide(lambda gate, knowledge: gate.propose(knowledge, self.told))
        if made is not None and self.gate == "open":
            self._decide(lambda gate, knowledge: gate.approve(knowledge, made.rows, self.told))
        return made

    def make_up(self) -> Proposal | None:
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

        Where a budget is spent there are none, and none where rows change one by one.
        """
        dates = self._knowledge.dates.view()
        dates.flags.writeable = False
        return dates

    def dates_passed(self, since: int) -> np.ndarray:
        """The dates that have passed since so many episodes were told."""
        return self._knowledge.dates_between(since, self.told)

    def why_nothing(self) -> str | None:
        """Why nothing waits for a decision, in words, or None if something does."""
        if self.gate == "open":
            return "the gate is open, so that what the learner wants is deployed at once"
        if self.proposal() is not None:
            return None
        if self.paused:
            return "the learner is frozen"
        if self._knowledge.frozen:
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

    def approve(
        self,
        proposal: Proposal | str | None = None,
        *,
        rows: Iterable[tuple[int, int]] | None = None,
    ) -> History:
        """Deploy the rows (step, state) of the pending proposal, by default all of them.

        proposal: the one that was looked at, or its hash; if another one is pending by now, nothing
        is deployed. Return the rows that changed.
        """
        require_review(self.gate)
        _, chosen = self._gate.chosen(proposal, rows)
        return self._decide(lambda gate, knowledge: gate.approve(knowledge, chosen, self.told))

    def reject(
        self,
        proposal: Proposal | str | None = None,
        *,
        rows: Iterable[tuple[int, int]] | None = None,
        forever: bool = False,
        visits: int | None = None,
    ) -> None:
        """Let rows (step, state) of the pending proposal stay as they are, by default all of them.

        Not now: a row is held until its next trigger, or until it was visited so many times more.
        forever: the actions that it would newly play are never deployed there, and nothing is hoped
        for from them any more.
        """
        require_review(self.gate)
        require_truth("forever", forever)
        _, chosen = self._gate.chosen(proposal, rows)
        self._decide(
            lambda gate, knowledge: gate.reject(
                knowledge, chosen, self.told, forever=forever, visits=visits
            )
        )

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
    def held(self) -> list[tuple[int, int]]:
        """The rows (step, state) that are held at what they play."""
        return sorted(self._gate.holds)

    def install(self, policies: Any, *, hold: bool = True) -> History | None:
        """Deploy policies [H, S] or [members, H, S] by hand, as a rollback does.

        Nothing that was learned changes. What was pending is withdrawn. hold: the rows that change
        are held, because otherwise the learner might propose the same change back at once.
        """
        require_review(self.gate)
        tables = np.asarray(policies)
        tables = np.repeat(tables[None], len(self.mixture), axis=0) if tables.ndim == 2 else tables
        if tables.shape != self.mixture.shape:
            raise ValueError(
                f"policies must have the shape {self.mixture.shape}, not {tables.shape}"
            )
        checked = np.stack([checked_policy(one, self._knowledge.allowed) for one in tables])
        return self._decide(
            lambda gate, knowledge: gate.install(knowledge, checked, self.told, hold=hold)
        )

    def learn_history(self, states: Any, actions: Any, rewards: Any, *, most: int) -> np.ndarray:
        """Learn episodes that an earlier protocol played, at most so many visits of each (h, x, a).

        They must have been played by a policy that looked at the state alone. They do not count as
        told. Nothing is proposed; `propose` then makes the first proposal. Return the actions
        [B, H] with -1 at the steps beyond that number.
        """
        require_review(self.gate)
        most = require_count("most", most)
        if self.told:
            raise ValueError(
                f"history comes before the first episode, and {self.told} have been told"
            )
        states, actions, rewards = checked_batch(states, actions, rewards, self._allowed)
        kept = np.where(_first_visits(states, actions, self._knowledge.visits(), most), actions, -1)

        def learn(gate: Gate, knowledge: Knowledge) -> None:
            knowledge.set_gate(WAITING)
            changes = np.zeros((knowledge.spec.timing.room, 3 + knowledge.members), dtype=np.int64)
            done = 0
            while done < len(states):
                piece = states[done:], kept[done:], rewards[done:]
                _, learned, _ = knowledge.learn(*piece, True, _BEFORE, changes)
                done += learned

        self._decide(learn)
        return kept

    def _decide(self, decide: Callable[[Gate, Knowledge], Result]) -> Result:
        """Carry out a decision; one that fails changes nothing."""
        with self._alone("decision"):
            return self._decide_or_undo(decide)

    def _decide_or_undo(self, decide: Callable[[Gate, Knowledge], Result]) -> Result:
        knowledge, gate = self._knowledge, self._gate
        none = np.zeros((0, self.horizon), dtype=np.int64)
        allowed, undo, undo_gate = (
            knowledge.allowed.copy(),
            Knowledge.undo(knowledge, none, none),
            gate.undo(knowledge),
        )
        try:
            result = decide(gate, knowledge)
            if self.gate == "review":
                gate.set_mode(knowledge)
            else:
                knowledge.set_gate(OPEN)
            self._deployed = knowledge.policy()
        except BaseException:
            undo()
            undo_gate()
            knowledge.allowed[...] = allowed
            raise
        return result


def _held_rows(count: int) -> str:
    """That rows are held, as the end of a sentence."""
    if not count:
        return ""
    rows = counted(count, "row", "is held at what it plays", "are held at what they play")
    return f"; {rows}, after a rejection or a rollback"


def _first_visits(
    states: np.ndarray, actions: np.ndarray, visits: np.ndarray, most: int
) -> np.ndarray:  # [B, H]
    """Which steps are among the first `most` visits of their (h, x, a), counted from `visits`.

    What decides is their place in the order, and not what came of them.
    """
    H, kept, seen = states.shape[1], np.zeros(states.shape, dtype=bool), visits.copy()
    for b in range(len(states)):
        cells = np.arange(H), states[b], actions[b]
        kept[b] = seen[cells] < most
        seen[cells] += 1
    return kept
