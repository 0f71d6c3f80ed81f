"""Which learners change few single rows of the policy, and what they lose for it.

    python benchmarks/rows.py [--json docs/numbers/rows.json]

Four problems of the documentation, 20,000 episodes, 8 seeds: mean regret, as a share of what the
first policy would have lost, and mean local switches. Of a mixture a switch is a row in which the
mixture changed. No setting was chosen on these runs.
"""

import bench
import lowswitch as ls

EPISODES, SEEDS = 20_000, 8
PROBLEMS = {
    "RiverSwim": "riverswim:states=6,horizon=10",
    "random (5, 3, 5)": "random-mdp:states=5,actions=3,horizon=5",
    "random (20, 4, 10)": "random-mdp:states=20,actions=4,horizon=10",
    "chain": "stochastic-chain:states=8",
}
LEARNERS = (
    "few:deployments=10",
    "ucrl2:c=0.05",
    "ucrl2:c=0.05,switches=200",
    "ucb2-b:c=0.05",
    "ucb2-b:c=0.005",
    "ucb2-b:c=0.05,switches=200",
)


def measured(mdp, text):
    """What a learner loses on a problem, and how many rows it changes."""
    given = {"episodes": EPISODES, "seeds": SEEDS, "progress": False}
    runs = ls.simulate(mdp, ls.Algorithm.from_text(text), **given)
    kept = EPISODES * (runs.optimal_value - mdp.evaluate(mdp.optimal_policy * 0))
    return {
        "lost": float(runs.regret.mean() / kept),
        "local_switches": float(runs.local_switches.mean()),
    }


def main():
    options = bench.parser(__doc__).parse_args()
    results = {
        place: {text: measured(ls.envs.make(name), text) for text in LEARNERS}
        for place, name in PROBLEMS.items()
    }
    for place, rows in results.items():
        for text, row in rows.items():
            print(f"{place:20} {text:30} {row['lost']:8.2%} {row['local_switches']:10,.0f}")
    setting = {"episodes": EPISODES, "seeds": SEEDS, "problems": PROBLEMS}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
