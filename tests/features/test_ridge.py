"""Ridge on features: formulas by hand, tables as features, and budgets."""

import math

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.kernels.streams import DRAWS, bits, drawn_members, normals, purpose_key, uniforms
from lowswitch.learners.ridge import proof_width
from lowswitch.learners.ridge_spec import spec_of
from lowswitch.policy.shape import Shape


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
        ls.linear(members=3, c=0.5, ridge=4.0, schedule=ls.parts.Calendar((2,)), draws="plain"),
        seed=5,
    )
    learner.tell([[1.0], [2.0]], [0, 0], [2.0, 1.0])
    first, second = normals(purpose_key(5, DRAWS), 2 * 2, 2)
    z = np.array([first, second, -first])
    sigma = math.sqrt((6 - 16 / 9) / 3)
    drawn = 4 / 9 + 0.5 * sigma * z / 3
    assert learner.policy.weights[0, 0, 0] == pytest.approx(drawn, rel=1e-12)


def test_optimistic_draws_by_hand():
    """As above, with the scale 4 c ln(K / t) / ln K in place of c, and a floor of 4/9.

    After 2 of 8 episodes ln(K / t) / ln K is 2/3. With K = 16 the scale after 8 = K^(3/4) is c.
    """
    how = ls.parts.Sampled(c=0.5, draws="optimistic")
    assert how.scale(8, 16) == pytest.approx(0.5, rel=1e-15)
    assert [how.scale(told, 16) for told in (0, 1, 16)] == [2.0, 2.0, 0.0]
    assert how.scale(0, 1) == 0.5
    algorithm = ls.linear(members=3, c=0.5, ridge=4.0, schedule=ls.parts.Calendar((2,)))
    learner = bandit(algorithm, seed=5, episodes=8)
    assert learner.policy.floor is None  # before anything is known
    learner.tell([[1.0], [2.0]], [0, 0], [2.0, 1.0], off_policy=True)
    first, second = normals(purpose_key(5, DRAWS), 2 * 2, 2)
    sigma = math.sqrt((6 - 16 / 9) / 3)
    drawn = 4 / 9 + 0.5 * 4 * (2 / 3) * sigma * np.array([first, second, -first]) / 3
    assert learner.policy.weights[0, 0, 0] == pytest.approx(drawn, rel=1e-12)
    assert learner.policy.floor[0, 0, 0] == pytest.approx([4 / 9], rel=1e-12)


def test_a_score_is_at_least_that_of_the_floor():
    """Weights -1 and 1 of two members for action 1, and a floor of 1/2 for action 0 alone.

    At x = 1 the first member scores (1/2, 0) and the second (1/2, 1): the floor decides for one.
    """
    weights, floor = np.zeros((1, 1, 2, 2)), np.zeros((1, 1, 2, 1))
    weights[0, 0, 1], floor[0, 0, 0] = [-1, 1], 0.5
    policy = ls.LinearPolicy(Shape.of(1, 1, 2), weights, np.uint64(3), floor=floor)
    assert policy.choices(np.ones((1, 1, 1))).tolist() == [[0, 1]]
    assert policy.values(np.ones((1, 1, 1))).tolist() == [[0.5, 1.0]]
    assert policy.propensities([[1.0]]).tolist() == [[0.5, 0.5]]
    episodes = np.arange(20)
    assert (
        policy.actions(np.ones((20, 1, 1)), episodes).tolist()
        == [policy.act([1.0], k).action for k in episodes]
        == policy.member_for(episodes).tolist()
    )
    assert policy.identity != ls.LinearPolicy(policy.shape, weights, policy.key).identity
    # the same numbers, once as a member with a floor and once as two members
    one, two = (np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 2)))
    single = ls.LinearPolicy(Shape.of(1, 1, 1), one, np.uint64(0), floor=one)
    assert single.identity != ls.LinearPolicy(single.shape, two, np.uint64(0)).identity
    with pytest.raises(ValueError, match="its floor has the shape"):
        ls.LinearPolicy(policy.shape, weights, policy.key, floor=np.zeros((1, 1, 2, 3)))


def test_draws_have_the_covariance_of_the_posterior():
    """4,096 draws in 2,048 pairs, V = [[3,1],[1,2]], so that (c sigma)^2 V^-1 is known.

    The seed is fixed. On a new one each entry is within 5 standard errors, false alarm 1e-6.
    """
    when = ls.parts.Calendar((2,))
    learner = bandit(ls.linear(members=4096, c=1.0, schedule=when, draws="plain"), features=2)
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


