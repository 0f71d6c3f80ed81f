"""Environments and systems are played as one by one, and what they must not do is named."""

import multiprocessing
import os

import gymnasium
import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS
from exam import MACHINES, RULES, StaysOpen, in_turn, overwrites, same_rounds, sequential, system_of
from lowswitch import concurrent
from lowswitch.concurrent import Gymnasium, InProcess, PlayError, Processes, System
from lowswitch.concurrent.sources import Tabular, episode_seed
from lowswitch.envs.gymnasium import bridge, playing
from lowswitch.kernels.streams import stream_key

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # Short runs warn.


# ---- equality ------------------------------------------------------------------------------------


LAKE, LAKE_EPISODES = {"environment": "FrozenLake-v1", "horizon": 8, "is_slippery": True}, 80


def told_one_by_one(algorithm):
    """The policy history of ask and tell on the lake, seeded as the players seed it."""
    env, parts = gymnasium.make("FrozenLake-v1", is_slippery=True), []
    learner = bridge.learner_for(env, algorithm, horizon=8, episodes=LAKE_EPISODES)
    for k in range(LAKE_EPISODES):
        switch = learner.tell(
            *playing.play_episode(env, learner.policy, seed=episode_seed(stream_key(0), k))
        )
        parts += [] if switch is None else [switch.changes]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def lake_processes():
    kept = StaysOpen(Processes(workers=2), Gymnasium(**LAKE))
    yield kept
    kept.opened.close()


@pytest.mark.parametrize(
    ("name", "turn"), in_turn(["ucb2-h", "ucb2-b", "stage-q", "mvp", "mixture"], range(5))
)
def test_a_gymnasium_environment_is_played_as_one_by_one(lake_processes, name, turn):
    """Every rule with two numbers of machines; over all learners each rule meets all of them."""
    expected = told_one_by_one(ALGORITHMS[name])
    for rule, machines in in_turn([*RULES, *RULES], MACHINES[turn:] + MACHINES[:turn]):
        asked = {"machines": machines, "rule": rule}
        here, there = (
            concurrent.run(Gymnasium(**LAKE), ALGORITHMS[name], LAKE_EPISODES, **asked, fleet=fleet)
            for fleet in (None, lake_processes)
        )
        assert here.history[0].changes.tolist() == expected.tolist()
        same_rounds(here, there)
        assert np.isnan(here.regret).all()
        assert np.isnan(here.optimal_value)


@pytest.mark.parametrize(("problem", "turn"), in_turn(PROBLEMS, range(5)))
def test_a_system_is_played_as_the_tables_behind_it(problem, turn):
    mdp = PROBLEMS[problem]()
    expected = sequential(mdp, ALGORITHMS["ucb2-h"], 300).history[0].changes.tolist()
    for rule, machines in in_turn(RULES, MACHINES[turn:] + MACHINES[:turn]):
        source = system_of(mdp, replayable=rule == "speculate")
        run = concurrent.run(source, ALGORITHMS["ucb2-h"], 300, machines=machines, rule=rule)
        assert run.history[0].changes.tolist() == expected


def test_seeds_of_episodes_stay_what_they_are():
    """A run that is resumed after an update must reset its environments as before."""
    seeds = [episode_seed(stream_key(seed), k) for seed, k in ((0, 0), (0, 1), (7, 4))]
    assert seeds == [6017775124710473527, 1534736266818221247, 983490005218375701]


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


def test_a_play_may_do_what_it_likes_with_its_arguments():
    run = concurrent.run(
        System(overwrites, horizon=3, states=4, actions=3), ALGORITHMS["ucb2-h"], 50, machines=7
    )
    assert run.kept == 50


# ---- what cannot be played -----------------------------------------------------------------------


def test_a_real_system_is_not_speculated_with():
    with pytest.raises(ValueError, match="would bias the data"):
        concurrent.run(
            system_of(PROBLEMS["dense"]()), ALGORITHMS["ucb2-h"], 10, machines=2, rule="speculate"
        )


