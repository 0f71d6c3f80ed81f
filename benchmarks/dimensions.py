"""How the costs of UCB2 grow with the numbers of states, actions and steps, and with 1 / eps.

    python benchmarks/dimensions.py [--device gpu] [--json docs/numbers/dimensions.json]

One number varies at a time, on random problems (Dirichlet laws, uniform mean rewards), with fixed
or with Bernoulli rewards. An exponent is the slope of the log of a median over the instances
against the log of the number. Its interval is the middle 95 % of slopes of instances drawn anew.

A size counts if the median run has learned there: it lost at most half of what the first policy
would have lost. Costs until something happens count as infinite in runs where it never happened,
and a size whose median is infinite is left out. With fewer than three sizes nothing is fitted.

Costs. "episodes": until the uniform mixture of all policies is eps-optimal. "machines": these
episodes over the number of policies deployed until then; the largest number of machines whose
speed-up is at least half linear lies between this and twice this. "burn-in": the number of steps
after which the regret over the root of the steps is largest; from then on regret grows more slowly
than the root.
"""

import warnings

import numpy as np

import bench
import lowswitch as ls
from lowswitch import envs

EPISODES, INSTANCES = 3_000_000, 64
SCALES = (0.05, 0.2, 1.0)
BASE = {"states": 5, "actions": 3, "horizon": 5}
VALUES = {"states": (3, 5, 8, 13, 20), "actions": (2, 3, 5, 8), "horizon": (2, 3, 5, 8, 12)}
EPS = 0.1  # chosen on another instance, on which it is reached at every size with c = 0.05
SMALLER = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
LEARNED = 0.5  # the most that may be lost, of what the first policy would have lost
LEARNERS = {"ucb2-h": ls.ucb2_hoeffding, "ucb2-b": ls.ucb2_bernstein}
LAWS = ("deterministic", "bernoulli")
DRAWN = 1_000
# The exponents of Bai et al. 2019 at fixed K, where T = K H. N_sw = O(H^3 S A log(K / A)) bounds
# N_gl too; regret is O~(sqrt(H^4 S A T)) with Hoeffding and O~(sqrt(H^3 S A T)) with Bernstein;
# a mixture is eps-optimal after O~(H^5 S A / eps^2) and O~(H^4 S A / eps^2) episodes; the speed-up
# is linear up to O~(H^2 / eps^2) and O~(H / eps^2) machines; T = H^6 S^2 A^2 with Bernstein.
SWITCHES = {"states": 1.0, "actions": 1.0, "horizon": 3.0}
ORDERS = {
    "switches": dict.fromkeys(LEARNERS, SWITCHES),
    "deployments": dict.fromkeys(LEARNERS, SWITCHES),
    "deployments per switch": dict.fromkeys(LEARNERS, dict.fromkeys(VALUES, 0.0)),
    "regret": {
        "ucb2-h": {"states": 0.5, "actions": 0.5, "horizon": 2.5},
        "ucb2-b": {"states": 0.5, "actions": 0.5, "horizon": 2.0},
    },
    "episodes": {
        "ucb2-h": {"states": 1.0, "actions": 1.0, "horizon": 5.0, "1 / eps": 2.0},
        "ucb2-b": {"states": 1.0, "actions": 1.0, "horizon": 4.0, "1 / eps": 2.0},
    },
    "machines": {
        "ucb2-h": {"states": 0.0, "actions": 0.0, "horizon": 2.0, "1 / eps": 2.0},
        "ucb2-b": {"states": 0.0, "actions": 0.0, "horizon": 1.0, "1 / eps": 2.0},
    },
    "burn-in": {"ucb2-b": {"states": 2.0, "actions": 2.0, "horizon": 6.0}},
}


def until(curves, eps):
    """After how many episodes the mixture stays eps-optimal: inf if it is not by the end."""
    episodes, regret = curves.episodes.astype(float), curves.regret[0]
    above = np.flatnonzero(regret > eps * episodes)
    if not len(above):
        return 1.0
    if above[-1] == len(episodes) - 1:
        return np.inf
    here, there = above[-1], above[-1] + 1
    slope = (regret[there] - regret[here]) / (episodes[there] - episodes[here])
    # regret[here] + slope (k - episodes[here]) = eps k
    return float((regret[here] - slope * episodes[here]) / (eps - slope))


def machines(curves, eps):
    """The episodes until then over the policies deployed in them."""
    K = until(curves, eps)
    if not np.isfinite(K):
        return np.inf
    return K / (np.interp(K, curves.episodes, curves.deployments[0]) + 1)


def burn_in(curves, horizon):
    """The steps after which regret over the root of the steps is largest; inf if at the end."""
    place = np.argmax(curves.regret[0] / np.sqrt(curves.episodes))
    last = place == len(curves.episodes) - 1
    return np.inf if last else float(horizon * curves.episodes[place])


