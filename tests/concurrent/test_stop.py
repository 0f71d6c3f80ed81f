"""A run ends before its last episode exactly where it was asked to."""

from itertools import product

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, random_tables
from exam import EPISODES, OTHER_LEARNERS, RULES, RoundByRound, sequential
from lowswitch import concurrent
from lowswitch.concurrent import InProcess, Stop

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # Short runs warn.


@pytest.mark.parametrize("rule", RULES)
def test_a_run_stops_at_the_first_good_policy(rule):
    mdp, algorithm, eps = ls.envs.riverswim(states=4, horizon=6), ls.ucb2_bernstein(c=0.02), 0.02
    whole = sequential(mdp, algorithm, 20_000)
    gaps = ls.deployment_gaps(mdp, whole.history[0], initial=whole.initial)
    first = int(np.flatnonzero(gaps <= eps)[0])
    ends = np.unique(whole.history[0].episode)[first - 1] + 1
    for machines in (1, 7, 64):
        run = concurrent.run(
            mdp, algorithm, 20_000, machines=machines, rule=rule, stop=Stop(policy=eps)
        )
        assert (run.stopped, run.episodes, run.planned) == ("policy", ends, 20_000)
        assert mdp.optimal_value() - mdp.evaluate(run.policy[0]) <= eps
        assert run.regret[0] == pytest.approx(
            ls.exact_regret(mdp, run.history[0], episodes=run.episodes, initial=run.initial),
            rel=1e-12,
        )
        assert run.curves.episodes[-1] == run.episodes
        assert (run.rounds_curve[-1], run.earned_curve[-1]) == (run.rounds, run.earned)


@pytest.mark.parametrize("rule", RULES)
def test_a_run_stops_when_the_mixture_is_good(rule):
    mdp, algorithm, eps = ls.envs.riverswim(states=4, horizon=6), ls.ucb2_bernstein(c=0.02), 0.03
    whole = sequential(mdp, algorithm, 20_000)

    def mixture_gap(episodes):
        history = ls.History(whole.history[0].changes[whole.history[0].episode < episodes])
        return ls.exact_regret(mdp, history, episodes=episodes, initial=whole.initial) / episodes

    for machines in (1, 7, 64):
        run = concurrent.run(
            mdp, algorithm, 20_000, machines=machines, rule=rule, stop=Stop(mixture=eps)
        )
        assert run.stopped == "mixture"
        assert mixture_gap(run.episodes) <= eps < mixture_gap(run.episodes - 1)
        assert mdp.optimal_value() - run.pac_policy(0).evaluate(mdp) <= eps


def test_a_mixture_that_hardly_gets_better_is_not_taken_for_good():
    """Where a gap is a few units in the last place below eps, no integer holds the episodes."""
    mdp, algorithm = ls.envs.riverswim(states=4, horizon=6), ls.ucb2_bernstein(c=0.02)
    whole = sequential(mdp, algorithm, 2000)
    for gap in np.unique(ls.deployment_gaps(mdp, whole.history[0], initial=whole.initial)):
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
        fleet=RoundByRound(),
    )
    assert run.episodes == 0
    assert np.isnan(run.regret).all()
    assert run.to_dict()["steps_per_second"] == 0


@pytest.mark.parametrize("name", ["stage-q", "mvp", "mixture"])
def test_every_family_stops_at_values(name):
    mdp, algorithm, episodes, eps = PROBLEMS["per-step"](), OTHER_LEARNERS[name], 2000, 0.1
    whole = sequential(mdp, algorithm, episodes)
    gaps = ls.deployment_gaps(mdp, whole.history[0], initial=whole.initial)
    ends = np.unique(whole.history[0].episode)[np.flatnonzero(gaps <= eps)[0] - 1] + 1
    regret = [
        ls.exact_regret(mdp, part, episodes=k, initial=whole.initial)
        for k, part in histories(whole.history[0], episodes)
    ]
    mixed = 1 + int(np.flatnonzero(np.array(regret) <= eps * np.arange(1, episodes + 1))[0])
    for rule, machines in product(RULES, (7, 64)):
        asked = {"machines": machines, "rule": rule}
        run = concurrent.run(mdp, algorithm, episodes, **asked, stop=Stop(policy=eps))
        assert (run.stopped, run.episodes) == ("policy", ends)
        run = concurrent.run(mdp, algorithm, episodes, **asked, stop=Stop(mixture=eps))
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
    for fleet in (InProcess(), RoundByRound()):
        run = concurrent.run(
            mdp, ALGORITHMS["ucb2-h"], EPISODES, machines=7, stop=Stop(rounds=30), fleet=fleet
        )
        assert (run.stopped, run.rounds) == ("rounds", 30)
    # one that ends long after its last deployment
    algorithm = ls.q_hoeffding(c=0.05, schedule="grid/geometric/8")
    run = concurrent.run(mdp, algorithm, EPISODES, machines=7, stop=Stop(rounds=80))
    assert run.episodes > run.history[0].episode.max() + 2
    assert run.regret[0] == pytest.approx(
        ls.exact_regret(mdp, run.history[0], episodes=run.episodes, initial=run.initial), rel=1e-12
    )
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
