import json
import math

import pytest

import lowswitch as ls
from lowswitch.algorithms import RECIPES, Algorithm
from lowswitch.naming import build


@pytest.mark.parametrize("recipe", RECIPES.values())
def test_an_algorithm_survives_a_trip_through_json(recipe):
    algorithm = recipe(c=0.3, p=0.01, clip="remaining")
    assert Algorithm.from_dict(json.loads(json.dumps(algorithm.to_dict()))) == algorithm


def test_a_name_and_options_read_back():
    algorithm = ls.ucb2_bernstein(c1=0.1, c2=0.2, eta=0.25, r_star=1, clip="remaining")
    assert str(algorithm) == "ucb2-b:clip=remaining,c1=0.1,c2=0.2,eta=0.25,r_star=1"
    assert build(str(algorithm), RECIPES, "algorithm") == algorithm


def test_equal_scales_are_written_as_one():
    assert str(ls.ucb_bernstein(c=0.05)) == "ucb-b:c=0.05"
    assert str(ls.ucb_bernstein()) == "ucb-b"
    assert str(ls.ucb2_hoeffding(c=0.05, p=0.1)) == "ucb2-h:c=0.05,p=0.1"


def test_the_published_ones_differ_only_in_bonus_and_schedule():
    assert ls.ucb_hoeffding() == Algorithm(estimator=ls.QLearning(), bonus=ls.Hoeffding(c=1.0), schedule=ls.EveryVisit(), p=0.05)
    assert ls.ucb2_hoeffding() == Algorithm(estimator=ls.QLearning(), bonus=ls.Hoeffding(c=1.0), schedule=ls.UCB2(), p=0.05)
    assert ls.ucb_bernstein(c=2).bonus == ls.Bernstein(c1=2, c2=2)
    assert ls.ucb2_bernstein(c=2, c2=3).bonus == ls.Bernstein(c1=2, c2=3)


def test_iota_by_hand():
    assert ls.ucb_hoeffding(p=0.5).iota(horizon=2, states=3, actions=5, episodes=7) == math.log(3 * 5 * 2 * 7 / 0.5)


def test_caps():
    assert ls.QLearning().caps(3).tolist() == [3, 3, 3]
    assert ls.QLearning(clip="remaining").caps(3).tolist() == [3, 2, 1]


@pytest.mark.parametrize("c", [0, -1, math.nan, math.inf, "big"])
@pytest.mark.parametrize("recipe", RECIPES.values())
def test_a_scale_that_is_not_positive_is_refused(recipe, c):
    with pytest.raises(ValueError, match=f"c must be a positive number, not {c!r}"):
        recipe(c=c)


@pytest.mark.parametrize("p", [0, 1, -1, math.nan])
def test_a_probability_outside_the_unit_interval_is_refused(p):
    with pytest.raises(ValueError, match="p must lie strictly between 0 and 1"):
        ls.ucb_hoeffding(p=p)


def test_unknown_clip():
    with pytest.raises(ValueError, match='clip must be "horizon" or "remaining", not \'none\''):
        ls.ucb_hoeffding(clip="none")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ucb3-h", "unknown algorithm 'ucb3-h'; did you mean 'ucb"),
        ("zzz", "unknown algorithm 'zzz'; known are ucb-b, ucb-h, ucb2-b, ucb2-h"),
        ("ucb-h:c", "'c' is not of the form key=value"),
        ("ucb-h:d=1", "ucb-h has no option 'd'"),
        ("ucb2-h:etta=0.1", "did you mean 'eta'"),
    ],
)
def test_unknown_names_get_the_nearest_one(text, message):
    with pytest.raises(ValueError, match=message):
        build(text, RECIPES, "algorithm")


def test_unknown_parts_in_a_file():
    data = ls.ucb_hoeffding().to_dict() | {"bonus": {"kind": "Hofding", "c": 1.0}}
    with pytest.raises(ValueError, match="unknown bonus 'Hofding'; did you mean 'Hoeffding'"):
        Algorithm.from_dict(data)
