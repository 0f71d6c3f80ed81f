"""Where the experiments run: each result is kept on disk under its configuration, so that an
interrupted reproduction goes on.
"""

from __future__ import annotations

import hashlib
import json
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import lowswitch
from lowswitch import bandits, envs, simulate, storage
from lowswitch.algorithms.parts import Algorithm
from lowswitch.learner import BonusWarning
from lowswitch.progress import Progress, cores, run_all, waiting
from lowswitch.simulate import Runs, load

Kept = TypeVar("Kept")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is run."""

    name: str
    episodes: int  # of the main comparisons
    seeds: int
    pulls: int  # of a bandit
    bandit_runs: int
    plain_episodes: int  # of the pseudo-code in plain Python
    plain_seeds: int
    machines: tuple[int, ...] = (1, 2, 5, 10, 100)  # of concurrent runs


QUICK = Size(
    name="quick",
    episodes=10**6,
    seeds=8,
    pulls=10**5,
    bandit_runs=200,
    plain_episodes=600,
    plain_seeds=4,
)
FULL = Size(
    name="full",
    episodes=10**7,
    seeds=16,
    pulls=10**6,
    bandit_runs=1000,
    plain_episodes=4000,
    plain_seeds=16,
    machines=(1, 2, 5, 10, 20, 50, 100),
)


class Lab:
    """Runs experiments, or finds their results where they were run before."""

    def __init__(self, folder: Path, size: Size, *, progress: bool | None = None) -> None:
        self.size, self.progress = size, progress
        self.cache = folder / "cache"
        self.cache.mkdir(parents=True, exist_ok=True)

    def runs(
        self,
        problem: str,
        algorithm: Algorithm,
        *,
        episodes: int | None = None,
        seeds: int | None = None,
        history: bool = False,
    ) -> Runs:
        """`simulate` of a named problem, by default over the main number of episodes and seeds."""
        episodes, seeds = episodes or self.size.episodes, seeds or self.size.seeds

        def compute(path: Path) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BonusWarning)  # the page says what c = 1 does
                results = simulate(
                    envs.make(problem),
                    algorithm,
                    episodes=episodes,
                    seeds=seeds,
                    history=history,
                    progress=self.progress,
                )
            results.save(path)

        return self._kept(
            "runs", [problem, algorithm.to_dict(), episodes, seeds, history], compute, load
        )

    def bandit(
        self, means: Sequence[float], algorithm: bandits.BanditAlgorithm
    ) -> bandits.BanditRuns:
        """`bandits.simulate` over the main number of pulls and runs."""
        size = self.size

        def compute(path: Path) -> None:
            bandits.simulate(
                means, algorithm, pulls=size.pulls, runs=size.bandit_runs, progress=self.progress
            ).save(path)

        return self._kept(
            "bandit",
            [list(means), algorithm.to_dict(), size.pulls, size.bandit_runs],
            compute,
            bandits.load,
        )

    def arrays(
        self, name: str, configuration: Any, compute: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Arrays worked out once for a configuration."""
        with waiting(f"{name} ...", show=self.progress):
            return self._arrays(name, configuration, compute)

    def _arrays(
        self, name: str, configuration: Any, compute: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        return self._kept(
            name,
            configuration,
            lambda path: storage.write(path, name, {}, compute()),
            lambda path: storage.read(path, name)[1],
        )

    def each(
        self,
        name: str,
        configurations: Sequence[Any],
        compute: Callable[[int], dict[str, np.ndarray]],
        *,
        episodes: int,
    ) -> list[dict[str, np.ndarray]]:
        """`arrays` for several configurations, on all cores; `compute` is given the place of one,
        and each plays so many episodes.
        """
        found: dict[int, dict[str, np.ndarray]] = {}

        def work(place: int, stop: threading.Event) -> None:
            if not stop.is_set():
                found[place] = self._arrays(name, configurations[place], partial(compute, place))

        works = [partial(work, place) for place in range(len(configurations))]
        total = len(works) * episodes
        with (
            Progress(total, unit="episodes", show=self.progress, label=name) as bar,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", BonusWarning)
            run_all(
                works,
                workers=cores(),
                look_up=lambda: bar.update(
                    len(found) * episodes, f"  {len(found)} of {len(works)} runs"
                ),
            )
        return [found[place] for place in range(len(works))]

    def _kept(
        self,
        kind: str,
        configuration: Any,
        compute: Callable[[Path], None],
        read: Callable[[Path], Kept],
    ) -> Kept:
        """What was computed for a configuration, now or before; a file that cannot be read is
        computed again.
        """
        text = json.dumps([lowswitch.__version__, kind, configuration], sort_keys=True)
        path = self.cache / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"
        try:
            return read(path)
        except ValueError:
            compute(path)
        return read(path)
