"""Measure what ten deployments achieve on RiverSwim: docs/numbers/effect.json and docs/effect.png.

    python docs/effect.py            measures, and draws the figure of README.md; some seconds
    python docs/effect.py --draw     only draws it, from the result file

`python docs/publish.py` then puts the numbers on the pages.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import lowswitch as ls
from lowswitch.show.report import COLOURS, blank_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent
NUMBERS, FIGURE = FOLDER / "numbers" / "effect.json", FOLDER / "effect.png"
PROBLEM, EPISODES, SEEDS = "riverswim:states=6,horizon=10", 20_000, 64
QUANTILES = (0.1, 0.5, 0.9)
LEARNERS = {"few": ls.few(deployments=10), "ucb2": ls.ucb2_bernstein(c=0.01)}
TITLES = {"few": "few, at most 10 deployments", "ucb2": "UCB2-B, c = 0.01"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="only draw the figure")
    if not parser.parse_args().draw:
        NUMBERS.write_text(json.dumps(measure()) + "\n", encoding="utf-8")
    save_figure(draw(load()), FIGURE)


def measure() -> dict[str, Any]:
    """Regret and deployments of both learners along the run, as quantiles over the seeds."""
    mdp = ls.envs.make(PROBLEM)
    found: dict[str, Any] = {"problem": PROBLEM, "episodes": EPISODES, "seeds": SEEDS}
    found["earnable"] = EPISODES * mdp.optimal_value()
    for name, algorithm in LEARNERS.items():
        runs = ls.simulate(mdp, algorithm, episodes=EPISODES, seeds=SEEDS)
        found[name] = {
            "algorithm": str(algorithm),
            "at": runs.curves.episodes.tolist(),
            "regret": quantiles(runs.curves.regret),
            "deployments": quantiles(runs.curves.deployments),
            "regrets": [round(float(regret), 2) for regret in runs.regret],
            "most_deployments": int(runs.deployments.max()),
        }
    return found


def quantiles(curves: np.ndarray) -> list[list[float]]:
    """The tenth, the median and the ninetieth percentile over the seeds, along the run."""
    return [[round(value, 2) for value in line] for line in np.quantile(curves, QUANTILES, axis=0)]


def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return found


def draw(found: dict[str, Any]) -> "Figure":
    """Deployments and regret against episodes, each curve labelled with its last value."""
    figure = blank_figure(9, 3.4)
    changes, regret = figure.subplots(1, 2)
    for colour, (name, title) in zip(COLOURS, TITLES.items(), strict=False):
        _curve(changes, found[name], "deployments", colour, title)
        _curve(regret, found[name], "regret", colour, title)
    changes.set_yscale("log")
    changes.set_title("How often the policy changed")
    regret.set_title("Reward lost against the best policy")
    for axes in (changes, regret):
        axes.set_xlabel("episodes")
        axes.set_xlim(0, 1.22 * found["episodes"])
        axes.set_xticks(
            range(0, EPISODES + 1, 5_000), [f"{k:,}" for k in range(0, EPISODES + 1, 5_000)]
        )
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    regret.legend(frameon=False, loc="upper left")
    return figure


def _curve(axes: "Axes", learner: dict[str, Any], cost: str, colour: str, title: str) -> None:
    at, (low, middle, high) = learner["at"], learner[cost]
    axes.plot(at, middle, color=colour, linewidth=2, label=title)
    axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.annotate(
        f"{middle[-1]:,.0f}",
        (at[-1], middle[-1]),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        color=colour,
        weight="bold",
    )


def values() -> dict[str, str]:
    found = load()
    few, ucb2 = (np.array(found[name]["regrets"]) for name in LEARNERS)
    earnable = found["earnable"]
    return {
        "effect/episodes": f"{found['episodes']:,}",
        "effect/seeds": str(found["seeds"]),
        "effect/few-regret": f"{np.median(few):,.0f}",
        "effect/few-share": f"{100 * np.median(few) / earnable:.1f}",
        "effect/few-mean": f"{few.mean():,.0f}",
        "effect/few-worst": f"{few.max():,.0f}",
        "effect/few-stuck": str((few > earnable / 2).sum()),
        "effect/ucb2-regret": f"{np.median(ucb2):,.0f}",
        "effect/ucb2-share": f"{100 * np.median(ucb2) / earnable:.1f}",
        "effect/ucb2-worst": f"{ucb2.max():,.0f}",
        "effect/ucb2-deployments": f"{found['ucb2']['deployments'][1][-1]:,.0f}",
    }


if __name__ == "__main__":
    main()
