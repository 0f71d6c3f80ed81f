"""How far the theorems reach: knees, factors and burn-ins by hand, and a rule that is broken turns
the grade. Bernoulli rewards: they are really drawn, and the proof counts their noise.
"""

import dataclasses
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from lowswitch import History, TabularMDP, envs
from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.reproduce import burn_in, knee, pac_claim, reach
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.machines import phase_lengths
from lowswitch.reproduce.mistakes import SHARES, MistakeCounts, MistakesCase
from lowswitch.reproduce.trails import record, terms_of
from lowswitch.runs.results import Curves

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import dimensions

EFFORT = Effort(
    name="tiny",
    episodes=8_000,
    seeds=2,
    pulls=1,
    bandit_runs=1,
    plain_episodes=40,
    plain_seeds=2,
    proof_episodes=1_000,
)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, EFFORT, progress=False)


def broken(finding):
    return [check.rule for check in finding.checks if not check.holds]


# ---- the knee ------------------------------------------------------------------------------------


def test_phases_end_with_deployments_or_the_run():
    history = History(np.array([[2, 0, 0, 1], [2, 1, 0, 1], [3, 0, 0, 0], [9, 0, 0, 1]]))
    assert phase_lengths(history, 12).tolist() == [3, 1, 6, 2]
    assert phase_lengths(history, 10).tolist() == [3, 1, 6]
    assert phase_lengths(history, 5).tolist() == [3, 1, 1]


@pytest.mark.parametrize(
    ("lengths", "most"),
    [
        ([12], 24),  # one round, 12 times as fast: half of 24
        ([1] * 10, 2),  # ten rounds whatever M is
        ([3, 1, 6, 2], 6),  # four rounds: 3 times as fast; 7 machines need four, too
    ],
)
def test_the_knee_by_hand(lengths, most):
    assert knee.knee(np.array(lengths)) == most


@pytest.mark.parametrize("seed", range(3))
def test_the_knee_is_the_largest_number_of_machines_with_half_the_speed_up(seed):
    lengths = np.random.default_rng(seed).integers(1, 60, 8)
    K = lengths.sum()
    half = [M for M in range(1, 3 * K) if K / np.ceil(lengths / M).sum() >= M / 2]
    assert knee.knee(lengths) == max(half)
    assert K / len(lengths) <= max(half) <= 2 * K / len(lengths)


def runs_with(episodes, regret, **more):
    regret = np.array(regret, dtype=float)
    curves = Curves(np.array(episodes), regret, regret, regret)
    return types.SimpleNamespace(curves=curves, seeds=np.arange(len(regret)), **more)


def test_a_mixture_is_eps_optimal_from_the_last_point_above_eps_on():
    runs = runs_with([1, 2, 4, 8], [[0.1, 2, 2, 2], [0, 0, 0, 0], [1, 2, 4, 8]])
    assert [knee.episodes_until(runs, seed, 0.6) for seed in range(3)] == [4, 1, None]


def test_a_knee_counts_once_ten_policies_were_played():
    changes = [[k, 0, 0, k % 2] for k in range(0, 64, 2)]
    episodes = np.arange(1, 257)
    runs = runs_with(
        episodes,
        [np.minimum(episodes, 7.9)],  # within eps after 7.9 / eps episodes
        history=(History(np.array(changes)),),
        optimal_value=1.0,
        uniform_value=0.5,
        horizon=3,
        algorithm=ucb2_hoeffding(),
    )
    found = knee.knees(runs)
    assert found.order[0] == pytest.approx(9 / 0.25**2)
    # 0.5 over the root of 2, at least squared: the first eps has 32 episodes and 17 policies
    assert found.eps[0] == pytest.approx(0.25)
    assert found.episodes[:, 0].tolist() == [32, 45, 64, 90, 127, 179, 253]
    assert found.machines[0] == knee.knee(np.array([1, *[2] * 15, 1]))
    longer = runs_with(
        episodes,
        [np.minimum(episodes, 2.0)],  # 8 episodes and 5 policies at the first eps
        **{key: each for key, each in vars(runs).items() if key not in ("curves", "seeds")},
    )
    assert knee.knees(longer).eps[0] < 0.25


