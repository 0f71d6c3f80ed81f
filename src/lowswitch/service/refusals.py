"""Reports that the server would not have, because they are no reports of the run.

Nothing of them is learned, and their tickets stay open. The site hears why at once. The office sees
it here, since the server started: a site may never send its report again.
"""

from __future__ import annotations

from typing import NamedTuple

from lowswitch.ledger.reading import Reading
from lowswitch.ledger.state import OPEN
from lowswitch.ledger.store import StoredTicket

_MOST = 200  # tickets; the oldest refusal goes first


class Refusal(NamedTuple):
    """The last report of a ticket that was refused."""

    time: str
    says: str


class Refusals:
    """The refused reports by their tickets."""

    def __init__(self) -> None:
        self._last: dict[str, Refusal] = {}

    def add(self, ticket: str, time: str, says: str) -> None:
        """Note a report that was refused."""
        self._last.pop(ticket, None)
        self._last[ticket] = Refusal(time, says)
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]

    def waiting(self, ledger: Reading) -> list[tuple[StoredTicket, Refusal]]:
        """Those whose tickets are open still, the newest refusal first."""
        last = dict(self._last)
        known = {one.ticket: one for one in ledger.tickets_named([*last]) if one.status == OPEN}
        return [(known[name], one) for name, one in reversed(last.items()) if name in known]
