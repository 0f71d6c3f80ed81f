"""`few` on large problems: ICU-Sepsis from the present policy, and 5,000 states.

    python benchmarks/few/large.py sepsis [--episodes 10000 100000] [--seeds 4] [--json FILE]
    python benchmarks/few/large.py states [--json FILE]

ICU-Sepsis (Choudhary, Gupta, Thomas 2024) needs the package icu-sepsis, of which only the tables
are read. The present policy is the lowest admissible action.
"""

import importlib.util
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from scipy import sparse

import bench
from lowswitch import TabularMDP, few, simulate

HORIZON = 20


def sepsis() -> TabularMDP:
    """ICU-Sepsis over 20 steps, admissible actions only; surviving pays 1, once."""
    found = importlib.util.find_spec("icu_sepsis")
    if found is None or found.origin is None:
        raise SystemExit("pip install icu-sepsis first")
    assets = Path(found.origin).parent / "envs" / "assets"
    with np.load(assets / "dynamics.npz") as file:
        laws, rewards, start = file["tx_mat"], file["r_mat"], file["d_0"]
    _, *lines = (assets / "admissible_actions.txt").read_text().splitlines()
    S, A, _ = laws.shape
    allowed = np.zeros((S, A), dtype=bool)
    for x, line in enumerate(filter(None, map(str.split, lines))):
        allowed[x, [int(action) for action in line]] = True
    paid = np.clip((laws * rewards).sum(axis=-1), 0, 1)
    for x, a in np.argwhere(np.abs(laws.sum(axis=-1) - 1) > 1e-6):  # after the end
        laws[x, a], paid[x, a] = np.eye(S)[x], 0.0
    laws /= laws.sum(axis=-1, keepdims=True)
    return TabularMDP(
        sparse.csr_array(laws.reshape(S * A, S)),
        paid,
        start=start / start.sum(),
        horizon=HORIZON,
        reward_law="bernoulli",
        actions_allowed=np.broadcast_to(allowed, (HORIZON, S, A)),
    )


def on_sepsis(episodes: int, seeds: int) -> dict[str, Any]:
    """The value of the last policy in each seed, and the seconds of all seeds."""
    mdp = sepsis()
    initial = mdp.actions_allowed.argmax(axis=-1)
    algorithm = few(deployments=10, pooled=True)
    simulate(mdp, algorithm, episodes=20, seeds=1, initial=initial)  # compiles
    begin = time.perf_counter()
    runs = simulate(mdp, algorithm, episodes=episodes, seeds=seeds, initial=initial)
    took = time.perf_counter() - begin
    last = [mdp.evaluate(mixture[0]) for mixture in runs.policy]
    return {
        "episodes": episodes,
        "optimal": mdp.optimal_value(),
        "first": mdp.evaluate(initial),
        "last": last,
        "earned": (mdp.optimal_value() - runs.regret / episodes).tolist(),
        "deployments": runs.deployments.tolist(),
        "seconds_all_seeds": took,
    }


def on_many_states(S: int = 5000, A: int = 10, H: int = 50, K: int = 1000) -> dict[str, Any]:
    """The time of one run on a random sparse problem, and the memory of the process."""
    generator = np.random.default_rng(0)
    rows = np.repeat(np.arange(S * A), 4)
    weights = generator.dirichlet(np.ones(4), S * A).reshape(-1)
    successors = generator.integers(0, S, 4 * S * A)
    laws = sparse.coo_array((weights, (rows, successors)), shape=(S * A, S)).tocsr()
    mdp = TabularMDP(laws, generator.random((S, A)), horizon=H)
    algorithm = few(deployments=10, pooled=True)
    begin = time.perf_counter()
    runs = simulate(mdp, algorithm, episodes=K, seeds=1)
    return {
        "seconds": runs.seconds,
        "seconds_with_loading": time.perf_counter() - begin,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "deployments": runs.deployments.tolist(),
        "regret_share": float(runs.regret[0] / (K * mdp.optimal_value())),
    }


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("what", choices=("sepsis", "states"))
    parser.add_argument("--episodes", type=int, nargs="+", default=[10_000])
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    if options.what == "sepsis":
        facts: Any = [on_sepsis(episodes, options.seeds) for episodes in options.episodes]
    else:
        facts = on_many_states()
    print(json.dumps(facts, indent=1))
    bench.write(options.json, facts)


if __name__ == "__main__":
    main()
