"""What is too large, too small or no number is refused before anything is built from it."""

import datetime
import math
import sys

import numpy as np
import pytest
from scipy import sparse

import lowswitch as ls
from fuzz.doors import BadFleet, coordinates, sparse_table
from lowswitch import bandits, checks, concurrent
from lowswitch.algorithms import calendars, powers
from lowswitch.concurrent import System
from lowswitch.ledger import Ledger

REWARDS = np.zeros((3, 2))
TABLE = np.full((3, 2, 3), 1 / 3)


# ---- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix",
    [
        sparse_table([0, 1, 2, 3, 1, 2]),
        sparse_table([0, 1, 2, -1, 1, 2]),
        sparse_table([0, 1, 2, 0, 1, 10**6]),
        sparse_table([0, 1, 2, 0, 1, 2], (0, 9, 1, 3, 4, 5, 6)),
        sparse_table([0, 1, 2, 0, 1, 2], (0, 1, 2, 3, 4, 5, 99)),
        coordinates([0, 1, 2, 3, 4, 6]),
        coordinates([0, 1, 2, 3, 4, -1]),
        coordinates([0, 1]),
    ],
)
def test_sparse_tables_with_indices_out_of_range(matrix):
    with pytest.raises(
        ValueError, match="sparse transitions are inconsistent .*; build them again"
    ):
        ls.TabularMDP(matrix, REWARDS, horizon=2)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_sparse_tables_of_every_form_are_read(form):
    matrix = sparse.csr_array(np.eye(3)[[0, 1, 2, 0, 1, 2]]).asformat(form)
    dense = ls.TabularMDP(np.eye(3)[[0, 1, 2, 0, 1, 2]].reshape(3, 2, 3), REWARDS, horizon=2)
    assert (
        ls.TabularMDP(matrix, REWARDS, horizon=2).successors.tolist() == dense.successors.tolist()
    )


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((TABLE + 0j, REWARDS), "transition probabilities must be real numbers, not complex128"),
        ((TABLE, REWARDS + 1j), "rewards must be real numbers, not complex128"),
        ((TABLE, REWARDS + 1 + 3e-16), r"not \[1.0000000000000002, 1.0000000000000002\]; rescale"),
        ((TABLE, REWARDS.astype("m8[s]")), "rewards must be real numbers, not timedelta64"),
        ((TABLE, REWARDS.astype(str)), "rewards must be real numbers, not <U"),
        (
            (np.full((3, 2, 3), 1 / 3, dtype=np.float32), REWARDS),
            "float32 is too coarse for that, so convert the table with astype",
        ),
    ],
)
def test_tables_that_are_no_numbers_are_named_truly(tables, message):
    with pytest.raises(ValueError, match=message):
        ls.TabularMDP(*tables, horizon=2)


def test_the_optimal_value_is_the_exact_sum_whatever_the_blas():
    generator = np.random.default_rng(0)
    law = generator.dirichlet(np.ones(999))
    rewards = generator.random((999, 1))
    mdp = ls.TabularMDP(np.eye(999)[:, None], rewards, horizon=1, start=law)
    values = mdp.optimal_values[0]
    exact = math.fsum((law * values).tolist())
    assert mdp.optimal_value() == exact == mdp.evaluate(np.zeros((1, 999), dtype=int))


# ---- fleets of one's own -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "rewards", "message"),
    [
        (np.full((2, 2), 3), np.zeros((2, 2)), "the states that the fleet returns must be 0 to 2"),
        (np.full((2, 2), -1), np.zeros((2, 2)), "the states that the fleet returns must be 0 to 2"),
        (np.zeros((2, 2)), np.zeros((2, 2)), "must return whole states and rewards"),
        (np.zeros((2, 2), dtype=int), np.full((2, 2), np.nan), "rewards that the fleet returns"),
        (np.zeros((2, 2), dtype=int), np.full((2, 2), 1.5), "rewards that the fleet returns"),
    ],
)
def test_a_fleet_that_returns_what_is_no_state(states, rewards, message):
    source = System(len, horizon=2, states=3, actions=2)
    with pytest.raises(ValueError, match=message):
        concurrent.run(
            source, ls.ucb2_hoeffding(c=0.1), 8, machines=2, fleet=BadFleet(states, rewards)
        )


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ls.ucb2_bernstein(c=1e308), "c must be at most 1e.100, not 1e.308: results would"),
        (lambda: ls.ucb2_bernstein(c=10**400), "c must be a positive number, not an integer of"),
        (
            lambda: ls.ucb2_bernstein(p=5e-324),
            "p must be at least 1e-100 .* not 5e-324: results would",
        ),
        (lambda: ls.psrl(prior=1e308), "prior must be at most 1e.100"),
        (lambda: ls.ucbvi(scales=(1, 1e308)), "scales must be numbers of at least 0"),
        (lambda: ls.parts.WholePolicy(1e50), "growth factor must be a float above 1 and at most"),
        (lambda: ls.parts.Growth(1 + 1e-17), "growth factor must be a number above 1"),
        (lambda: checks.require_count("n", 10**5000), "not an integer of 16,610 bits"),
        (lambda: checks.require_count("n", np.timedelta64(3, "s")), "n must be a whole number"),
        (lambda: checks.require_positive("c", datetime.timedelta(1), ""), "must be a positive"),
        (lambda: checks.checked_seeds(2.5), "seeds must be a number of seeds or .*, not 2.5"),
        (lambda: checks.checked_seeds([]), r"seeds must be .*, not \[\]"),
        (lambda: checks.require_truth("regret", "no"), "regret must be True or False, not 'no'"),
        (lambda: ls.rescale([0.0, 1j]), "rewards must be real numbers, not complex128"),
        (lambda: ls.rescale([-1e308, 1e308]), "is infinitely wide"),
        (lambda: ls.from_gymnasium("Nothing-v9", horizon=3), "Nothing"),
        (lambda: ls.from_gymnasium(None, horizon=3), "env must be a Gymnasium environment"),
        (lambda: ls.Algorithm.from_dict(["x"]), "an algorithm is an object as to_dict writes it"),
    ],
)
def test_numbers_that_would_break_formulas(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_truth_values_are_asked_for():
    mdp = ls.TabularMDP(TABLE, REWARDS, horizon=2)
    for call in (
        lambda: ls.simulate(mdp, ls.ucb2_hoeffding(), episodes=1, regret="no"),
        lambda: ls.simulate(mdp, ls.ucb2_hoeffding(), episodes=1, history=1),
        lambda: concurrent.run(mdp, ls.ucb2_hoeffding(), 1, machines=1, regret="no"),
        lambda: ls.frontier(mdp, episodes=1, stationary="no"),
    ):
        with pytest.raises(ValueError, match="must be True or False, not"):
            call()


def test_an_object_that_cannot_be_shown_is_named_by_its_type():
    class Silent:
        def __repr__(self):
            raise RuntimeError

    assert checks.shown(Silent()) == "a Silent"
    assert len(checks.shown(list(range(10**4)))) < 300


# ---- sizes ---------------------------------------------------------------------------------------

K = 2**31 - 2


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("grid/equal/2000000000", "the equal grid of 2,000,000,000 batches would take too long"),
        ("grid/geometric/1000000", "the geometric grid of 1,000,000 batches would take too long"),
        ("grid/minimax/100000", "the minimax grid of 100,000 batches would take too long"),
        ("growth/1.00000001", "counts that grow by a fraction of 1e-08 are about .* give a larger"),
        ("ucb2/eta=1e-8/r_star=1", "counts that grow by a fraction of 1e-08 are about"),
        ("episodes/1", "has 2,147,483,646 points in 2,147,483,646 episodes, more than 33,554,432"),
    ],
)
def test_schedules_are_bounded_before_they_are_built(schedule, message):
    with pytest.raises(ValueError, match=message):
        ls.Learner(ls.q_hoeffding(schedule=schedule), horizon=2, states=3, actions=2, episodes=K)


