"""How fast the library is, against the same algorithms in plain C (reference.c) and against its
targets.

    python benchmarks/speed.py [--quick] [--json FILE] [--rlberry PYTHON]

Whatever is compared runs in turn within a round (library, C, library with regret, ...). A ratio is
the median of the ratios within the rounds, so that a machine that slows down for a while does not
change it; times are medians too. Library times are those of the whole `simulate` call, its Python
included. The exit code is 1 if the library and C disagree on a count, 2 if there is no gcc.

The published numbers are those of --json docs/numbers/speed.json; `python docs/publish.py` puts
them on the pages.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bench
import lowswitch as ls
from bench import interleaved, seconds
from lowswitch import envs
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.kernels.streams import stream_key
from lowswitch.learners import ProblemSize
from lowswitch.learners.rows import row_spec

SEED = 0
ALGORITHMS = {
    "ucb2-h": ls.ucb2_hoeffding(c=0.05),
    "ucb2-b": ls.ucb2_bernstein(c=0.05),
    "ucb-h": ls.ucb_hoeffding(c=0.05),
}
MOST_OF_C = 1.25  # library / C
MOST_WITH_REGRET = {"ucb2-h": 1.3, "ucb2-b": 1.3, "ucb-h": 4.0}  # with exact regret / without,
REGRET_STATES = 20  # on problems of at most so many states
MOST_GROWTH = 1.25  # time per step at a number of episodes / the least at fewer
MOST_MEGABYTES = 200
LEAST_SPEED_UP = 1.7  # two threads
PLANNERS = ("ucbvi", "ucbvi-bf", "mvp")
TIMES_RLBERRY = 300  # steps a second of a planner / those of rlberry-scool's UCBVI
ASSUMED_RLBERRY = 1_000  # where it is not timed
MOST_OF_UCB2 = 1.5  # time per step of a stage-based learner / that of ucb2-h
MOST_SECONDS = {
    "import lowswitch": 0.2,
    "lowswitch --help": 0.4,
    "first simulate, warm cache": 2.0,
    "first simulate, cold cache": 20.0,
}

# ---- tables --------------------------------------------------------------------------------------


class Table:
    """Rows printed as they are finished, under a heading, and kept for the JSON file by name."""

    def __init__(self, name: str, title: str, columns: dict[str, str]) -> None:
        self.name, self.columns = name, columns  # format of each column; its width counts
        self.rows: list[dict[str, Any]] = []
        print(
            f"\n{title}\n"
            + "  ".join(f"{name:{self._room(form)}}" for name, form in columns.items()),
            flush=True,
        )

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        print(
            "  ".join(
                f"{value:{form}}"
                for value, form in zip(row.values(), self.columns.values(), strict=True)
            ),
            flush=True,
        )

    @staticmethod
    def _room(form: str) -> str:
        return form.rstrip("df").split(".")[0].replace(",", "")


def verdict(passed: bool) -> str:
    return "PASS" if passed else "MISS"


# ---- the problems --------------------------------------------------------------------------------


def random_tables(states: int, actions: int) -> tuple[np.ndarray, np.ndarray]:
    """Transitions and rewards."""
    generator = np.random.default_rng(0)
    transitions = generator.dirichlet(np.ones(states), size=(states, actions))
    return transitions, generator.random((states, actions))


def random_mdp(states: int, actions: int, horizon: int) -> ls.TabularMDP:
    return ls.TabularMDP(*random_tables(states, actions), horizon=horizon)


def compile_reference(folder: str) -> Callable[..., None]:
    if shutil.which("gcc") is None:
        print("speed.py compares with C; install gcc, as by `apt install gcc`", file=sys.stderr)
        sys.exit(2)
    source, target = Path(__file__).with_name("reference.c"), Path(folder) / "reference.so"
    # Without -ffp-contract=off gcc fuses a multiplication and an addition into one rounding. The
    # estimates then differ from the library's in the last bit, and equal counts would be luck.
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(target), "-lm"], check=True)
    function = ctypes.CDLL(str(target)).reference
    whole, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    function.argtypes = (
        [whole] * 5 + [real] * 5 + [whole] + [pointer] * 6 + [ctypes.c_uint64, pointer]
    )
    function.restype = None
    return function


def reference_run(
    function: Callable[..., None], mdp: ls.TabularMDP, algorithm: ls.Algorithm, K: int
) -> Callable[[], list[int]]:
    """A call of the C function, everything worked out beforehand; returns switches, deployments."""
    spec = row_spec(algorithm, ProblemSize(mdp.horizon, mdp.states, mdp.actions, K))
    columns = [
        np.ascontiguousarray(mdp.model.columns[name]) for name in ("threshold", "own", "other")
    ]
    counts = np.zeros(2, dtype=np.int64)
    arrays = [spec.later, mdp.model.heads, *columns, mdp.model.rewards]
    numbers = (
        spec.c1,
        spec.c2,
        spec.variance_scale,
        spec.lower_order,
        spec.hoeffding_scale,
        spec.every_until,
    )

    def run() -> list[int]:
        pointers = [array.ctypes.data for array in arrays]
        function(
            spec.H,
            spec.S,
            spec.A,
            K,
            spec.bonus,
            *numbers,
            *pointers,
            int(stream_key(SEED)),
            counts.ctypes.data,
        )
        return counts.tolist()

    return run


def library_run(
    mdp: ls.TabularMDP, algorithm: ls.Algorithm, K: int, *, regret: bool
) -> Callable[[], list[int]]:
    def run() -> list[int]:
        runs = ls.simulate(
            mdp, algorithm, episodes=K, seeds=[SEED], threads=1, regret=regret, progress=False
        )
        return [int(runs.local_switches[0]), int(runs.deployments[0])]

    return run


# ---- sections ------------------------------------------------------------------------------------


def against_c(function: Callable[..., None], rounds: int) -> Table:
    columns = {
        "problem": "<9",
        "S, A, H": "<11",
        "K": ">9,d",
        "algorithm": "<9",
        "library ns": ">10.2f",
        "C ns": ">6.2f",
    }
    columns |= {
        "library/C": ">9.3f",
        f"<= {MOST_OF_C}": "<7",
        "regret ns": ">9.2f",
        "regret/without": ">14.3f",
        "target": "<8",
        "is": "<4",
    }
    columns |= {"switches": ">9,d", "in C": ">9,d", "equal": "<5"}
    table = Table("against_c", "Time per step against C, one thread", columns)
    problems = (
        ("random", random_mdp(5, 3, 5), 10**6),
        ("riverswim", envs.riverswim(states=6, horizon=10), 10**6),
        ("random", random_mdp(20, 4, 10), 10**6),
        ("random", random_mdp(100, 10, 20), 10**5),
    )
    for problem, mdp, episodes in problems:
        for name in ALGORITHMS:
            table.add(**compare(function, problem, mdp, name, episodes, rounds))
    return table


def compare(
    function: Callable[..., None], problem: str, mdp: ls.TabularMDP, name: str, K: int, rounds: int
) -> dict[str, Any]:
    """One row: the library, C and the library with exact regret."""
    algorithm = ALGORITHMS[name]
    plain = library_run(mdp, algorithm, K, regret=False)
    in_c = reference_run(function, mdp, algorithm, K)
    times = interleaved(rounds, plain, in_c, library_run(mdp, algorithm, K, regret=True))
    library_ns, c_ns, regret_ns = (np.median(times, axis=1) / (K * mdp.horizon) * 1e9).tolist()
    to_c, to_without = float(np.median(times[0] / times[1])), float(np.median(times[2] / times[0]))
    judged = mdp.states <= REGRET_STATES
    counts, counts_in_c = plain(), in_c()
    return {
        "problem": problem,
        "size": f"{mdp.states}, {mdp.actions}, {mdp.horizon}",
        "episodes": K,
        "algorithm": name,
        "library_ns": library_ns,
        "c_ns": c_ns,
        "library_to_c": to_c,
        "library_verdict": verdict(to_c <= MOST_OF_C),
        "regret_ns": regret_ns,
        "regret_to_without": to_without,
        "regret_target": f"<= {MOST_WITH_REGRET[name]:g}" if judged else "none",
        "regret_verdict": verdict(to_without <= MOST_WITH_REGRET[name]) if judged else "",
        "switches": counts[0],
        "switches_in_c": counts_in_c[0],
        "equal": "yes" if counts == counts_in_c else "NO",
    }


RLBERRY = """
import sys, time
import numpy as np
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents import UCBVIAgent
tables = np.load(sys.argv[1])
speeds = []
for _ in range(3):
    problem = FiniteMDP(tables["rewards"], tables["transitions"])
    agent = UCBVIAgent(problem, horizon=10, stage_dependent=True)
    begin = time.perf_counter()
    agent.fit(100)
    speeds.append(100 * 10 / (time.perf_counter() - begin))
