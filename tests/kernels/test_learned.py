"""A posterior whose prior is learned: its evidence by hand, its draws, and what it recognises."""

import math

import numpy as np
import pytest
from test_planning import family, note

import lowswitch as ls
from conftest import random_tables
from lowswitch.kernels import crossfit, evidence, exploitation, model_draws, posterior_mean
from lowswitch.learners.samples import drawn_model
from lowswitch.reproduce.pseudocode import play_episode


def told(algorithm, transitions, **size):
    spec, tables = family(algorithm, **size)
    note(spec, tables, *transitions)
    return spec, tables


# ---- evidence ------------------------------------------------------------------------------------


def test_the_evidence_of_laws_by_hand():
    """Polya's urn with mass 1 on S = 2 states, successors 0, 0, 1 of one row: 1/2 (3/2) / (1 2) of
    the first two, and 1/2 / 3 of the third.
    """
    spec, tables = told(ls.few(deployments=1), [(0, 0, 0, 0.0, 0)] * 2 + [(0, 0, 0, 0.0, 1)], S=2)
    laws = evidence.gather_laws(spec, tables, False)
    assert laws.n.tolist() == [3, 0, 0, 0, 0, 0, 0, 0]
    assert evidence.law_evidence(2, laws, 1.0) == pytest.approx(math.log(0.5 * 1.5 / 2 * 0.5 / 3))
    # the other action of the state leads to 1 twice; of alike actions with a mass of 1 the first
    # has the prior (1/2, 2 + 1/2) / (2 + 1), and the other (2 + 1/2, 1 + 1/2) / (3 + 1)
    note(spec, tables, *[(0, 0, 1, 0.0, 1)] * 2)
    laws = evidence.gather_laws(spec, tables, False)
    first = 1 / 6 * 7 / 6 * 5 / 6 / (1 * 2 * 3)
    second = 3 / 8 * 11 / 8 / (1 * 2)
    assert evidence.alike_evidence(spec, laws, 1.0, 1.0) == pytest.approx(math.log(first * second))
    assert evidence.alike_evidence(spec, laws, 1.0, 0.0) == pytest.approx(
        evidence.law_evidence(2, laws, 1.0)
    )


def test_the_mass_is_small_where_successors_repeat_and_large_where_they_spread():
    one = [(0, x, a, 0.0, (x + a) % 6) for x in range(6) for a in range(2)] * 8
    spec, tables = told(ls.few(deployments=1), one, S=6)
    assert evidence.believe(spec, tables).mass == pytest.approx(0.1)
    spread = [(0, x, a, 0.0, y) for x in range(6) for a in range(2) for y in range(6)] * 3
    spec, tables = told(ls.few(deployments=1), spread, S=6)
    assert evidence.believe(spec, tables).mass > 6
    spec, tables = family(ls.few(deployments=1), S=6)
    assert evidence.believe(spec, tables).mass == pytest.approx(1)


@pytest.mark.parametrize(
    ("rewards", "noisy"),
    [
        ([0.0, 1.0], True),  # they vary
        ([0.3, 0.3], False),  # neither 0 nor 1, and the same twice
        ([1.0, 1.0], True),  # may be chance
        ([0.0] * 100, False),  # hardly chance in six rows
    ],
)
def test_whether_rewards_vary_is_seen(rewards, noisy):
    """Of n equal rewards 0 or 1 in a row the odds against Beta(w, w), w = 0.15, are the product of
    (2 w + i) / (w + i), i < n: of two 1.13, and 1.13^6 = 2.1 in six rows; of a hundred 2.1^6 = 80.
    """
    rows = [(1, x, a, reward, 0) for x in range(3) for a in range(2) for reward in rewards]
    spec, tables = told(ls.few(deployments=1), rows)
    assert evidence.believe(spec, tables).noisy == noisy


