"""Large sparse problems: CPU time and memory of ten deployments, against the number of states.

    python benchmarks/large.py [--states 1000 10000 100000] [--only few] [--json FILE]
    python benchmarks/large.py check [--json FILE]

A Garnet, and the platelet inventory of Mirjalili 2022 as in `mdpax`, whose units all arrive fresh
here. Both have 10 steps, so 10^5 states are 10^6 rows. Each line is a process of its own; the
memory is its largest size less its size before the run, beside what `simulate` expects. Kernels are
compiled beforehand. `check` compares V* with `quantecon`, and with `mdpax` the platelets of at most
1,000 states (`pip install quantecon mdpax`).
"""

import json
import math
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy import sparse

import bench
import lowswitch as ls
from lowswitch.runs.jobs import Options
from lowswitch.runs.simulate import job_of

HORIZON, EPISODES, SEED = 10, 11_000, 0
STATES = (1_000, 10_000, 100_000)
GRID = "grid/equal/11"  # ten dates before the end
LEARNERS = {
    "UCBVI, doubling": "ucbvi:c=0.01,schedule=growth/2,deployments=10",
    "UCBVI, ten dates": f"ucbvi:c=0.01,schedule={GRID}",
    "PSRL, mass=1": f"psrl:mass=1,schedule={GRID}",
    "few": "few:deployments=10",
}

# ---- the platelets -------------------------------------------------------------------------------

LIFE, DEMAND = 4, 20  # days that a fresh unit lasts; the largest demand of a day
DEMAND_N = (3.5, 11.0, 7.2, 11.1, 5.9, 5.5, 2.2)  # of weekdays: mdpax's defaults
DEMAND_DELTA = (5.7, 6.9, 6.5, 6.2, 5.8, 3.3, 3.4)
FIXED, SHORTAGE, WASTE, HOLDING = 10.0, 20.0, 5.0, 1.0
ORDERS = 4  # sizes that may be ordered, from 0 up to the most


def most_units(states):
    """The stock of each age at which 7 (most + 1)^(LIFE - 1) is about this number of states."""
    return max(ORDERS - 1, round((states / 7) ** (1 / (LIFE - 1))) - 1)


def demand_laws():  # [7, DEMAND + 1]
    """Negative binomial laws; larger demands count as the largest."""
    demand = np.arange(DEMAND + 1)
    laws = []
    for n, delta in zip(DEMAND_N, DEMAND_DELTA, strict=True):
        p = n / (n + delta)
        logs = [math.lgamma(n + d) - math.lgamma(n) - math.lgamma(d + 1) for d in demand]
        law = np.exp(np.array(logs) + n * math.log(p) + demand * math.log(1 - p))
        law[-1] += 1 - law.sum()
        laws.append(law)
    return np.array(laws)


def order_sizes(most):
    return np.linspace(0, most, ORDERS).round().astype(int)


def platelets(states):
    """The inventory with about this many states: weekday, and stock by age, the oldest last."""
    most, laws = most_units(states), demand_laws()
    shape = (7, *[most + 1] * (LIFE - 1))
    S = int(np.prod(shape))
    weekday, *stock = np.unravel_index(np.arange(S), shape)
    sizes = order_sizes(most)
    columns = np.zeros((S, ORDERS, DEMAND + 1), dtype=np.int64)
    costs = np.zeros((S, ORDERS))
    for a, size in enumerate(sizes):
        for demand in range(DEMAND + 1):
            missing, left = np.full(S, demand), []
            for units in reversed([np.full(S, size), *stock]):  # the oldest first
                left.insert(0, np.maximum(units - missing, 0))
                missing = np.maximum(missing - units, 0)
            cost = FIXED * (size > 0) + SHORTAGE * missing + WASTE * left[-1] + HOLDING * sum(left)
            costs[:, a] += laws[weekday, demand] * cost
            columns[:, a, demand] = np.ravel_multi_index(((weekday + 1) % 7, *left[:-1]), shape)
    weights = np.broadcast_to(laws[weekday][:, None], columns.shape)
    ends = np.arange(0, columns.size + 1, DEMAND + 1)
    table = sparse.csr_matrix(
        (weights.reshape(-1), columns.reshape(-1), ends), shape=(S * ORDERS, S)
    )
    table.sum_duplicates()
    return ls.TabularMDP(table, ls.rescale(-costs), start=0, horizon=HORIZON)


PROBLEMS = {
    "Garnet": lambda states: ls.envs.garnet(states=states, horizon=HORIZON),
    "platelets": platelets,
}

# ---- one line ------------------------------------------------------------------------------------


