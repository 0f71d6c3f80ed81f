"""How much `few` loses for N deployments, against the best of other algorithms with no limit.

    python benchmarks/few/run.py FOLDER [--seeds 16] [--only NAME ...] [--json FILE]

FOLDER keeps what is finished, so that the same command goes on where it was interrupted. The rivals
race on each problem: all of them on two seeds, the best two on all seeds. They are the algorithms
of the portfolio that won the races on the first six problems below. With --json the result is
written for the pages, which `python docs/publish.py` fills.
"""

import argparse
import json
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from problems import CHOSEN, LAWS, PROBLEMS, family_of

from lowswitch import Algorithm, simulate, storage

BUDGETS = (5, 10, 30)
# for the drawn problems, of which there are many
FEWER = [
    "psrl:prior=0.1,rewards=bootstrap,schedule=growth/2",
    "psrl:prior=0.1,rewards=mean,schedule=growth/2",
    "ucrl2:c=0.01,schedule=whole/2",
    "ucrl2:c=0.003,schedule=whole/2",
    "rmax:known=1",
    "rmax:known=10",
]
RIVALS = [
    *FEWER,
    "psrl:prior=1,rewards=bootstrap,schedule=growth/2",
    "psrl:prior=1,rewards=mean,schedule=growth/2",
    "ucrl2:c=0.001,schedule=whole/2",
    "ucbvi-bf:c=0.0003,schedule=growth/2",
    "rmax:known=3",
]
FINALISTS = 2


class Costs(NamedTuple):
    """Regret of an algorithm on a problem, and its deployments."""

    regret: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]
    optimal: np.ndarray  # [1]
    worst: np.ndarray  # [1]  how much of it the last policy lacks in the worst seed


class Track:
    """Runs algorithms on problems, and keeps what they cost."""

    def __init__(self, folder: Path) -> None:
        self.kept = storage.Kept(folder)

    def costs(self, problem: str, law: str, text: str, seeds: int) -> Costs:
        compute = partial(self._run, problem, law, text, seeds)
        return self.kept.get("costs", [problem, law, text, seeds], compute, Costs)

    def _run(self, problem: str, law: str, text: str, seeds: int) -> Costs:
        make, episodes = PROBLEMS[problem]
        mdp, best = make(law), make(law).optimal_value()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what c = 1 and short runs do not learn
            runs = simulate(
                mdp, Algorithm.from_text(text), episodes=episodes, seeds=seeds, progress=False
            )
        tables = runs.policy.reshape(seeds, -1, mdp.horizon, mdp.states)
        ends = [np.mean([mdp.evaluate(table) for table in mixture[:8]]) for mixture in tables]
        lacks = np.array([1 - min(ends) / best])
        return Costs(runs.regret, runs.deployments, np.array([best]), lacks)


def measured(track: Track, problem: str, law: str, seeds: int) -> dict[str, Any]:
    """The best rival, and what `few` costs for each budget."""
    _, episodes = PROBLEMS[problem]
    rivals = FEWER if family_of(problem) != problem else RIVALS
    heat = {text: float(track.costs(problem, law, text, 2).regret.mean()) for text in rivals}
    final = {
        text: track.costs(problem, law, text, seeds)
        for text in sorted(heat, key=lambda text: heat[text])[:FINALISTS]
    }
    best = min(final, key=lambda text: float(final[text].regret.mean()))
    share = 100 / (episodes * float(final[best].optimal[0]))
    row: dict[str, Any] = {
        "problem": problem,
        "family": family_of(problem),
        "chosen_on": problem in CHOSEN,
        "rewards": law,
        "episodes": episodes,
        "rival": best,
        "rival_percent": float(final[best].regret.mean()) * share,
        "rival_deployments": int(final[best].deployments.max()),
    }
    for budget in BUDGETS:
        costs = track.costs(problem, law, f"few:deployments={budget}", seeds)
        assert costs.deployments.max() <= budget
        row[f"few_{budget}_percent"] = float(costs.regret.mean()) * share
        row[f"few_{budget}_sd"] = float(costs.regret.std(ddof=1)) * share
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    track, rows = Track(options.folder), []
    for problem in options.only or PROBLEMS:
        for law in LAWS:
            row = measured(track, problem, law, options.seeds)
            rows.append(row)
            shares = " ".join(f"{row[f'few_{n}_percent']:8.3f}" for n in BUDGETS)
            rival = f"{row['rival_percent']:8.3f} {row['rival']}"
            print(f"{problem:18} {law:13} {shares} | {rival}", flush=True)
    if options.json:
        facts = {"seeds": options.seeds, "python": sys.version.split()[0], "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
