"""What the pages show of the ledger, in words and numbers for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from markupsafe import Markup

from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import KINDS, LEDGER
from lowswitch.ledger.evidence import BY_WORTH, width
from lowswitch.ledger.responses import Chart
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import law, percent, row_notes, untried
from lowswitch.service import figures
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Journal, Mark

PER_PAGE = 100  # states on a page of the map
MOST_VERSIONS = 200  # on the timeline
VIEWS = {
    "action": "what is played",
    "visits": "visits of what is played",
    "width": "width of its interval",
    "changes": "changes so far",
}


def clock(time: str) -> str:
    """A time as people read it; the server's is UTC."""
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M UTC")


def codes(names: Sequence[str]) -> list[str]:
    """A short sign for each action: initials where they differ, and else numbers."""
    found = ["".join(word[0] for word in name.split())[:2] for name in names]
    return found if len(set(found)) == len(found) else [str(i + 1) for i in range(len(names))]


# ---- the proposal --------------------------------------------------------------------------------


def proposal_rows(terms: Terms, view: ProposalView) -> list[dict[str, Any]]:
    """A line for each row, what improves and what is met most often first."""
    found = [_proposal_row(terms, row) for row in view.rows]
    if view.rule == BY_WORTH:  # these come by what they gain
        return found
    return sorted(found, key=lambda row: (row["verdict"] != "IMPROVE", -row["reach"]))


def _proposal_row(terms: Terms, row: dict[str, Any]) -> dict[str, Any]:
    left = terms.horizon - row["step"]
    low, high = terms.rewards[0] * left, terms.rewards[1] * left
    pair = [
        Interval(name, side["estimate"], side["width"], side["visits"] > 0)
        for name, side in (("now", row["now"]), ("proposed", row["proposed"]))
    ]
    notes = row_notes(row) if "tries" in row else _older_notes(row)
    return row | {
        "key": f"{row['step']}:{row['state']}",
        "old": law(row["now"]["law"]),
        "new": law(row["proposed"]["law"]),
        "new_actions": [name for name in row["proposed"]["law"] if name not in row["now"]["law"]],
        "figure": figures.intervals(low, high, pair),
        "better": percent(row["probability"]) if row.get("probability") is not None else "",
        "notes": notes,
    }


def _older_notes(row: dict[str, Any]) -> list[str]:
    """What else a reviewer should know of a row of an older rule."""
    notes = [note] if (note := untried(row)) else []
    notes += [f"hangs on {site} alone" for site in row["hangs_on_sites"]]
    return notes + ["hangs on reports that are open"] * row["hangs_on_unsettled"]


def sentence(words: str) -> str:
    """Words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def numbers(values: Sequence[int]) -> str:
    """Several numbers, with thousands set apart."""
    return "; ".join(f"{value:,}" for value in values)


def why_now(journal: Journal, view: ProposalView) -> str:
    """What led to a proposal; nothing is said before that is known."""
    if journal.seq < view.event:
        return ""  # it has not read so far yet
    before = journal.before(view.event)
    if before is not None and before.seq == view.event - 1:
        if before.kind == "met" and before.role == LEDGER:
            date = f"Its date after episode {before.facts['date']:,} passed"
            return f"{date} while an earlier proposal waited for a decision."
        if before.kind == "met":
            early = " before its next date" if before.facts.get("early") else ""
            return f"{before.actor} asked the learner{early} what it would change."
        if "proposal" in before.facts:  # a decision on it
            decided = journal.before(before.seq, "proposed")
            if decided is not None and decided.facts["told"] < view.told:
                due = "It became due while an earlier proposal waited"
                return f"{due}; event {before.seq} decided that one."
            return f"It is what the last decision (event {before.seq}) left open."
        if before.kind == "history":
            return "The history of the old protocol was imported."
        return f"It follows from event {before.seq}: {before.actor} {KINDS[before.kind].verb}."
    return f"Its schedule allowed a change after {view.told:,} episodes were learned."


# ---- the map -------------------------------------------------------------------------------------


def map_rows(
    terms: TableTerms, chart: Chart, view: str, states: Sequence[int]
) -> list[dict[str, Any]]:
    """A line for each of these states, a cell for each step."""
    held, pending, signs = set(chart.held), set(chart.pending), codes(terms.labels["action"])
    counted = chart.changes if view == "changes" else _played_visits(chart)
    most = max(1, int(counted.max()))
    return [
        {
            "label": terms.labels["state"][x],
            "cells": [
                _cell(terms, chart, view, h, x, signs, most)
                | {"held": (h, x) in held, "pending": (h, x) in pending, "step": h, "state": x}
                for h in range(terms.horizon)
            ],
        }
        for x in states
    ]


def _played_visits(chart: Chart) -> np.ndarray:  # [H, S]
    """How often what a row plays was visited there, summed over the members of a mixture."""
    H, S = chart.changes.shape
    played = np.zeros((H, S, chart.visits.shape[2]), dtype=bool)
    for table in chart.policy:
        played[np.arange(H)[:, None], np.arange(S)[None], table] = True
    total: np.ndarray = (chart.visits * played).sum(axis=-1)
    return total


def _cell(
    terms: TableTerms, chart: Chart, view: str, h: int, x: int, signs: list[str], most: int
) -> dict[str, Any]:
    actions = sorted(set(chart.policy[:, h, x].tolist()))
    forbidden = int((terms.allowed[h, x] & ~chart.allowed[h, x]).sum())
    visits = int(sum(chart.visits[h, x, a] for a in actions))
    names = ", ".join(terms.labels["action"][a] for a in actions)
    cell = {"forbidden": forbidden, "says": f"{names}; {visits:,} visits"}
    if view == "action":
        css = f"action{actions[0] % 8}" if len(actions) == 1 else "mixed"
        return cell | {"text": "/".join(signs[a] for a in actions), "css": css}
    if view == "visits":
        return cell | {"text": short(visits), "css": f"shade{_shade(visits, most)}"}
    if view == "width":
        span = terms.horizon - h
        half = width(visits, span)
        amount = f"{terms.amount(half):.2f}"
        return cell | {"text": amount, "css": f"shade{round(5 * half / span)}"}
    changes = int(chart.changes[h, x])
    return cell | {"text": str(changes), "css": f"shade{_shade(changes, most)}"}


def short(count: int) -> str:
    """A count in at most four signs."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def _shade(count: int, most: int) -> int:
    """0 for none, and 1 to 5 by its share on a scale of logarithms."""
    return 0 if count == 0 else 1 + round(4 * float(np.log1p(count) / np.log1p(most)))


