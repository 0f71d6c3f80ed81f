import math

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS
from lowswitch import report


@pytest.fixture(scope="module")
def results():
    mdp = PROBLEMS["dense"]()
    return {name: ls.simulate(mdp, ALGORITHMS[name], episodes=2000, seeds=4) for name in ("ucb-h", "ucb2-h")}


def test_students_interval_by_hand():
    # four values with mean 3 and standard deviation sqrt(10/3); t_{0.975, 3} = 3.182446
    assert report.half_width(np.array([1.0, 2.0, 4.0, 5.0])) == pytest.approx(3.182446 * math.sqrt(10 / 3) / 2, rel=1e-6)
    assert math.isnan(report.half_width(np.array([1.0])))


def test_means_are_printed_to_a_sensible_precision():
    assert report.mean_and_interval(np.array([1000.0, 3000.0])) == "2,000 ± 12,706"
    assert report.mean_and_interval(np.array([0.5, 0.7])) == "0.60 ± 1.27"
    assert report.mean_and_interval(np.array([7])) == "7"


def test_tables_align():
    assert report.table(["name", "n"], [["a", "10"], ["long name", "9,999"]]).splitlines() == [
        "name           n",
        "---------  -----",
        "a             10",
        "long name  9,999",
    ]


def test_the_summary_names_sizes_and_costs(results, capsys):
    results["ucb2-h"].summary()
    text = capsys.readouterr().out
    assert "S = 4, A = 3, H = 3; 2,000 episodes, 4 seeds" in text
    assert f"{results['ucb2-h'].regret.mean():,.0f} ±" in text
    assert f"{results['ucb2-h'].local_switches.mean():,.0f} ±" in text


def test_costs_against_the_baseline_by_hand(results):
    baseline, learner = results["ucb-h"], results["ucb2-h"]
    line = report.versus(results, {"ucb2-h": "ucb-h"}).splitlines()[-1]
    assert f"{learner.regret.mean() / baseline.regret.mean() - 1:+.1%}" in line
    assert f"{baseline.local_switches.mean() / learner.local_switches.mean():,.1f} x fewer" in line


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figures_are_written_whole(results, ending, tmp_path):
    figure = ls.plot(results, path=tmp_path / f"figure.{ending}", title="dense")
    assert (tmp_path / f"figure.{ending}").stat().st_size > 10_000
    assert [axes.get_title() for axes in figure.axes] == ["dense: regret", "dense: local switches", "dense: deployments"]
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["ucb-h", "ucb2-h"]
    np.testing.assert_array_equal(lines[1].get_ydata(), results["ucb2-h"].curves.regret.mean(axis=0))


def test_one_run_or_a_list_will_do(results, tmp_path):
    figure = results["ucb-h"].plot(tmp_path / "one.png")
    assert figure.axes[0].get_lines()[0].get_label() == "ucb-h:c=0.1"
    assert len(ls.plot(list(results.values())).axes[0].get_lines()) == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [("figure.bmp", r"must end in .png, .svg, .pdf, not 'figure.bmp'"), ("no/such/folder.png", "cannot write")],
)
def test_figures_that_cannot_be_written(results, path, message):
    with pytest.raises(ValueError, match=message):
        ls.plot(results, path=path)


def test_nothing_to_plot():
    with pytest.raises(ValueError, match="nothing to plot"):
        ls.plot([])
