"""The result of a race: the costs of each algorithm, the fronts, and the best for each limit."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import build
from lowswitch.checks import require_count, shown
from lowswitch.io import archive, storage
from lowswitch.io.files import read_bytes
from lowswitch.races import report as frontier_report
from lowswitch.races.report import AXES, LIMITS, Axis
from lowswitch.show import report
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Costs(NamedTuple):
    """The costs of an algorithm on each of several seeds."""

    seeds: np.ndarray  # [seeds]
    regret: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]
    local_switches: np.ndarray  # [seeds]
    seconds: np.ndarray  # [seeds]  of one core


@dataclass(frozen=True, eq=False, kw_only=True)
class Point:
    """One algorithm of the portfolio and its costs.

    The costs of the best for some limit come from seeds that chose nothing. The costs of other
    contenders come from the confirming seeds, and the costs of other finalists from the seeds of
    the final. The costs of all other algorithms are the ones that ruled them out.
    """

    algorithm: Algorithm
    costs: Costs
    finalist: bool
    most_deployments: int  # in any seed, including the seeds that chose the finalists
    label: str = ""  # its name in the portfolio
    contender: bool = False  # whether it may have been the best for some limit
    measure: str = "regret"  # the name of its regret; another word if it is not exact
    choosing: Costs | None = None  # on the seeds that chose the best, if `costs` are not

    @property
    def name(self) -> str:
        """The name in the portfolio, or the label of the algorithm if it has none there."""
        return self.label or self.algorithm.label

    def __repr__(self) -> str:
        costs = self.costs
        kind = "finalist" if self.finalist else "ruled out"
        kind = "contender" if self.contender else kind
        seeds = f"{len(costs.seeds)} seed{'s' * (len(costs.seeds) > 1)}"
        switches = {"deployments": costs.deployments, "local_switches": costs.local_switches}
        means = report.means(**{self.measure: costs.regret}, **switches)
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
        """The mean regret plus a standard error, which decides the best."""
        return risk_of(self.compared, 1.0)

    @property
    def compared(self) -> Costs:
        """The costs that are compared with the other contenders."""
        return self.costs if self.choosing is None else self.choosing

    def to_dict(self) -> dict[str, Any]:
        """The point as JSON can store it, with the text of its algorithm.

        Details of an algorithm that its text cannot express, such as your own parts, are stored
        beside the text.
        """
        named: dict[str, Any] = {"label": self.label} if self.label else {}
        if self.measure != "regret":
            named["measure"] = self.measure
        if self.choosing is not None:
            named["choosing"] = storage.pack(self.choosing)
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
        """Read a point that `to_dict` wrote."""
        costs = _read_costs(data)
        choosing = _read_costs(data["choosing"]) if "choosing" in data else None
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
            measure=str(data.get("measure", "regret")),
            choosing=choosing,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Frontier:
    """The costs of a portfolio of algorithms on one problem."""

    name: str  # of the problem
    horizon: int
    states: int
    actions: int
    episodes: int
    optimal_value: float
    points: tuple[Point, ...]  # in the order of the portfolio
    budget: int | None = None  # greatest number of deployments allowed
    measure: str = "regret"  # the name of `regret`; another word if it is not exact

    def __repr__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        size = f"horizon={self.horizon}, states={self.states}, actions={self.actions}"
        within = "" if self.budget is None else f" within {self.budget:,} deployments"
        finalists = counted(len(self.finalists), "finalist")
        race = f"{counted(len(self.points), 'algorithm')}{within}, {finalists}"
        best = f", best {self.best()!r}" if self.finalists else ""
        return f"Frontier({name}{size}, {self.episodes:,} episodes, {race}{best})"

    @property
    def finalists(self) -> tuple[Point, ...]:
        """The algorithms that were near a front on the choosing seeds, with their costs on fresh
        seeds.
        """
        return tuple(point for point in self.points if point.finalist)

    def front(self, axis: Axis = "deployments") -> tuple[Point, ...]:
        """The finalists whose mean regret no other finalist reaches with as few deployments, or
        local switches.

        Ties go to the first.
        """
        if axis not in AXES:
            raise ValueError(f"the front is one of {' or '.join(AXES)}, not {shown(axis)}")
        front: list[Point] = []
        for point in sorted(self.finalists, key=lambda one: (one.mean(axis), one.mean("regret"))):
            if not front or point.mean("regret") < front[-1].mean("regret"):
                front.append(point)
        return tuple(front)

    def best(self, *, deployments: int | None = None) -> Point:
        """The contender with the least mean regret plus standard error within a limit.

        Only contenders that kept the limit in every seed count. `rivals` lists the contenders that
        cannot be distinguished from the best.

        Parameters
        ----------
        deployments
            The limit: the greatest number of deployments of a run. None sets no limit.
        """
        return self.contenders(deployments=deployments)[0]

    def rivals(self, *, deployments: int | None = None) -> tuple[Point, ...]:
        """The contenders for a limit that may be as good as the best.

        A paired 95 % interval of the difference on the same seeds decides. The best is crowned if
        there are no rivals.
        """
        best, *others = self.contenders(deployments=deployments)
        return tuple(one for one in others if _may_equal(one, best))

    def contenders(self, *, deployments: int | None = None) -> tuple[Point, ...]:
        """All contenders that kept a limit, the best first.

        For files from before there were contenders, these are all finalists, by their mean regret.
        """
        most = self.episodes
        if deployments is not None:
            most = require_count("deployments", deployments)
        within = [point for point in self.finalists if point.most_deployments <= most]
        if not within:
            least = min(point.most_deployments for point in self.finalists)
            raise ValueError(
                f"no algorithm kept to {most} deployments; the fewest were {least}. Give "
                f"budget={most} to limit all of them"
            )
        contenders = [point for point in within if point.contender]
        if not contenders:
            return tuple(sorted(within, key=lambda point: point.mean("regret")))
        return tuple(sorted(contenders, key=lambda point: point.risk))

    def limits(self) -> dict[int | None, Point]:
        """The best for each of the usual limits that some finalist keeps.

        The last one is the best within the budget, or without any limit.
        """
        least = min(point.most_deployments for point in self.finalists)
        most = self.budget or math.inf
        usual = [limit for limit in LIMITS if least <= limit < most]
        return {limit: self.best(deployments=limit) for limit in (*usual, self.budget)}

    def table(self, width: int | None = None) -> str:
        """The fronts, and the best for each limit, as text with at most `width` characters per
        line.
        """
        return frontier_report.table(self, width)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot regret against deployments and against local switches, with the fronts."""
        return frontier_report.plot(self, path=path)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can store it: the problem, the best for each limit, the fronts, and
        all points.
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
        """Read a frontier that `save` wrote."""
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
        """Raise a ValueError if a race cannot end like this."""
        for name in ("horizon", "states", "actions", "episodes"):
            require_count(name, getattr(self, name))
        if self.budget is not None:
            require_count("budget", self.budget)
        if not self.finalists:
            raise ValueError("it has no finalists")
        for point in self.points:
            if not (np.isfinite(point.costs.regret).all() and point.most_deployments >= 0):
                raise ValueError(f"the costs of {point.algorithm} are not numbers")


