"""The scheduler hands out every episode until it is played, whatever its workers do and when."""

import pickle

import numpy as np
import pytest

from lowswitch.concurrent import scheduler
from lowswitch.concurrent.fleets import FleetError, InProcess
from lowswitch.concurrent.processes import Processes
from lowswitch.concurrent.scheduler import (
    Deployed,
    Round,
    Scheduler,
    Worker,
    WorkerLostError,
    piece_size,
)
from lowswitch.concurrent.sources import PlayError
from lowswitch.concurrent.worker import Assignment, PiecePlayer, PlayedPiece
from toys import (
    NONE,
    H,
    Toy,
    Trouble,
    raise_error,
    raise_error_elsewhere,
    raise_error_nowhere,
    same,
    some_changes,
    zeros,
)

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
    round_ = Round(1, np.arange(40, 45), H)
    lost = round_.next_piece(workers=1, seconds=0.0)
    reached = [(lost.low, lost.high)]
    with pytest.raises(
        FleetError,
        match=("episode 44 killed 4 workers, the last one: it fell; raise the fleet's patience"),
    ):
        while True:
            round_.replay(lost, "it fell")
            halves = [round_.next_piece(workers=1, seconds=0.0) for _ in range(len(round_.left))]
            lost = halves[-1]
            reached += [(piece.low, piece.high) for piece in halves]
    assert reached == [(0, 5), (0, 2), (2, 5), (2, 3), (3, 5), (3, 4), (4, 5)]


def test_a_lost_piece_is_cut_to_the_pace_of_the_day():
    round_ = Round(1, np.arange(100), H)
    round_.replay(round_.next_piece(workers=1, seconds=0.0), "it fell")
    pieces = [round_.next_piece(workers=1, seconds=seconds) for seconds in (None, 0.01, 0.0, 0.0)]
    assert [(piece.low, piece.high, piece.losses) for piece in pieces] == [
        (0, 1, 1),
        (1, 6, 1),
        (6, 50, 1),
        (50, 100, 1),
    ]
    assert not round_.has_pieces


def test_a_worker_changes_a_policy_that_arrives_read_only():
    policy, player = zeros(), PiecePlayer(pickle.dumps((Toy(), 5)))
    here = InProcess().open(Toy(), 5, zeros())
    policy.setflags(write=False)
    generator, episodes = np.random.default_rng(4), np.arange(9)
    for told in (policy, None):
        changes = some_changes(generator)
        reply = player.play(Assignment((1, 0), told, changes, episodes))
        same((reply.states, reply.rewards), here.play(changes, episodes))
    assert not policy.any()


class EchoWorker(Worker):
    """Says everything twice."""

    def __init__(self, source):
        super().__init__()
        self.player, self.inbox = PiecePlayer(source), [None]

    def send(self, asked):
        self.inbox += [self.player.play(asked)] * 2
        return 0

    def receive(self):
        self.up = True
        return self.inbox.pop(0), 0

    def kill(self):
        pass


class Echo(Scheduler):
    """An open fleet whose only worker says everything twice."""

    advice = "listen"

    def __init__(self, source):
        super().__init__(pickle.dumps((source, 1)), zeros(), size=1, patience=1.0)

    def _start_worker(self):
        return EchoWorker(self.source)

    def _wait(self, workers, seconds):
        return workers

    def _end_workers(self):
        pass


def test_a_repeated_answer_is_ignored():
    opened, here = Echo(Toy()).start(), InProcess().open(Toy(), 1, zeros())
    generator = np.random.default_rng(1)
    for batch in (3, 3, 200, 1):
        changes, episodes = some_changes(generator), generator.permutation(1000)[:batch]
        same(opened.play(changes, episodes), here.play(changes, episodes))
    assert opened.workers[0].inbox  # The echo of the last reply is still there.
    assert opened.lost == 0


def opened_here(fleet, source):
    return Echo(source).start() if fleet == "echo" else InProcess().open(source, 1, zeros())


@pytest.mark.parametrize("fleet", ["in-process", "echo"])
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


# ---- settings ------------------------------------------------------------------------------------


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


# ---- time, as it is written down -----------------------------------------------------------------


class Stage(Scheduler):
    """An open fleet with a clock that moves only while it waits.

    The workers come up, answer and die at the times that are written in their parts.
    """

    advice = "read the play"

    def __init__(
        self, monkeypatch, source, parts, *, pace=lambda policy: 1.0, fatal=None, patience
    ):
        super().__init__(pickle.dumps((source, 1)), zeros(), size=2, patience=patience)
        monkeypatch.setattr(scheduler, "time", self)
        self.parts, self.pace, self.fatal = list(parts), pace, fatal
        self.now, self.killed = 0.0, []

    def monotonic(self):
        return self.now

    def _start_worker(self):
        return StageWorker(self, **(self.parts.pop(0) if self.parts else {}))

    def _wait(self, workers, seconds):
        self.now = max(self.now, min([self.now + seconds, *(worker.acts for worker in workers)]))
        return [worker for worker in workers if worker.acts <= self.now]

    def _end_workers(self):
        pass


