"""Measure how many episodes ten deployments need on large environments: docs/numbers/episodes.json.

    python docs/episodes.py

It takes about four minutes. `python docs/publish.py` then puts the numbers on the page of
Gymnasium.
"""

import json
import warnings
from pathlib import Path
from typing import Any

from pages import table

import lowswitch as ls
from lowswitch.envs.gymnasium import learn
from lowswitch.show.text import span

TARGET = Path(__file__).parent / "numbers" / "episodes.json"
FEW = ls.few(deployments=10)
OFTEN = ls.ucb2_bernstein(c=0.01)
CERTAIN = ls.rmax(known=1, pooled=True)
HORIZON, SEEDS = 20, 4
RIDES = [
    *((FEW, episodes) for episodes in (1_000, 10_000, 50_000, 100_000)),
    *((CERTAIN, episodes) for episodes in (1_000, 3_000)),
]
WALKS = [(FEW, 1_000), (FEW, 10_000), (CERTAIN, 300)]
HANDS = [(FEW, 5_000), (OFTEN, 5_000), (FEW, 50_000), (OFTEN, 50_000)]
HAND_SEEDS = 2
LARGE_LAKE = "FrozenLake-v1:map_name=8x8,is_slippery=false"  # 14 steps from start to goal
HORIZONS, CROSSINGS, LAKE_SEEDS = (14, 20, 50, 100), 2_000, 16


def main() -> None:
    measured = {
        "taxi": by_tables("Taxi-v4", RIDES),
        "cliff": by_tables("CliffWalking-v1", WALKS),
        "blackjack": [hands(*each) for each in HANDS],
        "horizons": [crossings(horizon) for horizon in HORIZONS],
    }
    TARGET.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def by_tables(name: str, played: list[tuple[ls.Algorithm, int]]) -> dict[str, Any]:
    """What the last policy earns, by the tables, after each number of episodes."""
    mdp, rows = ls.from_gymnasium(name, horizon=HORIZON), []
    for algorithm, episodes in played:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of runs that learn too little, which the page shows
            runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=SEEDS)
        row = {"algorithm": str(algorithm), "episodes": episodes, "first": runs.first_value}
        last, deployed = runs.last_value.tolist(), runs.deployments.tolist()
        rows.append(row | {"last": last, "deployments": deployed})
        print(name, rows[-1], flush=True)
    return {"horizon": HORIZON, "optimal": mdp.optimal_value(), "runs": rows}


def hands(algorithm: ls.Algorithm, episodes: int) -> dict[str, Any]:
    """What a hand of Blackjack earns in the first and in the last tenth of the episodes."""
    played = [
        learn(
            "Blackjack-v1",
            algorithm,
            horizon=4,
            episodes=episodes,
            seed=seed,
            reward_range=(-1, 1),
        )
        for seed in range(HAND_SEEDS)
    ]
    row = {
        "algorithm": str(algorithm),
        "episodes": episodes,
        "first": [float(each.returns[: episodes // 10].mean()) for each in played],
        "last": [float(each.returns[-episodes // 10 :].mean()) for each in played],
        "deployments": [each.learner.deployments for each in played],
    }
    print(row, flush=True)
    return row


def crossings(horizon: int) -> dict[str, Any]:
    """How often the last policy crosses the large lake if an episode has so many steps."""
    mdp = ls.from_gymnasium(LARGE_LAKE, horizon=horizon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = ls.simulate(mdp, FEW, episodes=CROSSINGS, seeds=LAKE_SEEDS)
    lost = float(runs.regret.mean()) / CROSSINGS
    row = {
        "horizon": horizon,
        "episodes": CROSSINGS,
        "last": runs.last_value.tolist(),
        "lost": lost,
    }
    print(LARGE_LAKE, row, flush=True)
    return row


def values() -> dict[str, str]:
    measured = json.loads(TARGET.read_text(encoding="utf-8"))
    taxi, cliff = measured["taxi"], measured["cliff"]
    played = [
        (
            f"`{run['algorithm']}`",
            f"{run['episodes']:,}",
            *(span(run[name], "+.2f") for name in ("first", "last")),
            _counts(run["deployments"]),
        )
        for run in measured["blackjack"]
    ]
    header = ("learner", "hands", "a hand in the first tenth", "in the last tenth", "deployments")
    return {
        "episodes/taxi": _valued(taxi),
        "episodes/taxi-best": f"{taxi['optimal']:+.1f}",
        "episodes/taxi-first": f"{taxi['runs'][0]['first']:+.1f}",
        "episodes/cliff": _valued(cliff),
        "episodes/cliff-best": f"{cliff['optimal']:+.0f}",
        "episodes/blackjack": table(header, played, left=1),
        "episodes/horizons": _crossed(measured["horizons"]),
    }


def _crossed(measured: list[dict[str, Any]]) -> str:
    """The table of horizons on the large lake."""
    rows = [
        (
            str(run["horizon"]),
            f"{run['last'].count(1.0)} of {len(run['last'])}",
            f"{run['lost']:.0%}",
        )
        for run in measured
    ]
    header = ("`horizon`", "seeds that reach the goal", "episodes lost over the run")
    return table(header, rows, left=1)


def _valued(measured: dict[str, Any]) -> str:
    """The table of what last policies earn."""
    rows = [
        (
            f"`{run['algorithm']}`",
            f"{run['episodes']:,}",
            span(run["last"], "+.1f"),
            _counts(run["deployments"]),
        )
        for run in measured["runs"]
    ]
    return table(("learner", "episodes", "value of the last policy", "deployments"), rows, left=1)


def _counts(counts: list[int]) -> str:
    """The least and the largest of some counts, or the only one."""
    return span(counts, ",d") if len(set(counts)) > 1 else f"{counts[0]:,d}"


if __name__ == "__main__":
    main()
