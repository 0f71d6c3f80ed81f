"""What strangers and broken programs send: requests that are changed at random, and faults.

Each function does its worst, checks that nothing came of it, and returns what it counted. The tests
call them with small numbers, `benchmarks/service.py` with large ones.
"""

import contextlib
import json
import multiprocessing
import random
import re
import socket
import threading
import time

import numpy as np

from ledgers import ALGORITHM, MDP, A, H, S, counted
from lowswitch.ledger import Client, Ledger
from lowswitch.ledger.errors import SupersededError, UnreachableError
from lowswitch.service.access import Access
from lowswitch.show.progress import Progress
from served import Process

# ---- fuzzed requests -----------------------------------------------------------------------------

NASTY = [
    *(None, True, False, 0, -1, 10**17, 10**30, 1.5, -0.0, 1e308, "", " ", "x", "\x00", "\u202e"),
    *("'; DROP TABLE events; --", "<script>alert(1)</script>", "../../etc/passwd", "=1+1", "@x"),
    *("\ud800", "é" * 3000, [], {}, [[]], [{}], {"a": 1}, ["x"] * 700, [[1, 2], [3]]),
]
RAW = [
    *(b"", b"{", b"}", b"[" * 5000, b'{"a":' * 3000, b"\xff\xfe", b"\x00", b"nul", b'"', b"[1,]"),
    *(b'{"requests":[NaN]}', b'{"requests":[1e999]}', b'{"requests":["a"],"requests":["b"]}'),
    *(b"[" + b"1," * 5000 + b"1]", b'{"requests":["\\ud800"]}', b"\xef\xbb\xbf{}", b"1" * 5000),
    *(b'{"reports":[{"ticket":Infinity}]}', b"-", b"{}{}", b'{"version":01,"reason":"x"}'),
]
HEADERS = [
    *(
        ("Content-Encoding", "gzip"),
        ("Content-Type", "text/html"),
        ("Origin", "https://evil.example"),
    ),
    *(("Authorization", "Bearer x.y"), ("Authorization", "Basic eDp5"), ("Cookie", "lowswitch=x")),
    *(("X-Forwarded-For", "127.0.0.1"), ("X-HTTP-Method-Override", "DELETE"), ("Host", "evil")),
    *(("Accept", "\x7f"), ("Range", "bytes=0-1"), ("Transfer-Encoding", "gzip, chunked")),
    *(("Content-Length", "-1"), ("Content-Length", "99999999999"), ("Expect", "100-continue")),
]
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FOO"]
PATHS = [
    *("/", "/api", "/api/", "/api/ask/", "//api/ask", "/api/../api/status", "/%2e%2e/etc/passwd"),
    *("/api/events?first=-1", "/api/events?first=1e9", "/api/policy?version=0", "/map?page=%00"),
    *("/api/policy?version=99999999999", "/row?step=9&state=9", "/row?step=a", "/map?view=x"),
    *("/audit?search=%25%5f~&kind=told", "/audit?before=0", "/difference?from=0&to=0", "/%ff%fe"),
    *("/audit?kind=%27", "/api/tickets?status=%3Cb%3E", "/api/export?kind=exe", "/style.css/x"),
    *("/map?search=" + "x" * 3000, "/a" * 2000, "/?a=1&a=2", "/map?view=action&view=visits"),
]


def good_bodies(ticket):
    """A request that could be meant, for each address that takes one."""
    report = {"ticket": ticket, "states": [0] * H, "actions": [0] * H, "rewards": [0.0] * H}
    return {
        "/api/ask": {"requests": ["one", "two"]},
        "/api/tell": {"reports": [report | {"ended": "whole"}]},
        "/api/approve": {"proposal": "0" * 64, "rows": [[0, 0]], "reason": "seen"},
        "/api/reject": {"proposal": "0" * 64, "rows": None, "reason": "no", "forever": True},
        "/api/freeze": {"reason": "alarm"},
        "/api/thaw": {"reason": "over"},
        "/api/rollback": {"version": 1, "reason": "no"},
        "/api/missing": {"ticket": ticket, "reason": "lost"},
        "/api/amend": report | {"reason": "wrong"},
        "/api/tokens/revoke": {"id": "nobody"},
    }


