"""The published orders of every recipe's regret, local switches and deployments, as numbers.

An order is the expression inside the O of its source. Constants are 1, and logarithms are as
printed; an O~ has no logarithms. So orders may be compared in shape but not in height.
All are for transitions that depend on the step. Where the source has stationary ones, HS stands
here for its S, since a problem of H steps is a stationary one of H S states.

The docstring of an order is its formula, a colon, and its source; the page of orders prints both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lowswitch import theory


class Setting(NamedTuple):
    """H steps, S states, A actions, K episodes, and the probability p that a guarantee may fail."""

    H: int
    S: int
    A: int
    K: int
    p: float = 0.05

    @property
    def steps(self) -> int:
        """T of the papers."""
        return self.K * self.H

    @property
    def iota(self) -> float:
        """log(S A T / p)."""
        return theory.iota(**self._asdict())


Order = Callable[[Setting], float]


# ---- regret --------------------------------------------------------------------------------------


def hoeffding_regret(size: Setting) -> float:
    """sqrt(H^4 S A T iota): Jin et al. 2018, Theorem 1; Bai et al. 2019, Theorem 2."""
    return theory.regret_order(**size._asdict(), bonus="H")


def jin_bernstein_regret(size: Setting) -> float:
    """sqrt(H^3 S A T iota) + sqrt(H^9 S^3 A^3) iota^2: Jin et al. 2018, Theorem 2."""
    H, S, A = size[:3]
    return (
        math.sqrt(H**3 * S * A * size.steps * size.iota)
        + math.sqrt(H**9 * S**3 * A**3) * size.iota**2
    )


def bai_bernstein_regret(size: Setting) -> float:
    """sqrt(H^3 S A T iota^2) + sqrt(H^9 S^3 A^3 iota^4): Bai et al. 2019, Theorem 3."""
    return theory.regret_order(**size._asdict(), bonus="B")


def stage_regret(size: Setting) -> float:
    """sqrt(H^4 S A T iota): ours, the argument of Jin et al. 2018, Theorem 1, for stages of Zhang,
    Zhou, Ji 2020.
    """
    return hoeffding_regret(size)


def advantage_regret(size: Setting) -> float:
    """sqrt(H^2 S A T): Zhang, Zhou, Ji 2020, Theorem 1, without its logarithms."""
    return math.sqrt(size.H**2 * size.S * size.A * size.steps)


def ucbvi_log(size: Setting) -> float:
    """L = log(5 H S A T / p): Azar, Osband, Munos 2017, Theorems 1 and 2."""
    return math.log(5 * size.H * size.S * size.A * size.steps / size.p)


def ucbvi_regret(size: Setting) -> float:
    """L sqrt(H^3 S A T) + H^4 S^2 A L^2: Azar, Osband, Munos 2017, Theorem 1, with HS for S."""
    L = ucbvi_log(size)
    return (
        L * math.sqrt(size.H**3 * size.S * size.A * size.steps)
        + size.H**4 * size.S**2 * size.A * L**2
    )


def ucbvi_bernstein_regret(size: Setting) -> float:
    """L sqrt(H^2 S A T) + H^4 S^2 A L^2 + sqrt(H^2 T L): Azar, Osband, Munos 2017, Theorem 2, with
    HS for S.
    """
    H, S, A = size[:3]
    L = ucbvi_log(size)
    return (
        L * math.sqrt(H**2 * S * A * size.steps)
        + H**4 * S**2 * A * L**2
        + math.sqrt(H**2 * size.steps * L)
    )


def mvp_regret(size: Setting) -> float:
    """min{sqrt(H^3 S A K log(H S A K / p)^5), H K}: Zhang, Chen, Lee, Du 2024, Theorem 1."""
    H, S, A, K, p = size
    return min(math.sqrt(H**3 * S * A * K * math.log(H * S * A * K / p) ** 5), H * K)


def ucrl2_regret(size: Setting) -> float:
    """H^2 S sqrt(A T log(T / p)): Jaksch, Ortner, Auer 2010, Theorem 2, with HS for S and H for the
    diameter.
    """
    return size.H**2 * size.S * math.sqrt(size.A * size.steps * math.log(size.steps / size.p))


def psrl_regret(size: Setting) -> float:
    """H^2 S sqrt(A T log(H S A T)): Osband, Russo, Van Roy 2013, Theorem 1, with HS for S; on
    average over the prior.
    """
    H, S, A = size[:3]
    return H**2 * S * math.sqrt(A * size.steps * math.log(H * S * A * size.steps))


# ---- local switches and deployments --------------------------------------------------------------


def every_episode(size: Setting) -> float:
    """K: trivial, the policy may change after every episode."""
    return size.K


def visited_rows(size: Setting) -> float:
    """H K: trivial, only the H rows that an episode visits can change."""
    return size.H * size.K


def every_row(size: Setting) -> float:
    """H S K: trivial, a plan may change every row after every episode."""
    return size.H * size.S * size.K


def ucb2_switches(size: Setting) -> float:
    """H^3 S A log((K + A) / A): Bai et al. 2019, Theorems 2 and 3, which print log(K / A)."""
    return theory.switch_order(H=size.H, S=size.S, A=size.A, K=size.K)


def stage_switches(size: Setting) -> float:
    """H^2 S A log T: Zhang, Zhou, Ji 2020, on the local switching cost."""
    return size.H**2 * size.S * size.A * math.log(size.steps)


def doublings(size: Setting) -> float:
    """H S A (1 + log2 K): Zhang, Chen, Lee, Du 2024, for MVP; any schedule that doubles counts."""
    return size.H * size.S * size.A * (1 + math.log2(size.K))


def ucrl2_epochs(size: Setting) -> float:
    """H S A log2(8 T / (H S A)): Jaksch, Ortner, Auer 2010, Proposition 18, with HS for S; for T >=
    H S A.
    """
    entries = size.H * size.S * size.A
    return entries * math.log2(8 * size.steps / entries)


def entries_known(size: Setting) -> float:
    """H S A: Brafman, Tennenholtz 2002, where each entry becomes known once."""
    return size.H * size.S * size.A


def every_row_of(deployments: Order) -> Order:
    """The local switches of a planner with this many deployments."""

    def order(size: Setting) -> float:
        """H S times the deployments: a plan may change every row."""
        return size.H * size.S * deployments(size)

    return order


# ---- by recipe -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """The orders of one recipe with its published schedule at c = 1.

    regret is None if no order of the regret is published.
    """

    regret: Order | None
    switches: Order
    deployments: Order
    remark: str = ""


_UNPROVED = "no regret is published for rows that double"
_FIXED_LATE = (
    "from about K = H^27 S^6 A^4 on (Zhang et al. 2024, Table 1), and for a reference of"
    " H^6 S A iota visits, not 100"
)
_PAC = (
    "a PAC guarantee, no regret; with `known` fixed the policy is fixed in the end, and"
    " regret may be linear"
)

PUBLISHED: dict[str, Published] = {
    "ucb-h": Published(hoeffding_regret, visited_rows, every_episode),
    "ucb-b": Published(jin_bernstein_regret, visited_rows, every_episode),
    "ucb2-h": Published(hoeffding_regret, ucb2_switches, ucb2_switches),
    "ucb2-b": Published(bai_bernstein_regret, ucb2_switches, ucb2_switches),
    "q-h": Published(None, doublings, doublings, _UNPROVED),
    "q-b": Published(None, doublings, doublings, _UNPROVED),
    "stage-q": Published(stage_regret, stage_switches, stage_switches),
    "ucb-advantage": Published(advantage_regret, stage_switches, stage_switches, _FIXED_LATE),
    "ucbvi": Published(ucbvi_regret, every_row, every_episode),
    "ucbvi-bf": Published(ucbvi_bernstein_regret, every_row, every_episode),
    "mvp": Published(mvp_regret, every_row_of(doublings), doublings),
    "psrl": Published(psrl_regret, every_row, every_episode, "Bayesian: not for a given problem"),
    "ucrl2": Published(
        ucrl2_regret, every_row_of(ucrl2_epochs), ucrl2_epochs, "proved for one long run only"
    ),
    "rmax": Published(None, every_row_of(entries_known), entries_known, _PAC),
}


def informative_from(order: Order, size: Setting, value: float) -> int:
    """The least K from which an order of the regret is below K times the best policy's value.

    The constant of the order is taken for 1, and size.K is not looked at. For a smaller K the order
    says nothing about a problem of this value: no learner that earns at least 0 can lose more.
    """
    if not value > 0:
        raise ValueError(
            f"the best policy must earn something for there to be a regret, not {value!r}"
        )

    def says_something(K: int) -> bool:
        return order(size._replace(K=K)) < K * value

    high = 1
    while not says_something(high):
        high *= 2
    low = high // 2  # says nothing, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if says_something(middle) else (middle, high)
    return high
