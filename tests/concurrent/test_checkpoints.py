"""A run that goes on from its checkpoint is the whole run, whatever ended it."""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from itertools import product

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, random_tables
from exam import (
    EPISODES,
    OTHER_LEARNERS,
    RULES,
    RoundByRound,
    in_turn,
    overwrites,
    same_rounds,
    same_run,
)
from lowswitch import concurrent
from lowswitch.concurrent import (
    Gymnasium,
    InProcess,
    PlayError,
    Stop,
    System,
    checkpoints,
    round_driver,
    state,
)
from lowswitch.concurrent.sources import Tabular, name_of
from lowswitch.io import storage
from lowswitch.kernels import rounds as kernels

pytestmark = pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning")  # Short runs warn.


# ---- in pieces -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "fleet"), in_turn(product(PROBLEMS, RULES), [InProcess(), RoundByRound()])
)
def test_a_run_in_pieces_is_the_whole_run(cell, fleet, tmp_path):
    mdp, algorithm, file = PROBLEMS[cell[0]](), ALGORITHMS["ucb2-b"], tmp_path / "run.npz"
    asked = {"machines": 13, "rule": cell[1]}
    whole = concurrent.run(mdp, algorithm, EPISODES, **asked)
    asked["checkpoint"] = file
    for rounds in (1, 2, 5, 40, 10**6):
        stop = Stop(rounds=rounds)
        run = concurrent.run(mdp, algorithm, EPISODES, **asked, fleet=fleet, stop=stop)
    assert run.stopped == "episodes"
    same_run(run, whole)
    same_rounds(run, whole)
    same_rounds(concurrent.run(mdp, algorithm, EPISODES, **asked), whole)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(("name", "rule"), in_turn(OTHER_LEARNERS, RULES))
def test_a_run_of_every_family_in_pieces_is_the_whole_run(name, rule, tmp_path):
    mdp, file = PROBLEMS["per-step"](), tmp_path / "run.npz"
    whole = concurrent.run(mdp, OTHER_LEARNERS[name], 200, machines=7, rule=rule)
    for rounds in (1, 2, 5, 13, 10**6):
        run = concurrent.run(
            mdp,
            OTHER_LEARNERS[name],
            200,
            machines=7,
            rule=rule,
            checkpoint=file,
            stop=Stop(rounds=rounds),
        )
    same_run(run, whole)
    same_rounds(run, whole)


def test_a_stop_at_values_may_change_between_pieces(tmp_path):
    mdp, algorithm, file = (
        ls.envs.riverswim(states=4, horizon=6),
        ls.ucb2_bernstein(c=0.02),
        tmp_path / "run.npz",
    )
    coarse = concurrent.run(
        mdp, algorithm, 20_000, machines=7, stop=Stop(policy=0.1), checkpoint=file
    )
    fine = concurrent.run(
        mdp, algorithm, 20_000, machines=7, stop=Stop(policy=1e-6), checkpoint=file
    )
    straight = concurrent.run(mdp, algorithm, 20_000, machines=7, stop=Stop(policy=1e-6))
    assert coarse.episodes < fine.episodes
    same_rounds(fine, straight)
    back = concurrent.run(
        mdp, algorithm, 20_000, machines=7, stop=Stop(policy=0.1), checkpoint=file
    )
    assert back.episodes == fine.episodes


def test_traffic_adds_up_over_pieces(tmp_path):
    class Counted(RoundByRound):
        def open(self, source, seed, policy):
            opened = super().open(source, seed, policy)
            opened.lost, opened.bytes_sent, opened.bytes_received = 1, 20, 300
            return opened

    for rounds in (3, 6):
        run = concurrent.run(
            PROBLEMS["dense"](),
            ALGORITHMS["ucb2-h"],
            300,
            machines=7,
            fleet=Counted(),
            checkpoint=tmp_path / "run.npz",
            stop=Stop(rounds=rounds),
        )
    assert (run.lost, run.bytes_sent, run.bytes_received) == (2, 40, 600)


def test_numbers_of_numpy_are_saved(tmp_path):
    source = System(
        overwrites, horizon=3, states=4, actions=3, reward_range=(np.int64(0), np.float32(5))
    )
    for _ in range(2):
        concurrent.run(
            source,
            ALGORITHMS["ucb2-h"],
            50,
            machines=np.int64(7),
            regret=np.bool_(True),
            checkpoint=tmp_path / "run.npz",
        )


# ---- of another run ------------------------------------------------------------------------------


