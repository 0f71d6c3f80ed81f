"""What somebody who runs the service relies on: limits, logs, tokens, FREEZE, two servers."""

import contextlib
import io
import json
import os
import re
import shutil
import socket
import sqlite3
import time
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import lowswitch as ls
from ledgers import A, H, S, episode, made, play
from lowswitch.cli import commands
from lowswitch.ledger import (
    AccessError,
    Client,
    Ledger,
    LedgerError,
    QuotaError,
    Spooled,
    StorageError,
    TokenWarning,
)
from lowswitch.service import access as tokens_module
from lowswitch.service import engine, limits, server
from lowswitch.service.access import Access
from lowswitch.service.log import JsonLog
from lowswitch.service.moving import move_file
from served import Gate, Served, wait_for


@pytest.fixture
def served(tmp_path):
    with Served(tmp_path) as running:
        yield running


def logged(served):
    """Let a server log into memory; a function that gives the lines so far."""
    stream = io.StringIO()
    served.service.log = JsonLog("info", stream)

    def lines():
        time.sleep(0.05)
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    return lines


# ---- the start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [{"states": S, "actions": A}, {"features": 3, "actions": 4}])
def test_a_start_compiles_the_planning_and_leaves_the_run_as_it_is(tmp_path, monkeypatch, size):
    """Otherwise the first meeting waits for the compiler, and every site with it."""
    size |= {"horizon": H, "episodes": 20, "rewards": (-9, 9)}
    few, by = ls.few(deployments=2, asked=True), "trial office"
    with Ledger.create(tmp_path / "run.db", few, by=by, **size) as ledger:
        planned, before = [], ledger.status()
        learner = type(ledger.terms.learner())

        def propose(self, *given, once=learner.propose):
            planned.append(self)
            return once(self, *given)

        monkeypatch.setattr(learner, "propose", propose)
        server.warm_up(ledger)
        assert (len(planned), ledger.status()) == (1, before)


# ---- logs ----------------------------------------------------------------------------------------


def test_requests_decisions_logins_and_failures_have_a_line_each_and_no_secret(served):
    lines = logged(served)
    secret = served.tokens["operator"].split(".")[1]
    served.json("POST", "/api/freeze", {"reason": "alarm"}, role="operator")
    served.json("POST", "/api/freeze", {"reason": "alarm"}, role="operator")
    served.request("GET", f"/api/status?token={secret}", role="auditor")
    served.request("GET", "/api/status", token=f"{served.tokens['site'].split('.')[0]}.{secret}")
    served.login("auditor")
    found = lines()
    kinds = [(one["event"], one["level"]) for one in found]
    assert ("action", "info") in kinds
    assert ("action", "warning") in kinds  # it was frozen already
    assert ("login", "info") in kinds
    assert ("login failed", "warning") in kinds
    request = next(one for one in found if one["event"] == "request")
    assert (request["method"], request["path"], request["status"]) == ("POST", "/api/freeze", 200)
    assert (request["who"], request["role"]) == ("the operator", "operator")
    assert request["address"] == "127.0.0.1"
    assert secret not in json.dumps(found)
    assert all(datetime.fromisoformat(one["time"]).utcoffset() == timedelta(0) for one in found)


def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(served, monkeypatch):
    lines = logged(served)
    full = StorageError("postgresql://ann:s3cret@host/db is full")

    def fail(*_):
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(served.ledger.store, "append", fail)
        for i in range(3):
            status, _ = served.json("POST", "/api/ask", {"requests": [f"o{i}"]}, role="site")
            assert status == 503
        text = served.request("GET", "/metrics", role="auditor")[2].decode()
    assert "\nlowswitch_outages_total 1\n" in text
    served.json("POST", "/api/ask", {"requests": ["o"]}, role="site")
    found = lines()
    assert sum(one["event"] == "outage" for one in found) == 1
    assert sum(one["event"] == "recovered" for one in found) == 1
    assert "s3cret" not in json.dumps(found)


@contextlib.contextmanager
def unusable(served):
    """Let the database answer neither reads nor writes of the ledger's thread."""

    def fail(*_):
        raise StorageError("the database cannot be reached")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("append", "counts", "head", "event", "transaction"):
            patch.setattr(served.ledger.store, name, fail)
        yield


def test_metrics_answer_from_memory_while_the_database_is_away(served):
    served.json("POST", "/api/ask", {"requests": ["a"]}, role="site")
    with unusable(served):
        status, _, body = served.request("GET", "/metrics", role="auditor")
        assert status == 200
        text = body.decode()
        assert "\nlowswitch_outage 1\n" in text
        assert "\nlowswitch_verified -1\n" in text
        assert "lowswitch_token_expiry_timestamp_seconds{" in text
        assert "lowswitch_balanced" not in text  # unknown, and no alarm
    assert "lowswitch_balanced 1" in served.request("GET", "/metrics", role="auditor")[2].decode()


