"""What must not get in, and what must: odd types and values at every public door."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import types

import numpy as np
import pytest

import lowswitch as ls
from conftest import random_tables
from lowswitch import theory
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.algorithms.text import build
from lowswitch.cli.commands import main
from lowswitch.io import storage
from lowswitch.show import report


def test_the_public_names_are_few_and_all_there():
    assert len(ls.__all__) <= 40
    assert {recipe.__name__ for recipe in RECIPES.values()} == set(ls.algorithms.__all__)
    assert dir(ls) == sorted({*ls.__all__, *(name for name in dir(ls) if name.startswith("__"))})
    for name in ls.__all__:
        assert getattr(ls, name) is not None
    with pytest.raises(AttributeError, match="module 'lowswitch' has no attribute 'Groth'"):
        ls.Groth  # noqa: B018


EXPORTED_ONCE = """
    linear linucb mbie mvp psrl q_bernstein q_hoeffding rmax stage_q ucb2_bernstein
    ucb2_hoeffding ucb_advantage ucb_bernstein ucb_hoeffding ucbvi ucbvi_bernstein ucrl2
"""


def test_names_that_were_exported_once_still_resolve():
    for name in EXPORTED_ONCE.split():
        assert callable(getattr(ls, name))
    for name in ls.parts.__all__:
        assert getattr(ls, name) is getattr(ls.parts, name)


def test_no_function_hides_a_module():
    hidden = []
    for info in pkgutil.walk_packages(ls.__path__, "lowswitch."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
            package, _, name = info.name.rpartition(".")
            if not isinstance(getattr(sys.modules[package], name), types.ModuleType):
                hidden.append(info.name)
    assert hidden == []


def test_importing_the_library_imports_nothing_heavy():
    code = "import sys, lowswitch; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "scipy", "gymnasium", "matplotlib"} & set(ran.stdout.split())


@pytest.fixture
def mdp():
    return ls.TabularMDP(*random_tables(3, 2, 1), horizon=2)


def history(*changes):
    return ls.History(np.array(changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (history([0, -1, 2, 1]), "steps of a history must be 0 to 1, not -1"),
        (history([0, 0, 3, 1]), "states of a history must be 0 to 2, not 3"),
        (history([0, 0, 0, 5]), "actions of a history must be 0 to 1, not 5"),
        (history([-1, 0, 0, 1]), "must not decrease, from 0 on"),
        (history([3, 0, 0, 1], [2, 0, 0, 0]), "must not decrease"),
        (history([0, 0, 0, 0]), "step 0 in state 0 after episode 0 changes nothing; leave it out"),
        (history([0, 0, 0, 1], [4, 0, 0, 1]), "in state 0 after episode 4 changes nothing"),
    ],
)
def test_a_history_out_of_range_never_reaches_compiled_code(mdp, changes, message):
    policy = np.zeros((2, 3), dtype=int)
    with pytest.raises(ValueError, match=message):
        ls.exact_regret(mdp, changes, episodes=9, initial=policy)
    with pytest.raises(ValueError, match=message):
        ls.deployment_gaps(mdp, changes, initial=policy)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([[0.0, 0, 0, 1]], "float64 of (1, 4)"),
        (np.zeros(4, dtype=int), "int64 of (4,)"),
        ([[0, 0, 0, 1], [0, 1]], "object of (0,)"),
        (np.zeros((1, 4), dtype="m8[s]"), "timedelta64[s] of (1, 4)"),
        (None, "object of ()"),
    ],
)
def test_a_history_is_whole_numbers(changes, found):
    with pytest.raises(ValueError, match=rf"integers \[n, 4\] .* not {re.escape(found)}"):
        ls.History(changes)
    assert ls.History([[3, 0, 1, 1], [5, 1, 1, 0]]).deployments == 2  # a list will do


def test_the_regret_of_an_optimal_policy_under_a_start_sequence_is_rounding():
    transitions, rewards = random_tables(3, 2, 1)
    mdp = ls.TabularMDP(transitions, rewards, horizon=3, start=np.zeros(5_000_000, dtype=int))
    nothing = ls.History(np.zeros((0, 4), dtype=np.int64))
    assert abs(ls.exact_regret(mdp, nothing, episodes=5_000_000, initial=mdp.optimal_policy)) < 1e-7


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint8])
def test_numpy_integers_are_integers(kind, mdp, tmp_path):
    runs = ls.simulate(mdp, ls.ucb2_bernstein(c=0.1), episodes=kind(100), seeds=kind(2))
    runs.save(tmp_path / "runs.npz")
    assert (
        runs.regret.tolist()
        == ls.simulate(mdp, ls.ucb2_bernstein(c=0.1), episodes=100, seeds=2).regret.tolist()
    )
    small = ls.Learner(
        ls.ucb2_bernstein(), horizon=kind(100), states=kind(3), actions=kind(2), episodes=kind(10)
    )
    assert (
        small._knowledge.spec.lower_order
        == ls.Learner(
            ls.ucb2_bernstein(), horizon=100, states=3, actions=2, episodes=10
        )._knowledge.spec.lower_order
    )
    small.save(tmp_path / "learner.npz")


def test_numpy_floats_are_numbers():
    assert ls.ucb2_hoeffding(
        c=np.float32(0.5), eta=np.float64(0.25), r_star=np.int64(3), p=np.float64(0.5)
    ).to_dict() == (ls.ucb2_hoeffding(c=0.5, eta=0.25, r_star=3, p=0.5).to_dict())


def test_an_interrupt_in_the_middle_of_a_tell_changes_nothing(monkeypatch):
    learner = ls.Learner(ls.ucb2_bernstein(c=0.1), horizon=2, states=3, actions=2, episodes=10)
    before = [learner.told, *(array.tobytes() for array in learner._knowledge.tables)]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        sys.modules["lowswitch.table_learner"], "History", interrupted
    )  # after the kernel has learned
    with pytest.raises(KeyboardInterrupt):
        learner.tell([0, 1], [0, 0], [0.0, 0.0])
    assert [learner.told, *(array.tobytes() for array in learner._knowledge.tables)] == before


def test_policies_with_forbidden_actions_are_not_evaluated():
    allowed = np.array([[True, False]])
    mdp = ls.TabularMDP(np.ones((1, 2, 1)), [[0.2, 0.4]], horizon=2, actions_allowed=allowed)
    with pytest.raises(ValueError, match="action 1 at step 0 in state 0, where it is not allowed"):
        mdp.evaluate(np.ones((2, 1), dtype=int))
    assert mdp.optimal_q.tolist() == [[[0.4, -np.inf]], [[0.2, -np.inf]]]


def test_the_tables_of_a_problem_are_read_only(mdp):
    with pytest.raises(ValueError, match="read-only"):
        mdp.rewards[:] = 0


def test_the_optimal_value_is_that_of_the_starts_played():
    mdp = ls.TabularMDP(np.eye(2)[:, None], [[0.0], [1.0]], horizon=1, start=[0] * 10 + [1] * 90)
    assert ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=10, seeds=1).optimal_value == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda mdp: ls.simulate(None, ls.ucb_hoeffding(), episodes=5), "must be a TabularMDP"),
        (
            lambda mdp: ls.simulate(mdp, "ucb2-b", episodes=5),
            "must be an Algorithm such as .* not 'ucb2-b'",
        ),
        (
            lambda mdp: ls.Learner("ucb2-b", horizon=1, states=1, actions=1, episodes=1),
            "must be an Algorithm",
        ),
        (
            lambda mdp: ls.Algorithm(
                estimator=None, bonus=ls.parts.Hoeffding(), schedule=ls.parts.UCB2()
            ),
            "estimator must be a QLearning or",
        ),
        (
            lambda mdp: ls.Algorithm.from_dict({}),
            "an algorithm needs bonus, estimator, p, schedule",
        ),
        (
            lambda mdp: ls.simulate(mdp, ls.ucb_hoeffding(), episodes=5, seeds=[1.7]),
            "distinct whole numbers",
        ),
        (
            lambda mdp: ls.simulate(mdp, ls.ucb_hoeffding(), episodes=5, seeds="12"),
            "distinct whole numbers",
        ),
        (
            lambda mdp: ls.simulate(mdp, ls.ucb_hoeffding(), episodes=5, seeds=[True, False]),
            "distinct whole numbers",
        ),
        (lambda mdp: ls.ucb_hoeffding(c=True), "c must be a positive number, not True"),
        (lambda mdp: ls.ucb2_hoeffding(r_star=True), "r_star must be an integer"),
        (lambda mdp: ls.envs.make(5), "a problem is named by a text"),
        (lambda mdp: ls.plot(5), "give runs of simulate"),
        (
            lambda mdp: theory.regret_order(H=1, S=1, A=1, K=1, p=0.5, bonus="hoeffding"),
            'bonus must be "H"',
        ),
        (
            lambda mdp: build("riverswim:states=3,states=4", ls.envs.PROBLEMS, "problem"),
            "has the option 'states' twice",
        ),
    ],
)
def test_wrong_types_are_named(mdp, call, message):
    with pytest.raises(ValueError, match=message):
        call(mdp)


def test_off_policy_is_a_truth_value():
    learner = ls.Learner(ls.ucb_hoeffding(), horizon=1, states=1, actions=2, episodes=5)
    with pytest.raises(ValueError, match="off_policy must be True or False, not 'no'"):
        learner.tell([0], [1], [0.0], off_policy="no")


@pytest.mark.parametrize(
    ("eta", "r_star"), [(1e-9, 1), (1e-70, 1), (1e-70, "theory"), (0.5, 10**7), (1e-6, 10**8)]
)
def test_extreme_schedules_are_worked_out_at_once(eta, r_star):
    triggers = ls.parts.UCB2(eta=eta, r_star=r_star).triggers(horizon=5, limit=10**6)
    assert triggers.every_until == 10**6 or (eta == 1e-6 and triggers.every_until > 9 * 10**5)
    assert (
        ls.parts.UCB2(eta=eta, r_star=r_star).switch_bound(
            horizon=5, states=2, actions=2, episodes=10**6
        )
        > 10**6
    )


def test_a_growth_below_one_over_eta_hides_no_trigger():
    """Below 1 / eta the shortcut and the plain definition give the same set."""
    plain = {int(np.ceil(1.01**r)) for r in range(1, 2000) if 1.01**r <= 5000} | {1}
    triggers = ls.parts.UCB2(eta=0.01, r_star=1).triggers(horizon=1, limit=5000)
    assert {*range(1, triggers.every_until + 1), *triggers.later} == plain


# ---- files ---------------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_a_pipe_is_refused(tmp_path):
    learner = ls.Learner(ls.ucb_hoeffding(), horizon=1, states=1, actions=2, episodes=5)
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    learner.save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert (tmp_path / "real.npz").is_file()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / ("x" * 300), None):
        with pytest.raises(ValueError, match="cannot write"):
            learner.save(path)


def test_saved_files_follow_the_umask(tmp_path):
    before = os.umask(0o022)
    try:
        ls.Learner(ls.ucb_hoeffding(), horizon=1, states=1, actions=2, episodes=5).save(
            tmp_path / "x.npz"
        )
    finally:
        os.umask(before)
    assert (tmp_path / "x.npz").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("told", ["x", -5, None, 11, 1.5])
def test_an_impossible_number_of_episodes_told_is_refused(told, tmp_path):
    learner = ls.Learner(ls.ucb_hoeffding(), horizon=1, states=1, actions=2, episodes=10)
    facts = {
        "algorithm": learner.algorithm.to_dict(),
        "size": {"horizon": 1, "states": 1, "actions": 2, "episodes": 10},
        "told": told,
    }
    storage.write(
        tmp_path / "x.npz",
        "learner",
        facts,
        {"allowed": np.ones((1, 1, 2), dtype=bool), **learner._knowledge.tables._asdict()},
    )
    with pytest.raises(ValueError, match="no complete learner"):
        ls.Learner.load(tmp_path / "x.npz")


@pytest.mark.parametrize("header", ["[]", "3", "null"])
def test_a_header_that_is_no_object_is_refused(header, tmp_path):
    np.savez(tmp_path / "x.npz", lowswitch=np.array(header))
    with pytest.raises(ValueError, match="not a lowswitch file"):
        ls.load(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="cannot read .* name a readable file"):
        ls.load(tmp_path)


def test_flipped_bytes_are_an_error_or_harmless(tmp_path):
    learner = ls.Learner(ls.ucb2_bernstein(c=0.1), horizon=2, states=3, actions=2, episodes=10)
    learner.tell([0, 1], [0, 0], [0.5, 0.0])
    learner.save(tmp_path / "whole.npz")
    data, path = (tmp_path / "whole.npz").read_bytes(), tmp_path / "flipped.npz"
    for i in range(0, len(data), 7):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0x40]) + data[i + 1 :])
        try:
            loaded = ls.Learner.load(path)
        except ValueError:
            continue
        assert [array.tobytes() for array in loaded._knowledge.tables] == [
            array.tobytes() for array in learner._knowledge.tables
        ]


# ---- reports and the command line ----------------------------------------------------------------


def test_small_means_keep_their_digits():
    assert report.mean_and_interval(np.array([0.6])) == "0.60"
    assert report.mean_and_interval(np.array([0.4, 0.4])) == "0.40"
    assert report.mean_and_interval(np.array([3, 3])) == "3"


def test_runs_of_one_algorithm_need_labels_to_be_drawn_together(mdp):
    runs = ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=20, seeds=2)
    with pytest.raises(ValueError, match="pass a mapping of labels"):
        ls.plot([runs, runs])
    assert len(ls.plot({"one": runs, "two": runs}).axes[0].get_lines()) == 2


def test_runs_without_regret_can_be_drawn_and_summed_up(mdp, tmp_path):
    runs = ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=20, seeds=2, regret=False)
    assert "nan" not in str(runs.summary())
    figure = runs.plot(tmp_path / "runs.png")
    assert (tmp_path / "runs.png").exists()
    assert [axes.get_title() for axes in figure.axes] == ["local switches", "deployments"]
    known = ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=20, seeds=2)
    assert len(ls.plot({"known": known, "unknown": runs}).axes) == 3


def test_one_seed_has_no_deviation(mdp):
    assert (
        ls.simulate(mdp, ls.ucb_hoeffding(c=0.1), episodes=20, seeds=1).to_dict()["regret"]["sd"]
        is None
    )


@pytest.mark.parametrize("episodes", ["inf", "nan", "1.5", "x"])
def test_episodes_that_are_no_whole_number(episodes, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", "--env", "riverswim", "--algorithm", "ucb-h", "--episodes", episodes])
    assert caught.value.code == 2
    assert "is not a whole number" in capsys.readouterr().err
