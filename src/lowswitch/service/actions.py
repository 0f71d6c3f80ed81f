"""What can be done: one function, for the JSON API and for the pages."""

from __future__ import annotations

from typing import Any

from lowswitch.ledger import LedgerError
from lowswitch.service.access import Token
from lowswitch.service.app import Call
from lowswitch.service.bodies import checked


async def act(call: Call, action: str, given: Any) -> Any:
    """Check what is given, and let the ledger do it in the name of the one who asks."""
    if action == "revoke":
        return revoke(call, given)
    fields, method = checked(given, action), getattr(call.service.ledger, action)
    return await call.service.engine.call(lambda: method(**fields, by=call.who))


def revoke(call: Call, given: Any) -> Token:
    """Revoke a token; nobody revokes their own, so that an operator is left."""
    identity: str = checked(given, "revoke")["id"]
    if call.token is not None and identity == call.token.id:
        raise LedgerError("this is your own token; another operator can revoke it")
    return call.service.access.revoke(identity, by=call.who)
