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
import time

import numpy as np
import pytest

from lowswitch.concurrent import crew as crew_module
from lowswitch.concurrent.crew import Deployed, Team, piece_size
from lowswitch.concurrent.fleets import FleetError, InProcess
from lowswitch.concurrent.processes import Processes
from lowswitch.concurrent.sources import PlayError, Tabular, Trajectories
from lowswitch.concurrent.station import Station
from lowswitch.mdp import Scale

H, S, A = 10, 20, 4
DEADLINE = 20.0  # seconds, for what takes far less


class Toy:
    """States and rewards are arithmetic in episode, step, seed and policy."""

    horizon, states, actions, replayable = H, S, A, True
    actions_allowed = np.ones((H, S, A), dtype=bool)
    scale = Scale(0.0, 1.0)

    def player(self, seed):
        return ToyPlayer(seed, self)

    def facts(self):
        return {"toy": type(self).__name__}

    def befall(self, episodes):
        """What happens to the worker before it plays."""


class ToyPlayer:
    def __init__(self, seed, source):
        self.seed, self.source = seed, source

    def play(self, policy, episodes):
        self.source.befall(episodes)
        x = (episodes[:, None] * 7 + np.arange(H) * 3 + self.seed) % S
        return Trajectories(x.astype(np.int32), (policy[np.arange(H), x] + x % 7) / 10)

    def close(self):
        pass


class Trouble(Toy):
    """Something happens whenever an episode is played, or only the first time anybody does it: then a file keeps the worker's pid."""

    def __init__(self, trouble, episode, once_in=None):
        self.trouble, self.episode, self.once_in = trouble, episode, once_in

    def befall(self, episodes):
        if self.episode in episodes and self.first_time():
            self.trouble(self.episode)

    def first_time(self):
        if self.once_in is None:
            return True
        with contextlib.suppress(FileExistsError), open(self.once_in, "x") as file:
            file.write(str(os.getpid()))
            return True
        return False


def die(episode):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(episode):
    time.sleep(1000)


def raise_error(episode):
    raise PlayError("the valve is stuck", episode, 3) from OSError("no contact")


class LocalError(Exception):
    def __init__(self):
        super().__init__(lambda: None)  # cannot be pickled


def raise_unpicklable(episode):
    raise LocalError


def leave(episode):
    sys.exit(7)


class DiesAtStart(Toy):
    def player(self, seed):
        os._exit(9)


class FailsAtStart(Toy):
    def player(self, seed):
        raise OSError("no licence for the simulator")


class Misshapen(Toy):
    def player(self, seed):
        return self

    def play(self, policy, episodes):
        return Trajectories(np.zeros((len(episodes), 1), dtype=np.int32), np.zeros((len(episodes), 1)))

    def close(self):
        pass


# ---- small helpers ---------------------------------------------------------------------------------------------------


def some_changes(generator, n=5):
    return np.stack([generator.integers(0, top, n) for top in (H, S, A)], axis=1)


def zeros():
    return np.zeros((H, S), dtype=int)


def same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)


def pids(team):
    return [seat.worker.process.pid for seat in team.seats]


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def everybody_up(team):
    """Play until the last worker is there, so that none of them is idle by being late."""
    until(lambda: team.play(np.empty((0, 3), dtype=int), np.arange(9)) and all(seat.worker.up for seat in team.seats))
    return team


@pytest.fixture(autouse=True)
def _nobody_stays(request):
    """No test leaves a worker behind, whatever it does."""
    before = set(multiprocessing.active_children())
    yield
    if "teams" not in request.fixturenames:
        assert set(multiprocessing.active_children()) <= before


# ---- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("remaining", "seconds", "size"),
    [
        (100, None, 1),  # nothing is known
        (100, 1.0, 1),  # an episode is longer than the longest piece
        (100, 0.01, 5),  # 50 ms
        (100, 0.001, 25),  # half a share: 100 / (2 * 2)
        (30, 0.001, 8),
        (2, 0.001, 2),  # 2 ms
        (100, 0.0001, 25),
        (30, 0.0001, 20),  # 2 ms
        (100, 1e-6, 50),  # a full share
        (100, 0.0, 50),
    ],
)
def test_pieces_are_half_shares_between_2_and_50_ms(remaining, seconds, size):
    assert piece_size(remaining, batch=100, workers=2, seconds=seconds) == size


def test_changes_are_kept_as_long_as_they_are_shorter_than_the_policy():
    deployed = Deployed(np.zeros((2, 4), dtype=int))
    deployed.change(np.array([[0, 1, 2]]))
    deployed.change(np.empty((0, 3), dtype=int))
    deployed.change(np.array([[0, 1, 3]]))
    assert [deployed.since(version)[1].tolist() for version in (0, 1, 2)] == [[[0, 1, 2], [0, 1, 3]], [[0, 1, 3]], []]
    deployed.change(np.array([[1, 3, 1]]))  # nine numbers of changes, eight of policy
    assert [deployed.since(version)[0] is None for version in (None, 0, 1, 2, 3)] == [False, False, True, True, True]
    assert deployed.policy.tolist() == [[0, 3, 0, 0], [0, 0, 0, 1]]


