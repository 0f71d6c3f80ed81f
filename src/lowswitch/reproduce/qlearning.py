"""Theorems 2 and 3: the regret of the fully adaptive learner, and logarithmically many switches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowswitch import plotting, report, theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import (
    ucb2_bernstein,
    ucb2_hoeffding,
    ucb_bernstein,
    ucb_hoeffding,
)
from lowswitch.algorithms.schedules import UCB2
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import Check, Section, Table, exponent_of
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
    baselines = {"UCB-H": "UCB-H", "UCB2-H": "UCB-H", "UCB-B": "UCB-B", "UCB2-B": "UCB-B"}
    rows = [_headline_row(results, label, base) for label, base in baselines.items()]
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
        figures={"headline": plotting.plot(results, title=name)},
        captions={
            "headline": "Mean over the seeds, and a band from the 10 % to the 90 % quantile."
        },
    )


_COSTS = ("local switches", "fewer", "deployments", "fewer")


def _headline_row(results: Mapping[str, Runs], label: str, base: str) -> list[str]:
    runs, other = results[label], results[base]
    more = runs.regret.mean() / other.regret.mean() - 1
    row = [label, report.mean_and_interval(runs.regret), "" if label == base else f"{more:+.1%}"]
    for cost in ("local_switches", "deployments"):
        many, few = getattr(other, cost).mean(), getattr(runs, cost).mean()
        row += [f"{few:,.0f}", "" if label == base else f"{many / few:.1f} x"]
    return row


def hoeffding(lab: Lab) -> Section:
    """Theorem 2, measured."""
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
    """Theorem 3, measured, and how much Bernstein gains over Hoeffding."""
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
    rows = [
        _row(problem, key, runs, pair[base_label])
        for problem, pair in results.items()
        for key, runs in pair.items()
    ]
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
            Table.of("Costs after all episodes, means over the seeds with 95 % intervals", rows)
        ],
        figures={name: _with_bound(plotting.plot_grid(results), results, label)},
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
        episodes = pair[label].curves.episodes
        bounds = [_switch_bound(pair[label], int(K)) for K in episodes]
        axes.plot(episodes, bounds, ":", color="black")
    return figure


def _switch_bound(runs: Runs, episodes: int) -> float:
    size = {"H": runs.horizon, "S": runs.states, "A": runs.actions}
    return theory.switch_bound(**size, K=episodes, schedule=UCB2())


def _checks(problem: str, base: Runs, runs: Runs) -> list[Check]:
    ratio = runs.regret.mean() / base.regret.mean()
    few, many = (exponent_of(each.curves, "local_switches") for each in (runs, base))
    bound = _switch_bound(runs, runs.episodes)
    fewer = base.local_switches.mean() / runs.local_switches.mean()
    return [
        Check.at_most(
            f"{problem}: regret at most {MOST_REGRET} times the baseline's",
            ratio,
            MOST_REGRET,
            "{:.3f}",
        ),
        Check.at_most(
            f"{problem}: regret grows with an exponent of at most {MOST_REGRET_EXPONENT}",
            exponent_of(runs.curves, "regret"),
            MOST_REGRET_EXPONENT,
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


def _row(problem: str, label: str, runs: Runs, base: Runs) -> dict[str, str]:
    fewer = base.local_switches.mean() / runs.local_switches.mean()
    return {
        "problem": problem,
        "learner": label,
        "regret": report.mean_and_interval(runs.regret),
        "local switches": report.mean_and_interval(runs.local_switches),
        "fewer": "" if runs is base else f"{fewer:.1f} x",
        "deployments": report.mean_and_interval(runs.deployments),
        "regret exponent": f"{exponent_of(runs.curves, 'regret'):.2f}",
        "switch exponent": f"{exponent_of(runs.curves, 'local_switches'):.2f}",
    }


def _numbers(runs: Runs) -> dict[str, Any]:
    names = ("regret", "local_switches", "deployments")
    exponents = {f"{name}_exponent": exponent_of(runs.curves, name) for name in names}
    return runs.to_dict() | exponents


# ---- the gain of Bernstein as H grows ------------------------------------------------------------

HORIZONS = (5, 10, 20, 40)


def _with_gain(section: Section, lab: Lab) -> Section:
    """Add how much Bernstein gains over Hoeffding as H grows."""
    episodes = lab.effort.episodes // 10
    gains: dict[int, float] = {}
    rows = []
    for H in HORIZONS:
        text = f"random-mdp:states=3,actions=2,horizon={H}"
        h, b = (
            lab.runs(text, recipe(c=SCALE), episodes=episodes).regret
            for recipe in (ucb2_hoeffding, ucb2_bernstein)
        )
        gains[H] = float(h.mean() / b.mean())
        costs = {"UCB2-H": report.mean_and_interval(h), "UCB2-B": report.mean_and_interval(b)}
        rows.append({"H": f"{H}", **costs, "ratio": f"{gains[H]:.2f}"})
    check = Check(
        f"Bernstein's regret is below Hoeffding's for every H in {HORIZONS}, random (3, 2, H)",
        ", ".join(f"{gain:.2f} x" for gain in gains.values()),
        min(gains.values()) > 1,
    )
    title = f"Regret of UCB2-H over that of UCB2-B as H grows, random (3, 2, H), K = {episodes:,}"
    return replace(
        section,
        remarks=[
            *section.remarks,
            (
                "The gain of sqrt(H) is asymptotic. At a fixed K the ratio falls as H grows,"
                " because the lower-order term sqrt(H^7 S A) iota / t of the Bernstein bonus, and"
                " with it the burn-in of about H^6 S^2 A^2 steps, grows faster."
            ),
        ],
        checks=[*section.checks, check],
        tables=[*section.tables, Table.of(title, rows)],
        numbers=section.numbers | {"gain": {str(H): gain for H, gain in gains.items()}},
    )
