"""The kernel for billions of episodes: the counts of the library, and numbers beyond 2^31."""

import bisect
import ctypes
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls

DOCS = Path(__file__).resolve().parents[2] / "docs"
EPISODES = 1_500


@pytest.fixture(scope="module")
def longer():
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module("longer")
    sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def play(longer, tmp_path_factory):
    """Play the first runs of some arrays, in place, up to each of some episodes."""
    if shutil.which("g++") is None:
        pytest.skip("the warp needs a C++ compiler")
    folder = tmp_path_factory.mktemp("warp")
    text = DOCS / "switching" / "longer.cu"
    flags = ["-O2", "-std=c++17", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
    source = Path(__file__).with_name("warp.cpp")
    command = ["g++", *flags, f'-DTEXT="{text}"', str(source), "-o", str(folder / "warp.so")]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "warp.so"))

    def to(arrays, runs, *lasts):
        places = {name: array.ctypes.data for name, array in arrays.items()}
        arguments = longer.Arguments(**places, marks_size=len(arrays["marks"]))
        for last in lasts:
            arguments.last = last
            library.launch(runs, ctypes.byref(arguments))

    return to


@pytest.fixture(scope="module")
def played(longer, play):
    """The first 8 runs: two problems, of which the second has ties, two scales, two seeds."""
    laid = longer.Laid.of(EPISODES, np.array([1_000, EPISODES]))
    arrays = {name: np.ascontiguousarray(array) for name, array in laid.arrays.items()}
    play(arrays, 8, 777, EPISODES)  # in two launches
    return laid.mdps, arrays


@pytest.mark.parametrize("run", [1, 2, 5, 7])
def test_a_warp_counts_what_the_library_counts(run, longer, played):
    mdps, arrays = played
    problem, scale, seed = run // 4, longer.SCALES[run // 2 % 2], run % 2
    mdp, algorithm = mdps[problem], ls.ucb2_hoeffding(c=scale)
    runs = ls.simulate(
        mdp, algorithm, episodes=EPISODES, seeds=[seed], history=True, progress=False
    )
    clock = arrays["clocks"][run]
    assert clock["triggers"] == runs.triggers[0]
    assert clock["switches"] == runs.local_switches[0]
    deployed = arrays["actions"][run, : mdp.horizon, : mdp.states]
    assert (deployed == runs.policy[0]).all()
    steps, states = runs.history[0].changes[:, 1:3].T
    alone = longer.gaps(mdp)[steps, states] > 0
    assert clock["sole"] == alone.sum()
    assert problem == 0 or 0 < alone.sum() < len(alone)
    episodes = runs.history[0].changes[:, 0]
    assert arrays["curves"][run, 0, 1] == (episodes < 1_000).sum()
    assert arrays["curves"][run, 1].tolist() == [clock[n] for n in ("triggers", "switches", "sole")]


def test_triggers_beyond_two_to_the_31(longer, play):
    begin = 5 * 10**9
    laid = longer.Laid.of(longer.EPISODES, np.array([begin + 100]))
    arrays = {name: np.ascontiguousarray(array) for name, array in laid.arrays.items()}
    first = int(arrays["settings"][0]["later"])
    counts = arrays["later"][first:].tolist()
    counts = counts[: counts.index(2**62)]
    place = bisect.bisect_right(counts, 2**32)
    cells = arrays["cells"][0]
    cells["visits"], cells["place"] = counts[place] - 5, place
    arrays["clocks"]["episodes"][0] = begin
    before = cells["visits"].copy()
    play(arrays, 1, begin + 100)
    passed = [
        bisect.bisect_right(counts, n) - bisect.bisect_right(counts, m)
        for m, n in zip(before.flat, cells["visits"].flat, strict=True)
    ]
    H = laid.mdps[0].horizon
    assert (cells["visits"] - before).sum() == 100 * H
    assert arrays["clocks"][0]["triggers"] == sum(passed) > 0
    assert arrays["curves"][0, 0, 0] == sum(passed)
