"""How often bounds fail, how wide they are, and when a run may stop by them.

fails: runs on problems so small that failing is likeliest. The bounds are looked at after every
episode, for every policy there is, the deployed one among them. A run fails if any of them is wrong
at any look: a value outside its interval, an optimal value above its upper end, or a gap that is
larger than stated.

widths: five problems, with counts by step and with pooled counts: how much better than the deployed
policy an optimal one can be, by the bounds and by ORLC's own certificate (c = 1) on the same data,
and how much better it is.

stops: after how many episodes `Stop(within=eps)` ends a run.

    python benchmarks/bounds.py fails widths stops [--runs 1000] [--json docs/numbers/bounds.json]
"""

import itertools
import warnings
from typing import Any

import numpy as np

import bench
import lowswitch as ls
from evidence_families import clinic
from lowswitch.history import evaluation_of, fresh_account
from lowswitch.kernels import planning
from lowswitch.kernels.arrays import ChangeLog
from lowswitch.kernels.streams import stream_key
from lowswitch.learners import ProblemSize, knowledge_of
from lowswitch.show.progress import Progress

P = 0.05
ROUNDING = 1e-9
LOOKS = (10**3, 10**4, 10**5, 10**6)
SEEDS = 5


# ---- problems ------------------------------------------------------------------------------------


def coin(*means):
    """One step, one state, and an action for each mean."""
    transitions = np.ones((1, len(means), 1))
    return ls.TabularMDP(transitions, np.array([means]), horizon=1, reward_law="bernoulli")


def two_steps(rare, mean):
    """Two states and two steps; a rare move leads to the state that pays."""
    transitions = np.array([[[1 - rare, rare], [0.5, 0.5]], [[rare, 1 - rare], [0.5, 0.5]]])
    rewards = np.array([[1 - mean, 0.5], [mean, 0.5]])
    start = np.array([0.9, 0.1])
    return ls.TabularMDP(transitions, rewards, start=start, horizon=2, reward_law="bernoulli")


SMALL = {
    "one coin, mean 0.5": coin(0.5),
    "one coin, mean 0.99": coin(0.99),
    "two coins, means 0.02 and 0.98": coin(0.02, 0.98),
    "two states, two steps": two_steps(0.05, 0.98),
}
EPISODES = {name: 100 if "steps" in name else 300 for name in SMALL}


def one_visit():
    """The clinic of one visit: four treatments in each of twelve states."""
    means = np.random.default_rng(0).random((12, 4))
    return ls.TabularMDP(
        np.eye(12)[:, None].repeat(4, axis=1),
        means,
        start=np.full(12, 1 / 12),
        horizon=1,
        reward_law="bernoulli",
    )


LARGE = {
    "clinic of one visit": one_visit,
    "RiverSwim": lambda: ls.envs.riverswim(states=6, horizon=10),
    "random": lambda: ls.envs.random_mdp(reward_law="bernoulli"),
    "clinic": lambda: clinic(np.random.default_rng(0), S=12, A=4, H=6),
    "Garnet": lambda: ls.envs.garnet(states=12, horizon=6, reward_law="bernoulli"),
}


def learner(pooled):
    """It explores about as widely as the bounds are wide, so that these narrow everywhere."""
    return ls.ucbvi(c=0.01, pooled=pooled, schedule="growth/1.5")


# ---- runs ----------------------------------------------------------------------------------------


def run(mdp, algorithm, looks, seed):
    """The learner of one run, after each of these numbers of episodes."""
    size = ProblemSize(**mdp.size, episodes=max(looks))
    known = knowledge_of(algorithm, size, mdp.actions_allowed).fresh(seed)
    evaluation, gap = evaluation_of(mdp, known.policy().actions, wanted=False)
    marks = np.array([max(looks)])
    account = fresh_account(gap, marks)
    room = max(2**11, known.spec.timing.room)
    changes = np.zeros((room, 3 + known.members), dtype=np.int64)
    log = ChangeLog(
        False, np.zeros(1, dtype=np.int64), changes, marks, *np.zeros((2, 1), dtype=np.int64)
    )
    done = 0
    for look in looks:
        while done < look:
            done = known.play(mdp.model, evaluation, log, account, stream_key(seed), done, look)
        yield known


def value_of(mdp, policy):
    return float(mdp.policy_values(policy)[0] @ mdp.start_law)


