"""What it costs to deploy one policy at a time: `few` with members=1, on the problems of small.py.

    python benchmarks/few/members.py [--budgets 3 10] [--seeds 8] [--json FILE]

`few` deploys a mixture of 64 policies and draws one for each episode. With members=1 every episode
between two deployments plays the same policy. Numbers are as in small.py, to whose results docs/
compares them. Results in FILE are not computed again.
"""

import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

from others import FAMILIES
from small import INSTANCES, summary

import bench
from lowswitch import few, simulate


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--budgets", type=int, nargs="*", default=(3, 10))
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    results = bench.Results(options.json)
    results.keep("setting", {"seeds": options.seeds})
    for budget in options.budgets:
        for name, i in ((name, i) for i in INSTANCES for name in FAMILIES):
            key = f"{name} {i}, {budget} by one policy"
            if key in results.found:
                continue
            make, episodes = FAMILIES[name]
            mdp = make(i)
            percent = 100 / (episodes * (mdp.optimal_value() - mdp.uniform_value()))
            algorithm = few(deployments=budget, members=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of runs that learn nothing
                runs = simulate(
                    mdp, algorithm, episodes=episodes, seeds=options.seeds, progress=False
                )
            results.keep(key, summary(percent * runs.regret))


if __name__ == "__main__":
    main()
