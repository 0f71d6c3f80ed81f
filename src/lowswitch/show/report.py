"""Tables and figures of results: pure functions of data."""

from __future__ import annotations

import csv
import importlib.util
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lowswitch.checks import require_word, shown
from lowswitch.io import storage
from lowswitch.show.bands import Band, band_of
from lowswitch.show.tables import Facts, Table, chosen_names
from lowswitch.show.text import short
from lowswitch.theory import rounds_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

    from lowswitch.concurrent import ConcurrentRun
    from lowswitch.runs.results import Runs

# Okabe and Ito's colours, which all eyes can tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")

_STUCK = 3.0  # a worst seed above this multiple of the median is named
_OPACITY = 0.2  # of a band

FORMATS = (".png", ".svg", ".pdf")
FRAMES = ("pandas", "polars")


def half_width(values: np.ndarray, confidence: float = 0.95) -> float:
    """Half the width of Student's confidence interval for the mean."""
    size = len(values)
    if size < 2:
        return math.nan
    from scipy.special import stdtrit

    return float(stdtrit(size - 1, (1 + confidence) / 2) * values.std(ddof=1) / math.sqrt(size))


def mean_and_interval(values: np.ndarray) -> str:
    """`mean ± half width`, both to the interval's precision; the mean alone if nothing varies."""
    mean, half = float(values.mean()), half_width(values)
    if math.isnan(mean):
        return "-"
    spread = 0.0 if math.isnan(half) else half
    digits = 0 if max(abs(mean), spread) >= 100 or (spread == 0 and mean.is_integer()) else 2
    if spread == 0:
        return f"{mean:,.{digits}f}"
    if spread < 0.5 * 10**-digits:  # an interval of 0 would be wrong
        digits = -math.floor(math.log10(spread))
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def means(**costs: np.ndarray) -> str:
    """The means in words, such as `regret 1,796, local switches 7,008`."""
    texts = {
        name.replace("_", " "): mean_and_interval(np.array([values.mean()]))
        for name, values in costs.items()
    }
    return ", ".join(f"{name} {'unknown' if text == '-' else text}" for name, text in texts.items())


def summary(runs: Mapping[str, Runs], columns: Sequence[str] | None = None) -> Table:
    """A table with a line for each of the runs and 95 % intervals over the seeds.

    Runs of different length, or with other numbers of seeds, have both in columns of their own.
    """
    mixed = _differ(runs)
    rows = [
        [
            label,
            *((f"{run.episodes:,}", f"{len(run.seeds)}") if mixed else ()),
            mean_and_interval(run.regret),
            _value(run.regret.mean() / run.episodes),
            _value(run.earned_per_episode.mean()),
            _value(run.last_value.mean()),
            mean_and_interval(run.local_switches),
            mean_and_interval(run.deployments),
            short(run.steps_per_second),
        ]
        for label, run in runs.items()
    ]
    header = [
        *("algorithm", *(("episodes", "seeds") if mixed else ())),
        *(next(iter(runs.values())).measure, "per episode", "earned", "last policy"),
        *("local switches", "deployments", "steps/s"),
    ]
    table = Table(heading(runs) + _notes(runs), tuple(header), tuple(map(tuple, rows)))
    return table.chosen(columns)


def _differ(runs: Mapping[str, Runs]) -> bool:
    """Whether the runs differ in their episodes or in the number of their seeds."""
    return len({(run.episodes, len(run.seeds)) for run in runs.values()}) > 1


def _notes(runs: Mapping[str, Runs]) -> str:
    """Lines below the heading about what the means do not show."""
    lines = []
    for label, run in runs.items():
        middle, worst = float(np.median(run.regret)), int(np.argmax(run.regret))
        if len(run.seeds) > 2 and run.regret[worst] > _STUCK * middle > 0:
            times = run.regret[worst] / middle
            lines.append(
                f"{label}: seed {run.seeds[worst]} has {times:,.1f} times the median {run.measure}"
                f" ({run.regret[worst]:,.5g} and {middle:,.5g})"
            )
    mixtures = [label for label, run in runs.items() if run.policy.ndim == 4]
    if mixtures and len(mixtures) < len(runs):
        lines.append(
            f"local switches of {', '.join(mixtures)} are rows in which the mixture changed; of the"
            " others, rows whose action changed"
        )
    return "".join(f"\n{line}" for line in lines)


