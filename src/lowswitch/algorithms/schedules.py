"""When the policy may change. A schedule is data: visit counts at which a row may change, or
episodes after which all rows may.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

_CONTEXT = Context(
    prec=60
)  # powers of 1 + eta are rounded up to integers: doubles would now and then round the wrong way


class Triggers(NamedTuple):
    """The visit counts, up to a limit, at which a row may change."""

    every_until: int  # each count from 1 to here
    later: tuple[int, ...]  # and these after it, sorted

    def first(self, size: int) -> list[int]:
        """The first triggers, for reading."""
        dense = list(range(1, min(size, self.every_until) + 1))
        return dense + list(self.later[: size - len(dense)])

    def count(self, visits: int) -> int:
        """How many triggers there are among the first visits."""
        return min(visits, self.every_until) + bisect.bisect_right(self.later, visits)


class Schedule(Protocol):
    """What every schedule answers for one problem size.

    Where `by_row` is true a trigger of (h, x, a) lets row (h, x) of a Q-learner change; else all
    rows may change after the episode. A planner always replans all rows.
    """

    @property
    def by_row(self) -> bool: ...

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The visit counts of an (h, x, a) that are triggers."""

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The numbers of episodes after which all rows may change."""

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """How often something may change at most: after no more episodes than this."""

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The most local switches of a learner of whose rows only those may change that had a
        trigger.
        """


@dataclass(frozen=True)
class ByVisits:
    """A schedule whose triggers depend on nothing but the visits to their (h, x, a); one of your
    own gives `triggers`.
    """

    by_row = True

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        raise NotImplementedError(
            f"{type(self).__name__} must define triggers(self, *, horizon, limit)"
        )

    def grid(self, episodes: int) -> tuple[int, ...]:
        return ()

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A times the triggers of one (h, x, a), or K."""
        return min(
            episodes,
            horizon
            * states
            * actions
            * self.triggers(horizon=horizon, limit=episodes).count(episodes),
        )

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A times the triggers of one (h, x, a), or H K since an episode visits H rows."""
        most = self.triggers(horizon=horizon, limit=episodes).count(episodes)
        return min(horizon * episodes, horizon * states * actions * most)


@dataclass(frozen=True, kw_only=True)
class EveryVisit(ByVisits):
    """A row may change at every visit: the fully adaptive learners, Jin et al. 2018 and every
    planner as first published.
    """

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """Every visit count up to a limit."""
        return Triggers(limit, ())

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """Only the visited rows can change: H K, the change after the last episode counted (without
        it, H (K - 1)).
        """
        return horizon * episodes


@dataclass(frozen=True, kw_only=True)
class UCB2(ByVisits):
    """Every visit up to tau(r_star), then at tau(r) = ceil((1 + eta)^r): Bai et al. 2019, eq. (2).

    "theory" stands for eta = 1 / (2 H (H + 1)) and r_star = ceil(log(10 H^2) / log(1 + eta)), the
    values of Theorem 2. `r_star=1` is pure UCB2: both theorems keep holding and fewer rows change
    (see the errata page).
    """

    eta: float | Literal["theory"] = "theory"
    r_star: int | Literal["theory"] = "theory"

    def __post_init__(self) -> None:
        if self.eta != "theory":
            if not (is_number(self.eta) and 0 < self.eta < 1):
                raise ValueError(
                    f'eta must lie strictly between 0 and 1 or be "theory", not {self.eta!r}'
                )
            object.__setattr__(self, "eta", float(self.eta))
        if self.r_star != "theory":
            if not (
                is_number(self.r_star) and self.r_star == int(self.r_star) and self.r_star >= 1
            ):
                raise ValueError(
                    f'r_star must be an integer of at least 1 or "theory", not {self.r_star!r};'
                    " pure UCB2 is r_star=1"
                )
            object.__setattr__(self, "r_star", int(self.r_star))

    def eta_value(self, horizon: int) -> float:
        """eta, worked out if it is the theory's."""
        return 1 / (2 * horizon * (horizon + 1)) if self.eta == "theory" else self.eta

    def growth(self, horizon: int) -> Decimal:
        """1 + eta, exact to 60 digits."""
        eta = (
            _CONTEXT.divide(1, 2 * horizon * (horizon + 1))
            if self.eta == "theory"
            else Decimal(self.eta)
        )
        return _CONTEXT.add(1, eta)

    def stage_one_exponent(self, horizon: int) -> int:
        """r_star, worked out if it is the theory's."""
        if self.r_star == "theory":
            return math.ceil(math.log(10 * horizon**2) / math.log1p(self.eta_value(horizon)))
        return self.r_star

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The visit counts up to a limit at which a row may change."""
        return powers(
            self.growth(horizon),
            self.eta_value(horizon),
            first=self.stage_one_exponent(horizon),
            limit=limit,
        )

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A tau(r_star) + H S A log((K + A) / A) / log(1 + eta): Bai et al. 2019, Theorem 2
        with its proof's constant corrected.
        """
        log_growth = math.log1p(self.eta_value(horizon))
        log_stage_one = self.stage_one_exponent(horizon) * log_growth
        stage_one = math.ceil(math.exp(log_stage_one)) if log_stage_one < 700 else math.inf
        return (
            horizon
            * states
            * actions
            * (stage_one + math.log((episodes + actions) / actions) / log_growth)
        )


