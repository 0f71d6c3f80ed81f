"""An algorithm is estimator x bonus x schedule: what is learned, how it is made optimistic, and
when it may be deployed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from lowswitch import theory
from lowswitch.algorithms.schedules import (
    Budget,
    ByVisits,
    PlainSchedule,
    Whole,
    is_number,
    whole_number,
)
from lowswitch.algorithms.text import nearest

Clip = Literal["horizon", "remaining"]
Data = Literal["current", "all", "newest"]


def positive(name: str, value: float) -> float:
    """A scale as a float, or an error."""
    if not (is_number(value) and value > 0):
        raise ValueError(
            f"{name} must be a positive number, not {value!r}; 1 is the provable scale, 0.01 to 0.1"
            " are practical for Q-learners, and 0.001 for planners"
        )
    return float(value)


@dataclass(frozen=True, kw_only=True)
class _Clipped:
    """Values start from and are capped at H where `clip="horizon"`, at H - h + 1 where it is
    "remaining".
    """

    clip: Clip = "horizon"

    def __post_init__(self) -> None:
        if self.clip not in ("horizon", "remaining"):
            raise ValueError(f'clip must be "horizon" or "remaining", not {self.clip!r}')

    def caps(self, horizon: int) -> np.ndarray:  # [H]
        return (
            np.full(horizon, float(horizon))
            if self.clip == "horizon"
            else np.arange(horizon, 0.0, -1.0)
        )


# ---- estimators ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class QLearning(_Clipped):
    """Model-free estimates with the learning rate (H + 1) / (H + n): Jin et al. 2018.

    `clip="horizon"` starts from and caps values at H, as published; `clip="remaining"` at H - h +
    1, which keeps optimism and is tighter.
    """


@dataclass(frozen=True, kw_only=True)
class StageQLearning(_Clipped):
    """Model-free estimates that are the mean of the newest stage of an (h, x, a), whose stages end
    at the schedule's triggers.
    """


@dataclass(frozen=True, kw_only=True)
class Advantage(_Clipped):
    """Stages and a reference value that is fixed at the visit `reference` of a state: Zhang, Zhou,
    Ji 2020, Algorithm 1.

    As published the reference is fixed after c_4 S A H^6 iota visits, more than any realistic run
    has; the default is that of public code.
    """

    clip: Clip = "remaining"
    reference: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reference", whole_number("reference", self.reference))


@dataclass(frozen=True, kw_only=True)
class Planning(_Clipped):
    """Optimistic backward induction on counts.

    data: "current" plans from all that was seen; "all" and "newest" take the data of an (h, x, a)
    over at its own triggers only, the second and forget what was taken over before. monotone:
    estimates never grow. pooled: one set of counts for all steps, for problems known to be
    stationary.
    """

    clip: Clip = "horizon"
    data: Data = "current"
    monotone: bool = False
    pooled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data not in ("current", "all", "newest"):
            raise ValueError(f'data must be "current", "all" or "newest", not {self.data!r}')
        require_truth("monotone", self.monotone)
        require_truth("pooled", self.pooled)


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Policies optimal for models drawn from the posterior; `members` of them are deployed
    together, and each episode plays one.

    Transitions have the prior Dirichlet(prior, ..., prior) over all S states, mean rewards Beta(1,
    1); rewards that are not 0 or 1 enter by a Bayesian bootstrap of their mean and variance.
    `rewards="mean"` takes the mean seen for the true one from the first visit on, as UCBVI does:
    the exact posterior where the reward of an (h, x, a) is always the same.
    """

    prior: float = 1.0
    rewards: Literal["bootstrap", "mean"] = "bootstrap"
    members: int = 1
    pooled: bool = False

    def __post_init__(self) -> None:
        if not (is_number(self.prior) and self.prior > 0):
            raise ValueError(
                f"prior must be a positive number, not {self.prior!r}; 1 is the uniform law over"
                " all laws"
            )
        object.__setattr__(self, "prior", float(self.prior))
        if self.rewards not in ("bootstrap", "mean"):
            raise ValueError(f'rewards must be "bootstrap" or "mean", not {self.rewards!r}')
        object.__setattr__(self, "members", whole_number("members", self.members))
        require_truth("pooled", self.pooled)


