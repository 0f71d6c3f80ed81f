"""How much Bernstein's bonus gains over Hoeffding's as the horizon grows, as Theorem 3 says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding
from lowswitch.reproduce.grades import Check, Finding
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.show import report
from lowswitch.show.text import span

HORIZONS = (5, 10, 20, 40)
LEAST_GAIN_EXPONENT = 0.25  # of the ratio of the regrets in H; sqrt(H) has 0.5


def with_gain(section: Section, lab: Lab, scale: float) -> Section:
    """Add how much Bernstein gains over Hoeffding as H grows."""
    episodes = lab.effort.episodes // 10
    gains: dict[int, float] = {}
    rows = []
    for H in HORIZONS:
        text = f"random-mdp:states=3,actions=2,horizon={H}"
        h, b = (
            lab.runs(text, recipe(c=scale), episodes=episodes).regret
            for recipe in (ucb2_hoeffding, ucb2_bernstein)
        )
        gains[H] = float(h.mean() / b.mean())
        costs = {"UCB2-H": report.mean_and_interval(h), "UCB2-B": report.mean_and_interval(b)}
        rows.append({"H": f"{H}", **costs, "ratio": f"{gains[H]:.2f}"})
    title = f"Regret of UCB2-H over that of UCB2-B as H grows, random (3, 2, H), K = {episodes:,}"
    return replace(
        section,
        remarks=[
            *section.remarks,
            (
                r"The gain of $\sqrt{H}$ is asymptotic. At a fixed K the ratio falls as H grows,"
                r" because the lower-order term $\sqrt{H^7 S A} \iota / t$ of the Bernstein bonus,"
                " and with it the burn-in of about $H^6 S^2 A^2$ steps, grows faster."
            ),
        ],
        findings=[*section.findings, _gain_finding(gains, episodes, scale)],
        tables=[*section.tables, PageTable.of(title, rows)],
        numbers=section.numbers | {"gain": {str(H): gain for H, gain in gains.items()}},
    )


def _gain_finding(gains: Mapping[int, float], episodes: int, scale: float) -> Finding:
    slope = float(np.polyfit(np.log(list(gains)), np.log(list(gains.values())), 1)[0])
    ratios = ", ".join(f"{gain:.2f}" for gain in gains.values())
    return Finding(
        says=r"regret by $\sqrt{H}$ smaller than with Hoeffding",
        scale=f"c = {scale}",
        length=f"K = {episodes:,}",
        problems=f"random (3, 2, H), H = {span(gains, 'd')}",
        proved=False,
        found=(f"{span(gains.values())} times smaller, a ratio like $H^{{{slope:.2f}}}$"),
        checks=[
            Check(
                "Bernstein's regret is below Hoeffding's for every H",
                ratios,
                min(gains.values()) > 1,
            ),
            Check(
                f"their ratio grows with an exponent of at least {LEAST_GAIN_EXPONENT} in H;"
                r" $\sqrt{H}$ has 0.5",
                f"{slope:.2f}",
                slope >= LEAST_GAIN_EXPONENT,
            ),
        ],
    )
