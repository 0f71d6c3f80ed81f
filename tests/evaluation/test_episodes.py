"""Values of table policies from logged episodes of several steps, by hand and by a plain twin."""

import itertools

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.evaluation import Episodes, mixture_propensities

# Two tables of two steps and one state, of which one plays an episode: (0, 0) and (0, 1), (1, 1).
TABLES = np.array([[[0], [0]], [[0], [1]], [[1], [1]]])


def test_propensities_of_a_mixture_by_hand():
    """Of three tables, two play action 0 first; of these, one plays 1 then.

    So after 0, action 1 has the propensity 1/2, and the episode (0, 1) has 2/3 * 1/2 = 1/3, which
    is the share of the one table that plays it. The share of tables that play 1 at the second step
    is 2/3 whatever came before, and the product of shares 2/3 * 2/3 = 4/9 would be wrong.
    """
    states = np.zeros((3, 2), dtype=int)
    actions = np.array([[0, 0], [0, 1], [1, 1]])
    found = mixture_propensities(TABLES, states, actions)
    assert found == pytest.approx(np.array([[2 / 3, 1 / 2], [2 / 3, 1 / 2], [1 / 3, 1]]))
    assert found.prod(axis=1) == pytest.approx(np.full(3, 1 / 3))
    by_step = np.stack(
        [(TABLES[:, h, 0] == actions[:, [h]]).mean(axis=1) for h in range(2)], axis=1
    )
    assert by_step.prod(axis=1) == pytest.approx([2 / 9, 4 / 9, 2 / 9])
    assert (mixture_propensities(TABLES, states[:1], [[1, 0]]) == [1 / 3, 0]).all()


def test_a_product_of_shares_by_step_gives_a_wrong_value():
    """Each table plays once, and pays 1 if both actions are 1, so that the third earns 1.

    With the propensities of whole episodes the estimate of the third table is (0 + 0 + 3) / 3 = 1,
    its true value; with shares by step its weight would be 9/2, and the estimate 1.5.
    """
    states, actions = np.zeros((3, 2), dtype=int), np.array([[0, 0], [0, 1], [1, 1]])
    rewards = np.array([[0, 0], [0, 0], [0, 1.0]])
    right = Episodes(states, actions, rewards, mixture_propensities(TABLES, states, actions))
    assert ls.evaluate(TABLES[2], right).ips.value == pytest.approx(1)
    wrong = Episodes(states, actions, rewards, [[2 / 3, 1 / 3], [2 / 3, 2 / 3], [1 / 3, 2 / 3]])
    assert ls.evaluate(TABLES[2], wrong).ips.value == pytest.approx(1.5)


def test_shares_that_differ_and_an_episode_that_ended():
    """A protocol with weight 0.85 and two tables of a trial; the second episode has one step."""
    actions = np.array([[0, 1], [0, -1]])
    found = mixture_propensities(TABLES, np.zeros((2, 2), int), actions, [0.85, 0.1, 0.05])
    assert found == pytest.approx(np.array([[0.95, 0.1 / 0.95], [0.95, 1]]))


def test_estimates_by_hand():
    """Three episodes of two steps in one state; the policy plays 1, then 0 with 3/4.

    Weights of episode 0, (1, 0): 1 / (1/2) = 2, then 2 * (3/4) / (1/4) = 6; of 1, (0, 0): 0, 0; of
    2, (1, 1): 2, then 2 * (1/4) / (1/2) = 1. ips: (2 * 1 + 6 * 2 + 2 * 3 + 1 * 4) / 3 = 8. snips:
    (2 + 6) / 4 at the first step, (12 + 4) / 7 at the second.
    """
    law = np.array([[[0.0, 1]], [[0.75, 0.25]]])
    log = Episodes(
        np.zeros((3, 2), int),
        [[1, 0], [0, 0], [1, 1]],
        [[1.0, 2], [5, 6], [3, 4]],
        [[0.5, 0.25], [0.5, 0.5], [0.5, 0.5]],
    )
    found = ls.evaluate(law, log)
    assert found.ips.value == pytest.approx(8)
    assert found.snips.value == pytest.approx(2 + 16 / 7)
    assert found.logged.value == pytest.approx(7)
    assert found.effective == pytest.approx(49 / 37)
    assert found.share.value == pytest.approx(7 / 3)
    assert not found.reliable


