"""Rounds of many machines on a problem with features: M episodes by one policy, learned in order.

Episodes after the cut of a round are thrown away and played again, so that the run equals the
sequential one to the bit.
"""

from __future__ import annotations

import copy
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.meetings import require_dates
from lowswitch.checks import is_number, require_count, require_seed, require_word, shown
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.problem import FeatureProblem, Played, require_problem
from lowswitch.features.runs import Account, learner_for
from lowswitch.io import storage
from lowswitch.io.files import owning
from lowswitch.show.progress import Progress

Rule = Literal["trigger", "switch"]
_KIND = "linear rounds checkpoint"  # of its files


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearRounds:
    """A run in rounds: what it cost, and its learner at the end."""

    algorithm: Algorithm
    machines: int
    rule: str
    rounds: int
    discarded: int  # episodes that were played and thrown away
    regret: float  # of the episodes that were learned
    earned: float
    deployments: int
    curve: np.ndarray  # [C]  regret at about 200 log-spaced numbers of episodes
    learner: FeatureLearner

    def __repr__(self) -> str:
        return (
            f"LinearRounds({self.algorithm}, {self.machines} machines, {self.rounds:,} rounds,"
            f" {self.discarded:,} episodes discarded, {self.deployments} deployments,"
            f" regret {self.regret:.4g})"
        )


def run_rounds(
    problem: FeatureProblem,
    algorithm: Algorithm,
    episodes: int,
    *,
    machines: int,
    rule: str = "switch",
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: float = 60.0,
    progress: bool | None = None,
) -> LinearRounds:
    """Run an algorithm in rounds of `machines` episodes, all of them by one policy.

    rule: where a round is cut. "trigger" cuts it after the first episode after which a policy may
    be made, "switch" after the first one that changed it.
    checkpoint: a file that is written every `save_every` seconds, at the end, and when something
    goes wrong. Where it exists, the run goes on from it, to the bit.
    """
    require_problem(problem)
    require_word("rule", rule, get_args(Rule))
    require_dates(require_algorithm(algorithm).schedule)
    episodes, machines = require_count("episodes", episodes), require_count("machines", machines)
    learner = learner_for(problem, algorithm, episodes, require_seed(seed))
    run = _Rounds(problem, learner, machines, rule)
    if not (is_number(save_every) and save_every >= 0):
        raise ValueError(
            f"save_every must be a number of seconds, 0 or more, not {shown(save_every)}"
        )
    if checkpoint is not None:
        storage.require_writable(checkpoint)
    with (
        owning(checkpoint),
        Progress(episodes, unit="episodes", show=progress, label=str(algorithm)) as bar,
    ):
        if checkpoint is not None and Path(checkpoint).exists():
            run.go_on_from(checkpoint)
        run.drive(bar, checkpoint, save_every)
    return run.result()


class _Rounds:
    """A run between two rounds."""

    def __init__(
        self, problem: FeatureProblem, learner: FeatureLearner, machines: int, rule: str
    ) -> None:
        self.problem, self.learner = problem, learner
        self.machines, self.rule = machines, rule
        self.account = Account(learner.episodes)
        self.rounds, self.discarded, self.earned = 0, 0, 0.0

    def drive(
        self, bar: Progress, checkpoint: str | os.PathLike[str] | None, save_every: float
    ) -> None:
        """Play to the end, and save what was reached."""
        saved = time.perf_counter()
        try:
            while self.learner.told < self.learner.episodes:
                self.play_round()
                bar.update(self.learner.told)
                if checkpoint is not None and time.perf_counter() - saved >= save_every:
                    self.save(checkpoint)
                    saved = time.perf_counter()
        finally:  # after an error or an interrupt too
            if checkpoint is not None:
                self.save(checkpoint)

    def play_round(self) -> None:
        """Play one round, and learn it up to its cut."""
        learner, first = self.learner, self.learner.told
        last = min(learner.episodes, first + self.machines)
        played = self.problem.play(learner.policy, learner.seed, first, last)
        account = copy.deepcopy(self.account)
        learned = _learn_round(learner, played, self.rule, account)
        self.__dict__.update(
            account=account,
            earned=self.earned + float(played.rewards[:learned].sum()),
            discarded=self.discarded + last - first - learned,
            rounds=self.rounds + 1,
        )

    def result(self) -> LinearRounds:
        """What the run has cost so far."""
        return LinearRounds(
            algorithm=self.learner.algorithm,
            machines=self.machines,
            rule=self.rule,
            rounds=self.rounds,
            discarded=self.discarded,
            regret=self.account.total,
            earned=self.earned,
            deployments=self.learner.deployments,
            curve=self.account.regret,
            learner=self.learner,
        )

    # ---- checkpoints -----------------------------------------------------------------------------

    def setting(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the run that goes on from it."""
        return {
            "problem": self.problem.facts(),
            "algorithm": self.learner.algorithm.to_dict(),
            "episodes": self.learner.episodes,
            "machines": self.machines,
            "rule": self.rule,
            "seed": self.learner.seed,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint whole or not at all.

        If an interrupt has cut the learning of a round in two, the last checkpoint stays.
        """
        account = self.account
        if account.done != self.learner.told:
            return
        facts = {"setting": self.setting(), "rounds": self.rounds, "discarded": self.discarded}
        arrays = {
            "learner": np.frombuffer(self.learner.to_bytes(), dtype=np.uint8),
            "regret": account.regret,
            "deployments": account.deployments,
            "totals": np.array([account.total, self.earned]),
        }
        storage.write(path, _KIND, facts, arrays)

    def go_on_from(self, path: str | os.PathLike[str]) -> None:
        """Take over what a checkpoint of this very setting holds."""
        with storage.reading(path, _KIND) as (facts, arrays):
            differs = [
                name for name, value in self.setting().items() if facts["setting"][name] != value
            ]
            if not differs:
                self._take_over(facts, arrays)
        if differs:
            raise ValueError(
                f"the checkpoint {str(path)!r} is of a run with another {' and '.join(differs)};"
                " give another file, or delete it to begin anew"
            )

    def _take_over(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        learner, account = FeatureLearner.from_bytes(arrays["learner"].tobytes()), self.account
        for name in ("shape", "seed", "episodes", "algorithm", "gate"):
            if getattr(learner, name) != getattr(self.learner, name):
                raise ValueError(f"its learner has the {name} {getattr(learner, name)}")
        for name in ("regret", "deployments"):
            mine, found = getattr(account, name), arrays[name]
            if (found.shape, found.dtype) != (mine.shape, mine.dtype):
                raise ValueError(f"its {name} are {found.dtype} of {found.shape}")
            setattr(account, name, found.copy())
        self.rounds = require_count("rounds", facts["rounds"], least=0)
        self.discarded = require_count("discarded", facts["discarded"], least=0)
        account.total, self.earned = map(float, arrays["totals"])
        self.learner, account.done = learner, learner.told


def _learn_round(learner: FeatureLearner, played: Played, rule: str, account: Account) -> int:
    """Learn the episodes of a round in order up to its cut, and return how many."""
    done, size = 0, len(played.x)
    while done < size:
        policy, before = learner.policy, learner.deployments
        until = done + learner.next_stop(size - done)
        piece = Played(*(array[done:until] for array in played))
        learned = learner.learn_piece(piece.x, piece.actions, piece.rewards)
        account.charge(piece, learned, before, learner.deployments)
        triggered = learned < until - done or learner.may_change
        done += learned
        if learner.policy is not policy or (rule == "trigger" and triggered):
            break
    return done
