"""Read and write named things as text, `name:key=value,key=value`, and suggest names for typos.

A schedule and the scales of a mixture are written with slashes, such as `whole/2/10` and
`1/0.3/0.1`, so that they fit behind an equals sign.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from lowswitch.algorithms.calendars import Calendar, Late
from lowswitch.algorithms.meetings import Asked
from lowswitch.algorithms.ridge import Determinant, Spread
from lowswitch.algorithms.schedules import (
    UCB2,
    Budget,
    EveryEpisodes,
    EveryVisit,
    Grid,
    Growth,
    Last,
    PlainSchedule,
    StageRounds,
    Stages,
    VisitRounds,
    Visits,
    WholePolicy,
)
from lowswitch.checks import require_word, shown

if TYPE_CHECKING:
    from lowswitch.algorithms.algorithm import Algorithm

_LONGEST = 10_000  # characters of a number or a word; a list of numbers can be longer
AnySchedule = str | PlainSchedule | Budget  # a schedule or its text
AnyScales = str | float | Sequence[float]

# ---- any named thing -----------------------------------------------------------------------------


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known name, or all of them."""
    names = {each.lower(): each for each in known}  # so that C finds c
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {names[close[0]]!r}?"
    return f"the known ones are {', '.join(sorted(names.values()))}"


def build(text: str, known: Mapping[str, Callable[..., Any]], what: str) -> Any:
    """Call the function that `name:key=value,...` names, with these keywords."""
    if not isinstance(text, str):
        raise ValueError(f"a {what} is named by a text such as name:key=value, not {shown(text)}")
    name, _, rest = text.partition(":")
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; {nearest(name, known)}")
    parameters = inspect.signature(known[name]).parameters
    options = options_of(rest, name, what, first=next(iter(parameters), "key"))
    for key in options:
        if key not in parameters:
            raise ValueError(no_option(name, key, known))
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty and key not in options
    ]
    if missing:
        raise ValueError(
            f"{name} needs {', '.join(missing)}; write"
            f" {name}:{','.join(f'{key}=...' for key in missing)}"
        )
    return known[name](**options)


def no_option(name: str, key: str, known: Mapping[str, Callable[..., Any]]) -> str:
    """The error for an unknown option: its own options, and the names that have the given one."""
    options = inspect.signature(known[name]).parameters
    having = [other for other, made in known.items() if key in inspect.signature(made).parameters]
    way_out = nearest(key, options)
    if having:
        way_out = f"it has {', '.join(options)}; those with {key} are {', '.join(having)}"
    return f"{name} has no option {key!r}; {way_out}"


def options_of(text: str, name: str, what: str, first: str = "key") -> dict[str, Any]:
    """The options in `key=value,key=value` for the thing called `name`.

    A bare number was probably meant for the first option. Or it belongs to the option before it,
    whose several values must be joined by dashes.
    """
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            written = "key=value,key=value"
            if isinstance(literal(part), int | float):
                before = next(reversed(options), None)
                written = f"{first}={part}" if before is None else f"{before}=...-{part}"
            raise ValueError(
                f"{what} option {part!r} is not of the form key=value; write {name}:{written}"
            )
        if key in options:
            raise ValueError(f"{name} has the option {key!r} twice; give it once")
        options[key] = literal(value)
    return options


def literal(text: str) -> Any:
    """A number or a boolean if the text reads as one, otherwise the text itself."""
    if len(text) > _LONGEST:
        raise ValueError(
            f"the value {text[:40]!r} ... has {len(text):,} characters, more than any option needs"
        )
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


# ---- schedules -----------------------------------------------------------------------------------

SCHEDULES: dict[str, type] = {
    "every": EveryVisit,
    "ucb2": UCB2,
    "growth": Growth,
    "stages": Stages,
    "visits": Visits,
    "whole": WholePolicy,
    "grid": Grid,
    "episodes": EveryEpisodes,
    "rounds": VisitRounds,
    "stage-rounds": StageRounds,
    "asked": Asked,
    "calendar": Calendar,
    "late": Late,
    "spread": Spread,
    "determinant": Determinant,
}


def as_schedule(
    schedule: AnySchedule,
    deployments: int | None = None,
    switches: int | None = None,
    last: Last = "usual",
) -> PlainSchedule | Budget:
    """Read a schedule or its text, and apply a budget if one is given.

    Parameters
    ----------
    schedule
        A schedule, or a text such as `growth/2`, `whole/2/10`, `grid/geometric/30` or
        `grid/10-100-1000`. The schedule's fields follow its name in order, or as `key=value`.
    deployments
        The greatest number of deployments, or None for no limit.
    switches
        The greatest number of local switches, or None for no limit.
    last
        The kind of the last deployment: "usual", "greedy" or "exploit"; see `Budget`. Any other
        value than "usual" needs `deployments`.
    """
    when = _read_schedule(schedule) if isinstance(schedule, str) else schedule
    require_word("last", last, get_args(Last))
    if deployments is None and switches is None:
        if last != "usual":
            raise ValueError(
                f"last={shown(last)} needs a budget: give deployments=N too (a grid of N "
                "+ 1 batches has N)"
            )
        return when
    if isinstance(when, Budget):
        raise ValueError(f"the schedule already has a budget: {shown(when)}; give it once")
    return Budget(schedule=when, deployments=deployments, switches=switches, last=last)


