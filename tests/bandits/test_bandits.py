"""The bandit algorithms against their papers, pull by pull, and thousands of runs at once."""

import itertools
import json
import math

import numpy as np
import pytest

import lowswitch as ls
from bandit_books import by_the_book, powers
from lowswitch import bandits
from lowswitch.bandits.runs import compile_bandit, fresh_tables
from lowswitch.kernels import arms as kernels

INDEX = {
    "ucb1": bandits.ucb1(),
    "ucb2-0.001": bandits.ucb2(),
    "ucb2-0.1": bandits.ucb2(alpha=0.1),
    "ucb2-0.5": bandits.ucb2(alpha=0.5),
}
GRIDLESS = INDEX | {
    "log-log": bandits.log_log(p=0.9),
    "batched-thompson": bandits.batched_thompson(),
}
ALGORITHMS = GRIDLESS | {
    "base": bandits.base(gamma=0.5),
    "base-geometric": bandits.base(grid="geometric", batches=6, gamma=0.2),
    "explore-then-commit": bandits.explore_then_commit(batches=4, c=0.1),
}
MEANS = {
    "apart": [0.2, 0.9, 0.5, 0.6],
    "close": [0.48, 0.5, 0.52],
    "sure, so that indices tie": [1.0, 0.0, 1.0, 0.0, 1.0],
    "all equal": [0.5, 0.5],
}


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return ALGORITHMS[request.param]


@pytest.fixture(params=GRIDLESS)
def gridless(request):
    return GRIDLESS[request.param]


@pytest.fixture(params=MEANS)
def means(request):
    return MEANS[request.param]


def fitting(algorithm, means):
    """As many arms as the algorithm is for."""
    return means[:2] if algorithm.name == "explore-then-commit" else means


# ---- the papers, word for word -------------------------------------------------------------------


def traced(algorithm, means, pulls, seed):
    """The arm of every pull: a checkpoint after each, and gaps 0, 1, 2, ... so that what a pull
    adds to the regret is its arm.
    """
    bandit = compile_bandit(algorithm, np.array(means), pulls)
    bandit = bandit._replace(
        curve_points=np.arange(1, pulls + 1), gaps=np.arange(len(means), dtype=float)
    )
    tables = fresh_tables(np.array([seed]), len(means), pulls)
    counts = np.zeros((2, 1, pulls), dtype=np.int64)
    tables = tables._replace(regret=np.zeros((1, pulls)), switches=counts[0], batches=counts[1])
    kernels.play_bandits(bandit, tables, 0, 1, 0, pulls)
    return (
        np.diff(tables.regret[0], prepend=0.0).astype(int).tolist(),
        tables.switches[0].tolist(),
        tables.batches[0].tolist(),
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_pull_is_that_of_the_paper(algorithm, means, seed):
    means = fitting(algorithm, means)
    book = by_the_book(algorithm, means, 600, seed)
    arms, switches, batches = traced(algorithm, means, 600, seed)
    assert arms == book.played
    assert switches == np.cumsum([0, *(np.diff(book.played) != 0)]).tolist()
    assert batches == [sum(begin < t for begin in book.begins) for t in range(1, 601)]


def test_results_count_the_paper_s_pulls(algorithm, means):
    means = fitting(algorithm, means)
    runs = bandits.simulate(means, algorithm, pulls=600, runs=3)
    for run in range(3):
        book = by_the_book(algorithm, means, 600, seed=run)
        assert (
            runs.arm_pulls[run].tolist() == np.bincount(book.played, minlength=len(means)).tolist()
        )
        assert runs.switches[run] == (np.diff(book.played) != 0).sum()
        assert runs.batches[run] == len(book.begins)
        gaps = max(means) - np.array(means)[book.played]
        assert runs.curves.regret[run] == pytest.approx(np.cumsum(gaps)[runs.curves.pulls - 1])
        assert runs.regret[run] == runs.curves.regret[run, -1]


# ---- formulas by hand ----------------------------------------------------------------------------


def test_runs_print_as_a_line():
    runs = bandits.simulate([0.4, 0.6], bandits.ucb1(), pulls=1000, runs=1)
    size = "arms=2, 1,000 pulls, 1 run"
    assert repr(runs).startswith(f"BanditRuns({runs.algorithm}, {size}, regret ")
    assert repr(runs).endswith(f", switches {runs.switches[0]:,}, batches {runs.batches[0]:,})")


def test_widths_by_hand():
    assert kernels.ucb1_width(8, 3) == pytest.approx(math.sqrt(2 * math.log(2)))  # 2 ln 8 / 3
    assert kernels.ucb2_width(2, 2, 0.5) == pytest.approx(math.sqrt(3 / 8))  # ln e = 1
    assert kernels.ucb2_width(6, 2, 0.5) == pytest.approx(math.sqrt(1.5 * (1 + math.log(3)) / 4))


def test_the_index_is_the_mean_plus_the_width():
    two = compile_bandit(bandits.ucb2(alpha=0.5), np.array([0.1, 0.9]), 100)
    assert kernels.arm_index(two, 2, 2, 1) == pytest.approx(1 / 2 + math.sqrt(3 / 8))
    one = compile_bandit(bandits.ucb1(), np.array([0.1, 0.9]), 100)
    assert kernels.arm_index(one, 8, 3, 2) == pytest.approx(2 / 3 + math.sqrt(2 * math.log(2)))


def test_epochs_grow_by_half_when_alpha_is_one_half():
    # 1.5^r = 1, 1.5, 2.25, 3.375, 5.06, ...
    assert bandits.ucb2(alpha=0.5).triggers(50).first(20) == [1, 2, 3, 4, 6, 8, 12, 18, 26, 39]


def test_epochs_are_single_pulls_up_to_a_thousand_when_alpha_is_a_thousandth():
    assert powers(0.001, 695)[1:] == [2] * 693 + [3]  # 692 epochs of length zero
    assert bandits.ucb2().triggers(1054).first(2000) == [
        *range(1, 1022),
        *range(1023, 1051),
        *range(1052, 1055),
    ]


@pytest.mark.parametrize("alpha", [0.99, 0.7, 0.5, 0.3, 0.1, 0.05, 0.01, 0.001])
@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000, 1200])
def test_triggers_are_the_distinct_values_of_tau(alpha, limit):
    expected = sorted({tau for tau in powers(alpha, 7300 if alpha < 0.01 else 800) if tau <= limit})
    assert bandits.ucb2(alpha=alpha).triggers(limit).first(limit) == expected


