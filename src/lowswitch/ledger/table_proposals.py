"""The proposals of a run with states: rows of a table, each with its evidence."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowswitch.checks import require_count
from lowswitch.learners.hypotheses import LARGE
from lowswitch.learners.judgement import Judgement, RowWorth
from lowswitch.learners.posterior import models_for
from lowswitch.ledger.errors import LedgerError
from lowswitch.ledger.evidence import (
    BY_INTERVAL,
    BY_WORTH,
    RULES,
    TRIAL,
    UNSURE,
    UNTRIED,
    Evidence,
    expected_false,
    improved,
    what_is_left,
    words,
)
from lowswitch.ledger.responses import AGAIN, WITHDRAWN, ProposalView
from lowswitch.policy.tables import TablePolicy, played_first
from lowswitch.review.proposals import Proposal, ProposedRow

if TYPE_CHECKING:
    from lowswitch.ledger.state import State
    from lowswitch.ledger.table_terms import TableTerms
    from lowswitch.ledger.terms import Known

_OF_WORTH = (  # of a row: what its worth says, and what depends on that
    *("verdict", "probability", "gain", "removal", "needed_with"),
    *("hangs_on_sites", "hangs_on_unsettled"),
)


class TableProposals:
    """See `terms.Proposals`."""

    rules: tuple[int, ...] = RULES

    def __init__(self, terms: TableTerms) -> None:
        self.terms = terms

    def judged(self, state: State, made: Proposal, known: Known, rule: int) -> dict[str, Any]:
        deployed = state.learner.deployed
        protocol = deployed.has_protocol
        evidence = Evidence(known.tally, deployed.actions, known.learned, protocol=protocol)
        if rule >= BY_WORTH:
            return self._by_worth(state, made, evidence, rule)
        rows = _facts(state, made, evidence, known.unsettled)
        if rule == BY_INTERVAL:
            return {"rows": [facts | evidence.by_interval(row, facts) for row, facts in rows]}
        tried = [row for row in made.rows if not evidence.untried(row)]
        chances = state.lessons.probabilities(made, tried)
        better = improved(chances, models_for(deployed.actions, len(tried)))
        found = [
            facts | evidence.by_model(row, facts, chances.get(row.row), improves=row.row in better)
            for row, facts in rows
        ]
        return {"rows": found}

    def _by_worth(
        self, state: State, made: Proposal, evidence: Evidence, rule: int
    ) -> dict[str, Any]:
        """The worth of a proposal and of its rows, by the posterior."""
        still_open, thresholds = state.open_reports(), self.terms.thresholds
        tried = {row.row for row in made.rows if not evidence.untried(row)}
        found = state.lessons.worth(made, len(tried), thresholds["worse"], rule=rule)
        worths = {} if found is None else found.rows
        models = 0 if found is None else found.judgement.models(len(tried))
        known = words([one for row, one in worths.items() if row in tried], models, thresholds)
        rows = list[dict[str, Any]]()
        for row, facts in _facts(state, made, evidence, still_open):
            word = known.get(row.row, UNSURE) if row.row in tried else UNTRIED
            if evidence.protocol and row.now[0] == row.proposed[0]:
                word = TRIAL
            rows.append(facts | evidence.by_worth(row, facts, worths.get(row.row), word))
        return {
            "unsettled": sum(still_open.values()),
            "missing": sum(n for n in state.unsettled.values() if n > 0) - sum(still_open.values()),
            "worth": None if found is None else found.worth.facts(),
            "expected_false": expected_false(rows),
            "models": models,
            "rows": rows,
        }

    def others(
        self, state: State, changes: Sequence[tuple[int, int, int]]
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """By the current posterior; without a gain if drawing models would take too long.

        This does not say which changes help one another, because people chose them together.
        """
        learner, deployed = state.learner, state.learner.deployed
        now = deployed.actions
        rows = tuple(
            ProposedRow(h, x, tuple(now[:, h, x].tolist()), (a,) * len(now)) for h, x, a in changes
        )
        made = Proposal(0, learner.told, deployed.identity, rows)
        judgement = None
        if rows and self.terms.allowed.size < LARGE:
            judgement = learner.evidence(made)
        worths, worth = dict[tuple[int, int], RowWorth](), None
        if judgement is not None:
            worth = self.in_units(judgement.worth().facts())
            worse = self.terms.thresholds["worse"]
            worths = {one.row: one for one in judgement.row_worths(tried=len(rows), worse=worse)}
        evidence = Evidence(state.tally, now, learner.told, protocol=deployed.has_protocol)
        found = list[dict[str, Any]]()
        for row, facts in _facts(state, made, evidence, state.open_reports()):
            word = UNTRIED if evidence.untried(row) else ""
            judged = evidence.by_worth(row, facts, worths.get(row.row), word)
            found.append(self.labelled(facts | judged | {"needed_with": []}))
        return found, worth

    def again(self, state: State, view: ProposalView, judgement: Judgement | None) -> ProposalView:
        """What is left of a proposal, by a judgement that compares it with the version in use.

        Without one the numbers and verdicts are withdrawn. What was seen and tried stays as
        recorded.
        """
        made, nothing = state.learner.proposal(), dict.fromkeys(("probability", "gain", "removal"))
        fixed = (UNTRIED, TRIAL)
        if judgement is None:
            blank = nothing | {"needed_with": [], "hangs_on_sites": [], "hangs_on_unsettled": False}
            rows = [
                row | blank | {"verdict": row["verdict"] if row["verdict"] in fixed else ""}
                for row in view.rows
            ]
            return dataclasses.replace(view, rows=rows, numbers=WITHDRAWN)
        tried = {(row["step"], row["state"]) for row in view.rows if not row["untried"]}
        worse, models = self.terms.thresholds["worse"], judgement.models(len(tried))
        worths = {one.row: one for one in judgement.row_worths(tried=len(tried), worse=worse)}
        known = [one for row, one in worths.items() if row in tried]
        said = words(known, models, self.terms.thresholds)
        deployed, found = state.learner.deployed, list[dict[str, Any]]()
        evidence = Evidence(
            *(state.tally, deployed.actions, state.learner.told), protocol=deployed.has_protocol
        )
        facts = _facts(state, made, evidence, state.open_reports())
        judged = {row.row: (row, known) for row, known in facts}
        for row in view.rows:
            key = row["step"], row["state"]
            word = row["verdict"] if row["verdict"] in fixed else said.get(key, UNSURE)
            new = self.labelled(
                judged[key][1] | evidence.by_worth(*judged[key], worths.get(key), word)
            )
            found.append(row | {name: new[name] for name in _OF_WORTH})
        found.sort(key=lambda row: -row["gain"]["mean"] if row["gain"] else 0.0)
        return dataclasses.replace(
            view,
            rows=found,
            worth=self.in_units(judgement.worth().facts()),
            expected_false=expected_false(found),
            models=models,
            numbers=AGAIN,
        )

    def left(self, last: dict[str, Any] | None, made: Proposal) -> dict[str, Any] | None:
        return what_is_left(last, made)

    def read(self, payload: dict[str, Any]) -> Proposal:
        rows = tuple(
            ProposedRow(row["step"], row["state"], tuple(row["from"]), tuple(row["to"]))
            for row in payload["rows"]
        )
        return Proposal(payload["raised"], payload["told"], payload["base"], rows)

    # ---- decisions -------------------------------------------------------------------------------

    def keys(self, rows: list[list[int]]) -> list[tuple[int, int]]:
        return [(step, state) for step, state in rows]

    def chosen(self, pending: dict[str, Any], rows: Sequence[Any] | None) -> list[list[int]]:
        proposed = [[row["step"], row["state"]] for row in pending["rows"]]
        if rows is None:
            return proposed
        index = self.terms.index
        chosen = [[index("step", step), index("state", state)] for step, state in rows]
        for step, state in chosen:
            if [step, state] not in proposed:
                raise LedgerError(f"row {self.terms.row_name(step, state)} is not proposed")
        if not chosen:
            raise LedgerError("no row is chosen; choose those that you decide on")
        if len({tuple(row) for row in chosen}) < len(chosen):
            raise LedgerError("a row is chosen twice; name each one once")
        return chosen

    def require_rejection(
        self,
        pending: dict[str, Any],
        rows: list[list[int]],
        forever: bool,
        visits: Any,
        actions: list[int] | None,
    ) -> None:
        for row in pending["rows"] if forever else []:
            if [row["step"], row["state"]] in rows:
                self._require_new(row, actions)
        if visits is not None:
            require_count("visits", visits)
            if forever:
                raise LedgerError(
                    "a permanent rejection takes no visits=; leave one of the two out"
                )

    def _require_new(self, row: dict[str, Any], actions: list[int] | None) -> None:
        """Check that a row would newly play the actions to forbid, without ambiguity."""
        new, names = sorted({*row["to"]} - {*row["from"]}), self.terms.labels["action"]
        name, found = self.terms.row_name(row["step"], row["state"]), [names[a] for a in new]
        if not new:
            raise LedgerError(
                f"row {name} would play the same actions with other probabilities, so there is no"
                " action to forbid; reject it for now, or forbid a deployed action with forbid"
            )
        if actions is None and len(new) > 1:
            raise LedgerError(
                f"row {name} would newly play {', '.join(found)}; name those that you forbid with"
                " actions=, which is --forbid on the command line"
            )
        if actions is not None and not {*actions} <= {*new}:
            raise LedgerError(
                f"row {name} would newly play {', '.join(found)}, and not all of"
                f" {', '.join(names[a] for a in actions)}; to forbid other actions, use forbid"
            )

    # ---- vetoes ----------------------------------------------------------------------------------

    def veto(self, rows: Sequence[tuple[Any, Any]] | None, actions: list[int]) -> dict[str, Any]:
        index, terms = self.terms.index, self.terms
        keys = {(index("step", step), index("state", state)) for step, state in rows or ()}
        if not keys:
            raise LedgerError("no row is chosen; choose those that you decide on")
        for step, state in sorted(keys):
            for action in actions:
                if not terms.allowed[step, state, action]:
                    raise LedgerError(
                        f"{terms.labels['action'][action]} was forbidden in row"
                        f" {terms.row_name(step, state)} when this ledger was created"
                    )
        return {"rows": [list(key) for key in sorted(keys)], "actions": actions}

    def require_vetoable(self, state: State, payload: dict[str, Any]) -> None:
        names, instead = self.terms.labels["action"], payload.get("instead")
        for row in payload["rows"]:
            step, place = row
            where = f"{self.terms.labels['state'][place]}, {self.terms.labels['step'][step]}"
            allowed = self.allowed_in(state.learner.actions_allowed, row)
            left = [
                a for a in range(self.terms.actions) if allowed[a] and a not in payload["actions"]
            ]
            if not left:
                raise LedgerError(
                    f"no {self.terms.word('action')} would be left for {where}; leave at least one"
                )
            played = state.versions[-1].actions[0, step, place]
            if played in payload["actions"] and instead not in left:
                choices = ", ".join(names[a] for a in left)
                raise LedgerError(
                    f"{names[played]} is given for {where} now; choose what to give instead:"
                    f" {choices}"
                )
        if instead is not None and not self.replaced(state.versions[-1], payload):
            forbidden = " or ".join(names[a] for a in payload["actions"])
            raise LedgerError(
                f"{forbidden} is not given there now, so {names[instead]} would replace nothing;"
                " leave the replacement out"
            )

    def allowed_in(self, allowed: np.ndarray, row: list[int]) -> np.ndarray:  # [A]
        step, place = row
        return np.asarray(allowed[step, place])

    def row_name(self, row: list[int]) -> str:
        step, place = row
        return f"row {self.terms.row_name(step, place)}"

    def plays(self, policy: TablePolicy, payload: dict[str, Any]) -> bool:
        return any(
            action in payload["actions"]
            for step, state in payload["rows"]
            for action in policy.actions[:, step, state].tolist()
        )

    def replaced(self, policy: TablePolicy, payload: dict[str, Any]) -> list[Any]:
        return list(played_first(policy.actions, payload["rows"], payload["actions"]))

    # ---- reading ---------------------------------------------------------------------------------

    def labelled(self, row: dict[str, Any]) -> dict[str, Any]:
        labels, names = self.terms.labels, self.terms.labels["action"]
        labelled = row | {
            "step_label": labels["step"][row["step"]],
            "state_label": labels["state"][row["state"]],
            "now": self._side(row, row["now"]),
            "proposed": self._side(row, row["proposed"]),
        }
        if "untried" in row:  # which an older rule did not record
            labelled["untried"] = [names[action] for action in row["untried"]]
        if "tries" in row:
            labelled["tries"] = {
                names[int(action)]: tried for action, tried in row["tries"].items()
            }
            labelled |= {name: self._amounts(row[name]) for name in ("gain", "removal")}
            labelled["needed_with"] = [
                f"{labels['step'][h]}, {labels['state'][x]}" for h, x in row["needed_with"]
            ]
        return labelled

    def in_units(self, worth: dict[str, Any] | None) -> dict[str, Any] | None:
        return worth and {name: self._amounts(gain) for name, gain in worth.items()}

    def _amounts(self, gain: dict[str, Any] | None) -> dict[str, Any] | None:
        """A gain in the run's units of reward."""
        if gain is None:
            return None
        amount = self.terms.amount
        ends = {name: [amount(end) for end in gain[name]] for name in ("within_80", "within_95")}
        return gain | {"mean": amount(gain["mean"])} | ends

    def _side(self, row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        """The facts about one side of a row, in the run's words and units."""
        terms, names = self.terms, self.terms.labels["action"]
        law = {names[int(action)]: share for action, share in known["law"].items()}
        low = terms.rewards[0] * (terms.horizon - row["step"])
        bounds = known["bounds"]
        if not known["visits"] + known["unsettled"]:  # it may be worth anything
            bounds = [0.0, terms.horizon - row["step"]]
        amounts = {
            "estimate": low + terms.amount(known["estimate"]),
            "width": terms.amount(known["width"]),
            "bounds": [low + terms.amount(bound) for bound in bounds],
        }
        return known | {"law": law} | amounts


def _facts(
    state: State, made: Proposal, evidence: Evidence, unsettled: Counter[int]
) -> list[tuple[ProposedRow, dict[str, Any]]]:
    """The rows of a proposal with the facts about them, without verdicts."""
    versions = [version.actions for version in state.versions]
    found = list[tuple[ProposedRow, dict[str, Any]]]()
    for row in made.rows:
        before = list(state.decisions.get(row.row, []))  # which goes on growing
        change = {"from": list(row.now), "to": list(row.proposed), "before": before}
        found.append((row, evidence.row(row, unsettled, versions) | change))
    return found
