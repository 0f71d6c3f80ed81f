"""Logged episodes of states and actions in tables: what another policy would earn in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lowswitch.checks import has_integers, numbers, require_count, require_indices
from lowswitch.evaluation.contexts import checked_propensities
from lowswitch.evaluation.estimates import Samples
from lowswitch.policy.tables import TablePolicy

_FOLDS = 5
_ROUNDING = 1e-6  # of the sum of probabilities


@dataclass(frozen=True, eq=False)
class Episodes:
    """Logged episodes: states, actions, rewards, and the probability of each action.

    An episode that ended early has the action -1 and the reward 0 after its end.

    Parameters
    ----------
    states, actions, rewards
        [n, H].
    propensities
        The probability of each action, given the episode up to it, [n, H] in (0, 1], or None. If
        one policy of a mixture is drawn for a whole episode, `mixture_propensities` computes them;
        a product of shares by step would be wrong.
    left_out
        The number of episodes in the source that could not be used.
    """

    states: Any  # [n, H]
    actions: Any  # [n, H]
    rewards: Any  # [n, H]
    propensities: Any = None  # [n, H]  in (0, 1], or None
    left_out: int = 0


class Target(NamedTuple):
    """A policy to be evaluated: laws, of which each episode plays one."""

    tables: np.ndarray  # [M, H, S] of actions, or [1, H, S, A] of probabilities
    shares: np.ndarray  # [M]

    def laws(self, actions: int) -> Iterator[tuple[float, np.ndarray]]:
        """Each law [H, S + 1, A] with its share; the last state is the one after the end."""
        for share, table in zip(self.shares, self.tables, strict=True):
            law = np.eye(actions)[table] if table.ndim == 2 else table
            after = np.zeros((len(law), 1, actions))
            after[..., 0] = 1
            yield float(share), np.concatenate([law, after], axis=1)


def target_of(policy: Any) -> Target:
    """A policy: a table of actions [H, S], a mixture [members, H, S] of them, or probabilities
    [H, S, A] with which each action is drawn at each step.
    """
    table = policy.actions if isinstance(policy, TablePolicy) else np.asarray(policy)
    if has_integers(table) and table.ndim in (2, 3) and table.size and table.min() >= 0:
        members = table[None] if table.ndim == 2 else table
        different, counts = np.unique(members, axis=0, return_counts=True)
        return Target(different, counts / len(members))
    law = numbers("a policy", table)
    fits = not has_integers(table) and law.ndim == 3 and law.size and law.min() >= 0
    if fits and np.allclose(law.sum(axis=2), 1, atol=_ROUNDING):
        return Target(law[None], np.ones(1))
    raise ValueError(
        "a policy is a table of actions [H, S], a mixture of tables [members, H, S], or"
        f" probabilities [H, S, A] that sum to 1, not {table.dtype} of shape {table.shape}"
    )


def mixture_propensities(tables: Any, states: Any, actions: Any, shares: Any = None) -> np.ndarray:
    """The probability of each action, given the episode up to it, if one table plays an episode.

    It is the weight of the tables that agree with the actions through this step, divided by the
    weight of the tables that agree up to the step before. An action that no table plays has the
    propensity 0.

    Parameters
    ----------
    tables
        [members, H, S].
    states, actions
        [n, H].
    shares
        [members], the probability of each table, by default equal.
    """
    tables, states, actions = np.asarray(tables), np.asarray(states), np.asarray(actions)
    weights = np.full(len(tables), 1 / len(tables)) if shares is None else np.asarray(shares)
    agree = np.ones((len(tables), len(states)), dtype=bool)
    found, before = np.zeros(states.shape), np.ones(len(states))
    for h in range(states.shape[1]):
        agree &= (tables[:, h, states[:, h]] == actions[:, h]) | (actions[:, h] < 0)
        weight = weights @ agree
        np.divide(weight, before, out=found[:, h], where=weight > 0)
        before = weight
    return np.minimum(found, 1.0)


def counted_propensities(states: np.ndarray, actions: np.ndarray) -> np.ndarray:  # [n, H]
    """The share of each action among the actions logged in its row, for arrays [n, H]."""
    found = np.ones(states.shape)
    size = int(actions.max()) + 1
    for h in range(states.shape[1]):
        rows = np.bincount(states[:, h])
        cells = np.bincount(states[:, h] * size + actions[:, h], minlength=len(rows) * size)
        found[:, h] = cells[states[:, h] * size + actions[:, h]] / rows[states[:, h]]
    return found


def samples_of(policy: Any, log: Episodes, ridge: float, behaviour: str) -> Samples:
    """The ingredients of the estimates of a policy of H steps."""
    target = target_of(policy)
    log, sizes = checked_episodes(log, target)
    estimated = behaviour == "estimated"
    if estimated:
        propensities = counted_propensities(log.states, log.actions)
    elif log.propensities is None:
        raise ValueError(
            "this log has no propensities; give them to Episodes, or say behaviour='estimated' to"
            " estimate them from the counts of each action in its row"
        )
    else:
        propensities = log.propensities
    corrected = np.zeros(len(log.states))
    for fold in range(min(_FOLDS, len(corrected))):
        inside = np.arange(len(corrected)) % _FOLDS == fold
        model = Model.fitted(_part(log, ~inside), sizes, ridge)
        corrected[inside] = model.corrected(target, _part(log, inside), propensities[inside])
    model = Model.fitted(log, sizes, ridge)
    weights = sum(
        share * path_weights(law, log, propensities) for share, law in target.laws(sizes[1])
    )
    return Samples(np.asarray(weights), log.rewards, corrected, *model.direct(target, log))


def path_weights(law: np.ndarray, log: Episodes, propensities: np.ndarray) -> np.ndarray:  # [n, H]
    """The probability of the actions through each step, by a law over by the log.

    Precup, Sutton, Singh 2000 (per-decision importance sampling).
    """
    played = law[np.arange(log.states.shape[1]), log.states, log.actions]
    weights: np.ndarray = np.cumprod(played / propensities, axis=1)
    return weights


class Model(NamedTuple):
    """Mean rewards and values by row and action, shrunk to the mean of the log by `ridge` samples.

    If an action was never logged in a row, it gets the log's mean of the rewards from that step on.
    """

    log: Episodes
    cells: np.ndarray  # [n, H]  the row and action of each sample, as one number
    counts: np.ndarray  # [H, (S + 1) A]
    rest: np.ndarray  # [H]  the log's mean reward from each step on
    sizes: tuple[int, int]  # S + 1, A
    ridge: float

    @classmethod
    def fitted(cls, log: Episodes, sizes: tuple[int, int], ridge: float) -> Model:
        cells = log.states * sizes[1] + log.actions
        many = sizes[0] * sizes[1]
        counts = np.stack([np.bincount(column, minlength=many) for column in cells.T])
        rest = np.cumsum(log.rewards.mean(axis=0)[::-1])[::-1]
        return cls(log, cells, counts, rest, sizes, ridge)

    def values(self, law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q [H, S + 1, A] and V [H + 1, S + 1] of a law, backwards from the last step."""
        H, (S, A) = len(self.counts), self.sizes
        q, v = np.zeros((H, S, A)), np.zeros((H + 1, S))
        for h in reversed(range(H)):
            found = self.log.rewards[:, h] + v[h + 1, _next(self.log, h, S)]
            sums = np.bincount(self.cells[:, h], found, minlength=S * A)
            q[h] = ((sums + self.ridge * self.rest[h]) / (self.counts[h] + self.ridge)).reshape(
                S, A
            )
            q[h, -1] = 0  # after the end
            v[h] = (law[h] * q[h]).sum(axis=1)
        return q, v

    def corrected(self, target: Target, log: Episodes, propensities: np.ndarray) -> np.ndarray:
        """The doubly robust value of each of other episodes: Jiang, Li 2016, for each law alone."""
        found = np.zeros(len(log.states))
        for share, law in target.laws(self.sizes[1]):
            values = self.values(law)
            weights = path_weights(law, log, propensities)
            surprise = _surprise(*values, log)
            found += share * (values[1][0, log.states[:, 0]] + (weights * surprise).sum(axis=1))
        return found

    def direct(self, target: Target, log: Episodes) -> tuple[float, np.ndarray]:
        """The value in the model, and the influence of each of its episodes.

        The influence of an episode is the unexpected part of its rewards, weighted by how often the
        policy visits these states relative to the log: Yin, Wang 2020 (tabular marginalised
        importance sampling).
        """
        value, influence = 0.0, np.zeros(len(log.states))
        for share, law in target.laws(self.sizes[1]):
            q, v = self.values(law)
            first = v[0, log.states[:, 0]]
            moved = (self._reach(law) * _surprise(q, v, log)).sum(axis=1)
            value += share * float(first.mean())
            influence += share * (first + len(first) * moved)
        return value, influence

    def _reach(self, law: np.ndarray) -> np.ndarray:  # [n, H]
        """How often a law comes by each sample in the model, forwards from the first step."""
        (n, H), S = self.log.states.shape, self.sizes[0]
        reach = np.bincount(self.log.states[:, 0], minlength=S) / n
        found = np.zeros((n, H))
        for h in range(H):
            each = (reach[:, None] * law[h]).ravel() / (self.counts[h] + self.ridge)
            found[:, h] = each[self.cells[:, h]]
            reach = np.bincount(_next(self.log, h, S), found[:, h], minlength=S)
        return found


