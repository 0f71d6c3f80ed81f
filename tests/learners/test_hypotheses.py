"""The hypotheses about a prior by which proposals are judged, by hand."""

import math

import numpy as np
import pytest
from test_posterior import learned, problem

import lowswitch as ls
from lowswitch.kernels import hypotheses
from lowswitch.kernels.arrays import Rewards
from lowswitch.kernels.evidence import is_usual, lifted, size_at, size_evidence
from lowswitch.kernels.model_draws import (
    doubted,
    draw_law,
    draw_pulled,
    draw_some,
    draw_state_reward,
    draw_unseen,
    fresh_drawn,
)
from lowswitch.learners.hypotheses import (
    BY_ALL,
    BY_CHOICE,
    BY_DOUBT,
    BY_LIFT,
    BY_PLACE,
    BY_WORTH,
    Weighed,
    chosen_rows,
    good_places,
    reward_priors,
    shared_doubts,
    weighed,
)
from lowswitch.reproduce.pseudocode import play_episode


def test_the_sizes_that_are_tried():
    assert [size_at(20, i) for i in range(9)] == [1, 2, 3, 4, 6, 8, 12, 16, 20]


def test_the_evidence_of_a_size_by_hand():
    """Of 4 states 2 are possible, each with the prior 1, and of two visits both saw one state.

    Half of the supports have that state. Given one, the urn gives it 1/2 and then 2/3, of which the
    factor of the state itself is 1 times 2.
    """
    found = size_evidence(4, 2, 1.0, 1, 2.0) + math.log(1 * 2)
    assert found == pytest.approx(math.log(1 / 2 * 1 / 2 * 2 / 3))
    assert size_evidence(4, 1, 1.0, 2, 2.0) == -np.inf  # two states are not one


def test_how_much_other_steps_count_by_hand():
    """Of 30 other visits each counts 10 / (10 + 30)."""
    assert hypotheses.kinship(10.0, 30.0) == 0.25
    assert hypotheses.kinship(np.inf, 30.0) == 1.0
    assert hypotheses.kinship(0.0, 30.0) == 0.0


@pytest.fixture(scope="module")
def seen():
    """What was seen of a problem whose steps are alike, of one whose steps differ."""
    few = ls.few(deployments=3, asked=True, members=1)
    return {
        name: learned(problem(4, 3, 2, *steps), few, 400).posterior()
        for name, steps in (("alike", ()), ("apart", (3,)))
    }


def test_kindred_laws_lie_between_one_step_and_all(seen):
    spec, (_, apart, together) = seen["apart"].spec, seen["apart"].seen[:3]
    for kin, expected in ((0.0, apart.n), (np.inf, np.tile(together.n, spec.H))):
        laws = hypotheses.kindred_laws(spec, apart, together, kin)
        assert laws.n == pytest.approx(expected)
    laws = hypotheses.kindred_laws(spec, apart, together, 10.0)
    others = np.tile(together.n, spec.H) - apart.n
    assert laws.n == pytest.approx(apart.n + 10 * others / (10 + others))
    sums = np.add.reduceat(laws.counts, laws.offsets[:-1])
    assert sums == pytest.approx(laws.n)


def test_the_data_tell_whether_steps_differ(seen):
    """Over 400 episodes of three steps: where they differ, no model takes them for one; where they
    are alike, steps that hardly differ are not told from steps that do not.
    """
    for name, posterior in seen.items():
        known = posterior.hypotheses
        apart = [bool(belief.laws.stride) for belief in known.beliefs]
        share = known.shares[apart].sum()
        assert share > 0.99 if name == "apart" else share < 0.75
        assert known.shares.sum() == pytest.approx(1.0)
        assert not any(belief.hopeful for belief in known.beliefs)


def test_sizes_are_learned():
    """Rows with two successors each, of eight states."""
    few = ls.few(deployments=3, asked=True, members=1, pooled=True)
    laws = np.zeros((8, 2, 8))
    for x in range(8):
        for a in range(2):
            laws[x, a, [(x + 1 + a) % 8, (x + 4) % 8]] = 0.5
    mdp = ls.TabularMDP(laws, np.full((8, 2), 0.5), horizon=4, start=np.full(8, 1 / 8))
    posterior = learned(mdp, few, 200).posterior()
    shares, _ = hypotheses.learned_sizes(posterior.spec, posterior.seen.apart, 1.0)
    assert np.exp(shares)[1] > 0.9  # the size 2
    assert np.exp(shares).sum() == pytest.approx(1.0)


