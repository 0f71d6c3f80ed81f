"""Runs on tables of states, seed by seed on the CPU or all of them on a GPU."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from lowswitch.checks import checked_batch
from lowswitch.envs.mdp import TabularMDP
from lowswitch.envs.simulator import Simulator
from lowswitch.history import (
    History,
    RunCosts,
    evaluation_of,
    first_of,
    fresh_account,
    require_starts,
)
from lowswitch.kernels.arrays import ChangeLog, LateEpisodes
from lowswitch.kernels.streams import stream_key
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of
from lowswitch.runs.jobs import Job, Options, checked_delay
from lowswitch.runs.results import Runs, curve_points
from lowswitch.runs.stopping import Stop, require_simulated, require_start_law
from lowswitch.show.progress import LOADING, Pace, PieceSize, Progress, run_all

_LOGGED_CHANGES = 2**11  # few enough to stay in the cache until their regret is known
_KEPT_CHANGES = 2**16


class Beginning(NamedTuple):
    """What every run begins with."""

    policy: np.ndarray | None  # [H, S]
    data: tuple[np.ndarray, np.ndarray, np.ndarray] | None  # [B, H] each

    @classmethod
    def of(cls, mdp: TabularMDP | Simulator, options: Options) -> Self:
        """The job for these options, checked against the problem and the device."""
        initial, warm_start = options.initial, options.warm_start
        if options.device == "gpu" and not (initial is None and warm_start is None):
            raise ValueError(
                "a GPU begins with the lowest allowed actions and without data; leave initial and"
                " warm_start out, or the device"
            )
        policy = None if initial is None else mdp.checked_policy(initial)
        data = None
        if warm_start is not None:
            states, actions, rewards = warm_start
            data = checked_batch(states, actions, rewards, mdp.actions_allowed)
        return cls(policy, data)

    def put_into(self, knowledge: Knowledge) -> Knowledge:
        knowledge.begin(self.policy)
        if self.data is not None:
            knowledge.count(*self.data)
        return knowledge

    def deployed(self, knowledge: Knowledge) -> np.ndarray:  # [H, S], or [members, H, S]
        """The initial policy, the same under every seed."""
        began = knowledge.fresh(0)
        began.begin(self.policy)
        return first_of(began.policy().actions)


@dataclass(frozen=True, kw_only=True)
class TableJob(Job):
    """One algorithm on one table, under every seed."""

    problem: TabularMDP
    knowledge: Knowledge
    history: bool
    beginning: Beginning
    stop: Stop | None

    @classmethod
    def of(cls, mdp: TabularMDP, options: Options, **job: Any) -> TableJob:
        """The job, once everything is known to fit."""
        episodes = job["episodes"]
        require_starts(mdp, episodes)
        size = ProblemSize(**mdp.size, episodes=episodes)
        knowledge = knowledge_of(job["algorithm"], size, mdp.actions_allowed)
        require_simulated(options.stop)
        if options.stop is not None:
            require_start_law(mdp.start_sequence)
            knowledge.require_bounds()
        return cls(
            **job,
            problem=mdp,
            knowledge=knowledge,
            regret=options.regret,
            history=options.history,
            delay=checked_delay(options),
            beginning=Beginning.of(mdp, options),
            stop=options.stop,
        )

    def nbytes(self, threads: int) -> int:
        mdp, knowledge = self.problem, self.knowledge
        policy = 8 * mdp.horizon * mdp.states * knowledge.members
        late = 16 * (self.delay + 1) * mdp.horizon
        log = 8 * (3 + knowledge.members) * self.log_room(knowledge)
        values = 3 * policy if self.regret else 0  # the policy, its rows and its state laws
        each = knowledge.nbytes + knowledge.plan_bytes + 2 * policy + log + values + late
        return super().nbytes(threads) + len(self.seeds) * policy + threads * each

    def log_room(self, knowledge: Knowledge) -> int:
        """For how many row changes the log of a run has room."""
        room = _KEPT_CHANGES if self.history else _LOGGED_CHANGES
        return int(max(room, knowledge.spec.timing.room))

    @property
    def plans(self) -> int:
        return self.knowledge.plans_until(self.episodes)

    @property
    def plan_seconds(self) -> float:
        return self.knowledge.plan_seconds

    def kernel(self) -> Any:
        from lowswitch.kernels.play import simulate, simulate_late

        return simulate_late if self.delay else simulate

    def begin(self, seed: int, episodes: int) -> TableRun:
        return TableRun(self, seed, episodes)

    def runs(self, costs: RunCosts, seconds: float) -> Runs:
        mdp, initial = self.problem, self.beginning.deployed(self.knowledge)
        found = super().runs(costs._replace(regret=mdp.scale.to_regret(costs.regret)), seconds)
        return replace(
            found,
            triggers=costs.triggers,
            drowned_share=costs.drowned / (self._played(costs) * mdp.horizon),
            ended=costs.ended,
            initial=initial,
            policy=costs.policy,
            history=costs.histories,
            **(self._values(initial, costs.policy) if self.regret else {}),
        )

    def _played(self, costs: RunCosts) -> np.ndarray | int:
        """How many episodes each run played."""
        return costs.ended if len(costs.ended) else self.episodes

    def _values(self, initial: np.ndarray, policies: np.ndarray) -> dict[str, Any]:
        """The values of the initial and final policies, and of uniform play."""
        mdp = self.problem

        def earned(policy: np.ndarray) -> float:
            return mdp.at_start(mdp.policy_values(policy)[0], self.episodes)

        return {
            "first_value": earned(initial),
            "uniform_value": mdp.at_start(mdp.uniform_values[0], self.episodes),
            "last_value": np.array([earned(policy) for policy in policies]),
        }


class TableRun:
    """One seed: its tables live while it runs, its costs stay."""

    costs: RunCosts

    def __init__(self, job: TableJob, seed: int, episodes: int) -> None:
        self.job, self.seed, self.episodes = job, seed, episodes
        self.done, self.pace = 0, Pace()

    def play(self, stop: threading.Event) -> None:
        mdp, episodes = self.job.problem, self.episodes
        marks = curve_points(episodes)
        knowledge = self.job.beginning.put_into(self.job.knowledge.fresh(self.seed))
        knowledge.pace = self.pace
        policies = knowledge.policy().actions
        before = None if first_of(policies).ndim == 2 else policies
        evaluation, gap = evaluation_of(mdp, policies, wanted=self.job.regret)
        account, log = fresh_account(gap, marks), self._fresh_log(knowledge, marks)
        kept: list[np.ndarray] = []
        late = late_episodes(self.job.delay, mdp.horizon) if self.job.delay else None
        key, piece = stream_key(self.seed), PieceSize(10**5 // mdp.horizon)
        rule = self.job.stop or Stop()
        look, ended = rule.next_look(1, episodes), False
        while self.done < episodes and not (ended or stop.is_set()):
            with piece, self.pace.playing():
                first, last = self.done, min(look, self.done + piece.size)
                self.done = knowledge.play(
                    mdp.model, evaluation, log, account, key, first, last, late
                )
            if self.done < last:  # its time says nothing of how long a larger piece takes
                piece.size = max(1, self.done - first)
            if self.job.history:
                kept.append(log.changes[: log.logged[0]].copy())
                log.logged[0] = 0
            if self.done == look:
                ended = rule.holds(knowledge, mdp.scale.to_regret(1.0))
                look = rule.next_look(look + 1, episodes) if look < episodes else look
        _stay(marks, self.done, account.curve, log.switches, log.deployments)
        policies = knowledge.policy().actions
        self.costs = RunCosts(
            regret=account.curve[None],
            local_switches=log.switches[None],
            deployments=log.deployments[None],
            triggers=np.array([knowledge.triggers()]),
            drowned=np.array([knowledge.drowned]),
            policy=policies if knowledge.members == 1 else policies[None],
            histories=(History(np.concatenate(kept), before=before),) if self.job.history else None,
            ended=np.array([] if self.job.stop is None else [self.done], dtype=np.int64),
        )

    def _fresh_log(self, knowledge: Knowledge, marks: np.ndarray) -> ChangeLog:
        room = self.job.log_room(knowledge)
        return ChangeLog(
            keep=self.job.history,
            logged=np.zeros(1, dtype=np.int64),
            changes=np.zeros((room, 3 + knowledge.members), dtype=np.int64),
            curve_points=marks,
            switches=np.zeros(len(marks), dtype=np.int64),
            deployments=np.zeros(len(marks), dtype=np.int64),
        )


def late_episodes(delay: int, horizon: int) -> LateEpisodes:
    """Room for the newest episodes of a run whose outcomes arrive `delay` episodes late."""
    shape = delay + 1, horizon
    whole = np.zeros((2, *shape), dtype=np.int32)
    return LateEpisodes(whole[0], whole[1], np.zeros(shape))


def _stay(marks: np.ndarray, done: int, *curves: np.ndarray) -> None:
    """Keep curves [C] at their value after `done` episodes, a mark, where a run ended."""
    here = int(np.searchsorted(marks, done))
    for curve in curves:
        curve[here + 1 :] = curve[here]


def play_on_gpu(jobs: list[Any], bar: Progress, checkpoint: Path | None) -> list[Runs]:
    """Play jobs that differ only in problem and algorithm, one launch for each kind.

    All have tables: other problems refuse the device.
    """
    from lowswitch.gpu.play import player_for

    player = player_for(
        [(job.problem, job.algorithm, job.knowledge) for job in jobs],
        episodes=jobs[0].episodes,
        seeds=jobs[0].seeds,
        regret=jobs[0].regret,
        history=jobs[0].history,
        marks=curve_points(jobs[0].episodes),
        checkpoint=checkpoint,
    )
    bar.note(LOADING)
    bar.start()
    run_all([player.play], workers=1, look_up=lambda: bar.update(player.done))
    each = player.seconds / len(jobs)
    return [job.runs(costs, each) for job, costs in zip(jobs, player.by_job(), strict=True)]