def episodes_of(mdp, count):
    generator = np.random.default_rng(0)
    for k in range(count):
        yield play_episode(mdp, generator.integers(0, mdp.actions, (mdp.horizon, mdp.states)), 0, k)


@pytest.mark.parametrize("law", ["deterministic", "bernoulli"])
@pytest.mark.parametrize("per_step", [False, True])
def test_steps_that_are_alike_are_recognised(law, per_step):
    """400 episodes of random actions; under the odds of 20 to 1 a false alarm is rarer than 1 in 20
    by Markov's inequality, and with so many episodes the odds are astronomical.
    """
    steps = (4,) if per_step else ()
    mdp = ls.TabularMDP(*random_tables(4, 2, 5, *steps), horizon=4, reward_law=law)
    learner = ls.Learner(ls.few(deployments=1), horizon=4, states=4, actions=2, episodes=10)
    learner.warm_start(*(np.stack(part) for part in zip(*episodes_of(mdp, 400), strict=True)))
    knowledge = learner._knowledge
    belief = evidence.believe(knowledge.spec, knowledge.tables)
    assert (belief.laws.stride == 0) == (belief.rewards.stride == 0) == (not per_step)
    assert belief.noisy == (law == "bernoulli")
    model = drawn_model(knowledge.spec, belief, knowledge.tables.keys[0]["samples"], 0)
    assert model.steps == (4 if per_step else 1)
    assert np.bincount(model.rows, model.weights) == pytest.approx(1)
    if law == "deterministic":
        seen = learner.visits > 0
        true = np.broadcast_to(mdp.rewards, seen.shape)
        assert np.broadcast_to(model.rewards, seen.shape)[seen] == pytest.approx(true[seen])


def test_the_evidence_of_steps_in_two_groups_by_hand():
    """One state and action, three steps; rewards 0, 0 and 1. If the last step differs, the others
    have 0 twice: 1/2 (1 + 1/2) / 2 with mass 1, and the last one has 1 with probability 1/2.
    """
    steps = [(h, 0, 0, reward, 0) for h, reward in enumerate((0.0, 0.0, 1.0))]
    spec, tables = told(ls.few(deployments=1), steps, H=3, S=1, A=1)
    apart = evidence.gather_rewards(spec, tables, False)
    found = evidence.split_reward_evidence(spec, apart, 1.0, 1.0)
    assert found == pytest.approx(math.log(1 / 2 * 3 / 4 * 1 / 2) - math.log(6))


@pytest.mark.parametrize(("rule", "alike"), [(1, True), (2, False)])
def test_an_outcome_at_the_end_is_recognised(rule, alike):
    """300 episodes of random actions; only the last of six steps pays, 0 or 1. The evidence of all
    steps apart pays for 6 times as many rows, and so does not say it yet.
    """
    laws, _ = random_tables(12, 4, 5)
    rewards = np.zeros((6, 12, 4))
    rewards[-1] = np.random.default_rng(1).uniform(0.05, 0.3, (12, 4))
    mdp = ls.TabularMDP(laws, rewards, horizon=6, reward_law="bernoulli")
    learner = ls.Learner(ls.few(deployments=1, rule=rule), **mdp.size, episodes=10)
    learner.warm_start(*(np.stack(part) for part in zip(*episodes_of(mdp, 300), strict=True)))
    belief = evidence.believe(learner._knowledge.spec, learner._knowledge.tables)
    assert belief.noisy
    assert (belief.rewards.stride == 0) == alike


