"""Kills workers and drivers in the middle of runs; every result must equal the undisturbed one.

In each trial, a driver in a process of its own has worker processes (or Ray actors) and writes a
checkpoint after every round. A few times, at random moments drawn from the trial's seed, a worker
is killed or stopped, or the driver is killed with -9. A killed driver is started again and goes on
from its checkpoint. A kill counts only if the victim was alive and the run not yet saved.

With --nodes, whole nodes of a Ray cluster are killed instead, and others take their place.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, get_args

import gymnasium

import lowswitch as ls
from lowswitch.concurrent import ConcurrentRun, Gymnasium, Processes, Ray, load
from lowswitch.concurrent.fleets import Fleet
from lowswitch.concurrent.runner import RoundRule

HORIZON, EPISODES, MACHINES, PATIENCE = 8, 500, 24, 2.0
RULES: tuple[RoundRule, ...] = get_args(RoundRule)
# What the command line of a worker contains.
WORKERS = {"processes": "multiprocessing.spawn", "ray": "ray::PiecePlayer"}
DEADLINE = 300.0  # seconds for a trial


class Ring(gymnasium.Env[Any, Any]):
    """Six states, two actions, a fifth of a millisecond a step."""

    observation_space, action_space = gymnasium.spaces.Discrete(6), gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(6))
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        time.sleep(0.0002)
        self.state = (self.state + (2 * action - 1) * int(self.np_random.random() < 0.8)) % 6
        return self.state, float(self.state == 3), False, False, {}


def drive(folder: Path, seed: int, kind: str) -> None:
    """Run to the end, from the checkpoint if there is one."""
    fleets: dict[str, Fleet] = {
        "processes": Processes(workers=2, patience=PATIENCE),
        "ray": Ray("local", workers=2, patience=PATIENCE),
    }
    rule = RULES[seed % 3]
    run = ls.concurrent.run(
        Gymnasium(Ring, horizon=HORIZON),
        ls.ucb2_hoeffding(c=0.05, eta=0.3, r_star=1),
        EPISODES,
        machines=MACHINES,
        rule=rule,
        seed=seed,
        fleet=fleets.get(kind),
        checkpoint=folder / "checkpoint.npz",
        save_every=0,
    )
    run.save(folder / "run.npz")


def start(folder: Path, seed: int, kind: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, __file__, "--drive", str(folder), "--seeds", str(seed), "--fleet", kind]
    )


def descendants(pid: int) -> list[int]:
    """All processes below a process (Linux)."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
        except OSError:
            continue
    return found


def workers(pid: int, kind: str) -> list[int]:
    def command(process: int) -> str:
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes()
            return words.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""

    def leads(process: int) -> bool:
        """Whether it is a worker, and not the process that watches the driver for it."""
        try:
            return kind == "ray" or os.getpgid(process) == process
        except ProcessLookupError:
            return False

    found = [process for process in descendants(pid) if WORKERS[kind] in command(process)]
    return [process for process in found if leads(process)]


def trial(seed: int, kills: int, kind: str) -> tuple[ConcurrentRun, list[str]]:
    """A run that is disturbed so many times, and what was done to it."""
    moments, done = random.Random(seed), list[str]()
    deadline = time.monotonic() + DEADLINE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = start(folder, seed, kind)
        family: set[int] = set()
        while driver.poll() is None or driver.returncode < 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"seed {seed}: not done after {DEADLINE:g} s and {done}")
            if driver.returncode is not None:
                driver = start(folder, seed, kind)
            before = progress(folder)
            pause = time.monotonic() + moments.uniform(0.0, 1.0)
            while (
                driver.poll() is None
                and (time.monotonic() < pause or progress(folder) == before)
                and not (folder / "run.npz").exists()
            ):
                time.sleep(0.005)
            family |= set(descendants(driver.pid))
            if len(done) < kills and driver.poll() is None:
                done += disturb(driver, folder, moments, kind)
        if driver.returncode:
            raise RuntimeError(
                f"seed {seed}: the driver failed with exit code {driver.returncode} after {done}"
            )
        run = load(folder / "run.npz")
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            # A worker that was stopped when its driver was killed cannot even end.
            os.kill(pid, signal.SIGCONT)
    left = [pid for pid in family if alive(pid, time.monotonic() + 90)]
    if left:
        raise RuntimeError(f"seed {seed}: processes {left} are left behind")
    return run, done


def progress(folder: Path) -> float:
    """When the checkpoint was written: it changes, so every kill falls into a run under way."""
    try:
        return (folder / "checkpoint.npz").stat().st_mtime
    except FileNotFoundError:
        return 0.0


