"""How far the evidence of proposals holds: coverage of intervals, reliability of rows, words.

A run has a protocol and a trial: at each of ten meetings the protocol becomes the exploiting policy
of all data so far, and 15 % of the cases are given to an exploring mixture of `few`. In half of the
runs the protocol at the beginning is random and was chosen by somebody; in the others nobody chose
it, and all cases before the first meeting explore. At each meeting the learner's posterior judges
the step from the old protocol to the new one, and the true tables say what it really gains.

The families are drawn anew for each seed: clinics, clinics whose laws differ by step, clinics paid
at the end, Garnets, grids, and clinics whose treatments are all equal.

    python benchmarks/judgement.py [--runs 4] [--first 0] [--json docs/numbers/judgement.json]
"""

import itertools
import json

import numpy as np

import bench
import lowswitch as ls
from lowswitch.kernels.exploitation import exploit
from lowswitch.learners.judgement import Judgement, Law
from lowswitch.ledger.evidence import words
from lowswitch.ledger.terms import THRESHOLDS
from lowswitch.show.progress import Progress

MEETINGS, CASES, SHARE, MEMBERS = 10, 200, 0.15, 16
SAME = 1e-9  # a true gain that is none
BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0)


def clinic(generator, S=10, A=3, H=5, *, steps=1, at_the_end=False, equal=False):
    """States of health: a treatment moves a patient up or down, and further up is better."""
    laws, means = np.zeros((steps, S, A, S)), np.tile((np.arange(S) / (S - 1))[:, None], A)
    for law in laws:
        helps = generator.random((S, 1 if equal else A)) * np.ones(A)
        up, down = 0.15 + 0.5 * helps, (0.6 - 0.5 * helps) * (0.85 - 0.5 * helps)
        for x in range(S):
            for move, chance in ((1, up[x]), (-1, down[x]), (0, 1 - up[x] - down[x])):
                law[x, :, min(S - 1, max(0, x + move))] += chance
    rewards = np.stack([means * (h == H - 1) for h in range(H)]) if at_the_end else means
    start = np.full(S, 1 / S)
    laws = laws if steps > 1 else laws[0]
    return ls.TabularMDP(laws, rewards, start=start, horizon=H, reward_law="bernoulli")