class Counts(NamedTuple):
    """What was seen so far, as a planner of one's own reads it.

    visits, rewards, squares [H, S, A]: how often each (h, x, a) was visited, and the sums of its
    rewards and of their squares. successors [H, S, A, S]: how often each state came next; of the
    last step nobody knows. allowed [H, S, A]. deployed [members, H, S]. episodes: learned so far.
    last: no deployment can follow this one. generator: noise that depends on the seed and the
    number of the plan alone.
    """

    visits: np.ndarray
    rewards: np.ndarray
    squares: np.ndarray
    successors: np.ndarray
    allowed: np.ndarray
    deployed: np.ndarray
    episodes: int
    last: bool
    generator: np.random.Generator

    def greedy(self, q: np.ndarray, member: int = 0) -> np.ndarray:  # [H, S]
        """The best allowed actions for estimates [H, S, A]: the deployed one if it is among them,
        else the lowest index.
        """
        if np.shape(q) != self.allowed.shape or np.isnan(q).any():
            what = (
                "some are NaN" if np.shape(q) == self.allowed.shape else f"they are {np.shape(q)}"
            )
            raise ValueError(f"estimates must be numbers of shape {self.allowed.shape}, but {what}")
        masked = np.where(self.allowed, q, -np.inf)
        incumbent = np.take_along_axis(masked, self.deployed[member][..., None], axis=-1)[..., 0]
        best: np.ndarray = np.where(
            incumbent >= masked.max(axis=-1), self.deployed[member], masked.argmax(axis=-1)
        )
        return best


@dataclass(frozen=True)
class FromCounts:
    """Derive an estimator of your own from it that gives `plan`, and `members` where it deploys
    mixtures; the library does the rest.
    """

    members = 1

    def plan(self, counts: Counts) -> np.ndarray:  # [H, S], or [members, H, S]
        """The policies to deploy now."""
        raise NotImplementedError(f"{type(self).__name__} must define plan(self, counts)")