def peak():
    """The memory of this process at its largest, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measured(problem, learner, states):
    """What one process finds: CPU seconds and memory beyond the problem itself."""
    mdp = PROBLEMS[problem](states)
    mdp.optimal_value()
    warnings.simplefilter("ignore")
    algorithm = ls.Algorithm.from_text(LEARNERS[learner])
    options = {"seeds": [SEED], "threads": 1, "progress": False}
    ls.simulate(PROBLEMS[problem](50), algorithm, episodes=EPISODES, **options)  # compiles
    job = job_of(mdp, algorithm, EPISODES, [SEED], Options())
    before, begin = peak(), time.process_time()
    runs = ls.simulate(mdp, algorithm, episodes=EPISODES, **options)
    return {
        "states": mdp.states,
        "cpu": time.process_time() - begin,
        "mib": peak() - before,
        "estimated_mib": job.nbytes(1) / 2**20,
        "problem_mib": before,
        "nonzeros": len(mdp.successors),
        "deployments": int(runs.deployments[0]),
        "regret": float(runs.regret[0]),
        "kept": EPISODES * runs.optimal_value,
    }


def exponent(rows, name):
    """The slope of the logarithm of a column over that of the states."""
    found = [row for row in rows if row[name] > 0]
    if len(found) < 2:
        return math.nan
    sizes, values = (np.log([row[column] for row in found]) for column in ("states", name))
    return float(np.polyfit(sizes, values, 1)[0])


def ladder(states, only, results):
    for problem in PROBLEMS:
        for learner in LEARNERS:
            if only and only not in learner:
                continue
            rows = []
            for size in (50, *states):  # the first one compiles, which takes memory
                command = [sys.executable, __file__, "line", problem, learner, str(size)]
                found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rows.append(json.loads(found.splitlines()[-1]))
            rows = rows[1:]
            fitted = {f"{name}_exponent": exponent(rows, name) for name in ("cpu", "mib")}
            results.keep(f"{problem}: {learner}", {"rows": rows} | fitted)


# ---- outside checks ------------------------------------------------------------------------------


def by_quantecon(mdp):
    """V* of all states by quantecon's backward induction."""
    from quantecon.markov import DiscreteDP, backward_induction

    S, A = mdp.states, mdp.actions
    rows = sparse.csr_matrix((mdp.probabilities, mdp.successors, mdp.offsets), shape=(S * A, S))
    states, actions = np.divmod(np.arange(S * A), A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without discounting only finite horizons are solved
        ddp = DiscreteDP(mdp.rewards.reshape(-1), rows, 1.0, states, actions)
    values, _ = backward_induction(ddp, mdp.horizon)
    return values[0]


def by_mdpax(mdp, states):
    """The values of all states after HORIZON sweeps of mdpax's value iteration.

    Its actions are all orders up to the most, so ours are given to it.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    from mdpax.problems.perishable_inventory.mirjalili_platelet import (
        MirjaliliPlateletPerishable,
    )

    most = most_units(states)
    fresh = tuple(-60.0 if life + 2 < LIFE else 60.0 for life in range(LIFE - 1))
    problem = MirjaliliPlateletPerishable(
        max_demand=DEMAND,
        max_useful_life=LIFE,
        max_order_quantity=most,
        useful_life_at_arrival_distribution_c_0=fresh,
        useful_life_at_arrival_distribution_c_1=(0.0,) * (LIFE - 1),
    )
    events = np.array(
        [
            event
            for event in np.asarray(problem.random_event_space)
            if event[1] in order_sizes(most) and (event[2:] == 0).all()
        ]
    )
    one = jax.vmap(problem.transition, in_axes=(None, None, 0))
    chance = jax.vmap(problem.random_event_probability, in_axes=(None, None, 0))

    def expected(state, action, values):
        after, reward = one(state, action, events)
        index = jax.vmap(problem.state_to_index)(after)
        return (chance(state, action, events).reshape(-1) * (reward + values[index])).sum()

    each = jax.jit(jax.vmap(jax.vmap(expected, (None, 0, None)), (0, None, None)))
    values, orders = np.zeros(mdp.states), order_sizes(most)[:, None]
    for _ in range(HORIZON):
        values = np.asarray(each(problem.state_space, orders, values)).max(axis=1)
    return values


def check(states, results):
    for name, make in PROBLEMS.items():
        for size in states:
            mdp = make(size)
            ours = mdp.unit_optimal_values[0]
            found = {"quantecon": float(np.abs(by_quantecon(mdp) - ours).max())}
            if name == "platelets" and size <= 1_000:
                theirs, units = by_mdpax(mdp, size), mdp.optimal_values[0]
                found["mdpax"] = float(np.abs(theirs - units).max() / np.abs(units).max())
            results.keep(f"{name}, S = {mdp.states}: largest difference of V*", found)


def main():
    if sys.argv[1:2] == ["line"]:
        problem, learner, states = sys.argv[2:]
        print(json.dumps(measured(problem, learner, int(states))))
        return
    parser = bench.parser(__doc__)
    parser.add_argument("what", nargs="?", choices=("ladder", "check"), default="ladder")
    parser.add_argument("--states", nargs="+", type=int, default=STATES)
    parser.add_argument("--only", help="a part of a learner's name")
    options = parser.parse_args()
    results = bench.Results(options.json)
    if options.what == "check":
        check(options.states, results)
    else:
        ladder(options.states, options.only, results)
    results.keep("run", bench.described(bench.load_before()))


if __name__ == "__main__":
    main()
