"""What the page says about the distance to the optimum, from docs/numbers/price_of_few.json.

    python docs/optimum.py     the figure

benchmarks/few/optimum.py writes this file.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pages import table

FILE = Path(__file__).parent / "numbers" / "price_of_few.json"
FIGURE = Path(__file__).parent / "price" / "few.png"
SHOWN = ("1", "2", "3", "5", "10")  # changes
# whose optimum a learner is divided by, where it is known
NOTIONS = {
    "few": "draws",
    "few, true prior": "draws",
    "PSRL": "batches",
    "UCB2": "switches",
    "MVP": "switches",
    "BaSE": "pulls",
    "batched Thompson": "draws",
}
WORDS = {
    "draws": "draws on the best dates",
    "batches": "one arm or policy for each batch, best dates",
    "pulls": "numbers of pulls on the best dates",
    "switches": "changes at any time",
    "unlimited": "any number of changes",
}
CASES = {
    "arms 50": "two arms, 50 pulls",
    "arms 100": "two arms, 100 pulls",
    "arms 1000": "two arms, 1,000 pulls",
    "mdp 10": "small MDP, 10 episodes",
    "mdp 14": "small MDP, 14 episodes",
    "mdp 20": "small MDP, 20 episodes",
}
CLASSES = ("up to 0.1", "0.1 to 0.3", "0.3 to 0.6", "above 0.6")


class Found:
    """The results, by case, learner and changes."""

    def __init__(self) -> None:
        self.facts = json.loads(FILE.read_text(encoding="utf-8"))
        self.rows = {
            (row["case"], row["learner"], str(row["changes"])): row for row in self.facts["rows"]
        }

    def least(self, case: str, notion: str, changes: str) -> float | None:
        """The regret of the optimum, if it was computed."""
        if notion == "unlimited":
            return float(self.facts["exact"][case]["unlimited"])
        known = self.facts["exact"][case].get(notion, {})
        return known.get(changes)

    def ratio(
        self, case: str, learner: str, changes: str, notion: str
    ) -> tuple[float, float] | None:
        """The regret over the optimum's, and its standard error."""
        row, least = self.rows.get((case, learner, changes)), self.least(case, notion, changes)
        return None if row is None or least is None else (row["regret"] / least, row["se"] / least)

    def cells(self, case: str, learner: str, notion: str) -> list[str]:
        pairs = [self.ratio(case, learner, n, notion) for n in SHOWN]
        return ["" if pair is None else f"{pair[0]:.2f} ± {pair[1]:.2f}" for pair in pairs]


def values() -> dict[str, str]:
    found = Found()
    header = [f"N = {n}" for n in SHOWN]
    return {
        "optimum/fifty": table(
            ["learner", "over the optimum of", *header],
            [[name, WORDS[notion], *found.cells("arms 50", name, notion)]
             for name, notion in NOTIONS.items() if name != "batched Thompson"],
            left=2,
        ),
        "optimum/others": _others(found, header),
        "optimum/classes": _by_class(found),
        "optimum/problems": _range(row["problems"] for row in found.rows.values()),
        "optimum/few": _listed(found, "few"),
        "optimum/true": _listed(found, "few, true prior"),
        "optimum/thompson": f"{found.rows['arms 50', 'batched Thompson', '1']['regret']:.2f}",
        "optimum/batches": f"{found.rows['arms 50', 'batched Thompson', '1']['made']:.1f}",
    }  # fmt: skip


def _range(numbers: Iterable[int]) -> str:
    """The smallest and the largest number."""
    known = sorted(numbers)
    return f"{known[0]:,} to {known[-1]:,}"


def _listed(found: Found, learner: str) -> str:
    """The smallest and the largest ratio for 3 to 10 changes on 50 pulls."""
    ratios = [found.ratio("arms 50", learner, n, "draws") for n in ("3", "5", "10")]
    known = [pair[0] for pair in ratios if pair is not None]
    return f"{min(known):.1f} to {max(known):.1f}"


def _others(found: Found, header: list[str]) -> str:
    """All cases against the optimum without a limit, which no notion can beat."""
    lines = [
        [CASES[case], name, *found.cells(case, name, "unlimited")]
        for case in CASES
        for name in NOTIONS
        if name != "batched Thompson" and (case, name, "3") in found.rows
    ]
    return table(["problem", "learner", *header], lines, left=2)


def _by_class(found: Found) -> str:
    """`few` over the optimum where the arms differ little or much."""
    lines = []
    for name in ("few", "few, true prior"):
        for n, least in found.facts["optimum_by_class"].items():
            row: dict[str, Any] = found.rows["arms 50", name, n]
            pairs = zip(row["by_class"], least, strict=True)
            lines.append([name, n, *(f"{mine[0] / best[0]:.2f} ± {mine[1] / best[0]:.2f}"
                                     for mine, best in pairs)])  # fmt: skip
    return table(["learner", "N", *CLASSES], lines, left=1)


def draw() -> None:
    """Regret over the optimum's against N, on 50 pulls; the optimum is the line at 1."""
    import matplotlib.pyplot as plt

    found = Found()
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for panel, case in zip(axes, ("arms 50", "mdp 10"), strict=True):
        for i, (name, notion) in enumerate(NOTIONS.items()):
            used = notion if found.least(case, notion, "3") else "batches"
            pairs = {int(n): found.ratio(case, name, n, used) for n in SHOWN}
            if name == "batched Thompson":  # it chooses its number of batches itself
                row = found.rows.get((case, name, "1"))
                least = found.least(case, "draws", "10")
                pairs = {9: (row["regret"] / least, row["se"] / least)} if row and least else {}
            known = {n: pair for n, pair in pairs.items() if pair is not None}
            ratios, errors = [p[0] for p in known.values()], [p[1] for p in known.values()]
            style = {"color": f"C{i}", "marker": "o", "markersize": 4, "capsize": 2}
            panel.errorbar([*known], ratios, errors, label=name, **style)
        panel.axhline(1.0, color="black", linewidth=1)
        panel.set(xscale="log", yscale="log", xlabel="N, changes", title=CASES[case])
        panel.set_xticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
        panel.set_yticks([1, 1.25, 1.5, 2, 3, 4, 6], ["1", "1.25", "1.5", "2", "3", "4", "6"])
        panel.minorticks_off()
    axes[0].set_ylabel("regret over the optimum's")
    lines = axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", fontsize=8, title="the optimum is 1")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


if __name__ == "__main__":
    draw()