PLAN = {"machines": 7, "rule": "switch", "seed": 0, "regret": True}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (
            {"machines": 8},
            "of 7 machines, this run has 8 machines; give another file or the same machines",
        ),
        (
            {"rule": "trigger"},
            'of rule "switch", this run has rule "trigger"; give another file or the same rule',
        ),
        ({"seed": 1}, "of seed 0, this run has seed 1; give another file or the same seed"),
        (
            {"regret": False},
            "of regret=True, this run has regret=False; give another file or the same regret",
        ),
        (
            {"episodes": 2000},
            "of 100 episodes, this run has 2,000 episodes; give another file or the same episodes",
        ),
        (
            {"algorithm": ls.ucb2_hoeffding(c=0.2)},
            "of ucb2-h:c=0.1, this run has ucb2-h:c=0.2; give another file or the same algorithm",
        ),
        (
            {"machines": 8, "seed": 1},
            (
                "of 7 machines, this run has 8 machines; of seed 0, this run has seed 1; give"
                " another file or the same machines and seed"
            ),
        ),
        (
            {"source": ls.TabularMDP(*random_tables(3, 2, 8), horizon=4)},
            (
                "of other tables (transitions, rewards, starts or allowed actions) than this run;"
                " give another file or the same tables"
            ),
        ),
        (
            {"source": ls.TabularMDP(*random_tables(5, 2, 8), horizon=4)},
            (
                "of H = 4, S = 3, A = 2, this run has H = 4, S = 5, A = 2; give another file or the"
                " same size"
            ),
        ),
        (
            {"source": Gymnasium("FrozenLake-v1", horizon=4)},
            "of tables, this run has a Gymnasium environment; give another file or the same source",
        ),
    ],
)
def test_a_checkpoint_of_another_configuration(other, named, tmp_path):
    file = tmp_path / "run.npz"
    source = ls.TabularMDP(*random_tables(3, 2, 7), horizon=4)
    asked = {"source": source, "algorithm": ls.ucb2_hoeffding(c=0.1), "episodes": 100} | PLAN
    concurrent.run(**asked, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'the checkpoint {str(file)!r} is {named}')}$"
    ):
        concurrent.run(**(asked | other), checkpoint=file)
    assert file.read_bytes() == before


def test_everything_that_tells_runs_apart_has_words():
    system = System(overwrites, horizon=3, states=4, actions=3)
    for source in (Tabular(PROBLEMS["dense"]()), Gymnasium("FrozenLake-v1", horizon=4), system):
        setting = state.RoundSetting(
            source=source,
            algorithm=ALGORITHMS["ucb2-h"],
            episodes=1,
            machines=1,
            rule="switch",
            seed=0,
            regret=True,
        )
        facts = setting.facts()
        told = checkpoints._WORDS.keys() | checkpoints._DIGESTS.keys()
        assert (facts | facts.pop("source")).keys() <= told | {"source"}


def test_sources_are_told_apart_by_their_functions(tmp_path):
    def other(policy, episodes):
        return overwrites(policy, episodes)

    file, size = tmp_path / "run.npz", {"horizon": 3, "states": 4, "actions": 3}
    concurrent.run(
        System(overwrites, **size), ALGORITHMS["ucb2-h"], 50, machines=7, checkpoint=file
    )
    with pytest.raises(
        ValueError,
        match=(
            "of the function .*overwrites, this run has the function .*other; give another file or"
            " the same system$"
        ),
    ):
        concurrent.run(System(other, **size), ALGORITHMS["ucb2-h"], 50, machines=7, checkpoint=file)
    assert name_of(functools.partial(other, 3, policy=overwrites)).endswith(
        "other(3, policy=exam.overwrites)"
    )
    assert name_of(RoundByRound()) == "exam.RoundByRound"


# ---- when something breaks -----------------------------------------------------------------------


def test_a_damaged_checkpoint(tmp_path):
    file = tmp_path / "run.npz"
    arguments = {
        "source": PROBLEMS["dense"](),
        "algorithm": ALGORITHMS["ucb2-h"],
        "episodes": 100,
        "machines": 7,
        "checkpoint": file,
    }
    concurrent.run(**arguments)
    facts, arrays = storage.read(file, "concurrent checkpoint")
    storage.write(
        file,
        "concurrent checkpoint",
        facts,
        {name: array for name, array in arrays.items() if name != "tables_rows"},
    )
    with pytest.raises(ValueError, match="not a complete checkpoint.*delete it to start again"):
        concurrent.run(**arguments)
    for name, array in (
        ("log_changes", arrays["log_changes"][:-1]),
        ("rounds_stamps", arrays["rounds_stamps"][:-1]),
        ("tables_rows", arrays["tables_rows"][:1]),
        ("window_states", arrays["window_states"] + 0.5),
        ("window_states", arrays["window_states"] + np.int32(100)),
        ("account_checkpoints", arrays["account_checkpoints"] + 1),
    ):
        storage.write(file, "concurrent checkpoint", facts, arrays | {name: array})
        with pytest.raises(
            ValueError,
            match="not a complete checkpoint .*(states of|is .* of|points of its curve)"
            ".*delete it to start again",
        ):
            concurrent.run(**arguments)
    file.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a lowswitch file"):
        concurrent.run(**arguments)
    with pytest.raises(ValueError, match="cannot write"):
        concurrent.run(**(arguments | {"checkpoint": tmp_path / "missing" / "run.npz"}))


