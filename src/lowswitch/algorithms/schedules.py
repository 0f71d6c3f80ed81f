"""When the policy may change.

A schedule is data: visit counts at which a row may change, or numbers of episodes after which all
rows may change.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple, get_args

from lowswitch.algorithms.fingerprints import remember
from lowswitch.algorithms.powers import CONTEXT, GridKind, batch_ends, counts_at
from lowswitch.checks import (
    call_it,
    increasing,
    is_number,
    require_count,
    require_fraction,
    require_growth,
    require_word,
    shown,
)


class Triggers(NamedTuple):
    """The visit counts, up to a limit, at which a row may change."""

    every_until: int  # every count from 1 to this one
    later: tuple[int, ...]  # and these later counts, sorted

    def first(self, size: int) -> list[int]:
        """The first `size` triggers, for display."""
        dense = list(range(1, min(size, self.every_until) + 1))
        return dense + list(self.later[: size - len(dense)])

    def count(self, visits: int) -> int:
        """The number of triggers among the first `visits` visits."""
        return min(visits, self.every_until) + bisect.bisect_right(self.later, visits)


class Schedule:
    """The interface of a schedule. The defaults suit most schedules.

    If `by_row` is true, a trigger of (h, x, a) lets row (h, x) of a Q-learner change. Otherwise all
    rows may change after the episode. A planner always replans all rows.
    """

    def __init_subclass__(cls) -> None:
        remember(cls)

    @property
    def by_row(self) -> bool:
        raise NotImplementedError

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The visit counts of an (h, x, a) that are triggers, up to `limit`."""
        return Triggers(0, ())

    def grid(self, episodes: int) -> Sequence[int]:
        """The numbers of episodes after which all rows may change."""
        return ()

    def grid_for(self, *, horizon: int, states: int, actions: int, episodes: int) -> Sequence[int]:
        """The grid for a problem of this size; for most schedules it depends only on K."""
        return self.grid(episodes)

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """An upper bound on the number of deployments in a run of `episodes` episodes."""
        raise NotImplementedError(
            f"{type(self).__name__} must define refresh_bound(self, *, horizon, states, actions,"
            " episodes)"
        )

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """An upper bound on the local switches of a learner that changes only triggered rows."""
        raise NotImplementedError


# ---- row by row ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByVisits(Schedule):
    """A schedule whose triggers depend only on the visits to their (h, x, a).

    To write your own, derive a class from this one and define `triggers`.
    """

    by_row = True

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        raise NotImplementedError(
            f"{type(self).__name__} must define triggers(self, *, horizon, limit)"
        )

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A times the triggers of one (h, x, a), at most K."""
        most = self.triggers(horizon=horizon, limit=episodes).count(episodes)
        return min(episodes, horizon * states * actions * most)

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A times the triggers of one (h, x, a), at most H K since an episode visits H rows."""
        most = self.triggers(horizon=horizon, limit=episodes).count(episodes)
        return min(horizon * episodes, horizon * states * actions * most)


