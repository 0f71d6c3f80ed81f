"""Theorems 2 and 3: the regret of the fully adaptive learner, and logarithmically many switches, at
the scale of the proof and at a practical one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import (
    ucb2_bernstein,
    ucb2_hoeffding,
    ucb_bernstein,
    ucb_hoeffding,
)
from lowswitch.algorithms.schedules import UCB2
from lowswitch.reproduce.gain import with_gain
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import PageTable, Section, exponent, exponent_of
from lowswitch.runs.results import Runs
from lowswitch.show import plotting, report
from lowswitch.show.text import span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = 0.05  # c, far below the 1 of the proofs
PROBLEMS = {
    "RiverSwim": "riverswim:states=6,horizon=10",
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5",
    "random (20, 4, 10)": "random-mdp:states=20,actions=4,horizon=10",
}
ONE_STATE = {  # small enough for the theorems to bite at c = 1: two arms, 0.012 apart
    f"one state, H = {H}": f"random-mdp:states=1,actions=2,horizon={H},seed=35,reward_law=bernoulli"
    for H in (1, 2)
}
LEARNERS: dict[str, Callable[..., Algorithm]] = {
    "UCB-H": ucb_hoeffding,
    "UCB2-H": ucb2_hoeffding,
    "UCB-B": ucb_bernstein,
    "UCB2-B": ucb2_bernstein,
}
MOST_REGRET = 1.5  # UCB2's over that of its baseline; the theorems say: the same order
MOST_REGRET_EXPONENT = 0.6  # over the last decade; sqrt(K) has 0.5
SWITCH_SLACK = 0.1  # how far the exponent of switches may be above that of log((K + A) / A)
LEARNED = 0.5  # the most regret, over what the first policy would have lost


Results = Mapping[str, Mapping[str, Runs]]  # by problem and learner


SCENES = {  # the title of each, and whether the theorems are proved there
    "practical": (f"c = {SCALE}", False),  # first: the documentation shows its table
    "one state": ("The scale of the proof, one state", True),
    "proof": ("The scale of the proof, on the same problems as c = 0.05", True),
}


def problems_of(scene: str) -> Mapping[str, str]:
    """The problems of a scene, by name."""
    return ONE_STATE if scene == "one state" else PROBLEMS


def hoeffding(lab: Lab) -> Section:
    """Theorem 2, measured."""
    return _section(
        lab,
        name="ucb2-h",
        title="Theorem 2: UCB2-H has the regret of UCB-H, and logarithmically many switches",
        claim=(
            "With probability $1 - p$ the regret of Q-learning with UCB2-Hoeffding is"
            r" $\tilde{O}(\sqrt{H^4 S A T})$, that of the fully adaptive UCB-H, and its local"
            r" switching cost is $O(H^3 S A \log(K / A))$."
        ),
        pair=("UCB-H", "UCB2-H"),
    )


def bernstein(lab: Lab) -> Section:
    """Theorem 3, measured, and how much Bernstein gains over Hoeffding."""
    section = _section(
        lab,
        name="ucb2-b",
        title="Theorem 3: UCB2-B has the regret of UCB-B, and logarithmically many switches",
        claim=(
            r"From $T = \tilde{\Omega}(H^6 S^2 A^2)$ steps on, with probability $1 - p$ the regret"
            r" of Q-learning with UCB2-Bernstein is $\tilde{O}(\sqrt{H^3 S A T})$, by $\sqrt{H}$"
            " better than with Hoeffding, and the switching cost is as in Theorem 2."
        ),
        pair=("UCB-B", "UCB2-B"),
    )
    return with_gain(section, lab, SCALE)


def scale_of(label: str, scene: str) -> tuple[str, dict[str, float]]:
    """The scale of a learner's bonus in a scene, in words and as options of its recipe.

    The proofs leave c, c1 and c2 as absolute constants. c = 1 is enough for optimism with
    Hoeffding's bonus. With c2 = 2 the cap of Bernstein's bonus is that width; for c1 no number is
    known.
    """
    if scene == "practical":
        return f"c = {SCALE}", {"c": SCALE}
    if label.endswith("-H"):
        return "c = 1", {"c": 1.0}
    return "c1 = 1, c2 = 2", {"c1": 1.0, "c2": 2.0}


def _proved_scale(label: str) -> str:
    """The scale of the proof, and how far it is one."""
    words, _ = scale_of(label, "proof")
    if label.endswith("-H"):
        return f"{words}, for which the theorem is proved"
    return (
        f"{words}, with which the cap of the bonus is the proved Hoeffding width (for the rest no"
        " constant is known)"
    )


def runs_of(lab: Lab, label: str, scene: str) -> dict[str, Runs]:
    """The runs of a learner in a scene, by problem.

    Problems of one state are played ten times as long. At the scale of the proof seeds differ
    little, and fewer are enough.
    """
    _, options = scale_of(label, scene)
    size: dict[str, Any] = {"history": scene == "one state"}
    if scene != "practical":
        times = 10 if scene == "one state" else 1
        size |= {
            "seeds": lab.effort.proof_seeds,
            "episodes": times * lab.effort.proof_episodes,
        }
    return {
        problem: lab.runs(text, LEARNERS[label](**options), **size)
        for problem, text in problems_of(scene).items()
    }


def _section(lab: Lab, *, name: str, title: str, claim: str, pair: tuple[str, str]) -> Section:
    base, label = pair
    scenes: dict[str, Results] = {}
    for scene in SCENES:
        every, rare = runs_of(lab, base, scene), runs_of(lab, label, scene)
        scenes[scene] = {problem: {base: every[problem], label: rare[problem]} for problem in every}
    practical = scenes["practical"]
    some = practical[next(iter(practical))][label]
    return Section(
        name=name,
        title=title,
        claim=claim,
        method=(
            rf"{base} and {label} with the theory's $\eta$ and $r^*$ at two scales of the bonus:"
            f" {_proved_scale(label)}, and c = {SCALE}."
            f" At the latter three problems are played for {some.episodes:,} episodes. At the"
            " former the bonus drowns everything on them, so that two problems of one state and two"
            " actions are played as well, for long. Regret is exact. An exponent is the slope of"
            " log cost against log K over the last decade of K."
        ),
        findings=[_finding(scene, scenes[scene], base, label) for scene in ("one state", "proof")]
        + [_finding("practical", practical, base, label)],
        tables=[_costs(scene, scenes[scene], base) for scene in SCENES],
        figures={
            name: _with_bound(plotting.plot_grid(practical), practical, label),
            f"{name}-proof": _with_bound(
                plotting.plot_grid(scenes["one state"], what=("regret", "local_switches")),
                scenes["one state"],
                label,
            ),
        },
        captions={
            name: f"c = {SCALE}. {_CAPTION} {label}.",
            f"{name}-proof": f"{scale_of(label, 'proof')[0]}, one state. {_CAPTION} {label}.",
        },
        remarks=[
            _difference(problem, runs[base], runs[label]) for problem, runs in practical.items()
        ],
        numbers={
            scene: {
                problem: {key: _numbers(runs) for key, runs in row.items()}
                for problem, row in results.items()
            }
            for scene, results in scenes.items()
        },
    )


_CAPTION = (
    "Costs along the runs: mean, and a band from the 10 % to the 90 % quantile of the seeds."
    " Dotted: the explicit bound on the local switches of"
)


def _difference(problem: str, base: Runs, runs: Runs) -> str:
    """How far the two regrets are apart, seed by seed, in words."""
    more = (runs.regret - base.regret) / base.regret.mean()
    half = report.half_width(more)
    noise = "within noise" if abs(more.mean()) <= half else "small, but more than noise"
    return (
        f"{problem}, c = {SCALE}: the delayed learner's regret differs by {more.mean():+.2%} ±"
        f" {half:.2%} (95 %, seed by seed), {noise}."
    )


def _with_bound(figure: Figure, results: Results, label: str) -> Figure:
    """Draw the explicit bound into each panel of local switches, the second in each row."""
    columns = len(figure.axes) // len(results)
    for axes, pair in zip(figure.axes[1::columns], results.values(), strict=True):
        episodes = pair[label].curves.episodes
        bounds = [_switch_bound(pair[label], int(K)) for K in episodes]
        axes.plot(episodes, bounds, ":", color="black")
    return figure


def _switch_bound(runs: Runs, episodes: int) -> float:
    size = {"H": runs.horizon, "S": runs.states, "A": runs.actions}
    return theory.switch_bound(**size, K=episodes, schedule=UCB2())


# ---- the rules, the same for every scene ---------------------------------------------------------


# what a grade rests on, where that is less than it seems
_REACH = {"one state": "one-state problems alone: "}


def _finding(scene: str, results: Results, base: str, label: str) -> Finding:
    every = {problem: pair[base] for problem, pair in results.items()}
    rare = {problem: pair[label] for problem, pair in results.items()}
    regret, switches = (
        [exponent_of(runs.curves, cost) for runs in rare.values()]
        for cost in ("regret", "local_switches")
    )
    fewer = [
        every[problem].local_switches.mean() / rare[problem].local_switches.mean()
        for problem in rare
    ]
    some, checks = next(iter(rare.values())), _checks(every, rare)
    blunt = sum(_switch_excess(runs) <= 0 for runs in every.values())
    return Finding(
        says=r"regret grows at most like $\sqrt{K}$, switches at most like $\log K$",
        scale=scale_of(label, scene)[0],
        length=f"K = {some.episodes:,}",
        problems=problem_list(problems_of(scene)),
        proved=SCENES[scene][1],
        constants_known=label.endswith("-H"),
        found=(
            f"{_REACH.get(scene, '')}exponents: regret {span(regret)}, switches {span(switches)};"
            f" {span(fewer, ',.1f')} times fewer switches than {base}, which keeps that rule on"
            f" {blunt} of {len(every)}"
        ),
        checks=checks,
    )


def problem_list(problems: Mapping[str, str]) -> str:
    """The names of some problems in a few words."""
    if all(name.startswith("one state, H = ") for name in problems):
        return f"one state, H = {' and '.join(name.rpartition(' ')[2] for name in problems)}"
    return ", ".join(problems)


def _checks(every: Mapping[str, Runs], rare: Mapping[str, Runs]) -> list[Check]:
    """The rules of both theorems; each is for all problems of a scene."""
    bounds = {problem: _switch_bound(runs, runs.episodes) for problem, runs in rare.items()}
    return [
        _each(
            f"it has learned: at most {LEARNED:g} of what the first policy would have lost",
            {problem: first_policy_share(runs) for problem, runs in rare.items()},
            LEARNED,
            ".3f",
        ),
        _each(
            "regret grows with an exponent of at most"
            rf" {MOST_REGRET_EXPONENT}; $\sqrt{{K}}$ has 0.5",
            {problem: exponent_of(runs.curves, "regret") for problem, runs in rare.items()},
            MOST_REGRET_EXPONENT,
        ),
        _each(
            f"regret at most {MOST_REGRET} times that of the every-visit learner",
            {
                problem: float(runs.regret.mean() / every[problem].regret.mean())
                for problem, runs in rare.items()
            },
            MOST_REGRET,
            ".3f",
        ),
        _each(
            r"the exponent of local switches is at most that of $\log((K + A) / A)$ over the same"
            f" K and {SWITCH_SLACK}; how far it is above that limit",
            {problem: _switch_excess(runs) for problem, runs in rare.items()},
            0,
        ),
        Check(
            "the every-visit learner breaks that rule on some problem; how far it is above the"
            " limit",
            "; ".join(f"{problem}: {_switch_excess(runs):.2f}" for problem, runs in every.items()),
            any(_switch_excess(runs) > 0 for runs in every.values()),
            sharpness=True,
        ),
        replace(
            _each(
                "no run switches more often than the explicit bound"
                r" $H S A (\tau(r^*) + \frac{\log((K + A) / A)}{\log(1 + \eta)})$; shares of it",
                {
                    problem: float(runs.local_switches.max() / bounds[problem])
                    for problem, runs in rare.items()
                },
                1,
                ".3f",
            ),
            always=True,
            consistency=True,
        ),
    ]


def _switch_excess(runs: Runs) -> float:
    """How far the exponent of local switches is above the limit of the rule about their growth."""
    times, A = runs.curves.episodes, runs.actions
    limit = exponent(times, np.log((times + A) / A)) + SWITCH_SLACK
    return exponent_of(runs.curves, "local_switches") - limit


def first_policy_share(runs: Runs) -> float:
    """The regret over the regret of the initial policy; infinite if that policy was optimal."""
    first = float(runs.curves.regret[:, 0].mean() / runs.curves.episodes[0])
    return float(runs.regret.mean() / runs.episodes / first) if first > 0 else float("inf")


def _each(rule: str, values: Mapping[str, float], limit: float, form: str = ".2f") -> Check:
    """The rule that a value of each problem does not exceed a limit."""
    return Check(
        rule,
        "; ".join(f"{problem}: {value:{form}}" for problem, value in values.items()),
        all(value <= limit for value in values.values()),
    )


# ---- what is shown -------------------------------------------------------------------------------


def _costs(scene: str, results: Results, base: str) -> PageTable:
    rows = [
        _row(problem, key, runs, pair[base])
        for problem, pair in results.items()
        for key, runs in pair.items()
    ]
    some = next(iter(results.values()))[base]
    return PageTable.of(
        f"{SCENES[scene][0]}: costs after {some.episodes:,} episodes, means over"
        f" {len(some.seeds)} seeds with 95 % intervals",
        rows,
    )


def _row(problem: str, label: str, runs: Runs, base: Runs) -> dict[str, str]:
    fewer = base.local_switches.mean() / runs.local_switches.mean()
    more = runs.regret.mean() / base.regret.mean() - 1
    return {
        "problem": problem,
        "learner": label,
        "regret": report.mean_and_interval(runs.regret),
        "more": "" if runs is base else f"{more:+.1%}",
        "local switches": report.mean_and_interval(runs.local_switches),
        "fewer": "" if runs is base else f"{fewer:,.1f} x",
        "deployments": report.mean_and_interval(runs.deployments),
        "regret exponent": f"{exponent_of(runs.curves, 'regret'):.2f}",
        "switch exponent": f"{exponent_of(runs.curves, 'local_switches'):.2f}",
    }


def _numbers(runs: Runs) -> dict[str, Any]:
    names = ("regret", "local_switches", "deployments")
    exponents = {f"{name}_exponent": exponent_of(runs.curves, name) for name in names}
    return runs.to_dict() | exponents
