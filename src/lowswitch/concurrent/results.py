"""The result of a run on many machines: the costs of its seed, and those of its rounds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lowswitch.checks import require_eps
from lowswitch.concurrent.mistakes import mistakes, suboptimal_actions
from lowswitch.envs.mdp import TabularMDP
from lowswitch.feature_learner import FeatureLearner
from lowswitch.history import deployment_gaps
from lowswitch.runs.results import Runs, loaded, nothing
from lowswitch.show.tables import Summary


@dataclass(frozen=True, eq=False, kw_only=True)
class ConcurrentRun(Runs):
    """What one seed cost that M machines played in rounds; `episodes` are those that were kept.

    Regret and the optimal value are NaN where the source has no tables.
    """

    kind = "concurrent run"  # of its files
    machines: int
    rule: str
    planned: int  # episodes that were asked for
    stopped: str  # what ended the run: episodes, policy, mixture, within, rounds or seconds
    rounds: int
    played: int  # episodes, those thrown away included
    earned: float  # rewards of the episodes kept, in the source's units
    parts: dict[str, float]  # seconds of wall time: start, play, learn, save
    lost: int = 0  # workers that died or hung and were replaced
    bytes_sent: int = 0  # to the workers
    bytes_received: int = 0
    # with features these are empty
    plays: np.ndarray = field(default_factory=nothing)  # [H, S, A]  how often an action was played
    rounds_at: np.ndarray = field(default_factory=nothing)  # [deployments]  rounds played before
    played_at: np.ndarray = field(default_factory=nothing)  # [deployments]  episodes played before
    rounds_curve: np.ndarray = field(default_factory=nothing)  # [C]  at the curves' episodes
    earned_curve: np.ndarray = field(default_factory=nothing)  # [C]  at the curves' episodes
    learner: FeatureLearner | None = None  # with features, at the end; its own `save` keeps it

    def __repr__(self) -> str:
        machines = f"{self.machines:,} machine{'s' * (self.machines > 1)}"
        how = f"{machines}, rule {self.rule!r}, seed {self.seeds[0]}"
        kept = f"{self.kept:,} episodes kept of {self.played:,} played in {self.rounds:,} rounds"
        return f"ConcurrentRun({self.algorithm}, {self._size}, {how}, {kept}, {self._means})"

    @property
    def kept(self) -> int:
        """The episodes that were learned from, which are those of the sequential run."""
        return self.episodes

    @property
    def thrown_away(self) -> int:
        """The episodes that were played in vain."""
        return self.played - self.episodes

    @property
    def speed_up(self) -> float:
        """How many episodes were kept in a round, in the mean.

        The rounds are so many times as fast as the sequential run if nothing but playing takes
        time.
        """
        return self.episodes / max(1, self.rounds)

    @property
    def played_under(self) -> np.ndarray:  # [deployments + 1]
        """How many episodes the machines played under each policy: under the first one, and under
        the one after each deployment.
        """
        return np.diff(np.concatenate(([0], self.played_at, [self.played])))

    def rounds_to(self, mdp: TabularMDP, eps: float) -> int | None:
        """The rounds that were played before a policy within eps of the optimum was deployed first.

        None if no such policy was deployed.
        """
        require_eps(eps)
        good = np.flatnonzero(self._gaps(mdp) <= eps)
        return int(np.append(0, self.rounds_at)[good[0]]) if len(good) else None

    def mistakes(self, mdp: TabularMDP, eps: float) -> int:
        """How many actions the machines took in episodes whose policy is more than eps below the
        optimum: Bai et al. 2019, appendix.
        """
        return mistakes(mdp, self._history, self.initial, self.played_under, eps)

    def suboptimal_actions(self, mdp: TabularMDP, eps: float) -> int:
        """How many actions the machines took that lose more than eps by themselves, V*_h(x) -
        Q*_h(x, a) > eps.
        """
        return suboptimal_actions(mdp, self.plays, eps)

    def _gaps(self, mdp: TabularMDP) -> np.ndarray:  # [deployments + 1]
        return deployment_gaps(mdp, self._history, initial=self.initial)

    @property
    def _history(self) -> Any:
        return self.history[0] if self.history else None

    def summary(self, columns: Sequence[str] | None = None) -> Summary:
        """What was played, kept and thrown away, and what it cost; print it, or look at it.

        columns: which of these lines, in this order; by default all.
        """
        from lowswitch.show import report

        return report.rounds_summary(self).chosen(columns)

    def to_dict(self) -> dict[str, Any]:
        """The numbers that `--json` prints."""
        return super().to_dict() | {name: getattr(self, name) for name in _NUMBERS}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration, without the learner; `load` reads them."""
        Runs.save(replace(self, learner=None), path)


# what `--json` prints of a run beside the numbers of `Runs`
_NUMBERS = (
    *("machines", "rule", "planned", "stopped", "rounds", "played", "earned", "lost"),
    *("bytes_sent", "bytes_received", "parts", "kept", "thrown_away", "speed_up"),
)


def load(path: str | os.PathLike[str]) -> ConcurrentRun:
    """Read the run that `ConcurrentRun.save` wrote."""
    return loaded(ConcurrentRun, path)
