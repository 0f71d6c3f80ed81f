"""What a decision would do, in the words of the run: the page on which somebody confirms it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.learners.trials import capped_share
from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import canonical, digest
from lowswitch.ledger.text import (
    moved,
    percent,
    region_notes,
    region_tries,
    row_notes,
    untried,
)
from lowswitch.service import effects, phrases, precedents
from lowswitch.service.effects import (
    Known,
    changed_rows,
    is_of_protocol,
    is_untried,
    law_after,
    law_of,
    share_after,
    sides,
    unlimited,
)
from lowswitch.service.phrases import several, share_of
from lowswitch.show.text import counted, plural

MOST_LISTED = 200  # lines of changes on a page that is confirmed
FEW = 20  # cases: of an action that fewer were given, the page says so
_BLANK = dict.fromkeys(("gain", "between", "sure", "given", "few", "note", "verdict", "turns"), "")


class Sheet(NamedTuple):
    """A decision before it is confirmed."""

    title: str
    button: str  # a verb with its object
    lines: Sequence[str] = ()  # what happens
    changes: Sequence[dict[str, str]] = ()  # see `change`
    warnings: Sequence[str] = ()
    back: str = "/"
    css: str = "go"
    has_reason: bool = True
    hint: str = "for example: minutes of 3 May, item 2"
    trial: Sequence[dict[str, Any]] = ()  # see `phrases.alternatives`
    consent: str = ""  # what must be ticked by itself, because it is easily overlooked
    unlisted: int = 0  # changes beyond the listed ones
    base: int | None = None  # the version that it changes
    replaces: Sequence[int] = ()  # requests of the same person that it takes the place of
    bound: Sequence[str] = ()  # lines that must be the same when somebody confirms
    beside: Sequence[int] = ()  # requests that it contradicts, repeats or ends
    identity: str = ""  # of the policy that it deploys, where kinds of cases shift with each report

    @property
    def read(self) -> str:
        """What somebody who confirms has read, as a hash: the decision, all that it changes, and
        the requests that wait beside it.
        """
        changes = [[one["where"], one["old"], one["new"]] for one in self.changes]
        names = ("where", "steps", "old", "new", "share")
        trial = [[one[name] for name in names] for one in self.trial]
        shown = [self.identity] if self.identity else [changes, trial]
        what: list[Any] = [self.title, self.base, *shown, self.unlisted, bool(self.consent)]
        what += [list(self.replaces), list(self.beside), list(self.bound)]
        return digest(canonical(what)) if self.has_reason else ""


# ---- rows of a proposal --------------------------------------------------------------------------


def change(known: Known, row: dict[str, Any]) -> dict[str, Any]:
    """One change of the protocol, as people read it."""
    gain, terms = row.get("gain"), known.terms
    old, new = sides(known, row)
    notes = row_notes(row | {"hangs_on_unsettled": False}) if "tries" in row else [untried(row)]
    return {
        "where": known.place(row["step"], row["state"]),
        "old": old,
        "new": new,
        "gain": "" if gain is None else phrases.amount(gain["mean"], terms),
        "between": "" if gain is None else phrases.within(gain, terms),
        "sure": "" if row.get("probability") is None else percent(row["probability"]),
        "given": _given(row),
        "few": _few(known, row),
        "note": "; ".join(filter(None, notes)),
        "verdict": row["verdict"],
        "turns": bool(row["hangs_on_unsettled"]),
    }


def _few(known: Known, row: dict[str, Any]) -> str:
    """That few cases tell of a proposed action; empty if many do, or none."""
    given = row["proposed"]["visits"]
    return f"only {counted(given, known.case)}" if 0 < given < FEW else ""


def _given(row: dict[str, Any]) -> str:
    """How often the present and the proposed action were given in a row."""
    return f"{row['now']['visits']:,} → {row['proposed']['visits']:,}"


# ---- one sheet for each kind of decision, by the name of its event ------------------------------


def approved(known: Known, decision: dict[str, Any]) -> Sheet:
    """Rows of the pending proposal, of both parts or of one."""
    view, part = known.view, decision.get("part")
    assert view is not None
    if not known.has_rows:
        return _whole_approved(known, view, decision)
    keys = {tuple(row) for row in decision["rows"]}
    rows = [row for row in view.rows if (row["step"], row["state"]) in keys]
    changes = [row for row in rows if is_of_protocol(known, row) and part != "trial"]
    lines, trial = _protocol_lines(known, changes), list[dict[str, Any]]()
    warnings = taken_back(known, changes, decision) + _warnings(known, view, changes)
    if known.protocol:
        trial = _trial_of(known, law_after(known, decision))
        lines += limit_lines(known, decision) + _trial_lines(known, decision)
        warnings += _trial_warnings(known, decision, trial)
    left = sum(is_of_protocol(known, row) for row in view.rows) - len(changes)
    if left and part != "trial":
        lines.append(f"{counted(left, 'other change', 'stays', 'stay')} undecided.")
    elif left:
        lines.append(
            f"The {counted(left, 'proposed change')} of the protocol {'is' if left == 1 else 'are'}"
            f" not adopted and no longer wait{'s' if left == 1 else ''} for a decision."
            f" {_next_time(known, left)}"
        )
    lines.append(_replaces(known, view))
    title = _approval_title(known, decision, len(changes))
    return Sheet(
        f"{title}?",
        title,
        lines,
        [change(known, row) for row in changes[:MOST_LISTED]],
        warnings,
        "/proposal",
        trial=trial,
        consent=_consent(known, changes),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )


def _next_time(known: Known, changes: int) -> str:
    """When changes that are not adopted can come back, and what that costs."""
    left, them = known.run.budget_left, "it" if changes == 1 else "they"
    if left == 0:
        return f"No proposal is left, so {them} cannot be proposed again."
    cost = "" if left is None else f", which uses one of the {left:,} proposals left"
    cost = ", which uses the last proposal" if left == 1 else cost
    same = "change" if changes == 1 else "changes"
    return f"The next proposal can contain the same {same} again{cost}."


def _whole_approved(known: Known, view: ProposalView, decision: dict[str, Any]) -> Sheet:
    """A policy on features: its protocol and its trial, or one of them, where it has both."""
    row, proposed = known.effect or view.rows[0], view.rows[0]
    adopts = decision.get("part") != "trial" and bool(proposed.get("usual_changes", 1))
    regions = _moving(row) if adopts else []
    trial = _kinds_in_trial(known, row)
    if known.protocol:
        title = _approval_title(known, decision, int(adopts), "the new protocol")
        lines = _new_protocol_lines(known, adopts, bool(proposed.get("usual_changes")))
        lines += limit_lines(known, decision) + _trial_lines(known, decision)
    else:
        title = "Approve the new policy"
        lines = [f"The new policy takes effect for new {known.cases}."]
        if known.worth is not None:
            lines.append(f"Expected: {phrases.gain_words(known.worth['change'], known.terms)}.")
    lines += _fidelity_lines(row) if adopts else []
    lines.append(_replaces(known, view))
    warnings = taken_back(known, [], decision) + _warnings(known, view, regions)
    warnings += _trial_warnings(known, decision, trial)
    if (moved_at := proposed.get("drift")) is not None:
        warnings.append(phrases.drift_words(moved_at, known.terms))
    return Sheet(
        f"{title}?",
        title,
        lines,
        kinds_changed(known, regions),
        warnings,
        "/proposal",
        trial=trial,
        consent=_consent_to_kinds(known, regions),
        identity=row["identity"],
    )


def _kinds_in_trial(known: Known, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a trial of a policy on features gives to which kinds of cases."""
    if not (known.protocol and "regions" in row and row["trial"]["proposed"]):
        return []
    return phrases.kinds_in_trial(known.terms, row)


