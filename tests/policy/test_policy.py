"""A deployed policy acts, is compared with others, and has an identity."""

from typing import NamedTuple

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.kernels.streams import MEMBERS, learner_stream
from lowswitch.policy.tables import TablePolicy, change_rows

KEY = learner_stream(0, MEMBERS)


def policy(*actions, key=KEY):
    return TablePolicy(np.array(actions), np.uint64(key))


def test_a_table_acts():
    one = policy([[0, 1], [1, 0]])
    assert (one.act(1, episode=7, step=0), one.act(1, 8, 1)) == ((1, 1.0), (0, 1.0))
    assert one.members == 1
    assert one.member_for(np.arange(5)).tolist() == [0] * 5
    with pytest.raises(ValueError, match="read-only"):
        one.table(3)[0, 0] = 1


def test_each_episode_plays_the_member_that_is_drawn_for_it():
    two = policy([[0, 0]], [[1, 1]])
    drawn = two.member_for(np.arange(1000))
    assert 400 < drawn.sum() < 600
    assert [two.act(0, k) for k in range(50)] == [(m, 0.5) for m in drawn[:50].tolist()]


def test_the_kernels_draw_the_same_members():
    from lowswitch.kernels.arrays import KEYS
    from lowswitch.kernels.deploy import drawn_member

    class Spec(NamedTuple):
        members: int

    class Tables(NamedTuple):
        keys: np.ndarray

    drawn = policy(*([[k]] for k in range(7))).member_for(np.arange(300))
    tables = Tables(np.array([(0, KEY)], dtype=KEYS))
    assert drawn.tolist() == [drawn_member(Spec(7), tables, k) for k in range(300)]


def test_there_is_no_action_beyond_the_table():
    for step, state in [(-1, 0), (2, 0), (0, 2), (0, -1)]:
        with pytest.raises(
            ValueError, match=f"no step {step} with state {state}: steps are 0 to 1"
        ):
            policy([[0, 1], [1, 0]]).act(state, episode=0, step=step)


def test_differences_are_rows():
    one, other = policy([[0, 1], [1, 0]]), policy([[0, 1], [0, 1]])
    assert one.difference(other).tolist() == [[1, 0], [1, 1]]
    assert one.difference(one).tolist() == []
    with pytest.raises(ValueError, match=r"shapes \(1, 2, 2\) and \(1, 1, 2\)"):
        one.difference(policy([[0, 1]]))


def test_an_identity_is_shared_by_equal_policies_only():
    one = policy([[0, 1], [1, 0]])
    assert one.identity == policy([[0, 1], [1, 0]], key=5).identity  # nothing is drawn
    assert one.identity != policy([[0, 1, 1, 0]]).identity
    assert policy([[0]], [[1]]).identity != policy([[0]], [[1]], key=5).identity
    assert one.identity != policy([[0, 1], [0, 1]]).identity


def test_a_learner_says_what_it_has_deployed():
    learner = ls.Learner(ls.psrl(members=3), horizon=2, states=2, actions=2, episodes=9)
    before = learner.deployed
    for k in range(9):
        states, actions = [0, 1], [learner.policy[0, 0], learner.policy[1, 1]]
        assert learner.act(1, step=1) == learner.deployed.act(1, k, 1)
        assert learner.act(1, step=1).action == actions[1]
        changed = learner.tell(states, actions, [1.0, 0.0])
        rows = set() if changed is None else set(zip(changed.step, changed.state, strict=True))
        assert set(map(tuple, learner.deployed.difference(before))) == rows
        assert (learner.deployed.identity != before.identity) == bool(rows)
        before = learner.deployed


def test_changes_of_rows_are_applied_in_order():
    table = np.zeros((2, 3), dtype=np.int64)
    change_rows(table, np.array([[0, 1, 2], [1, 2, 1], [0, 1, 3]]))  # step, state, action
    assert table.tolist() == [[0, 3, 0], [0, 0, 1]]
    mixture = np.zeros((2, 1, 2), dtype=np.int64)
    change_rows(mixture, np.array([[0, 1, 4, 5]]))  # an action for each member
    assert mixture.tolist() == [[[0, 4]], [[0, 5]]]
