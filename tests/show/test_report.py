import math
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS
from lowswitch.show import plotting, report
from lowswitch.show.tables import Facts, Table, aligned
from lowswitch.show.text import wrapped_label


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
    assert report.mean_and_interval(np.array([332, 332])) == "332"
    # the interval of three values with mean 332.1 and deviation 0.01 is 4.302653 * 0.01 / 3^0.5
    assert report.mean_and_interval(np.array([332.09, 332.1, 332.11])) == "332.10 ± 0.02"


def test_means_in_words():
    costs = {
        "regret": np.array([1795.5, 1796.5]),
        "local_switches": np.array([7, 8]),
        "deployments": np.array([3, 3]),
    }
    assert report.means(**costs) == "regret 1,796, local switches 7.50, deployments 3"
    assert report.means(regret=np.array([math.nan])) == "regret unknown"


def test_tables_align():
    assert aligned(["name", "n"], [["a", "10"], ["long name", "9,999"]]).splitlines() == [
        "name           n",
        "---------  -----",
        "a             10",
        "long name  9,999",
    ]


def test_the_summary_names_sizes_and_costs(results):
    text = str(results["ucb2-h"].summary())
    assert "S = 4, A = 3, H = 3; 2,000 episodes, 4 seeds" in text
    assert f"{results['ucb2-h'].regret.mean():,.0f} ±" in text
    assert f"{results['ucb2-h'].local_switches.mean():,.0f} ±" in text


def test_costs_against_the_baseline_by_hand(results):
    baseline, learner = results["ucb-h"], results["ucb2-h"]
    line = str(report.versus(results, {"ucb2-h": "ucb-h"})).splitlines()[-1]
    assert f"{learner.regret.mean() / baseline.regret.mean() - 1:+.1%}" in line
    assert f"{baseline.local_switches.mean() / learner.local_switches.mean():,.1f} x fewer" in line


# ---- results leave the library -------------------------------------------------------------------


def test_a_table_too_wide_for_its_place_has_a_line_a_cell():
    table = Table("costs", ("name", "n", "time"), (("a", "10", "1 s"), ("b", "9", "12 s")))
    assert table.text(14) == str(table)
    assert table.text(13).splitlines() == (
        ["costs", "", "a", "  n     10", "  time  1 s", "b", "  n     9", "  time  12 s"]
    )


def test_a_wide_table_of_few_rows_is_turned_round():
    table = Table("one two", ("name", "number", "long title"), (("a", "10", "1 s"),))
    assert table.text(15).splitlines() == [
        *("one two", "", "name          a", "----------  ---"),
        *("number       10", "long title  1 s"),
    ]
    assert table.text(15).splitlines() != str(table).splitlines()


def test_facts_go_on_below_their_beginning():
    facts = Facts({"a": "one two three four five six seven", "rest": "x"})
    assert facts.text(26).splitlines() == [
        *("a     one two three four", "      five six seven", "rest  x")
    ]


