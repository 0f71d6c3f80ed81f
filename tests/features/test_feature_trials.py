"""A protocol and a trial on features: who follows what, what is approved, counted and judged."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.learners.ridge_protocol import Believed, Candidate, exploiting, judged
from lowswitch.ledger import Ledger
from lowswitch.policy.shape import Shape

SHAPE = Shape.of(1, 2, 3, True)
DATES = (30, 60, 120, 240)
SIZE = {"features": 2, "actions": 3, "episodes": 400}
TRUTH = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # slopes of each action


def always(action, shape=SHAPE):
    """A policy that plays one action."""
    allowed = np.arange(shape.actions)[None] == action
    weights = np.zeros((1, shape.features, shape.blocks, 1))
    return ls.LinearPolicy(shape, weights, np.uint64(0), allowed=allowed)


def law(protocol=None, members=8, trial=3, seed=0):
    """Drawn members beside a protocol."""
    weights = np.random.default_rng(seed).normal(size=(1, 2, 3, max(1, trial)))
    drawn = ls.LinearPolicy(SHAPE, weights, np.uint64(7))
    return drawn.beside(protocol or always(0), members, trial)


def contexts(n, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 1, 2))


def learner(gate="review", **options):
    algorithm = ls.few(deployments_at=DATES, **{"trial": 0.25} | options)
    return ls.Learner(algorithm, **SIZE, initial=always(0), gate=gate, seed=3)


def play(one, until, noise=0.3):
    generator = np.random.default_rng(one.told)
    while one.told < until:
        x = generator.normal(size=2)
        action = one.act(x).action
        one.tell(x, action, float(TRUTH[action] @ x) + noise * generator.normal())
    return one


# ---- the policy ----------------------------------------------------------------------------------


def test_the_first_members_play_the_protocol_and_the_others_are_the_trial():
    policy, x = law(), contexts(200)
    choices = policy.choices(x)
    assert (choices[:, :5] == 0).all()
    drawn = ls.LinearPolicy(SHAPE, policy.weights, np.uint64(7))
    assert (choices[:, 5:] == drawn.choices(x)).all()
    assert (policy.share, policy.members) == (3 / 8, 8)
    assert policy.in_trial.tolist() == [False] * 5 + [True] * 3
    parts = {policy.part(episode) for episode in range(50)}
    assert parts == {"protocol", "trial"}
    assert law(trial=0).share == 0
    assert law(trial=8).in_trial.all()
    assert ls.LinearPolicy(SHAPE, policy.weights, np.uint64(7)).share is None


def test_actions_and_propensities_are_those_of_the_members():
    policy, x, episodes = law(), contexts(300), np.arange(300)
    members, choices = policy.member_for(episodes), policy.choices(x)
    assert (policy.actions(x, episodes) == choices[episodes, members]).all()
    for episode in range(40):
        choice = policy.act(x[episode, 0], episode)
        assert choice.action == choices[episode, members[episode]]
        assert choice.propensity == (choices[episode] == choice.action).mean()
        assert (policy.part(episode) == "trial") == (members[episode] >= 5)


def test_a_policy_with_a_protocol_is_saved_and_told_from_others(tmp_path):
    policy = law()
    policy.save(tmp_path / "policy.npz")
    for again in (
        ls.LinearPolicy.load(tmp_path / "policy.npz"),
        ls.LinearPolicy.from_dict(policy.to_dict()),
    ):
        assert again.identity == policy.identity
        assert (again.choices(contexts(50)) == policy.choices(contexts(50))).all()
        assert again.share == policy.share
    others = [law(always(1)), law(members=9), law(trial=2), law(trial=0), law(seed=1)]
    assert len({one.identity for one in [policy, *others]}) == 6
    assert law(always(1)).trial_identity == policy.trial_identity
    assert law(trial=2).trial_identity != policy.trial_identity


def test_a_veto_reaches_both_parts_and_must_leave_each_an_action():
    policy = law(ls.LinearPolicy(SHAPE, np.zeros((1, 2, 3, 1)), np.uint64(0)))
    assert not (policy.without([1]).choices(contexts(100)) == 1).any()
    assert not policy.without([1]).allowed[:, 1].any()
    with pytest.raises(ValueError, match="step 0 has no action left"):
        law(always(0)).without([0])


def test_a_protocol_is_one_function_of_the_same_features():
    two = ls.LinearPolicy(SHAPE, np.zeros((1, 2, 3, 2)), np.uint64(0))
    with pytest.raises(ValueError, match="a protocol is one function"):
        law(two)
    with pytest.raises(ValueError, match="there is no protocol for members to follow"):
        ls.LinearPolicy(SHAPE, np.zeros((1, 2, 3, 2)), np.uint64(0), followers=3)


# ---- the learner ---------------------------------------------------------------------------------


def test_a_run_begins_with_the_initial_policy_for_everybody():
    one = learner()
    assert one.policy.share == 0
    assert (one.policy.choices(contexts(50)) == 0).all()
    assert one.policy.members == 64
    assert "trial=0.25" in str(one.algorithm)


def test_a_better_protocol_is_found_and_a_poor_one_is_not_kept():
    one = play(learner("open", trial="auto"), 400)
    x = contexts(500, seed=5)
    best = (x[:, 0] @ TRUTH.T).argmax(axis=1)
    assert (one.policy.choices(x)[:, 0] == best).mean() > 0.8
    assert one.policy.share == 0  # the last deployment does not explore


def test_a_trial_goes_on_until_it_knows_that_one_action_for_all_is_poor():
    """Five meetings, noise of 0.8; by rule 1 six of six runs ended where they had begun."""
    slopes = 0.5 * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])

    def last_gain(rule, seed):
        generator = np.random.default_rng(seed)
        algorithm = ls.linear(
            members=64,
            intercept=True,
            trial="auto",
            rule=rule,
            deployments=5,
            schedule="calendar/250-500-750-1000-1250/1",
        )
        size = {"features": 3, "actions": 4, "episodes": 1_500}
        initial = ls.LinearPolicy.always(0, features=3, actions=4)
        one = ls.Learner(algorithm, **size, initial=initial, seed=seed)
        while one.told < 1_500:
            n = one.next_stop(1_500 - one.told)
            x, episodes = generator.normal(size=(n, 3)), np.arange(one.told, one.told + n)
            actions = one.policy.actions(x[:, None], episodes)
            means = (x * slopes[actions]).sum(axis=1) - 0.2 * (actions > 0)
            one.tell(x, actions, means + 0.8 * generator.normal(size=n))
        x = np.random.default_rng(1).normal(size=(2_000, 3))
        means = x @ slopes.T - 0.2 * (np.arange(4) > 0)
        return float((one.policy.propensities(x) * means).sum(axis=1).mean())

    gains = {rule: np.mean([last_gain(rule, seed) for seed in range(6)]) for rule in (1, 2)}
    assert gains[2] > 0.1
    assert gains[1] < 0.02


def test_equal_actions_hardly_ever_change_a_protocol():
    """Of 20 runs in which all actions are equal, at four looks each, few leave the initial one."""
    left = 0
    for seed in range(20):
        one = ls.Learner(
            ls.few(deployments_at=DATES), **SIZE, initial=always(0), gate="open", seed=seed
        )
        generator = np.random.default_rng([seed, 2])
        while one.told < DATES[-1]:
            x = generator.normal(size=2)
            one.tell(x, one.act(x).action, x[0] + generator.normal())
        left += bool(one.policy.protocol.choices(contexts(200)).any())
    assert left <= 8


def approved(until, **options):
    """A learner all of whose proposals before a date were approved."""
    one = learner(**options)
    for date in DATES[: DATES.index(until)]:
        play(one, date).approve()
    return play(one, until)


def test_parts_of_a_proposal_are_approved_one_by_one():
    both, protocol, trial = (approved(120) for _ in range(3))
    now, new, x = both.policy, both.proposal().policy, contexts(200)
    assert now.share == new.share == 0.25
    assert now.protocol.identity != new.protocol.identity
    assert now.trial_identity != new.trial_identity
    both.approve()
    assert both.policy.identity == new.identity
    protocol.approve(part="protocol")
    assert protocol.policy.protocol.identity == new.protocol.identity
    assert protocol.policy.trial_identity == now.trial_identity
    trial.approve(part="trial", share=0.1)
    assert trial.policy.protocol.identity == now.protocol.identity
    assert trial.policy.share == 6 / 64
    assert (trial.policy.choices(x)[:, -6:] == new.choices(x)[:, -6:]).all()


def test_capping_a_trial_is_no_switch_and_works_with_the_budget_spent():
    one = approved(240, last="usual")
    one.approve()
    assert one.budget_spent
    assert one.policy.share == 0.25
    switches, deployments = one._gate.applied_rows, one.deployments
    one.cap_trial(0.1)
    assert (one.policy.share, one.deployments) == (6 / 64, deployments + 1)
    assert one._gate.applied_rows == switches
    assert one.cap_trial(0.2) is None
    one.cap_trial(0)
    assert one.policy.share == 0
    with pytest.raises(ValueError, match=r"share=0.1 needs a protocol and a trial"):
        ls.Learner(ls.few(deployments=3), **SIZE, gate="review").cap_trial(0.1)


def test_a_floor_bounds_the_trial_by_the_least_reward():
    """A case in the trial counts as if it earned nothing; nobody knows more at first."""
    free = play(learner("open", trial=1.0), 30)
    bound = ls.Learner(
        ls.few(deployments_at=DATES, trial=1.0, floor=0.75),
        **SIZE,
        initial=always(0),
        seed=3,
        lowest=-100.0,
    )
    play(bound, 30)
    assert free.policy.share == 1.0
    assert 0.2 <= bound.policy.share <= 0.25


def test_a_trial_without_its_protocol_may_not_break_the_floor():
    """Beside the initial policy 40 % of the cases may explore, and more beside a better one."""
    one = ls.Learner(
        ls.few(deployments_at=DATES, trial=1.0, floor=0.6),
        **SIZE,
        initial=always(0),
        gate="review",
        seed=3,
        lowest=-1.0,
    )
    play(one, 30).approve()
    play(one, 120)
    with pytest.raises(ValueError, match=r"floor=0\.6 allows only 10%; .* share=0\.390625 would"):
        one.approve(part="trial")


def test_a_saved_learner_goes_on_to_the_bit(tmp_path):
    one = play(learner(), 70)
    one.save(tmp_path / "one.npz")
    again = ls.Learner.load(tmp_path / "one.npz")
    for both in (one, again):
        both.approve()
        play(both, 130)
    assert one.digest() == again.digest()
    assert one.policy.identity == again.policy.identity


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"initial": None}, "trial=0.25 needs a protocol"),
        ({"horizon": 2, "initial": "two steps"}, "trial=0.25 needs a protocol"),
        ({"initial": "a mixture"}, "trial=0.25 needs a protocol"),
    ],
)
def test_a_trial_needs_one_function_for_one_step(given, says):
    horizon = given.get("horizon", 1)
    members = 2 if given["initial"] == "a mixture" else 1
    initial = ls.LinearPolicy(
        Shape.of(horizon, 2, 3), np.zeros((horizon, 2, 3, members)), np.uint64(0)
    )
    options = SIZE | {"horizon": horizon, "initial": given["initial"] and initial}
    with pytest.raises(ValueError, match=says):
        ls.Learner(ls.few(deployments=3, trial=0.25), **options)
    assert ls.Learner(ls.few(deployments=3), **options).policy.share is None


# ---- choosing a protocol -------------------------------------------------------------------------


def test_a_candidate_is_judged_by_the_half_that_did_not_make_it():
    """Values by hand: action 1 is worth 1 in the first half of the cases, and -2 in the second."""
    x = contexts(4)
    first, second = np.zeros((4, 3, 2)), np.zeros((4, 3, 2))
    first[:, 1], second[:, 1] = 1.0, -2.0
    judges = [Believed(x, first), Believed(x, second)]
    one, two = always(1), always(2)
    assert judged(judges, Candidate.fixed(one)).tolist() == [-0.5, -0.5]
    assert judged(judges, Candidate(one, (one, two))).tolist() == [0.5, 0.5]
    now, better = Candidate.fixed(always(0)), Candidate(one, (one, two))
    assert exploiting(judges, now, [Candidate.fixed(one), better]) is better
    assert exploiting(judges, now, [Candidate.fixed(one)]) is now
    first[:, 1] = [4.0, -2.0]  # of two models, so that the gain is not clear
    assert exploiting(judges, now, [better]) is now


# ---- behind a board ------------------------------------------------------------------------------


def test_a_ledger_records_parts_and_propensities_and_verifies(tmp_path):
    algorithm = ls.few(deployments_at=DATES, trial=0.25)
    options = {"horizon": 1, "rewards": (-20, 20), "policy": always(0), "seed": 3}
    with Ledger.create(tmp_path / "run.db", algorithm, **SIZE, **options) as ledger:
        generator, parts = np.random.default_rng(0), list[str]()
        for number in range(130):
            issued = ledger.ask("north", f"case {number}")
            parts.append(issued.part)
            x = generator.normal(size=2)
            choice = issued.act(x)
            paid = float(TRUTH[choice.action] @ x) + 0.3 * generator.normal()
            ledger.tell(issued.ticket, x, choice.action, paid)
            if number == 29:
                proposal = ledger.proposal()
                row = proposal.rows[0]
                assert row["trial"]["now"] == 0
                assert row["trial"]["proposed"] == 0.25
                assert {"protocol", "trial", "change", "against_initial"} <= {*proposal.worth}
                ledger.approve(proposal, by="board", reason="minutes", share=0.125)
                assert ledger.terms.share(ledger.policy) == 0.125
        assert set(parts[:30]) == {"protocol"}
        assert set(parts[30:]) == {"protocol", "trial"}
        reports = [one.payload for one in ledger.events() if one.kind == "told"]
        assert {one["propensities"][0] for one in reports[:30]} == {1.0}
        assert min(one["propensities"][0] for one in reports[30:]) == 1 / 64
        ledger.cap_trial(0.0, by="office", reason="safety")
        assert ledger.terms.share(ledger.policy) == 0
        ledger.rollback(2, by="office", reason="resumed")
        assert ledger.terms.share(ledger.policy) == 0.125
        assert ledger.verify(progress=False).whole
