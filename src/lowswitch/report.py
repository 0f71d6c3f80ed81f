"""Tables and figures of results: pure functions of data."""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch import storage
from lowswitch.progress import short
from lowswitch.theory import rounds_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

    from lowswitch.concurrent import ConcurrentRun
    from lowswitch.simulate import Runs

# Okabe and Ito's colours, which all eyes can tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
BAND = (0.1, 0.9)  # quantiles over the seeds

_CHARACTER = 0.087  # inches: the width of a letter of 10 points
_HANDLE = 0.7  # inches: the line before a name in a legend, with the gap after it
_PANEL = 36  # characters above a panel that stay clear of the next one
_LINE = 0.22  # inches: the height of a line of the legend or of a title

FORMATS = (".png", ".svg", ".pdf")

# what is drawn, with its title and its unit
PANELS = {
    "regret": ("regret", "reward lost so far"),
    "local_switches": ("local switches", "row changes so far"),
    "deployments": ("deployments", "policy changes so far"),
}


def half_width(values: np.ndarray, confidence: float = 0.95) -> float:
    """Half the width of Student's confidence interval for the mean."""
    size = len(values)
    if size < 2:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(size - 1, (1 + confidence) / 2) * values.std(ddof=1) / math.sqrt(size))


def mean_and_interval(values: np.ndarray) -> str:
    """`mean ± half width`, both to the interval's precision."""
    mean, half = float(values.mean()), half_width(values)
    if math.isnan(mean):
        return "-"
    spread = 0.0 if math.isnan(half) else half
    digits = 0 if max(abs(mean), spread) >= 100 or (spread == 0 and mean.is_integer()) else 2
    return f"{mean:,.{digits}f}" + ("" if math.isnan(half) else f" ± {half:,.{digits}f}")


def means(**costs: np.ndarray) -> str:
    """The means in words, such as `regret 1,796, local switches 7,008`."""
    texts = {
        name.replace("_", " "): mean_and_interval(np.array([values.mean()]))
        for name, values in costs.items()
    }
    return ", ".join(f"{name} {'unknown' if text == '-' else text}" for name, text in texts.items())


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return "  ".join([cells[0].ljust(len(first)), *others]).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def summary(runs: Mapping[str, Runs]) -> str:
    """A table with a line for each of the runs and 95 % intervals over the seeds."""
    rows = [
        [
            label,
            mean_and_interval(run.regret),
            "-" if np.isnan(run.regret).any() else f"{run.regret.mean() / run.episodes:.4f}",
            mean_and_interval(run.local_switches),
            mean_and_interval(run.deployments),
            short(run.steps_per_second),
        ]
        for label, run in runs.items()
    ]
    header = ["algorithm", "regret", "per episode", "local switches", "deployments", "steps/s"]
    return f"{heading(next(iter(runs.values())))}\n\n{table(header, rows)}"


def heading(run: Runs) -> str:
    """The size of the problem and of the experiment, in words."""
    alone = len(run.seeds) == 1
    seeds = "one seed" if alone else f"{len(run.seeds)} seeds"
    means = "" if alone else "; means with 95 % intervals"
    size = f"S = {run.states}, A = {run.actions}, H = {run.horizon}; {run.episodes:,} episodes"
    return f"{size}, {seeds}, optimal value {run.optimal_value:.4f}{means}"


