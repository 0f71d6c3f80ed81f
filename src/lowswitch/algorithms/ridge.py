"""The parts of learners with features: ridge regression, its exploration, and two schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from lowswitch.algorithms.calendars import spaced
from lowswitch.algorithms.powers import floor_power
from lowswitch.algorithms.schedules import (
    Budget,
    EveryVisit,
    Schedule,
    Whole,
    WholePolicy,
    plain_schedule,
)
from lowswitch.algorithms.trial import Trial, check_trial
from lowswitch.checks import (
    require_count,
    require_growth,
    require_positive,
    require_scale,
    require_truth,
    require_word,
    shown,
)

Width = Literal["noise", "unit", "proof"]
Draws = Literal["plain", "optimistic"]
Spent = Literal["budget"]
Link = Literal["linear", "auto"]
Drift = Literal["ignore", "watch"]
RULE = 4  # the newest version of the rules of learners with features


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """Rewards, or values to go, that are linear in features, with the penalty `ridge` |theta|^2.

    With a horizon above 1, least-squares value iteration computes the values (Jin, Yang, Wang,
    Jordan 2020, Algorithm 1).

    Parameters
    ----------
    members
        How many functions are deployed together; each episode plays one.
    ridge
        The weight of the penalty.
    intercept
        Whether a constant feature is added to every context and rewards are measured from their
        average.
    link
        "auto" fits log-odds by logistic regression for as long as all rewards of a one-step problem
        are 0 or 1.
    drift
        "watch" tests whether the contexts drift during the run, reports it, and then moves the
        remaining dates of a `Spread`. In problems of one step with linear rewards and no trial, the
        next date then comes as soon as the estimated loss since the last one exceeds twice the
        average loss per deployment so far.
    trial
        As in `LearnedPosterior`. A protocol needs an initial policy that is one function, and
        problems of one step; elsewhere "auto" has none.
    floor
        As in `LearnedPosterior`, measured from the least reward, which the learner is told.
    rule
        The version of the rules. By 1 the penalty depends on the units of the features, and the
        share of a trial is chosen as for tables. By 2 the penalty is the one of features with the
        mean 0 and the deviation 1, as far as the data tell, and the share follows what a trial is
        expected to teach. By 3 the penalty of log-odds is the one that explains the rewards best,
        and at most `ridge`. By 4 a date comes early if the contexts have moved and the deployed
        policy seems to lose much.
    """

    members: int = 32
    ridge: float = 1.0
    intercept: bool = False
    link: Link = "linear"
    drift: Drift = "ignore"
    trial: Trial | None = None
    floor: float | None = None
    rule: int = 1

    def __post_init__(self) -> None:
        check_trial(self)
        object.__setattr__(self, "rule", require_count("rule", self.rule, most=RULE))
        object.__setattr__(self, "members", require_count("members", self.members))
        way_out = "1 is usual; a smaller one trusts few data more"
        object.__setattr__(self, "ridge", require_positive("ridge", self.ridge, way_out))
        require_truth("intercept", self.intercept)
        require_word("link", self.link, get_args(Link))
        require_word("drift", self.drift, get_args(Drift))


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Weights drawn from N(theta, (c sigma)^2 V^-1), in pairs of opposite sign, for each step.

    sigma is the estimated noise.

    Parameters
    ----------
    c
        The scale: 1 is the posterior itself, and a smaller `c` explores less.
    draws
        "plain" draws follow this formula. For "optimistic" draws, `c` is the scale after K^(3/4) of
        K episodes. Exploration helps only the remaining episodes, so the scale is 4 c before the
        second episode and fades to 0 at the last one; see `scale`. The score of an action is then
        at least its score under the mean weights: a draw says how good an action may be, not how
        bad (May, Korda, Lee, Leslie 2012, optimistic Bayesian sampling).
    """

    c: float = 0.5
    draws: Draws = "plain"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", require_scale("c", self.c))
        require_word("draws", self.draws, get_args(Draws))

    def scale(self, told: int, episodes: int) -> float:
        """`c`; for optimistic draws 4 c ln(K / t) / ln K after t of K episodes."""
        if self.draws == "plain" or episodes == 1:
            return self.c
        return 4.0 * self.c * (1.0 - math.log(max(1, told)) / math.log(episodes))


