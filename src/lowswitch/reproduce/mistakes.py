"""The mistake bound of section 4: how many actions M machines waste before they play well, and how
many concurrent MBIE wastes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import concurrent, envs, report, storage, theory
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.history import deployment_gaps
from lowswitch.problems.mdp import TabularMDP
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import RIVER, history_of, sequential_runs
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import Check, Section, Table

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
MOST_EXPONENT = {"UCB2-H": 2.0, "UCB2-B": 2.0, "CMBIE": 3.0}  # of 1 / eps, in the orders
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
    counts = _count_all(lab, episodes)
    near_optimal = {problem: _near_optimal(lab, problem) for problem in PROBLEMS}
    return Section(
        name="mistakes",
        title=(
            "Mistakes of M machines: the order is better than CMBIE's, the practice is not"
            " (section 4)"
        ),
        claim=(
            "Concurrent Q-learning performs an eps-optimal action on all but O~(H^4 S A M + H^6 S A"
            " / eps^2) actions (H^5 with Bernstein); concurrent MBIE has O~(H^3 S A M / eps + H^8"
            " S^2 A / eps^3), which is worse in eps, in H and in S."
        ),
        method=(
            f'K = {episodes:,} kept episodes, seed 0. Q-learning under "switch"; CMBIE with a model'
            f" for each step, planned anew after every round. c = {SCALE}, of the bonus or of the"
            " confidence intervals, unless said otherwise; 1 is provable. Counted as in the paper"
            " are the actions of all machines, in episodes that are thrown away too. By episodes:"
            " all H actions of an episode whose policy is more than eps below the optimum. By"
            " actions: those that lose more than eps by themselves."
        ),
        checks=[
            _growth_check(counts),
            *_exponent_checks(counts),
            *_winner_checks(counts),
            _near_optimal_check(near_optimal),
        ],
        tables=[
            *(_table(problem, counts) for problem in PROBLEMS),
            _order_table(counts),
            _near_optimal_table(near_optimal),
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


def _count_all(lab: Lab, episodes: int) -> Counted:
    cases = list(_cases())

    def compute(place: int) -> MistakeCounts:
        case = cases[place]
        mdp = envs.make(PROBLEMS[case.problem])
        return _count(mdp, _play(mdp, LEARNERS[case.learner], episodes, case.machines))

    configurations = [
        [PROBLEMS[case.problem], _facts(LEARNERS[case.learner]), episodes, case.machines, SHARES]
        for case in cases
    ]
    found = lab.measure_each("mistakes", configurations, compute, MistakeCounts, episodes=episodes)
    return dict(zip(cases, found, strict=True))


def _facts(learner: Algorithm | float) -> Any:
    return learner.to_dict() if isinstance(learner, Algorithm) else learner


def _play(
    mdp: TabularMDP, learner: Algorithm | float, episodes: int, machines: int
) -> concurrent.ConcurrentRun:
    if isinstance(learner, Algorithm):
        return concurrent.run(
            mdp, learner, episodes, machines=machines, rule="switch", regret=False, progress=False
        )
    return concurrent.mbie(mdp, episodes=episodes, machines=machines, c=learner, progress=False)


def _count(mdp: TabularMDP, run: concurrent.ConcurrentRun) -> MistakeCounts:
    levels = [share * mdp.optimal_value() for share in SHARES]
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


def _growth_check(counts: Counted) -> Check:
    """The L episodes of one machine under a poor policy become at most L + M - 1."""
    shares = []
    for case, found in counts.items():
        if isinstance(LEARNERS[case.learner], Algorithm):
            alone, H = counts[case._replace(machines=1)], envs.make(PROBLEMS[case.problem]).horizon
            most = alone.mistakes + H * (case.machines - 1) * alone.policies
            shares.append(np.max(found.mistakes / np.maximum(most, 1)))
    return Check.at_most(
        "Q-learning: M machines make at most the mistakes of one, the eps term of the order, and H"
        " (M - 1) more for each policy that is more than eps below the optimum, the M term",
        max(shares),
        1,
        "at most {:.3f} of it",
    )


def _exponent_checks(counts: Counted) -> list[Check]:
    return [
        Check.at_most(
            f"{RIVER}, {learner}: with {SOME} machines mistakes grow no faster than (1 /"
            f" eps)^{most:.0f}, the order's power, from {SHARES[0]} V* to {SHARES[-1]} V*",
            _exponent(counts[MistakesCase(RIVER, learner, SOME)].mistakes),
            most,
        )
        for learner, most in MOST_EXPONENT.items()
    ]


def _exponent(found: np.ndarray) -> float:
    """The slope of log mistakes against log 1 / eps, over those eps that have any mistakes."""
    some = found > 0
    if some.sum() < 2:
        return float("nan")
    return float(np.polyfit(-np.log(np.array(SHARES)[some]), np.log(found[some]), 1)[0])


def _winner_checks(counts: Counted) -> list[Check]:
    """By the orders Q-learning makes fewer mistakes, by the counts CMBIE does."""
    orders = [
        first / second
        for problem in PROBLEMS
        for M in MACHINES
        for first, second in _orders(problem, M)
    ]
    ahead = Check(
        "by the paper's orders Q-learning makes fewer mistakes, every problem, M and eps",
        f"{min(orders):.1g} to {max(orders):.1g} of CMBIE's",
        max(orders) < 1,
    )
    return [ahead, *(_fewer_check(counts, model, learners) for model, learners in COMPARED.items())]


def _fewer_check(counts: Counted, model: str, learners: Sequence[str]) -> Check:
    ratios = []
    for case in (case for case in counts if case.learner == model):
        few = counts[case].mistakes[TYPICAL:]
        for learner in learners:
            many = counts[case._replace(learner=learner)].mistakes[TYPICAL:]
            ratios += (many / np.maximum(few, 1))[(many > 0) | (few > 0)].tolist()
    return Check(
        f"measured, {model} makes fewer than {' and '.join(learners)}, every problem and M, eps at"
        f" most {SHARES[TYPICAL]} V*",
        f"{min(ratios):,.1f} to {max(ratios):,.1f} times fewer",
        min(ratios) > 1,
    )


def _orders(problem: str, machines: int) -> Iterator[tuple[float, float]]:
    """The paper's orders of mistakes for each eps: Q-learning's with Hoeffding, then CMBIE's."""
    mdp = envs.make(PROBLEMS[problem])
    size = {"H": mdp.horizon, "S": mdp.states, "A": mdp.actions, "M": machines}
    for share in SHARES:
        eps = share * mdp.optimal_value()
        yield (
            theory.mistakes_order(**size, eps=eps, bonus="H"),
            theory.cmbie_mistakes_order(**size, eps=eps),
        )


