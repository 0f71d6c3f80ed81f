"""The mistake bound of section 4: how many actions M machines waste before they play well, and how
many concurrent MBIE wastes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import concurrent, envs, theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.envs.mdp import TabularMDP
from lowswitch.history import deployment_gaps
from lowswitch.io import storage
from lowswitch.reproduce.grades import Check, Finding, Grade
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import RIVER, history_of
from lowswitch.reproduce.near_optimal import near_optimal, near_optimal_finding, near_optimal_table
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.show import report
from lowswitch.show.text import span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = (1, 10, 100)
SOME = 10
SHARES = (0.5, 0.2, 0.1, 0.05)  # eps over V*
TYPICAL = SHARES.index(0.1)
LEARNERS: dict[str, Algorithm | float] = {  # a number is the c of CMBIE
    "UCB2-H": ucb2_hoeffding(c=SCALE),
    "UCB2-B": ucb2_bernstein(c=SCALE),
    "CMBIE": SCALE,
    "UCB2-H, c = 1": ucb2_hoeffding(c=1.0),
    "CMBIE, c = 1": 1.0,
}
COMPARED = {"CMBIE": ("UCB2-H", "UCB2-B"), "CMBIE, c = 1": ("UCB2-H, c = 1",)}  # at the same scale
SLOW = ("random (20, 4, 10)", 1)  # problem and machines: CMBIE plans after every round
MOST_EXPONENT = 2.0  # of 1 / eps, in the order of Q-learning
ONGOING = 0.05  # of the last tenth of the episodes


class MistakesCase(NamedTuple):
    """One run of a learner on some machines."""

    problem: str
    learner: str
    machines: int


class MistakeCounts(NamedTuple):
    """The mistakes of one run for each eps, those in episodes that were thrown away included."""

    mistakes: np.ndarray  # [E]  in episodes whose policy is more than eps below the optimum
    alone: np.ndarray  # [E]  that lose more than eps by themselves
    policies: np.ndarray  # [E]  deployed, more than eps below the optimum
    ongoing: np.ndarray  # [E]  share of the last tenth of the episodes that are mistakes


Counted = Mapping[MistakesCase, MistakeCounts]


def mistakes(lab: Lab) -> Section:
    """The mistake bound of section 4, measured."""
    episodes = lab.effort.episodes // 10
    counts = count_all(lab, episodes)
    eps_share = SHARES[TYPICAL]
    policies = {problem: near_optimal(lab, text, eps_share) for problem, text in PROBLEMS.items()}
    kept_on = {problem: found for problem, found in policies.items() if found}
    return Section(
        name="mistakes",
        title="Section 4: mistakes of M machines, against concurrent MBIE",
        claim=(
            r"Concurrent Q-learning performs an $\eps$-optimal action on all but"
            r" $\tilde{O}(H^4 S A M + H^6 S A / \eps^2)$ actions ($H^5$ with Bernstein); concurrent"
            r" MBIE (CMBIE) has $\tilde{O}(H^3 S A M / \eps + H^8 S^2 A / \eps^3)$, which is worse"
            r" in $\eps$, in H and in S."
        ),
        method=(
            f'K = {episodes:,} kept episodes, seed 0. Q-learning under "switch"; CMBIE with a model'
            f" for each step, planned anew after every round. c = {SCALE}, of the bonus or of the"
            " confidence intervals, unless said otherwise; 1 is provable. Counted as in the paper"
            " are the actions of all machines, in episodes that are thrown away too. By episodes:"
            " all H actions of an episode whose policy is more than eps below the optimum. By"
            " actions: those that lose more than eps by themselves."
        ),
        findings=[
            _order_finding(counts, episodes),
            *(_fewer_finding(counts, model, episodes) for model in COMPARED),
            *([near_optimal_finding(kept_on, eps_share, episodes)] if kept_on else ()),
        ],
        tables=[
            *(_table(problem, counts) for problem in PROBLEMS),
            _order_table(counts),
            *([near_optimal_table(kept_on, eps_share)] if kept_on else ()),
        ],
        figures={"mistakes": _figure(counts)},
        captions={
            "mistakes": (
                f"Mistakes by episodes: above with {SOME} machines against eps / V*, below at eps ="
                f" {SHARES[TYPICAL]} V* against the number of machines. Dotted and hollow: the"
                " provable scale, c = 1. A count of 0 has no point."
            )
        },
        remarks=_remarks(counts),
        numbers={
            "episodes": episodes,
            "shares": SHARES,
            "counts": [case._asdict() | storage.pack(found) for case, found in counts.items()],
        },
    )


# ---- the counts ----------------------------------------------------------------------------------


def _cases() -> Iterator[MistakesCase]:
    for problem in PROBLEMS:
        for learner, algorithm in LEARNERS.items():
            yield from (
                MistakesCase(problem, learner, M)
                for M in MACHINES
                if isinstance(algorithm, Algorithm) or (problem, M) != SLOW
            )


def count_all(lab: Lab, episodes: int) -> Counted:
    """The mistakes of every case, really played."""
    cases = list(_cases())

    def compute(place: int) -> MistakeCounts:
        case = cases[place]
        mdp = lab.make(PROBLEMS[case.problem])
        return count(mdp, play(mdp, LEARNERS[case.learner], episodes, case.machines))

    configurations = [
        [
            lab.text(PROBLEMS[case.problem]),
            _facts(LEARNERS[case.learner]),
            episodes,
            case.machines,
            SHARES,
        ]
        for case in cases
    ]
    found = lab.measure_each("mistakes", configurations, compute, MistakeCounts, episodes=episodes)
    return dict(zip(cases, found, strict=True))


def _facts(learner: Algorithm | float) -> Any:
    return learner.to_dict() if isinstance(learner, Algorithm) else learner


def play(
    mdp: TabularMDP, learner: Algorithm | float, episodes: int, machines: int
) -> concurrent.ConcurrentRun:
    """Run a learner, or CMBIE at a scale, on some machines."""
    if isinstance(learner, Algorithm):
        return concurrent.run(
            mdp, learner, episodes, machines=machines, rule="switch", regret=False, progress=False
        )
    return concurrent.mbie(mdp, episodes=episodes, machines=machines, c=learner, progress=False)


def count(
    mdp: TabularMDP, run: concurrent.ConcurrentRun, shares: Sequence[float] = SHARES
) -> MistakeCounts:
    """The mistakes of a run, for eps of these shares of V*."""
    levels = [share * mdp.optimal_value() for share in shares]
    gaps = deployment_gaps(mdp, history_of(run, 0), initial=run.initial)
    ends = np.cumsum(run.played_under)
    last_tenth = 0.9 * ends[-1]
    # the share of the last tenth that was played under each policy
    late = np.diff(np.maximum(ends, last_tenth), prepend=last_tenth) / (0.1 * ends[-1])
    return MistakeCounts(
        mistakes=np.array([run.mistakes(mdp, eps) for eps in levels]),
        alone=np.array([run.suboptimal_actions(mdp, eps) for eps in levels]),
        policies=np.array([np.count_nonzero(gaps > eps) for eps in levels]),
        ongoing=np.array([late[gaps > eps].sum() for eps in levels]),
    )


# ---- the rules -----------------------------------------------------------------------------------


def _order_finding(counts: Counted, episodes: int) -> Finding:
    """Whether the mistakes of Q-learning grow as its order says, in M and in 1 / eps."""
    learners = [label for label in LEARNERS if label in COMPARED["CMBIE"]]
    more, ongoing = {}, {}
    for problem in PROBLEMS:
        few, many = (
            sum(counts[MistakesCase(problem, label, M)].mistakes[TYPICAL] for label in learners)
            for M in (1, MACHINES[-1])
        )
        more[problem] = float(many / max(1, few))
        ongoing[problem] = max(
            float(counts[MistakesCase(problem, label, SOME)].ongoing[TYPICAL]) for label in learners
        )
    eps = rf"$\eps$ = {SHARES[TYPICAL]} V*"
    return Finding(
        says=r"mistakes grow like M and $1 / \eps^2$ at most",
        scale=f"c = {SCALE}",
        length=f"K = {episodes:,}",
        problems=", ".join(PROBLEMS),
        proved=False,
        found=(
            f"{MACHINES[-1]} machines make {span(more.values(), '.0f')} times the mistakes of"
            f" one ({eps})"
        ),
        checks=[
            _growth_check(counts),
            *(_exponent_check(counts, label) for label in learners),
            Check(
                f"the counts have settled: with {SOME} machines at most {ONGOING:.0%} of the last"
                f" tenth of the episodes are mistakes, {eps}",
                ", ".join(f"{problem} {share:.0%}" for problem, share in ongoing.items()),
                max(ongoing.values()) <= ONGOING,
            ),
        ],
    )


def _growth_check(counts: Counted) -> Check:
    """The L episodes of one machine under a poor policy become at most L + M - 1."""
    shares = []
    for case, found in counts.items():
        if isinstance(LEARNERS[case.learner], Algorithm):
            alone, H = counts[case._replace(machines=1)], envs.make(PROBLEMS[case.problem]).horizon
            most = alone.mistakes + H * (case.machines - 1) * alone.policies
            shares.append(np.max(found.mistakes / np.maximum(most, 1)))
    return Check.at_most(
        "M machines make at most the mistakes of one, and H (M - 1) more for each policy that is"
        r" more than $\eps$ below the optimum",
        max(shares),
        1,
        "at most {:.3f} of it",
        always=True,
        consistency=True,
    )


def _exponent_check(counts: Counted, learner: str) -> Check:
    return Check.at_most(
        f"{RIVER}, {learner}: with {SOME} machines mistakes grow no faster than"
        rf" $(1 / \eps)^{MOST_EXPONENT:.0f}$, from {SHARES[0]} V* to {SHARES[-1]} V*",
        _exponent(counts[MistakesCase(RIVER, learner, SOME)].mistakes),
        MOST_EXPONENT,
    )


def _exponent(found: np.ndarray) -> float:
    """The slope of log mistakes against log 1 / eps, over those eps that have any mistakes."""
    some = found > 0
    if some.sum() < 2:
        return float("nan")
    return float(np.polyfit(-np.log(np.array(SHARES)[some]), np.log(found[some]), 1)[0])


def _fewer_finding(counts: Counted, model: str, episodes: int) -> Finding:
    """By the orders Q-learning makes fewer mistakes; which does by the counts."""
    orders = [
        first / second
        for problem in PROBLEMS
        for M in MACHINES
        for first, second in orders_of(problem, M)
    ]
    ratios, learners = _ratios(counts, model), " and ".join(COMPARED[model])
    behind = f"by counts, CMBIE makes {span(ratios, ',.1f')} times fewer mistakes"
    return Finding(
        says="Q-learning's mistake bound is below that of concurrent MBIE",
        scale="c = 1" if model.endswith("c = 1") else f"c = {SCALE}",
        length=f"K = {episodes:,}",
        problems=", ".join(PROBLEMS),
        proved=model.endswith("c = 1"),
        found=behind
        if min(ratios) > 1
        else f"mistakes over those of CMBIE: {span(ratios, ',.1f')}",
        refuted=Grade.REVERSED,
        checks=[
            Check(
                r"the paper's orders put Q-learning ahead, every problem, M and $\eps$",
                f"{min(orders):.1g} to {max(orders):.1g} of CMBIE's",
                max(orders) < 1,
            ),
            Check(
                f"{learners} make fewer mistakes than {model}, every problem and M,"
                rf" $\eps$ at most {SHARES[TYPICAL]} V*",
                f"{min(ratios):,.1f} to {max(ratios):,.1f} times those of CMBIE",
                max(ratios) < 1,
                always=True,
            ),
        ],
    )


def _ratios(counts: Counted, model: str) -> list[float]:
    """The mistakes of Q-learning over the mistakes of CMBIE at the same scale, if any."""
    ratios = []
    for case in (case for case in counts if case.learner == model):
        few = counts[case].mistakes[TYPICAL:]
        for learner in COMPARED[model]:
            many = counts[case._replace(learner=learner)].mistakes[TYPICAL:]
            ratios += (many / np.maximum(few, 1))[(many > 0) | (few > 0)].tolist()
    return ratios


def orders_of(problem: str, machines: int) -> Iterator[tuple[float, float]]:
    """The paper's orders of mistakes for each eps: Q-learning's with Hoeffding, then CMBIE's."""
    mdp = envs.make(PROBLEMS[problem])
    size = {"H": mdp.horizon, "S": mdp.states, "A": mdp.actions, "M": machines}
    for share in SHARES:
        eps = share * mdp.optimal_value()
        yield (
            theory.mistakes_order(**size, eps=eps, bonus="H"),
            theory.cmbie_mistakes_order(**size, eps=eps),
        )


