"""The bridge to Gymnasium: tables against a plain recursion over P, problems as environments,
learners on environments.
"""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import lowswitch as ls
from lowswitch import TabularMDP, envs
from lowswitch.envs.gymnasium import from_gymnasium, learn, learner_for, play_episode
from lowswitch.envs.gymnasium.spaces import numbering_of
from lowswitch.envs.gymnasium.tabular_env import TabularEnv, problem_env

ALGORITHM = ls.ucb2_bernstein(c=0.005)


# ---- tables of an environment --------------------------------------------------------------------


def optimum(env, horizon: int) -> float:
    """V*_1 by backward induction over P itself: nothing is earned after a terminated transition."""
    env = env.unwrapped

    @cache
    def value(x: int, h: int) -> float:
        if h == horizon:
            return 0.0
        return max(
            sum(
                p * (reward + (0.0 if terminated else value(int(y), h + 1)))
                for p, y, reward, terminated in outcomes
            )
            for outcomes in env.P[x].values()
        )

    return sum(p * value(x, 0) for x, p in enumerate(env.initial_state_distrib) if p > 0)


@pytest.mark.parametrize(
    ("name", "options", "horizon"),
    [
        ("FrozenLake-v1", {}, 20),
        ("FrozenLake-v1", {"is_slippery": False}, 6),
        ("FrozenLake8x8-v1", {}, 40),
        ("CliffWalking-v1", {}, 20),
        ("CliffWalking-v1", {}, 5),
        ("CliffWalkingSlippery-v1", {}, 30),
        ("Taxi-v4", {}, 15),
        ("Taxi-v4", {"is_rainy": True}, 15),
    ],
)
def test_optimal_values_are_those_of_the_published_tables(name, options, horizon):
    env = gymnasium.make(name, **options)
    mdp = from_gymnasium(env, horizon=horizon)
    assert mdp.optimal_value() == pytest.approx(optimum(env, horizon), rel=1e-9)
    assert mdp.states == env.observation_space.n + 1
    assert mdp.start_law[-1] == 0


def test_values_are_in_the_environments_units():
    cliff = from_gymnasium(gymnasium.make("CliffWalking-v1"), horizon=30)
    assert (cliff.scale.low, cliff.scale.high) == (-100, 0)
    assert cliff.optimal_value() == pytest.approx(
        -13
    )  # the shortest way has 13 steps, and nothing is paid after it
    lake = from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False), horizon=6)
    assert (lake.scale.low, lake.scale.high) == (0, 1)
    assert lake.optimal_value() == 1


class Listed(gymnasium.Env):
    """Tables in which a successor is listed twice, with rewards by successor, states from 10 and
    actions from 3.
    """

    observation_space = gymnasium.spaces.Discrete(2, start=10)
    action_space = gymnasium.spaces.Discrete(1, start=3)
    initial_state_distrib = np.array([0.25, 0.75])
    P: ClassVar = {
        10: {
            3: [
                (0.25, 11, 4.0, False),
                (0.5, 11, -2.0, False),
                (0.25, 10, 0.0, True),
                (0.0, 10, 1e9, False),
            ]
        },
        11: {3: [(1.0, 11, 1.0, True)]},
    }


def test_successors_add_up_and_rewards_are_expected():
    mdp = from_gymnasium(Listed(), horizon=2)
    assert mdp.successors.tolist() == [1, 2, 2, 2]
    assert mdp.probabilities.tolist() == [0.75, 0.25, 1, 1]
    assert (mdp.rewards * 6 - 2).tolist() == pytest.approx(
        np.array([[0.25 * 4 - 0.5 * 2], [1], [0]])
    )
    assert mdp.start_law.tolist() == [0.25, 0.75, 0]
    assert mdp.optimal_value() == pytest.approx(0.25 * (0.75 * 1) + 0.75 * 1)


def test_the_state_after_the_end_allows_one_action():
    mdp = from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=5)
    assert mdp.actions_allowed[0].sum(axis=-1).tolist() == [4] * 16 + [1]


def test_large_tables_stay_sparse():
    assert len(from_gymnasium(gymnasium.make("Taxi-v4"), horizon=10).successors) == 501 * 6


class Untabled(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)


