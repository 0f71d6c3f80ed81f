"""What a run on many machines comes to: the result of `simulate` for its seed, and what the rounds
were like.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowswitch import storage
from lowswitch.checks import require_eps
from lowswitch.machines.mistakes import mistakes, suboptimal_actions
from lowswitch.problems.mdp import TabularMDP
from lowswitch.regret import deployment_gaps
from lowswitch.simulate import Runs, fields_of_runs


@dataclass(frozen=True, eq=False, kw_only=True)
class ConcurrentRun(Runs):
    """One seed, played by M machines in rounds; `episodes` are those that were kept.

    Regret and the optimal value are NaN where the source has no tables.
    """

    machines: int
    rule: str
    planned: int  # episodes that were asked for
    stopped: str  # what ended the run: episodes, policy, mixture, rounds or seconds
    rounds: int
    played: int  # episodes, those thrown away included
    earned: float  # rewards of the episodes kept, in the source's units
    lost: int  # workers that died or hung and were replaced
    bytes_sent: int  # to the workers
    bytes_received: int
    parts: dict[str, float]  # seconds of wall time: start, play, learn, save
    plays: np.ndarray  # [H, S, A]  how often each action was played by a machine
    rounds_at: np.ndarray  # [deployments]  rounds played when the policy changed
    played_at: np.ndarray  # [deployments]  episodes played when the policy changed
    rounds_curve: np.ndarray  # [C]  rounds, at the curves' episodes
    earned_curve: np.ndarray  # [C]  rewards, likewise

    def __repr__(self) -> str:
        machines = (
            f"{self.machines:,} machine{'s' * (self.machines > 1)}, rule {self.rule!r}, seed"
            f" {self.seeds[0]}"
        )
        kept = f"{self.kept:,} episodes kept of {self.played:,} played in {self.rounds:,} rounds"
        return f"ConcurrentRun({self.algorithm}, {self._size}, {machines}, {kept}, {self._means})"

    @property
    def kept(self) -> int:
        """Episodes that were learned from: those of the sequential run."""
        return self.episodes

    @property
    def thrown_away(self) -> int:
        """Episodes that were played in vain."""
        return self.played - self.episodes

    @property
    def speed_up(self) -> float:
        """Episodes kept a round: the time of the sequential run over that of the rounds, where
        playing is all that takes time.
        """
        return self.episodes / max(1, self.rounds)

    @property
    def played_under(self) -> np.ndarray:  # [deployments + 1]
        """Episodes that machines played under the first policy and under the one after each
        deployment.
        """
        return np.diff(np.concatenate(([0], self.played_at, [self.played])))

    def rounds_to(self, mdp: TabularMDP, eps: float) -> int | None:
        """Rounds before the first policy within eps of the optimum was deployed; None if none
        was.
        """
        require_eps(eps)
        good = np.flatnonzero(self._gaps(mdp) <= eps)
        return int(np.append(0, self.rounds_at)[good[0]]) if len(good) else None

    def mistakes(self, mdp: TabularMDP, eps: float) -> int:
        """Actions of all machines in episodes whose policy is more than eps below the optimum: Bai
        et al. 2019, appendix.
        """
        return mistakes(mdp, self._history, self.initial, self.played_under, eps)

    def suboptimal_actions(self, mdp: TabularMDP, eps: float) -> int:
        """Actions of all machines that alone lose more than eps, V*_h(x) - Q*_h(x, a) > eps."""
        return suboptimal_actions(mdp, self.plays, eps)

    def _gaps(self, mdp: TabularMDP) -> np.ndarray:  # [deployments + 1]
        return deployment_gaps(mdp, self._history, initial=self.initial)

    @property
    def _history(self) -> Any:
        return self.history[0] if self.history else None

    def summary(self) -> None:
        """Print what was played, kept and thrown away, and what it cost."""
        from lowswitch import report

        print(report.rounds_summary(self))

    def to_dict(self) -> dict[str, Any]:
        """The numbers that `--json` prints."""
        extra = {name: getattr(self, name) for name in (*_FACTS, "kept", "thrown_away", "speed_up")}
        return super().to_dict() | extra

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration; `lowswitch.concurrent.load` reads them
        back.
        """
        facts, arrays = self._members()
        facts |= {name: getattr(self, name) for name in _FACTS}
        arrays |= {name: getattr(self, name) for name in _ARRAYS}
        storage.write(path, "concurrent run", facts, arrays)


_FACTS = (
    "machines",
    "rule",
    "planned",
    "stopped",
    "rounds",
    "played",
    "earned",
    "lost",
    "bytes_sent",
    "bytes_received",
    "parts",
)
_ARRAYS = ("plays", "rounds_at", "played_at", "rounds_curve", "earned_curve")


def load(path: str | os.PathLike[str]) -> ConcurrentRun:
    """The run saved in a file."""
    with storage.reading(path, "concurrent run") as (facts, arrays):
        own = {name: facts[name] for name in _FACTS} | {name: arrays[name] for name in _ARRAYS}
        return ConcurrentRun(**fields_of_runs(facts, arrays), **own)