@pytest.mark.parametrize("bad", [7, gymnasium.make("FrozenLake-v1"), lambda: 5])
def test_what_is_no_environment(bad):
    with pytest.raises(
        ValueError, match="an environment is a registered name|is not a Gymnasium environment"
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
    with pytest.raises(ValueError, match="observations must be Discrete, .*, not Box"):
        Gymnasium("CartPole-v1", horizon=10)
    with pytest.raises(
        ValueError, match="cannot make the environment 'NoLake-v1' with options {}.*doesn't exist"
    ):
        Gymnasium("NoLake-v1", horizon=10)
    with pytest.raises(ValueError, match="truncates after 100 steps"):
        Gymnasium("FrozenLake-v1", horizon=101)
    with pytest.raises(ValueError, match="reward_range must contain 0"):
        Gymnasium("FrozenLake-v1", horizon=10, reward_range=(1.0, 2.0))


def test_play_must_be_a_function_and_sizes_counts():
    with pytest.raises(ValueError, match="play must be a function"):
        System("play", horizon=2, states=3, actions=2)
    with pytest.raises(ValueError, match="states must be a whole number"):
        System(lambda policy, episodes: None, horizon=2, states=0, actions=2)


# ---- what goes wrong while it is played ----------------------------------------------------------


def answers(states, actions, rewards):
    """A play that answers each call with these, repeated to one row for each episode."""
    return lambda policy, episodes: tuple(
        np.array([row] * len(episodes)) for row in (states, actions, rewards)
    )


@pytest.mark.parametrize(
    ("play", "named"),
    [
        (
            lambda policy, episodes: (*np.zeros((2, 1, 2), int), np.zeros((1, 2))),
            "returned 1 trajectories for 5",
        ),
        (
            lambda policy, episodes: (*np.zeros((2, 9, 2), int), np.zeros((9, 2))),
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
            "step 1, machine 0: play took action 1 in state 1, but the policy takes 0",
        ),
        (lambda policy, episodes: 1 / 0, "play raised ZeroDivisionError"),
    ],
)
def test_what_play_must_not_return(play, named):
    source = System(play, horizon=2, states=3, actions=2)
    with pytest.raises(PlayError, match=f"^episode 0, .*{named}"):
        concurrent.run(source, ALGORITHMS["ucb2-h"], 10, machines=5)


def test_a_system_may_raise_its_own_play_error():
    def play(policy, episodes):
        raise PlayError("the pump stopped", int(episodes[3]), 1)

    with pytest.raises(PlayError, match="^episode 3, step 1, machine 3: the pump stopped$"):
        concurrent.run(
            System(play, horizon=2, states=3, actions=2), ALGORITHMS["ucb2-h"], 10, machines=5
        )


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
    assert [len(group) for group in calls[:3]] == [10, 10, 10]  # All members begin alike.
    assert len(calls[3]) < 10


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
                "step 1, machine 0: ValueError: the environment observes 3 at step 1: 3 is"
                r" outside of its observations, Discrete\(3\)"
            ),
        ),
        (-1, 0.0, "observes -1 at step 1"),
        (1.5, 0.0, "observes 1.5 at step 1"),
        (
            1,
            2.0,
            (
                r"step 0, machine 0: the reward 2 lies outside reward_range \(0, 1\); .*at least"
                r" reward_range=\(0, 2\), on the command line --reward-range=0,2"
            ),
        ),
        (1, float("nan"), "step 0, machine 0: the environment paid nan at step 0"),
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


class Brittle(gymnasium.Env):
    """Counts its steps; the fifth episode fails at its third step as long as a file is there."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

    def __init__(self, trap):
        self.trap = trap

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        self.fails = seed == episode_seed(stream_key(0), 4) and os.path.exists(self.trap)
        return 0, {}

    def step(self, action):
        if self.fails and self.state == 2:
            raise RuntimeError("a wire is loose")
        self.state += 1
        return min(self.state, 3), float(self.np_random.random() < 0.5), False, False, {}


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
    assert set(multiprocessing.active_children()) == set(before)


def test_a_range_that_the_tables_say_is_named():
    with pytest.raises(
        PlayError, match=r"which is reward_range=\(-100, 0\), .* --reward-range=-100,0"
    ):
        concurrent.run(
            Gymnasium("CliffWalking-v1", horizon=3),
            ALGORITHMS["ucb2-h"],
            5,
            machines=1,
            progress=False,
        )
