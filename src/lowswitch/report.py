"""Results to tables and figures: pure functions of data."""

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
    from matplotlib.figure import Figure

    from lowswitch.concurrent import ConcurrentRun, MbieRun
    from lowswitch.simulate import Runs

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # Okabe and Ito: told apart by all eyes
DASHES = ("-", "--", "-.", ":")
BAND = (0.1, 0.9)  # quantiles over the seeds

_CHARACTER, _HANDLE = (
    0.087,
    0.7,
)  # inches: a letter of 10 points, and the line before a name of the legend with the gap after it
_PANEL = 36  # characters above a panel that stay clear of the next one
_LINE = 0.22  # inches: a line of the legend or of a title

FORMATS = (".png", ".svg", ".pdf")
PANELS = {  # title and unit
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
    """`regret 1,796, local switches 7,008`: the means in words, for one line."""
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
    """A line for each, with 95 % intervals over the seeds."""
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
    seeds, means = (
        ("one seed", "") if alone else (f"{len(run.seeds)} seeds", "; means with 95 % intervals")
    )
    size = f"S = {run.states}, A = {run.actions}, H = {run.horizon}"
    return (
        f"{size}; {run.episodes:,} episodes, {seeds}, optimal value {run.optimal_value:.4f}{means}"
    )


def rounds_summary(run: ConcurrentRun) -> str:
    """What M machines played, kept and threw away, and what it cost, a line each."""
    bound = (
        ", at most"
        f" {rounds_bound(K=run.kept, M=run.machines, deployments=int(run.deployments[0])):,.0f} ="
        " N_gl + 1 + K/M"
    )
    ended = (
        "" if run.stopped == "episodes" else f" of {run.planned:,}, stopped by its {run.stopped}"
    )
    lines = {
        "problem": _problem(run),
        "algorithm": f"{run.algorithm}, seed {run.seeds[0]}",
        "machines": f"{run.machines:,}, rounds cut by the rule {run.rule!r}",
        "episodes": (
            f"{run.kept:,} kept{ended}; {run.thrown_away:,} of {run.played:,} played were thrown"
            " away"
        ),
        "rounds": f"{run.rounds:,}" + (bound if run.rule == "switch" else ""),
        "speed-up": f"{run.speed_up:.1f} episodes a round",
        "regret": (
            "unknown: the source has no tables"
            if math.isnan(run.regret[0])
            else f"{run.regret[0]:,.2f}"
        ),
        "earned": f"{run.earned:,.2f}, {run.earned / max(1, run.kept):.4f} an episode",
        "switches": f"{run.local_switches[0]:,} local, {run.deployments[0]:,} deployments",
    }
    if run.bytes_sent:
        traffic = (
            f"{run.bytes_sent / run.rounds:,.0f} bytes sent and"
            f" {run.bytes_received / run.rounds:,.0f} received a round"
        )
        lines["workers"] = f"{traffic}; {run.lost} lost"
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in run.parts.items() if seconds)
    lines["wall time"] = f"{run.seconds:.2f} s ({parts})"
    return _lines(lines)


def mbie_summary(run: MbieRun) -> str:
    """What M machines played and what it cost, a line each."""
    return _lines(
        {
            "problem": _problem(run),
            "algorithm": f"{run.name}, seed {run.seed}",
            "machines": f"{run.machines:,}, which plan anew after every round",
            "episodes": f"{run.episodes:,}, all kept",
            "rounds": f"{run.rounds:,}",
            "regret": f"{run.regret:,.2f}",
            "switches": f"{run.local_switches:,} local, {run.deployments:,} deployments",
            "wall time": f"{run.seconds:.2f} s",
        }
    )


def _problem(run: ConcurrentRun | MbieRun) -> str:
    value = "" if math.isnan(run.optimal_value) else f", optimal value {run.optimal_value:.4f}"
    return f"S = {run.states}, A = {run.actions}, H = {run.horizon}{value}"


def _lines(lines: Mapping[str, str]) -> str:
    """Names to the left of what there is to say of them."""
    return "\n".join(f"{name:11}{text}" for name, text in lines.items())