def disturb(
    driver: subprocess.Popen[bytes], folder: Path, moments: random.Random, kind: str
) -> list[str]:
    """Kill the driver or a worker, or stop a worker so that it hangs.

    Nothing happens if nobody is there or the run is saved.
    """
    how, saved = moments.choice(["driver", "worker", "hang"]), folder / "run.npz"
    victims = workers(driver.pid, kind)
    if saved.exists():
        return []
    if how == "driver":
        driver.kill()
        # It may have ended or saved its run just before.
        return [how] if driver.wait() == -signal.SIGKILL and not saved.exists() else []
    if not victims:
        return []
    try:
        os.kill(moments.choice(victims), signal.SIGKILL if how == "worker" else signal.SIGSTOP)
    except ProcessLookupError:
        return []
    return [how]


def alive(pid: int, deadline: float) -> bool:
    """Whether a process is still there at the deadline."""
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def same(one: ConcurrentRun, other: ConcurrentRun) -> bool:
    histories = [run.history[0].changes.tobytes() for run in (one, other) if run.history]
    arrays = all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes()
        for name in ("plays", "rounds_at", "played_at", "policy", "triggers")
    )
    counts = all(
        getattr(one, name) == getattr(other, name)
        for name in ("rounds", "played", "episodes", "earned")
    )
    return histories[0] == histories[1] and arrays and counts


# ---- nodes of a cluster --------------------------------------------------------------------------

NODE_EPISODES, NODE_PATIENCE = 20_000, 20.0
HEALTH = {  # a node that does not answer for three seconds is lost
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 3,
}


def task(seed: int) -> dict[str, Any]:
    """A run of some tens of seconds on two workers."""
    return {
        "source": Gymnasium(Ring, horizon=HORIZON),
        "algorithm": ls.ucb2_hoeffding(c=0.05, eta=0.3, r_star=1),
        "episodes": NODE_EPISODES,
        "machines": MACHINES,
        "rule": RULES[seed % 3],
        "seed": seed,
        "progress": False,
    }


def kill_nodes(kills: int, seed: int) -> int:
    """Kill nodes of a cluster, some seconds apart, until there were so many."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes, moments, done = [cluster.add_node(num_cpus=1) for _ in range(2)], random.Random(seed), 0
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    with ThreadPoolExecutor(1) as thread:
        while done < kills:
            expected = ls.concurrent.run(**task(seed))
            fleet, killed = Ray(workers=2, patience=NODE_PATIENCE), 0
            run = thread.submit(ls.concurrent.run, **task(seed), fleet=fleet)
            while not run.done() and done + killed < kills:
                wait([run], timeout=moments.uniform(10, 15))
                if not run.done():
                    victim = nodes.pop(moments.randrange(len(nodes)))
                    cluster.remove_node(victim, allow_graceful=False)
                    nodes.append(cluster.add_node(num_cpus=1))
                    killed += 1
            if not same(run.result(), expected):
                print(f"seed {seed}: after {killed} nodes the result differs", file=sys.stderr)
                return 1
            done, lost, seed = done + killed, run.result().lost, seed + 1
            print(f"{killed} nodes killed, {lost} workers lost, equal  ({done} of {kills})")
    ray.shutdown()
    cluster.shutdown()
    print(f"{done} kills of nodes; all results equal")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="in all (default 100)")
    parser.add_argument("--each", type=int, default=4, help="kills in one run (default 4)")
    parser.add_argument(
        "--seeds", type=int, default=0, help="the first seed; a trial has the next one (default 0)"
    )
    parser.add_argument("--fleet", choices=("processes", "ray"), default="processes")
    parser.add_argument("--nodes", type=int, metavar="N", help="kill N nodes of a Ray cluster")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.drive, options.seeds, options.fleet)
        return 0
    if options.nodes:
        return kill_nodes(options.nodes, options.seeds)
    kills, seed, counts = 0, options.seeds, dict.fromkeys(("driver", "worker", "hang"), 0)
    while kills < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            drive(Path(folder), seed, "here")
            expected = load(Path(folder) / "run.npz")
        run, done = trial(seed, min(options.each, options.kills - kills), options.fleet)
        if not same(run, expected):
            print(
                f"seed {seed}: after {done} the result differs from the undisturbed run",
                file=sys.stderr,
            )
            return 1
        kills += len(done)
        for how in done:
            counts[how] += 1
        what = (
            f"{options.fleet}  seed {seed:3}  {run.rule:9}  {', '.join(done) or 'undisturbed':40}"
        )
        print(f"{what}  equal, {run.lost} lost  ({kills} of {options.kills})", flush=True)
        seed += 1
    runs = f"{seed - options.seeds} runs with {options.fleet}, seeds {options.seeds} to {seed - 1}"
    print(f"{kills} kills in {runs}: {counts}; all results equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
