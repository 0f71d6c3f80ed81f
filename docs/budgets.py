"""What the pages say of `few` for a budget, from the files docs/numbers/few*.json.

The scripts in benchmarks/few write these files: run.py few.json, clinic.py and calibration.py those
of their names, small.py few_small.json, members.py few_members.json, trial.py few_trial.json
and few_careful.json, dates.py few_dates.json, floor.py few_floor.json, large.py few_sepsis.json;
benchmarks/crown.py writes crown.json.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from pages import table

FOLDER = Path(__file__).parent / "numbers"
MOST_BUDGETS = (1, 2, 3, 5, 10, 30, 100)
AGAINST_ALL = ("rival", "told")
AGAINST = {
    "rival": "the best without a limit",
    "told": "the best without a limit, told about alike steps",
    "one_change": "one change",
}
DRAWN = {
    "garnet": "Garnets",
    "grid": "slippery grids",
    "changing": "problems that differ by step",
    "other": "problems of other kinds",
}


def values() -> dict[str, str]:
    found = of_budgets() | of_small() | of_members() | of_clinic() | of_trial() | of_calibration()
    return found | of_dates() | of_sepsis() | of_crown() | of_floor()


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def of_budgets() -> dict[str, str]:
    """What `few` loses against the portfolio."""
    facts = read("few.json")
    rows, budgets = facts["rows"], budgets_of(facts["rows"])
    fresh = [row for row in rows if not row["chosen_on"]]
    worst = max(rows, key=lambda row: ratio(row, 10))
    named = {
        "budgets/race": facts["race"],
        "budgets/seeds": str(facts["seeds"]),
        "budgets/fewer-seeds": str(facts["fewer_seeds"]),
        "budgets/problems": str(len({row["problem"] for row in rows})),
        "budgets/fresh": str(len({row["problem"] for row in fresh})),
        "budgets/worst-10": f"{ratio(worst, 10):.1f}",
        "budgets/worst-where": f"{worst['problem']}, {worst['rewards']} rewards",
    }
    for n in (10, 30):
        named |= against_rule_1(rows, n)
    ratios, told = ([ratio(row, 10, one) for row in fresh if one in row] for one in AGAINST_ALL)
    named["budgets/median-10"] = f"{np.median(ratios):.2f}"
    named["budgets/told-median-10"] = f"{np.median(told):.2f}"
    header = ["N", *(f"over {words}" for words in AGAINST.values()), "one change is better on"]
    cells = [header, *(summary(fresh, budget) for budget in budgets)]
    # a column without numbers was not measured in this run
    filled = [column for column in zip(*cells, strict=True) if set(column[1:]) != {"-"}]
    first, *rest = zip(*filled, strict=True)
    named["budgets/summary"] = table(list(first), [list(row) for row in rest], left=1)
    for name, against in zip(("table", "told-table"), AGAINST_ALL, strict=True):
        named[f"budgets/{name}"] = table(
            ["problems", "rewards", *(f"N = {budget}" for budget in budgets)],
            [cells for group in groups(rows, against) for cells in lines(*group, against)],
            left=2,
        )
    return named


def against_rule_1(rows: list[dict[str, Any]], n: int) -> dict[str, str]:
    """How the present rule compares with the first one on the same seeds, problem by problem."""
    now, before = (
        np.array([row[f"few_{n}{name}_percent"] for row in rows]) for name in ("", "_older")
    )
    errors = np.array([row[f"few_{n}_difference_se"] for row in rows])
    clearly = 3 * errors + 1e-9  # rounding apart
    logs = np.log(now / before)
    error = logs.std(ddof=1) / np.sqrt(len(logs))
    more = now - before > clearly
    worse = [row["problem"] for row, one in zip(rows, more, strict=True) if one]
    return {
        f"budgets/rule-ratio-{n}": f"{logs.mean():+.3f} ± {error:.3f}",
        f"budgets/rule-worse-{n}": f"{len(worse)} of {len(rows)}",
        f"budgets/rule-better-{n}": f"{int((before - now > clearly).sum())} of {len(rows)}",
        f"budgets/rule-where-{n}": ", ".join(sorted(set(worse))),
        f"budgets/rule-most-{n}": f"{(now - before)[more].max():.1f}",
    }


def of_dates() -> dict[str, str]:
    """What other first dates gain where rule 1 is better, and what they lose elsewhere."""
    by_set: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, found in read("few_dates.json").items():
        which, problem = name.rsplit(", ", 1)
        by_set.setdefault(which, {})[problem] = found
    dates = {
        "2 and 16": "2, 16, ...",
        "2 for 16": "2 in place of 16, lowest actions first",
        "rule 1": "`rule=1`",
    }
    shown = {"few": "`few`"} | {name: dates[name] for name in ("2 and 16", "2 for 16")}
    gains = beside_rule_1(by_set.pop("10, worse"), [*shown], ".2f")
    more = shown | {"lowest": '`first="lowest"`'}
    later = beside_rule_1(by_set.pop("30, worse"), [*more], ".3f")
    renamed = np.array(
        [
            found["few"][1:3]
            for n in ("10", "30")
            for found in by_set.pop(f"{n}, relabelled").values()
        ]
    )
    still = renamed[renamed[:, 0] > 3 * renamed[:, 1] + 1e-9, 0]  # rounding apart
    losses = [
        [which.removesuffix(", choosing"), words, *beside_few([*rows.values()], name)]
        for which, rows in by_set.items()
        for name, words in dates.items()
    ]
    head = ["N", "dates", "mean log ratio", "clearly worse", "by at most", "clearly better"]
    return {
        "dates/worse": table(["problem", *shown.values()], gains, left=1),
        "dates/worse-30": table(["problem", *more.values()], later, left=1),
        "dates/choosing": table(head, losses, left=2),
        "dates/problems": f"{len(by_set['10, choosing'])}",
        "dates/relabelled": f"{len(still)} of {len(renamed)}",
        "dates/relabelled-most": f"{still.max():.1f}",
    }


def beside_rule_1(
    problems: dict[str, dict[str, list[float]]], names: list[str], form: str
) -> list[list[str]]:
    """The differences to rule 1, with their standard errors, of each problem."""
    return [
        [problem, *(f"{found[name][1]:+{form}} ± {found[name][2]:{form}}" for name in names)]
        for problem, found in problems.items()
    ]


def beside_few(rows: list[dict[str, list[float]]], name: str) -> list[str]:
    """How other dates compare with those of `few` over problems."""
    logs = np.log([found[name][0] / found["few"][0] for found in rows])
    more, errors = np.array([found[name][3:] for found in rows]).T
    worse, better = (sign * more > 3 * errors + 1e-9 for sign in (1, -1))  # rounding apart
    error = logs.std(ddof=1) / np.sqrt(len(logs))
    most = f"{more[worse].max():.1f}" if worse.any() else "-"
    return [f"{logs.mean():+.3f} ± {error:.3f}", f"{worse.sum()}", most, f"{better.sum()}"]


def budgets_of(rows: list[dict[str, Any]]) -> list[int]:
    """The numbers of deployments that were measured."""
    return [budget for budget in MOST_BUDGETS if f"few_{budget}_percent" in rows[0]]


def summary(rows: list[dict[str, Any]], budget: int) -> list[str]:
    """Median and worst ratio over all problems, against each that is compared with."""
    cells = [str(budget)]
    for against in AGAINST:
        ratios = [ratio(row, budget, against) for row in rows if f"{against}_percent" in row]
        cells.append(f"{np.median(ratios):.2f}, worst {max(ratios):.1f}" if ratios else "-")
    worse = [ratio(row, budget, "one_change") > 1 for row in rows if "one_change_percent" in row]
    return [*cells, f"{sum(worse)} of {len(worse)}" if worse else "-"]


def of_small() -> dict[str, str]:
    """What `few` loses with few deployments, against one change and against itself as it was."""
    facts = read("few_small.json")
    setting = facts.pop("setting")
    by_case: dict[str, dict[str, list[float]]] = {}
    for name, found in facts.items():
        problem, _, case = name.rpartition(", ")
        by_case.setdefault(case, {})[problem] = found
    one = by_case["one change"]
    budgets = sorted({int(case.split()[0]) for case in by_case if "by rule" in case})
    cells, by_budget = (
        [],
        {n: (by_case[f"{n} by rule 2"], by_case[f"{n} by rule 1"]) for n in budgets},
    )
    for i, (budget, (new, old)) in enumerate(by_budget.items()):
        clear = sum(new[p][0] - one[p][0] > 3 * np.hypot(new[p][1], one[p][1]) for p in new)
        grown = paired(new, by_budget[budgets[i - 1]][0]) if i else ""
        means = [mean_of(found, [*new]) for found in (new, old, one)]
        cells.append([f"{budget}", f"{len(new)}", *means, paired(new, one), f"{clear}", grown])
    head = [
        "N",
        "problems",
        "`few`",
        "`rule=1`",
        "one change",
        "difference",
        "clearly worse",
        "against smaller N",
    ]
    families: dict[str, list[str]] = {}
    for name in one:
        families.setdefault(name.rpartition(" ")[0], []).append(name)
    by_family = [
        [
            family,
            mean_of(one, names),
            *(" / ".join(mean_of(found, names) for found in by_budget[n]) for n in budgets),
        ]
        for family, names in families.items()
    ]
    return {
        "small/table": table(head, cells, left=1),
        "small/families": table(
            ["problems", "one change", *(f"N = {n}" for n in budgets)], by_family, left=1
        ),
        "small/problems": str(len(one)),
        "small/seeds": str(setting["seeds"]),
    }


def mean_of(found: dict[str, list[float]], names: list[str]) -> str:
    """The mean over problems."""
    return f"{np.mean([found[name][0] for name in names if name in found]):.0f}"


def paired(one: dict[str, list[float]], other: dict[str, list[float]]) -> str:
    """The mean of the differences on all problems, and its standard error."""
    some = np.array([one[name][0] - other[name][0] for name in one])
    return f"{some.mean():+.1f} ± {some.std(ddof=1) / np.sqrt(len(some)):.1f}"


def of_members() -> dict[str, str]:
    """What one policy at a time loses, beside a mixture of 64 on the same problems."""
    mixtures, alone = read("few_small.json"), read("few_members.json")
    setting, cells, named = alone.pop("setting"), [], {}
    budgets = sorted({int(name.rpartition(", ")[2].split()[0]) for name in alone})
    for n in budgets:
        one, many = (
            {
                name.rpartition(", ")[0]: found
                for name, found in facts.items()
                if name.endswith(f", {n} by {words}")
            }
            for facts, words in ((alone, "one policy"), (mixtures, "rule 2"))
        )
        both = [name for name in many if name in one]
        one, many = ({name: some[name] for name in both} for some in (one, many))
        means = [mean_of(found, both) for found in (many, one)]
        cells.append([f"{n}", f"{len(both)}", *means, paired(one, many)])
        if n == 10:
            named = {"members/mixture-10": means[0], "members/one-10": means[1]}
            named["members/problems-10"] = str(len(both))
    head = ["N", "problems", "mixture of 64", "`members=1`", "difference"]
    return named | {
        "members/table": table(head, cells, left=1),
        "members/seeds": str(setting["seeds"]),
    }


def of_clinic() -> dict[str, str]:
    """What a board with ten meetings gets."""
    facts = read("few_clinic.json")
    runs, forecast = facts["runs"], facts["forecast"]
    one = next(iter(runs.values()))
    cells = [
        [
            name,
            f"{np.mean(run['lost_percent']):.1f} %",
            f"{np.mean(run['last']):.3f}",
            f"{min(run['last']):.3f}",
        ]
        for name, run in runs.items()
    ]
    return {
        "clinic/table": table(
            ["ten deployments", "lost", "last policy", "worst seed"], cells, left=1
        ),
        "clinic/seeds": str(facts["seeds"]),
        "clinic/first": f"{one['first']:.3f}",
        "clinic/optimal": f"{one['optimal']:.3f}",
        "clinic/forecast": f"{forecast['low'][-1]:.2f} to {forecast['high'][-1]:.2f}",
    }


def of_trial() -> dict[str, str]:
    """What a run costs that starts from a policy somebody chose."""
    facts = read("few_trial.json")
    cells, by_case = [], dict[tuple[str, ...], dict[int, str]]()
    for name, found in facts.items():
        budget, _, case = name.partition(" ")
        if budget.isdigit():
            dates, initial, rule = case.split(", ")
            row = f"{dates} dates", initial, rule
            by_case.setdefault(row, {})[int(budget)] = f"{found[0]:.1f}"
            if budget == "10":
                lost, dip, below, under = (f"{value:.1f}" for value in found)
                cells.append([*row, lost, dip, f"{below} %", f"{under} %"])
    head = ["dates", "initial policy", "`trial`"]
    budgets = sorted({budget for found in by_case.values() for budget in found})
    lost_by_budget = [[*row, *(found[n] for n in budgets)] for row, found in by_case.items()]
    return {
        "trial/table": table([*head, "lost", "dip", "below", "under the floor"], cells, left=3),
        "trial/budgets": table([*head, *(f"N = {n}" for n in budgets)], lost_by_budget, left=3),
        "trial/careful": of_careful(facts),
    }


def of_floor() -> dict[str, str]:
    """How many deployments are below a floor if a board approves only parts of proposals."""
    facts, rows = read("few_floor.json"), list[list[str]]()
    for name, found in facts.items():
        if name != "setting":
            made, words = found["deployments"], found["decisions"]
            less = sum(n for word, n in words.items() if word.endswith("smaller"))
            refused = sum(n for word, n in words.items() if word.endswith("rejected"))
            shares = (f"{100 * found[key] / made:.1f} %" for key in ("below", "counted"))
            rows.append([name, f"{made}", *shares, f"{less}", f"{refused}"])
    head = ["share of the trial", "deployments", "below the floor", "as the check counts"]
    return {"floor/table": table([*head, "made smaller", "refused"], rows, left=1)}


def of_careful(facts: dict[str, Any]) -> str:
    """What `few` loses if other shares of all cases enter trials that find nothing."""
    found = facts | (careful := read("few_careful.json"))
    shares = dict.fromkeys(name.rpartition(" ")[2] for name in careful)
    rules = {f"{100 * float(share):g} %": f"careful {share}" for share in shares}
    rules = {"2.5 %": "auto"} | rules | {"all explore": "all explore"}
    initial = "optimal", "15 % wrong", "random"
    cases = [f"{dates}, {kind}" for dates in ("free", "even") for kind in initial]
    rows = [
        [share, *(f"{found[f'10 {case}, {rule}'][0]:.1f}" for case in cases)]
        for share, rule in rules.items()
    ]
    return table(["in trials that find nothing", *cases], rows, left=1)


def of_calibration() -> dict[str, str]:
    """How often the planner's intervals hold."""
    facts = read("few_calibration.json")
    cells = [
        [
            f"from {name}" if name.startswith("size") else f"from logs: {name}",
            f"{found['problems']}",
            f"{100 * found['covered']:.0f} %",
            f"{found['width']:.2f}",
            f"{100 * found['impossible']:.0f} %",
        ]
        for name, found in facts.items()
        if name != "setting"
    ]
    head = ["forecast", "problems", "covered", "mean width", "lower end above the optimum"]
    return {"calibration/table": table(head, cells, left=1)}


