"""ACTG 175, a randomised trial of four HIV treatments, replayed as a board would have run it.

    python benchmarks/linear/trial.py --json docs/numbers/trial.json

The data are in the wheel of lifelines 0.30.3, `pip install --no-deps lifelines==0.30.3`, and only
its file is read. Two thirds of the patients are the stream from which `few` learns by replay, the
others judge its last policy. Features, outcome, shares and splits were fixed before the first run,
but after a look at the mean outcome of each arm.
The replay that is blind to the features was added after its result was seen.
"""

import csv
import importlib.util
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import bench
import lowswitch as ls
from lowswitch.evaluation import Log, replay

ARMS = ("ZDV", "ZDV + ddI", "ZDV + zalcitabine", "ddI")
FEATURES = ("age", "wtkg", "karnof", "z30", "symptom", "cd40", "cd80")
SPLITS = 200
LOOKS = 10


def patients():
    """Features [n, 7], arms [n], and CD4 cells gained in 20 weeks, in hundreds [n]."""
    folder = Path(importlib.util.find_spec("lifelines").origin).parent
    with open(folder / "datasets" / "ACTG175.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    x = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    gained = np.array([(float(row["cd420"]) - float(row["cd40"])) / 100 for row in rows])
    return x, np.array([int(row["arms"]) for row in rows]), gained


def fixed(arm, features):
    """The policy that gives everybody one arm."""
    weights = np.zeros((1, features + 1, len(ARMS), 1))
    weights[0, -1, arm] = 1
    shape = ls.Learner(ls.few(deployments=1), features=features, actions=4, episodes=9).shape
    return ls.LinearPolicy(shape, weights, np.uint64(0))


def split(seed, *, blind=False):
    """The stream, in a random order, and the patients who judge; features standardised by both.

    blind: all features are 0, so that only the intercepts of the arms are learned.
    """
    x, arms, gained = patients()
    order = np.random.default_rng(seed).permutation(len(x))
    x = ls.features.standardised(x, constant=False)(x) * (not blind)
    even = np.full(len(x), 1 / len(ARMS))
    cut = 2 * len(x) // 3
    return [Log(x[i], arms[i], gained[i], even[i]) for i in (order[:cut], order[cut:])]


def run(seed, *, blind=False):
    """The looks of a replay whose board approves everything, and the last policy."""
    stream, judges = split(seed, blind=blind)
    episodes = len(stream.actions) // len(ARMS)
    size = {"features": len(FEATURES), "actions": len(ARMS), "episodes": episodes}
    learner = ls.Learner(ls.few(deployments=LOOKS), **size, gate="review", seed=seed)
    looks, told = [], []
    for place in replay(learner, stream):
        told.append(place)
        proposal = learner.proposal()
        if proposal is not None:
            looks.append(look(proposal, stream, told, learner))
            learner.approve(proposal)
    return looks, learner, stream, judges, told


def look(proposal, stream, told, learner):
    """What a board sees: patients so far by arm, their mean outcome, and what would change."""
    arms, gained = stream.actions[told], stream.rewards[told]
    shares = proposal.policy.propensities(stream.contexts[told]).mean(axis=0)
    return {
        "patients": len(told),
        "arms": np.bincount(arms, minlength=len(ARMS)).tolist(),
        "gained": round(float(gained.mean()), 3),
        "changed": round(proposal.changed, 3),
        "proposed": [round(float(share), 3) for share in shares],
    }


def judged(policy, judges):
    """The value of a policy by the randomisation's own propensities, in CD4 cells."""
    found = ls.evaluate(policy, judges)
    numbers = {
        name: [round(100 * number, 1) for number in getattr(found, name)]
        for name in ("ips", "snips", "dr")
    }
    return numbers | {"effective": round(found.effective), "reliable": found.reliable}


def main():
    options = bench.parser(__doc__).parse_args()
    results = bench.Results(options.json)
    looks, learner, stream, judges, told = run(0)
    last = learner.policy.propensities(judges.contexts).mean(axis=0)
    everybody = {name: judged(fixed(arm, len(FEATURES)), judges) for arm, name in enumerate(ARMS)}
    results.keep(
        "run",
        {
            "setting": bench.described(f"{SPLITS} splits"),
            "stream": len(stream.actions),
            "told": len(told),
            "judges": len(judges.actions),
            "looks": looks,
            "last": [round(float(share), 3) for share in last],
            "policy": judged(learner.policy, judges),
            "everybody": everybody,
        },
    )
    found = []
    for seed in range(1, SPLITS + 1):
        _, learner, _, judges, told = run(seed)
        blind = run(seed, blind=True)[1].policy  # which plays one arm, whatever the features are
        arm = blind.act(np.zeros(len(FEATURES)), 0).action
        policies = [learner.policy, *(fixed(one, len(FEATURES)) for one in (arm, 1, 0))]
        values = [100 * ls.evaluate(policy, judges).dr.value for policy in policies]
        gained = 100 * float(judges.rewards.mean())
        share = float(learner.policy.propensities(judges.contexts)[:, 1].mean())
        found.append([*values, gained, share, len(told)])
    means, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    names = ("policy", "blind", "combination", "ZDV", "randomised", "share", "told")
    better = np.mean([one[0] > one[2] for one in found])
    results.keep(
        "splits",
        {name: [float(m), float(s)] for name, m, s in zip(names, means, spread, strict=True)}
        | {"splits": SPLITS, "better than the combination": float(better)},
    )


if __name__ == "__main__":
    main()