def test_the_model_by_hand():
    """One state, two steps, ridge -> 0: the mean of action 1 first is 2, that of 0 then is 4.

    An action that was never logged has the log's mean of the rewards from there on: 3 first
    and 4 then; from the first step on, both: 7.
    """
    log = Episodes(
        np.zeros((3, 2), int),
        [[1, 0], [1, 0], [0, 0]],
        [[1.0, 3], [3, 5], [5, 4]],
        np.full((3, 2), 0.5),
    )
    assert ls.evaluate([[1], [0]], log, ridge=1e-9).model.value == pytest.approx(2 + 4)
    assert ls.evaluate([[1], [1]], log, ridge=1e-9).model.value == pytest.approx(2 + 4)
    assert ls.evaluate([[2], [1]], log, ridge=1e-9).model.value == pytest.approx(3 + 4)


def twin(policy, log, ridge):
    """Doubly robust values and the model's value with loops over dictionaries, for one table."""
    n, H = log.states.shape

    def q_of(train):
        rest = [np.mean([log.rewards[i, h:].sum() for i in train]) for h in range(H)]
        q = {}

        def value(h, x):
            return q.get((h, x, policy[h][x]), rest[h]) if h < H else 0.0

        for h in reversed(range(H)):
            found = {}
            for i in train:
                after = value(h + 1, log.states[i, h + 1]) if h + 1 < H else 0.0
                found.setdefault((h, log.states[i, h], log.actions[i, h]), []).append(
                    log.rewards[i, h] + after
                )
            for key, targets in found.items():
                q[key] = (sum(targets) + ridge * rest[h]) / (len(targets) + ridge)
        return q, rest

    total = 0.0
    for i in range(n):
        q, rest = q_of([j for j in range(n) if j % 5 != i % 5])
        weight, estimate = 1.0, 0.0
        for h in range(H):
            x, a = log.states[i, h], log.actions[i, h]
            estimate += weight * q.get((h, x, policy[h][x]), rest[h])  # rho_{h-1} V(x_h)
            weight *= (policy[h][x] == a) / log.propensities[i, h]
            estimate += weight * (log.rewards[i, h] - q.get((h, x, a), rest[h]))
        total += estimate
    q, rest = q_of(range(n))
    first = [q.get((0, x, policy[0][x]), rest[0]) for x in log.states[:, 0]]
    return total / n, np.mean(first)


def random_log(seed, n=40, H=3, S=3, A=2):
    generator = np.random.default_rng(seed)
    states, actions = generator.integers(S, size=(n, H)), generator.integers(A, size=(n, H))
    rewards, given = generator.random((n, H)), generator.uniform(0.2, 0.9, size=(n, H))
    return Episodes(states, actions, rewards, given)


@pytest.mark.parametrize("ridge", [0.5, 3.0])
def test_the_doubly_robust_estimate_and_the_model_equal_a_plain_twin(ridge):
    log = random_log(3)
    policy = np.random.default_rng(4).integers(2, size=(3, 3))
    dr, model = twin(policy, log, ridge)
    found = ls.evaluate(policy, log, ridge=ridge)
    assert found.dr.value == pytest.approx(dr)
    assert found.model.value == pytest.approx(model)


def test_a_mixture_is_the_mean_of_its_tables():
    """Every estimate but snips is linear in the policy; a table that occurs twice counts twice."""
    log = random_log(5)
    one, other = np.random.default_rng(6).integers(2, size=(2, 3, 3))
    whole = ls.evaluate(np.stack([one, other, one]), log)
    parts = [ls.evaluate(table, log) for table in (one, other, one)]
    for name in ("ips", "dr", "model", "share"):
        values = [getattr(part, name).value for part in parts]
        assert getattr(whole, name).value == pytest.approx(np.mean(values))


