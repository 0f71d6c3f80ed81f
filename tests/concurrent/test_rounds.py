"""Whatever plays, with any number of machines and by any rule: the run is the sequential one."""

import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, FIELD, PAPERS, PROBLEMS, learner_for
from exam import (
    EPISODES,
    MACHINES,
    OTHER_LEARNERS,
    RULES,
    RoundByRound,
    StaysOpen,
    in_turn,
    same_rounds,
    same_run,
    sequential,
    system_of,
)
from lowswitch import concurrent
from lowswitch.concurrent import InProcess, Processes, state
from lowswitch.concurrent.sources import Tabular
from lowswitch.kernels import rounds
from lowswitch.reproduce.machines import count_rounds

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # Short runs warn.


# ---- equality ------------------------------------------------------------------------------------


# backwards: test_simulate.py begins at the same time, and with an empty cache each of them compiles
# what the other one needs later
@pytest.mark.parametrize(("name", "turn"), in_turn(reversed(FIELD), range(5)))
def test_every_number_of_machines_is_the_sequential_run_of_every_family(name, turn):
    """Every rule on two problems, and with that every number of machines at least once."""
    problems = PROBLEMS["sparse-bernoulli"](), PROBLEMS["masked-sequence"]()
    cells = in_turn(product(problems, RULES), MACHINES[turn:] + MACHINES[:turn])
    sits_the_exam([(*cell, machines) for cell, machines in cells], FIELD[name], 120)


@pytest.mark.parametrize(("name", "turn"), in_turn(PAPERS, range(5)))
def test_every_number_of_machines_is_the_sequential_run(mdp, name, turn):
    """Every rule with two numbers of machines; over all algorithms each rule meets all of them."""
    cells = in_turn([*RULES, *RULES], MACHINES[turn:] + MACHINES[:turn])
    sits_the_exam([(mdp, *cell) for cell in cells], PAPERS[name], EPISODES)


def sits_the_exam(cells, algorithm, episodes):
    expected = {}
    for mdp, rule, machines in cells:
        if id(mdp) not in expected:
            expected[id(mdp)] = sequential(mdp, algorithm, episodes, seed=5)
        run = concurrent.run(mdp, algorithm, episodes, machines=machines, rule=rule, seed=5)
        same_run(run, expected[id(mdp)])
        assert run.kept + run.thrown_away == run.played == run.played_under.sum()
        assert run.plays.sum() == run.played * mdp.horizon
        assert run.rounds_curve[-1] == run.rounds
        if machines == 1:
            assert run.rounds == run.played == episodes


@pytest.mark.parametrize("rule", RULES)
def test_a_fleet_plays_the_rounds_that_the_kernel_plays(mdp, rule):
    algorithm = ALGORITHMS["ucb2-b"]
    for machines in MACHINES:
        asked = {"machines": machines, "rule": rule}
        compiled = concurrent.run(mdp, algorithm, 400, **asked)
        by_fleet = concurrent.run(mdp, algorithm, 400, **asked, fleet=RoundByRound())
        same_run(by_fleet, compiled)
        same_rounds(by_fleet, compiled)


@pytest.fixture(scope="module")
def two_processes():
    kept = StaysOpen(Processes(workers=2), Tabular(PROBLEMS["sparse-bernoulli"]()))
    yield kept
    kept.opened.close()


@pytest.mark.parametrize(("cell", "name"), in_turn(product(RULES, MACHINES), ["ucb2-h", "ucb2-b"]))
def test_processes_play_the_same(two_processes, cell, name):
    same_in_processes(two_processes, ALGORITHMS[name], 200, *cell)


@pytest.mark.parametrize(("name", "rule"), in_turn(OTHER_LEARNERS, RULES))
def test_processes_play_every_family(two_processes, name, rule):
    same_in_processes(two_processes, OTHER_LEARNERS[name], 100, rule, 13)


def same_in_processes(fleet, algorithm, episodes, rule, machines):
    mdp = PROBLEMS["sparse-bernoulli"]()
    run = concurrent.run(mdp, algorithm, episodes, machines=machines, rule=rule, fleet=fleet)
    same_run(run, sequential(mdp, algorithm, episodes))
    same_rounds(run, concurrent.run(mdp, algorithm, episodes, machines=machines, rule=rule))