def test_a_save_that_fails_hides_nothing(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def play(policy, episodes):
        shutil.rmtree(folder, ignore_errors=True)
        if episodes[0] >= limit:
            raise OSError("no contact")
        return overwrites(policy, episodes)

    limit = 10
    with pytest.raises(PlayError, match="no contact") as caught:
        concurrent.run(
            System(play, horizon=3, states=4, actions=3),
            ALGORITHMS["ucb2-h"],
            50,
            machines=7,
            checkpoint=folder / "run.npz",
        )
    (note,) = caught.value.__notes__  # There is no other note, which would promise a checkpoint.
    assert "the progress since the last checkpoint is lost: cannot write" in note
    folder.mkdir()
    limit = 1000
    with pytest.warns(RuntimeWarning, match="the last checkpoint was not written"):
        run = concurrent.run(
            System(play, horizon=3, states=4, actions=3),
            ALGORITHMS["ucb2-h"],
            50,
            machines=7,
            checkpoint=folder / "run.npz",
        )
    assert run.kept == 50


def test_an_interrupt_while_learning_leaves_a_whole_state(tmp_path, monkeypatch):
    mdp, algorithm, file = PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], tmp_path / "run.npz"
    advance, rounds = kernels.advance, []

    def interrupted(*arguments):
        advance(*arguments)
        rounds.append(1)
        if len(rounds) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        concurrent.run(
            mdp, algorithm, 300, machines=7, rule="speculate", fleet=RoundByRound(), checkpoint=file
        )
    same_rounds(
        concurrent.run(
            mdp, algorithm, 300, machines=7, rule="speculate", fleet=RoundByRound(), checkpoint=file
        ),
        concurrent.run(mdp, algorithm, 300, machines=7, rule="speculate"),
    )


def test_an_interrupt_keeps_what_was_reached(tmp_path, interruptible, monkeypatch):
    """The signal comes some time after the first rounds: before them there is nothing to keep."""
    mdp, algorithm, file = PROBLEMS["dense"](), ALGORITHMS["ucb2-h"], tmp_path / "run.npz"
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    look_up, begun = round_driver.RoundDriver.look_up, functools.cache(timer.start)
    monkeypatch.setattr(round_driver.RoundDriver, "look_up", lambda run: (begun(), look_up(run)))
    with pytest.raises(KeyboardInterrupt) as caught:
        concurrent.run(mdp, algorithm, 2 * 10**9, machines=7, checkpoint=file)
    assert caught.value.__notes__ == [
        f"the checkpoint {str(file)!r} is saved; repeat this call to resume from it"
    ]
    _, arrays = storage.read(file, "concurrent checkpoint")
    told = int(arrays["rounds_totals"][0]["learned"])
    assert told > 0
    reached = concurrent.run(
        mdp,
        algorithm,
        2 * 10**9,
        machines=7,
        checkpoint=file,
        stop=Stop(rounds=int(arrays["rounds_totals"][0]["rounds"])),
    )
    straight = concurrent.run(
        mdp, algorithm, 2 * 10**9, machines=7, stop=Stop(rounds=reached.rounds)
    )
    same_run(reached, straight)
    same_rounds(reached, straight)


DRIVER = """
import lowswitch as ls

mdp = ls.envs.riverswim(states=6, horizon=10)
options = {{"machines": 50, "checkpoint": {file!r}, "save_every": 0}}
if __name__ == "__main__":
    fleet = ls.concurrent.Processes(workers=1)
    ls.concurrent.run(mdp, ls.ucb2_hoeffding(c=0.05), 3000, fleet=fleet, **options)
"""


def test_a_killed_driver_goes_on_from_its_checkpoint(tmp_path):
    file, script = tmp_path / "run.npz", tmp_path / "script.py"
    script.write_text(DRIVER.format(file=str(file)))
    driver = subprocess.Popen([sys.executable, script], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    driver.kill()
    driver.wait(10)
    mdp, algorithm = ls.envs.riverswim(states=6, horizon=10), ls.ucb2_hoeffding(c=0.05)
    run = concurrent.run(mdp, algorithm, 3000, machines=50, checkpoint=file)
    whole = concurrent.run(mdp, algorithm, 3000, machines=50)
    same_run(run, whole)
    same_rounds(run, whole)


def test_an_equal_algorithm_of_another_recipe_goes_on(tmp_path):
    mdp, file, stop = PROBLEMS["dense"](), tmp_path / "run.npz", Stop(rounds=3)
    one, other = ls.ucb_hoeffding(c=0.1), ls.q_hoeffding(c=0.1, schedule="every")
    assert one == other
    concurrent.run(mdp, one, 40, machines=2, checkpoint=file, stop=stop)
    same_rounds(
        concurrent.run(mdp, other, 40, machines=2, checkpoint=file),
        concurrent.run(mdp, one, 40, machines=2),
    )