class Startless(Untabled):
    P: ClassVar = {x: {a: [(1.0, x, 0.0, False)] for a in range(2)} for x in range(2)}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Untabled(), "has no tables P; let a learner play it instead"),
        (Startless(), "does not say where it starts; set env.unwrapped.initial_state_distrib"),
    ],
)
def test_environments_without_tables_are_refused(env, message):
    with pytest.raises(ValueError, match=message):
        from_gymnasium(env, horizon=3)


class Continuous(Untabled):
    action_space = gymnasium.spaces.Box(-1, 1)


@pytest.mark.parametrize(
    "use",
    [
        lambda env: from_gymnasium(env, horizon=3),
        lambda env: learn(env, ALGORITHM, horizon=3, episodes=2),
    ],
)
def test_other_spaces_are_refused(use):
    with pytest.raises(
        ValueError, match=r"observations must be Discrete, .*, not Box.*; give learn features="
    ):
        use(gymnasium.make("CartPole-v1"))
    # continuous actions are named first, because no other way of observing would help
    for env in (Continuous(), gymnasium.make("Pendulum-v1")):
        with pytest.raises(
            ValueError, match=r"the actions are continuous, Box.*DiscretizeAction\(env, bins=5\)"
        ):
            use(env)


def test_the_wrapper_that_continuous_actions_are_told_of_does_it():
    cut = gymnasium.wrappers.DiscretizeAction(Continuous(), bins=5)
    assert learner_for(cut, ALGORITHM, horizon=2, episodes=1).actions == 5


def test_a_vector_environment_has_no_tables_and_plays_no_single_episode():
    vector = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(ValueError, match="pass a single environment"):
        from_gymnasium(vector, horizon=3)
    with pytest.raises(ValueError, match="pass a single environment"):
        play_episode(vector, np.zeros((3, 17), dtype=int))
    vector.close()


class Flip(gymnasium.ActionWrapper):
    def action(self, action):
        return 3 - action


@pytest.mark.parametrize(
    "wrap",
    [
        Flip,
        lambda env: gymnasium.wrappers.TransformReward(env, lambda reward: 5 * reward),
        lambda env: gymnasium.wrappers.TransformObservation(
            env, lambda x: 15 - x, env.observation_space
        ),
        lambda env: gymnasium.wrappers.TimeLimit(Flip(env), 9),
        lambda env: type("Mine", (gymnasium.wrappers.TimeLimit,), {})(env, 9),
    ],
)
def test_tables_of_what_a_wrapper_makes_another_problem_of_are_refused(wrap):
    env = wrap(lake())
    name = "Mine" if "Mine" in str(env) else "Flip|TransformReward|TransformObservation"
    with pytest.raises(
        ValueError, match=rf"the wrapper ({name}) may change observations.*env.unwrapped"
    ):
        from_gymnasium(env, horizon=6)
    assert from_gymnasium(env.unwrapped, horizon=6).optimal_value() == 1


def test_wrappers_that_change_nothing_keep_the_tables():
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(lake(), 50))
    assert from_gymnasium(env, horizon=6).optimal_value() == 1


# ---- a problem as an environment -----------------------------------------------------------------

REGISTERED = sorted(name for name in gymnasium.registry if name.startswith("lowswitch/"))


def test_every_named_problem_is_registered():
    assert len(REGISTERED) == len(envs.PROBLEMS)
    assert {gymnasium.spec(name).kwargs["problem"] for name in REGISTERED} == set(envs.PROBLEMS)
    assert {"lowswitch/Riverswim-v0", "lowswitch/DeepSea-v0"} < set(REGISTERED)


@pytest.mark.parametrize("name", REGISTERED)
def test_gymnasiums_own_exam(name):
    check_env(gymnasium.make(name).unwrapped)


def test_options_reach_the_problem():
    env = gymnasium.make("lowswitch.envs.gymnasium:lowswitch/Riverswim-v0", states=9, horizon=3)
    assert env.observation_space.n == 9
    with pytest.raises(ValueError, match="states must be a whole number from 2 "):
        gymnasium.make("lowswitch/Riverswim-v0", states=1)


def returns(env, policy: np.ndarray, seed: int) -> float:
    """Play a policy [H, S] to the end of an episode."""
    state, info = env.reset(seed=seed)
    total, truncated = 0.0, False
    while not truncated:
        state, reward, terminated, truncated, info = env.step(policy[info["step"], state])
        assert terminated is False
        total += reward
    assert info["step"] == len(policy)
    return total


