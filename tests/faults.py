"""What may befall a ledger: kills, torn and changed files, full disks, servers that stop at once.

Each function does its worst so many times, checks that nothing was lost or made up, and returns
what it counted. The tests call them with small numbers, `benchmarks/ledger_faults.py` with large
ones.
"""

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lowswitch as ls
from ledgers import approve, counted, episode, made, play, steady, tables
from lowswitch.ledger import Ledger, LedgerError, StorageError, SupersededError
from lowswitch.ledger.chain import Chain
from lowswitch.ledger.events import KINDS, canonical, digest
from lowswitch.ledger.exports import exported
from lowswitch.ledger.state import STATUSES
from lowswitch.show.progress import Progress

REPORT = ("states", "actions", "rewards", "ended")


def told(ledger, number):
    """Ask and tell episode `number` as a client does that may have done it before."""
    issued = ledger.ask("here", f"r{number}")
    assert issued.number == number
    ledger.tell(issued.ticket, *episode(issued.policy, number))
    if (proposal := ledger.proposal()) is not None:
        approve(ledger, proposal)


def undisturbed(folder, episodes):
    """The head and the tables of a run that nothing befalls."""
    ledger = made(folder / "undisturbed.db", episodes=episodes)
    for number in range(1, episodes + 1):
        told(ledger, number)
    return ledger.status().head, tables(ledger)


# ---- kills ---------------------------------------------------------------------------------------


def _client(address, first, last, acknowledgements):
    """Tell episodes and acknowledge each by a line, until it is killed."""
    ledger = steady(Ledger.open(address))
    for number in range(first, last + 1):
        told(ledger, number)
        os.write(acknowledgements, f"{number}\n".encode())


