"""`few` with few deployments, against one change: explore for K / 10, plan once, commit.

    python benchmarks/few/small.py [--budgets 1 2 3 5 10 30] [--seeds 16] [--json FILE]

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

import bench
from lowswitch import TabularMDP, few, simulate

INSTANCES = (1000, 1001, 1002)  # 0 to 2 were used for choosing
FEWER = {10: 2, 30: 4}  # by which the number of seeds is divided, since they take longer


def tables_of(mdp: TabularMDP) -> tuple[np.ndarray, np.ndarray]:
    """The laws [H, S, A, S] and mean rewards [H, S, A]."""
    rows = np.repeat(np.arange(len(mdp.offsets) - 1), np.diff(mdp.offsets))
    laws = np.zeros((len(mdp.offsets) - 1, mdp.states))
    laws[rows, mdp.successors] = mdp.probabilities
    size = mdp.horizon, mdp.states, mdp.actions
    laws = np.broadcast_to(laws.reshape(-1, *size[1:], mdp.states), (*size, mdp.states))
    return laws, np.broadcast_to(mdp.rewards, size)


def drawn(laws: np.ndarray, generator: np.random.Generator) -> np.ndarray:  # [n]
    """One place of each law [n, m]."""
    below = laws.cumsum(axis=1) < generator.random(len(laws))[:, None]
    return np.minimum(below.sum(axis=1), laws.shape[1] - 1)


def uniformly(mdp: TabularMDP, episodes: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Visits [H, S, A], sums of rewards and successors [H, S, A, S] of uniformly random actions."""
    laws, means = tables_of(mdp)
    found = [np.zeros(laws.shape[:3]), np.zeros(laws.shape[:3]), np.zeros(laws.shape)]
    x = generator.choice(mdp.states, episodes, p=mdp.start_law)
    for h in range(mdp.horizon):
        allowed = mdp.actions_allowed[h, x]
        a = drawn(allowed / allowed.sum(axis=1, keepdims=True), generator)
        reward, y = means[h, x, a], drawn(laws[h, x, a], generator)
        if mdp.reward_law == "bernoulli":
            reward = generator.random(episodes) < reward
        for table, place, amount in zip(
            found, ((x, a), (x, a), (x, a, y)), (1, reward, 1), strict=True
        ):
            if table.ndim == 3 or h + 1 < mdp.horizon:
                np.add.at(table[h], place, amount)
        x = y
    return found


def one_change(mdp: TabularMDP, episodes: int, seed: int) -> float:
    """The regret of the simplest rival."""
    explored = episodes // 10
    found = uniformly(mdp, explored, np.random.default_rng([seed, 99]))
    if mdp.stationary and mdp.rewards.ndim == 2:
        found = [np.broadcast_to(table.sum(axis=0), table.shape) for table in found]
    visits, paid, led = found
    table, values = np.zeros((mdp.horizon, mdp.states), dtype=np.int64), np.zeros(mdp.states)
    for h in range(mdp.horizon - 1, -1, -1):
        q = paid[h] / np.maximum(1, visits[h])
        q = q + led[h] @ values / np.maximum(1, led[h].sum(axis=-1))
        q = np.where(visits[h] > 0, q, -1.0)  # what was never tried is not played
        q = np.where(mdp.actions_allowed[h], q, -2.0)
        table[h], values = q.argmax(axis=-1), np.maximum(0.0, q.max(axis=-1))
    gaps = mdp.optimal_value() - np.array([mdp.uniform_value(), mdp.evaluate(table)])
    return float(gaps @ (explored, episodes - explored))


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--budgets", type=int, nargs="*", default=(1, 2, 3, 5, 10, 30))
    parser.add_argument("--seeds", type=int, default=16)
    options = parser.parse_args()
    results = bench.Results(options.json)
    results.keep("setting", {"seeds": options.seeds, "fewer": FEWER, "instances": len(INSTANCES)})
    tried = [(name, i, *FAMILIES[name]) for i in INSTANCES for name in FAMILIES]
    for budget in (0, *options.budgets):
        for name, i, make, episodes in tried:
            mdp, seeds = make(i), options.seeds // FEWER.get(budget, 1)
            percent = 100 / (episodes * (mdp.optimal_value() - mdp.uniform_value()))
            if budget == 0 and f"{name} {i}, one change" not in results.found:
                lost = np.array([one_change(mdp, episodes, seed) for seed in range(options.seeds)])
                results.keep(f"{name} {i}, one change", summary(percent * lost))
            for rule in (2, 1) if budget else ():
                key = f"{name} {i}, {budget} by rule {rule}"
                if key not in results.found:
                    algorithm = few(deployments=budget, rule=rule)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # of runs that learn nothing
                        runs = simulate(
                            mdp, algorithm, episodes=episodes, seeds=seeds, progress=False
                        )
                    results.keep(key, summary(percent * runs.regret))


def summary(lost: np.ndarray) -> list[float]:
    """Mean, and its standard error."""
    return np.round([lost.mean(), lost.std(ddof=1) / np.sqrt(len(lost))], 2).tolist()


if __name__ == "__main__":
    main()
