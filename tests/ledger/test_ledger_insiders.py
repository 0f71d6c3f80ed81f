"""What somebody who can write to the database does where nobody looks; docs/security.md names each.

The table of that page names the tests of its rows, and the last test here sees that they exist.
"""

import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from ledgers import S, approve, made, play, tables
from lowswitch.ledger import Ledger
from lowswitch.ledger.anchors import Known
from lowswitch.ledger.audit import verify_export
from lowswitch.ledger.errors import BrokenError, StorageError
from lowswitch.ledger.events import event
from lowswitch.service.access import Access

WRONG = {"number": 5, "states": [0] * 3, "actions": [1] * 3, "rewards": [1.0] * 3, "ended": "whole"}
FACTS = {"reason": "forged", "version": 1, "was": "learned", "instead": 11}
RIGHT = ([0, 1, 2], [1, 1, 1], [0, 1, 0])
WHO = {"by": "nurse", "reason": "a wrong file"}


def run_of(address):
    ledger = made(address)
    play(ledger, 12, decide=approve)
    return ledger


def forged(seq, kind="amended", previous="0" * 64):
    """An event of somebody who knows how hashes are made."""
    time = "2026-01-02T00:00:00+00:00"
    return event(seq, time, "nurse", "operator", kind, WRONG | FACTS, previous)


def edit(ledger, sql, *values):
    with ledger.store.transaction():
        ledger.store.execute(sql, *values)


# ---- rows where no walk comes by -----------------------------------------------------------------


@pytest.mark.parametrize("seq", [0, -5])
def test_an_event_before_the_first_one_is_found_and_not_acted_on(address, tmp_path, seq):
    ledger, honest = run_of(address), run_of(tmp_path / "honest.db")
    one = forged(seq)
    edit(ledger, "INSERT INTO events (seq, body, hash) VALUES (?, ?, ?)", seq, one.body, one.hash)
    assert (
        "the table of events has 1 more row with a number that no event has" in ledger.verify().what
    )
    for either in (ledger, honest):
        either.amend("t3", *RIGHT, **WHO)  # a replay, which takes in all amendments
    assert tables(ledger) == tables(honest)
    assert ledger.newest(100)[-1].seq == 1


SNAPSHOT = {
    "seq": "UPDATE snapshots SET seq = seq - 1",
    "hash": "UPDATE snapshots SET hash = replace(hash, substr(hash, 1, 4), 'beef')",
    "facts": "UPDATE snapshots SET facts = replace(facts, '\"issued\":', '\"issued\":1')",
    "learner": "UPDATE snapshots SET learner = tally",
    "tally": "UPDATE snapshots SET tally = learner",
}


@pytest.mark.parametrize("column", SNAPSHOT)
def test_every_column_of_a_snapshot_is_verified_and_opening_does_without_it(address, column):
    ledger = run_of(address)
    ledger.save_snapshot()
    before = tables(ledger)
    assert ledger.verify().whole
    edit(ledger, SNAPSHOT[column])
    assert not ledger.verify().whole
    with contextlib.closing(Ledger.open(address, read_only=True)) as again:
        assert tables(again) == before


EVENT = {
    "seq": "UPDATE events SET seq = 99 WHERE seq = 5",
    "body": "UPDATE events SET body = body || ' ' WHERE seq = 5",
    "hash": "UPDATE events SET hash = (SELECT hash FROM events WHERE seq = 4) WHERE seq = 5",
    "access body": "UPDATE access_events SET body = replace(body, 'site', 'reviewer')",
    "access hash": "UPDATE access_events SET hash = replace(hash, substr(hash, 1, 4), 'beef')",
    "access seq": "UPDATE access_events SET seq = seq + 1",
}


@pytest.mark.parametrize("column", EVENT)
def test_every_column_of_an_event_is_verified(address, column):
    ledger = run_of(address)
    with contextlib.closing(Access(str(address))) as access:
        access.create(name="north", role="site", days=1)
    assert ledger.verify().whole
    edit(ledger, EVENT[column])
    assert not ledger.verify().whole


def test_an_event_without_a_number_is_found(tmp_path):
    ledger, one = run_of(tmp_path / "a.db"), forged(7)
    edit(ledger, "INSERT INTO events (seq, body, hash) VALUES (NULL, ?, ?)", one.body, one.hash)
    assert "1 more row with a number that no event has" in ledger.verify().what


def test_an_event_whose_number_is_none_is_named(tmp_path):
    ledger = run_of(tmp_path / "a.db")
    edit(ledger, "UPDATE events SET seq = '5x' WHERE seq = 5")
    found = Ledger.open(tmp_path / "a.db", read_only=True).verify()
    assert (found.whole, "stored under '5x', which is not a number" in found.what) == (False, True)


