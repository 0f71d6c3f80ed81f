"""Many machines: whatever plays, however many and by whichever rule, the run is the sequential one
to the bit.
"""

import functools
import io
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, FIELD, PROBLEMS, learner_for, random_tables
from exam import MACHINES, RULES, Kept, same_rounds, same_run, sequential
from lowswitch import cli, concurrent, storage
from lowswitch.concurrent import Gymnasium, InProcess, PlayError, Processes, Stop, System
from lowswitch.envs import gymnasium as bridge
from lowswitch.history import deployment_gaps, exact_regret
from lowswitch.kernels import core as kernels
from lowswitch.kernels.streams import stream_key
from lowswitch.machines import runner as runner_module
from lowswitch.machines import state as state_module
from lowswitch.machines.sources import Tabular, episode_seed, name_of
from lowswitch.reproduce.rounds import count_rounds

pytestmark = pytest.mark.filterwarnings(
    "ignore::lowswitch.BonusWarning"
)  # in short runs of wide bonuses

EPISODES = 1500
TOLD = {
    name: algorithm
    for name, algorithm in ALGORITHMS.items()
    if algorithm.members > 1 or not isinstance(algorithm.estimator, ls.QLearning)
}


class Here:
    """In this process, but by way of a crew as every other fleet."""

    def open(self, source, seed, policy):
        return InProcess().open(source, seed, policy)


# ---- equality ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_every_number_of_machines_is_the_sequential_run(mdp, paper_algorithm, rule):
    sits_the_exam(mdp, paper_algorithm, rule, EPISODES)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("problem", ["sparse-bernoulli", "masked-sequence"])
@pytest.mark.parametrize("name", FIELD)
def test_every_number_of_machines_is_the_sequential_run_of_every_family(problem, name, rule):
    sits_the_exam(PROBLEMS[problem](), FIELD[name], rule, 120)


def sits_the_exam(mdp, algorithm, rule, episodes):
    expected = sequential(mdp, algorithm, episodes, seed=5)
    for machines in MACHINES:
        run = concurrent.run(mdp, algorithm, episodes, machines=machines, rule=rule, seed=5)
        same_run(run, expected)
        assert run.kept + run.thrown_away == run.played == run.played_under.sum()
        assert run.plays.sum() == run.played * mdp.horizon
        assert run.rounds_curve[-1] == run.rounds
        if machines == 1:
            assert run.rounds == run.played == episodes


@pytest.mark.parametrize("rule", RULES)
def test_a_crew_plays_the_rounds_that_the_kernel_plays(mdp, rule):
    for machines in MACHINES:
        compiled = concurrent.run(mdp, ALGORITHMS["ucb2-b"], 400, machines=machines, rule=rule)
        by_crew = concurrent.run(
            mdp, ALGORITHMS["ucb2-b"], 400, machines=machines, rule=rule, fleet=Here()
        )
        same_run(by_crew, compiled)
        same_rounds(by_crew, compiled)


@pytest.fixture(scope="module")
def two_processes():
    kept = Kept(Processes(workers=2), Tabular(PROBLEMS["sparse-bernoulli"]()))
    yield kept
    kept.crew.close()


@pytest.mark.parametrize("name", ["ucb2-h", "ucb2-b"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("machines", MACHINES)
def test_processes_play_the_same(two_processes, name, rule, machines):
    same_in_processes(two_processes, ALGORITHMS[name], 300, rule, machines)


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("rule", RULES)
def test_processes_play_every_family(two_processes, name, rule):
    same_in_processes(two_processes, TOLD[name], 100, rule, 13)


def same_in_processes(fleet, algorithm, episodes, rule, machines):
    mdp = PROBLEMS["sparse-bernoulli"]()
    run = concurrent.run(mdp, algorithm, episodes, machines=machines, rule=rule, fleet=fleet)
    same_run(run, sequential(mdp, algorithm, episodes))
    same_rounds(run, concurrent.run(mdp, algorithm, episodes, machines=machines, rule=rule))


LAKE, LAKE_EPISODES = {"environment": "FrozenLake-v1", "horizon": 8, "is_slippery": True}, 80


def told_one_by_one(algorithm):
    """The policy history of ask and tell on the lake, seeded as the players seed it."""
    env, parts = gymnasium.make("FrozenLake-v1", is_slippery=True), []
    learner = bridge.learner_for(env, algorithm, horizon=8, episodes=LAKE_EPISODES)
    for k in range(LAKE_EPISODES):
        switch = learner.tell(
            *bridge.play_episode(env, learner.policy, seed=episode_seed(stream_key(0), k))
        )
        parts += [] if switch is None else [switch.changes]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def lake_processes():
    kept = Kept(Processes(workers=2), Gymnasium(**LAKE))
    yield kept
    kept.crew.close()


@pytest.mark.parametrize("name", ["ucb2-h", "ucb2-b", "stage-q", "mvp", "mixture"])
@pytest.mark.parametrize("rule", RULES)
def test_a_gymnasium_environment_is_played_as_one_by_one(lake_processes, name, rule):
    expected = told_one_by_one(ALGORITHMS[name])
    for machines in MACHINES:
        here = concurrent.run(
            Gymnasium(**LAKE), ALGORITHMS[name], LAKE_EPISODES, machines=machines, rule=rule
        )
        there = concurrent.run(
            Gymnasium(**LAKE),
            ALGORITHMS[name],
            LAKE_EPISODES,
            machines=machines,
            rule=rule,
            fleet=lake_processes,
        )
        assert here.history[0].changes.tolist() == expected.tolist()
        same_rounds(here, there)
        assert np.isnan(here.regret).all()
        assert np.isnan(here.optimal_value)


def system_of(mdp, **options):
    """A TabularMDP behind a function."""
    player = Tabular(mdp).player(0)

    def play(policy, episodes):
        played = player.play(policy, episodes)
        return played.states, policy[np.arange(mdp.horizon), played.states], played.rewards

    size = {
        "horizon": mdp.horizon,
        "states": mdp.states,
        "actions": mdp.actions,
        "actions_allowed": mdp.actions_allowed,
    }
    return System(play, **size, **options)


def test_a_system_is_played_as_the_tables_behind_it(mdp):
    expected = sequential(mdp, ALGORITHMS["ucb2-h"], 300).history[0].changes.tolist()
    for machines in MACHINES:
        for rule in RULES:
            source = system_of(mdp, replayable=rule == "speculate")
            run = concurrent.run(source, ALGORITHMS["ucb2-h"], 300, machines=machines, rule=rule)
            assert run.history[0].changes.tolist() == expected


def test_rewards_in_other_units():
    mdp = PROBLEMS["dense"]()
    player = Tabular(mdp).player(0)

    def play(policy, episodes):
        played = player.play(policy, episodes)
        return played.states, policy[np.arange(3), played.states], 8 * played.rewards - 5

    source = System(play, horizon=3, states=4, actions=3, reward_range=(-5.0, 3.0))
    run = concurrent.run(source, ALGORITHMS["ucb2-h"], 200, machines=9)
    unit = concurrent.run(mdp, ALGORITHMS["ucb2-h"], 200, machines=9)
    assert run.earned == pytest.approx(8 * unit.earned - 5 * 200 * 3)
    assert run.earned_curve[-1] == pytest.approx(run.earned)


@pytest.mark.parametrize("rule", RULES)
def test_the_interpreter_plays_the_same_rounds(rule):
    text = (
        "import json, lowswitch as ls\nmdp = ls.envs.riverswim(states=3, horizon=4)\nrun ="
        f" ls.concurrent.run(mdp, ls.ucb2_bernstein(c=0.1), 60, machines=7, rule={rule!r},"
        " stop=ls.concurrent.Stop(mixture=1e-9))\nprint(json.dumps([run.rounds, run.played,"
        " run.regret.tolist(), run.history[0].changes.tolist(), run.rounds_at.tolist()]))"
    )
    answers = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", text], capture_output=True, check=True, env=os.environ | jit
            ).stdout
        )
        for jit in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert answers[0] == answers[1]


