"""The content of the page of a proposal: the whole, the changes of the protocol, and the trial."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lowswitch.ledger import ProposalView
from lowswitch.ledger.events import LEDGER
from lowswitch.ledger.evidence import BY_WORTH
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import WORTHS, percent
from lowswitch.service import approvals, display, effects, news, phrases, sheets
from lowswitch.service.effects import Known
from lowswitch.service.journal import Journal, Mark
from lowswitch.service.phrases import LABELS
from lowswitch.service.precedents import decided, unaware
from lowswitch.show.text import counted

ROWS_PER_PAGE = 120  # changes on a page
SMALL = 0.1  # of the largest gain: smaller gains and losses are folded away
MOST_LINES = 8  # that sum up the changes, or the trial
MOST_ALTERNATIVES = 100  # of a trial that are listed
WAYS = {"state", "step", "gain"}  # to group changes by
AT_LEAST = {"IMPROVE": ("IMPROVE",), "LIKELY": ("IMPROVE", "LIKELY")}  # verdicts as good as one


def proposal_facts(
    known: Known,
    view: ProposalView,
    asked: dict[str, str],
    kept: list[str],
    page: int,
    new: Collection[tuple[int, int]] = (),
) -> dict[str, Any]:
    """The content of the page; kept: the changes selected so far, as step:state.

    new: the changes that an earlier proposal did not have.
    """
    rows = [row for row in view.rows if effects.is_of_protocol(known, row)]
    if view.rule < BY_WORTH:  # newer ones come by what they gain
        rows.sort(key=lambda row: (row["verdict"] != "IMPROVE", -row["reach"]))
    chosen = _chosen(rows, asked.get("select", ""), kept)
    most = max((row["gain"]["mean"] for row in rows if row.get("gain")), default=0.0)
    ticked = set(chosen)
    shown = _filtered(rows, asked)
    pages = max(1, -(-len(shown) // ROWS_PER_PAGE))
    page = min(max(page, 1), pages)
    here = shown[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    some = [_line(known, row, most, ticked, new) for row in here]
    counts = {word: sum(row["verdict"] == word for row in rows) for word in LABELS}
    trial = _trial(known, view) if known.protocol else None
    listed, way = {line["key"] for line in some}, asked.get("group", "state")
    return {
        "changes": len(rows),
        "title": title(len(rows), trial),
        "summary": _summary(known, rows),
        "taken_back": approvals.taken_back(known, rows, again=True),
        "withdrawn": sheets.WITHDRAWN_WORDS,
        "unaware": unaware(known.terms, known.precedents),
        "found": len(shown),
        "page": page,
        "pages": pages,
        "groups": _groups([line for line in some if not line["small"]], way),
        "small": _groups([line for line in some if line["small"]], way),
        "small_count": sum(line["small"] for line in some),
        "elsewhere": [key for key in chosen if key not in listed],
        "counts": {word: n for word, n in counts.items() if n},
        "worth": worth_words(known),
        "all_worth": worth_words(known, "change") if "protocol" in (known.worth or {}) else {},
        "details": _details(known, view),
        "trial": trial,
        "untried": _summary(known, [row for row in rows if effects.is_untried(row)]),
        "waiting": sheets.waiting_lines(known, [row for row in rows if effects.is_untried(row)]),
        "unread": effects.unread(known, view),
        "turning": sum(bool(row.get("hangs_on_unsettled")) for row in rows),
        "options": _options(known, len(rows), counts, trial),
    }


def headline(known: Known, view: ProposalView) -> dict[str, Any]:
    """A proposal in a few words, for the status page."""
    if not known.has_rows:
        usual = view.rows[0].get("usual_changes")
        return {
            "usual": "" if usual is None else f"{100 * usual:.0f} %",
            "big": effects.proposal_title(known, view.rows[0]),
            "rest": "",
            "worth": worth_words(known, "change"),
            "protocol": {},
        }
    n = sum(effects.is_of_protocol(known, row) for row in view.rows)
    trial = _trial(known, view) if known.protocol else None
    return {
        "usual": "",
        "big": counted(n, "change") if n else title(n, trial),
        "rest": title(n, trial).removeprefix(counted(n, "change")) if n else "",
        "worth": worth_words(known, "change"),
        "protocol": worth_words(known) if n and "protocol" in (known.worth or {}) else {},
    }


def title(changes: int, trial: dict[str, Any] | None) -> str:
    """A proposal in a few words: its changes, and the effect on the trial."""
    what = f"{counted(changes, 'change')} of the protocol" if changes else ""
    if trial is None:
        return what
    fate = "a trial" if trial["new"] else "the end of the trial"
    if not what:
        return fate[:1].upper() + fate[1:]
    return f"{what} and a trial" if trial["new"] else f"{what}, and the end of the trial"


def _chosen(rows: list[dict[str, Any]], select: str, kept: list[str]) -> list[str]:
    """The selected changes: the current selection, all of a kind, or none."""
    if select == "none":
        return []
    more = [_key(row) for row in rows if select in ("all", row["verdict"])] if select else []
    proposed = {_key(row) for row in rows}
    return [key for key in dict.fromkeys([*kept, *more]) if key in proposed]


def _key(row: dict[str, Any]) -> str:
    return f"{row['step']}:{row['state']}"


def _filtered(rows: list[dict[str, Any]], asked: dict[str, str]) -> list[dict[str, Any]]:
    """The rows with a verdict, and those that contain some words."""
    word, part = asked.get("word", ""), asked.get("search", "").lower()
    return [row for row in rows if word in ("", row["verdict"]) and part in _searched(row).lower()]


def _searched(row: dict[str, Any]) -> str:
    sides = (*row["now"]["law"], *row["proposed"]["law"])
    return " ".join((row["step_label"], row["state_label"], *sides))


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["step"], row["state"]


def _line(
    known: Known,
    row: dict[str, Any],
    most: float,
    chosen: set[str],
    new: Collection[tuple[int, int]],
) -> dict[str, Any]:
    """One change of the protocol, with the keys that sort it on the page."""
    key, gain, past = _key(row), row.get("gain"), known.precedents.changes.get(_place(row))
    reverses = past is not None and past.old == row["to"][0]
    turned_down = [one for one in row["before"] if one["kind"] != "approved"]
    return sheets.change(known, row) | {
        "key": key,
        "step": row["step"],
        "state": row["state"],
        "step_label": row["step_label"],
        "state_label": row["state_label"],
        "mean": 0.0 if gain is None else gain["mean"],
        "before": _before_words(known, row, turned_down[-1]) if turned_down else "",
        "past": "" if past is None else news.past_words(known, row, past),
        "fresh": _place(row) in new,
        "reverses": reverses,
        "ticked": key in chosen,
        "small": is_small(row, most) and not (reverses or _place(row) in new),
    }


def is_small(row: dict[str, Any], most: float) -> bool:
    """Whether a change is folded away: it gains or loses little, and what it gives was tried."""
    gain = row.get("gain")
    return gain is not None and abs(gain["mean"]) < SMALL * most and not effects.is_untried(row)


def _before_words(known: Known, row: dict[str, Any], one: dict[str, Any]) -> str:
    """The earlier decisions in a row that were not approvals."""
    names = [known.terms.labels["action"][a] for a in one.get("actions", [])]
    what = phrases.several(names) if names else f"a {known.terms.word('action')}"
    is_veto = one["kind"] == "vetoed" or one.get("forever")
    did = f"{what} was forbidden here" if is_veto else "postponed"
    did = f"{what} was allowed again here" if one["kind"] == "lifted" else did
    who = known.precedents.people.get(one["event"], one["by"])
    said = f"{did[:1].upper()}{did[1:]} on {one['time'][:10]} by {who}."
    lifts = [known.precedents.lifts.get((*_place(row), a)) for a in one.get("actions", [])]
    lifted = next((mark for mark in lifts if mark is not None), None)
    if is_veto and lifted is not None and lifted.seq > one["event"] and all(lifts):
        said += f" Allowed again since, on {lifted.time[:10]}, by {display.who(lifted)}."
    return said


def _groups(lines: list[dict[str, Any]], by: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Changes grouped by state or by step, the largest gains first."""
    found = dict[str, list[dict[str, Any]]]()
    for line in lines:
        name = {"step": line["step_label"], "gain": ""}.get(by, line["state_label"])
        found.setdefault(name, []).append(line)
    return sorted(found.items(), key=lambda pair: -sum(line["mean"] for line in pair[1]))


