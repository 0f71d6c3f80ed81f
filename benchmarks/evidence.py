"""How far the evidence of a ledger holds: its words, its probabilities and its intervals.

Whole ledgers of patients from three sites, with five to eight meetings at which `few` proposes. The
problem and its patients are drawn anew for each seed, from the families of `evidence_families.py`:
those on which nothing was chosen, or with --set those on which a rule was. In every second run a
policy is the protocol at the beginning, and a share of the patients is in a trial; in the others
all patients explore. The policy is random, unless the family says otherwise.

In every second pair of runs the board approves everything. In the others 3 % of the reports are
missing at random, many come after the meeting, two rows are rejected at the second meeting, one
action is vetoed at the third, and the fourth deployment is rolled back.

A row is truly better if the true value of the deployed policy (or of the protocol, if there is one)
grows when this row alone changes. The words are those that were recorded, and those of the two
older rules. How often the intervals of rule 7 would cover is told beside, on the same proposals.

    python benchmarks/evidence.py [--set first] [--runs 4] [--first 0] [--family wards]
        [--kept FOLDER] [--json docs/numbers/evidence.json]
"""

import dataclasses
import itertools
import json
import tempfile
from pathlib import Path

import numpy as np

import bench
import lowswitch as ls
from evidence_families import EQUAL, SETS, tables
from lowswitch.learners.judgement import Judgement
from lowswitch.learners.posterior import models_for
from lowswitch.ledger import Ledger
from lowswitch.ledger.evidence import improved, verdict
from lowswitch.review.proposals import ProposedRow

SITES = "north", "south", "east"
SAME = 1e-9  # a smaller true gain is none
BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0)
BEFORE = 7  # the rule that the newest one is compared with
RULES = ("recorded", "rule 2", "rule 1")
FAMILIES = {name: family for some in SETS.values() for name, family in some.items()}


# ---- the truth -----------------------------------------------------------------------------------


def true_gains(mdp, now, new):
    """What each row alone adds to the mean value of policies [L, H, S], and what all rows add."""
    (laws, means), (L, H, S) = tables(mdp), now.shape
    each, states = np.arange(L)[:, None], np.arange(S)
    gaps, values = np.zeros((H, L, S)), np.zeros((L, S))
    for h in range(H - 1, -1, -1):
        q = means[h] + np.einsum("xay,ly->lxa", laws[h], values)
        values = q[each, states, now[:, h]]
        gaps[h] = q[each, states, new[:, h]] - values
    reach, gains = np.tile(mdp.start_law, (L, 1)), np.zeros((H, S))
    for h in range(H):
        gains[h] = (reach * gaps[h]).mean(axis=0)
        reach = np.einsum("lx,lxy->ly", reach, laws[h][states, now[:, h]])
    return gains, mdp.evaluate(new) - mdp.evaluate(now)


# ---- one run -------------------------------------------------------------------------------------


def episode(mdp, laws, means, policy, generator, reward):
    """One patient, by a policy [H, S]; `laws` are cumulated."""
    uniforms = generator.random((len(policy), 2)).tolist()
    x, found = int(generator.choice(mdp.states, p=mdp.start_law)), {"states": [], "actions": []}
    rewards = found["rewards"] = []
    for h, (paid, moved) in enumerate(uniforms):
        a = int(policy[h][x])
        found["states"].append(x)
        found["actions"].append(a)
        rewards.append(reward(means[h, x, a], paid))
        x = min(int(np.searchsorted(laws[h, x, a], moved)), mdp.states - 1)
    return found


def treat(ledger, mdp, family, meeting, generator, disturbed):
    """Let the patients before a meeting be treated; return the reports that come after it."""
    before, patients = sum(family.patients[:meeting]), family.patients[meeting]
    pairs = [(SITES[i % len(SITES)], f"patient {before + i}") for i in range(patients)]
    reports, late, (laws, means) = [], [], tables(mdp)
    laws = laws.cumsum(axis=-1)
    for i, issued in enumerate(ledger.ask_each(pairs)):
        given = episode(mdp, laws, means, issued.policy, generator, family.reward)
        dice = generator.random() if disturbed else 1.0
        if dice < 0.03:
            ledger.missing(issued.ticket, "lost", by="office")
        else:
            slow = dice < 0.5 and i >= 0.85 * patients
            (late if slow else reports).append(given | {"ticket": issued.ticket})
    ledger.tell_many(reports)
    return late