def of_crown() -> dict[str, str]:
    """How the winners of `frontier` do on seeds that nobody saw."""
    facts = read("crown.json")
    cells = [
        [
            name,
            f"`{found['winner']}`",
            "yes" if found["crowned"] else "no",
            " to ".join(f"{value:,.1f}" for value in found["interval"]),
            f"{found['on other seeds']:,.1f}",
        ]
        for name, found in facts.items()
    ]
    head = ["problem", "first", "crowned", "stated 95 % interval", "mean on 256 other seeds"]
    within = sum(found["within"] for found in facts.values())
    return {
        "crown/table": table(head, cells, left=3),
        "crown/within": f"{within} of {len(facts)}",
    }


def of_sepsis() -> dict[str, str]:
    """Where the last policy stands beside the first one on ICU-Sepsis, and what the run earned."""
    cells, runs = [], read("few_sepsis.json")
    for run in runs:
        last, earned = np.array(run["last"]), np.array(run["earned"])
        better, worse = (int((sign * (last - run["first"]) > 0).sum()) for sign in (1, -1))
        cells.append(
            [
                f"{run['episodes']:,}",
                f"{last.min():.4f} to {last.max():.4f}",
                f"{better} and {worse} of {len(last)}",
                f"{earned.mean():.4f}",
                f"{run['seconds_all_seeds'] / len(last):.0f}",
            ]
        )
    head = ["patients", "last policy", "seeds above and below the initial one"]
    return {
        "sepsis/first": f"{runs[0]['first']:.4f}",
        "sepsis/optimal": f"{runs[0]['optimal']:.4f}",
        "sepsis/table": table(
            [*head, "earned per patient over the run", "seconds per seed"], cells, left=1
        ),
    }


