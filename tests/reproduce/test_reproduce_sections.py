"""The sections on bandits and on the lower bound: their grades, their pieces by hand, and a broken
learner turns the grade.
"""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest

from lowswitch import bandits, theory
from lowswitch.reproduce.bandit_claim import (
    COARSE,
    FINE,
    SETTINGS,
    leading_term,
    switch_order,
    ucb2,
)
from lowswitch.reproduce.lab import Effort, Lab
from lowswitch.reproduce.lower_bound import (
    LEARNERS,
    SIZES,
    lower_bound,
    printed_proof_regret,
    real_learners,
    row_by_row,
    settled_regret,
    visited_rows,
    where_visited,
)
from lowswitch.reproduce.section import exponent_of

TINY = Effort(
    name="tiny",
    episodes=200_000,
    seeds=2,
    pulls=100_000,
    bandit_runs=40,
    plain_episodes=1,
    plain_seeds=1,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shared, so that each experiment runs once."""
    return tmp_path_factory.mktemp("sections")


@pytest.fixture
def lab(folder):
    return Lab(folder, TINY, progress=False)


def broken(section):
    """The rules that are broken."""
    return [check.rule for check in section.checks if not check.holds]


def grades(section):
    return [str(finding.grade) for finding in section.findings]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [(ucb2, ["seen", "seen"]), (lower_bound, ["the printed proof fails", "seen"])],
)
def test_the_grades_of_a_complete_section(lab, claim, expected):
    section = claim(lab)
    assert grades(section) == expected, broken(section)
    assert section.figures.keys() == section.captions.keys()
    assert all(len(row) == len(table.header) for table in section.tables for row in table.rows)
    data = json.loads(json.dumps(section.to_dict()))
    assert [finding["grade"] for finding in data["findings"]] == expected


def test_a_second_time_nothing_is_computed(lab, monkeypatch):
    first = [claim(lab).to_dict() for claim in (ucb2, lower_bound)]
    monkeypatch.setattr(bandits, "simulate", None)
    for name in LEARNERS:
        monkeypatch.setitem(LEARNERS, name, None)
    assert [claim(lab).to_dict() for claim in (ucb2, lower_bound)] == first


# ---- bandits -------------------------------------------------------------------------------------


def test_the_settings_are_those_of_auer_et_al():
    assert [len(means) for means in SETTINGS.values()] == [2, 2, 2, 10, 10, 10, 10]
    assert SETTINGS["12"] == (0.9, 0.8, 0.8, 0.8, 0.7, 0.7, 0.7, 0.6, 0.6, 0.6)


def test_the_bandit_formulas_by_hand():
    assert leading_term([0.9, 0.4, 0.9], alpha=0.5, pulls=100) == pytest.approx(
        1.5 * 3 * math.log(50 * math.e) / (2 * 0.5)
    )
    policy = bandits.ucb2(alpha=0.5)
    assert policy.regret_bound([0.9, 0.4], pulls=100) == pytest.approx(
        4.5 * math.log(50 * math.e) + policy.lower_order / 0.5
    )
    assert switch_order(A=2, T=200, alpha=0.5) == pytest.approx(
        2 + 2 * math.log(100) / math.log(1.5)
    )


@pytest.mark.parametrize("alpha", [0.001, 0.09, 0.5])
@pytest.mark.parametrize("arms", [2, 10])
def test_the_order_with_constants_is_above_the_explicit_bound(alpha, arms):
    for pulls in (arms, 100, 10**4, 10**6):
        assert bandits.ucb2(alpha=alpha).switch_bound(arms, pulls) <= switch_order(
            A=arms, T=pulls, alpha=alpha
        )


class WrongBandits(Lab):
    """A laboratory whose UCB2, or whose UCB1, is another one."""

    def __init__(self, folder, wrong=bandits.UCB2Policy, **costs):
        super().__init__(folder, TINY, progress=False)
        self.wrong = wrong
        self.costs = costs  # by name, a function of the pulls so far

    def bandit(self, means, algorithm):
        runs = super().bandit(means, algorithm)
        if not isinstance(algorithm, self.wrong):
            return runs
        pulls = np.broadcast_to(runs.curves.pulls, runs.curves.regret.shape)
        return dataclasses.replace(
            runs,
            curves=runs.curves._replace(**{name: cost(pulls) for name, cost in self.costs.items()}),
        )


@pytest.mark.parametrize("power", [1, 0.7])
def test_regret_that_grows_like_a_power_is_not_called_logarithmic(folder, power):
    section = ucb2(WrongBandits(folder, regret=lambda pulls: 0.1 * pulls**power))
    assert grades(section) == ["not visible at this K", "seen"]
    leading, growth = broken(section)  # the whole bound is too large for so few pulls
    assert "the bound's leading term" in leading
    assert "not like a power" in growth


def test_switching_at_every_pull_contradicts_the_bound(folder):
    section = ucb2(WrongBandits(folder, switches=lambda pulls: pulls - 1))
    assert grades(section) == ["seen", "contradicted in practice"]
    assert len(broken(section)) == 2


def test_few_switches_mean_nothing_where_the_baseline_has_few_too(folder):
    section = ucb2(WrongBandits(folder, bandits.UCB1Policy, switches=np.log2))
    assert grades(section) == ["seen", "kept by the baseline too"]
    [sharpness] = broken(section)
    assert sharpness.startswith("UCB1 has more switches than that")


def test_no_run_switches_more_often_than_epochs_fit(lab):
    for means in SETTINGS.values():
        for algorithm in (FINE, COARSE):
            runs = lab.bandit(means, algorithm)
            assert runs.switches.max() <= algorithm.switch_bound(len(means), runs.pulls)


def test_a_cost_that_is_no_number_is_not_seen(folder):
    section = ucb2(WrongBandits(folder, switches=lambda pulls: pulls * math.nan))
    assert len(broken(section)) == 2


# ---- the lower bound -----------------------------------------------------------------------------


def test_row_by_row_by_hand():
    found = row_by_row(np.array([[2, 0], [1, 3]]), np.random.default_rng(0))
    assert found.tolist() == [False, True,  # the second switch at the first row
                              True, False, False, True]  # fmt: skip


@pytest.mark.parametrize("A", [4, 8])
def test_a_row_with_up_to_j_tries_succeeds_with_probability_j_of_a(A):
    """Phi = J / A and E[n_sw + 1] = J - J (J - 1) / (2 A): the errata on the lower bound, over all
    places of a*.
    """
    for learner in LEARNERS.values():
        for J in range(1, A + 1):
            found = [
                learner(np.array([[need]]), np.random.default_rng(need))[: J - 1]
                for need in range(A)
            ]
            success = sum(need == 0 or flags.any() for need, flags in enumerate(found)) / A
            tries = sum(len(flags) + 1 for flags in found) / A
            assert success == J / A
            assert tries == pytest.approx(J - J * (J - 1) / (2 * A))
            assert (
                success <= 2 * tries / (A + 1) + 1e-12
            )  # the corrected inequality, sharp for J = A


@pytest.mark.parametrize("seed", range(3))
def test_switching_where_a_visit_fails_is_the_learner_itself(seed):
    """Play the visits one by one: each (h, x) has an order of actions and moves on when its action
    does not pay.
    """
    generator = np.random.default_rng(seed)
    need = generator.integers(5, size=(3, 4))
    action, found = np.zeros(12, dtype=int), []
    for row in visited_rows(need, copy.deepcopy(generator)):
        if action[row] < need.ravel()[row]:
            action[row] += 1
            found.append(action[row] == need.ravel()[row])
    assert where_visited(need, generator).tolist() == found
    assert len(found) == need.sum()


def test_an_episode_visits_each_step_once():
    visits = visited_rows(np.full((3, 4), 2), np.random.default_rng(0)).reshape(-1, 3)
    assert (visits // 4 == [0, 1, 2]).all()


def test_settled_regret_without_a_switch_is_one_minus_one_of_a():
    regret = (
        settled_regret(row_by_row, H=10, S=100, A=4, budgets=np.array([0, 500, 3000]), runs=100)
        / 10
    )
    error = regret.std(axis=0, ddof=1) / 10
    assert abs(regret[:, 0].mean() - 3 / 4) < 4 * error[0]  # false alarm: 6e-5
    assert (
        abs(regret[:, 1].mean() - (3 / 4 - 2 * 500 / 4000)) < 4 * error[1]
    )  # twice the slope of the printed proof
    assert (regret[:, 2] == 0).all()  # A - 1 switches for each row
    assert printed_proof_regret([0, 0.5], 4).tolist() == [0.75, 0.25]


def test_learners_that_never_settle_would_support_the_printed_constant(lab, monkeypatch):
    for name in list(LEARNERS):
        monkeypatch.delitem(LEARNERS, name)
    monkeypatch.setitem(
        LEARNERS, "never settles", lambda need, generator: np.zeros(need.size * 100, dtype=bool)
    )
    assert grades(lower_bound(lab)) == ["seen", "seen"]


def test_a_learner_that_knows_better_would_refute_the_corrected_bound(lab, monkeypatch):
    monkeypatch.setitem(
        LEARNERS, "knows a*", lambda need, generator: np.ones((need > 0).sum(), dtype=bool)
    )
    section = lower_bound(lab)
    assert grades(section) == ["the printed proof fails", "contradicted in practice"]
    _, above, linear = broken(section)
    assert above.startswith("for every budget N")
    assert linear.startswith("with the corrected budget")


def test_ucb2_learns_on_the_family_and_so_switches_more_often_than_the_threshold(lab):
    for runs in real_learners(lab):
        assert exponent_of(runs.curves, "regret") < 0.6
        size = {"H": runs.horizon, "S": runs.states, "A": runs.actions}
        assert runs.local_switches.min() > theory.corrected_switch_threshold(**size)


def test_the_sizes_are_those_of_the_errata():
    assert [(H * S, A) for H, S, A in SIZES] == [
        (50, 4),
        (200, 4),
        (1000, 4),
        (1000, 8),
        (10000, 8),
    ]
