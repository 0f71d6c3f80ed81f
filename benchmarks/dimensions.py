"""How regret and switches of UCB2 grow with the numbers of states, actions and steps.

    python benchmarks/dimensions.py [--json docs/numbers/dimensions.json]

One number varies at a time, on random problems (Dirichlet laws, uniform mean rewards), with fixed
or with Bernoulli rewards. The exponent is the slope of log cost against the log of the number, on
each of the instances separately. Its interval is Student's over the instances.
"""

import warnings

import numpy as np
from scipy import stats

import bench
import lowswitch as ls
from lowswitch import envs

EPISODES, INSTANCES, SCALE = 200_000, 5, 0.05
BASE = {"states": 5, "actions": 3, "horizon": 5}
VALUES = {"states": (3, 5, 8, 13, 20), "actions": (2, 3, 5, 8), "horizon": (2, 3, 5, 8, 12)}
LEARNERS = {"ucb2-h": ls.ucb2_hoeffding, "ucb2-b": ls.ucb2_bernstein}
LAWS = ("deterministic", "bernoulli")
# the exponents of the theorems at fixed K, where T = K H: N_sw = O(H^3 S A log(K / A)), regret
# O~(sqrt(H^4 S A T)) with Hoeffding and O~(sqrt(H^3 S A T)) with Bernstein
ORDERS = {
    "switches": {"states": 1.0, "actions": 1.0, "horizon": 3.0},
    "ucb2-h": {"states": 0.5, "actions": 0.5, "horizon": 2.5},
    "ucb2-b": {"states": 0.5, "actions": 0.5, "horizon": 2.0},
}


def costs(make, law, size, instance):
    """Regret and local switches of one run on one instance."""
    options = {**BASE, **size, "seed": 1_000 + instance, "reward_law": law}
    runs = ls.simulate(
        envs.random_mdp(**options),
        make(c=SCALE),
        episodes=EPISODES,
        seeds=[instance],
        progress=False,
    )
    return float(runs.regret[0]), float(runs.local_switches[0])


def exponent(values, found):
    """The mean slope over the instances [I, n], and half the width of its 95 % interval."""
    slopes = [np.polyfit(np.log(values), np.log(row), 1)[0] for row in found]
    spread = np.std(slopes, ddof=1) / len(slopes) ** 0.5
    return float(np.mean(slopes)), float(stats.t.ppf(0.975, len(slopes) - 1) * spread)


def main():
    options = bench.parser(__doc__).parse_args()
    warnings.simplefilter("ignore")  # short runs with many steps learn little, and say so
    results = []
    for law in LAWS:
        for name, make in LEARNERS.items():
            for what, values in VALUES.items():
                found = np.array(
                    [
                        [costs(make, law, {what: value}, instance) for value in values]
                        for instance in range(INSTANCES)
                    ]
                )
                for place, cost in enumerate(("regret", "switches")):
                    mean, half = exponent(values, found[:, :, place])
                    order = ORDERS["switches" if cost == "switches" else name][what]
                    row = {
                        "law": law,
                        "learner": name,
                        "cost": cost,
                        "of": what,
                        "exponent": mean,
                        "half": half,
                        "order": order,
                        "costs": found[:, :, place].mean(axis=0).tolist(),
                    }
                    results.append(row)
                    print(*row.values(), flush=True)
    setting = {"episodes": EPISODES, "instances": INSTANCES, "c": SCALE, "values": VALUES}
    bench.write(options.json, {"run": bench.described(), "setting": setting, "results": results})


if __name__ == "__main__":
    main()