def test_a_table_as_html_and_latex():
    table = Table("a < b", ("the_name", "cost"), (("x&y", "1,234 ± 5"),))
    assert "<caption>a &lt; b</caption>" in table._repr_html_()
    assert "<td>x&amp;y</td>" in table._repr_html_()
    assert table.to_latex().splitlines() == [
        "% a < b",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"the\_name & cost \\",
        r"\midrule",
        r"x\&y & 1{,}234 $\pm$ 5 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_heading_speaks_of_the_first_policies_of_all_runs(results):
    """A mixture begins with other policies than a Q-learner, in whatever order they are listed."""
    one, other = results.values()
    for first, second in ((0.0, 1.1737), (1.1737, 0.0)):
        runs = {
            "a": replace(one, first_value=first),
            "b": replace(other, first_value=second),
            "c": replace(other, first_value=math.nan),
        }
        assert ", initial policy 0.0000 to 1.1737, uniform random" in ls.summary(runs).heading
    assert f"initial policy {one.first_value:.4f}, uniform" in ls.summary(results).heading


@pytest.fixture(scope="module")
def elsewhere():
    """A run of the same algorithm on another problem, which has no name either."""
    return ls.simulate(PROBLEMS["masked-sequence"](), ALGORITHMS["ucb2-h"], episodes=50, seeds=2)


@pytest.mark.parametrize("form", [list, lambda runs: dict(zip("abc", runs, strict=True))])
def test_runs_on_different_problems_have_a_table_and_a_row_of_panels_each(results, elsewhere, form):
    several = form([*results.values(), elsewhere])
    table = ls.summary(several)
    here, there = (run.fingerprint[:6] for run in (results["ucb-h"], elsewhere))
    first, second = str(table).split("\n\n")[::2]
    assert first.startswith(f"S = 4, A = 3, H = 3 [{here}]; 2,000 episodes, 4 seeds")
    assert second.startswith(f"{report.size_of(elsewhere)} [{there}]; 50 episodes, 2 seeds")
    assert second.splitlines()[1] == (
        f"value per episode: optimal {elsewhere.optimal_value:.4f}, initial policy"
        f" {elsewhere.first_value:.4f}, uniform random {elsewhere.uniform_value:.4f}"
    )
    assert table._repr_html_().count("<table>") == 2
    latex = table.to_latex(("algorithm", "regret"))
    assert latex.count(r"\begin{tabular}{lr}") == 2
    assert "\n\n% " + second.replace("\n", "\n% ") + "\n" in latex
    figure = ls.plot(several)
    assert [there in axes.get_title() for axes in figure.axes] == [False] * 3 + [True] * 3
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(labels) == 1 + (2 if form is list else 3)  # one algorithm is on both problems
    assert labels[-1] == "band: 10 % to 90 % of the seeds"
    lines = [figure.axes[i].get_lines()[-1] for i in (0, 3)]
    assert (lines[0].get_color() == lines[1].get_color()) == (form is list)
    ls.plot(several, ax=(panel := Figure().subplots()))
    assert all(label.endswith("]") for label in panel.get_legend_handles_labels()[1][:-1])


def test_problems_of_one_name_are_told_apart(results, elsewhere):
    same, other = (replace(run, problem="mine") for run in (results["ucb-h"], elsewhere))
    assert list(plotting.by_problem([same, other])) == [
        f"mine [{run.fingerprint[:6]}]" for run in (same, other)
    ]
    assert list(plotting.by_problem([same])) == ["mine"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_has_a_line_for_each_seed_and_checkpoint(results, library):
    runs = results["ucb2-h"]
    frame = runs.to_dataframe(library)
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == (
        ["algorithm", "seed", "episode", "regret", "local_switches", "deployments"]
    )
    assert len(frame) == len(runs.seeds) * len(runs.curves.episodes)
    last = np.asarray(frame["regret"])[np.asarray(frame["episode"]) == runs.episodes]
    np.testing.assert_array_equal(last, runs.regret)


def test_what_is_no_library_of_frames_is_refused(results):
    with pytest.raises(ValueError, match="'excel'"):
        results["ucb-h"].to_dataframe("excel")


@pytest.mark.parametrize("library", [None, "pandas"])
def test_without_a_library_of_frames_there_is_a_way_out(results, library, monkeypatch):
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match="pip install pandas; to_csv needs neither pandas"
    ):
        results["ucb-h"].to_dataframe(library)


def test_csv_is_the_long_form(results, tmp_path):
    runs = results["ucb2-h"]
    runs.to_csv(tmp_path / "runs.csv")
    header, first, *others = (tmp_path / "runs.csv").read_text().splitlines()
    assert header == "algorithm,seed,episode,regret,local_switches,deployments"
    name, seed, episode, regret, switches, deployments = first.split(",")
    assert (name, int(seed), int(episode)) == ("ucb2-h:c=0.1", 0, 1)
    assert float(regret) == runs.curves.regret[0, 0]
    assert (int(switches), int(deployments)) == (
        runs.curves.local_switches[0, 0],
        runs.curves.deployments[0, 0],
    )
    assert len(others) + 1 == len(runs.seeds) * len(runs.curves.episodes)


def test_columns_are_chosen_by_their_names_and_a_paper_has_no_speed(results, tmp_path):
    runs = results["ucb2-h"]
    assert runs.summary(["deployments", "local_switches"]).header == (
        *("deployments", "local switches"),
    )
    table = ls.summary(results)
    assert table.header[-1] == "steps/s"
    assert "steps/s" not in table.to_latex()
    assert "deployments" in table.to_latex()
    assert r"algorithm & steps/s \\" in table.to_latex(["algorithm", "steps/s"]).splitlines()
    speed = ls.summary(results, ["algorithm", "steps/s"]).to_latex()  # it was asked for by name
    assert r"algorithm & steps/s \\" in speed.splitlines()
    assert r"UCB2 \& more &" in runs.to_latex(label="UCB2 & more")
    assert "seeds; means, ± is a 95 % interval" in table.heading
    assert ls.summary(results, ["regret"]).rows == tuple((row[1],) for row in table.rows)
    compared = report.versus(results, {"ucb2-h": "ucb-h"})  # has two columns without a name
    assert compared.to_latex().count("x fewer") == 2
    runs.to_csv(tmp_path / "two.csv", columns=("regret", "seed"))
    assert (tmp_path / "two.csv").read_text().splitlines()[0] == "regret,seed"
    assert list(runs.to_dataframe(columns="local switches").columns) == ["local_switches"]
    with pytest.raises(ValueError, match=r'"steps/s", not .regrets.; did you mean "regret"'):
        runs.to_latex(["regrets"])


# ---- figures -------------------------------------------------------------------------------------


def test_runs_are_drawn_into_axes_of_the_caller(results):
    mine = Figure().subplots(2)
    figure = ls.plot(results, ax=mine[1], what="deployments", x="steps", scale="linear")
    assert figure is mine[1].figure
    assert not mine[0].lines
    line = mine[1].get_lines()[0]
    runs = results["ucb-h"]
    np.testing.assert_array_equal(line.get_xdata(), runs.curves.episodes * runs.horizon)
    np.testing.assert_array_equal(line.get_ydata(), runs.curves.deployments.mean(axis=0))
    assert line.get_drawstyle() == "steps-post"
    assert (mine[1].get_xscale(), mine[1].get_yscale()) == ("linear", "linear")
    with pytest.raises(ValueError, match="one Axes shows one cost, not regret, deployments"):
        ls.plot(results, ax=mine[0], what=["regret", "deployments"])


def test_a_cost_against_another_one(results):
    figure = ls.plot(results, x="deployments")
    assert [axes.get_title() for axes in figure.axes] == ["regret", "local switches"]
    line = figure.axes[0].get_lines()[1]
    curves = results["ucb2-h"].curves
    np.testing.assert_array_equal(line.get_xdata(), curves.deployments.mean(axis=0))
    np.testing.assert_array_equal(line.get_ydata(), curves.regret.mean(axis=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"what": "regrets"}, "'regrets'"),
        ({"x": "time"}, "'time'"),
        ({"scale": "log-log"}, "'log-log'"),
        ({"what": "deployments", "x": "deployments"}, "nothing is left to plot"),
        ({"label": "both"}, "label 'both' names one run"),
    ],
)
def test_what_cannot_be_drawn(results, options, message):
    with pytest.raises(ValueError, match=message):
        ls.plot(list(results.values()), **options)