def _fidelity_lines(row: Mapping[str, Any]) -> list[str]:
    """How well the kinds of cases that a page lists describe the change."""
    if row.get("fidelity") is None:
        return []
    right = f"{100 * row['fidelity']:.0f} %"
    return [f"The table of kinds below describes {right} of the changes correctly."]


def _with_kinds(known: Known, sheet: Sheet, then: Sequence[str] = ()) -> Sheet:
    """A decision that nobody proposed, with what it changes for which kinds of cases."""
    row = known.effect or {}
    lines = [*sheet.lines, *_effect_lines(known, row), *then]
    regions, trial = _moving(row), _kinds_in_trial(known, row)
    return sheet._replace(
        lines=lines,
        changes=kinds_changed(known, regions),
        warnings=[*sheet.warnings, *_warnings_of(known, regions), *_first_given(known, trial)],
        trial=trial,
        consent=_consent_to_kinds(known, regions),
        identity=row.get("identity", ""),
    )


def _effect_lines(known: Known, row: Mapping[str, Any]) -> list[str]:
    """How many cases a decision concerns, and what it is expected to gain."""
    if "regions" not in row:
        return [f"What it changes for which {known.cases} is not known: no {known.case} is logged."]
    outside = " outside the trial" if known.protocol else ""
    share, found = row["usual_changes"], list[str]()
    if not (share or _moving(row)):
        found.append(f"{known.cases.capitalize()}{outside} get what they get now.")
    else:
        usual = f"another{'' if known.protocol else ' usual'} {known.terms.word('action')}"
        found.append(
            f"{percent(share)} of new {known.cases}{outside} get {usual}, as listed below."
        )
        found += _fidelity_lines(row)
    if known.worth is not None:
        found.append(f"Expected: {phrases.gain_words(known.worth['change'], known.terms)}.")
    return found


