"""Processes play what one process plays, whatever happens to them."""

import contextlib
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from conftest import PROBLEMS
from lowswitch.concurrent import scheduler
from lowswitch.concurrent.fleets import FleetError, InProcess
from lowswitch.concurrent.processes import Processes, ProcessWorker, _limit
from lowswitch.concurrent.scheduler import WorkerLostError
from lowswitch.concurrent.sources import PlayError, Tabular
from lowswitch.concurrent.worker import Assignment
from toys import (
    DEADLINE,
    NONE,
    DiesAtStart,
    FailsAtStart,
    H,
    Misshapen,
    Toy,
    Trouble,
    children,
    die,
    everybody_up,
    hang,
    leave,
    lives,
    pids,
    plays_right,
    raise_error,
    raise_unpicklable,
    same,
    some_changes,
    until,
    zeros,
)


@pytest.fixture(autouse=True)
def _nobody_stays(request):
    """No test leaves a worker behind, whatever it does."""
    before = set(multiprocessing.active_children())
    yield
    if "fleets" not in request.fixturenames:
        assert set(multiprocessing.active_children()) <= before


# ---- equality ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleets():
    """Open fleets by their number of workers, opened when first asked for, each with one in this
    process beside it.
    """
    kept = {}

    def of(workers):
        if workers not in kept:
            kept[workers] = tuple(
                fleet.open(Toy(), 5, zeros()) for fleet in (Processes(workers=workers), InProcess())
            )
            everybody_up(kept[workers][0])
        return kept[workers]

    yield of
    for opened, _ in kept.values():
        workers = pids(opened)
        opened.close()
        opened.close()
        assert not any(map(lives, workers))
        with pytest.raises(FleetError, match="the fleet is closed; open another one"):
            opened.play(NONE, np.arange(3))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2, 7, 64, 1000])
def test_processes_play_what_one_process_plays(fleets, workers, batch):
    opened, here = fleets(workers)
    generator = np.random.default_rng(batch)
    for first in range(0, 5 * batch, batch):
        changes, episodes = some_changes(generator), np.arange(first, first + batch)
        same(opened.play(changes, episodes), here.play(changes, episodes))
    assert opened.lost == 0
    assert len(opened.workers) == workers


def test_a_round_carries_only_what_changed(fleets):
    opened, here = fleets(2)
    sent = []
    for changes in (NONE, NONE, some_changes(np.random.default_rng(2), 1), NONE):
        before = opened.bytes_sent, opened.bytes_received
        same(opened.play(changes, np.arange(64)), here.play(changes, np.arange(64)))
        sent.append(opened.bytes_sent - before[0])
        assert opened.bytes_received - before[1] > 64 * H * 12
    assert max(sent) < 64 * 8 + zeros().nbytes  # never the policy


def test_the_tables_play_as_they_do_here():
    source = Tabular(PROBLEMS["masked-sequence"]())
    policy, episodes = source.actions_allowed.argmax(axis=2), np.arange(300)
    with contextlib.closing(Processes(workers=1).open(source, 5, policy)) as opened:
        here = InProcess().open(source, 5, policy)
        same(opened.play(NONE, episodes), here.play(NONE, episodes))


