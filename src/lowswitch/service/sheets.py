"""What a decision would do, in the words of the run: the page on which somebody confirms it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.learners.trials import limited_law
from lowswitch.ledger import ProposalView
from lowswitch.ledger.responses import MotionView, Status
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import (
    law,
    moved,
    percent,
    region_notes,
    region_tries,
    row_notes,
    untried,
)
from lowswitch.policy.tables import departing
from lowswitch.service import phrases
from lowswitch.service.phrases import place, several
from lowswitch.show.text import counted

MOST_LISTED = 200  # lines of changes on a page that is confirmed
_BLANK = dict.fromkeys(("gain", "between", "sure", "given", "note", "verdict", "turns"), "")


class Known(NamedTuple):
    """What a page knows of the run when it describes a decision."""

    terms: Terms
    run: Status
    view: ProposalView | None
    policies: Any  # deployed: tables [members, H, S], or a LinearPolicy
    protocol: bool  # whether the first of them is a protocol, and the others a trial
    visits: Any  # [H, S, A]  how often each action was given; None with features
    worth: dict[str, Any] | None = None  # of the rows that the decision is about
    earlier: Any = None  # the version that a rollback deploys again
    motions: Sequence[MotionView] = ()  # that wait for reviewers

    @property
    def has_rows(self) -> bool:
        """Whether the policy is a table; a policy on features is decided on as a whole."""
        return isinstance(self.policies, np.ndarray)

    def plays(self, row: tuple[int, int], action: int) -> bool:
        """Whether the protocol plays an action in a row, or a policy on features may."""
        if self.has_rows:
            return bool(self.policies[(0, *row)] == action)
        return bool(self.policies.allowed[:, action].any())

    def place(self, h: int, x: int) -> str:
        """A row by its labels."""
        return place(self.terms, h, x)

    @property
    def case(self) -> str:
        """What the run calls an episode."""
        return self.terms.word("episode")


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


# ---- rows of a proposal --------------------------------------------------------------------------


def is_of_protocol(known: Known, row: dict[str, Any]) -> bool:
    """Whether a row changes the protocol; without a trial every row does."""
    return not known.protocol or bool(row["from"][0] != row["to"][0])


def sides(known: Known, row: dict[str, Any]) -> tuple[str, str]:
    """What a row of the protocol plays now, and would play."""
    names = known.terms.labels["action"]
    if known.protocol:
        return names[row["from"][0]], names[row["to"][0]]
    return law(row["now"]["law"]), law(row["proposed"]["law"])


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
        "note": "; ".join(filter(None, notes)),
        "verdict": row["verdict"],
        "turns": bool(row["hangs_on_unsettled"]),
    }


def _given(row: dict[str, Any]) -> str:
    """How often the present and the proposed action were given in a row."""
    return f"{row['now']['visits']:,} → {row['proposed']['visits']:,}"


def is_untried(row: dict[str, Any]) -> bool:
    """Whether a row would get an action that nobody was given there."""
    return bool(row.get("untried") or row.get("never_tried"))


def law_after(known: Known, decision: dict[str, Any]) -> np.ndarray:  # [members, H, S]
    """What is deployed once rows of the pending proposal are approved, of both parts or of one."""
    assert known.view is not None
    keys, after = {tuple(row) for row in decision["rows"]}, known.policies.copy()
    for row in known.view.rows:
        if (row["step"], row["state"]) in keys:
            after[:, row["step"], row["state"]] = row["to"]
    limits = decision.get("part"), decision.get("share")
    return limited_law(known.policies, after, *limits) if known.protocol else after


def whole(view: ProposalView) -> dict[str, Any]:
    """The decision to approve all of a proposal."""
    return {"rows": [[row["step"], row["state"]] for row in view.rows]}


# ---- one sheet for each kind of decision, by the name of its event ------------------------------


def approved(known: Known, decision: dict[str, Any]) -> Sheet:
    """Rows of the pending proposal, of both parts or of one."""
    view, part = known.view, decision.get("part")
    assert view is not None
    if not known.has_rows:
        return _whole_approved(known, view)
    keys = {tuple(row) for row in decision["rows"]}
    rows = [row for row in view.rows if (row["step"], row["state"]) in keys]
    changes = [row for row in rows if is_of_protocol(known, row) and part != "trial"]
    lines, trial = _protocol_lines(known, changes), list[dict[str, Any]]()
    if known.protocol:
        trial = phrases.alternatives(known.terms, law_after(known, decision), known.visits)
        lines += limit_lines(known, decision) + _trial_lines(known, decision)
    left = sum(is_of_protocol(known, row) for row in view.rows) - len(changes)
    if left and part != "trial":
        lines.append(f"{counted(left, 'other change', 'stays', 'stay')} undecided.")
    elif left:
        lines.append(
            f"The {counted(left, 'proposed change')} of the protocol {'is' if left == 1 else 'are'}"
            f" not adopted and no longer wait{'s' if left == 1 else ''} for a decision."
            f" {_next_time(known)}"
        )
    lines.append(_replaces(known, view))
    title = _approval_title(known, decision, len(changes))
    return Sheet(
        f"{title}?",
        title,
        lines,
        [change(known, row) for row in changes[:MOST_LISTED]],
        _warnings(known, view, changes, trial),
        "/proposal",
        trial=trial,
        consent=_consent(known, changes),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )


def _next_time(known: Known) -> str:
    """When changes that are not adopted can come back, and what that costs."""
    left = known.run.budget_left
    if left == 0:
        return "No proposal is left, so they cannot be proposed again."
    cost = "" if left is None else f", which uses one of the {counted(left, 'proposal')} left"
    return f"The next proposal can contain the same changes again{cost}."


def _whole_approved(known: Known, view: ProposalView) -> Sheet:
    """A policy on features."""
    title, lines = "Approve the new policy", list[str]()
    lines.append(f"The new policy takes effect for new {known.case}s.")
    if known.worth is not None:
        lines.append(f"Expected: {phrases.gain_words(known.worth['change'], known.terms)}.")
    lines.append(_replaces(known, view))
    regions = view.rows[0].get("regions", [])
    warnings = _warnings(known, view, regions)
    if (moved_at := view.rows[0].get("drift")) is not None:
        warnings.append(phrases.drift_words(moved_at, known.terms))
    return Sheet(
        f"{title}?",
        title,
        lines,
        kinds_changed(known, view)[:MOST_LISTED],
        warnings,
        "/proposal",
        consent=_consent_to_kinds(known, regions),
    )


def _replaces(known: Known, view: ProposalView) -> str:
    """Which version comes after which."""
    return (
        f"Version {view.version + 1} replaces version {view.version} for new {known.case}s. An"
        " operator can ask to roll it back."
    )


def kinds_changed(known: Known, view: ProposalView) -> list[dict[str, Any]]:
    """The kinds of cases that a policy on features changes; see `change`."""
    found = list[dict[str, Any]]()
    for one in view.rows[0].get("regions", []):
        old, new = one["usual"] or moved(one).split(" → ")
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
        f" {known.case}s{outside}."
    ]
    if known.worth is not None:
        gain = known.worth.get("protocol") or known.worth["change"]
        found.append(f"Expected: {phrases.gain_words(gain, known.terms)}.")
    else:
        found.append("The gain of these changes together is not computed; each has its own below.")
    return found


def _approval_title(known: Known, decision: dict[str, Any], changes: int) -> str:
    """What an approval does, as a verb with its objects: changes, and what becomes of the trial."""
    what = [counted(changes, "change")] if changes else []
    fate = ""
    if known.protocol:
        now, new = _share_of(known.policies), _share_of(law_after(known, decision))
        if new == 0:
            fate = "end the trial" if now else ""
        elif decision.get("part") != "protocol":
            full = _share_of(law_after(known, unlimited(decision)))
            limit = f" for {phrases.share_words(new, known.case)}" if new < full else ""
            what.append(f"the trial{limit}")
        elif new < now:
            fate = f"limit the trial to {phrases.share_words(new, known.case)}"
    said = [f"approve {several(what)}"] if what else []
    title = several([*said, *([fate] if fate else [])] or ["approve the proposal"])
    return f"{title[:1].upper()}{title[1:]}"


def _share_of(law: np.ndarray) -> float:
    """The share of the cases in the trial of a law [members, H, S]."""
    return float(departing(law).mean())


def unlimited(decision: dict[str, Any]) -> dict[str, Any]:
    """The same decision without a limit of its trial."""
    return {name: value for name, value in decision.items() if name != "share"}


def too_small(known: Known, decision: dict[str, Any]) -> str:
    """Why a limit above 0 would end a trial; empty if it does not."""
    share = decision.get("share")
    if not (known.protocol and share and _share_of(law_after(known, unlimited(decision)))):
        return ""
    if _share_of(law_after(known, decision)):
        return ""
    members = len(known.policies)
    least = np.ceil(1000 / members) / 10
    return (
        f"a limit of {100 * share:g} % would leave nobody in the trial, because each of its"
        f" alternatives gets {100 / members:.1f} % of new {known.case}s. Type at least"
        f" {least:g}, or type 0 to end the trial"
    )


def limit_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """What a limit of the trial comes to, where that is something else than was asked for."""
    share = decision.get("share")
    if not (known.protocol and share):
        return []
    before, after = (law_after(known, one) for one in (unlimited(decision), decision))
    full, new, one = _share_of(before), _share_of(after), 100 / len(after)
    asked = f"You asked for at most {100 * share:g} %"
    if new == full:
        return [f"{asked}. The trial has {100 * full:.0f} % anyway."]
    if f"{100 * new:.0f}" == f"{100 * share:g}":
        return []
    parts = counted(int(departing(before).sum()), "alternative")
    return [
        f"{asked}; the trial has {parts} of {one:.0f} % each, so"
        f" {phrases.share_words(new, known.case)} would enter it."
    ]


def _trial_lines(known: Known, decision: dict[str, Any]) -> list[str]:
    """What becomes of the trial."""
    now, new = _share_of(known.policies), _share_of(law_after(known, decision))
    share = phrases.share_words(new, known.case)
    refused = " The proposed trial is not adopted." if decision.get("part") == "protocol" else ""
    if new == 0:
        ends = (
            f"The trial ends: {share} enters it."
            if now
            else f"The trial stays as it is: {share} enters it."
        )
        return [f"{ends}{refused}"]
    if refused and new == now:
        return [f"The trial stays as it is: {share} enter it.{refused}", _apart(known)]
    if refused:
        return [
            f"{share[:1].upper()}{share[1:]} enter the present trial (now {100 * now:.0f} %), which"
            f" is otherwise as it is.{refused}",
            _apart(known),
        ]
    lines = [
        f"{share[:1].upper()}{share[1:]}, drawn by lot, enter the trial (now {100 * now:.0f} %). It"
        " gives them the alternatives listed below."
    ]
    return [*lines, *_cost_lines(known, decision, new)]


def _apart(known: Known) -> str:
    """What approved changes mean for a trial that stays."""
    return (
        f"{known.case.capitalize()}s in the trial get what it gives now, also where the protocol"
        " changes. The table below compares the two."
    )


def _cost_lines(known: Known, decision: dict[str, Any], share: float) -> list[str]:
    """What a trial costs its cases, against the protocol that is deployed with it.

    The model was asked about the trial of the proposal beside the protocol of the proposal. It says
    nothing of that trial beside the present protocol, nor of a part of the trial.
    """
    if known.worth is None or "trial" not in known.worth:
        return []
    whole_trial = share == _share_of(law_after(known, unlimited(decision)))
    if decision.get("part") == "trial" and not _same_protocol(known, decision):
        why = "it was estimated only together with the proposed changes of the protocol"
    elif not whole_trial:
        why = "it was estimated only for the whole proposed trial"
    else:
        cost = known.worth["trial"]
        return [
            f"What the trial costs: {phrases.more(cost['mean'], known.terms)} in it, compared with"
            f" the protocol after this decision (80 % interval"
            f" {phrases.within(cost, known.terms)})."
        ]
    return [f"What this trial costs is not known: {why}."]


def _same_protocol(known: Known, decision: dict[str, Any]) -> bool:
    """Whether the rows of a decision leave the protocol as it is."""
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
        f" that it replaces the protocol for all {known.case}s outside the trial: {said}."
        if known.protocol
        else f"I know that no {known.case} was ever given this there, so nothing is known of it:"
        f" {said}."
    )


def _warnings(
    known: Known,
    view: ProposalView,
    changes: list[dict[str, Any]],
    trial: Sequence[dict[str, Any]] = (),
) -> list[str]:
    """What a reviewer should not overlook."""
    found, action = list[str](), known.terms.word("action")
    law = "protocol" if known.has_rows else "policy"
    new = sum(is_untried(row) for row in changes)
    if new:
        brings = "puts" if new == 1 else "put"
        found.append(
            f"{counted(new, 'change')} {brings} a {action} into the {law} that no {known.case}"
            " was ever given there."
        )
    first = [f"{one['new']} for {one['where']} ({one['first']})" for one in trial if one["first"]]
    if first:
        shown = "; ".join(first[:6]) + (f"; and {len(first) - 6} more" if len(first) > 6 else "")
        found.append(f"The trial gives for the first time: {shown}.")
    if unsure := [row for row in changes if row["verdict"] == "UNSURE"]:
        said = f"{counted(len(unsure), 'change', 'is', 'are')} unsure: the data cannot tell yet."
        found.append(f"{said} {_least_known(known, unsure)}".rstrip())
    worse = sum(row["verdict"] == "WORSE" for row in changes)
    if worse:
        found.append(f"{counted(worse, 'change', 'is', 'are')} likely to make things worse.")
    if view.unsettled:
        found.append(f"{counted(view.unsettled, 'report', 'is', 'are')} open and not counted in.")
    return found + _lapsing(known)


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


def _lapsing(known: Known) -> list[str]:
    """What else was asked for about the pending proposal, which a decision on it ends."""
    others = [one for one in known.motions if "proposal" in one.decision]
    return [
        f"A request of {one.by} about this proposal is waiting ({one.decision['reason']}). It"
        " lapses if you decide first, and must then be asked for again."
        for one in others
    ]


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
        lines.append(f"Nothing is forbidden. {_next_time(known)}")
    left = sum(is_of_protocol(known, row) for row in view.rows) - len(changed)
    if left:
        lines.append(f"{counted(left, 'other change', 'stays', 'stay')} undecided.")
    changes = [change(known, row) for row in changed[:MOST_LISTED]]
    title = f"Postpone {n}" if len(rows) < len(view.rows) else "Postpone everything"
    return Sheet(f"{title}?", title, lines, changes, _lapsing(known), "/proposal", "quiet",
                 unlisted=max(0, len(changed) - MOST_LISTED))  # fmt: skip


def _stays(known: Known, view: ProposalView) -> str:
    """What a proposal that is postponed leaves as it is, and until when."""
    until = "until the learner proposes again" if known.run.budget_left != 0 else "for good"
    actions = f"The {known.terms.word('action')}s of today stay" if known.has_rows else "It stays"
    return f"Version {view.version} stays in use. {actions} {until}."


def _whole_postponed(known: Known, view: ProposalView) -> Sheet:
    """A policy on features that is not deployed for now."""
    title, changes = "Postpone the new policy", kinds_changed(known, view)[:MOST_LISTED]
    lines = [_stays(known, view)]
    return Sheet(f"{title}?", title, lines, changes, _lapsing(known), "/proposal", "quiet")


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
    instead, actions = decision.get("instead"), decision["actions"]
    lines = [
        f"No new {known.case} is given {names} for: {all_of_them}. It cannot be proposed there."
        if known.has_rows
        else f"No new {known.case} is given {names}. It cannot be proposed."
    ]
    labels, changes, freed = known.terms.labels["action"], list[dict[str, str]](), list[list[int]]()
    if not known.has_rows and known.policies.allowed[:, actions].any():
        lines.append(
            "The deployed policy may give it now. A new version replaces it at once and gives its"
            f" next best {known.terms.word('action')} instead."
        )
    for h, x in decision["rows"] if known.has_rows else ():
        played = known.policies[:, h, x].tolist()
        if played[0] in actions and instead is not None:
            facts = {"where": known.place(h, x), "old": labels[played[0]], "new": labels[instead]}
            changes.append(facts | _BLANK)
        elif set(played) & set(actions):
            freed.append([h, x])
    if freed:
        where_freed = phrases.places_words(known.terms, freed)
        lines.append(f"The trial gave it there, too. It follows the protocol for: {where_freed}.")
    if changes:
        lines.append(
            f"{names} is given there now. A new version replaces it at once, as listed below."
        )
    if known.view is not None:
        lines.append("The pending proposal is made again without it. That costs no budget.")
    lines.append("A later decision, with a reason, can lift this veto.")
    title = f"Forbid {names} for {where}"
    return Sheet(f"{title}?", title, lines, changes[:MOST_LISTED], (), "/map", "stop")


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
    lines = [
        f"Version {now + 1} will be deployed and do what version {to} did. It replaces version"
        f" {now}.",
        "Nothing that was learned is lost."
        + " The learner will not propose the same changes again for a while." * known.has_rows,
    ]
    if known.view is not None:
        lines.append("The pending proposal is withdrawn. The next one does not use up the budget.")
    changes = list[dict[str, str]]()
    if known.earlier is not None and known.has_rows:
        labels = known.terms.labels["action"]
        for h, x in np.argwhere(known.policies[0] != known.earlier[0]).tolist():
            old, new = (labels[one[0, h, x]] for one in (known.policies, known.earlier))
            facts = {"where": known.place(h, x), "old": old, "new": new}
            changes.append(facts | _BLANK)
        changed = f"{counted(len(changes), 'change')} of the protocol, as listed below."
        lines.insert(1, changed if changes else "The protocol does not change.")
        share = float(departing(known.earlier).mean())
        if known.protocol:
            enter = phrases.share_words(share, known.case)
            lines.insert(2, f"The trial of version {to} runs again: {enter} {_enter(share)} it.")
    title = f"Roll back to version {to}"
    return Sheet(
        f"{title}?",
        title,
        lines,
        changes[:MOST_LISTED],
        (),
        "/timeline",
        "stop",
        trial=_trial_of(known, known.earlier),
        unlisted=max(0, len(changes) - MOST_LISTED),
    )


def _trial_of(known: Known, law: np.ndarray | None) -> list[dict[str, Any]]:
    """What the trial of a version gives, where there is a protocol."""
    if law is None or not known.protocol:
        return []
    return phrases.alternatives(known.terms, law, known.visits)


def thawed(known: Known, decision: dict[str, Any]) -> Sheet:
    """A paused run that goes on."""
    paused, case = known.run.paused or {}, known.terms.word("episode")
    lines = [
        f"{paused.get('by', '')} paused the run: {paused.get('reason', '')}.",
        f"Sites can enrol {case}s and report again, and decisions are possible.",
    ]
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
    now, law = _share_of(known.policies), known.policies
    share = _share_of(limited_law(law, law, None, decision["share"]))
    title = "End the trial" if share == 0 else f"Cap the trial at {100 * share:.0f} %"
    enter = phrases.share_words(share, known.case)
    lines = [
        f"{enter[:1].upper()}{enter[1:]} {_enter(share)} the trial (now {100 * now:.0f} %)."
        f" {known.case.capitalize()}s who are in it already keep the plan that they were given."
    ]
    if known.view is not None:
        lines.append("The pending proposal is withdrawn and made again. That costs no budget.")
    return Sheet(f"{title}?", title, lines, (), (), "/timeline", "stop")


def of_request(known: Known, request: MotionView) -> Sheet:
    """What another person asks for."""
    others = [one for one in known.motions if one.number != request.number]
    sheet: Sheet = globals()[request.kind](known._replace(motions=others), request.decision)
    asked = f"{request.by} asks for this: {request.decision['reason']}"
    after = request.needed - 1
    last = (
        "With your agreement it takes effect at once."
        if after <= 0
        else f"After you, {counted(after, 'more reviewer')} must agree."
    )
    return sheet._replace(
        button=f"Agree: {sheet.button[:1].lower()}{sheet.button[1:]}",
        lines=[asked, *sheet.lines, last],
    )