def test_values_to_go_are_clipped_by_hand():
    """At step 1 features 0, 1, 3 are paid 0, 1, 1: the mean is 2/3, and the slope of what is left
    (0 x -2/3 + 1 x 1/3 + 3 x 1/3) / (0 + 1 + 9) = 2/15. So 3 would be worth 2/3 + 6/15 = 16/15,
    more than the 1 that was ever paid, and counts as 1.
    """
    learner = ls.LinearLearner(ls.linear(ridge=1e-9), horizon=2, features=1, actions=1, episodes=9)
    x = [[[0.0], [0.0]], [[0.0], [1.0]], [[0.0], [3.0]]]
    learner.tell(x, [[0, 0]] * 3, [[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert learner.weights[1, 0, 0] == pytest.approx(2 / 15)
    assert learner.offsets == pytest.approx([(2 / 3 + 4 / 5 + 1) / 3, 2 / 3])


@pytest.mark.parametrize(
    ("algorithm", "rewards", "clipped"),
    [
        (ls.linear(), (0.0, 3.0), (0.0, 6.0)),  # two steps are left, each paid 0 to 3
        (ls.linear(), (-1.0, 0.5), (-2.0, 1.0)),
        (ls.linear(), (0.0, 0.0), (-2.0, 2.0)),  # nothing was paid yet: hope is passed on
        (ls.linear(), (5.0, 5.0), (-2.0, 10.0)),
        (ls.linucb(width="proof"), (0.0, 3.0), (0.0, 2.0)),  # the proofs are for [0, 1]
    ],
    ids=str,
)
def test_the_bounds_of_values_to_go_by_hand(algorithm, rewards, clipped):
    """Two columns of values, of which one hopes for far too much and one fears it."""
    learner = ls.LinearLearner(algorithm, horizon=3, features=1, actions=1, episodes=9)
    one = np.ones((3, 1))
    learner.tell([one, one], [[0] * 3] * 2, [[paid] * 3 for paid in rewards])
    knowledge = learner._knowledge
    values = knowledge._fresh_values(2)
    values.weights[1, 0, 0] = [100.0, -100.0]
    low, high = clipped
    targets = knowledge._targets(0, values, 2)
    assert targets == pytest.approx(np.add.outer(np.array(rewards), [high, low]))


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
    assert learner.budget_spent
    if "linucb" not in str(algorithm):
        assert (learner.policy.members, learner.policy.roots) == (1, None)
        assert made[0].policy.members == 32


NEW = {"intercept": True, "link": "auto", "drift": "watch", "rule": 4}  # of `few` by now


@pytest.mark.parametrize(("rule", "options"), [(1, {}), (2, NEW)])
def test_few_means_the_linear_family_with_its_dates(rule, options):
    plain = bandit(ls.few(deployments=9, rule=rule), 1000)
    assert plain.algorithm == ls.linear(deployments=9, **options)
    dated = bandit(ls.few(deployments_at=(30, 60), rule=rule), 100)
    assert dated.algorithm == ls.linear(schedule="calendar/30-60", deployments=2, **options)
    asked = bandit(ls.few(deployments=3, asked=True, rule=rule), 100)
    assert asked.algorithm == ls.linear(schedule="asked", deployments=3, **options)
    several = bandit(ls.few(deployments=5, gap=20, members=1, rule=rule), 500)
    wanted = ls.linear(members=1, schedule="spread/20", deployments=5, **options)
    assert several.algorithm == wanted


def test_other_algorithms_are_refused_by_name():
    with pytest.raises(ValueError, match="learns tables of states and cannot use features"):
        bandit(ls.psrl())
    with pytest.raises(
        ValueError, match="learns from features, but a table of states has no features"
    ):
        ls.Learner(ls.linear(), horizon=1, states=2, actions=2, episodes=3)


def test_spread_dates():
    spread = ls.parts.Spread()
    assert spread.grid(20) == (1, 2, 4, 8, 16)
    assert spread.within(3, 2**24) == (2**8, 2**13, 2**18)  # powers 1/3, 13/24 and 3/4 of K
    assert spread.within(1, 100) == (10,)
    assert ls.parts.Spread(gap=10_000).within(3, 2**24) == (10_000, 20_000, 2**18)
    # a third of 6,144 weights is 2^11, a power 11/24 that leaves 7/24 for two steps
    assert spread.within(3, 2**24, 6144) == (2**11, int(2**14.5), 2**18)
    # and never beyond the middle of the powers: (1/3 + 3/4) / 2
    assert spread.within(3, 2**24, 2**24)[0] == 2**13
