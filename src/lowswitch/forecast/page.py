"""A plan on one page, and as a figure: pure functions of the forecasts."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.show import report
from lowswitch.show.tables import Table, page
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lowswitch.forecast.forecasts import Forecast, Plan


ENOUGH = 0.5  # of the logged visits must be in states where several actions were tried
# of the problems of docs/numbers/meetings.json, how many ended within 5 % of the best policy with
# this many changes, in percent
CLOSE = {1: 58, 2: 79, 3: 82, 5: 84}
PROBLEMS = 73


def recommended(plan: Plan) -> Forecast:
    """The default, or a rival that is significantly better."""
    best = plan.default
    for rival in plan.rivals:
        if _paired(rival, best)[1] < 0:
            best = rival
    return best


def answer(plan: Plan) -> dict[str, Any]:
    """What to run and what to expect, as JSON can store it."""
    best = recommended(plan)
    low, half, high = best.interval()
    return {
        "use": str(best.algorithm),
        "after": [0, *best.dates.tolist()],
        "value": {"low": low.tolist(), "median": half.tolist(), "high": high.tolist()},
        "best_value": dict(zip(("low", "median", "high"), best.best_interval(), strict=True)),
        "beats_present_after": best.sure_after,
        "beats_present": best.better.tolist(),
        "lost_an_episode": float(best.regret.mean()) / plan.episodes,
        "one_more_deployment": _worth(plan.one_more, plan.default, plan.episodes, plan.episodes),
        "more_episodes": float((plan.longer.values[:, -1] - plan.default.values[:, -1]).mean()),
        "logs_can_tell": plan.compared >= ENOUGH and plan.paid,
    }


def written(plan: Plan, width: int | None = None) -> str:
    """The page, with lines of at most `width` characters."""
    found = answer(plan)
    parts: list[str | Table] = [
        f"For {plan.episodes:,} episodes of a problem with {_size(plan)}, from {plan.source};"
        f" {plan.problems} problems tried.",
        f"Use {found['use']}",  # without a full stop, which somebody would copy too
        f"Reward per episode of the deployed policy: the median of the problems, and the interval"
        f" that holds 80 % of them. {_first(plan)}",
        _expected(found),
        *_doubt(plan),
        _sure(found),
        f"With one more deployment, an episode would earn {_more(found['one_more_deployment'])} on"
        " average over the run. In a run of 1,000 more episodes, an episode by the last policy"
        f" would earn {_more(found['more_episodes'])}.",
        *_thumb(plan),
        "Lost per episode against the best policy, on average over the run; ± is a 95 % interval."
        f" {_tried(plan)}",
        _compared(plan),
        _changes(plan),
    ]
    return page(parts, width)


def _size(plan: Plan) -> str:
    """The size of the problem."""
    H, S, A = plan.size
    if plan.features:
        return f"{plan.features} features and {A} actions"
    return f"H = {H}, S = {S}, A = {A}"


def _tried(plan: Plan) -> str:
    """Introduce the algorithms that are compared with the default."""
    if plan.features:
        return "Beside the default: one policy at a time (members=1):"
    asked = [str(rival.algorithm) for rival in plan.rivals if "asked" in str(rival.algorithm)]
    words = "Beside the default: one policy at a time (members=1), and posterior sampling with a"
    words += " fixed prior (psrl)"
    return f"{words}, also as a board asks for it (asked):" if asked else f"{words}:"


def _first(plan: Plan) -> str:
    """Describe the policy that is deployed before anything is learned."""
    if plan.first == "given":
        return "The first policy is the present one, as it was given."
    if plan.first == "usual":
        return (
            "The first policy is what was played most often in the logged episodes, which is taken"
            " for the present one. If yours is another one, give it as initial=, or as --initial"
            " FILE on the command line."
        )
    if plan.first == "drawn":
        return (
            "Of the present policy only its reward per episode is known; in each problem the first"
            " policy is one that earns just that, and any share of it is right."
        )
    if plan.features:
        return (
            "Features and noise have a standard deviation of 1, and effects are small, middling or"
            " large beside the noise. The present policy is not known; until the first change, all"
            " actions are tried. Give yours as initial=."
        )
    return (
        "The present policy is not known: the default tries everything about equally often until"
        " its first change, and the others play the first allowed action everywhere. Give yours as"
        " initial=, or as --initial FILE on the command line."
    )


def _doubt(plan: Plan) -> list[str]:
    """Say what logged episodes cannot tell, if that is most of the answer."""
    if not plan.paid:
        return [
            "No reward was logged, so the forecast takes for granted that there is hardly any to"
            " earn. These logs cannot tell: rewards may be rare, or wait where nobody went. Plan"
            " from the size instead, with present_reward=0 or --present-reward 0."
        ]
    if plan.compared >= ENOUGH:
        return []
    return [
        f"These logs cannot tell what other actions would earn: only {plan.compared:.0%} of the"
        " logged visits are in states where several actions were tried. What is forecast rests on"
        " assumptions about actions that nobody tried, from no better than the usual one to much"
        " better. Logs in which some actions are chosen at random would tell more."
    ]


def _expected(found: dict[str, Any]) -> Table:
    value, best = found["value"], found["best_value"]
    dates = [f"after {episode:,}" for episode in found["after"][1:]]
    better = [f"{share:.0%}" for share in found["beats_present"]]
    rows = zip(
        ("at first", *dates, "at best"),
        (*value["median"], best["median"]),
        (*value["low"], best["low"]),
        (*value["high"], best["high"]),
        ("-", *better, "-"),
        strict=True,
    )
    header = ("episodes", "median", "80 % of the problems", "better than at first")
    return Table(
        "",
        header,
        tuple(
            (when, _digits(median), f"{_digits(low)} to {_digits(high)}", share)
            for when, median, low, high, share in rows
        ),
    )


def _digits(value: float) -> str:
    """A value to four digits, without a minus before zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def _more(difference: float) -> str:
    """A difference in words, to four digits."""
    if round(difference, 4) == 0:
        return "the same"
    return f"{abs(difference):.4f} {'more' if difference > 0 else 'less'}"