def rounds_summary(run: ConcurrentRun) -> str:
    """What M machines played, kept and threw away, and what it cost, a line each."""
    rounds, ended, regret = f"{run.rounds:,}", "", "unknown: the source has no tables"
    if run.rule == "switch":
        bound = rounds_bound(K=run.kept, M=run.machines, deployments=int(run.deployments[0]))
        rounds += f", at most {bound:,.0f} = N_gl + 1 + K/M"
    if run.stopped != "episodes":
        ended = f" of {run.planned:,}, stopped by its {run.stopped}"
    if not math.isnan(run.regret[0]):
        regret = f"{run.regret[0]:,.2f}"
    lines = {
        "problem": _problem(run),
        "algorithm": f"{run.algorithm}, seed {run.seeds[0]}",
        "machines": f"{run.machines:,}, rounds cut by the rule {run.rule!r}",
        "episodes": (
            f"{run.kept:,} kept{ended}; {run.thrown_away:,} of {run.played:,} played were thrown"
            " away"
        ),
        "rounds": rounds,
        "speed-up": f"{run.speed_up:.1f} episodes a round",
        "regret": regret,
        "earned": f"{run.earned:,.2f}, {run.earned / max(1, run.kept):.4f} an episode",
        "switches": f"{run.local_switches[0]:,} local, {run.deployments[0]:,} deployments",
    }
    if run.bytes_sent:
        sent, received = run.bytes_sent / run.rounds, run.bytes_received / run.rounds
        lines["workers"] = (
            f"{sent:,.0f} bytes sent and {received:,.0f} received a round; {run.lost} lost"
        )
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in run.parts.items() if seconds)
    lines["wall time"] = f"{run.seconds:.2f} s ({parts})"
    return _lines(lines)


def _problem(run: ConcurrentRun) -> str:
    value = "" if math.isnan(run.optimal_value) else f", optimal value {run.optimal_value:.4f}"
    return f"S = {run.states}, A = {run.actions}, H = {run.horizon}{value}"


def _lines(lines: Mapping[str, str]) -> str:
    """Each name on a line of its own, with its text to the right of it."""
    return "\n".join(f"{name:11}{text}" for name, text in lines.items())


def versus(runs: Mapping[str, Runs], baselines: Mapping[str, str]) -> str:
    """The costs of each learner beside those of its every-visit baseline."""
    rows = []
    for label, run in runs.items():
        cells = [label, mean_and_interval(run.regret)]
        other = runs[baselines[label]] if label in baselines else None
        cells.append("" if other is None else f"{run.regret.mean() / other.regret.mean() - 1:+.1%}")
        for name in ("local_switches", "deployments"):
            few = getattr(run, name).mean()
            many = None if other is None else getattr(other, name).mean()
            cells += [f"{few:,.0f}", "" if many is None else f"{many / few:,.1f} x fewer"]
        rows.append(cells)
    return table(
        ["algorithm", "regret", "vs every visit", "local switches", "", "deployments", ""], rows
    )


def plot(several: Any, *, path: str | os.PathLike[str] | None = None, title: str = "") -> Figure:
    """Draw regret, local switches and deployments against episodes.

    A line is the mean over the seeds, and a band reaches from their 10 % to their 90 % quantile.
    `several` is a mapping of labels to runs, a sequence of runs, or one of them.
    """
    return plot_grid({title: labelled(several)}, path=path)


def labelled(several: Any) -> dict[str, Runs]:
    """Runs by their labels, which are the names of the algorithms where none are given."""
    if isinstance(several, Mapping):
        return dict(several)
    sequence = several if isinstance(several, Sequence) else [several]
    if not all(hasattr(run, "algorithm") for run in sequence):
        raise ValueError(
            f"give runs of simulate, one or several or a mapping of labels to runs, not {several!r}"
        )
    runs = {str(run.algorithm): run for run in sequence}
    if len(runs) < len(sequence):
        raise ValueError(
            "two of these runs have the same algorithm; pass a mapping of labels to runs"
        )
    return runs


