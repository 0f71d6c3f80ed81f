"""What the pages say of the benchmarks, from the files in docs/numbers."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from pages import table

from lowswitch import theory
from lowswitch.bench import standings
from lowswitch.bench.suite import EPISODES
from lowswitch.show.text import span

TARGET = Path(__file__).parent / "numbers"
LEARNERS = {"ucb2-h": "UCB2-H", "ucb2-b": "UCB2-B", "ucb-h": "UCB-H"}
FIELD = {
    "ucbvi, doubling": "UCBVI, doubling",
    "ucbvi-bf, doubling": "UCBVI-BF, doubling",
    "mvp, doubling": "MVP",
    "stage-q": "stage-based Q-learning",
    "ucb-advantage": "UCB-Advantage",
}
SMALL = 20  # states
_HIGH = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SHOWN = ("proposals", "runs")
_SUMS = ("equal", "different")  # of all families


def values() -> dict[str, str]:
    speed, machines, gpu = (load(name) for name in ("speed", "concurrent", "gpu"))
    ledgers = of_ledger(load("ledger")) | of_faults(load("ledger_faults"))
    ledgers |= of_service(load("service")) | of_evidence(load("evidence"))
    sets = ("_first", "_second", "_fourth", "_fourth_again", "_third", "_fifth", "_fifth_again")
    sets += ("", "_third_8", "_fifth_8")
    ledgers |= of_sets({name: load(f"evidence{name}") for name in sets})
    ledgers |= of_bounds(load("bounds")) | of_feature_evidence(load("feature_evidence"))
    logs = of_evaluation(load("evaluation"))
    prices = of_prices(load("price")) | of_sb3(load("sb3"))
    logs |= of_federated(load("federated")) | of_randql(load("randql"))
    logs |= of_sums(load("sums"))
    logs |= of_larfe(load("larfe")) | of_dimensions(load("dimensions")) | of_knee(load("knee"))
    logs |= of_adversary(load("adversary")) | of_delays(load("delays"))
    own = of_own(load("own")) | of_stuck(load("stuck")) | of_rows(load("rows")) | of_bench()
    own |= of_cold(load("cold")) | of_cluster(load("cluster"))
    return of_speed(speed) | of_machines(machines) | of_gpu(gpu) | ledgers | logs | prices | own


def load(name: str) -> dict[str, Any]:
    return json.loads((TARGET / f"{name}.json").read_text(encoding="utf-8"))


def of_sb3(found: dict[str, Any]) -> dict[str, str]:
    """How often DQN of Stable-Baselines3 and `few` change their policies on the same tasks."""
    settings, blocks = (
        ", ".join(f"`{key}={value}`" for key, value in found[name].items())
        for name in ("settings", "blocks")
    )
    played = [key for key in found if key not in ("settings", "blocks")]
    rows, tasks = [], [key.partition(": ")[0] for key in played]
    # a row that was measured later stands with its task
    for key in sorted(played, key=lambda key: _place(found, tasks, key)):
        task, _, learner = key.partition(": ")
        runs = found[key]["runs"]
        numbers = {name: [run[name] for run in runs] for name in runs[0]}
        value = f"{span(numbers['last'], '.2f')} of {found[key]['optimal']:.2f}"
        episodes, counts = (span(numbers[name], ",.0f") for name in ("episodes", "deployments"))
        rows.append((task, learner, episodes, counts, span(numbers["earned"], ".2f"), value))
    header = ("task", "learner", "episodes", "deployments", "earned", "value of the last policy")
    return {
        "sb3/table": table(header, rows, left=2),
        "sb3/seeds": str(len(runs)),
        "sb3/settings": settings,
        "sb3/blocks": blocks,
    }


def _place(found: dict[str, Any], tasks: list[str], key: str) -> tuple[int, int]:
    """Where a row stands: by its task, and there in the order of the file."""
    return tasks.index(key.partition(": ")[0]), list(found).index(key)


def of_speed(speed: dict[str, Any]) -> dict[str, str]:
    if not speed["rlberry"]:
        raise ValueError("speed.json lacks rlberry's speed; run speed.py with --rlberry PYTHON")
    field = {row["algorithm"]: row for row in speed["field"]}
    small = [row for row in speed["against_c"] if int(row["size"].split(",")[0]) <= SMALL]
    return {
        "speed/run": speed["run"],
        "speed/against-c": against_c(speed["against_c"]),
        "speed/field": the_field(field, speed["rlberry"]),
        "speed/rlberry": f"{speed['rlberry']:,.0f}",
        "speed/ns": span((row["library_ns"] for row in small), ".0f"),
        "speed/of-c": span((row["library_to_c"] for row in small), ".2f"),
        "speed/ucbvi": f"{field['ucbvi, doubling']['speed'] / 1e6:.1f} million",
        "speed/times-rlberry": f"{field['ucbvi, doubling']['speed'] / speed['rlberry']:.0f}",
    }


def of_own(own: dict[str, Any]) -> dict[str, str]:
    if not own["equal"]:
        raise ValueError("own.json says that a function differs from the library's own formula")
    cells = [
        [
            row["learner"],
            f"{row['steps_per_second'] / 1e6:.1f} million",
            f"{row['of_hoeffding']:.2f}",
        ]
        for row in own["rows"]
    ]
    header = ["Q-learner", "steps per second", "relative"]
    seconds = f"about {own['compile_seconds']:.0f} seconds"
    return {
        "own/speed": table(header, cells, left=1),
        "own/compile": seconds,
        "own/run": own["run"],
    }


CALLS = {
    "import": "`import lowswitch`",
    "q": "`simulate`, a Q-learner",
    "few": "`simulate`, `few`",
    "plan": "`plan`",
    "create": "`Ledger.create`",
    "report": "and its first report",
    "serve": "`lowswitch serve --demo`",
}
_IDLE = 1.0  # load before a run that lets its seconds count


def of_cold(found: dict[str, Any]) -> dict[str, str]:
    """What the first call of each kind takes; the clock counts on an idle machine only."""
    cells = []
    for name, call in CALLS.items():
        row, idle = found[name], found[name]["load"] < _IDLE
        cold, again = row["cold"], row["warm"]
        seconds = [f"{one['seconds']:.1f}" if idle else "busy" for one in (cold, again)]
        counts = [str(cold.get(key, 0)) for key in ("kernels", "compilations")]
        used = [f"{one['cpu']:.1f}" for one in (cold, again)]
        cells.append([call, seconds[0], used[0], seconds[1], used[1], *counts])
    header = ["first call", "seconds", "CPU", "again", "CPU", "kernels", "compilations"]
    return {"cold/calls": table(header, cells, left=1), "cold/run": found["few"]["run"]}


def of_stuck(stuck: dict[str, Any]) -> dict[str, str]:
    """How many of the problems each kind of planner solved."""
    rmax = [row for name, row in stuck["learners"].items() if name.startswith("R-max")]
    others = [row for name, row in stuck["learners"].items() if not name.startswith("R-max")]

    def solved(rows: list[dict[str, Any]]) -> str:
        left = max(row["stuck"] for row in rows)
        return f"all but {left:,}" if left else f"all {rows[0]['problems']:,}"

    return {
        "stuck/problems": f"{rmax[0]['problems']:,}",
        "stuck/rmax": solved(rmax),
        "stuck/others": solved(others),
    }


def of_rows(found: dict[str, Any]) -> dict[str, str]:
    """What learners lose, and how many single rows of the policy they change."""
    learners = list(next(iter(found["results"].values())))
    rows = [
        (
            f"`{learner}`",
            *(
                f"{row['lost']:.1%}, {row['local_switches']:,.0f}".replace("%", " %")
                for row in (results[learner] for results in found["results"].values())
            ),
        )
        for learner in learners
    ]
    setting = found["setting"]
    return {
        "rows/table": table(("learner", *found["results"]), rows, left=1),
        "rows/setting": f"{setting['episodes']:,} episodes, {setting['seeds']} seeds",
    }


def of_randql(found: dict[str, Any]) -> dict[str, str]:
    """Staged-RandQL beside every rival at its best scale, and how many settings are better."""
    rows = []
    for problem, results in found["results"].items():
        learners = results["learners"]
        mine = learners["staged-randql"]
        best: dict[str, str] = {}
        for text in sorted(learners, key=lambda text: learners[text]["regret"]):
            best.setdefault(text.partition(":")[0], text)
        for text in best.values():
            row = learners[text]
            rows.append(
                (
                    problem,
                    f"`{text}`",
                    f"{row['regret']:,.0f} ± {row['error']:,.0f}",
                    f"{row['exponent']:.2f}",
                    f"{row['deployments']:,.0f}",
                    f"{row['switches']:,.0f}",
                )
            )
        better = [
            row
            for row in learners.values()
            if row["regret"] < mine["regret"] and row["deployments"] < mine["deployments"]
        ]
        results["better"] = f"{len(better)} of {len(learners) - 1}"
    header = ("problem", "learner", "regret", "exponent", "deployments", "local switches")
    results = list(found["results"].values())
    return {
        "randql/table": table(header, rows, left=2),
        "randql/seeds": str(found["setting"]["seeds"]),
        "randql/episodes": f"{results[0]['episodes']:,}",
        "randql/grid-episodes": f"{results[-1]['episodes']:,}",
        "randql/better": ", ".join(result["better"] for result in results),
    }


def of_sums(found: dict[str, Any]) -> dict[str, str]:
    """The share of bytes that machines send if they send sums, by the length of the run."""
    shares = [
        [100 * rows[str(episodes)]["sums"] / rows[str(episodes)]["episodes"] for rows in learners]
        for episodes in found["setting"]["episodes"]
        for learners in [[row for one in found["results"].values() for row in one.values()]]
    ]
    return {
        "sums/shares": " and ".join(f"{span(each, '.0f')} %" for each in shares),
        "sums/episodes": " and ".join(f"{K:,}" for K in found["setting"]["episodes"]),
    }


def of_larfe(found: dict[str, Any]) -> dict[str, str]:
    """What LARFE and its rivals lose by the number of episodes of a deployment."""
    results = found["results"]
    names = next(iter(next(iter(results.values()))["phases"].values()))
    rows, slopes = [], []
    for problem, result in results.items():
        phases = {int(phase): row for phase, row in result["phases"].items()}
        slopes.append(
            np.polyfit(np.log(list(phases)), np.log([row["larfe"] for row in phases.values()]), 1)[
                0
            ]
        )
        rows += [
            (problem, f"{phase:,}", *(f"{100 * row[name]:.1f} %" for name in names))
            for phase, row in phases.items()
        ]
    header = ("problem", "episodes per deployment", *(f"`{name}`" for name in names))
    deployments = " and ".join(str(result["deployments"]) for result in results.values())
    return {
        "larfe/table": table(header, rows, left=1),
        "larfe/seeds": str(found["setting"]["seeds"]),
        "larfe/rewards": str(found["setting"]["rewards"]),
        "larfe/deployments": deployments,
        "larfe/slopes": span(slopes, ".2f"),
    }


_LETTERS = {"states": "S", "actions": "A", "horizon": "H", "1 / eps": "1 / eps"}
_COSTS = {
    "switches": "local switches",
    "deployments": "deployments",
    "deployments per switch": "deployments per local switch",
    "regret": "regret",
    "episodes": "episodes until eps-optimal",
    "machines": "machines of a linear speed-up",
    "burn-in": "burn-in",
}


def of_dimensions(found: dict[str, Any]) -> dict[str, str]:
    """The exponents of all costs in S, A, H and 1 / eps, beside the theorems' exponents."""
    setting, results = found["setting"], found["results"]
    values = ", ".join(
        f"{_LETTERS[name]} = {', '.join(map(str, values))}"
        for name, values in setting["values"].items()
    )
    shares = [
        median
        for row in results
        if row["cost"] == "deployments per switch"
        for median in row["medians"]
    ]
    tables = {
        f"dimensions/at-{c:g}": exponents([row for row in results if row["c"] == c])
        for c in setting["scales"]
    }
    return {
        **{name.replace(".", "-"): value for name, value in tables.items()},
        "dimensions/kept": kept_orders(results),
        "dimensions/values": values,
        "dimensions/episodes": f"{setting['episodes']:,}",
        "dimensions/instances": str(setting["instances"]),
        "dimensions/eps": f"{setting['eps']:g}",
        "dimensions/shares": span(shares),
        "dimensions/heights": heights(found, "episodes", ".2g"),
        "dimensions/burn-ins": heights(found, "burn-in", ".2g"),
        "dimensions/run": found["run"],
    }