def _sure(found: dict[str, Any]) -> str:
    date = found["beats_present_after"]
    better = "is the new policy better than the first one in 95 % of the problems."
    if date is None:
        return f"At no date of this run {better}"
    return f"Only from episode {date:,} on {better}"


def _thumb(plan: Plan) -> list[str]:
    """What this many changes reached on problems for which the optimum is known."""
    changes = len(plan.default.dates)
    known = max((n for n in CLOSE if n <= changes), default=0)
    if plan.features or not known:
        return []
    return [
        f"A rule of thumb from {PROBLEMS} problems of the benchmark: with"
        f" {counted(known, 'change')}, few ended within 5 % of the best policy in {CLOSE[known]} %"
        " of them. Plan more if many steps must all be right before anything is earned."
    ]


def _compared(plan: Plan) -> Table:
    rows = [(_short(plan.default), _lost(plan.default, plan.episodes), "-")]
    for rival in plan.rivals:
        low, high = _paired(rival, plan.default)
        verdict = "no difference is seen"
        if low > 0 or high < 0:
            verdict = f"{low / plan.episodes:+.4f} to {high / plan.episodes:+.4f}"
        rows.append((_short(rival), _lost(rival, plan.episodes), verdict))
    header = ("algorithm", "lost per episode", "more than the default, 95 %")
    return Table("", header, tuple(rows))


def _changes(plan: Plan) -> str:
    """Say what would change the answer."""
    best = recommended(plan)
    kept, lost = best.optimal - best.values[:, 0], best.regret / plan.episodes
    words = f"The first policy loses {kept.mean():.4f} per episode,"
    words += f" the algorithm to use {lost.mean():.4f}"
    if plan.first == "lowest":
        earned = float(best.optimal.mean() - lost.mean())
        words += (
            f". A policy that earns more than {earned:.4f} needs no learning in these episodes."
        )
    else:
        gain, width = float((kept - lost).mean()), report.half_width(kept - lost)
        verdict = "learning earns more" if gain > 0 else "changing nothing earns more"
        if not abs(gain) > width:
            verdict = "no difference is seen between learning and changing nothing"
        words += f"; over these episodes {verdict} (by {gain:+.4f} ± {width:.4f}, 95 %)."
    if plan.source == "its size alone" and not plan.features:
        words += (
            " Say what the present policy earns per episode (present_reward=, or --present-reward)"
            " to narrow the intervals. Logged episodes, given instead of the size, narrow them"
            " more."
        )
    return words


def _short(forecast: Forecast) -> str:
    """The text of an algorithm without its dates, which the page already shows."""
    return re.sub(r"\d+(-\d+){2,}", "...", str(forecast.algorithm))


def _lost(forecast: Forecast, episodes: int) -> str:
    return report.mean_and_interval(forecast.regret / episodes)


def _paired(one: Forecast, other: Forecast) -> tuple[float, float]:
    """The 95 % interval of the mean difference in regret on the same problems."""
    difference = one.regret - other.regret
    mean, width = float(difference.mean()), report.half_width(difference)
    return mean - width, mean + width


def _worth(one: Forecast, other: Forecast, episodes: int, other_episodes: int) -> float:
    """The difference in reward per episode."""
    return float(other.regret.mean()) / other_episodes - float(one.regret.mean()) / episodes


def plot(plan: Plan, *, path: str | os.PathLike[str] | None = None) -> Figure:
    """Plot the value of the deployed policy against the episodes, with its interval."""
    figure = report.blank_figure(7, 4)
    axes = figure.subplots()
    report.dress(axes)
    for i, forecast in enumerate((plan.default, *plan.rivals)):
        times = np.concatenate([[0], forecast.dates, [plan.episodes]])
        low, half, high = (np.append(row, row[-1]) for row in forecast.interval())
        look = report.line_style(i)
        axes.step(times, half, where="post", label=_short(forecast), **look)
        if not i:
            axes.fill_between(times, low, high, step="post", alpha=0.2, color=look["color"])
    axes.set_xlabel("episodes")
    axes.set_ylabel("value of the deployed policy")
    report.legend_below(figure, axes, columns=1, fontsize=8)
    if path is not None:
        report.save_figure(figure, path)
    return figure
