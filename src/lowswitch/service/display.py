"""What the pages show of the ledger, in words and numbers for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import KINDS, LEDGER, Event, makes_version
from lowswitch.ledger.evidence import BY_WORTH, width
from lowswitch.ledger.responses import Chart, Status
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import WORDS, law, tries, worth_lines
from lowswitch.policy.tables import departing
from lowswitch.service import figures, sheets
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Journal, Mark, Returns
from lowswitch.service.sheets import Known
from lowswitch.show.text import counted

PER_PAGE = 100  # states on a page of the map
ROWS_PER_PAGE = 120  # changes on a page of a proposal
EVENTS = 50  # on a page of the audit
MOST_SPANS = 60  # versions in a figure
MOST_FORBIDDEN = 200  # actions that are listed
SMALL = 0.1  # of the largest gain: smaller changes are folded away
MOST_ALTERNATIVES = 60  # of a trial that are listed
MOST_VERSIONS = 200  # on the timeline
VIEWS = {
    "action": "the protocol",
    "visits": "visits of the protocol",
    "width": "uncertainty (width of the interval)",
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


def proposal_facts(
    known: Known, view: ProposalView, asked: dict[str, str], kept: list[str], page: int
) -> dict[str, Any]:
    """What the page of a proposal shows: the whole, the changes, and the trial."""
    rows = [row for row in view.rows if sheets.is_of_protocol(known, row)]
    if view.rule != BY_WORTH:  # newer ones come by what they gain
        rows.sort(key=lambda row: (row["verdict"] != "IMPROVE", -row["reach"]))
    most = max((row["gain"]["mean"] for row in rows if row.get("gain")), default=0.0)
    select = asked.get("select", "")
    shown = [_line(known, row, most, select, kept) for row in _filtered(rows, asked)]
    pages = max(1, -(-len(shown) // ROWS_PER_PAGE))
    page = min(max(page, 1), pages)
    some = shown[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    counts = {word: sum(row["verdict"] == word for row in rows) for word in WORDS}
    trial = _trial(known, view) if known.protocol else None
    return {
        "changes": len(rows),
        "found": len(shown),
        "page": page,
        "pages": pages,
        "groups": _groups([line for line in some if not line["small"]], asked.get("group", "")),
        "small": _groups([line for line in some if line["small"]], asked.get("group", "")),
        "counts": {word: n for word, n in counts.items() if n},
        "worth": _worth_words(known),
        "details": worth_lines(view.worth, known.terms.word("episode")),
        "trial": trial,
        "options": _options(known, len(rows), counts, trial),
    }


def _filtered(rows: list[dict[str, Any]], asked: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a word, and those in which some words occur."""
    word, part = asked.get("word", ""), asked.get("search", "").lower()
    return [row for row in rows if word in ("", row["verdict"]) and part in _searched(row).lower()]


def _searched(row: dict[str, Any]) -> str:
    sides = (*row["now"]["law"], *row["proposed"]["law"])
    return " ".join((row["step_label"], row["state_label"], *sides))


def _line(
    known: Known, row: dict[str, Any], most: float, select: str, kept: list[str]
) -> dict[str, Any]:
    """One change of the protocol, with what decides where it stands on the page."""
    key, gain = f"{row['step']}:{row['state']}", row.get("gain")
    low, high = (0.0, 0.0) if gain is None else gain["within_80"]
    return sheets.change(known, row) | {
        "key": key,
        "step": row["step"],
        "state": row["state"],
        "step_label": row["step_label"],
        "state_label": row["state_label"],
        "between": "" if gain is None else f"{sheets.amount(low)} to {sheets.amount(high)}",
        "mean": 0.0 if gain is None else gain["mean"],
        "visits": f"{row['now']['visits']:,} → {row['proposed']['visits']:,}",
        "tries": tries(row) if "tries" in row else "",
        "before": row["before"][-1] if row["before"] else None,
        "ticked": key in kept or select in ("all", row["verdict"]),
        "small": gain is not None and gain["mean"] < SMALL * most,
    }