def heading(runs: Mapping[str, Runs]) -> str:
    """The size of the problem and, where all runs are alike, of the experiment, in words."""
    run, alike = next(iter(runs.values())), not _differ(runs)
    alone = alike and len(run.seeds) == 1
    seeds = "one seed" if alone else f"{len(run.seeds)} seeds"
    means = "" if alone else "; means, ± is a 95 % interval"
    played = f"; {run.episodes:,} episodes, {seeds}" if alike else ""
    return f"{size_of(run)}{played}{means}{_baselines(runs)}"


def seeds_in_words(run: Runs) -> str:
    """The seeds of runs, shortened if there are many."""
    return shown(run.seeds.tolist())


def size_of(run: Runs) -> str:
    """The size of the problem in words."""
    size = f"d = {run.features}" if run.features else f"S = {run.states}"
    return f"{size}, A = {run.actions}, H = {run.horizon}"


def named_summary(
    name: str, runs: Mapping[str, Runs], columns: Sequence[str] | None = None
) -> Table:
    """The table of runs on one problem, whose heading begins with the name of the problem.

    A problem without a name is called by its size, which is then not said twice.
    """
    table, size = summary(runs, columns), size_of(next(iter(runs.values())))
    if name.startswith(size):
        return table.titled(name + table.heading.removeprefix(size))
    return table.titled(f"{name}: {table.heading}")


def _baselines(runs: Mapping[str, Runs]) -> str:
    """A line with the values of the reference policies per episode; empty if all are unknown.

    Runs whose values differ have a range: a mixture and a single policy begin differently.
    """
    values = {
        "optimal": [run.optimal_value for run in runs.values()],
        "initial policy": [run.first_value for run in runs.values()],
        "uniform random": [run.uniform_value for run in runs.values()],
    }
    said = ", ".join(f"{name} {_range(found)}" for name, found in values.items() if _range(found))
    return f"\nvalue per episode: {said}" if said else ""


def _range(values: Sequence[float]) -> str:
    """The known values, from the least to the largest; empty if none is known."""
    known = [value for value in values if not math.isnan(value)]
    ends = [_value(end) for end in (min(known), max(known))] if known else []
    return " to ".join(dict.fromkeys(ends))


