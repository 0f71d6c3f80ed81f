"""The published algorithms, each a single expression with its citation, and their names on the
command line.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast

import numpy as np

from lowswitch.algorithms.parts import (
    Advantage,
    AdvantageBonus,
    Algorithm,
    Bernstein,
    BernsteinFreedman,
    Bonus,
    ChernoffHoeffding,
    Clip,
    Estimator,
    Hoeffding,
    L1Ball,
    MonotonicBernstein,
    NoBonus,
    Planning,
    Posterior,
    QLearning,
    StageQLearning,
    Unknown,
    checked_scales,
    kind_name,
    positive,
)
from lowswitch.algorithms.schedules import (
    UCB2,
    Budget,
    EveryVisit,
    Grid,
    Growth,
    Last,
    PlainSchedule,
    Stages,
    Visits,
    WholePolicy,
)
from lowswitch.algorithms.text import literal, nearest

# ---- what every recipe shares --------------------------------------------------------------------


class Shared(TypedDict, total=False):
    """Options of every recipe.

    p: the failure probability. deployments, switches: a hard budget. last: whether its last
    deployment is "usual" or "greedy", without exploration. scales: those of the bonus in a mixture,
    one for each member, such as (1, 0.3, 0.1) or "1/0.3/0.1".
    """

    p: float
    deployments: int | None
    switches: int | None
    last: Last
    scales: str | float | Sequence[float]


def assemble(
    estimator: Estimator,
    bonus: Bonus,
    schedule: str | PlainSchedule | Budget,
    *,
    p: float = 0.05,
    deployments: int | None = None,
    switches: int | None = None,
    last: Last = "usual",
    scales: str | float | Sequence[float] = "1.0",
) -> Algorithm:
    """An algorithm of its parts."""
    when = as_schedule(schedule, deployments, switches, last)
    return Algorithm(estimator=estimator, bonus=bonus, schedule=when, p=p, scales=as_scales(scales))


Recipe = TypeVar("Recipe", bound=Callable[..., Algorithm])


def recipe(function: Recipe) -> Recipe:
    """Show the shared options in signature and docstring, where `help`, the command line and
    `text_of` look for them.
    """
    own = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "shared"
    ]
    shared = [
        parameter
        for parameter in inspect.signature(assemble).parameters.values()
        if parameter.name in Shared.__annotations__
    ]
    signature = inspect.Signature([*own, *shared], return_annotation="Algorithm")

    @functools.wraps(function)
    def made(**options: Any) -> Algorithm:
        for key in options.keys() - signature.parameters.keys():
            raise TypeError(
                f"{function.__name__} has no option {key!r}; {nearest(key, signature.parameters)}"
            )
        return function(**options)

    made.__doc__ = f"{function.__doc__}\n\n{inspect.getdoc(Shared)}"
    vars(made)["__signature__"] = signature
    return cast(Recipe, made)


# ---- Q-learning ----------------------------------------------------------------------------------


@recipe
def ucb_hoeffding(*, c: float = 1.0, clip: Clip = "horizon", **shared: Unpack[Shared]) -> Algorithm:
    """Q-learning with UCB-Hoeffding: Jin, Allen-Zhu, Bubeck, Jordan 2018, Algorithm 1."""
    return assemble(QLearning(clip=clip), Hoeffding(c=c), EveryVisit(), **shared)


@recipe
def ucb_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with UCB-Bernstein: Jin et al. 2018, Algorithm 2, with W_n a variance as its eq.
    (C.1) says. c is both c1 and c2.
    """
    return assemble(QLearning(clip=clip), _bernstein(c, c1, c2), EveryVisit(), **shared)


