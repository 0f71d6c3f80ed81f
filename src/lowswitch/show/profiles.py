"""Scores of algorithms over many problems: a table of interquartile means, and profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lowswitch.runs.scores import interquartile_mean, performance_profile, stratified_interval
from lowswitch.show import report
from lowswitch.show.tables import Table
from lowswitch.show.text import counted, wrapped_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SCORE = "score: 1 is what an optimal policy earns, 0 what uniform play earns"
_POINTS = 101
_LETTERS = 68  # in a line of the legend
_LINE = 0.21  # inches: its height


def score_table(scores: Mapping[str, np.ndarray]) -> Table:
    """The interquartile mean and the mean of scores [problems, seeds], a line for each label."""
    problems, seeds = next(iter(scores.values())).shape
    rows = []
    for label, some in scores.items():
        low, high = stratified_interval(some, interquartile_mean)
        middle = float(interquartile_mean(some.ravel()))
        cells = (f"{middle:.4f}", f"{low:.4f} to {high:.4f}", f"{some.mean():.4f}")
        rows.append((label, *cells))
    heading = (
        f"{counted(problems, 'problem')}, {counted(seeds, 'seed')}; {_SCORE}\n"
        "95 % intervals are of a bootstrap that resamples the seeds of each problem"
    )
    return Table(heading, ("algorithm", "IQM", "95 % interval", "mean"), tuple(rows))


def draw_profiles(
    scores: Mapping[str, np.ndarray],
    *,
    path: str | os.PathLike[str] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw which share of all problems and seeds has a score above each number."""
    named = {wrapped_label(label, _LETTERS): some for label, some in scores.items()}
    lines = 1 + sum(1 + label.count("\n") for label in named)  # of the legend
    height = 3.6 + _LINE * lines
    figure = report.blank_figure(6.5, height) if ax is None else ax.get_figure(root=True)
    assert figure is not None
    axes = figure.subplots() if ax is None else ax
    everything = np.concatenate([some.ravel() for some in scores.values()])
    thresholds = np.linspace(min(0.0, everything.min()), max(1.0, everything.max()), _POINTS)
    for i, (label, some) in enumerate(named.items()):
        style = report.line_style(i) if ax is None else {}
        shares = performance_profile(some.ravel(), thresholds)
        [line] = axes.plot(thresholds, shares, label=label, **style)
        statistic = partial(performance_profile, thresholds=thresholds)
        low, high = stratified_interval(some, statistic)
        report.draw_range(axes, thresholds, (low, high), line.get_color())
    report.name_band(axes, "95 % stratified bootstrap")
    axes.set_xlabel(_SCORE)
    axes.set_ylabel("share of problems and seeds above it")
    if ax is None:
        report.dress(axes)
        report.legend_below(figure, axes, columns=1)
    if path is not None:
        report.save_figure(figure, path)
    return figure
