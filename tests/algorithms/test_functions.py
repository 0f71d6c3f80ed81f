"""A bonus and an update of one's own: the functions of docs/adding.md, held against plain Python.

The same text gives the same hash, so these tests and the page share their machine code.
"""

import contextlib
import json
import math
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ledgers
import lowswitch as ls
from lowswitch.algorithms import parts
from lowswitch.concurrent.sources import TabularPlayer
from lowswitch.kernels.own import PlainPythonWarning, _callable
from lowswitch.learners import knowledge
from lowswitch.learners.own import own_spec

PAGE = Path(__file__).parents[2] / "docs" / "adding.md"
H, S, A, K = 10, 6, 2, 200
SIZE = {"horizon": H, "states": S, "actions": A, "episodes": K}


def functions_of_the_page():
    """What the page defines, as a module; blocks without a decorated function are left out."""
    made = types.ModuleType("functions_of_the_page")
    made.ls = ls
    for block in PAGE.read_text(encoding="utf-8").split("```python\n")[1:]:
        text = block.split("```")[0]
        if "@ls.parts." in text:
            text = text.split("\n\n\nmine =")[0].split("\n\n\nhopeful =")[0]
            exec(compile(text, str(PAGE.name), "exec"), vars(made))
    return made


page = functions_of_the_page()
MINE = ls.Algorithm(
    estimator=page.speedy(clip="remaining"), bonus=page.logarithmic(c=0.02), schedule=parts.UCB2()
)


@pytest.fixture(scope="module")
def mdp():
    return ls.envs.riverswim(states=S, horizon=H)


@pytest.fixture(scope="module")
def runs(mdp):
    return ls.simulate(mdp, MINE, episodes=K, seeds=[3], history=True)


def test_an_example_of_the_page_has_less_than_20_lines():
    text = PAGE.read_text(encoding="utf-8")
    parts_of_page = [block.split("```")[0] for block in text.split("```python\n")]
    examples = [block for block in parts_of_page if "\n@ls.parts." in "\n" + block]
    assert len(examples) == 3
    assert max(len(block.strip().splitlines()) for block in examples) < 20


def twin(mdp, seed):
    """Speedy Q-learning with the logarithmic bonus in plain Python, as Bai et al. deploy it.

    Returns the estimates, and the row changes as a history has them.
    """
    triggers = set(parts.UCB2().triggers(horizon=H, limit=K).first(10**4))
    q = [[[float(H - h)] * A for _ in range(S)] for h in range(H)]
    seen = [[[None] * A for _ in range(S)] for _ in range(H)]
    visits = np.zeros((H, S, A), dtype=int)
    policy, changes = np.zeros((H, S), dtype=int), []
    player = TabularPlayer(mdp, seed)
    for k in range(K):
        states, rewards = (array[0] for array in player.play(policy, np.array([k])))
        before = policy.copy()
        for h in range(H):
            x, a = int(states[h]), int(before[h, states[h]])
            y = int(states[h + 1]) if h + 1 < H else 0
            values = (
                [min(float(H - h - 1), max(row)) for row in q[h + 1]] if h + 1 < H else [0.0] * S
            )
            visits[h, x, a] += 1
            n = int(visits[h, x, a])
            last = values[y] if n == 1 else seen[h][x][a][y]
            seen[h][x][a] = values
            bonus = 0.02 * H * math.sqrt(math.log(1 + n) / n)
            old, rate = q[h][x][a], 1 / n
            q[h][x][a] = (
                old
                + rate * (float(rewards[h]) + last - old)
                + (1 - rate) * (values[y] - last)
                + rate * bonus
            )
            if n in triggers and max(q[h][x]) > q[h][x][a]:
                policy[h, x] = q[h][x].index(max(q[h][x]))
                changes.append([k, h, x, int(policy[h, x])])
    return np.array(q), changes


def test_compiled_functions_equal_their_plain_twin_to_the_bit(mdp, runs):
    estimates, changes = twin(mdp, 3)
    assert len(changes) > 100
    assert runs.history[0].changes.tolist() == changes
    learner = told(mdp)
    assert np.array_equal(learner.q, estimates)


def told(mdp, episodes=K, bonus=MINE.bonus, learner=None):
    """A learner that was told the episodes of seed 3, one after the other."""
    learner = learner or ls.Learner(replace(MINE, bonus=bonus), **SIZE)
    player = TabularPlayer(mdp, 3)
    for k in range(learner.told, episodes):
        states, rewards = player.play(learner.policy, np.array([k]))
        learner.tell(states[0], learner.policy[np.arange(H), states[0]], rewards[0])
    return learner


