"""Kinds of events: one table says what is true of each, and a column of the database finds them."""

import ast
from pathlib import Path

import pytest

import lowswitch as ls
from ledgers import approve, made, play, steady
from lowswitch.ledger import Ledger, StorageError
from lowswitch.ledger.events import KINDS
from lowswitch.ledger.state import State

SOURCE = Path(ls.__file__).parent
FILES = [file for part in ("ledger", "service", "cli") for file in (SOURCE / part).glob("*.py")]


def listed(node):
    """The texts that a tuple, a list or a set lists, or that are the keys of a dictionary."""
    nodes = getattr(node, "keys" if isinstance(node, ast.Dict) else "elts", [])
    return [one.value for one in nodes if isinstance(one, ast.Constant)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_kinds_are_listed_in_one_table(file):
    lists = [listed(node) for node in ast.walk(ast.parse(file.read_text()))]
    found = [one for one in lists if len(one) > 1 and set(one) <= set(KINDS)]
    assert found == ([list(KINDS)] if file.name == "events.py" else [])


def test_a_state_takes_in_every_kind_but_the_first_event():
    assert [kind for kind in KINDS if not hasattr(State, f"_{kind}")] == ["created"]


# ---- the column ----------------------------------------------------------------------------------


def without_column(ledger):
    """Let a database be as version 1 of the format had it."""
    with ledger.store.transaction():
        ledger.store.execute("DROP INDEX events_kind")
        ledger.store.execute("ALTER TABLE events DROP COLUMN kind")
        if hasattr(ledger.store, "schema"):
            ledger.store.execute("UPDATE format SET version = 1")
        else:
            ledger.store.execute("PRAGMA user_version = 1")


def found(ledger):
    """The numbers of the events of each kind."""
    return {kind: [event.seq for event in ledger.newest(99, kind=kind)] for kind in KINDS}


def run(address):
    """A ledger with decisions and an actor whose name looks like the text of an event."""
    ledger = made(address)
    play(ledger, 12, site='"site","told",{', decide=approve)
    ledger.freeze(by="a\\", reason='null: \0, ","met",{')
    return ledger


def test_events_are_found_by_their_kind(address):
    ledger = run(address)
    for kind, numbers in found(ledger).items():
        assert numbers == [event.seq for event in ledger.events() if event.kind == kind][::-1]


def test_kinds_have_an_index(tmp_path):
    ledger = made(tmp_path / "run.db")
    sql = "EXPLAIN QUERY PLAN SELECT body FROM events WHERE kind = 'told' ORDER BY seq DESC LIMIT 9"
    assert "USING INDEX events_kind (kind=?)" in str(ledger.store.execute(sql))


def test_a_ledger_of_format_1_is_read_as_it_is_and_filled_when_it_is_written(address, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr("lowswitch.ledger.ledger.NEWEST", 1)  # which its first event says
        ledger = run(address)
    wanted = found(ledger)
    without_column(ledger)
    for what in ("TABLE access_events", "TABLE token_uses", "INDEX tickets_open_by_site"):
        ledger.store.execute(f"DROP {what}")
    ledger.close()
    with Ledger.open(address, read_only=True) as reader:
        assert (reader.store.format(), found(reader)) == (1, wanted)
        assert reader.verify().whole
    opened = steady(Ledger.open(address))
    assert (opened.store.format(), found(opened)) == (3, wanted)
    opened.thaw(by="chief", reason="to go on")
    play(opened, 1)
    assert len(opened.newest(99, kind="told")) == len(wanted["told"]) + 1
    assert opened.verify().whole


def test_a_changed_kind_is_refused_by_the_database_or_found_by_verify(address):
    ledger = run(address)
    with pytest.raises(StorageError, match="kind"):
        ledger.store.execute("UPDATE events SET kind = 'met' WHERE seq = 5")
    without_column(ledger)
    ledger.store.execute("ALTER TABLE events ADD COLUMN kind TEXT")
    ledger.store.execute(f"UPDATE events SET kind = {ledger.store.kind_in_body}")
    assert ledger.verify().first_bad is None  # no event, but the schema of SQLite
    ledger.store.execute("UPDATE events SET kind = 'met' WHERE seq = 5")
    verdict = ledger.verify()
    assert (verdict.whole, verdict.first_bad) == (False, 5)
    assert "it is stored under the kind 'met', but its text says" in verdict.what


def test_a_proposal_that_is_not_found_is_no_crash(tmp_path):
    ledger = made(tmp_path / "run.db", ls.psrl(schedule="asked"))
    play(ledger, 3)
    assert ledger.propose(by="board") is not None
    without_column(ledger)
    ledger.store.execute("ALTER TABLE events ADD COLUMN kind TEXT")
    with pytest.raises(StorageError, match="verify says why"):
        ledger.proposal()