# ---- rounds --------------------------------------------------------------------------------------


def counts_triggers(mdp, algorithm, episodes):
    """A function that says how many triggers a learner has met: visits that are some by the
    schedule, or the plans of a planner.
    """
    if algorithm.replans:
        return lambda learner: learner._family.triggers()
    due = algorithm.schedule.triggers(horizon=mdp.horizon, limit=episodes)
    triggers = sorted({*range(1, due.every_until + 1), *due.later})
    return lambda learner: np.searchsorted(triggers, learner.visits, side="right").sum()


def plain_rounds(mdp, algorithm, episodes, machines, rule):
    """Rounds and episodes played, with lists and ask and tell: paper-notes A.4 and A.5, an episode
    at a time.
    """
    learner, player, triggers = (
        learner_for(mdp, algorithm, episodes),
        Tabular(mdp).player(0),
        counts_triggers(mdp, algorithm, episodes),
    )
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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("machines", [2, 7, 64])
def test_rounds_are_those_of_plain_lists(mdp, rule, machines):
    algorithm = ls.ucb2_hoeffding(c=0.05, eta=0.5, r_star=2)
    run = concurrent.run(mdp, algorithm, 300, machines=machines, rule=rule)
    assert (run.rounds, run.played) == plain_rounds(mdp, algorithm, 300, machines, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [name for name in TOLD if not name.endswith("budget")])
def test_rounds_of_every_family_are_those_of_plain_lists(name, rule):
    mdp = PROBLEMS["dense"]()
    run = concurrent.run(mdp, TOLD[name], 200, machines=9, rule=rule)
    assert (run.rounds, run.played) == plain_rounds(mdp, TOLD[name], 200, 9, rule)


def test_rounds_of_switch_keep_the_bound_and_are_counted_by_the_history(mdp, paper_algorithm):
    for machines in (*MACHINES, EPISODES, 10**5):
        run = concurrent.run(mdp, paper_algorithm, EPISODES, machines=machines)
        assert run.rounds == count_rounds(run.history[0], EPISODES, machines)
        assert run.rounds <= ls.theory.rounds_bound(
            K=EPISODES, M=machines, deployments=int(run.deployments[0])
        )
        assert run.rounds_at.tolist() == sorted(
            set(run.rounds_at.tolist())
        )  # a round has one deployment at most


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
        ls.ucb2_hoeffding(
            c=1e-9, eta=0.9, r_star=1
        ),  # triggers at visits 1, 2, 4, 7, 14 of an action
        ls.stage_q(c=1e-9, schedule=ls.Visits((1, 2, 4, 7))),
        ls.ucbvi(c=1e-9, schedule=ls.Visits((1, 2, 4, 7))),
    ],
)
def test_a_round_is_cut_by_hand(algorithm):
    """One state, one step, two actions; three machines."""
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.9]]), horizon=1)
    # episode 0 plays action 0: 0.2 < 1, so action 1 comes; episodes 1, 2, 4 and 7 are triggers of
    # action 1, and nothing changes any more
    switch = concurrent.run(mdp, algorithm, 9, machines=3)
    assert switch.history[0].changes.tolist() == [[0, 0, 0, 1]]
    assert (switch.rounds, switch.played) == (4, 3 + 3 + 3 + 2)  # 0 | 1 2 3 | 4 5 6 | 7 8
    trigger = concurrent.run(mdp, algorithm, 9, machines=3, rule="trigger")
    assert (trigger.rounds, trigger.played) == (
        6,
        3 + 3 + 3 + 3 + 3 + 1,
    )  # 0 | 1 | 2 | 3 4 | 5 6 7 | 8
    assert switch.played_under.tolist() == [3, 8]
    assert switch.plays.tolist() == [[[3, 8]]]
    assert switch.rounds_to(mdp, 0.1) == 1
    assert switch.mistakes(mdp, 0.1) == 3
    assert switch.suboptimal_actions(mdp, 0.1) == 3
    assert switch.mistakes(mdp, 0.8) == 0


# ---- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_a_run_stops_at_the_first_good_policy(rule):
    mdp, algorithm, eps = ls.envs.riverswim(states=4, horizon=6), ls.ucb2_bernstein(c=0.02), 0.02
    whole = sequential(mdp, algorithm, 20_000)
    gaps = deployment_gaps(mdp, whole.history[0], initial=whole.initial)
    first = int(np.flatnonzero(gaps <= eps)[0])
    ends = np.unique(whole.history[0].episode)[first - 1] + 1
    for machines in (1, 7, 64):
        run = concurrent.run(
            mdp, algorithm, 20_000, machines=machines, rule=rule, stop=Stop(policy=eps)
        )
        assert (run.stopped, run.episodes, run.planned) == ("policy", ends, 20_000)
        assert mdp.optimal_value() - mdp.evaluate(run.policy[0]) <= eps
        assert run.regret[0] == pytest.approx(
            exact_regret(mdp, run.history[0], episodes=run.episodes, initial=run.initial), rel=1e-12
        )
        assert run.curves.episodes[-1] == run.episodes


