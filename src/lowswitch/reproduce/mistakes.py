"""The mistake bound of section 4: how many actions M machines waste before they play well, against concurrent MBIE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import concurrent, envs, report, theory
from lowswitch.algorithms import Algorithm, ucb2_bernstein, ucb2_hoeffding
from lowswitch.history import History
from lowswitch.mdp import TabularMDP
from lowswitch.regret import deployment_gaps
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import Check, Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MACHINES = (1, 10, 100)
SHARES = (0.5, 0.2, 0.1, 0.05)  # eps over V*
TYPICAL = SHARES.index(0.1)
LEARNERS: dict[str, Algorithm | float] = {  # a number is the c of CMBIE
    "UCB2-H": ucb2_hoeffding(c=SCALE),
    "UCB2-B": ucb2_bernstein(c=SCALE),
    "CMBIE": SCALE,
    "UCB2-H, c = 1": ucb2_hoeffding(c=1.0),
    "CMBIE, c = 1": 1.0,
}
PRACTICAL = ("UCB2-H", "UCB2-B")
SLOW = ("random (20, 4, 10)", 1)  # problem and machines: CMBIE plans after every round
MOST_EXPONENT = {"UCB2-H": 2.0, "UCB2-B": 2.0, "CMBIE": 3.0}  # of 1 / eps, in the orders
ONGOING = 0.05  # of the last tenth of the episodes


class Case(NamedTuple):
    problem: str
    learner: str
    machines: int


class Counts(NamedTuple):
    """Actions of all machines, what was thrown away included, for each eps."""

    mistakes: np.ndarray  # [E]  in episodes whose policy is more than eps below the optimum
    alone: np.ndarray  # [E]  that lose more than eps by themselves
    policies: np.ndarray  # [E]  deployed, more than eps below the optimum
    ongoing: np.ndarray  # [E]  share of the last tenth of the episodes that are mistakes


def mistakes(lab: Lab) -> Section:
    episodes = lab.size.episodes // 10
    counts = _count_all(lab, episodes)
    lasting = {problem: _lasting(lab, problem, episodes) for problem in PROBLEMS}
    return Section(
        name="mistakes",
        title="Mistakes of M machines: the order is better than CMBIE's, the practice is not (section 4)",
        claim="Concurrent Q-learning performs an eps-optimal action on all but O~(H^4 S A M + H^6 S A / eps^2) actions (H^5 with Bernstein); "
        "concurrent MBIE has O~(H^3 S A M / eps + H^8 S^2 A / eps^3), which is worse in eps, in H and in S.",
        method=f'K = {episodes:,} kept episodes, seed 0, Q-learning under "switch", c = {SCALE} unless said otherwise; CMBIE with a model for '
        "each step, planned anew after every round, its confidence intervals scaled by c, of which 1 is provable. Counted are the actions of "
        "all machines, in episodes that are thrown away too, as the paper counts them; by episodes: all H actions of an episode whose policy "
        "is more than eps below the optimum; by actions: those that lose more than eps by themselves. The paper compares orders; here is what "
        "is measured.",
        checks=[_growth_check(counts), *_exponent_checks(counts), *_winner_checks(counts), _lasting_check(lasting)],
        tables=[*(_table(problem, counts) for problem in PROBLEMS), _order_table(counts), _lasting_table(lasting)],
        figures={"mistakes": _figure(counts)},
        captions={
            "mistakes": f"Mistakes by episodes: above with {MACHINES[1]} machines against eps / V*, below at eps = {SHARES[TYPICAL]} V* against "
            "the number of machines. A count of 0 has no point."
        },
        remarks=_remarks(counts),
        numbers={
            "episodes": episodes,
            "shares": SHARES,
            "counts": [
                case._asdict() | {name: array.tolist() for name, array in found._asdict().items()} for case, found in counts.items()
            ],
        },
    )


# ---- the counts ------------------------------------------------------------------------------------------------------


def _cases() -> Iterator[Case]:
    for problem in PROBLEMS:
        for learner, algorithm in LEARNERS.items():
            yield from (Case(problem, learner, M) for M in MACHINES if isinstance(algorithm, Algorithm) or (problem, M) != SLOW)


def _count_all(lab: Lab, episodes: int) -> dict[Case, Counts]:
    cases = list(_cases())

    def compute(place: int) -> dict[str, np.ndarray]:
        case = cases[place]
        mdp = envs.make(PROBLEMS[case.problem])
        return _count(mdp, _play(mdp, LEARNERS[case.learner], episodes, case.machines))._asdict()

    configurations = [[PROBLEMS[case.problem], _facts(LEARNERS[case.learner]), episodes, case.machines, SHARES] for case in cases]
    found = lab.each("mistakes", configurations, compute, episodes=episodes)
    return {case: Counts(**arrays) for case, arrays in zip(cases, found, strict=True)}


def _facts(learner: Algorithm | float) -> Any:
    return learner.to_dict() if isinstance(learner, Algorithm) else learner


def _play(mdp: TabularMDP, learner: Algorithm | float, episodes: int, machines: int) -> concurrent.ConcurrentRun | concurrent.MbieRun:
    if isinstance(learner, Algorithm):
        return concurrent.run(mdp, learner, episodes, machines=machines, rule="switch", regret=False, progress=False)
    return concurrent.mbie(mdp, episodes=episodes, machines=machines, c=learner, progress=False)


def _count(mdp: TabularMDP, run: concurrent.ConcurrentRun | concurrent.MbieRun) -> Counts:
    levels = [share * mdp.optimal_value() for share in SHARES]
    gaps = deployment_gaps(mdp, _history(run), initial=run.initial)
    ends = np.cumsum(run.played_under)
    late = np.diff(np.maximum(ends, 0.9 * ends[-1]), prepend=0.9 * ends[-1]) / (0.1 * ends[-1])  # of the last tenth, under each policy
    return Counts(
        mistakes=np.array([run.mistakes(mdp, eps) for eps in levels]),
        alone=np.array([run.suboptimal_actions(mdp, eps) for eps in levels]),
        policies=np.array([np.count_nonzero(gaps > eps) for eps in levels]),
        ongoing=np.array([late[gaps > eps].sum() for eps in levels]),
    )


def _history(run: concurrent.ConcurrentRun | concurrent.MbieRun) -> History:
    if isinstance(run, concurrent.MbieRun):
        return run.history
    return (run.history or ())[0]


# ---- the rules -------------------------------------------------------------------------------------------------------


def _growth_check(counts: Mapping[Case, Counts]) -> Check:
    """Under a poor policy L episodes become at most L + M - 1."""
    shares = []
    for case, found in counts.items():
        if isinstance(LEARNERS[case.learner], Algorithm):
            alone = counts[case._replace(machines=1)]
            most = alone.mistakes + envs.make(PROBLEMS[case.problem]).horizon * (case.machines - 1) * alone.policies
            shares.append(np.max(found.mistakes / np.maximum(most, 1)))
    return Check(
        "Q-learning: M machines make at most the mistakes of one, and H (M - 1) for each policy more than eps below the optimum: the M term "
        "and the eps term of the order",
        f"at most {max(shares):.3f} of it",
        bool(max(shares) <= 1),
    )


def _exponent_checks(counts: Mapping[Case, Counts]) -> list[Check]:
    problem = next(iter(PROBLEMS))
    return [
        Check(
            f"{problem}, {learner}: with {MACHINES[1]} machines mistakes grow no faster than (1 / eps)^{most:.0f}, the order's power, from "
            f"{SHARES[0]} V* to {SHARES[-1]} V*",
            f"{(power := _exponent(counts[Case(problem, learner, MACHINES[1])].mistakes)):.2f}",
            power <= most,
        )
        for learner, most in MOST_EXPONENT.items()
    ]


def _exponent(found: np.ndarray) -> float:
    """The slope of log mistakes against log 1 / eps, where there are any."""
    some = found > 0
    if some.sum() < 2:
        return float("nan")
    return float(np.polyfit(-np.log(np.array(SHARES)[some]), np.log(found[some]), 1)[0])


def _winner_checks(counts: Mapping[Case, Counts]) -> list[Check]:
    """The orders put Q-learning first, the counts CMBIE."""
    small = slice(TYPICAL, None)
    ratios = np.array([
        counts[case._replace(learner=learner)].mistakes[small] / np.maximum(found.mistakes[small], 1)
        for case, found in counts.items() if case.learner == "CMBIE" for learner in PRACTICAL
    ])  # fmt: skip
    orders = [first / second for problem in PROBLEMS for M in MACHINES for first, second in _orders(problem, M)]
    return [
        Check(
            "by the paper's orders Q-learning makes fewer mistakes, every problem, M and eps",
            f"{min(orders):.1g} to {max(orders):.1g} of CMBIE's",
            max(orders) < 1,
        ),
        Check(
            f"measured at the same scale c = {SCALE} CMBIE makes fewer, every problem and M, eps at most {SHARES[TYPICAL]} V*",
            f"{ratios.min():,.0f} to {ratios.max():,.0f} times fewer than UCB2-H and UCB2-B",
            bool(ratios.min() > 1),
        ),
    ]


def _orders(problem: str, machines: int) -> Iterator[tuple[float, float]]:
    """The paper's two orders of mistakes, Q-learning's with Hoeffding, for each eps."""
    mdp = envs.make(PROBLEMS[problem])
    size = {"H": mdp.horizon, "S": mdp.states, "A": mdp.actions, "M": machines}
    for share in SHARES:
        eps = share * mdp.optimal_value()
        yield theory.mistakes_order(**size, eps=eps, bonus=ucb2_hoeffding().bonus), theory.cmbie_mistakes_order(**size, eps=eps)
