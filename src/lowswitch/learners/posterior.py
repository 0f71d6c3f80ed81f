"""The posterior of a learner at one moment, and how it judges policies and single rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lowswitch.kernels.arrays import Belief, Changes, PlanSpec
from lowswitch.learners.hypotheses import BY_WORTH, Seen, Weighed, weighed
from lowswitch.review.proposals import ProposedRow
from lowswitch.show.progress import cores

MODELS = 400  # as many as `Learner.confidence` draws
FEWER = 100  # if a problem is so large that these would take minutes
_LARGE = 250_000  # rows of all members
_MOST_ROWS = 100  # for which the number of models grows with the rows
TIE = 1e-9  # smaller gains per episode count as 0: sums of equal rewards differ by rounding
_PIECE = 20  # models that a thread draws at once
_MOST_THREADS = 8  # each needs room for a model, and for values and gains of every member
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class ModelPosterior:
    """The plausible models of a learner at one moment, which later learning does not change."""

    spec: PlanSpec
    seen: Seen
    stream: np.uint64  # of posterior samples
    starts: np.ndarray  # [S]  shares of the states in which episodes began
    episodes: float  # that began in them
    rule: int = BY_WORTH  # of the evidence, to judge a proposal

    @property
    def belief(self) -> Belief:
        """The belief with which the learner plans."""
        return self.seen.belief

    @functools.cached_property
    def hypotheses(self) -> Weighed:
        """The priors that judge a proposal."""
        return weighed(self.spec, self.seen, self.rule)

    # ---- one changed row, by the best hypothesis ---------------------------------------------

    def row_gains(
        self, policies: np.ndarray, rows: Sequence[ProposedRow], models: int
    ) -> np.ndarray:  # [models, R]
        """The gain of policies [L, H, S] if one row alone changes, for each model and row.

        `Learner.confidence` uses the same models. Rows are in the order of step and state.
        """
        return self._gains(self._row_changes(policies, rows), 0, models)

    def probabilities(self, policies: np.ndarray, rows: Sequence[ProposedRow]) -> np.ndarray:  # [R]
        """The probability that each row alone makes policies [L, H, S] better; ties count half.

        Rows are in the order of step and state.
        """
        changes, models = self._row_changes(policies, rows), models_for(policies, len(rows))

        def better(first: int) -> np.ndarray:
            gains = self._gains(changes, first, _PIECE)
            count: np.ndarray = np.where(np.abs(gains) <= TIE, 0.5, gains > 0).sum(axis=0)
            return count

        counts = _at_once(better, range(0, models, _PIECE))
        found: np.ndarray = sum(counts, np.zeros(1))
        return found / models

    def _row_changes(self, policies: np.ndarray, rows: Sequence[ProposedRow]) -> Changes:
        places = [row.step * self.spec.S + row.state for row in rows]
        others = np.array([row.proposed for row in rows], dtype=np.int64)
        groups = np.zeros(len(policies), dtype=np.int64)
        return self.changes(policies, places, others, groups, np.ones(len(policies)))

    def _gains(self, changes: Changes, first: int, models: int) -> np.ndarray:  # [models, R]
        from lowswitch.kernels.gains import law_gains

        found, values = np.zeros((models, 1, len(changes.rows))), np.zeros((models, 0))
        numbers = np.arange(first, first + models)
        law_gains(
            *(self.spec, self.belief, self.stream, self.starts, 0.0, numbers),
            *(changes, found, values),
        )
        gains: np.ndarray = found[:, 0] / changes.others.shape[1]
        return gains

    # ---- policies and rows, by all hypotheses ------------------------------------------------

    def judged(
        self, changes: Changes, groups: int, models: int
    ) -> tuple[np.ndarray, np.ndarray]:  # [models, groups, R] and [models, U]
        """The gains of rows and the values of policies in `models` models.

        Each model has its own hypothesis about the prior, and its own shares of the states in which
        episodes begin.
        """
        from lowswitch.kernels.gains import law_gains

        found = np.zeros((models, groups, len(changes.rows)))
        values = np.zeros((models, changes.played.shape[1]))

        def draw(belief: Belief, numbers: np.ndarray) -> None:
            gains, worth = found[numbers], values[numbers]
            law_gains(*self._known(belief), numbers, changes, gains, worth)
            found[numbers], values[numbers] = gains, worth

        self._draw_all(draw, models)
        return found, values

    def shared(
        self, changes: Changes, asked: np.ndarray, models: int
    ) -> np.ndarray:  # [models, asked, R]
        """The gains of the `asked` rows within a proposal, split by the rows that cause them."""
        from lowswitch.kernels.gains import shared_gains

        found = np.zeros((models, len(asked), len(changes.rows)))

        def draw(belief: Belief, numbers: np.ndarray) -> None:
            gains = found[numbers]
            shared_gains(*self._known(belief), numbers, changes, asked, gains)
            found[numbers] = gains

        self._draw_all(draw, models)
        return found

    def _known(self, belief: Belief) -> tuple[Any, ...]:
        return self.spec, belief, self.stream, self.starts, self.episodes

    def _draw_all(self, draw: Callable[[Belief, np.ndarray], None], models: int) -> None:
        """Draw models by their numbers, each from the hypothesis that is chosen for it."""
        chosen = self.hypotheses.chosen(self.stream, models)
        _at_once(lambda piece: draw(self.hypotheses.beliefs[piece[0]], piece[1]), _pieces(chosen))

    def changes(
        self,
        policies: np.ndarray,
        places: Sequence[int] | np.ndarray,
        others: np.ndarray,
        groups: np.ndarray,
        weights: np.ndarray,
    ) -> Changes:
        """Policies [U, H, S] and the rows h S + x in which they might play `others` [R, U], as the
        kernel takes them, with the cells that their values and gains depend on.
        """
        (U, H, S), A = policies.shape, self.spec.A
        rows, others = np.array(places, dtype=np.int64), others.reshape(-1, U)
        played = np.ascontiguousarray(policies.reshape(U, H * S).T)
        needed = np.zeros((H * S, A), dtype=bool)
        needed[np.arange(H * S)[:, None], played] = True
        needed[rows[:, None], others] = True
        by_step = needed.reshape(H, S * A)
        cells = np.concatenate([by_step, by_step.any(axis=0, keepdims=True)])
        steps = np.searchsorted(rows, np.arange(H + 1) * S)
        return Changes(played, rows, steps, others, groups, weights, cells)


def models_for(policies: np.ndarray, rows: int) -> int:
    """How many models are drawn to judge `rows` rows of policies [L, H, S].

    A row among m is IMPROVE alone if its probability is above 1 - 0.05 / m, which 20 m models show.
    """
    if policies.size >= _LARGE:
        return FEWER
    return max(MODELS, 20 * min(rows, _MOST_ROWS))


def _at_once(work: Callable[[Any], Found], pieces: Sequence[Any]) -> list[Found]:
    """Do all pieces of a work, some at the same time."""
    with ThreadPoolExecutor(min(cores(), _MOST_THREADS)) as threads:
        return list(threads.map(work, pieces))


def _pieces(chosen: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The numbers of the models of each hypothesis, some at a time."""
    found = list[tuple[int, np.ndarray]]()
    for which in np.unique(chosen).tolist():
        numbers = np.flatnonzero(chosen == which)
        parts = np.array_split(numbers, -(-len(numbers) // _PIECE))
        found += [(which, part) for part in parts]
    return found
