"""How much `few` loses for N deployments, beside settings without a limit and one change.

    python benchmarks/few/run.py RESULTS [--minutes M] [--workers W] [--only NAME ...]
                                 [--again TEXT ...] [--json FILE]

RESULTS is a JSON file that has all finished runs: the same command goes on where it ended, and
with --minutes it ends in time. --again forgets what is known of algorithms whose text begins so,
such as `few` after its rules changed.

On each problem the settings of rivals.py race: all run on 2 seeds, the best 10 on 6 more, and the
best 3 by these 8 seeds on 16 fresh ones. Settings that are told that all steps are alike race
apart. A rival's numbers come from the fresh seeds. With --json the result is written for the pages,
which `python docs/publish.py` fills.
"""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from problems import CHOSEN, PROBLEMS, family_of, laws_of
from rivals import ONE_CHANGE, is_told, one_change, settings

import bench
from lowswitch import Algorithm, simulate
from lowswitch.show.progress import cores

BUDGETS = (1, 2, 3, 5, 10, 30, 100)
BY_RULE_1 = (10, 30)  # budgets for which the older rule of `few` is run, too
SEEDS = 32
FEWER_SEEDS = 16  # with the largest budget, and in finals
HEATS = ((2, 10), (6, 3))  # more seeds, and how many settings are left after them
RACING = 1_000  # the first seed of the race; reported seeds count from 0
PIECE = 8  # seeds that are run at once
SAVED = 20.0  # seconds between two savings
RACE = (
    f"To find the best settings, we raced {len(settings(False))}. Where all steps are alike, we"
    f" also raced {len(settings(True)) - len(settings(False))} that are told so. The candidates are"
    " the settings that won most often when all algorithms of `frontier` raced, and some of every"
    " other kind. All ran on 2 seeds, the best 10 on 6 more, and the best 3 on"
    f" {FEWER_SEEDS} fresh ones."
)


class Unit(NamedTuple):
    """Some seeds of one algorithm on one problem."""

    problem: str
    law: str
    text: str
    first: int
    seeds: int

    @property
    def name(self) -> str:
        return f"{self.problem} {self.law} {self.text} {self.first}+{self.seeds}"


