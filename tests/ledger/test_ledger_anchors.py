"""What an insider does to the whole record, and what somebody outside can say against it."""

import contextlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ledgers import approve, episode, made, play, rewritten
from lowswitch.cli import commands
from lowswitch.ledger import Client, Ledger, LedgerError, StorageError, Verdict, anchors
from lowswitch.ledger.anchors import Known, anchored, append, expected, signing_key, trusted
from lowswitch.ledger.audit import verify_export
from lowswitch.ledger.chain import Chain
from lowswitch.ledger.events import canonical, digest
from lowswitch.service.access import Access
from served import Served

ASKED = "2026-01-01T00:00:00.000002+00:00"  # the time of event 2


@pytest.fixture
def run(tmp_path):
    """A ledger, an anchor of it and its key."""
    ledger = made(tmp_path / "a.db")
    play(ledger, 12, decide=approve)
    key = signing_key(tmp_path / "key")
    file = tmp_path / "anchors.jsonl"
    anchors.append(file, anchored(ledger.store, key), ledger.store)
    return ledger, file, key


def verdict(ledger, file, key=None):
    with Ledger.open(ledger.store.path, read_only=True) as opened:
        return opened.verify(known=trusted(file, key))


def test_an_anchor_of_the_same_run_agrees(run):
    ledger, file, key = run
    play(ledger, 3, decide=approve)
    anchors.append(file, anchored(ledger.store, key), ledger.store)
    found = verdict(ledger, file)
    assert found.whole
    assert f"at event {ledger.status().events}" in found.anchored
    assert "nothing from outside" in ledger.verify().anchored


def test_a_forged_approver_with_a_chain_computed_anew_is_found(run):
    """Nothing but the name of the one who approved last is changed, and all hashes fit."""
    ledger, file, _ = run
    path = ledger.store.path
    last = [one for one in ledger.events() if one.kind == "approved"][-1]
    ledger.close()
    forge_actor(path, last.seq, "mallory")
    with Ledger.open(path, read_only=True) as opened:
        assert opened.verify().whole  # as the page says: without an anchor nobody can know
        assert {one.actor for one in opened.events() if one.seq == last.seq} == {"mallory"}
    found = verdict(ledger, file)
    assert (found.whole, found.first_bad >= last.seq) == (False, True)
    assert "this event or one before it was rewritten" in found.what


def forge_actor(path, seq, actor):
    """Rewrite who did something, and whatever follows from it, with hashes that fit."""
    connection = sqlite3.connect(path)
    previous = None
    for number, body in connection.execute("SELECT seq, body FROM events ORDER BY seq").fetchall():
        facts = json.loads(body)
        if number == seq:
            facts[2] = actor
        if previous is not None:
            facts[6] = previous
        text = canonical(facts)
        previous = digest(text)
        connection.execute(
            "UPDATE events SET body = ?, hash = ? WHERE seq = ?", (text, previous, number)
        )
    connection.commit()
    connection.close()


def test_a_cut_tail_and_an_older_copy_are_found(run, tmp_path):
    ledger, file, key = run
    older = tmp_path / "older.db"
    ledger.backup(older)
    play(ledger, 2, decide=approve)
    anchors.append(file, anchored(ledger.store, key), ledger.store)
    with Ledger.open(older, read_only=True) as copy:
        assert copy.verify().whole
        found = copy.verify(known=trusted(file))
        assert not found.whole
        assert "the end was cut off, or this is an older copy" in found.what
        with pytest.raises(LedgerError, match="contradicts the anchor of"):
            anchors.append(file, anchored(copy.store, key), copy.store)
    assert len(file.read_text().splitlines()) == 2


def test_another_run_is_not_taken_for_this_one(run, tmp_path):
    _, file, _ = run
    other = made(tmp_path / "b.db", episodes=99)
    play(other, 40)
    assert "or this is another run" in other.verify(known=trusted(file)).what


def test_replaced_keys_and_forged_anchors_are_found(run, tmp_path):
    ledger, file, _ = run
    other = signing_key(tmp_path / "other")
    with pytest.raises(LedgerError, match="are signed with the key"):
        anchors.append(file, anchored(ledger.store, other), ledger.store)
    public = other.public_key().public_bytes_raw().hex()
    with pytest.raises(LedgerError, match=f"line 1: this anchor is signed .* not {public}"):
        trusted(file, public)
    forged = json.loads(file.read_text()) | {"seq": 3}
    file.write_text(json.dumps(forged))
    with pytest.raises(LedgerError, match="line 1: this anchor is signed by nobody"):
        trusted(file)
    file.write_text("{}\n")
    with pytest.raises(LedgerError, match="line 1: this is not an anchor"):
        trusted(file)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(LedgerError, match="holds no key"):
        signing_key(file)


