"""What one changed row is worth by the learner's posterior: by one sweep, and by brute force."""

import numpy as np
import pytest

import lowswitch as ls
from conftest import random_tables
from lowswitch.kernels.model_draws import draw_step, fresh_drawn, model_key
from lowswitch.learners.posterior import models_for
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.review.proposals import ProposedRow


def learned(mdp, algorithm, episodes):
    """A learner that was told episodes of random actions, nothing of which was approved."""
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    learner = ls.Learner(algorithm, **size, episodes=1000, gate="review")
    generator = np.random.default_rng(0)
    shape = mdp.horizon, mdp.states
    played = [
        play_episode(mdp, generator.integers(0, mdp.actions, shape), 0, k) for k in range(episodes)
    ]
    learner.tell(*(np.stack(part) for part in zip(*played, strict=True)), off_policy=True)
    return learner


def random_change(learner, seed):
    """Deployed policies [L, H, S], and another action or two for each row."""
    generator, (L, H, S) = np.random.default_rng(seed), learner.mixture.shape
    policies, wanted = generator.integers(0, learner.actions, (2, L, H, S))
    rows = [
        ProposedRow(h, x, tuple(policies[:, h, x].tolist()), tuple(wanted[:, h, x].tolist()))
        for h in range(H)
        for x in range(S)
    ]
    return policies, rows


def drawn_tables(posterior, number, belief=None):
    """The laws [H, S, A, S] and rewards [H, S, A] of a model of the posterior, or of a belief."""
    spec, belief = posterior.spec, belief or posterior.belief
    H, S, A = spec.H, spec.S, spec.A
    drawn, counter, seen = fresh_drawn(spec, belief.laws), np.zeros(1, np.uint64), np.zeros(S)
    laws, rewards = np.zeros((H, S * A, S)), np.zeros((H, S, A))
    key = np.uint64(model_key(posterior.stream, number))
    for h in range(H - 1, -1, -1):
        draw_step(spec, belief, h, key, drawn, counter, seen)
        rewards[h] = drawn.rewards.reshape(S, A)
        for i in range(S * A):
            listed = slice(drawn.starts[i], drawn.starts[i] + drawn.sizes[i])
            np.add.at(laws[h, i], drawn.states[listed], drawn.weights[listed])
            laws[h, i] += drawn.rest[i] / S
    return laws.reshape(H, S, A, S), rewards