def test_a_ticket_that_points_nowhere_is_named_when_it_is_listed(address):
    ledger = run_of(address)
    ledger.ask("here", "open")
    edit(ledger, "UPDATE tickets SET asked = 4711 WHERE status = 'open'")
    with pytest.raises(BrokenError, match="event 4711: it is not there"):
        ledger.list_tickets("open")
    assert "is stored with the asked 4711" in ledger.verify().what
    edit(ledger, "UPDATE tickets SET version = 4711 WHERE number = 3")
    with pytest.raises(StorageError, match="stored with version 4711, which does not exist"):
        ledger.tell("t3", *RIGHT)


@pytest.mark.parametrize("seq", [0, None])
@pytest.mark.parametrize("tokens", [0, 2])
def test_a_forged_row_about_access_is_found(tmp_path, tokens, seq):
    ledger = run_of(tmp_path / "a.db")
    with contextlib.closing(Access(str(tmp_path / "a.db"))) as access:
        for i in range(tokens):
            access.create(name=f"site {i}", role="site", days=1)
    edit(ledger, "INSERT INTO access_events (seq, body, hash) VALUES (?, ?, ?)", seq, "[]", "x")
    assert "the record of access is damaged" in ledger.verify().what


def test_a_database_that_says_it_is_older_has_lost_its_record_of_access(tmp_path):
    run_of(tmp_path / "a.db").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as database:
        for statement in (
            "PRAGMA user_version = 2",
            "DROP TABLE access_events",
            "DROP TABLE token_uses",
            "DROP INDEX tickets_open_by_site",
        ):
            database.execute(statement)
    found = Ledger.open(tmp_path / "a.db", read_only=True).verify()
    assert "the record of access is missing, and the run began with one" in found.what


def test_an_exported_event_that_says_two_things_is_found(tmp_path):
    ledger = run_of(tmp_path / "a.db")
    ledger.export(tmp_path / "e.jsonl")
    first, *others = (tmp_path / "e.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "e.jsonl").write_text('{"actor": "the board", ' + first[1:] + "".join(others))
    found = verify_export(tmp_path / "e.jsonl")
    assert (found.first_bad, "it has a field twice" in found.what) == (1, True)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE tickets DROP CONSTRAINT tickets_site_request_key", "no unique index"),
        ("ALTER TABLE events ENABLE ROW LEVEL SECURITY", "row security on 'events'"),
        ("CREATE RULE nothing AS ON UPDATE TO tickets DO INSTEAD NOTHING", "a foreign rule"),
        ("CREATE TABLE more (x INT)", "a foreign table 'more'"),
    ],
)
def test_a_changed_schema_of_postgresql_is_found(postgres, statement, says):
    name = re.sub(r"\W", "_", says)
    ledger = run_of(f"{postgres.get_uri()}#{name}")
    assert ledger.verify().whole
    edit(ledger, statement)
    assert f"its schema has {says}" in ledger.verify().what


# ---- what is not promised ------------------------------------------------------------------------


def test_events_that_are_appended_with_fitting_hashes_are_as_good_as_true_ones(tmp_path):
    ledger = run_of(tmp_path / "a.db")
    known = [Known(*ledger.store.head(), "the anchor")]
    with Ledger.open(tmp_path / "a.db") as insider:
        insider.freeze(by="Ms Okafor", reason="never happened")
    assert ledger.verify(known=known).whole


def test_what_was_written_since_the_last_anchor_can_be_taken_back(tmp_path):
    ledger = run_of(tmp_path / "a.db")
    known = [Known(*ledger.store.head(), "the anchor")]
    ledger.backup(tmp_path / "older.db")
    play(ledger, 3)
    told = ledger.newest(1)[0].hash
    ledger.close()
    shutil.copy(tmp_path / "older.db", tmp_path / "a.db")
    with Ledger.open(tmp_path / "a.db", read_only=True) as back:
        assert back.verify(known=known).whole
        assert not back.verify(known=[Known(None, told, "the site's hash")]).whole


def test_the_last_use_of_a_token_is_no_event(tmp_path):
    ledger = run_of(tmp_path / "a.db")
    edit(ledger, "INSERT INTO token_uses VALUES ('a1', '2031-01-01T00:00:00+00:00')")
    assert ledger.verify().whole


def test_a_site_may_report_what_did_not_happen(tmp_path):
    ledger = made(tmp_path / "a.db")
    issued = ledger.ask("here", "nobody")
    ledger.tell(issued.ticket, [0, 1, S - 1], [0, 0, 0], [1, 1, 1])
    assert ledger.verify().whole


# ---- the page ------------------------------------------------------------------------------------


def test_every_row_of_the_page_has_a_test():
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    section = page.partition("{ #insiders }")[2].partition("\n## ")[0]
    table, _, note = section.partition("??? note")
    rows, shown = (re.findall(r"^ *\| (\d+) \| (.*)$", text, re.M) for text in (table, note))
    written = "".join(path.read_text() for path in Path(__file__).parents[1].glob("*/test_*.py"))
    assert len(rows) >= 18
    assert [number for number, _ in rows] == [number for number, _ in shown]
    for number, row in shown:
        names = re.findall(r"`(test_\w+)`", row)
        assert names or "no test" in row, number
        for name in names:
            assert f"def {name}(" in written, name
