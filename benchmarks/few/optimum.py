"""How far learners with N changes are from the best that any learner could do.

    python benchmarks/few/optimum.py RESULTS [--minutes M] [--workers W] [--json FILE]

Problems are drawn from a uniform prior: two Bernoulli arms, or `exact.SmallMDP`. All learners meet
the same problems. `few` is also run with this prior given to it. Constants of other learners are
chosen on other problems. RESULTS is a JSON file with all finished units: the same command resumes.
With --json the result is written for the pages, which `python docs/publish.py` fills.

The MDP is played as three steps of which the third pays for the state, so rewards are certain.
Learners do not know them.
"""

import itertools
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from scipy.stats import qmc

import bench
import lowswitch as ls
from lowswitch.exact import Arms, SmallMDP, price
from lowswitch.exact.arms import WEIGHTS, ArmSolver
from lowswitch.exact.batching import FixedDates
from lowswitch.exact.simplex import Simplex
from lowswitch.exact.small_mdp import MdpSolver
from lowswitch.kernels import beliefs as kernels
from lowswitch.show.progress import cores

CASES = {
    **{f"arms {T}": (2, T) for T in (50, 100, 1000)},  # numbers that are drawn, and episodes
    **{f"mdp {K}": (4, K) for K in (10, 14, 20)},
}
BUDGETS = (1, 2, 3, 5, 10)
PROBLEMS, PIECE, CHOOSING = 1024, 128, 256
LEARNERS = {  # {c}: one of the constants, chosen; on arms and on MDPs
    "few": ("few:deployments={N}",) * 2,
    "few, true prior": (
        "few:deployments={N},mass=1.0,rewards=bootstrap,pooled=true",
        "few:deployments={N},mass=2.0,rewards=mean,pooled=true",
    ),
    "PSRL": (
        "psrl:schedule=grid/geometric/{M},deployments={N}",
        "psrl:schedule=grid/geometric/{M},deployments={N},rewards=mean,pooled=true",
    ),
    "UCB2": ("ucb2-h:c={c},switches={N}",) * 2,
    "MVP": ("mvp:c={c},deployments={N}",) * 2,
    "BaSE": ("base:batches={M},gamma={c}", ""),
    "batched Thompson": ("batched-thompson", ""),
}
CONSTANTS = {"UCB2": (0.01, 0.05, 0.2), "MVP": (0.0001, 0.001, 0.01), "BaSE": (0.1, 0.3, 1.0)}
EXACT = {  # case and notion: the changes whose value on the best dates is computed
    ("arms 50", "draws"): (*range(1, 8), 10),
    ("arms 50", "batches"): BUDGETS,
    ("arms 50", "pulls"): BUDGETS,
    ("mdp 10", "batches"): (1, 2, 3, 5),
}
LARGE = Path(__file__).resolve().parents[2] / "docs" / "numbers" / "price.json"
SWITCHES = {  # its names of the cases that are left to a GPU
    "arms 1000": "two arms, 1,000 pulls",
    "mdp 14": "small MDP, 14 episodes",
    "mdp 20": "small MDP, 20 episodes",
}
BY_CLASS = (3, 5, 10)  # changes with which the optimum is played on 50 pulls, to have its classes
AGAIN = 200  # runs of the optimum on each problem
CLASSES = (0.0, 0.1, 0.3, 0.6, 1.0)  # of the difference between both arms


# ---- problems ------------------------------------------------------------------------------------


def drawn(case: str, choosing: bool) -> np.ndarray:  # [problems, numbers]
    """Uniform numbers, spread evenly; those for choosing come from another scrambling."""
    numbers = CHOOSING if choosing else PROBLEMS
    made: np.ndarray = qmc.Sobol(CASES[case][0], seed=35 if choosing else 34).random(numbers)
    return made


def problem(numbers: np.ndarray) -> ls.TabularMDP:
    """Arms with these means, or an MDP whose rows lead to state 1 with these probabilities."""
    if len(numbers) == 2:
        return ls.TabularMDP(np.ones((1, 2, 1)), numbers[None], horizon=1, reward_law="bernoulli")
    up = numbers.reshape(2, 2)
    laws = np.stack([1 - up, up], axis=-1)
    return ls.TabularMDP(laws, np.array([[0.0, 0.0], [1.0, 1.0]]), horizon=3, start=0)


# ---- what is run ---------------------------------------------------------------------------------


