"""The evidence of a proposal is that of the reports that were learned when it became due."""

import lowswitch as ls
from ledgers import episode, made, play, steady
from lowswitch.ledger import Ledger
from lowswitch.ledger.state import State

DATED = ls.psrl(members=16, schedule="calendar/3-6-9", deployments=3)  # changes every row


def held_back(ledger, episodes):
    """Let so many reports wait for the first ticket, which is told last."""
    first = ledger.ask("here", "first")
    play(ledger, episodes - 1)
    ledger.tell(first.ticket, *episode(first.policy, first.number))


def visits_of(proposal, step=0):
    """Visits of what is played now and proposed, of all rows of a step."""
    return sum(
        max(row["now"]["visits"], row["proposed"]["visits"])
        for row in proposal.rows
        if row["step"] == step
    )


def test_evidence_is_of_the_reports_learned_when_the_proposal_became_due(tmp_path):
    late = made(tmp_path / "late.db", DATED)
    held_back(late, 5)  # all five are learned at once, and the date is after three of them
    steady_one = made(tmp_path / "steady.db", DATED)
    play(steady_one, 3)
    proposal, expected = late.proposal(), steady_one.proposal()
    assert (proposal.told, proposal.learned, proposal.through) == (3, 3, 3)
    assert proposal.rows == expected.rows
    assert proposal.basis == "3 learned episodes"
    assert visits_of(proposal) == 3
    assert late.verify().whole
    late.close()
    assert Ledger.open(tmp_path / "late.db").proposal() == proposal


def test_rows_that_are_left_keep_their_evidence(tmp_path):
    ledger = made(tmp_path / "run.db", DATED)
    play(ledger, 5)
    before = ledger.proposal()
    first = (before.rows[0]["step"], before.rows[0]["state"])
    ledger.save_snapshot()
    ledger = steady(Ledger.open(tmp_path / "run.db"))
    ledger.reject(before, rows=[first], by="board", reason="no")
    left = ledger.proposal()
    assert (left.told, left.learned) == (3, 3)
    assert left.rows == before.rows[1:]
    assert ledger.verify().whole


def test_a_proposal_of_an_older_ledger_says_that_its_evidence_may_be_newer(tmp_path, monkeypatch):
    ledger = made(tmp_path / "run.db", DATED)
    newer = State.proposal_payload
    monkeypatch.setattr(
        State, "proposal_payload", lambda self, as_due=False: newer(self, as_due=False)
    )
    held_back(ledger, 5)
    proposal = ledger.proposal()
    assert (proposal.told, proposal.learned, visits_of(proposal)) == (3, None, 5)
    assert "when it became due, with evidence of all that were" in proposal.basis
    monkeypatch.undo()
    assert ledger.verify().whole  # it is replayed as it was written
    first = (proposal.rows[0]["step"], proposal.rows[0]["state"])
    ledger.reject(proposal, rows=[first], by="board", reason="no")
    left = ledger.proposal()
    assert (left.told, left.learned) == (3, 5)
    assert "with evidence of all 5 that were learned" in left.basis
    assert ledger.verify().whole