def _groups(lines: list[dict[str, Any]], by: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Changes of one state, or of one step, together; those that gain most first."""
    found = dict[str, list[dict[str, Any]]]()
    for line in lines:
        name = {"step": line["step_label"], "gain": ""}.get(by, line["state_label"])
        found.setdefault(name, []).append(line)
    return sorted(found.items(), key=lambda pair: -sum(line["mean"] for line in pair[1]))


def _worth_words(known: Known) -> dict[str, str]:
    """The gains of a proposal in sentences, by their names."""
    gains = known.worth or {}
    return {name: sheets.gain_words(gain, known.terms) for name, gain in gains.items()}


def _trial(known: Known, view: ProposalView) -> dict[str, Any] | None:
    """The trial of a proposal: its share, and what it would try where."""
    now, new = sheets.trial_shares(known, view)
    after = known.policies.copy()
    for row in view.rows:
        after[:, row["step"], row["state"]] = row["to"]
    exploring, names = after[departing(after)], known.terms.labels["action"]
    tried = [_alternatives(names, after, exploring, row) for row in view.rows]
    lines = [
        {"where": known.place(row["step"], row["state"]), "what": what, "new": row["untried"]}
        for row, what in zip(view.rows, tried, strict=True)
        if what
    ]
    lines.sort(key=lambda line: not line["new"])
    if not lines and now == new:
        return None
    return {
        "now": now,
        "new": new,
        "lines": lines[:MOST_ALTERNATIVES],
        "rows": len(lines),
        "untried": sum(bool(line["new"]) for line in lines),
        "cost": None if known.worth is None else known.worth.get("trial"),
        "amount": sheets.amount,
    }


def _alternatives(
    names: Sequence[str], after: np.ndarray, exploring: np.ndarray, row: dict[str, Any]
) -> str:
    """What the trial would play in a row in the place of the protocol, with shares of all cases."""
    h, x = row["step"], row["state"]
    others = exploring[:, h, x][exploring[:, h, x] != after[0, h, x]].tolist()
    shares = {names[a]: others.count(a) / len(after) for a in sorted(set(others))}
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def _options(
    known: Known, changes: int, counts: dict[str, int], trial: dict[str, Any] | None
) -> list[tuple[str, str]]:
    """The decisions to choose from; the page before the last one says what each would change."""
    n, action = counted(changes, "change"), known.terms.word("action")
    found = list[tuple[str, str]]()
    if trial and changes:
        found.append(("approve all", f"Approve everything: {n} and the trial"))
        found.append(("approve protocol", f"Approve {n} of the protocol; leave the trial as it is"))
    elif trial:
        found.append(("approve all", "Approve the trial"))
    else:
        found.append(("approve all", f"Approve all {n}" if changes > 1 else "Approve the change"))
    if trial and changes:
        found.append(("approve trial", "Approve the trial; leave the protocol as it is"))
    for word in ("IMPROVE", "LIKELY"):
        if 0 < counts[word] < changes:
            found.append(
                (f"approve {word}", f"Approve only {counted(counts[word], f'{word} change')}")
            )
    if changes:
        found.append(("approve selected", "Approve the selected changes"))
        found.append(("postpone selected", "Postpone the selected changes"))
    found.append(("postpone all", "Postpone everything"))
    if changes:
        found.append(("forbid selected", f"Forbid a {action} in the selected rows"))
    return found


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
    shaded = chart.changes if view == "changes" else _played_visits(chart)
    most = max(1, int(shaded.max()))
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


def forbidden(terms: TableTerms, chart: Chart, journal: Journal) -> dict[str, Any]:
    """The actions that may not be deployed, where, and since when."""
    places = np.argwhere(~chart.allowed).tolist()
    by = dict[tuple[int, int, int], Mark]()
    for mark in journal.decisions():
        is_veto = mark.kind == "vetoed" or (mark.kind == "rejected" and mark.facts.get("forever"))
        for h, x in mark.facts.get("rows", []) if is_veto else []:
            for a in mark.facts.get("actions", range(terms.actions)):
                by[h, x, a] = mark
    lines = [
        {
            "step": h,
            "state": x,
            "where": sheets.place(terms, h, x),
            "action": terms.labels["action"][a],
            "since": "the start of the run"
            if not terms.allowed[h, x, a]
            else f"{by[h, x, a].time[:10]}, {by[h, x, a].actor}"
            if (h, x, a) in by
            else "",
        }
        for h, x, a in places[:MOST_FORBIDDEN]
    ]
    return {"forbidden": lines, "forbidden_count": len(places)}


def _cell(
    terms: TableTerms, chart: Chart, view: str, h: int, x: int, signs: list[str], most: int
) -> dict[str, Any]:
    played = chart.policy[:1] if chart.protocol else chart.policy
    actions = sorted(set(played[:, h, x].tolist()))
    tried = sorted(set(chart.policy[:, h, x].tolist()) - set(actions))
    gone = int((~chart.allowed[h, x]).sum())
    visits = int(sum(chart.visits[h, x, a] for a in actions))
    names = ", ".join(terms.labels["action"][a] for a in actions)
    if tried:
        names += f"; in the trial {', '.join(terms.labels['action'][a] for a in tried)}"
    cell = {"forbidden": gone, "trial": bool(tried), "says": f"{names}; {visits:,} visits"}
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


def improving(view: ProposalView) -> int:
    """How many rows, or kinds of cases, of a proposal are called IMPROVE."""
    rows = view.rows[0].get("regions", []) if view.is_whole else view.rows
    return sum(row["verdict"] == "IMPROVE" for row in rows)


def version_lines(journal: Journal, policies: list[Any]) -> list[dict[str, Any]]:
    """A line for each of the last versions: who made it, why, and what came of it."""
    found = list[dict[str, Any]]()
    marks = journal.versions()[: len(policies)]
    for i in range(max(0, len(marks) - MOST_VERSIONS), len(marks)):
        mark = marks[i]
        returns = journal.returns.get(i + 1)
        changed = _changed(policies[i - 1], policies[i]) if i else 0
        known = returns is not None and returns.count > 0
        found.append(
            {
                "number": i + 1,
                "mark": mark,
                "said": KINDS[mark.kind].verb,
                "reason": mark.facts.get("reason", ""),
                "agreed": _agreed(mark),
                "changed": changed,
                "episodes": returns.count if known and returns is not None else 0,
                "interval": Interval(f"version {i + 1}", returns.mean, returns.half_width)
                if known and returns is not None and returns.count > 1
                else None,
                "to": mark.facts.get("to"),
            }
        )
    return found


def _changed(before: Any, after: Any) -> int:
    """In how many rows two versions differ; a policy on features counts as one."""
    if isinstance(after, np.ndarray):
        return int((before != after).any(axis=0).sum())
    return int(before.identity != after.identity)


def story(journal: Journal, run: Status) -> Markup:
    """The average reward under each version against the initial policy, with decisions."""
    spans, marks = journal.spans(run.issued), journal.versions()
    parts = list[figures.Span]()
    for version, (first, last) in enumerate(spans, start=1):
        returns = journal.returns.get(version)
        if returns is not None and returns.count > 1 and version <= len(marks):
            back = marks[version - 1].kind == "rolled_back"
            name = f"version {version}, {returns.count:,}"
            parts.append(
                figures.Span(first, last, Interval(name, returns.mean, returns.half_width), back)
            )
    ends = [(span[0], mark.time) for span, mark in zip(spans, marks, strict=False)]
    signs = [
        (_ticket_at(ends, mark.time, run.issued), KINDS[mark.kind].sign)
        for mark in journal.decisions()
        if KINDS[mark.kind].sign
    ]
    return figures.story(parts[-MOST_SPANS:], signs, run.issued)


def _ticket_at(ends: list[tuple[int, str]], time: str, issued: int) -> float:
    """About which ticket was the last one at a time, between the versions before and after it."""
    before = [first for first, made in ends if made <= time]
    after = [first for first, made in ends if made > time]
    return (before[-1] if before else 1) / 2 + (after[0] if after else issued) / 2


def site_lines(journal: Journal) -> list[dict[str, Any]]:
    """What each site reported, under the initial policy and since."""

    def said(returns: Returns) -> str:
        if returns.count < 2:
            return "-"
        return f"{returns.mean:.2f} ± {returns.half_width:.2f}"

    return [
        {
            "name": name,
            "reports": site.reports,
            "first": said(site.initial),
            "later": said(site.later),
            "last": site.last,
        }
        for name, site in sorted(journal.sites.items())
        if site.reports
    ]


def decision_lines(terms: Terms, marks: list[Mark]) -> list[dict[str, Any]]:
    """What was decided, the newest first."""
    return [
        {
            "mark": mark,
            "said": decision_words(terms, mark.kind, mark.facts),
            "rows": row_names(terms, mark.facts.get("rows", [])),
            "agreed": _agreed(mark),
        }
        for mark in reversed(marks)
    ]


def _agreed(mark: Mark) -> list[str]:
    """The other reviewers who agreed to a decision."""
    return [name for name in mark.facts.get("confirmed", []) if name != mark.actor]


def decision_words(terms: Terms, kind: str, facts: dict[str, Any]) -> str:
    """A decision in words, with the actions that it names."""
    names = terms.labels["action"]
    named = sheets.several([names[a] for a in facts["actions"]]) if facts.get("actions") else ""
    if kind == "rejected":
        if facts.get("forever"):
            return f"forbade {named or 'the new ' + terms.word('action') + 's'}"
        visits = facts.get("visits")
        return "postponed" if visits is None else f"postponed for {visits:,} visits"
    if kind == "approved":
        what = f"the {facts['part']} alone" if "part" in facts else "protocol and trial"
        return f"approved {what}" if "part" in facts or "share" in facts else "approved"
    if kind == "requested":
        return f"asked to: {decision_words(terms, facts['kind'], facts.get('decision', {}))}"
    if kind == "vetoed":
        return f"forbade {named}"
    if kind == "lifted":
        return f"allowed {named} again"
    if kind == "rolled_back":
        return f"rolled back to version {facts.get('to')}"
    if kind == "capped":
        return f"capped the trial at {100 * facts['share']:.0f} %"
    if kind == "quorum":
        return f"set the number of reviewers to {facts['quorum']}"
    return KINDS[kind].verb


def row_names(terms: Terms, rows: Any) -> list[str]:
    """Rows by their labels."""
    return [sheets.place(terms, h, x) for h, x in rows]


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


# ---- the audit -----------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """The events that somebody looks for: of a person, from a day on, until a day."""

    person: str
    since: str
    until: str

    def of(self, read: Callable[[int, int | None], list[Event]], before: int | None) -> list[Event]:
        """The newest of them, at most a page; read: so many events before a number."""
        found = list[Event]()
        for _ in range(_MOST_PIECES):
            some = read(EVENTS if not any(self) else _PIECE, before)
            found += [one for one in some if self._fits(one)]
            if len(found) >= EVENTS or not some or (self.since and some[-1].time < self.since):
                break
            before = some[-1].seq
            if not any(self):
                break
        return found[:EVENTS]

    def _fits(self, event: Event) -> bool:
        day = event.time[:10]
        is_person = self.person.lower() in event.actor.lower()
        return is_person and self.since <= day and (not self.until or day <= self.until)


_PIECE, _MOST_PIECES = 500, 40  # events that are looked through at once, and how often


def event_words(terms: Terms, policies: list[Any], event: Event) -> list[str]:
    """What an event says, in labels and with old and new values."""
    payload, labels = event.payload, terms.labels
    if "states" in payload and "rewards" in payload and event.kind != "history":
        said = [f"Ticket {payload['number']:,}"]
        if payload["states"]:
            said.append(f"{terms.word('state')}s: {terms.states_shown(payload['states'])}")
        if payload["actions"]:
            names = ", ".join(labels["action"][i] for i in payload["actions"])
            said.append(f"{terms.word('action')}s: {names}")
        if "propensities" in payload:
            said.append(f"propensities: {', '.join(f'{p:.4g}' for p in payload['propensities'])}")
        paid = ", ".join(f"{reward:g}" for reward in payload["rewards"])
        return [*said, f"rewards: {paid}"] if paid else said
    found = list[str]()
    version = payload.get("version", 0)
    if makes_version(event.kind, payload) and 1 < version <= len(policies):
        pair = policies[version - 2], policies[version - 1]
        has_rows = isinstance(pair[1], np.ndarray)
        rows = difference(terms, *pair) if has_rows else []
        changed = f"{counted(len(rows), 'row')} changed" if has_rows else "another policy"
        found.append(f"version {version}, {changed}")
        found += [
            f"{row['state']}, {row['step']}: {row['old']} → {row['new']}" for row in rows[:12]
        ]
        if len(rows) > 12:
            found.append(f"and {len(rows) - 12:,} more")
    elif payload.get("rows") and "told" not in payload:
        found.append("; ".join(row_names(terms, payload["rows"])[:12]))
    if KINDS.get(event.kind) and KINDS[event.kind].is_decision:
        found.insert(0, decision_words(terms, event.kind, payload))
    if event.kind == "proposed":
        whole = "steps" in payload["rows"][0]
        what = "a policy" if whole else counted(len(payload["rows"]), "row")
        found.append(f"{what} for version {version}")
    if event.kind == "asked":
        found.append(f"ticket {payload['number']:,} for {payload['request']}, version {version}")
    if "reason" in payload:
        found.append(f"reason: {payload['reason']}")
    return found
