"""The gate: what is wanted and what is deployed are kept apart, for every kind of learner."""

import dataclasses

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, learner_for
from exam import in_turn
from lowswitch.reproduce.pseudocode import play_episode
from test_learner import state_of

EPISODES = 120


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
    if name == "few":  # explores from the beginning behind a gate only if that is declared
        algorithm = ls.few(deployments=5, members=3, first="explore")
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
    if learner.proposal() is None and not learner.budget_spent:
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
            if part.stop in (66, 99) and learner.proposal() is not None:
                learner.reject(rows=[learner.proposal().rows[0].row])
    assert state_of(one) == state_of(other)
    assert one._gate == other._gate


ON_DATES = [name for name in ALGORITHMS if not name.startswith("fedq")]  # which need rounds


@pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # these are few episodes
@pytest.mark.parametrize(("name", "problem"), in_turn(ON_DATES, [*PROBLEMS][3:]))
def test_a_board_that_meets_on_dates_is_a_grid(name, problem):
    mdp, dates = PROBLEMS[problem](), (20, 50, 51, 110)
    algorithm = with_dates(ALGORITHMS[name], dates)
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=[0], history=True)
    learner, changes = behind_gate(mdp, with_dates(algorithm, None)), []
    for k in range(EPISODES):
        learner.tell(*play_episode(mdp, learner.policy, 0, k))
        assert learner.proposal() is None
        if k + 1 in dates and not learner.budget_spent and learner.propose() is not None:
            changes += learner.approve().changes.tolist()
    expected = runs.history[0].changes.tolist()
    knows_the_last = ("greedy-mixture", "mixed-mvp-budget", "own-mixture-budget", "multi-batch")
    if name not in knows_the_last and not name.startswith("few"):
        assert (
            changes == expected
        )  # in these, the last date matters, which only the simulator knows
    assert {change[0] + 1 for change in expected} <= set(dates)
    assert runs.deployments[0] <= algorithm.deployment_bound(
        horizon=mdp.horizon, states=mdp.states, actions=mdp.actions, episodes=EPISODES
    )


# ---- a veto --------------------------------------------------------------------------------------


def tempting():
    """From the start, action 0 pays 0.3, and action 1 leads to where a vetoed action would pay."""
    transitions, rewards = np.zeros((2, 3, 2, 3)), np.zeros((2, 3, 2))
    transitions[0, 0, 0, 2] = transitions[0, 0, 1, 1] = 1
    transitions[0, 1:, :, 2] = transitions[1, :, :, 0] = 1
    rewards[0, 0, 0], rewards[1, 1, 1] = 0.3, 0.9
    return ls.TabularMDP(transitions, rewards, horizon=2)


def episodes_in_vain(algorithm, episodes, how):
    """How many episodes go where only the vetoed action (1, 1, 1) would pay.

    how: "veto" rejects it for ever when it is proposed, "mask" has it forbidden from the start,
    and "outside" lets others replace it while the learner goes on hoping for it.
    """
    mdp, allowed, vain = tempting(), np.ones((2, 3, 2), dtype=bool), 0
    allowed[1, 1, 1] = how != "mask"
    learner = ls.Learner(
        algorithm,
        horizon=2,
        states=3,
        actions=2,
        episodes=episodes,
        actions_allowed=allowed,
        gate="review" if how == "veto" else "open",
    )
    for k in range(episodes):
        policy = learner.policy.copy()
        if how == "outside":
            policy[1, 1] = 0
        assert policy[1, 1] == 0
        told = play_episode(mdp, policy, 0, k)
        vain += told[1][0] == 1
        learner.tell(*told, off_policy=True)
        while (proposal := learner.proposal()) is not None:
            vetoed = [row.row for row in proposal.rows if row.row == (1, 1)]
            if vetoed:
                learner.reject(rows=vetoed, forever=True)
            else:
                learner.approve()
    assert how != "veto" or not learner.actions_allowed[1, 1, 1] or vain < 9
    return vain


UNLIMITED = {
    name: algorithm
    for name, algorithm in ALGORITHMS.items()
    if not isinstance(algorithm.schedule, ls.parts.Budget)  # which a veto spends, too
}


@pytest.mark.parametrize("name", UNLIMITED)
def test_a_vetoed_action_is_never_deployed_and_steers_nobody(name):
    """Rule 4: as good as a learner that had the mask from the start.

    A grid loses one batch to the veto, which is 40 of these episodes at most.
    """
    vetoed, masked = (episodes_in_vain(UNLIMITED[name], 250, how) for how in ("veto", "mask"))
    assert vetoed <= masked + 40


def test_a_veto_that_the_learner_is_not_told_of_steers_for_ever():
    assert episodes_in_vain(ls.ucb2_bernstein(c=0.1), 250, "outside") > 240
    assert episodes_in_vain(ls.ucb2_bernstein(c=0.1), 250, "veto") < 30


# ---- decisions -----------------------------------------------------------------------------------


