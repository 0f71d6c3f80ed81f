"""Many seeds of one algorithm on one problem."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.algorithms.calendars import Calendar, Late
from lowswitch.algorithms.meetings import require_dates
from lowswitch.algorithms.schedules import Budget
from lowswitch.checks import (
    checked_batch,
    checked_seeds,
    require_count,
    require_memory,
    require_truth,
    require_word,
)
from lowswitch.envs.mdp import TabularMDP, require_mdp
from lowswitch.features.problem import FeatureProblem
from lowswitch.features.runs import LinearRuns, simulate_features
from lowswitch.history import Costs, History, evaluation_of, fresh_account, require_starts
from lowswitch.kernels.arrays import Log
from lowswitch.kernels.streams import stream_key
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of
from lowswitch.runs.results import POINTS, Curves, Runs, curve_points, origin
from lowswitch.runs.results import load as load
from lowswitch.show.progress import LOADING, PieceSize, Progress, cores, needs_loading, run_all
from lowswitch.table_learner import warn_if_drowned

Device = Literal["cpu", "gpu"]

_LOGGED_CHANGES = 2**11  # few enough to stay in the cache until their regret is known
_KEPT_CHANGES = 2**16
_SAME_VALUE = 1e-9  # relative: a first policy so near the optimum has nothing to learn


class NothingLearnedWarning(UserWarning):
    """The last policy of most runs is not better than the first one."""


@overload
def simulate(
    mdp: TabularMDP,
    algorithm: Algorithm,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 16,
    threads: int | None = None,
    regret: bool = True,
    history: bool = False,
    progress: bool | None = None,
    device: Device = "cpu",
    initial: Any = None,
    warm_start: tuple[Any, Any, Any] | None = None,
) -> Runs: ...


@overload
def simulate(
    mdp: FeatureProblem,
    algorithm: Algorithm,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 16,
    threads: int | None = None,
    progress: bool | None = None,
    initial: Any = None,
) -> LinearRuns: ...


def simulate(
    mdp: TabularMDP | FeatureProblem,
    algorithm: Algorithm,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 16,
    threads: int | None = None,
    regret: bool = True,
    history: bool = False,
    progress: bool | None = None,
    device: Device = "cpu",
    initial: Any = None,
    warm_start: tuple[Any, Any, Any] | None = None,
) -> Runs | LinearRuns:
    """Run an algorithm for `episodes` episodes of H steps under each seed.

    mdp: a TabularMDP, or a problem of `ls.features.problems`, whose learners see features; for
    these there is neither a GPU nor a history nor a warm start.

    seeds: how many seeds (0, 1, ...), or which ones. threads: how many threads play, by default one
    for each core; the results do not depend on it. regret: False saves the time that exact regret
    takes, and leaves NaN in its place. history: True keeps every row change. progress: whether to
    show how far the work is; by default on a terminal, and elsewhere by a line every 30 s. device:
    "gpu" plays Q-learners on a GPU, a thousand runs and more side by side, with the same results.
    initial: the policy [H, S] that is deployed at the beginning, by default the lowest allowed
    actions. warm_start: states, actions and rewards [B, H] of episodes that every run knows before
    its first one, as in `Learner.warm_start`. The last two are for the CPU.
    """
    require_word("device", device, get_args(Device))
    if isinstance(mdp, FeatureProblem):
        if device != "cpu" or history or not regret or warm_start is not None:
            raise ValueError(
                "runs with features are on the CPU, with regret, and have neither history nor"
                " warm_start; leave these options out"
            )
        return simulate_features(
            mdp,
            algorithm,
            episodes=episodes,
            seeds=seeds,
            threads=threads,
            progress=progress,
            initial=initial,
        )
    regret, history = require_truth("regret", regret), require_truth("history", history)
    workers = require_count("threads", cores() if threads is None else threads)
    job = Job.of(mdp, algorithm, episodes, checked_seeds(seeds), regret=regret, history=history)
    job = job._replace(beginning=_beginning(mdp, initial, warm_start, device))
    if device == "cpu":
        _require_room(job.knowledge, len(job.seeds), min(workers, len(job.seeds)))
    with Progress(job.steps, unit="steps", show=progress, label=str(algorithm)) as bar:
        (results,) = play_jobs([job], device, workers, bar)
    warn_if_drowned(float(results.drowned_share.mean()), algorithm)
    warn_if_nothing_learned(results)
    _warn_if_beyond_bound(results)
    return results


class _Beginning(NamedTuple):
    """What every run begins with."""

    policy: np.ndarray | None  # [H, S]
    data: tuple[np.ndarray, np.ndarray, np.ndarray] | None  # [B, H] each

    def put_into(self, knowledge: Knowledge) -> Knowledge:
        if self.policy is not None:
            knowledge.begin_with(self.policy)
        if self.data is not None:
            knowledge.count(*self.data)
        return knowledge


def _beginning(
    mdp: TabularMDP, initial: Any, warm_start: tuple[Any, Any, Any] | None, device: Device
) -> _Beginning:
    if device == "gpu" and not (initial is None and warm_start is None):
        raise ValueError(
            "a GPU begins with the lowest allowed actions and without data; leave initial and"
            " warm_start out, or the device"
        )
    policy = None if initial is None else mdp.checked_policy(initial)
    data = None
    if warm_start is not None:
        states, actions, rewards = warm_start
        data = checked_batch(states, actions, rewards, mdp.actions_allowed)
    return _Beginning(policy, data)


def warn_if_nothing_learned(results: Runs) -> None:
    """Say in one line that the last policy of most runs is not better than the first one."""
    first, last = results.first_value, float(np.median(results.last_value))
    who = "the last policy of most runs"
    warn_if_no_better(who, first, last, results.optimal_value, results.algorithm, stacklevel=4)


def warn_if_no_better(
    who: str, first: float, last: float, best: float, algorithm: Algorithm, stacklevel: int = 3
) -> None:
    """Say in one line that the last policy earns no more than the first one, and what may help."""
    if last <= first < best - _SAME_VALUE * abs(best):
        warnings.warn(
            f"nothing was learned: {who} earns {last:.4g} an episode, the first one {first:.4g}, an"
            f" optimal one {best:.4g}; give it more episodes{_more(algorithm)} or take another"
            f" algorithm ({algorithm})",
            NothingLearnedWarning,
            stacklevel=stacklevel,
        )


def _more(algorithm: Algorithm) -> str:
    """What else this algorithm could be given, in words."""
    limited = isinstance(algorithm.schedule, Budget | Calendar | Late)
    scaled = any(hasattr(algorithm.bonus, name) for name in ("c", "c1"))
    return ", more deployments" * limited + ", a smaller c" * scaled + "," * (limited or scaled)


def _warn_if_beyond_bound(results: Runs) -> None:
    """Say that a schedule of one's own promised fewer deployments than there were."""
    names = ("horizon", "states", "actions", "episodes")
    bound = results.algorithm.deployment_bound(**{name: getattr(results, name) for name in names})
    most = int(results.deployments.max())
    if most > bound:
        warnings.warn(
            f"a run made {most:,} deployments, more than the {bound:,.0f} that refresh_bound of"
            f" {results.algorithm.schedule!r} promises; correct refresh_bound",
            RuntimeWarning,
            stacklevel=3,
        )