def changed(value, dice):
    """A value with one thing in it made nasty."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(list(value))
        other = dict(value)
        how = dice.random()
        if how < 0.15:
            del other[key]
        elif how < 0.3:
            other[str(dice.choice(NASTY))[:50]] = dice.choice(NASTY)
        else:
            other[key] = changed(value[key], dice)
        return other
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        return [*value[:at], changed(value[at], dice), *value[at + 1 :]]
    return dice.choice(NASTY)


def fuzzed(served, dice, ticket, sessions):
    """One request as bytes, as whom it is sent, and whether it may do something if it is taken."""
    bodies = good_bodies(ticket)
    role = dice.choice([None, "site", "reviewer", "operator", "auditor"])
    method, path = "POST", dice.choice(list(bodies))
    if dice.random() < 0.6:
        text = json.dumps(changed(bodies[path], dice)).encode()
        if dice.random() < 0.2:  # and some bytes of it changed
            text = bytearray(text)
            for _ in range(dice.randrange(1, 4)):
                text[dice.randrange(len(text))] = dice.randrange(256)
    else:
        text = dice.choice(RAW)
    if dice.random() < 0.3:
        method, path = dice.choice(METHODS), dice.choice([*PATHS, *bodies])
    headers = [("Host", "127.0.0.1"), ("Content-Length", str(len(text)))]
    if role is not None and dice.random() < 0.9:
        headers.append(("Authorization", f"Bearer {served.tokens[role]}"))
    if role in sessions and dice.random() < 0.3:
        headers.append(("Cookie", sessions[role][0]))
        headers.append(("Origin", served.url))
        headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        if not path.startswith("/api"):
            form = dice.choice([b"", b"form=x", b"form=" + sessions[role][1].encode(), b"a=%zz&"])
            text = form + dice.choice([b"", b"&row=x:y", b"&version=-1", b"&row=0:0&decision=z"])
            headers[1] = ("Content-Length", str(len(text)))
    if dice.random() < 0.3:
        headers.append(dice.choice(HEADERS))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers)
    return head.encode("latin-1", "replace") + b"\r\n" + bytes(text)


def send_raw(port, data, seconds=15):
    """Send bytes, and give the status that comes back (0: the connection was closed)."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            answer = b""
            while b"\r\n" not in (final := _GO_ON.sub(b"", answer)):
                piece = connection.recv(65536)
                if not piece:
                    return 0
                answer += piece
        except ConnectionError:
            return 0
    return int(final.split()[1])


_GO_ON = re.compile(rb"^HTTP/1.1 100[^\r]*\r\n\r\n")  # and then comes the answer


def fuzz(served, count, seed):
    """Send changed requests: none gets a 500, and what is refused has changed nothing."""
    dice, found = random.Random(seed), {}
    ticket = served.ledger.ask("the site", "fuzz").ticket
    sessions = {role: served.login(role) for role in ("reviewer", "operator", "auditor")}
    logged_in = dict(sessions)
    before = served.ledger.store.head()
    for _ in counted(count, "requests", "fuzz"):
        data = fuzzed(served, dice, ticket, sessions)
        status = send_raw(served.port, data)
        kind = f"{status // 100}xx" if status else "closed"
        found[kind] = found.get(kind, 0) + 1
        assert status < 500 or status == 501, (status, data[:400])
        after = served.ledger.store.head()
        if after != before:
            added = [event.kind for event in served.ledger.events(before[0] + 1)]
            taken = 200 <= status < 400
            kept = set(added) <= {"conflict", "refused"}  # refused, and on record by design
            assert taken or kept, (status, added, data[:400])
            before = after
        if status == 303 and data.startswith(b"POST /logout"):
            sessions = logged_in = {role: served.login(role) for role in logged_in}
    assert served.ledger.verify().whole
    assert served.json("GET", "/healthz")[0] == 200
    return {"requests": count, **dict(sorted(found.items()))}