@dataclass(frozen=True, kw_only=True)
class EveryVisit(ByVisits):
    """A row may change at every visit: Jin et al. 2018, and every planner as first published."""

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """Every visit count up to `limit`."""
        return Triggers(limit, ())

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H K, since only visited rows can change; H (K - 1) without the change at the very end."""
        return horizon * episodes


@dataclass(frozen=True, kw_only=True)
class UCB2(ByVisits):
    """Every visit up to tau(r_star), then at tau(r) = ceil((1 + eta)^r): Bai et al. 2019, eq. (2).

    Parameters
    ----------
    eta
        The growth of the stages. "theory" is 1 / (2 H (H + 1)), as in Theorem 2.
    r_star
        The stage up to which every visit is a trigger. "theory" is ceil(log(10 H^2) / log(1 +
        eta)), as in Theorem 2. 1 is pure UCB2: both theorems still hold and fewer rows change (see
        the errata page).
    """

    eta: float | Literal["theory"] = "theory"
    r_star: int | Literal["theory"] = "theory"

    def __post_init__(self) -> None:
        if self.eta != "theory":
            eta = require_fraction("eta", self.eta, 'or give "theory"')
            object.__setattr__(self, "eta", eta)
        if self.r_star != "theory":
            if not (is_number(self.r_star) and self.r_star % 1 == 0 and self.r_star >= 1):
                raise ValueError(
                    'r_star must be an integer of at least 1 or "theory", not'
                    f" {shown(self.r_star)}; pure UCB2 is r_star=1"
                )
            object.__setattr__(self, "r_star", int(self.r_star))

    def eta_value(self, horizon: int) -> float:
        """eta as a number, computed if it is "theory"."""
        return 1 / (2 * horizon * (horizon + 1)) if self.eta == "theory" else self.eta

    def growth(self, horizon: int) -> Decimal:
        """1 + eta, exact to 60 digits."""
        if self.eta == "theory":
            return CONTEXT.add(1, CONTEXT.divide(1, 2 * horizon * (horizon + 1)))
        return CONTEXT.add(1, Decimal(self.eta))

    def stage_one_exponent(self, horizon: int) -> int:
        """r_star as a number, computed if it is "theory"."""
        if self.r_star == "theory":
            return math.ceil(math.log(10 * horizon**2) / math.log1p(self.eta_value(horizon)))
        return self.r_star

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The visit counts at which a row may change, up to `limit`."""
        first = self.stage_one_exponent(horizon)
        return Triggers(*counts_at(self.growth(horizon), self.eta_value(horizon), first, limit))

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A (tau(r_star) + log((K + A) / A) / log(1 + eta)): Bai et al. 2019, Theorem 2.

        The constant in its proof is corrected here.
        """
        log_growth = math.log1p(self.eta_value(horizon))
        log_stage_one = self.stage_one_exponent(horizon) * log_growth
        stage_one = math.ceil(math.exp(log_stage_one)) if log_stage_one < 700 else math.inf
        later = math.log((episodes + actions) / actions) / log_growth
        return horizon * states * actions * (stage_one + later)


@dataclass(frozen=True)
class Growth(ByVisits):
    """At the distinct values of ceil(factor^r), r = 0, 1, ...

    Parameters
    ----------
    factor
        The growth. 2 is doubling, as in UCRL2's and MVP's descendants.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", require_growth(self.factor))

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """1, 2, 4, 8, ... for a factor of 2."""
        return Triggers(*counts_at(Decimal(self.factor), self.factor - 1, 0, limit))


@dataclass(frozen=True)
class Stages(ByVisits):
    """At the ends of stages of e_1 = H and e_{i+1} = floor((1 + 1/H) e_i) visits.

    Zhang, Zhou, Ji 2020, Algorithm 1 (UCB-Advantage).
    """

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """H, H + e_2, H + e_2 + e_3, ..."""
        ends, length, end = [], horizon, horizon
        while end <= limit:
            ends.append(end)
            length += length // horizon
            end += length
        return Triggers(0, tuple(ends))


@dataclass(frozen=True)
class Visits(ByVisits):
    """At exactly these visit counts of each (h, x, a).

    R-max has a single such count: the number of visits after which an (h, x, a) is known.

    Parameters
    ----------
    counts
        The visit counts, increasing.
    """

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", increasing("counts", self.counts))

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The given counts."""
        return Triggers(0, tuple(count for count in self.counts if count <= limit))


# ---- all rows at once ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole(Schedule):
    """A schedule by which all rows may change at once.

    To write your own, derive a class from this one and define `grid` and `refresh_bound`.
    """

    by_row = False

    def switch_bound(self, **size: int) -> float:
        """H S times the number of refreshes."""
        return size["horizon"] * size["states"] * self.refresh_bound(**size)


@dataclass(frozen=True)
class WholePolicy(Whole):
    """All rows may change after an episode in which some count has grown enough since the last
    time.

    A factor of 2 with `least=1` gives the epochs of UCRL2 (Jaksch, Ortner, Auer 2010).

    Parameters
    ----------
    factor
        The factor by which a count must grow.
    least
        The smallest number of visits by which it must grow. A larger number avoids the many early
        refreshes: the count of an (h, x, a) that was never visited before grows beyond any factor.
    """

    factor: float = 2.0
    least: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", require_growth(self.factor))
        object.__setattr__(self, "least", require_count("least", self.least))

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A (1 + log(K) / log(factor)), at most K.

        One count causes each refresh, and it grew that much since it last caused one.
        """
        if episodes < self.least:
            return 0
        growths = math.log(max(1.0, episodes / self.least)) / math.log(self.factor)
        return min(episodes, horizon * states * actions * (1 + math.floor(growths + 1e-9)))


