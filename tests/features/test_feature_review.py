"""Policies on features before a reviewer: proposals, decisions and vetoes."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.io import storage
from lowswitch.learners.ridge import Wanted
from lowswitch.policy.shape import Shape


def reviewed(algorithm=None, episodes=300, **options):
    algorithm = ls.linear(members=4, deployments=3) if algorithm is None else algorithm
    return ls.LinearLearner(
        algorithm, features=2, actions=3, episodes=episodes, gate="review", **options
    )


def tell(learner, episodes, seed=0):
    generator = np.random.default_rng(seed + learner.told)
    for _ in range(episodes):
        x = generator.normal(size=2)
        action = learner.act(x).action
        learner.tell(x, action, generator.random() + 0.5 * (action == 1))


# ---- decisions -----------------------------------------------------------------------------------


def test_nothing_is_deployed_before_it_is_approved():
    learner = reviewed()
    first = learner.policy
    tell(learner, 10)  # the dates are 6, 21 and 72
    proposal = learner.proposal()
    assert (proposal.number, proposal.told, proposal.base) == (1, 6, first.identity)
    assert (learner.policy, learner.deployments, learner.proposed) == (first, 0, 1)
    assert 0 <= proposal.changed <= 1
    made = learner.approve(proposal)
    assert made.policy is learner.policy is proposal.policy
    assert (made.episode, learner.deployments, learner.proposal()) == (9, 1, None)


def test_a_policy_that_becomes_due_meanwhile_waits_and_is_made_of_all_data():
    learner = reviewed()
    tell(learner, 25)
    first = learner.proposal()
    assert (first.told, learner.proposed) == (6, 1)
    learner.reject(first.hash)
    second = learner.proposal()
    assert (second.number, second.told, learner.proposed, learner.deployments) == (2, 25, 2, 0)
    with pytest.raises(ValueError, match="is not pending any more"):
        learner.approve(first)
    learner.approve(second)
    tell(learner, 60)
    third = learner.proposal()
    assert third.last
    assert third.policy.members == 1
    learner.approve()
    assert (learner.deployments, learner.budget_spent) == (2, True)
    with pytest.raises(ValueError, match="the budget is spent"):
        learner.propose()
    with pytest.raises(ValueError, match="nothing is proposed"):
        learner.approve()


def test_a_frozen_learner_learns_and_proposes_when_it_is_thawed():
    learner = reviewed()
    learner.freeze()
    tell(learner, 30)
    assert (learner.proposal(), learner.paused, learner.told) == (None, True, 30)
    with pytest.raises(ValueError, match="thaw it first"):
        learner.propose()
    learner.thaw()
    assert learner.proposal().told == 30


def test_a_proposal_that_is_replaced_costs_nothing():
    learner = reviewed(ls.linear(members=4, schedule="asked", deployments=2))
    tell(learner, 5)
    assert learner.proposal() is None
    first = learner.propose()
    tell(learner, 5)
    second = learner.propose()
    assert (first.hash != second.hash, learner.proposed) == (True, 1)
    learner.approve(second)
    learner.install(first.policy)  # a rollback
    assert (learner.policy, learner.deployments) == (first.policy, 2)


def test_an_install_withdraws_what_waits_and_of_the_deployed_policy_counts_nothing():
    learner = reviewed()
    first = learner.policy
    tell(learner, 10)
    assert learner.install(first) is None
    assert (learner.deployments, learner.proposed) == (0, 1)
    learner.approve()
    tell(learner, 65)  # past 21 and 72: one is pending, and another one waits
    learner.install(first)
    assert (learner.proposal(), learner.deployments, learner.proposed) == (None, 2, 2)
    learner.freeze()
    learner.thaw()
    assert learner.proposal() is None
    learner.propose()  # in place of the one that was withdrawn, and so free, as with tables
    assert (learner.proposal().number, learner.proposed) == (3, 2)


@pytest.mark.parametrize("episode", [np.int64(2**40), np.uint64(7), np.int32(3)])
def test_an_episode_may_be_a_number_of_numpy(episode):
    policy = reviewed().policy
    assert policy.act([1.0, 2.0], episode) == policy.act([1.0, 2.0], int(episode))


def test_a_policy_without_members_or_with_a_wrong_width_is_refused():
    shape = Shape.of(1, 1, 2)
    with pytest.raises(ValueError, match="the number of members"):
        ls.LinearPolicy(shape, np.zeros((1, 1, 2, 0)), np.uint64(0))
    roots, weights = np.ones((1, 1, 1, 2)), np.zeros((1, 1, 2, 1))
    with pytest.raises(ValueError, match="its width has the shape"):
        ls.LinearPolicy(shape, weights, np.uint64(0), roots=roots, width=np.ones(2))
    with pytest.raises(ValueError, match="its roots must be finite"):
        ls.LinearPolicy(shape, weights, np.uint64(0), roots=np.inf * roots, width=np.ones(1))


@pytest.mark.parametrize(("asked", "members"), [(64, 32), (8, 8), (1, 1)])
def test_few_keeps_the_number_of_members(asked, members):
    learner = reviewed(ls.few(deployments=3, members=asked))
    assert learner.policy.members == members


@pytest.mark.parametrize(
    "option", [{"mass": 1.0}, {"rewards": "mean"}, {"pooled": True}, {"rows": 3}]
)
def test_options_of_few_that_mean_nothing_for_features_are_refused(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} is of tables"):
        reviewed(ls.few(deployments=3, **option))


def test_a_learner_in_review_is_saved_whole(tmp_path):
    learner = reviewed()
    tell(learner, 20)
    learner.save(tmp_path / "learner.npz")
    back = ls.LinearLearner.load(tmp_path / "learner.npz")
    assert back.digest() == learner.digest()
    assert back.proposal().hash == learner.proposal().hash
    for one in (learner, back):
        one.approve()
        tell(one, 100)
    assert back.digest() == learner.digest()


def test_a_learner_travels_as_bytes():
    learner = reviewed()
    tell(learner, 20)
    assert ls.LinearLearner.from_bytes(learner.to_bytes()).digest() == learner.digest()
    with pytest.raises(ValueError, match="what was given"):
        ls.LinearLearner.from_bytes(b"nothing")


def test_files_say_the_shape(tmp_path):
    learner = reviewed()
    learner.save(tmp_path / "learner.npz")
    learner.policy.save(tmp_path / "policy.npz")
    shape = {"horizon": 1, "features": 2, "actions": 3, "shared": True}
    for name in ("learner", "policy"):
        facts, _ = storage.read(tmp_path / f"{name}.npz", f"linear {name}")
        assert facts["shape"] == shape


# ---- what a proposal would change ----------------------------------------------------------------


def steps(*weights):
    """A policy of one feature and two actions, which plays 1 at step h where weights[h] x > 0."""
    table = np.zeros((len(weights), 1, 2, 1))
    table[:, 0, 1, 0] = weights
    return ls.LinearPolicy(Shape.of(len(weights), 1, 2), table, np.uint64(0))


def test_what_a_proposal_changes_is_counted_at_all_steps_by_hand():
    """Three episodes of two steps, of which the last one ended after its first: of five contexts,
    those at step 1 and none at step 0 are played otherwise, 2 of 5.
    """
    learner = ls.LinearLearner(
        ls.linear(schedule="asked"),
        horizon=2,
        features=1,
        actions=2,
        episodes=9,
        gate="review",
        initial=steps(1.0, 1.0),
    )
    x = np.ones((3, 2, 1))
    learner.tell(x, [[1, 1], [1, 1], [1, -1]], np.zeros((3, 2)))
    made = learner._knowledge.proposal(1, 3, [Wanted(steps(1.0, -1.0), last=False)])
    assert (made.changed, made.new_actions) == (0.4, ((1, 0),))


def test_a_proposal_without_any_context_changes_everything():
    learner = reviewed(ls.linear(schedule="asked"), initial=two_ways(0))
    assert learner._knowledge.proposal(1, 0, [Wanted(two_ways(1), last=False)]).changed == 1.0


# ---- vetoes --------------------------------------------------------------------------------------


def two_ways(action):
    """A policy for `reviewed` that always plays this action where x is (1, 0)."""
    weights = np.zeros((1, 2, 3, 1))
    weights[0, 0, action] = 1.0
    return ls.LinearPolicy(Shape.of(1, 2, 3), weights, np.uint64(0))


def vetoed(**options):
    """A learner that has only seen action 0 deployed, and proposes another one, which paid more."""
    learner = reviewed(ls.linear(c=1e-9, schedule="asked"), initial=two_ways(0))
    x = np.tile([1.0, 0.0], (30, 1))
    learner.tell(x, np.arange(30) % 3, np.arange(30) % 3 / 2, off_policy=True)
    proposal = learner.propose()
    assert proposal.new_actions == ((0, 2),)
    learner.reject(proposal, forever=True, **options)
    return learner, x


def test_an_action_that_is_rejected_for_ever_is_never_proposed_again(tmp_path):
    learner, x = vetoed()
    assert learner.actions_allowed.tolist() == [[True, True, False]]
    assert learner.proposal() is None
    learner.save(tmp_path / "learner.npz")
    for one in (learner, ls.LinearLearner.load(tmp_path / "learner.npz")):
        policy = one.propose().policy  # the next best of what is left
        assert {policy.act(x[0], k).action for k in range(9)} == {1}
        assert policy.propensities(x[:1]).tolist() == [[0, 1, 0]]
        one.approve()
    policy.save(tmp_path / "policy.npz")
    back = ls.LinearPolicy.load(tmp_path / "policy.npz")
    assert back.identity == policy.identity
    assert back.allowed.tolist() == [[True, True, False]]
    with pytest.raises(ValueError, match="action 2 at step 0, which was rejected for ever"):
        learner.install(two_ways(0))


def test_named_actions_are_forbidden_at_all_steps_and_one_must_stay():
    learner, _ = vetoed(actions=[2, 1])
    assert learner.actions_allowed.tolist() == [[True, False, False]]
    proposal = learner.propose()
    assert proposal.new_actions == ()
    before = learner.digest()
    for options, message in [
        ({"forever": True}, "there is no new action to forbid"),
        ({"forever": True, "actions": [0]}, "step 0 has no action left"),
        ({"forever": True, "actions": [3]}, "actions must be 0 to 2"),
        ({"forever": True, "actions": []}, "at least one"),
        ({"actions": [1]}, "say forever=True"),
        ({"forever": "yes"}, "forever must be True or False"),
    ]:
        with pytest.raises(ValueError, match=message):
            learner.reject(proposal, **options)
        assert learner.digest() == before


def test_what_is_forbidden_is_worth_nothing_to_the_step_before():
    """At step 1 action 1 pays 1 and action 0 nothing; without action 1 the value to go is 0."""
    learner = ls.LinearLearner(
        ls.linear(c=1e-9, ridge=1e-9, schedule="asked"),
        horizon=2,
        features=1,
        actions=2,
        episodes=9,
        gate="review",
        initial=steps(-1.0, -1.0),
    )
    x = np.ones((2, 2, 1))
    learner.tell(x, [[0, 0], [0, 1]], [[0.0, 0.0], [0.0, 1.0]], off_policy=True)
    assert learner.offsets[0] == pytest.approx(1.0)
    proposal = learner.propose()
    assert (1, 1) in proposal.new_actions
    learner.reject(proposal, forever=True)
    assert learner.offsets[0] == pytest.approx(0.0, abs=1e-6)


def test_an_open_gate_has_nothing_to_decide():
    learner = ls.LinearLearner(ls.linear(schedule="asked"), features=1, actions=2, episodes=9)
    learner.tell([1.0], learner.act([1.0]).action, 1.0)
    before = learner.policy
    made = learner.propose()  # which is deployed at once, as with tables
    assert made.policy is learner.policy
    assert (made.number, made.told, made.base) == (1, 1, before.identity)
    assert (learner.deployments, learner.proposal(), learner.propose()) == (1, None, None)
    with pytest.raises(ValueError, match='make it with gate="review"'):
        learner.approve()


# ---- one board for tables and features -----------------------------------------------------------


def test_a_withdrawn_proposal_leaves_the_budget_to_the_one_that_replaces_it():
    """The only proposal of the budget is withdrawn by a rollback; the determinant rule goes on."""
    learner = reviewed(ls.linucb(schedule="determinant/1.5", deployments=1))
    first = learner.policy
    tell(learner, 20)
    other = learner.proposal().policy
    learner.approve()
    assert learner.budget_spent
    learner = reviewed(ls.linucb(schedule="determinant/1.5", deployments=1))
    tell(learner, 20)
    assert learner.proposal() is not None
    learner.install(other)
    assert not learner.budget_spent
    tell(learner, 100)
    assert (learner.proposal() is not None, learner.proposed) == (True, 1)
    assert learner.policy.identity != first.identity


def test_dates_to_come_leave_out_those_that_have_passed():
    learner = reviewed()
    assert learner.dates.tolist() == [6, 21, 72]
    tell(learner, 25)
    assert learner.dates.tolist() == [72]


def test_what_means_nothing_for_features_is_refused():
    learner = reviewed()
    tell(learner, 10)
    for wrong, message in (
        (lambda: learner.approve(rows=[(0, 0)]), "decided on as a whole"),
        (lambda: learner.reject(visits=3), "a policy on features is not"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    assert learner.proposal() is not None