def exponents(rows: list[dict[str, Any]]) -> str:
    """A line for each cost and what it grows with, a column for each learner and law of rewards."""
    lines: dict[tuple[str, str], dict[tuple[str, str], dict[str, Any]]] = {}
    for row in rows:
        there = lines.setdefault((row["cost"], row["of"]), {})
        there[row["learner"], row["law"]] = row
    columns = [
        (name, law) for name in ("ucb2-h", "ucb2-b") for law in ("deterministic", "bernoulli")
    ]
    ordered = sorted(
        lines, key=lambda line: (list(_COSTS).index(line[0]), list(_LETTERS).index(line[1]))
    )
    cells = [
        [
            _COSTS[line[0]],
            _LETTERS[line[1]],
            " / ".join(dict.fromkeys(f"{row['order']:g}" for row in lines[line].values())),
            *(_exponent(lines[line].get(column)) for column in columns),
        ]
        for line in ordered
    ]
    header = ["cost", "in", "order", "UCB2-H, fixed", "Bernoulli", "UCB2-B, fixed", "Bernoulli"]
    return table(header, cells, left=2)


def _exponent(row: dict[str, Any] | None) -> str:
    """An exponent with its interval, bold where the theorem's order is not kept."""
    if row is None or row["exponent"] is None:
        return "" if row is None else "-"
    mean, low, high = (f"{row[name]:z.2f}" for name in ("exponent", "low", "high"))
    words = f"{mean} ({low} to {high})"
    return words if keeps_order(row) else f"**{words}**"


