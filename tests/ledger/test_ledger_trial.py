"""A ledger whose deployments are a protocol and a trial: parts, caps, tickets, and their replay."""

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.ledger import Ledger, LedgerError

WHO = {"by": "Dr Vega", "reason": "minutes of the meeting"}


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(
        tmp_path / "run.db",
        ls.few(deployments=3, asked=True, trial=0.25),
        horizon=2,
        states=3,
        actions=["watch", "drug", "surgery"],
        episodes=200,
        policy=np.zeros((2, 3), dtype=int),
        by="operations",
    )
    report(ledger, 40)
    return ledger


def report(ledger, episodes):
    """Tell episodes by the policy of each ticket; only the drug helps, and only in state 1."""
    generator, parts = np.random.default_rng(7), []
    for _ in range(episodes):
        number = ledger.status().issued + 1
        issued = ledger.ask(site="north", request=f"case {number}")
        states = generator.integers(0, 3, 2).tolist()
        actions = [issued.policy[h][states[h]] for h in range(2)]
        rewards = [float(x == 1 and a == 1) for x, a in zip(states, actions, strict=True)]
        ledger.tell(issued.ticket, states, actions, rewards)
        parts.append(issued.part)
    return parts


def same_after_replay(ledger, folder):
    assert ledger.verify().whole
    with Ledger.open(folder / "run.db", read_only=True) as again:
        return (again.policy == ledger.policy).all()


def test_one_part_is_approved_and_replayed(ledger, tmp_path):
    initial = ledger.policy[0].copy()
    ledger.approve(ledger.propose(by="operations"), part="trial", share=0.1, **WHO)
    assert (ledger.policy[0] == initial).all()
    assert (ledger.policy != initial).any(axis=(1, 2)).sum() == 6  # of 64
    assert ledger.proposal() is None
    assert same_after_replay(ledger, tmp_path)


def test_a_ticket_says_whether_its_case_is_in_the_trial(ledger):
    assert set(report(ledger, 5)) == {"protocol"}
    ledger.approve(ledger.propose(by="operations"), **WHO)
    protocol = ledger.policy[0].tolist()
    for number in range(30):
        issued = ledger.ask(site="north", request=f"later {number}")
        assert issued.part == ("protocol" if issued.policy == protocol else "trial")


def test_an_operator_caps_a_trial(ledger, tmp_path):
    for _ in range(2):
        ledger.approve(ledger.propose(by="operations"), **WHO)
        report(ledger, 20)
    assert ledger.cap_trial(0.0, by="operations", reason="two harms") == 4
    assert (ledger.policy == ledger.policy[0]).all()
    assert same_after_replay(ledger, tmp_path)
    with pytest.raises(LedgerError, match="can only become smaller, and it is 0 now"):
        ledger.cap_trial(0.1, by="operations", reason="again")


def test_what_changes_nothing_is_refused_and_leaves_no_event(ledger):
    proposal, head = ledger.propose(by="operations"), ledger.status().head
    with pytest.raises(ValueError, match="part must be"):
        ledger.approve(proposal, part="both", **WHO)
    with pytest.raises(ValueError, match="that would not change the deployed policy"):
        ledger.approve(proposal, part="trial", share=0.0, **WHO)
    assert ledger.status().head == head
    assert ledger.proposal().hash == proposal.hash


def test_a_trial_from_the_first_case_on_is_declared_at_creation(tmp_path):
    """3/4 of 2.5 % of 200 cases are 3.75 of the 16 until the first date: four of 16 policies."""
    ledger = Ledger.create(
        tmp_path / "run.db",
        ls.few(deployments=2, first="explore", members=16),
        horizon=2,
        states=3,
        actions=["watch", "drug", "surgery"],
        episodes=200,
        policy=np.arange(6).reshape(2, 3) % 3,
        by="operations",
    )
    assert (ledger.policy != ledger.policy[0]).any(axis=(1, 2)).sum() == 4
    assert set(report(ledger, 12)) == {"protocol", "trial"}
    assert ledger.status().deployments == 0
    assert "are whole" in ledger.verify().what
