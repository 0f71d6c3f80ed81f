"""MBIE and its concurrent form, CMBIE: optimism by confidence intervals for the model, adapted to a
finite horizon.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowswitch import storage
from lowswitch.checks import is_number, require_count, require_scale
from lowswitch.history import History, exact_regret, require_starts
from lowswitch.kernels.arrays import Intervals, IntervalTables
from lowswitch.kernels.streams import stream_key
from lowswitch.machines.mistakes import mistakes, suboptimal_actions
from lowswitch.problems.mdp import TabularMDP
from lowswitch.progress import LOADING, PieceSize, Progress, needs_loading
from lowswitch.simulate import optimal_value_of

_MOST_BYTES = 2**32
_KEPT_CHANGES = 2**16


# ---- confidence ----------------------------------------------------------------------------------


def interval_delta(*, H: int, S: int, A: int, m: int, p: float) -> float:
    """delta_R = delta_T = p / (2 H S A m): the 2 S A m intervals of Strehl and Littman 2008, once
    for each step.

    Both intervals of every (h, x, a) hold after each of its up to m visits, all at once, with
    probability 1 - p.
    """
    return p / (2 * H * S * A * m)


def transition_log(S: int, delta: float) -> float:
    """ln(2^S - 2) - ln delta_T: Strehl and Littman 2008, section 3; 0 for S = 1, where the
    successor is no question.
    """
    if S == 1:
        return 0.0
    return S * math.log(2) + math.log1p(-(2.0 ** (1 - S))) - math.log(delta)


def compile_intervals(
    mdp: TabularMDP, *, episodes: int, c: float, p: float, most_visits: int | None
) -> Intervals:
    """The algorithm's numbers for one problem; an (h, x, a) has at most one visit an episode."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    most = episodes if most_visits is None else min(most_visits, episodes)
    delta = interval_delta(H=H, S=S, A=A, m=most, p=p)
    return Intervals(
        H=H,
        S=S,
        A=A,
        c=float(c),
        reward_log=math.log(2 / delta),
        transition_log=transition_log(S, delta),
        most_visits=most,
        allowed=mdp.actions_allowed,
    )


def fresh_tables(intervals: Intervals) -> IntervalTables:
    """No data, optimism everywhere, and the lowest allowed action deployed."""
    H, S, A = shape = intervals.allowed.shape
    caps = np.arange(H, -1, -1, dtype=float)
    return IntervalTables(
        visits=np.zeros(shape, dtype=np.int32),
        payments=np.zeros(shape),
        successors=np.zeros((H, S, A, S), dtype=np.int32),
        plays=np.zeros(shape, dtype=np.int64),
        stale=np.zeros(shape, dtype=bool),
        q=np.where(intervals.allowed, caps[:-1, None, None], -np.inf),
        v=np.repeat(caps[:, None], S, axis=1),
        order=np.tile(np.arange(S), (H, 1)),
        law=np.zeros(S),
        policy=intervals.allowed.argmax(axis=-1),
    )


