"""The most that any learner with few changes can earn on Bernoulli arms with Beta priors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from lowswitch.checks import require_memory, require_positive
from lowswitch.exact import on_gpu
from lowswitch.exact.simplex import Simplex, points
from lowswitch.kernels import beliefs as kernels
from lowswitch.runs.jobs import Device
from lowswitch.show.progress import Progress, cores

DRAWS = 64  # draw probabilities are multiples of 1/64, as in a mixture of 64 policies
_WAY_OUT = 'use fewer episodes or changes; device="gpu" has room for more switches'


@dataclass(frozen=True)
class Arms:
    """Two or three arms that pay 1 or 0.

    Parameters
    ----------
    priors
        For each arm the parameters (successes, failures) of its Beta prior.
    """

    priors: tuple[tuple[float, float], ...] = ((1.0, 1.0), (1.0, 1.0))

    def __post_init__(self) -> None:
        if len(self.priors) not in (2, 3):
            raise ValueError(f"priors must have two or three arms, not {len(self.priors)}")
        for value in itertools.chain.from_iterable(self.priors):
            require_positive("a parameter of a prior", value, "1 and 1 is the uniform prior")

    @cached_property
    def table(self) -> np.ndarray:  # [A, 2]
        return np.array(self.priors, dtype=float)

    def best(self) -> float:
        """The expected mean of the best arm: the reward per pull if all means are
        known.
        """
        from scipy.integrate import quad
        from scipy.stats import beta

        below = [beta(*pair).cdf for pair in self.priors]
        return 1.0 - float(quad(lambda p: math.prod(f(p) for f in below), 0, 1, epsabs=1e-12)[0])


class ArmSolver:
    """Values of arms, level by level over beliefs; batches are for two arms."""

    def __init__(self, arms: Arms, episodes: int, kind: str) -> None:
        A = len(arms.priors)
        if A != 2 and kind in WEIGHTS:
            raise ValueError(f"{kind} are computed only for two arms, not {A}; choose switches")
        self.episodes, self._kind, self._prior = episodes, kind, arms.table
        self._size = points(episodes, 2 * A - 1)
        leads = points(episodes, 2 * A - 2)
        require_memory(80 * A * leads, f"{leads:,} kinds of beliefs", _WAY_OUT)
        self._simplex = Simplex.of(episodes, 2 * A - 1)

    # ---- the arm may change after any pull -------------------------------------------------------

    def switches(self, changes: int, bar: Progress, device: Device) -> np.ndarray:  # [N + 2]
        """Values for each number of changes; in the last entry every pull may change the arm."""
        shape = (2, changes + 2, len(self._prior), self._size)
        if device == "gpu":
            return on_gpu.pull_levels(self._simplex, self._prior, self.episodes, shape[1:], bar)
        require_memory(8 * math.prod(shape), f"{self._size:,} beliefs", _WAY_OUT)
        later, now = np.zeros(shape)
        with ThreadPoolExecutor(cores()) as pool:
            for t in reversed(range(self.episodes)):
                level = partial(kernels.pull_level, t, prior=self._prior, later=later, now=now)
                pieces = self._simplex.at(t).pieces(4 * cores())
                list(pool.map(level, *zip(*pieces, strict=True)))
                later, now = now, later
                bar.update(self.episodes - t)
        return np.asarray(later[:, :, 0].max(axis=1))

    # ---- the pulls of a batch are chosen when it begins ------------------------------------------

    def none_left(self, level: int) -> np.ndarray:
        """The reward after the last episode."""
        return np.zeros(self._size)

    def batches(self, values: np.ndarray, end: int, until: int) -> Iterator[tuple[int, np.ndarray]]:
        """The levels at which a batch that ends at `end` may begin, with the best values there."""
        need = 8 * (end - until + 1) * self._size
        require_memory(need, f"batches over {self._size:,} beliefs", _WAY_OUT)
        expected = np.zeros((end - until + 1, self._size))
        expected[0] = values
        for begin in range(end - 1, until - 1, -1):
            pulls, at = end - begin, self._simplex.at(begin)
            kernels.step_back(begin, pulls, *at, self._prior, expected)
            weights, best = WEIGHTS[self._kind](pulls), np.zeros(self._size)
            kernels.choose_batch(begin, pulls, *at[:2], self._prior, expected, weights, best)
            yield begin, best


def _draws(pulls: int) -> np.ndarray:
    """Each pull is drawn, with a probability that is a multiple of 1/64."""
    from scipy.stats import binom

    share = np.arange(DRAWS + 1)[:, None] / DRAWS
    return np.asarray(binom.pmf(np.arange(pulls + 1), pulls, share))


# The probability of each number of pulls of the first arm in a batch, for each choice.
WEIGHTS: dict[str, Callable[[int], np.ndarray]] = {
    "batches": lambda pulls: np.eye(pulls + 1)[[0, pulls]],
    "pulls": lambda pulls: np.eye(pulls + 1),
    "draws": _draws,
}
