"""Rebuild a run as if every amended report had been right from the start.

An amendment changes the learner from its ticket on, and nothing before. So the replay begins at the
last mark before the ticket. Marks are states saved during such a replay: dense near its end, where
most corrections belong, and sparse long before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lowswitch.ledger.course import Course
from lowswitch.ledger.events import Event
from lowswitch.ledger.intake import Lessons
from lowswitch.ledger.snapshot import state_of
from lowswitch.ledger.state import Replay, State
from lowswitch.ledger.store import Snapshot
from lowswitch.ledger.terms import Terms

_EVERY = 500  # tickets at least between two new marks
_SHARE = 0.25  # and this share of those that are left
_MOST = 40  # marks


class Mark(NamedTuple):
    """A state saved during a replay."""

    at: int  # the next station
    done: int  # tickets that are learned
    state: State


class Corrections(Replay):
    """Replays events, and repeats the replay where an amendment needs it.

    read: the events from a number on. amended: the amendments before an event, in order. snapshots:
    those bound to the chain, newest first. A replay begins at a snapshot that contains no amended
    ticket.
    """

    def __init__(
        self,
        read: Callable[[int], Iterable[Event]],
        amended: Callable[[int], Iterable[Event]] = lambda before: (),
        snapshots: Callable[[], Iterable[Snapshot]] = tuple,
    ) -> None:
        super().__init__()
        self.read, self.amended, self.snapshots = read, amended, snapshots
        self.unwritten: list[Event] = []  # of a transaction that is under way, which nobody reads
        self.forget()

    def forget(self) -> None:
        """Drop the cache, for example when the events have changed."""
        self._course: Course | None = None
        self._marks: list[Mark] = []

    def rebuilt(self, event: Event, terms: Terms) -> Lessons:
        """The lessons before an amendment, as if all amended reports had been right at first."""
        course = self._course_to(event, terms)
        self._drop_marks(course, event.payload["number"] - course.learned - 1)
        first, done, begin = self._marks[-1]
        state = begin.copy()
        for at in range(first, len(course.stations) + 1):
            done = self._learn(course, state, at, done)
            if at < len(course.stations):
                course.stations[at].take_in(state)
        return state.lessons

    def _learn(self, course: Course, state: State, at: int, done: int) -> int:
        """Let a state learn everything before a station, saving marks; return how far it got."""
        end = course.reach(at)
        while done < end:
            mark = self._next_mark(course.ready)
            last = min(end, mark)
            course.learn(state, done, last)
            if last == mark:
                self._marks.append(Mark(at, last, state.copy()))
                self._thin(course.ready)
            done = last
        return done

    # ---- what is replayed ------------------------------------------------------------------------

    def _course_to(self, event: Event, terms: Terms) -> Course:
        """The events up to and including an amendment."""
        course = self._course
        if course is None or course.seq >= event.seq or not self._extend(course, event):
            self.forget()
            course = Course(self._first(event, terms))
            self._marks = [Mark(0, 0, course.first)]
            found = self._extend(course, event)
            assert found, "a state from before all amendments has heard of none"
            self._course = course
        return course

    def _extend(self, course: Course, event: Event) -> bool:
        """Read up to an event; return whether the course still begins early enough."""
        for other in self._before(event, course.seq + 1):
            course.append(other)
            if other.kind == "amended" and course.is_current:
                self._drop_marks(course, other.payload["number"] - course.learned - 1)
        course.append(event)
        return course.is_current

    def _before(self, event: Event, first: int) -> Iterator[Event]:
        """The events from a number on that come before an event."""
        is_new = self.unwritten and first >= self.unwritten[0].seq
        for other in itertools.chain(() if is_new else self.read(first), self.unwritten):
            if other.seq >= event.seq:
                return
            if other.seq >= first:
                yield other

    def _first(self, event: Event, terms: Terms) -> State:
        """The last snapshot from before all amendments and the tickets they change."""
        new = [one for one in self.unwritten if one.kind == "amended" and one.seq < event.seq]
        amended = [*self.amended(event.seq), *new, event]
        numbers = {one.payload["number"] for one in amended}
        for snapshot in self.snapshots():
            state = state_of(snapshot, terms) if snapshot.seq < amended[0].seq else None
            if state is not None and not _has_any(state, numbers):
                return state
        for first in self.read(1):
            return State.of(terms, first)
        raise AssertionError("an amendment has events before it")

    # ---- marks -----------------------------------------------------------------------------------

    def _drop_marks(self, course: Course, ticket: int) -> None:
        """Drop the marks that have learned a ticket, or should have by their stations."""
        self._marks = [
            one
            for one in self._marks
            if one.done <= ticket and (one.at == 0 or course.reach(one.at - 1) <= one.done)
        ]

    def _next_mark(self, end: int) -> int:
        """After how many tickets the next mark is due."""
        last = self._marks[-1].done
        return last + max(_EVERY, int(_SHARE * (end - last)))

    def _thin(self, end: int) -> None:
        """Drop the mark that matters least: the one with the smallest gap for its distance."""
        if len(self._marks) > _MOST:
            places = [one.done for one in self._marks]
            inner = range(1, len(places) - 1)
            gaps = {i: (places[i + 1] - places[i - 1]) / (end - places[i - 1]) for i in inner}
            del self._marks[min(gaps, key=gaps.__getitem__)]


def _has_any(state: State, numbers: Iterable[int]) -> bool:
    """Whether a state contains the report, or the loss, of any of these tickets."""
    return any(number <= state.through or number in state.settled for number in numbers)
