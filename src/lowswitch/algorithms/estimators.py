"""Estimators and bonuses: what an algorithm learns, and how its estimates are made optimistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from lowswitch.algorithms.custom import FromCounts
from lowswitch.algorithms.ridge import Ellipsoid, Ridge, Sampled
from lowswitch.algorithms.trial import Trial, check_trial
from lowswitch.checks import (
    is_number,
    require_count,
    require_positive,
    require_scale,
    require_truth,
    require_word,
    shown,
)

Clip = Literal["horizon", "remaining"]
Data = Literal["current", "all", "newest"]
Rewards = Literal["bootstrap", "mean"]
SeenRewards = Literal["seen", "bootstrap", "mean"]
Learned = Literal["learned"]
Tested = Literal["tested"]
Settled = Literal["settled"]
States = Literal["states"]
Memory = int | Literal["states"]  # how many numbers a function may store for each (h, x, a)
First = Literal["lowest", "auto", "explore"]
RULE = 2  # the newest version of the decision rules of `few`

# ---- estimators ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Clipped:
    """Values start at a cap and never exceed it.

    `clip="horizon"` is H at every step, as published. `clip="remaining"` is H - h + 1, which is
    tighter and still optimistic.
    """

    clip: Clip = "horizon"

    def __post_init__(self) -> None:
        require_word("clip", self.clip, get_args(Clip))

    def caps(self, horizon: int) -> np.ndarray:  # [H]
        if self.clip == "horizon":
            return np.full(horizon, float(horizon))
        return np.arange(horizon, 0.0, -1.0)


@dataclass(frozen=True, kw_only=True)
class QLearning(_Clipped):
    """Model-free estimates with the learning rate (H + 1) / (H + n): Jin et al. 2018.

    Values start at a cap and never exceed it.

    Parameters
    ----------
    clip
        The cap: "horizon" is H at every step, as published; "remaining" is H - h + 1, which is
        tighter and still optimistic.
    """


@dataclass(frozen=True, kw_only=True)
class OwnUpdate(_Clipped):
    """Base class for an update of your own; `lowswitch.algorithms.parts.update` makes one.

    It learns as `QLearning` does, with your function in place of the formula.

    Parameters
    ----------
    clip
        The cap on values, as in `QLearning`.
    """

    function: ClassVar[Callable[..., float] | None] = None
    memory: ClassVar[Memory] = 0
    reads_bonus: ClassVar[bool] = True  # whether the function asks for the bonus
    initial: ClassVar[Callable[..., float] | None] = None
    texts: ClassVar[tuple[str, ...]] = ()  # what it says and reads
    source: ClassVar[str] = ""  # a hash of them

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class StageQLearning(_Clipped):
    """Model-free estimates; each is the average over the newest stage of an (h, x, a).

    A stage ends at a trigger of the schedule.

    Parameters
    ----------
    clip
        The cap on values, as in `QLearning`.
    """


@dataclass(frozen=True, kw_only=True)
class _Settling(_Clipped):
    settle: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        way_out = "1 is the published distance of upper and lower values"
        object.__setattr__(self, "settle", require_positive("settle", self.settle, way_out))


@dataclass(frozen=True, kw_only=True)
class _Referring(_Settling):
    clip: Clip = "remaining"
    reference: int | Settled = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference != "settled":
            object.__setattr__(self, "reference", require_count("reference", self.reference))

    @property
    def fixed_at(self) -> int:
        """The visit that fixes the reference value of a state; 0 if it settles."""
        return 0 if self.reference == "settled" else self.reference


@dataclass(frozen=True, kw_only=True)
class Advantage(_Referring):
    """Stages, and a reference value for each state: Zhang, Zhou, Ji 2020, Algorithm 1.

    The reference value of a state is fixed at visit number `reference`. The paper fixes it after
    c_4 S A H^6 iota visits, more than any realistic run has; the default is the value in public
    code. With "settled" it follows the value of the state until this is at most `settle` above a
    lower value, the rule of Li et al. 2021.
    """


@dataclass(frozen=True, kw_only=True)
class EarlySettled(_Settling):
    """Upper and lower estimates, and a reference value for each state: Li et al. 2021.

    The reference value of a state follows its upper value until this is at most `settle` above the
    lower value. The paper has settle = 1.
    """


@dataclass(frozen=True, kw_only=True)
class RandomizedStages(_Clipped):
    """Estimates by stages, each the largest of several samples with random learning rates.

    Tiapkin et al. 2023 (Staged-RandQL). A stage ends at a trigger of the schedule. An estimate
    never grows, as in the authors' code.

    Parameters
    ----------
    clip
        The cap on values, as in `QLearning`.
    samples
        J, the number of samples of each estimate.
    kappa
        The inflation of the posterior: a larger one makes learning rates vary more.
    prior
        n_0, how many prior transitions to the best value a stage begins with. "states" is 1 / S.
    """

    clip: Clip = "remaining"
    samples: int = 10
    kappa: float = 1.0
    prior: float | States = "states"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "samples", require_count("samples", self.samples))
        kappa = require_positive("kappa", self.kappa, "1 is the posterior without inflation")
        object.__setattr__(self, "kappa", kappa)
        if self.prior != "states":
            prior = require_positive("prior", self.prior, 'or give "states" for 1 / S')
            object.__setattr__(self, "prior", prior)


@dataclass(frozen=True, kw_only=True)
class FederatedQ(_Clipped):
    """Model-free estimates that learn at the end of a round what all machines saw in it: FedQ.

    Zheng, Gao, Xue, Yang 2024. The schedule `VisitRounds` ends the rounds.
    """


@dataclass(frozen=True, kw_only=True)
class FederatedAdvantage(_Referring):
    """`Advantage` in rounds of several machines: FedQ-Advantage, Zheng, Zhang, Xue 2025.

    Stages end, and references are fixed, at the end of a round. The schedule `StageRounds` ends the
    rounds.
    """


@dataclass(frozen=True, kw_only=True)
class FederatedSettled(_Settling):
    """`EarlySettled` in rounds of one or several machines, after Zhang, Zheng, Xue 2025.

    The schedule `VisitRounds` ends the rounds.
    """


@dataclass(frozen=True, kw_only=True)
class Planning(_Clipped):
    """Optimistic backward induction on counts.

    Parameters
    ----------
    clip
        The cap on values, as in `QLearning`.
    data
        Which visits a plan uses. "current" uses all of them. With "all" and "newest", a plan sees
        new visits to an (h, x, a) only from its next trigger on. "all" then uses every visit up to
        that trigger, and "newest" only the visits since the trigger before it.
    monotone
        Whether estimates never grow.
    pooled
        Whether all steps share one set of counts, for problems known to be stationary. The last
        step has no successor. So if all visits to a state and action before a trigger were at the
        last step, their first visit with a successor is a trigger too.
    """

    clip: Clip = "horizon"
    data: Data = "current"
    monotone: bool = False
    pooled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_word("data", self.data, get_args(Data))
        require_truth("monotone", self.monotone)
        require_truth("pooled", self.pooled)


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Policies that are optimal for models drawn from the posterior.

    Transitions have the prior Dirichlet(prior, ..., prior) over all S states, and mean rewards have
    the prior Beta(1, 1). Rewards other than 0 and 1 enter through a Bayesian bootstrap of their
    mean and variance.

    Parameters
    ----------
    prior
        The weight of each state in the prior of the transitions.
    rewards
        "bootstrap", or "mean" to take the observed mean as the true one from the first visit on, as
        UCBVI does. That is the exact posterior if the reward of an (h, x, a) is always the same.
    members
        How many policies are deployed together; each episode plays one.
    pooled
        As in `Planning`.
    """

    prior: float = 1.0
    rewards: Rewards = "bootstrap"
    members: int = 1
    pooled: bool = False

    def __post_init__(self) -> None:
        prior = require_positive("prior", self.prior, "1 is the uniform law over all laws")
        object.__setattr__(self, "prior", prior)
        require_word("rewards", self.rewards, get_args(Rewards))
        object.__setattr__(self, "members", require_count("members", self.members))
        require_truth("pooled", self.pooled)


