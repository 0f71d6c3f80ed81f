"""Measure switches in billions of episodes: docs/switching/longer.json, and the figure.

    python docs/longer.py --folder FOLDER [--seconds N]   eight minutes on an H200
    python docs/longer.py --check                         whether the CPU finds the same
    python docs/longer.py --draw                          the figure, from the result file

UCB2-H plays 200 random problems, with a bonus for 10^10 episodes. Every second problem has states
in which actions have twins with the same law and reward, so some of its rows have two optimal
actions. In 470 seconds an H200 plays 1.8 billion episodes of each of the 800 runs. FOLDER keeps the
state of all runs: the same command goes on where it ended, and more seconds give more episodes.
`python docs/publish.py` then puts the numbers on the page.
"""

import argparse
import ctypes
import itertools
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pages import table
from switching import powers, raised, with_errors

import lowswitch as ls
from lowswitch.gpu import compiler, driver
from lowswitch.gpu.encode import COLUMN, padded_columns
from lowswitch.kernels.streams import stream_key

TARGET = Path(__file__).parent / "switching"
PROBLEMS = 200
SEEDS = 2
SCALES = (0.05, 0.01)  # of the bonus
EPISODES = 10**10
CHECKED = 200_000
MARKS = np.unique(np.round(10 ** (np.arange(8, 41) / 4)).astype(np.int64))  # quarter decades
ROOM = 8  # steps, states and actions
PIECE = 5_000_000  # episodes of a launch
CELL = np.dtype([("q", "f8"), ("visits", "i8"), ("place", "i8")])
CLOCK = np.dtype([(name, "i8") for name in ("episodes", "mark", "triggers", "switches", "sole")])
SETTING = np.dtype(
    [("c", "f8"), ("scale", "f8"), ("caps", "f8", ROOM)]
    + [(name, "i8") for name in ("H", "A", "every_until", "later")]
)
_ARRAYS = (
    *("columns", "rewards", "sole", "settings", "later", "marks", "problems", "chosen", "keys"),
    *("cells", "actions", "clocks", "curves"),
)
_STATE = ("cells", "actions", "clocks", "curves")


class Arguments(ctypes.Structure):
    """The structure of longer.cu."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in _ARRAYS),
        ("last", ctypes.c_int64),
        ("marks_size", ctypes.c_int64),
    )


# ---- problems ------------------------------------------------------------------------------------


def problem(number: int) -> ls.TabularMDP:
    """Dirichlet laws and uniform rewards; in odd problems, every second state has twin actions."""
    rng = np.random.default_rng([34, number])
    S, A, H = (int(size) for size in rng.integers(2, ROOM + 1, 3))
    transitions, rewards = rng.dirichlet(np.ones(S), size=(S, A)), rng.uniform(size=(S, A))
    if number % 2:
        half = A // 2
        transitions[1::2, half : 2 * half] = transitions[1::2, :half]
        rewards[1::2, half : 2 * half] = rewards[1::2, :half]
    return ls.TabularMDP(transitions, rewards, start=0, horizon=H)


def gaps(mdp: ls.TabularMDP) -> np.ndarray:  # [H, S]
    """How far the second-best action of each row is below the best; 0 is a tie."""
    q = np.sort(mdp.optimal_q, axis=2)
    found = q[:, :, -1] - q[:, :, -2]
    return np.where(found < 1e-12, 0.0, found)


class Laid(NamedTuple):
    """The tables of all problems and settings, and fresh runs."""

    mdps: list[ls.TabularMDP]
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(cls, episodes: int, marks: np.ndarray) -> "Laid":
        mdps = [problem(number) for number in range(PROBLEMS)]
        pairs = list(itertools.product(range(PROBLEMS), range(len(SCALES))))
        settings = np.zeros(len(pairs), dtype=SETTING)
        later: list[int] = []
        for row, (p, c) in zip(settings, pairs, strict=True):
            _set(row, mdps[p], ls.ucb2_hoeffding(c=SCALES[c]), episodes, later)
        chosen = np.repeat(np.arange(len(pairs)), SEEDS)
        keys = np.array([stream_key(seed) for seed in range(SEEDS)], dtype=np.uint64)
        problems = np.repeat([p for p, _ in pairs], SEEDS)
        tables = [_tables(mdp) for mdp in mdps]
        arrays = {
            **{name: np.stack([table[name] for table in tables]) for name in tables[0]},
            "settings": settings,
            "later": np.array(later, dtype=np.int64),
            "marks": marks,
            "problems": problems.astype(np.int32),
            "chosen": chosen.astype(np.int32),
            "keys": np.tile(keys, len(pairs)),
            "cells": np.stack(
                [_fresh(mdps[p], settings[s]) for p, s in zip(problems, chosen, strict=True)]
            ),
            "actions": np.zeros((len(chosen), ROOM, ROOM), dtype=np.uint8),
            "clocks": np.zeros(len(chosen), dtype=CLOCK),
            "curves": np.zeros((len(chosen), len(marks), 3), dtype=np.int64),
        }
        return cls(mdps, arrays)


def _set(
    row: np.ndarray, mdp: ls.TabularMDP, algorithm: ls.Algorithm, K: int, later: list[int]
) -> None:
    """The numbers of an algorithm on a problem, as `learners.rows.row_spec` has them."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    iota = algorithm.iota(horizon=H, states=S, actions=A, episodes=K)
    triggers = algorithm.schedule.triggers(horizon=H, limit=K)
    row["c"], row["scale"] = algorithm.bonus.c, H**3 * iota
    row["caps"][:H] = algorithm.estimator.caps(H)
    row["H"], row["A"], row["every_until"] = H, A, triggers.every_until
    row["later"] = len(later)
    later += [*triggers.later, 2**62]


