"""Backups, copies into another database, read-only media, and runs that are extended or ended."""

import contextlib
import dataclasses
import json
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from ledgers import approve, episode, made, play
from lowswitch.cli import commands
from lowswitch.io.files import owning
from lowswitch.ledger import Ledger, LedgerError
from lowswitch.ledger.copies import moving, tables
from lowswitch.ledger.errors import EndedError
from lowswitch.ledger.spool import Spool
from lowswitch.ledger.sqlite import SqliteStore


def run(capsys, *arguments):
    code = commands.main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_tables_that_are_copied_are_all_there_are(tmp_path):
    ledger = made(tmp_path / "run.db")
    sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    names = {name for (name,) in ledger.store.execute(sql)}
    assert {name for name, _ in tables(ledger.store.found)} == names
    for name, columns in tables(ledger.store.found):
        found = [row[1] for row in ledger.store.execute(f"PRAGMA table_info({name})")]
        assert columns == found
    ledger.close()


@pytest.mark.parametrize("way", ["to", "and back"])
def test_a_ledger_moves_between_databases(tmp_path, postgres, capsys, way):
    source, there = tmp_path / "run.db", f"{postgres.get_uri()}#moved_{way.replace(' ', '_')}"
    ledger = made(source)
    play(ledger, 30, decide=approve)
    ledger.save_snapshot()
    head = ledger.store.head()
    ledger.close()
    assert run(capsys, "token", "create", source, "--role", "site", "--name", "north")[0] == 0
    code, out, _ = run(capsys, "ledger", "copy", source, "--to", there, "--json")
    assert (code, json.loads(out)["whole"]) == (0, True)
    moved = there
    if way == "and back":
        moved = tmp_path / "again.db"
        assert run(capsys, "ledger", "backup", there, "--out", moved)[0] == 0
    with Ledger.open(moved) as again:
        assert again.store.head() == head
        play(again, 3)  # it goes on
        assert again.verify(progress=False).whole
    assert "north" in run(capsys, "token", "list", moved)[1]
    code, _, error = run(capsys, "ledger", "copy", source, "--to", moved)
    assert (code, "exists already" in error) == (2, True)


@pytest.mark.parametrize("name", ["backup", "copy"])
def test_a_copy_of_postgresql_is_one_file_that_is_whole_alone(tmp_path, postgres, capsys, name):
    source, target = f"{postgres.get_uri()}#alone_{name}", tmp_path / "copies" / "run.db"
    target.parent.mkdir()
    ledger = made(source)
    play(ledger, 30, decide=approve)
    ledger.close()
    to = "--out" if name == "backup" else "--to"
    assert run(capsys, "ledger", name, source, to, target, "--json")[0] == 0
    assert list(target.parent.iterdir()) == [target]  # no log beside it, also after the check
    moved = tmp_path / "elsewhere.db"
    moved.write_bytes(target.read_bytes())
    with Ledger.open(moved, read_only=True) as alone:
        assert alone.verify(progress=False).whole
        assert alone.store.execute("PRAGMA journal_mode") == [("delete",)]


def test_a_copy_whose_log_cannot_be_brought_in_is_refused(tmp_path, postgres, capsys, monkeypatch):
    """As on a disk that becomes full between the last commit and the checkpoint."""
    source, target = f"{postgres.get_uri()}#unfinished", tmp_path / "run.db"
    made(source).close()
    finish, readers = SqliteStore.finish, []

    def in_use(self):
        readers.append(sqlite3.connect(self.path, isolation_level=None))
        readers[0].execute("BEGIN")
        readers[0].execute("SELECT COUNT(*) FROM events").fetchone()  # so that its log must stay
        finish(self)

    monkeypatch.setattr(SqliteStore, "finish", in_use)
    code, out, error = run(capsys, "ledger", "backup", source, "--out", target, "--json")
    readers[0].close()
    assert (code, out) == (4, "")
    assert "run.db" in error
    assert list(tmp_path.glob("run.db*")) == []


