"""A run that stops by its own bounds: when, what it costs, and the same everywhere."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS
from exam import RULES
from lowswitch import concurrent
from lowswitch.reproduce.pseudocode import play_episode

LEARNER = ls.ucbvi(c=0.01, pooled=True, schedule="growth/2.0")
EPISODES = 20_000


def lock(unit=1):
    """Two states, two steps: the bounds are narrow after a few thousand episodes."""
    transitions = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]]])
    rewards = np.array([[0.1, 0.0], [0.3, 0.9]])
    if unit != 1:
        rewards = ls.rescale(unit * (rewards - 0.5), low=-unit / 2, high=unit / 2)
    return ls.TabularMDP(transitions, rewards, horizon=2, reward_law="bernoulli")


def test_a_run_ends_at_the_first_look_at_which_its_bounds_hold():
    mdp, stop = lock(), ls.Stop(within=0.4)
    runs = ls.simulate(mdp, LEARNER, episodes=EPISODES, seeds=3, stop=stop, history=True)
    assert (runs.ended < EPISODES).all()
    for seed, ended in enumerate(runs.ended):
        learner = ls.Learner(LEARNER, **mdp.size, episodes=EPISODES, seed=seed)
        looks, told = [], 0
        while told < ended:
            look = stop.next_look(told + 1, EPISODES)
            for k in range(told, look):
                learner.tell(*play_episode(mdp, learner.policy, seed, k))
            told = look
            looks.append(learner.bounds().gap)
        assert told == ended
        assert looks[-1] <= 0.4 < min(looks[:-1])
        assert (runs.policy[seed] == learner.policy).all()


def test_nothing_is_charged_after_the_end():
    mdp = lock()
    stopped = ls.simulate(mdp, LEARNER, episodes=EPISODES, seeds=2, stop=ls.Stop(within=0.4))
    whole = ls.simulate(mdp, LEARNER, episodes=EPISODES, seeds=2)
    for seed, ended in enumerate(stopped.ended):
        here = int(np.flatnonzero(whole.curves.episodes == ended)[0])
        for name in ("regret", "deployments", "local_switches"):
            curve = getattr(stopped.curves, name)[seed]
            assert (curve[: here + 1] == getattr(whole.curves, name)[seed, : here + 1]).all()
            assert (curve[here:] == curve[here]).all()
    expected = stopped.optimal_value - stopped.regret / stopped.ended
    assert (stopped.earned_per_episode == expected).all()
    assert not len(whole.ended)


def test_what_is_certified_is_true():
    """20 seeds; each may fail with a probability of 5 %, and by far fewer do: all are right."""
    mdp = lock()
    runs = ls.simulate(mdp, LEARNER, episodes=EPISODES, seeds=20, stop=ls.Stop(within=0.4))
    assert (runs.optimal_value - runs.last_value <= 0.4).all()


@pytest.mark.parametrize("rule", RULES)
def test_rounds_end_where_the_sequential_run_ends(rule):
    mdp, stop = lock(), ls.Stop(within=0.4)
    (ended,) = ls.simulate(mdp, LEARNER, episodes=EPISODES, seeds=1, stop=stop).ended
    for machines in (1, 30):
        run = concurrent.run(mdp, LEARNER, EPISODES, machines=machines, rule=rule, stop=stop)
        assert (run.stopped, run.episodes, run.planned) == ("within", ended, EPISODES)


def test_rounds_go_on_from_a_checkpoint(tmp_path):
    mdp, stop, file = lock(), concurrent.Stop(within=0.4), tmp_path / "run.npz"
    setting = {"machines": 30, "rule": "switch"}
    straight = concurrent.run(mdp, LEARNER, EPISODES, stop=stop, **setting)
    for rounds in (5, 20):
        early = concurrent.Stop(within=0.4, rounds=rounds)
        concurrent.run(mdp, LEARNER, EPISODES, stop=early, checkpoint=file, **setting)
    resumed = concurrent.run(mdp, LEARNER, EPISODES, stop=stop, checkpoint=file, **setting)
    assert (resumed.episodes, resumed.stopped) == (straight.episodes, "within")
    again = concurrent.run(mdp, LEARNER, EPISODES, stop=stop, checkpoint=file, **setting)
    assert again.episodes == straight.episodes
    stricter = concurrent.Stop(within=0.3)
    longer = concurrent.run(mdp, LEARNER, EPISODES, stop=stricter, checkpoint=file, **setting)
    assert longer.episodes > straight.episodes


def test_the_first_rule_that_is_met_ends_a_run():
    mdp = lock()
    both = concurrent.Stop(within=0.4, mixture=0.02)
    run = concurrent.run(mdp, LEARNER, EPISODES, machines=10, stop=both)
    alone = concurrent.run(mdp, LEARNER, EPISODES, machines=10, stop=concurrent.Stop(mixture=0.02))
    within = concurrent.run(mdp, LEARNER, EPISODES, machines=10, stop=concurrent.Stop(within=0.4))
    assert run.episodes == min(alone.episodes, within.episodes)
    assert run.stopped == ("mixture" if alone.episodes < within.episodes else "within")


def test_units_are_those_of_the_problem():
    """Rewards of -50 to 50 in place of 0 to 1: a hundred times as much is as near."""
    mdp = lock(100)
    large = ls.simulate(mdp, LEARNER, episodes=EPISODES, seeds=2, stop=ls.Stop(within=40))
    small = ls.simulate(lock(), LEARNER, episodes=EPISODES, seeds=2, stop=ls.Stop(within=0.4))
    assert large.ended.tolist() == small.ended.tolist()


def test_looks_are_log_spaced_and_reach_the_end():
    stop = ls.Stop(within=0.1)
    looks, told = [], 0
    while told < 10**6:
        told = stop.next_look(told + 1, 10**6)
        looks.append(told)
    assert 80 < len(looks) < 110
    assert looks[:3] == [1, 3, 5]
    assert max(np.diff(looks[20:]) / looks[20:-1]) < 0.16
    assert ls.Stop(rounds=3).next_look(1, 500) == 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": 0.1}, "stop must be a lowswitch.Stop such as Stop"),
        ({"stop": ls.Stop(rounds=3)}, "simulate stops by Stop\\(within=..., probability=...\\)"),
        ({"stop": ls.Stop(within=0.1, seconds=3)}, "leave the rest to concurrent.run"),
        ({"algorithm": ls.ucb2_hoeffding()}, "a Q-learner keeps none"),
        ({"mdp": PROBLEMS["masked-sequence"]()}, "within needs initial states that are drawn"),
    ],
)
def test_what_cannot_stop_says_so(options, message):
    given = {"mdp": lock(), "algorithm": LEARNER, "stop": ls.Stop(within=0.1)} | options
    with pytest.raises(ValueError, match=message):
        ls.simulate(**given, episodes=100)


def test_rounds_refuse_what_cannot_stop():
    stop = ls.Stop(within=0.1)
    with pytest.raises(ValueError, match="a Q-learner keeps none"):
        concurrent.run(lock(), ls.ucb2_hoeffding(), 100, machines=2, stop=stop)
    with pytest.raises(ValueError, match="within needs initial states"):
        concurrent.run(PROBLEMS["masked-sequence"](), LEARNER, 100, machines=2, stop=stop)


@pytest.mark.parametrize(("name", "value"), [("within", 0), ("within", -1), ("probability", 1)])
def test_a_rule_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        ls.Stop(**{"within": 0.1} | {name: value})


def test_results_with_an_end_are_saved(tmp_path):
    runs = ls.simulate(lock(), LEARNER, episodes=2000, seeds=2, stop=ls.Stop(within=1.9))
    runs.save(tmp_path / "runs.npz")
    loaded = ls.load(tmp_path / "runs.npz")
    assert loaded.ended.tolist() == runs.ended.tolist() == runs.to_dict()["ended"]