def _value(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def long_form(several: Mapping[str, Runs]) -> dict[str, np.ndarray]:
    """The curves of runs as columns: a line for each algorithm, seed and number of episodes.

    A regret that is not exact has a column of its own name, as in `Runs.to_dict`; where runs differ
    in that, a column is NaN for the others.
    """
    measures = list(dict.fromkeys(runs.measure for runs in several.values()))
    columns: dict[str, list[np.ndarray]] = {}
    for label, runs in several.items():
        curves, seeds = runs.curves, runs.seeds
        marks = len(curves.episodes)
        parts = {
            "algorithm": np.full(len(seeds) * marks, label),
            "seed": np.repeat(seeds, marks),
            "episode": np.tile(curves.episodes, len(seeds)),
            **{
                name.replace(" ", "_"): curves.regret.ravel()
                if name == runs.measure
                else np.full(len(seeds) * marks, math.nan)
                for name in measures
            },
            "local_switches": curves.local_switches.ravel(),
            "deployments": curves.deployments.ravel(),
        }
        for name, part in parts.items():
            columns.setdefault(name, []).append(part)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _chosen(known: dict[str, np.ndarray], columns: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The columns of these names, in the order of the names."""
    return {name: known[name] for name in chosen_names(known, columns)}


def to_dataframe(
    several: Mapping[str, Runs],
    library: str | None = None,
    columns: Sequence[str] | None = None,
) -> Any:
    """The long form as a data frame of pandas or of polars, whichever is named or there."""
    return frame_of(long_form(several), library, columns)


def frame_of(
    known: dict[str, np.ndarray], library: str | None = None, columns: Sequence[str] | None = None
) -> Any:
    """Columns as a data frame of pandas or of polars, whichever is named or there."""
    if library is not None:
        require_word("library", library, FRAMES)
    wanted = FRAMES if library is None else (library,)
    there = [name for name in wanted if importlib.util.find_spec(name)]
    if not there:
        raise ModuleNotFoundError(
            f"a data frame needs {' or '.join(wanted)}, not installed here: pip install"
            f" {wanted[0]}; to_csv needs neither pandas nor polars",
            name=wanted[0],
        )
    return importlib.import_module(there[0]).DataFrame(_chosen(known, columns))


def to_csv(
    several: Mapping[str, Runs],
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
) -> None:
    """Write the long form as comma-separated values, whole or not at all."""
    write_columns(long_form(several), path, columns)


def write_columns(
    known: dict[str, np.ndarray],
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
) -> None:
    """Write columns as comma-separated values, whole or not at all."""
    chosen = _chosen(known, columns)
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(chosen)
    writer.writerows(zip(*(column.tolist() for column in chosen.values()), strict=True))
    storage.write_text(path, file.getvalue())


def rounds_summary(run: ConcurrentRun) -> Facts:
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
        run.measure: regret,
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
    return Facts(lines)


def _problem(run: ConcurrentRun) -> str:
    value = "" if math.isnan(run.optimal_value) else f", optimal value {run.optimal_value:.4f}"
    return f"{size_of(run)}{value}"


def versus(runs: Mapping[str, Runs], baselines: Mapping[str, str]) -> Table:
    """The costs of each learner beside the costs of its every-visit baseline."""
    rows = []
    for label, run in runs.items():
        cells = [label, mean_and_interval(run.regret)]
        other = runs[baselines[label]] if label in baselines else None
        cells.append("" if other is None else f"{run.regret.mean() / other.regret.mean() - 1:+.1%}")
        for name in ("local_switches", "deployments"):
            few = getattr(run, name).mean()
            many = None if other is None else getattr(other, name).mean()
            cells += [f"{few:,.0f}", "" if many is None else f"{many / few:,.1f} x fewer"]
        rows.append(tuple(cells))
    costs = ("regret", "vs every visit", "local switches", "", "deployments", "")
    return Table(heading(runs), ("algorithm", *costs), tuple(rows))


def draw_band(
    axes: Axes,
    times: np.ndarray,
    curves: np.ndarray,
    i: int,
    label: str,
    *,
    steps: bool = False,
    band: Band = "quantiles",
    plain: bool = False,
) -> None:
    """Draw curves [runs, C] as the i-th line, which is their mean, and a band around it.

    What changes at single episodes may be drawn in steps. plain: the line has the colour that is
    next in the cycle of the Axes, and nothing else is chosen.
    """
    style = {} if plain else line_style(i) | {"linewidth": 1.6}
    drawn: Literal["steps-post", "default"] = "steps-post" if steps else "default"
    [line] = axes.plot(times, curves.mean(axis=0), label=label, drawstyle=drawn, **style)
    draw_range(axes, times, band_of(curves, band), line.get_color(), steps=steps)


def draw_range(
    axes: Axes,
    times: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    colour: Any,
    *,
    steps: bool = False,
) -> None:
    """Fill the range between two curves."""
    step: Literal["post"] | None = "post" if steps else None
    axes.fill_between(times, *ends, alpha=_OPACITY, linewidth=0, color=colour, step=step)


def name_band(axes: Axes, words: str) -> None:
    """Let the legend of a panel say what its bands are."""
    axes.fill_between([], [], [], alpha=_OPACITY, linewidth=0, color="gray", label=words)


def line_style(i: int) -> dict[str, Any]:
    """The colour and the dashes of the i-th line: ours, or from a style that is set."""
    import matplotlib

    cycle = matplotlib.rcParams["axes.prop_cycle"]
    if cycle != matplotlib.rcParamsDefault["axes.prop_cycle"]:
        styles = list(cycle)
        return {"color": COLOURS[i % len(COLOURS)], **styles[i % len(styles)]}
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def positive(values: Any) -> np.ndarray:
    """The values that a logarithmic axis can show, and NaN for the others."""
    return np.where(np.asarray(values) > 0, values, np.nan)


def blank_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches that makes room for drawings beside its panels."""
    from lowswitch.show.notebook import ShownFigure

    return ShownFigure(figsize=(width, height), layout="constrained")


def legend_below(figure: FigureBase, axes: Axes, *, columns: int, **options: Any) -> None:
    """Draw the legend of one panel below all of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, **options
    )


def dress(axes: Axes, *, log: str = "", plain: bool = False) -> None:
    """Give a panel the look of all: a light grid, no box, and logarithmic axes where asked for.

    plain: leave grid and box as they are.
    """
    for name in log:
        getattr(axes, f"set_{name}scale")("log")
    if plain:
        return
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