def test_the_mass_of_a_prior_is_doubted_by_hand():
    """A mass of 30 on the mean of 59 other rewards and a typical one: 1 / (1 / 30 + 1 / 60)."""
    posterior = learned(
        problem(2, 2, 1), ls.few(deployments=3, asked=True, members=1), 5
    ).posterior()
    rewards = posterior.belief.rewards._replace(
        n=np.array([1.0, 59.0]), all_n=np.array([60.0]), total=np.array([1.0, 20.0])
    )
    assert hypotheses.doubted_mass(rewards, 0, 2, 30.0) == pytest.approx(20.0)


def test_the_mean_of_a_state_is_drawn_around_that_of_its_actions():
    """A thousand rewards of 0.5 and none; the mean of 2,000 draws is off by 0.05 never."""
    posterior = learned(
        problem(2, 2, 1), ls.few(deployments=3, asked=True, members=1), 5
    ).posterior()
    rewards = posterior.belief.rewards._replace(
        n=np.array([1000.0, 0.0]), total=np.array([500.0, 0.0])
    )
    belief = posterior.belief._replace(rewards=rewards, reward_mass=10.0, share=1.0)
    counter = np.zeros(1, dtype=np.uint64)
    drawn = [
        draw_state_reward(posterior.spec, belief, 0, 0.5, np.uint64(i), counter)
        for i in range(2000)
    ]
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.02)
    assert np.var(drawn) == pytest.approx(0.25 / 12, rel=0.15)  # of Beta with a mass of 10.9


@pytest.mark.parametrize("draw", [draw_unseen, draw_some])
def test_unseen_successors_are_drawn_at_random(draw):
    """Two of the three states that were not seen; each is drawn in 2/3 of 3,000 draws."""
    posterior = learned(
        problem(4, 3, 1), ls.few(deployments=3, asked=True, members=1), 5
    ).posterior()
    drawn, counted = fresh_drawn(posterior.spec, posterior.seen.apart), np.zeros(4)
    counter = np.zeros(1, dtype=np.uint64)
    for i in range(3000):
        drawn.sizes[0], counter[0], seen = 0, 0, np.array([0.0, 2.0, 0.0, 0.0])
        draw(posterior.spec, 0, 1.0, 2, drawn, np.uint64(i), counter, seen)
        assert drawn.states[0] != drawn.states[1]
        counted[drawn.states[:2]] += 1
    assert counted[1] == 0
    assert counted[[0, 2, 3]] == pytest.approx(2000, abs=130)  # five standard deviations


def test_models_choose_their_hypotheses_by_weight():
    shares = np.array([0.2, 0.5, 0.3])
    chosen = Weighed([None] * 3, shares).chosen(np.uint64(7), 10_000)
    assert np.bincount(chosen) / 10_000 == pytest.approx(shares, abs=0.025)
    assert (Weighed([None] * 3, shares).chosen(np.uint64(7), 50) == chosen[:50]).all()


def test_the_shared_doubts_by_hand(seen):
    """Mean rewards 0.2 and 0.6 were seen, both of action 0, so the spread is 0.2.

    Action 1 was tried nowhere and keeps 0.6 times that as its standard deviation. Action 0 was
    tried in two states, and keeps 1 / sqrt(3) of it. Half the width of a uniform law is sqrt(3)
    times its standard deviation.
    """
    spec = seen["alike"].spec._replace(S=3, A=2)
    n, total = np.array([10.0, 0, 5, 0, 0, 0]), np.array([2.0, 0, 3, 0, 0, 0])
    rewards = Rewards(0, n, total, total, n, total)
    found = [0.6 * 0.2, 3**0.5 * 0.6 * 0.2]
    assert shared_doubts(spec, rewards, BY_DOUBT) == pytest.approx(found)
    of_all = 3**0.5 * 0.6 * 0.2  # only one action was ever tried
    assert shared_doubts(spec, rewards, BY_ALL) == pytest.approx([*found, of_all])
    nothing = Rewards(0, 0 * n, 0 * n, 0 * n, 0 * n, 0 * n)
    assert shared_doubts(spec, nothing, BY_ALL).tolist() == [0.0, 0.0, 0.0]


