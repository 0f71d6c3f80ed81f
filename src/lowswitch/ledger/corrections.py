"""What a run would be, had every amended report been right from the start.

An amendment changes what was learned from its ticket on, and nothing before that. So the replay
begins at the last mark that had not heard of the ticket. Marks are states of such a replay, kept as
it goes on: dense near its end, where most corrections belong, and sparse long before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from lowswitch.ledger.events import KINDS, Event, Kind
from lowswitch.ledger.snapshot import state_of
from lowswitch.ledger.state import Replay, State
from lowswitch.ledger.store import Snapshot
from lowswitch.ledger.terms import Report, Terms

_EVERY = 1000  # events between two new marks
_MOST = 40  # marks


class Corrections(Replay):
    """How events are taken in, and the replay that an amendment needs.

    read: the events from a number on. amended: the amendments before an event, in their order.
    snapshots: those that the chain vouches for; without an amendment before them, they are marks.
    """

    def __init__(
        self,
        read: Callable[[int], Iterable[Event]],
        amended: Callable[[int], Iterable[Event]],
        snapshots: Callable[[], Iterable[Snapshot]] = tuple,
    ) -> None:
        super().__init__()
        self.read, self.amended, self.snapshots = read, amended, snapshots
        self.unwritten: list[Event] = []  # of a transaction that is under way, which nobody reads
        self.forget()

    def forget(self) -> None:
        """Let go of the marks, as when the events are not those of before."""
        self._reports: dict[int, Report] = {}
        self._marks: list[State] = []

    def rebuilt(self, event: Event, terms: Terms) -> State:
        """The state before an amendment, as if all amended reports had come in the first place."""
        self._begin(event, terms)
        state, forced = self._marks[-1].copy(), Replay(self._reports)
        for other in _that_matter(self._before(event, state.seq + 1)):
            state.apply(other, forced)
            state.changed.clear()
            if other.seq - self._marks[-1].seq >= _EVERY:
                self._marks.append(state.copy())
                self._thin(event.seq)
        state.learn()
        return state

    def _before(self, event: Event, first: int) -> Iterator[Event]:
        """The events from a number on that come before an event."""
        for other in itertools.chain(self.read(first), self.unwritten):
            if other.seq == event.seq:
                return
            yield other

    def _begin(self, event: Event, terms: Terms) -> None:
        """Let the last mark be one to begin from."""
        new = [one for one in self.unwritten if one.kind == "amended" and one.seq < event.seq]
        amended = [*self.amended(event.seq), *new, event]
        reports = {one.payload["number"]: Report.from_payload(one.payload) for one in amended}
        both = reports.keys() | self._reports.keys()
        changed = [number for number in both if reports.get(number) != self._reports.get(number)]
        self._marks = [one for one in self._marks if not _has_any(one, changed)]
        if not self._marks:
            self._marks = [self._first(amended[0].seq, reports, terms)]
        self._reports = reports

    def _first(self, amended_at: int, reports: Iterable[int], terms: Terms) -> State:
        """The last snapshot from before all amendments, and from before what they change."""
        for snapshot in self.snapshots():
            state = state_of(snapshot, terms) if snapshot.seq < amended_at else None
            if state is not None and not _has_any(state, reports):
                return state
        for first in self.read(1):
            return State.of(terms, first)
        raise AssertionError("an amendment has events before it")

    def _thin(self, end: int) -> None:
        """Drop the mark that is missed least: where the gap is smallest for its distance."""
        if len(self._marks) > _MOST:
            places = [one.seq for one in self._marks]
            inner = range(1, len(places) - 1)
            gaps = {i: (places[i + 1] - places[i - 1]) / (end - places[i - 1]) for i in inner}
            del self._marks[min(gaps, key=gaps.__getitem__)]


def _that_matter(events: Iterable[Event]) -> Iterator[Event]:
    """The events that change what is learned when amended reports stand in their places already.

    Amendments and snapshots do not. Neither does a proposal that another one replaced before
    anything else happened, as after each of several amendments.
    """
    proposed: Event | None = None
    for event in events:
        if event.kind == "proposed":
            proposed = event
        elif not KINDS.get(event.kind, Kind()).is_idle:
            if proposed is not None:
                yield proposed
                proposed = None
            yield event
    if proposed is not None:
        yield proposed


def _has_any(mark: State, numbers: Iterable[int]) -> bool:
    """Whether the reports of some of these tickets, or their losses, are part of a state."""
    return any(number <= mark.through or number in mark.settled for number in numbers)