def _tables(mdp: ls.TabularMDP) -> dict[str, np.ndarray]:
    """The alias tables, rewards and rows with one optimal action, in room for the largest."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    columns = np.zeros((ROOM, ROOM, ROOM), dtype=COLUMN)
    laws = padded_columns(mdp.model.heads[:-1], mdp.model.columns, 3)
    columns[:S, :A] = laws.reshape(S, A, ROOM)
    rewards, sole = np.zeros((ROOM, ROOM)), np.zeros((ROOM, ROOM), dtype=np.uint8)
    rewards[:S, :A] = mdp.model.rewards.reshape(S, A)
    sole[:H, :S] = gaps(mdp) > 0
    return {"columns": columns, "rewards": rewards, "sole": sole}


def _fresh(mdp: ls.TabularMDP, setting: np.ndarray) -> np.ndarray:  # [H, S, A]
    cells = np.zeros((ROOM, ROOM, ROOM), dtype=CELL)
    cells["q"] = -np.inf
    cells["q"][: mdp.horizon, : mdp.states, : mdp.actions] = setting["caps"][
        : mdp.horizon, None, None
    ]
    return cells


# ---- playing -------------------------------------------------------------------------------------


def play(laid: Laid, episodes: int, seconds: float, kept: Path | None = None) -> dict[str, Any]:
    """Play all runs up to a number of episodes, or for a time; return their state."""
    begin = time.monotonic()
    with driver.Gpu() as gpu:
        image = compiler.compiled({}, gpu.facts.architecture, TARGET / "longer.cu")
        function = gpu.load(image, ("play",))["play"]
        arguments = Arguments(marks_size=len(laid.arrays["marks"]))
        state = dict(np.load(kept)) if kept and kept.exists() else {}
        for name, array in (laid.arrays | state).items():
            address = gpu.allocate(array.nbytes)
            gpu.upload(address, array)
            setattr(arguments, name, address)
        done = int((laid.arrays | state)["clocks"]["episodes"].min())
        while done < episodes and time.monotonic() - begin < seconds:
            done = min(episodes, done + PIECE)
            arguments.last = done
            gpu.launch(function, len(laid.arrays["chosen"]), 32, 0, arguments)
        found = {
            name: gpu.download(getattr(arguments, name), array.shape, array.dtype)
            for name, array in laid.arrays.items()
            if name in _STATE
        }
    if kept:
        np.savez_compressed(kept, **found)
    print(f"{done:,} episodes after {time.monotonic() - begin:.1f} s", flush=True)
    return found


def check() -> None:
    """Whether the library's runs on the CPU have the same triggers, switches and policies."""
    warnings.simplefilter("ignore")
    laid = Laid.of(CHECKED, np.array([CHECKED]))
    found = play(laid, CHECKED, 600.0)
    learners = [ls.ucb2_hoeffding(c=c) for c in SCALES]
    sweep = ls.sweep(
        laid.mdps, learners, episodes=CHECKED, seeds=SEEDS, regret=False, progress=False
    )
    equal = 0
    for i, (p, c, seed) in enumerate(
        itertools.product(range(PROBLEMS), range(len(SCALES)), range(SEEDS))
    ):
        runs, mdp = sweep[p, c], laid.mdps[p]
        policy = found["actions"][i, : mdp.horizon, : mdp.states]
        clock = found["clocks"][i]
        same = clock["triggers"] == runs.triggers[seed]
        same &= clock["switches"] == runs.local_switches[seed]
        equal += bool(same and (policy == runs.policy[seed]).all())
    print(f"{equal} of {len(found['clocks'])} runs equal the CPU's", flush=True)


