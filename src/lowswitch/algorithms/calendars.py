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
from lowswitch.checks import increasing, require_count


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
    first one; where the dates would be nearer, they are moved.
    """

    deployments: int
    gap: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "deployments", require_count("deployments", self.deployments))
        object.__setattr__(self, "gap", require_count("gap", self.gap))

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The dates on a small problem; fewer than asked for in a short run."""
        return self.grid_for(horizon=1, states=1, actions=1, episodes=episodes)

    def grid_for(
        self, *, horizon: int, states: int, actions: int, episodes: int
    ) -> tuple[int, ...]:
        """The dates in a run of so many episodes; fewer than asked for in a short one."""
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        dates = late_dates(self.deployments, last_date(self.deployments, **size))
        return spaced(dates, self.gap, episodes)

    def refresh_bound(self, **size: int) -> float:
        """The number of dates."""
        return len(self.grid_for(**size))


_EARLY = (2, 16)
_MOST_DATES = 2000
_SEVERAL = 8  # deployments from which on a later last date pays
_VISITS = 200  # of each action in each state, up to the last date, if all had the same
_EPISODES = 500  # in which a far reward is found, where it can be


def last_date(deployments: int, *, horizon: int, states: int, actions: int, episodes: int) -> int:
    """When enough is known to explore no longer: after K / 10, or later where K is small.

    With several deployments it is after 500 episodes, or as many as give each (x, a) 200 visits,
    but after K / 4 at the latest; with fewer of them the dates would be too far apart. These
    numbers were chosen on problems that benchmarks/few/problems.py names.
    """
    if deployments < _SEVERAL:
        return max(1, episodes // 10)
    enough = max(_EPISODES, _VISITS * states * actions // horizon)
    return max(1, episodes // 10, min(episodes // 4, enough))


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
