"""How many machines a run can use, and how mistakes grow as eps shrinks.

    python benchmarks/knee.py [--workers N] [--minutes M] --json docs/numbers/knee.json

The knee is the largest number of machines whose speed-up is at least half of it, until the uniform
mixture of all policies is eps-optimal (`lowswitch.reproduce.knee`). Its exponent in 1 / eps is
fitted on each instance separately, and the interval is Student's over the instances. Mistakes are
counted as in section 4 of the paper, and only eps at which the counts of both learners have settled
are used. The file keeps finished instances beside itself, and the same call resumes.
"""

import json
import warnings
from pathlib import Path

import numpy as np

import bench
import lowswitch as ls
from lowswitch import envs
from lowswitch.reproduce.knee import knees
from lowswitch.reproduce.mistakes import count, play
from lowswitch.reproduce.reach import slopes_of
from lowswitch.show.report import half_width
from lowswitch.theory import linear_machines_order

INSTANCES = 20
SHARES = tuple(0.5 / 2**step for step in range(7))  # eps over V*
MACHINES = (1, 10, 100)
RANDOM = "random-mdp:states=5,actions=3,horizon=5,seed={}"
# the text of the problem, the seed of its first instance, the episodes, the scale, and H
PLACES = {
    "one state, H = 2": ("random-mdp:states=1,actions=2,horizon=2,seed={}", 100, 10**7, "proof", 2),
    "one state, H = 3": ("random-mdp:states=1,actions=2,horizon=3,seed={}", 100, 10**7, "proof", 3),
    "random (5, 3, 5)": (RANDOM, 1_000, 10**6, "practical", 5),
}
LEARNERS = {
    ("ucb2-h", "proof"): ls.ucb2_hoeffding(c=1.0),
    ("ucb2-b", "proof"): ls.ucb2_bernstein(c1=1.0, c2=2.0),
    ("ucb2-h", "practical"): ls.ucb2_hoeffding(c=0.05),
    ("ucb2-b", "practical"): ls.ucb2_bernstein(c=0.05),
}
LAWS = ("deterministic", "bernoulli")
COUNTED = {"ucb2-h": LEARNERS["ucb2-h", "practical"], "ucb2-b": LEARNERS["ucb2-b", "practical"]}
CMBIE = 0.05  # its scale
MISTAKEN_EPISODES = 10**6


def work(unit):
    """One unit: the knees of one instance, or its mistakes on some machines."""
    warnings.simplefilter("ignore")
    kind, *words = unit.split("/")
    return knees_of(*words) if kind == "knee" else mistakes_of(*words)


def knees_of(place, law, learner, instance):
    text, first, episodes, scale, _ = PLACES[place]
    mdp = envs.make(f"{text.format(first + int(instance))},reward_law={law}")
    runs = ls.simulate(
        mdp, LEARNERS[learner, scale], episodes=episodes, seeds=1, history=True, progress=False
    )
    found = knees(runs)
    return {
        "eps": found.eps.tolist(),
        "episodes": found.episodes[:, 0].tolist(),
        "machines": found.machines[:, 0].tolist(),
        "exponent": float(found.exponents[0]),
    }


def mistakes_of(law, machines, instance):
    mdp = envs.make(f"{RANDOM.format(1_000 + int(instance))},reward_law={law}")
    counts = {
        name: count(mdp, play(mdp, learner, MISTAKEN_EPISODES, int(machines)), SHARES)
        for name, learner in {**COUNTED, "cmbie": CMBIE}.items()
    }
    found = {}
    for name in COUNTED:
        settled, (own, other, ratio) = slopes_of(counts[name], counts["cmbie"], SHARES)
        found[name] = {"settled": settled, "own": own, "cmbie": other, "ratio": ratio}
    return found


def units():
    """All units of work, the longest first."""
    for machines in MACHINES:
        for law in LAWS:
            yield from (f"mistakes/{law}/{machines}/{i}" for i in range(INSTANCES))
    for place in PLACES:
        for law in LAWS:
            for learner in ("ucb2-h", "ucb2-b"):
                yield from (f"knee/{place}/{law}/{learner}/{i}" for i in range(INSTANCES))


def summed(known):
    """The exponents of each kind of unit over its instances."""
    groups = {}
    for unit, found in known.items():
        groups.setdefault(unit.rpartition("/")[0], []).append(found)
    results = []
    for group, every in groups.items():
        kind, *words = group.split("/")
        if kind == "knee":
            place, law, learner = words
            row = {"kind": kind, "place": place, "law": law, "learner": learner}
            scale, H = PLACES[place][3:]
            row |= {"scale": scale, "instances": len(every), **spread(every, "exponent")}
            last = [(one["eps"][-1], one["machines"][-1]) for one in every if one["eps"]]
            bonus = "H" if learner == "ucb2-h" else "B"
            shares = [M / linear_machines_order(H=H, eps=eps, bonus=bonus) for eps, M in last]
            row["machines"] = [min(M for _, M in last), max(M for _, M in last)]
            results.append(row | {"of order": [min(shares), max(shares)]})
        else:
            law, machines = words
            for learner in COUNTED:
                each = [one[learner] for one in every]
                row = {"kind": kind, "law": law, "machines": int(machines), "learner": learner}
                row |= {"instances": len(each)}
                results.append(
                    row | {name: spread(each, name) for name in ("own", "cmbie", "ratio")}
                )
    return results


def spread(every, name):
    """The mean of what is known, half of its 95 % interval, and of how many it is known."""
    values = np.array([one[name] for one in every if not np.isnan(one[name])])
    if len(values) < 3:
        return {"fitted": len(values), "mean": None, "half": None}
    return {"fitted": len(values), "mean": float(values.mean()), "half": half_width(values)}


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    path = options.json or Path("knee.json")
    beside = path.with_suffix(".parts.json")
    known = bench.finish(beside, work, list(units()), options.minutes, options.workers)
    setting = {"instances": INSTANCES, "shares": SHARES, "episodes": MISTAKEN_EPISODES}
    results = summed({unit: known[unit] for unit in units() if unit in known})
    bench.write(path, {"run": bench.described(), "setting": setting, "results": results})
    for row in results:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