def _surprise(q: np.ndarray, v: np.ndarray, log: Episodes) -> np.ndarray:  # [n, H]
    """The reward and the value that followed, minus the expected value."""
    steps = range(log.states.shape[1])
    found = [
        log.rewards[:, h]
        + v[h + 1, _next(log, h, q.shape[1])]
        - q[h, log.states[:, h], log.actions[:, h]]
        for h in steps
    ]
    return np.stack(found, axis=1)


def _next(log: Episodes, h: int, states: int) -> np.ndarray:  # [n]
    """The states after a step; after the last one, the state that stands for the end."""
    last = h + 1 == log.states.shape[1]
    following: np.ndarray = np.full(len(log.states), states - 1) if last else log.states[:, h + 1]
    return following


def _part(log: Episodes, which: np.ndarray) -> Episodes:
    """Some of the episodes."""
    return Episodes(log.states[which], log.actions[which], log.rewards[which])


def checked_episodes(log: Episodes, target: Target) -> tuple[Episodes, tuple[int, int]]:
    """Episodes that fit the policy and each other, and S + 1 and A.

    Steps after the end of an episode are in the state S, where action 0 earns nothing for certain.
    """
    _, H, S = target.tables.shape[:3]
    log = checked_arrays(log, H)
    require_indices("states", log.states, S)
    stochastic = target.tables.ndim == 4
    A = (
        target.tables.shape[3]
        if stochastic
        else int(max(target.tables.max(), log.actions.max())) + 1
    )
    require_indices("actions", np.maximum(log.actions, 0), A)
    ended = log.actions < 0
    given = log.propensities
    if given is not None:
        given = checked_propensities(given, log.actions.shape)
        given = np.where(ended, 1.0, given)
    states, actions = np.where(ended, S, log.states), np.where(ended, 0, log.actions)
    return replace(log, states=states, actions=actions, propensities=given), (S + 1, A)


