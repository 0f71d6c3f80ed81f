"""Whether the regret of FedQ grows like log T, and its rounds like the logarithm of the episodes.

    python benchmarks/federated.py [--json docs/numbers/federated.json]

The setting of the papers' experiments: ten machines, (H, S, A) = (2, 2, 2) and (5, 3, 2), successor
laws uniform on the simplex and rewards uniform on [0, 1] for each step, a uniform start, and 10^7
episodes of all machines together. Regret is divided by log T at each power of ten on the curve of
one run, T = K H. Rounds are counted in runs of 10^5, 10^6 and 10^7 episodes. In a first run, the
last two learners had the scales 0.01 and 0.005; both were too small on (2, 2, 2), so 0.05 replaced
0.005.
"""

import math

import numpy as np

import bench
import lowswitch as ls

SIZES = ((2, 2, 2), (5, 3, 2))
MACHINES, SEEDS = 10, 8
POINTS = (10**4, 10**5, 10**6, 10**7)
LENGTHS = POINTS[1:]
LEARNERS = {
    "fedq-h": (0.1, 0.05),
    "fedq-b": (0.1, 0.05),
    "fedq-advantage": (0.05, 0.01),
    "fedq-early-settled": (0.05, 0.01),
}


def problem(H, S, A):
    """The random problem of a size."""
    generator = np.random.default_rng(0)
    laws, rewards = generator.dirichlet(np.ones(S), (H, S, A)), generator.random((H, S, A))
    return ls.TabularMDP(laws, rewards, horizon=H, start=np.full(S, 1 / S))


def measured(mdp, algorithm):
    """Regret over log T along one run, and the rounds of runs of several lengths."""
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    runs = {
        episodes: ls.simulate(mdp, algorithm, episodes=episodes, seeds=SEEDS, progress=False)
        for episodes in LENGTHS
    }
    curves = runs[LENGTHS[-1]].curves
    places = np.searchsorted(curves.episodes, POINTS)
    logs = [math.log(episodes * mdp.horizon) for episodes in POINTS]
    ratios = curves.regret[:, places] / logs
    return {
        "ratio": ratios.mean(axis=0).tolist(),
        "error": (ratios.std(axis=0, ddof=1) / SEEDS**0.5).tolist(),
        "rounds": [float(run.triggers.mean()) for run in runs.values()],
        "deployments": float(runs[LENGTHS[-1]].deployments.mean()),
        "bound": [algorithm.deployment_bound(**size, episodes=K) for K in LENGTHS],
    }


def main():
    options = bench.parser(__doc__).parse_args()
    results = {}
    for size in SIZES:
        mdp = problem(*size)
        for name, scales in LEARNERS.items():
            for c in scales:
                algorithm = ls.Algorithm.from_text(f"{name}:c={c},machines={MACHINES}")
                found = measured(mdp, algorithm)
                results.setdefault(str(size), {})[f"{name}:c={c}"] = found
                ratios = "".join(f"{ratio:10,.1f}" for ratio in found["ratio"])
                rounds = "".join(f"{rounds:9,.0f}" for rounds in found["rounds"])
                print(f"{size!s:10} {name + f':c={c}':28} {ratios}   {rounds}", flush=True)
    setting = {"machines": MACHINES, "seeds": SEEDS, "points": POINTS, "lengths": LENGTHS}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
