"""Every algorithm on every kind of problem sits the same exam."""

import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from conftest import (
    ALGORITHMS,
    FEATURE_ALGORITHMS,
    FEATURE_PAIRS,
    FEATURE_PROBLEMS,
    PAIRS,
    PAIRS_IN_TURN,
    PROBLEMS,
    random_tables,
    setting,
)
from lowswitch import checks
from lowswitch.features import LinearRuns
from lowswitch.history import all_members
from lowswitch.io import archive, storage
from lowswitch.kernels import noise, play, ridge, values
from lowswitch.kernels.streams import stream_key
from lowswitch.reproduce.pseudocode import play_plain
from lowswitch.runs import jobs, table_jobs
from lowswitch.runs.jobs import Options
from lowswitch.runs.results import curve_points
from lowswitch.runs.simulate import job_of
from lowswitch.show import progress as progress_module
from lowswitch.show.progress import PieceSize, Progress

EPISODES = 1000


def same(one, two):
    for name in ("regret", "local_switches", "deployments", "triggers", "policy", "loud_share"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
    for first, second in zip(one.curves, two.curves, strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("pair", PAIRS_IN_TURN + FEATURE_PAIRS, ids="-".join)
def test_the_number_of_threads_does_not_matter(pair):
    problem, algorithm = setting(pair)
    episodes = EPISODES if pair in PAIRS else 130
    one = ls.simulate(problem, algorithm, episodes=episodes, seeds=5, threads=1)
    for threads in (2, 8):
        same(one, ls.simulate(problem, algorithm, episodes=episodes, seeds=5, threads=threads))
    alone = ls.simulate(problem, algorithm, episodes=episodes, seeds=[3])
    assert alone.regret[0] == one.regret[3]
    assert alone.local_switches[0] == one.local_switches[3]


def test_the_history_says_everything(mdp, algorithm):
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=2, history=True)
    for i, history in enumerate(runs.history):
        assert history.local_switches == runs.local_switches[i]
        assert history.deployments == runs.deployments[i]
        policy = all_members(runs.initial, history.members)
        for _, h, x, *actions in history.changes:
            assert policy[:, h, x].tolist() != actions
            policy[:, h, x] = actions
        assert (policy == runs.policy[i]).all()
        rows = history.changes[:, :3].tolist()
        assert len(set(map(tuple, rows))) == len(rows)  # a row changes at most once in an episode
        for episodes, switches, deployments in zip(
            runs.curves.episodes,
            runs.curves.local_switches[i],
            runs.curves.deployments[i],
            strict=True,
        ):
            before = ls.History(history.changes[history.episode < episodes], before=history.before)
            assert (before.local_switches, before.deployments) == (switches, deployments)
        exact = ls.exact_regret(mdp, history, episodes=EPISODES, initial=runs.initial)
        assert exact == pytest.approx(runs.regret[i], rel=1e-12, abs=1e-9)
    same(runs, ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=2))


def test_a_history_longer_than_its_buffer(monkeypatch):
    mdp = PROBLEMS["dense"]()
    whole = ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=EPISODES, seeds=1, history=True)
    monkeypatch.setattr(table_jobs, "_KEPT_CHANGES", 5)
    monkeypatch.setattr(table_jobs, "_LOGGED_CHANGES", 7)
    begin, sizes = PieceSize.__enter__, []
    monkeypatch.setattr(
        PieceSize, "__enter__", lambda piece: begin(sizes.append(piece.size) or piece)
    )
    pieces = ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=EPISODES, seeds=1, history=True)
    assert whole.history[0].changes.tolist() == pieces.history[0].changes.tolist()
    same(whole, pieces)
    assert np.median(sizes) < 10  # a piece that was cut short says how large the next may be
    same(whole, ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=EPISODES, seeds=1))


@pytest.mark.parametrize("history", [False, True])
def test_a_log_has_room_for_what_one_episode_may_change(monkeypatch, history):
    """A planner may change all 3 x 4 rows after an episode."""
    monkeypatch.setattr(table_jobs, "_KEPT_CHANGES", 5)
    monkeypatch.setattr(table_jobs, "_LOGGED_CHANGES", 7)
    options = Options(regret=False, history=history)
    job = job_of(PROBLEMS["dense"](), ALGORITHMS["ucbvi"], EPISODES, [0], options)
    log = job.begin(0, EPISODES)._fresh_log(job.knowledge, np.array([EPISODES]))
    assert len(log.changes) == 12