class Echo:
    """An engine whose only worker says everything twice."""

    advice = "listen"

    def __init__(self, source):
        self.station, self.inbox, self.up = Station(pickle.dumps((source, 1))), [None], False

    def start(self):
        return self, 0

    def wait(self, workers, seconds):
        return workers

    def hand(self, order):
        self.inbox += [self.station.play(order)] * 2
        return 0

    def take(self):
        self.up = True
        return self.inbox.pop(0), 0

    def kill(self):
        pass

    def close(self, workers):
        pass


def test_a_repeated_answer_is_ignored():
    echo = Echo(Toy())
    team, solo = Team(echo, zeros(), workers=1, patience=1.0), InProcess().open(Toy(), 1, zeros())
    team.muster()
    generator = np.random.default_rng(1)
    for batch in (3, 3, 200, 1):
        changes, episodes = some_changes(generator), generator.permutation(1000)[:batch]
        same(team.play(changes, episodes), solo.play(changes, episodes))
    assert echo.inbox  # the last one's echo is still there
    assert team.lost == 0


# ---- equality --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def teams():
    """Crews by their number of workers, opened when first asked for, each with a crew of one beside it."""
    opened = {}

    def of(workers):
        if workers not in opened:
            opened[workers] = tuple(fleet.open(Toy(), 5, zeros()) for fleet in (Processes(workers=workers), InProcess()))
            everybody_up(opened[workers][0])
        return opened[workers]

    yield of
    for team, _ in opened.values():
        workers = pids(team)
        team.close()
        team.close()
        assert not any(map(lives, workers))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2, 7, 64, 1000])
def test_processes_play_what_one_process_plays(teams, workers, batch):
    team, solo = teams(workers)
    generator = np.random.default_rng(batch)
    for first in range(0, 5 * batch, batch):
        changes, episodes = some_changes(generator), np.arange(first, first + batch)
        same(team.play(changes, episodes), solo.play(changes, episodes))
    assert team.lost == 0
    assert len(team.seats) == workers


def test_a_round_carries_only_what_changed(teams):
    team, solo = teams(2)
    none = np.empty((0, 3), dtype=int)
    sent = []
    for changes in (none, none, some_changes(np.random.default_rng(2), 1), none):
        before = team.bytes_sent, team.bytes_received
        same(team.play(changes, np.arange(64)), solo.play(changes, np.arange(64)))
        sent.append(team.bytes_sent - before[0])
        assert team.bytes_received - before[1] > 64 * H * 12
    assert max(sent) < 64 * 8 + zeros().nbytes  # never the policy


def test_the_tables_play_as_they_do_here(mdp):
    generator = np.random.default_rng(3)
    policy = np.zeros((mdp.horizon, mdp.states), dtype=np.int64) + mdp.actions_allowed.argmax(axis=2)
    episodes, none = generator.integers(0, 4000, 300), np.empty((0, 3), dtype=int)
    with contextlib.closing(Processes(workers=1).open(Tabular(mdp), 5, policy)) as team:
        same(team.play(none, episodes), InProcess().open(Tabular(mdp), 5, policy).play(none, episodes))


def test_a_worker_imports_nothing_heavy():
    script = "import sys, lowswitch.concurrent.processes; print({'numba', 'ray', 'gymnasium', 'matplotlib'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"


# ---- workers that die or hang ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trouble", "patience"), [(die, 60.0), (hang, 0.5)])
def test_what_a_lost_worker_left_is_played_by_others(tmp_path, trouble, patience):
    marker = tmp_path / "happened"
    source, solo = Trouble(trouble, 130, marker), InProcess().open(Toy(), 5, zeros())
    generator = np.random.default_rng(6)
    with contextlib.closing(Processes(workers=2, patience=patience).open(source, 5, zeros())) as team:
        everybody_up(team)
        for first in range(0, 300, 50):  # the replacement has missed some changes
            changes, episodes = some_changes(generator), np.arange(first, first + 50)
            same(team.play(changes, episodes), solo.play(changes, episodes))
        everybody_up(team)
        assert team.lost == 1
        assert len(team.seats) == 2
        assert int(marker.read_text()) not in pids(team)


def test_a_worker_that_dies_between_rounds_is_replaced():
    solo, none = InProcess().open(Toy(), 5, zeros()), np.empty((0, 3), dtype=int)
    with contextlib.closing(Processes(workers=1).open(Toy(), 5, zeros())) as team:
        for first in (0, 50):
            same(team.play(none, np.arange(first, first + 50)), solo.play(none, np.arange(first, first + 50)))
            team.seats[0].worker.process.kill()
        assert team.lost == 1


def test_episodes_that_always_kill_are_named():
    with contextlib.closing(Processes(workers=2).open(Trouble(die, 10), 5, zeros())) as team:
        with pytest.raises(
            FleetError, match=r"episodes 10 to 10 took 3 workers .* killed by SIGKILL; raise the fleet's patience .* InProcess"
        ):
            team.play(np.empty((0, 3), dtype=int), np.arange(10, 14))
        assert team.lost == 3


