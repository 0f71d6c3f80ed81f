"""The published bandit algorithms, each a frozen value: what it plays, and the bounds on what that costs."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lowswitch.mdp import require_count
from lowswitch.naming import nearest
from lowswitch.schedules import UCB2, EveryVisit, Triggers


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
        require_size(arms, pulls)
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
        gaps = _positive_gaps(checked_means(means))
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
        gaps = _positive_gaps(checked_means(means))
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


# ---- checks ----------------------------------------------------------------------------------------------------------


def checked_means(means: Any) -> np.ndarray:
    arms: np.ndarray = np.array(means, dtype=float)
    if arms.ndim != 1 or len(arms) < 2:
        raise ValueError(f"means must have shape [A] with at least 2 arms, not {arms.shape}; give one mean for each arm")
    if not (arms.min() >= 0 and arms.max() <= 1):
        raise ValueError(f"means must lie in [0, 1], not [{arms.min():g}, {arms.max():g}]; rescale the rewards")
    return arms


def require_size(arms: int, pulls: int) -> None:
    if require_count("arms", arms) < 2:
        raise ValueError(f"arms must be at least 2, not {arms!r}; with one arm there is nothing to choose")
    if require_count("pulls", pulls) < arms:
        raise ValueError(f"pulls must be at least the number of arms, {arms}, not {pulls!r}; each arm is played once first")


def _positive_gaps(means: np.ndarray) -> np.ndarray:
    """The best mean less that of each worse arm."""
    gaps: np.ndarray = means.max() - means
    return gaps[gaps > 0]