def keeps_order(row: dict[str, Any]) -> bool:
    """Whether the data stay at or below the order, by the interval of the exponent.

    The order of machines is one that they should reach.
    """
    if row["cost"] == "machines":
        return bool(row["high"] >= row["order"])
    return bool(row["low"] <= row["order"])


def heights(found: dict[str, Any], cost: str, form: str) -> str:
    """The least and largest median over its order with a constant of 1."""
    setting, ratios = found["setting"], []
    for row in found["results"]:
        if row["cost"] != cost:
            continue
        for place, median in enumerate(row["medians"]):
            if median is None:
                continue
            size, eps = dict(setting["base"]), setting["eps"]
            if row["of"] in size:
                size[row["of"]] = setting["values"][row["of"]][place]
            else:
                eps = setting["smaller"][place]
            letters = {_LETTERS[name]: value for name, value in size.items()}
            if cost == "episodes":
                bonus: theory.Bonus = "H" if row["learner"] == "ucb2-h" else "B"
                order = theory.pac_episodes_order(**letters, eps=eps, bonus=bonus)
            else:
                order = theory.bernstein_burn_in_order(**letters)
            ratios.append(median / order)
    return span(ratios, form)


def kept_orders(rows: list[dict[str, Any]]) -> str:
    """How many of the exponents keep their order, over learners, scales and laws of rewards."""
    cells = []
    for cost, words in _COSTS.items():
        line = [words]
        for of in _LETTERS:
            every = [row for row in rows if (row["cost"], row["of"]) == (cost, of)]
            fitted = [row for row in every if row["exponent"] is not None]
            kept = sum(keeps_order(row) for row in fitted)
            line.append(f"{kept} of {len(fitted)}" if every else "")
        cells.append(line)
    return table(["cost", *_LETTERS.values()], cells, left=1)


def of_knee(found: dict[str, Any]) -> dict[str, str]:
    """How the knee and mistakes grow with 1 / eps."""
    laws = {"deterministic": "fixed", "bernoulli": "Bernoulli"}
    scales = {"proof": "proofs", "practical": "c = 0.05"}
    knees, mistakes = (
        [row for row in found["results"] if row["kind"] == kind] for kind in ("knee", "mistakes")
    )
    return {
        "knee/table": table(
            [
                "problems",
                "scale",
                "rewards",
                "learner",
                "exponent of the knee",
                "fitted",
                "knee at the smallest eps",
                "over the order",
            ],
            [
                [
                    row["place"],
                    scales[row["scale"]],
                    laws[row["law"]],
                    f"`{row['learner']}`",
                    _with_half(row),
                    f"{row['fitted']} of {row['instances']}",
                    span(row["machines"], ",.0f"),
                    span(row["of order"], ".1g"),
                ]
                for row in knees
            ],
            left=4,
        ),
        "knee/mistakes": table(
            ["rewards", "M", "learner", "Q-learning", "CMBIE", "CMBIE over Q-learning", "fitted"],
            [
                [
                    laws[row["law"]],
                    str(row["machines"]),
                    f"`{row['learner']}`",
                    *(_with_half(row[name]) for name in ("own", "cmbie", "ratio")),
                    f"{row['ratio']['fitted']} of {row['instances']}",
                ]
                for row in mistakes
            ],
            left=3,
        ),
        "knee/span": span(row["mean"] for row in knees),
        "knee/own": span(row["own"]["mean"] for row in mistakes),
        "knee/ratio": span(row["ratio"]["mean"] for row in mistakes),
        "knee/instances": str(found["setting"]["instances"]),
        "knee/episodes": f"{found['setting']['episodes']:,}",
    }


def _with_half(row: dict[str, Any]) -> str:
    return f"{row['mean']:.2f} ± {row['half']:.2f}"


def of_adversary(found: dict[str, Any]) -> dict[str, str]:
    """What starts chosen by an adversary cost, and how long rounds follow the sequential run."""
    setting = found["setting"]
    rows = [
        (
            problem if name == "ucb2-h" and chooser == "drawn" else "",
            f"`{name}`" if chooser == "drawn" else "",
            chooser,
            f"{row['regret']:,.0f}",
            f"{row['switches']:,.0f}",
            f"{row['deployments']:,.0f}",
            "the whole run" if row["alike"] == setting["episodes"] else f"{row['alike']:,.0f}",
        )
        for problem, learners in found["results"].items()
        for name, choosers in learners.items()
        for chooser, row in choosers.items()
    ]
    more = [
        choosers["regret"]["regret"] / choosers["drawn"]["regret"]
        for learners in found["results"].values()
        for choosers in learners.values()
    ]
    header = ("problem", "learner", "starts", "regret", "local switches", "deployments")
    return {
        "adversary/table": table((*header, "rounds follow for"), rows, left=3),
        "adversary/episodes": f"{setting['episodes']:,}",
        "adversary/seeds": str(setting["seeds"]),
        "adversary/more": span(more, ".2f"),
    }