def kills(folder, *, episodes, most_kills, seed):
    """Kill -9 a client that writes, again and again; the next one sends its last episodes again."""
    generator, address = np.random.default_rng(seed), folder / "killed.db"
    expected = undisturbed(folder, episodes)
    made(address, episodes=episodes).close()
    done, killed, acknowledged = 0, 0, set()
    bar = Progress(episodes, unit="reports", label="kills")
    while done < episodes:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _client(address, max(1, done - 2), episodes, writing)
            os._exit(0)
        os.close(writing)
        aim = done + max(2, (episodes - done) // max(1, most_kills - killed))
        with os.fdopen(reading, buffering=1) as lines:
            for line in lines:
                done = max(done, int(line))
                acknowledged.add(int(line))
                bar.update(done)
                if killed < most_kills and done >= aim:
                    time.sleep(generator.random() * 0.01)  # so that it lands anywhere in the next
                    os.kill(child, signal.SIGKILL)
                    killed += 1
                    aim = episodes + 1
        os.waitpid(child, 0)
    ledger = Ledger.open(address)
    reports = [event.payload["number"] for event in ledger.events() if event.kind == "told"]
    assert len(reports) == len(set(reports)) == episodes
    assert acknowledged <= set(reports)
    assert (ledger.status().head, tables(ledger)) == expected
    assert ledger.verify().whole
    return {"kills": killed, "reports": episodes, "lost": 0, "double": 0}


# ---- files ---------------------------------------------------------------------------------------


def torn_logs(folder, *, trials, seed):
    """Cut or flip the write-ahead log anywhere: the ledger opens at one of its commits."""
    generator, address = np.random.default_rng(seed), folder / "whole.db"
    ledger = made(address)
    ledger.store.connection.execute("PRAGMA wal_autocheckpoint = 0")
    states = {ledger.status().head: tables(ledger)}
    log = Path(f"{address}-wal")
    after_creation = log.stat().st_size
    for number in range(1, 25):
        issued = ledger.ask("here", f"r{number}")
        states[ledger.status().head] = tables(ledger)
        ledger.tell(issued.ticket, *episode(issued.policy, number))
        states[ledger.status().head] = tables(ledger)
        if (proposal := ledger.proposal()) is not None:
            approve(ledger, proposal)
            states[ledger.status().head] = tables(ledger)
    whole, reached = log.read_bytes(), set()
    for trial in counted(trials, "logs", "torn logs"):
        copy = folder / f"torn{trial}.db"
        shutil.copy(address, copy)
        place = int(generator.integers(after_creation, len(whole)))
        torn = bytearray(whole[:place] if trial % 2 else whole)
        if trial % 2 == 0:
            torn[place] ^= 1 << int(generator.integers(8))
        Path(f"{copy}-wal").write_bytes(torn)
        with Ledger.open(copy) as opened:
            head = opened.status().head
            assert head in states
            assert tables(opened) == states[head]
            assert opened.status().balanced
        reached.add(head)
        for name in folder.glob(f"{copy.name}*"):
            name.unlink()
    return {"torn": trials, "opened at a commit": trials, "different commits": len(reached)}


def _rows(path):
    connection = sqlite3.connect(path)
    return connection, connection.execute(
        "SELECT seq, body, hash FROM events ORDER BY seq"
    ).fetchall()


def tampered(folder, *, trials, seed):
    """Change, delete, insert or reorder events: `verify` names the first that is wrong.

    In half of the changes the hash is made to fit, as somebody would who knows how. Then it is the
    next event that does not follow, unless what was changed contradicts what came before.
    """
    generator, address = np.random.default_rng(seed), folder / "clean.db"
    ledger = made(address)
    play(ledger, 25, decide=approve)
    last = ledger.status().events
    ledger.close()
    kinds = ["changed", "changed and hashed", "deleted", "inserted", "reordered"]
    for trial in counted(trials, "ledgers", "tampered"):
        copy, kind = folder / f"tampered{trial}.db", kinds[trial % len(kinds)]
        shutil.copy(address, copy)
        connection, rows = _rows(copy)
        at = int(generator.integers(2, last - 1))
        _, body, _ = rows[at - 1]
        wanted = {at}
        if kind.startswith("changed"):
            place = int(generator.integers(len(body)))
            other = chr(ord(body[place]) ^ 1)
            text = body[:place] + other + body[place + 1 :]
            stored = digest(text) if "hashed" in kind else rows[at - 1][2]
            wanted = {at, at + 1} if "hashed" in kind else {at}
            connection.execute(
                "UPDATE events SET body = ?, hash = ? WHERE seq = ?", (text, stored, at)
            )
        elif kind == "deleted":
            connection.execute("DELETE FROM events WHERE seq = ?", (at,))
        elif kind == "inserted":
            connection.execute("UPDATE events SET seq = -seq - 1 WHERE seq >= ?", (at,))
            connection.execute("UPDATE events SET seq = -seq WHERE seq < 0")
            forged = canonical([at, "now", "me", "reviewer", "conflict", {}, rows[at - 2][2]])
            connection.execute("INSERT INTO events VALUES (?, ?, ?)", (at, forged, digest(forged)))
            wanted = {at, at + 1}
        else:
            connection.execute("UPDATE events SET seq = -1 WHERE seq = ?", (at,))
            connection.execute("UPDATE events SET seq = ? WHERE seq = ?", (at, at + 1))
            connection.execute("UPDATE events SET seq = ? WHERE seq = -1", (at + 1,))
        connection.commit()
        connection.close()
        with Ledger.open(copy, read_only=True) as opened:
            verdict = opened.verify()
        assert not verdict.whole, (kind, at)
        assert verdict.first_bad in wanted, (kind, at, verdict)
        for name in folder.glob(f"{copy.name}*"):
            name.unlink()
    return {"tampered": trials, "first bad event named": trials}


def full_disk(folder, *, points, seed):
    """Let the file system refuse to write at so many sizes of the log, and go on afterwards."""
    episodes, refused = 3 * points, 0
    expected = undisturbed(folder, episodes)
    address = folder / "full.db"
    ledger = made(address, episodes=episodes)
    log, generator = Path(f"{address}-wal"), np.random.default_rng(seed)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before_signal = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for number in range(1, episodes + 1):
            if number % 3 == 0:
                before = ledger.status(), tables(ledger)
                # the next commit writes some pages; let it end anywhere in them
                room = log.stat().st_size + int(generator.integers(1, 4096))
                ledger.store.connection.execute("PRAGMA wal_autocheckpoint = 0")
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
                with contextlib.suppress(StorageError):
                    told(ledger, number)
                    raise AssertionError("there was room")
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                refused += 1
                assert (ledger.status(), tables(ledger)) == before
            told(ledger, number)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before_signal)
    assert (ledger.status().head, tables(ledger)) == expected
    assert ledger.verify().whole
    return {"refused": refused, "acknowledged": 0}


