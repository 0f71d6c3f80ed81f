"""Whether the contexts of a run move, and what the deployed policy loses then.

A test compares the newest contexts with the earlier ones. Once they have moved, a policy that was
good may lose much in the new contexts. What it loses is estimated by the newest estimates, and a
deployment comes early if its period has lost much more than earlier ones.
"""

from __future__ import annotations

import bisect
import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

LEVEL = 0.002  # nominal, of a false alarm in a whole run; simulated runs had 1 to 2 %
_LEAST = 30  # contexts on both sides of a test
_PARTS = 10  # of a run; after each of them the contexts are tested, and on each date
_OFTEN = 100  # parts of a run, after each of which losses are estimated once contexts have moved
_MUCH = 2.0  # times the average loss of a period, after which a deployment comes early


class ContextDrift(NamedTuple):
    """After `told` episodes, the newest contexts were found to differ from the earlier ones.

    The mean of a feature, or of its square, has moved by `errors` standard errors.
    """

    told: int
    feature: int
    errors: float

    def __str__(self) -> str:
        return (
            f"the contexts have moved: after {self.told:,} episodes feature {self.feature} of the"
            f" newest contexts differs from the earlier ones by {self.errors:.1f} standard errors"
        )


class Lost(NamedTuple):
    """The estimated losses of a run, by the estimates at the time."""

    told: int = 0  # episodes that are counted
    all: float = 0.0
    newest: float = 0.0  # since the last date

    def after(self, told: int, per_episode: float) -> Lost:
        """With the episodes until now, each of which lost so much."""
        lost = (told - self.told) * per_episode
        return Lost(told, self.all + lost, self.newest + lost)

    def is_much(self, deployments: int) -> bool:
        """Whether the time since the last date lost much more than one deployment usually does."""
        return deployments > 0 and self.newest > _MUCH * self.all / deployments


class SeenContexts(NamedTuple):
    """Sums over the contexts before the newest ones, and over these; axis 0 says which."""

    counts: np.ndarray  # [2]
    powers: np.ndarray  # [2, 3, d]  sums of x, x^2 and x^4
    found: ContextDrift | None = None


def nothing_seen(features: int) -> SeenContexts:
    return SeenContexts(np.zeros(2), np.zeros((2, 3, features)))


def checks(dates: tuple[int, ...], episodes: int) -> tuple[int, ...]:
    """The numbers of episodes after which contexts are tested."""
    parts = {episodes * i // _PARTS for i in range(1, _PARTS + 1)} - {0}
    return tuple(sorted(parts | set(dates)))


def next_check(after: tuple[int, ...], told: int, episodes: int) -> int:
    """The first of these checks after `told` episodes, or the end of the run."""
    place = bisect.bisect_right(after, told)
    return after[place] if place < len(after) else episodes


def next_estimate(told: int, episodes: int) -> int:
    """When losses are estimated next, once the contexts have moved."""
    step = max(1, episodes // _OFTEN)
    return min(episodes, (told // step + 1) * step)


def watch(
    seen: SeenContexts, contexts: np.ndarray, told: int, after: tuple[int, ...]
) -> SeenContexts:
    """Add contexts [n, d], and test them if `told` episodes, these included, are a check.

    The sums are made in the order of the episodes, so that batches do not matter.
    """
    rows = np.stack([contexts, contexts**2, contexts**4], axis=1)  # [n, 3, d]
    newest = np.add.reduce(np.concatenate([seen.powers[1:], rows]), axis=0)
    counts = seen.counts + np.array([0, len(contexts)])
    powers = np.stack([seen.powers[0], newest])
    place = bisect.bisect_left(after, told)
    if place == len(after) or after[place] != told or counts[1] < _LEAST:
        return SeenContexts(counts, powers)
    if counts[0] >= _LEAST:
        feature, errors = _largest(counts, powers)
        tests = 2 * powers.shape[-1] * len(after)
        if errors > NormalDist().inv_cdf(1 - LEVEL / (2 * tests)):
            return SeenContexts(counts, powers, ContextDrift(told, feature, errors))
    merged, fresh = powers.sum(axis=0), np.zeros(powers.shape[1:])
    return SeenContexts(np.array([counts.sum(), 0.0]), np.stack([merged, fresh]))


def _largest(counts: np.ndarray, powers: np.ndarray) -> tuple[int, float]:
    """The feature whose mean, or mean square, has moved most, and by how many standard errors."""
    means = powers / counts[:, None, None]  # [2, 3, d]
    moved = np.abs(means[1, :2] - means[0, :2])  # [2, d]
    # of all contexts together: a short time without a rare value has no spread of its own
    whole = powers.sum(axis=0) / counts.sum()
    spread = np.maximum(0.0, whole[1:] - whole[:2] ** 2)
    error = np.sqrt(spread * (1.0 / counts).sum())
    rounding = 1e-9 * (1.0 + np.abs(means[:, :2]).max(axis=0))
    errors = np.where(moved > rounding, moved / np.maximum(error, rounding), 0.0)
    feature = int(errors.max(axis=0).argmax())
    largest = float(errors[:, feature].max())
    return feature, largest if math.isfinite(largest) else 0.0


def restored_contexts(
    arrays: dict[str, np.ndarray], features: int
) -> tuple[SeenContexts, tuple[int, ...]]:
    """The saved sums of the contexts, and the dates if they were moved."""
    fresh = nothing_seen(features)
    for name in ("counts", "powers"):
        found, wanted = arrays[f"seen.{name}"], getattr(fresh, name)
        if found.shape != wanted.shape or not np.isfinite(found).all():
            raise ValueError(f"its sums of contexts ({name}) are not numbers of {wanted.shape}")
    told, feature, errors = arrays.get("seen.found", (0, 0, 0.0))
    drift = ContextDrift(int(told), int(feature), float(errors)) if told else None
    seen = SeenContexts(arrays["seen.counts"].copy(), arrays["seen.powers"].copy(), drift)
    return seen, tuple(map(int, arrays.get("dates", ())))


def restored_loss(arrays: dict[str, np.ndarray]) -> Lost:
    """The saved losses, once they are numbers."""
    found = arrays["lost"]
    if found.shape != (3,) or not np.isfinite(found).all():
        raise ValueError("its estimated losses are not three numbers")
    return Lost(int(found[0]), float(found[1]), float(found[2]))
