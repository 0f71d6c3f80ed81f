"""A damaged or lost ledger is made anew from its own events and from a backup."""

import contextlib
import json
import os
import sqlite3
from pathlib import Path

import pytest

from ledgers import approve, made, play
from lowswitch.cli import commands
from lowswitch.io.files import owning
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.address import store_at
from lowswitch.ledger.errors import DamagedError, FrozenError
from lowswitch.ledger.restores import restore
from lowswitch.service.access import Access

BAD = "UPDATE events SET body = body || ' ' WHERE seq = {}"


def run(capsys, *arguments):
    code = commands.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def changed(address, *statements):
    """Let somebody run statements in the database of a ledger."""
    with contextlib.closing(store_at(address)) as store, store.transaction():
        for sql in statements:
            store.execute(sql)


def played(address, episodes=30):
    """A ledger with episodes, decisions and a snapshot."""
    ledger = made(address)
    play(ledger, episodes, decide=approve)
    ledger.save_snapshot()
    ledger.ask("here", "the last")
    ledger.close()


def backed_up(address, path):
    with Ledger.open(address, read_only=True) as ledger:
        ledger.backup(path)
        return ledger.store.head()


def backed_up_and_paused(address, folder):
    """A ledger that went on after its backup, and was paused; the backup and its events."""
    played(address)
    known, _ = backed_up(address, folder / "backup.db")
    with Ledger.open(address) as ledger:
        play(ledger, 3)
        ledger.freeze(by="Ms Okafor", reason="two adverse events")
    return folder / "backup.db", known


def head(address):
    with Ledger.open(address, read_only=True) as ledger:
        assert ledger.verify(progress=False).whole
        return ledger.store.head()


def kept(address, damaged):
    """The address of the damaged ledger; that which is printed may leave out parts of it."""
    name = damaged.partition("#")[2]
    return f"{str(address).partition('#')[0]}#{name}" if name else damaged


def told_after(address, seq):
    """The number of a report on record after an event."""
    with contextlib.closing(store_at(address, read_only=True)) as store:
        rows = store.execute("SELECT MIN(seq) FROM events WHERE kind = 'told' AND seq > ?", seq)
    return rows[0][0]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE snapshots SET tally = learner",
        "UPDATE tickets SET site = 'there' WHERE number = 7",
        "DELETE FROM tickets WHERE number = 9",
    ],
)
def test_a_ledger_whose_events_are_whole_needs_no_backup(address, capsys, sql):
    played(address)
    with Ledger.open(address) as ledger:
        before = ledger.store.head()
    changed(address, sql)
    code, out, _ = run(capsys, "ledger", "verify", address, "--json")
    assert (code, "computes everything else" in json.loads(out)["remedy"]) == (3, True)
    done = restore(address, by="operator")
    assert (done.lost, done.paused, done.tokens) == ("nothing", False, "as they were")
    with Ledger.open(address) as after:
        assert after.events(before[0]).__next__().hash == before[1]  # so anchors still hold
        assert after.ask("here", "the last").number == 31
        play(after, 3)
        assert after.verify(progress=False).whole
    with Ledger.open(kept(address, done.damaged), read_only=True) as evidence:
        assert not evidence.verify(progress=False).whole


def test_a_bad_event_needs_a_backup(tmp_path, capsys):
    path = tmp_path / "run.db"
    played(path)
    changed(path, BAD.format(told_after(path, 20)))
    code, out, _ = run(capsys, "ledger", "verify", path, "--json")
    assert (code, "--backup FILE" in json.loads(out)["remedy"]) == (3, True)
    code, _, error = run(capsys, "ledger", "restore", path, "--by", "operator")
    assert (code, "its hash does not match its text; give a backup" in error) == (3, True)
    assert not list(tmp_path.glob("run.db.*"))


def test_what_follows_a_backup_comes_from_the_damaged_ledger(address, tmp_path):
    """An event before the backup is bad: nothing is lost, neither decisions nor tokens."""
    backup, known = backed_up_and_paused(address, tmp_path)
    with Ledger.open(address) as ledger:
        before = ledger.store.head()
    with contextlib.closing(Access(str(address))) as access:
        token = access.create(name="north", role="site", days=9)
    changed(address, BAD.format(told_after(address, 20)))
    done = restore(address, backup, by="operator")
    assert (done.lost, done.recovered, done.tokens) == (
        "nothing",
        before[0] - known,
        "as they were",
    )
    assert done.paused
    assert head(address)[0] >= before[0]
    with Ledger.open(address) as ledger, pytest.raises(FrozenError, match="two adverse events"):
        ledger.ask("here", "new")
    with contextlib.closing(Access(str(address))) as access:
        assert access.check(token) is not None


