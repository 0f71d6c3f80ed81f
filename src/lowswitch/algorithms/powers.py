"""Powers rounded to whole numbers without error, and the batch grids made from them.

A floating-point power is sometimes rounded to the wrong side of a whole number, and a schedule that
is off by one is a different schedule. So everything here is exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Literal

CONTEXT = Context(prec=60)
MOST_POINTS = 2**25  # of a schedule; more would take minutes and gigabytes to compute
_MOST_BATCHES = {"equal": MOST_POINTS, "geometric": 10**5, "minimax": 10**3}

GridKind = Literal["equal", "geometric", "minimax"]


def distinct_powers(growth: Decimal, *, first: int, limit: int) -> Iterator[int]:
    """The distinct values of ceil(growth^r) for r = first, first + 1, ... up to `limit`."""
    power, last = CONTEXT.power(growth, first), 0
    while (tau := math.ceil(power)) <= limit:
        if tau > last:
            yield tau
            last = tau
        power = CONTEXT.multiply(power, growth)


@functools.lru_cache(maxsize=1)  # the bound and the run both ask, one after the other
def counts_at(growth: Decimal, eta: float, first: int, limit: int) -> tuple[int, tuple[int, ...]]:
    """Every count up to ceil(growth^first), then the distinct ceil(growth^r), up to `limit`.

    `eta` is growth - 1. Returns the count up to which every count is included, and the counts after
    it.
    """
    if eta * limit <= 1:
        return limit, ()
    # Up to 1 / eta neighbouring powers differ by at most 1, so every integer is among them anyway.
    exponent = max(first, int(-math.log(eta) / math.log1p(eta)))
    if exponent > 2**1000 or exponent * math.log1p(eta) >= math.log(limit):
        return limit, ()
    most = math.log(limit) / math.log1p(eta)
    if most - exponent > MOST_POINTS:
        raise ValueError(
            f"counts that grow by a fraction of {eta:g} are about {most - exponent:,.0f} "
            f"up to {limit:,}, more than {MOST_POINTS:,}; give a larger eta or factor"
        )
    every_until = math.ceil(CONTEXT.power(growth, exponent))
    powers = distinct_powers(growth, first=exponent, limit=limit)
    return min(every_until, limit), tuple(tau for tau in powers if tau > every_until)


def floor_power(base: int, exponent: Fraction) -> int:
    """floor(base^exponent), correct also for whole powers: 128^(4/7) is 16, but less in floating
    point.

    For an exponent p/q in lowest terms, the power is whole only if `base` is a q-th power, so q is
    at most log2(base); that case is compared in integers. Otherwise the power is irrational, and 60
    more digits than q has distinguish it from every integer.
    """
    p, q = exponent.numerator, exponent.denominator
    if p == 1 and base.bit_length() < 40 * q:
        return _floor_root(base, q)
    context = Context(prec=60 + len(str(q)))
    power = context.power(base, context.divide(p, q))
    close = int(power.to_integral_value(ROUND_HALF_EVEN))
    whole = q <= base.bit_length() and close**q == base**p
    return close if whole else math.floor(power)


def _floor_root(base: int, q: int) -> int:
    """floor(base^(1/q)) below 2^40, in integers; decimals with thousands of digits take minutes."""
    root = round(math.exp(math.log(base) / q))  # off by at most one
    while root**q > base:
        root -= 1
    while (root + 1) ** q <= base:
        root += 1
    return root


@functools.lru_cache(maxsize=64)
def batch_ends(kind: GridKind, total: int, batches: int) -> tuple[int, ...]:
    """The ends t_1, ..., t_M of the batches of a named grid, where t_M is the total T.

    Each t_m is rounded down, and ends may coincide. "geometric" and "minimax" are from Gao, Han,
    Ren, Zhou 2019, section 2, who leave a constant in a and b free; here it is 1, as in the
    authors' program.

    Parameters
    ----------
    kind
        "equal": T m / M. "geometric": u_1 = b, u_m = b u_{m-1} with b = T^(1/M). "minimax": u_1 =
        a, u_m = a sqrt(u_{m-1}) with a = T^(1 / (2 - 2^(1-M))), so u_m = T^((2^M - 2^(M-m)) / (2^M
        - 1)).
    total
        T.
    batches
        M.
    """
    if batches > _MOST_BATCHES[kind]:
        raise ValueError(
            f"the {kind} grid of {batches:,} batches would take too long to compute, and "
            f"most of its ends would coincide; use at most {_MOST_BATCHES[kind]:,}"
        )
    numbers = range(1, batches + 1)
    if kind == "equal":
        return tuple(total * m // batches for m in numbers)
    if kind == "geometric":
        exponents = [Fraction(m, batches) for m in numbers]
    else:
        exponents = [Fraction(2**batches - 2 ** (batches - m), 2**batches - 1) for m in numbers]
    return tuple(floor_power(total, exponent) for exponent in exponents)
