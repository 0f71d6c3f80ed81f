"""What `few` adds on features: an intercept, log-odds of rewards that are 0 or 1, and drift."""

import math

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.feature_learner import ContextDriftWarning, FeatureLearner
from lowswitch.learners.drift import Lost, checks, next_estimate, nothing_seen, watch
from lowswitch.learners.log_odds import fitted_log_odds, likeliest_log_odds
from lowswitch.policy.shape import Shape
from lowswitch.review.proposals import LinearProposal


def learner(episodes=100, features=1, actions=2, algorithm=None, **options):
    chosen = algorithm or ls.few(deployments=3)
    size = {"features": features, "actions": actions, "episodes": episodes}
    return ls.Learner(chosen, **size, **options)


# ---- the intercept -------------------------------------------------------------------------------


def test_an_intercept_by_hand():
    """Rewards 5, 7 and 3 at x = 1, 2, 0, less their mean 5: 0, 2, -2 on features (x, 1).

    V = I + [[5, 3], [3, 3]] = [[6, 3], [3, 4]], b = (4, 0), theta = (16, -12) / 15.
    """
    one = learner(algorithm=ls.linear(intercept=True), actions=1)
    one.tell([[1.0], [2.0], [0.0]], [0, 0, 0], [5.0, 7.0, 3.0])
    assert one.precision[0, 0] == pytest.approx(np.array([[6.0, 3.0], [3.0, 4.0]]))
    assert one.weights[0, 0] == pytest.approx([16 / 15])
    assert one.intercepts[0] == pytest.approx([-12 / 15])
    assert one.offsets == pytest.approx([5.0])
    assert one.posterior().means(0)[:, 0] == pytest.approx([5 + 4 / 15, 5 + 20 / 15, 5 - 12 / 15])