INTERPRETED = """
import json, lowswitch as ls
mdp = ls.envs.riverswim(states=3, horizon=4)
stop = ls.concurrent.Stop(mixture=1e-9)
for rule in ("trigger", "switch", "speculate"):
    run = ls.concurrent.run(mdp, ls.ucb2_bernstein(c=0.1), 60, machines=7, rule=rule, stop=stop)
    history = run.history[0].changes.tolist()
    print(run.rounds, run.played, run.regret.tolist(), history, run.rounds_at.tolist())
"""


def test_the_interpreter_plays_the_same_rounds():
    command, settings = [sys.executable, "-c", INTERPRETED], ({}, {"NUMBA_DISABLE_JIT": "1"})
    compiled, interpreted = (
        subprocess.run(command, capture_output=True, check=True, env=os.environ | jit).stdout
        for jit in settings
    )
    assert len(compiled.splitlines()) == 3
    assert compiled == interpreted


def test_nothing_recompiles():
    kernels = (rounds.advance, rounds.next_episodes)
    for fleet in (InProcess(), RoundByRound()):
        concurrent.run(PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 20, machines=3, fleet=fleet)
    before = [len(kernel.signatures) for kernel in kernels]
    for make in PROBLEMS.values():
        for rule in RULES:
            for fleet in (InProcess(), RoundByRound()):
                concurrent.run(make(), ALGORITHMS["ucb2-b"], 20, machines=3, rule=rule, fleet=fleet)
            concurrent.run(
                system_of(make(), replayable=True), ALGORITHMS["ucb2-h"], 20, machines=3, rule=rule
            )
    assert [len(kernel.signatures) for kernel in kernels] == before


def test_a_log_that_grows(monkeypatch, mdp):
    monkeypatch.setattr(state, "_CHANGES", 1)
    for rule in RULES:
        for fleet in (InProcess(), RoundByRound()):
            run = concurrent.run(
                mdp, ALGORITHMS["ucb2-h"], EPISODES, machines=64, rule=rule, fleet=fleet
            )
            same_run(run, sequential(mdp, ALGORITHMS["ucb2-h"], EPISODES))


# ---- where a round is cut ------------------------------------------------------------------------


def counts_triggers(mdp, algorithm, episodes):
    """A function that counts the triggers that a learner has met.

    They are the visits at which the schedule has one, a planner's plans, or the ends of rounds.
    """
    if algorithm.replans or not algorithm.schedule.by_row:
        return lambda learner: learner._knowledge.triggers()
    due = algorithm.schedule.triggers(horizon=mdp.horizon, limit=episodes)
    triggers = sorted({*range(1, due.every_until + 1), *due.later})
    return lambda learner: np.searchsorted(triggers, learner.visits, side="right").sum()


def plain_rounds(mdp, algorithm, episodes, machines, rule):
    """The rounds and the episodes played, with lists, ask and tell, and one episode at a time.

    See paper-notes A.4 and A.5.
    """
    learner, player = learner_for(mdp, algorithm, episodes), Tabular(mdp).player(0)
    triggers = counts_triggers(mdp, algorithm, episodes)
    steps, ahead, rounds, played = np.arange(mdp.horizon), {}, 0, 0
    while learner.told < episodes:
        window = range(
            learner.told, min(episodes, learner.told + machines * (2 if rule == "speculate" else 1))
        )
        wanted = [k for k in window if k not in ahead][:machines]
        for k in wanted:
            (states,), (rewards,) = player.play(learner.policy_for(k).copy(), np.array([k]))
            ahead[k] = states, learner.policy_for(k)[steps, states], rewards
        rounds, played, cut = rounds + 1, played + len(wanted), False
        while not cut and learner.told in ahead:
            states, actions, rewards = ahead[learner.told]
            if (actions != learner.policy[steps, states]).any():
                break
            del ahead[learner.told]
            before, switch = triggers(learner), learner.tell(states, actions, rewards)
            cut = (rule == "switch" and switch is not None) or (
                rule == "trigger" and triggers(learner) > before
            )
        if rule == "speculate":
            ahead = {
                k: t for k, t in ahead.items() if (t[1] == learner.policy_for(k)[steps, t[0]]).all()
            }
        elif cut:
            ahead = {}
    return rounds, played


