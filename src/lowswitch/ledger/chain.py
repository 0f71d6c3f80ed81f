"""A chain of events in a table of its own, beside the events of the run.

Grants of access, logins and failed logins are not part of the run and are not replayed into the
learner. They are stored in the same way, each event with the hash of the event before it. So
`verify` detects changes, and an anchor can bind the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from lowswitch.ledger.errors import BrokenError, DamagedError
from lowswitch.ledger.events import GENESIS, Event, event, later, read_event, read_time
from lowswitch.ledger.store import Store

ACCESS = "access_events"  # the table: tokens made and revoked, logins, failed logins
RESTORED = "restored"  # the kind of event in it that says how far a restored record goes


class Chain:
    """An append-only table of events."""

    def __init__(self, store: Store, table: str = ACCESS) -> None:
        self.store, self.table = store, table

    def record(self, actor: str, role: str, kind: str, payload: dict[str, Any]) -> Event:
        """Append an event, inside a transaction that the caller has begun."""
        rows = self.store.execute(f"{self._select()} ORDER BY seq DESC LIMIT 1")
        seq, previous, time = 0, GENESIS, ""
        if rows:
            seq, body, previous = rows[0]
            time = read_time(body)
        now = later(datetime.now(UTC).isoformat(timespec="microseconds"), time)
        made = event(seq + 1, now, actor, role, kind, payload, previous)
        self.store.append([made], self.table)
        return made

    def head(self) -> tuple[int, str]:
        """The number and the hash of the last event; (0, "") before the first event."""
        return self.store.head(self.table)

    def events(self, first: int = 1, after: str = GENESIS) -> Iterator[Event]:
        """The events from a number on, each checked to follow the one before it.

        after: the hash of the event before the first one; by default as it is stored.
        """
        previous = after
        if first > 1 and after == GENESIS:
            (previous,) = self.store.execute(
                f"SELECT hash FROM {self.table} WHERE seq = ?", first - 1
            )[0]
        sql = f"{self._select()} WHERE seq >= ? ORDER BY seq"
        with closing(self.store.stream(sql, first)) as rows:
            for expected, (seq, body, stored) in enumerate(rows, start=first):
                read = read_event(seq, body, stored, None, expected, previous)
                previous = read.hash
                yield read

    def require_whole(self, otherwise: str) -> None:
        """Walk all events, or say where the chain is damaged, and what follows from that."""
        try:
            for _ in self.events():
                pass
        except BrokenError as error:
            name = "record of access" if self.table == ACCESS else "record"
            raise DamagedError(f"the {name} is damaged at its {error}; {otherwise}") from error

    def newest(self, count: int) -> list[Event]:
        """The last events, the newest first, unchecked."""
        first = max(1, self.head()[0] - count + 1)
        return list(self.events(first))[::-1]

    def _select(self) -> str:
        return f"SELECT seq, body, hash FROM {self.table}"
