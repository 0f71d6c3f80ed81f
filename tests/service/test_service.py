"""The ledger over HTTP: what it answers, what it refuses, and that others are served meanwhile."""

import contextlib
import gzip
import json
import re
import socket
import threading
import time

import pytest

from attacks import fuzz, send_raw
from ledgers import episode, play
from lowswitch.ledger import Client, Spooled, StorageError
from lowswitch.service import bodies, engine, roles, server
from served import Process, Served, wait_for

H = 3


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("service")) as running:
        yield running


def ask(served, *requests):
    return served.json("POST", "/api/ask", {"requests": list(requests)}, role="site")


def report(answer, **more):
    states, actions, rewards = episode(answer["policy"], answer["number"])
    return {
        "ticket": answer["ticket"],
        "states": states,
        "actions": actions,
        "rewards": rewards,
    } | more


def tell(served, *reports):
    return served.json("POST", "/api/tell", {"reports": list(reports)}, role="site")


# ---- what it answers -----------------------------------------------------------------------------


def test_a_site_asks_and_tells_exactly_once(served):
    status, first = ask(served, "a", "b")
    assert status == 200
    assert ask(served, "b", "a")[1]["answers"] == first["answers"][::-1]
    told = tell(served, *map(report, first["answers"]))
    assert told == tell(served, *map(report, first["answers"]))
    assert [one["number"] for one in told[1]["answers"]] == [1, 2]
    other = report(first["answers"][0], rewards=[1, 1, 1])
    conflict = tell(served, other, report(first["answers"][1]))[1]["answers"]
    assert conflict[0]["error"] == "ConflictError"
    assert conflict[1] == told[1]["answers"][1]
    unknown = tell(served, report(first["answers"][0], ticket="no such"))[1]["answers"][0]
    assert unknown["error"] == "UnknownTicketError"


def test_a_ticket_of_another_site_is_unknown(served):
    issued = served.ledger.ask("elsewhere", "x")
    answer = tell(
        served, report({"ticket": issued.ticket, "policy": issued.policy, "number": issued.number})
    )
    assert answer[1]["answers"][0]["error"] == "UnknownTicketError"
    served.ledger.missing(issued.ticket, "a test", by="me")


def test_what_readers_read_is_the_ledger(served):
    def get(path):
        return served.json("GET", path, role="auditor")[1]

    assert get("/api/status") == vars(served.ledger.status())
    assert get("/api/versions") == [vars(one) for one in served.ledger.versions()]
    assert get("/api/policy")["policy"] == served.ledger.policy.tolist()
    assert get("/api/policy?version=1")["policy"] == served.ledger.policy_of(1).tolist()
    events = get("/api/events?first=2&count=3")
    assert [event["seq"] for event in events] == [2, 3, 4]
    assert events[0]["hash"] == served.ledger.store.event(2)[2]
    assert get("/api/tickets?status=learned")[0]["number"] == 1
    lines = served.request("GET", "/api/export", role="auditor")[2].splitlines()
    assert len(lines) == served.ledger.status().events
    assert json.loads(lines[-1])["hash"] == served.ledger.status().head
    table = served.request("GET", "/api/export?kind=csv", role="auditor")[2].decode()
    assert table.startswith("seq,time,actor,role,kind,payload,previous,hash")
    assert get("/api/terms")["horizon"] == H


def test_decisions_by_json(served):
    while served.ledger.proposal() is None:
        play(served.ledger, 1, site="far")
    proposal = served.json("GET", "/api/proposal", role="reviewer")[1]
    row = [proposal["rows"][0]["step"], proposal["rows"][0]["state"]]
    body = {"proposal": proposal["hash"], "rows": [row], "reason": "seen"}
    status, said = served.json("POST", "/api/approve", body, role="reviewer")
    assert (status, said["version"]) == (200, served.ledger.version)
    status, said = served.json("POST", "/api/approve", body, role="reviewer")
    assert (status, said["error"]) == (409, "SupersededError")
    event = served.ledger.newest(1, kind="approved")[0]
    assert (event.actor, event.role) == ("the reviewer", "reviewer")
    status, said = served.json(
        "POST", "/api/rollback", {"version": 1, "reason": "no"}, role="operator"
    )
    assert (status, said["version"]) == (200, served.ledger.version)
    assert served.json("POST", "/api/freeze", {"reason": "alarm"}, role="operator")[1]["frozen"]
    assert ask(served, "while frozen")[1]["answers"][0]["error"] == "FrozenError"
    assert served.json("POST", "/api/propose", {}, role="operator")[0] == 423
    assert served.json("POST", "/api/thaw", {"reason": "over"}, role="operator")[0] == 200
    assert served.json("POST", "/api/verify", {}, role="auditor")[0] == 202
    wait_for(lambda: not served.json("GET", "/api/verdict", role="auditor")[1]["verifying"])
    assert served.json("GET", "/api/verdict", role="auditor")[1]["last"]["whole"]