def test_reports_wait_while_the_file_cannot_be_read(served, tmp_path):
    """They are not refused for good: a restore brings back the tickets."""
    with Client(served.url, served.tokens["site"], spool=tmp_path / "north.spool") as client:
        issued = client.ask("one")
        path = served.ledger.store.path
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(path, "r+b") as file:
            file.write(bytes(100))
        assert isinstance(client.tell(issued.ticket, *episode(issued.policy, 1)), Spooled)
        assert "cannot be read as a ledger" in str(client.trouble)
        assert client.refused() == []
    assert b"\nlowswitch_outage 1\n" in served.request("GET", "/metrics", role="auditor")[2]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_moved_away_takes_no_more_reports(served, tmp_path, replaced):
    """An open file without a name takes writes, and all of them are lost when it is closed."""
    path = served.ledger.store.path
    with Client(served.url, served.tokens["site"], spool=tmp_path / "north.spool") as client:
        issued = client.ask("one")
        moved = path.rename(tmp_path / "moved.db")
        if replaced:
            shutil.copy(moved, path)
        assert isinstance(client.tell(issued.ticket, *episode(issued.policy, 1)), Spooled)
        assert "was removed or replaced" in str(client.trouble)
        assert b"\nlowswitch_outage 1\n" in served.request("GET", "/metrics", role="auditor")[2]
        moved.rename(path)
        wait_for(lambda: client.flush() == {} and client.trouble is None)
    assert served.ledger.status().learned == 1


def test_an_older_record_in_the_same_file_is_an_outage_until_the_newer_one_is_back(
    tmp_path, monkeypatch
):
    """Whatever followed it would be lost, and nobody would hear of it before the next anchor."""
    monkeypatch.setattr("lowswitch.service.app._LOOK_AGAIN", 0.02)
    monkeypatch.setattr("lowswitch.service.app._CALM", 0.05)

    def overwritten(path, data=b""):
        """Put data into a file without a log; return what was there."""
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            before = path.read_bytes()
        path.write_bytes(data or before)
        return before

    with Served(tmp_path) as served:
        path, spool = served.ledger.store.path, tmp_path / "north.spool"
        older = overwritten(path)
        with Client(served.url, served.tokens["site"], spool=spool) as client:
            issued = client.ask("one")
            wait_for(lambda: served.service.journal.reader.store.seen[0] == 2)
            newer = overwritten(path, older)
            wait_for(lambda: served.service.meter.is_out)  # though nobody asked for anything
            time.sleep(0.3)  # for long enough that an outage would end whose cause is gone
            assert served.service.meter.is_out
            assert isinstance(client.tell(issued.ticket, *episode(issued.policy, 1)), Spooled)
            assert "this record was replaced by an older or different one" in str(client.trouble)
            overwritten(path, newer)
            wait_for(lambda: client.flush() == {} and client.trouble is None)
        assert served.ledger.status().learned == 1
        assert not served.service.meter.is_out


def test_an_outage_ends_on_an_idle_server_when_the_database_takes_a_write(tmp_path, monkeypatch):
    monkeypatch.setattr("lowswitch.service.app._LOOK_AGAIN", 0.02)
    monkeypatch.setattr("lowswitch.service.app._CALM", 0.05)
    with Served(tmp_path) as served:
        lines, meter = logged(served), served.service.meter
        for outages in (1, 2):
            with unusable(served):
                body = {"requests": ["a"]}
                assert served.json("POST", "/api/ask", body, role="site")[0] == 503
                time.sleep(0.2)
                assert (meter.is_out, meter.outages) == (True, outages)
            wait_for(lambda: not meter.is_out, seconds=5)
        assert [one["event"] for one in lines() if one["event"] in ("outage", "recovered")] == [
            *("outage", "recovered"),
            *("outage", "recovered"),
        ]


def test_an_outage_ends_with_a_decision_that_is_recorded(served, monkeypatch):
    monkeypatch.setattr("lowswitch.service.app._CALM", 60.0)
    served.json("POST", "/api/freeze", {"reason": "x"}, role="operator")
    served.service.noticed(StorageError("away"))
    assert served.json("POST", "/api/thaw", {"reason": "x"}, role="operator")[0] == 200
    assert not served.service.meter.is_out


def test_a_log_that_nobody_reads_stops_nothing():
    class Stuck(io.StringIO):
        def write(self, text):
            time.sleep(30)

    log = JsonLog("info", Stuck())
    for _ in range(12_000):
        log.write("info", "request")
        log.write("debug", "unheard")
    assert 900 < log.dropped < 2000
    log.close(seconds=0.01)


# ---- limits --------------------------------------------------------------------------------------


