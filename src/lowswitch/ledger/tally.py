"""Counts of the learned steps, site by site: the basis of the evidence."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np


class Model(NamedTuple):
    """An empirical model of the process."""

    visits: np.ndarray  # [H, S, A]
    rewards: np.ndarray  # [H, S, A]  sums, in [0, 1] for each visit
    cells: np.ndarray  # [n]  (h S + x) A + a of each pair with a successor, ascending
    successors: np.ndarray  # [n]
    counts: np.ndarray  # [n]


class Tally:
    """Visits, rewards and successors of each (h, x, a), for every site."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self.visits: dict[str, np.ndarray] = {}  # [H, S, A] of each site
        self.rewards: dict[str, np.ndarray] = {}
        self.followed: dict[str, Counter[int]] = {}  # by ((h S + x) A + a) S + y
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
        H, S, A = self.shape
        cells = (np.arange(H) * S + states) * A + actions
        pairs = cells[:, :-1] * S + states[:, 1:]
        known, names = actions >= 0, np.array(sites)
        for site in dict.fromkeys(sites):
            if site not in self.visits:
                self.visits[site] = np.zeros(H * S * A, dtype=np.int64)
                self.rewards[site] = np.zeros(H * S * A)
                self.followed[site] = Counter()
            mine = known & (names == site)[:, None]
            np.add.at(self.visits[site], cells[mine], 1)
            np.add.at(self.rewards[site], cells[mine], rewards[mine])  # in order, for equal bits
            self.followed[site].update(pairs[mine[:, :-1]].tolist())

    def model(self, without: Collection[str] = ()) -> Model:
        """The model of all sites except some."""
        H, S, A = self.shape
        visits, rewards = np.zeros(H * S * A, dtype=np.int64), np.zeros(H * S * A)
        keys, counts = self._followed()
        total = np.zeros(len(keys), dtype=np.int64)
        for site in sorted(self.visits):
            if site not in without:
                visits += self.visits[site]
                rewards += self.rewards[site]
                total += counts[site]
        keys, total = keys[total > 0], total[total > 0]
        return Model(visits.reshape(H, S, A), rewards.reshape(H, S, A), keys // S, keys % S, total)

    def _followed(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The keys of `followed` at all sites, ascending, and the count of each at every site.

        They are cached, because the evidence of a proposal needs many models.
        """
        if self._in_arrays is None:
            pairs = {
                site: (_array(found.keys()), _array(found.values()))
                for site, found in self.followed.items()
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
            found.visits[site], found.rewards[site] = visits.copy(), self.rewards[site].copy()
            found.followed[site] = self.followed[site].copy()
        return found

    def to_bytes(self) -> bytes:
        """The tally for a snapshot."""
        file = io.BytesIO()
        sites = sorted(self.visits)
        arrays: dict[str, np.ndarray] = {"sites": np.array(sites, dtype=np.str_)}
        for i, site in enumerate(sites):
            arrays[f"visits{i}"], arrays[f"rewards{i}"] = self.visits[site], self.rewards[site]
            arrays[f"keys{i}"] = _array(self.followed[site].keys())
            arrays[f"counts{i}"] = _array(self.followed[site].values())
        np.savez(file, allow_pickle=False, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, shape: tuple[int, int, int], data: bytes) -> Tally:
        tally = cls(shape)
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            for i, site in enumerate(file["sites"].tolist()):
                tally.visits[site], tally.rewards[site] = file[f"visits{i}"], file[f"rewards{i}"]
                pairs = zip(file[f"keys{i}"].tolist(), file[f"counts{i}"].tolist(), strict=True)
                tally.followed[site] = Counter(dict(pairs))
        return tally


def _array(numbers: Collection[int]) -> np.ndarray:
    return np.fromiter(numbers, dtype=np.int64, count=len(numbers))
