"""The PAC policy: the uniform mixture of all policies of a run, as small as its deployment
history.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from lowswitch import storage
from lowswitch.history import History
from lowswitch.problems.mdp import TabularMDP
from lowswitch.regret import deployment_gaps


@dataclass(frozen=True, eq=False, kw_only=True)
class PacPolicy:
    """Draw one of the `episodes` policies of a run, each equally likely, and play it: Bai et al.
    2019, Corollary 4.

    Its value is the average of theirs, so under a start law its suboptimality is regret / K without
    further ado. Stored is the first policy and the row changes: memory grows with the switches, not
    with K.
    """

    initial: np.ndarray  # [H, S]
    history: History
    episodes: int

    @property
    def weights(self) -> np.ndarray:  # [deployments + 1]
        """The probability of the first policy and of the one after each deployment."""
        ends = np.append(np.unique(self.history.episode) + 1, self.episodes)
        return np.diff(ends, prepend=0) / self.episodes

    def policy(self, episode: int) -> np.ndarray:  # [H, S], or [members, H, S]
        """The policy, or the mixture of policies, that played an episode."""
        if not 0 <= episode < self.episodes:
            raise ValueError(f"episode must be 0 to {self.episodes - 1}, not {episode!r}")
        mixture = np.repeat(self.initial[None], self.history.members, axis=0)
        _, steps, states, *actions = self.history.changes[self.history.episode < episode].T
        mixture[:, steps, states] = actions  # of several changes of a row the last one stays
        return mixture[0] if self.history.members == 1 else mixture

    def sample(self, generator: np.random.Generator) -> np.ndarray:  # [H, S]
        """A policy to play for one episode."""
        policy = self.policy(int(generator.integers(self.episodes)))
        return policy if policy.ndim == 2 else np.asarray(policy[generator.integers(len(policy))])

    def evaluate(self, mdp: TabularMDP) -> float:
        """The exact value under the start law."""
        gaps = deployment_gaps(mdp, self.history, initial=self.initial)
        return mdp.optimal_value() - float(self.weights @ gaps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mixture; `PacPolicy.load` reads it back."""
        storage.write(
            path,
            "pac policy",
            {"episodes": self.episodes},
            {"initial": self.initial, "changes": self.history.changes},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PacPolicy:
        with storage.reading(path, "pac policy") as (facts, arrays):
            return cls(
                initial=arrays["initial"],
                history=History(arrays["changes"]),
                episodes=facts["episodes"],
            )

    def __repr__(self) -> str:
        return (
            f"PacPolicy(of {self.episodes:,} episodes, {self.history.deployments + 1:,} policies)"
        )