def test_every_driver_has_the_same_history(mdp, runs, tmp_path, monkeypatch):
    changes = runs.history[0].changes.tolist()
    learner = told(mdp, K // 2)
    learner.save(tmp_path / "half.npz")
    again = ls.Learner.load(tmp_path / "half.npz")
    assert np.array_equal(again.q, learner.q)
    with monkeypatch.context() as other_source:
        other_source.setattr(page.speedy, "source", "0" * 64)
        changed = "half.npz' holds a learner that cannot go on here: the source of .*speedy has cha"
        with pytest.raises(ValueError, match=changed):
            ls.Learner.load(tmp_path / "half.npz")
    assert np.array_equal(told(mdp).policy, runs.policy[0])
    for rule in ("trigger", "speculate"):
        run = ls.concurrent.run(mdp, MINE, episodes=K, machines=7, rule=rule, seed=3)
        assert run.history[0].changes.tolist() == changes
    other = replace(MINE, bonus=page.logarithmic(c=0.5))
    found = ls.frontier(mdp, episodes=K, seeds=2, confirm=2, portfolio=[MINE, other])
    assert {point.algorithm for point in found.points} == {MINE, other}


def test_a_ledger_replays_them_and_refuses_another_source(tmp_path, monkeypatch):
    ledger = ledgers.made(tmp_path / "own.db", MINE, gate="open")
    ledgers.play(ledger, 12)
    known = ledgers.tables(ledger)
    ledger.close()
    with contextlib.closing(ledgers.Ledger.open(tmp_path / "own.db")) as again:
        assert again.verify().whole
        assert ledgers.tables(again) == known
    monkeypatch.setattr(page.logarithmic, "source", "0" * 64)
    with pytest.raises(ValueError, match="the source of .*logarithmic has changed"):
        ledgers.Ledger.open(tmp_path / "own.db").status()


# ---- sources -------------------------------------------------------------------------------------


def test_saved_parts_name_their_function_and_refuse_another_source():
    data = json.loads(json.dumps(MINE.to_dict()))
    assert data["bonus"]["kind"] == f"{page.logarithmic.__module__}.logarithmic"
    assert len(data["bonus"]["source"]) == 64
    assert ls.Algorithm.from_dict(data) == MINE
    data["bonus"]["source"] = "0" * 64
    message = "the source of .*logarithmic has changed since this was saved .* another name"
    with pytest.raises(ValueError, match=message):
        ls.Algorithm.from_dict(data)


def made(text, **more):
    """The part that a text defines last."""
    namespace = {"ls": ls, "math": math, "__name__": "made", **more}
    exec(text, namespace)
    return list(namespace.values())[-1]


BONUS = "@ls.parts.bonus\ndef mine(n, *, c=1.0):\n    return c / (n + {})\n"


def test_the_hash_covers_what_a_function_reads():
    same, again, other = (made(BONUS.format(one)).source for one in (1, 1, 2))
    assert same == again != other
    reads = [made(BONUS.format("more"), more=more).source for more in (1, 1, 2)]
    assert reads[0] == reads[1] != reads[2]
    helpers = [
        made(f"def more():\n    return {one}\n\n" + BONUS.format("more()")) for one in (1, 2)
    ]
    assert helpers[0].source != helpers[1].source
    with pytest.raises(ValueError, match="mine reads more, a list, which could change"):
        made(BONUS.format("more[0]"), more=[1])


@pytest.mark.parametrize(
    ("before", "result"),
    [
        ("import random", "random.random()"),
        ("from random import random", "random()"),
        ("import numpy as np", "np.random.normal()"),
        ("from numpy import random", "random.normal()"),
        ("from time import perf_counter", "perf_counter()"),
        ("import os", "float(os.environ['SCALE'])"),
    ],
)
def test_a_function_that_could_not_be_repeated_is_refused(before, result):
    with pytest.raises(ValueError, match="mine reads .*, which can differ from call to call"):
        made(f"{before}\n@ls.parts.bonus\ndef mine(n):\n    return {result}\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import math\n    return math.sqrt(n)", "mine imports math inside of the function"),
        ("from random import random\n    return random()", "mine imports random inside"),
        ("return float(open('scale').read()) / n", "mine reads through open, which can differ"),
        ("return __import__('time').time()", "mine reads through __import__, which can differ"),
    ],
)
def test_a_function_reads_nothing_where_it_cannot_be_seen(body, message):
    with pytest.raises(ValueError, match=message):
        made(f"@ls.parts.bonus\ndef mine(n):\n    {body}\n")