# ---- tables, figure, words -----------------------------------------------------------------------


def _table(problem: str, counts: Counted) -> PageTable:
    value = envs.make(PROBLEMS[problem]).optimal_value()
    rows = []
    for case, found in counts.items():
        if case.problem == problem:
            row = {"learner": case.learner, "M": f"{case.machines}"}
            for share, count, ongoing in zip(SHARES, found.mistakes, found.ongoing, strict=True):
                row[f"episodes, {share} V*"] = f"{count:,}" + " +" * bool(ongoing > ONGOING)
            for share, count in zip(SHARES, found.alone, strict=True):
                row[f"actions, {share} V*"] = f"{count:,}"
            rows.append(row)
    title = f"{problem}, V* = {value:.3f}: mistakes by episodes and by actions, for each eps"
    still = f"still more than {ONGOING:.0%} of the last tenth of the episodes"
    return PageTable.of(f"{title}; +: {still}", rows)


def _order_table(counts: Counted) -> PageTable:
    rows = []
    for problem in PROBLEMS:
        for M in MACHINES[1:]:
            first, second = list(orders_of(problem, M))[TYPICAL]
            rows.append(
                {
                    "problem": problem,
                    "M": f"{M}",
                    "order of Q-learning": f"{first:.1e}",
                    "order of CMBIE": f"{second:.1e}",
                    **{
                        learner: f"{counts[MistakesCase(problem, learner, M)].mistakes[TYPICAL]:,}"
                        for learner in ("UCB2-H", "CMBIE")
                    },
                }
            )
    title = "The orders, constants and logarithms left out, beside the counts at eps ="
    return PageTable.of(f"{title} {SHARES[TYPICAL]} V*", rows)