# ---- what a near-optimal policy goes on doing ----------------------------------------------------


class NearOptimal(NamedTuple):
    """The first deployed policy within eps of the optimum, and what it does if it is played on."""

    eps: float
    gap: float  # V* - V
    actions: float  # an episode, in the mean, that lose more than eps by themselves


def _near_optimal(lab: Lab, problem: str) -> NearOptimal:
    mdp = envs.make(PROBLEMS[problem])
    runs = sequential_runs(lab, PROBLEMS[problem], ucb2_hoeffding(c=SCALE))
    eps = SHARES[TYPICAL] * mdp.optimal_value()
    history = history_of(runs, 0)
    gaps = deployment_gaps(mdp, history, initial=runs.initial)
    first = int(np.argmax(gaps <= eps))
    policy = runs.initial.copy()
    early = history.changes[history.episode <= np.append(-1, np.unique(history.episode))[first]]
    for _, h, x, a in early:
        policy[h, x] = a
    return NearOptimal(eps, float(gaps[first]), losing_actions(mdp, policy, eps))


def losing_actions(mdp: TabularMDP, policy: np.ndarray, eps: float) -> float:
    """How many actions of an episode lose more than eps by themselves, in the mean.

    It is the value of the policy in a problem that pays 1 for each of them.
    """
    from scipy.sparse import csr_matrix

    laws = csr_matrix(
        (mdp.probabilities, mdp.successors, mdp.offsets), shape=(len(mdp.offsets) - 1, mdp.states)
    )
    losing = mdp.optimal_values[:-1, :, None] - mdp.optimal_q > eps
    return TabularMDP(
        laws, losing.astype(float), start=mdp.start_law, horizon=mdp.horizon
    ).evaluate(policy)


def _near_optimal_check(near_optimal: Mapping[str, NearOptimal]) -> Check:
    return Check(
        f"the first policy within eps = {SHARES[TYPICAL]} V* makes no mistake by episodes, yet on"
        " some problem it takes actions that lose more than eps by themselves; on none more than"
        " (V* - V) / eps an episode, in the mean",
        ", ".join(
            f"{problem} {found.actions:.3f} of {found.gap / found.eps:.3f}"
            for problem, found in near_optimal.items()
        ),
        all(
            found.gap <= found.eps and found.actions <= found.gap / found.eps
            for found in near_optimal.values()
        )
        and any(found.actions > 0 for found in near_optimal.values()),
    )


# ---- tables, figure, words -----------------------------------------------------------------------


def _table(problem: str, counts: Counted) -> Table:
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
    return Table.of(f"{title}; +: {still}", rows)


def _order_table(counts: Counted) -> Table:
    rows = []
    for problem in PROBLEMS:
        for M in MACHINES[1:]:
            first, second = list(_orders(problem, M))[TYPICAL]
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
    return Table.of(f"{title} {SHARES[TYPICAL]} V*", rows)


def _near_optimal_table(near_optimal: Mapping[str, NearOptimal]) -> Table:
    rows = [
        {
            "problem": problem,
            "eps": f"{found.eps:.4f}",
            "V* - V": f"{found.gap:.4f}",
            "actions an episode that lose more than eps": f"{found.actions:.4f}",
            "(V* - V) / eps": f"{found.gap / found.eps:.4f}",
        }
        for problem, found in near_optimal.items()
    ]
    title = f"The first policy of UCB2-H within eps = {SHARES[TYPICAL]} V*: what it goes on doing"
    return Table.of(title, rows)


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
    for axes in panels[:, 0]:
        axes.set_ylabel("mistakes (actions)")
    report.legend_below(figure, panels[0][0], columns=5)
    return figure


def _style(learner: str) -> dict[str, Any]:
    """The line and the marker of a learner; at its provable scale they are dotted and hollow."""
    name, _, provable = learner.partition(", ")
    i = [label for label in LEARNERS if "," not in label].index(name)
    line = report.line_style(i) | {"marker": "os^"[i], "markersize": 4}
    return line | ({"linestyle": ":", "markerfacecolor": "white"} if provable else {})
