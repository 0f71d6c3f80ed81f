"""The command line: the library's numbers, one-line errors, exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import datetime, timedelta

import gymnasium
import numpy as np
import pytest

import lowswitch as ls
from lowswitch.cli import demo
from lowswitch.cli.commands import COMMANDS, main
from lowswitch.cli.syntax import Command
from lowswitch.io import storage

SMALL = "--env riverswim:states=4,horizon=5 --episodes 500 --seeds 3"


def call(command):
    """The exit code of a command."""
    return main(command.split())


def test_run_prints_the_librarys_numbers_as_json(capsys):
    assert call(f"run {SMALL} --algorithm ucb2-b:c=0.05 --json") == 0
    printed = json.loads(capsys.readouterr().out)
    runs = ls.simulate(
        ls.envs.riverswim(states=4, horizon=5), ls.ucb2_bernstein(c=0.05), episodes=500, seeds=3
    )
    assert list(printed) == [
        *("env", "horizon", "states", "actions", "episodes", "seeds", "algorithm"),
        *("optimal_value", "first_value", "uniform_value", "last_value"),
        *("regret", "local_switches", "deployments", "steps_per_second"),
    ]
    assert printed["env"] == "riverswim:states=4,horizon=5"
    sizes = [printed[name] for name in ("horizon", "states", "actions", "episodes", "seeds")]
    assert sizes == [5, 4, 2, 500, 3]
    assert printed["algorithm"] == "ucb2-b:c=0.05"
    assert printed["optimal_value"] == runs.optimal_value
    for name in ("regret", "local_switches", "deployments"):
        values = getattr(runs, name)
        assert printed[name] == {
            "mean": values.mean(),
            "sd": values.std(ddof=1),
            "per_seed": values.tolist(),
        }


def test_run_prints_a_table_and_saves(capsys, tmp_path):
    files = f"--save {tmp_path}/runs.npz --plot {tmp_path}/runs.svg"
    assert call(f"run {SMALL} --algorithm ucb2-h:c=0.05 {files}") == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "riverswim:states=4,horizon=5: S = 4, A = 2, H = 5; 500 episodes, 3 seeds"
    )
    assert "ucb2-h:c=0.05" in text
    assert len(ls.load(tmp_path / "runs.npz").seeds) == 3
    assert (tmp_path / "runs.svg").exists()


def test_compare(capsys):
    two = f"compare {SMALL} --algorithm ucb-h:c=0.05 --algorithm ucb2-h:c=0.05"
    assert call(f"{two} --json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [run["algorithm"] for run in printed["runs"]] == ["ucb-h:c=0.05", "ucb2-h:c=0.05"]
    assert call(two) == 0
    assert capsys.readouterr().out.count("c=0.05") == 2


def test_what_compare_saves_is_plotted_later(capsys, tmp_path):
    two = f"compare {SMALL} --algorithm ucb-h:c=0.05 --algorithm q-h:c=0.05,schedule=whole/2/3"
    assert call(f"{two} --save {tmp_path}/both") == 0
    assert "saved: 2 files in" in capsys.readouterr().out
    files = sorted(path.name for path in (tmp_path / "both").iterdir())
    assert files == ["01-ucb-h-c=0.05.npz", "02-q-h-c=0.05-schedule=whole-2.0-3.npz"]
    runs = ls.load(tmp_path / "both" / files[0])
    mdp = ls.envs.riverswim(states=4, horizon=5)
    assert (runs.problem, runs.fingerprint) == (mdp.name, storage.short_fingerprint(mdp.facts()))
    assert runs.made_with == f"lowswitch {ls.__version__}"
    assert datetime.fromisoformat(runs.date).utcoffset() == timedelta(0)

    chain = "--env chain:states=3,horizon=4 --algorithm ucb-h:c=0.05 --episodes 50"
    assert call(f"run {chain} --save {tmp_path}/c.npz") == 0
    capsys.readouterr()
    files = f"{tmp_path}/both {tmp_path}/c.npz --label eager --label rare --label chain"
    assert call(f"plot {files} --out {tmp_path}/a.svg") == 0
    text = capsys.readouterr().out
    assert "riverswim:states=4,horizon=5: S = 4" in text
    assert "chain:states=3,horizon=4: S = 3" in text
    assert all(label in text for label in ("eager", "rare"))
    assert (tmp_path / "a.svg").exists()
    assert call(f"plot {tmp_path}/both {tmp_path}/c.npz --out {tmp_path}/a.svg") == 0
    assert capsys.readouterr().out.count("ucb-h:c=0.05") == 2  # once on each problem
    for arguments, message in (
        (f"plot {tmp_path}/both --label one --out {tmp_path}/b.png", "2 runs but 1 labels"),
        (f"plot {tmp_path} --out {tmp_path}/b.gif", "must end in"),
        (f"plot {tmp_path}/a.svg", "is not a lowswitch file"),
    ):
        assert call(arguments) == 2
        assert message in capsys.readouterr().err


def test_problems_of_gymnasium_and_of_a_file(capsys, tmp_path):
    lake = "--gymnasium FrozenLake-v1:is_slippery=false --horizon 8"
    small = "--algorithm ucb-h:c=0.05 --episodes 50 --seeds 2"
    assert call(f"run {lake} {small} --json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["env"], printed["states"]) == ("FrozenLake-v1:is_slippery=false", 17)
    mdp = ls.envs.riverswim(states=3, horizon=4)
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0, [0, 0, 1]] = np.eye(3)
    transitions[:, 1] = [[0.4, 0.6, 0], [0.05, 0.6, 0.35], [0, 0.4, 0.6]]
    transitions[:, 0] = [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    path = tmp_path / "river.npz"
    np.savez(path, transitions=transitions, rewards=20 * mdp.rewards - 10, start=0)
    assert call(f"run --tables {path} --horizon 4 --reward-range -10,10 {small} --json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["env"] == "river"
    assert printed["optimal_value"] == pytest.approx(20 * mdp.optimal_value() - 40)
    race = f"frontier --tables {path} --horizon 4 --reward-range=-10,10 --out {tmp_path}/race"
    assert call(f"{race} {small}") == 0
    assert capsys.readouterr().out.startswith("river: S = 3, A = 2, H = 4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--tables none.npz", "cannot read tables from 'none.npz'"),
        ("--gymnasium FrozenLake-v1", "give --horizon"),
        ("--gymnasium Blackjack-v1 --horizon 9", "learn or, on the command line, lowswitch conc"),
        ("--env FrozenLake-v1:is_slippery=false", "write --gymnasium FrozenLake-v1:is_slippery=f"),
        ("--gymnasium FrozenLake-v1:slippery=false --horizon 8", "did you mean 'is_slippery'?"),
        (
            "--gymnasium CliffWalking-v1 --horizon 9 --reward-range=-100,0",
            "leave --reward-range out",
        ),
        ("--env riverswim --horizon 9", "riverswim:horizon=20"),
    ],
)
def test_a_problem_that_cannot_be_read_says_why(arguments, message, capsys):
    assert call(f"run {arguments} --algorithm ucb-h --episodes 10") == 2
    assert message in capsys.readouterr().err


def test_a_narrow_terminal_gets_narrow_tables(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "60")
    two = "--algorithm ucb-h:c=0.05 --algorithm ucb2-h:c=0.05"
    assert call(f"compare {SMALL} {two}") == 0
    assert call(f"frontier {SMALL} {two} --out {tmp_path}") == 0
    assert call(f"concurrent {SMALL[:-10]} --machines 3 --algorithm ucb-h:c=0.05") == 0
    text = capsys.readouterr().out.replace(str(tmp_path), "")
    assert max(map(len, text.splitlines())) <= 60
    assert re.search(r"^local switches +[\d,]+ ± [\d,.]+ +[\d,]+ ± [\d,.]+$", text, re.MULTILINE)


def test_comparing_an_algorithm_with_itself_is_refused(capsys):
    assert call(f"compare {SMALL} --algorithm ucb-b --algorithm ucb-b:c=1") == 2
    assert "two of these algorithms are the same: ucb-b, ucb-b:c=1" in capsys.readouterr().err


def test_lists(capsys):
    assert main(["envs"]) == 0
    assert "riverswim:states=6,horizon=20" in capsys.readouterr().out
    assert main(["algorithms"]) == 0
    text = capsys.readouterr().out
    assert "ucb2-b:c=1.0,c1=...,c2=...,clip=horizon,eta=theory,r_star=theory\n" in text
    shared = "p=0.05,deployments=...,switches=...,last=usual,scales=1.0"
    assert f"every algorithm but few and linear: {shared}\n" in text


def test_the_first_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PULLS", 2000)
    monkeypatch.setattr(demo, "RUNS", 10)
    assert call(f"demo --out {tmp_path}/first.png") == 0
    text = capsys.readouterr().out
    assert re.search(r"UCB1, for every case +[\d.]+ ± [\d.]+ +1,997\n", text)
    assert (tmp_path / "first.png").stat().st_size > 20_000


def test_demo_of_the_learners(capsys, tmp_path):
    assert call(f"demo --learners --episodes 1e3 --seeds 2 --out {tmp_path}/demo.png") == 0
    text = capsys.readouterr().out
    assert text.count("x fewer") == 8
    assert "RiverSwim" in text
    assert "random MDP" in text
    assert (tmp_path / "demo.png").stat().st_size > 50_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--env rivrswim", "unknown problem 'rivrswim'; did you mean 'riverswim'?"),
        ("--env riverswim:stats=3", "riverswim has no option 'stats'; did you mean 'states'?"),
        ("--env riverswim:states=-3", "states must be a whole number from 2"),
        ("--algorithm ucb2", "unknown algorithm 'ucb2'; did you mean 'ucb2-"),
        ("--algorithm ucb2-h:c=0", "c must be a positive number, not 0"),
        ("--algorithm ucb2-h:eta=1.5", "eta must lie strictly between 0 and 1"),
        ("--algorithm ucb2-h:p=2", "p must lie strictly between 0 and 1, not 2"),
        ("--episodes 0", "episodes must be a whole number from 1"),
        ("--seeds -2", "seeds must be a whole number from 1"),
        ("--save no/such/folder.npz", "cannot write 'no/such/folder.npz'"),
        ("--plot figure.bmp", "must end in .png, .svg, .pdf, not 'figure.bmp'"),
        ("--plot no/such/folder.png", "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert call(f"run {SMALL} --algorithm ucb2-h {arguments}") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("lowswitch: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_without_a_command_it_shows_what_there_is(capsys):
    assert main([]) == 2
    assert "reproduce" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fly", "run", f"run {SMALL} --algorithm ucb-h --seeds many"])
def test_wrong_usage_exits_with_2(command, capsys):
    with pytest.raises(SystemExit) as caught:
        call(command)
    assert caught.value.code == 2
    assert "lowswitch" in capsys.readouterr().err


def test_a_drowning_bonus_is_a_note(capsys):
    assert call(f"run {SMALL} --algorithm ucb2-h:c=5") == 0
    assert "note: 100% of the visits had a bonus above the horizon" in capsys.readouterr().err


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_note_has_no_colours(capsys, monkeypatch):
    def warn(options):
        gymnasium.logger.warn("it is old")

    monkeypatch.setitem(COMMANDS, "envs", COMMANDS["envs"]._replace(run=warn))
    assert call("envs") == 0
    assert capsys.readouterr().err == "note: WARN: it is old\n"


@pytest.mark.usefixtures("interruptible")
def test_a_run_on_a_terminal_shows_progress_and_an_interrupt_leaves_nothing_behind(tmp_path):
    files = "--save runs.npz --plot runs.png"
    command = f"-m lowswitch run --env riverswim --algorithm ucb2-h --episodes 1e9 {files}"
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, *command.split()], cwd=tmp_path, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"steps/s" not in seen:
        seen += os.read(ours, 1000)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    while b"written" not in seen:
        seen += os.read(ours, 1000)
    os.close(ours)
    assert b"loading the kernels" in seen
    assert b" left" in seen
    assert b"lowswitch: interrupted; no file is half written" in seen
    assert os.listdir(tmp_path) == []


def test_importing_and_helping_is_light():
    heavy = "{'numba', 'scipy', 'matplotlib', 'gymnasium'}"
    assert printed(f"import sys, lowswitch.cli.commands\nprint({heavy} & set(sys.modules))") == [
        "set()"
    ]


def printed(script):
    """The lines that a script prints in a fresh process."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_completion_offers_the_public_names_only():
    assert [name for name in dir(ls) if not name.startswith("__")] == sorted(ls.__all__)
    assert "__version__" in dir(ls)


