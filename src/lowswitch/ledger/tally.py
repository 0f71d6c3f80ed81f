"""Counts of the learned steps, site by site: the basis of the evidence."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

_MOST = 1 << 15  # steps that wait to be counted


class Model(NamedTuple):
    """An empirical model of the process."""

    visits: np.ndarray  # [H, S, A]
    rewards: np.ndarray  # [H, S, A]  sums, in [0, 1] for each visit
    cells: np.ndarray  # [n]  (h S + x) A + a of each pair with a successor, ascending
    successors: np.ndarray  # [n]
    counts: np.ndarray  # [n]


class Tally:
    """Visits, rewards and successors of each (h, x, a), for every site.

    Counting many steps at once costs little more than counting a few, so they wait until somebody
    needs a count.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self._visits: dict[str, np.ndarray] = {}  # [H, S, A] of each site
        self._rewards: dict[str, np.ndarray] = {}
        self._followed: dict[str, Counter[int]] = {}  # by ((h S + x) A + a) S + y
        self._waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        self._steps = 0  # that wait
        self._in_arrays: tuple[np.ndarray, dict[str, np.ndarray]] | None = None

    def add(
        self,
        sites: Sequence[str] | np.ndarray,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
    ) -> None:
        """Count the steps of episodes [B, H] that are learned, those whose action is not -1."""
        self._in_arrays = None
        self._waiting.append((np.array(sites, dtype=object), states, actions, rewards))
        self._steps += actions.size
        if self._steps >= _MOST:
            self._count()

    def _count(self) -> None:
        """Count the steps that wait."""
        if not self._waiting:
            return
        names, states, actions, rewards = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting, self._steps = [], 0
        H, S, A = self.shape
        cells = (np.arange(H) * S + states) * A + actions
        pairs = cells[:, :-1] * S + states[:, 1:]
        known = actions >= 0
        for site in dict.fromkeys(names.tolist()):
            if site not in self._visits:
                self._visits[site] = np.zeros(H * S * A, dtype=np.int64)
                self._rewards[site] = np.zeros(H * S * A)
                self._followed[site] = Counter()
            mine = known & (names == site)[:, None]
            np.add.at(self._visits[site], cells[mine], 1)
            np.add.at(self._rewards[site], cells[mine], rewards[mine])  # in order, for equal bits
            found, first, counts = np.unique(
                pairs[mine[:, :-1]], return_index=True, return_counts=True
            )
            order = np.argsort(first)  # new keys in the order of the steps, for equal snapshots
            new = zip(found[order].tolist(), counts[order].tolist(), strict=True)
            self._followed[site].update(dict(new))

    @property
    def visits(self) -> dict[str, np.ndarray]:
        """The visits [H S A] of each site."""
        self._count()
        return self._visits

    def model(self, without: Collection[str] = ()) -> Model:
        """The model of all sites except some."""
        H, S, A = self.shape
        visits, rewards = np.zeros(H * S * A, dtype=np.int64), np.zeros(H * S * A)
        keys, counts = self._pairs()
        total = np.zeros(len(keys), dtype=np.int64)
        for site in sorted(self.visits):
            if site not in without:
                visits += self.visits[site]
                rewards += self._rewards[site]
                total += counts[site]
        keys, total = keys[total > 0], total[total > 0]
        return Model(visits.reshape(H, S, A), rewards.reshape(H, S, A), keys // S, keys % S, total)

    def _pairs(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The keys of `followed` at all sites, ascending, and the count of each at every site.

        They are cached, because the evidence of a proposal needs many models.
        """
        self._count()
        if self._in_arrays is None:
            pairs = {
                site: (_array(found.keys()), _array(found.values()))
                for site, found in self._followed.items()
            }
            keys = np.unique(np.concatenate([_array(()), *(found for found, _ in pairs.values())]))
            counts = {site: np.zeros(len(keys), dtype=np.int64) for site in pairs}
            for site, (found, numbers) in pairs.items():
                counts[site][np.searchsorted(keys, found)] = numbers
            self._in_arrays = keys, counts
        return self._in_arrays

    def copy(self) -> Tally:
        """A copy that later additions do not change."""
        found = Tally(self.shape)
        for site, visits in self.visits.items():
            found._visits[site], found._rewards[site] = visits.copy(), self._rewards[site].copy()
            found._followed[site] = self._followed[site].copy()
        return found

    def to_bytes(self) -> bytes:
        """The tally for a snapshot."""
        file = io.BytesIO()
        sites = sorted(self.visits)
        arrays: dict[str, np.ndarray] = {"sites": np.array(sites, dtype=np.str_)}
        for i, site in enumerate(sites):
            arrays[f"visits{i}"], arrays[f"rewards{i}"] = self.visits[site], self._rewards[site]
            arrays[f"keys{i}"] = _array(self._followed[site].keys())
            arrays[f"counts{i}"] = _array(self._followed[site].values())
        np.savez(file, allow_pickle=False, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, shape: tuple[int, int, int], data: bytes) -> Tally:
        tally = cls(shape)
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            for i, site in enumerate(file["sites"].tolist()):
                tally._visits[site], tally._rewards[site] = file[f"visits{i}"], file[f"rewards{i}"]
                pairs = zip(file[f"keys{i}"].tolist(), file[f"counts{i}"].tolist(), strict=True)
                tally._followed[site] = Counter(dict(pairs))
        return tally


def _array(numbers: Collection[int]) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.int64, count=len(numbers))