# ---- draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("S", [6, 400])
def test_drawn_laws_have_the_posterior_mean_and_variance(S):
    """A mass of 2 over S states, three visits to state 0 and one to state 1: 4,000 draws, five
    standard errors. State 0 has the law Beta(3 + 2/S, 3 - 2/S).
    """
    transitions = [(0, 0, 0, 0.0, 0)] * 3 + [(0, 0, 0, 0.0, 1)]
    spec, tables = told(ls.psrl(mass=2.0), transitions, S=S)
    belief = evidence.believe(spec, tables)
    drawn, counter = model_draws.fresh_drawn(spec, belief.laws), np.zeros(1, dtype=np.uint64)
    seen, first, unseen = np.zeros(S), [], []
    for i in range(4000):
        counter[0] = 0
        model_draws.draw_law(spec, belief, 0, drawn, np.uint64(i), counter, seen)
        weights = drawn.weights[: drawn.sizes[0]]
        assert weights.sum() + drawn.rest[0] == pytest.approx(1)
        law = np.bincount(drawn.states[: drawn.sizes[0]], weights, minlength=S)
        first.append(law[0] + drawn.rest[0] / S)
        unseen.append(law[2:].sum())
    a, b = 3 + 2 / S, 1 + 2 - 2 / S
    sd = math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
    # the broken stick puts its pieces on any state, also on one that was seen
    assert np.mean(first) == pytest.approx(a / (a + b), abs=5 * sd / math.sqrt(4000) + 2e-3)
    assert np.std(first) == pytest.approx(sd, rel=0.08)
    assert np.mean(unseen) == pytest.approx(2 * (1 - 2 / S) / 6, abs=0.02)
    assert not seen.any()


def test_drawn_rewards_have_the_posterior_mean():
    """Beta(0.15 + 3, 0.15 + 5) with a given mass, in whose symmetric prior no other action counts:
    3,000 draws, five standard errors.
    """
    rewards = [(1, 0, 0, 1.0, 0)] * 3 + [(1, 0, 0, 0.0, 0)] * 5
    spec, tables = told(ls.psrl(mass=1.0, reward_weight=0.15), rewards)
    belief = evidence.believe(spec, tables)
    draws = [
        model_draws.draw_reward(spec, belief, 6, 0.5, np.uint64(i), np.zeros(1, dtype=np.uint64))
        for i in range(3000)
    ]
    a, b = 3.15, 5.15
    sd = math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
    assert np.mean(draws) == pytest.approx(a / (a + b), abs=5 * sd / math.sqrt(3000))
    assert np.std(draws) == pytest.approx(sd, rel=0.08)


# ---- the last deployment -------------------------------------------------------------------------


def test_the_last_policy_by_plain_loops():
    """Laws (mass / S + counts) / (mass + n), rewards total / n, over actions that were tried."""
    mdp = ls.TabularMDP(*random_tables(4, 3, 1, 3), horizon=3)
    algorithm = ls.psrl(
        mass=0.5, rewards="mean", deployments=1, last="exploit", schedule="grid/9-9999"
    )
    learner = ls.Learner(algorithm, horizon=3, states=4, actions=3, episodes=10)
    n, total, moves = np.zeros((3, 4, 3)), np.zeros((3, 4, 3)), np.zeros((3, 4, 3, 4))
    for states, actions, rewards in episodes_of(mdp, 9):
        learner.tell(states, actions, rewards, off_policy=True)
        for h in range(3):
            n[h, states[h], actions[h]] += 1
            total[h, states[h], actions[h]] += rewards[h]
            if h < 2:
                moves[h, states[h], actions[h], states[h + 1]] += 1
    value, unseen = np.zeros(4), total.sum() / n.sum()
    for h in (2, 1, 0):
        q = np.where(n[h] > 0, total[h] / np.maximum(n[h], 1), unseen)
        if h < 2:
            q += (moves[h] @ value + 0.5 * value.mean()) / (0.5 + n[h])
        for x in range(4):
            choices = np.flatnonzero(n[h, x]) if n[h, x].any() else np.array([0])
            if n[h, x].any():
                assert learner.policy[h, x] == choices[q[x, choices].argmax()]
        value = np.array(
            [q[x, np.flatnonzero(n[h, x])].max() if n[h, x].any() else q[x, 0] for x in range(4)]
        )


