"""The histories of everything that learns, as digests: what a change of no behaviour must keep.

`python tests/digests.py FILE` writes them, `--exact` with every bit of regret and curves; the
committed `digests.json` holds the histories, which are whole numbers, and regrets to ten digits.
"""

import argparse
import hashlib
import itertools
import json
import warnings
from pathlib import Path

import numpy as np

import lowswitch as ls
from conftest import ALGORITHMS, FEATURE_ALGORITHMS, FEATURE_PROBLEMS, PROBLEMS
from lowswitch import bandits, concurrent

EPISODES, SEEDS = 400, 2
ARMS = (0.9, 0.6)
MACHINES = ("1", "7")  # of MBIE
FILE = Path(__file__).with_name("digests.json")


def digest(arrays):
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        total.update(f"{array.dtype.str} {array.shape}".encode() + array.tobytes())
    return total.hexdigest()[:16]


def entry(runs, exact):
    """A digest of what was deployed when, and what that cost."""
    arrays = [history.changes for run in runs for history in run.history]
    arrays += [array for run in runs for array in (run.policy, run.triggers, run.deployments)]
    if exact:
        arrays += [array for run in runs for array in (run.regret, run.loud_share, *run.curves)]
    return [digest(arrays), float(f"{sum(float(run.regret.sum()) for run in runs):.10g}")]


def simulated(algorithm, exact):
    return entry(
        [
            ls.simulate(make(), algorithm, episodes=EPISODES, seeds=SEEDS, history=True)
            for make in PROBLEMS.values()
        ],
        exact,
    )


def in_rounds(algorithm, exact):
    """Rounds of seven machines by each rule, on three problems; what was thrown away counts too."""
    runs = [
        concurrent.run(PROBLEMS[problem](), algorithm, EPISODES, machines=7, rule=rule)
        for problem in ("dense", "per-step", "masked-sequence")
        for rule in ("trigger", "switch", "speculate")
    ]
    rounds = digest(
        array
        for run in runs
        for array in (run.rounds, run.played, run.plays, run.rounds_at, run.rounds_curve)
    )
    return [*entry(runs, exact), rounds]


def with_features(algorithm):
    """When policies were deployed, and how many episodes rounds threw away, on all problems."""
    runs = [
        ls.simulate(make(), algorithm, episodes=EPISODES, seeds=SEEDS)
        for make in FEATURE_PROBLEMS.values()
    ]
    rounds = [
        concurrent.run(make(), algorithm, EPISODES, machines=7, rule=rule)
        for make in FEATURE_PROBLEMS.values()
        for rule in ("trigger", "switch")
    ]
    return [
        digest(run.curves.deployments for run in runs),
        float(f"{sum(float(run.regret.sum()) for run in runs):.10g}"),
        digest(array for run in rounds for array in (run.rounds, run.played, *run.curves[2:])),
    ]


def of_mbie(machines):
    """MBIE on all problems; the digests are from when it still had kernels of its own."""
    histories, regret = hashlib.sha256(), 0.0
    for problem, c, most in itertools.product(PROBLEMS, (1.0, 0.05), (None, 20)):
        options = {"machines": int(machines), "c": c, "most_visits": most}
        run = concurrent.mbie(PROBLEMS[problem](), episodes=399, **options)
        one = hashlib.sha256(run.history[0].changes.tobytes())
        histories.update(one.hexdigest()[:16].encode())
        regret += float(run.regret[0])
    return [histories.hexdigest()[:16], float(f"{regret:.10g}")]


def of_bandits(algorithm):
    runs = bandits.simulate(ARMS, algorithm, pulls=3000, runs=20)
    return [digest([runs.arm_pulls, *runs.curves[2:]]), float(f"{runs.regret.sum():.10g}")]


def all_digests(exact=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.BonusWarning)
        return {
            "simulate": {name: simulated(one, exact) for name, one in ALGORITHMS.items()},
            "rounds": {name: in_rounds(one, exact) for name, one in ALGORITHMS.items()},
            "features": {name: with_features(one) for name, one in FEATURE_ALGORITHMS.items()},
            "mbie": {machines: of_mbie(machines) for machines in MACHINES},
            "bandits": {name: of_bandits(recipe()) for name, recipe in bandits.RECIPES.items()},
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--exact", action="store_true")
    given = parser.parse_args()
    given.file.write_text(json.dumps(all_digests(given.exact), indent=1) + "\n")
