"""The opening of the page: the result in one sentence, and the theorems in one picture."""

from __future__ import annotations

from collections.abc import Mapping

from lowswitch.reproduce import qlearning
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import LEARNERS, SCALE
from lowswitch.reproduce.section import PageTable, Section
from lowswitch.runs.results import Runs
from lowswitch.show import plotting, report
from lowswitch.show.text import span


def headline(lab: Lab) -> Section:
    """The four learners on one problem: the picture of the theorems, and the range over all."""
    name, text = next(iter(qlearning.PROBLEMS.items()))
    results = {label: lab.runs(text, recipe(c=SCALE)) for label, recipe in LEARNERS.items()}
    baselines = {"UCB-H": "UCB-H", "UCB2-H": "UCB-H", "UCB-B": "UCB-B", "UCB2-B": "UCB-B"}
    rows = [_headline_row(results, label, base) for label, base in baselines.items()]
    some, tuned = results["UCB2-H"], _tuned_table(lab)
    size = f"K = {some.episodes:,} episodes, c = {SCALE}, {len(some.seeds)} seeds"
    return Section(
        name="headline",
        title="The theorems in one picture",
        claim=f"{_result(lab)} {tuned_result(tuned)}",
        method=f"{name} ({text}), {size}.",
        tables=[
            PageTable(
                f"{name}, {size}; means with 95 % intervals",
                ("learner", "regret", "against UCB", *_COSTS),
                rows,
            ),
            tuned,
        ],
        figures={"headline": plotting.plot(results, title=name)},
        captions={
            "headline": (
                f"{name}, {size}: the learners that may change a row at every visit (UCB) and those"
                " with delayed updates (UCB2). Mean over the seeds, and a band from the 10 % to the"
                " 90 % quantile."
            )
        },
    )


def _result(lab: Lab) -> str:
    """The result of the whole reproduction, in one sentence."""
    more, fewer = [], []
    for text in qlearning.PROBLEMS.values():
        for base, delayed in PAIRS:
            every, rare = (lab.runs(text, LEARNERS[one](c=SCALE)) for one in (base, delayed))
            more.append(100 * (rare.regret.mean() / every.regret.mean() - 1))
            fewer.append(every.local_switches.mean() / rare.local_switches.mean())
    return (
        f"Q-learning with delayed updates (UCB2) makes {span(fewer, '.1f')} times fewer policy"
        " switches than the learner that may switch at every visit, and loses"
        f" {span(more, '.1f')} % more reward, on {len(qlearning.PROBLEMS)} problems after"
        f" {lab.effort.episodes:,} episodes at the practical scale c = {SCALE}."
    )


def tuned_result(table: PageTable) -> str:
    """What the table of tuned scales says of the saving, in one sentence."""
    fewer = [float(row[-1].split()[0].replace(",", "")) for row in table.rows]
    return f"At the best c: {span(fewer, '.1f')} times fewer."


def _tuned_table(lab: Lab) -> PageTable:
    """Each pair at the scale at which the every-visit learner has the least regret."""
    episodes = max(1, lab.effort.episodes // 10)
    rows = []
    for name, text in qlearning.PROBLEMS.items():
        for base, delayed in PAIRS:
            tried = {c: _short_runs(lab, text, base, c).regret.mean() for c in TRIED}
            scale = min(tried, key=tried.__getitem__)
            usual = lab.runs(text, LEARNERS[base](c=SCALE), episodes=episodes).regret.mean()
            every, rare = (
                lab.runs(text, LEARNERS[one](c=scale), episodes=episodes) for one in (base, delayed)
            )
            fewer = every.local_switches.mean() / rare.local_switches.mean()
            rows.append(
                {
                    "problem": name,
                    "learner": delayed,
                    "best c": f"{scale:g}",
                    "regret": report.mean_and_interval(rare.regret),
                    "against every visit": f"{rare.regret.mean() / every.regret.mean() - 1:+.1%}",
                    f"regret at c = {SCALE}": f"{usual / every.regret.mean():.1f} x",
                    "local switches": f"{rare.local_switches.mean():,.0f}",
                    "fewer": f"{fewer:.1f} x",
                }
            )
    return PageTable.of(
        f"At a tuned scale: c with the least regret of the every-visit learner, K = {episodes:,};"
        f" {len(TRIED)} scales from {TRIED[0]:g} to {TRIED[-1]:g} were tried on other seeds",
        rows,
    )


def _short_runs(lab: Lab, problem: str, label: str, scale: float) -> Runs:
    """Runs that choose a scale, on seeds that are not reported."""
    episodes = max(1, lab.effort.episodes // 10)
    return lab.runs(problem, LEARNERS[label](c=scale), episodes=episodes, seeds=CHOOSING)


TRIED = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)  # scales of the bonus
CHOOSING = (1_000, 1_001, 1_002, 1_003)  # seeds
PAIRS = (("UCB-H", "UCB2-H"), ("UCB-B", "UCB2-B"))
_COSTS = ("local switches", "fewer", "deployments", "fewer")


def _headline_row(results: Mapping[str, Runs], label: str, base: str) -> list[str]:
    runs, other = results[label], results[base]
    more = runs.regret.mean() / other.regret.mean() - 1
    row = [label, report.mean_and_interval(runs.regret), "" if label == base else f"{more:+.1%}"]
    for cost in ("local_switches", "deployments"):
        many, few = getattr(other, cost).mean(), getattr(runs, cost).mean()
        row += [f"{few:,.0f}", "" if label == base else f"{many / few:.1f} x"]
    return row
