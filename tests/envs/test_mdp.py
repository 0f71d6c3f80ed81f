import math

import numpy as np
import pytest
from scipy import sparse

import lowswitch as ls
from conftest import random_tables


def backward_induction(transitions, rewards, horizon, choose):
    """Values [H + 1, S] from dense tables [H, S, A, S] and [H, S, A], written without the
    library.
    """
    values = np.zeros((horizon + 1, transitions.shape[1]))
    for h in reversed(range(horizon)):
        q = rewards[h] + np.einsum("xay,y->xa", transitions[h], values[h + 1])
        values[h] = choose(h, q)
    return values


def per_step(table, horizon, stationary_ndim):
    return (
        np.broadcast_to(table, (horizon, *table.shape)) if table.ndim == stationary_ndim else table
    )


@pytest.mark.parametrize(
    ("transition_steps", "reward_steps"), [((), ()), ((4,), (4,)), ((4,), ()), ((), (4,))]
)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_values_against_an_independent_computation(transition_steps, reward_steps, form):
    transitions, _ = random_tables(5, 3, 1, *transition_steps)
    _, rewards = random_tables(5, 3, 2, *reward_steps)
    law = np.random.default_rng(3).dirichlet(np.ones(5))
    given = sparse.csr_array(transitions.reshape(-1, 5)) if form == "sparse" else transitions
    mdp = ls.TabularMDP(given, rewards, horizon=4, start=law)
    np.testing.assert_array_equal(mdp.transitions, transitions)
    P, r = per_step(transitions, 4, 3), per_step(rewards, 4, 2)
    optimal = backward_induction(P, r, 4, lambda h, q: q.max(axis=1))
    np.testing.assert_allclose(mdp.optimal_values, optimal, rtol=1e-13)
    assert mdp.optimal_value() == pytest.approx(law @ optimal[0], rel=1e-13)
    policy = np.random.default_rng(4).integers(0, 3, (4, 5))
    values = backward_induction(P, r, 4, lambda h, q: q[np.arange(5), policy[h]])
    np.testing.assert_allclose(mdp.policy_values(policy), values, rtol=1e-13)
    assert mdp.evaluate(policy) == pytest.approx(law @ values[0], rel=1e-13)
    assert mdp.evaluate(mdp.optimal_policy) == mdp.optimal_value()


def test_rewards_that_can_be_read_in_two_ways_are_named(tmp_path):
    """H = S = A = 2 and action 0 stays where it is; the reward of (x, 0, x) is 0.25 and 0.75."""
    transitions = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    rewards = np.zeros((2, 2, 2))
    rewards[0, 0, 0], rewards[1, 0, 1] = 0.25, 0.75
    message = r"rewards of shape \(2, 2, 2\) are read as \[H, S, A\]; if they are \[S, A, S\]"
    with pytest.warns(UserWarning, match=message) as caught:
        by_step = ls.TabularMDP(transitions, rewards, horizon=2)
    assert caught[0].filename == __file__
    # from state 0: 0.25 in step 0, then 0 in state 0; as [H, S, A], rewards[1, 0, 1] pays action 1
    assert by_step.optimal_value() == 0.25 + 0.75
    given = np.broadcast_to(rewards, (2, 2, 2, 2))
    assert ls.TabularMDP(transitions, given, horizon=2).optimal_value() == 0.25 + 0.25
    by_law = ls.TabularMDP(np.broadcast_to(transitions, (2, 2, 2, 2)), rewards, horizon=2)
    assert by_law.optimal_value() == by_step.optimal_value()  # clear, and so without a warning
    np.savez(tmp_path / "two.npz", transitions=transitions, rewards=rewards, horizon=2)
    with pytest.warns(UserWarning, match=message):
        ls.envs.from_file(tmp_path / "two.npz")
    ls.envs.switching_lower_bound(states=2, actions=2, horizon=2)  # the library knows its own


def test_a_stationary_model_is_not_copied_for_each_step():
    transitions, rewards = random_tables(5, 3, 1)
    mdp = ls.TabularMDP(transitions, rewards, horizon=1000)
    assert len(mdp.probabilities) == 5 * 3 * 5
    assert mdp.model.outflow.size <= 5 * 3 * 8
    assert mdp.model.rewards.size == 15


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        (((), ()), "horizon=4, stationary, "),
        (((4,), (4,)), "horizon=4, per-step, "),
        (((), (4,)), "horizon=4, stationary transitions, per-step rewards, "),
        (((4,), ()), "horizon=4, per-step transitions, stationary rewards, "),
    ],
)
def test_a_problem_says_what_differs_by_step(steps, kind):
    tables = (random_tables(3, 2, 0, *count)[i] for i, count in enumerate(steps))
    assert kind in repr(ls.TabularMDP(*tables, horizon=4))