class StageWorker(Worker):
    def __init__(self, stage, comes=1.0, slowness=1.0, dies=float("inf")):
        super().__init__()
        self.stage, self.slowness, self.dies = stage, slowness, dies
        self.player, self.reply, self.due = PiecePlayer(stage.source), None, stage.now + comes

    @property
    def acts(self):
        return min(self.due, self.dies)

    def send(self, asked):
        self.reply = self.player.play(asked)
        seconds = len(asked.episodes) * self.slowness * self.stage.pace(self.player.policy)
        if isinstance(self.reply, PlayedPiece):
            self.reply = self.reply._replace(seconds=seconds)
        self.due = self.stage.now + seconds
        if self.stage.fatal in asked.episodes:
            self.dies = self.due
        return 0

    def receive(self):
        if self.dies <= self.stage.now:
            raise WorkerLostError("it fell off the stage")
        self.up, self.due = True, float("inf")
        return self.reply, 0

    def kill(self):
        self.stage.killed.append(self)


NEVER = {"comes": float("inf")}


def played_here(episodes, changes=NONE):
    return InProcess().open(Toy(), 1, zeros()).play(changes, np.arange(episodes))


def test_the_others_play_on_when_one_does_not_come_up(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [{}, NEVER, NEVER, NEVER], patience=20.0).start()
    same(stage.play(NONE, np.arange(80)), played_here(80))
    assert len(stage.killed) == 2  # after 30 and 60 of the 81 seconds
    assert (stage.now, stage.lost, stage.failed_starts) == (81.0, 0, 0)


def test_who_is_starting_has_time_again_when_the_only_worker_dies(monkeypatch):
    parts = [{"dies": 25.5}, {"comes": 50.0}, NEVER, NEVER]
    stage = Stage(monkeypatch, Toy(), parts, patience=20.0).start()
    same(stage.play(NONE, np.arange(40)), played_here(40))
    assert (stage.now, stage.lost) == (66.0, 1)  # 24 episodes until 25 s, and 16 from 50 s on


def test_nobody_has_time_forever(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [{"dies": 25.5}, NEVER, NEVER], patience=20.0).start()
    with pytest.raises(FleetError, match="no worker became available within 30 s; read the play"):
        stage.play(NONE, np.arange(40))
    assert stage.now == 55.5


class AllFail(Toy):
    def befall(self, episodes):
        raise_error(int(episodes[0]))


@pytest.mark.parametrize("slowness", [(1.0, 2.0), (2.0, 1.0)])
def test_of_several_failures_that_of_the_first_machine_is_reported(monkeypatch, slowness):
    parts = [{"slowness": seconds} for seconds in slowness]
    stage = Stage(monkeypatch, AllFail(), parts, patience=20.0).start()
    with pytest.raises(PlayError, match="episode 20, step 3, machine 0: the valve is stuck"):
        stage.play(NONE, np.arange(20, 30))
    assert stage.now == 3.0  # Both were heard.


def test_episodes_that_become_slow_are_played_in_small_pieces(monkeypatch):
    def pace(policy):
        return 0.05 if policy[0, 0] else 0.0

    stage = Stage(monkeypatch, Toy(), [], pace=pace, patience=2.0).start()
    for changes in (NONE, np.array([[0, 0, 1]])):
        same(stage.play(changes, np.arange(1000)), played_here(1000, changes))
    assert stage.lost == 2  # each of them with half of the round in its hands
    assert stage.now == pytest.approx(1 + 2 + 1 + 1000 * 0.05 / 2)


def test_the_one_episode_in_a_long_piece_that_kills_is_named(monkeypatch):
    stage = Stage(monkeypatch, Toy(), [], pace=lambda policy: 0.0, fatal=1337, patience=2.0).start()
    stage.play(NONE, np.arange(1000))
    reason = "episode 1337 killed .* workers, the last one: it fell off the stage"
    with pytest.raises(FleetError, match=reason):
        stage.play(NONE, np.arange(1000, 2000))
    assert stage.lost <= 10  # 500 episodes, 250, 125, ..., 1


def test_a_piece_is_to_blame_for_workers_that_die_when_they_first_hear_of_it(monkeypatch):
    stage, heard = Stage(monkeypatch, Toy(), [], patience=2.0).start(), []

    def falls(worker, asked):
        heard.append(asked)
        assert len(heard) < 50, "they are sent for ever"
        raise WorkerLostError("it fell off the stage")

    monkeypatch.setattr(StageWorker, "send", falls)
    with pytest.raises(FleetError, match=f"episode 7 killed {scheduler.LIVES} workers"):
        stage.play(NONE, np.array([7]))


def test_only_failed_starts_in_a_row_count(monkeypatch):
    parts = [{"dies": 0.5}] * (scheduler.LIVES - 1)
    assert Stage(monkeypatch, Toy(), parts, patience=2.0).start().failed_starts == 0


def test_a_shorter_time_is_believed_at_once_and_a_longer_one_by_halves(monkeypatch):
    stage, believed = Stage(monkeypatch, Toy(), [], patience=2.0), []
    for seconds in (4.0, 1.0, 3.0):
        stage._learn_seconds(seconds)
        believed.append(stage.seconds)
    assert believed == [4.0, 1.0, 2.0]
