"""Runs on a GPU are those of the CPU to the bit.

The GPU here is a twin: the text of its kernels compiled for this CPU, behind the functions of
NVIDIA's driver. `benchmarks/gpu.py` asks a real one.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import lowswitch as ls
from conftest import ALGORITHMS
from lowswitch.gpu import compiler, driver

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="the twin needs a C++ compiler"),
    pytest.mark.filterwarnings("ignore::lowswitch.BonusWarning"),  # short runs warn
]
EPISODES = 1000
ON_GPU = {
    name: algorithm
    for name, algorithm in ALGORITHMS.items()
    if isinstance(algorithm.estimator, ls.QLearning) and algorithm.members == 1
}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The twin, compiled once."""
    target = tmp_path_factory.mktemp("twin") / "twin.so"
    text = f'-DKERNEL_TEXT="{compiler.TEXT}"'
    # -ffp-contract=off: no multiplication and addition are fused into one rounding
    flags = [
        "-O1",
        "-std=c++17",
        "-w",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-shared",
        "-fPIC",
    ]
    source = Path(__file__).with_name("twin.cpp")
    subprocess.run(["g++", *flags, text, str(source), "-o", str(target)], check=True)
    return target


class Twin:
    """What tests may ask of the twin, and change of it."""

    settings = ("memory", "driver", "devices", "lost_after", "multiprocessors", "shared")
    usual = (2**30, 12040, 1, -1, 4, 2**16)

    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        self.set(**dict(zip(self.settings, self.usual, strict=True)))

    def set(self, **values):
        for name, value in values.items():
            self.library.twin_set(self.settings.index(name), ctypes.c_longlong(value))

    @property
    def used(self):
        return self.library.twin_used()


@pytest.fixture
def twin(library, monkeypatch):
    """A machine whose GPU is the twin."""

    def image(constants, architecture):
        return "".join(f"{name}={int(value)}\n" for name, value in constants.items()).encode()

    monkeypatch.setattr(driver, "_LIBRARIES", (str(library),))
    monkeypatch.setattr(compiler, "compiled", image)
    twin = Twin(library)
    yield twin
    assert twin.used == 0  # everything is given back, whatever happened


def same(one, two):
    for name in ("regret", "local_switches", "deployments", "triggers", "policy", "drowned_share"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
        assert getattr(one, name).dtype == getattr(two, name).dtype, name
    for first, second in zip(one.curves, two.curves, strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("name", ON_GPU)
@pytest.mark.parametrize("shared", [2**20, 2**11, 2**8], ids=["shared", "actions", "global"])
def test_a_gpu_plays_what_the_cpu_plays(twin, mdp, name, shared):
    twin.set(shared=shared)
    on_cpu = ls.simulate(mdp, ON_GPU[name], episodes=EPISODES, seeds=6, history=True)
    on_gpu = ls.simulate(mdp, ON_GPU[name], episodes=EPISODES, seeds=6, history=True, device="gpu")
    same(on_cpu, on_gpu)
    for one, other in zip(on_cpu.history, on_gpu.history, strict=True):
        assert one.changes.tolist() == other.changes.tolist()
