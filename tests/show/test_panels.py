"""Figures: the bands and what names them, guide lines, paired ratios, Axes of the caller."""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from cycler import cycler
from matplotlib.figure import Figure

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS
from lowswitch.show import bands, panels

CURVES = np.array([[1.0, 10.0], [2.0, 10.0], [4.0, 10.0], [5.0, 10.0]])


@pytest.fixture(scope="module")
def results():
    mdp = PROBLEMS["dense"]()
    return {
        name: ls.simulate(mdp, ALGORITHMS[name], episodes=300, seeds=4)
        for name in ("ucb-h", "ucb2-h")
    }


def test_the_three_bands_by_hand():
    low, high = bands.band_of(CURVES, "quantiles")
    assert (low[0], high[0]) == (pytest.approx(1.3), pytest.approx(4.7))
    # mean 3 and standard deviation sqrt(10/3); t_{0.975, 3} = 3.182446
    half = 3.182446 * math.sqrt(10 / 3) / 2
    low, high = bands.band_of(CURVES, "interval")
    assert (low[0], high[0]) == (pytest.approx(3 - half, abs=1e-5), pytest.approx(3 + half))
    assert (low[1], high[1]) == (10, 10)
    # of 4^4 = 256 equally likely resamples the least sums are 4, 5 (4 times), 6 (6), and 7 (8):
    # 2.5 % of them are 6.4, so the quantile is a sum of 6, and mirrored 18
    low, high = bands.band_of(CURVES, "bootstrap")
    assert (low[0], high[0]) == (pytest.approx(6 / 4, abs=0.26), pytest.approx(18 / 4, abs=0.26))
    assert (low[1], high[1]) == (pytest.approx(10), pytest.approx(10))
    for one in (bands.band_of(CURVES, "none"), bands.band_of(CURVES[:1], "interval")):
        assert np.isnan(one).all()


@pytest.mark.parametrize("band", bands.WORDS)
def test_the_band_is_the_chosen_one_and_the_legend_names_it(results, band):
    figure = ls.plot(results, band=band, what="regret")
    runs = results["ucb-h"]
    [first, *_] = figure.axes[0].collections
    drawn = first.get_paths()[0].vertices
    low, high = bands.band_of(runs.curves.regret, band)
    for end in (low, high):
        assert np.isin(end, drawn[:, 1]).all()
    labels = [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]
    assert labels == ["ucb-h", "ucb2-h", f"band: {bands.WORDS[band]}"]


def test_no_band_is_named_where_none_is_drawn(results):
    for options in ({"band": "none"}, {"x": "deployments"}):
        labels = ls.plot(results, **options).axes[0].get_legend_handles_labels()[1]
        assert labels == ["ucb-h", "ucb2-h"]
    alone = ls.simulate(PROBLEMS["dense"](), ALGORITHMS["ucb-h"], episodes=20, seeds=1)
    assert len(ls.plot(alone).axes[0].get_legend_handles_labels()[1]) == 1


def test_guides_meet_the_least_regret_at_the_end(results):
    axes = Figure().subplots()
    ls.plot(results, ax=axes, guides=("sqrt", "log"))
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    least = min(runs.regret.mean() for runs in results.values())
    episodes = results["ucb-h"].curves.episodes
    np.testing.assert_allclose(lines["grows like √K"], least * np.sqrt(episodes / 300))
    grown = least * np.log(episodes) / np.log(300)
    np.testing.assert_allclose(lines["grows like log K"][1:], grown[1:])
    assert np.isnan(lines["grows like log K"][0])  # of one episode the logarithm is 0
    switches = ls.plot(results, what="deployments", guides="sqrt").axes[0]
    assert len(switches.get_lines()) == 2  # a guide is for regret


