"""How far the theorems reach: the linear speed-up, the factor 1 / eps to CMBIE, the burn-in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lowswitch.reproduce.burn_in import burn_in_finding, burn_in_table, measure_burn_ins
from lowswitch.reproduce.grades import Check, Finding, Grade
from lowswitch.reproduce.knee import knee_finding, knee_table, knees_of
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.mistakes import (
    COMPARED,
    ONGOING,
    SHARES,
    Counted,
    MistakeCounts,
    MistakesCase,
    count_all,
    orders_of,
)
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.runs.results import known
from lowswitch.show.text import span

SCENES = {"one state": "c = 1; c1 = 1, c2 = 2", "practical": f"c = {SCALE}"}
LEAST_FACTOR = 0.5  # the exponent in 1 / eps of CMBIE's mistakes over Q-learning's; claimed is 1
LEAST_SETTLED = 3  # values of eps


def reach(lab: Lab) -> Section:
    """What the paper says of M, eps and T, measured."""
    found = {scene: knees_of(lab, scene) for scene in SCENES}
    episodes = lab.effort.episodes // 10
    growth = {model: factors(count_all(lab, episodes), model) for model in COMPARED}
    burn_ins = measure_burn_ins(lab)
    return Section(
        name="reach",
        title="Reach: how far the speed-up is linear, the factor 1 / eps, and the burn-in",
        claim=(
            r"The speed-up is linear as long as $M = \tilde{O}(H^2 / \eps^2)$ ($H / \eps^2$ with"
            r" Bernstein), and the mistake bound is better than that of concurrent MBIE by a factor"
            r" of $1 / \eps$: section 4. Theorem 3 holds from $T = \tilde{\Omega}(H^6 S^2 A^2)$ on."
        ),
        method=(
            "The knee is the largest M whose speed-up, until the mixture of all policies is"
            " eps-optimal, is at least M / 2. eps begins at half of what uniform play loses and"
            " shrinks by the root of 2 as long as every seed reaches it; it counts once ten"
            " policies were played until then. Intervals are Student's over the seeds. Mistakes"
            " are counted as in the claim `mistakes`. Only eps at which both counts have settled"
            f" are used: at most {ONGOING:.0%} of the last tenth of the episodes are mistakes. The"
            " burn-in ends where the regret of UCB2-B over the root of the steps is largest."
        ),
        findings=[
            *(knee_finding(lab, scene, each) for scene, each in found.items()),
            *(_factor_finding(each, model, episodes) for model, each in growth.items()),
            burn_in_finding(lab, burn_ins),
        ],
        tables=[
            knee_table({SCENES[scene]: each for scene, each in found.items()}),
            _table([row for each in growth.values() for row in each]),
            burn_in_table(burn_ins),
        ],
        remarks=[
            (
                r"With n deployments before episode K, the knee lies between K / (n + 1) and twice"
                r" that. Where gaps are fixed, K grows like 1 / eps up to logarithms once eps is"
                " small, and so does the knee: the claim compares upper bounds."
            ),
        ],
        numbers={
            "knees": {
                scene: {
                    learner: {
                        problem: {name: value.tolist() for name, value in each._asdict().items()}
                        for problem, each in problems.items()
                    }
                    for learner, problems in learners.items()
                }
                for scene, learners in found.items()
            },
            "factors": [
                row._asdict()
                | {name: known(getattr(row, name)) for name in ("own", "other", "ratio")}
                for each in growth.values()
                for row in each
            ],
            "burn_in": {
                str(H): steps if np.isfinite(steps) else None for H, steps in burn_ins.items()
            },
        },
        folded=True,
    )


class Factor(NamedTuple):
    """How mistakes grow with 1 / eps on one problem, as exponents; NaN for too few settled eps."""

    problem: str
    learner: str
    model: str
    machines: int
    settled: int  # values of eps at which both counts have settled
    own: float  # of Q-learning's mistakes
    other: float  # of CMBIE's
    ratio: float  # of CMBIE's over Q-learning's
    order: float  # of the ratio of the paper's orders


def factors(counts: Counted, model: str) -> list[Factor]:
    """The exponents of mistakes in 1 / eps, for every problem and number of machines."""
    return [
        _factor(counts, case, learner)
        for case in counts
        if case.learner == model
        for learner in COMPARED[model]
    ]


def _factor(counts: Counted, case: MistakesCase, learner: str) -> Factor:
    settled, slopes = slopes_of(counts[case._replace(learner=learner)], counts[case], SHARES)
    orders = np.array([other / own for own, other in orders_of(case.problem, case.machines)])
    order = float(np.polyfit(-np.log(SHARES), np.log(orders), 1)[0])
    own, other, ratio = slopes
    return Factor(
        case.problem, learner, case.learner, case.machines, settled, own, other, ratio, order
    )


def slopes_of(
    own: MistakeCounts, other: MistakeCounts, shares: Sequence[float]
) -> tuple[int, list[float]]:
    """How many eps have settled counts, and the slopes in log 1 / eps of the log of our mistakes,
    of the other learner's and of its mistakes over ours.
    """
    settled = np.ones(len(shares), dtype=bool)
    for count in (own, other):
        settled &= (count.ongoing <= ONGOING) & (count.mistakes > 0)
    if settled.sum() < LEAST_SETTLED:
        return int(settled.sum()), [float("nan")] * 3
    logs = [np.log(count.mistakes[settled]) for count in (own, other)]
    inverse = -np.log(np.array(shares)[settled])
    slopes = np.polyfit(inverse, np.array([*logs, logs[1] - logs[0]]).T, 1)[0]
    return int(settled.sum()), slopes.tolist()


def _factor_finding(rows: list[Factor], model: str, episodes: int) -> Finding:
    ratios = [row.ratio for row in rows if row.settled >= LEAST_SETTLED]
    orders = [row.order for row in rows]
    proved = model.endswith("c = 1")
    found = f"{span(ratios)} in {len(ratios)} of {len(rows)} cases" if ratios else "nothing settled"
    return Finding(
        says=r"mistakes better than CMBIE's by a factor of $1 / \eps$",
        scale="c = 1" if proved else f"c = {SCALE}",
        length=f"K = {episodes:,}",
        problems=", ".join(PROBLEMS),
        proved=proved,
        found=f"exponents of the ratio: {found}",
        refuted=Grade.REVERSED,
        checks=[
            Check(
                "the ratio of the paper's orders grows with an exponent of at least"
                f" {LEAST_FACTOR} in 1 / eps, every problem and M",
                span(orders),
                min(orders) >= LEAST_FACTOR,
                consistency=True,
            ),
            Check(
                f"at least {LEAST_SETTLED} of {len(SHARES)} values of eps have settled counts, in"
                " some case",
                f"in {len(ratios)} of {len(rows)} cases",
                bool(ratios),
            ),
            Check(
                "CMBIE's mistakes over Q-learning's grow with an exponent of at least"
                f" {LEAST_FACTOR} in 1 / eps, in every such case; the claim has 1",
                span(ratios) if ratios else "-",
                not ratios or min(ratios) >= LEAST_FACTOR,
                always=True,
            ),
        ],
    )


def _table(rows: list[Factor]) -> PageTable:
    return PageTable.of(
        "Exponents of mistakes in 1 / eps; the paper's orders have 2 and 3",
        [
            {
                "problem": row.problem,
                "learner": row.learner,
                "against": row.model,
                "M": f"{row.machines}",
                "settled eps": f"{row.settled} of {len(SHARES)}",
                "Q-learning": _number(row.own),
                "CMBIE": _number(row.other),
                "ratio": _number(row.ratio),
                "ratio of the orders": f"{row.order:.2f}",
            }
            for row in rows
        ],
    )


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