@dataclass(frozen=True, kw_only=True)
class Ellipsoid:
    """theta.x + w |x|, |x|^2 = x' V^-1 x: the most favourable weights in an ellipsoid.

    Parameters
    ----------
    c
        The scale of w.
    width
        What w is. "noise": `c` times the estimated noise. "unit": `c` itself, the alpha of LinUCB
        (Li, Chu, Langford, Schapire 2010). "proof": `c` times the width of the proofs, for rewards
        in [0, 1], and features and weights of norm at most 1. With one step that width is from
        Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 2; with more it is d H sqrt(ln(2 d T / p))
        (Jin et al. 2020, Theorem 3.1, whose constant is not published).
    """

    c: float = 1.0
    width: Width = "noise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", require_scale("c", self.c))
        require_word("width", self.width, get_args(Width))


@dataclass(frozen=True)
class Spread(Whole):
    """Dates that grow geometrically.

    With a budget of N deployments in K episodes, the first date is K^(1/3), or a third of the
    number of weights if that is later: earlier, so little is known that a deployment is wasted. The
    last date is K^(N / (N + 1)), as in the geometric grid of N + 1 batches. Without a budget the
    dates are 1, 2, 4, 8, ...

    Parameters
    ----------
    gap
        The smallest number of episodes between two deployments, and before the first one. Dates
        that would be closer together are moved.
    """

    gap: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", require_count("gap", self.gap))

    def within(self, deployments: int | None, episodes: int, weights: int = 1) -> tuple[int, ...]:
        """The dates for a budget of `deployments`, for a learner with `weights` weights."""
        if deployments is None:
            return self.grid(episodes)
        last = Fraction(deployments, deployments + 1)
        first = max(Fraction(1, 3), min(_power(weights / 3, episodes), (last + Fraction(1, 3)) / 2))
        steps = max(1, deployments - 1)
        powers = [last - (last - first) * i / steps for i in range(deployments)]
        dates = (floor_power(episodes, power) for power in reversed(powers))
        return spaced(dates, self.gap, episodes)

    def moved(self, since: int, deployments: int, episodes: int) -> tuple[int, ...]:
        """New dates after `since` episodes for the remaining deployments, once contexts drift.

        Their square roots are evenly spaced. Evenly spaced dates would wait too long for the next
        one, and geometric dates would leave too many episodes after the last.
        """
        first, last = math.sqrt(since), math.sqrt(episodes)
        steps = ((last - first) * (i + 1) / (deployments + 1) for i in range(deployments))
        ahead = (math.floor((first + step) ** 2) - since for step in steps)
        return tuple(since + date for date in spaced(ahead, self.gap, episodes - since))

    def grid(self, episodes: int) -> tuple[int, ...]:
        """1, 2, 4, 8, ..."""
        return spaced((2**i for i in range(episodes.bit_length())), self.gap, episodes)

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """The number of dates, unless a budget sets a lower limit."""
        return len(self.grid(episodes))


