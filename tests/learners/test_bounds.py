"""Bounds of a learner: what they are of, when they hold, and who has none."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import PROBLEMS
from lowswitch.reproduce.pseudocode import play_episode


def taught(mdp, algorithm, episodes, **options):
    allowed = {"actions_allowed": mdp.actions_allowed}
    learner = ls.Learner(algorithm, **mdp.size, **allowed, episodes=episodes, **options)
    for k in range(episodes):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    return learner


def value_of(mdp, policies):
    return np.mean([mdp.at_start(mdp.policy_values(one)[0], 1) for one in policies])


def test_nothing_is_known_before_the_first_episode():
    learner = ls.Learner(ls.ucbvi(), horizon=3, states=2, actions=2, episodes=10)
    assert learner.bounds() == ((0.0, 3.0), None, 3.0, 3.0, 0.05)


@pytest.mark.parametrize(
    "algorithm",
    [
        ls.ucbvi(c=0.01),
        ls.ucbvi(c=0.01, pooled=True),
        ls.few(deployments=3, members=4),
        ls.mvp(c=0.001, data="all"),
        ls.mbie(c=0.1, most_visits=50),
    ],
    ids=["ucbvi", "pooled", "mixture", "all", "mbie"],
)
def test_true_values_lie_between(algorithm):
    mdp = PROBLEMS["dense"]()
    learner = taught(mdp, algorithm, 600)
    found, value = learner.bounds(), value_of(mdp, learner.mixture)
    low, high = found.value
    assert low <= value <= high <= found.best < mdp.horizon + 1e-9
    assert mdp.optimal_value() <= found.best
    assert mdp.optimal_value() - value <= found.gap <= found.best - low + 1e-9
    assert low > 0


def test_more_data_pooled_counts_and_a_larger_probability_are_narrower():
    mdp = PROBLEMS["dense"]()
    few, many = (taught(mdp, ls.ucbvi(c=0.01), n).bounds().gap for n in (300, 3000))
    assert many < few
    pooled = taught(mdp, ls.ucbvi(c=0.01, pooled=True), 3000)
    assert pooled.bounds().gap < many
    assert pooled.bounds(probability=0.5).gap < pooled.bounds(probability=0.05).gap


def test_a_known_start_law_helps():
    mdp = PROBLEMS["dense"]()
    learner = taught(mdp, ls.ucbvi(c=0.01), 300)
    known = learner.bounds(starts=mdp.start_law)
    assert known.value[0] >= learner.bounds().value[0]
    with pytest.raises(ValueError, match="probabilities of 4 first states"):
        learner.bounds(starts=[0.5, 0.5, 0.5, 0.0])


def test_any_policy_may_be_asked_about():
    mdp = PROBLEMS["dense"]()
    learner = taught(mdp, ls.ucbvi(c=0.01), 2000)
    never = np.zeros((3, 4), dtype=int)
    low, high = learner.bounds(never).value
    assert low <= value_of(mdp, [never]) <= high
    assert learner.bounds(never).gap > learner.bounds().gap


def test_a_proposal_has_bounds_of_its_own():
    mdp = PROBLEMS["dense"]()
    learner = taught(mdp, ls.few(deployments=2, members=4), 400, gate="review")
    pending = learner.proposal()
    low, high = learner.bounds().proposed
    assert low <= value_of(mdp, pending.put_into(learner.mixture)) <= high
    learner.approve()
    assert learner.bounds().value == pytest.approx((low, high))
    assert learner.bounds().proposed is None


def test_what_was_forbidden_later_no_longer_counts_as_best():
    """V* of a mask that was chosen from the data is not one function, so its budget is larger."""
    mdp = PROBLEMS["dense"]()
    learner = taught(mdp, ls.few(deployments=2, members=4), 400, gate="review")
    before = learner.bounds().best
    row = next(row for row in learner.proposal().rows if row.new_actions)
    learner.reject(rows=[row.row], forever=True)
    cells = learner._knowledge.cell_bounds(0.05)
    allowed = learner.actions_allowed
    assert (cells.best(allowed, chosen=True) >= cells.best(allowed, chosen=False)).all()
    assert learner.bounds().best == cells.at_start(cells.best(allowed, chosen=True))
    assert before <= mdp.horizon


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (ls.ucb2_hoeffding(), "a Q-learner keeps none; use a learner that plans from counts"),
        (ls.mvp(), 'use mvp\\(data="all"\\)'),
    ],
)
def test_who_has_no_bounds_says_so(algorithm, message):
    learner = ls.Learner(algorithm, horizon=2, states=2, actions=2, episodes=10)
    with pytest.raises(ValueError, match=message):
        learner.bounds()


def test_a_probability_lies_between_0_and_1():
    learner = ls.Learner(ls.ucbvi(), horizon=2, states=2, actions=2, episodes=10)
    with pytest.raises(ValueError, match="probability must lie strictly between 0 and 1, not 5"):
        learner.bounds(probability=5)


def test_saved_learners_have_the_same_bounds(tmp_path):
    learner = taught(PROBLEMS["per-step"](), ls.ucbvi(c=0.01), 200)
    learner.save(tmp_path / "learner.npz")
    assert ls.Learner.load(tmp_path / "learner.npz").bounds() == learner.bounds()


def test_one_more_deployment_is_worth_what_it_would_gain():
    """A mixture explores, so that one policy that exploits gains: few learns from all its plays."""
    mdp = PROBLEMS["dense"]()
    learner = ls.Learner(ls.few(deployments=8, members=4), **mdp.size, episodes=2000)
    for k in range(100):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    before = learner.digest()
    more = learner.one_more()
    assert learner.digest() == before
    assert more.value > more.other
    assert more.better > 0.5
    assert more.value == learner.confidence(learner._knowledge.exploiting()).value
    assert more.other == pytest.approx(learner.confidence().value)
    with pytest.raises(ValueError, match="have a posterior"):
        ls.Learner(ls.stage_q(), horizon=1, states=1, actions=2, episodes=9).one_more()
