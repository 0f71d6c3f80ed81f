"""The page on which a decision is confirmed, and the words that every kind of decision needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lowswitch.ledger.events import canonical, digest
from lowswitch.ledger.responses import WITHDRAWN
from lowswitch.ledger.text import (
    moved,
    percent,
    region_notes,
    region_tries,
    row_notes,
    untried,
)
from lowswitch.service import phrases
from lowswitch.service.effects import (
    Known,
    given_unlearned,
    is_untried,
    sides,
)
from lowswitch.service.phrases import several
from lowswitch.show.text import counted

WITHDRAWN_WORDS = (
    "The numbers of this proposal were computed before a part of it was approved, so they are not"
    " shown. Ask for another proposal to have them computed again; it replaces this one."
)
MOST_LISTED = 200  # lines of changes on a page that is confirmed
NOT_LEARNED = "not yet learned from"  # what nobody learned so far was given, but others were
FEW = 20  # cases: of an action that fewer were given, the page says so


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
    may_shrink: bool = False  # whether less of it may be left when somebody confirms
    identity: str = ""  # of the policy that it deploys, where kinds of cases shift with each report

    @property
    def read(self) -> str:
        """A hash of what the confirming person has read: the decision, all its changes, and the
        requests that wait beside it.
        """
        changes = [[one["where"], one["old"], one["new"]] for one in self.changes]
        names = ("where", "steps", "old", "new", "share")
        trial = [[one[name] for name in names] for one in self.trial]
        shown = [self.identity] if self.identity else [changes, trial]
        title = "" if self.may_shrink else self.title
        what: list[Any] = [title, self.base, *shown, self.unlisted, bool(self.consent)]
        what += [list(self.replaces), list(self.beside), list(self.bound)]
        return digest(canonical(what)) if self.has_reason else ""


# ---- changes -------------------------------------------------------------------------------------


def change(known: Known, row: dict[str, Any]) -> dict[str, Any]:
    """One change of the protocol in words."""
    gain, terms = row.get("gain"), known.terms
    old, new = sides(known, row)
    notes = row_notes(row | {"hangs_on_unsettled": False}) if "tries" in row else [untried(row)]
    if given := given_unlearned(known, row):
        notes = [f"not yet learned from; {given}", *(notes[1:] if row.get("untried") else [])]
    return {
        "where": known.place(row["step"], row["state"]),
        "old": old,
        "new": new,
        "gain": "" if gain is None else phrases.amount(gain["mean"], terms),
        "these": "",
        "between": "" if gain is None else phrases.within(gain, terms),
        "sure": "" if row.get("probability") is None else percent(row["probability"]),
        "given": _given(row),
        "few": _few(known, row),
        "note": "; ".join(filter(None, notes)),
        "verdict": row["verdict"],
        "label": NOT_LEARNED if given and row["verdict"] == "UNTRIED" else "",
        "turns": bool(row["hangs_on_unsettled"]),
    }


def _few(known: Known, row: dict[str, Any]) -> str:
    """The warning that few cases received a proposed action; empty if many did, or none."""
    given = row["proposed"]["visits"]
    return f"only {counted(given, known.case)}" if 0 < given < FEW else ""


def _given(row: dict[str, Any]) -> str:
    """How often the current and the proposed action of a row were given."""
    return f"{row['now']['visits']:,} → {row['proposed']['visits']:,}"


def moving_kinds(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The kinds of cases of a row whose actions change, as far as percentages show it."""
    sides_of = ((one, *moved(one).split(" → ")) for one in row.get("regions", []))
    return [one for one, old, new in sides_of if old != new]


