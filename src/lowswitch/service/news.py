"""The news in a proposal since an earlier one that was not decided, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import KINDS, Event
from lowswitch.ledger.state import MISSING, REFUSED, WAITING
from lowswitch.ledger.text import percent
from lowswitch.service import display, effects, phrases
from lowswitch.service.effects import Known
from lowswitch.service.journal import Mark
from lowswitch.service.phrases import LABELS
from lowswitch.service.precedents import Past, decided
from lowswitch.show.text import counted

_MOST = 8  # lines
_MOST_EVENTS = 5  # that are named


def is_open(before: Event, marks: Sequence[Mark]) -> bool:
    """Whether an earlier proposal was not approved as a whole, given the marks since.

    Otherwise everything in the next one is new, and nothing can be compared.
    """
    approved = {(h, x) for m in marks if m.kind == "approved" for h, x in m.facts["rows"]}
    return not {(row["step"], row["state"]) for row in before.payload["rows"]} <= approved


def _on_rows(mark: Mark) -> bool:
    return {"proposal", "rows"} <= mark.facts.keys()


def news(
    known: Known,
    view: ProposalView,
    before: Event,
    base: np.ndarray,
    marks: Sequence[Mark],
    *,
    seen: bool,
    same_numbers: bool = True,
) -> dict[str, Any]:
    """The differences in lines, what happened in between, and the changes that are new.

    before: the earlier proposal, for a version that followed base [members, H, S]. marks: what
    people did since. seen: whether the reader has seen that proposal, or it is the last on record.
    same_numbers: whether its page showed the recorded numbers, so that verdicts can be compared.
    """
    old = {(row["step"], row["state"]): row for row in before.payload["rows"]}
    decided = {(h, x) for mark in marks if _on_rows(mark) for h, x in mark.facts["rows"]}
    learned = view.told - before.payload["told"]
    then = before.payload["version"]
    same = not learned and not any(map(_is_new_data, marks))
    why = _why_judged(then, view.version, same_data=same) if same_numbers else None
    lines, new = _changes(known, view, old, decided, why)
    lines += _trial(known, view, old, base) if known.protocol else []
    return {
        "since": f"since you read the proposal of {display.clock(before.time)}"
        if seen
        else "since the proposal before",
        "why": _why(known, marks, learned, old),
        "lines": lines[:_MOST],
        "rest": max(0, len(lines) - _MOST),
        "keys": new,
    }


def _why_judged(then: int, now: int, *, same_data: bool) -> str:
    """Why a verdict differs from the one on a change for an earlier version."""
    if then != now:
        return (
            f" That one compared it with version {then}; this one compares it with version {now}."
        )
    if not same_data:
        return ""
    return (
        " No new data led to that: a verdict also depends on the other changes beside it, and on"
        " how often the learner asks its model."
    )


def _why(
    known: Known, marks: Sequence[Mark], learned: int, old: Collection[tuple[int, int]]
) -> list[str]:
    """What happened since the earlier proposal, newest last."""
    found = [
        _did(known, mark, old) for mark in marks if _leads(mark) and not KINDS[mark.kind].has_report
    ]
    rest = len(found) - _MOST_EVENTS
    found = [f"{counted(rest, 'earlier event')}"] * (rest > 0) + found[-_MOST_EVENTS:]
    found += _corrected(marks)
    if learned:
        found.append(f"{counted(learned, 'report', 'was', 'were')} learned since")
    elif any(map(_is_new_data, marks)):
        found.append("No other report was learned since")
    else:
        found.append("No report was learned since: the data are the same")
    return found


def _is_new_data(mark: Mark) -> bool:
    """Whether somebody corrected a report that had been learned, or entered one after all."""
    return KINDS[mark.kind].has_report and mark.facts["was"] != WAITING


def _corrected(marks: Sequence[Mark]) -> list[str]:
    """Who corrected reports, or entered late ones, how many and when; all of a person in one."""
    some = [mark for mark in marks if KINDS[mark.kind].has_report]
    done = {
        "corrected": [mark for mark in some if mark.facts["was"] not in (MISSING, REFUSED)],
        "entered after being declared missing": [
            mark for mark in some if mark.facts["was"] in (MISSING, REFUSED)
        ],
    }
    found = list[str]()
    for did, its in done.items():
        for name in dict.fromkeys(mark.actor for mark in its):
            own = [mark for mark in its if mark.actor == name]
            times = list(dict.fromkeys(display.clock(mark.time) for mark in own))
            when = f"on {times[0]}" if len(times) == 1 else f"from {times[0]} to {times[-1]}"
            numbers = {mark.facts["number"] for mark in own}
            what = counted(len(numbers), "report", "was", "were")
            data = ": that changed the data" if any(map(_is_new_data, own)) else ""
            found.append(f"{what} {did} by {name} {when}{data}")
    return found


def _leads(mark: Mark) -> bool:
    """Whether something can make the learner propose anew."""
    kind = KINDS[mark.kind]
    return kind.ends_proposal or kind.has_report or mark.kind == "lifted"


def _did(known: Known, mark: Mark, old: Collection[tuple[int, int]]) -> str:
    """What somebody did, where and when."""
    when = f"on {display.clock(mark.time)}"
    if mark.kind == "met":
        if not mark.facts.get("held"):
            return f"{mark.actor} asked again {when}"
        return decided(known.terms, mark)
    did = display.decision_words(known.terms, mark.kind, mark.facts, known.precedents.laws)
    rows = [(h, x) for h, x in mark.facts.get("rows", [])]
    if _on_rows(mark) and known.has_rows and mark.kind == "rejected":
        trial = mark.facts["in_trial"] if known.protocol else []
        n = len(rows) - len(trial)
        what = [counted(n, "change")] * (n > 0) + ["the trial"] * bool(trial)
        verb = "forbade" if mark.facts.get("forever") else "postponed"
        did = f"{verb} {phrases.several(what)}"
    elif _on_rows(mark) and not known.has_rows:
        verb = "approved" if mark.kind == "approved" else "postponed"
        how_much = "all" if set(old) <= set(rows) else "a part"
        did = f"{'forbade' if mark.facts.get('forever') else verb} {how_much} of it"
    elif rows and not _on_rows(mark):
        did += f" for {phrases.few_places_words(known.terms, rows)}"
    why = f" (“{mark.facts['reason']}”)" if mark.facts.get("reason") else ""
    return f"{display.who(mark)} {did} {when}{why}"


def _changes(
    known: Known,
    view: ProposalView,
    old: dict[tuple[int, int], dict[str, Any]],
    decided: set[tuple[int, int]],
    why_judged: str | None,
) -> tuple[list[str], set[tuple[int, int]]]:
    """Changes of the protocol that are new, gone, or judged differently; and the new ones."""
    judged, now, new_ones = list[str](), set[tuple[int, int]](), set[tuple[int, int]]()
    found, back_again = list[str](), list[str]()
    for row in view.rows:
        if not effects.is_of_protocol(known, row):
            continue
        key = row["step"], row["state"]
        now.add(key)
        was, (present, new) = old.get(key), effects.sides(known, row)
        if was is None or was["to"][0] != row["to"][0] or was["verdict"] == "TRIAL":
            new_ones.add(key)
            past = known.precedents.changes.get(key)
            back = "" if past is None else f" {past_words(known, row, past)}"
            (back_again if back else found).append(
                f"Newly proposed for {known.place(*key)}: {new} instead of {present}.{back}"
            )
        elif was["verdict"] != row["verdict"] and row["verdict"] and why_judged is not None:
            judged.append(
                f"{known.place(*key)}, {new}: the verdict is “{_judged(row)}” and was"
                f" “{_judged(was)}”.{why_judged}"
            )
    gone = [
        key
        for key, row in old.items()
        if key not in now | decided
        and row["from"][0] != row["to"][0]
        and known.policies[(0, *key)] != row["to"][0]
    ]
    if gone:
        found.append(
            f"No longer proposed: a change for {phrases.few_places_words(known.terms, gone)}."
        )
    return [*back_again, *found, *judged], new_ones


def past_words(known: Known, row: dict[str, Any], past: Past) -> str:
    """Who chose the current action of a row, when, and whether the proposal takes that back."""
    names = known.terms.labels["action"]
    present, old = names[row["from"][0]], names[past.old]
    back = " This change takes that back." if past.old == row["to"][0] else ""
    return (
        f"{display.who(past.mark)} chose {present} instead of {old} here on"
        f" {display.clock(past.mark.time)} (version {past.version}).{back}"
    )


def _judged(row: dict[str, Any]) -> str:
    """A verdict and its certainty."""
    sure, word = row.get("probability"), LABELS[row["verdict"]]
    return word if sure is None else f"{word} ({percent(sure)})"


def _trial(
    known: Known,
    view: ProposalView,
    old: dict[tuple[int, int], dict[str, Any]],
    base: np.ndarray,
) -> list[str]:
    """What only one of the two proposed trials gives."""
    before = base.copy()
    for (h, x), row in old.items():
        before[:, h, x] = row["to"]
    after = effects.law_after(known, effects.whole(view))
    given = [phrases.given_in_trial(law) for law in (before, after)]
    came, gone = given[1] - given[0], given[0] - given[1]
    waits = np.zeros_like(known.visits) if known.waits is None else known.waits
    first = {
        (h, x, a)
        for h, x, a in came
        if phrases.is_new(known.visits, waits, known.policies, h, x, a)
    }
    said = {
        "Only the trial proposed now gives, for the first time": first,
        "Only the trial proposed now gives": came - first,
        "Only the trial proposed before would have given": gone,
    }
    return [
        f"{words}: {phrases.actions_words(known.terms, some)}."
        for words, some in said.items()
        if some
    ]
