"""Processes play what one process plays, whatever happens to them."""

import contextlib
import ctypes
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

from lowswitch.machines import crew as crew_module
from lowswitch.machines.crew import Deployed, Round, Team, WorkerLostError, piece_size
from lowswitch.machines.fleets import FleetError, InProcess
from lowswitch.machines.processes import ProcessEngine, Processes, _limit
from lowswitch.machines.sources import PlayError, Tabular, Trajectories
from lowswitch.machines.station import Answer, Order, Station
from lowswitch.problems.mdp import Scale

H, S, A = 10, 20, 4
NONE = np.empty((0, 3), dtype=int)  # changes
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
    """Something happens whenever an episode is played, or only the first time anybody does it: then
    a file keeps the worker's pid.
    """

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


def hang_with_the_gil(episode):
    ctypes.PyDLL(None).sleep(1000)


def raise_error(episode):
    raise PlayError("the valve is stuck", episode, 3) from OSError("no contact")


def raise_error_nowhere(episode):
    raise PlayError("the valve is stuck", None)


def raise_error_elsewhere(episode):
    raise PlayError("the valve is stuck", 999)


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
        return Trajectories(
            np.zeros((len(episodes), 1), dtype=np.int32), np.zeros((len(episodes), 1))
        )

    def close(self):
        pass


# ---- small helpers -------------------------------------------------------------------------------


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
    until(lambda: team.play(NONE, np.arange(9)) and all(seat.worker.up for seat in team.seats))
    return team


@pytest.fixture(autouse=True)
def _nobody_stays(request):
    """No test leaves a worker behind, whatever it does."""
    before = set(multiprocessing.active_children())
    yield
    if "teams" not in request.fixturenames:
        assert set(multiprocessing.active_children()) <= before