def _require_room(knowledge: Knowledge, seeds: int, workers: int) -> None:
    """Say before it is allocated that tables and results do not fit."""
    H, S, _ = knowledge.allowed.shape
    each = 8 * (H * S * knowledge.members + 3 * POINTS)
    need = seeds * each + workers * knowledge.nbytes
    require_memory(need, f"{seeds:,} seeds on {workers} threads", "use fewer, or a smaller problem")


class Job(NamedTuple):
    """One algorithm on one problem, under every seed."""

    mdp: TabularMDP
    algorithm: Algorithm
    knowledge: Knowledge
    episodes: int
    seeds: list[int]
    regret: bool
    history: bool
    beginning: _Beginning = _Beginning(None, None)

    @classmethod
    def of(
        cls,
        mdp: TabularMDP,
        algorithm: Algorithm,
        episodes: int,
        seeds: list[int],
        *,
        regret: bool,
        history: bool,
    ) -> Job:
        """The job, once everything is known to fit."""
        require_mdp(mdp)
        require_algorithm(algorithm)
        require_dates(algorithm.schedule)
        episodes = require_count("episodes", episodes)
        require_starts(mdp, episodes)
        size = ProblemSize(mdp.horizon, mdp.states, mdp.actions, episodes)
        knowledge = knowledge_of(algorithm, size, mdp.actions_allowed)
        return cls(mdp, algorithm, knowledge, episodes, seeds, regret, history)

    @property
    def steps(self) -> int:
        """How many steps all its runs have together."""
        return len(self.seeds) * self.episodes * self.mdp.horizon

    def runs(self, costs: Costs, seconds: float) -> Runs:
        """The results, from the costs of its runs in the order of the seeds."""
        mdp, episodes = self.mdp, self.episodes
        regret = mdp.scale.to_regret(costs.regret)
        switches, deployments = costs.local_switches, costs.deployments
        initial = self.beginning.policy
        if initial is None:
            initial = mdp.actions_allowed.argmax(axis=-1)
        return Runs(
            algorithm=self.algorithm,
            horizon=mdp.horizon,
            states=mdp.states,
            actions=mdp.actions,
            episodes=episodes,
            seeds=np.array(self.seeds, dtype=np.int64),
            optimal_value=optimal_value_of(mdp, episodes),
            regret=regret[:, -1].copy(),
            local_switches=switches[:, -1].copy(),
            deployments=deployments[:, -1].copy(),
            triggers=costs.triggers,
            drowned_share=costs.drowned / (episodes * mdp.horizon),
            curves=Curves(curve_points(episodes), regret, switches, deployments),
            initial=initial,
            policy=costs.policy,
            history=costs.histories,
            seconds=seconds,
            **origin(mdp),
            **(self._values(initial, costs.policy) if self.regret else {}),
        )

    def _values(self, initial: np.ndarray, policies: np.ndarray) -> dict[str, Any]:
        """What the first and the last policies earn, and uniform play."""

        def earned(policy: np.ndarray) -> float:
            return start_value(self.mdp, self.mdp.policy_values(policy)[0], self.episodes)

        return {
            "first_value": earned(initial),
            "uniform_value": start_value(self.mdp, self.mdp.uniform_values[0], self.episodes),
            "last_value": np.array([earned(policy) for policy in policies]),
        }