def test_a_style_of_the_caller_is_kept(results):
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler(color=["red", "green"])}):
        lines = ls.plot(results).axes[0].get_lines()
    assert [line.get_color() for line in lines] == ["red", "green"]
    assert ls.plot(results).axes[0].get_lines()[0].get_color() == report.COLOURS[0]


def test_a_figure_shows_itself_in_a_notebook(results):
    assert ls.plot(results)._repr_png_().startswith(b"\x89PNG")


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
    hidden = ls.plot({"_hidden": results["ucb-h"]}, band="none")
    assert not hidden.legends[0].get_texts()


def test_nothing_to_plot():
    with pytest.raises(ValueError, match="nothing to plot"):
        ls.plot([])


# ---- long names ----------------------------------------------------------------------------------

LONG = "psrl:prior=0.1,rewards=mean,members=128,schedule=whole/4.0/10,deployments=10,last=greedy"
PROBLEM = "random-mdp:states=4,actions=2,horizon=6"


def test_lines_are_broken_after_commas_and_spaces_or_within_a_long_word():
    assert wrapped_label("two words", 9) == "two words"
    assert wrapped_label("two words", 8) == "two\nwords"
    assert wrapped_label("a=1,b=2,c=3", 8) == "a=1,b=2,\nc=3"
    assert wrapped_label("abcdefgh", 3) == "abc\ndef\ngh"
    assert wrapped_label("", 3) == ""


