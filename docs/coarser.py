"""Measure what a coarser schedule gains and costs on 100 machines: docs/numbers/coarser.json.

    python docs/coarser.py

`python docs/publish.py` then puts the numbers on the page of many machines.
"""

import json
from pathlib import Path
from typing import Any

from pages import table

from lowswitch import concurrent, envs, ucb2_hoeffding

TARGET = Path(__file__).parent / "numbers" / "coarser.json"
PROBLEMS = {
    "RiverSwim": "riverswim:states=6,horizon=10",
    "random (20, 4, 10)": "random-mdp:states=20,actions=4,horizon=10",
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "the theory's": {},
    "`r_star=1`": {"r_star": 1},
    **{f"`r_star=1, eta={eta}`": {"r_star": 1, "eta": eta} for eta in (0.02, 0.05, 0.2, 0.5)},
}
RULES = ("switch", "speculate")


def main() -> None:
    rows = []
    for problem, env in PROBLEMS.items():
        mdp = envs.make(env)
        for schedule, options in SCHEDULES.items():
            algorithm = ucb2_hoeffding(c=0.05, **options)
            runs = {
                rule: concurrent.run(mdp, algorithm, 10**6, machines=100, rule=rule)
                for rule in RULES
            }
            run = runs["switch"]
            row = {"problem": problem, "schedule": schedule, "algorithm": str(algorithm)}
            row |= {"deployments": int(run.deployments[0]), "regret": float(run.regret[0])}
            rows.append(row | {rule: run.speed_up for rule, run in runs.items()})
            print(rows[-1], flush=True)
    TARGET.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def values() -> dict[str, str]:
    header, lines = ["schedule"], {schedule: [schedule] for schedule in SCHEDULES}
    for problem in PROBLEMS:
        header += [f"{problem}: deployments", *(f'`"{rule}"`' for rule in RULES), "regret"]
    for row in json.loads(TARGET.read_text(encoding="utf-8")):
        lines[row["schedule"]] += [
            f"{row['deployments']:,}",
            *(f"{row[rule]:.1f}" for rule in RULES),
            f"{row['regret']:,.0f}",
        ]
    return {"coarser/schedules": table(header, lines.values(), left=1)}


if __name__ == "__main__":
    main()