def test_the_expected_next_value_by_hand():
    """Values 0 and 1; action 0 led to state 1 in one of 2 visits, action 1 in 3 of 3."""
    seen = [(0, 0, 0, 0.0, 0), (0, 0, 0, 0.0, 1), *[(0, 0, 1, 0.0, 1)] * 3]
    spec, tables = told(ls.few(deployments=1), seen, S=2)
    belief = evidence.believe(spec, tables)._replace(mass=1.0, alike=4.0)
    values = np.array([0.0, 1.0])
    of_all = posterior_mean.sum_of_all(belief.laws, 0, values)
    assert of_all == 4
    # (2 visits, 4 prior ones with the mean (3 + 1/2) / (3 + 1)), and the other way round
    found = [posterior_mean.expected_next(spec, belief, a, values, 0.5, of_all) for a in (0, 1)]
    assert found == pytest.approx([(1 + 4 * 3.5 / 4) / 6, (3 + 4 * 1.5 / 3) / 7])
    alone = belief._replace(alike=0.0)
    assert posterior_mean.expected_next(spec, alone, 0, values, 0.5, 0.0) == pytest.approx(1.5 / 3)


def test_the_value_of_a_policy_for_the_posterior_mean_by_hand():
    """One state, two steps: rewards 0.25 and 0.75 that never vary."""
    seen = [(h, 0, a, 0.25 + a / 2, 0) for h in range(2) for a in range(2) for _ in range(4)]
    spec, tables = told(ls.few(deployments=1, pooled=False), seen, H=2, S=1, A=2)
    belief = evidence.believe(spec, tables)
    policy = np.array([0, 1])
    assert posterior_mean.value_on_mean(spec, tables, belief, policy) == pytest.approx(1.0)


def test_the_value_of_a_policy_counts_where_episodes_began():
    """Three of four episodes begin in state 0, which pays 0.2; the other pays 0.6. One step."""
    seen = [(0, 0, 0, 0.2, 0)] * 3 + [(0, 1, 0, 0.6, 0)]
    spec, tables = told(ls.few(deployments=1), seen, H=1, S=2, A=2)
    belief = evidence.believe(spec, tables)._replace(noisy=False)
    policy = np.zeros(2, dtype=np.int64)
    found = posterior_mean.value_on_mean(spec, tables, belief, policy)
    assert found == pytest.approx(0.75 * 0.2 + 0.25 * 0.6)


def test_the_values_of_alike_actions_by_hand():
    """State 1 pays 1 in the second step. Action 0 of state 0 never led there in 2 visits, action 1
    did in 2 of 2; with a mass of 2 on the other action each has (n own + 2 (other + 1/4)) / 4.
    """
    seen = [(0, 0, 0, 0.0, 0)] * 2 + [(0, 0, 1, 0.0, 1)] * 2
    seen += [(1, 0, a, 0.0, 0) for a in range(2)] + [(1, 1, a, 1.0, 0) for a in range(2)]
    spec, tables = told(ls.few(deployments=1, pooled=False), seen, H=2, S=2, A=2)
    belief = evidence.believe(spec, tables)._replace(mass=1.0, alike=2.0, noisy=False)
    found = [
        posterior_mean.value_on_mean(spec, tables, belief, np.array([a, 0, 0, 0])) for a in (0, 1)
    ]
    # the prior of action 0 is (1/2, 2 + 1/2) / 3, that of action 1 (2 + 1/2, 1/2) / 3
    assert found == pytest.approx([2 * 2.5 / 3 / 4, (2 + 2 * 0.5 / 3) / 4])
    last, first = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    posterior_mean.plan_on_mean(spec, tables, belief, -1.0, last, first)
    assert last[0] == 1