def test_metrics_and_health(served):
    assert served.request("GET", "/api/status", role="site")[0] == 403
    text = served.request("GET", "/metrics", role="auditor")[2].decode()
    status = served.ledger.status()
    assert f'lowswitch_tickets{{status="learned"}} {status.learned}\n' in text
    assert f"lowswitch_events_total {status.events}\n" in text
    assert "lowswitch_balanced 1\n" in text
    assert 'lowswitch_requests_total{method="GET",path="/api/status",status="403"} ' in text
    assert served.json("GET", "/healthz")[1]["works"]
    assert served.json("GET", "/readyz")[1] == {"ready": True, "events": status.events}


def test_every_metric_has_help_and_type_before_its_values(served):
    served.request("GET", "/api/status", token="no.token")
    text = served.request("GET", "/metrics", role="operator")[2].decode()
    kinds, helped = {}, set()
    for line in text.splitlines():
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            (helped.add(name) if word == "HELP" else kinds.update({name: rest}))
            continue
        name, labels, value = re.fullmatch(r"([a-z_]+)(\{.*\})? (\S+)", line).groups()
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        family = family if kinds.get(family) == "histogram" else name
        assert family in helped
        assert family in kinds
        assert kinds[family] != "counter" or name.endswith("_total")
        assert re.fullmatch(r'\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+\}', labels or '{a=""}')
        float(value)
    wanted = """build_info requests_total request_seconds oldest_open_ticket_seconds outages_total
        last_report_timestamp_seconds budget_left last_verify_timestamp_seconds verified
        logins_total token_expiry_timestamp_seconds failed_logins_total log_lines_dropped_total"""
    assert {f"lowswitch_{name}" for name in wanted.split()} <= kinds.keys()
    assert float(re.search(r"\nlowswitch_failed_logins_total (\S+)", text)[1]) >= 1
    buckets = re.findall(r'request_seconds_bucket\{path="/api/status",le="[^"]+"\} (\d+)', text)
    assert buckets == sorted(buckets, key=int)


def test_the_description_has_every_address(served):
    said = served.json("GET", "/api/openapi.json", role="site")[1]
    found = {(method.upper(), path) for path, one in said["paths"].items() for method in one}
    assert found == {(one.method, one.path) for one in roles.API}
    posts = {one.handler for one in roles.API if one.method == "POST"}
    assert posts - {"verify"} == bodies.BODIES.keys() - {"rows"}  # of an address
    report = said["components"]["schemas"]["Report"]
    assert sorted(report["required"]) == ["actions", "rewards", "states", "ticket"]
    assert report["properties"]["ended"]["enum"] == ["whole", "truncated", "terminated"]
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(said)))
    assert used == said["components"]["schemas"].keys()


def test_many_requests_share_a_commit(served):
    before, threads, found = served.service.engine.transactions, [], []
    gate, held = threading.Event(), threading.Event()

    def hold():  # the ledger's thread is busy while the others come
        held.set()
        gate.wait(30)

    def one(i):
        found.append(ask(served, f"shared {i}")[1]["answers"][0]["number"])

    from asyncio import run_coroutine_threadsafe

    loop = served.server.servers[0].get_loop()
    busy = run_coroutine_threadsafe(served.service.engine.call(hold), loop)
    assert held.wait(30)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    wait_for(lambda: served.service.engine.waiting == 12)
    gate.set()
    for thread in threads:
        thread.join()
    busy.result()
    assert len(set(found)) == 12
    assert served.service.engine.transactions == before + 1


# ---- what it refuses -----------------------------------------------------------------------------


def body(text):
    return b'{"requests": %s}' % text