LAZY = """
import sys, lowswitch as ls
heavy = {"lowswitch.bandits", "lowswitch.concurrent"}
print(sorted(heavy & set(sys.modules)))
print({"bandits", "concurrent", "simulate", "__version__"} <= set(dir(ls)))
ls.concurrent.run, ls.bandits.simulate
print(sorted(heavy & set(sys.modules)))
print(hasattr(ls, "nothing"))
"""


def test_bandits_and_machines_are_loaded_when_they_are_used():
    both = "['lowswitch.bandits', 'lowswitch.concurrent']"
    assert printed(LAZY) == ["[]", "True", both, "False"]


def test_whole_numbers_may_be_written_short(capsys):
    short = "--env riverswim:states=4,horizon=5 --episodes 1e2 --seeds 2"
    assert call(f"run {short} --algorithm ucb-h:c=0.1 --json") == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 100


def test_every_command_is_declared_with_its_function_its_help_and_its_arguments():
    pending = [*COMMANDS.values()]
    while pending:
        one = pending.pop()
        assert isinstance(one, Command)
        assert "\n" not in (one.run.__doc__ or "\n")  # the help is a line
        pending += one.below.values()


# ---- evaluate ------------------------------------------------------------------------------------

LOGGED = """episode,step,state,action,reward,propensity
p1,0,well,wait,0.5,0.8
p1,1,ill,drug,1,0.25
p2,0,ill,wait,0,0.5
p2,1,well,wait,1,1
"""