def ratio(row: dict[str, Any], budget: int, against: str = "rival") -> float:
    """The regret of `few` over another one's."""
    return row[f"few_{budget}_percent"] / row[f"{against}_percent"]


def groups(rows: list[dict[str, Any]], against: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """The groups of problems that have a line, with their rows."""
    found = []
    for chosen_on, said in ((True, "chosen on"), (False, "validated on")):
        some = [row for row in rows if row["chosen_on"] == chosen_on and against in row]
        single = [row for row in some if row["family"] not in DRAWN]
        names = ", ".join(dict.fromkeys(row["problem"] for row in single))
        found.append((f"{said}: {names}", single))
        for family, words in DRAWN.items():
            drawn = [row for row in some if row["family"] == family]
            count = len({row["problem"] for row in drawn})
            found.append((f"{said}: {count} {words}", drawn))
    return [(words, some) for words, some in found if some]


def lines(words: str, rows: list[dict[str, Any]], against: str) -> list[list[str]]:
    """Median and worst ratio of a group, a line for each reward law."""
    cells = []
    for law in ("deterministic", "bernoulli"):
        some = [row for row in rows if row["rewards"] == law]
        if some:
            budgets = budgets_of(some)
            ratios = [[ratio(row, budget, against) for row in some] for budget in budgets]
            numbers = [f"{np.median(each):.2f}, worst {max(each):.1f}" for each in ratios]
            cells.append([words, law, *numbers])
    return cells
