"""Every named problem: its tables by hand, its optimal value by its closed form, its bad sizes."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from lowswitch import TabularMDP, envs

# ---- rivers --------------------------------------------------------------------------------------


def swum(start: int, S: int, H: int, law, last_mean: float, first_mean: float) -> float:
    """V* of a river by plain recursion over its published right-hand law: (first stay, up), (down,
    stay, up), (last down, stay).
    """
    (first_stay, first_up), (down, stay, up), (last_down, last_stay) = law

    @cache
    def value(x: int, h: int) -> float:
        if h == H:
            return 0.0
        drift = (first_mean if x == 0 else 0) + value(max(x - 1, 0), h + 1)
        if x == 0:
            swim = first_stay * value(0, h + 1) + first_up * value(1, h + 1)
        elif x == S - 1:
            swim = last_mean + last_down * value(x - 1, h + 1) + last_stay * value(x, h + 1)
        else:
            swim = down * value(x - 1, h + 1) + stay * value(x, h + 1) + up * value(x + 1, h + 1)
        return max(drift, swim)

    return value(start, 0)


OSBAND = ((0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6))
STREHL = ((0.7, 0.3), (0.1, 0.6, 0.3), (0.7, 0.3))


def test_riverswim_of_three_states_by_hand():
    mdp = envs.riverswim(states=3, horizon=2)
    left, right = mdp.transitions.transpose(1, 0, 2)
    assert left.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    np.testing.assert_allclose(right, [[0.4, 0.6, 0], [0.05, 0.6, 0.35], [0, 0.4, 0.6]], atol=1e-15)
    assert mdp.rewards.tolist() == [[0.005, 0], [0, 0], [0, 1]]
    assert mdp.start_law.tolist() == [1, 0, 0]


def test_the_river_of_strehl_and_littman_by_hand():
    mdp = envs.riverswim_strehl(states=3)
    np.testing.assert_allclose(
        mdp.transitions[:, 1], [[0.7, 0.3, 0], [0.1, 0.6, 0.3], [0, 0.7, 0.3]], atol=1e-15
    )
    assert mdp.rewards.tolist() == [
        [5 / 10_000, 0],
        [0, 0],
        [0, 0.3],
    ]  # 10000 / 10000, paid with probability 0.3
    assert mdp.start_law.tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(("states", "horizon"), [(6, 20), (3, 7), (12, 40), (2, 3)])
def test_riverswims_optimal_value_is_that_of_a_plain_recursion(states, horizon):
    expected = swum(0, states, horizon, OSBAND, last_mean=1, first_mean=0.005)
    assert envs.riverswim(states=states, horizon=horizon).optimal_value() == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize(("states", "horizon"), [(6, 20), (3, 7), (12, 40)])
def test_strehls_optimal_value_is_that_of_a_plain_recursion(states, horizon):
    expected = np.mean(
        [swum(x, states, horizon, STREHL, last_mean=0.3, first_mean=0.0005) for x in (1, 2)]
    )
    assert envs.riverswim_strehl(states=states, horizon=horizon).optimal_value() == pytest.approx(
        expected, rel=1e-12
    )


# ---- chains --------------------------------------------------------------------------------------


def test_the_chain_walks_to_its_end():
    mdp = envs.chain(states=3, horizon=4)
    assert mdp.transitions[:, 0].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert mdp.transitions[:, 1].tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert mdp.rewards.tolist() == [[0, 0], [0, 0], [0, 1]]
    assert mdp.optimal_value() == 2  # right, right, then twice the reward


@pytest.mark.parametrize(("states", "horizon"), [(2, 2), (10, 10), (7, 30)])
def test_the_chains_optimal_value(states, horizon):
    assert envs.chain(states=states, horizon=horizon).optimal_value() == horizon - states + 1


def test_the_stochastic_chain_falls_back():
    right = envs.stochastic_chain(states=4).transitions[:, 1]
    assert right.tolist() == [
        [0.25, 0.75, 0, 0],
        [0.25, 0, 0.75, 0],
        [0, 0.25, 0, 0.75],
        [0, 0, 0.25, 0.75],
    ]


@pytest.mark.parametrize("states", [2, 5, 20])
def test_the_stochastic_chains_optimal_value(states):
    mdp = envs.stochastic_chain(states=states)
    assert mdp.horizon == states
    assert mdp.optimal_value() == pytest.approx((1 - 1 / states) ** (states - 1), rel=1e-12)


def test_rlberrys_chain_by_hand():
    mdp = envs.chain_rlberry(states=3, horizon=2)
    np.testing.assert_allclose(mdp.transitions[:, 0], [[0.9, 0.1, 0], [0.9, 0, 0.1], [0, 0.9, 0.1]])
    np.testing.assert_allclose(mdp.transitions[:, 1], [[0.1, 0.9, 0], [0.1, 0, 0.9], [0, 0.1, 0.9]])
    assert mdp.rewards.tolist() == [[0.05, 0.05], [0, 0], [1, 1]]
    assert mdp.optimal_value() == pytest.approx(
        0.05 + 0.9 * 0.05
    )  # two steps do not reach the end: stay


def test_the_chain_of_bootstrapped_dqn_by_hand():
    mdp = envs.chain_bootdqn(states=3, horizon=3)
    assert mdp.transitions[:, 0].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert mdp.transitions[:, 1].tolist() == [[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]]
    assert mdp.rewards.tolist() == [[0.01, 0], [0, 0], [0, 1]]
    # right, then right again from state 1 (1/2 for 1 at the last step) or left twice from state 0
    assert mdp.optimal_value() == pytest.approx(0.5 * (0.5 * 1 + 0.5 * 0.01) + 0.5 * 0.02)


# ---- deep exploration ----------------------------------------------------------------------------


def right_everywhere(size: int) -> np.ndarray:
    """The policy [H, S] that moves right in every cell, by bsuite's draw of the map."""
    return np.random.RandomState(0).binomial(1, 0.5, (size, size))