def test_tables_data_frames_files_and_messages_use_one_name(runs, tmp_path):
    runs.to_csv(tmp_path / "runs.csv", ["algorithm"])
    [_, name, *_] = (tmp_path / "runs.csv").read_text(encoding="utf-8").splitlines()
    assert name.strip('"') == runs.summary().rows[0][0] == str(MINE) == MINE.label
    assert MINE.label in repr(runs)


def test_a_function_without_its_decorator_and_a_recipe_that_is_not_called_say_the_way_out(mdp):
    def mine(n):
        return 1 / n

    with pytest.raises(ValueError, match=r"put @ls\.parts\.bonus above it; write mine\(\.\.\.\)"):
        replace(MINE, bonus=mine)
    with pytest.raises(ValueError, match=r"write few\(\.\.\.\)"):
        ls.simulate(mdp, ls.few, episodes=10)
    with pytest.raises(TypeError, match=r"options by name, as in few\(deployments=10\)"):
        ls.few(10)


def test_a_bonus_that_the_update_would_ignore_is_refused():
    """Results would name a bonus that never ran."""
    hopeful = page.optimistic(factor=0.2)
    with pytest.raises(ValueError, match="optimistic does not ask for `bonus`, so logarithmic"):
        replace(MINE, estimator=hopeful)
    replace(MINE, estimator=hopeful, bonus=parts.NoBonus())


def test_a_function_is_refused_once_something_it_reads_has_changed(mdp):
    """Compiled code has the old value, plain Python would have the new one."""
    scales, helpers = types.ModuleType("scales"), types.ModuleType("helpers")
    scales.c, helpers.scales = 0.1, scales
    more = {"c": 0.1, "scales": scales, "helpers": helpers}
    for change in ("c", "scales.c", "helpers.scales.c"):
        bonus = made(f"@ls.parts.bonus\ndef mine(n):\n    return {change} / n\n", **more)
        algorithm = replace(MINE, bonus=bonus())
        ls.Learner(algorithm, **SIZE)
        place = bonus.function.__globals__ if change == "c" else vars(scales)
        place["c"] += 1
        message = f"mine reads {change}, which has changed since mine was defined; define it again"
        with pytest.raises(ValueError, match=message):
            ls.Learner(algorithm, **SIZE)
    late = made("@ls.parts.bonus\ndef mine(n):\n    return late / n\n")
    late.function.__globals__["late"] = 1.0
    with pytest.raises(ValueError, match="mine reads late, which has changed"):
        ls.Learner(replace(MINE, bonus=late()), **SIZE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@ls.parts.bonus\ndef mine(m):\n    return m", "mine asks for m, which does not exist"),
        ("@ls.parts.bonus\ndef mine(bonus):\n    return 1", "mine asks for bonus, which does not"),
        ("@ls.parts.bonus\ndef mine(n, *, c):\n    return c", "the option c of mine needs a defa"),
        (
            "@ls.parts.update\ndef mine(n, *, clip=1):\n    return n",
            "the option name clip is taken",
        ),
        ("@ls.parts.update\ndef mine(memory):\n    return 1", "must ask for `memory` to have"),
        ("@ls.parts.update(memory=2)\ndef mine(n):\n    return 1", "must ask for `memory` to have"),
        ("@ls.parts.bonus\ndef mine(n, *, H=1):\n    return H", "the option name H is taken"),
        ("mine = ls.parts.bonus(3)", "go above a function, not 3"),
    ],
)
def test_mistakes_in_a_signature_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        made(text)


def test_options_are_numbers_and_functions_are_not_mixed():
    with pytest.raises(ValueError, match="c of logarithmic must be a finite number, not 'a'"):
        page.logarithmic(c="a")
    with pytest.raises(ValueError, match="speedy is a function of your own, .* leave scales out"):
        replace(MINE, scales=(1.0, 0.5))
    with pytest.raises(
        ValueError, match="OwnBonus has no function; write one and put @ls.parts.bonus"
    ):
        parts.OwnBonus()
    assert page.logarithmic(c=1) == page.logarithmic(c=1.0) != page.speedy()


# ---- results -------------------------------------------------------------------------------------


SLOW = """
@ls.parts.bonus
def slow(n, H, *, c=0.02, pole=0.0, broken=0.0):
    if n == broken:
        raise RuntimeError(f"visit {n.bit_length()}")
    return math.nan if n == pole else c * H * math.sqrt(math.log(1 + n) / n)
"""


