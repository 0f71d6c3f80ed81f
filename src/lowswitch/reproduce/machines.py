"""Runs on many machines beside the sequential runs that they must repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lowswitch import concurrent
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import ucb2_bernstein, ucb2_hoeffding, ucb_hoeffding
from lowswitch.concurrent.runner import RoundRule
from lowswitch.history import History
from lowswitch.reproduce.lab import Lab
from lowswitch.reproduce.qlearning import ONE_STATE, PROBLEMS, SCALE
from lowswitch.runs.results import Runs

RIVER = "RiverSwim"
# elsewhere they would play dozens or hundreds of episodes in vain for each one kept
EVEN_MORE = {"random (5, 3, 5)": (1000,)}
MANY = 100  # machines, the most elsewhere; played with every seed
RULES: tuple[RoundRule, ...] = ("trigger", "switch", "speculate")
LEARNERS: dict[str, Callable[..., Algorithm]] = {"UCB2-H": ucb2_hoeffding, "UCB2-B": ucb2_bernstein}
SMALL = "one state, H = 2"  # where the scale of the proof does not drown everything
PROVED = {  # at that scale
    "UCB2-H, c = 1": ucb2_hoeffding(c=1.0),
    "UCB2-B, c1 = 1, c2 = 2": ucb2_bernstein(c1=1.0, c2=2.0),
}
BASELINE, BASELINE_MACHINES = "UCB-H", (1, 10, MANY)


class RoundsCase(NamedTuple):
    """One concurrent run: the problem and learner, the number of machines, and the rule."""

    problem: str
    learner: str
    rule: RoundRule
    machines: int
    seed: int = 0


class RoundsPlayed(NamedTuple):
    """How many rounds a concurrent run took, and whether it repeated the sequential run."""

    rounds: int
    same: bool  # first policy and changes as in the sequential run
    curve: np.ndarray  # [C]  rounds, at the episodes of the sequential run's curves


Sequential = Mapping[tuple[str, str], Runs]  # by problem and learner, with histories
Rounds = Mapping[RoundsCase, RoundsPlayed]


def sequential_runs(lab: Lab, problem: str, algorithm: Algorithm) -> Runs:
    """The runs that many machines must repeat."""
    episodes, seeds = lab.effort.episodes // 10, max(1, lab.effort.seeds // 8)
    return lab.runs(problem, algorithm, episodes=episodes, seeds=seeds, history=True)


def all_sequential(lab: Lab) -> Sequential:
    """The sequential runs of every problem and learner."""
    algorithms = {
        (problem, learner): recipe(c=SCALE)
        for problem in PROBLEMS
        for learner, recipe in LEARNERS.items()
    }
    algorithms |= {(SMALL, learner): algorithm for learner, algorithm in PROVED.items()}
    algorithms[RIVER, BASELINE] = ucb_hoeffding(c=SCALE)
    return {
        key: sequential_runs(lab, text_of(key[0]), algorithm)
        for key, algorithm in algorithms.items()
    }


def text_of(problem: str) -> str:
    """The text form of a problem, which `envs.make` reads."""
    return ONE_STATE[problem] if problem == SMALL else PROBLEMS[problem]


def play_all(lab: Lab, sequential: Sequential) -> Rounds:
    """The rounds of every case, really run."""
    cases = list(_cases(sequential, lab.effort.machines))
    episodes = sequential[RIVER, BASELINE].episodes

    def compute(place: int) -> RoundsPlayed:
        case = cases[place]
        runs = sequential[case.problem, case.learner]
        run = concurrent.run(
            lab.make(text_of(case.problem)),
            runs.algorithm,
            episodes,
            machines=case.machines,
            rule=case.rule,
            seed=case.seed,
            regret=False,
            progress=False,
        )
        return RoundsPlayed(run.rounds, same_path(run, runs, case.seed), run.rounds_curve)

    configurations = [
        [
            lab.text(text_of(case.problem)),
            sequential[case.problem, case.learner].algorithm.facts(),
            episodes,
            *case[2:],
        ]
        for case in cases
    ]
    found = lab.measure_each("rounds", configurations, compute, RoundsPlayed, episodes=episodes)
    return dict(zip(cases, found, strict=True))


def _cases(sequential: Sequential, machines: Sequence[int]) -> Iterator[RoundsCase]:
    for (problem, learner), runs in sequential.items():
        if learner == BASELINE:
            yield from (RoundsCase(problem, learner, "switch", M) for M in BASELINE_MACHINES)
            continue
        for rule in RULES:
            for M in (*machines, *EVEN_MORE.get(problem, ())):
                yield from (
                    RoundsCase(problem, learner, rule, M, seed)
                    for seed in range(len(runs.seeds) if M == MANY else 1)
                )


def same_path(run: concurrent.ConcurrentRun, sequential: Runs, seed: int) -> bool:
    """The same first policy and the same changes after the same episodes."""
    changes, expected = history_of(run, 0).changes, history_of(sequential, seed).changes
    return np.array_equal(run.initial, sequential.initial) and np.array_equal(changes, expected)


def history_of(runs: Runs, seed: int) -> History:
    """The deployment history of runs that kept it."""
    return (runs.history or ())[seed]


def count_rounds(history: History, episodes: int, machines: int) -> int:
    """The rounds that M machines need if episodes played past a deployment are thrown away.

    It is the sum over deployments of ceil(L / M).

    The learner is told the machines' episodes in order, up to the one after which the policy
    changes. So the path equals the sequential run, and the L episodes between two deployments take
    ceil(L / M) rounds: Bai et al. 2019, proof of Theorem 5, with real changes for triggers.
    """
    return int(np.ceil(phase_lengths(history, episodes) / machines).sum())


def phase_lengths(history: History, episodes: int) -> np.ndarray:  # [deployments + 1]
    """How long each policy is played in the first `episodes` episodes."""
    ends = np.unique(history.episode) + 1
    return np.diff(np.append(ends[ends < episodes], episodes), prepend=0)
