"""Decisions in two steps: see what would happen, in the run's words, and then confirm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.responses import Response

from lowswitch.ledger import LedgerError
from lowswitch.ledger.events import KINDS
from lowswitch.ledger.evidence import BY_WORTH
from lowswitch.ledger.reading import Reading
from lowswitch.ledger.responses import MotionView
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.review.gate import Hold
from lowswitch.service import actions, people
from lowswitch.service.app import Call, as_refusal, now
from lowswitch.service.bodies import BODIES, RefusedError, checked
from lowswitch.service.display import laws_of
from lowswitch.service.effects import Known, changed_anywhere, changed_rows, law_of
from lowswitch.service.precedents import precedents
from lowswitch.service.render import after, catch_up, is_by_enter, show
from lowswitch.service.sheets import MOST_LISTED, Sheet
from lowswitch.show.text import counted

_OWN = ("form", "sure", "enter", "reason", "confirming", "consent", "show", "read")  # of the page
_NOT_TICKED = "Tick the box below, or go back: nothing was done yet."
_CHANGED = (
    "Nothing was done: this is no longer what you read, because something else was decided or asked"
    " for meanwhile. The page says what it would do now. Read it again, then confirm."
)


async def known_of(
    call: Call,
    rows: list[list[int]] | None = None,
    *,
    kind: str = "",
    decision: dict[str, Any] | None = None,
) -> Known:
    """The facts about the run that a page needs.

    rows: positions of the rows that a decision on a proposal is about. kind, decision: another
    decision, which may bring changes that nobody proposed.
    """
    version = (decision or {}).get("to")
    ledger = call.service.ledger
    terms = ledger.terms
    has_rows = isinstance(terms, TableTerms)
    await catch_up(call)

    def read() -> Known:
        view = ledger.proposal()
        worth = None if view is None else view.worth
        limits = {one: decision[one] for one in ("part", "share") if decision and one in decision}
        some = view is not None and rows is not None and len(rows) < len(view.rows)
        if view is not None and (some or (has_rows and kind == "approved" and limits)):
            steps, states, named = terms.labels["step"], terms.labels["state"], None
            if some:
                named = [(steps[h], states[x]) for h, x in proposed_of(view.rows, rows or ())]
            worth = None if named == [] else ledger.worth(named, wait=False, **limits)
        elif has_rows and view is not None and worth is None and view.rule >= BY_WORTH:
            worth = ledger.worth(wait=False)  # of what a decision left
        deployed, protocol = ledger.deployed()
        earlier = None if version is None else ledger.restored(version)
        chart = ledger.chart() if "state" in terms.labels else None
        known = Known(
            terms=terms,
            run=ledger.status(),
            view=view,
            policies=deployed,
            protocol=protocol,
            visits=None if chart is None else chart.visits,
            waits=None if chart is None else chart.waiting,
            worth=worth,
            earlier=earlier,
            motions=ledger.motions(),
            me=call.who,
            holds=ledger.holds(),
        )
        pending_or_held = view is not None or earlier is not None or known.holds
        if pending_or_held or known.run.frozen or known.run.nothing_at is not None:
            earlier_ones = precedents(
                call.service.journal, laws_of(ledger), None if view is None else view.event
            )
            known = known._replace(precedents=earlier_ones)
        if has_rows and view is not None and kind == "rejected":
            asked = rows or [[row["step"], row["state"]] for row in view.rows]
            known = known._replace(hold=ledger.hold_of(asked))
        elif has_rows and kind == "rolled_back":
            until = (decision or {}).get("until")  # as of when it was asked for
            hold = ledger.hold_of(changed_anywhere(known)) if until is None else Hold(None, until)
            known = known._replace(hold=hold)
        if not known.has_rows:
            return _with_effect(ledger, known, kind, decision or {})
        if not (kind and KINDS[kind].of_version):
            return known
        changes = changed_rows(known, law_of(known, kind, decision or {}))
        found, worth = ledger.other_changes(changes[:MOST_LISTED]) if changes else ([], None)
        others = {(row["step"], row["state"]): row for row in found}
        return known._replace(others=others, worth=worth if len(found) == len(changes) else None)

    return await call.service.engine.call(read)


def _with_effect(ledger: Reading, known: Known, kind: str, decision: dict[str, Any]) -> Known:
    """The same, with the changes by a decision on features unless the proposal lists them all."""
    recorded = kind == "approved" and not decision.get("part") and decision.get("share") is None
    if recorded or not (kind and KINDS[kind].makes_version):
        return known
    effect = ledger.effect(kind, decision)
    return known._replace(effect=effect, worth=effect.get("worth"))


def proposed_of(
    proposed: Sequence[dict[str, Any]], rows: Sequence[Sequence[int]]
) -> list[tuple[int, int]]:
    """The proposed ones among the rows (step, state), in one pass over each."""
    keys = {(row["step"], row["state"]) for row in proposed}
    return [(h, x) for h, x in rows if (h, x) in keys]


async def two_steps(
    call: Call,
    action: str,
    given: dict[str, Any],
    sheet: Callable[[], Awaitable[Sheet]],
    done: Callable[[Any, Sheet], tuple[str, str]],
) -> Response:
    """Show what an action would do, and do it after confirmation.

    The action is bound to the page that was read: if it would now do something else, nothing is
    done and the page says what changed. A refused form stays on the page, with everything that was
    typed. done: where to go then, and what the page there says.
    """
    entered = is_by_enter(call)
    if not call.field("sure") or entered:
        _require_fields(action, given)
        return await _ask(call, await sheet())
    try:
        _require_fields(action, given)
    except RefusedError as error:
        raise _with_reason(call, error) from None
    wrong = _wrong_with(action, given)
    made = await _made(call, sheet, wrong)
    if wrong is not None:
        return await _ask(call, made, wrong.says, wrong.status)
    if call.field("read") != made.read:
        return await _ask(call, made, _CHANGED, 409)
    if made.consent and not call.field("consent"):
        return await _ask(call, made, _NOT_TICKED, 422)
    bound = {"base": made.base} if "base" in BODIES[action].__struct_fields__ else {}
    try:
        answer = await actions.act(call, action, given | bound)
    except (RefusedError, LedgerError) as error:
        refusal = as_refusal(error)
        try:
            made = await sheet()
        except (RefusedError, LedgerError):
            raise _with_reason(call, refusal) from None
        return await _ask(call, made, refusal.says, refusal.status)
    await _withdraw(call, made)
    if isinstance(answer, MotionView):
        more = f"{counted(answer.needed, 'more reviewer')} must agree before it takes effect."
        said = "agreement" if action == "confirm" else "request"
        gone = " Your earlier request is withdrawn." if made.replaces else ""
        return after(call, "/", f"Your {said} is recorded: {_what(made)}. {more}{gone}")
    return after(call, *done(answer, made))


async def _made(
    call: Call, sheet: Callable[[], Awaitable[Sheet]], wrong: RefusedError | None
) -> Sheet:
    """The action to confirm; an action that no page can describe is not carried out.

    wrong: the error in the form, which is shown rather than the reason why there is no page.
    """
    try:
        return await sheet()
    except (RefusedError, LedgerError) as error:
        raise _with_reason(call, wrong or as_refusal(error)) from None


def _wrong_with(action: str, given: dict[str, Any]) -> RefusedError | None:
    """The error in the reason of a form."""
    try:
        checked(given, action)
    except RefusedError as error:
        return error
    return None


def _what(sheet: Sheet) -> str:
    """The name of a decision within a sentence."""
    words = sheet.button.removeprefix("Agree: ")
    return words[:1].lower() + words[1:]


async def _withdraw(call: Call, made: Sheet) -> None:
    """Withdraw the requests that a newer one of the same person replaces."""
    waiting = await call.service.engine.call(call.service.ledger.motions)
    for one in waiting:
        if one.number in made.replaces:
            given = {"motion": one.number, "reason": f"replaced by: {_what(made)}"}
            await actions.act(call, "decline", given)


def _with_reason(call: Call, refusal: RefusedError) -> RefusedError:
    """A refusal that leaves the page, keeping the reason that was typed there."""
    refusal.typed = call.field("reason").strip()
    return refusal


def _require_fields(action: str, given: dict[str, Any]) -> None:
    """Check that all fields are present and of their type, except the reason, which comes last."""
    names = BODIES[action].__struct_fields__
    checked(given | ({"reason": "given last"} if "reason" in names else {}), action)


async def _ask(call: Call, sheet: Sheet, wrong: str = "", status: int = 200) -> Response:
    """The page on which a decision is confirmed."""
    kept = [(name, value) for name, value in call.fields if name not in _OWN]
    run = await call.service.engine.call(call.service.ledger.status)
    return await show(
        call,
        "confirm.html",
        "",
        status,
        run=run,
        short=people.stuck(call.service.access, now(), run.quorum),
        sheet=sheet,
        path=call.endpoint.path,
        kept=kept,
        typed=call.field("reason"),
        ticked=bool(call.field("consent")),
        wrong=wrong,
    )
