"""From how many steps on the regret of Theorem 3 grows no faster than a root: its burn-in."""

from __future__ import annotations

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.recipes import ucb2_bernstein
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import SCALE
from lowswitch.reproduce.section import PageTable
from lowswitch.runs.results import Runs
from lowswitch.show.text import span

HORIZONS = (2, 3, 5, 10, 20)
STATES, ACTIONS = 3, 2
MOST_EXPONENT = 6.0  # of the burn-in in H
LEAST_OVER = 3  # horizons at which it is over in most runs

BurnIns = dict[int, float]  # steps by horizon; infinite where it goes on in half of the runs


def burn_ins(runs: Runs) -> np.ndarray:  # [seeds]
    """The steps after which regret over the root of the steps is largest, infinite at the end.

    From then on regret grows more slowly than the root.
    """
    episodes = runs.curves.episodes
    place = (runs.curves.regret / np.sqrt(episodes)).argmax(axis=1)
    return np.where(place < len(episodes) - 1, runs.horizon * episodes[place], np.inf)


def measure_burn_ins(lab: Lab) -> BurnIns:
    """The median burn-in of UCB2-B on random problems of different horizons."""
    found = {}
    for H in HORIZONS:
        text = f"random-mdp:states={STATES},actions={ACTIONS},horizon={H}"
        runs = lab.runs(text, ucb2_bernstein(c=SCALE), episodes=max(1, lab.effort.episodes // 10))
        found[H] = float(np.median(burn_ins(runs)))
    return found


def burn_in_finding(lab: Lab, found: BurnIns) -> Finding:
    """Whether the burn-in grows no faster in H than the theorem's."""
    over = {H: steps for H, steps in found.items() if np.isfinite(steps)}
    slope = float("nan")
    if len(over) >= LEAST_OVER:
        slope = float(np.polyfit(np.log(list(over)), np.log(list(over.values())), 1)[0])
    grows = "too few for an exponent" if np.isnan(slope) else f"exponent {slope:.2f} in H"
    return Finding(
        says=r"burn-in: from about $T = H^6 S^2 A^2$ steps on, regret grows at most like a root",
        scale=f"c = {SCALE}",
        length=f"K = {max(1, lab.effort.episodes // 10):,}",
        problems=f"random (3, 2, H), H = {span(HORIZONS, 'd')}",
        proved=False,
        found=f"over at {len(over)} of {len(found)} horizons; {grows}",
        checks=[
            Check(
                rf"regret over $\sqrt{{T}}$ has its largest value before the end in most runs, at"
                f" {LEAST_OVER} horizons or more",
                ", ".join(f"H = {H}" for H in over) or "at none",
                len(over) >= LEAST_OVER,
            ),
            Check.at_most(
                "the number of steps until then grows with an exponent of at most"
                f" {MOST_EXPONENT:g} in H",
                slope,
                MOST_EXPONENT,
            ),
        ],
    )


def burn_in_table(found: BurnIns) -> PageTable:
    """The burn-ins beside the theorem's order."""
    return PageTable.of(
        "Steps until the regret of UCB2-B over the root of the steps is largest, medians",
        [
            {
                "H": f"{H}",
                "steps": f"{steps:,.0f}" if np.isfinite(steps) else "not over",
                "H^6 S^2 A^2": f"{theory.bernstein_burn_in_order(H=H, S=STATES, A=ACTIONS):,}",
            }
            for H, steps in found.items()
        ],
    )
