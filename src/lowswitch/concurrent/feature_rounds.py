"""Rounds on a problem with features: M episodes by one policy, learned in order.

Episodes after the cut of a round are discarded and played again, so the run equals the sequential
run bit for bit.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowswitch.checks import require_count, require_word
from lowswitch.concurrent.fleets import Fleet
from lowswitch.concurrent.results import ConcurrentRun
from lowswitch.concurrent.round_driver import RoundDriver, fresh_seconds
from lowswitch.concurrent.state import RoundSetting
from lowswitch.feature_learner import FeatureLearner
from lowswitch.features.problem import PlayedEpisodes
from lowswitch.io import storage
from lowswitch.runs.feature_jobs import FeatureJob, RegretCurve
from lowswitch.runs.jobs import Options
from lowswitch.runs.stopping import Stop

_KIND = "linear rounds checkpoint"  # the kind in the header of its files


@dataclass
class _State:
    """The state of a run between two rounds."""

    learner: FeatureLearner
    account: RegretCurve
    played_rounds: int = 0
    discarded: int = 0
    earned: float = 0.0
    seconds: dict[str, float] = field(default_factory=fresh_seconds)

    @property
    def learned(self) -> int:
        return self.learner.told


class FeatureRounds(RoundDriver):
    """A run in rounds whose learner uses features."""

    state: _State

    def __init__(self, setting: RoundSetting, stop: Stop | None, fleet: Fleet | None) -> None:
        usual = setting.regret and setting.delay == (0,) and setting.send == "episodes"
        if not (fleet is None and stop is None and usual):
            raise ValueError(
                "rounds with features run in this process until the last episode, and outcomes"
                " arrive at once; leave fleet, stop, regret, delay and send out"
            )
        require_word("rule", setting.rule, ("trigger", "switch"))
        self.setting, sizes = setting, {"episodes": setting.episodes, "seeds": [setting.seed]}
        self.job = FeatureJob.of(setting.source, Options(), algorithm=setting.algorithm, **sizes)
        self.state = _State(self.job.learner(setting.seed), RegretCurve(setting.episodes))

    def play(self) -> None:
        self.bar.start(self.state.learned)
        while self.state.learned < self.setting.episodes:
            self._round()
            self.look_up()

    def _round(self) -> None:
        """Play one round, and learn from it up to its cut."""
        state, learner, first = self.state, self.state.learner, self.state.learned
        last = min(learner.episodes, first + self.setting.machines)
        with self.timed("play"):
            played = self.job.problem.play(learner.policy, learner.seed, first, last)
        account = copy.deepcopy(state.account)
        with self.timed("learn"):
            learned = _learn_round(learner, played, self.setting.rule, account)
        vars(state).update(
            account=account,
            earned=state.earned + float(played.rewards[:learned].sum()),
            discarded=state.discarded + last - first - learned,
            played_rounds=state.played_rounds + 1,
        )

    def result(self) -> ConcurrentRun:
        setting, state = self.setting, self.state
        seconds = max(sum(state.seconds.values()), 1e-9)
        costs = vars(self.job.runs(state.account.costs(state.earned), seconds))
        return ConcurrentRun(
            **costs | {"earned": state.earned},
            machines=setting.machines,
            rule=setting.rule,
            planned=setting.episodes,
            stopped="episodes",
            rounds=state.played_rounds,
            played=state.learned + state.discarded,
            parts=dict(state.seconds),
            learner=state.learner,
        )

    # ---- checkpoints -----------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        names = ("episodes", "machines", "rule", "seed")
        return {
            "problem": self.job.problem.facts(),
            "algorithm": self.job.algorithm.to_dict(),
            **{name: getattr(self.setting, name) for name in names},
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint atomically.

        If an interrupt stopped the learning in the middle of a round, the previous checkpoint
        stays.
        """
        state, account = self.state, self.state.account
        if account.done != state.learned:
            return
        facts = {
            "setting": self.facts(),
            "rounds": state.played_rounds,
            "discarded": state.discarded,
            "seconds": state.seconds,
        }
        arrays = {
            "learner": np.frombuffer(state.learner.to_bytes(), dtype=np.uint8),
            "regret": account.regret,
            "deployments": account.deployments,
            "totals": np.array([account.total, state.earned]),
        }
        storage.write(path, _KIND, facts, arrays)

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
                f"the checkpoint {str(checkpoint)!r} belongs to a run with another "
                f"{' and '.join(differs)}; give another file, or delete this one to start "
                "again"
            )

    def _take_over(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        state, account = self.state, self.state.account
        learner = FeatureLearner.from_bytes(arrays["learner"].tobytes())
        for name in ("shape", "seed", "episodes", "algorithm", "gate"):
            if getattr(learner, name) != getattr(state.learner, name):
                raise ValueError(f"its learner has the {name} {getattr(learner, name)}")
        for name in ("regret", "deployments"):
            mine, found = getattr(account, name), arrays[name]
            if (found.shape, found.dtype) != (mine.shape, mine.dtype):
                raise ValueError(f"its {name} are {found.dtype} of {found.shape}")
            setattr(account, name, found.copy())
        state.played_rounds = require_count("rounds", facts["rounds"], least=0)
        state.discarded = require_count("discarded", facts["discarded"], least=0)
        account.total, state.earned = map(float, arrays["totals"])
        state.learner, account.done = learner, learner.told
        saved = facts.get("seconds", state.seconds)  # older files do not have it
        state.seconds = {part: float(saved[part]) for part in state.seconds}


def _learn_round(
    learner: FeatureLearner, played: PlayedEpisodes, rule: str, account: RegretCurve
) -> int:
    """Learn from the episodes of a round in order up to its cut; return how many there were."""
    done, size = 0, len(played.x)
    while done < size:
        policy, before = learner.policy, learner.deployments
        until = done + learner.next_stop(size - done)
        piece = PlayedEpisodes(*(array[done:until] for array in played))
        learned = learner.learn_piece(piece.x, piece.actions, piece.rewards)
        account.charge(piece, learned, before, learner.deployments)
        triggered = learned < until - done or learner.may_change
        done += learned
        if learner.policy is not policy or (rule == "trigger" and triggered):
            break
    return done
