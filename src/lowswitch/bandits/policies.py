"""The published bandit algorithms, each a frozen value.

An algorithm says which arm is played, and bounds its costs.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lowswitch.algorithms.schedules import UCB2, EveryVisit, Triggers
from lowswitch.algorithms.text import nearest
from lowswitch.bandits.grids import Ends, checked_grid, grid_ends, log_log_grid
from lowswitch.checks import (
    numbers,
    require_count,
    require_fraction,
    require_positive,
    require_within,
    shown,
)


@dataclass(frozen=True, kw_only=True)
class BanditAlgorithm(ABC):
    """Decides which arm is played, and when it may learn from the rewards."""

    name: ClassVar[str]

    @abstractmethod
    def batch_bound(self, arms: int, pulls: int) -> int:
        """An upper bound on the batches of a run."""

    @abstractmethod
    def switch_bound(self, arms: int, pulls: int) -> int:
        """An upper bound on the switches of a run."""

    def triggers(self, pulls: int) -> Triggers:
        """The pull counts of an arm at which a batch ends, up to `pulls`.

        No such counts if a grid ends the batches.
        """
        return Triggers(0, ())

    def ends(self, arms: int, pulls: int) -> Ends:
        """The total pull counts at which a batch ends, independent of the rewards."""
        pulls = require_size(arms, pulls)
        return (pulls,)

    @property
    def constant(self) -> float:
        """The number in its confidence width."""
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> BanditAlgorithm:
        options = dict(data)
        name = options.pop("name")
        if name not in RECIPES:
            raise ValueError(f"unknown bandit algorithm {shown(name)}; {nearest(name, RECIPES)}")
        return RECIPES[name](**options)

    def __str__(self) -> str:
        """The text that the command line accepts, without options at their defaults."""
        default = dataclasses.asdict(RECIPES[self.name]())
        options = [
            f"{key}={_written(value)}"
            for key, value in dataclasses.asdict(self).items()
            if value != default[key]
        ]
        return self.name + (":" + ",".join(options) if options else "")


def _written(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, kw_only=True)
class IndexPolicy(BanditAlgorithm):
    """An index for each arm, and the pull counts of an arm at which the next arm is chosen.

    The arm with the largest index is chosen.
    """

    @abstractmethod
    def triggers(self, pulls: int) -> Triggers:
        """The pull counts of an arm at which the next arm is chosen, up to `pulls`."""

    @abstractmethod
    def regret_bound(self, means: Any, *, pulls: int) -> float:
        """The proved bound on the expected regret."""

    def batch_bound(self, arms: int, pulls: int) -> int:
        """The first round, then as many epochs as fit into the other pulls."""
        pulls = require_size(arms, pulls)
        return 1 + _most_epochs(self.triggers(pulls), arms, pulls - arms)

    def switch_bound(self, arms: int, pulls: int) -> int:
        """A - 1 switches in the first round, then at most one for each epoch.

        There are as many epochs as fit into the other pulls. This is sum_j (r_j + 1) of Auer et al.
        2002 without its epochs of length zero; for UCB2 it grows like A log(T / A) / alpha.
        """
        return arms - 2 + self.batch_bound(arms, pulls)


def _most_epochs(triggers: Triggers, arms: int, pulls: int) -> int:
    """The greatest number of epochs of all arms together, the last one cut, that fit into these
    pulls.

    These are the shortest epochs.
    """
    single = arms * (triggers.every_until - 1)  # epochs of one pull
    if pulls <= single:
        return pulls
    lengths = np.sort(np.diff([triggers.every_until, *triggers.later]))
    ends = arms * np.concatenate([[0], np.cumsum(lengths)])
    # how many lengths fit once for every arm
    whole = int(np.searchsorted(ends, pulls - single, side="right")) - 1
    left = pulls - single - int(ends[whole])
    return single + arms * whole + math.ceil(left / int(lengths[whole]))


@dataclass(frozen=True, kw_only=True)
class UCB1Policy(IndexPolicy):
    """Always the arm with the largest mean + sqrt(2 ln n / n_j).

    Auer, Cesa-Bianchi, Fischer 2002, Figure 1.
    """

    name: ClassVar[str] = "ucb1"

    def triggers(self, pulls: int) -> Triggers:
        return EveryVisit().triggers(horizon=1, limit=pulls)

    def regret_bound(self, means: Any, *, pulls: int) -> float:
        """sum_i 8 ln n / Delta_i + (1 + pi^2 / 3) sum_i Delta_i: Auer et al. 2002, Theorem 1."""
        gaps = _positive_gaps(checked_means(means))
        return float(np.sum(8 * math.log(pulls) / gaps) + (1 + math.pi**2 / 3) * gaps.sum())


@dataclass(frozen=True, kw_only=True)
class UCB2Policy(IndexPolicy):
    """The arm with the largest mean + a_{n,r_j} until its pulls reach tau(r_j + 1).

    Auer, Cesa-Bianchi, Fischer 2002, Figure 2: tau(r) = ceil((1 + alpha)^r), a_{n,r} = sqrt((1 +
    alpha) ln(e n / tau(r)) / (2 tau(r))). An epoch that begins when tau(r_j + 1) is still tau(r_j)
    plays nothing and changes no index, since a_{n,r} depends on r only through tau(r). So only the
    distinct values of tau matter. The last epoch is cut when the pulls are spent.

    Parameters
    ----------
    alpha
        The growth of the epochs.
    """

    name: ClassVar[str] = "ucb2"
    alpha: float

    def __post_init__(self) -> None:
        way_out = "0.001 for little regret, 0.1 to 0.5 for few switches"
        require_fraction("alpha", self.alpha, way_out)

    @property
    def constant(self) -> float:
        return float(self.alpha)

    def triggers(self, pulls: int) -> Triggers:
        """The distinct values of tau(r) up to `pulls`."""
        return UCB2(eta=self.alpha, r_star=1).triggers(horizon=1, limit=pulls)

    def regret_bound(self, means: Any, *, pulls: int) -> float:
        """sum_i (1 + alpha)(1 + 4 alpha) ln(2 e Delta_i^2 n) / (2 Delta_i) + c_alpha / Delta_i.

        Auer et al. 2002, Theorem 2. It is stated for n >= max_i 1 / (2 Delta_i^2) and 0 < alpha <
        1; one step of its proof needs alpha < 1/10.
        """
        gaps = _positive_gaps(checked_means(means))
        if len(gaps) and not pulls >= (least := 1 / (2 * gaps.min() ** 2)):
            raise ValueError(
                f"Theorem 2 needs at least {math.ceil(least):,} pulls for a gap of {gaps.min():g},"
                f" not {shown(pulls)}"
            )
        leading = (1 + self.alpha) * (1 + 4 * self.alpha) * np.log(2 * math.e * gaps**2 * pulls) / 2
        return float(np.sum((leading + self.lower_order) / gaps))

    @property
    def lower_order(self) -> float:
        """c_alpha of Theorem 2: eq. (18).

        1 + (1+alpha) e / alpha^2
        + ((1+alpha) / alpha)^(1+alpha) [1 + 11 (1+alpha) / (5 alpha^2 ln(1+alpha))]
        """
        alpha, growth = self.alpha, 1 + self.alpha
        bracket = 1 + 11 * growth / (5 * alpha**2 * math.log1p(alpha))
        return 1 + growth * math.e / alpha**2 + math.pow(growth / alpha, growth) * bracket


@dataclass(frozen=True, kw_only=True)
class GridPolicy(BanditAlgorithm):
    """Batches that end at the pulls of a grid.

    Arms are dropped between batches, and the last batch plays the best remaining arm.

    Parameters
    ----------
    grid
        "minimax" or "geometric", or the ends of the batches.
    batches
        The number of batches.
    """

    grid: str | Ends
    batches: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", checked_grid(self.grid, self.batches))
        object.__setattr__(self, "batches", int(self.batches))

    def ends(self, arms: int, pulls: int) -> Ends:
        """The grid for `pulls` pulls, in which each arm must be played before the last batch."""
        pulls = require_size(arms, pulls)
        ends = grid_ends(self.grid, pulls, self.batches)
        if ends[-2] < arms:
            raise ValueError(
                f"the last of {self.batches} batches begins after {ends[-2]} pulls, "
                f"before each of {arms} arms was played once; use fewer batches, more "
                "pulls or a grid of your own"
            )
        return ends

    def batch_bound(self, arms: int, pulls: int) -> int:
        """M; a run with one remaining arm plays it to the end, in one batch."""
        return len(self.ends(arms, pulls))

    def switch_bound(self, arms: int, pulls: int) -> int:
        """A - 1 in each batch except the last, which has one.

        A batch with all A arms begins with the arm played last, and a batch with fewer arms has at
        most A - 1 to switch to.
        """
        return (self.batch_bound(arms, pulls) - 1) * (arms - 1) + 1


@dataclass(frozen=True, kw_only=True)
class BaSEPolicy(GridPolicy):
    """Drops an arm when it falls sqrt(gamma ln(T A) / tau) behind the best.

    Gao, Han, Ren, Zhou 2019, Algorithm 1.

    Parameters
    ----------
    grid, batches
        As in `GridPolicy`.
    gamma
        The width of the confidence interval.
    """

    name: ClassVar[str] = "base"
    gamma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        way_out = "12 is the provable scale, 3 the same for rewards in [0, 1], 0.5 practical"
        require_positive("gamma", self.gamma, way_out)

    @property
    def constant(self) -> float:
        return float(self.gamma)


@dataclass(frozen=True, kw_only=True)
class ExploreThenCommitPolicy(GridPolicy):
    """Plays two arms equally until their confidence intervals separate, and then the better one.

    Perchet et al. 2016, section 3.

    Parameters
    ----------
    grid, batches
        As in `GridPolicy`.
    c
        The width of the confidence interval.
    """

    name: ClassVar[str] = "explore-then-commit"
    c: float

    def __post_init__(self) -> None:
        super().__post_init__()
        way_out = "1 is the provable scale, 0.5 the same for rewards in [0, 1], 0.2 practical"
        require_positive("c", self.c, way_out)

    @property
    def constant(self) -> float:
        return float(self.c)

    def ends(self, arms: int, pulls: int) -> Ends:
        """The grid for `pulls` pulls of two arms."""
        if arms != 2:
            raise ValueError(
                f"explore-then-commit on a grid needs 2 arms, not {shown(arms)}; "
                "bandits.base is its extension to more"
            )
        return super().ends(arms, pulls)


@dataclass(frozen=True, kw_only=True)
class LogLogPolicy(BanditAlgorithm):
    """Phases of T^(1 - 2^-i) pulls, each with its own estimates, and elimination between them.

    Cesa-Bianchi, Dekel, Shamir 2013.

    Parameters
    ----------
    p
        The failure probability.
    """

    name: ClassVar[str] = "log-log"
    p: float

    def __post_init__(self) -> None:
        way_out = "with 0.05 the guarantee may fail in one run of twenty"
        require_fraction("p", self.p, way_out)

    @property
    def constant(self) -> float:
        return float(self.p)

    def ends(self, arms: int, pulls: int) -> Ends:
        """The ends of the phases."""
        pulls = require_size(arms, pulls)
        return log_log_grid(pulls)

    def batch_bound(self, arms: int, pulls: int) -> int:
        """The number of phases, at most ceil(log2 log2 T) + 1.

        A run with one remaining arm plays it to the end, in one batch.
        """
        return len(self.ends(arms, pulls))

    def switch_bound(self, arms: int, pulls: int) -> int:
        """A - 1 in each phase, so O(A log log T).

        A phase with all A arms begins with the arm played last, and a phase with fewer arms has at
        most A - 1 to switch to.
        """
        return self.batch_bound(arms, pulls) * (arms - 1)


@dataclass(frozen=True, kw_only=True)
class BatchedThompsonPolicy(BanditAlgorithm):
    """Thompson sampling whose posterior waits until an arm's pulls reach a power of two.

    Karbasi, Mirrokni, Shadravan 2021, Algorithm 1.
    """

    name: ClassVar[str] = "batched-thompson"

    def triggers(self, pulls: int) -> Triggers:
        """1, 2, 4, 8, ... up to `pulls`."""
        return Triggers(1, tuple(2**i for i in range(1, pulls.bit_length())))

    def batch_bound(self, arms: int, pulls: int) -> int:
        """As many powers of two as the pulls of all arms can reach, and one cut batch.

        That is at most A (1 + log2(T / A)) + 1.
        """
        pulls = require_size(arms, pulls)
        return arms + _most_epochs(self.triggers(pulls), arms, pulls - arms)

    def switch_bound(self, arms: int, pulls: int) -> int:
        """A - 1 in each batch: a batch that plays all arms begins with the arm played last."""
        return min(pulls - 1, self.batch_bound(arms, pulls) * (arms - 1))


def ucb1() -> UCB1Policy:
    """UCB1, which may change arm at every pull.

    Auer, Cesa-Bianchi, Fischer, Machine Learning 47, 2002.
    """
    return UCB1Policy()


def ucb2(*, alpha: float = 0.001) -> UCB2Policy:
    """UCB2, which plays in epochs that grow by 1 + alpha.

    Auer, Cesa-Bianchi, Fischer, Machine Learning 47, 2002.

    Parameters
    ----------
    alpha
        The growth of the epochs. 0.001 is the choice in the paper's experiments, for little regret;
        use 0.1 to 0.5 if switches matter.
    """
    return UCB2Policy(alpha=alpha)


def base(*, batches: int = 5, grid: str | Ends = "minimax", gamma: float = 12.0) -> BaSEPolicy:
    """BaSE, which eliminates arms at the ends of M batches.

    Gao, Han, Ren, Zhou, NeurIPS 2019, Algorithm 1.

    Parameters
    ----------
    batches
        M, the number of batches.
    grid
        "minimax" for the worst problem, "geometric" for a problem with fixed gaps, or the pull
        counts at which batches end.
    gamma
        The constant in the confidence width. 12 is the paper's, for normal rewards of variance 1.
        Rewards in [0, 1] have at most a quarter of that variance, so 3 is as safe.
    """
    return BaSEPolicy(batches=batches, grid=grid, gamma=gamma)


def log_log(*, p: float = 0.05) -> LogLogPolicy:
    """Phased elimination with O(A log log T) switches: Cesa-Bianchi, Dekel, Shamir, NeurIPS 2013.

    Parameters
    ----------
    p
        The failure probability. The width is Hoeffding's for rewards in [0, 1], and holds for all
        arms and phases simultaneously with probability 1 - p.
    """
    return LogLogPolicy(p=p)


def explore_then_commit(
    *, batches: int = 5, grid: str | Ends = "minimax", c: float = 1.0
) -> ExploreThenCommitPolicy:
    """Explore-then-commit for two arms on a grid.

    Perchet, Rigollet, Chassang, Snowberg, Annals of Statistics 44, 2016.

    Parameters
    ----------
    batches
        The number of batches.
    grid
        As for `base`.
    c
        The scale of the confidence width. 1 is the paper's, for rewards that are 1-sub-Gaussian.
        Rewards in [0, 1] are 1/2-sub-Gaussian, so 0.5 is as safe.
    """
    return ExploreThenCommitPolicy(batches=batches, grid=grid, c=c)


def batched_thompson() -> BatchedThompsonPolicy:
    """Thompson sampling with O(A log T) batches.

    Karbasi, Mirrokni, Shadravan, NeurIPS 2021, Algorithm 1.
    """
    return BatchedThompsonPolicy()


RECIPES: dict[str, Callable[..., BanditAlgorithm]] = {
    "ucb1": ucb1,
    "ucb2": ucb2,
    "base": base,
    "log-log": log_log,
    "explore-then-commit": explore_then_commit,
    "batched-thompson": batched_thompson,
}


# ---- checks --------------------------------------------------------------------------------------


def checked_means(means: Any) -> np.ndarray:
    """Check the means of at least two arms."""
    arms = numbers("means", means).copy()
    if arms.ndim != 1 or len(arms) < 2:
        raise ValueError(
            f"means must have shape [A] with at least 2 arms, not {arms.shape}; give one mean for"
            " each arm"
        )
    require_within("means", arms, 0, 1, "rescale the rewards")
    return arms


def require_size(arms: int, pulls: int) -> int:
    """The pulls, after checking that there are arms to choose from and each can be played once."""
    require_count("arms", arms, least=2, way_out="with one arm there is nothing to choose")
    if require_count("pulls", pulls) < arms:
        raise ValueError(
            f"pulls must be at least the number of arms, {arms}, not {shown(pulls)}; each "
            "arm is first played once"
        )
    return int(pulls)


def _positive_gaps(means: np.ndarray) -> np.ndarray:
    """The best mean minus the mean of each worse arm."""
    gaps: np.ndarray = means.max() - means
    return gaps[gaps > 0]
