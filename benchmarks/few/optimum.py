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
from lowswitch.exact import Arms, SmallMDP, notions, price
from lowswitch.exact.batching import FixedDates
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
CONSTANTS = {"UCB2": (0.01, 0.05, 0.2), "MVP": (0.01, 0.05, 0.2), "BaSE": (0.1, 0.3, 1.0)}
EXACT = {  # case: the changes and notions whose value on the best dates is computed
    "arms 50": ("draws", (*range(1, 8), 10)),
    "arms 100": ("draws", (1, 2, 3, 5)),
    "mdp 10": ("batches", (1, 2, 3, 5)),
}
SHOWN = ("arms 50", (3, 5, 10))  # where the optimum is played too, to have its regret by class
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
    return [f"{case}|optimum|{n}||" for case, (_, ns) in EXACT.items() for n in reversed(ns)]


def work(unit: str) -> Any:
    """The regret of each problem and the changes of the run; or an optimum, with its dates."""
    case, name, changes, c, first = unit.split("|")
    n, (size, episodes) = int(changes), CASES[case]
    if name == "optimum":
        kind = EXACT[case][0]
        made = Arms() if size == 2 else SmallMDP()
        dates, value = FixedDates(notions._solver(made, episodes, kind)).best(n)
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