def test_a_worker_imports_nothing_heavy():
    script = (
        "import sys, lowswitch.concurrent.processes; print({'numba', 'ray', 'gymnasium',"
        " 'matplotlib'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


# ---- workers that die or hang --------------------------------------------------------------------


@pytest.mark.parametrize(("trouble", "patience"), [(die, 60.0), (hang, 0.5)])
def test_what_a_lost_worker_left_is_played_by_others(tmp_path, trouble, patience):
    marker = tmp_path / "happened"
    source, here = Trouble(trouble, 130, marker), InProcess().open(Toy(), 5, zeros())
    generator = np.random.default_rng(6)
    with contextlib.closing(
        Processes(workers=2, patience=patience).open(source, 5, zeros())
    ) as opened:
        everybody_up(opened)
        for first in range(0, 300, 50):  # the replacement has missed some changes
            changes, episodes = some_changes(generator), np.arange(first, first + 50)
            same(opened.play(changes, episodes), here.play(changes, episodes))
        everybody_up(opened)
        assert opened.lost == 1
        assert len(opened.workers) == 2
        assert int(marker.read_text()) not in pids(opened)


def test_workers_that_die_between_rounds_are_replaced():
    here = InProcess().open(Toy(), 5, zeros())
    with contextlib.closing(Processes(workers=4).open(Toy(), 5, zeros())) as opened:
        everybody_up(opened).play(NONE, np.arange(1000))
        for worker in opened.workers:  # more than a piece may take with it
            worker.process.kill()
            worker.process.join(DEADLINE)
        same(opened.play(NONE, np.arange(50)), here.play(NONE, np.arange(50)))
        assert opened.lost == 4


def test_episodes_that_always_kill_are_named():
    with contextlib.closing(Processes(workers=2).open(Trouble(die, 10), 5, zeros())) as opened:
        with pytest.raises(
            FleetError,
            match=(
                r"episode 10 killed 3 workers, .* killed by SIGKILL; raise the fleet's"
                r" patience .* InProcess"
            ),
        ):
            opened.play(NONE, np.arange(10, 14))
        assert opened.lost == 3


@pytest.fixture
def worker():
    """One that is up, with half a second of patience."""
    worker = ProcessWorker(pickle.dumps((Toy(), 5)), 0.5)
    rescue = threading.Timer(DEADLINE, worker.process.kill)  # of whoever waits for it
    rescue.start()
    try:
        while not worker.up:
            assert worker.connection.poll(DEADLINE)
            worker.receive()
        yield worker
    finally:
        rescue.cancel()
        worker.kill()


MEGABYTES = np.arange(10**5)  # episodes: more than the buffer of a pipe holds, either way


def test_a_worker_that_stops_in_the_middle_of_its_reply_is_lost(worker):
    worker.send(Assignment((1, 0), zeros(), NONE, MEGABYTES))
    assert worker.connection.poll(DEADLINE)
    os.kill(worker.process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="it is alive, but its pipe is broken"):
        worker.receive()


def test_a_worker_that_stops_in_the_middle_of_its_assignment_is_lost(worker):
    os.kill(worker.process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="it is alive, but its pipe is broken"):
        worker.send(Assignment((1, 0), zeros(), NONE, MEGABYTES))


def test_a_worker_that_never_comes_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(scheduler, "START_SECONDS", 0.01)
    with pytest.raises(FleetError, match="no worker became available within 0.05 s; .*__main__"):
        Processes(workers=1, patience=0.05).open(Toy(), 5, zeros())


@pytest.mark.parametrize(
    ("source", "reason"),
    [(DiesAtStart(), "exit code 9"), (FailsAtStart(), "no licence for the simulator")],
)
def test_workers_that_cannot_start_say_why(source, reason):
    with pytest.raises(FleetError, match=f"(?s)3 workers in a row died while starting, .*{reason}"):
        Processes(workers=2).open(source, 5, zeros())


# ---- environments that fail ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "machine", "message", "seen_there"),
    [
        (
            Trouble(raise_error, 12),
            2,
            r"episode 12, step 3, machine 2: the valve is stuck",
            "OSError: no contact",
        ),
        (Trouble(raise_unpicklable, 10), 0, "episode 10, machine 0: LocalError", "raise_unpickl"),
        (Trouble(leave, 10), 0, r"episode 10, machine 0: SystemExit\(7\)", "in leave"),
        (
            Misshapen(),
            0,
            r"episode 10, machine 0: ValueError.* not \[b, H\] = \(1, 10\)",
            "in _play",
        ),
    ],
)
def test_a_failing_environment_is_a_play_error_with_the_workers_traceback(
    source, machine, message, seen_there
):
    with contextlib.closing(Processes(workers=2).open(source, 5, zeros())) as opened:
        with pytest.raises(PlayError, match=message) as failed:
            opened.play(NONE, np.arange(10, 20))
        assert failed.value.machine == machine
        assert seen_there in str(failed.value.__cause__)
        assert not any(worker.piece for worker in opened.workers)
        workers = pids(opened)
        if not isinstance(source, Misshapen):  # The fleet can go on with other episodes.
            plays_right(opened, np.arange(30, 40))
        assert pids(opened) == workers
    assert not any(map(lives, workers))


