"""Runs on a GPU are those of the CPU to the bit.

The GPU here is a twin: the text of its kernels compiled for this CPU, behind the functions of
NVIDIA's driver. `benchmarks/gpu.py` asks a real one.
"""

import ctypes
import json
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import lowswitch as ls
from conftest import ALGORITHMS, PROBLEMS, random_tables
from lowswitch.cli import commands
from lowswitch.gpu import compiler, driver, encode, layout
from lowswitch.gpu import play as gpu_play
from lowswitch.gpu.driver import GpuError
from lowswitch.kernels.noise import draw
from lowswitch.runs.jobs import Options
from lowswitch.runs.simulate import job_of

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
    flags = ["-O1", "-std=c++17", "-w", "-ffp-contract=off", "-fno-strict-aliasing"]
    flags += ["-shared", "-fPIC"]
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

    @property
    def launches(self):
        """Since a setting was changed."""
        return self.library.twin_launches()


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


def test_large_problems_and_wide_tables_are_no_other_runs(twin, mdp, monkeypatch):
    """What the registers do not hold is evaluated by groups, and alias tables may stay as they
    are.
    """
    monkeypatch.setattr(layout, "_REGISTER_STATES", 2)
    monkeypatch.setattr(layout, "_PADDED_BYTES", 0)
    monkeypatch.setattr(layout, "_PADDED_TIMES", 0)
    for name in ("ucb2-b", "q-whole-budget"):
        on_cpu = ls.simulate(mdp, ON_GPU[name], episodes=300, seeds=3)
        same(on_cpu, ls.simulate(mdp, ON_GPU[name], episodes=300, seeds=3, device="gpu"))


@pytest.mark.parametrize("actions", [6, 20])
@pytest.mark.parametrize("name", ["ucb2-b", "ucb-h"])
def test_many_actions(twin, actions, name):
    mdp = ls.TabularMDP(*random_tables(3, actions, 0), horizon=4)
    on_cpu = ls.simulate(mdp, ON_GPU[name], episodes=500, seeds=3)
    same(on_cpu, ls.simulate(mdp, ON_GPU[name], episodes=500, seeds=3, device="gpu"))


def test_logs_that_fill_up_and_pieces_do_not_matter(twin, monkeypatch):
    mdp, algorithm = PROBLEMS["per-step"](), ON_GPU["ucb-b"]
    on_cpu = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=5)
    monkeypatch.setattr(layout, "_LOGGED_CHANGES", 9)
    same(on_cpu, ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=5, device="gpu"))
    assert twin.launches > 50


def test_regret_may_be_left_out(twin):
    mdp, algorithm = PROBLEMS["dense"](), ON_GPU["ucb2-h"]
    runs = ls.simulate(mdp, algorithm, episodes=100, seeds=3, regret=False, device="gpu")
    same(ls.simulate(mdp, algorithm, episodes=100, seeds=3, regret=False), runs)
    assert np.isnan(runs.regret).all()


def test_a_call_that_does_not_fit_is_cut_into_launches(twin):
    mdp, algorithm = PROBLEMS["dense"](), ON_GPU["ucb2-b"]
    on_cpu = ls.simulate(mdp, algorithm, episodes=300, seeds=40)
    twin.set(memory=1_200_000)
    same(on_cpu, ls.simulate(mdp, algorithm, episodes=300, seeds=40, device="gpu"))
    assert twin.launches > 8  # four would do if all fitted


@pytest.mark.parametrize("log", [0, 1, 2, 5])
def test_padded_alias_tables_draw_the_same(log):
    """Every row of a problem whose rows have 1 to 8 successors."""
    transitions = np.zeros((8, 1, 8))
    for x in range(8):
        transitions[x, 0, : x + 1] = np.random.default_rng(x).dirichlet(np.ones(x + 1))
    model = ls.TabularMDP(transitions[: 2**log, :, : 2**log], np.zeros((8, 1))[: 2**log],
                          horizon=1).model  # fmt: skip
    heads = model.heads[:-1]
    table = encode.padded_columns(heads, model.columns, max(log, 3))
    bits = np.random.default_rng(0).integers(0, 2**64, 2000, dtype=np.uint64)
    for row in range(len(heads)):
        columns = table[row][bits >> np.uint64(64 - max(log, 3))]
        inside = bits << np.uint64(max(log, 3)) < columns["threshold"]
        drawn = np.where(inside, columns["own"], columns["other"])
        assert drawn.tolist() == [draw(heads, model.columns, row, b) for b in bits]