def require_truth(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")


# ---- bonuses -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Scaled:
    c: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", positive("c", self.c))


@dataclass(frozen=True, kw_only=True)
class Hoeffding(_Scaled):
    """b_n = c sqrt(H^3 iota / n); by stages 2 c sqrt(H^2 iota / n). c = 1 is provable; 0.01 to 0.1
    learns in a realistic time.
    """


@dataclass(frozen=True, kw_only=True)
class Bernstein:
    """b_n from the variance of the next values; c1 scales that part, c2 the Hoeffding width that
    caps it.
    """

    c1: float = 1.0
    c2: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c1", positive("c1", self.c1))
        object.__setattr__(self, "c2", positive("c2", self.c2))


@dataclass(frozen=True, kw_only=True)
class AdvantageBonus(_Scaled):
    """Both bonuses of UCB-Advantage, scaled by c, with c_1 = c_2 = 2 and c_3 = 5: Zhang, Zhou, Ji
    2020, eq. (5) to (8).
    """


@dataclass(frozen=True, kw_only=True)
class ChernoffHoeffding(_Scaled):
    """c 7 H L / sqrt(n), L = ln(5 S A T / p): Azar, Osband, Munos 2017, Algorithm 3 (UCBVI-CH)."""


@dataclass(frozen=True, kw_only=True)
class BernsteinFreedman(_Scaled):
    """UCBVI's bonus from the variance of the next values and how well these are known, scaled by c:
    Azar et al. 2017, Algorithm 4.
    """


@dataclass(frozen=True, kw_only=True)
class MonotonicBernstein(_Scaled):
    """MVP's bonus from the variances of next values and rewards, scaled by c: Zhang, Chen, Lee, Du
    2024, Algorithm 1.
    """


@dataclass(frozen=True, kw_only=True)
class L1Ball(_Scaled):
    """The most favourable law and mean reward within distances scaled by c: Jaksch, Ortner, Auer
    2010, eq. (3) and (4).
    """


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """No bonus, but an (h, x, a) with fewer than `known` visits has the largest value there is:
    Brafman, Tennenholtz 2002 (R-max).
    """

    known: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", whole_number("known", self.known))


@dataclass(frozen=True, kw_only=True)
class NoBonus:
    """Nothing is added: the spread of the posterior explores, or a planner of one's own."""


Estimator = QLearning | StageQLearning | Advantage | Planning | Posterior | FromCounts
Bonus = (
    Hoeffding
    | Bernstein
    | AdvantageBonus
    | ChernoffHoeffding
    | BernsteinFreedman
    | MonotonicBernstein
    | L1Ball
    | Unknown
    | NoBonus
)
BONUSES: dict[type, tuple[type, ...]] = {  # which go with which estimator
    QLearning: (Hoeffding, Bernstein),
    StageQLearning: (Hoeffding,),
    Advantage: (AdvantageBonus,),
    Planning: (ChernoffHoeffding, BernsteinFreedman, MonotonicBernstein, L1Ball, Unknown),
    Posterior: (NoBonus,),
    FromCounts: (NoBonus,),
}


# ---- all three -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A learner's recipe. p is the failure probability in iota = log(S A T / p), T = K H.

    More than one scale deploys a mixture: member m has scales[m] times the bonus, all learn from
    every episode, and each episode plays one of them. 0 is a member that tries what it has never
    seen and adds nothing to the rest. R-max multiplies `known`.
    """

    estimator: Estimator
    bonus: Bonus
    schedule: PlainSchedule | Budget
    p: float = 0.05
    scales: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        for name, kinds in PARTS.items():
            if not isinstance(getattr(self, name), kinds):
                words = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"{name} must be a {words}, not {getattr(self, name)!r}")
        fitting = next(
            bonuses for kind, bonuses in BONUSES.items() if isinstance(self.estimator, kind)
        )
        if not isinstance(self.bonus, fitting):
            words = " or ".join(kind.__name__ for kind in fitting)
            raise ValueError(
                f"the bonus of {type(self.estimator).__name__} must be a {words}, not"
                f" {self.bonus!r}"
            )
        if isinstance(self.estimator, StageQLearning | Advantage) and not self.schedule.by_row:
            raise ValueError(
                "stages end at visit counts, so their schedule must be one such as Stages() or"
                f" Growth(2), not {self.schedule!r}"
            )
        if (
            isinstance(self.estimator, Planning)
            and self.estimator.data != "current"
            and not self.schedule.by_row
        ):
            raise ValueError(
                f"data={self.estimator.data!r} is taken over at visit counts, so the schedule must"
                f" have some, not {self.schedule!r}"
            )
        if not (is_number(self.p) and 0 < self.p < 1):
            raise ValueError(
                f"p must lie strictly between 0 and 1, not {self.p!r}; it is the probability that"
                " the guarantee may fail"
            )
        object.__setattr__(self, "p", float(self.p))
        object.__setattr__(self, "scales", checked_scales(self.scales, self.bonus))
        if isinstance(self.estimator, FromCounts):
            whole_number("members", self.estimator.members)
        if (
            isinstance(self.schedule, Budget)
            and self.schedule.last == "greedy"
            and not self.replans
        ):
            raise ValueError(
                'last="greedy" needs estimates without a bonus, which'
                f" {type(self.estimator).__name__} does not have; use a planner or psrl"
            )

    def iota(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """log(S A T / p) with T = K H: Jin et al. 2018, Theorem 1."""
        return theory.iota(H=horizon, S=states, A=actions, K=episodes, p=self.p)

    @property
    def replans(self) -> bool:
        """Whether any trigger may change all rows: planners and posterior sampling."""
        return isinstance(self.estimator, Planning | Posterior | FromCounts)

    @property
    def members(self) -> int:
        """How many policies are deployed together."""
        return (
            int(self.estimator.members)
            if isinstance(self.estimator, Posterior | FromCounts)
            else len(self.scales)
        )

    def deployment_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The most deployments there can be, by the schedule and the budget alone."""
        return self.schedule.refresh_bound(
            horizon=horizon, states=states, actions=actions, episodes=episodes
        )

    def switch_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The most local switches there can be, by the schedule and the budget alone."""
        size = {"horizon": horizon, "states": states, "actions": actions, "episodes": episodes}
        if not self.replans:
            return self.schedule.switch_bound(**size)
        most = horizon * states * self.deployment_bound(**size)
        budget = self.schedule.switches if isinstance(self.schedule, Budget) else None
        return most if budget is None else min(most, budget)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as JSON can hold it."""
        return {name: _part_to_dict(getattr(self, name)) for name in PARTS} | {
            "p": self.p,
            "scales": list(self.scales),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Algorithm:
        """The recipe that `to_dict` wrote."""
        missing = {*PARTS, "p"} - data.keys()
        if missing:
            raise ValueError(
                f"an algorithm needs {', '.join(sorted(missing))}; write it with to_dict"
            )
        parts = {name: _part_from_dict(name, data[name]) for name in PARTS}
        return cls(**parts, p=data["p"], scales=data.get("scales", (1.0,)))

    @classmethod
    def from_text(cls, text: str) -> Algorithm:
        """The recipe in the command line's words, such as ucb2-b:c=0.05; what `str` and the
        frontier's tables print.
        """
        from lowswitch.algorithms.recipes import RECIPES
        from lowswitch.algorithms.text import build

        algorithm: Algorithm = build(text, RECIPES, "algorithm")
        return algorithm

    def __str__(self) -> str:
        """The command line's way to write it, without what is default."""
        from lowswitch.algorithms.recipes import text_of

        return text_of(self) or repr(self)


def checked_scales(scales: Sequence[float], bonus: Bonus) -> tuple[float, ...]:
    """The scales of the members of a mixture as floats, or an error."""
    try:
        valid = len(scales) > 0 and all(is_number(scale) and scale >= 0 for scale in scales)
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(
            f"scales must be numbers from 0 on, one for each member of the mixture, not {scales!r}"
        )
    numbers = tuple(float(scale) for scale in scales)
    if len(numbers) == 1 and numbers != (1.0,):
        raise ValueError(
            f"one scale alone must be 1, not {numbers[0]!r}; scale the bonus itself, by c"
        )
    if len(numbers) > 1 and isinstance(bonus, NoBonus):
        raise ValueError("there is no bonus to scale; a mixture of posterior samples has members=L")
    return numbers


PARTS: dict[str, tuple[type, ...]] = {  # and whatever is derived from them
    "estimator": tuple(BONUSES),
    "bonus": tuple({kind: None for kinds in BONUSES.values() for kind in kinds}),
    "schedule": (ByVisits, Whole, Budget),
}


def kind_name(kind: type) -> str:
    """The name of a part in JSON: with its module if it is not the library's own."""
    return (
        kind.__name__
        if kind.__module__.startswith("lowswitch.")
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def all_kinds(kinds: tuple[type, ...]) -> tuple[type, ...]:
    """The kinds and everything derived from them so far, so that one of your own is known once its
    module is imported.
    """
    return tuple(
        other for kind in kinds for other in (kind, *all_kinds(tuple(kind.__subclasses__())))
    )


def _part_to_dict(part: Any) -> dict[str, Any]:
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    for name, value in fields.items():
        if not _fits_json(value):
            raise ValueError(
                f"{name}={value!r} of {type(part).__name__} cannot be saved; use numbers, texts, or"
                " tuples of them"
            )
    return {"kind": kind_name(type(part))} | {
        name: _part_to_dict(value) if dataclasses.is_dataclass(value) else value
        for name, value in fields.items()
    }


def _fits_json(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_fits_json(item) for item in value)
    return (
        value is None
        or isinstance(value, str | int | float | bool)
        or dataclasses.is_dataclass(value)
    )


def _from_json(value: Any) -> Any:
    """JSON has lists for tuples."""
    return tuple(_from_json(item) for item in value) if isinstance(value, list) else value


def _part_from_dict(name: str, data: dict[str, Any]) -> Any:
    kinds = {kind_name(kind): kind for kind in all_kinds(PARTS[name])}
    fields = {
        key: _part_from_dict(name, value) if isinstance(value, dict) else _from_json(value)
        for key, value in data.items()
    }
    kind = fields.pop("kind")
    if kind not in kinds:
        module = kind.rpartition(".")[0]
        hint = f"import {module} first" if module else nearest(kind, kinds)
        if module == "__main__":
            hint = (
                "it was defined in a script; define it in a module that both who saves and who"
                " loads import"
            )
        raise ValueError(f"unknown {name} {kind!r}; {hint}")
    return kinds[kind](**fields)
