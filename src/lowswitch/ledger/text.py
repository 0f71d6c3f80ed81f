"""The answers of a ledger as text, for people at a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lowswitch.ledger.events import Event
from lowswitch.ledger.responses import (
    SHOWN,
    Certificate,
    Issued,
    ProposalView,
    Status,
    TicketView,
    decided_on,
)
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.review.proposals import WHOLE
from lowswitch.show.text import age, columns, counted

LEGEND = """\
gain     estimate of what is proposed less that of what is played now, from this step on, and half
         of the 95 % interval of the former
visits   how often what stands before it was played there, in the learned episodes
reach    share of the learned episodes that came to the row
"""
BY_MODEL = """\
better   probability, by the learner's model, that the policy gets better if this row alone changes;
         - if a proposed action was never tried there, or the learner has no such model
IMPROVE  every proposed action was tried there, and it is better with 95 % by the learner's model;
         EXPLORE: worth a trial"""
BY_INTERVAL = """\
IMPROVE  by an older rule: the lower end of its interval is above the estimate of what is played
         now, however uncertain that is; EXPLORE: worth a trial"""

BY_ESTIMATES = """\
contexts  the newest contexts of the step that were learned when the proposal became due
changes   share of them in which another action would be played; of a mixture, by its shares
expected  mean value from this step on that the learner expects in them; the proposal was made from
          these estimates, so they are too favourable to it
learned   how often each action was learned from at the step"""


def law(shares: dict[str, float]) -> str:
    """An action, or the shares of several."""
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{action} {share:.0%}" for action, share in shares.items())


def readable(answer: Any, facts: Any) -> str:
    """An answer as text; facts: the same as JSON has it."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, ProposalView):
        return proposal_table(answer)
    if isinstance(answer, Certificate):
        return answer.words
    facts = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, facts))
    return "\n".join(f"{name:{width}}  {_cell(value)}" for name, value in facts.items())


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_cell, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


# ---- tickets -------------------------------------------------------------------------------------


def ticket_table(tickets: Sequence[TicketView], status: str, now: datetime | None = None) -> str:
    """A line for each ticket."""
    if not tickets:
        return f"no ticket is {status}"
    head = ("number", "ticket", "site", "request", "version", "asked")
    lines = [
        (
            f"{one.number:,}",
            one.ticket,
            one.site,
            one.request,
            f"{one.version:,}",
            age(one.asked, now),
        )
        for one in tickets
    ]
    return f"{columns([head, *lines])}\n\n{counted(len(tickets), 'ticket')} {status}"


def issued_table(issued: Issued, terms: TableTerms) -> str:
    """A ticket with its policy: a line for each state, a column for each step."""
    steps, states, actions = (terms.labels[kind] for kind in ("step", "state", "action"))
    lines = [("state", *steps)]
    for x, state in enumerate(states):
        lines.append((state, *(actions[row[x]] for row in issued.policy)))
    title = f"ticket {issued.ticket}\nnumber {issued.number:,} of {issued.site}, {issued.request}"
    return f"{title}; play version {issued.version:,}:\n\n{columns(lines)}"


# ---- proposals -----------------------------------------------------------------------------------


def proposal_table(view: ProposalView) -> str:
    """A proposal, a line for each row or step, and what the columns mean."""
    lines, legend = _step_table(view) if view.is_whole else _row_table(view)
    waits = "pending" if view.pending else "decided"
    title = f"proposal {view.hash}\nfor version {view.version}, {waits}; from {view.basis}"
    unsettled = counted(view.unsettled, "ticket")
    return f"{title}; {unsettled} open or missing\n\n{lines}\n\n{legend}"


def _row_table(view: ProposalView) -> tuple[str, str]:
    """The rows of a proposal, and what the columns mean."""
    head = ["step", "state", "now", "visits", "proposed", "visits", "gain", "reach", "verdict"]
    if view.by_model:
        head.insert(-1, "better")
    verdicts = BY_MODEL if view.by_model else BY_INTERVAL
    return columns([head, *(_row_cells(row) for row in view.rows)]), f"{LEGEND}{verdicts}"


