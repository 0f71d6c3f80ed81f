"""The policy that logged episodes can vouch for: VI-LCB."""

import math

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.evaluation import Episodes
from lowswitch.evaluation.pessimism import lower_mean


def test_the_lower_mean_by_hand():
    """Ten numbers with mean 0.8 and variance 0.02 in [0, 2], L = 0.1, c = 1:
    0.8 - sqrt(2 * 0.02 * 0.1 / 10) - 7 * 2 * 0.1 / (3 * 9) = 0.8 - 0.02 - 0.0518519.
    """
    found = lower_mean(0.8, 0.02, 10, 2.0, 0.1, 1.0)
    assert found == pytest.approx(0.8 - 0.02 - 1.4 / 27)
    assert lower_mean(0.8, 0.02, 10, 2.0, 0.1, 0.5) == pytest.approx(0.8 - 0.01 - 0.7 / 27)
    assert lower_mean(0.8, 0.02, 10, 2.0, 100.0, 1.0) == 0
    assert lower_mean(0.8, 0.0, 1, 2.0, 0.1, 1.0) == 0


def log_of(generator, n, H=3, S=3, A=2, chance=0.7):
    """Episodes of a problem whose action 1 pays more, logged mostly by action 0; state 2 bars 1."""
    states, actions = np.zeros((2, n, H), dtype=int)
    rewards, x = np.zeros((n, H)), np.zeros(n, dtype=int)
    for h in range(H):
        a = (generator.random(n) > chance).astype(int) * (x < 2)
        states[:, h], actions[:, h] = x, a
        rewards[:, h] = generator.random(n) < 0.3 + 0.4 * a
        x = np.minimum(S - 1, generator.integers(S, size=n))
    return Episodes(states, actions, rewards)


def true_value(policy, H=3, S=3):
    """The value of a policy in the problem of `log_of`; states follow uniformly."""
    reach, total = np.eye(S)[0], 0.0
    for h in range(H):
        total += (reach * (0.3 + 0.4 * (policy[h] == 1))).sum()
        reach = np.full(S, 1 / S)
    return total


def twin(log, S, A, c, p):
    """VI-LCB with loops over lists."""
    n, H = log.states.shape
    L = math.log(2 * (H * S * A + 1) / p)

    def bound(found, most):
        if len(found) < 2:
            return 0.0
        spread = np.var(found, ddof=1)
        width = math.sqrt(2 * spread * L / len(found)) + 7 * most * L / (3 * (len(found) - 1))
        return max(0.0, np.mean(found) - c * width)

    policy, after = np.zeros((H, S), dtype=int), [0.0] * S
    for h in reversed(range(H)):
        now = [0.0] * S
        for x in range(S):
            q, tried = [], []
            for a in range(A):
                here = [i for i in range(n) if log.states[i, h] == x and log.actions[i, h] == a]
                targets = [
                    log.rewards[i, h] + (after[log.states[i, h + 1]] if h + 1 < H else 0.0)
                    for i in here
                    if i % (H + 1) == h
                ]
                q.append(bound(targets, H - h))
                tried.append(len(here))
            best = max((a for a in range(A) if tried[a]), key=lambda a: (q[a], tried[a]), default=0)
            policy[h, x], now[x] = best, q[best]
        after = now
    first = [after[log.states[i, 0]] for i in range(n) if i % (H + 1) == H]
    return policy, bound(first, H)


@pytest.mark.parametrize("c", [1.0, 0.05])
def test_it_equals_a_plain_twin(c):
    log = log_of(np.random.default_rng(1), 400)
    found = ls.vi_lcb(log, states=3, actions=2, c=c)
    policy, lower = twin(log, 3, 2, c, 0.05)
    assert (found.policy == policy).all()
    assert found.lower == pytest.approx(lower)


def test_it_never_plays_what_was_never_tried_where_anything_was():
    """Action 1 is never logged in state 2, action 2 nowhere, and step 0 only reaches state 0."""
    for seed in range(20):
        log = log_of(np.random.default_rng(seed), 60)
        found = ls.vi_lcb(log, states=3, actions=3, c=0.01, initial=np.full((3, 3), 2))
        seen = np.zeros((3, 3, 3), dtype=bool)
        seen[np.arange(3), log.states, log.actions] = True
        chosen = np.take_along_axis(seen, found.policy[..., None], axis=2)[..., 0]
        assert (chosen | ~seen.any(axis=2)).all()
        assert (found.policy[0, 1:] == 2).all()  # rows that the log never reaches keep the initial
        assert ((found.tried > 0) == chosen).all()


def test_with_much_data_it_plays_the_better_action_and_says_nearly_what_it_is_worth():
    log = log_of(np.random.default_rng(2), 200_000)
    found = ls.vi_lcb(log, states=3, actions=2)
    value = true_value(found.policy)
    assert (found.policy == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]).all()
    assert value - 0.15 <= found.lower <= value


@pytest.mark.slow
def test_its_lower_value_holds():
    """200 logs of 4,000 episodes, seed 3; at most 5 % may fail, and the bound is so careful that
    none does.
    """
    generator = np.random.default_rng(3)
    for _ in range(200):
        found = ls.vi_lcb(log_of(generator, 4000), states=3, actions=2, p=0.05)
        assert 0 < found.lower <= true_value(found.policy)


def test_rewards_of_another_range_give_the_same_policy():
    """Rewards 10 r - 4: values are 10 times as large, less 4 for each step that is left."""
    log = log_of(np.random.default_rng(4), 3000)
    moved = Episodes(log.states, log.actions, 10 * log.rewards - 4)
    one = ls.vi_lcb(log, states=3, actions=2)
    other = ls.vi_lcb(moved, states=3, actions=2, rewards=(-4, 6))
    assert (one.policy == other.policy).all()
    assert other.lower == pytest.approx(10 * one.lower - 12)
    assert other.values == pytest.approx(10 * one.values - [[12], [8], [4]])


def test_an_episode_that_ended_earns_nothing_more():
    """With rewards in [-1, 1], an ended episode has 0 for each step that is left, not -1."""
    n = 3000
    log = Episodes(np.zeros((n, 2), int), [[0, -1]] * n, [[0.5, 0.0]] * n)
    found = ls.vi_lcb(log, states=1, actions=1, rewards=(-1, 1))
    assert 0.3 <= found.lower <= 0.5


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"states": 2}, "states must be 0 to 1"),
        ({"actions": 1}, "actions must be 0 to 0"),
        ({"rewards": (0.0, 0.5)}, "give their range as rewards="),
        ({"c": 0}, "c must be"),
        ({"p": 1}, "p must lie strictly between 0 and 1"),
        ({"initial": [[0, 0]]}, "a policy must be integers"),
    ],
)
def test_what_cannot_be_right_is_refused(more, message):
    facts = {"states": 3, "actions": 2}
    with pytest.raises(ValueError, match=message):
        ls.vi_lcb(log_of(np.random.default_rng(0), 50), **facts | more)