def test_the_unseen_rewards_of_an_action_are_off_together(seen):
    spec = seen["alike"].spec._replace(S=3, A=2)
    belief = seen["alike"].seen.belief._replace(doubts=np.array([0.1, 0.2]))
    off = [
        [doubted(spec, belief, row, np.uint64(key), 0.5) - 0.5 for row in range(6)]
        for key in range(200)
    ]
    by_state = np.array(off).reshape(-1, 3, 2)
    assert (by_state == by_state[:, :1]).all()
    first, second = by_state[:, 0].T
    assert abs(first).max() <= 0.1
    assert 0.19 < abs(second).max() <= 0.2
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3  # its standard deviation is 0.07
    assert doubted(spec, belief._replace(doubts=np.ones(2)), 1, np.uint64(1), 0.0) >= 0.0


def test_all_unseen_rewards_are_off_together_if_one_action_was_tried_everywhere(seen):
    spec = seen["alike"].spec._replace(S=3, A=2)
    belief = seen["alike"].seen.belief
    rewards = belief.rewards._replace(n=np.zeros(6))
    belief = belief._replace(rewards=rewards, doubts=np.array([0.0, 0.0, 0.2]))
    off = np.array([doubted(spec, belief, row, np.uint64(3), 0.5) - 0.5 for row in range(6)])
    assert (off == off[0]).all()
    assert 0.0 < abs(off[0]) <= 0.2


def test_a_proposal_of_untried_actions_has_a_wider_interval():
    """Everybody got action 0 so far. Without shared doubts the others look almost as well known."""
    few = ls.few(deployments=3, asked=True, members=8, trial=None)
    mdp = ls.envs.random_mdp(states=9, actions=3, horizon=4, reward_law="bernoulli")
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    learner = ls.Learner(few, **size, episodes=1000, gate="review")
    usual = np.zeros((mdp.horizon, mdp.states), dtype=int)
    played = [play_episode(mdp, usual, 0, k) for k in range(100)]
    learner.tell(*(np.stack(part) for part in zip(*played, strict=True)), off_policy=True)
    proposal = learner.propose()
    widths = []
    for rule in (BY_DOUBT, BY_WORTH):
        low, high = learner.evidence(proposal, rule=rule).worth().change.within_80
        widths.append(high - low)
    assert widths[0] > 1.2 * widths[1]


def told_bandit(rewards):
    """A learner of one step, four states and three actions, told rewards [n, 4, 3] of all cells."""
    few = ls.few(deployments=3, asked=True, members=4)
    learner = ls.Learner(few, horizon=1, states=4, actions=3, episodes=1000, gate="review")
    for one in rewards:
        for (x, a), reward in np.ndenumerate(one):
            learner.tell([[x]], [[a]], [[reward]], off_policy=True)
    return learner


def weight_of_masses(learner, rule):
    """The weight of each mass of the prior of rewards among the hypotheses."""
    found = weighed(learner.posterior().spec, learner.posterior().seen, rule)
    masses = [belief.reward_mass for belief in found.beliefs]
    return {mass: found.shares[np.array(masses) == mass].sum() for mass in {*masses}}


def test_no_prior_is_left_out_because_there_are_many_laws():
    """An episode of one step says nothing of laws, so every hypothesis about them is as likely. Of
    those about rewards one is left by rule 4, though several are likely.
    """
    learner = told_bandit(np.random.default_rng(0).integers(0, 2, (2, 4, 3)))
    assert len(weight_of_masses(learner, BY_DOUBT)) == 1
    posterior, found = learner.posterior(), weight_of_masses(learner, BY_ALL)
    belief = posterior.seen.belief._replace(hopeful=False)
    priors = reward_priors(posterior.spec, belief, 1.0, BY_ALL)
    assert found == pytest.approx({mass: share for (mass, _), share in priors})
    assert max(found.values()) < 0.5


