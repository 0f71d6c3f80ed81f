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


def test_ratios_are_paired_by_seed(results):
    figure = ls.plot(results, ratio_to="ucb-h")
    *_, panel = figure.axes
    assert panel.get_title() == "paired ratio"
    assert panel.get_ylabel() == "regret over ucb-h, paired"
    above, below = (results[name].curves.regret for name in ("ucb2-h", "ucb-h"))
    line = next(line for line in panel.get_lines() if line.get_label() == "ucb2-h")
    by_hand = np.prod(above[:, -1] / below[:, -1]) ** (1 / 4)  # a geometric mean
    assert line.get_ydata()[-1] == pytest.approx(by_hand)
    same = panels.ratios(results["ucb-h"], results["ucb-h"], "regret")
    assert np.nanmax(np.abs(same - 1)) == 0
    axes = Figure().subplots()
    ls.plot(results, ax=axes, ratio_to="ucb2-h", what="deployments")
    assert axes.get_ylabel() == "deployments over ucb2-h, paired"


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
    with pytest.raises(ValueError, match=r"ratios are paired: .* seeds \[1, 2, 3, 4\].*run both"):
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
