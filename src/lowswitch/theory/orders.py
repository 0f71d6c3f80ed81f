"""The published orders of every recipe's regret, local switches and deployments, as numbers.

An order is what stands inside the O of its source: constants are 1, logarithms are as printed, and
where only an O~ is published there are none. It may be compared in shape but not in height. All are
for transitions that depend on the step. Where the source has stationary ones, HS stands here for
its S, since a problem of H steps is a stationary one of H S states.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lowswitch import theory


class Sizes(NamedTuple):
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


Order = Callable[[Sizes], float]


# ---- regret --------------------------------------------------------------------------------------


def hoeffding_regret(size: Sizes) -> float:
    """sqrt(H^4 S A T iota): Jin et al. 2018, Theorem 1; Bai et al. 2019, Theorem 2."""
    return theory.regret_order(**size._asdict(), bonus="H")


def jin_bernstein_regret(size: Sizes) -> float:
    """sqrt(H^3 S A T iota) + sqrt(H^9 S^3 A^3) iota^2: Jin et al. 2018, Theorem 2."""
    H, S, A = size[:3]
    return (
        math.sqrt(H**3 * S * A * size.steps * size.iota)
        + math.sqrt(H**9 * S**3 * A**3) * size.iota**2
    )


def bai_bernstein_regret(size: Sizes) -> float:
    """sqrt(H^3 S A T iota^2) + sqrt(H^9 S^3 A^3 iota^4): Bai et al. 2019, Theorem 3."""
    return theory.regret_order(**size._asdict(), bonus="B")


def stage_regret(size: Sizes) -> float:
    """sqrt(H^4 S A T iota): ours, the argument of Jin et al. 2018, Theorem 1, for stages of Zhang,
    Zhou, Ji 2020.
    """
    return hoeffding_regret(size)


def advantage_regret(size: Sizes) -> float:
    """sqrt(H^2 S A T): Zhang, Zhou, Ji 2020, Theorem 1, without its logarithms."""
    return math.sqrt(size.H**2 * size.S * size.A * size.steps)


def ucbvi_log(size: Sizes) -> float:
    """L = log(5 H S A T / p): Azar, Osband, Munos 2017, Theorems 1 and 2."""
    return math.log(5 * size.H * size.S * size.A * size.steps / size.p)


def ucbvi_regret(size: Sizes) -> float:
    """L sqrt(H^3 S A T) + H^4 S^2 A L^2: Azar, Osband, Munos 2017, Theorem 1, with HS for S."""
    L = ucbvi_log(size)
    return (
        L * math.sqrt(size.H**3 * size.S * size.A * size.steps)
        + size.H**4 * size.S**2 * size.A * L**2
    )


def ucbvi_bernstein_regret(size: Sizes) -> float:
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


def mvp_regret(size: Sizes) -> float:
    """min{sqrt(H^3 S A K log(H S A K / p)^5), H K}: Zhang, Chen, Lee, Du 2024, Theorem 1."""
    H, S, A, K, p = size
    return min(math.sqrt(H**3 * S * A * K * math.log(H * S * A * K / p) ** 5), H * K)


def ucrl2_regret(size: Sizes) -> float:
    """H^2 S sqrt(A T log(T / p)): Jaksch, Ortner, Auer 2010, Theorem 2, with HS for S and H for the
    diameter.
    """
    return size.H**2 * size.S * math.sqrt(size.A * size.steps * math.log(size.steps / size.p))


def psrl_regret(size: Sizes) -> float:
    """H^2 S sqrt(A T log(H S A T)): Osband, Russo, Van Roy 2013, Theorem 1, with HS for S; in the
    mean over the prior.
    """
    H, S, A = size[:3]
    return H**2 * S * math.sqrt(A * size.steps * math.log(H * S * A * size.steps))


# ---- local switches and deployments --------------------------------------------------------------


def every_episode(size: Sizes) -> float:
    """K: trivial, the policy may change after every episode."""
    return size.K


def visited_rows(size: Sizes) -> float:
    """H K: trivial, only the H rows that an episode visits can change."""
    return size.H * size.K


def every_row(size: Sizes) -> float:
    """H S K: trivial, a plan may change every row after every episode."""
    return size.H * size.S * size.K


def ucb2_switches(size: Sizes) -> float:
    """H^3 S A log((K + A) / A): Bai et al. 2019, Theorems 2 and 3, which print log(K / A)."""
    return theory.switch_order(H=size.H, S=size.S, A=size.A, K=size.K)


def stage_switches(size: Sizes) -> float:
    """H^2 S A log T: Zhang, Zhou, Ji 2020, on the local switching cost."""
    return size.H**2 * size.S * size.A * math.log(size.steps)


def doublings(size: Sizes) -> float:
    """H S A (1 + log2 K): Zhang, Chen, Lee, Du 2024, for MVP; any schedule that doubles counts."""
    return size.H * size.S * size.A * (1 + math.log2(size.K))


def ucrl2_epochs(size: Sizes) -> float:
    """H S A log2(8 T / (H S A)): Jaksch, Ortner, Auer 2010, Proposition 18, with HS for S; for T >=
    H S A.
    """
    entries = size.H * size.S * size.A
    return entries * math.log2(8 * size.steps / entries)


def entries_known(size: Sizes) -> float:
    """H S A: Brafman, Tennenholtz 2002, where each entry becomes known once."""
    return size.H * size.S * size.A


def rows_of_doublings(size: Sizes) -> float:
    """H S times the deployments: a plan may change every row."""
    return size.H * size.S * doublings(size)


def rows_of_epochs(size: Sizes) -> float:
    """H S times the deployments: a plan may change every row."""
    return size.H * size.S * ucrl2_epochs(size)


def rows_of_known(size: Sizes) -> float:
    """H S times the deployments: a plan may change every row."""
    return size.H * size.S * entries_known(size)


# ---- by recipe -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Published:
    """The orders of one recipe with its published schedule at c = 1; no regret where there is no
    order for it.
    """

    regret: Order | None
    switches: Order
    deployments: Order
    remark: str = ""


PUBLISHED: dict[str, Published] = {
    "ucb-h": Published(regret=hoeffding_regret, switches=visited_rows, deployments=every_episode),
    "ucb-b": Published(
        regret=jin_bernstein_regret, switches=visited_rows, deployments=every_episode
    ),
    "ucb2-h": Published(regret=hoeffding_regret, switches=ucb2_switches, deployments=ucb2_switches),
    "ucb2-b": Published(
        regret=bai_bernstein_regret, switches=ucb2_switches, deployments=ucb2_switches
    ),
    "q-h": Published(
        regret=None,
        switches=doublings,
        deployments=doublings,
        remark="no regret is published for rows that double",
    ),
    "q-b": Published(
        regret=None,
        switches=doublings,
        deployments=doublings,
        remark="no regret is published for rows that double",
    ),
    "stage-q": Published(regret=stage_regret, switches=stage_switches, deployments=stage_switches),
    "ucb-advantage": Published(
        regret=advantage_regret,
        switches=stage_switches,
        deployments=stage_switches,
        remark=(
            "from about K = H^27 S^6 A^4 on (Zhang et al. 2024, Table 1), and for a reference of"
            " H^6 S A iota visits, not 100"
        ),
    ),
    "ucbvi": Published(regret=ucbvi_regret, switches=every_row, deployments=every_episode),
    "ucbvi-bf": Published(
        regret=ucbvi_bernstein_regret, switches=every_row, deployments=every_episode
    ),
    "mvp": Published(regret=mvp_regret, switches=rows_of_doublings, deployments=doublings),
    "psrl": Published(
        regret=psrl_regret,
        switches=every_row,
        deployments=every_episode,
        remark="Bayesian: not for a given problem",
    ),
    "ucrl2": Published(
        regret=ucrl2_regret,
        switches=rows_of_epochs,
        deployments=ucrl2_epochs,
        remark="proved for one long run only",
    ),
    "rmax": Published(
        regret=None,
        switches=rows_of_known,
        deployments=entries_known,
        remark=(
            "a PAC guarantee, no regret; with `known` fixed the policy is fixed in the end, and"
            " regret may be linear"
        ),
    ),
}


def informative_from(order: Order, size: Sizes, value: float) -> int:
    """The least K from which an order of the regret, its constant taken for 1, is below K times the
    value of the best policy.

    Before it the order says nothing about a problem of this value: no learner that earns at least 0
    can lose more. size.K is not looked at.
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
