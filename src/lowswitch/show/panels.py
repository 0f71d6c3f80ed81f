"""Single panels of a figure: the curves of a cost, guide lines, and paired ratios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from lowswitch.checks import require_word
from lowswitch.envs.simulator import LOSS
from lowswitch.show import report
from lowswitch.show.bands import WORDS, Band, paired_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lowswitch.runs.results import Runs

Cost = Literal["regret", "local_switches", "deployments"]
Against = Literal["episodes", "steps", "local_switches", "deployments"]
Scale = Literal["log", "logx", "logy", "linear"]
Guide = Literal["sqrt", "log"]

# what is drawn, with its title and its unit; a regret is called what it is, see `words_of`
PANELS = {
    "regret": ("regret", "regret (reward lost so far)"),
    "local_switches": ("local switches", "row changes so far"),
    "deployments": ("deployments", "policy changes so far"),
}
_UNITS = {  # of what stands in place of an exact regret
    "Monte-Carlo regret": "Monte-Carlo regret (sampled reward lost so far)",
    LOSS: "Monte-Carlo loss (largest return less sampled reward)",
}
# lines that a regret may be compared with: their labels, and how they grow
GUIDES: dict[str, tuple[str, Any]] = {
    "sqrt": ("grows like √K", np.sqrt),
    "log": ("grows like log K", np.log),
}
RATIO_BAND = "band: 95 % paired bootstrap"
BANDS = {kind: f"band: {words}" for kind, words in WORDS.items()}  # what legends call them
_AXES = {"log": "xy", "logx": "x", "logy": "y", "linear": ""}  # that are logarithmic


class Look(NamedTuple):
    """How the panels of a figure look."""

    x: Against = "episodes"
    scale: Scale = "log"
    band: Band = "quantiles"
    guides: tuple[Guide, ...] = ()
    ratio_to: str | None = None

    @classmethod
    def of(cls, x: Any, scale: Any, band: Any, guides: Any, ratio_to: str | None) -> Look:
        """The look, or an error that names the words that are known."""
        require_word("x", x, get_args(Against))
        require_word("scale", scale, get_args(Scale))
        require_word("band", band, get_args(Band))
        several = (guides,) if isinstance(guides, str) else tuple(guides)
        for guide in several:
            require_word("guides", guide, get_args(Guide))
        return cls(x, scale, band, several, ratio_to)

    @property
    def is_over_time(self) -> bool:
        """Whether costs are drawn against episodes or steps, and not against another cost."""
        return self.x in ("episodes", "steps")

    def times(self, run: Runs) -> np.ndarray:  # [C]
        """Where the points of the curves of a run lie."""
        if not self.is_over_time:
            times: np.ndarray = getattr(run.curves, self.x).mean(axis=0)
            return times
        return run.curves.episodes * (run.horizon if self.x == "steps" else 1)


def draw_panel(
    axes: Axes,
    runs: Mapping[str, Runs],
    name: str,
    look: Look,
    labels: Sequence[str],
    *,
    plain: bool = False,
) -> None:
    """Draw a cost of runs; a label has the same colour in all panels, by its place in `labels`.

    plain: the Axes are somebody's own, and keep their colours, grid and frame.
    """
    for label, run in runs.items():
        curves, band = getattr(run.curves, name), look.band if look.is_over_time else "none"
        steps = name != "regret" and look.is_over_time
        times, i = look.times(run), labels.index(label)
        report.draw_band(axes, times, curves, i, label, steps=steps, band=band, plain=plain)
    if name == "regret" and look.is_over_time:
        _draw_guides(axes, runs.values(), look)
    _name_band(axes, runs, look)
    drawn = any(np.nanmax(getattr(run.curves, name), initial=0) > 0 for run in runs.values())
    wanted = _AXES[look.scale]
    report.dress(axes, log=wanted if drawn else wanted.replace("y", ""), plain=plain)


def _name_band(axes: Axes, runs: Mapping[str, Runs], look: Look) -> None:
    """Say in the legend what the bands are, if there are any."""
    drawn = any(len(run.seeds) > 1 for run in runs.values())
    if look.is_over_time and look.band in BANDS and drawn:
        report.name_band(axes, BANDS[look.band])


def _draw_guides(axes: Axes, runs: Any, look: Look) -> None:
    """Draw lines that grow like √K or log K, through the least regret at the end."""
    ends = [(float(run.curves.regret[:, -1].mean()), run) for run in runs]
    known = [(end, run) for end, run in ends if end > 0]
    if not known:
        return
    end, run = min(known, key=lambda pair: pair[0])
    times, episodes = look.times(run), run.curves.episodes
    for name, dashes in zip(look.guides, ((0, (1, 1)), (0, (4, 2))), strict=False):
        words, grows = GUIDES[name]
        shape = report.positive(grows(episodes))  # log 1 is 0
        line = end * shape / shape[-1]
        axes.plot(times, line, color="gray", linewidth=1.0, linestyle=dashes, label=words)


def words_of(name: str, runs: Iterable[Runs]) -> tuple[str, str]:
    """The title of a cost and its unit; a regret that is not exact is called by its own name."""
    measures = list(dict.fromkeys(run.measure for run in runs))
    if name != "regret" or measures == ["regret"]:
        return PANELS[name]
    units = [_UNITS.get(measure, PANELS["regret"][1]) for measure in measures]
    return " and ".join(measures), "\n".join(units)


def ratio_of_means(
    run: Runs, base: Runs, name: str
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:  # [C], ([C], [C])
    """The ratio of the mean costs of two runs with the same noise, and its 95 % interval.

    The interval resamples the seeds, each with both of its runs. NaN where a mean is not above 0.
    """
    above, below = (getattr(one.curves, name) for one in (run, base))
    line = report.positive(above.mean(axis=0)) / report.positive(below.mean(axis=0))
    return line, paired_band(above, below)


def draw_ratio(
    axes: Axes,
    runs: Mapping[str, Runs],
    name: str,
    look: Look,
    labels: Sequence[str],
    *,
    plain: bool = False,
) -> None:
    """Draw the mean cost of each run divided by the mean cost of the run `look.ratio_to`."""
    base_label = checked_base(runs, look)
    base = runs[base_label]
    if name == "regret" and LOSS in (run.measure for run in runs.values()):
        raise ValueError(
            "these runs have a Monte-Carlo loss, whose zero is the largest return there can be,"
            " so a ratio of losses says nothing about regret; give the Simulator its"
            " optimal_value=, or"
            ' draw another cost, such as what="deployments"'
        )
    for label, run in runs.items():
        if label == base_label:
            continue
        _require_paired(runs, label, base_label)
        style = {} if plain else report.line_style(labels.index(label)) | {"linewidth": 1.6}
        times, (ratio, band) = look.times(run), ratio_of_means(run, base, name)
        [line] = axes.plot(times, ratio, label=label, **style)
        if look.band != "none":
            report.draw_range(axes, times, band, line.get_color())
    axes.axhline(1.0, color="gray", linewidth=1.0)
    axes.set_ylabel(f"mean {words_of(name, runs.values())[0]} relative to {base_label}")
    if look.band != "none" and len(base.seeds) > 1:
        report.name_band(axes, RATIO_BAND)
    report.dress(axes, log=_AXES[look.scale].replace("y", ""), plain=plain)


def _require_paired(runs: Mapping[str, Runs], *labels: str) -> None:
    """Refuse two runs that did not meet the same noise."""
    run, base = (runs[label] for label in labels)
    if not (np.array_equal(run.seeds, base.seeds) and run.episodes == base.episodes):
        each = (
            f'"{label}" has {one.episodes:,} episodes and the seeds {report.seeds_in_words(one)}'
            for label, one in zip(labels, (run, base), strict=True)
        )
        raise ValueError(
            f"ratios need runs with the same episodes and seeds: {', and '.join(each)}; run both"
            " alike"
        )


def checked_base(runs: Mapping[str, Runs], look: Look) -> str:
    """The label that ratios are taken to, or an error that names the labels."""
    if not look.is_over_time:
        raise ValueError(f'ratios are drawn against episodes or steps, not x="{look.x}"')
    require_word("ratio_to", look.ratio_to, tuple(runs))
    assert look.ratio_to is not None
    return look.ratio_to
