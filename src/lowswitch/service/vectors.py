"""The pages of a run with features: kinds of cases in place of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.responses import Response

from lowswitch.ledger import LedgerError, ProposalView
from lowswitch.ledger.feature_terms import FeatureTerms
from lowswitch.ledger.terms import Terms
from lowswitch.ledger.text import (
    describe,
    guess_words,
    moved,
    never_given,
    newly_given,
    percent,
    region_notes,
    region_tries,
    usual_words,
)
from lowswitch.service import effects, phrases
from lowswitch.service.app import Call
from lowswitch.service.bodies import query
from lowswitch.service.effects import Known
from lowswitch.service.render import show

_MOST_LISTED = 200  # columns of a form
_RARE = 0.01  # a share of an action that is not named


def proposal_facts(known: Known, view: ProposalView) -> dict[str, Any]:
    """The content of the page of a proposal: the whole, kinds of cases, and single cases."""
    row, gains = view.rows[0], known.worth or {}
    regions = row.get("regions", [])
    said = [one["verdict"] for one in regions]
    return {
        "row": row,
        "title": effects.proposal_title(known, row),
        "protocol": known.protocol,
        "trial": _trial(known, row) if known.protocol and "trial" in row else None,
        "per_such": phrases.per_such(known.terms),
        "drift": phrases.drift_words(row["drift"], known.terms) if "drift" in row else "",
        "lines": [_line(one, known.terms) for one in regions],
        "counts": {word: said.count(word) for word in phrases.LABELS if word in said},
        "worth": {name: phrases.gain_words(gain, known.terms) for name, gain in gains.items()},
        "described": row.get("fidelity"),
        "elsewhere": _elsewhere(row) if known.protocol else 0.0,
        "untried": sum(one["share"] for one in regions if one["verdict"] == "UNTRIED"),
        "unread": effects.unread(known, view),
        "cases": [_case(one, known.terms) for one in row.get("affected", [])],
        "options": _options(known, row),
    }


def _elsewhere(row: dict[str, Any]) -> float:
    """The share of all cases that change and are in none of the kinds named first."""
    named = [one for one in row.get("regions", []) if one["usual"] is not None]
    listed = sum(one["share"] * newly_given(one) for one in named)
    return float(max(0.0, row.get("usual_changes", 0.0) - listed))


def _trial(known: Known, row: dict[str, Any]) -> dict[str, Any]:
    """The trial of a proposal: its share, who would receive what, and its cost."""
    facts, cost = row["trial"], (known.worth or {}).get("trial")
    kinds = [
        {
            "where": one["where"],
            "new": moved_law(one["alternatives"]),
            "first": [
                name
                for name, share in one["alternatives"].items()
                if share >= _RARE and not one["tries"][name]
            ],
        }
        for one in row.get("regions", [])
        if moved_law(one["alternatives"])
    ]
    return {
        "now": facts["now"],
        "new": facts["proposed"],
        "departs": facts["departs"],
        "kinds": kinds,
        "first": facts["proposed"] * sum(map(_first_share, row.get("regions", []))),
        "lines": phrases.kinds_in_trial(known.terms, row) if facts["proposed"] else [],
        "guess": guess_words(never_given(row)),
        "cost": None if cost is None else phrases.more(cost["mean"], known.terms),
        "within": None if cost is None else phrases.within(cost, known.terms),
    }


def _first_share(one: dict[str, Any]) -> float:
    """The share of the trial's cases that get what no case of their kind received."""
    new = (share for name, share in one["alternatives"].items() if not one["tries"][name])
    return float(one["share"] * sum(new))


def _line(one: dict[str, Any], terms: Terms) -> dict[str, str]:
    """One kind of cases in words."""
    gain = one["gain"]
    old, new = ("", "") if one["usual"] is None else one["usual"]
    return {
        "where": one["where"],
        "share": f"{100 * one['share']:.0f} %",
        "cases": f"{one['cases']:,}",
        "old": old,
        "new": new,
        "of_them": "" if one["usual"] is None else f"{100 * newly_given(one):.0f} %",
        "stays": usual_words(one),
        "moved": moved(one),
        "tries": region_tries(one),
        "gain": "" if gain is None else phrases.amount(gain["mean"], terms),
        "these": "" if gain is None else phrases.among_these(one, terms),
        "between": "" if gain is None else phrases.within(gain, terms),
        "sure": "" if one["probability"] is None else percent(one["probability"]),
        "verdict": one["verdict"] or "",
        "note": "; ".join(region_notes(one)),
    }


