"""What a sweep has to say: tables, figures, files, and scores over all problems by hand."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess

import numpy as np
import pytest
from matplotlib.figure import Figure

import lowswitch as ls
from lowswitch.io import setting
from lowswitch.runs.scores import interquartile_mean, performance_profile, stratified_interval
from lowswitch.show import profiles

ALGORITHMS = [ls.ucb2_bernstein(c=0.05), ls.ucb_hoeffding(c=0.05)]


@pytest.fixture(scope="module")
def problems():
    return [ls.envs.riverswim(states=3, horizon=4), ls.envs.chain(states=3, horizon=4)]


@pytest.fixture(scope="module")
def swept(problems):
    return ls.sweep(problems, ALGORITHMS, episodes=200, seeds=3)


def test_a_sweep_is_a_frame_tables_and_a_figure(swept, tmp_path):
    frame = swept.to_dataframe("pandas")
    assert list(frame.columns)[:3] == ["problem", "algorithm", "seed"]
    points = len(swept[0, 0].curves.episodes)
    assert len(frame) == 2 * 2 * 3 * points
    last = frame[frame["episode"] == 200]
    np.testing.assert_array_equal(last["regret"], swept.regret.ravel())
    assert last["problem"].nunique() == 2
    swept.to_csv(tmp_path / "sweep.csv", columns=("problem", "seed"))
    assert (tmp_path / "sweep.csv").read_text().splitlines()[0] == "problem,seed"
    assert str(swept.summary()).count("ucb2-b:c=0.05") == 2
    assert "steps/s" not in str(swept.summary())  # all runs of a sweep share their time
    assert swept.to_latex().count(r"\begin{tabular}") == 2
    assert "steps/s" in swept.to_latex(columns=("algorithm", "steps/s"))
    figure = swept.plot(tmp_path / "sweep.png", band="interval")
    assert len(figure.axes) == 6


def test_a_simulator_has_no_scores():
    def step(state, action, h, random):
        return state, float(random.random() < 0.5)

    river = ls.envs.Simulator(step, horizon=2, states=2, actions=2)
    swept = ls.sweep(river, ls.ucb2_bernstein(c=0.05), episodes=20, seeds=2, progress=False)
    with pytest.raises(ValueError, match="has no scores: a simulator has no exact values"):
        swept.iqm()


def test_a_sweep_is_saved_whole(swept, tmp_path):
    path = tmp_path / "sweep.npz"
    swept.save(path)
    found = ls.Sweep.load(path)
    assert found.algorithms == swept.algorithms
    np.testing.assert_array_equal(found.regret, swept.regret)
    np.testing.assert_array_equal(found.scores, swept.scores)
    assert found[1, 0].made_on == swept[1, 0].made_on
    assert str(found.summary()) == str(swept.summary())
    with pytest.raises(ValueError, match="read it with lowswitch.Sweep.load"):
        ls.load(path)


def test_a_sweep_that_resumes_says_what_it_found(problems, tmp_path, capsys):
    half = ls.sweep(problems[:1], ALGORITHMS, episodes=200, seeds=3, folder=tmp_path)
    assert half.found == 0
    whole = ls.sweep(problems, ALGORITHMS, episodes=200, seeds=3, folder=tmp_path, progress=True)
    assert whole.found == 2
    assert f"2 results were found in {tmp_path}" in capsys.readouterr().err
    np.testing.assert_array_equal(whole.regret[:1], half.regret)


# ---- scores over all problems --------------------------------------------------------------------


def test_the_interquartile_mean_by_hand():
    # of 8 scores two are cut at either end; of 6 one, because 1.5 is cut to its whole part
    assert interquartile_mean(np.array([9.0, 1, 2, 3, 4, 5, 6, -50])) == (2 + 3 + 4 + 5) / 4
    assert interquartile_mean(np.array([0.0, 1, 2, 3, 4, 100])) == (1 + 2 + 3 + 4) / 4
    assert interquartile_mean(np.array([7.0, 8.0])) == 7.5
    from scipy.stats import trim_mean  # what rliable calls

    scores = np.random.default_rng(1).normal(size=(5, 37))
    assert interquartile_mean(scores.ravel()) == pytest.approx(trim_mean(scores, 0.25, axis=None))


def test_a_profile_by_hand():
    scores = np.array([0.0, 0.5, 0.5, 1.0])
    found = performance_profile(scores, np.array([-1.0, 0.0, 0.4, 0.5, 1.0]))
    assert found.tolist() == [1, 0.75, 0.75, 0.25, 0]  # strictly above


def test_seeds_are_resampled_within_their_problem():
    # both problems have seeds that are alike, so that no resample differs; were problems mixed,
    # the mean of a resample would
    scores = np.array([[0.0] * 4, [1.0] * 4])
    assert stratified_interval(scores, lambda pooled: pooled.mean()).tolist() == [0.5, 0.5]
    # two seeds 0 and 1 of one problem: a resample has the mean 0, 1/2 or 1, each end in a quarter
    assert stratified_interval(np.array([[0.0, 1.0]]), lambda pooled: pooled.mean()).tolist() == (
        [0.0, 1.0]
    )


def test_scores_are_shares_of_what_can_be_earned(swept):
    runs = swept[1, 0]
    by_hand = runs.optimal_value - runs.regret / 200 - runs.uniform_value
    by_hand /= runs.optimal_value - runs.uniform_value
    np.testing.assert_allclose(swept.scores[1, 0], by_hand)
    table = swept.iqm()
    assert table.header == ("algorithm", "IQM", "95 % interval", "mean")
    scores = np.sort(swept.scores[:, 1].ravel())
    assert table.rows[1][1] == f"{scores[1:-1].mean():.4f}"  # of six, one is cut at either end
    figure = swept.profiles()
    [axes] = figure.axes
    line = axes.get_lines()[0]
    at = np.searchsorted(line.get_xdata(), 0.5)
    share = (swept.scores[:, 0] > line.get_xdata()[at]).mean()
    assert line.get_ydata()[at] == share
    assert axes.get_legend_handles_labels()[1] == [
        *("ucb2-b:c=0.05", "ucb-h:c=0.05", "95 % stratified bootstrap")
    ]
    mine = Figure().subplots()
    assert profiles.draw_profiles({"a": scores[None]}, ax=mine) is mine.figure


def test_a_problem_in_which_nothing_can_be_gained_has_no_score(problems):
    flat = ls.TabularMDP(np.ones((1, 2, 1)), np.full((1, 2), 0.5), horizon=2)
    swept = ls.sweep([problems[0], flat], ALGORITHMS[:1], episodes=20, seeds=2)
    with pytest.raises(ValueError, match=r"problem 1 has no scores: an optimal policy earns 1"):
        swept.iqm()


# ---- how results were made -----------------------------------------------------------------------


def test_runs_say_how_they_were_made(swept, tmp_path):
    made = swept[0, 0].made_on
    assert made["Python"] == platform.python_version()
    assert {name: made[name] for name in ("numpy", "numba", "scipy")} == {
        name: importlib.metadata.version(name) for name in ("numpy", "numba", "scipy")
    }
    assert "cores" in made["CPU"]
    json.dumps(made)
    swept[0, 0].save(tmp_path / "runs.npz")
    assert ls.load(tmp_path / "runs.npz").made_on == made


def test_the_commit_says_whether_files_differ(tmp_path, monkeypatch):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    assert setting.commit_of(tmp_path) == ""
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("one")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    setting.commit_of.cache_clear()
    assert setting.commit_of(tmp_path) == head.stdout.strip()
    (tmp_path / "file").write_text("two")
    setting.commit_of.cache_clear()
    monkeypatch.chdir(tmp_path)
    assert setting.setting()["commit"] == head.stdout.strip() + "-dirty"
    setting.commit_of.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert setting.commit_of(tmp_path) == ""  # without git
    setting.commit_of.cache_clear()