def units() -> list[str]:
    """case | learner | changes | constant | kind or first problem; first, where nothing is chosen.

    The constants of other learners come last, on the problems for choosing.
    """
    found, choosing = list[str](), list[str]()
    for (case, (size, T)), n, name in itertools.product(CASES.items(), BUDGETS, LEARNERS):
        text = LEARNERS[name][size == 4]
        if not text or (name == "BaSE" and not _has_grid(n, T)):
            continue
        if name in CONSTANTS:
            choosing += [f"{case}|{name}|{n}|{c}|choose" for c in CONSTANTS[name]]
        elif "{" in text or n == BUDGETS[0]:
            found += pieces(f"{case}|{name}|{n}|")
    return found + choosing


def _has_grid(changes: int, episodes: int) -> bool:
    """Whether BaSE has a grid with these changes."""
    try:
        ls.bandits.base(batches=changes + 1).ends(2, episodes)
    except ValueError:
        return False
    return True


def pieces(begin: str) -> list[str]:
    """The units that together run all problems."""
    return [f"{begin}|{i}" for i in range(0, PROBLEMS, PIECE)]


def finals(known: dict[str, Any]) -> list[str]:
    """Units of learners with the constant that lost least on the problems for choosing."""
    lost: dict[str, dict[str, float]] = {}
    for unit, found in known.items():
        case, name, n, c, kind = unit.split("|")
        if kind == "choose":
            lost.setdefault(f"{case}|{name}|{n}", {})[c] = float(np.mean(found, axis=0)[0])
    return [
        unit
        for begin, by in lost.items()
        for unit in pieces(f"{begin}|{min(by, key=by.__getitem__)}")
    ]


def optima() -> list[str]:
    """Units that compute values on the best dates."""
    return [f"{case}|optimum|{n}|{kind}|" for (case, kind), ns in EXACT.items() for n in ns]


