"""Units of work on a fleet: each finished one is kept, and the results are those of one process."""

import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import lowswitch as ls
from calls import ALGORITHMS, RIVER, TINY, alike, measured, planned, raced, swept
from lowswitch import concurrent
from lowswitch.io import storage
from lowswitch.runs.units import Keep, Threads, each


class Counting:
    """A fleet in this process that counts its units, and is interrupted after some of them.

    It takes the last unit first, because no order is promised.
    """

    def __init__(self, most=10**9):
        self.most, self.units = most, 0

    @contextmanager
    def crew(self):
        yield self

    def each(self, work, units):
        for place, unit in reversed(list(enumerate(units))):
            if self.units == self.most:
                raise KeyboardInterrupt
            self.units += 1
            yield place, work(*unit)


WORKS = {"sweep": (swept, 12), "frontier": (raced, None), "plan": (planned, None)}


@pytest.mark.parametrize("name", WORKS)
def test_an_interrupted_call_resumes_and_plays_no_finished_unit_again(name, tmp_path):
    work, units = WORKS[name]
    here, whole = work(), Counting()
    alike(work(whole), here)
    assert units in (None, whole.units)
    with pytest.raises(KeyboardInterrupt):
        work(Counting(most=whole.units // 2), tmp_path)
    resumed = Counting()
    alike(work(resumed, tmp_path), here)
    assert resumed.units == whole.units - whole.units // 2
    again = Counting()
    alike(work(again, tmp_path), here)
    assert again.units == 0


def test_the_runs_of_a_claim_go_to_the_crew_and_are_kept(tmp_path):
    here, whole = measured(folder=tmp_path / "here"), Counting()
    alike(measured(whole, tmp_path / "whole"), here)
    assert whole.units == TINY.seeds + 2
    with pytest.raises(KeyboardInterrupt):
        measured(Counting(most=2), tmp_path / "cut")
    resumed = Counting()
    alike(measured(resumed, tmp_path / "cut"), here)
    assert resumed.units == whole.units - 2


def test_simulate_gives_its_seeds_to_a_fleet():
    fleet, what = Counting(), {"episodes": 80, "seeds": [5, 2, 9], "progress": False}
    several = {"history": True, "delay": 3}, {"stop": concurrent.Stop(within=0.5)}
    for options in several:
        mine = ls.simulate(RIVER, ls.few(deployments=3), **what, **options)
        alike(ls.simulate(RIVER, ls.few(deployments=3), **what, **options, fleet=fleet), mine)
    assert fleet.units == 6


def test_threads_hand_out_every_unit_and_stop_at_an_error():
    assert list(Threads().each(pow, [(2, 3), (3, 2)])) == [(0, 8), (1, 9)]
    found = dict(Threads(3).each(pow, [(2, n) for n in range(20)]))
    assert found == {n: 2**n for n in range(20)}
    begun = []

    def fail(number):
        begun.append(number)
        time.sleep(0.02)
        if number == 0:
            raise OSError("no contact")

    with pytest.raises(OSError, match="no contact"):
        list(Threads(2).each(fail, [(number,) for number in range(300)]))
    assert len(begun) < 300


@pytest.mark.parametrize("fleet", [concurrent.InProcess(), concurrent.Processes(workers=2), "ray"])
def test_a_fleet_without_a_crew_is_refused(fleet):
    with pytest.raises(
        ValueError, match="cannot play whole runs; leave fleet out .*concurrent.Ray"
    ):
        swept(fleet)


def test_a_fleet_plays_on_no_gpu():
    with pytest.raises(ValueError, match="play on CPUs; leave fleet out, or the device"):
        ls.sweep(RIVER, ALGORITHMS[0], episodes=10, seeds=1, device="gpu", fleet=Counting())


def test_a_kept_unit_that_is_damaged_is_worked_out_again(tmp_path):
    keep = Keep(storage.Kept(tmp_path), "square", dict[str, np.ndarray])
    fleet = Counting()

    def squares():
        found = dict(each(fleet, square, [(2,), (3,)], [["a"], ["b"]], keep))
        return [int(found[place]["is"][0]) for place in (0, 1)]

    assert squares() == [4, 9]
    next(tmp_path.glob("square-*")).write_bytes(b"")
    assert squares() == [4, 9]
    assert fleet.units == 3


def square(number):
    return {"is": np.array([number**2])}


def test_nothing_imports_ray_unless_a_fleet_is_asked_for():
    code = (
        "import sys\nfrom lowswitch.cli.commands import main\n"
        "code = main('run --env riverswim --algorithm ucb2-h --episodes 5 --seeds 1'.split())\n"
        "assert code == 0 and 'ray' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)
