"""How often a ledger says IMPROVE, and how often that is true.

Whole ledgers of a clinic (H = 6, S = 12, A = 4): 270 patients of three sites before each of ten
meetings, at which `few(deployments=10, asked=True)` proposes and the board approves everything. The
four treatments are exactly equal, or (--different) each helps in some of the states. The clinic and
its patients are drawn anew for each seed, 0 to RUNS - 1.

A row is truly better if the true value of the deployed mixture grows when this row alone changes.
The verdicts are counted as they were recorded, and as the older rule has them, which took a row for
better if the lower end of Hoeffding's interval was above the estimate of what is played now.

    python benchmarks/evidence.py [--different] [--runs 20] [--out docs/numbers/evidence.json]
"""

import sys
from pathlib import Path

# The concurrent.py of this folder would hide Python's own.
sys.path = [folder for folder in sys.path if folder != str(Path(__file__).resolve().parent)]

import argparse
import json
import tempfile

import numpy as np

import lowswitch as ls
from lowswitch.ledger import Ledger
from lowswitch.ledger.evidence import verdict
from lowswitch.progress import Progress
from lowswitch.reproduce.plain import play_episode

H, S, A = 6, 12, 4
MEETINGS, PATIENTS, SITES = 10, 270, ("north", "south", "east")
SAME = 1e-12  # a true gain that is rounding


def clinic(seed, different):
    """Twelve states of health: a patient moves up or down, and does well more often further up."""
    generator = np.random.default_rng(seed)
    helps = generator.random((S, A if different else 1)) * np.ones(A)
    transitions = np.zeros((S, A, S))
    for x in range(S):
        up, down = 0.1 + 0.6 * helps[x], 0.5 - 0.4 * helps[x]
        for move, chance in ((1, up), (-1, down * (1 - up)), (0, (1 - down) * (1 - up))):
            transitions[x, :, min(S - 1, max(0, x + move))] += chance
    means, start = np.tile((np.arange(S) / (S - 1))[:, None], A), np.zeros(S)
    start[2:6] = 0.25
    return ls.TabularMDP(transitions, means, start=start, horizon=H, reward_law="bernoulli")


def treat(ledger, mdp, seed, before):
    """Let the patients between two meetings be treated, `before` of whom came earlier."""
    names = [f"patient {before + i}" for i in range(PATIENTS)]
    pairs = [(SITES[i % len(SITES)], name) for i, name in enumerate(names)]
    reports = []
    for issued in ledger.ask_each(pairs):
        played = play_episode(mdp, np.array(issued.policy), seed, issued.number - 1)
        lists = (np.array(part).tolist() for part in played)
        given = dict(zip(("states", "actions", "rewards"), lists, strict=True))
        reports.append(given | {"ticket": issued.ticket})
    ledger.tell_many(reports)


def true_gain(mdp, deployed, row):
    """What a row alone adds to the true value of the deployed mixture."""
    changed = deployed.copy()
    changed[:, row["step"], row["state"]] = row["to"]
    return mdp.evaluate(changed) - mdp.evaluate(deployed)


def older(row):
    """The verdict of the older rule."""
    now, new = row["now"], row["proposed"]
    return verdict(now["estimate"], new["estimate"], new["visits"], float(H - row["step"]))


def counted(mdp, deployed, rows):
    """How many rows are there, and how many are truly better and truly worse."""
    gains = [true_gain(mdp, deployed, row) for row in rows]
    return np.array([len(rows), sum(g > SAME for g in gains), sum(g < -SAME for g in gains)])


def followed(address, seed, different):
    """Proposals of one run, their rows and those of tried actions, and what each rule says."""
    mdp = clinic(seed, different)
    size = {"horizon": H, "states": S, "actions": A, "episodes": MEETINGS * PATIENTS}
    algorithm = ls.few(deployments=MEETINGS, asked=True)
    found = {name: np.zeros(4, dtype=int) for name in ("recorded", "older rule")}
    totals = np.zeros(3, dtype=int)
    with Ledger.create(address, algorithm, **size, seed=seed) as ledger:
        for meeting in range(MEETINGS):
            treat(ledger, mdp, seed, meeting * PATIENTS)
            proposal = ledger.propose(by="secretary")
            if proposal is None:
                continue
            tried = sum(row.get("untried") == [] for row in proposal.rows)
            totals += 1, len(proposal.rows), tried
            for name, rule in (("recorded", lambda row: row["verdict"]), ("older rule", older)):
                improved = [row for row in proposal.rows if rule(row) == "IMPROVE"]
                found[name][0] += len(improved) > 0
                found[name][1:] += counted(mdp, ledger.policy, improved)
            ledger.approve(proposal, by="board", reason=f"meeting {meeting + 1}")
        assert ledger.verify(progress=False).whole
    return totals, found


def measured(runs, different):
    """The sums over all runs."""
    results = []
    with tempfile.TemporaryDirectory() as folder, Progress(runs, unit="runs") as bar:
        for seed in range(runs):
            results.append(followed(Path(folder) / f"{seed}.db", seed, different))
            bar.update(seed + 1)
    totals, found = zip(*results, strict=True)
    names = ("proposals", "rows", "rows of tried actions")
    facts = {"runs": runs, "patients": MEETINGS * PATIENTS} | dict(
        zip(names, np.sum(totals, axis=0).tolist(), strict=True)
    )
    for name in ("recorded", "older rule"):
        table = np.array([one[name] for one in found])  # [runs, 4]
        shown, improved, better, worse = table.sum(axis=0).tolist()
        facts[name] = {
            "runs with IMPROVE": int((table[:, 1] > 0).sum()),
            "proposals with IMPROVE": shown,
            "rows with IMPROVE": improved,
            "truly better": better,
            "truly worse": worse,
        }
    return facts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--different", action="store_true", help="the treatments differ")
    parser.add_argument("--out", type=Path, help="a JSON file; what is not measured stays in it")
    options = parser.parse_args()
    facts = measured(options.runs, options.different)
    name = "different" if options.different else "equal"
    print(json.dumps({name: facts}, indent=1))
    if options.out:
        before = json.loads(options.out.read_text()) if options.out.exists() else {}
        options.out.write_text(json.dumps(before | {name: facts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