def older(ledger, rows):
    """The rows that are IMPROVE by rule 2, and by rule 1."""
    learner, H = ledger._ready().learner, ledger.policy.shape[1]
    tried = [
        ProposedRow(row["step"], row["state"], tuple(row["from"]), tuple(row["to"]))
        for row in sorted(rows, key=lambda row: (row["step"], row["state"]))
        if not {*row["to"]} & {int(a) for a in row["tries"] if row["tries"][a]["here"] == 0}
    ]
    policies = learner.deployed.actions
    chances = learner.posterior().probabilities(policies, tried).tolist() if tried else []
    named = {row.row: chance for row, chance in zip(tried, chances, strict=True)}
    by_interval = {
        (row["step"], row["state"])
        for row in rows
        if verdict(
            row["now"]["estimate"],
            row["proposed"]["estimate"],
            row["proposed"]["visits"],
            float(H - row["step"]),
        )
        == "IMPROVE"
    }
    return improved(named, models_for(policies, len(tried))), by_interval


def judged(ledger, mdp, proposal):
    """What a proposal says, beside the truth: of the whole, and of rows with tried actions."""
    deployed = ledger._ready().learner.deployed
    now, judges = deployed.actions, slice(0, 1) if deployed.has_protocol else slice(None)
    new = now.copy()
    for row in proposal.rows:
        new[:, row["step"], row["state"]] = row["to"]
    gains, _ = true_gains(mdp, now[judges], new[judges])
    _, change = true_gains(mdp, now, new)
    by_model, by_interval = older(ledger, proposal.rows)
    rows = []
    for row in proposal.rows:
        place = row["step"], row["state"]
        if row["verdict"] in ("TRIAL", "UNTRIED"):
            continue
        true, stated = float(gains[place]), row["gain"]
        within = [low <= true <= high for low, high in (stated["within_80"], stated["within_95"])]
        words = row["verdict"] == "IMPROVE", place in by_model, place in by_interval
        rows.append([row["probability"], true, *within, *words])
    stated = proposal.worth["change"]
    within = [low <= change <= high for low, high in (stated["within_80"], stated["within_95"])]
    before = within_by(ledger._ready().lessons.found.judgement, BEFORE, change)
    return {"change": change, "within": within, "before": before, "rows": rows}


def within_by(judgement, rule, change):
    """Whether the intervals of another rule cover the change."""
    known = dataclasses.replace(judgement.posterior, rule=rule)
    laws = judgement.now, judgement.proposed, judgement.initial
    stated = Judgement(known, *laws, protocol=judgement.protocol).worth().change
    return [low <= change <= high for low, high in (stated.within_80, stated.within_95)]


def decided(ledger, proposal, meeting, disturbed):
    """What the board does with a proposal; a word for it that is not approved as a whole."""
    rows = [(row["step"], row["state"]) for row in proposal.rows]
    if disturbed and meeting == 1 and len(rows) > 2:
        ledger.reject(proposal, rows=rows[:2], by="board", reason="more data first")
        proposal = ledger.proposal()
    if disturbed and meeting == 2:
        new = [row for row in proposal.rows if {*row["to"]} - {*row["from"]}]
        if new and len(rows) > 1:
            chosen = [(new[0]["step"], new[0]["state"])]
            veto = {"forever": True, "actions": [min({*new[0]["to"]} - {*new[0]["from"]})]}
            ledger.reject(proposal, rows=chosen, by="board", reason="interaction", **veto)
            proposal = ledger.proposal()
    if proposal is not None:
        ledger.approve(proposal, by="board", reason=f"meeting {meeting + 1}")
    if disturbed and meeting == 3:
        ledger.rollback(ledger.version - 1, by="office", reason="adverse events")


def in_use(mdp, usual, generator):
    """The policy [H, S] before the run, by its word in `Family`."""
    shape = mdp.horizon, mdp.states
    other = generator.integers(0, mdp.actions, shape) if usual in ("drawn", "nearly") else None
    if usual == "drawn":
        return other
    if usual == "nearly":
        return np.where(generator.random(shape) < 0.15, other, mdp.optimal_policy)
    return mdp.optimal_policy if usual == "best" else np.zeros(shape, dtype=int)


