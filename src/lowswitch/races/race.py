"""Regret against deployments: a portfolio of algorithms on one problem, and which of them to use
for how many deployments.

The algorithms race. All of them run on two seeds. Those near a front run on four more, and those
that are still near a front are the finalists. How near is a matter of spread: an algorithm is ruled
out only if its mean regret less a standard error is above so many times that of the front plus a
standard error. What is reported of a finalist comes from fresh seeds that had no part in choosing
it, because among hundreds of algorithms some look good on six seeds by luck. Such a lucky one may
also have ruled out better ones: when the fresh seeds show that it is worse, those that are near the
front as it is then become finalists too, until there are none.

For each limit of deployments the finalists that may be the best are its contenders. They run on
more seeds that had no part in anything before, and these are reported of them. The best is the one
whose mean regret plus a standard error is least, so that a rare disaster counts. It is crowned only
if it is better than every other contender beyond chance, seed by seed.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.schedules import Budget
from lowswitch.algorithms.text import build
from lowswitch.checks import require_count, require_truth, shown
from lowswitch.envs.problem import Problem, require_problem
from lowswitch.io import archive, storage
from lowswitch.io.files import read_bytes
from lowswitch.races import report as frontier_report
from lowswitch.races.portfolio import portfolio as default_portfolio
from lowswitch.races.report import AXES, LIMITS, Axis
from lowswitch.runs.simulate import simulate
from lowswitch.show import report
from lowswitch.show.progress import LOADING, Progress, cores, say
from lowswitch.table_learner import BonusWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# the first of the seeds that choose the finalists; the reported ones count from 0, as in `simulate`
_SELECTION = 2**32
# how many more seeds run, and how many times the regret of the front stays in the race
_HEATS = ((2, 1.5), (4, 1.25))
_CONTENDERS = 4  # at most for each limit, and as many again when fresh seeds disappoint


class Costs(NamedTuple):
    """What an algorithm cost on each of some seeds."""

    seeds: np.ndarray  # [seeds]
    regret: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]
    local_switches: np.ndarray  # [seeds]
    seconds: np.ndarray  # [seeds]  of one core


@dataclass(frozen=True, eq=False, kw_only=True)
class Point:
    """One algorithm of the portfolio and what it cost.

    The costs of a contender are those on the seeds that confirm, of another finalist those on the
    seeds of the final. Of any other algorithm they are the ones that ruled it out.
    """

    algorithm: Algorithm
    costs: Costs
    finalist: bool
    most_deployments: int  # in any seed, those that chose the finalists included
    label: str = ""  # as the portfolio calls it
    contender: bool = False  # whether it may have been the best for some limit

    @property
    def name(self) -> str:
        """The label, or the text of the algorithm where it has none."""
        return self.label or str(self.algorithm)

    def __repr__(self) -> str:
        costs = self.costs
        kind = "finalist" if self.finalist else "ruled out"
        kind = "contender" if self.contender else kind
        seeds = f"{len(costs.seeds)} seed{'s' * (len(costs.seeds) > 1)}"
        means = report.means(
            regret=costs.regret, deployments=costs.deployments, local_switches=costs.local_switches
        )
        most = f"at most {self.most_deployments:,} deployments"
        return f"Point({self.name}, {kind}, {seeds}, {means}, {most})"

    def mean(self, name: Axis | Literal["regret", "seconds"]) -> float:
        """The mean over the seeds."""
        return float(getattr(self.costs, name).mean())

    def interval(self, name: Axis | Literal["regret", "seconds"]) -> float:
        """Half the width of the 95 % confidence interval of the mean."""
        return report.half_width(getattr(self.costs, name))

    @property
    def risk(self) -> float:
        """The mean regret plus a standard error, by which the best is chosen."""
        return _risk(self.costs, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The point as JSON can hold it, with the text of its algorithm.

        What only a dictionary can hold of an algorithm, such as parts of one's own, is beside it.
        """
        named: dict[str, Any] = {"label": self.label} if self.label else {}
        if not _reads_back(self.algorithm):
            named["parts"] = self.algorithm.to_dict()
        return {
            "algorithm": str(self.algorithm),
            **named,
            "finalist": self.finalist,
            "contender": self.contender,
            "most_deployments": self.most_deployments,
            **storage.pack(self.costs),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Point:
        """The point that `to_dict` wrote."""
        costs: Costs = storage.unpack(Costs, data)
        if {values.shape for values in costs} != {(len(costs.seeds),)} or not len(costs.seeds):
            raise ValueError("its costs are not one for each seed")
        algorithm = (
            Algorithm.from_dict(data["parts"])
            if "parts" in data
            else build(data["algorithm"], RECIPES, "algorithm")
        )
        return cls(
            algorithm=algorithm,
            label=str(data.get("label", "")),
            costs=costs,
            finalist=bool(data["finalist"]),
            contender=bool(data.get("contender", False)),
            most_deployments=int(data["most_deployments"]),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Frontier:
    """What a portfolio of algorithms cost on one problem."""

    name: str  # of the problem
    horizon: int
    states: int
    actions: int
    episodes: int
    optimal_value: float
    points: tuple[Point, ...]  # in the order of the portfolio
    budget: int | None = None  # deployments that all were kept to

    def __repr__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        size = f"horizon={self.horizon}, states={self.states}, actions={self.actions}"
        within = "" if self.budget is None else f" within {self.budget:,} deployments"
        finalists = f"{len(self.finalists)} finalist{'s' * (len(self.finalists) > 1)}"
        race = f"{len(self.points)} algorithms{within}, {finalists}"
        best = f", best {self.best()!r}" if self.finalists else ""
        return f"Frontier({name}{size}, {self.episodes:,} episodes, {race}{best})"

    @property
    def finalists(self) -> tuple[Point, ...]:
        """The algorithms that were near a front on the seeds that choose, with their costs on fresh
        seeds.
        """
        return tuple(point for point in self.points if point.finalist)

    def front(self, axis: Axis = "deployments") -> tuple[Point, ...]:
        """The finalists whose mean regret no other one reaches with as few deployments, or local
        switches. Of equal ones it is the first.
        """
        if axis not in AXES:
            raise ValueError(f"the front is one of {' or '.join(AXES)}, not {shown(axis)}")
        front: list[Point] = []
        for point in sorted(self.finalists, key=lambda one: (one.mean(axis), one.mean("regret"))):
            if not front or point.mean("regret") < front[-1].mean("regret"):
                front.append(point)
        return tuple(front)

    def best(self, *, deployments: int | None = None) -> Point:
        """The contender with the least mean regret plus standard error among those that kept to a
        limit in every seed.

        deployments: the limit, which is the most deployments that a run may make; without it any
        number will do. `rivals` says from which others the best cannot be told.
        """
        return min(self._within(deployments), key=lambda point: point.risk)

    def rivals(self, *, deployments: int | None = None) -> tuple[Point, ...]:
        """The contenders for a limit that may be as good as the best, by a paired 95 % interval of
        the difference on the same seeds; the best is crowned if there are none.
        """
        best = self.best(deployments=deployments)
        others = [point for point in self._within(deployments) if point is not best]
        return tuple(
            sorted((one for one in others if _may_equal(one, best)), key=lambda one: one.risk)
        )

    def contenders(self, *, deployments: int | None = None) -> tuple[Point, ...]:
        """All contenders that kept to a limit, the best first."""
        return tuple(sorted(self._within(deployments), key=lambda point: point.risk))

    def _within(self, deployments: int | None) -> list[Point]:
        most = self.episodes
        if deployments is not None:
            most = require_count("deployments", deployments)
        within = [point for point in self.finalists if point.most_deployments <= most]
        if not within:
            least = min(point.most_deployments for point in self.finalists)
            raise ValueError(
                f"no algorithm kept to {most} deployments, the least were {least}; give"
                f" budget={most} to keep all to it"
            )
        return [point for point in within if point.contender] or within

    def limits(self) -> dict[int | None, Point]:
        """The best for each of the usual limits that some finalist keeps to; the last one is the
        best within the budget, or without any limit.
        """
        least = min(point.most_deployments for point in self.finalists)
        most = self.budget or math.inf
        usual = [limit for limit in LIMITS if least <= limit < most]
        return {limit: self.best(deployments=limit) for limit in (*usual, self.budget)}

    def table(self, width: int | None = None) -> str:
        """The fronts, and the best for each limit, as text of at most so many characters a line."""
        return frontier_report.table(self, width)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw regret against deployments and against local switches, with the fronts."""
        return frontier_report.plot(self, path=path)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it: the problem, the best for each limit, the fronts, and all
        points.
        """
        best = {str(limit).lower(): point.name for limit, point in self.limits().items()}
        crowned = {
            str(limit).lower(): not self.rivals(deployments=limit) for limit in self.limits()
        }
        fronts = {axis: [point.name for point in self.front(axis)] for axis in AXES}
        facts: dict[str, Any] = storage.pack(self)
        points = facts.pop("points")
        return facts | {"best": best, "crowned": crowned, "fronts": fronts, "points": points}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, for `Frontier.load`."""
        storage.write_text(path, archive.to_text(_KIND, self.to_dict()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Frontier:
        """Read the frontier that `save` wrote."""
        text = read_bytes(path).decode(errors="replace")
        try:
            facts = archive.from_text(text, _KIND, _FACTS)
        except archive.RefusedFileError as error:
            raise ValueError(f"{str(path)!r} {error}") from None
        with storage.whole(f"{str(path)!r} holds", _KIND):
            found: Frontier = storage.unpack(cls, facts)
            found.require_whole()
            return found

    def require_whole(self) -> None:
        """Raise a ValueError if it is not what a race can end with."""
        for name in ("horizon", "states", "actions", "episodes"):
            require_count(name, getattr(self, name))
        if self.budget is not None:
            require_count("budget", self.budget)
        if not self.finalists:
            raise ValueError("it has no finalists")
        for point in self.points:
            if not (np.isfinite(point.costs.regret).all() and point.most_deployments >= 0):
                raise ValueError(f"the costs of {point.algorithm} are no numbers")


_KIND = "frontier"  # of its files
_FACTS = frozenset({*Frontier.__annotations__, "best", "crowned", "fronts"})


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
) -> Frontier:
    """Find which algorithms have the least regret for how many deployments, on `episodes` episodes
    of a problem.

    mdp: a TabularMDP, or a problem of `ls.features.problems`; then `states` of the result are its
    features, and each deployment counts as one local switch. seeds: on how many seeds (0, 1,
    ...) the finalists are reported. confirm: on how many further seeds those are that may be the
    best for some limit. portfolio: the algorithms that race, by default those of
    `lowswitch.races.portfolio`; algorithms of your own may be among them, and a mapping gives
    each a label. stationary: whether the default ones may know that all steps are alike. budget:
    the most deployments that any of them may make.
    folder: where finished runs are kept, so that the same call goes on where it was interrupted.
    """
    require_truth("stationary", stationary)
    size = require_problem(mdp).size
    if not mdp.knows_regret:
        raise ValueError(
            f"{mdp.name} does not know what an episode loses, so nothing can race on it"
        )
    if stationary and not mdp.steps_alike:
        raise ValueError(
            "the steps of this problem differ, so that nothing can be pooled; leave stationary out"
        )
    episodes, seeds = require_count("episodes", episodes), require_count("seeds", seeds)
    most = None if budget is None else require_count("budget", budget)
    if portfolio is None:
        portfolio = default_portfolio(
            stationary=stationary, budget=most, features="features" in size
        )
    labels = _checked(portfolio, budget)
    workers = require_count("threads", cores() if threads is None else threads)
    track = _Track(mdp, episodes, folder, workers, progress)
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
    fresh = range(seeds, seeds + require_count("confirm", confirm, least=2))
    confirmed: dict[Algorithm, Costs] = {}
    while racing := _contenders(final | confirmed, confirmed, most_of, most):
        confirmed |= track.run(racing, fresh, "confirming")
        for one in racing:
            most_of[one] = _most_deployments(selection[one], final[one], confirmed[one])
    say(track.kept.note, show=progress)
    return Frontier(
        name=name,
        horizon=size["horizon"],
        states=size.get("states") or size["features"],
        actions=size["actions"],
        episodes=episodes,
        optimal_value=mdp.optimal_value(episodes),
        points=tuple(
            Point(
                algorithm=algorithm,
                costs=confirmed.get(algorithm) or final.get(algorithm) or costs,
                finalist=algorithm in final,
                contender=algorithm in confirmed,
                most_deployments=most_of.get(algorithm, _most_deployments(costs)),
                label=labels[algorithm],
            )
            for algorithm, costs in selection.items()
        ),
        budget=most,
    )


def _checked(
    portfolio: Sequence[Algorithm] | Mapping[str, Algorithm], budget: int | None
) -> dict[Algorithm, str]:
    """The algorithms of a portfolio, each once and within the budget, with their labels."""
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
    return labels


def _reads_back(algorithm: Algorithm) -> bool:
    """Whether the text of an algorithm makes it again."""
    try:
        return bool(build(str(algorithm), RECIPES, "algorithm") == algorithm)
    except ValueError:
        return False


def _within(algorithm: Algorithm, most: int) -> Algorithm:
    """The algorithm under a hard budget of deployments."""
    schedule = algorithm.schedule
    if isinstance(schedule, Budget):
        kept = replace(schedule, deployments=min(most, schedule.deployments or most))
    else:
        kept = Budget(schedule=schedule, deployments=most)
    return replace(algorithm, schedule=kept)


def _near_a_front(costs: dict[Algorithm, Costs], slack: float) -> list[Algorithm]:
    """The algorithms with at most `slack` times the least regret of all that deployed, or switched,
    no more often, by their means less and plus a standard error.
    """
    regret = np.array([cost.regret.mean() for cost in costs.values()])
    error = np.array([_standard_error(cost.regret) for cost in costs.values()])
    near = np.zeros(len(costs), dtype=bool)
    for axis in AXES:
        most = np.array([getattr(cost, axis).max() for cost in costs.values()])
        least = np.array([(regret + error)[most <= limit].min() for limit in most])
        near |= regret - error <= slack * least
    return [algorithm for algorithm, stays in zip(costs, near, strict=True) if stays]


def _standard_error(values: np.ndarray) -> float:
    """Of the mean of some values; 0 of a single one, which does not show its spread."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


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

    They are those whose mean regret less a standard error is not above the least mean plus a
    standard error of all that keep to the limit.
    """
    found = dict[Algorithm, None]()
    for limit in (*(one for one in LIMITS if budget is None or one < budget), math.inf):
        within = [one for one in costs if most_of[one] <= limit]
        ranked = sorted(within, key=lambda one: _risk(costs[one], 1.0))
        near = [one for one in ranked if _risk(costs[one], -1.0) <= _risk(costs[ranked[0]], 1.0)]
        room = _CONTENDERS - len([one for one in near if one in confirmed])
        some = [one for one in near if one not in confirmed][: max(0, room)]
        found |= dict.fromkeys([*(one for one in ranked[:1] if one not in confirmed), *some])
    return list(found)


def _risk(costs: Costs, errors: float) -> float:
    """The mean regret and so many standard errors."""
    return float(costs.regret.mean()) + errors * _standard_error(costs.regret)


def _may_equal(one: Point, best: Point) -> bool:
    """Whether a point may be as good as the best, on the seeds that both ran on."""
    seeds, mine, other = np.intersect1d(one.costs.seeds, best.costs.seeds, return_indices=True)
    if len(seeds) < 2:
        return True
    difference = one.costs.regret[mine] - best.costs.regret[other]
    return bool(difference.mean() <= report.half_width(difference))


class _Track:
    """Runs algorithms on one problem, and keeps what they cost if there is a folder."""

    def __init__(
        self,
        mdp: Problem,
        episodes: int,
        folder: str | os.PathLike[str] | None,
        threads: int,
        progress: bool | None,
    ) -> None:
        self.mdp, self.episodes, self.threads, self.progress = mdp, episodes, threads, progress
        self.problem, self.horizon = mdp.facts(), mdp.size["horizon"]
        self.kept = storage.Kept(None if folder is None else Path(folder) / "kept")

    def run(
        self, algorithms: Sequence[Algorithm], seeds: Sequence[int], label: str
    ) -> dict[Algorithm, Costs]:
        """The costs of each algorithm on these seeds."""
        costs, each = {}, len(seeds) * self.episodes * self.horizon
        with Progress(len(algorithms) * each, unit="steps", show=self.progress, label=label) as bar:
            bar.note(LOADING)
            for i, algorithm in enumerate(algorithms):
                if i:
                    bar.update(i * each, f"  {i + 1} of {len(algorithms)}: {algorithm}")
                configuration = [self.problem, self.episodes, algorithm.facts(), list(seeds)]
                compute = partial(self._simulate, algorithm, seeds)
                costs[algorithm] = self.kept.get("costs", configuration, compute, Costs)
        return costs

    def _simulate(self, algorithm: Algorithm, seeds: Sequence[int]) -> Costs:
        with warnings.catch_warnings():
            # the portfolio has the provable scale among others
            warnings.simplefilter("ignore", BonusWarning)
            runs = simulate(
                self.mdp,
                algorithm,
                episodes=self.episodes,
                seeds=seeds,
                threads=self.threads,
                progress=False,
            )
        seconds = np.full(len(seeds), runs.seconds * min(self.threads, len(seeds)) / len(seeds))
        return Costs(runs.seeds, runs.regret, runs.deployments, runs.local_switches, seconds)