def fails(mdp, known, policies, best):
    """Whether any bound is wrong now; policies: pairs of a table [H, S] and its value."""
    cells = known.cell_bounds(P)
    upper = cells.best(known.allowed, chosen=False)
    wrong = cells.at_start(upper) < best - ROUNDING
    for policy, value in policies:
        low, high = cells.interval(policy[None])
        gap = cells.gap(policy[None], upper)
        wrong |= not low - ROUNDING <= value <= high + ROUNDING or gap < best - value - ROUNDING
    return wrong


def share_that_fails(mdp, episodes, runs, bar):
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    tables = [np.array(flat).reshape(H, S) for flat in itertools.product(range(A), repeat=H * S)]
    policies = [(table, value_of(mdp, table)) for table in tables]
    best, failed = max(value for _, value in policies), 0
    algorithm = ls.psrl(schedule="growth/2.0")
    for seed in range(runs):
        looks = run(mdp, algorithm, range(1, episodes + 1), seed)
        failed += any(fails(mdp, known, policies, best) for known in looks)
        bar.update(seed + 1)
    return failed


def own_certificate(mdp, known):
    """ORLC's certificate at c = 1 from the same counts: upper less lower value, at the start."""
    algorithm = ls.orlc(pooled=known.spec.stride == 0, p=P)
    size = ProblemSize(**mdp.size, episodes=max(LOOKS))
    own = knowledge_of(algorithm, size, mdp.actions_allowed).fresh(0)
    counts = {name: getattr(known.tables, name) for name in ("records", "pool", "cells")}
    tables = own.tables._replace(**counts)
    tables.dirty[:] = True
    planning.plan(own.spec, tables, 0, 1.0, False)
    upper, lower = tables.values.reshape(2, mdp.horizon + 1, mdp.states)
    return float(mdp.start_law @ (upper - lower)[0])


def widths(mdp, pooled):
    """After each number of episodes: the gap by the bounds, by ORLC, and the true one."""
    found, best = [], mdp.optimal_value()
    for look, known in zip(LOOKS, run(mdp, learner(pooled), LOOKS, 0), strict=True):
        cells, policies = known.cell_bounds(P), known.policy().actions
        upper = cells.best(known.allowed, chosen=False)
        low, high = cells.interval(policies)
        found.append(
            {
                "episodes": look,
                "gap": cells.gap(policies, upper),
                "value": [low, high],
                "own": own_certificate(mdp, known),
                "true": best - value_of(mdp, policies[0]),
            }
        )
    return found


def stops(mdp, within, pooled):
    """After how many episodes runs ended, and how good their last policies are."""
    rule = ls.Stop(within=within, probability=P)
    runs = ls.simulate(mdp, learner(pooled), episodes=10**6, seeds=SEEDS, stop=rule)
    return {
        "within": within,
        "ended": sorted(runs.ended.tolist()),
        "true": float((runs.optimal_value - runs.last_value).max()),
        "deployments": float(runs.deployments.mean()),
    }


# ---- all of it -----------------------------------------------------------------------------------


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("parts", nargs="+", choices=("fails", "widths", "stops"))
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    results = bench.Results(given.json)
    warnings.simplefilter("ignore", ls.BonusWarning)
    results.keep("run", bench.described())
    results.keep("learner", [str(learner(False)), str(learner(True))])
    if "fails" in given.parts:
        failed: dict[str, Any] = {}
        for name, mdp in SMALL.items():
            with Progress(given.runs, unit="runs", label=name) as bar:
                found = share_that_fails(mdp, EPISODES[name], given.runs, bar)
            failed[name] = {"failed": found, "runs": given.runs, "episodes": EPISODES[name]}
            results.keep("fails", failed)
    if "widths" in given.parts:
        found = {}
        for name, make in LARGE.items():
            mdp = make()
            found[name] = {
                "size": [mdp.horizon, mdp.states, mdp.actions],
                "optimal": mdp.optimal_value(),
                "by step": widths(mdp, False),
                "pooled": widths(mdp, True),
            }
            results.keep("widths", found)
    if "stops" in given.parts:
        found = {}
        for name in ("clinic of one visit", "random", "clinic"):
            mdp = LARGE[name]()
            for share in (4, 10):
                eps = mdp.horizon / share
                found[f"{name}, H / {share}"] = {
                    "horizon": mdp.horizon,
                    "by step": stops(mdp, eps, False),
                    "pooled": stops(mdp, eps, True),
                }
                results.keep("stops", found)


if __name__ == "__main__":
    main()
