"""Whether a GPU plays what the CPU plays, and how fast it is.

    python benchmarks/gpu.py [--quick] [--json FILE]
    python benchmarks/gpu.py --profile [--json FILE]

Equality: every problem and learner below with 2,048 seeds, on the GPU and on the CPU of the same
machine, must agree to the bit: regret curves, switches, deployments, triggers, policies and the
share of drowned visits. Speed: steps a second of as many runs as the GPU plays at once, without and
with exact regret, and of all threads of the CPU beside it. The exit code is 1 if anything differs
or a speed is below its target, and 2 if there is no GPU.

With --profile, Nsight Compute (ncu) measures instead what the kernel that plays waits for, and adds
it to what is in the file.

The published numbers are those of --json docs/numbers/gpu.json; `python docs/publish.py` puts them
on the pages.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import bench
import lowswitch as ls
from lowswitch import envs
from lowswitch.gpu import driver
from lowswitch.gpu.encode import kind_of
from lowswitch.gpu.layout import lay_out
from lowswitch.runs.jobs import Options
from lowswitch.runs.simulate import job_of
from lowswitch.show.progress import cores

LEARNERS = {
    "ucb2-h": ls.ucb2_hoeffding(c=0.05),
    "ucb2-b": ls.ucb2_bernstein(c=0.05),
    "ucb-h": ls.ucb_hoeffding(c=0.05),
    "ucb-b": ls.ucb_bernstein(c=0.05),
}
TARGETS = {  # G steps a second at K = 10^6: learner, with regret
    "RiverSwim (6, 2, 10)": {("ucb2-h", False): 90, ("ucb2-b", False): 40, ("ucb2-h", True): 60},
    "random (5, 3, 5)": {("ucb2-h", False): 150, ("ucb2-b", False): 80, ("ucb2-h", True): 140},
    "random (20, 4, 10)": {("ucb2-h", False): 30, ("ucb2-b", False): 12, ("ucb2-h", True): 6},
    "random (100, 10, 20)": {("ucb2-h", False): 15},
}
FIRST_RESULT = """
import time; begin = time.perf_counter()
import lowswitch as ls
mdp = ls.envs.riverswim(states=6, horizon=10)
ls.simulate(mdp, ls.ucb2_hoeffding(c=0.05), episodes=1000, seeds=64, device="gpu")
print(time.perf_counter() - begin)
"""
MOST_SECONDS = {"cold": 15.0, "warm": 5.0}


def random_mdp(states: int, actions: int, horizon: int) -> ls.TabularMDP:
    generator = np.random.default_rng(0)
    transitions = generator.dirichlet(np.ones(states), size=(states, actions))
    return ls.TabularMDP(transitions, generator.random((states, actions)), horizon=horizon)


PROBLEMS = {
    "RiverSwim (6, 2, 10)": envs.riverswim(states=6, horizon=10),
    "random (5, 3, 5)": random_mdp(5, 3, 5),
    "random (20, 4, 10)": random_mdp(20, 4, 10),
    "random (100, 10, 20)": random_mdp(100, 10, 20),
}


# ---- problems and learners of every other kind, for equality only --------------------------------

WATCHED = {
    "doubling": ls.q_hoeffding(c=0.05),
    "whole policy": ls.q_bernstein(c=0.05, schedule="whole/1.5"),
    "grid": ls.q_hoeffding(c=0.05, schedule="grid/geometric/12"),
    "deployments": ls.q_hoeffding(c=0.05, schedule="every", deployments=9),
    "switches": ls.q_bernstein(c=0.05, schedule="whole/1.2", switches=40),
}


def kinds() -> dict[str, ls.TabularMDP]:
    """Tables by step, drawn starts, sparse tables, Bernoulli rewards, masks, start sequences."""
    generator = np.random.default_rng(1)
    by_step = generator.dirichlet(np.ones(7), (6, 7, 3)), generator.random((6, 7, 3))
    chain = np.zeros((40, 2, 40))
    for x in range(40):
        chain[x, 0, max(x - 1, 0)] = 1
        chain[x, 1, x] += 0.3
        chain[x, 1, min(x + 1, 39)] += 0.7
    rewards = np.zeros((40, 2))
    rewards[39, 1], rewards[0, 0] = 0.9, 0.1
    allowed = generator.random((4, 9, 5)) < 0.6
    allowed[..., 1] = True
    dense = generator.dirichlet(np.ones(9), (9, 5)), generator.random((9, 5))
    starts = generator.integers(0, 9, 2000)
    return {
        "by step, drawn starts": ls.TabularMDP(*by_step, horizon=6, start=np.full(7, 1 / 7)),
        "sparse, Bernoulli": ls.TabularMDP(chain, rewards, horizon=50, reward_law="bernoulli"),
        "mask, sequence": ls.TabularMDP(*dense, horizon=4, start=starts, actions_allowed=allowed),
    }


# ---- equality ------------------------------------------------------------------------------------


def differences(one: ls.Runs, other: ls.Runs) -> list[str]:
    """The names of the results that are not equal to the bit."""
    names = ("regret", "local_switches", "deployments", "triggers", "policy", "drowned_share")
    different = [n for n in names if getattr(one, n).tobytes() != getattr(other, n).tobytes()]
    curves = zip(one.curves._fields, one.curves, other.curves, strict=True)
    return different + [f"curves.{n}" for n, a, b in curves if a.tobytes() != b.tobytes()]


def equality(seeds: int) -> list[dict[str, Any]]:
    rows = []
    others = kinds()
    for problem, mdp in (PROBLEMS | others).items():
        for name, algorithm in (LEARNERS | (WATCHED if problem in others else {})).items():
            large = mdp.states > 50
            episodes = 60 if large else 2000
            options = {"episodes": episodes, "seeds": seeds, "progress": False}
            on_gpu = ls.simulate(mdp, algorithm, device="gpu", **options)
            on_cpu = ls.simulate(mdp, algorithm, **options)
            different = differences(on_cpu, on_gpu)
            rows.append(
                {
                    "problem": problem,
                    "learner": name,
                    "seeds": seeds,
                    "episodes": episodes,
                    "steps": seeds * episodes * mdp.horizon,
                    "different": different,
                }
            )
            print(f"{problem:22} {name:8} {seeds:,} seeds  {different or 'equal'}", flush=True)
    return rows


def equal_sweep(episodes: int) -> dict[str, Any]:
    """384 settings x 64 seeds on the CPU and on the GPU."""
    settings = [
        ls.ucb2_hoeffding(c=float(c), eta=float(eta))
        for c in np.geomspace(0.001, 1, 24)
        for eta in np.geomspace(0.002, 0.9, 16)
    ]
    mdp = PROBLEMS["RiverSwim (6, 2, 10)"]
    options: dict[str, Any] = {"episodes": episodes, "seeds": 64, "progress": False}
    pairs = zip(
        ls.sweep(mdp, settings, **options),
        ls.sweep(mdp, settings, device="gpu", **options),
        strict=True,
    )
    different = sum(bool(differences(one, other)) for one, other in pairs)
    print(f"sweep of {len(settings)} settings x 64 seeds: {different} differ", flush=True)
    return {"settings": len(settings), "seeds": 64, "episodes": episodes, "different": different}


# ---- speed ---------------------------------------------------------------------------------------


def full_gpu(gpu: driver.DeviceFacts, mdp: ls.TabularMDP, algorithm: ls.Algorithm, K: int) -> int:
    """How many runs a GPU plays side by side."""
    job = job_of(mdp, algorithm, K, [0], Options(regret=False))
    kind = kind_of(mdp, algorithm, job.knowledge)
    sizes = {"regret": False, "history": False, "curve_points": 200}
    many = lay_out(kind, [mdp.model], gpu, np.array([10**8]), **sizes)
    return many.runs * gpu.multiprocessors


def speed(gpu: driver.DeviceFacts, K: int) -> list[dict[str, Any]]:
    rows = []
    for problem, mdp in PROBLEMS.items():
        for name in ("ucb2-h", "ucb2-b", "ucb-h"):
            for regret in (False, True):
                large = mdp.states > 50
                if regret and name != "ucb2-h":
                    continue
                episodes = K // 1000 if large and regret else K
                rows.append(measure(gpu, problem, mdp, name, episodes, regret))
    return rows


def measure(
    gpu: driver.DeviceFacts, problem: str, mdp: ls.TabularMDP, name: str, K: int, regret: bool
) -> dict[str, Any]:
    algorithm = LEARNERS[name]
    seeds = full_gpu(gpu, mdp, algorithm, K)
    options: dict[str, Any] = {"regret": regret, "progress": False}
    ls.simulate(mdp, algorithm, episodes=50, seeds=seeds, device="gpu", **options)  # compiles
    begin = time.perf_counter()
    runs = ls.simulate(mdp, algorithm, episodes=K, seeds=seeds, device="gpu", **options)
    whole = time.perf_counter() - begin
    on_cpu = ls.simulate(mdp, algorithm, episodes=K, seeds=cores(), **options)
    target = TARGETS[problem].get((name, regret))
    row = {
        "problem": problem,
        "learner": name,
        "regret": regret,
        "episodes": K,
        "runs": seeds,
        "gpu": runs.steps_per_second,
        "whole_call": K * mdp.horizon * seeds / whole,
        "cpu": on_cpu.steps_per_second,
        "target": target and target * 1e9,
    }
    verdict = "" if target is None else "PASS" if row["gpu"] >= target * 1e9 else "MISS"
    print(
        f"{problem:22} {name:8} {'regret' if regret else '':7} K = {K:>9,}  {seeds:>7,} runs  "
        f"{row['gpu'] / 1e9:7.1f} G steps/s  whole call {row['whole_call'] / 1e9:7.1f}  "
        f"CPU {row['cpu'] / 1e9:6.3f}  {target or '':>4} {verdict}",
        flush=True,
    )
    return row


def first_results() -> dict[str, float]:
    """Seconds from the import to the first result, in new processes with an empty cache and not."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"NUMBA_CACHE_DIR": f"{folder}/numba", "LOWSWITCH_CACHE_DIR": f"{folder}/gpu"}
        found = {}
        for name, most in MOST_SECONDS.items():
            printed = subprocess.run(
                [sys.executable, "-c", FIRST_RESULT],
                env=os.environ | places,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            found[name] = float(printed)
            verdict = "PASS" if found[name] <= most else "MISS"
            print(f"first result, {name}: {found[name]:.1f} s, at most {most:g}  {verdict}")
    return found


# ---- what limits it ------------------------------------------------------------------------------

METRICS = {
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "second-level cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "warps": "sm__warps_active.avg.per_cycle_active",
    "registers": "launch__registers_per_thread",
    "cycles of an instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "of them waiting for memory": (
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    ),
    "of them waiting for shared memory": (
        "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"
    ),
}
PROFILED = "--play-for-profile"


