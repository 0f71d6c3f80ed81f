"""Whether the regret of Staged-RandQL grows like sqrt(K), and where it stands among other learners.

    python benchmarks/randql.py [--json docs/numbers/randql.json]

The grid has the size of the authors' experiment, 10 x 10 cells, 50 steps and 30,000 episodes, but
is this library's. The two other problems were used for nothing before. Every learner runs with all
of its scales on the seeds that are reported, so the best of them is lucky; Staged-RandQL has one
setting, the authors'.
"""

import numpy as np

import bench
import lowswitch as ls
from lowswitch import envs

SEEDS = 8
EPISODES = 30_000, 200_000  # on the grid, and on the others
UNSEEN = {
    "random (12, 4, 6)": "random-mdp:states=12,actions=4,horizon=6,seed=4711",
    "RiverSwim (9, 2, 18)": "riverswim:states=9,horizon=18",
}
SCALES = (0.1, 0.03, 0.01, 0.003, 0.001)
ON_GRID = {"ucb-h": (0.01, 0.001), "ucb2-h": (0.01, 0.001)}
RIVALS = {
    "ucb-h": SCALES,
    "ucb2-h": SCALES,
    "ucb2-b": SCALES,
    "stage-q": SCALES,
    "early-settled": SCALES,
    "mvp": (0.01, 0.001, 0.0001, 0.00001),
}
MINE = "staged-randql"


def grid():
    """Ten by ten cells from corner to corner: a move in another direction once in 20 times, and a
    reward of 1 for each step in the last cell.
    """
    side, slip = 10, 0.05
    laws, rewards = np.zeros((side**2, 4, side**2)), np.zeros((side**2, 4))
    for x, (row, column) in enumerate(np.ndindex(side, side)):
        cells = [
            (min(max(row + down, 0), side - 1), min(max(column + right, 0), side - 1))
            for down, right in ((1, 0), (0, 1), (-1, 0), (0, -1))
        ]
        for a in range(4):
            for move, (down, right) in enumerate(cells):
                laws[x, a, down * side + right] += (1 - slip) * (move == a) + slip / 4
    rewards[-1] = 1.0
    return ls.TabularMDP(laws, rewards, horizon=50, start=np.eye(side**2)[0])


def learners(rivals):
    """Staged-RandQL, and every rival with each of its scales, as texts."""
    return [MINE, *(f"{name}:c={c:g}" for name, scales in rivals.items() for c in scales)]


def measured(mdp, text, episodes):
    """Costs of one learner, and how its regret grows over the last decade."""
    runs = ls.simulate(
        mdp,
        ls.Algorithm.from_text(text),
        episodes=episodes,
        seeds=SEEDS,
        progress=False,
    )
    late = runs.curves.episodes >= episodes / 10
    grown = np.log(runs.curves.regret.mean(axis=0)[late])
    return {
        "regret": float(runs.regret.mean()),
        "error": float(runs.regret.std(ddof=1) / SEEDS**0.5),
        "deployments": float(runs.deployments.mean()),
        "switches": float(runs.local_switches.mean()),
        "exponent": float(np.polyfit(np.log(runs.curves.episodes[late]), grown, 1)[0]),
    }


def main():
    options = bench.parser(__doc__).parse_args()
    problems = {name: (envs.make(text), EPISODES[1], RIVALS) for name, text in UNSEEN.items()}
    problems["grid (100, 4, 50)"] = grid(), EPISODES[0], ON_GRID
    results = {}
    for name, (mdp, episodes, rivals) in problems.items():
        rows = results[name] = {"episodes": episodes, "learners": {}}
        for text in learners(rivals):
            found = rows["learners"][text] = measured(mdp, text, episodes)
            numbers = "".join(f"{value:12,.2f}" for value in found.values())
            print(f"{name:22} {text:24}{numbers}", flush=True)
    setting = {"seeds": SEEDS}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