def test_a_tiny_alpha_costs_nothing():
    assert bandits.ucb2(alpha=1e-100).triggers(10**9) == (10**9, ())


def test_switch_bound_by_hand():
    two = bandits.ucb2(alpha=0.5)  # epochs of length 1, 1, 1, 2, 2, 4, ... for each of two arms
    assert two.switch_bound(2, 10) == 1 + 7  # the 8 pulls after the first round: 1 1 1 1 1 1 2
    assert two.switch_bound(2, 11) == 1 + 8  # 1 1 1 1 1 1 2, and one cut after a pull
    assert two.switch_bound(2, 2) == 1
    assert bandits.ucb1().switch_bound(arms=7, pulls=100) == 99


def test_regret_bounds_by_hand():
    assert bandits.ucb2(alpha=0.5).lower_order == pytest.approx(
        191.66765, abs=1e-5
    )  # 1 + 6 e + 3^1.5 (1 + 13.2 / ln 1.5)
    leading = 1.5 * 3 * math.log(2 * math.e * 0.25 * 100) / 2
    assert bandits.ucb2(alpha=0.5).regret_bound([0.9, 0.4], pulls=100) == pytest.approx(
        (leading + 191.66765) / 0.5
    )
    assert bandits.ucb1().regret_bound([0.9, 0.4], pulls=100) == pytest.approx(
        16 * math.log(100) + (1 + math.pi**2 / 3) / 2
    )
    assert bandits.ucb2().regret_bound([0.5, 0.5], pulls=100) == 0


# ---- the driver ----------------------------------------------------------------------------------


def assert_same(left, right):
    np.testing.assert_array_equal(left.arm_pulls, right.arm_pulls)
    for one, other in zip(left.curves, right.curves, strict=True):
        np.testing.assert_array_equal(one, other)


def test_threads_do_not_matter(algorithm):
    means = fitting(algorithm, [0.4, 0.6, 0.5])
    one, three = (
        bandits.simulate(means, algorithm, pulls=5000, runs=30, threads=threads)
        for threads in (1, 3)
    )
    assert_same(one, three)


def test_a_run_depends_on_its_seed_alone(algorithm):
    means = fitting(algorithm, [0.4, 0.6, 0.5])
    many = bandits.simulate(means, algorithm, pulls=2000, runs=10)
    last = bandits.simulate(means, algorithm, pulls=2000, runs=1, first_seed=9)
    assert many.seeds.tolist() == list(range(10))
    np.testing.assert_array_equal(many.curves.regret[9], last.curves.regret[0])
    assert len(set(map(bytes, many.curves.regret))) > 1


def play_in_pieces(algorithm, edges, play):
    means = fitting(algorithm, [0.3, 0.6, 0.5])
    bandit = compile_bandit(algorithm, np.array(means), edges[-1])
    tables = fresh_tables(np.arange(2), len(means), edges[-1])
    for first, last in itertools.pairwise(edges):
        play(bandit, tables, 0, 2, first, last)
    return [table.tolist() for table in tables]


