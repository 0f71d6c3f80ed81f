"""Motions: decisions that wait for other reviewers while the run goes on, pauses or ends."""

import pytest
from test_ledger_vetoes import OTHER, WHO, clinic, replayed, report

from lowswitch.ledger import Ledger, LedgerError


def test_a_motion_that_was_carried_survives_amendments(tmp_path):
    """States that a replay goes on from had shared their motions."""
    ledger = clinic(tmp_path, "psrl", quorum=2)
    report(ledger, 40)
    motion = ledger.approve(ledger.propose(by="office"), **WHO)
    ledger.save_snapshot()
    ledger.confirm(motion.number, **OTHER)
    report(ledger, 2)
    # reported after the snapshot, which a correction begins from
    for told in [event.payload for event in reversed(ledger.newest(2, kind="told"))]:
        ticket = ledger.ask("north", f"case {told['number']}").ticket
        rewards = [1.0 - paid for paid in told["rewards"]]
        given = told["states"], told["actions"], rewards
        ledger.amend(ticket, *given, by="office", reason="misread")
        assert ledger.status().learned == 42
    assert replayed(ledger, tmp_path)


def test_an_old_consent_does_not_end_the_next_pause(tmp_path):
    ledger = clinic(tmp_path, quorum=2)
    ledger.freeze(by="office", reason="alarm")
    old = ledger.thaw(by="office", reason="over")
    ledger.confirm(old.number, **WHO)
    other = ledger.thaw(by="night office", reason="over")
    for who in (WHO, OTHER):
        ledger.confirm(other.number, **who)
    ledger.freeze(by="office", reason="a second alarm")
    with pytest.raises(LedgerError, match=f"no request {old.number} waits"):
        ledger.confirm(old.number, **OTHER)
    assert ledger.status().frozen
    assert replayed(ledger, tmp_path)


@pytest.mark.parametrize("name", ["psrl", "ucb"])
def test_what_cannot_be_done_any_more_is_refused_when_it_is_confirmed(name, tmp_path):
    ledger = clinic(tmp_path, name, quorum=2)
    report(ledger, 40)
    approve = ledger.approve(ledger.propose(by="office"), **WHO)
    ledger.freeze(by="office", reason="alarm")
    with pytest.raises(LedgerError, match="paused this run"):
        ledger.confirm(approve.number, **OTHER)
    resume = ledger.thaw(by="office", reason="over")
    for who in (WHO, OTHER):
        ledger.confirm(resume.number, **who)
    assert ledger.confirm(approve.number, **OTHER) == 2
    back = ledger.rollback(1, by="office", reason="adverse events")
    other = next(a for a in range(3) if a != ledger.policy[0, 1, 2])
    veto = ledger.forbid([("visit 2", "bad")], [other], **WHO)
    ledger.end(by="office", reason="the trial is over")
    for motion in (back, veto):
        with pytest.raises(LedgerError, match="has lapsed"):
            ledger.confirm(motion.number, **OTHER)
    assert ledger.version == 2
    assert replayed(ledger, tmp_path)


def test_a_repeated_request_says_what_became_of_its_motion(tmp_path):
    ledger = clinic(tmp_path, quorum=2)
    report(ledger, 40)
    proposal = ledger.propose(by="office")
    first = ledger.approve(proposal, **WHO, request="a")
    assert ledger.approve(proposal, **WHO, request="a") == first
    ledger.decline(first.number, **OTHER)
    with pytest.raises(LedgerError, match="was declined or has lapsed"):
        ledger.approve(proposal, **WHO, request="a")
    second = ledger.approve(proposal, **WHO, request="b")
    assert ledger.confirm(second.number, **OTHER) == 2
    assert ledger.approve(proposal, **WHO, request="b") == 2


def test_a_decision_that_is_not_its_motion_is_seen(tmp_path):
    ledger = clinic(tmp_path, "psrl", quorum=2)
    report(ledger, 40)
    proposal = ledger.propose(by="office")
    rows = [(row["step"], row["state"]) for row in proposal.rows]
    motion = ledger.approve(proposal, rows=rows[:1], **WHO)
    with ledger._writing() as writer:
        writer.add("Dr Roth", "reviewer", "seconded", {"motion": motion.number, "reason": "yes"})
        carried = {"motion": motion.number, "confirmed": ["Dr Vega", "Dr Roth"], "version": 2}
        forged = dict(motion.decision) | carried | {"rows": [list(row) for row in rows]}
        with pytest.raises(LedgerError, match="asks for something else"):
            writer.add("Dr Vega", "reviewer", "approved", forged)
        writer.events.clear()


def test_a_veto_is_carried_out_only_where_it_replaces_what_was_read(tmp_path):
    """A treatment that nobody had read of came with a veto that had found nothing to replace."""
    ledger = clinic(tmp_path, "psrl", quorum=2)
    report(ledger, 40)
    view = ledger.propose(by="office")
    row = view.rows[0]
    place, (new,) = [(row["step"], row["state"])], row["to"]
    other = next(a for a in range(3) if a not in (new, row["from"][0]))
    with pytest.raises(LedgerError, match="is not given there now, so .* would replace nothing"):
        ledger.forbid(place, [new], instead=other, **WHO)
    veto = ledger.forbid(place, [new], **WHO)
    elsewhere = ledger.forbid([(1, 2)] if place != [(1, 2)] else [(0, 0)], [other], **WHO)
    approval = ledger.approve(view, rows=place, **WHO)
    with pytest.raises(LedgerError, match="you looked at version 7, and version 1 replaced it"):
        ledger.confirm(approval.number, base=7, **OTHER)
    assert ledger.confirm(approval.number, base=1, **OTHER) == 2
    assert [one.number for one in ledger.motions()] == [elsewhere.number]
    (gone,) = ledger.lapsed_motions()
    assert (gone.number, gone.lapsed) == (
        veto.number,
        "version 2 changed what it would replace in the protocol",
    )
    with pytest.raises(LedgerError, match="has lapsed: version 2 changed"):
        ledger.confirm(veto.number, **OTHER)
    with pytest.raises(LedgerError, match="you looked at version 1"):
        ledger.forbid(place, [new], instead=other, base=1, **WHO)
    again = ledger.forbid(place, [new], instead=other, base=2, **WHO)
    assert ledger.confirm(again.number, base=2, **OTHER) == 3
    assert ledger.policy[0][place[0]] == other
    assert replayed(ledger, tmp_path)


def test_a_held_row_is_the_same_after_a_cap_and_a_restart(tmp_path):
    ledger = clinic(tmp_path, "few")
    report(ledger, 15)
    ledger.approve(ledger.propose(by="office"), **WHO)
    report(ledger, 8)
    if (pending := ledger.propose(by="office", early=True)) is not None:
        ledger.reject(pending, **WHO)
    ledger.cap_trial(0.0, by="office", reason="safety")
    ledger.save_snapshot()
    ledger.close()
    ledger = Ledger.open(tmp_path / "run.db")
    ledger.rollback(2, by="office", reason="back")
    ledger.save_snapshot()
    assert replayed(ledger, tmp_path)