@pytest.mark.parametrize("name", ["deep-sea", "combination-lock", "homogeneous-lock", "chain"])
def test_the_optimal_policy_earns_the_optimal_value(name):
    env = problem_env(name)
    assert returns(env, env.mdp.optimal_policy, seed=1) == pytest.approx(env.mdp.optimal_value())


@pytest.mark.parametrize(
    "name",
    [
        "riverswim-strehl",
        "random-mdp:per_step=true,reward_law=bernoulli",
        "deep-sea:size=4,stochastic=true",
    ],
)
def test_returns_have_the_exact_value_as_their_mean(name):
    # 1,000 episodes, 4.5 standard errors: a false alarm in 1e5
    mdp = envs.make(name)
    env = TabularEnv(mdp)
    sample = [returns(env, mdp.optimal_policy, seed) for seed in range(1000)]
    assert abs(np.mean(sample) - mdp.optimal_value()) < 4.5 * np.std(sample) / math.sqrt(
        len(sample)
    )


def test_steps_follow_the_tables():
    # each frequency of 2,000 draws within 4.5 standard errors; 8 comparisons, a false alarm in 1e4
    mdp = envs.random_mdp(states=4, seed=3)
    env = TabularEnv(mdp)
    pairs = np.array(
        [(env.reset(seed=None if draw else 7)[0], env.step(1)[0]) for draw in range(2000)]
    )
    first, second = (np.bincount(column, minlength=4) / len(pairs) for column in pairs.T)
    rows = np.stack(
        [mdp.probabilities[mdp.offsets[x * 3 + 1] : mdp.offsets[x * 3 + 2]] for x in range(4)]
    )
    for frequency, law in ((first, np.full(4, 0.25)), (second, rows.mean(axis=0))):
        assert (np.abs(frequency - law) < 4.5 * np.sqrt(law * (1 - law) / len(pairs))).all()


def test_a_forbidden_action_is_an_error_that_names_the_allowed_ones():
    mdp = TabularMDP(
        np.ones((1, 3, 1)), np.zeros((1, 3)), horizon=2, actions_allowed=[[True, False, True]]
    )
    env = TabularEnv(mdp)
    env.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"action 1 is not allowed at step 0 in state 0; choose among \[0, 2\]"
    ):
        env.step(1)
    with pytest.raises(ValueError, match=r"action 3 is not allowed"):
        env.step(3)


def test_a_step_needs_an_episode():
    env = TabularEnv(envs.chain(states=2, horizon=2))
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset first"):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[3] is True
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_a_start_sequence_is_followed_to_its_end():
    env = TabularEnv(
        TabularMDP(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), start=[2, 0, 1], horizon=2)
    )
    assert [env.reset(seed=seed)[0] for seed in (5, None, None)] == [2, 0, 1]
    with pytest.raises(ValueError, match="the start sequence ends after 3 episodes; lengthen it"):
        env.reset()
    assert env.reset(seed=6)[0] == 2


# ---- a learner on an environment -----------------------------------------------------------------


def lake():
    return gymnasium.make("FrozenLake-v1", is_slippery=False)


def test_a_learner_learns_the_lake():
    H, K = 8, 1500
    played = learn(lake(), ALGORITHM, horizon=H, episodes=K)
    mdp = from_gymnasium(lake(), horizon=H)
    assert played.returns[:100].mean() < 0.5
    assert played.returns[-500:].mean() > 0.95
    # the lake is deterministic, so the exact regret of the history is the shortfall of the returns
    initial = np.zeros((H, 17), dtype=int)
    assert ls.exact_regret(mdp, played.history, episodes=K, initial=initial) == pytest.approx(
        K - played.returns.sum()
    )


def test_learning_is_telling_what_was_played():
    H, K, S = 10, 60, 48
    played = learn(
        gymnasium.make("CliffWalking-v1", max_episode_steps=50),
        ALGORITHM,
        horizon=H,
        episodes=K,
        seed=3,
        reward_range=(-100, 0),
    )
    env = gymnasium.make("CliffWalking-v1")
    allowed = np.ones((S + 1, 4), dtype=bool)
    allowed[S, 1:] = False
    learner = ls.Learner(
        ALGORITHM, horizon=H, states=S + 1, actions=4, episodes=K, actions_allowed=allowed
    )
    changes = []
    for k in range(K):
        x, _ = env.reset(seed=3 if k == 0 else None)
        states, actions, rewards, over = [], [], [], False
        for h in range(H):
            states.append(S if over else x)
            actions.append(learner.policy[h, states[-1]])
            reward = 0
            if not over:
                x, reward, over, _, _ = env.step(actions[-1])
            rewards.append((reward + 100) / 100)
        switch = learner.tell(states, actions, rewards)
        changes += [] if switch is None else switch.changes.tolist()
        assert played.returns[k] == pytest.approx(100 * sum(rewards) - 100 * H)
    np.testing.assert_array_equal(played.learner.policy, learner.policy)
    np.testing.assert_array_equal(played.learner.q, learner.q)
    assert played.history.changes.tolist() == changes


