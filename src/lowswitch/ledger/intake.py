"""What a run has learned, and the episodes it has yet to learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.meetings import asks
from lowswitch.learner import Batch, Learner
from lowswitch.learners.judgement import Judgement, RowWorth, Worth
from lowswitch.ledger.tally import Tally
from lowswitch.ledger.terms import Steps, Terms
from lowswitch.review.proposals import Proposal, ProposedRow

_MOST = 256  # episodes that wait; learning them takes a millisecond or two


class Judged(NamedTuple):
    """The posterior's judgement on a proposal."""

    proposal: str  # its hash
    told: int  # episodes that were learned when it became due
    judgement: Judgement
    worth: Worth
    rows: dict[tuple[int, int], RowWorth]


class Due(NamedTuple):
    """What had been learned when a proposal became due, possibly in the middle of a batch."""

    proposal: str  # its hash
    through: int  # the ticket that was learned last
    tally: Tally
    posterior: Any  # what the learner believed; None if it keeps no model


@dataclass
class Lessons:
    """The learner and the tally of a run, with the episodes that come next.

    Learning one episode costs almost as much as learning a hundred at once. So episodes are
    collected and learned when there are many, or when somebody needs the result.
    """

    terms: Terms
    learner: Learner  # as it was before the episodes that wait
    tally: Tally
    numbers: list[int] = field(default_factory=list)  # tickets of the episodes that wait
    sites: list[str] = field(default_factory=list)  # and their sites
    steps: list[Steps] = field(default_factory=list)
    deployed: list[Any] = field(default_factory=list)  # by an open gate, to be recorded
    due: Due | None = None  # of a proposal that is not on record yet
    # how probable it is that rows make the policy better, with the hash of their proposal
    judged: tuple[str, dict[tuple[int, int], float]] | None = None
    found: Judged | None = None  # the same, with what the whole proposal is worth
    cases: tuple[str, Any] | None = None  # what the cases say of a proposal with this hash
    correction: Callable[[], Lessons] | None = None  # what takes the place of all that was learned

    @property
    def quiet(self) -> bool:
        """Whether no learned episode can lead to a proposal or a deployment.

        This holds if the learner proposes only when asked and no hold can end by itself.
        """
        asked = asks(self.learner.algorithm.schedule)
        by_itself = asked is None or asked.dates is not None or self.learner.gate != "review"
        return not (by_itself or self.learner.acts_by_itself)

    def correct(self, correction: Callable[[], Lessons], *, at_once: bool = True) -> None:
        """Replace everything that was learned, and everything that was to be learned next.

        Each correction takes a replay. If nothing is proposed between two corrections, both leave
        the same budget and gate, so the last one is enough. A correction therefore waits until
        somebody needs the result: immediately when it is written, later when it is replayed. If a
        proposal or a deployment may follow, it comes first. at_once: False if another correction
        follows that belongs to it.
        """
        self.correction = correction
        self.numbers, self.sites, self.steps = [], [], []
        can_follow = self.learner.gate != "review" or self.learner.proposal() is not None
        if at_once and can_follow:
            self._correct()

    def _correct(self) -> None:
        assert self.correction is not None
        made, self.correction = self.correction(), None
        self.learner, self.tally, self.due = made.learner, made.tally, None
        self.deployed, self.judged, self.found, self.cases = made.deployed, None, None, None

    def copy(self) -> Lessons:
        """A copy, after learning everything that waits."""
        self.learn()
        learner, deployed = copy.deepcopy(self.learner), list(self.deployed)
        return Lessons(self.terms, learner, self.tally.copy(), deployed=deployed, due=self.due)

    def add(self, number: int, site: str, steps: Steps) -> None:
        """Queue the episode of a ticket."""
        self.numbers.append(number)
        self.sites.append(site)
        self.steps.append(steps)
        if len(self.steps) >= _MOST and self.correction is None:
            self.learn()

    def learn(self) -> None:
        """Learn the queued episodes in order."""
        if self.correction is not None:
            self._correct()
        if not self.steps:
            return
        batch, done, learner = self.terms.batch(self.steps), 0, self.learner
        counted = self.terms.places(batch), *batch[1:]
        while done < len(batch[0]):
            told, before = learner.told, learner.proposal()
            switch = learner.learn_checked(*(part[done:] for part in batch), until_proposed=True)
            first, done = done, done + learner.told - told
            self.tally.add(self.sites[first:done], *(part[first:done] for part in counted))
            made = learner.proposal()
            if made is not None and made != before:
                known = self.tally.copy(), learner.posterior()
                self.due = Due(made.hash, self.numbers[done - 1], *known)
            if switch is not None:
                self.deployed += self.terms.deployed(switch)
        self.numbers, self.sites, self.steps = [], [], []

    def learn_batch(self, sites: np.ndarray, batch: Batch) -> None:
        """Learn episodes at once if nobody asks which of them made a proposal due."""
        switch = self.learner.learn_checked(*batch)
        self.tally.add(sites, self.terms.places(batch), *batch[1:])
        if switch is not None:
            self.deployed += self.terms.deployed(switch)

    def probabilities(
        self, made: Proposal, rows: Sequence[ProposedRow]
    ) -> dict[tuple[int, int], float]:
        """For each of these rows, the probability that it alone makes the policy better.

        The learner's posterior at the time the proposal became due decides; empty if it has none.
        The result is cached, because a proposal is judged twice: when it is made and when it is
        recorded.
        """
        if self.judged is None or self.judged[0] != made.hash:
            found, posterior = dict[tuple[int, int], float](), self.posterior_of(made)
            if posterior is not None and rows:
                ordered = sorted(rows, key=lambda row: row.row)
                chances = posterior.probabilities(self.learner.deployed.actions, ordered).tolist()
                found = {row.row: chance for row, chance in zip(ordered, chances, strict=True)}
            self.judged = made.hash, found
        return self.judged[1]

    def worth(self, made: Proposal, tried: int, worse: float, *, rule: int) -> Judged | None:
        """The worth of a proposal and its rows, by the posterior when it became due; None without
        one.

        tried, worse: as in `Judgement.row_worths`. rule: as in `Learner.evidence`. The result is
        cached, as above.
        """
        if self.found is None or self.found.proposal != made.hash:
            known = self.posterior_of(made)
            judgement = self.learner.evidence(made, known, rule=rule)
            if judgement is None:
                return None
            rows = {one.row: one for one in judgement.row_worths(tried=tried, worse=worse)}
            self.found = Judged(made.hash, made.told, judgement, judgement.worth(), rows)
        return self.found

    def once(self, proposal: str, compute: Callable[[], Any]) -> Any:
        """The cached result for the proposal and the rule with this key, which are judged twice."""
        if self.cases is None or self.cases[0] != proposal:
            self.cases = proposal, compute()
        return self.cases[1]

    def posterior_of(self, made: Any) -> Any:
        """The learner's beliefs when a proposal became due: before the rest of a batch, or now."""
        if self.due is not None and self.due.proposal == made.hash:
            return self.due.posterior
        return self.learner.posterior()