def profile() -> dict[str, dict[str, float]]:
    """What ncu says of one launch of the kernel that plays UCB2-H, for each problem."""
    found = {}
    for problem in PROBLEMS:
        command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "-k", "regex:play"]
        command += ["-s", "1", "-c", "1", "--metrics", ",".join(METRICS.values())]
        command += [sys.executable, __file__, PROFILED, problem]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines = [line for line in printed.splitlines() if line.startswith('"')]
        names, _, values = csv.reader(lines)
        row = dict(zip(names, values, strict=True))
        found[problem] = {name: float(row[metric]) for name, metric in METRICS.items()}
        print(problem, found[problem], flush=True)
    return found


def play_for_profile(gpu: driver.DeviceFacts, problem: str) -> None:
    mdp, algorithm, K = PROBLEMS[problem], LEARNERS["ucb2-h"], 10**5
    seeds = full_gpu(gpu, mdp, algorithm, K)
    options: dict[str, Any] = {"regret": False, "progress": False}
    ls.simulate(mdp, algorithm, episodes=K, seeds=seeds, device="gpu", **options)


def main() -> int:
    parser = bench.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds and episodes")
    parser.add_argument("--profile", action="store_true", help="measure what limits it")
    parser.add_argument(PROFILED, metavar="PROBLEM", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        with driver.Gpu() as gpu:
            facts = gpu.facts
    except driver.GpuError as error:
        print(error, file=sys.stderr)
        return 2
    print(facts, flush=True)
    if options.play_for_profile:
        play_for_profile(facts, options.play_for_profile)
        return 0
    if options.profile:
        bench.write(options.json, bench.read(options.json) | {"profile": profile()})
        return 0
    firsts = first_results()
    equal = equality(256 if options.quick else 2048)
    swept = equal_sweep(200 if options.quick else 2000)
    speeds = speed(facts, 10**5 if options.quick else 10**6)
    result = {
        "run": bench.described(f"one {facts.name} ({facts.multiprocessors} multiprocessors)"),
        "first_result": firsts,
        "equality": equal,
        "sweep": swept,
        "speed": speeds,
    }
    bench.write(options.json, result)
    missed = [row for row in speeds if row["target"] and row["gpu"] < row["target"]]
    slow = [name for name, most in MOST_SECONDS.items() if firsts[name] > most]
    differ = swept["different"] or any(row["different"] for row in equal)
    return int(bool(missed or slow or differ))


if __name__ == "__main__":
    sys.exit(main())
