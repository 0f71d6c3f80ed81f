"""Runs on problems with features, seed by seed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.problem import FeatureProblem, PlayedEpisodes
from lowswitch.history import RunCosts
from lowswitch.learners.ridge_spec import linear_form
from lowswitch.policy.linear import LinearPolicy
from lowswitch.runs.jobs import Job, Options
from lowswitch.runs.results import Runs, curve_points
from lowswitch.show.progress import Pace

_FIRST_PIECE, _LARGEST_PIECE = 1, 20_000  # episodes


@dataclass(frozen=True, kw_only=True)
class FeatureJob(Job):
    """One algorithm on one problem with features, under every seed."""

    problem: FeatureProblem
    initial: LinearPolicy | None

    @classmethod
    def of(cls, problem: FeatureProblem, options: Options, **job: Any) -> FeatureJob:
        """The job, once everything is known to fit."""
        if options._replace(initial=None) != Options():
            raise ValueError(
                "runs with features are on the CPU, with regret, and have no history, warm_start,"
                " stop or delay; leave these options out"
            )
        job["algorithm"] = linear_form(job["algorithm"], job["episodes"], options.initial)
        return cls(**job, problem=problem, initial=options.initial)

    def learner(self, seed: int) -> FeatureLearner:
        """A learner of the right size for the problem."""
        shape: Any = self.problem.shape._asdict()
        sizes: Any = {"episodes": self.episodes, "seed": seed, "initial": self.initial}
        return FeatureLearner(self.algorithm, **shape, **sizes)

    def kernel(self) -> Any:
        from lowswitch.kernels.ridge import learn

        return learn

    def begin(self, seed: int, episodes: int) -> FeatureRun:
        return FeatureRun(self, seed, episodes)

    def runs(self, costs: RunCosts, seconds: float) -> Runs:
        return replace(super().runs(costs, seconds), earned=costs.earned)


class FeatureRun:
    """One seed: its learner lives while it runs, its costs stay."""

    costs: RunCosts

    def __init__(self, job: FeatureJob, seed: int, episodes: int) -> None:
        self.job, self.seed, self.episodes = job, seed, episodes
        self.done, self.pace = 0, Pace()

    def play(self, stop: threading.Event) -> None:
        job, earned = self.job, 0.0
        learner, account, piece = job.learner(self.seed), RegretCurve(self.episodes), _FIRST_PIECE
        while self.done < self.episodes and not stop.is_set():
            policy, before = learner.policy, learner.deployments
            size = learner.next_stop(min(piece, self.episodes - self.done))
            played = job.problem.play(policy, self.seed, self.done, self.done + size)
            learned = learner.learn_piece(played.x, played.actions, played.rewards)
            earned += float(played.rewards[:learned].sum())
            account.charge(played, learned, before, learner.deployments)
            self.done += learned
            piece = min(2 * piece, _LARGEST_PIECE) if learned == size else max(1, learned // 2)
        self.costs = account.costs(earned)


class RegretCurve:
    """Regret and deployments at the points of the curves, charged piece by piece."""

    def __init__(self, episodes: int) -> None:
        self.marks = curve_points(episodes)
        self.regret = np.zeros(len(self.marks))
        self.deployments = np.zeros(len(self.marks), dtype=np.int64)
        self.done, self.total = 0, 0.0

    def charge(self, played: PlayedEpisodes, learned: int, before: int, after: int) -> None:
        """Add learned episodes; a deployment after the last of them counts."""
        sums = self.total + np.cumsum(played.regret[:learned])
        first, last = np.searchsorted(self.marks, (self.done + 1, self.done + learned + 1))
        self.regret[first:last] = sums[self.marks[first:last] - self.done - 1]
        self.deployments[first:last] = before
        self.done, self.total = self.done + learned, float(sums[-1])
        if last and self.marks[last - 1] == self.done:
            self.deployments[last - 1] = after

    def costs(self, earned: float) -> RunCosts:
        """The costs and rewards of the run."""
        deployments = self.deployments[None]
        return RunCosts(self.regret[None], deployments, deployments, earned=np.array([earned]))
