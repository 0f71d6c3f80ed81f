"""What a run on many machines is asked, what it returns, and its command."""

import io
import json
import pickle
import sys

import gymnasium
import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS
from exam import EPISODES, overwrites, same_rounds, same_run
from lowswitch import concurrent
from lowswitch.cli import commands
from lowswitch.concurrent import Gymnasium, Processes, Stop, System, table_rounds
from lowswitch.kernels import rounds as kernels

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # Short runs warn.


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"machines": 0}, "machines must be a whole number from 1"),
        ({"machines": 2.5}, "machines must be a whole number from 1"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"rule": "cut"}, 'rule must be "trigger", "switch" or "speculate", not \'cut\''),
        ({"seed": -1}, "seed must be"),
        ({"algorithm": "ucb2-h"}, "algorithm must be an Algorithm"),
        ({"source": gymnasium.make("FrozenLake-v1")}, "a source is a TabularMDP.*Gymnasium"),
        ({"stop": 0.1}, "stop must be a lowswitch.concurrent.Stop"),
        ({"save_every": -1.0}, "save_every must be"),
        ({"fleet": "processes"}, "fleet must be .* not 'processes'"),
        ({"fleet": Processes}, "fleet must be .* not <class"),
        ({"source": PROBLEMS["masked-sequence"](), "stop": Stop(policy=0.1)}, "need exact values"),
        (
            {"source": PROBLEMS["masked-sequence"](), "episodes": 5000},
            "the start sequence has 4000 states",
        ),
    ],
)
def test_bad_arguments(bad, named):
    good = {
        "source": PROBLEMS["dense"](),
        "algorithm": ALGORITHMS["ucb2-h"],
        "episodes": 10,
        "machines": 2,
    }
    with pytest.raises(ValueError, match=named):
        concurrent.run(**(good | bad))


def test_nothing_is_loading_while_a_round_is_played(monkeypatch):
    screen, seen = io.StringIO(), []
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(table_rounds, "needs_loading", lambda _: True)
    advance = kernels.advance

    def play(policy, episodes):
        seen.append(screen.getvalue())
        return overwrites(policy, episodes)

    def watched(*arguments):
        if arguments[-1]:  # The first call plays no round, it compiles.
            seen.append(screen.getvalue())
        advance(*arguments)

    monkeypatch.setattr(kernels, "advance", watched)
    for source in (System(play, horizon=3, states=4, actions=3), PROBLEMS["dense"]()):
        screen.truncate(0)
        concurrent.run(source, ALGORITHMS["ucb2-h"], 50, machines=7, progress=True)
        assert "loading the kernels" in seen[0]
        assert "0%" in seen[0].split("\r")[-1]
        assert "loading" not in seen[0].split("\r")[-1]
        seen.clear()


# ---- results -------------------------------------------------------------------------------------


def test_a_result_is_saved_whole(tmp_path):
    run = concurrent.run(
        PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 200, machines=7, rule="speculate"
    )
    run.save(tmp_path / "run.npz")
    back = concurrent.load(tmp_path / "run.npz")
    same_run(back, run)
    same_rounds(back, run)
    assert back.to_dict() == run.to_dict()
    (tmp_path / "other.npz").write_bytes((tmp_path / "run.npz").read_bytes())
    with pytest.raises(ValueError, match="is of the kind 'concurrent run'"):
        ls.load(tmp_path / "other.npz")


def test_a_result_prints_as_a_line():
    run = concurrent.run(PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 200, machines=7)
    text = repr(run)
    assert text.startswith(
        f"ConcurrentRun({run.algorithm}, horizon=3, states=4, actions=3, 7 machines, rule 'switch',"
        " seed 0, 200 episodes"
    )
    assert text.endswith(
        f"local switches {run.local_switches[0]:,}, deployments {run.deployments[0]:,})"
    )


def test_the_summary_says_what_was_thrown_away():
    run = concurrent.run(PROBLEMS["dense"](), ALGORITHMS["ucb2-b"], 200, machines=7)
    text = str(run.summary())
    assert f"{run.thrown_away:,} of {run.played:,} played were thrown away" in text
    assert "= N_gl + 1 + K/M" in text


def test_mistakes_are_counted_by_the_policies_that_played(mdp):
    if len(mdp.start_sequence):
        pytest.skip("a start sequence has no start law")
    run = concurrent.run(mdp, ALGORITHMS["ucb2-h"], EPISODES, machines=13, rule="speculate")
    policy, gaps = run.initial.copy(), [mdp.optimal_value() - mdp.evaluate(run.initial)]
    for episode in np.unique(run.history[0].episode):
        for _, h, x, a in run.history[0].changes[run.history[0].episode == episode]:
            policy[h, x] = a
        gaps.append(mdp.optimal_value() - mdp.evaluate(policy))
    eps = float(np.median(gaps)) + 1e-9
    expected = sum(int(n) for n, gap in zip(run.played_under, gaps, strict=True) if gap > eps)
    assert run.mistakes(mdp, eps) == mdp.horizon * expected
    assert 0 <= run.suboptimal_actions(mdp, eps) <= run.plays.sum()


