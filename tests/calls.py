"""Calls that consist of many units of work, and what tells their results from each other."""

import numpy as np

import lowswitch as ls
from lowswitch.features import problems
from lowswitch.io import storage
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.runs.units import crew_of

RIVER = ls.envs.riverswim(states=3, horizon=4)
SIDES = problems.classification(np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 0]))
ALGORITHMS = [
    ls.q_hoeffding(c=0.05),
    ls.few(deployments=3),
    ls.psrl(members=2, deployments=4, schedule="grid/geometric/5"),
]
TINY = Effort(
    name="tiny",
    episodes=200,
    seeds=3,
    pulls=1,
    bandit_runs=1,
    plain_episodes=2,
    plain_seeds=1,
)


def alike(one, other):
    """The same facts and arrays, but for the time that it took."""
    arrays = [{}, {}]
    facts = [storage.pack(value, part) for value, part in zip((one, other), arrays, strict=True)]
    assert without_time(facts[0]) == without_time(facts[1])
    assert arrays[0].keys() == arrays[1].keys()
    for name in arrays[0]:
        if "seconds" not in name:
            mine, theirs = arrays[0][name], arrays[1][name]
            assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes()), name


def without_time(facts):
    if isinstance(facts, dict):
        timeless = facts.keys() - {"seconds", "date"}
        return {name: without_time(facts[name]) for name in timeless}
    if isinstance(facts, list):
        return [without_time(part) for part in facts]
    return str(facts)


def swept(fleet=None, folder=None):
    return ls.sweep(
        [RIVER, SIDES],
        [ls.few(deployments=3), ls.few(deployments=2, members=1)],
        episodes=60,
        seeds=3,
        progress=False,
        fleet=fleet,
        folder=folder,
    ).runs


def raced(fleet=None, folder=None):
    return ls.frontier(
        RIVER,
        episodes=100,
        seeds=2,
        confirm=2,
        portfolio=ALGORITHMS,
        progress=False,
        fleet=fleet,
        folder=folder,
    )


def planned(fleet=None, folder=None):
    what = {"episodes": 60, "deployments": 2, "problems": 3, "progress": False}
    return (
        ls.plan((3, 2, 2), present_reward=1.0, **what, fleet=fleet, folder=folder),
        ls.plan({"features": 2, "actions": 2}, **what, fleet=fleet, folder=folder),
    )


def measured(fleet=None, folder=None):
    """What a claim of the paper asks of its laboratory."""
    with crew_of(fleet) as crew:
        lab = Lab(folder, TINY, progress=False, crew=crew)
        runs = lab.runs("riverswim:states=3,horizon=4", ALGORITHMS[0], history=True)

        def compute(place):
            runs = ls.simulate(RIVER, ALGORITHMS[place], episodes=50, seeds=1, progress=False)
            return {"deployments": runs.deployments}

        wanted = dict[str, np.ndarray]
        several = lab.measure_each("some", [["a"], ["b"]], compute, wanted, episodes=1)
    return runs, several[0]["deployments"], several[1]["deployments"]
