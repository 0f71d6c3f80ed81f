"""The schedule of a board: the policy may change when the board asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowswitch.algorithms.schedules import Schedule, Whole, plain_schedule
from lowswitch.checks import increasing


@dataclass(frozen=True)
class Asked(Whole):
    """All rows may change when a board asks, because boards meet on dates, not at visit counts.

    With a real process, call `learner.propose()`. Estimators that work in stages still have their
    stages (see `between_dates`), but nothing is deployed when a stage ends.

    Parameters
    ----------
    dates
        In simulations nobody can ask, so these are the numbers of episodes after which the board
        meets.
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
        """The number of dates; without dates, a board may ask after every episode."""
        return episodes if self.dates is None else len(self.grid(episodes))


def asks(schedule: Schedule) -> Asked | None:
    """The schedule, or the schedule inside a budget, if it waits until a board asks."""
    plain = plain_schedule(schedule)
    return plain if isinstance(plain, Asked) else None


def between_dates(schedule: Schedule, otherwise: Schedule) -> Schedule:
    """The schedule, or `otherwise` if it waits until a board asks and so has no stages."""
    return schedule if asks(schedule) is None else otherwise


def require_dates(schedule: Schedule) -> None:
    """Refuse to simulate a board without dates, because nobody would ask."""
    asked = asks(schedule)
    if asked is not None and asked.dates is None:
        raise ValueError(
            'the schedule "asked" waits for learner.propose(), which nobody calls here; '
            "say after which episodes the board meets, as in "
            'schedule="asked/100-200-300", or for few deployments_at=(100, 200, 300)'
        )