def test_the_expected_reward_by_hand():
    """Action 0 paid 1 in 2 of 2 visits, action 1 in none of 2; a mass of 4."""
    seen = [(0, 0, 0, 1.0, 0)] * 2 + [(0, 0, 1, 0.0, 0)] * 2
    spec, tables = told(ls.few(deployments=1), seen, H=1, S=1, A=2)
    belief = evidence.believe(spec, tables)._replace(noisy=True, reward_mass=4.0, by_state=True)
    # the prior mean of action 0: (0 + 1 typical reward of 1/2) / (2 + 1)
    assert posterior_mean.expected_reward(spec, belief, 0, 0.5) == pytest.approx((4 / 6 + 2) / 6)
    alone = belief._replace(by_state=False)
    assert posterior_mean.expected_reward(spec, alone, 0, 0.5) == pytest.approx((4 / 2 + 2) / 6)


@pytest.mark.parametrize(
    ("caution", "q", "action"),
    [
        (0.5, (0.5, 0.6), 1),  # 0.5 + 0.5 sqrt(0.02) = 0.571
        (1.0, (0.5, 0.6), 0),  # 0.641
        (0.0, (0.5, 0.5), 0),  # the first policy's
        (-1.0, (0.5, 0.5), 1),  # the deployed one
        (-1.0, (0.6, 0.5), 0),
    ],
)
def test_the_best_known_action_by_hand(caution, q, action):
    spec, _ = told(ls.few(deployments=1), [], H=1, S=1, A=2)
    choices, error = np.ones(2, dtype=np.bool_), np.full(2, 0.01)
    found = posterior_mean.best_known(spec, choices, np.array(q), error, 0, 1, caution)
    assert found == (action, q[action])


# ---- halves of the data --------------------------------------------------------------------------


def test_a_coin_is_tossed_for_everything_that_was_seen():
    address = np.zeros(1, dtype=np.uint64)
    found = np.array([crossfit.half_of(100, np.uint64(7), address) for _ in range(400)])
    assert address[0] == 800  # words of 64 bits
    # Binomial(100, 1/2): mean 50, variance 25; five standard errors, one false alarm in a million
    assert abs(found.mean() - 50) < 5 * 5 / 20
    assert abs(found.var() - 25) < 5 * 25 * math.sqrt(2 / 400)
    assert crossfit.half_of(0, np.uint64(7), address) == 0
    assert crossfit.ones_among(np.uint64(0b1011)) == 3


@pytest.mark.parametrize("noisy", [False, True])
def test_the_halves_are_what_was_seen(noisy):
    seen = [
        (0, x, a, (x + a + noisy * k) % 2 / 2 + 0.25, (x + a) % 3)
        for x in range(3)
        for a in range(2)
        for k in range(9)
    ]
    spec, tables = told(ls.few(deployments=1), seen, S=3)
    belief = evidence.believe(spec, tables)
    assert belief.noisy == noisy
    one, other = crossfit.halves(spec, belief, 0, np.uint64(5))
    for name in ("counts", "n", "all_n"):
        parts = [getattr(half.laws, name) for half in (one, other)]
        assert np.allclose(sum(parts), getattr(belief.laws, name))
        assert (np.stack(parts) >= 0).all()
        assert not np.allclose(*parts)
    for name in ("n", "total", "all_total"):
        parts, whole = [getattr(half.rewards, name) for half in (one, other)], belief.rewards
        if noisy:
            assert np.allclose(sum(parts), getattr(whole, name))
        else:  # rewards that never vary are known to both
            assert np.allclose(parts, getattr(whole, name))
    for half in (one, other):
        assert (half.rewards.total <= half.rewards.n).all()
        assert (half.rewards.total >= 0).all()
    assert (one.mass, one.alike, one.noisy) == (belief.mass, belief.alike, belief.noisy)


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.25, 0.75)])
def test_the_halves_of_rewards_are_independent(values):
    """Of three rewards that are either value with probability 1/2, 4,000 times. The correlation of
    the means has a standard error of 1/60; with 0 and 1 it is 0, of others only sums are known.
    """
    generator, sums = np.random.default_rng(0), []
    for _ in range(4000):
        paid = generator.choice(values, 3)
        rewards = evidence.Rewards(
            0, np.array([3.0]), np.array([paid.sum()]), np.array([(paid**2).sum()]), None, None
        )
        address = np.zeros(1, dtype=np.uint64)
        key = np.uint64(generator.integers(2**63))
        n, total = crossfit.half_rewards.py_func(rewards, 0, key, address)
        if 0 < n < 3:
            sums.append((total / n, (paid.sum() - total) / (3 - n)))
    correlation = np.corrcoef(np.array(sums).T)[0, 1]
    assert abs(correlation) < (0.08 if values == (0.0, 1.0) else 0.4)


