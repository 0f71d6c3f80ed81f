"""Proposals: what a learner would deploy, as a board sees it and decides on it.

A proposal has parts with keys, which a board may decide on one by one: the rows of a table, or a
whole policy on features.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from lowswitch.policy.linear import LinearPolicy

Key = tuple[int, int]  # step and state of a row
WHOLE: Key = (-1, -1)  # the key of a policy that has no rows


@dataclass(frozen=True)
class ProposedRow:
    """One row of a proposal: the current and the proposed action of each member."""

    step: int
    state: int
    now: tuple[int, ...]
    proposed: tuple[int, ...]

    @property
    def row(self) -> tuple[int, int]:
        return self.step, self.state

    @property
    def law_now(self) -> dict[int, float]:
        """The share of each action now; a single policy has one action with share 1."""
        return _law(self.now)

    @property
    def law_proposed(self) -> dict[int, float]:
        """The proposed share of each action."""
        return _law(self.proposed)

    @property
    def new_actions(self) -> tuple[int, ...]:
        """The actions that the row would play and does not play now."""
        return tuple(sorted({*self.proposed} - {*self.now}))


@dataclass(frozen=True)
class Proposal:
    """Rows that a learner would change, made for one deployed policy after `told` episodes."""

    number: int  # from 1
    told: int  # episodes
    base: str  # the identity of the policy that was deployed
    rows: tuple[ProposedRow, ...]

    @functools.cached_property
    def hash(self) -> str:
        """A digest of everything above, to which a decision refers."""
        text = json.dumps(self.facts(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        """Everything above, as JSON can store it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Read a proposal that `facts` wrote."""
        rows = tuple(
            ProposedRow(row["step"], row["state"], tuple(row["now"]), tuple(row["proposed"]))
            for row in facts["rows"]
        )
        return cls(facts["number"], facts["told"], facts["base"], rows)

    @property
    def parts(self) -> Mapping[Key, ProposedRow]:
        """The rows, which may be decided on one by one."""
        return {row.row: row for row in self.rows}

    def put_into(self, policies: np.ndarray) -> np.ndarray:  # [members, H, S]
        """The policies [members, H, S] with these rows changed."""
        changed = policies.copy()
        for row in self.rows:
            changed[:, row.step, row.state] = row.proposed
        return changed

    def without(self, decided: Collection[Key], number: int, base: str) -> Self | None:
        """The proposal of the remaining rows once some are decided, or None."""
        left = tuple(row for row in self.rows if row.row not in decided)
        return type(self)(number, self.told, base, left) if left else None

    def __repr__(self) -> str:
        return f"Proposal({self.number}, {len(self.rows)} rows, {self.hash[:12]})"


@dataclass(frozen=True)
class LinearProposal:
    """A policy on features that a learner would deploy, made after `told` episodes."""

    number: int  # from 1
    told: int  # episodes
    base: str  # the identity of the policy that was deployed
    policy: LinearPolicy
    changed: float  # the share of the recent contexts, at all steps, whose action would change
    last: bool  # whether no other proposal can follow it
    # (step, action): actions that it plays in recent contexts and the deployed policy never does
    new_actions: tuple[tuple[int, int], ...] = ()
    drift: int = 0  # episodes after which a drift of the contexts was found; 0 if none

    @functools.cached_property
    def hash(self) -> str:
        """A digest of everything above, to which a decision refers."""
        text = json.dumps(self.facts() | {"policy": self.policy.identity}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        """Everything except the policy, as JSON can store it."""
        names = ("number", "told", "base", "changed", "last")
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.new_actions:  # older files do not have it
            facts["new_actions"] = [list(pair) for pair in self.new_actions]
        if self.drift:
            facts["drift"] = self.drift
        return facts

    @classmethod
    def from_facts(cls, facts: dict[str, Any], policy: LinearPolicy) -> Self:
        """Read a proposal that `facts` wrote, with this policy."""
        new = tuple((h, a) for h, a in facts.get("new_actions", ()))
        return cls(policy=policy, **facts | {"new_actions": new})

    @property
    def parts(self) -> Mapping[Key, LinearProposal]:
        """The single part: a policy on features is decided on as a whole."""
        return {WHOLE: self}

    def without(self, decided: Collection[Key], number: int, base: str) -> None:
        """None: a decision on a whole policy leaves nothing."""

    def __repr__(self) -> str:
        return f"LinearProposal({self.number}, changes {self.changed:.0%}, {self.hash[:12]})"


def _law(actions: tuple[int, ...]) -> dict[int, float]:
    return {action: n / len(actions) for action, n in sorted(Counter(actions).items())}
