"""Code of one's own is known by its text and by what it reads: whoever edits it gets new results,
and no file goes on with another code.
"""

import importlib
import sys
import textwrap

import pytest

import lowswitch as ls
from lowswitch.algorithms.fingerprints import fingerprint_of
from lowswitch.io.archive import UnknownPartError

SIZE = {"horizon": 3, "states": 3, "actions": 2}
MODULE = """
    from dataclasses import dataclass
    from typing import NamedTuple
    import numpy as np
    import lowswitch as ls
    import own_helpers

    FACTOR = 7
    WEIGHTS = np.ones(3)

    def power(n):
        return n**3

    class Pair(NamedTuple):
        low: int
        high: int

    class Base(ls.parts.ByVisits):
        def counts(self):
            return range(*Pair(1, 6))

    @dataclass(frozen=True)
    class Cubes(Base):
        first: int = 1
        step = 1

        def triggers(self, *, horizon, limit):
            factor = self.first * FACTOR * self.step
            later = (factor * power(n) + own_helpers.more() for n in self.counts())
            return ls.parts.Triggers(0, tuple(n for n in later if n <= limit))

    @dataclass(frozen=True)
    class Months(ls.parts.Whole):
        def grid(self, episodes):
            return tuple(range(FACTOR, episodes, FACTOR))

        def refresh_bound(self, *, horizon, states, actions, episodes):
            return len(self.grid(episodes))

    @dataclass(frozen=True)
    class Greedy(ls.parts.FromCounts):
        def plan(self, counts):
            n = np.maximum(counts.visits, 1)
            return counts.greedy(counts.rewards / n + FACTOR / n * WEIGHTS[0])

    def play(state, action, h, random):
        return (state + action) % 3, float(random.random() < WEIGHTS[0] / FACTOR)

    class World:
        def __init__(self, chance):
            self.chance = chance

        def play(self, state, action, h, random):
            return (state + action) % 3, float(random.random() < self.chance)
"""
HELPERS = """
    def more():
        return 0
"""


class Edited:
    """A module of the user's that can be edited and imported anew, as by the next process."""

    def __init__(self, folder):
        self.folder, self.texts = folder, {"own_code": MODULE, "own_helpers": HELPERS}

    def load(self, name="own_code", old="", new=""):
        assert old in self.texts[name]
        self.texts[name] = self.texts[name].replace(old, new) if old else self.texts[name]
        for module, text in self.texts.items():
            path = self.folder / f"{module}.py"
            path.write_text(textwrap.dedent(text), encoding="utf-8")
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        return importlib.import_module("own_code")


