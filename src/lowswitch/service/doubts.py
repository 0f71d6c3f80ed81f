"""Reports that are possible but unlikely, by everything that was reported before.

They are learned like all others, because what is rare may be true. The site is warned, and the
office sees each of them until it is corrected or found to be right. An unlikely reward does not
count as seen until then. A successor does from its first time on, so each is listed once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.terms import Terms

_REWARDS = 100  # that were seen before another one is unlikely
_SUCCESSORS = 200  # of a state that were seen before a new one is unlikely
_FAR = 0.05  # of the declared range of rewards: nearer than this is never unlikely


@dataclass
class Seen:
    """What was reported so far: successors of each state, and the ends of the rewards."""

    low: float = 0.0
    high: float = 0.0
    rewards: int = 0  # how many
    followed: dict[int, dict[int, int]] = field(default_factory=dict)  # by state and successor

    def add(
        self, payload: dict[str, Any], terms: Terms, unlikely: Sequence[tuple[int, str]]
    ) -> None:
        """Count a report, except for its unlikely rewards."""
        for x, y in itertools.pairwise(payload["states"] if terms.has_rows else []):
            after = self.followed.setdefault(x, {})
            after[y] = after.get(y, 0) + 1
        for h, reward in enumerate(payload["rewards"]):
            if (h, "reward") not in unlikely:
                self._widen(reward)

    def vouch(self, payload: dict[str, Any], terms: Terms) -> None:
        """Count the unlikely rewards in a report that was found to be right."""
        for h, what in self.unlikely(payload, terms):
            if what == "reward":
                self._widen(payload["rewards"][h])

    def _widen(self, reward: float) -> None:
        first = not self.rewards
        self.low = reward if first else min(self.low, reward)
        self.high = reward if first else max(self.high, reward)
        self.rewards += 1

    def unlikely(self, payload: dict[str, Any], terms: Terms) -> list[tuple[int, str]]:
        """The steps with an unlikely reward, or before an unlikely successor."""
        found, (least, most) = list[tuple[int, str]](), terms.rewards
        if self.rewards >= _REWARDS:
            far = max(self.high - self.low, _FAR * (most - least))
            found += [
                (h, "reward")
                for h, reward in enumerate(payload["rewards"])
                if not self.low - far <= reward <= self.high + far
            ]
        for h, (x, y) in enumerate(itertools.pairwise(payload["states"] if terms.has_rows else [])):
            after = self.followed.get(x, {})
            if y not in after and sum(after.values()) >= _SUCCESSORS:
                found.append((h, "state"))
        return sorted(found)

    def words(self, payload: dict[str, Any], terms: Terms) -> list[str]:
        """What is unlikely in a report, and why; empty if nothing is."""
        return [self._said(payload, terms, *one) for one in self.unlikely(payload, terms)]

    def _said(self, payload: dict[str, Any], terms: Terms, h: int, what: str) -> str:
        steps = terms.labels["step"]
        if what == "reward":
            return (
                f"{steps[h]}: {terms.word('reward')} {payload['rewards'][h]:g}; all"
                f" {self.rewards:,} reported before lie between {self.low:g} and {self.high:g}"
            )
        names = terms.labels["state"]
        x, y = (names[one] for one in payload["states"][h : h + 2])
        times = sum(self.followed[payload["states"][h]].values())
        after = steps[h + 1] if h + 1 < len(steps) else f"after {steps[h]}"
        return f"{after}: {y} after {x}, which never happened in {times:,} cases of {x} before"


def of_site(seen: Seen, terms: Terms, report: dict[str, Any]) -> list[str]:
    """What is unlikely in a report as a site sends it, with labels or positions."""
    try:
        states = [terms.index("state", one) for one in report["states"]] if terms.has_rows else []
        payload = {"states": states, "rewards": [float(one) for one in report["rewards"]]}
        return seen.words(payload, terms)
    except (LedgerError, TypeError, ValueError, KeyError, IndexError):
        return []  # whether it is a report at all is for the ledger to say
