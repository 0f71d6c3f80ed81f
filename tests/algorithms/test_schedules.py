"""Triggers are integers, so they are written out."""

import math
from fractions import Fraction

import pytest

import lowswitch as ls
from lowswitch.algorithms.parts import (
    UCB2,
    Budget,
    EveryEpisodes,
    EveryVisit,
    Grid,
    Growth,
    Stages,
    Visits,
    WholePolicy,
)
from lowswitch.algorithms.powers import batch_ends, distinct_powers


def test_every_visit_is_a_trigger():
    triggers = EveryVisit().triggers(horizon=3, limit=10)
    assert triggers.first(4) == [1, 2, 3, 4]
    assert triggers.count(7) == 7


def test_half_steps_written_out():
    # 1.5^r = 1.5, 2.25, 3.375, 5.06, 7.59, 11.4, 17.1, 25.6; stage I ends at tau(2) = 3
    triggers = UCB2(eta=0.5, r_star=2).triggers(horizon=4, limit=30)
    assert triggers.every_until == 3
    assert triggers.first(9) == [1, 2, 3, 4, 6, 8, 12, 18, 26]


def test_pure_ucb2_begins_at_two():
    # tau(1) = ceil(1.25) = 2; then ceil of 1.56, 1.95, 2.44, 3.05, 3.81, 4.77, 5.96, 7.45, 9.31
    triggers = UCB2(eta=0.25, r_star=1).triggers(horizon=1, limit=10)
    assert triggers.first(10) == [1, 2, 3, 4, 5, 6, 8, 10]


def test_theory_values_when_the_horizon_is_one():
    # eta = 1/4, r* = ceil(log 10 / log 1.25) = 11, tau(11) = ceil(11.64) = 12; then 14.55, 18.19,
    # 22.74, 28.42
    triggers = UCB2().triggers(horizon=1, limit=30)
    assert triggers.every_until == 12
    assert triggers.later == (15, 19, 23, 29)


def test_theory_values_when_the_horizon_is_two():
    # eta = 1/12, r* = ceil(log 40 / log(13/12)) = 47, tau(47) = ceil(43.03) = 44; then 46.6, 50.5,
    # 54.7, 59.3
    triggers = UCB2().triggers(horizon=2, limit=60)
    assert triggers.every_until == 44
    assert triggers.later == (47, 51, 55, 60)


@pytest.mark.parametrize("r_star", [8, 9, 10**9])  # tau(8) = ceil(25.6), tau(9) = ceil(38.4)
def test_a_stage_one_beyond_the_limit_ends_there(r_star):
    triggers = UCB2(eta=0.5, r_star=r_star).triggers(horizon=4, limit=25)
    assert (triggers.every_until, triggers.later) == (25, ())
    assert triggers.count(39) == 25


@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 10, 20])
def test_stage_one_lasts_ten_h_squared_visits(horizon):
    eta = 1 / (2 * horizon * (horizon + 1))
    until = UCB2().triggers(horizon=horizon, limit=10**6).every_until
    assert 10 * horizon**2 <= until <= (1 + eta) * 10 * horizon**2 + 1


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_powers_are_rounded_up_exactly(horizon):
    m = 2 * horizon * (horizon + 1)
    exact = sorted({math.ceil(Fraction(m + 1, m) ** r) for r in range(1, 400)})
    growth = UCB2().growth(horizon)
    assert list(distinct_powers(growth, first=1, limit=exact[-1])) == exact


def test_below_one_over_eta_every_integer_is_a_trigger():
    horizon = 5
    early = list(
        distinct_powers(UCB2().growth(horizon), first=1, limit=2 * horizon * (horizon + 1))
    )
    assert early == list(range(2, 2 * horizon * (horizon + 1) + 1))


def test_the_bound_counts_at_least_the_triggers_of_one_action():
    schedule, K = UCB2(eta=0.1, r_star=5), 10**5
    triggers = schedule.triggers(horizon=2, limit=K)
    assert triggers.count(K) <= schedule.switch_bound(horizon=1, states=1, actions=1, episodes=K)


