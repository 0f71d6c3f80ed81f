"""Many seeds of one algorithm on one problem: what they cost, at the end and along the way."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch import storage
from lowswitch.algorithms.algorithm import Algorithm, require_algorithm
from lowswitch.checks import checked_batch, checked_seeds, require_count
from lowswitch.history import History, PacPolicy, evaluation_of, fresh_account, require_starts
from lowswitch.kernels.arrays import Log
from lowswitch.kernels.streams import stream_key
from lowswitch.learner import warn_if_drowned
from lowswitch.learners import Knowledge, ProblemSize, knowledge_of
from lowswitch.problems.mdp import TabularMDP, require_mdp
from lowswitch.progress import LOADING, PieceSize, Progress, cores, needs_loading, run_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOGGED_CHANGES = 2**11  # few enough to stay in the cache until their regret is known
_KEPT_CHANGES = 2**16


class Curves(NamedTuple):
    """What each run had cost after about 200 log-spaced numbers of episodes."""

    episodes: np.ndarray  # [C]
    regret: np.ndarray  # [seeds, C]
    local_switches: np.ndarray  # [seeds, C]
    deployments: np.ndarray  # [seeds, C]


@dataclass(frozen=True, eq=False, kw_only=True)
class Runs:
    """What the runs of one algorithm on one problem cost.

    Regret is exact and in the problem's reward units.
    """

    algorithm: Algorithm
    horizon: int
    states: int
    actions: int
    episodes: int
    seeds: np.ndarray  # [seeds]
    optimal_value: float
    regret: np.ndarray  # [seeds]
    local_switches: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]
    # visits at which a row might have changed, and episodes after which all rows might have
    triggers: np.ndarray  # [seeds]
    drowned_share: np.ndarray  # [seeds]  share of visits whose bonus was above H
    curves: Curves
    initial: np.ndarray  # [H, S]  deployed at the beginning
    policy: np.ndarray  # [seeds, H, S]  deployed at the end; [seeds, members, H, S] of mixtures
    history: tuple[History, ...] | None  # one for each seed, where it was asked for
    seconds: float

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds):,} seed{'s' * (len(self.seeds) > 1)}"
        size = f"{self._size}, {self.episodes:,} episodes, {seeds}"
        return f"Runs({self.algorithm}, {size}, {self._means})"

    @property
    def _size(self) -> str:
        return f"horizon={self.horizon}, states={self.states}, actions={self.actions}"

    @property
    def _means(self) -> str:
        from lowswitch import report

        return report.means(
            regret=self.regret, local_switches=self.local_switches, deployments=self.deployments
        )

    @property
    def loud_share(self) -> np.ndarray:  # [seeds]
        """The former name of `drowned_share`."""
        return self.drowned_share

    @property
    def steps_per_second(self) -> float:
        """The steps that all threads together made in a second, without the compilation."""
        return self.episodes * self.horizon * len(self.seeds) / self.seconds

    def summary(self) -> None:
        """Print a table with 95 % confidence intervals over the seeds."""
        from lowswitch import report

        print(report.summary({str(self.algorithm): self}))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw regret and switching costs against episodes."""
        from lowswitch import report

        return report.plot({str(self.algorithm): self}, path=path)

    def pac_policy(self, seed: int) -> PacPolicy:
        """The uniform mixture of all policies that the run of this seed deployed."""
        if self.history is None:
            raise ValueError(
                "a PAC policy needs the deployment history; run simulate with history=True"
            )
        if seed not in self.seeds:
            raise ValueError(
                f"there is no run with seed {seed!r}; the seeds are {self.seeds.tolist()}"
            )
        history = self.history[int(np.flatnonzero(self.seeds == seed)[0])]
        return PacPolicy(initial=self.initial, history=history, episodes=self.episodes)

    def to_dict(self) -> dict[str, Any]:
        """The numbers that `--json` prints."""
        return {
            "horizon": self.horizon,
            "states": self.states,
            "actions": self.actions,
            "episodes": self.episodes,
            "seeds": len(self.seeds),
            "algorithm": str(self.algorithm),
            "optimal_value": known(self.optimal_value),
            "regret": _spread(self.regret),
            "local_switches": _spread(self.local_switches),
            "deployments": _spread(self.deployments),
            "steps_per_second": self.steps_per_second,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration; `lowswitch.load` reads them back."""
        storage.save(path, "runs", self)


def load(path: str | os.PathLike[str]) -> Runs:
    """Read the runs that `Runs.save` wrote."""
    return storage.load(path, "runs", Runs)


def _spread(values: np.ndarray) -> dict[str, Any]:
    """The values over the seeds, with their mean and their standard deviation."""
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    return {
        "mean": known(float(values.mean())),
        "sd": deviation,
        "per_seed": [known(value) for value in values.tolist()],
    }


def known(value: float) -> float | None:
    """A number for JSON, which has no NaN: None stands for it."""
    return None if np.isnan(value) else value


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
    initial: Any = None,
    warm_start: tuple[Any, Any, Any] | None = None,
) -> Runs:
    """Run an algorithm for `episodes` episodes of H steps under each seed.

    seeds: how many seeds (0, 1, ...), or which ones. threads: how many threads play, by default one
    for each core; the results do not depend on it. regret: False saves the time that exact regret
    takes, and leaves NaN in its place. history: True keeps every row change. progress: whether to
    show how far the work is; by default on a terminal only. initial: the policy [H, S] that is
    deployed at the beginning, by default the lowest allowed actions. warm_start: states, actions
    and rewards [B, H] of episodes that every run knows before its first one, as in
    `Learner.warm_start`.
    """
    require_mdp(mdp)
    require_algorithm(algorithm)
    episodes = require_count("episodes", episodes)
    require_starts(mdp, episodes)
    numbers = checked_seeds(seeds)
    workers = require_count("threads", cores() if threads is None else threads)
    size = ProblemSize(mdp.horizon, mdp.states, mdp.actions, episodes)
    knowledge = knowledge_of(algorithm, size, mdp.actions_allowed)
    beginning = _beginning(mdp, initial, warm_start)
    runs = [
        _Run(mdp, knowledge, beginning, seed, episodes, regret=regret, history=history)
        for seed in numbers
    ]
    with Progress(
        len(runs) * episodes * mdp.horizon, unit="steps", show=progress, label=str(algorithm)
    ) as bar:
        seconds = _play_all(runs, workers, bar)
    results = _gather(mdp, algorithm, runs, seconds)
    warn_if_drowned(float(results.drowned_share.mean()), algorithm)
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
    mdp: TabularMDP, initial: Any, warm_start: tuple[Any, Any, Any] | None
) -> _Beginning:
    policy = None if initial is None else mdp.checked_policy(initial)
    data = None
    if warm_start is not None:
        states, actions, rewards = warm_start
        data = checked_batch(states, actions, rewards, mdp.actions_allowed)
    return _Beginning(policy, data)


def _play_all(runs: list[_Run], workers: int, bar: Progress) -> float:
    """Play all runs on threads; return the seconds it took once everything was compiled."""
    from lowswitch.kernels.play import simulate as kernel

    if needs_loading(kernel):
        bar.note(LOADING)
    runs[0].first_episode().play(threading.Event())  # compiles, and fills what threads share
    bar.start()
    begin = time.perf_counter()
    run_all(
        [run.play for run in runs],
        workers=workers,
        look_up=lambda: bar.update(sum(run.done * run.mdp.horizon for run in runs)),
    )
    return time.perf_counter() - begin


def _gather(mdp: TabularMDP, algorithm: Algorithm, runs: list[_Run], seconds: float) -> Runs:
    """The costs of finished runs, an entry or a row for each seed."""
    episodes, histories = runs[0].episodes, [run.history for run in runs if run.history is not None]
    return Runs(
        algorithm=algorithm,
        horizon=mdp.horizon,
        states=mdp.states,
        actions=mdp.actions,
        episodes=episodes,
        seeds=np.array([run.seed for run in runs], dtype=np.int64),
        optimal_value=optimal_value_of(mdp, episodes),
        regret=np.array([run.curves.regret[-1] for run in runs]),
        local_switches=np.array([run.curves.local_switches[-1] for run in runs]),
        deployments=np.array([run.curves.deployments[-1] for run in runs]),
        triggers=np.array([run.triggers for run in runs]),
        drowned_share=np.array([run.drowned_share for run in runs]),
        curves=Curves(
            checkpoints(episodes),
            *(np.stack(rows) for rows in zip(*(run.curves[1:] for run in runs), strict=True)),
        ),
        initial=(
            mdp.actions_allowed.argmax(axis=-1)
            if runs[0].beginning.policy is None
            else runs[0].beginning.policy
        ),
        policy=np.stack([run.policy for run in runs]),
        history=tuple(histories) if histories else None,
        seconds=seconds,
    )


def optimal_value_of(mdp: TabularMDP, episodes: int) -> float:
    """V*_1 under the start law, or its mean over the start states that were played."""
    starts = mdp.start_sequence[:episodes]
    return float(mdp.optimal_values[0, starts].mean()) if len(starts) else mdp.optimal_value()


def checkpoints(episodes: int, size: int = 200) -> np.ndarray:
    """About `size` log-spaced numbers of episodes, from 1 to all."""
    return np.unique(np.geomspace(1, episodes, size).round().astype(np.int64))


class _Run:
    """One seed: its tables live while it runs, its costs stay."""

    curves: Curves
    policy: np.ndarray
    history: History | None
    triggers: int
    drowned_share: float

    def __init__(
        self,
        mdp: TabularMDP,
        knowledge: Knowledge,
        beginning: _Beginning,
        seed: int,
        episodes: int,
        *,
        regret: bool,
        history: bool,
    ) -> None:
        self.mdp, self.knowledge, self.seed, self.episodes = mdp, knowledge, seed, episodes
        self.beginning = beginning
        self.wants_regret, self.wants_history = regret, history
        self.done = 0  # episodes

    def first_episode(self) -> _Run:
        """A run of the same kind that ends after one episode."""
        wants = {"regret": self.wants_regret, "history": self.wants_history}
        return _Run(self.mdp, self.knowledge, self.beginning, self.seed, 1, **wants)

    def play(self, stop: threading.Event) -> None:
        mdp, marks = self.mdp, checkpoints(self.episodes)
        knowledge = self.beginning.put_into(self.knowledge.fresh(self.seed))
        policies = knowledge.policy().actions
        evaluation, gap = evaluation_of(mdp, policies, wanted=self.wants_regret)
        account, log = fresh_account(gap, marks), self._fresh_log(knowledge, marks)
        kept: list[np.ndarray] = []
        key, piece = stream_key(self.seed), PieceSize(10**5 // mdp.horizon)
        while self.done < self.episodes and not stop.is_set():
            with piece:
                first, last = self.done, min(self.episodes, self.done + piece.size)
                self.done = knowledge.play(mdp.model, evaluation, log, account, key, first, last)
            if self.done < last:  # its time says nothing of how long a larger piece takes
                piece.size = max(1, self.done - first)
            if self.wants_history:
                kept.append(log.changes[: log.logged[0]].copy())
                log.logged[0] = 0
        regret = mdp.scale.to_regret(account.curve)
        self.curves = Curves(marks, regret, log.switches, log.deployments)
        policies = knowledge.policy().actions
        self.policy = policies[0] if knowledge.members == 1 else policies
        self.history = History(np.concatenate(kept)) if self.wants_history else None
        self.triggers = knowledge.triggers()
        self.drowned_share = knowledge.drowned / (self.episodes * mdp.horizon)

    def _fresh_log(self, knowledge: Knowledge, marks: np.ndarray) -> Log:
        room = _KEPT_CHANGES if self.wants_history else _LOGGED_CHANGES
        room = max(room, knowledge.spec.timing.room)
        return Log(
            keep=self.wants_history,
            logged=np.zeros(1, dtype=np.int64),
            changes=np.zeros((room, 3 + knowledge.members), dtype=np.int64),
            checkpoints=marks,
            switches=np.zeros(len(marks), dtype=np.int64),
            deployments=np.zeros(len(marks), dtype=np.int64),
        )