REFUSED = {
    "no body": (b"", 400),
    "no JSON": (b"{", 400),
    "another thing": (b"[]", 400),
    "no field": (b"{}", 400),
    "another field": (b'{"requests": ["a"], "more": 1}', 400),
    "a key twice": (b'{"requests": ["a"], "requests": ["b"]}', 400),
    "NaN": (body(b"[NaN]"), 400),
    "an infinity": (body(b"[-Infinity]"), 400),
    "a number that overflows": (body(b"[1e999]"), 400),
    "a number instead of a text": (body(b"[1]"), 400),
    "a truth instead of a text": (body(b"[true]"), 400),
    "a text instead of a list": (body(b'"abc"'), 400),
    "nothing in the list": (body(b"[]"), 400),
    "too many": (body(json.dumps([str(i) for i in range(513)]).encode()), 400),
    "an empty text": (body(b'["  "]'), 400),
    "half of a pair of surrogates": (body(b'["\\ud800"]'), 400),
    "a zero byte": (body(b'["\\u0000"]'), 400),
    "a line break": (body(b'["a\\nb"]'), 400),
    "a long text": (body(b'["%s"]' % (b"x" * 2001)), 400),
    "no UTF-8": (body(b'["\xff"]'), 400),
    "a mark of byte order": (b"\xef\xbb\xbf" + body(b'["a"]'), 400),
    "deep nesting": (body(b"[" * 100_000 + b"]" * 100_000), 400),
    "deep objects": (b'{"a":' * 100_000, 400),
    "a long number": (body(b"[%s]" % (b"9" * 10_000)), 400),
    "more than a mebibyte": (body(b'["%s"]' % (b"x" * (1 << 20))), 413),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_body_is_refused_and_changes_nothing(served, name):
    data, expected = REFUSED[name]
    before = served.ledger.status()
    status, said = served.json("POST", "/api/ask", data, role="site")
    assert (status, said["error"]) == (expected, "Refused")
    assert served.ledger.status() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"states": [True, False, True]}, "states[0] must be a text or a whole number"),
        (
            {"states": [0, 1.0, 2]},
            "states[1] must be a text or a whole number (with features a list), not a number",
        ),
        ({"actions": [0, 0, False]}, "actions[2] must be a text or a whole number"),
        ({"rewards": [True, 0, 0]}, "rewards[0] must be a number, not true or false"),
        ({"rewards": ["1", 0, 0]}, "rewards[0] must be a number, not a text"),
        ({"rewards": [10**18, 0, 0]}, "rewards[0] must be a whole number <= "),
        ({"rewards": None}, "rewards must be a list"),
        ({"states": "012"}, "states must be a list"),
        ({"ended": 1}, "ended must be a text"),
        ({"ticket": "a\nb"}, "ticket must be a text that is not empty and has no control"),
        ({"site": "another"}, "reports[0] has a field that is not in /api/openapi.json: `site`"),
        ({"\ud800": 1}, "the name of a field has a character that is not text"),
    ],
)
def test_a_bad_report_is_refused_and_its_ticket_stays_open(served, change, says):
    answer = ask(served, "bad report")[1]["answers"][0]
    status, said = tell(served, report(answer) | change)
    assert (status, says in said["says"]) == (400, True), said
    assert served.ledger.store.tickets_named([answer["ticket"]]).__next__().status == "open"


@pytest.mark.parametrize("rewards", [[0, 0, 2], [0, 0], [0, 0, -0.001]])
def test_what_the_ledger_refuses_is_said_for_each_report(served, rewards):
    answer = ask(served, "bad report")[1]["answers"][0]
    status, said = tell(served, report(answer) | {"rewards": rewards})
    assert (status, said["answers"][0]["error"]) == (200, "LedgerError")


def head(served, path="/api/ask", *more):
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {served.tokens['site']}",
    ]
    return "\r\n".join([*lines, *more, "", ""]).encode()


def test_a_body_in_chunks_is_counted(served):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    data = head(served, "/api/ask", "Transfer-Encoding: chunked") + chunk * 16 + b"1\r\n \r\n"
    assert send_raw(served.port, data + b"0\r\n\r\n") == 413
    endless = head(served, "/api/ask", "Transfer-Encoding: chunked") + chunk * 300
    assert send_raw(served.port, endless) in (0, 413)  # it is closed before all was sent
    short = b'{"requests": ["chunked"]}'
    data = head(served, "/api/ask", "Transfer-Encoding: chunked", "Connection: close")
    assert send_raw(served.port, data + b"%x\r\n%s\r\n0\r\n\r\n" % (len(short), short)) == 200


def test_a_compressed_body_is_not_unpacked(served):
    bomb = gzip.compress(b" " * (50 << 20))
    for encoding in ("gzip", "deflate", "br", "gzip, gzip"):
        status, _ = served.json(
            "POST", "/api/ask", bomb, role="site", headers={"Content-Encoding": encoding}
        )
        assert status == 415