def of_delays(found: dict[str, Any]) -> dict[str, str]:
    """Regret and local switches if outcomes arrive late, by more than one episode."""
    setting = found["setting"]
    shown = [i for i, delay in enumerate(setting["delays"]) if delay != 1]
    rows = [
        (
            problem if i == 0 else "",
            f"`{name}`",
            *(f"{costs[j][0]:,.0f} ({costs[j][1]:,.0f})" for j in shown),
        )
        for problem, learners in found["results"].items()
        for i, (name, costs) in enumerate(learners.items())
    ]
    header = ("problem", "learner", *(f"D = {setting['delays'][j]:,}" for j in shown))
    return {
        "delays/table": table(header, rows, left=2),
        "delays/episodes": f"{setting['episodes']:,}",
        "delays/seeds": str(setting["seeds"]),
    }


def of_federated(found: dict[str, Any]) -> dict[str, str]:
    """Regret of learners of rounds over log T, and how many rounds they have."""
    points, lengths = (
        [
            f"10{str(round(math.log10(number))).translate(_HIGH)}"
            for number in found["setting"][name]
        ]
        for name in ("points", "lengths")
    )
    header = ("(H, S, A)", "learner", f"regret / log T at K = {points[1]}", *points[2:])
    header += (f"rounds at {lengths[0]}", *lengths[1:], "bound")
    rows = [
        (
            size,
            f"`{learner}`",
            *(
                f"{ratio:,.1f} ± {error:,.1f}"
                for ratio, error in list(zip(row["ratio"], row["error"], strict=True))[1:]
            ),
            *(f"{rounds:,.0f}" for rounds in row["rounds"]),
            f"{row['bound'][-1]:,.0f}",
        )
        for size, results in found["results"].items()
        for learner, row in results.items()
    ]
    return {
        "federated/table": table(header, rows, left=2),
        "federated/seeds": str(found["setting"]["seeds"]),
    }


def of_bench() -> dict[str, str]:
    found = standings()
    seconds = sum(float(row[-1]) for row in found.rows)
    return {
        "bench/standings": table(found.header, found.rows, left=1),
        "bench/seconds": f"{seconds:.0f}",
        "bench/entries": f"{len(found.rows)}",
        "bench/episodes": f"{EPISODES:,}",
    }


def against_c(rows: list[dict[str, Any]]) -> str:
    """Nanoseconds a step and how many times those of C, a line for each problem."""
    problems: dict[str, list[str]] = {}
    for row in rows:
        name = {"riverswim": "RiverSwim"}.get(row["problem"], row["problem"])
        cells = problems.setdefault(row["size"], [f"{name} ({row['size']})"])
        assert len(cells) == 1 + list(LEARNERS).index(row["algorithm"])
        cells.append(f"{row['library_ns']:.1f} ns, {row['library_to_c']:.2f} x")
    return table(["problem (S, A, H)", *LEARNERS.values()], problems.values(), left=1)


def the_field(rows: dict[str, dict[str, Any]], rlberry: float) -> str:
    """Planners against rlberry's UCBVI, learners of rows against UCB2-H."""
    cells = []
    for algorithm, words in FIELD.items():
        row = rows[algorithm]
        if "doubling" in algorithm:
            against = f"{row['speed'] / rlberry:.0f} times rlberry's"
        else:
            against = f"{row['of_ucb2']:.2f} of UCB2-H's time"
        cells.append([words, f"{row['episodes']:,}", f"{row['speed']:,.0f}", against])
    return table(["algorithm", "K", "steps per second", "against"], cells, left=1)


def of_machines(machines: dict[str, Any]) -> dict[str, str]:
    fleets = {row["fleet"]: row["against one worker"] for row in machines["speed_ups"]}
    (driver,) = (
        row["driver's CPU, us an episode"]
        for row in machines["overhead"]
        if row["fleet"] == "2 processes"
    )
    return {
        "machines/run": machines["run"],
        "machines/two": f"{float(fleets['2 processes']):.2f}",
        "machines/sixteen": f"{float(fleets['16 processes']):.1f}",
        "machines/ray": f"{float(fleets['Ray, 4 workers']):.2f}",
        "machines/driver": f"{float(driver):.1f}",
    }


def of_gpu(gpu: dict[str, Any]) -> dict[str, str]:
    equal = [row for row in gpu["equality"] if not row["different"]]
    runs = sum(row["seeds"] for row in equal)
    pairs = f"{runs:,} runs of {len(equal)} of {len(gpu['equality'])} pairs of problem and learner"
    swept = gpu["sweep"]
    if swept["different"]:
        raise ValueError("gpu.json has a sweep that differs from the CPU's; the kernels are wrong")
    fastest = max(row["gpu"] for row in gpu["speed"])
    return {
        "gpu/run": gpu["run"],
        "gpu/speed": gpu_speed(gpu["speed"]),
        "gpu/equal": pairs,
        "gpu/sweep": f"{swept['settings']} settings and {swept['seeds']}",
        "gpu/warm": f"{gpu['first_result']['warm']:.0f}",
        "gpu/cold": f"{gpu['first_result']['cold']:.0f}",
        "gpu/profile": gpu_profile(gpu["profile"]),
        "gpu/fastest": f"{fastest / 1e9:.0f} billion",
    }


def of_prices(prices: dict[str, Any]) -> dict[str, str]:
    """The Bayes regret of the best learner, a line for each problem; seconds on a GPU."""
    rows = {name: row for name, row in prices.items() if name != "run"}
    if not all(row.get("equal", True) for row in rows.values()):
        raise ValueError("price.json has values that differ from the CPU's; the kernels are wrong")
    lines = []
    for name, row in rows.items():
        lost = (f"{one:.3f}" for one in (*row["regret"], row["unlimited"]))
        lines.append([name, *lost, f"{row['seconds']['gpu']:.1f}"])
    changes = [f"N = {n}" for n in range(len(next(iter(rows.values()))["regret"]))]
    header = ["problem", *changes, "any N", "seconds"]
    return {"price/table": table(header, lines, left=1), "price/run": prices["run"]}


