"""Make docs/frontier/*.json and *.png and the tables of docs/choosing.md anew; a folder given as
argument keeps what is finished.

The best for each limit are also run on seeds that had no part in choosing them at all (check.json).
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from lowswitch import Frontier, envs, frontier, report, simulate

TARGET = Path(__file__).parent / "frontier"
PAGE = Path(__file__).parent / "choosing.md"
PROBLEMS = {
    "riverswim": ("riverswim:states=6,horizon=10", 100_000),
    "random-5": ("random-mdp:states=5,actions=3,horizon=5", 100_000),
    "random-20": ("random-mdp:states=20,actions=4,horizon=10", 30_000),
}
CHECK_SEEDS = range(1000, 1016)


def main(folder: Path) -> None:
    checks: dict[str, Any] = {}
    for name, (env, episodes) in PROBLEMS.items():
        result = frontier(envs.make(env), episodes=episodes, folder=folder, name=env)
        result.save(TARGET / f"{name}.json")
        result.plot(TARGET / f"{name}.png")
        checks[name] = check(result)
        (TARGET / "check.json").write_text(json.dumps(checks, indent=1) + "\n", encoding="utf-8")
        print(f"{name}\n{result.table()}\n", flush=True)
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def check(result: Frontier) -> dict[str, Any]:
    """The best for each limit once more, on seeds that are new to all of it."""
    answers = {}
    for limit, point in result.limits().items():
        runs = simulate(
            envs.make(result.name), point.algorithm, episodes=result.episodes, seeds=CHECK_SEEDS
        )
        answers["none" if limit is None else str(limit)] = {
            "algorithm": str(point.algorithm),
            "regret": float(runs.regret.mean()) / result.episodes,
            "interval": report.half_width(runs.regret) / result.episodes,
            "most_deployments": int(runs.deployments.max()),
        }
    return answers


def with_tables(page: str) -> str:
    """The page with the table of each frontier under its mark, as in <!-- riverswim -->."""
    checks = json.loads((TARGET / "check.json").read_text(encoding="utf-8"))
    for name, answers in checks.items():
        table = limits_table(Frontier.load(TARGET / f"{name}.json"), answers)
        page = re.sub(
            rf"(<!-- {name} -->\n)\n?(\|[^\n]*\n)*",
            lambda mark, table=table: f"{mark[1]}\n{table}",
            page,
        )
    return page


def limits_table(result: Frontier, answers: dict[str, Any]) -> str:
    """The best for each limit in Markdown, with its regret an episode and that of the check."""
    lines = [
        "| may deploy | use | regret an episode | of no limit | on 16 further seeds | most |",
        "|---|---|---:|---:|---:|---:|",
    ]
    least = result.best().mean("regret")
    for limit, point in result.limits().items():
        answer = answers[str(limit).lower()]
        cells = [
            f"{limit or 'any number of'} times",
            f"`{point.algorithm}`",
            (
                f"{point.mean('regret') / result.episodes:.5f} ±"
                f" {point.interval('regret') / result.episodes:.5f}"
            ),
            f"{point.mean('regret') / least:.1f} x",
            f"{answer['regret']:.5f} ± {answer['interval']:.5f}",
            f"{max(point.most_deployments, answer['most_deployments']):,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