def test_the_bound_by_hand():
    # H S A (tau(2) + log((K + A) / A) / log(1.5)) = 2 * 3 * 4 * (3 + log(25) / log(1.5))
    bound = UCB2(eta=0.5, r_star=2).switch_bound(horizon=2, states=3, actions=4, episodes=96)
    assert bound == pytest.approx(24 * (3 + math.log(25) / math.log(1.5)))
    assert EveryVisit().switch_bound(horizon=2, states=3, actions=4, episodes=96) == 2 * 96


@pytest.mark.parametrize("eta", [0, 1, -0.1, 2, math.nan, "tiny"])
def test_eta_outside_the_unit_interval_is_refused(eta):
    with pytest.raises(ValueError, match=f"eta must lie strictly between 0 and 1.*{eta}"):
        UCB2(eta=eta)


@pytest.mark.parametrize("r_star", [0, -1, 1.5])
def test_r_star_below_one_is_refused(r_star):
    with pytest.raises(ValueError, match=f"r_star must be an integer of at least 1.*{r_star}"):
        UCB2(r_star=r_star)


# ---- the field -----------------------------------------------------------------------------------


def test_doubling_and_tripling_written_out():
    assert Growth(2).triggers(horizon=3, limit=20).first(9) == [1, 2, 4, 8, 16]
    assert Growth(3).triggers(horizon=3, limit=100).first(9) == [1, 3, 9, 27, 81]
    # 1, 1.5, 2.25, 3.4, 5.1, 7.6, ...
    assert Growth(1.5).triggers(horizon=3, limit=30).first(9) == [1, 2, 3, 4, 6, 8, 12, 18, 26]


def test_stages_grow_by_half_when_the_horizon_is_two():
    # 2 visits, then 3, 4, 6, 9 more
    assert Stages().triggers(horizon=2, limit=30).first(9) == [2, 5, 9, 15, 24]
    assert Stages().triggers(horizon=1, limit=40).first(9) == [1, 3, 7, 15, 31]
    assert Stages().triggers(horizon=5, limit=4) == (0, ())


def test_visits_are_the_counts_given():
    assert Visits((3, 7, 50)).triggers(horizon=1, limit=20).first(9) == [3, 7]


def test_grids_written_out():
    assert Grid("equal", 4).grid(100) == (25, 50, 75)
    assert Grid("geometric", 3).grid(1000) == (10, 100)
    # minimax, 3 batches: a = K^(1 / (2 - 1/4)) = K^(4/7); u_2 = a^(3/2) = K^(6/7)
    assert Grid("minimax", 3).grid(10**7) == (10**4, 10**6)
    # ends that fall together
    assert Grid("geometric", 50).grid(20) == tuple(range(1, 19))
    assert Grid((5, 50, 500)).grid(500) == (5, 50)
    assert Grid((5, 50, 500)).grid(40) == (5,)
    assert Grid("equal", 1).grid(10) == ()


def test_every_so_many_episodes_written_out():
    assert list(EveryEpisodes(7).grid(27)) == [7, 14, 21]
    assert list(EveryEpisodes(7).grid(21)) == [7, 14, 21]  # the last episode too
    assert list(EveryEpisodes(7).grid(6)) == []
    many = EveryEpisodes(2).grid(2 * 10**9)  # takes no memory
    assert (len(many), many[-1]) == (10**9, 2 * 10**9)