def _case(one: dict[str, Any], terms: Terms) -> dict[str, str]:
    """One logged case in words."""
    return {
        "case": describe(one["context"]),
        "moved": moved(one),
        "played": f"{one['played']}, {one['paid']:.4g}",
        "gain": phrases.amount(one["gain"]["mean"], terms),
        "between": phrases.within(one["gain"], terms),
    }


def _options(known: Known, row: dict[str, Any]) -> list[tuple[str, str]]:
    """The decisions to choose from; the page before the last one says what each would change."""
    forbid = ("forbid all", f"Forbid a {known.terms.word('action')} for all {known.cases}")
    if not known.protocol:
        return [
            ("approve all", "Approve the new policy"),
            ("postpone all", "Postpone the new policy"),
            forbid,
        ]
    ends = effects.proposal_title(known, row) == "The end of the trial"
    found = [("approve all", "End the trial" if ends else "Approve the trial")]
    if row.get("usual_changes", 1):
        found = [
            ("approve all", "Approve the new protocol and the trial"),
            ("approve protocol", "Approve the new protocol, keep the present trial"),
            ("approve trial", "Approve the trial, keep the present protocol"),
        ]
    return [*found, ("postpone all", "Postpone everything"), forbid]


async def difference(call: Call, old: int, new: int) -> Response:
    """The kinds of cases in which two versions differ."""
    ledger = call.service.ledger
    found = await call.service.engine.call(lambda: ledger.kinds(old, new))
    rows = [
        {"where": one["where"], "share": f"{100 * one['share']:.0f} %", "moved": moved(one)}
        for one in found["regions"]
        if one["changed"]
    ]
    shares = [None if one is None else f"{100 * one:.0f} %" for one in found["trial"]]
    facts = {"old": old, "new": new, "rows": rows, "changed": found["changed"], "trial": shares}
    return await show(call, "feature_difference.html", "timeline", **facts)


async def policy_page(call: Call, terms: FeatureTerms) -> Response:
    """The deployed policy as kinds of cases, and the action for a case that somebody types."""
    asked = query(call.request, *(f"x{i}" for i in range(len(terms.columns[:_MOST_LISTED]))))
    ledger = call.service.ledger
    typed = [asked.get(f"x{i}", "") for i in range(len(terms.columns))]
    found = await call.service.engine.call(ledger.kinds)
    wrong, law = "", dict[str, float]()
    if any(typed):
        try:
            law = await call.service.engine.call(lambda: ledger.law(_context(terms, typed)))
        except LedgerError as error:
            wrong = f"{error}."
    return await show(
        call,
        "feature_map.html",
        "map",
        400 if wrong else 200,
        kinds=[one | {"law": moved_law(one["now"])} for one in found["regions"]],
        fidelity=found["fidelity"],
        logged=found["cases"],
        version=ledger.version,
        columns=list(zip(terms.columns, typed, strict=True))[:_MOST_LISTED],
        law=sorted(law.items(), key=lambda pair: -pair[1]),
        wrong=wrong,
        forbidden=found["forbidden"],
        share=found["trial"][1],
    )


def moved_law(shares: dict[str, float]) -> str:
    """How often each action is played, the most frequent first."""
    ordered = sorted(shares.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in ordered if share >= _RARE)


def _context(terms: FeatureTerms, typed: list[str]) -> Any:
    """The context of a case that somebody typed."""
    values = list[float]()
    for column, text in zip(terms.columns, typed, strict=True):
        try:
            values.append(float(text.replace(",", ".")))
        except ValueError:
            raise LedgerError(f"{column.name} must be a number, not {text!r}") from None
    shape = (terms.features,) if terms.shared else (terms.actions, terms.features)
    return np.array(values).reshape(shape)
