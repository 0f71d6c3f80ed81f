"""The bounds of the paper as numbers.

A function named `..._bound` is an inequality with all its constants. One named `..._order` is the
expression inside the O of a theorem: it holds up to a constant that the paper does not give.
Compare its shape, not its height.

H steps, S states, A actions, K episodes, T = K H, iota = log(S A T / p). "B" in a name is the
Bernstein bonus, "H" the Hoeffding bonus.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from lowswitch.algorithms.schedules import UCB2

Bonus = Literal["H", "B"]


def iota(*, H: int, S: int, A: int, K: int, p: float) -> float:
    """log(S A T / p): Jin et al. 2018, Theorem 1."""
    return math.log(S * A * H * K / p)


def _hoeffding(bonus: Bonus) -> bool:
    if bonus not in ("H", "B"):
        raise ValueError(f'bonus must be "H" for Hoeffding or "B" for Bernstein, not {bonus!r}')
    return bonus == "H"


# ---- switching -----------------------------------------------------------------------------------


def switch_bound(*, schedule: UCB2, **size: int) -> float:
    """N_sw <= H S A (tau(r*) + log((K + A) / A) / log(1 + eta)).

    This is the proof of Bai et al. 2019, Theorem 2, with K + A for its K + H. The size is written
    as `horizon`, `states`, `actions` and `episodes`, as everywhere, or as H, S, A and K.
    """
    letters = {"H": "horizon", "S": "states", "A": "actions", "K": "episodes"}
    named = {letters.get(name, name): value for name, value in size.items()}
    if named.keys() != set(letters.values()) or len(named) < len(size):
        raise ValueError(
            "a bound on switches needs horizon, states, actions and episodes, not"
            f" {', '.join(size) or 'nothing'}"
        )
    return schedule.switch_bound(**named)


def switch_order(*, H: int, S: int, A: int, K: int) -> float:
    """H^3 S A log((K + A) / A), up to a constant: Bai et al. 2019, Theorems 2 and 3.

    They print log(K / A).
    """
    return H**3 * S * A * math.log((K + A) / A)


def trivial_switch_bound(*, H: int, K: int) -> int:
    """H (K - 1) between the first and the last episode, since only visited rows can change.

    The paper's H S (K - 1) is loose by a factor S.
    """
    return H * (K - 1)


# ---- regret --------------------------------------------------------------------------------------


def regret_order(*, H: int, S: int, A: int, K: int, p: float, bonus: Bonus) -> float:
    """sqrt(H^4 S A T iota), up to a constant: Bai et al. 2019, Theorem 2.

    With Bernstein it is sqrt(H^3 S A T iota^2) + sqrt(S^3 A^3 H^9 iota^4): Theorem 3.
    """
    T, log = K * H, iota(H=H, S=S, A=A, K=K, p=p)
    if _hoeffding(bonus):
        return math.sqrt(H**4 * S * A * T * log)
    return math.sqrt(H**3 * S * A * T * log**2) + math.sqrt(S**3 * A**3 * H**9 * log**4)


def bernstein_burn_in_order(*, H: int, S: int, A: int) -> int:
    """Theorem 3 holds from about T = H^6 S^2 A^2 steps on, up to a constant and logarithms."""
    return H**6 * S**2 * A**2


# ---- a single good policy ------------------------------------------------------------------------


def pac_episodes_order(*, H: int, S: int, A: int, eps: float, bonus: Bonus) -> float:
    """H^5 S A / eps^2 episodes, H^4 with Bernstein: Bai et al. 2019, Corollary 4.

    It holds up to a constant and logarithms.
    """
    return H ** (5 if _hoeffding(bonus) else 4) * S * A / eps**2


# ---- many machines -------------------------------------------------------------------------------


def rounds_bound(*, K: int, M: int, deployments: int) -> float:
    """R <= N_gl + 1 + K / M.

    The paper has N_sw + K / M: it forgets the last, unfinished phase, and the global cost is
    enough.
    """
    return deployments + 1 + K / M


def rounds_order(*, H: int, S: int, A: int, eps: float, M: int, bonus: Bonus) -> float:
    """H^3 S A + H^5 S A / (eps^2 M), H^4 with Bernstein: Bai et al. 2019, Theorem 5.

    It holds up to a constant and logarithms.
    """
    return H**3 * S * A + pac_episodes_order(H=H, S=S, A=A, eps=eps, bonus=bonus) / M


def linear_machines_order(*, H: int, eps: float, bonus: Bonus) -> float:
    """The speed-up is linear up to about H^2 / eps^2 machines, H / eps^2 with Bernstein.

    Bai et al. 2019, after Theorem 5: there the two terms of `rounds_order` are equal. It holds up
    to a constant and logarithms.
    """
    return H ** (2 if _hoeffding(bonus) else 1) / eps**2


def mistakes_order(*, H: int, S: int, A: int, eps: float, M: int, bonus: Bonus) -> float:
    """H^4 S A M + H^6 S A / eps^2, H^5 with Bernstein: Bai et al. 2019, section 4.

    These are H M actions in each of the rounds of `rounds_order`.
    """
    return H * M * rounds_order(H=H, S=S, A=A, eps=eps, M=M, bonus=bonus)


def cmbie_mistakes_order(*, H: int, S: int, A: int, eps: float, M: int) -> float:
    """H^3 S A M / eps + H^8 S^2 A / eps^3: Guo and Brunskill 2015.

    As the paper does, H S stands for its S and H for its 1 / (1 - gamma).
    """
    return H**3 * S * A * M / eps + H**8 * S**2 * A / eps**3


# ---- the lower bound -----------------------------------------------------------------------------


def printed_switch_threshold(*, H: int, S: int, A: int) -> float:
    """H S A / 2 switches: Bai et al. 2019, Theorem 6, whose proof does not hold.

    Up to them regret >= K H / 4 is claimed, for A >= 4.
    """
    return H * S * A / 2


def corrected_switch_threshold(*, H: int, S: int, A: int) -> float:
    """H S (3 (A + 1) / 8 - 1) switches.

    At or below it, regret >= K H / 4 on the paper's own family, on average over a*.
    """
    return H * S * (3 * (A + 1) / 8 - 1)


def lower_bound_regret(*, H: int, S: int, A: int, K: int, switches: float) -> float:
    """K (H - 2 (H + N_sw / S) / (A + 1)), or 0.

    It is a lower bound on the mean regret, over the family M_{a*}, of a learner with
    `switches` switches.
    """
    return K * max(0.0, H - 2 * (H + switches / S) / (A + 1))


# ---- lemmas --------------------------------------------------------------------------------------


def learning_weights(t: int, H: int) -> np.ndarray:  # [t]
    """alpha_t^i = alpha_i (1 - alpha_{i+1}) ... (1 - alpha_t), i = 1 .. t.

    Jin et al. 2018, eq. (4.2).
    """
    alpha: np.ndarray = (H + 1) / (H + np.arange(1, t + 1))
    kept = np.append(np.cumprod((1 - alpha)[:0:-1])[::-1], 1.0)
    return np.asarray(alpha * kept)


def error_accumulation(i: int, H: int, schedule: UCB2, limit: int) -> float:
    """An upper bound on S~_i of Bai et al. 2019, Lemma "error accumulation".

    The sum is exact up to t = limit and bounded beyond. It is over t >= i of alpha_s^i with s = t
    where no trigger lies in [i, t], else s the last trigger up to t. The tail of the plain sum is
    the rest of 1 + 1/H; beyond `limit` each of its terms grows by at most (1 + (H + 1) /
    s)^(eta s) <= exp(eta (H + 1)).
    """
    triggers = schedule.triggers(horizon=H, limit=limit)
    marks = np.array([*range(1, triggers.every_until + 1), *triggers.later])
    t = np.arange(i, limit + 1)
    alpha = (H + 1) / (H + t)
    weights = alpha[0] * np.append(1.0, np.cumprod(1 - alpha[1:]))  # alpha_t^i, t = i .. limit
    last = marks[np.searchsorted(marks, t, side="right") - 1]
    used = np.where(last >= i, last, t)
    tail = 1 + 1 / H - weights.sum()
    growth = float(schedule.growth(H)) - 1
    return float(weights[used - i].sum() + tail * math.exp(growth * (H + 1)))


def error_accumulation_limit(H: int, schedule: UCB2) -> float:
    """eta (H + 1) / (1 - (1 + eta)^-H), to which S~_i tends from below along the triggers i.

    This is so for every r*. Own derivation: for large i, alpha_t^i is (H + 1) / i (i / t)^(H + 1),
    and from a trigger i on the j-th stretch between triggers, of length eta (1 + eta)^j i, counts
    that at its beginning.
    """
    eta = schedule.eta_value(H)
    return eta * (H + 1) / -math.expm1(-H * math.log1p(eta))
