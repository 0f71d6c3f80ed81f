"""The answers of a ledger as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lowswitch.ledger.events import Event
from lowswitch.ledger.evidence import BY_WORTH
from lowswitch.ledger.responses import (
    SHOWN,
    Certificate,
    Issued,
    MotionView,
    ProposalView,
    Status,
    TicketView,
    decided_on,
)
from lowswitch.ledger.terms import Terms
from lowswitch.review.proposals import WHOLE
from lowswitch.show.text import age, columns, counted

LEGEND = """\
gain     estimate of the proposed action minus the current one, from this step on, and half of the
         proposed action's 95 % interval
visits   how often the action before it was played there, in the learned episodes
reach    share of the learned episodes that reached the row
"""
BETTER = """\
better   probability, by the learner's model, that the policy gets better if this row alone changes;
         - if the learner has no such model{}
"""
BY_MODEL = """\
IMPROVE  every proposed action was tried there, and it is better with 95 % by the learner's model;
         EXPLORE: worth a trial"""
# what the words of the newest rule mean, for every page that shows them
WORDS = {
    "IMPROVE": "better by the learner's model, and so certain that few such rows are false",
    "LIKELY": "probably better by the learner's model",
    "UNSURE": "the learner has no model, or the model cannot tell",
    "WORSE": "probably worse, and the other changes do better without it",
    "UNTRIED": "a proposed action was never tried there, so nothing is known about it",
    "TRIAL": "only the trial changes, in order to learn",
}
BY_INTERVAL = """\
IMPROVE  by an older rule: the lower end of its interval is above the estimate of the current
         action, however uncertain that estimate is; EXPLORE: worth a trial"""

BY_ESTIMATES = """\
contexts  the newest contexts of the step that were learned when the proposal became due
changes   share of them in which another action would be played; of a mixture, by its shares
expected  mean value from this step on that the learner expects in them; the proposal was made from
          these estimates, so they are too favourable to it