def flips(folder, *, trials, seed):
    """Flip one bit of the file of a ledger: what is changed for anybody, `verify` finds.

    A flip is harmful if something that people or sites read or are answered is another, or cannot
    be read; loud, if opening or reading says so itself; and silent, if it is harmful and neither
    that nor `verify` says so.
    """
    generator, address = np.random.default_rng(seed), folder / "clean.db"
    ledger = made(address, episodes=60)
    play(ledger, 20, decide=approve)
    ledger.ask("there", "open")
    ledger.missing(ledger.ask("there", "lost").ticket, "lost", by="office")
    ledger.amend("t3", [1, 2, 3], [0, 1, 0], [0, 0, 1], by="office", reason="a wrong file")
    ledger.save_snapshot()
    play(ledger, 3, decide=approve)
    with ledger.store.transaction():
        Chain(ledger.store).record("office", "operator", "token_created", {"id": "a"})
    reports = [one.payload for one in ledger.events() if one.kind == "told"]
    ledger.close()
    expected, whole = _all_that_is_read(address, reports), address.read_bytes()
    found = {"flips": 0, "harmless": 0, "loud": 0, "found by verify": 0, "silent": 0}
    places = []
    for trial in counted(trials, "flips", "flips"):
        copy, place = folder / f"flipped{trial}.db", int(generator.integers(8 * len(whole)))
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        copy.write_bytes(flipped)
        kind = _kind_of_flip(copy, reports, expected)
        found["flips"] += 1
        found[kind] += 1
        if kind == "silent":
            places.append(place)
        for name in folder.glob(f"{copy.name}*"):
            name.unlink()
    assert not places, places
    return found


def _kind_of_flip(path, reports, expected):
    """What became of a flip; verify looks before anybody else does."""
    try:
        with Ledger.open(path, read_only=True) as opened:
            whole = opened.verify(progress=False).whole
    except (LedgerError, OverflowError, UnicodeDecodeError):
        return "loud"
    try:
        same = _all_that_is_read(path, reports) == expected
    except (LedgerError, OverflowError, UnicodeDecodeError, ValueError, TypeError, KeyError):
        return "loud" if whole else "found by verify"
    if same:
        return "harmless"
    return "silent" if whole else "found by verify"


def _all_that_is_read(path, reports):
    """Everything that a ledger shows, and what it answers to requests and reports that it had."""
    with Ledger.open(path, read_only=True) as opened:
        shown = [opened.status(), opened.proposals(), opened.versions(), tables(opened)]
        shown += [opened.policy_of(i + 1).tolist() for i in range(opened.version)]
        shown += [opened.list_tickets(status) for status in STATUSES]
        shown += list(exported(opened, "jsonl"))
        shown += [one.seq for kind in KINDS for one in opened.newest(1000, kind=kind)]
        shown += [one.hash for one in Chain(opened.store).events()]
    with (
        steady(Ledger.open(path)) as opened,
        contextlib.suppress(_UndoneError),
        opened._writing() as one,
    ):
        for number in range(1, 24):
            shown.append(one.store.request("here", f"r{number}"))
        for payload in reports:
            (ticket,) = one.store.tickets_named([f"t{payload['number']}"])
            shown.append(one.tell(ticket.ticket, *map(payload.get, REPORT), site=ticket.site))
        shown.append(one.ask("here", "new"))
        raise _UndoneError
    return [str(part) for part in shown]


