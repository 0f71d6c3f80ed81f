"""The steps of the proof: their sums by hand, and a learner that breaks them turns the grade."""

import numpy as np
import pytest

from lowswitch import envs
from lowswitch.algorithms.recipes import ucb2_hoeffding
from lowswitch.reproduce import proof
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.trails import (
    _terms_of_cell,
    next_noise,
    record,
    running,
    terms_of,
    values_of,
)

TINY = Effort(
    name="tiny",
    episodes=1,
    seeds=1,
    pulls=1,
    bandit_runs=1,
    plain_episodes=40,
    plain_seeds=2,
)


def test_a_running_sum_by_hand():
    """H = 1: alpha_1 = 1, alpha_2 = 2/3; before each of three visits."""
    alpha = np.array([1, 2 / 3, 1 / 2])
    assert running(alpha * [3, 6, 9], alpha) == pytest.approx([0, 3, 5])


def test_the_terms_of_a_cell_by_hand():
    """Four visits with H = 1 and triggers at 1 and 3: the third visit sees two earlier ones, of
    which one came after the last trigger.
    """
    terms = _terms_of_cell(
        np.array([0, 1, 3]),
        np.array([1.0, 0.5, 0.8, 0.6]),  # Q~ before each visit
        np.array([2.0, 4.0, 3.0, 0.0]),  # V~ of the next states
        np.array([0.3, 0.6, 0.9, 0.0]),  # its errors
        np.array([1.0, -1.0, 1.0, 0.0]),  # noise
        np.array([0.5, 0.25, 0.1, 0.0]),  # weighted bonuses
        1,
    )
    assert terms.t.tolist() == [0, 1, 2, 3]
    assert terms.last.tolist() == [0, 1, 1, 3]
    assert terms.rise == pytest.approx([0, 0, 0.3, 0])
    assert terms.beta == pytest.approx([0, 1, 1 / 3 + 0.5, (1 / 3 + 0.5) / 2 + 0.2])
    assert terms.last_beta[2] == 1
    assert terms.errors[2] == pytest.approx(0.3 / 3 + 0.6 * 2 / 3)
    assert terms.last_errors[2] == pytest.approx(0.3)
    assert terms.late_errors == pytest.approx([0, 0, 0.6 * 2 / 3, 0])
    assert terms.late_noise == pytest.approx([0, 0, -2 / 3, 0])
    assert terms.variance == pytest.approx([0, 0, 1, 2 / 3])  # of 2, 4 and of 2, 4, 3


def test_what_is_lost_is_what_the_proof_adds_up():
    """Along a real run: the recorded estimates are the sums of the lemma, the errors are those of
    the values, and the regret is at most the sum of delta~_1.
    """
    mdp, algorithm = envs.make(proof.PROBLEM), ucb2_hoeffding(c=0.05)
    trail = record(mdp, algorithm, 200, seed=3)
    terms, values = terms_of(trail, mdp, algorithm), values_of(trail, mdp)
    seen = terms.t > 0
    sums = terms.errors + terms.noise + terms.beta / 2
    assert terms.excess[seen] == pytest.approx(sums[seen], abs=1e-12)
    worth = [
        mdp.policy_values(trail.policies[p])[0, x]
        for p, x in zip(trail.deployed, trail.state[:, 0], strict=True)
    ]
    optimal = mdp.optimal_values[0, trail.state[:, 0]]
    assert values.delta[:, 0] == pytest.approx(trail.value[:, 0] - worth)
    assert (optimal - worth).sum() <= values.delta[:, 0].sum()
    assert values.next_delta[:, :-1] == pytest.approx(values.delta[:, 1:])
    assert not values.next_delta[:, -1].any()
    assert not values.variance[:, -1].any()


def test_the_variance_of_the_next_value_by_hand():
    """A fair coin between a state worth 1 and a state worth 0 has variance 1/4; the estimate that
    nobody updated is 0 off.
    """
    law = np.zeros((3, 1, 3))
    law[0, 0, 1:] = 0.5
    law[1:, 0, 1:] = np.eye(2)
    mdp = envs.make(proof.PROBLEM).__class__(
        law, np.array([[0.0], [1.0], [0.0]]), horizon=2, start=np.array([1.0, 0, 0])
    )
    trail = record(mdp, ucb2_hoeffding(), 3, seed=0)
    values = values_of(trail, mdp)
    assert values.variance == pytest.approx(np.array([[0.25, 0.0]] * 3))
    assert not values.xi.any()  # there is one policy, so it is optimal
    surprise = np.where(trail.state[:, 1] == 1, 0.5, -0.5)
    assert next_noise(trail, mdp)[:, 0] == pytest.approx(surprise)


def test_the_schedule_by_hand():
    """H = 1: eta = 1/4, log 10 / log 1.25 = 10.3, and 8 log 10 = 18.4."""
    assert proof.stage_one_ratio(1) == pytest.approx(11 / 18.42, abs=1e-3)
    widths = proof._unit_widths(1, 3)
    assert widths[0] == 2
    assert widths[1] == pytest.approx(2 / 3 + 4 / 3 / np.sqrt(2))
    ratios = proof.schedule_ratios(2, 2_000)
    assert max(ratios.values()) <= 1 + 1e-12
    assert ratios["last"] > 0.99  # one visit fewer between triggers would do


def broken(section):
    return [check.rule.split()[0] for check in section.checks if not check.holds]


def test_a_bonus_that_is_too_small_contradicts_accuracy(tmp_path, monkeypatch):
    """At c = 0.001 noise exceeds the bonus: estimates are too high and too low, and the
    perturbation lemma rests on their optimism.
    """
    monkeypatch.setitem(proof.LEARNERS, proof.PROVED["H"], ucb2_hoeffding(c=0.001))
    section = proof.proof(Lab(tmp_path, TINY, progress=False))
    assert str(section.findings[1].grade) == "contradicted in practice"
    assert broken(section) == [r"$\tilde{Q}", r"$[\tilde{Q}^k"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [("identity", 1), ("perturbation", 3), ("noise", 3), ("propagation", 7), ("switches", 0)],
)
def test_each_broken_bound_turns_its_grade(tmp_path, monkeypatch, name, rule):
    right = proof.shares
    monkeypatch.setattr(proof, "shares", lambda *given: right(*given) | {name: 1.5})
    section = proof.proof(Lab(tmp_path, TINY, progress=False))
    grades = [str(finding.grade) for finding in section.findings]
    assert grades[rule] == "contradicted in practice"