learned   how often each action was learned from at the step"""


_RARE = 0.01  # a share of an action that is not named


def law(shares: dict[str, float]) -> str:
    """An action, or the shares of several."""
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{action} {100 * share:.0f} %" for action, share in shares.items())


def readable(answer: Any, facts: Any) -> str:
    """An answer as text; facts: the same answer as JSON."""
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


# ---- motions -------------------------------------------------------------------------------------


def motion_table(motions: Sequence[MotionView]) -> str:
    """A line for each decision that waits for reviewers."""
    if not motions:
        return "no decision waits for other reviewers"
    head = ("number", "what", "asked by", "agree", "still needed", "reason")
    lines = [
        (
            f"{one.number:,}",
            one.kind,
            one.by,
            ", ".join(one.confirmed) or "-",
            f"{one.needed}",
            one.decision["reason"],
        )
        for one in motions
    ]
    return columns([head, *lines])


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


def issued_text(issued: Issued, terms: Terms, choice: dict[str, Any] | None = None) -> str:
    """A ticket with its table, one line per state and one column per step; with features, its
    action in a context if one is given.
    """
    title = f"ticket {issued.ticket}\nnumber {issued.number:,} of {issued.site}, {issued.request}"
    if "state" not in terms.labels:
        if choice is None:
            return f"{title}; play version {issued.version:,} (give --context for its action)"
        shown = f"{choice['action']} (propensity {choice['propensity']:.4g})"
        return f"{title}; version {issued.version:,} plays {shown}"
    steps, states, actions = (terms.labels[kind] for kind in ("step", "state", "action"))
    lines = [("state", *steps)]
    for x, state in enumerate(states):
        lines.append((state, *(actions[row[x]] for row in issued.policy)))
    return f"{title}; play version {issued.version:,}:\n\n{columns(lines)}"


# ---- proposals -----------------------------------------------------------------------------------


def proposal_table(view: ProposalView) -> str:
    """A proposal, one line per row or step, and what the columns mean."""
    waits = "pending" if view.pending else "decided"
    title = f"proposal {view.hash}\nfor version {view.version}, {waits}; from {view.basis}"
    if view.rows and "regions" in view.rows[0]:
        return f"{title}; {reports(view)}\n\n{_region_table(view)}"
    if view.rule >= BY_WORTH and not view.is_whole:
        return f"{title}; {reports(view)}\n\n{_worth_table(view)}"
    lines, legend = _step_table(view) if view.is_whole else _row_table(view)
    unsettled = counted(view.unsettled, "ticket")
    return f"{title}; {unsettled} open or missing\n\n{lines}\n\n{legend}"


def _row_table(view: ProposalView) -> tuple[str, str]:
    """The rows of a proposal, and what the columns mean."""
    head = ["step", "state", "now", "visits", "proposed", "visits", "gain", "reach", "verdict"]
    if view.by_model:
        head.insert(-1, "better")
    untold = ", or if a proposed action was never tried there"
    verdicts = BETTER.format(untold) + BY_MODEL if view.by_model else BY_INTERVAL
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


def _region_table(view: ProposalView) -> str:
    """The worth of a policy on features, for which kinds of cases, and what the words mean."""
    (row,), parts = view.rows, list[str]()
    if view.worth is not None:
        head = ("by the model of the cases", "mean", "80 % interval", "95 % interval", "better")
        parts.append(columns([head, *worth_lines(view.worth)]))
    names = ("cases", "share", "usual action", "all actions", "tries", "gain", "80 % interval")
    lines = [_region_cells(one) for one in row["regions"]]
    parts.append(columns([(*names, "better", "word"), *lines]))
    parts.append(fidelity_words(row))
    if "trial" in row:
        parts.append(trial_words(row))
    if row["affected"]:
        cases = [
            (describe(one["context"]), moved(one), f"{one['gain']['mean']:+.4f}")
            for one in row["affected"]
        ]
        parts.append(columns([("the most affected logged cases", "change", "gain"), *cases]))
    used = {one["verdict"] for one in row["regions"]}
    words = "\n".join(f"{word:8} {said}" for word, said in WORDS.items() if word in used)
    gain = "gain     what the change in these cases alone adds to the value of an episode\n"
    return "\n\n".join([*parts, gain + words])


def _region_cells(one: dict[str, Any]) -> tuple[str, ...]:
    gain = one["gain"]
    known = ("-", "-") if gain is None else (f"{gain['mean']:+.4f}", interval(gain["within_80"]))
    notes = "".join(f"; {note}" for note in region_notes(one))
    cells = one["where"], f"{one['share']:.0%}", usual_words(one), moved(one), region_tries(one)
    return (*cells, *known, _better(one["probability"]), (one["verdict"] or "") + notes)


def region_tries(one: dict[str, Any]) -> str:
    """How many logged cases of a region were given each action."""
    return ", ".join(f"{name} {n:,}" for name, n in one["tries"].items() if n)


def usual_words(one: dict[str, Any]) -> str:
    """How the usual action of a region changes."""
    if one["usual"] is None and "alternatives" in one and one["changed"] >= _RARE:
        return f"changes for {one['changed']:.0%}"  # in several ways, or for few of them
    if one["usual"] is None:
        return "stays"
    old, new = one["usual"]
    return f"{old} → {new} in {newly_given(one):.0%}"


def newly_given(one: dict[str, Any]) -> float:
    """The share of a region that gets its new usual action instead of the old one.

    Of a protocol that follows from the frequencies beside it; the usual actions of a mixture are
    counted on cases to which the regions were not fitted.
    """
    old, new = one["usual"]
    if "alternatives" not in one:
        return float(one["usual_share"])
    more = one["proposed"].get(new, 0.0) - one["now"].get(new, 0.0)
    return float(max(0.0, min(more, one["now"].get(old, 0.0))))


def moved(one: dict[str, Any]) -> str:
    """The law of actions now and as proposed, without actions for fewer than 1 % of the cases."""
    old, new = (
        law({name: share for name, share in one[side].items() if share >= _RARE})
        for side in ("now", "proposed")
    )
    return f"{old} → {new}"


def describe(context: dict[str, str]) -> str:
    """A case by its features."""
    return ", ".join(f"{name} {value}" for name, value in context.items())


def region_notes(one: dict[str, Any]) -> list[str]:
    """Further facts about a region for the reviewer."""
    notes = [f"never tried there: {', '.join(one['untried'])}"] if one["untried"] else []
    sites = one["hangs_on_sites"]
    return notes + [f"would not hold without the data from {site}" for site in sites]


def fidelity_words(row: dict[str, Any]) -> str:
    """How well the regions describe the change."""
    changed = f"The usual action changes in {row['usual_changes']:.0%} of the newest cases."
    described = row["fidelity"]
    if described is None:
        return changed
    return f"{changed} This table describes {described:.0%} of these changes correctly."


def trial_words(row: dict[str, Any]) -> str:
    """The trial beside a protocol on features: its share, and what it gives to whom."""
    trial, lines = row["trial"], list[tuple[str, str]]()
    if not trial["proposed"]:
        return "No case enters a trial."
    said = (
        f"{trial['proposed']:.0%} of the cases enter the trial (now {trial['now']:.0%}), drawn by"
        f" lot; {trial['departs']:.0%} of these get something else than the protocol."
    )
    if guess := guess_words(never_given(row)):
        said = f"{said} {guess}"
    for one in row["regions"]:
        given = {name: share for name, share in one["alternatives"].items() if share >= _RARE}
        lines.append((one["where"], law(given) or "-"))
    return f"{said}\n\n{columns([('cases in the trial', 'instead of the protocol'), *lines])}"


def never_given(row: Mapping[str, Any]) -> list[str]:
    """The actions of a trial that no logged case of any kind received."""
    found = dict[str, int]()
    for one in row.get("regions", []):
        for name in one["alternatives"]:
            found[name] = found.get(name, 0) + sum(r["tries"][name] for r in row["regions"])
    return [name for name, tries in found.items() if not tries]


def guess_words(names: Sequence[str]) -> str:
    """The warning that a cost concerns actions nobody was ever given; empty if there are none."""
    return f"A guess: nothing is known of {', '.join(names)} yet." if names else ""


def _side_cells(side: dict[str, Any]) -> tuple[str, str]:
    """The actions of one side, and their expected reward."""
    expected = side["estimate"]
    return law(side["law"]) or "-", "-" if expected is None else f"{expected:.3f}"


def reports(view: ProposalView) -> str:
    """How many reports are open, and how many were declared missing."""
    found = f"{counted(view.unsettled, 'report', 'is', 'are')} open"
    if view.missing:
        found += f", {view.missing:,} declared missing and not learned from"
    return found


# ---- proposals of the newest rule ----------------------------------------------------------------

WORTHS = {
    "protocol": "the new protocol against the present one, per {} outside of the trial",
    "trial": "the trial against the new protocol, per {} inside of it",
    "change": "everything together against the present, per {}",
    "against_initial": "everything together against the policy at the beginning, per {}",
}


def worth_lines(worth: dict[str, Any] | None, case: str = "episode") -> list[tuple[str, ...]]:
    """The worth of a proposal, a line per comparison; case: what the run calls an episode."""
    if worth is None:
        return []
    return [
        (
            said.format(case),
            f"{worth[name]['mean']:+.4f}",
            *map(interval, _ends(worth[name])),
            _sure(worth[name]),
        )
        for name, said in WORTHS.items()
        if name in worth
    ]


def _ends(gain: dict[str, Any]) -> tuple[list[float], list[float]]:
    return gain["within_80"], gain["within_95"]


def _sure(gain: dict[str, Any]) -> str:
    return percent(gain["better"])


def interval(ends: Sequence[float]) -> str:
    """An interval as text."""
    return f"{ends[0]:+.4f} to {ends[1]:+.4f}"


def tries(row: dict[str, Any]) -> str:
    """How often each action that a row plays or would play was tried there."""
    return ", ".join(f"{name} {found['here']:,}" for name, found in row["tries"].items())


def false_share(view: ProposalView) -> str:
    """The posterior's estimate of false IMPROVE rows; empty if there are no such rows."""
    if view.expected_false is None:
        return ""
    return f"The learner's model expects {view.expected_false:.1%} of the IMPROVE rows to be false."