# ---- many clients, a server that is killed, and a network that drops -----------------------------


class Cutter:
    """A relay that now and then cuts a connection: before, in the middle of, or after an answer."""

    def __init__(self, port, seed, share):
        self.to, self.dice, self.share, self.cuts = port, random.Random(seed), share, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]

    def start(self):
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listening.close()

    def _accept(self):
        while True:
            try:
                one, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(one,), daemon=True).start()

    def _relay(self, one):
        try:
            with one, socket.create_connection(("127.0.0.1", self.to), timeout=20) as other:
                one.settimeout(20)
                back = threading.Thread(target=self._copy, args=(other, one), daemon=True)
                back.start()
                self._copy(one, other)
                back.join()
        except OSError:
            pass

    def _copy(self, source, target):
        try:
            while data := source.recv(65536):
                if self.dice.random() < self.share:
                    self.cuts += 1
                    target.sendall(data[: self.dice.randrange(len(data) + 1)])
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def site(url, token, spool, episodes, pause, name, answers):
    """A client process: play a series, and then send what is still waiting."""
    from lowswitch.envs.gymnasium import TabularEnv

    class Slow(TabularEnv):  # else all is played while the server is away for the first time
        def reset(self, **given):
            time.sleep(pause)
            return super().reset(**given)

    try:
        with Client(url, token, spool=spool, fallback=np.zeros((H, S), dtype=int)) as client:
            while client._spool.get("terms") is None:  # a site that never reached the server
                with contextlib.suppress(UnreachableError):  # knows nothing to go on with
                    client.terms()
            client.play(Slow(MDP), episodes, name=name, seed=sum(name.encode()))
            end = time.monotonic() + 900  # servers that are killed often are away for long
            while client.waiting or client._spool.promised():
                assert time.monotonic() < end
                try:
                    client.flush()
                except Exception:
                    time.sleep(0.05)
            answers.put((name, "done", len(client.refused())))
    except BaseException as error:
        answers.put((name, repr(error), 0))
        raise


def reviewer(url, token, name, stop, answers):
    """A client process: decide on every proposal, each decision under one name until it is made."""
    client, made, pending = Client(url, token), [], None
    while not (stop.is_set() and pending is None):
        try:
            pending = pending or client.proposal()
            if pending is None:
                time.sleep(0.01)
                continue
            request = f"{name} on {pending.hash[:16]}"
            rows = [(row["step"], row["state"]) for row in pending.rows]
            if int(pending.hash, 16) % 4:
                client.approve(pending, reason="seen", request=request)
            else:
                client.reject(pending, rows=rows[:1], reason="not now", request=request)
            made.append(request)
        except UnreachableError:
            time.sleep(0.02)
            continue  # the same decision again, or the next proposal
        except SupersededError:
            pass  # the other reviewer was faster
        pending = None
    answers.put((name, made))


