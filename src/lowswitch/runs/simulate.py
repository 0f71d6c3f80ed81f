"""Many seeds of one algorithm on one problem."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.calendars import Calendar, Late
from lowswitch.algorithms.layers import LayerByLayer
from lowswitch.algorithms.meetings import require_dates
from lowswitch.algorithms.schedules import Budget
from lowswitch.checks import (
    checked_seeds,
    require_count,
    require_memory,
    require_truth,
    require_word,
)
from lowswitch.envs.mdp import TabularMDP
from lowswitch.envs.problem import Problem, require_problem
from lowswitch.envs.simulator import Simulator
from lowswitch.features.problem import FeatureProblem
from lowswitch.history import RunCosts
from lowswitch.io import storage
from lowswitch.runs.feature_jobs import FeatureJob
from lowswitch.runs.jobs import Device, Job, Options, Run
from lowswitch.runs.results import Runs
from lowswitch.runs.results import load as load
from lowswitch.runs.simulator_jobs import SimulatorJob
from lowswitch.runs.stopping import Stop
from lowswitch.runs.table_jobs import TableJob, play_on_gpu
from lowswitch.runs.units import Crew, Fleet, Keep, crew_of, each
from lowswitch.show.progress import (
    LOADING,
    Progress,
    cores,
    needs_loading,
    run_all,
    say,
    seconds_left,
)
from lowswitch.table_learner import warn_if_drowned

_SAME_VALUE = 1e-9  # relative: a first policy so near the optimum has nothing to learn
_AS_GOOD = 0.05  # relative: a policy so near the optimum leaves little to learn


class NothingLearnedWarning(UserWarning):
    """A run learned little, by the exact values of its policies or, without tables, its returns."""


def simulate(
    mdp: Problem,
    algorithm: Algorithm,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 16,
    threads: int | None = None,
    regret: bool = True,
    history: bool = False,
    progress: bool | None = None,
    device: Device = "cpu",
    initial: Any = None,
    warm_start: tuple[Any, Any, Any] | None = None,
    stop: Stop | None = None,
    delay: int = 0,
    fleet: Fleet | None = None,
) -> Runs:
    """Run an algorithm for `episodes` episodes of H steps under each seed.

    `initial`, `warm_start`, `stop` and `delay` are for the CPU.

    Parameters
    ----------
    mdp
        A `TabularMDP`; a step function in `ls.envs.Simulator`, whose returns are sampled on the
        CPU; or a problem of `ls.features.problems`, whose learners see features, without GPU,
        history or warm start.
    algorithm
        The algorithm.
    episodes
        K.
    seeds
        How many seeds (0, 1, ...), or which ones.
    threads
        How many threads play, by default one per core; the results do not depend on it.
    regret
        False saves the time that exact regret takes, and leaves NaN in its place.
    history
        True keeps every row change.
    progress
        Whether to show progress; by default on a terminal, and elsewhere by a line every 30 s.
    device
        "gpu" plays Q-learners on a GPU, a thousand runs and more side by side, with the same
        results.
    initial
        The initial policy [H, S], by default the lowest allowed actions, or for `few` policies that
        explore; with features a `LinearPolicy`.
    warm_start
        States, actions and rewards [B, H] of episodes that every run knows before its first one, as
        in `TableLearner.warm_start`.
    stop
        A run ends as soon as `Stop(within=eps)` holds. `Runs.ended` says when, and nothing is
        charged after it.
    delay
        D: the outcome of an episode is known after D more episodes, as when a treatment takes time
        to work. The last D outcomes arrive too late. For problems with tables.
    fleet
        `concurrent.Ray` shares the seeds among the nodes of a cluster, with the same results.

    Returns
    -------
    Runs
        Costs and curves of all seeds.

    See Also
    --------
    sweep, frontier

    Examples
    --------
    >>> import lowswitch as ls
    >>> mdp = ls.envs.riverswim(states=3, horizon=4)
    >>> run = ls.simulate(mdp, ls.algorithms.ucb2_hoeffding(c=0.05), episodes=100, seeds=2)
    >>> run.deployments.shape
    (2,)
    """
    require_word("device", device, get_args(Device))
    regret, history = require_truth("regret", regret), require_truth("history", history)
    workers = require_count("threads", cores() if threads is None else threads)
    options = Options(regret, history, device, initial, warm_start, stop, delay)
    job = job_of(mdp, algorithm, episodes, checked_seeds(seeds), options)
    require_cpu(device, fleet)
    if device == "cpu":
        workers = min(workers, len(job.seeds))
        what = f"{len(job.seeds):,} seeds on {workers} threads"
        way_out = "use fewer threads, fewer policies (members), or a smaller problem"
        require_memory(job.nbytes(workers), what, way_out)
        say(job.outlook(workers), show=progress)
    bar = Progress(job.steps, unit="steps", show=progress, label=str(algorithm))
    with bar, crew_of(fleet) as crew:
        if crew is None:
            (results,) = play_jobs([job], device, workers, bar)
        else:
            ((_, results),) = play_away([job], crew, bar)
    warn_if_drowned(float(results.drowned_share.mean()), algorithm)
    warn_if_nothing_learned(results, mdp)
    _warn_if_beyond_bound(results)
    return results


def require_cpu(device: Device, fleet: Fleet | None) -> None:
    """Refuse a fleet that would play on a GPU."""
    if fleet is not None and device == "gpu":
        raise ValueError("the workers of a fleet play on CPUs; leave fleet out, or the device")


def job_of(
    problem: Problem, algorithm: Algorithm, episodes: int, seeds: list[int], options: Options
) -> Job:
    """The job, once everything is known to fit."""
    require_problem(problem)
    require_dates(require_algorithm(algorithm).schedule)
    episodes = require_count("episodes", episodes)
    return _job_of(problem, options, algorithm=algorithm, episodes=episodes, seeds=seeds)


@singledispatch
def _job_of(problem: Any, options: Options, **job: Any) -> Job:
    raise ValueError(
        f"a {type(problem).__name__} cannot be simulated; derive it from FeatureProblem, or give"
        " its step function to ls.envs.Simulator"
    )


_job_of.register(TabularMDP, TableJob.of)
_job_of.register(FeatureProblem, FeatureJob.of)
_job_of.register(Simulator, SimulatorJob.of)


def warn_if_nothing_learned(results: Runs, problem: Problem) -> None:
    """Say in one line that the final policy of most runs shows little or nothing learned."""
    first, last = results.first_value, float(np.median(results.last_value))
    who = "the final policy of most runs"
    warn_if_poor(who, first, last, problem, results.algorithm, results.episodes, stacklevel=4)


def warn_if_poor(
    who: str,
    first: float,
    last: float,
    problem: Any,
    algorithm: Algorithm,
    episodes: int = 0,
    *,
    stacklevel: int = 3,
) -> None:
    """Say in one line that a run has learned nothing or little, and suggest a remedy.

    It has learned nothing if the final policy earns no more than the initial one. It has learned
    little if it is less than halfway to the optimum from the better of the initial policy and the
    best single action. If these are nearly optimal, there is little to learn, and nothing is said.
    """
    best = problem.optimal_value(episodes)
    slack = _SAME_VALUE * abs(best)
    if not last < best - slack:  # NaN if nobody knows
        return
    may_help = what_may_help(algorithm, problem.size["horizon"], episodes)
    help_ = f"an optimal one {best:.4g}; {may_help}"
    if last <= first:
        said = (
            f"nothing was learned: {who} earns {last:.4g} per episode, the initial one {first:.4g}"
        )
    else:
        single = problem.constant_value(episodes) if hasattr(problem, "constant_value") else first
        name = "a single action" if single >= first else "the initial policy"
        free = max(first, single)
        matters = best - free > _AS_GOOD * max(abs(best), abs(free))
        if not (matters and last < (free + best) / 2):
            return
        said = f"little was learned: {who} earns {last:.4g} per episode, {name} {free:.4g}"
    warnings.warn(f"{said}, {help_}", NothingLearnedWarning, stacklevel=stacklevel)


def what_may_help(algorithm: Algorithm, horizon: int, episodes: int) -> str:
    """Suggest remedies for a run of this algorithm that learned too little."""
    estimator = algorithm.estimator
    if isinstance(estimator, LayerByLayer) and episodes <= estimator.exploration(horizon):
        return (
            f"it explores for 2H + 1 phases of {estimator.phase:,}, which is"
            f" {estimator.exploration(horizon):,} episodes; give it more than these or a smaller"
            f" phase ({algorithm.label})"
        )
    limited = isinstance(algorithm.schedule, Budget | Calendar | Late)
    scaled = any(hasattr(algorithm.bonus, name) for name in ("c", "c1"))
    more = ", more deployments" * limited + ", a smaller c" * scaled + "," * (limited or scaled)
    return f"give it more episodes{more} or take another algorithm ({algorithm.label})"


def _warn_if_beyond_bound(results: Runs) -> None:
    """Warn that a user's schedule promised fewer deployments than it made."""
    if not results.states:
        return  # schedules promise nothing for features
    bound = results.algorithm.deployment_bound(**results.size, episodes=results.episodes)
    most = int(results.deployments.max())
    if most > bound:
        warnings.warn(
            f"a run made {most:,} deployments, more than the {bound:,.0f} that refresh_bound of"
            f" {results.algorithm.schedule!r} promises; correct refresh_bound",
            RuntimeWarning,
            stacklevel=3,
        )