@dataclass(frozen=True, kw_only=True)
class LearnedPosterior:
    """Policies that are optimal for models drawn from a posterior whose prior is learned.

    Parameters
    ----------
    mass
        The transition law of a row has the prior Dirichlet(mass / S, ..., mass / S): a mass near 0
        expects one successor, and S makes all laws equally likely. "learned" takes, at every plan,
        the mass that makes the observed successors most likely.
    rewards
        Whether rewards vary ("bootstrap"), never vary ("mean"), or whether the observed rewards
        decide ("seen").
    reward_weight
        A mean reward has the prior Beta(reward_weight, reward_weight).
    members
        How many policies are deployed together; each episode plays one.
    pooled
        Whether all steps are alike. "tested" pools them, transition laws and rewards separately,
        once the evidence for it is 20 to 1.
    rows
        The largest number of rows in which a deployment differs from the deployed policy, so that
        people can review it. The rows that change are those that most members want to change and
        most episodes visit. A last deployment that exploits is one table and has no such limit.
    trial
        The share of the cases that explore. The others follow the protocol, one table that exploits
        current knowledge. "falling" is one over the number of the deployment. "auto" has a protocol
        if an initial policy is given and there are several members, and the share depends on the
        findings of the trial. None has no protocol, so all cases explore.
    floor
        With an initial policy, the share of its value below which the average over all cases must
        not fall.
    first
        The policy before the first change if nobody chose one: the "lowest" allowed actions, or
        several policies that "explore"; "auto" explores unless there is a board. With an initial
        policy, "explore" begins with a trial.
    rule
        The version of these rules that a run follows; 1 is the version before 18 November 2026.
    """

    mass: float | Learned = "learned"
    rewards: SeenRewards = "seen"
    reward_weight: float = 0.15
    members: int = 1
    pooled: bool | Tested = "tested"
    rows: int | None = None
    trial: Trial | None = None
    floor: float | None = None
    first: First = "lowest"
    rule: int = 1

    def __post_init__(self) -> None:
        require_word("first", self.first, get_args(First))
        object.__setattr__(self, "rule", require_count("rule", self.rule, most=RULE))
        if self.rows is not None:
            object.__setattr__(self, "rows", require_count("rows", self.rows))
        check_trial(self)
        if self.mass != "learned":
            mass = require_positive("mass", self.mass, 'or give "learned"')
            object.__setattr__(self, "mass", mass)
        require_word("rewards", self.rewards, get_args(SeenRewards))
        weight = require_positive("reward_weight", self.reward_weight, "1 is the uniform law")
        object.__setattr__(self, "reward_weight", weight)
        object.__setattr__(self, "members", require_count("members", self.members))
        if self.pooled != "tested":
            require_truth("pooled", self.pooled)