def test_a_site_can_prove_that_its_report_was_there(run, tmp_path):
    ledger, _, _ = run
    issued = ledger.ask("here", "mine")
    told = ledger.tell(issued.ticket, *episode(issued.policy, 13))
    assert ledger.store.event(told.event)[2] == told.hash
    assert ledger.tell(issued.ticket, *episode(issued.policy, 13)) == told
    assert ledger.verify(known=[expected(told.hash)]).whole
    rewritten(ledger.store.path, told.event, lambda payload: payload.update(rewards=[0, 1, 0]))
    found = Ledger.open(ledger.store.path, read_only=True).verify(known=[expected(told.hash)])
    assert not found.whole
    unknown = ledger.verify(known=[expected("0" * 64)])
    assert "events before it has the expected hash 0000" in unknown.what
    with pytest.raises(LedgerError, match="64 characters"):
        expected("abc")


def test_a_head_that_was_verified_before_is_compared(run):
    ledger, _, _ = run
    path, last = ledger.store.path, ledger.status().events
    with contextlib.closing(Access(str(path))) as access:
        access.keep(ledger.verify(), by="auditor")
    found = ledger.verify()
    assert (found.whole, "nothing from outside" in found.anchored) == (True, True)
    ledger.close()
    forge_actor(path, last, "somebody")
    found = Ledger.open(path, read_only=True).verify()
    assert (found.whole, found.first_bad) == (False, last)
    assert "an earlier verify says that its hash was" in found.what


def test_an_auditor_takes_anchors_from_a_server(tmp_path):
    with (
        Served(tmp_path) as served,
        Client(served.url, served.tokens["auditor"]) as auditor,
    ):
        file = tmp_path / "kept.jsonl"
        play(served.ledger, 2)
        file.write_text(json.dumps(auditor.anchor()) + "\n")
        assert served.ledger.verify(known=trusted(file)).whole
        assert json.loads(file.read_text())["head"] == served.ledger.status().head
        assert served.json("GET", "/api/anchor", role="site")[0] == 403
        auditor.verify()
        newest = served.access.newest(2)
        assert {(one.kind, one.role) for one in newest} == {
            ("verified", "auditor"),
            ("anchored", "auditor"),
        }


# ---- the commands --------------------------------------------------------------------------------


def test_the_command_appends_and_posts(tmp_path, capsys):
    ledger, got = made(tmp_path / "a.db"), []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url, out = f"http://127.0.0.1:{server.server_port}/", tmp_path / "out.jsonl"
    anchor = ["ledger", "anchor", str(tmp_path / "a.db"), "--json"]
    assert commands.main([*anchor, "--out", str(out), "--post", url]) == 0
    printed = json.loads(capsys.readouterr().out)
    thread.join()
    server.server_close()
    assert [printed] == got == [json.loads(out.read_text())]
    assert printed["head"] == ledger.status().head
    assert (tmp_path / "a.db.key").stat().st_mode & 0o777 == 0o600
    assert commands.main([*anchor, "--post", url]) != 0
    assert commands.main([*anchor, "--post", "file:///etc/passwd"]) != 0
    verify = ["ledger", "verify", str(tmp_path / "a.db"), "--anchors", str(out)]
    assert commands.main([*verify, "--key", printed["key"]]) == 0
    assert commands.main([*verify, "--key", "0" * 64]) != 0
    assert commands.main([*verify[:3], "--expect", printed["head"]]) == 0


# ---- exported copies -----------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "bad"), [("events", 4), ("access_events", 1)])
def test_a_damaged_record_is_not_signed(tmp_path, capsys, table, bad):
    with Served(tmp_path) as served:
        play(served.ledger, 5)
    with contextlib.closing(sqlite3.connect(served.address)) as raw, raw:
        raw.execute(f"UPDATE {table} SET body = body || ' ' WHERE seq = {bad}")
    file = tmp_path / "anchors.jsonl"
    assert commands.main(["ledger", "anchor", str(served.address), "--out", str(file)]) == 3
    said = capsys.readouterr().err
    assert f"event {bad}: its hash does not match its text; nothing was signed" in said
    assert not file.exists()