def play_jobs(
    jobs: list[Job], device: Device, workers: int, bar: Progress, checkpoint: Path | None = None
) -> list[Runs]:
    """Play all runs of all jobs; a GPU resumes from the checkpoint if there is one."""
    if device == "gpu":
        return play_on_gpu(jobs, bar, checkpoint)
    runs = [[job.begin(seed, job.episodes) for seed in job.seeds] for job in jobs]
    seconds = _play_all(jobs, runs, workers, bar)
    return [
        job.runs(RunCosts.joined([run.costs for run in played]), seconds / len(jobs))
        for job, played in zip(jobs, runs, strict=True)
    ]


class PlayedSeed(NamedTuple):
    """One seed of a job, played by a crew."""

    costs: RunCosts
    seconds: float


def play_away(
    jobs: Sequence[Job],
    crew: Crew,
    bar: Progress,
    kept: storage.Kept | None = None,
    facts: Sequence[Any] = (),
) -> Iterator[tuple[int, Runs]]:
    """Let a crew play all runs of all jobs; hand out the results of a job once they are complete.

    A unit of work is one seed of a job. kept, facts: where finished ones are kept, and what tells
    each job from the others. The seconds of a job are those of its seeds together.
    """
    units = [(job, seed) for job in jobs for seed in job.seeds]
    places = [i for i, job in enumerate(jobs) for _ in job.seeds]
    names = [
        [facts[i] if facts else None, seed] for i, (_, seed) in zip(places, units, strict=True)
    ]
    found: list[dict[int, PlayedSeed]] = [{} for _ in jobs]
    keep, steps = Keep(kept or storage.Kept(None), "seed", PlayedSeed), 0
    bar.note(LOADING)
    for at, played in each(crew, play_seed, units, names, keep):
        i, (job, seed) = places[at], units[at]
        found[i][seed] = played
        steps += job.episodes * job.horizon
        bar.update(steps)
        if len(found[i]) == len(job.seeds):
            seeds = [found[i][seed] for seed in job.seeds]
            found[i] = {}
            costs = RunCosts.joined([one.costs for one in seeds])
            yield i, job.runs(costs, sum(one.seconds for one in seeds))