@dataclass(frozen=True)
class Determinant(Whole):
    """All rows may change after an episode by which det V at some step exceeds `factor` times its
    value when the policy was made.

    This is the rarely switching OFUL (Abbasi-Yadkori, Pal, Szepesvari 2011, Figure 3) with factor =
    1 + C; for each step, Gao, Xie, Du, Yang 2021, and Wang, Zhou, Gu 2021.

    Parameters
    ----------
    factor
        The factor. "budget" computes it from the number of deployments N, so that the budget cannot
        be exceeded: ln factor = d H ln(1 + T L^2 / (ridge d)) / N, where d is the number of weights
        of a step.
    norm
        L, the largest norm of a feature vector.
    """

    factor: float | Spent = 2.0
    norm: float = 1.0

    def __post_init__(self) -> None:
        if self.factor != "budget":
            object.__setattr__(self, "factor", require_growth(self.factor))
        way_out = "it is the largest norm of a feature vector"
        object.__setattr__(self, "norm", require_positive("norm", self.norm, way_out))

    def log_factor(
        self, *, horizon: int, weights: int, episodes: int, ridge: float, deployments: int | None
    ) -> float:
        """ln factor, computed from the number of deployments if the factor is "budget"."""
        if self.factor != "budget":
            return math.log(self.factor)
        if deployments is None:
            raise ValueError(
                "determinant/budget computes its factor from a budget: give "
                "deployments=N too, or a factor as in determinant/2"
            )
        return horizon * self.log_growth(weights, episodes, ridge) / deployments

    def log_growth(self, weights: int, episodes: int, ridge: float) -> float:
        """d ln(1 + K L^2 / (ridge d)): the most that ln det V of a step can grow in K episodes.

        By the inequality of arithmetic and geometric means, det V is at most (trace V / d)^d
        (Abbasi-Yadkori et al. 2011, Lemma 10).
        """
        return weights * math.log1p(episodes * self.norm**2 / (ridge * weights))

    def refresh_bound(self, *, horizon: int, states: int, actions: int, episodes: int) -> float:
        """H d ln(1 + K L^2 / d) / ln factor for a ridge of 1, at most K; `states` stands for d."""
        if self.factor == "budget":
            return episodes
        most = horizon * self.log_growth(states, episodes, 1.0) / math.log(self.factor)
        return min(episodes, math.floor(most + 1e-9))


def _power(date: float, episodes: int) -> Fraction:
    """The exponent p for which a date is K^p, rounded to 48ths."""
    if date <= 1 or episodes == 1:
        return Fraction(0)
    return Fraction(round(48 * math.log(date) / math.log(episodes)), 48)


def dates_of(
    schedule: Whole, deployments: int | None, episodes: int, weights: int
) -> Sequence[int]:
    """The numbers of episodes after which everything may change, with or without a budget."""
    if isinstance(schedule, Spread):
        return schedule.within(deployments, episodes, weights)
    return schedule.grid(episodes)


def require_linear(
    estimator: Ridge, bonus: Sampled | Ellipsoid | object, schedule: Schedule, scales: int
) -> None:
    """Check that the parts fit together for a learner that has features instead of rows."""
    plain = plain_schedule(schedule)
    if isinstance(bonus, Ellipsoid) and estimator.link == "auto":
        raise ValueError("an ellipsoid needs linear rewards; leave link out, or use ls.linear")
    if isinstance(bonus, Ellipsoid) and estimator.trial is not None:
        raise ValueError("an ellipsoid draws nothing that a trial could try; use ls.linear")
    if isinstance(bonus, Ellipsoid) and estimator.members > 1:
        raise ValueError(
            f"an ellipsoid makes one policy, not a mixture of {estimator.members}; leave "
            "members out, or sample policies with ls.linear"
        )
    if scales > 1:
        raise ValueError("a mixture on features is set with members=L and takes only one scale")
    if isinstance(plain, WholePolicy) or (plain.by_row and type(plain) is not EveryVisit):
        raise ValueError(
            f"{shown(plain)} counts visits to states, but a learner with features has no "
            "states; use determinant/2, spread, a grid, a calendar, episodes/M or every"
        )
    if isinstance(schedule, Budget) and schedule.switches is not None:
        raise ValueError(
            "a budget of switches counts rows of a table, but a learner with features "
            "has no rows; give deployments=N"
        )
    if isinstance(schedule, Budget) and schedule.last == "exploit":
        raise ValueError(
            'last="exploit" checks which actions were tried in a state, but a learner '
            'with features has no states; use last="greedy"'
        )
    if isinstance(plain, Determinant) and plain.factor == "budget":
        plain.log_factor(
            horizon=1,
            weights=1,
            episodes=1,
            ridge=1.0,
            deployments=schedule.deployments if isinstance(schedule, Budget) else None,
        )
