"""The ledger as the pages show it, in words and numbers for people."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from lowswitch.ledger import Ledger
from lowswitch.ledger.events import KINDS, Event, Kind, makes_version
from lowswitch.ledger.evidence import width
from lowswitch.ledger.responses import Chart, Status
from lowswitch.ledger.store import StoredTicket
from lowswitch.ledger.table_terms import TableTerms
from lowswitch.ledger.terms import WORDS, Terms
from lowswitch.ledger.text import law
from lowswitch.service import figures, phrases
from lowswitch.service.figures import Interval
from lowswitch.service.journal import Journal, Mark, Returns
from lowswitch.show.text import counted, plural

PER_PAGE = 100  # states on a page of the map
EVENTS = 50  # on a page of the audit
DIFFERENCES = 500  # rows on a page that compares two versions
MOST_SPANS = 60  # versions in a figure
MOST_FORBIDDEN = 200  # actions that are listed
MOST_VERSIONS = 200  # on the timeline
VIEWS = {
    "action": "Protocol",
    "visits": "How often it was given",
    "width": "Uncertainty",
    "changes": "Changes so far",
}
ENDINGS = {  # of an episode that was reported
    "whole": "it was seen to its end",
    "truncated": "it was not seen to its end",
    "terminated": "it ended early for good",
}
_NO_REPORT = "no report came"
_USUAL = (ENDINGS["whole"], _NO_REPORT)  # what goes without saying in the audit
LEGENDS = {  # what the numbers of a view are
    "visits": "How many of the {told:,} {episodes} learned so far were given the {action} of the"
    " protocol in this place. {more}",
    "width": "Half of the 95 % interval of what to expect of the {action} of the protocol, in"
    " {reward} from this {step} on. It uses only {episodes} treated in this very place. The larger"
    " and darker, the less is known.",
    "changes": "How often the protocol changed in this place since version 1, rollbacks included.",
}


def clock(time: str) -> str:
    """A time in readable form; the server uses UTC."""
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M UTC")


def codes(names: Sequence[str]) -> list[str]:
    """A short code for each action: initials if they differ, otherwise numbers."""
    found = ["".join(word[0] for word in name.split())[:2] for name in names]
    return found if len(set(found)) == len(found) else [str(i + 1) for i in range(len(names))]


# ---- words ---------------------------------------------------------------------------------------


def sentence(words: str) -> str:
    """Words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def whole_sentence(words: str) -> str:
    """Words as a sentence, with its full stop."""
    return sentence(words) + ("" if words.endswith((".", "!", "?")) else ".")


def kind_word(kind: str) -> str:
    """The pages' word for an event."""
    return KINDS[kind].word if kind in KINDS else kind


def numbers(values: Sequence[int]) -> str:
    """Several numbers, with thousands set apart."""
    return "; ".join(f"{value:,}" for value in values)


def legend(view: str, terms: Terms, told: int, waiting: int) -> str:
    """The meaning of the numbers in a view of the map; empty for the protocol itself.

    told, waiting: how many reports were learned, and how many wait behind an open one.
    """
    more = f"{more_wait(waiting)}; point at a place to see them." if waiting else ""
    words = words_of(terms)
    return LEGENDS.get(view, "").format(**words, told=told, more=more).rstrip()


def more_wait(waiting: int) -> str:
    """That more reports wait to be learned, as the beginning of a sentence."""
    wait = counted(waiting, "more report", "waits", "wait")
    return f"{wait} behind an open one and {'is' if waiting == 1 else 'are'} not counted"


def endings_of(terms: Terms) -> dict[str, str]:
    """How an episode of this run can end, in words."""
    absorbs = getattr(terms, "absorbing", terms.size("step") > 1 or None) is not None
    return {one: said for one, said in ENDINGS.items() if absorbs or one != "terminated"}


def words_of(terms: Terms) -> dict[str, str]:
    """What the run calls things, by the library's names of them: one, and several of them."""
    words = {name: terms.word(name) for name in WORDS}
    return words | {f"{name}s": plural(word) for name, word in words.items()}