@pytest.mark.parametrize("size", [2, 5, 10, 30])
def test_the_deep_sea_is_worth_99_hundredths(size):
    mdp = envs.deep_sea(size=size)
    assert mdp.optimal_value() == pytest.approx(0.99, abs=1e-12)
    assert mdp.evaluate(right_everywhere(size)) == pytest.approx(0.99, abs=1e-12)
    assert mdp.evaluate(1 - right_everywhere(size)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("size", [2, 5, 10, 30])
def test_the_stochastic_deep_sea(size):
    mdp = envs.deep_sea(size=size, stochastic=True)
    q = 1 - 1 / size
    assert mdp.evaluate(right_everywhere(size)) == pytest.approx(
        q ** (size - 1) - 0.01, abs=1e-12
    )  # what bsuite calls optimal
    assert mdp.optimal_value() == pytest.approx(q ** (size - 1) - 0.01 * (1 - q**size), abs=1e-12)


def test_a_deep_sea_of_two_by_hand():
    mdp = envs.deep_sea(size=2, stochastic=True, seed=3)
    mapping = np.random.RandomState(3).binomial(1, 0.5, (2, 2))
    for h in range(2):
        for x in range(2):
            right = mapping[h, x]
            assert mdp.transitions[h, x, 1 - right].tolist() == [1, 0]
            assert mdp.transitions[h, x, right].tolist() == ([0.5, 0.5] if x == 0 else [0, 1])
            units = mdp.rewards[h, x] + mdp.scale.low
            assert units[1 - right] == pytest.approx(0)
            assert units[right] == pytest.approx(x - 0.005)


def test_the_seed_of_the_deep_sea_is_its_map():
    assert not np.array_equal(
        envs.deep_sea(seed=1).optimal_policy, envs.deep_sea(seed=2).optimal_policy
    )


def test_a_combination_lock_by_hand():
    mdp = envs.combination_lock(states=3, actions=2, horizon=4)
    lost = [0, 0.5, 0.5]
    locked = [[lost, [1, 0, 0]], [lost, lost], [lost, lost]]
    frozen = [[[1, 0, 0]] * 2, [[0, 1, 0]] * 2, [[0, 0, 1]] * 2]
    assert mdp.transitions.tolist() == [locked, locked, frozen, frozen]
    pays = [[0, 1], [0, 0], [0, 0]]
    assert mdp.rewards.tolist() == [np.zeros((3, 2)).tolist()] * 2 + [pays] * 2


@pytest.mark.parametrize("horizon", [2, 7, 10])
def test_a_combination_lock_pays_in_its_second_half(horizon):
    mdp = envs.combination_lock(states=4, actions=5, horizon=horizon)
    assert mdp.optimal_value() == -(-horizon // 2)
    assert mdp.evaluate(np.zeros((horizon, 4), dtype=int)) == 0


def test_the_homogeneous_lock_of_the_literature():
    assert envs.homogeneous_lock(length=6, actions=2, horizon=9).optimal_value() == 3


@pytest.mark.parametrize(("length", "horizon"), [(1, 2), (3, 20), (39, 40)])
def test_the_homogeneous_locks_optimal_value(length, horizon):
    mdp = envs.homogeneous_lock(length=length, actions=3, horizon=horizon, seed=5)
    assert mdp.optimal_value() == pytest.approx(max(horizon - length, 0.05 * horizon))


def test_a_homogeneous_lock_by_hand():
    mdp = envs.homogeneous_lock(length=2, actions=2, horizon=3)
    right = mdp.optimal_policy[0]
    for x in (0, 1):
        assert mdp.transitions[x, right[x]].tolist() == np.eye(3)[x + 1].tolist()
        assert mdp.transitions[x, 1 - right[x]].tolist() == [1, 0, 0]
        assert mdp.rewards[x, right[x]] == 0
        assert mdp.rewards[x, 1 - right[x]] == 0.05
    assert mdp.transitions[2].tolist() == [[0, 0, 1]] * 2
    assert mdp.rewards[2].tolist() == [1, 1]


# ---- random problems -----------------------------------------------------------------------------


def test_random_problems_are_stationary_unless_asked():
    shared, per_step = (
        envs.random_mdp(states=4, actions=2, horizon=3),
        envs.random_mdp(states=4, actions=2, horizon=3, per_step=True),
    )
    assert shared.transitions.shape == (4, 2, 4)
    assert shared.rewards.shape == (4, 2)
    assert per_step.transitions.shape == (3, 4, 2, 4)
    assert per_step.rewards.shape == (3, 4, 2)
    assert len(np.unique(per_step.rewards)) == 24
    assert shared.start_law.tolist() == per_step.start_law.tolist() == [0.25] * 4


def test_rows_of_random_problems_are_uniform_on_the_simplex():
    # a coordinate of Dirichlet(1) on 3 points has mean 1/3 and variance 1/18; 4 sigma, false alarm
    # below 1e-4
    table = envs.random_mdp(states=3, actions=4000, horizon=1, seed=1).transitions.reshape(-1, 3)[
        :, 0
    ]
    assert abs(table.mean() - 1 / 3) < 4 * np.sqrt(1 / 18 / len(table))
    assert table.var() == pytest.approx(1 / 18, rel=0.1)


def test_a_garnet_has_so_many_distinct_successors():
    mdp = envs.garnet(states=8, actions=3, branching=5, horizon=4)
    assert (np.diff(mdp.offsets) == 5).all()
    assert ((mdp.transitions > 0).sum(axis=-1) == 5).all()
    np.testing.assert_allclose(mdp.transitions.sum(axis=-1), 1)
    assert mdp.start_law.tolist() == [0.125] * 8


def test_a_garnet_with_one_successor_is_deterministic():
    assert set(envs.garnet(states=5, branching=1).transitions.reshape(-1)) == {0, 1}


@pytest.mark.parametrize(
    "name", ["random-mdp", "garnet", "switching-lower-bound", "homogeneous-lock", "deep-sea"]
)
def test_the_seed_decides_the_instance(name):
    first, again, other = (envs.make(f"{name}:seed={seed}") for seed in (1, 1, 2))
    assert first.rewards.tolist() == again.rewards.tolist()
    assert first.transitions.tolist() == again.transitions.tolist()
    assert first.rewards.tolist() != other.rewards.tolist()


def test_the_lower_bound_counts_the_right_rows():
    mdp = envs.switching_lower_bound(states=4, actions=3, horizon=5, seed=2)
    assert mdp.optimal_value() == pytest.approx(5)
    assert (mdp.transitions == 0.25).all()
    assert mdp.rewards.sum(axis=-1).tolist() == np.ones((5, 4)).tolist()
    policy = np.random.default_rng(0).integers(3, size=(5, 4))
    assert mdp.evaluate(policy) == pytest.approx((policy == mdp.optimal_policy).sum() / 4)
    assert mdp.rewards[np.arange(5)[:, None], np.arange(4), mdp.optimal_policy].all()


# ---- the door ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", envs.PROBLEMS)
def test_every_problem_is_a_documented_function_with_defaults(name):
    assert isinstance(envs.make(name), TabularMDP)
    assert envs.PROBLEMS[name].__doc__
    assert getattr(envs, name.replace("-", "_")) is envs.PROBLEMS[name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("riverswim:states=1", "states must be a whole number from 2 to 2,147,483,646, not 1"),
        ("riverswim:states=6.5", "states must be a whole number"),
        ("riverswim:horizon=0", "horizon must be a whole number"),
        ("riverswim:reward_law=gaussian", "reward_law must be"),
        ("riverswim-strehl:states=2", "states must be a whole number from 3 "),
        ("chain:states=1", "states must be a whole number from 2 "),
        (
            "chain:states=20",
            (
                "horizon must be at least states = 20 to reach the reward, not 10; pass horizon=20"
                " or more"
            ),
        ),
        ("stochastic-chain:states=1", "states must be a whole number from 2 "),
        ("chain-rlberry:states=1", "states must be a whole number from 2 "),
        ("chain-rlberry:fail=1.5", "fail must be a probability from 0 to 1, not 1.5"),
        ("chain-rlberry:fail=nan", "fail must be a probability"),
        ("chain-bootdqn:states=0", "states must be a whole number"),
        ("deep-sea:size=1", "size must be a whole number from 2 "),
        ("deep-sea:stochastic=yes", "stochastic must be True or False, not 'yes'"),
        ("deep-sea:seed=-1", "seed must be a whole number"),
        ("combination-lock:states=1", "states must be a whole number from 2 "),
        ("combination-lock:actions=1", "actions must be a whole number from 2 "),
        ("combination-lock:horizon=1", "horizon must be a whole number from 2 "),
        ("homogeneous-lock:length=0", "length must be a whole number"),
        ("homogeneous-lock:actions=1", "actions must be a whole number from 2 "),
        (
            "homogeneous-lock:length=9",
            "horizon must be above length = 9 for the lock to pay, not 9; pass horizon=10 or more",
        ),
        (
            "garnet:states=5,branching=6",
            "branching must be at most states = 5, not 6; pass branching=5 or less",
        ),
        ("garnet:branching=0", "branching must be a whole number"),
        ("random-mdp:actions=0", "actions must be a whole number"),
        ("random-mdp:per_step=1", "per_step must be True or False, not 1"),
        ("random-mdp:seed=x", "seed must be a whole number"),
        ("switching-lower-bound:actions=1", "actions must be a whole number from 2 "),
        ("switching-lower-bound:states=0", "states must be a whole number"),
        ("riverswimm", "unknown problem 'riverswimm'; did you mean 'riverswim'\\?"),
        ("riverswim:state=6", "riverswim has no option 'state'; did you mean 'states'\\?"),
        ("riverswim:6", "not of the form key=value"),
    ],
)
def test_bad_sizes_and_names_say_the_way_out(text, message):
    with pytest.raises(ValueError, match=message):
        envs.make(text)


def test_a_text_makes_what_the_function_makes():
    made, called = (
        envs.make("riverswim:states=7,horizon=9,reward_law=bernoulli"),
        envs.riverswim(states=7, horizon=9),
    )
    assert (made.states, made.horizon, made.reward_law) == (7, 9, "bernoulli")
    assert made.transitions.tolist() == called.transitions.tolist()


def test_importing_the_problems_imports_nothing_heavy():
    code = (
        "import sys, lowswitch.envs; print([name for name in ('numba', 'scipy', 'gymnasium',"
        " 'matplotlib') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


@pytest.mark.parametrize("text", ["riverswim:states=100000,horizon=5", "deep-sea:size=200"])
def test_large_problems_are_built_sparse(text):
    mdp = envs.make(text)
    assert mdp.name == text
    assert len(mdp.successors) < 5 * len(mdp.offsets)
    assert mdp.optimal_value() == pytest.approx(0.025 if "river" in text else 0.99)


def test_problems_have_the_name_that_makes_them():
    assert envs.riverswim().name == "riverswim"
    mdp = envs.deep_sea(size=3, stochastic=True)
    assert mdp.name == "deep-sea:size=3,stochastic=true"
    assert envs.make(mdp.name).name == mdp.name


def test_a_problem_from_a_file(tmp_path):
    laws, rewards = np.full((2, 2, 2), 0.5), np.array([[0.0, 0.5], [1.0, 0.25]])
    path, whole = tmp_path / "plant.npz", {"transitions": laws, "rewards": rewards}
    np.savez(path, **whole, horizon=3, start=np.array([0.5, 0.5]), reward_law="bernoulli")
    mdp = envs.from_file(path)
    assert (mdp.name, mdp.horizon, mdp.reward_law) == ("plant", 3, "bernoulli")
    assert mdp.optimal_value() == pytest.approx(3 * 0.75)
    assert envs.from_file(path, horizon=2).horizon == 2
    for arrays, message in (
        (whole, "does not say how many steps"),
        ({"rewards": rewards}, "has no transitions"),
        (whole | {"reward": rewards}, "has 'reward', which does not belong there"),
        (whole | {"rewards": 5 * rewards, "horizon": 2}, r"lie in \[0, 5\] .* --reward-range"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message):
            envs.from_file(path)
