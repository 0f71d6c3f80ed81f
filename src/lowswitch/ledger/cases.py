"""The tally of a run with features: counts of each action, and the newest cases themselves."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lowswitch.ledger.tally import Tally

_MOST = 5000  # cases that are kept
_MOST_NUMBERS = 2_000_000  # numbers in their vectors


class Cases(NamedTuple):
    """Cases that were learned, in the order of their tickets."""

    contexts: np.ndarray  # [n, R, d]
    actions: np.ndarray  # [n]
    rewards: np.ndarray  # [n]
    sites: np.ndarray  # [n]  names

    def part(self, chosen: np.ndarray | slice) -> Cases:
        """A selection of these cases."""
        return Cases(*(array[chosen] for array in self))


class CaseTally(Tally):
    """How often each action was learned from, per site, and the newest cases of a one-step run."""

    def __init__(self, actions: int, vectors: tuple[int, int]) -> None:
        super().__init__((1, 1, actions))
        self.most = max(1, min(_MOST, _MOST_NUMBERS // (vectors[0] * vectors[1])))
        empty = np.zeros(0)
        self.cases = Cases(
            np.zeros((0, *vectors)), empty.astype(np.int64), empty, empty.astype(np.str_)
        )

    def add(
        self,
        sites: Sequence[str] | np.ndarray,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
    ) -> None:
        """Count cases, and keep them; states: their contexts [B, 1, R, d]."""
        super().add(sites, np.zeros_like(actions), actions, rewards)
        new = Cases(states[:, 0], actions[:, 0], rewards[:, 0], np.array(sites, dtype=np.str_))
        both = (np.concatenate(pair) for pair in zip(self.cases, new, strict=True))
        self.cases = Cases(*both).part(slice(-self.most, None))

    def copy(self) -> CaseTally:
        found = CaseTally.__new__(CaseTally)
        found.__dict__.update(super().copy().__dict__, most=self.most, cases=self.cases)
        return found

    def to_bytes(self) -> bytes:
        file = io.BytesIO()
        counts = np.frombuffer(super().to_bytes(), dtype=np.uint8)
        np.savez(file, allow_pickle=False, counts=counts, **self.cases._asdict())
        return file.getvalue()

    def restore(self, data: bytes) -> CaseTally:
        """Restore the data that `to_bytes` wrote."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            counts = Tally.from_bytes(self.shape, file["counts"].tobytes())
            self.__dict__.update(counts.__dict__)
            self.cases = Cases(*(file[name] for name in Cases._fields))
        return self
