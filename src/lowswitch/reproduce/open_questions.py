"""What the paper leaves open, each question with a small table: triggers, r*, clipping, copying,
ties, and the scale c. These are measurements, not claims, and have no grade.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lowswitch import envs
from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.pseudocode import play_plain
from lowswitch.reproduce.qlearning import PROBLEMS, SCALE
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.runs.results import Runs
from lowswitch.show import report

SCALES = (1.0, 0.3, 0.1, 0.05, 0.02, 0.01)
TIES_PROBLEM = "riverswim:states=5,horizon=6"
# few triggers, so that it matters what they copy
COARSE = ucb2_hoeffding(c=SCALE, eta=0.3, r_star=1)


def open_questions(lab: Lab) -> Section:
    """What the paper leaves open, measured."""
    plain, pure, clipped = (
        {name: lab.runs(text, algorithm) for name, text in PROBLEMS.items()}
        for algorithm in (
            ucb2_hoeffding(c=SCALE),
            ucb2_hoeffding(c=SCALE, r_star=1),
            ucb2_hoeffding(c=SCALE, clip="remaining"),
        )
    )
    variants = _variants(lab)
    shared = {
        name: float(runs.local_switches.sum() / runs.triggers.sum()) for name, runs in plain.items()
    }
    return Section(
        name="open",
        title="What the paper leaves open: triggers, r*, clipping, copies, ties, and the scale c",
        claim=(
            "The paper does not say how many triggers change anything, whether the eager first"
            " stage is needed, whether values may be clipped at the steps that remain, how ties are"
            " broken, or what c to use."
        ),
        method=(
            f"UCB2-H with c = {SCALE} unless said otherwise, on the problems of Theorem 2; copies"
            f" and ties with the pseudo-code in plain Python, {COARSE} on {TIES_PROBLEM},"
            f" {lab.effort.plain_episodes:,} episodes, {lab.effort.plain_seeds} seeds."
        ),
        tables=[
            _trigger_table(plain),
            _comparison(
                "r* = 1, pure UCB2, against the theory's r*", "theory's r*", plain, "r* = 1", pure
            ),
            _comparison(
                "Clip at the steps that remain, H - h + 1, against H",
                "clip at H",
                plain,
                "at H - h + 1",
                clipped,
            ),
            PageTable.of(
                "Copies and ties: local switches, mean over the seeds",
                [
                    {"variant": name, "local switches": report.mean_and_interval(switches)}
                    for name, switches in variants.items()
                ],
            ),
            _scale_table(lab),
        ],
        numbers={
            "switches_per_trigger": shared,
            "variants": {name: switches.tolist() for name, switches in variants.items()},
        },
    )


def _trigger_table(results: Mapping[str, Runs]) -> PageTable:
    rows = [
        {
            "problem": name,
            "triggers": f"{runs.triggers.mean():,.0f}",
            "local switches": f"{runs.local_switches.mean():,.0f}",
            "triggers that change nothing": (
                f"{1 - runs.local_switches.sum() / runs.triggers.sum():.0%}"
            ),
            "deployments": f"{runs.deployments.mean():,.0f}",
        }
        for name, runs in results.items()
    ]
    return PageTable.of("A trigger is not a switch", rows)


def _comparison(
    title: str, one: str, first: Mapping[str, Runs], two: str, second: Mapping[str, Runs]
) -> PageTable:
    rows = [
        {
            "problem": name,
            f"regret, {one}": report.mean_and_interval(first[name].regret),
            f"regret, {two}": report.mean_and_interval(second[name].regret),
            f"local switches, {one}": report.mean_and_interval(first[name].local_switches),
            f"local switches, {two}": report.mean_and_interval(second[name].local_switches),
        }
        for name in first
    ]
    return PageTable.of(title, rows)


def _variants(lab: Lab) -> dict[str, np.ndarray]:
    """Local switches [seeds] of the plain pseudo-code under other copies and ties."""
    episodes, seeds = lab.effort.plain_episodes, range(lab.effort.plain_seeds)
    variants = {
        "as implemented": ("row", "incumbent"),
        "entry copy": ("entry", "incumbent"),
        "copy of the whole step": ("step", "incumbent"),
        "random ties": ("row", "random"),
    }

    def switches(seed: int, copy: str, ties: str) -> int:
        _, changes = play_plain(envs.make(TIES_PROBLEM), COARSE, episodes, seed, copy, ties)
        return len(changes)

    def compute() -> dict[str, np.ndarray]:
        return {
            name: np.array([switches(seed, *variant) for seed in seeds])
            for name, variant in variants.items()
        }

    configuration = [TIES_PROBLEM, COARSE.to_dict(), episodes, len(seeds)]
    return lab.measure("variants", configuration, compute, dict[str, np.ndarray])


def _scale_table(lab: Lab) -> PageTable:
    problem = PROBLEMS["RiverSwim"]
    results = {c: lab.runs(problem, ucb2_hoeffding(c=c)) for c in SCALES}
    rows = [
        {
            "c": f"{c:g}",
            "regret": report.mean_and_interval(runs.regret),
            "local switches": report.mean_and_interval(runs.local_switches),
            "deployments": report.mean_and_interval(runs.deployments),
        }
        for c, runs in results.items()
    ]
    return PageTable.of(f"The scale of the bonus, {problem}; c = 1 is provable", rows)
