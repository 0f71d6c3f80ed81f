"""Several runs side by side: a table of their costs, and the curves of these along the way."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.checks import require_word, shown
from lowswitch.show import report
from lowswitch.show.bands import Band
from lowswitch.show.panels import (
    BANDS,
    PANELS,
    RATIO_BAND,
    Against,
    Cost,
    Guide,
    Look,
    Scale,
    draw_panel,
    draw_ratio,
    words_of,
)
from lowswitch.show.tables import Table, Tables
from lowswitch.show.text import wrapped_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lowswitch.runs.results import Runs


_CHARACTER = 0.087  # inches: the width of a letter of 10 points
_HANDLE = 0.7  # inches: the line before a name in a legend, with the gap after it
_PANEL = 36  # characters above a panel that stay clear of the next one
_LINE = 0.22  # inches: the height of a line of the legend or of a title


def plot(
    several: Any,
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    what: Cost | Sequence[Cost] | None = None,
    x: Against = "episodes",
    scale: Scale = "log",
    label: str | None = None,
    band: Band = "quantiles",
    guides: Guide | Sequence[Guide] = (),
    ratio_to: str | None = None,
) -> Figure:
    """Draw regret, local switches and deployments of runs; return the figure.

    Runs of `learn` have their returns in the place of the regret, `what` is one of "return" and
    "deployments", and the options after `scale` do not apply.

    Parameters
    ----------
    several
        A mapping of labels to runs, a sequence of runs or of pairs of a label and runs, or one of
        them. Runs on different problems have a row of panels for each problem.
    path
        The file to write, if any.
    title
        The title.
    ax
        Your own Axes for one cost, by default the regret; they then set colours, grid and frame.
    what
        One of the three costs, or several; by default all.
    x
        What they are drawn against.
    scale
        Which axes are logarithmic.
    label
        The name of a single run.
    band
        Around the mean, "quantiles" reaches from the 10 % to the 90 % quantile of the seeds,
        "interval" is Student's 95 % interval of the mean, "bootstrap" the same by resampling the
        seeds, and "none" draws no band. The legend names it.
    guides
        "sqrt" and "log" add lines that grow like √K and log K and meet the smallest regret at the
        end.
    ratio_to
        The label of a run. Another panel divides the mean regret of the others by its mean regret.
        The band resamples seeds, each with both of its runs.
    """
    look = Look.of(x, scale, band, guides, ratio_to)
    if played := _of_environments(several, label):
        _require_plain(look)
        drawn: Figure = played[0][1].figure_of(played, path, title=title, ax=ax, what=what)
        return drawn
    problems = by_problem(several, label)
    if ax is None:
        return _plot_rows(_titled(problems, title), path, what, look)
    costs = _costs("regret" if what is None else what)
    if len(costs) > 1:
        raise ValueError(f"one Axes shows one cost, not {', '.join(costs)}; name one in what=")
    runs = _side_by_side(problems)
    if ratio_to is None:
        draw_panel(ax, runs, costs[0], look, list(runs), plain=True)
        ax.set_ylabel(words_of(costs[0], runs.values())[1])
    else:
        draw_ratio(ax, runs, costs[0], look, list(runs), plain=True)
    ax.set_xlabel(x.replace("_", " "))
    if title:
        ax.set_title(title)
    figure = ax.get_figure(root=True)
    assert figure is not None
    if path is not None:
        report.save_figure(figure, path)
    return figure


def summary(several: Any, columns: Sequence[str] | None = None) -> Table | Tables:
    """A table of the costs of runs: one line each, with 95 % intervals over the seeds.

    Parameters
    ----------
    several
        A mapping of labels to runs, a sequence of runs, or one of them, from `simulate` or `learn`.
        Runs on different problems have a table for each problem.
    columns
        The columns in this order, such as ("algorithm", "regret", "deployments"); by default all.
    """
    if played := _of_environments(several, None):
        tables: Table | Tables = played[0][1].tables_of(played, columns)
        return tables
    problems = by_problem(several)
    if not problems:
        raise ValueError("there is nothing to sum up; give at least one run")
    if len(problems) > 1:
        return summaries(problems, columns)
    [runs] = problems.values()
    return report.summary(runs, columns)


def summaries(
    problems: Mapping[str, Mapping[str, Runs]], columns: Sequence[str] | None = None
) -> Tables:
    """A table for each problem, under its name."""
    tables = (report.named_summary(name, runs, columns) for name, runs in problems.items())
    return Tables(tuple(tables))


def _of_environments(several: Any, label: str | None) -> list[tuple[str, Any]]:
    """Labelled runs of `learn`, which have returns and know how to show themselves; else none."""
    pairs = _labelled(several, label)
    played = [(name, run) for name, run in pairs if hasattr(run, "returns")]
    if played and len(played) < len(pairs):
        raise ValueError(
            f"{shown(played[0][0])} is a run of learn, which has returns, and others are runs of"
            " simulate, which have regret; show each kind on its own"
        )
    return played


def _require_plain(look: Look) -> None:
    """Refuse options that the figures of `learn` do not have."""
    allowed = Look(scale="linear") if look.scale == "linear" else Look()
    for name, value, usual in zip(look._fields, look, allowed, strict=True):
        if value != usual:
            raise ValueError(
                f"{name}={shown(value)} is for runs of simulate; runs of learn are drawn against"
                " their episodes, on linear axes and without bands. Leave it out"
            )


# ---- which runs belong together ------------------------------------------------------------------


def by_problem(several: Any, label: str | None = None) -> dict[str, dict[str, Runs]]:
    """Runs by the names of their problems, and there by their labels."""
    pairs = _labelled(several, label)
    if not distinct(pairs):
        raise ValueError(
            "two of these runs have the same algorithm; pass a mapping of labels to runs"
        )
    return grouped(pairs)


def grouped(pairs: Iterable[tuple[str, Runs]]) -> dict[str, dict[str, Runs]]:
    """Labelled runs by the names of their problems.

    Where problems of one name differ, a part of their fingerprints tells them apart.
    """
    groups: dict[tuple[Any, ...], dict[str, Runs]] = {}
    for label, run in pairs:
        groups.setdefault(_problem(run), {})[label] = run
    firsts = [next(iter(runs.values())) for runs in groups.values()]
    often = Counter(map(_problem_name, firsts))
    names = [_problem_name(run, marked=often[_problem_name(run)] > 1) for run in firsts]
    return dict(zip(names, groups.values(), strict=True))


def distinct(pairs: Sequence[tuple[str, Runs]]) -> bool:
    """Whether no two runs on one problem have the same label."""
    return len({(label, _problem(run)) for label, run in pairs}) == len(pairs)


def _problem(run: Runs) -> tuple[Any, ...]:
    """What tells the problem of a run from others, as far as the run knows it."""
    return run.problem, run.fingerprint, *run.size.items()


def _problem_name(run: Runs, *, marked: bool = False) -> str:
    """What the problem of a run is called; without a name by its size and its fingerprint."""
    mark = run.fingerprint[:6]
    if not run.problem:
        return f"{report.size_of(run)} [{mark}]" if mark else report.size_of(run)
    return f"{run.problem} [{mark or report.size_of(run)}]" if marked else run.problem


def _titled(
    problems: Mapping[str, Mapping[str, Runs]], title: str
) -> dict[str, Mapping[str, Runs]]:
    """The rows of panels: one problem alone has the title, several have their names behind it."""
    titles = [f"{title}: {name}" if title else name for name in problems]
    if len(problems) == 1:
        titles = [title]
    return dict(zip(titles, problems.values(), strict=True))


def _side_by_side(problems: Mapping[str, Mapping[str, Runs]]) -> dict[str, Runs]:
    """All runs for one panel; where there are several problems, the labels name them."""
    alone = len(problems) < 2
    return {
        label if alone else f"{label}, {name}": run
        for name, runs in problems.items()
        for label, run in runs.items()
    }


def _labelled(several: Any, label: str | None) -> list[tuple[str, Runs]]:
    """Runs with their labels, which are the names of the algorithms where none are given."""
    if isinstance(several, Mapping):
        several = list(several.items())
    sequence = several if isinstance(several, list | tuple) else [several]
    are_pairs = bool(sequence) and all(isinstance(one, tuple) for one in sequence)
    for one in sequence:
        _require_runs(one[1] if are_pairs and len(one) == 2 else one)
    if are_pairs:
        return [(str(name), run) for name, run in sequence]
    if label is not None and len(sequence) != 1:
        raise ValueError(f"label {label!r} names one run; pass a mapping of labels to runs")
    return [(run.algorithm.label if label is None else label, run) for run in sequence]


def _require_runs(given: Any) -> None:
    """Refuse objects that are not runs, and say what to pass."""
    if hasattr(given, "algorithm") and (hasattr(given, "curves") or hasattr(given, "returns")):
        return
    if hasattr(given, "algorithms"):
        raise ValueError(
            f"{given!r} has runs on several problems; call its own summary(), plot() or"
            " to_dataframe()"
        )
    raise ValueError(
        "give runs of simulate or learn: one, several, or a mapping of labels to runs;"
        f" not {shown(given)}"
    )


# ---- drawing -------------------------------------------------------------------------------------


def _costs(what: Any) -> list[str]:
    """The costs to be drawn, or an error that names the known ones."""
    costs = [what] if isinstance(what, str) else list(what)
    for cost in costs:
        require_word("what", cost, tuple(PANELS))
    return costs


def plot_grid(
    problems: Mapping[str, Mapping[str, Runs]],
    *,
    path: str | os.PathLike[str] | None = None,
    what: Any = None,
    x: Against = "episodes",
    scale: Scale = "log",
    band: Band = "quantiles",
    guides: Guide | Sequence[Guide] = (),
    ratio_to: str | None = None,
) -> Figure:
    """Draw a row of panels for each problem, and one legend for all.

    A regret that no run knows has no panel, and neither does the cost on the x-axis.

    Parameters
    ----------
    problems
        For each name of a problem, the runs, as in `plot`.
    path, what, x, scale, band, guides, ratio_to
        As in `plot`.
    """
    return _plot_rows(problems, path, what, Look.of(x, scale, band, guides, ratio_to))


def _plot_rows(
    problems: Mapping[str, Mapping[str, Runs]],
    path: str | os.PathLike[str] | None,
    what: Any,
    look: Look,
) -> Figure:
    if not problems or not all(problems.values()):
        raise ValueError("there is nothing to plot; give at least one run")
    everything = [run for runs in problems.values() for run in runs.values()]
    panels = [
        name
        for name in _costs(PANELS if what is None else what)
        if name != look.x and any(_known(run, name) for run in everything)
    ]
    if not panels:
        raise ValueError(
            "nothing is left to plot: these runs have no regret, or it is drawn against itself; "
            "name another cost in what="
        )
    columns = len(panels) + (look.ratio_to is not None)
    width = 11 * columns / len(PANELS)  # inches
    figure = report.blank_figure(width, 1.0)
    grid = figure.subplots(len(problems), columns, squeeze=False, sharex="row")
    labels = list(dict.fromkeys(label for runs in problems.values() for label in runs))
    lines = 0  # that need room of their own
    for row, (title, runs) in zip(grid, problems.items(), strict=True):
        before, more = _before_panel_names(figure, title, width, alone=len(problems) == 1)
        lines += more
        for axes, name in zip(row, panels, strict=False):
            words, unit = words_of(name, runs.values())
            draw_panel(axes, runs, name, look, labels)
            axes.set_title(before + words, fontsize=10)
            axes.set_ylabel(unit)
        if look.ratio_to is not None:
            draw_ratio(row[-1], runs, panels[0], look, labels)
            named = f"\n({RATIO_BAND})" if look.band != "none" else ""
            row[-1].set_title(f"{before}ratio of the means{named}", fontsize=10)
        for axes in row:
            axes.set_xlabel(look.x.replace("_", " "))
    lines += _draw_legend(figure, [row[0] for row in grid], width)
    figure.set_size_inches(width, 0.8 + 3.1 * len(problems) + _LINE * lines)
    if path is not None:
        report.save_figure(figure, path)
    return figure


def _before_panel_names(
    figure: Figure, title: str, width: float, *, alone: bool
) -> tuple[str, int]:
    """The text before the names of a row's panels, and how many more lines it needs.

    A long title has lines of its own: above each panel, or above the figure if there is one row.
    """
    longest = max(len(words) for words, _ in PANELS.values())
    if not title or len(title) + 2 + longest <= _PANEL:
        return f"{title}: " if title else "", 0
    if alone:
        text = wrapped_label(title, int(width / 1.1 / _CHARACTER))
        figure.suptitle(text, fontsize=11)
        return "", 1 + text.count("\n")
    text = wrapped_label(title, _PANEL)
    return f"{text}\n", 1 + text.count("\n")


def _draw_legend(figure: Figure, panels: Sequence[Axes], width: float) -> int:
    """Draw the legend of one panel of each row below all; return how many lines it has beyond two.

    It has as many columns as fit, up to four.
    """
    lines_of: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        lines_of = dict(zip(labels, handles, strict=True)) | lines_of
    named = [label for label in lines_of if label in BANDS.values()]
    lines_of |= {label: lines_of.pop(label) for label in named}  # what the bands are comes last
    labels, handles = list(lines_of), list(lines_of.values())
    most = max(1, min(4, len(labels)))  # matplotlib may leave out all labels
    widest = _HANDLE + _CHARACTER * max(map(len, labels), default=0)
    columns = min(most, max(1, int(width / widest)))
    labels = [wrapped_label(label, int((width - _HANDLE) / _CHARACTER)) for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    lines: int = sum(1 + label.count("\n") for label in labels)
    return max(0, math.ceil(lines / columns) - 2)


def _known(run: Runs, name: str) -> bool:
    """Whether there is a curve to draw: without tables nobody knows the regret."""
    return name != "regret" or not np.isnan(run.curves.regret).all()
