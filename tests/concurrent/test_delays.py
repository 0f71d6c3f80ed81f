"""Outcomes that arrive late on many machines: the sequential run with the same delays."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, learner_for
from exam import RULES, RoundByRound, in_turn, same_rounds, same_run
from lowswitch import concurrent
from lowswitch.concurrent import InProcess, Processes, Stop
from lowswitch.history import exact_regret
from lowswitch.kernels.streams import MEMBERS, drawn_member, learner_stream
from lowswitch.reproduce.pseudocode import play_episode

EPISODES = 300
DELAYS = (1, 6, 7, 90)  # with 7 machines: within a round, and over many of them
LEARNERS = ("ucb2-b", "staged-randql", "fedq-h", "mvp", "mixture-budget", "mixed-stages")
BY_TURNS = [
    (name, delay, rule)
    for (name, delay), rule in in_turn(
        [(name, delay) for name in LEARNERS for delay in DELAYS], RULES
    )
]

pytestmark = pytest.mark.filterwarnings(
    "ignore::lowswitch.BonusWarning", "ignore::lowswitch.runs.simulate.NothingLearnedWarning"
)


@pytest.mark.parametrize(("name", "delay", "rule"), BY_TURNS)
def test_a_run_with_late_outcomes_is_the_sequential_one(name, delay, rule):
    mdp, algorithm = PROBLEMS["per-step"](), ALGORITHMS[name]
    asked = {"machines": 7, "rule": rule, "seed": 3, "delay": delay}
    run = concurrent.run(mdp, algorithm, EPISODES, **asked)
    alone = ls.simulate(
        mdp, algorithm, episodes=EPISODES, seeds=[3], delay=delay, history=True, progress=False
    )
    same_run(run, alone)
    assert run.delay == alone.delay == delay
    assert len(run.history[0]) > 1
    by_fleet = concurrent.run(mdp, algorithm, EPISODES, **asked, fleet=RoundByRound())
    same_run(by_fleet, run)
    same_rounds(by_fleet, run)


def test_processes_play_with_late_outcomes():
    mdp, algorithm = PROBLEMS["sparse-bernoulli"](), ALGORITHMS["ucb2-h"]
    asked = {"machines": 5, "rule": "speculate", "delay": 20}
    run = concurrent.run(mdp, algorithm, 200, **asked, fleet=Processes(workers=2))
    same_rounds(run, concurrent.run(mdp, algorithm, 200, **asked))


def test_dates_before_the_first_outcome_pass():
    """The dates are after 75, 150 and 225 episodes; the first outcome arrives after 101."""
    mdp, algorithm = PROBLEMS["dense"](), ls.psrl(schedule="grid/equal/4", members=3)
    run = concurrent.run(mdp, algorithm, EPISODES, machines=9, delay=100)
    alone = ls.simulate(
        mdp, algorithm, episodes=EPISODES, seeds=[0], delay=100, history=True, progress=False
    )
    same_run(run, alone)


# ---- machines that return when they like ---------------------------------------------------------


def told_by_machines(mdp, algorithm, delays, episodes):
    """The row changes of a learner that is told episode k after delays[k % M] more episodes, and
    learns the outcomes that arrive together in the order of the machines.
    """
    learner, told, changes = learner_for(mdp, algorithm, episodes), [], []
    key, members = np.uint64(learner_stream(0, MEMBERS)), algorithm.members
    for k in range(episodes):
        told.append(play_episode(mdp, learner.mixture[drawn_member(key, members, k)], 0, k))
        for m, delay in enumerate(delays):
            arrived = k - delay
            if arrived >= 0 and arrived % len(delays) == m:
                said = learner.tell(*told[arrived], off_policy=True)
                if said is not None:
                    later = said.changes.copy()
                    later[:, 0] = k
                    changes += later.tolist()
    return changes


@pytest.mark.parametrize(
    ("name", "delays"),
    [
        # Every learner, with outcomes that never arrive together ...
        *[(name, (8, 0, 44, 4)) for name in LEARNERS],
        # ... and learners that change row by row, with outcomes that do.
        ("ucb2-b", (3, 2, 1, 0)),
        ("staged-randql", (3, 2, 1, 0)),
    ],
)
def test_each_machine_returns_when_it_likes(name, delays):
    mdp, algorithm = PROBLEMS["per-step"](), ALGORITHMS[name]
    expected = told_by_machines(mdp, algorithm, delays, EPISODES)
    for rule in RULES:
        run = concurrent.run(mdp, algorithm, EPISODES, machines=4, rule=rule, delay=delays)
        assert run.history[0].changes.tolist() == expected
        assert run.regret[0] == pytest.approx(
            exact_regret(mdp, run.history[0], episodes=EPISODES, initial=run.initial)
        )
    assert len(expected) > 2
    assert run.delay == max(delays)


def test_machines_of_one_delay_have_that_delay():
    mdp, algorithm = PROBLEMS["dense"](), ALGORITHMS["mvp"]
    each = concurrent.run(mdp, algorithm, EPISODES, machines=3, delay=np.full(3, 11))
    same_rounds(each, concurrent.run(mdp, algorithm, EPISODES, machines=3, delay=11))


def test_there_is_room_for_all_outcomes_that_arrive_together():
    """After every 24th episode, 24 of them with 4 first visits each, and with as many changes."""
    mdp = ls.envs.random_mdp(states=12, actions=3, horizon=4, seed=1)
    larfe = ls.algorithms.larfe(phase=30, members=36)
    asked = {"machines": 24, "delay": list(range(23, -1, -1)), "rule": "speculate"}
    for algorithm in (larfe, *(ALGORITHMS[name] for name in ("mvp", "ucb-h", "mixture-budget"))):
        run = concurrent.run(mdp, algorithm, 480, **asked)
        same_rounds(run, concurrent.run(mdp, algorithm, 480, **asked, fleet=RoundByRound()))
        assert run.history[0].deployments == run.deployments[0] > 0


def test_outcomes_that_arrive_together_cause_one_deployment():
    """Two machines: all outcomes arrive in pairs, after every second episode."""
    mdp, algorithm = PROBLEMS["dense"](), ls.mvp(c=1e-4)
    run = concurrent.run(mdp, algorithm, EPISODES, machines=2, delay=[1, 0])
    assert (np.unique(run.history[0].episode) % 2 == 1).all()
    assert run.history[0].deployments == run.deployments[0] > 2


# ---- what is kept and refused --------------------------------------------------------------------


@pytest.mark.parametrize("fleet", [InProcess(), RoundByRound()])
@pytest.mark.parametrize("delay", [30, [0, 5, 30, 2, 1, 9, 9]])
def test_a_delayed_run_in_pieces_is_the_whole_run(fleet, delay, tmp_path):
    mdp, file = PROBLEMS["per-step"](), tmp_path / "run.npz"
    for name in ("ucb2-b", "fedq-h", "mvp"):
        asked = {"machines": 7, "rule": "speculate", "delay": delay}
        whole = concurrent.run(mdp, ALGORITHMS[name], EPISODES, **asked)
        for rounds in (1, 2, 9, 20, 10**6):
            run = concurrent.run(
                mdp,
                ALGORITHMS[name],
                EPISODES,
                **asked,
                fleet=fleet,
                checkpoint=file,
                stop=Stop(rounds=rounds),
            )
        same_run(run, whole)
        same_rounds(run, whole)
        with pytest.raises(ValueError, match=r"delay=\[.*this run has delay=\[0\]"):
            concurrent.run(
                mdp, ALGORITHMS[name], EPISODES, machines=7, rule="speculate", checkpoint=file
            )
        file.unlink()


def test_bad_delays_are_refused():
    mdp, algorithm = PROBLEMS["dense"](), ls.ucb2_hoeffding()
    for delay, message in (
        (-1, "delay must be a whole number from 0"),
        (2.5, "delay must be a whole number"),
        ([1, 2], "2 numbers for 3 machines"),
        ([], "0 numbers for 3 machines"),
        ([1, 2, "x"], "delay must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            concurrent.run(mdp, algorithm, 9, machines=3, delay=delay)
    arms = ls.features.problems.fixed_arms(arms=3, features=2)
    with pytest.raises(ValueError, match="leave fleet, stop, regret, delay and send out"):
        concurrent.run(arms, ls.linear(), 9, machines=3, delay=1)
