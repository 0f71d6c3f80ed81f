"""When the first change should come if nobody chose a policy, and why rule 1 wins on some problems.

    python benchmarks/few/dates.py [--budgets 10 30] [--sets choosing worse] [--json FILE]

`few` explores from the first episode on, and with many deployments its dates begin at 16. Compared
are rule 1, which plays the lowest actions and begins with 2 and 16; `few`; `few` with the dates of
rule 1; `few` with its own dates, of which the first is 2, and the lowest actions until then; and
`few(first="lowest")`, which begins as rule 1 does, on its dates.

There are two sets of problems. Those for choosing were used for no rule before and are reported
nowhere else. On the others, with certain rewards, rule 1 is clearly better in few.json, with ten
or with thirty deployments. Numbers are shares of K (V* - V_uniform) in percent: the mean over
seeds, and the paired differences to rule 1 and to `few` with their standard errors. Results in FILE
are not computed again.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from others import FAMILIES
from problems import CHOSEN, LAWS, PROBLEMS, changing, garnet, slippery_grid

import bench
from lowswitch import TabularMDP, few, simulate

SEEDS = {"choosing": range(500, 508), "worse": range(32)}
WORSE = {
    10: ("cliff-walking", "replacement", "garnet-100", "garnet-103", "garnet-107"),
    30: ("queue", "random-20"),
}
Problem = tuple[str, TabularMDP, int]  # name, tables, episodes


def problems(kind: str, n: int) -> Iterator[Problem]:
    """The problems of a set, for n deployments."""
    if kind == "worse":
        for name in WORSE[n]:
            make, episodes = (PROBLEMS | CHOSEN)[name]
            yield name, make(LAWS[0]), episodes
        return
    for law in LAWS:
        yield from ((f"garnet {i} {law}", garnet(law, i), 3_000) for i in (200, 201, 202))
        yield from ((f"changing {i} {law}", changing(law, i), 3_000) for i in (200, 201))
    yield from ((f"grid {i}", slippery_grid(LAWS[0], i), 3_000) for i in range(200, 204))
    for name, (draw, episodes) in FAMILIES.items():
        yield from ((f"{name} {i}", draw(i), episodes) for i in (5, 6))


def algorithms(mdp: TabularMDP, episodes: int, n: int) -> dict[str, Any]:
    """What is compared, by name."""
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    before, now = few(deployments=n, rule=1), few(deployments=n)
    early, own = (one.schedule.grid_for(**size, episodes=episodes) for one in (before, now))
    return {
        "rule 1": before,
        "few": now,
        "2 and 16": few(deployments_at=early),
        "2 for 16": few(deployments_at=(min(2, own[0]), *own[1:]), first="lowest"),
        "lowest": few(deployments=n, first="lowest"),
    }


def compared(mdp: TabularMDP, episodes: int, n: int, seeds: range) -> dict[str, list[float]]:
    """Of each algorithm the mean, and its differences to rule 1 and to `few` with their errors."""
    percent, lost = 100 / (episodes * (mdp.optimal_value() - mdp.uniform_value())), {}
    for name, algorithm in algorithms(mdp, episodes, n).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of runs that learn nothing
            runs = simulate(mdp, algorithm, episodes=episodes, seeds=seeds, progress=False)
        lost[name] = percent * runs.regret
    found = {}
    for name, some in lost.items():
        more = [some - lost[other] for other in ("rule 1", "few")]
        errors = [one.std(ddof=1) / np.sqrt(len(seeds)) for one in more]
        numbers = some.mean(), more[0].mean(), errors[0], more[1].mean(), errors[1]
        found[name] = np.round(numbers, 4).tolist()
    return found


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--budgets", type=int, nargs="*", default=(10,))
    parser.add_argument("--sets", nargs="*", choices=[*SEEDS], default=[*SEEDS])
    options = parser.parse_args()
    results = bench.Results(options.json)
    for n, kind in ((n, kind) for n in options.budgets for kind in options.sets):
        for name, mdp, episodes in problems(kind, n):
            key = f"{n}, {kind}, {name}"
            if key not in results.found:
                results.keep(key, compared(mdp, episodes, n, SEEDS[kind]))


if __name__ == "__main__":
    main()