# ---- the layout ----------------------------------------------------------------------------------

H200 = driver.DeviceFacts("H200", 90, 132, 232_448, 150 * 10**9, 13000)


def planned(mdp, algorithm, runs=10**6, problems=1):
    job = job_of(mdp, algorithm, 1000, [0], Options(regret=False))
    kind = encode.kind_of(mdp, algorithm, job.knowledge)
    sizes = {"regret": False, "history": False, "curve_points": 200}
    return layout.lay_out(kind, [mdp.model], H200, np.full(problems, runs // problems), **sizes)


def test_rows_lie_in_shared_memory_where_16_runs_fit():
    """A row has 25 bytes there, with moments 49: 60 rows are 1,500 bytes, and 2,000 are 50,000."""
    small = planned(ls.envs.riverswim(states=6, horizon=10), ls.ucb2_hoeffding())
    assert (small.constants["ROWS_SHARED"], small.runs) == (1, 152)
    assert small.play_shared == 152 * 1500 + 12 * 4 * 12 + 12 * 8  # up to 3 successors
    large = planned(ls.TabularMDP(*random_tables(100, 10, 0), horizon=20), ls.ucb2_hoeffding())
    assert (large.constants["ROWS_SHARED"], large.constants["ACTIONS_SHARED"]) == (0, 1)
    assert large.runs == 64
    assert large.bytes_per_run >= 2000 * 192  # a row of 32 bytes and ten cells of 16


def test_blocks_fill_the_multiprocessors_evenly():
    mdp = ls.envs.riverswim(states=6, horizon=10)
    assert planned(mdp, ls.ucb2_hoeffding(), runs=132 * 100).runs == 100
    assert planned(mdp, ls.ucb2_hoeffding(), runs=132 * 200).runs == 100  # two waves
    assert planned(mdp, ls.ucb2_hoeffding(), runs=64).runs == 4
    many = planned(mdp, ls.ucb2_hoeffding(), runs=32_000, problems=1000)
    assert (many.runs, many.constants["LANES"]) == (32, 19)  # several blocks a multiprocessor


# ---- what is refused, and what goes wrong --------------------------------------------------------


def on_gpu(**options):
    sizes = {"episodes": 100, "seeds": 4, "device": "gpu"} | options
    return ls.simulate(PROBLEMS["dense"](), ON_GPU["ucb2-h"], **sizes)


@pytest.mark.parametrize("name", ["ucbvi", "psrl", "mixture", "stage-q", "mixed-q", "own"])
def test_what_a_gpu_does_not_run_names_the_cpu(twin, name):
    with pytest.raises(ValueError, match=r"a GPU runs Q-learners .* leave out device=\"gpu\""):
        ls.simulate(PROBLEMS["dense"](), ALGORITHMS[name], episodes=10, seeds=1, device="gpu")


def test_another_device_is_refused():
    with pytest.raises(ValueError, match='device must be "cpu" or "gpu", not \'tpu\''):
        on_gpu(device="tpu")


def test_no_driver(monkeypatch):
    monkeypatch.setattr(driver, "_LIBRARIES", ("libnone.so",))
    with pytest.raises(GpuError, match="no NVIDIA driver on this machine .* to run on the CPU"):
        on_gpu()


@pytest.mark.parametrize("devices", [0, -1])
def test_no_gpu(twin, devices):
    twin.set(devices=devices)
    with pytest.raises(GpuError, match="the CUDA driver finds no GPU"):
        on_gpu()


def test_an_old_driver(twin):
    twin.set(driver=11040)
    with pytest.raises(GpuError, match=r"supports CUDA up to 11.4, but 12.0 is needed"):
        on_gpu()


def test_a_driver_that_cannot_load_the_kernels(twin, monkeypatch):
    monkeypatch.setattr(compiler, "compiled", lambda *_: b"nonsense")
    with pytest.raises(GpuError, match="cannot load the compiled kernels"):
        on_gpu()


def test_no_compiler(monkeypatch):
    compiler._load.cache_clear()
    monkeypatch.setattr(compiler, "_candidates", lambda: iter(["libnone.so"]))
    with pytest.raises(GpuError, match=r"pip install 'lowswitch\[gpu\]'"):
        compiler.compiled({}, 90)
    compiler._load.cache_clear()


def test_a_full_gpu(twin, monkeypatch):
    """The layout counts with what is free; somebody else may take it before it is allocated."""
    monkeypatch.setattr(driver.Gpu, "free_memory", lambda gpu: (10**9, 10**9))
    twin.set(memory=10_000)
    with pytest.raises(GpuError, match="the GPU is full: .* GiB are free"):
        on_gpu()


def test_a_gpu_whose_memory_others_hold(twin):
    twin.set(memory=0)
    with pytest.raises(
        GpuError, match=r"cannot be opened .* other processes hold all of its memory"
    ):
        on_gpu()


def test_a_problem_that_is_too_large(twin):
    twin.set(memory=50_000)
    with pytest.raises(GpuError, match=r"needs [\d,]+ bytes on the GPU .* 50,000 are free"):
        on_gpu()


def test_a_gpu_that_is_lost(twin):
    twin.set(lost_after=2)
    with pytest.raises(GpuError, match=r"failed in cuLaunchKernel \(CUDA_ERROR_LAUNCH_FAILED\)"):
        on_gpu()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_a_long_run_at_once(twin):
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        on_gpu(episodes=10**8)


def test_a_long_run_says_what_its_regret_costs():
    """10 of 1,000 episodes in 60 seconds, 45 of them for regret: 75 of 100 minutes in all."""
    watch = gpu_play._Watch(1000)
    watch.begin -= 60
    with pytest.warns(RuntimeWarning, match="regret takes 75 min of the 100 min .* regret=False"):
        watch.look(10, 45.0)
    watch.look(10, 45.0)  # says it once


def test_the_command_line_says_it_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(driver, "_LIBRARIES", ("libnone.so",))
    words = "run --env riverswim --algorithm ucb2-h:c=0.05 --episodes 10 --device gpu"
    assert commands.main(words.split()) == 1
    assert capsys.readouterr().err.startswith("lowswitch: there is no NVIDIA driver")


def test_the_command_line_runs_on_a_gpu(twin, capsys):
    words = "run --env riverswim --algorithm ucb2-h:c=0.05 --episodes 500 --seeds 3 --json"
    printed = []
    for device in ("cpu", "gpu"):
        assert commands.main([*words.split(), "--device", device]) == 0
        printed.append(json.loads(capsys.readouterr().out) | {"steps_per_second": 0})
    assert printed[0] == printed[1]
    assert twin.launches > 0


def compiled_here():
    try:
        return bool(compiler._load())
    except GpuError:
        return False


@pytest.mark.skipif(not compiled_here(), reason="NVRTC is not installed: pip install .[gpu]")
def test_the_compiler_for_gpus_takes_the_text(tmp_path, monkeypatch):
    """It needs no GPU; what it makes is kept, and read from there the next time."""
    monkeypatch.setenv("LOWSWITCH_CACHE_DIR", str(tmp_path / "new"))
    constants = planned(ls.envs.riverswim(states=6, horizon=10), ls.ucb2_hoeffding()).constants
    image = compiler.compiled(constants, 90)
    assert image.startswith(b"\x7fELF")
    assert compiler.compiled(constants, 500).lstrip().startswith(b"//")  # for GPUs to come
    monkeypatch.setattr(compiler._Nvrtc, "compile", None)
    assert compiler.compiled(constants, 90) == image


# ---- sweeps --------------------------------------------------------------------------------------


def many_problems(size):
    tables = (random_tables(3, 2, seed) for seed in range(size))
    return [ls.TabularMDP(*each, horizon=3) for each in tables]


SETTINGS = [
    *(ls.ucb2_hoeffding(c=c, eta=eta, r_star=1) for c in (0.02, 0.1) for eta in (0.1, 0.5)),
    ls.ucb2_bernstein(c=0.05),
    ls.ucb_hoeffding(c=0.1, clip="remaining"),
]


def same_sweeps(one, other):
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        assert str(first.algorithm) == str(second.algorithm)
        same(first, second)


def test_a_sweep_is_what_simulate_gives(twin):
    problems, options = many_problems(5), {"episodes": 300, "seeds": [3, 1, 4]}
    on_cpu = ls.sweep(problems, SETTINGS, **options)
    same_sweeps(on_cpu, ls.sweep(problems, SETTINGS, device="gpu", **options))
    for p, mdp in enumerate(problems):
        for a, algorithm in enumerate(SETTINGS):
            same(on_cpu[p, a], ls.simulate(mdp, algorithm, **options))
    assert on_cpu.regret.shape == on_cpu.local_switches.shape == (5, 6, 3)
    assert on_cpu.deployments[4, 2].tolist() == on_cpu[4, 2].deployments.tolist()
    assert repr(on_cpu) == "Sweep(5 problems, 6 algorithms, 3 seeds, 300 episodes)"
    assert on_cpu.seconds > 0


def test_problems_of_several_kinds_share_a_sweep(twin):
    problems = [PROBLEMS[name]() for name in ("dense", "sparse-bernoulli", "per-step")]
    options = {"episodes": 200, "seeds": 2}
    whole = ls.sweep(problems, list(ON_GPU.values()), **options)
    same_sweeps(whole, ls.sweep(problems, list(ON_GPU.values()), device="gpu", **options))


def test_a_sweep_goes_on_where_a_gpu_was_lost(twin, tmp_path, monkeypatch):
    """Of three kinds the first is finished, the second has a checkpoint from an earlier piece."""
    monkeypatch.setattr(gpu_play, "_KEPT_SECONDS", 0)
    monkeypatch.setattr(layout, "_LOGGED_CHANGES", 20)  # so that there are many pieces
    options = {"episodes": 400, "seeds": 4}
    mdp, settings = PROBLEMS["dense"](), [SETTINGS[0], SETTINGS[4], ALGORITHMS["q-budget"]]
    on_cpu = ls.sweep(mdp, settings, **options)
    same_sweeps(on_cpu, ls.sweep(mdp, settings, device="gpu", **options))
    needed = twin.launches
    twin.set(lost_after=needed // 2)
    with pytest.raises(GpuError, match="a sweep with a folder resumes where it stopped"):
        ls.sweep(mdp, settings, device="gpu", folder=tmp_path, **options)
    assert list(tmp_path.glob("gpu-*.npz"))
    twin.set(lost_after=-1)
    same_sweeps(on_cpu, ls.sweep(mdp, settings, device="gpu", folder=tmp_path, **options))
    assert twin.launches < needed
    assert not list(tmp_path.glob("gpu-*"))
    twin.set(devices=0)  # everything is found in the folder
    same_sweeps(on_cpu, ls.sweep(mdp, settings, device="gpu", folder=tmp_path, **options))


def test_runs_that_were_stopped_go_on_from_their_checkpoint(twin, tmp_path, monkeypatch):
    """At several places of the run; what is written in between is the same."""
    monkeypatch.setattr(layout, "_LOGGED_CHANGES", 20)  # so that there are many pieces
    mdp, algorithm = PROBLEMS["per-step"](), ON_GPU["ucb-b"]
    whole = ls.simulate(mdp, algorithm, episodes=1500, seeds=4)

    class StopsAfter(threading.Event):
        def __init__(self, looks):
            super().__init__()
            self.looks = looks

        def is_set(self):
            self.looks -= 1
            return self.looks < 0

    def played(looks):
        settings = [(mdp, algorithm, job.knowledge)]
        options = {"episodes": 1500, "seeds": [0, 1, 2, 3], "regret": True, "history": False}
        place = {"marks": whole.curves.episodes, "checkpoint": tmp_path / "run"}
        player = gpu_play.player_for(settings, **options, **place)
        player.play(StopsAfter(looks))
        return player

    job = job_of(mdp, algorithm, 1500, [0, 1, 2, 3], Options())
    for looks in (4, 9, 3):
        assert not played(looks).costs
        assert len(list(tmp_path.iterdir())) == 1
    (costs,) = played(10**6).by_job()
    assert not list(tmp_path.iterdir())
    same(whole, job.runs(costs, 1.0))


def test_a_folder_of_one_device_serves_the_other(tmp_path, monkeypatch):
    mdp, options = PROBLEMS["dense"](), {"episodes": 50, "seeds": 2, "folder": tmp_path}
    first = ls.sweep(mdp, SETTINGS[:2], **options)
    monkeypatch.setattr(driver, "_LIBRARIES", ("libnone.so",))
    same_sweeps(first, ls.sweep(mdp, SETTINGS[:2], device="gpu", **options))


@pytest.mark.parametrize(
    ("problems", "algorithms", "message"),
    [
        ([], SETTINGS, "at least one problem and one algorithm"),
        (PROBLEMS["dense"](), [], "at least one problem and one algorithm"),
        (["riverswim"], SETTINGS, "the problem must be a TabularMDP"),
        (PROBLEMS["dense"](), ["ucb2-h"], "algorithm must be an Algorithm"),
    ],
)
def test_bad_sweeps_are_refused(problems, algorithms, message):
    with pytest.raises(ValueError, match=message):
        ls.sweep(problems, algorithms, episodes=10)