def test_forbidden_actions_do_not_count():
    transitions = np.ones((1, 2, 1))
    mdp = ls.TabularMDP(
        transitions, [[0.25, 1.0]], horizon=3, actions_allowed=np.array([[True, False]])
    )
    assert mdp.optimal_value() == 0.75
    assert mdp.optimal_policy.tolist() == [[0], [0], [0]]


def test_a_start_sequence_is_valued_by_its_frequencies():
    mdp = ls.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]], horizon=1, start=[0, 1, 1, 1])
    assert mdp.optimal_value() == 0.75


def test_the_tables_are_copied_at_the_door():
    transitions, rewards = random_tables(3, 2, 1)
    mdp = ls.TabularMDP(transitions, rewards, horizon=2)
    before = mdp.evaluate(np.zeros((2, 3), dtype=int))
    transitions[:], rewards[:] = 0, 0
    assert mdp.evaluate(np.zeros((2, 3), dtype=int)) == before


def test_rescaled_values_come_back_in_the_users_units():
    transitions, unit = random_tables(4, 2, 5)
    plain = ls.TabularMDP(transitions, unit, horizon=3)
    mdp = ls.TabularMDP(transitions, ls.rescale(unit * 12 - 5, low=-5, high=7), horizon=3)
    assert mdp.optimal_value() == pytest.approx(12 * plain.optimal_value() - 5 * 3)
    np.testing.assert_allclose(mdp.optimal_values[1], 12 * plain.optimal_values[1] - 5 * 2)
    assert ls.rescale([[-1.0, 3.0]]).rewards.tolist() == [[0.0, 1.0]]
    runs = [
        ls.simulate(problem, ls.ucb2_hoeffding(c=0.1), episodes=500, seeds=2)
        for problem in (plain, mdp)
    ]
    np.testing.assert_allclose(runs[1].regret, 12 * runs[0].regret, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda P, r: (P * 0.99, r), r"must sum to 1, not 0.99 \(state 0, action 0\)"),
        (
            lambda P, r: (np.where(P[1, 0, 2] == P, -0.5, P), r),
            r"at least 0, not -0.5 \(state 1, action 0\)",
        ),
        (
            lambda P, r: (np.where(P[2, 1, 0] == P, np.nan, P), r),
            r"at least 0, not nan \(state 2, action 1\)",
        ),
        (lambda P, r: (P[:, :, :2], r), r"transitions must have shape .* not \(3, 2, 2\)"),
        (lambda P, r: (P[:2], r), r"to agree with the rewards, not \(2, 2, 3\)"),
        (lambda P, r: (P, r + 1), r"rewards must lie in \[0, 1\].*rescale"),
        (
            lambda P, r: (P, r * np.nan),
            r"rewards must lie in .*are NaN \(not a number\), .* \[0, 0",
        ),
        (lambda P, r: (P, r[0]), r"rewards must have shape"),
        (lambda P, r: (P, np.zeros((5, 3, 2))), r"\[H, S, A\] with H = 2, .* not \(5, 3, 2\)"),
        (
            lambda P, r: (sparse.csr_array(P.reshape(6, 3)[:5]), r),
            r"sparse transitions must have one row for each",
        ),
        (lambda P, r: (sparse.csr_array(P.reshape(6, 3) * 2), r), r"must sum to 1, not 2"),
    ],
)
def test_bad_tables_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ls.TabularMDP(*change(*random_tables(3, 2, 1)), horizon=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 3}, "start states must be 0 to 2, not 3 to 3"),
        ({"start": -1}, "start states must be 0 to 2, not -1"),
        ({"start": [0, 1, 7]}, "start states must be 0 to 2, not 0 to 7"),
        ({"start": [0.5, 0.5]}, "3 probabilities"),
        ({"start": [0.5, 0.5, 0.5]}, "sum to 1, not from 0.5 with sum 1.5"),
        ({"start": [0.5, 0.5, math.nan]}, "a start law"),
        ({"start": "here"}, "start must be a state"),
        ({"horizon": 0}, "horizon must be a whole number from 1"),
        ({"horizon": 2.5}, "horizon must be a whole number from 1 to .*, not 2.5"),
        ({"reward_law": "gaussian"}, "reward_law must be .* not 'gaussian'"),
        ({"actions_allowed": np.zeros((3, 2), dtype=bool)}, r"no action is allowed in .*\(0,\)"),
        (
            {"actions_allowed": np.ones((3, 3), dtype=bool)},
            "actions_allowed must be booleans of shape",
        ),
        ({"actions_allowed": np.ones((3, 2))}, "not float64"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ls.TabularMDP(*random_tables(3, 2, 1), **({"horizon": 2} | options))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((2, 2), dtype=int), r"\[H, S\] = \(2, 3\), not int64 of \(2, 2\)"),
        (np.zeros((2, 3)), "not float64"),
        (np.full((2, 3), 2), "0 to 1, not 2 to 2"),
        (np.full((2, 3), -1), "0 to 1, not -1"),
    ],
)
def test_bad_policies_are_refused(policy, message):
    with pytest.raises(ValueError, match=message):
        ls.TabularMDP(*random_tables(3, 2, 1), horizon=2).evaluate(policy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, 5.0]], 0, 4), r"\[0, 4\], not \[0, 5\]"),
        (([[1.0, 1.0]], None, None), "finite low < high"),
        (([[math.nan, 1.0]], 0, 1), "finite numbers"),
    ],
)
def test_bad_ranges_are_refused(arguments, message):
    rewards, low, high = arguments
    with pytest.raises(ValueError, match=message):
        ls.rescale(rewards, low=low, high=high)