def test_requests_that_pile_up_in_a_connection_end_it(served):
    line = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(line * server.MOST_PIPELINED)
        answer = b""
        while answer.count(b"HTTP/1.1 200") < server.MOST_PIPELINED:
            answer += connection.recv(65536)
    with (
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(line * 2000)
        while connection.recv(65536):
            pass
    assert served.json("GET", "/healthz")[0] == 200


def test_strangers_get_one_answer_for_a_connection(served):
    line = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(line * 3)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert answer.count(b"HTTP/1.1 401") == 1


def test_after_ten_failed_logins_an_address_must_wait(served):
    def log_in(token):
        body = f"token={token}".encode()
        return served.request("POST", "/login", body, headers=served.form_headers())

    for _ in range(limits.MOST_LOGINS):
        assert log_in("no.token")[0] == 401
    status, headers, _ = log_in("no.token")
    assert status == 429
    assert 0 < int(headers["retry-after"]) <= limits.WINDOW + 1
    assert log_in(served.tokens["operator"])[0] == 303  # who may share the address of a hospital
    assert served.request("GET", "/api/status", role="auditor")[0] == 200  # and programs go on
    served.access.refresh()
    failed = [event for event in served.access._chain.events() if event.kind == "login_failed"]
    assert sum(event.payload["count"] for event in failed) == limits.MOST_LOGINS + 1


def test_many_wrong_tokens_are_told_to_wait_and_right_ones_are_not(served):
    seen = {served.request("GET", "/api/status", token="no.token")[0] for _ in range(102)}
    assert seen == {401, 429}
    assert served.request("GET", "/api/status", role="auditor")[0] == 200


def test_a_site_cannot_use_up_all_tickets(served):
    assert served.ledger.most_open == 100  # of 200
    served.ledger.most_open = 3
    names = [f"q{i}" for i in range(5)]
    answers = served.json("POST", "/api/ask", {"requests": names}, role="site")[1]["answers"]
    assert [one.get("error") for one in answers] == [None] * 3 + ["QuotaError"] * 2
    with Client(served.url, served.tokens["site"]) as site:
        with pytest.raises(QuotaError, match="3 open tickets.*report on some of them"):
            site.ask("q4")
        first = site.ask("q0")  # the same request has its ticket
        site.tell(first.ticket, *episode(first.policy, first.number))
        assert site.ask("q4").number == 4


def test_a_report_that_contradicts_another_one_is_recorded_once(address):
    ledger = made(address)
    issued = ledger.ask("here", "a")
    states, actions, rewards = episode(issued.policy, 1)
    ledger.tell(issued.ticket, states, actions, rewards)

    def conflicts():
        return sum(event.kind == "conflict" for event in ledger.events())

    wrong = {"ticket": issued.ticket, "states": states, "actions": actions, "rewards": [0.25] * H}
    for _ in range(3):
        answers = ledger.tell_many([wrong] * 20)
        assert {type(one).__name__ for one in answers} == {"ConflictError"}
    assert conflicts() == 1
    for i in range(30):
        ledger.tell_many([wrong | {"rewards": [i / 100] * H}])
    assert conflicts() == 10
    assert ledger.verify().whole
    ledger.close()


def test_a_large_policy_is_fetched_once_and_not_with_every_ticket(served, monkeypatch):
    monkeypatch.setattr(engine, "MOST_INLINE", H * S - 1)
    answer = served.json("POST", "/api/ask", {"requests": ["a", "b"]}, role="site")[1]
    assert [one["policy"] for one in answer["answers"]] == [None, None]
    with Client(served.url, served.tokens["site"]) as site:
        found = site.ask_many(["a", "b"])
        assert [one.policy for one in found] == [served.ledger.policy[0].tolist()] * 2
        site.ask("c")
        assert served.json("GET", "/healthz")[0] == 200  # by then all before it is counted
        assert served.service.meter.requests["GET", "/api/policy", 200] == 1
        assert np.array_equal(site.policy, served.ledger.policy)


def test_an_answer_with_many_tables_is_refused_before_it_is_made(served, monkeypatch):
    monkeypatch.setattr("lowswitch.service.api.MOST_CELLS", 3 * H * S)
    status, said = served.json("POST", "/api/ask", {"requests": list("abcd")}, role="site")
    assert (status, "at most 3 tickets at once" in said["says"]) == (413, True)
    assert served.ledger.status().issued == 0


def test_a_long_proposal_comes_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("lowswitch.service.api._MOST_LISTED", 2)
    asked = ls.psrl(schedule="asked", deployments=5)
    with (
        Served(tmp_path, algorithm=asked) as served,
        Client(served.url, served.tokens["reviewer"]) as reader,
    ):
        play(served.ledger, 5)
        assert len(served.ledger.propose(by="me").rows) > 2
        assert reader.proposal() == served.ledger.proposal()
        assert reader.proposals() == served.ledger.proposals()
        assert reader.versions() == served.ledger.versions()


def test_who_waits_too_long_hears_what_the_ledger_does_and_nothing_is_done(served, monkeypatch):
    monkeypatch.setattr(engine, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(served.ledger, "propose", lambda **_: time.sleep(1.0))
    status, said = served.json("POST", "/api/propose", {}, role="operator")
    assert (status, "plan a proposal" in said["says"]) == (503, True)
    status, said = served.json("POST", "/api/thaw", {"reason": "late"}, role="operator")
    assert (status, "nothing was done for this request" in said["says"]) == (503, True)
    assert "plan a proposal" in said["says"]
    assert served.json("GET", "/healthz")[0] == 200  # meanwhile
    wait_for(lambda: not served.service.engine.busy_seconds)


def test_others_can_write_while_a_proposal_is_planned(tmp_path, monkeypatch):
    """Planning comes before the transaction; who was overtaken plans again, and then alone."""
    ledger = made(tmp_path / "run.db")
    play(ledger, 4)
    other, planned = Ledger.open(tmp_path / "run.db"), []
    follow = type(ledger)._commit

    def overtaken(self, writer, base):
        if not planned:
            other.ask("elsewhere", "meanwhile")
        planned.append(self.store.connection.in_transaction)
        follow(self, writer, base)

    monkeypatch.setattr(Ledger, "_commit", overtaken)
    ledger.propose(by="me")
    assert planned == [False]  # and the second time within the transaction
    kinds = [event.kind for event in ledger.events()]
    assert kinds.index("met") > len(kinds) - 3
    assert ledger.verify().whole
    other.close()
    ledger.close()


# ---- tokens --------------------------------------------------------------------------------------


def test_a_rotated_token_works_on_for_a_while(address, monkeypatch):
    made(address).close()
    access = Access(str(address))
    old = access.create(name="north", role="site", days=90, by="Ms Okafor")
    identity = old.split(".")[0]
    new = access.rotate(identity, days=90, overlap=7, by="Ms Okafor")
    assert access.check(old).name == access.check(new).name == "north"
    now = datetime.now(UTC)
    assert access.token(identity).state(now) == "superseded"
    assert access.token(identity).state(now + timedelta(days=8)) == "expired"
    access.refresh()  # as a server does every second
    with contextlib.closing(Access(str(address))) as again:  # all of it is in the chain
        assert again.tokens() == access.tokens()
        kinds = [(event.actor, event.kind) for event in again._chain.events()]
    assert kinds == [
        ("Ms Okafor", "token_created"),
        ("Ms Okafor", "token_created"),
        ("Ms Okafor", "token_expires"),
    ]
    monkeypatch.setattr(tokens_module, "_now", lambda: now + timedelta(days=8))
    assert access.check(old) is None
    assert access.expired(old).id == identity
    assert access.check(new) is not None
    access.close()
    access = Access(str(address))
    assert all(one.used is not None for one in access.tokens())  # the last use is kept
    with pytest.raises(LedgerError, match="no token 'x' to rotate"):
        access.rotate("x", days=1, by="me")
    access.close()


def test_a_monitor_hears_of_an_expired_token_until_it_is_replaced(served, monkeypatch):
    def listed(days):
        later = datetime.now(UTC) + timedelta(days=days)
        monkeypatch.setattr(type(served.service), "now", lambda _: later)
        text = served.request("GET", "/metrics", role="auditor")[2].decode()
        found = re.findall(r'token_expiry_timestamp_seconds{id="(\w+)"', text)
        return {one for one in found if served.access.token(one).name == "north"}

    old = served.access.create(name="north", role="site", days=3).split(".")[0]
    assert listed(0) == listed(4) == {old}  # it has expired, and nobody replaced it
    assert listed(34) == set()
    new = served.access.rotate(old, days=90, overlap=7, by="me").split(".")[0]
    assert listed(0) == listed(4) == {new}  # also if the overlap ends after the old token
    served.access.revoke(new, by="me")
    assert listed(0) == set()


def test_tokens_of_an_older_version_are_moved_into_the_ledger(tmp_path):
    address = tmp_path / "run.db"
    made(address).close()
    old = sqlite3.connect(f"{address}.access")
    old.executescript(
        "CREATE TABLE tokens (id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL,"
        " hash TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL, revoked TEXT,"
        " revoked_by TEXT);"
        "CREATE TABLE verdicts (time TEXT NOT NULL, by TEXT NOT NULL, whole INTEGER NOT NULL,"
        " events INTEGER NOT NULL, first_bad INTEGER, what TEXT NOT NULL, head TEXT NOT NULL);"
    )
    times = ("2026-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00")
    for identity, secret, revoked in (("aa", "s", None), ("bb", "t", times[0])):
        row = (identity, "north", "site", tokens_module._hash(secret), *times, revoked, revoked)
        old.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    old.execute("INSERT INTO verdicts VALUES (?, 'me', 1, 5, NULL, 'all whole', 'x')", times[:1])
    old.commit()
    old.close()
    for _ in range(2):  # a second time there is nothing to do
        move_file(str(address), None)
    with contextlib.closing(Access(str(address))) as access:
        assert access.check("aa.s").created == times[0]
        assert access.check("bb.t") is None
        assert access.token("bb").revoked is not None
        assert access.last_verdict()["what"] == "all whole"
        assert access.last_verdict()["head"] == "x"
    assert not os.path.exists(f"{address}.access")
    assert os.path.exists(f"{address}.access.moved")


def test_a_site_whose_token_has_expired_goes_on_and_is_told(served, tmp_path, monkeypatch):
    token = served.access.create(name="the site", role="site", days=1)
    with Client(served.url, token, spool=tmp_path / "s") as site:
        first = site.ask("a")
        later = datetime.now(UTC) + timedelta(days=1, seconds=1)
        with monkeypatch.context() as patch:
            patch.setattr(tokens_module, "_now", lambda: later)
            with pytest.warns(TokenWarning, match="expired at .*reports wait in the spool"):
                told = site.tell(first.ticket, *episode(first.policy, 1))
            assert isinstance(told, Spooled)
            assert "expired" in site.trouble
            promised = site.ask("b")  # without a second warning on the same day
            assert (promised.ticket, promised.policy) == ("later:b", first.policy)
            site.tell(promised.ticket, *episode(first.policy, 2))
            assert site.waiting == 2
    renewed = served.access.create(name="the site", role="site", days=1)
    with Client(served.url, renewed, spool=tmp_path / "s") as site:
        assert len(site.flush()) == 2
        assert (site.waiting, site.trouble) == (0, None)
    assert served.ledger.status().learned == 2
    served.access.revoke(renewed.split(".")[0], by="me")
    with (
        Client(served.url, renewed, spool=tmp_path / "s") as site,
        pytest.raises(AccessError, match="unknown or revoked"),
    ):
        site.ask("c")


def test_a_token_that_expires_soon_is_warned_of_once_a_day(served, monkeypatch):
    token = served.access.create(name="the site", role="site", days=90)
    with Client(served.url, token) as site:
        site.ask("a")
        soon = datetime.now(UTC) + timedelta(days=77)
        monkeypatch.setattr("lowswitch.service.app.now", lambda: soon)
        with pytest.warns(TokenWarning, match="expires at .*lowswitch token rotate"):
            site.ask("b")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            site.ask("c")
        assert "expires at" in site.trouble


# ---- FREEZE --------------------------------------------------------------------------------------


def fill_the_disk(ledger):
    """Let SQLite's file grow no more, as on a full disk."""
    pages = ledger.store.execute("PRAGMA page_count")[0][0]
    ledger.store.execute(f"PRAGMA max_page_count = {pages}")


def test_freeze_works_on_a_full_disk_and_is_recorded_when_there_is_room(served):
    reserve = served.service.emergency.reserve
    assert reserve.stat().st_size == 1 << 20
    assert reserve.stat().st_mode & 0o777 == 0o600
    fill_the_disk(served.ledger)
    status = 200
    while status == 200:
        body = {"requests": [os.urandom(99).hex()]}
        status = served.json("POST", "/api/ask", body, role="site")[0]
    assert status == 503
    status, said = served.json("POST", "/api/freeze", {"reason": "a" * 2000}, role="operator")
    assert (status, said["frozen"], said["recorded"]) == (202, True, False)
    assert not reserve.exists()  # that was not enough here
    assert not served.ledger.status().frozen
    status, said = served.json("POST", "/api/ask", {"requests": ["x"]}, role="site")
    assert (status, said["error"]) == (423, "FrozenError")
    assert served.json("GET", "/api/status", role="auditor")[1]["frozen"] is True
    served.ledger.store.execute("PRAGMA max_page_count = 1000000")
    wait_for(lambda: served.ledger.status().frozen, seconds=10)
    wait_for(lambda: not served.service.engine.stopped)
    last = served.ledger.newest(1)[0]
    assert (last.kind, last.actor) == ("frozen", "the operator")
    assert served.json("POST", "/api/thaw", {"reason": "over"}, role="operator")[0] == 200
    assert served.json("POST", "/api/ask", {"requests": ["x"]}, role="site")[0] == 200


def test_a_freeze_without_the_database_says_that_the_run_is_stopped(served):
    with unusable(served):
        status, said = served.json("POST", "/api/freeze", {"reason": "alarm"}, role="operator")
        assert (status, said["frozen"], said["recorded"]) == (202, True, False)
        assert "stopped the run" in said["says"]
        assert "tries again every second" in said["says"]
        assert served.json("POST", "/api/ask", {"requests": ["x"]}, role="site")[0] == 423
    wait_for(lambda: served.ledger.status().frozen, seconds=5)
    with unusable(served):
        assert served.json("POST", "/api/thaw", {"reason": "over"}, role="operator")[0] == 503
        assert served.json("POST", "/api/freeze", {"reason": "x"}, role="operator")[0] == 202
        status, said = served.json("POST", "/api/thaw", {"reason": "over"}, role="operator")
        assert (status, "not recorded yet is withdrawn" in said["says"]) == (202, True)


def test_a_freeze_that_is_not_on_record_can_be_taken_back(served, monkeypatch):
    def fail(*_):
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(served.ledger.store, "append", fail)
        assert served.json("POST", "/api/freeze", {"reason": "x"}, role="operator")[0] == 202
        assert served.json("POST", "/api/freeze", {"reason": "x"}, role="operator")[0] == 422
        assert served.json("POST", "/api/thaw", {"reason": "x"}, role="operator")[0] == 200
    assert served.json("POST", "/api/ask", {"requests": ["x"]}, role="site")[0] == 200
    assert not served.ledger.status().frozen


def logins_at(address):
    """Who has logged in, as the record of access says."""
    with contextlib.closing(Access(str(address), read_only=True)) as access:
        return [event.actor for event in access._chain.events() if event.kind == "login"]


def test_who_logs_in_during_an_outage_can_freeze_and_all_is_recorded_later(postgres, tmp_path):
    """Nobody has a session when an incident begins: log in, pause, restart, and look."""
    gate = Gate(postgres)
    address = f"{gate.address}#outage"
    with Served(tmp_path, address) as served:
        lines = logged(served)
        gate.shut()
        session = served.login("operator", page="/freeze")
        wait_for(lambda: served.service.meter.is_out, seconds=10)
        page = served.page("/", session)
        assert (page[0], 'href="/freeze"' in page[1]) == (503, True)
        status, page = served.page("/freeze", session)
        assert (status, "The database cannot be used now" in page) == (200, True)
        text = served.request("GET", "/metrics", role="auditor")[2].decode()
        assert "\nlowswitch_frozen 0\n" in text
        status, headers, _ = served.post("/freeze", session, reason="two adverse events")
        assert (status, headers["location"]) == (303, "/freeze")
        assert "a restart does not forget it" in served.page("/freeze", session)[1]
        status, said = served.json("POST", "/api/ask", {"requests": ["x"]}, role="site")
        assert (status, said["error"]) == (423, "FrozenError")
        text = served.request("GET", "/metrics", role="auditor")[2].decode()
        assert "\nlowswitch_frozen 1\n" in text
        assert "\nlowswitch_freeze_unrecorded 1\n" in text
        assert [one["level"] for one in lines() if one.get("action") == "freeze"] == ["error"]
        # the server stops while the database is away, and cannot record the logins either
    said = [(one["event"], one["level"]) for one in lines()]
    assert ("freeze not recorded", "error") in said
    assert ("logins not recorded", "error") in said
    gate.open()
    with Served.beside(served) as again:
        said = again.json("POST", "/api/ask", {"requests": ["x"]}, role="site")[1]
        assert "FrozenError" in json.dumps(said)  # from its first moment on
        wait_for(lambda: not again.service.engine.stopped, seconds=10)
        frozen = again.ledger.newest(1)[0]
        assert (frozen.kind, frozen.actor) == ("frozen", "the operator")
        assert frozen.payload["reason"] == "two adverse events"
        gate.shut()
        body = f"token={served.tokens['operator']}".encode()
        assert again.request("POST", "/login", body, headers=again.form_headers())[0] == 303
        gate.open()
        wait_for(lambda: logins_at(address) == ["the operator"], seconds=10)
    with Served.beside(served) as third:  # the note is gone
        assert third.service.emergency.pending is None
        assert third.json("POST", "/api/thaw", {"reason": "over"}, role="operator")[0] == 200
    gate.shut()


def test_a_login_on_a_full_disk_is_recorded_when_there_is_room(served, monkeypatch):
    def full(*_):
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(served.access._store, "transaction", full)
        session = served.login("operator")
        served.request("GET", "/api/status", token="no.token")
        with pytest.raises(StorageError):
            served.access.refresh()
        assert served.post("/freeze", session, reason="alarm")[0] == 303
    wait_for(lambda: logins_at(served.address) == ["the operator"])
    kinds = [event.kind for event in served.access._chain.events()]
    assert kinds.count("login_failed") == 1


def test_a_revoked_or_expired_token_does_not_work_while_the_database_is_away(served, monkeypatch):
    revoked, expired = (served.access.create(name="x", role="operator", days=1) for _ in "ab")
    served.access.revoke(revoked.split(".")[0], by="me")
    with unusable(served):
        assert served.request("GET", "/metrics", token=revoked)[0] == 401
        assert served.request("GET", "/metrics", token=expired)[0] == 200
        later = datetime.now(UTC) + timedelta(days=1, seconds=1)
        monkeypatch.setattr(tokens_module, "_now", lambda: later)
        assert served.request("GET", "/metrics", token=expired)[0] == 401


def test_a_freeze_that_is_noted_survives_a_kill_and_is_recorded_once(tmp_path):
    """Killed before the record, after it but before the note is gone, and with a torn note."""
    with Served(tmp_path) as served:
        note = served.service.emergency.note
        assert (note.path.stat().st_size, note.path.stat().st_mode & 0o777) == (1 << 14, 0o600)
        served.json("POST", "/api/freeze", {"reason": "x"}, role="operator")
        assert note.read() is None
        request = served.ledger.newest(1)[0].payload["request"]
        assert served.json("POST", "/api/thaw", {"reason": "x"}, role="operator")[0] == 200
    pending = {"by": "the operator", "reason": "x"}
    for noted, frozen in ((pending | {"request": request}, False), (pending, True)):
        note.write(noted)
        with Served.beside(served) as again:
            wait_for(lambda again=again: not again.service.engine.stopped)
            assert again.ledger.status().frozen is frozen
            assert note.read() is None
    with Ledger.open(tmp_path / "run.db") as ledger:
        ledger.thaw(by="me", reason="over")
    note.path.write_bytes(b'{"by": "the op')
    with Served.beside(served) as again:
        wait_for(lambda: not again.service.engine.stopped)
        assert "its note is damaged" in again.ledger.newest(1)[0].payload["reason"]


def test_a_freeze_that_cannot_be_noted_says_so(served, monkeypatch):
    lines = logged(served)
    monkeypatch.setattr(served.service.emergency.note, "path", served.address / "nowhere")
    with unusable(served):
        status, said = served.json("POST", "/api/freeze", {"reason": "x"}, role="operator")
        assert (status, said["kept"]) == (202, False)
        assert "do not restart it" in said["says"]
        assert ("freeze not kept", "error") in [(one["event"], one["level"]) for one in lines()]


# ---- names, clocks, copies -----------------------------------------------------------------------


def test_programs_on_the_same_machine_need_no_proxy_behind_tls(tmp_path):
    """A monitor, or an operator with curl while the proxy is down; pages stay behind TLS."""
    with Served(tmp_path) as served:
        served.service.behind_tls, served.service.origin = True, "https://ledger.example.org"
        names = ({"Host": name} for name in (f"127.0.0.1:{served.port}", "localhost"))
        for headers in names:
            assert served.request("GET", "/metrics", role="auditor", headers=headers)[0] == 200
            body = {"reason": "alarm"}
            status = served.json("POST", "/api/freeze", body, role="operator", headers=headers)[0]
            assert status in (200, 422)  # the second time it is paused
            assert served.request("GET", "/login", headers=headers)[0] == 400
            proxied = headers | {"X-Forwarded-For": "192.0.2.7"}
            assert served.request("GET", "/metrics", role="auditor", headers=proxied)[0] == 400
        foreign = {"Host": "attacker.example.org"}
        status, said = served.json("GET", "/api/status", role="auditor", headers=foreign)
        assert (status, "ledger.example.org" in said["says"]) == (400, True)


def test_a_site_hears_why_it_gets_nothing_from_the_server(tmp_path):
    with Served(tmp_path) as served:
        served.service.behind_tls, served.service.origin = True, "https://ledger.example.org"
        url = f"{served.url}/site"  # a path that the proxy does not take off
        with Client(
            url, served.tokens["site"], spool=tmp_path / "spool", fallback=[[0] * S] * H
        ) as site:
            for _ in range(2):
                assert site.ask("a").ticket == "later:a"
                assert "no ledger is served under this url" in site.trouble
        with (
            Client("http://127.0.0.1:9", served.tokens["site"], spool=tmp_path / "other") as site,
            pytest.raises(LedgerError, match="cannot be reached .*refused.*no fallback"),
        ):
            site.ask("a")


def test_a_head_of_more_than_64_kib_is_refused(served):
    for size, status in ((60_000, b"401"), (70_000, b"431"), (100_000, b"431"), (10**6, b"431")):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            head = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
            with contextlib.suppress(ConnectionError):
                connection.sendall(head + b"a" * size + b"\r\n\r\n")
            answer = connection.recv(100)
        assert answer.startswith(b"HTTP/1.1 " + status)
    assert served.json("GET", "/healthz")[0] == 200


def test_a_monitor_hears_that_the_run_has_ended(served):
    def metrics():
        served.service.journal.catch_up()
        return served.request("GET", "/metrics", role="auditor")[2].decode()

    assert "\nlowswitch_ended 0\n" in metrics()
    served.ledger.end(by="operator", reason="the trial is over")
    assert "\nlowswitch_ended 1\n" in metrics()


def test_a_clock_that_was_set_back_makes_no_negative_age(served, monkeypatch):
    served.json("POST", "/api/ask", {"requests": ["a"]}, role="site")
    before = datetime.now(UTC) - timedelta(hours=2)
    monkeypatch.setattr(type(served.service), "now", lambda _: before)
    text = served.request("GET", "/metrics", role="auditor")[2].decode()
    assert "\nlowswitch_oldest_open_ticket_seconds 0\n" in text


def test_metrics_tell_of_the_last_backup_and_anchor(address, tmp_path, capsys):
    (tmp_path / "backups").mkdir()
    key = tmp_path / "anchors.key"

    def run(*line):
        code = commands.main([str(one) for one in line])
        return code, capsys.readouterr().out

    with Served(tmp_path, address) as served:
        served.service.key_file = key

        def times():
            served.access.refresh()
            text = served.request("GET", "/metrics", role="auditor")[2].decode()
            found = re.findall(r"\nlowswitch_last_(backup|anchor)_timestamp_seconds (\S+)", text)
            return {name: float(value) for name, value in found}

        assert times() == {}
        begin = time.time() - 1
        copy = tmp_path / "backups" / "one.db"
        assert run("ledger", "backup", address, "--out", copy, "--json")[0] == 0
        assert times()["backup"] >= begin
        for _ in range(2):
            assert served.json("GET", "/api/anchor", role="auditor")[0] == 200
        first = times()["anchor"]
        assert first >= begin
        assert run("ledger", "anchor", address, "--key-file", key, "--json")[0] == 0
        assert times()["anchor"] > first
        kinds = [event.kind for event in served.access._chain.events()]
        assert (kinds.count("backed_up"), kinds.count("anchored")) == (1, 2)  # not each poll
        assert served.ledger.verify().whole
    before = copy.read_bytes()
    assert run("ledger", "backup", copy, "--out", tmp_path / "two.db", "--json")[0] == 0
    assert copy.read_bytes() == before  # a backup is not written to


def test_a_restored_ledger_does_not_revive_revoked_tokens(tmp_path):
    copy = tmp_path / "backup.db"
    with Served(tmp_path) as served:
        served.ledger.backup(copy)
        token = served.tokens["reviewer"]
        served.json("POST", "/api/tokens/revoke", {"id": token.split(".")[0]}, role="operator")
        wait_for(lambda: served.service.revoked.ids)
    os.replace(copy, served.address)
    with Served.beside(served) as again:
        assert again.request("GET", "/api/status", token=token)[0] == 401
        last = again.access.token(token.split(".")[0])
        assert last.revoked_by == "lowswitch serve"


# ---- two servers ---------------------------------------------------------------------------------


def test_two_servers_on_one_database_are_one_ledger(postgres, tmp_path):
    address = f"{postgres.get_uri()}#two"
    with Served(tmp_path, address) as one, Served.beside(one) as two:
        status, said = one.json("GET", "/api/anchor", role="auditor")
        assert (status, "administrator" in said["says"]) == (422, True)  # no --key-file
        first, second = (Client(each.url, one.tokens["site"]) for each in (one, two))
        issued = first.ask("a")
        assert second.ask("a") == issued  # the same request has the same ticket
        second.tell(issued.ticket, *episode(issued.policy, 1))
        assert first.tell(issued.ticket, *episode(issued.policy, 1)).event == 3
        one.json("POST", "/api/freeze", {"reason": "alarm"}, role="operator")
        status, _ = two.json("POST", "/api/ask", {"requests": ["b"]}, token=one.tokens["site"])
        assert status == 200
        with pytest.raises(LedgerError, match="paused this run"):
            second.ask("b")  # at once
        two.json("POST", "/api/thaw", {"reason": "over"}, token=one.tokens["operator"])
        assert first.ask("b").number == 2
        identity = one.tokens["site"].split(".")[0]
        one.json("POST", "/api/tokens/revoke", {"id": identity}, role="operator")
        with pytest.raises(AccessError):
            first.ask("c")
        wait_for(lambda: two.access.token(identity).revoked is not None, seconds=5)
        with pytest.raises(AccessError):
            second.ask("c")
        assert one.ledger.verify().whole
        first.close()
        second.close()


def test_a_freeze_that_the_round_of_the_server_records_first_is_no_error(tmp_path, monkeypatch):
    with Served(tmp_path) as served:
        emergency = served.service.emergency

        def recorded_meanwhile():
            served.ledger.freeze(**emergency.pending)
            emergency.pending = None
            return True

        monkeypatch.setattr(emergency, "_keep", recorded_meanwhile)
        body = {"reason": "an alarm", "request": "a name"}
        assert served.json("POST", "/api/freeze", body, role="operator")[0] == 200
        assert served.ledger.status().frozen
        assert emergency.note.read() is None
