"""The sections on many machines: their pieces are right by hand, and a broken rule, path or count
turns the verdict.
"""

import dataclasses
import sys

import numpy as np
import pytest

from lowswitch import History, TabularMDP, concurrent, envs
from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.machines import RULES, all_sequential, count_rounds, history_of, play_all
from lowswitch.reproduce.mistakes import mistakes
from lowswitch.reproduce.near_optimal import losing_actions
from lowswitch.reproduce.rounds import _seeds, rounds

TINY = Effort(
    name="tiny",
    episodes=100_000,
    seeds=1,
    pulls=1,
    bandit_runs=1,
    plain_episodes=1,
    plain_seeds=1,
    machines=(1, 2, 10, 100),
)
PROBLEMS = {"RiverSwim": "riverswim:states=4,horizon=4"}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    for module in ("machines", "rounds", "mistakes"):
        monkeypatch.setattr(sys.modules[f"lowswitch.reproduce.{module}"], "PROBLEMS", PROBLEMS)
    return Lab(tmp_path, TINY, progress=False)


@pytest.fixture
def change_runs(monkeypatch):
    """Replace what concurrent.run is given, or what it returns."""

    def change(*, after=lambda run: run, **options):
        real = concurrent.run
        monkeypatch.setattr(
            concurrent,
            "run",
            lambda *arguments, **given: after(real(*arguments, **given | options)),
        )

    return change


def broken(section):
    return " / ".join(check.rule for check in section.checks if not check.holds)


def test_sound_runs_keep_every_rule(lab):
    section = rounds(lab)
    # in so few episodes ten machines gain little on the river
    assert broken(section) == "10 machines are at least 8 times as fast"
    assert [finding.problems for finding in section.findings] == ["one state, H = 2", "RiverSwim"]
    assert "2 machines" in section.findings[1].found
    assert section.method.endswith("which a simulator can tell. Seed 0.")
    legend = [text.get_text() for text in section.figures["rounds"].legends[0].get_texts()]
    assert 'limit of "switch": K / (N_gl + 1)' in legend


def test_rounds_are_those_of_the_sequential_history(lab):
    """Under "switch" they are the sum of ceil(L / M) over deployments L episodes apart, and neither
    a rule that keeps more nor more machines need more of them.
    """
    sequential = all_sequential(lab)
    played = play_all(lab, sequential)
    for case, outcome in played.items():
        runs = sequential[case.problem, case.learner]
        if case.rule == "switch":
            history = history_of(runs, case.seed)
            assert outcome.rounds == count_rounds(history, runs.episodes, case.machines)
        bolder = case._replace(rule=RULES[min(RULES.index(case.rule) + 1, 2)])
        if bolder in played:
            assert played[bolder].rounds <= outcome.rounds
        more = [other for other in played if other._replace(machines=case.machines) == case]
        assert all(
            played[other].rounds <= outcome.rounds
            for other in more
            if other.machines > case.machines
        )


def test_the_seeds_are_told_in_words():
    assert _seeds(1) == "Seed 0."
    assert _seeds(2) == "Seed 0; at M = 100, 2 seeds."


def test_every_panel_of_the_mistakes_says_what_it_shows(lab):
    titles = [axes.get_title() for axes in mistakes(lab).figures["mistakes"].axes]
    assert titles == ["RiverSwim, M = 10", "RiverSwim, eps = 0.1 V*"]


def test_machines_that_do_not_help_are_not_called_a_speed_up(lab, change_runs):
    change_runs(after=lambda run: dataclasses.replace(run, rounds=run.kept))
    section = rounds(lab)
    assert "2 machines are at least 1.6 times as fast" in broken(section)
    assert all(str(finding.grade) == "contradicted in practice" for finding in section.findings)
    assert "than $N_{sw} + 1 + K / M$" in broken(section)


def test_another_path_is_found_out(lab, change_runs):
    change_runs(seed=7)
    assert "the policy changes of every run" in broken(rounds(lab))


def test_a_speed_up_that_does_not_grow_is_found_out(lab, change_runs):
    change_runs(
        after=lambda run: dataclasses.replace(
            run, rounds_curve=np.ceil(run.curves.episodes / run.machines).astype(int)
        )
    )
    assert "the smaller eps, the greater the speed-up" in broken(rounds(lab))


@pytest.mark.parametrize("machines", [1, 3, 100])
def test_rounds_as_counted_are_rounds_as_played(machines):
    run = concurrent.run(
        envs.make(PROBLEMS["RiverSwim"]), ucb2_hoeffding(c=0.05), 500, machines=machines
    )
    assert count_rounds(run.history[0], 500, machines) == run.rounds


