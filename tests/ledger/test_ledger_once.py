"""Everything is done once, however often it is sent; and a ledger is made once, or not at all."""

import os
import signal
import sqlite3
import stat

import numpy as np
import pytest

import lowswitch as ls
from ledgers import A, H, S, approve, made, play, tables
from lowswitch.cli import commands
from lowswitch.ledger import (
    Client,
    ConflictError,
    Ledger,
    LedgerError,
    NotALedgerError,
    corrections,
    import_csv,
    snapshot,
)
from served import Served

ASKED = ls.psrl(members=1, schedule="asked", deployments=9)
RIGHT, OTHER = ([1, 2, 3], [0, 1, 0], [0, 0, 1]), ([1, 2, 3], [0, 1, 0], [0, 1, 1])
WHO = {"by": "office", "reason": "minutes 3"}


def acts(ledger):
    """Each thing that people do, as a call that takes the name of its request."""
    ticket = ledger.ask("here", "late").ticket
    yield "missing", lambda **name: ledger.missing(ticket, WHO["reason"], by="office", **name)
    yield "amended", lambda **name: ledger.amend("t2", *RIGHT, **WHO, **name)
    yield "met", lambda **name: ledger.propose(by="office", **name)
    proposal = ledger.proposal() or ledger.propose(by="secretary")
    row = [(proposal.rows[0]["step"], proposal.rows[0]["state"])]
    yield "rejected", lambda **name: ledger.reject(proposal, rows=row, **WHO, **name)
    rest = ledger.proposal()
    yield "approved", lambda **name: ledger.approve(rest, **WHO, **name)
    yield "rolled_back", lambda **name: ledger.rollback(1, **WHO, **name)
    yield "frozen", lambda **name: ledger.freeze(**WHO, **name)
    yield "thawed", lambda **name: ledger.thaw(**WHO, **name)
    yield "extended", lambda **name: ledger.extend(7, **WHO, **name)
    yield "ended", lambda **name: ledger.end(**WHO, **name)


def test_what_has_a_name_is_done_once(address):
    ledger = made(address, ASKED)
    play(ledger, 12)
    for number, (kind, act) in enumerate(acts(ledger)):
        name = f'request {number} "é%_'
        first, events = act(request=name), ledger.status().events
        assert ledger.newest(1, kind=kind)[0].payload["request"][0] == name
        assert act(request=name) == first
        assert ledger.status().events == events, kind
    assert ledger.verify().whole
    with pytest.raises(ConflictError, match="used the name 'request 7 .* for another request"):
        ledger.thaw(by="office", reason="other", request='request 7 "é%_')
    with pytest.raises(LedgerError, match="this run has ended"):
        ledger.thaw(by="chief", reason="minutes 3", request='request 7 "é%_')  # their own name


def test_the_command_that_extends_a_run_passes_its_name_on(tmp_path):
    made(tmp_path / "a.db").close()
    line = ["ledger", "extend", str(tmp_path / "a.db"), "--more", "7", "--by", "x", "--reason", "y"]
    for _ in range(2):
        assert commands.main([*line, "--request", "minutes 9"]) == 0
    assert Ledger.open(tmp_path / "a.db").status().episodes == 207


def test_the_report_that_is_on_record_is_not_amended_again(address):
    ledger = made(address, ASKED)
    play(ledger, 3)
    first = ledger.amend("t2", *RIGHT, **WHO)
    assert ledger.amend("t2", *RIGHT, **WHO) == first
    assert ledger.status().events == first.event
    other = ledger.amend("t2", *OTHER, **WHO, request="second")
    assert ledger.amend("t2", *RIGHT, **WHO).event > other.event  # a correction of its own
    assert ledger.amend("t2", *OTHER, **WHO, request="second") == other


