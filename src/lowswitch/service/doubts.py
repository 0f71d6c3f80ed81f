"""Reports that are possible but unlikely: by everything reported before, or by what was planned.

They are learned like all others, because what is rare may be true. The site is warned, and the
office sees each of them until it is corrected or found to be right. What is unlikely does not count
as seen until then, so the same is asked about again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.terms import Terms
from lowswitch.show.text import counted

_REWARDS = 100  # that were seen before another one is unlikely
_SUCCESSORS = 200  # of a state that were seen before a new one is unlikely
_FAR = 0.05  # of the declared range of rewards: nearer than this is never unlikely
_OFTEN = 3  # unlikely reports of a successor after which it is not called unlikely any more
_STEPS, _RARE = 200, 0.05  # steps reported before, and the share of them that departed from a plan

Place = tuple[int, int, int]  # step, state, action


class VersionPlan(NamedTuple):
    """What a version gives, and what is forbidden when a report of it comes."""

    version: int
    given: np.ndarray  # [H, S, A]  whether anybody gets an action in a row
    forbidden: Collection[Place]


@dataclass
class Seen:
    """What was reported so far: successors of each state, the ends of the rewards, departures."""

    low: float = 0.0
    high: float = 0.0
    rewards: int = 0  # how many
    whole: bool = True  # whether all of them are whole numbers
    followed: dict[int, Counter[int]] = field(default_factory=dict)  # by state and successor
    waiting: Counter[tuple[int, int]] = field(default_factory=Counter)  # unlikely successors
    steps: int = 0  # that a plan was known for
    departed: int = 0  # in which it gives something else
    known: set[Place] = field(default_factory=set)  # departures that were found to be right

    def add(
        self,
        payload: dict[str, Any],
        terms: Terms,
        unlikely: Sequence[tuple[int, str]],
        plan: VersionPlan | None = None,
    ) -> None:
        """Count a report, except for what is unlikely in it."""
        for h, pair in enumerate(_pairs(payload, terms)):
            if (h, "state") in unlikely:
                self.waiting[pair] += 1
            else:
                self._follow(pair)
        for h, reward in enumerate(payload["rewards"]):
            if (h, "reward") not in unlikely:
                self._widen(reward)
        if plan is not None:
            places = _places(payload)
            self.steps += len(places)
            self.departed += sum(not plan.given[place] for place in places)

    def vouch(self, payload: dict[str, Any], terms: Terms, plan: VersionPlan | None = None) -> None:
        """Count what is unlikely in a report that was found to be right."""
        pairs, places = _pairs(payload, terms), _places(payload)
        for h, what in self.unlikely(payload, terms, plan):
            if what == "reward":
                self._widen(payload["rewards"][h])
            elif what == "state":
                self._follow(pairs[h])
            else:
                self.known.add(places[h])

    def _follow(self, pair: tuple[int, int]) -> None:
        self.followed.setdefault(pair[0], Counter())[pair[1]] += 1

    def _widen(self, reward: float) -> None:
        first = not self.rewards
        self.low = reward if first else min(self.low, reward)
        self.high = reward if first else max(self.high, reward)
        self.rewards += 1
        self.whole = self.whole and not reward % 1

    def unlikely(
        self, payload: dict[str, Any], terms: Terms, plan: VersionPlan | None = None
    ) -> list[tuple[int, str]]:
        """The steps with an unlikely reward or action, or before an unlikely successor."""
        found, (least, most) = list[tuple[int, str]](), terms.rewards
        if self.rewards >= _REWARDS:
            far = max(self.high - self.low, _FAR * (most - least))
            found += [
                (h, "reward")
                for h, reward in enumerate(payload["rewards"])
                if not self.low - far <= reward <= self.high + far or (self.whole and reward % 1)
            ]
        for h, (x, y) in enumerate(_pairs(payload, terms)):
            after = self.followed.get(x, Counter())
            is_rare = self.waiting[x, y] < _OFTEN
            if is_rare and y not in after and after.total() >= _SUCCESSORS:
                found.append((h, "state"))
        if plan is not None:
            is_rare = self.steps >= _STEPS and self.departed <= _RARE * self.steps
            found += [
                (place[0], "action")
                for place in _places(payload)
                if not plan.given[place]
                and place not in self.known
                and (is_rare or place in plan.forbidden)
            ]
        return sorted(found)

    def words(
        self, payload: dict[str, Any], terms: Terms, plan: VersionPlan | None = None
    ) -> list[str]:
        """What is unlikely in a report, and why; empty if nothing is."""
        return [
            self._departed_words(payload, terms, h, plan)
            if what == "action" and plan is not None
            else self._said(payload, terms, h, what)
            for h, what in self.unlikely(payload, terms, plan)
        ]

    def _departed_words(
        self, payload: dict[str, Any], terms: Terms, h: int, plan: VersionPlan
    ) -> str:
        """That a report has an action that its version gives to nobody in this state."""
        names, place = terms.labels["action"], _places(payload)[h]
        state, planned = terms.labels["state"][place[1]], np.flatnonzero(plan.given[place[:2]])
        *most, last = (names[a] for a in planned)
        gives = f"{', '.join(most)} or {last}" if most else last
        said = f"{terms.labels['step'][h]}: {names[place[2]]} for {state}"
        if place in plan.forbidden:
            return f"{said}, which is forbidden there; version {plan.version} gives {gives}"
        return f"{said}, where version {plan.version} gives {gives}"

    def _said(self, payload: dict[str, Any], terms: Terms, h: int, what: str) -> str:
        steps = terms.labels["step"]
        if what == "reward":
            reward, low, high = payload["rewards"][h], self.low, self.high
            far = max(high - low, _FAR * (terms.rewards[1] - terms.rewards[0]))
            is_far = not low - far <= reward <= high + far
            are = f"lie between {low:g} and {high:g}" if is_far else "are whole numbers"
            said = f"{steps[h]}: {terms.word('reward')} {reward:g}"
            return f"{said}; all {self.rewards:,} reported before {are}"
        names, pair = terms.labels["state"], _pairs(payload, terms)[h]
        x, y = (names[one] for one in pair)
        times, before = self.followed[pair[0]].total(), self.waiting[pair]
        after = steps[h + 1] if h + 1 < len(steps) else f"after {steps[h]}"
        but = f", except in {counted(before, 'report')} that nobody settled yet" if before else ""
        return f"{after}: {y} after {x}, which never happened in {times:,} cases of {x} before{but}"


def _pairs(payload: dict[str, Any], terms: Terms) -> list[tuple[int, int]]:
    """Each state with its successor; none with features."""
    return list(itertools.pairwise(payload["states"] if terms.has_rows else []))


def _places(payload: dict[str, Any]) -> list[Place]:
    """The step, state and action of each action of a report."""
    both = zip(payload["states"], payload["actions"], strict=False)
    return [(h, x, a) for h, (x, a) in enumerate(both)]


def of_site(
    seen: Seen, terms: Terms, report: dict[str, Any], plan: VersionPlan | None
) -> list[str]:
    """What is unlikely in a report as a site sends it, with labels or positions."""
    try:
        states = [terms.index("state", one) for one in report["states"]] if terms.has_rows else []
        actions = [terms.index("action", one) for one in report["actions"]]
        rewards = [float(one) for one in report["rewards"]]
        payload = {"states": states, "actions": actions, "rewards": rewards}
        return seen.words(payload, terms, plan)
    except (LedgerError, TypeError, ValueError, KeyError, IndexError):
        return []  # whether it is a report at all is for the ledger to say
