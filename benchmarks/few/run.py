"""How much `few` loses for N deployments, against the best of the portfolio with no limit.

    python benchmarks/few/run.py FOLDER [--only NAME ...] [--json FILE]

FOLDER keeps what is finished, so that the same command goes on where it was interrupted, and
several may share it. On each problem all algorithms of `frontier` that have no limit race on one
seed, and the best of them on all seeds: those that are not told that steps are alike, and those
that are. Of a family of drawn problems only the first instances have the whole race, the others one
among those that came first there. With --json the result is written for the pages, which
`python docs/publish.py` fills.
"""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from problems import CHOSEN, PROBLEMS, family_of, laws_of

import bench
from lowswitch import Algorithm, simulate
from lowswitch.io import storage
from lowswitch.races.portfolio import portfolio

BUDGETS = (5, 10, 30, 100)
SEEDS = 16
FEWER_SEEDS = 4  # of drawn problems with the largest budget, which takes longest
WHOLE_RACES = 3  # instances of a family of drawn problems on which all race
FIRST = 4  # of each such race go to the other instances
FINALISTS = 2


class Costs(NamedTuple):
    """Regret of an algorithm on a problem, and its deployments."""

    regret: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]


class Track:
    """Runs algorithms on problems, and keeps what they cost."""

    def __init__(self, folder: Path) -> None:
        self.kept = storage.Kept(folder)

    def costs(self, problem: str, law: str, text: str, seeds: int) -> Costs:
        compute = partial(self._run, problem, law, text, seeds)
        return self.kept.get("costs", [problem, law, text, seeds], compute, Costs)

    def _run(self, problem: str, law: str, text: str, seeds: int) -> Costs:
        make, episodes = PROBLEMS[problem]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what c = 1 and short runs do not learn
            runs = simulate(
                make(law), Algorithm.from_text(text), episodes=episodes, seeds=seeds, progress=False
            )
        return Costs(runs.regret, runs.deployments)


def unlimited(problem: str) -> list[str]:
    """The algorithms of `frontier` without a limit; pooled ones where steps are alike."""
    mdp = PROBLEMS[problem][0](laws_of(problem)[0])
    alike = mdp.stationary and mdp.rewards.ndim == 2
    texts = [str(algorithm) for algorithm in portfolio(stationary=alike)]
    return [text for text in texts if "deployments=" not in text]


def is_told(text: str) -> bool:
    """Whether an algorithm is told that all steps are alike."""
    return "pooled=True" in text


def ranking(track: Track, problem: str, law: str, rivals: list[str]) -> list[str]:
    """The rivals by what they lose with the first seed."""
    lost = {text: float(track.costs(problem, law, text, 1).regret[0]) for text in rivals}
    return sorted(rivals, key=lambda text: lost[text])


def best_of(ranked: list[str], told: bool, number: int) -> list[str]:
    return [text for text in ranked if is_told(text) == told][:number]


def raced(track: Track, problem: str, law: str) -> list[str]:
    """The rivals of a problem, best first."""
    family = [name for name in PROBLEMS if family_of(name) == family_of(problem)]
    fresh = [name for name in family if name not in CHOSEN] or family
    if problem in fresh[:WHOLE_RACES]:
        return ranking(track, problem, law, unlimited(problem))
    races = [ranking(track, name, law, unlimited(name)) for name in fresh[:WHOLE_RACES]]
    firsts = [
        text for race in races for told in (False, True) for text in best_of(race, told, FIRST)
    ]
    return ranking(track, problem, law, list(dict.fromkeys(firsts)))


def measured(track: Track, problem: str, law: str) -> dict[str, Any]:
    """The best rivals, and what `few` costs for each budget."""
    make, episodes = PROBLEMS[problem]
    share = 100 / (episodes * make(law).optimal_value())
    row: dict[str, Any] = {
        "problem": problem,
        "family": family_of(problem),
        "chosen_on": problem in CHOSEN,
        "rewards": law,
        "episodes": episodes,
    }
    ranked = raced(track, problem, law)
    for name, told in (("rival", False), ("told", True)):
        final = {
            text: track.costs(problem, law, text, SEEDS)
            for text in best_of(ranked, told, FINALISTS)
        }
        if final:
            best = min(final, key=lambda text: float(final[text].regret.mean()))
            row[name] = best
            row[f"{name}_percent"] = float(final[best].regret.mean()) * share
            row[f"{name}_deployments"] = int(final[best].deployments.max())
    drawn = family_of(problem) != problem
    for budget in BUDGETS:
        seeds = FEWER_SEEDS if drawn and budget == BUDGETS[-1] else SEEDS
        costs = track.costs(problem, law, f"few:deployments={budget}", seeds)
        assert costs.deployments.max() <= budget
        row[f"few_{budget}_percent"] = float(costs.regret.mean()) * share
        row[f"few_{budget}_sd"] = float(costs.regret.std(ddof=1)) * share
        row[f"few_{budget}_worst"] = float(costs.regret.max()) * share
    return row


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    if options.only and options.json:
        parser.error("--json wants all problems; leave --only out")
    track, rows = Track(options.folder), []
    for problem in options.only or PROBLEMS:
        for law in laws_of(problem):
            row = measured(track, problem, law)
            rows.append(row)
            shares = " ".join(f"{row[f'few_{n}_percent']:8.3f}" for n in BUDGETS)
            rivals = " | ".join(
                f"{row[f'{name}_percent']:8.3f} {row[name]}"
                for name in ("rival", "told")
                if name in row
            )
            print(f"{problem:18} {law:13} {shares} | {rivals}", flush=True)
    facts = {"seeds": SEEDS, "fewer_seeds": FEWER_SEEDS, "rows": rows}
    bench.write(options.json, facts)


if __name__ == "__main__":
    main()
