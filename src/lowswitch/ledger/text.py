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
)
from lowswitch.ledger.terms import Terms
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


def issued_table(issued: Issued, terms: Terms) -> str:
    """A ticket with its policy: a line for each state, a column for each step."""
    steps, states, actions = (terms.labels[kind] for kind in ("step", "state", "action"))
    lines = [("state", *steps)]
    for x, state in enumerate(states):
        lines.append((state, *(actions[row[x]] for row in issued.policy)))
    title = f"ticket {issued.ticket}\nnumber {issued.number:,} of {issued.site}, {issued.request}"
    return f"{title}; play version {issued.version:,}:\n\n{columns(lines)}"


# ---- proposals -----------------------------------------------------------------------------------


def proposal_table(view: ProposalView) -> str:
    """A proposal, a line for each row, and what the columns mean."""
    head = ["step", "state", "now", "visits", "proposed", "visits", "gain", "reach", "verdict"]
    if view.by_model:
        head.insert(-1, "better")
    lines = columns([head, *(_row_cells(row) for row in view.rows)])
    waits = "pending" if view.pending else "decided"
    title = f"proposal {view.hash}\nfor version {view.version}, {waits}; from {view.basis}"
    unsettled = counted(view.unsettled, "ticket")
    verdicts = BY_MODEL if view.by_model else BY_INTERVAL
    return f"{title}; {unsettled} open or missing\n\n{lines}\n\n{LEGEND}{verdicts}"


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
    rows = len(event.payload["rows"])
    said = f"{counted(rows, 'row')} approved"
    if event.kind == "rejected":
        now = "for ever" if event.payload["forever"] else "for now"
        said = f"{counted(rows, 'row', 'stays', 'stay')} {now}"
    waits = "nothing waits"
    if left is not None:
        waits = f"{counted(len(left.rows), 'row', 'waits', 'wait')} as {left.hash[:SHOWN]}"
    is_new = after.version > before.version
    deployed = f"version {after.version:,} {'is deployed now' if is_new else 'stays deployed'}"
    return f"{said}, {waits}; {deployed}"