@dataclass(frozen=True)
class Grid(Whole):
    """All rows may change after episodes that are fixed in advance: the ends of batches.

    The last batch ends with the run, and nothing changes after it, so N batches give at most N - 1
    deployments.

    Parameters
    ----------
    ends
        "equal", "geometric" or "minimax", the grids that `powers.batch_ends` defines; "minimax" is
        the log-log grid of batched learning (Gao, Han, Ren, Zhou 2019). Or the ends themselves,
        increasing and reaching at least K. Ends that coincide count once.
    size
        The number of batches of a named grid.
    """

    ends: GridKind | tuple[int, ...]
    size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ends, str):
            require_word("the ends of a grid", self.ends, get_args(GridKind))
            object.__setattr__(self, "size", require_count("the size of a grid", self.size))
        else:
            object.__setattr__(self, "ends", increasing("the ends of a grid", self.ends))
            if self.size is not None:
                raise ValueError(
                    "a grid given by its ends takes its size from them, not "
                    f"{shown(self.size)}; leave size out"
                )

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The ends of all batches except the last."""
        if isinstance(self.ends, str):
            ends = sorted(set(batch_ends(self.ends, episodes, self.size or 1)))
            return tuple(end for end in ends if 1 <= end < episodes)
        if self.ends[-1] < episodes:
            raise ValueError(
                f"the grid ends at episode {self.ends[-1]}, before the last of {episodes}; add"
                f" {episodes} as the last end"
            )
        return tuple(end for end in self.ends if end < episodes)

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The number of batches minus one."""
        return len(self.grid(episodes))


@dataclass(frozen=True)
class EveryEpisodes(Whole):
    """All rows may change after every `episodes` episodes, as after the rounds of CMBIE.

    Guo, Brunskill 2015. A round has one episode for each machine.

    Parameters
    ----------
    episodes
        The number of episodes between two changes.
    """

    episodes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", require_count("episodes", self.episodes))

    def grid(self, episodes: int) -> range:
        """The multiples of the interval, up to the last episode."""
        return range(self.episodes, episodes + 1, self.episodes)

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """One deployment for each interval."""
        return episodes // self.episodes


