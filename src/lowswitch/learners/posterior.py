"""What a learner believed at one moment, and what that says of a single changed row."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from lowswitch.kernels.arrays import Belief, Changes, PlanSpec
from lowswitch.review.proposals import ProposedRow
from lowswitch.show.progress import cores

MODELS = 400  # as many as `Learner.confidence` draws
FEWER = 100  # if a problem is so large that these would take minutes
_LARGE = 250_000  # rows of all members
_MOST_ROWS = 100  # for which the number of models grows with the rows
TIE = 1e-9  # a smaller gain per episode is none: sums of equal rewards differ by their rounding
_PIECE = 20  # models that a thread draws at once
_MOST_THREADS = 8  # each needs room for a model, and for values and gains of every member


class ModelPosterior(NamedTuple):
    """The models that a learner held for possible, whatever it has learned since."""

    spec: PlanSpec
    belief: Belief
    stream: np.uint64  # of posterior samples
    starts: np.ndarray  # [S]  shares of the states in which episodes began

    def row_gains(
        self, policies: np.ndarray, rows: Sequence[ProposedRow], models: int
    ) -> np.ndarray:  # [models, R]
        """What each row adds to the value of policies [L, H, S] if it alone changes, by model.

        The models are those of `Learner.confidence`. Rows are in the order of step and state.
        """
        return self._gains(self._changes(policies, rows), 0, models)

    def probabilities(self, policies: np.ndarray, rows: Sequence[ProposedRow]) -> np.ndarray:  # [R]
        """How probable it is that each row alone makes policies [L, H, S] better; ties count half.

        Rows are in the order of step and state.
        """
        changes, models = self._changes(policies, rows), models_for(policies, len(rows))

        def better(first: int) -> np.ndarray:
            gains = self._gains(changes, first, _PIECE)
            count: np.ndarray = np.where(np.abs(gains) <= TIE, 0.5, gains > 0).sum(axis=0)
            return count

        with ThreadPoolExecutor(min(cores(), _MOST_THREADS)) as threads:
            found: np.ndarray = sum(threads.map(better, range(0, models, _PIECE)), np.zeros(1))
        return found / models

    def _gains(self, changes: Changes, first: int, models: int) -> np.ndarray:  # [models, R]
        from lowswitch.kernels.gains import row_gains

        found = np.zeros((models, len(changes.rows)))
        row_gains(self.spec, self.belief, self.stream, self.starts, changes, first, found)
        return found

    def _changes(self, policies: np.ndarray, rows: Sequence[ProposedRow]) -> Changes:
        """The rows as the kernel takes them, with the cells that their gains depend on."""
        H, S, A = self.spec.H, self.spec.S, self.spec.A
        places = np.array([row.step * S + row.state for row in rows], dtype=np.int64)
        proposed = np.array([row.proposed for row in rows], dtype=np.int64)
        played = np.ascontiguousarray(policies.reshape(len(policies), H * S).T)
        needed = np.zeros((H * S, A), dtype=bool)
        needed[np.arange(H * S)[:, None], played] = True
        needed[places[:, None], proposed] = True
        by_step = needed.reshape(H, S * A)
        at_all = np.tile(by_step.any(axis=0), (H, 1))  # of steps that are alike
        laws, rewards = (
            by_step if known.stride else at_all for known in (self.belief.laws, self.belief.rewards)
        )
        return Changes(played, places, proposed, laws, rewards)


def models_for(policies: np.ndarray, rows: int) -> int:
    """How many models are drawn to judge so many rows of policies [L, H, S].

    A row among m is IMPROVE alone if its probability is above 1 - 0.05 / m, which 20 m models show.
    """
    if policies.size >= _LARGE:
        return FEWER
    return max(MODELS, 20 * min(rows, _MOST_ROWS))