def play_jobs(
    jobs: list[Job], device: Device, workers: int, bar: Progress, checkpoint: Path | None = None
) -> list[Runs]:
    """Play all runs of all jobs; a GPU goes on from the checkpoint where there is one."""
    if device == "gpu":
        return _play_on_gpu(jobs, bar, checkpoint)
    runs = [[_Run(job, seed) for seed in job.seeds] for job in jobs]
    seconds = _play_all(runs, workers, bar)
    return [
        job.runs(_gather(played), seconds / len(jobs))
        for job, played in zip(jobs, runs, strict=True)
    ]


def _play_all(jobs: list[list[_Run]], workers: int, bar: Progress) -> float:
    """Play all runs on threads; return the seconds it took once everything was compiled."""
    from lowswitch.kernels.play import simulate as kernel

    if needs_loading(kernel):
        bar.note(LOADING)
    for first, *_ in jobs:
        first.first_episode().play(threading.Event())  # compiles, and fills what threads share
    bar.start()
    runs = [run for played in jobs for run in played]
    begin = time.perf_counter()
    run_all(
        [run.play for run in runs],
        workers=workers,
        look_up=lambda: bar.update(sum(run.done * run.job.mdp.horizon for run in runs)),
    )
    return time.perf_counter() - begin


def _gather(runs: list[_Run]) -> Costs:
    """The costs of finished runs, an entry or a row for each seed."""
    histories = tuple(run.history for run in runs if run.history is not None)
    return Costs(
        regret=np.stack([run.regret for run in runs]),
        local_switches=np.stack([run.local_switches for run in runs]),
        deployments=np.stack([run.deployments for run in runs]),
        triggers=np.array([run.triggers for run in runs]),
        drowned=np.array([run.drowned for run in runs]),
        policy=np.stack([run.policy for run in runs]),
        histories=histories or None,
    )