def test_a_worker_that_never_comes_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(crew_module, "START_SECONDS", 0.01)
    with pytest.raises(FleetError, match="no worker became available within 0.05 s; .*__main__"):
        Processes(workers=1, patience=0.05).open(Toy(), 5, zeros())


@pytest.mark.parametrize(("source", "reason"), [(DiesAtStart(), "exit code 9"), (FailsAtStart(), "no licence for the simulator")])
def test_workers_that_cannot_start_say_why(source, reason):
    with pytest.raises(FleetError, match=f"(?s)3 workers in a row died while starting, .*{reason}"):
        Processes(workers=2).open(source, 5, zeros())


# ---- environments that fail ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "machine", "message", "seen_there"),
    [
        (Trouble(raise_error, 12), 2, r"episode 12, step 3, machine 2: the valve is stuck", "OSError: no contact"),
        (Trouble(raise_unpicklable, 10), 0, r"episode 10, machine 0: LocalError", "in raise_unpicklable"),
        (Trouble(leave, 10), 0, r"episode 10, machine 0: SystemExit\(7\)", "in leave"),
        (Misshapen(), 0, r"episode 10, machine 0: ValueError.* not \[b, H\] = \(1, 10\)", "in _played"),
    ],
)
def test_a_failing_environment_is_a_play_error_with_the_workers_traceback(source, machine, message, seen_there):
    with contextlib.closing(Processes(workers=2).open(source, 5, zeros())) as team:
        with pytest.raises(PlayError, match=message) as failed:
            team.play(np.empty((0, 3), dtype=int), np.arange(10, 20))
        assert failed.value.machine == machine
        assert seen_there in str(failed.value.__cause__)
        assert not any(seat.piece for seat in team.seats)
        workers = pids(team)
        if not isinstance(source, Misshapen):  # the crew can go on with other episodes
            others, none = np.arange(30, 40), np.empty((0, 3), dtype=int)
            same(team.play(none, others), InProcess().open(Toy(), 5, zeros()).play(none, others))
        assert pids(team) == workers
    assert not any(map(lives, workers))


def test_a_source_that_cannot_be_pickled_is_refused():
    with pytest.raises(
        ValueError, match="Trouble cannot be sent to another process .*lambda.* top level of a module, or play with InProcess"
    ):
        Processes(workers=1).open(Trouble(lambda episode: None, 0), 5, zeros())


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_workers_are_counted(workers):
    with pytest.raises(ValueError, match="workers must be a whole number"):
        Processes(workers=workers)


@pytest.mark.parametrize("patience", [0, -1.0, float("nan"), float("inf"), None, True])
def test_patience_is_a_time(patience):
    with pytest.raises(ValueError, match="patience must be a positive number of seconds"):
        Processes(patience=patience)


# ---- drivers that go -------------------------------------------------------------------------------------------------


def test_an_interrupt_leaves_a_crew_that_plays_and_closes(tmp_path, interruptible):
    marker = tmp_path / "hangs"
    none, episodes = np.empty((0, 3), dtype=int), np.arange(10)
    with contextlib.closing(Processes(workers=2).open(Trouble(hang, 4, marker), 5, zeros())) as team:
        interrupter = threading.Thread(target=lambda: (until(marker.exists), os.kill(os.getpid(), signal.SIGINT)))
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            team.play(none, episodes)
        interrupter.join()
        same(team.play(none, episodes), InProcess().open(Toy(), 5, zeros()).play(none, episodes))
        workers = pids(team)
    assert not any(map(lives, workers))
    until(lambda: not lives(int(marker.read_text())))


DRIVER = """
import pathlib, sys
sys.path.insert(0, {tests!r})
import numpy as np
from lowswitch.concurrent.processes import Processes
from test_fleets import Toy, Trouble, hang, zeros

if {guard}:
    team = Processes(workers=2).open(Trouble(hang, 4, {marker!r}), 5, zeros())
    team.play(np.empty((0, 3), dtype=int), np.arange(10))
"""


def driver(tmp_path, guard):
    path = tmp_path / "driver.py"
    path.write_text(DRIVER.format(tests=str(pathlib.Path(__file__).parent), guard=guard, marker=str(tmp_path / "hangs")))
    return subprocess.Popen([sys.executable, str(path)], stderr=subprocess.PIPE, text=True)


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_workers_end_with_a_driver_that_is_killed(tmp_path):
    with driver(tmp_path, '__name__ == "__main__"') as process:
        until(lambda: (tmp_path / "hangs").exists() and (tmp_path / "hangs").read_text())
        workers = children(process.pid)
        assert int((tmp_path / "hangs").read_text()) in workers
        process.kill()
    until(lambda: not any(map(lives, workers)))


def test_a_script_without_a_guard_is_told_so(tmp_path):
    with driver(tmp_path, "True") as process:
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert 'must open the fleet under `if __name__ == "__main__":`' in errors.splitlines()[-1]
