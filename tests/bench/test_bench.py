"""The suite of `lowswitch bench`: its table, its checks, and learners of others."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from lowswitch import bench
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.bench import measuring
from lowswitch.bench.suite import BUDGETS, ENTRIES, EPISODES, PROBLEMS, SEEDS, VERSION, problem
from lowswitch.cli.commands import main

PAGE = Path(__file__).parents[2] / "docs" / "bench.md"
BY_NAME = {entry.name: entry for entry in bench.known()}
QUICK = "q-b:c=0.05,schedule=grid/geometric/{N+1},deployments={N}"


def test_the_table_has_every_recipe_for_tables_as_the_suite_says():
    assert ENTRIES.keys() == RECIPES.keys() - {"linear", "linucb"}
    assert {name: BY_NAME[name].algorithm for name in ENTRIES} == ENTRIES


def test_the_page_says_what_version_one_is():
    page = PAGE.read_text(encoding="utf-8")
    assert VERSION == 1
    for name, text in PROBLEMS.items():
        assert f"| {name} | `{text}` |" in page
    assert f"{EPISODES:,}<!-- / --> episodes, and every cell the seeds 0 to {SEEDS - 1}" in page
    assert "N = 1, 3, 10, 30 and 100 deployments" in page
    assert BUDGETS == (1, 3, 10, 30, 100)


@pytest.mark.parametrize("name", ["few", "q-b", "rmax"])
def test_cells_of_the_table_come_out_the_same(name):
    assert measuring.again(BY_NAME[name], "garnet", 30)


def test_a_score_is_the_geometric_mean_over_the_best_known():
    best = BY_NAME["few"]
    card = bench.score_card(best, [best])
    assert [card.score(budget) for budget in BUDGETS] == pytest.approx([1.0] * len(BUDGETS))
    halved = copy.deepcopy(best.to_dict())
    for cells in halved["results"].values():
        for cell in cells.values():
            cell["regret"] = [0.5 * one for one in cell["regret"]]
    card = bench.score_card(bench.Entry.from_dict(halved), [best])
    assert card.score(10) == pytest.approx(0.5)
    for text in ("0.50", "CPU seconds"):
        assert text in str(card.table())


# ---- learners of others --------------------------------------------------------------------------


def test_a_learner_that_is_told_costs_what_the_library_says():
    """The library's own learner, through the door of others, has the regret of `simulate`."""
    place, budget = "lock", 10
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
    mdp = problem("lock")
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
    mdp = problem("lock")
    learner = make(**mdp.size, episodes=EPISODES, deployments=3, seed=0)
    assert measuring._play(mdp, learner, 3, seed=0)[1] <= 3
    for text, message in (
        ("benched_module:none", "no function benched"),
        ("few2", "is no algorithm"),
    ):
        with pytest.raises(ValueError, match=message):
            measuring._maker(text)


# ---- submissions ---------------------------------------------------------------------------------


def changed(**cell):
    data = json.loads(json.dumps(BY_NAME["q-b"].to_dict()))
    data["results"]["lock"]["3"] |= cell
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "an entry is an object"),
        (changed() | {"version": 2}, "it is of version 2 of the suite, and this library has versi"),
        (changed() | {"name": "<b>"}, "its name '<b>' must have at most 40"),
        (changed() | {"results": {}}, "it has no whole results on riverswim with N = 1"),
        (changed(more=1), "it has no whole results on lock with N = 3"),
        (changed(regret=[1.0]), "regret must be 8 numbers, one for each seed"),
        (changed(regret=[float("nan")] * 8), "regret lies from 0 to"),
        (changed(regret=[1e9] * 8), "regret lies from 0 to"),
        (changed(deployments=[4] * 8), "deployments are whole numbers up to 3"),
        (changed(local_switches=[0] * 8), "0 rows cannot have switched in 3 deployments"),
        (changed(seconds=0), "seconds must be a positive number"),
    ],
)
def test_impossible_submissions_are_refused(data, message, tmp_path):
    path = tmp_path / "entry.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=f"is no entry of the suite: .*{message}"):
        bench.read_entry(path)


def test_the_command_scores_checks_and_merges(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench"]) == 0
    assert "few" in capsys.readouterr().out
    assert main(["bench", "--algorithm", QUICK.replace("0.05", "0.01"), "--name", "mine"]) == 0
    assert "regret over best known" in capsys.readouterr().out
    assert Path("lowswitch-bench/card.png").stat().st_size > 10_000
    entry = "lowswitch-bench/entry.json"
    assert main(["bench", "--check", entry]) == 0
    assert main(["bench", "--merge", entry, "--into", "table.json"]) == 0
    assert [one.name for one in bench.read_entries("table.json")] == ["mine"]
    bench.write_entries("all.json", bench.known())
    assert [one.to_dict() for one in bench.read_entries("all.json")] == [
        one.to_dict() for one in bench.known()
    ]
    other = json.loads(Path(entry).read_text()) | {"algorithm": "ucb-h:deployments={N}"}
    Path(entry).write_text(json.dumps(other), encoding="utf-8")
    assert main(["bench", "--merge", entry, "--into", "table.json"]) != 0
    assert main(["bench", "--check", entry]) != 0
    assert "says something else of garnet" in capsys.readouterr().err
    assert main(["bench", "--merge", entry]) != 0
