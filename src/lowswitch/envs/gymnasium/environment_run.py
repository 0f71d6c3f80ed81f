"""The result of `learn`: its learner, the return of each episode, and every policy change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.checks import require_word
from lowswitch.feature_learner import FeatureLearner
from lowswitch.history import History
from lowswitch.io import storage
from lowswitch.learner import Learner
from lowswitch.learners.ridge import Deployment
from lowswitch.policy.linear import LinearPolicy
from lowswitch.show import report
from lowswitch.show.tables import Table, Tables
from lowswitch.show.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Literal["return", "deployments"]
PANELS = {"return": "return per episode", "deployments": "policy changes so far"}
_WINDOWS = 20  # in a run: a point of the curve of returns is a mean over one of them


@dataclass(frozen=True, eq=False)
class FeatureHistory:
    """The policies that a learner with features deployed, in order, like the `History` of tables.

    A policy on features changes as a whole, so each deployment is one switch.
    """

    deployed: tuple[Deployment, ...]

    @property
    def episode(self) -> np.ndarray:  # [n]
        """The episodes after which the policy changed."""
        return np.array([one.episode for one in self.deployed], dtype=np.int64)

    @property
    def switched(self) -> np.ndarray:  # [n]
        """Which changes are switches: all of them."""
        return np.ones(len(self.deployed), dtype=bool)

    @property
    def deployments(self) -> int:
        return len(self.deployed)

    @property
    def local_switches(self) -> int:
        return len(self.deployed)

    def __iter__(self) -> Iterator[Deployment]:
        return iter(self.deployed)

    def __len__(self) -> int:
        return len(self.deployed)

    def __repr__(self) -> str:
        return f"FeatureHistory({self.deployments} deployments)"


def history_of(began: Any, switches: Sequence[Any]) -> History | FeatureHistory:
    """The history of a learner with this initial policy, from its deployments since."""
    if isinstance(began, LinearPolicy):
        return FeatureHistory(tuple(one for made in switches for one in made))
    first = began.actions
    empty = np.zeros((0, 3 + len(first)), dtype=np.int64)
    changes = np.concatenate([empty, *(switch.changes for switch in switches)])
    return History(changes, None if (first == first[0]).all() else first.copy())


@dataclass(frozen=True, eq=False, kw_only=True)
class EnvironmentRun:
    """The result of `learn`.

    A run that continued an earlier one has the returns and the changes of its own episodes.
    """

    learner: Any  # TableLearner or FeatureLearner
    returns: np.ndarray  # [K]  sums of rewards in the environment's units
    lengths: np.ndarray  # [K]  steps until an episode was over
    cut: np.ndarray | None = None  # [K]  whether the horizon ended it; None in earlier files
    history: History | FeatureHistory
    first: int = 0  # the number of its first episode
    seconds: float
    thrown_away: int = 0  # episodes of a vector environment that were played again
    # where it comes from, as in `Runs`
    problem: str = ""
    fingerprint: str = ""  # of tables, which are not known here
    made_with: str = ""
    date: str = ""
    made_on: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        returns = f"{len(self.returns):,} returns from {self.returns.min():g} to"
        mean = f"{self.returns.max():g} with mean {self.returns.mean():.4g}"
        return f"EnvironmentRun({self.learner!r}, {returns} {mean}, {self.history!r})"

    def __iter__(self) -> Iterator[Any]:
        """The learner, the returns and the history, as in `learner, returns, history = run`."""
        return iter((self.learner, self.returns, self.history))

    @property
    def algorithm(self) -> Algorithm:
        """What its learner runs."""
        algorithm: Algorithm = self.learner.algorithm
        return algorithm

    @property
    def deployed(self) -> tuple[Deployment, ...]:
        """The policies on features that were deployed, with the episodes after which."""
        if isinstance(self.history, FeatureHistory):
            return self.history.deployed
        raise ValueError("a run with tables has row changes; see history")

    @property
    def episodes(self) -> np.ndarray:  # [K]
        """The numbers of its episodes."""
        return np.arange(self.first, self.first + len(self.returns))

    @property
    def tenths(self) -> tuple[np.ndarray, np.ndarray]:
        """The returns of the first and of the last tenth of the episodes, at least one each."""
        size = max(1, len(self.returns) // 10)
        return self.returns[:size], self.returns[-size:]

    def summary(self, columns: Sequence[str] | None = None) -> Table:
        """A table with one line.

        It has the mean return in the first and the last tenth of the episodes, the share of the
        episodes that the horizon ended, and the switching costs.
        """
        learner, (first, last) = self.learner, self.tenths
        size = f"{_size(learner)}, A = {learner.actions}, H = {learner.horizon}"
        heading = (
            f"{self.problem}: {size}; mean return per episode, ± is a 95 % interval over the"
            " episodes"
        )
        cells = {
            "algorithm": learner.algorithm.label,
            "episodes": f"{len(self.returns):,}",
            "first tenth": report.mean_and_interval(first),
            "last tenth": report.mean_and_interval(last),
            "cut by the horizon": "-" if self.cut is None else f"{self.cut.mean():.0%}",
            "local switches": f"{self.history.local_switches:,}",
            "deployments": f"{self.history.deployments:,}",
            "steps/s": short(float(self.lengths.sum() / self.seconds)),
        }
        return Table(heading, tuple(cells), (tuple(cells.values()),)).chosen(columns)

    def _columns(self) -> dict[str, np.ndarray]:
        """A line for each episode; switches are counted up to it."""
        K, learner = len(self.returns), self.learner
        changed = self.history.episode[self.history.switched] - self.first
        deployed = np.unique(self.history.episode) - self.first
        return {
            "algorithm": np.full(K, str(learner.algorithm)),
            "seed": np.full(K, learner.seed),
            "episode": self.episodes,
            "return": self.returns,
            "length": self.lengths,
            "local_switches": np.cumsum(np.bincount(changed, minlength=K)),
            "deployments": np.cumsum(np.bincount(deployed, minlength=K)),
        }

    def to_dataframe(
        self,
        library: Literal["pandas", "polars"] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """A data frame with a line for each episode."""
        return report.frame_of(self._columns(), library, columns)

    def to_csv(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        """Write the lines of `to_dataframe` as comma-separated values."""
        report.write_columns(self._columns(), path, columns)

    def to_latex(self, columns: Sequence[str] | None = None) -> str:
        """The table of `summary` for a paper, with the rules of the package booktabs."""
        return self.summary().to_latex(columns)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        what: Panel | None = None,
    ) -> Figure:
        """Draw the returns and the policy changes against the episodes.

        The curve of returns is a mean over a twentieth of the episodes. what: one of the two
        panels alone. ax: your own Axes, for one panel, the returns by default.
        """
        title = f"{self.problem}, {self.algorithm.label}"
        return self.figure_of([("", self)], path, title=title, ax=ax, what=what)

    def _draw(self, axes: Axes, name: str, label: str) -> None:
        columns = self._columns()
        window = max(1, len(self.returns) // _WINDOWS)
        if name == "return":
            smooth = np.convolve(self.returns, np.full(window, 1 / window), mode="valid")
            said = f"{label}, mean over {window:,} episodes".removeprefix(", ")
            axes.plot(self.episodes[window - 1 :] + 1, smooth, label=said)
            axes.legend(frameon=False)
        else:
            axes.plot(self.episodes + 1, columns[name], drawstyle="steps-post", label=label)
        axes.set_xlabel("episodes")
        axes.set_ylabel(PANELS[name])

    # ---- several runs side by side, for `ls.summary` and `ls.plot` -------------------------------

    @staticmethod
    def tables_of(
        runs: Sequence[tuple[str, EnvironmentRun]], columns: Sequence[str] | None = None
    ) -> Table | Tables:
        """The lines of labelled runs, in a table for each environment."""
        found: dict[str, Table] = {}
        for label, run in runs:
            table = run.summary()
            row = (label, *table.rows[0][1:])
            before = found.get(table.heading, replace(table, rows=()))
            found[table.heading] = replace(before, rows=(*before.rows, row))
        tables = tuple(table.chosen(columns) for table in found.values())
        return tables[0] if len(tables) == 1 else Tables(tables)

    @staticmethod
    def figure_of(
        runs: Sequence[tuple[str, EnvironmentRun]],
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "",
        ax: Axes | None = None,
        what: Any = None,
    ) -> Figure:
        """The curves of labelled runs: both panels, or one of them, also in Axes of your own."""
        if what is not None:
            require_word("what", what, tuple(PANELS))
        if ax is not None:
            panels, figure = [(ax, what or "return")], ax.get_figure(root=True)
            assert figure is not None
        else:
            names = list(PANELS) if what is None else [what]
            figure = report.blank_figure(4.0 * len(names), 3.2)
            figure.suptitle(title, fontsize=11)
            panels = list(zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True))
        for axes, name in panels:
            for label, run in runs:
                run._draw(axes, name, label)
            if ax is None:
                report.dress(axes)
        if path is not None:
            report.save_figure(figure, path)
        return figure

    kind = "environment run"  # of its files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results and the learner, which can continue; `load` reads them back."""
        facts = {name: getattr(self, name) for name in _FACTS}
        arrays = {
            "learner": np.frombuffer(self.learner.to_bytes(), dtype=np.uint8),
            "returns": self.returns,
            "lengths": self.lengths,
        }
        if self.cut is not None:
            arrays["cut"] = self.cut
        more, tables = _history_state(self.history)
        storage.write(path, self.kind, facts | more, arrays | tables)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the run that `save` wrote."""
        with storage.reading(path, cls.kind) as (facts, arrays):
            run = cls(
                learner=Learner.from_bytes(arrays["learner"].tobytes()),
                returns=arrays["returns"],
                lengths=arrays["lengths"],
                cut=arrays.get("cut"),
                history=_saved_history(facts, arrays),
                **{name: facts[name] for name in _FACTS},
            )
            run._require_whole()
            return run

    def _require_whole(self) -> None:
        K, changed = len(self.returns), self.history.episode - self.first
        shapes = {self.returns.shape, self.lengths.shape}
        shapes |= set() if self.cut is None else {self.cut.shape}
        if shapes != {(K,)} or not K:
            raise ValueError(f"it has {self.returns.shape} returns, {self.lengths.shape} lengths")
        if not ((changed >= 0) & (changed < K)).all():
            raise ValueError("its policy changed in an episode that it did not play")


_FACTS = (
    *("first", "seconds", "thrown_away"),
    *("problem", "fingerprint", "made_with", "date", "made_on"),
)


def _size(learner: Any) -> str:
    """How large the observations of a learner are, in words."""
    if isinstance(learner, FeatureLearner):
        return f"d = {learner.shape.features}"
    return f"S = {learner.states - 1} + 1"  # one for episodes that are over


def _history_state(
    history: History | FeatureHistory,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts and arrays of a history."""
    if isinstance(history, History):
        before = {} if history.before is None else {"before": history.before}
        return {}, {"changes": history.changes, **before}
    facts, arrays = list[dict[str, Any]](), dict[str, np.ndarray]()
    for i, (episode, policy) in enumerate(history.deployed):
        made, tables = policy.state()
        facts.append({"episode": episode, "policy": made})
        arrays |= {f"deployed {i} {name}": array for name, array in tables.items()}
    return {"deployed": facts}, arrays


def _saved_history(
    facts: dict[str, Any], arrays: dict[str, np.ndarray]
) -> History | FeatureHistory:
    """The history that `_history_state` wrote."""
    if "deployed" not in facts:
        return History(arrays["changes"], arrays.get("before"))
    deployed = []
    for i, made in enumerate(facts["deployed"]):
        begin = f"deployed {i} "
        own = {name: array for name, array in arrays.items() if name.startswith(begin)}
        tables = {name.removeprefix(begin): array for name, array in own.items()}
        policy = LinearPolicy.from_state(made["policy"], tables)
        deployed.append(Deployment(int(made["episode"]), policy))
    return FeatureHistory(tuple(deployed))
