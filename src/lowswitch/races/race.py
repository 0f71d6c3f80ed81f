"""Regret against deployments: race a portfolio of algorithms on one problem.

All algorithms run on two seeds. Algorithms near a front run on four more, and those still near a
front are the finalists. The spread decides what counts as near: an algorithm is ruled out only if
its mean regret minus a standard error exceeds a multiple of the front's mean regret plus a standard
error. Finalists are reported on fresh seeds that had no part in choosing them, because among
hundreds of algorithms some look good on six seeds by luck. Such a lucky algorithm may also have
ruled out better ones. When the fresh seeds show that it is worse, the algorithms near the corrected
front become finalists too, until there are no more.

For each limit on deployments, the finalists that may be the best are its contenders. They run on
more seeds that had no part in anything before, and these are the reported results. The best is the
contender with the smallest mean regret plus a standard error, so a rare disaster counts. It is
crowned only if it is significantly better than every other contender, seed by seed.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.schedules import Budget
from lowswitch.checks import require_count, require_truth, shown
from lowswitch.envs.problem import Problem, require_problem
from lowswitch.io import storage
from lowswitch.races.portfolio import portfolio as default_portfolio
from lowswitch.races.report import AXES, LIMITS
from lowswitch.races.standings import Costs, Frontier, Point, risk_of, standard_error
from lowswitch.runs.jobs import Options
from lowswitch.runs.results import Runs
from lowswitch.runs.simulate import NothingLearnedWarning, job_of, play_away, simulate
from lowswitch.runs.sweep import require_different
from lowswitch.runs.units import Crew, Fleet, crew_of
from lowswitch.show.progress import LOADING, Progress, cores, say
from lowswitch.table_learner import BonusWarning

# the first of the seeds that choose finalists; reported seeds count from 0, as in `simulate`
_SELECTION = 2**32
# how many more seeds run, and which multiple of the front's regret stays in the race
_HEATS = ((2, 1.5), (4, 1.25))
_CONTENDERS = 4  # at most for each limit, and as many again if fresh seeds disappoint


def frontier(
    mdp: Problem,
    *,
    episodes: int,
    seeds: int = 8,
    confirm: int = 32,
    portfolio: Sequence[Algorithm] | Mapping[str, Algorithm] | None = None,
    stationary: bool = False,
    budget: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    name: str = "",
    fleet: Fleet | None = None,
) -> Frontier:
    """Find the algorithm with the least regret for each number of deployments on a problem.

    Parameters
    ----------
    mdp
        A TabularMDP; a step function in `ls.envs.Simulator`, whose returns are sampled; or a
        problem of `ls.features.problems`. With features, `states` in the result is the number of
        features, and each deployment counts as one local switch.
    episodes
        The number of episodes of each run.
    seeds
        The number of seeds (0, 1, ...) on which the finalists are reported.
    confirm
        The number of further seeds for algorithms that may be the best for some limit. The best
        runs on as many seeds again, which did not choose it, and is reported on these.
    portfolio
        The algorithms that race, by default `lowswitch.races.portfolio`. They can include your own,
        and a mapping gives each a label.
    stationary
        Whether the default algorithms may know that all steps are alike.
    budget
        The greatest number of deployments that any algorithm may make.
    folder
        Where finished runs are saved, so that the same call resumes after an interruption.
    threads
        The number of threads; by default one for each core.
    progress
        Whether to show progress, as in `lowswitch.simulate`.
    name
        The name of the problem in the result.
    fleet
        `concurrent.Ray` shares all runs among the nodes of a cluster. The folder keeps every run
        as soon as it is finished.

    Returns
    -------
    Frontier
        The costs of all algorithms, the fronts, and the best for each limit.
    """
    require_truth("stationary", stationary)
    size = require_problem(mdp).size
    if not mdp.knows_regret:
        raise ValueError(
            f"the regret of an episode of {mdp.name} is unknown, so algorithms cannot race on it"
        )
    if stationary and not mdp.steps_alike:
        raise ValueError(
            "the steps of this problem differ, so they cannot be pooled; leave stationary out"
        )
    episodes, seeds = require_count("episodes", episodes), require_count("seeds", seeds)
    most = None if budget is None else require_count("budget", budget)
    if portfolio is None:
        portfolio = default_portfolio(
            stationary=stationary, budget=most, features="features" in size
        )
    labels = _checked(portfolio, budget)
    workers = require_count("threads", cores() if threads is None else threads)
    with crew_of(fleet) as crew:
        track = _Track(mdp, episodes, folder, workers, progress, crew)
        return _raced(track, labels, seeds, require_count("confirm", confirm, least=2), most, name)


def _raced(
    track: _Track,
    labels: dict[Algorithm, str],
    seeds: int,
    confirm: int,
    most: int | None,
    name: str,
) -> Frontier:
    """Run the heats, the final and the confirmation of the algorithms with these labels."""
    mdp, size = track.mdp, track.mdp.size
    selection: dict[Algorithm, Costs] = {}
    racing, first = list(labels), _SELECTION
    for i, (more, slack) in enumerate(_HEATS):
        heat = track.run(racing, range(first, first + more), f"heat {i + 1}")
        for algorithm, costs in heat.items():
            selection[algorithm] = _joined(selection[algorithm], costs) if i else costs
        racing = _near_a_front({algorithm: selection[algorithm] for algorithm in racing}, slack)
        first += more
    final: dict[Algorithm, Costs] = {}
    while racing:
        final |= track.run(racing, range(seeds), "final")
        near = _near_a_front(selection | final, _HEATS[-1][1])
        racing = [algorithm for algorithm in near if algorithm not in final]
    most_of = {one: _most_deployments(selection[one], costs) for one, costs in final.items()}
    fresh = range(seeds, seeds + confirm)
    confirmed: dict[Algorithm, Costs] = {}
    while racing := _contenders(final | confirmed, confirmed, most_of, most):
        confirmed |= track.run(racing, fresh, "confirming")
        for one in racing:
            most_of[one] = _most_deployments(selection[one], final[one], confirmed[one])
    last, stated = range(fresh.stop, fresh.stop + len(fresh)), dict[Algorithm, Costs]()
    while racing := [one for one in _winners(confirmed, most_of, most) if one not in stated]:
        stated |= track.run(racing, last, "stating")
        for one in racing:
            most_of[one] = max(most_of[one], _most_deployments(stated[one]))
    say(track.kept.note, show=track.progress)
    return Frontier(
        name=name,
        horizon=size["horizon"],
        states=size.get("states") or size["features"],
        actions=size["actions"],
        episodes=track.episodes,
        optimal_value=mdp.optimal_value(track.episodes),
        points=tuple(
            Point(
                algorithm=algorithm,
                costs=(selection | final | confirmed | stated)[algorithm],
                choosing=confirmed[algorithm] if algorithm in stated else None,
                finalist=algorithm in final,
                contender=algorithm in confirmed,
                most_deployments=most_of.get(algorithm, _most_deployments(selection[algorithm])),
                label=labels[algorithm],
                measure=mdp.measure,
            )
            for algorithm in selection
        ),
        budget=most,
        measure=mdp.measure,
    )


def _checked(
    portfolio: Sequence[Algorithm] | Mapping[str, Algorithm], budget: int | None
) -> dict[Algorithm, str]:
    """The algorithms of a portfolio, without repetition and within the budget, with their
    labels.
    """
    given = portfolio.items() if isinstance(portfolio, Mapping) else [("", a) for a in portfolio]
    most = None if budget is None else require_count("budget", budget)
    labels: dict[Algorithm, str] = {}
    for label, algorithm in given:
        require_algorithm(algorithm)
        try:
            labels.setdefault(algorithm if most is None else _within(algorithm, most), str(label))
        except TypeError as error:
            raise ValueError(
                f"{shown(algorithm)} cannot race, because it has no hash ({error}); make its parts"
                " frozen dataclasses of values that have one"
            ) from None
    if not labels:
        raise ValueError("the portfolio is empty; give at least one algorithm, or leave it out")
    require_different([label or algorithm.label for algorithm, label in labels.items()])
    return labels


def _within(algorithm: Algorithm, most: int) -> Algorithm:
    """The algorithm with a hard budget of deployments."""
    schedule = algorithm.schedule
    if isinstance(schedule, Budget):
        kept = replace(schedule, deployments=min(most, schedule.deployments or most))
    else:
        kept = Budget(schedule=schedule, deployments=most)
    return replace(algorithm, schedule=kept)


def _near_a_front(costs: dict[Algorithm, Costs], slack: float) -> list[Algorithm]:
    """The algorithms near a front.

    Their regret, minus a standard error, is at most `slack` times the least regret, plus a standard
    error, of all algorithms that deployed, or switched, no more often.
    """
    regret = np.array([cost.regret.mean() for cost in costs.values()])
    error = np.array([standard_error(cost.regret) for cost in costs.values()])
    near = np.zeros(len(costs), dtype=bool)
    for axis in AXES:
        most = np.array([getattr(cost, axis).max() for cost in costs.values()])
        least = np.array([(regret + error)[most <= limit].min() for limit in most])
        near |= regret - error <= slack * least
    return [algorithm for algorithm, stays in zip(costs, near, strict=True) if stays]


def _joined(some: Costs, more: Costs) -> Costs:
    return Costs(*(np.concatenate(pair) for pair in zip(some, more, strict=True)))


def _most_deployments(*costs: Costs) -> int:
    return max(int(one.deployments.max()) for one in costs)


def _contenders(
    costs: dict[Algorithm, Costs],
    confirmed: dict[Algorithm, Costs],
    most_of: dict[Algorithm, int],
    budget: int | None,
) -> list[Algorithm]:
    """The finalists that may be the best for some limit and are not confirmed yet.

    Their mean regret minus a standard error is at most the least mean plus a standard error among
    all that keep the limit.
    """
    found = dict[Algorithm, None]()
    for ranked in _ranked(costs, most_of, budget):
        least = risk_of(costs[ranked[0]], 1.0) if ranked else 0.0
        near = [one for one in ranked if risk_of(costs[one], -1.0) <= least]
        room = _CONTENDERS - len([one for one in near if one in confirmed])
        some = [one for one in near if one not in confirmed][: max(0, room)]
        found |= dict.fromkeys([*(one for one in ranked[:1] if one not in confirmed), *some])
    return list(found)


def _ranked(
    costs: dict[Algorithm, Costs], most_of: dict[Algorithm, int], budget: int | None
) -> Iterator[list[Algorithm]]:
    """For each limit, the algorithms that keep it, the best first."""
    for limit in (*(one for one in LIMITS if budget is None or one < budget), math.inf):
        within = [one for one in costs if most_of[one] <= limit]
        yield sorted(within, key=lambda one: risk_of(costs[one], 1.0))


def _winners(
    confirmed: dict[Algorithm, Costs], most_of: dict[Algorithm, int], budget: int | None
) -> list[Algorithm]:
    """The best for each limit.

    The best of several was also lucky, so its regret is reported on seeds that did not choose it.
    """
    firsts = (ranked[0] for ranked in _ranked(confirmed, most_of, budget) if ranked)
    return list(dict.fromkeys(firsts))


class _Track:
    """Run algorithms on one problem, and save their costs if there is a folder."""

    def __init__(
        self,
        mdp: Problem,
        episodes: int,
        folder: str | os.PathLike[str] | None,
        threads: int,
        progress: bool | None,
        crew: Crew | None = None,
    ) -> None:
        self.mdp, self.episodes, self.threads, self.progress = mdp, episodes, threads, progress
        self.crew = crew
        self.problem, self.horizon = mdp.facts(), mdp.size["horizon"]
        self.kept = storage.Kept(None if folder is None else Path(folder) / "kept")

    def run(
        self, algorithms: Sequence[Algorithm], seeds: Sequence[int], label: str
    ) -> dict[Algorithm, Costs]:
        """The costs of each algorithm on these seeds."""
        if self.crew is not None:
            return self._away(self.crew, algorithms, seeds, label)
        costs, each = {}, len(seeds) * self.episodes * self.horizon
        with Progress(len(algorithms) * each, unit="steps", show=self.progress, label=label) as bar:
            bar.note(LOADING)
            for i, algorithm in enumerate(algorithms):
                if i:
                    bar.update(i * each, f"  {i + 1} of {len(algorithms)}: {algorithm}")
                configuration = self._facts(algorithm, seeds)
                compute = partial(self._simulate, algorithm, seeds)
                costs[algorithm] = self.kept.get("costs", configuration, compute, Costs)
        return costs

    def _facts(self, algorithm: Algorithm, seeds: Sequence[int]) -> list[Any]:
        return [self.problem, self.episodes, algorithm.facts(), list(seeds)]

    def _away(
        self, crew: Crew, algorithms: Sequence[Algorithm], seeds: Sequence[int], label: str
    ) -> dict[Algorithm, Costs]:
        """The same, as a crew finds them: the seeds of all algorithms at once."""
        found, facts = dict[Algorithm, Costs](), [self._facts(one, seeds) for one in algorithms]
        for algorithm, its in zip(algorithms, facts, strict=True):
            with suppress(LookupError):
                found[algorithm] = self.kept.find("costs", its, __name__, Costs)
        left = [i for i, algorithm in enumerate(algorithms) if algorithm not in found]
        jobs = [
            job_of(self.mdp, algorithms[i], self.episodes, list(seeds), Options()) for i in left
        ]
        steps = sum(job.steps for job in jobs)
        with Progress(max(1, steps), unit="steps", show=self.progress, label=label) as bar:
            several = play_away(jobs, crew, bar, self.kept, [facts[i] for i in left])
            for at, runs in several:
                costs = found[algorithms[left[at]]] = _costs_of(runs, 1)
                self.kept.add("costs", facts[left[at]], __name__, costs)
        return {algorithm: found[algorithm] for algorithm in algorithms}

    def _simulate(self, algorithm: Algorithm, seeds: Sequence[int]) -> Costs:
        with warnings.catch_warnings():
            # the portfolio includes the scale of the proof, and the race shows who learns
            for kind in (BonusWarning, NothingLearnedWarning):
                warnings.simplefilter("ignore", kind)
            runs = simulate(
                self.mdp,
                algorithm,
                episodes=self.episodes,
                seeds=seeds,
                threads=self.threads,
                progress=False,
            )
        return _costs_of(runs, min(self.threads, len(seeds)))


def _costs_of(runs: Runs, workers: int) -> Costs:
    """The costs of some runs, of which so many were played at a time."""
    seconds = np.full(len(runs.seeds), runs.seconds * workers / len(runs.seeds))
    return Costs(runs.seeds, runs.regret, runs.deployments, runs.local_switches, seconds)