@pytest.mark.parametrize(("paid", "caution"), [((0.2, 0.9), 0.0), ((0.5, 0.5), 2.0)])
def test_as_much_caution_as_gains_most(paid, caution):
    """The first policy plays action 0. Where action 1 is better, to take it at once gains most;
    where nothing gains, a row must be better by two standard errors.
    """
    seen = [(0, 0, a, paid[a], 0) for a in range(2) for _ in range(20)]
    spec, tables = told(ls.few(deployments=1), seen, S=1)
    belief = evidence.believe(spec, tables)
    assert crossfit.learned_caution(spec, tables, belief, 2.5)[0] == caution


def test_what_is_planned_on_a_half_is_not_compared_on_it():
    """All of 20 states and 4 actions pay 1 with probability 1/2, and were tried 3 times: whatever
    looks better is luck. On the half that chose it, it looks better in all ten draws; on the other
    half a gain is clear in one of a hundred.
    """
    found = []
    for seed in range(10):
        paid = np.random.default_rng(seed).integers(0, 2, (20, 4, 3))
        seen = [
            (0, x, a, float(paid[x, a, k]), 0)
            for x in range(20)
            for a in range(4)
            for k in range(3)
        ]
        spec, tables = told(ls.few(deployments=1), seen, H=1, S=20, A=4)
        belief = evidence.believe(spec, tables)._replace(noisy=True, reward_mass=0.3)
        found.append(crossfit.learned_caution(spec, tables, belief, 2.5)[0])
    assert found.count(2.0) >= 9


@pytest.mark.parametrize("forbidden", [False, True])
def test_a_first_policy_that_was_forbidden_is_not_deployed_again(forbidden):
    """Action 2 is the first policy's and as good as the others; action 0 is deployed meanwhile."""
    spec, tables = told(ls.few(deployments=1), [(0, 0, 0, 0.1, 0)] * 3, H=1, S=1, A=3)
    tables.initial[:], tables.policy[:], tables.chosen[:] = 2, 0, True
    allowed = spec.allowed.copy()
    allowed[2] = not forbidden
    spec = spec._replace(allowed=allowed)
    belief = evidence.believe(spec, tables)
    exploitation.exploit(spec, tables, belief, 2.0, np.zeros((2, 64)))
    assert (tables.wanted == (0 if forbidden else 2)).all()


def test_the_last_policy_is_compared_with_the_first():
    """Action 1 is what was deployed first, and pays nothing; the models drawn say so."""
    spec, tables = told(ls.few(deployments=1), [(0, 0, 0, 1.0, 0)] * 5 + [(0, 0, 1, 0.0, 0)] * 5)
    belief = evidence.believe(spec, tables)
    last, first = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.int64)
    tables.initial[:] = 1
    posterior_mean.plan_on_mean(spec, tables, belief, -1.0, last, first)
    assert last[0] == 0
    assert first[0] == 1
    found = np.zeros((2, 200))
    exploitation.values_on_draws(spec, tables, belief, np.stack([last, first]), found)
    assert (found[0] > found[1]).mean() > 0.75
    exploitation.exploit(spec, tables, belief, -1.0, np.zeros((2, 64)))
    assert tables.wanted.reshape(-1, 6)[:, 0].tolist() == [0] * spec.members