def boxes(figure):
    """The corners of the legend and of all titles, as shares of the figure."""
    FigureCanvasAgg(figure).draw()
    parts = [*figure.legends, *figure.texts, *(axes.title for axes in figure.axes)]
    return [figure.transFigure.inverted().transform(part.get_window_extent()) for part in parts]


SHORT_NAMES, LONG_NAMES = ["ucb-h", "ucb2-h"], [f"{LONG},p=0.{i}" for i in range(1, 6)]


@pytest.mark.parametrize(
    ("titles", "names"),
    [
        (["dense"], LONG_NAMES),
        ([PROBLEM], [LONG + LONG]),
        ([PROBLEM + "," + PROBLEM, "dense"], SHORT_NAMES),
        ([PROBLEM + "," + PROBLEM, "dense"], [LONG + LONG]),
    ],
)
def test_nothing_is_cut_off(results, titles, names):
    run = results["ucb-h"]
    figure = plotting.plot_grid({title: dict.fromkeys(names, run) for title in titles})
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
    assert len({round(top) for top in tops}) == 6  # with the name of the band
    assert many.get_suptitle() == PROBLEM
    assert [axes.get_title() for axes in many.axes] == ["regret", "local switches", "deployments"]


def test_runs_of_different_length_say_so_in_the_table():
    mdp = PROBLEMS["dense"]()
    short, long = (
        ls.simulate(mdp, ls.ucb2_hoeffding(c=0.05), episodes=episodes, seeds=seeds)
        for episodes, seeds in ((20, 2), (40, 3))
    )
    text = ls.summary({"short": short, "long": long}).text()
    heading, table = text.split("\n\n")
    assert "episodes," not in heading
    assert [line.split()[:3] for line in table.splitlines()[2:]] == [
        ["short", "20", "2"],
        ["long", "40", "3"],
    ]
    assert "20 episodes, 2 seeds" in str(ls.summary([short]))


def test_a_table_names_a_stuck_seed_and_what_switches_of_mixtures_are():
    mdp = ls.envs.random_mdp(states=3, seed=1)
    runs = ls.simulate(mdp, ls.ucb2_hoeffding(c=0.05), episodes=50, seeds=5)
    assert "times the median" not in str(ls.summary({"a": runs}))
    stuck = replace(runs, regret=np.array([1.0, 1.0, 2.0, 1.0, 40.0]))
    assert "a: seed 4 has 40.0 times the median regret (40 and 1)" in str(ls.summary({"a": stuck}))
    mixed = ls.simulate(mdp, ls.psrl(members=4, deployments=3), episodes=50, seeds=5)
    table = str(ls.summary({"a": runs, "mix": mixed}))
    assert "local switches of mix are rows in which the mixture changed" in table