@pytest.mark.parametrize("size", [1, 7, 100, 10**6])
@pytest.mark.parametrize("name", ["ucb2-h", "q-whole", "stage-q-budget", "mvp", "mixture"])
def test_the_pieces_of_a_run_do_not_matter(mdp, name, size, monkeypatch):
    whole = ls.simulate(mdp, ALGORITHMS[name], episodes=EPISODES, seeds=2)
    monkeypatch.setattr(PieceSize, "__init__", lambda pace, _: setattr(pace, "size", size))
    monkeypatch.setattr(PieceSize, "__exit__", lambda *_: None)
    same(whole, ls.simulate(mdp, ALGORITHMS[name], episodes=EPISODES, seeds=2))


def test_switches_stay_within_the_explicit_bound(mdp, algorithm):
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=4)
    size = {
        "horizon": mdp.horizon,
        "states": mdp.states,
        "actions": mdp.actions,
        "episodes": EPISODES,
    }
    assert (runs.local_switches <= algorithm.switch_bound(**size)).all()
    assert (runs.deployments <= min(EPISODES, algorithm.deployment_bound(**size))).all()
    if runs.policy.ndim == 3:  # the members of a mixture may trade places, which is no switch
        assert (runs.deployments <= runs.local_switches).all()


@pytest.mark.parametrize("name", ["doubling-ucbvi", "ucbvi-bf", "mvp", "mvp-all"])
def test_doubling_planners_deploy_a_logarithm_of_times(mdp, name):
    """N_gl <= H S A (1 + log2 K): Zhang, Chen, Lee, Du 2024, section 3.1."""
    runs = ls.simulate(mdp, ALGORITHMS[name], episodes=4000, seeds=2)
    assert (
        runs.deployments
        <= mdp.horizon * mdp.states * mdp.actions * (1 + math.floor(math.log2(4000)))
    ).all()
    assert (runs.deployments < 4000 / 2).all()


def test_triggers_are_counted(mdp, paper_algorithm):
    learner, _ = play_plain(mdp, paper_algorithm, 200, seed=1)
    runs = ls.simulate(mdp, paper_algorithm, episodes=200, seeds=[1])
    assert runs.triggers[0] == sum(
        t in learner.triggers for n in learner.N.flat for t in range(1, n + 1)
    )
    assert runs.local_switches[0] <= runs.triggers[0]


def test_the_bound_bites_where_triggers_are_few():
    """With eta = 0.9 and r* = 1 a row has few triggers; every-visit switching would break the bound
    many times over.
    """
    mdp = ls.TabularMDP(*random_tables(2, 2, 8), horizon=2, reward_law="bernoulli")
    sparse = ls.ucb2_hoeffding(c=0.3, eta=0.9, r_star=1)
    bound = sparse.schedule.switch_bound(horizon=2, states=2, actions=2, episodes=20_000)
    lazy, eager = (
        ls.simulate(mdp, a, episodes=20_000, seeds=4) for a in (sparse, ls.ucb_hoeffding(c=0.3))
    )
    assert (lazy.local_switches <= bound).all()
    assert (eager.local_switches > 3 * bound).all()


SCRIPT = """
import json
from runs.test_simulate import played_in_turn
print(json.dumps(played_in_turn()))
"""


def played_in_turn():
    """What each algorithm deploys, and what that costs, with every bit."""
    out = {}
    for problem, name in PAIRS_IN_TURN:
        mdp, algorithm = PROBLEMS[problem](), ALGORITHMS[name]
        runs = ls.simulate(mdp, algorithm, episodes=30, seeds=1, history=True)
        numbers = [runs.regret[0].hex(), runs.loud_share[0].hex()]
        out[f"{problem} {name}"] = [runs.history[0].changes.tolist(), *numbers]
    return out


@pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")
def test_compiled_equals_interpreted():
    here = Path(__file__).parents[1]  # which has conftest
    interpreted = subprocess.run(  # numpy warns of the 64-bit wrap-around of the noise
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=here,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled = played_in_turn()
    assert len(compiled) == len(PAIRS_IN_TURN)
    assert compiled == json.loads(interpreted.stdout)


@pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # ten episodes are few
def test_nothing_recompiles():
    for make in PROBLEMS.values():
        for algorithm in ALGORITHMS.values():
            ls.simulate(make(), algorithm, episodes=10, seeds=1)
            ls.simulate(make(), algorithm, episodes=10, seeds=1, history=True, regret=False)
    for make in FEATURE_PROBLEMS.values():
        for algorithm in FEATURE_ALGORITHMS.values():
            ls.simulate(make(), algorithm, episodes=130, seeds=1)
    assert len(ridge.learn.signatures) == 1
    # Q-learners by visits, by stages and with early settling, each also in rounds of machines;
    # by stages whose references settle, and by stages with random learning rates; planners, and
    # mixtures of Q-learners by visits and by stages
    assert len(play.simulate.signatures) == 11
    assert len(values.optimal_values.signatures) == 1
    assert len(noise.fill_aliases.signatures) == 1


def test_regret_may_be_left_out():
    runs = ls.simulate(
        PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], episodes=100, seeds=2, regret=False
    )
    assert np.isnan(runs.regret).all()
    assert (runs.local_switches > 0).all()


