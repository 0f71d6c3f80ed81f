"""Theorem 5: how many rounds M machines need that play one policy a round, by real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import report, theory
from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.machines.runner import RoundRule
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import (
    BASELINE,
    LEARNERS,
    MANY,
    RIVER,
    RULES,
    Rounds,
    RoundsCase,
    Sequential,
    all_sequential,
    count_rounds,
    history_of,
    play_all,
)
from lowswitch.reproduce.messages import MessageSizes, measure_messages
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import Check, Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# episodes a round over those of "trigger"
LEAST_GAIN: dict[RoundRule, float] = {"switch": 1.25, "speculate": 1.4}
NEARLY_LINEAR = 0.8  # of M, the least speed-up at M = 2
SHARES = (0.5, 0.2, 0.1, 0.05)  # eps over V*


def rounds(lab: Lab) -> Section:
    """Theorem 5, measured."""
    sequential = all_sequential(lab)
    played = play_all(lab, sequential)
    reached = _reached(sequential, played)
    messages = measure_messages(
        lab, PROBLEMS[next(reversed(PROBLEMS))], ucb2_hoeffding(c=SCALE), machines=MANY
    )
    some = sequential[RIVER, "UCB2-H"]
    return Section(
        name="rounds",
        title="Between switches M machines play in parallel (Theorem 5)",
        claim=(
            "On M machines that play one policy a round, an eps-optimal policy is found in O~(H^3 S"
            " A + H^5 S A / (eps^2 M)) rounds (H^4 with Bernstein): a nearly linear speed-up for"
            " small M, since the path is that of the sequential run."
        ),
        method=(
            f"{len(played)} concurrent runs of K = {some.episodes:,} kept episodes, c = {SCALE};"
            ' what a rule throws away was played as well. "trigger" cuts a round at the first'
            ' trigger, as the paper does; "switch" where the policy really changed; "speculate"'
            " throws away only what the new policy would have played otherwise, which a simulator"
            f" can tell. {_seeds(len(some.seeds))} Then one run with worker processes."
        ),
        checks=[
            *_exact_checks(sequential, played, messages),
            *(_gain_check(problem, sequential, played) for problem in PROBLEMS),
            *_order_checks(played),
            *_speed_checks(sequential, played),
            *(_reached_check(learner, reached) for learner in LEARNERS),
            messages.check(),
        ],
        tables=[
            _speed_table(some.episodes, played),
            _bound_table(sequential, played),
            _reached_table(reached),
            messages.table(),
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
        numbers=_numbers(some.episodes, played, reached, messages),
    )


def _seeds(most: int) -> str:
    return "Seed 0." if most == 1 else f"Seed 0; at M = {MANY}, {most} seeds."


_REMARKS = (
    (
        "The paper's bound N_sw + K / M forgets the last, unfinished phase and counts local"
        " switches where deployments are enough: N_gl + 1 + K / M."
    ),
    (
        "How nearly linear the speed-up is depends on K and eps: K / M must be large against N_gl,"
        " which grows like log K. Early on most episodes change the policy, and machines hardly"
        " help. The factors 1.25 and 1.4 were set for K = 1,000,000."
    ),
    f"{BASELINE} deploys after most episodes, so that machines hardly help it however large K is.",
    (
        '"speculate" is beyond the paper: an episode of the old policy that meets no changed row'
        " is, by the same noise, that of the new one."
    ),
)


# ---- the rules -----------------------------------------------------------------------------------


def _exact_checks(sequential: Sequential, played: Rounds, messages: MessageSizes) -> list[Check]:
    """What must be so to the last round."""
    same = [messages.same, *(outcome.same for outcome in played.values())]
    shares, off = [], []
    for case, outcome in played.items():
        if case.rule == "switch":
            runs = sequential[case.problem, case.learner]
            bound = theory.rounds_bound(
                K=runs.episodes, M=case.machines, deployments=int(runs.deployments[case.seed])
            )
            shares.append(outcome.rounds / bound)
            counted = count_rounds(history_of(runs, case.seed), runs.episodes, case.machines)
            off.append(abs(outcome.rounds - counted))
    return [
        Check(
            "the policy changes of every run are those of the sequential run, after the same"
            " episodes",
            f"in {sum(same)} of {len(same)}",
            all(same),
        ),
        Check.at_most(
            '"switch": rounds at most N_gl + 1 + K / M, every run',
            max(shares),
            1,
            "at most {:.3f} of it",
        ),
        Check(
            '"switch": rounds are the sum of ceil(L / M) over the deployments of the sequential'
            " run, L episodes apart",
            f"off by at most {max(off)}",
            max(off) == 0,
        ),
    ]


def _gain_check(problem: str, sequential: Sequential, played: Rounds) -> Check:
    """What the other rules gain over the paper's, the least over learners and seeds."""
    gains = {
        rule: min(
            played[RoundsCase(problem, learner, "trigger", MANY, seed)].rounds
            / played[RoundsCase(problem, learner, rule, MANY, seed)].rounds
            for learner in LEARNERS
            for seed in range(len(sequential[problem, learner].seeds))
        )
        for rule in LEAST_GAIN
    }
    words = " and ".join(f'"{rule}" at least {least} times' for rule, least in LEAST_GAIN.items())
    return Check(
        f'{problem}, M = {MANY}: {words} as many episodes a round as "trigger", every learner and'
        " seed",
        ", ".join(f"{gain:.2f} x" for gain in gains.values()),
        all(gains[rule] >= least for rule, least in LEAST_GAIN.items()),
    )