def plot_grid(
    problems: Mapping[str, Mapping[str, Runs]], *, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw a row of panels for each problem, and one legend for all.

    A regret that no run knows has no panel.
    """
    if not problems or not all(problems.values()):
        raise ValueError("there is nothing to plot; give at least one run")
    from matplotlib.figure import Figure

    panels = {
        name: words
        for name, words in PANELS.items()
        if any(_known(run, name) for runs in problems.values() for run in runs.values())
    }
    width = 11 * len(panels) / len(PANELS)  # inches
    figure = Figure(layout="constrained")
    grid = figure.subplots(len(problems), len(panels), squeeze=False, sharex="row")
    lines = 0  # that need room of their own
    for row, (title, runs) in zip(grid, problems.items(), strict=True):
        before, more = _before_panel_names(figure, title, width, alone=len(problems) == 1)
        lines += more
        for axes, (name, (words, unit)) in zip(row, panels.items(), strict=True):
            _draw_panel(axes, runs, name)
            axes.set_title(before + words, fontsize=10)
            axes.set_xlabel("episodes")
            axes.set_ylabel(unit)
    lines += _draw_legend(figure, grid[0][0], width)
    figure.set_size_inches(width, 0.8 + 3.1 * len(problems) + _LINE * lines)
    if path is not None:
        save_figure(figure, path)
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
        text = wrapped(title, int(width / 1.1 / _CHARACTER))
        figure.suptitle(text, fontsize=11)
        return "", 1 + text.count("\n")
    text = wrapped(title, _PANEL)
    return f"{text}\n", 1 + text.count("\n")


def _draw_legend(figure: Figure, axes: Axes, width: float) -> int:
    """Draw the legend below all panels; return how many lines it has beyond two.

    It has up to four columns if they fit, and else a name a line.
    """
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(4, len(labels)))  # matplotlib may leave out all labels
    if columns * (_HANDLE + _CHARACTER * max(map(len, labels), default=0)) > width:
        columns = 1
        labels = [wrapped(label, int((width - _HANDLE) / _CHARACTER)) for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    lines: int = sum(1 + label.count("\n") for label in labels)
    return max(0, math.ceil(lines / columns) - 2)


def wrapped(text: str, width: int) -> str:
    """The text on lines of at most `width` characters.

    Lines are broken after commas and spaces, or anywhere in a longer word.
    """
    lines = [""]
    for piece in re.findall(rf"[^, ]{{1,{width}}}[, ]*|[, ]+", text):
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _known(run: Runs, name: str) -> bool:
    """Whether there is a curve to draw: without tables nobody knows the regret."""
    return name != "regret" or not np.isnan(run.curves.regret).all()


def _draw_panel(axes: Axes, runs: Mapping[str, Runs], name: str) -> None:
    for i, (label, run) in enumerate(runs.items()):
        draw_band(axes, run.curves.episodes, getattr(run.curves, name), i, label)
    drawn = any(np.nanmax(getattr(run.curves, name), initial=0) > 0 for run in runs.values())
    dress(axes, log="xy" if drawn else "x")


def draw_band(axes: Axes, times: np.ndarray, curves: np.ndarray, i: int, label: str) -> None:
    """Draw curves [runs, C] as the i-th line, which is their mean, and a band of quantiles."""
    style = line_style(i)
    low, high = np.quantile(curves, BAND, axis=0)
    axes.fill_between(times, low, high, alpha=0.2, linewidth=0, color=style["color"])
    axes.plot(times, curves.mean(axis=0), label=label, linewidth=1.6, **style)


def line_style(i: int) -> dict[str, Any]:
    """The colour and the dashes of the i-th line."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def positive(values: Any) -> np.ndarray:
    """The values that a logarithmic axis can show, and NaN for the others."""
    return np.where(np.asarray(values) > 0, values, np.nan)


def blank_figure(width: float, height: float) -> Figure:
    """A figure of so many inches that makes room for what is drawn beside its panels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def legend_below(figure: FigureBase, axes: Axes, *, columns: int, **options: Any) -> None:
    """Draw the legend of one panel below all of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, **options
    )


def dress(axes: Axes, *, log: str = "") -> None:
    """Give a panel the look of all: a light grid, no box, and logarithmic axes where asked for."""
    for name in log:
        getattr(axes, f"set_{name}scale")("log")
    axes.grid(which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def count_from_one(axes: Axes, name: str, most: int) -> None:
    """Let a logarithmic axis, x or y, reach from 1 to the most, and label it with plain numbers."""
    ticks = [10**power for power in range(int(math.log10(most)) + 1)]
    getattr(axes, f"set_{name}ticks")(ticks, [f"{tick:,}" for tick in ticks])
    getattr(axes, f"set_{name}lim")(0.8, 1.25 * most)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that the ending of its name says."""
    require_figure_path(path)
    with storage.replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:], dpi=150)


def require_figure_path(path: str | os.PathLike[str]) -> None:
    """Refuse, before the work, a name under which no figure could be written after it."""
    if Path(path).suffix not in FORMATS:
        raise ValueError(f"a figure's name must end in {', '.join(FORMATS)}, not {str(path)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("figures need matplotlib; pip install 'lowswitch[plot]'")
    storage.require_writable(path)