def exact_value(tables, starts, policy):
    """The value of a policy [H, S] by backward induction."""
    laws, rewards = tables
    H, S = policy.shape
    states, values = np.arange(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        following = laws[h, states, policy[h]] @ values if h + 1 < H else 0.0
        values = rewards[h, states, policy[h]] + following
    return starts @ values


def problem(states, actions, seed, *steps, horizon=3):
    """A random problem whose episodes begin in any state."""
    start = np.full(states, 1 / states)
    return ls.TabularMDP(
        *random_tables(states, actions, seed, *steps), horizon=horizon, start=start
    )


PROBLEMS = {
    "steps alike": lambda: problem(4, 3, 1),
    "steps apart": lambda: problem(4, 3, 2, 3),
    "many states": lambda: problem(40, 2, 3),
    "one step": lambda: problem(3, 3, 4, horizon=1),
}


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_one_sweep_gives_what_two_exact_evaluations_give(name, members):
    mdp = PROBLEMS[name]()
    learner = learned(mdp, ls.few(deployments=3, asked=True, members=members), 200)
    posterior = learner._knowledge.posterior()
    if mdp.horizon > 1:
        assert (posterior.belief.laws.stride == 0) == (name != "steps apart")
    policies, rows = random_change(learner, seed=members)
    gains = posterior.row_gains(policies, rows, 3)
    assert (np.abs(gains) > 1e-4).mean() > 0.5
    for number in range(3):
        tables = drawn_tables(posterior, number)
        now = [exact_value(tables, posterior.starts, policy) for policy in policies]
        for r, row in enumerate(rows):
            changed = policies.copy()
            changed[:, row.step, row.state] = row.proposed
            new = [exact_value(tables, posterior.starts, policy) for policy in changed]
            assert gains[number, r] == pytest.approx(np.mean(new) - np.mean(now), abs=1e-12)


def test_the_probability_of_a_row_is_what_confidence_says_of_it():
    learner = learned(PROBLEMS["steps alike"](), ls.few(deployments=3, asked=True, members=1), 60)
    (policy,), rows = random_change(learner, seed=0)
    found = learner._knowledge.posterior().probabilities(policy[None], rows)
    for row, probability in zip(rows, found, strict=True):
        changed = policy.copy()
        changed[row.step, row.state] = row.proposed[0]
        assert probability == learner.confidence(changed, policy).better
    assert found.min() < 0.1 < 0.9 < found.max()


def told_rewards(*rewards):
    """A learner of one state and step that was told these rewards of its actions."""
    size = {"horizon": 1, "states": 1, "actions": len(rewards), "episodes": 100}
    learner = ls.Learner(ls.few(deployments=2, asked=True, members=2), **size, gate="review")
    for a, paid in enumerate(rewards):
        for reward in paid:
            learner.tell([0], [a], [reward], off_policy=True)
    return learner


def test_the_gain_of_a_mixture_by_hand():
    """Rewards that never vary are known: 0.25 and 0.75. One of two members changes."""
    posterior = told_rewards([0.25] * 2, [0.75] * 2)._knowledge.posterior()
    row = ProposedRow(0, 0, (0, 0), (0, 1))
    gains = posterior.row_gains(np.zeros((2, 1, 1), dtype=np.int64), [row], 5)
    assert (gains == 0.25).all()


def test_equal_rewards_are_a_tie_though_their_sums_are_rounded():
    """(0.1 + 0.1 + 0.1) / 3 is not 0.1."""
    posterior = told_rewards([0.1] * 2, [0.1] * 3)._knowledge.posterior()
    row, policies = ProposedRow(0, 0, (0, 0), (1, 1)), np.zeros((2, 1, 1), dtype=np.int64)
    assert (posterior.row_gains(policies, [row], 5) > 0).all()
    assert posterior.probabilities(policies, [row]) == 0.5


def test_what_is_learned_later_does_not_change_it():
    mdp = PROBLEMS["steps apart"]()
    learner = learned(mdp, ls.few(deployments=3, asked=True, members=2), 50)
    posterior, (policies, rows) = learner._knowledge.posterior(), random_change(learner, seed=1)
    before = posterior.row_gains(policies, rows, 3)
    for k in range(50, 80):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
    assert (posterior.row_gains(policies, rows, 3) == before).all()
    assert (learner._knowledge.posterior().row_gains(policies, rows, 3) != before).any()


def test_a_q_learner_has_none():
    size = {"horizon": 1, "states": 1, "actions": 2, "episodes": 9}
    assert ls.Learner(ls.ucb2_hoeffding(), **size)._knowledge.posterior() is None


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_row_has_the_same_gain_whichever_others_are_asked_about(name):
    learner = learned(PROBLEMS[name](), ls.few(deployments=3, asked=True, members=3), 50)
    posterior, (policies, rows) = learner.posterior(), random_change(learner, seed=2)
    together = posterior.row_gains(policies, rows, 2)
    for r in (0, len(rows) // 2, len(rows) - 1):
        assert (posterior.row_gains(policies, [rows[r]], 2)[:, 0] == together[:, r]).all()


def test_how_many_models_judge_the_rows():
    clinic, sepsis = np.zeros((64, 6, 12)), np.zeros((64, 20, 716))
    assert [models_for(clinic, rows) for rows in (1, 20, 72, 500)] == [400, 400, 1440, 2000]
    assert models_for(sepsis, 500) == 100