def test_an_episode_that_ends_early_stays_in_the_extra_state_unpaid():
    policy = np.full((6, 17), 1)  # down, down, ... and into the hole at state 12
    episode = play_episode(lake(), policy, seed=0)
    assert episode.states.tolist() == [0, 4, 8, 16, 16, 16]
    assert episode.actions.tolist() == [1] * 6
    assert episode.rewards.tolist() == [0] * 6


def test_states_and_actions_may_be_numbered_from_elsewhere():
    class Shifted(Untabled):
        observation_space = gymnasium.spaces.Discrete(3, start=5)
        action_space = gymnasium.spaces.Discrete(2, start=-1)

        def reset(self, *, seed=None, options=None):
            self.place = 5
            return 5, {}

        def step(self, action):
            assert action in (-1, 0)
            self.place += action + 1
            return self.place, 1.0, self.place == 7, False, {}

    episode = play_episode(Shifted(), np.array([[1] * 4] * 3))
    assert episode.states.tolist() == [0, 1, 3]
    assert episode.rewards.tolist() == [1, 1, 0]


def test_a_driven_learner_can_be_saved_and_goes_on(tmp_path):
    env, K = lake(), 40
    straight = learn(lake(), ALGORITHM, horizon=8, episodes=K)
    learner = learner_for(env, ALGORITHM, horizon=8, episodes=K)
    for k in range(K):
        if k == 20:
            learner.save(tmp_path / "learner.npz")
            learner = ls.Learner.load(tmp_path / "learner.npz")
        learner.tell(*play_episode(env, learner.policy, seed=0 if k == 0 else None))
    np.testing.assert_array_equal(learner.q, straight.learner.q)


def test_no_switch_is_counted_after_the_end():
    played = learn(lake(), ALGORITHM, horizon=8, episodes=200)
    assert repr(played).startswith("EnvironmentRun(Learner(")
    assert "200 returns from 0 to " in repr(played)
    assert len(played.history) > 0
    assert played.history.state.max() < 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"horizon": 101},
            (
                "the environment truncates after 100 steps, before the horizon 101; ask for"
                " horizon=100 or less, or make it with"
            ),
        ),
        (
            {"reward_range": (0.5, 1)},
            (
                "reward_range must contain 0, which the steps after termination pay, not \\[0.5,"
                " 1\\]; widen it"
            ),
        ),
        ({"reward_range": (0, 0)}, "low < high"),
        ({"episodes": 0}, "episodes must be a whole number"),
        ({"horizon": 0}, "horizon must be a whole number"),
    ],
)
def test_what_cannot_be_learned_says_why(options, message):
    with pytest.raises(ValueError, match=message):
        learn(lake(), ALGORITHM, **({"horizon": 6, "episodes": 400} | options))


def test_a_truncated_episode_is_no_data():
    env = gymnasium.wrappers.TimeLimit(
        gymnasium.make("CliffWalking-v1").unwrapped, max_episode_steps=4
    )
    assert len(play_episode(env, np.zeros((4, 49), dtype=int)).rewards) == 4
    with pytest.raises(
        ValueError,
        match=(
            "truncated the episode after 4 steps, before the horizon 5; ask for horizon=4 or less"
        ),
    ):
        play_episode(env, np.zeros((5, 49), dtype=int))


def test_a_policy_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"has the shape \[H, S \+ 1\] = \[H, 17\], not \(6, 16\)"):
        play_episode(lake(), np.zeros((6, 16), dtype=int))


def test_a_bonus_that_drowns_everything_is_said():
    with pytest.warns(ls.BonusWarning, match="use c between 0.01 and 0.1"):
        learn(lake(), ls.ucb2_hoeffding(), horizon=6, episodes=20)


