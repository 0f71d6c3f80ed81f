"""Reports that the server would not have, because they are no reports of the run.

Nothing of them is learned, and their tickets stay open. The site hears why at once. The office sees
it here, since the server started: a site may never send its report again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from lowswitch.ledger.reading import Reading
from lowswitch.ledger.state import OPEN
from lowswitch.ledger.store import StoredTicket
from lowswitch.ledger.terms import Terms

_MOST = 200  # tickets; the oldest refusal goes first
_MOST_STEPS, _MOST_CHARACTERS = 50, 60  # of a report that is kept
_PARTS = ("states", "actions", "rewards")


class Refusal(NamedTuple):
    """The last report of a ticket that was refused."""

    time: str
    says: str
    sent: tuple[tuple[str, ...], ...] = ()  # states, actions and rewards, as they came


class Refusals:
    """The refused reports by their tickets."""

    def __init__(self) -> None:
        self._last: dict[str, Refusal] = {}

    def add(self, report: dict[str, Any], time: str, says: str) -> None:
        """Note a report that was refused."""
        ticket = report["ticket"]
        self._last.pop(ticket, None)
        sent = tuple(_short(report[part] or ()) for part in _PARTS)
        self._last[ticket] = Refusal(time, says, sent)
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]

    def waiting(self, ledger: Reading) -> list[tuple[StoredTicket, Refusal]]:
        """Those whose tickets are open still, the newest refusal first."""
        last = dict(self._last)
        known = {one.ticket: one for one in ledger.tickets_named([*last]) if one.status == OPEN}
        return [(known[name], one) for name, one in reversed(last.items()) if name in known]


def _short(values: Sequence[Any]) -> tuple[str, ...]:
    """The first of these values as short texts."""
    return tuple(str(value)[:_MOST_CHARACTERS] for value in values[:_MOST_STEPS])


def sent_words(terms: Terms, sent: tuple[tuple[str, ...], ...]) -> str:
    """A refused report in one line, step by step. Labels that do not exist are shown as sent."""
    steps = terms.labels["step"]
    said = list[str]()
    for h, line in enumerate(zip_longest(*sent)):
        step = steps[h] if h < len(steps) else f"after {steps[-1]}"
        names = zip(("state", "action", ""), line, strict=True)
        shown = [_label(terms, kind, value) for kind, value in names if value is not None]
        said.append(f"{step} {', '.join(shown)}")
    return "; ".join(said)


def _label(terms: Terms, kind: str, value: str) -> str:
    """The label at a position, if the value is one and no label itself."""
    labels = terms.labels.get(kind, ())
    is_position = value not in labels and value.isdecimal() and int(value) < len(labels)
    return labels[int(value)] if is_position else value
