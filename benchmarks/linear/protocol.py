"""What a run with features costs that starts from a policy somebody chose: protocol and trial.

    python benchmarks/linear/protocol.py [--set report] [--seeds 8] [--json FILE]

The initial policy is good (the best function of the features), slightly wrong (other weights, by
which about 15 % of the cases get another action), poor (random weights), or plays one action in all
cases, whatever it is worth. Dates are free or evenly spaced. Beside `few` there are `few` by its
earlier rule, with a fixed share of 15 % in the trial, with a floor, and with nobody outside of the
trial. All numbers are shares of V* - V_uniform in
percent, means over problems: what is lost over the run, what the initial policy alone would have
lost, what the last policy loses, and how many deployments earn less than 90 % of the initial
policy. `choose` has the problems on which the rules were chosen, `report` others. Results in FILE
are not computed again.
"""

import dataclasses
import functools
import itertools
import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import contexts
import numpy as np

import bench
import lowswitch as ls
from lowswitch.feature_learner import ContextDriftWarning
from lowswitch.learners.ridge_spec import linear_form

EPISODES, DEPLOYMENTS, FLOOR = 2_000, 10, 0.9
RULES = {
    "auto": {},
    "rule 1": {},
    "15 %": {"trial": 0.15},
    "floor 0.9": {"floor": FLOOR},
    "all explore": {"trial": None},
}
INITIAL = ("good", "slightly wrong", "poor", "one action")


def levels(rounds, generator, *, d=4, A=3):
    """Normal rewards whose level alone differs between actions, so that one is best for all."""
    x = generator.normal(size=(rounds, d))
    means = 0.5 + (x @ generator.normal(scale=0.3, size=d))[:, None]
    means = means + generator.normal(scale=0.4, size=A)
    return x, means, means + generator.normal(size=(rounds, 1))


def wide(rounds, generator, *, d=15, A=3):
    """Many features, of which three matter, and noise as large as what they do."""
    weights = np.zeros((A, d))
    weights[:, :3] = generator.normal(scale=0.5, size=(A, 3))
    x = generator.normal(size=(rounds, d))
    means = x @ weights.T + generator.normal(scale=0.3, size=A)
    return x, means, means + generator.normal(size=(rounds, 1))


def settings(rounds, generator, *, d=5, A=4):
    """A machine whose usual setting is the first one; others are better in some cases."""
    x, weights = generator.normal(size=(rounds, d)), 0.3 * generator.normal(size=(A, d))
    weights[0] = 0
    level = -0.35 - 0.1 * generator.random(A)
    level[0] = 0
    means = 1 + x @ weights.T + level + (x @ (0.1 * generator.normal(size=d)))[:, None]
    return x, means, means + 0.8 * generator.normal(size=(rounds, 1))


def first_best(rounds, generator, *, d=4, A=4):
    """The first action is best in all cases."""
    x = generator.normal(size=(rounds, d))
    means = (x @ generator.normal(scale=0.3, size=d))[:, None]
    means = means - np.array([0, *(0.1 + 0.4 * generator.random(A - 1))])
    return x, means, means + generator.normal(size=(rounds, 1))


SETS = {
    "choose": {
        name: contexts.PROBLEMS[name]
        for name in ("logistic", "linear with normal noise", "logistic, d = 10, A = 6")
    }
    | {"settings": settings, "first best": first_best},
    "report": {
        name: contexts.PROBLEMS[name]
        for name in ("clicks", "rarer clicks, d = 12, A = 5", "drift, linear")
    }
    | {
        "levels": levels,
        "wide": wide,
        "small": functools.partial(contexts.gaussian, d=3, A=3),
    },
}


def drawn(name, make, seed):
    """A problem of this name, whose rounds are drawn for the seed."""
    rounds = make(EPISODES, np.random.default_rng([seed, 79]))
    return contexts.Rounds(name, *rounds, constant=False)