def test_pieces_make_the_whole(algorithm):
    whole = play_in_pieces(algorithm, [0, 3000], kernels.play_bandits)
    assert play_in_pieces(algorithm, [0, 1, 2, 50, 51, 1234, 3000], kernels.play_bandits) == whole


def test_the_compiled_kernel_equals_the_interpreted_one(algorithm, monkeypatch):
    compiled = play_in_pieces(algorithm, [0, 2000], kernels.play_bandits)
    for name, kernel in vars(kernels).copy().items():
        if hasattr(kernel, "py_func"):
            monkeypatch.setattr(kernels, name, kernel.py_func)
    with np.errstate(over="ignore"):  # the noise wraps around
        assert play_in_pieces(algorithm, [0, 2000], kernels.play_bandits) == compiled


def test_nothing_recompiles(algorithm):
    bandits.simulate([0.4, 0.6], algorithm, pulls=100, runs=1)
    before = len(kernels.play_bandits.signatures)
    bandits.simulate(fitting(algorithm, [0, 1, 1, 0.5]), algorithm, pulls=3000, runs=5)
    assert len(kernels.play_bandits.signatures) == before


@pytest.mark.parametrize("pulls", [4, 5, 17, 1000])
def test_the_last_epoch_is_cut(gridless, pulls):
    runs = bandits.simulate([0.1, 0.2, 0.3, 0.4], gridless, pulls=pulls, runs=50)
    assert (runs.arm_pulls.sum(axis=1) == pulls).all()
    assert runs.curves.pulls[[0, -1]].tolist() == [1, pulls]


@pytest.mark.parametrize("pulls", [4, 5, 17, 1000])
@pytest.mark.parametrize("name", INDEX)
def test_an_index_policy_plays_each_arm_once_first(name, pulls):
    runs = bandits.simulate([0.1, 0.2, 0.3, 0.4], INDEX[name], pulls=pulls, runs=50)
    assert runs.arm_pulls.min() >= 1
    assert runs.switches.min() >= 3


@pytest.mark.parametrize("pulls", [4, 10])
def test_small_bounds_hold(gridless, means, pulls):
    assert_bounds_hold(gridless, means, max(pulls, len(means)))


@pytest.mark.parametrize("pulls", [100, 3000, 10_000])
def test_switches_and_batches_stay_within_the_bounds(algorithm, means, pulls):
    assert_bounds_hold(algorithm, fitting(algorithm, means), pulls)


def assert_bounds_hold(algorithm, means, pulls):
    runs = bandits.simulate(means, algorithm, pulls=pulls, runs=50)
    assert runs.switches.max() <= algorithm.switch_bound(len(means), pulls)
    assert runs.batches.max() <= algorithm.batch_bound(len(means), pulls)
    assert runs.batches.min() >= 1


# ---- what the paper promises ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "pulls", "runs"),
    [(bandits.ucb1(), 10**4, 200), (bandits.ucb2(alpha=0.09), 10**6, 100)],
    ids=["theorem 1", "theorem 2"],
)
def test_the_mean_regret_stays_below_the_theorem(algorithm, pulls, runs):
    """The bound is below the largest possible regret, so it says something, and at least 4 times
    the mean, so chance plays no part.
    """
    means = [0.9, 0.1]
    bound = algorithm.regret_bound(means, pulls=pulls)
    assert bound < 0.8 * pulls
    assert bandits.simulate(means, algorithm, pulls=pulls, runs=runs).regret.mean() < bound


def test_regret_grows_like_the_logarithm_that_theorem_2_says():
    """From about 10^3 to 10^6 pulls it grows by 10.8; the 200 seeds are fixed, and both sides are
    some 10 standard errors away.

    Above, the theorem's leading term; below, what no consistent algorithm can undercut (Lai,
    Robbins 1985).
    """
    runs = bandits.simulate([0.9, 0.6], bandits.ucb2(alpha=0.05), pulls=10**6, runs=200)
    early = np.searchsorted(runs.curves.pulls, 1000)
    growth = (runs.regret - runs.curves.regret[:, early]).mean()
    span = math.log(10**6 / runs.curves.pulls[early])
    divergence = 0.6 * math.log(0.6 / 0.9) + 0.4 * math.log(0.4 / 0.1)
    assert 0.3 / divergence * span < growth < 1.05 * 1.2 / (2 * 0.3) * span


@pytest.mark.parametrize(("alpha", "factor"), [(0.001, 4), (0.1, 8), (0.5, 16)])
def test_ucb2_switches_far_less_than_ucb1(alpha, factor):
    """The 200 seeds are fixed; the measured factors are 4.5, 8.9 and 18.6, each with a standard
    error of at most 1 %.
    """
    means = [0.9] + [0.8] * 9
    often, seldom = (
        bandits.simulate(means, algorithm, pulls=30_000, runs=200)
        for algorithm in (bandits.ucb1(), bandits.ucb2(alpha=alpha))
    )
    assert often.switches.mean() > factor * seldom.switches.mean()


