"""What rounds cost on the wire: a run with real worker processes, and what they sent and
received.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowswitch import concurrent, envs
from lowswitch.algorithms.parts import Algorithm
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import same_path
from lowswitch.reproduce.section import Check, Table

WORKERS = 2
EPISODES = 1000
MOST_RECEIVED = 1.25  # over the data alone


_COUNTS = ("rounds", "played", "bytes_sent", "bytes_received")


class Traffic(NamedTuple):
    problem: str
    horizon: int
    states: int
    machines: int
    rounds: int
    played: int  # episodes
    local_switches: int
    bytes_sent: int
    bytes_received: int
    same: bool  # path as the sequential run

    @property
    def data(self) -> float:
        """Bytes a round of states (int32) and rewards (float64), nothing else."""
        return 12 * self.horizon * self.played / self.rounds

    def check(self) -> Check:
        more = self.bytes_received / self.rounds / self.data
        rule = (
            f"worker processes answer with at most {MOST_RECEIVED} times the bytes of the states"
            " and rewards alone"
        )
        return Check(rule, f"{more:.2f} x", more <= MOST_RECEIVED)

    def table(self) -> Table:
        rows = {
            "sent, all together": self.bytes_sent / self.rounds,
            "of it row changes of the policy, to every worker": (
                24 * WORKERS * self.local_switches / self.rounds
            ),
            "of it numbers of the episodes to play": 8 * self.played / self.rounds,
            "for comparison: the whole policy, to every worker": (
                8 * WORKERS * self.horizon * self.states
            ),
            "received, all together": self.bytes_received / self.rounds,
            "of it states and rewards": self.data,
        }
        title = (
            f"Bytes a round of {WORKERS} worker processes for {self.machines} machines,"
            f' {self.problem}, "switch", the first {self.rounds:,} rounds'
        )
        return Table(
            title, ("", "bytes a round"), [[name, f"{size:,.0f}"] for name, size in rows.items()]
        )


def measure_traffic(lab: Lab, problem: str, algorithm: Algorithm, *, machines: int) -> Traffic:
    """Play the first episodes with processes; start-up included."""
    mdp = envs.make(problem)
    sequential = lab.runs(problem, algorithm, episodes=EPISODES, seeds=1, history=True)

    def compute() -> dict[str, np.ndarray]:
        fleet = concurrent.Processes(workers=WORKERS)
        run = concurrent.run(
            mdp, algorithm, EPISODES, machines=machines, rule="switch", fleet=fleet, progress=False
        )
        counts = {name: np.array(getattr(run, name)) for name in _COUNTS}
        return counts | {
            "local_switches": run.local_switches[0],
            "same": np.array(same_path(run, sequential, 0)),
        }

    found = lab.arrays(
        "traffic", [problem, algorithm.to_dict(), EPISODES, machines, WORKERS], compute
    )
    return Traffic(
        problem=problem,
        horizon=mdp.horizon,
        states=mdp.states,
        machines=machines,
        same=bool(found["same"]),
        **{name: int(found[name]) for name in (*_COUNTS, "local_switches")},
    )
