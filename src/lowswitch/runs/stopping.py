"""When a run ends before its last episode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowswitch.checks import is_number, shown
from lowswitch.learners import Knowledge
from lowswitch.learners.bounds import checked_probability
from lowswitch.runs.results import curve_points

_EACH = 2  # the bounds are checked at every second point of a curve


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Conditions that end a run before its last episode; the first one met ends it.

    Parameters
    ----------
    policy
        Stop when the deployed policy is within this distance of the optimum under the start
        law. Only for `concurrent.run`, with tables.
    mixture
        Stop when the PAC policy, the uniform mixture of all policies so far, is within this
        distance. Only for `concurrent.run`, with tables.
    rounds
        Stop after this number of rounds, including rounds before a resumption. Only for
        `concurrent.run`.
    seconds
        Stop after this number of seconds in this call. Only for `concurrent.run`.
    within
        Stop when the learner's own bounds show that an optimal policy is at most this much
        better than the deployed one, in the problem's units of reward. It needs no tables, but
        a learner that plans from counts. The bounds are checked at about 100 numbers of
        episodes, log-spaced.
    probability
        The largest share of all runs in which `within` may be wrong.
    """

    policy: float | None = None
    mixture: float | None = None
    rounds: int | None = None
    seconds: float | None = None
    within: float | None = None
    probability: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "probability", checked_probability(self.probability))
        for name, value in vars(self).items():
            if value is None or name == "probability":
                continue
            whole = name != "rounds" or (is_number(value) and value == int(value))
            if not (is_number(value) and value > 0 and whole):
                what = "a whole number" if name == "rounds" else "a number"
                raise ValueError(
                    f"stop: {name} must be {what} above 0, not {shown(value)}; leave it out if it"
                    " should not end the run"
                )
            object.__setattr__(self, name, int(value) if name == "rounds" else float(value))

    @property
    def looks_at_values(self) -> bool:
        return self.policy is not None or self.mixture is not None

    def next_look(self, learned: int, episodes: int) -> int:
        """The first number of episodes, `learned` or more, at which the bounds are checked.

        It is the end of the run if no bounds are asked for.
        """
        if self.within is None:
            return episodes
        looks = np.append(curve_points(episodes)[::_EACH], episodes)
        return int(looks[np.searchsorted(looks, learned)])

    def holds(self, knowledge: Knowledge, unit: float) -> bool:
        """Whether the bounds say that the deployed policy is good enough.

        Parameters
        ----------
        knowledge
            What the learner knows.
        unit
            The difference of two values that is 1 to the learner, in the problem's units.
        """
        if self.within is None:
            return False
        return knowledge.optimality_gap(self.probability) * unit <= self.within


def require_simulated(stop: Stop | None) -> None:
    """A rule that `simulate` can stop by."""
    if stop is None:
        return
    if not isinstance(stop, Stop):
        raise ValueError(
            f"stop must be a lowswitch.Stop such as Stop(within=0.1), not {shown(stop)}"
        )
    if stop.within is None or stop != Stop(within=stop.within, probability=stop.probability):
        raise ValueError(
            "simulate stops by Stop(within=..., probability=...) alone; leave the rest to"
            " concurrent.run"
        )


def require_start_law(start_sequence: np.ndarray) -> None:
    """Bounds are means over a law of the first state; a list of first states has no law."""
    if len(start_sequence):
        raise ValueError(
            "stop: within needs initial states that are drawn from a law, but this problem has a"
            " list of them; give it a start law"
        )