def test_runs_print_as_a_line():
    runs = ls.simulate(PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], episodes=2000, seeds=2)
    costs = (
        f"regret {runs.regret.mean():,.0f}, local switches {runs.local_switches.mean():,.0f},"
        f" deployments {runs.deployments.mean():,.0f}"
    )
    assert (
        repr(runs)
        == f"Runs({runs.algorithm}, horizon=3, states=4, actions=3, 2,000 episodes, 2 seeds,"
        f" {costs})"
    )
    unknown = ls.simulate(
        PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], episodes=100, seeds=1, regret=False
    )
    assert "100 episodes, 1 seed, regret unknown, local switches " in repr(unknown)


@pytest.mark.parametrize("pair", FEATURE_PAIRS[:3], ids="-".join)
def test_runs_with_features_have_the_form_of_all_runs(tmp_path, pair):
    """Saved and loaded, printed, and drawn from their curves; `LinearRuns` is their former name."""
    problem, algorithm = setting(pair)
    runs = ls.simulate(problem, algorithm, episodes=60, seeds=3)
    runs.save(tmp_path / "runs.npz")
    for load in (ls.load, ls.Runs.load, LinearRuns.load):
        loaded = load(tmp_path / "runs.npz")
        same(runs, loaded)
        assert loaded.to_dict() == runs.to_dict()
        assert loaded.earned.tolist() == runs.earned.tolist()
    assert (runs.states, runs.features) == (0, problem.shape.features)
    assert (runs.local_switches == runs.deployments).all()
    assert (runs.problem, runs.to_dict()["features"]) == (problem.name, runs.features)
    assert f"features={runs.features}" in repr(runs)
    assert runs.earned_per_episode.tolist() == (runs.earned / 60).tolist()
    summary = str(ls.summary(runs))
    assert summary.startswith(f"d = {runs.features}, A = {runs.actions}, H = {runs.horizon};")
    assert len(runs.to_dataframe("pandas")) == 3 * len(runs.curves.episodes)


def test_runs_with_features_of_earlier_versions_are_read(tmp_path, monkeypatch):
    """Their files had a kind of their own, and neither local switches nor an optimal value."""
    runs = ls.simulate(FEATURE_PROBLEMS["linear-mdp"](), ls.few(deployments=3), episodes=9, seeds=2)
    runs.save(tmp_path / "runs.npz")
    facts, arrays = storage.read(tmp_path / "runs.npz", "runs")
    before = ("algorithm", "problem", "horizon", "features", "actions", "episodes", "seconds")
    per_seed = ("seeds", "regret", "earned", "deployments")
    curves = ("episodes", "regret", "deployments")
    facts = {name: facts[name] for name in (*before, *per_seed)} | {"curves": dict.fromkeys(curves)}
    arrays = {name: arrays[name] for name in (*per_seed, *(f"curves.{one}" for one in curves))}
    monkeypatch.setitem(archive.KINDS, "linear runs", archive.KINDS["runs"])  # as it was then
    storage.write(tmp_path / "before.npz", "linear runs", facts, arrays)
    for load in (ls.load, LinearRuns.load):
        same(runs, load(tmp_path / "before.npz"))


@pytest.mark.parametrize(
    ("facts", "missing", "message"),
    [
        ({"features": 0}, "", "it has 0 states and 0 features"),
        ({}, "earned", "it does not say what each seed earned"),
    ],
)
def test_runs_that_lack_something_are_refused(tmp_path, facts, missing, message):
    runs = ls.simulate(FEATURE_PROBLEMS["fixed-arms"](), ls.few(deployments=3), episodes=9, seeds=2)
    runs.save(tmp_path / "runs.npz")
    saved, arrays = storage.read(tmp_path / "runs.npz", "runs")
    arrays.pop(missing, None)
    storage.write(tmp_path / "runs.npz", "runs", saved | facts, arrays)
    with pytest.raises(ValueError, match=message):
        ls.load(tmp_path / "runs.npz")


