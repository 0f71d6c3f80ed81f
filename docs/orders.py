"""Measure every recipe that has published orders on four problems anew.

This writes docs/orders/*.json and the figure drawn from them.

    python docs/orders.py [PROBLEM ...]     all problems, or these

`python docs/publish.py` then puts the numbers on the page.
"""

import itertools
import json
import math
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pages import table

from lowswitch import BonusWarning, envs, simulate
from lowswitch.algorithms.algorithm import Algorithm
from lowswitch.algorithms.recipes import RECIPES
from lowswitch.show import report
from lowswitch.show.text import span
from lowswitch.theory import orders
from lowswitch.theory.orders import PUBLISHED, Setting

TARGET = Path(__file__).parent / "orders"
SEEDS = range(8)
PROBLEMS = {
    "riverswim": "riverswim:states=6,horizon=10",
    "random-5": "random-mdp:states=5,actions=3,horizon=5",
    "random-20": "random-mdp:states=20,actions=4,horizon=10",
    "deep-sea": "deep-sea:size=10,stochastic=true",
}
TITLES = {
    "riverswim": "RiverSwim, S = 6, A = 2, H = 10",
    "random-5": "random, S = 5, A = 3, H = 5",
    "random-20": "random, S = 20, A = 4, H = 10",
    "deep-sea": "DeepSea, S = 10, A = 2, H = 10",
}
PRACTICAL = {  # one scale for all problems; posterior sampling and R-max have none
    "ucb-h": 0.05,
    "ucb-b": 0.05,
    "ucb2-h": 0.05,
    "ucb2-b": 0.05,
    "q-h": 0.05,
    "q-b": 0.05,
    "stage-q": 0.05,
    "ucb-advantage": 0.01,
    "ucbvi": 0.001,
    "ucbvi-bf": 0.005,
    "mvp": 0.001,
    "ucrl2": 0.05,
}
# The most episodes, as powers of ten, of learners that update a row and of those that plan.
MOST = {"row": 6, "plan": 5}
# On a small problem there is time for more. PSRL draws a posterior sample for every episode.
MOST_HERE = {
    ("random-5", "row"): 7,
    ("random-5", "plan"): 6,
    ("random-5", "psrl"): 5,
    ("random-20", "psrl"): 4,
}


def episodes(problem: str, name: str) -> list[int]:
    """How many episodes there are in the runs of a recipe: 10^3, 10^4, ..."""
    kind = "plan" if RECIPES[name]().replans else "row"
    most = MOST_HERE.get((problem, name), MOST_HERE.get((problem, kind), MOST[kind]))
    return [10**digits for digits in range(3, most + 1)]


def scales(name: str) -> dict[str, Algorithm]:
    """The recipe as published, and at a practical scale where it has one."""
    made = {"published": RECIPES[name]()}
    return made | ({"practical": RECIPES[name](c=PRACTICAL[name])} if name in PRACTICAL else {})


# ---- measuring -----------------------------------------------------------------------------------


def main(problems: list[str]) -> None:
    TARGET.mkdir(exist_ok=True)
    for problem in problems:
        text = json.dumps(measure(problem), indent=1)
        # the numbers of the seeds on one line
        text = re.sub(r"\[[^\[\]{}]*\]", lambda numbers: " ".join(numbers[0].split()), text)
        (TARGET / f"{problem}.json").write_text(text + "\n", encoding="utf-8")
    if all((TARGET / f"{problem}.json").exists() for problem in PROBLEMS):
        draw(TARGET / "exponents.png")


def measure(problem: str) -> dict[str, Any]:
    """What every recipe with published orders costs on a problem.

    Each number of episodes has runs of its own, since bonuses depend on it.
    """
    warnings.simplefilter("ignore", BonusWarning)  # what c = 1 does to such runs is the question
    mdp = envs.make(PROBLEMS[problem])
    cells = []
    for name in PUBLISHED:
        for scale, algorithm in scales(name).items():
            for K in episodes(problem, name):
                runs = simulate(mdp, algorithm, episodes=K, seeds=SEEDS, threads=1, progress=False)
                cell = {"recipe": name, "scale": scale, "algorithm": str(algorithm), "episodes": K}
                cell |= {"regret": [float(f"{regret:.7g}") for regret in runs.regret]}
                cell |= {
                    cost: getattr(runs, cost).tolist() for cost in ("local_switches", "deployments")
                }
                cells.append(cell)
                print(
                    f"{problem} {algorithm} {K:,}: regret {report.mean_and_interval(runs.regret)},"
                    f" {runs.seconds:.1f} s",
                    flush=True,
                )
    sizes = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    return {
        "problem": PROBLEMS[problem],
        **sizes,
        "optimal_value": mdp.optimal_value(),
        "runs": cells,
    }


