"""Vetoes that name their actions, their lifting, and decisions on which several must agree."""

import numpy as np
import pytest

import lowswitch as ls
from ledgers import made, play
from lowswitch.ledger import Ledger, LedgerError

WHO = {"by": "Dr Vega", "reason": "minutes"}
OTHER = {"by": "Dr Roth", "reason": "I agree"}
CLINIC = {
    "horizon": 2,
    "states": ["well", "ill", "bad"],
    "actions": ["watch", "drug", "surgery"],
    "steps": ["visit 1", "visit 2"],
    "episodes": 400,
    "policy": np.zeros((2, 3), dtype=int),
}
ALGORITHMS = {
    "few": ls.few(deployments=4, asked=True, trial=0.25),
    "psrl": ls.psrl(schedule="asked", deployments=9),
    "ucb": ls.q_hoeffding(c=0.05, schedule="asked"),
}


def clinic(folder, algorithm="few", **options):
    return Ledger.create(folder / "run.db", ALGORITHMS[algorithm], **CLINIC | options, by="office")


def report(ledger, episodes, seed=7):
    """Only surgery helps, and only when somebody is ill."""
    generator = np.random.default_rng(seed)
    for _ in range(episodes):
        issued = ledger.ask("north", f"case {ledger.status().issued + 1}")
        states = generator.integers(0, 3, 2).tolist()
        actions = [issued.policy[h][states[h]] for h in range(2)]
        rewards = [float(x == 1 and a == 2) for x, a in zip(states, actions, strict=True)]
        ledger.tell(issued.ticket, states, actions, rewards)


def replayed(ledger, folder):
    """The ledger is whole, and another reader has the same policy and the same mask."""
    assert ledger.verify().whole, ledger.verify().what
    with Ledger.open(folder / "run.db", read_only=True) as again:
        same = (again.policy == ledger.policy).all()
        return bool(same and (again.actions_allowed == ledger.actions_allowed).all())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_action_is_forbidden_where_it_is_deployed_and_allowed_again(name, tmp_path):
    ledger = clinic(tmp_path, name)
    report(ledger, 40)
    ledger.propose(by="office")
    assert ledger.forbid([("visit 1", "ill")], ["watch"], instead="drug", **WHO) == 2
    assert set(ledger.policy[:, 0, 1].tolist()) == {1}
    assert ledger.actions_allowed[0, 1].tolist() == [False, True, True]
    pending = ledger.proposal()
    assert all(0 not in row["to"] for row in pending.rows if (row["step"], row["state"]) == (0, 1))
    (event,) = ledger.newest(1, kind="vetoed")
    assert (event.payload["actions"], event.payload["version"]) == ([0], 2)
    assert ledger.forbid([("visit 2", "bad")], ["surgery"], **WHO) == 2  # nobody plays it
    report(ledger, 20)
    ledger.lift([("visit 1", "ill")], ["watch"], **WHO)
    assert ledger.actions_allowed[0, 1].all()
    assert not ledger.actions_allowed[1, 2, 2]
    report(ledger, 20)
    ledger.propose(by="office")
    assert replayed(ledger, tmp_path)
    ledger.save_snapshot()
    assert replayed(ledger, tmp_path)


def test_a_lifted_action_is_proposed_again(tmp_path):
    ledger = clinic(tmp_path)
    ledger.forbid([("visit 1", "ill"), ("visit 2", "ill")], ["surgery"], **WHO)
    report(ledger, 60)
    ledger.approve(ledger.propose(by="office"), **WHO)
    assert 2 not in ledger.policy[:, :, 1]
    ledger.lift([("visit 1", "ill"), ("visit 2", "ill")], ["surgery"], **WHO)
    report(ledger, 60)
    ledger.propose(by="office")
    rows = {(row["step"], row["state"]): row["to"] for row in ledger.proposal().rows}
    assert any(2 in rows.get((h, 1), []) for h in range(2))


def test_what_a_veto_must_say(tmp_path):
    mask = np.ones((2, 3, 3), dtype=bool)
    mask[:, 0, 2] = False
    ledger = clinic(tmp_path, actions_allowed=mask)
    head = ledger.status().head
    for rows, actions, more, says in (
        (
            [("visit 1", "ill")],
            ["watch"],
            {},
            "watch is given for ill, visit 1 now; choose what to give instead",
        ),
        ([("visit 1", "ill")], ["watch"], {"instead": "watch"}, "choose what to give instead"),
        (
            [("visit 1", "ill")],
            ["watch", "drug", "surgery"],
            {},
            "no action would be left for ill, visit 1",
        ),
        ([("visit 1", "well")], ["surgery"], {}, "was forbidden in row visit 1:well when this"),
        ([], ["watch"], {}, "no row is chosen"),
        ([("visit 1", "ill")], [], {}, "no action is named"),
        ([("visit 9", "ill")], ["drug"], {}, "there is no step 'visit 9'"),
        ([("visit 1", "ill")], ["herbs"], {}, "there is no action 'herbs'"),
    ):
        with pytest.raises(LedgerError, match=says):
            ledger.forbid(rows, actions, **more, **WHO)
    with pytest.raises(LedgerError, match="does not forbid all of: drug"):
        ledger.lift([("visit 1", "ill")], ["drug"], **WHO)
    with pytest.raises(LedgerError, match="when this ledger was created"):
        ledger.lift([("visit 1", "well")], ["surgery"], **WHO)
    assert ledger.status().head == head


