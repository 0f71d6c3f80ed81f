"""Requests that wait for other reviewers: what they ask for, and how a decision affects them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lowswitch.ledger.events import KINDS, makes_version, needs_quorum
from lowswitch.ledger.responses import MotionView
from lowswitch.ledger.state import LEARNED
from lowswitch.ledger.terms import Terms
from lowswitch.policy.tables import played_first
from lowswitch.service import approvals, display, effects, reversals
from lowswitch.service.effects import Known, law_of
from lowswitch.service.journal import Journal, Mark
from lowswitch.service.sheets import Sheet
from lowswitch.show.text import counted

_SHEETS: dict[str, Callable[[Known, dict[str, Any]], Sheet]] = {  # by the kinds of events
    sheet.__name__: sheet
    for sheet in (
        approvals.approved,
        approvals.rejected,
        reversals.vetoed,
        reversals.lifted,
        reversals.rolled_back,
        reversals.capped,
        reversals.thawed,
        reversals.quorum,
    )
}
_ASKED = ("proposal", "part", "share", "actions", "instead", "to", "quorum")  # beside the rows
_SHOWN_FOR = timedelta(days=7)  # how long the pages say what became of a request


def described(known: Known, kind: str, decision: dict[str, Any]) -> Sheet:
    """The page that confirms a decision, with its effect on waiting requests."""
    at_once = known.run.quorum == 1 or not needs_quorum(kind, decision)
    return _described(known, kind, decision, at_once=at_once)


def _described(
    known: Known, kind: str, decision: dict[str, Any], *, at_once: bool, agrees: bool = False
) -> Sheet:
    """The same; at_once: whether it takes effect when it is confirmed. agrees: see `of_request`."""
    sheet: Sheet = _SHEETS[kind](known, decision)
    replaces, said = list[int](), dict[int, str]()
    for one in known.motions:
        takes = _takes_place(known, kind, decision, one) and not agrees
        replaces += [one.number] * takes
        if words := _beside(known, kind, decision, one, at_once=at_once, replaced=takes):
            said[one.number] = words
    base = known.run.version if KINDS[kind].makes_version else None
    return sheet._replace(
        warnings=[*sheet.warnings, *said.values()], replaces=replaces, beside=[*said], base=base
    )


def of_request(known: Known, request: MotionView) -> Sheet:
    """The request of another person."""
    others = [one for one in known.motions if one.number != request.number]
    after = request.needed - 1
    sheet = _described(
        known._replace(motions=others),
        request.kind,
        request.decision,
        at_once=after <= 0,
        agrees=True,
    )
    asked = f"{request.by} asks for this: {request.decision['reason']}"
    then = (
        "With your agreement it takes effect at once."
        if after <= 0
        else f"After you, {counted(after, 'more reviewer')} must agree."
    )
    return sheet._replace(
        button=f"Agree: {_small(sheet.button)}", lines=[asked, *sheet.lines, then]
    )


def turned_down(known: Known, request: MotionView) -> Sheet:
    """Decline another person's request, or withdraw one's own."""
    what = title_of(known, request.kind, request.decision)
    verb = "Withdraw" if request.by == known.me else "Turn down"
    asked = f"{request.by} asked for this: {request.decision['reason']}"
    if request.by == known.me:
        asked = f"You asked for this: {request.decision['reason']}"
    changes = effects.lines_of(known, request.kind, request.decision)
    lines = [asked, *changes, "It will not happen unless somebody asks again."]
    return Sheet(f"{verb}: {what}?", f"{verb}: {what}", lines, css="stop")


def title_of(known: Known, kind: str, decision: dict[str, Any]) -> str:
    """What a request asks for, as a verb with its objects."""
    sheet: Sheet = _SHEETS[kind](known, decision)
    return sheet.button


def falling(known: Known) -> list[str]:
    """The message about requests that lapse when the pending proposal is made again."""
    return [
        f"{one.by}'s request ({_small(title_of(known, one.kind, one.decision))}) falls away."
        for one in known.motions
        if "proposal" in one.decision
    ]


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


# ---- decisions beside requests -------------------------------------------------------------------


def _takes_place(known: Known, kind: str, decision: dict[str, Any], request: MotionView) -> bool:
    """Whether the person who requests a decision requested the opposite before."""
    both = (kind, decision), (request.kind, request.decision)
    return request.by == known.me and _opposes(known, *both)


def _beside(
    known: Known,
    kind: str,
    decision: dict[str, Any],
    request: MotionView,
    *,
    at_once: bool,
    replaced: bool,
) -> str:
    """The message about a request that waits beside a decision; empty if there is none."""
    what = _small(title_of(known, request.kind, request.decision))
    if _same(kind, decision, request):
        if request.by == known.me:
            return (
                f"You already asked for exactly this ({request.decision['reason']}), and"
                f" {counted(request.needed, 'more reviewer')} must agree. If you confirm, only your"
                " reason changes."
            )
        return (
            f"{request.by} already asks for exactly this. Go back and agree to that request: this"
            " would be a second one, which also waits."
        )
    if replaced:
        return (
            f"You already asked for this: {what} ({request.decision['reason']}). Both cannot stand."
            " If you confirm, this takes its place, and your earlier request is withdrawn."
        )
    falls = _falls(known, kind, decision, request)
    when = "If you confirm" if at_once else "If this takes effect first"
    both = (kind, decision), (request.kind, request.decision)
    if _opposes(known, *both) and not _apart(decision, request.decision):
        then = f" {when}, that request falls away." if falls else ""
        who = "You also ask" if request.by == known.me else f"{request.by} also asks"
        return f"{who} for something that contradicts this: {what}.{then}"
    whose = "your" if request.by == known.me else f"{request.by}'s"
    return f"{when}, {whose} other request ({what}) falls away." if falls else ""


def _same(kind: str, decision: dict[str, Any], request: MotionView) -> bool:
    """Whether a request asks for this decision, whatever its reason."""
    first, second = (
        [sorted(one.get("rows", [])), *(one.get(name) for name in _ASKED)]
        for one in (decision, request.decision)
    )
    return kind == request.kind and first == second


def against(known: Known, request: MotionView) -> list[str]:
    """The other requests that contradict one, or ask for the same."""
    found, asked = list[str](), (request.kind, request.decision)
    for one in known.motions:
        if one.number == request.number or not _opposes(known, asked, (one.kind, one.decision)):
            continue
        if _apart(request.decision, one.decision):
            continue
        what = _small(title_of(known, one.kind, one.decision))
        whose = "your" if one.by == known.me else f"{one.by}'s"
        same = _same(*asked, one)
        found.append(f"{'Is the same as' if same else 'Contradicts'} {whose} request: {what}")
    return found


def _apart(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two decisions on a proposal are about different rows, though one ends the other."""
    rows = [{tuple(row) for row in one["rows"]} for one in (first, second) if "proposal" in one]
    return len(rows) == 2 and not rows[0] & rows[1]