# ---- what follows from the numbers ---------------------------------------------------------------


def load(problem: str) -> dict[str, Any]:
    return json.loads((TARGET / f"{problem}.json").read_text(encoding="utf-8"))


def lines(measured: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The runs of each recipe and scale, by their number of episodes."""
    several: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in measured["runs"]:
        several.setdefault((cell["recipe"], cell["scale"]), []).append(cell)
    return several


def setting_of(measured: dict[str, Any], K: int) -> Setting:
    return Setting(H=measured["horizon"], S=measured["states"], A=measured["actions"], K=K)


def mean(cell: dict[str, Any], cost: str) -> float:
    return float(np.mean(cell[cost]))


def exponents(cells: list[dict[str, Any]]) -> list[float]:
    """d log regret / d log K over each decade of K."""
    digits = [math.log10(mean(cell, "regret")) for cell in cells]
    return [late - early for early, late in itertools.pairwise(digits)]


def of_order(measured: dict[str, Any], cell: dict[str, Any], cost: str) -> float:
    """The mean of a cost over its published order; NaN where there is none."""
    published = PUBLISHED[cell["recipe"]]
    order = {
        "regret": published.regret,
        "local_switches": published.switches,
        "deployments": published.deployments,
    }[cost]
    return (
        math.nan
        if order is None
        else mean(cell, cost) / order(setting_of(measured, cell["episodes"]))
    )


def of_bound(measured: dict[str, Any], cell: dict[str, Any], cost: str) -> float:
    """The most that a cost was in any seed over what the schedule allows."""
    algorithm = scales(cell["recipe"])[cell["scale"]]
    bound = {"local_switches": algorithm.switch_bound, "deployments": algorithm.deployment_bound}[
        cost
    ]
    size = {name: measured[name] for name in ("horizon", "states", "actions")}
    return max(cell[cost]) / bound(**size, episodes=cell["episodes"])


# ---- tables --------------------------------------------------------------------------------------


def values() -> dict[str, str]:
    measured = {problem: load(problem) for problem in PROBLEMS}
    return {
        "orders/published": orders_table(),
        "orders/begin": begin_table(measured),
        "orders/worst": worst_table(measured),
        **{f"orders/{problem}": problem_table(numbers) for problem, numbers in measured.items()},
        **growths(measured),
    }


def growths(measured: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The few numbers that the text of the page names."""
    runs = {problem: lines(numbers) for problem, numbers in measured.items()}
    apart = [
        abs(few - many)
        for several in runs.values()
        for scale in ("published", "practical")
        for bonus in ("h", "b")
        for few, many in zip(
            *(exponents(several[f"{name}-{bonus}", scale]) for name in ("ucb2", "ucb")),
            strict=True,
        )
    ]
    advantage = worst(measured, of_order, "regret", "ucb-advantage", "published")
    return {
        "orders/bent": span(
            (
                exponents(runs["random-5"][name, "published"])[-1]
                for name in ("ucb-h", "ucb-b", "ucb2-h", "ucb2-b")
            ),
            ".2f",
        ),
        "orders/apart": f"{max(apart):.2f}",
        "orders/river": f"{exponents(runs['riverswim']['ucb-h', 'practical'])[-1]:.2f}",
        "orders/advantage": f"{advantage:.0f}",
        **{
            f"orders/bends-{problem}": in_powers(bends(numbers))
            for problem, numbers in measured.items()
        },
    }


def bends(measured: dict[str, Any]) -> int:
    """After how many episodes regret bends at c = 1: H^3 S A iota, iota at the largest K."""
    sizes = {name: measured[name] for name in ("horizon", "states", "actions")}
    K = max(cell["episodes"] for cell in measured["runs"])
    iota = RECIPES["ucb-h"]().iota(**sizes, episodes=K)
    return round(sizes["horizon"] ** 3 * sizes["states"] * sizes["actions"] * iota)


def orders_table() -> str:
    """Each recipe's orders and their sources, which are the docstrings of the functions."""
    rows = []
    for name, published in PUBLISHED.items():
        regret = "none" if published.regret is None else formula(published.regret)
        deployments = (
            "as switches"
            if published.deployments is published.switches
            else formula(published.deployments)
        )
        rows.append(
            [f"`{name}`", regret, formula(published.switches), deployments, published.remark]
        )
    return table(["recipe", "regret", "local switches", "deployments", "remark"], rows, left=5)


def formula(order: orders.Order) -> str:
    text, _, source = " ".join((order.__doc__ or "").split()).partition(": ")
    return f"`{text}`<br>{source.removesuffix('.')}"


def in_powers(number: int) -> str:
    """One digit and a power of ten."""
    digit, exponent = f"{number:.0e}".split("e+")
    ten = "10" + str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ten if digit == "1" else f"{digit}·{ten}"


def begin_table(measured: dict[str, dict[str, Any]]) -> str:
    """From which K on the order of the regret is below K V*."""
    rows = []
    for name, published in PUBLISHED.items():
        if published.regret is not None:
            least = [
                orders.informative_from(
                    published.regret, setting_of(numbers, 1), numbers["optimal_value"]
                )
                for numbers in measured.values()
            ]
            rows.append([f"`{name}`", *map(in_powers, least)])
    return table(["recipe", *measured], rows, left=1)


def problem_table(measured: dict[str, Any]) -> str:
    """Each recipe at each scale: what its longest run cost, how regret grew, and all of it against
    orders and bounds.
    """
    header = [
        "algorithm",
        "K",
        "regret",
        "of K V*",
        "growth",
        "of its order",
        "local switches",
        "deployments",
    ]
    rows = []
    for cells in lines(measured).values():
        first, last = cells[0], cells[-1]
        K, ratios = last["episodes"], [of_order(measured, cell, "regret") for cell in (first, last)]
        rows.append(
            [
                f"`{last['algorithm']}`",
                in_powers(K),
                report.mean_and_interval(np.array(last["regret"])),
                f"{100 * mean(last, 'regret') / K / measured['optimal_value']:.3g} %",
                ", ".join(f"{exponent:.2f}" for exponent in exponents(cells)),
                "none" if math.isnan(ratios[0]) else f"{ratios[0]:.2g} → {ratios[1]:.2g}",
                f"{mean(last, 'local_switches'):,.0f}",
                f"{mean(last, 'deployments'):,.0f}",
            ]
        )
    return table(header, rows, left=1)


def worst_table(measured: dict[str, dict[str, Any]]) -> str:
    """The largest share of each order and bound that a recipe took on any problem, at any K, by
    scale.
    """
    columns = {
        "regret / order": (of_order, "regret"),
        "switches / order": (of_order, "local_switches"),
        "deployments / order": (of_order, "deployments"),
        "switches / bound": (of_bound, "local_switches"),
        "deployments / bound": (of_bound, "deployments"),
    }
    rows = []
    for name in PUBLISHED:
        ratios = []
        for share, cost in columns.values():
            most = [worst(measured, share, cost, name, scale) for scale in scales(name)]
            text = ", ".join(f"{ratio:.2g}" for ratio in most)
            ratios.append("none" if math.isnan(most[0]) else text)
        rows.append([f"`{name}`", *ratios])
    return table(["recipe", *columns], rows, left=1)


def worst(
    measured: dict[str, dict[str, Any]],
    share: Callable[[dict[str, Any], dict[str, Any], str], float],
    cost: str,
    name: str,
    scale: str,
) -> float:
    """The largest share of an order or a bound on any problem, at any K."""
    return max(
        share(numbers, cell, cost)
        for numbers in measured.values()
        for cell in lines(numbers)[name, scale]
    )


# ---- the figure ----------------------------------------------------------------------------------


def draw(path: Path) -> None:
    """The exponent of regret over the last decade of K, a panel for each problem, a line for each
    recipe.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    places = {name: -i for i, name in enumerate(PUBLISHED)}
    for axes, problem in zip(figure.subplots(1, len(PROBLEMS), sharey=True), PROBLEMS, strict=True):
        report.dress(axes)
        for mark, words in ((0.5, "the order, 1/2"), (1.0, "linear")):
            axes.axvline(
                mark,
                color="black",
                linewidth=1,
                linestyle="--" if mark < 1 else ":",
                label=words,
                zorder=1,
            )
        for scale, colour, shape in (
            ("published", report.COLOURS[1], "s"),
            ("practical", report.COLOURS[0], "o"),
        ):
            several = {
                name: cells for (name, kind), cells in lines(load(problem)).items() if kind == scale
            }
            last = [exponents(cells)[-1] for cells in several.values()]
            words = {
                "published": "as published (c = 1 where there is a c)",
                "practical": "at a practical c",
            }[scale]
            axes.plot(
                last,
                [places[name] for name in several],
                shape,
                color=colour,
                markersize=6,
                label=words,
                zorder=3,
            )
        axes.set_title(TITLES[problem], fontsize=9)
        axes.set_xlabel("exponent of regret", fontsize=9)
        axes.set_xlim(-0.08, 1.12)
        axes.set_xticks([0, 0.5, 1], ["0", "1/2", "1"])
    figure.axes[0].set_yticks(list(places.values()), list(places))
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=9,
    )
    report.save_figure(figure, path)


if __name__ == "__main__":
    main(sys.argv[1:] or list(PROBLEMS))