def test_rewards_that_vary_little_tell_actions_apart():
    """Actions pay 0.2, 0.5 and 0.8, give or take 0.05: nobody may hold them for alike."""
    generator = np.random.default_rng(1)
    means = np.stack([generator.permutation([0.2, 0.5, 0.8]) for _ in range(4)])
    learner = told_bandit(means + generator.uniform(-0.05, 0.05, (6, 4, 3)))
    before, after = (weight_of_masses(learner, rule) for rule in (BY_DOUBT, BY_ALL))
    alike = [sum(share for mass, share in of.items() if mass >= 30) for of in (before, after)]
    assert alike == pytest.approx([1.0, 0.0])


def test_the_usual_action_is_the_one_tried_most():
    """Of three states one was seen with both actions, one with equal counts, and one never."""
    n = np.array([1.0, 4.0, 2.0, 2.0, 0.0, 0.0])
    rewards = Rewards(0, n, n, n, n, n)
    assert [is_usual(rewards, row, 2) for row in range(6)] == [0, 1, 1, 0, 0, 0]


def test_odds_are_lifted_by_hand():
    """Odds of 1 to 3 become 3 to 3, and back."""
    assert lifted(0.25, math.log(3.0)) == pytest.approx(0.5)
    assert lifted(0.5, -math.log(3.0)) == pytest.approx(0.25)
    assert [lifted(end, 2.0) for end in (0.0, 1.0)] == [0.0, 1.0]


def told_usual(usual, other):
    """A learner of one step and four states that was told 40 rewards of action 0 and 2 of action 1
    in each, with these means; action 2 was never tried.
    """
    few = ls.few(deployments=3, asked=True, members=4, trial=None)
    learner = ls.Learner(few, horizon=1, states=4, actions=3, episodes=1000, gate="review")
    generator = np.random.default_rng(0)
    for action, mean, n in ((0, usual, 40), (1, other, 2)):
        for x in range(4):
            for reward in generator.permutation(np.arange(n) < mean * n):
                learner.tell([[x]], [[action]], [[float(reward)]], off_policy=True)
    return learner


def mean_lift(learner, rule):
    found = weighed(learner.posterior().spec, learner.posterior().seen, rule)
    return float(sum(found.shares * [belief.lift for belief in found.beliefs]))


def test_the_data_say_whether_the_usual_action_is_better():
    good, poor = told_usual(0.9, 0.0), told_usual(0.1, 1.0)
    assert mean_lift(good, BY_LIFT) < -1.0
    assert mean_lift(poor, BY_LIFT) > 1.0
    assert mean_lift(good, BY_ALL) == 0.0  # older rules know of no lift


def test_actions_are_less_likely_equal_before_anybody_tried_others():
    """Nothing was seen but one action, so the weights are about those of the prior."""
    few = ls.few(deployments=3, asked=True, members=4)
    learner = ls.Learner(few, horizon=1, states=1, actions=2, episodes=100, gate="review")
    for reward in (0.0, 1.0, 1.0):
        learner.tell([[0]], [[0]], [[reward]], off_policy=True)
    alike = {}
    for rule in (BY_ALL, BY_LIFT):
        masses = weight_of_masses(learner, rule).items()
        alike[rule] = sum(share for mass, share in masses if mass >= 100)
    assert alike[BY_ALL] > 0.5
    assert alike[BY_LIFT] < 0.2


def test_a_first_proposal_may_lose_where_the_policy_in_use_is_good():
    """Everybody got the best action so far. By rule 5 even the lower end was far above the truth,
    because nothing was said of why this action was given.
    """
    few = ls.few(deployments=3, asked=True, members=8, trial=None)
    means = np.tile([0.8, 0.4, 0.4], (6, 1))
    mdp = ls.TabularMDP(np.full((6, 3, 6), 1 / 6), means, start=np.full(6, 1 / 6), horizon=1)
    usual = np.zeros((1, 6), dtype=int)
    learner = ls.Learner(
        few, horizon=1, states=6, actions=3, episodes=1000, gate="review", initial=usual
    )
    generator = np.random.default_rng(0)
    for k in range(90):
        learner.tell([[k % 6]], [[0]], [[float(generator.random() < 0.8)]])
    proposal = learner.propose()
    new = learner.mixture.copy()
    for row in proposal.rows:
        new[:, row.step, row.state] = row.proposed
    true = mdp.evaluate(new) - mdp.evaluate(learner.mixture)
    before, now = (
        learner.evidence(proposal, rule=rule).worth().change for rule in (BY_ALL, BY_LIFT)
    )
    assert true < before.within_95[0] - 0.05
    assert now.within_95[0] < true < now.within_95[1]


