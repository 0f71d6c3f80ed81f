"""The score card of an entry: its regret over the best known, for each budget."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from lowswitch.bench.entries import KNOWN, Entry, read_entries
from lowswitch.bench.suite import BUDGETS, EPISODES, FLOOR, PROBLEMS, SEEDS, VERSION, floor_of
from lowswitch.show import report
from lowswitch.show.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def known() -> tuple[Entry, ...]:
    """The entries that the library has: all its recipes for tables, and what others submitted."""
    return tuple(read_entries(KNOWN))


def best_known(entries: Sequence[Entry], name: str, budget: int) -> float:
    """The least mean regret of all entries on a problem, within a budget; at least the floor."""
    return max(floor_of(name), min(entry.results[name][budget].mean for entry in entries))


@dataclass(frozen=True, kw_only=True)
class Card:
    """How an entry compares with the best that is known on each problem."""

    entry: Entry
    ratios: dict[int, dict[str, float]]  # by budget and problem: regret over the best known
    others: tuple[Entry, ...]

    def score(self, budget: int) -> float:
        """The geometric mean over the problems of its regret over the best known."""
        logs = [math.log(ratio) for ratio in self.ratios[budget].values()]
        return math.exp(sum(logs) / len(logs))

    def to_dict(self) -> dict[str, Any]:
        """The scores and the entry, as JSON can hold them."""
        scores = {str(budget): self.score(budget) for budget in BUDGETS}
        ratios = {str(budget): ratios for budget, ratios in self.ratios.items()}
        return {"scores": scores, "ratios": ratios, "entry": self.entry.to_dict()}

    def table(self) -> Table:
        """A line for each budget."""
        rows = []
        for budget in BUDGETS:
            cells = [self.entry.results[name][budget] for name in PROBLEMS]
            worst = max(self.ratios[budget], key=self.ratios[budget].__getitem__)
            switches = [sum(cell.local_switches) / SEEDS for cell in cells]
            deployed = [sum(cell.deployments) / SEEDS for cell in cells]
            rows.append(
                (
                    f"{budget}",
                    f"{self.score(budget):.2f}",
                    f"{self.ratios[budget][worst]:.2f}",
                    worst,
                    f"{sum(deployed) / len(cells):.1f}",
                    f"{sum(switches) / len(cells):,.0f}",
                    f"{sum(cell.seconds for cell in cells):.2f}",
                )
            )
        header = (
            *("N", "regret over best known", "worst", "on"),
            *("deployments", "local switches", "CPU seconds"),
        )
        return Table(f"{self.entry.name}: {self.entry.algorithm}\n{SETTING}", header, tuple(rows))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the scores of this entry and of all others against the budget."""
        figure = report.blank_figure(7, 4.5)
        axes = figure.subplots()
        ends: dict[str, float] = {}
        for other in self.others:
            if other.name != self.entry.name:
                card = score_card(other, self.others)
                values = [card.score(budget) for budget in BUDGETS]
                axes.plot(BUDGETS, values, color="0.75", linewidth=1, zorder=1)
                ends[other.name] = values[-1]
        for names, end in _labels(ends):
            axes.annotate(
                f" {names}", (BUDGETS[-1], end), fontsize=6, color="0.5", verticalalignment="center"
            )
        mine = [self.score(budget) for budget in BUDGETS]
        axes.plot(BUDGETS, mine, color="C0", marker="o", label=self.entry.name, zorder=2)
        report.dress(axes, log="xy")
        axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
        axes.set_xlabel("deployments allowed (N)")
        axes.set_ylabel("regret over the best known\n(geometric mean over problems)")
        axes.set_title(f"lowswitch bench, version {VERSION}", fontsize=11)
        report.legend_below(figure, axes, columns=1)
        if path is not None:
            report.save_figure(figure, path)
        return figure


_APART = 1.12  # the least ratio of two scores whose labels can both be read
SETTING = (
    f"version {VERSION}: {len(PROBLEMS)} problems, {EPISODES:,} episodes, {SEEDS} seeds;"
    " exact regret over the best known, geometric mean over the problems; a regret below"
    f" {FLOOR:.0%} of the regret of uniform play counts as {FLOOR:.0%}"
)


def _labels(ends: dict[str, float]) -> list[tuple[str, float]]:
    """Names and where they stand; names that would lie on each other share a place."""
    groups: list[list[str]] = []
    for name in sorted(ends, key=ends.__getitem__):
        if groups and ends[name] < _APART * ends[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return [(", ".join(names), ends[names[0]]) for names in groups]


def score_card(entry: Entry, entries: Sequence[Entry] | None = None) -> Card:
    """Compare an entry with the best of these entries, by default those that the library has."""
    others = tuple(known() if entries is None else entries)
    ratios = {
        budget: {
            name: max(floor_of(name), entry.results[name][budget].mean)
            / best_known(others or (entry,), name, budget)
            for name in PROBLEMS
        }
        for budget in BUDGETS
    }
    return Card(entry=entry, ratios=ratios, others=others)


def standings(entries: Sequence[Entry] | None = None) -> Table:
    """All entries, the best with ten deployments first."""
    given = list(known() if entries is None else entries)
    cards = sorted((score_card(one, given) for one in given), key=lambda card: card.score(10))
    rows = [
        (
            card.entry.name,
            *(f"{card.score(budget):.2f}" for budget in BUDGETS),
            f"{card.entry.seconds:.1f}",
        )
        for card in cards
    ]
    header = ("entry", *(f"N = {budget}" for budget in BUDGETS), "CPU seconds")
    return Table(SETTING, header, tuple(rows))
