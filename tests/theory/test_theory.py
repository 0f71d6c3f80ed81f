"""Every bound by hand."""

import math
from fractions import Fraction

import pytest

import lowswitch as ls
from lowswitch import theory

SIZES = {"H": 2, "S": 3, "A": 4}


def test_switching_by_hand():
    assert theory.switch_bound(
        **SIZES, K=96, schedule=ls.parts.UCB2(eta=0.5, r_star=2)
    ) == pytest.approx(24 * (3 + math.log(100 / 4) / math.log(1.5)))
    assert theory.switch_order(**SIZES, K=96) == pytest.approx(8 * 12 * math.log(25))
    assert theory.trivial_switch_bound(H=2, K=96) == 190


def test_regret_by_hand():
    log = math.log(3 * 4 * 200 / 0.5)
    assert theory.iota(**SIZES, K=100, p=0.5) == log
    assert theory.regret_order(**SIZES, K=100, p=0.5, bonus="H") == pytest.approx(
        math.sqrt(16 * 12 * 200 * log)
    )
    assert theory.regret_order(**SIZES, K=100, p=0.5, bonus="B") == pytest.approx(
        math.sqrt(8 * 12 * 200) * log + math.sqrt(12**3 * 2**9) * log**2
    )
    assert theory.bernstein_burn_in_order(**SIZES) == 64 * 9 * 16


def test_machines_by_hand():
    assert theory.pac_episodes_order(**SIZES, eps=0.5, bonus="H") == 32 * 12 * 4
    assert theory.pac_episodes_order(**SIZES, eps=0.5, bonus="B") == 16 * 12 * 4
    assert theory.rounds_bound(K=100, M=8, deployments=5) == 18.5
    assert theory.rounds_order(**SIZES, eps=0.5, M=8, bonus="B") == 8 * 12 + 16 * 12 * 4 / 8
    assert theory.linear_machines_order(H=2, eps=0.5, bonus="H") == 16
    assert theory.linear_machines_order(H=2, eps=0.5, bonus="B") == 8
    for bonus in ("H", "B"):  # there both terms of the rounds are equal
        M = theory.linear_machines_order(H=2, eps=0.5, bonus=bonus)
        assert theory.rounds_order(**SIZES, eps=0.5, M=M, bonus=bonus) == 2 * 8 * 12
    assert theory.mistakes_order(**SIZES, eps=0.5, M=8, bonus="H") == pytest.approx(
        16 * 12 * 8 + 64 * 12 * 4
    )
    assert theory.cmbie_mistakes_order(**SIZES, eps=0.5, M=8) == 8 * 12 * 8 * 2 + 256 * 9 * 4 * 8


def test_the_lower_bound_by_hand():
    assert theory.printed_switch_threshold(**SIZES) == 12
    assert theory.corrected_switch_threshold(**SIZES) == 6 * (15 / 8 - 1)
    threshold = theory.corrected_switch_threshold(**SIZES)
    assert theory.lower_bound_regret(**SIZES, K=10, switches=threshold) == pytest.approx(
        10 * 2 / 4
    )  # K H / 4 there
    assert theory.lower_bound_regret(**SIZES, K=10, switches=10**9) == 0
    assert theory.lower_bound_regret(H=1, S=1, A=4, K=1, switches=0) == pytest.approx(1 - 2 / 5)


@pytest.mark.parametrize("H", [1, 3, 8])
def test_weights_by_hand(H):
    first, second, third = 1.0, (H + 1) / (H + 2), (H + 1) / (H + 3)
    expected = [first * (1 - second) * (1 - third), second * (1 - third), third]
    assert theory.learning_weights(3, H).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("H", "rounded"), [(2, 1.690), (3, 1.446), (5, 1.261), (10, 1.128)])
def test_error_accumulation_of_pure_ucb2(H, rounded):
    """S~_i for r* = 1 stays below its limit, the errata's number and far from 1 + 3 / H, and comes
    close to it at a late trigger.
    """
    pure, m = ls.parts.UCB2(r_star=1), 2 * H * (H + 1)
    limit = theory.error_accumulation_limit(H, pure)
    assert limit == pytest.approx(float(Fraction(H + 1, m) / (1 - Fraction(m, m + 1) ** H)))
    assert round(limit, 3) == rounded
    early = max(
        theory.error_accumulation(i, H, pure, limit=20_000)
        for i in range(1, min(2000, 30 * H * H), max(1, H // 2))
    )
    assert early < limit < 1 + 3 / H
    late = next(i for i in pure.triggers(horizon=H, limit=10**4).later if i > 8000)
    assert theory.error_accumulation(late, H, pure, limit=10**6) == pytest.approx(limit, rel=1e-3)


def test_error_accumulation_of_every_visit_is_the_plain_sum():
    assert theory.error_accumulation(
        5, 4, ls.parts.UCB2(r_star=500), limit=20_000
    ) == pytest.approx(1 + 1 / 4, rel=1e-3)
