"""An algorithm is estimator x bonus x schedule; each published one is a single expression with its citation."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lowswitch import theory
from lowswitch.naming import nearest
from lowswitch.schedules import UCB2, EveryVisit, Schedule, is_number

Clip = Literal["horizon", "remaining"]


@dataclass(frozen=True, kw_only=True)
class QLearning:
    """Model-free estimates with the learning rate (H + 1) / (H + n): Jin et al. 2018.

    `clip="horizon"` starts from and caps values at H, as published; `clip="remaining"` at H - h + 1, which keeps optimism and is tighter.
    """

    clip: Clip = "horizon"

    def __post_init__(self) -> None:
        if self.clip not in ("horizon", "remaining"):
            raise ValueError(f'clip must be "horizon" or "remaining", not {self.clip!r}')

    def caps(self, horizon: int) -> np.ndarray:  # [H]
        return np.full(horizon, float(horizon)) if self.clip == "horizon" else np.arange(horizon, 0.0, -1.0)


@dataclass(frozen=True, kw_only=True)
class Hoeffding:
    """b_n = c sqrt(H^3 iota / n). c = 1 is provable; 0.01 to 0.1 learns within a realistic number of episodes."""

    c: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", positive("c", self.c))


@dataclass(frozen=True, kw_only=True)
class Bernstein:
    """b_n from the variance of the next values; c1 scales that part, c2 the Hoeffding width that caps it."""

    c1: float = 1.0
    c2: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c1", positive("c1", self.c1))
        object.__setattr__(self, "c2", positive("c2", self.c2))


def positive(name: str, value: float) -> float:
    """A scale as a float, or an error."""
    if not (is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}; 1 is the provable scale, 0.01 to 0.1 the practical one")
    return float(value)


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A learner's recipe. p is the failure probability in iota = log(S A T / p), T = K H."""

    estimator: QLearning
    bonus: Hoeffding | Bernstein
    schedule: Schedule
    p: float = 0.05

    def __post_init__(self) -> None:
        for name, kinds in PARTS.items():
            if not isinstance(getattr(self, name), kinds):
                words = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"{name} must be a {words}, not {getattr(self, name)!r}")
        if not (is_number(self.p) and 0 < self.p < 1):
            raise ValueError(f"p must lie strictly between 0 and 1, not {self.p!r}; it is the probability that the guarantee may fail")
        object.__setattr__(self, "p", float(self.p))

    def iota(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """log(S A T / p) with T = K H: Jin et al. 2018, Theorem 1."""
        return theory.iota(H=horizon, S=states, A=actions, K=episodes, p=self.p)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as JSON can hold it."""
        parts = {name: getattr(self, name) for name in PARTS}
        return {name: {"kind": type(part).__name__, **dataclasses.asdict(part)} for name, part in parts.items()} | {"p": self.p}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Algorithm:
        """The recipe that `to_dict` wrote."""
        missing = {*PARTS, "p"} - data.keys()
        if missing:
            raise ValueError(f"an algorithm needs {', '.join(sorted(missing))}; write it with to_dict")
        return cls(**{name: _part_from_dict(name, data[name]) for name in PARTS}, p=data["p"])

    def __str__(self) -> str:
        """The command line's way to write it, without what is default."""
        for name, recipe in RECIPES.items():
            default = recipe()
            if type(default.bonus) is type(self.bonus) and type(default.schedule) is type(self.schedule):
                usual = default._options()
                options = [f"{key}={value}" for key, value in self._options().items() if value != usual.get(key)]
                return name + (":" + ",".join(options) if options else "")
        return repr(self)

    def _options(self) -> dict[str, Any]:
        """Every number as a keyword of the recipes; c stands for equal c1 and c2."""
        options = {key: value for name in PARTS for key, value in dataclasses.asdict(getattr(self, name)).items()}
        if options.get("c1", math.nan) == options.get("c2"):
            options["c"] = options.pop("c1")
            del options["c2"]
        return options | {"p": self.p}


PARTS: dict[str, tuple[type, ...]] = {"estimator": (QLearning,), "bonus": (Hoeffding, Bernstein), "schedule": (EveryVisit, UCB2)}


def _part_from_dict(name: str, data: dict[str, Any]) -> Any:
    kinds = {kind.__name__: kind for kind in PARTS[name]}
    fields = dict(data)
    kind = fields.pop("kind")
    if kind not in kinds:
        raise ValueError(f"unknown {name} {kind!r}; {nearest(kind, kinds)}")
    return kinds[kind](**fields)


# ---- the published ones ----------------------------------------------------------------------------------------------


def ucb_hoeffding(*, c: float = 1.0, p: float = 0.05, clip: Clip = "horizon") -> Algorithm:
    """Q-learning with UCB-Hoeffding: Jin, Allen-Zhu, Bubeck, Jordan 2018, Algorithm 1."""
    return Algorithm(estimator=QLearning(clip=clip), bonus=Hoeffding(c=c), schedule=EveryVisit(), p=p)


def ucb_bernstein(
    *, c: float = 1.0, c1: float | None = None, c2: float | None = None, p: float = 0.05, clip: Clip = "horizon"
) -> Algorithm:
    """Q-learning with UCB-Bernstein: Jin et al. 2018, Algorithm 2, with W_n a variance as its eq. (C.1) says. c is both c1 and c2."""
    return Algorithm(estimator=QLearning(clip=clip), bonus=_bernstein(c, c1, c2), schedule=EveryVisit(), p=p)


def ucb2_hoeffding(
    *,
    c: float = 1.0,
    p: float = 0.05,
    clip: Clip = "horizon",
    eta: float | Literal["theory"] = "theory",
    r_star: int | Literal["theory"] = "theory",
) -> Algorithm:
    """Q-learning with UCB2-Hoeffding: Bai, Xie, Jiang, Wang 2019, Algorithm 2."""
    return Algorithm(estimator=QLearning(clip=clip), bonus=Hoeffding(c=c), schedule=UCB2(eta=eta, r_star=r_star), p=p)


def ucb2_bernstein(
    *,
    c: float = 1.0,
    c1: float | None = None,
    c2: float | None = None,
    p: float = 0.05,
    clip: Clip = "horizon",
    eta: float | Literal["theory"] = "theory",
    r_star: int | Literal["theory"] = "theory",
) -> Algorithm:
    """Q-learning with UCB2-Bernstein: Bai et al. 2019, Algorithm UCB2B, with W_n a variance. c is both c1 and c2."""
    return Algorithm(estimator=QLearning(clip=clip), bonus=_bernstein(c, c1, c2), schedule=UCB2(eta=eta, r_star=r_star), p=p)


def _bernstein(c: float, c1: float | None, c2: float | None) -> Bernstein:
    positive("c", c)
    return Bernstein(c1=c if c1 is None else c1, c2=c if c2 is None else c2)


RECIPES = {"ucb-h": ucb_hoeffding, "ucb-b": ucb_bernstein, "ucb2-h": ucb2_hoeffding, "ucb2-b": ucb2_bernstein}
