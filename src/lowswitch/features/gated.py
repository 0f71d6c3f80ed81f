"""The part of a learner with features that makes policies, and faces a board with them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lowswitch.checks import has_integers, require_indices, require_truth
from lowswitch.features.gate import Deployment, LinearGate, LinearProposal
from lowswitch.features.ridge import Knowledge, Sums
from lowswitch.features.spec import Spec
from lowswitch.policy.linear import LinearPolicy, allowed_actions
from lowswitch.policy.shape import Shape
from lowswitch.review.decisions import (
    require_budget,
    require_pending,
    require_review,
    require_thawed,
)

RECENT = 200  # episodes whose contexts say how much a proposal would change

Result = TypeVar("Result")


class _Wanted(NamedTuple):
    """A policy that was made, and whether no other one can follow it."""

    policy: LinearPolicy
    last: bool


class LinearGated:
    """What a learner wants to deploy, and what is decided on it."""

    gate: str
    shape: Shape
    told: int
    _spec: Spec
    _knowledge: Knowledge
    _gate: LinearGate
    _deployed: LinearPolicy
    _recent: np.ndarray  # [n, R, d]  the newest contexts, where no episodes are kept
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
            self._make()

    def _make(self) -> None:
        """Make a policy and propose it; where the gate is open, deploy it."""
        wanted = self._wanted(free=False)
        if wanted is None:
            return
        if self.gate == "open":
            self._deploy(wanted.policy)
        else:
            self._gate.pending = self._proposal(wanted)

    def _wanted(self, *, free: bool) -> _Wanted | None:
        """What is wanted now, unless it is deployed already. A free one spends no budget."""
        spent = self._spent - free
        last = self._spec.is_last(spent, self.told)
        policy = self._knowledge.plan(self.told, greedy=last and self._spec.greedy_last)
        if policy.identity == self._deployed.identity:
            return None
        self._spent = spent + 1
        return _Wanted(policy, last)

    def _proposal(self, wanted: _Wanted) -> LinearProposal:
        """What is wanted as a board sees it, compared with what is deployed."""
        self._gate.raised += 1
        policy, base = wanted.policy, self._deployed
        contexts = self._recent_contexts()
        seen, changed = sum(map(len, contexts)), 0.0
        new: list[tuple[int, int]] = []
        for h, x in enumerate(contexts):
            if len(x):
                changed += len(x) / seen * policy.difference(base, x, h)
                played, before = (one.propensities(x, h).any(axis=0) for one in (policy, base))
                new += [(h, int(a)) for a in np.flatnonzero(played & ~before)]
        share = changed if seen else 1.0
        number, told = self._gate.raised, self.told
        return LinearProposal(number, told, base.identity, policy, share, wanted.last, tuple(new))

    def _recent_contexts(self) -> list[np.ndarray]:  # for each step [n, R, d]
        """The newest contexts of each step; an episode that was over has none."""
        if self.shape.horizon == 1:
            return [self._recent]
        kept, newest = self._knowledge.kept, slice(max(0, self.told - RECENT), self.told)
        x, seen = kept.x[newest], kept.actions[newest] >= 0
        return [x[seen[:, h], h] for h in range(self.shape.horizon)]

    def _deploy(self, policy: LinearPolicy) -> Deployment:
        """The one place that changes what is deployed, and counts it."""
        self._deployed = policy
        self._gate.applied += 1
        return Deployment(self.told - 1, policy)

    # ---- decisions -------------------------------------------------------------------------------

    @property
    def actions_allowed(self) -> np.ndarray:  # [H, A]
        """The actions that policies to come may play at each step, read-only."""
        return self._knowledge.allowed

    def proposal(self) -> LinearProposal | None:
        """What waits for a decision, or None."""
        return self._gate.pending

    def propose(self) -> LinearProposal | None:
        """Make a policy of all that was told, propose it, and return that, or None.

        This is what the schedule "asked" waits for; with any other one it comes on top. What was
        pending is replaced, and the budget counts the two as one. Where the gate is open, what is
        wanted is deployed at once.
        """

        def make() -> LinearProposal | None:
            require_thawed(self._gate.paused, "proposed")
            free = self._gate.pending is not None
            require_budget(self.frozen and not free)
            self._gate.pending, self._gate.waiting = None, False
            wanted = self._wanted(free=free)
            if wanted is None:
                return None
            made = self._proposal(wanted)
            if self.gate == "open":
                self._deploy(made.policy)
            else:
                self._gate.pending = made
            return made

        return self._decide(make)

    def approve(self, proposal: LinearProposal | str | None = None) -> Deployment:
        """Deploy the pending proposal.

        proposal: the one that was looked at, or its hash; if another one is pending by now, nothing
        is deployed.
        """
        require_review(self.gate)

        def deploy() -> Deployment:
            chosen = require_pending(self._gate.pending, proposal)
            require_thawed(self._gate.paused, "deployed")
            self._gate.pending = None
            made = self._deploy(chosen.policy)
            self._look_again()
            return made

        return self._decide(deploy)

    def reject(
        self,
        proposal: LinearProposal | str | None = None,
        *,
        forever: bool = False,
        actions: Iterable[int] | None = None,
    ) -> None:
        """Let the deployed policy stay.

        What became due meanwhile is proposed at once, made of all data; otherwise the next proposal
        comes when the schedule says so.

        forever: no later policy plays some actions any more, and nothing is hoped for from them: by
        default the `new_actions` of the proposal, or those that `actions` names, at all steps. The
        deployed policy stays as it is.
        """
        require_review(self.gate)
        require_truth("forever", forever)
        if actions is not None and not forever:
            raise ValueError("actions are those to forbid: say forever=True, or leave them out")

        def drop() -> None:
            chosen = require_pending(self._gate.pending, proposal)
            if forever:
                self._forbid(chosen, actions)
            self._gate.pending = None
            self._look_again()

        self._decide(drop)

    def freeze(self) -> None:
        """Let nothing be proposed or approved until `thaw`; what is told is still learned."""
        require_review(self.gate)
        self._decide(lambda: setattr(self._gate, "paused", True))

    def thaw(self) -> None:
        """Go on after `freeze`: what became due meanwhile is proposed."""
        require_review(self.gate)

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
        require_review(self.gate)
        self._require_mine(policy)

        def deploy() -> Deployment | None:
            if policy.identity == self._deployed.identity:
                return None
            self._require_allowed(policy)
            self._gate.waiting = False
            if self._gate.pending is not None:
                self._gate.pending, self._spent = None, self._spent - 1
            return self._deploy(policy)

        return self._decide(deploy)

    def _forbid(self, proposal: LinearProposal, actions: Iterable[int] | None) -> None:
        """Take actions out of the mask: at all steps, or the new ones of a proposal where it would
        play them.
        """
        mask = self._knowledge.allowed.copy()
        if actions is not None:
            named = np.asarray(list(actions))
            if not len(named) or not has_integers(named):
                raise ValueError(f"actions must be whole numbers, at least one, not {actions!r}")
            require_indices("actions", named, self.shape.actions)
            mask[:, named] = False
        elif proposal.new_actions:
            mask[tuple(np.array(proposal.new_actions).T)] = False
        else:
            raise ValueError(
                "the proposal plays the same actions as the deployed policy in other contexts, so"
                " there is no new action to forbid; name some, as in actions=[2], or reject it for"
                " now"
            )
        self._knowledge.allowed = allowed_actions(self.shape, mask)

    def _look_again(self) -> None:
        """Propose what waited, once nothing is pending."""
        if self._gate.waiting and self._gate.pending is None and not self._gate.paused:
            self._gate.waiting = False
            if not self.frozen:
                self._make()

    def _require_allowed(self, policy: LinearPolicy) -> None:
        forbidden = np.argwhere(policy.allowed & ~self._knowledge.allowed)
        if len(forbidden):
            h, a = map(int, forbidden[0])
            raise ValueError(
                f"the policy may play action {a} at step {h}, which was rejected for ever; install"
                " one that was made after that"
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
        kept, base, allowed = knowledge.kept, knowledge.base, knowledge.allowed
        try:
            return work()
        except BaseException:  # an interrupt too
            self.__dict__.update(before, _gate=gate)
            knowledge.sums, knowledge.kept = sums, kept
            knowledge.base, knowledge.allowed = base, allowed
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