def _opposes(
    known: Known, first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]]
) -> bool:
    """Whether two decisions contradict each other, in either order."""
    if "proposal" in first[1] and "proposal" in second[1]:
        return True
    if first[0] == second[0] and KINDS[first[0]].alone:
        return True
    if "actions" in first[1] and "actions" in second[1]:
        return bool(_forbidden(first[1]) & _forbidden(second[1]))
    if not known.has_rows:
        return False
    return any(
        veto[0] == "vetoed"
        and approval[0] == "approved"
        and bool(_brought(known, approval[1]) & _forbidden(veto[1]))
        for veto, approval in ((first, second), (second, first))
    )


def _forbidden(decision: dict[str, Any]) -> set[tuple[int, int, int]]:
    """The rows and actions of a veto, or of its lifting."""
    return {(h, x, a) for h, x in decision["rows"] for a in decision["actions"]}


def _brought(known: Known, approval: dict[str, Any]) -> set[tuple[int, int, int]]:
    """The actions that an approval newly gives in rows, to anybody or as the protocol."""
    after, found = law_of(known, "approved", approval), set[tuple[int, int, int]]()
    for h, x in approval["rows"]:
        for some in (slice(None), slice(0, 1)):  # everybody, and the protocol alone
            new = {*after[some, h, x].tolist()} - {*known.policies[some, h, x].tolist()}
            found |= {(h, x, a) for a in new}
    return found


def _falls(known: Known, kind: str, decision: dict[str, Any], request: MotionView) -> bool:
    """Whether a request can no longer be carried out once a decision takes effect."""
    if "proposal" in request.decision:
        return KINDS[kind].ends_proposal
    if not (KINDS[kind].makes_version and known.has_rows):
        return False
    after = law_of(known, kind, decision)
    if request.kind == "rolled_back":
        return bool((after != known.policies).any())
    if request.kind == "vetoed":
        rows, actions = request.decision["rows"], request.decision["actions"]
        then, now = (played_first(law, rows, actions) for law in (known.policies, after))
        return then != now
    return False


