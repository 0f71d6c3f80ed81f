"""Requests with a name that the sender chooses: sent several times, they are carried out once."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from lowswitch.ledger.errors import ConflictError
from lowswitch.ledger.events import Event, digest
from lowswitch.ledger.responses import ProposalView
from lowswitch.ledger.store import Store
from lowswitch.ledger.views import event_of

_FIELD = "request"  # of the payload of an event: the name, and the hash of what was asked


class Request(NamedTuple):
    """What a person asks for, and the name of the request if it has one."""

    kind: str  # of the event that it leads to
    by: str
    name: str | None
    asked: dict[str, Any]  # the arguments
    also: str = ""  # the kind that it led to if the quorum was another one then

    @property
    def mark(self) -> dict[str, Any]:
        """The part of the event that identifies the request."""
        return {} if self.name is None else {_FIELD: [self.name, self._hash]}

    @property
    def _hash(self) -> str:
        return digest(json.dumps(self.asked, sort_keys=True, default=_plain))

    def done(self, store: Store) -> Event | None:
        """The event that this request led to before, if any.

        Another request by the same person under the same name is a conflict.
        """
        if self.name is None:
            return None
        part = f'"{_FIELD}":[{json.dumps(self.name, ensure_ascii=False)},'
        kinds = [kind for kind in (self.kind, self.also) if kind]
        rows = [row for kind in kinds for row in store.newest(_MOST, kind=kind, part=part)]
        for row in rows:
            found = event_of(*row)
            if found.actor == self.by and found.payload.get(_FIELD, [None])[0] == self.name:
                if found.payload[_FIELD] == [self.name, self._hash]:
                    return found
                raise ConflictError(
                    f"{self.by} used the name {self.name!r} for another request, which is on record"
                    f" (event {found.seq:,}); give this one a name of its own"
                )
        return None


_MOST = 1000  # events of other people under one name


def _plain(value: Any) -> Any:
    """An argument as plain JSON values."""
    if isinstance(value, ProposalView):
        return value.hash
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