def test_a_table_is_the_law_that_plays_it_for_certain():
    log, table = random_log(7), np.random.default_rng(8).integers(2, size=(3, 3))
    assert ls.evaluate(np.eye(2)[table], log) == ls.evaluate(table, log)


def test_the_model_is_moved_by_an_episode_as_its_influence_says():
    """The influence is a derivative: an episode that counts 1.001 times moves the value by 0.001.

    Repeating all episodes 1,000 times and one of them once more is that, with a vanishing ridge.
    """
    log, policy = random_log(9, n=20), np.random.default_rng(10).integers(2, size=(3, 3))
    from lowswitch.evaluation.episodes import samples_of

    samples = samples_of(policy, log, 1e-9, "logged")
    for i in (0, 7):
        which = np.append(np.repeat(np.arange(20), 500), i)
        more = Episodes(log.states[which], log.actions[which], log.rewards[which])
        moved = samples_of(policy, more, 1e-9, "estimated").modelled - samples.modelled
        expected = (samples.influence[i] - samples.modelled) / len(which)
        assert moved == pytest.approx(expected, rel=0.02, abs=1e-9)


def test_estimated_behaviour_is_used_only_if_it_is_asked_for():
    """In state 0, action 1 is logged twice in three cases."""
    log = Episodes(np.zeros((3, 1), int), [[1], [1], [0]], [[1.0], [0], [1]])
    with pytest.raises(ValueError, match="no propensities; give them .* behaviour='estimated'"):
        ls.evaluate([[1]], log)
    found = ls.evaluate([[1]], log, behaviour="estimated")
    assert (found.ips.value, found.share.value) == pytest.approx((0.5, 1))
    assert found.behaviour == "estimated"


