"""Measure how switches grow with and without ties: docs/switching/numbers.json, and the figure.

    python docs/switching.py --folder FOLDER     about ten minutes on an H200
    python docs/switching.py --draw              the figure, from the result file

UCB2-H plays random problems. In half of them every row has one optimal action. In the others each
action has a twin with the same law and reward, so every row has two optimal actions.

All problems of one horizon are one launch. They have room for the most states and actions; states
that a problem lacks are never reached, and actions that it lacks are forbidden. So all problems
have the bonus of the largest one. FOLDER keeps what is finished: the same command goes on where it
ended. `python docs/publish.py` then puts the numbers on the page.
"""

import argparse
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pages import table

import lowswitch as ls

TARGET = Path(__file__).parent / "switching"
SIZES = (2, 4, 8)  # states, actions and steps
PROBLEMS = 8  # of each size, with and without twins
SEEDS = 16
SCALES = (0.05, 0.01)  # of the bonus
EPISODES = 10**8
MARKS = EPISODES / 10 ** (np.arange(8, -1, -1) / 2)  # where switches are kept: half decades
ENDS = [EPISODES // 10**d for d in (3, 2, 1, 0)]  # of the runs whose triggers are kept
DRAWS = 1000  # of the bootstrap
SHOWN = slice(2, None, 2)  # marks of the table: whole decades


class Case(NamedTuple):
    """One random problem."""

    states: int
    actions: int
    twins: bool
    number: int

    def made(self, horizon: int) -> ls.TabularMDP:
        """Tables with Dirichlet laws and uniform rewards, in room for the largest problem."""
        rng = np.random.default_rng([self.states, self.actions, self.number, horizon])
        room, S, A = max(SIZES), self.states, self.actions
        transitions = np.zeros((room, room, room))
        transitions[:, :, 0] = 1
        transitions[:S, :A, :S] = rng.dirichlet(np.ones(S), size=(S, A))
        rewards = np.zeros((room, room))
        rewards[:S, :A] = rng.uniform(size=(S, A))
        if self.twins:
            half = A // 2
            transitions[:S, half:A] = transitions[:S, :half]
            rewards[:S, half:A] = rewards[:S, :half]
        allowed = np.zeros((room, room), dtype=bool)
        allowed[:, :A] = True
        return ls.TabularMDP(
            transitions, rewards, start=0, horizon=horizon, actions_allowed=allowed
        )

    def least_gap(self, mdp: ls.TabularMDP) -> float:
        """The smallest difference between the best and the second-best action of a row."""
        q = np.sort(mdp.optimal_q[:, : self.states, : self.actions], axis=2)
        return float(f"{(q[:, :, -1] - q[:, :, -2]).min():.4g}")


CASES = [Case(*given) for given in itertools.product(SIZES, SIZES, (False, True), range(PROBLEMS))]


# ---- measuring -----------------------------------------------------------------------------------


def measured(folder: Path, horizon: int, device: str) -> Iterator[dict[str, Any]]:
    """Triggers and switches on every problem of one horizon, means over the seeds."""
    problems = [case.made(horizon) for case in CASES]
    learners = [ls.ucb2_hoeffding(c=c) for c in SCALES]
    sweeps = [
        ls.sweep(
            problems, learners, episodes=K, seeds=SEEDS, device=device, regret=False,
            folder=folder / f"{horizon}-{K}",
        )
        for K in ENDS
    ]  # fmt: skip
    for (p, case), (a, scale) in itertools.product(enumerate(CASES), enumerate(SCALES)):
        curves = sweeps[-1][p, a].curves
        kept = np.searchsorted(curves.episodes, MARKS)
        yield case._asdict() | {
            "horizon": horizon,
            "scale": scale,
            "least_gap": 0.0 if case.twins else case.least_gap(problems[p]),
            "triggers": [round(float(found[p, a].triggers.mean()), 2) for found in sweeps],
            "switches": curves.local_switches[:, kept].mean(axis=0).round(2).tolist(),
        }


def measure(folder: Path, device: str) -> None:
    """All horizons, one row of the file for each problem and scale."""
    warnings.simplefilter("ignore", ls.BonusWarning)  # short runs learn little
    rows = [row for horizon in SIZES for row in measured(folder, horizon, device)]
    lines = ",\n".join(json.dumps(row) for row in rows)
    (TARGET / "numbers.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


# ---- publishing ----------------------------------------------------------------------------------


class Group:
    """The problems with one optimal action in a row, or with two, at one scale."""

    def __init__(self, rows: list[dict[str, Any]], twins: bool, scale: float) -> None:
        self.twins, self.scale = twins, scale
        chosen = [row for row in rows if row["scale"] == scale and row["twins"] == twins]
        # with two actions that are twins, there is nothing to learn
        self.rows = [row for row in chosen if row["actions"] > 2 or not twins]
        self.switches = np.array([row["switches"] for row in self.rows])  # [problems, marks]
        self.triggers = np.array([row["triggers"] for row in self.rows])  # [problems, ends]

    @property
    def words(self) -> str:
        return "two optimal actions" if self.twins else "one optimal action"

    @property
    def by_decade(self) -> np.ndarray:  # [problems, decades]
        """Switches in each decade of episodes."""
        return np.diff(self.switches[:, ::2], axis=1)

    def slopes(self, of: str) -> np.ndarray:  # [problems]
        """What the last decade adds for each unit of ln K."""
        return np.diff(getattr(self, of)[:, [-3 if of == "switches" else -2, -1]])[:, 0] / np.log(
            10
        )


def powers(
    rows: list[dict[str, Any]], slopes: np.ndarray, names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:  # [names] each
    """Powers of some numbers of the rows in the positive slopes, by least squares on logarithms;
    standard errors.
    """
    factors = np.log([[math.e, *(float(row[name]) for name in names)] for row in rows])

    def fit(chosen: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(factors[chosen], np.log(slopes[chosen]), rcond=None)[0][1:]

    rng, places = np.random.default_rng(0), np.flatnonzero(slopes > 0)
    drawn = [fit(rng.choice(places, len(places))) for _ in range(DRAWS)]
    return fit(places), np.std(drawn, axis=0)


def groups() -> list[Group]:
    rows = json.loads((TARGET / "numbers.json").read_text(encoding="utf-8"))
    return [Group(rows, twins, scale) for scale in SCALES for twins in (False, True)]


def values() -> dict[str, str]:
    found = groups()
    decades = [f"10{raised(round(np.log10(mark)))}" for mark in MARKS[SHOWN]]
    header = ("rows have", "c", "problems", *(f"to {mark}" for mark in decades), "triggers, last")
    lines = [
        (
            *(group.words, f"{group.scale:g}", f"{len(group.rows)}"),
            *(f"{value:,.0f}" for value in np.median(group.by_decade, axis=0)),
            f"{np.median(np.diff(group.triggers[:, -2:])):,.0f}",
        )
        for group in found
    ]
    alone = [group for group in found if not group.twins]
    ratios = np.concatenate([_falls(group) for group in alone])
    tied = np.concatenate([_falls(group) for group in found if group.twins])
    return {
        "switching/decades": table(header, lines, left=2),
        "switching/exponents": _exponents(found),
        "switching/falls": f"{np.median(ratios):.2f}",
        "switching/stays": f"{np.median(tied):.2f}",
        "switching/problems": f"{len(SIZES) * len(CASES)}",
        "switching/seeds": f"{SEEDS}",
    }


def _falls(group: Group) -> np.ndarray:  # [problems]
    """Switches in the last decade over those in the one before it."""
    last, before = group.by_decade[:, -1], group.by_decade[:, -2]
    return last[before > 0] / before[before > 0]


def _exponents(found: list[Group]) -> str:
    kinds: list[tuple[str, Callable[[Group], bool], str]] = [
        ("triggers", lambda group: True, "triggers"),
        ("switches, two optimal actions", lambda group: group.twins, "switches"),
    ]
    lines = []
    for words, wanted, of in kinds:
        for group in filter(wanted, found):
            kind = words if of == "switches" else f"{words}, {group.words}"
            found_powers = powers(group.rows, group.slopes(of), ("states", "actions", "horizon"))
            lines.append((kind, f"{group.scale:g}", *with_errors(*found_powers)))
    return table(("what grows", "c", "power of S", "power of A", "power of H"), lines, left=2)


def with_errors(numbers: np.ndarray, errors: np.ndarray) -> list[str]:
    """Numbers and their standard errors as cells of a table."""
    return [f"{number:.2f} ± {error:.2f}" for number, error in zip(numbers, errors, strict=True)]


def raised(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def draw() -> None:
    """Median switches against episodes, and the share that each decade adds."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for group in groups():
        style = {"marker": "o", "markersize": 3, "linestyle": "-" if group.scale == 0.05 else "--"}
        style |= {"color": "tab:red" if group.twins else "tab:blue"}
        label = f"{group.words}, c = {group.scale:g}"
        left.plot(MARKS, np.median(group.switches, axis=0), **style)
        right.plot(MARKS[SHOWN], np.median(group.by_decade, axis=0), label=label, **style)
    left.set(xscale="log", yscale="log", xlabel="episodes", ylabel="local switches so far")
    right.set(
        xscale="log", yscale="log", xlabel="episodes", ylabel="switches added in the last decade"
    )
    right.legend(fontsize=8, loc="lower left")
    left.set_title("Median over problems")
    right.set_title("growth like log K is level here")
    figure.savefig(TARGET / "switches.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="gpu")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if not options.draw:
        if options.folder is None:
            parser.error("give --folder, which keeps what is finished, or --draw")
        measure(options.folder, options.device)
    draw()


if __name__ == "__main__":
    main()
