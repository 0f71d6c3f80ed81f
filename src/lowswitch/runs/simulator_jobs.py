"""Runs on problems without tables, seed by seed, whose returns are sampled."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowswitch.envs.simulator import Simulator
from lowswitch.history import History, RunCosts, first_of
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of
from lowswitch.runs.jobs import Job, Options
from lowswitch.runs.results import Runs, curve_points
from lowswitch.runs.table_jobs import Beginning
from lowswitch.show.progress import Pace

_LARGEST_PIECE = 1_000  # episodes that are played before they are learned


@dataclass(frozen=True, kw_only=True)
class SimulatorJob(Job):
    """One algorithm on one problem without tables, under every seed."""

    problem: Simulator
    knowledge: Knowledge
    history: bool
    beginning: Beginning

    @classmethod
    def of(cls, problem: Simulator, options: Options, **job: Any) -> SimulatorJob:
        """The job, once everything is known to fit."""
        if options.device != "cpu" or options.stop is not None or options.delay:
            raise ValueError(
                "a problem without tables is played on the CPU, and a run on it has no Stop and no"
                " delay; leave device, stop and delay out, or give tables with ls.TabularMDP"
            )
        size = ProblemSize(**problem.size, episodes=job["episodes"])
        return cls(
            **job,
            problem=problem,
            knowledge=knowledge_of(job["algorithm"], size, problem.actions_allowed),
            regret=options.regret,
            history=options.history,
            beginning=Beginning.of(problem, options),
        )

    def kernel(self) -> Any:
        from lowswitch.kernels.play import learn_batch

        return learn_batch

    def begin(self, seed: int, episodes: int) -> SimulatorRun:
        return SimulatorRun(self, seed, episodes)

    def runs(self, costs: RunCosts, seconds: float) -> Runs:
        steps = self.episodes * self.horizon
        return replace(
            super().runs(costs, seconds),
            measure=self.problem.measure,
            triggers=costs.triggers,
            drowned_share=costs.drowned / steps,
            initial=self.beginning.deployed(self.knowledge),
            policy=costs.policy,
            history=costs.histories,
            earned=costs.earned,
        )


class SimulatorRun:
    """One seed: its tables live while it runs, its costs stay."""

    costs: RunCosts

    def __init__(self, job: SimulatorJob, seed: int, episodes: int) -> None:
        self.job, self.seed, self.episodes = job, seed, episodes
        self.done, self.pace = 0, Pace()

    def play(self, stop: threading.Event) -> None:
        job, marks = self.job, curve_points(self.episodes)
        knowledge = job.beginning.put_into(job.knowledge.fresh(self.seed))
        before = knowledge.policy().actions
        room, columns = knowledge.spec.timing.room, 3 + knowledge.members
        curves = np.zeros((3, len(marks)))
        kept, earned, size, mark = list[np.ndarray](), 0.0, 1, 0
        while self.done < self.episodes and not stop.is_set():
            last = min(int(marks[mark]), self.done + size)
            policy, episodes = knowledge.policy(), np.arange(self.done, last)
            members = policy.member_for(episodes)
            played = job.problem.play(policy.actions, members, self.seed, episodes)
            changes = np.zeros((len(played.states) * room, columns), dtype=np.int64)
            used, learned, _ = knowledge.learn(*played, False, self.done, changes)
            # the episodes after these the new policy plays otherwise: they are played again
            earned += float(played.rewards[:learned].sum())
            self.done += learned
            kept += [changes[:used].copy()] if job.history else []
            size = min(2 * size, _LARGEST_PIECE) if self.done == last else max(1, learned)
            if self.done == marks[mark]:
                curves[:, mark] = earned, knowledge.local_switches, knowledge.deployments
                mark += 1
        self.costs = self._costs(knowledge, curves, marks, before, kept)

    def _costs(
        self,
        knowledge: Knowledge,
        curves: np.ndarray,
        marks: np.ndarray,
        before: np.ndarray,
        kept: list[np.ndarray],
    ) -> RunCosts:
        problem, policies = self.job.problem, knowledge.policy().actions
        earned = problem.scale.to_value(curves[0], marks * problem.horizon)
        lost = (
            marks * problem.reference - earned if self.job.regret else np.full(len(marks), np.nan)
        )
        first = None if first_of(before).ndim == 2 else before
        history = (History(np.concatenate(kept), before=first),) if self.job.history else None
        return RunCosts(
            regret=lost[None],
            local_switches=curves[1].astype(np.int64)[None],
            deployments=curves[2].astype(np.int64)[None],
            triggers=np.array([knowledge.triggers()]),
            drowned=np.array([knowledge.drowned]),
            policy=policies if knowledge.members == 1 else policies[None],
            earned=earned[-1:],
            histories=history,
        )
