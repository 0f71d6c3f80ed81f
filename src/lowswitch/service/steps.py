"""Decisions in two steps: see what would happen, in the words of the run, and then confirm it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.responses import Response

from lowswitch.ledger import LedgerError
from lowswitch.ledger.evidence import BY_WORTH
from lowswitch.ledger.responses import MotionView
from lowswitch.service import actions
from lowswitch.service.app import Call, as_refusal
from lowswitch.service.bodies import BODIES, RefusedError, checked
from lowswitch.service.render import after, is_by_enter, show
from lowswitch.service.sheets import Known, Sheet
from lowswitch.show.text import counted

_OWN = ("form", "sure", "enter", "reason", "confirming", "consent", "show")  # of the page itself
_NOT_TICKED = "Tick the box below, or go back: nothing was done yet."


async def known_of(
    call: Call, rows: list[list[int]] | None = None, version: int | None = None
) -> Known:
    """What a page knows of the run.

    rows: the positions of those that a decision is about. version: the one that a rollback would
    deploy again.
    """
    ledger = call.service.ledger
    terms = ledger.terms

    def read() -> Known:
        view = ledger.proposal()
        worth = None if view is None else view.worth
        if view is not None and rows is not None and len(rows) < len(view.rows):
            steps, states = terms.labels["step"], terms.labels["state"]
            named = [(steps[h], states[x]) for h, x in proposed_of(view.rows, rows)]
            worth = ledger.worth(named, wait=False) if named else None
        elif view is not None and worth is None and view.rule >= BY_WORTH:
            worth = ledger.worth(wait=False)  # of what a decision left
        deployed, protocol = ledger.deployed()
        earlier = None if version is None else ledger.policy_of(version)
        return Known(
            terms=terms,
            run=ledger.status(),
            view=view,
            policies=deployed,
            protocol=protocol,
            visits=ledger.chart().visits if "state" in terms.labels else None,
            worth=worth,
            earlier=earlier,
            motions=ledger.motions(),
        )

    return await call.service.engine.call(read)


def proposed_of(
    proposed: Sequence[dict[str, Any]], rows: Sequence[Sequence[int]]
) -> list[tuple[int, int]]:
    """Those of the rows (step, state) that are proposed, in one pass over each."""
    keys = {(row["step"], row["state"]) for row in proposed}
    return [(h, x) for h, x in rows if (h, x) in keys]


async def two_steps(
    call: Call,
    action: str,
    given: dict[str, Any],
    sheet: Callable[[], Awaitable[Sheet]],
    done: Callable[[Any], tuple[str, str]],
) -> Response:
    """Show what an action would do, and do it once somebody has confirmed that.

    What is refused stays on the page, with all that was typed. done: where to go then, and what
    the page there says.
    """
    entered = is_by_enter(call)
    if not call.field("sure") or entered:
        _require_fields(action, given)
        return await _ask(call, await sheet())
    if not call.field("consent") and (unsure := await _consent(sheet)) is not None:
        return await _ask(call, unsure, _NOT_TICKED, 422)
    try:
        answer = await actions.act(call, action, given)
    except (RefusedError, LedgerError) as error:
        refusal = as_refusal(error)
        try:
            _require_fields(action, given)
            made = await sheet()
        except (RefusedError, LedgerError):
            raise _with_reason(call, refusal) from None
        return await _ask(call, made, refusal.says, refusal.status)
    if isinstance(answer, MotionView):
        more = f"{counted(answer.needed, 'more reviewer')} must agree before it takes effect."
        said = "agreement" if action == "confirm" else "request"
        return after(call, "/", f"Your {said} is recorded. {more}")
    return after(call, *done(answer))


def _with_reason(call: Call, refusal: RefusedError) -> RefusedError:
    """A refusal that leads away from the page, with the reason that was typed there."""
    refusal.typed = call.field("reason").strip()
    return refusal


async def _consent(sheet: Callable[[], Awaitable[Sheet]]) -> Sheet | None:
    """The page, if something on it must be ticked by itself."""
    try:
        made = await sheet()
    except (RefusedError, LedgerError):
        return None  # which the action itself refuses, too
    return made if made.consent else None


def _require_fields(action: str, given: dict[str, Any]) -> None:
    """Everything is there and of its type, but for the reason, which is given last."""
    names = BODIES[action].__struct_fields__
    checked(given | ({"reason": "given last"} if "reason" in names else {}), action)


async def _ask(call: Call, sheet: Sheet, wrong: str = "", status: int = 200) -> Response:
    """The page on which a decision is confirmed."""
    kept = [(name, value) for name, value in call.fields if name not in _OWN]
    return await show(
        call,
        "confirm.html",
        "",
        status,
        sheet=sheet,
        path=call.endpoint.path,
        kept=kept,
        typed=call.field("reason"),
        ticked=bool(call.field("consent")),
        wrong=wrong,
    )
