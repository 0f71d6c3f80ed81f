import dataclasses
import inspect
import json
import math

import pytest

import lowswitch as ls
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import as_schedule, build, schedule_text

EXAMPLES = [
    *(recipe() for name, recipe in RECIPES.items() if name != "few"),
    ls.few(deployments=10),
    ls.ucb_hoeffding(c=0.3, p=0.01, clip="remaining", deployments=7),
    ls.ucb2_bernstein(c1=0.3, c2=0.2, eta=0.5, r_star=2, switches=70),
    ls.q_hoeffding(schedule="whole/1.5/4", deployments=3, switches=9),
    ls.q_bernstein(c1=0.3, schedule=ls.parts.Grid("minimax", 5)),
    ls.stage_q(c=0.1, schedule=ls.parts.Growth(3)),
    ls.ucb_advantage(c=0.1, reference=7, deployments=1),
    ls.ucb_advantage(c=0.1, reference="settled", settle=0.25),
    ls.early_settled(c=0.1, settle=2, schedule="growth/2"),
    ls.algorithms.larfe(phase=20, members=6, threshold=1, deployments=5),
    ls.algorithms.multi_batch(phase=20, members=6, threshold=1, c=0.3, deployments=5),
    ls.staged_randql(kappa=2, prior=0.5, schedule="growth/2"),
    ls.fedq_bernstein(c1=0.3, machines=10, deployments=4),
    ls.fedq_advantage(reference="settled", machines=3),
    ls.ucbvi(c=0.1, pooled=True, schedule="grid/geometric/12"),
    ls.ucbvi_bernstein(c=0.1, schedule=ls.parts.Grid((10, 100, 1000))),
    ls.mvp(c=0.01, data="all", schedule=ls.parts.Visits((1, 5, 25))),
    ls.ucrl2(c=0.1, pooled=True, schedule="whole/3"),
    ls.rmax(known=4, pooled=True, switches=5),
    ls.mbie(c=0.05, most_visits=20, schedule="episodes/7"),
    ls.mbie(clip="horizon", p=0.01, scales=(1, 0.1), deployments=3),
    ls.psrl(prior=0.25, members=8, schedule="grid/equal/10", deployments=4, last="greedy"),
    ls.ucb2_hoeffding(c=0.05, scales=(1, 0.3, 1e-5, 0)),
    ls.linear(deployments=10),
    ls.linear(members=8, c=0.3, schedule="determinant/budget/2", deployments=5, last="usual"),
    ls.linucb(c=0.2, width="unit", schedule="every", ridge=0.5),
]


@pytest.mark.parametrize("algorithm", EXAMPLES, ids=str)
def test_an_algorithm_survives_a_trip_through_json_and_through_text(algorithm):
    assert Algorithm.from_dict(json.loads(json.dumps(algorithm.to_dict()))) == algorithm
    assert Algorithm.from_text(str(algorithm)) == algorithm


def test_every_recipe_is_an_example():
    assert {str(algorithm).partition(":")[0] for algorithm in EXAMPLES} == set(RECIPES)


def test_a_name_and_options_read_back():
    algorithm = ls.ucb2_bernstein(c1=0.1, c2=0.2, eta=0.25, r_star=1, clip="remaining")
    assert str(algorithm) == "ucb2-b:clip=remaining,c1=0.1,c2=0.2,eta=0.25,r_star=1"
    assert build(str(algorithm), RECIPES, "algorithm") == algorithm


def test_an_algorithm_keeps_the_name_of_its_recipe():
    every = ls.q_hoeffding(c=0.3, schedule="every")
    assert every == ls.ucb_hoeffding(c=0.3)
    assert hash(every) == hash(ls.ucb_hoeffding(c=0.3))
    assert (str(every), every.recipe) == ("q-h:c=0.3,schedule=every", "q-h")
    assert str(ls.ucb_hoeffding(c=0.3)) == "ucb-h:c=0.3"
    back = Algorithm.from_dict(json.loads(json.dumps(every.to_dict())))
    assert (str(back), back.recipe) == (str(every), "q-h")


@pytest.mark.parametrize("algorithm", EXAMPLES, ids=str)
def test_a_recipe_is_saved_only_where_it_is_not_the_first_that_makes_the_algorithm(algorithm):
    """So that files, digests and checkpoints of before are those of today."""
    data = algorithm.to_dict()
    assert "recipe" not in data
    assert Algorithm.from_dict(data).recipe == algorithm.recipe == str(algorithm).partition(":")[0]