def soak(folder, *, clients, episodes, kills, cut_share, seed, pause=0.0, address=None, servers=1):
    """Clients play, servers are killed (-9), and the network drops: nothing lost or double.

    Two reviewers decide meanwhile, and each decision that was acknowledged is on record once.
    pause: seconds between the episodes of a client. address: a PostgreSQL, which several servers
    may share; the clients are spread over them.
    """
    dice, address = random.Random(seed), address or folder / "soak.db"
    size = {"horizon": H, "states": S, "actions": A, "episodes": clients * episodes}
    Ledger.create(address, ALGORITHM, **size).close()
    access = Access(str(address))
    names = [f"site {i}" for i in range(clients)]
    tokens = [access.create(name=name, role="site", days=1) for name in names]
    board = {name: access.create(name=name, role="reviewer", days=1) for name in ("Ada", "Bo")}
    access.close()
    running = [Process(address).start() for _ in range(servers)]
    relays = [Cutter(server.port, seed + i, cut_share) for i, server in enumerate(running)]
    context = multiprocessing.get_context("fork")
    answers, decided, stop = context.Queue(), context.Queue(), context.Event()
    urls = [f"http://127.0.0.1:{relays[i % servers].port}" for i in range(clients)]
    sites = []
    for i, (name, token) in enumerate(zip(names, tokens, strict=True)):
        given = (urls[i], token, folder / f"{i}.spool", episodes, pause, name, answers)
        sites.append(context.Process(target=site, args=given))
    board = [
        context.Process(target=reviewer, args=(urls[i], token, name, stop, decided))
        for i, (name, token) in enumerate(board.items())
    ]
    for one in [*sites, *board]:
        one.start()
    for relay in relays:
        relay.start()  # a thread, and so after the processes
    killed = _killing(address, sites, running, kills, clients * episodes, dice)
    results = [answers.get(timeout=10) for _ in sites]
    stop.set()
    decisions = dict(decided.get(timeout=60) for _ in board)
    for one in [*sites, *board]:
        one.join()
    for server, relay in zip(running, relays, strict=True):
        code, said = server.stop()
        relay.close()
        assert code == 0, said
        assert "Traceback" not in said, said
    counts = {"servers": servers, "kills": killed, "cuts": sum(relay.cuts for relay in relays)}
    return _checked(address, names, episodes, results) | _in_order(address, decisions) | counts


def _killing(address, sites, running, kills, total, dice):
    """Kill one server after the other while the sites play; how often."""
    killed, bar = 0, Progress(total, unit="episodes", label="kills of the server")
    with Ledger.open(address, read_only=True) as reader:
        while any(one.is_alive() for one in sites):
            issued = reader.store.execute("SELECT COUNT(*) FROM tickets")[0][0]
            bar.update(issued)
            if killed < kills and issued >= (killed + 1) * total // (kills + 2):
                server = dice.choice(running)
                time.sleep(dice.random() * 0.05)  # so that it lands anywhere
                server.kill()
                killed += 1
                time.sleep(dice.random() * 0.3)  # a while without this server
                server.start()
            time.sleep(0.005)
    return killed


def _in_order(address, decisions):
    """Each acknowledged decision is on record once, under its name, and versions have one order."""
    with Ledger.open(address, read_only=True) as ledger:
        found = [one for one in ledger.events() if one.kind in ("approved", "rejected")]
    named = [(one.actor, one.payload["request"][0]) for one in found]
    assert len(set(named)) == len(named)
    said = {(name, request) for name, made in decisions.items() for request in made}
    assert said == set(named)
    versions = [one.payload["version"] for one in found if one.kind == "approved"]
    assert versions == list(range(2, len(versions) + 2))
    return {"decisions": len(found), "versions": len(versions)}


def _checked(address, names, episodes, results):
    assert {(name, done, refused) for name, done, refused in results} == {
        (name, "done", 0) for name in names
    }, results
    ledger = Ledger.open(address)
    told = [event.payload["number"] for event in ledger.events() if event.kind == "told"]
    asked = [event.payload for event in ledger.events() if event.kind == "asked"]
    requests = {(one["site"], one["request"]) for one in asked}
    wanted = {(name, f"{name}-{i + 1}") for name in names for i in range(episodes)}
    assert requests == wanted
    assert len(told) == len(set(told)) == len(asked) == len(wanted)
    status, verdict = ledger.status(), ledger.verify()
    assert verdict.whole, verdict.what
    assert status.balanced
    assert (status.learned, status.missing, status.open) == (len(wanted), 0, 0)
    conflicts = sum(event.kind == "conflict" for event in ledger.events())
    assert conflicts == 0
    ledger.close()
    return {"clients": len(names), "reports": len(told), "lost": 0, "double": 0}
