"""Find a proposal by the first characters of its hash."""

from __future__ import annotations

import re
from typing import Any

from lowswitch.ledger.errors import SupersededError
from lowswitch.ledger.events import Event, makes_version
from lowswitch.ledger.responses import SHOWN
from lowswitch.ledger.state import proposal_hash
from lowswitch.ledger.store import Store
from lowswitch.ledger.views import event_of

_LEAST = 8  # characters that name a proposal
_NAME = re.compile(f"[0-9a-f]{{{_LEAST},64}}")


def is_named(full: str | None, name: str) -> bool:
    """Whether a name is this hash, or a long enough beginning of it."""
    return full is not None and _NAME.fullmatch(name) is not None and full.startswith(name)


def not_pending(store: Store, name: str, now: str | None) -> SupersededError:
    """Why nothing can be decided on the proposal with this name: what became of it."""
    pending = "nothing is pending" if now is None else f"{now[:SHOWN]} is pending"
    if _NAME.fullmatch(name) is None:
        return SupersededError(
            f"{name!r} names no proposal: give its hash, or at least the first {_LEAST} characters"
            f" of it; {pending}"
        )
    gone = f"the proposal {name[:SHOWN]} does not wait for a decision any more"
    for row in store.newest(1, part=f'"proposal":"{name}'):
        return SupersededError(f"{gone}: {_decision(event_of(*row))}; {pending}")
    for row in store.newest(10**9, kind="proposed"):
        if is_named(proposal_hash(event_of(*row).payload), name):
            return SupersededError(f"{gone}: another one took its place; {pending}")
    return SupersededError(f"there never was a proposal {name[:SHOWN]}; {pending}")


def _decision(event: Event) -> str:
    """Who decided what, in words."""
    payload: dict[str, Any] = event.payload
    postponed = event.kind == "rejected" and not payload.get("forever")
    verb = "postponed" if postponed else event.kind
    did = f"{event.actor} {verb} it, or a part of it,"
    made = makes_version(event.kind, payload)
    into = f", which made version {payload['version']}" if made else ""
    return f"{did} in event {event.seq:,}{into}"
