"""What few deployments cost on features: regret, speed and control, with fresh seeds.

    python benchmarks/linear/run.py digits arms CartPole --json docs/numbers/linear.json

Each section is measured anew and put beside what the file has of the others. "digits"
needs scikit-learn, the names of classic control need Gymnasium; dqn.py has the rival of CartPole.
With --keep FILE every seed is written as soon as it is done, and the same call goes on from there.
--same-rivals measures `few` alone, against LinUCB as the file has it, which takes an hour.
The variable CONTROL_SEEDS says on how many seeds classic control is measured, by default 10.
"""

import itertools
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np

import bench
import lowswitch as ls
from lowswitch.features import problems
from lowswitch.io.storage import write_text
from lowswitch.learners.ridge_spec import linear_form

SEEDS = range(1000, 1016)
FRESH = range(5000, 5032)  # for inventory and control, which were looked at with the others
JUDGED = range(40_000, 40_032)  # for the bandits by the newest rule
MANY = range(9000, 9192)  # for fixed arms, where a few runs make the mean
PAIRED = range(30_000, 30_600)  # for fixed arms with and without an intercept
CONTROLLED = FRESH[: int(os.environ.get("CONTROL_SEEDS", "10"))]
TUNED = (0.05, 0.1, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0)  # alphas of the rival
ROUNDS = 10_000
MOST_SQUARED = 6  # features whose squares and products are tried


class Kept:
    """Results of single seeds, in a JSON file if one is named."""

    def __init__(self):
        self.path, self.results = None, {}

    def open(self, path):
        self.path, self.results = path, bench.read(path)

    def get(self, name, compute):
        if name not in self.results:
            self.results[name] = compute()
            if self.path is not None:
                write_text(self.path, json.dumps(self.results, indent=1) + "\n")
        return self.results[name]


KEPT = Kept()
RIVALS = {}  # of sections whose rival was measured before and has not changed


def mean_regret(make, algorithm, episodes, seeds=SEEDS):
    """The regret of an algorithm, on a problem that is drawn anew for each seed where it can be."""
    problem, begin, regret, deployments = make(0), time.perf_counter(), [], []

    def cost(seed):
        runs = ls.simulate(make(seed), algorithm, episodes=episodes, seeds=[seed], threads=1)
        return float(runs.regret[0]), int(runs.deployments[0])

    for seed in seeds:
        name = f"{problem.name}, {algorithm}, {episodes}, {seed}"
        found = KEPT.get(name, lambda seed=seed: cost(seed))
        regret.append(found[0])
        deployments.append(found[1])
    seconds = time.perf_counter() - begin
    say(f"  {problem.name}: {algorithm}: {np.mean(regret):.1f} ({seconds:.0f} s)")
    return {
        "regret": float(np.mean(regret)),
        "error": float(np.std(regret, ddof=1) / np.sqrt(len(regret))),
        "median": float(np.median(regret)),
        "worst": float(np.max(regret)),
        "deployments": float(np.mean(deployments)),
    }