# ---- the timeline --------------------------------------------------------------------------------


def version_lines(journal: Journal, policies: list[np.ndarray]) -> list[dict[str, Any]]:
    """A line for each of the last versions: who made it, why, and what came of it."""
    found = list[dict[str, Any]]()
    marks = journal.versions()[: len(policies)]
    for i in range(max(0, len(marks) - MOST_VERSIONS), len(marks)):
        mark = marks[i]
        returns = journal.returns.get(i + 1)
        changed = int((policies[i] != policies[i - 1]).any(axis=0).sum()) if i else 0
        known = returns is not None and returns.count > 0
        found.append(
            {
                "number": i + 1,
                "mark": mark,
                "said": KINDS[mark.kind].verb,
                "reason": mark.facts.get("reason", ""),
                "changed": changed,
                "episodes": returns.count if known and returns is not None else 0,
                "interval": Interval(f"version {i + 1}", returns.mean, returns.half_width)
                if known and returns is not None and returns.count > 1
                else None,
                "to": mark.facts.get("to"),
            }
        )
    return found


def returns_figure(lines: list[dict[str, Any]]) -> Markup:
    """The figure of what came of each version; of very many, the last ones."""
    some = lines[-60:]
    return figures.returns(
        [(line["number"], line["interval"], line["mark"].kind == "rolled_back") for line in some]
    )


def decision_lines(terms: Terms, marks: list[Mark]) -> list[dict[str, Any]]:
    """What was decided, the newest first."""
    return [
        {"mark": mark, "said": _said(mark), "rows": row_names(terms, mark.facts.get("rows", []))}
        for mark in reversed(marks)
    ]


def _said(mark: Mark) -> str:
    facts = mark.facts
    if mark.kind == "rejected":
        if facts.get("forever"):
            return "rejected for ever"
        visits = facts.get("visits")
        return "rejected for now" if visits is None else f"rejected for {visits:,} visits"
    if mark.kind == "rolled_back":
        return f"rolled back to version {facts['to']}"
    return KINDS[mark.kind].verb


def row_names(terms: Terms, rows: Any) -> list[str]:
    """Rows by their labels."""
    steps, states = terms.labels["step"], terms.labels["state"]
    return [f"{steps[h]}, {states[x]}" for h, x in rows]


def difference(terms: Terms, before: np.ndarray, after: np.ndarray) -> list[dict[str, Any]]:
    """The rows in which two versions differ."""
    found = []
    for h, x in np.argwhere((before != after).any(axis=0)).tolist():
        old, new = (law(_law(terms, policies[:, h, x].tolist())) for policies in (before, after))
        steps, states = terms.labels["step"], terms.labels["state"]
        found.append({"step": steps[h], "state": states[x], "old": old, "new": new, "h": h, "x": x})
    return found


def _law(terms: Terms, actions: list[int]) -> dict[str, float]:
    names = terms.labels["action"]
    return {names[a]: actions.count(a) / len(actions) for a in sorted(set(actions))}