@pytest.mark.parametrize("rule", RULES)
def test_a_run_stops_when_the_mixture_is_good(rule):
    mdp, algorithm, eps = ls.envs.riverswim(states=4, horizon=6), ls.ucb2_bernstein(c=0.02), 0.03
    whole = sequential(mdp, algorithm, 20_000)

    def mixture_gap(episodes):
        history = ls.History(whole.history[0].changes[whole.history[0].episode < episodes])
        return exact_regret(mdp, history, episodes=episodes, initial=whole.initial) / episodes

    for machines in (1, 7, 64):
        run = concurrent.run(
            mdp, algorithm, 20_000, machines=machines, rule=rule, stop=Stop(mixture=eps)
        )
        assert run.stopped == "mixture"
        assert mixture_gap(run.episodes) <= eps < mixture_gap(run.episodes - 1)
        assert mdp.optimal_value() - run.pac_policy(0).evaluate(mdp) <= eps


def test_a_mixture_that_hardly_gets_better_is_not_taken_for_good():
    """A gap that is a few units in the last place below eps would take more episodes than integers
    hold.
    """
    mdp, algorithm = ls.envs.riverswim(states=4, horizon=6), ls.ucb2_bernstein(c=0.02)
    whole = sequential(mdp, algorithm, 2000)
    for gap in np.unique(deployment_gaps(mdp, whole.history[0], initial=whole.initial)):
        eps = float(np.nextafter(gap, 9))
        if eps > 0:
            run = concurrent.run(mdp, algorithm, 2000, machines=7, stop=Stop(mixture=eps))
            assert run.stopped == "episodes" or run.regret[0] / run.episodes <= eps * (1 + 1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_values_to_stop_at_are_in_the_users_units(rule):
    transitions, rewards = random_tables(4, 3, 1)
    unit = ls.TabularMDP(transitions, rewards, horizon=3)
    scaled = ls.TabularMDP(transitions, ls.rescale(8 * rewards - 5, low=-5.0, high=3.0), horizon=3)
    for stop in ("policy", "mixture"):
        runs = [
            concurrent.run(
                mdp,
                ls.ucb2_hoeffding(c=0.02),
                3000,
                machines=7,
                rule=rule,
                stop=Stop(**{stop: eps}),
            )
            for mdp, eps in ((unit, 1 / 64), (scaled, 1 / 8))
        ]
        assert runs[0].stopped == runs[1].stopped == stop
        assert runs[0].episodes == runs[1].episodes > 0


def test_a_gap_of_exactly_eps_is_good_enough():
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.25, 0.75]]), horizon=1)
    run = concurrent.run(mdp, ALGORITHMS["ucb2-h"], 100, machines=3, stop=Stop(policy=0.5))
    assert (run.stopped, run.episodes) == ("policy", 0)


def test_the_last_round_plays_no_further_than_the_end():
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.9, 0.2]]), horizon=1)
    run = concurrent.run(mdp, ALGORITHMS["ucb2-h"], 100, machines=50, stop=Stop(mixture=0.1))
    assert (run.episodes, run.played) == (1, 1)


def test_a_run_of_no_episodes_has_no_regret_that_is_known():
    run = concurrent.run(
        PROBLEMS["dense"](),
        ALGORITHMS["ucb2-h"],
        100,
        machines=3,
        stop=Stop(seconds=1e-9),
        regret=False,
        fleet=Here(),
    )
    assert run.episodes == 0
    assert np.isnan(run.regret).all()
    assert run.to_dict()["steps_per_second"] == 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["stage-q", "mvp", "mixture"])
def test_every_family_stops_at_values(name, rule):
    mdp, algorithm, episodes, eps = PROBLEMS["per-step"](), TOLD[name], 2000, 0.1
    whole = sequential(mdp, algorithm, episodes)
    gaps = deployment_gaps(mdp, whole.history[0], initial=whole.initial)
    ends = np.unique(whole.history[0].episode)[np.flatnonzero(gaps <= eps)[0] - 1] + 1
    regret = [
        exact_regret(mdp, part, episodes=k, initial=whole.initial)
        for k, part in histories(whole.history[0], episodes)
    ]
    mixed = 1 + int(np.flatnonzero(np.array(regret) <= eps * np.arange(1, episodes + 1))[0])
    for machines in (7, 64):
        run = concurrent.run(
            mdp, algorithm, episodes, machines=machines, rule=rule, stop=Stop(policy=eps)
        )
        assert (run.stopped, run.episodes) == ("policy", ends)
        run = concurrent.run(
            mdp, algorithm, episodes, machines=machines, rule=rule, stop=Stop(mixture=eps)
        )
        assert (run.stopped, run.episodes) == ("mixture", mixed)


def histories(history, episodes):
    """Every number of episodes with the history up to there."""
    return [(k, ls.History(history.changes[history.episode < k])) for k in range(1, episodes + 1)]


def test_a_policy_that_is_good_from_the_beginning():
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.9, 0.2]]), horizon=1)
    run = concurrent.run(mdp, ALGORITHMS["ucb2-h"], 100, machines=3, stop=Stop(policy=0.1))
    assert (run.stopped, run.episodes, run.rounds) == ("policy", 0, 0)
    assert run.regret.tolist() == [0]
    run = concurrent.run(mdp, ALGORITHMS["ucb2-h"], 100, machines=3, stop=Stop(mixture=0.1))
    assert (run.stopped, run.episodes) == ("mixture", 1)


def test_a_budget_of_rounds_or_seconds(tmp_path):
    mdp, file = PROBLEMS["dense"](), tmp_path / "run.npz"
    for fleet in (InProcess(), Here()):
        run = concurrent.run(
            mdp, ALGORITHMS["ucb2-h"], EPISODES, machines=7, stop=Stop(rounds=30), fleet=fleet
        )
        assert (run.stopped, run.rounds) == ("rounds", 30)
    some = concurrent.run(
        mdp, ALGORITHMS["ucb2-h"], 10**9, machines=7, stop=Stop(seconds=0.2), checkpoint=file
    )
    assert some.stopped == "seconds"
    more = concurrent.run(
        mdp,
        ALGORITHMS["ucb2-h"],
        10**9,
        machines=7,
        stop=Stop(rounds=some.rounds + 5),
        checkpoint=file,
    )
    assert more.rounds == some.rounds + 5


