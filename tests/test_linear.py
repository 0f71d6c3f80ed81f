"""Ridge on features: by hand, to the bit, and with what must not get in."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import lowswitch as ls
from lowswitch import storage
from lowswitch.kernels.streams import MEMBERS, drawn_members, learner_stream
from lowswitch.linear.noise import DRAWS, bits, drawn_member, normals, purpose_key, uniforms
from lowswitch.linear.ridge import proof_width
from lowswitch.linear.shape import Shape
from lowswitch.linear.spec import spec_of


def bandit(algorithm, episodes=100, features=1, actions=1, **options):
    return ls.LinearLearner(
        algorithm, features=features, actions=actions, episodes=episodes, **options
    )


# ---- formulas by hand ----------------------------------------------------------------------------


def test_ridge_by_hand():
    learner = bandit(ls.linear(ridge=2.0), features=1)
    learner.tell([3.0], 0, 5.0)
    assert learner.precision.tolist() == [[[[pytest.approx(2 + 9)]]]]
    assert learner.weights.tolist() == [[[pytest.approx(15 / 11)]]]
    learner.tell([-1.0], 0, 1.0)
    assert learner.precision[0, 0, 0, 0] == pytest.approx(12)
    assert learner.weights[0, 0, 0] == pytest.approx(14 / 12)


def test_ridge_of_two_features_by_hand():
    """V = I + (1,1)(1,1)' + (1,0)(1,0)' = [[3,1],[1,2]], b = 2 (1,1) + 4 (1,0) = (6,2)."""
    learner = bandit(ls.linear(), features=2)
    learner.tell([[1.0, 1.0], [1.0, 0.0]], [0, 0], [2.0, 4.0])
    assert learner.precision[0, 0] == pytest.approx(np.array([[3.0, 1.0], [1.0, 2.0]]))
    assert learner.weights[0, 0] == pytest.approx([2.0, 0.0])  # (2*6 - 2, 3*2 - 6) / 5


def test_shared_features_give_each_action_its_own_weights_and_other_ones_common_weights():
    shared = bandit(ls.linear(), features=1, actions=2)
    shared.tell([[2.0], [1.0]], [0, 1], [3.0, 4.0], off_policy=True)
    assert shared.weights[0, :, 0] == pytest.approx([6 / 5, 4 / 2])
    common = bandit(ls.linear(), features=1, actions=2, shared=False)
    common.tell([[[2.0], [9.0]], [[9.0], [1.0]]], [0, 1], [3.0, 4.0], off_policy=True)
    assert common.weights[0, 0] == pytest.approx([(6 + 4) / (1 + 4 + 1)])


def test_the_determinant_rule_by_hand():
    """det V = 1 + n for n unit features: above 2 at n = 2, above 6 at 6, above 14 at 14."""
    learner = bandit(ls.linucb(schedule="determinant/2"))
    deployed = [k + 1 for k in range(40) if learner.tell([1.0], 0, 0.5)]
    assert deployed == [2, 6, 14, 30]


def test_the_determinant_rule_looks_at_every_step():
    """Of two steps the second has the larger features: 1 + 9 n, above 2 at 1, 20 at 3, 56 at 7."""
    algorithm = ls.linucb(schedule="determinant/2")
    learner = ls.LinearLearner(algorithm, horizon=2, features=1, actions=1, episodes=50)
    deployed = [k + 1 for k in range(20) if learner.tell([[1.0], [3.0]], [0, 0], [0.0, 1.0])]
    assert deployed == [1, 3, 7, 15]


def test_the_factor_of_a_determinant_budget_by_hand():
    """ln factor = d H ln(1 + K L^2 / (ridge d)) / N with d = 2 A = 6, H = 2, K = 90, L = 2."""
    algorithm = ls.linear(ridge=0.5, schedule="determinant/budget/2", deployments=7)
    spec = spec_of(algorithm, Shape.of(2, 2, 3), 90)
    assert spec.log_factor == pytest.approx(6 * 2 * math.log(1 + 90 * 4 / (0.5 * 6)) / 7)


def test_noise_by_hand():
    """SplitMix64 as a counter, in Python's whole numbers, and Box and Muller's formula."""
    key, mask = int(purpose_key(5, DRAWS)), 2**64 - 1

    def number(place):
        z = (key + place * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    assert bits(np.uint64(key), 7, 3).tolist() == [number(7), number(8), number(9)]
    first, second = (((number(place) >> 11) + 0.5) * 2.0**-53 for place in (6, 7))
    assert uniforms(np.uint64(key), 6, 2).tolist() == [first, second]
    normal = math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)
    assert normals(np.uint64(key), 3, 1)[0] == pytest.approx(normal, rel=1e-12)


def test_a_posterior_draw_by_hand():
    """theta + c sigma z / sqrt(V): after x = 1, r = 2 and x = 2, r = 1, with a ridge of 4.

    V = 4 + 5 = 9, b = 4, theta = 4/9, sigma^2 = (1 + r'r - b^2 / V) / (1 + n) = (6 - 16/9) / 3.
    """
    learner = bandit(
        ls.linear(members=3, c=0.5, ridge=4.0, schedule=ls.parts.Calendar((2,))), seed=5
    )
    learner.tell([[1.0], [2.0]], [0, 0], [2.0, 1.0])
    first, second = normals(purpose_key(5, DRAWS), 2 * 2, 2)
    z = np.array([first, second, -first])
    sigma = math.sqrt((6 - 16 / 9) / 3)
    drawn = 4 / 9 + 0.5 * sigma * z / 3
    assert learner.policy.weights[0, 0, 0] == pytest.approx(drawn, rel=1e-12)


def test_draws_have_the_covariance_of_the_posterior():
    """4,096 draws in 2,048 pairs, V = [[3,1],[1,2]], so that (c sigma)^2 V^-1 is known.

    The seed is fixed. On a new one each entry is within 5 standard errors, false alarm 1e-6.
    """
    learner = bandit(ls.linear(members=4096, c=1.0, schedule=ls.parts.Calendar((2,))), features=2)
    learner.tell([[1.0, 1.0], [1.0, 0.0]], [0, 0], [2.0, 4.0])
    sigma2 = (1 + 4 + 16 - np.array([6, 2]) @ [2, 0]) / 3
    expected = sigma2 * np.array([[2, -1], [-1, 3]]) / 5
    found = np.cov(learner.policy.weights[0, :, 0])
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / 2048)
    assert (np.abs(found - expected) <= 5 * spread).all()


def test_a_propensity_by_hand():
    """Of four members with weights +1, +1, +1, -1 for action 1, three play it at x > 0."""
    weights = np.zeros((1, 1, 2, 4))
    weights[0, 0, 1] = [1, 1, 1, -1]
    policy = ls.LinearPolicy(Shape.of(1, 1, 2), weights, np.uint64(3))
    assert policy.propensities([[2.0], [-2.0]]).tolist() == [[0.25, 0.75], [0.75, 0.25]]
    for episode in range(20):
        member = drawn_members(np.uint64(3), 4, np.array([episode]))[0]
        assert policy.act([2.0], episode) == ((0, 0.25) if member == 3 else (1, 0.75))


def test_the_optimistic_score_by_hand():
    """theta.x + alpha |x|: after x = 1, r = 1 of action 0 it has V = 2, theta = 1/2."""
    algorithm = ls.linucb(c=0.5, width="unit", schedule=ls.parts.Calendar((1,)))
    learner = bandit(algorithm, features=1, actions=2)
    learner.tell([1.0], 0, 1.0)
    policy = learner.policy
    assert policy.values(np.array([[[2.0]]]))[0, 0] == pytest.approx(1 + 0.5 * 2 / math.sqrt(2))
    assert policy.act([2.0], 0) == (0, 1.0)
    assert policy.act([-2.0], 0) == (1, 1.0)  # 0 + 0.5 * 2 against -1 + 0.5 * 2 / sqrt 2
    wide = bandit(
        ls.linucb(c=9.0, width="unit", schedule=ls.parts.Calendar((1,))), features=1, actions=2
    )
    wide.tell([1.0], 0, 1.0)
    assert wide.act([2.0]) == (1, 1.0)


def test_the_width_of_the_proofs_by_hand():
    spec = spec_of(ls.linucb(ridge=4.0, p=0.1, width="proof"), Shape.of(1, 2, 3), 50)
    assert proof_width(Shape.of(1, 2, 3), spec, 3.0) == pytest.approx(
        0.5 * math.sqrt(2 * (1.5 - math.log(0.1))) + 2
    )
    long = spec_of(ls.linucb(p=0.1, width="proof"), Shape.of(4, 2, 3), 50)
    assert proof_width(Shape.of(4, 2, 3), long, 3.0) == pytest.approx(
        6 * 4 * math.sqrt(math.log(2 * 6 * 200 / 0.1))
    )


# ---- tables as features --------------------------------------------------------------------------


def test_one_hot_features_are_the_means_of_the_table():
    generator = np.random.default_rng(1)
    states, actions = generator.integers(0, 4, 300), generator.integers(0, 3, 300)
    rewards = generator.random(300)
    learner = bandit(ls.linear(ridge=1e-12), 300, features=4, actions=3)
    learner.tell(np.eye(4)[states], actions, rewards, off_policy=True)
    for x in range(4):
        for a in range(3):
            mine = rewards[(states == x) & (actions == a)]
            assert learner.weights[0, a, x] == pytest.approx(mine.mean(), rel=1e-9)


def test_one_hot_features_are_backward_induction_on_the_means():
    generator = np.random.default_rng(2)
    H, S, A, n = 3, 3, 2, 400
    states, actions = generator.integers(0, S, (n, H)), generator.integers(0, A, (n, H))
    rewards = generator.random((n, H))
    learner = ls.LinearLearner(ls.linear(ridge=1e-12), horizon=H, features=S, actions=A, episodes=n)
    learner.tell(np.eye(S)[states], actions, rewards, off_policy=True)
    value = np.zeros(S)
    for h in reversed(range(H)):
        q = np.zeros((S, A))
        for x in range(S):
            for a in range(A):
                mine = (states[:, h] == x) & (actions[:, h] == a)
                after = value[states[mine, h + 1]] if h + 1 < H else 0
                q[x, a] = (rewards[mine, h] + after).mean()
        assert pytest.approx(q, rel=1e-9) == learner.weights[h].T + learner.offsets[h]
        value = q.max(axis=1)


def test_an_episode_that_is_over_has_no_value_to_go():
    learner = ls.LinearLearner(ls.linear(ridge=1e-9), horizon=2, features=1, actions=1, episodes=9)
    one = np.ones((2, 1))
    learner.tell([one, one], [[0, 0], [0, -1]], [[0.0, 1.0], [0.0, 0.0]])
    values = learner.weights[:, 0, 0] + learner.offsets
    assert values == pytest.approx([0.5, 1.0])


# ---- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [2, 5, 12, 40])
def test_the_determinant_budget_is_never_exceeded_even_without_the_hard_limit(most):
    """The factor alone keeps to it, for features of norm 1 in the directions that grow it most."""
    size = {"horizon": 1, "weights": 6, "episodes": 3000, "ridge": 1.0}
    rule = ls.parts.Determinant("budget")
    factor = math.exp(rule.log_factor(**size, deployments=most))
    algorithm = ls.linear(members=2, schedule=ls.parts.Determinant(factor))
    learner = bandit(algorithm, 3000, features=3, actions=2)
    generator = np.random.default_rng(most)
    x = generator.normal(size=(3000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    learner.tell(x, np.arange(3000) % 2, generator.random(3000), off_policy=True)
    assert 1 <= learner.deployments <= most


@pytest.mark.parametrize(
    "algorithm",
    [
        ls.linear(deployments=4),
        ls.linear(deployments=4, schedule="determinant/1.1"),
        ls.linear(deployments=4, schedule="every"),
        ls.linucb(deployments=4),
        ls.few(deployments=4),
    ],
    ids=str,
)
def test_a_budget_is_a_hard_limit_and_the_last_deployment_is_one_greedy_policy(algorithm):
    learner = bandit(algorithm, 200, features=2, actions=3)
    generator = np.random.default_rng(0)
    x, actions = generator.normal(size=(200, 2)), generator.integers(0, 3, 200)
    made = learner.tell(x, actions, generator.random(200), off_policy=True)
    assert len(made) == learner.deployments == 4
    assert learner.frozen
    if "linucb" not in str(algorithm):
        assert (learner.policy.members, learner.policy.roots) == (1, None)
        assert made[0].policy.members == 32


def test_few_means_the_linear_family_with_its_dates():
    plain, spread = (
        bandit(algorithm, 1000) for algorithm in (ls.few(deployments=9), ls.linear(deployments=9))
    )
    assert plain.algorithm == spread.algorithm == ls.linear(deployments=9)
    dated = bandit(ls.few(deployments_at=(30, 60)), 100)
    assert dated.algorithm == ls.linear(schedule="calendar/30-60", deployments=2)
    assert bandit(ls.few(deployments=5, gap=20, members=1), 500).algorithm == ls.linear(
        members=1, schedule="spread/20", deployments=5
    )
    with pytest.raises(ValueError, match="learns tables of states, and features are none"):
        bandit(ls.psrl())
    with pytest.raises(ValueError, match="learns from features, and a table of states has none"):
        ls.Learner(ls.linear(), horizon=1, states=2, actions=2, episodes=3)


def test_spread_dates():
    spread = ls.parts.Spread()
    assert spread.grid(20) == (1, 2, 4, 8, 16)
    assert spread.within(3, 2**24) == (2**8, 2**13, 2**18)  # powers 1/3, 13/24 and 3/4 of K
    assert spread.within(1, 100) == (10,)
    assert ls.parts.Spread(gap=10_000).within(3, 2**24) == (10_000, 20_000, 2**18)


# ---- the same to the bit -------------------------------------------------------------------------

FAMILY = {
    "mixture": (ls.linear(members=5, deployments=6), 1, True),
    "own features": (ls.linear(members=5, deployments=6), 1, False),
    "determinant": (ls.linear(members=5, schedule="determinant/1.5"), 1, True),
    "ellipsoid": (ls.linucb(schedule="determinant/1.5"), 1, False),
    "optimistic": (ls.linucb(c=0.3, schedule="every"), 1, True),
    "values": (ls.linear(members=4, deployments=5), 3, True),
    "optimistic values": (ls.linucb(schedule="determinant/1.5"), 3, False),
}


def play(learner, generator, episodes):
    """Episodes as the learner's policy plays them, told one by one, and all that was told."""
    shape, told = learner.shape, []
    for _ in range(episodes):
        x = generator.normal(size=(shape.horizon, shape.rows, shape.features))
        x = x[:, 0] if shape.shared else x
        actions = np.array([learner.act(x[h], h).action for h in range(shape.horizon)])
        rewards = generator.random(shape.horizon) + 0.1 * actions
        told.append((x, actions, rewards))
        learner.tell(x, actions, rewards)
    return [np.stack(arrays) for arrays in zip(*told, strict=True)]


@pytest.mark.parametrize("name", FAMILY)
def test_batches_and_resumed_learners_are_the_same_to_the_bit(name, tmp_path):
    algorithm, horizon, shared = FAMILY[name]
    size = {"horizon": horizon, "features": 3, "actions": 4, "episodes": 60, "shared": shared}
    single = ls.LinearLearner(algorithm, **size, seed=3)
    x, actions, rewards = play(single, np.random.default_rng(4), 60)
    batched = ls.LinearLearner(algorithm, **size, seed=3)
    made = batched.tell(x, actions, rewards)
    assert batched.digest() == single.digest()
    assert len(made) == single.deployments >= 2
    resumed = ls.LinearLearner(algorithm, **size, seed=3)
    for first in range(0, 60, 20):
        piece = slice(first, first + 20)
        resumed.tell(x[piece], actions[piece], rewards[piece])
        resumed.save(tmp_path / "learner.npz")
        resumed = ls.LinearLearner.load(tmp_path / "learner.npz")
    assert resumed.digest() == single.digest()
    assert pickle.loads(pickle.dumps(resumed)).digest() == single.digest()
    again = ls.LinearLearner(algorithm, **size, seed=4)
    assert again.policy.identity != ls.LinearLearner(algorithm, **size, seed=3).policy.identity or (
        again.policy.members == 1
    )


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("features", "actions", "members"), [(1, 2, 1), (9, 2, 1), (33, 7, 32)])
def test_one_context_is_played_as_in_a_batch_to_the_bit(features, actions, members, shared):
    algorithm = ls.linear(members=members)
    learner = bandit(algorithm, features=features, actions=actions, shared=shared)
    policy, generator = learner.policy, np.random.default_rng(0)
    x = generator.normal(size=(50, learner.shape.rows, features))
    rows = x[:, 0] if shared else x
    actions_of = policy.actions(x, np.arange(50))
    assert [policy.act(row, k).action for k, row in enumerate(rows)] == actions_of.tolist()
    scores = np.concatenate([policy._scores(row[None], 0) for row in x])
    assert (scores == policy._scores(x, 0)).all()
    in_order = np.zeros_like(scores)
    for i in range(features):
        in_order = in_order + x[:, :, i, None] * policy.weights[0, i]
    assert (scores == in_order).all()
    choices = policy.choices(x)
    member = policy.member_for(np.arange(50))
    assert (choices[np.arange(50), member] == actions_of).all()


