"""Which kinds of cases change: a shallow tree on the features, fitted to the change of a policy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_DEPTH = 3
_LEAST = 0.02  # the smallest share of the cases in a region
_FEWEST = 12  # and the smallest number
_DIGITS = range(2, 8)  # significant ones of a limit, as few as possible


class Condition(NamedTuple):
    """A feature, and the limit that its value does not exceed, or exceeds."""

    feature: int
    above: bool
    limit: float


class Region(NamedTuple):
    """Cases of one kind."""

    conditions: tuple[Condition, ...]
    cases: np.ndarray  # [n]  positions, ascending
    label: int  # the most frequent among them


class _Cases(NamedTuple):
    """The cases that a tree is grown on."""

    values: np.ndarray  # [n, k]
    votes: np.ndarray  # [n, labels]  the weight of each case, in the column of its label


def regions_of(values: np.ndarray, labels: np.ndarray, stays: int) -> list[Region]:
    """Regions of cases with features [n, k], in each of which one label [n] is frequent.

    Every split is the one of all features and limits that lowers Gini's impurity most (CART,
    Breiman, Friedman, Olshen, Stone 1984); halves with the same label are put together again. If
    few cases change, those with the label `stays` count less, so that the others are found.
    """
    names, codes = np.unique(labels, return_inverse=True)
    changed = int((labels != stays).sum())
    light = min(1.0, math.sqrt(changed / max(1, len(labels) - changed)))
    weights = np.where(labels == stays, light if changed else 1.0, 1.0)
    cases = _Cases(values, np.eye(len(names))[codes.reshape(-1)] * weights[:, None])
    everything = np.arange(len(values))
    found = _grown(cases, Region((), everything, _usual(cases, everything)), _DEPTH)
    return [one._replace(label=int(names[one.label])) for one in found]


def placed(region: Region, values: np.ndarray) -> Region:
    """The region with its cases among others, with features [n, k]."""
    inside = np.ones(len(values), dtype=bool)
    for feature, above, limit in region.conditions:
        inside &= (values[:, feature] > limit) == above
    return region._replace(cases=np.flatnonzero(inside))


def fidelity(
    regions: list[Region], labels: np.ndarray, stays: int, judges: np.ndarray
) -> float | None:
    """The share of the judging cases that change whose label is the one of their region."""
    changed = int((labels[judges] != stays).sum())
    right = sum(
        int((labels[np.intersect1d(one.cases, judges)] == one.label).sum())
        for one in regions
        if one.label != stays
    )
    return round(right / changed, 9) if changed else None


def _grown(cases: _Cases, region: Region, depth: int) -> list[Region]:
    cut = _best_cut(cases, region.cases) if depth else None
    if cut is None:
        return [region]
    feature, limit = cut
    above = cases.values[region.cases, feature] > limit
    halves = list[Region]()
    for side in (False, True):
        chosen = region.cases[above == side]
        conditions = (*region.conditions, Condition(feature, side, limit))
        half = Region(conditions, chosen, _usual(cases, chosen))
        halves += _grown(cases, half, depth - 1)
    return [region] if len({one.label for one in halves}) == 1 else halves


def _usual(cases: _Cases, chosen: np.ndarray) -> int:
    return int(cases.votes[chosen].sum(axis=0).argmax())


def _best_cut(cases: _Cases, chosen: np.ndarray) -> tuple[int, float] | None:
    """The feature and the limit of the best split, or None if nothing is gained by any."""
    values, votes, n = cases.values[chosen], cases.votes[chosen], len(chosen)
    least = max(_FEWEST, math.ceil(_LEAST * len(cases.values)))
    sums = votes.sum(axis=0)
    best, found = float((sums**2).sum() / sums.sum()) * (1 + 1e-9), None
    sizes = np.arange(1, n)
    for feature in range(values.shape[1]):
        order = np.argsort(values[:, feature], kind="stable")
        ordered, left = values[order, feature], np.cumsum(votes[order], axis=0)[:-1]
        right = sums - left
        pure = (left**2).sum(axis=1) / left.sum(axis=1) + (right**2).sum(axis=1) / right.sum(axis=1)
        fits = (ordered[1:] > ordered[:-1]) & (sizes >= least) & (n - sizes >= least)
        pure = np.where(fits, pure, 0.0)
        if len(pure) and pure.max() > best:
            at = int(pure.argmax())
            best, found = float(pure[at]), (feature, float(ordered[at]), float(ordered[at + 1]))
    return None if found is None else (found[0], _short(*found[1:]))


def _short(low: float, high: float) -> float:
    """A limit between two values, with as few digits as possible; only the second exceeds it."""
    middle = 0.5 * low + 0.5 * high
    for digits in _DIGITS:
        limit = float(f"{middle:.{digits}g}")
        if low <= limit < high:
            return limit
    return low


def described(conditions: tuple[Condition, ...]) -> list[list[float | None]]:
    """The range of each feature that is limited: [feature, above, up to]."""
    found = dict[int, list[float | None]]()
    for feature, above, limit in conditions:
        low, high = found.setdefault(feature, [None, None])
        if above:
            low = limit if low is None else max(low, limit)
        else:
            high = limit if high is None else min(high, limit)
        found[feature] = [low, high]
    return [[feature, *ends] for feature, ends in sorted(found.items())]