def test_a_sweep_has_the_runs_of_simulate_with_features_too(tmp_path):
    problems = [PROBLEMS["dense"](), FEATURE_PROBLEMS["linear-mdp"]()]
    options = {"episodes": 60, "seeds": 2}
    for _ in range(2):  # the second time from the folder
        found = ls.sweep(problems, ls.few(deployments=3), folder=tmp_path, **options)
        for i, problem in enumerate(problems):
            same(ls.simulate(problem, ls.few(deployments=3), **options), found[i, 0])
    alone = ls.sweep(problems[1], ls.few(deployments=3), **options)
    assert (alone.regret[0, 0] == found.regret[1, 0]).all()


def test_what_only_looks_like_a_problem_is_refused():
    class Own:
        name, knows_regret, size, steps_alike = "own", True, {"horizon": 1}, False
        measure = "regret"

        def optimal_value(self, episodes=0):
            return 1.0

        def facts(self):
            return {}

    with pytest.raises(ValueError, match="a Own cannot be simulated; derive it from Feature"):
        ls.simulate(Own(), ls.linear(), episodes=9)


def test_save_and_load(tmp_path, mdp):
    runs = ls.simulate(mdp, ALGORITHMS["ucb2-b"], episodes=200, seeds=3, history=True)
    runs.save(tmp_path / "runs.npz")
    loaded = ls.load(tmp_path / "runs.npz")
    same(runs, loaded)
    assert loaded.algorithm == runs.algorithm
    assert loaded.to_dict() == runs.to_dict()
    assert [part.changes.tolist() for part in loaded.history] == [
        part.changes.tolist() for part in runs.history
    ]


def test_curves_are_log_spaced_and_end_at_the_end():
    marks = curve_points(10**6)
    assert (marks[0], marks[-1]) == (1, 10**6)
    assert 150 <= len(marks) <= 200
    assert (np.diff(marks) > 0).all()
    assert curve_points(1).tolist() == [1]


def test_streams_differ_by_seed():
    assert len({int(stream_key(seed)) for seed in range(1000)}) == 1000
    assert stream_key(0) == 0xE220A8397B1DCDAF  # SplitMix64's first number from the state 0


def test_a_drowning_bonus_is_told_in_one_line_with_the_remedy():
    with pytest.warns(
        ls.BonusWarning,
        match="100% of the visits had a bonus above the horizon.* use c between 0.01 and 0.1",
    ) as record:
        ls.simulate(PROBLEMS["dense"](), ls.ucb2_hoeffding(c=10), episodes=50, seeds=1)
    assert "\n" not in str(record[0].message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes must be a whole number from 1 to 2,147,483,646, not 0"),
        ({"episodes": 2**31}, "episodes must be a whole number from 1"),
        ({"episodes": 1.5}, "episodes must be a whole number"),
        ({"seeds": 0}, "seeds must be a whole number from 1"),
        (
            {"seeds": []},
            r"seeds must be a number of seeds or distinct whole numbers from 0, not \[\]",
        ),
        ({"seeds": [1, 1]}, "distinct"),
        ({"seeds": [-1]}, "whole numbers from 0"),
        ({"threads": 0}, "threads must be a whole number from 1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ls.simulate(PROBLEMS["dense"](), ALGORITHMS["ucb-h"], **({"episodes": 10} | options))


def test_a_start_sequence_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="the start sequence has 4000 states for 4001 episodes"):
        ls.simulate(PROBLEMS["masked-sequence"](), ALGORITHMS["ucb-h"], episodes=4001)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_a_long_run_at_once():
    ls.simulate(PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], episodes=10, seeds=1)  # compiled
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ls.simulate(PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], episodes=10**9, seeds=4)
    assert time.monotonic() - begin < 30  # the whole run would take minutes


def test_progress_on_a_terminal_and_silence_elsewhere(capsys, monkeypatch):
    ls.simulate(PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], episodes=10, seeds=1)
    assert capsys.readouterr() == ("", "")
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(200, unit="steps", show=True, label="x") as progress:
        progress.note("waiting for it")
        progress.start()
        progress.update(100)
    assert "x  waiting for it" in screen.getvalue()
    assert "x  [........................]   0%  0 s" in screen.getvalue()
    assert "50%" in screen.getvalue()
    assert " steps/s" in screen.getvalue()
    assert "s left" in screen.getvalue()
    assert screen.getvalue().endswith("\r")


def test_the_pace_is_that_of_this_call(capsys, monkeypatch):
    """Of 1,000 steps 600 were done before; 100 more in 10 seconds leave 300, which take 30."""
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "perf_counter", lambda: now[0])
    with Progress(1000, unit="steps", show=True) as progress:
        progress.start(600)
        now[0] = 10.0
        progress.update(600)
        assert capsys.readouterr().err.endswith(" 60%  10 s")
        progress.update(700)
        assert capsys.readouterr().err.endswith(" 70%  10.0 steps/s  30 s left")