def test_the_ends_of_seven_minimax_batches_are_exact():
    """u_m = K^((2^7 - 2^(7-m)) / 127); in doubles the fourth end is 177,294,778."""
    ends = batch_ends("minimax", 2**29, 7)
    assert ends[3] == 177_294_777
    for m, end in enumerate(ends, start=1):
        assert end**127 <= 2 ** (29 * (2**7 - 2 ** (7 - m))) < (end + 1) ** 127
    assert Grid("minimax", 7).grid(2**29) == ends[:-1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Grid((5, 50)).grid(51),
            "the grid ends at episode 50, before the last of 51; add 51 as the last end",
        ),
        (lambda: Grid((5, 5)), r"the ends of a grid must increase, .* not \(5, 5\)"),
        (lambda: Grid((5, 3)), "must increase"),
        (lambda: Grid(()), "at least one"),
        (lambda: Grid((0, 3)), "whole number from 1 to .*, not 0"),
        (lambda: Grid(7), "must be whole numbers in increasing order, not 7"),
        (
            lambda: Grid("even", 3),
            'the ends of a grid must be "equal", "geometric" or "minimax", not \'even\'',
        ),
        (
            lambda: Grid("equal"),
            "the size of a grid must be a whole number from 1 to .*, not None",
        ),
        (lambda: Grid((3, 4), 2), "a grid given by its ends takes its size from them"),
        (
            lambda: Budget(schedule=Growth(2), deployments=0),
            "a budget of deployments must be a whole number from 1 to .*, not 0",
        ),
        (
            lambda: Budget(schedule=Growth(2), switches=-3),
            "a budget of switches must be a whole number from 1 to .*, not -3",
        ),
        (
            lambda: Budget(schedule=Growth(2)),
            "a budget needs a number of deployments or of switches",
        ),
        (
            lambda: Budget(schedule="growth", switches=3),
            "a budget applies to a schedule such as Growth",
        ),
        (lambda: Growth(1), "a growth factor must be a number above 1, not 1"),
        (lambda: WholePolicy(math.nan), "a growth factor must be a number above 1, not nan"),
        (lambda: WholePolicy(2, least=0), "least must be a whole number from 1 to .*, not 0"),
        (lambda: Visits((2.5,)), "counts must be a whole number"),
        (lambda: EveryEpisodes(0), "episodes must be a whole number from 1 to .*, not 0"),
        (lambda: EveryEpisodes(2.5), "episodes must be a whole number from 1 to .*, not 2.5"),
    ],
)
def test_bad_schedules_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bounds_of_the_field_by_hand():
    size = {"horizon": 2, "states": 3, "actions": 4, "episodes": 1000}
    assert Growth(2).refresh_bound(**size) == 24 * 10  # 1, 2, ..., 512
    assert WholePolicy(2).refresh_bound(**size) == 24 * 10
    assert WholePolicy(10, least=10).refresh_bound(**size) == 24 * 3  # 10, 100, 1000
    assert Grid("equal", 5).refresh_bound(**size) == 4
    assert Grid("equal", 5).switch_bound(**size) == 2 * 3 * 4
    assert EveryEpisodes(7).refresh_bound(**size) == 142  # 7, 14, ..., 994
    assert EveryEpisodes(7).switch_bound(**size) == 2 * 3 * 142
    assert Budget(schedule=Growth(2), deployments=7).refresh_bound(**size) == 7
    assert Budget(schedule=Growth(2), deployments=7).switch_bound(**size) == 7 * 6
    assert Budget(schedule=Growth(2), switches=5).switch_bound(**size) == 5
    assert EveryVisit().refresh_bound(**size) == 1000


def test_the_bound_of_the_theory_has_the_words_of_the_library_and_the_letters_of_the_paper():
    size = {"horizon": 2, "states": 3, "actions": 4, "episodes": 96}
    bound = UCB2().switch_bound(**size)
    assert ls.theory.switch_bound(**size, schedule=UCB2()) == bound
    assert ls.theory.switch_bound(H=2, S=3, A=4, K=96, schedule=UCB2()) == bound
    for wrong in ({}, {"H": 2}, {**size, "K": 96}):
        with pytest.raises(ValueError, match="needs horizon, states, actions and episodes, not"):
            ls.theory.switch_bound(**wrong, schedule=UCB2())