# ---- bonuses -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Scaled:
    c: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", require_scale("c", self.c))


@dataclass(frozen=True, kw_only=True)
class Hoeffding(_Scaled):
    """b_n = c sqrt(H^3 iota / n); with stages 2 c sqrt(H^2 iota / n).

    Parameters
    ----------
    c
        The scale. 1 is the scale of the proof; values from 0.01 to 0.1 learn in a realistic time.
    """


@dataclass(frozen=True, kw_only=True)
class OwnBonus:
    """Base class for a bonus of your own; `lowswitch.algorithms.parts.bonus` makes one."""

    function: ClassVar[Callable[..., float] | None] = None
    memory: ClassVar[Memory] = 0
    texts: ClassVar[tuple[str, ...]] = ()  # what it says and reads
    source: ClassVar[str] = ""  # a hash of them

    def __post_init__(self) -> None:
        check_options(self)


def own_options(part: OwnBonus | OwnUpdate) -> list[float]:
    """The options of your function as numbers, in the function's order."""
    defaults = getattr(part.function, "__kwdefaults__", None) or {}
    return [getattr(part, name) for name in defaults]


def check_options(part: OwnBonus | OwnUpdate) -> None:
    """Convert the options of your function to floats, or name one that is not finite."""
    if part.function is None:
        word = "bonus" if isinstance(part, OwnBonus) else "update"
        raise ValueError(
            f"{type(part).__name__} has no function; write one and put @ls.parts.{word} above it"
        )
    for name in part.function.__kwdefaults__ or {}:
        value = getattr(part, name)
        if not is_number(value):
            raise ValueError(
                f"{name} of {type(part).__name__} must be a finite number, not {shown(value)}"
            )
        object.__setattr__(part, name, float(value))


@dataclass(frozen=True, kw_only=True)
class Bernstein:
    """b_n from the variance of the next values.

    Parameters
    ----------
    c1
        The scale of the variance term.
    c2
        The scale of the Hoeffding width that caps it.
    """

    c1: float = 1.0
    c2: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c1", require_scale("c1", self.c1))
        object.__setattr__(self, "c2", require_scale("c2", self.c2))


@dataclass(frozen=True, kw_only=True)
class AdvantageBonus(_Scaled):
    """Both bonuses of UCB-Advantage: Zhang, Zhou, Ji 2020, eq. (5) to (8).

    Their constants are c_1 = c_2 = 2 and c_3 = 5.

    Parameters
    ----------
    c
        The scale of both.
    """


@dataclass(frozen=True, kw_only=True)
class EarlySettledBonus(_Scaled):
    """The bonuses of Q-EarlySettled-Advantage, scaled by `c`, the c_b of Li et al. 2021."""


@dataclass(frozen=True, kw_only=True)
class ChernoffHoeffding(_Scaled):
    """c 7 H L / sqrt(n), L = ln(5 S A T / p): Azar, Osband, Munos 2017, Algorithm 3 (UCBVI-CH).

    Parameters
    ----------
    c
        The scale; 1 is the published bonus.
    """


