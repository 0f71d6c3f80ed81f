"""What the page on the replayed trial says, from docs/numbers/trial.json.

benchmarks/linear/trial.py writes this file.
"""

import json
from pathlib import Path
from typing import Any

from pages import table

FILE = Path(__file__).parent / "numbers" / "trial.json"


def values() -> dict[str, str]:
    facts = json.loads(FILE.read_text(encoding="utf-8"))
    run, splits = facts["run"], facts["splits"]
    return {
        "trial/setting": run["setting"],
        "trial/patients": f"{run['stream'] + run['judges']:,}",
        "trial/stream": f"{run['stream']:,}",
        "trial/told": str(run["told"]),
        "trial/judges": str(run["judges"]),
        "trial/looks": of_looks(run["looks"]),
        "trial/judged": of_policies(run),
        "trial/splits": of_splits(splits),
        "trial/better": f"{splits['better than the combination']:.0%}".replace("%", " %"),
    }


def of_looks(looks: list[dict[str, Any]]) -> str:
    """A line for each look."""
    lines = [
        [
            str(number),
            str(look["patients"]),
            " / ".join(map(str, look["arms"])),
            f"{100 * look['gained']:+.0f}",
            f"{100 * look['changed']:.0f} %",
            " / ".join(f"{100 * share:.0f}" for share in look["proposed"]),
        ]
        for number, look in enumerate(looks, 1)
    ]
    head = [
        "look",
        "patients so far",
        "in the four arms",
        "CD4 cells gained",
        "treatment would change",
        "proposed, % of patients in each arm",
    ]
    return table(head, lines, left=0)


def of_policies(run: dict[str, Any]) -> str:
    """The learned policy and the four that give everybody one arm."""
    policies = {"the learned policy": run["policy"]}
    policies |= {f"{name} for everybody": one for name, one in run["everybody"].items()}
    lines = [
        [name, *(_interval(one[kind]) for kind in ("ips", "dr")), str(one["effective"])]
        for name, one in policies.items()
    ]
    head = ["policy", "inverse propensity", "doubly robust", "effective patients"]
    return table(head, lines, left=1)


def of_splits(splits: dict[str, Any]) -> str:
    words = {
        "policy": "the learned policy",
        "blind": "`few` without the features",
        "combination": "ZDV + ddI for everybody",
        "ZDV": "ZDV for everybody",
        "randomised": "the trial itself, all arms alike",
    }
    lines = [
        [text, *(f"{number:+.0f}" if i == 0 else f"{number:.0f}" for i, number in enumerate(found))]
        for name, text in words.items()
        for found in [splits[name]]
    ]
    return table(["policy", "CD4 cells gained", "standard deviation between splits"], lines, left=1)


def _interval(numbers: list[float]) -> str:
    value, low, high = numbers
    return f"{value:+.0f} [{low:+.0f}, {high:+.0f}]"
