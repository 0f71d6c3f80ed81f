"""Schedules with dates: dates that you give, or dates that the library chooses for N deployments.

A date is a number of episodes after which all rows may change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from lowswitch.algorithms.powers import floor_power
from lowswitch.algorithms.schedules import Whole
from lowswitch.checks import increasing, require_count, require_truth


@dataclass(frozen=True)
class Calendar(Whole):
    """All rows may change after these numbers of episodes, and at no other time.

    Parameters
    ----------
    deployments_at
        The numbers of episodes, increasing.
    gap
        The smallest number of episodes between two deployments, and before the first one. Dates
        that are closer together are refused.
    """

    deployments_at: tuple[int, ...]
    gap: int = 1

    def __post_init__(self) -> None:
        try:
            dates = increasing("deployments_at", self.deployments_at)
        except ValueError as error:
            raise ValueError(
                f"{error}; a date is a number of episodes, such as 300, not a day of the year"
            ) from None
        object.__setattr__(self, "deployments_at", dates)
        object.__setattr__(self, "gap", require_count("gap", self.gap))
        for before, date in itertools.pairwise((0, *dates)):
            if date - before < self.gap:
                raise ValueError(
                    f"deployments_at has {date} only {date - before} episodes after "
                    f"{before}, but gap is {self.gap}; leave out one of these dates, or "
                    "reduce the gap"
                )

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The dates, all of which must come before the end of the last episode."""
        if self.deployments_at[-1] >= episodes:
            raise ValueError(
                f"deployments_at has {self.deployments_at[-1]}, but the run ends after "
                f"{episodes} episodes, so nobody would play the policy deployed then; "
                "leave this date out"
            )
        return self.deployments_at

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The number of dates."""
        return len(self.deployments_at)


@dataclass(frozen=True)
class GrowingBatches(Whole):
    """H short batches, then longer and longer ones: the dates of multi-batch learning.

    Zhang, Jiang, Zhou, Ji 2022. The initial policy plays one episode. H batches of `phase` episodes
    follow, then batches of K^(1/2), K^(3/4), K^(7/8), ... episodes, ceil(log2 log2 K) of them; the
    last one ends with the run.

    Parameters
    ----------
    phase
        The number of episodes of each of the first H batches.
    """

    phase: int = 300

    def __post_init__(self) -> None:
        object.__setattr__(self, "phase", require_count("phase", self.phase))

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The dates of a problem with one step."""
        return self.grid_for(horizon=1, states=1, actions=1, episodes=episodes)

    def grid_for(
        self, *, horizon: int, states: int, actions: int, episodes: int
    ) -> tuple[int, ...]:
        """The dates in a run of `episodes` episodes; a short run has fewer."""
        dates = [1 + h * self.phase for h in range(horizon + 1)]
        for i in range(1, batches_of(episodes)):
            dates.append(dates[-1] + floor_power(episodes, 1 - Fraction(1, 2**i)))
        return tuple(date for date in dates if date < episodes)

    def refresh_bound(self, **size: int) -> float:
        """H + ceil(log2 log2 K), or the number of dates."""
        return len(self.grid_for(**size))


def batches_of(episodes: int) -> int:
    """ceil(log2 log2 K), and at least 1: then K^(1 - 2^-i) is half of K or more."""
    i = 1
    while 2 ** (2**i) < episodes:
        i += 1
    return i


