"""Measure what only a GPU makes affordable: docs/sweeps/phase.json and random.json, and figures.

    python docs/sweeps.py --device gpu [--folder FOLDER]     about three minutes on an H200
    python docs/sweeps.py --draw                             the figures, from the result files

phase: regret and local switches of UCB2-H and UCB2-B over c x eta on three problems, 64 seeds,
K = 10^6. random: UCB2 against the learner that may change a row at every visit on 1,000 random
problems. With --device cpu the results are the same, and it takes a day. `python docs/publish.py`
then puts the numbers on the page.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from pages import table

import lowswitch as ls
from lowswitch.show.text import span

TARGET = Path(__file__).parent / "sweeps"
EPISODES, SEEDS = 10**6, 64
SCALES = np.geomspace(0.001, 1, 24)
PROBLEMS = {
    "RiverSwim (6, 2, 10)": "riverswim:states=6,horizon=10",
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5",
    "random (20, 4, 10)": "random-mdp:states=20,actions=4,horizon=10",
}
LEARNERS = {"UCB2-H": ls.ucb2_hoeffding, "UCB2-B": ls.ucb2_bernstein}
RANDOM, RANDOM_SEEDS, RANDOM_SCALE = 1000, 16, 0.05
PAIRS = {
    "UCB2-H": (ls.ucb2_hoeffding, ls.ucb_hoeffding),
    "UCB2-B": (ls.ucb2_bernstein, ls.ucb_bernstein),
}
SHOWN = 15  # percent, in the figure
MORE = 0.05  # how much more regret still counts as the same


# ---- measuring -----------------------------------------------------------------------------------


def etas(horizon: int) -> list[float]:
    """16 values, the theory's the fourth of them."""
    theory = 1 / (2 * horizon * (horizon + 1))
    return [*np.geomspace(theory / 8, theory, 4), *np.geomspace(theory, 0.9, 13)[1:]]


def phase(options: dict[str, Any], episodes: int) -> list[dict[str, Any]]:
    """Means over the seeds [scales][etas], and the standard errors of the regret."""
    rows = []
    for problem, text in PROBLEMS.items():
        mdp = ls.envs.make(text)
        grid = etas(mdp.horizon)
        for name, learner in LEARNERS.items():
            settings = [learner(c=float(c), eta=float(eta)) for c in SCALES for eta in grid]
            sweep = ls.sweep(mdp, settings, episodes=episodes, seeds=SEEDS, **options)
            shape = len(SCALES), len(grid), SEEDS
            regret = sweep.regret.reshape(shape)
            error = regret.std(axis=-1, ddof=1) / SEEDS**0.5
            row = {"problem": problem, "learner": name, "episodes": episodes, "seeds": SEEDS}
            row |= {"scales": listed(SCALES), "etas": listed(np.array(grid))}
            row |= {"regret": listed(regret.mean(axis=-1)), "error": listed(error)}
            for cost in ("local_switches", "deployments"):
                row[cost] = listed(getattr(sweep, cost).reshape(shape).mean(axis=-1))
            row["steps"] = len(settings) * SEEDS * episodes * mdp.horizon
            row["seconds"] = sweep.seconds
            rows.append(row)
            print(problem, name, f"{row['steps'] / row['seconds'] / 1e9:.1f} G steps/s", flush=True)
    return rows


def random_problems(options: dict[str, Any], episodes: int) -> dict[str, Any]:
    """Means over the seeds for each problem, of UCB2 and of the learner at every visit."""
    problems = [
        ls.envs.make(f"random-mdp:states=5,actions=3,horizon=5,seed={seed}")
        for seed in range(RANDOM)
    ]
    settings = [recipe(c=RANDOM_SCALE) for pair in PAIRS.values() for recipe in pair]
    sweep = ls.sweep(problems, settings, episodes=episodes, seeds=RANDOM_SEEDS, **options)
    found: dict[str, Any] = {"episodes": episodes, "seeds": RANDOM_SEEDS, "problems": RANDOM}
    for i, name in enumerate(PAIRS):
        lazy, eager = sweep.regret[:, 2 * i], sweep.regret[:, 2 * i + 1]
        more = (lazy - eager).std(axis=-1, ddof=1) / RANDOM_SEEDS**0.5
        switches = sweep.local_switches.mean(axis=-1)
        found[name] = {
            "regret": listed(lazy.mean(axis=-1)),
            "every_visit": listed(eager.mean(axis=-1)),
            "error": listed(more),  # of the difference, the same noise for both
            "switches": listed(switches[:, 2 * i]),
            "every_visit_switches": listed(switches[:, 2 * i + 1]),
        }
    found["seconds"] = sweep.seconds
    found["steps"] = sum(runs.episodes * runs.horizon * len(runs.seeds) for runs in sweep)
    return found


def listed(array: np.ndarray) -> Any:
    """An array for JSON, to six digits."""
    return np.vectorize(lambda number: float(f"{number:.6g}"))(array).tolist()


# ---- figures -------------------------------------------------------------------------------------


def draw() -> None:
    from lowswitch.show.report import save_figure

    save_figure(phase_figure(load("phase")), TARGET / "phase.png")
    save_figure(random_figure(load("random")), TARGET / "random.png")