def run(unit: Unit) -> dict[str, Any]:
    """The regret of each seed, and the most deployments of any."""
    make, episodes = PROBLEMS[unit.problem]
    mdp, seeds = make(unit.law), range(unit.first, unit.first + unit.seeds)
    if unit.text in ONE_CHANGE:
        lost = [one_change(mdp, episodes, seed, is_told(unit.text)) for seed in seeds]
        return {"regret": lost, "deployments": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what short runs do not learn
        algorithm = Algorithm.from_text(unit.text)
        runs = simulate(mdp, algorithm, episodes=episodes, seeds=seeds, threads=1, progress=False)
    regret = [float(f"{value:.7g}") for value in runs.regret]
    return {"regret": regret, "deployments": int(runs.deployments.max())}


class Row:
    """One problem with one law of rewards: what is to be run on it, and what came of it."""

    def __init__(self, problem: str, law: str, known: dict[str, Any]) -> None:
        self.problem, self.law, self.known = problem, law, known
        self.make, self.episodes = PROBLEMS[problem]
        self.mdp = self.make(law)

    def units(self, text: str, first: int, seeds: int) -> list[Unit]:
        """So many seeds, in pieces."""
        return [
            Unit(self.problem, self.law, text, first + begin, min(PIECE, seeds - begin))
            for begin in range(0, seeds, PIECE)
        ]

    def regret(self, text: str, first: int, seeds: int) -> np.ndarray:  # [seeds]
        found = [self.known[unit.name]["regret"] for unit in self.units(text, first, seeds)]
        return np.concatenate(found)

    def wanted(self) -> list[Unit]:
        """What can be run now and is not known: of a race, only its present heat."""
        units = [unit for text, seeds in self.own().items() for unit in self.units(text, 0, seeds)]
        for told in (False, True):
            units += [unit for heat in self.race(told) for unit in heat]
        return [unit for unit in units if unit.name not in self.known]

    def own(self) -> dict[str, int]:
        """`few` by both rules and one change, with their seeds."""
        few = {f"few:deployments={n}": SEEDS for n in BUDGETS[:-1]}
        few[f"few:deployments={BUDGETS[-1]}"] = FEWER_SEEDS
        few |= {f"few:deployments={n},rule=1": SEEDS for n in BY_RULE_1}
        return few | dict.fromkeys(ONE_CHANGE[: 1 + self.mdp.steps_alike], SEEDS)

    def race(self, told: bool) -> Iterator[list[Unit]]:
        """The units of one heat after the other, as far as the results are known."""
        racing, first = self.candidates(told), RACING
        for more, left in HEATS:
            heat = [unit for text in racing for unit in self.units(text, first, more)]
            yield heat
            if any(unit.name not in self.known for unit in heat):
                return
            first += more
            racing = sorted(racing, key=lambda text: self.lost(text, RACING, first - RACING))[:left]
        yield [unit for text in racing for unit in self.units(text, 0, FEWER_SEEDS)]

    def candidates(self, told: bool) -> list[str]:
        return [text for text in settings(self.mdp.steps_alike) if is_told(text) == told]

    def lost(self, text: str, first: int, seeds: int) -> float:
        """The mean regret over the heats that begin at a seed."""
        found, left = list[np.ndarray](), seeds
        for more, _ in HEATS:
            if left > 0:
                found.append(self.regret(text, first, more))
                first, left = first + more, left - more
        return float(np.concatenate(found).mean())

    def finals(self, told: bool) -> dict[str, float]:
        """The mean regret of the finalists on fresh seeds."""
        *_, final = self.race(told)
        texts = dict.fromkeys(unit.text for unit in final)
        return {text: float(self.regret(text, 0, FEWER_SEEDS).mean()) for text in texts}

    def measured(self) -> dict[str, Any]:
        """What stands in the file of results for the pages."""
        best, usual = self.mdp.optimal_values[0], self.mdp.uniform_values[0]
        lost = self.mdp.at_start(best - usual, self.episodes)
        share = 100 / (self.episodes * lost)
        row: dict[str, Any] = {
            "problem": self.problem,
            "family": family_of(self.problem),
            "chosen_on": self.problem in CHOSEN,
            "rewards": self.law,
            "episodes": self.episodes,
        }
        finals = self.finals(False)
        self._add(row, "rival", finals, share)
        if self.mdp.steps_alike:  # a learner that is told may still make no use of it
            self._add(row, "told", finals | self.finals(True), share)
        changed = {text: self.regret(text, 0, SEEDS) for text in self.own() if text in ONE_CHANGE}
        row["one_change_percent"] = min(float(lost.mean()) for lost in changed.values()) * share
        for n in BUDGETS:
            name, text = f"few_{n}", f"few:deployments={n}"
            regret = self.regret(text, 0, self.own()[text])
            row[f"{name}_percent"] = float(regret.mean()) * share
            row[f"{name}_sd"] = float(regret.std(ddof=1)) * share
            row[f"{name}_worst"] = float(regret.max()) * share
            if n in BY_RULE_1:
                older = self.regret(f"{text},rule=1", 0, SEEDS)
                row[f"{name}_older_percent"] = float(older.mean()) * share
                error = (regret - older).std(ddof=1) / np.sqrt(SEEDS)
                row[f"{name}_difference_se"] = float(error) * share
        return row

    def _add(self, row: dict[str, Any], name: str, finals: dict[str, float], share: float) -> None:
        row[name] = min(finals, key=finals.__getitem__)
        row[f"{name}_percent"] = finals[row[name]] * share
        units = self.units(row[name], 0, FEWER_SEEDS)
        row[f"{name}_deployments"] = max(self.known[unit.name]["deployments"] for unit in units)


class Waiting(NamedTuple):
    """A unit that some process runs."""

    result: AsyncResult[dict[str, Any]]
    unit: Unit
    row: Row


class Race:
    """Runs what all rows want in processes, and saves what is known now and then."""

    def __init__(self, path: Path, again: list[str]) -> None:
        self.path = path
        self.known = {
            name: found
            for name, found in bench.read(path).items()
            if not any(name.split()[2].startswith(text) for text in again)
        }
        self.saved = time.monotonic()

    def run(self, rows: list[Row], workers: int, until: float) -> bool:
        """Run until nothing is wanted, or until a time; whether all is done."""
        queue = [(unit, row) for row in rows for unit in row.wanted()]
        asked, waiting = {unit.name for unit, _ in queue}, list[Waiting]()
        with get_context("fork").Pool(workers) as pool:  # which is terminated in the end
            while (queue or waiting) and time.monotonic() < until:
                while queue and len(waiting) < 2 * workers:
                    unit, row = queue.pop(0)
                    waiting.append(Waiting(pool.apply_async(run, (unit,)), unit, row))
                time.sleep(0.02)
                for done in [one for one in waiting if one.result.ready()]:
                    waiting.remove(done)
                    self.known[done.unit.name] = done.result.get()
                    fresh = [unit for unit in done.row.wanted() if unit.name not in asked]
                    asked |= {unit.name for unit in fresh}
                    queue += [(unit, done.row) for unit in fresh]
                self.save(SAVED)
        self.save(0.0)
        return not queue and not waiting

    def save(self, after: float) -> None:
        if time.monotonic() - self.saved >= after:
            # a new file replaces the old one whole
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(self.known) + "\n", encoding="utf-8")
            fresh.replace(self.path)
            self.saved = time.monotonic()


def compile_all() -> None:
    """Run each kind of algorithm once, so that the processes begin with compiled kernels."""
    for problem in ("changing-short", "tiny-river"):
        (law,) = laws_of(problem)
        few = ("few:deployments=3", "few:deployments=3,rule=1")
        for text in (*settings(problem == "tiny-river"), *few):
            run(Unit(problem, law, text, 0, 1))


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--again", nargs="*", default=[])
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    race = Race(options.results, options.again)
    names = options.only or [*PROBLEMS]
    rows = [Row(name, law, race.known) for name in names for law in laws_of(name)]
    if any(row.wanted() for row in rows):
        compile_all()
        largest = sorted(rows, key=lambda row: -row.mdp.states * row.mdp.actions * row.mdp.horizon)
        if not race.run(largest, options.workers, until):
            left = sum(len(row.wanted()) for row in rows)
            print(f"{len(race.known)} known, at least {left} left; run the same command again")
            sys.exit(3)
    found = [row.measured() for row in rows]
    for row in found:
        shares = " ".join(f"{row[f'few_{n}_percent']:8.3f}" for n in BUDGETS)
        rivals = " | ".join(
            f"{row[f'{name}_percent']:8.3f} {row[name]}"
            for name in ("rival", "told")
            if name in row
        )
        one = f"{row['one_change_percent']:8.3f}"
        print(f"{row['problem']:18} {row['rewards']:13} {shares} | {one} | {rivals}", flush=True)
    if not options.only:
        facts = {"race": RACE, "seeds": SEEDS, "fewer_seeds": FEWER_SEEDS, "rows": found}
        bench.write(options.json, facts)


if __name__ == "__main__":
    main()
