"""Verify a ledger: replay it from the start and compare the result with everything else known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowswitch.ledger.anchors import Known
from lowswitch.ledger.chain import ACCESS, RESTORED, Chain
from lowswitch.ledger.corrections import Corrections
from lowswitch.ledger.errors import BrokenError, ContradictedError, StorageError
from lowswitch.ledger.events import KINDS, SITE, Event, why_no_time
from lowswitch.ledger.exports import Exported
from lowswitch.ledger.responses import Verdict
from lowswitch.ledger.snapshot import compared, is_whole, state_of
from lowswitch.ledger.state import MISSING, REFUSED, State
from lowswitch.ledger.store import Snapshot, StoredTicket
from lowswitch.ledger.terms import read_terms
from lowswitch.show.progress import Progress
from lowswitch.show.text import counted

if TYPE_CHECKING:
    from lowswitch.ledger.reading import Reading

_EARLIER = "an earlier verify"  # which the service keeps in the same database
_ORDERED = 4  # the first format in which no time goes backwards
_NOT_ANCHORED = (
    "nothing from outside: somebody who can write to the database could have computed the whole"
    " chain again, cut off its end, or put back an older copy"
)
_REBUILD = (
    "every event is whole: 'lowswitch ledger restore' computes everything else from them again"
)
_RESTORE = (
    "'lowswitch ledger restore --backup FILE' takes the bad part from a backup, and what follows it"
    " from here"
)
_COMPARE = (
    "if nobody has restored a backup, somebody may have rewritten the record: pause the run, keep"
    " all files, and compare them with what sites and the board have"
)


def verify(
    ledger: Reading, *, known: Sequence[Known] = (), progress: bool | None = None
) -> Verdict:
    """Replay a ledger and compare it with its tables, its snapshots and the notes of others."""
    store = ledger.store
    known = [*known, *_earlier(ledger)]
    walk, head, remedy = _Walk(ledger.events, known), "", _RESTORE
    try:
        snapshots = store.snapshots()
        total, head = store.head()  # again, so that no snapshot is ahead of it
        bound = {snapshot.seq: ledger.is_bound(snapshot) for snapshot in snapshots}
        walk.through(total, bound, progress)
        _compare_access(ledger, walk, known)
        remedy = _REBUILD
        _count_events(ledger, walk)
        unused = _compare_snapshots(ledger, snapshots, walk)
        _compare_tickets(ledger, walk)
        odd = store.oddities()
    except (BrokenError, StorageError) as error:
        is_contradicted = isinstance(error.__cause__ or error, ContradictedError)
        return walk.broken(error, head, _COMPARE if is_contradicted else remedy)
    if odd:
        what = f"all {total:,} events are whole, but not the database: {'; '.join(odd)}"
        return Verdict(False, total, None, what, head, remedy=_REBUILD)
    return walk.verdict(total, head, unused)


def issued(read: Callable[[int], Iterable[Event]], total: int) -> list[StoredTicket]:
    """The tickets as they must be stored after `total` events, by a replay of these alone."""
    walk = _Walk(read)
    walk.through(total, {}, progress=False)
    return [walk.ticket(number) for number in range(1, len(walk.issued) + 1)]


def _earlier(ledger: Reading) -> Iterator[Known]:
    """What each earlier `verify` of the service found, as far as that can be read.

    A restore takes back events that a backup did not have, and says so in the same chain.
    """
    found = list[tuple[int, str]]()
    with suppress(BrokenError, StorageError):
        for event in Chain(ledger.store).events() if ledger.store.found >= 3 else ():
            if event.kind == "verified" and event.payload["whole"]:
                found.append((event.payload["events"], event.payload["head"]))
            elif event.kind == RESTORED:
                found = [one for one in found if one[0] <= event.payload["events"]]
    yield from (Known(seq, head, _EARLIER) for seq, head in found)


def verify_export(
    path: str | Path, *, known: Sequence[Known] = (), progress: bool | None = None
) -> Verdict:
    """Replay exported events, without their database."""
    found = Exported(path)
    walk = _Walk(found.events, known)
    try:
        walk.through(found.total, {}, progress)
    except BrokenError as error:
        return walk.broken(error, "", "export it again, and keep this file if that one is whole")
    assert walk.state is not None
    return walk.verdict(found.total, walk.state.head, "; no tickets or snapshots to compare with")


class _Walk:
    """A replay, and the values it implies for everything stored beside the events."""

    def __init__(self, read: Callable[[int], Iterable[Event]], known: Sequence[Known] = ()) -> None:
        self.read, self.replay = read, Corrections(read)
        self.state: State | None = None
        self.issued: list[tuple[Any, ...]] = []  # ticket, site, request, version, event; by number
        self.names: set[Any] = set()  # of tickets, and requests with their sites
        self.status: dict[int, str] = {}
        self.reports: dict[int, int] = {}
        self.snapshots: dict[int, str] = {}  # the hash of the state after an event
        self.outside = _Outside([one for one in known if not one.is_access])
        self.is_ordered, self.backwards = False, 0

    @property
    def seq(self) -> int:
        """The last event that was taken in."""
        return 0 if self.state is None else self.state.seq

    def through(self, total: int, bound: dict[int, bool], progress: bool | None) -> None:
        """Replay the events up to a number, and check that no other event had to follow."""
        with Progress(max(1, total), unit="events", show=progress, label="verify") as bar:
            for event in self._up_to(total):
                self.take(event, bound)
                if event.seq % 1000 == 0:
                    bar.update(event.seq)
        self.end(total)

    def _up_to(self, last: int) -> Iterator[Event]:
        """The events as they were when the walk began."""
        for event in self.read(1):
            if event.seq > last:
                return
            yield event

    def take(self, event: Event, bound: dict[int, bool]) -> None:
        """Replay the next event; bound: which events have a snapshot, and whether it is bound to
        the chain.
        """
        before = "" if self.state is None else self.state.time
        if self.state is None:
            self.state = _first(event)
            self.is_ordered = event.payload["format"] >= _ORDERED
        else:
            self.state.apply(event, self.replay)
            self._note(event)
        self._check_time(event, before)
        self.outside.see(event)
        if event.seq in bound:
            self.snapshots[event.seq] = compared(self.state, bound=bound[event.seq])
        self.status |= self.state.changed
        self.state.changed.clear()

    def _check_time(self, event: Event, before: str) -> None:
        """Check that a time is valid and does not go back, which earlier versions allowed."""
        wrong = why_no_time(event.time, before)
        if wrong and not self.is_ordered and why_no_time(event.time, "") is None:
            self.backwards += 1
        elif wrong:
            raise BrokenError(event.seq, wrong)

    def _note(self, event: Event) -> None:
        payload = event.payload
        if event.kind == "asked":
            names = ("ticket", "site", "request", "version")
            ticket, site, request, version = map(payload.get, names)
            if ticket in self.names or (site, request) in self.names or event.actor != site:
                raise BrokenError(event.seq, f"its ticket {ticket!r} or its request is taken")
            self.names |= {ticket, (site, request)}
            self.issued.append((ticket, site, request, version, event.seq))
            return
        if event.role == SITE and event.actor != self.issued[payload["number"] - 1][1]:
            raise BrokenError(event.seq, f"ticket {payload['number']} is of another site")
        if event.kind == "amended":
            self._check_amended(event)
        if KINDS[event.kind].has_report:
            self.reports[payload["number"]] = event.seq

    def _check_amended(self, event: Event) -> None:
        """Check that an amendment repeats the report that it corrects."""
        payload, number = event.payload, event.payload["number"]
        gone = (MISSING, REFUSED)
        said = payload["instead"], payload["version"], payload["was"] in gone
        was_gone = self.status.get(number) in gone
        if said != (self.reports.get(number), self.issued[number - 1][3], was_gone):
            raise BrokenError(event.seq, "it contradicts the report that it corrects")

    def end(self, total: int) -> None:
        """Report what is missing after event number `total`, which should be the last."""
        if self.state is None:
            raise BrokenError(1, "it is not there")
        if self.state.expected() is not None:
            raise BrokenError(
                total + 1, "the event that must follow from the events before it is missing"
            )
        self.status |= self.state.changed
        if self.state.seq != total:
            raise BrokenError(self.state.seq + 1, "it is not there")
        self.outside.end(total)

    def ticket(self, number: int) -> StoredTicket:
        """A ticket as it must be stored."""
        ticket, site, request, version, asked = self.issued[number - 1]
        status, report = self.status[number], self.reports.get(number)
        return StoredTicket(number, ticket, site, request, version, status, asked, report)

    def verdict(self, total: int, head: str, more: str) -> Verdict:
        """The verdict that everything is intact."""
        if self.backwards:
            more += f"; {counted(self.backwards, 'time', 'goes', 'go')} backwards"
        what = f"all {total:,} events are whole and lead to this state{more}"
        return Verdict(True, total, None, what, head, self.outside.words)

    def broken(self, error: BrokenError | StorageError, head: str, remedy: str) -> Verdict:
        """What is the first thing that is not."""
        bad = error.seq if isinstance(error, BrokenError) else self.seq + 1
        return Verdict(False, bad - 1, bad, str(error), head, remedy=remedy)


class _Outside:
    """Facts that somebody outside knows about a chain, compared event by event."""

    def __init__(self, known: Sequence[Known]) -> None:
        self.numbered: dict[int, list[Known]] = {}
        for one in known:
            if one.seq is not None:
                self.numbered.setdefault(one.seq, []).append(one)
        self.hashes = {one.hash: one for one in known if one.seq is None}
        self.agreed: dict[str, int] = {}  # the event of each source

    @property
    def words(self) -> str:
        """What the chain was compared with, in words."""
        outside = [one for one in self.agreed.items() if one[0] != _EARLIER]
        if not outside:
            return _NOT_ANCHORED
        source, seq = max(outside, key=lambda pair: pair[1])
        more = len(outside) - 1
        return f"{source}, at event {seq:,}" + (f", and {more:,} more" if more else "")

    def see(self, event: Event) -> None:
        """Compare an event with the facts known about it."""
        for one in self.numbered.pop(event.seq, ()):
            if one.hash != event.hash:
                raise ContradictedError(
                    event.seq,
                    f"{one.source} says that its hash was {one.hash}, and it is {event.hash}; this"
                    " event or one before it was rewritten, or this is another run",
                )
            self.agreed[one.source] = event.seq
        if event.hash in self.hashes:
            self.agreed[self.hashes.pop(event.hash).source] = event.seq

    def end(self, total: int) -> None:
        """Check that every known fact was seen."""
        for seq, (one, *_) in sorted(self.numbered.items()):
            raise ContradictedError(
                total + 1,
                f"it is not there, and {one.source} says that there were {seq:,} events; the end"
                " was cut off, or this is an older copy",
            )
        for one in self.hashes.values():
            raise ContradictedError(
                total + 1,
                f"it is not there, and none of the {total:,} events before it has {one.source}"
                f" {one.hash}; the record was rewritten or cut off, or the hash is of another run",
            )


def _first(event: Event) -> State:
    if event.kind != "created":
        raise BrokenError(1, "it does not declare a run")
    try:
        return State.of(read_terms(event.payload["terms"]), event)
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenError(1, f"it does not declare a run ({error})") from error


# ---- what is stored beside the events ------------------------------------------------------------


def _compare_snapshots(ledger: Reading, snapshots: list[Snapshot], walk: _Walk) -> str:
    """Compare each snapshot with the state that the events lead to, and list the unused ones.

    An unused snapshot is not an error: another version wrote it, or it is not bound to the chain.
    """
    unused = ""
    for snapshot in snapshots:
        if snapshot.seq not in walk.snapshots:
            raise BrokenError(
                walk.seq, f"a snapshot is stored for event {snapshot.seq!r}, which does not exist"
            )
        if not is_whole(snapshot):
            raise BrokenError(
                snapshot.seq, "the snapshot after it is damaged; the events are whole"
            )
        bound = ledger.is_bound(snapshot)
        found = _read_again(ledger, snapshot, bound)
        if found not in (None, walk.snapshots[snapshot.seq]):
            opening = "uses it" if bound else "replays them"
            raise BrokenError(
                snapshot.seq,
                "the snapshot after it differs from the state that the events lead to; the events"
                f" are whole, and opening the ledger {opening}",
            )
        if found is None or not bound:
            why = "is of another version" if found is None else "is not bound to the chain"
            what = f"the snapshot after event {snapshot.seq:,} {why}"
            unused = unused or f"; {what}, and the events are replayed instead of it"
    return unused


def _read_again(ledger: Reading, snapshot: Snapshot, bound: bool) -> str | None:
    """The value that a snapshot is compared by, or None if this version cannot read it."""
    state = state_of(snapshot, ledger.terms)
    try:
        return None if state is None else compared(state, bound=bound)
    except Exception:  # The facts of an unbound snapshot may be anything.
        return None


def _compare_tickets(ledger: Reading, walk: _Walk) -> None:
    """Compare every column of every ticket with the events.

    The status, the report and new rows may change. They are compared unless somebody has written
    since.
    """
    number, changed = 0, None
    for stored in ledger.store.all_tickets():
        if not (isinstance(stored.number, int) and 1 <= stored.number <= len(walk.issued)):
            name = f"ticket {stored.number!r} ({stored.ticket!r})"
            what = f"the table of tickets has {name}, which no event issued"
            changed = changed or BrokenError(walk.seq, what)
            continue
        number += 1
        wanted = walk.ticket(number)
        if stored.number != number:
            raise _not_stored(wanted)
        for column, found, said in zip(StoredTicket._fields, stored, wanted, strict=True):
            if found != said:
                what = f"ticket {number} ({wanted.ticket!r}) is stored with the {column} {found!r}"
                error = BrokenError(wanted.asked, f"{what}, but the events say {said!r}")
                if column not in ("status", "report"):
                    raise error
                changed = changed or error
    if number < len(walk.issued):
        raise _not_stored(walk.ticket(number + 1))
    if changed and ledger.store.head()[0] == walk.seq:
        raise changed


def _not_stored(ticket: StoredTicket) -> BrokenError:
    name = f"ticket {ticket.number} ({ticket.ticket!r})"
    return BrokenError(ticket.asked, f"{name} is missing from the table of tickets")


def _count_events(ledger: Reading, walk: _Walk) -> None:
    """Check that no event is stored without a number or before the first one."""
    if more := ledger.store.beside():
        rows = counted(more, "more row")
        raise BrokenError(
            walk.seq, f"the table of events has {rows} with a number that no event has"
        )


def _compare_access(ledger: Reading, walk: _Walk, known: Sequence[Known]) -> None:
    """Check that the events about access form a chain and contain those that others know of."""
    outside, time, seq = _Outside([one for one in known if one.is_access]), "", 0
    if ledger.store.found < 3:
        if walk.is_ordered:  # it was created with one
            raise StorageError("the record of access is missing, and the run began with one")
        return
    try:
        for event in Chain(ledger.store).events():
            if (wrong := why_no_time(event.time, time)) is not None:
                raise BrokenError(event.seq, wrong)
            outside.see(event)
            time, seq = event.time, event.seq
        outside.end(seq)
        if ledger.store.beside(ACCESS):
            raise BrokenError(seq, "it has rows with a number that no event has")
    except BrokenError as error:
        raise StorageError(f"the record of access is damaged at its {error}") from error