def test_progress_is_drawn_when_asked(capsys):
    learn(lake(), ALGORITHM, horizon=8, episodes=3, progress=True)
    assert "steps/s" in capsys.readouterr().err


# ---- spaces of several parts ---------------------------------------------------------------------

PARTS = gymnasium.spaces.Tuple(
    (
        gymnasium.spaces.Discrete(3, start=5),
        gymnasium.spaces.MultiDiscrete([[2, 3]], start=[[1, 0]]),
        gymnasium.spaces.MultiBinary(2),
    )
)


def test_the_last_part_of_an_element_counts_fastest():
    numbering = numbering_of(PARTS, "observations")
    assert numbering.size == 3 * 2 * 3 * 2 * 2
    first = (5, np.array([[1, 0]]), np.array([0, 0]))
    assert numbering.number(first) == 0
    assert numbering.number((5, np.array([[1, 0]]), np.array([0, 1]))) == 1
    assert numbering.number((5, np.array([[1, 2]]), np.array([1, 0]))) == 2 * 4 + 2
    assert numbering.number((7, np.array([[2, 2]]), np.array([1, 1]))) == 71


def test_numbers_and_elements_go_both_ways():
    numbering = numbering_of(PARTS, "actions")
    for number in range(numbering.size):
        element = numbering.element(number)
        assert PARTS.contains(element)
        assert numbering.number(element) == number


@pytest.mark.parametrize(
    "element", [(8, np.array([[1, 0]]), np.array([0, 0])), (5, np.array([[1, 0]])), 5, None, 5.0]
)
def test_what_is_outside_of_a_space_has_no_number(element):
    with pytest.raises(ValueError, match="is outside of its observations"):
        numbering_of(PARTS, "observations").number(element)


def test_blackjack_is_learned():
    # the learner's mean of the last 1,500 rounds, against -0.05 of the best play and -0.4 of
    # play at random; its standard error is 0.025
    played = learn(
        "Blackjack-v1",
        ls.psrl(members=2, schedule="whole/2/10", deployments=8, last="greedy"),
        horizon=10,
        episodes=3_000,
        seed=1,
        reward_range=(-1, 1),
    )
    assert played.learner.states == 32 * 11 * 2 + 1
    assert played.returns[-1_500:].mean() > -0.2
    assert played.learner.deployments <= 8


def test_a_mixture_plays_an_environment_and_the_seed_is_its_own():
    mixture = ls.psrl(members=3, schedule="growth/2")
    some, same, other = (
        learn("FrozenLake-v1", mixture, horizon=8, episodes=30, seed=seed) for seed in (1, 1, 2)
    )
    assert some.history.changes.shape[1] == 3 + 3
    assert some.learner.seed == 1
    assert np.array_equal(some.history.changes, same.history.changes)
    assert not np.array_equal(some.history.changes, other.history.changes)


def test_a_reward_outside_of_the_range_names_the_range():
    way_out = r"paid -1 at step 0, outside of reward_range=\(0, 1\); .*tables.*=\(-100, 0\)"
    with pytest.raises(ValueError, match=way_out):
        learn("CliffWalking-v1", ALGORITHM, horizon=2, episodes=1)
    way_out = r"it is at least reward_range=\(-1, 1\), and the page of the environment"
    with pytest.raises(ValueError, match=way_out):
        learn("Blackjack-v1", ALGORITHM, horizon=9, episodes=99)
    cliff = gymnasium.make("CliffWalking-v1")
    dear = gymnasium.wrappers.TransformReward(cliff, lambda reward: -200.0)
    way_out = r"paid -200 .* 0 included: it is at least reward_range=\(-200, 0\)"
    with pytest.raises(ValueError, match=way_out):
        learn(dear, ALGORITHM, horizon=2, episodes=1, reward_range=(-100, 0))


def test_a_missing_horizon_is_asked_for_by_name():
    with pytest.raises(ValueError, match=r"as in horizon=100; .* and the horizon is 100 at most"):
        learn("FrozenLake-v1", ALGORITHM, episodes=9)
    with pytest.raises(ValueError, match="ends an episode after 100 steps, its tables do not"):
        ls.from_gymnasium("FrozenLake-v1")
    assert from_gymnasium("FrozenLake-v1", horizon=200).horizon == 200
    with pytest.raises(
        ValueError, match="env must be a Gymnasium environment or its name, not True"
    ):
        from_gymnasium(True)
    with pytest.raises(ValueError, match=r"horizon=20; the environment has no TimeLimit"):
        from_gymnasium("CliffWalking-v1")


