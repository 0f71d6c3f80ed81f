"""A protocol and a trial: shares by hand, floors, parts of a proposal, and what is counted."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.learners.case_posterior import Foreseen
from lowswitch.learners.trials import (
    AtFloor,
    Found,
    Moment,
    careful_share,
    eager_share,
    limited_law,
    members_in_trial,
    most_in_trial,
    possible_cases,
    trial_share,
    worthwhile_share,
)

DATES = (20, 40, 60, 80)
SIZE = {"horizon": 3, "states": 4, "actions": 3, "episodes": 120}


def clinic(seed=0):
    """Three treatments in four states for three visits; the outcome is 0 or 1 at each visit."""
    generator = np.random.default_rng(seed)
    laws = generator.dirichlet(np.ones(4), size=(4, 3))
    return ls.TabularMDP(laws, generator.random((4, 3)), horizon=3, reward_law="bernoulli")


def reviewed(initial, *, algorithm=None, seed=0, told=20):
    """A learner in review that was told some episodes of a clinic."""
    mdp = clinic()
    learner = ls.Learner(
        algorithm or ls.few(deployments_at=DATES, trial=0.25),
        **SIZE,
        initial=initial,
        gate="review",
        seed=seed,
    )
    generator = np.random.default_rng([seed, 1])
    play(learner, mdp, generator, told)
    return learner, mdp, generator


def play(learner, mdp, generator, episodes):
    """Tell episodes that the deployed policies play, until so many more are told."""
    laws = np.random.default_rng(0).dirichlet(np.ones(4), size=(4, 3))
    rewards = mdp.model.rewards.reshape(4, 3)
    for _ in range(episodes):
        policy, state, states, actions, paid = learner.policy, 0, [], [], []
        for step in range(3):
            action = policy[step, state]
            states.append(state)
            actions.append(action)
            paid.append(float(generator.random() < rewards[state, action]))
            state = int(generator.choice(4, p=laws[state, action]))
        learner.tell(states, actions, paid)


# ---- shares --------------------------------------------------------------------------------------


EVEN = Moment(4, [100, 200, 300, 400], 500, 1000, 2)
NOTHING = Found(0.0, 0.0, 0.1, paid=True)
CAREFUL = 0.0029296875  # the share of EVEN while nothing is found


def test_a_careful_share_by_hand():
    """25 of 1,000 cases may be used: 18.75 of the first 100, then 4.6875 and so on, always 3/4 of
    what is left. Where the next date is near, half of the cases until then are fewer. By the first
    rule it was 35 of 1,000, and 30 %.
    """
    shares = [
        careful_share(Moment(n, [100 * i for i in range(1, n + 1)], 100 * (n + 1), 1000, 2))
        for n in range(1, 5)
    ]
    assert shares == pytest.approx([0.1875, 0.046875, 0.01171875, CAREFUL])
    assert careful_share(Moment(1, [2], 10, 1000, 2)) == 0.5
    # 8 x 0.5 = 4 are used then, and 3/4 of the other 21 are 15.75 of 100
    assert careful_share(Moment(2, [2, 10], 110, 1000, 2)) == pytest.approx(0.1575)
    assert careful_share(Moment(1, [2], 10, 1000, 1)) == 0.3
    assert careful_share(Moment(2, [2, 10], 110, 1000, 1)) == pytest.approx(0.2445)


def test_an_eager_share_by_hand():
    """All in the first sixth of the run; after 400 of 1,000 cases (1000 / 6 / 400) ** 1.5."""
    assert eager_share(Moment(3, [20, 50, 150], 300, 1000, 2)) == 1.0
    assert eager_share(EVEN) == pytest.approx(1 / 3)  # one over the trials before
    late = EVEN._replace(number=9)
    assert eager_share(late) == pytest.approx((1 / 6 / 0.4) ** 1.5)


@pytest.mark.parametrize(
    ("trial", "found", "share"),
    [
        (0.15, Found(1.0, 9.0, 1.0, paid=True), 0.15),
        ("falling", NOTHING, 1 / 4),
        ("auto", NOTHING, CAREFUL),
        ("auto", NOTHING._replace(paid=False), 1 / 3),
        # half of gain and cost is gain, and 1.5 standard deviations are half of what is sure: 1/4
        ("auto", Found(0.2, 1.5, 0.2, paid=True), 0.75 * CAREFUL + 0.25 / 3),
        # surely poor, and the model expects the trial to be better: the size of that counts
        ("auto", Found(0.3, 5.0, -0.1, paid=True), 0.25 * CAREFUL + 0.75 / 3),
    ],
)
def test_the_share_of_a_trial_by_hand(trial, found, share):
    assert trial_share(trial, EVEN, found) == pytest.approx(share)


def test_a_worthwhile_share_by_hand():
    moment = Moment(number=1, dates=[100], following=200, episodes=232, rule=2)
    cases = possible_cases(moment)  # in the 32 episodes after the next date
    assert cases == pytest.approx([0, 8, 8 * 2**0.5, 16, 16 * 2**0.5, 32])
    gains = np.array([0.0, 0.5, 0.6, 0.7, 0.71, 0.72])
    # 32 gains - 0.2 cases: 0, 14.4, 16.9, 19.2, 18.2, 16.6
    cheap = Foreseen(gains, most=0.1, lost=0.05)
    assert worthwhile_share(moment, cheap) == 16 / 100
    # 32 gains - 2 cases: 0, 0, -3.4, ...; a case may cost twice as much as could be gained
    assert worthwhile_share(moment, Foreseen(gains, most=1.0, lost=0.0)) == 0.0
    short = moment._replace(dates=[180])  # 16 of 20 cases are more than half of them
    assert worthwhile_share(short, cheap) == 0.5
    assert trial_share("auto", moment, NOTHING, cheap) == 16 / 100
    assert trial_share(0.3, moment, NOTHING, cheap) == 0.3


def test_a_share_is_so_many_of_the_policies():
    assert members_in_trial(0.15, 64) == 10  # 9.6
    assert members_in_trial(0.005, 64) == 0


def test_a_floor_by_hand():
    """A case in the trial counts as nothing. A protocol that is worth as much as the initial policy
    leaves 1 - floor; one that is twice as good 1 - floor / 2; one that is worse in a fifth of the
    models by a fifth lies below a floor of 0.9.
    """
    initial = np.full(10, 2.0)
    assert most_in_trial(0.9, 100, initial, initial) == 10
    assert most_in_trial(0.9, 100, 2 * initial, initial) == 55
    worse = initial * np.where(np.arange(10) < 2, 0.8, 1.0)
    assert most_in_trial(0.9, 100, worse, initial) == -1


def test_a_law_at_its_floor_by_hand():
    """A quarter of the cases earn nothing, so the law earns 1.5 where its protocol is worth 2, and
    0.75 in the three of ten models in which it is worth 1. Half of the initial value is 1. The
    needed shares of the protocol are 1/2 and 1, so its upper tenth is below the floor with any
    trial.
    """
    initial = np.full(10, 2.0)
    protocol = np.where(np.arange(10) < 3, 1.0, 2.0)
    law = AtFloor.of(0.5, 2, 8, protocol, initial)
    assert (law.below, law.most) == (0.3, 0)
    with pytest.raises(ValueError, match=r"30%, if .* earn nothing, .* share=0 would keep it"):
        law.require()
    AtFloor.of(0.5, 0, 8, protocol, initial).require()
    with pytest.raises(ValueError, match="so would its protocol alone; approve other"):
        AtFloor.of(0.5, 0, 8, 0.9 * protocol, initial).require()


def at_a_floor():
    """A learner in review whose second proposal has a better protocol, and so a larger trial.

    The floor is half of the initial value. So a trial beside the initial policy may have 4 of 8
    members, and one beside the new protocol 5, because action 1 pays 0.8 and action 0 only 0.2.
    """
    few = ls.few(deployments_at=(20, 40, 90), members=8, trial=0.75, floor=0.5)
    size = {"horizon": 1, "states": 2, "actions": 4, "episodes": 100}
    learner = ls.Learner(few, **size, initial=np.zeros((1, 2), dtype=int), gate="review")
    generator = np.random.default_rng(0)
    while learner.told < 40:
        if learner.proposal() is not None:
            learner.approve()
        state = learner.told % 2
        action = learner.policy[0, state]
        paid = float(generator.random() < (0.2, 0.8, 0.5, 0.5)[action])
        learner.tell([state], [action], [paid])
    return learner


def test_a_part_of_a_proposal_may_not_break_the_floor():
    learner = at_a_floor()
    proposal, before = learner.proposal(), learner.mixture
    assert proposal.put_into(before)[0].tolist() == [[0, 1]]
    with pytest.raises(
        ValueError, match=r"probability of 100%, .* allows only 10%; .* share=0\.5 would"
    ):
        learner.approve(proposal, part="trial")
    assert learner.proposal() == proposal
    assert np.array_equal(learner.mixture, before)
    learner.approve(proposal, part="trial", share=0.5)
    assert learner.deployed.share == 0.5


@pytest.mark.parametrize("how", [{}, {"part": "protocol"}])
def test_what_keeps_the_floor_is_deployed(how):
    learner = at_a_floor()
    learner.approve(**how)
    assert learner.mixture[0].tolist() == [[0, 1]]


def test_what_a_board_left_of_a_proposal_may_not_break_the_floor():
    """The trial without the row in which the protocol changes: the other row was rejected first."""
    learner = at_a_floor()
    learner.reject(rows=[(0, 1)])
    with pytest.raises(ValueError, match="floor=0.5 allows"):
        learner.approve()
    learner.approve_again(None)  # a board did so before floors were checked
    assert learner.deployed.share > 0.5


def test_what_must_always_be_possible_is_told_where_it_breaks_the_floor():
    """The trial of the new protocol beside the initial policy has 5 of 8 members, one too many. It
    can be installed all the same, as by a rollback, and a smaller trial keeps the floor.
    """
    learner = at_a_floor()
    learner.approve()
    assert learner.floor_warning() is None
    law = learner.mixture.copy()
    law[(law == law[0]).all(axis=(1, 2))] = 0
    assert "a trial of at most share=0.5 would keep it" in learner.floor_warning(law)
    learner.install(law)
    assert learner.deployed.share == 0.625
    assert learner.floor_warning().startswith("this would earn less than 0.5 of the initial")
    learner.cap_trial(0.5)
    assert learner.floor_warning() is None


def test_a_veto_is_told_where_it_breaks_the_floor():
    """The protocol earns 0.2 and 0.8. Everybody gets an action that pays nothing instead."""
    few = ls.few(deployments_at=(20, 60, 90), members=8, trial=0.0, floor=0.9)
    size = {"horizon": 1, "states": 2, "actions": 3, "episodes": 100}
    learner = ls.Learner(few, **size, initial=np.zeros((1, 2), dtype=int), gate="review")
    for action in (0, 1, 2) * 6:
        learner.tell([0], [action], [(0.4, 0.9, 0.0)[action]], off_policy=True)
        learner.tell([1], [action], [(0.4, 0.9, 0.0)[action]], off_policy=True)
    learner.install(np.ones((1, 2), dtype=int))
    assert learner.floor_warning() is None
    learner.forbid([(0, 0), (0, 1)], [1], instead=2)
    assert "its protocol alone; another version may keep it" in learner.floor_warning()


def test_without_a_floor_nothing_is_told():
    few = ls.few(deployments=3, members=8, trial=0.5)
    assert ls.Learner(few, **SIZE, initial=np.zeros((3, 4), dtype=int)).floor_warning() is None
    assert ls.Learner(ls.q_hoeffding(), **SIZE).floor_warning() is None


@pytest.mark.parametrize("seed", [42, 58])
def test_a_floor_never_brings_a_forbidden_action_back(seed):
    """The initial action of the last state is forbidden. A protocol below the floor is replaced by
    the initial policy, which was proposed with that action by these seeds.
    """
    few = ls.few(deployments_at=range(20, 200, 20), members=8, trial=0.5, floor=0.99)
    size = {"horizon": 1, "states": 3, "actions": 3, "episodes": 200}
    first = np.zeros((1, 3), dtype=int)
    learner = ls.Learner(few, **size, initial=first, gate="review", seed=seed)
    generator = np.random.default_rng(seed)
    while learner.told < 195:
        if (proposal := learner.proposal()) is not None:
            assert not any(0 in row.proposed for row in proposal.rows if row.row == (0, 2))
            learner.approve()
        if learner.told == 30:
            learner.forbid([(0, 2)], [0], instead=1)
        state = learner.told % 3
        action = learner.policy[0, state]
        if generator.random() < 0.4:
            action = int(generator.choice(np.flatnonzero(learner.actions_allowed[0, state])))
        paid = float(generator.random() < (0.5, 0.56, 0.3)[action])
        learner.tell([state], [action], [paid], off_policy=True)
    assert (learner.mixture[:, 0, 2] != 0).all()


def test_a_floor_compares_with_what_a_veto_left_of_the_initial_policy():
    """The initial policy earns 0.9 in both states. Its action is forbidden in one of them, where
    nothing else earns more than 0.2. A better action in the other state may be approved.
    """
    few = ls.few(deployments_at=(60, 90), members=8, trial=0.0, floor=0.9)
    size = {"horizon": 1, "states": 2, "actions": 3, "episodes": 100}
    learner = ls.Learner(few, **size, initial=np.zeros((1, 2), dtype=int), gate="review")
    learner.forbid([(0, 1)], [0], instead=2)
    for k in range(60):
        state, action = k % 2, (1 + k // 2 % 2)
        action -= state == 0 and action == 2
        paid = ((0.5, 0.9, 0.0), (0.9, 0.2, 0.2))[state][action]
        learner.tell([state], [action], [paid], off_policy=True)
    assert learner.proposal().rows[0].row == (0, 0)
    learner.approve()
    assert learner.policy[0].tolist()[0] == 1
    assert learner.floor_warning() is None


def test_a_floor_holds_in_every_deployment_of_a_run():
    """The initial policy is optimal, so that every trial costs. The floor is a statement about
    the posterior that may fail in one of ten deployments; here it holds in all of 24 (seeds 0 to
    5), because a trial counts as if it earned nothing.
    """
    mdp = clinic()
    runs = ls.simulate(
        mdp,
        ls.few(deployments_at=DATES, floor=0.95),
        episodes=120,
        seeds=6,
        initial=mdp.optimal_policy,
        history=True,
        progress=False,
    )
    for history in runs.history:
        gaps = ls.history.deployment_gaps(mdp, history, initial=runs.initial)
        assert (mdp.optimal_value() - gaps >= 0.95 * mdp.optimal_value()).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trial": 1.5}, "trial must lie from 0 to 1, not 1.5"),
        ({"trial": "some"}, 'trial must be "auto" or "falling", not \'some\''),
        ({"trial": 0.5, "members": 1}, "members must be 2 or more"),
        ({"floor": 1.0}, "floor must lie strictly between 0 and 1"),
        ({"floor": 0.9, "trial": None}, "leave floor out, or give a trial"),
    ],
)
def test_what_is_no_trial_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ls.few(deployments=3, **options)


def test_a_floor_needs_an_initial_policy():
    with pytest.raises(ValueError, match="floor=0.9 is a share of the initial policy's value"):
        ls.Learner(ls.few(deployments=3, floor=0.9), **SIZE)
    with pytest.raises(ValueError, match="or leave floor out"):
        ls.simulate(clinic(), ls.few(deployments=3, floor=0.9), episodes=50, progress=False)


# ---- what is deployed ----------------------------------------------------------------------------


def test_without_an_initial_policy_all_explore_as_before():
    mdp = clinic()
    both = [
        ls.simulate(mdp, ls.few(deployments=4, trial=trial), episodes=120, progress=False)
        for trial in ("auto", None)
    ]
    assert (both[0].regret == both[1].regret).all()


def test_a_deployment_is_a_protocol_and_a_trial():
    learner, _, _ = reviewed(np.zeros((3, 4), dtype=int))
    assert learner.deployed.share == 0.0
    learner.approve()
    policies, trial = learner.mixture, learner.deployed.in_trial
    assert learner.deployed.share == 16 / 64
    assert (policies[~trial] == policies[0]).all()
    assert (policies[trial] != policies[0]).any(axis=(1, 2)).all()
    members = learner.deployed.member_for(np.arange(4000))
    assert trial[members].mean() == pytest.approx(0.25, abs=0.03)  # 4.4 standard deviations


def test_the_last_deployment_is_one_policy():
    learner, mdp, generator = reviewed(np.zeros((3, 4), dtype=int))
    for _ in range(4):
        if learner.proposal() is not None:
            learner.approve()
        if learner.told < 80:
            play(learner, mdp, generator, 20)
    assert learner.deployed.share == 0.0
    assert learner.budget_spent


def test_rows_limit_the_protocol_and_the_trial_each():
    initial = np.zeros((3, 4), dtype=int)
    algorithm = ls.few(deployments_at=DATES, trial=0.5, rows=2)
    learner, mdp, generator = reviewed(initial, algorithm=algorithm)
    for _ in range(3):
        before = learner.mixture[0].copy()
        if learner.proposal() is not None:
            learner.approve()
        policies = learner.mixture
        assert (policies[0] != before).sum() <= 2
        assert (policies != policies[0]).any(axis=0).sum() <= 2
        play(learner, mdp, generator, 20)


# ---- parts ---------------------------------------------------------------------------------------


def table(*rows):
    return np.array(rows).reshape(len(rows), 1, -1)


def test_a_part_of_a_law_by_hand():
    """Four policies of two rows. The last one is in the trial; the proposal changes the protocol in
    the first row and lets the last two explore.
    """
    now = table([0, 0], [0, 0], [0, 0], [0, 1])
    new = table([2, 0], [2, 0], [1, 0], [2, 2])
    assert (limited_law(now, new, None, None) == new).all()
    protocol = table([2, 0], [2, 0], [2, 0], [0, 1])
    assert (limited_law(now, new, "protocol", None) == protocol).all()
    trial = table([0, 0], [0, 0], [1, 0], [2, 2])
    assert (limited_law(now, new, "trial", None) == trial).all()
    capped = table([2, 0], [2, 0], [2, 0], [2, 2])
    assert (limited_law(now, new, None, 0.25) == capped).all()
    assert (limited_law(now, new, None, 0.0) == new[:1]).all()
    assert (limited_law(now, new, "protocol", 0.0) == new[:1]).all()


def test_a_board_approves_one_part_alone_and_caps_the_other():
    initial = clinic().optimal_policy
    learner, _, _ = reviewed(initial)
    before = learner.mixture.copy()
    learner.approve(part="trial", share=0.1)
    assert (learner.mixture[0] == before[0]).all()
    assert learner.deployed.share == 6 / 64
    assert learner.proposal() is None
    assert learner.deployments == 1


def test_a_trial_ends_at_once_with_the_budget_spent_and_no_row_switches():
    algorithm = ls.few(deployments=1, asked=True, trial=0.25, last="usual")
    learner, _, _ = reviewed(np.zeros((3, 4), dtype=int), algorithm=algorithm)
    learner.propose()
    learner.approve()
    assert learner.budget_spent
    switches = learner.local_switches
    assert learner.cap_trial(0.5) is None  # it is smaller already
    learner.cap_trial(0.0)
    assert learner.deployed.share == 0.0
    assert (learner.deployments, learner.local_switches) == (2, switches)


def test_a_veto_leaves_both_parts():
    learner, mdp, generator = reviewed(np.zeros((3, 4), dtype=int))
    row = learner.proposal().rows[0]
    learner.reject(rows=[row.row], forever=True)
    learner.approve()
    for _ in range(2):
        assert set(learner.mixture[:, row.step, row.state]) == {0}
        play(learner, mdp, generator, 20)
        if learner.proposal() is not None:
            learner.approve()


def test_a_rollback_restores_protocol_members_and_share():
    learner, mdp, generator = reviewed(np.zeros((3, 4), dtype=int))
    learner.approve()
    first, share = learner.mixture.copy(), learner.deployed.share
    play(learner, mdp, generator, 20)
    learner.approve()
    learner.install(first)
    assert (learner.mixture == first).all()
    assert learner.deployed.share == share


def test_parts_are_of_laws_that_have_them():
    learner, _, _ = reviewed(None, algorithm=ls.few(deployments_at=DATES))
    with pytest.raises(ValueError, match="part='trial' needs a protocol and a trial"):
        learner.approve(part="trial")
    with pytest.raises(ValueError, match="share=0.1 needs a protocol"):
        learner.cap_trial(0.1)
    with pytest.raises(ValueError, match='part must be "protocol" or "trial", not \'all\''):
        learner.approve(part="all")
    assert learner.proposal() is not None