@dataclass(frozen=True, kw_only=True)
class BernsteinFreedman(_Scaled):
    """UCBVI's variance-based bonus: Azar et al. 2017, Algorithm 4 (UCBVI-BF).

    It uses the variance of the next values, and how precisely these are known.

    Parameters
    ----------
    c
        The scale; 1 is the published bonus.
    """


@dataclass(frozen=True, kw_only=True)
class MonotonicBernstein(_Scaled):
    """MVP's bonus: Zhang, Chen, Lee, Du 2024, Algorithm 1.

    It uses the variances of the next values and of the rewards.

    Parameters
    ----------
    c
        The scale; 1 is the published bonus.
    """


@dataclass(frozen=True, kw_only=True)
class Certificates(_Scaled):
    """ORLC's bonus, from upper and lower values: Dann, Li, Wei, Brunskill 2019.

    It uses the variance of the next upper values, and their distance from the lower values.

    Parameters
    ----------
    c
        The scale of the paper's width phi, whose square enters too.
    """


@dataclass(frozen=True, kw_only=True)
class L1Ball(_Scaled):
    """The most favourable transition law and mean reward: Jaksch, Ortner, Auer 2010, eq. (3) and
    (4).

    Both lie within a confidence distance of the observed ones.

    Parameters
    ----------
    c
        The scale of this distance.
    """


@dataclass(frozen=True, kw_only=True)
class ConfidenceIntervals(_Scaled):
    """The most favourable law and mean reward within their intervals: Strehl, Littman 2008 (MBIE).

    Parameters
    ----------
    c
        The scale of the widths of the intervals.
    most_visits
        The m of MBIE: only the first `most_visits` visits of an (h, x, a) are data; by default all.
        Pooled counts also use the first `most_visits` visits that have a successor.
    """

    most_visits: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most_visits is not None:
            most = require_count("most_visits", self.most_visits)
            object.__setattr__(self, "most_visits", most)

    def data_visits(self, limit: int) -> int:
        """m: how many visits of an (h, x, a) are data, if it has at most `limit`."""
        return min(self.most_visits or limit, limit)

    def delta(self, *, H: int, S: int, A: int, limit: int, p: float) -> float:
        """delta_R = delta_T = p / (2 H S A m): the 2 S A m intervals of MBIE, once for each step.

        With probability 1 - p, both intervals of every (h, x, a) hold simultaneously after each of
        its visits.
        """
        return p / (2 * H * S * A * self.data_visits(limit))


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """No bonus, but the largest possible value until an (h, x, a) is known.

    Brafman, Tennenholtz 2002 (R-max).

    Parameters
    ----------
    known
        The number of visits after which an (h, x, a) is known.
    """

    known: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", require_count("known", self.known))


@dataclass(frozen=True, kw_only=True)
class NoBonus:
    """No bonus: the spread of the posterior explores, or your own planner does."""


Estimator = (
    QLearning
    | OwnUpdate
    | StageQLearning
    | Advantage
    | EarlySettled
    | RandomizedStages
    | FederatedQ
    | FederatedAdvantage
    | FederatedSettled
    | Planning
    | Posterior
    | LearnedPosterior
    | Ridge
    | FromCounts
)
Bonus = (
    Hoeffding
    | OwnBonus
    | Bernstein
    | AdvantageBonus
    | EarlySettledBonus
    | ChernoffHoeffding
    | BernsteinFreedman
    | MonotonicBernstein
    | Certificates
    | L1Ball
    | ConfidenceIntervals
    | Unknown
    | Sampled
    | Ellipsoid
    | NoBonus
)
BONUSES: dict[type, tuple[type, ...]] = {  # the bonuses that fit each estimator
    QLearning: (Hoeffding, Bernstein, OwnBonus),
    OwnUpdate: (Hoeffding, Bernstein, OwnBonus, NoBonus),
    StageQLearning: (Hoeffding,),
    Advantage: (AdvantageBonus,),
    EarlySettled: (EarlySettledBonus,),
    RandomizedStages: (NoBonus,),
    FederatedQ: (Hoeffding, Bernstein),
    FederatedAdvantage: (AdvantageBonus,),
    FederatedSettled: (EarlySettledBonus,),
    Planning: (
        ChernoffHoeffding,
        BernsteinFreedman,
        MonotonicBernstein,
        Certificates,
        L1Ball,
        ConfidenceIntervals,
        Unknown,
    ),
    Posterior: (NoBonus,),
    LearnedPosterior: (NoBonus,),
    Ridge: (Sampled, Ellipsoid),
    FromCounts: (NoBonus,),
}
