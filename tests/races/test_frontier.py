"""The frontier: its fronts by hand, its race on small problems, and what it keeps."""

import importlib
import json
import signal
from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import lowswitch as ls
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import build
from lowswitch.cli.commands import main
from lowswitch.io import storage
from lowswitch.races import report as frontier_report
from lowswitch.races.portfolio import alternatives, explorers, portfolio
from lowswitch.races.race import frontier
from lowswitch.races.standings import Costs, Frontier, Point

MODULE = importlib.import_module("lowswitch.races.race")
RIVER = ls.envs.riverswim(states=3, horizon=4)
FEW = [
    ls.ucb2_hoeffding(c=0.05),
    ls.ucrl2(c=0.01),
    ls.ucrl2(c=0.01, schedule="whole/4/10"),
    ls.psrl(rewards="mean", members=4, schedule="grid/geometric/6"),
    ls.ucb_hoeffding(c=5),
]
SMALL = {"episodes": 300, "seeds": 3, "confirm": 4, "portfolio": FEW, "progress": False}


def point(i, regret, deployments, switches=None, *, finalist=True, contender=False, most=None):
    """Point number i with so much regret and so many deployments, one for each seed."""
    deployments = np.array(deployments)
    local = deployments if switches is None else np.array(switches)
    costs = Costs(
        np.arange(len(regret)),
        np.array(regret, dtype=float),
        deployments,
        local,
        np.ones(len(regret)),
    )
    return Point(
        algorithm=ls.rmax(known=i + 1),
        costs=costs,
        finalist=finalist,
        contender=contender,
        most_deployments=most or int(deployments.max()),
    )


def toy(*points, budget=None):
    return Frontier(
        name="toy",
        horizon=1,
        states=1,
        actions=2,
        episodes=1000,
        optimal_value=1.0,
        points=points,
        budget=budget,
    )


def known(points):
    """The numbers of toy points."""
    return [point.algorithm.bonus.known - 1 for point in points]


def without_seconds(result):
    data = result.to_dict()
    for one in data["points"]:
        del one["seconds"]
        one.get("choosing", {}).pop("seconds", None)
    return data


# ---- fronts by hand ------------------------------------------------------------------------------


def test_a_front_has_the_points_that_no_other_beats():
    result = toy(
        point(0, [10, 12], [5, 5]),
        point(1, [6, 8], [20, 22]),
        point(2, [9, 9], [30, 30]),  # more than point 1 in both
        point(3, [1, 3], [90, 90]),
        point(4, [0, 0], [1, 1], finalist=False),  # the luck of the selection
    )
    assert known(result.front("deployments")) == [0, 1, 3]


def test_of_equal_points_the_first_is_on_the_front_and_of_equal_deployments_the_better():
    result = toy(point(0, [4], [7]), point(1, [4], [7]), point(2, [5], [7]), point(3, [4], [9]))
    assert known(result.front()) == [0]


def test_the_front_against_local_switches_is_another():
    result = toy(point(0, [4], [7], [100]), point(1, [5], [9], [10]))
    assert known(result.front("deployments")) == [0]
    assert known(result.front("local_switches")) == [1, 0]
    with pytest.raises(ValueError, match="deployments or local_switches, not 'regret'"):
        result.front("regret")


def test_the_best_never_exceeded_its_limit_in_any_seed():
    result = toy(
        point(0, [9, 9], [10, 10]),
        point(1, [5, 5], [8, 31]),  # once more than 30, though 19.5 in the mean
        point(2, [7, 7], [30, 29]),
        point(3, [1, 1], [12, 12], most=31),  # while it was selected
        point(4, [0, 0], [2, 2], finalist=False),
    )
    assert known([result.best(deployments=limit) for limit in (10, 29, 30, 31)]) == [0, 0, 2, 3]
    assert known([result.best()]) == [3]
    with pytest.raises(
        ValueError, match="no algorithm kept to 9 deployments; the fewest were 10. Give budget=9"
    ):
        result.best(deployments=9)
    with pytest.raises(ValueError, match="deployments must be a whole number from 1"):
        result.best(deployments=0)
    assert list(result.limits()) == [10, 30, 100, None]


