"""What it means to approve a proposal, a part of it, or to postpone it, in the words of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowswitch.ledger import ProposalView
from lowswitch.ledger.text import guess_words, never_given
from lowswitch.service import effects, holds, phrases, precedents
from lowswitch.service.effects import Known, is_of_protocol, law_after, share_after, unlimited
from lowswitch.service.phrases import several, share_of
from lowswitch.service.reversals import vetoed
from lowswitch.service.sheets import (
    MOST_LISTED,
    Sheet,
    change,
    consent_to,
    consent_to_kinds,
    expected_lines,
    fidelity_lines,
    first_given,
    kinds_changed,
    kinds_in_trial,
    moving_kinds,
    trial_of,
    warnings_of,
)
from lowswitch.show.text import counted, plural

# ---- approvals -----------------------------------------------------------------------------------


def approved(known: Known, decision: dict[str, Any]) -> Sheet:
    """An approval of rows of the pending proposal, in both parts or one."""
    view, part = known.view, decision.get("part")
    assert view is not None
    if not known.has_rows:
        return _whole_approved(known, view, decision)
    keys = {tuple(row) for row in decision["rows"]}
    rows = [row for row in view.rows if (row["step"], row["state"]) in keys]
    changes = [row for row in rows if is_of_protocol(known, row) and part != "trial"]
    lines, trial = _protocol_lines(known, changes), list[dict[str, Any]]()
    warnings = precedents.unaware(known.terms, known.precedents)
    warnings += taken_back(known, changes, decision, again=True) + _warnings(known, view, changes)
    if known.protocol:
        trial = trial_of(known, law_after(known, decision))
        lines += limit_lines(known, decision) + _trial_lines(known, decision)
        lines += _over_all(known, decision)
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
        consent=consent_to(known, changes),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )


def _next_time(known: Known, changes: int) -> str:
    """When changes that are not adopted can return, and what that costs."""
    left, them = known.run.budget_left, "it" if changes == 1 else "they"
    if left == 0:
        return f"No proposal is left, so {them} cannot be proposed again."
    cost = "" if left is None else f", which uses one of the {left:,} proposals left"
    cost = ", which uses the last proposal" if left == 1 else cost
    same = "change" if changes == 1 else "changes"
    return f"The next proposal can contain the same {same} again{cost}."


def _whole_approved(known: Known, view: ProposalView, decision: dict[str, Any]) -> Sheet:
    """The approval of a policy on features: its protocol, its trial, or both."""
    row, proposed = known.effect or view.rows[0], view.rows[0]
    adopts = decision.get("part") != "trial" and bool(proposed.get("usual_changes", 1))
    regions = moving_kinds(row) if adopts else []
    trial = kinds_in_trial(known, row)
    if known.protocol:
        title = _approval_title(known, decision, int(adopts), "the new protocol")
        lines = _new_protocol_lines(known, adopts, bool(proposed.get("usual_changes")))
        lines += limit_lines(known, decision) + _trial_lines(known, decision)
    else:
        title = "Approve the new policy"
        lines = [f"The new policy takes effect for new {known.cases}."]
        if known.worth is not None:
            lines.append(f"Expected: {phrases.gain_words(known.worth['change'], known.terms)}.")
    lines += fidelity_lines(row) if adopts else []
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
        consent=consent_to_kinds(known, regions),
        identity=row["identity"],
    )


def _new_protocol_lines(known: Known, adopts: bool, changes: bool) -> list[str]:
    """The effect on a protocol on features; changes: whether the proposal has another one."""
    if not adopts:
        left = f" The proposed protocol is not adopted. {_next_time(known, 1)}" if changes else ""
        return [f"The protocol stays as it is.{left}"]
    found = [f"The new protocol takes effect for new {known.cases} outside the trial."]
    if known.worth is not None:
        gain = phrases.gain_words(known.worth["protocol"], known.terms)
        found.append(f"Expected outside the trial: {gain}.")
    return found


def _replaces(known: Known, view: ProposalView) -> str:
    """Which version follows which."""
    return (
        f"Version {view.version + 1} replaces version {view.version} for new {known.cases}. An"
        " operator can ask to roll it back."
    )


def _protocol_lines(known: Known, changes: list[dict[str, Any]]) -> list[str]:
    """The effect on the protocol."""
    if not changes:
        return ["The protocol stays as it is."] if known.protocol else []
    outside = " outside the trial" if known.protocol else ""
    does = "takes" if len(changes) == 1 else "take"
    found = [
        f"{counted(len(changes), 'change')} of the protocol {does} effect for new"
        f" {known.cases}{outside}."
    ]
    return [*found, *expected_lines(known, changes)]


def _approval_title(known: Known, decision: dict[str, Any], changes: int, named: str = "") -> str:
    """The title of an approval, as a verb with its objects: changes, and the effect on the trial.

    named: a name for the changes together, if they are not counted.
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


# ---- the trial -----------------------------------------------------------------------------------


