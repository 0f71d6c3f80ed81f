"""The suite of `lowswitch bench`: its table, its checks, and learners of others."""

import copy
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from lowswitch import bench
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.bench import cards, measuring
from lowswitch.bench.suite import (
    BASELINES,
    BUDGETS,
    ENTRIES,
    EPISODES,
    FAMILIES,
    FLOOR,
    HARD,
    INSTANCES,
    PROBLEMS,
    SEEDS,
    VERSION,
    best_constant,
    floor_of,
    problem,
)
from lowswitch.cli.commands import main

PAGE = Path(__file__).parents[2] / "docs" / "bench.md"
BY_NAME = {entry.name: entry for entry in bench.known()}
QUICK = "q-b:c=0.05,schedule=grid/geometric/{N+1},deployments={N}"


def test_the_table_has_every_recipe_for_tables_as_the_suite_says():
    assert ENTRIES.keys() == RECIPES.keys() - {"linear", "linucb"}
    phase = ls.Algorithm.from_text(ENTRIES["larfe"].replace("{N}", "3")).estimator.phase
    needed = max(2 * problem(name).horizon + 2 for name in PROBLEMS)
    assert phase == EPISODES // needed  # as long as all of its deployments fit everywhere
    expected = ENTRIES | BASELINES
    assert {name: BY_NAME[name].algorithm for name in expected} == expected


def test_the_page_says_what_version_two_is():
    page = PAGE.read_text(encoding="utf-8")
    assert f"## Version {VERSION}\n" in page
    for name, text in FAMILIES.items():
        assert f"| {name} | `{text}` |" in page
    assert f"i = 1 to {INSTANCES}" in page
    assert f"{EPISODES:,}<!-- / --> episodes, and every cell has seeds 0 to {SEEDS - 1}" in page
    assert f"at least {HARD:.0%} as much as uniform random play".replace("%", " %") in page
    assert f"below {FLOOR:.0%} of the regret of uniform play".replace("%", " %") in page
    assert "N = 1, 3, 10, 30 and 100 deployments" in page
    assert BUDGETS == (1, 3, 10, 30, 100)


def test_the_entries_that_the_page_calls_equal_are_equal():
    pairs = {"ucb-b": ("ucb2-b", "fedq-b"), "ucb-h": ("ucb2-h", "fedq-h")}
    for first, others in {**pairs, "early-settled": ("fedq-early-settled",)}.items():
        for other in others:
            for place, budget in itertools.product(PROBLEMS, BUDGETS):
                cells = [BY_NAME[name].results[place][budget] for name in (first, other)]
                assert cells[0][:3] == cells[1][:3]


@pytest.mark.parametrize("name", ["few", "q-b", "rmax", "constant", "fedq-early-settled"])
def test_cells_of_the_table_come_out_the_same(name):
    assert not measuring.differing(BY_NAME[name], [("garnet-1", 30), ("steps-differ-2", 3)])


# ---- problems ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_has_other_actions_in_the_same_places(name):
    """Each action is one of the original's, so values are the same, and none is good alone."""
    mdp, original = problem(name), ls.envs.make(PROBLEMS[name])
    assert mdp.optimal_value() == pytest.approx(original.optimal_value())
    assert mdp.uniform_value() == pytest.approx(original.uniform_value())
    assert np.allclose(np.sort(mdp.optimal_q), np.sort(original.optimal_q))
    assert not np.array_equal(mdp.optimal_q, original.optimal_q)
    assert best_constant(mdp) >= HARD
    assert mdp.steps_alike == original.steps_alike


class Ones:
    """Learns nothing: always action 1, from the first episode on."""

    def __init__(self, horizon, states, **rest):
        self.policy = np.zeros((horizon, states), dtype=int)

    def tell(self, states, actions, rewards):
        self.policy = np.ones_like(self.policy)


def test_a_policy_that_learns_nothing_has_a_poor_score():
    """It had the best score of version 1 with one and with three deployments."""
    for name in PROBLEMS:
        mdp = problem(name)
        regret = measuring._play(mdp, Ones(**mdp.size), 1, seed=0)[0]
        assert regret > 0.7 * floor_of(name) / FLOOR
    constant, best = bench.score_card(BY_NAME["constant"]), bench.score_card(BY_NAME["few"])
    for budget in BUDGETS:
        assert constant.score(budget) > 1.5 * best.score(budget)


