"""How many changes a problem needs, from docs/numbers/meetings.json: tables and the figure.

    python docs/meetings.py     the figure

benchmarks/few/meetings.py writes this file.
"""

import json
import math
from pathlib import Path

import numpy as np
from pages import table

FILE = Path(__file__).parent / "numbers" / "meetings.json"
FIGURE = Path(__file__).parent / "price" / "meetings.png"
FAMILIES = ("lock", "DeepSea", "tree")
LEARNERS = ("few", "R-max", "PSRL", "MVP")
ACTIONS = 2  # in all three families
ENDS = (1, 2, 3, 5, 10)


class Found:
    """N* by family, steps and learner."""

    def __init__(self) -> None:
        self.facts = json.loads(FILE.read_text(encoding="utf-8"))
        self.rows = {
            (row["problem"], row["which"], row["learner"]): row for row in self.facts["rows"]
        }
        self.steps = sorted({int(which) for _, which, _ in self.rows if which.isdigit()})

    def needed(self, family: str, steps: int, learner: str) -> int | None:
        row = self.rows.get((family, str(steps), learner))
        return row and row["needed"]

    def cell(self, family: str, steps: int, learner: str) -> str:
        """N*, or the greatest N that was tried and is too small; empty if not measured."""
        row = self.rows.get((family, str(steps), learner))
        if row is None:
            return ""
        if row["needed"] is not None:
            return str(row["needed"])
        return f"> {max(map(int, row['shares']))}" if "shares" in row else "none"

    def of_problems(self) -> list[float]:
        """N* of `few` on the problems of the benchmark, infinite where no tried N is enough."""
        rows = [row for (_, which, _), row in self.rows.items() if not which.isdigit()]
        return [math.inf if row["needed"] is None else row["needed"] for row in rows]


def bound(steps: int, episodes: int) -> float:
    """H / log_A K + log log K, the order of the lower bound, without its constant: Zhang et al.
    2022.
    """
    return steps / math.log(episodes, ACTIONS) + math.log(math.log(episodes))


def values() -> dict[str, str]:
    found = Found()
    lines = [
        [family, learner, *(found.cell(family, steps, learner) for steps in found.steps)]
        for family in FAMILIES
        for learner in LEARNERS
    ]
    episodes = found.facts["episodes"]
    least = (f"{bound(steps, episodes):.1f}" for steps in found.steps)
    lines.append(["", "H / log_A K + log log K", *least])
    header = ["problem", "learner", *(f"H = {steps}" for steps in found.steps)]
    needed = np.array(found.of_problems())
    shares = [f"{100 * (needed <= n).mean():.0f} %" for n in ENDS]
    return {
        "meetings/steps": table(header, lines, left=2),
        "meetings/problems": table(
            ["", *(f"N = {n}" for n in ENDS)], [["share of the problems", *shares]], left=1
        ),
        "meetings/measured": str(len(needed)),
        "meetings/five": shares[ENDS.index(5)],
        "meetings/episodes": f"{episodes:,}",
        "meetings/seeds": str(found.facts["seeds"]),
    }


def draw() -> None:
    """N* against H for each family, the lower bound beside it."""
    import matplotlib.pyplot as plt

    found = Found()
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained", sharey=True)
    for panel, family in zip(axes, FAMILIES, strict=True):
        for i, learner in enumerate(LEARNERS):
            pairs = [(H, found.needed(family, H, learner)) for H in found.steps]
            known = [(H, n) for H, n in pairs if n is not None]
            if known:
                panel.plot(*zip(*known, strict=True), "o-", color=f"C{i}", ms=4, label=learner)
        steps = np.array(found.steps)
        least = [bound(H, found.facts["episodes"]) for H in steps]
        panel.plot(steps, least, "k--", lw=1, label="H / log_A K + log log K")
        panel.set(xscale="log", yscale="log", xlabel="H, steps", title=family)
        panel.set_xticks(steps, map(str, steps))
        panel.set_yticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
        panel.minorticks_off()
    axes[0].set_ylabel("N*, changes needed")
    lines = axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", fontsize=8)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


if __name__ == "__main__":
    draw()