def phase_figure(rows: list[dict[str, Any]]) -> Any:
    """Two maps for each problem and learner: regret over the least one, and switches."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 11), layout="constrained")
    axes = figure.subplots(4, 3, sharex="col", sharey=True)
    for i, row in enumerate(rows):
        column, first = divmod(i, 2)
        regret, switches = np.array(row["regret"]), np.array(row["local_switches"])
        maps = (
            ("regret, times the least", regret / regret.min(), "viridis_r"),
            (
                "local switches",
                np.maximum(switches, 1),
                "magma_r",
            ),
        )
        for part, (title, values, colours) in enumerate(maps):
            axis = axes[2 * part + first, column]
            mesh = axis.pcolormesh(
                row["etas"], row["scales"], values, norm=LogNorm(), cmap=colours, shading="nearest"
            )
            axis.set(xscale="log", yscale="log")
            axis.axvline(row["etas"][3], color="white", linestyle="--", linewidth=1)
            axis.set_title(f"{row['learner']}, {row['problem']}: {title}", fontsize=8)
            figure.colorbar(mesh, ax=axis)
    for axis in axes[-1]:
        axis.set_xlabel("eta (dashed: the theory's)")
    for axis in axes[:, 0]:
        axis.set_ylabel("c")
    return figure


def random_figure(found: dict[str, Any]) -> Any:
    """How much more regret and how many times fewer switches, a point for each problem."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axis, name in zip(figure.subplots(1, 2, sharey=True), PAIRS, strict=True):
        ratios = compared(found[name])
        more = 100 * (ratios["regret"] - 1)
        error = 196 * np.array(found[name]["error"]) / np.array(found[name]["every_visit"])
        axis.errorbar(ratios["fewer"], more, yerr=error, fmt=".", markersize=2, linewidth=0.3)
        axis.axhline(0, color="black", linewidth=0.6)
        outside = int((np.abs(more) > SHOWN).sum())
        axis.set(xscale="log", ylim=(-SHOWN, SHOWN), title=f"{name} ({outside} points outside)")
        axis.set_xlabel("times fewer local switches than at every visit")
    figure.axes[0].set_ylabel("more regret, %, with 95 % intervals")
    return figure


# ---- what the page says --------------------------------------------------------------------------


def compared(row: dict[str, Any]) -> dict[str, np.ndarray]:
    """UCB2 over the learner at every visit, problem by problem."""
    number = {name: np.array(values) for name, values in row.items()}
    return {
        "regret": number["regret"] / number["every_visit"],
        "fewer": number["every_visit_switches"] / number["switches"],
        "significantly_more": (number["regret"] - number["every_visit"]) > 1.96 * number["error"],
    }


def load(name: str) -> Any:
    return json.loads((TARGET / f"{name}.json").read_text(encoding="utf-8"))


def values() -> dict[str, str]:
    rows, found = load("phase"), load("random")
    steps = sum(row["steps"] for row in rows) + found["steps"]
    seconds = sum(row["seconds"] for row in rows) + found["seconds"]
    return {
        "sweeps/phase": phase_table(rows),
        "sweeps/random": random_table(found),
        "sweeps/by-c": span(map(by_scale, rows), ".0f"),
        "sweeps/by-eta": span(map(by_eta, rows), ".2f"),
        "sweeps/steps": f"{steps / 1e12:.1f}·10¹²",
        "sweeps/seconds": f"{seconds:.0f}",
    }


def by_scale(row: dict[str, Any]) -> float:
    """The largest regret over the least at the theory's eta."""
    regret = np.array(row["regret"])[:, 3]
    return float(regret.max() / regret.min())


def by_eta(row: dict[str, Any]) -> float:
    """The largest regret over the least at the c that is best with the theory's eta."""
    regret = np.array(row["regret"])
    best = regret[regret[:, 3].argmin()]
    return float(best.max() / best.min())


def phase_table(rows: list[dict[str, Any]]) -> str:
    """For each problem and learner: the best c, and the theory's eta against the best at it."""
    header = ["problem", "learner", "best c", "regret", "switches at the theory's eta"]
    header += ["switches at eta = 0.9", "regret there"]
    lines = []
    for row in rows:
        regret, switches = np.array(row["regret"]), np.array(row["local_switches"])
        best = int(regret[:, 3].argmin())
        error = 1.96 * row["error"][best][3]
        change = regret[best, -1] / regret[best, 3] - 1
        lines.append(
            [
                row["problem"],
                row["learner"],
                f"{row['scales'][best]:.3g}",
                f"{regret[best, 3]:,.0f} ± {error:,.0f}",
                f"{switches[best, 3]:,.0f}",
                f"{switches[best, -1]:,.0f}",
                f"{100 * change:+.1f} %",
            ]
        )
    return table(header, lines, left=2)


def random_table(found: dict[str, Any]) -> str:
    """In how many of the problems the claim is true, and by how much."""
    header = ["learner", "fewer switches in", "times fewer (5 %, median, 95 %)"]
    header += [f"at most {MORE:.0%} more regret in", "more regret (5 %, median, 95 %)"]
    header += ["significantly more in"]
    lines = []
    for name in PAIRS:
        ratios = compared(found[name])
        fewer, regret = ratios["fewer"], ratios["regret"]
        size = len(fewer)
        times = ", ".join(f"{each:.1f}" for each in np.quantile(fewer, (0.05, 0.5, 0.95)))
        more = ", ".join(f"{100 * e - 100:+.1f} %" for e in np.quantile(regret, (0.05, 0.5, 0.95)))
        lines.append(
            [
                name,
                f"{(fewer > 1).sum():,} of {size:,}",
                times,
                f"{(regret <= 1 + MORE).sum():,} of {size:,}",
                more,
                f"{ratios['significantly_more'].sum():,} of {size:,}",
            ]
        )
    return table(header, lines, left=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="gpu")
    parser.add_argument("--folder", type=Path, help="keep finished work here, and go on from it")
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--draw", action="store_true", help="only draw the figures")
    options = parser.parse_args()
    if options.draw:
        draw()
        return
    chosen = {"device": options.device, "folder": options.folder, "progress": False}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, measure in (("random", random_problems), ("phase", phase)):
        found = json.dumps(measure(chosen, options.episodes))
        (options.out / f"{name}.json").write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
