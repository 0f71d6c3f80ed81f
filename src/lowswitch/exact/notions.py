"""The exact price of N changes: what the best of all learners loses by changing so rarely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lowswitch.checks import increasing, require_count, require_word, shown
from lowswitch.exact.arms import Arms, ArmSolver
from lowswitch.exact.batching import FixedDates, adaptive
from lowswitch.exact.small_mdp import MdpSolver, SmallMDP
from lowswitch.runs.jobs import Device
from lowswitch.show.progress import Progress
from lowswitch.show.tables import Table

Notion = Literal["switches", "batches", "pulls", "draws"]
MEANINGS: dict[str, str] = {
    "switches": "The policy may change after any episode",
    "batches": "One policy is chosen for each batch of episodes",
    "pulls": "The number of pulls of each arm is chosen for each batch",
    "draws": "The probability of each arm is chosen for each batch, and every episode draws",
}


@dataclass(frozen=True)
class Price:
    """The reward and the loss of the best learner with at most N changes, for N = 0, 1, ...

    Values are sums over all episodes, averaged over the prior.
    """

    problem: Arms | SmallMDP
    episodes: int
    notion: Notion
    values: np.ndarray  # [N + 1]  the expected reward of all episodes
    known: float  # the same for somebody who knows the problem
    unlimited: float | None = None  # the same if every episode may change; for switches
    dates: tuple[tuple[int, ...], ...] | None = None  # the best ones for each N

    @property
    def regret(self) -> np.ndarray:  # [N + 1]
        """The Bayes regret: the loss against the best policy of a known problem."""
        return self.known - self.values

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON can store them."""
        return {
            "episodes": self.episodes,
            "notion": self.notion,
            "values": self.values.tolist(),
            "regret": self.regret.tolist(),
            "known": self.known,
            "unlimited": self.unlimited,
            "dates": self.dates,
        }

    def table(self) -> Table:
        """A line for each number of changes: reward per episode, regret, and the best dates."""
        named = [(str(n), value) for n, value in enumerate(self.values)]
        if self.unlimited is not None:
            named.append(("any", self.unlimited))
        rows = [
            [name, f"{value / self.episodes:.4f}", f"{self.known - value:.3f}"]
            for name, value in named
        ]
        header = ["changes", "reward per episode", "regret"]
        if self.dates is not None:
            header.append("best dates")
            for row, dates in zip(rows, self.dates, strict=True):
                row.append(" ".join(map(str, dates)) or "-")
        heading = (
            f"{MEANINGS[self.notion]}; {self.episodes:,} episodes. If the problem were known in "
            f"advance, an optimal policy would earn {self.known / self.episodes:.4f} per episode."
        )
        return Table(heading, tuple(header), tuple(map(tuple, rows)))

    def __str__(self) -> str:
        return str(self.table())


def price(
    problem: Arms | SmallMDP,
    *,
    episodes: int,
    changes: int,
    notion: Notion = "switches",
    dates: bool = False,
    device: Device = "cpu",
    progress: bool | None = None,
) -> Price:
    """The most that any learner can earn on average with at most 0, 1, ..., `changes` changes.

    Parameters
    ----------
    problem
        An `Arms` or a `SmallMDP`, with its prior.
    episodes
        The number of episodes, or of pulls.
    changes
        The greatest number of changes.
    notion
        What counts as a change. "switches": the policy may change after any episode. "batches": one
        policy is chosen for a batch of episodes. "pulls" and "draws" are for two arms: "pulls"
        chooses for a batch how often each arm is pulled, and "draws" the probability with which
        each arm is drawn (a multiple of 1/64).
    dates
        Whether batches end on dates that are fixed before the run. Good dates are then searched
        for. Otherwise the length of a batch is chosen when it begins.
    device
        "cpu", or "gpu" for switches.
    progress
        Whether to show progress, as in `lowswitch.simulate`.

    Returns
    -------
    Price
        The values and regrets for each number of changes.
    """
    episodes = require_count("episodes", episodes)
    changes = require_count("changes", changes, least=0, most=episodes - 1)
    require_word("notion", notion, tuple(MEANINGS))
    require_word("device", device, ("cpu", "gpu"))
    if notion == "switches" and dates:
        raise ValueError('notion="switches" has no dates; choose "batches", "pulls" or "draws"')
    if notion != "switches" and device == "gpu":
        raise ValueError(f'device="gpu" computes switches, not {notion}; leave it out')
    known = episodes * problem.best()
    if notion == "switches":
        with Progress(episodes, unit="episodes", show=progress) as bar:
            values = _solver(problem, episodes).switches(changes, bar, device)
        return Price(problem, episodes, notion, values[:-1], known, float(values[-1]))
    solver = _solver(problem, episodes, notion)
    with Progress(episodes * (changes + 1), unit="batches", show=progress) as bar:
        if not dates:
            return Price(problem, episodes, notion, adaptive(solver, changes, bar), known)
        fixed = FixedDates(solver)
        found = [fixed.best(n) for n in range(changes + 1)]
    values = np.array([value for _, value in found])
    return Price(problem, episodes, notion, values, known, dates=tuple(d for d, _ in found))


def value_on_dates(
    problem: Arms | SmallMDP, dates: Sequence[int], *, episodes: int, notion: Notion = "batches"
) -> float:
    """The most that any learner can earn on average if its policy may change on these dates.

    Parameters
    ----------
    problem
        An `Arms` or a `SmallMDP`, with its prior.
    dates
        The numbers of episodes after which the policy may change.
    episodes
        The number of episodes, or of pulls.
    notion
        "batches", "pulls" or "draws", as for `price`.
    """
    require_word("notion", notion, tuple(MEANINGS)[1:])
    given = increasing("dates", dates)
    if given[-1] >= episodes:
        raise ValueError(f"dates must lie before the last of {episodes} episodes, not {given[-1]}")
    return FixedDates(_solver(problem, episodes, notion)).value(given)


def _solver(problem: Arms | SmallMDP, episodes: int, notion: str = "switches") -> Any:
    """The solver for the beliefs of a problem."""
    if isinstance(problem, Arms):
        return ArmSolver(problem, episodes, notion)
    if isinstance(problem, SmallMDP):
        require_word("notion", notion, ("switches", "batches"))
        return MdpSolver(problem, episodes)
    raise ValueError(f"problem must be exact.Arms or exact.SmallMDP, not {shown(problem)}")