def test_an_episode_that_ended_early_earns_nothing_more():
    """The same episodes with an absorbing state that pays 0, and with -1 after their end."""
    states, actions = np.array([[0, 1], [0, 2], [0, 1], [0, 2]]), np.array([[0, 1], [1, 0]] * 2)
    rewards = np.array([[0.5, 1], [1.0, 0], [0.2, 1], [1, 0]])
    given = np.array([[0.5, 0.5], [0.5, 1.0]] * 2)
    ended = actions.copy()
    ended[states == 2] = -1
    for policy in ([[0, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 0, 0]]):
        whole = ls.evaluate(policy, Episodes(states, actions, rewards, given), ridge=1e-9)
        short = ls.evaluate(policy, Episodes(states, ended, rewards, given), ridge=1e-9)
        for name in ("ips", "snips", "dr", "model", "share"):
            assert getattr(short, name) == pytest.approx(getattr(whole, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ips", "snips", "dr", "model"])
def test_intervals_of_several_steps_cover_the_value(covering, name):
    """200 logs of 400 episodes of three steps; the seed is fixed. At a true coverage of 95 % a new
    seed would fall below 90 % with a probability of about 0.2 % for each of the four estimates.
    """
    value, found = covering
    estimates = [getattr(one, name) for one in found]
    assert np.mean([one.low <= value <= one.high for one in estimates]) >= 0.9
    values = np.array([one.value for one in estimates])
    assert abs(values.mean() - value) <= 4 * values.std() / np.sqrt(200) + 0.005 * (name != "ips")
    assert np.mean([one.reliable for one in found]) >= 0.8


@pytest.fixture(scope="module")
def covering():
    generator = np.random.default_rng(30)
    H, S, A = 3, 4, 2
    transitions, means = generator.dirichlet(np.ones(S), size=(S, A)), generator.random((S, A))
    policy = generator.integers(A, size=(H, S))
    v = np.zeros(S)
    for h in reversed(range(H)):
        v = (means + transitions @ v)[np.arange(S), policy[h]]
    found = []
    for _ in range(200):
        x = np.zeros(400, dtype=int)
        states, actions = np.zeros((2, 400, H), dtype=int)
        rewards = np.zeros((400, H))
        for h in range(H):
            follow = generator.random(400) < 0.6
            a = np.where(follow, policy[h, x], 1 - policy[h, x])
            states[:, h], actions[:, h] = x, a
            rewards[:, h] = generator.random(400) < means[x, a]
            x = (transitions[x, a].cumsum(axis=1) < generator.random((400, 1))).sum(axis=1)
            x = np.minimum(x, S - 1)
        given = np.where(actions == policy[np.arange(H), states], 0.6, 0.4)
        found.append(ls.evaluate(policy, Episodes(states, actions, rewards, given)))
    return v[0], found


GOOD = ([[0, 1]] * 3, [[0, 1]] * 3, [[0.0, 1]] * 3, [[0.5, 0.5]] * 3)


@pytest.mark.parametrize(
    ("policy", "parts", "message"),
    [
        ([[0, 0]], GOOD, r"arrays \[n, 1\] of states"),
        ([[0], [0]], GOOD, "states must be 0 to 0, not 0 to 1"),
        ([0, 0], GOOD, "a table of actions"),
        ([[0, -1], [0, 0]], GOOD, "a table of actions"),
        (np.full((2, 2, 2), 0.4), GOOD, "that sum to 1"),
        ([[0, 0], [0, 0]], (*GOOD[:3], [[0.5, 0.0]] * 3), r"not 0 \(sample 0, step 1\)"),
        ([[0, 0], [0, 0]], (*GOOD[:3], [0.5] * 3), "a propensity for each of 3"),
        ([[0, 0], [0, 0]], ([[0.5, 1]] * 3, *GOOD[1:]), "states must be integers"),
        ([[0, 0], [0, 0]], (GOOD[0], [[-1, 0]] * 3, *GOOD[2:]), "all steps after the end"),
        ([[0, 0], [0, 0]], (GOOD[0], [[0, -1]] * 3, *GOOD[2:]), "earns 0 after its end"),
        ([[0, 0], [0, 0]], (*GOOD[:2], [[0.0, np.nan]] * 3, GOOD[3]), "must be finite"),
        ([[0, 0], [0, 0]], tuple(part[:1] for part in GOOD), "the number of episodes"),
    ],
)
def test_episodes_that_cannot_be_right_are_refused(policy, parts, message):
    with pytest.raises(ValueError, match=message):
        ls.evaluate(policy, Episodes(*parts))


def test_the_wrong_kind_of_log_is_refused():
    log = ls.evaluation.Log(np.ones((3, 1)), [1, 0, 1], [1, 2, 3], [0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="for a LinearPolicy of one step"):
        ls.evaluate([[0]], log)
    with pytest.raises(ValueError, match='behaviour must be "logged" or "estimated"'):
        ls.evaluate([[0]], log, behaviour="guessed")


def test_all_actions_of_one_step_are_the_bandit_estimates():
    """With one step the estimates are those of contexts whose only feature is constant."""
    from lowswitch.policy.shape import Shape

    generator = np.random.default_rng(1)
    actions, rewards = generator.integers(2, size=30), generator.random(30)
    given = generator.uniform(0.3, 0.9, 30)
    weights = np.zeros((1, 1, 2, 1))
    weights[0, 0, 1] = 1
    linear = ls.LinearPolicy(Shape.of(1, 1, 2), weights, np.uint64(0))
    one = ls.evaluate(linear, ls.evaluation.Log(np.ones((30, 1)), actions, rewards, given))
    columns = (np.zeros(30, int), actions, rewards, given)
    other = ls.evaluate([[1]], Episodes(*(part[:, None] for part in columns)))
    for name in ("ips", "snips", "dr", "model", "share"):
        assert getattr(one, name) == pytest.approx(getattr(other, name)), name


def test_every_order_of_episodes_has_the_same_inverse_propensity():
    log, table = random_log(11, n=6), np.ones((3, 3), dtype=int)
    first = ls.evaluate(table, log)
    for order in itertools.islice(itertools.permutations(range(6)), 1, 6):
        parts = (
            part[list(order)] for part in (log.states, log.actions, log.rewards, log.propensities)
        )
        assert ls.evaluate(table, Episodes(*parts)).ips == pytest.approx(first.ips)