def _worth_table(view: ProposalView) -> str:
    """The worth of a proposal, its rows by their gains, and what the words mean."""
    parts = list[str]()
    if view.worth is not None:
        head = ("by the learner's model", "mean", "80 % interval", "95 % interval", "better")
        parts.append(columns([head, *worth_lines(view.worth)]))
    names = ("step", "state", "now", "proposed", "tries", "gain", "80 % interval", "better", "word")
    parts.append(columns([names, *(_worth_cells(row) for row in view.rows)]))
    if said := false_share(view):
        parts.append(said)
    used = {row["verdict"] for row in view.rows}
    words = "\n".join(f"{word:8} {said}" for word, said in WORDS.items() if word in used)
    gain = "gain     what this row alone adds to the value of an episode, by the learner's model\n"
    return "\n\n".join([*parts, gain + BETTER.format("") + words])


def _worth_cells(row: dict[str, Any]) -> tuple[str, ...]:
    gain = row["gain"]
    known = ("-", "-") if gain is None else (f"{gain['mean']:+.4f}", interval(gain["within_80"]))
    place = row["step_label"], row["state_label"], law(row["now"]["law"])
    notes = "".join(f"; {note}" for note in row_notes(row))
    word = row["verdict"] + notes
    return (
        *place,
        law(row["proposed"]["law"]),
        tries(row),
        *known,
        _better(row["probability"]),
        word,
    )


