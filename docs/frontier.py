"""Race the portfolio on three problems anew: docs/frontier/*.json and *.png.

    python docs/frontier.py [FOLDER]     a folder keeps what is finished

The best for each limit also run on seeds that had no part in choosing them (check.json), and the
best for 10 deployments and for any number once more with pooled counts. `python docs/publish.py`
then puts the numbers on the pages.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import listed, table

from lowswitch import Algorithm, Frontier, envs, frontier, simulate
from lowswitch.races import Point
from lowswitch.races.portfolio import portfolio
from lowswitch.show import report
from lowswitch.show.text import span

TARGET = Path(__file__).parent / "frontier"
PROBLEMS = {
    "riverswim": ("riverswim:states=6,horizon=10", 100_000),
    "random-5": ("random-mdp:states=5,actions=3,horizon=5", 100_000),
    "random-20": ("random-mdp:states=20,actions=4,horizon=10", 30_000),
}
TITLES = {
    "riverswim": "RiverSwim, S = 6, K = 10⁵",
    "random-5": "random, S = 5, K = 10⁵",
    "random-20": "random, S = 20, K = 3·10⁴",
}
CHECK_SEEDS = range(1000, 1016)

# ---- measuring -----------------------------------------------------------------------------------


def main(folder: Path) -> None:
    checks: dict[str, Any] = {}
    for name, (env, episodes) in PROBLEMS.items():
        result = frontier(envs.make(env), episodes=episodes, folder=folder, name=env)
        result.save(TARGET / f"{name}.json")
        result.plot(TARGET / f"{name}.png")
        checks[name] = check(result)
        checks[name]["pooled"] = pooled(result, checks[name])
        (TARGET / "check.json").write_text(json.dumps(checks, indent=1) + "\n", encoding="utf-8")
        print(f"{name}\n{result.table()}\n", flush=True)


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


def pooled(result: Frontier, answers: dict[str, Any]) -> dict[str, float]:
    """How many times less regret the winners have, on the further seeds, once they pool the counts
    of all steps.
    """
    gains = {}
    for limit in ("10", "none"):
        algorithm = Algorithm.from_text(f"{answers[limit]['algorithm']},pooled=true")
        runs = simulate(
            envs.make(result.name), algorithm, episodes=result.episodes, seeds=CHECK_SEEDS
        )
        gains[limit] = answers[limit]["regret"] * result.episodes / float(runs.regret.mean())
    return gains


# ---- what the pages say of it --------------------------------------------------------------------


def values() -> dict[str, str]:
    results = {name: Frontier.load(TARGET / f"{name}.json") for name in PROBLEMS}
    checks = json.loads((TARGET / "check.json").read_text(encoding="utf-8"))
    tables = {
        f"frontier/{name}": limits_table(result, checks[name]) for name, result in results.items()
    }
    several = list(results.values())
    baselines = [find(result, "ucb2-b:c=0.01") for result in several]
    return {
        **tables,
        **{
            f"frontier/times-{limit}": span((times(result, limit) for result in several), ".1f")
            for limit in (30, 100)
        },
        "frontier/algorithms": f"{len(portfolio())}",
        "frontier/most": listed(
            (
                max(result.best().most_deployments, checks[name]["none"]["most_deployments"])
                for name, result in results.items()
            ),
            ",",
        ),
        "frontier/ucb2-most": listed((point.most_deployments for point in baselines), ","),
        "frontier/ucb2-times": listed(
            (
                point.mean("regret") / result.best().mean("regret")
                for point, result in zip(baselines, several, strict=True)
            ),
            ".2g",
        ),
        "frontier/pooled": listed(checks["random-20"]["pooled"].values(), ".1f"),
        **what_greedy_saves(several),
        **what_scales_save(several),
    }


def times(result: Frontier, limit: int) -> float:
    """The least regret under a limit over the least of all."""
    return result.best(deployments=limit).mean("regret") / result.best().mean("regret")


def find(result: Frontier, text: str) -> Point:
    return next(point for point in result.points if str(point.algorithm) == text)


def limits_table(result: Frontier, answers: dict[str, Any]) -> str:
    """The best for each limit, with its regret per episode, also on the further seeds."""
    header = [
        "may deploy",
        "use",
        "regret per episode",
        "over the best without a limit",
        f"on {len(CHECK_SEEDS)} further seeds",
        "most",
    ]
    rows = []
    for limit, point in result.limits().items():
        answer = answers[str(limit).lower()]
        regret, interval = (
            measure("regret") / result.episodes for measure in (point.mean, point.interval)
        )
        rows.append(
            [
                f"{limit or 'any number of'} times",
                f"`{point.algorithm}`",
                f"{regret:.5f} ± {interval:.5f}",
                f"{point.mean('regret') / result.best().mean('regret'):.1f} x",
                f"{answer['regret']:.5f} ± {answer['interval']:.5f}",
                f"{max(point.most_deployments, answer['most_deployments']):,}",
            ]
        )
    return table(header, rows, left=2)


def twins(result: Frontier, option: str) -> Iterator[tuple[Point, Point]]:
    """The points whose names have an option, a regular expression, each with the point whose name
    is the same without it.
    """
    points = {str(point.algorithm): point for point in result.points}
    for text, point in points.items():
        without = re.sub(option, "", text)
        if without != text and without in points:
            yield point, points[without]


def what_greedy_saves(results: list[Frontier]) -> dict[str, str]:
    """By how many per cent a greedy last deployment has less regret, for mixtures on a grid."""
    saved: dict[int, list[float]] = {10: [], 30: [], 100: []}
    for result in results:
        for greedy, plain in twins(result, r",deployments=\d+,last=greedy"):
            if "grid/geometric" in str(plain.algorithm):
                share = 1 - greedy.mean("regret") / plain.mean("regret")
                saved[greedy.algorithm.schedule.deployments].append(100 * share)
    shares = [share for several in saved.values() for share in several]
    return {
        "frontier/greedy": f"{sum(share > 0 for share in shares)} of {len(shares)}",
        **{
            f"frontier/greedy-{limit}": f"{span(several, '.0f')} %"
            for limit, several in saved.items()
        },
    }


def what_scales_save(results: list[Frontier]) -> dict[str, str]:
    """How often a mixture of scales has less regret than the same learner without it."""
    gains = [
        (plain.mean("regret") / mixed.mean("regret"), str(plain.algorithm))
        for result in results
        for mixed, plain in twins(result, ",scales=[^,]*")
    ]
    on_grid = [gain for gain, text in gains if text.endswith("grid/geometric/31")]
    return {
        "frontier/scales": f"{sum(gain > 1 for gain, _ in gains)} of {len(gains)}",
        "frontier/scales-grid": f"{sum(gain > 1 for gain in on_grid)} of {len(on_grid)}",
        "frontier/scales-most": f"{max(on_grid):.1f}",
    }


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