def test_a_name_is_made_and_an_unknown_one_is_refused():
    assert from_gymnasium("FrozenLake-v1", horizon=4, is_slippery=False).states == 17
    with pytest.raises(ValueError, match="makes no environment of 'FrozenPond-v1'"):
        from_gymnasium("FrozenPond-v1", horizon=4)
    with pytest.raises(ValueError, match="is_slippery would be given to gymnasium.make"):
        from_gymnasium(lake(), horizon=4, is_slippery=False)
    text = "FrozenLake-v1:is_slippery=false"
    for played in (
        learn(text, ALGORITHM, horizon=4, episodes=1),
        learn("FrozenLake-v1", ALGORITHM, horizon=4, episodes=1, is_slippery=False),
    ):
        assert played.learner.states == 17
    assert from_gymnasium(text, horizon=4).probabilities.tolist() == [1.0] * 17 * 4


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("FrozenLake-v1", {"slippery": False}, "no option 'slippery'; did you mean 'is_slippery'"),
        ("FrozenLake-v1:slippery=false", {}, "no option 'slippery'; did you mean 'is_slippery'"),
        ("FrozenLake-v1:slippery", {}, "is not of the form key=value; write FrozenLake-v1:key="),
        ("no.module:FrozenLake-v1", {}, "there is no module 'no.module'"),
        ("FrozenLake-v1:map_name=9x9", {}, r"with the options {'map_name': '9x9'} \(KeyError"),
        ("FrozenLake-v1:is_slippery=false", {"is_slippery": True}, "'is_slippery' twice"),
        ("lowswitch/Riverswim-v0", {"stats": 3}, "unexpected keyword argument 'stats'"),
    ],
)
def test_an_option_that_an_environment_does_not_have_is_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        from_gymnasium(name, horizon=4, **options)
    with pytest.raises(ValueError, match=message):
        learn(name, ALGORITHM, horizon=4, episodes=1, **options)


def test_learning_nothing_is_said_where_there_are_tables():
    says = "nothing was learned: the final policy earns 0 per episode, .*; give it more episodes, "
    with pytest.warns(ls.NothingLearnedWarning, match=f"{says}more deployments, or take another"):
        learn(lake(), ls.psrl(deployments=1, schedule="growth/2"), horizon=6, episodes=1)
    with pytest.warns(ls.NothingLearnedWarning, match=f"{says}a smaller c, or take another"):
        learn(lake(), ALGORITHM, horizon=6, episodes=1)


def test_little_that_was_learned_is_said_where_there_are_tables():
    """On the cliff a single action earns -20, and few stays there; the shortest way earns -13."""
    says = (
        "little was learned: the final policy earns -20 per episode, a single action -20, an optim"
    )
    cliff = from_gymnasium("CliffWalking-v1", horizon=20)
    assert cliff.constant_value() == pytest.approx(-20)
    says = says.replace("the final policy", "the final policy of most runs")
    with pytest.warns(ls.NothingLearnedWarning, match=says):
        ls.simulate(cliff, ls.few(deployments=10), episodes=1_000, seeds=2, progress=False)


@pytest.mark.filterwarnings("error::lowswitch.NothingLearnedWarning")
def test_nothing_is_said_where_a_single_action_is_as_good_as_optimal():
    river = envs.riverswim(states=6, horizon=20)
    assert 0.99 * river.optimal_value() < river.constant_value() < river.optimal_value()
    runs = ls.simulate(river, ls.ucb2_bernstein(c=0.05), episodes=20_000, seeds=2, progress=False)
    assert runs.first_value < runs.last_value.max() < river.constant_value()


@pytest.mark.parametrize(
    ("options", "horizon"), [({}, 5), ({"map_name": "8x8"}, 8), ({"is_slippery": False}, 5)]
)
def test_a_horizon_in_which_nothing_can_be_earned_is_said(options, horizon):
    with pytest.warns(
        ls.NothingLearnedWarning,
        match=f"no policy earns more than another in {horizon} steps, all earn 0, .*longer horizon",
    ):
        learn("FrozenLake-v1", ALGORITHM, horizon=horizon, episodes=3, **options)


@pytest.mark.filterwarnings("error::lowswitch.NothingLearnedWarning")
def test_nothing_is_said_where_the_tables_are_not_what_is_paid():
    other = gymnasium.wrappers.TransformReward(lake(), lambda reward: 1 - reward)
    learn(other, ALGORITHM, horizon=6, episodes=1)