def _step_table(view: ProposalView) -> tuple[str, str]:
    """The steps of a proposed policy on features, and what the columns mean."""
    head = ("step", "contexts", "changes", "now", "expected", "proposed", "expected", "learned")
    lines = [
        (
            one["step_label"],
            f"{one['contexts']:,}",
            "-" if one["changed"] is None else f"{one['changed']:.0%}",
            *(cell for side in (one["now"], one["proposed"]) for cell in _side_cells(side)),
            ", ".join(f"{action} {n:,}" for action, n in one["visits"].items()),
        )
        for row in view.rows
        for one in row["steps"]
    ]
    return columns([head, *lines]), BY_ESTIMATES


def _side_cells(side: dict[str, Any]) -> tuple[str, str]:
    """What is played, and what is expected of it."""
    expected = side["estimate"]
    return law(side["law"]) or "-", "-" if expected is None else f"{expected:.3f}"


def percent(probability: float) -> str:
    """A probability in whole percent, rounded down, so that 94.9 % is not taken for 95 %."""
    whole = math.floor(100 * probability + 1e-9)
    return {0: "< 1 %", 100: "> 99 %"}.get(whole, f"{whole} %")


def untried(row: dict[str, Any]) -> str:
    """Which proposed actions of a row were never tried there; nothing if all were."""
    if row["never_tried"]:
        return "never tried"
    return f"never tried: {', '.join(row['untried'])}" if row.get("untried") else ""


def _better(probability: float | None) -> str:
    return "-" if probability is None else percent(probability)


def _row_cells(row: dict[str, Any]) -> tuple[str, ...]:
    now, new = row["now"], row["proposed"]
    notes = f" {untried(row)}".rstrip()
    notes += "".join(f" hangs on {site}" for site in row["hangs_on_sites"])
    notes += " hangs on open reports" if row["hangs_on_unsettled"] else ""
    return (
        row["step_label"],
        row["state_label"],
        law(now["law"]),
        f"{now['visits']:,}",
        law(new["law"]),
        f"{new['visits']:,}",
        f"{new['estimate'] - now['estimate']:+.3f} ({new['width']:.3f})",
        f"{row['reach']:.0%}",
        *([_better(row["probability"])] if "probability" in row else []),
        row["verdict"] + notes,
    )


def replaced(made: ProposalView, before: ProposalView) -> str:
    """A proposal that was asked for while another one waited."""
    return (
        f"{proposal_table(made)}\n\nIt replaces the proposal {before.hash[:SHOWN]}, on which nobody"
        " had decided; the budget counts the two as one."
    )


def withdrawn(nothing: str, before: ProposalView) -> str:
    """Why nothing is proposed any more, though something waited."""
    return (
        f"{nothing}\nThe proposal {before.hash[:SHOWN]}, on which nobody had decided, is withdrawn;"
        " the next one takes nothing from the budget."
    )


def decided(event: Event, before: Status, after: Status, left: ProposalView | None) -> str:
    """What a decision led to, in a line."""
    waits = "nothing waits"
    if left is not None:
        rows = counted(len(left.rows), "row", "waits", "wait")
        waits = f"{'another one waits' if left.is_whole else rows} as {left.hash[:SHOWN]}"
    is_new = after.version > before.version
    deployed = f"version {after.version:,} {'is deployed now' if is_new else 'stays deployed'}"
    return f"{_said(event.kind, event.payload)}, {waits}; {deployed}"


def _said(kind: str, payload: dict[str, Any]) -> str:
    """What was decided."""
    rows, forever = payload["rows"], payload.get("forever", False)
    if kind == "approved":
        part = f" of the {payload['part']}" if "part" in payload else ""
        capped = f", {payload['share']:.3g} of the cases in the trial" if "share" in payload else ""
        return f"{decided_on(rows)}{part} approved{capped}"
    if rows == [list(WHOLE)]:
        return "the new actions are forbidden" if forever else "the deployed policy stays for now"
    return f"{counted(len(rows), 'row', 'stays', 'stay')} {'for ever' if forever else 'for now'}"
