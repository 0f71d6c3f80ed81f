"""Measure which scale c each kind of learner wants: docs/numbers/scales.json.

    python docs/scales.py

It takes seconds, and minutes where kernels are compiled first. `python docs/publish.py` then puts
the numbers on the pages.
"""

import json
import warnings
from pathlib import Path

from pages import table

import lowswitch as ls

TARGET = Path(__file__).parent / "numbers" / "scales.json"
PROBLEM = "random-mdp:states=5,actions=3,horizon=5"
EPISODES, SEEDS = 20_000, 8
SCALES = (0.1, 0.05, 0.01, 0.001, 0.0001)
LEARNERS = ("ucb2-h", "ucb2-b", "stage-q", "ucbvi", "mvp", "ucrl2")


def main() -> None:
    warnings.simplefilter("ignore", ls.BonusWarning)  # a large scale is what is measured
    warnings.simplefilter("ignore", ls.NothingLearnedWarning)
    mdp, regret = ls.envs.make(PROBLEM), {}
    for name in LEARNERS:
        regret[name] = {}
        for c in SCALES:
            algorithm = ls.Algorithm.from_text(f"{name}:c={c}")
            runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=SEEDS)
            regret[name][str(c)] = float(runs.regret.mean())
        print(name, regret[name], flush=True)
    facts = {"problem": PROBLEM, "episodes": EPISODES, "seeds": SEEDS, "regret": regret}
    TARGET.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def values() -> dict[str, str]:
    measured = json.loads(TARGET.read_text(encoding="utf-8"))
    rows = [
        [f"`{name}`", *(_best(by_scale[str(c)], by_scale) for c in SCALES)]
        for name, by_scale in measured["regret"].items()
    ]
    return {
        "scales/regret": table(["learner", *(f"c = {c}" for c in SCALES)], rows, left=1),
        "scales/episodes": f"{measured['episodes']:,}",
        "scales/seeds": f"{measured['seeds']}",
    }


def _best(regret: float, by_scale: dict[str, float]) -> str:
    """A regret, in bold where no other scale has less."""
    return f"**{regret:,.0f}**" if regret == min(by_scale.values()) else f"{regret:,.0f}"


if __name__ == "__main__":
    main()
