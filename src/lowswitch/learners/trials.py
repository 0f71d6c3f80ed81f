"""How many of the cases enter the trial: the share of the deployed policies that explore.

A deployment of `few` that has a protocol is a list of L policies, each of which plays the same
share of the cases. The first one is the protocol. Those that differ from it are the trial.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lowswitch.algorithms.estimators import Trial
from lowswitch.policy.tables import departing
from lowswitch.review.proposals import Part

_FIRST = 0.3  # of the cases enter the first trial that starts from a policy somebody chose
_DECAY = 1.5  # the power of the deployment's number by which the share falls while nothing is found
_SURE = 2.0  # standard deviations of a gain from which on it is certain that something was found
_TIE = 1e-9  # a smaller gain is rounding
_RISK = 0.1  # the probability that a deployment may lie below the floor


class Found(NamedTuple):
    """What the data say of the protocol, and of the trial that would go with it."""

    gain: float  # of the protocol over the initial policy, per episode
    ratio: float  # of a gain to its standard deviation, from one half of the data to the other
    cost: float  # of an episode in the trial, against one by the protocol, as the model expects it


def trial_share(trial: Trial | None, number: int, found: Found) -> float:
    """The share of the cases that the trial of deployment `number`, from 1 on, should get.

    "falling" is one over the number of the deployment.

    "auto" begins with 30 % and falls quickly while the trial finds nothing better than the initial
    policy. Where it does, that policy is poor, and the share becomes one over the number of trials
    before: what is known changes soon, and most of the cost of a trial is saved later. How much was
    found is the gain as a share of gain and cost, times how certain the gain is.
    """
    if isinstance(trial, float):
        return trial
    if trial == "falling":
        return 1.0 / number
    poor = 0.0
    if found.gain > _TIE:
        poor = min(1.0, found.ratio / _SURE) * found.gain / (found.gain + abs(found.cost))
    return (1.0 - poor) * _FIRST / math.pow(number, _DECAY) + poor / max(1, number - 1)


def members_in_trial(share: float, members: int) -> int:
    """How many of the policies are nearest to a share of the cases."""
    return int(np.rint(share * members))


def most_in_trial(floor: float, members: int, protocol: np.ndarray, initial: np.ndarray) -> int:
    """How many policies may explore for a floor, by the values of both tables in models [n].

    The mean over all cases must not lie below `floor` times the value of the initial policy, but
    with a probability of 10 % in the posterior. A case in the trial counts as if it earned nothing,
    because nobody knows what untried actions earn. -1 if the protocol alone is below the floor.
    """
    needed = np.quantile(floor * initial / np.maximum(protocol, _TIE), 1.0 - _RISK)
    return -1 if needed > 1.0 else math.floor((1.0 - needed) * members + _TIE)


def limited_law(
    now: np.ndarray, new: np.ndarray, part: Part | None, share: float | None
) -> np.ndarray:  # [L, H, S]
    """What is deployed if only a part of a law is approved, or a smaller share for its trial.

    now, new: the policies [L, H, S] that are deployed and proposed, the protocol first. The other
    part stays as it is; where a trial is smaller, its last members stay.
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
