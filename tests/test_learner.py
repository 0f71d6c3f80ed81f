"""Ask and tell: the same history as the simulator, nothing lost on bad input, resumed bit for bit."""

import numpy as np
import pytest

import lowswitch as ls
from plain import play_episode

EPISODES = 300


def learner_for(mdp, algorithm, episodes=EPISODES):
    return ls.Learner(
        algorithm, horizon=mdp.horizon, states=mdp.states, actions=mdp.actions, episodes=episodes, actions_allowed=mdp.actions_allowed
    )


def converse(mdp, learner, first, last, seed=0):
    """Play and tell one by one; return the trajectories and the changes."""
    trajectories, changes = [], []
    for k in range(first, last):
        trajectories.append(play_episode(mdp, learner.policy, seed, k))
        switch = learner.tell(*trajectories[-1])
        changes += [] if switch is None else switch.changes.tolist()
    return trajectories, changes


def state_of(learner):
    return [learner.told, learner.policy.tolist(), *(array.tobytes() for array in learner._tables)]


def test_ask_and_tell_is_the_simulator(mdp, algorithm):
    learner = learner_for(mdp, algorithm)
    _, changes = converse(mdp, learner, 0, EPISODES)
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True)
    assert changes == runs.history[0].changes.tolist()
    assert (learner.policy == runs.policy[0]).all()
    assert learner.visits.sum() == EPISODES * mdp.horizon


def test_one_by_one_is_in_batches(mdp, algorithm):
    single, batched = learner_for(mdp, algorithm), learner_for(mdp, algorithm)
    trajectories, changes = converse(mdp, single, 0, EPISODES)
    told = []
    for batch in np.split(np.arange(EPISODES), [1, 2, 9, 100, 101, 250]):
        switch = batched.tell(*(np.array([trajectories[k][i] for k in batch]) for i in range(3)))
        told += [] if switch is None else switch.changes.tolist()
    assert told == changes
    assert state_of(single) == state_of(batched)


def test_stop_save_load_go_on(mdp, algorithm, tmp_path):
    straight = learner_for(mdp, algorithm)
    converse(mdp, straight, 0, EPISODES)
    half = learner_for(mdp, algorithm)
    converse(mdp, half, 0, 140)
    half.save(tmp_path / "half.npz")
    resumed = ls.Learner.load(tmp_path / "half.npz")
    assert resumed.algorithm == algorithm
    converse(mdp, resumed, 140, EPISODES)
    assert state_of(resumed) == state_of(straight)


def small(episodes=10, **options):
    return ls.Learner(ls.ucb2_hoeffding(c=0.1), horizon=2, states=3, actions=2, episodes=episodes, **options)


def test_the_policy_is_read_only_and_a_snapshot():
    learner = small()
    before = learner.policy
    with pytest.raises(ValueError, match="read-only"):
        before[0, 0] = 1
    switch = learner.tell([0, 0], [0, 0], [0.0, 0.0])
    assert switch.changes.tolist() == [[0, 1, 0, 1]]  # bonus 0.75: at step 0 the estimate is 2.75, at step 1 it falls below 2
    assert (switch.local_switches, switch.deployments) == (1, 1)
    assert before.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert learner.policy.tolist() == [[0, 0, 0], [1, 0, 0]]


def test_the_state_after_the_last_step_may_be_told_and_does_not_matter():
    one, two = small(), small()
    one.tell([0, 1], [0, 0], [0.5, 0.5])
    two.tell([0, 1, 2], [0, 0], [0.5, 0.5])
    assert state_of(one) == state_of(two)


def test_no_change_is_none_and_an_empty_batch_too():
    learner = small()
    assert learner.tell(np.zeros((0, 2), int), np.zeros((0, 2), int), np.zeros((0, 2))) is None
    assert small(episodes=10**9).tell([0, 0], [0, 0], [1.0, 1.0]) is None


def test_off_policy_actions_are_learned_when_meant():
    learner = small()
    learner.tell([0, 1], [1, 1], [1.0, 0.0], off_policy=True)
    assert learner.visits[0, 0].tolist() == [0, 1]
    plain = ls.Learner(ls.ucb_hoeffding(c=0.1), horizon=1, states=1, actions=3, episodes=100)
    for a, reward in ((0, 0.0), (1, 1.0), (2, 0.4), (1, 0.9), (0, 0.1), (2, 0.5)):
        plain.tell([0], [a], [reward], off_policy=True)
        assert plain.policy[0, 0] == plain.q[0, 0].argmax()  # every visit is a trigger: greedy throughout
        assert plain._tables.rows["value"][0] == min(1.0, plain.q[0, 0].max())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (([0], [0], [0.0]), r"an episode is 2 states, actions and rewards .* not arrays of shapes \(1,\), \(1,\) and \(1,\)"),
        (([0, 0, 0, 0], [0, 0], [0.0, 0.0]), r"shapes \(4,\)"),
        (([0, 0], [0, 0], [0.0]), r"shapes \(2,\), \(2,\) and \(1,\)"),
        (([0, 3], [0, 0], [0.0, 0.0]), "states must be 0 to 2, not 0 to 3"),
        (([-1, 0], [0, 0], [0.0, 0.0]), "states must be 0 to 2, not -1 to 0"),
        (([0, 0], [0, 2], [0.0, 0.0]), "actions must be 0 to 1, not 0 to 2"),
        (([0.5, 0.0], [0, 0], [0.0, 0.0]), "states must be integers, not float64"),
        (([0, 0], [0, 0], [0.0, 1.5]), r"rewards must lie in \[0, 1\], not \[0, 1.5\]"),
        (([0, 0], [0, 0], [0.0, np.nan]), r"rewards must lie in \[0, 1\]"),
        (([0, 0], [0, 1], [0.0, 0.0]), "plays action 1 at step 1 in state 0 where the policy plays 0.*off_policy=True"),
        (([[0, 0]] * 11, [[0, 0]] * 11, [[0.0, 0.0]] * 11), "made for 10 episodes and has been told 0"),
    ],
)
def test_a_failed_tell_changes_nothing(told, message):
    learner = small()
    before = state_of(learner)
    with pytest.raises(ValueError, match=message):
        learner.tell(*told)
    assert state_of(learner) == before


def test_a_batch_that_goes_off_policy_in_the_middle_changes_nothing():
    learner = small()
    before = state_of(learner)
    with pytest.raises(ValueError, match="episode 2 of the batch .* the policy changed after episode 0 of this batch"):
        learner.tell([[0, 0], [1, 1], [0, 0]], [[0, 0]] * 3, [[0.0, 0.0]] * 3)
    assert state_of(learner) == before


def test_forbidden_actions_cannot_be_told():
    allowed = np.array([[True, False], [True, True], [True, True]])
    with pytest.raises(ValueError, match="action 1 is not allowed at step 1 in state 0"):
        small(actions_allowed=allowed).tell([1, 0], [0, 1], [0.0, 0.0], off_policy=True)


@pytest.mark.parametrize("name", ["horizon", "states", "actions", "episodes"])
def test_sizes_below_one_are_refused(name):
    sizes = {"horizon": 2, "states": 3, "actions": 2, "episodes": 10} | {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 1"):
        ls.Learner(ls.ucb_hoeffding(), **sizes)


def test_loud_share():
    learner = ls.Learner(ls.ucb_hoeffding(c=10), horizon=1, states=1, actions=1, episodes=10)
    assert learner.loud_share == 0
    learner.tell([0], [0], [0.0])
    assert learner.loud_share == 1
