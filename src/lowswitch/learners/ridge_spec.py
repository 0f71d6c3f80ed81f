"""The spec of an algorithm for features on one problem: how it explores, when it may deploy."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace
from typing import Any

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.calendars import Calendar, Late
from lowswitch.algorithms.estimators import LearnedPosterior
from lowswitch.algorithms.meetings import Asked, asks
from lowswitch.algorithms.recipes import linear
from lowswitch.algorithms.ridge import (
    RULE,
    Determinant,
    Ellipsoid,
    Ridge,
    Sampled,
    Spread,
    dates_of,
)
from lowswitch.algorithms.schedules import Budget, EveryVisit, Last, Whole, plain_schedule
from lowswitch.algorithms.trial import Trial
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.shape import Shape

_USUAL_MEMBERS = 64  # of `few`


@dataclass(frozen=True)
class Spec:
    """The numbers of an algorithm for one problem."""

    members: int
    ridge: float
    c: float  # of an ellipsoid
    sampled: Sampled | None  # how members are drawn from the posterior, or else an ellipsoid
    width: str
    p: float
    episodes: int
    every: bool  # a policy may be made after every episode
    dates: tuple[int, ...]  # or after these
    log_factor: float  # or when a determinant has grown by this much, in logarithms
    asked: bool  # or when somebody asks
    budget: int | None  # of deployments
    greedy_last: bool
    intercept: bool = False
    odds: bool = False  # whether log-odds are fitted where all rewards are 0 or 1
    watches: bool = False  # whether contexts are tested for drift
    spread: Spread | None = None  # by which dates can be moved
    trial: Trial | None = None  # the share of the cases that explore beside a protocol
    floor: float | None = None
    rule: int = 1  # the version of the rules, see `Ridge`

    def inner(self, shape: Shape) -> Shape:
        """The shape with the constant feature, if there is one."""
        return shape._replace(features=shape.features + self.intercept)

    def moved(self, told: int, spent: int) -> Spec:
        """The same with other dates ahead, once the contexts have moved after `told` episodes."""
        if self.spread is None or self.budget is None:
            return self
        past = tuple(date for date in self.dates if date <= told)
        left = self.budget - spent - self.on_date(told)
        ahead = self.spread.moved(told, left, self.episodes) if left > 0 else ()
        return replace(self, dates=past + ahead)

    def early(self, told: int, spent: int) -> Spec:
        """The same with a date now instead of the next one, and the others ahead spread anew.

        Nothing changes if the last date was less than a gap ago.
        """
        assert self.spread is not None
        assert self.budget is not None
        past = tuple(date for date in self.dates if date < told)
        if told - max(past, default=0) < self.spread.gap:
            return self
        left = self.budget - spent - 1
        ahead = self.spread.moved(told, left, self.episodes) if left > 0 else ()
        return replace(self, dates=(*past, told, *ahead))

    def on_date(self, told: int) -> bool:
        """Whether a policy may be made after this number of episodes, whatever was learned."""
        if self.every:
            return True
        place = bisect.bisect_left(self.dates, told)
        return place < len(self.dates) and self.dates[place] == told

    def next_date(self, told: int) -> int:
        """The next number of episodes after which a policy may be made, or the end of the run."""
        if self.every:
            return told + 1
        place = bisect.bisect_right(self.dates, told)
        return self.dates[place] if place < len(self.dates) else self.episodes

    def is_last(self, spent: int, told: int) -> bool:
        """Whether no other deployment can follow one that is made now."""
        if self.budget is None:
            return False
        last_date = not (self.every or self.asked) and math.isinf(self.log_factor)
        return spent + 1 >= self.budget or (last_date and self.next_date(told) >= self.episodes)


def spec_of(algorithm: Algorithm, shape: Shape, episodes: int) -> Spec:
    """The numbers of an algorithm for one problem; of `few`, of its `linear_form`."""
    estimator, bonus, schedule = algorithm.estimator, algorithm.bonus, algorithm.schedule
    assert isinstance(estimator, Ridge)
    assert isinstance(bonus, Sampled | Ellipsoid)
    budget = schedule.deployments if isinstance(schedule, Budget) else None
    plain = plain_schedule(schedule)
    shape = shape._replace(features=shape.features + estimator.intercept)
    log_factor = math.inf
    if isinstance(plain, Determinant):
        log_factor = plain.log_factor(
            horizon=shape.horizon,
            weights=shape.weights,
            episodes=episodes,
            ridge=estimator.ridge,
            deployments=budget,
        )
    dates: tuple[int, ...] = ()
    if isinstance(plain, Whole):
        dates = tuple(dates_of(plain, budget, episodes, shape.weights))
    return Spec(
        members=estimator.members,
        ridge=estimator.ridge,
        c=bonus.c,
        sampled=bonus if isinstance(bonus, Sampled) else None,
        width=bonus.width if isinstance(bonus, Ellipsoid) else "noise",
        p=algorithm.p,
        episodes=episodes,
        every=isinstance(plain, EveryVisit),
        dates=dates,
        log_factor=log_factor,
        asked=asks(schedule) is not None,
        budget=budget,
        greedy_last=isinstance(schedule, Budget) and schedule.last == "greedy",
        intercept=estimator.intercept,
        odds=estimator.link == "auto",
        watches=estimator.drift == "watch",
        spread=plain if isinstance(plain, Spread) else None,
        trial=estimator.trial,
        floor=estimator.floor,
        rule=estimator.rule,
    )


def can_be_protocol(initial: LinearPolicy | None) -> bool:
    """Whether an initial policy is one function for episodes of one step."""
    return initial is not None and initial.members == 1 and initial.shape.horizon == 1


def linear_form(
    algorithm: Algorithm, episodes: int, initial: LinearPolicy | None = None
) -> Algorithm:
    """The algorithm itself, or for `few` the same budget and dates for features.

    `few` learns the prior of tables, which features do not have. With features it is `linear`: 32
    posterior samples, dates that are spread geometrically, and a greedy last deployment; and unless
    rule=1 with an intercept, log-odds where rewards are 0 or 1, and a test of drift. Its usual 64
    members cannot be told from 64 that were asked for, so both are 32; any other number is kept.
    Beside an initial policy that can be a protocol all 64 are kept, of which some are the trial.
    """
    require_algorithm(algorithm)
    protocol = can_be_protocol(initial)
    if isinstance(algorithm.estimator, Ridge):
        _require_protocol(algorithm.estimator, protocol)
        return algorithm
    schedule = algorithm.schedule
    is_few = isinstance(algorithm.estimator, LearnedPosterior) and isinstance(schedule, Budget)
    plain = plain_schedule(schedule)
    if not (is_few and isinstance(plain, Late | Calendar | Asked)):
        raise ValueError(
            f"{algorithm} learns tables of states and cannot use features; use ls.linear,"
            " ls.linucb or ls.few"
        )
    assert isinstance(schedule, Budget)
    assert isinstance(algorithm.estimator, LearnedPosterior)
    for name in ("mass", "rewards", "reward_weight", "pooled", "rows"):
        if getattr(algorithm.estimator, name) != getattr(LearnedPosterior(), name):
            raise ValueError(
                f"{name} applies to tables, not to features; leave it out, or use ls.linear"
            )
    _require_protocol(algorithm.estimator, protocol)
    last: Last = "usual" if schedule.last == "usual" else "greedy"
    when = Spread(plain.gap) if type(plain) is Late else plain
    options: dict[str, Any] = {}
    if algorithm.estimator.rule > 1:
        options = {"intercept": True, "link": "auto", "drift": "watch", "rule": RULE}
    trial = algorithm.estimator.trial
    if trial == "auto" and algorithm.estimator.rule == 1:  # which had none with features
        trial = None
    if protocol and algorithm.members > 1 and trial is not None:
        options |= {"trial": trial, "floor": algorithm.estimator.floor}
    if "trial" in options or algorithm.members != _USUAL_MEMBERS:
        options["members"] = algorithm.members
    return linear(schedule=when, deployments=schedule.deployments, last=last, **options)


def _require_protocol(estimator: Ridge | LearnedPosterior, protocol: bool) -> None:
    """A share and a floor that were asked for need a policy that is the protocol at first."""
    asked = {"trial": estimator.trial, "floor": estimator.floor}
    for name, value in asked.items():
        if value not in (None, "auto") and not protocol:
            raise ValueError(
                f"{name}={value} needs a protocol: with features, give the policy that is played"
                " today as initial=, one function for episodes of one step, or leave"
                f" {name} out"
            )