def test_the_table_names_what_to_use_and_the_figure_has_a_letter_for_each_line():
    result = toy(point(0, [10, 12], [5, 5]), point(1, [6, 8], [20, 22]), point(2, [1, 3], [90, 90]))
    lines = result.table().splitlines()
    assert lines[0].startswith(
        "S = 1, A = 2, H = 1; 1,000 episodes, optimal value 1.0000; 3 algorithms, 3 of them"
        " finalists on 2 fresh"
    )
    assert [line.split() for line in lines[-4:]] == [
        ["rmax:known=1", "at", "most", "10", "0.01100", "5.50", "x", "5", "yes"],
        ["rmax:known=2", "at", "most", "30", "0.00700", "3.50", "x", "22", "yes"],
        ["rmax:known=3", "at", "most", "100", "0.00200", "1.00", "x", "90", "yes"],
        ["rmax:known=3", "no", "limit", "0.00200", "1.00", "x", "90", "yes"],
    ]
    figure = result.plot()
    letters = [text.get_text() for text in figure.subfigs[0].axes[0].texts]
    assert letters == ["A", "B", "C"]
    assert all(f"{letter}  rmax" in figure.subfigs[1].texts[0].get_text() for letter in letters)


def test_limits_end_with_the_budget():
    points = point(0, [10, 12], [5, 5]), point(1, [6, 8], [20, 22]), point(2, [1, 3], [30, 30])
    assert list(toy(*points, budget=30).limits()) == [10, 30]
    assert list(toy(*points, budget=40).limits()) == [10, 30, 40]
    assert list(toy(points[0], budget=10).limits()) == [10]
    lines = toy(*points[:2], budget=25).table().splitlines()
    assert lines[-4].split() == [
        "use",
        "deployments",
        "per",
        "episode",
        "of",
        "the",
        "budget",
        "most",
        "crowned",
    ]
    assert [line.split() for line in lines[-2:]] == [
        ["rmax:known=1", "at", "most", "10", "0.01100", "1.57", "x", "5", "yes"],
        ["rmax:known=2", "budget", "of", "25", "0.00700", "1.00", "x", "22", "yes"],
    ]


def test_a_rare_disaster_costs_the_crown_and_a_close_rival_prevents_one():
    """Means and standard errors by hand: 7.5 + 2.5 for 0, 8.5 + 0.29 for 1, and 8.75 + 0.25 for 2.
    The difference of 1 and 2, (0, 0, 0, 1), has the interval 0.25 ± 0.80; 3 is one more than 1 in
    every seed.
    """
    result = toy(
        point(0, [5, 5, 5, 15], [5] * 4, contender=True),
        point(1, [8, 8, 9, 9], [5] * 4, contender=True),
        point(2, [8, 8, 9, 10], [5] * 4, contender=True),
        point(3, [9, 9, 10, 10], [5] * 4, contender=True),
        point(4, [1, 1, 1, 1], [5] * 4),  # on the seeds of the final alone
    )
    assert known([result.best()]) == [1]
    assert known(result.contenders()) == [1, 2, 3, 0]
    assert known(result.rivals()) == [2, 0]
    assert "no, 2 may be as good" in result.table()
    assert result.to_dict()["crowned"] == {"10": False, "30": False, "100": False, "none": False}
    close = {"most_deployments": 5, "finalist": True, "contender": True}
    alone = toy(*(one for one in result.points if one.algorithm.bonus.known - 1 in (1, 3)))
    assert all(vars(one)[name] == value for one in alone.points for name, value in close.items())
    assert alone.rivals() == ()


def test_the_table_says_that_it_shows_the_fronts_only():
    result = toy(point(0, [4], [7]), point(1, [5], [9]), point(2, [6], [9], finalist=False))
    assert (
        "3 algorithms, 2 of them finalists on 1 fresh seeds, 1 on a front and shown; means"
        in result.table()
    )


@pytest.mark.parametrize(("budget", "marks"), [(None, [10, 30, 100]), (25, [10, 25])])
def test_the_figure_marks_the_limits_and_the_families_there_are(budget, marks):
    panels = (
        toy(point(1, [90, 90], [6, 6]), point(2, [6, 8], [20, 22]), budget=budget).plot().subfigs[0]
    )
    dotted = [line.get_xdata()[0] for line in panels.axes[0].lines if line.get_linestyle() == ":"]
    assert dotted == marks
    assert [text.get_text() for text in panels.legends[0].get_texts()] == ["R-max"]


@pytest.mark.parametrize("regret", [[9, 9], [0, 0]])
def test_what_never_changed_anything_has_a_place_in_the_figure(regret):
    figure = toy(
        point(0, regret, [0, 0]), point(1, [6, 8], [20, 22]), point(2, [1, 3], [90, 90])
    ).plot()
    axes = figure.subfigs[0].axes[0]
    FigureCanvasAgg(figure).draw()
    assert "A" in [text.get_text() for text in axes.texts]
    place = axes.transAxes.inverted().transform(axes.transData.transform((0, regret[0] / 1000)))
    assert ((place > 0) & (place < 1)).all()
    assert 0 in axes.get_xticks()


