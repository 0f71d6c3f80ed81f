"""What vetoes, rollbacks and other decisions beside a proposal mean, in the words of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowswitch.learners.trials import capped_share
from lowswitch.ledger.text import percent
from lowswitch.service import effects, holds, phrases, precedents
from lowswitch.service.effects import Known, changed_rows, law_of
from lowswitch.service.phrases import several, share_of
from lowswitch.service.sheets import (
    MOST_LISTED,
    Sheet,
    change,
    consent_to,
    consent_to_kinds,
    enter_words,
    expected_lines,
    fidelity_lines,
    first_given,
    kinds_changed,
    kinds_in_trial,
    moving_kinds,
    trial_of,
    untried_warning,
    warnings_of,
)
from lowswitch.show.text import counted

_EMPTY = ("gain", "these", "between", "sure", "given", "few", "note", "verdict", "turns")
_BLANK = dict.fromkeys(_EMPTY, "")

# ---- vetoes --------------------------------------------------------------------------------------


def _named(known: Known, decision: dict[str, Any]) -> tuple[str, str, str]:
    """The actions of a veto, in few words if possible, and in full."""
    names = several([known.terms.labels["action"][a] for a in decision["actions"]])
    rows, words = decision["rows"], phrases.places_words(known.terms, decision["rows"])
    few = len(phrases.places_list(known.terms, rows)) < 3
    return names, words if few else f"{len(rows)} places", words


def _either(known: Known, decision: dict[str, Any]) -> tuple[str, str]:
    """The actions of a veto after "no patient is given", and the word for them."""
    names = [known.terms.labels["action"][a] for a in decision["actions"]]
    return several(names, "or"), "It" if len(names) == 1 else "They"


def vetoed(known: Known, decision: dict[str, Any]) -> Sheet:
    """Actions that are forbidden in rows."""
    names, where, all_of_them = _named(known, decision)
    if not known.has_rows:
        return _whole_vetoed(known, decision, names, where)
    either, it = _either(known, decision)
    lines = [
        f"No new {known.case} is given {either} for: {all_of_them}. {it} cannot be proposed there."
    ]
    after = law_of(known, "vetoed", decision)
    changes, rows = _replacements(known, after)
    lines += _freed_lines(known, after, {(h, x) for h, x, _ in changed_rows(known, after)})
    if changes:
        lines.append(
            f"{either} is given there now. Version {known.run.version + 1} replaces it at once, as"
            " listed below."
        )
        lines += expected_lines(known)
    lines += _veto_lines(known)
    title = f"Forbid {names} for {where}"
    if changes:
        title += f", and give {several(sorted({one['new'] for one in changes}))} instead"
    return Sheet(
        f"{title}?",
        title,
        lines,
        changes[:MOST_LISTED],
        untried_warning(known, rows),
        "/map",
        "stop",
        consent=consent_to(known, rows),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )


def _veto_lines(known: Known) -> list[str]:
    """The later effects of a veto."""
    again = (
        "The pending proposal is made again without that, and perhaps with other changes. That uses"
        " up none of the proposals left."
    )
    return [
        *([again] if known.view is not None else []),
        "A later decision, with a reason, can lift this veto.",
    ]


def _whole_vetoed(known: Known, decision: dict[str, Any], names: str, where: str) -> Sheet:
    """Actions that no policy on features may play any more."""
    either, it = _either(known, decision)
    lines = [f"No new {known.case} is given {either}. {it} cannot be proposed."]
    title = f"Forbid {names} for {where}"
    sheet = Sheet(f"{title}?", title, lines, back="/map", css="stop")
    if not known.policies.allowed[:, decision["actions"]].any():
        return sheet._replace(lines=[*lines, *_veto_lines(known)])
    now = known.run.version
    lines.append(
        f"Version {now + 1} replaces version {now} at once. It gives its next best"
        f" {known.terms.word('action')} where it gives {names} now."
    )
    return _with_kinds(known, sheet, _veto_lines(known))


def _replacements(known: Known, after: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows whose protocol changes to another law: in words, and as facts."""
    names, changes, rows = known.terms.labels["action"], list[dict[str, Any]](), []
    for h, x, a in changed_rows(known, after):
        row = known.others.get((h, x))
        rows += [row] if row is not None else []
        sides_of = {"old": names[known.policies[0, h, x]], "new": names[a]}
        blank = {"where": known.place(h, x)} | sides_of | _BLANK
        changes.append(blank if row is None else change(known, row))
    return changes, rows


def _freed_lines(known: Known, after: Any, changed: set[tuple[int, int]]) -> list[str]:
    """What happens to trial cases that received a forbidden action, and what the trial keeps."""
    found, names = dict[int, set[tuple[int, int]]](), known.terms.labels["action"]
    for h, x, _ in effects.stopped(known.policies, after):
        if (h, x) not in changed:
            found.setdefault(int(after[0, h, x]), set()).add((h, x))
    lines = [
        f"New {known.cases} in the trial get {names[a]} instead, as in the protocol, for"
        f" {phrases.places_words(known.terms, sorted(rows))}."
        for a, rows in sorted(found.items())
    ]
    places = changed.union(*found.values())
    kept = {one for one in phrases.given_in_trial(after) if one[:2] in places}
    if kept:
        lines.append(
            f"In these places the trial still gives {phrases.actions_words(known.terms, kept)}."
            " Elsewhere it goes on as it is."
        )
    return lines