def _remarks(counts: Counted) -> list[str]:
    def growth(learner: str) -> str:
        ratios = []
        for problem in PROBLEMS:
            few, many = (
                counts[MistakesCase(problem, learner, M)].mistakes[TYPICAL]
                for M in (SOME, MACHINES[-1])
            )
            ratios.append(many / max(1, few))
        return f"{min(ratios):.1f} to {max(ratios):.1f}"

    return [
        (
            "The paper compares worst-case orders, and in these Q-learning is ahead. On the"
            " problems here, at the same practical scale, CMBIE makes far fewer mistakes: it uses"
            " what every machine played, plans with all of it, and throws nothing away."
        ),
        (
            f"From {SOME} to {MACHINES[-1]} machines, at eps = {SHARES[TYPICAL]} V*, mistakes grow"
            f" {growth('UCB2-H')} fold for UCB2-H: poor policies are changed after nearly every"
            " episode, and each change costs a whole round of M episodes. They grow"
            f" {growth('CMBIE')} fold for CMBIE, from the far smaller count of a few rounds."
        ),
        (
            "A count with + is still growing, and what it would come to is cut short, the power of"
            " 1 / eps with it; the others hardly grow any more. At its provable scale, c = 1,"
            " UCB2-H makes mistakes in most episodes at small eps: its count says how long the run"
            " was."
        ),
        (
            "The appendix concludes that an eps-optimal policy makes no mistake. That holds by"
            " episodes, not by actions: such a policy may take single actions that lose more than"
            " eps, in states that it hardly meets, and so goes on making mistakes by actions."
        ),
        (
            f"CMBIE on {SLOW[0]} is left out for M = {SLOW[1]}: it would plan anew after every"
            " episode."
        ),
    ]