def test_a_score_is_the_geometric_mean_over_the_best_known():
    best = BY_NAME["few"]
    card = bench.score_card(best, [best])
    assert [card.score(budget) for budget in BUDGETS] == pytest.approx([1.0] * len(BUDGETS))
    halved = copy.deepcopy(best.to_dict())
    for cells in halved["results"].values():
        for cell in cells.values():
            cell["regret"] = [0.5 * one for one in cell["regret"]]
    card = bench.score_card(bench.Entry.from_dict(halved), [best])
    ratios = []
    for name in PROBLEMS:
        mean, floor = best.results[name][10].mean, floor_of(name)
        ratios.append(max(0.5 * mean, floor) / max(mean, floor))
    assert card.score(10) == pytest.approx(np.prod(ratios) ** (1 / len(PROBLEMS)))
    assert 0.5 <= min(ratios) < 1
    for text in ("0.", "CPU seconds"):
        assert text in str(card.table())


def test_one_lucky_problem_counts_no_more_than_the_floor():
    best = BY_NAME["few"]
    lucky = copy.deepcopy(best.to_dict())
    lucky["results"]["chain-1"]["10"]["regret"] = [0.0] * SEEDS
    card = bench.score_card(bench.Entry.from_dict(lucky), [best])
    least = floor_of("chain-1") / max(floor_of("chain-1"), best.results["chain-1"][10].mean)
    assert card.score(10) == pytest.approx(least ** (1 / len(PROBLEMS)))


# ---- learners of others --------------------------------------------------------------------------


def test_a_learner_that_is_told_costs_what_the_library_says():
    """The library's own learner, through the door of others, has the regret of `simulate`."""
    place, budget = "lock-1", 10
    text = QUICK.replace("{N+1}", "11").replace("{N}", "10")
    mdp, algorithm = problem(place), ls.Algorithm.from_text(text)
    learner = ls.Learner(algorithm, **mdp.size, episodes=EPISODES)
    cell = BY_NAME["q-b"].results[place][budget]
    regret, deployments, switches = measuring._play(mdp, learner, budget, seed=0)
    assert regret == pytest.approx(cell.regret[0])
    assert (deployments, switches) == (cell.deployments[0], cell.local_switches[0])


class Restless:
    """Wants another policy after every episode."""

    def __init__(self, horizon, states, **rest):
        self.policy = np.zeros((horizon, states), dtype=int)

    def tell(self, states, actions, rewards):
        self.policy = 1 - self.policy


def test_nothing_is_deployed_beyond_the_budget():
    mdp = problem("lock-1")
    regret, deployments, switches = measuring._play(mdp, Restless(**mdp.size), 3, seed=0)
    rows = mdp.horizon * mdp.states
    assert (deployments, switches) == (3, 3 * rows)
    gaps = [
        mdp.optimal_value() - mdp.evaluate(np.full((mdp.horizon, mdp.states), a)) for a in (0, 1)
    ]
    assert regret == pytest.approx(2 * gaps[0] + (EPISODES - 2) * gaps[1])


