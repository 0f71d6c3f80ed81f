"""Whether a planner stops learning on problems whose moves and rewards are certain.

    python benchmarks/stuck.py [--problems 10000] [--json docs/numbers/stuck.json]

Each problem is drawn: 2 to 8 states, 2 or 3 actions, 2 to 6 steps. One visit to a state and action
says everything of it, unless it was at the last step, which has no successor. A learner is stuck if
its policy is not optimal after as many episodes as it could need to visit everything often enough,
and a planner that spends its triggers on visits that teach nothing is. R-max runs on all problems,
with counts for each step and with pooled counts; other pooled planners, with a bonus that decides
nothing but ties, run on a tenth of them.
"""

import numpy as np

import bench
import lowswitch as ls

TINY = 1e-6  # a bonus that only says what was seen less often


def planning(bonus, schedule, **options):
    estimator = ls.parts.Planning(clip="remaining", pooled=True, **options)
    return ls.Algorithm(estimator=estimator, bonus=bonus, schedule=schedule)


RMAX = {
    f"R-max, known = {known}{', pooled' * pooled}": ls.rmax(known=known, pooled=pooled)
    for pooled in (False, True)
    for known in (1, 2)
}
OTHERS = {
    "MBIE, first visit": planning(
        ls.parts.ConfidenceIntervals(c=TINY, most_visits=1), ls.parts.EveryVisit()
    ),
    "UCBVI, every visit": planning(ls.parts.ChernoffHoeffding(c=TINY), ls.parts.EveryVisit()),
    "UCBVI, doubling": planning(ls.parts.ChernoffHoeffding(c=TINY), ls.parts.Growth(2)),
    "UCBVI, one trigger": planning(ls.parts.ChernoffHoeffding(c=TINY), ls.parts.Visits((1,))),
    "UCBVI, all counts by half": planning(
        ls.parts.ChernoffHoeffding(c=TINY), ls.parts.WholePolicy(1.5)
    ),
    "UCBVI-BF, doubling": planning(ls.parts.BernsteinFreedman(c=TINY), ls.parts.Growth(2)),
    "MVP, all data": planning(
        ls.parts.MonotonicBernstein(c=TINY), ls.parts.Growth(2), data="all", monotone=True
    ),
    "MVP, newest data": planning(
        ls.parts.MonotonicBernstein(c=TINY), ls.parts.Growth(2), data="newest", monotone=True
    ),
    "UCRL2, doubling": planning(ls.parts.L1Ball(c=TINY), ls.parts.WholePolicy(2)),
    "ORLC, doubling": planning(ls.parts.Certificates(c=TINY), ls.parts.Growth(2)),
}


def certain_problem(seed):
    """A drawn problem whose moves and rewards are certain."""
    generator = np.random.default_rng(seed)
    S, A, H = generator.integers(2, 9), generator.integers(2, 4), generator.integers(2, 7)
    transitions = np.eye(S)[generator.integers(S, size=(S, A))]
    return ls.TabularMDP(transitions, generator.random((S, A)), horizon=int(H))


def is_stuck(mdp, algorithm, visits):
    """Whether the last policy is not optimal after the episodes that `visits` of all cells take."""
    episodes = 8 + visits * mdp.horizon * mdp.states * mdp.actions
    runs = ls.simulate(mdp, algorithm, episodes=episodes, seeds=1, threads=1, progress=False)
    return bool(runs.last_value[0] < mdp.optimal_value() - 1e-9)


def count(algorithms, problems):
    """How many problems each learner is stuck on, and the first of them."""
    found = {name: [] for name in algorithms}
    for seed in range(problems):
        mdp = certain_problem(seed)
        for name, algorithm in algorithms.items():
            if is_stuck(mdp, algorithm, getattr(algorithm.bonus, "known", 4)):
                found[name].append(seed)
    return {
        name: {"problems": problems, "stuck": len(seeds), "first": seeds[:5]}
        for name, seeds in found.items()
    }


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--problems", type=int, default=10_000)
    options = parser.parse_args()
    results = count(RMAX, options.problems) | count(OTHERS, max(1, options.problems // 10))
    for name, row in results.items():
        print(f"{row['stuck']:>6} of {row['problems']:,}  {name}  {row['first'] or ''}")
    bench.write(options.json, {"run": bench.described(), "learners": results})


if __name__ == "__main__":
    main()