@pytest.mark.parametrize("rule", [1, 2])
def test_dates_are_bounded_before_they_are_built(rule):
    algorithm = ls.few(deployments=10**6, rule=rule)
    with pytest.raises(ValueError, match="dates for 1,000,000 deployments would take too long"):
        ls.Learner(algorithm, horizon=2, states=3, actions=2, episodes=K)


@pytest.mark.parametrize("rule", [1, 2])
def test_a_thousand_deployments_in_a_million_episodes_are_little_work(tmp_path, monkeypatch, rule):
    """The work is counted, not timed: roots of integers, and no decimals with thousands of digits.

    Each integer has at most 20 bits per deployment, because K < 2^20.
    """
    count, bits, calls = 1000, [], []

    def root(base, exponent):
        bits.append(base.bit_length())
        return powers.floor_power(base, exponent)

    monkeypatch.setattr(calendars, "floor_power", root)
    monkeypatch.setattr(powers, "Context", None)
    algorithm = ls.few(deployments=count, rule=rule)
    size = {"horizon": 3, "states": 4, "actions": 2, "episodes": 10**6}
    sys.setprofile(lambda *event: calls.append(event[1]))
    try:
        ledger = Ledger.create(tmp_path / "run.db", algorithm, **size)
    finally:
        sys.setprofile(None)
    ledger.close()
    assert len(bits) <= 2 * count
    assert max(bits) <= 20 * count
    assert len(calls) < 3_000_000  # of functions; the first ledger of a process imports modules
    assert (tmp_path / "run.db").stat().st_size < 2**18


def test_a_huge_exponent_is_every_visit():
    algorithm = ls.ucb2_hoeffding(eta=0.5, r_star=10**300)
    learner = ls.Learner(algorithm, horizon=2, states=3, actions=2, episodes=K)
    assert learner._knowledge.spec.every_until == K


@pytest.mark.parametrize(
    "call",
    [
        lambda: ls.Learner(ls.ucb2_hoeffding(), horizon=K, states=K, actions=K, episodes=1),
        lambda: ls.Learner(ls.ucbvi(scales=(1,) * 99), horizon=9, states=K, actions=9, episodes=1),
        lambda: ls.TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), horizon=K),
        lambda: ls.envs.riverswim(states=10**9),
        lambda: ls.envs.deep_sea(size=10**5),
        lambda: ls.envs.garnet(states=10**9, branching=10),
        lambda: ls.envs.random_mdp(states=10**6),
        lambda: bandits.simulate((0.5, 0.9), bandits.ucb2(), pulls=10, runs=K),
        lambda: concurrent.run(MDP, ls.ucb2_hoeffding(), K, machines=K),
        lambda: ls.simulate(MDP, ls.ucb2_hoeffding(), episodes=1, seeds=K),
    ],
)
def test_what_does_not_fit_is_said_before_it_is_allocated(call):
    with pytest.raises(ValueError, match=r"need [\d,.]+ GiB, and this machine has [\d,.]+ free; "):
        call()


MDP = ls.TabularMDP(TABLE, REWARDS, horizon=2)


@pytest.mark.parametrize("text", ["(" * 300, "[" * 9000, "9" * 20_000, "{[]}", "-" * 500 + "1"])
def test_deep_and_long_texts(text):
    with pytest.raises(ValueError, match="c must be a positive number|more than any option needs"):
        ls.Algorithm.from_text(f"ucb2-b:c={text}")
