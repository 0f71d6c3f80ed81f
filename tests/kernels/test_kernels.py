"""Each formula by hand, the identities of the proofs, and the sampler."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc

import lowswitch as ls
from conftest import PAPERS, PROBLEMS, learner_for, random_tables
from lowswitch.kernels import deploy, qlearning, schedule
from lowswitch.kernels import noise as kernel_noise
from lowswitch.kernels.arrays import NEVER
from lowswitch.learners import ProblemSize
from lowswitch.learners.rows import fresh_row_tables, row_spec
from lowswitch.reproduce import pseudocode
from lowswitch.reproduce.pseudocode import noise, play_episode, play_plain

# ---- the learning rate ---------------------------------------------------------------------------


def weights(t, H):
    """alpha_t^i for i = 1 .. t: Jin et al. 2018, eq. (4.2)."""
    alpha = np.array([qlearning.learning_rate(i, H) for i in range(1, t + 1)])
    later = np.append(np.cumprod((1 - alpha)[:0:-1])[::-1], 1.0)
    return alpha * later


def test_the_first_visit_forgets_the_initial_value():
    assert qlearning.learning_rate(1, 7) == 1


@pytest.mark.parametrize("H", [1, 2, 5, 20])
@pytest.mark.parametrize("t", [1, 2, 3, 10, 100, 1000])
def test_lemma_4_1_of_jin_et_al(t, H):
    alpha, slack = weights(t, H), 1 + 1e-12
    assert alpha.sum() == pytest.approx(1)
    weighted = (alpha / np.sqrt(np.arange(1, t + 1))).sum()
    assert 1 / math.sqrt(t) <= weighted * slack
    assert weighted <= 2 / math.sqrt(t) * slack
    assert alpha.max() <= 2 * H / t * slack
    assert (alpha**2).sum() <= 2 * H / t * slack


@pytest.mark.parametrize("H", [2, 5])
@pytest.mark.parametrize("i", [1, 2, 7])
def test_each_visit_is_used_one_plus_one_over_h_times(i, H):
    rate, total, weight = qlearning.learning_rate, 0.0, qlearning.learning_rate(i, H)
    for t in range(i + 1, 200_000):  # sum over t >= i of alpha_t^i = 1 + 1 / H
        total, weight = total + weight, weight * (1 - rate(t, H))
    assert total == pytest.approx(1 + 1 / H, rel=1e-4)


# ---- bonuses -------------------------------------------------------------------------------------


def spec_of(algorithm, H=2, S=3, A=2, K=100):
    return row_spec(algorithm, ProblemSize(H, S, A, K))


def test_hoeffding_width_by_hand():
    assert qlearning.hoeffding_width(1 / 4, 0.5, 64.0) == 0.5 * math.sqrt(64 / 4)
    assert spec_of(ls.ucb_hoeffding(p=0.5)).hoeffding_scale == 8 * math.log(3 * 2 * 200 / 0.5)


def test_variance_by_hand():
    values = [2.0, 3.0, 5.0, 5.0]
    assert qlearning.variance(sum(values), sum(v * v for v in values), 1 / 4) == pytest.approx(
        np.var(values)
    )
    assert qlearning.variance(3 * 0.1, 3 * 0.1**2 - 1e-18, 1 / 3) == 0.0


def test_bernstein_width_by_hand():
    spec = spec_of(ls.ucb_bernstein(c1=1, c2=1))._replace(
        variance_scale=6.0, lower_order=10.0, hoeffding_scale=400.0
    )
    # min{sqrt(6/4 (1 + 2)) + 10/4, sqrt(400/4)} = 2.1213 + 2.5
    assert qlearning.bernstein_width(spec, 1 / 4, 1.0) == pytest.approx(math.sqrt(4.5) + 2.5)
    assert qlearning.bernstein_width(spec._replace(hoeffding_scale=16.0), 1 / 4, 1.0) == 2.0
    full = spec_of(ls.ucb_bernstein(p=0.5))
    iota = math.log(3 * 2 * 200 / 0.5)
    assert full.variance_scale == 2 * iota
    assert full.lower_order == pytest.approx(math.sqrt(2**7 * 3 * 2) * iota)


@pytest.mark.parametrize("name", ["ucb-b", "ucb2-b"])
@pytest.mark.parametrize("problem", ["dense", "sparse-bernoulli"])
def test_twice_the_weighted_bernstein_bonuses_is_the_width(name, problem):
    mdp = PROBLEMS[problem]()
    learner, _ = play_plain(mdp, PAPERS[name], 300, seed=0)
    assert len(learner.bonuses) > 5
    for here, bonuses in learner.bonuses.items():
        assert 2 * weights(len(bonuses), mdp.horizon) @ bonuses == pytest.approx(
            learner.beta[here], rel=1e-9
        )


# ---- one update ----------------------------------------------------------------------------------


def learn(spec, tables, h, x, a, reward, y):
    """One transition by hand, with the switch that it may call for; return what it said."""
    action = tables.rows[h * spec.S + x]["action"]
    said = qlearning.digest_visit(spec, tables, 1.0, 0, h, x, a, action, reward, y)
    if said == qlearning.DUE:
        changes = np.zeros((1, 4), dtype=np.int64)
        deploy.log_row(spec, tables, changes, 0, 0, h, x)
        deploy.pass_gate(spec, tables, h * spec.S + x, changes, 0)
    return said


def test_hoeffding_updates_by_hand():
    spec = spec_of(ls.ucb2_hoeffding(c=0.5))._replace(hoeffding_scale=4.0)
    tables = fresh_row_tables(spec, np.ones((2, 3, 2), dtype=bool))
    tables.rows[1 * 3 + 1]["value"] = 0.5
    assert learn(spec, tables, 0, 0, 0, 0.125, 1) == qlearning.DUE
    assert tables.cells[0]["q"] == 0.125 + 0.5 + 0.5 * 2  # alpha_1 = 1
    assert tables.rows[0]["action"] == 1  # its 2 beats 1.625
    assert tables.rows[0]["best_other"] == 1.625
    assert tables.rows[0]["value"] == 2
    # the last step: next value 0; 1 + 1 = 2 ties and stays
    assert learn(spec, tables, 1, 2, 0, 1.0, 0) == qlearning.TRIGGERED
    assert tables.rows[1 * 3 + 2]["value"] == 2


def test_a_second_visit_by_hand():
    spec = spec_of(ls.ucb_hoeffding(c=0.5))._replace(hoeffding_scale=8.0)
    tables = fresh_row_tables(spec, np.ones((2, 3, 2), dtype=bool))
    learn(spec, tables, 1, 0, 0, 1.0, 0)
    learn(spec, tables, 1, 0, 0, 0.0, 0)
    # alpha_2 = 3/4: q = 1/4 (1 + 0.5 sqrt 8) + 3/4 (0 + 0.5 sqrt(8/2))
    assert tables.cells[3 * 2]["q"] == pytest.approx(0.25 * (1 + math.sqrt(2)) + 0.75)
    assert tables.cells[3 * 2]["visits"] == 2


def test_bernstein_updates_by_hand():
    spec = spec_of(ls.ucb2_bernstein(c1=1, c2=1))._replace(
        variance_scale=6.0, lower_order=1.0, hoeffding_scale=400.0
    )
    tables = fresh_row_tables(spec, np.ones((2, 3, 2), dtype=bool))
    tables.rows[3]["value"], tables.rows[4]["value"] = 1.0, 2.0
    learn(spec, tables, 0, 0, 0, 0.5, 0)
    beta_1 = math.sqrt(6 * (0 + 2)) + 1
    q_1 = 0.5 + 1.0 + beta_1 / 2  # b_1 = beta_1 / 2
    assert tables.cells[0]["q"] == pytest.approx(q_1)
    learn(spec, tables, 0, 0, 0, 0.5, 1)
    beta_2 = math.sqrt(3 * (0.25 + 2)) + 0.5  # the variance of 1 and 2 is 1/4
    b_2 = (beta_2 - 0.25 * beta_1) / (2 * 0.75)
    assert tables.cells[0]["q"] == pytest.approx(0.25 * q_1 + 0.75 * (0.5 + 2.0 + b_2))


def test_ties_keep_the_incumbent_and_else_take_the_lowest_index():
    spec = spec_of(ls.ucb_hoeffding(), A=3)
    tables = fresh_row_tables(spec, np.ones((2, 3, 3), dtype=bool))
    tables.cells["q"][:3] = 1.0, 5.0, 5.0
    qlearning.set_own(spec, tables, 0, qlearning.own_best(spec, tables, 0))
    assert tables.rows[0]["action"] == 1
    # an equal estimate does not displace the incumbent: q < best_other is false
    assert tables.rows[0]["best_other"] == 5.0


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_kernel_is_the_papers_pseudo_code(name, problem):
    """Row copy equals single-entry copy, the policy is constant inside an episode, and both equal
    the kernel bit for bit.
    """
    mdp, algorithm = PROBLEMS[problem](), PAPERS[name]
    paper, rows = play_plain(mdp, algorithm, 200, seed=3)
    _, entries = play_plain(mdp, algorithm, 200, seed=3, copy="entry")
    runs = ls.simulate(mdp, algorithm, episodes=200, seeds=[3], history=True)
    assert len(rows) > 10
    assert rows.tolist() == entries.tolist() == runs.history[0].changes.tolist()
    assert (runs.policy[0] == paper.policy).all()
    learner = learner_for(mdp, algorithm, 200)
    for k in range(200):
        learner.tell(*play_episode(mdp, learner.policy, 3, k))
    assert (learner.policy == paper.policy).all()
    assert (learner.q == paper.running).all()
    assert (learner.values == paper.V).all()
    assert (learner.visits == paper.N).all()


def test_triggers_are_found_by_bisection():
    spec = spec_of(ls.ucb2_hoeffding(eta=0.5, r_star=2), K=30)
    n, seen = 0, []
    while (n := schedule.next_trigger(spec, n)) != NEVER:
        seen.append(n)
    assert seen == [1, 2, 3, 4, 6, 8, 12, 18, 26]


# ---- noise and sampling --------------------------------------------------------------------------


def test_noise_is_splitmix64():
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # of the state 0
    assert [int(kernel_noise.noise(np.uint64(0), np.uint64(i))) for i in (1, 2, 3)] == published
    assert kernel_noise.uniform(np.uint64(2**64 - 1)) == 1 - 2.0**-53


def test_every_draw_has_an_address_of_its_own(monkeypatch):
    """An episode of H steps takes 2 H + 1 numbers of its stream: the start, and a successor and a
    reward for each step.
    """
    mdp, seen = PROBLEMS["sparse-bernoulli"](), []
    monkeypatch.setattr(
        pseudocode, "noise", lambda seed, address: seen.append(int(address)) or noise(seed, address)
    )
    for k in range(5):
        play_episode(mdp, np.ones((12, 9), dtype=int), 0, k)
    assert seen == list(range(5 * (2 * 12 + 1)))


def alias_law(mdp, row):
    """The law that an alias table stands for, in exact integers of 2^-63."""
    head, law = int(mdp.model.heads[row]), np.zeros(mdp.states)
    first, size = head >> 6, 1 << (head & 63)
    for column in mdp.model.columns[first : first + size]:
        law[column["own"]] += float(column["threshold"]) / 2.0**63 / size
        law[column["other"]] += (1 - float(column["threshold"]) / 2.0**63) / size
    return law


@given(
    st.lists(st.sampled_from([0.0, 0.0, 1e-12, 0.3, 1.0, 2.0, 7.0]), min_size=1, max_size=9).filter(
        any
    )
)
def test_alias_tables_stand_for_the_law(parts):
    law = np.array(parts) / sum(parts)
    S = len(law)
    mdp = ls.TabularMDP(np.broadcast_to(law, (S, 1, S)), np.zeros((S, 1)), horizon=1, start=law)
    np.testing.assert_allclose(alias_law(mdp, 0), law, atol=1e-15)
    np.testing.assert_allclose(alias_law(mdp, len(mdp.model.heads) - 1), law, atol=1e-15)


def test_draws_follow_the_law():
    """Chi-square over 10 rows of 7 successors, seed 1, 20,000 draws each; false-alarm rate 10 x
    10^-4.
    """
    transitions, rewards = random_tables(7, 10, 0)
    mdp = ls.TabularMDP(transitions, rewards, horizon=1)
    for row in range(10):
        draws = [
            kernel_noise.draw(
                mdp.model.heads, mdp.model.columns, row, noise(seed=1, address=row * 10**5 + i)
            )
            for i in range(20_000)
        ]
        expected = transitions[0, row] * 20_000
        statistic = ((np.bincount(draws, minlength=7) - expected) ** 2 / expected).sum()
        assert chdtrc(6, statistic) > 1e-4
