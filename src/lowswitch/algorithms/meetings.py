"""The schedule of a board: the policy may change when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowswitch.algorithms.schedules import Budget, Schedule, Whole
from lowswitch.checks import increasing


@dataclass(frozen=True)
class Asked(Whole):
    """All rows, when somebody asks: a board meets on dates, and not at visit counts.

    A learner behind a real process is asked with `learner.propose()`. Where nobody can ask, in
    simulations, the `dates` are the numbers of episodes after which the board meets. Estimators
    that work in stages keep them (see `between_dates`), but nothing is deployed at their ends.
    """

    dates: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.dates is not None:
            given = self.dates if isinstance(self.dates, Sequence) else (self.dates,)
            object.__setattr__(self, "dates", increasing("the dates of a board", given))

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The dates before the end of the run."""
        return tuple(date for date in self.dates or () if date < episodes)

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The number of dates; without dates somebody may ask after every episode."""
        return episodes if self.dates is None else len(self.grid(episodes))


def asks(schedule: Schedule) -> Asked | None:
    """The schedule, or that below a budget, if it waits until it is asked."""
    plain: Schedule = schedule.schedule if isinstance(schedule, Budget) else schedule
    return plain if isinstance(plain, Asked) else None


def between_dates(schedule: Schedule, otherwise: Schedule) -> Schedule:
    """The schedule itself; another one where it waits until it is asked and so has no stages."""
    return schedule if asks(schedule) is None else otherwise


def require_dates(schedule: Schedule) -> None:
    """Refuse to simulate a board that meets when it is asked, because nobody asks."""
    asked = asks(schedule)
    if asked is not None and asked.dates is None:
        raise ValueError(
            "the schedule asked waits for learner.propose(), which nobody calls here; say after"
            ' which episodes the board meets, as in schedule="asked/100-200-300", or of few in'
            " deployments_at=(100, 200, 300)"
        )