def digits():
    """Scikit-learn's digits: 20 principal components of unit variance and a constant."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images - images.mean(axis=0)
    *_, directions = np.linalg.svd(images, full_matrices=False)
    scores = images @ directions[:20].T
    scores /= scores.std(axis=0)
    examples = np.column_stack([np.ones(len(scores)), scores])
    return problems.classification(examples, labels, name="digits")


def tuned_linucb(make, seeds):
    """LinUCB that updates in every round, its alpha tuned on these problems."""
    # to spare time all alphas run on six of the seeds, the three best of them on all
    first = {
        alpha: mean_regret(make, every_round(alpha), ROUNDS, seeds[:6])["regret"] for alpha in TUNED
    }
    rivals = {
        alpha: mean_regret(make, every_round(alpha), ROUNDS, seeds)
        for alpha in sorted(first, key=first.get)[:3]
    }
    best = min(rivals, key=lambda alpha: rivals[alpha]["regret"])
    tuning = first | {alpha: row["regret"] for alpha, row in rivals.items()}
    return {"rival": rivals[best], "alpha": best, "tuning": tuning, "seeds": len(seeds)}


def against_linucb(name, make, seeds=SEEDS):
    """Mixtures without tuning, and single policies, against LinUCB that is tuned."""
    known = RIVALS.get(name)
    rival = known or tuned_linucb(make, seeds)
    rows = known["rows"] if known else {}
    for N in (5, 10, 20, 40):
        rows[f"mixture {N}"] = mean_regret(make, ls.few(deployments=N), ROUNDS, seeds)
        if not known:
            single = ls.linucb(schedule="spread", deployments=N, last="greedy")
            rows[f"single {N}"] = mean_regret(make, single, ROUNDS, seeds)
    if not known:
        rows["determinant"] = mean_regret(make, ls.linucb(), ROUNDS, seeds)
    for row in rows.values():
        row["ratio"] = row["regret"] / rival["rival"]["regret"]
    return rival | {"rounds": ROUNDS, "rows": rows}


def synthetic():
    return against_linucb("synthetic", lambda seed: problems.linear_bandit(seed=seed))


def arms():
    return against_linucb("arms", lambda seed: problems.fixed_arms(seed=seed), MANY)


def intercept():
    """Fixed arms without the intercept (rule 1) and with it, on the same problems and seeds."""
    found = {}
    for rule in (1, 2):
        algorithm = ls.few(deployments=10, rule=rule)
        found[f"rule {rule}"] = mean_regret(
            lambda seed: problems.fixed_arms(seed=seed), algorithm, ROUNDS, PAIRED
        )
    return found | {"seeds": len(PAIRED)}


def classes():
    problem = digits()
    return against_linucb("digits", lambda seed: problem)


def every_round(alpha):
    return ls.linucb(c=alpha, width="unit", schedule="every")


def inventory():
    """Ten deployments against the same with 200 fits, and greedy ones beside them."""
    problem, rows = problems.inventory(), {}
    for N in (5, 10, 20):
        algorithm = ls.linear(members=16, deployments=N)
        rows[f"mixture {N}"] = mean_regret(lambda seed: problem, algorithm, 1000, FRESH)
    every = ls.linear(members=16, schedule="episodes/5")
    often = mean_regret(lambda seed: problem, every, 1000, FRESH)
    for row in rows.values():
        row["ratio"] = row["regret"] / often["regret"]
    facts = {"optimal": problem.best, "episodes": 1000, "seeds": len(FRESH)}
    return {"rows": rows, "often": often, **facts}


def speed():
    """A million rounds on one core, and a round trip of act; the fastest, since others only add."""
    problem = problems.linear_bandit(features=20, actions=10, shared=True)
    algorithm = ls.few(deployments=20)
    ls.simulate(problem, algorithm, episodes=1000, seeds=1, threads=1)  # compiles
    million = [
        ls.simulate(problem, algorithm, episodes=1_000_000, seeds=1, threads=1) for _ in range(3)
    ]
    runs = min(million, key=lambda run: run.seconds)
    learner = ls.LinearLearner(algorithm, features=20, actions=10, episodes=1000)
    contexts = np.random.default_rng(0).normal(size=(2000, 20))
    learner.tell(contexts[:200], [0] * 200, contexts[:200, 0], off_policy=True)
    policy = learner.policy  # a mixture in the middle of a run
    trips = []
    for _ in range(5):
        begin = time.perf_counter()
        for k, x in enumerate(contexts):
            policy.act(x, k)
        trips.append((time.perf_counter() - begin) / len(contexts))
    return {
        "seconds": runs.seconds,
        "deployments": int(runs.deployments[0]),
        "act": {"microseconds": 1e6 * min(trips), "median": 1e6 * float(np.median(trips))},
    }


def control(name):
    """Three deployments in 30 episodes; the last policy then plays 10 further ones."""
    from classic import DEPLOYMENTS_AT, EPISODES, steer

    found = []
    for seed in CONTROLLED:
        found.append(KEPT.get(f"{name}, {seed}", lambda seed=seed: steer(name, seed)))
        say(f"  {name}, seed {seed}: {found[-1][0]:.1f} after {found[-1][1]:,} steps")
    means, steps = zip(*found, strict=True)
    return {
        "returns": means,
        "mean": float(np.mean(means)),
        "worst": float(np.min(means)),
        "steps": float(np.mean(steps)),
        "deployments": len(DEPLOYMENTS_AT),
        "episodes": EPISODES,
    }


def bandits():
    """Ten deployments against the best that learns after every round, before and after rule 2."""
    return of_each_problem(one_bandit)


def limits():
    """What limits ten deployments on these problems, with the rivals of the section bandits.

    `few`, the same by rule 2, with squares and products of the features, in raw units, and a
    regression that is told everything on the same dates.
    """
    return of_each_problem(one_limit)


def of_each_problem(measure):
    """What is measured on each problem, with the settings."""
    import contexts

    results = {}
    for name in contexts.PROBLEMS:
        words = f"{measure.__name__}, {name}, {JUDGED}"
        results[name] = KEPT.get(words, lambda name=name: measure(contexts, name))
        say(f"  {name}: {results[name]}")
    return {"rounds": ROUNDS, "seeds": len(JUDGED), "deployments": 10, "problems": results}


def one_bandit(contexts, name):
    """Ratios to the rival, which always has the constant feature; errors in the same unit."""
    made = {
        constant: [contexts.problem(name, ROUNDS, seed, constant=constant) for seed in JUDGED]
        for constant in (False, True)
    }
    dates = np.array(ls.parts.Spread().within(10, ROUNDS, made[True][0].shape.weights))
    rival, regret, waited = contexts.best_every_round(made[True], JUDGED, dates)
    rows = {"rival": rival, "regret": float(regret.mean()), "waiting": ratio(waited, regret)}
    for constant, rule in itertools.product((False, True), (1, 2)):
        algorithm = ls.few(deployments=10, rule=rule)
        words = f"rule {rule}, {'with' if constant else 'without'} a constant"
        rows[words] = ratio(regrets(made[constant], algorithm), regret)
    return rows


def one_limit(contexts, name):
    """Ratios to the rival of the section bandits."""
    made = [contexts.problem(name, ROUNDS, seed, constant=True) for seed in JUDGED]
    plain = [contexts.problem(name, ROUNDS, seed, constant=False) for seed in JUDGED]
    dates = np.array(ls.parts.Spread().within(10, ROUNDS, made[0].shape.weights))
    regret = contexts.runs_of(RIVALS["bandits"][name]["rival"], made, JUDGED, dates)[:, 0]
    told = np.array([contexts.full_information(one, dates) for one in made])
    form = linear_form(ls.few(deployments=10), ROUNDS)
    earlier = replace(form, estimator=replace(form.estimator, rule=2))
    raw = [contexts.in_raw_units(*one) for one in zip(plain, JUDGED, strict=True)]
    rows = {"few": (form, plain), "before": (earlier, plain), "raw": (form, raw)}
    if plain[0].shape.features < MOST_SQUARED:
        rows["squares"] = form, [contexts.with_squares(one) for one in plain]
    found = {"full information": ratio(told, regret)}
    for words, (algorithm, drawn) in rows.items():
        found[words] = ratio(regrets(drawn, algorithm), regret)
    return found


def regrets(made, algorithm):
    """The regret of an algorithm on each of these problems, with the fresh seeds."""
    runs = [
        ls.simulate(one, algorithm, episodes=ROUNDS, seeds=[seed], threads=1, progress=False)
        for one, seed in zip(made, JUDGED, strict=True)
    ]
    return np.array([float(run.regret[0]) for run in runs])


def ratio(mine, others):
    """The ratio of two mean regrets, with the standard error by the delta method."""
    quotient = mine.mean() / others.mean()
    spread = np.std(mine - quotient * others, ddof=1) / np.sqrt(len(mine)) / others.mean()
    return {"ratio": float(quotient), "error": float(spread)}


SECTIONS = {
    "CartPole": lambda: control("CartPole"),
    "shaken": lambda: control("CartPole, noise 0.5 %"),
    "MountainCar": lambda: control("MountainCar"),
    "Acrobot": lambda: control("Acrobot"),
    "synthetic": synthetic,
    "arms": arms,
    "intercept": intercept,
    "digits": classes,
    "bandits": bandits,
    "limits": limits,
    "inventory": inventory,
    "speed": speed,
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("sections", nargs="+", choices=SECTIONS)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--same-rivals", action="store_true", help="take LinUCB from the file")
    options = parser.parse_args()
    KEPT.open(options.keep)
    results = bench.read(options.json)
    RIVALS["bandits"] = results.get("bandits", {}).get("problems")
    if options.same_rivals:
        for name, section in results.items():
            if "rival" in section:
                kept = ("rival", "alpha", "tuning", "seeds", "rows")
                RIVALS[name] = {key: section[key] for key in kept if key in section}
    for name in options.sections:
        say(name)
        results[name] = SECTIONS[name]()
        RIVALS["bandits"] = results.get("bandits", {}).get("problems")
        results["run"] = bench.described()
        bench.write(options.json, results)
    if options.json is None:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
