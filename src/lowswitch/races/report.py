"""The table and the figure of a frontier: pure functions of data."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.custom import FromCounts
from lowswitch.algorithms.estimators import (
    Advantage,
    EarlySettled,
    FederatedAdvantage,
    FederatedQ,
    FederatedSettled,
    L1Ball,
    LearnedPosterior,
    MonotonicBernstein,
    Posterior,
    QLearning,
    RandomizedStages,
    StageQLearning,
    Unknown,
)
from lowswitch.algorithms.layers import LayerByLayer, MultiBatch
from lowswitch.algorithms.ridge import Sampled
from lowswitch.show import report
from lowswitch.show.tables import Table, aligned, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from lowswitch.races import Frontier, Point

Axis = Literal["deployments", "local_switches"]
AXES: tuple[Axis, ...] = ("deployments", "local_switches")
LIMITS = (10, 30, 100)  # deployments

# one colour each
KINDS = ("PSRL", "UCRL2", "UCBVI", "MVP", "Q-learning", "stages", "R-max", "layers", "own")
_COLOURS = (*report.COLOURS, "#8B6914", "#999999")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LINE = 0.16  # inches
_MOST = 7  # letters per panel
_APART = 0.04  # of a panel's width or height; closer points of a front share a letter


def kind_of(algorithm: Algorithm) -> str:
    """The kind of an algorithm, which gives its point a colour."""
    by_estimator: dict[type, str] = {
        QLearning: "Q-learning",
        EarlySettled: "Q-learning",
        FederatedQ: "Q-learning",
        FederatedSettled: "Q-learning",
        FederatedAdvantage: "stages",
        StageQLearning: "stages",
        RandomizedStages: "stages",
        Advantage: "stages",
        Posterior: "PSRL",
        LearnedPosterior: "PSRL",
        LayerByLayer: "layers",
        MultiBatch: "layers",
    }
    if isinstance(algorithm.estimator, FromCounts):
        return by_estimator.get(type(algorithm.estimator), "own")
    by_bonus: dict[type, str] = {
        MonotonicBernstein: "MVP",
        L1Ball: "UCRL2",
        Unknown: "R-max",
        Sampled: "PSRL",
    }
    planned = by_bonus.get(type(algorithm.bonus), "UCBVI")
    return by_estimator.get(type(algorithm.estimator), planned)


# ---- the table -----------------------------------------------------------------------------------


_LEGEND = "* on the front of {} against deployments (D), local switches (L)"
_CROWN = (
    "For each limit, the contender with the least mean {} plus standard error. It is crowned if"
    " it is better than every other one beyond chance: the 95 % interval of the difference, seed by"
    " seed, excludes 0. All contenders:"
)


def table(frontier: Frontier, width: int | None = None) -> str:
    """The points of both fronts by deployments, the best for each limit, and its rivals."""
    parts: list[str | Table] = [heading(frontier), _fronts(frontier)]
    parts += [_LEGEND.format(frontier.measure), _limits(frontier)]
    if any(point.contender for point in frontier.points):  # older files have none
        parts += [_CROWN.format(frontier.measure), _contenders(frontier)]
    return page(parts, width)


def heading(frontier: Frontier) -> str:
    """The size of the problem and of the race, in words."""
    size = f"S = {frontier.states}, A = {frontier.actions}, H = {frontier.horizon}"
    value = f"{frontier.episodes:,} episodes"
    if not math.isnan(frontier.optimal_value):  # it is with features
        value += f", optimal value {frontier.optimal_value:.4f}"
    finalists, contenders = frontier.finalists, [one for one in frontier.points if one.contender]
    seeds, confirmed = len(finalists[0].costs.seeds), ""
    if contenders:
        fresh = contenders[0].compared.seeds  # they follow the seeds of the final
        seeds, confirmed = int(fresh[0]), f", {len(contenders)} contenders on {len(fresh)} others"
        if any(one.choosing for one in contenders):
            confirmed += f" and the best on {len(fresh)} more"
    race = f"{len(frontier.points)} algorithms, {len(finalists)} of them finalists on {seeds} fresh"
    race += f" seeds{confirmed}, {len(_on_a_front(frontier))} on a front and shown"
    return f"{size}; {value}; {race}; means with 95 % intervals"


def _on_a_front(frontier: Frontier) -> list[Point]:
    """The points of either front, by their deployments."""
    points = {point for axis in AXES for point in frontier.front(axis)}
    return sorted(points, key=lambda point: (point.mean("deployments"), point.mean("regret")))


def _fronts(frontier: Frontier) -> Table:
    fronts = {axis: frontier.front(axis) for axis in AXES}
    rows = tuple(
        (
            point.name,
            report.mean_and_interval(point.costs.regret),
            f"{np.median(point.costs.regret):,.5g} / {point.costs.regret.max():,.5g}",
            f"{point.mean('regret') / frontier.episodes:.5f}",
            report.mean_and_interval(point.costs.deployments),
            f"{point.most_deployments:,}",
            report.mean_and_interval(point.costs.local_switches),
            " ".join("*" if point in front else " " for front in fronts.values()),
        )
        for point in _on_a_front(frontier)
    )
    costs = (frontier.measure, "median / worst seed", "per episode", "deployments", "at most")
    return Table("", ("algorithm", *costs, "local switches", "D L"), rows)


def _limits(frontier: Frontier) -> Table:
    best, budget = frontier.limits(), frontier.budget
    least = best[budget].mean("regret")
    all_of_it = "of no limit" if budget is None else "of the budget"
    rows = tuple(
        (
            point.name,
            _limit_name(limit, budget),
            f"{point.mean('regret') / frontier.episodes:.5f}",
            f"{point.mean('regret') / least:.2f} x" if least > 0 else "-",
            f"{point.most_deployments:,}",
            _crowned(frontier, limit),
        )
        for limit, point in best.items()
    )
    return Table("", ("use", "deployments", "per episode", all_of_it, "most", "crowned"), rows)


def _limit_name(limit: int | None, budget: int | None) -> str:
    if limit is None:
        return "no limit"
    return f"budget of {limit:,}" if limit == budget else f"at most {limit}"


def _crowned(frontier: Frontier, limit: int | None) -> str:
    others = len(frontier.rivals(deployments=limit))
    return "yes" if not others else f"no, {others} may be as good"


def _contenders(frontier: Frontier) -> Table:
    """Every contender for each limit, with its excess regret over the best."""
    rows = []
    for limit in frontier.limits():
        best, *others = frontier.contenders(deployments=limit)
        for point in (best, *others):
            regret, more = point.costs.regret, "-"
            if point is not best and len(regret) == len(best.costs.regret) > 1:
                more = report.mean_and_interval(regret - best.costs.regret)
            rows.append(
                (
                    _limit_name(limit, frontier.budget),
                    point.name,
                    report.mean_and_interval(regret),
                    f"{regret.max():,.5g}",
                    more,
                )
            )
    header = ("deployments", "contender", frontier.measure, "worst seed", "more than the best")
    return Table("", header, tuple(rows))


# ---- the figure ----------------------------------------------------------------------------------


def plot(frontier: Frontier, *, path: str | os.PathLike[str] | None = None) -> Figure:
    """Plot regret per episode against deployments and against local switches.

    The fronts are lines. Their main points have letters, which a list below explains.
    """
    figure = report.blank_figure(11, 5)
    grid = figure.add_gridspec(2, 1)
    panels = figure.add_subfigure(grid[0])
    letters: dict[Point, str] = {}
    for axes, axis in zip(panels.subplots(1, 2, sharey=True), AXES, strict=True):
        _draw_panel(axes, frontier, axis, letters)
    panels.axes[0].set_ylabel(f"{frontier.measure} per episode")
    title = f"{frontier.name}: {frontier.episodes:,} episodes" if frontier.name else ""
    panels.suptitle(title, fontsize=11)
    report.legend_below(panels, panels.axes[0], columns=len(KINDS), fontsize=8)
    heights = (4.3, 0.1 + _LINE * (len(letters) + 1))  # inches
    grid.set_height_ratios(heights)
    figure.set_size_inches(11, sum(heights))
    _write_notes(figure.add_subfigure(grid[1]), frontier, letters)
    if path is not None:
        report.save_figure(figure, path)
    return figure


def _draw_panel(axes: Axes, frontier: Frontier, axis: Axis, letters: dict[Point, str]) -> None:
    report.dress(axes)
    for name, places in zip("xy", _places(frontier, axis, frontier.points).T, strict=True):
        _scale(axes, name, places)
    present = {kind_of(point.algorithm) for point in frontier.points}
    for kind, colour in zip(KINDS, _COLOURS, strict=True):
        if kind not in present:
            continue
        for finalist, size, alpha in ((False, 9, 0.3), (True, 18, 0.8)):
            some = [
                point
                for point in frontier.points
                if kind_of(point.algorithm) == kind and point.finalist == finalist
            ]
            x, y = _places(frontier, axis, some).T
            axes.scatter(x, y, s=size, alpha=alpha, linewidths=0, color=colour)
        axes.scatter([], [], s=18, linewidths=0, color=colour, label=kind)
    line = _places(frontier, axis, frontier.front(axis)).T
    axes.step(*line, where="post", color="black", linewidth=1.2, zorder=3)
    axes.plot(*line, "o", color="none", markeredgecolor="black", markersize=5, zorder=3)
    axes.set_xlabel(axis.replace("_", " "))
    if axis == "deployments":
        for mark in filter(None, frontier.limits()):
            axes.axvline(mark, color="grey", linewidth=0.8, linestyle=":", zorder=0)
    for point in _main_points(axes, frontier, axis):
        letter = letters.setdefault(point, _LETTERS[len(letters)])
        look: dict[str, Any] = {"fontsize": 10, "fontweight": "bold", "zorder": 4}
        place = _places(frontier, axis, [point])[0]
        axes.annotate(letter, place, xytext=(4, 5), textcoords="offset points", **look)


def _places(frontier: Frontier, axis: Axis, points: Sequence[Point]) -> np.ndarray:  # [points, 2]
    """The positions of points in a panel."""
    return np.array(
        [(point.mean(axis), max(0.0, point.mean("regret")) / frontier.episodes) for point in points]
    ).reshape(-1, 2)


def _scale(axes: Axes, name: str, places: np.ndarray) -> None:
    """Make an axis, x or y, logarithmic.

    It gets a place for 0 if an algorithm never changed anything, or lost nothing.
    """
    if (places > 0).all():
        getattr(axes, f"set_{name}scale")("log")
    else:
        # a power of ten, so that no tick comes close to the tick of 0
        least = 10 ** math.floor(math.log10(places[places > 0].min(initial=1)))
        getattr(axes, f"set_{name}scale")("symlog", linthresh=least, linscale=0.5)


def _main_points(axes: Axes, frontier: Frontier, axis: Axis) -> list[Point]:
    """The points of a front that get a letter.

    The best for each limit comes first, then every point that is far enough from the lettered ones.
    """
    front = frontier.front(axis)
    first = [point for point in front if point in frontier.limits().values()]
    to_panel = axes.transData + axes.transAxes.inverted()
    chosen: list[Point] = []
    for point in [*first, *front[-1:], *front]:
        here, *others = to_panel.transform(_places(frontier, axis, [point, *chosen]))
        if all(math.dist(here, place) > _APART for place in others) and len(chosen) < _MOST:
            chosen.append(point)
    return sorted(chosen, key=front.index)


def _write_notes(notes: SubFigure, frontier: Frontier, letters: dict[Point, str]) -> None:
    """Write what each letter stands for, one per line."""
    rows = [
        [
            f"{letter}  {point.name}",
            f"{point.mean('regret') / frontier.episodes:.5f}",
            f"{point.mean('deployments'):,.1f}",
            f"{point.mean('local_switches'):,.0f}",
        ]
        for point, letter in letters.items()
    ]
    text = aligned(["", f"{frontier.measure} per episode", "deployments", "local switches"], rows)
    lines = [line for line in text.splitlines() if set(line) - set("- ")]
    look: dict[str, Any] = {"family": "monospace", "fontsize": 8, "linespacing": 1.35}
    notes.text(0.5, 0.98, "\n".join(lines), va="top", ha="center", **look)
