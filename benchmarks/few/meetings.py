"""How many changes a problem needs: the least N with which runs end close to the optimum.

    python benchmarks/few/meetings.py RESULTS [--minutes M] [--workers W] [--json FILE]

N* is the least N with which 18 of 20 seeds end with a policy within 5 % of the optimal value.
Locks, DeepSea and trees have 4 to 64 steps; the problems of run.py are added for `few`. RESULTS is
a JSON file with all finished units: the same command resumes. With --json the result is written for
the pages, which `python docs/publish.py` fills.
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from problems import PROBLEMS, laws_of

import bench
import lowswitch as ls
from lowswitch import TabularMDP, deployment_gaps, envs
from lowswitch.show.progress import cores

HORIZONS = (4, 6, 8, 11, 16, 23, 32, 45, 64)
EPISODES = 10_000
SEEDS, ENOUGH = 20, 0.9
LOSS = 0.05
TRIED = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 64, 80, 100, 128)
SECONDS = 300.0  # after which no larger N is tried
LEARNERS = {
    "few": "few:deployments={N}",
    "PSRL": "psrl:rewards=mean,schedule=grid/geometric/{M},deployments={N}",
    "R-max": "rmax:known=1",
    "MVP": "mvp:c=0.0001",
}
SLOW = ("MVP",)  # which stop at 23 steps


def tree(horizon: int, depth: int = 3) -> TabularMDP:
    """A tree in which one of 8 paths of three steps goes on, again and again; the end pays 1.

    A state is a place in the present three levels; the last state is a dead end.
    """
    generator, width = np.random.default_rng([horizon, 36]), 2**depth
    right = generator.integers(0, width, horizon)
    laws = np.zeros((horizon, width, 2, width))
    laws[:, -1, :, -1] = 1.0
    rewards = np.zeros((horizon, width, 2))
    for h in range(horizon):
        level = h % depth
        laws[h, : width - 1, :, -1] = 1.0
        for place in range(2**level):
            for a in range(2):
                here, path = 2**level - 1 + place, 2 * place + a
                wanted = right[h // depth] >> (depth - 1 - level)
                after = 2 * 2**level - 1 + path if level < depth - 1 else 0
                if level < depth - 1 or path == wanted:
                    laws[h, here, a] = np.eye(width)[after]
                rewards[h, here, a] = float(h == horizon - 1 and path == wanted)
    return TabularMDP(laws, rewards, start=0, horizon=horizon)


FAMILIES: dict[str, Callable[[int], TabularMDP]] = {
    "lock": lambda H: envs.combination_lock(states=3, actions=2, horizon=H),
    "DeepSea": lambda H: envs.deep_sea(size=H),
    "tree": tree,
}


def units() -> list[str]:
    """family | steps | learner, and then the problems of run.py."""
    found = [
        f"{family}|{H}|{learner}"
        for H in HORIZONS
        for family in FAMILIES
        for learner in LEARNERS
        if H <= 23 or learner not in SLOW
    ]
    return found + [f"{name}|{laws_of(name)[-1]}|few" for name in PROBLEMS]


def work(unit: str) -> dict[str, Any]:
    """The share of seeds that end close to the optimum, for each N that was tried."""
    family, which, learner = unit.split("|")
    if which.isdigit():
        mdp, episodes = FAMILIES[family](int(which)), EPISODES
    else:
        make, episodes = PROBLEMS[family]
        mdp = make(which)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "{N}" in LEARNERS[learner]:
            return by_trial(mdp, LEARNERS[learner], episodes)
        return by_history(mdp, LEARNERS[learner], episodes)


def by_trial(mdp: TabularMDP, text: str, episodes: int) -> dict[str, Any]:
    """Run with more and more changes, until enough seeds end close to the optimum."""
    begin, shares, best = time.monotonic(), dict[int, float](), mdp.optimal_value()
    for n in TRIED:
        runs = ls.simulate(
            mdp, ls.Algorithm.from_text(text.format(N=n, M=n + 1)), episodes=episodes,
            seeds=SEEDS, regret=False, threads=1, progress=False,
        )  # fmt: skip
        last = [mdp.at_start(mdp.policy_values(policy)[0]) for policy in runs.policy]
        shares[n] = float(np.mean(np.array(last) >= (1 - LOSS) * best))
        if shares[n] >= ENOUGH:
            return {"needed": n, "shares": shares}
        if time.monotonic() - begin > SECONDS:
            break
    return {"needed": None, "shares": shares}


def by_history(mdp: TabularMDP, text: str, episodes: int) -> dict[str, Any]:
    """Where changes come when they come, see which policy would be the last of N."""
    begin, close, best = time.monotonic(), list[np.ndarray](), mdp.optimal_value()
    for seed in range(SEEDS):
        runs = ls.simulate(
            mdp, ls.Algorithm.from_text(text), episodes=episodes, seeds=[seed],
            regret=False, history=True, threads=1, progress=False,
        )  # fmt: skip
        initial = mdp.actions_allowed.argmax(axis=-1)
        gaps = deployment_gaps(mdp, runs.history[0], initial=initial)
        close.append(gaps <= LOSS * best)
        if time.monotonic() - begin > SECONDS:
            break
    longest = max(map(len, close))
    ends = np.array([np.append(one, np.full(longest - len(one), one[-1])) for one in close])
    enough = np.flatnonzero(ends.mean(axis=0) >= ENOUGH)
    needed = int(enough[0]) if len(enough) else None
    return {"needed": needed, "made": longest - 1, "seeds": len(close)}


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=cores())
    options = parser.parse_args()
    known = bench.finish(options.results, work, units(), options.minutes, options.workers)
    if options.json:
        names = ("problem", "which", "learner")
        rows = [
            dict(zip(names, unit.split("|"), strict=True)) | known[unit]
            for unit in units()
            if unit in known
        ]
        facts = {"run": bench.described(), "episodes": EPISODES, "seeds": SEEDS, "rows": rows}
        bench.write(options.json, facts)


if __name__ == "__main__":
    main()