def test_a_file_that_is_imported_twice_counts_once(tmp_path, capsys):
    ledger, file = made(tmp_path / "run.db", ASKED), tmp_path / "old.csv"
    lines = ["episode,step,state,action,reward"]
    lines += [f"{k},{h},{(k + h) % S},{k % A},{k % 2}" for k in range(20) for h in range(H)]
    file.write_text("\n".join(lines))
    options = {"most": 5, "by": "office", "attested": "the state alone decided"}
    proposal = import_csv(ledger, file, **options)
    known = ledger._ready().learner.visits.copy()
    assert import_csv(ledger, file, **options) == proposal
    other = tmp_path / "renamed.csv"
    other.write_text(file.read_text())
    words = ["--most", "5", "--by", "office", "--attested", "the state alone decided"]
    assert commands.main(["ledger", "import", str(tmp_path / "run.db"), str(other), *words]) == 0
    capsys.readouterr()
    assert (ledger._ready().learner.visits == known).all()
    with pytest.raises(ConflictError, match=r"on record \(event 2\) with most=5, and count once"):
        import_csv(ledger, file, **options | {"most": 9})
    file.write_text("\n".join(lines[: 1 + 10 * H]))
    events = ledger.status().events
    import_csv(ledger, file, **options)  # other episodes
    assert ledger.status().events > events


def test_a_lost_answer_does_not_repeat_a_decision(tmp_path):
    """The client sends again when a connection breaks, under the same name."""
    with (
        Served(tmp_path) as served,
        Client(served.url, served.tokens["operator"]) as operator,
    ):
        body = {"reason": "an alarm", "request": "a name"}
        for _ in range(2):
            assert served.json("POST", "/api/freeze", body, role="operator")[0] == 200
        assert served.json("POST", "/api/freeze", body | {"reason": "b"}, role="operator")[0] == 409
        operator.thaw(reason="over", request="another")
        operator.thaw(reason="over", request="another")
        kinds = [event.kind for event in served.ledger.newest(9) if event.kind != "asked"]
        assert kinds[:2] == ["thawed", "frozen"]
        with pytest.raises(LedgerError, match="is not paused"):
            operator.thaw(reason="over")


# ---- making a ledger -----------------------------------------------------------------------------


