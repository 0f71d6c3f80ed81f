"""What the pages say of `few` for a budget, from docs/numbers/few.json.

benchmarks/few/run.py writes that file.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from pages import table

FILE = Path(__file__).parent / "numbers" / "few.json"
BUDGETS = (5, 10, 30)
DRAWN = {"garnet": "Garnets", "grid": "slippery grids", "changing": "laws that differ by step"}


def values() -> dict[str, str]:
    facts = json.loads(FILE.read_text(encoding="utf-8"))
    rows = facts["rows"]
    fresh = [row for row in rows if not row["chosen_on"]]
    worst = max(rows, key=lambda row: ratio(row, 10))
    return {
        "budgets/table": table(
            ["problems", "rewards", *(f"N = {budget}" for budget in BUDGETS)],
            [cells for group in groups(rows) for cells in lines(*group)],
            left=2,
        ),
        "budgets/seeds": str(facts["seeds"]),
        "budgets/problems": str(len({row["problem"] for row in rows})),
        "budgets/fresh": str(len({row["problem"] for row in fresh})),
        "budgets/median-10": f"{np.median([ratio(row, 10) for row in fresh]):.2f}",
        "budgets/worst-10": f"{ratio(worst, 10):.1f}",
        "budgets/worst-where": f"{worst['problem']}, {worst['rewards']} rewards",
    }


def ratio(row: dict[str, Any], budget: int) -> float:
    """The regret of `few` over that of the best rival without a limit."""
    return row[f"few_{budget}_percent"] / row["rival_percent"]


def groups(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The groups of problems that have a line, with their rows."""
    found = []
    chosen = [row for row in rows if row["chosen_on"]]
    names = ", ".join(dict.fromkeys(row["problem"] for row in chosen))
    found.append((f"chosen on: {names}", chosen))
    fresh = [row for row in rows if not row["chosen_on"]]
    single = [row for row in fresh if row["family"] not in DRAWN]
    names = ", ".join(dict.fromkeys(row["problem"] for row in single))
    found.append((f"validated on: {names}", single))
    for family, words in DRAWN.items():
        drawn = [row for row in fresh if row["family"] == family]
        count = len({row["problem"] for row in drawn})
        found.append((f"validated on: {count} {words}", drawn))
    return [(words, some) for words, some in found if some]


def lines(words: str, rows: list[dict[str, Any]]) -> list[list[str]]:
    """Median and worst ratio of a group, a line for each reward law."""
    cells = []
    for law in ("deterministic", "bernoulli"):
        some = [row for row in rows if row["rewards"] == law]
        ratios = {budget: [ratio(row, budget) for row in some] for budget in BUDGETS}
        numbers = [f"{np.median(each):.2f}, worst {max(each):.1f}" for each in ratios.values()]
        cells.append([words, law, *numbers])
    return cells