@pytest.mark.parametrize(
    ("transition_steps", "reward_steps"), [((), ()), ((4,), (4,)), ((4,), ()), ((), (4,))]
)
def test_optimal_q(transition_steps, reward_steps):
    transitions, _ = random_tables(5, 3, 1, *transition_steps)
    _, rewards = random_tables(5, 3, 2, *reward_steps)
    mdp = ls.TabularMDP(transitions, ls.rescale(rewards, low=-1, high=1), horizon=4)
    P, r = per_step(transitions, 4, 3), per_step(rewards, 4, 2)
    expected = np.stack(
        [r[h] + np.einsum("xay,y->xa", P[h], mdp.optimal_values[h + 1]) for h in range(4)]
    )
    np.testing.assert_allclose(mdp.optimal_q, expected, rtol=1e-12)
    np.testing.assert_allclose(mdp.optimal_q.max(axis=-1), mdp.optimal_values[:4], rtol=1e-12)


# ---- what is earned without learning -------------------------------------------------------------


def test_uniform_play_by_hand():
    # two states, two actions; action 1 moves to state 1, which pays 1 for action 0
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1.0
    mdp = ls.TabularMDP(transitions, [[0.0, 0.0], [1.0, 0.0]], horizon=2)
    # step 1 pays 0.5 in state 1; step 0 leads there half of the time
    assert mdp.uniform_values.tolist() == [[0.25, 0.75], [0.0, 0.5], [0.0, 0.0]]
    assert mdp.uniform_value() == 0.25
    only = ls.TabularMDP(
        transitions, [[0.0, 0.0], [1.0, 0.0]], horizon=2, actions_allowed=ONLY_FIRST
    )
    assert only.uniform_value() == 0.5


ONLY_FIRST = [[[False, True], [False, True]], [[True, True], [True, True]]]


def test_a_mixture_is_worth_the_mean_of_its_members(mdp):
    if len(mdp.start_sequence):
        pytest.skip("a start sequence has no law")
    lowest, best = mdp.actions_allowed.argmax(axis=-1), mdp.optimal_policy
    mixture = np.stack([lowest, best, best])
    mean = (mdp.evaluate(lowest) + 2 * mdp.optimal_value()) / 3
    assert mdp.evaluate(mixture) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("sparsely", [False, True])
@pytest.mark.parametrize("law_steps", [(), (3,)])
@pytest.mark.parametrize("reward_steps", [(), (3,)])
def test_rewards_that_depend_on_the_next_state_count_by_their_mean(
    sparsely, law_steps, reward_steps
):
    H, S, A = 3, 4, 2
    laws, _ = random_tables(S, A, 1, *law_steps)
    paid = np.random.default_rng(2).random((*reward_steps, S, A, S))
    given = sparse.csr_array(laws.reshape(-1, S)) if sparsely else laws
    mdp = ls.TabularMDP(given, ls.rescale(20 * paid, low=0, high=20), horizon=H)
    by_hand = [
        [
            [
                sum(
                    np.broadcast_to(laws, (H, S, A, S))[h, x, a, y]
                    * np.broadcast_to(paid, (H, S, A, S))[h, x, a, y]
                    for y in range(S)
                )
                for a in range(A)
            ]
            for x in range(S)
        ]
        for h in range(H)
    ]
    np.testing.assert_allclose(np.broadcast_to(mdp.rewards, (H, S, A)), by_hand, rtol=1e-14)
    assert (mdp.states, mdp.actions) == (S, A)


def test_three_axes_are_steps_wherever_they_can_be():
    """[H, S, A] = [2, 3, 2] looks like [S, A, S] of two states, but the transitions have three."""
    laws, rewards = random_tables(3, 2, 1)[0], random_tables(3, 2, 2, 2)[1]
    assert (ls.TabularMDP(laws, rewards, horizon=2).rewards == rewards).all()
    laws, rewards = random_tables(2, 2, 1)[0], random_tables(2, 2, 2, 2)[1]
    with pytest.warns(UserWarning, match=r"are read as \[H, S, A\]"):
        assert (ls.TabularMDP(laws, rewards, horizon=2).rewards == rewards).all()
