"""What it costs if the outcome of an episode is known only after D more episodes.

    python benchmarks/delays.py [--json docs/numbers/delays.json]

Every learner plays at one scale, which was not chosen for the delays. A run has 50,000 episodes; of
these the last D outcomes never arrive.
"""

import warnings

import bench
import lowswitch as ls
from lowswitch import envs

EPISODES, SEEDS = 50_000, 4
DELAYS = (0, 1, 10, 100, 1_000, 10_000)
PROBLEMS = {
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5,seed=0",
    "RiverSwim (6, 2, 12)": "riverswim:states=6,horizon=12",
}
LEARNERS = (
    "ucb-h:c=0.01",
    "ucb2-h:c=0.01",
    "ucb2-b:c=0.01",
    "stage-q:c=0.003",
    "staged-randql",
    "early-settled:c=0.01",
    "fedq-b:c=0.01",
    "mvp:c=0.0001",
    "psrl:schedule=growth/2",
    "few:deployments=10,members=8",
)


def main():
    options = bench.parser(__doc__).parse_args()
    warnings.simplefilter("ignore")  # with long delays little is learned
    results = {}
    for problem, text in PROBLEMS.items():
        mdp = envs.make(text)
        for name in LEARNERS:
            rows = results.setdefault(problem, {})[name] = []
            for delay in DELAYS:
                runs = ls.simulate(
                    mdp,
                    ls.Algorithm.from_text(name),
                    episodes=EPISODES,
                    seeds=SEEDS,
                    delay=delay,
                    progress=False,
                )
                rows.append([float(runs.regret.mean()), float(runs.local_switches.mean())])
            print(
                f"{problem:22} {name:30}", *(f"{r:10,.0f} {n:8,.0f}" for r, n in rows), flush=True
            )
    setting = {"episodes": EPISODES, "seeds": SEEDS, "delays": DELAYS}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