def test_a_frontier_prints_as_a_line():
    result = toy(point(0, [9, 9], [10, 10]), point(1, [0, 0], [2, 2], finalist=False), budget=10)
    best = (
        "Point(rmax:known=1, finalist, 2 seeds, regret 9, deployments 10, local switches 10, at"
        " most 10 deployments)"
    )
    race = "2 algorithms within 10 deployments, 1 finalist"
    assert (
        repr(result)
        == f"Frontier(toy, horizon=1, states=1, actions=2, 1,000 episodes, {race}, best {best})"
    )


# ---- the race ------------------------------------------------------------------------------------


def test_finalists_are_reported_on_the_seeds_of_simulate_and_chosen_on_others(tmp_path):
    result = frontier(RIVER, **SMALL, folder=tmp_path)
    assert 1 <= len(result.finalists) < len(FEW)
    for one in result.points:
        assert one.finalist == (one.costs.seeds[0] < 2**32)
        assert one.contender == (one.compared.seeds.tolist() == [3, 4, 5, 6])
        # the best for a limit is reported on seeds that did not choose it
        chosen = one in result.limits().values()
        assert chosen == (one.costs.seeds.tolist() == [7, 8, 9, 10]) == (one.choosing is not None)
    best = result.best()
    assert best.contender
    for costs, seeds in ((best.compared, range(3, 7)), (best.costs, range(7, 11))):
        runs = ls.simulate(RIVER, best.algorithm, episodes=300, seeds=seeds)
        assert costs.regret.tolist() == runs.regret.tolist()
    seeds = {tuple(costs.seeds) for costs in costs_in(tmp_path / "kept")}
    assert len(seeds) == 5
    every = sorted(set().union(*seeds))
    assert len(every) == sum(map(len, seeds))  # disjoint
    runs = ls.simulate(RIVER, best.algorithm, episodes=300, seeds=every)
    assert best.most_deployments == runs.deployments.max()


def costs_in(folder):
    """What was kept, which must be whole."""
    return [storage.load(path, "finished work", Costs) for path in folder.iterdir()]


class PulledError(Exception):
    pass


def test_an_interrupted_race_leaves_whole_files_and_goes_on(tmp_path, monkeypatch):
    straight = frontier(RIVER, **SMALL)
    simulated = []

    def interrupted(*arguments, **options):
        if len(simulated) == 4:
            raise PulledError
        simulated.append(arguments)
        return ls.simulate(*arguments, **options)

    monkeypatch.setattr(MODULE, "simulate", interrupted)
    with pytest.raises(PulledError):
        frontier(RIVER, **SMALL, folder=tmp_path)
    assert len(costs_in(tmp_path / "kept")) == 4
    next((tmp_path / "kept").iterdir()).write_text("{")  # damaged: computed again
    monkeypatch.setattr(MODULE, "simulate", ls.simulate)
    assert without_seconds(frontier(RIVER, **SMALL, folder=tmp_path)) == without_seconds(straight)
    monkeypatch.setattr(MODULE, "simulate", None)  # nothing is left to do
    assert without_seconds(frontier(RIVER, **SMALL, folder=tmp_path)) == without_seconds(straight)


def test_what_was_kept_for_another_problem_is_not_taken(tmp_path):
    frontier(RIVER, **SMALL, folder=tmp_path)
    other = ls.envs.riverswim(states=3, horizon=4, reward_law="bernoulli")
    assert without_seconds(frontier(other, **SMALL, folder=tmp_path)) == without_seconds(
        frontier(other, **SMALL)
    )


def test_a_budget_is_kept_by_all_and_an_own_smaller_one_stays():
    algorithms = [*FEW, ls.ucrl2(c=0.01, deployments=3), ls.ucrl2(c=0.01, deployments=50)]
    result = frontier(RIVER, episodes=300, seeds=2, portfolio=algorithms, budget=7, progress=False)
    assert len(result.points) == len(FEW) + 1  # the last is the second by this budget
    assert [one.algorithm.schedule.deployments for one in result.points] == [7, 7, 7, 7, 7, 3]
    assert max(one.most_deployments for one in result.points) == 7
    assert result.limits() == {7: result.best()}


@dataclass(frozen=True)
class Steady(ls.parts.FromCounts):
    """An estimator of one's own, which plays one action everywhere."""

    action: int = 1

    def plan(self, counts):
        return np.full(counts.visits.shape[:2], self.action)