def followed(address, name, seed):
    """All proposals of one run."""
    generator = np.random.default_rng([seed, 7])
    family, disturbed, found = FAMILIES[name], seed % 4 >= 2, []
    mdp, meetings = family.make(np.random.default_rng([seed, 6])), len(family.patients)
    given = seed % 2 or family.usual != "drawn"
    policy = in_use(mdp, family.usual, generator) if given else None
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    trial = "auto" if seed % 2 else None
    algorithm = ls.few(deployments=meetings + 3, asked=True, members=family.members, trial=trial)
    late, size["episodes"] = [], sum(family.patients)
    with Ledger.create(address, algorithm, **size, seed=seed, policy=policy) as ledger:
        for meeting in range(meetings):
            ledger.tell_many(late)
            late = treat(ledger, mdp, family, meeting, generator, disturbed)
            proposal = ledger.propose(by="secretary")
            if proposal is not None and proposal.worth is not None:
                facts = {"meeting": meeting, "disturbed": disturbed, "protocol": seed % 2}
                found.append(facts | judged(ledger, mdp, proposal))
                decided(ledger, proposal, meeting, disturbed)
        if seed % 20 == 0:
            assert ledger.verify(progress=False).whole
    return found


# ---- all runs ------------------------------------------------------------------------------------


def measured(name, runs, first, folder, follow):
    """The proposals of all runs of a family, each with its run; `folder` has those of before."""
    found = []
    Path(folder).mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + runs):
        path = Path(folder) / f"{name} {seed}.json"
        if not path.exists():
            with tempfile.TemporaryDirectory() as place:
                made = follow(Path(place) / "run.db", name, seed)
            path.write_text(json.dumps(made, default=float), encoding="utf-8")
        proposals = json.loads(path.read_text(encoding="utf-8"))
        found += [one | {"run": f"{name} {seed}"} for one in proposals]
    return found


def rows_of(proposals):
    """All rows, as columns: probability, true gain, within 80 % and 95 %, IMPROVE by each rule."""
    rows = [row for one in proposals for row in one["rows"]]
    return np.array(rows, dtype=float).reshape(-1, 7)


def runs_of(proposals):
    """The run of each row."""
    names = [one["run"] for one in proposals for _ in one["rows"]]
    return np.unique(names, return_inverse=True)[1] if names else np.zeros(0, dtype=int)


def of_words(proposals, rules):
    """How often each rule says IMPROVE, and how often that is true."""
    rows, shown = rows_of(proposals), [rows_of([one]) for one in proposals]
    facts = {
        "runs": len({one["run"] for one in proposals}),
        "proposals": len(proposals),
        "rows": len(rows),
    }
    for rule, column in zip(rules, (4, 5, 6), strict=False):
        said = rows[:, column] > 0
        pairs = zip(proposals, shown, strict=True)
        with_any = [one["run"] for one, part in pairs if part[:, column].any()]
        facts[rule] = {
            "runs with IMPROVE": len(set(with_any)),
            "proposals with IMPROVE": len(with_any),
            "rows with IMPROVE": int(said.sum()),
            "truly better": int((rows[said, 1] > SAME).sum()),
            "truly worse": int((rows[said, 1] < -SAME).sum()),
        }
    said = rows[:, 4] > 0
    facts["stated false"] = _mean(1 - rows[said, 0])
    facts["truly false"] = _mean(rows[said, 1] <= SAME)
    facts["truly better of all rows"] = int((rows[:, 1] > SAME).sum())
    return facts


def of_intervals(proposals):
    """How often intervals cover, of proposals and of rows that change something."""
    whole = np.array([one["within"] for one in proposals if abs(one["change"]) > SAME])
    rows = rows_of(proposals)
    rows = rows[np.abs(rows[:, 1]) > SAME]
    return {
        "proposals": len(whole),
        "proposals within 80 %": _mean(whole[:, 0]) if len(whole) else None,
        "proposals within 95 %": _mean(whole[:, 1]) if len(whole) else None,
        "rows": len(rows),
        "rows within 80 %": _mean(rows[:, 2]),
        "rows within 95 %": _mean(rows[:, 3]),
    }