# ---- values, files, words ------------------------------------------------------------------------


def test_an_algorithm_survives_json(algorithm):
    assert (
        bandits.BanditAlgorithm.from_dict(json.loads(json.dumps(algorithm.to_dict()))) == algorithm
    )


def test_an_algorithm_is_written_as_on_the_command_line():
    assert list(map(str, ALGORITHMS.values())) == [
        *("ucb1", "ucb2", "ucb2:alpha=0.1", "ucb2:alpha=0.5", "log-log:p=0.9", "batched-thompson"),
        *(
            "base:gamma=0.5",
            "base:grid=geometric,batches=6,gamma=0.2",
            "explore-then-commit:batches=4,c=0.1",
        ),
    ]
    assert str(bandits.base(grid=(10, 100), batches=2)) == "base:grid=10/100,batches=2"


def test_results_survive_a_file(algorithm, tmp_path):
    runs = bandits.simulate([0.4, 0.5], algorithm, pulls=300, runs=4, first_seed=2)
    runs.save(tmp_path / "runs.npz")
    loaded = bandits.load(tmp_path / "runs.npz")
    assert_same(loaded, runs)
    assert (loaded.algorithm, loaded.pulls, loaded.seconds) == (algorithm, 300, runs.seconds)
    assert loaded.means.tolist() == [0.4, 0.5]
    assert loaded.seeds.tolist() == [2, 3, 4, 5]


def test_other_files_are_no_bandit_runs(tmp_path):
    ls.Learner(ls.ucb_hoeffding(), horizon=1, states=1, actions=2, episodes=3).save(
        tmp_path / "learner.npz"
    )
    with pytest.raises(ValueError, match="is of the kind 'learner', not 'bandit runs'"):
        bandits.load(tmp_path / "learner.npz")


def test_the_summary_has_intervals():
    text = str(bandits.simulate([0.4, 0.5], bandits.ucb2(alpha=0.1), pulls=300, runs=4).summary())
    assert "A = 2; 300 pulls, 4 runs; means with 95 % intervals" in text
    assert "ucb2:alpha=0.1" in text
    assert text.count("±") == 3


@pytest.mark.parametrize(
    ("means", "wrong"),
    [
        ([0.5, 1.2], "not .*; rescale the rewards"),
        ([-0.1, 0.5], "not .*; rescale the rewards"),
        ([0.5, math.nan], r"but 1 of 2 are NaN \(not a number\), the first one at \[1\]"),
    ],
)
def test_means_are_probabilities(means, wrong):
    with pytest.raises(ValueError, match=rf"means must lie in \[0, 1\], {wrong}"):
        bandits.simulate(means, bandits.ucb1(), pulls=10)


@pytest.mark.parametrize("means", [[], [0.5], [[0.1, 0.2]]])
def test_a_bandit_has_two_arms_at_least(means):
    with pytest.raises(ValueError, match="at least 2 arms"):
        bandits.simulate(means, bandits.ucb1(), pulls=10)


@pytest.mark.parametrize("alpha", [0, 1, 0.0, 1.0, -0.1, math.nan, "0.1"])
def test_alpha_lies_between_0_and_1(alpha):
    with pytest.raises(
        ValueError,
        match=r"alpha must lie strictly between 0 and 1, not .*; 0.001 for little regret",
    ):
        bandits.ucb2(alpha=alpha)


def test_other_mistakes_are_named():
    arms = [0.1, 0.2, 0.3]
    with pytest.raises(ValueError, match="pulls must be at least the number of arms, 3, not 2"):
        bandits.simulate(arms, bandits.ucb1(), pulls=2)
    with pytest.raises(ValueError, match="runs must be a whole number from 1 .*, not 0"):
        bandits.simulate(arms, bandits.ucb1(), pulls=10, runs=0)
    with pytest.raises(ValueError, match="first_seed must be a whole number from 0 .*, not -1"):
        bandits.simulate(arms, bandits.ucb1(), pulls=10, first_seed=-1)
    with pytest.raises(ValueError, match=r"use bandits\.ucb2\(\) or another of bandits\.RECIPES"):
        bandits.simulate(arms, ls.ucb_hoeffding(), pulls=10)
    with pytest.raises(
        ValueError, match="Theorem 2 needs at least 5,000 pulls for a gap of 0.01, not 100"
    ):
        bandits.ucb2().regret_bound([0.5, 0.51], pulls=100)
    with pytest.raises(ValueError, match="unknown bandit algorithm 'ucb3'; did you mean"):
        bandits.BanditAlgorithm.from_dict({"name": "ucb3"})
