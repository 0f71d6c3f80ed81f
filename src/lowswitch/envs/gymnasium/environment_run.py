"""What came out of `learn`: its learner, what each episode earned, and every policy change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from lowswitch.checks import require_word
from lowswitch.history import History
from lowswitch.io import storage
from lowswitch.show import report
from lowswitch.show.tables import Table
from lowswitch.show.text import short
from lowswitch.table_learner import TableLearner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Literal["return", "deployments"]
PANELS = {"return": "return per episode", "deployments": "policy changes so far"}
_WINDOWS = 20  # in a run: a point of the curve of returns is a mean over one of them


@dataclass(frozen=True, eq=False, kw_only=True)
class EnvironmentRun:
    """What came out of `learn`.

    A run that continued an earlier one has the returns and the changes of its own episodes.
    """

    learner: TableLearner
    returns: np.ndarray  # [K]  sums of rewards in the environment's units
    lengths: np.ndarray  # [K]  steps until an episode was over
    history: History
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
    def episodes(self) -> np.ndarray:  # [K]
        """The numbers of its episodes."""
        return np.arange(self.first, self.first + len(self.returns))

    def summary(self, columns: Sequence[str] | None = None) -> Table:
        """A table with one line: what was earned in the first and the last tenth of the episodes,
        and what that cost.
        """
        learner, tenth = self.learner, max(1, len(self.returns) // 10)
        S, A, H = learner.states - 1, learner.actions, learner.horizon
        heading = (
            f"{self.problem}: S = {S}, A = {A}, H = {H}; mean return per episode, ± is a 95 %"
            " interval over the episodes"
        )
        cells = {
            "algorithm": learner.algorithm.label,
            "episodes": f"{len(self.returns):,}",
            "first tenth": report.mean_and_interval(self.returns[:tenth]),
            "last tenth": report.mean_and_interval(self.returns[-tenth:]),
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
        what: Panel = "return",
    ) -> Figure:
        """Draw what an episode earned, and the policy changes, against the episodes.

        The curve of returns is a mean over a twentieth of the episodes. ax: Axes of your own, which
        show one of the two panels.
        """
        require_word("what", what, tuple(PANELS))
        if ax is not None:
            self._draw(ax, what)
            figure = ax.get_figure(root=True)
            assert figure is not None
        else:
            figure = report.blank_figure(8.0, 3.2)
            figure.suptitle(f"{self.problem}, {self.learner.algorithm.label}", fontsize=11)
            for axes, name in zip(figure.subplots(1, 2), PANELS, strict=True):
                self._draw(axes, name)
                report.dress(axes)
        if path is not None:
            report.save_figure(figure, path)
        return figure

    def _draw(self, axes: Axes, name: str) -> None:
        columns = self._columns()
        window = max(1, len(self.returns) // _WINDOWS)
        if name == "return":
            smooth = np.convolve(self.returns, np.full(window, 1 / window), mode="valid")
            label = f"mean over {window:,} episodes"
            axes.plot(self.episodes[window - 1 :] + 1, smooth, label=label)
            axes.legend(frameon=False)
        else:
            axes.plot(self.episodes + 1, columns[name], drawstyle="steps-post")
        axes.set_xlabel("episodes")
        axes.set_ylabel(PANELS[name])

    kind = "environment run"  # of its files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results and the learner, which can go on; `load` reads them back."""
        facts = {name: getattr(self, name) for name in _FACTS}
        arrays = {
            "learner": np.frombuffer(self.learner.to_bytes(), dtype=np.uint8),
            "returns": self.returns,
            "lengths": self.lengths,
            "changes": self.history.changes,
        }
        if self.history.before is not None:
            arrays["before"] = self.history.before
        storage.write(path, self.kind, facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the run that `save` wrote."""
        with storage.reading(path, cls.kind) as (facts, arrays):
            run = cls(
                learner=TableLearner.from_bytes(arrays["learner"].tobytes()),
                returns=arrays["returns"],
                lengths=arrays["lengths"],
                history=History(arrays["changes"], arrays.get("before")),
                **{name: facts[name] for name in _FACTS},
            )
            run._require_whole()
            return run

    def _require_whole(self) -> None:
        K, changed = len(self.returns), self.history.episode - self.first
        if self.returns.shape != (K,) or self.lengths.shape != (K,) or not K:
            raise ValueError(f"it has {self.returns.shape} returns, {self.lengths.shape} lengths")
        if not ((changed >= 0) & (changed < K)).all():
            raise ValueError("its policy changed in an episode that it did not play")


_FACTS = (
    *("first", "seconds", "thrown_away"),
    *("problem", "fingerprint", "made_with", "date", "made_on"),
)
