"""When a row may change: a schedule worked out for one problem size is a sorted list of visit counts, the triggers."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

_CONTEXT = Context(prec=60)  # powers of 1 + eta are rounded up to integers: doubles would now and then round the wrong way


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


@dataclass(frozen=True, kw_only=True)
class EveryVisit:
    """A row may change at every visit: the fully adaptive learners of Jin et al. 2018."""

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """Every visit count up to a limit."""
        return Triggers(limit, ())

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """Only the visited rows can change: H K, the change after the last episode counted (without it, H (K - 1))."""
        return horizon * episodes


@dataclass(frozen=True, kw_only=True)
class UCB2:
    """Every visit up to tau(r_star), then at tau(r) = ceil((1 + eta)^r): Bai et al. 2019, eq. (2).

    "theory" stands for eta = 1 / (2 H (H + 1)) and r_star = ceil(log(10 H^2) / log(1 + eta)), the values of Theorem 2. `r_star=1` is
    pure UCB2: both theorems keep holding and fewer rows change (see the errata page).
    """

    eta: float | Literal["theory"] = "theory"
    r_star: int | Literal["theory"] = "theory"

    def __post_init__(self) -> None:
        if self.eta != "theory":
            if not (is_number(self.eta) and 0 < self.eta < 1):
                raise ValueError(f'eta must lie strictly between 0 and 1 or be "theory", not {self.eta!r}')
            object.__setattr__(self, "eta", float(self.eta))
        if self.r_star != "theory":
            if not (is_number(self.r_star) and self.r_star == int(self.r_star) and self.r_star >= 1):
                raise ValueError(f'r_star must be an integer of at least 1 or "theory", not {self.r_star!r}; pure UCB2 is r_star=1')
            object.__setattr__(self, "r_star", int(self.r_star))

    def eta_value(self, horizon: int) -> float:
        """eta, worked out if it is the theory's."""
        return 1 / (2 * horizon * (horizon + 1)) if self.eta == "theory" else self.eta

    def growth(self, horizon: int) -> Decimal:
        """1 + eta, exact to 60 digits."""
        eta = _CONTEXT.divide(1, 2 * horizon * (horizon + 1)) if self.eta == "theory" else Decimal(self.eta)
        return _CONTEXT.add(1, eta)

    def stage_one_exponent(self, horizon: int) -> int:
        """r_star, worked out if it is the theory's."""
        if self.r_star == "theory":
            return math.ceil(math.log(10 * horizon**2) / math.log1p(self.eta_value(horizon)))
        return self.r_star

    def triggers(self, *, horizon: int, limit: int) -> Triggers:
        """The visit counts up to a limit at which a row may change."""
        eta = self.eta_value(horizon)
        if eta * limit <= 1:
            return Triggers(limit, ())
        # up to 1 / eta the powers lie at most 1 apart, so that every integer is a trigger, stage I or not
        exponent = max(self.stage_one_exponent(horizon), int(-math.log(eta) / math.log1p(eta)))
        if exponent * math.log1p(eta) >= math.log(limit):
            return Triggers(limit, ())
        growth = self.growth(horizon)
        every_until = math.ceil(_CONTEXT.power(growth, exponent))
        later = [tau for tau in distinct_powers(growth, first=exponent, limit=limit) if tau > every_until]
        return Triggers(min(every_until, limit), tuple(later))

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H S A tau(r_star) + H S A log((K + A) / A) / log(1 + eta): Bai et al. 2019, Theorem 2 with its proof's constant corrected."""
        log_growth = math.log1p(self.eta_value(horizon))
        log_stage_one = self.stage_one_exponent(horizon) * log_growth
        stage_one = math.ceil(math.exp(log_stage_one)) if log_stage_one < 700 else math.inf
        return horizon * states * actions * (stage_one + math.log((episodes + actions) / actions) / log_growth)


Schedule = EveryVisit | UCB2


def is_number(value: Any) -> bool:
    """A finite real number of Python or numpy, and no truth value."""
    if isinstance(value, bool | np.bool):
        return False
    return isinstance(value, Real) and math.isfinite(value)


def distinct_powers(growth: Decimal, *, first: int, limit: int) -> Iterator[int]:
    """The distinct values of ceil(growth^r) for r = first, first + 1, ... up to a limit."""
    power, last = _CONTEXT.power(growth, first), 0
    while (tau := math.ceil(power)) <= limit:
        if tau > last:
            yield tau
            last = tau
        power = _CONTEXT.multiply(power, growth)
