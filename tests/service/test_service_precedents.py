"""What a board decided before is said wherever somebody is about to take it back."""

import numpy as np
import pytest
from test_service_console import TRIAL, records
from test_service_decisions import plain

from served import Served

BACK = "This takes back an earlier decision for"


@pytest.fixture
def ward(tmp_path):
    """A run whose records say that surgery is better, with a pending proposal."""
    with Served(tmp_path, **TRIAL) as served:
        records(served.ledger)
        yield served


def treat(ledger, patients):
    """Patients who fare well with surgery and badly without it."""
    generator = np.random.default_rng(1)
    for _ in range(patients):
        number = ledger.status().issued + 1
        issued = ledger.ask("north", f"patient {number}")
        states = generator.integers(0, 3, 2).tolist()
        given = [issued.policy[h][x] for h, x in enumerate(states)]
        ledger.tell(issued.ticket, states, given, [0.9 if a == 2 else 0.1 for a in given])


def sheet_of(served, session, decision):
    given = {"proposal": served.ledger.proposal().hash, "decision": decision}
    return plain(served.post("/decide", session, **given)[2])


def stays_held(ward, session):
    """What is held stays so until the stated number of patients, unless somebody asks for it."""
    ledger = ward.ledger
    held, now = ledger.holds(), ledger.status()
    (end,) = {hold.told for hold in held.values()}
    assert end == now.told + ledger.terms.episodes // 20
    said = f"until {end:,} patients are learned ({end - now.told:,} more than now)"
    assert said in plain(ward.page("/", session)[1])
    assert said in plain(ward.page("/proposal", session)[1])
    h, x = next(iter(held))
    assert said in plain(ward.page(f"/row?step={h}&state={x}", session)[1])
    treat(ledger, end - now.told - 2)
    again = ledger.propose(by="office")
    assert again is None or not {(r["step"], r["state"]) for r in again.rows} & set(held)
    page = plain(ward.post("/propose", session, held="1")[2])  # of a reviewer
    assert f"This ends {len(held)} hold" in page
    assert "at once, by your request alone" in page
    (by,) = {mark.actor for mark in ward.service.journal.listed()[-1:]}
    assert f". {by} " in page.partition("Held so far:")[2]
    assert set(ledger.holds()) == set(held)
    treat(ledger, 2)
    assert not ledger.holds()
    assert ledger.verify(progress=False).whole


def test_what_is_asked_for_explicitly_is_proposed_at_once(ward):
    ledger, session = ward.ledger, ward.login("reviewer")
    view = ledger.proposal()
    page = sheet_of(ward, session, "postpone all")
    held = len(view.rows)
    assert f"of the trial in {held} places, where you postpone the changes" in page
    assert f"Held back are 0 of 6 places now, and {held} after this." in page
    ledger.reject(view, by="Dr Roth", reason="open reports first")
    assert ledger.propose(by="office") is None
    given = {"held": "1", "sure": "1", "confirming": "1"}
    assert ward.post("/propose", session, **given)[0] == 400  # without a reason
    assert len(ledger.holds()) == held
    status, _, body = ward.post("/propose", session, **given, reason="new reports")
    assert status == 303, body
    assert {(r["step"], r["state"]) for r in ledger.proposal().rows} & {
        (r["step"], r["state"]) for r in view.rows
    }
    (event,) = ledger.newest(1, kind="met")
    assert (event.role, event.payload) == (
        "reviewer",
        {"held": True, "holds": held, "reason": "new reports"},
    )
    said = f"sked for a proposal also for {held} held places"
    for path in ("/timeline", "/audit"):
        shown = plain(ward.page(path, session)[1])
        assert said in shown
        assert "new reports" in shown
    assert f"{said} on" in plain(ward.page("/proposal", session)[1])
    page = plain(ward.page("/proposal", session)[1])
    assert "A change was postponed for" in page
    assert ledger.verify(progress=False).whole


def test_a_proposal_after_a_veto_says_that_it_changes_a_fresh_approval_and_what_is_new(ward):
    ledger, session = ward.ledger, ward.login("reviewer")
    view = ledger.proposal()
    ward.page("/proposal", session)  # she has read it
    first, other = (row for row in view.rows if row["from"][0] != row["to"][0]), None
    row, other = next(first), next(first)
    place = [(row["step_label"], row["state_label"])]
    ledger.approve(view, rows=place, by="Dr Vega", reason="minutes 1")
    rest = ledger.proposal()
    treat_badly(ledger, 60)  # reports since: what was approved turns out to be bad
    where = [(other["step_label"], other["state_label"])]
    ledger.forbid(where, [other["to"][0]], by="Dr Roth", reason="harm")
    again = ledger.proposal()
    assert again.told > rest.told
    found = {(r["step"], r["state"]): r for r in again.rows}[row["step"], row["state"]]
    assert found["to"][0] != found["from"][0] == row["to"][0]
    page = plain(ward.page("/proposal", session)[1])
    top = page.partition("1. What changes for whom")[0]
    assert "Earlier decisions that this proposal takes back or changes" in top
    assert "Dr Vega approved 1 change" in top
    assert "(“minutes 1”)" in top
    assert "New since you read the proposal of" in top
    assert "60 reports were learned since." in top
    assert f"Newly proposed for {row['state_label']}, {row['step_label']}:" in top
    assert "new" in page.partition("Each change")[2]


def treat_badly(ledger, patients):
    """Patients who fare badly with surgery, and well without it."""
    generator = np.random.default_rng(2)
    for _ in range(patients):
        number = ledger.status().issued + 1
        issued = ledger.ask("north", f"patient {number}")
        states = generator.integers(0, 3, 2).tolist()
        given = [issued.policy[h][x] for h, x in enumerate(states)]
        ledger.tell(issued.ticket, states, given, [0.0 if a == 2 else 0.9 for a in given])


def test_an_approval_says_that_it_takes_back_a_rollback_and_why(ward):
    ledger, session = ward.ledger, ward.login("reviewer")
    assert BACK not in sheet_of(ward, session, "approve all")
    ledger.approve(ledger.proposal(), by="Dr Vega", reason="minutes 1")
    operator = ward.login("operator")
    page = plain(ward.post("/rollback", operator, version=1)[2])
    assert "It takes back version 2: Dr Vega approved" in page
    assert "(“minutes 1”)" in page
    ledger.rollback(1, by="Ms Okafor", reason="a cluster of infections")
    stays_held(ward, session)
    treat(ledger, 300)
    view = ledger.propose(by="office")
    assert any(row["to"][0] == 2 for row in view.rows)
    for page in (plain(ward.page("/proposal", session)[1]), sheet_of(ward, session, "approve all")):
        assert f"{BACK} " in page
        assert "Ms Okafor rolled back to version 1 on" in page
        assert "(“a cluster of infections”)" in page
    assert BACK not in sheet_of(ward, session, "approve trial")


def test_an_approval_says_that_a_change_was_postponed_and_why(ward):
    ledger, session = ward.ledger, ward.login("reviewer")
    ledger.reject(ledger.proposal(), by="Dr Roth", reason="open reports first")
    stays_held(ward, session)
    treat(ledger, 300)
    ledger.propose(by="office")
    for page in (plain(ward.page("/proposal", session)[1]), sheet_of(ward, session, "approve all")):
        assert "A change was postponed for" in page
        assert "Dr Roth postponed on" in page
        assert "(“open reports first”)" in page