def _new_protocol_lines(known: Known, adopts: bool, changes: bool) -> list[str]:
    """What becomes of a protocol on features; changes: whether the proposal has another one."""
    if not adopts:
        left = f" The proposed protocol is not adopted. {_next_time(known, 1)}" if changes else ""
        return [f"The protocol stays as it is.{left}"]
    found = [f"The new protocol takes effect for new {known.cases} outside the trial."]
    if known.worth is not None:
        gain = phrases.gain_words(known.worth["protocol"], known.terms)
        found.append(f"Expected outside the trial: {gain}.")
    return found


def _replaces(known: Known, view: ProposalView) -> str:
    """Which version comes after which."""
    return (
        f"Version {view.version + 1} replaces version {view.version} for new {known.cases}. An"
        " operator can ask to roll it back."
    )


def _moving(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The kinds of cases of a row whose actions change, as far as percentages show it."""
    sides_of = ((one, *moved(one).split(" → ")) for one in row.get("regions", []))
    return [one for one, old, new in sides_of if old != new]


def kinds_changed(known: Known, regions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kinds of cases that a policy on features changes, as people read them; see `change`."""
    found = list[dict[str, Any]]()
    for one in regions:
        old, new = moved(one).split(" → ")
        gain = one["gain"]
        found.append(
            {
                "where": f"{one['where']} ({100 * one['share']:.0f} %)",
                "old": old,
                "new": new,
                "gain": "" if gain is None else phrases.amount(gain["mean"], known.terms),
                "between": "" if gain is None else phrases.within(gain, known.terms),
                "sure": "" if one["probability"] is None else percent(one["probability"]),
                "given": region_tries(one) or "nothing",
                "few": "",
                "note": "; ".join(region_notes(one)),
                "verdict": one["verdict"] or "",
                "turns": False,
            }
        )
    return found


def _consent_to_kinds(known: Known, regions: Sequence[dict[str, Any]]) -> str:
    """The same as `_consent`, of the kinds of cases of a policy on features."""
    new = [f"{several(one['untried'])} for {one['where']}" for one in regions if is_untried(one)]
    if not new:
        return ""
    said = "; ".join(new)
    return (
        f"I know that no {known.case} of these kinds was ever given this, so nothing is known of"
        f" it: {said}."
    )


def _protocol_lines(known: Known, changes: list[dict[str, Any]]) -> list[str]:
    """What becomes of the protocol."""
    if not changes:
        return ["The protocol stays as it is."] if known.protocol else []
    outside = " outside the trial" if known.protocol else ""
    does = "takes" if len(changes) == 1 else "take"
    found = [
        f"{counted(len(changes), 'change')} of the protocol {does} effect for new"
        f" {known.cases}{outside}."
    ]
    return [*found, *_expected(known)]


def _expected(known: Known) -> list[str]:
    """What changes of the protocol are expected to gain together."""
    if known.worth is None:
        return ["The gain of these changes together is not computed; each has its own below."]
    gain = known.worth.get("protocol") or known.worth["change"]
    return [f"Expected: {phrases.gain_words(gain, known.terms)}."]


def _approval_title(known: Known, decision: dict[str, Any], changes: int, named: str = "") -> str:
    """What an approval does, as a verb with its objects: changes, and what becomes of the trial.

    named: what people call the changes together, if they do not count them.
    """
    what = [named or counted(changes, "change")] if changes else []
    fate = ""
    if known.protocol:
        now, new = share_of(known.policies), share_after(known, decision)
        if new == 0:
            fate = "end the trial" if now else ""
        elif decision.get("part") != "protocol":
            full = share_after(known, unlimited(decision))
            limit = f" for {phrases.share_words(new, known.case)}" if new < full else ""
            what.append(f"the trial{limit}")
        elif new < now:
            fate = f"limit the trial to {phrases.share_words(new, known.case)}"
    said = [f"approve {several(what)}"] if what else []
    if said and decision.get("part") == "trial" and not _same_protocol(known, decision):
        said = [f"{said[0]}, keep the present protocol"]
    title = several([*said, *([fate] if fate else [])] or ["approve the proposal"])
    return f"{title[:1].upper()}{title[1:]}"


def too_small(known: Known, decision: dict[str, Any]) -> str:
    """Why a limit above 0 would end a trial; empty if it does not."""
    share = decision.get("share")
    if not (known.protocol and share and share_after(known, unlimited(decision))):
        return ""
    if share_after(known, decision):
        return ""
    members = known.members
    least = np.ceil(1000 / members) / 10
    return (
        f"a limit of {100 * share:g} % would leave nobody in the trial, because each of its"
        f" alternatives gets {100 / members:.1f} % of new {known.cases}. Type at least"
        f" {least:g}, or type 0 to end the trial"
    )


def limit_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """What a limit of the trial comes to, and what it stops."""
    share = decision.get("share")
    if not (known.protocol and share):
        return []
    full, new = (share_after(known, one) for one in (unlimited(decision), decision))
    if new == full:
        if abs(share - full) < 0.005:  # so it limits nothing, and nobody need have typed it
            return []
        return [
            f"The limit of {100 * share:g} % changes nothing: the trial has {100 * full:.0f} %."
        ]
    parts, left = (round(one * known.members) for one in (full, new))
    alternatives = (
        "The trial's one alternative" if parts == 1 else f"Each of the {parts} alternatives"
    )
    found = (
        f"{alternatives} needs {100 / known.members:.1f} %. The limit of {100 * share:g} % leaves"
        f" room for {left}"
    )
    rest = "the other one stops" if parts - left == 1 else f"the other {parts - left} stop"
    return [f"{found}; {rest}{_stopped_words(known, decision)}."]


def _stopped_words(known: Known, decision: dict[str, Any]) -> str:
    """What a limit of the trial stops, by name; empty with features."""
    if not known.has_rows:
        return ""
    before, after = (law_after(known, one) for one in (unlimited(decision), decision))
    stopped = effects.stopped(before, after)
    what = phrases.actions_words(known.terms, stopped) if stopped else ""
    return f": {what}" if what else ", and what they give is still given"


def _trial_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """What becomes of the trial."""
    now, new = share_of(known.policies), share_after(known, decision)
    share = phrases.share_words(new, known.case)
    refused = " The proposed trial is not adopted." if decision.get("part") == "protocol" else ""
    if new == 0:
        ends = (
            f"The trial ends: {share} enters it."
            if now
            else "No trial is running, and none begins."
        )
        alone = "To end it at once, without a second reviewer, use the status page."
        return [f"{ends}{refused}", *([alone] if now and known.run.quorum > 1 else [])]
    if refused and new == now:
        return [f"The trial stays as it is: {share} enter it.{refused}", _apart(known)]
    if refused:
        return [
            f"{share[:1].upper()}{share[1:]} enter the present trial (now {100 * now:.0f} %)."
            f"{refused}",
            _apart(known),
        ]
    lines = [
        f"{share[:1].upper()}{share[1:]}, drawn by lot, enter the trial (now {100 * now:.0f} %). It"
        " gives them the alternatives listed below."
    ]
    return [*lines, *_cost_lines(known, decision, new)]


def _apart(known: Known) -> str:
    """What approved changes mean for a trial that stays."""
    actions = plural(known.terms.word("action"))
    return (
        f"{known.cases.capitalize()} in the trial get its present {actions}, not the proposed ones."
        " The table shows them beside the new protocol."
    )


def _cost_lines(known: Known, decision: dict[str, Any], share: float) -> list[str]:
    """What a trial costs its cases, against the protocol that is deployed with it.

    The model was asked about the trial of the proposal beside the protocol of the proposal. It says
    nothing of that trial beside the present protocol, nor of a part of the trial.
    """
    if known.worth is None or "trial" not in known.worth:
        return []
    whole_trial = share == share_after(known, unlimited(decision)) or known.effect is not None
    if (
        known.effect is None
        and decision.get("part") == "trial"
        and not _same_protocol(known, decision)
    ):
        why = "it was estimated only together with the proposed changes of the protocol"
    elif not whole_trial:
        why = "it was estimated only for the whole proposed trial"
    else:
        cost = known.worth["trial"]
        does = "gains" if cost["mean"] > 0 else "costs"
        return [
            f"What the trial {does}: {phrases.more(cost['mean'], known.terms)} in it, compared with"
            f" the protocol after this decision ({phrases.between(cost, known.terms)})."
        ]
    return [f"What this trial costs is not known: {why}."]


def _same_protocol(known: Known, decision: dict[str, Any]) -> bool:
    """Whether the rows of a decision leave the protocol as it is."""
    if not known.has_rows:
        assert known.view is not None
        return not known.view.rows[0]["usual_changes"]
    both = law_after(known, {"rows": decision["rows"]})
    return bool((both[0] == known.policies[0]).all())


def _enter(share: float) -> str:
    return "enters" if share == 0 else "enter"


def _consent(known: Known, changes: list[dict[str, Any]]) -> str:
    """What a reviewer must say by itself: nobody was ever given what would replace the protocol."""
    new = [row for row in changes if is_untried(row)]
    if not new:
        return ""
    named = phrases.change_lines(
        known.terms, [phrases.Change(r["step"], r["state"], *sides(known, r)) for r in new]
    )
    said = "; ".join(
        f"{one['new']} instead of {one['old']} for {one['where']} ({one['steps']})"
        for one in named[:10]
    )
    if len(named) > 10:
        said += f"; and {len(named) - 10} more"
    return (
        f"I know that no {known.case} was ever given this there, so nothing is known of it, and"
        f" that it replaces the protocol for all {known.cases} outside the trial: {said}."
        if known.protocol
        else f"I know that no {known.case} was ever given this there, so nothing is known of it:"
        f" {said}."
    )


def taken_back(
    known: Known, changes: Sequence[dict[str, Any]], decision: dict[str, Any] | None = None
) -> list[str]:
    """Which earlier decisions proposed changes take back, and an approval of a trial with them."""
    begins = decision is not None and known.protocol and share_after(known, decision) > 0
    moves = [(row["step"], row["state"], row["to"][0]) for row in changes]
    return precedents.taken_back(known.terms, known.precedents, moves, begins_trial=begins)


def _warnings(known: Known, view: ProposalView, changes: list[dict[str, Any]]) -> list[str]:
    """What a reviewer should not overlook."""
    return _warnings_of(known, changes) + unread_warning(known, view)


def _warnings_of(known: Known, changes: list[dict[str, Any]]) -> list[str]:
    """Changes that are untried, unsure or worse."""
    found = _untried_warning(known, changes)
    if unsure := [row for row in changes if row["verdict"] == "UNSURE"]:
        said = f"{counted(len(unsure), 'change', 'is', 'are')} unsure: the data cannot tell yet."
        found.append(f"{said} {_least_known(known, unsure)}".rstrip())
    worse = sum(row["verdict"] == "WORSE" for row in changes)
    if worse:
        found.append(f"{counted(worse, 'change', 'is', 'are')} likely to make things worse.")
    return found


def _untried_warning(known: Known, changes: list[dict[str, Any]]) -> list[str]:
    """That changes bring what nobody was ever given."""
    new = sum(is_untried(row) for row in changes)
    law = "protocol" if known.has_rows or known.protocol else "policy"
    if not new:
        return []
    brings, action = "puts" if new == 1 else "put", known.terms.word("action")
    return [
        f"{counted(new, 'change')} {brings} a {action} into the {law} that no {known.case} was ever"
        " given there."
    ]


def _trial_warnings(
    known: Known, decision: dict[str, Any], trial: Sequence[dict[str, Any]]
) -> list[str]:
    """What the trial gives for the first time, and where it is not the trial of the proposal."""
    return _first_given(known, trial) + _other_trial(known, decision)


def _first_given(known: Known, trial: Sequence[dict[str, Any]]) -> list[str]:
    """What a trial gives for the first time."""
    said = [
        f"{one['new']} for {one['where']}" + (f" ({one['first']})" if known.has_rows else "")
        for one in trial
        if one["first"]
    ]
    if not said:
        return []
    shown = "; ".join(said[:6]) + (f"; and {len(said) - 6} more" if len(said) > 6 else "")
    return [f"The trial gives for the first time: {shown}."]


def _other_trial(known: Known, decision: dict[str, Any]) -> list[str]:
    """How the trial that an approval begins differs from the one on the proposal page."""
    if not known.has_rows or decision.get("part") == "protocol":
        return []
    if share_after(known, decision) == 0:  # so there is no list
        return []
    assert known.view is not None
    here, there = (
        phrases.given_in_trial(law_after(known, one))
        for one in (unlimited(decision), effects.whole(known.view))
    )
    if here == there:
        return []
    why = (
        "because the protocol stays"
        if decision.get("part") == "trial"
        else "because some changes stay undecided; there the present trial goes on"
    )
    said = f"The list of the trial differs from the proposal page, {why}."
    if here - there:
        said += f" Only here: {phrases.actions_words(known.terms, here - there)}."
    if there - here:
        said += f" Only on the proposal page: {phrases.actions_words(known.terms, there - here)}."
    return [said]


def unread_warning(known: Known, view: ProposalView) -> list[str]:
    """Who is not counted in, in the same numbers as on the page of the proposal."""
    unread = effects.unread(known, view)
    if not unread["total"]:
        return []
    parts = [
        counted(unread["open"], "report", "is open", "are open") if unread["open"] else "",
        f"{unread['waiting']:,} wait behind an open one" if unread["waiting"] else "",
        f"{unread['later']:,} came after the proposal was made" if unread["later"] else "",
    ]
    named = several([part for part in parts if part])
    return [f"{counted(unread['total'], known.case, 'is', 'are')} not counted in: {named}."]


def _least_known(known: Known, changes: list[dict[str, Any]]) -> str:
    """The change of which the fewest cases tell; empty with features, whose kinds list them."""
    if not known.has_rows:
        return ""
    least = min(changes, key=lambda row: row["proposed"]["visits"])
    given = counted(least["proposed"]["visits"], known.case)
    return (
        f"The least is known of {sides(known, least)[1]} for"
        f" {known.place(least['step'], least['state'])}, given to {given} there."
    )


def rejected(known: Known, decision: dict[str, Any]) -> Sheet:
    """Rows that stay as they are for now, or new actions that are forbidden."""
    view = known.view
    assert view is not None
    keys = {tuple(row) for row in decision["rows"]}
    rows = [row for row in view.rows if (row["step"], row["state"]) in keys]
    if not known.has_rows:
        return _whole_postponed(known, view)
    changed = [row for row in rows if is_of_protocol(known, row)]
    n = counted(len(changed), "change")
    if decision.get("forever"):
        return vetoed(known, decision | {"actions": decision.get("actions") or _new(rows)})
    lines = [_stays(known, view)]
    if len(rows) == len(view.rows):
        if known.protocol:
            lines.append("The proposed trial is not adopted; the present trial goes on as it is.")
        lines.append(f"Nothing is forbidden. {_next_time(known, len(changed))}")
    elif known.protocol and share_of(known.policies):
        lines.append(_trial_beside(known, keys))
    left = sum(is_of_protocol(known, row) for row in view.rows) - len(changed)
    if left:
        lines.append(f"{counted(left, 'other change', 'stays', 'stay')} undecided.")
    changes = [change(known, row) for row in changed[:MOST_LISTED]]
    title = f"Postpone {n}" if len(rows) < len(view.rows) else "Postpone everything"
    return Sheet(f"{title}?", title, lines, changes, (), "/proposal", "quiet",
                 unlisted=max(0, len(changed) - MOST_LISTED))  # fmt: skip


def _trial_beside(known: Known, rows: set[tuple[int, ...]]) -> str:
    """That the present trial goes on, and what it gives in rows whose change is postponed."""
    given = {one for one in phrases.given_in_trial(known.policies) if one[:2] in rows}
    still = f" and still gives {phrases.actions_words(known.terms, given)}" if given else ""
    return f"The present trial goes on as it is{still}."


def _stays(known: Known, view: ProposalView) -> str:
    """What a proposal that is postponed leaves as it is, and until when."""
    until = (
        "until the board approves a later proposal" if known.run.budget_left != 0 else "for good"
    )
    actions = (
        f"The {plural(known.terms.word('action'))} of today stay" if known.has_rows else "It stays"
    )
    return f"Version {view.version} stays in use. {actions} {until}."


def _whole_postponed(known: Known, view: ProposalView) -> Sheet:
    """A policy on features that is not deployed for now."""
    title, changes = "Postpone the new policy", kinds_changed(known, _moving(view.rows[0]))
    lines = [_stays(known, view)]
    if known.protocol:
        title = "Postpone everything"
        lines.append("The proposed trial is not adopted; the present trial goes on as it is.")
    return Sheet(f"{title}?", title, lines, changes, (), "/proposal", "quiet")


def _new(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({action for row in rows for action in {*row["to"]} - {*row["from"]}})


def _named(known: Known, decision: dict[str, Any]) -> tuple[str, str, str]:
    """The actions of a veto, where that is in few words, and in all."""
    names = several([known.terms.labels["action"][a] for a in decision["actions"]])
    rows, words = decision["rows"], phrases.places_words(known.terms, decision["rows"])
    return names, words if words.count(";") < 2 else f"{len(rows)} places", words


def vetoed(known: Known, decision: dict[str, Any]) -> Sheet:
    """Actions that are forbidden in rows."""
    names, where, all_of_them = _named(known, decision)
    if not known.has_rows:
        return _whole_vetoed(known, decision, names, where)
    lines = [
        f"No new {known.case} is given {names} for: {all_of_them}. It cannot be proposed there."
    ]
    after = law_of(known, "vetoed", decision)
    changes, rows = _replacements(known, after)
    lines += _freed_lines(known, after, {(h, x) for h, x, _ in changed_rows(known, after)})
    if changes:
        lines.append(
            f"{names} is given there now. Version {known.run.version + 1} replaces it at once, as"
            " listed below."
        )
        lines += _expected(known)
    lines += _veto_lines(known)
    title = f"Forbid {names} for {where}"
    if changes:
        title += f", and give {several(sorted({one['new'] for one in changes}))} instead"
    return Sheet(
        f"{title}?",
        title,
        lines,
        changes[:MOST_LISTED],
        _untried_warning(known, rows),
        "/map",
        "stop",
        consent=_consent(known, rows),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )


def _veto_lines(known: Known) -> list[str]:
    """What a veto means for later."""
    again = "The pending proposal is made again without it. That costs no budget."
    return [
        *([again] if known.view is not None else []),
        "A later decision, with a reason, can lift this veto.",
    ]


def _whole_vetoed(known: Known, decision: dict[str, Any], names: str, where: str) -> Sheet:
    """Actions that no policy on features may play any more."""
    lines = [f"No new {known.case} is given {names}. It cannot be proposed."]
    title = f"Forbid {names} for {where}"
    sheet = Sheet(f"{title}?", title, lines, back="/map", css="stop")
    if not known.policies.allowed[:, decision["actions"]].any():
        return sheet._replace(lines=[*lines, *_veto_lines(known)])
    now = known.run.version
    lines.append(
        f"Version {now + 1} replaces version {now} at once. It gives its next best"
        f" {known.terms.word('action')} where {names} is given now."
    )
    return _with_kinds(known, sheet, _veto_lines(known))


def _replacements(known: Known, after: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows whose protocol changes to that of another law: as people read them, and as known."""
    names, changes, rows = known.terms.labels["action"], list[dict[str, Any]](), []
    for h, x, a in changed_rows(known, after):
        row = known.others.get((h, x))
        rows += [row] if row is not None else []
        sides_of = {"old": names[known.policies[0, h, x]], "new": names[a]}
        blank = {"where": known.place(h, x)} | sides_of | _BLANK
        changes.append(blank if row is None else change(known, row))
    return changes, rows


def _freed_lines(known: Known, after: Any, changed: set[tuple[int, int]]) -> list[str]:
    """What becomes of trial cases who were given what a veto forbids, and what the trial keeps."""
    found, names = dict[int, set[tuple[int, int]]](), known.terms.labels["action"]
    for h, x, _ in effects.stopped(known.policies, after):
        if (h, x) not in changed:
            found.setdefault(int(after[0, h, x]), set()).add((h, x))
    lines = [
        f"The trial's {known.cases} who were to be given it get {names[a]} instead, like the"
        f" protocol: {phrases.places_words(known.terms, sorted(rows))}."
        for a, rows in sorted(found.items())
    ]
    places = set[tuple[int, int]]().union(*found.values())
    kept = {one for one in phrases.given_in_trial(after) if one[:2] in places}
    if kept:
        lines.append(f"The trial still gives {phrases.actions_words(known.terms, kept)}.")
    return lines


def lifted(known: Known, decision: dict[str, Any]) -> Sheet:
    """A veto that is lifted."""
    names, where, all_of_them = _named(known, decision)
    lines = [
        f"The learner may propose {names} again for: {all_of_them}.",
        f"The {known.terms.word('action')} given there now stays; lifting a veto only lets the"
        " learner propose again.",
    ]
    title = f"Allow {names} again for {where}"
    return Sheet(f"{title}?", title, lines, (), (), "/map")


def rolled_back(known: Known, decision: dict[str, Any]) -> Sheet:
    """An earlier version that is deployed again."""
    to, now = decision["to"], known.run.version
    learned = "Nothing that was learned is lost."
    if known.has_rows:
        learned += (
            " For a while the learner proposes no change where the two versions differ, in the"
            " protocol or in the trial."
        )
    lines = [
        f"Version {now + 1} will be deployed and do what version {to} did. It replaces version"
        f" {now}.",
        learned,
    ]
    if known.view is not None:
        lines.append("The pending proposal is withdrawn. The next one does not use up the budget.")
    changes, rows, begins = list[dict[str, Any]](), list[dict[str, Any]](), False
    if known.earlier is not None and known.has_rows:
        changes, rows = _replacements(known, known.earlier)
        changed = f"{counted(len(changes), 'change')} of the protocol, as listed below."
        lines[1:1] = [changed, *_expected(known)] if changes else ["The protocol does not change."]
    if known.earlier is not None:
        share = share_of(known.earlier)
        if known.protocol:
            enter = phrases.share_words(share, known.case)
            again = f"The trial of version {to} runs again: {enter} {_enter(share)} it."
            other = phrases.trial_lines(known.terms, known.policies, known.earlier)
            at = lines.index(learned)
            lines[at:at] = [again, *(f"{line[:1].upper()}{line[1:]}." for line in other)]
            begins = share > 0
    trial, title = _trial_of(known, known.earlier), f"Roll back to version {to}"
    sheet = Sheet(
        f"{title}?",
        title,
        lines,
        changes[:MOST_LISTED],
        precedents.taken_back(known.terms, known.precedents, [], begins_trial=begins)
        + _untried_warning(known, rows)
        + _first_given(known, trial),
        "/timeline",
        "stop",
        trial=trial,
        consent=_consent(known, rows),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )
    return sheet if known.has_rows else _with_kinds(known, sheet)


def _trial_of(known: Known, law: Any) -> list[dict[str, Any]]:
    """What the trial of a version gives, where there is a protocol."""
    if law is None or not (known.protocol and known.has_rows):
        return []
    return phrases.alternatives(known.terms, law, known.visits, known.policies)


def thawed(known: Known, decision: dict[str, Any]) -> Sheet:
    """A paused run that goes on."""
    paused, case = known.run.paused or {}, known.case
    lines = [
        f"{paused.get('by', '')} paused the run: {paused.get('reason', '')}.",
        f"Sites can enrol {known.cases} and report again, and decisions are possible.",
        f"New {known.cases} follow version {known.run.version}.",
    ]
    if known.protocol:
        share = share_of(known.policies)
        enter = phrases.share_words(share, case)
        lines[-1] += f" {enter[:1].upper()}{enter[1:]} {_enter(share)} its trial."
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
        f"{enter[:1].upper()}{enter[1:]} {_enter(share)} the trial (now {100 * now:.0f} %)."
        f" {known.cases.capitalize()} who are in it already keep the plan that they were given."
    ]
    if known.has_rows and (gone := effects.stopped(known.policies, after)):
        lines.append(f"No longer given: {phrases.actions_words(known.terms, gone)}.")
    if known.view is not None:
        lines.append("The pending proposal is withdrawn and made again. That costs no budget.")
    trial = _trial_of(known, after) or _kinds_in_trial(known, known.effect or {})
    return Sheet(f"{title}?", title, lines, (), (), "/timeline", "stop", trial=trial)
