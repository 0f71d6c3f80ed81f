"""Many settings on many problems in one call: each problem, algorithm and seed is a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import checked_seeds, require_count, require_word
from lowswitch.envs.problem import Problem
from lowswitch.io import storage
from lowswitch.runs.jobs import Device, Job, Options
from lowswitch.runs.results import Runs, algorithm_of, warn_of_own_parts
from lowswitch.runs.simulate import job_of, play_away, play_jobs, require_cpu
from lowswitch.runs.units import Crew, Fleet, crew_of
from lowswitch.show import plotting, profiles, report
from lowswitch.show.progress import Progress, cores, say
from lowswitch.show.tables import Table, Tables
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_RUNS = 2**16  # that are played on a GPU and held in memory before their results are made
_RUNS_A_THREAD = 4  # of a batch on the CPU, so that no thread waits long for the last one


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """The runs of every problem with every algorithm: `sweep[problem, algorithm]`, by their places.

    The arrays have an entry for each problem, algorithm and seed.
    """

    algorithms: tuple[Algorithm, ...]
    runs: tuple[tuple[Runs, ...], ...]  # [problems][algorithms]
    found: int = 0  # how many of the runs were found in the folder
    names: tuple[str, ...] = ()  # of the algorithms, where they were given some

    def __getitem__(self, place: tuple[int, int]) -> Runs:
        problem, algorithm = place
        return self.runs[problem][algorithm]

    def __iter__(self) -> Iterator[Runs]:
        """The runs of one problem after the other."""
        return (runs for row in self.runs for runs in row)

    def __len__(self) -> int:
        return len(self.runs) * len(self.algorithms)

    def __repr__(self) -> str:
        some = self.runs[0][0]
        return (
            f"Sweep({counted(len(self.runs), 'problem')},"
            f" {counted(len(self.algorithms), 'algorithm')}, {counted(len(some.seeds), 'seed')},"
            f" {counted(some.episodes, 'episode')})"
        )

    @property
    def regret(self) -> np.ndarray:  # [problems, algorithms, seeds]
        return self._table("regret")

    @property
    def local_switches(self) -> np.ndarray:  # [problems, algorithms, seeds]
        return self._table("local_switches")

    @property
    def deployments(self) -> np.ndarray:  # [problems, algorithms, seeds]
        return self._table("deployments")

    @property
    def seconds(self) -> float:
        """How long the runs took, those found in the folder as long as they took then."""
        return sum(runs.seconds for runs in self)

    def _table(self, name: str) -> np.ndarray:
        return np.array([[getattr(runs, name) for runs in row] for row in self.runs])

    # ---- tables and figures ----------------------------------------------------------------------

    def summary(self, columns: Sequence[str] | None = None) -> Table | Tables:
        """A table of the costs for each problem, as `ls.summary` makes it.

        The speed is left out unless `columns` names it: all runs of a sweep share their time.
        """
        made = plotting.summary(self._pairs(), columns)
        return made.without_speed() if columns is None else made

    def plot(self, path: str | os.PathLike[str] | None = None, **options: Any) -> Figure:
        """Draw the costs, a row of panels for each problem, with the options of `ls.plot`."""
        return plotting.plot(self._pairs(), path=path, **options)

    @property
    def labels(self) -> list[str]:
        """What tables and figures call the algorithms."""
        return list(self.names) or [one.label for one in self.algorithms]

    def _pairs(self) -> list[tuple[str, Runs]]:
        """All runs with the labels of their algorithms."""
        return [pair for row in self.runs for pair in zip(self.labels, row, strict=True)]

    def _columns(self) -> dict[str, np.ndarray]:
        """A line for each problem, algorithm, seed and number of episodes."""
        parts: dict[str, list[np.ndarray]] = {}
        for name, row in plotting.by_problem(self._pairs()).items():
            long = report.long_form(row)
            lines = len(long["seed"])
            for column, values in {"problem": np.full(lines, name), **long}.items():
                parts.setdefault(column, []).append(values)
        return {column: np.concatenate(values) for column, values in parts.items()}

    def to_dataframe(
        self,
        library: Literal["pandas", "polars"] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """The curves as a data frame: a line for each problem, algorithm, seed and episodes."""
        return report.frame_of(self._columns(), library, columns)

    def to_csv(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        """Write the lines of `to_dataframe` as comma-separated values."""
        report.write_columns(self._columns(), path, columns)

    def to_latex(self, columns: Sequence[str] | None = None) -> str:
        """The tables of `summary` for a paper, with the rules of the package booktabs."""
        return self.summary(columns).to_latex()

    # ---- scores over all problems ----------------------------------------------------------------

    @property
    def scores(self) -> np.ndarray:  # [problems, algorithms, seeds]
        """The mean reward per episode, where 1 is an optimal policy and 0 is uniform play."""
        table = np.array(
            [[runs.earned_per_episode for runs in row] for row in self.runs], dtype=float
        )
        firsts = [row[0] for row in self.runs]
        best = np.array([runs.optimal_value for runs in firsts])[:, None, None]
        uniform = np.array([runs.uniform_value for runs in firsts])[:, None, None]
        if not (best > uniform).all():
            place = int(np.argmin((best > uniform).ravel()))
            worth = [float(value.ravel()[place]) for value in (best, uniform)]
            why = "a simulator has no exact values"
            if not np.isnan(worth).any():
                why = "an optimal policy earns {:.4g} and uniform play {:.4g}".format(*worth)
            raise ValueError(f"problem {place} has no scores: {why}; sweep the others without it")
        scores: np.ndarray = (table - uniform) / (best - uniform)
        return scores

    def iqm(self) -> Table:
        """The interquartile mean of the scores of each algorithm over all problems and seeds.

        It is the mean of the middle half, as rliable defines it, with an interval from a bootstrap
        that resamples the seeds of each problem.
        """
        return profiles.score_table(self._labelled_scores())

    def profiles(
        self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None
    ) -> Figure:
        """Draw the performance profile of each algorithm: which share of problems and seeds has a
        score above each number.
        """
        return profiles.draw_profiles(self._labelled_scores(), path=path, ax=ax)

    def _labelled_scores(self) -> dict[str, np.ndarray]:  # [problems, seeds]
        scores = self.scores
        return {label: scores[:, i] for i, label in enumerate(self.labels)}

    # ---- keeping ---------------------------------------------------------------------------------

    kind = "sweep"  # of its files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all runs as one file; `load` reads it back."""
        storage.save(path, self.kind, self)
        warn_of_own_parts(path, self.algorithms)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the sweep that `save` wrote."""
        with storage.reading(path, cls.kind) as (facts, arrays):
            for each in (run for row in facts["runs"] for run in row):
                each["algorithm"] = algorithm_of(each["algorithm"], path)
            facts["algorithms"] = [run["algorithm"] for run in facts["runs"][0]]
            sweep: Self = storage.unpack(cls, facts, arrays)
            for runs in sweep:
                runs.require_whole()
            return sweep


def sweep(
    problems: Problem | Sequence[Problem],
    algorithms: Algorithm | Sequence[Algorithm] | Mapping[str, Algorithm],
    *,
    episodes: int,
    seeds: int | Sequence[int] = 16,
    device: Device = "cpu",
    threads: int | None = None,
    regret: bool = True,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    fleet: Fleet | None = None,
) -> Sweep:
    """Run every algorithm on every problem, for `episodes` episodes under each seed.

    Every entry of the result equals the result of `simulate`, on any device.

    Parameters
    ----------
    problems
        One or several problems, with tables or features.
    algorithms
        One, several, or a mapping from the names used in tables and figures to algorithms.
    episodes
        The number of episodes of each run.
    seeds
        The seeds, or how many.
    device
        "cpu" shares all runs among threads. "gpu" plays tables of one size and Q-learners with
        one kind of bonus in one launch.
    threads
        The number of threads; by default one for each core.
    regret
        Whether to compute exact regret.
    folder
        A folder for finished work and the state of a GPU, from which the same call resumes.
    progress
        Whether to show progress, as in `simulate`.
    fleet
        `concurrent.Ray` shares all runs among the nodes of a cluster. The folder keeps every run
        as soon as it is finished.
    """
    require_word("device", device, get_args(Device))
    given = [problems] if isinstance(problems, Problem) else list(problems)
    names = tuple(map(str, algorithms)) if isinstance(algorithms, Mapping) else ()
    several = algorithms.values() if isinstance(algorithms, Mapping) else algorithms
    learners = [several] if isinstance(several, Algorithm) else list(several)
    for learner in learners:
        require_algorithm(learner)
    if not given or not learners:
        raise ValueError("a sweep needs at least one problem and one algorithm")
    require_different(names or [learner.label for learner in learners])
    workers = require_count("threads", cores() if threads is None else threads)
    numbers, kept = checked_seeds(seeds), storage.Kept(None if folder is None else Path(folder))
    options = Options(regret=regret, device=device)
    jobs = [
        job_of(problem, learner, episodes, numbers, options)
        for problem in given
        for learner in learners
    ]
    found = _Found(kept, jobs)
    require_cpu(device, fleet)
    with crew_of(fleet if found.missing else None) as crew:
        if crew is not None:
            found.play_away(crew, progress)
    say(kept.note, show=progress)
    most = _MOST_RUNS if device == "gpu" else _RUNS_A_THREAD * workers
    batches = list(_batches(found.missing, max(1, most // len(numbers))))
    for number, batch in enumerate(batches, 1):
        played, place = [jobs[i] for i in batch], found.checkpoint(batch)
        label, steps = f"batch {number} of {len(batches)}", sum(job.steps for job in played)
        with Progress(steps, unit="steps", show=progress, label=label) as bar:
            results = play_jobs(played, device, workers, bar, place)
        for i, runs in zip(batch, results, strict=True):
            found.add(i, runs)
    rows = [
        tuple(found.runs[i] for i in range(first, first + len(learners)))
        for first in range(0, len(jobs), len(learners))
    ]
    return Sweep(algorithms=tuple(learners), runs=tuple(rows), found=kept.found, names=names)


def require_different(labels: Sequence[str]) -> None:
    """Refuse two algorithms of one name, which tables and figures would mix up."""
    for i, label in enumerate(labels):
        if label in labels[:i]:
            raise ValueError(
                f"two of these algorithms are called {label}; pass a mapping of names to algorithms"
            )


def _batches(places: list[int], size: int) -> Iterator[list[int]]:
    for first in range(0, len(places), size):
        yield places[first : first + size]


class _Found:
    """The runs that are known, from a folder or by now."""

    def __init__(self, kept: storage.Kept, jobs: list[Job]) -> None:
        self.kept, self.jobs, self.runs = kept, jobs, dict[int, Runs]()
        prints = {id(job.problem): job.problem.facts() for job in jobs} if kept.folder else {}
        self.facts = [_facts(job, prints.get(id(job.problem))) for job in jobs]
        for i, facts in enumerate(self.facts):
            with suppress(LookupError):
                self.runs[i] = kept.find("sweep", facts, __name__, Runs)
        self.missing = [i for i in range(len(jobs)) if i not in self.runs]

    def add(self, i: int, runs: Runs) -> None:
        self.runs[i] = runs
        self.kept.add("sweep", self.facts[i], __name__, runs)

    def play_away(self, crew: Crew, progress: bool | None) -> None:
        """Let a crew play the runs that are missing."""
        jobs = [self.jobs[i] for i in self.missing]
        facts = [self.facts[i] for i in self.missing]
        steps, label = sum(job.steps for job in jobs), counted(len(jobs), "setting")
        with Progress(steps, unit="steps", show=progress, label=label) as bar:
            for at, runs in play_away(jobs, crew, bar, self.kept, facts):
                self.add(self.missing[at], runs)
        self.missing = []

    def checkpoint(self, batch: list[int]) -> Path | None:
        """The file for the state of a GPU that plays these."""
        return self.kept.place("gpu", [self.facts[i] for i in batch], __name__)


def _facts(job: Job, problem: dict[str, Any] | None) -> dict[str, Any]:
    """What tells the runs of a job from all others, as JSON can hold it."""
    return {
        "problem": problem,
        "algorithm": job.algorithm.facts(),
        "episodes": job.episodes,
        "seeds": job.seeds,
        "regret": job.regret,
    }
