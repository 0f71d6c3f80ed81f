"""Theorems 2 and 3: the regret of the fully adaptive learner, with logarithmically many
switches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch import report, theory
from lowswitch.algorithms.parts import Algorithm
from lowswitch.algorithms.recipes import (
    ucb2_bernstein,
    ucb2_hoeffding,
    ucb_bernstein,
    ucb_hoeffding,
)
from lowswitch.algorithms.schedules import UCB2
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import Check, Section, Table
from lowswitch.simulate import Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = 0.05  # c
PROBLEMS = {
    "RiverSwim": "riverswim:states=6,horizon=10",
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5",
    "random (20, 4, 10)": "random-mdp:states=20,actions=4,horizon=10",
}
LEARNERS = {
    "UCB-H": ucb_hoeffding,
    "UCB2-H": ucb2_hoeffding,
    "UCB-B": ucb_bernstein,
    "UCB2-B": ucb2_bernstein,
}
MOST_REGRET = 1.1  # UCB2 over its baseline
MOST_REGRET_EXPONENT = 0.6
MOST_SWITCH_EXPONENT = 0.3  # of UCB2 over the last decade
LEAST_FEWER = 1.5


def headline(lab: Lab) -> Section:
    """The four learners on one problem: the picture of the theorems."""
    name, text = next(iter(PROBLEMS.items()))
    results = {label: lab.runs(text, recipe(c=SCALE)) for label, recipe in LEARNERS.items()}
    rows = [
        row
        for base, label in (("UCB-H", "UCB2-H"), ("UCB-B", "UCB2-B"))
        for row in _headline_rows(results, base, label)
    ]
    some = results["UCB2-H"]
    size = f"K = {some.episodes:,} episodes, c = {SCALE}, {len(some.seeds)} seeds"
    return Section(
        name="headline",
        title="The theorems in one picture",
        claim=(
            "The learners that may change a row at every visit (UCB) and those with delayed updates"
            " (UCB2) lose the same reward; the switches of the former grow with K, those of the"
            " latter like log K."
        ),
        method=f"{name} ({text}), {size}.",
        checks=[],
        tables=[
            Table(
                f"{name}, {size}; means with 95 % intervals",
                ("learner", "regret", "against UCB", *_COSTS),
                rows,
            )
        ],
        figures={"headline": report.plot(results, title=name)},
        captions={
            "headline": "Mean over the seeds, and a band from the 10 % to the 90 % quantile."
        },
    )


_COSTS = ("local switches", "fewer", "deployments", "fewer")


def _headline_rows(results: Mapping[str, Runs], base: str, label: str) -> list[list[str]]:
    rows = []
    for name in (base, label):
        runs, other = results[name], results[base]
        row = [
            name,
            report.mean_and_interval(runs.regret),
            "" if name == base else f"{runs.regret.mean() / other.regret.mean() - 1:+.1%}",
        ]
        for cost in ("local_switches", "deployments"):
            many, few = getattr(other, cost).mean(), getattr(runs, cost).mean()
            row += [f"{few:,.0f}", "" if name == base else f"{many / few:.1f} x"]
        rows.append(row)
    return rows


def hoeffding(lab: Lab) -> Section:
    return _section(
        lab,
        name="ucb2-h",
        title="UCB2-H has the regret of UCB-H and logarithmically many switches (Theorem 2)",
        claim=(
            "With probability 1 - p the regret of Q-learning with UCB2-Hoeffding is O~(sqrt(H^4 S A"
            " T)), that of the fully adaptive UCB-H, and its local switching cost is O(H^3 S A"
            " log(K / A))."
        ),
        recipes=("UCB-H", ucb_hoeffding, "UCB2-H", ucb2_hoeffding),
    )


def bernstein(lab: Lab) -> Section:
    section = _section(
        lab,
        name="ucb2-b",
        title="UCB2-B has the regret of UCB-B and logarithmically many switches (Theorem 3)",
        claim=(
            "From T = Omega~(H^6 S^2 A^2) steps on, with probability 1 - p the regret of Q-learning"
            " with UCB2-Bernstein is O~(sqrt(H^3 S A T)), by sqrt(H) better than with Hoeffding,"
            " and the switching cost is as in Theorem 2."
        ),
        recipes=("UCB-B", ucb_bernstein, "UCB2-B", ucb2_bernstein),
    )
    return _with_gain(section, lab)


def _section(
    lab: Lab,
    *,
    name: str,
    title: str,
    claim: str,
    recipes: tuple[str, Callable[..., Algorithm], str, Callable[..., Algorithm]],
) -> Section:
    base_label, base, label, recipe = recipes
    results = {
        problem: {base_label: lab.runs(text, base(c=SCALE)), label: lab.runs(text, recipe(c=SCALE))}
        for problem, text in PROBLEMS.items()
    }
    checks = [
        check
        for problem, pair in results.items()
        for check in _checks(problem, pair[base_label], pair[label])
    ]
    rows = [row for problem, pair in results.items() for row in _rows(problem, pair, base_label)]
    numbers = {
        problem: {key: _numbers(runs) for key, runs in pair.items()}
        for problem, pair in results.items()
    }
    some = results["RiverSwim"][label]
    return Section(
        name=name,
        title=title,
        claim=claim,
        method=(
            f"{base_label} and {label} with c = {SCALE} on {len(PROBLEMS)} problems, K ="
            f" {some.episodes:,} episodes, {len(some.seeds)} seeds each, theory's eta and r*."
            " Regret is exact. An exponent is the slope of log cost against log K over the last"
            " decade of K; a cost that grows like log K has an exponent that falls towards 0."
        ),
        checks=checks,
        tables=[
            Table(
                "Costs after all episodes, means over the seeds with 95 % intervals", _HEADER, rows
            )
        ],
        figures={name: _with_bound(report.plot_grid(results), results, label)},
        captions={
            name: (
                "Costs along the runs: mean, and a band from the 10 % to the 90 % quantile of the"
                f" seeds. Dotted: the explicit bound on the local switches of {label}."
            )
        },
        remarks=[
            _difference(problem, pair[base_label], pair[label]) for problem, pair in results.items()
        ],
        numbers=numbers,
    )


def _difference(problem: str, base: Runs, runs: Runs) -> str:
    """How far the two regrets are apart, seed by seed, in words."""
    more = (runs.regret - base.regret) / base.regret.mean()
    half = report.half_width(more)
    noise = "within noise" if abs(more.mean()) <= half else "small, but more than noise"
    return (
        f"{problem}: the delayed learner's regret differs by {more.mean():+.2%} ± {half:.2%} (95 %,"
        f" seed by seed), {noise}."
    )


def _with_bound(figure: Figure, results: Mapping[str, Mapping[str, Runs]], label: str) -> Figure:
    """Draw the explicit bound into each panel of local switches, the second of three in a row."""
    for axes, pair in zip(figure.axes[1::3], results.values(), strict=True):
        runs = pair[label]
        size = {"H": runs.horizon, "S": runs.states, "A": runs.actions}
        bounds = [
            theory.switch_bound(**size, K=int(K), schedule=UCB2()) for K in runs.curves.episodes
        ]
        axes.plot(runs.curves.episodes, bounds, ":", color="black")
    return figure


def exponent(episodes: np.ndarray, costs: np.ndarray, decades: float = 1.0) -> float:
    """The slope of log cost against log K over the last decades of K."""
    late = episodes >= episodes[-1] / 10**decades
    return float(np.polyfit(np.log(episodes[late]), np.log(costs[late]), 1)[0])


def _exponent_of(runs: Runs, name: str) -> float:
    return exponent(runs.curves.episodes, getattr(runs.curves, name).mean(axis=0))


def _checks(problem: str, base: Runs, runs: Runs) -> list[Check]:
    ratio = runs.regret.mean() / base.regret.mean()
    growth = _exponent_of(runs, "regret")
    few, many = _exponent_of(runs, "local_switches"), _exponent_of(base, "local_switches")
    bound = theory.switch_bound(
        H=runs.horizon, S=runs.states, A=runs.actions, K=runs.episodes, schedule=UCB2()
    )
    fewer = base.local_switches.mean() / runs.local_switches.mean()
    return [
        Check(
            f"{problem}: regret at most {MOST_REGRET} times the baseline's",
            f"{ratio:.3f}",
            bool(ratio <= MOST_REGRET),
        ),
        Check(
            f"{problem}: regret grows with an exponent of at most {MOST_REGRET_EXPONENT}",
            f"{growth:.2f}",
            growth <= MOST_REGRET_EXPONENT,
        ),
        Check(
            f"{problem}: local switches grow with an exponent of at most {MOST_SWITCH_EXPONENT},"
            " and smaller than the baseline's",
            f"{few:.2f}, baseline {many:.2f}",
            few <= MOST_SWITCH_EXPONENT and few < many,
        ),
        Check(
            f"{problem}: at least {LEAST_FEWER} times fewer local switches",
            f"{fewer:.1f}",
            bool(fewer >= LEAST_FEWER),
        ),
        Check(
            f"{problem}: no run above the explicit bound H S A (tau(r*) + log((K + A) / A) / log(1"
            " + eta))",
            f"at most {runs.local_switches.max():,} of {bound:,.0f}",
            bool((runs.local_switches <= bound).all()),
        ),
    ]


_HEADER = (
    "problem",
    "learner",
    "regret",
    "local switches",
    "fewer",
    "deployments",
    "regret exponent",
    "switch exponent",
)


def _rows(problem: str, pair: Mapping[str, Runs], base_label: str) -> list[list[str]]:
    base = pair[base_label]
    return [
        [
            problem,
            label,
            report.mean_and_interval(runs.regret),
            report.mean_and_interval(runs.local_switches),
            (
                ""
                if runs is base
                else f"{base.local_switches.mean() / runs.local_switches.mean():.1f} x"
            ),
            report.mean_and_interval(runs.deployments),
            f"{_exponent_of(runs, 'regret'):.2f}",
            f"{_exponent_of(runs, 'local_switches'):.2f}",
        ]
        for label, runs in pair.items()
    ]


def _numbers(runs: Runs) -> dict[str, Any]:
    names = ("regret", "local_switches", "deployments")
    exponents = {f"{name}_exponent": _exponent_of(runs, name) for name in names}
    return runs.to_dict() | exponents


# ---- the gain of Bernstein as H grows ------------------------------------------------------------

HORIZONS = (5, 10, 20, 40)


def _with_gain(section: Section, lab: Lab) -> Section:
    """Add how much Bernstein gains over Hoeffding as H grows."""
    episodes = lab.size.episodes // 10
    gains = []
    for H in HORIZONS:
        text = f"random-mdp:states=3,actions=2,horizon={H}"
        h, b = (
            lab.runs(text, recipe(c=SCALE), episodes=episodes)
            for recipe in (ucb2_hoeffding, ucb2_bernstein)
        )
        gains.append((H, h, b, float(h.regret.mean() / b.regret.mean())))
    ratios = [gain for *_, gain in gains]
    check = Check(
        f"Bernstein's regret is below Hoeffding's for every H in {HORIZONS}, random (3, 2, H)",
        ", ".join(f"{ratio:.2f} x" for ratio in ratios),
        min(ratios) > 1,
    )
    rows = [
        [
            f"{H}",
            report.mean_and_interval(h.regret),
            report.mean_and_interval(b.regret),
            f"{gain:.2f}",
        ]
        for H, h, b, gain in gains
    ]
    title = f"Regret of UCB2-H over that of UCB2-B as H grows, random (3, 2, H), K = {episodes:,}"
    return Section(
        **{
            name: getattr(section, name)
            for name in ("name", "title", "claim", "method", "figures", "captions")
        },
        remarks=[
            *section.remarks,
            (
                "The gain of sqrt(H) is asymptotic. At a fixed K the ratio falls as H grows,"
                " because the lower-order term sqrt(H^7 S A) iota / t of the Bernstein bonus, and"
                " with it the burn-in of about H^6 S^2 A^2 steps, grows faster."
            ),
        ],
        checks=[*section.checks, check],
        tables=[*section.tables, Table(title, ("H", "UCB2-H", "UCB2-B", "ratio"), rows)],
        numbers=section.numbers | {"gain": {str(H): gain for H, *_, gain in gains}},
    )