# ---- mistakes ------------------------------------------------------------------------------------


def test_losing_actions_by_hand():
    mdp = TabularMDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), horizon=3)
    policy = np.array([[1], [0], [1]])
    assert losing_actions(mdp, policy, 0.5) == 2
    assert losing_actions(mdp, policy, 1.0) == 0  # they lose 1, not more


def test_losing_actions_count_how_often_a_state_is_met():
    transitions = np.zeros((2, 2, 2))
    transitions[:, :, 0], transitions[:, :, 1] = 0.75, 0.25
    mdp = TabularMDP(transitions, np.array([[1.0, 1.0], [1.0, 0.0]]), horizon=3)
    assert losing_actions(mdp, np.ones((3, 2), dtype=int), 0.5) == pytest.approx(
        0.5
    )  # state 1, at two steps, with probability 1/4
    assert mdp.optimal_value() - mdp.evaluate(np.ones((3, 2), dtype=int)) == pytest.approx(0.5)


def test_mistakes_that_grow_faster_than_the_machines_are_found_out(lab, change_runs):
    def worse(run):
        times = 3 if run.machines > 1 else 1
        return dataclasses.replace(run, played=run.played * times, played_at=run.played_at * times)

    change_runs(after=worse)
    assert "M machines make at most the mistakes of one" in broken(mistakes(lab))


def test_against_a_model_that_never_learns_q_learning_is_ahead(lab, monkeypatch):
    real = concurrent.mbie
    monkeypatch.setattr(
        concurrent,
        "mbie",
        lambda *arguments, **given: dataclasses.replace(
            real(*arguments, **given),
            history=(History(np.zeros((0, 4), dtype=int)),),
            played_at=np.zeros(0, dtype=int),
        ),
    )
    practical = mistakes(lab).findings[1]
    assert "mistakes over those of CMBIE" in practical.found


def test_that_the_model_makes_fewer_mistakes_contradicts_the_comparison(lab):
    practical = mistakes(lab).findings[1]
    assert str(practical.grade) == "counts go the other way"
    assert practical.found.startswith("by counts, CMBIE makes ")


def test_mistakes_that_grow_too_fast_in_eps_are_found_out(lab, monkeypatch):
    real = concurrent.ConcurrentRun.mistakes

    def growing(run, mdp, eps):
        return real(run, mdp, eps) if run.algorithm.recipe == "mbie" else int(1000 / eps**3)

    monkeypatch.setattr(concurrent.ConcurrentRun, "mistakes", growing)
    found = broken(mistakes(lab))
    assert "UCB2-H: with 10 machines mistakes grow no faster" in found


# ---- the laboratory ------------------------------------------------------------------------------

Numbers = dict[str, np.ndarray]


def test_each_keeps_the_order_and_computes_once(lab):
    calls = []

    def compute(place):
        calls.append(place)
        return {"value": np.array(10 * place)}

    for _ in range(2):
        found = lab.measure_each("numbers", [["a"], ["b"], ["c"]], compute, Numbers, episodes=1)
        assert [int(arrays["value"]) for arrays in found] == [0, 10, 20]
    assert sorted(calls) == [0, 1, 2]


def test_a_wait_shows_a_sign_of_life(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["lowswitch.show.progress"], "_TICK_SECONDS", 0.001)
    lab, seen = Lab(tmp_path, TINY, progress=True), []

    def compute(place=0):
        while not any(line.strip() for line in seen):
            seen.extend(capsys.readouterr().err.split("\r"))
        return {"value": np.array(place)}

    lab.measure("numbers", ["a"], compute, Numbers)
    assert "numbers ...  0 s" in seen
    seen.clear()
    capsys.readouterr()
    lab.measure_each("more", [["a"]], compute, Numbers, episodes=1)
    assert any(
        line.startswith("more  [........................]   0%  0 s  0 of 1 runs") for line in seen
    )


def test_an_interrupted_part_goes_on(lab):
    def stumble(place):
        if place == 1:
            raise KeyboardInterrupt
        return {"value": np.array(place)}

    with pytest.raises(KeyboardInterrupt):
        lab.measure_each("numbers", [["a"], ["b"]], stumble, Numbers, episodes=1)

    def steady(place):
        return {"value": np.array(place)}

    assert len(lab.measure_each("numbers", [["a"], ["b"]], steady, Numbers, episodes=1)) == 2