print("steps a second", max(speeds))
"""


def rlberry_speed(python: str, folder: str) -> float:
    """Steps a second of rlberry-scool's UCBVI, the best of three times 100 episodes on the tables
    of random_mdp(20, 4, 10).
    """
    path, (transitions, rewards) = Path(folder) / "tables.npz", random_tables(20, 4)
    np.savez(path, transitions=transitions, rewards=rewards)
    printed = subprocess.run(
        [python, "-I", "-c", RLBERRY, str(path)], check=True, capture_output=True, text=True
    ).stdout
    return float(printed.split("steps a second")[-1])


def the_field(rounds: int, rlberry: float | None) -> Table:
    """Planners against 300 times what rlberry's UCBVI does, stage-based learners against ucb2-h."""
    peer = (
        f"{rlberry:,.0f} steps/s, timed"
        if rlberry
        else f"assumed at {ASSUMED_RLBERRY:,} steps/s; time it with --rlberry"
    )
    least = TIMES_RLBERRY * (rlberry or ASSUMED_RLBERRY)
    columns = {
        "algorithm": "<36",
        "K": ">9,d",
        "ns": ">8.1f",
        "steps/s": ">12,.0f",
        "of ucb2-h": ">9.2f",
        "target": "<22",
        "verdict": "<7",
    }
    title = "The field: random MDP (20, 4, 10), one thread, without regret"
    table = Table("field", f"{title}; rlberry-scool's UCBVI {peer}", columns)
    mdp = random_mdp(20, 4, 10)
    learners = {
        name: (RECIPES[name](c=0.05), 10**5) for name in ("ucb2-h", "stage-q", "ucb-advantage")
    }
    learners |= {
        f"{name}, doubling": (RECIPES[name](c=0.001, schedule="growth/2"), 3 * 10**4)
        for name in PLANNERS
    }
    works = [library_run(mdp, algorithm, K, regret=False) for algorithm, K in learners.values()]
    medians = np.median(interleaved(rounds, *works), axis=1)
    times = [
        float(median) / (K * mdp.horizon) * 1e9
        for median, (_, K) in zip(medians, learners.values(), strict=True)
    ]
    for time_per_step, (name, (_, K)) in zip(times, learners.items(), strict=True):
        planner = "doubling" in name
        target = f">= {least:,.0f} steps/s" if planner else f"<= {MOST_OF_UCB2} x ucb2-h"
        kept = 1e9 / time_per_step >= least if planner else time_per_step <= MOST_OF_UCB2 * times[0]
        table.add(
            algorithm=name,
            episodes=K,
            ns=time_per_step,
            speed=1e9 / time_per_step,
            of_ucb2=time_per_step / times[0],
            target=target,
            verdict=verdict(kept),
        )
    return table