def _read_schedule(text: str) -> PlainSchedule:
    name, *parts = text.split("/")
    if name not in SCHEDULES:
        raise ValueError(f"unknown schedule {name!r}; {nearest(name, SCHEDULES)}")
    fields = [field.name for field in dataclasses.fields(SCHEDULES[name])]
    takes_several = name in ("asked", "calendar", "grid", "visits")
    if takes_several and len(parts) > len(fields) and all(part.isdigit() for part in parts):
        raise ValueError(
            f"join several numbers with hyphens: write {name}/{'-'.join(parts)}, not {text}"
        )
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
        options[key] = whole_numbers(value)
    try:
        schedule: PlainSchedule = SCHEDULES[name](**options)
    except TypeError:
        raise ValueError(
            f"the schedule {name} needs {', '.join(fields)}; write {'/'.join([name, *fields])}"
        ) from None
    return schedule


def whole_numbers(text: str) -> Any:
    """A number, whole numbers joined by hyphens, or a word."""
    several = text.replace("-", "").isdigit() and "-" in text.strip("-")
    return tuple(map(int, text.split("-"))) if several else literal(text)


def schedule_text(schedule: PlainSchedule) -> str | PlainSchedule:
    """A schedule in the words of `as_schedule`, or the schedule itself if no text describes it."""
    name = next((name for name, kind in SCHEDULES.items() if kind is type(schedule)), None)
    if name is None:
        return schedule
    values = [getattr(schedule, field.name) for field in dataclasses.fields(schedule)]
    return "/".join([name, *(_word(value) for value in values if value is not None)])


def _word(value: Any) -> str:
    """A number or a word as text; several are joined with hyphens."""
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)


def as_dates(dates: Any) -> tuple[int, ...]:
    """The dates of a calendar, or their text such as 300-600-900."""
    found = whole_numbers(dates) if isinstance(dates, str) else dates
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if isinstance(found, Real):
        found = (found,)
    if isinstance(found, str | bytes) or not isinstance(found, Sequence):
        raise ValueError(
            "deployments_at must be numbers of episodes such as (300, 600) or 300-600, not"
            f" {shown(dates)}"
        )
    return tuple(found)


# ---- scales --------------------------------------------------------------------------------------


def as_scales(scales: Any) -> tuple[float, ...]:
    """The scales of a mixture, or their text such as 1/0.3/0.1."""
    if isinstance(scales, np.ndarray):
        scales = scales.tolist()
    if isinstance(scales, str):
        return tuple(literal(part) for part in scales.split("/"))
    if isinstance(scales, Real):
        return as_scales([scales])
    if isinstance(scales, bytes) or not isinstance(scales, Sequence):
        raise ValueError(
            f"scales must be numbers such as (1, 0.3, 0.1) or 1/0.3/0.1, not {shown(scales)}"
        )
    return tuple(scales)


# ---- algorithms ----------------------------------------------------------------------------------


def text_of(algorithm: Algorithm) -> str | None:
    """The text of an algorithm in terms of its own recipe, or else of the first recipe that makes
    it.
    """
    name = algorithm.recipe or recipe_of(algorithm)
    return None if name is None else text_by(name, algorithm)


def without_defaults(part: Any) -> str:
    """The call that makes a part or an algorithm, without options at their defaults."""
    options = []
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.repr and repr(value) != repr(field.default):  # a value may be an array
            text = without_defaults(value) if dataclasses.is_dataclass(value) else repr(value)
            options.append(f"{field.name}={text}")
    return f"{type(part).__name__}({', '.join(options)})"


def recipe_of(algorithm: Algorithm) -> str | None:
    """The name of the first recipe that makes an algorithm."""
    from lowswitch.algorithms.recipes import RECIPES

    return next((name for name in RECIPES if text_by(name, algorithm)), None)


def text_by(name: str, algorithm: Algorithm) -> str | None:
    """The text of an algorithm in this recipe, without defaults, if the recipe makes it."""
    from lowswitch.algorithms.recipes import RECIPES

    if name not in RECIPES:
        return None
    parameters = inspect.signature(RECIPES[name]).parameters
    given = {
        key: value
        for key, value in _options(algorithm).items()
        if key in parameters and value != parameters[key].default
    }
    try:
        made = inspect.unwrap(RECIPES[name])(**given)
    except ValueError:
        return None
    options = ",".join(f"{key}={_word(value)}" for key, value in given.items())
    return f"{name}:{options}".rstrip(":") if made == algorithm else None


def _options(algorithm: Algorithm) -> dict[str, Any]:
    """Every number of an algorithm as a keyword of the recipes; equal `c1` and `c2` become `c`."""
    schedule, budget = algorithm.schedule, {}
    if isinstance(schedule, Budget):
        budget = {name: getattr(schedule, name) for name in ("deployments", "switches", "last")}
        schedule = schedule.schedule
    options: dict[str, Any] = {}
    for part in (algorithm.estimator, algorithm.bonus, schedule):
        options |= {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    if {"c1", "c2"} <= options.keys() and options["c1"] == options["c2"]:
        options["c"] = options.pop("c1")
        del options["c2"]
    scales = "/".join(map(str, algorithm.scales))
    options |= {"schedule": schedule_text(schedule), "p": algorithm.p, "scales": scales}
    options["asked"] = isinstance(schedule, Asked)
    return options | budget
