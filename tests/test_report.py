import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS
from lowswitch import report


@pytest.fixture(scope="module")
def results():
    mdp = PROBLEMS["dense"]()
    return {
        name: ls.simulate(mdp, ALGORITHMS[name], episodes=2000, seeds=4)
        for name in ("ucb-h", "ucb2-h")
    }


def test_students_interval_by_hand():
    # four values with mean 3 and standard deviation sqrt(10/3); t_{0.975, 3} = 3.182446
    assert report.half_width(np.array([1.0, 2.0, 4.0, 5.0])) == pytest.approx(
        3.182446 * math.sqrt(10 / 3) / 2, rel=1e-6
    )
    assert math.isnan(report.half_width(np.array([1.0])))


def test_means_are_printed_to_a_sensible_precision():
    assert report.mean_and_interval(np.array([1000.0, 3000.0])) == "2,000 ± 12,706"
    assert report.mean_and_interval(np.array([0.5, 0.7])) == "0.60 ± 1.27"
    assert report.mean_and_interval(np.array([7])) == "7"


def test_means_in_words():
    costs = {
        "regret": np.array([1795.5, 1796.5]),
        "local_switches": np.array([7, 8]),
        "deployments": np.array([3, 3]),
    }
    assert report.means(**costs) == "regret 1,796, local switches 7.50, deployments 3"
    assert report.means(regret=np.array([math.nan])) == "regret unknown"


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
    assert [axes.get_title() for axes in figure.axes] == [
        "dense: regret",
        "dense: local switches",
        "dense: deployments",
    ]
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["ucb-h", "ucb2-h"]
    np.testing.assert_array_equal(
        lines[1].get_ydata(), results["ucb2-h"].curves.regret.mean(axis=0)
    )


def test_one_run_or_a_list_will_do(results, tmp_path):
    figure = results["ucb-h"].plot(tmp_path / "one.png")
    assert figure.axes[0].get_lines()[0].get_label() == "ucb-h:c=0.1"
    assert len(ls.plot(list(results.values())).axes[0].get_lines()) == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("figure.bmp", r"must end in .png, .svg, .pdf, not 'figure.bmp'"),
        ("no/such/folder.png", "cannot write"),
    ],
)
def test_figures_that_cannot_be_written(results, path, message):
    with pytest.raises(ValueError, match=message):
        ls.plot(results, path=path)


def test_a_figure_without_a_legend(results):
    assert not ls.plot({"_hidden": results["ucb-h"]}).legends[0].get_texts()


def test_nothing_to_plot():
    with pytest.raises(ValueError, match="nothing to plot"):
        ls.plot([])


# ---- long names ----------------------------------------------------------------------------------

LONG = "psrl:prior=0.1,rewards=mean,members=128,schedule=whole/4.0/10,deployments=10,last=greedy"
PROBLEM = "random-mdp:states=4,actions=2,horizon=6"


def test_lines_are_broken_after_commas_and_spaces_or_within_a_long_word():
    assert report.wrapped("two words", 9) == "two words"
    assert report.wrapped("two words", 8) == "two\nwords"
    assert report.wrapped("a=1,b=2,c=3", 8) == "a=1,b=2,\nc=3"
    assert report.wrapped("abcdefgh", 3) == "abc\ndef\ngh"
    assert report.wrapped("", 3) == ""


def boxes(figure):
    """The corners of the legend and of all titles, as shares of the figure."""
    FigureCanvasAgg(figure).draw()
    parts = [*figure.legends, *figure.texts, *(axes.title for axes in figure.axes)]
    return [figure.transFigure.inverted().transform(part.get_window_extent()) for part in parts]


@pytest.mark.parametrize(
    "names", [["ucb-h", "ucb2-h"], [f"{LONG},p=0.{i}" for i in range(1, 6)], [LONG + LONG]]
)
@pytest.mark.parametrize("titles", [["dense"], [PROBLEM], [PROBLEM + "," + PROBLEM, "dense"]])
def test_nothing_is_cut_off(results, names, titles):
    run = results["ucb-h"]
    figure = report.plot_grid({title: dict.fromkeys(names, run) for title in titles})
    for corners in boxes(figure):
        assert (corners >= 0).all()
        assert (corners <= 1).all()


def test_long_names_have_a_line_each_and_the_figure_grows(results):
    run, names = results["ucb-h"], [f"{LONG},p=0.{i}" for i in range(1, 6)]
    few, many = ls.plot(results, title="dense"), ls.plot(dict.fromkeys(names, run), title=PROBLEM)
    assert few.get_size_inches().tolist() == pytest.approx([11, 3.9])
    assert many.get_size_inches()[1] > 4.5
    FigureCanvasAgg(many).draw()
    tops = [text.get_window_extent().y1 for text in many.legends[0].get_texts()]
    assert len({round(top) for top in tops}) == 5
    assert many.get_suptitle() == PROBLEM
    assert [axes.get_title() for axes in many.axes] == ["regret", "local switches", "deployments"]
