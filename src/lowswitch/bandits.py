"""The one-state, one-step case: UCB2, its parent UCB1, and thousands of runs of either at once."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lowswitch import storage
from lowswitch.arrays import NEVER, Bandit, BanditTables
from lowswitch.mdp import require_count
from lowswitch.naming import nearest
from lowswitch.progress import LOADING, Progress, needs_loading
from lowswitch.schedules import UCB2, EveryVisit, Triggers
from lowswitch.simulate import checkpoints
from lowswitch.streams import stream_key
from lowswitch.threads import Pace, cores, run_all

_BLOCKS_PER_THREAD = 8  # enough that no thread waits long for the last one


# ---- the algorithms --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BanditAlgorithm(ABC):
    """An index for each arm, and the pull counts of an arm at which the arm with the largest index is chosen anew."""

    name: ClassVar[str]

    @abstractmethod
    def triggers(self, pulls: int) -> Triggers:
        """The pull counts of an arm, up to a limit, at which the next arm is chosen."""

    @abstractmethod
    def regret_bound(self, means: Any, *, pulls: int) -> float:
        """The proved bound on the expected regret."""

    def switch_bound(self, arms: int, pulls: int) -> int:
        """A - 1 switches in the first round, then at most one for each epoch: as many epochs as fit into the other pulls.

        This is sum_j (r_j + 1) of Auer et al. 2002 without its epochs of length zero; for UCB2 it grows like A log(T / A) / alpha.
        """
        _require_size(arms, pulls)
        return arms - 1 + _most_epochs(self.triggers(pulls), arms, pulls - arms)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> BanditAlgorithm:
        options = dict(data)
        name = options.pop("name")
        if name not in RECIPES:
            raise ValueError(f"unknown bandit algorithm {name!r}; {nearest(name, RECIPES)}")
        return RECIPES[name](**options)

    def __str__(self) -> str:
        """The command line's way to write it, without what is default."""
        default = dataclasses.asdict(RECIPES[self.name]())
        options = [f"{key}={value}" for key, value in dataclasses.asdict(self).items() if value != default[key]]
        return self.name + (":" + ",".join(options) if options else "")


def _most_epochs(triggers: Triggers, arms: int, pulls: int) -> int:
    """The most epochs, of all arms together and the last one cut, that fit into these pulls: the shortest ones."""
    single = arms * (triggers.every_until - 1)  # epochs of one pull
    if pulls <= single:
        return pulls
    lengths = np.sort(np.diff([triggers.every_until, *triggers.later]))
    ends = arms * np.concatenate([[0], np.cumsum(lengths)])
    whole = int(np.searchsorted(ends, pulls - single, side="right")) - 1  # lengths that fit once for every arm
    left = pulls - single - int(ends[whole])
    return single + arms * whole + math.ceil(left / int(lengths[whole]))


@dataclass(frozen=True, kw_only=True)
class UCB1Policy(BanditAlgorithm):
    """Always the arm with the largest mean + sqrt(2 ln n / n_j): Auer, Cesa-Bianchi, Fischer 2002, Figure 1."""

    name: ClassVar[str] = "ucb1"

    def triggers(self, pulls: int) -> Triggers:
        return EveryVisit().triggers(horizon=1, limit=pulls)

    def regret_bound(self, means: Any, *, pulls: int) -> float:
        """sum_i 8 ln n / Delta_i + (1 + pi^2 / 3) sum_i Delta_i: Auer, Cesa-Bianchi, Fischer 2002, Theorem 1."""
        gaps = _positive_gaps(_checked_means(means))
        return float(np.sum(8 * math.log(pulls) / gaps) + (1 + math.pi**2 / 3) * gaps.sum())