def test_a_veto_on_a_mixture_names_its_actions(tmp_path):
    ledger = clinic(tmp_path)
    report(ledger, 40)
    proposal = ledger.propose(by="office")
    row = next(row for row in proposal.rows if len({*row["to"]} - {*row["from"]}) == 2)
    key = [(row["step"], row["state"])]
    with pytest.raises(LedgerError, match="would newly play drug, surgery; name those"):
        ledger.reject(proposal, rows=key, forever=True, **WHO)
    with pytest.raises(LedgerError, match="and not all of watch; to forbid other actions"):
        ledger.reject(proposal, rows=key, forever=True, actions=["watch"], **WHO)
    ledger.reject(proposal, rows=key, forever=True, actions=["surgery"], **WHO)
    assert ledger.actions_allowed[key[0]].tolist() == [True, True, False]
    assert ledger.newest(1, kind="rejected")[0].payload["actions"] == [2]
    assert replayed(ledger, tmp_path)


# ---- several reviewers ---------------------------------------------------------------------------


def test_two_reviewers_must_agree_and_nobody_counts_twice(tmp_path):
    ledger = clinic(tmp_path, quorum=2)
    report(ledger, 40)
    proposal = ledger.propose(by="office")
    request = ledger.approve(proposal, **WHO)
    assert (request.kind, request.confirmed, request.needed) == ("approved", ["Dr Vega"], 1)
    assert (ledger.version, ledger.proposal().hash) == (1, proposal.hash)
    assert ledger.status().motions == 1
    with pytest.raises(LedgerError, match="Dr Vega has asked for this or agreed already"):
        ledger.confirm(request.number, **WHO)
    ledger.save_snapshot()
    assert ledger.confirm(request.number, **OTHER) == 2
    (event,) = ledger.newest(1, kind="approved")
    assert (event.actor, event.payload["confirmed"]) == ("Dr Vega", ["Dr Vega", "Dr Roth"])
    assert ledger.motions() == []
    assert replayed(ledger, tmp_path)


def test_an_operator_asks_and_two_reviewers_agree(tmp_path):
    ledger = clinic(tmp_path, quorum=2)
    ledger.freeze(by="office", reason="alarm")  # one person is enough
    request = ledger.thaw(by="Dr Vega", reason="over")  # who is an operator here
    assert (request.confirmed, request.needed) == ([], 2)
    with pytest.raises(LedgerError, match="has asked for this"):
        ledger.confirm(request.number, **WHO)
    assert ledger.confirm(request.number, **OTHER).needed == 1
    ledger.confirm(request.number, by="Dr Sato", reason="yes")
    assert not ledger.status().frozen
    assert replayed(ledger, tmp_path)


def test_requests_are_declined_and_lapse(tmp_path):
    ledger = clinic(tmp_path, quorum=2)
    report(ledger, 40)
    proposal = ledger.propose(by="office")
    first = ledger.approve(proposal, **WHO)
    ledger.decline(first.number, **OTHER)
    with pytest.raises(LedgerError, match="no request .* waits"):
        ledger.confirm(first.number, **OTHER)
    second = ledger.approve(proposal, **WHO)
    rows = [(row["step"], row["state"]) for row in proposal.rows]
    ledger.reject(proposal, rows=rows[:1], **OTHER)  # to postpone, one is enough
    with pytest.raises(LedgerError, match="has lapsed"):
        ledger.confirm(second.number, **OTHER)
    assert ledger.motions() == []
    assert replayed(ledger, tmp_path)


def test_the_quorum_is_changed_by_a_recorded_decision(tmp_path):
    ledger = clinic(tmp_path, quorum=2)
    request = ledger.set_quorum(1, **WHO)
    assert ledger.quorum == 2
    ledger.confirm(request.number, **OTHER)
    assert ledger.quorum == 1
    assert ledger.forbid([("visit 1", "ill")], ["drug"], **WHO) == 1
    ledger.save_snapshot()
    with Ledger.open(tmp_path / "run.db", read_only=True) as again:
        assert again.quorum == 1
    assert replayed(ledger, tmp_path)


def test_a_decision_of_too_few_is_seen(tmp_path):
    ledger = made(tmp_path / "run.db", ls.psrl(schedule="asked"), quorum=2)
    play(ledger, 5)
    view = ledger.propose(by="office")
    with ledger._writing() as writer, pytest.raises(LedgerError, match="2 reviewers must agree"):
        payload = writer.decision(view, None, "alone") | {"version": 2}
        writer.add("one", "reviewer", "approved", payload)


def test_names_and_words_are_recorded_only_where_they_are_given(tmp_path):
    words = {"episode": "patient", "action": "treatment"}
    ledger = clinic(tmp_path, name="Ward 3", words=words)
    with Ledger.open(tmp_path / "run.db") as again:
        assert (again.terms.name, again.terms.word("episode")) == ("Ward 3", "patient")
        assert again.terms.word("state") == "state"
    assert "words" not in made(tmp_path / "plain.db").terms.to_payload()
    ledger.freeze(by="Ms Okafor", reason="two adverse events")
    stops = "Ms Okafor paused this run on .* Until the run resumes, no patient can be enrolled"
    with pytest.raises(LedgerError, match=stops):
        ledger.ask("north", "case 1")