def test_a_full_disk_fails_a_backup_of_postgresql(tmp_path, postgres):
    """The file may grow no further than its limit, at each of some sizes; none is called whole."""
    source = f"{postgres.get_uri()}#nearly_full"
    ledger = made(source)
    play(ledger, 60, decide=approve)
    ledger.backup(tmp_path / "whole.db")
    ledger.close()
    size = (tmp_path / "whole.db").stat().st_size
    for limit in range(size // 4, size + 1, size // 4):
        target = tmp_path / f"{limit}.db"
        line = ["-m", "lowswitch", "ledger", "backup", source, "--out", target, "--json"]
        ran = subprocess.run(
            [sys.executable, *map(str, line)],
            preexec_fn=lambda limit=limit: _limited(limit),
            capture_output=True,
            text=True,
        )
        assert (ran.returncode == 0) == target.exists(), ran
        assert ran.returncode in (0, 4), ran
        if target.exists():
            assert target.stat().st_size == size
        assert not list(tmp_path.glob(f"{limit}.db-*"))


def _limited(size):
    """Let no file of this process grow beyond a size; writes then fail as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_old_backups_go_with_what_sqlite_left_beside_them(tmp_path, capsys, monkeypatch):
    address, folder = tmp_path / "run.db", tmp_path / "backups"
    folder.mkdir()
    made(address).close()
    for night in range(3):
        monkeypatch.setattr("lowswitch.ledger.copies.datetime", _Clock(f"2026-11-1{night}T020000Z"))
        (folder / f"run-2026111{night}T020000Z.db-shm").touch()
        (folder / f"run-2026101{night}T020000Z.db-wal").touch()  # its backup is long gone
        (folder / f"other-2026101{night}T020000Z.db-wal").touch()
        assert run(capsys, "ledger", "backup", address, "--out", folder, "--keep", 2)[0] == 0
    names = {path.name for path in folder.iterdir() if not path.name.startswith("other")}
    kept = [f"run-2026111{night}T020000Z.db" for night in (1, 2)]
    assert names == {*kept, *(f"{name}-shm" for name in kept)}
    assert len(list(folder.glob("other*"))) == 3


def test_a_moved_ledger_leaves_no_original_to_go_on_with(tmp_path, capsys):
    source, target = tmp_path / "run.db", tmp_path / "new.db"
    made(source).close()
    line = ["ledger", "copy", source, "--to", target, "--json"]
    code, out, _ = run(capsys, *line)
    assert (code, "use only one of the two" in json.loads(out)["original"]) == (0, True)
    target.unlink()
    with owning(source):  # as its server does
        assert run(capsys, *line, "--move")[0] == 1
    assert not target.exists()
    code, out, _ = run(capsys, *line, "--move")
    assert (code, "run.db.moved" in json.loads(out)["original"]) == (0, True)
    assert not source.exists()
    with Ledger.open(tmp_path / "run.db.moved") as old, Ledger.open(target) as new:
        assert old.store.head() == new.store.head()
    address = "postgresql://lowswitch@database/lowswitch#clinic"
    with (
        pytest.raises(LedgerError, match="renames a file, and postgresql://.*#clinic"),
        moving(address),
    ):
        pass


def test_the_same_line_makes_a_backup_every_night(tmp_path, capsys, monkeypatch):
    address, folder = tmp_path / "run.db", tmp_path / "backups"
    folder.mkdir()
    (folder / "run-of-mine.db").write_text("not a backup")
    ledger = made(address)
    play(ledger, 5)
    for night in range(4):
        monkeypatch.setattr("lowswitch.ledger.copies.datetime", _Clock(f"2026-11-1{night}T020000Z"))
        line = ["ledger", "backup", address, "--out", folder, "--keep", 2, "--json"]
        code, out, _ = run(capsys, *line)
        assert (code, json.loads(out)["whole"]) == (0, True)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["run-20261112T020000Z.db", "run-20261113T020000Z.db", "run-of-mine.db"]
    assert stat.S_IMODE(os.stat(folder / names[0]).st_mode) == 0o600
    ledger.close()


def test_a_damaged_backup_is_not_named_like_one(tmp_path, capsys):
    address, folder = tmp_path / "run.db", tmp_path / "backups"
    folder.mkdir()
    with made(address) as ledger:
        play(ledger, 5)
    with contextlib.closing(sqlite3.connect(address)) as raw, raw:
        raw.execute("UPDATE events SET hash = '00' WHERE seq = 5")
    code, out, _ = run(capsys, "ledger", "backup", address, "--out", folder, "--keep", 2, "--json")
    (left,) = folder.iterdir()
    assert (code, left.suffix) == (3, ".damaged")
    assert json.loads(out)["file"] == str(left)


def test_what_a_ledger_writes_is_for_its_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        ledger = made(tmp_path / "run.db")
        play(ledger, 2)
        ledger.export(tmp_path / "events.jsonl")
        spool = Spool(tmp_path / "spool")  # and a lock beside it
        spool.put(name="north")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        spool.close()
        ledger.close()
    finally:
        os.umask(before)
    assert {"run.db", "events.jsonl", "spool", "spool-wal", ".spool.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("keep", [-1, 0])
def test_keeping_fewer_than_one_backup_is_refused_before_anything_is_written(
    tmp_path, capsys, keep
):
    made(tmp_path / "run.db").close()
    folder = tmp_path / "backups"
    folder.mkdir()
    line = ["ledger", "backup", tmp_path / "run.db", "--out", folder]
    assert run(capsys, *line, "--json")[0] == 0
    (before,) = folder.iterdir()
    code, _, error = run(capsys, *line, f"--keep={keep}")
    assert (code, "--keep must be" in error, str(keep) in error) == (2, True, True)
    assert list(folder.iterdir()) == [before]


def test_a_backup_leaves_the_backups_of_other_runs_alone(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "backups"
    folder.mkdir()
    for night, name in enumerate(("one", "two", "one", "two")):
        address = tmp_path / name / "run.db"
        if not address.exists():
            address.parent.mkdir()
            made(address, episodes=20 + night).close()
        monkeypatch.setattr("lowswitch.ledger.copies.datetime", _Clock(f"2026-11-1{night}T020000Z"))
        line = ["ledger", "backup", address, "--out", folder, "--keep", 1, "--json"]
        code, out, _ = run(capsys, *line)
        gone = [str(folder / f"run-2026111{night - 2}T020000Z.db")] if night > 1 else []
        assert (code, json.loads(out)["removed"]) == (0, gone)


@pytest.mark.parametrize("line", [["--out", "backups", "--keep", 30], ["--out", "backups/"]])
def test_a_backup_folder_that_is_missing_is_named_and_not_written_as_a_file(
    tmp_path, capsys, monkeypatch, line
):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "run.db").close()
    code, _, error = run(capsys, "ledger", "backup", tmp_path / "run.db", *line)
    assert (code, "there is no folder 'backups" in error) == (2, True)
    assert not (tmp_path / "backups").exists()


class _Clock:
    """A clock that stands."""

    def __init__(self, text):
        self.text = text

    def now(self, _):
        return self

    def __format__(self, _):
        return self.text.replace("-", "")


def test_a_backup_is_verified_on_a_medium_that_is_read_only(tmp_path, monkeypatch):
    ledger = made(tmp_path / "run.db")
    play(ledger, 5)
    ledger.backup(tmp_path / "copy.db")
    ledger.close()
    raw = sqlite3.connect(tmp_path / "copy.db")
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # needs no file beside it
    raw.close()
    with Ledger.open(tmp_path / "copy.db", read_only=True) as copy:
        assert copy.verify(progress=False).whole
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]


def test_a_file_with_a_log_that_cannot_be_indexed_is_read_as_it_is(tmp_path, monkeypatch):
    """As on a read-only medium, where SQLite fails to make the index of a write-ahead log."""
    ledger = made(tmp_path / "run.db")
    play(ledger, 5)
    ledger.close()
    connect, modes = sqlite3.connect, []

    class Failing:
        def execute(self, sql):
            if "sqlite_master" in sql:
                raise sqlite3.OperationalError("unable to open database file")

        def close(self):
            modes.append("closed")

    def opened(name, **options):
        modes.append(str(name).partition("?")[2])
        return connect(name, **options) if "immutable" in str(name) else Failing()

    monkeypatch.setattr("lowswitch.ledger.sqlite.sqlite3.connect", opened)
    store = SqliteStore.open(tmp_path / "run.db", read_only=True)
    assert modes == ["mode=ro", "closed", "mode=ro&immutable=1"]
    assert store.head()[0] > 5
    store.close()


def test_an_extended_run_issues_more_tickets_and_learns_none_of_them(address):
    ledger = made(address, episodes=3)
    play(ledger, 3)
    with pytest.raises(LedgerError, match="declared for 3 episodes.*can extend it"):
        ledger.ask("here", "one more")
    ledger.extend(2, by="operator", reason="enrolment goes on")
    issued = ledger.ask("here", "one more")
    ledger.tell(issued.ticket, *episode(issued.policy, 4))
    status = ledger.status()
    assert (status.episodes, status.issued, status.told) == (5, 4, 3)
    assert status.balanced
    ledger.save_snapshot()
    assert ledger.verify(progress=False).whole
    ledger.close()
    with Ledger.open(address) as again:
        events, head = again.store.head()  # one more, that of the snapshot
        assert again.status() == dataclasses.replace(status, events=events, head=head)
        again.ask("here", "the last one")
        with pytest.raises(LedgerError, match="declared for 5 episodes"):
            again.ask("here", "too many")


def test_an_ended_run_settles_what_is_open_and_changes_nothing_else(address):
    ledger = made(address)
    play(ledger, 20)
    first, second = ledger.ask("here", "open"), ledger.ask("here", "lost")
    proposal, version = ledger.proposal(), ledger.version
    ledger.end(by="operator", reason="the trial is over")
    for change in (
        lambda: ledger.ask("here", "new"),
        lambda: ledger.propose(by="operator"),
        lambda: ledger.approve(proposal, by="board", reason="late"),
        lambda: ledger.freeze(by="operator", reason="late"),
        lambda: ledger.extend(1, by="operator", reason="late"),
        lambda: ledger.end(by="operator", reason="again"),
    ):
        with pytest.raises(EndedError, match="ended"):
            change()
    ledger.tell(first.ticket, *episode(first.policy, first.number))
    ledger.missing(second.ticket, "lost", by="operator")
    assert ledger.version == version
    assert ledger.status().nothing_because == "the run has ended"
    ledger.save_snapshot()
    assert ledger.verify(progress=False).whole
    ledger.close()
    with Ledger.open(address) as again, pytest.raises(EndedError):
        again.ask("here", "new")
