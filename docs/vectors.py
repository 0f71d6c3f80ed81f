"""What the page on features says, from docs/numbers/linear*.json.

benchmarks/linear/run.py, dqn.py and protocol.py write these files.
"""

import json
from pathlib import Path
from typing import Any

from pages import table

NUMBERS = Path(__file__).parent / "numbers"
WORDS = {
    "digits": "digits (d = 21 for each of 10 actions)",
    "arms": "50 fixed arms (d = 10)",
    "synthetic": "synthetic, fresh contexts (d = 10)",
}
CONTROL = {
    "CartPole": "CartPole",
    "shaken": "CartPole, noise of 0.5 % of the range",
    "MountainCar": "MountainCar",
    "Acrobot": "Acrobot",
}
SEEDS = 16  # where a file does not say


def values() -> dict[str, str]:
    facts = json.loads((NUMBERS / "linear.json").read_text(encoding="utf-8"))
    regret, speed = {name: facts[name] for name in WORDS}, facts["speed"]
    begun = json.loads((NUMBERS / "linear_protocol.json").read_text(encoding="utf-8"))
    (rounds,) = {problem["rounds"] for problem in regret.values()}
    return {
        "features/regret": of_regret(regret),
        "features/bandits": of_bandits(facts["bandits"]["problems"]),
        "features/limits": of_limits(facts["limits"]["problems"]),
        "features/fresh": str(facts["bandits"]["seeds"]),
        "features/inventory": of_inventory(facts["inventory"]),
        "features/stocked": str(facts["inventory"]["seeds"]),
        "features/control": of_control({words: facts[name] for name, words in CONTROL.items()}),
        "features/rounds": f"{rounds:,}",
        "features/million": f"{speed['seconds']:.1f}",
        "features/act": f"{speed['act']['median']:.0f}",
        "features/run": facts["run"],
        "features/paired": str(facts["intercept"]["seeds"]),
        "features/without-intercept": of_mean(facts["intercept"]["rule 1"]),
        "features/with-intercept": of_mean(facts["intercept"]["rule 2"]),
        "features/protocol": of_protocol(begun),
        "features/protocol-problems": str(len(begun["setting"]["problems"])),
        "features/protocol-seeds": str(begun["setting"]["seeds"]),
    }


def of_mean(found: dict[str, Any]) -> str:
    return f"{found['regret']:.0f} ± {found['error']:.0f}"


def of_protocol(found: dict[str, Any]) -> str:
    """What is lost from each initial policy with free or even dates, by each measured rule."""
    rules = {
        "rule 1": "before",
        "auto": "`few`",
        "floor 0.9": "`floor=0.9`",
        "15 %": "`trial=0.15`",
        "all explore": "`trial=None`",
    }
    lines = []
    for dates in ("free", "even"):
        for kind in ("good", "slightly wrong", "poor", "one action"):
            cells = [found.get(f"{dates}, {kind}, {rule}") for rule in rules]
            lost = [f"{cell[0]:.1f} ({cell[2]:.1f})" if cell else "" for cell in cells]
            alone = found[f"{dates}, {kind}, auto"][1]
            lines.append([kind, dates, f"{alone:.1f}", *lost])
    return table(["initial policy", "dates", "it alone", *rules.values()], lines, left=2)


def of_limits(problems: dict[str, Any]) -> str:
    """Ratios to the best rival: `few` now and before, with squares, in raw units, and its limit."""
    keys = ("before", "few", "squares", "raw", "full information")
    lines = [
        [
            name,
            *(
                f"{found[key]['ratio']:.2f} ± {found[key]['error']:.2f}" if key in found else ""
                for key in keys
            ),
        ]
        for name, found in problems.items()
    ]
    head = ["problem", "before", "`few`", "with squares", "raw units", "full information"]
    return table(head, lines, left=1)


def of_regret(regret: dict[str, Any]) -> str:
    """A line for each problem and number of deployments."""
    lines = []
    for name, words in WORDS.items():
        rows, rival = regret[name]["rows"], regret[name]["rival"]["regret"]
        lines += [
            [
                words,
                str(regret[name].get("seeds", SEEDS)),
                str(N),
                *(
                    f"{row['ratio']:.2f} ± {row['error'] / rival:.2f}"
                    for row in (rows[f"mixture {N}"], rows[f"single {N}"])
                ),
            ]
            for N in (5, 10, 20, 40)
        ]
    return table(["problem", "seeds", "deployments", "`few`", "single"], lines, left=1)


def of_bandits(problems: dict[str, Any]) -> str:
    """Ratios to the best rival, before and after, without a constant feature and with one."""
    lines = [
        [
            name,
            found["rival"],
            *(
                f"{found[key]['ratio']:.2f} ± {found[key]['error']:.2f}"
                for key in (
                    "rule 1, without a constant",
                    "rule 1, with a constant",
                    "rule 2, without a constant",
                    "rule 2, with a constant",
                    "waiting",
                )
            ),
        ]
        for name, found in problems.items()
    ]
    head = [
        "problem",
        "rival",
        "`rule=1`",
        "with a constant",
        "`few`",
        "with a constant",
        "waiting",
    ]
    return table(head, lines, left=2)


def of_inventory(inventory: dict[str, Any]) -> str:
    often = inventory["often"]
    lines = [
        [
            name.split()[1],
            f"{row['regret']:,.0f} ± {row['error']:,.0f}",
            f"{row['ratio']:.2f}",
        ]
        for name, row in inventory["rows"].items()
    ]
    regret = f"{often['regret']:,.0f} ± {often['error']:,.0f}"
    lines.append([f"{often['deployments']:.0f}", regret, "1.00"])
    return table(["deployments", "regret", "ratio"], lines, left=0)


def of_control(control: dict[str, Any]) -> str:
    """The learned motion, and DQN below it where it was measured."""
    lines = [
        [
            name,
            f"learned motion, {len(found['returns'])} seeds",
            f"{found['deployments']}",
            f"{found['episodes']}",
            f"{found['mean']:.0f}",
            f"{found['worst']:.0f}",
        ]
        for name, found in control.items()
    ]
    rival = NUMBERS / "linear_dqn.json"
    if rival.exists():
        found = json.loads(rival.read_text(encoding="utf-8"))
        worst = min(row["return"] for row in found["rows"])
        lines.append(
            [
                "CartPole",
                f"DQN of Stable-Baselines3, {len(found['rows'])} seeds",
                f"{found['deployments']:.0f}",
                f"{found['episodes']:.0f}",
                f"{found['return']:.0f}",
                f"{worst:.0f}",
            ]
        )
    head = ["problem", "learner", "deployments", "episodes", "mean return", "worst seed"]
    return table(head, lines, left=2)