def test_a_drawn_member_is_that_of_tables():
    key = learner_stream(9, MEMBERS)
    drawn = [drawn_member(int(key), 7, k) for k in range(2000)]
    assert drawn == drawn_members(key, 7, np.arange(2000)).tolist()


# ---- the policy alone ----------------------------------------------------------------------------


def test_a_policy_is_served_from_its_file_with_numpy_alone(tmp_path):
    learner = bandit(ls.linear(members=8), features=3, actions=4)
    learner.policy.save(tmp_path / "policy.npz")
    code = (
        "import sys, lowswitch as ls\n"
        f"policy = ls.LinearPolicy.load({str(tmp_path / 'policy.npz')!r})\n"
        "print(policy.act([0.5, -1.0, 2.0], 17), policy.identity)\n"
        "print({'numba', 'scipy', 'gymnasium'} & set(sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = learner.policy.act([0.5, -1.0, 2.0], 17)
    assert ran.stdout == f"{here} {learner.policy.identity}\nset()\n"


def test_a_damaged_policy_is_refused(tmp_path):
    path = tmp_path / "policy.npz"
    bandit(ls.linear(), features=2, actions=2).policy.save(path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="is not a lowswitch file, or is damaged"):
        ls.LinearPolicy.load(path)


def test_a_learner_with_a_broken_factor_or_episodes_is_refused(tmp_path):
    learner = ls.LinearLearner(ls.linear(), horizon=2, features=1, actions=2, episodes=9)
    learner.tell([[1.0], [2.0]], [0, 1], [0.0, 1.0], off_policy=True)
    facts, arrays = learner._state()
    for name, wrong, message in (
        ("factor", -arrays["factor"], "its factor is that of no positive matrix"),
        ("moment", arrays["moment"] * np.nan, "moment has entries that are no numbers"),
        ("kept.actions", arrays["kept.actions"] + 5, "actions must be 0 to 1"),
        ("kept.x", arrays["kept.x"][:, :1], "its episodes have the shape"),
    ):
        storage.write(tmp_path / "learner.npz", "linear learner", facts, arrays | {name: wrong})
        with pytest.raises(ValueError, match=message):
            ls.LinearLearner.load(tmp_path / "learner.npz")


def test_the_difference_is_the_share_of_contexts_whose_action_changes():
    shape = Shape.of(1, 1, 2)
    up = ls.LinearPolicy(shape, np.array([[[[0.0], [1.0]]]]), np.uint64(0))
    down = ls.LinearPolicy(shape, np.array([[[[0.0], [-1.0]]]]), np.uint64(0))
    half = ls.LinearPolicy(shape, np.array([[[[0.0, 0.0], [1.0, -1.0]]]]), np.uint64(0))
    contexts = [[1.0], [2.0], [0.0], [-3.0]]
    assert up.difference(down, contexts) == 0.75  # where x is 0 both play action 0
    assert up.difference(up, contexts) == 0
    assert up.difference(half, contexts) == 0.375
    with pytest.raises(ValueError, match="no contexts in common"):
        up.difference(bandit(ls.linear(), features=2, actions=2).policy, contexts)


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (([1.0, 2.0, 3.0], 0, 0.5), "each with features of a vector of 2 numbers"),
        (([1.0, math.nan], 0, 0.5), r"the features at .* are NaN; fill in what is missing"),
        (([1.0, math.inf], 0, 0.5), r"are inf; .* standardise them"),
        (([1.0, 1e60], 0, 0.5), r"are 1e\+60; .* standardise them"),
        (([1.0, 2.0], 3, 0.5), "actions must be 0 to 2"),
        (([1.0, 2.0], -1, 0.5), "nor be over at once"),
        (([1.0, 2.0], 0.5, 0.5), "actions must be integers, not float64"),
        (([1.0, 2.0], 0, math.nan), "rewards must be finite numbers, not"),
        (([1.0, 2.0], 0, [0.5, 0.5]), "there must be a reward for each action"),
        (([1.0, 2.0j], 0, 0.5), "features must be real numbers"),
        (([[1.0, 2.0]] * 7, [0] * 7, [0.0] * 7), "was made for 6 episodes"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(told, message):
    learner = bandit(ls.linear(), 6, features=2, actions=3)
    before = learner.digest()
    with pytest.raises(ValueError, match=message):
        learner.tell(*told, off_policy=True)
    assert learner.digest() == before


def test_an_action_that_the_policy_does_not_play_is_refused_and_nothing_is_learned():
    learner = bandit(ls.linear(deployments=3), 50, features=2, actions=3)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 2))
    played = learner.policy.actions(x[:, None], np.arange(50))
    before = learner.digest()
    with pytest.raises(ValueError, match="the policy changed after episode"):
        learner.tell(x, played, generator.random(50))
    assert learner.digest() == before
    with pytest.raises(ValueError, match="episode 0 of the batch plays action"):
        learner.tell(x[0], (played[0] + 1) % 3, 0.5)


