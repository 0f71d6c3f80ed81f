"""Ledgers to try things on: a small run, in SQLite and in a real PostgreSQL."""

import base64
import contextlib
from pathlib import Path

import numpy as np

import lowswitch as ls
from lowswitch.ledger import Ledger
from lowswitch.ledger.events import GENESIS, canonical, event
from lowswitch.ledger.sqlite import SqliteStore
from lowswitch.ledger.store import Snapshot
from lowswitch.reproduce.pseudocode import play_episode
from lowswitch.show.progress import Progress

FOLDER = Path(__file__).parent / "ledgers_kept"  # ledgers of earlier versions

H, S, A = 3, 4, 2
MDP = ls.envs.riverswim(states=S, horizon=H)
ALGORITHM = ls.q_hoeffding(c=0.05)  # rows double: few proposals


def clock(seq):
    """The same time in every run."""
    return f"2026-01-01T00:00:00.{seq:06d}+00:00"


def made(address, algorithm=ALGORITHM, *, episodes=200, **options):
    """A ledger whose times and tickets are the same in every run."""
    size = {"horizon": H, "states": S, "actions": A, "episodes": episodes}
    return steady(Ledger.create(address, algorithm, **size | options, clock=clock))


def steady(ledger):
    ledger.clock, ledger.new_ticket = clock, "t{}".format
    return ledger


def counted(total, unit, label):
    """0 to total - 1, with a line now and then that says how far it is."""
    with Progress(total, unit=unit, label=label) as bar:
        for i in range(total):
            yield i
            bar.update(i + 1)


def episode(policy, number, seed=0):
    """Play episode `number` (from 1) of the river by a policy; lists for a report."""
    played = play_episode(MDP, np.array(policy), seed, number - 1)
    return tuple(np.array(part).tolist() for part in played)


def play(ledger, episodes, site="here", decide=None):
    """Ask, play and tell so many episodes; decide on whatever is proposed."""
    for _ in range(episodes):
        issued = ledger.ask(site, f"r{ledger.status().issued + 1}")
        ledger.tell(issued.ticket, *episode(issued.policy, issued.number))
        while decide is not None and (proposal := ledger.proposal()) is not None:
            decide(ledger, proposal)


def approve(ledger, proposal):
    ledger.approve(proposal, by="board", reason="seen")


def tables(ledger):
    """Everything that its learner knows, to the bit."""
    learner = ledger._ready().learner
    known = learner._knowledge.tables._asdict()
    if "pool" in known:
        known["pool"] = known["pool"][: known["clock"][0]["pool"]]
    return [learner.told, learner.mixture.tolist(), *(array.tobytes() for array in known.values())]


def rewritten(address, seq, change):
    """Change the payload of an event, and make all hashes anew."""
    with contextlib.closing(Ledger.open(address)) as editor, editor.store.transaction():
        previous = GENESIS
        for one in list(editor.events()):
            if one.seq == seq:
                change(one.payload)
            again = event(*one[:6], previous)
            editor.store.execute(
                "UPDATE events SET body = ?, hash = ? WHERE seq = ?",
                *(again.body, again.hash, one.seq),
            )
            previous = again.hash


def stored_again(path, lines, snapshot=None):
    """A ledger that holds these exported events, and perhaps a snapshot."""
    store = SqliteStore.create(path, [])
    names = ("seq", "time", "actor", "role", "kind", "payload", "previous")
    with store.transaction():
        rows = [
            (line["seq"], canonical([line[name] for name in names]), line["hash"]) for line in lines
        ]
        store.execute_many("INSERT INTO events VALUES (?, ?, ?)", rows)
        if snapshot is not None:
            parts = {name: base64.b64decode(snapshot[name]) for name in ("learner", "tally")}
            store.add_snapshot(Snapshot(**snapshot | parts))
    store.close()
    return Ledger.open(path, read_only=True)
