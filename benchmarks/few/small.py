"""`few` with few deployments, against one change: explore for K / 10, plan once, commit.

    python benchmarks/few/small.py [--budgets 1 2 3 5 10 30] [--seeds 32] [--json FILE]

One change is what anybody would try first: uniformly random actions in the first tenth of the run,
then the best policy of the means that were seen. It is told whether all steps are alike, which
`few` is not. Beside `few` there is `few` with rule=1, as it was before. All numbers are shares of
K (V* - V_uniform) in percent, means over seeds. The problems are three of each family of
`others.py`, which were not used to choose a rule; for that there were three others of each. Results
in FILE are not computed again.
"""

import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from others import FAMILIES
from rivals import one_change

import bench
from lowswitch import few, simulate

INSTANCES = (1000, 1001, 1002)  # 0 to 2 were used for choosing


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--budgets", type=int, nargs="*", default=(1, 2, 3, 5, 10, 30))
    parser.add_argument("--seeds", type=int, default=32)
    options = parser.parse_args()
    results = bench.Results(options.json)
    results.keep("setting", {"seeds": options.seeds, "instances": len(INSTANCES)})
    tried = [(name, i, *FAMILIES[name]) for i in INSTANCES for name in FAMILIES]
    for budget in (0, *options.budgets):
        for name, i, make, episodes in tried:
            mdp = make(i)
            percent = 100 / (episodes * (mdp.optimal_value() - mdp.uniform_value()))
            if budget == 0 and f"{name} {i}, one change" not in results.found:
                alike = mdp.steps_alike
                lost = np.array(
                    [one_change(mdp, episodes, seed, alike) for seed in range(options.seeds)]
                )
                results.keep(f"{name} {i}, one change", summary(percent * lost))
            for rule in (2, 1) if budget else ():
                key = f"{name} {i}, {budget} by rule {rule}"
                if key not in results.found:
                    algorithm = few(deployments=budget, rule=rule)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # of runs that learn nothing
                        runs = simulate(
                            mdp, algorithm, episodes=episodes, seeds=options.seeds, progress=False
                        )
                    results.keep(key, summary(percent * runs.regret))


def summary(lost: np.ndarray) -> list[float]:
    """Mean, and its standard error."""
    return np.round([lost.mean(), lost.std(ddof=1) / np.sqrt(len(lost))], 2).tolist()


if __name__ == "__main__":
    main()