class Spoiled(Untabled):
    """Pays as its list says, episode by episode."""

    def __init__(self, paid):
        self.paid, self.episode = paid, -1

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        return 0, {}

    def step(self, action):
        return 0, self.paid[self.episode], False, False, {}


@pytest.mark.parametrize(
    ("paid", "says"),
    [
        ([0.25] * 20, "nothing was learned: all 20 episodes earned 0.25, .*; give it more episod"),
        (
            [1.0] * 20 + [0.5] * 160 + [0.0, 0.5] * 10,
            r"ended below where it began: the last 20 episodes earned 0.25 on .*, the first 20 1;",
        ),
    ],
)
def test_a_run_without_tables_is_judged_by_its_returns(paid, says):
    with pytest.warns(ls.NothingLearnedWarning, match=says) as caught:
        learn(Spoiled(paid), ALGORITHM, horizon=1, episodes=len(paid))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.filterwarnings("error::lowswitch.NothingLearnedWarning")
@pytest.mark.parametrize(
    "paid",
    [
        [0.25] * 19,  # too few
        [0.0] * 20 + [0.5] * 160 + [0.0, 0.5] * 10,  # it rose
        [0.0, 1.0] * 90 + [0.0, 0.0, 1.0, 0.0] * 5,  # it may be chance
    ],
)
def test_nothing_is_said_of_returns_that_show_nothing(paid):
    learn(Spoiled(paid), ALGORITHM, horizon=1, episodes=len(paid))


@pytest.mark.filterwarnings("error::lowswitch.NothingLearnedWarning")
def test_equal_returns_of_a_learner_that_goes_on_may_be_the_best_there_are():
    paid = [0.0, *([1.0] * 30)]
    env = Spoiled(paid)
    learner = learner_for(env, ALGORITHM, horizon=1, episodes=len(paid))
    learn(env, learner, episodes=1)
    learn(env, learner, episodes=30)


def test_tables_are_of_single_numbers():
    with pytest.raises(ValueError, match="has observations of several parts"):
        from_gymnasium("Blackjack-v1", horizon=4)


# ---- what an environment or a call has wrong -----------------------------------------------------


class Wrong(Untabled):
    """Pays or answers as it is told to."""

    def __init__(self, *, first=(0, {}), answer=(0, 0.0, False, False, {}), paid=None):
        self.first, self.answer, self.paid, self.steps = first, answer, paid, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.first

    def step(self, action):
        self.steps += 1
        if self.paid is not None and self.steps == 4:
            return 0, self.paid[0], False, False, {}
        return self.answer


class Seedless(Wrong):
    def reset(self):
        return 0, {}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Wrong(paid=[math.nan]), "paid nan at step 3; a reward is a finite number"),
        (Wrong(paid=[None]), "paid None at step 3"),
        (Wrong(paid=["1"]), "paid '1' at step 3"),
        (Wrong(answer=(0, 0.0, False, {})), "must return five values .*, not 4; .*check_env"),
        (Wrong(first=0), "reset of the environment must return two values .*check_env"),
        (Seedless(), "reset of the environment must take seed= .*check_env"),
        (
            Wrong(answer=(0, 0.0, False, True, {})),
            "after 1 steps, before the horizon 6; ask for horizon=1 or less, or let it go on for",
        ),
    ],
)
def test_what_an_environment_does_wrong_is_said(env, message):
    with pytest.raises(ValueError, match=message):
        learn(env, ALGORITHM, horizon=6, episodes=2)


class Fitted:
    """What `learn` returns, as far as a wrong order of arguments shows."""

    learner = ls.Learner(ALGORITHM, horizon=2, states=17, actions=4, episodes=1)


class VecEnv:
    """Looks like a vector environment of Stable-Baselines3."""

    num_envs = 2

    def step_async(self, actions): ...

    def step(self, actions): ...


class Vast(Untabled):
    observation_space = gymnasium.spaces.MultiDiscrete([100] * 6)


