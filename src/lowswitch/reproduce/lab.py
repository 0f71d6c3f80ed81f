"""Where the experiments of the reproduction run; finished ones are kept, so that an interrupted
reproduction goes on.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lowswitch import bandits, envs
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import checked_seeds
from lowswitch.envs.mdp import RewardLaw, TabularMDP
from lowswitch.io import storage
from lowswitch.runs.jobs import Options
from lowswitch.runs.results import Runs
from lowswitch.runs.simulate import NothingLearnedWarning, job_of, play_away, simulate
from lowswitch.runs.units import Crew, Keep, Threads, each
from lowswitch.show.progress import Progress, cores, looking_up, waiting
from lowswitch.table_learner import BonusWarning

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much a reproduction runs; more takes longer and says more."""

    name: str
    episodes: int  # of the main comparisons
    seeds: int
    pulls: int  # of a bandit
    bandit_runs: int
    plain_episodes: int  # of the pseudo-code in plain Python
    plain_seeds: int
    machines: tuple[int, ...] = (1, 2, 5, 10, 100)  # of concurrent runs
    proof_episodes: int = 10**6  # at the scale of the proofs; of one state, ten times as many
    proof_seeds: int = 4


QUICK = Effort(
    name="quick",
    episodes=10**6,
    seeds=8,
    pulls=10**5,
    bandit_runs=200,
    plain_episodes=600,
    plain_seeds=4,
)
FULL = Effort(
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
    """Runs experiments, or finds the results of those that were run before."""

    def __init__(
        self,
        folder: Path,
        effort: Effort,
        *,
        progress: bool | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.effort, self.progress, self.crew = effort, progress, crew
        self.kept = storage.Kept(folder / "cache")
        self.reward_law: RewardLaw = "deterministic"  # of problems that do not name theirs

    def with_rewards(self, law: RewardLaw, effort: Effort) -> Lab:
        """The same laboratory with another law of rewards and another effort."""
        other = copy.copy(self)
        other.reward_law, other.effort = law, effort
        return other

    def text(self, problem: str) -> str:
        """The text form of a problem with this laboratory's law of rewards."""
        if self.reward_law == "deterministic" or "reward_law=" in problem:
            return problem
        return f"{problem},reward_law={self.reward_law}"

    def make(self, problem: str) -> TabularMDP:
        """A named problem with this laboratory's law of rewards."""
        return envs.make(self.text(problem))

    def runs(
        self,
        problem: str,
        algorithm: Algorithm,
        *,
        episodes: int | None = None,
        seeds: int | Sequence[int] | None = None,
        history: bool = False,
    ) -> Runs:
        """`simulate` of a named problem, by default over the main number of episodes and seeds."""
        episodes, seeds = episodes or self.effort.episodes, seeds or self.effort.seeds
        problem = self.text(problem)
        configuration = [problem, algorithm.facts(), episodes, seeds, history]

        def compute() -> Runs:
            if self.crew is not None:
                options, numbers = Options(history=history), checked_seeds(seeds)
                job = job_of(envs.make(problem), algorithm, episodes, numbers, options)
                label = str(algorithm)
                with Progress(job.steps, unit="steps", show=self.progress, label=label) as bar:
                    ((_, runs),) = play_away([job], self.crew, bar, self.kept, [configuration])
                return runs
            with warnings.catch_warnings():
                for kind in (BonusWarning, NothingLearnedWarning):
                    warnings.simplefilter("ignore", kind)  # the page says what c = 1 does
                return simulate(
                    envs.make(problem),
                    algorithm,
                    episodes=episodes,
                    seeds=seeds,
                    history=history,
                    progress=self.progress,
                )

        return self.kept.get("runs", configuration, compute, Runs)

    def bandit(
        self, means: Sequence[float], algorithm: bandits.BanditAlgorithm
    ) -> bandits.BanditRuns:
        """`bandits.simulate` over the main number of pulls and runs."""
        pulls, runs = self.effort.pulls, self.effort.bandit_runs

        def compute() -> bandits.BanditRuns:
            return bandits.simulate(
                means, algorithm, pulls=pulls, runs=runs, progress=self.progress
            )

        configuration = [list(means), algorithm.to_dict(), pulls, runs]
        return self.kept.get("bandit", configuration, compute, bandits.BanditRuns)

    def measure(
        self, name: str, configuration: Any, compute: Callable[[], Result], wanted: type[Result]
    ) -> Result:
        """The result of an experiment of one's own: a record, or a dictionary of arrays."""
        with waiting(f"{name} ...", show=self.progress):
            return self.kept.get(name, configuration, compute, wanted)

    def measure_each(
        self,
        name: str,
        configurations: Sequence[Any],
        compute: Callable[[int], Result],
        wanted: type[Result],
        *,
        episodes: int,
    ) -> list[Result]:
        """`measure` for several configurations, on all cores.

        `compute` is given the place of a configuration; each of them plays `episodes` episodes.
        """
        found: dict[int, Result] = {}
        units, count = [(place,) for place in range(len(configurations))], len(configurations)
        with (
            Progress(count * episodes, unit="episodes", show=self.progress, label=name) as bar,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", BonusWarning)
            crew, keep = self.crew or Threads(cores()), Keep(self.kept, name, wanted)
            with looking_up(
                lambda: bar.update(len(found) * episodes, f"  {len(found)} of {count} runs")
            ):
                found.update(each(crew, compute, units, configurations, keep))
        return [found[place] for place in range(count)]

    def __getstate__(self) -> dict[str, Any]:
        """Without the crew, which stays where it is when an experiment is sent to its workers."""
        return self.__dict__ | {"crew": None}
