"""How people name what they decide on, and what they are told when it is gone."""

import re

import pytest

import lowswitch as ls
from ledgers import approve, made, play
from lowswitch.cli import commands
from lowswitch.ledger import Client, LedgerError, SupersededError
from served import Served

WHO = {"by": "board", "reason": "seen"}
MIXED = ls.psrl(members=16, schedule="asked", deployments=9)  # changes every row
NAMES = {
    "states": ["well", "ill", "worse", "gone"],
    "actions": ["wait", "treat"],
    "steps": ["visit 1", "visit 2", "visit 3"],
}


def proposed(address, **options):
    ledger = made(address, MIXED, **options)
    play(ledger, 3)
    return ledger, ledger.propose(by="secretary")


@pytest.mark.parametrize("length", [8, 12, 64])
def test_the_first_characters_of_a_hash_name_the_pending_proposal(tmp_path, length):
    ledger, proposal = proposed(tmp_path / "run.db")
    assert ledger.approve(proposal.hash[:length], **WHO) == 2
    (event,) = ledger.newest(1, kind="approved")
    assert event.payload["proposal"] == proposal.hash
    assert ledger.verify().whole


def test_what_became_of_a_proposal_is_said(tmp_path):
    ledger, first = proposed(tmp_path / "run.db")
    row = (first.rows[0]["step"], first.rows[0]["state"])
    ledger.reject(first, rows=[row], by="pharmacy", reason="no")
    left = ledger.proposal()
    for name in (first.hash, first.hash[:9]):
        with pytest.raises(SupersededError) as refused:
            ledger.approve(name, **WHO)
        assert "any more: pharmacy postponed it, or a part of it, in event" in str(refused.value)
        assert f"; {left.hash[:12]} is pending" in str(refused.value)
    approve(ledger, left)
    with pytest.raises(SupersededError, match="board approved it.*made version 2; nothi"):
        ledger.reject(left, **WHO)
    play(ledger, 3)
    old = ledger.propose(by="secretary")
    play(ledger, 3)
    ledger.propose(by="secretary")
    with pytest.raises(SupersededError, match="another one took its place"):
        ledger.approve(old, **WHO)


def test_a_hash_that_never_was_says_so(tmp_path):
    ledger, proposal = proposed(tmp_path / "run.db")
    before = ledger.status()
    with pytest.raises(LedgerError, match="there never was a proposal ffffffffffff; "):
        ledger.approve("f" * 64, **WHO)
    for name in (proposal.hash[:7], proposal.hash + "0", "%" * 12, "abc"):
        with pytest.raises(LedgerError, match="names no proposal: give its hash, or at least the"):
            ledger.approve(name, **WHO)
    assert ledger.status() == before


def test_the_first_characters_are_enough_from_afar(tmp_path):
    with Served(tmp_path, algorithm=MIXED, **NAMES) as served:
        play(served.ledger, 3)
        proposal = served.ledger.propose(by="secretary")
        reviewer = Client(served.url, served.tokens["reviewer"])
        first, *_ = proposal.rows
        reviewer.reject(proposal.hash[:8], rows=[(first["step"], first["state"])], reason="no")
        with pytest.raises(SupersededError, match="postponed it, or a part of it, in"):
            reviewer.approve(proposal.hash[:8], reason="yes")
        with pytest.raises(LedgerError, match="never was a proposal 00000000"):
            reviewer.approve("0" * 8, reason="yes")
        reviewer.close()


def test_rows_are_refused_by_their_labels(tmp_path):
    ledger, proposal = proposed(tmp_path / "run.db", **NAMES)
    row = proposal.rows[0]
    name = f"{row['step_label']}:{row['state_label']}"
    ledger.reject(proposal, rows=[(row["step"], row["state"])], **WHO)
    with pytest.raises(LedgerError, match=f"row {re.escape(name)} is not proposed"):
        ledger.approve(ledger.proposal(), rows=[(row["step_label"], row["state_label"])], **WHO)


def test_a_veto_where_nothing_is_new_names_the_row_by_its_labels(tmp_path, capsys):
    ledger, proposal = proposed(tmp_path / "run.db", **NAMES)
    approve(ledger, proposal)
    play(ledger, 3)
    again = ledger.propose(by="secretary")
    row = next(row for row in again.rows if not {*row["to"]} - {*row["from"]})
    name = f"{row['step_label']}:{row['state_label']}"
    with pytest.raises(LedgerError, match=f"row {name} would play the same actions with other"):
        ledger.reject(again, rows=[(row["step"], row["state"])], forever=True, **WHO)
    who = ["--by", "board", "--reason", "no", "--forever"]
    more = ["--proposal", again.hash[:12], "--rows", name]
    assert commands.main(["ledger", "reject", str(tmp_path / "run.db"), *more, *who]) == 2
    assert f"row {name} would play" in capsys.readouterr().err