def gpu_speed(rows: list[dict[str, Any]]) -> str:
    """Billions of steps a second, a line for each problem; the CPU's without regret in brackets."""
    kinds = {
        "UCB2-H": ("ucb2-h", False),
        "UCB2-H with regret": ("ucb2-h", True),
        "UCB2-B": ("ucb2-b", False),
        "UCB-H": ("ucb-h", False),
    }
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    found = {(row["problem"], row["learner"], row["regret"]): row for row in rows}
    lines = []
    for problem in problems:
        cells = [found[problem, *kind] for kind in kinds.values()]
        lines.append(
            [problem, *(f"{row['gpu'] / 1e9:.3g} ({row['cpu'] / 1e9:.2g})" for row in cells)]
        )
    header = [f"{name}: GPU (CPU)" for name in kinds]
    return table(["problem (S, A, H)", *header], lines, left=1)


def gpu_profile(problems: dict[str, dict[str, float]]) -> str:
    """What the kernel that plays uses of the GPU, and what its instructions wait for."""
    lines = [
        [
            problem,
            f"{row['compute']:.0f} %",
            f"{row['second-level cache']:.0f} %",
            f"{row['memory']:.0f} %",
            f"{row['warps']:.0f}",
            f"{row['cycles of an instruction']:.1f}",
            f"{row['of them waiting for memory']:.1f}",
        ]
        for problem, row in problems.items()
    ]
    used = ["instructions", "second-level cache", "memory", "warps"]
    header = [*used, "cycles per instruction", "waiting for memory"]
    return table(["problem (S, A, H)", *header], lines, left=1)


def of_cluster(found: dict[str, Any]) -> dict[str, str]:
    """A sweep on one node and on two."""
    if not found["equal"]:
        raise ValueError("cluster.json has a sweep that differs from the one on this machine")
    return {
        "cluster/speed-up": f"{found['speed-up']:.2f}",
        "cluster/two": f"{found['seconds']['two']:.1f}",
        "cluster/killed": f"{found['seconds with a killed node']:.1f}",
    }


def of_ledger(ledger: dict[str, Any]) -> dict[str, str]:
    rows = []
    for name, words in (
        ("sqlite", "SQLite"),
        ("sqlite, any time", "SQLite, proposes at any time"),
        ("postgresql", "PostgreSQL"),
    ):
        for kind, text in (("single", "one by one"), ("in 64", "in batches of 64")):
            found = ledger[name]
            rates = [f"{found[f'{rate} {kind}']:,.0f}" for rate in ("told", "bare", "statements")]
            shares = [found[f"{share} {kind}"] for share in ("share", "share of statements")]
            rows.append([words, text, *rates, *(f"{share:.2f}" for share in shares)])
    large = ledger["large"]
    head = ["database", "reports", "per second", "bare rows", "its statements"]
    head += ["share of rows", "of statements"]
    return {
        "ledger/run": ledger["run"],
        "ledger/speed": table(head, rows, left=2),
        "ledger/reports": f"{large['reports']:,}",
        "ledger/open": f"{large['open seconds']:.2f}",
        "ledger/verify": f"{large['verify over bare replay']:.1f}",
        "ledger/amended": _amended(ledger),
    }


def _amended(ledger: dict[str, Any]) -> str:
    """Opening and verifying with amendments."""
    words = {"asked": "when it is asked", "any time": "at any time"}
    rows = [
        [
            words[name.split(", ")[1]],
            f"the last {found['within']:,}" if found["within"] < 50_000 else "all",
            "ten at once" if found["together"] else "one by one",
            f"{found['events']:,}",
            f"{found['amends']:,}",
            f"{found['open CPU seconds']:.2f} s",
            f"{found['verify CPU seconds']:.0f} s",
            f"{1000 * found['amend seconds']:,.0f} ms",
        ]
        for name, found in ledger.items()
        if name.startswith("amended, ")
    ]
    head = ["the learner proposes", "amended tickets among", "amended", "events", "amendments"]
    return table([*head, "open", "verify", "one more"], rows, left=3)


def of_faults(faults: dict[str, Any]) -> dict[str, str]:
    kills, stops = faults["kills"], faults["stops"]
    flips, cuts = faults["flips"], faults["power_cuts"]
    rows = [
        [
            "a client killed while it writes, which then sends its reports again",
            f"{kills['kills']} kills, {kills['reports']:,} reports",
            "no report lost, none twice; the same record as without the kills",
        ],
        [
            "PostgreSQL stopped without warning",
            f"{stops['stops']} stops, {stops['reports']:,} reports",
            "the same",
        ],
        [
            "the newest writes (`run.db-wal`) cut off, or with a bit flipped",
            f"{faults['torn_logs']['torn']}",
            "each ledger opens as it was after one of its commits",
        ],
        [
            "events changed, deleted, inserted or reordered",
            f"{faults['tampered']['tampered']}",
            "`verify` names the first wrong event",
        ],
        [
            "one bit of the file flipped, anywhere",
            f"{flips['flips']:,} flips, of which {flips['harmless']:,} change nothing",
            f"{flips['found by verify']:,} found by `verify`, {flips['loud']:,} on opening or"
            f" reading; {flips['silent'] or 'none'} went unnoticed",
        ],
        [
            "a power cut at any moment, which may lose anything not yet safely on the disk",
            f"{cuts['cuts']:,} cuts",
            f"{cuts['lost']} lost an acknowledged event, {cuts['not whole']} left a ledger that is"
            " not whole",
        ],
        [
            "a disk that is full in the middle of a commit",
            f"{faults['full_disk']['refused']}",
            "nothing acknowledged, nothing changed; once there is room, the ledger goes on",
        ],
        [
            "reports in any order of arrival",
            f"{faults['orders']['orders']:,} orders",
            "the same learner, to the bit",
        ],
        [
            "two reviewers who decide on one version at once",
            f"{faults['reviewers']['rounds']} rounds",
            "exactly one decision applied in each round",
        ],
    ]
    return {"ledger/faults": table(["fault", "how often", "result"], rows, left=3)}