def test_too_many_features_for_the_memory_are_refused_before_anything_is_allocated():
    with pytest.raises(ValueError, match=r"need .* GiB, and this machine has .*; use fewer"):
        bandit(ls.linear(), features=10**6, actions=10)


def test_constant_and_equal_columns_are_no_trouble_for_a_ridge():
    learner = bandit(ls.linear(deployments=2), 50, features=3, actions=2)
    x = np.ones((50, 3))
    learner.tell(x, np.zeros(50, dtype=int), np.ones(50), off_policy=True)
    assert learner.weights[0, 0] == pytest.approx(np.full(3, 50 / 151))
    assert np.isfinite(learner.policy.weights).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ls.linear(schedule="growth/2"), "counts the visits to states"),
        (lambda: ls.linear(schedule="whole/2/3"), "counts the visits to states"),
        (lambda: ls.linear(schedule="determinant/budget"), "give deployments=N beside it"),
        (lambda: ls.linear(deployments=3, last="exploit"), 'use last="greedy"'),
        (lambda: ls.linucb(scales=(1, 0.1)), "one scale only"),
        (lambda: ls.linucb(switches=3), "a budget of switches counts rows of a table"),
        (lambda: ls.linear(ridge=0), "ridge must be a positive number"),
        (lambda: ls.linear(members=0), "members must be a whole number"),
        (lambda: ls.linucb(width="wide"), 'width must be "noise", "unit" or "proof"'),
        (lambda: ls.parts.Determinant(1.0), "a growth factor must be a number above 1"),
        (
            lambda: ls.Algorithm(
                estimator=ls.parts.Ridge(),
                bonus=ls.parts.Ellipsoid(),
                schedule=ls.parts.Determinant(),
            ),
            "an ellipsoid makes one policy, not a mixture of 32",
        ),
        (lambda: bandit(ls.linear(), features=2.5), "features must be a whole number"),
        (lambda: bandit(ls.linear(), shared=3), "shared must be True or False"),
        (lambda: bandit(ls.linear(), gate="shut"), 'gate must be "open" or "review"'),
        (lambda: bandit(ls.linear(), initial=3), "a policy for this learner is a LinearPolicy"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_way_out(make, message):
    with pytest.raises(ValueError, match=message):
        make()
