"""One picture that shows what the library is for, in seconds.

A bandit has one state and one step, so its compiled code is the smallest: the picture is ready
before the code of the other learners would be compiled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lowswitch import bandits
from lowswitch.show import report
from lowswitch.show.tables import Table

MEANS = (0.5, 0.55, 0.6, 0.65)  # how often each of four treatments succeeds
PULLS = 100_000
RUNS = 100
ALGORITHMS = {
    "UCB1, for every case": bandits.ucb1(),
    "UCB2, rarely": bandits.ucb2(alpha=0.5),
    "BaSE, five times at most": bandits.base(batches=5, gamma=0.5),
}
STORY = """\
Four treatments succeed in 50, 55, 60 and 65 of 100 cases, and nobody knows which is which.
A decision settles what the next cases get. Who decides rarely needs few meetings: how much does
it miss? Regret is the number of successes that were missed."""


def play() -> dict[str, bandits.BanditRuns]:
    """The runs of the picture, by their labels."""
    return {
        label: bandits.simulate(MEANS, algorithm, pulls=PULLS, runs=RUNS)
        for label, algorithm in ALGORITHMS.items()
    }


def table(runs: Mapping[str, bandits.BanditRuns]) -> Table:
    """How much each of them missed, and how often it decided."""
    rows = tuple(
        (label, report.mean_and_interval(run.regret), report.mean_and_interval(run.batches))
        for label, run in runs.items()
    )
    heading = f"After {PULLS:,} cases, means of {RUNS} runs with 95 % intervals:"
    return Table(heading, ("who decides", "regret", "decisions"), rows)


def draw(runs: Mapping[str, bandits.BanditRuns], path: str | os.PathLike[str]) -> None:
    """Draw regret and decisions against the cases, and write the figure."""
    figure = report.blank_figure(9, 4.2)
    for axes, cost, title in zip(
        figure.subplots(1, 2), ("regret", "batches"), ("successes missed", "decisions"), strict=True
    ):
        for i, (label, run) in enumerate(runs.items()):
            curves = run.curves
            report.draw_band(axes, curves.pulls, report.positive(getattr(curves, cost)), i, label)
        report.dress(axes, log="xy")
        axes.set_xlabel("cases")
        axes.set_title(title, fontsize=11)
    figure.suptitle("Which of four treatments is best? Decided at every case, rarely, five times")
    report.legend_below(figure, figure.axes[0], columns=3)
    report.save_figure(figure, path)
