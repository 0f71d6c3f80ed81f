"""The news in a proposal that a decision made the learner repeat, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import KINDS, Event
from lowswitch.ledger.text import percent
from lowswitch.service import display, effects, phrases
from lowswitch.service.effects import Known
from lowswitch.service.journal import Mark
from lowswitch.service.phrases import LABELS

_MOST = 8  # lines
_WORD_ONLY = "No new data led to that: a verdict also depends on the other changes beside it."


def remade(mark: Mark | None, view: ProposalView, before: Event | None) -> bool:
    """Whether a person, rather than a new report, led from the earlier proposal to this one."""
    if mark is None or before is None or mark.seq != view.event - 1:
        return False
    asked_again = mark.kind == "met" and before.payload["version"] == view.version
    by_person = KINDS[mark.kind].is_decision or asked_again
    return by_person and bool(before.payload["told"] == view.told)


def news(
    known: Known, view: ProposalView, before: Event, base: np.ndarray, mark: Mark
) -> dict[str, Any]:
    """The differences in lines, and who caused them.

    before: the earlier proposal, for a version that followed base [members, H, S]. mark: the
    decision after which the learner made this one.
    """
    old = {(row["step"], row["state"]): row for row in before.payload["rows"]}
    decided = {(h, x) for h, x in mark.facts.get("rows", [])}
    changes = _changes(known, view, old, decided)
    lines = changes + (_trial(known, view, old, base) if known.protocol else [])
    return {
        "why": _why(known, mark),
        "lines": lines[:_MOST],
        "rest": max(0, len(lines) - _MOST),
    }


def _why(known: Known, mark: Mark) -> str:
    """Who made the decision after which the learner planned again, and what it was."""
    if mark.kind == "met":
        again = f"{mark.actor} asked again, and no report was learned since the proposal before"
        return f"{again}. The data are the same"
    if "proposal" in mark.facts:
        did = "postponed" if mark.kind == "rejected" else "approved"
        did = "forbade" if mark.facts.get("forever") else did
        return (
            f"{display.who(mark)} {did} a part of the proposal before, and this is the rest of it"
        )
    did = display.decision_words(known.terms, mark.kind, mark.facts)
    rows = mark.facts.get("rows", [])
    where = f" for {phrases.places_words(known.terms, rows)}" if rows else ""
    why = f" (“{mark.facts['reason']}”)" if mark.facts.get("reason") else ""
    return (
        f"{display.who(mark)} {did}{where}{why}, so the learner planned again from the same reports"
    )


def _changes(
    known: Known,
    view: ProposalView,
    old: dict[tuple[int, int], dict[str, Any]],
    decided: set[tuple[int, int]],
) -> list[str]:
    """Changes of the protocol that are new, gone, or judged differently."""
    found, now = list[str](), set[tuple[int, int]]()
    for row in view.rows:
        if not effects.is_of_protocol(known, row):
            continue
        key = row["step"], row["state"]
        now.add(key)
        was, (present, new) = old.get(key), effects.sides(known, row)
        if was is None or was["to"][0] != row["to"][0]:
            found.append(f"Newly proposed for {known.place(*key)}: {new} instead of {present}.")
        elif was["verdict"] != row["verdict"]:
            found.append(
                f"{known.place(*key)}, {new}: the verdict is “{_judged(row)}” and was"
                f" “{_judged(was)}”. {_WORD_ONLY}"
            )
    gone = [
        key
        for key, row in old.items()
        if key not in now | decided and row["from"][0] != row["to"][0]
    ]
    if gone:
        found.append(f"No longer proposed: a change for {phrases.places_words(known.terms, gone)}.")
    return found


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
    first = {
        (h, x, a)
        for h, x, a in came
        if known.visits[h, x, a] == 0 and a not in known.policies[:, h, x]
    }
    said = {
        "The trial now gives for the first time": first,
        "The trial now also gives": came - first,
        "The trial no longer gives": gone,
    }
    return [
        f"{words}: {phrases.actions_words(known.terms, some)}."
        for words, some in said.items()
        if some
    ]