# ---- checkpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fleet", [InProcess(), Here()])
def test_a_run_in_pieces_is_the_whole_run(mdp, rule, fleet, tmp_path):
    algorithm = ALGORITHMS["ucb2-b"]
    whole = concurrent.run(mdp, algorithm, EPISODES, machines=13, rule=rule)
    for rounds in (1, 2, 5, 40, 10**6):
        file = tmp_path / "run.npz"
        run = concurrent.run(
            mdp,
            algorithm,
            EPISODES,
            machines=13,
            rule=rule,
            fleet=fleet,
            checkpoint=file,
            stop=Stop(rounds=rounds),
        )
    assert run.stopped == "episodes"
    same_run(run, whole)
    same_rounds(run, whole)
    again = concurrent.run(mdp, algorithm, EPISODES, machines=13, rule=rule, checkpoint=file)
    same_rounds(again, whole)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", TOLD)
def test_a_run_of_every_family_in_pieces_is_the_whole_run(name, rule, tmp_path):
    mdp, file = PROBLEMS["per-step"](), tmp_path / "run.npz"
    whole = concurrent.run(mdp, TOLD[name], 200, machines=7, rule=rule)
    for rounds in (1, 2, 5, 13, 10**6):
        run = concurrent.run(
            mdp, TOLD[name], 200, machines=7, rule=rule, checkpoint=file, stop=Stop(rounds=rounds)
        )
    same_run(run, whole)
    same_rounds(run, whole)


def test_a_stop_at_values_may_change_between_pieces(tmp_path):
    mdp, algorithm, file = (
        ls.envs.riverswim(states=4, horizon=6),
        ls.ucb2_bernstein(c=0.02),
        tmp_path / "run.npz",
    )
    coarse = concurrent.run(
        mdp, algorithm, 20_000, machines=7, stop=Stop(policy=0.1), checkpoint=file
    )
    fine = concurrent.run(
        mdp, algorithm, 20_000, machines=7, stop=Stop(policy=1e-6), checkpoint=file
    )
    straight = concurrent.run(mdp, algorithm, 20_000, machines=7, stop=Stop(policy=1e-6))
    assert coarse.episodes < fine.episodes
    same_rounds(fine, straight)
    back = concurrent.run(
        mdp, algorithm, 20_000, machines=7, stop=Stop(policy=0.1), checkpoint=file
    )
    assert back.episodes == fine.episodes


PLAN = {"machines": 7, "rule": "switch", "seed": 0, "regret": True}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (
            {"machines": 8},
            "of 7 machines, this run has 8 machines; give another file or the same machines",
        ),
        (
            {"rule": "trigger"},
            'of rule "switch", this run has rule "trigger"; give another file or the same rule',
        ),
        ({"seed": 1}, "of seed 0, this run has seed 1; give another file or the same seed"),
        (
            {"regret": False},
            "of regret=True, this run has regret=False; give another file or the same regret",
        ),
        (
            {"episodes": 2000},
            "of 100 episodes, this run has 2,000 episodes; give another file or the same episodes",
        ),
        (
            {"algorithm": ls.ucb2_hoeffding(c=0.2)},
            "of ucb2-h:c=0.1, this run has ucb2-h:c=0.2; give another file or the same algorithm",
        ),
        (
            {"machines": 8, "seed": 1},
            (
                "of 7 machines, this run has 8 machines; of seed 0, this run has seed 1; give"
                " another file or the same machines and seed"
            ),
        ),
        (
            {"source": ls.TabularMDP(*random_tables(3, 2, 8), horizon=4)},
            (
                "of other tables (transitions, rewards, starts or allowed actions) than this run;"
                " give another file or the same tables"
            ),
        ),
        (
            {"source": ls.TabularMDP(*random_tables(5, 2, 8), horizon=4)},
            (
                "of H = 4, S = 3, A = 2, this run has H = 4, S = 5, A = 2; give another file or the"
                " same size"
            ),
        ),
        (
            {"source": Gymnasium("FrozenLake-v1", horizon=4)},
            "of tables, this run has a Gymnasium environment; give another file or the same source",
        ),
    ],
)
def test_a_checkpoint_of_another_configuration(other, named, tmp_path):
    file = tmp_path / "run.npz"
    source = ls.TabularMDP(*random_tables(3, 2, 7), horizon=4)
    asked = {"source": source, "algorithm": ls.ucb2_hoeffding(c=0.1), "episodes": 100} | PLAN
    concurrent.run(**asked, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'the checkpoint {str(file)!r} is {named}')}$"
    ):
        concurrent.run(**(asked | other), checkpoint=file)
    assert file.read_bytes() == before


def test_everything_that_tells_runs_apart_has_words():
    system = System(overwrites, horizon=3, states=4, actions=3)
    for source in (Tabular(PROBLEMS["dense"]()), Gymnasium("FrozenLake-v1", horizon=4), system):
        plan = state_module.Plan(
            source=source,
            algorithm=ALGORITHMS["ucb2-h"],
            episodes=1,
            machines=1,
            rule="switch",
            seed=0,
            regret=True,
        )
        facts = plan.facts()
        told = state_module._WORDS.keys() | state_module._DIGESTS.keys()
        assert (facts | facts.pop("source")).keys() <= told | {"source"}


def overwrites(policy, episodes):
    states = np.zeros((len(episodes), 3), dtype=int)
    actions = policy[np.arange(3), states]
    policy[:], episodes[:] = 9, -1
    return states, actions, np.zeros((len(episodes), 3))


def test_a_play_may_do_what_it_likes_with_its_arguments():
    run = concurrent.run(
        System(overwrites, horizon=3, states=4, actions=3), ALGORITHMS["ucb2-h"], 50, machines=7
    )
    assert run.kept == 50


def test_sources_are_told_apart_by_their_functions(tmp_path):
    def other(policy, episodes):
        return overwrites(policy, episodes)

    file, size = tmp_path / "run.npz", {"horizon": 3, "states": 4, "actions": 3}
    concurrent.run(
        System(overwrites, **size), ALGORITHMS["ucb2-h"], 50, machines=7, checkpoint=file
    )
    with pytest.raises(
        ValueError,
        match=(
            "of the function .*overwrites, this run has the function .*other; give another file or"
            " the same system$"
        ),
    ):
        concurrent.run(System(other, **size), ALGORITHMS["ucb2-h"], 50, machines=7, checkpoint=file)
    assert name_of(functools.partial(other, 3, policy=overwrites)).endswith(
        "other(3, policy=test_concurrent.overwrites)"
    )
    assert name_of(Here()) == "test_concurrent.Here"