# ---- settings ------------------------------------------------------------------------------------


def test_a_source_that_cannot_be_pickled_is_refused():
    with pytest.raises(
        ValueError,
        match=(
            "Trouble cannot be sent to another process .*lambda.* top level of a module, or play"
            " with InProcess"
        ),
    ):
        Processes(workers=1).open(Trouble(lambda episode: None, 0), 5, zeros())


@pytest.mark.parametrize("patience", [10**6, 1e-9])
def test_a_pipe_can_hold_every_patience(patience):
    mine, theirs = multiprocessing.Pipe()
    with mine, theirs:
        _limit(mine, Processes(patience=patience).patience)


# ---- drivers that go -----------------------------------------------------------------------------


def test_an_interrupt_leaves_a_fleet_that_plays_and_closes(tmp_path, interruptible):
    marker = tmp_path / "hangs"
    episodes = np.arange(10)
    with contextlib.closing(
        Processes(workers=2).open(Trouble(hang, 4, marker), 5, zeros())
    ) as opened:
        interrupter = threading.Thread(
            target=lambda: (until(marker.exists), os.kill(os.getpid(), signal.SIGINT))
        )
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            opened.play(NONE, episodes)
        interrupter.join()
        plays_right(opened, episodes)
        until(lambda: not lives(int(marker.read_text())))
        assert opened.lost == 0  # Nobody waited until the one that hung was overdue.
        workers = pids(opened)
    assert not any(map(lives, workers))


def test_more_interrupts_leave_nobody_behind(monkeypatch):
    opened = Processes(workers=2).open(Toy(), 5, zeros())
    workers, process = pids(opened), opened.workers[0].process
    join, interrupts = process.join, [KeyboardInterrupt] * 2

    def interrupted_join(timeout):
        if interrupts:
            raise interrupts.pop()
        join(timeout)

    monkeypatch.setattr(process, "join", interrupted_join)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)  # so that they do not end by themselves
    with pytest.raises(KeyboardInterrupt):
        opened.close()
    interrupts.clear()  # on a busy machine the first one may have ended everything
    until(lambda: not any(map(lives, workers)))
    opened.close()
    assert opened.workers == []


DRIVER = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import numpy as np
import toys
from lowswitch.concurrent.processes import Processes

def play(source):
    opened = Processes(workers=2).open(source, 5, toys.zeros())
    opened.play(toys.NONE, np.arange(10))
    return opened
"""


PLAY = """
if {guard}:
    play(toys.Trouble(toys.{trouble}, 4, {marker!r}))
"""


INTERRUPT = """
if __name__ == "__mp_main__":
    os.killpg(0, signal.SIGINT)
if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda number, frame: None)
    opened = play(toys.Toy())
    print(opened.lost, opened.failed_starts)
    opened.close()
"""


def driver(tmp_path, script, **settings):
    path = tmp_path / "driver.py"
    path.write_text(
        (DRIVER + script).format(
            tests=str(pathlib.Path(__file__).parents[1]), marker=str(tmp_path / "hangs"), **settings
        )
    )
    command = [sys.executable, str(path)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.parametrize("trouble", ["hang", "hang_with_the_gil"])
def test_workers_end_with_a_driver_that_is_killed(tmp_path, trouble):
    with driver(tmp_path, PLAY, guard='__name__ == "__main__"', trouble=trouble) as process:
        until(lambda: (tmp_path / "hangs").exists() and (tmp_path / "hangs").read_text())
        workers = children(process.pid)
        assert int((tmp_path / "hangs").read_text()) in workers
        process.kill()
    until(lambda: not any(map(lives, workers)))


def test_a_script_without_a_guard_is_told_so(tmp_path):
    with driver(tmp_path, PLAY, guard="True", trouble="hang") as process:
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert 'put its code under `if __name__ == "__main__":`' in errors.splitlines()[-1]
    assert errors.count("Traceback") == 1  # the driver's own, none of a worker


def test_an_interrupt_does_not_reach_workers_that_are_importing(tmp_path, interruptible):
    with driver(tmp_path, INTERRUPT) as process:
        output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output, errors) == (0, "0 0\n", "")
