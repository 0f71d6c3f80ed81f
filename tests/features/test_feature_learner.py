"""Learners with features: the same to the bit however they are told, and what must not get in."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.io import storage
from lowswitch.kernels.streams import MEMBERS, drawn_member, drawn_members, learner_stream
from lowswitch.policy.shape import Shape


def bandit(algorithm, episodes=100, features=1, actions=1, **options):
    return ls.LinearLearner(
        algorithm, features=features, actions=actions, episodes=episodes, **options
    )


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
    scores = np.concatenate([policy.scores(row[None], 0) for row in x])
    assert (scores == policy.scores(x, 0)).all()
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
        ("factor", -arrays["factor"], "its factor does not belong to a positive matrix"),
        ("moment", arrays["moment"] * np.nan, "moment has entries that are not numbers"),
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
    with pytest.raises(ValueError, match="share no contexts"):
        up.difference(bandit(ls.linear(), features=2, actions=2).policy, contexts)


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (([1.0, 2.0, 3.0], 0, 0.5), "each with features of a vector of 2 numbers"),
        (([1.0, math.nan], 0, 0.5), "feature 1 is NaN; fill in missing features"),
        (([[1.0, 2.0], [math.nan, 0.0]], [0, 0], [0.5, 0.5]), "feature 0 of episode 1 is NaN"),
        (
            ([[1.0, 2.0], [3.0]], [0, 0], [0.5, 0.5]),
            "all feature vectors must have the same length",
        ),
        (([1.0, math.inf], 0, 0.5), r"is inf; .* standardise the features"),
        (([1.0, 1e60], 0, 0.5), r"is 1e\+60; .* standardise the features"),
        (([1.0, 2.0], 3, 0.5), "actions must be 0 to 2"),
        (([1.0, 2.0], -1, 0.5), "its first action cannot be -1"),
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
        (lambda: ls.linear(schedule="growth/2"), "counts visits to states"),
        (lambda: ls.linear(schedule="whole/2/3"), "counts visits to states"),
        (lambda: ls.linear(schedule="determinant/budget"), "give deployments=N too"),
        (lambda: ls.linear(deployments=3, last="exploit"), 'use last="greedy"'),
        (lambda: ls.linucb(scales=(1, 0.1)), "takes only one scale"),
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
        (lambda: ls.linear(draws="greedy"), 'draws must be "plain" or "optimistic"'),
        (lambda: bandit(ls.linear()).act([math.nan]), "feature 0 is NaN; fill in"),
        (lambda: bandit(ls.linear()).act([1.0], step=0.5), "there is no step 0.5"),
        (lambda: bandit(ls.linear()).policy.act([1.0], 1.5), "episode must be a whole number"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_way_out(make, message):
    with pytest.raises(ValueError, match=message):
        make()