def too_small(known: Known, decision: dict[str, Any]) -> str:
    """Why a limit above 0 would end a trial; empty if it would not."""
    share = decision.get("share")
    if not (known.protocol and share and share_after(known, unlimited(decision))):
        return ""
    if share_after(known, decision):
        return ""
    members = known.members
    least = np.ceil(1000 / members) / 10
    return (
        f"a limit of {100 * share:g} % would leave nobody in the trial, because each of its"
        f" groups gets {100 / members:.1f} % of new {known.cases}. Type at least"
        f" {least:g}, or type 0 to end the trial"
    )


def limit_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """The effect of a limit on the trial, and what it stops."""
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
    groups = "one group" if parts == 1 else f"{parts} groups, each"
    present = decision.get("part") == "protocol"
    which, do = ("present", "stop") if present else ("proposed", "do not begin")
    one = "stops" if present else "does not begin"
    rest = f"the other one {one}" if parts - left == 1 else f"the other {parts - left} {do}"
    return [
        f"The {which} trial has {groups} with {100 / known.members:.1f} % of new {known.cases}. The"
        f" limit of {100 * share:g} % leaves room for {left}; {rest}."
    ]


def _stopped_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """What the trial of today gives, and nobody is given after a decision."""
    if not known.has_rows:
        return []
    gone = effects.stopped(known.policies, law_after(known, decision))
    if not gone:
        return []
    return [f"The trial of today gives this, and nobody will: {_words(known, gone)}."]


def _words(known: Known, some: set[phrases.Place]) -> str:
    return phrases.actions_words(known.terms, some)


def _trial_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """The effect on the trial."""
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
    lines = [
        f"{share[:1].upper()}{share[1:]}, drawn by lot, enter the trial (now {100 * now:.0f} %). It"
        " gives them the alternatives listed below."
    ]
    if refused and new == now:
        lines = [f"The trial stays as it is: {share} enter it.{refused}", _apart(known)]
    elif refused:
        lines = [
            f"{share[:1].upper()}{share[1:]} enter the present trial (now {100 * now:.0f} %)."
            f"{refused}",
            _apart(known),
        ]
    return [*lines, *_stopped_lines(known, decision), *_cost_lines(known)]


def _apart(known: Known) -> str:
    """The effect of approved changes on a trial that stays."""
    actions = plural(known.terms.word("action"))
    return (
        f"{known.cases.capitalize()} in the trial get its present {actions}, not the proposed ones."
        " The table shows them beside the new protocol."
    )


def _cost_lines(known: Known) -> list[str]:
    """The cost of a trial to its cases, compared with the protocol deployed with it."""
    if known.worth is None or "trial" not in known.worth:
        return []
    cost = known.worth["trial"]
    does = "gains" if cost["mean"] > 0 else "costs"
    judged = known.effect or (known.view.rows[0] if known.view and not known.has_rows else {})
    found = (
        f"What the trial {does}: {phrases.more(cost['mean'], known.terms)} in it, compared with"
        f" the protocol after this decision ({phrases.between(cost, known.terms)})."
        f" {guess_words(never_given(judged))}"
    )
    return [found.rstrip()]


def _over_all(known: Known, decision: dict[str, Any]) -> list[str]:
    """What protocol and trial gain together, compared with those of today."""
    trials = share_of(known.policies), share_after(known, decision)
    if known.worth is None or "protocol" not in known.worth or not any(trials):
        return []
    gain = phrases.gain_words(known.worth["change"], known.terms)
    now = "and its trial" if trials[0] else "without a trial"
    return [
        f"Over all {known.cases}, with those in the trial: {gain}. This compares with version"
        f" {known.run.version} {now}."
    ]


def _same_protocol(known: Known, decision: dict[str, Any]) -> bool:
    """Whether the rows of a decision leave the protocol as it is."""
    if not known.has_rows:
        assert known.view is not None
        return not known.view.rows[0]["usual_changes"]
    both = law_after(known, {"rows": decision["rows"]})
    return bool((both[0] == known.policies[0]).all())


# ---- warnings ------------------------------------------------------------------------------------


def taken_back(
    known: Known,
    changes: Sequence[dict[str, Any]],
    decision: dict[str, Any] | None = None,
    *,
    again: bool = False,
) -> list[str]:
    """The earlier decisions that proposed changes reverse, and an approval of a trial with them.

    again: also those that chose the present action, where another one is proposed than before it.
    """
    begins = decision is not None and known.protocol and share_after(known, decision) > 0
    moves = [(row["step"], row["state"], row["to"][0]) for row in changes]
    return precedents.taken_back(
        known.terms, known.precedents, moves, begins_trial=begins, again=again
    )


def _warnings(known: Known, view: ProposalView, changes: list[dict[str, Any]]) -> list[str]:
    """Facts that a reviewer should not overlook."""
    return warnings_of(known, changes) + unread_warning(known, view)