def test_the_rows_that_a_policy_chooses_by_hand(seen):
    """Two steps, two states and two actions; the policy changes its mind in the second state."""
    spec = seen["alike"].spec._replace(H=2, S=2, A=2)
    policy = np.array([[0, 1], [0, 0]])
    apart = Rewards(4, *[np.zeros(8)] * 3, *[np.zeros(4)] * 2)
    together = Rewards(0, *[np.zeros(4)] * 3, *[np.zeros(2)] * 2)
    assert chosen_rows(spec, apart, policy).tolist() == [1, 0, 0, 1, 1, 0, 1, 0]
    assert chosen_rows(spec, together, policy).tolist() == [1, 0, 1, 1]


def test_the_evidence_of_chosen_actions_by_hand():
    """Of one state, a chosen action paid 3 times of 4, and another one 1 time of 2. All rewards
    have the mean 2/3, and the lift of the others is minus log 3.

    The chosen one is predicted from the other one, whose odds of 1 are 3 among chosen actions, and
    from one typical reward: (2 * 3/4 + 2/3) / 3. The other one is predicted from the chosen one,
    (4 * 3/4 + 2/3) / 5 = 11/15, of which a third of the odds 11/4 is left. The masses are
    6 * 3 / (6 + 3) = 2 and 6 * 5 / (6 + 5).
    """
    n, total = np.array([4.0, 2.0]), np.array([3.0, 1.0])
    rewards = Rewards(0, n, total, total, np.array([6.0]), np.array([4.0]))
    chosen, predicted = np.array([True, False]), 11 / 12 / (1 + 11 / 12)
    found = hypotheses.chosen_reward_evidence(rewards, chosen, 2, 6.0, 1.0, -math.log(3.0))
    of_chosen = hypotheses.beta_evidence(2.0, (3 / 2 + 2 / 3) / 3, 3.0, 1.0)
    assert found == pytest.approx(
        of_chosen + hypotheses.beta_evidence(30 / 11, predicted, 1.0, 1.0)
    )


def test_a_policy_that_plays_two_good_actions_of_a_state_says_nothing_of_the_others():
    """Everybody got action 0 at even steps and action 1 at odd ones, and both pay 0.9. Rule 6
    takes one of the two for an unusual action, which is as good as the usual one. By rule 7 others
    were never tried, and nothing is known of them.
    """
    few = ls.few(deployments=3, asked=True, members=8, trial=None)
    usual = np.repeat([[0], [1]] * 3, 4, axis=1)
    size = {"horizon": 6, "states": 4, "actions": 4, "episodes": 1000}
    learner = ls.Learner(few, **size, gate="review", initial=usual)
    generator = np.random.default_rng(0)
    for _ in range(80):
        paid = (generator.random(6) < 0.9).astype(float)
        learner.tell(generator.integers(0, 4, 6), [0, 1] * 3, paid)
    posterior, far = learner.posterior(), {}
    for rule in (BY_LIFT, BY_CHOICE):
        found = weighed(posterior.spec, posterior.seen, rule)
        far[rule] = sum(found.shares * [abs(one.lift) >= 2 for one in found.beliefs])
    assert far[BY_LIFT] < 0.2
    assert far[BY_CHOICE] == pytest.approx(6 / 9, abs=0.02)


# ---- where unusual actions lead ------------------------------------------------------------------


def climbed(unusual, *, episodes=60, tried=12, given=True):
    """A learner that was told of a ladder of six rungs, where higher ones pay more.

    Action 0 was usual and climbs. The episodes numbered below `tried` give action 1 at every step,
    which leads to the rung `unusual(x)`.
    """
    few = ls.few(deployments=3, asked=True, members=8, trial=None)
    initial = {"initial": np.zeros((4, 6), dtype=int)} if given else {}
    size = {"horizon": 4, "states": 6, "actions": 2, "episodes": 1000}
    learner = ls.Learner(few, **size, gate="review", **initial)
    for k in range(episodes):
        action, states = int(k < tried), [k % 6]
        for _ in range(3):
            x = states[-1]
            states.append(unusual(x) if action else min(5, x + 1))
        learner.tell(states, [action] * 4, np.array(states) / 5, off_policy=True)
    return learner


