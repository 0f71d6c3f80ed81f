"""Whether the interval that `frontier` states of its winner holds on seeds that nobody saw.

    python benchmarks/crown.py [--seeds 256] [--workers W] [--json FILE]

On ten problems the settings of few/rivals.py and `few` race without a limit. Of the algorithm that
comes first, the mean regret on `--seeds` other seeds is compared with the 95 % interval stated.
Results in FILE are not computed again.
"""

import functools
import sys
import warnings
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent / "few"))

import numpy as np
from problems import PROBLEMS, laws_of
from rivals import settings
from run import compile_all

import bench
from lowswitch import Algorithm, TabularMDP, few, frontier, simulate
from lowswitch.show.progress import cores

NAMES = (
    *("deep-sea", "lock", "decoy-chain", "trapdoors", "outcome-6", "seasons-2", "many-actions"),
    *("tiny-river", "bold", "drifting-river"),
)
OTHERS = 10_000  # the first of the seeds that nobody saw
MOST = 500  # episodes


def judged(name: str, seeds: int) -> dict[str, Any]:
    """The winner with its interval, and its mean on other seeds."""
    make, episodes = PROBLEMS[name]
    mdp, episodes = make(laws_of(name)[0]), min(MOST, episodes)
    portfolio = [Algorithm.from_text(text) for text in settings(False)]
    portfolio += [few(deployments=n) for n in (10, 30)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what short runs do not learn
        race = frontier(mdp, episodes=episodes, portfolio=portfolio, threads=1, progress=False)
        best = race.best()
        true = float(other_seeds(mdp, best.algorithm, episodes, seeds).mean())
    low, high = (best.mean("regret") + sign * best.interval("regret") for sign in (-1, 1))
    return {
        "winner": best.name,
        "crowned": not race.rivals(),
        "interval": [low, high],
        "worst": float(best.costs.regret.max()),
        "on other seeds": true,
        "within": bool(low <= true * (1 + 1e-9) and true <= high * (1 + 1e-9)),
    }


def other_seeds(mdp: TabularMDP, algorithm: Algorithm, episodes: int, seeds: int) -> np.ndarray:
    chosen = range(OTHERS, OTHERS + seeds)
    runs = simulate(mdp, algorithm, episodes=episodes, seeds=chosen, threads=1, progress=False)
    return runs.regret


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=256)
    parser.add_argument("--workers", type=int, default=cores())
    options = parser.parse_args()
    results = bench.Results(options.json)
    left = [name for name in NAMES if name not in results.found]
    compile_all()  # before the processes begin
    with get_context("fork").Pool(options.workers) as pool:
        found = pool.imap(functools.partial(judged, seeds=options.seeds), left)
        for name, one in zip(left, found, strict=True):
            results.keep(name, one)


if __name__ == "__main__":
    main()
