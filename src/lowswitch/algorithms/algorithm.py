"""An algorithm is estimator x bonus x schedule: three parts that go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowswitch import theory
from lowswitch.algorithms.citations import LIBRARY, entry_of, keys_of
from lowswitch.algorithms.custom import FromCounts
from lowswitch.algorithms.encoding import UnknownPartError, is_own, part_from_dict, part_to_dict
from lowswitch.algorithms.estimators import (
    BONUSES,
    Advantage,
    Bonus,
    Estimator,
    LearnedPosterior,
    NoBonus,
    OwnBonus,
    OwnUpdate,
    Planning,
    Posterior,
    QLearning,
    StageQLearning,
)
from lowswitch.algorithms.meetings import asks
from lowswitch.algorithms.ridge import Ridge, require_linear
from lowswitch.algorithms.schedules import Budget, ByVisits, PlainSchedule, Whole, WholePolicy
from lowswitch.algorithms.text import build, recipe_of, text_by, text_of, without_defaults
from lowswitch.checks import LARGEST, call_it, is_number, require_count, require_fraction, shown

PARTS: dict[str, tuple[type, ...]] = {  # and whatever is derived from them
    "estimator": tuple(BONUSES),
    "bonus": tuple({kind: None for kinds in BONUSES.values() for kind in kinds}),
    "schedule": (ByVisits, Whole, Budget),
}
# compiled code stands for the class of these, whatever a subclass defines
COMPILED = tuple(
    kind
    for kind in (*PARTS["estimator"], *PARTS["bonus"], Budget, WholePolicy)
    if kind not in (FromCounts, OwnBonus, OwnUpdate)
)
_DECORATORS = {"estimator": "update", "bonus": "bonus"}


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """An estimator, a bonus and a schedule that go together.

    p is the failure probability in iota = log(S A T / p), T = K H. More than one scale deploys a
    mixture: member m has scales[m] times the bonus (for R-max that many times `known`), all learn
    from every episode, and each episode plays one of them. The scale 0 is a member that tries what
    it has never seen and adds nothing to the rest. recipe is the name of the recipe that made the
    algorithm, such as "ucb2-b"; one assembled by hand has none, until it is read from a file.
    """

    estimator: Estimator
    bonus: Bonus
    schedule: PlainSchedule | Budget
    p: float = 0.05
    scales: tuple[float, ...] = (1.0,)
    recipe: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, kinds in PARTS.items():
            _require_kind(name, getattr(self, name), kinds)
        for name, part in self._parts():
            _require_no_subclass(name, part)
        self._require_fit()
        way_out = "it is the probability that the guarantee may fail"
        object.__setattr__(self, "p", require_fraction("p", self.p, way_out))
        object.__setattr__(self, "scales", checked_scales(self.scales, self.bonus))
        if isinstance(self.estimator, FromCounts):
            require_count("members", self.estimator.members)
        if self.recipe is not None and text_by(self.recipe, self) is None:
            object.__setattr__(self, "recipe", None)  # `replace` has made it another algorithm

    def _require_fit(self) -> None:
        """The three parts go together."""
        estimator, schedule = self.estimator, self.schedule
        has_stages = schedule.by_row or asks(schedule) is not None
        fitting = next(bonuses for kind, bonuses in BONUSES.items() if isinstance(estimator, kind))
        _require_kind(f"the bonus of {type(estimator).__name__}", self.bonus, fitting)
        if isinstance(estimator, StageQLearning | Advantage) and not has_stages:
            raise ValueError(
                "stages end at visit counts, so their schedule must be one such as Stages() or"
                f" Growth(2), not {shown(schedule)}"
            )
        data = estimator.data if isinstance(estimator, Planning) else "current"
        if data != "current" and not has_stages:
            raise ValueError(
                f"data={data!r} is taken over at visit counts, so the schedule must have some, not"
                f" {shown(schedule)}"
            )
        if len(self.scales) > 1 and isinstance(estimator, QLearning | OwnUpdate):
            _require_unmixed(estimator, self.bonus)
        if isinstance(estimator, Ridge):
            require_linear(estimator, self.bonus, schedule, len(self.scales))
        if isinstance(schedule, Budget) and schedule.last != "usual" and not self.replans:
            raise ValueError(
                f'last="{schedule.last}" needs estimates without a bonus, which'
                f" {type(estimator).__name__} does not have; use a planner or psrl"
            )

    def iota(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """log(S A T / p) with T = K H: Jin et al. 2018, Theorem 1."""
        return theory.iota(H=horizon, S=states, A=actions, K=episodes, p=self.p)

    @property
    def replans(self) -> bool:
        """Whether any trigger may change all rows: planners and posterior sampling."""
        kinds = Planning | Posterior | LearnedPosterior | Ridge | FromCounts
        return isinstance(self.estimator, kinds)

    @property
    def members(self) -> int:
        """How many policies are deployed together."""
        if isinstance(self.estimator, Posterior | LearnedPosterior | Ridge | FromCounts):
            return int(self.estimator.members)
        return len(self.scales)

    def deployment_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The most deployments there can be, by the schedule and the budget alone.

        Where all steps share their counts, a state and action is visited up to H K times, and its
        first visit with a successor is a trigger too.
        """
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        schedule = self.schedule
        plain = schedule.schedule if isinstance(schedule, Budget) else schedule
        by_visits = isinstance(plain, ByVisits | WholePolicy)
        if getattr(self.estimator, "pooled", False) is not True or not by_visits:
            return schedule.refresh_bound(**size)
        pooled = plain.refresh_bound(**size | {"episodes": horizon * episodes})
        budget = schedule.given if isinstance(schedule, Budget) else ()
        return min(episodes, pooled + states * actions, *budget)

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The most local switches there can be, by the schedule and the budget alone."""
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        if not self.replans:
            return self.schedule.switch_bound(**size)
        most = horizon * states * self.deployment_bound(**size)
        budget = self.schedule.switches if isinstance(self.schedule, Budget) else None
        return most if budget is None else min(most, budget)

    def to_dict(self) -> dict[str, Any]:
        """The algorithm as JSON can hold it."""
        parts = {name: part_to_dict(getattr(self, name)) for name in PARTS}
        named = {} if self.recipe in (None, recipe_of(self)) else {"recipe": self.recipe}
        text = {"text": str(self)} if self.own_parts else {}  # all that is left without the class
        return parts | {"p": self.p, "scales": list(self.scales)} | named | text

    @property
    def own_parts(self) -> list[Any]:
        """The parts that are of classes of your own."""
        return [part for _, part in self._parts() if is_own(type(part))]

    def _parts(self) -> list[tuple[str, Any]]:
        """Every part with its name; a budget and the schedule below it are two."""
        parts = [(name, getattr(self, name)) for name in PARTS]
        if isinstance(self.schedule, Budget):
            parts.append(("schedule", self.schedule.schedule))
        return parts

    def facts(self) -> dict[str, Any]:
        """What tells it from unequal algorithms, as JSON can hold it; how it is called does not."""
        called = ("recipe", "text")
        return {name: value for name, value in self.to_dict().items() if name not in called}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Algorithm:
        """The algorithm that `to_dict` wrote."""
        if not isinstance(data, dict):
            raise ValueError(f"an algorithm is an object as to_dict writes it, not {shown(data)}")
        missing = {*PARTS, "p"} - data.keys()
        if missing:
            raise ValueError(
                f"an algorithm needs {', '.join(sorted(missing))}; write it with to_dict"
            )
        parts = {name: part_from_dict(name, data[name], kinds) for name, kinds in PARTS.items()}
        made = cls(**parts, p=data["p"], scales=data.get("scales", (1.0,)))
        return replace(made, recipe=data.get("recipe", recipe_of(made)))

    @classmethod
    def from_text(cls, text: str) -> Algorithm:
        """The algorithm in the command line's words, such as ucb2-b:c=0.05, which `str` writes."""
        from lowswitch.algorithms.recipes import RECIPES

        algorithm: Algorithm = build(text, RECIPES, "algorithm")
        return algorithm

    def __str__(self) -> str:
        """The command line's way to write it, without what is default."""
        return text_of(self) or repr(self)

    def cite(self) -> str:
        """BibTeX of the papers that its parts come from, and of the library for its own parts.

        Parts of your own have no entry.
        """
        schedule = self.schedule.schedule if isinstance(self.schedule, Budget) else self.schedule
        keys = keys_of(schedule, self.estimator, self.bonus)
        return "\n\n".join(map(entry_of, keys or [LIBRARY]))

    @property
    def label(self) -> str:
        """What tables and figures call it: its text, or its parts without what is default."""
        return text_of(self) or without_defaults(self)