def row_notes(row: dict[str, Any]) -> list[str]:
    """Further facts about a row for the reviewer."""
    notes = [f"never tried: {', '.join(row['untried'])}"] if row["untried"] else []
    if row["needed_with"]:
        notes.append(f"pays only with {' and '.join(row['needed_with'])}")
    sites = row["hangs_on_sites"]
    notes += [f"without the data from {site}, the data would not show this" for site in sites]
    return notes + ["open reports could turn it"] * row["hangs_on_unsettled"]


def percent(probability: float) -> str:
    """A probability in whole percent, rounded down, so that 94.9 % does not read as 95 %."""
    whole = math.floor(100 * probability + 1e-9)
    return {0: "< 1 %", 100: "> 99 %"}.get(whole, f"{whole} %")


def untried(row: dict[str, Any]) -> str:
    """The proposed actions of a row that were never tried there; empty if all were."""
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
    """The message for a proposal requested while another one was pending."""
    return (
        f"{proposal_table(made)}\n\nIt replaces the proposal {before.hash[:SHOWN]}, on which nobody"
        " had decided; the budget counts the two as one."
    )


def withdrawn(nothing: str, before: ProposalView) -> str:
    """Why nothing is proposed any more although a proposal was pending."""
    return (
        f"{nothing}\nThe proposal {before.hash[:SHOWN]}, on which nobody had decided, is withdrawn;"
        " the next one takes nothing from the budget."
    )


def decided(event: Event, before: Status, after: Status, left: ProposalView | None) -> str:
    """The result of a decision in one line."""
    waits = "nothing waits"
    if left is not None:
        rows = counted(len(left.rows), "row", "waits", "wait")
        waits = f"{'another one waits' if left.is_whole else rows} as {left.hash[:SHOWN]}"
    is_new = after.version > before.version
    deployed = f"version {after.version:,} {'is deployed now' if is_new else 'stays deployed'}"
    return f"{_said(event.kind, event.payload)}, {waits}; {deployed}"


def _said(kind: str, payload: dict[str, Any]) -> str:
    """The content of a decision."""
    rows, forever = payload["rows"], payload.get("forever", False)
    if kind == "approved":
        part = f" of the {payload['part']}" if "part" in payload else ""
        capped = f", {payload['share']:.3g} of the cases in the trial" if "share" in payload else ""
        return f"{decided_on(rows)}{part} approved{capped}"
    if rows == [list(WHOLE)]:
        return "the new actions are forbidden" if forever else "the deployed policy stays for now"
    return f"{counted(len(rows), 'row', 'stays', 'stay')} {'for ever' if forever else 'for now'}"