def _figure(counts: Counted) -> Figure:
    figure = report.blank_figure(10, 6.6)
    panels = figure.subplots(2, len(PROBLEMS), sharey="col", squeeze=False)
    for (above, below), problem in zip(panels.T, PROBLEMS, strict=True):
        for learner in LEARNERS:
            by_machines = {
                M: counts[MistakesCase(problem, learner, M)].mistakes
                for M in MACHINES
                if MistakesCase(problem, learner, M) in counts
            }
            typical = [found[TYPICAL] for found in by_machines.values()]
            style = _style(learner)
            above.plot(SHARES, report.positive(by_machines[SOME]), label=learner, **style)
            below.plot(list(by_machines), report.positive(typical), **style)
        for axes, label, what in (
            (above, "eps / V*", f"M = {SOME}"),
            (below, "machines M", f"eps = {SHARES[TYPICAL]} V*"),
        ):
            report.dress(axes, log="xy")
            axes.set_xlabel(label)
            axes.set_title(f"{problem}, {what}", fontsize=10)
        above.set_xticks(SHARES, [f"{share:g}" for share in SHARES])
        above.set_xticks([], minor=True)
        above.set_xlim(0.8 * min(SHARES), 1.25 * max(SHARES))
        report.count_from_one(below, "x", MACHINES[-1])
    for axes in panels.flat:
        axes.set_ylabel("mistakes (actions)")
    report.legend_below(figure, panels[0][0], columns=5)
    return figure


def _style(learner: str) -> dict[str, Any]:
    """The line and the marker of a learner; at its provable scale they are dotted and hollow."""
    name, _, provable = learner.partition(", ")
    i = [label for label in LEARNERS if "," not in label].index(name)
    line = report.line_style(i) | {"marker": "os^"[i], "markersize": 4}
    return line | ({"linestyle": ":", "markerfacecolor": "white"} if provable else {})