def _trial_warnings(
    known: Known, decision: dict[str, Any], trial: Sequence[dict[str, Any]]
) -> list[str]:
    """What the trial gives for the first time, and how it differs from the proposed trial."""
    return first_given(known, trial) + _other_trial(known, decision)


def _other_trial(known: Known, decision: dict[str, Any]) -> list[str]:
    """How the trial that an approval begins differs from the one on the proposal page."""
    if not known.has_rows or decision.get("part") == "protocol":
        return []
    if share_after(known, decision) == 0:  # so there is no list
        return []
    assert known.view is not None
    whole = effects.whole(known.view)
    here, full, there = (
        phrases.given_in_trial(law_after(known, one))
        for one in (decision, unlimited(decision), whole)
    )
    if here == there:
        return []
    why = ["your limit leaves out a part of it"] if here != full else []
    if full != there and decision.get("part") == "trial":
        why.insert(0, "the protocol stays")
    elif full != there:
        why.insert(0, "some changes stay undecided, where the present trial goes on")
    sides = (("Only here", here - there), ("Only on the proposal page", there - here))
    return [
        f"The list of the trial differs from the proposal page, because {several(why)}.",
        *(f"{name}: {phrases.actions_words(known.terms, some)}." for name, some in sides if some),
    ]


def unread_warning(known: Known, view: ProposalView) -> list[str]:
    """Whose reports are not included, with the same numbers as on the proposal page."""
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


# ---- postponements -------------------------------------------------------------------------------


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
            lines.append(_not_adopted(known))
        lines.append("Nothing is forbidden.")
    elif known.protocol and share_of(known.policies):
        lines.append(_trial_beside(known, keys))
    left = sum(is_of_protocol(known, row) for row in view.rows) - len(changed)
    if left:
        lines.append(f"{counted(left, 'other change', 'stays', 'stay')} undecided.")
    lines += _comes_again(known, rows, len(changed)) + _alone(known)
    changes = [change(known, row) for row in changed[:MOST_LISTED]]
    title = f"Postpone {n}" if len(rows) < len(view.rows) else "Postpone everything"
    return Sheet(f"{title}?", title, lines, changes, (), "/proposal", "quiet",
                 unlisted=max(0, len(changed) - MOST_LISTED))  # fmt: skip


def _comes_again(known: Known, rows: Sequence[dict[str, Any]], changes: int) -> list[str]:
    """When postponed changes can be proposed again, and what that costs."""
    left = known.run.budget_left
    if left == 0:
        return ["No proposal is left, so nothing is proposed again."]
    places = [(row["step"], row["state"]) for row in rows]
    what = "the changes" if changes else "the trial"
    if changes and changes < len(rows):
        what += " and the trial"
    elif changes == 1:
        what = "the change"
    found = holds.promise(known, places, len(rows) - changes, f"you postpone {what}")
    cost = {None: "", 1: " That uses the last proposal."}.get(
        left, f" That uses one of the {left or 0:,} proposals left."
    )
    same = "change" if changes == 1 else "changes"
    return [*found, f"After that a proposal can contain the same {same} again.{cost}"]


def _alone(known: Known) -> list[str]:
    """That postponing needs no second reviewer, where other decisions do."""
    if known.run.quorum == 1:
        return []
    return [
        "This takes effect at once, by your decision alone: a reviewer may postpone without the"
        " agreement of another one, because nothing changes for anybody."
    ]


def _not_adopted(known: Known) -> str:
    """That the proposed trial does not begin, and what becomes of the present one."""
    running = share_of(known.policies) > 0
    now = "the present trial goes on as it is" if running else "no trial is running"
    return f"The proposed trial is not adopted; {now}."


def _trial_beside(known: Known, rows: set[tuple[int, ...]]) -> str:
    """That the present trial continues, and what it gives in rows whose change is postponed."""
    given = {one for one in phrases.given_in_trial(known.policies) if one[:2] in rows}
    still = f" and still gives {phrases.actions_words(known.terms, given)}" if given else ""
    return f"The present trial goes on as it is{still}."


def _stays(known: Known, view: ProposalView) -> str:
    """What a postponed proposal leaves unchanged, and until when."""
    until = (
        "until the board approves a later proposal" if known.run.budget_left != 0 else "for good"
    )
    actions = (
        f"The {plural(known.terms.word('action'))} of today stay" if known.has_rows else "It stays"
    )
    return f"Version {view.version} stays in use. {actions} {until}."


def _whole_postponed(known: Known, view: ProposalView) -> Sheet:
    """A policy on features that is not deployed for now."""
    title, changes = "Postpone the new policy", kinds_changed(known, moving_kinds(view.rows[0]))
    lines = [_stays(known, view)]
    if known.protocol:
        title = "Postpone everything"
        lines.append(_not_adopted(known))
    lines += _alone(known)
    return Sheet(f"{title}?", title, lines, changes, (), "/proposal", "quiet")


def _new(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({action for row in rows for action in {*row["to"]} - {*row["from"]}})
