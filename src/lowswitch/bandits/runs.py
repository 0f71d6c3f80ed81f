"""Thousands of runs of a bandit algorithm at once, and their costs."""

from __future__ import annotations

import itertools
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowswitch.bandits.policies import BanditAlgorithm, checked_means, require_size
from lowswitch.checks import require_count, require_memory, require_seed, shown
from lowswitch.io import storage
from lowswitch.kernels.arrays import NEVER, Bandit, BanditTables
from lowswitch.kernels.streams import stream_key
from lowswitch.runs.results import curve_points
from lowswitch.show.progress import LOADING, PieceSize, Progress, cores, needs_loading, run_all
from lowswitch.show.tables import Table

_BLOCKS_PER_THREAD = 8  # enough that no thread waits long for the last block


# ---- results -------------------------------------------------------------------------------------


class BanditCurves(NamedTuple):
    """The costs along each run, at about 200 log-spaced times."""

    pulls: np.ndarray  # [C]
    regret: np.ndarray  # [runs, C]
    switches: np.ndarray  # [runs, C]
    batches: np.ndarray  # [runs, C]


@dataclass(frozen=True, eq=False, kw_only=True)
class BanditRuns:
    """The costs of the runs of one algorithm on one bandit."""

    algorithm: BanditAlgorithm
    means: np.ndarray  # [A]
    pulls: int
    seeds: np.ndarray  # [runs]
    arm_pulls: np.ndarray  # [runs, A]
    curves: BanditCurves
    seconds: float

    def __repr__(self) -> str:
        from lowswitch.show import report

        size = (
            f"arms={len(self.means)}, {self.pulls:,} pulls, {len(self.seeds):,}"
            f" run{'s' * (len(self.seeds) > 1)}"
        )
        return (
            f"BanditRuns({self.algorithm}, {size},"
            f" {report.means(regret=self.regret, switches=self.switches, batches=self.batches)})"
        )

    @property
    def regret(self) -> np.ndarray:  # [runs]
        """Exact pseudo-regret: the best mean minus the mean of the played arm, summed over
        pulls.
        """
        return self.curves.regret[:, -1]

    @property
    def switches(self) -> np.ndarray:  # [runs]
        """How many pulls played another arm than the pull before them.

        The first round, which plays each arm once, counts as A - 1.
        """
        return self.curves.switches[:, -1]

    @property
    def batches(self) -> np.ndarray:  # [runs]
        """The number of batches: how often the next pulls were decided, including the first time.

        The data could change the decision one time less. UCB1 and UCB2 play the first round in one
        batch, and then choose an arm for each epoch (UCB1 for each pull).
        """
        return self.curves.batches[:, -1]

    @property
    def pulls_per_second(self) -> float:
        return self.pulls * len(self.seeds) / self.seconds

    def summary(self) -> Table:
        """A table with 95 % confidence intervals over the runs, to print or display."""
        from lowswitch.show import report

        best = self.arm_pulls[:, self.means == self.means.max()].sum(axis=1) / self.pulls
        row = (
            str(self.algorithm),
            report.mean_and_interval(self.regret),
            report.mean_and_interval(self.switches),
            report.mean_and_interval(self.batches),
            f"{best.mean():.1%}",
            f"{self.pulls_per_second / 1e6:.0f} M",
        )
        size = f"A = {len(self.means)}; {self.pulls:,} pulls, {len(self.seeds):,} runs"
        header = ("algorithm", "regret", "switches", "batches", "best arm played", "pulls/s")
        return Table(f"{size}; means with 95 % intervals", header, (row,))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results and their configuration; `bandits.load` reads them."""
        storage.save(path, "bandit runs", self)


def load(path: str | os.PathLike[str]) -> BanditRuns:
    """Read bandit runs that `BanditRuns.save` wrote.

    Parameters
    ----------
    path
        The file.
    """
    return storage.load(path, "bandit runs", BanditRuns)


# ---- simulation ----------------------------------------------------------------------------------


def simulate(
    means: Any,
    algorithm: BanditAlgorithm,
    *,
    pulls: int,
    runs: int = 1000,
    first_seed: int = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> BanditRuns:
    """Play Bernoulli arms with these means for `pulls` pulls, `runs` times.

    The noise of a pull depends only on the seed and the pull's number. So all algorithms meet the
    same noise, and results do not depend on `threads`. Thompson sampling draws from its own stream.

    Parameters
    ----------
    means
        The mean reward of each arm, from 0 to 1.
    algorithm
        The bandit algorithm, such as `ucb2()`.
    pulls
        The number of pulls of each run.
    runs
        The number of runs.
    first_seed
        Run i has the seed first_seed + i.
    threads
        The number of threads; by default one for each core.
    progress
        Whether to show progress, as in `lowswitch.simulate`.

    Returns
    -------
    BanditRuns
        Regret, switches and batches of every run.
    """
    from lowswitch.kernels.arms import play_bandits

    if not isinstance(algorithm, BanditAlgorithm):
        raise ValueError(
            f"algorithm must be a bandit algorithm, not {shown(algorithm)}; use bandits.ucb2() or"
            " another of bandits.RECIPES"
        )
    arms = checked_means(means)
    pulls = require_size(len(arms), pulls)
    first = require_seed(first_seed, name="first_seed", bits=62)
    runs = require_count("runs", runs)
    require_memory(
        8 * runs * (8 * len(arms) + 600), f"{runs:,} runs of {len(arms)} arms", "play fewer runs"
    )
    seeds = np.arange(first, first + runs, dtype=np.int64)
    workers = require_count("threads", cores() if threads is None else threads)
    bandit, tables = compile_bandit(algorithm, arms, pulls), fresh_tables(seeds, len(arms), pulls)
    edges = np.linspace(0, runs, min(runs, workers * _BLOCKS_PER_THREAD) + 1).astype(int).tolist()
    blocks = [_Block(bandit, tables, first, last) for first, last in itertools.pairwise(edges)]
    with Progress(runs * pulls, unit="pulls", show=progress, label=str(algorithm)) as bar:
        if needs_loading(play_bandits):
            bar.note(LOADING)
        play_bandits(bandit, tables, 0, 0, 0, 0)  # compiles
        bar.start()
        begin = time.perf_counter()
        run_all(
            [block.play for block in blocks],
            workers=workers,
            look_up=lambda: bar.update(sum(block.played for block in blocks)),
        )
        seconds = time.perf_counter() - begin
    return BanditRuns(
        algorithm=algorithm,
        means=arms,
        pulls=pulls,
        seeds=seeds,
        arm_pulls=tables.pulls,
        curves=BanditCurves(bandit.curve_points, tables.regret, tables.switches, tables.batches),
        seconds=seconds,
    )


def compile_bandit(algorithm: BanditAlgorithm, means: np.ndarray, pulls: int) -> Bandit:
    """The problem and the algorithm's numbers for `pulls` pulls."""
    from lowswitch.kernels.arms import (
        BASE,
        BATCHED_THOMPSON,
        EXPLORE_THEN_COMMIT,
        LOG_LOG,
        UCB1,
        UCB2,
    )

    kinds = {
        "ucb1": UCB1,
        "ucb2": UCB2,
        "base": BASE,
        "explore-then-commit": EXPLORE_THEN_COMMIT,
        "log-log": LOG_LOG,
        "batched-thompson": BATCHED_THOMPSON,
    }
    triggers = algorithm.triggers(pulls)
    return Bandit(
        means=means,
        gaps=means.max() - means,
        kind=kinds[algorithm.name],
        constant=algorithm.constant,
        every_until=triggers.every_until,
        later=np.array([*triggers.later, NEVER], dtype=np.int64),
        grid=np.array(algorithm.ends(len(means), pulls), dtype=np.int64),
        curve_points=curve_points(pulls),
    )