@pytest.fixture
def edited(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Edited(tmp_path)
    for name in ("own_code", "own_helpers"):
        sys.modules.pop(name, None)


EDITS = {
    "the method": ("own_code", "factor = self.first", "factor = 2 * self.first"),
    "a number that it reads": ("own_code", "FACTOR = 7", "FACTOR = 9"),
    "a function that it calls": ("own_code", "n**3", "n**2"),
    "the class below": ("own_code", "Pair(1, 6)", "Pair(1, 9)"),
    "a value of the class": ("own_code", "step = 1", "step = 2"),
    "a module that it reads": ("own_helpers", "return 0", "return 1"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_changes_what_a_schedule_is_known_by(edited, edit):
    schedule = edited.load().Cubes()
    before = ls.q_hoeffding(c=0.05, schedule=schedule).facts()
    assert ls.q_hoeffding(c=0.05, schedule=edited.load().Cubes()).facts() == before
    assert ls.q_hoeffding(c=0.05, schedule=edited.load(*edit).Cubes()).facts() != before
    assert ls.q_hoeffding(c=0.05, schedule=schedule).facts()["schedule"]["kind"] == "own_code.Cubes"


def test_the_default_of_a_field_is_no_part_of_the_code(edited):
    before = ls.q_hoeffding(c=0.05, schedule=edited.load().Cubes(first=2)).facts()
    after = edited.load("own_code", "first: int = 1", "first: int = 5").Cubes(first=2)
    assert ls.q_hoeffding(c=0.05, schedule=after).facts() == before


def test_a_class_keeps_its_text_when_its_file_is_edited_after_it_was_imported(edited):
    schedule = edited.load().Months()
    before = ls.q_hoeffding(c=0.05, schedule=schedule).facts()
    other = edited.load("own_code", "range(FACTOR,", "range(2 * FACTOR,").Months()
    assert ls.q_hoeffding(c=0.05, schedule=schedule).facts() == before
    assert ls.q_hoeffding(c=0.05, schedule=other).facts() != before


def greedy(module):
    return ls.Algorithm(
        estimator=module.Greedy(), bonus=ls.parts.NoBonus(), schedule=module.Months()
    )


@pytest.mark.parametrize(
    "make", [greedy, lambda module: ls.q_hoeffding(c=0.05, schedule=module.Cubes())]
)
def test_sweeps_and_frontiers_compute_edited_parts_anew(edited, make, tmp_path):
    mdp = ls.envs.random_mdp(**SIZE, seed=1)
    given = {"episodes": 60, "seeds": 2, "folder": tmp_path / "kept", "progress": False}
    first = ls.sweep([mdp], [make(edited.load())], **given)
    assert ls.sweep([mdp], [make(edited.load())], **given).found == 1
    again = ls.sweep([mdp], [make(edited.load("own_code", "FACTOR = 7", "FACTOR = 2"))], **given)
    assert (first.found, again.found) == (0, 0)
    portfolio = [make(edited.load()), ls.ucb2_hoeffding(c=0.05)]
    frontier = {**given, "confirm": 2, "portfolio": portfolio}
    ls.frontier(mdp, **frontier)
    kept = set(given["folder"].rglob("*.npz"))
    ls.frontier(mdp, **frontier)
    assert set(given["folder"].rglob("*.npz")) == kept
    portfolio[0] = make(edited.load("own_code", "FACTOR = 2", "FACTOR = 30"))
    ls.frontier(mdp, **frontier)
    assert set(given["folder"].rglob("*.npz")) > kept


def test_files_do_not_go_on_with_an_edited_class(edited, tmp_path):
    algorithm = ls.q_hoeffding(c=0.05, schedule=edited.load().Cubes())
    ls.Learner(algorithm, **SIZE, episodes=50).save(tmp_path / "learner.npz")
    mdp = ls.envs.random_mdp(**SIZE, seed=1)
    runs = ls.simulate(mdp, algorithm, episodes=50, seeds=1, progress=False)
    runs.save(tmp_path / "runs.npz")
    checkpoint = {"machines": 3, "seed": 0, "checkpoint": tmp_path / "run.npz", "progress": False}
    ls.concurrent.run(mdp, algorithm, 50, **checkpoint, stop=ls.concurrent.Stop(rounds=2))
    edited.load("own_code", "FACTOR = 7", "FACTOR = 9")
    message = "the source of own_code.Cubes has changed since this was saved"
    with pytest.raises(ValueError, match=message):
        ls.Learner.load(tmp_path / "learner.npz")
    with pytest.warns(UserWarning, match=message):
        assert not isinstance(ls.load(tmp_path / "runs.npz").algorithm, ls.Algorithm)
    with pytest.raises(ValueError, match=message):
        edited_algorithm = ls.q_hoeffding(c=0.05, schedule=sys.modules["own_code"].Cubes())
        ls.concurrent.run(mdp, edited_algorithm, 50, **checkpoint)


def test_files_without_the_hash_of_a_class_open_as_they_did(edited):
    algorithm = ls.q_hoeffding(c=0.05, schedule=edited.load().Cubes())
    data = algorithm.to_dict()
    assert data["schedule"].pop("source")
    assert ls.Algorithm.from_dict(data) == algorithm
    data["schedule"]["source"] = "0" * 64
    with pytest.raises(UnknownPartError, match="restore it, with everything that it reads"):
        ls.Algorithm.from_dict(data)


def test_what_cannot_be_hashed_is_refused_with_the_way_out(edited):
    module = edited.load("own_code", "FACTOR = 7", "FACTOR = iter([7])")
    with pytest.raises(ValueError, match="reads FACTOR, a list_iterator, which could change"):
        ls.q_hoeffding(c=0.05, schedule=module.Months()).facts()


PLAN = "return counts.greedy(counts.rewards / n + FACTOR / n * WEIGHTS[0])"


@pytest.mark.parametrize(
    ("imports", "noise"),
    [
        ("import random", "random.random()"),
        ("from random import gauss", "gauss(0, 1)"),
        ("", "np.random.normal(size=n.shape)"),
        ("from numpy.random import normal", "normal(size=n.shape)"),
        ("", "np.random.default_rng().normal(size=n.shape)"),
        ("from numpy.random import default_rng", "default_rng().normal(size=n.shape)"),
        ("rng = np.random.default_rng()", "rng.normal(size=n.shape)"),
        ("import time", "time.time()"),
        ("import os", "float(os.environ['SCALE'])"),
        ("def noise():\n        return np.random.normal()", "noise()"),
    ],
)
def test_an_estimator_whose_plans_could_not_be_repeated_is_refused(edited, imports, noise):
    edited.load("own_code", "FACTOR = 7", f"FACTOR = 7\n    {imports}")
    module = edited.load("own_code", PLAN, f"return counts.greedy(counts.rewards + {noise})")
    parts = {"bonus": ls.parts.NoBonus(), "schedule": ls.parts.WholePolicy(2)}
    with pytest.raises(UnknownPartError, match=r"reads .*take noise from counts\.generator"):
        ls.Algorithm(estimator=module.Greedy(), **parts)


def test_a_schedule_that_could_not_be_repeated_is_refused(edited):
    drawn = "tuple(range(np.random.randint(9), episodes, FACTOR))"
    module = edited.load("own_code", "tuple(range(FACTOR, episodes, FACTOR))", drawn)
    with pytest.raises(ValueError, match=r"grid reads np\.random\.randint, which can differ"):
        ls.ucbvi(c=0.01, schedule=module.Months())


def test_a_generator_with_a_seed_is_allowed(edited):
    noise = "np.random.default_rng([3, counts.episodes]).normal(size=n.shape)"
    module = edited.load("own_code", PLAN, f"return counts.greedy(counts.rewards + {noise})")
    parts = {"bonus": ls.parts.NoBonus(), "schedule": ls.parts.WholePolicy(2)}
    ls.Algorithm(estimator=module.Greedy(), **parts)


def simulator(step):
    return ls.envs.Simulator(step, **SIZE).facts()


def test_a_simulator_is_known_by_all_that_its_step_reads(edited):
    before = simulator(edited.load().play)
    assert simulator(edited.load().play) == before
    changed = edited.load("own_code", "np.ones(3)", "np.full(3, 0.5)").play
    assert simulator(changed) != before
    World = edited.load().World
    assert simulator(World(0.5).play) == simulator(World(0.5).play) != simulator(World(0.6).play)


def test_code_without_text_is_known_by_its_bytecode_and_that_of_functions_inside():
    def made(number):
        names = {}
        exec(f"def f(): return sum({number} * n for n in range(3))", names)
        return names["f"]

    assert fingerprint_of(made(2)) == fingerprint_of(made(2)) != fingerprint_of(made(3))