class _UndoneError(Exception):
    """Nothing of this is to be written."""


# ---- power cuts ----------------------------------------------------------------------------------


def power_cuts(folder, *, episodes, trials, seed, synchronous="FULL"):
    """Cut the power at any moment: what was acknowledged is there, and the ledger is whole.

    A library logs what a process writes and syncs (`powerloss.c`). From that the files are made
    that a disk may hold: any part of what was not yet synced may be lost, in any order.
    """
    log, library, address = folder / "log", folder / "powerloss.so", folder / "run" / "a.db"
    address.parent.mkdir()
    source = Path(__file__).with_name("powerloss.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    program = f"import faults; faults._powered({str(address)!r}, {episodes}, {synchronous!r})"
    watch = {"POWERLOSS_LOG": str(log), "POWERLOSS_PREFIX": str(address.parent.resolve())}
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | watch | {"LD_PRELOAD": str(library), "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    with Ledger.open(address) as ledger:
        final = [one.hash for one in ledger.events()]
    records, generator = list(_records(log.read_bytes())), np.random.default_rng(seed)
    found = {"cuts": 0, "before it was made": 0, "lost": 0, "not whole": 0}
    for trial in counted(trials, "cuts", "power cuts"):
        cut, place = int(generator.integers(1, len(records) + 1)), folder / f"cut{trial}"
        place.mkdir()
        acknowledged = max((r.offset for r in records[:cut] if r.kind == "a"), default=0)
        on_disk(records[:cut], address, place, generator)
        found["cuts"] += 1
        if not (place / "a.db").exists():
            found["before it was made"] += 1
            found["lost"] += acknowledged > 0
        else:
            try:
                with Ledger.open(place / "a.db") as opened:
                    hashes = [one.hash for one in opened.events()]
                    found["not whole"] += not opened.verify(progress=False).whole
            except LedgerError:
                hashes = []
                found["not whole"] += 1
            found["lost"] += hashes != final[: len(hashes)] or len(hashes) < acknowledged
        shutil.rmtree(place)
    return found


class Record(NamedTuple):
    """One thing that a process did to a file."""

    kind: str  # w(rite), t(runcate), s(ync), l(ink), u(nlink), or a(cknowledge)
    path: str
    offset: int
    data: bytes


def _records(log):
    at = 0
    while at < len(log):
        kind, (name,) = chr(log[at]), struct.unpack_from("<H", log, at + 1)
        path = log[at + 3 : at + 3 + name].decode()
        offset, length = struct.unpack_from("<QQ", log, at + 3 + name)
        at += 3 + name + 16
        size = length if kind in "wl" else 0
        yield Record(kind, path, offset, log[at : at + size])
        at += size


def on_disk(records, address, place, generator):
    """Write the files that a disk may hold after these records, in another folder."""
    synced = {r.path: i for i, r in enumerate(records) if r.kind == "s"}  # the last of each file
    folder, names = str(address.parent.resolve()), {}
    images: dict[str, bytearray] = {}
    for i, record in enumerate(records):
        sure = i < synced.get(record.path, -1)
        if record.kind == "l" and (i < synced.get(folder, -1) or generator.random() < 0.5):
            images[record.path] = images.setdefault(record.data.decode(), bytearray())
            names[record.path] = True
        elif record.kind == "u" and i < synced.get(folder, -1):
            images.pop(record.path, None)
        elif record.kind in "wt" and (sure or generator.random() < 0.5):
            _apply(images.setdefault(record.path, bytearray()), record, sure, generator)
    for path, image in images.items():
        if Path(path).name in ("a.db", "a.db-wal") and (names or "wal" in path):
            (place / Path(path).name).write_bytes(image)


def _apply(image, record, sure, generator):
    """Carry out a write or a truncation on a file; one that is not synced may be torn."""
    if record.kind == "t":
        del image[record.offset :]
        image.extend(bytes(record.offset - len(image)))
        return
    data = record.data
    if not sure and generator.random() < 0.5:
        data = data[: int(generator.integers(len(data) + 1))]
    image.extend(bytes(max(0, record.offset - len(image))))
    image[record.offset : record.offset + len(data)] = data


def _powered(address, episodes, synchronous):
    """Make a ledger and play; acknowledge how many events are on the disk."""
    mark = ctypes.CDLL(os.environ["LD_PRELOAD"]).powerloss_mark
    mark.argtypes = [ctypes.c_uint64]
    ledger = made(address, episodes=episodes)
    mark(1)
    ledger.store.connection.execute(f"PRAGMA synchronous = {synchronous}")
    ledger.store.connection.execute("PRAGMA wal_autocheckpoint = 40")
    for number in range(1, episodes + 1):
        told(ledger, number)
        mark(ledger.store.head()[0])


# ---- order, reviewers, servers -------------------------------------------------------------------


def orders(folder, *, trials, seed):
    """Let a block of reports arrive in any order: the same learner, to the bit."""
    generator, address = np.random.default_rng(seed), folder / "asked.db"
    ledger, found = made(address), set()
    issued = [ledger.ask("here", f"r{k}") for k in range(12)]
    reports = [
        dict(
            zip(
                ("ticket", "states", "actions", "rewards"),
                (one.ticket, *episode(one.policy, one.number)),
                strict=True,
            )
        )
        for one in issued
    ]
    ledger.close()
    for _ in counted(trials, "orders", "orders of arrival"):
        copy = folder / "order.db"
        shutil.copy(address, copy)
        with steady(Ledger.open(copy)) as opened:
            for i in generator.permutation(12):
                opened.tell(**reports[i])
            found.add(str(tables(opened)))
        for name in folder.glob("order.db*"):
            name.unlink()
    assert len(found) == 1
    return {"orders": trials, "learners": len(found)}


def reviewers(address, *, rounds):
    """Two reviewers, each with a ledger of their own, decide at one moment on what both have seen.

    Exactly one of the two decisions is applied.
    """
    ledger = made(address, ls.ucb2_hoeffding(c=0.05), episodes=100 * rounds)
    other, applied = steady(Ledger.open(address)), {"first": 0, "second": 0}
    together = threading.Barrier(2)

    def decide(one, by, proposal):
        together.wait()
        with contextlib.suppress(SupersededError):
            return one.approve(proposal, by=by, reason="seen") and by

    with ThreadPoolExecutor(2) as threads:
        for _ in counted(rounds, "rounds", "two reviewers"):
            while (proposal := ledger.proposal()) is None:
                play(ledger, 1)
            assert other.proposal() == proposal
            made_by = [threads.submit(decide, ledger, "first", proposal)]
            made_by += [threads.submit(decide, other, "second", proposal)]
            (winner,) = filter(None, [one.result() for one in made_by])
            applied[winner] += 1
    assert ledger.version == 1 + rounds
    assert ledger.verify().whole
    return {"rounds": rounds, "applied": sum(applied.values()), **applied}


def stops(server, address, folder, *, times, episodes):
    """Stop a PostgreSQL at once, again and again, while a client writes."""
    expected = undisturbed(folder, episodes)
    ledger, number, stopped = made(address, episodes=episodes), 0, 0
    bar = Progress(episodes, unit="reports", label="stops of PostgreSQL")
    while number < episodes:
        if stopped < times and number >= stopped * episodes // times:
            stop_at_once(server.get_pid())
            stopped += 1
        try:
            told(ledger, number + 1)
            number += 1
            bar.update(number)
        except StorageError:
            server.ensure_postgres_running()
    assert (ledger.status().head, tables(ledger)) == expected
    assert ledger.verify().whole
    return {"stops": stopped, "reports": episodes, "lost": 0, "double": 0}


def stop_at_once(pid):
    """What a power cut is to a server: SIGQUIT, which PostgreSQL calls an immediate shutdown."""
    os.kill(pid, signal.SIGQUIT)
    while Path(f"/proc/{pid}").exists() and "Z" not in _process_state(pid):
        time.sleep(0.01)


def _process_state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"
