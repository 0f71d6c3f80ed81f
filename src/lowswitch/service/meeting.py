"""The pages of a meeting: the proposal, and every decision of the board."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from starlette.responses import RedirectResponse, Response

from lowswitch.ledger import LedgerError, ProposalView, SupersededError
from lowswitch.ledger.events import Event
from lowswitch.ledger.responses import MotionView, Status
from lowswitch.ledger.views import event_of
from lowswitch.review.proposals import WHOLE
from lowswitch.service import (
    approvals,
    display,
    effects,
    holds,
    news,
    phrases,
    proposals,
    standing,
    vectors,
)
from lowswitch.service.app import Call, as_refusal
from lowswitch.service.bodies import RefusedError, count, query, whole
from lowswitch.service.effects import Known
from lowswitch.service.journal import Mark, Returns
from lowswitch.service.precedents import decided, precedents
from lowswitch.service.render import after, catch_up, filled_in, is_by_enter, show
from lowswitch.service.roles import REVIEWER
from lowswitch.service.sheets import Sheet
from lowswitch.service.steps import known_of, two_steps
from lowswitch.show.text import counted, plural

_MOST_ROWS = 300  # that one form names
_EVERYWHERE = "all"  # rows, of a form
_MOST_ENDED = 3  # requests that will not happen, the newest ones; or decisions meanwhile
_OLD_PAGE = "the proposal on your page is no longer pending, so your form was not used"
_VIEW = ("group", "word", "search", "select", "page")  # how the page of a proposal is shown


# ---- the proposal --------------------------------------------------------------------------------


async def proposal(call: Call) -> Response:
    """The pending proposal: the whole, the changes of the protocol, and the trial."""
    return await _proposal(call, query(call.request, *_VIEW))


async def _proposal(
    call: Call, asked: dict[str, str], wrong: str = "", status: int = 200
) -> Response:
    """The page, with the current selection and the errors in the typed fields."""
    service = call.service
    await catch_up(call)
    known = await known_of(call)
    view, page = known.view, count(asked, "page", 1, 10**6)
    if known.has_rows and known.protocol and known.worth is not None:
        now = await service.engine.call(lambda: service.ledger.worth([], wait=False))
        known = known._replace(running=(now or {}).get("trial"))
    facts: dict[str, Any] = {"view": view, "wrong": wrong, **await requests_of(call, known)}
    facts |= {"held": holds.facts(known), "nothing": holds.nothing_words(known)}
    if view is not None:
        kept = [value for name, value in call.fields if name == "row"]
        if known.has_rows:
            facts["news"] = await _news(call, known, view)
            new = facts["news"]["keys"] if facts["news"] else ()
            facts |= proposals.proposal_facts(known, view, asked, kept, page, new)
        else:
            facts |= vectors.proposal_facts(known, view)
        facts |= {
            "why": proposals.why_now(service.journal, view, known.terms),
            "per": phrases.per(known.terms),
            "level": _level(known, service.journal.returns.get(known.run.version)),
            "asked": {name: value for name, value in asked.items() if name != "select"},
        }
        facts["reminder"] = proposals.reminder(known, service.journal, facts.get("trial"))
    most = service.ledger.terms.most_proposals
    name = "proposal.html" if known.has_rows or view is None else "feature_proposal.html"
    return await show(call, name, "proposal", status, run=known.run, most=most, **facts)


async def _news(call: Call, known: Known, view: ProposalView) -> dict[str, Any] | None:
    """The news since the proposal that the reader saw last, or since the last one on record.

    None if that proposal was decided as a whole, so that everything here is new.
    """
    ledger, journal, seen = call.service.ledger, call.service.journal, call.service.seen
    last, earlier = seen.get(call.who, (0, 0))
    if last != view.event:
        last, earlier = seen[call.who] = view.event, last

    def read() -> tuple[Event, Any] | None:
        made = ledger.newest(2, kind="proposed")
        if earlier:
            before = event_of(*ledger.store.event(earlier))
        elif len(made) > 1:
            before = made[1]
        else:
            return None
        return before, ledger.policy_of(before.payload["version"])

    found = await call.service.engine.call(read)
    if found is None:
        return None
    before, base = found
    marks = [one for one in journal.marks if before.seq < one.seq < view.event]
    if not news.is_open(before, marks):
        return None
    first = journal.before(journal.origin(before.seq) + 1)
    same = first is None or first.facts.get("version") == before.payload["version"]
    return news.news(known, view, before, base, marks, seen=bool(earlier), same_numbers=same)


def _level(known: Known, returns: Returns | None) -> str:
    """The average result of the deployed version so far, if known."""
    is_known = returns is not None and returns.count > 1
    return phrases.level(returns.mean, known.terms) if is_known and returns else ""


async def requests_of(call: Call, known: Known) -> dict[str, Any]:
    """The requests that wait for reviewers, and those that will not be carried out."""
    assert call.token is not None
    role, found = call.token.role, list[dict[str, Any]]()
    backs = {one.decision["to"] for one in known.motions if "to" in one.decision}
    ledger, laws = call.service.ledger, dict[int, Any]()
    if backs:
        laws = await call.service.engine.call(lambda: {to: ledger.restored(to) for to in backs})
    for one in known.motions:
        what = known._replace(worth=None, earlier=laws.get(one.decision.get("to", 0)))
        found.append(
            {
                "request": one,
                "what": standing.title_of(what, one.kind, one.decision),
                "lines": effects.lines_of(what, one.kind, one.decision),
                "against": standing.against(what, one),
                "for_me": role == REVIEWER and known.me not in (one.by, *one.confirmed),
            }
        )
    journal, waiting = call.service.journal, {one.number for one in known.motions}
    gone = standing.ended(journal, waiting, call.service.now())[:_MOST_ENDED]
    if not gone:
        return {"requests": found, "ended": []}

    def read() -> list[dict[str, Any]]:
        laws = display.laws_of(call.service.ledger)
        return [_ended(call, known, one, laws) for one in gone]

    return {"requests": found, "ended": await call.service.engine.call(read)}


def _ended(call: Call, known: Known, one: standing.Ended, laws: display.Laws) -> dict[str, Any]:
    """A request that will not be carried out: what it asked for, as worded then, and why not."""
    kind, decision = one.asked.facts["kind"], one.asked.facts["decision"]
    then = known_then(call, known, one.asked)
    what = display.wish_words(known.terms, one.asked)
    if then is not None:
        what = standing.title_of(then, kind, decision)
    lines = [] if then is None else effects.lines_of(then, kind, decision)
    why = standing.end_words(known.terms, one, laws)
    return {"asked": one.asked, "what": what, "lines": lines, "why": why, "refused": one.refused}


def known_then(call: Call, known: Known, asked: Mark) -> Known | None:
    """The facts when somebody asked for a decision; None if its proposal is not found."""
    ledger, decision = call.service.ledger, asked.facts["decision"]
    versions = call.service.journal.versions()
    version, view = sum(mark.seq < asked.seq for mark in versions), None
    if "proposal" in decision:
        view = ledger.proposal_of(decision["proposal"])
        if view is None:
            return None
    policies = ledger.policy_of(min(version, ledger.version))
    earlier = ledger.policy_of(decision["to"]) if "to" in decision else None
    if earlier is not None and (kept := decision.get("kept")):
        earlier = earlier.copy()
        for h, x in kept:
            earlier[:, h, x] = policies[:, h, x]
    run = dataclasses.replace(known.run, version=version)
    return known._replace(
        run=run, view=view, policies=policies, earlier=earlier, worth=None, motions=(), others={}
    )


async def propose(call: Call) -> Response:
    """Say what a proposal would leave out, then request it, unless nothing is new."""
    again = not call.field("sure") and not call.field("held")
    if again and await call.service.engine.call(call.service.ledger.is_current):
        said = "Nothing was reported, corrected or decided since this proposal was made. It stays."
        return after(call, "/proposal", said)

    held = bool(call.field("held"))
    left_out = 0 if held else len(call.service.ledger.holds())

    async def sheet() -> Sheet:
        known, journal = await known_of(call), call.service.journal
        doubtful = len({*journal.contradicted, *journal.doubted})
        return _propose_sheet(known, held=held, doubtful=doubtful)

    def done(answer: Any, _: Sheet) -> tuple[str, str]:
        if answer is None:
            if not left_out:
                return "/proposal", "The learner would change nothing."
            held_back = counted(left_out, "place", "is held back and was", "are held back and were")
            said = f"{held_back} not looked at. Elsewhere the learner would change nothing."
            return "/proposal", said
        return "/proposal", "This is what the learner would change."

    given = {"held": True, "reason": call.field("reason")} if held else {}
    return await two_steps(call, "propose", given, sheet, done)


def _propose_sheet(known: Known, *, held: bool, doubtful: int) -> Sheet:
    """From what the learner would propose, what it costs, and what would be left out.

    held: whether postponed and rolled-back places may be proposed again. doubtful: how many reports
    are contradicted or unlikely.
    """
    run, view, word = known.run, known.view, known.terms.word("episode")
    lines = [
        f"The learner says what it would change, from the reports of {counted(run.told, word)}."
    ]
    if known.terms.most_proposals:
        lines.append(_cost_words(run, view))
    if view is not None:
        lines += _differs(known, view)
    lines += standing.falling(known)
    left_out = run.waiting + run.open + run.refused
    warnings = holds.asked_for(known) if held else holds.left_out(known)
    if run.waiting:
        warnings.append(f"{run.behind}. They would not be counted in.")
    if run.open:
        warnings.append(f"{counted(run.open, 'report', 'is', 'are')} still open.")
    if run.refused:
        late = counted(run.refused, "report")
        warnings.append(f"{late} came after being declared missing. They would not be counted in.")
    if doubtful:
        said = counted(doubtful, "report", "is", "are")
        warnings.append(
            f"{said} contradicted by a later one, unlikely or not as planned, and not settled. What"
            " was reported first counts."
        )
    button = "Ask for a proposal" if view is None else "Ask for another proposal"
    if held:
        button += f", also for {counted(holds.facts(known)['count'], 'held place')},"
    if left_out:
        button += f" without {counted(left_out, 'report')}"
    button = button.removesuffix(",")
    return Sheet(f"{button}?", button, lines, (), warnings, "/proposal", has_reason=held)


def _differs(known: Known, view: ProposalView) -> list[str]:
    """What another proposal would have in common with the pending one, and why it would differ."""
    new = known.run.told - view.told
    learned = counted(new, "report", "was", "were") if new else "No report was"
    lines = [f"{learned} learned since the pending proposal."]
    if known.protocol:
        lines.append(
            "The trial will be another one even where the reports are the same: its alternatives"
            " are drawn by lot from what may be best as far as the learner knows. The next draw is"
            " as good as the last, but reviewers who read the pending trial must read the new one."
        )
    elif not new:
        lines.append("A learner that draws by lot may still propose something else.")
    return lines


def _cost_words(run: Status, view: ProposalView | None) -> str:
    """How much of the budget a proposal uses."""
    if view is not None:
        return "It replaces the pending proposal. The budget counts the two as one."
    if run.next_is_free:
        return "This uses up none of the proposals left: it takes the place of a withdrawn one."
    left = run.budget_left or 0
    which = "the last proposal" if left == 1 else f"one of the {left:,} proposals that are left"
    return (
        f"If the learner proposes something, this uses {which}, whatever the board decides. If it"
        " would change nothing, this uses none."
    )


async def decide(call: Call) -> Response:
    """Decide on the pending proposal: all of it, one part, or selected changes."""
    asked = {name: call.field(name) for name in _VIEW if call.field(name)}
    if call.field("show"):  # another view of the page, with the same selection
        wanted = asked | dict(parse_qsl(call.field("show"), keep_blank_values=True))
        return await _proposal(call, {name: wanted[name] for name in _VIEW if wanted.get(name)})
    if call.field("confirming"):
        return await _decide(call)
    if call.field("enter") and call.field("search") != call.field("searched"):
        return await _proposal(call, asked)  # Enter in the field of the search
    if is_by_enter(call):
        return await _proposal(call, asked)
    try:
        return await _decide(call)
    except (RefusedError, LedgerError) as error:
        refusal = as_refusal(error)
        return await _proposal(call, asked, refusal.says, refusal.status)


async def _decide(call: Call) -> Response:
    """Show what a decision would change, or confirm it."""
    decision, ledger = call.field("decision"), call.service.ledger
    view = await call.service.engine.call(ledger.proposal)
    if call.field("proposal") and not call.field("sure"):
        await _require_pending(call, view)
    keys = _keys(call, decision, view)
    if keys == [] and decision and not call.field("confirming"):
        raise RefusedError(422, "no change is selected; tick at least one, then decide")
    typed = call.field("share").strip()
    takes_limit = decision.startswith("approve") and decision != "approve end"
    if not takes_limit and typed not in ("", call.field("kept_share")):
        raise RefusedError(
            422,
            f"your limit of {typed} for the trial goes with an approval that lets one run;"
            " empty that field, or choose such an approval",
        )
    if decision == "forbid all":
        return RedirectResponse("/forbid", 303)
    if decision.startswith("forbid"):
        return RedirectResponse(f"/forbid?rows={_selected(call, keys or [])}", 303)
    given: dict[str, Any] = filled_in(call, "reason", "proposal")
    if keys is not None:
        given["rows"] = [_labels(call, key) for key in keys]
    if decision.startswith("postpone"):
        return await two_steps(
            call,
            "reject",
            given,
            lambda: _sheet(call, "rejected", given, keys),
            lambda _, sheet: (
                "/proposal",
                f"Done: {_small(sheet.button)}. {_else_changed(sheet)}",
            ),
        )
    if not decision.startswith("approve"):
        raise RefusedError(400, "choose a decision first: approve, postpone or forbid")
    given |= await _limits(call, decision)
    return await two_steps(
        call,
        "approve",
        given,
        lambda: _sheet(call, "approved", given, keys),
        lambda version, sheet: (
            "/timeline",
            f"Done: {_small(sheet.button)}. Version {version} is in use for new {_cases(call)}.",
        ),
    )


def _selected(call: Call, keys: Sequence[tuple[Any, Any]]) -> str:
    """The rows that a form selects, for an address."""
    if len(keys) > _MOST_ROWS:
        action = call.service.ledger.terms.word("action")
        raise RefusedError(
            422,
            f"{len(keys):,} changes are selected, and one veto from this page names at most"
            f" {_MOST_ROWS}; select fewer, or forbid the {action} everywhere on the page of the"
            " protocol",
        )
    return ",".join(f"{h}:{x}" for h, x in keys)


async def _require_pending(call: Call, view: ProposalView | None) -> None:
    """Check that the proposal in a form is still pending; otherwise say what happened."""
    shown = call.field("proposal")
    if view is None or view.hash != shown:
        raise await _superseded(call, shown) or SupersededError(_OLD_PAGE)


async def _superseded(call: Call, shown: str) -> SupersededError | None:
    """What happened since a proposal that is no longer pending; None if it never existed."""
    await catch_up(call)
    before = await call.service.engine.call(lambda: call.service.ledger.proposal_of(shown))
    if before is None:
        return None
    laws = await call.service.engine.call(lambda: display.laws_of(call.service.ledger))
    marks = [one for one in call.service.journal.decisions() if one.seq > before.event]
    terms = call.service.ledger.terms
    happened = [
        f"{display.who(one, call.who)} {display.decision_words(terms, one.kind, one.facts, laws)}"
        f" on {display.clock(one.time)}"
        for one in marks[:_MOST_ENDED]
        if one.kind != "declined"
    ]
    meanwhile = f". Meanwhile {'; '.join(happened)}" if happened else ""
    return SupersededError(f"{_OLD_PAGE}{meanwhile}")


def _else_changed(sheet: Sheet) -> str:
    """What a postponement changed besides: it ends the requests about the same proposal."""
    if not sheet.beside:
        return "Nothing else has changed."
    return f"{counted(len(sheet.beside), 'request')} about this proposal fell away."


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


def _cases(call: Call) -> str:
    return plural(call.service.ledger.terms.word("episode"))


def _keys(call: Call, decision: str, view: ProposalView | None) -> list[tuple[Any, Any]] | None:
    """The rows that a decision is about, as positions; None for all of the proposal."""
    _, _, which = decision.partition(" ")
    if which in ("all", "protocol", "trial", "end"):
        return None
    ticked = [value.partition(":") for name, value in call.fields if name == "row"]
    chosen = [(whole(step), whole(state)) for step, _, state in ticked]
    if which == "both" and view is not None and chosen:  # and what only the trial changes
        same = [row for row in view.rows if row["from"][0] == row["to"][0]]
        return [*chosen, *((row["step"], row["state"]) for row in same)]
    if which in phrases.LABELS and view is not None:
        words = proposals.AT_LEAST.get(which, (which,))
        return [(row["step"], row["state"]) for row in view.rows if row["verdict"] in words]
    return chosen


def _labels(call: Call, key: tuple[Any, Any]) -> list[int | str]:
    """The labels of a row that a form names by its positions."""
    labels, found = call.service.ledger.terms.labels, list[int | str]()
    for kind, position in zip(("step", "state"), key, strict=True):
        is_one = isinstance(position, int) and 0 <= position < len(labels[kind])
        found.append(labels[kind][int(position)] if is_one else position)
    return found


async def _limits(call: Call, decision: str) -> dict[str, Any]:
    """The approved part of a proposal, and the largest share of its trial."""
    _, _, which = decision.partition(" ")
    _, protocol = await call.service.engine.call(call.service.ledger.deployed)
    if not protocol:
        return {}
    if which == "end":
        return {"part": "trial", "share": 0.0}
    part = which if which == "trial" else None if which in ("all", "both") else "protocol"
    found: dict[str, Any] = {} if part is None else {"part": part}
    share = call.field("share").strip()
    if share:
        found["share"] = _share(share)
    if which == "both":  # no more than was proposed, whatever the present trial gives elsewhere
        known = await known_of(call)
        assert known.view is not None
        proposed = effects.share_after(known, effects.whole(known.view))
        found["share"] = min(found.get("share", 1.0), proposed)
    return found


def _share(text: str) -> float:
    """A share that was typed in percent."""
    try:
        percent = float(text.removesuffix("%").strip().replace(",", "."))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise RefusedError(400, f"the share must be between 0 and 100 percent, not {text!r}")
    return percent / 100


async def _sheet(
    call: Call, kind: str, given: dict[str, Any], keys: list[tuple[Any, Any]] | None
) -> Sheet:
    """The effects of a decision on the pending proposal."""
    chosen, ledger = None if keys is None else [list(key) for key in keys], call.service.ledger
    try:
        await call.service.engine.call(
            lambda: ledger.require_decision(given["proposal"], given.get("rows"))
        )
    except SupersededError as error:
        raise await _superseded(call, given["proposal"]) or error from None
    known = await known_of(call, chosen, kind=kind, decision=given)
    assert known.view is not None
    rows = [[row["step"], row["state"]] for row in known.view.rows] if keys is None else chosen
    if kind == "approved" and (wrong := approvals.too_small(known, given | {"rows": rows})):
        raise RefusedError(422, wrong)
    decision = given | {"rows": rows} | ({"forever": False} if kind == "rejected" else {})
    sheet = standing.described(known, kind, decision)
    ticks = sum(name == "row" for name, _ in call.fields)
    if ticks and keys is None:
        ignored = f"You ticked {counted(ticks, 'change')}. This decision ignores the ticks."
        sheet = sheet._replace(warnings=[ignored, *sheet.warnings])
    return sheet


# ---- vetoes --------------------------------------------------------------------------------------


async def forbid_form(call: Call) -> Response:
    """Choose which actions to forbid in rows."""
    asked = query(call.request, "rows")
    return await _forbid_form(call, asked.get("rows", "").split(","), "")


async def _given_to_kinds(call: Call, known: Known) -> set[str] | None:
    """What a policy on features gives to some logged case; None if it is a table, or none is."""
    if known.has_rows:
        return None
    kinds = (await call.service.engine.call(call.service.ledger.kinds))["regions"]
    return {name for one in kinds for name in one["now"]} or None


def _given_now(known: Known, rows: Sequence[tuple[int, int]], action: int) -> list[str]:
    """Where an action is given now, in words: by the protocol, and in the trial."""
    if not known.has_rows:
        return ["given now"] if known.plays(WHOLE, action) else []
    if not rows:
        return []
    here = np.array([known.policies[:, h, x] == action for h, x in rows])  # [rows, members]
    parts = {"given now": here}
    if known.protocol:
        trial = here & ~here[:, :1]  # where the protocol gives it, the trial does not differ
        parts = {"given now by the protocol": here[:, :1], "given now in the trial": trial}
    found = list[str]()
    for said, given in parts.items():
        n, share = int(given.any(axis=1).sum()), given.mean()
        if n and len(rows) > 1:
            found.append(f"{said} in {n:,} of {len(rows):,} places")
        elif n:
            of_all = f" to {100 * share:.0f} % of new {known.cases}"
            found.append(f"{said}{of_all if share < 1 else ''}")
    return found


async def _forbid_form(call: Call, asked: list[str], wrong: str, status: int = 200) -> Response:
    known = await known_of(call)
    rows, everywhere = _positions(known, asked), known.has_rows and asked == [_EVERYWHERE]
    allowed = await call.service.engine.call(lambda: call.service.ledger.actions_allowed)
    names, plays = known.terms.labels["action"], known.terms.proposals
    given = await _given_to_kinds(call, known)
    options = [
        {
            "name": names[a],
            "given": _given_now(known, rows, a)
            if given is None
            else ["given now"] * (names[a] in given),
            "open": sum(bool(plays.allowed_in(allowed, list(row))[a]) for row in rows),
        }
        for a in range(known.terms.actions)
    ]
    proposed = [] if everywhere else _newly_proposed(known, rows)
    ticked = [value for name, value in call.fields if name == "action"]
    if not call.fields:
        ticked = proposed
    return await show(
        call,
        "forbid.html",
        "map",
        status,
        run=known.run,
        keys=asked if everywhere else [f"{h}:{x}" for h, x in rows],
        offers_all=known.has_rows and not everywhere,
        where=phrases.places_words(known.terms, rows),
        options=options,
        ticked=ticked,
        proposed=proposed,
        instead=call.field("instead"),
        has_rows=known.has_rows,
        wrong=wrong,
    )


def _newly_proposed(known: Known, rows: list[tuple[int, int]]) -> list[str]:
    """The actions that the pending proposal would bring to the protocol in rows."""
    proposed = known.view.rows if known.view and known.has_rows else []
    chosen = [row for row in proposed if (row["step"], row["state"]) in rows]
    new = {row["to"][0] for row in chosen if row["to"][0] not in row["from"][:1]}
    return [known.terms.labels["action"][a] for a in sorted(new)]


def _positions(known: Known, given: list[str]) -> list[tuple[int, int]]:
    """The rows in a list of step:state, all of which must exist; or every row."""
    found = list[tuple[int, int]]()
    if not known.has_rows:
        return [WHOLE]
    steps, states = (range(known.terms.size(kind)) for kind in ("step", "state"))
    if given == [_EVERYWHERE]:
        return [(h, x) for x in states for h in steps]
    for one in given:
        h, x = (whole(part) for part in one.partition(":")[::2])
        if not (isinstance(h, int) and isinstance(x, int) and h in steps and x in states):
            raise RefusedError(400, f"there is no row {one!r}; select rows on the proposal first")
        found.append((h, x))
    return found


async def forbid(call: Call) -> Response:
    """Forbid actions in rows: show the changes, then confirm."""
    rows = [value for name, value in call.fields if name == "row"]
    if not call.field("confirming"):
        if is_by_enter(call):
            return await _forbid_form(call, rows, "")
        if not call.field("action"):
            return await _forbid_form(call, rows, "Choose at least one to forbid.", 400)
    try:
        return await _veto(call, "forbid", "vetoed")
    except LedgerError as error:
        if call.field("confirming"):
            raise
        return await _forbid_form(call, rows, str(error), 422)


async def lift(call: Call) -> Response:
    """Allow forbidden actions again: show what that means, then confirm."""
    return await _veto(call, "lift", "lifted")


async def _veto(call: Call, action: str, kind: str) -> Response:
    """Forbid or lift."""
    keys = [value.partition(":") for name, value in call.fields if name == "row"]
    given: dict[str, Any] = filled_in(call, "reason")
    given["rows"] = None
    given["actions"] = [value for name, value in call.fields if name == "action"]
    if "state" in call.service.ledger.terms.labels:
        rows: Sequence[tuple[Any, Any]] = [(whole(h), whole(x)) for h, _, x in keys]
        if action == "forbid" and keys == [(_EVERYWHERE, "", "")]:
            rows = await call.service.engine.call(lambda: _where_allowed(call, given["actions"]))
        given["rows"] = [_labels(call, row) for row in rows]
    if action == "forbid" and call.field("instead"):
        given["instead"] = call.field("instead")

    async def sheet() -> Sheet:
        ledger = call.service.ledger
        decision = await call.service.engine.call(
            lambda: ledger.veto(given["rows"], given["actions"])
        )
        if "instead" in given:
            decision["instead"] = ledger.terms.index("action", given["instead"])
        if action == "forbid":
            await call.service.engine.call(lambda: ledger.require_vetoable(decision))
        known = await known_of(call, kind=kind, decision=decision)
        return await _with_past(call, kind, decision, standing.described(known, kind, decision))

    return await two_steps(
        call, action, given, sheet, lambda _, made: ("/map", f"Done: {_small(made.button)}.")
    )


def _where_allowed(call: Call, actions: Sequence[str]) -> list[tuple[int, int]]:
    """Every row where these actions are allowed, which must be the same for each of them."""
    terms, ledger = call.service.ledger.terms, call.service.ledger
    first, *others = (terms.index("action", name) for name in actions)
    allowed = ledger.actions_allowed
    if any((allowed[:, :, a] != allowed[:, :, first]).any() for a in others):
        raise LedgerError(
            f"{phrases.several(actions)} cannot be forbidden everywhere in one step, because some"
            " of them are forbidden somewhere already and others are not; forbid one"
            f" {terms.word('action')} at a time"
        )
    rows = [(h, x) for x, h in np.argwhere(allowed[:, :, first].T).tolist()]
    if not rows:
        raise LedgerError(f"{phrases.several(actions)}: forbidden everywhere already")
    return rows


async def _with_past(call: Call, kind: str, decision: dict[str, Any], sheet: Sheet) -> Sheet:
    """The page for lifting a veto, with who forbade the actions, when and why."""
    if kind != "lifted":
        return sheet
    await catch_up(call)
    made = display.vetoes(call.service.ledger.terms, call.service.journal)
    marks = {
        mark.seq: mark
        for h, x in decision["rows"]
        for a in decision["actions"]
        if (mark := made.get((h, x, a))) is not None
    }
    lines = list[str]()
    for mark in marks.values():
        places = display.people_rows(mark.facts, protocol=False)
        others = [row for row in places if row not in decision["rows"]]
        lines.append(
            f"{display.who(mark)} forbade it on {mark.time[:10]}: {mark.facts.get('reason', '')}."
        )
        if others:
            where = phrases.places_words(call.service.ledger.terms, others)
            lines.append(f"The same decision was also about {where}, of which this says nothing.")
    return sheet._replace(lines=[*lines, *sheet.lines])


# ---- requests of others --------------------------------------------------------------------------


async def confirm(call: Call) -> Response:
    """Agree to what another person asks for."""
    return await _answer(call, "confirm")


async def decline(call: Call) -> Response:
    """Turn down what another person asks for."""
    return await _answer(call, "decline")


async def _answer(call: Call, action: str) -> Response:
    given: dict[str, Any] = filled_in(call, "reason", "motion")
    if "motion" in given:
        given["motion"] = whole(given["motion"])

    async def sheet() -> Sheet:
        request = await _waiting(call, given["motion"])
        decision = request.decision  # a veto may be about rows that are not proposed
        rows = decision["rows"] if "proposal" in decision else None
        known = await known_of(call, rows, kind=request.kind, decision=decision)
        if action == "decline":
            return standing.turned_down(known, request)
        return await _with_past(call, request.kind, decision, standing.of_request(known, request))

    def done(answer: Any, made: Sheet) -> tuple[str, str]:
        if action == "decline":
            verb, _, what = made.button.partition(": ")
            did = "withdrew your" if verb == "Withdraw" else "turned down this"
            return "/", f"You {did} request: {_small(what)}."
        what = _small(made.button.removeprefix("Agree: "))
        version = f" Version {answer} is in use." if made.base is not None else ""
        return "/", f"You agreed, and it took effect: {what}.{version}"

    return await two_steps(call, action, given, sheet, done)


async def _waiting(call: Call, number: Any) -> MotionView:
    """The request with this number; if it no longer waits, who ended it, how and why."""
    ledger, journal = call.service.ledger, call.service.journal
    try:
        return await call.service.engine.call(lambda: ledger.motion(number))
    except LedgerError:
        await catch_up(call)
        laws = await call.service.engine.call(lambda: display.laws_of(ledger))
        if not (became := standing.fate(ledger.terms, journal, number, laws)):
            raise
        raise LedgerError(became) from None


async def quorum(call: Call) -> Response:
    """Change how many reviewers must agree."""
    given: dict[str, Any] = filled_in(call, "reason", "quorum")
    if "quorum" in given:
        given["quorum"] = whole(given["quorum"])
    return await two_steps(
        call,
        "set_quorum",
        given,
        lambda: _of_kind(call, "quorum", given),
        lambda *_: ("/roles", "The number of reviewers is changed."),
    )


async def _of_kind(call: Call, kind: str, decision: dict[str, Any]) -> Sheet:
    known = await known_of(call, kind=kind, decision=decision)
    return standing.described(known, kind, decision)


# ---- operators -----------------------------------------------------------------------------------


async def thaw(call: Call) -> Response:
    """Resume the run."""
    return await two_steps(
        call,
        "thaw",
        filled_in(call, "reason"),
        lambda: _of_kind(call, "thawed", {}),
        lambda *_: ("/", "The run is resumed."),
    )


async def rollback(call: Call) -> Response:
    """Deploy an earlier version again."""
    given: dict[str, Any] = filled_in(call, "reason", "version")
    if "version" in given:
        given["version"] = whole(given["version"])

    async def sheet() -> Sheet:
        last = call.service.ledger.version
        if not (isinstance(given.get("version"), int) and 1 <= given["version"] <= last):
            raise LedgerError(f"there is no version {given.get('version')!r}; they are 1 to {last}")
        ledger = call.service.ledger
        more = await call.service.engine.call(lambda: ledger.rollback_to(given["version"]))
        found = await _of_kind(call, "rolled_back", {"to": given["version"]} | more)
        below = await call.service.engine.call(lambda: ledger.floor_warning(given["version"]))
        said = [] if below is None else [f"By today's reports {below}."]
        return found._replace(warnings=[*found.warnings, *said])

    def done(new: Any, _: Sheet) -> tuple[str, str]:
        return (
            "/timeline",
            f"Version {new} is deployed. It does what version {given['version']} did.",
        )

    return await two_steps(call, "rollback", given, sheet, done)


async def cap(call: Call) -> Response:
    """Make a trial smaller, or end it."""
    given: dict[str, Any] = filled_in(call, "reason", "share")
    if "share" in given:
        given["share"] = _share(given["share"])

    async def sheet() -> Sheet:
        await catch_up(call)
        ledger = call.service.ledger
        laws = await call.service.engine.call(lambda: display.laws_of(ledger))
        if (ended := precedents(call.service.journal, laws).ended) is not None:
            raise LedgerError(f"no trial is running: {decided(ledger.terms, ended)}")
        return await _of_kind(call, "capped", {"share": given.get("share", 0.0)})

    return await two_steps(
        call,
        "cap_trial",
        given,
        sheet,
        lambda version, sheet: (
            "/timeline",
            f"Done: {_small(sheet.button)}. Version {version} is in use for new {_cases(call)}.",
        ),
    )