def fresh_tables(seeds: np.ndarray, arms: int, pulls: int) -> BanditTables:
    """The state of runs that have not played."""
    runs, points = len(seeds), len(curve_points(pulls))
    counts = {name: np.zeros(runs, dtype=np.int64) for name in ("arm", "due", "switched", "begun")}
    arm_counts = {
        name: np.zeros((runs, arms), dtype=np.int64)
        for name in ("pulls", "wins", "left", "old_pulls", "old_wins")
    }
    return BanditTables(
        keys=_stream_keys(seeds),
        posterior_keys=_stream_keys(seeds.astype(np.uint64) + np.uint64(2**63)),  # no run's seed
        active=np.ones((runs, arms), dtype=np.bool_),
        regret=np.zeros((runs, points)),
        switches=np.zeros((runs, points), dtype=np.int64),
        batches=np.zeros((runs, points), dtype=np.int64),
        **counts,
        **arm_counts,
    )


def _stream_keys(seeds: np.ndarray) -> np.ndarray:
    return np.array([stream_key(int(seed)) for seed in seeds], dtype=np.uint64)


class _Block:
    """Neighbouring runs, played by one thread."""

    def __init__(self, bandit: Bandit, tables: BanditTables, first: int, last: int) -> None:
        self.bandit, self.tables, self.first, self.last = bandit, tables, first, last
        self.played = 0  # pulls, over all its runs

    def play(self, stop: threading.Event) -> None:
        from lowswitch.kernels.arms import play_bandits

        runs, done, pulls = self.last - self.first, 0, int(self.bandit.curve_points[-1])
        piece = PieceSize(10**5 // runs)
        while done < pulls and not stop.is_set():
            with piece:
                until = min(pulls, done + piece.size)
                play_bandits(self.bandit, self.tables, self.first, self.last, done, until)
            done = until
            self.played = done * runs