# ---- rules ---------------------------------------------------------------------------------------


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
    deployed.change(NONE)
    deployed.change(np.array([[0, 1, 3]]))
    assert [deployed.since(version)[1].tolist() for version in (0, 1, 2)] == [
        [[0, 1, 2], [0, 1, 3]],
        [[0, 1, 3]],
        [],
    ]
    deployed.change(np.array([[1, 3, 1]]))  # nine numbers of changes, eight of policy
    assert [deployed.since(version)[0] is None for version in (None, 0, 1, 2, 3)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert deployed.policy.tolist() == [[0, 3, 0, 0], [0, 0, 0, 1]]


def test_a_lost_piece_is_handed_out_again_in_halves_until_one_episode_is_to_blame():
    job = Round(1, np.arange(40, 45), H)
    lost = job.next_piece(workers=1, seconds=0.0)
    reached = [(lost.low, lost.high)]
    with pytest.raises(
        FleetError,
        match=(
            "episode 44 took 4 workers with it, the last one: it fell; raise the fleet's patience"
        ),
    ):
        while True:
            job.replay(lost, "it fell")
            halves = [job.next_piece(workers=1, seconds=0.0) for _ in range(len(job.left))]
            lost = halves[-1]
            reached += [(piece.low, piece.high) for piece in halves]
    assert reached == [(0, 5), (0, 2), (2, 5), (2, 3), (3, 5), (3, 4), (4, 5)]


def test_a_lost_piece_is_cut_to_the_pace_of_the_day():
    job = Round(1, np.arange(100), H)
    job.replay(job.next_piece(workers=1, seconds=0.0), "it fell")
    pieces = [job.next_piece(workers=1, seconds=seconds) for seconds in (None, 0.01, 0.0, 0.0)]
    assert [(piece.low, piece.high, piece.losses) for piece in pieces] == [
        (0, 1, 1),
        (1, 6, 1),
        (6, 50, 1),
        (50, 100, 1),
    ]
    assert not job.open


def test_a_station_changes_a_policy_that_arrives_read_only():
    policy, station, solo = (
        zeros(),
        Station(pickle.dumps((Toy(), 5))),
        InProcess().open(Toy(), 5, zeros()),
    )
    policy.setflags(write=False)
    generator, episodes = np.random.default_rng(4), np.arange(9)
    for told in (policy, None):
        changes = some_changes(generator)
        answer = station.play(Order((1, 0), told, changes, episodes))
        same((answer.states, answer.rewards), solo.play(changes, episodes))
    assert not policy.any()


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


def opened_here(fleet, source):
    if fleet == "solo":
        return InProcess().open(source, 1, zeros())
    team = Team(Echo(source), zeros(), workers=1, patience=1.0)
    team.muster()
    return team


@pytest.mark.parametrize("fleet", ["solo", "team"])
@pytest.mark.parametrize(
    ("trouble", "episode", "machine", "message"),
    [
        (raise_error, 10, 1, "episode 10, step 3, machine 1: the valve is stuck"),
        (raise_error_nowhere, 12, 0, "machine 0: the valve is stuck"),
        (raise_error_elsewhere, 12, 0, "episode 999, machine 0: the valve is stuck"),
    ],
)
def test_the_machine_is_the_place_in_the_round(fleet, trouble, episode, machine, message):
    with pytest.raises(PlayError) as failed:
        opened_here(fleet, Trouble(trouble, episode)).play(NONE, np.array([12, 10, 11]))
    assert (failed.value.machine, str(failed.value)) == (machine, message)


# ---- time, as it is written down -----------------------------------------------------------------


class Stage:
    """An engine and a clock that moves only while it waits; the workers come up, answer and die at
    the times of their parts.
    """

    advice = "read the play"

    def __init__(self, monkeypatch, source, parts, *, pace=lambda policy: 1.0, fatal=None):
        monkeypatch.setattr(crew_module, "time", self)
        self.source, self.parts, self.pace, self.fatal = source, list(parts), pace, fatal
        self.now, self.killed = 0.0, []

    def monotonic(self):
        return self.now

    def start(self):
        return StageWorker(self, **(self.parts.pop(0) if self.parts else {})), 0

    def wait(self, workers, seconds):
        self.now = max(self.now, min([self.now + seconds, *(worker.acts for worker in workers)]))
        return [worker for worker in workers if worker.acts <= self.now]

    def close(self, workers):
        pass


class StageWorker:
    def __init__(self, stage, comes=1.0, slowness=1.0, dies=float("inf")):
        self.stage, self.slowness, self.dies = stage, slowness, dies
        self.station, self.answer, self.up = Station(pickle.dumps((stage.source, 1))), None, False
        self.due = stage.now + comes

    @property
    def acts(self):
        return min(self.due, self.dies)

    def hand(self, order):
        answer = self.station.play(order)
        seconds = len(order.episodes) * self.slowness * self.stage.pace(self.station.policy)
        self.answer = answer._replace(seconds=seconds) if isinstance(answer, Answer) else answer
        self.due = self.stage.now + seconds
        if self.stage.fatal in order.episodes:
            self.dies = self.due
        return 0

    def take(self):
        if self.dies <= self.stage.now:
            raise WorkerLostError("it fell off the stage")
        answer, self.up, self.due = self.answer, True, float("inf")
        return answer, 0

    def kill(self):
        self.stage.killed.append(self)


NEVER = {"comes": float("inf")}


def staged(stage, workers, patience):
    team = Team(stage, zeros(), workers=workers, patience=patience)
    team.muster()
    return team


def test_the_others_play_on_when_one_does_not_come_up(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [{}, NEVER, NEVER, NEVER])
    team = staged(stage, workers=2, patience=20.0)
    same(
        team.play(NONE, np.arange(80)),
        InProcess().open(Toy(), 1, zeros()).play(NONE, np.arange(80)),
    )
    assert len(stage.killed) == 2  # after 30 and 60 of the 81 seconds
    assert (stage.now, team.lost, team.failed_starts) == (81.0, 0, 0)


def test_who_is_starting_has_time_again_when_the_only_worker_dies(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [{"dies": 25.5}, {"comes": 50.0}, NEVER, NEVER])
    team = staged(stage, workers=2, patience=20.0)
    same(
        team.play(NONE, np.arange(40)),
        InProcess().open(Toy(), 1, zeros()).play(NONE, np.arange(40)),
    )
    assert (stage.now, team.lost) == (66.0, 1)  # 24 episodes until 25 s, and 16 from 50 s on


def test_nobody_has_time_forever(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [{"dies": 25.5}, NEVER, NEVER])
    team = staged(stage, workers=2, patience=20.0)
    with pytest.raises(FleetError, match="no worker became available within 30 s; read the play"):
        team.play(NONE, np.arange(40))
    assert stage.now == 55.5


class AllFail(Toy):
    def befall(self, episodes):
        raise_error(int(episodes[0]))


@pytest.mark.parametrize("slowness", [(1.0, 2.0), (2.0, 1.0)])
def test_of_several_failures_that_of_the_first_machine_is_reported(monkeypatch, slowness):
    stage = Stage(monkeypatch, AllFail(), [{"slowness": seconds} for seconds in slowness])
    with pytest.raises(PlayError, match="episode 20, step 3, machine 0: the valve is stuck"):
        staged(stage, workers=2, patience=20.0).play(NONE, np.arange(20, 30))
    assert stage.now == 3.0  # both were heard


def test_episodes_that_become_slow_are_played_in_small_pieces(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [], pace=lambda policy: 0.05 if policy[0, 0] else 0.0)
    team, solo = staged(stage, workers=2, patience=2.0), InProcess().open(Toy(), 1, zeros())
    for changes in (NONE, np.array([[0, 0, 1]])):
        same(team.play(changes, np.arange(1000)), solo.play(changes, np.arange(1000)))
    assert team.lost == 2  # each of them with half of the round in its hands
    assert stage.now == pytest.approx(1 + 2 + 1 + 1000 * 0.05 / 2)


def test_the_one_episode_in_a_long_piece_that_kills_is_named(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [], pace=lambda policy: 0.0, fatal=1337)
    team = staged(stage, workers=2, patience=2.0)
    team.play(NONE, np.arange(1000))
    with pytest.raises(
        FleetError,
        match="episode 1337 took .* workers with it, the last one: it fell off the stage",
    ):
        team.play(NONE, np.arange(1000, 2000))
    assert team.lost <= 10  # 500 episodes, 250, 125, ..., 1


# ---- equality ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def teams():
    """Crews by their number of workers, opened when first asked for, each with a crew of one beside
    it.
    """
    opened = {}

    def of(workers):
        if workers not in opened:
            opened[workers] = tuple(
                fleet.open(Toy(), 5, zeros()) for fleet in (Processes(workers=workers), InProcess())
            )
            everybody_up(opened[workers][0])
        return opened[workers]

    yield of
    for team, _ in opened.values():
        workers = pids(team)
        team.close()
        team.close()
        assert not any(map(lives, workers))
        with pytest.raises(FleetError, match="the crew is closed; open another one"):
            team.play(NONE, np.arange(3))


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
    sent = []
    for changes in (NONE, NONE, some_changes(np.random.default_rng(2), 1), NONE):
        before = team.bytes_sent, team.bytes_received
        same(team.play(changes, np.arange(64)), solo.play(changes, np.arange(64)))
        sent.append(team.bytes_sent - before[0])
        assert team.bytes_received - before[1] > 64 * H * 12
    assert max(sent) < 64 * 8 + zeros().nbytes  # never the policy


def test_the_tables_play_as_they_do_here(mdp):
    generator = np.random.default_rng(3)
    policy = np.zeros((mdp.horizon, mdp.states), dtype=np.int64) + mdp.actions_allowed.argmax(
        axis=2
    )
    episodes = generator.integers(0, 4000, 300)
    with contextlib.closing(Processes(workers=1).open(Tabular(mdp), 5, policy)) as team:
        same(
            team.play(NONE, episodes),
            InProcess().open(Tabular(mdp), 5, policy).play(NONE, episodes),
        )


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
    source, solo = Trouble(trouble, 130, marker), InProcess().open(Toy(), 5, zeros())
    generator = np.random.default_rng(6)
    with contextlib.closing(
        Processes(workers=2, patience=patience).open(source, 5, zeros())
    ) as team:
        everybody_up(team)
        for first in range(0, 300, 50):  # the replacement has missed some changes
            changes, episodes = some_changes(generator), np.arange(first, first + 50)
            same(team.play(changes, episodes), solo.play(changes, episodes))
        everybody_up(team)
        assert team.lost == 1
        assert len(team.seats) == 2
        assert int(marker.read_text()) not in pids(team)


def test_workers_that_die_between_rounds_are_replaced():
    solo = InProcess().open(Toy(), 5, zeros())
    with contextlib.closing(Processes(workers=4).open(Toy(), 5, zeros())) as team:
        everybody_up(team).play(NONE, np.arange(1000))
        for seat in team.seats:  # more than a piece may take with it
            seat.worker.process.kill()
            seat.worker.process.join(DEADLINE)
        same(team.play(NONE, np.arange(50)), solo.play(NONE, np.arange(50)))
        assert team.lost == 4


def test_episodes_that_always_kill_are_named():
    with contextlib.closing(Processes(workers=2).open(Trouble(die, 10), 5, zeros())) as team:
        with pytest.raises(
            FleetError,
            match=(
                r"episode 10 took 3 workers with it, .* killed by SIGKILL; raise the fleet's"
                r" patience .* InProcess"
            ),
        ):
            team.play(NONE, np.arange(10, 14))
        assert team.lost == 3


@pytest.fixture
def worker():
    """One that is up, with half a second of patience."""
    engine = ProcessEngine(pickle.dumps((Toy(), 5)), 0.5)
    worker, _ = engine.start()
    rescue = threading.Timer(DEADLINE, worker.process.kill)  # of whoever waits for it
    rescue.start()
    try:
        while not worker.up:
            assert engine.wait([worker], DEADLINE)
            worker.take()
        yield worker
    finally:
        rescue.cancel()
        worker.kill()


MEGABYTES = np.arange(
    10**5
)  # episodes: more than the buffer of a pipe holds, in an order and still more in an answer


def test_a_worker_that_stops_in_the_middle_of_its_answer_is_lost(worker):
    worker.hand(Order((1, 0), zeros(), NONE, MEGABYTES))
    assert worker.connection.poll(DEADLINE)
    os.kill(worker.process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="it lives, but its pipe is broken"):
        worker.take()


def test_a_worker_that_stops_in_the_middle_of_its_order_is_lost(worker):
    os.kill(worker.process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLostError, match="it lives, but its pipe is broken"):
        worker.hand(Order((1, 0), zeros(), NONE, MEGABYTES))


def test_a_worker_that_never_comes_up_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(crew_module, "START_SECONDS", 0.01)
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
        (
            Trouble(raise_unpicklable, 10),
            0,
            r"episode 10, machine 0: LocalError",
            "in raise_unpicklable",
        ),
        (Trouble(leave, 10), 0, r"episode 10, machine 0: SystemExit\(7\)", "in leave"),
        (
            Misshapen(),
            0,
            r"episode 10, machine 0: ValueError.* not \[b, H\] = \(1, 10\)",
            "in _played",
        ),
    ],
)
def test_a_failing_environment_is_a_play_error_with_the_workers_traceback(
    source, machine, message, seen_there
):
    with contextlib.closing(Processes(workers=2).open(source, 5, zeros())) as team:
        with pytest.raises(PlayError, match=message) as failed:
            team.play(NONE, np.arange(10, 20))
        assert failed.value.machine == machine
        assert seen_there in str(failed.value.__cause__)
        assert not any(seat.piece for seat in team.seats)
        workers = pids(team)
        if not isinstance(source, Misshapen):  # the crew can go on with other episodes
            others = np.arange(30, 40)
            same(team.play(NONE, others), InProcess().open(Toy(), 5, zeros()).play(NONE, others))
        assert pids(team) == workers
    assert not any(map(lives, workers))