def checked_arrays(log: Episodes, horizon: int | None = None) -> Episodes:
    """Episodes as arrays [n, H] of the same shape."""
    states, actions = np.asarray(log.states), np.asarray(log.actions)
    rewards = numbers("rewards", log.rewards)
    same = states.shape == actions.shape == rewards.shape and states.ndim == 2
    if not same or states.shape[1] != (horizon or states.shape[1]):
        wanted = "H" if horizon is None else horizon
        raise ValueError(
            f"logged episodes are arrays [n, {wanted}] of states, actions and rewards, not of"
            f" shapes {states.shape}, {actions.shape} and {rewards.shape}"
        )
    require_count("the number of episodes", len(states), least=2)
    for name, array in (("states", states), ("actions", actions)):
        if not has_integers(array):
            raise ValueError(f"{name} must be integers, not {array.dtype}")
    if not np.isfinite(rewards).all():
        raise ValueError("rewards must be finite numbers; leave episodes without one out")
    ended = actions < 0
    if not ((actions >= -1).all() and (ended[:, :-1] <= ended[:, 1:]).all()):
        raise ValueError(
            "actions must be 0 or more, or -1 in all steps after the end of an episode"
        )
    if ended[:, 0].any() or (rewards[ended] != 0).any():
        raise ValueError("an episode has at least one step, and earns 0 after its end")
    return replace(
        log, states=states.astype(np.int64), actions=actions.astype(np.int64), rewards=rewards
    )
