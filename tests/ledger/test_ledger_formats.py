"""Ledgers that earlier versions wrote: they replay to what they were.

Each is the export of a run, with the SHA-256 of what its learner knew. `python
tests/ledger/test_ledger_formats.py` writes one of the present format, to be done once for each
release that changes it. That of a planner holds the snapshot of a learner as well, as an earlier
version wrote it. Format 3 was for runs with features alone. The pooled one was recorded before the
first successor was a trigger.
"""

import hashlib
import json
import sys
from pathlib import Path

import pytest

import lowswitch as ls
from ledgers import FOLDER, approve, episode, made, play, stored_again, tables
from lowswitch.cli.commands import main
from lowswitch.feature_learner import FeatureLearner
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.events import NEWEST
from lowswitch.ledger.snapshot import compared, state_of


def digest(ledger):
    """A hash of everything that the learner of a ledger knows."""
    learner = ledger._ready().learner
    if isinstance(learner, FeatureLearner):
        told, mixture, arrays = learner.told, [], [learner.weights.tobytes()]
    else:
        told, mixture, *arrays = tables(ledger)
    total = hashlib.sha256(json.dumps([told, mixture]).encode())
    for array in arrays:
        total.update(array)
    return total.hexdigest()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_kept_ledger_replays_to_what_it_was(path, tmp_path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    *events, last = lines
    ledger = stored_again(tmp_path / "again.db", events)
    assert ledger.status().head == last["head"]
    assert digest(ledger) == last["tables"]
    assert "ticket 1 " in ledger.verify().what  # the table of tickets is empty; all else is whole


def test_a_kept_snapshot_is_loaded_to_what_it_was(tmp_path):
    """It has a `caution` of the planner's first policy where `chosen` is now."""
    *events, last = map(json.loads, (FOLDER / "planner.jsonl").read_text().splitlines())
    ledger = stored_again(tmp_path / "again.db", events, last["snapshot"])
    assert ledger.status().head == last["head"]
    assert digest(ledger) == last["tables"]  # of the replay, because no event vouches for it
    (snapshot,) = ledger.store.snapshots()
    loaded = state_of(snapshot, ledger.terms)
    assert compared(loaded, bound=True) == compared(ledger._ready(), bound=True)


def test_a_recorded_approval_stays_though_it_would_be_refused_today(tmp_path):
    """A board approved a trial alone before the floor was checked again."""
    events = [json.loads(line) for line in (FOLDER / "lift-rule.jsonl").read_text().splitlines()]
    (place,) = [i for i, one in enumerate(events) if one.get("payload", {}).get("part") == "trial"]
    stored_again(tmp_path / "cut.db", events[:place]).close()
    with ls.ledger.Ledger.open(tmp_path / "cut.db") as ledger:
        seen, who = ledger.proposal(), {"by": "board", "reason": "to learn"}
        with pytest.raises(LedgerError, match=r"floor=0\.5 allows only 10%; .* share=0\.5 would"):
            ledger.approve(seen, part="trial", **who)
        assert ledger.status().head == events[place - 1]["hash"]
        ledger.approve(seen, part="trial", share=0.5, **who)
        assert ledger._ready().learner.deployed.share == 0.5


def test_a_rollback_below_the_floor_is_told_and_not_refused(tmp_path, capsys):
    """Version 3 had the trial alone, beside an initial policy that earns a quarter of the present
    protocol. Its trial may have half of the cases today.
    """
    events = [json.loads(line) for line in (FOLDER / "lift-rule.jsonl").read_text().splitlines()]
    (place,) = [i for i, one in enumerate(events) if one.get("kind") == "rolled_back"]
    stored_again(tmp_path / "cut.db", events[:place]).close()
    command = ["ledger", "rollback", str(tmp_path / "cut.db"), "--version", "3", "--by", "office"]
    with ls.ledger.Ledger.open(tmp_path / "cut.db") as ledger:
        assert [ledger.floor_warning(version) for version in (None, 1, 2, 4)] == [None] * 4
        assert "a trial of at most share=0.5 would keep it" in ledger.floor_warning(3)
        with pytest.raises(LedgerError, match="there is no version 9"):
            ledger.floor_warning(9)
    assert main([*command, "--reason", "adverse events"]) == 0
    assert "note: by today's reports this would earn less than 0.5" in capsys.readouterr().err
    with ls.ledger.Ledger.open(tmp_path / "cut.db") as ledger:
        assert ledger.version == 5
        assert ledger.floor_warning() == ledger.floor_warning(3)
        ledger.cap_trial(0.5, by="office", reason="the floor")
        assert ledger.floor_warning() is None


def test_a_proposal_of_rule_7_is_replayed_by_it(tmp_path):
    """The newest rule would have stated another gain, because the first policy was chosen."""
    *events, _ = map(json.loads, (FOLDER / "choice-rule.jsonl").read_text().splitlines())
    (place,) = [i for i, one in enumerate(events) if one.get("kind") == "proposed"]
    recorded = events[place]["payload"]
    assert recorded["rule"] == 7
    worths = {}
    for rule in (7, 8):
        ledger = stored_again(tmp_path / f"{rule}.db", events[:place])
        worths[rule] = ledger._ready().proposal_payload(rule=rule)["worth"]
    assert worths[7] == recorded["worth"]
    assert worths[8] != recorded["worth"]


def test_there_is_one_for_each_format():
    firsts = [path.read_text().partition("\n")[0] for path in FOLDER.glob("*.jsonl")]
    kept = {json.loads(first)["payload"]["format"] for first in firsts}
    assert kept == set(range(1, NEWEST + 1))


def write(path, folder):
    """Export a run in which something of every kind happens."""
    ledger = made(folder / "run.db", ls.q_hoeffding(c=0.05), patience=8, episodes=60)
    first = True
    while ledger.status().issued < 40:
        play(ledger, 1)
        if ledger.status().issued in (9, 17):
            ledger.ask("there", f"lost {ledger.status().issued}")
        if (proposal := ledger.proposal()) is not None and ledger.status().issued % 3 == 0:
            if first:
                ledger.reject(proposal, by="pharmacy", reason="unsafe", forever=True)
            else:
                approve(ledger, proposal)
            first = False
    ledger.rollback(1, by="chief", reason="to try it")
    ledger.freeze(by="chief", reason="to try it")
    ledger.thaw(by="chief", reason="to try it")
    ledger.save_snapshot()
    ledger.amend("t3", *episode(ledger.policy[0], 77), by="nurse", reason="a wrong file")
    ledger.export(path)
    with path.open("a") as file:
        last = {"head": ledger.status().head, "tables": digest(ledger)}
        file.write(json.dumps(last) + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        write(FOLDER / f"{sys.argv[1]}.jsonl", Path(place))