# ---- the run -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class MbieRun:
    """What one run of MBIE did and cost; regret is exact, of all machines' episodes, and in the
    problem's reward units.
    """

    machines: int
    rounds: int
    episodes: int  # rounds * machines
    seed: int
    c: float
    p: float
    most_visits: int | None
    horizon: int
    states: int
    actions: int
    optimal_value: float
    regret: float
    history: History  # a row changes after the last episode of a round
    plays: np.ndarray  # [H, S, A]  how often each action was played
    initial: np.ndarray  # [H, S]  deployed at the beginning
    policy: np.ndarray  # [H, S]  deployed at the end
    seconds: float

    def __repr__(self) -> str:
        played = f"{self.episodes:,} episodes in {self.rounds:,} rounds"
        return (
            f"MbieRun({self.name}, {self.machines} machine{'s' * (self.machines > 1)}, {played},"
            f" {self.deployments:,} deployments)"
        )

    @property
    def name(self) -> str:
        """The algorithm: `mbie` on one machine, `cmbie` on several."""
        return name_of(self.machines, self.c)

    @property
    def local_switches(self) -> int:
        """N_sw: the number of row changes."""
        return self.history.local_switches

    @property
    def deployments(self) -> int:
        """N_gl: the number of rounds after which the policy changed."""
        return self.history.deployments

    @property
    def played_under(self) -> np.ndarray:  # [deployments + 1]
        """The episodes that all machines together played under each policy, the first one
        included.
        """
        return np.diff(np.unique(self.history.episode) + 1, prepend=0, append=self.episodes)

    @property
    def steps_per_second(self) -> float:
        """Compilation and regret left out."""
        return self.episodes * self.horizon / self.seconds

    def mistakes(self, mdp: TabularMDP, eps: float) -> int:
        """The actions of all episodes whose policy was more than eps below the optimum under the
        start law.
        """
        return mistakes(mdp, self.history, self.initial, self.played_under, eps)

    def suboptimal_actions(self, mdp: TabularMDP, eps: float) -> int:
        """The actions played that were worse than eps by themselves."""
        return suboptimal_actions(mdp, self.plays, eps)

    def summary(self) -> None:
        """Print what was played and what it cost."""
        from lowswitch import report

        print(report.mbie_summary(self))

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them."""
        return {
            name: getattr(self, name)
            for name in (*_FACTS, "name", "local_switches", "deployments", "steps_per_second")
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration; `MbieRun.load` reads them back."""
        arrays = {name: getattr(self, name) for name in _ARRAYS} | {"history": self.history.changes}
        storage.write(path, _KIND, {name: getattr(self, name) for name in _FACTS}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MbieRun:
        """The run saved in a file."""
        with storage.reading(path, _KIND) as (facts, arrays):
            own = {name: facts[name] for name in _FACTS} | {name: arrays[name] for name in _ARRAYS}
            return cls(history=History(arrays["history"]), **own)


_KIND = "MBIE run"
_FACTS = (
    "machines",
    "rounds",
    "episodes",
    "seed",
    "c",
    "p",
    "most_visits",
    "horizon",
    "states",
    "actions",
    "optimal_value",
    "regret",
    "seconds",
)
_ARRAYS = ("plays", "initial", "policy")


def name_of(machines: int, c: float) -> str:
    return f"{'mbie' if machines == 1 else 'cmbie'}:c={c:g}"


def mbie(
    mdp: TabularMDP,
    *,
    episodes: int,
    machines: int = 1,
    seed: int = 0,
    c: float = 1.0,
    p: float = 0.05,
    most_visits: int | None = None,
    progress: bool | None = None,
) -> MbieRun:
    """Run MBIE (Strehl and Littman 2008), or on several machines CMBIE (Guo and Brunskill 2015),
    with a model for each step.

    episodes: of all machines together, rounded up to whole rounds. In a round each machine plays
    one episode by the same policy, machine m of round r the episode r * machines + m of the seed's
    noise; then all data are pooled and the policy is planned anew. CMBIE pools after each time
    step: here that would be the same, since data of step h bear only on values of the steps up to
    h, which every machine of the round has left behind. c: scales both widths; 1 is the provable
    scale, 0.05 a practical one. p: the probability with which some interval may fail. most_visits:
    the m of MBIE, after which the data of an (h, x, a) are ignored; all are used by default.
    """
    if not isinstance(mdp, TabularMDP):
        raise ValueError(
            f"the problem must be a TabularMDP such as lowswitch.envs.riverswim(), not {mdp!r}"
        )
    machines = require_count("machines", machines)
    rounds = -(-require_count("episodes", episodes) // machines)
    episodes = require_count("rounds * machines", rounds * machines)
    _check_options(seed, c, p, most_visits)
    require_starts(mdp, episodes)
    _require_memory(mdp)
    intervals = compile_intervals(mdp, episodes=episodes, c=c, p=p, most_visits=most_visits)
    tables = fresh_tables(intervals)
    initial = tables.policy.copy()
    label = name_of(machines, c) + ("" if machines == 1 else f",machines={machines}")
    with Progress(episodes * mdp.horizon, unit="steps", show=progress, label=label) as bar:
        history, seconds = _play(
            mdp, intervals, tables, stream_key(int(seed)), machines, episodes, bar
        )
    return MbieRun(
        machines=machines,
        rounds=rounds,
        episodes=episodes,
        seed=int(seed),
        c=float(c),
        p=float(p),
        most_visits=most_visits,
        horizon=mdp.horizon,
        states=mdp.states,
        actions=mdp.actions,
        optimal_value=optimal_value_of(mdp, episodes),
        regret=exact_regret(mdp, history, episodes=episodes, initial=initial),
        history=history,
        plays=tables.plays,
        initial=initial,
        policy=tables.policy,
        seconds=seconds,
    )


def _play(
    mdp: TabularMDP,
    intervals: Intervals,
    tables: IntervalTables,
    key: np.uint64,
    machines: int,
    episodes: int,
    bar: Progress,
) -> tuple[History, float]:
    """Play in pieces, between which an interrupt is heard; return the history and the seconds once
    everything was compiled.
    """
    from lowswitch.kernels import core as kernels

    changes = np.zeros((max(_KEPT_CHANGES, intervals.H * intervals.S), 4), dtype=np.int64)
    kept: list[np.ndarray] = [changes[:0].copy()]
    if needs_loading(kernels.explore):
        bar.note(LOADING)
    kernels.explore(intervals, tables, mdp.model, changes, key, machines, 0, 0)  # compiles
    bar.start()
    begin, done, pace = time.perf_counter(), 0, PieceSize(100)
    while done < episodes:
        with pace:
            last = min(episodes, done + pace.size)
            done, logged = kernels.explore(
                intervals, tables, mdp.model, changes, key, machines, done, last
            )
        kept.append(changes[:logged].copy())
        bar.update(done * intervals.H)
    return History(np.concatenate(kept)), time.perf_counter() - begin


# ---- checks --------------------------------------------------------------------------------------


def _check_options(seed: Any, c: Any, p: Any, most_visits: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0, not {seed!r}")
    require_scale("c", c)
    if not (is_number(p) and 0 < p < 1):
        raise ValueError(
            f"p must lie strictly between 0 and 1, not {p!r}; it is the probability that some"
            " interval may fail"
        )
    if most_visits is not None:
        require_count("most_visits", most_visits)


def _require_memory(mdp: TabularMDP) -> None:
    """The counts of successors are dense: refuse what no machine should be asked for."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    size = H * S * A * (4 * S + 40)
    if size > _MOST_BYTES:
        raise ValueError(
            f"MBIE counts the successors of every (h, x, a), and H = {H}, S = {S}, A = {A} would"
            f" need {size / 2**30:.1f} GiB, more than {_MOST_BYTES / 2**30:g}; use a smaller"
            " problem, or a Q-learner, which keeps H S A numbers"
        )
