"""The course of a run: its events in a form that is fast to replay many times.

Between two decisions, a replay only learns episodes in the order of their tickets. So episodes are
stored in arrays, row by row. All other events are stations, each with the number of tickets learned
before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowswitch.learner import Batch
from lowswitch.ledger.events import KINDS, Event
from lowswitch.ledger.state import Replay, State
from lowswitch.ledger.terms import Report, Steps

_NEVER = np.iinfo(np.int64).max
_NOTHING, _EPISODE, _HOPE = range(3)  # what is learned of a ticket; hope depends on the learner
_FORCED = Replay(forced=True)


class Station(NamedTuple):
    """An event other than a new ticket or a report."""

    event: Event
    proposal: Any = None  # what was proposed, as the learner makes it
    spent: Any = None  # and what the budget had counted

    def take_in(self, state: State) -> None:
        """Apply the event to a state as it happened."""
        if self.proposal is None:
            state.apply(self.event, _FORCED)
        else:
            state.learner.force_proposal(self.proposal, self.spent)


class Course:
    """The events after a state, with each amended report in place of the first one.

    Tickets are counted from the first one that the state has not learned.
    """

    def __init__(self, state: State) -> None:
        self.terms, self.seq, self.learned = state.terms, state.seq, state.through
        self.first = _emptied(state)
        self.stations: list[Station] = []
        self._reached: list[int] = []  # how many tickets are learned before each station
        self.ready = 0  # how many have their turn by now
        self.is_current = True  # False once an amendment changes what the state had heard of
        self._heard = state.settled.keys()
        self._settled_at: list[int] = []  # the event with the report of each ticket
        self._versions: list[int] = []
        self._hoped: dict[int, Report] = {}
        self._new: dict[int, Steps] = {}  # which are not in the arrays yet
        self._kinds, self._sites = np.zeros(0, dtype=np.int8), np.zeros(0, dtype=object)
        self._batch: Batch | None = None
        self._proposed_last = False
        for ticket in state.tickets.values():
            self._issue(ticket.site, ticket.version)
        for number, report in state.settled.items():
            self._settle(number - self.learned - 1, report, self.seq)

    def reach(self, at: int) -> int:
        """How many tickets are learned before a station, or so far if there is no such station."""
        return self._reached[at] if at < len(self._reached) else self.ready

    def append(self, event: Event) -> None:
        """Take in the next event."""
        kind, payload = KINDS[event.kind], event.payload
        self.seq = event.seq
        if event.kind == "amended":
            self._amend(Report.from_payload(payload))
        if kind.is_idle:
            return
        if event.kind == "proposed":
            self._propose(event)
        elif event.kind == "asked":
            self._issue(payload["site"], payload["version"])
        elif kind.has_report:
            report = Report.from_payload(payload)
            self._settle(report.number - self.learned - 1, report, event.seq)
        elif not kind.learn_later:
            self._stop_at(Station(event))
        self._proposed_last = event.kind == "proposed"

    def _propose(self, event: Event) -> None:
        """Note a proposal. It replaces one that was made since the last other event."""
        if self._proposed_last:
            self.stations.pop()
            self._reached.pop()
        made, spent = self.terms.proposals.read(event.payload), tuple(event.payload["put"])
        short = event._replace(payload={}, body="")  # the evidence of a proposal may be long
        self._stop_at(Station(short, made, spent))

    def _stop_at(self, station: Station) -> None:
        self.stations.append(station)
        self._reached.append(self.ready)

    # ---- tickets ---------------------------------------------------------------------------------

    def _issue(self, site: str, version: int) -> None:
        at = len(self._settled_at)
        self._settled_at.append(_NEVER)
        self._versions.append(version)
        if at == len(self._kinds):
            self._kinds, self._sites = _longer(self._kinds, at + 1), _longer(self._sites, at + 1)
        self._sites[at] = site

    def _settle(self, at: int, report: Report, seq: int) -> None:
        """Note the report of a ticket, and which reports can be learned now."""
        self._note(at, report)
        held = report.ended == "missing" and self.terms.missing == "hold"
        self._settled_at[at] = -seq if held else seq
        self._go_on()

    def _go_on(self) -> None:
        settled = self._settled_at
        while self.ready < len(settled) and 0 <= settled[self.ready] < _NEVER:
            self.ready += 1

    def _amend(self, report: Report) -> None:
        """Replace the first report of a ticket."""
        at = report.number - self.learned - 1
        if at < 0 or report.number in self._heard:
            self.is_current = False
            return
        self._note(at, report)
        if self._settled_at[at] < 0:  # nothing had to wait for it
            self._settled_at[at] *= -1
            self._go_on()
            self._reach_again()

    def _reach_again(self) -> None:
        """Recompute how many tickets are learned before each station."""
        latest = np.maximum.accumulate(self._settled_at[: self.ready])
        places = [station.event.seq for station in self.stations]
        self._reached = np.searchsorted(latest, places).tolist()

    def _note(self, at: int, report: Report) -> None:
        """Store the lesson of a report."""
        if report.ended == "missing" and self.terms.missing == "optimistic":
            self._hoped[at], self._kinds[at] = report, _HOPE
            return
        steps = self.terms.steps(report, _unknown, None)
        if steps is None or report.number > self.terms.episodes:
            self._kinds[at] = _NOTHING
        else:
            self._kinds[at], self._new[at] = _EPISODE, steps

    # ---- learning --------------------------------------------------------------------------------

    def learn(self, state: State, first: int, last: int) -> None:
        """Let a state learn the reports of the tickets from `first` to before `last`."""
        self._store_new()
        kinds = self._kinds[first:last]
        if (kinds == _EPISODE).all():
            self._learn_rows(state, slice(first, last))
            return
        done = first
        for at in (first + np.flatnonzero(kinds == _HOPE)).tolist():
            self._learn_some(state, done, at)
            self._learn_hope(state, at)
            done = at + 1
        self._learn_some(state, done, last)

    def _learn_some(self, state: State, first: int, last: int) -> None:
        rows = first + np.flatnonzero(self._kinds[first:last] == _EPISODE)
        if len(rows):
            self._learn_rows(state, rows)

    def _learn_rows(self, state: State, rows: slice | np.ndarray) -> None:
        assert self._batch is not None
        states, actions, rewards = (array[rows] for array in self._batch)
        state.lessons.learn_batch(self._sites[rows], (states, actions, rewards))

    def _learn_hope(self, state: State, at: int) -> None:
        """Learn a report that never came, by the learner's optimistic values at that time."""
        report, policy = self._hoped[at], state.versions[self._versions[at] - 1]
        steps = self.terms.steps(report, lambda: state.learner, policy)
        if steps is not None and report.number <= self.terms.episodes:
            state.lessons.learn_batch(self._sites[at : at + 1], self.terms.batch([steps]))

    def _store_new(self) -> None:
        """Copy new episodes into the arrays."""
        if not self._new:
            return
        places, found = list(self._new), self.terms.batch(list(self._new.values()))
        known, least = self._batch or tuple(array[:0] for array in found), max(places) + 1
        if least > len(known[0]):
            known = tuple(_longer(array, least) for array in known)
        for array, rows in zip(known, found, strict=True):
            array[places] = rows
        states, actions, rewards = known
        self._batch, self._new = (states, actions, rewards), {}


def _unknown() -> Any:
    raise AssertionError("only what a learner hopes for depends on it")


def _emptied(state: State) -> State:
    """A copy of a state without its tickets, which the course has."""
    copy = state.copy()
    copy.tickets, copy.settled = {}, {}
    copy.unsettled.clear()
    return copy


def _longer(array: np.ndarray, least: int) -> np.ndarray:
    """The same array with room for at least `least` rows, and at least twice its size."""
    more = max(least, 2 * len(array)) - len(array)
    return np.concatenate([array, np.zeros_like(array, shape=(more, *array.shape[1:]))])