def reliability(proposals, draws=2000):
    """Stated and true frequencies of better rows, with a bootstrap over runs, for each bin."""
    rows, runs = rows_of(proposals), runs_of(proposals)
    real, generator = np.abs(rows[:, 1]) > SAME, np.random.default_rng(0)
    bins = []
    for low, high in itertools.pairwise(BINS):
        upper = rows[:, 0] <= high if high == 1.0 else rows[:, 0] < high
        inside = real & (rows[:, 0] >= low) & upper
        better, names = rows[inside, 1] > SAME, runs[inside]
        facts = {"from": low, "to": high, "rows": int(inside.sum())}
        facts["runs"] = len(np.unique(names))
        facts |= {"stated": _mean(rows[inside, 0]), "true": _mean(better), "interval": None}
        if facts["runs"] >= 10:
            count, good = np.bincount(names), np.bincount(names, weights=better)
            count, good = count[count > 0], good[count > 0]
            chosen = generator.integers(0, len(count), (draws, len(count)))
            shares = good[chosen].sum(axis=1) / count[chosen].sum(axis=1)
            facts["interval"] = np.round(np.quantile(shares, (0.025, 0.975)), 4).tolist()
        bins.append(facts)
    return {"rows": int(real.sum()), "rows that change nothing": int((~real).sum()), "bins": bins}


PARTS = {
    "first meeting": lambda one: one["meeting"] == 0,
    "early, all approved": lambda one: not one["disturbed"] and one["meeting"] < 3,
    "late, all approved": lambda one: not one["disturbed"] and one["meeting"] >= 3,
    "late and missing reports": lambda one: one["disturbed"],
    "after a rejection": lambda one: one["disturbed"] and one["meeting"] >= 2,
    "after a veto": lambda one: one["disturbed"] and one["meeting"] >= 3,
    "after a rollback": lambda one: one["disturbed"] and one["meeting"] >= 4,
    "with a protocol": lambda one: one["protocol"] == 1,
    "without a protocol": lambda one: one["protocol"] == 0,
}


def before(found):
    """How often the intervals of the rule before cover, of each family and of first meetings."""
    found = {name: some for name, some in found.items() if not name.startswith(EQUAL)}
    every = [one for some in found.values() for one in some]
    kinds = found | {"all": every, "first meeting": [one for one in every if one["meeting"] == 0]}
    return {
        name: of_intervals([one | {"within": one["before"], "rows": []} for one in some])
        for name, some in kinds.items()
    }


def _mean(values):
    return round(float(np.mean(values)), 4) if len(values) else None


def told(families, follow, rules, options, setting):
    """Run ledgers of all families, and tell what is found."""
    results, found = bench.Results(options.json), {}
    results.keep("setting", setting | {"runs of each": options.runs, "first seed": options.first})

    def shown(some):
        return of_words(some, rules) | {"intervals": of_intervals(some)}

    with tempfile.TemporaryDirectory() as place:
        for name in options.family or families:
            runs = name, options.runs, options.first, options.kept or place
            found[name] = measured(*runs, follow)
            results.keep(name, shown(found[name]))
    equal, differ = [], []
    for name, proposals in found.items():
        (equal if name.startswith(EQUAL) else differ).extend(proposals)
    if equal:
        results.keep("equal", shown(equal))
    if differ:
        results.keep("different", shown(differ))
        if all("before" in one for one in differ):
            results.keep("before", before(found))
        results.keep("reliability", reliability(differ))
        parts = {part: [one for one in differ if belongs(one)] for part, belongs in PARTS.items()}
        found = {
            part: of_intervals(some) | {"reliability": reliability(some)}
            for part, some in parts.items()
        }
        results.keep("parts", found)


def parser(doc, families):
    """The options of a benchmark that runs ledgers on families of problems."""
    made = bench.parser(doc)
    made.add_argument("--runs", type=int, default=4, help="of each family")
    made.add_argument("--first", type=int, default=0, help="the first seed")
    made.add_argument("--family", choices=families, action="append", help="instead of all")
    made.add_argument("--kept", metavar="FOLDER", help="keep each run there, and go on later")
    return made


def main():
    options = parser(__doc__, FAMILIES)
    options.add_argument("--set", choices=SETS, default="reported", help="of families")
    options = options.parse_args()
    families = SETS[options.set]
    patients = {name: family.patients for name, family in families.items()}
    told(families, followed, RULES, options, {"patients": patients})


if __name__ == "__main__":
    main()