def _summary(known: Known, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The changes in a few lines, and the number of changes left out."""
    lines = phrases.change_lines(
        known.terms,
        [phrases.Change(row["step"], row["state"], *effects.sides(known, row)) for row in rows],
    )
    rest = sum(line["count"] for line in lines[MOST_LINES:])
    return {"lines": lines[:MOST_LINES], "rest": rest, "count": len(rows)}


def worth_words(known: Known, first: str = "protocol") -> dict[str, Any]:
    """The gain of a proposal, or of its selected part, in words.

    first: the comparison to state, if it was made; otherwise everything together.
    """
    gains = known.worth or {}
    gain = gains.get(first) or gains.get("change")
    if gain is None:
        return {}
    terms = known.terms
    return {
        "more": phrases.more(gain["mean"], terms),
        "within": phrases.between(gain, terms),
        "sure": percent(gain["better"]),
    }


def _details(known: Known, view: ProposalView) -> list[tuple[str, ...]]:
    """All comparisons of a proposal, with both intervals."""
    found, terms = list[tuple[str, ...]](), known.terms
    for name, said in WORTHS.items():
        if view.worth is not None and name in view.worth:
            gain = view.worth[name]
            ends = (
                " to ".join(phrases.amount(end, terms) for end in gain[one])
                for one in ("within_80", "within_95")
            )
            mean = phrases.amount(gain["mean"], terms)
            found.append((said, mean, *ends, percent(gain["better"])))
    return found


def _trial(known: Known, view: ProposalView) -> dict[str, Any] | None:
    """The trial of a proposal: its share, who would receive what, and its cost."""
    after = effects.law_after(known, effects.whole(view))
    decision = effects.whole(view) | {"part": "trial"}
    now, new = (phrases.share_of(law) for law in (known.policies, after))
    lines, present, alone = (
        phrases.alternatives(known.terms, law, known.visits, known.policies, known.waits)
        for law in (after, known.policies, effects.law_after(known, decision))
    )
    if lines == present and now == new:
        return None
    cost, states = (known.worth or {}).get("trial"), phrases.by_state(lines)
    return {
        "alone": alone[:MOST_ALTERNATIVES] if alone != lines else [],
        "now": now,
        "new": new,
        "lines": lines[:MOST_ALTERNATIVES],
        "rest": max(0, len(lines) - MOST_ALTERNATIVES),
        "states": states[:MOST_LINES],
        "more_states": max(0, len(states) - MOST_LINES),
        "first": [line for line in lines if line["first"]],
        "cost": None if cost is None else phrases.more(cost["mean"], known.terms),
        "within": None if cost is None else phrases.between(cost, known.terms),
        "gains": cost is not None and cost["mean"] > 0,
        "running": known.running and phrases.more(known.running["mean"], known.terms),
    }


def _options(
    known: Known, changes: int, counts: dict[str, int], trial: dict[str, Any] | None
) -> list[tuple[str, str]]:
    """The available decisions; the confirmation page says what each would change."""
    all_of_them, action = counted(changes, "change"), known.terms.word("action")
    found, keep = list[tuple[str, str]](), ""
    runs = known.protocol and phrases.share_of(known.policies) > 0
    if known.protocol:
        keep = ", keep the present trial" if runs else ", without a trial"
    new = "the proposed trial" if trial and trial["new"] else ""
    if trial and changes:
        unsure = counts["UNSURE"] + counts["WORSE"] + counts["UNTRIED"]
        weak = f" ({unsure} of them not likely better)" if unsure else ""
        fate = "approve the trial" if new else "end the trial"
        both = f"Approve {all_of_them}{weak} and {'the trial' if new else 'end the trial'}"
        found.append(("approve all", both))
        found.append(("approve protocol", f"Approve {all_of_them}{keep}"))
        alone = f"{fate[:1].upper()}{fate[1:]}, keep the present protocol"
        found.append(("approve trial", alone))
    elif changes:
        found.append(("approve all", f"Approve {all_of_them}"))
    else:
        found.append(("approve all", "Approve the trial" if new else "End the trial"))
    if new and runs:
        found.append(("approve end", "End the trial, keep the present protocol"))
    for word, as_good in AT_LEAST.items():
        some = [one for one in as_good if counts[one]]
        if counts[word] and (n := sum(counts[one] for one in some)) < changes:
            marked = phrases.several([f"“{LABELS[one]}”" for one in some], "or")
            found.append((f"approve {word}", f"Approve only the {n} marked {marked}{keep}"))
    if changes:
        found.append(("approve selected", f"Approve the selected changes{keep}"))
        if trial:
            also = new or "end the trial"
            found.append(("approve both", f"Approve the selected changes and {also}"))
        found.append(("postpone selected", "Postpone the selected changes"))
    found.append(("postpone all", "Postpone everything"))
    if changes:
        found.append(("forbid selected", f"Forbid a {action} in the selected places"))
    return found


def reminder(known: Known, journal: Journal, trial: dict[str, Any] | None) -> dict[str, str]:
    """The reminder that somebody ended or limited the trial, if a larger one is proposed again.

    The last limit is filled in.
    """
    limits = _limits(journal)
    began = known.precedents.began
    if trial is not None and not trial["new"] and began is not None:
        words = f"{decided(known.terms, began, known.precedents.laws)}."
        return {"said": f"This would end a trial that was approved: {words}"}
    if trial is None or not trial["new"]:
        return {}
    if (ended := known.precedents.ended) is not None:
        again = (
            f"{decided(known.terms, ended)}. The learner does not know of that. To approve the"
            " trial is to begin one again."
        )
    else:
        again = ""
    if not limits or trial["new"] <= limits[-1].facts["share"]:
        return {"said": again} if again else {}
    mark, share = limits[-1], f"{100 * limits[-1].facts['share']:g}"
    limited = (
        f"On {mark.time[:10]} {display.who(mark)} limited the trial to at most {share} % of new"
        f" {known.cases}. The learner does not know of that limit: the numbers of the proposal,"
        " also on the status page, are those without it. The next page has those with it."
    )
    return {"share": share, "said": f"{again} {limited}".strip()}


def _limits(journal: Journal) -> list[Mark]:
    """The decisions that limited a trial and that no later rollback took back."""
    found = list[Mark]()
    for mark in journal.decisions():
        if mark.kind == "rolled_back":
            to = mark.facts.get("to", 0)
            found = [one for one in found if one.facts.get("version", 0) <= to]
        elif mark.facts.get("share"):
            found.append(mark)
    return found


def why_now(journal: Journal, view: ProposalView, terms: Terms) -> str:
    """What led to a proposal; empty until that is known."""
    case = terms.word("episode")
    if journal.seq < view.event:
        return ""  # it has not read so far yet
    before = journal.before(view.event)
    if before is not None and before.seq == view.event - 1:
        if before.kind == "met" and before.role == LEDGER:
            date = f"Its date after {case} {before.facts['date']:,} passed"
            return f"{date} while an earlier proposal waited for a decision."
        if before.kind == "met":
            early = " before its next date" if before.facts.get("early") else ""
            if before.facts.get("held"):
                return f"{decided(terms, before)}{early}."
            return f"{before.actor} asked for it{early}."
        if "proposal" in before.facts:  # a decision on it
            earlier = journal.before(before.seq, "proposed")
            if earlier is not None and earlier.facts["told"] < view.told:
                due = "It became due while an earlier proposal waited"
                return f"{due}; event {before.seq} decided that one."
            return f"It is the rest of the proposal that {display.who(before)} decided on in part."
        if before.kind == "history":
            return "The history of the old protocol was imported."
        did = display.decision_words(terms, before.kind, before.facts)
        if (several := journal.in_a_row(before)) > 1:
            did = f"corrected {counted(several, 'report')}"
        return f"The learner made it again after {display.who(before)} {did}."
    return f"Its schedule allowed a change after {counted(view.told, case, 'was', 'were')} learned."
