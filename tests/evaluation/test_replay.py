"""Replays on randomised logs: what is told, and that it has the law of a real run."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.evaluation import Log, replay


def learner(episodes, seed=0, **options):
    size = {"features": 2, "actions": 3, "episodes": episodes}
    return ls.Learner(ls.few(deployments=3), **size, seed=seed, **options)


def randomised(n, seed=0, shared=True):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 2) if shared else (n, 3, 2))
    actions = generator.integers(3, size=n)
    return Log(x, actions, actions + 0.1 * generator.normal(size=n), np.full(n, 1 / 3))


@pytest.mark.parametrize("shared", [True, False])
def test_a_sample_is_told_if_the_policy_chooses_its_action(shared):
    log, twin, one = randomised(90, shared=shared), *(learner(50, shared=shared) for _ in range(2))
    told = list(replay(one, log))
    for place in range(90):
        if twin.act(log.contexts[place]).action == log.actions[place]:
            assert place == told[twin.told]
            twin.tell(log.contexts[place], log.actions[place], log.rewards[place])
    assert len(told) == one.told == twin.told
    assert one.digest() == twin.digest()


def test_it_ends_when_all_episodes_are_told():
    one = learner(4)
    assert len(list(replay(one, randomised(200)))) == one.told == 4


def test_a_board_can_decide_between_two_samples():
    one, looks = learner(60, gate="review"), 0
    for _ in replay(one, randomised(300)):
        if one.proposal() is not None:
            one.approve(one.proposal())
            looks += 1
    assert looks == one.deployments == 3


def test_what_is_told_has_the_mean_of_a_real_run():
    """Action a pays a: 60 replays of 8 samples against 60 real runs, within 4.5 standard errors.

    The seeds are fixed; on new ones a false alarm has a probability of 1e-5.
    """
    replayed, real = [], []
    for seed in range(60):
        log, one = randomised(80, seed), learner(8, seed)
        replayed.append(np.mean([log.rewards[place] for place in replay(one, log)]))
        generator, other = np.random.default_rng([seed, 1]), learner(8, seed + 1000)
        paid = []
        for _ in range(8):
            x = generator.normal(size=2)
            choice = other.act(x)
            paid.append(choice.action + 0.1 * generator.normal())
            other.tell(x, choice.action, paid[-1])
        real.append(np.mean(paid))
    error = np.sqrt((np.var(replayed) + np.var(real)) / 60)
    assert abs(np.mean(replayed) - np.mean(real)) < 4.5 * error


def test_an_uneven_log_is_refused():
    log = randomised(10)
    uneven = Log(log.contexts, log.actions, log.rewards, np.r_[np.full(9, 1 / 3), 0.5])
    with pytest.raises(ValueError, match=r"each of 3 actions .* not 0.5 \(sample 9\)"):
        next(replay(learner(9), uneven))
    steps = ls.Learner(ls.few(deployments=1), features=2, actions=3, episodes=9, horizon=2)
    with pytest.raises(ValueError, match="this learner has 2"):
        next(replay(steps, log))
