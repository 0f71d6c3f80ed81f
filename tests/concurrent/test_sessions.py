"""Workers end with all that they started, and nothing that an environment does keeps them."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from exam import RoundByRound
from fuzz.files import LEARNERS, MDP
from lowswitch import concurrent
from lowswitch.concurrent import scheduler
from lowswitch.concurrent.processes import Processes
from toys import NONE, Toy, ToyPlayer, Trouble, everybody_up, lives, pids, plays_right, until, zeros

HERE = Path(__file__).parent
SLEEPER = [sys.executable, "-c", "import time; time.sleep(1000)"]


class StartsAnother(Toy):
    """An environment with a process of its own, as a simulator behind a pipe is."""

    def __init__(self, file):
        self.file = file

    def player(self, seed):
        child = subprocess.Popen(SLEEPER)
        with open(self.file, "a") as file:
            file.write(f"{child.pid}\n")
        return ToyPlayer(seed, self)


def started(file):
    return [int(pid) for pid in file.read_text().split()]


def test_what_workers_started_ends_with_them(tmp_path):
    file = tmp_path / "started"
    with contextlib.closing(Processes(workers=2).open(StartsAnother(file), 5, zeros())) as opened:
        everybody_up(opened)
        others = started(file)
        assert len(others) == 2
        assert all(map(lives, others))
        assert all(os.getsid(worker) == worker for worker in pids(opened))
        opened.workers[0].kill()
        until(lambda: not lives(others[0]) or not lives(others[1]))
        assert sum(map(lives, others)) == 1
    until(lambda: not any(map(lives, started(file))))


DRIVER = """
import sys, time
import numpy as np
sys.path[:0] = {tests!r}
from pathlib import Path
from lowswitch.concurrent.processes import Processes
from test_sessions import StartsAnother
from toys import everybody_up, pids, zeros

if __name__ == "__main__":
    opened = everybody_up(Processes(workers=1).open(StartsAnother({file!r}), 5, zeros()))
    print(*pids(opened), flush=True)
    time.sleep(1000)
"""


def test_what_workers_started_ends_with_a_driver_that_is_killed(tmp_path):
    file, script = tmp_path / "started", tmp_path / "driver.py"
    script.write_text(DRIVER.format(tests=[str(HERE.parent), str(HERE)], file=str(file)))
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
    ) as driver:
        (worker,) = map(int, driver.stdout.readline().split())
        everybody = [worker, *started(file)]
        assert all(map(lives, everybody))
        driver.kill()
    until(lambda: not any(map(lives, everybody)))


class Disturbs(Toy):
    """An environment whose close() does something."""

    def __init__(self, act):
        self.act = act

    def player(self, seed):
        player = ToyPlayer(seed, self)
        player.close = self.act
        return player


def fails():
    raise RuntimeError("the valve is stuck")


def hangs():
    time.sleep(1000)


@pytest.mark.parametrize("act", [fails, hangs])
def test_a_close_that_raises_or_hangs_keeps_nobody(act, monkeypatch):
    monkeypatch.setattr("lowswitch.concurrent.processes.CLOSING_SECONDS", 0.5)
    opened = everybody_up(Processes(workers=2).open(Disturbs(act), 5, zeros()))
    workers = pids(opened)
    plays_right(opened, np.arange(9))
    opened.close()
    assert not any(map(lives, workers))


def test_a_close_that_raises_costs_no_result():
    class Fails(RoundByRound):
        def open(self, source, seed, policy):
            opened = super().open(source, seed, policy)
            opened.close = fails
            return opened

    with pytest.warns(RuntimeWarning, match="closing the fleet failed: RuntimeError.'the valve"):
        run = concurrent.run(MDP, LEARNERS["rows"], 20, machines=3, fleet=Fails())
    assert run.episodes == 20


def write_everywhere(episode):
    """Write into every open file, the pipe to the driver among them."""
    for descriptor in range(3, 4096):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\0\0\0\5hello")


def test_what_an_environment_writes_into_the_pipe_costs_a_worker_and_no_more(tmp_path):
    source = Trouble(write_everywhere, 4, tmp_path / "happened")
    with contextlib.closing(Processes(workers=2, patience=5).open(source, 5, zeros())) as opened:
        plays_right(opened, np.arange(9))
        assert opened.lost == 1


def fork_and_die(episode):
    """Leave a child that holds the pipe open."""
    if os.fork():
        os._exit(3)
    time.sleep(1000)


def test_a_dead_worker_is_noticed_though_its_child_holds_the_pipe(tmp_path):
    source = Trouble(fork_and_die, 4, tmp_path / "happened")
    begin = time.monotonic()
    with contextlib.closing(Processes(workers=2, patience=300).open(source, 5, zeros())) as opened:
        plays_right(opened, np.arange(9))
        assert opened.lost == 1
    assert time.monotonic() - begin < 100


def test_there_are_no_more_workers_than_machines(monkeypatch):
    sizes = []

    def noted(self, *given, size, patience):
        sizes.append(size)
        raise scheduler.FleetError("enough")

    monkeypatch.setattr(scheduler.Scheduler, "__init__", noted)
    for workers, machines in ((64, 2), (1, 2), (None, 1)):
        with pytest.raises(concurrent.FleetError, match="enough"):
            concurrent.run(
                MDP, LEARNERS["rows"], 20, machines=machines, fleet=Processes(workers=workers)
            )
    assert sizes == [2, 1, 1]
    assert ls.concurrent.Ray(workers=9).at_most(3).most == 3


def test_an_answer_of_other_episodes_is_refused():
    with contextlib.closing(Processes(workers=1).open(Toy(), 5, zeros())) as opened:
        plays_right(opened, np.arange(3))
        piece = scheduler.Piece((0, 0), 0, 2)
        reply = scheduler.PlayedPiece((0, 0), 0.1, np.zeros((1, 1)), np.zeros((1, 1)))
        with pytest.raises(concurrent.FleetError, match="answered with other episodes"):
            opened.round.take(piece, reply)
        opened.play(NONE, np.arange(3))