def of_evidence(evidence: dict[str, Any]) -> dict[str, str]:
    rows = []
    for name, words in (("equal", "exactly equal"), ("different", "different")):
        of_all = evidence[name]
        for key, rule in (("recorded", "7"), ("rule 2", "2"), ("rule 1", "1")):
            found = of_all[key]
            shares = [f"{found[f'{what} with IMPROVE']} of {of_all[what]}" for what in _SHOWN]
            true = [f"{found[f'truly {which}']:,}" for which in ("better", "worse")]
            each = f"{found['truly better'] / of_all['runs']:.1f}"
            rows.append([words, rule, f"{found['rows with IMPROVE']:,}", *true, each, *shares])
    head = ["treatments", "rule", "IMPROVE rows", "truly better", "truly worse", "better per run"]
    equal, differ = evidence["equal"], evidence["different"]
    share = equal["recorded"]["rows with IMPROVE"] / equal["rows"]
    return {
        "evidence/verdicts": table([*head, *(f"{what} with any" for what in _SHOWN)], rows, left=2),
        "evidence/false-share": f"{100 * share:.2f} %",
        "evidence/runs": f"{equal['runs']}",
        "evidence/other-runs": f"{differ['runs']}",
        "evidence/patients": _patients(evidence["setting"]["patients"]),
        "evidence/stated-false": f"{100 * differ['stated false']:.1f} %",
        "evidence/truly-false": f"{100 * differ['truly false']:.1f} %",
        "evidence/unchanged": f"{evidence['reliability']['rows that change nothing']:,}",
        "evidence/reliability": _reliability(evidence["reliability"]["bins"]),
        "evidence/bins": _bins_within(evidence),
        "evidence/intervals": _intervals(differ["intervals"], evidence["parts"]),
        "evidence/families": _intervals(differ["intervals"], _families(evidence)),
    }


def _patients(families: dict[str, list[int]]) -> str:
    """How many patients the runs of all families have."""
    totals = [sum(patients) for patients in families.values()]
    return f"{min(totals):,} to {max(totals):,}"


def of_sets(sets: dict[str, Any]) -> dict[str, str]:
    """Which families chose a rule of the evidence, and which only reported on it."""
    uses = (
        ("first", "4", "other runs of these were used to select rule 4", "_first"),
        ("second", "4", "declared after that; used to select rule 5", "_second"),
        ("fourth", "5", "written to break rule 5; used to select rule 6", "_fourth"),
        ("fourth", "6", "other runs of these were used to select rule 6", "_fourth_again"),
        (
            "third",
            "6",
            "declared before rule 5 was run on them; not used to select any rule",
            "_third",
        ),
        ("third", "7", "other runs of these", ""),
        ("third", "8", "other runs of these", "_third_8"),
        (
            "fifth",
            "6",
            "declared before rule 7 was run on them; not used to select any rule",
            "_fifth",
        ),
        ("fifth", "7", "other runs of these", "_fifth_again"),
        ("fifth", "8", "other runs of these", "_fifth_8"),
    )
    rows = []
    for name, rule, use, which in uses:
        of_all = sets[which]["different"]["intervals"]
        families = f"{len(_families(sets[which]))}"
        rows.append([name, use, rule, families, f"{of_all['proposals']:,}", *_covered(of_all)])
    head = ["set", "role", "rule", "families", "proposals", "80 %", "95 %"]
    before, now = (_families(sets[which]) for which in ("_fourth", "_fourth_again"))
    broken = [[name, *_covered(before[name]), *_covered(now[name])] for name in before]
    said = ["families", "rule 5, 80 %", "95 %", "rule 6, 80 %", "95 %"]
    good, (old, new) = [], (sets["_fifth_8"][part] for part in ("before", "parts"))
    for name, of in _families(sets["_fifth_8"]).items():
        good.append([name, *_covered(old[name]), *_covered(of)])
    good.append(
        ["first meetings", *_covered(old["first meeting"]), *_covered(new["first meeting"])]
    )
    good.append(
        ["all", *_covered(old["all"]), *_covered(sets["_fifth_8"]["different"]["intervals"])]
    )
    these = ["families", "rule 7, 80 %", "95 %", "rule 8, 80 %", "95 %"]
    return {
        "evidence/sets": table(head, rows, left=2),
        "evidence/good": table(these, good, left=1),
        **_worst(sets["_fifth_8"]),
        "evidence/good-runs": str(sets["_fifth_8"]["setting"]["runs of each"]),
        "evidence/good-false": _false_rows(sets["_fifth_8"]["different"]["recorded"]),
        "evidence/equal-8": _false_runs(sets["_third_8"]["equal"]),
        "evidence/broken": table(said, broken, left=1),
        "evidence/broken-false": _false_rows(sets["_fourth_again"]["different"]["recorded"]),
        "evidence/broken-equal": _false_runs(sets["_fourth_again"]["equal"]),
    }


def _covered(intervals: dict[str, Any]) -> list[str]:
    """How often intervals of proposals contain the truth."""
    return [percent(intervals[f"proposals within {level} %"], 1) for level in (80, 95)]


def _worst(found: dict[str, Any]) -> dict[str, str]:
    """How often intervals of all proposals contain the truth, and those of the worst family."""
    shares = _covered(found["different"]["intervals"])
    families = _families(found).values()
    least = min(families, key=lambda intervals: intervals["proposals within 80 %"])
    both = (
        f"{share} of the {level} % intervals" for share, level in zip(shares, (80, 95), strict=True)
    )
    return {
        "evidence/covered": " and ".join(both),
        "evidence/covered-least": _covered(least)[0],
    }


def _false_rows(recorded: dict[str, int]) -> str:
    said = recorded["rows with IMPROVE"]
    return f"{said - recorded['truly better']} of {said:,}"


def _false_runs(equal: dict[str, Any]) -> str:
    return f"{equal['recorded']['proposals with IMPROVE']} of {equal['proposals']:,}"


def _families(evidence: dict[str, Any]) -> dict[str, Any]:
    """The intervals of each family whose treatments differ."""
    return {
        name: of["intervals"]
        for name, of in evidence.items()
        if "intervals" in of and not name.startswith("all equal") and name not in _SUMS
    }


