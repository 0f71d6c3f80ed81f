"""What a run costs that starts from a policy somebody chose: protocol and trial, on ten problems.

    python benchmarks/few/trial.py [--budgets 10 2 5 30] [--seeds 16] [--json FILE]
    python benchmarks/few/trial.py --budgets 10 --careful 0.05 0.1 0.2 [--json FILE]

The initial policy is optimal, wrong in 15 % of the rows, or random; or there is none. Dates are
free or evenly spaced. Beside `few` there are `few` with a floor, with a fixed share of 15 % in the
trial, and with nobody outside of it. All numbers are shares of V* - V_uniform in percent, means
over problems: what is lost over the run, the deepest dip of a deployment below the initial policy,
in how many runs the last policy is worse than the initial one by more than 1 %, and how many of the
deployments earn less than 90 % of the initial policy, which a floor allows in 10 %. None of these
problems was used to choose a rule. Results in FILE are not computed again.

--careful: what `few` would lose if other shares of all cases entered trials that find nothing, the
first ones above all; it takes 2.5 %.
"""

import itertools
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from problems import CHOSEN, PROBLEMS, changing, garnet, slippery_grid

import bench
from lowswitch import TabularMDP, few, simulate
from lowswitch.history import deployment_gaps
from lowswitch.learners import trials

EPISODES = 2_000
BELOW, FLOOR = 1.0, 0.9  # percent; share
RULES: dict[str, dict[str, Any]] = {
    "auto": {},
    "floor 0.9": {"floor": FLOOR},
    "15 %": {"trial": 0.15},
    "all explore": {"trial": None},
}
DATES = ("free", "even")
INITIAL = ("optimal", "15 % wrong", "random", "none")


def problems() -> dict[str, TabularMDP]:
    """Ten problems, of which six are drawn."""
    drawn = {"garnet": garnet, "grid": slippery_grid, "changing": changing}
    named = {name: PROBLEMS[name][0] for name in ("gambler", "queue", "replacement")}
    named |= {"random-20": CHOSEN["random-20"][0]}
    return {
        f"{name}-{seed}": make("bernoulli", seed)
        for name, make in drawn.items()
        for seed in (1001, 1002)
    } | {name: make("bernoulli") for name, make in named.items()}


def initial_policy(mdp: TabularMDP, kind: str) -> np.ndarray | None:
    """A policy [H, S] to start from."""
    generator, best = np.random.default_rng([7, mdp.states]), mdp.optimal_policy
    other = generator.integers(0, mdp.actions, best.shape)
    wrong = generator.random(best.shape) < 0.15
    return {"optimal": best, "15 % wrong": np.where(wrong, other, best), "random": other}.get(kind)


def measured(mdp: TabularMDP, algorithm: Any, kind: str, seeds: int) -> np.ndarray:  # [4]
    """What is lost, the deepest dip, and how many runs and deployments end below; in percent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that learn nothing, as from an optimal policy
        runs = simulate(
            mdp,
            algorithm,
            episodes=EPISODES,
            seeds=seeds,
            initial=initial_policy(mdp, kind),
            history=True,
            progress=False,
        )
    span = mdp.optimal_value() - mdp.uniform_value()
    gaps = [deployment_gaps(mdp, one, initial=runs.initial) / span for one in runs.history or ()]
    lost = np.mean(runs.regret) / (EPISODES * span)
    dip = np.mean([gap.max() - gap[0] for gap in gaps])
    below = np.mean([100 * (gap[-1] - gap[0]) > BELOW for gap in gaps])
    least = (1 - FLOOR) * (mdp.optimal_value() / span)  # of the gap, beside a share of the first
    under = np.mean(np.concatenate([gap[1:] > least + FLOOR * gap[0] for gap in gaps]))
    return 100 * np.array([lost, dip, below, under])


def spaced(budget: int, dates: str) -> dict[str, Any]:
    """So many deployments, with free or with evenly spaced dates, as `few` takes them."""
    if dates == "free":
        return {"deployments": budget}
    return {"deployments_at": tuple(int(0.9 * EPISODES * i / budget) for i in range(1, budget + 1))}


def mean_of(tried: dict[str, TabularMDP], algorithm: Any, kind: str, seeds: int) -> list[float]:
    """What is `measured`, on average over problems."""
    some = [measured(mdp, algorithm, kind, seeds) for mdp in tried.values()]
    found: list[float] = np.round(np.mean(some, axis=0), 2).tolist()
    return found


def tell_careful(options: Any) -> None:
    """Measure `few` with other shares of the cases in trials that find nothing."""
    results, tried = bench.Results(options.json), problems()
    rule = max(trials._BUDGET)
    for share in options.careful:
        trials._BUDGET[rule] = share
        trials._MOST[rule] = 0.5 if share <= 0.05 else 1.0
        for budget, dates, kind in itertools.product(options.budgets, DATES, INITIAL[:3]):
            name = f"{budget} {dates}, {kind}, careful {share:g}"
            if name not in results.found:
                algorithm = few(**spaced(budget, dates))
                results.keep(name, mean_of(tried, algorithm, kind, options.seeds))


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--budgets", type=int, nargs="*", default=(10, 2, 5, 30))
    parser.add_argument("--rules", nargs="*", choices=[*RULES], default=[*RULES])
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--careful", type=float, nargs="*", metavar="SHARE", help="other shares")
    options = parser.parse_args()
    if options.careful:
        tell_careful(options)
    else:
        tell_rules(options)


def tell_rules(options: Any) -> None:
    """Measure all rules."""
    results, tried = bench.Results(options.json), problems()
    results.keep("setting", {"seeds": options.seeds, "episodes": EPISODES, "problems": [*tried]})
    cases = itertools.product(options.budgets, DATES, INITIAL, RULES.items())
    for budget, dates, kind, (rule, given) in cases:
        name = f"{budget} {dates}, {kind}, {rule}"
        if name in results.found or rule not in options.rules:
            continue
        if kind == "none" and "floor" in given:
            continue
        algorithm = few(**spaced(budget, dates), **given)
        results.keep(name, mean_of(tried, algorithm, kind, options.seeds))


if __name__ == "__main__":
    main()
