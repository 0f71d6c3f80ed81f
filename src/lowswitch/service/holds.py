"""Places where no change is proposed for now: who decided that, and until when it holds."""

from __future__ import annotations

from typing import Any

from lowswitch.review.gate import Hold
from lowswitch.service import phrases
from lowswitch.service.effects import Known
from lowswitch.service.precedents import decided
from lowswitch.show.text import counted, plural

MOST_LINES = 8  # that name held places
_SOONER = (
    "Asking again before then leaves {them} out, unless somebody asks for a proposal with the"
    " places that are held back."
)


def end_words(known: Known, hold: Hold) -> str:
    """When a hold ends, as the end of a sentence."""
    told, cases = known.run.told, known.cases
    if hold.told is not None:
        date = "the next date, when " if hold.told in known.run.dates else ""
        more = max(0, hold.told - told)
        are = "are" if hold.told != 1 else "is"
        return f"until {date}{hold.told:,} {cases} {are} learned ({more:,} more than now)"
    if hold.visits is not None:
        return f"until {counted(max(0, hold.visits), 'more ' + known.case)} came to such a place"
    return "until somebody asks for a proposal, or its next date comes"


def promise(known: Known, where: str, *, several: bool) -> list[str]:
    """What postponing places, or rolling them back, promises about later proposals.

    where: the beginning of the sentence, such as "there".
    """
    if known.hold is None:
        return []
    them = "these places" if several else "this place"
    return [
        f"The learner proposes no change {where} {end_words(known, known.hold)}."
        f" {_SOONER.format(them=them)}"
    ]


def facts(known: Known) -> dict[str, Any]:
    """The held places in lines, one for each decision and end, and how many places they are."""
    found = dict[tuple[int, Hold], list[tuple[int, int]]]()
    for row, hold in known.holds.items():
        mark = known.precedents.held.get(row)
        found.setdefault((mark.seq if mark else 0, hold), []).append(row)
    all_of_them, lines = 0, list[str]()
    marks = {mark.seq: mark for mark in known.precedents.held.values()}
    for (seq, hold), rows in sorted(found.items(), key=lambda pair: -pair[0][0]):
        own = [row for row in rows if row not in known.only_trial]
        all_of_them += len(own) or len(rows)
        where = phrases.places_words(known.terms, sorted(own, key=lambda row: (row[1], row[0])))
        if not own:
            where = f"the trial, in {counted(len(rows), 'place')}"
        elif len(own) > MOST_LINES:
            where = f"{len(own)} places, marked H on the page of the protocol"
        why = f". {decided(known.terms, marks[seq], known.precedents.laws)}" if seq in marks else ""
        lines.append(f"{where}: {end_words(known, hold)}{why}")
    last = max(known.holds.values(), key=_last, default=None)
    return {
        "lines": lines[:MOST_LINES],
        "rest": max(0, len(lines) - MOST_LINES),
        "count": all_of_them,
        "until": "" if last is None else end_words(known, last),
    }


def _last(hold: Hold) -> tuple[int, int]:
    return hold.told or 0, hold.visits or 0


def asked_for(known: Known) -> list[str]:
    """What asking for held places, too, takes back."""
    actions, held = plural(known.terms.word("action")), facts(known)
    return [
        f"This ends {counted(held['count'], 'hold')}: the learner may propose other {actions}"
        " there again now. Nothing changes for anybody before a reviewer approves it.",
        *(f"Held so far: {line}." for line in held["lines"]),
    ]


def left_out(known: Known) -> list[str]:
    """The held places that an ordinary request leaves out."""
    if not known.holds:
        return []
    held = facts(known)
    return [
        f"{counted(held['count'], 'place', 'is', 'are')} left out, because a change was"
        " postponed or rolled back there.",
        *(f"Held: {line}." for line in held["lines"]),
    ]
