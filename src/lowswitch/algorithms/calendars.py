"""Deployments on dates: given ones, and those that the library chooses for N deployments.

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

    gap: the least number of episodes between two deployments, and before the first one. Dates that
    are nearer to each other are refused.
    """

    deployments_at: tuple[int, ...]
    gap: int = 1

    def __post_init__(self) -> None:
        try:
            dates = increasing("deployments_at", self.deployments_at)
        except ValueError as error:
            raise ValueError(
                f"{error}; a date is a number of episodes, such as 300, and no day of the year"
            ) from None
        object.__setattr__(self, "deployments_at", dates)
        object.__setattr__(self, "gap", require_count("gap", self.gap))
        for before, date in itertools.pairwise((0, *dates)):
            if date - before < self.gap:
                raise ValueError(
                    f"deployments_at has {date} only {date - before} episodes after {before}, and"
                    f" gap is {self.gap}; leave one of these dates out, or make the gap smaller"
                )

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The dates, all of which must come before the last episode is over."""
        if self.deployments_at[-1] >= episodes:
            raise ValueError(
                f"deployments_at has {self.deployments_at[-1]}, and the run ends after {episodes}"
                " episodes, so that nobody would play what is deployed then; leave this date out"
            )
        return self.deployments_at

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The number of dates."""
        return len(self.deployments_at)


@dataclass(frozen=True)
class Late(Whole):
    """Dates for so many deployments: two early ones, then ever later.

    The first policy was chosen without data and the second with few, so both are soon replaced. The
    others are spread geometrically up to `last_date`. What follows the last one is not learned
    from, so that it must not come before enough is known; what precedes it is explored, so that it
    must not come late. gap: the least number of episodes between two deployments, and before the
    first one; where the dates would be nearer, they are moved. explored: the first policy explores,
    so that it need not be replaced at once, and the last date may be late with few deployments too.
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
        """The dates on a small problem; fewer than asked for in a short run."""
        return self.grid_for(horizon=1, states=1, actions=1, episodes=episodes)

    def grid_for(
        self, *, horizon: int, states: int, actions: int, episodes: int
    ) -> tuple[int, ...]:
        """The dates in a run of so many episodes; fewer than asked for in a short one."""
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        rule = explored_dates if self.explored else late_dates
        last = last_date(self.deployments, explored=bool(self.explored), **size)
        return spaced(rule(self.deployments, last), self.gap, episodes)

    def refresh_bound(self, **size: int) -> float:
        """The number of dates."""
        return len(self.grid_for(**size))


_EARLY = (2, 16)
_MOST_DATES = 2000
_SEVERAL = 8  # deployments from which on a later last date pays
_VISITS = 200  # of each action in each state, up to the last date, if all had the same
_EPISODES = 500  # in which a far reward is found, where it can be
_FEW_VISITS = 15  # of each action in each state, if there is one deployment alone
_RATIO = 3  # of a date to the one before it, at most
_FIRST = 16  # the first date after policies that explore, with many deployments


def last_date(
    deployments: int,
    *,
    horizon: int,
    states: int,
    actions: int,
    episodes: int,
    explored: bool = False,
) -> int:
    """When enough is known to explore no longer: after K / 10, or later where K is small.

    It is after 500 episodes, or as many as give each (x, a) 200 visits, but after K / 4 at the
    latest. If the first policy does not explore, this is so with several deployments only; with
    fewer of them the dates would be too far apart. If it does, one deployment alone comes sooner,
    with 15 visits, because what precedes it was never planned. These numbers were chosen on
    problems that benchmarks/few names.
    """
    if deployments < _SEVERAL and not explored:
        return max(1, episodes // 10)
    alone = explored and deployments == 1
    visits = (_FEW_VISITS if alone else _VISITS) * states * actions // horizon
    enough = visits if alone else max(_EPISODES, visits)
    return max(1, episodes // 10, min(episodes // 4, enough))


def explored_dates(deployments: int, last: int) -> list[int]:
    """Dates that are spread geometrically up to the last one, the first of them from 16 on.

    Each is at most three times the one before, so that with few deployments the first comes late:
    what is played before it explores.
    """
    first = max(1, min(_FIRST, last // 8), last // _RATIO ** (deployments - 1))
    steps = max(1, deployments - 1)
    powers = (first ** (steps - i) * last**i for i in range(steps + 1))
    return [floor_power(power, Fraction(1, steps)) for power in powers][-deployments:]


def late_dates(deployments: int, last: int) -> list[int]:
    """2, 16, then geometrically to the last one."""
    if deployments > _MOST_DATES:
        raise ValueError(
            f"dates for {deployments:,} deployments would take too long to work out; take at most"
            f" {_MOST_DATES:,}, or give the dates themselves with deployments_at="
        )
    early = [date for date in _EARLY if 4 * date <= last][: max(0, deployments - 1)]
    first = early[-1] if early else 1
    steps = deployments - len(early)
    if steps == 1:
        return [*early, last]
    powers = (first ** (steps - i) * last**i for i in range(1, steps + 1))
    return [*early, *(floor_power(power, Fraction(1, steps)) for power in powers)]


def spaced(dates: Iterable[int], gap: int, episodes: int) -> tuple[int, ...]:
    """The dates, each moved to `gap` after the one before it where it is nearer, before the end."""
    kept: list[int] = []
    for date in dates:
        moved = max(date, (kept[-1] if kept else 0) + gap)
        if moved < episodes:
            kept.append(moved)
    return tuple(kept)