def test_algorithms_of_ones_own_race_and_are_read_back(tmp_path):
    parts = {"bonus": ls.parts.NoBonus(), "schedule": ls.parts.Grid("geometric", 4)}
    unnamed = ls.Algorithm(
        estimator=ls.parts.QLearning(),
        bonus=ls.parts.Hoeffding(c=0.05),
        schedule=ls.parts.Visits((5,)),
    )
    mine = {
        "right": ls.Algorithm(estimator=Steady(1), **parts),
        "left": ls.Algorithm(estimator=Steady(0), **parts),
        "five": unnamed,
    }
    result = frontier(RIVER, episodes=200, seeds=2, portfolio=mine, progress=False)
    assert result.best().name == "right"
    assert {point.name: point.algorithm for point in result.points} == mine
    assert "right" in result.table()
    assert frontier_report.kind_of(mine["left"]) == "own"
    result.save(tmp_path / "frontier.json")
    again = Frontier.load(tmp_path / "frontier.json")
    assert {point.name: point.algorithm for point in again.points} == mine
    assert [point.name for point in frontier(RIVER, **SMALL).points] == list(map(str, FEW))


def test_save_and_load(tmp_path):
    result = frontier(RIVER, **SMALL, name="river")
    result.save(tmp_path / "frontier.json")
    assert Frontier.load(tmp_path / "frontier.json").to_dict() == result.to_dict()
    with pytest.raises(ValueError, match="there is no file"):
        Frontier.load(tmp_path / "none.json")
    for text in ('{"name": "river"}', "[]"):
        (tmp_path / "frontier.json").write_text(text)
        with pytest.raises(ValueError, match="holds no complete frontier|is damaged"):
            Frontier.load(tmp_path / "frontier.json")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": 0}, "budget must be a whole number from 1"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"seeds": 0}, "seeds must be a whole number from 1"),
        ({"confirm": 1}, "confirm must be a whole number from 2"),
        ({"portfolio": []}, "the portfolio is empty"),
        ({"portfolio": ["ucb-h"]}, "algorithm must be an Algorithm"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        frontier(RIVER, **SMALL | given)


def test_the_problem_must_be_one_and_stationary_where_that_is_said():
    with pytest.raises(ValueError, match="the problem must be a TabularMDP"):
        frontier("riverswim", **SMALL)
    by_step = ls.TabularMDP(np.ones((1, 2, 1)), np.zeros((3, 1, 2)), horizon=3)
    with pytest.raises(ValueError, match="the steps of this problem differ"):
        frontier(by_step, **SMALL, stationary=True)


# ---- the portfolio -------------------------------------------------------------------------------


def test_a_pattern_stands_for_all_alternatives():
    assert alternatives("{a|b}:c={1|2},p=3") == ["a:c=1,p=3", "a:c=2,p=3", "b:c=1,p=3", "b:c=2,p=3"]


def test_the_portfolio_is_named_each_algorithm_once_and_by_a_text_that_makes_it():
    algorithms = portfolio(stationary=True)
    texts = [str(algorithm) for algorithm in algorithms]
    assert len(set(texts)) == len(algorithms)
    assert [build(text, RECIPES, "algorithm") for text in texts] == algorithms
    named = {text.partition(":")[0] for text in texts}
    # mbie races with those that play in rounds, and problems with features have their own race
    # orlc is newer than the races that the pages report; larfe and multi-batch must fit the run
    fitted = {"larfe", "multi-batch"}
    assert named == RECIPES.keys() - {"mbie", "orlc", "linear", "linucb"} - fitted
    assert {frontier_report.kind_of(algorithm) for algorithm in algorithms} == set(
        frontier_report.KINDS
    ) - {"layers", "own"}
    size = {"horizon": 4, "states": 5, "actions": 3, "episodes": 10_000}
    added = portfolio(size=size)[len(portfolio()) :]
    assert list(map(str, added)) == [
        "larfe:phase=25,members=15",
        "larfe:phase=100,members=15",
        "multi-batch:phase=25,members=15",
        "multi-batch:phase=25,members=15,c=0.01",
        "multi-batch:phase=100,members=15",
        "multi-batch:phase=100,members=15,c=0.01",
    ]
    assert {frontier_report.kind_of(algorithm) for algorithm in added} == {"layers"}
    assert [len(explorers(**size | {"episodes": K})) for K in (8, 100, 1_000)] == [0, 2, 2]
    assert not explorers(**size | {"states": 86})  # 258 members
    assert algorithms[: len(portfolio())] == portfolio()
    assert not any("pooled" in str(algorithm) for algorithm in portfolio())
    scales = {getattr(algorithm.bonus, "c", None) for algorithm in portfolio()}
    assert {1, 0.1, 0.01, 0.001} <= scales


# ---- the command ---------------------------------------------------------------------------------

COMMAND = "frontier --env riverswim:states=3,horizon=4 --episodes 300 --seeds 2 --confirm 2"


def test_the_command_prints_a_table_and_writes_its_files(tmp_path, capsys):
    chosen = " ".join(f"--algorithm {algorithm}" for algorithm in FEW)
    command = f"{COMMAND} {chosen} --out {tmp_path}/out"
    assert main(command.split()) == 0
    text = capsys.readouterr().out
    assert text.startswith("riverswim:states=3,horizon=4: S = 3, A = 2, H = 4; 300 episodes")
    assert f"figure: {tmp_path}/out/frontier.png" in text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "frontier.json",
        "frontier.png",
        "frontier.svg",
        "kept",
    ]
    assert main([*command.split(), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == Frontier.load(tmp_path / "out" / "frontier.json").to_dict()
    assert printed["best"]["none"] in printed["fronts"]["deployments"]


@pytest.mark.usefixtures("interruptible")
def test_the_interrupted_command_leaves_only_whole_files(tmp_path, capsys, monkeypatch):
    written = storage.replacing

    def then_a_signal(path):
        if len(list((tmp_path / "kept").iterdir())) == 2:
            signal.raise_signal(signal.SIGINT)
        return written(path)

    monkeypatch.setattr("lowswitch.io.storage.replacing", then_a_signal)
    chosen = "--algorithm ucrl2 --algorithm psrl --algorithm rmax"
    assert main(f"{COMMAND} {chosen} --out {tmp_path}".split()) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert len(costs_in(tmp_path / "kept")) == 2


def test_bad_input_is_one_line(capsys, tmp_path):
    assert main(f"{COMMAND} --budget 0 --out {tmp_path}".split()) == 2
    assert (
        capsys.readouterr().err
        == "lowswitch: budget must be a whole number from 1 to 2,147,483,646, not 0\n"
    )
    (tmp_path / "file").touch()
    assert main(f"{COMMAND} --out {tmp_path}/file".split()) == 2
    assert "cannot make the folder" in capsys.readouterr().err


def test_a_lucky_algorithm_rules_nobody_out_for_good(monkeypatch):
    """One that is lucky on the seeds that choose, and loses thirty times as much on fresh ones, had
    ruled out all others; once the fresh seeds show it, they are finalists, and one of them wins.
    """
    lucky, *others = [ls.rmax(known=known) for known in (1, 2, 3)]

    def costs(self, algorithm, seeds):
        chosen = np.array([seed >= 2**32 for seed in seeds])
        regret = np.where(chosen, 10.0, 3000.0) if algorithm == lucky else np.full(len(seeds), 90.0)
        count = np.full(len(seeds), 5)
        return Costs(np.array(seeds), regret + np.arange(len(seeds)), count, count, regret * 0)

    monkeypatch.setattr(MODULE._Track, "_simulate", costs)
    mdp = ls.envs.riverswim(states=3, horizon=2)
    found = ls.frontier(mdp, episodes=10, seeds=4, portfolio=[lucky, *others], progress=False)
    assert [point.algorithm for point in found.finalists] == [lucky, *others]
    assert found.best().algorithm == others[0]
    assert [point.algorithm for point in found.rivals()] == [others[1]]  # equal


def test_a_wide_spread_keeps_an_algorithm_in_the_race():
    """Means 100 and 160: with a standard error of 40 the second stays within 1.5 times, without one
    it does not.
    """
    count = np.array([5, 5])

    def of(regret):
        return Costs(np.arange(2), np.array(regret), count, count, count * 0.0)

    first, second = ls.rmax(known=1), ls.rmax(known=2)
    assert MODULE._near_a_front({first: of([100.0, 100.0]), second: of([120.0, 200.0])}, 1.5) == [
        first,
        second,
    ]
    assert MODULE._near_a_front({first: of([100.0, 100.0]), second: of([160.0, 160.0])}, 1.5) == [
        first
    ]


def test_a_budget_brings_grids_of_one_batch_more_and_the_default():
    texts = [str(algorithm) for algorithm in portfolio(budget=7)]
    assert "few:deployments=7" in texts
    assert any("grid/geometric/8,deployments=7" in text for text in texts)
    assert [text for text in texts if text.startswith("few")] == ["few:deployments=7"]
    assert "few:deployments=10" in map(str, portfolio())
