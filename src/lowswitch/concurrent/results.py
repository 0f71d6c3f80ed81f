"""The result of a run on many machines: the costs of its seed and of its rounds."""

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
    """The costs of one seed that M machines played in rounds; `episodes` counts the kept ones.

    Regret and the optimal value are NaN if the source has no tables.
    """

    kind = "concurrent run"  # in its files
    machines: int
    rule: str
    planned: int  # episodes that were asked for
    stopped: str  # what ended the run: episodes, policy, mixture, within, rounds or seconds
    rounds: int
    played: int  # episodes, including discarded ones
    earned: float  # rewards of the episodes kept, in the source's units
    parts: dict[str, float]  # seconds of wall time: start, play, learn, save
    lost: int = 0  # workers that died or hung and were replaced
    bytes_sent: int = 0  # to the workers
    bytes_received: int = 0
    # empty with features
    plays: np.ndarray = field(default_factory=nothing)  # [H, S, A]  how often an action was played
    rounds_at: np.ndarray = field(default_factory=nothing)  # [deployments]  rounds played before
    played_at: np.ndarray = field(default_factory=nothing)  # [deployments]  episodes played before
    rounds_curve: np.ndarray = field(default_factory=nothing)  # [C]  at the curves' episodes
    earned_curve: np.ndarray = field(default_factory=nothing)  # [C]  at the curves' episodes
    learner: FeatureLearner | None = (
        None  # with features: its final state, which its own `save` stores
    )

    def __repr__(self) -> str:
        machines = f"{self.machines:,} machine{'s' * (self.machines > 1)}"
        how = f"{machines}, rule {self.rule!r}, seed {self.seeds[0]}"
        kept = f"{self.kept:,} episodes kept of {self.played:,} played in {self.rounds:,} rounds"
        return f"ConcurrentRun({self.algorithm}, {self._size}, {how}, {kept}, {self._means})"

    @property
    def kept(self) -> int:
        """The number of episodes that were learned from, which are the episodes of the sequential
        run.
        """
        return self.episodes

    @property
    def thrown_away(self) -> int:
        """The number of episodes that were played and discarded."""
        return self.played - self.episodes

    @property
    def speed_up(self) -> float:
        """The average number of kept episodes per round.

        If only playing takes time, the run is this many times as fast as the sequential run.
        """
        return self.episodes / max(1, self.rounds)

    @property
    def played_under(self) -> np.ndarray:  # [deployments + 1]
        """The number of episodes that the machines played under the initial policy and after each
        deployment.
        """
        return np.diff(np.concatenate(([0], self.played_at, [self.played])))

    def rounds_to(self, mdp: TabularMDP, eps: float) -> int | None:
        """The number of rounds before the first deployment of a policy within `eps` of the optimum.

        None if no such policy was deployed.
        """
        require_eps(eps)
        good = np.flatnonzero(self._gaps(mdp) <= eps)
        return int(np.append(0, self.rounds_at)[good[0]]) if len(good) else None

    def mistakes(self, mdp: TabularMDP, eps: float) -> int:
        """How many actions the machines took in episodes whose policy is more than `eps` below the
        optimum.

        See Bai et al. 2019, appendix.
        """
        return mistakes(mdp, self._history, self.initial, self.played_under, eps)

    def suboptimal_actions(self, mdp: TabularMDP, eps: float) -> int:
        """How many actions the machines took that lose more than `eps` by themselves, V*_h(x) -
        Q*_h(x, a) > eps.
        """
        return suboptimal_actions(mdp, self.plays, eps)

    def _gaps(self, mdp: TabularMDP) -> np.ndarray:  # [deployments + 1]
        return deployment_gaps(mdp, self._history, initial=self.initial)

    @property
    def _history(self) -> Any:
        return self.history[0] if self.history else None

    def summary(self, columns: Sequence[str] | None = None) -> Summary:
        """A table of the episodes played, kept and discarded, and of their costs, to print or
        display.

        Parameters
        ----------
        columns
            The lines to show, in this order; by default all.
        """
        from lowswitch.show import report

        return report.rounds_summary(self).chosen(columns)

    def to_dict(self) -> dict[str, Any]:
        """The numbers that `--json` prints."""
        return super().to_dict() | {name: getattr(self, name) for name in _NUMBERS}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results and their configuration, without the learner; `load` reads them."""
        Runs.save(replace(self, learner=None), path)


# what `--json` prints in addition to the numbers of `Runs`
_NUMBERS = (
    *("machines", "rule", "planned", "stopped", "rounds", "played", "earned", "lost"),
    *("bytes_sent", "bytes_received", "parts", "kept", "thrown_away", "speed_up"),
)


def load(path: str | os.PathLike[str]) -> ConcurrentRun:
    """Read a run that `ConcurrentRun.save` wrote.

    Parameters
    ----------
    path
        The file.
    """
    return loaded(ConcurrentRun, path)