def versus(runs: Mapping[str, Runs], baselines: Mapping[str, str]) -> str:
    """The costs of each learner beside those of its every-visit baseline."""
    rows = []
    for label, run in runs.items():
        cells = [label, mean_and_interval(run.regret)]
        other = runs[baselines[label]] if label in baselines else None
        cells.append("" if other is None else f"{run.regret.mean() / other.regret.mean() - 1:+.1%}")
        for name in ("local_switches", "deployments"):
            values = getattr(run, name)
            cells.append(f"{values.mean():,.0f}")
            cells.append(
                ""
                if other is None
                else f"{getattr(other, name).mean() / values.mean():,.1f} x fewer"
            )
        rows.append(cells)
    return table(
        ["algorithm", "regret", "vs every visit", "local switches", "", "deployments", ""], rows
    )


def plot(several: Any, *, path: str | os.PathLike[str] | None = None, title: str = "") -> Figure:
    """Draw regret, local switches and deployments against episodes: the mean, and a band from the
    10 % to the 90 % quantile of the seeds.

    `several` is a mapping of labels to runs, a sequence of runs, or one.
    """
    return plot_grid({title: labelled(several)}, path=path)


def labelled(several: Any) -> dict[str, Runs]:
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
    """A row of panels for each problem, and one legend for all, a name a line where they are long.

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
    """What stands before the names of a row's panels, and the lines it takes; a long title has its
    own, of a row alone once for all.
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
    """The legend below all panels, in up to four columns if that fits, else a name a line; return
    how many lines it has beyond two.
    """
    handles, labels = axes.get_legend_handles_labels()
    columns = max(
        1, min(4, len(labels))
    )  # matplotlib leaves out a label that is empty or begins with _
    if columns * (_HANDLE + _CHARACTER * max(map(len, labels), default=0)) > width:
        columns, labels = (
            1,
            [wrapped(label, int((width - _HANDLE) / _CHARACTER)) for label in labels],
        )
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    lines: int = sum(1 + label.count("\n") for label in labels)
    return max(0, math.ceil(lines / columns) - 2)


def wrapped(text: str, width: int) -> str:
    """The text on lines of about `width` characters, broken after commas and spaces, or anywhere in
    a longer word.
    """
    lines = [""]
    for piece in re.findall(rf"[^, ]{{1,{width}}}[, ]*|[, ]+", text):
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _known(run: Runs, name: str) -> bool:
    """Whether a curve has anything to draw: nobody knows the regret where there are no tables."""
    return name != "regret" or not np.isnan(run.curves.regret).all()


def _draw_panel(axes: Axes, runs: Mapping[str, Runs], name: str) -> None:
    for i, (label, run) in enumerate(runs.items()):
        curves: np.ndarray = getattr(run.curves, name)
        colour = COLOURS[i % len(COLOURS)]
        low, high = np.quantile(curves, BAND, axis=0)
        axes.fill_between(run.curves.episodes, low, high, alpha=0.2, linewidth=0, color=colour)
        axes.plot(
            run.curves.episodes,
            curves.mean(axis=0),
            DASHES[i % len(DASHES)],
            label=label,
            linewidth=1.6,
            color=colour,
        )
    drawn = any(np.nanmax(getattr(run.curves, name), initial=0) > 0 for run in runs.values())
    dress(axes, log="xy" if drawn else "x")


def dress(axes: Axes, *, log: str = "") -> None:
    """The look of every panel: logarithmic axes where asked for, a light grid, no box."""
    for name in log:
        getattr(axes, f"set_{name}scale")("log")
    axes.grid(which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def count_from_one(axes: Axes, name: str, most: int) -> None:
    """Let a logarithmic axis, x or y, reach from 1 to the most, with powers of ten as plain
    numbers.
    """
    ticks = [10**power for power in range(int(math.log10(most)) + 1)]
    getattr(axes, f"set_{name}ticks")(ticks, [f"{tick:,}" for tick in ticks])
    getattr(axes, f"set_{name}lim")(0.8, 1.25 * most)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of its name's ending."""
    require_figure_path(path)
    with storage.replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:], dpi=150)


def require_figure_path(path: str | os.PathLike[str]) -> None:
    """Say before the work what would make drawing fail after it."""
    if Path(path).suffix not in FORMATS:
        raise ValueError(f"a figure's name must end in {', '.join(FORMATS)}, not {str(path)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("figures need matplotlib; pip install 'lowswitch[plot]'")
    storage.require_writable(path)