def test_a_source_that_cannot_be_pickled_is_refused():
    with pytest.raises(
        ValueError,
        match=(
            "Trouble cannot be sent to another process .*lambda.* top level of a module, or play"
            " with InProcess"
        ),
    ):
        Processes(workers=1).open(Trouble(lambda episode: None, 0), 5, zeros())


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_workers_are_counted(workers):
    with pytest.raises(ValueError, match="workers must be a whole number"):
        Processes(workers=workers)


@pytest.mark.parametrize(
    "patience", [0, -1.0, float("nan"), float("inf"), 1e30, 10**400, 10**6 + 1, None, True]
)
def test_patience_is_a_time(patience):
    with pytest.raises(
        ValueError, match="patience must be a positive number of seconds, at most 1000000, not "
    ):
        Processes(patience=patience)


@pytest.mark.parametrize("patience", [10**6, 1e-9])
def test_a_pipe_can_hold_every_patience(patience):
    mine, theirs = multiprocessing.Pipe()
    with mine, theirs:
        _limit(mine, Processes(patience=patience).patience)


# ---- drivers that go -----------------------------------------------------------------------------


def test_an_interrupt_leaves_a_crew_that_plays_and_closes(tmp_path, interruptible):
    marker = tmp_path / "hangs"
    episodes = np.arange(10)
    with contextlib.closing(
        Processes(workers=2).open(Trouble(hang, 4, marker), 5, zeros())
    ) as team:
        interrupter = threading.Thread(
            target=lambda: (until(marker.exists), os.kill(os.getpid(), signal.SIGINT))
        )
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            team.play(NONE, episodes)
        interrupter.join()
        same(team.play(NONE, episodes), InProcess().open(Toy(), 5, zeros()).play(NONE, episodes))
        until(lambda: not lives(int(marker.read_text())))
        assert team.lost == 0  # nobody waited until the one that hung was overdue
        workers = pids(team)
    assert not any(map(lives, workers))


