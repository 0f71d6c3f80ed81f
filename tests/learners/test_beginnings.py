"""What is played before the first change: policies that explore, a trial, or what was chosen."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import random_tables
from lowswitch.learners.beginnings import exploring_policies

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.runs.simulate.NothingLearnedWarning")


def test_every_action_is_played_about_equally_often_and_some_policies_do_the_same_everywhere():
    """Of 64 members 32 choose by row, 16 by state and 16 not at all: of three actions each has 10
    or 11 of the first and 5 or 6 of both others, so 20 to 23 in every row.
    """
    policies = exploring_policies(np.ones((3, 4, 3), dtype=bool), 64)
    for h, x in np.ndindex(3, 4):
        assert all(20 <= count <= 23 for count in np.bincount(policies[:, h, x], minlength=3))
    by_state = (policies == policies[:, :1]).all(axis=(1, 2))
    same = (policies == policies[:, :1, :1]).all(axis=(1, 2))
    assert by_state[32:].all()
    assert same[48:].all()
    assert by_state[:32].sum() < 2
    assert (policies == exploring_policies(np.ones((3, 4, 3), dtype=bool), 64)).all()
    arms = exploring_policies(np.ones((1, 1, 30), dtype=bool), 64)
    assert set(np.bincount(arms.reshape(-1))) == {2, 3}


def test_only_allowed_actions_are_played():
    allowed = np.random.default_rng(0).random((3, 5, 3)) < 0.5
    allowed[..., 0] |= ~allowed.any(axis=-1)
    for members in (1, 2, 3, 64):
        policies = exploring_policies(allowed, members)
        assert policies.shape == (members, 3, 5)
        assert all(allowed[h, x, a] for h, x in np.ndindex(3, 5) for a in policies[:, h, x])


def problem(law="bernoulli"):
    return ls.TabularMDP(*random_tables(4, 3, 5), horizon=3, reward_law=law)


def test_who_explores_first():
    """Without a policy and with an open gate; elsewhere only if it was declared."""
    mdp, initial = problem(), np.arange(12).reshape(3, 4) % 3

    def share(**options):  # of the members that do not play the first one's policy
        few = {key: options.pop(key) for key in ("first", "floor", "trial") if key in options}
        learner = ls.Learner(ls.few(deployments=2, **few), **mdp.size, episodes=200, **options)
        assert learner.deployments == learner.local_switches == 0
        return (learner.mixture != learner.mixture[0]).any(axis=(1, 2)).mean()

    assert share() > 0.9
    assert share(first="explore", gate="review") > 0.9
    assert share(gate="review") == share(first="lowest") == share(initial=initial) == 0
    # 3/4 of 2.5 % of 200 cases are 3.75 of the 16 until the first date
    assert share(initial=initial, first="explore") == 15 / 64
    assert share(initial=initial, first="explore", floor=0.9) == 6 / 64
    assert share(initial=initial, first="explore", trial=0.25) == 16 / 64
    with pytest.raises(ValueError, match="first must be"):
        ls.few(deployments=2, first="soon")


def test_one_deployment_learns():
    """Two arms that pay 0.2 and 0.8: after the only change the better one is played."""
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), np.array([[0.2, 0.8]]), horizon=1)
    runs = ls.simulate(mdp, ls.few(deployments=1), episodes=200, seeds=4, history=True)
    assert (runs.policy == 1).all()
    assert (runs.deployments == 1).all()
    # 15 visits of each arm; before, half of the members play each
    assert runs.regret == pytest.approx(30 * 0.3)
    assert runs.first_value == pytest.approx(0.5)
    assert [
        ls.exact_regret(mdp, one, episodes=200, initial=runs.initial) for one in runs.history
    ] == (pytest.approx(runs.regret))


def test_a_first_mixture_is_kept_in_files(tmp_path):
    mdp = problem()
    runs = ls.simulate(mdp, ls.few(deployments=2, members=4), episodes=60, seeds=2, history=True)
    runs.save(tmp_path / "runs.npz")
    again = ls.load(tmp_path / "runs.npz")
    assert again.initial.shape == (4, 3, 4)
    assert [one.local_switches for one in again.history] == runs.local_switches.tolist()
    mixture = again.pac_policy(1)
    mixture.save(tmp_path / "mixture.npz")
    found = ls.PacPolicy.load(tmp_path / "mixture.npz").evaluate(mdp)
    assert found == pytest.approx(mdp.optimal_value() - runs.regret[1] / 60)
    with pytest.raises(
        ValueError, match="the initial mixture has 3 members, but the history has 4"
    ):
        ls.exact_regret(mdp, runs.history[0], episodes=60, initial=runs.initial[:3])
