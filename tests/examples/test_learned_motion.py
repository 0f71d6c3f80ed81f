"""The example of a learned motion: its grid, its regression, its plan, and CartPole."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the extra gymnasium installs it")
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples"))
import cartpole  # noqa: E402
from learned_motion import (  # noqa: E402
    Episode,
    Grid,
    Motion,
    Problem,
    fit,
    interpolation,
    iterate_values,
    leave_one_out,
)

# ---- the grid ------------------------------------------------------------------------------------


def grid(bounds, points, **options):
    return Grid(np.array(bounds, dtype=float), points, **options)


def test_interpolation_by_hand():
    """On points 0, 1, 2 by 0, 10 the state (0.5, 2.5) has weights 3/8, 1/8, 3/8, 1/8."""
    made = grid([(0, 2), (0, 10)], (3, 2))
    assert made.nodes().tolist() == [[0, 0], [0, 10], [1, 0], [1, 10], [2, 0], [2, 10]]
    index, weight = made.corners(np.array([[0.5, 2.5]]))
    assert index.tolist() == [[0, 1, 2, 3]]
    assert weight[0] == pytest.approx([3 / 8, 1 / 8, 3 / 8, 1 / 8])


def test_interpolation_takes_states_outside_at_the_edge_and_wraps_angles():
    line = grid([(0, 2)], (3,))
    table = interpolation(line, np.array([[-5.0], [7.0]]), np.array([True, True])).toarray()
    assert table.tolist() == [[1, 0, 0], [0, 0, 1]]
    angle = grid([(0, 4)], (4,), angles=(0,))
    assert angle.nodes()[:, 0].tolist() == [0, 1, 2, 3]
    table = interpolation(angle, np.array([[3.5], [-0.5]]), np.array([True, True])).toarray()
    assert table.tolist() == [[0.5, 0, 0, 0.5], [0.5, 0, 0, 0.5]]


def test_what_is_linear_is_interpolated_exactly():
    made = grid([(-1, 1), (0, 3), (2, 5), (-4, 4)], (3, 4, 2, 5))
    generator = np.random.default_rng(0)
    low, high = made.bounds.T
    states = low + generator.random((50, 4)) * (high - low)
    slope = generator.normal(size=4)
    table = interpolation(made, states, np.ones(50, dtype=bool))
    assert table @ (made.nodes() @ slope) == pytest.approx(states @ slope)


def test_value_iteration_by_hand():
    """Two points: stay and be paid 1, or go and be paid 0; discount 1/2. V = (2, 1)."""
    rewards = np.array([[1.0, 0.0], [0.0, 0.0]])
    ahead = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    q = iterate_values(rewards, ahead, discount=0.5, tolerance=1e-12)
    assert q == pytest.approx(np.array([[2.0, 0.5], [0.5, 1.0]]))


# ---- the motion ----------------------------------------------------------------------------------


def test_leaving_one_out_is_what_it_says():
    """The errors by the hat matrix are those of fitting without each sample in turn."""
    generator = np.random.default_rng(1)
    rows, targets = generator.normal(size=(12, 3)), generator.normal(size=(12, 2))
    weights, error = leave_one_out(rows, targets)
    for column in range(2):
        candidates = []
        for penalty in 12 * 10.0 ** np.arange(-9, 3):
            squares = []
            for i in range(12):
                left = np.delete(np.arange(12), i)
                precision = rows[left].T @ rows[left] + penalty * np.eye(3)
                theta = np.linalg.solve(precision, rows[left].T @ targets[left, column])
                squares.append((targets[i, column] - rows[i] @ theta) ** 2)
            candidates.append((np.mean(squares), penalty))
        best, penalty = min(candidates)
        assert error[column] == pytest.approx(np.sqrt(best))
        precision = rows.T @ rows + penalty * np.eye(3)
        theta = np.linalg.solve(precision, rows.T @ targets[:, column])
        assert weights[:, column] == pytest.approx(theta)


def test_leaving_one_out_shrinks_more_where_there_is_more_noise():
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(40, 30))
    truth = rows[:, :1]
    quiet = leave_one_out(rows, truth + 1e-3 * generator.normal(size=(40, 1)))[0]
    noisy = truth + 3.0 * generator.normal(size=(40, 1))
    loud, plain = leave_one_out(rows, noisy)[0], np.linalg.lstsq(rows, noisy)[0]
    assert np.abs(loud).sum() < 0.6 * np.abs(plain).sum()
    assert quiet[0, 0] == pytest.approx(1, abs=0.02)


def slide(**options):
    """A point on a line that actions push left, not at all, or right; it should stay near 0."""
    known = {
        "reward": lambda states, action, nexts: 2 - np.abs(nexts[:, 0]),
        "ends": lambda nexts: np.abs(nexts[:, 0]) > 2,
        "grid": grid([(-2, 2)], (41,)),
        "actions": 3,
    }
    return Problem(**known | options)


def pushed(state, action):
    return state + 0.3 * (action - 1) + 0.1 * np.sin(state)


def at_random(episodes, noise=0.0):
    """Episodes of at most 20 random actions on the line."""
    generator, told = np.random.default_rng(3), []
    for _ in range(episodes):
        states, actions = [generator.uniform(-1, 1)], []
        while len(actions) < 20 and abs(states[-1]) <= 2:
            actions.append(int(generator.integers(3)))
            states.append(pushed(states[-1], actions[-1]) + noise * generator.normal())
        told.append(Episode(np.array(states)[:, None], np.array(actions), 0.0))
    return told


def test_the_motion_is_learned_and_the_policy_is_the_right_one():
    policy = fit(slide(), at_random(8)).plan()
    places = (-1.5, -0.6, 0.0, 0.6, 1.5)
    assert [policy.act(np.array([place])) for place in places] == [2, 2, 1, 0, 0]


def test_an_action_that_was_hardly_tried_is_named():
    told = [Episode(np.zeros((4, 1)), np.array([0, 0, 1]), 0.0)]
    with pytest.raises(ValueError, match="was tried 1 times, too rarely to learn its effect"):
        fit(slide(), told)


def test_a_plan_keeps_away_from_an_edge_over_which_noise_pushes():
    """A reward near the edge at 2: a quiet model goes there, a noisy one stays further away."""
    known = {"reward": lambda states, action, nexts: nexts[:, 0], "discount": 0.9}
    places = {}
    for noise in (0.0, 0.25):
        policy, state = fit(slide(**known), at_random(15, noise)).plan(), 0.0
        for _ in range(40):
            state = pushed(state, policy.act(np.array([state])))
        places[noise] = state
    assert places[0.25] < places[0.0] - 0.1


@pytest.mark.parametrize("noisy", [0, 1])
def test_a_plan_where_only_one_action_is_noisy(noisy):
    """Two dimensions, discount 1/1000: a value is the mean reward over four points sqrt(2) errors
    away, by hand, of an action that stays in place; what ends is worth its reward alone.
    """
    problem = Problem(
        reward=lambda states, action, nexts: nexts[:, 0] ** 2 + 10 * action * nexts[:, 1],
        ends=lambda nexts: nexts[:, 0] > -9,  # always
        grid=grid([(-2, 2), (-1, 1)], (3, 3)),
        actions=2,
        discount=0.001,
    )
    errors = np.zeros((2, 2))
    errors[noisy] = [0.5, 0.25]
    nodes = problem.grid.nodes()
    policy = Motion(problem, np.zeros((2, 153, 2)), errors).plan()
    for a in range(2):
        wide = 2 * errors[a, 0] ** 2 / 2  # (x +- sqrt(2) e)^2 in half of the points
        assert policy.q[a] == pytest.approx(nodes[:, 0] ** 2 + wide + 10 * a * nodes[:, 1])


def test_an_angle_moves_the_short_way_round():
    """A wheel that turns by 0.1 is learned across the end of its circle."""
    wheel = Problem(
        reward=lambda states, action, nexts: np.ones(len(states)),
        ends=lambda nexts: np.zeros(len(nexts), dtype=bool),
        grid=grid([(-np.pi, np.pi)], (8,), angles=(0,)),
        actions=1,
    )
    turned = (np.arange(200) * 0.1 + np.pi) % (2 * np.pi) - np.pi
    motion = fit(wheel, [Episode(turned[:, None], np.zeros(199, dtype=int), 0.0)])
    assert motion.predict(np.array([[3.1], [0.0]]), 0)[:, 0] == pytest.approx([3.2, 0.1], abs=1e-3)


# ---- CartPole ------------------------------------------------------------------------------------


def test_the_example_prints_what_its_page_shows(capsys):
    """Seed 0: the pole falls soon at random, and stays up for 500 steps after each deployment."""
    cartpole.main([])
    page = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    shown = page.partition("python examples/cartpole.py\n```\n")[2]
    assert shown.startswith(f"```text\n{capsys.readouterr().out}```\n")