def _play_on_gpu(jobs: list[Job], bar: Progress, checkpoint: Path | None) -> list[Runs]:
    """Play jobs that differ in problem and algorithm only, those of one kind in one launch."""
    from lowswitch.gpu.play import player_for

    player = player_for(
        [(job.mdp, job.algorithm, job.knowledge) for job in jobs],
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


def optimal_value_of(mdp: TabularMDP, episodes: int) -> float:
    """V*_1 under the start law, or its mean over the start states that were played."""
    return start_value(mdp, mdp.optimal_values[0], episodes)


def start_value(mdp: TabularMDP, values: np.ndarray, episodes: int) -> float:
    """The mean of values [S] under the start law, or over the start states that were played."""
    starts = mdp.start_sequence[:episodes]
    return float(values[starts].mean()) if len(starts) else mdp.at_start(values)


class _Run:
    """One seed: its tables live while it runs, its costs stay."""

    regret: np.ndarray  # [C]
    local_switches: np.ndarray  # [C]
    deployments: np.ndarray  # [C]
    policy: np.ndarray
    history: History | None
    triggers: int
    drowned: int

    def __init__(self, job: Job, seed: int) -> None:
        self.job, self.seed = job, seed
        self.done = 0  # episodes

    def first_episode(self) -> _Run:
        """A run of the same kind that ends after one episode."""
        return _Run(self.job._replace(episodes=1), self.seed)

    def play(self, stop: threading.Event) -> None:
        mdp, episodes = self.job.mdp, self.job.episodes
        marks = curve_points(episodes)
        knowledge = self.job.beginning.put_into(self.job.knowledge.fresh(self.seed))
        policies = knowledge.policy().actions
        evaluation, gap = evaluation_of(mdp, policies, wanted=self.job.regret)
        account, log = fresh_account(gap, marks), self._fresh_log(knowledge, marks)
        kept: list[np.ndarray] = []
        key, piece = stream_key(self.seed), PieceSize(10**5 // mdp.horizon)
        while self.done < episodes and not stop.is_set():
            with piece:
                first, last = self.done, min(episodes, self.done + piece.size)
                self.done = knowledge.play(mdp.model, evaluation, log, account, key, first, last)
            if self.done < last:  # its time says nothing of how long a larger piece takes
                piece.size = max(1, self.done - first)
            if self.job.history:
                kept.append(log.changes[: log.logged[0]].copy())
                log.logged[0] = 0
        self.regret = account.curve
        self.local_switches, self.deployments = log.switches, log.deployments
        policies = knowledge.policy().actions
        self.policy = policies[0] if knowledge.members == 1 else policies
        self.history = History(np.concatenate(kept)) if self.job.history else None
        self.triggers, self.drowned = knowledge.triggers(), knowledge.drowned

    def _fresh_log(self, knowledge: Knowledge, marks: np.ndarray) -> Log:
        room = _KEPT_CHANGES if self.job.history else _LOGGED_CHANGES
        room = max(room, knowledge.spec.timing.room)
        return Log(
            keep=self.job.history,
            logged=np.zeros(1, dtype=np.int64),
            changes=np.zeros((room, 3 + knowledge.members), dtype=np.int64),
            curve_points=marks,
            switches=np.zeros(len(marks), dtype=np.int64),
            deployments=np.zeros(len(marks), dtype=np.int64),
        )
