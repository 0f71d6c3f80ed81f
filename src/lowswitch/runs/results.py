"""The results of runs: their costs, at the end and along the way, and their origin."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypedDict, TypeVar

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import has_integers, is_integer, shown
from lowswitch.envs.problem import Problem
from lowswitch.history import History, PacPolicy
from lowswitch.io import archive, storage
from lowswitch.io.setting import setting
from lowswitch.show.tables import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


POINTS = 200  # of a curve, about


class Curves(NamedTuple):
    """The costs of each run after about 200 log-spaced numbers of episodes."""

    episodes: np.ndarray  # [C]
    regret: np.ndarray  # [seeds, C]
    local_switches: np.ndarray  # [seeds, C]
    deployments: np.ndarray  # [seeds, C]


def nothing() -> np.ndarray:
    """An empty array, for a field that a kind of problem does not have."""
    return np.zeros(0, dtype=np.int64)


def unknown() -> np.ndarray:
    """The value of one seed, which is not known."""
    return np.array([math.nan])


def curve_points(episodes: int, size: int = POINTS) -> np.ndarray:
    """About `size` log-spaced numbers of episodes, from 1 to all, at which curves have a point."""
    return np.unique(np.geomspace(1, episodes, size).round().astype(np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class Runs:
    """The costs of the runs of one algorithm on one problem.

    Regret is exact and in the problem's reward units; without tables it is sampled, as `measure`
    says. A problem has states or features. With features there are no rows: each deployment counts
    as one local switch, and fields about rows are empty.
    """

    algorithm: Algorithm
    horizon: int
    states: int = 0  # 0 with features
    features: int = 0  # 0 with states
    actions: int
    episodes: int
    seeds: np.ndarray  # [seeds]
    optimal_value: float = math.nan  # NaN where it is not known, as with features
    regret: np.ndarray  # [seeds]
    local_switches: np.ndarray  # [seeds]
    deployments: np.ndarray  # [seeds]
    measure: str = "regret"  # what `regret` is; another word where it is not exact
    drowned_share: np.ndarray  # [seeds]  share of visits whose bonus was above H; 0 with features
    curves: Curves
    seconds: float
    # [seeds]  the sum of all rewards, with features or without tables
    earned: np.ndarray | float | None = None
    # visits at which a row might have changed, and episodes after which all rows might have
    triggers: np.ndarray = field(default_factory=nothing)  # [seeds]
    initial: np.ndarray = field(default_factory=nothing)  # [H, S], [L, H, S]  at the beginning
    # deployed at the end; [seeds, members, H, S] of mixtures
    policy: np.ndarray = field(default_factory=nothing)  # [seeds, H, S]
    history: tuple[History, ...] | None = None  # one for each seed, where it was asked for
    # [seeds]  after how many episodes a run ended that may stop before all; it costs nothing then
    ended: np.ndarray = field(default_factory=nothing)
    # rewards per episode, to compare with the optimal value; NaN if regret is unknown
    first_value: float = math.nan  # of the policy deployed at the beginning
    uniform_value: float = math.nan  # of playing all allowed actions equally often
    last_value: np.ndarray = field(default_factory=unknown)  # [seeds]
    delay: int = 0  # after how many more episodes the outcome of an episode was known
    # where they come from; empty where it is not known
    problem: str = ""  # its name
    fingerprint: str = ""  # of its tables: equal for equal problems
    made_with: str = ""  # the version of the library
    date: str = ""  # when they ended, in universal time
    made_on: dict[str, str] = field(default_factory=dict)  # commit, Python, numpy, numba, CPU

    def __repr__(self) -> str:
        seeds = f"{len(self.seeds):,} seed{'s' * (len(self.seeds) > 1)}"
        size = f"{self._size}, {self.episodes:,} episodes, {seeds}"
        return f"Runs({self.algorithm}, {size}, {self._means})"

    @property
    def size(self) -> dict[str, int]:
        """The horizon, the states or the features, and the actions of the problem."""
        names = ("horizon", "features" if self.features else "states", "actions")
        return {name: getattr(self, name) for name in names}

    @property
    def _size(self) -> str:
        return ", ".join(f"{name}={number}" for name, number in self.size.items())

    @property
    def _means(self) -> str:
        from lowswitch.show import report

        costs = {"local_switches": self.local_switches, "deployments": self.deployments}
        return report.means(**{self.measure: self.regret}, **costs)

    @property
    def loud_share(self) -> np.ndarray:  # [seeds]
        """The former name of `drowned_share`."""
        return self.drowned_share

    @property
    def earned_per_episode(self) -> np.ndarray:  # [seeds]
        """The mean reward of a run per episode."""
        if self.earned is not None:
            return np.reshape(np.array(self.earned), -1) / self.episodes
        played = self.ended if len(self.ended) else self.episodes
        return self.optimal_value - self.regret / played

    @property
    def steps_per_second(self) -> float:
        """The steps that all threads together made in a second, without the compilation."""
        played = self.ended.sum() if len(self.ended) else self.episodes * len(self.seeds)
        return float(played * self.horizon / self.seconds)

    def summary(self, columns: Sequence[str] | None = None) -> Summary:
        """A table with 95 % confidence intervals over the seeds, to print or display.

        Parameters
        ----------
        columns
            The columns in this order; by default all.
        """
        from lowswitch.show import report

        return report.summary({self.algorithm.label: self}, columns)

    def plot(self, path: str | os.PathLike[str] | None = None, **options: Any) -> Figure:
        """Draw regret and switching costs against episodes, with the options of `ls.plot`."""
        from lowswitch.show import plotting

        return plotting.plot(self, path=path, **options)

    def to_dataframe(
        self,
        library: Literal["pandas", "polars"] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """The curves as a data frame: a line for each seed and number of episodes.

        Parameters
        ----------
        library
            "pandas" or "polars"; by default the one that is installed.
        columns
            The columns in this order; by default all.
        """
        from lowswitch.show import report

        return report.to_dataframe({str(self.algorithm): self}, library, columns)

    def to_csv(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        """Write the curves as comma-separated values, as in `to_dataframe`."""
        from lowswitch.show import report

        report.to_csv({str(self.algorithm): self}, path, columns)

    def to_latex(self, columns: Sequence[str] | None = None, *, label: str | None = None) -> str:
        """The table of `summary` for a paper, with the rules of the package booktabs.

        For a table of several runs, use `ls.summary({"UCB2": one, "UCB": other}).to_latex()`.

        Parameters
        ----------
        columns
            The columns in this order; by default all except the speed of the machine.
        label
            The name of the row, by default the text of the algorithm.
        """
        from lowswitch.show import report

        return report.summary({label or self.algorithm.label: self}).to_latex(columns)

    def pac_policy(self, seed: int) -> PacPolicy:
        """The uniform mixture of all policies that the run of this seed deployed."""
        if self.history is None:
            raise ValueError(
                "a PAC policy needs the deployment history; run simulate with history=True"
            )
        if not (is_integer(seed) and int(seed) in self.seeds.tolist()):
            seeds = shown(self.seeds.tolist())
            raise ValueError(f"there is no run with seed {shown(seed)}; the seeds are {seeds}")
        history = self.history[int(np.flatnonzero(self.seeds == seed)[0])]
        return PacPolicy(initial=self.initial, history=history, episodes=self.episodes)

    def to_dict(self) -> dict[str, Any]:
        """The numbers that `--json` prints."""
        return {
            **self.size,
            "episodes": self.episodes,
            "seeds": len(self.seeds),
            "algorithm": str(self.algorithm),
            "optimal_value": known(self.optimal_value),
            "first_value": known(self.first_value),
            "uniform_value": known(self.uniform_value),
            "last_value": _spread(self.last_value),
            self.measure.replace(" ", "_"): _spread(self.regret),
            "local_switches": _spread(self.local_switches),
            "deployments": _spread(self.deployments),
            "steps_per_second": self.steps_per_second,
            **({"ended": self.ended.tolist()} if len(self.ended) else {}),
        }

    def require_whole(self) -> None:
        """Raise a ValueError if sizes or values do not fit the problem and the seeds."""
        seeds = len(self.seeds)
        if not (seeds and self.seconds > 0 and self.episodes >= 0):
            raise ValueError("it has no seeds, or took no time")
        if (self.states > 0) == (self.features > 0):
            raise ValueError(f"it has {self.states} states and {self.features} features")
        self._require_shapes(seeds)
        for name in ("initial", "policy"):
            actions = getattr(self, name)
            if not has_integers(actions) or not ((actions >= 0) & (actions < self.actions)).all():
                raise ValueError(f"{name} has actions outside 0 to {self.actions - 1}")
        if self.history is not None and len(self.history) != seeds:
            raise ValueError(f"it has {len(self.history)} histories for {seeds} seeds")
        if self.features and (self.earned is None or np.size(self.earned) != seeds):
            raise ValueError("it does not say what each seed earned")

    def _require_shapes(self, seeds: int) -> None:
        H, S, points = self.horizon, self.states, self.curves.episodes.shape
        shapes: dict[str, Any] = dict.fromkeys(("seeds", *_PER_SEED), (seeds,))
        if S:
            lasting = (seeds, *self.policy.shape[1:-2], H, S)
            shapes |= {"triggers": (seeds,), "initial": (*self.initial.shape[:-2], H, S)}
            shapes["policy"] = lasting
        if len(self.ended):
            shapes["ended"] = (seeds,)
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has the shape {getattr(self, name).shape}, not {shape}")
        for name, curve in self.curves._asdict().items():
            if curve.shape != (points if name == "episodes" else (seeds, *points)):
                raise ValueError(f"the curve of {name} has the shape {curve.shape}")

    kind = "runs"  # of its files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results with their configuration; `load` reads them back."""
        storage.save(path, self.kind, self)
        warn_of_own_parts(path, [self.algorithm])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the runs that `save` wrote, as `lowswitch.load` does."""
        return loaded(cls, path)


_PER_SEED = ("regret", "local_switches", "deployments", "drowned_share")
AnyRuns = TypeVar("AnyRuns", bound=Runs)


def load(path: str | os.PathLike[str]) -> Runs:
    """Read the runs that `Runs.save` wrote.

    If a class of the algorithm is unknown here, a warning is given, and the algorithm is only its
    text.

    Parameters
    ----------
    path
        The file.
    """
    return loaded(Runs, path)


def loaded(wanted: type[AnyRuns], path: str | os.PathLike[str]) -> AnyRuns:
    """Read the runs of this type that were saved."""
    with storage.reading(path, wanted.kind) as (facts, arrays):
        facts["algorithm"] = algorithm_of(facts["algorithm"], path)
        if "local_switches" not in facts:
            _count_deployments(facts, arrays)
        runs: AnyRuns = storage.unpack(wanted, facts, arrays)
        runs.require_whole()
        return runs


def warn_of_own_parts(path: str | os.PathLike[str], algorithms: Sequence[Algorithm]) -> None:
    """Say that a file cannot restore the classes that are defined in the script itself."""
    for part in (part for algorithm in algorithms for part in algorithm.own_parts):
        if type(part).__module__ == "__main__":
            warnings.warn(
                f"{type(part).__name__} is defined in the script itself, so {str(path)!r} stores"
                f" the results but cannot restore the algorithm ({part!r}); move the class to a"
                " module that you import",
                UserWarning,
                stacklevel=3,
            )


def algorithm_of(facts: dict[str, Any], path: str | os.PathLike[str]) -> Algorithm | AlgorithmText:
    """The algorithm of saved results, or its text if one of its classes is not known here."""
    try:
        return Algorithm.from_dict(facts)
    except archive.UnknownPartError as error:
        warnings.warn(
            f"the results in {str(path)!r} are complete, but only the text of its algorithm was"
            f" read: {error}",
            AlgorithmTextWarning,
            stacklevel=4,
        )
        return AlgorithmText(facts)


def _count_deployments(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Add what files of runs with features did not say before all runs had one form."""
    switches = arrays["deployments"]
    arrays["local_switches"], arrays["drowned_share"] = switches, np.zeros(len(switches))
    arrays["curves.local_switches"] = arrays["curves.deployments"]
    facts |= dict.fromkeys(("local_switches", "drowned_share"))
    facts["curves"]["local_switches"] = None


class AlgorithmTextWarning(UserWarning):
    """A class of an algorithm is not known here, and only its text was read."""


class AlgorithmText:
    """The text of an algorithm, if one of its classes is not known here."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    own_parts: tuple[Any, ...] = ()

    def __str__(self) -> str:
        kinds = [part["kind"] for part in self.facts.values() if isinstance(part, dict)]
        return str(self.facts.get("text", " ".join(kinds)))

    __repr__ = __str__

    @property
    def label(self) -> str:
        """The text, as for an algorithm that is known."""
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The facts as they were read."""
        return self.facts

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AlgorithmText:
        """What `to_dict` wrote."""
        return cls(data)


class Origin(TypedDict):
    """The fields of `Runs` about their origin."""

    problem: str
    fingerprint: str
    made_with: str
    date: str
    made_on: dict[str, str]


def origin(problem: Problem | None, name: str = "") -> Origin:
    """The origin of results that end now; `name` is for a source that is not a problem."""
    return Origin(
        problem=name if problem is None else problem.name,
        fingerprint="" if problem is None else storage.short_fingerprint(problem.facts()),
        made_with=f"lowswitch {archive.library_version()}",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        made_on=setting(),
    )


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
