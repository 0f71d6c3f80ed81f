"""Ledgers whose learner has dates: what is shown of them, and that a late board loses none."""

import pytest

import lowswitch as ls
from ledgers import approve, made, play
from lowswitch import cli
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.service.journal import Journal
from lowswitch.service.shown import why_now
from served import Served

DATED = ls.psrl(schedule="calendar/3-6-9", deployments=3)


def test_a_status_says_which_dates_come_and_how_far_the_next_one_is(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address, DATED)
    play(ledger, 1)
    status = ledger.status()
    assert (status.told, status.dates) == (1, [3, 6, 9])
    assert status.next_date == "after episode 3, 2 reports from now"
    assert not status.may_ask
    assert cli.main(["ledger", "status", str(address)]) == 0
    printed = capsys.readouterr().out
    assert "next_date        after episode 3, 2 reports from now" in printed
    assert "dates            3 6 9" in printed
    play(ledger, 2)  # the date has come, and what it proposed waits
    assert ledger.status().nothing_because is None
    play(ledger, 17, decide=approve)
    last = ledger.status()
    assert (last.dates, last.next_date, last.proposed) == ([], None, 3)
    assert last.nothing_because == "the budget is spent, and the deployed policy stays"


def test_a_proposal_between_two_dates_is_refused_unless_it_is_meant(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address, DATED)
    play(ledger, 1)
    before = ledger.status()
    with pytest.raises(
        LedgerError, match=r"after episode 3, 2 reports from now.*one of the 3 that"
    ):
        ledger.propose(by="secretary")
    assert ledger.status() == before
    assert cli.main(["ledger", "propose", str(address), "--by", "me"]) == 2
    assert "--early" in capsys.readouterr().err
    assert cli.main(["ledger", "propose", str(address), "--by", "me", "--early"]) == 0
    assert ledger.status().proposed == 1
    assert ledger.propose(by="secretary") is not None  # it replaces that one, and costs nothing
    assert ledger.status().proposed == 1


@pytest.mark.parametrize("decide", ["approve", "reject"])
def test_a_date_that_passes_while_a_proposal_waits_is_not_lost(tmp_path, decide):
    mixed = ls.psrl(members=16, schedule="calendar/3-6-9", deployments=3)  # changes every row
    ledger = made(tmp_path / "run.db", mixed)
    play(ledger, 7)  # nobody decides on the proposal of episode 3
    first = ledger.proposal()
    assert (first.told, ledger.status().proposed) == (3, 1)
    getattr(ledger, decide)(first, by="board", reason="late")
    second = ledger.proposal()
    assert (second.told, ledger.status().proposed) == (7, 2)
    (met,) = ledger.newest(1, kind="met")
    assert (met.actor, met.payload) == ("ledger", {"date": 6})
    journal = Journal(Ledger.open(tmp_path / "run.db", read_only=True))
    journal.catch_up()
    assert why_now(journal, second).startswith("Its date after episode 6 passed while")
    journal.reader.close()
    approve(ledger, second)  # no date has passed since
    assert ledger.proposal() is None
    play(ledger, 2)
    assert ledger.proposal().told == 9
    assert ledger.verify().whole


def test_rows_that_became_due_while_a_proposal_waited_say_so(tmp_path):
    ledger = made(tmp_path / "run.db", DATED)
    play(ledger, 7)  # what the date after episode 6 wants lies in other rows, too
    approve(ledger, ledger.proposal())
    assert ledger.proposal().told == 7
    assert ledger.newest(1, kind="met") == []
    journal = Journal(Ledger.open(tmp_path / "run.db", read_only=True))
    journal.catch_up()
    assert why_now(journal, ledger.proposal()).startswith("It became due while the proposal waited")
    journal.reader.close()


def test_whoever_asks_in_vain_is_told_why(tmp_path, capsys):
    address = tmp_path / "run.db"
    ledger = made(address, ls.q_hoeffding(c=0.05, schedule="asked"))
    assert ledger.propose(by="secretary") is None
    why = "after 0 episodes the learner wanted no other policy than the deployed one"
    assert ledger.status().nothing_because == why
    play(ledger, 1)
    ledger.save_snapshot()
    ledger.close()
    assert Ledger.open(address).status().nothing_because == why
    assert cli.main(["ledger", "proposal", str(address)]) == 0
    assert capsys.readouterr().out == f"nothing to propose: {why}\n"
    assert cli.main(["ledger", "proposal", str(address), "--json"]) == 0
    assert capsys.readouterr().out == "null\n"


def test_a_date_on_which_nothing_is_wanted_is_named():
    learner = ls.Learner(
        ls.q_hoeffding(c=0.05, schedule="calendar/2-5"),
        horizon=1,
        states=1,
        actions=1,  # there is nothing to change to
        episodes=9,
        gate="review",
    )
    assert learner.why_nothing() == "nothing is due, and nobody has asked"
    learner.tell([[0]] * 3, [[0]] * 3, [[1.0]] * 3)
    assert learner.dates.tolist() == [5]
    assert learner.why_nothing().startswith("after 2 episodes the learner wanted no other")
    learner.freeze()
    assert learner.why_nothing() == "the learner is frozen"


def test_the_console_shows_the_next_date_and_offers_nothing_before_it(tmp_path):
    with Served(tmp_path, algorithm=DATED) as served:
        play(served.ledger, 1)
        operator = served.login("operator")
        for path in ("/", "/proposal"):
            text = served.page(path, operator)[1]
            assert "Next date: after episode 3, 2 reports from now." in text
            assert 'action="/propose"' not in text
        assert "Dates to come, in episodes: 3; 6; 9" in served.page("/", operator)[1]
        status, _, body = served.request("POST", "/api/propose", {}, role="operator")
        assert (status, b"2 reports from now" in body) == (422, True)
        early = served.json("POST", "/api/propose", {"early": True}, role="operator")
        assert early[0] == 200
        assert served.ledger.status().proposed == 1
