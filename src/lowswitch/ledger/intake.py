"""What a run has learned, and the episodes that it has still to learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lowswitch.algorithms.meetings import asks
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Steps
from lowswitch.table_learner import TableLearner

_MOST = 256  # episodes that wait; learning so many takes a millisecond or two


class Due(NamedTuple):
    """What was learned when a proposal became due, which may be in the middle of many episodes."""

    proposal: str  # its hash
    through: int  # the ticket that was learned last
    tally: Tally


@dataclass
class Lessons:
    """The learner and the tally of a run, with the episodes that have their turn.

    To learn one episode costs almost as much as to learn a hundred at once. So they are collected,
    and learned when there are many, or when somebody looks at what they lead to.
    """

    learner: TableLearner  # as it was before the episodes that wait
    tally: Tally
    numbers: list[int] = field(default_factory=list)  # tickets of the episodes that wait
    sites: list[str] = field(default_factory=list)  # and their sites
    steps: list[Steps] = field(default_factory=list)
    deployed: list[list[int]] = field(default_factory=list)  # by an open gate, to be recorded
    due: Due | None = None  # of a proposal that is not on record yet

    @property
    def quiet(self) -> bool:
        """Whether nothing can be proposed or deployed because of an episode that is learned.

        So it is where a learner proposes only when it is asked, and no hold can end by itself.
        """
        asked = asks(self.learner.algorithm.schedule)
        by_itself = asked is None or asked.dates is not None or self.learner.gate != "review"
        return not (by_itself or self.learner.acts_by_itself)

    def add(self, number: int, site: str, steps: Steps) -> None:
        """Let the episode of a ticket be the next to be learned."""
        self.numbers.append(number)
        self.sites.append(site)
        self.steps.append(steps)
        if len(self.steps) >= _MOST:
            self.learn()

    def learn(self) -> None:
        """Learn what waits, in its order."""
        if not self.steps:
            return
        kinds = (np.int64, np.int64, np.float64)
        each = zip(zip(*self.steps, strict=True), kinds, strict=True)
        states, actions, rewards = (np.array(lists, dtype=kind) for lists, kind in each)
        told, before = self.learner.told, self.learner.proposal()
        switch = self.learner.learn_checked(states, actions, rewards)
        made = self.learner.proposal()
        if made is None or made == before:
            self.tally.add(self.sites, states, actions, rewards)
        else:
            n = made.told - told
            self.tally.add(self.sites[:n], states[:n], actions[:n], rewards[:n])
            self.due = Due(made.hash, self.numbers[n - 1], self.tally.copy())
            self.tally.add(self.sites[n:], states[n:], actions[n:], rewards[n:])
        self.numbers, self.sites, self.steps = [], [], []
        if switch is not None:
            self.deployed += switch.changes.tolist()
