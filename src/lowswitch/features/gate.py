"""The gate between what a learner with features wants and what is deployed.

It has the words of that of tables: where the gate is in review, a policy that is due becomes a
proposal, and nothing is deployed before it is approved. There is one proposal at a time. If another
policy becomes due meanwhile it waits, and is made anew from all data once the first one is decided.
An action that is rejected for ever is played by no later policy, and values are maxima over what is
left.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowswitch.policy.linear import LinearPolicy


class Deployment(NamedTuple):
    """After `episode`, counted from 0, this policy is deployed."""

    episode: int
    policy: LinearPolicy


@dataclass(frozen=True)
class LinearProposal:
    """A policy that a learner would deploy, made after so many episodes."""

    number: int  # from 1
    told: int  # episodes
    base: str  # the identity of the policy that was deployed
    policy: LinearPolicy
    changed: float  # the share of the recent contexts, at all steps, whose action would change
    last: bool  # whether no other proposal can follow it
    # (step, action): what it plays in recent contexts, and the deployed policy in none of them
    new_actions: tuple[tuple[int, int], ...] = ()

    @functools.cached_property
    def hash(self) -> str:
        """What a decision is bound to: a digest of everything above."""
        text = json.dumps(self.facts() | {"policy": self.policy.identity}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        """All but the policy, as JSON can hold it."""
        names = ("number", "told", "base", "changed", "last")
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.new_actions:  # which older files do not have
            facts["new_actions"] = [list(pair) for pair in self.new_actions]
        return facts

    def __repr__(self) -> str:
        return f"LinearProposal({self.number}, changes {self.changed:.0%}, {self.hash[:12]})"


@dataclass
class LinearGate:
    """What waits for a decision, and what was decided, of one learner in review."""

    pending: LinearProposal | None = None
    waiting: bool = False  # another policy became due while something was pending or frozen
    raised: int = 0  # proposals so far, those that replaced another one included
    paused: bool = False
    applied: int = 0  # deployments

    def to_dict(self) -> dict[str, Any]:
        """The gate as JSON can hold it, but for the policy of a pending proposal."""
        names = ("waiting", "raised", "paused", "applied")
        pending = None if self.pending is None else self.pending.facts()
        return {name: getattr(self, name) for name in names} | {"pending": pending}

    @classmethod
    def from_dict(cls, facts: dict[str, Any], proposed: LinearPolicy | None) -> LinearGate:
        """The gate that `to_dict` wrote, and the policy that was pending."""
        pending = facts["pending"]
        if (pending is None) != (proposed is None):
            raise ValueError("a proposal without its policy, or a policy without its proposal")
        made = None
        if pending is not None and proposed is not None:
            new = tuple((h, a) for h, a in pending.get("new_actions", ()))
            made = LinearProposal(policy=proposed, **pending | {"new_actions": new})
        return cls(**facts | {"pending": made})
