"""What a decision would do, in the words of the run: the page on which somebody confirms it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lowswitch.ledger import ProposalView
from lowswitch.ledger.responses import MotionView, Status
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import law, moved, percent, region_notes, row_notes, untried
from lowswitch.policy.tables import departing
from lowswitch.review.proposals import WHOLE
from lowswitch.show.text import counted

MOST_LISTED = 60  # changes on a page that is confirmed


class Known(NamedTuple):
    """What a page knows of the run when it describes a decision."""

    terms: Terms
    run: Status
    view: ProposalView | None
    policies: Any  # deployed: tables [members, H, S], or a LinearPolicy
    protocol: bool  # whether the first of them is a protocol, and the others a trial
    worth: dict[str, Any] | None = None  # of the rows that the decision is about
    earlier: Any = None  # the version that a rollback deploys again

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


class Sheet(NamedTuple):
    """A decision before it is confirmed."""

    title: str
    button: str  # a verb with its object
    lines: Sequence[str] = ()  # what happens
    changes: Sequence[dict[str, str]] = ()  # where, old, new, gain, sure, note
    warnings: Sequence[str] = ()
    back: str = "/"
    css: str = "go"
    has_reason: bool = True
    hint: str = "for example: minutes of 3 May, item 2"


def place(terms: Terms, h: int, x: int) -> str:
    """A row by its labels: finding 3, visit 2."""
    if (h, x) == WHOLE:
        return f"all {terms.word('episode')}s"
    return f"{terms.labels['state'][x]}, {terms.labels['step'][h]}"


def amount(value: float) -> str:
    """A gain with its sign."""
    shown = f"{value:+.3f}"
    return "0.000" if float(shown) == 0 else shown


def gain_words(gain: dict[str, Any], terms: Terms) -> str:
    """A gain with its interval, and how probable an improvement is."""
    low, high = gain["within_80"]
    return (
        f"{amount(gain['mean'])} {terms.word('reward')} per {terms.word('episode')} (80 % interval"
        f" {amount(low)} to {amount(high)}); an improvement with a probability of"
        f" {percent(gain['better'])}"
    )


def several(names: Sequence[str], word: str = "and") -> str:
    """Names as a sentence lists them."""
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def plural(word: str, n: int) -> str:
    """A word of the run, for one or several."""
    return word if n == 1 else f"{word}s"


# ---- rows of a proposal --------------------------------------------------------------------------


def is_of_protocol(known: Known, row: dict[str, Any]) -> bool:
    """Whether a row changes the protocol; without a trial every row does."""
    return not known.protocol or bool(row["from"][0] != row["to"][0])


def change(known: Known, row: dict[str, Any]) -> dict[str, str]:
    """One change of the protocol, as people read it."""
    names, gain = known.terms.labels["action"], row.get("gain")
    if known.protocol:
        old, new = names[row["from"][0]], names[row["to"][0]]
    else:
        old, new = law(row["now"]["law"]), law(row["proposed"]["law"])
    notes = row_notes(row) if "tries" in row else [untried(row)] * bool(untried(row))
    return {
        "where": known.place(row["step"], row["state"]),
        "old": old,
        "new": new,
        "gain": "" if gain is None else amount(gain["mean"]),
        "sure": "" if row.get("probability") is None else percent(row["probability"]),
        "note": "; ".join(notes),
        "verdict": row["verdict"],
    }


def trial_shares(known: Known, view: ProposalView) -> tuple[float, float]:
    """The share of the cases in the trial, now and as proposed."""
    after = known.policies.copy()
    for row in view.rows:
        after[:, row["step"], row["state"]] = row["to"]
    return float(departing(known.policies).mean()), float(departing(after).mean())


def share_words(share: float) -> str:
    """A share of the cases in whole percent, or as one in so many."""
    return "no" if share == 0 else f"{100 * share:.0f} % of the"


# ---- one sheet for each kind of decision, by the name of its event ------------------------------


def approved(known: Known, decision: dict[str, Any]) -> Sheet:
    """Rows of the pending proposal, of both parts or of one."""
    view, terms = known.view, known.terms
    assert view is not None
    if not known.has_rows:
        return _whole_approved(known, view)
    part, keys = decision.get("part"), {tuple(row) for row in decision["rows"]}
    rows = [row for row in view.rows if (row["step"], row["state"]) in keys]
    changed = [row for row in rows if is_of_protocol(known, row) and part != "trial"]
    cases, lines = f"{terms.word('episode')}s", list[str]()
    what = [counted(len(changed), "change")] if changed else []
    if changed:
        does = "takes" if len(changed) == 1 else "take"
        lines.append(
            f"{counted(len(changed), 'change')} of the protocol {does} effect for new {cases}"
            f"{' outside of the trial' if known.protocol else ''}."
        )
    if known.worth is not None and part != "trial":
        gain = known.worth.get("protocol") or known.worth["change"]
        lines.append(f"Expected gain: {gain_words(gain, terms)}.")
    elif changed:
        lines.append("The gain of this selection together is not computed; see each change.")
    if known.protocol:
        lines += _trial_lines(known, view, part, decision.get("share"), what)
        if not changed:
            lines.append("The protocol stays as it is.")
    left = len(view.rows) - len(rows)
    if left:
        lines.append(f"{counted(left, 'other row')} of the proposal stay undecided.")
    lines.append(
        f"Version {view.version} is replaced by version {view.version + 1}. An operator can ask to"
        " roll it back later."
    )
    title = f"Approve {several(what)}" if what else "Approve the trial"
    return Sheet(
        f"{title}?",
        title,
        lines,
        [change(known, row) for row in changed[:MOST_LISTED]],
        _warnings(known, view, changed),
        "/proposal",
    )


def _whole_approved(known: Known, view: ProposalView) -> Sheet:
    """A policy on features."""
    terms, title = known.terms, "Approve the new policy"
    lines = [f"The new policy takes effect for new {terms.word('episode')}s."]
    if known.worth is not None:
        lines.append(f"Expected gain: {gain_words(known.worth['change'], terms)}.")
    lines.append(
        f"Version {view.version} is replaced by version {view.version + 1}. An operator can ask to"
        " roll it back later."
    )
    regions = view.rows[0].get("regions", [])
    changed, warnings = kinds_changed(view), _warnings(known, view, regions)
    return Sheet(f"{title}?", title, lines, changed[:MOST_LISTED], warnings, "/proposal")


def kinds_changed(view: ProposalView) -> list[dict[str, str]]:
    """The kinds of cases that a policy on features changes."""
    found = list[dict[str, str]]()
    for one in view.rows[0].get("regions", []):
        old, new = one["usual"] or moved(one).split(" → ")
        gain = one["gain"]
        found.append(
            {
                "where": f"{one['where']} ({100 * one['share']:.0f} %)",
                "old": old,
                "new": new,
                "gain": "" if gain is None else amount(gain["mean"]),
                "sure": "" if one["probability"] is None else percent(one["probability"]),
                "note": "; ".join(region_notes(one)),
                "verdict": one["verdict"] or "",
            }
        )
    return found


def _trial_lines(
    known: Known, view: ProposalView, part: str | None, cap: float | None, what: list[str]
) -> list[str]:
    """What becomes of the trial."""
    cases = f"{known.terms.word('episode')}s"
    now, new = trial_shares(known, view)
    if part == "protocol":
        stays = f"The trial stays as it is: {share_words(now)} {cases} are in it."
        is_new = [row for row in view.rows if not is_of_protocol(known, row)] or new != now
        return [stays, "The proposed trial is not adopted."] if is_new else [stays]
    if cap is not None:
        new = min(new, cap)
    what.append("the trial")
    lines = [f"The trial changes: {share_words(new)} new {cases} enter it (now {100 * now:.0f} %)."]
    if known.worth is not None and "trial" in known.worth:
        cost = known.worth["trial"]
        low, high = cost["within_80"]
        lines.append(
            f"Expected cost of the trial: {amount(cost['mean'])} {known.terms.word('reward')} per"
            f" {known.terms.word('episode')} in it, compared with the protocol (80 % interval"
            f" {amount(low)} to {amount(high)})."
        )
    return lines


def _warnings(known: Known, view: ProposalView, changed: list[dict[str, Any]]) -> list[str]:
    """What a reviewer should not overlook."""
    found, action = list[str](), known.terms.word("action")
    new = [row for row in changed if row.get("untried") or row.get("never_tried")]
    if new:
        is_new = "brings a" if len(new) == 1 else "bring a"
        found.append(f"{counted(len(new), 'change')} {is_new} {action} that was never tried there.")
    worse = sum(row["verdict"] == "WORSE" for row in changed)
    if worse:
        found.append(f"{counted(worse, 'change', 'makes', 'make')} things worse, probably.")
    if view.unsettled:
        found.append(f"{counted(view.unsettled, 'report', 'is', 'are')} open and not counted in.")
    return found


def rejected(known: Known, decision: dict[str, Any]) -> Sheet:
    """Rows that stay as they are for now, or new actions that are forbidden."""
    view = known.view
    assert view is not None
    keys = {tuple(row) for row in decision["rows"]}
    rows = [row for row in view.rows if (row["step"], row["state"]) in keys]
    n = counted(len(rows), "change") if known.has_rows else "the new policy"
    if decision.get("forever"):
        return vetoed(known, decision | {"actions": decision.get("actions") or _new(rows)})
    until = "until the learner proposes anew" if known.run.budget_left != 0 else "for good"
    stays = "These rows keep their protocol" if known.has_rows else "It stays"
    lines = [f"Version {view.version} stays deployed. {stays} {until}."]
    left = len(view.rows) - len(rows)
    if left:
        lines.append(f"{counted(left, 'other row')} of the proposal stay undecided.")
    changes = kinds_changed(view)
    if known.has_rows:
        changes = [change(known, row) for row in rows[:MOST_LISTED]]
    return Sheet(f"Postpone {n}?", f"Postpone {n}", lines, changes, (), "/proposal", "quiet")


def _new(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({action for row in rows for action in {*row["to"]} - {*row["from"]}})


def _named(known: Known, decision: dict[str, Any]) -> tuple[str, str, str]:
    """The actions of a veto, the rows, and where that is."""
    names = several([known.terms.labels["action"][a] for a in decision["actions"]])
    rows = [known.place(h, x) for h, x in decision["rows"]]
    where = rows[0] if len(rows) == 1 else f"{len(rows)} rows"
    return names, where, "; ".join(rows[:MOST_LISTED])


def vetoed(known: Known, decision: dict[str, Any]) -> Sheet:
    """Actions that are forbidden in rows."""
    names, where, all_of_them = _named(known, decision)
    instead, actions = decision.get("instead"), decision["actions"]
    lines = [f"{names} can no longer be proposed or deployed for: {all_of_them}."]
    labels, changes = known.terms.labels["action"], list[dict[str, str]]()
    if not known.has_rows and known.policies.allowed[:, actions].any():
        lines.append(
            "The deployed policy may give it now. A new version replaces it at once and gives its"
            f" next best {known.terms.word('action')} instead."
        )
    for h, x in decision["rows"] if known.has_rows else ():
        played = known.policies[:, h, x].tolist()
        if played[0] in actions and instead is not None:
            facts = {"where": known.place(h, x), "old": labels[played[0]], "new": labels[instead]}
            changes.append(facts | dict.fromkeys(("gain", "sure", "note", "verdict"), ""))
        elif set(played) & set(actions):
            lines.append(f"In the trial, {known.place(h, x)} follows the protocol instead.")
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
        + " The learner will not propose to change these rows again for a while." * known.has_rows,
    ]
    if known.view is not None:
        lines.append("The pending proposal is withdrawn. The next one does not use up the budget.")
    changes = list[dict[str, str]]()
    if known.earlier is not None and known.has_rows:
        labels = known.terms.labels["action"]
        for h, x in np.argwhere(known.policies[0] != known.earlier[0]).tolist():
            old, new = (labels[one[0, h, x]] for one in (known.policies, known.earlier))
            facts = {"where": known.place(h, x), "old": old, "new": new}
            changes.append(facts | dict.fromkeys(("gain", "sure", "note", "verdict"), ""))
        lines.insert(1, f"{counted(len(changes), 'row', 'changes', 'change')} back, as listed.")
    title = f"Roll back to version {to}"
    return Sheet(f"{title}?", title, lines, changes[:MOST_LISTED], (), "/timeline", "stop")


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
    share, cases = decision["share"], f"{known.terms.word('episode')}s"
    now = departing(known.policies).mean() if known.has_rows else 0.0
    title = "End the trial" if share == 0 else f"Cap the trial at {100 * share:.0f} %"
    lines = [f"{share_words(share).capitalize()} new {cases} enter the trial (now {now:.0%})."]
    if known.view is not None:
        lines.append("The pending proposal is withdrawn and made again. That costs no budget.")
    return Sheet(f"{title}?", title, lines, (), (), "/timeline", "stop")


def of_request(known: Known, request: MotionView) -> Sheet:
    """What another person asks for."""
    sheet: Sheet = globals()[request.kind](known, request.decision)
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