def kinds_changed(known: Known, regions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kinds of cases that a policy on features changes, in words; see `change`."""
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
                "these": "" if gain is None else phrases.among_these(one, known.terms),
                "between": "" if gain is None else phrases.within(gain, known.terms),
                "sure": "" if one["probability"] is None else percent(one["probability"]),
                "given": region_tries(one) or "nothing",
                "few": "",
                "note": "; ".join(region_notes(one)),
                "verdict": one["verdict"] or "",
                "label": "",
                "turns": False,
            }
        )
    return found


# ---- what they mean ------------------------------------------------------------------------------


def kinds_in_trial(known: Known, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a trial of a policy on features gives to which kinds of cases."""
    if not (known.protocol and "regions" in row and row["trial"]["proposed"]):
        return []
    return phrases.kinds_in_trial(known.terms, row)


def fidelity_lines(row: Mapping[str, Any]) -> list[str]:
    """How well the kinds of cases that a page lists describe the change."""
    if row.get("fidelity") is None:
        return []
    right = f"{100 * row['fidelity']:.0f} %"
    return [f"The table of kinds below describes {right} of the changes correctly."]


def expected_lines(known: Known, changes: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """What changes of the protocol are expected to gain together.

    changes: the rows, if they have evidence. A single one has the number that the table shows.
    """
    outside = " outside the trial" if known.protocol else ""
    if len(changes) == 1 and (own := changes[0].get("gain")):
        gain = own | {"better": changes[0]["probability"]}
        return [f"Expected{outside}: {phrases.gain_words(gain, known.terms)}."]
    if known.worth is None and known.view is not None and known.view.numbers == WITHDRAWN:
        return [f"What to expect of this is not known. {WITHDRAWN_WORDS}"]
    if known.worth is None:
        return ["The gain of these changes together is not computed; each has its own below."]
    gain = known.worth.get("protocol") or known.worth["change"]
    return [f"Expected{outside}: {phrases.gain_words(gain, known.terms)}."]


def trial_of(known: Known, law: Any) -> list[dict[str, Any]]:
    """What the trial of a version gives, where there is a protocol."""
    if law is None or not (known.protocol and known.has_rows):
        return []
    return phrases.alternatives(known.terms, law, known.visits, known.policies, known.waits)


def enter_words(share: float) -> str:
    return "enters" if share == 0 else "enter"


def consent_to(known: Known, changes: list[dict[str, Any]]) -> str:
    """What a reviewer must say by itself: nothing is known of what would replace the protocol."""
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
    said += "".join(f". {line}" for line in waiting_lines(known, new))
    nobody = f"I know that no {known.case} learned so far was given this there, so nothing is known"
    if not known.protocol:
        return f"{nobody} of it: {said}."
    return (
        f"{nobody} of it, and that it replaces the protocol for all {known.cases} outside the"
        f" trial: {said}."
    )


def waiting_lines(known: Known, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Which of these rows bring what was given already, though the learner knows nothing of it."""
    found = [(row, given_unlearned(known, row)) for row in rows]
    return [
        f"Not yet learned from: {sides(known, row)[1]} for {known.place(row['step'], row['state'])}"
        f", {given}"
        for row, given in found
        if given
    ]


def consent_to_kinds(known: Known, regions: Sequence[dict[str, Any]]) -> str:
    """The same as `_consent`, of the kinds of cases of a policy on features."""
    new = [f"{several(one['untried'])} for {one['where']}" for one in regions if is_untried(one)]
    if not new:
        return ""
    said = "; ".join(new)
    return (
        f"I know that no {known.case} of these kinds learned so far was given this, so nothing is"
        f" known of it: {said}."
    )


def warnings_of(known: Known, changes: list[dict[str, Any]]) -> list[str]:
    """Changes that are untried, unsure or worse."""
    found = untried_warning(known, changes)
    if unsure := [row for row in changes if row["verdict"] == "UNSURE"]:
        said = f"{counted(len(unsure), 'change', 'is', 'are')} unsure: the data cannot tell yet."
        found.append(f"{said} {_least_known(known, unsure)}".rstrip())
    worse = sum(row["verdict"] == "WORSE" for row in changes)
    if worse:
        found.append(f"{counted(worse, 'change', 'is', 'are')} likely to make things worse.")
    return found


def untried_warning(known: Known, changes: list[dict[str, Any]]) -> list[str]:
    """That changes bring what nobody learned so far was given."""
    rows = [row for row in changes if is_untried(row)]
    new = len(rows)
    law = "protocol" if known.has_rows or known.protocol else "policy"
    if not new:
        return []
    brings, action = "puts" if new == 1 else "put", known.terms.word("action")
    return [
        f"{counted(new, 'change')} {brings} a {action} into the {law} that no {known.case} learned"
        " so far was given there.",
        *(f"{line}." for line in waiting_lines(known, rows)),
    ]


def _least_known(known: Known, changes: list[dict[str, Any]]) -> str:
    """The change backed by the fewest cases; empty with features, whose kinds list them."""
    if not known.has_rows:
        return ""
    least = min(changes, key=lambda row: row["proposed"]["visits"])
    given = counted(least["proposed"]["visits"], known.case)
    return (
        f"The least is known of {sides(known, least)[1]} for"
        f" {known.place(least['step'], least['state'])}, given to {given} there."
    )


def first_given(known: Known, trial: Sequence[dict[str, Any]]) -> list[str]:
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