def test_numbers_of_numpy_are_saved(tmp_path):
    source = System(
        overwrites, horizon=3, states=4, actions=3, reward_range=(np.int64(0), np.float32(5))
    )
    for _ in range(2):
        concurrent.run(
            source,
            ALGORITHMS["ucb2-h"],
            50,
            machines=np.int64(7),
            regret=np.bool_(True),
            checkpoint=tmp_path / "run.npz",
        )


def test_nothing_is_loading_while_a_round_is_played(monkeypatch):
    screen, seen = io.StringIO(), []
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(runner_module, "needs_loading", lambda _: True)
    play_rounds = kernels.play_rounds

    def play(policy, episodes):
        seen.append(screen.getvalue())
        return overwrites(policy, episodes)

    def watched(*arguments):
        seen.extend(
            [screen.getvalue()] * bool(arguments[-1])
        )  # the first call plays no round, it compiles
        play_rounds(*arguments)

    monkeypatch.setattr(kernels, "play_rounds", watched)
    for source in (System(play, horizon=3, states=4, actions=3), PROBLEMS["dense"]()):
        screen.truncate(0)
        concurrent.run(source, ALGORITHMS["ucb2-h"], 50, machines=7, progress=True)
        assert "loading the kernels" in seen[0]
        assert "0%" in seen[0].split("\r")[-1]
        assert "loading" not in seen[0].split("\r")[-1]
        seen.clear()


def test_a_save_that_fails_hides_nothing(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def play(policy, episodes):
        shutil.rmtree(folder, ignore_errors=True)
        if episodes[0] >= limit:
            raise OSError("no contact")
        return overwrites(policy, episodes)

    limit = 10
    with pytest.raises(PlayError, match="no contact") as caught:
        concurrent.run(
            System(play, horizon=3, states=4, actions=3),
            ALGORITHMS["ucb2-h"],
            50,
            machines=7,
            checkpoint=folder / "run.npz",
        )
    (note,) = caught.value.__notes__  # and no checkpoint is promised
    assert "what was reached since the last checkpoint is lost: cannot write" in note
    folder.mkdir()
    limit = 1000
    with pytest.warns(RuntimeWarning, match="the last checkpoint was not written"):
        run = concurrent.run(
            System(play, horizon=3, states=4, actions=3),
            ALGORITHMS["ucb2-h"],
            50,
            machines=7,
            checkpoint=folder / "run.npz",
        )
    assert run.kept == 50


def test_an_interrupt_while_learning_leaves_a_whole_state(tmp_path, monkeypatch):
    mdp, algorithm, file = PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], tmp_path / "run.npz"
    end_round, rounds = kernels.end_round, []

    def interrupted(*arguments):
        end_round(*arguments)
        rounds.append(1)
        if len(rounds) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "end_round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        concurrent.run(
            mdp, algorithm, 300, machines=7, rule="speculate", fleet=Here(), checkpoint=file
        )
    same_rounds(
        concurrent.run(
            mdp, algorithm, 300, machines=7, rule="speculate", fleet=Here(), checkpoint=file
        ),
        concurrent.run(mdp, algorithm, 300, machines=7, rule="speculate"),
    )


def test_traffic_adds_up_over_pieces(tmp_path):
    class Counted(Here):
        def open(self, source, seed, policy):
            crew = super().open(source, seed, policy)
            crew.lost, crew.bytes_sent, crew.bytes_received = 1, 20, 300
            return crew

    for rounds in (3, 6):
        run = concurrent.run(
            PROBLEMS["dense"](),
            ALGORITHMS["ucb2-h"],
            300,
            machines=7,
            fleet=Counted(),
            checkpoint=tmp_path / "run.npz",
            stop=Stop(rounds=rounds),
        )
    assert (run.lost, run.bytes_sent, run.bytes_received) == (2, 40, 600)


def test_a_log_that_grows(monkeypatch, mdp):
    monkeypatch.setattr(state_module, "_CHANGES", 1)
    for rule in RULES:
        for fleet in (InProcess(), Here()):
            run = concurrent.run(
                mdp, ALGORITHMS["ucb2-h"], EPISODES, machines=64, rule=rule, fleet=fleet
            )
            same_run(run, sequential(mdp, ALGORITHMS["ucb2-h"], EPISODES))


def test_a_damaged_checkpoint(tmp_path):
    file = tmp_path / "run.npz"
    arguments = {
        "source": PROBLEMS["dense"](),
        "algorithm": ALGORITHMS["ucb2-h"],
        "episodes": 100,
        "machines": 7,
        "checkpoint": file,
    }
    concurrent.run(**arguments)
    facts, arrays = storage.read(file, "concurrent checkpoint")
    storage.write(
        file,
        "concurrent checkpoint",
        facts,
        {name: array for name, array in arrays.items() if name != "tables_rows"},
    )
    with pytest.raises(ValueError, match="no whole checkpoint.*delete it to begin anew"):
        concurrent.run(**arguments)
    for name, array in (
        ("log_changes", arrays["log_changes"][:-1]),
        ("rounds_stamps", arrays["rounds_stamps"][:-1]),
        ("tables_rows", arrays["tables_rows"][:1]),
        ("window_states", arrays["window_states"] + 0.5),
        ("window_states", arrays["window_states"] + np.int32(100)),
    ):
        storage.write(file, "concurrent checkpoint", facts, arrays | {name: array})
        with pytest.raises(
            ValueError,
            match="no whole checkpoint .*(states from|is .* of).*delete it to begin anew",
        ):
            concurrent.run(**arguments)
    file.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a lowswitch file"):
        concurrent.run(**arguments)
    with pytest.raises(ValueError, match="cannot write"):
        concurrent.run(**(arguments | {"checkpoint": tmp_path / "missing" / "run.npz"}))