def lifted(known: Known, decision: dict[str, Any]) -> Sheet:
    """A lifted veto."""
    names, where, all_of_them = _named(known, decision)
    lines = [
        f"The learner may propose {names} again for: {all_of_them}.",
        f"The {known.terms.word('action')} given there now stays; lifting a veto only lets the"
        " learner propose again.",
    ]
    ends = dict[str, list[tuple[int, int]]]()
    for h, x in decision["rows"]:
        if (hold := known.holds.get((h, x))) is not None:
            ends.setdefault(holds.end_words(known, hold), []).append((h, x))
    lines += [
        f"Held back, so that nothing is proposed there {end}:"
        f" {phrases.places_words(known.terms, rows)}."
        for end, rows in ends.items()
    ]
    if known.view is not None:
        lines.append(
            "The pending proposal stays as it is, and was made without this. Ask for another"
            " proposal afterwards to have it considered; that uses up none of the proposals left."
        )
    title = f"Allow {names} again for {where}"
    return Sheet(f"{title}?", title, lines, (), (), "/map")


# ---- what operators ask for ----------------------------------------------------------------------


def rolled_back(known: Known, decision: dict[str, Any]) -> Sheet:
    """An earlier version that is deployed again."""
    to, now = decision["to"], known.run.version
    learned, kept = "Nothing that was learned is lost.", decision.get("kept", [])
    but = f", except in {counted(len(kept), 'place')}" if kept else ""
    lines = [
        f"Version {now + 1} will be deployed and do what version {to} did{but}. It replaces version"
        f" {now}.",
        *_kept_lines(known, to, kept),
        *precedents.allowed_since(known.terms, known.precedents, to),
        *precedents.undone(known.terms, known.precedents, to),
        learned,
    ]
    if known.view is not None:
        lines.append(
            f"The pending proposal is withdrawn. {_proposed_elsewhere(known)} The next proposal"
            " uses up none of the proposals left."
        )
    changes, rows, begins = list[dict[str, Any]](), list[dict[str, Any]](), False
    if known.earlier is not None and known.has_rows:
        changes, rows = _replacements(known, known.earlier)
        changed = f"{counted(len(changes), 'change')} of the protocol, as listed below."
        lines[1:1] = (
            [changed, *expected_lines(known)] if changes else ["The protocol does not change."]
        )
    if known.earlier is not None:
        share = share_of(known.earlier)
        if known.protocol:
            enter = phrases.share_words(share, known.case)
            again = (
                f"The trial of version {to} runs again: {enter} {enter_words(share)} it."
                if share
                else f"Version {to} has no trial, so none runs."
            )
            other = phrases.trial_lines(known.terms, known.policies, known.earlier)
            at = lines.index(learned)
            lines[at:at] = [again, *(f"{line[:1].upper()}{line[1:]}." for line in other)]
            begins = share > 0
    if known.earlier is not None and known.has_rows:
        places = [(h, x) for h, x in effects.changed_anywhere(known)]
        differ = "the two versions differ"
        lines += holds.promise(known, places, len(places) - len(changes), differ)
    trial, title = trial_of(known, known.earlier), f"Roll back to version {to}{but}"
    sheet = Sheet(
        f"{title}?",
        title,
        lines,
        changes[:MOST_LISTED],
        precedents.taken_back(known.terms, known.precedents, [], begins_trial=begins)
        + untried_warning(known, rows)
        + first_given(known, trial),
        "/timeline",
        "stop",
        trial=trial,
        consent=consent_to(known, rows),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )
    return sheet if known.has_rows else _with_kinds(known, sheet)


def _proposed_elsewhere(known: Known) -> str:
    """How much of the pending proposal a rollback leaves open, because it holds no such place."""
    if not known.has_rows or known.view is None or known.earlier is None:
        return "What it proposed may be proposed again at once."
    held = {*known.holds, *((h, x) for h, x in effects.changed_anywhere(known))}
    free = [row for row in known.view.rows if (row["step"], row["state"]) not in held]
    n, total = len(free), len(known.view.rows)
    if n == total:
        return "What it proposed may be proposed again at once."
    of_all = f"{total - n:,} of its {counted(total, 'place')}" if n else "All of its places"
    said = f"{of_all} {'is' if n and total - n == 1 else 'are'} held back after this."
    return f"{said} What it proposed elsewhere may be proposed again at once." if n else said


