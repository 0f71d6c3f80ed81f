"""Whether a floor holds if a board approves only parts of proposals: whole ledgers.

    python benchmarks/few/floor.py [--seeds 2] [--json FILE]

The ten problems of `trial.py`, from the optimal policy, one with 15 % wrong rows, and a random one;
eight meetings in 400 episodes, and a floor of 0.9. The share of the trial is that of `few`, or as
large as the floor allows. At each meeting the board does one of these at random: it approves the
whole proposal, half of its rows, the protocol alone or the trial alone, or it rejects half of the
rows and approves the rest. Half of the proposals are decided 20 episodes later than they were made.
If the ledger refuses and names a smaller share, the board takes that; otherwise it rejects.

For comparison, the same boards with the check of approvals switched off. Results in FILE are not
computed again. A deployment is below the
floor if its true mean value over all cases is, and `counted` says the same if cases in the trial
earn nothing, as the check counts them.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where bench is

import numpy as np
from trial import FLOOR, INITIAL, initial_policy, problems

import bench
from lowswitch import TabularMDP, few
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.writer import Writer
from lowswitch.policy.tables import departing
from lowswitch.reproduce.pseudocode import play_episode

EPISODES, MEETINGS, LATER, MEMBERS = 400, 8, 20, 16
SHARES = {"auto": "auto", "largest": 1.0}
WAYS = "whole", "rows", "protocol", "trial", "rest"
WHO = {"by": "board", "reason": "a meeting"}


def play(ledger: Ledger, mdp: TabularMDP, seed: int, until: int) -> None:
    """Treat patients until this many were treated."""
    for number in range(ledger.status().issued, until):
        ticket = ledger.ask("clinic", f"patient {number}")
        ledger.tell(ticket.ticket, *play_episode(mdp, np.array(ticket.policy), seed, number))


def decided(ledger: Ledger, way: str, generator: np.random.Generator) -> str:
    """What became of the pending proposal: it was approved, made smaller, or rejected."""
    proposal = ledger.proposal()
    assert proposal is not None
    rows = [(row["step"], row["state"]) for row in proposal.rows]
    some = [rows[i] for i in generator.permutation(len(rows))[: len(rows) // 2]]
    how: dict[str, Any] = {"part": way} if way in ("protocol", "trial") else {}
    if way == "rows" and some:
        how["rows"] = some
    if way == "rest" and some:
        ledger.reject(proposal, rows=some, **WHO)
        proposal = ledger.proposal()
        if proposal is None:
            return "rejected"
    try:
        ledger.approve(proposal, **how, **WHO)
        return "approved"
    except LedgerError as error:
        _, named, share = str(error).partition("share=")
        if named:
            ledger.approve(proposal, **how, share=float(share.split()[0]), **WHO)
            return "made smaller"
        ledger.reject(proposal, **WHO)
        return "rejected" if "floor" in str(error) else "no change"


def run(mdp: TabularMDP, kind: str, share: Any, seed: int) -> list[tuple[str, str, bool, bool]]:
    """Each decision: the way, what became of it, and whether the deployment is below the floor."""
    generator, found = np.random.default_rng([seed, 48]), []
    policy = initial_policy(mdp, kind)
    assert policy is not None
    least = FLOOR * float(mdp.evaluate(policy)) - 1e-12
    size = {"horizon": mdp.horizon, "states": mdp.states, "actions": mdp.actions}
    algorithm = few(deployments=MEETINGS, asked=True, floor=FLOOR, members=MEMBERS, trial=share)
    with tempfile.TemporaryDirectory() as place:
        address = Path(place) / "run.db"
        with Ledger.create(address, algorithm, **size, episodes=EPISODES, policy=policy) as ledger:
            for meeting in range(1, MEETINGS + 1):
                after = int(0.9 * EPISODES * meeting / MEETINGS)
                play(ledger, mdp, seed, after - LATER)
                made = ledger.propose(by="secretary")
                way = str(generator.choice(WAYS))
                if generator.random() < 0.5:
                    play(ledger, mdp, seed, after)
                if made is None:
                    continue
                word = decided(ledger, way, generator)
                law = ledger.policy
                below = float(mdp.evaluate(law)) < least  # of all members, on average
                outside = 1 - float(departing(law).mean())
                counted = outside * float(mdp.evaluate(law[0])) < least
                found.append((way, word, below, counted))
    return found


def measured(share: Any, seeds: int) -> dict[str, Any]:
    """All runs with one kind of share."""
    words, below, counted = Counter[str](), 0, 0
    for mdp in problems().values():
        for kind in INITIAL[:3]:
            for seed in range(seeds):
                for way, word, *beneath in run(mdp, kind, share, seed):
                    words[f"{way}: {word}"] += 1
                    if word in ("approved", "made smaller"):
                        below, counted = below + beneath[0], counted + beneath[1]
    deployed = sum(n for name, n in words.items() if name.endswith(("approved", "smaller")))
    facts = {"deployments": deployed, "below": below, "counted": counted}
    return facts | {"decisions": dict(sorted(words.items()))}


def main() -> None:
    parser = bench.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    results = bench.Results(options.json)
    results.keep("setting", {"seeds": options.seeds, "episodes": EPISODES, "meetings": MEETINGS})
    for name, share in SHARES.items():
        if name not in results.found:
            results.keep(name, measured(share, options.seeds))
    for name, share in SHARES.items():
        if f"{name}, not checked" not in results.found:
            with mock.patch.object(Writer, "require_floor", return_value=None):
                results.keep(f"{name}, not checked", measured(share, options.seeds))


if __name__ == "__main__":
    main()