def pending(**options):
    """A learner of which row (1, 0) is proposed."""
    learner = ls.Learner(
        ls.ucb2_hoeffding(c=0.1),
        horizon=2,
        states=3,
        actions=2,
        episodes=50,
        gate="review",
        **options,
    )
    learner.tell([0, 0], [0, 0], [0.0, 0.0])
    return learner


def test_a_proposal_says_what_would_change_and_nothing_does():
    learner = pending()
    (row,) = learner.proposal().rows
    assert (row.row, row.now, row.proposed, row.law_proposed) == ((1, 0), (0,), (1,), {1: 1.0})
    assert learner.policy.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert (learner.deployments, learner.proposed) == (0, 1)
    switch = learner.approve(learner.proposal().hash)
    assert switch.changes.tolist() == [[0, 1, 0, 1]]
    assert learner.policy.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert (learner.deployments, learner.proposal()) == (1, None)


def test_what_is_rejected_for_now_is_held_for_so_many_visits():
    learner = pending()
    learner.reject(visits=2)
    assert learner.held == [(1, 0)]
    assert learner.values[1, 0] == min(2.0, learner.q[1, 0, 0])  # that of what it plays
    learner.tell([0, 0], [0, 0], [0.0, 0.0])
    assert learner.approve().changes.tolist() == [[1, 0, 0, 1]]  # another row
    learner.tell([1, 0], [0, 0], [0.0, 0.0])
    assert learner.held == []
    assert [row.row for row in learner.proposal().rows] == [(0, 1), (1, 0)]  # with one more
    assert learner.values[1, 0] == 2.0


def test_the_first_policy_may_be_given_and_history_learned():
    first = np.ones((2, 3), dtype=int)
    learner = ls.Learner(
        ls.ucbvi(c=0.01, schedule="asked"),
        horizon=2,
        states=3,
        actions=2,
        episodes=50,
        gate="review",
        initial=first,
    )
    assert (learner.policy == first).all()
    states, actions = np.zeros((9, 2), dtype=int), np.ones((9, 2), dtype=int)
    kept = learner.learn_history(states, actions, np.zeros((9, 2)), most=4)
    assert learner.visits[:, 0, 1].tolist() == [4, 4]
    assert (kept == -1).sum() == 10
    assert (learner.told, learner.proposal()) == (0, None)
    assert learner.propose() is not None


def test_nobody_asks_in_a_simulation():
    with pytest.raises(ValueError, match="say after which episodes the board meets"):
        ls.simulate(tempting(), ls.psrl(schedule="asked"), episodes=10)
    algorithm = ls.Algorithm.from_text("psrl:schedule=asked/5-9")
    assert str(algorithm) == "psrl:schedule=asked/5-9"
    assert ls.Algorithm.from_dict(algorithm.to_dict()) == algorithm


def test_named_actions_are_forbidden_and_the_others_stay():
    learner = ls.Learner(
        ls.psrl(members=4, schedule="asked"),
        horizon=1,
        states=1,
        actions=4,
        episodes=50,
        gate="review",
    )
    learner.tell(*(np.zeros((20, 1), dtype=int),) * 2, np.zeros((20, 1)), off_policy=True)
    proposal = learner.propose()
    (row,) = proposal.rows
    before = learner.digest()
    for actions in ([], [9], [0.5], [row.now[0]]):
        with pytest.raises(ValueError, match="actions"):
            learner.reject(proposal, forever=True, actions=actions)
        assert learner.digest() == before
    learner.reject(proposal, forever=True, actions=[row.new_actions[0]])
    allowed = learner.actions_allowed[0, 0]
    assert not allowed[row.new_actions[0]]
    assert allowed.sum() == 3


def test_a_proposal_stays_free_if_nothing_was_wanted_when_one_was_withdrawn():
    """Nobody decided on the first proposal, so the second takes its place in the budget.

    The first one was withdrawn because another policy was installed. By then the learner did not
    want it any more. A run of an earlier version counts both, as it did.
    """
    size = {"horizon": 1, "states": 2, "actions": 2, "episodes": 100, "gate": "review"}
    algorithm = ls.q_hoeffding(c=0.1, schedule="asked/5-20-60")
    numbers = ls.Learner(algorithm, **size).numbers()
    older = {name: value for name, value in numbers.items() if name != "stays_free"}
    for given, counted in ((None, 1), (numbers, 1), (older, 2)):
        learner = ls.Learner(algorithm, **size, numbers=given)
        for reward in (0.1, 0.2, 0.6, 0.1, 0.6):
            learner.tell([0], [int(reward > 0.5)], [reward], off_policy=True)
        assert [row.proposed for row in learner.proposal().rows] == [(1,)]
        learner.tell([[0]] * 13, [[0]] * 13, [[1.0]] * 13, off_policy=True)
        learner.install(np.array([[0, 1]]), hold=False)
        assert (learner.proposal(), learner.proposed) == (None, 1)
        learner = ls.Learner.from_bytes(learner.to_bytes(), numbers=given)
        learner.tell([[0]] * 60, [[0], [1]] * 30, [[0.0], [1.0]] * 30, off_policy=True)
        assert learner.propose() is not None
        assert learner.proposed == counted