# ---- what became of requests ---------------------------------------------------------------------


class Ended(NamedTuple):
    """A request that no longer waits and was not carried out."""

    asked: Mark
    by: Mark  # the event that ended it
    refused: bool  # whether somebody turned it down


def ended(journal: Journal, waiting: set[int], now: datetime) -> list[Ended]:
    """Recent requests that will not be carried out, newest first.

    Each is shown for a week, or until the person who asked has requested or decided something else.
    """
    answered, found = _answered(journal), list[Ended]()
    for one in reversed([mark for mark in journal.marks if mark.kind == "requested"]):
        if one.seq in waiting:
            continue
        end = answered.get(one.seq) or _lapse(journal, one)
        if end is None or (end.kind != "declined" and one.seq in answered):
            continue  # it was carried out
        is_old = now - datetime.fromisoformat(end.time) > _SHOWN_FOR
        own = end.kind == "declined" and end.actor == one.actor
        if not (is_old or own or _acted_since(journal, one.actor, end.seq)):
            found.append(Ended(one, end, end.kind == "declined"))
    return found


def _answered(journal: Journal) -> dict[int, Mark]:
    """The event by which each request was carried out or turned down."""
    return {
        one.facts["motion"]: one
        for one in journal.marks
        if "motion" in one.facts and one.kind != "seconded"
    }


def fate(terms: Terms, journal: Journal, number: Any, laws: display.Laws) -> str:
    """What became of a request that no longer waits; empty if that is unknown."""
    asked = next(
        (one for one in journal.marks if one.seq == number and one.kind == "requested"), None
    )
    if asked is None:
        return ""
    end = _answered(journal).get(asked.seq)
    if end is not None and end.kind != "declined":
        did = display.decision_words(terms, end.kind, end.facts, laws)
        return (
            f"this request was carried out on {display.clock(end.time)}: {display.who(end)} {did}"
        )
    end = end or _lapse(journal, asked)
    if end is None:
        return ""
    ended_so = end_words(terms, Ended(asked, end, end.kind == "declined"), laws)
    return f"this request does not wait any more. {ended_so}"


def _lapse(journal: Journal, asked: Mark) -> Mark | None:
    """The event after which a request could no longer be carried out."""
    later = [mark for mark in journal.marks if mark.seq > asked.seq]
    if "proposal" in asked.facts["decision"]:
        return next((mark for mark in later if _ends_proposal(journal, mark)), None)
    if asked.facts["kind"] == "thawed":
        return next((mark for mark in later if mark.kind == "thawed"), None)
    return next((m for m in later if makes_version(m.kind, m.facts) or m.kind == "ended"), None)


def _ends_proposal(journal: Journal, mark: Mark) -> bool:
    """Whether an event ended the pending proposal, as the correction of a learned report does.

    Correcting a report that was declared missing does so if a proposal follows at once.
    """
    if mark.kind != "amended":
        return KINDS[mark.kind].ends_proposal
    following = journal.after(mark.seq)
    remade = following is not None and (following.seq, following.kind) == (mark.seq + 1, "proposed")
    return remade or mark.facts["was"] == LEARNED


def _acted_since(journal: Journal, name: str, seq: int) -> bool:
    """Whether a person asked for or decided something after an event."""
    return any(
        mark.actor == name and (mark.kind == "requested" or KINDS[mark.kind].is_decision)
        for mark in journal.marks
        if mark.seq > seq and mark.facts.get("motion", mark.seq) > seq  # not asked for before
    )


def end_words(terms: Terms, one: Ended, laws: display.Laws) -> str:
    """Who ended a request, how and why."""
    mark = one.by
    when = f"on {display.clock(mark.time)}"
    if one.refused:
        did = "withdrew it" if mark.actor == one.asked.actor else "turned it down"
        return f"{mark.actor} {did} {when}: {mark.facts['reason']}"
    if mark.kind == "met":
        held = mark.facts.get("held")
        did = display.decision_words(terms, mark.kind, mark.facts) if held else ""
        return f"It lapsed {when}, when {mark.actor} {did or 'asked for a new proposal'}"
    said = display.decision_words(terms, mark.kind, mark.facts, laws)
    made = f" (version {mark.facts['version']})" if "version" in mark.facts else ""
    return f"It lapsed {when}, when {display.who(mark)} {said}{made}"