def test_more_interrupts_leave_nobody_behind(monkeypatch):
    team = Processes(workers=2).open(Toy(), 5, zeros())
    workers, process, interrupts = pids(team), team.seats[0].worker.process, [KeyboardInterrupt] * 2
    join = process.join

    def interrupted_join(timeout):
        if interrupts:
            raise interrupts.pop()
        join(timeout)

    monkeypatch.setattr(process, "join", interrupted_join)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)  # they do not end by themselves
    with pytest.raises(KeyboardInterrupt):
        team.close()
    until(lambda: not any(map(lives, workers)))
    team.close()
    assert team.seats == []


DRIVER = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import numpy as np
import test_fleets
from lowswitch.machines.processes import Processes

def play(source):
    team = Processes(workers=2).open(source, 5, test_fleets.zeros())
    team.play(test_fleets.NONE, np.arange(10))
    return team
"""

PLAY = """
if {guard}:
    play(test_fleets.Trouble(test_fleets.{trouble}, 4, {marker!r}))
"""

INTERRUPT = """
if __name__ == "__mp_main__":
    os.killpg(0, signal.SIGINT)
if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda number, frame: None)
    team = play(test_fleets.Toy())
    print(team.lost, team.failed_starts)
    team.close()
"""


def driver(tmp_path, script, **settings):
    path = tmp_path / "driver.py"
    path.write_text(
        (DRIVER + script).format(
            tests=str(pathlib.Path(__file__).parent), marker=str(tmp_path / "hangs"), **settings
        )
    )
    command = [sys.executable, str(path)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def children(pid):
    return [
        int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]


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
    assert 'put what it does under `if __name__ == "__main__":`' in errors.splitlines()[-1]
    assert errors.count("Traceback") == 1  # the driver's own, none of a worker


def test_an_interrupt_does_not_reach_workers_that_are_importing(tmp_path, interruptible):
    with driver(tmp_path, INTERRUPT) as process:
        output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, output, errors) == (0, "0 0\n", "")