@dataclass(frozen=True)
class Late(Whole):
    """Choose the dates of a given number of deployments: two early ones, then later and later ones.

    The initial policy was chosen without data and the second policy with little data, so both are
    soon replaced. The other dates are spread geometrically up to `last_date`. Until the last date
    the learner explores; after it, nothing can be acted upon, so it exploits. The last date
    therefore must not come before enough is known, and must not come late.

    Parameters
    ----------
    deployments
        The number of deployments.
    gap
        The smallest number of episodes between two deployments, and before the first one. Dates
        that would be closer together are moved.
    explored
        Whether the initial policy explores. Then it need not be replaced at once, and the last date
        may be late even with few deployments.
    """

    deployments: int
    gap: int = 1
    explored: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "deployments", require_count("deployments", self.deployments))
        object.__setattr__(self, "gap", require_count("gap", self.gap))
        if self.explored is not None:
            require_truth("explored", self.explored)

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The dates on a small problem; a short run has fewer than asked for."""
        return self.grid_for(horizon=1, states=1, actions=1, episodes=episodes)

    def grid_for(
        self, *, horizon: int, states: int, actions: int, episodes: int
    ) -> tuple[int, ...]:
        """The dates in a run of `episodes` episodes; a short run has fewer than asked for."""
        if self.deployments > _MOST_DATES:
            raise ValueError(
                f"computing dates for {self.deployments:,} deployments would take too long; use at"
                f" most {_MOST_DATES:,}, or give the dates yourself with deployments_at="
            )
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        rule = explored_dates if self.explored else late_dates
        last = last_date(self.deployments, explored=bool(self.explored), **size)
        return spaced(rule(self.deployments, last), self.gap, episodes)

    def refresh_bound(self, **size: int) -> float:
        """The number of dates."""
        return len(self.grid_for(**size))


_EARLY = (2, 16)
_MOST_DATES = 2000
_SEVERAL = 8  # with at least this many deployments a later last date pays
_VISITS = 200  # of each action in each state until the last date, if all had equally many
_EPISODES = 500  # enough to find a distant reward, if it can be found
_FEW_VISITS = 15  # of each action in each state, if there is only one deployment
_RATIO = 3  # of a date to the date before it, at most
_FIRST = 16  # the first date when the initial policy explores and deployments are many


def last_date(
    deployments: int,
    *,
    horizon: int,
    states: int,
    actions: int,
    episodes: int,
    explored: bool = False,
) -> int:
    """The date by which enough is known to stop exploring: K / 10, or later if K is small.

    It is at least 500 episodes and at least enough to give each (x, a) 200 visits, but at most K /
    4. If the initial policy does not explore, this holds only with several deployments; with fewer,
    the dates would be too far apart. If the initial policy explores, a single deployment comes
    sooner, after 15 visits, because the episodes before it were never planned. These numbers were
    chosen on problems that benchmarks/few names.
    """
    if deployments < _SEVERAL and not explored:
        return max(1, episodes // 10)
    alone = explored and deployments == 1
    visits = (_FEW_VISITS if alone else _VISITS) * states * actions // horizon
    enough = visits if alone else max(_EPISODES, visits)
    return max(1, episodes // 10, min(episodes // 4, enough))


def explored_dates(deployments: int, last: int) -> list[int]:
    """Dates spread geometrically up to the last one; the first is at least 16.

    Each date is at most three times the date before it. With few deployments the first date
    therefore comes late, which is fine because the policy before it explores.
    """
    first = max(1, min(_FIRST, last // 8), last // _RATIO ** (deployments - 1))
    steps = max(1, deployments - 1)
    powers = (first ** (steps - i) * last**i for i in range(steps + 1))
    return [floor_power(power, Fraction(1, steps)) for power in powers][-deployments:]


def late_dates(deployments: int, last: int) -> list[int]:
    """2, 16, then a geometric sequence up to the last date."""
    early = [date for date in _EARLY if 4 * date <= last][: max(0, deployments - 1)]
    first = early[-1] if early else 1
    steps = deployments - len(early)
    if steps == 1:
        return [*early, last]
    powers = (first ** (steps - i) * last**i for i in range(1, steps + 1))
    return [*early, *(floor_power(power, Fraction(1, steps)) for power in powers)]


def spaced(dates: Iterable[int], gap: int, episodes: int) -> tuple[int, ...]:
    """Move each date to at least `gap` after the date before it, and drop dates past the end."""
    kept: list[int] = []
    for date in dates:
        moved = max(date, (kept[-1] if kept else 0) + gap)
        if moved < episodes:
            kept.append(moved)
    return tuple(kept)