def killed_at(place, path):
    """Make a ledger in another process that is killed when it reaches a system call."""
    child = os.fork()
    if child == 0:
        count, call = 0, getattr(os, place)

        def reached(*given, **named):
            nonlocal count
            count += 1
            os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **named)

        setattr(os, place, reached)
        made(path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("place", ["chmod", "fsync", "link"])
def test_a_kill_while_a_ledger_is_made_leaves_nothing(tmp_path, place):
    path = tmp_path / "run.db"
    killed_at(place, path)
    assert not path.exists()
    ledger = made(path)
    play(ledger, 1)
    assert ledger.verify().whole
    ledger.close()
    assert {one.name for one in tmp_path.iterdir()} == {"run.db"}  # what was left is swept up
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_kill_after_a_ledger_is_made_leaves_it(tmp_path):
    path = tmp_path / "run.db"
    killed_at("unlink", path)
    with pytest.raises(NotALedgerError, match="exists already"):
        made(path)
    assert Ledger.open(path).status().events == 1


def test_a_half_made_file_of_an_earlier_version_is_made_anew(tmp_path):
    path = tmp_path / "run.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert made(path).status().events == 1
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE mine (x)").connection.close()
    with pytest.raises(NotALedgerError, match="exists already"):
        made(other)


# ---- amendments ----------------------------------------------------------------------------------

CORRECTED = [
    ls.q_hoeffding(c=0.05),
    ls.q_hoeffding(c=0.05, schedule="asked"),
    ls.psrl(members=3, schedule="asked", deployments=50),
    ls.few(deployments=12),
]


@pytest.mark.parametrize("algorithm", CORRECTED, ids=range(4))
def test_an_amendment_replays_from_a_mark_to_the_same_bit(tmp_path, monkeypatch, algorithm):
    """With marks every few events, and with none at all; asked in between, and not."""
    monkeypatch.setattr(corrections, "_EVERY", 9)
    monkeypatch.setattr(corrections, "_MOST", 6)
    monkeypatch.setattr(snapshot, "_EVERY", 30)
    ledger, generator = made(tmp_path / "a.db", algorithm, episodes=400), np.random.default_rng(0)
    for number in range(1, 43):
        play(ledger, 1, decide=approve if number % 7 else None)
        if number % 14 == 0 and ledger.proposal() is None:
            ledger.propose(by="office", early=True)
        if number > 15 and number % 3 == 0:
            wrong = f"t{int(generator.integers(1, number))}"
            right = generator.integers(0, (S, A, 2), (H, 3)).T.tolist()
            ledger.amend(wrong, *right, **WHO)
    assert ledger.verify().whole
    expected = tables(ledger)
    monkeypatch.setattr(corrections, "_EVERY", 10**6)
    fresh = Ledger.open(tmp_path / "a.db", read_only=True)
    monkeypatch.setattr(fresh, "_snapshots", list)
    assert tables(fresh) == expected
    assert fresh.verify().whole


def right(ticket, report):
    return dict(zip(("ticket", "states", "actions", "rewards"), (ticket, *report), strict=True))


def test_amendments_of_one_transaction_are_learned_as_if_one_by_one(tmp_path):
    ledger, other = made(tmp_path / "a.db", ASKED), made(tmp_path / "b.db", ASKED)
    for one in (ledger, other):
        play(one, 12)
    reports = [right("t2", RIGHT), right("t3", OTHER)]
    first = ledger.amend_many(reports, **WHO, request="file 7")
    assert [told.ticket for told in first] == ["t2", "t3"]
    for report in reports:
        other.amend(**report, **WHO)
    assert tables(ledger) == tables(other)
    ledger.save_snapshot()
    assert ledger.verify().whole
    assert ledger.amend_many(reports, **WHO, request="file 7") == first
    assert ledger.amend_many(reports, **WHO) == first  # they are on record as they are


def test_amendments_of_one_transaction_lead_to_one_replay_and_one_proposal(tmp_path, monkeypatch):
    ledger, replays = made(tmp_path / "a.db", ls.q_hoeffding(c=0.05)), []
    play(ledger, 20)
    assert ledger.proposal() is not None  # which is made anew
    rebuilt = corrections.Corrections.rebuilt
    monkeypatch.setattr(
        corrections.Corrections,
        "rebuilt",
        lambda self, event, terms: replays.append(event.seq) or rebuilt(self, event, terms),
    )
    before = ledger.status().events
    ledger.amend_many([right(f"t{i}", RIGHT) for i in (9, 3, 5, 7)], **WHO)
    kinds = [event.kind for event in ledger.events(before + 1)]
    assert (kinds, replays) == (["amended"] * 4 + ["proposed"], [before + 4])
    assert ledger.verify().whole
    assert tables(Ledger.open(tmp_path / "a.db", read_only=True)) == tables(ledger)


def test_many_amendments_are_taken_together_or_not_at_all(address):
    ledger = made(address, ASKED)
    play(ledger, 12)
    ledger.ask("here", "open")
    before = ledger.status()
    for reports, why in (
        ([right("t2", RIGHT), right("t13", RIGHT)], "t13 is open; report on it with tell"),
        ([right("t2", RIGHT), right("t2", OTHER)], "a ticket is there twice"),
        ([right("t2", RIGHT), right("t3", OTHER) | {"rewards": [2, 2, 2]}], r"\[0, 1\]|range"),
    ):
        with pytest.raises(LedgerError, match=why):
            ledger.amend_many(reports, **WHO)
    assert ledger.status() == before
    assert ledger.amend_many([], **WHO) == []


def test_a_ledger_that_is_closed_opens_from_a_snapshot(tmp_path):
    ledger = made(tmp_path / "a.db", ASKED)
    play(ledger, 12)
    ledger.amend("t2", *RIGHT, **WHO)
    ledger.close()
    opened = Ledger.open(tmp_path / "a.db", read_only=True)
    assert opened.newest(1)[0].kind == "snapshot"
    read, firsts = opened.store.read, []
    opened.store.read = lambda first: firsts.append(first) or read(first)
    assert (opened.status().learned, firsts) == (12, [opened.status().events])
    opened.close()
    Ledger.open(tmp_path / "a.db").close()  # nothing happened, so nothing is written
    assert Ledger.open(tmp_path / "a.db").verify().whole