def test_waiting_counts_the_seconds(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "_TICK_SECONDS", 0.001)
    seen = ""
    with progress_module.waiting("this", show=True):
        while "this  0 s" not in seen:
            seen += capsys.readouterr().err
    with progress_module.waiting("that", show=False):
        pass
    assert capsys.readouterr().err.endswith("\r")


# ---- what was learned ----------------------------------------------------------------------------


def test_what_first_last_and_uniform_policies_earn():
    mdp = PROBLEMS["dense"]()
    runs = ls.simulate(mdp, ls.ucb2_bernstein(c=0.01), episodes=3_000, seeds=3)
    assert runs.first_value == mdp.evaluate(runs.initial)
    assert runs.uniform_value == mdp.uniform_value()
    assert runs.last_value.tolist() == [mdp.evaluate(policy) for policy in runs.policy]
    assert (runs.first_value < runs.last_value).all()
    assert runs.earned_per_episode == pytest.approx(mdp.optimal_value() - runs.regret / 3_000)
    unknown = ls.simulate(mdp, ls.ucb2_bernstein(c=0.01), episodes=3, seeds=1, regret=False)
    assert np.isnan([unknown.first_value, unknown.uniform_value, *unknown.last_value]).all()


def test_a_run_that_learned_nothing_says_so():
    mdp = ls.envs.riverswim(states=6, horizon=20)
    with pytest.warns(ls.NothingLearnedWarning, match="nothing was learned: .* initial one 0.1"):
        ls.simulate(mdp, ls.rmax(known=10**6), episodes=50, seeds=2)


@pytest.mark.filterwarnings("error::lowswitch.NothingLearnedWarning")
def test_a_run_that_learned_or_had_nothing_to_learn_is_quiet():
    mdp = PROBLEMS["dense"]()
    ls.simulate(mdp, ls.ucb2_bernstein(c=0.01), episodes=3_000, seeds=3)
    best = mdp.optimal_policy
    allowed = np.arange(mdp.actions) == best[..., None]
    only = ls.TabularMDP(
        np.full((4, 3, 4), 0.25), np.full((4, 3), 0.5), horizon=3, actions_allowed=allowed
    )
    ls.simulate(only, ls.ucb2_bernstein(c=0.01), episodes=30, seeds=1)


# ---- large tables --------------------------------------------------------------------------------


def job_for(mdp, algorithm, episodes=100, **options):
    return job_of(mdp, algorithm, episodes, [0], Options(**options))


def test_large_runs_say_before_what_they_take(capsys, monkeypatch):
    mdp, algorithm = ls.envs.garnet(states=2000, horizon=3), ls.algorithms.few(deployments=2)
    job = job_for(mdp, algorithm)
    assert job.outlook(1) == ""
    cells = 3 * 2000 * 4
    assert (job.plans, job.plan_seconds) == (2, pytest.approx(1.6e-7 * 64 * cells))
    assert job_for(mdp, ls.ucbvi(schedule="growth/2")).plans == 0  # nobody knows
    assert job_for(mdp, algorithm, regret=False).nbytes(1) < job.nbytes(1) < job.nbytes(2)
    monkeypatch.setattr(jobs, "_MUCH_SECONDS", 0.1)
    assert "GiB and, for 2 plans of about 0 s in each run, up to 0 s" in job.outlook(1)
    monkeypatch.setattr(jobs, "_MUCH_BYTES", 1)
    few = ls.algorithms.few(deployments=2, members=2)
    ls.simulate(mdp, few, episodes=20, seeds=1, threads=1, progress=True)
    printed = capsys.readouterr().err
    assert printed.startswith(f"{few.label} takes about 0.0 GiB\n")
    assert "of 2 plans" in printed


def test_runs_that_do_not_fit_are_refused_before_they_begin(monkeypatch):
    mdp = ls.envs.garnet(states=2000, horizon=3)
    algorithm = ls.algorithms.few(deployments=2)
    monkeypatch.setattr(checks, "free_memory", lambda: job_for(mdp, algorithm).nbytes(1) - 1)
    message = r"1 seeds on 1 threads need 0.0 GiB, and this machine has 0.0 free; use fewer threads"
    with pytest.raises(ValueError, match=message):
        ls.simulate(mdp, algorithm, episodes=100, seeds=1, progress=False)
    ls.simulate(mdp, algorithm, episodes=1, seeds=1, regret=False, progress=False)
