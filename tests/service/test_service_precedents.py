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


def test_an_approval_says_that_it_takes_back_a_rollback_and_why(ward):
    ledger, session = ward.ledger, ward.login("reviewer")
    assert BACK not in sheet_of(ward, session, "approve all")
    ledger.approve(ledger.proposal(), by="Dr Vega", reason="minutes 1")
    operator = ward.login("operator")
    page = plain(ward.post("/rollback", operator, version=1)[2])
    assert "It takes back version 2: Dr Vega approved on" in page
    assert "(“minutes 1”)" in page
    ledger.rollback(1, by="Ms Okafor", reason="a cluster of infections")
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
    treat(ledger, 300)
    ledger.propose(by="office")
    for page in (plain(ward.page("/proposal", session)[1]), sheet_of(ward, session, "approve all")):
        assert "A change was postponed for" in page
        assert "Dr Roth postponed on" in page
        assert "(“open reports first”)" in page
