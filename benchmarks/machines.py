"""What many machines gain in real time, and what they cost the driver.

A speed-up compares the wall times of the same run with few and with many workers, measured in turn,
on an environment whose step sleeps 1 ms. The overhead is the driver's time for an episode of 10
steps that takes no time to play, in batches of 1,000.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import gymnasium
import numpy as np
import ray

import bench
import lowswitch as ls
from lowswitch.concurrent import Gymnasium, InProcess, Processes, Ray, System
from lowswitch.concurrent.fleets import Fleet
from lowswitch.concurrent.runner import RoundRule
from lowswitch.show.tables import aligned as table

STEP_SECONDS, HORIZON = 0.001, 10
ALGORITHM = ls.q_hoeffding(c=0.05, schedule="grid/equal/4")  # three deployments: a few whole rounds
TARGETS = {"2 processes": 1.85, "16 processes": 12.0, "Ray, 4 workers": 3.5, "overhead": 5.0}


class Slow(gymnasium.Env[Any, Any]):
    """A ring of five states whose every step takes a millisecond."""

    observation_space, action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        time.sleep(STEP_SECONDS)
        moved = self.np_random.random() < 0.7
        self.state = (self.state + (1 if action else -1) * moved) % 5
        return self.state, float(self.state == 2), False, False, {}


@dataclass(frozen=True)
class Awake:
    """A fleet that opens only when all its workers are up, so that their start is not measured."""

    fleet: Processes | Ray

    def open(self, source: Any, seed: int, policy: np.ndarray) -> Any:
        opened = self.fleet.open(source, seed, policy)
        while not all(worker.up for worker in opened.workers):
            opened.play(np.zeros((0, 3), dtype=np.int64), np.arange(4))
        return opened


def at_once(policy: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A system that answers without delay."""
    states = (episodes[:, None] * 7 + np.arange(HORIZON)) % 5
    return states, policy[np.arange(HORIZON), states], (states == 2).astype(float)


def seconds(fleet: Fleet, episodes: int, machines: int) -> tuple[float, int]:
    """The wall time of a run on the slow environment, without the start of the workers, and the
    number of episodes that were played.
    """
    source = Gymnasium(Slow, horizon=HORIZON)
    run = ls.concurrent.run(source, ALGORITHM, episodes, machines=machines, fleet=fleet)
    return run.seconds - run.parts["start"], run.played


def speed_ups(rounds: int) -> list[dict[str, Any]]:
    """Each fleet against one worker of its kind, and against this process alone."""
    rows: list[dict[str, Any]] = []
    for name, one, many, workers in (
        ("2 processes", Processes(workers=1), Processes(workers=2), 2),
        ("16 processes", Processes(workers=1), Processes(workers=16), 16),
        ("Ray, 4 workers", Ray(workers=1), Ray(workers=4), 4),
    ):
        ratios, here = [], []
        for _ in range(rounds):
            alone, _ = seconds(InProcess(), 480, 160)
            few, _ = seconds(Awake(one), 480, 160)
            less, played = seconds(Awake(many), 480, 160)
            ratios.append(few / less)
            here.append(alone / less)
        row = {
            "fleet": name,
            "against one worker": f"{np.median(ratios):.2f}",
            "against this process": f"{np.median(here):.2f}",
            "linear": f"{workers}",
            "target": f"{TARGETS[name]:g}",
            "episodes played": f"{played:,}",
        }
        show(rows, row)
    return rows


def overhead(rounds: int) -> list[dict[str, Any]]:
    """The driver's own time for an episode, and the wall time, where playing takes no time."""
    rows: list[dict[str, Any]] = []
    source = System(at_once, horizon=HORIZON, states=5, actions=2)
    for name, fleet in (("2 processes", Processes(workers=2)), ("in process", InProcess())):
        busy, wall, learning = [], [], []
        for _ in range(rounds):
            begin = time.process_time()
            run = ls.concurrent.run(source, ALGORITHM, 200_000, machines=1000, fleet=fleet)
            busy.append((time.process_time() - begin) / run.played * 1e6)
            wall.append((run.seconds - run.parts["start"]) / run.played * 1e6)
            learning.append(run.parts["learn"] / run.played * 1e6)
        row = {
            "fleet": name,
            "driver's CPU, us an episode": f"{np.median(busy):.2f}",
            "wall, us an episode": f"{np.median(wall):.2f}",
            "of it learning": f"{np.median(learning):.2f}",
            "target": f"{TARGETS['overhead']:g}" if name == "2 processes" else "",
        }
        show(rows, row)
    return rows


def rules(episodes: int) -> list[dict[str, Any]]:
    """Episodes kept in a round by each of the three rules, with M = 100 and c = 0.05."""
    rows: list[dict[str, Any]] = []
    for env in (
        "riverswim:states=6,horizon=10",
        "random-mdp:states=5,actions=3,horizon=5",
        "random-mdp:states=20,actions=4,horizon=10",
    ):
        for algorithm in (ls.ucb2_hoeffding(c=0.05), ls.ucb2_bernstein(c=0.05)):
            mdp = ls.envs.make(env)
            runs = {
                rule: ls.concurrent.run(mdp, algorithm, episodes, machines=100, rule=rule)
                for rule in get_args(RoundRule)
            }
            row = {"problem": env, "algorithm": str(algorithm)} | {
                rule: f"{run.speed_up:.1f}" for rule, run in runs.items()
            }
            for rule, least in (("switch", 1.25), ("speculate", 1.4)):
                row[f"{rule} / trigger (at least {least})"] = (
                    f"{runs[rule].speed_up / runs['trigger'].speed_up:.2f}"
                )
            show(rows, row)
    return rows


def show(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    """Print a row as soon as it is known, the header before the first."""
    rows.append(row)
    lines = table(list(row), [list(row.values())]).splitlines()
    print("\n".join(lines if len(rows) == 1 else lines[2:]), flush=True)


def main() -> int:
    parser = bench.parser(__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="each thing once, and 10^5 episodes for the rules"
    )
    options = parser.parse_args()
    rounds = 1 if options.quick else 3
    # The workers only sleep, so there may be more of them than cores.
    quiet = {"include_dashboard": False, "logging_level": logging.ERROR, "log_to_driver": False}
    ray.init(num_cpus=4, **quiet)
    tables = {}
    measures: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "speed-up on an environment whose step takes 1 ms": lambda: speed_ups(rounds),
        "overhead": lambda: overhead(rounds),
        "episodes a round, M = 100": lambda: rules(10**5 if options.quick else 10**6),
    }
    for title, measure in measures.items():
        print(f"\n{title}", flush=True)
        tables[title] = measure()
    named = dict(zip(("speed_ups", "overhead", "rules"), tables.values(), strict=True))
    bench.write(options.json, {"run": bench.described(f"medians of {rounds}")} | named)
    return 0


if __name__ == "__main__":
    sys.exit(main())
