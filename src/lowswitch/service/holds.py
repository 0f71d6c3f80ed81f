"""Places where no change is proposed for now: who decided that, and until when it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lowswitch.review.gate import Hold
from lowswitch.service import phrases
from lowswitch.service.effects import Known
from lowswitch.service.journal import Mark
from lowswitch.service.precedents import decided
from lowswitch.show.text import counted, plural

MOST_LINES = 8  # that name held places
_SOONER = (
    "Asking again before then leaves {them} out, unless somebody asks for a proposal with the"
    " places that are held back."
)
_NOTHING = "Nothing is proposed there, neither for the protocol nor for the trial."


def end_words(known: Known, hold: Hold) -> str:
    """When a hold ends, as the end of a sentence."""
    told, cases = known.run.told, known.cases
    if hold.told is not None:
        date = "the next date, when " if hold.told in known.run.dates else ""
        more = max(0, hold.told - told)
        are = "are" if hold.told != 1 else "is"
        wait = known.run.waiting
        also = f"; {counted(wait, 'waiting report')} will count, too" if wait and more else ""
        return f"until {date}{hold.told:,} {cases} {are} learned ({more:,} more than now{also})"
    if hold.visits is not None:
        return f"until {counted(max(0, hold.visits), 'more ' + known.case)} came to such a place"
    return "until somebody asks for a proposal, or its next date comes"


def nothing_words(known: Known) -> str:
    """Why nothing is pending: what the learner would have changed, and where it did not look."""
    run = known.run
    if run.frozen or run.nothing_because is None:
        return ""
    if run.nothing_at is None or not run.nothing_because.startswith("after "):
        last = known.precedents.versions[-1:]
        if run.next_is_free and last and last[0].kind == "rolled_back":
            by = decided(known.terms, last[0], known.precedents.laws)
            since = f"the pending proposal was withdrawn: {by}. Nobody has asked for another one"
            return run.nothing_because.replace("nothing is due, and nobody has asked", since)
        return run.nothing_because
    said = f"when {counted(run.nothing_at, known.case, 'was', 'were')} learned, the learner"
    marks = known.precedents.held.values()
    then = sum(mark.facts.get("until", 0) > run.nothing_at for mark in marks)
    if not (then and known.has_rows):
        return f"{said} would have changed nothing"
    size = known.policies[0].size
    held = counted(then, "place", "was", "were")
    return (
        f"{said} looked at {size - then:,} of {counted(size, 'place')} and would have changed"
        f" nothing there; {held} held back"
    )


def promise(known: Known, rows: Sequence[tuple[int, int]], trial_only: int, why: str) -> list[str]:
    """What postponing places, or rolling them back, promises about later proposals.

    rows: the places. trial_only: in how many of them only a trial differs. why: the reason, after
    "where".
    """
    if known.hold is None:
        return []
    n, one = len(rows), len(rows) == 1
    where = f": {phrases.places_words(known.terms, _ordered(rows))}"
    if len(phrases.places_list(known.terms, rows)) > MOST_LINES:
        where = " (afterwards marked H on the page of the protocol)"
    after, size = len({*known.holds, *rows}), known.policies[0].size
    alone = f" In {trial_only:,} of them only the trial differs." if trial_only else ""
    return [
        f"The learner proposes no change of the protocol or of the trial in {counted(n, 'place')},"
        f" where {why}, {end_words(known, known.hold)}{where}.{alone}"
        f" {_SOONER.format(them='this place' if one else 'these places')}",
        f"Held back are {len(known.holds):,} of {counted(size, 'place')} now, and {after:,} after"
        " this.",
    ]


def _ordered(rows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(rows, key=lambda row: (row[1], row[0]))


def facts(known: Known) -> dict[str, Any]:
    """The held places in lines, one for each decision and end, and how many places they are."""
    held, found = known.precedents.held, dict[tuple[int, int, Hold], list[tuple[int, int]]]()
    for row, hold in known.holds.items():
        mark, earlier = held.get(row), _still_postponed(known, row)
        key = (mark.seq if mark else 0, earlier.seq if earlier else 0, hold)
        found.setdefault(key, []).append(row)
    lines = list[str]()
    for (seq, _, hold), rows in sorted(found.items(), key=lambda pair: (-pair[0][0], -pair[0][1])):
        why = f". {_why(known, held[rows[0]], rows)}" if seq else ""
        lines.append(f"{_where(known, rows)}: {end_words(known, hold)}{why}")
    last = max(known.holds.values(), key=_last, default=None)
    return {
        "lines": lines[:MOST_LINES],
        "rest": max(0, len(lines) - MOST_LINES),
        "count": len(known.holds),
        "places": known.policies[0].size if known.has_rows else 0,
        "until": "" if last is None else end_words(known, last),
    }


def _still_postponed(known: Known, row: tuple[int, int]) -> Mark | None:
    """The postponement of a place that a rollback holds, too, if its own end did not come yet."""
    mark = known.precedents.taken_over.get(row)
    return mark if mark and mark.facts.get("until", known.run.told + 1) > known.run.told else None


def _why(known: Known, mark: Mark, rows: Sequence[tuple[int, int]]) -> str:
    """The decision after which places are held, what it was about there, and any earlier one."""
    said = decided(known.terms, mark, known.precedents.laws)
    own = sum(row in known.precedents.only_trial for row in rows)
    where = "there" if own == len(rows) else f"in {own:,} of them"
    if own:
        back = mark.kind == "rolled_back"
        about = "The rollback changed only the trial" if back else "Only the trial was to change"
        said += f". {about} {where}"
    if (earlier := _still_postponed(known, rows[0])) is not None:
        said += f". Before that, {decided(known.terms, earlier, known.precedents.laws)}"
    return said


def _where(known: Known, rows: Sequence[tuple[int, int]]) -> str:
    """Places, or their number if they have many states."""
    if len(phrases.places_list(known.terms, rows)) > MOST_LINES:
        return f"{len(rows)} places, marked H on the page of the protocol"
    return phrases.places_words(known.terms, _ordered(rows))


def _last(hold: Hold) -> tuple[int, int]:
    return hold.told or 0, hold.visits or 0


def asked_for(known: Known) -> list[str]:
    """What asking for held places, too, takes back."""
    actions, held = plural(known.terms.word("action")), facts(known)
    return [
        f"This ends {counted(held['count'], 'hold')} at once, by your request alone: the learner"
        f" may propose other {actions} there again now. The timeline says so, with your name and"
        " reason."
        f" Nothing changes for anybody before {counted(known.run.quorum, 'reviewer')}"
        f" {'approves' if known.run.quorum == 1 else 'approve'} it.",
        *(f"Held so far: {line}." for line in held["lines"]),
        *[f"And those of {counted(held['rest'], 'more decision')}."] * bool(held["rest"]),
    ]


def left_out(known: Known) -> list[str]:
    """The held places that an ordinary request leaves out."""
    if not known.holds:
        return []
    held = facts(known)
    left = held["places"] - held["count"]
    return [
        f"{held['count']:,} of {counted(held['places'], 'place', 'is', 'are')} left out, because a"
        f" change was postponed or rolled back there. {_NOTHING} The learner looks only at the"
        f" other {left:,}.",
        *(f"Held: {line}." for line in held["lines"]),
    ]
