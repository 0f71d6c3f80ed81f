"""How many machines a run can use before they stop helping: what the paper says after Theorem 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.estimators import Bernstein
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import LEARNERS, history_of, phase_lengths
from lowswitch.reproduce.pac_claim import SEEDS
from lowswitch.reproduce.qlearning import ONE_STATE, PROBLEMS, SCALE, problem_list, runs_of
from lowswitch.reproduce.section import PageTable
from lowswitch.runs.results import Runs
from lowswitch.show import report
from lowswitch.show.text import span

LEAST_EXPONENT = 1.5  # of the knee in 1 / eps; the claim has 2
LEAST_EPS = 4  # so many values of eps must be reached
LEAST_PHASES = 10  # so many policies must be played until then
STEPS = 24  # eps is the loss of uniform play over sqrt(2)^2, sqrt(2)^3, ...
CANDIDATES = 100  # numbers of machines that are tried


def knee(lengths: np.ndarray) -> int:
    """The largest number of machines M whose speed-up is at least M / 2.

    On M machines a phase of L episodes takes ceil(L / M) rounds (Bai et al. 2019, proof of Theorem
    5), so the speed-up is K over the sum of ceil(L / M). For n phases the knee lies between K / n
    and 2 K / n, because the sum is at most K / M + n (M - 1) / M and at least n. In between, up to
    100 numbers are tried.
    """
    K, n = int(lengths.sum()), len(lengths)
    tried = np.unique(np.geomspace(max(1.0, K / n), 2 * K / n, CANDIDATES).astype(int))
    rounds = np.array([-(-lengths // M).sum() for M in tried])
    return int(tried[tried * rounds <= 2 * K].max())


def episodes_until(runs: Runs, seed: int, eps: float) -> int | None:
    """The first point of the curves from which on the mixture is eps-optimal, if there is one."""
    episodes = runs.curves.episodes
    above = np.flatnonzero(runs.curves.regret[seed] > eps * episodes)
    place = above[-1] + 1 if len(above) else 0
    return int(episodes[place]) if place < len(episodes) else None


class Knees(NamedTuple):
    """The knee of each run for smaller and smaller eps, as far as all seeds get.

    A larger eps, reached by some seed with fewer than ten policies, is left out: where nothing is
    deployed, any number of machines helps.
    """

    eps: np.ndarray  # [E]
    episodes: np.ndarray  # [E, seeds]  until the mixture is eps-optimal
    machines: np.ndarray  # [E, seeds]
    order: np.ndarray  # [E]  H^2 / eps^2, or H / eps^2 with Bernstein

    @property
    def exponents(self) -> np.ndarray:  # [seeds]
        """The slope of the log of the knee in log 1 / eps; NaN for too few eps."""
        if len(self.eps) < LEAST_EPS:
            return np.full(self.machines.shape[1], np.nan)
        return np.asarray(np.polyfit(-np.log(self.eps), np.log(self.machines), 1)[0])


def knees(runs: Runs) -> Knees:
    """The knees of runs with histories."""
    uniform = runs.optimal_value - runs.uniform_value
    eps, episodes, machines = [], [], []
    for value in uniform / np.sqrt(2) ** np.arange(2, 2 + STEPS):
        until = [episodes_until(runs, seed, value) for seed in range(len(runs.seeds))]
        counts = [K for K in until if K is not None]
        if len(counts) < len(until):
            break
        phases = [phase_lengths(history_of(runs, i), K) for i, K in enumerate(counts)]
        if min(map(len, phases)) >= LEAST_PHASES:
            eps.append(value)
            episodes.append(counts)
            machines.append([knee(lengths) for lengths in phases])
    shape = len(eps), len(runs.seeds)
    bonus: theory.Bonus = "B" if isinstance(runs.algorithm.bonus, Bernstein) else "H"
    return Knees(
        np.array(eps),
        np.array(episodes, dtype=int).reshape(shape),
        np.array(machines, dtype=int).reshape(shape),
        np.array([theory.linear_machines_order(H=runs.horizon, eps=e, bonus=bonus) for e in eps]),
    )


# ---- what is found -------------------------------------------------------------------------------


Found = Mapping[str, Mapping[str, Knees]]  # by learner and problem


def knees_of(lab: Lab, scene: str) -> Found:
    """The knees at the scale of the proof on one state, or at a practical scale."""
    if scene == "one state":
        learners = [*LEARNERS, "UCB-H"]
        runs = {label: runs_of(lab, label, scene) for label in learners}
    else:
        size = {"episodes": lab.effort.episodes // 4, "seeds": SEEDS}  # as in Corollary 4
        runs = {
            label: {
                problem: lab.runs(text, recipe(c=SCALE), history=True, **size)
                for problem, text in PROBLEMS.items()
            }
            for label, recipe in LEARNERS.items()
        }
    return {
        label: {problem: knees(each) for problem, each in row.items()}
        for label, row in runs.items()
    }


def knee_finding(lab: Lab, scene: str, found: Found) -> Finding:
    """Whether the knee grows as the paper says."""
    proved = scene == "one state"
    rows = {
        f"{label}, {problem}": each for label in LEARNERS for problem, each in found[label].items()
    }
    slopes = {name: each.exponents for name, each in rows.items()}
    means = [float(slope.mean()) for slope in slopes.values()]
    known = [mean for mean in means if not np.isnan(mean)]
    checks = [
        Check(
            f"at least {LEAST_EPS} values of eps, each smaller by the root of 2, are reached with"
            f" {LEAST_PHASES} policies or more, on every problem",
            "; ".join(f"{name}: {len(each.eps)}" for name, each in rows.items()),
            all(len(each.eps) >= LEAST_EPS for each in rows.values()),
        ),
        Check(
            f"the knee grows with an exponent of at least {LEAST_EXPONENT} in 1 / eps, on every"
            " problem; the claim has 2",
            "; ".join(f"{name}: {report.mean_and_interval(s)}" for name, s in slopes.items()),
            bool(np.min(means) >= LEAST_EXPONENT),  # NaN where too few eps are reached
        ),
    ]
    if proved:
        shares = {problem: _baseline_share(found, problem) for problem in found["UCB-H"]}
        checks.append(
            Check(
                "UCB-H, which may switch at every visit, has at most half the knee of UCB2-H at"
                " the smallest eps, on some problem",
                "; ".join(f"{problem}: {share:.3f}" for problem, share in shares.items()),
                min(shares.values()) <= 0.5,
                sharpness=True,
            )
        )
    some = [each for each in rows.values() if len(each.eps)]
    most = span((float(each.machines[-1].mean()) for each in some), ",.0f") if some else "no"
    grows = f"exponents {span(known)} in 1 / eps" if known else "too few eps reached"
    times = 10 * lab.effort.proof_episodes if proved else lab.effort.episodes // 4
    return Finding(
        says=r"the speed-up is linear up to about $1 / \eps^2$ machines: the knee",
        scale="c = 1; c1 = 1, c2 = 2" if proved else f"c = {SCALE}",
        length=f"K = {times:,}",
        problems=problem_list(ONE_STATE if proved else PROBLEMS),
        proved=proved,
        constants_known=False,  # half of the runs have Bernstein's bonus
        found=f"{grows}; {most} machines at the smallest eps",
        checks=checks,
    )


def _baseline_share(found: Found, problem: str) -> float:
    """The knee of the every-visit learner over that of UCB2, at the smallest eps of both."""
    every, rare = (found[label][problem].machines for label in ("UCB-H", "UCB2-H"))
    last = min(len(every), len(rare)) - 1
    return float(every[last].mean() / rare[last].mean()) if last >= 0 else float("nan")


def knee_table(found: Mapping[str, Found]) -> PageTable:
    """The knees at the largest and the smallest eps."""
    rows = []
    for scene, learners in found.items():
        for label, problems in learners.items():
            for problem, each in problems.items():
                row = {"scale": scene, "learner": label, "problem": problem}
                for name, place in (("largest", 0), ("smallest", -1)):
                    row |= _at(each, name, place)
                rows.append(row | {"exponent": report.mean_and_interval(each.exponents)})
    title = (
        "The knee: the largest number of machines M whose speed-up is at least M / 2; in"
        " parentheses over H^2 / eps^2, with Bernstein H / eps^2"
    )
    return PageTable.of(title, rows)


def _at(each: Knees, name: str, place: int) -> dict[str, str]:
    """The cells about one eps, if any was reached."""
    header = (f"{name} eps", f"episodes, {name} eps", f"knee, {name} eps")
    if not len(each.eps):
        return dict.fromkeys(header, "-")
    machines = each.machines[place].mean()
    cells = (
        f"{each.eps[place]:.2g}",
        f"{each.episodes[place].mean():,.0f}",
        f"{machines:,.0f} ({machines / each.order[place]:.2g})",
    )
    return dict(zip(header, cells, strict=True))