def mean_pull(learner, rule=BY_PLACE):
    """How much likelier the best rung is than the worst after an unusual action, on average."""
    found = weighed(learner.posterior().spec, learner.posterior().seen, rule)
    pulls = [
        math.log(one.pull[0, 5] / one.pull[0, 0]) if len(one.pull) else 0.0 for one in found.beliefs
    ]
    return float(sum(found.shares * pulls))


def test_the_data_say_where_unusual_actions_lead():
    down, up = climbed(lambda x: max(0, x - 3)), climbed(lambda x: min(5, x + 3))
    assert mean_pull(down) < -4.0
    assert mean_pull(up) > 2.0
    assert mean_pull(climbed(lambda x: 0, tried=0)) == pytest.approx(-2.5, abs=2.0)  # the prior's
    assert mean_pull(down, BY_CHOICE) == 0.0  # older rules know of no pull
    assert mean_pull(climbed(lambda x: 0, given=False)) == 0.0  # nobody chose the first policy


def test_nothing_pulls_in_one_step():
    posterior = told_usual(0.5, 0.5).posterior()
    seen = posterior.seen._replace(chosen=np.zeros((1, 4), dtype=int))
    found = weighed(posterior.spec, seen, BY_PLACE)
    assert not any(len(one.pull) for one in found.beliefs)


def test_a_chosen_policy_has_the_values_of_the_mean_model():
    """After 600 episodes the mean model is near the truth: places are ordered as the rungs are."""
    learner = climbed(lambda x: 0, episodes=600, tried=0)
    spec, seen = learner.posterior().spec, learner.posterior().seen
    policy, belief = np.zeros((4, 6), dtype=int), seen.belief._replace(hopeful=False)
    rungs = np.arange(6)
    true = sum(np.minimum(5, rungs + h) for h in range(4)) / 5
    assert hypotheses.values_of(spec, belief, policy)[0] == pytest.approx(true, abs=0.1)
    good = good_places(spec, belief, policy)
    assert (np.diff(good[:3]) >= 0).all()
    assert good[:3].mean(axis=1) == pytest.approx(0.0, abs=1e-9)
    assert good[:3].std(axis=1) == pytest.approx(1.0)
    assert not good[3].any()  # nothing follows the last step


def test_how_much_likelier_a_state_is_by_hand():
    """Of three states one has a pull of 4 and two of 1. Among two successors these have the odds 4
    c and c, with 4 c / (1 + 4 c) + 2 c / (1 + c) = 2, so c = (1 + sqrt(3)) / 2.
    """
    table = hypotheses.likelier(3, np.array([[4.0, 1.0, 1.0]]), 3)[0]
    c = (1 + math.sqrt(3)) / 2
    expected = [4 * c / (1 + 4 * c) * 3 / 2, *[c / (1 + c) * 3 / 2] * 2]
    assert np.exp(table[1]) == pytest.approx(expected)
    assert table[2].tolist() == [0.0, 0.0, 0.0]  # all three are successors
    assert not hypotheses.likelier(3, np.ones((1, 3)), 3).round(9).any()


