"""Exploration layer by layer, by mixtures of policies: LARFE and multi-batch learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowswitch.algorithms.custom import Counts, FromCounts
from lowswitch.checks import require_count, require_scale


@dataclass(frozen=True, kw_only=True)
class LayerByLayer(FromCounts):
    """Mixtures that reach every (x, a) of one step as often as possible, step by step.

    Qiao, Yin, Min, Wang 2022 (LARFE). After `phase` episodes of the initial policy, deployment h
    explores step h: a member for each (x, a) goes there by the policy that reaches it most often,
    as far as the counts of the earlier steps know. Once more H deployments do the same with the
    counts of all steps. The last deployment plays the policy that earns most by the counts.
    Rewards matter only there.

    Parameters
    ----------
    phase
        The number of episodes of each deployment.
    members
        How many policies are deployed together: at least as many as there are pairs (x, a).
    threshold
        A successor that was seen less often is left out of the model, as if it ended the episode.
    """

    phase: int = 1000
    members: int = 64
    threshold: int = 3

    def __post_init__(self) -> None:
        for name in ("phase", "members", "threshold"):
            object.__setattr__(self, name, require_count(name, getattr(self, name)))

    def exploration(self, horizon: int) -> int:
        """How many episodes explore before the policy of the last deployment is played."""
        return (2 * horizon + 1) * self.phase

    def plan(self, counts: Counts) -> np.ndarray:  # [members, H, S]
        H = len(counts.visits)
        number = counts.episodes // self.phase
        if number > 2 * H + 1:
            return counts.deployed
        if number == 2 * H + 1:
            return np.repeat(best_by_counts(counts)[None], self.members, axis=0)
        return explore(counts, (number - 1) % H, self.members, self.threshold)


@dataclass(frozen=True, kw_only=True)
class MultiBatch(FromCounts):
    """Short batches that explore step by step, then longer and longer ones with fewer actions.

    After Zhang, Jiang, Zhou, Ji 2022, of which we know the structure alone. Deployment h explores
    step h, as in `LayerByLayer`. In each later deployment members go to (h, x, a) that may still be
    optimal, those with the fewest visits first, and play only such actions. An action is dropped if
    its upper value is below the lower value of another one in its row. The last deployment plays
    the policy that earns most by the counts. `GrowingBatches` has the dates.

    Parameters
    ----------
    phase
        The number of episodes of each of the first H deployments, as in the schedule.
    members
        How many policies are deployed together: at least as many as there are pairs (x, a).
    threshold
        A successor that was seen less often is left out of the model of the ways.
    c
        The scale of the width c (H - h + 1) / sqrt(n) of an estimate from n visits.
    """

    phase: int = 300
    members: int = 64
    threshold: int = 3
    c: float = 0.1

    def __post_init__(self) -> None:
        for name in ("phase", "members", "threshold"):
            object.__setattr__(self, name, require_count(name, getattr(self, name)))
        object.__setattr__(self, "c", require_scale("c", self.c))

    def plan(self, counts: Counts) -> np.ndarray:  # [members, H, S]
        if counts.last:
            return np.repeat(best_by_counts(counts)[None], self.members, axis=0)
        batch = (counts.episodes - 1) // self.phase
        if batch < len(counts.visits):
            return explore(counts, batch, self.members, self.threshold)
        upper, surviving = survivors(counts, self.c)
        fewest = np.argsort(counts.visits[surviving], kind="stable")[: self.members]
        model, left = known_laws(counts, self.threshold), counts._replace(allowed=surviving)
        places = np.argwhere(surviving)[fewest]
        ways = [reach(left, model, h, x, a, upper) for h, x, a in places]
        return in_turn(ways, self.members)


def explore(counts: Counts, step: int, members: int, threshold: int) -> np.ndarray:
    """A member for each (x, a) of a step; more members begin again with the first pair."""
    pairs = np.argwhere(counts.allowed[step])
    if len(pairs) > members:
        raise ValueError(
            f"each of {len(pairs)} pairs of state and action needs a member, and there are"
            f" {members} members; give members={len(pairs)}"
        )
    model = known_laws(counts, threshold)
    anything = counts.generator.random(counts.allowed.shape)
    return in_turn([reach(counts, model, step, x, a, anything) for x, a in pairs], members)


def in_turn(policies: list[np.ndarray], members: int) -> np.ndarray:  # [members, H, S]
    """As many policies as there are members, which begin again with the first one."""
    return np.array([policies[m % len(policies)] for m in range(members)])


def survivors(counts: Counts, c: float) -> tuple[np.ndarray, np.ndarray]:  # [H, S, A] each
    """The upper values, and which allowed actions may be optimal: their upper value is no lower
    than the best lower value of their row.
    """
    H, S, _ = counts.visits.shape
    n = np.maximum(counts.visits, 1)
    means, laws = counts.rewards / n, counts.successors / n[..., None]
    upper, surviving = np.zeros(n.shape), counts.allowed.copy()
    above, below = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        tried, width = counts.visits[h] > 0, c * (H - h) / np.sqrt(n[h])
        most = np.minimum(H - h, means[h] + laws[h] @ above + width)
        least = np.maximum(0, means[h] + laws[h] @ below - width)
        upper[h] = np.where(tried, most, H - h)
        below = np.where(tried & counts.allowed[h], least, 0).max(axis=-1)
        surviving[h] &= upper[h] >= below[:, None]
        above = np.where(surviving[h], upper[h], 0).max(axis=-1)
    return upper, surviving


def known_laws(counts: Counts, threshold: int) -> np.ndarray:  # [H, S, A, S]
    """Observed frequencies of successors; rarely seen ones lose their mass: Qiao et al. 2022."""
    visits = np.maximum(counts.visits, 1)[..., None]
    frequencies: np.ndarray = counts.successors / visits
    return np.where(counts.successors >= threshold, frequencies, 0.0)


def reach(
    counts: Counts, model: np.ndarray, step: int, state: int, action: int, anything: np.ndarray
) -> np.ndarray:  # [H, S]
    """The policy that visits (step, state, action) most often in a model, by dynamic programming.

    Where no action leads there, and afterwards, it plays the largest of `anything` [H, S, A].
    """
    q = np.where(counts.allowed, anything, -np.inf)
    q[step, state] = -np.inf
    q[step, state, action] = 0.0
    chances = np.zeros(len(model[0]))
    chances[state] = 1.0
    for h in range(step - 1, -1, -1):
        arrives = np.where(counts.allowed[h], model[h] @ chances, -np.inf)
        chances = arrives.max(axis=-1)
        q[h] = np.where(chances[:, None] > 0, arrives, q[h])
    policy: np.ndarray = q.argmax(axis=-1)
    return policy


def best_by_counts(counts: Counts) -> np.ndarray:  # [H, S]
    """The best policy by observed means and frequencies, among the actions that were tried."""
    visits = counts.visits
    tried = counts.allowed & (visits > 0)
    laws = counts.successors / np.maximum(visits, 1)[..., None]
    q = counts.rewards / np.maximum(visits, 1)
    for h in range(len(visits) - 2, -1, -1):
        following = np.where(tried[h + 1], q[h + 1], -np.inf).max(axis=-1)
        q[h] += laws[h] @ np.where(tried[h + 1].any(axis=-1), following, 0.0)
    return counts.greedy(np.where(tried, q, -1.0))