def _bins_within(evidence: dict[str, Any]) -> str:
    """How many bins with enough rows and runs, of all rows and of parts, are within 5 points."""
    tables = [evidence["reliability"], *(of["reliability"] for of in evidence["parts"].values())]
    large = [
        one for of in tables for one in of["bins"] if one["rows"] >= 1000 and one["runs"] >= 50
    ]
    near = [
        one
        for one in large
        if one["interval"][0] - 0.05 <= one["stated"] <= one["interval"][1] + 0.05
    ]
    return f"{len(near)} of {len(large)}"


def of_feature_evidence(evidence: dict[str, Any]) -> dict[str, str]:
    equal, differ = evidence["all equal"], evidence["different"]
    said, false = (
        differ["recorded"]["rows with IMPROVE"],
        differ["recorded"]["rows with IMPROVE"] - differ["recorded"]["truly better"],
    )
    parts = {
        name: evidence["parts"][name]
        for name in (
            "early, all approved",
            "late, all approved",
            "late and missing reports",
            "with a protocol",
            "without a protocol",
        )
    }
    return {
        "kinds/runs": f"{equal['runs'] + differ['runs']}",
        "kinds/cases": f"{evidence['setting']['patients']:,}",
        "kinds/equal-runs": f"{equal['runs']}",
        "kinds/equal-false": (
            f"{equal['recorded']['proposals with IMPROVE']} of {equal['proposals']}"
        ),
        "kinds/false": f"{false} of {said}",
        "kinds/reliability": _reliability(evidence["reliability"]["bins"]),
        "kinds/intervals": _intervals(differ["intervals"], _families(evidence) | parts),
    }


def _reliability(bins: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{one['from']:g} to {one['to']:g}",
            f"{one['rows']:,}",
            f"{one['runs']}",
            f"{one['stated']:.3f}",
            f"{one['true']:.3f}",
            "{:.3f} to {:.3f}".format(*one["interval"]) if one["interval"] else "",
        ]
        for one in bins
        if one["rows"]
    ]
    head = ["probability", "rows", "runs", "stated, on average", "truly better", "95 % interval"]
    return table(head, rows, left=1)


def _intervals(of_all: dict[str, Any], parts: dict[str, Any]) -> str:
    rows = []
    for name, found in (("all", of_all), *parts.items()):
        row = [name]
        for what in ("proposals", "rows"):
            shares = [percent(found[f"{what} within {level} %"], 1) for level in (80, 95)]
            row += [f"{found[what]:,}", *shares]
        rows.append(row)
    return table(["", "proposals", "80 %", "95 %", "rows", "80 %", "95 %"], rows, left=1)


def of_bounds(bounds: dict[str, Any]) -> dict[str, str]:
    stops, kinds = bounds["stops"], ("pooled", "by step")
    several = {
        kind: [n for of in stops.values() if of["horizon"] > 1 for n in _quarter(of, kind)]
        for kind in kinds
    }
    single = [n for of in stops.values() if of["horizon"] == 1 for n in _quarter(of, "by step")]
    return {
        "bounds/widths": _widths(bounds["widths"]),
        "bounds/fails": table(
            ["problem", "episodes, looks", "runs", "failed"],
            [
                [name, *(f"{of[what]:,}" for what in ("episodes", "runs", "failed"))]
                for name, of in bounds["fails"].items()
            ],
            left=1,
        ),
        "bounds/stops": _stops(stops, kinds),
        "bounds/single": span(single, ",.0f"),
        "bounds/pooled": span(several["pooled"], ",.0f"),
        "bounds/steps": span(several["by step"], ",.0f"),
        "bounds/run": bounds["run"],
    }


def _quarter(of: dict[str, Any], kind: str) -> list[int]:
    """After how many episodes runs ended that stop at a quarter of the horizon."""
    found = of[kind]
    return found["ended"] if found["within"] == of["horizon"] / 4 else []


def _true(found: dict[str, Any]) -> str:
    """How far a policy truly is from the best one."""
    return f"{round(found['true'], 4):.2g}"


def _widths(widths: dict[str, Any]) -> str:
    """The gap after some numbers of episodes, a line for each problem and kind of counts."""
    rows, looks = [], [found["episodes"] for found in next(iter(widths.values()))["pooled"]]
    for name, of in widths.items():
        for kind in ("by step", "pooled") if of["size"][0] > 1 else ("pooled",):
            counts, last = ("one step" if of["size"][0] == 1 else kind), of[kind][-1]
            gaps = [f"{found['gap']:.2g}" for found in of[kind]]
            size = ", ".join(map(str, of["size"]))
            rows.append([name, size, counts, *gaps, _true(last), f"{last['own']:.2g}"])
    powers = [f"10{'⁰¹²³⁴⁵⁶'[len(str(look)) - 1]}" for look in looks]
    head = ["problem", "H, S, A", "counts", *(f"gap after {power}" for power in powers)]
    return table([*head, "true gap then", "ORLC's own then"], rows, left=3)


def _stops(stops: dict[str, Any], kinds: tuple[str, ...]) -> str:
    """When runs ended, a line for each problem, eps and kind of counts."""
    rows = []
    for name, of in stops.items():
        for kind in kinds if of["horizon"] > 1 else kinds[:1]:
            found, problem = of[kind], name.partition(",")[0]
            counts = "one step" if of["horizon"] == 1 else kind
            ended = f"{found['ended'][0]:,} to {found['ended'][-1]:,}"
            numbers = [f"{found['within']:g}", ended, _true(found)]
            rows.append([problem, str(of["horizon"]), counts, *numbers])
    head = ["problem", "H", "counts", "`within`", "ended after", "largest true gap"]
    return table(head, rows, left=3)


