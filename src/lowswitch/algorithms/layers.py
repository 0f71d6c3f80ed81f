"""LARFE: reward-free exploration, one layer after the other, by mixtures of policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowswitch.algorithms.custom import Counts, FromCounts
from lowswitch.checks import require_count


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
        return self._explore(counts, (number - 1) % H)

    def _explore(self, counts: Counts, step: int) -> np.ndarray:
        """A member for each (x, a) of a step; more members begin again with the first pair."""
        pairs = np.argwhere(counts.allowed[step])
        if len(pairs) > self.members:
            raise ValueError(
                f"LARFE needs a member for each of {len(pairs)} pairs of state and action, not"
                f" {self.members} members; give members={len(pairs)}"
            )
        model = known_laws(counts, self.threshold)
        anything = counts.generator.random(counts.allowed.shape)
        policies = [reach(counts, model, step, x, a, anything) for x, a in pairs]
        return np.array([policies[m % len(policies)] for m in range(self.members)])


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