def _kept_lines(known: Known, to: int, kept: Sequence[Sequence[int]]) -> list[str]:
    """Where a rollback does not do what the version did, because that is forbidden by now."""
    if not kept:
        return []
    names, here = known.terms.labels["action"], dict[str, list[Sequence[int]]]()
    for h, x in kept:
        here.setdefault(names[known.earlier[0, h, x]], []).append((h, x))
    given = "; ".join(
        f"{name} for {phrases.places_words(known.terms, rows)}" for name, rows in here.items()
    )
    return [
        f"Version {to} gives what was forbidden since in {counted(len(kept), 'place')}. A rollback"
        f" lifts no veto, so the protocol gives there: {given}. Everything else is as it was in"
        f" version {to}."
    ]


def thawed(known: Known, decision: dict[str, Any]) -> Sheet:
    """A paused run that resumes."""
    paused, case = known.run.paused or {}, known.case
    lines = [
        f"{paused.get('by', '')} paused the run: {paused.get('reason', '')}.",
        f"Sites can enrol {known.cases} and report again, and decisions are possible.",
        f"New {known.cases} follow version {known.run.version}.",
    ]
    last = known.precedents.versions[-1:]
    in_pause = bool(last) and last[0].kind == "capped" and last[0].time >= paused.get("time", "")
    if known.view is None and known.run.next_is_free and in_pause:
        by = precedents.decided(known.terms, last[0], known.precedents.laws)
        lines.append(f"The proposal that was withdrawn in the pause is made again: {by}.")
    if known.protocol:
        share = share_of(known.policies)
        enter = phrases.share_words(share, case)
        lines[2] += f" {enter[:1].upper()}{enter[1:]} {enter_words(share)} its trial."
    return Sheet("Resume the run?", "Resume the run", lines)


def quorum(known: Known, decision: dict[str, Any]) -> Sheet:
    """A change of how many reviewers must agree."""
    n = decision["quorum"]
    lines = [
        f"From now on {counted(n, 'reviewer')} must agree before anything is approved, forbidden,"
        f" allowed again, rolled back or resumed, and before this number is changed. Now it is"
        f" {known.run.quorum}."
    ]
    title = f"Let {counted(n, 'reviewer')} decide"
    return Sheet(f"{title}?", title, lines, (), (), "/roles", "stop")


def capped(known: Known, decision: dict[str, Any]) -> Sheet:
    """A trial that becomes smaller, or ends."""
    now, after = share_of(known.policies), law_of(known, "capped", decision)
    share = min(now, capped_share(decision["share"], known.members))
    title = "End the trial" if share == 0 else f"Cap the trial at {100 * share:.0f} %"
    enter = phrases.share_words(share, known.case)
    lines = [
        f"{enter[:1].upper()}{enter[1:]} {enter_words(share)} the trial (now {100 * now:.0f} %)."
        f" {known.cases.capitalize()} who are in it already keep the plan that they were given."
    ]
    if known.has_rows and (gone := effects.stopped(known.policies, after)):
        lines.append(f"No longer given: {phrases.actions_words(known.terms, gone)}.")
    if known.view is not None:
        when = ", once the run resumes" if known.run.frozen else ""
        lines.append(
            f"The pending proposal is withdrawn and made again{when}. That uses up none of the"
            " proposals left."
        )
    if known.run.quorum > 1:
        lines.append("This takes effect at once, by your decision alone.")
    trial = trial_of(known, after) or kinds_in_trial(known, known.effect or {})
    return Sheet(f"{title}?", title, lines, (), (), "/timeline", "stop", trial=trial)


# ---- kinds of cases ------------------------------------------------------------------------------


def _with_kinds(known: Known, sheet: Sheet, then: Sequence[str] = ()) -> Sheet:
    """A decision that nobody proposed, with its changes for each kind of cases."""
    row = known.effect or {}
    lines = [*sheet.lines, *_effect_lines(known, row), *then]
    regions, trial = moving_kinds(row), kinds_in_trial(known, row)
    return sheet._replace(
        lines=lines,
        changes=kinds_changed(known, regions),
        warnings=[*sheet.warnings, *warnings_of(known, regions), *first_given(known, trial)],
        trial=trial,
        consent=consent_to_kinds(known, regions),
        identity=row.get("identity", ""),
    )


def _effect_lines(known: Known, row: Mapping[str, Any]) -> list[str]:
    """How many cases a decision concerns, and its expected gain."""
    if "regions" not in row:
        return [f"What it changes for which {known.cases} is not known: no {known.case} is logged."]
    outside = " outside the trial" if known.protocol else ""
    share, found = row["usual_changes"], list[str]()
    if not (share or moving_kinds(row)):
        found.append(f"{known.cases.capitalize()}{outside} get what they get now.")
    else:
        usual = f"another{'' if known.protocol else ' usual'} {known.terms.word('action')}"
        found.append(
            f"{percent(share)} of new {known.cases}{outside} get {usual}, as listed below."
        )
        found += fidelity_lines(row)
    if known.worth is not None:
        found.append(f"Expected: {phrases.gain_words(known.worth['change'], known.terms)}.")
    return found