def of_service(service: dict[str, Any]) -> dict[str, str]:
    load, memory, kills, fuzz = (service[name] for name in ("load", "memory", "kills", "fuzz"))
    head = ["reports", "per second", "of the ledger's own", "`ask` meanwhile: p50", "p99"]
    alone = "the ledger itself, in batches of 64"
    rows = [[alone, f"{load['ledger']:,.0f}", "1", "", ""]]
    spent = [[alone, f"{load['ledger us']:.0f}", "", "", ""]]
    for kind, words in (
        ("batches", "64 in a request, 4 connections"),
        ("singles", "one in a request, 64 connections"),
    ):
        parts = ("ledger thread", "requests", "other threads", "client")
        spent.append([words, *(f"{load[f'{part} us, {kind}']:.0f}" for part in parts)])
        waits = [f"{load[f'ask p{q} ms, {kind}']:.0f} ms" for q in (50, 99)]
        rows.append([words, f"{load[kind]:,.0f}", f"{load[f'share {kind}']:.2f}", *waits])
    faults = [
        [
            "Four client processes play and two reviewers decide. The server is killed with -9,"
            " and connections are cut.",
            _killed(kills),
            "none lost, none double, decisions in one order, `verify` clean, no client crashed",
        ],
        *_more_faults(service),
        [
            "requests that are changed at random",
            f"{fuzz['requests']:,} requests",
            "none answered with 500; no refused request changed anything",
        ],
    ]
    return {
        "service/run": load["run"],
        "service/speed": table(head, rows, left=1),
        "service/cpu": table(
            ["CPU per report, in microseconds", "ledger", "requests", "pages", "client"],
            spent,
            left=1,
        ),
        "service/batches": f"{load['share batches']:.2f}",
        "service/singles": f"{load['share singles']:.2f}",
        "service/reports": f"{memory['reports']:,}",
        "service/memory-start": f"{memory['at start MB']:.0f}",
        "service/memory": f"{memory['after all MB']:.0f}",
        "service/demo": f"{max(service['demo']['seconds']):.1f}",
        "service/logs": _logging(service["logs"]),
        "service/faults": table(["fault", "how often", "result"], faults, left=3),
        "service/flood-load": service["flood"]["run"].split(", ")[1],
    }


def _killed(found: dict[str, Any]) -> str:
    counts = ("kills", "cuts", "reports", "decisions")
    return ", ".join(f"{found[name]:,} {name}" for name in counts)


def _logging(logs: dict[str, Any]) -> str:
    """What a log costs, with reports in batches and one by one."""
    kinds = {"batches": "with 64 reports in a request", "singles": "with one"}
    words = [
        f"{words}: {logs[f'share {kind} us']:.2f} times the CPU of a report and"
        f" {logs[f'share {kind}']:.2f} times the reports per second"
        for kind, words in kinds.items()
    ]
    return f"{'; '.join(words)} ({logs['run'].split(', ')[1]})"


_ATTACKS = {
    "flooded": "strangers pipeline requests over 64 connections",
    "visited": "strangers make 64 connections at a time, a new one for each request",
    "silent": "strangers keep 1,500 connections open and say nothing",
    "contradicted": "a site repeats one contradicting report over 64 connections",
    "planned": "an operator asks for one proposal after another in a run with 2,000 rows",
}


def _healthy(flood: dict[str, Any], name: str) -> str:
    """How long /healthz took under an attack, and how often it did not answer."""
    found, idle = flood[name], flood["idle"]
    took = f"`/healthz` took {found['p99 ms']:.0f} ms at p99, {idle['p99 ms']:.0f} ms when idle"
    failed = f"; {found['failed']} of {found['asked']:,} requests were cut off"
    return f"{took}{failed}" if found["failed"] else took


def _more_faults(service: dict[str, Any]) -> list[list[str]]:
    """Two servers that are killed, attacks on the answer of /healthz, and its own description."""
    two, flood = service["kills of two"], service["flood"]
    roles = [service["openapi"][role] for role in ("site", "reviewer", "operator")]
    return [
        [
            "the same with two servers on one PostgreSQL, one of which is killed at a time",
            _killed(two),
            "the same",
        ],
        *([what, "some seconds", _healthy(flood, name)] for name, what in _ATTACKS.items()),
        [
            "schemathesis makes requests from the description, in three roles",
            f"{sum(one['answers'] for one in roles):,} requests",
            "no 5xx, no status missing from the description",
        ],
    ]


def of_evaluation(found: dict[str, Any]) -> dict[str, str]:
    """How often intervals cover, and how good the verdict on them is."""
    logs = {name: row for name, row in found.items() if "ips" in row}
    covered = [
        row[name]["reliable"]
        for row in logs.values()
        for name in ("ips", "snips", "dr")
        if row[name]["reliable"] is not None
    ]
    plans = {name: row for name, row in found.items() if name.startswith("pessimism")}
    return {
        "evaluation/setting": found["setting"],
        "evaluation/logs": table(["log", "overlap", "reliable", *_ESTIMATES], _logs(logs), left=2),
        "evaluation/least": f"{100 * min(covered):.0f} %",
        "evaluation/arms": table(["run", *_ARMS], _arms(found), left=1),
        "evaluation/plans": table(["log", "its value", "logged", "lower"], _plans(plans), left=1),
    }


_ESTIMATES = {"ips": "ips", "snips": "snips", "dr": "dr", "model": "model"}
_ARMS = {"bols": "batched", "adaptive": "adaptive", "plain": "plain"}


def _logs(logs: dict[str, Any]) -> list[list[str]]:
    """Coverage where the log is reliable, and of all logs."""
    rows = []
    for name, row in logs.items():
        cells = [
            f"{percent(row[key]['reliable'])} ({percent(row[key]['all'])})" for key in _ESTIMATES
        ]
        rows.append([*name.split(", "), percent(row["reliable"]), *cells])
    return rows


def _arms(found: dict[str, Any]) -> list[list[str]]:
    arms = {name: row for name, row in found.items() if name.startswith("arms, ")}
    return [
        [
            name.removeprefix("arms, "),
            *(f"{percent(row[key]['covers'], 1)} ({row[key]['width']:.2f})" for key in _ARMS),
        ]
        for name, row in arms.items()
    ]


def _plans(plans: dict[str, Any]) -> list[list[str]]:
    return [
        [
            name.removeprefix("pessimism, "),
            *(percent(row[key]) for key in ("value", "logged")),
            f"{percent(row['lower'])}, holds in {percent(row['holds'])}",
        ]
        for name, row in plans.items()
    ]


def percent(share: float | None, digits: int = 0) -> str:
    """A share in percent, or a dash where there is none."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"