def test_a_part_that_is_replaced_leaves_no_name_that_lies():
    algorithm = ls.ucb_hoeffding(c=0.3)
    other = dataclasses.replace(algorithm, schedule=ls.parts.Growth(2))
    assert (str(other), other.recipe) == ("q-h:c=0.3", None)
    cautious = dataclasses.replace(ls.q_hoeffding(schedule="every"), p=0.5)
    assert (str(cautious), cautious.recipe) == ("q-h:schedule=every,p=0.5", "q-h")
    few = ls.parts.Budget(schedule=algorithm.schedule, deployments=7)
    assert str(dataclasses.replace(algorithm, schedule=few)) == "ucb-h:c=0.3,deployments=7"
    assert dataclasses.replace(algorithm, recipe="zzz").recipe is None


def test_an_algorithm_assembled_by_hand_is_written_as_the_first_recipe_that_makes_it():
    bonus, schedule = ls.parts.Hoeffding(c=0.05), ls.parts.Growth(2)
    algorithm = Algorithm(estimator=ls.parts.QLearning(), bonus=bonus, schedule=schedule)
    assert (str(algorithm), algorithm.recipe) == ("q-h:c=0.05", None)


def test_tables_call_an_algorithm_without_recipe_by_its_parts_without_defaults():
    parts = {"estimator": ls.parts.Planning(monotone=True), "bonus": ls.parts.L1Ball(c=0.05)}
    budget = ls.parts.Budget(schedule=ls.parts.WholePolicy(3), deployments=9)
    composed = ls.Algorithm(**parts, schedule=budget)
    assert composed.label == (
        "Planning(monotone=True) + L1Ball(c=0.05)"
        " + Budget(schedule=WholePolicy(factor=3.0), deployments=9)"
    )
    assert ls.ucb2_bernstein(c=0.05).label == "ucb2-b:c=0.05"


def test_equal_scales_are_written_as_one():
    assert str(ls.ucb_bernstein(c=0.05)) == "ucb-b:c=0.05"
    assert str(ls.ucb_bernstein()) == "ucb-b"
    assert str(ls.ucb2_hoeffding(c=0.05, p=0.1)) == "ucb2-h:c=0.05,p=0.1"


def test_the_published_ones_differ_only_in_bonus_and_schedule():
    assert ls.ucb_hoeffding() == Algorithm(
        estimator=ls.parts.QLearning(),
        bonus=ls.parts.Hoeffding(c=1.0),
        schedule=ls.parts.EveryVisit(),
        p=0.05,
    )
    assert ls.ucb2_hoeffding() == Algorithm(
        estimator=ls.parts.QLearning(),
        bonus=ls.parts.Hoeffding(c=1.0),
        schedule=ls.parts.UCB2(),
        p=0.05,
    )
    assert ls.ucb_bernstein(c=2).bonus == ls.parts.Bernstein(c1=2, c2=2)
    assert ls.ucb2_bernstein(c=2, c2=3).bonus == ls.parts.Bernstein(c1=2, c2=3)


def test_iota_by_hand():
    assert ls.ucb_hoeffding(p=0.5).iota(horizon=2, states=3, actions=5, episodes=7) == math.log(
        3 * 5 * 2 * 7 / 0.5
    )


def test_every_recipe_shows_the_options_that_all_have():
    for make in (make for name, make in RECIPES.items() if name not in ("few", "linear")):
        assert inspect.signature(make).parameters.keys() >= {
            "p",
            "deployments",
            "switches",
            "last",
            "scales",
        }
        assert "The scales of the bonus in a mixture" in inspect.getdoc(make)
    with pytest.raises(
        TypeError, match="ucbvi has no option 'deployment'; did you mean 'deployments'"
    ):
        ls.ucbvi(deployment=3)


def test_caps():
    assert ls.parts.QLearning().caps(3).tolist() == [3, 3, 3]
    assert ls.parts.QLearning(clip="remaining").caps(3).tolist() == [3, 2, 1]


