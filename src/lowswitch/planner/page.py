"""A plan on one page, and as a figure: pure functions of what was forecast."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch import report
from lowswitch.tables import Table, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lowswitch.planner.forecast import Forecast, Plan


def answer(plan: Plan) -> dict[str, Any]:
    """What to run and what to expect, as JSON can hold it."""
    best = plan.default
    for rival in plan.rivals:
        if _paired(rival, best)[1] < 0:  # better beyond doubt
            best = rival
    low, half, high = best.interval()
    return {
        "use": str(best.algorithm),
        "after": [0, *best.dates.tolist()],
        "value": {"low": low.tolist(), "median": half.tolist(), "high": high.tolist()},
        "beats_present_after": best.sure_after,
        "beats_present": best.better.tolist(),
        "lost_an_episode": float(best.regret.mean()) / plan.episodes,
        "one_more_deployment": _worth(plan.one_more, plan.default, plan.episodes, plan.episodes),
        "more_episodes": float((plan.longer.values[:, -1] - plan.default.values[:, -1]).mean()),
    }


def written(plan: Plan, width: int | None = None) -> str:
    """The page, with lines of at most so many characters."""
    found, (H, S, A) = answer(plan), plan.size
    parts: list[str | Table] = [
        f"For {plan.episodes:,} episodes of a problem with H = {H}, S = {S}, A = {A}, from"
        f" {plan.source}; {plan.problems} problems tried.",
        f"Use {found['use']}.",
        "The value of what is deployed; 80 % of the problems lie in the interval:",
        _expected(found),
        _sure(found),
        f"One more deployment is worth {found['one_more_deployment']:+.4f} an episode;"
        f" 1,000 more episodes move the value in the end by {found['more_episodes']:+.4f}.",
        _compared(plan),
        _changes(plan),
    ]
    return page(parts, width)


def _expected(found: dict[str, Any]) -> Table:
    value = found["value"]
    rows = tuple(
        (
            f"{episode:,}",
            _digits(value["median"][i]),
            f"{_digits(value['low'][i])} to {_digits(value['high'][i])}",
            f"{found['beats_present'][i - 1]:.0%}" if i else "",
        )
        for i, episode in enumerate(found["after"])
    )
    return Table("", ("after episode", "value", "interval", "better than now"), rows)


def _digits(value: float) -> str:
    """A value to four digits, and no minus before a zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def _sure(found: dict[str, Any]) -> str:
    date = found["beats_present_after"]
    better = "is the new policy better than the present one in 95 % of the problems."
    if date is None:
        return f"At no date of this run {better}"
    return f"Only from episode {date:,} on {better}"


def _compared(plan: Plan) -> Table:
    rows = [(str(plan.default.algorithm), _lost(plan.default, plan.episodes), "")]
    for rival in plan.rivals:
        low, high = _paired(rival, plan.default)
        verdict = "no difference is seen on these problems"
        if low > 0 or high < 0:
            verdict = f"{low / plan.episodes:+.4f} to {high / plan.episodes:+.4f}"
        rows.append((str(rival.algorithm), _lost(rival, plan.episodes), verdict))
    header = ("algorithm", "lost an episode", "more than the default, 95 %")
    return Table("", header, tuple(rows))


def _changes(plan: Plan) -> str:
    """What would change the answer."""
    kept = plan.default.values[:, :1]
    present = float((plan.default.optimal - kept[:, 0]).mean())
    lost = float(plan.default.regret.mean()) / plan.episodes
    words = (
        f"The present policy loses {present:.4f} an episode. If yours loses less than"
        f" {lost:.4f}, changing nothing is better over these episodes."
    )
    if plan.source == "its size alone":
        words += " Logged episodes would narrow the intervals: give them instead of the size."
    return words


def _lost(forecast: Forecast, episodes: int) -> str:
    return report.mean_and_interval(forecast.regret / episodes)


def _paired(one: Forecast, other: Forecast) -> tuple[float, float]:
    """The 95 % interval of the mean difference in regret on the same problems."""
    difference = one.regret - other.regret
    mean, width = float(difference.mean()), report.half_width(difference)
    return mean - width, mean + width


def _worth(one: Forecast, other: Forecast, episodes: int, other_episodes: int) -> float:
    """How much more reward an episode has."""
    return float(other.regret.mean()) / other_episodes - float(one.regret.mean()) / episodes


def plot(plan: Plan, *, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the value of what is deployed against the episodes, with its interval."""
    figure = report.blank_figure(7, 4)
    axes = figure.subplots()
    report.dress(axes)
    for i, forecast in enumerate((plan.default, *plan.rivals)):
        times = np.concatenate([[0], forecast.dates, [plan.episodes]])
        low, half, high = (np.append(row, row[-1]) for row in forecast.interval())
        look = report.line_style(i)
        axes.step(times, half, where="post", label=str(forecast.algorithm), **look)
        if not i:
            axes.fill_between(times, low, high, step="post", alpha=0.2, color=look["color"])
    axes.set_xlabel("episodes")
    axes.set_ylabel("value of what is deployed")
    report.legend_below(figure, axes, columns=1, fontsize=8)
    if path is not None:
        report.save_figure(figure, path)
    return figure