@dataclass(frozen=True)
class Growth(ByVisits):
    """At the distinct values of ceil(factor^r), r = 0, 1, ...: 2 is doubling, the rule of UCRL2's
    and MVP's descendants.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", checked_factor(self.factor))

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """1, 2, 4, 8, ... for a factor of 2."""
        return powers(Decimal(self.factor), self.factor - 1, first=0, limit=limit)


@dataclass(frozen=True)
class Stages(ByVisits):
    """At the ends of stages of e_1 = H and e_{i+1} = floor((1 + 1/H) e_i) visits: Zhang, Zhou, Ji
    2020, Algorithm 1 (UCB-Advantage).
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
    """At exactly these visit counts of each (h, x, a); R-max has one, the count from which it is
    known.
    """

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", increasing("counts", self.counts))

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The counts given."""
        return Triggers(0, tuple(count for count in self.counts if count <= limit))


@dataclass(frozen=True)
class Whole:
    """A schedule by which all rows may change at once; one of your own gives `grid` and
    `refresh_bound`.
    """

    by_row = False

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        return Triggers(0, ())

    def grid(self, episodes: int) -> tuple[int, ...]:
        return ()

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        raise NotImplementedError(
            f"{type(self).__name__} must define refresh_bound(self, *, horizon, states, actions,"
            " episodes)"
        )

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S times the number of refreshes."""
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        return horizon * states * self.refresh_bound(**size)


@dataclass(frozen=True)
class WholePolicy(Whole):
    """All rows, after an episode in which some count has grown by the factor, and by `least`
    visits, since they last might change.

    A factor of 2 with least = 1 are the epochs of UCRL2 (Jaksch, Ortner, Auer 2010). `least` spares
    the many early refreshes, in which each new (h, x, a) has grown beyond any factor.
    """

    factor: float = 2.0
    least: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", checked_factor(self.factor))
        object.__setattr__(self, "least", whole_number("least", self.least))

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A (1 + log(K) / log(factor)), or K: each refresh is due to a count, which had grown
        that much since it last was the cause.
        """
        each = (
            1 + math.floor(math.log(max(1.0, episodes / self.least)) / math.log(self.factor) + 1e-9)
            if episodes >= self.least
            else 0
        )
        return min(episodes, horizon * states * actions * each)


GridKind = Literal["equal", "geometric", "minimax"]


@dataclass(frozen=True)
class Grid(Whole):
    """All rows, after episodes fixed in advance: the ends of batches, of which the last ends with
    the run.

    "equal": K m / size; "geometric": K^(m / size); "minimax": u_1 = a, u_m = a sqrt(u_{m-1}) with a
    = K^(1 / (2 - 2^(1 - size))), the log-log grid of batched learning (Gao, Han, Ren, Zhou 2019);
    or the ends themselves, increasing up to K at least. Ends that fall together count once. Nothing
    changes after the last batch, so that N batches are at most N - 1 deployments.
    """

    ends: GridKind | tuple[int, ...]
    size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ends, str):
            if self.ends not in ("equal", "geometric", "minimax"):
                raise ValueError(
                    'a grid is "equal", "geometric", "minimax" or the ends of its batches, not'
                    f" {self.ends!r}"
                )
            object.__setattr__(self, "size", whole_number("the size of a grid", self.size))
        else:
            object.__setattr__(self, "ends", increasing("the ends of a grid", self.ends))
            if self.size is not None:
                raise ValueError(
                    f"a grid given by its ends has no other size, not {self.size!r}; leave it out"
                )

    def grid(self, episodes: int) -> tuple[int, ...]:
        """The ends of all batches but the last."""
        if not isinstance(self.ends, str):
            if self.ends[-1] < episodes:
                raise ValueError(
                    f"the grid ends at episode {self.ends[-1]}, before the last of {episodes}; add"
                    f" {episodes} as the last end"
                )
            return tuple(end for end in self.ends if end < episodes)
        ends = {self._end(m, self.size or 1, episodes) for m in range(1, self.size or 1)}
        return tuple(sorted(end for end in ends if 1 <= end < episodes))

    def _end(self, m: int, size: int, episodes: int) -> int:
        """The end of batch m of the named grids."""
        if self.ends == "equal":
            return episodes * m // size
        share = (
            m / size if self.ends == "geometric" else (2 - 2.0 ** (1 - m)) / (2 - 2.0 ** (1 - size))
        )
        return math.floor(
            math.pow(episodes, share) * (1 + 1e-12)
        )  # a power that is an integer must not fall below it by rounding

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The batches less one."""
        return len(self.grid(episodes))