@pytest.mark.parametrize("c", [0, -1, math.nan, math.inf, "big"])
@pytest.mark.parametrize(
    "recipe", [recipe for recipe in RECIPES.values() if "c" in inspect.signature(recipe).parameters]
)
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
        (
            "zzz",
            (
                "unknown algorithm 'zzz'; the known ones are early-settled, fedq-advantage, fedq-b,"
                " fedq-early-settled, fedq-h, few, larfe, linear, linucb, mbie, multi-batch,"
                " mvp, orlc, psrl, q-b, q-h, rmax, stage-q, staged-randql, ucb-advantage"
            ),
        ),
        ("ucb-h:c", "'c' is not of the form key=value"),
        ("ucb-h:d=1", "ucb-h has no option 'd'"),
        ("ucb2-b:C=0.05", "ucb2-b has no option 'C'; did you mean 'c'"),
        ("few:deployments_at=10,20", "write few:deployments_at=...-20"),
        ("few:deployments_at=2026-05-03", "a date is a number of episodes, such as 300"),
        ("few:10", "option '10' is not of the form key=value; write few:deployments=10"),
        ("UCBVI", "unknown algorithm 'UCBVI'; did you mean 'ucbvi'"),
        ("few:schedule=asked", "it has deployments, .*; those with schedule are q-h, q-b, "),
        ("ucb2-h:etta=0.1", "did you mean 'eta'"),
    ],
)
def test_unknown_names_get_the_nearest_one(text, message):
    with pytest.raises(ValueError, match=message):
        build(text, RECIPES, "algorithm")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: as_schedule("grwth/2"), "unknown schedule 'grwth'; did you mean 'growth'"),
        (lambda: as_schedule("growth/2/3"), "the schedule growth has no option '3'"),
        (
            lambda: as_schedule("growth/facter=3"),
            "no option 'facter', or has it twice; did you mean 'factor'",
        ),
        (lambda: as_schedule("grid"), "the schedule grid needs ends, size; write grid/ends/size"),
        (
            lambda: as_schedule(
                ls.parts.Budget(schedule=ls.parts.Growth(2), switches=3), deployments=3
            ),
            "the schedule already has a budget",
        ),
        (lambda: ls.stage_q(schedule="grid/equal/3"), "stages end at visit counts"),
        (lambda: ls.mvp(schedule="whole/2"), "data='newest' is updated at visit counts"),
        (lambda: ls.psrl(schedule=ls.parts.Stages), r"schedule must be .*; write Stages\(\.\.\.\)"),
        (
            lambda: ls.psrl(schedule=ls.parts.Stages, deployments=3),
            r"not to .*; write Stages\(\.\.\.\)",
        ),
        (lambda: ls.psrl(members=0), "members must be a whole number from 1 to .*, not 0"),
        (lambda: ls.psrl(prior=0), "prior must be a positive number, not 0"),
        (lambda: ls.ucbvi(pooled=1), "pooled must be True or False, not 1"),
        (lambda: ls.mvp(data="some"), "data must be"),
        (
            lambda: ls.Algorithm(
                estimator=ls.parts.Planning(),
                bonus=ls.parts.Hoeffding(),
                schedule=ls.parts.Growth(2),
            ),
            "the bonus of Planning must be a",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_schedules_in_text():
    assert as_schedule("growth/3") == ls.parts.Growth(3)
    assert as_schedule("whole/2/least=5", deployments=4) == ls.parts.Budget(
        schedule=ls.parts.WholePolicy(2, least=5), deployments=4
    )
    assert as_schedule("grid/10-100") == ls.parts.Grid((10, 100))
    assert schedule_text(ls.parts.Grid("minimax", 4)) == "grid/minimax/4"
    assert schedule_text(ls.parts.Stages()) == "stages"


def test_unknown_parts_in_a_file():
    data = ls.ucb_hoeffding().to_dict() | {"bonus": {"kind": "Hofding", "c": 1.0}}
    with pytest.raises(ValueError, match="unknown bonus 'Hofding'; did you mean 'Hoeffding'"):
        Algorithm.from_dict(data)


def test_posterior_samples_take_a_mean_reward_for_the_true_one_where_they_are_told_to():
    learner = ls.Learner(ls.psrl(rewards="mean"), horizon=1, states=1, actions=2, episodes=9)
    learner.tell([[0]] * 2, [[0]] * 2, [[0.25], [0.75]], off_policy=True)
    assert learner.q[0, 0, 0] == 0.5
    assert learner.q[0, 0, 1] not in (0, 1)
    with pytest.raises(ValueError, match='rewards must be "bootstrap" or "mean", not \'known\''):
        ls.psrl(rewards="known")


def test_a_schedule_that_is_not_imported_is_named():
    data = ls.q_hoeffding().to_dict() | {"schedule": {"kind": "mine.rules.Squares", "first": 3}}
    with pytest.raises(
        ValueError, match=r"unknown schedule 'mine.rules.Squares'; import mine.rules first"
    ):
        Algorithm.from_dict(data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": "greeedy"}, 'did you mean "greedy"'),
        ({"schedule": "grid/300/600/900"}, "write grid/300-600-900, not grid/300/600/900"),
        ({"schedule": "calendar/300/600/900"}, "write calendar/300-600-900"),
    ],
)
def test_a_slip_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        ls.psrl(**options)