def play_seed(job: Job, seed: int) -> PlayedSeed:
    """One run, wherever it is played; its seconds leave out the loading of kernels."""
    job.begin(seed, 1).play(threading.Event())
    run, begin = job.begin(seed, job.episodes), time.perf_counter()
    run.play(threading.Event())
    return PlayedSeed(run.costs, time.perf_counter() - begin)


def _play_all(jobs: list[Job], runs: list[list[Run]], workers: int, bar: Progress) -> float:
    """Play all runs on threads; return the seconds it took once everything was compiled."""
    if any(needs_loading(job.kernel()) for job in jobs):
        bar.note(LOADING)
    for job in jobs:  # compiles, and fills what threads share
        job.begin(job.seeds[0], 1).play(threading.Event())
    bar.start()
    pairs = [(job, run) for job, played in zip(jobs, runs, strict=True) for run in played]
    begin = time.perf_counter()

    def look_up() -> None:
        done = sum(job.horizon * run.done for job, run in pairs)
        bar.update(done, *_plans_so_far(pairs, done / bar.total, workers))

    run_all([run.play for _, run in pairs], workers=workers, look_up=look_up)
    return time.perf_counter() - begin


def _plans_so_far(
    pairs: list[tuple[Job, Run]], share: float, workers: int
) -> tuple[str, float | None]:
    """How far plans in Python are, in words, and the seconds that are left; nothing without them.

    `share` is how much of the steps is played.
    """
    plans = sum(job.plans for job, _ in pairs)
    if not plans:
        return "", None
    paces, guess = [run.pace for _, run in pairs], max(job.plan_seconds for job, _ in pairs)
    made = sum(pace.made for pace in paces)
    left = seconds_left(min(workers, len(pairs)), share, plans, paces, guess)
    return f"  {min(made, plans):.1f} of {plans:,} plans", left
