"""One algorithm on one problem under every seed, as the drivers of many seeds see it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_count
from lowswitch.envs.problem import Problem
from lowswitch.history import RunCosts
from lowswitch.runs.results import POINTS, Curves, Runs, curve_points, origin
from lowswitch.runs.stopping import Stop
from lowswitch.show.progress import Pace
from lowswitch.show.text import counted, duration

_MUCH_BYTES, _MUCH_SECONDS = 2**30, 60
Device = Literal["cpu", "gpu"]


class Options(NamedTuple):
    """Options of runs; not every kind of problem has all of them."""

    regret: bool = True
    history: bool = False
    device: Device = "cpu"
    initial: Any = None
    warm_start: tuple[Any, Any, Any] | None = None
    stop: Stop | None = None
    delay: int = 0


def checked_delay(options: Options) -> int:
    """The delay of outcomes, which a GPU does not have."""
    delay = require_count("delay", options.delay, least=0)
    if delay and options.device == "gpu":
        raise ValueError("a GPU plays without delays; leave delay out, or the device")
    return delay


class Run(Protocol):
    """One seed: its learner lives while it runs, its costs stay."""

    done: int  # episodes
    pace: Pace  # of its plans
    costs: RunCosts  # once it was played

    def play(self, stop: threading.Event) -> None:
        """Play all episodes, or until the event is set."""


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """One algorithm on one problem, under every seed."""

    problem: Problem
    algorithm: Algorithm
    episodes: int
    seeds: list[int]
    regret: bool = True  # whether it is worked out
    delay: int = 0  # after how many more episodes an outcome is known

    @property
    def horizon(self) -> int:
        """H, the steps of an episode."""
        return self.problem.size["horizon"]

    @property
    def steps(self) -> int:
        """How many steps all its runs have together."""
        return len(self.seeds) * self.episodes * self.horizon

    def nbytes(self, threads: int) -> int:
        """The bytes of all results and of the runs that are played together, as far as known."""
        return len(self.seeds) * 3 * 8 * POINTS

    @property
    def plans(self) -> int:
        """How many plans each run makes in Python, if that is known; else 0."""
        return 0

    @property
    def plan_seconds(self) -> float:
        """About how long one of these plans takes."""
        return 0.0

    def outlook(self, threads: int) -> str:
        """What the runs are going to take, in words, if that is much; else nothing."""
        need = self.nbytes(threads)
        seconds = len(self.seeds) * self.plans * self.plan_seconds / threads
        if need < _MUCH_BYTES and seconds < _MUCH_SECONDS:
            return ""
        text = f"{self.algorithm.label} takes about {need / 2**30:,.1f} GiB"
        if seconds >= _MUCH_SECONDS:
            each = f"{counted(self.plans, 'plan')} of about {duration(self.plan_seconds)}"
            text += f" and, for {each} in each run, up to {duration(seconds)}"
        return text

    @abstractmethod
    def kernel(self) -> Any:
        """The compiled function that plays or learns, which is loaded first."""

    @abstractmethod
    def begin(self, seed: int, episodes: int) -> Run:
        """The run of one seed, which ends after this number of episodes."""

    def runs(self, costs: RunCosts, seconds: float) -> Runs:
        """The results, from the costs of its runs in the order of the seeds."""
        regret, switches, deployments = costs.regret, costs.local_switches, costs.deployments
        size: dict[str, Any] = dict(self.problem.size)
        return Runs(
            algorithm=self.algorithm,
            **size,
            episodes=self.episodes,
            seeds=np.array(self.seeds, dtype=np.int64),
            optimal_value=self.problem.optimal_value(self.episodes),
            regret=regret[:, -1].copy(),
            local_switches=switches[:, -1].copy(),
            deployments=deployments[:, -1].copy(),
            drowned_share=np.zeros(len(self.seeds)),
            curves=Curves(curve_points(self.episodes), regret, switches, deployments),
            seconds=seconds,
            delay=self.delay,
            **origin(self.problem),
        )