@pytest.mark.parametrize("shared", [True, False])
def test_the_level_of_rewards_does_not_matter(shared):
    """A learner whose rewards are all 7 higher deploys the same, which was not so before."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(90, 2) if shared else (90, 3, 2))
    rewards, actions = generator.normal(size=90), generator.integers(3, size=90)
    policies = [
        learner(90, 2, 3, algorithm=ls.few(deployments=3, rule=rule), shared=shared)
        for rule in (1, 1, 2, 2)
    ]
    for one, level in zip(policies, (0, 7, 0, 7), strict=True):
        one.tell(x, actions, rewards + level, off_policy=True)
    old, old_raised, new, new_raised = (one.policy.weights for one in policies)
    assert new_raised == pytest.approx(new, abs=1e-9)
    assert np.abs(old - old_raised).max() > 0.1


def test_a_policy_adds_the_constant_itself():
    """Scores 2 x + 1 and 3: the second action is better below x = 1."""
    weights = np.array([2.0, 0.0, 1.0, 3.0]).reshape(1, 2, 2, 1)
    policy = ls.LinearPolicy(Shape.of(1, 1, 2), weights, np.uint64(0))
    assert [policy.act([x], 0).action for x in (0.9, 1.1)] == [1, 0]
    rows = np.array([0.9, 1.1]).reshape(2, 1, 1)
    assert policy.actions(rows, np.arange(2)).tolist() == [1, 0]
    assert policy.values(rows)[:, 0] == pytest.approx([3.0, 3.2])
    back = ls.LinearPolicy.from_dict(policy.to_dict())
    assert back.identity == policy.identity
    assert back.act([0.9], 0) == policy.act([0.9], 0)


# ---- log-odds ------------------------------------------------------------------------------------


def test_log_odds_solve_their_equation():
    """At the solution the gradient is 0, and U'U is the curvature, for both weight vectors."""
    generator = np.random.default_rng(1)
    x, blocks = generator.normal(size=(200, 3)), generator.integers(2, size=200)
    rewards = (generator.random(200) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    offset, weights, factor = fitted_log_odds(x, blocks, rewards, 0.5, 2)
    share = (rewards.sum() + 1) / 202
    assert offset == pytest.approx(math.log(share / (1 - share)))
    for block in range(2):
        mine, y = x[blocks == block], rewards[blocks == block]
        p = 1 / (1 + np.exp(-(mine @ weights[block] + offset)))
        assert mine.T @ (y - p) == pytest.approx(0.5 * weights[block], abs=1e-4)
        curvature = mine.T @ (mine * (p * (1 - p))[:, None]) + 0.5 * np.eye(3)
        upper = np.triu(factor[block])
        assert upper.T @ upper == pytest.approx(curvature, rel=1e-4)


def test_separable_rewards_have_a_finite_fit():
    x = np.array([[-1e6], [-1.0], [1.0], [1e6]])
    _, weights, _ = fitted_log_odds(x, np.zeros(4, dtype=int), (x[:, 0] > 0) * 1.0, 1.0, 1)
    assert 0 < weights[0, 0] < np.inf


def test_the_penalty_of_log_odds_follows_the_data():
    """One weight: the marginal likelihood by an integral over it chooses the same penalty.

    Rewards that the feature decides get a small penalty, and rewards that it does not the usual
    one.
    """
    generator = np.random.default_rng(3)
    x = generator.normal(size=(60, 1))
    decided, chance = (x[:, 0] > 0) * 1.0, generator.integers(2, size=60) * 1.0
    nowhere, grid = np.zeros(60, dtype=int), np.linspace(-60, 60, 20_001)
    penalties = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    for rewards, least, most in ((decided, 0.003, 0.1), (chance, 1.0, 1.0)):
        offset, weights, _ = likeliest_log_odds(x, nowhere, rewards, 1.0, 1)
        odds = offset + x * grid  # [60, grid]
        fits = -np.logaddexp(0.0, np.where(rewards[:, None] > 0, -odds, odds)).sum(axis=0)
        evidence = [
            math.log(np.exp(fits - 0.5 * one * grid**2).sum() * math.sqrt(one))
            - 0.5 * math.log(one) ** 2
            for one in penalties
        ]
        likeliest = penalties[int(np.argmax(evidence))]
        assert least <= likeliest <= most
        assert weights == pytest.approx(fitted_log_odds(x, nowhere, rewards, likeliest, 1)[1])


def test_log_odds_end_with_the_first_reward_that_is_neither_0_nor_1():
    generator = np.random.default_rng(2)
    x, actions = generator.normal(size=(60, 1)), generator.integers(2, size=60)
    rewards = (generator.random(60) < 0.5).astype(float)
    one, other = learner(60), learner(60, algorithm=ls.linear(deployments=3, intercept=True))
    one.tell(x[:59], actions[:59], rewards[:59], off_policy=True)
    assert one.log_odds
    assert ((one.posterior().means(0) > 0) & (one.posterior().means(0) < 1)).all()
    one.tell(x[59], actions[59], 0.5, off_policy=True)
    other.tell(x, actions, [*rewards[:59], 0.5], off_policy=True)
    assert not one.log_odds
    assert one.weights == pytest.approx(other.weights, rel=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_log_odds_are_the_same_to_the_bit_in_batches_and_after_a_file(shared):
    generator = np.random.default_rng(3)
    x = generator.normal(size=(80, 2) if shared else (80, 3, 2))
    actions, rewards = generator.integers(3, size=80), (generator.random(80) < 0.4) * 1.0
    single, batched = (learner(80, 2, 3, shared=shared) for _ in range(2))
    for k, told in enumerate(zip(x, actions, rewards, strict=True)):
        single.tell(*told, off_policy=True)
        if k % 20 == 7:
            single = type(single).from_bytes(single.to_bytes())
    batched.tell(x, actions, rewards, off_policy=True)
    assert single.digest() == batched.digest()
    assert single.deployments == 3


# ---- drift ---------------------------------------------------------------------------------------


def told_of(contexts, more=0, **options):
    one = learner(len(contexts) + more, contexts.shape[1], **options)
    rewards = np.zeros(len(contexts))
    one.tell(contexts, np.zeros(len(contexts), dtype=int), rewards, off_policy=True)
    return one


def test_moving_contexts_are_found_said_and_kept():
    generator = np.random.default_rng(4)
    contexts = generator.normal(size=(1000, 3))
    contexts[:, 2] += np.linspace(0, 4, 1000)
    with pytest.warns(ContextDriftWarning, match="feature 2 of the newest contexts differs"):
        one = told_of(contexts, algorithm=ls.few(deployments=10))
    assert one.drift.feature == 2
    back = type(one).from_bytes(one.to_bytes())
    assert back.drift == one.drift
    assert back.digest() == one.digest()
    assert one.deployments == 10
    early = told_of(generator.normal(size=(1000, 3)), algorithm=ls.few(deployments=10))
    assert early.drift is None
    dates = one._knowledge.spec.dates
    usual = early._knowledge.spec.dates
    past = [date for date in usual if date <= one.drift.told]
    assert list(dates[: len(past)]) == past
    assert len(dates) == len(usual) == 10
    assert dates[-1] > usual[-1]


def test_dates_that_somebody_chose_stay():
    contexts = np.random.default_rng(5).normal(size=(400, 1)) + np.linspace(0, 5, 400)[:, None]
    with pytest.warns(ContextDriftWarning):
        one = told_of(contexts, algorithm=ls.few(deployments_at=(100, 200, 300)))
    assert one._knowledge.spec.dates == (100, 200, 300)


def test_moved_dates_by_hand():
    """From 100 to 10,000 the roots 10 to 100 in three steps are 40 and 70."""
    assert ls.parts.Spread().moved(100, 2, 10_000) == (1600, 4900)
    assert ls.parts.Spread(gap=4500).moved(100, 2, 10_000) == (4600, 9100)
    assert ls.parts.Spread().moved(99, 3, 100) == ()


def test_losses_are_counted_by_period():
    """Ten episodes lose 2 each and ten 1 each: 30 in all, 10 of them since the date after ten."""
    lost = Lost().after(10, 2.0)._replace(newest=0.0).after(20, 1.0)
    assert lost == Lost(20, 30.0, 10.0)
    assert not lost.is_much(6)  # 10 is twice the average of 30 / 6, and not more
    assert lost.is_much(7)
    assert not lost.is_much(0)
    assert [next_estimate(told, 1050) for told in (0, 9, 10, 1049)] == [10, 10, 20, 1050]
    assert next_estimate(3, 50) == 4


def jump(rule, *, pieces=(1200,), **options):
    """A run whose contexts jump after 200 episodes, so that the other action is better."""
    generator = np.random.default_rng(11)
    x = generator.normal(size=(1200, 2)) * 0.3 + [1.0, 0.0]
    x[200:] += [-2.0, 4.0]
    form = ls.linear(intercept=True, drift="watch", rule=rule, deployments=8, **options)
    one = FeatureLearner(form, features=2, actions=2, episodes=1200, seed=4)
    noise, done = generator.normal(size=1200), 0
    for size in pieces:
        for begin in range(done, done + size):
            action = one.policy.act(x[begin], begin).action
            one.tell(x[begin], action, float(x[begin, 0] * (1 - 2 * action)) + noise[begin])
        done += size
        one = FeatureLearner.from_bytes(one.to_bytes())
    return one


def test_a_date_comes_early_where_much_is_lost():
    """After the jump the deployed policy plays the worse action, and the next date is far away."""
    with pytest.warns(ContextDriftWarning):
        before, now = jump(3), jump(4)
    assert before.drift == now.drift
    old, new = before._knowledge.spec.dates, now._knowledge.spec.dates
    past = [date for date in old if date <= now.drift.told]
    assert list(new[: len(past)]) == past
    assert new[len(past)] < old[len(past)]
    assert new[len(past)] % 12 == 0  # a hundredth of the run
    assert len(new) == len(old) == now.deployments == 8
    with pytest.warns(ContextDriftWarning):
        again = jump(4, pieces=(601, 30, 20, 200, 349))
    assert again.digest() == now.digest()


def test_an_early_date_keeps_the_gap():
    with pytest.warns(ContextDriftWarning):
        dates = jump(4, schedule="spread/90")._knowledge.spec.dates
    assert min(np.diff((0, *dates))) >= 90


def test_losses_of_a_file_are_checked():
    one = jump(4, pieces=(100,))
    facts, arrays = one._state()
    arrays["lost"] = np.array([1.0, np.nan, 0.0])
    with pytest.raises(ValueError, match="estimated losses are not three numbers"):
        FeatureLearner._from_state(facts, arrays, None)


def test_false_alarms_are_rare():
    """Independent contexts, rare values and heavy tails among them, in 100 runs of 1,000.

    Heavy tails have more of them than the level of normal contexts says, about 2 % of the runs;
    eight or more of 100 then have a probability of 0.1 %.
    """
    generator, alarms = np.random.default_rng(6), 0
    dates = checks((21, 38, 70, 126, 227, 410, 739), 1000)
    for _ in range(100):
        x = np.column_stack([generator.normal(size=1000), generator.random(1000) < 0.02])
        x = np.column_stack([x, generator.standard_t(3, size=1000)])
        seen, before = nothing_seen(3), 0
        for date in dates:
            seen = watch(seen, x[before:date], date, dates)
            before = date
            if seen.found is not None:
                alarms += 1
                break
    assert alarms < 8


def test_a_proposal_says_that_contexts_move():
    contexts = np.random.default_rng(7).normal(size=(500, 1)) + np.linspace(0, 5, 500)[:, None]
    with pytest.warns(ContextDriftWarning):
        one = told_of(contexts, more=500, algorithm=ls.few(deployments=6), gate="review")
    assert one.proposal().drift == 0  # it was made before that
    one.reject(one.proposal())
    one.tell(contexts[:400], [0] * 400, [0.0] * 400, off_policy=True)
    proposal = one.proposal()
    assert proposal.drift == one.drift.told
    back = LinearProposal.from_facts(proposal.facts(), proposal.policy)
    assert back.hash == proposal.hash
    still = LinearProposal(1, 2, "", proposal.policy, 0.5, last=False)
    assert "drift" not in still.facts()