@recipe
def ucb2_hoeffding(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    eta: float | Literal["theory"] = "theory",
    r_star: int | Literal["theory"] = "theory",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with UCB2-Hoeffding: Bai, Xie, Jiang, Wang 2019, Algorithm 2."""
    return assemble(QLearning(clip=clip), Hoeffding(c=c), UCB2(eta=eta, r_star=r_star), **shared)


@recipe
def ucb2_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    eta: float | Literal["theory"] = "theory",
    r_star: int | Literal["theory"] = "theory",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with UCB2-Bernstein: Bai et al. 2019, Algorithm UCB2B, with W_n a variance. c is
    both c1 and c2.
    """
    return assemble(
        QLearning(clip=clip), _bernstein(c, c1, c2), UCB2(eta=eta, r_star=r_star), **shared
    )


def _bernstein(c: float, c1: float | None, c2: float | None) -> Bernstein:
    positive("c", c)
    return Bernstein(c1=c if c1 is None else c1, c2=c if c2 is None else c2)


@recipe
def q_hoeffding(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    schedule: str | PlainSchedule | Budget = "growth/2.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with the Hoeffding bonus of Jin et al. 2018, Algorithm 1, under any schedule;
    doubling by default.
    """
    return assemble(QLearning(clip=clip), Hoeffding(c=c), schedule, **shared)


@recipe
def q_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    clip: Clip = "horizon",
    schedule: str | PlainSchedule | Budget = "growth/2.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Q-learning with the Bernstein bonus of Jin et al. 2018, Algorithm 2, under any schedule;
    doubling by default.
    """
    return assemble(QLearning(clip=clip), _bernstein(c, c1, c2), schedule, **shared)


@recipe
def stage_q(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    schedule: str | PlainSchedule | Budget = "stages",
    **shared: Unpack[Shared],
) -> Algorithm:
    """Stage-based Q-learning: Zhang, Zhou, Ji 2020, Algorithm 1, without its reference part; c
    scales the bonus 2 sqrt(H^2 iota / n).
    """
    return assemble(StageQLearning(clip=clip), Hoeffding(c=c), schedule, **shared)


@recipe
def ucb_advantage(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    reference: int = 100,
    schedule: str | PlainSchedule | Budget = "stages",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCB-Advantage: Zhang, Zhou, Ji 2020, Algorithm 1, with the reference fixed after `reference`
    visits; c scales both bonuses.
    """
    return assemble(
        Advantage(clip=clip, reference=reference), AdvantageBonus(c=c), schedule, **shared
    )


# ---- planning ------------------------------------------------------------------------------------


@recipe
def ucbvi(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    pooled: bool = False,
    schedule: str | PlainSchedule | Budget = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCBVI-CH: Azar, Osband, Munos 2017, Algorithms 1 to 3, with counts for each step and mean
    rewards for known ones. c scales it.
    """
    return assemble(
        Planning(clip=clip, monotone=True, pooled=pooled),
        ChernoffHoeffding(c=c),
        schedule,
        **shared,
    )


@recipe
def ucbvi_bernstein(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    pooled: bool = False,
    schedule: str | PlainSchedule | Budget = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCBVI-BF: Azar et al. 2017, Algorithms 1, 2 and 4, with counts for each step and mean rewards
    for known ones; c scales the bonus.
    """
    return assemble(
        Planning(clip=clip, monotone=True, pooled=pooled),
        BernsteinFreedman(c=c),
        schedule,
        **shared,
    )


@recipe
def mvp(
    *,
    c: float = 1.0,
    clip: Clip = "horizon",
    data: Literal["newest", "all"] = "newest",
    schedule: str | PlainSchedule | Budget = "growth/2.0",
    **shared: Unpack[Shared],
) -> Algorithm:
    """MVP: Zhang, Chen, Lee, Du 2024, Algorithm 1; data="all" as in Zhang, Ji, Du 2021. c scales
    the bonus with its constants.
    """
    return assemble(Planning(clip=clip, data=data), MonotonicBernstein(c=c), schedule, **shared)


@recipe
def ucrl2(
    *,
    c: float = 1.0,
    clip: Clip = "remaining",
    pooled: bool = False,
    schedule: str | PlainSchedule | Budget = "whole/2.0/1",
    **shared: Unpack[Shared],
) -> Algorithm:
    """UCRL2 for a finite horizon: Jaksch, Ortner, Auer 2010, Figure 1, with backward induction; c
    scales both confidence widths.
    """
    return assemble(Planning(clip=clip, pooled=pooled), L1Ball(c=c), schedule, **shared)


@recipe
def rmax(
    *, known: int = 10, clip: Clip = "remaining", pooled: bool = False, **shared: Unpack[Shared]
) -> Algorithm:
    """R-max for a finite horizon: Brafman, Tennenholtz 2002; an (h, x, a) is known from `known`
    visits on, and then it replans.
    """
    unknown = Unknown(known=known)
    scales = checked_scales(as_scales(shared.get("scales", 1.0)), unknown)
    counts = sorted({max(1, math.ceil(scale * known)) for scale in scales})
    return assemble(Planning(clip=clip, pooled=pooled), unknown, Visits(tuple(counts)), **shared)


@recipe
def psrl(
    *,
    prior: float = 1.0,
    rewards: Literal["bootstrap", "mean"] = "bootstrap",
    members: int = 1,
    pooled: bool = False,
    schedule: str | PlainSchedule | Budget = "every",
    **shared: Unpack[Shared],
) -> Algorithm:
    """PSRL: Osband, Russo, Van Roy 2013, Algorithm 1; lazy by its schedule, a mixture of samples
    with more than one member.
    """
    return assemble(
        Posterior(prior=prior, rewards=rewards, members=members, pooled=pooled),
        NoBonus(),
        schedule,
        **shared,
    )


RECIPES: dict[str, Callable[..., Algorithm]] = {
    "ucb-h": ucb_hoeffding,
    "ucb-b": ucb_bernstein,
    "ucb2-h": ucb2_hoeffding,
    "ucb2-b": ucb2_bernstein,
    "q-h": q_hoeffding,
    "q-b": q_bernstein,
    "stage-q": stage_q,
    "ucb-advantage": ucb_advantage,
    "ucbvi": ucbvi,
    "ucbvi-bf": ucbvi_bernstein,
    "mvp": mvp,
    "psrl": psrl,
    "ucrl2": ucrl2,
    "rmax": rmax,
}

# ---- schedules in text ---------------------------------------------------------------------------

SCHEDULES: dict[str, type] = {
    "every": EveryVisit,
    "ucb2": UCB2,
    "growth": Growth,
    "stages": Stages,
    "visits": Visits,
    "whole": WholePolicy,
    "grid": Grid,
}


def as_schedule(
    schedule: str | PlainSchedule | Budget,
    deployments: int | None = None,
    switches: int | None = None,
    last: Last = "usual",
) -> PlainSchedule | Budget:
    """A schedule, or its text such as growth/2, whole/2/10, grid/geometric/30 or grid/10-100-1000,
    under a budget where one is given.

    The parts of a text after its name are the fields of the schedule in order, or key=value.
    """
    if not isinstance(schedule, str):
        return under_budget(schedule, deployments, switches, last)
    name, *parts = schedule.split("/")
    if name not in SCHEDULES:
        raise ValueError(f"unknown schedule {name!r}; {nearest(name, SCHEDULES)}")
    fields = [field.name for field in dataclasses.fields(SCHEDULES[name])]
    options: dict[str, Any] = {}
    for i, part in enumerate(parts):
        key, equals, value = part.partition("=")
        if not equals:
            key, value = (fields[i] if i < len(fields) else part), part
        if key not in fields or key in options:
            raise ValueError(
                f"the schedule {name} has no option {key!r}, or has it twice;"
                f" {nearest(key, fields)}"
            )
        options[key] = _numbers(value)
    try:
        plain = SCHEDULES[name](**options)
    except TypeError:
        raise ValueError(
            f"the schedule {name} needs {', '.join(fields)}; write {'/'.join([name, *fields])}"
        ) from None
    return under_budget(plain, deployments, switches, last)


def _numbers(text: str) -> Any:
    """A number, whole numbers joined by hyphens, or a word."""
    return (
        tuple(map(int, text.split("-")))
        if text.replace("-", "").isdigit() and "-" in text.strip("-")
        else literal(text)
    )


def schedule_text(schedule: PlainSchedule) -> str | PlainSchedule:
    """A schedule in the words of `as_schedule`, or as it is where there are none for it."""
    name = next((name for name, kind in SCHEDULES.items() if kind is type(schedule)), None)
    if name is None:
        return schedule
    values = [getattr(schedule, field.name) for field in dataclasses.fields(schedule)]
    words = [
        "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for value in values
        if value is not None
    ]
    return "/".join([name, *words])


def under_budget(
    schedule: PlainSchedule | Budget, deployments: int | None, switches: int | None, last: Last
) -> PlainSchedule | Budget:
    """The schedule under a hard budget, where one is given."""
    if deployments is None and switches is None:
        if last != "usual":
            raise ValueError(
                f"last={last!r} is for a budget: give deployments=N beside it (a grid of N + 1"
                " batches has N)"
            )
        return schedule
    if isinstance(schedule, Budget):
        raise ValueError(f"there is a budget already: {schedule!r}; give it once")
    return Budget(schedule=schedule, deployments=deployments, switches=switches, last=last)


# ---- scales in text ------------------------------------------------------------------------------


def as_scales(scales: Any) -> tuple[float, ...]:
    """The scales of a mixture, or their text such as 1/0.3/0.1."""
    if isinstance(scales, np.ndarray):
        scales = scales.tolist()
    if isinstance(scales, str):
        return tuple(literal(part) for part in scales.split("/"))
    if isinstance(scales, Real):
        return (float(scales),)
    if isinstance(scales, bytes) or not isinstance(scales, Sequence):
        raise ValueError(
            f"scales must be numbers such as (1, 0.3, 0.1) or 1/0.3/0.1, not {scales!r}"
        )
    return tuple(scales)


# ---- algorithms in text --------------------------------------------------------------------------


def text_of(algorithm: Algorithm) -> str | None:
    """The first recipe that makes this algorithm, with the options that are not its defaults."""
    if any("." in kind_name(type(part)) for part in (algorithm.estimator, algorithm.bonus)):
        return None  # one's own
    options = _options(algorithm)
    for name, recipe in RECIPES.items():
        parameters = inspect.signature(recipe).parameters
        given = {
            key: value
            for key, value in options.items()
            if key in parameters and value != parameters[key].default
        }
        try:
            made = recipe(**given)
        except ValueError:
            continue
        if made == algorithm:
            return name + (
                ":" + ",".join(f"{key}={value}" for key, value in given.items()) if given else ""
            )
    return None


def _options(algorithm: Algorithm) -> dict[str, Any]:
    """Every number as a keyword of the recipes; c stands for equal c1 and c2."""
    schedule, budget = algorithm.schedule, {}
    if isinstance(schedule, Budget):
        budget = {
            "deployments": schedule.deployments,
            "switches": schedule.switches,
            "last": schedule.last,
        }
        schedule = schedule.schedule
    options: dict[str, Any] = {}
    for part in (algorithm.estimator, algorithm.bonus, schedule):
        options |= {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    if "c1" in options and options["c1"] == options["c2"]:
        options["c"] = options.pop("c1")
        del options["c2"]
    scales = "/".join(map(str, algorithm.scales))
    return (
        options | {"schedule": schedule_text(schedule), "p": algorithm.p, "scales": scales} | budget
    )
