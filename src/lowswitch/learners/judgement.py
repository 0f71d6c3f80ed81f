"""The value of a proposal by a learner's posterior: as a whole, and row by row.

A *law* can be deployed: policies, of which each episode plays one, and the probability of each. If
there is a trial, the first policy is the protocol and the others are tried in order to learn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lowswitch.learners.hypotheses import LARGE
from lowswitch.learners.posterior import FEWER, MODELS, TIE, ModelPosterior, models_for
from lowswitch.learners.trials import limited_law
from lowswitch.policy.members import Part
from lowswitch.policy.tables import departing
from lowswitch.review.proposals import ProposedRow

Row = tuple[int, int]  # step and state
LEVELS = (0.8, 0.95)  # of the intervals
_TOGETHER, _FEW_TOGETHER = 40, 10  # models that say with which others a row pays, and rows that ask
_MOST_PARTNERS = 5  # rows that are named


class Law(NamedTuple):
    """Policies and their probabilities."""

    policies: np.ndarray  # [L, H, S]
    weights: np.ndarray  # [L]

    @classmethod
    def equal(cls, policies: np.ndarray) -> Self:
        """All policies with the same probability."""
        return cls(policies, np.full(len(policies), 1.0 / len(policies)))

    def with_rows(self, rows: Collection[ProposedRow]) -> Self:
        """The law once these rows have changed."""
        policies = self.policies.copy()
        for row in rows:
            policies[:, row.step, row.state] = row.proposed
        return self._replace(policies=policies)


class Gain(NamedTuple):
    """A difference of values per episode, by a posterior."""

    mean: float
    better: float  # the probability that it is above 0; ties count half
    within_80: tuple[float, float]
    within_95: tuple[float, float]

    @classmethod
    def of(cls, draws: np.ndarray) -> Self:
        """The mean and intervals of draws [models]."""
        (gain,) = cls.of_each(draws[:, None])
        return gain

    @classmethod
    def of_each(cls, draws: np.ndarray) -> list[Self]:
        """The mean and intervals of each column of draws [models, n]."""
        draws = np.ascontiguousarray(draws.T)
        settled = np.where(np.abs(draws) <= TIE, 0.0, draws)
        better = (settled > 0).mean(axis=1) + 0.5 * (settled == 0).mean(axis=1)
        ends = [
            map(tuple, np.quantile(settled, ((1 - level) / 2, (1 + level) / 2), axis=1).T.tolist())
            for level in LEVELS
        ]
        parts = settled.mean(axis=1).tolist(), better.tolist(), *ends
        return [cls(*one) for one in zip(*parts, strict=True)]

    def facts(self) -> dict[str, Any]:
        """As JSON can hold it, with nine digits."""
        ends = {name: [round(end, 9) for end in getattr(self, name)] for name in self._fields[2:]}
        return {"mean": round(self.mean, 9), "better": round(self.better, 9)} | ends


class Worth(NamedTuple):
    """The gain of a proposal per episode, compared with the deployed law."""

    change: Gain  # over all episodes
    against_initial: Gain  # the proposed law, compared with the policy at the beginning
    protocol: Gain | None  # in episodes outside of the trial, if there is a protocol
    trial: Gain | None  # of a proposed trial, compared with the proposed protocol: its cost is < 0

    def facts(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {name: gain.facts() for name, gain in self._asdict().items() if gain is not None}


class RowWorth(NamedTuple):
    """The gain of one row of a proposal per episode, outside of the trial if there is one."""

    row: Row
    gain: Gain  # if this row alone changes
    removal: Gain  # of the whole proposal, if this row alone does not change
    partners: tuple[Row, ...] = ()  # later rows without which it would not pay

    @property
    def better(self) -> float:
        """The probability that the row alone makes the policy better."""
        return self.gain.better


class Judgement:
    """A posterior on a proposal."""

    def __init__(
        self,
        posterior: ModelPosterior,
        now: Law,
        proposed: Law,
        initial: np.ndarray,
        *,
        protocol: bool,
    ) -> None:
        self.posterior, self.now, self.proposed = posterior, now, proposed
        self.initial, self.protocol = initial, protocol
        self._found = dict[bytes, np.ndarray]()  # the values of policies, by model

    def worth(
        self,
        rows: Collection[Row] | None = None,
        *,
        part: Part | None = None,
        share: float | None = None,
    ) -> Worth:
        """The gain of the proposal; `rows`: if only these rows change.

        part, share: if only a part of it is deployed, or a smaller trial, as in `Gate.approve`.
        """
        proposed = self.proposed if rows is None else self._with_rows(rows)
        if self.protocol and not (part is None and share is None):
            law = limited_law(self.now.policies, proposed.policies, part, share)
            proposed = proposed._replace(policies=law)
        sides = (self.now.policies, proposed.policies, self.initial)
        values = self._values(np.concatenate(sides))
        L = len(self.now.policies)
        first = values.shape[1] - len(self.initial)
        now, new = values[:, :L], values[:, L:first]
        initial = values[:, first:].mean(axis=1)
        after = (new * proposed.weights).sum(axis=1)
        protocol = trial = None
        if self.protocol:
            protocol = Gain.of(new[:, 0] - now[:, 0])
            exploring = departing(proposed.policies)
            if exploring.any():
                trial = Gain.of(new[:, exploring].mean(axis=1) - new[:, 0])
        change = Gain.of(after - (now * self.now.weights).sum(axis=1))
        return Worth(change, Gain.of(after - initial), protocol, trial)

    def _values(self, policies: np.ndarray) -> np.ndarray:  # [models, L]
        """The values of policies [L, H, S]; each policy is evaluated once."""
        names = [policy.tobytes() for policy in policies]
        new = {name: policies[m] for m, name in enumerate(names) if name not in self._found}
        if new:
            made, U = np.stack(list(new.values())), len(new)
            others, groups = np.zeros((0, U), dtype=np.int64), np.zeros(U, dtype=np.int64)
            changes = self.posterior.changes(made, [], others, groups, np.zeros(U))
            _, values = self.posterior.judged(changes, 1, self._compared())
            self._keep(made, values)
        return np.stack([self._found[name] for name in names], axis=1)

    def _keep(self, policies: np.ndarray, values: np.ndarray) -> None:
        """Keep the values [models, U] of policies; the first models are always the same."""
        for m, policy in enumerate(policies):
            self._found[policy.tobytes()] = values[: self._compared(), m]

    def _compared(self) -> int:
        """How many models compare whole policies."""
        return min(MODELS, self.models(0))

    def rows(self) -> list[Row]:
        """The rows that are judged: those in which the protocol, or any policy, changes."""
        now, new = self._judged()
        return [(h, x) for h, x in np.argwhere((now != new).any(axis=0)).tolist()]

    def row_worths(self, *, tried: int, worse: float) -> list[RowWorth]:
        """The gain of each of the `rows`, in their order.

        tried: the number of rows to distinguish; more rows take more models. worse: for rows with
        at most this probability, find the later rows with which they pay.
        """
        rows = self.rows()
        if not rows:
            return []
        changes = self._row_changes(rows)
        found, values = self.posterior.judged(changes, 2, self.models(tried))
        self._keep(changes.played.T.reshape(-1, *self.initial.shape[1:]), values)
        gains, removals = (Gain.of_each(found[:, group]) for group in range(2))
        made = [RowWorth(*one) for one in zip(rows, gains, removals, strict=True)]
        asked = [
            r
            for r, one in enumerate(made)
            if one.better <= worse and one.removal.better < 1 - worse
        ]
        asked = sorted(asked, key=lambda r: made[r].removal.mean)[: self._together()]
        for r, partners in zip(asked, self._partners(rows, changes, asked), strict=True):
            made[r] = made[r]._replace(partners=partners)
        return made

    def models(self, tried: int) -> int:
        """How many models distinguish `tried` rows; fewer if a model has very many cells."""
        return FEWER if self._is_large() else models_for(self._judged()[0], tried)

    def _together(self) -> int:
        return _FEW_TOGETHER if self._is_large() else _TOGETHER

    def _is_large(self) -> bool:
        return bool(self.posterior.spec.allowed.size >= LARGE)

    def _judged(self) -> tuple[np.ndarray, np.ndarray]:  # [J, H, S] each
        """The policies whose rows are judged, as they are and as they would be."""
        only = slice(0, 1) if self.protocol else slice(None)
        return self.now.policies[only], self.proposed.policies[only]

    def _row_changes(self, rows: Sequence[Row]) -> Any:
        """Pairs of policies now and proposed, equal ones once, in which single rows change."""
        now, new = self._judged()
        weights = np.ones(1) if self.protocol else self.now.weights
        pairs, places = np.unique(np.stack([now, new], axis=1), axis=0, return_inverse=True)
        each = np.bincount(places.reshape(-1), weights=weights)
        policies = np.concatenate([pairs[:, 0], pairs[:, 1]])
        S, J = now.shape[2], len(pairs)
        steps, states = np.array(rows, dtype=np.int64).T
        others = np.concatenate([pairs[:, 1], pairs[:, 0]])[:, steps, states].T
        groups = np.repeat(np.arange(2), J)
        return self.posterior.changes(
            policies, steps * S + states, others, groups, np.tile(each, 2)
        )

    def _partners(self, rows: list[Row], changes: Any, asked: list[int]) -> list[tuple[Row, ...]]:
        """Later rows without which the rows asked about would not pay, those that matter most."""
        if not asked:
            return []
        models = self._together()
        shared = self.posterior.shared(changes, np.array(asked), models).mean(axis=0)
        found = list[tuple[Row, ...]]()
        for k, r in enumerate(asked):
            sum_so_far, named = shared[k, r], list[Row]()
            for s in np.argsort(-shared[k], kind="stable").tolist():
                if sum_so_far > 0 or shared[k, s] <= TIE or len(named) == _MOST_PARTNERS:
                    break
                if s != r:
                    named.append(rows[s])
                    sum_so_far += shared[k, s]
            found.append(tuple(named))
        return found

    def _with_rows(self, rows: Collection[Row]) -> Law:
        """The proposed law, if only these rows change."""
        policies = self.now.policies.copy()
        for h, x in rows:
            policies[:, h, x] = self.proposed.policies[:, h, x]
        return self.proposed._replace(policies=policies)