_KIND = "frontier"  # in its files
_FACTS = frozenset({*Frontier.__annotations__, "best", "crowned", "fronts"})


def _read_costs(data: dict[str, Any]) -> Costs:
    costs: Costs = storage.unpack(Costs, data)
    if {values.shape for values in costs} != {(len(costs.seeds),)} or not len(costs.seeds):
        raise ValueError("it does not have one cost for each seed")
    return costs


def _reads_back(algorithm: Algorithm) -> bool:
    """Whether the text of an algorithm reproduces it."""
    try:
        return bool(build(str(algorithm), RECIPES, "algorithm") == algorithm)
    except ValueError:
        return False


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean; 0 for a single value, which does not show its spread."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def risk_of(costs: Costs, errors: float) -> float:
    """The mean regret plus `errors` standard errors."""
    return float(costs.regret.mean()) + errors * standard_error(costs.regret)


def _may_equal(one: Point, best: Point) -> bool:
    """Whether a point may be as good as the best, on the seeds that both ran on."""
    costs, least = one.compared, best.compared
    seeds, mine, other = np.intersect1d(costs.seeds, least.seeds, return_indices=True)
    if len(seeds) < 2:
        return True
    difference = costs.regret[mine] - least.regret[other]
    return bool(difference.mean() <= report.half_width(difference))