def test_an_interrupt_keeps_what_was_reached(tmp_path, interruptible):
    mdp, algorithm, file = PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], tmp_path / "run.npz"
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        concurrent.run(mdp, algorithm, 2 * 10**9, machines=7, checkpoint=file)
    assert caught.value.__notes__ == [
        f"the checkpoint {str(file)!r} is kept; the same call goes on from there"
    ]
    _, arrays = storage.read(file, "concurrent checkpoint")
    told = int(arrays["rounds_counts"][2])
    assert told > 0
    reached = concurrent.run(
        mdp,
        algorithm,
        2 * 10**9,
        machines=7,
        checkpoint=file,
        stop=Stop(rounds=int(arrays["rounds_counts"][0])),
    )
    straight = concurrent.run(
        mdp, algorithm, 2 * 10**9, machines=7, stop=Stop(rounds=reached.rounds)
    )
    same_run(reached, straight)
    same_rounds(reached, straight)


def test_a_killed_driver_goes_on_from_its_checkpoint(tmp_path):
    file = tmp_path / "run.npz"
    text = (
        "import lowswitch as ls\nmdp = ls.envs.riverswim(states=6, horizon=10)\nfleet ="
        " ls.concurrent.Processes(workers=1)\nif __name__ == '__main__':\n   "
        " ls.concurrent.run(mdp, ls.ucb2_hoeffding(c=0.05), 3000, machines=50, fleet=fleet,"
        f" checkpoint={str(file)!r}, save_every=0)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(text)
    driver = subprocess.Popen([sys.executable, script], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    driver.kill()
    driver.wait(10)
    mdp, algorithm = ls.envs.riverswim(states=6, horizon=10), ls.ucb2_hoeffding(c=0.05)
    run = concurrent.run(mdp, algorithm, 3000, machines=50, checkpoint=file)
    whole = concurrent.run(mdp, algorithm, 3000, machines=50)
    same_run(run, whole)
    same_rounds(run, whole)


# ---- what can go wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"machines": 0}, "machines must be a whole number from 1"),
        ({"machines": 2.5}, "machines must be a whole number from 1"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"rule": "cut"}, 'rule must be "trigger", "switch" or "speculate", not \'cut\''),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"algorithm": "ucb2-h"}, "algorithm must be an Algorithm"),
        ({"source": gymnasium.make("FrozenLake-v1")}, "a source is a TabularMDP.*Gymnasium"),
        ({"stop": 0.1}, "stop must be a lowswitch.concurrent.Stop"),
        ({"save_every": -1.0}, "save_every must be"),
        ({"fleet": "processes"}, "fleet must be .* not 'processes'"),
        ({"fleet": Processes}, "fleet must be .* not <class"),
        ({"source": PROBLEMS["masked-sequence"](), "stop": Stop(policy=0.1)}, "need exact values"),
        (
            {"source": PROBLEMS["masked-sequence"](), "episodes": 5000},
            "the start sequence has 4000 states",
        ),
    ],
)
def test_bad_arguments(bad, named):
    good = {
        "source": PROBLEMS["dense"](),
        "algorithm": ALGORITHMS["ucb2-h"],
        "episodes": 10,
        "machines": 2,
    }
    with pytest.raises(ValueError, match=named):
        concurrent.run(**(good | bad))


@pytest.mark.parametrize(
    "bad",
    [
        {"policy": 0},
        {"mixture": -1.0},
        {"rounds": 0},
        {"rounds": 2.5},
        {"seconds": float("nan")},
        {"policy": "x"},
    ],
)
def test_a_stop_is_above_nothing(bad):
    with pytest.raises(ValueError, match=f"stop: {next(iter(bad))} must be a .*number above 0"):
        Stop(**bad)


def test_a_stop_of_numpy_numbers_is_saved(tmp_path):
    stop = Stop(policy=np.float32(1e-3), rounds=np.int64(3))
    for _ in range(2):
        run = concurrent.run(
            PROBLEMS["dense"](),
            ALGORITHMS["ucb2-h"],
            50,
            machines=2,
            stop=stop,
            checkpoint=tmp_path / "run.npz",
        )
    assert run.rounds == 3


def test_a_real_system_is_not_speculated_with():
    with pytest.raises(ValueError, match="would condition the data on where they went"):
        concurrent.run(
            system_of(PROBLEMS["dense"]()), ALGORITHMS["ucb2-h"], 10, machines=2, rule="speculate"
        )


def test_nothing_recompiles():
    for make in PROBLEMS.values():
        for rule in RULES:
            for fleet in (InProcess(), Here()):
                concurrent.run(make(), ALGORITHMS["ucb2-b"], 20, machines=3, rule=rule, fleet=fleet)
            concurrent.run(
                system_of(make(), replayable=True), ALGORITHMS["ucb2-h"], 20, machines=3, rule=rule
            )
    for kernel in (kernels.play_rounds, kernels.plan_round, kernels.end_round):
        assert len(kernel.signatures) == 1


@pytest.mark.parametrize("bad", [7, gymnasium.make("FrozenLake-v1"), lambda: 5])
def test_what_is_no_environment(bad):
    with pytest.raises(
        ValueError, match="an environment is a registered name|is no Gymnasium environment"
    ):
        Gymnasium(bad, horizon=5)


@pytest.mark.parametrize("reward_range", [("0", "1"), (0, 1, 2), 5, (1, 0), (0, float("nan"))])
def test_what_is_no_reward_range(reward_range):
    for make in (
        lambda **range_: Gymnasium("FrozenLake-v1", horizon=5, **range_),
        lambda **range_: system_of(PROBLEMS["dense"](), **range_),
    ):
        with pytest.raises(
            ValueError,
            match="reward_range must be two numbers|a reward range needs finite low < high",
        ):
            make(reward_range=reward_range)


def test_environments_that_cannot_be_played():
    with pytest.raises(ValueError, match="observations must be Discrete, not Box"):
        Gymnasium("CartPole-v1", horizon=10)
    with pytest.raises(
        ValueError, match="cannot make the environment 'NoLake-v1' with options {}.*doesn't exist"
    ):
        Gymnasium("NoLake-v1", horizon=10)
    with pytest.raises(ValueError, match="truncates after 100 steps"):
        Gymnasium("FrozenLake-v1", horizon=101)
    with pytest.raises(ValueError, match="reward_range must contain 0"):
        Gymnasium("FrozenLake-v1", horizon=10, reward_range=(1.0, 2.0))


def answers(states, actions, rewards):
    """A play that answers each call with these, cut or repeated to one row each episode."""
    return lambda policy, episodes: tuple(
        np.array([row] * len(episodes)) for row in (states, actions, rewards)
    )