def test_ratios_are_of_the_means_as_in_the_table_and_say_so(results):
    figure = ls.plot(results, ratio_to="ucb-h")
    *_, panel = figure.axes
    assert panel.get_title() == "ratio of the means\n(band: 95 % paired bootstrap)"
    assert panel.get_ylabel() == "mean regret relative to ucb-h"
    line = next(line for line in panel.get_lines() if line.get_label() == "ucb2-h")
    means = [results[name].regret.mean() for name in ("ucb2-h", "ucb-h")]
    assert line.get_ydata()[-1] == pytest.approx(means[0] / means[1])
    same, (low, high) = panels.ratio_of_means(results["ucb-h"], results["ucb-h"], "regret")
    assert np.nanmax(np.abs([same - 1, low - 1, high - 1])) == pytest.approx(0)
    axes = Figure().subplots()
    ls.plot(results, ax=axes, ratio_to="ucb2-h", what="deployments", band="none")
    assert axes.get_ylabel() == "mean deployments relative to ucb2-h"
    assert axes.get_legend_handles_labels()[1] == ["ucb-h"]


def test_the_paired_band_by_hand():
    """Resampling both runs of a seed: where one run is twice the other, nothing varies."""
    low, high = bands.paired_band(2 * CURVES, CURVES)
    assert (low, high) == (pytest.approx(2), pytest.approx(2))
    # one of the four seeds has ratio 11, the others 1: means of resamples are (n + 10 k) / n
    above, below = np.array([[11.0], [1.0], [1.0], [1.0]]), np.ones((4, 1))
    low, high = bands.paired_band(above, below)
    assert low == 1  # no draw of that seed has a chance of (3/4)^4 = 32 %
    assert high == pytest.approx(1 + 10 * 3 / 4)  # three draws or more of it 5 %, four 0.4 %
    assert np.isnan(bands.paired_band(above[:1], below[:1])).all()


def sampled(known):
    """Two runs without tables, whose optimal value is given or not."""

    def step(state, action, h, random):
        return state, float(random.random() < 0.2 + 0.5 * action)

    simulator = ls.envs.Simulator(step, horizon=1, states=1, actions=2, optimal_value=known)
    algorithms = {"a": ls.ucb2_hoeffding(c=0.05), "b": ls.ucb_hoeffding(c=0.05)}
    return {
        name: ls.simulate(simulator, one, episodes=40, seeds=3) for name, one in algorithms.items()
    }


@pytest.mark.parametrize(
    ("known", "name"), [(None, "Monte-Carlo loss"), (0.7, "Monte-Carlo regret")]
)
def test_what_is_sampled_is_not_called_regret(known, name, tmp_path):
    runs = sampled(known)
    panel = ls.plot(runs).axes[0]
    assert panel.get_title() == name
    assert panel.get_ylabel().startswith(name)
    axes = Figure().subplots()
    ls.plot(runs, ax=axes)
    assert axes.get_ylabel().startswith(name)
    column = name.replace(" ", "_")
    frame = runs["a"].to_dataframe("pandas")
    assert column in frame.columns
    assert "regret" not in frame.columns
    runs["a"].to_csv(tmp_path / "a.csv")
    assert column in (tmp_path / "a.csv").read_text().splitlines()[0].split(",")
    sweep = ls.sweep([PROBLEMS["dense"]()], [runs["a"].algorithm], episodes=40, seeds=3)
    assert "regret" in sweep.to_dataframe("pandas").columns


def test_a_ratio_of_losses_is_refused_with_the_reason():
    runs = sampled(None)
    with pytest.raises(
        ValueError, match="a ratio of losses says nothing about regret; give the Sim"
    ):
        ls.plot(runs, ratio_to="a")
    ls.plot(runs, ratio_to="a", what="deployments")
    ls.plot(sampled(0.7), ratio_to="a")


def test_what_are_no_runs_is_named(results):
    with pytest.raises(ValueError, match="give runs of simulate or learn: .* not 1"):
        ls.plot({"a": 1})
    sweep = ls.sweep([PROBLEMS["dense"]()], [ALGORITHMS["ucb-h"]], episodes=20, seeds=2)
    for function in (ls.summary, ls.plot):
        with pytest.raises(ValueError, match=r"call its own summary\(\), plot\(\) or"):
            function(sweep)


