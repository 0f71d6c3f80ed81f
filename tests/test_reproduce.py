"""The reproduction: resumable, whole, and its verdicts turn when the learner is broken on
purpose.
"""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import lowswitch
from lowswitch.cli import main
from lowswitch.kernels.compile import inline
from lowswitch.reproduce import CLAIMS, reproduce
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.machines import count_rounds
from lowswitch.reproduce.section import Check, Section

TINY = Effort(
    name="tiny",
    episodes=100_000,
    seeds=2,
    pulls=5_000,
    bandit_runs=20,
    plain_episodes=150,
    plain_seeds=2,
)
RIVER = {"RiverSwim": "riverswim:states=4,horizon=4"}
LONGER_RIVER = {"RiverSwim": "riverswim:states=5,horizon=6"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A small laboratory that knows one river."""
    for module in ("qlearning", "open_questions", "machines", "rounds"):
        monkeypatch.setattr(sys.modules[f"lowswitch.reproduce.{module}"], "PROBLEMS", RIVER)
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.mistakes"], "PROBLEMS", LONGER_RIVER)
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.qlearning"], "HORIZONS", (3, 5))
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.pac_claim"], "PROBLEM", RIVER["RiverSwim"])
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.messages"], "EPISODES", 100)
    return Lab(tmp_path, TINY)


def failing(section):
    return [check.rule for check in section.checks if not check.holds]


@pytest.mark.parametrize(
    "name", [name for name in CLAIMS if name not in ("bandits", "lower-bound")]
)
def test_the_sound_learner_keeps_every_rule(lab, name):
    section = CLAIMS[name](lab)
    assert section.name == name
    assert failing(section) == []
    assert section.verdict == "holds"
    data = json.loads(json.dumps(section.to_dict()))
    assert Section.from_dict(data).to_dict() == data


def test_rounds_by_hand():
    history = lowswitch.History(
        np.array([[2, 0, 0, 1], [2, 1, 0, 1], [3, 0, 0, 0], [9, 0, 0, 1]])
    )  # phases of 3, 1, 6 and 2 episodes
    assert [count_rounds(history, 12, M) for M in (1, 2, 3, 100)] == [
        12,
        2 + 1 + 3 + 1,
        1 + 1 + 2 + 1,
        4,
    ]


@pytest.fixture
def few(lab, monkeypatch):
    """The laboratory for interpreted kernels."""
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.lemmas"], "HORIZONS", (2, 3))
    lab.effort = replace(TINY, plain_episodes=50, plain_seeds=1)
    return lab


def break_qlearning(fresh, name):
    """Make the Q-learning of fresh kernels wrong in one way."""
    qlearning = fresh("qlearning")
    for part, function in BREAKS[name](qlearning).items():
        setattr(qlearning, part, inline(function))


def swapped_alpha(right):
    return {"learning_rate": lambda n, H: (n - 1) / (H + n)}


def misprinted_variance(right):
    return {"variance": lambda total, squares, share: max(0.0, (squares - total * total) * share)}


def whole_table_copy(right):
    take_best = right.take_best

    def take_best_everywhere(spec, tables, here):
        first = here // spec.S * spec.S
        for other in range(first, first + spec.S):
            take_best(spec, tables, other)

    return {"take_best": take_best_everywhere}


def ties_away_from_the_incumbent(right):
    digest_visit, DUE, TRIGGERED = right.digest_visit, right.DUE, right.TRIGGERED

    def take_last_best(spec, tables, here):
        action, best = 0, -np.inf
        for a in range(spec.A):
            q = tables.cells[here * spec.A + a]["q"]
            action = a if q >= best else action
            best = max(best, q)
        tables.rows[here]["action"] = action

    def digest_ties(spec, tables, scale, base, h, x, a, action, reward, y):
        said = digest_visit(spec, tables, scale, base, h, x, a, action, reward, y)
        here = base + h * spec.S + x
        q = tables.cells[here * spec.A + action]["q"]
        return DUE if said == TRIGGERED and q == tables.rows[here]["best_other"] else said

    return {"take_best": take_last_best, "digest_visit": digest_ties}


BREAKS = {
    "swapped alpha": swapped_alpha,
    "misprinted W_t": misprinted_variance,
    "whole-table copy": whole_table_copy,
    "ties away from the incumbent": ties_away_from_the_incumbent,
}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of 64-bit noise
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("swapped alpha", "each update's bonus is its formula's"),
        ("misprinted W_t", "W_t the variance of the next values"),
        ("whole-table copy", "a row changes only at a trigger of its own"),
        ("ties away from the incumbent", "the incumbent stays if it is among the best"),
    ],
)
def test_a_broken_learner_breaks_the_lemmas(interpreted_kernels, few, name, rule):
    break_qlearning(interpreted_kernels, name)
    section = CLAIMS["lemmas"](few)
    assert section.verdict.startswith("does not hold")
    assert any(rule in failed for failed in failing(section))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_the_sound_learner_keeps_the_lemmas_interpreted_too(interpreted_kernels, few):
    """So that what breaks above is what was broken."""
    assert CLAIMS["lemmas"](few).verdict == "holds"


@pytest.mark.slow
def test_a_swapped_learning_rate_breaks_the_theorems(fresh_kernels, lab):
    break_qlearning(fresh_kernels, "swapped alpha")
    for name in ("ucb2-h", "pac"):
        assert CLAIMS[name](lab).verdict.startswith("does not hold")


def test_the_page_figures_and_numbers_are_written(lab, tmp_path):
    sections = list(reproduce(tmp_path, effort=TINY, only=["ucb2-h", "errata"]))
    page = (tmp_path / "ucb2-h-errata.html").read_text()
    for section in sections:
        assert f'id="{section.name}"' in page
        assert all(check.measured.split(",")[0] in page for check in section.checks)
    assert page.count("data:image/png;base64,") == 1
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched
    assert {path.name for path in tmp_path.iterdir()} == {
        "cache",
        "ucb2-h-errata.html",
        "ucb2-h-errata.json",
        "ucb2-h.png",
        "ucb2-h.svg",
    }
    numbers = json.loads((tmp_path / "ucb2-h-errata.json").read_text())
    assert numbers["size"]["episodes"] == TINY.episodes
    assert numbers["claims"]["ucb2-h"]["verdict"] == sections[0].verdict


def test_a_finished_part_is_not_run_again(lab, tmp_path, monkeypatch):
    first = CLAIMS["ucb2-h"](lab)
    monkeypatch.setattr(sys.modules["lowswitch.reproduce.lab"], "simulate", None)
    again = CLAIMS["ucb2-h"](Lab(tmp_path, TINY))
    assert again.to_dict() == first.to_dict()


def test_a_damaged_part_is_run_again(lab, tmp_path):
    before = CLAIMS["ucb2-h"](lab).to_dict()["checks"]
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(b"half a file")
    assert CLAIMS["ucb2-h"](lab).to_dict()["checks"] == before


def test_a_section_holds_only_if_every_rule_does():
    rules = [Check("a", "1", True), Check("b", "2", False)]
    section = Section(name="x", title="X", claim="", method="", checks=rules)
    assert section.verdict == "does not hold: 1 of 2 checks fail"
    assert not section.holds


def test_each_section_has_its_own_seconds(tmp_path, capsys, monkeypatch):
    now = [0.0]

    def two_claims(*_, **__):
        for name, took in (("first", 10), ("second", 20)):
            now[0] += took
            yield Section(
                name=name, title="", claim="", method="", checks=[Check("rule", "so", True)]
            )
        now[0] += 5

    monkeypatch.setattr(sys.modules["lowswitch.cli"].time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(sys.modules["lowswitch.reproduce"], "reproduce", two_claims)
    assert main(["reproduce", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "first        holds  (10 s)",
        "second       holds  (20 s)",
        "",
        "2 of 2 rules kept  (35 s)",
    ]


def test_the_command_line(lab, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["lowswitch.reproduce"], "QUICK", TINY)
    assert main(["reproduce", "--only", "errata", "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("errata       holds")
    assert "1 of 1 rules kept" in text
    assert (tmp_path / "out" / "errata.html").exists()
    assert main(["reproduce", "--only", "lemas"]) == 2
    assert "unknown claim 'lemas'; did you mean 'lemmas'?" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "--only", "errata", "--out", str(tmp_path / "file")]) == 2
    assert "choose another folder" in capsys.readouterr().err
