"""Measure how many episodes ten deployments need on large environments: docs/numbers/episodes.json.

    python docs/episodes.py

It takes about four minutes. `python docs/publish.py` then puts the numbers on the page of
Gymnasium.
"""

import json
from pathlib import Path
from typing import Any

from pages import table

import lowswitch as ls
from lowswitch.envs.gymnasium import learn
from lowswitch.show.text import span

TARGET = Path(__file__).parent / "numbers" / "episodes.json"
FEW = ls.few(deployments=10)
OFTEN = ls.ucb2_bernstein(c=0.01)
TAXI_HORIZON, TAXI_SEEDS = 20, 4
TAXI_EPISODES = (1_000, 10_000, 50_000, 100_000)
HANDS = [(FEW, 5_000), (OFTEN, 5_000), (FEW, 50_000), (OFTEN, 50_000)]
HAND_SEEDS = 2


def main() -> None:
    measured = {"taxi": taxi(), "blackjack": [hands(*each) for each in HANDS]}
    TARGET.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def taxi() -> dict[str, Any]:
    """What the last policy earns, by the tables, after each number of episodes."""
    mdp = ls.from_gymnasium("Taxi-v4", horizon=TAXI_HORIZON)
    rows = []
    for episodes in TAXI_EPISODES:
        runs = ls.simulate(mdp, FEW, episodes=episodes, seeds=TAXI_SEEDS)
        rows.append({"episodes": episodes, "last": runs.last_value.tolist()})
        print(rows[-1], flush=True)
    values = {"optimal": mdp.optimal_value(), "first": runs.first_value}
    return {"horizon": TAXI_HORIZON} | values | {"runs": rows}


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


def values() -> dict[str, str]:
    measured = json.loads(TARGET.read_text(encoding="utf-8"))
    taxi = measured["taxi"]
    rides = [(f"{run['episodes']:,}", span(run["last"], "+.1f")) for run in taxi["runs"]]
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
        "episodes/taxi": table(("episodes", "value of the last policy"), rides, left=0),
        "episodes/taxi-best": f"{taxi['optimal']:+.1f}",
        "episodes/taxi-first": f"{taxi['first']:+.1f}",
        "episodes/blackjack": table(header, played, left=1),
    }


def _counts(counts: list[int]) -> str:
    """The least and the largest of some counts, or the only one."""
    return span(counts, ",d") if len(set(counts)) > 1 else f"{counts[0]:,d}"


if __name__ == "__main__":
    main()