# ---- the map -------------------------------------------------------------------------------------


def map_rows(
    terms: TableTerms,
    chart: Chart,
    view: str,
    states: Sequence[int],
    pending: Collection[tuple[int, int]] = (),
) -> list[dict[str, Any]]:
    """One line for each of these states, one cell for each step.

    pending: the rows of the protocol that a proposal would change.
    """
    held, signs = set(chart.held), codes(terms.labels["action"])
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
    """How often the current actions of a row were visited, summed over a mixture's members."""
    H, S = chart.changes.shape
    played = np.zeros((H, S, chart.visits.shape[2]), dtype=bool)
    for table in chart.policy:
        played[np.arange(H)[:, None], np.arange(S)[None], table] = True
    total: np.ndarray = (chart.visits * played).sum(axis=-1)
    return total


def vetoes(terms: Terms, journal: Journal) -> dict[tuple[int, int, int], Mark]:
    """The last decision that forbade an action in a row, by step, state and action."""
    found = dict[tuple[int, int, int], Mark]()
    for mark in journal.decisions():
        for h, x in mark.facts.get("rows", []) if mark.is_veto else []:
            for a in mark.facts.get("actions", range(terms.actions)):
                found[h, x, a] = mark
    return found


def forbidden(terms: TableTerms, chart: Chart, journal: Journal) -> dict[str, Any]:
    """The forbidden actions: where, since when and why, one line per veto."""
    places, by = np.argwhere(~chart.allowed).tolist(), vetoes(terms, journal)
    found = dict[tuple[int, int], list[tuple[int, int]]]()  # by action and event
    for h, x, a in sorted(places[:MOST_FORBIDDEN], key=lambda place: (place[2], place[1])):
        veto = by.get((h, x, a)) if terms.allowed[h, x, a] else None
        at = veto.seq if veto else int(terms.allowed[h, x, a])  # the first event is no veto
        found.setdefault((a, at), []).append((h, x))
    marks = {mark.seq: mark for mark in by.values()}
    since = {0: "the start of the run"}
    since |= {at: f"{mark.time[:10]}, {who(mark)}" for at, mark in marks.items()}
    lines = [
        {
            "where": phrases.places_words(terms, rows),
            "action": terms.labels["action"][a],
            "since": since.get(at, ""),
            "why": marks[at].facts.get("reason", "") if at in marks else "",
            "liftable": [f"{h}:{x}" for h, x in rows if terms.allowed[h, x, a]],
        }
        for (a, at), rows in found.items()
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
    said = f"{names}; given {visits:,} times"
    if wait := int(sum(chart.waiting[h, x, a] for a in actions)):
        said += f", and {wait:,} times in reports that wait"
    cell = {"forbidden": gone, "trial": bool(tried), "says": said}
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
    """A count in at most four characters."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def _shade(count: int, most: int) -> int:
    """0 for none, and 1 to 5 by its share on a logarithmic scale."""
    return 0 if count == 0 else 1 + round(4 * float(np.log1p(count) / np.log1p(most)))


# ---- the timeline --------------------------------------------------------------------------------


class Laws(NamedTuple):
    """Every version [members, H, S], and whether the first table of each is a protocol.

    With features a version is a LinearPolicy, and has no rows.
    """

    tables: list[Any]
    protocol: bool

    @property
    def has_rows(self) -> bool:
        """Whether the versions are tables."""
        return isinstance(self.tables[-1], np.ndarray)

    def count(self, version: int) -> int:
        """How many rows a version changed; a policy on features counts as one."""
        if self.has_rows or not 1 < version <= len(self.tables):
            return len(self.changes(version))
        before, after = (one.protocol or one for one in self.tables[version - 2 : version])
        return int(before.identity != after.identity)

    def words(self, version: int) -> str:
        """The same in words; empty if nothing changed."""
        n = self.count(version)
        if n and not self.has_rows:
            return "another protocol" if self.protocol else "another policy"
        return counted(n, "change") if n else ""

    def changes(self, version: int) -> list[tuple[int, int]]:
        """The changed rows of a version, as a person counts them."""
        if not self.has_rows or not 1 < version <= len(self.tables):
            return []
        before, after = self.tables[version - 2 : version]
        found = np.argwhere(phrases.changed(before, after, protocol=self.protocol)).tolist()
        return [(h, x) for h, x in found]

    def in_trial(self, version: int) -> int:
        """In how many places a version changed what the trial gives, and not the protocol."""
        if not (self.protocol and self.has_rows and 1 < version <= len(self.tables)):
            return 0
        return phrases.trial_places(*self.tables[version - 2 : version])

    def lines(self, terms: Terms, version: int) -> list[str]:
        """The changes of a version, to the protocol and to the trial."""
        if not 1 < version <= len(self.tables):
            return []
        before, after = self.tables[version - 2 : version]
        if self.has_rows:
            return phrases.law_lines(terms, before, after, protocol=self.protocol)
        return phrases.trial_lines(terms, before, after) if self.protocol else []

    def share(self, version: int) -> float | None:
        """The share of cases in the trial of a version; None if there is no protocol."""
        return phrases.share_of(self.tables[version - 1]) if self.protocol else None


def laws_of(ledger: Ledger) -> Laws:
    """Every version of a ledger."""
    _, protocol = ledger.deployed()
    return Laws([ledger.policy_of(n + 1) for n in range(ledger.version)], protocol)


def version_lines(terms: Terms, journal: Journal, laws: Laws) -> list[dict[str, Any]]:
    """One line for each of the last versions: who made it, why, and its result."""
    found = list[dict[str, Any]]()
    marks = journal.versions()[: len(laws.tables)]
    for i in range(max(0, len(marks) - MOST_VERSIONS), len(marks)):
        mark, number = marks[i], i + 1
        returns = journal.returns.get(number) or Returns()
        found.append(
            {
                "number": number,
                "mark": mark,
                "said": decision_words(terms, mark.kind, mark.facts, laws),
                "reason": mark.facts.get("reason", ""),
                "agreed": _agreed(mark),
                "changed": laws.count(number),
                "in_trial": laws.in_trial(number),
                "share": laws.share(number),
                "episodes": returns.count,
                "interval": Interval(f"version {number}", returns.mean, returns.half_width)
                if returns.count > 1
                else None,
            }
        )
    return found


def forecasts(terms: Terms, issued: int) -> list[figures.Planned]:
    """The plan's expectation for the cases so far, from each of its dates to the next."""
    lines, found = terms.forecast, list[figures.Planned]()
    for i, one in enumerate(lines):
        last = min(issued, lines[i + 1].after if i + 1 < len(lines) else issued)
        if one.after < last:
            found.append(figures.Planned(one.after, last, one.low, one.middle, one.high))
    return found


def forecast_lines(terms: Terms, journal: Journal, issued: int) -> list[dict[str, Any]]:
    """The plan's forecast beside the average under the versions of the same time."""
    found, spans = list[dict[str, Any]](), journal.spans(issued)
    for part in forecasts(terms, issued):
        total = Returns()
        for version, (first, last) in enumerate(spans, start=1):
            if part.first < (first + last) / 2 <= part.last and version in journal.returns:
                total = total.with_all(journal.returns[version])
        found.append(part._asdict() | {"happened": mean_words(total)})
    return found


def mean_words(returns: Returns) -> str:
    """An average with half of its 95 % interval."""
    return "-" if returns.count < 2 else f"{returns.mean:.2f} ± {returns.half_width:.2f}"


def story(terms: Terms, journal: Journal, run: Status) -> Markup:
    """The average reward under each version against the first one, with decisions and forecast."""
    spans, marks = journal.spans(run.issued), journal.versions()
    parts = list[figures.Span]()
    for version, (first, last) in enumerate(spans, start=1):
        returns = journal.returns.get(version)
        if returns is not None and returns.count > 1 and version <= len(marks):
            back = marks[version - 1].kind == "rolled_back"
            name = f"version {version}, {returns.count:,}"
            parts.append(
                figures.Span(
                    first, last, Interval(name, returns.mean, returns.half_width), back, version
                )
            )
    signs = [
        (mark.issued, KINDS[mark.kind].sign)
        for mark in journal.decisions()
        if KINDS[mark.kind].sign
    ]
    planned = forecasts(terms, run.issued)
    return figures.story(parts[-MOST_SPANS:], signs, run.issued, planned)


def site_lines(journal: Journal) -> list[dict[str, Any]]:
    """What each site reported, under the initial policy and since."""
    return [
        {
            "name": name,
            "reports": site.reports,
            "first": mean_words(site.initial),
            "later": mean_words(site.later),
            "last": site.last,
        }
        for name, site in sorted(journal.sites.items())
        if site.reports
    ]


def wishes(terms: Terms, marks: Sequence[Mark]) -> dict[int, str]:
    """The decision that each request asked for, by its event."""
    return {mark.seq: wish_words(terms, mark) for mark in marks if mark.kind == "requested"}


def decision_lines(
    terms: Terms, marks: list[Mark], laws: Laws, others: Sequence[Mark] = ()
) -> list[dict[str, Any]]:
    """The decisions, newest first.

    others: all marks, to look up requests and agreements.
    """
    asked = wishes(terms, others)
    reasons = {
        (one.facts["motion"], one.actor): one.facts["reason"]
        for one in others
        if one.kind == "seconded"
    }
    return [
        {
            "mark": mark,
            "said": _declined_words(mark, others, asked)
            if mark.kind == "declined"
            else decision_words(terms, mark.kind, mark.facts, laws),
            "rows": _changed_by(terms, mark, laws),
            "agreed": [
                f"{name} ({reason})"
                if (reason := reasons.get((mark.facts.get("motion"), name)))
                else name
                for name in _agreed(mark)
            ],
        }
        for mark in reversed(marks)
    ]


def _declined_words(mark: Mark, others: Sequence[Mark], asked: dict[int, str]) -> str:
    """That somebody turned a request down, or withdrew her own."""
    number = mark.facts["motion"]
    own = any((one.seq, one.actor) == (number, mark.actor) for one in others)
    did = "withdrew the request" if own else "turned down a request"
    return f"{did}: {asked.get(number, '')}"


def _changed_by(terms: Terms, mark: Mark, laws: Laws) -> list[str]:
    """The changes that a decision made, in lines, or the places it is about."""
    if makes_version(mark.kind, mark.facts):
        changed = laws.lines(terms, mark.facts["version"])
        if mark.kind != "vetoed":
            return changed
        return [f"forbidden for {phrases.places_words(terms, mark.facts['rows'])}", *changed]
    rows = people_rows(mark.facts, protocol=laws.protocol)
    found = phrases.places_list(terms, rows)
    return found + ["the proposed trial"] * (len(rows) < len(mark.facts.get("rows", [])))


def people_rows(facts: dict[str, Any], *, protocol: bool) -> list[list[int]]:
    """The rows of a decision that change the protocol, if there is one."""
    rows: list[list[int]] = facts.get("rows", [])
    return [row for row in rows if not (protocol and row in facts.get("in_trial", []))]


def who(mark: Mark, me: str = "") -> str:
    """Everybody who made a decision; me: the reader, who is called you."""
    return phrases.several([name if name != me else "you" for name in (mark.actor, *_agreed(mark))])


def _agreed(mark: Mark) -> list[str]:
    """The other reviewers who agreed to a decision."""
    return [name for name in mark.facts.get("confirmed", []) if name != mark.actor]


def decision_words(terms: Terms, kind: str, facts: dict[str, Any], laws: Laws | None = None) -> str:
    """A decision in words, with the actions it names and the changes it made."""
    names = terms.labels["action"]
    named = phrases.several([names[a] for a in facts["actions"]]) if facts.get("actions") else ""
    if kind == "rejected":
        if facts.get("forever"):
            return f"forbade {named or 'the new ' + terms.word('action') + 's'}"
        visits = facts.get("visits")
        return "postponed" if visits is None else f"postponed for {visits:,} visits"
    if kind == "approved":
        return _approval_words(terms, facts, laws)
    if kind == "vetoed":
        instead = facts.get("instead")
        given = "" if instead is None else f" and replaced it by {names[instead]}"
        return f"forbade {named}{given if 'version' in facts else ''}"
    if kind == "lifted":
        return f"allowed {named} again"
    if kind == "rolled_back":
        kept = facts.get("kept", [])
        return f"rolled back to version {facts.get('to')}{_except(terms, kept)}"
    if kind == "capped":
        ended = facts["share"] == 0
        return "ended the trial" if ended else f"capped the trial at {100 * facts['share']:.0f} %"
    if kind == "met" and facts.get("held"):
        held = counted(facts["holds"], "held place") if "holds" in facts else "held places"
        return f"asked for a proposal also for {held}"
    if kind == "quorum":
        return f"set the number of reviewers to {facts['quorum']}"
    return KINDS[kind].verb


def _except(terms: Terms, kept: Sequence[Sequence[int]]) -> str:
    """The places that a rollback left as they were, because a veto stands there."""
    return f", except for {phrases.few_places_words(terms, kept)}" if kept else ""


def wish_words(terms: Terms, mark: Mark) -> str:
    """A requested decision, as a verb with its object."""
    kind, decision = mark.facts["kind"], mark.facts["decision"]
    rows, named = decision.get("rows", []), decision.get("actions", [])
    names = phrases.several([terms.labels["action"][a] for a in named]) if named else ""
    where = phrases.places_words(terms, rows)
    if kind == "approved":
        return _wished_approval(terms, mark.facts)
    if kind == "lifted":
        return f"Allow {names} again for {where}"
    if kind == "rolled_back":
        return (
            f"Roll back to version {decision.get('to')}{_except(terms, decision.get('kept', []))}"
        )
    if kind == "thawed":
        return "Resume the run"
    if kind == "quorum":
        return f"Let {counted(decision['quorum'], 'reviewer')} decide"
    said = f"Forbid {names or 'new ' + terms.word('action') + 's'} for {where}"
    instead = decision.get("instead")
    given = "" if instead is None else terms.labels["action"][instead]
    return f"{said}, and give {given} instead" if given else said


def _wished_approval(terms: Terms, asked: dict[str, Any]) -> str:
    """A requested approval: of which part, and with which limit on the trial."""
    decision = asked["decision"]
    part, share = decision.get("part"), decision.get("share")
    rows = [row for row in decision["rows"] if row not in asked["in_trial"]]
    changes = f"approve changes of the protocol for {phrases.places_words(terms, rows)}"
    limit = "" if share is None else f"limit the trial to at most {100 * share:.3g} %"
    limit = "end the trial" if share == 0 else limit
    if part == "trial":
        said = "" if share == 0 else "approve the trial"
    elif asked["whole"] and part is None:
        said = "approve the proposal"
    elif part is None and asked["in_trial"]:
        said = f"{changes}, with the proposed trial" if rows else "approve the proposed trial"
        if share:  # perhaps the proposed share, which limits nothing
            said += f" for at most {100 * share:.3g} % of new {plural(terms.word('episode'))}"
            limit = ""
    else:
        said = changes
    return sentence(phrases.several([one for one in (said, limit) if one]))


def _approval_words(terms: Terms, facts: dict[str, Any], laws: Laws | None) -> str:
    """The content of an approval: the number of changes, the trial with its share, or both."""
    part, version = facts.get("part"), facts.get("version", 0)
    if laws is None or not 1 < version <= len(laws.tables):
        return "approved" if part is None else f"approved the {part} alone"
    changed, share, before = laws.words(version), laws.share(version), laws.share(version - 1)
    what, fate = [changed] if changed else [], ""
    if share == 0:
        fate = "ended the trial" if before else ""
    elif share is not None and part != "protocol":
        what.append(f"a trial with {phrases.share_words(share, terms.word('episode'))}")
    elif share is not None and before is not None and share < before:
        fate = f"limited the trial to {phrases.share_words(share, terms.word('episode'))}"
    said = [f"approved {phrases.several(what)}"] if what else []
    return phrases.several([*said, *([fate] if fate else [])] or ["approved"])


def difference(terms: TableTerms, before: np.ndarray, after: np.ndarray) -> list[dict[str, Any]]:
    """The rows in which two versions differ."""
    found = []
    for h, x in np.argwhere((before != after).any(axis=0)).tolist():
        names = terms.labels["action"]
        old, new = (
            law(phrases.shares(names, policies[:, h, x].tolist())) for policies in (before, after)
        )
        if old == new:  # other members of the trial play the same
            continue
        steps, states = terms.labels["step"], terms.labels["state"]
        found.append({"step": steps[h], "state": states[x], "old": old, "new": new, "h": h, "x": x})
    return found


# ---- the audit -----------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """A search for events: by person, from a day, until a day."""

    person: str
    since: str
    until: str

    def of(
        self, read: Callable[[int, int | None], list[Event]], before: int | None
    ) -> tuple[list[Event], int | None]:
        """The newest matching events, at most one page, and the event before which to go on.

        read: a page of events before a number. None: there are no earlier ones.
        """
        found, size = list[Event](), _PIECE if any(self) else EVENTS
        for _ in range(_MOST_PIECES):
            some = read(size, before)
            found += [one for one in some if self.fits(one)]
            if len(found) >= EVENTS:
                return found[:EVENTS], found[EVENTS - 1].seq
            if len(some) < size or (self.since and some[-1].time < self.since):
                return found, None
            before = some[-1].seq
        return found, before

    def fits(self, event: Event) -> bool:
        """Whether an event is of this person and of these days."""
        day = event.time[:10]
        is_person = self.person.lower() in event.actor.lower()
        return is_person and self.since <= day and (not self.until or day <= self.until)


_PIECE, _MOST_PIECES = 500, 40  # events that are looked through at once, and how often


DECISIONS = "decisions"  # what the audit calls all events by which people decide
ACCESS = "access"  # and all events of the chain of access


def kinds_of(kind: str) -> list[str | None]:
    """The kinds of events that a filter lets through; None lets all through."""
    if kind != DECISIONS:
        return [kind or None]
    return [name for name, one in KINDS.items() if one.is_decision or one.is_request]


def filter_words(asked: dict[str, str]) -> list[str]:
    """The filter of the audit in words, for a printed page."""
    kind = asked.get("kind", "")
    names = {"person": "by {}", "search": "containing “{}”", "since": "from {}", "until": "to {}"}
    groups = {DECISIONS: "decisions and requests", ACCESS: "access"}
    said = [groups.get(kind) or KINDS[kind].word] if kind else []
    said += [words.format(asked[name]) for name, words in names.items() if asked.get(name)]
    return [*said, f"before event {int(asked['before']):,}"] if asked.get("before") else said


def newest_of(found: Sequence[Sequence[Event]], most: int) -> list[Event]:
    """The newest events of several lists."""
    merged = sorted(itertools.chain(*found), key=lambda event: event.seq, reverse=True)
    return merged[:most]


def event_word(event: Event, who_asked: dict[int, str]) -> str:
    """What the audit calls an event; who_asked: for each request, by its event."""
    if event.kind != "declined":
        return kind_word(event.kind)
    own = who_asked.get(event.payload["motion"]) == event.actor
    return "request withdrawn" if own else "request turned down"


def event_words(
    terms: Terms,
    laws: Laws,
    event: Event,
    in_trial: Sequence[Sequence[int]] = (),
    wished: dict[int, str] | None = None,
    about: tuple[dict[int, StoredTicket], dict[int, Event]] = ({}, {}),
) -> list[str]:
    """The content of an event in labels, with old and new values.

    in_trial: the rows of the event in which only a trial would have changed. wished: see `wishes`.
    about: see `Reading.about`.
    """
    payload = event.payload
    if KINDS.get(event.kind, Kind()).of_ticket and event.kind != "asked":
        known, corrected = about
        ticket, before = known.get(payload["number"]), corrected.get(payload.get("instead", 0))
        name = f": {ticket.site}, {ticket.request}" if ticket else ""
        said = [f"{terms.word('episode')} {payload['number']:,}{name}"]
        if "states" in payload:
            old = None if before is None else _report_facts(terms, before.payload)
            said += _report_words(_report_facts(terms, payload), old)
        return [*said, f"reason: {payload['reason']}"] if "reason" in payload else said
    found = list[str]()
    version = payload.get("version", 0)
    is_decision = KINDS.get(event.kind, Kind()).is_decision and event.kind != "declined"
    if is_decision or payload.get("held"):
        found.append(decision_words(terms, event.kind, payload, laws))
    if makes_version(event.kind, payload) and 1 < version <= len(laws.tables):
        lines, changed = laws.lines(terms, version), laws.words(version)
        what = f"made version {version}"
        found.append(f"{what}: {changed}" if changed else what)
        found += [*lines[:12], *[f"and {len(lines) - 12:,} more lines"] * (len(lines) > 12)]
    elif payload.get("rows") and "told" not in payload:
        rows = people_rows(payload | {"in_trial": list(in_trial)}, protocol=laws.protocol)
        places = phrases.places_list(terms, rows)
        more = [f"and {len(places) - 12:,} more"] * (len(places) > 12)
        trial = ["the proposed trial"] * (len(rows) < len(payload["rows"]))
        found.append("; ".join([*places[:12], *more, *trial]))
    if event.kind == "vetoed" and "version" in payload:
        found.append(f"forbidden for {phrases.places_words(terms, payload['rows'])}")
    if event.kind == "seconded" or event.kind == "declined":
        found.append(f"request {payload['motion']}: {(wished or {}).get(payload['motion'], '')}")
    if event.kind == "proposed":
        found.append(_proposed_words(payload, laws))
    if event.kind == "requested":
        asked = (wished or {}).get(event.seq, "")
        found += [f"asked for this: {asked}", f"reason: {payload['decision']['reason']}"]
    if event.kind == "asked":
        found.append(
            f"{terms.word('episode')} {payload['number']:,}: {payload['request']},"
            f" version {version}"
        )
    if "reason" in payload:
        found.append(f"reason: {payload['reason']}")
    return found


def _report_facts(terms: Terms, payload: dict[str, Any]) -> dict[str, str]:
    """A recorded report in labels, each part by its name."""
    names, chances = terms.labels["action"], payload.get("propensities") or ()
    states, ended = payload["states"], payload["ended"]
    return {
        plural(terms.word("state")): terms.states_shown(states) if states else "",
        plural(terms.word("action")): ", ".join(names[i] for i in payload["actions"]),
        "propensities": ", ".join(f"{p:.4g}" for p in chances),
        terms.word("reward"): ", ".join(f"{reward:g}" for reward in payload["rewards"]),
        "how it ended": ENDINGS.get(ended, _NO_REPORT),
    }


def _report_words(new: dict[str, str], old: dict[str, str] | None) -> list[str]:
    """The content of a report, with old and new values if it corrects another one."""
    lines = {
        name: said
        if old is None or said == old[name]
        else f"{old[name] or 'nothing'} → {said or 'nothing'}"
        for name, said in new.items()
    }
    return [f"{name}: {said}" for name, said in lines.items() if said and said not in _USUAL]


def _proposed_words(payload: dict[str, Any], laws: Laws) -> str:
    """How much a proposal would change."""
    rows = payload["rows"]
    if "steps" in rows[0]:
        return f"proposed another policy for version {payload['version'] + 1}"
    n = sum(not laws.protocol or row["from"][0] != row["to"][0] for row in rows)
    what = [counted(n, "change")] if n else []
    if laws.protocol and n < len(rows):
        after = laws.tables[payload["version"] - 1].copy()
        for row in rows:
            after[:, row["step"], row["state"]] = row["to"]
        what.append("a trial" if phrases.share_of(after) else "the end of the trial")
    return f"proposed {phrases.several(what)} for version {payload['version'] + 1}"