@pytest.mark.parametrize(
    ("play", "named"),
    [
        (
            lambda policy, episodes: (
                np.zeros((1, 2), int),
                np.zeros((1, 2), int),
                np.zeros((1, 2)),
            ),
            "returned 1 trajectories for 5",
        ),
        (
            lambda policy, episodes: (
                np.zeros((9, 2), int),
                np.zeros((9, 2), int),
                np.zeros((9, 2)),
            ),
            "returned 9 trajectories for 5",
        ),
        (lambda policy, episodes: None, r"must return \(states, actions, rewards\), not NoneType"),
        (lambda policy, episodes: (1, 2), r"must return \(states, actions, rewards\), not tuple"),
        (answers([0, 0], [0], [0.0, 0.0]), "malformed trajectories: an episode is 2 states"),
        (
            answers([0, 7], [0, 0], [0.0, 0.0]),
            "malformed trajectories: states must be 0 to 2, not 0 to 7",
        ),
        (
            answers([0.0, 1.0], [0, 0], [0.0, 0.0]),
            "malformed trajectories: states must be integers",
        ),
        (
            answers([0, 1], [0, 0], [0.0, 2.0]),
            r"malformed trajectories: rewards must lie in \[0, 1\]",
        ),
        (answers([0, 1], [0, 0], [0.0, float("nan")]), "malformed trajectories: rewards must lie"),
        (answers([0, 1], [0, 0], ["a", "b"]), "malformed trajectories"),
        (
            answers([0, 1], [0, 1], [0.0, 0.0]),
            "step 1, machine 0: play took action 1 in state 1, the policy takes 0",
        ),
        (lambda policy, episodes: 1 / 0, "play raised ZeroDivisionError"),
    ],
)
def test_what_play_must_not_return(play, named):
    source = System(play, horizon=2, states=3, actions=2)
    with pytest.raises(PlayError, match=f"^episode 0, .*{named}"):
        concurrent.run(source, ALGORITHMS["ucb2-h"], 10, machines=5)


def test_play_must_be_a_function_and_sizes_counts():
    with pytest.raises(ValueError, match="play must be a function"):
        System("play", horizon=2, states=3, actions=2)
    with pytest.raises(ValueError, match="states must be a whole number"):
        System(lambda policy, episodes: None, horizon=2, states=0, actions=2)


class Brittle(gymnasium.Env):
    """Counts its steps; the fifth episode fails at its third step as long as a file is there."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

    def __init__(self, trap):
        self.trap = trap

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.fails = (
            0,
            seed == episode_seed(stream_key(0), 4) and os.path.exists(self.trap),
        )
        return 0, {}

    def step(self, action):
        if self.fails and self.state == 2:
            raise RuntimeError("a wire is loose")
        self.state += 1
        return min(self.state, 3), float(self.np_random.random() < 0.5), False, False, {}


class Strange(gymnasium.Env):
    """Observes or pays what it said it would not."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def __init__(self, seen, paid):
        self.seen, self.paid = seen, paid

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return self.seen, self.paid, False, False, {}


@pytest.mark.parametrize(
    ("seen", "paid", "named"),
    [
        (
            3,
            0.0,
            (
                "step 1, machine 0: ValueError: the environment observes 3 at step 1, outside of"
                " its states 0 to 2"
            ),
        ),
        (-1, 0.0, "observes -1 at step 1"),
        (1.5, 0.0, "observes 1.5 at step 1"),
        (
            1,
            2.0,
            (
                r"step 0, machine 0: the reward 2 lies outside of reward_range \(0, 1\); give the"
                r" true range"
            ),
        ),
        (1, float("nan"), "step 0, machine 0: the reward nan lies outside"),
    ],
)
def test_what_an_environment_must_not_do(seen, paid, named):
    with pytest.raises(PlayError, match=f"^episode 0, .*{named}"):
        concurrent.run(
            Gymnasium(Strange, horizon=3, seen=seen, paid=paid),
            ALGORITHMS["ucb2-h"],
            10,
            machines=2,
        )


@pytest.mark.parametrize("fleet", [InProcess(), Processes(workers=1)])
def test_an_environment_that_raises_names_the_place_and_the_run_goes_on(fleet, tmp_path):
    trap, file, before = tmp_path / "trap", tmp_path / "run.npz", multiprocessing.active_children()
    trap.touch()
    source = Gymnasium(Brittle, horizon=4, trap=str(trap))
    with pytest.raises(PlayError, match="^episode 4, step 2, machine .*a wire is loose") as caught:
        concurrent.run(source, ALGORITHMS["ucb2-h"], 40, machines=3, fleet=fleet, checkpoint=file)
    assert caught.value.episode == 4
    assert "a wire is loose" in str(caught.value.__cause__)
    trap.unlink()
    run = concurrent.run(source, ALGORITHMS["ucb2-h"], 40, machines=3, fleet=fleet, checkpoint=file)
    whole = concurrent.run(source, ALGORITHMS["ucb2-h"], 40, machines=3)
    same_rounds(run, whole)
    assert run.history[0].changes.tolist() == whole.history[0].changes.tolist()
    assert set(multiprocessing.active_children()) == set(before)  # listed in no order


def test_an_error_in_a_mixture_names_the_machine_of_the_round():
    mdp, calls = PROBLEMS["dense"](), []

    def play(policy, episodes):
        calls.append(episodes.tolist())
        if 33 in episodes:
            raise PlayError("the pump stopped", 33, 1)
        return system_of(mdp).play(policy, episodes)

    source = System(play, horizon=3, states=4, actions=3)
    with pytest.raises(PlayError, match="^episode 33, step 1, machine 3: the pump stopped$"):
        concurrent.run(source, ls.psrl(members=5, schedule=ls.Grid((30, 100))), 100, machines=10)
    assert [len(group) for group in calls[:3]] == [10, 10, 10]  # all members begin alike
    assert len(calls[3]) < 10


def test_a_system_may_raise_its_own_play_error():
    def play(policy, episodes):
        raise PlayError("the pump stopped", int(episodes[3]), 1)

    with pytest.raises(PlayError, match="^episode 3, step 1, machine 3: the pump stopped$"):
        concurrent.run(
            System(play, horizon=2, states=3, actions=2), ALGORITHMS["ucb2-h"], 10, machines=5
        )


# ---- results -------------------------------------------------------------------------------------


