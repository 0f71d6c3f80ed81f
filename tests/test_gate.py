"""The gate: what is wanted and what is deployed are kept apart, for every kind of learner."""

import dataclasses

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, learner_for
from exam import in_turn
from lowswitch.reproduce.plain import play_episode
from test_learner import state_of

EPISODES = 160


def behind_gate(mdp, algorithm, episodes=EPISODES, **options):
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    return ls.Learner(
        algorithm,
        **size,
        episodes=episodes,
        actions_allowed=mdp.actions_allowed,
        gate="review",
        **options,
    )


def play(mdp, learner, episodes, decide=None, seed=0):
    """Play and tell episodes one by one; `decide` is called whenever something is proposed."""
    changes = []
    for k in range(learner.told, learner.told + episodes):
        learner.tell(*play_episode(mdp, learner.policy, seed, k))
        if learner.proposal() is not None and decide is not None:
            switch = decide(learner)
            changes += [] if switch is None else switch.changes.tolist()
    return changes


def with_dates(algorithm, dates):
    """The same estimator and bonus for a board that meets on dates."""
    schedule, asked = algorithm.schedule, ls.parts.Asked(dates)
    if isinstance(schedule, ls.parts.Budget):
        asked = dataclasses.replace(schedule, schedule=asked)
    return dataclasses.replace(algorithm, schedule=asked)


# ---- the exam: every learner ---------------------------------------------------------------------


@pytest.mark.parametrize(("name", "problem"), in_turn(ALGORITHMS, PROBLEMS))
def test_review_with_everything_approved_at_once_is_the_open_gate(name, problem, tmp_path):
    mdp, algorithm = PROBLEMS[problem](), ALGORITHMS[name]
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True)
    learner = behind_gate(mdp, algorithm)
    assert play(mdp, learner, EPISODES, ls.Learner.approve) == runs.history[0].changes.tolist()
    assert (learner.mixture == runs.policy[0]).all()
    assert learner.deployments == learner.proposed == runs.deployments[0]
    assert learner.local_switches == runs.local_switches[0]
    open_gate = learner_for(mdp, algorithm, EPISODES)
    for k in range(EPISODES):
        open_gate.tell(*play_episode(mdp, open_gate.policy, 0, k))
    assert state_of(learner) == state_of(open_gate)


@pytest.mark.parametrize(("name", "problem"), in_turn(ALGORITHMS, [*PROBLEMS][1:]))
def test_save_and_load_with_a_pending_proposal(name, problem, tmp_path):
    """Half of what is proposed is approved, some is held, some forbidden; then all goes on."""
    mdp, generator = PROBLEMS[problem](), np.random.default_rng(0)

    def decide(learner):
        before = learner.mixture.copy()
        rows = learner.proposal().rows
        dice = generator.random()
        if dice < 0.3:
            learner.reject(visits=int(generator.integers(1, 30)) if dice < 0.15 else None)
        elif dice < 0.4 and all(row.new_actions for row in rows):
            learner.reject(forever=True)
        elif dice < 0.8:
            return learner.approve(rows=[row.row for row in rows[: 1 + len(rows) // 2]])
        assert (learner.mixture == before).all()
        return None

    learner = behind_gate(mdp, ALGORITHMS[name])
    play(mdp, learner, EPISODES // 2, decide)
    if learner.proposal() is None and not learner.frozen:
        learner.propose()
    learner.save(tmp_path / "learner.npz")
    loaded = ls.Learner.load(tmp_path / "learner.npz")
    assert loaded.proposal() == learner.proposal()
    assert (loaded.actions_allowed == learner.actions_allowed).all()
    for one in (learner, loaded):
        generator = np.random.default_rng(1)
        play(mdp, one, EPISODES - EPISODES // 2, decide)
        allowed = np.take_along_axis(one.actions_allowed[None], one.mixture[..., None], axis=-1)
        assert allowed.all()
    assert state_of(loaded) == state_of(learner)
    assert loaded._gate == learner._gate


@pytest.mark.parametrize(("name", "problem"), in_turn(ALGORITHMS, [*PROBLEMS][2:]))
def test_one_by_one_is_in_batches_while_proposals_wait(name, problem):
    """Episodes of one policy, so that they can be told in any batches; a row is held meanwhile."""
    mdp = PROBLEMS[problem]()
    one, other = (behind_gate(mdp, ALGORITHMS[name]) for _ in range(2))
    told = [play_episode(mdp, one.policy_for(0), 0, k) for k in range(EPISODES)]
    states, actions, rewards = (np.array(arrays) for arrays in zip(*told, strict=True))
    for learner, size in ((one, 1), (other, 33)):
        for k in range(0, EPISODES, size):
            part = slice(k, min(k + size, EPISODES))
            learner.tell(states[part], actions[part], rewards[part], off_policy=True)
            if part.stop in (66, 132) and learner.proposal() is not None:
                learner.reject(rows=[learner.proposal().rows[0].row])
    assert state_of(one) == state_of(other)
    assert one._gate == other._gate


@pytest.mark.parametrize(("name", "problem"), in_turn(ALGORITHMS, [*PROBLEMS][3:]))
def test_a_board_that_meets_on_dates_is_a_grid(name, problem):
    mdp, dates = PROBLEMS[problem](), (20, 50, 51, 110)
    algorithm = with_dates(ALGORITHMS[name], dates)
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True)
    learner, changes = behind_gate(mdp, with_dates(algorithm, None)), []
    for k in range(EPISODES):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
        assert learner.proposal() is None
        if k + 1 in dates and not learner.frozen and learner.propose() is not None:
            changes += learner.approve().changes.tolist()
    expected = runs.history[0].changes.tolist()
    if name not in ("greedy-mixture", "mixed-mvp-budget", "own-mixture-budget"):
        assert (
            changes == expected
        )  # in these, the last date matters, which only the simulator knows
    assert {change[0] + 1 for change in expected} <= set(dates)
    assert runs.deployments[0] <= algorithm.deployment_bound(
        horizon=mdp.horizon, states=mdp.states, actions=mdp.actions, episodes=EPISODES
    )