def test_an_anchor_that_does_not_fit_on_the_disk_leaves_no_half_line(tmp_path):
    with made(tmp_path / "run.db") as ledger:
        file, key = tmp_path / "anchors.jsonl", signing_key(tmp_path / "key")
        anchor = anchored(ledger.store, key)
        append(file, anchor, ledger.store)
        before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
        try:
            with pytest.raises(StorageError, match="cannot write"):
                append(file, anchor, ledger.store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert file.read_bytes() == before


def test_a_half_line_of_anchors_says_what_to_do(tmp_path):
    (tmp_path / "anchors.jsonl").write_text('{"run": "eb2')
    with pytest.raises(LedgerError, match="line 1: this is not an anchor; if it was cut off"):
        trusted(tmp_path / "anchors.jsonl")


def test_a_server_that_knows_of_damage_signs_nothing(tmp_path):
    with Served(tmp_path) as served:
        bad = Verdict(False, 3, 4, "event 4: its hash does not match its text", "")
        served.access.keep(bad, by="auditor")
        code, answer = served.json("GET", "/api/anchor", role="auditor")
        assert (code, "nothing is signed" in answer["says"]) == (422, True)


def test_an_export_is_verified_without_its_database(run, tmp_path, capsys):
    ledger, file, _ = run
    ledger.amend("t3", *episode(ledger.policy[0], 77), by="nurse", reason="a wrong file")
    ledger.export(tmp_path / "e.jsonl")
    lines = (tmp_path / "e.jsonl").read_text().splitlines(keepends=True)
    assert verify_export(tmp_path / "e.jsonl", known=trusted(file)).whole
    assert commands.main(["ledger", "verify", str(tmp_path / "e.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "no tickets or snapshots to compare with" in said
    for at, line in ((4, ""), (4, lines[4].replace("2026", "2027")), (4, "{}\n")):
        (tmp_path / "e.jsonl").write_text("".join([*lines[:at], line, *lines[at + 1 :]]))
        assert verify_export(tmp_path / "e.jsonl").first_bad == 5
    (tmp_path / "e.jsonl").write_text("".join(lines[:5]))
    assert verify_export(tmp_path / "e.jsonl", known=trusted(file)).first_bad in (6, 7)


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ("yesterday", "its time 'yesterday' is not a time"),
        ("2026-01-01T00:00:00+02:00", "is not in UTC"),
        ("2025-01-01T00:00:00.000000+00:00", "is before 2026-01-01"),
    ],
)
def test_times_that_are_none_or_go_backwards_are_found(tmp_path, time, says):
    ledger = made(tmp_path / "a.db")
    ledger.ask("here", "a")
    connection = sqlite3.connect(tmp_path / "a.db")
    (body,) = connection.execute("SELECT body FROM events WHERE seq = 2").fetchone()
    changed = body.replace(ASKED, time)
    assert changed != body
    connection.execute(
        "UPDATE events SET body = ?, hash = ? WHERE seq = 2", (changed, digest(changed))
    )
    connection.commit()
    connection.close()
    found = Ledger.open(tmp_path / "a.db", read_only=True).verify()
    assert (found.whole, found.first_bad) == (False, 2)
    assert says in found.what


def test_a_clock_that_goes_back_does_not_take_the_record_with_it(tmp_path):
    ledger = made(tmp_path / "a.db")
    ledger.clock = lambda seq: f"2026-01-{30 - seq:02}T00:00:00.000000+00:00"
    play(ledger, 3)
    assert [one.time[:10] for one in ledger.events()][1:] == ["2026-01-28"] * (
        ledger.status().events - 1
    )
    assert ledger.verify().whole


# ---- the chain of access -------------------------------------------------------------------------


def test_access_has_a_chain_of_its_own(address):
    ledger = made(address)
    chain = Chain(ledger.store)
    with ledger.store.transaction():
        chain.record("ops", "operator", "token_created", {"id": "a1", "name": "north"})
        chain.record("ops", "operator", "token_revoked", {"id": "a1"})
    assert [one.kind for one in chain.newest(1)] == ["token_revoked"]
    assert [one.seq for one in chain.events()] == [1, 2]
    seq, head = chain.head()
    known = [Known(seq, head, "the anchor", is_access=True)]
    assert ledger.verify(known=known).whole
    with ledger.store.transaction():
        ledger.store.execute("DELETE FROM access_events WHERE seq = 2")
    assert ledger.verify().whole
    assert "was cut off" in ledger.verify(known=known).what
    with ledger.store.transaction():
        ledger.store.execute("UPDATE access_events SET body = 'other'")
    assert "the record of access is damaged at its event 1" in ledger.verify().what


def test_a_trigger_in_the_database_is_found(tmp_path):
    ledger = made(tmp_path / "a.db")
    play(ledger, 2)
    ledger.store.execute(
        "CREATE TRIGGER later AFTER INSERT ON tickets BEGIN"
        " UPDATE tickets SET version = 1 WHERE number = new.number; END"
    )
    found = ledger.verify()
    assert (found.whole, found.first_bad) == (False, None)
    assert "its schema has a changed or foreign trigger 'later'" in found.what


def test_a_copy_with_a_changed_index_is_found(tmp_path):
    ledger = made(tmp_path / "a.db")
    play(ledger, 3)
    ledger.close()
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    connection = sqlite3.connect(tmp_path / "b.db")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_master SET sql = replace(sql, 'UNIQUE (site, request)', 'CHECK (1)')"
        " WHERE name = 'tickets'"
    )
    connection.commit()
    connection.close()
    with contextlib.suppress(LedgerError):
        assert not Ledger.open(tmp_path / "b.db", read_only=True).verify().whole


def test_exit_codes_tell_contradicted_anchors_from_unusable_ones(tmp_path, capsys):
    address, out = tmp_path / "run.db", tmp_path / "anchors.jsonl"
    made(address).close()
    other = tmp_path / "other.db"
    made(other, episodes=20).close()

    def run(*line):
        code = commands.main([str(one) for one in line])
        return code, capsys.readouterr().err

    assert run("ledger", "anchor", address, "--out", out)[0] == 0
    verify = ["ledger", "verify", address, "--anchors", out]
    assert run(*verify)[0] == 0
    assert run(*verify, "--key", "0" * 64)[0] == 3
    os.replace(f"{address}.key", f"{other}.key")
    assert run("ledger", "anchor", other, "--out", out)[0] == 3
    assert len(out.read_text().splitlines()) == 1
    out.write_text("")
    code, error = run(*verify)
    assert (code, "has no anchors, so there is nothing to compare with" in error) == (2, True)


def test_a_lost_end_of_the_record_of_access_is_not_signed_beside_an_anchor_of_it(tmp_path, capsys):
    address, out = tmp_path / "run.db", tmp_path / "anchors.jsonl"
    made(address).close()
    anchor = ["ledger", "anchor", str(address), "--out", str(out)]
    assert commands.main(anchor) == 0
    assert commands.main(anchor) == 0  # and this one knows of the first
    with contextlib.closing(sqlite3.connect(address)) as raw, raw:
        raw.execute("DELETE FROM access_events")
    capsys.readouterr()
    assert commands.main(anchor) == 3
    assert "(event 1 about access); nothing was added" in capsys.readouterr().err
    assert len(out.read_text().splitlines()) == 2


def test_a_backup_agrees_with_anchors_although_newer_ones_follow(run, tmp_path, capsys):
    """The night makes the backup first and the anchor later, and each of them is an event."""
    ledger, out, key = run
    ledger.backup(tmp_path / "backup.db")
    play(ledger, 3, decide=approve)
    anchors.append(out, anchored(ledger.store, key), ledger.store)
    verify = ["ledger", "verify", str(tmp_path / "backup.db"), "--anchors", str(out)]
    assert commands.main(verify) == 3  # it might be an older copy in the place of the ledger
    capsys.readouterr()
    assert commands.main([*verify, "--as-backup", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["anchored"].startswith("the anchor of ")
    forge_actor(tmp_path / "backup.db", 2, "mallory")
    assert commands.main([*verify, "--as-backup"]) == 3
    assert commands.main([*verify[:3], "--as-backup"]) == 2


def test_anchors_come_through_standard_input(tmp_path):
    """Into a container, from a machine that nobody who can write to the ledger can write to.

    The user there may be unable to open the pipe again by its name, /dev/stdin.
    """
    address, out = tmp_path / "run.db", tmp_path / "anchors.jsonl"
    made(address).close()
    assert commands.main(["ledger", "anchor", str(address), "--out", str(out)]) == 0
    line = ["-m", "lowswitch", "ledger", "verify", str(address), "--anchors", "-"]
    for given, code in ((out.read_bytes(), 0), (b"", 2)):
        ran = subprocess.run([sys.executable, *line], input=given, capture_output=True)
        assert ran.returncode == code, ran


def test_without_psycopg_the_way_out_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert commands.main(["ledger", "status", "postgresql://a@b/c"]) == 2
    assert "install lowswitch[postgres]" in capsys.readouterr().err
