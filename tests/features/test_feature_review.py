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


# ---- policies ------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match=f"{next(iter(option))} applies to tables"):
        reviewed(ls.few(deployments=3, **option))


def test_files_say_the_shape(tmp_path):
    learner = reviewed()
    learner.save(tmp_path / "learner.npz")
    learner.policy.save(tmp_path / "policy.npz")
    shape = {"horizon": 1, "features": 2, "actions": 3, "shared": True}
    for name in ("learner", "policy"):
        facts, _ = storage.read(tmp_path / f"{name}.npz", f"linear {name}")
        assert facts["shape"] == shape


def test_the_last_proposal_of_a_budget_is_one_policy():
    learner, found = reviewed(), []  # the dates are 6, 21 and 72
    for until in (10, 30, 80):
        tell(learner, until - learner.told)
        found.append(learner.proposal())
        assert learner.approve().policy is learner.policy is found[-1].policy
    assert [made.last for made in found] == [False, False, True]
    assert [made.policy.members for made in found] == [4, 4, 1]


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
        ({"actions": [1]}, "add forever=True"),
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