def test_a_run_with_losses_starts_paused_and_says_which_decisions_are_lost(address, tmp_path):
    backup, known = backed_up_and_paused(address, tmp_path)
    with Ledger.open(address) as ledger:
        ledger.thaw(by="Ms Okafor", reason="explained")
        last, _ = ledger.store.head()
    with contextlib.closing(Access(str(address))) as access:
        token = access.create(name="north", role="site", days=9)
        with Ledger.open(address, read_only=True) as ledger:
            access.keep(ledger.verify(progress=False), by="auditor")
    bad = told_after(address, known)
    changed(address, BAD.format(bad))
    done = restore(address, backup, by="Ms Okafor")
    assert done.paused
    assert done.recovered == bad - 1 - known
    assert done.lost.startswith(f"{last - bad + 1} events after event {bad - 1}")
    words = [line.split(" ", 1)[1] for line in done.decisions_lost]
    assert words == [
        "Ms Okafor paused the run: two adverse events",
        "Ms Okafor resumed the run: explained",
    ]
    head(address)  # whole, although an earlier verify saw more events
    with Ledger.open(address) as ledger:
        with pytest.raises(FrozenError, match="restored from a backup; lost"):
            ledger.ask("here", "new")
        ledger.thaw(by="Ms Okafor", reason="the board has read the list")
        play(ledger, 3)
    head(address)
    with contextlib.closing(Access(str(address))) as access:
        assert access.check(token) is not None  # the record of access was whole


def test_a_lost_ledger_is_restored_on_another_machine(address, tmp_path, capsys):
    played(address)
    with contextlib.closing(Access(str(address))) as access:
        token = access.create(name="north", role="site", days=9)
    backup, there = tmp_path / "backup.db", tmp_path / "new" / "run.db"
    known, before = backed_up(address, backup)
    there.parent.mkdir()
    os.chmod(backup, 0o400)
    code, out, _ = run(
        capsys, "ledger", "restore", there, "--backup", backup, "--by", "operator", "--json"
    )
    said = json.loads(out)
    assert (code, said["paused"], said["damaged"]) == (0, True, None)
    assert said["lost"].startswith(f"everything after event {known}")
    assert "revoke again what changed since" in said["tokens"]
    with Ledger.open(there, read_only=True) as ledger:
        assert ledger.store.event(known)[2] == before
    with contextlib.closing(Access(str(there))) as access:
        assert access.check(token) is not None
    assert there.stat().st_mode & 0o777 == 0o600


def test_a_damaged_record_of_access_comes_from_the_backup(address, tmp_path):
    played(address)
    with contextlib.closing(Access(str(address))) as access:
        old = access.create(name="north", role="site", days=9)
        backed_up(address, tmp_path / "backup.db")
        new = access.create(name="south", role="site", days=9)
    changed(address, "UPDATE access_events SET hash = '00' WHERE seq = 1")
    with pytest.raises(DamagedError, match="record of access .* give a backup"):
        restore(address, by="operator")
    done = restore(address, tmp_path / "backup.db", by="operator")
    assert (done.lost, done.paused, done.tokens) == ("nothing", False, "as they were")
    with contextlib.closing(Access(str(address))) as access:
        assert access.check(old)
        assert access.check(new)


def test_events_that_lead_to_others_are_cut_off_with_them(tmp_path):
    """The damaged event is the proposal that a report led to, so that the report goes, too."""
    path, backup = tmp_path / "run.db", tmp_path / "backup.db"
    ledger = made(path)
    backed_up(path, backup)
    play(ledger, 30, decide=approve)
    ledger.close()
    with contextlib.closing(store_at(path)) as store:
        (bad,) = store.execute("SELECT MIN(seq) FROM events WHERE kind = 'proposed'")[0]
    changed(path, f"UPDATE events SET hash = '00' WHERE seq = {bad}")
    done = restore(path, backup, by="operator")
    assert done.recovered < bad - 2
    head(path)


def test_a_page_of_the_file_is_overwritten(tmp_path, capsys):
    """The tickets cannot be read any more; the events can."""
    path = tmp_path / "run.db"
    played(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'tickets'"
        (page,) = connection.execute(sql).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 200)
    code, out, _ = run(capsys, "ledger", "verify", path, "--json")
    said = json.loads(out)["what"]
    assert (code, "malformed" in said, "room" in said) == (3, True, False)
    assert "ledger restore" in said
    assert restore(path, by="operator").lost == "nothing"
    head(path)