def flat_in_episodes(rounds: int, most: int) -> Table:
    """The verdict is that the time of a step does not grow with K: the shortest runs carry the
    fixed cost of a call.
    """
    title = (
        "Time per step against K: ucb2-h, riverswim(6), H = 10, without regret;"
        f" target: at most {MOST_GROWTH} times any shorter run's"
    )
    table = Table("episodes", title, {"K": ">11,d", "ns per step": ">11.2f", "verdict": "<7"})
    mdp, exponents = envs.riverswim(states=6, horizon=10), range(4, most + 1)
    runs = [
        library_run(mdp, ALGORITHMS["ucb2-h"], 10**exponent, regret=False) for exponent in exponents
    ]
    medians = np.median(interleaved(rounds, *runs), axis=1)
    times = [
        float(median) / (10**exponent * mdp.horizon) * 1e9
        for exponent, median in zip(exponents, medians, strict=True)
    ]
    for i, exponent in enumerate(exponents):
        flat = i == 0 or times[i] <= MOST_GROWTH * min(times[:i])
        table.add(episodes=10**exponent, ns=times[i], verdict=verdict(flat))
    return table


CHILD = """
import re, sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import speed
mdp, algorithm = speed.envs.riverswim(states=6, horizon=10), speed.ALGORITHMS["ucb2-h"]
status = lambda: Path("/proc/self/status").read_text()
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", status())[1]) / 1024
speed.ls.simulate(mdp, algorithm, episodes=10, seeds=1)
Path("/proc/self/clear_refs").write_text("5")
before = peak()
if {episodes}:
    speed.ls.simulate(mdp, algorithm, episodes={episodes}, seeds=1)
print(before, peak())
"""


def child(episodes: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """A new process that simulates ten episodes and then so many more; it prints its peak memory
    before and after these, in MB.

    The peak is Linux's VmHWM, set back after the first ten episodes: ru_maxrss cannot be set back,
    and a child takes it over from its parent.
    """
    code = CHILD.format(folder=str(Path(__file__).parent), episodes=episodes)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )


def memory(exponent: int) -> Table:
    table = Table(
        "memory",
        f"Peak memory above the imports; target: below {MOST_MEGABYTES} MB",
        {
            "K": ">11,d",
            "imports MB": ">10.1f",
            "peak MB": ">8.1f",
            "above MB": ">8.1f",
            "verdict": "<7",
        },
    )
    child(0)  # compiles the kernels: what a compiler leaves behind would hide what a run needs
    before, after = map(float, child(10**exponent).stdout.split())
    table.add(
        episodes=10**exponent,
        imports=before,
        peak=after,
        above=after - before,
        verdict=verdict(after - before < MOST_MEGABYTES),
    )
    return table


def two_threads(rounds: int) -> Table:
    K = 10**6
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    table = Table(
        "threads",
        f"Two threads: ucb2-h, riverswim(6), H = 10, 8 seeds, {cores} cores;"
        f" target: at least {LEAST_SPEED_UP} times as fast",
        {"K": ">11,d", "one s": ">7.3f", "two s": ">7.3f", "speed-up": ">8.2f", "verdict": "<7"},
    )
    mdp, algorithm = envs.riverswim(states=6, horizon=10), ALGORITHMS["ucb2-h"]
    runs = [
        lambda n=n: ls.simulate(
            mdp, algorithm, episodes=K, seeds=8, threads=n, regret=False, progress=False
        )
        for n in (1, 2)
    ]
    one, two = interleaved(rounds, *runs)
    speed_up = float(np.median(one / two))
    medians = {"one": float(np.median(one)), "two": float(np.median(two))}
    table.add(episodes=K, **medians, speed_up=speed_up, verdict=verdict(speed_up >= LEAST_SPEED_UP))
    return table


def start_up(rounds: int) -> Table:
    """Whole processes on the clock, but for the import itself."""
    columns = {"what": "<27", "seconds": ">7.3f", "target": "<7", "verdict": "<7"}
    table = Table("start_up", "Start-up, seconds", columns)

    def add(what: str, times: list[float]) -> None:
        median = statistics.median(times)
        table.add(
            what=what,
            seconds=median,
            target=f"< {MOST_SECONDS[what]:g}",
            verdict=verdict(median < MOST_SECONDS[what]),
        )

    timed_import = (
        "import time; begin = time.perf_counter(); import lowswitch;"
        "print(time.perf_counter() - begin)"
    )
    command = [sys.executable, "-c", timed_import]
    add(
        "import lowswitch",
        [
            float(subprocess.run(command, check=True, capture_output=True).stdout)
            for _ in range(rounds)
        ],
    )
    script = Path(sys.executable).with_name("lowswitch")
    helped = (
        script.exists() and subprocess.run([script, "--help"], capture_output=True).returncode == 0
    )
    if helped:
        add(
            "lowswitch --help",
            [
                seconds(lambda: subprocess.run([script, "--help"], capture_output=True))
                for _ in range(rounds)
            ],
        )
    else:
        print("lowswitch --help             skipped: there is no working command line", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        add("first simulate, cold cache", [seconds(lambda: child(0, NUMBA_CACHE_DIR=cache))])
        add(
            "first simulate, warm cache",
            [seconds(lambda: child(0, NUMBA_CACHE_DIR=cache)) for _ in range(rounds)],
        )
    return table


# ---- all of it -----------------------------------------------------------------------------------


def main() -> int:
    parser = bench.parser(__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="2 rounds instead of 7, and no run of 10^7 episodes"
    )
    parser.add_argument(
        "--rlberry",
        metavar="PYTHON",
        help="an interpreter that has rlberry-scool, whose UCBVI is timed too",
    )
    options = parser.parse_args()
    rounds, exponent = (2, 6) if options.quick else (7, 7)
    with tempfile.TemporaryDirectory() as folder:
        function = compile_reference(folder)
        speeds = against_c(function, rounds)
        rlberry = rlberry_speed(options.rlberry, folder) if options.rlberry else None
    tables = [
        speeds,
        the_field(rounds, rlberry),
        flat_in_episodes(rounds, exponent),
        memory(exponent),
        two_threads(rounds),
        start_up(rounds),
    ]
    found = {"run": bench.described(f"medians of {rounds} rounds"), "rlberry": rlberry}
    bench.write(options.json, found | {table.name: table.rows for table in tables})
    if any(row["equal"] == "NO" for row in speeds.rows):
        print(
            "\nthe library and C disagree on switches or deployments: one of them is wrong",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
