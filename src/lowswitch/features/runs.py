"""Many seeds of an algorithm on a problem with features: what they cost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.meetings import require_dates
from lowswitch.checks import checked_seeds, require_count
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.problem import FeatureProblem, Played, require_problem
from lowswitch.io import storage
from lowswitch.learners.ridge_spec import linear_form
from lowswitch.policy.linear import LinearPolicy
from lowswitch.runs.results import curve_points
from lowswitch.show.progress import Progress, cores, run_all

_FIRST_PIECE, _LARGEST_PIECE = 1, 20_000  # episodes
_KIND = "linear runs"  # of its files


class LinearCurves(NamedTuple):
    """What each run had cost after about 200 log-spaced numbers of episodes."""

    episodes: np.ndarray  # [C]
    regret: np.ndarray  # [seeds, C]
    deployments: np.ndarray  # [seeds, C]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearRuns:
    """What the runs of one algorithm on one problem with features cost."""

    algorithm: Algorithm
    problem: str
    horizon: int
    features: int
    actions: int
    episodes: int
    seeds: np.ndarray  # [seeds]
    regret: np.ndarray  # [seeds]
    earned: np.ndarray  # [seeds]  the sum of all rewards
    deployments: np.ndarray  # [seeds]
    curves: LinearCurves
    seconds: float

    @property
    def local_switches(self) -> np.ndarray:  # [seeds]
        """There are no rows: each deployment counts once."""
        return self.deployments

    @property
    def steps_per_second(self) -> float:
        """The steps that all threads together made in a second."""
        return self.episodes * self.horizon * len(self.seeds) / self.seconds

    def __repr__(self) -> str:
        means = f"regret {self.regret.mean():.4g}, deployments {self.deployments.mean():.4g}"
        return (
            f"LinearRuns({self.algorithm}, {self.problem}, {self.episodes:,} episodes,"
            f" {len(self.seeds)} seeds, {means})"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration; `LinearRuns.load` reads them back."""
        storage.save(path, _KIND, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearRuns:
        """The runs that `save` wrote."""
        return storage.load(path, _KIND, cls)

    def require_whole(self) -> None:
        """Raise a ValueError if the results are not those of so many seeds."""
        seeds, points = len(self.seeds), len(self.curves.episodes)
        for name in ("regret", "earned", "deployments"):
            if getattr(self, name).shape != (seeds,):
                raise ValueError(f"{name} has the shape {getattr(self, name).shape}")
        if {self.curves.regret.shape, self.curves.deployments.shape} != {(seeds, points)}:
            raise ValueError("its curves are not those of its seeds")


def simulate_features(
    problem: FeatureProblem,
    algorithm: Algorithm,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 16,
    threads: int | None = None,
    progress: bool | None = None,
    initial: LinearPolicy | None = None,
) -> LinearRuns:
    """Run an algorithm for `episodes` episodes of a problem with features under each seed."""
    require_problem(problem)
    require_dates(require_algorithm(algorithm).schedule)
    episodes, numbers = require_count("episodes", episodes), checked_seeds(seeds)
    workers = require_count("threads", cores() if threads is None else threads)
    runs = [_Run(problem, algorithm, episodes, seed, initial) for seed in numbers]
    steps = len(runs) * episodes * problem.shape.horizon
    begin = time.perf_counter()
    with Progress(steps, unit="steps", show=progress, label=str(algorithm)) as bar:
        bar.start()
        run_all(
            [run.play for run in runs],
            workers=workers,
            look_up=lambda: bar.update(sum(run.done for run in runs) * problem.shape.horizon),
        )
    shape = problem.shape
    return LinearRuns(
        algorithm=linear_form(algorithm, episodes),
        problem=problem.name,
        horizon=shape.horizon,
        features=shape.features,
        actions=shape.actions,
        episodes=episodes,
        seeds=np.array(numbers, dtype=np.int64),
        regret=np.array([run.regret[-1] for run in runs]),
        earned=np.array([run.earned for run in runs]),
        deployments=np.array([run.deployments[-1] for run in runs], dtype=np.int64),
        curves=LinearCurves(
            curve_points(episodes),
            np.stack([run.regret for run in runs]),
            np.stack([run.deployments for run in runs]),
        ),
        seconds=time.perf_counter() - begin,
    )


class _Run:
    """One seed: its learner lives while it runs, its costs stay."""

    def __init__(
        self,
        problem: FeatureProblem,
        algorithm: Algorithm,
        episodes: int,
        seed: int,
        initial: LinearPolicy | None,
    ) -> None:
        self.problem, self.algorithm, self.initial = problem, algorithm, initial
        self.seed, self.episodes = seed, episodes
        self.done, self.earned = 0, 0.0
        marks = curve_points(episodes)
        self.regret, self.deployments = np.zeros(len(marks)), np.zeros(len(marks), dtype=np.int64)

    def play(self, stop: threading.Event) -> None:
        learner = learner_for(self.problem, self.algorithm, self.episodes, self.seed, self.initial)
        account, piece = Account(self.episodes), _FIRST_PIECE
        while self.done < self.episodes and not stop.is_set():
            policy, before = learner.policy, learner.deployments
            size = learner.next_stop(min(piece, self.episodes - self.done))
            played = self.problem.play(policy, self.seed, self.done, self.done + size)
            learned = learner.learn_piece(played.x, played.actions, played.rewards)
            self.earned += float(played.rewards[:learned].sum())
            account.charge(played, learned, before, learner.deployments)
            self.done += learned
            piece = min(2 * piece, _LARGEST_PIECE) if learned == size else max(1, learned // 2)
        self.regret, self.deployments = account.regret, account.deployments


class Account:
    """Regret and deployments at the marks of the curves, charged piece by piece."""

    def __init__(self, episodes: int) -> None:
        self.marks = curve_points(episodes)
        self.regret = np.zeros(len(self.marks))
        self.deployments = np.zeros(len(self.marks), dtype=np.int64)
        self.done, self.total = 0, 0.0

    def charge(self, played: Played, learned: int, before: int, after: int) -> None:
        """Add the episodes that were learned; what is deployed after the last of them counts."""
        sums = self.total + np.cumsum(played.regret[:learned])
        first, last = np.searchsorted(self.marks, (self.done + 1, self.done + learned + 1))
        self.regret[first:last] = sums[self.marks[first:last] - self.done - 1]
        self.deployments[first:last] = before
        self.done, self.total = self.done + learned, float(sums[-1])
        if last and self.marks[last - 1] == self.done:
            self.deployments[last - 1] = after


def learner_for(
    problem: FeatureProblem,
    algorithm: Algorithm,
    episodes: int,
    seed: int,
    initial: LinearPolicy | None = None,
) -> FeatureLearner:
    """A learner of the right size for a problem."""
    shape: Any = problem.shape._asdict()
    return FeatureLearner(algorithm, **shape, episodes=episodes, seed=seed, initial=initial)