def test_a_file_that_cannot_be_read_exits_with_3_and_needs_a_backup(tmp_path, capsys):
    """Its header is overwritten, or marks another kind of file, or the file is cut or empty."""
    path, backup = tmp_path / "run.db", tmp_path / "backup.db"
    played(path)
    known, _ = backed_up(path, backup)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    flipped = whole[:68] + bytes([whole[68] ^ 1]) + whole[69:]  # the mark of a ledger
    for damaged in (bytes(100) + whole[100:], flipped, whole[: len(whole) // 3], b""):
        path.write_bytes(damaged)
        for command in ("verify", "status"):
            code, _, error = run(capsys, "ledger", command, path)
            assert (code, "give --backup FILE" in error) == (3, True)
        assert run(capsys, "ledger", "restore", path, "--by", "operator")[0] == 3
        done = restore(path, backup, by="operator")
        assert done.lost.startswith(f"everything after event {known}")
        assert ["nobody can read" in line for line in done.decisions_lost] == [True]
        head(path)


def test_a_text_that_is_no_text_any_more_is_named_by_its_event(tmp_path, capsys):
    """One bit of a letter makes it a byte that UTF-8 does not have."""
    path = tmp_path / "run.db"
    played(path)
    bad = told_after(path, 20)
    changed(
        path,
        "UPDATE events SET body = CAST(CAST(substr(body, 1, 9) AS BLOB) || x'e3' || "
        f"CAST(substr(body, 11) AS BLOB) AS TEXT) WHERE seq = {bad}",
    )
    code, out, _ = run(capsys, "ledger", "verify", path, "--json")
    assert (code, json.loads(out)["first_bad"]) == (3, bad)
    assert run(capsys, "ledger", "restore", path, "--by", "operator")[0] == 3


def test_what_cannot_be_restored_is_refused_and_stays(tmp_path, capsys):
    path, other = tmp_path / "run.db", tmp_path / "other.db"
    played(path)
    made(other, episodes=77).close()
    with pytest.raises(LedgerError, match="backup of another run"):
        restore(path, other, by="operator")
    bad = tmp_path / "bad.db"
    backed_up(path, bad)
    changed(bad, BAD.format(told_after(bad, 20)))
    with pytest.raises(DamagedError, match="the backup .* is damaged: event"):
        restore(path, bad, by="operator")
    with owning(path):  # as its server does
        assert run(capsys, "ledger", "restore", path, "--by", "operator")[0] == 1
    head(path)
    assert not list(tmp_path.glob("run.db.*"))


def test_an_interrupted_restore_is_begun_again_or_finished(tmp_path, monkeypatch):
    path, backup = tmp_path / "run.db", tmp_path / "backup.db"
    played(path)
    backed_up(path, backup)
    left = Path(f"{path}.restored")
    left.write_bytes(backup.read_bytes())  # of a restore that was killed before the end
    assert restore(path, by="operator").lost == "nothing"
    assert not left.exists()
    os.rename(path, left)  # of one that was killed between the two renames
    with pytest.raises(LedgerError, match=r"rename '.*run.db.restored' to '.*run.db'"):
        restore(path, backup, by="operator")


def test_a_role_that_may_only_create_schemas_can_restore(tmp_path, postgres, capsys):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.get_uri(), autocommit=True) as database:
        name = database.info.dbname
        database.execute("CREATE ROLE keeper LOGIN")
        database.execute(f"GRANT CREATE ON DATABASE {name} TO keeper")
    uri = postgres.get_uri().replace("postgres:", "keeper:", 1)
    address, key = f"{uri}#a_ledger_with_a_long_name", ["--key-file", tmp_path / "key"]
    anchors, backup = tmp_path / "anchors.jsonl", tmp_path / "backup.db"
    with made(address) as ledger:
        play(ledger, 5)
    assert run(capsys, "ledger", "anchor", address, *key, "--out", anchors)[0] == 0
    assert run(capsys, "ledger", "backup", address, "--out", backup)[0] == 0
    changed(address, BAD.format(told_after(address, 2)))
    line = ["ledger", "restore", address, "--backup", backup, "--by", "operator", "--json"]
    code, out, _ = run(capsys, *line)
    assert code == 0
    assert run(capsys, "ledger", "verify", address, "--anchors", anchors)[0] == 0
    assert run(capsys, "token", "list", kept(address, json.loads(out)["damaged"]))[0] == 0
    with Ledger.open(address) as ledger:
        play(ledger, 3)
    assert run(capsys, "ledger", "verify", address, "--anchors", anchors)[0] == 0