def test_a_problem_survives_a_pickle_frozen_and_without_what_can_be_worked_out(mdp):
    mdp.optimal_value()
    back = pickle.loads(pickle.dumps(mdp))
    assert not back.rewards.flags.writeable
    assert "model" not in vars(back)
    assert back.optimal_value() == mdp.optimal_value()
    assert len(pickle.dumps(mdp)) == len(pickle.dumps(back))


# ---- the command ---------------------------------------------------------------------------------


COMMAND = [
    "concurrent",
    "--env",
    "riverswim:states=3,horizon=4",
    "--algorithm",
    "ucb2-b:c=0.05",
    "--episodes",
    "500",
    "--machines",
    "20",
]


def test_the_command_prints_the_run(capsys, tmp_path):
    assert (
        commands.main(
            [
                *COMMAND,
                "--json",
                "--save",
                str(tmp_path / "run.npz"),
                "--checkpoint",
                str(tmp_path / "check.npz"),
            ]
        )
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    run = concurrent.run(
        ls.envs.riverswim(states=3, horizon=4), ls.ucb2_bernstein(c=0.05), 500, machines=20
    )
    assert (said["rounds"], said["kept"], said["thrown_away"]) == (run.rounds, 500, run.thrown_away)
    assert said["regret"]["per_seed"] == run.regret.tolist()
    same_rounds(concurrent.load(tmp_path / "run.npz"), run)


def test_the_command_plays_gymnasium(capsys):
    lake = [
        "concurrent",
        "--gymnasium",
        "FrozenLake-v1",
        "--algorithm",
        "ucb2-h:c=0.05",
        "--episodes",
        "50",
        "--machines",
        "5",
    ]
    assert (
        commands.main([*lake, "--horizon", "10", "--rule", "speculate", "--max-rounds", "3"]) == 0
    )
    assert "stopped by its rounds" in capsys.readouterr().out
    assert commands.main(lake) == 2
    assert "give --horizon" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--machines", "0"], "machines must be a whole number"),
        (["--fleet", "proceses"], "did you mean 'processes'?"),
        (["--fleet", "processes:workers=0"], "workers must be a whole number"),
        (["--stop-policy", "-1"], "stop: policy must be a number above 0"),
    ],
)
def test_the_command_says_what_is_wrong(more, named, capsys):
    assert commands.main([*COMMAND, *more]) == 2
    assert named in capsys.readouterr().err


def test_the_command_passes_options_to_gymnasium(capsys):
    lake = [
        "concurrent",
        "--gymnasium",
        "FrozenLake-v1:is_slippery=false,map_name=4x4",
        "--algorithm",
        "ucb2-h:c=0.05",
        "--episodes",
        "50",
    ]
    assert commands.main([*lake, "--machines", "5", "--horizon", "10", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    source = Gymnasium("FrozenLake-v1", horizon=10, is_slippery=False)
    assert (
        said["rounds"] == concurrent.run(source, ls.ucb2_hoeffding(c=0.05), 50, machines=5).rounds
    )
    assert said["regret"] == {"mean": None, "sd": None, "per_seed": [None]}
    assert commands.main([*COMMAND, "--horizon", "5"]) == 2
    assert "apply to --gymnasium" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("FrozenLake-v1:horizon=4", "give --horizon and --reward-range"),
        ("FrozenLake-v1:nope=3", "cannot make the environment 'FrozenLake-v1'"),
        ("FrozenLake-v1:map_name=99x99", "cannot make the environment 'FrozenLake-v1'"),
        ("FrozenLake-v1:is_slippery", "is not of the form key=value"),
    ],
)
def test_the_command_refuses_environments_clearly(name, named, capsys):
    rest = ["--algorithm", "ucb2-h:c=0.05", "--episodes", "5", "--machines", "2", "--horizon", "10"]
    assert commands.main(["concurrent", "--gymnasium", name, *rest]) == 2
    assert named in capsys.readouterr().err


def test_the_command_plays_the_library_s_own_environments(capsys):
    rest = ["--algorithm", "ucb2-h:c=0.05", "--episodes", "5", "--machines", "2", "--horizon", "4"]
    assert (
        commands.main(
            [
                "concurrent",
                "--gymnasium",
                "lowswitch.envs.gymnasium:lowswitch/Riverswim-v0:states=4",
                *rest,
            ]
        )
        == 0
    )
    assert "S = 5" in capsys.readouterr().out