def _order_checks(played: Rounds) -> list[Check]:
    """Neither a rule that keeps more nor more machines need more rounds."""
    pairs = [
        (case, case._replace(rule=bolder))
        for case in played
        for rule, bolder in pairwise(RULES)
        if case.rule == rule
    ]
    ordered = [
        played[bolder].rounds <= played[case].rounds for case, bolder in pairs if bolder in played
    ]
    curves = [
        [played[there].rounds for there in _over_machines(played, case)]
        for case in played
        if case.machines == 1
    ]
    slower = sum(later > sooner for counts in curves for sooner, later in pairwise(counts))
    return [
        Check(
            'never more rounds under "switch" than under "trigger", nor under "speculate" than'
            ' under "switch"',
            f"in {sum(ordered)} of {len(ordered)}",
            all(ordered),
        ),
        Check(
            "more machines never need more rounds",
            f"{slower} exceptions in {len(curves)} curves",
            slower == 0,
        ),
    ]


def _over_machines(played: Rounds, case: RoundsCase) -> list[RoundsCase]:
    """The same case for every number of machines, in order."""
    return sorted(
        (other for other in played if other._replace(machines=case.machines) == case),
        key=lambda other: other.machines,
    )


def _speed_checks(sequential: Sequential, played: Rounds) -> list[Check]:
    """The speed-up where K / M leads the bound, and that of the learner without delayed updates."""

    def speed(problem: str, learner: str, machines: int) -> float:
        case = RoundsCase(problem, learner, "switch", machines)
        return sequential[problem, learner].episodes / played[case].rounds

    inside, outside = {}, []
    for (problem, learner), runs in sequential.items():
        if learner != BASELINE and runs.deployments[0] <= runs.episodes / 2:
            inside[f"{problem} {learner}"] = speed(problem, learner, 2)
        elif learner != BASELINE:
            outside.append(f"{problem} {learner}")
    baseline, two = speed(RIVER, BASELINE, MANY), speed(RIVER, "UCB2-H", 2)
    return [
        Check(
            f'"switch": two machines are at least {2 * NEARLY_LINEAR:.1f} times as fast where N_gl'
            " <= K / 2, so that K / M leads the bound",
            ", ".join(f"{name} {faster:.2f} x" for name, faster in inside.items())
            + (f"; not looked at, for K is too small: {', '.join(outside)}" if outside else ""),
            bool(inside) and min(inside.values()) >= 2 * NEARLY_LINEAR,
        ),
        Check(
            f'{RIVER}, "switch": {MANY} machines help {BASELINE}, which may change a row at every'
            " visit, less than two help UCB2-H",
            f"{baseline:.2f} x and {two:.2f} x",
            baseline < two,
        ),
    ]


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
    two = [float(speed[0]) for speed in speeds.values()]
    grows = all(bool((more > less).all()) for less, more in pairwise(speeds.values()))
    return Check(
        f"{RIVER}, {learner}: the smaller eps, the greater the speed-up until the mixture is"
        " eps-optimal, for every M > 1; at the smallest eps reached, two machines are at least"
        f" {2 * NEARLY_LINEAR:.1f} times as fast",
        "M = 2: " + ", ".join(f"{speed[0]:.2f} x at {share} V*" for share, speed in speeds.items()),
        len(two) > 1 and two[-1] >= 2 * NEARLY_LINEAR and grows,
    )


def _reached_table(reached: Reaching) -> Table:
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
    return Table(title, ("learner", "eps", *(f"M = {M}" for M in machines)), rows)


# ---- tables and figures --------------------------------------------------------------------------


def _speed_table(episodes: int, played: Rounds) -> Table:
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
    return Table(f"Speed-up: episodes kept a round, K = {episodes:,}, seed 0", header, rows)


def _bound_table(sequential: Sequential, played: Rounds) -> Table:
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
    return Table('Rounds under "switch" and their bound, seed 0', header, rows)


def _numbers(
    episodes: int, played: Rounds, reached: Reaching, messages: MessageSizes
) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "rounds": [case._asdict() | {"rounds": outcome.rounds} for case, outcome in played.items()],
        "reached": [
            {"learner": learner, "share": share} | at._asdict() | {"rounds": at.rounds.tolist()}
            for (learner, share), at in reached.items()
        ],
        "traffic": messages._asdict(),
    }


def _figure(sequential: Sequential, played: Rounds) -> Figure:
    figure = report.blank_figure(10, 6.4)
    panels = figure.subplots(len(LEARNERS), len(PROBLEMS), sharex="col", sharey=True, squeeze=False)
    for row, learner in zip(panels, LEARNERS, strict=True):
        for axes, problem in zip(row, PROBLEMS, strict=True):
            _draw_problem(axes, problem, learner, sequential, played)
        row[0].set_ylabel("episodes kept a round")
    for axes in panels[-1]:
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
    panels = figure.subplots(1, len(LEARNERS), sharey=True)
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
    panels[0].set_ylabel("rounds")
    panels[0].set_ylim(bottom=min((at.rounds.min() for at in reached.values()), default=1) / 4)
    report.legend_below(figure, panels[0], columns=5)
    return figure