def test_a_result_is_saved_whole(tmp_path):
    run = concurrent.run(
        PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 200, machines=7, rule="speculate"
    )
    run.save(tmp_path / "run.npz")
    back = concurrent.load(tmp_path / "run.npz")
    same_run(back, run)
    same_rounds(back, run)
    assert back.to_dict() == run.to_dict()
    (tmp_path / "other.npz").write_bytes((tmp_path / "run.npz").read_bytes())
    with pytest.raises(ValueError, match="holds a 'concurrent run'"):
        ls.load(tmp_path / "other.npz")


def test_a_result_prints_as_a_line():
    run = concurrent.run(PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 200, machines=7)
    text = repr(run)
    assert text.startswith(
        f"ConcurrentRun({run.algorithm}, horizon=3, states=4, actions=3, 7 machines, rule 'switch',"
        " seed 0, 200 episodes"
    )
    assert text.endswith(
        f"local switches {run.local_switches[0]:,}, deployments {run.deployments[0]:,})"
    )


def test_the_summary_says_what_was_thrown_away(capsys):
    run = concurrent.run(PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 200, machines=7)
    run.summary()
    text = capsys.readouterr().out
    assert f"{run.thrown_away:,} of {run.played:,} played were thrown away" in text
    assert "= N_gl + 1 + K/M" in text


def test_mistakes_are_counted_by_the_policies_that_played(mdp):
    if len(mdp.start_sequence):
        pytest.skip("a start sequence has no start law")
    run = concurrent.run(mdp, ALGORITHMS["ucb2-h"], EPISODES, machines=13, rule="speculate")
    policy, gaps = run.initial.copy(), [mdp.optimal_value() - mdp.evaluate(run.initial)]
    for episode in np.unique(run.history[0].episode):
        for _, h, x, a in run.history[0].changes[run.history[0].episode == episode]:
            policy[h, x] = a
        gaps.append(mdp.optimal_value() - mdp.evaluate(policy))
    eps = float(np.median(gaps)) + 1e-9
    expected = sum(int(n) for n, gap in zip(run.played_under, gaps, strict=True) if gap > eps)
    assert run.mistakes(mdp, eps) == mdp.horizon * expected
    assert 0 <= run.suboptimal_actions(mdp, eps) <= run.plays.sum()


def test_a_problem_survives_a_pickle_frozen_and_without_what_can_be_worked_out(mdp):
    mdp.optimal_value()
    back = pickle.loads(pickle.dumps(mdp))
    assert not back.rewards.flags.writeable
    assert "model" not in vars(back)
    assert back.optimal_value() == mdp.optimal_value()
    assert len(pickle.dumps(mdp)) == len(pickle.dumps(back))


# ---- the command ---------------------------------------------------------------------------------

COMMAND = [
    "concurrent",
    "--env",
    "riverswim:states=3,horizon=4",
    "--algorithm",
    "ucb2-b:c=0.05",
    "--episodes",
    "500",
    "--machines",
    "20",
]


def test_the_command_prints_the_run(capsys, tmp_path):
    assert (
        cli.main(
            [
                *COMMAND,
                "--json",
                "--save",
                str(tmp_path / "run.npz"),
                "--checkpoint",
                str(tmp_path / "check.npz"),
            ]
        )
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    run = concurrent.run(
        ls.envs.riverswim(states=3, horizon=4), ls.ucb2_bernstein(c=0.05), 500, machines=20
    )
    assert (said["rounds"], said["kept"], said["thrown_away"]) == (run.rounds, 500, run.thrown_away)
    assert said["regret"]["per_seed"] == run.regret.tolist()
    same_rounds(concurrent.load(tmp_path / "run.npz"), run)


def test_the_command_plays_gymnasium(capsys):
    lake = [
        "concurrent",
        "--gymnasium",
        "FrozenLake-v1",
        "--algorithm",
        "ucb2-h:c=0.05",
        "--episodes",
        "50",
        "--machines",
        "5",
    ]
    assert cli.main([*lake, "--horizon", "10", "--rule", "speculate", "--max-rounds", "3"]) == 0
    assert "stopped by its rounds" in capsys.readouterr().out
    assert cli.main(lake) == 2
    assert "give --horizon" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--machines", "0"], "machines must be a whole number"),
        (["--fleet", "proceses"], "did you mean 'processes'?"),
        (["--fleet", "processes:workers=0"], "workers must be a whole number"),
        (["--stop-policy", "-1"], "stop: policy must be a number above 0"),
    ],
)
def test_the_command_says_what_is_wrong(more, named, capsys):
    assert cli.main([*COMMAND, *more]) == 2
    assert named in capsys.readouterr().err


def test_the_command_passes_options_to_gymnasium(capsys):
    lake = [
        "concurrent",
        "--gymnasium",
        "FrozenLake-v1:is_slippery=false,map_name=4x4",
        "--algorithm",
        "ucb2-h:c=0.05",
        "--episodes",
        "50",
    ]
    assert cli.main([*lake, "--machines", "5", "--horizon", "10", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    source = Gymnasium("FrozenLake-v1", horizon=10, is_slippery=False)
    assert (
        said["rounds"] == concurrent.run(source, ls.ucb2_hoeffding(c=0.05), 50, machines=5).rounds
    )
    assert said["regret"] == {"mean": None, "sd": None, "per_seed": [None]}
    assert cli.main([*COMMAND, "--horizon", "5"]) == 2
    assert "are for --gymnasium" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("FrozenLake-v1:horizon=4", "give --horizon and --reward-range"),
        ("FrozenLake-v1:nope=3", "cannot make the environment 'FrozenLake-v1'"),
        ("FrozenLake-v1:map_name=99x99", "cannot make the environment 'FrozenLake-v1'"),
        ("FrozenLake-v1:is_slippery", "is not of the form key=value"),
    ],
)
def test_the_command_refuses_environments_clearly(name, named, capsys):
    rest = ["--algorithm", "ucb2-h:c=0.05", "--episodes", "5", "--machines", "2", "--horizon", "10"]
    assert cli.main(["concurrent", "--gymnasium", name, *rest]) == 2
    assert named in capsys.readouterr().err


def test_the_command_plays_the_library_s_own_environments(capsys):
    rest = ["--algorithm", "ucb2-h:c=0.05", "--episodes", "5", "--machines", "2", "--horizon", "4"]
    assert (
        cli.main(
            [
                "concurrent",
                "--gymnasium",
                "lowswitch.envs.gymnasium:lowswitch/Riverswim-v0:states=4",
                *rest,
            ]
        )
        == 0
    )
    assert "S = 5" in capsys.readouterr().out