def work(unit: str) -> Any:
    """The regret of each problem and the changes of the run; or an optimum, with its dates."""
    case, name, changes, c, first = unit.split("|")
    n, (size, episodes) = int(changes), CASES[case]
    if name == "optimum":
        made = Arms() if size == 2 else SmallMDP()
        solver = ArmSolver(made, episodes, c) if size == 2 else MdpSolver(made, episodes)
        dates, value = FixedDates(solver).best(n)
        return {"dates": dates, "regret": episodes * made.best() - value}
    numbers = drawn(case, first == "choose")
    chosen = numbers if first == "choose" else numbers[int(first) : int(first) + PIECE]
    text = LEARNERS[name][size == 4].format(N=n, M=n + 1, c=c)
    begin = 0 if first == "choose" else int(first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what short runs do not learn
        return [run(row, text, episodes, begin + i) for i, row in enumerate(chosen)]


def run(numbers: np.ndarray, text: str, episodes: int, seed: int) -> tuple[float, int]:
    """Regret and changes of one run."""
    name, _, options = text.partition(":")
    if name in ls.bandits.RECIPES:
        given = dict(option.split("=") for option in options.split(",") if option)
        made = ls.bandits.RECIPES[name](
            **{k: int(v) if k == "batches" else float(v) for k, v in given.items()}
        )
        played = ls.bandits.simulate(
            numbers, made, pulls=episodes, runs=1, first_seed=seed, threads=1, progress=False
        )
        return round(float(played.regret[0]), 5), int(played.batches[0]) - 1
    runs = ls.simulate(
        problem(numbers), ls.Algorithm.from_text(text), episodes=episodes, seeds=[seed],
        threads=1, progress=False,
    )  # fmt: skip
    return round(float(runs.regret[0]), 5), int(runs.deployments[0])


# ---- the optimum, played -------------------------------------------------------------------------


def best_shares(episodes: int, dates: list[int]) -> tuple[dict[int, np.ndarray], float]:
    """How often the first arm is drawn after each date, in 64ths, for each belief; the value."""
    simplex, prior = Simplex.of(episodes, 3), Arms().table
    values, end = np.zeros(int(simplex.bases[-1]) + 1), episodes
    found: dict[int, np.ndarray] = {}
    for begin in reversed([0, *dates]):
        expected = np.zeros((end - begin + 1, len(values)))
        expected[0] = values
        for t in range(end - 1, begin - 1, -1):
            kernels.step_back(t, end - t, *simplex.at(t), prior, expected)
        weights = WEIGHTS["draws"](end - begin)
        each = np.zeros((len(weights), len(values)))
        for one, weight in zip(each, weights, strict=True):
            place = *simplex.at(begin)[:2], prior, expected, weight[None], one
            kernels.choose_batch(begin, end - begin, *place)
        found[begin], values, end = each.argmax(axis=0), each.max(axis=0), begin
    return found, float(values[0])


def played_optimum(episodes: int, dates: list[int], means: np.ndarray) -> np.ndarray:  # [problems]
    """The regret of the optimum on each problem, averaged over runs."""
    shares, _ = best_shares(episodes, dates)
    simplex, generator = Simplex.of(episodes, 3), np.random.default_rng(36)
    bases = np.zeros((episodes + 1, episodes + 1), dtype=np.int64)
    bases[tuple(simplex.leads.T)] = simplex.bases
    p, q = np.repeat(means, AGAIN, axis=0).T
    won, lost, other, regret = (np.zeros(len(p), dtype=np.int64) for _ in range(4))
    regret = np.zeros(len(p))
    for begin, end in itertools.pairwise([0, *dates, episodes]):
        share = shares[begin][bases[won, lost] + other] / (len(WEIGHTS["draws"](1)) - 1)
        first = generator.binomial(end - begin, share)
        paid = generator.binomial(first, p)
        won, lost = won + paid, lost + first - paid
        other = other + generator.binomial(end - begin - first, q)
        regret += np.where(p > q, (p - q) * (end - begin - first), (q - p) * first)
    return regret.reshape(-1, AGAIN).mean(axis=1)


# ---- results -------------------------------------------------------------------------------------


def means_of(known: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each learner with some changes: the mean over the problems that are finished."""
    rows = []
    for begin in dict.fromkeys(unit.rpartition("|")[0] for unit in known):
        case, name, n, c = begin.split("|")
        found = [known.get(unit) for unit in pieces(begin)]
        if name == "optimum" or found[0] is None:
            continue
        whole = found[: found.index(None)] if None in found else found
        regret, made = np.concatenate(whole).T
        rows.append(
            {
                "case": case,
                "learner": name,
                "changes": int(n),
                "constant": c,
                "problems": len(regret),
                "regret": round(float(regret.mean()), 4),
                "se": round(float(regret.std(ddof=1) / np.sqrt(len(regret))), 4),
                "made": round(float(made.mean()), 2),
                "by_class": by_class(case, regret),
            }
        )
    return rows


def by_class(case: str, regret: np.ndarray) -> list[tuple[float, float]]:
    """Mean and standard error of the regret for each class of the difference between the arms."""
    if not case.startswith("arms"):
        return []
    means = drawn(case, False)[: len(regret)]
    place = np.digitize(abs(means[:, 0] - means[:, 1]), CLASSES) - 1
    parts = [regret[place == i] for i in range(len(CLASSES) - 1)]
    return [
        (round(float(one.mean()), 4), round(float(one.std() / np.sqrt(len(one))), 4))
        for one in parts
    ]


def yardsticks(known: dict[str, Any]) -> dict[str, Any]:
    """The regret of the optimum for each case and notion."""
    found: dict[str, Any] = {case: {} for case in CASES}
    for unit in optima():
        case, _, n, kind, _ = unit.split("|")
        found[case].setdefault(kind, {})[n] = round(known[unit]["regret"], 4)
        found[case].setdefault(f"{kind}, dates", {})[n] = known[unit]["dates"]
    large = bench.read(LARGE)
    for case, (size, episodes) in CASES.items():
        if case in SWITCHES:
            row = large[SWITCHES[case]]
            switches, unlimited = dict(enumerate(row["regret"])), row["unlimited"]
        else:
            made = Arms() if size == 2 else SmallMDP()
            exact = price(made, episodes=episodes, changes=min(10, episodes - 1), progress=False)
            switches = dict(enumerate(exact.regret.round(4).tolist()))
            unlimited = round(exact.known - exact.unlimited, 4)
        found[case] |= {"switches": switches, "unlimited": unlimited}
    return found


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=cores())
    options = parser.parse_args()
    given = options.minutes, options.workers
    known = bench.finish(options.results, work, [*optima(), *units()], *given)
    known = bench.finish(options.results, work, finals(known), *given)
    if options.json is None:
        return
    means, optimum = drawn("arms 50", False), {}
    for n in BY_CLASS:
        regret = played_optimum(50, known[f"arms 50|optimum|{n}|draws|"]["dates"], means)
        optimum[n] = by_class("arms 50", regret)
    facts = {"exact": yardsticks(known), "optimum_by_class": optimum, "rows": means_of(known)}
    bench.write(options.json, {"run": bench.described(), "problems": PROBLEMS} | facts)


if __name__ == "__main__":
    main()
