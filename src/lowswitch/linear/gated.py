"""The part of a learner with features that makes policies, and faces a board with them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from lowswitch.linear.gate import Deployment, LinearGate, LinearProposal
from lowswitch.linear.policy import LinearPolicy
from lowswitch.linear.ridge import Knowledge, Sums
from lowswitch.linear.shape import Shape
from lowswitch.linear.spec import Spec

Result = TypeVar("Result")


class LinearGated:
    """What a learner wants to deploy, and what is decided on it."""

    gate: str
    shape: Shape
    told: int
    _spec: Spec
    _knowledge: Knowledge
    _gate: LinearGate
    _deployed: LinearPolicy
    _recent: np.ndarray  # [n, R, d]  the newest contexts
    _spent: int  # of a budget: what was deployed, or proposed where the gate is in review
    _telling: threading.Lock

    @property
    def frozen(self) -> bool:
        """Whether a budget is spent, so that the policy stays as it is for good."""
        return self._spec.budget is not None and self._spent >= self._spec.budget

    # ---- making policies -------------------------------------------------------------------------

    def _due(self) -> None:
        """Deploy, or propose, what is wanted now."""
        if self.gate == "review" and (self._gate.pending is not None or self._gate.paused):
            self._gate.waiting = True
        elif not self.frozen:
            self._make(free=False)

    def _make(self, *, free: bool) -> None:
        """Make a policy; where the gate is open, deploy it. A free one spends no budget."""
        spent = self._spent - free
        last = self._spec.is_last(spent, self.told)
        policy = self._knowledge.plan(self.told, greedy=last and self._spec.greedy_last)
        if policy.identity == self._deployed.identity:
            return
        self._spent = spent + 1
        if self.gate == "open":
            self._deploy(policy)
            return
        self._gate.raised += 1
        base, number = self._deployed, self._gate.raised
        changed = policy.difference(base, self._recent) if len(self._recent) else float("nan")
        self._gate.pending = LinearProposal(
            number, self.told, base.identity, policy, changed if changed == changed else 1.0, last
        )

    def _deploy(self, policy: LinearPolicy) -> Deployment:
        """The one place that changes what is deployed, and counts it."""
        self._deployed = policy
        self._gate.applied += 1
        return Deployment(self.told - 1, policy)

    # ---- decisions -------------------------------------------------------------------------------

    def proposal(self) -> LinearProposal | None:
        """What waits for a decision, or None."""
        return self._gate.pending

    def propose(self) -> LinearProposal | None:
        """Make a policy of all that was told, and propose it; where the gate is open, deploy it.

        This is what the schedule "asked" waits for; with any other one it comes on top. What was
        pending is replaced, and the budget counts the two as one.
        """

        def make() -> LinearProposal | None:
            if self._gate.paused:
                raise ValueError("nothing is proposed while the learner is frozen; thaw it first")
            free = self._gate.pending is not None
            if self.frozen and not free:
                raise ValueError(
                    "the budget is spent, so that nothing can be proposed any more; the deployed"
                    " policy stays"
                )
            self._gate.pending, self._gate.waiting = None, False
            self._make(free=free)
            return self._gate.pending

        return self._decide(make)

    def approve(self, proposal: LinearProposal | str | None = None) -> Deployment:
        """Deploy the pending proposal.

        proposal: the one that was looked at, or its hash; if another one is pending by now, nothing
        is deployed.
        """
        self._require_review()

        def deploy() -> Deployment:
            chosen = self._gate.chosen(proposal)
            if self._gate.paused:
                raise ValueError("nothing is deployed while the learner is frozen; thaw it first")
            self._gate.pending = None
            made = self._deploy(chosen.policy)
            self._look_again()
            return made

        return self._decide(deploy)

    def reject(self, proposal: LinearProposal | str | None = None) -> None:
        """Let the deployed policy stay.

        What became due meanwhile is proposed at once, made of all data; otherwise the next proposal
        comes when the schedule says so.
        """
        self._require_review()

        def drop() -> None:
            self._gate.chosen(proposal)
            self._gate.pending = None
            self._look_again()

        self._decide(drop)

    def freeze(self) -> None:
        """Let nothing be proposed or approved until `thaw`; what is told is still learned."""
        self._require_review()
        self._decide(lambda: setattr(self._gate, "paused", True))

    def thaw(self) -> None:
        """Go on after `freeze`: what became due meanwhile is proposed."""
        self._require_review()

        def go_on() -> None:
            self._gate.paused = False
            self._look_again()

        self._decide(go_on)

    @property
    def paused(self) -> bool:
        """Whether `freeze` was called, and `thaw` not yet."""
        return self._gate.paused

    def install(self, policy: LinearPolicy) -> Deployment | None:
        """Deploy a policy by hand, as a rollback does; what was pending or waited is withdrawn.

        Where it is deployed already, nothing changes, and None is returned.
        """
        self._require_review()
        self._require_mine(policy)

        def deploy() -> Deployment | None:
            if policy.identity == self._deployed.identity:
                return None
            self._gate.waiting = False
            if self._gate.pending is not None:
                self._gate.pending, self._spent = None, self._spent - 1
            return self._deploy(policy)

        return self._decide(deploy)

    def _look_again(self) -> None:
        """Propose what waited, once nothing is pending."""
        if self._gate.waiting and self._gate.pending is None and not self._gate.paused:
            self._gate.waiting = False
            if not self.frozen:
                self._make(free=False)

    def _require_review(self) -> None:
        if self.gate != "review":
            raise ValueError(
                "this learner deploys what it wants at once, and so nothing is decided; make it"
                ' with gate="review"'
            )

    def _require_mine(self, policy: LinearPolicy) -> None:
        if not isinstance(policy, LinearPolicy) or policy.shape != self.shape:
            raise ValueError(f"a policy for this learner is a LinearPolicy of {self.shape}")

    # ---- all or nothing --------------------------------------------------------------------------

    def _decide(self, decide: Callable[[], Result]) -> Result:
        with self._alone("decision"):
            return self._or_undo(decide)

    def _or_undo(self, work: Callable[[], Result]) -> Result:
        """Do something; a failure, or an interrupt, changes nothing."""
        names = ("told", "_spent", "_deployed", "_recent")
        before = {name: getattr(self, name) for name in names}
        knowledge, gate = self._knowledge, copy.copy(self._gate)
        sums = Sums(*(array.copy() for array in knowledge.sums))
        kept, base = knowledge.kept, knowledge.base
        try:
            return work()
        except BaseException:  # an interrupt too
            self.__dict__.update(before, _gate=gate)
            knowledge.sums, knowledge.kept, knowledge.base = sums, kept, base
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_telling"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _telling=threading.Lock())

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Refuse a second thread while a first one is learning or saving."""
        if not self._telling.acquire(blocking=False):
            raise ValueError(
                f"another thread is telling or saving this learner, so that this {what} is refused"
                " and changes nothing; let one thread own a learner, or guard it with a lock"
            )
        try:
            yield
        finally:
            self._telling.release()
