"""How many of the cases enter the trial: the share of the deployed policies that explore.

A deployment of `few` that has a protocol is a list of L policies, each of which plays the same
share of the cases. The first one is the protocol. Those that differ from it are the trial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from lowswitch.algorithms.trial import Trial
from lowswitch.learners.case_posterior import Foreseen
from lowswitch.policy.linear import LinearPolicy
from lowswitch.policy.members import Part
from lowswitch.policy.tables import departing

# by the rule of tables: the share of all cases that enter trials which find nothing, and the
# largest share of the cases until the next date meanwhile
_BUDGET, _MOST = {1: 0.035, 2: 0.025}, {1: 0.3, 2: 0.5}
_AT_ONCE = 0.75  # of the remaining ones are used at each deployment
_SOON = 1 / 6  # of the run, until which all may explore where the initial policy is poor
_DECAY = 1.5  # the power by which the share falls after that
_SURE = 3.0  # standard deviations of a gain from which on it is certain that something was found
_TIE = 1e-9  # a smaller gain is rounding
_DOUBT = 2.0  # a case in the trial may lose this many times what could be gained
_FEWEST = 8  # cases of a trial that is worth anything
_RISK = 0.1  # the probability that a deployment may lie below the floor


class Moment(NamedTuple):
    """One of the deployments of a run."""

    number: int  # from 1 on
    dates: list[float]  # of the deployments up to this one, the last one being its own
    following: float  # when the next one comes
    episodes: int  # of the run
    rule: int  # by which the share is chosen


class Found(NamedTuple):
    """The evidence on the protocol and on the trial that would accompany it."""

    gain: float  # of the protocol over the initial policy, per episode
    ratio: float  # of a gain to its standard deviation, from one half of the data to the other
    cost: float  # of an episode in the trial, against one by the protocol, as the model expects it
    paid: bool  # whether any reward was seen; if not, there is nothing to lose


def moment_of(
    number: int,
    told: int,
    dates: Sequence[int],
    *,
    episodes: int,
    deployments: int,
    rule: int,
    begins: bool = False,
) -> Moment:
    """The deployment of this number after `told` episodes.

    dates: all deployments of the run; without dates, because a board asks for them, they count as
    evenly spaced. begins: whether a trial began with the run.
    """
    if not len(dates):
        past = [told * i / number for i in range(1, number + 1)]
        to_come = max(1, min(deployments, episodes) - number + 1)
        following = told + max(1, episodes - told) / to_come
        return Moment(number, past, following, episodes, rule)
    past = [*(date for date in dates if date < told), told]
    if told and begins:
        past = [0, *past]
    later = [date for date in dates if date > told]
    following = max(told + 1, min([*later[:1], episodes]))
    return Moment(number, past, following, episodes, rule)


NOTHING = Found(gain=0.0, ratio=0.0, cost=0.0, paid=True)


def trial_share(
    trial: Trial | None, moment: Moment, found: Found, foreseen: Foreseen | None = None
) -> float:
    """The share of the cases that the trial of a deployment should get.

    "falling" is one over the number of the deployment.

    "auto" is careful while the trials find nothing better than the initial policy. These trials may
    use 2.5 % of all cases: at each deployment three quarters of the remaining ones, and at most
    half of the cases until the next one. If they find something better, the initial policy is poor,
    and most cases soon explore. The size of the finding is the gain as a share of gain and cost,
    times its certainty. If no reward was ever seen, there is nothing to lose, and all cases
    explore.

    foreseen: what the cases of `possible_cases` would teach. While nothing is found, the share then
    follows from this instead; see `worthwhile_share`.
    """
    if isinstance(trial, float):
        return trial
    if trial == "falling":
        return 1.0 / moment.number
    poor = 0.0 if found.paid else 1.0
    if found.gain > _TIE:
        poor = min(1.0, found.ratio / _SURE) * found.gain / (found.gain + abs(found.cost))
    usual = careful_share(moment) if foreseen is None else worthwhile_share(moment, foreseen)
    return (1.0 - poor) * usual + poor * eager_share(moment)


def possible_cases(moment: Moment) -> np.ndarray:
    """Numbers of cases, by factors of sqrt(2), that trials could have; none, and 8 on."""
    left = max(moment.episodes - moment.following, _FEWEST)
    steps = math.floor(2.0 * math.log2(left / _FEWEST))
    return np.concatenate([[0.0], _FEWEST * 2.0 ** (0.5 * np.arange(steps + 1))])


def worthwhile_share(moment: Moment, foreseen: Foreseen) -> float:
    """The share by which trials get as many cases as are worth most, at most half of all.

    What becomes clear is gained after the next date, and each case in a trial costs what it is
    expected to lose. A policy that somebody chose is rarely the worst. So where hardly anything is
    known, a case may cost twice as much as could be gained.
    """
    after, until = moment.episodes - moment.following, moment.following - moment.dates[-1]
    cases, cost = possible_cases(moment), max(foreseen.lost, _DOUBT * foreseen.most)
    best = cases[int(np.argmax(after * foreseen.gains - cost * cases))]
    return float(min(_MOST[moment.rule], best / until))


def careful_share(moment: Moment) -> float:
    """The share while nothing is found: 3/4 of the rest of 2.5 % of the cases, up to a half."""
    left, most, share = _BUDGET[moment.rule] * moment.episodes, _MOST[moment.rule], 0.0
    for begin, end in itertools.pairwise([*moment.dates, moment.following]):
        share = min(most, _AT_ONCE * left / (end - begin))
        left -= share * (end - begin)
    return share


def eager_share(moment: Moment) -> float:
    """The share where the initial policy is poor: all in the first sixth of the run, then fewer."""
    by_number = 1.0 / max(1, moment.number - 1)
    by_time = math.pow(_SOON * moment.episodes / max(1.0, moment.dates[-1]), _DECAY)
    return min(1.0, max(by_number, by_time))


def members_in_trial(share: float, members: int) -> int:
    """How many of the policies are nearest to a share of the cases."""
    return int(np.rint(share * members))


def most_in_trial(floor: float, members: int, protocol: np.ndarray, initial: np.ndarray) -> int:
    """How many policies may explore above a floor, by the values of both tables in models [n].

    With a probability of 90 % in the posterior, the mean over all cases must not fall below `floor`
    times the value of the initial policy. A case in the trial counts as if it earned nothing,
    because nobody knows the rewards of untried actions. -1 if the protocol alone is below the
    floor.
    """
    needed = np.quantile(floor * initial / np.maximum(protocol, _TIE), 1.0 - _RISK)
    return -1 if needed > 1.0 else math.floor((1.0 - needed) * members + _TIE)


class AtFloor(NamedTuple):
    """Whether a law keeps to a floor."""

    floor: float  # a share of the value of the initial policy
    below: float  # the probability that the mean over all cases lies below it
    exploring: int  # policies
    most: int  # the largest number of them with which it holds: see `most_in_trial`
    members: int  # policies in all

    @classmethod
    def of(
        cls, floor: float, exploring: int, members: int, protocol: np.ndarray, initial: np.ndarray
    ) -> Self:
        """By the values of the protocol and of the initial policy in models [n]."""
        earned = (1.0 - exploring / members) * protocol
        below = float((earned < floor * initial - _TIE).mean())
        most = most_in_trial(floor, members, protocol, initial)
        return cls(floor, below, exploring, most, members)

    def warning(self, way_out: str) -> str | None:
        """What is said of a law below the floor; None if it keeps to it.

        way_out: what to do if its protocol alone lies below.
        """
        if self.exploring <= self.most:
            return None
        way_out = f"and so would its protocol alone; {way_out}"
        if self.most >= 0:
            way_out = f"a trial of at most share={self.most / self.members:g} would keep it"
        return (
            f"this would earn less than {self.floor:g} of the initial policy's value with a"
            f" probability of {self.below:.0%}, if cases in the trial earn nothing, and"
            f" floor={self.floor:g} allows only {_RISK:.0%}; {way_out}"
        )

    def require(self) -> None:
        """Raise a ValueError with the way out if the law lies below the floor."""
        if (message := self.warning("approve other rows, or reject it")) is not None:
            raise ValueError(message)


def needs_protocol(part: Part | None, share: float | None) -> str:
    """The error message if a part or a share is chosen without a protocol."""
    named = f"share={share:g}" if part is None else f"part={part!r}"
    return (
        f"{named} needs a protocol and a trial, which few deploys where an initial policy is given;"
        " leave it out"
    )


def capped_share(share: float, members: int) -> float:
    """The largest share of `members` policies that does not exceed a limit."""
    return math.floor(share * members + _TIE) / members


def limited_law(
    now: np.ndarray, new: np.ndarray, part: Part | None, share: float | None
) -> np.ndarray:  # [L, H, S]
    """The law that is deployed if only one of its parts is approved, or a smaller trial.

    now, new: the deployed and proposed policies [L, H, S], the protocol first. The other part stays
    as it is. If the trial is smaller, its last members stay.
    """
    law = new.copy()
    if part == "protocol":
        kept = departing(now)
        law[~kept], law[kept] = new[0], now[kept]
    elif part == "trial":
        law[~departing(new)] = now[0]
    if share is not None:
        exploring = np.flatnonzero(departing(law))
        most = math.floor(share * len(law) + _TIE)
        law[exploring[: max(0, len(exploring) - most)]] = law[0]
    return law


def limited_policy(
    now: LinearPolicy, new: LinearPolicy, part: Part | None, share: float | None
) -> LinearPolicy:
    """The same as `limited_law`, of policies on features."""
    protocol = now.protocol if part == "trial" else new.protocol
    assert protocol is not None
    most = None if share is None else math.floor(share * new.members + _TIE)
    return (now if part == "protocol" else new).beside(protocol, new.members, most)