def grid(generator, rows=3, columns=4, H=7):
    """Steps slip, and two fields pay."""
    S, slip, moves = rows * columns, generator.uniform(0.1, 0.3), ((0, 1), (0, -1), (1, 0), (-1, 0))
    laws, means = np.zeros((S, 4, S)), np.zeros((S, 4))
    for x in range(S):
        for a in range(4):
            for m, (down, right) in enumerate(moves):
                r = min(rows - 1, max(0, x // columns + down))
                c = min(columns - 1, max(0, x % columns + right))
                laws[x, a, r * columns + c] += slip / 4 + (1 - slip) * (m == a)
    means[generator.choice(S, 2, replace=False)] = generator.random((2, 1))
    return ls.TabularMDP(laws, means, start=0, horizon=H, reward_law="bernoulli")


def garnet(generator, S=12, A=4, H=5, branching=4):
    """Archibald, McKinnon, Thomas 1995: a few random successors of each state and action."""
    laws = np.zeros((S, A, S))
    for x in range(S):
        for a in range(A):
            chosen = generator.choice(S, branching, replace=False)
            laws[x, a, chosen] = generator.dirichlet(np.ones(branching))
    start, means = np.full(S, 1 / S), generator.random((S, A))
    return ls.TabularMDP(laws, means, start=start, horizon=H, reward_law="bernoulli")


FAMILIES = {
    "clinics": clinic,
    "laws by step": lambda generator: clinic(generator, S=7, H=4, steps=4),
    "paid at the end": lambda generator: clinic(generator, S=8, at_the_end=True),
    "Garnets": garnet,
    "grids": grid,
    "all equal": lambda generator: clinic(generator, equal=True),
}


def dense(mdp):
    """The cumulated laws [H, S, A, S] and the mean rewards [H, S, A] of a problem."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    rows = np.zeros((len(mdp.offsets) - 1, S))
    for row in range(len(rows)):
        span = slice(mdp.offsets[row], mdp.offsets[row + 1])
        rows[row, mdp.successors[span]] = mdp.probabilities[span]
    laws = np.broadcast_to(rows.reshape(-1, S, A, S), (H, S, A, S))
    return laws.cumsum(axis=-1), np.broadcast_to(mdp.rewards.reshape(-1, S, A), (H, S, A))


def played(mdp, policies, generator):
    """Episodes by policies [B, H, S]."""
    (laws, means), (B, H, S) = dense(mdp), policies.shape
    states, actions, rewards = np.zeros((B, H), int), np.zeros((B, H), int), np.zeros((B, H))
    state, each = generator.choice(S, B, p=mdp.start_law), np.arange(B)
    for h in range(H):
        action = policies[each, h, state]
        states[:, h], actions[:, h] = state, action
        rewards[:, h] = generator.random(B) < means[h, state, action]
        draws = generator.random(B)[:, None]
        state = np.minimum((laws[h, state, action] < draws).sum(axis=-1), S - 1)
    return states, actions, rewards


def planned(knowledge):
    """The exploiting policy, and the members of the trial."""
    tables, shape = knowledge.tables, (MEMBERS, *knowledge.allowed.shape[:2])
    kept = tables.wanted.copy()
    exploit(knowledge.spec, tables)
    protocol = tables.wanted.reshape(shape)[0].copy()
    knowledge._plan_on_draws()
    tables.clock[0]["refreshes"] += 1
    trial = tables.wanted.reshape(shape).copy()
    tables.wanted[:] = kept
    return protocol, trial


def followed(mdp, seed):
    """Each proposal of a run: the learner, the protocol as it is and as it would be."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    generator = np.random.default_rng([seed, 1])
    chosen = None if seed % 2 else generator.integers(0, A, (H, S))
    algorithm = ls.few(deployments=MEETINGS + 1, asked=True, members=MEMBERS)
    size = {"horizon": H, "states": S, "actions": A, "episodes": MEETINGS * CASES}
    learner = ls.Learner(algorithm, **size, seed=seed, initial=chosen, gate="review")
    protocol, trial = learner.policy.copy(), generator.integers(0, A, (MEMBERS, H, S))
    for meeting in range(MEETINGS):
        share = 1.0 if meeting == 0 and chosen is None else SHARE
        inside = generator.random(CASES) < share
        policies = np.where(
            inside[:, None, None], trial[generator.integers(0, MEMBERS, CASES)], protocol
        )
        learner.tell(*played(mdp, policies, generator), off_policy=True)
        new, trial = planned(learner._knowledge)
        if (new != protocol).any():
            yield learner, protocol, new
        protocol = new


def judged(mdp, learner, old, new):
    """What the posterior says of a proposal, beside the truth: its worth, and its rows."""
    now, proposed = Law.equal(old[None]), Law.equal(new[None])
    judgement = Judgement(learner.posterior(), now, proposed, old, protocol=True)
    visits = learner.visits
    tried = {row for row in judgement.rows() if visits[*row, new[row]] > 0}
    worths = judgement.row_worths(tried=len(tried), worse=THRESHOLDS["worse"])
    of_tried = [one for one in worths if one.row in tried]
    said = words(of_tried, judgement.models(len(tried)), THRESHOLDS)
    rows = []
    for one in of_tried:
        alone = old.copy()
        alone[one.row] = new[one.row]
        gain = mdp.evaluate(alone) - mdp.evaluate(old)
        rows.append((one.better, gain, said[one.row] == "IMPROVE", one.gain.within_80))
    return judgement.worth().protocol, mdp.evaluate(new) - mdp.evaluate(old), rows


def measured(name, runs, first):
    """The proposals and rows of all runs of a family."""
    proposals, rows = [], []
    for seed in range(first, first + runs):
        mdp = FAMILIES[name](np.random.default_rng([seed, 0]))
        for learner, old, new in followed(mdp, seed):
            worth, true, found = judged(mdp, learner, old, new)
            within = [low <= true <= high for low, high in (worth.within_80, worth.within_95)]
            proposals.append((abs(true) > SAME, *within, any(row[2] for row in found)))
            rows += [row[:3] for row in found]
    return np.array(proposals, dtype=float), np.array(rows, dtype=float)


def facts(runs, proposals, rows):
    """The numbers of a family."""
    real, better, improve = np.abs(rows[:, 1]) > SAME, rows[:, 1] > SAME, rows[:, 2] > 0
    changed = proposals[proposals[:, 0] > 0]
    found = {
        "runs": runs,
        "proposals": len(proposals),
        "proposals that change nothing": int((proposals[:, 0] == 0).sum()),
        "within 80 %": _mean(changed[:, 1]),
        "within 95 %": _mean(changed[:, 2]),
        "proposals with IMPROVE": int(proposals[:, 3].sum()),
        "rows": len(rows),
        "rows that change nothing": int((~real).sum()),
        "IMPROVE": int(improve.sum()),
        "IMPROVE and better": int((improve & better).sum()),
        "expected false": _mean(1 - rows[improve, 0]),
        "truly false": _mean(~better[improve]),
    }
    bins = []
    for low, high in itertools.pairwise(BINS):
        upper = rows[:, 0] <= high if high == 1.0 else rows[:, 0] < high
        inside = real & (rows[:, 0] >= low) & upper
        stated, true = _mean(rows[inside, 0]), _mean(better[inside])
        bins.append({"from": low, "rows": int(inside.sum()), "stated": stated, "true": true})
    return found | {"reliability": bins}


def _mean(values):
    return round(float(np.mean(values)), 4) if len(values) else None


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--runs", type=int, default=4, help="of each family")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    results, found = bench.Results(options.json), {}
    with Progress(len(FAMILIES), unit="families") as bar:
        for i, name in enumerate(FAMILIES):
            found[name] = measured(name, options.runs, options.first)
            results.keep(name, facts(options.runs, *found[name]))
            bar.update(i + 1)
    different = [found[name] for name in FAMILIES if name != "all equal"]
    both = [np.concatenate(parts) for parts in zip(*different, strict=True)]
    results.keep("all that differ", facts(options.runs * len(different), *both))
    print(json.dumps(results.found["all that differ"], indent=1))


if __name__ == "__main__":
    main()