@dataclass(frozen=True, kw_only=True)
class UCB2Policy(BanditAlgorithm):
    """The arm with the largest mean + a_{n,r_j} until its pulls reach tau(r_j + 1): Auer, Cesa-Bianchi, Fischer 2002, Figure 2.

    tau(r) = ceil((1 + alpha)^r), a_{n,r} = sqrt((1 + alpha) ln(e n / tau(r)) / (2 tau(r))). An epoch that begins when tau(r_j + 1) is
    still tau(r_j) plays nothing and changes no index, since a_{n,r} depends on r only through tau(r): the distinct values of tau are all
    there is to know. The last epoch is cut when the pulls are spent.
    """

    name: ClassVar[str] = "ucb2"
    alpha: float

    def __post_init__(self) -> None:
        if not (isinstance(self.alpha, float) and 0 < self.alpha < 1):
            raise ValueError(
                f"alpha must lie strictly between 0 and 1, not {self.alpha!r}; 0.001 for little regret, 0.1 to 0.5 for few switches"
            )

    def triggers(self, pulls: int) -> Triggers:
        """The distinct values of tau(r) up to a limit."""
        return UCB2(eta=self.alpha, r_star=1).triggers(horizon=1, limit=pulls)

    def regret_bound(self, means: Any, *, pulls: int) -> float:
        """sum_i (1 + alpha)(1 + 4 alpha) ln(2 e Delta_i^2 n) / (2 Delta_i) + c_alpha / Delta_i: Auer et al. 2002, Theorem 2.

        It is stated for n >= max_i 1 / (2 Delta_i^2) and 0 < alpha < 1; one step of its proof needs alpha < 1/10.
        """
        gaps = _positive_gaps(_checked_means(means))
        if len(gaps) and not pulls >= (least := 1 / (2 * gaps.min() ** 2)):
            raise ValueError(f"Theorem 2 needs at least {math.ceil(least):,} pulls for a gap of {gaps.min():g}, not {pulls!r}")
        leading = (1 + self.alpha) * (1 + 4 * self.alpha) * np.log(2 * math.e * gaps**2 * pulls) / 2
        return float(np.sum((leading + self.lower_order) / gaps))

    @property
    def lower_order(self) -> float:
        """c_alpha = 1 + (1+alpha) e / alpha^2 + ((1+alpha) / alpha)^(1+alpha) [1 + 11 (1+alpha) / (5 alpha^2 ln(1+alpha))]: eq. (18)."""
        alpha, growth = self.alpha, 1 + self.alpha
        bracket = 1 + 11 * growth / (5 * alpha**2 * math.log1p(alpha))
        return 1 + growth * math.e / alpha**2 + math.pow(growth / alpha, growth) * bracket


def ucb1() -> UCB1Policy:
    """UCB1, which may change arm at every pull: Auer, Cesa-Bianchi, Fischer, Machine Learning 47, 2002."""
    return UCB1Policy()


def ucb2(*, alpha: float = 0.001) -> UCB2Policy:
    """UCB2, which plays in epochs that grow by 1 + alpha: Auer, Cesa-Bianchi, Fischer, Machine Learning 47, 2002.

    alpha = 0.001 is their experiments' choice, for little regret; 0.1 to 0.5 when switches matter.
    """
    return UCB2Policy(alpha=alpha)


RECIPES: dict[str, Callable[..., BanditAlgorithm]] = {"ucb1": ucb1, "ucb2": ucb2}


# ---- results ---------------------------------------------------------------------------------------------------------


class BanditCurves(NamedTuple):
    """The costs along each run, at about 200 log-spaced times."""

    pulls: np.ndarray  # [C]
    regret: np.ndarray  # [runs, C]
    switches: np.ndarray  # [runs, C]


