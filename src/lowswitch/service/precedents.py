"""Earlier decisions that a new one would reverse, with who made them and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lowswitch.ledger.terms import Terms
from lowswitch.service import display, phrases
from lowswitch.service.journal import Journal, Mark
from lowswitch.show.text import counted

Row = tuple[int, int]  # step, state
_MOST_UNDONE = 5  # decisions that one rollback names
_STANDS = "That veto stays."


class Past(NamedTuple):
    """The last change of a row of the protocol."""

    version: int  # that brought it
    old: int  # the action before
    mark: Mark  # who decided it


class Precedents(NamedTuple):
    """Earlier decisions that a later one may reverse."""

    held: Mapping[Row, Mark] = {}  # who postponed a row, or rolled it back, last
    only_trial: Collection[Row] = ()  # those of them in which only a trial differed
    taken_over: Mapping[Row, Mark] = {}  # who postponed a row that a rollback then held, too
    changes: Mapping[Row, Past] = {}
    postponed: Mapping[Row, Mark] = {}  # of rows that were not changed since
    ended: Mark | None = None  # who ended the trial, if none runs
    began: Mark | None = None  # who began the trial that runs
    versions: Sequence[Mark] = ()  # who made each version
    laws: display.Laws | None = None  # the versions themselves
    people: Mapping[int, str] = {}  # everybody who made a decision, by its event
    lifts: Mapping[tuple[int, int, int], Mark] = {}  # who lifted the veto of what is allowed again
    bans: Mapping[tuple[int, int, int], Sequence[Mark]] = {}  # who forbade and allowed what
    unaware: Sequence[Mark] = ()  # the lifted vetoes that the pending proposal still reckons with


def precedents(journal: Journal, laws: display.Laws, pending: int | None = None) -> Precedents:
    """The earlier decisions in a journal; pending: the event of the pending proposal."""
    marks = journal.versions()
    changes = last_changes(laws, marks)
    postponed = dict[Row, Mark]()
    for mark in journal.marks:
        if mark.kind != "rejected" or mark.facts.get("forever"):
            continue
        for h, x in display.people_rows(mark.facts, protocol=laws.protocol):
            if (h, x) not in changes or changes[h, x].mark.seq < mark.seq:
                postponed[h, x] = mark
    lifts = _lifts(laws, journal)
    made = None if pending is None else journal.origin(pending)
    unaware = {mark.seq: mark for mark in lifts.values() if made is not None and mark.seq > made}
    return Precedents(
        *(*_held(journal, laws), changes, postponed, *_trial(laws, marks), marks, laws),
        people={mark.seq: display.who(mark) for mark in journal.decisions()},
        lifts=lifts,
        bans=_bans(journal),
        unaware=list(unaware.values()),
    )


def _lifts(laws: display.Laws, journal: Journal) -> dict[tuple[int, int, int], Mark]:
    """The decision that lifted the last veto of each action (step, state, action), if one did."""
    found = dict[tuple[int, int, int], Mark]()
    for mark in journal.decisions():
        rows, actions = _rows(mark.facts.get("rows", [])), mark.facts.get("actions", [])
        keys = [(h, x, a) for h, x in rows for a in actions]
        if mark.kind == "lifted":
            found |= dict.fromkeys(keys, mark)
        elif mark.is_veto:
            found = {key: one for key, one in found.items() if key not in keys}
    return found


def _bans(journal: Journal) -> dict[tuple[int, int, int], list[Mark]]:
    """The vetoes of each action (step, state, action), and the decisions that lifted them."""
    found = dict[tuple[int, int, int], list[Mark]]()
    for mark in journal.decisions():
        if mark.is_veto or mark.kind == "lifted":
            for h, x in _rows(mark.facts.get("rows", [])):
                for a in mark.facts.get("actions", []):
                    found.setdefault((h, x, a), []).append(mark)
    return found


def _held(
    journal: Journal, laws: display.Laws
) -> tuple[dict[Row, Mark], set[Row], dict[Row, Mark]]:
    """The last decision of each row after which it was held; and where only a trial differed.

    Then the earlier postponements of rows that a rollback held.
    """
    found, alone, put_off = dict[Row, Mark](), set[Row](), dict[Row, Mark]()
    for mark in journal.marks if laws.has_rows else []:
        if mark.kind == "rejected" and not mark.facts.get("forever"):
            rows, trial = _rows(mark.facts["rows"]), _rows(mark.facts["in_trial"])
            put_off |= dict.fromkeys(rows, mark)
        elif mark.kind == "rolled_back" and mark.facts["version"] <= len(laws.tables):
            before, after = laws.tables[mark.facts["version"] - 2 : mark.facts["version"]]
            rows = _rows(np.argwhere((before != after).any(axis=0)).tolist())
            trial = [row for row in rows if before[(0, *row)] == after[(0, *row)]]
        elif mark.kind == "met" and mark.facts.get("held"):  # which ends all holds
            found, alone, put_off = {}, set(), {}
            continue
        else:
            continue
        found |= dict.fromkeys(rows, mark)
        alone = (alone - {*rows}) | {*trial}
    taken_over = {row: mark for row, mark in put_off.items() if found[row] != mark}
    return found, alone if laws.protocol else set(), taken_over


def _rows(pairs: Iterable[Sequence[int]]) -> list[Row]:
    return [(h, x) for h, x in pairs]


def last_changes(laws: display.Laws, marks: Sequence[Mark]) -> dict[Row, Past]:
    """The last change of each row of the protocol that a decision brought."""
    found = dict[Row, Past]()
    if laws.has_rows:
        for number in range(2, min(len(laws.tables), len(marks)) + 1):
            before, after = (laws.tables[n][0] for n in (number - 2, number - 1))
            for h, x in np.argwhere(before != after).tolist():
                found[h, x] = Past(number, int(before[h, x]), marks[number - 1])
    return found


def _trial(laws: display.Laws, marks: Sequence[Mark]) -> tuple[Mark | None, Mark | None]:
    """The decision that ended the last trial, if none runs; and the one that began the present one.

    Both are None if there never was a trial.
    """
    numbers = range(min(len(laws.tables), len(marks)), 1, -1)
    runs = bool(laws.share(len(laws.tables)))
    for number in numbers:
        if bool(laws.share(number)) == runs and bool(laws.share(number - 1)) != runs:
            return (None, marks[number - 1]) if runs else (marks[number - 1], None)
    return None, None


def taken_back(
    terms: Terms,
    known: Precedents,
    changes: Iterable[tuple[int, int, int]],
    *,
    begins_trial: bool = False,
    again: bool = False,
) -> list[str]:
    """The earlier decisions that a decision reverses, one sentence each.

    changes: step, state and new action of each changed row of the protocol. again: also name the
    decisions that chose the present action of rows that would now get a third one.
    """
    reversed_by, put_off = dict[int, list[Row]](), dict[int, list[Row]]()
    changed_again = dict[int, list[Row]]()
    marks = dict[int, Mark]()
    for h, x, action in changes:
        past, postponed = known.changes.get((h, x)), known.postponed.get((h, x))
        if past is not None and past.old == action:
            reversed_by.setdefault(past.mark.seq, []).append((h, x))
            marks[past.mark.seq] = past.mark
        elif past is not None and again:
            changed_again.setdefault(past.mark.seq, []).append((h, x))
            marks[past.mark.seq] = past.mark
        if postponed is not None:
            put_off.setdefault(postponed.seq, []).append((h, x))
            marks[postponed.seq] = postponed
    found = [
        f"This takes back an earlier decision for {phrases.few_places_words(terms, rows)}:"
        f" {_decided(terms, marks[seq], known)}."
        for seq, rows in sorted(reversed_by.items(), reverse=True)
    ]
    found += [
        f"A change was postponed for {phrases.few_places_words(terms, rows)}:"
        f" {decided(terms, marks[seq], known.laws)}."
        for seq, rows in sorted(put_off.items(), reverse=True)
    ]
    found += [
        "This changes again what an earlier decision chose for"
        f" {phrases.few_places_words(terms, rows)}: {_decided(terms, marks[seq], known)}."
        for seq, rows in sorted(changed_again.items(), reverse=True)
    ]
    if begins_trial and known.ended is not None:
        found.append(f"This begins a trial again: {decided(terms, known.ended, known.laws)}.")
    return found


def undone(terms: Terms, known: Precedents, to: int) -> list[str]:
    """The decisions after a version that a rollback to it takes back, newest first.

    A veto stays unless it was lifted, although the version that it made does not.
    """
    since = [*enumerate(known.versions, start=1)][to:][::-1]
    found = list[str]()
    for number, mark in since[:_MOST_UNDONE]:
        does = "replaces" if mark.is_veto else "takes back"
        but = f" {_fate_of_veto(terms, known, mark)}" if mark.is_veto else ""
        found.append(f"It {does} version {number}: {decided(terms, mark, known.laws)}.{but}")
    if (rest := len(since) - len(found)) > 0:
        found.append(f"It takes back {counted(rest, 'earlier version')} since version {to}, too.")
    return found


def allowed_since(terms: Terms, known: Precedents, to: int) -> list[str]:
    """What was forbidden when a version was made and is allowed now, which a rollback leaves so."""
    if to > len(known.versions):
        return []
    made, free = known.versions[to - 1].seq, set[tuple[int, int, int]]()
    for key, marks in known.bans.items():
        before = [mark for mark in marks if mark.seq <= made]
        if before and before[-1].is_veto and not marks[-1].is_veto:
            free.add(key)
    if not free:
        return []
    return [
        f"A rollback forbids nothing again. Forbidden in version {to}, and allowed since:"
        f" {phrases.actions_words(terms, free)}."
    ]


def _decided(terms: Terms, mark: Mark, known: Precedents) -> str:
    """The same as `decided`, and of a veto whether it was lifted since."""
    said = decided(terms, mark, known.laws)
    if not mark.is_veto or (fate := _fate_of_veto(terms, known, mark)) == _STANDS:
        return said
    return f"{said}. {fate.removesuffix('.')}"


def _fate_of_veto(terms: Terms, known: Precedents, mark: Mark) -> str:
    """Whether a veto still stands, and otherwise who lifted it."""
    rows, later = _rows(mark.facts["rows"]), dict[Row, set[int]]()
    for (h, x, a), one in known.lifts.items():
        if one.seq > mark.seq:
            later.setdefault((h, x), set()).add(a)
    named = mark.facts.get("actions")  # otherwise each row's new one
    free = [row for row in rows if row in later and {*(named or [])} <= later[row]]
    if not free:
        return _STANDS
    actions = named or sorted(later[free[-1]])
    lifted = known.lifts[(*free[-1], actions[0])]
    by = f"{display.who(lifted)} lifted it on {display.clock(lifted.time)}"
    names = phrases.several([terms.labels["action"][a] for a in actions], "or")
    can = f"so {names} can be given there again"
    if len(free) == len(rows):
        return f"That veto was lifted: {by}, {can}."
    where = phrases.few_places_words(terms, free)
    return f"For {where} that veto was lifted: {by}, {can}. Elsewhere it stays."


def unaware(terms: Terms, known: Precedents) -> list[str]:
    """That the pending proposal was made while something was forbidden that is allowed again."""
    return [
        f"This proposal was made before {display.who(mark)}"
        f" {display.decision_words(terms, mark.kind, mark.facts)} for"
        f" {phrases.few_places_words(terms, mark.facts['rows'])} on {display.clock(mark.time)}, so"
        " it leaves that out. Ask for another proposal to have it considered; that uses up none of"
        " the proposals left."
        for mark in known.unaware
    ]


def decided(terms: Terms, mark: Mark, laws: display.Laws | None = None) -> str:
    """Who decided what, when and why."""
    what = display.decision_words(terms, mark.kind, mark.facts, laws)
    reason = mark.facts.get("reason")
    why = f" (“{reason}”)" if reason else ""
    return f"{display.who(mark)} {what} on {display.clock(mark.time)}{why}"