def knees_like(power, count=8):
    eps = 0.5 ** np.arange(1, count + 1)
    machines = (1 / eps[:, None] ** power).repeat(2, axis=1)
    return knee.Knees(eps, machines, machines, 4 / eps**2)


@pytest.mark.parametrize(
    ("power", "count", "grade"),
    [
        (2, 8, "seen, constants unknown"),
        (1, 8, "not visible at this K"),
        (2, 3, "not visible at this K"),  # too few eps
    ],
)
def test_a_knee_must_grow_with_the_square_of_one_over_eps(lab, power, count, grade):
    learners = {key: {"one": knees_like(power, count)} for key in ("UCB2-H", "UCB2-B")}
    found = {**learners, "UCB-H": {"one": knees_like(0, count)}}
    finding = knee.knee_finding(lab, "one state", found)
    assert str(finding.grade) == grade
    assert finding.scope == "c = 1; c1 = 1, c2 = 2, K = 10,000, one state, H = 1 and 2"
    like = knee.knee_finding(lab, "one state", {**learners, "UCB-H": learners["UCB2-H"]})
    assert any(rule.startswith("UCB-H, which may switch") for rule in broken(like))


# ---- the factor 1 / eps --------------------------------------------------------------------------


def counts_like(power, ongoing=0.0):
    counts = (1e6 / np.array(SHARES) ** power).round()
    settled = np.array([0.0, 0.0, 0.0, ongoing])
    return MistakeCounts(mistakes=counts, alone=counts, policies=counts, ongoing=settled)


def test_mistakes_are_compared_where_both_have_settled():
    settled, slopes = reach.slopes_of(counts_like(2), counts_like(3, ongoing=0.5), SHARES)
    assert settled == 3
    assert slopes == pytest.approx([2, 3, 1], abs=1e-5)
    gone = counts_like(3)._replace(mistakes=np.array([5, 3, 0, 0]))
    settled, slopes = reach.slopes_of(counts_like(2), gone, SHARES)
    assert settled == 2
    assert np.isnan(slopes).all()


@pytest.mark.parametrize(
    ("model", "grade"),
    [(counts_like(3), "seen at a practical scale"), (counts_like(1.5), "counts go the other way")],
)
def test_the_factor_turns_with_the_counts(model, grade):
    counts = {MistakesCase("RiverSwim", "CMBIE", 10): model}
    for learner in ("UCB2-H", "UCB2-B"):
        counts[MistakesCase("RiverSwim", learner, 10)] = counts_like(2)
    rows = reach.factors(counts, "CMBIE")
    assert [row.learner for row in rows] == ["UCB2-H", "UCB2-B"]
    assert str(reach._factor_finding(rows, "CMBIE", 1_000).grade) == grade


# ---- the burn-in ---------------------------------------------------------------------------------


def test_a_burn_in_ends_where_regret_over_the_root_is_largest():
    episodes = [1, 4, 16, 64]
    runs = runs_with(episodes, [[1, 4, 5, 6], [1, 4, 16, 64]], horizon=3)
    assert burn_in.burn_ins(runs).tolist() == [12, np.inf]  # over the root: 1, 2, 1.25, 0.75


@pytest.mark.parametrize(
    ("power", "grade"), [(6, "seen at a practical scale"), (7, "not visible at this K")]
)
def test_a_burn_in_may_grow_like_the_sixth_power_of_the_steps(lab, power, grade):
    found = {H: float(H**power) for H in (2, 3, 5)} | {10: np.inf}
    assert str(burn_in.burn_in_finding(lab, found).grade) == grade


def test_two_burn_ins_are_too_few(lab):
    finding = burn_in.burn_in_finding(lab, {2: 10.0, 3: 20.0, 5: np.inf})
    assert len(broken(finding)) == 2
    assert finding.found == "over at 2 of 3 horizons; too few for an exponent"


# ---- Bernoulli rewards ---------------------------------------------------------------------------


