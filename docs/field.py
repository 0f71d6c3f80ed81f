"""Measure the newer algorithms beside UCB2 and MVP on two problems on which nothing was chosen:
docs/numbers/field.json and docs/field.png.

    python docs/field.py [--kept FOLDER]    a folder keeps what is finished
    python docs/field.py --draw             only draws the figure, from the result file

All algorithms of `frontier` race. Of each newer one, and of UCB2-B and MVP, the setting with the
least regret plays its curve on other seeds. `python docs/publish.py` then puts the numbers on the
pages.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pages import table

import lowswitch as ls
from lowswitch import envs
from lowswitch.races import Frontier, Point
from lowswitch.show.report import COLOURS, blank_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).parent
NUMBERS, FIGURE = FOLDER / "numbers" / "field.json", FOLDER / "field.png"
PROBLEMS = {
    "random (7, 3, 6)": "random-mdp:states=7,actions=3,horizon=6,seed=901,reward_law=bernoulli",
    "Garnet (9, 3, 7)": "garnet:states=9,actions=3,horizon=7,branching=3,seed=902",
}
EPISODES, SEEDS = 20_000, range(5000, 5016)
NEWER = (
    *("fedq-h", "fedq-b", "fedq-advantage", "fedq-early-settled"),
    *("early-settled", "staged-randql", "larfe", "multi-batch"),
)
RIVALS = ("ucb2-b", "mvp")
FIRST = 50  # episodes, from which on curves are drawn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="only draw the figure")
    parser.add_argument("--kept", help="a folder of finished runs")
    given = parser.parse_args()
    if not given.draw:
        warnings.simplefilter("ignore")  # settings that learn nothing take part in a race
        found = {name: measure(envs.make(text), given.kept) for name, text in PROBLEMS.items()}
        NUMBERS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(load())


def measure(mdp: ls.TabularMDP, kept: str | None) -> dict[str, Any]:
    """The race, and the curves of the best settings."""
    race = ls.frontier(mdp, episodes=EPISODES, folder=kept, progress=False)
    return {"algorithms": len(race.points)} | {
        "learners": {name: best_of(name, race, mdp) for name in (*NEWER, *RIVALS)}
    }


def best_of(name: str, race: Frontier, mdp: ls.TabularMDP) -> dict[str, Any]:
    """The setting of one algorithm with the least regret, beside what deploys no more often."""
    own = [point for point in race.points if str(point.algorithm).partition(":")[0] == name]
    best = min(own, key=lambda point: point.mean("regret"))
    rivals = [one for one in race.points if one.mean("deployments") <= best.mean("deployments")]
    front = min(rivals, key=lambda point: point.mean("regret"))
    runs = ls.simulate(mdp, best.algorithm, episodes=EPISODES, seeds=list(SEEDS), progress=False)
    return {
        "algorithm": str(best.algorithm),
        "deployments": float(runs.deployments.mean()),
        "switches": float(runs.local_switches.mean()),
        "regret": float(runs.regret.mean()),
        "error": float(runs.regret.std(ddof=1) / len(SEEDS) ** 0.5),
        "front": str(front.algorithm),
        "times": place(best, front),
        "at": runs.curves.episodes.tolist(),
        "curve": [round(value, 2) for value in runs.curves.regret.mean(axis=0)],
    }


def place(best: Point, front: Point) -> float:
    """How many times the regret of the front it has, in the race."""
    return best.mean("regret") / front.mean("regret")


def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return found


# ---- the figure ----------------------------------------------------------------------------------


def draw(found: dict[str, Any]) -> None:
    figure = blank_figure(10.5, 4.6)
    for i, (problem, measured) in enumerate(found.items()):
        axes = figure.add_subplot(1, 2, i + 1)
        panel(axes, measured["learners"])
        axes.set_title(f"{problem}, the best setting of each")
        if i == 0:
            axes.set_ylabel("regret")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=9)
    save_figure(figure, FIGURE)


def panel(axes: "Axes", learners: dict[str, Any]) -> None:
    """The regret of every learner along its run; rivals are black."""
    for i, (name, one) in enumerate(learners.items()):
        rival = name in RIVALS
        colour = "black" if rival else COLOURS[i % (len(COLOURS) - 1)]
        style = ("-", "--")[RIVALS.index(name)] if rival else ("-", "--")[i // (len(COLOURS) - 1)]
        curve = np.array(one["curve"])
        shown = np.array(one["at"]) >= FIRST
        at, curve = np.array(one["at"])[shown], curve[shown]
        axes.plot(at, curve, color=colour, linestyle=style, label=name, linewidth=1.6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("episodes")


# ---- the numbers ---------------------------------------------------------------------------------


def values() -> dict[str, str]:
    found = load()
    header = ["learner"]
    for problem in found:
        header += [f"{problem}: regret", "deployments", "of the front"]
    lines = []
    for name in (*NEWER, *RIVALS):
        line = [f"`{name}`"]
        for measured in found.values():
            one = measured["learners"][name]
            line += [f"{one['regret']:,.0f} ± {one['error']:,.0f}", f"{one['deployments']:,.0f}"]
            line.append(f"{one['times']:.1f} x")
        lines.append(line)
    sizes = sorted({str(measured["algorithms"]) for measured in found.values()})
    return {
        "field/table": table(header, lines, left=1),
        "field/episodes": f"{EPISODES:,}",
        "field/seeds": str(len(SEEDS)),
        "field/algorithms": " and ".join(sizes),
    }


if __name__ == "__main__":
    main()
