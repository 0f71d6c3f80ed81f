"""Theorem 5: how many rounds M machines need that play one policy a round, by real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import theory
from lowswitch.concurrent.runner import RoundRule
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import (
    BASELINE,
    LEARNERS,
    MANY,
    PROVED,
    RIVER,
    RULES,
    SMALL,
    Rounds,
    RoundsCase,
    Sequential,
    all_sequential,
    play_all,
)
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.show import report
from lowswitch.show.text import span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEARLY_LINEAR = {2: 0.8, 10: 0.8}  # the least speed-up over M, for each M
SHARES = (0.5, 0.2, 0.1, 0.05)  # eps over V*


def rounds(lab: Lab) -> Section:
    """Theorem 5, measured."""
    sequential = all_sequential(lab)
    played = play_all(lab, sequential)
    reached = _reached(sequential, played)
    some = sequential[RIVER, "UCB2-H"]
    return Section(
        name="rounds",
        title="Theorem 5: between switches M machines play in parallel",
        claim=(
            r"On M machines that play one policy a round, an $\eps$-optimal policy is found in"
            r" $\tilde{O}(H^3 S A + H^5 S A / (\eps^2 M))$ rounds ($H^4$ with Bernstein): a nearly"
            " linear speed-up for small M, since the path is that of the sequential run."
        ),
        method=(
            f"{len(played)} concurrent runs of K = {some.episodes:,} kept episodes, c = {SCALE},"
            ' and at the scale of the proof on one state. "trigger" cuts a round at the first'
            ' trigger, as the paper does; "switch" where the policy really changed; "speculate"'
            " throws away only what the new policy would have played otherwise, which a simulator"
            f" can tell. {_seeds(len(some.seeds))}"
        ),
        findings=[_finding(problem, sequential, played, reached) for problem in (SMALL, *PROBLEMS)],
        tables=[
            _speed_table(some.episodes, played),
            _bound_table(sequential, played),
            _reached_table(reached),
        ],
        figures={"rounds": _figure(sequential, played), "rounds-to-eps": _reached_figure(reached)},
        captions={
            "rounds": (
                "Speed-up against the number of machines, both on logarithmic axes. The broad line"
                ' is K / (N_gl + 1), which no M can pass under "switch".'
            ),
            "rounds-to-eps": (
                'Rounds under "switch" until the mixture of all policies played is within eps of'
                " the optimum, against the number of machines. Dotted: in proportion to 1 / M."
            ),
        },
        remarks=_REMARKS,
        numbers=_numbers(some.episodes, played, reached),
    )


def _seeds(most: int) -> str:
    return "Seed 0." if most == 1 else f"Seed 0; at M = {MANY}, {most} seeds."


_REMARKS = (
    (
        r"The paper's bound $N_{sw} + K / M$ forgets the last, unfinished phase and counts local"
        r" switches where deployments are enough: $N_{gl} + 1 + K / M$."
    ),
    (
        "How much machines gain depends on the problem, on K and on eps: K / M must be large"
        " against the number of deployments, which grows like log K. Early on most episodes change"
        " the policy, and machines hardly help."
    ),
    f"{BASELINE} deploys after most episodes, so that machines hardly help it however large K is.",
    (
        '"speculate" is beyond the paper: an episode of the old policy that meets no changed row'
        " is, by the same noise, that of the new one."
    ),
)


# ---- the rules -----------------------------------------------------------------------------------


def _finding(problem: str, sequential: Sequential, played: Rounds, reached: Reaching) -> Finding:
    """What machines gain on one problem, when a round is cut as in the paper."""
    learners = list(PROVED if problem == SMALL else LEARNERS)
    runs = sequential[problem, learners[0]]

    def speed(learner: str, machines: int, rule: RoundRule = "trigger") -> float:
        return runs.episodes / played[RoundsCase(problem, learner, rule, machines)].rounds

    by_machines = {M: {one: speed(one, M) for one in learners} for M in (*NEARLY_LINEAR, MANY)}
    real = {learner: speed(learner, MANY, "switch") for learner in learners}
    shares, same = _bound_shares(problem, sequential, played)
    grows = [_reached_check(learner, reached) for learner in learners if problem == RIVER]
    return Finding(
        says=f"a nearly linear speed-up for small M, here up to {max(NEARLY_LINEAR)}",
        scale="c = 1; c1 = 1, c2 = 2" if problem == SMALL else f"c = {SCALE}",
        length=f"K = {runs.episodes:,}, seed 0",
        problems=problem,
        proved=problem == SMALL,
        constants_known=False,  # half of the runs have Bernstein's bonus
        found=(
            ", ".join(f"{M} machines {_times(speeds)}" for M, speeds in by_machines.items())
            + f"; cut only at real switches, {MANY} machines {_times(real)}"
        ),
        checks=[
            Check(
                "the policy changes of every run are those of the sequential run",
                f"in {sum(same)} of {len(same)} runs",
                all(same),
                always=True,
                consistency=True,
            ),
            Check.at_most(
                r"no run that is cut at real switches needs more rounds than $N_{sw} + 1 + K / M$",
                max(shares),
                1,
                "at most {:.3f} of it",
                always=True,
                consistency=True,
            ),
            *(
                Check(
                    f"{M} machines are at least {M * share:g} times as fast",
                    ", ".join(f"{one} {faster:.2f} x" for one, faster in by_machines[M].items()),
                    min(by_machines[M].values()) >= M * share,
                )
                for M, share in NEARLY_LINEAR.items()
            ),
            *grows,
        ],
    )


def _times(speeds: Mapping[str, float]) -> str:
    return f"{span(speeds.values())} x"


def _bound_shares(
    problem: str, sequential: Sequential, played: Rounds
) -> tuple[list[float], list[bool]]:
    """The rounds of every run over their bound, and whether its path is the sequential one."""
    shares, same = [], []
    for case, outcome in played.items():
        if case.problem == problem:
            runs = sequential[case.problem, case.learner]
            same.append(outcome.same)
            if case.rule == "switch":
                switches = int(runs.local_switches[case.seed])
                bound = theory.rounds_bound(K=runs.episodes, M=case.machines, deployments=switches)
                shares.append(outcome.rounds / bound)
    return shares, same


def _over_machines(played: Rounds, case: RoundsCase) -> list[RoundsCase]:
    """The same case for every number of machines, in order."""
    return sorted(
        (other for other in played if other._replace(machines=case.machines) == case),
        key=lambda other: other.machines,
    )


# ---- in the theorem's own terms: rounds until a policy is eps-optimal ----------------------------


class Reached(NamedTuple):
    """When the mixture of all policies played came within eps of the optimum."""

    episodes: int
    machines: Sequence[int]
    rounds: np.ndarray  # [machines]

    @property
    def speed_up(self) -> np.ndarray:  # [machines]
        return np.asarray(self.episodes / self.rounds)


Reaching = Mapping[tuple[str, float], Reached]  # by learner and eps / V*, where it was reached


def _reached(sequential: Sequential, played: Rounds) -> Reaching:
    """When it was on RiverSwim, to the nearest point of the curves."""
    found = {}
    for learner in LEARNERS:
        runs = sequential[RIVER, learner]
        mixture = runs.curves.regret[0] / runs.curves.episodes
        for share in SHARES:
            good = np.flatnonzero(mixture <= share * runs.optimal_value)
            if len(good):
                there = _over_machines(played, RoundsCase(RIVER, learner, "switch", 1))
                counts = np.array([played[case].curve[good[0]] for case in there])
                found[learner, share] = Reached(
                    int(runs.curves.episodes[good[0]]), [case.machines for case in there], counts
                )
    return found


def _reached_check(learner: str, reached: Reaching) -> Check:
    speeds = {share: at.speed_up[1:] for (name, share), at in reached.items() if name == learner}
    grows = all(bool((more > less).all()) for less, more in pairwise(speeds.values()))
    return Check(
        f"{learner}: the smaller eps, the greater the speed-up until the mixture is eps-optimal,"
        " for every M > 1",
        "M = 2: " + ", ".join(f"{speed[0]:.2f} x at {share} V*" for share, speed in speeds.items()),
        len(speeds) > 1 and grows,
    )


def _reached_table(reached: Reaching) -> PageTable:
    rows = [
        [
            learner,
            f"{share} V*",
            *(
                f"{count:,} ({speed:.1f} x)"
                for count, speed in zip(at.rounds, at.speed_up, strict=True)
            ),
        ]
        for (learner, share), at in reached.items()
    ]
    title = (
        f'{RIVER}, "switch": rounds until the mixture of all policies played is eps-optimal, and'
        " the speed-up"
    )
    machines = next(iter(reached.values())).machines if reached else ()
    return PageTable(title, ("learner", "eps", *(f"M = {M}" for M in machines)), rows)


# ---- tables and figures --------------------------------------------------------------------------


def _speed_table(episodes: int, played: Rounds) -> PageTable:
    every = sorted({case.machines for case in played})
    rows = []
    for case in played:
        if case.machines == 1:
            speeds = {
                there.machines: f"{episodes / played[there].rounds:.2f}"
                for there in _over_machines(played, case)
            }
            rows.append(
                [case.problem, case.learner, case.rule, *(speeds.get(M, "-") for M in every)]
            )
    header = ("problem", "learner", "rule", *(f"M = {M:,}" for M in every))
    return PageTable(f"Speed-up: episodes kept a round, K = {episodes:,}, seed 0", header, rows)


def _bound_table(sequential: Sequential, played: Rounds) -> PageTable:
    some = (10, MANY)
    rows = []
    for (problem, learner), runs in sequential.items():
        deployments = int(runs.deployments[0])
        row = [problem, learner, f"{deployments:,}"]
        for M in some:
            bound = theory.rounds_bound(K=runs.episodes, M=M, deployments=deployments)
            row += [
                f"{played[RoundsCase(problem, learner, 'switch', M)].rounds:,}",
                f"{bound:,.0f}",
            ]
        rows.append(row)
    header = (
        "problem",
        "learner",
        "N_gl",
        *(text for M in some for text in (f"rounds, M = {M}", "N_gl + 1 + K / M")),
    )
    return PageTable('Rounds under "switch" and their bound, seed 0', header, rows)


def _numbers(episodes: int, played: Rounds, reached: Reaching) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "rounds": [case._asdict() | {"rounds": outcome.rounds} for case, outcome in played.items()],
        "reached": [
            {"learner": learner, "share": share} | at._asdict() | {"rounds": at.rounds.tolist()}
            for (learner, share), at in reached.items()
        ],
    }


def _figure(sequential: Sequential, played: Rounds) -> Figure:
    figure = report.blank_figure(10, 6.4)
    panels = figure.subplots(len(LEARNERS), len(PROBLEMS), squeeze=False)
    for row, learner in zip(panels, LEARNERS, strict=True):
        for axes, problem in zip(row, PROBLEMS, strict=True):
            _draw_problem(axes, problem, learner, sequential, played)
            axes.set_ylabel("episodes kept a round")
            axes.set_xlabel("machines M")
    report.legend_below(figure, panels[0][0], columns=3)
    return figure


def _draw_problem(
    axes: Axes, problem: str, learner: str, sequential: Sequential, played: Rounds
) -> None:
    first, runs = RoundsCase(problem, learner, RULES[0], 1), sequential[problem, learner]
    most = _over_machines(played, first)[-1].machines
    axes.plot((1, MANY), (1, MANY), ":", color="0.4", label="linear: M")
    for i, rule in enumerate(RULES):
        _draw_speed(axes, played, first._replace(rule=rule), i, f'"{rule}"')
    limit = runs.episodes / (runs.deployments[0] + 1)
    broad: dict[str, Any] = {"linewidth": 5, "solid_capstyle": "butt", "alpha": 0.25, "zorder": 0}
    label, colour = 'limit of "switch": K / (N_gl + 1)', report.COLOURS[RULES.index("switch")]
    axes.plot((1, most), (limit, limit), color=colour, label=label, **broad)
    if problem == RIVER:
        case, label = RoundsCase(problem, BASELINE, "switch", 1), f'{BASELINE}, "switch"'
        _draw_speed(axes, played, case, len(RULES), label)
    report.dress(axes, log="xy")
    report.count_from_one(axes, "x", most)
    report.count_from_one(axes, "y", MANY)
    axes.set_title(f"{problem}, {learner}", fontsize=10)


def _draw_speed(axes: Axes, played: Rounds, case: RoundsCase, i: int, label: str) -> None:
    there = _over_machines(played, case)
    speed = [played[case].rounds / played[other].rounds for other in there]
    axes.plot([other.machines for other in there], speed, label=label, **_marked(i))


def _marked(i: int) -> dict[str, Any]:
    return report.line_style(i) | {"marker": "os^v"[i], "markersize": 4}


def _reached_figure(reached: Reaching) -> Figure:
    figure = report.blank_figure(9, 4.2)
    panels = figure.subplots(1, len(LEARNERS))
    for axes, learner in zip(panels, LEARNERS, strict=True):
        for i, share in enumerate(sorted({share for _, share in reached}, reverse=True)):
            at = reached.get((learner, share), Reached(0, (), np.zeros(0)))
            linear, colour = at.episodes / np.array(at.machines), report.COLOURS[i]
            axes.plot(at.machines, at.rounds, label=f"eps = {share} V*", **_marked(i))
            axes.plot(at.machines, linear, ":", linewidth=0.8, color=colour)
        axes.plot([], [], ":", color="0.4", linewidth=0.8, label="in proportion to 1 / M")
        report.dress(axes, log="xy")
        report.count_from_one(axes, "x", MANY)
        axes.set_title(f"{RIVER}, {learner}", fontsize=10)
        axes.set_xlabel("machines M")
        axes.set_ylabel("rounds")
        axes.set_ylim(bottom=min((at.rounds.min() for at in reached.values()), default=1) / 4)
    report.legend_below(figure, panels[0], columns=5)
    return figure