@pytest.mark.parametrize(("problem", "turn"), in_turn(PROBLEMS, range(3)))
def test_rounds_are_those_of_plain_lists(problem, turn):
    """Every rule on every problem; two problems have the same numbers of machines."""
    mdp, algorithm = PROBLEMS[problem](), ls.ucb2_hoeffding(c=0.05, eta=0.5, r_star=2)
    for rule, machines in in_turn(RULES, (2, 7, 64)[turn:] + (2, 7, 64)[:turn]):
        run = concurrent.run(mdp, algorithm, 300, machines=machines, rule=rule)
        assert (run.rounds, run.played) == plain_rounds(mdp, algorithm, 300, machines, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [name for name in OTHER_LEARNERS if not name.endswith("budget")])
def test_rounds_of_every_family_are_those_of_plain_lists(name, rule):
    mdp = PROBLEMS["dense"]()
    run = concurrent.run(mdp, OTHER_LEARNERS[name], 200, machines=9, rule=rule)
    assert (run.rounds, run.played) == plain_rounds(mdp, OTHER_LEARNERS[name], 200, 9, rule)


@pytest.mark.parametrize(("problem", "name"), in_turn(PROBLEMS, PAPERS))
def test_rounds_of_switch_keep_the_bound_and_are_counted_by_the_history(problem, name):
    for machines in (*MACHINES, EPISODES, 10**5):
        run = concurrent.run(PROBLEMS[problem](), PAPERS[name], EPISODES, machines=machines)
        assert run.rounds == count_rounds(run.history[0], EPISODES, machines)
        assert run.rounds <= ls.theory.rounds_bound(
            K=EPISODES, M=machines, deployments=int(run.deployments[0])
        )
        # A round has one deployment at most.
        assert run.rounds_at.tolist() == sorted(set(run.rounds_at.tolist()))


def test_each_rule_keeps_more_than_the_one_before(mdp):
    algorithm = ALGORITHMS["ucb2-h"]
    for machines in (7, 64):
        trigger, switch, speculate = (
            concurrent.run(mdp, algorithm, EPISODES, machines=machines, rule=rule).rounds
            for rule in RULES
        )
        assert speculate <= switch <= trigger


@pytest.mark.parametrize(
    "algorithm",
    [
        # Its triggers are at the visits 1, 2, 4, 7 and 14 of an action.
        ls.ucb2_hoeffding(c=1e-9, eta=0.9, r_star=1),
        ls.stage_q(c=1e-9, schedule=ls.Visits((1, 2, 4, 7))),
        ls.ucbvi(c=1e-9, schedule=ls.Visits((1, 2, 4, 7))),
    ],
)
def test_a_round_is_cut_by_hand(algorithm):
    """One state, one step, two actions; three machines."""
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.9]]), horizon=1)
    # Episode 0 plays action 0 and earns 0.2 < 1, so action 1 is next. Episodes 1, 2, 4 and 7 are
    # triggers of action 1, and nothing changes any more.
    switch = concurrent.run(mdp, algorithm, 9, machines=3)
    assert switch.history[0].changes.tolist() == [[0, 0, 0, 1]]
    assert (switch.rounds, switch.played) == (4, 3 + 3 + 3 + 2)  # 0 | 1 2 3 | 4 5 6 | 7 8
    trigger = concurrent.run(mdp, algorithm, 9, machines=3, rule="trigger")
    # 0 | 1 | 2 | 3 4 | 5 6 7 | 8
    assert (trigger.rounds, trigger.played) == (6, 3 + 3 + 3 + 3 + 3 + 1)
    # Episodes 1 and 2 were played ahead by action 0, so they are played again.
    ahead = concurrent.run(mdp, algorithm, 9, machines=3, rule="speculate")
    assert ahead.history[0].changes.tolist() == [[0, 0, 0, 1]]
    assert (ahead.rounds, ahead.played) == (4, 3 + 3 + 3 + 2)
    assert switch.played_under.tolist() == [3, 8]
    assert switch.plays.tolist() == [[[3, 8]]]
    assert switch.rounds_to(mdp, 0.1) == 1
    assert switch.mistakes(mdp, 0.1) == 3
    assert switch.suboptimal_actions(mdp, 0.1) == 3
    assert switch.mistakes(mdp, 0.8) == 0