def test_a_legend_of_many_names_has_the_columns_that_fit(results):
    runs = {f"learner {i}": results["ucb-h"] for i in range(8)}
    figure = ls.plot(runs)
    assert figure.legends[0]._ncols == 3  # the name of the band is the longest
    long = {f"{name} {'x' * 40}": results["ucb-h"] for name in "abcdefgh"}
    assert ls.plot(long).legends[0]._ncols == 2
    assert ls.plot(long).get_figheight() < 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio_to": "ucb"}, 'ratio_to must be "ucb-h" or "ucb2-h", not .ucb.'),
        ({"ratio_to": "ucb-h", "x": "deployments"}, 'not x="deployments"'),
        ({"band": "sd"}, "band must be"),
        ({"guides": ["cubic"]}, "guides must be"),
    ],
)
def test_what_cannot_be_drawn_is_named(results, options, message):
    with pytest.raises(ValueError, match=message):
        ls.plot(results, **options)


def test_runs_under_other_seeds_have_no_ratios(results):
    other = replace(results["ucb2-h"], seeds=np.arange(4) + 1)
    with pytest.raises(
        ValueError, match=r'"b" has 300 .*seeds \[1, 2, 3, 4\], and "a" has 300 .*run both'
    ):
        ls.plot({"a": results["ucb-h"], "b": other}, ratio_to="a")


def test_axes_of_the_caller_keep_their_look(results):
    before = dict(matplotlib.rcParams)
    figure = Figure()
    axes = figure.subplots()
    axes.set_prop_cycle(cycler(color=["#123456", "#abcdef"]))
    axes.grid(visible=False)
    ls.plot(results, ax=axes, guides="sqrt")
    colours = [line.get_color() for line in axes.get_lines()[:2]]
    assert colours == ["#123456", "#abcdef"]
    assert axes.collections[0].get_facecolor()[0][:3] == pytest.approx(
        matplotlib.colors.to_rgb("#123456")
    )
    assert axes.get_lines()[0].get_linewidth() == matplotlib.rcParams["lines.linewidth"]
    assert all(spine.get_visible() for spine in axes.spines.values())
    assert not any(line.get_visible() for line in axes.get_xgridlines())
    ls.plot(results)
    assert dict(matplotlib.rcParams) == before


def test_a_sweep_of_named_algorithms_has_their_names_everywhere(tmp_path):
    algorithms = {"slow": ALGORITHMS["ucb-h"], "rare": ALGORITHMS["ucb2-h"]}
    problems = [ls.envs.random_mdp(states=3, seed=seed) for seed in (1, 2)]
    sweep = ls.sweep(problems, algorithms, episodes=30, seeds=2, progress=False)
    sweep.save(tmp_path / "swept.npz")
    for one in (sweep, ls.Sweep.load(tmp_path / "swept.npz")):
        assert one.labels == ["slow", "rare"]
        assert "slow" in str(one.summary())
        assert set(one.to_dataframe("pandas")["algorithm"]) == {"slow", "rare"}
        assert [row[0] for row in one.iqm().rows] == ["slow", "rare"]
        figure = one.profiles()
        assert figure.axes[0].get_legend() is None
        assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["slow", "rare"]
    assert len(sweep.plot().axes) == 6
    unnamed = ls.sweep(problems, list(algorithms.values()), episodes=30, seeds=2, progress=False)
    assert unnamed.labels == [one.label for one in algorithms.values()]


def test_an_algorithm_of_parts_has_a_short_label():
    algorithm = ls.Algorithm(
        estimator=ls.parts.Planning(clip="remaining", data="all"),
        bonus=ls.parts.BernsteinFreedman(c=0.01),
        schedule=ls.parts.Stages(),
        p=0.1,
    )
    label = "Planning(clip='remaining', data='all') + BernsteinFreedman(c=0.01) + Stages, p=0.1"
    assert algorithm.label == label
