"""An adversary who chooses starts: `benchmarks/adversary.py` in small numbers."""

import importlib
import sys
from pathlib import Path

import pytest

import lowswitch as ls
from lowswitch.reproduce.pseudocode import play_episode, start

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
adversary = importlib.import_module("adversary")
EPISODES = 800
LEARNER = ls.ucb2_bernstein(c=0.05)


@pytest.fixture(scope="module")
def mdp():
    return ls.envs.random_mdp(states=5, actions=3, horizon=5, seed=0)


def played(mdp, chooser):
    """The game one by one and in rounds."""
    return [
        play(mdp, LEARNER, chooser, 0, EPISODES)
        for play in (adversary.one_by_one, adversary.in_rounds)
    ]


def test_the_first_difference_by_hand():
    one, other = [[3, 0, 1, 1], [7, 0, 0, 1]], [[3, 0, 1, 1], [9, 0, 0, 1]]
    assert adversary.first_difference(one, other, 50) == 7
    assert adversary.first_difference(one, one[:1], 50) == 7
    assert adversary.first_difference(one, one, 50) == 50


def test_rounds_follow_the_sequential_run_unless_starts_look_at_estimates(mdp):
    for chooser, same in (("drawn", True), ("regret", True), ("estimates", False)):
        alone, together = played(mdp, chooser)
        assert (alone.changes == together.changes) == same, chooser
        assert len(alone.changes) > 100


def test_an_adversary_starts_where_most_is_lost(mdp):
    """His regret is the sum of what was lost at his starts, and more than that of drawn starts."""
    drawn, chosen = (
        adversary.one_by_one(mdp, LEARNER, chooser, 0, EPISODES) for chooser in ("drawn", "regret")
    )
    assert chosen.regret > drawn.regret
    assert (
        chosen.choose(0) == (mdp.optimal_values[0] - mdp.policy_values(chosen.policy)[0]).argmax()
    )
    assert drawn.choose(17) == start(mdp, 0, 17)
    assert play_episode(mdp, chosen.policy, 0, 3, first=4)[0][0] == 4
