"""Ledgers whose learner has dates: what is shown of them, and what becomes of late boards."""

import json

import numpy as np
import pytest

import lowswitch as ls
from ledgers import approve, clock, episode, made, play
from lowswitch.cli import commands
from lowswitch.ledger import Client, Ledger, LedgerError
from lowswitch.ledger.events import event
from lowswitch.service.journal import Journal
from lowswitch.service.proposals import why_now
from served import Served

DATED = ls.psrl(schedule="calendar/3-6-9", deployments=3)
MIXED = ls.psrl(members=16, schedule="calendar/3-6-9", deployments=3)  # changes every row


def rows_of(proposal):
    return {(row["step"], row["state"]) for row in proposal.rows}


def reason_of(address, proposal):
    """What the console says of why a proposal was made."""
    journal = Journal(Ledger.open(address, read_only=True))
    journal.catch_up()
    said = why_now(journal, proposal, journal.reader.terms)
    journal.reader.close()
    return said


# ---- what is shown -------------------------------------------------------------------------------


def test_a_status_says_which_dates_come_and_how_far_the_next_one_is(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address, DATED)
    play(ledger, 1)
    status = ledger.status()
    assert (status.told, status.dates) == (1, [3, 6, 9])
    assert status.next_date == "after episode 3, when 2 more are learned"
    assert not status.may_ask
    assert commands.main(["ledger", "status", str(address)]) == 0
    printed = capsys.readouterr().out
    assert "next_date        after episode 3, when 2 more are learned" in printed
    assert "dates            3 6 9" in printed
    assert commands.main(["ledger", "status", str(address), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next_date"] == status.next_date
    play(ledger, 2)  # the date has come, and what it proposed waits
    assert ledger.status().nothing_because is None
    play(ledger, 17, decide=approve)
    last = ledger.status()
    assert (last.dates, last.next_date, last.proposed) == ([], None, 3)
    assert last.nothing_because == "the budget is spent, and the deployed policy stays"


def test_a_date_is_counted_in_episodes_that_are_learned_and_not_in_reports(tmp_path):
    """Reports wait for earlier tickets: one report may bring all that a date needs."""
    ledger = made(tmp_path / "run.db", DATED)
    tickets = [ledger.ask("here", str(i)) for i in range(5)]
    for issued in tickets[1:]:
        ledger.tell(issued.ticket, *episode(issued.policy, issued.number))
    soon = "after episode 3, when 3 more are learned (4 reports wait for an earlier ticket)"
    assert ledger.status().next_date == soon
    with pytest.raises(LedgerError) as refused:
        ledger.propose(by="secretary")
    assert f"the next date is {soon}, and then" in str(refused.value)
    ledger.tell(tickets[0].ticket, *episode(tickets[0].policy, 1))
    assert (ledger.status().told, ledger.proposal().told) == (5, 3)
    assert ledger.status().next_date == "after episode 6, when 1 more is learned"


# ---- asking before a date ------------------------------------------------------------------------


def test_a_proposal_between_two_dates_is_refused_unless_it_is_meant(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address, DATED)
    play(ledger, 1)
    before = ledger.status()
    with pytest.raises(LedgerError, match="one of the 3 proposals that are left for 3 dates"):
        ledger.propose(by="secretary")
    assert ledger.status() == before
    assert commands.main(["ledger", "propose", str(address), "--by", "me"]) == 2
    assert "--early" in capsys.readouterr().err
    assert commands.main(["ledger", "propose", str(address), "--by", "me", "--early"]) == 0
    assert ledger.status().proposed == 1
    assert ledger.newest(1, kind="met")[0].payload == {"early": True}
    assert reason_of(address, ledger.proposal()) == ("me asked for it before its next date.")
    play(ledger, 1)
    assert ledger.propose(by="secretary") is not None  # it replaces that one, and costs nothing
    assert ledger.status().proposed == 1
    assert ledger.newest(1, kind="met")[0].payload == {}
    assert ledger.verify().whole


def test_a_proposal_that_no_date_needs_is_not_refused(tmp_path):
    ledger = made(tmp_path / "run.db", ls.psrl(schedule="calendar/3-6-9", deployments=5))
    play(ledger, 1)
    assert ledger.status().may_ask
    ledger.reject(ledger.propose(by="secretary"), by="board", reason="too soon")
    assert ledger.newest(1, kind="met")[0].payload == {}
    ledger.reject(ledger.propose(by="secretary"), by="board", reason="too soon")
    assert (ledger.status().budget_left, ledger.status().may_ask) == (3, False)


def test_a_proposal_that_would_take_the_switches_of_all_dates_is_refused(tmp_path):
    ledger = made(tmp_path / "run.db", ls.psrl(schedule="calendar/3-6-9", switches=5))
    play(ledger, 1)
    assert not ledger.status().may_ask
    with pytest.raises(LedgerError, match="some of the 5 switches that all dates share"):
        ledger.propose(by="secretary")


def test_an_open_gate_is_not_asked_early_either(tmp_path):
    ledger = made(tmp_path / "run.db", DATED, gate="open")
    with pytest.raises(LedgerError, match="open gate"):
        ledger.propose(by="secretary", early=True)


@pytest.mark.parametrize(("deployments", "first"), [(3, 3), (4, 0)])
def test_a_history_spends_no_proposal_that_a_date_needs(tmp_path, deployments, first):
    algorithm = ls.psrl(members=16, schedule="calendar/3-6-9", deployments=deployments)
    ledger = made(tmp_path / "run.db", algorithm)
    generator = np.random.default_rng(0)
    states, actions = generator.integers(0, 4, (20, 3)), generator.integers(0, 2, (20, 3))
    lists = states.tolist(), actions.tolist(), generator.random((20, 3)).tolist()
    words = {"source": "files", "most": 5, "by": "office", "attested": "yes"}
    made_at_once = ledger.add_history(*lists, **words)
    assert (made_at_once is None) == (first > 0)
    if made_at_once is not None:
        approve(ledger, made_at_once)
    play(ledger, 12, decide=approve)
    assert [proposal.told for proposal in ledger.proposals()][-3:] == [3, 6, 9]
    assert ledger.proposals()[0].told == first
    assert ledger.verify().whole


# ---- a board that is late ------------------------------------------------------------------------


def test_a_date_that_passes_while_a_proposal_waits_is_made_up_for(tmp_path):
    address = tmp_path / "run.db"
    ledger = made(address, MIXED)
    play(ledger, 7)  # nobody decides on the proposal of episode 3
    first = ledger.proposal()
    assert (first.told, ledger.status().proposed) == (3, 1)
    approve(ledger, first)
    second = ledger.proposal()
    assert (second.told, ledger.status().proposed) == (7, 2)
    (met,) = ledger.newest(1, kind="met")
    assert (met.actor, met.payload) == ("ledger", {"date": 6})
    assert reason_of(address, second).startswith("Its date after case 6 passed while")
    approve(ledger, second)  # no date has passed since
    assert ledger.proposal() is None
    play(ledger, 2)
    assert ledger.proposal().told == 9
    assert ledger.verify().whole


def test_two_dates_that_pass_are_made_up_for_by_one_proposal(tmp_path):
    ledger = made(tmp_path / "run.db", MIXED)
    play(ledger, 10)
    approve(ledger, ledger.proposal())
    assert ledger.newest(1, kind="met")[0].payload == {"date": 9}
    approve(ledger, ledger.proposal())
    status = ledger.status()
    assert (status.pending, status.proposed, status.budget_left) == (None, 2, 1)
    assert status.may_ask  # no date needs what is left
    assert ledger.verify().whole


@pytest.mark.parametrize("algorithm", [MIXED, DATED], ids=["mixture", "one"])
def test_what_a_late_board_rejects_is_not_proposed_again_before_the_next_date(tmp_path, algorithm):
    ledger = made(tmp_path / "run.db", algorithm)
    play(ledger, 7)
    first = ledger.proposal()
    ledger.reject(first, by="board", reason="not now")
    again = ledger.proposal()
    assert again is None or not rows_of(again) & rows_of(first)
    assert set(ledger._ready().learner.held) >= rows_of(first)
    if algorithm is MIXED:  # all rows are held, and so nothing was spent
        assert (again, ledger.status().proposed) == (None, 1)
        assert ledger.status().nothing_because.endswith(
            "; nothing is proposed where a change was postponed or rolled back,"
            " until that hold ends"
        )
    else:
        approve(ledger, again)
    play(ledger, 2)
    assert ledger.proposal().told == 9
    assert not ledger._ready().learner.held  # the next date ends what was rejected for now
    assert ledger.verify().whole


def test_a_late_date_is_made_up_for_when_the_last_row_is_decided(tmp_path):
    ledger = made(tmp_path / "run.db", MIXED)
    play(ledger, 7)
    first = ledger.proposal()
    row = min(rows_of(first))
    ledger.reject(first, rows=[row], by="board", reason="not now")
    assert rows_of(ledger.proposal()) == rows_of(first) - {row}
    assert ledger.newest(1, kind="met") == []
    approve(ledger, ledger.proposal())
    assert (ledger.proposal().told, row in rows_of(ledger.proposal())) == (7, False)
    approve(ledger, ledger.proposal())
    assert ledger.status().nothing_because.endswith(
        "; nothing is proposed where a change was postponed or rolled back, until that hold ends"
    )
    assert ledger.verify().whole


def test_a_rollback_makes_up_for_no_date_and_spends_nothing(tmp_path):
    algorithm = ls.psrl(members=16, schedule="calendar/3-6-9-12", deployments=4)
    ledger = made(tmp_path / "run.db", algorithm)
    play(ledger, 3, decide=approve)
    play(ledger, 7)  # the date after episode 9 passes while the proposal of 6 waits
    ledger.rollback(1, by="chief", reason="an alarm")
    assert (ledger.proposal(), ledger.status().proposed) == (None, 2)
    play(ledger, 2)
    assert (ledger.proposal().told, ledger.status().proposed) == (12, 2)
    assert ledger.verify().whole


@pytest.mark.parametrize(("decided", "made_up"), [(6, True), (7, False), (8, False)])
def test_no_date_is_made_up_for_where_the_next_one_is_nearer_than_the_gap(
    tmp_path, decided, made_up
):
    algorithm = ls.psrl(members=16, schedule="calendar/3-6-9/3", deployments=3)
    ledger = made(tmp_path / "run.db", algorithm)
    play(ledger, decided)
    approve(ledger, ledger.proposal())
    assert (ledger.proposal() is not None) == made_up
    play(ledger, 9 - decided, decide=approve)
    play(ledger, 1)
    assert [proposal.told for proposal in ledger.proposals()][-1] == 9


def test_rows_that_became_due_while_a_proposal_waited_say_so(tmp_path):
    ledger = made(tmp_path / "run.db", DATED)
    play(ledger, 7)  # what the date after episode 6 wants lies in other rows, too
    approve(ledger, ledger.proposal())
    assert ledger.proposal().told == 7
    assert ledger.newest(1, kind="met") == []
    (decided,) = ledger.newest(1, kind="approved")
    assert reason_of(tmp_path / "run.db", ledger.proposal()) == (
        f"It became due while an earlier proposal waited; event {decided.seq} decided that one."
    )


@pytest.mark.parametrize(("played", "date"), [(1, 12345), (7, 3), (7, 9)])
def test_an_audit_finds_a_date_that_was_not_to_be_made_up_for(tmp_path, played, date):
    ledger = made(tmp_path / "run.db", MIXED)
    play(ledger, played)
    if played > 1:  # the date after episode 6 was late
        with ledger._writing() as writer:
            payload = writer.decision(ledger.proposal(), None, "seen")
            writer.add("board", "reviewer", "approved", payload | {"version": 2})
    seq, head = ledger.store.head()
    forged = event(seq + 1, clock(seq + 1), "ledger", "ledger", "met", {"date": date}, head)
    with ledger.store.transaction():
        ledger.store.append([forged])
    verdict = Ledger.open(tmp_path / "run.db", read_only=True).verify(progress=False)
    assert (verdict.whole, verdict.first_bad) == (False, seq + 1)
    assert f"no proposal was due for a missed date after episode {date}" in verdict.what


# ---- nothing to propose --------------------------------------------------------------------------


def test_whoever_asks_in_vain_is_told_why(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address, ls.q_hoeffding(c=0.05, schedule="asked"))
    assert ledger.propose(by="secretary") is None
    why = "after 0 episodes the learner did not want to change the deployed policy"
    assert ledger.status().nothing_because == why
    assert commands.main(["ledger", "propose", str(address), "--by", "me", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"proposal": None, "nothing_because": why}
    play(ledger, 1)
    ledger.save_snapshot()
    ledger.close()
    assert Ledger.open(address).status().nothing_because == why
    assert commands.main(["ledger", "proposal", str(address)]) == 0
    assert capsys.readouterr().out == f"nothing to propose: {why}\n"
    assert commands.main(["ledger", "proposal", str(address), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"proposal": None, "nothing_because": why}


def undecided():
    """A learner that has nothing to change to."""
    return ls.Learner(
        ls.q_hoeffding(c=0.05, schedule="calendar/2-5"),
        horizon=1,
        states=1,
        actions=1,
        episodes=9,
        gate="review",
    )


def test_a_date_on_which_nothing_is_wanted_is_named(tmp_path):
    learner = undecided()
    assert learner.why_nothing() == "nothing is due, and nobody has asked"
    fresh = learner.digest()
    learner.tell([[0]] * 3, [[0]] * 3, [[1.0]] * 3)
    assert learner.dates.tolist() == [5]
    assert learner.dates_passed(0).tolist() == [2]
    assert learner.dates_passed(2).tolist() == []
    why = learner.why_nothing()
    assert why.startswith("after 2 episodes the learner did not want to change")
    learner.save(tmp_path / "learner.npz")
    assert ls.Learner.load(tmp_path / "learner.npz").why_nothing() == why
    learner.freeze()
    assert learner.why_nothing() == "the learner is frozen"
    assert undecided().digest() == fresh


def test_what_waits_for_the_thaw_is_not_said_to_be_nothing():
    learner = ls.Learner(MIXED, horizon=3, states=4, actions=2, episodes=20, gate="review")
    learner.freeze()
    for _ in range(4):
        learner.tell([0, 0, 0], [0, 0, 0], [0.0, 0.0, 1.0], off_policy=True)
    assert learner._gate.waiting
    assert learner._gate.nothing_wanted_at is None
    learner.thaw()
    assert learner.proposal() is not None


def test_a_proposal_that_waits_while_the_run_is_frozen_is_not_nothing(tmp_path):
    ledger = made(tmp_path / "run.db", DATED)
    play(ledger, 3)
    ledger.freeze(by="chief", reason="an alarm")
    status = ledger.status()
    assert (status.pending is not None, status.nothing_because) == (True, None)


# ---- the console and the client ------------------------------------------------------------------


def test_the_console_shows_the_next_date_and_offers_nothing_before_it(tmp_path):
    with Served(tmp_path, algorithm=DATED) as served:
        play(served.ledger, 1)
        operator = served.login("operator")
        for path in ("/", "/proposal"):
            text = served.page(path, operator)[1]
            assert "Next date: after episode 3, when 2 more are learned." in text
            assert 'action="/propose"' not in text
        assert "Next dates, in cases learned: 3; 6; 9" in served.page("/", operator)[1]
        status, _, body = served.request("POST", "/api/propose", {}, role="operator")
        assert (status, b"when 2 more are learned" in body) == (422, True)
        with Client(served.url, served.tokens["operator"]) as client:
            with pytest.raises(LedgerError, match="say early=True"):
                client.propose()
            assert client.propose(early=True).told == 1
            assert client.status().next_date == "after episode 3, when 2 more are learned"
            with pytest.raises(
                LedgerError, match="there is no proposal to decide on .None.; status"
            ):
                client.approve(None, reason="seen")
        assert served.ledger.status().proposed == 1


def test_a_page_is_about_one_moment(tmp_path, monkeypatch):
    """Whatever is decided as soon as something was read, the page is whole."""
    with Served(tmp_path, algorithm=MIXED) as served:
        ledger, operator = served.ledger, served.login("operator")
        read = served.service.engine.call

        async def and_somebody_decides(function):
            answer = await read(function)
            if (pending := ledger.proposal()) is not None:
                approve(ledger, pending)
            return answer

        monkeypatch.setattr(served.service.engine, "call", and_somebody_decides)
        for path, said in (("/", "Read the proposal"), ("/proposal", "12 changes of the protocol")):
            play(ledger, 3)
            assert said in served.page(path, operator)[1]
        monkeypatch.undo()
        play(ledger, 3)
        found = ledger.proposal

        def another_process_decides():
            monkeypatch.undo()
            approve(ledger, found())
            return found()

        monkeypatch.setattr(ledger, "proposal", another_process_decides)
        status, text = served.page("/", operator)
        assert (status, "None." in text) == (200, False)


def test_the_console_says_why_nothing_is_proposed(tmp_path):
    with Served(tmp_path, algorithm=ls.q_hoeffding(c=0.05, schedule="asked")) as served:
        operator = served.login("operator")
        assert served.post("/propose", operator, sure="1")[0] == 303
        text = served.page("/proposal", operator)[1]
        assert "The learner would change nothing." in text
        assert "When 0 cases were learned, the learner would have changed nothing." in text


def test_the_console_of_an_open_gate_promises_no_proposal_and_counts_all_dates(tmp_path):
    many = ls.psrl(schedule="late/30", deployments=30)
    with Served(tmp_path, algorithm=many, gate="open", episodes=100_000) as served:
        status, text = served.ledger.status(), served.page("/", served.login("operator"))[1]
        assert (len(status.dates), status.more_dates) == (20, 10)
        assert f"{status.dates[-1]:,} and 10 more" in text
        assert "Then the policy may change." in text
        assert "proposes by itself" not in text