class Written(Untabled):
    observation_space = gymnasium.spaces.Text(5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learn(ALGORITHM, "FrozenLake-v1", horizon=2, episodes=1), "environment comes fi"),
        (lambda: learn(object(), ALGORITHM, horizon=2, episodes=1), "must be a Gymnasium environm"),
        (
            lambda: learn(lake(), ALGORITHM, horizon=2, episodes=1, callback=print),
            "learn has no option 'callback'; did you mean 'callbacks'",
        ),
        (
            lambda: learn("FrozenLake-v1", ALGORITHM, horizon=2, episodes=1, total_timesteps=9),
            "learn has no option 'total_timesteps'; did you mean 'episodes'",
        ),
        (
            lambda: envs.gymnasium.evaluate_policy(lake(), None, n_eval_episodes=9),
            "evaluate_policy has no option 'n_eval_episodes'; did you mean 'episodes'",
        ),
        (lambda: learn(lake(), ALGORITHM, horizn=2, episodes=1), "did you mean 'horizon'"),
        (
            lambda: learn("FrozenLake-v1", ALGORITHM, horizon=2, episodes=1, gamma=0.9),
            "learn has no option 'gamma': returns are sums over the horizon, without a discount",
        ),
        (
            lambda: envs.gymnasium.evaluate_policy(lake(), None, deterministic=True),
            "evaluate_policy has no option 'deterministic': a deployed policy plays no random",
        ),
        (lambda: learn(Wrong, ALGORITHM, horizon=2, episodes=1), r"a class: make one with Wrong\("),
        (
            lambda: envs.gymnasium.evaluate_policy(Fitted(), lake()),
            "the environment comes first",
        ),
        (
            lambda: learn(VecEnv(), ALGORITHM, horizon=2, episodes=1),
            "of Stable-Baselines3; make one of Gymnasium with gymnasium.make_vec",
        ),
        (
            lambda: learn(
                "lowswitch.envs.gymnasium:lowswitch/Riverswim-v0",
                ALGORITHM,
                horizon=30,
                episodes=1,
            ),
            "after 20 steps, before the horizon 30; .*, or let it go on for longer",
        ),
        (
            lambda: learn(Vast(), ALGORITHM, horizon=2, episodes=1),
            r"tables of 1,000,000,000,000 observations and \d actions .* wrap the environment",
        ),
        (
            lambda: learn(Written(), ALGORITHM, horizon=2, episodes=1),
            r"not Text\(.*; wrap the environment in one that numbers its observations$",
        ),
    ],
)
def test_what_a_call_has_wrong_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_environment_need_not_derive_from_gymnasiums():
    class Plain:
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 2.0 * action, False, False, {}

    run = learn(Plain(), ALGORITHM, horizon=2, episodes=3, reward_range=(0, 2))
    assert run.problem == "Plain"
    with pytest.raises(ValueError, match=r"paid 2 at step 0, .* at least reward_range=\(0, 2\)"):
        learn(Plain(), ls.rmax(known=1), horizon=2, episodes=9)
    with pytest.raises(ValueError, match="horizon is missing: .* has no TimeLimit"):
        learn(Plain(), ALGORITHM, episodes=3)


def test_the_wrapper_that_is_proposed_works():
    with pytest.raises(ValueError, match="Box") as refused:
        learn("CartPole-v1", ALGORITHM, horizon=2, episodes=1)
    assert "DiscretizeObservation" not in str(refused.value)
    with pytest.raises(ValueError, match="DiscretizeObservation") as refused:
        learn("MountainCar-v0", ALGORITHM, horizon=2, episodes=1)
    cut = gymnasium.wrappers.DiscretizeObservation(gymnasium.make("MountainCar-v0"), bins=10)
    assert learn(cut, ALGORITHM, horizon=2, episodes=1, reward_range=(-1, 0)).returns.tolist() == [
        -2
    ]


def test_names_and_learners_are_taken_everywhere():
    learner = learner_for("FrozenLake-v1", ALGORITHM, horizon=3, episodes=2, is_slippery=False)
    episode = play_episode("FrozenLake-v1", learner, seed=0, is_slippery=False)
    assert episode.states.tolist() == [0, 0, 0]
    learner.tell(*episode)
    mdp = from_gymnasium("FrozenLake-v1", horizon=3)
    assert mdp.evaluate(learner) == mdp.evaluate(learner.mixture)


def test_a_mixture_is_evaluated_as_a_whole():
    run = learn(lake(), ls.few(deployments=2), horizon=6, episodes=9)
    mdp = from_gymnasium(lake(), horizon=6)
    assert mdp.evaluate(run) == mdp.evaluate(run.learner) == mdp.evaluate(run.learner.mixture)