@dataclass(frozen=True, eq=False, kw_only=True)
class BanditRuns:
    """What the runs of one algorithm on one bandit cost."""

    algorithm: BanditAlgorithm
    means: np.ndarray  # [A]
    pulls: int
    seeds: np.ndarray  # [runs]
    arm_pulls: np.ndarray  # [runs, A]
    curves: BanditCurves
    seconds: float

    @property
    def regret(self) -> np.ndarray:  # [runs]
        """Exact pseudo-regret, the sum over all pulls of the best mean less the mean of the arm played."""
        return self.curves.regret[:, -1]

    @property
    def switches(self) -> np.ndarray:  # [runs]
        """How many pulls played another arm than the pull before them; the first round, each arm once, counts with its A - 1."""
        return self.curves.switches[:, -1]

    @property
    def pulls_per_second(self) -> float:
        return self.pulls * len(self.seeds) / self.seconds

    def summary(self) -> None:
        """Print a table with 95 % confidence intervals over the runs."""
        from lowswitch import report

        best = self.arm_pulls[:, self.means == self.means.max()].sum(axis=1) / self.pulls
        row = [
            str(self.algorithm),
            report.mean_and_interval(self.regret),
            report.mean_and_interval(self.switches),
            f"{best.mean():.1%}",
            f"{self.pulls_per_second / 1e6:.0f} M",
        ]
        print(f"A = {len(self.means)}; {self.pulls:,} pulls, {len(self.seeds):,} runs; means with 95 % intervals\n")
        print(report.table(["algorithm", "regret", "switches", "best arm played", "pulls/s"], [row]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration; `bandits.load` reads them back."""
        facts = {name: getattr(self, name) for name in _FACTS} | {"algorithm": self.algorithm.to_dict()}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"curve_{name}": array for name, array in self.curves._asdict().items()}
        storage.write(path, "bandit runs", facts, arrays)


_FACTS = ("pulls", "seconds")
_ARRAYS = ("means", "seeds", "arm_pulls")


def load(path: str | os.PathLike[str]) -> BanditRuns:
    """The bandit runs saved in a file."""
    facts, arrays = storage.read(path, "bandit runs")
    try:
        return BanditRuns(
            algorithm=BanditAlgorithm.from_dict(facts["algorithm"]),
            curves=BanditCurves(*(arrays[f"curve_{name}"] for name in BanditCurves._fields)),
            **{name: facts[name] for name in _FACTS},
            **{name: arrays[name] for name in _ARRAYS},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} holds no whole bandit runs ({error}); save them again") from error


# ---- simulation ------------------------------------------------------------------------------------------------------


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

    Run i has seed first_seed + i. The noise of a pull is a function of the seed and the pull's number alone, so all algorithms meet the
    same noise and results do not depend on `threads`, by default the machine's cores. progress: on a terminal by default.
    """
    from lowswitch import kernels

    if not isinstance(algorithm, BanditAlgorithm):
        raise ValueError(f"algorithm must be a bandit algorithm, not {algorithm!r}; use bandits.ucb1() or bandits.ucb2()")
    arms = _checked_means(means)
    _require_size(len(arms), pulls)
    seeds = _checked_seeds(first_seed, require_count("runs", runs))
    workers = require_count("threads", cores() if threads is None else threads)
    bandit, tables = compile_bandit(algorithm, arms, pulls), fresh_tables(seeds, len(arms), pulls)
    edges = np.linspace(0, runs, min(runs, workers * _BLOCKS_PER_THREAD) + 1).astype(int).tolist()
    blocks = [_Block(bandit, tables, first, last) for first, last in itertools.pairwise(edges)]
    with Progress(runs * pulls, unit="pulls", show=progress, label=str(algorithm)) as bar:
        if needs_loading(kernels.play_bandits):
            bar.note(LOADING)
        bar.update(0)
        kernels.play_bandits(bandit, tables, 0, 0, 0, 0)  # compiles
        begin = time.perf_counter()
        run_all([block.play for block in blocks], workers=workers, look_up=lambda: bar.update(sum(block.played for block in blocks)))
        seconds = time.perf_counter() - begin
    return BanditRuns(
        algorithm=algorithm,
        means=arms,
        pulls=int(pulls),
        seeds=seeds,
        arm_pulls=tables.pulls,
        curves=BanditCurves(bandit.checkpoints, tables.regret, tables.switches),
        seconds=seconds,
    )


def compile_bandit(algorithm: BanditAlgorithm, means: np.ndarray, pulls: int) -> Bandit:
    """The problem and the algorithm's numbers for so many pulls."""
    from lowswitch import kernels

    triggers = algorithm.triggers(pulls)
    return Bandit(
        means=means,
        gaps=means.max() - means,
        kind=kernels.UCB2 if isinstance(algorithm, UCB2Policy) else kernels.UCB1,
        alpha=float(algorithm.alpha) if isinstance(algorithm, UCB2Policy) else 0.0,
        every_until=triggers.every_until,
        later=np.array([*triggers.later, NEVER], dtype=np.int64),
        checkpoints=checkpoints(pulls),
    )


def fresh_tables(seeds: np.ndarray, arms: int, pulls: int) -> BanditTables:
    """Runs that have played nothing."""
    runs, points = len(seeds), len(checkpoints(pulls))
    return BanditTables(
        keys=np.array([stream_key(int(seed)) for seed in seeds], dtype=np.uint64),
        pulls=np.zeros((runs, arms), dtype=np.int64),
        wins=np.zeros((runs, arms), dtype=np.int64),
        arm=np.zeros(runs, dtype=np.int64),
        due=np.zeros(runs, dtype=np.int64),
        switched=np.zeros(runs, dtype=np.int64),
        regret=np.zeros((runs, points)),
        switches=np.zeros((runs, points), dtype=np.int64),
    )


class _Block:
    """Neighbouring runs, played by one thread."""

    def __init__(self, bandit: Bandit, tables: BanditTables, first: int, last: int) -> None:
        self.bandit, self.tables, self.first, self.last = bandit, tables, first, last
        self.played = 0  # pulls of all its runs

    def play(self, stop: threading.Event) -> None:
        from lowswitch import kernels

        runs, done, pulls = self.last - self.first, 0, int(self.bandit.checkpoints[-1])
        pace = Pace(10**5 // runs)
        while done < pulls and not stop.is_set():
            with pace:
                until = min(pulls, done + pace.size)
                kernels.play_bandits(self.bandit, self.tables, self.first, self.last, done, until)
            done = until
            self.played = done * runs


# ---- checks ----------------------------------------------------------------------------------------------------------


def _checked_means(means: Any) -> np.ndarray:
    arms: np.ndarray = np.array(means, dtype=float)
    if arms.ndim != 1 or len(arms) < 2:
        raise ValueError(f"means must have shape [A] with at least 2 arms, not {arms.shape}; give one mean for each arm")
    if not (arms.min() >= 0 and arms.max() <= 1):
        raise ValueError(f"means must lie in [0, 1], not [{arms.min():g}, {arms.max():g}]; rescale the rewards")
    return arms


def _require_size(arms: int, pulls: int) -> None:
    if require_count("arms", arms) < 2:
        raise ValueError(f"arms must be at least 2, not {arms!r}; with one arm there is nothing to choose")
    if require_count("pulls", pulls) < arms:
        raise ValueError(f"pulls must be at least the number of arms, {arms}, not {pulls!r}; each arm is played once first")


def _checked_seeds(first_seed: int, runs: int) -> np.ndarray:
    if isinstance(first_seed, bool) or not isinstance(first_seed, int | np.integer) or not 0 <= first_seed < 2**62:
        raise ValueError(f"first_seed must be a whole number from 0 and below 2**62, not {first_seed!r}")
    return np.arange(first_seed, first_seed + runs, dtype=np.int64)


def _positive_gaps(means: np.ndarray) -> np.ndarray:
    """The best mean less that of each worse arm."""
    gaps: np.ndarray = means.max() - means
    return gaps[gaps > 0]
