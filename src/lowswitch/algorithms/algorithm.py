"""An algorithm combines an estimator, a bonus and a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from lowswitch import theory
from lowswitch.algorithms.citations import LIBRARY, entry_of, keys_of
from lowswitch.algorithms.custom import FromCounts
from lowswitch.algorithms.encoding import part_from_dict, part_to_dict
from lowswitch.algorithms.estimators import (
    BONUSES,
    Advantage,
    Bonus,
    EarlySettled,
    Estimator,
    FederatedAdvantage,
    FederatedQ,
    FederatedSettled,
    LearnedPosterior,
    NoBonus,
    OwnBonus,
    OwnUpdate,
    Planning,
    Posterior,
    QLearning,
    RandomizedStages,
    StageQLearning,
)
from lowswitch.algorithms.fingerprints import is_own, require_repeatable
from lowswitch.algorithms.meetings import asks
from lowswitch.algorithms.ridge import Ridge, require_linear
from lowswitch.algorithms.schedules import (
    Budget,
    ByVisits,
    PlainSchedule,
    StageRounds,
    VisitRounds,
    Whole,
    WholePolicy,
    plain_schedule,
)
from lowswitch.algorithms.steadiness import FROM_ARGUMENTS
from lowswitch.algorithms.text import build, recipe_of, text_by, text_of, without_defaults
from lowswitch.checks import LARGEST, call_it, is_number, require_count, require_fraction, shown
from lowswitch.io.archive import UnknownPartError

PARTS: dict[str, tuple[type, ...]] = {  # subclasses included
    "estimator": tuple(BONUSES),
    "bonus": tuple({kind: None for kinds in BONUSES.values() for kind in kinds}),
    "schedule": (ByVisits, Whole, Budget),
}
# the compiled code uses the class of these parts and ignores what a subclass overrides
COMPILED = tuple(
    kind
    for kind in (
        *PARTS["estimator"],
        *PARTS["bonus"],
        Budget,
        VisitRounds,
        StageRounds,
        WholePolicy,
    )
    if kind not in (FromCounts, OwnBonus, OwnUpdate)
)
_NOISE = {"estimator": "take noise from counts.generator"}
# the schedules of estimators that learn at the end of a round
ROUNDS: dict[type, type] = {
    FederatedQ: VisitRounds,
    FederatedAdvantage: StageRounds,
    FederatedSettled: VisitRounds,
}
BY_STAGES = (StageQLearning, Advantage, RandomizedStages)
UNMIXED = (EarlySettled, RandomizedStages, *ROUNDS)  # their mixtures are not supported
_DECORATORS = {"estimator": "update", "bonus": "bonus"}


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """An estimator, a bonus and a schedule that fit together.

    More than one entry in `scales` deploys a mixture. All members learn from every episode, and
    each episode plays one of them. A member with scale 0 tries actions it has never seen and
    otherwise adds no bonus.

    Parameters
    ----------
    estimator
        How data become estimates, such as `QLearning()`.
    bonus
        What is added to the estimates so that little-known actions are tried.
    schedule
        When the deployed policy may follow the estimates.
    p
        The failure probability in iota = log(S A T / p), where T = K H.
    scales
        Member m of a mixture multiplies the bonus by `scales[m]` (for R-max it multiplies `known`).
    recipe
        The name of the recipe that made the algorithm, such as "ucb2-b". An algorithm assembled by
        hand has no recipe until it is read from a file.

    Examples
    --------
    >>> import lowswitch as ls
    >>> ls.Algorithm.from_text("ucb2-b:c=0.05") == ls.algorithms.ucb2_bernstein(c=0.05)
    True
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
            if is_own(type(part)):
                require_repeatable(type(part), _NOISE.get(name, FROM_ARGUMENTS))
        self._require_fit()
        way_out = "it is the probability that the guarantee may fail"
        object.__setattr__(self, "p", require_fraction("p", self.p, way_out))
        object.__setattr__(self, "scales", checked_scales(self.scales, self.bonus))
        if isinstance(self.estimator, FromCounts):
            require_count("members", self.estimator.members)
        if self.recipe is not None and text_by(self.recipe, self) is None:
            object.__setattr__(self, "recipe", None)  # `replace` has made it another algorithm

    def _require_fit(self) -> None:
        """Check that the three parts fit together."""
        estimator, schedule = self.estimator, self.schedule
        has_stages = schedule.by_row or asks(schedule) is not None
        fitting = next(bonuses for kind, bonuses in BONUSES.items() if isinstance(estimator, kind))
        if isinstance(self.bonus, OwnBonus) and OwnBonus not in fitting:
            raise ValueError(
                f"{type(self.bonus).__name__} is a bonus for Q-learners, and"
                f" {type(estimator).__name__} has compiled ones only; derive a planner with your"
                " bonus from FromCounts (docs/adding.md#an-estimator-in-a-page)"
            )
        _require_kind(f"the bonus of {type(estimator).__name__}", self.bonus, fitting)
        if isinstance(estimator, OwnUpdate):
            _require_read_bonus(estimator, self.bonus)
        if isinstance(estimator, BY_STAGES) and not has_stages:
            raise ValueError(
                "stages end at visit counts, so their schedule must use visit counts, "
                f"such as Stages() or Growth(2), not {shown(schedule)}"
            )
        data = estimator.data if isinstance(estimator, Planning) else "current"
        if data != "current" and not has_stages:
            raise ValueError(
                f"data={data!r} is updated at visit counts, so the schedule must use "
                f"visit counts, not {shown(schedule)}"
            )
        _require_rounds(estimator, schedule)
        if len(self.scales) > 1 and isinstance(estimator, UNMIXED):
            name = type(estimator).__name__
            raise ValueError(f"mixtures of {name} are not supported; leave scales out")
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
        """Whether any trigger can change all rows, as with planners and posterior sampling."""
        kinds = Planning | Posterior | LearnedPosterior | Ridge | FromCounts
        return isinstance(self.estimator, kinds)

    @property
    def members(self) -> int:
        """The number of policies that are deployed together."""
        if isinstance(self.estimator, Posterior | LearnedPosterior | Ridge | FromCounts):
            return int(self.estimator.members)
        return len(self.scales)

    def deployment_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """An upper bound on the number of deployments, from the schedule and the budget alone.

        If all steps share their counts, a state-action pair is visited up to H K times, and its
        first visit that has a successor is a trigger too.
        """
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        schedule = self.schedule
        plain = plain_schedule(schedule)
        by_visits = isinstance(plain, ByVisits | WholePolicy)
        if getattr(self.estimator, "pooled", False) is not True or not by_visits:
            return schedule.refresh_bound(**size)
        pooled = plain.refresh_bound(**size | {"episodes": horizon * episodes})
        budget = schedule.given if isinstance(schedule, Budget) else ()
        return min(episodes, pooled + states * actions, *budget)

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """An upper bound on local switches, from the schedule and the budget alone."""
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        if not self.replans:
            return self.schedule.switch_bound(**size)
        most = horizon * states * self.deployment_bound(**size)
        budget = self.schedule.switches if isinstance(self.schedule, Budget) else None
        return most if budget is None else min(most, budget)

    def to_dict(self) -> dict[str, Any]:
        """The algorithm as a dictionary that JSON can store."""
        named = {} if self.recipe in (None, recipe_of(self)) else {"recipe": self.recipe}
        text = {"text": self.label} if self.own_parts else {}  # all that is left without the class
        return self.facts() | named | text

    @property
    def own_parts(self) -> list[Any]:
        """The parts whose classes you defined yourself."""
        return [part for _, part in self._parts() if is_own(type(part))]

    def _parts(self) -> list[tuple[str, Any]]:
        """Every part with its name; a budget and the schedule inside it are two parts."""
        parts = [(name, getattr(self, name)) for name in PARTS]
        if isinstance(self.schedule, Budget):
            parts.append(("schedule", self.schedule.schedule))
        return parts

    def facts(self) -> dict[str, Any]:
        """The facts that two equal algorithms share, as JSON can store them. The recipe's name is
        not one.
        """
        parts = {name: part_to_dict(getattr(self, name)) for name in PARTS}
        return parts | {"p": self.p, "scales": list(self.scales)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Algorithm:
        """Read an algorithm that `to_dict` wrote."""
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
        """Read an algorithm from its text, such as `ucb2-b:c=0.05`, the form that `str` writes."""
        from lowswitch.algorithms.recipes import RECIPES

        algorithm: Algorithm = build(text, RECIPES, "algorithm")
        return algorithm

    def __str__(self) -> str:
        """The text that the command line accepts, without options at their defaults;
        the label of an algorithm without a text.
        """
        return self.label

    def cite(self) -> str:
        """BibTeX entries of the papers behind the parts, and of this library for parts it
        introduced.

        A part of your own has the entry of its attribute `citation`, if you give its class one.
        """
        schedule = plain_schedule(self.schedule)
        keys = keys_of(schedule, self.estimator, self.bonus)
        own = [str(getattr(type(part), "citation", "")).strip() for part in self.own_parts]
        return "\n\n".join([*map(entry_of, keys or [LIBRARY]), *filter(None, own)])

    @property
    def label(self) -> str:
        """The name in tables and figures: its text, or its parts without defaults."""
        if text := text_of(self):
            return text
        parts = [part for part in (self.estimator, self.bonus) if not isinstance(part, NoBonus)]
        words = [without_defaults(part).removesuffix("()") for part in (*parts, self.schedule)]
        more = [
            f"{name}={getattr(self, name)!r}"
            for name, usual in (("p", 0.05), ("scales", (1.0,)))
            if getattr(self, name) != usual
        ]
        return ", ".join([" + ".join(words), *more])


def _require_kind(name: str, part: Any, kinds: tuple[type, ...]) -> None:
    if not isinstance(part, kinds):
        words = " or ".join(kind.__name__ for kind in kinds)
        is_bare = isinstance(part, FunctionType) and name in _DECORATORS
        first = f"; put @ls.parts.{_DECORATORS[name]} above it" if is_bare else ""
        raise ValueError(f"{name} must be a {words}, not {shown(part)}{first}{call_it(part)}")


def _require_no_subclass(name: str, part: Any) -> None:
    """Refuse a subclass of a compiled part, because the part itself would run instead."""
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
        f"{name} {type(part).__name__} is a subclass of {base.__name__}, whose compiled "
        f"code would run instead of yours; {way_out}"
    )