def _require_kind(name: str, part: Any, kinds: tuple[type, ...]) -> None:
    if not isinstance(part, kinds):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be a {words}, not {shown(part)}{call_it(part)}")


def _require_no_subclass(name: str, part: Any) -> None:
    """Refuse a subclass of a compiled part, which would run as the part itself."""
    base = next((kind for kind in COMPILED if isinstance(part, kind)), None)
    if base is None or type(part) is base:
        return
    way_out = (
        "derive a schedule from ByVisits or Whole instead (docs/adding.md)"
        if name == "schedule"
        else f"put @ls.parts.{_DECORATORS[name]} above a function of your own, or derive an"
        " estimator in Python from FromCounts (docs/adding.md shows both)"
    )
    raise UnknownPartError(
        f"{name} {type(part).__name__} is a subclass of {base.__name__}, whose compiled code would"
        f" run in its place; {way_out}"
    )


def _require_unmixed(*given: Any) -> None:
    """Functions of the user's are not mixed."""
    for part in given:
        if isinstance(part, OwnBonus | OwnUpdate):
            raise ValueError(
                f"{type(part).__name__} is a function of your own, and these are not mixed; leave"
                " scales out"
            )


def require_algorithm(algorithm: Any) -> Algorithm:
    if not isinstance(algorithm, Algorithm):
        hint = "; Algorithm.from_text reads a text" if isinstance(algorithm, str) else ""
        raise ValueError(
            "algorithm must be an Algorithm such as lowswitch.ucb2_bernstein(c=0.05), not"
            f" {shown(algorithm)}{hint}"
        )
    return algorithm


def checked_scales(scales: Sequence[float], bonus: Bonus) -> tuple[float, ...]:
    """The scales of the members of a mixture as floats."""
    try:
        valid = len(scales) > 0 and all(
            is_number(scale) and 0 <= float(scale) <= LARGEST for scale in scales
        )
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(
            "scales must be numbers from 0 on, one for each member of the mixture, not"
            f" {shown(scales)}"
        )
    numbers = tuple(float(scale) for scale in scales)
    if len(numbers) == 1 and numbers != (1.0,):
        raise ValueError(
            f"one scale alone must be 1, not {numbers[0]!r}; scale the bonus itself, by c"
        )
    if len(numbers) > 1 and isinstance(bonus, NoBonus):
        raise ValueError("there is no bonus to scale; a mixture of posterior samples has members=L")
    return numbers