def initial_policy(problem, kind, seed):
    """A policy to start from."""
    if kind == "one action":
        d, A = problem.shape.features, problem.shape.actions
        return ls.LinearPolicy.always(0, features=d, actions=A)
    generator = np.random.default_rng([seed, 80])
    x, means = problem.contexts, problem.means
    whole, binary = np.column_stack([x, np.ones(len(x))]), means.min() > 0 and means.max() < 1
    worth = np.log(means / (1 - means)) if binary else means
    best = np.linalg.lstsq(whole, worth, rcond=None)[0]  # [d + 1, A]
    noise = generator.normal(size=best.shape) * best.std()
    chosen = {"good": best, "poor": noise}.get(kind)
    if chosen is None:
        wanted, right = 0.15, (whole @ best).argmax(axis=1)
        sizes = np.linspace(0.02, 2, 100)
        wrong = [(right != (whole @ (best + s * noise)).argmax(axis=1)).mean() for s in sizes]
        chosen = best + sizes[int(np.abs(np.array(wrong) - wanted).argmin())] * noise
    return ls.LinearPolicy(problem.shape, chosen[None, ..., None], np.uint64(0))


def measured(problem, algorithm, initial, seed):  # [4]
    """What is lost by the run, by the initial policy, by the last one; deployments too low."""
    learner = ls.Learner(
        algorithm, **problem.shape._asdict(), episodes=EPISODES, seed=seed, initial=initial
    )
    x, means, first = problem.contexts, problem.means, learner.policy
    earned, values, told = [], [], 0

    def value(policy):
        return float((policy.propensities(x) * means).sum(axis=1).mean())

    while told < EPISODES:
        more = learner.next_stop(EPISODES - told)
        played = problem.play(learner.policy, seed, told, told + more)
        earned.append(played.regret)
        before = learner.policy
        learner.tell(played.x[:, 0, 0], played.actions[:, 0], played.rewards[:, 0])
        told += more
        if learner.policy is not before:
            values.append(value(learner.policy))
    best, low = means.max(axis=1).mean(), min(0.0, float(means.min()))
    span, base = best - means.mean(), value(first)
    under = np.mean([one - low < FLOOR * (base - low) for one in values])
    lost = np.concatenate(earned).mean() / span
    return [lost, (best - base) / span, (best - value(learner.policy)) / span, under]


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--set", choices=SETS, default="report")
    parser.add_argument("--rules", nargs="*", choices=[*RULES], default=[*RULES])
    parser.add_argument("--dates", nargs="*", choices=("free", "even"), default=("free", "even"))
    parser.add_argument("--first", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    results, makes = bench.Results(options.json), SETS[options.set]
    sizes = {"seeds": options.seeds, "episodes": EPISODES, "deployments": DEPLOYMENTS}
    results.keep("setting", sizes | {"problems": [*makes], "run": bench.described()})
    even = tuple(int(0.9 * EPISODES * i / DEPLOYMENTS) for i in range(1, DEPLOYMENTS + 1))
    when = {"free": {"deployments": DEPLOYMENTS}, "even": {"deployments_at": even}}
    seeds = range(options.first, options.first + options.seeds)
    for dates, kind, rule in itertools.product(options.dates, INITIAL, options.rules):
        name = f"{dates}, {kind}, {rule}"
        if name in results.found:
            continue
        found = []
        for (label, make), seed in itertools.product(makes.items(), seeds):
            problem = drawn(label, make, seed)
            start = initial_policy(problem, kind, seed)
            algorithm = linear_form(ls.few(**when[dates], **RULES[rule]), EPISODES, start)
            if rule == "rule 1":
                earlier = dataclasses.replace(algorithm.estimator, rule=1)
                algorithm = dataclasses.replace(algorithm, estimator=earlier)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ContextDriftWarning)
                found.append(measured(problem, algorithm, start, seed))
        results.keep(name, np.round(100 * np.mean(found, axis=0), 2).tolist())


if __name__ == "__main__":
    main()