def _require_read_bonus(update: OwnUpdate, bonus: Bonus) -> None:
    """Refuse a bonus that would be named in results although the update ignores it."""
    if not (update.reads_bonus or isinstance(bonus, NoBonus)):
        name = type(update).__name__
        raise UnknownPartError(
            f"{name} does not ask for `bonus`, so {shown(bonus)} would change nothing; pass"
            f" bonus=ls.parts.NoBonus(), or give {name} an argument called bonus"
        )


def _require_rounds(estimator: Estimator, schedule: PlainSchedule | Budget) -> None:
    """Check that learners of rounds, and only they, have their schedule."""
    needed, plain = ROUNDS.get(type(estimator)), plain_schedule(schedule)
    if needed is None and isinstance(plain, tuple(ROUNDS.values())):
        names = " or ".join(kind.__name__ for kind in ROUNDS)
        raise ValueError(f"{shown(plain)} is for {names}, not for {type(estimator).__name__}")
    if needed is not None and not isinstance(plain, needed):
        raise ValueError(
            f"{type(estimator).__name__} learns at the end of a round, so its schedule must be"
            f" {needed.__name__}(machines), not {shown(schedule)}"
        )


def _require_unmixed(*given: Any) -> None:
    """Refuse a mixture that contains functions defined by the user."""
    for part in given:
        if isinstance(part, OwnBonus | OwnUpdate):
            raise ValueError(
                f"{type(part).__name__} is a function of your own, and mixtures of those "
                "are not supported; leave scales out"
            )


def require_algorithm(algorithm: Any) -> Algorithm:
    if not isinstance(algorithm, Algorithm):
        is_text = isinstance(algorithm, str)
        hint = "; Algorithm.from_text reads a text" if is_text else call_it(algorithm)
        raise ValueError(
            "algorithm must be an Algorithm such as lowswitch.ucb2_bernstein(c=0.05), not"
            f" {shown(algorithm)}{hint}"
        )
    return algorithm


def checked_scales(scales: Sequence[float], bonus: Bonus) -> tuple[float, ...]:
    """The scales of a mixture's members as floats."""
    try:
        valid = len(scales) > 0 and all(
            is_number(scale) and 0 <= float(scale) <= LARGEST for scale in scales
        )
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(
            "scales must be numbers of at least 0, one for each member of the mixture, "
            f"not {shown(scales)}"
        )
    numbers = tuple(float(scale) for scale in scales)
    if len(numbers) == 1 and numbers != (1.0,):
        raise ValueError(f"a single scale must be 1, not {numbers[0]!r}; to scale the bonus, set c")
    if len(numbers) > 1 and isinstance(bonus, NoBonus):
        raise ValueError(
            "there is no bonus to scale; for a mixture of posterior samples give members=L"
        )
    return numbers
