"""When the first change should come if nobody chose a policy, and why rule 1 wins on some problems.

    python benchmarks/few/dates.py [--budgets 10 30] [--sets NAME ...] [--json FILE]

`few` explores from the first episode on, and with many deployments its dates begin at 16. Compared
are rule 1, which plays the lowest actions and begins with 2 and 16; `few`; `few` with the dates of
rule 1; `few` with its own dates, of which the first is 2, and the lowest actions until then; and
`few(first="lowest")`, which begins as rule 1 does, on its dates.

There are three sets of problems. Those for choosing were used for no rule before and are reported
nowhere else. On those of the set "worse", with certain rewards, rule 1 is clearly better in
few.json, with ten or with thirty deployments. The set "relabelled" has every row of few.json on
which rule 1 is clearly better. Each seed gives the actions of every state other numbers, at random,
so it means nothing to be the lowest; only rule 1 and `few` play there. Numbers are shares of
K (V* - V_uniform) in percent: the mean over seeds, and the paired differences to rule 1 and to
`few` with their standard errors. Results in FILE are not computed again.
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
from lowswitch import Algorithm, TabularMDP, few, simulate
from lowswitch.envs.mdp import Rescaled

SEEDS = {"choosing": range(500, 508), "worse": range(32), "relabelled": range(32)}
GARNETS = ("garnet-100", "garnet-103", "garnet-107")
WORSE = {10: ("cliff-walking", "replacement", *GARNETS), 30: ("queue", "random-20")}
ROWS = {  # problems and laws of rewards
    10: [*((name, LAWS[0]) for name in WORSE[10]), ("garnet-103", LAWS[1])],
    30: [(name, LAWS[0]) for name in (*WORSE[10], *WORSE[30], "turning-rewards")],
}
Problem = tuple[str, TabularMDP, int]  # name, tables, episodes


def problems(kind: str, n: int) -> Iterator[Problem]:
    """The problems of a set, for n deployments."""
    if kind == "worse":
        for name in WORSE[n]:
            make, episodes = (PROBLEMS | CHOSEN)[name]
            yield name, make(LAWS[0]), episodes
        return
    if kind == "relabelled":
        for name, law in ROWS[n]:
            make, episodes = (PROBLEMS | CHOSEN)[name]
            yield f"{name} {law}", make(law), episodes
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


def relabelled(mdp: TabularMDP, seed: int) -> TabularMDP:
    """The same problem, in which the actions of each state have other numbers."""
    noise = np.random.default_rng(seed).random((mdp.states, mdp.actions))
    order = noise.argsort(axis=1)[:, :, None]  # [S, A, 1]

    def moved(table: np.ndarray) -> np.ndarray:  # [..., S, A, anything]
        return np.take_along_axis(table, order.reshape((1,) * (table.ndim - 3) + order.shape), -2)

    steps = () if mdp.rewards.ndim == 2 else (mdp.horizon,)
    rewards = moved(mdp.rewards[..., None]).reshape(*steps, mdp.states, mdp.actions)
    return TabularMDP(
        moved(mdp.transitions),
        Rescaled(rewards, mdp.scale),
        horizon=mdp.horizon,
        start=mdp.start_sequence if len(mdp.start_sequence) else mdp.start_law,
        reward_law=mdp.reward_law,
        actions_allowed=moved(mdp.actions_allowed[..., None])[..., 0],
    )


def regret(mdp: TabularMDP, algorithm: Algorithm, episodes: int, seeds: range) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that learn nothing
        return simulate(mdp, algorithm, episodes=episodes, seeds=seeds, progress=False).regret


def lost_by_all(mdp: TabularMDP, episodes: int, n: int, kind: str) -> dict[str, np.ndarray]:
    """The regret of each algorithm and seed."""
    those, seeds = algorithms(mdp, episodes, n), SEEDS[kind]
    if kind != "relabelled":
        return {name: regret(mdp, one, episodes, seeds) for name, one in those.items()}
    others = [relabelled(mdp, seed) for seed in seeds]
    for other in others:
        assert np.isclose(other.optimal_value(), mdp.optimal_value(), rtol=1e-12)
    return {
        name: np.concatenate(
            [
                regret(other, those[name], episodes, range(seed, seed + 1))
                for seed, other in zip(seeds, others, strict=True)
            ]
        )
        for name in ("rule 1", "few")
    }


def compared(mdp: TabularMDP, episodes: int, n: int, kind: str) -> dict[str, list[float]]:
    """Of each algorithm the mean, and its differences to rule 1 and to `few` with their errors."""
    percent = 100 / (episodes * (mdp.optimal_value() - mdp.uniform_value()))
    lost = {name: percent * of for name, of in lost_by_all(mdp, episodes, n, kind).items()}
    seeds, found = SEEDS[kind], {}
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
                results.keep(key, compared(mdp, episodes, n, kind))


if __name__ == "__main__":
    main()