@dataclass(frozen=True)
class _OfMachines(Whole):
    machines: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", require_count("machines", self.machines))

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A times the rounds that one (h, x, a) can end, at most K / M."""
        most = self.most_rounds(horizon, episodes)
        return min(episodes // self.machines, horizon * states * actions * most)

    def most_rounds(self, horizon: int, episodes: int) -> int:
        """An upper bound on the rounds that the visits to one (h, x, a) end."""
        raise NotImplementedError


@dataclass(frozen=True)
class VisitRounds(_OfMachines):
    """All rows may change after a round of M machines: Zheng, Gao, Xue, Yang 2024, Algorithm 2.

    Episode k is played by machine k mod M. In a round all machines play one policy, each the same
    number of episodes. The round ends once some machine has visited some (h, x, a)
    max{1, floor(N / (M H (H + 1)))} times in it, where N counts the visits of all machines before
    the round.
    """

    def most_rounds(self, horizon: int, episodes: int) -> int:
        """i_0 + log(K / i_0) / log(1 + 1 / i_0) + 1 with i_0 = 2 M H (H + 1).

        The argument of Zheng et al. 2024, Theorem 4.2: each such round adds a visit up to i_0
        visits, and multiplies them by at least 1 + 1 / i_0 after that.
        """
        first = 2 * self.machines * horizon * (horizon + 1)
        later = max(0.0, math.log(episodes / first) / math.log1p(1 / first) + 1)
        return min(episodes, first) + math.floor(later + 1e-9)


@dataclass(frozen=True)
class StageRounds(_OfMachines):
    """All rows may change after a round of M machines: after Zheng, Zhang, Xue 2025.

    As `VisitRounds`, but the visits of one machine that end a round depend on the stage of the
    (h, x, a). A stage ends with a round once all machines together have M H visits in it, or
    1 + 1/H times as many as in the stage before. With m visits in the stage before the round, and n
    in the stage before this one, they are ceil((n - m) / M) while m <= (1 - 1/H) n,
    floor(n / (M H)) after that, and 1 in the first stage.
    """

    def most_rounds(self, horizon: int, episodes: int) -> int:
        """M H + (M log H + 4 M + 2) (1 + log(K / (M H)) / log(1 + 1/H)).

        A stage of n visits has at most M log H + 1 rounds of the first kind, which leave
        1 - 1/M of n - m, and 4 M + 1 of the second, of at least n / (2 M H) visits each.
        """
        M, H = self.machines, horizon
        stages = max(0.0, 1 + math.log(episodes / (M * H)) / math.log1p(1 / H))
        return min(episodes, M * H) + math.floor(stages * (M * math.log(H) + 4 * M + 2) + 1e-9)


# ---- a budget on either --------------------------------------------------------------------------

Last = Literal["usual", "greedy", "exploit"]


@dataclass(frozen=True, kw_only=True)
class Budget(Schedule):
    """Follow another schedule until a number of deployments or local switches is spent, then stop.

    The budget is spent as changes come, so a schedule that is too eager freezes early. If a refresh
    would change more rows than the budget has left, it changes the first ones in the order of step
    and state.

    Parameters
    ----------
    schedule
        The schedule to follow.
    deployments
        The largest number of deployments.
    switches
        The largest number of local switches.
    last
        The kind of the last deployment, after which nothing can change because it is the last of
        the budget or at the last point of a grid. "usual" makes it like any other. "greedy" leaves
        out exploration, since nothing would be learned from it: planners plan without a bonus, and
        posterior sampling plans on the posterior mean. "exploit" deploys one policy for all members
        of a mixture. Where any action was tried, that policy plays only tried actions. If the
        posterior favours the initial policy of the run, the last deployment restores it.
    """

    schedule: PlainSchedule
    deployments: int | None = None
    switches: int | None = None
    last: Last = "usual"

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, PlainSchedule):
            raise ValueError(
                "a budget applies to a schedule such as Growth(2), not to "
                f"{shown(self.schedule)}{call_it(self.schedule)}"
            )
        if self.deployments is None and self.switches is None:
            raise ValueError(
                "a budget needs a number of deployments or of switches; for no limit, "
                "leave the budget out"
            )
        for name in ("deployments", "switches"):
            if (most := getattr(self, name)) is not None:
                object.__setattr__(self, name, require_count(f"a budget of {name}", most))
        require_word("last", self.last, get_args(Last))
        if self.last != "usual" and self.deployments is None:
            raise ValueError(
                f'last="{self.last}" needs a number of deployments: nobody can predict '
                "after how many switches the last deployment comes"
            )

    @property
    def by_row(self) -> bool:
        return self.schedule.by_row

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The triggers of the schedule inside."""
        return self.schedule.triggers(horizon=horizon, limit=limit)

    def grid(self, episodes: int) -> Sequence[int]:
        """The grid of the schedule inside."""
        return self.schedule.grid(episodes)

    def grid_for(self, **size: int) -> Sequence[int]:
        """The grid of the schedule inside, for a problem of this size."""
        return self.schedule.grid_for(**size)

    def refresh_bound(self, **size: int) -> float:
        """The bound of the schedule inside, at most the budget."""
        return min(self.schedule.refresh_bound(**size), *self.given)

    @property
    def given(self) -> tuple[int, ...]:
        """The budgets of deployments and of switches, and at least one is given."""
        return tuple(most for most in (self.deployments, self.switches) if most is not None)

    def switch_bound(self, **size: int) -> float:
        """The bound of the schedule inside, at most the budget; a deployment changes at most H S
        rows.
        """
        rows = size["horizon"] * size["states"]
        given = [self.switches, None if self.deployments is None else rows * self.deployments]
        return min(
            self.schedule.switch_bound(**size), *(most for most in given if most is not None)
        )


PlainSchedule = ByVisits | Whole


def plain_schedule(schedule: Schedule) -> Schedule:
    """The schedule without its budget."""
    return schedule.schedule if isinstance(schedule, Budget) else schedule