def measure(folder: Path, seconds: float) -> None:
    """All runs, one row of the file for each problem and scale; means over the seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    laid = Laid.of(EPISODES, MARKS)
    found = play(laid, EPISODES, seconds, folder / "longer.npz")
    done = int(found["clocks"]["episodes"].min())
    passed = int((done >= MARKS).sum())
    counts = found["curves"].reshape(PROBLEMS, len(SCALES), SEEDS, len(MARKS), 3)
    rows = []
    for p, mdp in enumerate(laid.mdps):
        apart = gaps(mdp)
        shared = {
            "states": mdp.states,
            "actions": mdp.actions,
            "horizon": mdp.horizon,
            "tied_rows": int((apart == 0).sum()),
            "least_gap": float(f"{apart[apart > 0].min(initial=np.inf):.4g}"),
        }
        for c, scale in enumerate(SCALES):
            means = counts[p, c, :, :passed].mean(axis=0).T
            named = zip(("triggers", "switches", "sole"), means.tolist(), strict=True)
            rows.append(shared | {"scale": scale} | dict(named))
    lines = ",\n".join(json.dumps(row) for row in rows)
    (TARGET / "longer.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


# ---- publishing ----------------------------------------------------------------------------------

SHOWN = 4  # decades, up to the last mark
KINDS = {  # what is counted: its name in the table, and the problems in which it can occur
    "triggers": ("triggers", lambda row: True),
    "tied": ("changes in tied rows", lambda row: row["tied_rows"] > 0),
    "sole": ("changes in rows with one optimal action", lambda row: True),
}


class Counts:
    """One count on all problems in which it can occur, at one scale."""

    def __init__(self, rows: list[dict[str, Any]], kind: str, scale: float) -> None:
        self.words, occurs = KINDS[kind]
        self.scale, self.rows = scale, [r for r in rows if r["scale"] == scale and occurs(r)]
        if kind == "tied":
            self.counts = self._of("switches") - self._of("sole")
        else:
            self.counts = self._of(kind)

    def _of(self, name: str) -> np.ndarray:  # [problems, marks]
        return np.array([row[name] for row in self.rows])

    @property
    def by_decade(self) -> np.ndarray:  # [problems, SHOWN]
        """How many there were in each of the last decades."""
        return np.diff(self.counts[:, -1 - 4 * SHOWN :: 4], axis=1)

    def line(self) -> list[str]:
        settled = (self.by_decade[:, -1] == 0).mean()
        medians = (f"{median:,.0f}" for median in np.median(self.by_decade, axis=0))
        return [
            self.words,
            f"{self.scale:g}",
            str(len(self.rows)),
            *medians,
            f"{100 * settled:.0f} %",
        ]

    def slopes(self) -> np.ndarray:  # [problems]
        """b of a + b ln K over the last two decades."""
        gained: np.ndarray = self.by_decade[:, -2:].sum(axis=1) / np.log(100)
        return gained

    @property
    def falls(self) -> np.ndarray:  # [problems]
        """The last decade over the one before it."""
        last, before = self.by_decade[:, -1], self.by_decade[:, -2]
        return last[before > 0] / before[before > 0]


def counted() -> tuple[list[Counts], np.ndarray]:
    rows = json.loads((TARGET / "longer.json").read_text(encoding="utf-8"))
    passed = MARKS[: len(rows[0]["triggers"])]
    return [Counts(rows, kind, scale) for kind in KINDS for scale in SCALES], passed


def values() -> dict[str, str]:
    found, passed = counted()
    ends = passed[-1 - 4 * SHOWN :: 4][1:]
    names = ("states", "actions", "horizon", "least_gap")
    exponents = [
        [one.words, f"{one.scale:g}", *with_errors(*powers(one.rows, one.slopes(), names))]
        for one in found
    ]
    by_words = {one.words: [] for one in found}
    for one in found:
        by_words[one.words].append(one.falls)
    falls = [f"{np.median(np.concatenate(many)):.2f}" for many in by_words.values()]
    head = [f"to {_short(end)}" for end in ends]
    return {
        "longer/decades": table(
            ["what is counted", "c", "problems", *head, "none in the last"],
            [one.line() for one in found], left=2,
        ),
        "longer/exponents": table(
            ["slope of", "c", "power of S", "power of A", "power of H", "power of the least gap"],
            exponents, left=2,
        ),
        "longer/episodes": _short(passed[-1]),
        "longer/problems": str(PROBLEMS),
        "longer/checked": f"{CHECKED:,}",
        **{f"longer/{kind}": fall for kind, fall in zip(KINDS, falls, strict=True)},
    }  # fmt: skip


def _short(number: int) -> str:
    power = int(np.log10(number))
    return f"{number / 10**power:.1f}·10{raised(power)}"


def draw() -> None:
    """What each decade adds, against episodes."""
    import matplotlib.pyplot as plt

    found, passed = counted()
    figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    words = [words for words, _ in KINDS.values()]
    colors = dict(zip(words, ("0.5", "tab:red", "tab:blue"), strict=True))
    for one in found:
        added = one.counts[:, 4:] - one.counts[:, :-4]
        style = {"color": colors[one.words], "linestyle": "-" if one.scale == 0.05 else "--"}
        medians = np.median(added, axis=0)
        axes.plot(passed[4:], medians, label=f"{one.words}, c = {one.scale:g}", **style)
    axes.set(
        xscale="log", yscale="log", xlabel="episodes", ylabel="added in the last decade (median)"
    )
    axes.set_title("growth like log K is level here")
    axes.legend(fontsize=7.5, loc="lower left")
    figure.savefig(TARGET / "longer.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=560.0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.check:
        check()
        return
    if not options.draw:
        if options.folder is None:
            parser.error("give --folder, which keeps the state of all runs, --check or --draw")
        measure(options.folder, options.seconds)
    draw()


if __name__ == "__main__":
    main()