def test_a_laboratory_draws_rewards_unless_the_problem_says_otherwise(lab):
    drawn = lab.with_rewards("bernoulli", EFFORT)
    assert drawn.make("riverswim:states=3,horizon=3").reward_law == "bernoulli"
    assert drawn.make("riverswim:states=3,reward_law=deterministic").reward_law == "deterministic"
    assert lab.make("riverswim:states=3,horizon=3").reward_law == "deterministic"
    algorithm, text = ucb2_hoeffding(c=0.05), "riverswim:states=4,horizon=4"
    one, other = (each.runs(text, algorithm, episodes=500, seeds=1) for each in (lab, drawn))
    assert one.fingerprint != other.fingerprint  # and not found in the cache either


def test_a_drawn_reward_is_noise_of_the_proof():
    mdp = envs.make("random-mdp:states=3,actions=2,horizon=3,seed=1,reward_law=bernoulli")
    algorithm = ucb2_hoeffding()
    trail = record(mdp, algorithm, 60, seed=0)
    here = trail.state[0, 0], trail.action[0, 0]
    assert trail.luck[0, 0] in (-mdp.rewards[here], 1 - mdp.rewards[here])

    def off(trail):
        terms = terms_of(trail, mdp, algorithm)
        error = terms.excess - (terms.errors + terms.noise + terms.beta / 2)
        return np.abs(error[terms.t > 0]).max()

    assert off(trail) < 1e-12
    assert off(trail._replace(luck=np.zeros_like(trail.luck))) > 0.01
    assert not record(fixed(mdp), algorithm, 5, seed=0).luck.any()


def fixed(mdp):
    return TabularMDP(mdp.transitions, mdp.rewards, horizon=mdp.horizon)


def test_the_claims_are_measured_again_with_bernoulli_rewards(lab, monkeypatch):
    module = sys.modules["lowswitch.reproduce.bernoulli"]
    monkeypatch.setattr(module, "CLAIMS", (pac_claim.pac,))
    monkeypatch.setattr(pac_claim, "PROBLEM", "riverswim:states=4,horizon=4")
    monkeypatch.setattr(
        pac_claim,
        "runs_of",
        lambda *_: {"one": lab.runs(pac_claim.PROBLEM, ucb2_hoeffding(), episodes=100, seeds=1)},
    )
    section = module.bernoulli(lab)
    [finding] = section.findings  # the one about problems of one state is left out
    assert finding.says.startswith("Corollary 4: suboptimality")
    assert finding.scope == "c = 0.05, K = 500, RiverSwim, Bernoulli rewards"
    assert section.folded


def test_a_quarter_of_the_episodes_is_played():
    effort = sys.modules["lowswitch.reproduce.bernoulli"].shorter(EFFORT)
    changed = {"episodes": 2_000, "proof_episodes": 250, "plain_episodes": 10}
    assert effort == dataclasses.replace(EFFORT, **changed)


# ---- the benchmark of dimensions -----------------------------------------------------------------


def test_when_a_mixture_is_good_enough_between_two_points():
    runs = runs_with([1, 10, 110], [[1, 10, 20]])
    # 10 + 0.1 (k - 10) = 0.5 k at k = 22.5
    assert dimensions.until(runs.curves, 0.5) == pytest.approx(22.5)
    assert dimensions.until(runs.curves, 0.1) == np.inf
    assert dimensions.until(runs.curves, 2.0) == 1


def test_an_exponent_of_medians_and_the_sizes_that_count():
    values, found = (2, 4, 8, 16), np.array([[4.0, 16.0, 64.0, 1.0], [4.0, 16.0, 64.0, np.inf]])
    found[:, 3] = np.inf
    row = dimensions.row_of("regret", values, found, np.zeros((2, 4)), 2.0)
    assert row["exponent"] == pytest.approx(2) == row["low"] == row["high"]
    assert row["used"] == [2, 4, 8]
    unlearned = np.array([[0.9, 0.0, 0.0, 0.0]] * 2)
    assert dimensions.row_of("regret", values, found, unlearned, 2.0)["exponent"] is None