def test_a_slow_body_is_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(bodies, "MOST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as slow:
        slow.sendall(head(served, "/api/ask", "Content-Length: 100") + b'{"req')
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_slow_heads_are_cut_off(served, monkeypatch):
    monkeypatch.setattr(server, "_HEADER_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as slow:
        try:
            for byte in head(served)[:40]:
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
            closed = slow.recv(1) == b""
        except ConnectionError:
            closed = True
        assert closed


def test_many_silent_connections_do_not_keep_others_out(served, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 20)
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(60)]
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
    for one in slow:  # these have begun to send a body, and go on with it for ever
        one.sendall(head(served, "/api/ask", "Content-Length: 100") + b"{")
    try:
        for i in range(5):
            assert ask(served, f"others {i}")[0] == 200
            assert served.json("GET", "/healthz")[0] == 200
        wait_for(lambda: len(server.HttpConnection.silent) <= 20)
    finally:
        for one in (*silent, *slow):
            one.close()


def test_a_request_before_a_burst_of_silent_connections_is_answered(served, monkeypatch):
    """All of them wait to be accepted while the server is busy for a moment."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 100)
    place = ("127.0.0.1", served.port)
    with contextlib.ExitStack() as stack:
        stack.enter_context(socket.create_connection(place))
        wait_for(lambda: server.HttpConnection.silent)
        loop = next(iter(server.HttpConnection.silent)).loop
        loop.call_soon_threadsafe(time.sleep, 1.0)
        asked = stack.enter_context(socket.create_connection(place, timeout=10))
        asked.sendall(f"GET /healthz HTTP/1.1\r\nHost: {served.url[7:]}\r\n\r\n".encode())
        for _ in range(200):
            stack.enter_context(socket.create_connection(place))
        assert asked.recv(1000).startswith(b"HTTP/1.1 200")


def test_more_connections_than_can_be_served_are_refused_and_lose_nothing(tmp_path, monkeypatch):
    assert server.MOST_CONNECTIONS < server.MOST_AT_ONCE  # silent ones alone fill no server
    monkeypatch.setattr(server, "MOST_AT_ONCE", 5)
    with Served(tmp_path) as served, contextlib.ExitStack() as stack:
        site = Client(served.url, served.tokens["site"], spool=tmp_path / "site.spool")
        stack.callback(site.close)
        issued = site.ask("a")
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
        wait_for(lambda: served.request("GET", "/healthz")[0] == 503)
        told = site.tell(issued.ticket, *episode(issued.policy, issued.number))
        assert isinstance(told, Spooled)
        stack.pop_all().close()
        wait_for(lambda: served.request("GET", "/healthz")[0] == 200)
        with Client(served.url, served.tokens["site"], spool=tmp_path / "site.spool") as again:
            again.flush()
        assert served.ledger.status().learned == 1


def test_too_many_requests_are_sent_away(served, monkeypatch):
    monkeypatch.setattr(engine, "MOST_WAITING", -1)
    status, headers, _ = served.request("POST", "/api/ask", {"requests": ["a"]}, role="site")
    assert (status, headers["retry-after"]) == (503, "2")


def test_a_disk_that_is_full_acknowledges_nothing(served, monkeypatch):
    answer = ask(served, "full")[1]["answers"][0]

    def full(*_):
        raise StorageError("the disk is full")

    monkeypatch.setattr(served.ledger.store, "append", full)
    status, said = tell(served, report(answer))
    assert (status, said["error"]) == (503, "StorageError")
    monkeypatch.undo()
    assert tell(served, report(answer))[1]["answers"][0]["number"] == answer["number"]


def test_fuzzed_requests(served):
    found = fuzz(served, 1500, seed=0)
    assert found["4xx"] > 1000


# ---- the process ---------------------------------------------------------------------------------


def test_a_server_in_a_process_stops_when_told_and_leaves_a_whole_ledger(tmp_path):
    with Served(tmp_path) as running:
        tokens = running.tokens
    process = Process(running.address).start()
    running.port, running.tokens = process.port, tokens
    second = Process(running.address)
    with pytest.raises(AssertionError, match="is in use by process"):
        second.start()
    second.process.stdout.close()
    second.process.wait()
    assert ask(running, "one")[0] == 200
    code, said = process.stop()
    assert (code, said) == (0, "")
    with Served(tmp_path) as again:
        assert again.ledger.status().issued == 1
        assert again.ledger.verify().whole
