"""Control with a learned motion that is planned on a grid."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.features import DynamicsLearner, GridPolicy
from lowswitch.features.control import UniformPolicy
from lowswitch.features.grid import Axes, interpolation, iterate
from lowswitch.features.motion import Motion, leave_one_out

gymnasium = pytest.importorskip("gymnasium", reason="the extra gymnasium installs it")
from lowswitch.envs.gymnasium import control  # noqa: E402

# ---- the grid ------------------------------------------------------------------------------------


def test_interpolation_by_hand():
    """On points 0, 1, 2 by 0, 10 the state (0.5, 2.5) has weights 3/8, 1/8, 3/8, 1/8."""
    axes = Axes.of([(0, 2), (0, 10)], (3, 2))
    assert axes.nodes().tolist() == [[0, 0], [0, 10], [1, 0], [1, 10], [2, 0], [2, 10]]
    index, weight = axes.corners(np.array([[0.5, 2.5]]))
    assert index.tolist() == [[0, 1, 2, 3]]
    assert weight[0] == pytest.approx([3 / 8, 1 / 8, 3 / 8, 1 / 8])


def test_interpolation_takes_states_outside_at_the_edge_and_wraps_angles():
    axes = Axes.of([(0, 2)], 3)
    table = interpolation(axes, np.array([[-5.0], [7.0]]), np.array([True, True])).toarray()
    assert table.tolist() == [[1, 0, 0], [0, 0, 1]]
    angle = Axes.of([(0.0, 4.0)], 4, [True])
    assert angle.nodes()[:, 0].tolist() == [0, 1, 2, 3]
    table = interpolation(angle, np.array([[3.5], [-0.5]]), np.array([True, True])).toarray()
    assert table.tolist() == [[0.5, 0, 0, 0.5], [0.5, 0, 0, 0.5]]


def test_what_is_linear_is_interpolated_exactly():
    axes = Axes.of([(-1, 1), (0, 3), (2, 5), (-4, 4)], (3, 4, 2, 5))
    generator = np.random.default_rng(0)
    states = axes.low + generator.random((50, 4)) * (axes.high - axes.low)
    slope = generator.normal(size=4)
    table = interpolation(axes, states, np.ones(50, dtype=bool))
    assert table @ (axes.nodes() @ slope) == pytest.approx(states @ slope)


def test_value_iteration_by_hand():
    """Two points: stay and be paid 1, or go and be paid 0; discount 1/2. V = (2, 1)."""
    rewards = np.array([[1.0, 0.0], [0.0, 0.0]])
    ahead = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    q = iterate(rewards, ahead, discount=0.5, sweeps=100, tolerance=1e-12)
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
        "bounds": [(-2, 2)],
        "actions": 3,
        "points": 41,
        "features": 20,
    }
    return ls.dynamics(**known | options)


def play(learner, generator, steps=20, noise=0.0):
    state, states, actions = generator.uniform(-1, 1), [], []
    states.append([state])
    for h in range(steps):
        action = learner.act([state], h).action
        state = state + 0.3 * (action - 1) + 0.1 * np.sin(state) + noise * generator.normal()
        states.append([state])
        actions.append(action)
        if abs(state) > 2:
            break
    return states, actions


def test_the_motion_is_learned_and_the_policy_is_the_right_one(tmp_path):
    learner, generator = (
        DynamicsLearner(slide(), episodes=12, deployments=2),
        np.random.default_rng(0),
    )
    deployed = [k for k in range(12) if learner.tell(*play(learner, generator))]
    assert (deployed, learner.deployments) == ([3, 7], 2)
    policy = learner.policy
    assert [policy.act([x]).action for x in (-1.5, -0.6, 0.0, 0.6, 1.5)] == [2, 2, 1, 0, 0]
    policy.save(tmp_path / "policy.npz")
    back = GridPolicy.load(tmp_path / "policy.npz")
    assert back.identity == policy.identity
    states = np.linspace(-2, 2, 50)[:, None]
    assert back.difference(policy, states) == 0


def test_a_learner_of_the_motion_resumes_to_the_bit(tmp_path):
    straight = DynamicsLearner(slide(), episodes=8, deployments=2, seed=4)
    generator = np.random.default_rng(1)
    told = []
    for _ in range(8):
        told.append(play(straight, generator))
        straight.tell(*told[-1])
    resumed = DynamicsLearner(slide(), episodes=8, deployments=2, seed=4)
    for episode in told:
        resumed.tell(*episode)
        resumed.save(tmp_path / "learner.npz")
        resumed = DynamicsLearner.load(tmp_path / "learner.npz", slide())
    assert resumed.policy.identity == straight.policy.identity
    assert (resumed.told, resumed.deployments) == (8, 2)


def test_a_learner_of_the_motion_without_dates_is_loaded(tmp_path):
    DynamicsLearner(slide(), episodes=1, deployments=1).save(tmp_path / "learner.npz")
    assert DynamicsLearner.load(tmp_path / "learner.npz", slide()).dates == ()


@pytest.mark.parametrize("episode", [np.int64(2**50), np.uint64(7), np.int32(2**20)])
def test_the_first_policy_takes_numbers_of_numpy(episode):
    policy = UniformPolicy(5, seed=1)
    assert policy.act(None, episode, np.int32(3)) == policy.act(None, int(episode), 3)


def test_a_plan_keeps_away_from_an_edge_over_which_noise_pushes():
    """A reward near the edge at 2: a quiet model goes there, a noisy one stays further away."""
    known = {"reward": lambda states, action, nexts: nexts[:, 0], "discount": 0.9}
    places = {}
    for noise in (0.0, 0.25):
        learner = DynamicsLearner(slide(**known), episodes=30, deployments=1)
        generator = np.random.default_rng(3)
        for _ in range(30):
            learner.tell(*play(learner, generator, noise=noise))
        state = 0.0
        for _ in range(40):
            state += 0.3 * (learner.policy.act([state]).action - 1) + 0.1 * np.sin(state)
        places[noise] = state
    assert places[0.25] < places[0.0] - 0.1


@pytest.mark.parametrize("noisy", [0, 1])
def test_a_plan_where_only_one_action_is_noisy(noisy):
    """Two dimensions, discount 1/1000: a value is the mean reward over four points sqrt(2) errors
    away, by hand, of an action that stays in place; what ends is worth its reward alone.
    """
    known = ls.dynamics(
        reward=lambda states, action, nexts: nexts[:, 0] ** 2 + 10 * action * nexts[:, 1],
        ends=lambda nexts: nexts[:, 0] > -9,  # always
        bounds=[(-2, 2), (-1, 1)],
        actions=2,
        points=3,
        features=0,
        discount=0.001,
    )
    errors = np.zeros((2, 2))
    errors[noisy] = [0.5, 0.25]
    nodes = known.axes.nodes()
    policy = Motion(known, np.zeros((2, 3, 2)), errors).plan()
    for a in range(2):
        wide = 2 * errors[a, 0] ** 2 / 2  # (x +- sqrt(2) e)^2 in half of the points
        assert policy.q[a] == pytest.approx(nodes[:, 0] ** 2 + wide + 10 * a * nodes[:, 1])


def test_control_of_cart_pole():
    """Seed 0, 12 episodes and one deployment: the last policy balances for all 500 steps."""
    high = np.array([2.4, 3.0, 0.2095, 3.5])
    known = ls.dynamics(
        reward=lambda states, action, nexts: np.ones(len(states)),
        ends=lambda nexts: (np.abs(nexts[:, 0]) > 2.4) | (np.abs(nexts[:, 2]) > 0.2095),
        bounds=np.column_stack([-high, high]),
        actions=2,
        points=(5, 7, 9, 9),
    )
    learner = DynamicsLearner(known, episodes=12, deployments_at=(10,))
    found = control("CartPole-v1", learner, progress=False)
    assert found.returns[:10].max() < 200
    assert found.returns[10:].tolist() == [500, 500]
    assert (found.lengths == found.returns).all()


def played(env, **options):
    learner = DynamicsLearner(slide(**options), episodes=2, deployments=1)
    return control(env, learner, progress=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: slide(bounds=[(0, 1)] * 5), "one to 4 numbers of a state"),
        (lambda: slide(bounds=[(0, 1), (1, 0)]), r"those of number 1 are \(1, 0\); for a speed"),
        (lambda: slide(bounds=[(-np.inf, 1)]), "number 0 are .-inf, 1"),
        (lambda: played("CartPole-v1"), r"of 3 actions, and the environment has 2; .*actions=2"),
        (lambda: played("MountainCar-v0"), "of 1 numbers, and a state is 2; give bounds"),
        (
            lambda: control("CartPole-v1", ls.few(deployments=2)),
            "a DynamicsLearner, .*not Algorithm.*learn_features",
        ),
        (lambda: slide(points=1), "points must be a whole number from 2"),
        (lambda: slide(reward=3), "reward and ends must be functions"),
        (lambda: slide(discount=1), "discount must lie strictly between 0 and 1"),
        (lambda: DynamicsLearner(slide(), episodes=9), "give deployments=N, or the dates"),
        (lambda: DynamicsLearner(3, episodes=9, deployments=1), "made by ls.dynamics"),
        (
            lambda: DynamicsLearner(
                slide(),
                episodes=9,
                deployments=1,
                initial=GridPolicy(slide(points=9).axes, np.zeros((3, 9))),
            ),
            "on the grid of the dynamics",
        ),
        (
            lambda: DynamicsLearner(slide(), episodes=9, deployments=1).tell(0.0, 1),
            "T . 1 states of 1 numbers and T actions",
        ),
        (
            lambda: DynamicsLearner(slide(), episodes=9, deployments=1).tell([[0.0]], []),
            "T . 1 states of 1 numbers and T actions",
        ),
        (
            lambda: DynamicsLearner(slide(), episodes=9, deployments=1).tell(
                [[0.0], [np.nan]], [0]
            ),
            "states must be finite numbers",
        ),
        (
            lambda: DynamicsLearner(slide(), episodes=9, deployments_at=(1,)).tell(
                [[0.0], [0.1]], [0]
            ),
            "tried 1 times, too rarely to learn what it does",
        ),
        (
            lambda: DynamicsLearner(
                slide(ends=lambda nexts: nexts), episodes=9, deployments_at=(1,)
            ).tell([[0.0], [0.1], [0.1], [0.1], [0.1], [0.1], [0.1]], [0, 1, 2, 0, 1, 2]),
            "ends must give True or False for each of",
        ),
        (
            lambda: slide(bounds=[(-2, 2)] * 4, points=10**6),
            r"points need .* GiB, .*; use fewer points",
        ),
    ],
)
def test_what_cannot_be_controlled_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