def test_bytecode_that_numba_does_not_know_runs_as_plain_python():
    unpacks = made("@ls.parts.bonus\ndef mine(n):\n    first, *_ = (n,)\n    return 1 / first\n")
    with pytest.warns(PlainPythonWarning, match="mine does not compile .*unsupported opcode"):
        _, is_plain = _callable(unpacks.function)
    assert is_plain


def test_what_does_not_compile_runs_as_plain_python(mdp):
    """The same history, and errors and estimates that are no numbers leave nothing behind."""
    slow, fast = made(SLOW), told(mdp, 40)
    with pytest.warns(PlainPythonWarning, match="slow does not compile .*, so .* times per second"):
        learner = told(mdp, 40, slow())
    assert np.array_equal(learner.q, fast.q)
    assert np.array_equal(learner.policy, fast.policy)
    for option, error in (
        ({"broken": 2}, pytest.raises(RuntimeError, match="visit 2")),
        (
            {"pole": 2},
            pytest.raises(
                ValueError, match="bonus by slow and speedy is not a finite number .* visit n = 2;"
            ),
        ),
    ):
        learner = told(mdp, 1, slow(**option))
        with error:
            told(mdp, 9, slow(**option), learner)
        assert 0 < learner.told < 9
        assert np.array_equal(learner.q, told(mdp, learner.told).q)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("    return 1.0 if n < 3 else None", ValueError, "mine returns .*, which is not always a"),
        ("    return 1.0, 2.0", ValueError, "mine returns .*, which is not always a number"),
        ("    values[y] = 0.0\n    return q", ValueError, "does not compile .* write to values"),
        ("    return q + values[6]", IndexError, "in mine: .*; values has 6 entries, and memory"),
        ("    memory[2] = q\n    return q", IndexError, "in mine: .* out of bounds; values has 6"),
    ],
)
def test_a_function_cannot_return_or_touch_what_it_should_not(mdp, text, kind, message):
    update = made(f"@ls.parts.update(memory=2)\ndef mine(n, y, q, values, memory):\n{text}\n")
    algorithm = ls.Algorithm(estimator=update(), bonus=parts.NoBonus(), schedule=parts.Growth(2))
    with pytest.raises(kind, match=message):
        ls.simulate(mdp, algorithm, episodes=20, seeds=1)
    with pytest.raises(kind, match=message):
        told(mdp, 20, learner=ls.Learner(algorithm, **SIZE))


def test_problems_of_all_sizes_share_the_code_of_a_function():
    """A function with a number for each state is compiled once, not for each number of states."""
    kinds = set()
    for states in (3, 4):
        size = knowledge.ProblemSize(horizon=2, states=states, actions=2, episodes=9)
        kinds.add(type(own_spec(MINE, size)))
    assert len(kinds) == 1


def test_a_bonus_that_ends_in_nan_is_named_with_its_first_such_visit(mdp):
    bonus = made(
        "@ls.parts.bonus\ndef pole(n, *, at=6.0):\n"
        "    return 0.1 / n if n < at else math.sqrt(at - n - 1)\n"
    )
    algorithm = ls.Algorithm(estimator=parts.QLearning(), bonus=bonus(), schedule=parts.Growth(2))
    message = "the bonus by pole is not a finite number at step .*, at its visit n = 6; let it"
    with pytest.raises(ValueError, match=message):
        ls.simulate(mdp, algorithm, episodes=3_000, seeds=1)


def test_two_algorithms_of_one_name_are_not_mixed_up(mdp):
    """A sweep put the scores of both into one row, and a race called both alike."""
    text = "@ls.parts.bonus\ndef logarithmic(n, H, *, c=0.05):\n    return c * H / n\n"
    few, many = MINE, replace(MINE, bonus=made(text)(c=0.02))
    assert few != many
    with pytest.raises(ValueError, match="two of these algorithms are called speedy.* a mapping"):
        ls.sweep([mdp], [few, many], episodes=20, seeds=2)
    with pytest.raises(ValueError, match="two of these algorithms are called speedy.* a mapping"):
        ls.frontier(mdp, episodes=20, seeds=2, portfolio=[few, many])
    swept = ls.sweep([mdp], {"few": few, "many": many}, episodes=20, seeds=2)
    assert swept.labels == ["few", "many"]


def test_a_planner_refuses_a_bonus_of_ones_own_with_the_way_out():
    with pytest.raises(ValueError, match="is a bonus for Q-learners, and Planning .* FromCounts"):
        ls.Algorithm(estimator=parts.Planning(), bonus=page.logarithmic(), schedule=parts.Growth(2))
