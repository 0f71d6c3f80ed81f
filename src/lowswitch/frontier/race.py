"""Regret against deployments: a portfolio of algorithms on one problem, and which of them to use
for how many deployments.

It is a race. All algorithms run on two seeds; those near a front run on four more; those near a
front still are the finalists. What is reported of a finalist comes from fresh seeds that had no
part in choosing it: among hundreds of algorithms some look good on six seeds by luck. The fronts
and the best are read off the fresh means, so that what is left of luck is that among a few
finalists.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import lowswitch
from lowswitch import report, storage
from lowswitch.algorithms.parts import Algorithm
from lowswitch.algorithms.recipes import RECIPES, text_of
from lowswitch.algorithms.schedules import Budget
from lowswitch.algorithms.text import build
from lowswitch.frontier import report as frontier_report
from lowswitch.frontier.portfolio import portfolio as default_portfolio
from lowswitch.frontier.report import AXES, LIMITS, Axis
from lowswitch.learner import BonusWarning, require_algorithm
from lowswitch.problems.mdp import TabularMDP, require_count
from lowswitch.progress import LOADING, Progress, cores
from lowswitch.simulate import optimal_value_of, simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SELECTION = (
    2**32
)  # the first seed of those that choose; reported ones count from 0, as in `simulate`
# more seeds, and how many times the regret of the front an algorithm may have to stay in the race
_HEATS = ((2, 1.5), (4, 1.25))


class Costs(NamedTuple):
    """What an algorithm cost on each of some seeds."""

    seeds: np.ndarray  # [seeds]
    regret: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]
    local_switches: np.ndarray  # [seeds]
    seconds: np.ndarray  # [seeds]  of one core

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them."""
        return {name: values.tolist() for name, values in self._asdict().items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Costs:
        """The costs that `to_dict` wrote."""
        costs = cls(*(np.array(data[name]) for name in cls._fields))
        if {values.shape for values in costs} != {(len(data["seeds"]),)} or not len(costs.seeds):
            raise ValueError("its costs are not one for each seed")
        return costs


@dataclass(frozen=True, eq=False, kw_only=True)
class Point:
    """One algorithm of the portfolio and what it cost: a finalist on the reported seeds, any other
    on those that ruled it out.
    """

    algorithm: Algorithm
    costs: Costs
    finalist: bool
    most_deployments: int  # in any seed, those of the selection too

    def __repr__(self) -> str:
        kind, seeds = (
            "finalist" if self.finalist else "ruled out",
            f"{len(self.costs.seeds)} seed{'s' * (len(self.costs.seeds) > 1)}",
        )
        costs = report.means(
            regret=self.costs.regret,
            deployments=self.costs.deployments,
            local_switches=self.costs.local_switches,
        )
        return (
            f"Point({self.algorithm}, {kind}, {seeds}, {costs}, at most {self.most_deployments:,}"
            " deployments)"
        )

    def mean(self, name: Axis | Literal["regret", "seconds"]) -> float:
        """The mean over the seeds."""
        return float(getattr(self.costs, name).mean())

    def interval(self, name: Axis | Literal["regret", "seconds"]) -> float:
        """Half the width of the 95 % confidence interval of the mean."""
        return report.half_width(getattr(self.costs, name))

    def to_dict(self) -> dict[str, Any]:
        """The point as JSON can hold it, with the text of its algorithm."""
        facts = {
            "algorithm": str(self.algorithm),
            "finalist": self.finalist,
            "most_deployments": self.most_deployments,
        }
        return facts | self.costs.to_dict()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Point:
        """The point that `to_dict` wrote."""
        return cls(
            algorithm=build(data["algorithm"], RECIPES, "algorithm"),
            costs=Costs.from_dict(data),
            finalist=bool(data["finalist"]),
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
        size = (
            f"horizon={self.horizon}, states={self.states}, actions={self.actions},"
            f" {self.episodes:,} episodes"
        )
        within = "" if self.budget is None else f" within {self.budget:,} deployments"
        race = (
            f"{len(self.points)} algorithms{within}, {len(self.finalists)}"
            f" finalist{'s' * (len(self.finalists) > 1)}"
        )
        best = f", best {self.best()!r}" if self.finalists else ""
        return f"Frontier({f'{self.name}, ' if self.name else ''}{size}, {race}{best})"

    @property
    def finalists(self) -> tuple[Point, ...]:
        """Those that were near a front on the seeds of the selection, with their costs on fresh
        ones.
        """
        return tuple(point for point in self.points if point.finalist)

    def front(self, axis: Axis = "deployments") -> tuple[Point, ...]:
        """The finalists whose mean regret no other reaches with as few deployments, or local
        switches; of equals the first.
        """
        if axis not in AXES:
            raise ValueError(f"the front is one of {' or '.join(AXES)}, not {axis!r}")
        kept: list[Point] = []
        for point in sorted(
            self.finalists, key=lambda point: (point.mean(axis), point.mean("regret"))
        ):
            if not kept or point.mean("regret") < kept[-1].mean("regret"):
                kept.append(point)
        return tuple(kept)

    def best(self, *, deployments: int | None = None) -> Point:
        """The finalist with the least mean regret of those that never exceeded a limit, in any
        seed.

        deployments: the limit, the most deployments that it may make; any number by default.
        """
        most = (
            require_count("deployments", deployments) if deployments is not None else self.episodes
        )
        within = [point for point in self.finalists if point.most_deployments <= most]
        if not within:
            least = min(point.most_deployments for point in self.finalists)
            raise ValueError(
                f"no algorithm kept to {most} deployments, the least were {least}; give"
                f" budget={most} to keep all to it"
            )
        return min(within, key=lambda point: point.mean("regret"))

    def limits(self) -> dict[int | None, Point]:
        """The best for each of the usual limits on deployments that something keeps to, and last
        for the budget, or for none.
        """
        least = min(point.most_deployments for point in self.finalists)
        usual = [
            limit
            for limit in LIMITS
            if limit >= least and (self.budget is None or limit < self.budget)
        ]
        return {limit: self.best(deployments=limit) for limit in (*usual, self.budget)}

    def table(self) -> str:
        """The fronts and the best for each limit, in words."""
        return frontier_report.table(self)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw regret against deployments and against local switches, with the fronts."""
        return frontier_report.plot(self, path=path)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it: the problem, the best for each limit, the fronts, and all
        points.
        """
        facts = {name: getattr(self, name) for name in _FACTS}
        best = {str(limit).lower(): str(point.algorithm) for limit, point in self.limits().items()}
        fronts = {axis: [str(point.algorithm) for point in self.front(axis)] for axis in AXES}
        return facts | {
            "best": best,
            "fronts": fronts,
            "points": [point.to_dict() for point in self.points],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, for `Frontier.load`."""
        _write(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Frontier:
        """The frontier that `save` wrote."""
        try:
            data = {"budget": None} | json.loads(
                Path(path).read_text(encoding="utf-8")
            )  # files of version 0.1.0 do not say
            return cls(
                **{name: data[name] for name in _FACTS},
                points=tuple(map(Point.from_dict, data["points"])),
            )
        except OSError as error:
            raise ValueError(f"cannot read {str(path)!r}: {error.strerror}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{str(path)!r} holds no whole frontier ({error}); save it again"
            ) from error


_FACTS = ("name", "horizon", "states", "actions", "episodes", "optimal_value", "budget")


def frontier(
    mdp: TabularMDP,
    *,
    episodes: int,
    seeds: int = 8,
    portfolio: Sequence[Algorithm] | None = None,
    stationary: bool = False,
    budget: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    name: str = "",
) -> Frontier:
    """Find which algorithms have the least regret for how many deployments, on `episodes` episodes
    of a problem.

    seeds: how many the finalists are reported on (0, 1, ...). portfolio: the algorithms,
    `lowswitch.portfolio` by default. stationary: whether the default ones may know that all steps
    are alike. budget: the most deployments, kept by each of them. folder: keeps what is finished,
    so that the same call goes on where it was interrupted.
    """
    if not isinstance(mdp, TabularMDP):
        raise ValueError(
            f"the problem must be a TabularMDP such as lowswitch.envs.riverswim(), not {mdp!r}"
        )
    if stationary and not (mdp.stationary and mdp.rewards.ndim == 2):
        raise ValueError(
            "the steps of this problem differ, so that nothing can be pooled; leave stationary out"
        )
    episodes, seeds = require_count("episodes", episodes), require_count("seeds", seeds)
    entrants = _checked(
        default_portfolio(stationary=stationary) if portfolio is None else portfolio, budget
    )
    track = _Track(
        mdp,
        episodes,
        folder,
        require_count("threads", cores() if threads is None else threads),
        progress,
    )
    selection: dict[Algorithm, Costs] = {}
    racing, first = entrants, _SELECTION
    for i, (more, slack) in enumerate(_HEATS):
        for algorithm, costs in track.run(
            racing, range(first, first + more), f"heat {i + 1}"
        ).items():
            selection[algorithm] = _joined(selection[algorithm], costs) if i else costs
        racing, first = (
            _near_a_front({algorithm: selection[algorithm] for algorithm in racing}, slack),
            first + more,
        )
    final = track.run(racing, range(seeds), "final")
    return Frontier(
        name=name,
        horizon=mdp.horizon,
        states=mdp.states,
        actions=mdp.actions,
        episodes=episodes,
        optimal_value=optimal_value_of(mdp, episodes),
        points=tuple(
            _point(algorithm, costs, final.get(algorithm)) for algorithm, costs in selection.items()
        ),
        budget=None if budget is None else int(budget),
    )


def _checked(portfolio: Sequence[Algorithm], budget: int | None) -> list[Algorithm]:
    """The algorithms of a portfolio that can be named, each once and within the budget."""
    entrants = [require_algorithm(algorithm) for algorithm in portfolio]
    if not entrants:
        raise ValueError("the portfolio is empty; give at least one algorithm, or leave it out")
    for algorithm in entrants:
        if text_of(algorithm) is None:
            raise ValueError(
                f"no recipe makes {algorithm!r}, so that it has no name to report; see 'lowswitch"
                " algorithms'"
            )
    if budget is not None:
        most = require_count("budget", budget)
        entrants = [_within(algorithm, most) for algorithm in entrants]
    return list(dict.fromkeys(entrants))


def _within(algorithm: Algorithm, most: int) -> Algorithm:
    """The algorithm under a hard budget of deployments."""
    schedule = algorithm.schedule
    if not isinstance(schedule, Budget):
        return replace(algorithm, schedule=Budget(schedule=schedule, deployments=most))
    return replace(
        algorithm, schedule=replace(schedule, deployments=min(most, schedule.deployments or most))
    )


def _near_a_front(costs: dict[Algorithm, Costs], slack: float) -> list[Algorithm]:
    """Those with at most `slack` times the least regret of all that deployed, or switched, no more
    often.
    """
    regret = np.array([cost.regret.mean() for cost in costs.values()])
    near = np.zeros(len(costs), dtype=bool)
    for axis in AXES:
        most = np.array([getattr(cost, axis).max() for cost in costs.values()])
        least = np.array([regret[most <= limit].min() for limit in most])
        near |= regret <= slack * least
    return [algorithm for algorithm, stays in zip(costs, near, strict=True) if stays]


def _joined(some: Costs, more: Costs) -> Costs:
    return Costs(*(np.concatenate(pair) for pair in zip(some, more, strict=True)))


def _point(algorithm: Algorithm, selection: Costs, final: Costs | None) -> Point:
    most = max(int(costs.deployments.max()) for costs in (selection, final) if costs is not None)
    return Point(
        algorithm=algorithm,
        costs=final or selection,
        finalist=final is not None,
        most_deployments=most,
    )


class _Track:
    """Where the algorithms run on one problem; what they cost is kept in a folder, if there is one,
    under its configuration.
    """

    def __init__(
        self,
        mdp: TabularMDP,
        episodes: int,
        folder: str | os.PathLike[str] | None,
        threads: int,
        progress: bool | None,
    ) -> None:
        self.mdp, self.episodes, self.threads, self.progress = mdp, episodes, threads, progress
        self.problem = _fingerprint(mdp)
        self.folder = None if folder is None else Path(folder) / "kept"
        if self.folder:
            storage.make_folder(self.folder)

    def run(
        self, algorithms: Sequence[Algorithm], seeds: Sequence[int], label: str
    ) -> dict[Algorithm, Costs]:
        """The costs of each algorithm on these seeds."""
        costs, each = {}, len(seeds) * self.episodes * self.mdp.horizon
        with Progress(len(algorithms) * each, unit="steps", show=self.progress, label=label) as bar:
            bar.note(LOADING)
            for i, algorithm in enumerate(algorithms):
                if i:
                    bar.update(i * each, f"  {i + 1} of {len(algorithms)}: {algorithm}")
                costs[algorithm] = self._kept(algorithm, seeds)
        return costs

    def _simulate(self, algorithm: Algorithm, seeds: Sequence[int]) -> Costs:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", BonusWarning
            )  # the portfolio has the provable scale among others
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

    def _kept(self, algorithm: Algorithm, seeds: Sequence[int]) -> Costs:
        """What was computed before, or is now; a file that cannot be read is written again."""
        if self.folder is None:
            return self._simulate(algorithm, seeds)
        configuration = [
            lowswitch.__version__,
            self.problem,
            self.episodes,
            algorithm.to_dict(),
            list(seeds),
        ]
        path = self.folder / f"{_digest(json.dumps(configuration, sort_keys=True).encode())}.json"
        try:
            return Costs.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, KeyError, TypeError, ValueError):
            costs = self._simulate(algorithm, seeds)
        _write(path, {"algorithm": str(algorithm)} | costs.to_dict())
        return costs


def _write(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    with storage.replacing(path) as file:
        file.write(json.dumps(data).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]


def _fingerprint(mdp: TabularMDP) -> str:
    """The same for equal problems only."""
    arrays = (
        mdp.rewards,
        mdp.offsets,
        mdp.successors,
        mdp.probabilities,
        mdp.start_law,
        mdp.start_sequence,
        mdp.actions_allowed,
    )
    facts = [
        mdp.horizon,
        mdp.reward_law,
        repr(mdp.scale),
        [(array.dtype.str, array.shape) for array in arrays],
    ]
    return _digest(
        json.dumps(facts).encode()
        + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    )
