"""Rounds on a problem with features: M episodes by one policy, learned in order.

Episodes after the cut of a round are thrown away and played again, so that the run equals the
sequential one to the bit.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np

from lowswitch.checks import is_number, require_count, require_word
from lowswitch.concurrent.fleets import Fleet
from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.round_driver import RoundDriver, fresh_seconds
from lowswitch.concurrent.state import Setting, Stop
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.problem import FeatureProblem, Played
from lowswitch.io import storage
from lowswitch.runs.feature_jobs import Account, learner_for
from lowswitch.runs.results import Curves, origin

_KIND = "linear rounds checkpoint"  # of its files


class FeatureRounds(RoundDriver):
    """A run in rounds whose learner knows features."""

    problem: FeatureProblem

    def __init__(self, setting: Setting, stop: Stop | None, fleet: Fleet | None) -> None:
        if not (fleet is None and stop is None and setting.regret):
            raise ValueError(
                "rounds with features are played in this process to their end; leave fleet, stop"
                " and regret out"
            )
        require_word("rule", setting.rule, ("trigger", "switch"))
        self.setting, self.problem = setting, setting.source
        self.learner = learner_for(self.problem, setting.algorithm, setting.episodes, setting.seed)
        self.account = Account(setting.episodes)
        self._rounds, self.discarded, self.earned = 0, 0, 0.0
        self._seconds = fresh_seconds()

    @property
    def learned(self) -> int:
        return self.learner.told

    @property
    def rounds(self) -> int:
        return self._rounds

    @property
    def seconds(self) -> dict[str, float]:
        return self._seconds

    def play(self) -> None:
        self.bar.start(self.learned)
        while self.learned < self.setting.episodes:
            self._round()
            self.look_up()

    def _round(self) -> None:
        """Play one round, and learn it up to its cut."""
        learner, first = self.learner, self.learned
        last = min(learner.episodes, first + self.setting.machines)
        with self.timed("play"):
            played = self.problem.play(learner.policy, learner.seed, first, last)
        account = copy.deepcopy(self.account)
        with self.timed("learn"):
            learned = _learn_round(learner, played, self.setting.rule, account)
        self.__dict__.update(
            account=account,
            earned=self.earned + float(played.rewards[:learned].sum()),
            discarded=self.discarded + last - first - learned,
            _rounds=self._rounds + 1,
        )

    def result(self) -> ConcurrentRun:
        setting, account, size = self.setting, self.account, dict[str, Any](self.problem.size)
        regret, deployments = account.regret[None], account.deployments[None]
        return ConcurrentRun(
            algorithm=self.learner.algorithm,
            **size,
            episodes=self.learned,
            seeds=np.array([setting.seed], dtype=np.int64),
            regret=np.array([account.total]),
            local_switches=deployments[:, -1],
            deployments=deployments[:, -1],
            drowned_share=np.zeros(1),
            curves=Curves(account.marks, regret, deployments, deployments),
            seconds=max(sum(self.seconds.values()), 1e-9),
            machines=setting.machines,
            rule=setting.rule,
            planned=setting.episodes,
            stopped="episodes",
            rounds=self.rounds,
            played=self.learned + self.discarded,
            earned=self.earned,
            parts=dict(self.seconds),
            learner=self.learner,
            **origin(self.problem),
        )

    # ---- checkpoints -----------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        return {
            "problem": self.problem.facts(),
            "algorithm": self.learner.algorithm.to_dict(),
            **{
                name: getattr(self.setting, name)
                for name in ("episodes", "machines", "rule", "seed")
            },
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint whole or not at all.

        If an interrupt has cut the learning of a round in two, the last checkpoint stays.
        """
        account = self.account
        if account.done != self.learned:
            return
        counts = {"rounds": self.rounds, "discarded": self.discarded, "seconds": self.seconds}
        arrays = {
            "learner": np.frombuffer(self.learner.to_bytes(), dtype=np.uint8),
            "regret": account.regret,
            "deployments": account.deployments,
            "totals": np.array([account.total, self.earned]),
        }
        storage.write(path, _KIND, {"setting": self.facts(), **counts}, arrays)

    def start(self, checkpoint: str | os.PathLike[str] | None) -> None:
        if checkpoint is None:
            return
        with storage.reading(checkpoint, _KIND) as (facts, arrays):
            differs = [
                name for name, mine in self.facts().items() if facts["setting"][name] != mine
            ]
            if not differs:
                self._take_over(facts, arrays)
        if differs:
            raise ValueError(
                f"the checkpoint {str(checkpoint)!r} is of a run with another"
                f" {' and '.join(differs)}; give another file, or delete it to begin anew"
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
        self._rounds = require_count("rounds", facts["rounds"], least=0)
        self.discarded = require_count("discarded", facts["discarded"], least=0)
        account.total, self.earned = map(float, arrays["totals"])
        self.learner, account.done = learner, learner.told
        self._seconds = facts.get("seconds", self._seconds)  # which files of before do not have
        if not all(is_number(self._seconds[part]) for part in fresh_seconds()):
            raise ValueError(f"its seconds are {self._seconds!r}")


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