def test_the_function_of_the_page_can_be_named(tmp_path, monkeypatch):
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    (tmp_path / "benched_module.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    make = measuring._maker("benched_module:make")
    mdp = problem("lock-1")
    learner = make(**mdp.size, episodes=EPISODES, deployments=3, seed=0)
    assert measuring._play(mdp, learner, 3, seed=0)[1] <= 3
    for text, message in (
        ("benched_module:none", "no function benched"),
        ("few2", "is neither an algorithm"),
    ):
        with pytest.raises(ValueError, match=message):
            measuring._maker(text)


# ---- submissions ---------------------------------------------------------------------------------


def changed(**cell):
    data = json.loads(json.dumps(BY_NAME["q-b"].to_dict()))
    data["results"]["lock-1"]["3"] |= cell
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "an entry is an object"),
        (changed() | {"version": 1}, "it was measured with version 1 of the suite, but this libra"),
        (changed() | {"name": "<b>"}, "its name '<b>' must have at most 40"),
        (changed() | {"results": {}}, "its results on riverswim-1 with N = 1 are incomplete"),
        (changed(more=1), "its results on lock-1 with N = 3 are incomplete"),
        (changed(regret=[1.0]), "regret must be 4 numbers, one for each seed"),
        (changed(regret=[float("nan")] * 4), "regret lies from 0 to"),
        (changed(regret=[1e9] * 4), "regret lies from 0 to"),
        (changed(deployments=[4] * 4), "deployments are whole numbers up to 3"),
        (changed(local_switches=[0] * 4), "0 rows cannot have switched in 3 deployments"),
        (changed(seconds=0), "seconds must be a positive number"),
    ],
)
def test_impossible_submissions_are_refused(data, message, tmp_path):
    path = tmp_path / "entry.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=f"is not an entry of the suite: .*{message}"):
        bench.read_entry(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON file"),
        ("3", "is not a table of entries"),
        ("[{}]", "is not a table of entries"),
    ],
)
def test_a_table_that_is_none_is_named(text, message, tmp_path):
    (tmp_path / "table.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"table\.json' {message}"):
        bench.read_entries(tmp_path / "table.json")


def test_another_name_in_braces_is_refused():
    with pytest.raises(ValueError, match=r"another name in braces than \{N\} and \{N\+1\}"):
        measuring._maker("few:deployments={M}")(deployments=3)


def test_the_command_scores_checks_and_merges(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench"]) == 0
    assert "few" in capsys.readouterr().out
    assert main(["bench", "--algorithm", QUICK.replace("0.05", "0.01"), "--name", "mine"]) == 0
    assert "regret over best known" in capsys.readouterr().out
    assert Path("lowswitch-bench/card.png").stat().st_size > 10_000
    entry = "lowswitch-bench/entry.json"
    data = json.loads(Path(entry).read_text())
    assert data["date"].startswith("20")
    assert data["code"] == ""
    assert main(["bench", "--check", entry, "--cells", "3"]) == 0
    assert capsys.readouterr().out.count(" with N = ") == 3
    assert main(["bench", "--merge", entry, "--into", "table.json", "--cells", "1"]) == 0
    assert [one.name for one in bench.read_entries("table.json")] == ["mine"]
    bench.write_entries("all.json", bench.known())
    assert [one.to_dict() for one in bench.read_entries("all.json")] == [
        one.to_dict() for one in bench.known()
    ]
    other = data | {"algorithm": "ucb-h:deployments={N}"}
    Path(entry).write_text(json.dumps(other), encoding="utf-8")
    assert main(["bench", "--merge", entry, "--into", "table.json"]) != 0
    assert main(["bench", "--check", entry]) != 0
    assert "comes out otherwise here; measure it again" in capsys.readouterr().err
    assert main(["bench", "--check", entry, "--cells", "0"]) != 0
    assert main(["bench", "--merge", entry]) != 0


def test_what_is_measured_again_depends_on_the_whole_entry():
    one = BY_NAME["q-b"]
    cells = one.drawn_cells(10)
    assert len(set(cells)) == 10 == len(set(one.drawn_cells(10)) & set(cells))
    other = bench.Entry.from_dict(changed(seconds=1.0))
    assert other.drawn_cells(10) != cells
    assert len(set(one.drawn_cells(10**6))) == len(PROBLEMS) * len(BUDGETS)


def test_a_merge_refuses_falsified_results_wherever_they_are(tmp_path, capsys):
    """Half of all regrets are halved, so ten cells find it."""
    data = json.loads(json.dumps(BY_NAME["q-b"].to_dict())) | {"name": "better"}
    for name in list(PROBLEMS)[::2]:
        for cell in data["results"][name].values():
            cell["regret"] = [0.5 * one for one in cell["regret"]]
    path, table = tmp_path / "entry.json", tmp_path / "table.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert main(["bench", "--merge", str(path), "--into", str(table)]) != 0
    assert "comes out otherwise here" in capsys.readouterr().err
    assert not table.exists()


def test_an_entry_of_edited_code_is_refused(tmp_path, monkeypatch, capsys):
    text = "import lowswitch as ls\n\ndef make(deployments, **rest):\n    c = 0.05\n"
    text += "    return ls.q_bernstein(c=c, schedule=ls.parts.Grid('geometric', deployments + 1))\n"
    module = tmp_path / "benched_edit.py"
    module.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    results = BY_NAME["q-b"].results
    entry = bench.Entry(
        name="mine",
        algorithm="benched_edit:make",
        results=results,
        code=measuring._code("benched_edit:make"),
    )
    assert not measuring.differing(entry, [("lock-1", 3)])
    edited = bench.Entry(name="mine", algorithm=entry.algorithm, results=results, code="0" * 64)
    assert "the code of benched_edit:make is another one" in measuring.differing(edited, [])


def test_labels_of_a_card_do_not_lie_on_each_other():
    ends = {"few": 1.05, "psrl": 3.53, "mbie": 3.57, "rmax": 3.30, "ucbvi": 4.39}
    assert cards._labels(ends) == [("few", 1.05), ("rmax, psrl, mbie", 3.30), ("ucbvi", 4.39)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda **given: None, "must return an Algorithm, or a learner with an array `policy`"),
        (lambda **given: np.zeros(3), "must return an Algorithm, or a learner"),
        (lambda deployments: ls.few(deployments=deployments), r"add \*\*rest for those"),
        (ls.few(deployments=10), "a function that makes an algorithm for each budget, not Algor"),
        (lambda **given: ls.q_hoeffding(c=0.05), "deployments=deployments in a function"),
    ],
)
def test_a_function_that_the_suite_cannot_use_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        bench.measure(make, name="mine", progress=False)


def test_a_module_in_another_folder_says_where_to_run():
    with pytest.raises(ValueError, match=r"run this in the folder of not_here\.py"):
        bench.measure("not_here:make")