@pytest.fixture
def logged(tmp_path):
    """The arguments of `evaluate` for two patients and a policy that gives the drug at the end."""
    (tmp_path / "old.csv").write_text(LOGGED, encoding="utf-8")
    (tmp_path / "new.csv").write_text("wait,wait\nwait,drug\n", encoding="utf-8")
    named = ["--states", "well,ill", "--actions", "wait,drug"]
    files = ["--policy", str(tmp_path / "new.csv"), "--csv", str(tmp_path / "old.csv")]
    return ["evaluate", *files, "--horizon", "2", *named]


def test_a_policy_is_evaluated_on_a_csv_file(logged, capsys):
    """By hand: (0.5 / 0.8 + 5 * 1 + 0 + 2 * 1) / 2 by inverse propensity."""
    assert main([*logged, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ips"]["value"] == pytest.approx((0.625 + 5 + 2) / 2)
    assert (found["samples"], found["reliable"], found["left_out"]) == (2, False, 0)
    assert main(logged) == 0
    shown = capsys.readouterr().out
    assert "doubly robust" in shown
    assert "too little of the log looks like this policy" in shown


def test_counts_of_the_log_are_used_where_they_are_asked_for(logged, tmp_path, capsys):
    short = "\n".join(line.rpartition(",")[0] for line in LOGGED.splitlines())
    (tmp_path / "old.csv").write_text(short, encoding="utf-8")
    assert main(logged) == 2
    assert "this log has no propensities" in capsys.readouterr().err
    assert main([*logged, "--behaviour", "estimated"]) == 0
    assert "estimated from the log's own counts" in capsys.readouterr().out


def test_a_csv_file_needs_its_size(logged, capsys):
    assert main(logged[: logged.index("--states")]) == 2
    assert "--states is missing" in capsys.readouterr().err


def test_a_policy_is_evaluated_on_a_ledger(tmp_path, capsys):
    from lowswitch.ledger import Ledger

    size = {"horizon": 2, "states": 2, "actions": ["wait", "drug"], "episodes": 20}
    with Ledger.create(tmp_path / "run.db", ls.q_hoeffding(c=0.1), **size) as ledger:
        tickets = [ledger.ask("here", f"r{i}").ticket for i in range(4)]
        for ticket in tickets[:3]:
            ledger.tell(ticket, [0, 1], ["wait", "wait"], [0.5, 0.25])
        ledger.missing(tickets[3], "lost", by="ann")
    (tmp_path / "same.csv").write_text("wait,wait\nwait,wait\n", encoding="utf-8")
    files = ["--policy", str(tmp_path / "same.csv"), "--ledger", str(tmp_path / "run.db")]
    assert main(["evaluate", *files]) == 0
    shown = capsys.readouterr().out
    assert "inverse propensity   0.75 [0.75, 0.75]" in shown
    assert "1 report left out" in shown
    assert main(["evaluate", *files, "--after", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 2


def test_a_failed_comparison_leaves_no_empty_folder(tmp_path):
    given = ["compare", "--env", "riverswim", "--episodes", "10", "--seeds", "1"]
    twice = ["--algorithm", "ucb-h", "--algorithm", "ucb-h"]
    folder, there = tmp_path / "new", tmp_path / "there"
    there.mkdir()
    for one in (folder, there):
        assert main([*given, *twice, "--save", str(one)]) != 0
    assert not folder.exists()
    assert there.exists()
