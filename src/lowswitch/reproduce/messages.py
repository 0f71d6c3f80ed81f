"""How many bytes go to and from the workers in a round, measured with real worker processes."""

from __future__ import annotations

from typing import NamedTuple

from lowswitch import concurrent, envs
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.machines import same_path
from lowswitch.reproduce.section import Check, Table

WORKERS = 2
EPISODES = 1000
MOST_RECEIVED = 1.25  # over the data alone


class MessageSizes(NamedTuple):
    """What one run sent to its workers and received from them."""

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
        """The bytes that the states (int32) and the rewards (float64) of a round need."""
        return 12 * self.horizon * self.played / self.rounds

    def check(self) -> Check:
        """The rule that the answers of the workers hold little but the data."""
        return Check.at_most(
            f"worker processes answer with at most {MOST_RECEIVED} times the bytes of the states"
            " and rewards alone",
            self.bytes_received / self.rounds / self.data,
            MOST_RECEIVED,
            "{:.2f} x",
        )

    def table(self) -> Table:
        """The bytes of a round, and what they are needed for."""
        sizes = {
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
        rows = [{"": name, "bytes a round": f"{size:,.0f}"} for name, size in sizes.items()]
        return Table.of(title, rows)


def measure_messages(
    lab: Lab, problem: str, algorithm: Algorithm, *, machines: int
) -> MessageSizes:
    """Play the first episodes with worker processes; the bytes of their start count as well."""
    mdp = envs.make(problem)
    sequential = lab.runs(problem, algorithm, episodes=EPISODES, seeds=1, history=True)

    def compute() -> MessageSizes:
        fleet = concurrent.Processes(workers=WORKERS)
        run = concurrent.run(
            mdp, algorithm, EPISODES, machines=machines, rule="switch", fleet=fleet, progress=False
        )
        return MessageSizes(
            problem=problem,
            horizon=mdp.horizon,
            states=mdp.states,
            machines=machines,
            rounds=run.rounds,
            played=run.played,
            local_switches=int(run.local_switches[0]),
            bytes_sent=run.bytes_sent,
            bytes_received=run.bytes_received,
            same=same_path(run, sequential, 0),
        )

    configuration = [problem, algorithm.facts(), EPISODES, machines, WORKERS]
    return lab.measure("messages", configuration, compute, MessageSizes)
