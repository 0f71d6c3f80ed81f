"""Everything a person or program can change: one function for the JSON API and the pages."""

from __future__ import annotations

import asyncio
from typing import Any

from lowswitch.ledger import FrozenError, LedgerError
from lowswitch.service import people
from lowswitch.service.access import Token
from lowswitch.service.app import Call, Service
from lowswitch.service.bodies import RefusedError, checked
from lowswitch.show.text import counted

_WORDS = {  # what the ledger does meanwhile, for those who wait
    "propose": "plan a proposal",
    "approve": "deploy a version and plan the rest",
    "reject": "plan without the rejected rows",
    "amend": "replay the run with a corrected report",
    "amend_many": "replay the run with corrected reports",
    "rollback": "roll back",
    "cap_trial": "cap the trial and plan again",
}

_BY_ROLE = ("propose", "freeze", "cap_trial", "decline")  # what reviewers and operators may both do


async def act(call: Call, action: str, given: Any) -> Any:
    """Check the arguments and let the ledger act in the name of the caller."""
    if action == "revoke":
        return await revoke(call, given)
    fields, service = checked(given, action), call.service
    try:
        done = await _do(service, action, fields | _actor(call, action))
    except (LedgerError, RefusedError) as error:
        _log(call, action, "warning", says=str(error))
        raise
    if action == "freeze" and not done:
        kept = service.emergency.kept
        _log(call, action, "error", recorded=False, kept=kept, says="not recorded yet")
    else:
        _log(call, action, "info")
    return done


def _actor(call: Call, action: str) -> dict[str, str]:
    """The caller, with the role that is recorded if more than one role may do this."""
    assert call.token is not None
    role = {"role": call.token.role} if action in _BY_ROLE else {}
    return {"by": call.who} | role


async def _do(service: Service, action: str, fields: dict[str, Any]) -> Any:
    if action == "freeze":
        return await service.emergency.freeze(**fields)
    if action == "thaw" and await service.emergency.thaw():
        return None
    if service.engine.stopped:
        raise FrozenError(service.engine.stopped)
    if action == "set_quorum":
        _require_reviewers(service, fields["quorum"])
    method = getattr(service.ledger, action)

    def do() -> Any:
        if service.engine.stopped:  # while this waited
            raise FrozenError(service.engine.stopped)
        done = method(**fields)
        service.noticed(None)  # the database took a write
        return done

    return await service.engine.call(do, _WORDS.get(action, action))


def _require_reviewers(service: Service, quorum: int) -> None:
    """Refuse a quorum above the number of reviewers, which nobody could lower again."""
    names = people.reviewers(service.access, service.now())
    if quorum > len(names):
        who = counted(len(names), "reviewer", "has", "have")
        raise LedgerError(
            f"only {who} a working token, so {quorum} could never agree; make tokens for more"
            " reviewers first"
        )


async def revoke(call: Call, given: Any) -> Token:
    """Revoke a token. Nobody can revoke their own, so that an operator remains."""
    identity: str = checked(given, "revoke")["id"]
    if call.token is not None and identity == call.token.id:
        raise LedgerError("this is your own token; another operator can revoke it")
    gone = await asyncio.to_thread(call.service.access.revoke, identity, by=call.who)
    _log(call, "revoke", "info", token=identity)
    return gone


def _log(call: Call, action: str, level: str, **facts: Any) -> None:
    """Log a decision or an operator's action in a line of its own."""
    assert call.token is not None
    facts = {"by": call.who, "role": call.token.role, "action": action} | facts
    call.service.log.write(level, "action", **facts)
