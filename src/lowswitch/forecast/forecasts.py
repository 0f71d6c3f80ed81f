"""The planner: run the default and its rivals on drawn problems, and summarise the results."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.meetings import Asked
from lowswitch.algorithms.recipes import few, psrl
from lowswitch.algorithms.schedules import Budget
from lowswitch.algorithms.text import as_dates
from lowswitch.checks import checked_mask, checked_policy, is_number, require_count, shown
from lowswitch.envs.mdp import TabularMDP
from lowswitch.features.problem import FeatureProblem
from lowswitch.forecast import feature_draws, page
from lowswitch.forecast.draws import (
    Logged,
    PresentProblem,
    ProblemPosterior,
    Size,
    checked_logs,
    checked_size,
    problem_of_size,
    problem_with_present,
)
from lowswitch.history import deployment_gaps
from lowswitch.io import storage
from lowswitch.runs.simulate import NothingLearnedWarning, simulate
from lowswitch.runs.units import Crew, Fleet, Keep, Threads, crew_of, each
from lowswitch.show.progress import LOADING, Progress
from lowswitch.table_learner import BonusWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERVAL = (0.1, 0.5, 0.9)  # quantiles: 80 % of the problems lie between the outer two
SURE = 0.95  # the probability above which the new policy is said to beat the present one
MORE = 1000  # episodes


class Outcome(NamedTuple):
    """The run of one algorithm on one problem."""

    dates: np.ndarray  # [n]  numbers of episodes after which something could change
    values: np.ndarray  # [n + 1]  of the policy deployed initially, and after each date
    optimal: np.ndarray  # [1]
    regret: np.ndarray  # [1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Forecast:
    """What to expect of one algorithm: an entry, or a row, for each problem."""

    algorithm: Algorithm
    dates: np.ndarray  # [n]
    values: np.ndarray  # [problems, n + 1]
    optimal: np.ndarray  # [problems]
    regret: np.ndarray  # [problems]

    def interval(self) -> np.ndarray:  # [3, n + 1]
        """The 10 %, 50 % and 90 % quantiles of the value, initially and after each date.

        A further problem lies between these quantiles with this probability: the i-th of n values
        stands for i / (n + 1).
        """
        return np.asarray(np.quantile(self.values, INTERVAL, axis=0, method="weibull"))

    def best_interval(self) -> list[float]:
        """The same quantiles for the value of the best policy."""
        found: list[float] = np.quantile(self.optimal, INTERVAL, method="weibull").tolist()
        return found

    @property
    def better(self) -> np.ndarray:  # [n]
        """The share of problems in which the policy deployed on each date beats the initial
        policy.
        """
        return np.asarray((self.values[:, 1:] > self.values[:, :1] + 1e-12).mean(axis=0))

    @property
    def sure_after(self) -> int | None:
        """The first date after which the new policy beats the initial one in 95 % of the
        problems.
        """
        sure = np.flatnonzero(np.append(self.better < SURE, False))
        first = int(sure[-1]) + 1 if len(sure) else 0
        return int(self.dates[first]) if first < len(self.dates) else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What to run for N deployments, and what to expect of it."""

    source: str  # what the plan knew of the problem
    size: tuple[int, int, int]  # H, S, A
    episodes: int
    problems: int
    default: Forecast
    rivals: tuple[Forecast, ...]
    one_more: Forecast  # with one more deployment
    longer: Forecast  # with `MORE` more episodes
    # the initial policy: "given", "usual" in logged episodes, "drawn" by its reward, or "lowest"
    first: str = "lowest"
    compared: float = 1.0  # the share of logged visits in states where several actions were tried
    features: int = 0  # how many numbers describe a case; 0 if there are states
    paid: bool = True  # whether any logged reward was above 0

    def page(self, width: int | None = None) -> str:
        """The answer on one page, with lines of at most `width` characters."""
        return page.written(self, width)

    def expected(self) -> list[tuple[int, float, float, float]]:
        """The expected reward per episode of the default: numbers of episodes, and 10 %, 50 % and
        90 %.

        `Ledger.create(forecast=)` takes the plan or these lines.
        """
        ends = self.default.interval().T.tolist()
        after = [0, *self.default.dates.tolist()]
        return [(n, low, middle, high) for n, (low, middle, high) in zip(after, ends, strict=True)]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the expected value against the episodes."""
        return page.plot(self, path=path)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can store it."""
        facts: dict[str, Any] = storage.pack(self)
        return facts | {"answer": page.answer(self), "expected": self.expected()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON."""
        storage.write_text(path, json.dumps(self.to_dict()))

    def __repr__(self) -> str:
        use = page.answer(self)["use"]
        return f"Plan({self.source}, {self.episodes:,} episodes, {self.problems} problems, {use})"


def plan(
    problem: Any,
    *,
    episodes: int,
    deployments: int | None = None,
    deployments_at: Any = None,
    gap: int = 1,
    size: Any = None,
    initial: Any = None,
    actions_allowed: Any = None,
    present_reward: float | None = None,
    problems: int = 40,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    fleet: Fleet | None = None,
) -> Plan:
    """Say what to run for a budget of deployments, and what to expect of it.

    Parameters
    ----------
    problem
        What is known about the problem. Three whole numbers (H, S, A) are a size: problems of that
        size are drawn. Three arrays [episodes, H], states, actions and rewards, are logged
        episodes: problems are drawn from the posterior, and every run knows these episodes. A
        `TabularMDP` is a simulator: the runs differ in their seeds. With features, {"features": 5,
        "actions": 4} is a size, and a `FeatureProblem` with one step is a simulator.
    episodes
        The number of episodes of the run.
    deployments, deployments_at, gap
        As for `few`. With dates, a board that asks on these dates is tried too.
    size
        The size (H, S, A) of logged episodes that do not show all states and actions.
    initial
        The present policy [H, S]; with features a LinearPolicy. By default it is the most frequent
        action in logged episodes, or else the initial policy of each algorithm.
    actions_allowed
        A mask [H, S, A] of the allowed actions, for problems drawn from a size alone; a simulator
        has its own mask.
    present_reward
        What the present policy earns per episode, if only the size is known. Then only problems are
        drawn in which it earns exactly that.
    problems
        How many problems are drawn.
    folder
        Where finished runs are saved, so that the same call resumes after an interruption.
    progress
        Whether to show progress, as in `lowswitch.simulate`.
    fleet
        `concurrent.Ray` shares all runs among the nodes of a cluster. The folder keeps every run
        as soon as it is finished.

    Returns
    -------
    Plan
        The recommended algorithm, its forecast, and the forecasts of its rivals.
    """
    episodes, problems = require_count("episodes", episodes), require_count("problems", problems)
    source = _source(problem, size, initial, present_reward)
    if actions_allowed is not None:
        source = _restricted(source, actions_allowed)
    dates = None if deployments_at is None else as_dates(deployments_at)
    default = few(deployments=deployments, deployments_at=dates, gap=gap)
    kept = storage.Kept(None if folder is None else Path(folder) / "kept")
    rivals = _rivals(default, dates, gap, features=source.features > 0)
    algorithms = [default, *rivals, _one_more(default, dates, gap, episodes)]
    tried = [*((one, episodes) for one in algorithms), (default, episodes + MORE)]
    bar = Progress(len(tried) * problems, unit="runs", show=progress, label="plan")
    with bar, crew_of(fleet) as crew:
        bar.note(LOADING)
        *found, longer = _forecasts(source, tried, problems, kept, crew or Threads(), bar)
    return Plan(
        source=source.words,
        size=(source.size.horizon, source.size.states, source.size.actions),
        episodes=episodes,
        problems=problems,
        default=found[0],
        rivals=tuple(found[1:-1]),
        one_more=found[-1],
        longer=longer,
        first=source.first,
        compared=source.compared,
        features=source.features,
        paid=source.paid,
    )


# ---- what is known about the problem -------------------------------------------------------------


class _Source(NamedTuple):
    """The source of the drawn problems, and the initial knowledge of every run."""

    words: str
    size: Size
    problem: Callable[[int], Any]  # a TabularMDP, or a FeatureProblem
    initial: Any
    first: str  # see `Plan`
    logged: Logged | None
    facts: Any  # distinguishes it from other sources, as JSON can store it
    compared: float = 1.0  # see `Plan`
    initial_of: Callable[[int], np.ndarray] | None = None  # if each problem has its own
    features: int = 0  # see `Plan`
    paid: bool = True  # see `Plan`


@singledispatch
def _source(problem: Any, size: Any, initial: Any, reward: float | None) -> _Source:
    try:
        parts = [np.asarray(part) for part in problem]
    except TypeError:
        parts = []
    if len(parts) == 3 and all(part.ndim == 0 for part in parts):
        return _from_size(checked_size(problem), initial, reward)
    if len(parts) != 3:
        raise ValueError(
            "a plan needs a TabularMDP, a size (H, S, A), or logged episodes (states, actions,"
            f" rewards), not {problem!r}"
        )
    _require_no_reward(reward, "the logged episodes say")
    logged, checked = checked_logs(parts, size)
    posterior = ProblemPosterior(logged, checked)
    first = "usual" if initial is None else "given"
    if initial is None:
        initial = posterior.usual_policy()
    facts = [list(checked), *(array.tolist() for array in logged)]
    words, compared = f"{len(logged.states):,} logged episodes", posterior.compared()
    source = _Source(words, checked, posterior.problem, initial, first, logged, facts, compared)
    return source._replace(paid=bool(logged.rewards.max() > 0))


def _from_size(size: Size, initial: Any, reward: float | None) -> _Source:
    """Problems of a size; if the present policy's reward is known, problems in which it earns
    that.
    """
    if reward is None:
        first, of_size = "lowest" if initial is None else "given", partial(problem_of_size, size)
        return _Source("its size alone", size, of_size, initial, first, None, list(size))
    if not (is_number(reward) and 0 <= reward <= size.horizon):
        raise ValueError(
            f"present_reward must be a number from 0 to {size.horizon}, the most that"
            f" {size.horizon} rewards of at most 1 add up to, not {shown(reward)}; rescale it"
        )
    drawn = partial(_with_present, size, float(reward))
    return _Source(
        words="its size and the present policy's reward",
        size=size,
        problem=lambda number: drawn(number).mdp,
        initial=None,
        first="drawn",
        logged=None,
        facts=[*size, float(reward)],
        initial_of=lambda number: drawn(number).policy,
    )


@functools.lru_cache(maxsize=256)
def _with_present(size: Size, reward: float, number: int) -> PresentProblem:
    """A drawn problem, which every algorithm meets."""
    return problem_with_present(size, reward, number)


def _require_no_reward(reward: float | None, known: str) -> None:
    if reward is not None:
        raise ValueError(
            f"{known} what the present policy earns; leave present_reward out, or give "
            "the size instead"
        )


@_source.register
def _simulator(problem: TabularMDP, size: Any, initial: Any, reward: float | None) -> _Source:
    _require_no_reward(reward, "the simulator says")
    first = "lowest" if initial is None else "given"
    made = Size(**problem.size)
    return _Source("a simulator", made, lambda _: problem, initial, first, None, problem.facts())


@_source.register
def _vectors(problem: FeatureProblem, size: Any, initial: Any, reward: float | None) -> _Source:
    if problem.shape.horizon != 1:
        raise ValueError(
            f"a plan with features supports only one step so far, but {problem!r} has "
            f"{problem.shape.horizon}; simulate it instead"
        )
    return _of_vectors("a simulator", lambda _: problem, problem.facts(), initial, reward)


@_source.register(dict)
def _sized(problem: dict[str, Any], size: Any, initial: Any, reward: float | None) -> _Source:
    d, A = feature_draws.checked_features_size(problem)
    draw = partial(feature_draws.drawn_bandit, d, A)
    return _of_vectors("its size alone", draw, [d, A], initial, reward)


def _of_vectors(
    words: str, draw: Callable[[int], FeatureProblem], facts: Any, initial: Any, reward: Any
) -> _Source:
    """Problems with features."""
    if reward is not None:
        raise ValueError(
            "present_reward= works only with tables so far; with features, leave it out"
        )
    shape, first = draw(0).shape, "lowest" if initial is None else "given"
    if initial is not None:
        facts = [facts, initial.identity]
    size = Size(1, 1, shape.actions)
    return _Source(words, size, draw, initial, first, None, facts, features=shape.features)


def _restricted(source: _Source, actions_allowed: Any) -> _Source:
    """Problems of a size with some forbidden actions."""
    if source.words != "its size alone" or source.features:
        raise ValueError(
            "actions_allowed= is for a plan from a size (H, S, A); a TabularMDP has its own mask,"
            " and logged episodes show what was played"
        )
    mask = checked_mask(actions_allowed, *source.size)
    if source.initial is not None:
        checked_policy(source.initial, mask)
    draw = partial(problem_of_size, source.size, allowed=mask)
    return source._replace(problem=draw, facts=[source.facts, mask.astype(int).tolist()])


# ---- the algorithms to try -----------------------------------------------------------------------


def _rivals(
    default: Algorithm, dates: tuple[int, ...] | None, gap: int, *, features: bool
) -> list[Algorithm]:
    """The rivals: one policy at a time, and posterior sampling with a fixed prior on a geometric
    grid.

    With dates there is also the algorithm of a board that meets and asks on these dates. With
    features there is only the first one.
    """
    budget = default.schedule
    assert isinstance(budget, Budget)
    most = budget.deployments or 1
    when = budget.schedule if dates is not None else f"grid/geometric/{most + 1}"
    one = few(deployments=most, deployments_at=dates, gap=gap, members=1)
    if features:
        return [one]
    fixed = psrl(members=32, schedule=when, deployments=most, last="greedy")
    asked = [] if dates is None else [psrl(schedule=Asked(dates), deployments=most)]
    return [one, fixed, *asked]


def _one_more(
    default: Algorithm, dates: tuple[int, ...] | None, gap: int, episodes: int
) -> Algorithm:
    """The default with one more deployment; with given dates, in the middle of the longest
    interval.

    That date may be closer to its neighbours than the requested gap.
    """
    assert isinstance(default.schedule, Budget)
    if dates is None:
        return few(deployments=(default.schedule.deployments or 1) + 1, gap=gap)
    ends = np.array([0, *dates, episodes])
    widest = int(np.diff(ends).argmax())
    middle = int(ends[widest : widest + 2].sum() // 2)
    more = tuple(sorted({*dates, middle} - {0}))
    most = min((default.schedule.deployments or 1) + 1, len(more))
    return few(deployments_at=more, deployments=most)


def _forecasts(
    source: _Source,
    tried: list[tuple[Algorithm, int]],
    problems: int,
    kept: storage.Kept,
    crew: Crew,
    bar: Progress,
) -> list[Forecast]:
    """What to expect of each of these algorithms in so many episodes, on the drawn problems."""
    initial, first = source.initial, None
    if initial is not None and not source.features:
        first = np.asarray(initial).tolist()
    units = [(source, *one, number) for one in tried for number in range(problems)]
    facts = [
        [source.facts, first, episodes, algorithm.facts(), number]
        for _, algorithm, episodes, number in units
    ]
    found = dict[int, Outcome]()
    for place, outcome in each(crew, _outcome, units, facts, Keep(kept, "outcome", Outcome)):
        found[place] = outcome
        bar.update(len(found), f"  {units[place][1]}")
    return [
        _forecast(algorithm, [found[i * problems + number] for number in range(problems)])
        for i, (algorithm, _) in enumerate(tried)
    ]


def _forecast(algorithm: Algorithm, outcomes: list[Outcome]) -> Forecast:
    return Forecast(
        algorithm=algorithm,
        dates=outcomes[0].dates,
        values=np.stack([outcome.values for outcome in outcomes]),
        optimal=np.concatenate([outcome.optimal for outcome in outcomes]),
        regret=np.concatenate([outcome.regret for outcome in outcomes]),
    )


def _outcome(source: _Source, algorithm: Algorithm, episodes: int, number: int) -> Outcome:
    """The run of an algorithm on one of the drawn problems, wherever it is played."""
    mdp = source.problem(number)
    if source.features:
        found = feature_draws.followed(mdp, algorithm, episodes, number, source.initial)
        return Outcome(
            found.dates, found.values, np.array([found.optimal]), np.array([found.regret])
        )
    with warnings.catch_warnings():
        for kind in (BonusWarning, NothingLearnedWarning):
            warnings.simplefilter("ignore", kind)
        runs = simulate(
            mdp,
            algorithm,
            episodes=episodes,
            seeds=[number],
            threads=1,
            history=True,
            progress=False,
            initial=source.initial if source.initial_of is None else source.initial_of(number),
            warm_start=source.logged,
        )
    (history,) = runs.history or ()
    gaps = deployment_gaps(mdp, history, initial=runs.initial)
    dates = np.array(
        algorithm.schedule.grid_for(
            horizon=mdp.horizon, states=mdp.states, actions=mdp.actions, episodes=episodes
        )
    )
    changed = np.unique(history.episode) + 1
    after = np.searchsorted(changed, dates, side="right")
    values = mdp.optimal_value() - np.concatenate([gaps[:1], gaps[after]])
    return Outcome(dates, values, np.array([mdp.optimal_value()]), runs.regret)