def costs(runs):
    """All costs of one run."""
    curves, lost = runs.curves, runs.optimal_value - runs.first_value
    return {
        "learned": float(runs.regret[0] / (runs.episodes * lost)),
        "regret": float(runs.regret[0]),
        "switches": float(runs.local_switches[0]),
        "deployments": float(runs.deployments[0]),
        "deployments per switch": float(runs.deployments[0] / max(1, runs.local_switches[0])),
        "episodes": until(curves, EPS),
        "machines": machines(curves, EPS),
        "burn-in": burn_in(curves, runs.horizon),
        **{f"episodes, {eps}": until(curves, eps) for eps in SMALLER},
        **{f"machines, {eps}": machines(curves, eps) for eps in SMALLER},
    }


def measured(law, size, options):
    """The costs [instances] at one size, by learner and scale."""
    problems = [
        envs.random_mdp(**BASE | size, seed=1_000 + instance, reward_law=law)
        for instance in range(options.instances)
    ]
    settings = {(name, c): make(c=c) for name, make in LEARNERS.items() for c in SCALES}
    sweep = ls.sweep(
        problems,
        list(settings.values()),
        episodes=options.episodes,
        seeds=1,
        device=options.device,
        progress=False,
    )
    found = {}
    for place, key in enumerate(settings):
        every = [costs(sweep[problem, place]) for problem in range(len(problems))]
        found[key] = {cost: np.array([run[cost] for run in every]) for cost in every[0]}
    return found


def exponent(values, found):
    """The slope of the log of the medians of `found` [instances, n], and its interval."""
    generator, size = np.random.default_rng(0), len(found)
    drawn = found[generator.integers(size, size=(DRAWN, size))]
    logs = np.log([np.median(found, axis=0), *np.median(drawn, axis=1)])
    slopes = np.polyfit(np.log(values), logs[np.isfinite(logs).all(axis=1)].T, 1)[0]
    low, high = np.quantile(slopes[1:], (0.025, 0.975))
    return float(slopes[0]), float(low), float(high)


def row_of(cost, values, found, learned, order):
    """An exponent and the medians that it is fitted to, at the sizes that count."""
    medians = np.median(found, axis=0)
    counts = np.isfinite(medians) & (np.median(learned, axis=0) <= LEARNED)
    used = np.array(values)[counts]
    mean, low, high = exponent(used, found[:, counts]) if len(used) > 2 else (None,) * 3
    return {
        "cost": cost,
        "order": order,
        "exponent": mean,
        "low": low,
        "high": high,
        "used": used.tolist(),
        "medians": [float(median) if np.isfinite(median) else None for median in medians],
    }


def rows_of(law, name, c, sizes):
    """All exponents of a learner at a scale. sizes: the costs, by what varies and its value."""
    for what, values in VALUES.items():
        each = [sizes[what, value][name, c] for value in values]
        learned = np.array([found["learned"] for found in each]).T
        for cost, orders in ORDERS.items():
            if name in orders:
                found = np.array([found[cost] for found in each]).T
                row = row_of(cost, values, found, learned, orders[name][what])
                yield {"law": law, "learner": name, "c": c, "of": what, **row}
    base = sizes["states", BASE["states"]][name, c]
    learned = np.repeat(base["learned"][:, None], len(SMALLER), axis=1)
    for cost in ("episodes", "machines"):
        found = np.array([base[f"{cost}, {eps}"] for eps in SMALLER]).T
        order = ORDERS[cost][name]["1 / eps"]
        row = row_of(cost, 1 / np.array(SMALLER), found, learned, order)
        yield {"law": law, "learner": name, "c": c, "of": "1 / eps", **row}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--instances", type=int, default=INSTANCES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # short runs with many steps learn little, and say so
    setting = {
        "episodes": options.episodes,
        "instances": options.instances,
        "scales": SCALES,
        "base": BASE,
        "values": VALUES,
        "eps": EPS,
        "smaller": SMALLER,
    }
    results = []
    for law in LAWS:
        sizes, known = {}, {}
        for what, values in VALUES.items():
            for value in values:
                size = BASE | {what: value}
                key = tuple(size.values())
                if key not in known:
                    known[key] = measured(law, size, options)
                    print(law, size, flush=True)
                sizes[what, value] = known[key]
        for name in LEARNERS:
            for c in SCALES:
                results += rows_of(law, name, c, sizes)
                share = np.median(sizes["states", BASE["states"]][name, c]["learned"])
                print(law, name, c, f"lost at the base size: {share:.3f}", flush=True)
        bench.write(
            options.json,
            {"run": bench.described(options.device), "setting": setting, "results": results},
        )


if __name__ == "__main__":
    main()
