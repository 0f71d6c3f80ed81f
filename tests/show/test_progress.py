"""Works on threads: all are done, an error or an interrupt stops the others, and pieces grow to a
length worth the looking up.
"""

from types import SimpleNamespace

import pytest
from numba.core import event

import lowswitch as ls
from lowswitch.show import progress
from lowswitch.show.progress import Pace, PieceSize, run_all, seconds_left

PATIENCE = 10  # seconds; nobody waits that long unless `stop` is never set


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_every_work_is_done_once_and_the_end_is_seen(workers):
    done, seen = [], []
    works = [lambda stop, i=i: done.append((i, stop.is_set())) for i in range(5)]
    run_all(works, workers=workers, look_up=lambda: seen.append(len(done)))
    assert sorted(done) == [(i, False) for i in range(5)]
    assert seen[-1] == 5


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("culprit", ["work", "look_up"])
def test_an_error_surfaces_and_stops_the_others(error, culprit):
    stopped = []

    def patient(stop):
        stopped.append(stop.wait(PATIENCE))

    def broken(*_):
        raise error("broken")

    works = [patient, broken, patient] if culprit == "work" else [patient, patient]
    with pytest.raises(error, match="broken"):
        run_all(works, workers=3, look_up=broken if culprit == "look_up" else lambda: None)
    assert stopped == [True, True]


def test_pieces_double_until_they_take_half_a_tenth_of_a_second(monkeypatch):
    clock = iter([0.0, 0.01, 1.0, 1.04, 2.0, 2.06, 3.0, 3.5])
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    piece_size, sizes = PieceSize(10), []
    for _ in range(4):
        with piece_size:
            pass
        sizes.append(piece_size.size)
    assert sizes == [20, 40, 40, 40]
    assert PieceSize(0).size == 1


def test_off_a_terminal_there_is_a_line_every_half_minute(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    with progress.Progress(1000, unit="steps", label="ucb2-h") as bar:
        bar.note("a short wait")
        for seconds in range(0, 95, 5):
            now[0] = float(seconds)
            bar.update(10 * seconds)
    printed = capsys.readouterr().err
    assert printed.count("\n") == 3
    assert [line.split()[2] for line in printed.splitlines()] == ["30%", "60%", "90%"]
    assert "10.0 steps/s  70 s left" in printed.splitlines()[0]
    assert "\r" not in printed
    with progress.Progress(1000, unit="steps", show=False) as bar:
        now[0] += 100
        bar.update(500)
    assert capsys.readouterr().err == ""


def test_the_time_left_counts_plans_and_steps_apart(monkeypatch):
    """Of four plans of 30 s, one and a half are made; a tenth of the steps took 2 s."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    pace = Pace()
    assert seconds_left(1, 0.0, 4, [pace], 25.0) == 4 * 25  # nothing was played: the guess
    with pace.playing():
        now[0] = 2.0
        with pace:
            now[0] = 32.0
    with pace:
        pace.share, now[0] = 0.5, 47.0
        assert (pace.made, pace.spent) == (1.5, 45.0)
        assert seconds_left(1, 0.1, 4, [pace], 25.0) == pytest.approx(2.5 * 30 + 2 * 9)
        assert seconds_left(2, 0.1, 4, [pace], 25.0) == pytest.approx((2.5 * 30 + 2 * 9) / 2)
    assert (pace.made, pace.spent, pace.played) == (2, 45.0, 32.0)


def test_a_bar_believes_the_time_left_that_it_is_told(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    with progress.Progress(1000, unit="steps", show=True, label="few") as bar:
        now[0] = 30.0
        bar.update(500, "  1.0 of 4 plans", left=90.0)
    printed = capsys.readouterr().err
    assert " 25%" in printed
    assert "90 s left  1.0 of 4 plans" in printed


def test_what_is_waited_for_is_said_with_its_seconds(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.001)
    seen = ""
    with progress.Progress(2, unit="steps", show=True, label="x") as bar:
        bar.note("loading")
        while "x  loading  0 s" not in seen:
            seen += capsys.readouterr().err
        bar.update(1)
        assert capsys.readouterr().err.rpartition("\r")[2].startswith("x  [####")
    assert "x  loading ..." in seen


def test_compiling_is_said_before_silence_gets_long_and_said_again(capsys, monkeypatch):
    ls.Learner(ls.few(deployments=1), horizon=1, states=1, actions=2, episodes=9)
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.001)
    monkeypatch.setattr(progress, "_SILENT_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.02)
    seen = ""
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        while seen.count("\n") < 2:
            seen += capsys.readouterr().err
    assert all(line.startswith("lowswitch  compiling the kernels") for line in seen.splitlines())
    assert not progress._compiler.busy


def test_loading_is_not_called_compiling_before_something_is_compiled(capsys):
    progress.say_when_compiling()
    with progress.Progress(100, unit="steps", show=True, label="few") as bar:
        bar.note(progress.LOADING)
        assert "compil" not in capsys.readouterr().err
        with event.trigger_event("numba:compile"):
            assert "few  compiling the kernels" in capsys.readouterr().err
        assert bar.is_noting  # until whoever loads is done


def test_a_bar_says_that_something_is_compiled_and_does_not_count_it(capsys, monkeypatch):
    progress.say_when_compiling()
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    with progress.Progress(100, unit="steps", show=True, label="few") as bar:
        bar.start()
        with event.trigger_event("numba:compile"):
            now[0] = 50.0
            bar.update(1)  # what is waited for stays
            assert "few  compiling the kernels" in capsys.readouterr().err
        now[0] = 51.0
        bar.update(1)
    assert "1.0 steps/s  99 s left" in capsys.readouterr().err
    with progress.Progress(100, unit="steps", show=False), event.trigger_event("numba:compile"):
        pass
    assert capsys.readouterr().err == ""  # whoever wants no progress gets none