def test_the_evidence_of_a_pull_by_hand():
    """In one of two states, action 0 was chosen and led three times to state 0 and once to 1; the
    other action led once to state 1. With alike actions of the mass 2 and a mass of 2 in all, its
    prior is 2 (3 + 1, 1 + 1) / 6 = (4/3, 2/3). A pull of (1/2, 3/2) makes it (2/3, 1) 2 / (5/3), so
    that the probability of state 1 grows from 1/3 to 3/5. Nothing is said of the chosen action.
    """
    learner = climbed(lambda x: 0, tried=0)
    posterior = learner.posterior()
    laws = posterior.seen.apart._replace(
        stride=0,
        offsets=np.array([0, 2, 3, 3, 3]),
        states=np.array([0, 1, 1]),
        counts=np.array([3.0, 1.0, 1.0]),
        n=np.array([4.0, 1.0, 0.0, 0.0]),
        all_offsets=np.array([0, 2, 2]),
        all_states=np.array([0, 1]),
        all_counts=np.array([3.0, 2.0]),
        all_n=np.array([5.0, 0.0]),
    )
    belief = posterior.seen.belief._replace(
        laws=laws,
        mass=2.0,
        alike=2.0,
        pull=np.array([[0.5, 1.5]]),
        led=np.array([True, False, True, False]),
    )
    spec, table = posterior.spec._replace(S=2, A=2), np.zeros((1, 2, 2))
    found = hypotheses.pull_evidence(spec, belief, laws.n, table)
    assert found == pytest.approx(math.log((3 / 5) / (1 / 3)))
    half = hypotheses.pull_evidence(spec, belief, laws.n / 2, table)  # half of it is other steps'
    assert half == pytest.approx(found / 2)
    counter, drawn = np.zeros(1, dtype=np.uint64), fresh_drawn(spec, laws)
    weights = []
    for i in range(4000):
        counter[0], room = 0, np.zeros(2)
        draw_law(spec, belief, 1, drawn, np.uint64(i), counter, room)
        here = slice(drawn.starts[1], drawn.starts[2])
        weights.append(drawn.weights[here][drawn.states[here] == 1].sum())
        assert not room.any()
    assert np.mean(weights) == pytest.approx((2 * 3 / 5 + 1) / 3, abs=0.02)  # five standard errors


def test_pulled_successors_are_drawn_by_their_pull():
    """One of three unseen states, which have the pulls 1, 2 and 1, in 4,000 draws; then all."""
    posterior = climbed(lambda x: 0, tried=0).posterior()
    spec, pull = posterior.spec._replace(S=4), np.array([1.0, 9.0, 2.0, 1.0])
    drawn, counted = fresh_drawn(posterior.spec, posterior.seen.apart), np.zeros(4)
    counter = np.zeros(1, dtype=np.uint64)
    for i in range(4000):
        drawn.sizes[0], counter[0], seen = 0, 0, np.array([0.0, 2.0, 0.0, 0.0])
        draw_pulled(spec, 0, 1.0, 1, pull, drawn, np.uint64(i), counter, seen)
        counted[drawn.states[0]] += 1
    assert counted[1] == 0
    assert counted[[0, 2, 3]] == pytest.approx([1000, 2000, 1000], abs=160)
    drawn.sizes[0], seen = 0, np.array([0.0, 2.0, 0.0, 0.0])
    draw_pulled(spec, 0, 1.0, 3, pull, drawn, np.uint64(1), counter, seen)
    assert sorted(drawn.states[:3].tolist()) == [0, 2, 3]


def test_large_problems_and_laws_by_step_have_their_own_pulls(monkeypatch):
    learner = climbed(lambda x: 0)
    posterior = learner.posterior()
    for belief in weighed(posterior.spec, posterior.seen, BY_PLACE).beliefs:
        steps = 4 if belief.laws.stride else 1
        assert len(belief.pull) in (0, steps)
        assert len(belief.led) in (0, steps * 12)
    monkeypatch.setattr("lowswitch.learners.hypotheses.LARGE", 48)
    found = weighed(posterior.spec, posterior.seen, BY_PLACE)
    assert not any(len(one.pull) for one in found.beliefs)


def test_a_first_proposal_may_lose_where_the_policy_in_use_leads_to_good_places():
    """Everybody climbed so far, and the other action falls to the ground. By rule 7 the truth lies
    below the whole interval, because an unknown action leads to any rung.
    """
    learner = climbed(lambda x: 0, tried=0)
    laws = np.zeros((6, 2, 6))
    laws[np.arange(6), 0, np.minimum(5, np.arange(6) + 1)] = laws[:, 1, 0] = 1.0
    rewards = np.repeat(np.arange(6)[:, None] / 5, 2, axis=1)
    mdp = ls.TabularMDP(laws, rewards, start=np.full(6, 1 / 6), horizon=4)
    proposal = learner.propose()
    new = learner.mixture.copy()
    for row in proposal.rows:
        new[:, row.step, row.state] = row.proposed
    true = mdp.evaluate(new) - mdp.evaluate(learner.mixture)
    before, now = (
        learner.evidence(proposal, rule=rule).worth().change for rule in (BY_CHOICE, BY_PLACE)
    )
    assert true < before.within_95[0]
    assert now.within_95[0] < true < now.within_95[1]