Last = Literal["usual", "greedy"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Another schedule until so many deployments, or so many local switches, are spent; then the
    policy stays as it is for good.

    They are spent as they come: a schedule that is too eager for its budget is frozen early. Where
    a refresh would change more rows than are left, it changes the first ones in the order of step
    and state.

    last: the deployment after which nothing can change, because it is the last of the budget or at
    the last point of a grid. "usual" makes it like any other. "greedy" leaves exploration out of
    it, which nobody would learn from: planners plan without a bonus, posterior sampling on the
    posterior mean.
    """

    schedule: PlainSchedule
    deployments: int | None = None
    switches: int | None = None
    last: Last = "usual"

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, PlainSchedule):
            raise ValueError(
                f"a budget is put on a schedule such as Growth(2), not on {self.schedule!r}"
            )
        if self.deployments is None and self.switches is None:
            raise ValueError(
                "a budget needs a number of deployments or of switches; leave the Budget out for"
                " none"
            )
        for name in ("deployments", "switches"):
            if getattr(self, name) is not None:
                object.__setattr__(
                    self, name, whole_number(f"a budget of {name}", getattr(self, name))
                )
        if self.last not in ("usual", "greedy"):
            raise ValueError(f'the last deployment is "usual" or "greedy", not {self.last!r}')
        if self.last == "greedy" and self.deployments is None:
            raise ValueError(
                'last="greedy" needs a number of deployments: after how many switches the last one'
                " comes cannot be foretold"
            )

    @property
    def by_row(self) -> bool:
        return self.schedule.by_row

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """Those of the schedule."""
        return self.schedule.triggers(horizon=horizon, limit=limit)

    def grid(self, episodes: int) -> tuple[int, ...]:
        """That of the schedule."""
        return self.schedule.grid(episodes)

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The schedule's, or the budget."""
        least = self.schedule.refresh_bound(
            horizon=horizon, states=states, actions=actions, episodes=episodes
        )
        return min(
            [least, *(budget for budget in (self.deployments, self.switches) if budget is not None)]
        )

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The schedule's, or the budget; a deployment changes at most H S rows."""
        bounds = [
            self.schedule.switch_bound(
                horizon=horizon, states=states, actions=actions, episodes=episodes
            )
        ]
        if self.switches is not None:
            bounds.append(self.switches)
        if self.deployments is not None:
            bounds.append(horizon * states * self.deployments)
        return min(bounds)


PlainSchedule = ByVisits | Whole


# ---- numbers -------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """A finite real number of Python or numpy, and no truth value."""
    if isinstance(value, bool | np.bool):
        return False
    return isinstance(value, Real) and math.isfinite(value)


def whole_number(name: str, value: Any) -> int:
    """An integer of at least 1, or an error."""
    if not (is_number(value) and value == int(value) and 1 <= value < 2**31 - 1):
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def checked_factor(value: Any) -> float:
    if not (is_number(value) and value > 1):
        raise ValueError(f"a growth factor must be a number above 1, not {value!r}; 2 is doubling")
    return float(value)


def increasing(name: str, values: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on, each larger than the one before."""
    try:
        numbers = tuple(whole_number(name, value) for value in values)
    except TypeError:
        raise ValueError(
            f"{name} must be whole numbers in increasing order, not {values!r}"
        ) from None
    if not numbers or any(after <= before for before, after in itertools.pairwise(numbers)):
        raise ValueError(f"{name} must increase, and there must be at least one, not {values!r}")
    return numbers


def powers(growth: Decimal, eta: float, *, first: int, limit: int) -> Triggers:
    """Every count up to ceil(growth^first), then the distinct values of ceil(growth^r); eta is
    growth - 1.
    """
    if eta * limit <= 1:
        return Triggers(limit, ())
    # up to 1 / eta the powers lie at most 1 apart, so that every integer is a trigger, stage I or
    # not
    exponent = max(first, int(-math.log(eta) / math.log1p(eta)))
    if exponent * math.log1p(eta) >= math.log(limit):
        return Triggers(limit, ())
    every_until = math.ceil(_CONTEXT.power(growth, exponent))
    later = [
        tau for tau in distinct_powers(growth, first=exponent, limit=limit) if tau > every_until
    ]
    return Triggers(min(every_until, limit), tuple(later))


def distinct_powers(growth: Decimal, *, first: int, limit: int) -> Iterator[int]:
    """The distinct values of ceil(growth^r) for r = first, first + 1, ... up to a limit."""
    power, last = _CONTEXT.power(growth, first), 0
    while (tau := math.ceil(power)) <= limit:
        if tau > last:
            yield tau
            last = tau
        power = _CONTEXT.multiply(power, growth)
